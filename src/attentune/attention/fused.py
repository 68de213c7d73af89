"""Output, log-sum-exp and received attention, differentiable together, from stock fused kernels: no map is ever kept.

With S = scale·QKᵀ + bias, lse_q = log Σ_k exp S[q, k], A = exp(S − lse) and a weight w_q for each query:

forward    received_k = Σ_q w_q A[q, k] is itself an attention with the roles swapped: K asks, Q answers, the bias of
           query q is log w_q − lse_q, and the log-sum-exp that comes back is log received.
backward   with upstream (dO, dlse, g): dS = A ∘ (dO·Vᵀ + w gᵀ − D), D = rowsum(dO ∘ O) + w ∘ (A g) − dlse. That is the
           stock backward on tensors two columns wider: V ⊕ [g, 0], dO ⊕ [w, 1], O ⊕ [A g, −dlse]; A g is one forward
           with value g.

sharpness  Σ_k A[q, k]² is exp(lse at twice the scale and bias − 2·lse).

Where plain products of the same equations take less time, as for short texts on a CPU, `products` does the backward.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import pad

from attentune.attention import kernels, products
from attentune.attention.masks import FORBIDDEN, Allowed, causal_triangle
from attentune.attention.readings import in_a_row

CHUNK_ELEMENTS = 2**22
"""How many elements of a swapped (keys × queries) bias may exist at once, where a bias that differs by query needs one."""


def fused_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    allowed: Allowed,
    scale: float,
    weight: Tensor | None,
    sharp: tuple[int, ...] = (),
) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
    """Output (batch, heads, queries, dim), lse (batch, heads, queries), received (batch, heads, keys) where `weight` is
    given, and sharpness (batch, heads, queries) where `sharp` names heads; of the others it has no meaning.

    `weight` (batch, 1 or heads, queries) says how much each query counts. Heads and widths of all inputs agree.
    """
    output, lse, received, sharpness = _FusedAttention.apply(query, key, value, allowed, scale, weight, sharp)
    return output, lse, received, sharpness


class _FusedAttention(torch.autograd.Function):
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
    ) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
        bias, causal = allowed.bias, allowed.causal
        output, lse, saved = kernels.forward(query, key, value, bias, scale, causal)
        received = None if weight is None else _received(query, key, allowed, scale, weight, lse)
        sharpness = twice = None
        if sharp:
            some = in_a_row(sharp)
            narrow = value[
                :, some, :, : kernels.narrowest_value(query)
            ]  # of no meaning: only the log-sum-exp is wanted
            doubled = _doubled(allowed.of_heads(some).bias)
            _, at_twice, twice = kernels.forward(query[:, some], key[:, some], narrow, doubled, 2 * scale, causal)
            sharpness = torch.zeros_like(lse)
            sharpness[:, some] = (at_twice - 2 * lse[:, some]).exp()
        ctx.twice = None if products.are_faster(query, key) else twice
        ctx.sharp = sharp
        ctx.save_for_backward(query, key, value, output, bias, weight, sharpness, saved.logsumexp, *saved.state)
        ctx.causal, ctx.scale = causal, scale
        ctx.set_materialize_grads(False)
        return output, lse, received, sharpness

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *upstreams: Tensor | None) -> tuple[Tensor | None, ...]:
        query, key, value, output, bias, weight, sharpness, logsumexp, *state = ctx.saved_tensors
        upstream, scale, causal = products.Upstream(*upstreams), ctx.scale, ctx.causal
        if all(gradient is None for gradient in upstream):
            return (None,) * 7
        grads: tuple[Tensor | None, ...]
        if products.are_faster(query, key):
            grads = products.gradients(
                query, key, value, output, logsumexp, bias, weight, sharpness, scale, causal, upstream, ctx.sharp
            )
            return *grads, None, None, None, None
        through_twice = None
        if upstream.sharpness is not None and sharpness is not None:
            # d sharpness = sharpness · (d lse at twice − 2 d lse), and of the former only query and key are to be had.
            c = upstream.sharpness * sharpness
            some = in_a_row(ctx.sharp)
            q, k, v = query[:, some], key[:, some], value[:, some]
            doubled = _doubled(bias if bias is None or bias.shape[1] == 1 else bias[:, some])
            at_twice = products.Upstream(None, lse=c[:, some])
            through_twice = _gradients(q, k, v, None, ctx.twice, doubled, None, 2 * scale, causal, at_twice)
            d_lse = -2 * c if upstream.lse is None else upstream.lse - 2 * c
            upstream = upstream._replace(lse=d_lse)
        saved = kernels.Saved(logsumexp, tuple(state))
        grads = _gradients(query, key, value, output, saved, bias, weight, scale, causal, upstream)
        if through_twice is not None:
            for whole, more in zip(grads[:2], through_twice[:2], strict=True):
                assert whole is not None
                whole[:, some] += more  # type: ignore[arg-type]
        return *grads, None, None, None, None


def _doubled(bias: Tensor | None) -> Tensor | None:
    return None if bias is None else 2 * bias


def _gradients(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    output: Tensor | None,
    saved: kernels.Saved,
    bias: Tensor | None,
    weight: Tensor | None,
    scale: float,
    causal: bool,
    upstream: products.Upstream,
) -> tuple[Tensor | None, ...]:
    """Gradients of query, key and value by the stock backward, on widened tensors where readings send some."""
    d_output, d_lse, g, _ = upstream
    if d_lse is None and g is None:
        assert d_output is not None
        assert output is not None
        return kernels.backward(d_output.to(output.dtype), query, key, value, output, saved, bias, scale, causal)

    columns = _columns(query, key, bias, weight, d_lse, g, scale, causal)
    width = query.shape[-1]
    if d_output is None and width >= _COLUMNS:  # readings alone: they take the place of the values
        values, d_outputs, outputs = (_widened(None, width, column) for column in columns)
        dq, dk, _ = kernels.backward(d_outputs, query, key, values, outputs, saved, bias, scale, causal)
        return dq, dk, None

    wide = width + _extra_width(query)
    values, d_outputs, outputs = (
        _widened(tensor, wide, column) for tensor, column in zip((value, d_output, output), columns, strict=True)
    )
    dq, dk, dv = kernels.backward(
        d_outputs, _widened(query, wide), _widened(key, wide), values, outputs, saved, bias, scale, causal
    )
    return dq[..., :width], dk[..., :width], dv[..., :width]


_COLUMNS = 2  # one for g and w, one for dlse


def _extra_width(query: Tensor) -> int:
    """How many columns to add: just ours on CPU; up to the next multiple of 8 on CUDA, whose kernels read 16 bytes at a time."""
    if query.device.type == "cpu":
        return _COLUMNS
    return _COLUMNS + (-(query.shape[-1] + _COLUMNS)) % 8


def _widened(tensor: Tensor | None, width: int, columns: Tensor | None = None) -> Tensor:
    """`tensor`, zeros, and `columns` at the end of `width`: each number written once, in the memory layout of the models."""
    like = columns if tensor is None else tensor
    assert like is not None
    batch, heads, length, _ = like.shape
    wide = like.new_empty(batch, length, heads, width).transpose(1, 2)
    own = width if columns is None else width - columns.shape[-1]
    used = 0 if tensor is None else tensor.shape[-1]
    if tensor is not None:
        wide[..., :used] = tensor
    if own > used or columns is None:
        wide[..., used:own] = 0
    if columns is not None:
        wide[..., own:] = columns
    return wide


def _columns(
    query: Tensor, key: Tensor, bias: Tensor | None, weight: Tensor | None, d_lse: Tensor | None, g: Tensor | None,
    scale: float, causal: bool,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """The columns [g, 0] for the values, [w, 1] for the upstream and [A g, −dlse] for the outputs, in the inputs' dtype."""
    batch, heads, queries, _ = query.shape
    blank = query.new_zeros(batch, heads, 1)
    nothing, zeros = blank.expand(-1, -1, queries), blank.expand(-1, -1, key.shape[2])
    if g is None:
        g, w, a_g = zeros, nothing, nothing
    else:
        # Rows of A sum to 1, so a constant added to g changes nothing; without its mean, low precision keeps more of
        # it.
        g = (g - g.mean(dim=-1, keepdim=True)).to(query.dtype)
        assert weight is not None  # there is no gradient of received where it was not asked for
        w = weight.to(query.dtype).expand(batch, heads, queries)
        g_as_value = pad(g[..., None], (0, kernels.narrowest_value(query) - 1))
        a_g = kernels.forward(query, key, g_as_value, bias, scale, causal)[0][..., 0]
    one = blank.new_ones(()).expand(batch, heads, queries)
    minus_d_lse = nothing if d_lse is None else -d_lse.to(query.dtype)
    return torch.stack([g, zeros], -1), torch.stack([w, one], -1), torch.stack([a_g, minus_d_lse], -1)


def _received(query: Tensor, key: Tensor, allowed: Allowed, scale: float, weight: Tensor, lse: Tensor) -> Tensor:
    """Σ_q w_q A[q, k] as (batch, heads, keys): the swapped attention of this module's docstring."""
    offset = weight.to(lse.dtype).log().clamp_min(FORBIDDEN) - lse  # (batch, heads, queries)
    if allowed.keys_only:
        received = _swapped(key, query, None, offset, scale).exp()
        return received if allowed.bias is None else received * allowed.bias[:, :, 0, :].exp()
    batch, heads, queries, _ = query.shape
    keys = key.shape[2]
    step = max(16, CHUNK_ELEMENTS // (batch * heads * queries))
    parts = []
    for start in range(0, keys, step):
        stop = min(start + step, keys)
        first = min(start, queries) if allowed.causal else 0  # queries before the first key see none of these
        if first == queries:
            parts.append(offset.new_zeros(batch, heads, stop - start))
            continue
        bias = _swapped_bias(allowed, first, queries, start, stop, query.device, offset.dtype)
        parts.append(_swapped(key[:, :, start:stop], query[:, :, first:], bias, offset[..., first:], scale).exp())
    return torch.cat(parts, dim=-1)


def _swapped_bias(
    allowed: Allowed, first: int, queries: int, start: int, stop: int, device: torch.device, dtype: torch.dtype
) -> Tensor:
    """The bias of one chunk of keys, transposed: (batch or 1, heads or 1, keys of the chunk, queries)."""
    if allowed.bias is not None:
        return allowed.bias[..., start:stop].mT
    hidden = ~causal_triangle(first, queries, start, stop, device).mT
    return torch.zeros(hidden.shape, dtype=dtype, device=device).masked_fill_(hidden, FORBIDDEN)[None, None]


def _swapped(key: Tensor, query: Tensor, bias: Tensor | None, offset: Tensor, scale: float) -> Tensor:
    """log Σ_q exp(S[q, k] + bias[k, q] + offset[q]) as (batch, heads, keys)."""
    if query.device.type == "cuda" and query.dtype == torch.bfloat16:
        # There a bias has only bfloat16's 8 bits; as three columns of the product, offset keeps all of float32's.
        columns = _in_three(offset / scale, query.dtype)  # (batch, heads, queries, 3)
        fill = -(query.shape[-1] + 3) % 8
        query = pad(torch.cat([query, columns], dim=-1), (0, fill))
        ones = key.new_ones(()).expand(*key.shape[:-1], 3)
        key = pad(torch.cat([key, ones], dim=-1), (0, fill))
    else:
        offset = offset[:, :, None, :]
        bias = offset if bias is None else (bias + offset).contiguous()
    value = query[..., : kernels.narrowest_value(query)]  # of no meaning: the log-sum-exp is what we are after
    return kernels.forward(key, query, value, bias, scale, causal=False)[1]


def _in_three(wide: Tensor, dtype: torch.dtype) -> Tensor:
    """A float32 tensor as the sum of three of a narrower dtype, along a new last dimension."""
    parts = []
    for _ in range(3):
        parts.append(wide.to(dtype))
        wide = wide - parts[-1].to(wide.dtype)
    return torch.stack(parts, dim=-1)
