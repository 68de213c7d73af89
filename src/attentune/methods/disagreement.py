"""Disagreement: heads of a layer pushed apart, Li et al. 2018, "Multi-Head Attention with Disagreement Regularization".

loss = mean over the guided layers of 1/H² Σ_i Σ_j s(i, j), the mean similarity of a layer's H guided heads. The equation is
`functional.disagreement_loss`; on=position has Σ_k (Σ_i A_i[q, k])² = Σ_i Σ_j A_i[q]·A_j[q] from the reading `overlap`
instead, so that no map is made.
"""

from dataclasses import dataclass
from typing import ClassVar, get_args

import torch
from torch import Tensor

from attentune.attention import Reading, overlap
from attentune.errors import UserError
from attentune.functional import disagreement_loss
from attentune.functional.disagreement import DisagreeOn
from attentune.methods.base import Guide
from attentune.methods.passes import Pass


@dataclass(frozen=True)
class Disagreement(Guide):
    """Heads of a layer made less alike in what they look at, in what they give, or in the values that they work on.

    >>> str(Disagreement(0.1, on="position"))
    'disagreement(weight=0.1, on=position)'
    """

    name: ClassVar[str] = "disagreement"
    summary: ClassVar[str] = "heads of a layer are pushed apart, in what they give, attend to or work on"
    paper: ClassVar[str] = "Li et al. 2018, Multi-Head Attention with Disagreement Regularization"

    on: DisagreeOn = "output"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.on not in get_args(DisagreeOn):
            raise UserError(f"on must be position, output or subspace, not {self.on!r}")

    def reads(self, seen: Pass) -> tuple[Reading, ...]:
        """The heads' overlap, what they give, or their values."""
        if self.on == "position":
            return (overlap(seen.heads, f"{seen.name}.overlap"),)
        return ("outputs",) if self.on == "output" else ("values",)

    def loss(self, seen: Pass) -> Tensor:
        """The mean similarity of heads, a mean over layers, real tokens and batch."""
        for layer in seen.layers:
            if len(seen.heads_of(layer)) < 2:
                raise UserError(
                    f"{self} has one head in a layer, which can't disagree with itself; give it two or more with heads="
                )
        losses = self._by_position(seen) if self.on == "position" else self._by_direction(seen)
        return torch.stack([loss.to(losses[0].device) for loss in losses]).mean()

    def _by_position(self, seen: Pass) -> list[Tensor]:
        losses = []
        for layer in seen.layers:
            together = seen.observation.layers[layer][f"{seen.name}.overlap"][:, 0]  # (batch, queries)
            real = _last(seen.real, together)
            count = together.shape[1] if real is None else real.sum(dim=-1).clamp_min(1)
            per_token = together if real is None else together.masked_fill(~real, 0)
            losses.append((per_token.sum(dim=-1) / count).mean() / len(seen.heads_of(layer)) ** 2)
        return losses

    def _by_direction(self, seen: Pass) -> list[Tensor]:
        return [
            disagreement_loss(x, mask=_last(seen.real, x[:, 0, :, 0]), on=self.on)
            for x in seen.by_layer("outputs" if self.on == "output" else "values")
        ]


def _last(real: Tensor | None, tokens: Tensor) -> Tensor | None:
    """Of the real tokens, those that were given: a pass that goes on from a cache has no more of them."""
    return None if real is None else real[:, -tokens.shape[1] :].to(tokens.device)
