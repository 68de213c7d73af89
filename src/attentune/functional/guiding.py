"""Attention guiding: the two losses of Wang et al. 2022, "Paying More Attention to Self-attention".

Both work on M, one row for each head: what each token *receives* from that head, Σ_q A[q, k] (Eq. 8 and 9).
`mdg_loss` makes the rows differ (Eq. 10 and 11), `pdg_loss` makes the columns independent (Eq. 12). Summing over the
keys instead, as a literal reading of Eq. 8 has it, gives the constant 1 for every row of a softmax and no gradient at
all.
"""

from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import normalize as to_unit_length

from attentune.errors import UserError

Reduction = Literal["mean", "sum", "none"]


def mdg_loss(
    received: Tensor,
    *,
    mask: Tensor | None = None,
    temperature: float = 1.0,
    normalize: bool = True,
    reduction: Reduction = "mean",
) -> Tensor:
    """Map discrimination, Eq. 11: −Σ_i log( exp(m_i·m_i/τ) / Σ_j exp(m_j·m_i/τ) ), each head classified as itself.

    `received` is (batch, heads, length); `mask` (batch, length) keeps the tokens that count, 1 or True; `normalize`
    gives each m the length 1. `reduction` is "mean" over heads and batch, "sum" (Eq. 11 as printed, summed over the
    batch) or "none" (Eq. 11 as printed, one figure an example).

    >>> import torch
    >>> alike = torch.ones(1, 2, 4)
    >>> apart = torch.tensor([[[1.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 1.0]]])
    >>> bool(mdg_loss(apart) < mdg_loss(alike))
    True
    """
    if temperature <= 0:
        raise UserError(f"temperature must be above 0, not {temperature}")
    rows = _rows(received, mask, normalize)  # (batch, heads, length)
    similarity = _gram(rows) / temperature  # (batch, heads, heads)
    per_head = similarity.logsumexp(dim=-1) - similarity.diagonal(dim1=-2, dim2=-1)  # (batch, heads)
    if reduction == "mean":
        return per_head.mean()
    return _reduce(per_head.sum(dim=-1), reduction)


def pdg_loss(
    received: Tensor,
    *,
    mask: Tensor | None = None,
    normalize: bool = True,
    reduction: Reduction = "mean",
) -> Tensor:
    """Pattern decorrelation, Eq. 12: ‖MᵀM − I‖² over the tokens that count.

    The length × length matrix is never made: ‖MᵀM − I‖² = ‖MMᵀ‖² − 2·tr(MMᵀ) + length, where MMᵀ is heads × heads.
    Shapes and `mask` are those of `mdg_loss`. `reduction` is "mean" over each example's tokens and the batch, "sum"
    (Eq. 12 as printed, summed over the batch) or "none" (Eq. 12 as printed, one figure an example).

    >>> import torch
    >>> one_head_a_token = torch.eye(3)[None]
    >>> float(pdg_loss(one_head_a_token))
    0.0
    """
    rows = _rows(received, mask, normalize)  # (batch, heads, length)
    gram = _gram(rows)  # (batch, heads, heads)
    length = _lengths(received, mask)  # (batch,)
    trace = gram.diagonal(dim1=-2, dim2=-1).sum(dim=-1)
    per_example = gram.square().sum(dim=(-2, -1)) - 2 * trace + length
    if reduction == "mean":
        return (per_example / length.clamp_min(1)).mean()
    return _reduce(per_example, reduction)


def _rows(received: Tensor, mask: Tensor | None, normalize: bool) -> Tensor:
    """M of Eq. 9: masked, each row of length 1 where that is asked for."""
    if received.dim() != 3:
        raise UserError(f"received must be (batch, heads, length), not {tuple(received.shape)}")
    if mask is not None:
        if mask.shape != (received.shape[0], received.shape[2]):
            raise UserError(
                f"mask must be (batch, length) = {(received.shape[0], received.shape[2])}, not {tuple(mask.shape)}"
            )
        received = received * mask.to(received.dtype)[:, None, :]
    received = received.to(torch.promote_types(received.dtype, torch.float32))
    return to_unit_length(received, dim=-1) if normalize else received


def _gram(rows: Tensor) -> Tensor:
    """MMᵀ, (batch, heads, heads), in the rows' own precision: autocast would round it to percents of what PDG sums up."""
    with torch.autocast(rows.device.type, enabled=False):
        return rows @ rows.mT


def _lengths(received: Tensor, mask: Tensor | None) -> Tensor:
    """How many tokens of each example count, as (batch,)."""
    dtype = torch.promote_types(received.dtype, torch.float32)
    if mask is None:
        return received.new_full(received.shape[:1], received.shape[-1], dtype=dtype)
    return mask.to(dtype).sum(dim=-1)


def _reduce(per_example: Tensor, reduction: str) -> Tensor:
    if reduction == "sum":
        return per_example.sum()
    if reduction == "none":
        return per_example
    raise UserError(f'reduction must be "mean", "sum" or "none", not {reduction!r}')
