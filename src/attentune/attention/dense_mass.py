"""Σ_k A[q, k] P[q, k] for a dense target P: it has to be read map by map on every backend, so a block at a time."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from attentune.attention.masks import Allowed
from attentune.attention.products import blocks, maps_of, part_of


def dense_mass(query: Tensor, key: Tensor, allowed: Allowed, scale: float, lse: Tensor, target: Tensor) -> Tensor:
    """Σ_k A[q, k] P[q, k] for a target P broadcastable to (batch, heads, queries, keys), as (batch, heads, queries).

    The gradient goes through query and key alone, so that `lse`, which depends on them, is taken as a constant.
    """
    while target.dim() < 4:
        target = target[None]
    result: Tensor = _DenseMass.apply(query, key, allowed, scale, lse.detach(), target)
    return result


class _DenseMass(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, allowed: Allowed, scale: float, lse: Tensor, target: Tensor
    ) -> Tensor:
        ctx.save_for_backward(query, key, lse, target)
        ctx.allowed, ctx.scale = allowed, scale
        mass = torch.empty_like(lse)
        for block in blocks(query, key):
            maps = maps_of(query, key, allowed.bias, allowed.causal, scale, block, lse)
            mass[block] = maps.mul_(part_of(target, block)).sum(dim=-1)
        return mass

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_mass: Tensor) -> tuple[Tensor | None, ...]:
        query, key, lse, target = ctx.saved_tensors
        allowed, scale = ctx.allowed, ctx.scale
        dq, dk = torch.empty_like(query), torch.zeros_like(key, dtype=lse.dtype)
        for block in blocks(query, key):
            maps = maps_of(query, key, allowed.bias, allowed.causal, scale, block, lse)
            d_maps = d_mass[block][..., None] * part_of(target, block)
            d_scores = (maps * (d_maps - (maps * d_maps).sum(dim=-1, keepdim=True))).to(query.dtype)
            dq[block] = d_scores @ key[block.examples, block.heads] * scale
            dk[block.examples, block.heads] += d_scores.mT @ query[block] * scale
        return dq, dk.to(key.dtype), None, None, None, None
