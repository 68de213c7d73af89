"""The loss of what tokens receive, against loops over its equation."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attentune.errors import UserError
from attentune.functional import received_loss


def naive(received, target, mask):
    """Of each example, Σ_h Σ_k (r[k] / Σ r − p[k] / Σ p)² over the real tokens, by loops."""
    losses = []
    for example, wanted, real in zip(received.tolist(), target.tolist(), mask.tolist(), strict=True):
        tokens = [k for k in range(len(wanted)) if real[k]]
        total = sum(wanted[k] for k in tokens)
        loss = 0.0
        if total > 0:
            for head in example:
                got = sum(head[k] for k in tokens)
                loss += sum((head[k] / got - wanted[k] / total) ** 2 for k in tokens)
        losses.append(loss)
    return losses


def example(batch=3, heads=2, length=6, seed=0, lengths=(6, 4, 3)):
    generator = torch.Generator().manual_seed(seed)
    received = torch.rand(batch, heads, length, generator=generator, dtype=torch.float64) * 3
    target = torch.rand(batch, length, generator=generator, dtype=torch.float64)
    target[1] = 0  # a text without relations
    mask = torch.arange(length)[None] < torch.tensor(lengths)[:, None]
    return received, target, mask


@given(st.integers(1, 4), st.integers(1, 4), st.integers(2, 9), st.integers(0, 1000))
def test_the_loss_is_that_of_loops(batch, heads, length, seed):
    generator = torch.Generator().manual_seed(seed)
    received = torch.rand(batch, heads, length, generator=generator, dtype=torch.float64) + 0.01
    target = torch.rand(batch, length, generator=generator, dtype=torch.float64)
    target *= torch.rand(batch, length, generator=generator) > 0.5
    mask = torch.rand(batch, length, generator=generator) > 0.3
    expected = naive(received, target, mask)
    assert received_loss(received, target, mask=mask, reduction="none").tolist() == pytest.approx(expected, abs=1e-12)
    assert float(received_loss(received, target, mask=mask, reduction="sum")) == pytest.approx(sum(expected), abs=1e-12)
    mean = sum(expected) / heads / batch
    assert float(received_loss(received, target, mask=mask)) == pytest.approx(mean, abs=1e-12)


def test_only_shares_count():
    received, target, mask = example()
    loss = received_loss(received, target, mask=mask)
    torch.testing.assert_close(received_loss(7 * received, 0.1 * target, mask=mask), loss)
    torch.testing.assert_close(received_loss(target[:, None], target, mask=mask), torch.zeros_like(loss))


def test_the_gradient_is_that_of_finite_differences():
    received, target, mask = example()
    assert torch.autograd.gradcheck(lambda r: received_loss(r, target, mask=mask), received.requires_grad_())


def test_padding_and_texts_without_relations_change_nothing():
    received, target, mask = example()
    received.requires_grad_()
    received_loss(received, target, mask=mask).backward()
    assert not received.grad[1].any()
    assert not received.grad[2, :, 3:].any()
    alone = received.detach()[2:, :, :3].requires_grad_()
    received_loss(alone, target[2:, :3]).backward()
    torch.testing.assert_close(received.grad[2:, :, :3], alone.grad / 3)
    nothing = torch.zeros(1, 2, 4, requires_grad=True)
    received_loss(nothing, torch.zeros(1, 4)).backward()
    assert not nothing.grad.any()


@pytest.mark.parametrize(
    ("received", "target", "options", "problem"),
    [
        (torch.ones(2, 3), torch.ones(2, 3), {}, r"received must be \(batch, heads, length\), not \(2, 3\)"),
        (torch.ones(2, 3, 4), torch.ones(2, 3), {}, r"target must be \(batch, length\) = \(2, 4\), not \(2, 3\)"),
        (torch.ones(2, 3, 4), torch.ones(2, 4), {"mask": torch.ones(4)}, "mask must be"),
        (torch.ones(2, 3, 4), torch.ones(2, 4), {"reduction": "max"}, "reduction must be"),
    ],
)
def test_what_does_not_fit_gets_a_sentence(received, target, options, problem):
    with pytest.raises(UserError, match=problem):
        received_loss(received, target, **options)
