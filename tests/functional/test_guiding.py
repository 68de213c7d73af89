"""mdg_loss and pdg_loss, against plain Python loops over the paper's equations."""

import math

import pytest
import torch

from attentune.errors import UserError
from attentune.functional import mdg_loss, pdg_loss


def random_received(batch=3, heads=4, length=6, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(batch, heads, length, generator=generator, dtype=torch.float64) + 0.05


def random_mask(batch=3, length=6):
    return torch.tensor([[1] * 6, [1, 1, 1, 0, 0, 0], [1, 0, 1, 1, 0, 1]])[:batch, :length]


def rows_of(received, mask, normalize):
    """M of Eq. 9 for each example, as lists: only the tokens that count."""
    examples = []
    for example in range(received.shape[0]):
        keep = [k for k in range(received.shape[2]) if mask is None or mask[example, k]]
        rows = [[float(received[example, head, k]) for k in keep] for head in range(received.shape[1])]
        if normalize:
            rows = [[x / math.sqrt(sum(y * y for y in row)) for x in row] for row in rows]
        examples.append(rows)
    return examples


def dot(a, b):
    return sum(x * y for x, y in zip(a, b, strict=True))


def equation_11(rows, temperature):
    """−Σ_i log( exp(m_i·m_i/τ) / Σ_j exp(m_j·m_i/τ) )"""
    total = 0.0
    for i in range(len(rows)):
        below = sum(math.exp(dot(rows[j], rows[i]) / temperature) for j in range(len(rows)))
        total -= math.log(math.exp(dot(rows[i], rows[i]) / temperature) / below)
    return total


def equation_12(rows):
    """‖MᵀM − I‖², with the length × length matrix written out."""
    length = len(rows[0])
    total = 0.0
    for a in range(length):
        for b in range(length):
            entry = sum(row[a] * row[b] for row in rows) - (1.0 if a == b else 0.0)
            total += entry * entry
    return total


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_mdg_is_equation_11(normalize, masked, temperature):
    received, mask = random_received(), random_mask() if masked else None
    each = [equation_11(rows, temperature) for rows in rows_of(received, mask, normalize)]
    settings = {"mask": mask, "temperature": temperature, "normalize": normalize}
    assert mdg_loss(received, **settings, reduction="none").tolist() == pytest.approx(each, abs=1e-6)
    assert float(mdg_loss(received, **settings, reduction="sum")) == pytest.approx(sum(each), abs=1e-6)
    assert float(mdg_loss(received, **settings)) == pytest.approx(sum(each) / 3 / 4, abs=1e-6)


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("masked", [True, False])
def test_pdg_is_equation_12(normalize, masked):
    received, mask = random_received(), random_mask() if masked else None
    rows = rows_of(received, mask, normalize)
    each = [equation_12(example) for example in rows]
    settings = {"mask": mask, "normalize": normalize}
    assert pdg_loss(received, **settings, reduction="none").tolist() == pytest.approx(each, abs=1e-6)
    assert float(pdg_loss(received, **settings, reduction="sum")) == pytest.approx(sum(each), abs=1e-6)
    mean = sum(loss / len(example[0]) for loss, example in zip(each, rows, strict=True)) / 3
    assert float(pdg_loss(received, **settings)) == pytest.approx(mean, abs=1e-6)


@pytest.mark.parametrize("loss", [mdg_loss, pdg_loss])
def test_gradients_are_right(loss):
    received = random_received().requires_grad_()
    for mask in (None, random_mask()):
        for reduction in ("mean", "sum", "none"):
            assert torch.autograd.gradcheck(lambda x: loss(x, mask=mask, reduction=reduction), received)  # noqa: B023


@pytest.mark.parametrize("loss", [mdg_loss, pdg_loss])
def test_summing_over_keys_instead_has_no_gradient(loss):
    """The literal reading of Eq. 8, which the released code takes: each row of a softmax sums to 1, whatever the scores."""
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(2, 4, 6, 6, generator=generator, dtype=torch.float64, requires_grad=True)
    maps = scores.softmax(dim=-1)
    (over_keys,) = torch.autograd.grad(loss(maps.sum(dim=-1)), scores, retain_graph=True)
    (over_queries,) = torch.autograd.grad(loss(maps.sum(dim=-2)), scores)
    assert over_keys.abs().max() < 1e-15
    assert over_queries.abs().max() > 1e-4


@pytest.mark.parametrize("loss", [mdg_loss, pdg_loss])
def test_padding_does_not_count(loss):
    received = random_received(length=4)
    padded = torch.cat([received, torch.full((3, 4, 5), 7.0, dtype=torch.float64)], dim=-1)
    mask = torch.tensor([[1] * 4 + [0] * 5] * 3)
    for reduction in ("mean", "sum"):
        torch.testing.assert_close(loss(padded, mask=mask, reduction=reduction), loss(received, reduction=reduction))


@pytest.mark.parametrize("loss", [mdg_loss, pdg_loss])
def test_an_example_without_tokens_is_finite_and_sends_no_gradient(loss):
    received = random_received().requires_grad_()
    mask = torch.zeros(3, 6)
    value = loss(received, mask=mask)
    (grad,) = torch.autograd.grad(value, received)
    assert value.isfinite()
    assert grad.abs().max() == 0


def test_both_are_least_where_heads_share_the_tokens_out():
    apart = torch.eye(4)[None]
    for loss in (mdg_loss, pdg_loss):
        assert loss(apart) < loss(torch.ones(1, 4, 4))
    assert float(pdg_loss(apart)) == 0


def test_pdg_makes_no_length_by_length_matrix():
    length = 20_000  # L × L would be 1.6 GB
    assert pdg_loss(torch.rand(1, 2, length)).isfinite()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: mdg_loss(torch.ones(2, 3)), "must be \\(batch, heads, length\\)"),
        (lambda: pdg_loss(torch.ones(1, 2, 3), mask=torch.ones(1, 4)), "mask must be"),
        (lambda: mdg_loss(torch.ones(1, 2, 3), temperature=0), "temperature must be above 0"),
        (lambda: pdg_loss(torch.ones(1, 2, 3), reduction="average"), "reduction must be"),
        (lambda: mdg_loss(torch.ones(1, 2, 3), reduction="average"), "reduction must be"),
    ],
)
def test_a_mistake_gets_a_sentence(call, message):
    with pytest.raises(UserError, match=message):
        call()
