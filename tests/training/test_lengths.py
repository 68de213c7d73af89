"""No text is longer than the model takes, whatever is asked for, and padding doesn't make it so."""

import pytest
import torch

from attentune.tasks import from_files
from attentune.training import Predictor
from attentune.training.encoding import encode
from attentune.training.lengths import longest_length, padding_multiple

POSITIONS = 21  # no multiple of eight


@pytest.fixture
def long_task(tmp_path):
    file = tmp_path / "long.tsv"
    rows = [f"{'a fine film ' * n}\t{label}" for n in (1, 2, 30) for label in ("good", "bad")]
    file.write_text("\n".join(["text\tlabel", *rows]) + "\n")
    return from_files(file)


@pytest.mark.parametrize(
    ("name", "taken"), [("bert", 21), ("albert", 21), ("distilbert", 21), ("electra", 21), ("modernbert", 21), ("llama", 21),
                        ("roberta", 20)]
)  # fmt: skip
def test_the_longest_text_fits_the_model_and_one_token_more_is_not_taken_for_granted(
    tiny_model, tiny_tokenizer, name, taken
):
    model = tiny_model(name, max_position_embeddings=POSITIONS)
    tiny_tokenizer.model_max_length = 10**30
    assert longest_length(model, tiny_tokenizer, 128) == taken
    assert longest_length(model, tiny_tokenizer, 7) == 7
    ids = torch.full((1, taken), 5)
    assert model(input_ids=ids, attention_mask=torch.ones_like(ids)).logits.isfinite().all()


def test_robertas_positions_begin_behind_that_of_padding(tiny_model, tiny_tokenizer):
    tiny_tokenizer.model_max_length = 10**30
    model = tiny_model("roberta", max_position_embeddings=POSITIONS, pad_token_id=1)
    longest = longest_length(model, tiny_tokenizer, 128)
    assert longest == POSITIONS - 2
    model(input_ids=torch.full((1, longest), 5))
    with pytest.raises((IndexError, RuntimeError)):
        model(input_ids=torch.full((1, longest + 1), 5))


def test_the_tokenizers_own_limit_holds_too(tiny_model, tiny_tokenizer):
    tiny_tokenizer.model_max_length = 16
    assert longest_length(tiny_model(), tiny_tokenizer, 128) == 16


def test_padding_stays_within_what_the_model_takes(tiny_model, tiny_tokenizer):
    model = tiny_model(max_position_embeddings=POSITIONS)
    assert padding_multiple(model, tiny_tokenizer, 21) is None
    assert padding_multiple(model, tiny_tokenizer, 16) == 8
    assert padding_multiple(model, tiny_tokenizer, 9) == 8


@pytest.mark.parametrize("name", ["bert", "roberta"])
def test_batches_of_cut_texts_run_through_the_model_and_the_note_counts_them(
    tiny_model, tiny_tokenizer, long_task, name
):
    model = tiny_model(name, max_position_embeddings=POSITIONS)
    encoded = encode(long_task, model, tiny_tokenizer, 128)
    taken = longest_length(model, tiny_tokenizer, 128)
    cut = sum(n == taken for n in encoded.train["length"])
    columns = ["input_ids", "attention_mask", "labels"]
    batch = encoded.collator([{key: row[key] for key in columns} for row in encoded.train])
    assert batch["input_ids"].shape[1] == taken
    assert model(**batch).loss.isfinite()
    assert encoded.note.startswith(f"length: at most {taken} tokens, all that the model takes (128 were asked for); ")
    assert f"{cut} of {len(encoded.train)} train texts" in encoded.note


def test_where_nothing_is_cut_there_is_no_note(tiny_model, tiny_tokenizer, long_task):
    short = long_task.sample()
    kept = {name: rows.filter(lambda row: len(row["text"]) < 50) for name, rows in short.splits.items()}
    short.splits.update(kept)
    assert encode(short, tiny_model(), tiny_tokenizer, 64).note is None


def test_predictions_are_cut_alike_and_counted(tiny_model, tiny_tokenizer):
    model = tiny_model(max_position_embeddings=POSITIONS)
    predictor = Predictor(model, tiny_tokenizer, 128, "fp32")
    answers = list(predictor.stream([("a fine film " * 30, None), ("a bore", None)]))
    assert len(answers) == 2
    assert predictor.cut == 1
