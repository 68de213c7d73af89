"""Heads pulled towards a target: the readings that it takes, and the squared error that comes of them, without a map.

A target P is cut to what each query may see and scaled so that each row sums to 1 again: P' = P / n over the keys within
reach, n = Σ P there. Then Σ_k (A − P')² = Σ A² − 2 Σ A P / n + Σ P² / n², since A is 0 where nothing may be seen. A query
with nothing of its target within reach, as the next token in a decoder, has none.
"""

import functools

import torch
from torch import Tensor

from attentune.attention import Entries, Reading, mass, reach, sharpness
from attentune.attention.readings import Target
from attentune.functional import pattern_loss_from_readings
from attentune.methods.passes import Pass


def readings_towards(target: Target, seen: Pass, *, even: bool = True) -> tuple[Reading, ...]:
    """What to read for a target; `even` says that all that a row holds is 0 or 1, so that P² = P."""
    if callable(target):
        target = functools.cache(target)  # made once, and not for each layer
    named, heads = seen.name, seen.heads
    reads: list[Reading] = [
        sharpness(heads, f"{named}.sharpness"),
        mass(target, f"{named}.mass", heads),
        reach(target, f"{named}.reach", heads),
    ]
    if not even:
        squares = functools.cache(lambda *sizes: _squared(target(*sizes))) if callable(target) else _squared(target)
        reads.append(reach(squares, f"{named}.squares", heads))
    return tuple(reads)


def _squared(target: Tensor | Entries) -> Tensor | Entries:
    return target.squared() if isinstance(target, Entries) else target.square()


def loss_towards(seen: Pass, *, even: bool = True) -> Tensor:
    """Σ over layers of the mean squared error of the rows that are real and have a target, from those readings."""
    names = [f"{seen.name}.{name}" for name in ("sharpness", "mass", "reach", "reach" if even else "squares")]
    losses = []
    for sharp, on_target, within, squares in zip(*map(seen.by_layer, names), strict=True):
        rows = within > 0  # (batch, heads, queries)
        if seen.real is not None:
            rows = rows & seen.real[:, None, -rows.shape[2] :].to(rows.device)
        total = within.masked_fill(~rows, 1.0)
        losses.append(pattern_loss_from_readings(sharp, on_target / total, squares / total.square(), rows=rows))
    return torch.stack([loss.to(losses[0].device) for loss in losses]).sum()
