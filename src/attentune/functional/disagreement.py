"""Disagreement: heads of a layer pushed apart, Li et al. 2018, "Multi-Head Attention with Disagreement Regularization".

The paper maximises D = −1/H² Σ_i Σ_j s(i, j), where s is how alike two heads are in their values ("subspace"), in what
they attend to ("position") or in what they put out ("output"). As a loss we minimise −D, the mean similarity over all pairs
of heads, a head with itself among them as in the paper. The H × H table is never made: Σ_i Σ_j u_i·u_j = ‖Σ_i u_i‖².
"""

from typing import Literal

import torch
from torch import Tensor

from attentune.errors import UserError
from attentune.functional.guiding import Reduction, _reduce

DisagreeOn = Literal["output", "subspace", "position"]


def disagreement_loss(
    x: Tensor,
    *,
    mask: Tensor | None = None,
    on: DisagreeOn = "output",
    reduction: Reduction = "mean",
) -> Tensor:
    """How alike the heads of a layer are: −D = 1/H² Σ_i Σ_j s(i, j), as a mean over the tokens that count.

    on="output"    s = cos(O_i, O_j)        `x` is the heads' outputs, (batch, heads, length, dim)
    on="subspace"  s = cos(V_i, V_j)        `x` is the heads' values, (batch, heads, length, dim)
    on="position"  s = Σ_k A_i[q, k]·A_j[q, k]  `x` is the heads' maps, (batch, heads, length, length)

    The paper writes the cosine of two matrices and the sum of a whole map. The reading here is by token: the cosine of
    two heads' vectors at each token, and the products of each query's row, averaged over the tokens that `mask`
    (batch, length) keeps, 1 or True; so neither length nor padding changes the scale. A zero vector is like no other, nor
    like itself. `reduction` is the "mean" over the batch, the "sum" over it, or "none", one figure an example.

    >>> import torch
    >>> one_direction = torch.ones(1, 2, 3, 4)
    >>> float(disagreement_loss(one_direction))
    1.0
    >>> apart = torch.eye(2)[None, :, None, :].expand(1, 2, 3, 2)
    >>> float(disagreement_loss(apart))
    0.5
    """
    if on not in ("output", "subspace", "position"):
        raise UserError(f'on must be "output", "subspace" or "position", not {on!r}')
    if x.dim() != 4 or (on == "position" and x.shape[2] != x.shape[3]):
        shape = "(batch, heads, length, length)" if on == "position" else "(batch, heads, length, dim)"
        raise UserError(f"disagreement on {on} takes x of shape {shape}, not {tuple(x.shape)}")
    batch, heads, length, _ = x.shape
    if mask is not None and mask.shape != (batch, length):
        raise UserError(f"mask must be (batch, length) = {(batch, length)}, not {tuple(mask.shape)}")
    x = x.to(torch.promote_types(x.dtype, torch.float32))
    real = x.new_ones((batch, length), dtype=torch.bool) if mask is None else mask.to(x.device).bool()
    together = _maps_together(x, real) if on == "position" else _directions_together(x, real)
    per_token = together.square().sum(dim=-1) / heads**2  # (batch, length)
    per_example = per_token.sum(dim=-1) / real.sum(dim=-1).clamp_min(1)
    return per_example.mean() if reduction == "mean" else _reduce(per_example, reduction)


def _directions_together(x: Tensor, real: Tensor) -> Tensor:
    """Σ_i x_i/‖x_i‖ at each real token, (batch, length, dim)."""
    x = x.masked_fill(~real[:, None, :, None], 0)  # whatever stands there, even what is no number
    norms = torch.linalg.vector_norm(x, dim=-1)  # (batch, heads, length)
    # 1/∞ = 0: what has no direction, and what is padding, counts for nothing and gets no gradient.
    norms = norms.masked_fill(norms == 0, torch.inf)
    total: Tensor = (x * norms.reciprocal()[..., None]).sum(dim=1)
    return total


def _maps_together(maps: Tensor, real: Tensor) -> Tensor:
    """Σ_i A_i between real tokens, (batch, length, length)."""
    return maps.sum(dim=1).masked_fill(~(real[:, :, None] & real[:, None, :]), 0)
