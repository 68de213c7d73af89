"""Attention, its readings and their gradients by plain products, a block of the map at a time and again in the backward.

This runs where it beats torch's fused kernels (short texts, and attention dropout, on a CPU) and where torch has none that
work (other devices, other dtypes, a torch that changed). No part of a map outlives its block. The map is in float32 at least,
products with it are in the inputs' dtype.
"""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from attentune.attention.masks import FORBIDDEN, Allowed, causal_triangle, reading_dtype

BLOCK = 2**20
"""How many elements of a map exist at once: large enough that the calls cost little, small enough for a cache."""

SHORT = 512
"""Tokens up to which, on a CPU, a backward by products takes less time than the fused one: a third at 40, nine tenths at 512."""


class Block(NamedTuple):
    """A part of all maps of a batch: some examples, some heads, some queries, every key."""

    examples: slice
    heads: slice
    rows: slice


class Upstream(NamedTuple):
    """The gradients that come in from above, each None where nothing comes."""

    output: Tensor | None
    lse: Tensor | None = None
    received: Tensor | None = None
    sharpness: Tensor | None = None


def are_faster(query: Tensor, key: Tensor) -> bool:
    """Whether a backward by products takes less time than one by the fused kernel."""
    return query.device.type == "cpu" and query.shape[2] * key.shape[2] <= SHORT**2


def blocks(query: Tensor, key: Tensor) -> Iterator[Block]:
    """The parts in their order; each example's and head's queries are split only where one map is too large alone."""
    batch, heads, queries, _ = query.shape
    rows = max(1, BLOCK // key.shape[2])
    for example, head, row in steps((batch, heads, queries), (rows // (heads * queries), rows // queries, rows)):
        yield Block(example, head, row)


def steps(sizes: tuple[int, ...], at_once: tuple[int, ...]) -> Iterator[tuple[slice, ...]]:
    """Slices that together cover `sizes`, the last dimension whole before the one before it is taken several at once."""
    if not sizes:
        yield ()
        return
    step = max(1, at_once[0])
    for start in range(0, sizes[0], step):
        first = slice(start, min(start + step, sizes[0]))
        yield from ((first, *rest) for rest in steps(sizes[1:], at_once[1:]))


def product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    allowed: Allowed,
    scale: float,
    weight: Tensor | None,
    sharp: tuple[int, ...] = (),
    dropout: float = 0.0,
) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
    """What `fused_attention` returns; with dropout of the map, which touches the output alone."""
    output, lse, received, sharpness = _ProductAttention.apply(
        query, key, value, allowed, scale, weight, sharp, dropout
    )
    return output, lse, received, sharpness


def scores(
    query: Tensor,
    key: Tensor,
    bias: Tensor | None,
    causal: bool,
    scale: float,
    block: Block,
    less: Tensor | None = None,
) -> Tensor:
    """S of one block in the dtype of readings, less a number (batch, heads, queries) for each of its rows."""
    examples, heads, rows = block
    dtype = reading_dtype(query.dtype)  # the exponent of a score rounded to bfloat16 would be off by percents
    product = query[block].to(dtype) @ key[examples, heads].to(dtype).mT
    if less is None:
        product *= scale
    else:  # in one pass over the block
        torch.add(-less[block][..., None], product, alpha=scale, out=product)
    if bias is not None:
        product += part_of(bias, block)
    if causal:
        product.masked_fill_(~causal_triangle(rows.start, rows.stop, 0, key.shape[2], query.device), FORBIDDEN)
    return product


def maps_of(
    query: Tensor, key: Tensor, bias: Tensor | None, causal: bool, scale: float, block: Block, lse: Tensor
) -> Tensor:
    """A of one block, where the log-sum-exp of each row is known."""
    return scores(query, key, bias, causal, scale, block, less=lse).exp_()


def part_of(tensor: Tensor, block: Block) -> Tensor:
    """A block of a tensor that broadcasts to (batch, heads, queries, …)."""
    whole = slice(None)
    return tensor[tuple(whole if size == 1 else part for size, part in zip(tensor.shape, block, strict=False))]


def gradients(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    output: Tensor,
    lse: Tensor,
    bias: Tensor | None,
    weight: Tensor | None,
    sharpness: Tensor | None,
    scale: float,
    causal: bool,
    upstream: Upstream,
    sharp: tuple[int, ...] = (),
    drop: "Dropout | None" = None,
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Gradients of query, key and value, given those of the results: the equations of `fused`, and 2 A d_sharpness."""
    dtype, low = lse.dtype, query.dtype
    d_output, d_lse, g, d_sharpness = upstream
    d_rows = lse.new_zeros(lse.shape)  # D of dS = A ∘ (dO Vᵀ + w gᵀ − D), less what g adds to it
    if d_output is not None:
        d_rows += (d_output.to(dtype) * output.to(dtype)).sum(dim=-1)
        d_output = d_output.to(low) if drop is None else (d_output / drop.keep).to(low)
    if d_lse is not None:
        d_rows -= d_lse
    twice = None if d_sharpness is None else 2 * d_sharpness
    if twice is not None and sharpness is not None:
        d_rows += twice * sharpness
    dq, dk = _like_in_models(query), _Summed(key, query)
    dv = None if d_output is None else _Summed(value, query)
    draws = None if drop is None else drop.draws()
    for block in blocks(query, key):
        examples, heads, _ = block
        maps = maps_of(query, key, bias, causal, scale, block, lse)
        rows = d_rows[block][..., None]
        through_received = None
        if g is not None and weight is not None:
            w, g_here = part_of(weight, block).expand(maps.shape[:3])[..., None], g[examples, heads]
            rows = rows + w * (maps @ g_here[..., None])
            through_received = w, g_here[:, :, None, :]
        if d_output is not None and dv is not None:
            d_out, seen = d_output[block], maps
            d_scores = (d_out @ value[examples, heads].mT).to(dtype)
            if draws is not None:
                kept = draws.next(maps)
                d_scores *= kept
                seen = maps * kept
            dv.add(block, seen.to(low).mT @ d_out)
            d_scores -= rows
        else:
            d_scores = (-rows).expand_as(maps).clone()
        if through_received is not None:
            d_scores.addcmul_(*through_received)
        if twice is not None and _has_any(heads, sharp):
            d_scores.addcmul_(twice[block][..., None], maps)
        narrow = d_scores.mul_(maps).to(low)
        dq[block] = narrow @ key[examples, heads]
        dk.add(block, narrow.mT @ query[block])
    return dq.mul_(scale), dk.total.mul_(scale).to(low), None if dv is None else dv.total.to(low)


def _has_any(heads: slice, wanted: tuple[int, ...]) -> bool:
    """Whether some of the heads are among those wanted."""
    return any(heads.start <= head < heads.stop for head in wanted)


class _Summed:
    """A gradient of key or value: each block's share, added up in full precision where the queries are split over blocks."""

    def __init__(self, tensor: Tensor, query: Tensor) -> None:
        self.queries = query.shape[2]
        self.is_split = self.queries * tensor.shape[2] > BLOCK
        self.total = _like_in_models(tensor, reading_dtype(tensor.dtype) if self.is_split else tensor.dtype)
        if self.is_split:
            self.total.zero_()

    def add(self, block: Block, share: Tensor) -> None:
        """Add what a block's queries contribute."""
        if self.is_split:
            self.total[block.examples, block.heads] += share
        else:
            self.total[block.examples, block.heads] = share


class Dropout:
    """Dropout of a map whose draws can be had again: 16 random bits for each element, from a seed of its own."""

    def __init__(self, probability: float) -> None:
        self.dropped = round(probability * 2**16)
        self.keep = 1 - self.dropped / 2**16
        self.seed = int(torch.randint(2**62, ()))  # from the usual generator, so that runs repeat

    def draws(self) -> "Draws":
        """The draws from their beginning."""
        return Draws(self.dropped, torch.Generator().manual_seed(self.seed))


class Draws:
    """Which elements are kept, block by block."""

    def __init__(self, dropped: int, generator: torch.Generator) -> None:
        self.dropped, self.generator = dropped, generator

    def next(self, maps: Tensor) -> Tensor:
        """True where an element of the next block is kept."""
        words = torch.empty(math.ceil(maps.numel() / 4), dtype=torch.int64)
        words.random_(-(2**63), None, generator=self.generator)
        return words.view(torch.int16)[: maps.numel()].view(maps.shape) >= self.dropped - 2**15


class _ProductAttention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        allowed: Allowed,
        scale: float,
        weight: Tensor | None,
        sharp: tuple[int, ...],
        dropout: float,
    ) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
        drop = Dropout(dropout) if dropout else None
        draws = None if drop is None else drop.draws()
        lse = query.new_empty(query.shape[:3], dtype=reading_dtype(query.dtype))
        total = None if weight is None else lse.new_zeros(key.shape[:3])
        sharpness = torch.zeros_like(lse) if sharp else None
        batch, heads, queries, _ = query.shape
        output = value.new_empty(batch, queries, heads, value.shape[-1]).transpose(1, 2)
        for block in blocks(query, key):
            sums = scores(query, key, allowed.bias, allowed.causal, scale, block)
            maps = sums.softmax(dim=-1)
            # Of a row's largest element: S − log A is the log-sum-exp at any element, and there A is at least 1 / keys.
            lse[block] = sums.amax(dim=-1) - maps.amax(dim=-1).log_()
            if total is not None and weight is not None:
                _add_received(total, maps, weight, block)
            if sharpness is not None and _has_any(block.heads, sharp):
                sharpness[block] = maps.square().sum(dim=-1)
            if draws is not None:
                maps *= draws.next(maps)
            output[block] = maps.to(value.dtype) @ value[block.examples, block.heads]
        if drop is not None:
            output /= drop.keep
        ctx.save_for_backward(query, key, value, output, lse, allowed.bias, weight, sharpness)
        ctx.causal, ctx.scale, ctx.drop, ctx.sharp = allowed.causal, scale, drop, sharp
        ctx.set_materialize_grads(False)
        return output, lse, total, sharpness

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *upstream: Tensor | None) -> tuple[Tensor | None, ...]:
        query, key, value, output, lse, bias, weight, sharpness = ctx.saved_tensors
        grads = gradients(
            query,
            key,
            value,
            output,
            lse,
            bias,
            weight,
            sharpness,
            ctx.scale,
            ctx.causal,
            Upstream(*upstream),
            ctx.sharp,
            ctx.drop,
        )
        return *grads, None, None, None, None, None


def _add_received(total: Tensor, maps: Tensor, weight: Tensor, block: Block) -> None:
    w = part_of(weight, block).expand(maps.shape[:3])[:, :, None, :]
    total[block.examples, block.heads] += (w @ maps)[:, :, 0]


def _like_in_models(tensor: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """An empty tensor of this shape, in memory as models have their heads: (batch, length, heads, dim)."""
    batch, heads, length, width = tensor.shape
    return tensor.new_empty(batch, length, heads, width, dtype=dtype).transpose(1, 2)
