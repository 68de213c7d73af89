"""disagreement_loss, against plain Python loops over the three regularisers of Li et al. 2018."""

import math

import pytest
import torch

from attentune.errors import UserError
from attentune.functional import disagreement_loss

MASK = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0], [0, 1, 1, 0, 1]])


def random_vectors(batch=3, heads=4, length=5, dim=6, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(batch, heads, length, dim, generator=generator, dtype=torch.float64)


def random_input(on, seed=0):
    return random_vectors(dim=5, seed=seed).softmax(dim=-1) if on == "position" else random_vectors(seed=seed)


def dot(a, b):
    return sum(x * y for x, y in zip(a, b, strict=True))


def minus_d(x, on, keep):
    """1/H² Σ_i Σ_j s(i, j) of one example (heads, length, dim), as a mean over its tokens."""
    heads = len(x)
    total = 0.0
    for i in range(heads):
        for j in range(heads):
            for q in keep:
                if on == "position":
                    total += sum(x[i][q][k] * x[j][q][k] for k in keep)
                else:
                    lengths = math.sqrt(dot(x[i][q], x[i][q])) * math.sqrt(dot(x[j][q], x[j][q]))
                    total += dot(x[i][q], x[j][q]) / lengths
    return total / heads**2 / len(keep)


@pytest.mark.parametrize("on", ["output", "subspace", "position"])
@pytest.mark.parametrize("masked", [False, True])
def test_it_is_the_papers_mean_similarity_over_all_pairs_of_heads(on, masked):
    x, mask = random_input(on), MASK if masked else None
    each = [minus_d(x[b].tolist(), on, [q for q in range(5) if mask is None or mask[b, q]]) for b in range(x.shape[0])]
    assert disagreement_loss(x, mask=mask, on=on, reduction="none").tolist() == pytest.approx(each, abs=1e-12)
    assert float(disagreement_loss(x, mask=mask, on=on, reduction="sum")) == pytest.approx(sum(each), abs=1e-12)
    assert float(disagreement_loss(x, mask=mask, on=on)) == pytest.approx(sum(each) / 3, abs=1e-12)


@pytest.mark.parametrize("on", ["output", "subspace", "position"])
def test_gradients_are_right(on):
    x = random_input(on).requires_grad_()
    for mask in (None, MASK):
        for reduction in ("mean", "sum", "none"):
            assert torch.autograd.gradcheck(lambda x: disagreement_loss(x, mask=mask, on=on, reduction=reduction), x)  # noqa: B023


@pytest.mark.parametrize("on", ["output", "subspace", "position"])
@pytest.mark.parametrize("left", [0, 4])
def test_padding_changes_nothing(on, left):
    """Neither the loss nor the gradient; what stands in the padding gets none."""
    x = random_input(on).requires_grad_()
    mine = slice(left, left + 5)
    padded = torch.full((3, 4, 9, 9 if on == "position" else 6), 1e3, dtype=torch.float64)
    if on == "position":
        padded[:, :, mine, mine] = x.detach()
    else:
        padded[:, :, mine] = x.detach()
    padded.requires_grad_()
    mask = torch.zeros(3, 9)
    mask[:, mine] = 1
    alone, together = disagreement_loss(x, on=on), disagreement_loss(padded, mask=mask, on=on)
    torch.testing.assert_close(together, alone)
    (expected,) = torch.autograd.grad(alone, x)
    (grad,) = torch.autograd.grad(together, padded)
    torch.testing.assert_close(grad[:, :, mine, mine] if on == "position" else grad[:, :, mine], expected)
    assert grad.abs().sum() == pytest.approx(float(expected.abs().sum()))


@pytest.mark.parametrize("on", ["output", "subspace", "position"])
def test_length_does_not_change_the_scale(on):
    short = random_vectors(1, 4, 3, 3).softmax(dim=-1) if on == "position" else random_vectors(1, 4, 3)
    if on == "position":  # the same text twice, each half attending to itself
        twice = torch.zeros(1, 4, 6, 6, dtype=torch.float64)
        twice[:, :, :3, :3] = twice[:, :, 3:, 3:] = short
    else:
        twice = torch.cat([short, short], dim=2)
    torch.testing.assert_close(disagreement_loss(twice, on=on), disagreement_loss(short, on=on))


def test_it_runs_from_one_head_pointing_everywhere_to_all_alike():
    alike = random_vectors(heads=1).expand(3, 4, 5, 6)
    apart = torch.eye(4)[None, :, None, :].expand(3, 4, 5, 4)
    assert float(disagreement_loss(alike)) == pytest.approx(1)
    assert float(disagreement_loss(apart)) == pytest.approx(1 / 4)
    assert float(disagreement_loss(alike * torch.tensor([1, 5, 0.1, 2])[None, :, None, None])) == pytest.approx(1)


def test_descending_it_drives_heads_apart():
    x = (random_vectors(1, 4, 3, 6, seed=1) * 0.1 + 1).requires_grad_()
    optimiser = torch.optim.SGD([x], lr=5.0)
    before = disagreement_loss(x).detach()
    for _ in range(50):
        optimiser.zero_grad()
        disagreement_loss(x).backward()
        optimiser.step()
    assert before > 0.9
    assert disagreement_loss(x).detach() < 0.3


@pytest.mark.parametrize("on", ["output", "position"])
def test_a_zero_vector_and_an_example_without_tokens_stay_finite(on):
    x = random_input(on).clone()
    x[0, 1, 2] = 0
    x.requires_grad_()
    mask = MASK.clone()
    mask[2] = 0
    value = disagreement_loss(x, mask=mask, on=on)
    (grad,) = torch.autograd.grad(value, x)
    assert value.isfinite()
    assert grad.isfinite().all()
    assert grad.abs().max() < 10
    assert grad[2].abs().max() == 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: disagreement_loss(torch.ones(1, 2, 3, 4), on="heads"), "on must be"),
        (lambda: disagreement_loss(torch.ones(1, 2, 3)), "takes x of shape \\(batch, heads, length, dim\\)"),
        (lambda: disagreement_loss(torch.ones(1, 2, 3, 4), on="position"), "\\(batch, heads, length, length\\)"),
        (lambda: disagreement_loss(torch.ones(1, 2, 3, 4), mask=torch.ones(1, 4)), "mask must be"),
        (lambda: disagreement_loss(torch.ones(1, 2, 3, 4), reduction="average"), "reduction must be"),
    ],
)
def test_a_mistake_gets_a_sentence(call, message):
    with pytest.raises(UserError, match=message):
        call()
