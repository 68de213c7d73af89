"""The equations of self-supervised attention, against plain loops over the paper's."""

import math

import pytest
import torch
from torch.autograd import gradcheck

from attentune.errors import UserError
from attentune.functional import ssa_loss, ssa_vector


def drawn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


LABELS = torch.tensor([[-1, 1, 0, -1, 0], [-1, 0, -1, 1, 1], [-1, -1, -1, -1, -1]])
MASK = torch.tensor([[0, 1, 1, 1, 0], [0, 1, 1, 0, 0], [0, 1, 1, 1, 1]], dtype=torch.bool)


def loss_by_loops(logits, copies_of):
    """−log of the softmax at the label, for each label of each copy; and the mean."""
    surprises = []
    for text, copies in zip(logits.tolist(), copies_of, strict=True):
        for labels in copies:
            for (no, yes), label in zip(text, labels, strict=True):
                if label in (0, 1):
                    chosen = math.exp(yes if label == 1 else no)
                    surprises.append(-math.log(chosen / (math.exp(no) + math.exp(yes))))
    return sum(surprises) / len(surprises)


def vector_by_loops(sentence, tokens, scores, beta, counts):
    out = []
    for b in range(len(tokens)):
        kept = [i for i in range(tokens.shape[1]) if counts[b][i]]
        total = sum(math.exp(scores[b, i].item()) for i in kept)
        row = []
        for w in range(tokens.shape[2]):
            weighted = sum(math.exp(scores[b, i].item()) / total * tokens[b, i, w].item() for i in kept)
            row.append(beta * sentence[b, w].item() + (1 - beta) * weighted)
        out.append(row)
    return torch.tensor(out, dtype=torch.float64)


def test_the_loss_is_the_cross_entropy_over_labelled_tokens():
    logits = drawn(3, 5, 2)
    expected = loss_by_loops(logits, [[row] for row in LABELS.tolist()])
    assert ssa_loss(logits, LABELS).item() == pytest.approx(expected, abs=1e-12)


def test_each_label_of_each_copy_counts():
    logits = drawn(3, 5, 2)
    others = torch.tensor([[-1, 0, 0, 1, -1], [-1, -1, -1, -1, -1], [-1, 1, -1, -1, 0]])
    copies = torch.stack([LABELS, others], dim=1)
    assert ssa_loss(logits, copies).item() == pytest.approx(loss_by_loops(logits, copies.tolist()), abs=1e-12)


def test_what_has_no_label_changes_neither_loss_nor_gradient():
    logits = drawn(3, 5, 2).requires_grad_()
    ssa_loss(logits, LABELS).backward()
    padded = torch.full((3, 8, 2), float("nan"), dtype=torch.float64)
    padded[:, :5] = logits.detach()
    padded.requires_grad_()
    labels = torch.full((3, 8), -1)
    labels[:, :5] = LABELS
    loss = ssa_loss(padded, labels)
    loss.backward()
    torch.testing.assert_close(loss, ssa_loss(logits, LABELS), rtol=0, atol=1e-14)
    torch.testing.assert_close(padded.grad[:, :5], logits.grad, rtol=0, atol=1e-14)
    assert torch.equal(padded.grad[:, 5:], torch.zeros(3, 3, 2, dtype=torch.float64))


def test_without_any_label_loss_and_gradient_are_zero():
    logits = drawn(2, 4, 2).requires_grad_()
    loss = ssa_loss(logits, torch.full((2, 4), -1))
    loss.backward()
    assert loss.item() == 0
    assert torch.equal(logits.grad, torch.zeros_like(logits))


def test_the_vector_is_eq_1():
    sentence, tokens, scores = drawn(3, 4), drawn(3, 5, 4, seed=1), drawn(3, 5, seed=2)
    for beta in (0.0, 0.2, 1.0):
        for mask in (None, MASK):
            counts = (torch.ones(3, 5) if mask is None else mask).tolist()
            found = ssa_vector(sentence, tokens, scores, beta=beta, mask=mask)
            expected = vector_by_loops(sentence, tokens, scores, beta, counts)
            torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


def test_several_vectors_of_a_text_get_the_same_sum():
    sentence, tokens, scores = drawn(3, 2, 4), drawn(3, 5, 4, seed=1), drawn(3, 5, seed=2)
    found = ssa_vector(sentence, tokens, scores, beta=0.3, mask=MASK)
    for n in range(2):
        expected = vector_by_loops(sentence[:, n], tokens, scores, 0.3, MASK.tolist())
        torch.testing.assert_close(found[:, n], expected, rtol=0, atol=1e-12)


def test_what_is_left_out_of_the_vector_may_be_anything():
    tokens, scores = drawn(1, 3, 2), drawn(1, 3)
    padded = torch.cat([tokens, torch.full((1, 2, 2), float("nan"), dtype=torch.float64)], dim=1).requires_grad_()
    more = torch.cat([scores, torch.full((1, 2), float("inf"), dtype=torch.float64)], dim=1)
    mask = torch.tensor([[1, 1, 1, 0, 0]])
    found = ssa_vector(torch.zeros(1, 2).double(), padded, more, beta=0.5, mask=mask)
    found.sum().backward()
    torch.testing.assert_close(found, ssa_vector(torch.zeros(1, 2).double(), tokens, scores, beta=0.5))
    assert torch.equal(padded.grad[:, 3:], torch.zeros(1, 2, 2).double())


def test_a_text_without_tokens_that_count_keeps_its_share_of_the_sentence():
    sentence = drawn(1, 4)
    found = ssa_vector(sentence, drawn(1, 3, 4), drawn(1, 3), beta=0.3, mask=torch.zeros(1, 3))
    torch.testing.assert_close(found, 0.3 * sentence)


def test_gradients_are_right():
    assert gradcheck(lambda z: ssa_loss(z, LABELS), (drawn(3, 5, 2).requires_grad_(),))
    inputs = tuple(x.requires_grad_() for x in (drawn(3, 4), drawn(3, 5, 4, seed=1), drawn(3, 5, seed=2)))
    assert gradcheck(lambda r, x, y: ssa_vector(r, x, y, beta=0.4, mask=MASK), inputs)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ssa_loss(torch.zeros(2, 3), LABELS), r"logits must be \(batch, length, 2\)"),
        (lambda: ssa_loss(torch.zeros(2, 3, 2), LABELS), r"labels must be .*not \(3, 5\)"),
        (lambda: ssa_vector(drawn(1, 2), drawn(1, 3, 2), drawn(1, 3), beta=2), "beta must be from 0 to 1, not 2"),
        (lambda: ssa_vector(drawn(1, 2), drawn(1, 3, 2), drawn(1, 4), beta=1), "tokens must be"),
        (lambda: ssa_vector(drawn(1, 3), drawn(1, 3, 2), drawn(1, 3), beta=1), "sentence must be"),
        (lambda: ssa_vector(drawn(1, 2), drawn(1, 3, 2), drawn(1, 3), beta=1, mask=MASK), "mask must be"),
    ],
)
def test_shapes_that_do_not_fit_are_told(call, message):
    with pytest.raises(UserError, match=message):
        call()
