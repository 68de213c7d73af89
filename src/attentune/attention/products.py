"""Sums over the maps of short texts in bfloat16 on a CPU, by plain products: there they take half the fused kernel's time.

A map exists only for some examples at a time, at most `CHUNK_ELEMENTS` in all. For longer texts, and for every other dtype and
device, the fused kernel is faster and `fused` uses that.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from attentune.attention.masks import FORBIDDEN, causal_triangle

CHUNK_ELEMENTS = 2**22
SHORT = 384
"""Tokens up to which products are faster: measured at 128, 256 (twice as fast) and 1024 (half as fast)."""


def are_faster(query: Tensor, key: Tensor) -> bool:
    """Whether this is the case that this module is for."""
    short = query.shape[2] * key.shape[2] <= SHORT**2
    return short and query.dtype == torch.bfloat16 and query.device.type == "cpu"


def received(
    query: Tensor, key: Tensor, bias: Tensor | None, scale: float, causal: bool, lse: Tensor, weight: Tensor
) -> Tensor:
    """Σ_q w_q A[q, k] as (batch, heads, keys)."""
    weight = weight.to(lse.dtype).expand_as(lse)
    parts = [weight[rows, :, None] @ maps for rows, maps in _maps(query, key, bias, scale, causal, lse)]
    return torch.cat(parts)[:, :, 0]


def attended(
    query: Tensor, key: Tensor, bias: Tensor | None, scale: float, causal: bool, lse: Tensor, values: Tensor
) -> Tensor:
    """Σ_k A[q, k] v_k for one number v_k a key, as (batch, heads, queries)."""
    values = values.to(lse.dtype)[..., None]
    return torch.cat([maps @ values[rows] for rows, maps in _maps(query, key, bias, scale, causal, lse)])[..., 0]


def _maps(
    query: Tensor, key: Tensor, bias: Tensor | None, scale: float, causal: bool, lse: Tensor
) -> Iterator[tuple[slice, Tensor]]:
    """The maps of some examples at a time, in float32."""
    batch, heads, queries, _ = query.shape
    if causal:
        hidden = ~causal_triangle(0, queries, 0, key.shape[2], query.device)
        bias = torch.zeros(hidden.shape, device=query.device).masked_fill_(hidden, FORBIDDEN)[None, None]
    step = max(1, CHUNK_ELEMENTS // (heads * queries * key.shape[2]))
    for start in range(0, batch, step):
        rows = slice(start, min(start + step, batch))
        scores = (query[rows] @ key[rows].mT).float().mul_(scale)
        if bias is not None:
            scores += bias if bias.shape[0] == 1 else bias[rows]
        yield rows, scores.sub_(lse[rows, :, :, None]).exp_()
