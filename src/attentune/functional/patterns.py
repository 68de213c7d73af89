"""Positional patterns: heads guided to fixed targets, after Deshpande and Narasimhan 2020.

The paper is "Guiding Attention for Self-Supervised Learning with Transformers". A target P says where each query should
look: `pattern_target` makes it for the paper's patterns. `pattern_loss` is the squared error Σ_k (A[q, k] − P[q, k])² over
the rows q that have a target, and `pattern_loss_from_readings` is the same loss from Σ_k A² and Σ_k A·P, so that no map is
needed. The error is a sum over keys, never their mean: the weight of a pattern doesn't depend on the length, nor on
the padding. Which heads follow which pattern is not decided here.

A target has one of these forms:

sparse  integers (length,) or (batch, length)        the one key of each query, −1 for a query without a target
spread  floats   (batch, length)                     P[k], the same for every query; all 0 where a text has no target
dense   floats   (batch, length, length)             P[q, k]; an all-zero row is a query without a target
"""

from typing import Literal, get_args

import torch
from torch import Tensor
from torch.nn.functional import one_hot, pad

from attentune.errors import UserError
from attentune.functional.guiding import Reduction, _reduce

Pattern = Literal["first", "next", "prev", "same", "delim", "period"]


def pattern_target(
    name: Pattern,
    length: int,
    *,
    real: Tensor | None = None,
    positions: Tensor | None = None,
    segments: Tensor | None = None,
    causal: bool = False,
) -> Tensor:
    """Where each query should look under one of the patterns "first", "next", "prev", "same", "delim" and "period".

    The first four are sparse, int64: the first real token, the following, the preceding and the token itself; −1 for a
    query that has no such token (the last row of "next", the first of "prev", all padding). "delim" and "period" may have
    many keys, so they are what `spread_target` makes of `positions`, the delimiters or full stops.

    `real` and `positions` are (batch, length), True or 1 for the tokens meant; padding may be left, right or both.
    `segments`, (batch, length) integers, keeps a token from being guided into another segment: "next" and "prev"
    stop at its ends, "first" is its first token. `causal` drops targets in the future, which a decoder cannot reach.
    The result is (length,) where neither `real` nor `segments` is given, otherwise (batch, length).

    >>> import torch
    >>> pattern_target("next", 4)
    tensor([ 1,  2,  3, -1])
    >>> pattern_target("first", 4, real=torch.tensor([[0, 1, 1, 1]]))
    tensor([[-1,  1,  1,  1]])
    """
    if name not in get_args(Pattern):
        raise UserError(f"unknown pattern {name!r}: it is one of {', '.join(get_args(Pattern))}")
    if length < 1:
        raise UserError(f"length must be at least 1, not {length}")
    for what, given in (("real", real), ("positions", positions), ("segments", segments)):
        if given is not None and (given.dim() != 2 or given.shape[1] != length):
            raise UserError(f"{what} must be (batch, length) with length {length}, not {tuple(given.shape)}")
    if name in ("delim", "period"):
        if positions is None:
            raise UserError(f'the pattern "{name}" needs positions: (batch, length), True at the tokens to look at')
        if causal:
            raise UserError(f'the pattern "{name}" is the same for every query, so it cannot be causal')
        return spread_target(positions, real, segments=segments)
    target = _sparse_target(name, length, real, segments)  # (batch, length)
    if causal:
        target = target.masked_fill(target > torch.arange(length, device=target.device), -1)
    return target[0] if real is None and segments is None else target


def spread_target(positions: Tensor, real: Tensor | None = None, *, segments: Tensor | None = None) -> Tensor:
    """A target with several keys: P spread evenly over the marked real tokens, so that ΣP = 1, for every query alike.

    `positions`, `real` and the result are (batch, length); a text without a marked token has zeros, that is, no target.
    With `segments`, (batch, length) integers, each query has the marked tokens of its own segment, so the result is
    (batch, length, length); that is the one target whose size grows with the square of the length.

    >>> import torch
    >>> spread_target(torch.tensor([[0, 1, 0, 1], [0, 0, 0, 0]]))
    tensor([[0.0000, 0.5000, 0.0000, 0.5000],
            [0.0000, 0.0000, 0.0000, 0.0000]])
    """
    if positions.dim() != 2:
        raise UserError(f"positions must be (batch, length), not {tuple(positions.shape)}")
    _check_shape("real", real, positions.shape)
    _check_shape("segments", segments, positions.shape)
    marked = positions.bool() if real is None else positions.bool() & real.bool()  # (batch, length)
    if segments is not None:
        marked = marked[:, None, :] & (segments[:, :, None] == segments[:, None, :])  # (batch, length, length)
        if real is not None:
            marked = marked & real.bool()[:, :, None]
    weights = marked.to(torch.get_default_dtype())
    return weights / weights.sum(dim=-1, keepdim=True).clamp_min(1)


def pattern_loss(maps: Tensor, target: Tensor, *, mask: Tensor | None = None, reduction: Reduction = "mean") -> Tensor:
    """Squared error between maps and a target: Σ_k (A[q, k] − P[q, k])² over the rows q that are real and have a target.

    `maps` is (batch, heads, length, length), `target` sparse, spread or dense (see the module), and `mask`
    (batch, length) keeps the tokens that count, as queries and as keys: a target on a token that doesn't count is none.
    `reduction` is "mean" over each example's rows and heads and then over the batch (an example without any such row
    gives 0), "sum" over everything, or "none", the sum over each example's rows and heads.

    >>> import torch
    >>> looks_ahead = torch.tensor([[[[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]]])
    >>> float(pattern_loss(looks_ahead, pattern_target("next", 3)))
    0.0
    >>> float(pattern_loss(looks_ahead, pattern_target("same", 3)))
    2.0
    """
    if maps.dim() != 4 or maps.shape[2] != maps.shape[3]:
        raise UserError(f"maps must be (batch, heads, length, length), not {tuple(maps.shape)}")
    batch, _, length, _ = maps.shape
    _check_shape("mask", mask, (batch, length))
    fits = target.shape[-1] == length and (target.dim() < 3 or target.shape[1] == length)
    if not fits or (target.dim() > 1 and target.shape[0] not in (1, batch)):
        raise UserError(f"the target {tuple(target.shape)} doesn't fit maps of batch {batch} and length {length}")
    target = target.to(maps.device)
    rows = target_rows(target, mask=mask).expand(batch, length)
    counts = rows[:, None, :, None]
    if mask is not None:
        counts = counts & mask.bool()[:, None, None, :]
    wanted = _as_dense(_on_real_keys(target, mask)).to(maps.dtype)  # (batch or 1, length or 1, length)
    apart = (maps - wanted[:, None]).masked_fill(~counts, 0)  # (batch, heads, length, length)
    return _reduce_rows(apart.square().sum(dim=-1), rows[:, None].expand(maps.shape[:3]), reduction)


def pattern_loss_from_readings(
    sharpness: Tensor,
    mass: Tensor,
    squares: Tensor | float = 1.0,
    *,
    rows: Tensor,
    reduction: Reduction = "mean",
) -> Tensor:
    """`pattern_loss` without the maps: Σ_k (A − P)² = Σ_k A² − 2·Σ_k A·P + Σ_k P².

    `sharpness` Σ_k A² and `mass` Σ_k A·P are (batch, heads, length), as `attentune.attend` reads them. `squares` is
    Σ_k P², (batch, length) from `target_squares`, and 1.0 for a sparse target. `rows` (batch, length) are the queries
    that count, from `target_rows`. Both may have heads of their own, (batch, heads, length). `reduction` as in
    `pattern_loss`.

    >>> import torch
    >>> maps = torch.rand(2, 3, 5, 5).softmax(dim=-1)
    >>> target = pattern_target("same", 5)
    >>> mass = maps.diagonal(dim1=-2, dim2=-1)
    >>> loss = pattern_loss_from_readings(maps.square().sum(dim=-1), mass, rows=target_rows(target))
    >>> torch.testing.assert_close(loss, pattern_loss(maps, target))
    """
    if sharpness.dim() != 3:
        raise UserError(f"sharpness must be (batch, heads, length), not {tuple(sharpness.shape)}")
    _check_shape("mass", mass, sharpness.shape)
    rows = _by_head("rows", rows, sharpness.shape).to(sharpness.device).bool()
    if isinstance(squares, Tensor):
        squares = _by_head("squares", squares, sharpness.shape).to(sharpness)
    per_row = sharpness - 2 * mass + squares  # (batch, heads, length)
    return _reduce_rows(per_row, rows.expand(per_row.shape), reduction)


def _by_head(what: str, given: Tensor, shape: torch.Size) -> Tensor:
    """(batch or 1, heads or 1, length or 1) of what may be given without heads."""
    by_head = given[:, None, :] if given.dim() == 2 else given
    if by_head.dim() != 3 or any(size not in (1, full) for size, full in zip(by_head.shape, shape, strict=True)):
        raise UserError(f"{what} must be (batch, length) = {(shape[0], shape[2])}, not {tuple(given.shape)}")
    return by_head


def target_rows(target: Tensor, *, mask: Tensor | None = None) -> Tensor:
    """Which queries count, (batch, length): those that have a target, and are real where `mask` (batch, length) is given.

    A target that lies on a token outside `mask` is none. The batch is 1 for a target without a batch and without `mask`.

    >>> target_rows(pattern_target("prev", 3))
    tensor([[False,  True,  True]])
    """
    wanted = _on_real_keys(target, mask)
    has = wanted >= 0 if wanted.dim() == 2 else (wanted != 0).any(dim=-1)  # (batch, length or 1)
    return has.expand(-1, target.shape[-1]) if mask is None else has & mask.bool()


def target_squares(target: Tensor, *, mask: Tensor | None = None) -> Tensor | float:
    """Σ_k P[q, k]² over the real keys: 1.0 for a sparse target, else (batch, length).

    >>> target_squares(pattern_target("next", 3))
    1.0
    """
    wanted = _on_real_keys(target, mask)
    if wanted.dim() == 2:
        return 1.0
    return wanted.square().sum(dim=-1).expand(-1, target.shape[-1])


def _sparse_target(name: str, length: int, real: Tensor | None, segments: Tensor | None) -> Tensor:
    """The key of each query, (batch, length), −1 for none."""
    given = next((tensor for tensor in (real, segments) if tensor is not None), None)
    here = torch.arange(length, device=None if given is None else given.device)
    if real is None:
        real = here.new_ones((1 if segments is None else segments.shape[0], length))
    real = real.bool()
    _check_shape("segments", segments, real.shape)
    if name == "first":
        target = _first(real, here, segments)
    elif name == "next":
        at_or_after = here.where(real, length).flip(-1).cummin(dim=-1).values.flip(-1)
        target = pad(at_or_after[:, 1:], (0, 1), value=length)
        target = target.masked_fill(target == length, -1)
    elif name == "prev":
        target = pad(here.where(real, -1).cummax(dim=-1).values[:, :-1], (1, 0), value=-1)
    else:
        target = here.expand(real.shape)
    target = target.masked_fill(~real, -1)
    if segments is not None:
        target = target.masked_fill(segments.gather(-1, target.clamp_min(0)) != segments, -1)
    return target


def _first(real: Tensor, here: Tensor, segments: Tensor | None) -> Tensor:
    """The first real token of each token's segment; meaningless, and masked by the caller, at padding."""
    if segments is None:
        return here.where(real, len(here)).amin(dim=-1, keepdim=True).expand(real.shape)
    segment = segments.unique(return_inverse=True)[1]  # (batch, length), numbered from 0
    firsts = here.new_full((real.shape[0], int(segment.max()) + 1), len(here))
    return firsts.scatter_reduce(-1, segment, here.where(real, len(here)), "amin").gather(-1, segment)


def _on_real_keys(target: Tensor, mask: Tensor | None) -> Tensor:
    """A target without what lies on padding: sparse (batch, length), or floats (batch, length or 1, length)."""
    if target.is_floating_point():
        if target.dim() not in (2, 3):
            raise UserError(
                f"a floating-point target is (batch, length) or (batch, length, length), not {tuple(target.shape)}"
            )
        target = target if target.dim() == 3 else target[:, None, :]
        return target if mask is None else target.masked_fill(~mask.bool().to(target.device)[:, None, :], 0)
    if target.dtype == torch.bool or target.dim() not in (1, 2):
        raise UserError(
            "a sparse target is integers (length,) or (batch, length), and a dense one floating-point, "
            f"not {target.dtype} {tuple(target.shape)}"
        )
    target = target.long() if target.dim() == 2 else target.long()[None]
    if mask is None:
        return target
    target = target.expand(mask.shape)
    return target.masked_fill(~mask.bool().to(target.device).gather(-1, target.clamp_min(0)), -1)


def _as_dense(wanted: Tensor) -> Tensor:
    """P as (batch or 1, length or 1, length) from what `_on_real_keys` gives."""
    if wanted.dim() == 3:
        return wanted
    return one_hot(wanted.clamp_min(0), wanted.shape[-1]) * (wanted >= 0)[..., None]


def _reduce_rows(per_row: Tensor, rows: Tensor, reduction: Reduction) -> Tensor:
    """From the error of each row, (batch, heads, length), to a loss, over the rows that count."""
    per_example = per_row.masked_fill(~rows, 0).sum(dim=(1, 2))  # (batch,)
    if reduction == "mean":
        return (per_example / rows.sum(dim=(1, 2)).clamp_min(1)).mean()
    return _reduce(per_example, reduction)


def _check_shape(what: str, given: Tensor | None, shape: tuple[int, ...]) -> None:
    if given is not None and given.shape != shape:
        raise UserError(f"{what} must be of shape {tuple(shape)}, not {tuple(given.shape)}")
