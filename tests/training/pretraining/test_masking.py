"""Masking: the rate that it says, by tokens and by words, and the same for a draw wherever and whenever it is drawn."""

import math

import datasets
import pytest
import torch

from attentune.training.pretraining import Frame, Masking, packed, tokenized
from attentune.training.pretraining.masking import IGNORED
from attentune.training.pretraining.recipe import MaskingRecipe, NewModel
from attentune.training.pretraining.vocabulary import tokenizer_of, train_vocabulary

LINE = "slowly moving rivers under ancient bridges carry unforgettable reflections of passing travellers"


@pytest.fixture(params=["roberta", "bert", "modernbert"])
def architecture(request):
    return request.param


@pytest.fixture
def blocks(architecture):
    """A tokenizer of few tokens, so that words have several, and blocks of text."""
    new = NewModel(architecture=architecture, vocab_size=300)
    documents = datasets.Dataset.from_dict({"text": [LINE] * 40})
    half = datasets.Dataset.from_dict({"text": [LINE[:40]]})
    tokenizer = tokenizer_of(new, train_vocabulary(new, half), 128)
    return tokenizer, packed(tokenized(documents, tokenizer, offsets=True), Frame.of(tokenizer), 128)


def drawn(blocks, recipe, draws, seed=0):
    tokenizer, rows = blocks
    masking = Masking(tokenizer, recipe, seed)
    return masking([{**rows[draw % len(rows)], "draw": draw} for draw in draws])


@pytest.mark.parametrize("rate", [0.15, 0.4])
@pytest.mark.parametrize("whole_word", [False, True])
def test_the_rate_is_what_it_says(blocks, rate, whole_word):
    tokenizer, rows = blocks
    batch = drawn(blocks, MaskingRecipe(rate=rate, whole_word=whole_word), range(400))
    ids = torch.nn.utils.rnn.pad_sequence(
        [torch.tensor(rows[d % len(rows)]["input_ids"]) for d in range(400)], True, -1
    )
    text = (ids >= 0) & ~torch.isin(ids, torch.tensor(tokenizer.all_special_ids))
    told = batch["labels"] != IGNORED
    assert not (told & ~text).any()
    assert torch.equal(batch["labels"][told], ids[told])
    count = int(text.sum()) / (7 if whole_word else 1)  # a word has so many tokens, about, and is drawn once
    assert float(told.sum() / text.sum()) == pytest.approx(rate, abs=5 * math.sqrt(rate * (1 - rate) / count))
    masked = batch["input_ids"] == tokenizer.mask_token_id
    assert not (masked & ~told).any()
    if whole_word:
        assert torch.equal(masked, told)
    else:
        assert float(masked.sum() / told.sum()) == pytest.approx(0.8, abs=0.05)
        changed = told & ~masked & (batch["input_ids"] != ids)
        assert float(changed.sum() / told.sum()) == pytest.approx(0.1, abs=0.04)
    assert torch.equal(batch["input_ids"][text & ~told], ids[text & ~told])


def test_whole_words_are_masked_whole(blocks):
    tokenizer, rows = blocks
    batch = drawn(blocks, MaskingRecipe(rate=0.3, whole_word=True), range(50))
    several = 0
    for draw in range(50):
        row = rows[draw % len(rows)]
        told = (batch["labels"][draw] != IGNORED).tolist()
        words, before = [], None
        for place, (token, (start, stop)) in enumerate(zip(row["input_ids"], row["offset_mapping"], strict=True)):
            if token in tokenizer.all_special_ids:
                before = None
                continue
            if before is None or start != before:
                words.append([])
            words[-1].append(told[place])
            before = stop
        assert all(all(word) or not any(word) for word in words)
        several += sum(len(word) > 1 and all(word) for word in words)
    assert several > 20  # there were words of several tokens to tell it by


def test_a_draw_is_the_same_in_any_batch_and_after_any_other(blocks):
    recipe = MaskingRecipe()
    whole = drawn(blocks, recipe, [3, 4, 5])
    torch.rand(7)
    alone = drawn(blocks, recipe, [4])
    length = alone["input_ids"].shape[1]
    assert torch.equal(whole["input_ids"][1, :length], alone["input_ids"][0])
    assert torch.equal(whole["labels"][1, :length], alone["labels"][0])


def test_another_epoch_or_seed_masks_otherwise(blocks):
    recipe, rows = MaskingRecipe(), len(blocks[1])
    first = drawn(blocks, recipe, [2])["labels"]
    assert not torch.equal(first, drawn(blocks, recipe, [2 + rows])["labels"])
    assert not torch.equal(first, drawn(blocks, recipe, [2], seed=1)["labels"])


def test_drawing_leaves_the_usual_random_numbers_alone(blocks):
    before = torch.get_rng_state()
    drawn(blocks, MaskingRecipe(), range(5))
    assert torch.equal(torch.get_rng_state(), before)


def test_a_random_token_is_never_special(blocks):
    """A [CLS] or [SEP] by chance would begin or end a document where there is none."""
    tokenizer, rows = blocks
    masking = Masking(tokenizer, MaskingRecipe(rate=0.9), 0)
    masking.own.mask_replace_prob, masking.own.random_replace_prob = 0.0, 1.0
    special = torch.tensor([token for token in tokenizer.all_special_ids if token != tokenizer.mask_token_id])
    seen = 0
    for draw in range(200):
        row = rows[draw % len(rows)]
        batch = masking([{**row, "draw": draw}])
        told = batch["labels"][0] != IGNORED
        assert not torch.isin(batch["input_ids"][0][told], special).any()
        seen += int(told.sum())
    assert seen > 10_000  # of 300 tokens, 5 are special: by chance there would have been some hundred
