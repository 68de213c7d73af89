"""The truth that every test compares with: plain torch, the whole map in memory, autograd for the gradient."""

import torch
from torch import Tensor
from torch.nn.functional import dropout as drop

from attentune.attention.entries import Entries
from attentune.attention.masks import FORBIDDEN, Allowed, causal_triangle, reading_dtype
from attentune.attention.readings import Known, Overlap, Sharpness, Targeted, name_of
from attentune.attention.targets import reach_of


def attend_by_reference(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    allowed: Allowed,
    scale: float,
    query_weight: Tensor | None,
    dropout: float,
    read: tuple[Known, ...],
) -> tuple[Tensor, dict[str, Tensor]]:
    """Output and readings from the materialised map; heads of query, key and value already agree."""
    dtype = reading_dtype(query.dtype)
    scores = (query.to(dtype) @ key.to(dtype).mT) * scale  # (batch, heads, queries, keys)
    if allowed.bias is not None:
        scores = scores + allowed.bias
        may = allowed.bias > FORBIDDEN / 2
    elif allowed.causal:
        may = causal_triangle(0, query.shape[2], 0, key.shape[2], device=query.device)
        scores = scores.masked_fill(~may, FORBIDDEN)
    else:
        may = torch.ones((), dtype=torch.bool, device=query.device)
    logs = scores.log_softmax(dim=-1).masked_fill(~may, 0)
    maps = logs.exp() * may  # a row with no allowed key is all zero
    readings = {}
    for reading in read:
        if isinstance(reading, Targeted) and reading.is_reach:
            heads = list(reading.heads or range(maps.shape[1]))
            full = (maps.shape[0], len(heads), *maps.shape[2:])
            readings[reading.name] = reach_of(reading, allowed.of_heads(heads), full).to(dtype)
        else:
            readings[name_of(reading)] = _reading(reading, maps, logs, query_weight)
    output = drop(maps, dropout) if dropout else maps
    return (output @ value.to(dtype)).to(value.dtype), readings


def _reading(reading: Known, maps: Tensor, logs: Tensor, query_weight: Tensor | None) -> Tensor:
    if isinstance(reading, Sharpness):
        return maps[:, list(reading.heads.resolve(maps.shape[1], "head"))].square().sum(dim=-1)
    if isinstance(reading, Overlap):
        chosen = list(reading.heads.resolve(maps.shape[1], "head"))
        return maps[:, chosen].sum(dim=1, keepdim=True).square().sum(dim=-1)
    if isinstance(reading, Targeted):
        if reading.heads is not None:
            maps = maps[:, list(reading.heads)]
        if isinstance(reading.target, Entries):
            batch, _, queries, keys = maps.shape
            return (maps * reading.target.dense(batch, queries, keys)[:, None]).sum(dim=-1)
        if not reading.is_sparse:
            return (maps * reading.target.to(maps.dtype)).sum(dim=-1)
        target = reading.target if reading.target.dim() == 3 else reading.target[:, None]
        target = target.expand(maps.shape[:3])
        found = maps.gather(-1, target.clamp_min(0)[..., None])[..., 0]
        return torch.where(target >= 0, found, 0)
    if reading == "received":
        return maps.sum(dim=-2) if query_weight is None else (maps * query_weight[:, None, :, None]).sum(dim=-2)
    if reading == "sharpness":
        return maps.square().sum(dim=-1)
    if reading == "entropy":
        return -(maps * logs).sum(dim=-1)
    return maps
