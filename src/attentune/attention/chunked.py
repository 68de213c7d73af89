"""The same three results as `fused`, from plain torch, a chunk of queries at a time and again in the backward.

It runs where torch has no fused kernels that work (other devices, other dtypes, a torch that changed). Nothing of size
queries × keys outlives a chunk. `dense_mass` lives here too: a dense target has to be read map by map on every backend.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from attentune.attention.masks import FORBIDDEN, Allowed, causal_triangle, reading_dtype

CHUNK_ELEMENTS = 2**22
"""How many elements of a map may exist at once."""


def chunked_attention(
    query: Tensor, key: Tensor, value: Tensor, allowed: Allowed, scale: float, weight: Tensor | None
) -> tuple[Tensor, Tensor, Tensor | None]:
    """What `fused_attention` returns, recomputed in chunks."""
    output, lse, received = _ChunkedAttention.apply(query, key, value, allowed, scale, weight)
    return output, lse, received


def dense_mass(query: Tensor, key: Tensor, allowed: Allowed, scale: float, lse: Tensor, target: Tensor) -> Tensor:
    """Σ_k A[q, k] P[q, k] for a target P broadcastable to (batch, heads, queries, keys), as (batch, heads, queries).

    The gradient goes through query and key alone, so that `lse`, which depends on them, is taken as a constant.
    """
    while target.dim() < 4:
        target = target[None]
    result: Tensor = _DenseMass.apply(query, key, allowed, scale, lse.detach(), target)
    return result


def _chunks(query: Tensor, key: Tensor) -> Iterator[slice]:
    batch, heads, queries, _ = query.shape
    step = max(1, CHUNK_ELEMENTS // (batch * heads * key.shape[2]))
    return (slice(start, min(start + step, queries)) for start in range(0, queries, step))


def _scores(query: Tensor, key: Tensor, allowed: Allowed, scale: float, rows: slice) -> Tensor:
    """S for some queries: (batch, heads, rows, keys)."""
    scores = query[:, :, rows] @ key.mT * scale
    if allowed.bias is not None:
        return scores + (allowed.bias if allowed.bias.shape[-2] == 1 else allowed.bias[:, :, rows])
    if allowed.causal:
        triangle = causal_triangle(rows.start, rows.stop, 0, key.shape[2], query.device)
        return scores.masked_fill(~triangle, FORBIDDEN)
    return scores


class _ChunkedAttention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, value: Tensor, allowed: Allowed, scale: float, weight: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        ctx.save_for_backward(query, key, value, weight)
        ctx.allowed, ctx.scale = allowed, scale
        ctx.set_materialize_grads(False)
        dtype = reading_dtype(query.dtype)
        query, key, wide_value = query.to(dtype), key.to(dtype), value.to(dtype)
        outputs, lses = [], []
        received = None if weight is None else query.new_zeros(key.shape[:3])
        for rows in _chunks(query, key):
            scores = _scores(query, key, allowed, scale, rows)
            lses.append(scores.logsumexp(dim=-1))
            maps = (scores - lses[-1][..., None]).exp()
            outputs.append(maps @ wide_value)
            if received is not None and weight is not None:
                received += (maps * weight[:, :, rows, None]).sum(dim=-2)
        return torch.cat(outputs, dim=2).to(value.dtype), torch.cat(lses, dim=2), received

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, d_output: Tensor | None, d_lse: Tensor | None, g: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        original_query, original_key, original_value, weight = ctx.saved_tensors
        allowed, scale = ctx.allowed, ctx.scale
        dtype = reading_dtype(original_query.dtype)
        query, key, value = (x.to(dtype) for x in (original_query, original_key, original_value))
        dq, dk, dv = torch.zeros_like(query), torch.zeros_like(key), torch.zeros_like(value)
        for rows in _chunks(query, key):
            maps = _scores(query, key, allowed, scale, rows).softmax(dim=-1)
            d_maps = torch.zeros_like(maps)
            if d_output is not None:
                upstream = d_output[:, :, rows].to(dtype)
                d_maps += upstream @ value.mT
                dv += maps.mT @ upstream
            if g is not None and weight is not None:
                d_maps += weight[:, :, rows, None] * g[:, :, None, :]
            d_scores = maps * (d_maps - (maps * d_maps).sum(dim=-1, keepdim=True))
            if d_lse is not None:
                d_scores += maps * d_lse[:, :, rows, None]
            dq[:, :, rows] = d_scores @ key * scale
            dk += d_scores.mT @ query[:, :, rows] * scale
        return (
            dq.to(original_query.dtype), dk.to(original_key.dtype), dv.to(original_value.dtype), None, None, None,
        )  # fmt: skip


class _DenseMass(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, allowed: Allowed, scale: float, lse: Tensor, target: Tensor
    ) -> Tensor:
        ctx.save_for_backward(query, key, lse, target)
        ctx.allowed, ctx.scale = allowed, scale
        dtype = reading_dtype(query.dtype)
        query, key = query.to(dtype), key.to(dtype)
        parts = []
        for rows in _chunks(query, key):
            maps = (_scores(query, key, allowed, scale, rows) - lse[:, :, rows, None]).exp()
            parts.append((maps * _rows_of(target, rows)).sum(dim=-1))
        return torch.cat(parts, dim=2)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_mass: Tensor) -> tuple[Tensor | None, ...]:
        original_query, original_key, lse, target = ctx.saved_tensors
        allowed, scale = ctx.allowed, ctx.scale
        dtype = reading_dtype(original_query.dtype)
        query, key = original_query.to(dtype), original_key.to(dtype)
        dq, dk = torch.zeros_like(query), torch.zeros_like(key)
        for rows in _chunks(query, key):
            maps = (_scores(query, key, allowed, scale, rows) - lse[:, :, rows, None]).exp()
            d_maps = d_mass[:, :, rows, None] * _rows_of(target, rows)
            d_scores = maps * (d_maps - (maps * d_maps).sum(dim=-1, keepdim=True))
            dq[:, :, rows] = d_scores @ key * scale
            dk += d_scores.mT @ query[:, :, rows] * scale
        return dq.to(original_query.dtype), dk.to(original_key.dtype), None, None, None, None


def _rows_of(target: Tensor, rows: slice) -> Tensor:
    return target if target.shape[-2] == 1 else target[..., rows, :]
