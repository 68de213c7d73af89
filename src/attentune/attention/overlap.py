"""Σ_k (Σ_h A_h[q, k])²: how much the heads of a layer look at the same, a block of queries at a time with all heads in it.

No map outlives its block; the backward makes the maps again. With T = Σ_h A_h, the gradient of the reading by A_h[q, k] is
2 T[q, k], the same for every head.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from attentune.attention import products
from attentune.attention.masks import Allowed
from attentune.attention.products import Block, maps_of
from attentune.attention.selection import Selection


def overlap_of(query: Tensor, key: Tensor, allowed: Allowed, scale: float, lse: Tensor, heads: Selection) -> Tensor:
    """Σ_k (Σ_h A_h[q, k])² over the chosen heads, (batch, 1, queries).

    The gradient goes through query and key alone, so that `lse`, which depends on them, is taken as a constant.
    """
    bias, count = allowed.bias, query.shape[1]
    chosen = list(heads.resolve(count, "head"))
    if len(chosen) < count:
        query, key, lse = query[:, chosen], key[:, chosen], lse[:, chosen]
        bias = bias if bias is None or bias.shape[1] == 1 else bias[:, chosen]
    result: Tensor = _Overlap.apply(query, key, bias, allowed.causal, scale, lse.detach())
    return result


class _Overlap(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, bias: Tensor | None, causal: bool, scale: float, lse: Tensor
    ) -> Tensor:
        ctx.save_for_backward(query, key, bias, lse)
        ctx.causal, ctx.scale = causal, scale
        batch, _, queries, _ = query.shape
        overlap = lse.new_empty(batch, 1, queries)
        for block in _blocks(query, key):
            together = maps_of(query, key, bias, causal, scale, block, lse).sum(dim=1)
            overlap[block.examples, 0, block.rows] = together.square().sum(dim=-1)
        return overlap

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_overlap: Tensor) -> tuple[Tensor | None, ...]:
        query, key, bias, lse = ctx.saved_tensors
        dq, dk = torch.empty_like(query), torch.zeros_like(key, dtype=lse.dtype)
        for block in _blocks(query, key):
            examples, heads, rows = block
            maps = maps_of(query, key, bias, ctx.causal, ctx.scale, block, lse)
            d_maps = maps.sum(dim=1, keepdim=True) * (2 * d_overlap[examples, :, rows, None])
            within_row = (maps * d_maps).sum(dim=-1, keepdim=True)
            d_scores = maps.mul_(d_maps - within_row).to(query.dtype)
            dq[block] = d_scores @ key[examples, heads] * ctx.scale
            dk[examples, heads] += d_scores.mT @ query[block] * ctx.scale
        return dq, dk.to(key.dtype), None, None, None, None


def _blocks(query: Tensor, key: Tensor) -> Iterator[Block]:
    """Some examples, all heads, some queries: as many as a block may hold, and at least one query of one example."""
    batch, heads, queries, _ = query.shape
    rows = max(1, products.BLOCK // (heads * key.shape[2]))
    for examples, some in products.steps((batch, queries), (rows // queries, rows)):
        yield Block(examples, slice(None), some)
