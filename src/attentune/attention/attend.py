"""`attend`: torch's scaled dot-product attention, and differentiable readings of its map beside the output.

This module checks what is given, chooses the backend, and turns the three things that a fused pass yields (output,
log-sum-exp, received) into every reading of `readings`. The kernels and their mathematics are in `fused`, the truth is
in `reference`.
"""

import functools
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import pad, scaled_dot_product_attention

from attentune.attention import kernels
from attentune.attention.dense_mass import dense_mass
from attentune.attention.entries import Entries, entries_mass
from attentune.attention.fused import fused_attention
from attentune.attention.masks import Allowed, allow, reading_dtype
from attentune.attention.overlap import overlap_of
from attentune.attention.products import product_attention
from attentune.attention.readings import (
    Known,
    Overlap,
    Reading,
    Sharpness,
    Targeted,
    check_readings,
    in_a_row,
    with_targets,
)
from attentune.attention.reference import attend_by_reference
from attentune.attention.targets import reach_of, sparse_mass
from attentune.errors import UserError

logger = logging.getLogger(__name__)

Backend = Literal["auto", "fused", "reference"]


@dataclass(frozen=True)
class Attended:
    """What `attend` returns: the `output` of attention and the `readings` by name."""

    output: Tensor
    readings: Mapping[str, Tensor] = field(default_factory=dict)


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    mask: Tensor | None = None,
    scale: float | None = None,
    query_weight: Tensor | None = None,
    dropout: float = 0.0,
    is_causal: bool = False,
    read: Iterable[Reading] | Reading = (),
    backend: Backend = "auto",
) -> Attended:
    """Attention with readings. Shapes are (batch, heads, length, dim) as in torch's scaled_dot_product_attention.

    Key and value may have fewer heads. `mask` is boolean (True: may attend) or additive, `is_causal` the plain
    triangle. `query_weight` (batch, queries) says how much each query counts in `received`: 0 for padding. `dropout`
    touches the output only. `backend` "fused" keeps no map in memory, "reference" keeps it, "auto" takes "fused" where
    it can.

    >>> query, key, value = torch.randn(3, 2, 4, 10, 16)
    >>> result = attend(query, key, value, read=["received", "entropy"])
    >>> result.output.shape, result.readings["received"].shape
    (torch.Size([2, 4, 10, 16]), torch.Size([2, 4, 10]))
    """
    asked = check_readings(read)
    query, key, value = _one_dtype(query, key, value)
    key, value = _as_many_heads(query, key, value)
    _check(query, key, value, query_weight, dropout)
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    with torch.autocast(query.device.type, enabled=False):
        allowed = allow(mask, is_causal, query, key)
        known = with_targets(asked, query, key)
        if _takes_reference(backend, known, mask, query_weight):
            output, readings = attend_by_reference(query, key, value, allowed, scale, query_weight, dropout, known)
            return Attended(output, readings)
        if value.shape[-1] == query.shape[-1] and (not dropout or drops_out(query)):
            output, readings = _attend_fused(query, key, value, allowed, scale, query_weight, known, dropout)
            return Attended(output, readings)
        # Torch's own attention gives the output, and the readings come from a pass of their own.
        _, readings = _attend_fused(query, key, None, allowed, scale, query_weight, known)
        return Attended(_plain_output(query, key, value, allowed, scale, dropout), readings)


def read_attention(
    query: Tensor,
    key: Tensor,
    *,
    mask: Tensor | None = None,
    scale: float | None = None,
    query_weight: Tensor | None = None,
    is_causal: bool = False,
    read: Iterable[Reading] | Reading,
    backend: Backend = "auto",
) -> Mapping[str, Tensor]:
    """The readings alone, for a model that computes its output itself; arguments as for `attend`.

    >>> query, key = torch.randn(2, 2, 4, 10, 16)
    >>> read_attention(query, key, read="sharpness")["sharpness"].shape
    torch.Size([2, 4, 10])
    """
    asked = check_readings(read)
    query, key = _one_dtype(query, key)
    (key,) = _as_many_heads(query, key)
    _check(query, key, key, query_weight, 0.0)
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    with torch.autocast(query.device.type, enabled=False):
        allowed = allow(mask, is_causal, query, key)
        known = with_targets(asked, query, key)
        if _takes_reference(backend, known, mask, query_weight):
            return attend_by_reference(query, key, key, allowed, scale, query_weight, 0.0, known)[1]
        return _attend_fused(query, key, None, allowed, scale, query_weight, known)[1]


def drops_out(query: Tensor) -> bool:
    """Whether `attend` does attention dropout by itself: on a CPU, where torch's own would keep several maps."""
    return query.device.type == "cpu"


def _attend_fused(
    query: Tensor,
    key: Tensor,
    value: Tensor | None,
    allowed: Allowed,
    scale: float,
    query_weight: Tensor | None,
    asked: tuple[Known, ...],
    dropout: float = 0.0,
) -> tuple[Tensor, dict[str, Tensor]]:
    """Output (of no meaning where `value` is None) and readings from fused passes."""
    if missing := kernels.missing_width(query):
        query, key = pad(query, (0, missing)), pad(key, (0, missing))  # zeros add nothing to a score
        padded = None if value is None else pad(value, (0, missing))
        output, found = _attend_fused(query, key, padded, allowed, scale, query_weight, asked, dropout)
        return output[..., :-missing], found
    attention = fused_attention if kernels.available(query.device, query.dtype) else product_attention
    weight = _weight(query, query_weight, allowed) if "received" in asked else None
    # With the keys as values, the output is A K: just what the entropy needs.
    values = key if value is None else value
    sharp = _sharp_heads(asked, query.shape[1])
    if dropout:
        output, lse, received, sharpness = product_attention(query, key, values, allowed, scale, weight, sharp, dropout)
    else:
        output, lse, received, sharpness = attention(query, key, values, allowed, scale, weight, sharp)
    a_k = output if value is None else None
    readings: dict[str, Tensor] = {}
    for reading in asked:
        if isinstance(reading, Targeted):
            readings[reading.name] = _targeted(reading, query, key, allowed, scale, lse)
        elif isinstance(reading, Sharpness):
            assert sharpness is not None
            some = in_a_row(reading.heads.resolve(query.shape[1], "head"))
            readings[reading.name] = _where_alive(allowed, sharpness)[:, some]
        elif isinstance(reading, Overlap):
            shared = overlap_of(query, key, allowed, scale, lse, reading.heads)
            readings[reading.name] = _where_alive(allowed, shared)
        elif reading == "received":
            assert received is not None
            readings[reading] = received
        elif reading == "sharpness":
            assert sharpness is not None
            readings[reading] = _where_alive(allowed, sharpness)
        else:
            if a_k is None or a_k.dtype != lse.dtype:  # rounded to bfloat16 it would be off by as much as the entropy
                precise = key.to(lse.dtype)
                a_k = attention(query.to(lse.dtype), precise, precise, allowed, scale, None)[0]
            entropy = lse - scale * (query.to(lse.dtype) * a_k).sum(dim=-1)
            if allowed.finite and allowed.bias is not None:
                entropy = entropy - dense_mass(query, key, allowed, scale, lse, allowed.bias.clamp_min(-1e9))
            readings[reading] = _where_alive(allowed, entropy)
    if allowed.alive is not None:
        output = torch.where(allowed.alive[..., None], output, 0)
    return output, readings


def _sharp_heads(asked: tuple[Known, ...], count: int) -> tuple[int, ...]:
    """The heads whose sharpness is asked for."""
    if "sharpness" in asked:
        return tuple(range(count))
    some = [one.heads.resolve(count, "head") for one in asked if isinstance(one, Sharpness)]
    return tuple(sorted({head for heads in some for head in heads}))


def _targeted(reading: Targeted, query: Tensor, key: Tensor, allowed: Allowed, scale: float, lse: Tensor) -> Tensor:
    if reading.heads is not None:
        heads = in_a_row(reading.heads)
        query, key, lse, allowed = query[:, heads], key[:, heads], lse[:, heads], allowed.of_heads(heads)
    if reading.is_reach:
        return reach_of(reading, allowed, (*query.shape[:3], key.shape[2])).to(lse.dtype)
    if isinstance(reading.target, Entries):
        return _where_alive(allowed, entries_mass(reading.target, query, key, allowed, scale, lse))
    if reading.is_sparse:
        return sparse_mass(reading.target, query, key, allowed, scale, lse)
    return _where_alive(allowed, dense_mass(query, key, allowed, scale, lse, reading.target.to(lse.dtype)))


def _where_alive(allowed: Allowed, reading: Tensor) -> Tensor:
    """A row with no allowed key reads 0, and sends no gradient."""
    return reading if allowed.alive is None else torch.where(allowed.alive, reading, 0.0)


def _weight(query: Tensor, query_weight: Tensor | None, allowed: Allowed) -> Tensor:
    """How much each query counts, as (batch, 1 or heads, queries): 0 for a row with no allowed key."""
    batch, _, queries, _ = query.shape
    dtype = reading_dtype(query.dtype)
    weight = query.new_ones(batch, 1, queries, dtype=dtype)
    if query_weight is not None:
        weight = query_weight.detach().to(dtype)[:, None, :]
    return weight if allowed.alive is None else weight * allowed.alive


def _plain_output(query: Tensor, key: Tensor, value: Tensor, allowed: Allowed, scale: float, dropout: float) -> Tensor:
    bias = None if allowed.bias is None else allowed.bias.to(query.dtype).expand(*query.shape[:3], key.shape[2])
    output = scaled_dot_product_attention(
        query, key, value, attn_mask=bias, dropout_p=dropout, is_causal=allowed.causal, scale=scale
    )
    return output if allowed.alive is None else torch.where(allowed.alive[..., None], output, 0)


def _takes_reference(backend: str, asked: tuple[Known, ...], mask: Tensor | None, query_weight: Tensor | None) -> bool:
    if backend not in ("auto", "fused", "reference"):
        raise UserError(f'backend must be "auto", "fused" or "reference", not {backend!r}')
    if backend == "reference":
        return True
    reason = ""
    if "maps" in asked:
        reason = "maps were asked for"
    elif mask is not None and mask.requires_grad:
        reason = "the mask needs a gradient"
    elif query_weight is not None and query_weight.requires_grad:
        reason = "query_weight needs a gradient"
    elif any(isinstance(reading, Targeted) and _takes_gradient(reading) for reading in asked):
        reason = "the target of a mass needs a gradient"
    if reason and backend == "fused":
        raise UserError(f"the fused backend keeps no map, but {reason}; use backend='reference' (or 'auto')")
    if reason:
        _say_once(f"attend takes the reference backend, which keeps every attention map in memory: {reason}")
    return bool(reason)


def _takes_gradient(reading: Targeted) -> bool:
    target = reading.target
    return (target.value if isinstance(target, Entries) else target).requires_grad


@functools.cache
def _say_once(line: str) -> None:
    logger.info(line)


def _one_dtype(*tensors: Tensor) -> tuple[Tensor, ...]:
    """Under autocast all inputs take its dtype, as they would for torch's own attention; elsewhere they must agree."""
    device = tensors[0].device.type
    if torch.is_autocast_enabled(device) and all(x.dtype != torch.float64 for x in tensors):
        dtype = torch.get_autocast_dtype(device)
        return tuple(x.to(dtype) for x in tensors)
    if len({x.dtype for x in tensors}) > 1:
        raise UserError(f"query, key and value must have one dtype, not {', '.join(str(x.dtype) for x in tensors)}")
    return tensors


def _as_many_heads(query: Tensor, *others: Tensor) -> tuple[Tensor, ...]:
    """Grouped-query attention: repeat the heads of key and value to those of the query."""
    for name, x in zip(("query", "key", "value"), (query, *others), strict=False):
        if x.dim() != 4:
            raise UserError(f"{name} must be (batch, heads, length, dim), not {tuple(x.shape)}")
    heads = query.shape[1]
    fewer = others[0].shape[1]
    if heads % fewer:
        raise UserError(f"query has {heads} heads, which is no multiple of the key's {fewer}")
    return others if heads == fewer else tuple(x.repeat_interleave(heads // fewer, dim=1) for x in others)


def _check(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    query_weight: Tensor | None,
    dropout: float,
) -> None:
    fits = (
        query.shape[0] == key.shape[0] == value.shape[0]
        and key.shape[1:3] == value.shape[1:3]
        and query.shape[-1] == key.shape[-1]
    )
    if not fits:
        raise UserError(
            "query, key and value do not fit each other: they are "
            f"{tuple(query.shape)}, {tuple(key.shape)} and {tuple(value.shape)} as (batch, heads, length, dim)"
        )
    if 0 in query.shape or 0 in key.shape or 0 in value.shape:
        raise UserError(
            f"there is nothing to attend to: query, key and value are {tuple(query.shape)}, {tuple(key.shape)} and "
            f"{tuple(value.shape)}; each dimension must be at least 1"
        )
    if query_weight is not None and query_weight.shape != (query.shape[0], query.shape[2]):
        wanted = (query.shape[0], query.shape[2])
        raise UserError(f"query_weight must be (batch, queries) = {wanted}, not {tuple(query_weight.shape)}")
    if query_weight is not None and query_weight.dtype != torch.bool and bool((query_weight < 0).any()):
        raise UserError("query_weight must be at least 0 everywhere: it says how much each query counts")
    if not 0 <= dropout < 1:
        raise UserError(f"dropout must be at least 0 and below 1, not {dropout}")
