"""Masked copies of texts: how many, of which, and which of their tokens; never special ones, never padding."""

import numpy as np
import pytest
import torch

from attentune.errors import UserError
from attentune.methods import MaskAug, Sum
from attentune.methods.epochs import Epochs
from attentune.methods.masking import MaskedCopies, choose_rows, masked
from attentune.methods.tokens import TokenKinds

KINDS = TokenKinds(special=(0, 1, 2))
PAIR = {"input_ids": [1, 11, 12, 2, 13, 14, 15, 2]}


def draw(rows, chosen, rate=0.3, seed=0):
    return MaskedCopies.draw(rows, np.array(chosen), KINDS, rate, np.random.default_rng(seed))


@pytest.mark.parametrize("gamma", [0.05, 0.6, 1.0, 1.5, 2.0])
def test_gamma_is_the_number_of_copies_for_each_text(gamma):
    chosen = choose_rows(40, gamma, np.random.default_rng(0))
    times = np.bincount(chosen, minlength=40)
    assert times.sum() == round(gamma * 40)
    assert set(times) <= {int(gamma), int(gamma) + 1}
    assert (np.diff(chosen) >= 0).all()


def test_a_share_of_the_tokens_is_masked_and_at_least_one():
    rows = [{"input_ids": [1, *range(11, 11 + n), 2]} for n in range(1, 21)]
    copies = draw(rows, range(20))
    for n, count in enumerate(np.diff(copies.offset), start=1):
        assert count == max(1, int(0.3 * n + 0.5))
    assert (np.diff(draw(rows, range(20), rate=1.0).offset) == np.arange(1, 21)).all()


def test_special_tokens_and_padding_are_never_masked_whatever_is_drawn():
    padded = {"input_ids": [0, 0, 1, 11, 12, 2, 0], "attention_mask": [0, 0, 1, 1, 1, 1, 0]}
    seen = set()
    for seed in range(40):
        copies = draw([PAIR, padded], [0, 1], seed=seed)
        for copy, row in enumerate((PAIR, padded)):
            ids = masked(row, copies.positions(copy), mask_token=4)["input_ids"]
            changed = [i for i, (new, old) in enumerate(zip(ids, row["input_ids"], strict=True)) if new != old]
            assert changed
            assert all(ids[i] == 4 for i in changed)
            seen |= {row["input_ids"][i] for i in changed}
    assert seen == {11, 12, 13, 14, 15}  # each word of either text, in the end


@pytest.mark.parametrize("kind", [list, np.array, torch.tensor])
def test_a_masked_row_is_of_the_kind_that_it_was(kind):
    row = {"input_ids": kind(PAIR["input_ids"]), "labels": 1}
    ids = masked(row, np.array([1, 6]), mask_token=4)["input_ids"]
    assert type(ids) is type(row["input_ids"])
    assert list(ids) == [1, 4, 12, 2, 13, 14, 4, 2]
    assert list(row["input_ids"]) == PAIR["input_ids"]


def test_a_text_of_special_tokens_alone_has_no_copy():
    assert draw([{"input_ids": [1, 2]}, PAIR], [0, 0, 1]).row.tolist() == [1]


def test_the_same_seed_draws_the_same_and_another_differs():
    rows = [PAIR] * 30
    first, again, other = (draw(rows, range(30), seed=seed).position.tolist() for seed in (0, 0, 1))
    assert first == again != other


def test_copies_outlive_a_file():
    copies = draw([PAIR] * 5, [0, 0, 2, 4])
    back = MaskedCopies.from_tensors(copies.to_tensors())
    assert [list(back.of(row)) for row in range(5)] == [[0, 1], [], [2], [], [3]]
    assert all((back.positions(n) == copies.positions(n)).all() for n in range(4))
    with pytest.raises(UserError, match="damaged"):
        MaskedCopies.from_tensors({**copies.to_tensors(), "offset": torch.tensor([0, 1])})


ROWS = [{"input_ids": [1, *range(5, 5 + n), 2], "labels": n % 2} for n in (3, 4, 6, 9)]


def brought(method, tokenizer, numbers, epoch=0, pad_left=False, seed=0):
    """The ids that go into the model for some rows, of texts and copies."""
    epochs = Epochs(Sum((method,)), tokenizer)
    again = method.extra_rows(len(ROWS), seed)
    nothing = {"collate": dict, "label": "labels", "batch_size": 4, "progress": lambda done, total: None}
    epochs.begin(torch.nn.Linear(1, 1), epoch, ROWS, seed=seed, **nothing)
    texts = [ROWS[n if n < len(ROWS) else again[n - len(ROWS)]]["input_ids"] for n in numbers]
    width = max(map(len, texts)) + 2
    rows = [[0] * (width - len(t)) + t if pad_left else t + [0] * (width - len(t)) for t in texts]
    ids = torch.tensor(rows)
    given, inputs = epochs.bring(torch.tensor(numbers), {"input_ids": ids, "attention_mask": (ids != 0).long()})
    assert given == {"maskaug": None}
    return ids, inputs["input_ids"]


@pytest.mark.parametrize("pad_left", [False, True])
def test_maskaug_masks_the_copies_and_leaves_the_texts(tiny_tokenizer, pad_left):
    method = MaskAug(1.5)
    assert len(method.extra_rows(4, 0)) == 6
    ids, masked_ids = brought(method, tiny_tokenizer, list(range(10)), pad_left=pad_left)
    assert torch.equal(masked_ids[:4], ids[:4])
    changed = masked_ids != ids
    for row in range(4, 10):
        words = int((ids[row] > 4).sum())
        assert int(changed[row].sum()) == max(1, int(0.3 * words + 0.5))
    assert (masked_ids[changed] == tiny_tokenizer.mask_token_id).all()
    assert (ids[changed] > 4).all()


def test_maskaug_masks_other_words_in_each_epoch_and_the_same_in_each_run(tiny_tokenizer):
    method, numbers = MaskAug(1.0), list(range(4, 8))
    first, again, next_epoch = (brought(method, tiny_tokenizer, numbers, epoch)[1] for epoch in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, next_epoch)


@pytest.mark.parametrize("wrong", [{"gamma": 0}, {"gamma": "1"}, {"mask_rate": 0}, {"mask_rate": 1.5}, {"gamma": True}])
def test_parameters_are_checked(wrong):
    with pytest.raises(UserError, match=r"gamma|mask_rate"):
        MaskAug(**wrong)
