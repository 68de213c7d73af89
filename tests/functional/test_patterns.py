"""The positional patterns and their loss, against plain Python loops."""

import pytest
import torch

from attentune.errors import UserError
from attentune.functional import (
    pattern_loss,
    pattern_loss_from_readings,
    pattern_target,
    spread_target,
    target_rows,
    target_squares,
)

SPARSE = ["first", "next", "prev", "same"]
REAL = torch.tensor(
    [
        [1, 1, 1, 1, 1, 1],
        [1, 1, 1, 0, 0, 0],  # padded right
        [0, 0, 1, 1, 1, 1],  # padded left
        [1, 0, 1, 1, 0, 1],  # padding in between is stepped over
        [0, 0, 0, 0, 1, 0],  # one token
        [0, 0, 0, 0, 0, 0],  # none
    ]
)
SEGMENTS = torch.tensor(
    [
        [0, 0, 0, 1, 1, 1],
        [0, 0, 1, 1, 1, 1],
        [9, 9, 9, 9, -3, -3],
        [0, 0, 0, 1, 1, 1],
        [0, 0, 0, 0, 0, 0],
        [0, 0, 0, 0, 0, 0],
    ]
)
MARKED = torch.tensor(
    [
        [1, 0, 0, 1, 0, 1],
        [0, 0, 1, 0, 0, 1],  # the second mark is on padding
        [1, 0, 0, 0, 0, 0],  # the only mark is on padding
        [0, 0, 1, 0, 0, 1],
        [0, 0, 0, 0, 1, 0],
        [1, 1, 1, 1, 1, 1],
    ]
)


def random_maps(batch=6, heads=3, length=6, mask=None, seed=0):
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(batch, heads, length, length, generator=generator, dtype=torch.float64)
    if mask is not None:
        scores = scores.masked_fill(mask[:, None, None, :] == 0, -1e4)
    return scores.softmax(dim=-1)


def key_of(name, q, real, segments, causal=False):
    """The key that query q should look at, found by walking over the tokens of one example; −1 for none."""
    tokens = [k for k in range(len(real)) if real[k]]
    if q not in tokens:
        return -1
    at = tokens.index(q)
    if name == "same":
        found = q
    elif name == "next":
        found = tokens[at + 1] if at + 1 < len(tokens) else -1
    elif name == "prev":
        found = tokens[at - 1] if at > 0 else -1
    else:
        found = next(k for k in tokens if segments[k] == segments[q])
    if found < 0 or segments[found] != segments[q] or (causal and found > q):
        return -1
    return found


def dense(target, batch, length):
    """P as nested lists [example][q][k] from any form of target."""
    whole = []
    for b in range(batch):
        rows = []
        for q in range(length):
            if target.is_floating_point():
                row = (target[b] if target.dim() == 2 else target[b, q]).tolist()
            else:
                key = int(target[q] if target.dim() == 1 else target[b, q])
                row = [1.0 if k == key else 0.0 for k in range(length)]
            rows.append(row)
        whole.append(rows)
    return whole


def squared_errors(maps, target, mask):
    """For each example [Σ_k (A − P)² of each head's row that counts], and how many rows count."""
    batch, heads, length, _ = maps.shape
    wanted = dense(target, batch, length)
    examples = []
    for b in range(batch):
        keys = [k for k in range(length) if mask is None or mask[b, k]]
        rows = [q for q in keys if any(wanted[b][q][k] != 0 for k in keys)]
        errors = [
            sum((float(maps[b, h, q, k]) - wanted[b][q][k]) ** 2 for k in keys) for h in range(heads) for q in rows
        ]
        examples.append(errors)
    return examples


def targets():
    """One of each form, with masks that go with them."""
    generator = torch.Generator().manual_seed(1)
    prior = torch.rand(6, 6, 6, generator=generator, dtype=torch.float64)
    prior[:, 2] = 0  # a query without a target
    return {
        "sparse, one for all": pattern_target("next", 6),
        "sparse": pattern_target("prev", 6, real=REAL),
        "sparse, in segments": pattern_target("first", 6, real=REAL, segments=SEGMENTS),
        "spread": spread_target(MARKED, REAL).double(),
        "spread, in segments": spread_target(MARKED, REAL, segments=SEGMENTS).double(),
        "dense": prior,
    }


@pytest.mark.parametrize("name", SPARSE)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("segmented", [False, True])
def test_a_sparse_target_is_the_token_that_its_name_says(name, causal, segmented):
    segments = SEGMENTS if segmented else torch.zeros_like(SEGMENTS)
    expected = [
        [key_of(name, q, real, segment, causal) for q in range(6)]
        for real, segment in zip(REAL.tolist(), segments.tolist(), strict=True)
    ]
    found = pattern_target(name, 6, real=REAL, segments=SEGMENTS if segmented else None, causal=causal)
    assert found.dtype == torch.int64
    assert found.tolist() == expected


def test_without_padding_a_target_needs_no_batch():
    assert pattern_target("first", 4).tolist() == [0, 0, 0, 0]
    assert pattern_target("next", 4).tolist() == [1, 2, 3, -1]
    assert pattern_target("prev", 4).tolist() == [-1, 0, 1, 2]
    assert pattern_target("same", 4).tolist() == [0, 1, 2, 3]
    assert pattern_target("next", 4, causal=True).tolist() == [-1] * 4
    assert pattern_target("next", 1).tolist() == [-1]


def test_the_next_of_a_segments_last_token_is_none():
    packed = torch.tensor([[5, 5, 5, 2, 2]])
    assert pattern_target("next", 5, segments=packed).tolist() == [[1, 2, -1, 4, -1]]
    assert pattern_target("prev", 5, segments=packed).tolist() == [[-1, 0, 1, -1, 3]]
    assert pattern_target("first", 5, segments=packed).tolist() == [[0, 0, 0, 3, 3]]


def test_a_segment_that_comes_back_has_one_first_token():
    assert pattern_target("first", 4, segments=torch.tensor([[1, 0, 1, 0]])).tolist() == [[0, 1, 0, 1]]


@pytest.mark.parametrize("name", ["delim", "period"])
def test_marked_tokens_share_the_target_evenly(name):
    expected = []
    for marks, real in zip(MARKED.tolist(), REAL.tolist(), strict=True):
        count = sum(m and r for m, r in zip(marks, real, strict=True))
        expected.append([1 / count if m and r else 0.0 for m, r in zip(marks, real, strict=True)])
    found = pattern_target(name, 6, positions=MARKED, real=REAL)
    torch.testing.assert_close(found, torch.tensor(expected))
    assert set(found.sum(dim=-1).tolist()) <= {0.0, 1.0}


def test_marked_tokens_of_another_segment_are_no_target():
    found = pattern_target("delim", 6, positions=MARKED, real=REAL, segments=SEGMENTS)
    for b in range(6):
        for q in range(6):
            mine = [k for k in range(6) if MARKED[b, k] and REAL[b, k] and SEGMENTS[b, k] == SEGMENTS[b, q]]
            row = [1 / len(mine) if k in mine and REAL[b, q] else 0.0 for k in range(6)]
            assert found[b, q].tolist() == pytest.approx(row)


@pytest.mark.parametrize("form", targets())
@pytest.mark.parametrize("masked", [False, True])
def test_the_loss_is_the_squared_error_over_rows_with_a_target(form, masked):
    target, mask = targets()[form], REAL if masked else None
    maps = random_maps()
    examples = squared_errors(maps, target, mask)
    sums = [sum(errors) for errors in examples]
    means = [sum(errors) / len(errors) if errors else 0.0 for errors in examples]
    assert pattern_loss(maps, target, mask=mask, reduction="none").tolist() == pytest.approx(sums, abs=1e-12)
    assert float(pattern_loss(maps, target, mask=mask, reduction="sum")) == pytest.approx(sum(sums), abs=1e-12)
    assert float(pattern_loss(maps, target, mask=mask)) == pytest.approx(sum(means) / 6, abs=1e-12)


@pytest.mark.parametrize("form", targets())
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_the_loss_needs_no_map(form, masked, reduction):
    target, mask = targets()[form], REAL if masked else None
    scores = torch.randn(6, 3, 6, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    if masked:
        scores = scores.masked_fill(mask[:, None, None, :] == 0, -1e4)
    scores.requires_grad_()
    maps = scores.softmax(dim=-1)
    wanted = torch.tensor(dense(target, 6, 6), dtype=torch.float64)[:, None]
    from_maps = pattern_loss(maps, target, mask=mask, reduction=reduction)
    from_readings = pattern_loss_from_readings(
        maps.square().sum(dim=-1),
        (maps * wanted).sum(dim=-1),
        target_squares(target, mask=mask),
        rows=target_rows(target, mask=mask),
        reduction=reduction,
    )
    torch.testing.assert_close(from_readings, from_maps, rtol=0, atol=1e-10)
    (grad_maps,) = torch.autograd.grad(from_maps.sum(), scores, retain_graph=True)
    (grad_readings,) = torch.autograd.grad(from_readings.sum(), scores)
    torch.testing.assert_close(grad_readings, grad_maps, rtol=0, atol=1e-10)
    assert grad_maps.abs().max() > 1e-3


@pytest.mark.parametrize("form", targets())
def test_gradients_are_right(form):
    maps = random_maps(heads=1).requires_grad_()
    for reduction in ("mean", "sum", "none"):
        assert torch.autograd.gradcheck(
            lambda x: pattern_loss(x, targets()[form], mask=REAL, reduction=reduction),  # noqa: B023
            maps,
        )


@pytest.mark.parametrize("name", [*SPARSE, "delim"])
@pytest.mark.parametrize("left", [0, 3])
def test_padding_changes_nothing(name, left):
    """Neither the loss nor the gradient, and garbage in the padding doesn't either, be it not a number."""
    lengths, whole = [4, 2, 5], 9
    marked = torch.zeros(3, whole, dtype=torch.bool)
    real = torch.zeros(3, whole, dtype=torch.bool)
    maps = torch.full((3, 2, whole, whole), torch.nan, dtype=torch.float64)
    alone = []
    for b, length in enumerate(lengths):
        mine = slice(left, left + length)
        real[b, mine] = True
        marked[b, left + 1] = True
        maps[b, :, mine] = 0
        maps[b, :, mine, mine] = random_maps(1, 2, length, seed=b)[0]
        one = maps[b : b + 1, :, mine, mine].clone().requires_grad_()
        target = pattern_target(name, length, positions=marked[b : b + 1, mine])
        loss = pattern_loss(one, target)
        alone.append((loss.detach(), torch.autograd.grad(loss, one)[0]))
    maps.requires_grad_()
    target = pattern_target(name, whole, real=real, positions=marked)
    loss = pattern_loss(maps, target, mask=real)
    (grad,) = torch.autograd.grad(loss, maps)
    torch.testing.assert_close(loss, torch.stack([value for value, _ in alone]).mean())
    expected = torch.zeros_like(grad)
    for b, length in enumerate(lengths):
        mine = slice(left, left + length)
        expected[b, :, mine, mine] = alone[b][1][0] / 3
    torch.testing.assert_close(grad, expected)


def test_a_target_on_padding_is_none():
    """A target made without `real` would pull the last real token towards padding, which no softmax can reach."""
    maps = random_maps(1, 2, 4)
    mask = torch.tensor([[1, 1, 1, 0]])
    assert target_rows(pattern_target("next", 4), mask=mask).tolist() == [[True, True, False, False]]
    torch.testing.assert_close(
        pattern_loss(maps, pattern_target("next", 4), mask=mask),
        pattern_loss(maps, pattern_target("next", 4, real=mask), mask=mask),
    )


def test_an_example_without_a_target_gives_nothing_and_sends_no_gradient():
    maps = random_maps(2, 2, 5).requires_grad_()
    target = spread_target(torch.tensor([[0, 1, 0, 0, 0], [0, 0, 0, 0, 0]]))
    each = pattern_loss(maps, target, reduction="none")
    (grad,) = torch.autograd.grad(pattern_loss(maps, target), maps)
    assert each[1] == 0
    assert grad[0].abs().max() > 0
    assert grad[1].abs().max() == 0


def test_the_weight_does_not_depend_on_the_length():
    """A uniform head misses a one-key target by (1 − 1/L)² + (L − 1)/L², about 1 at every length, not 1/L."""
    for length in (4, 40, 400):
        uniform = torch.full((1, 1, length, length), 1 / length, dtype=torch.float64)
        loss = float(pattern_loss(uniform, pattern_target("same", length)))
        assert loss == pytest.approx((1 - 1 / length) ** 2 + (length - 1) / length**2)


def test_the_loss_is_zero_only_on_the_pattern():
    perfect = torch.eye(4)[None, None]
    assert float(pattern_loss(perfect, pattern_target("same", 4))) == 0
    assert float(pattern_loss(perfect, pattern_target("first", 4))) > 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: pattern_target("nxt", 4), "unknown pattern 'nxt'.*first, next"),
        (lambda: pattern_target("next", 0), "length must be at least 1"),
        (lambda: pattern_target("next", 4, real=torch.ones(2, 3)), "real must be \\(batch, length\\) with length 4"),
        (lambda: pattern_target("next", 4, real=torch.ones(2, 4), segments=torch.ones(1, 4)), "segments must be"),
        (lambda: pattern_target("period", 4), "needs positions"),
        (lambda: pattern_target("delim", 4, positions=torch.ones(1, 4), causal=True), "cannot be causal"),
        (lambda: spread_target(torch.ones(4)), "positions must be"),
        (lambda: spread_target(torch.ones(1, 4), torch.ones(1, 5)), "real must be"),
        (lambda: pattern_loss(torch.ones(1, 2, 3, 4), torch.ones(4).long()), "maps must be"),
        (lambda: pattern_loss(torch.ones(1, 2, 3, 3), torch.ones(4).long()), "doesn't fit maps"),
        (lambda: pattern_loss(torch.ones(1, 2, 3, 3), torch.ones(2, 3)), "doesn't fit maps"),
        (lambda: pattern_loss(torch.ones(1, 2, 3, 3), torch.ones(3)), "a floating-point target is"),
        (lambda: pattern_loss(torch.ones(1, 2, 3, 3), torch.ones(1, 3, 3).bool()), "a dense one floating-point"),
        (lambda: pattern_loss(torch.ones(1, 2, 3, 3), torch.ones(3).long(), mask=torch.ones(1, 4)), "mask must be"),
        (
            lambda: pattern_loss(torch.ones(1, 2, 3, 3), torch.ones(3).long(), reduction="average"),
            "reduction must be",
        ),
        (
            lambda: pattern_loss_from_readings(torch.ones(1, 3), torch.ones(1, 3), rows=torch.ones(1, 3)),
            "sharpness must be",
        ),
        (
            lambda: pattern_loss_from_readings(torch.ones(1, 2, 3), torch.ones(1, 2, 4), rows=torch.ones(1, 3)),
            "mass must be",
        ),
        (
            lambda: pattern_loss_from_readings(torch.ones(1, 2, 3), torch.ones(1, 2, 3), rows=torch.ones(1, 4)),
            "rows must be",
        ),
        (
            lambda: pattern_loss_from_readings(
                torch.ones(1, 2, 3), torch.ones(1, 2, 3), torch.ones(3), rows=torch.ones(1, 3)
            ),
            "squares must be",
        ),
    ],
)
def test_a_mistake_gets_a_sentence(call, message):
    with pytest.raises(UserError, match=message):
        call()
