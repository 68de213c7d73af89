"""What of attention, and of what a query may see, falls on a target. Dense masses are in `dense_mass`."""

import torch
from torch import Tensor

from attentune.attention.entries import Entries, entries_reach
from attentune.attention.masks import FORBIDDEN, Allowed, causal_triangle
from attentune.attention.readings import Targeted


def sparse_mass(target: Tensor, query: Tensor, key: Tensor, allowed: Allowed, scale: float, lse: Tensor) -> Tensor:
    """A[q, t] for the one key t of each query, (batch, heads, queries): a gather, and a product for each query."""
    batch, heads, queries, width = query.shape
    target = _by_head(target).expand(batch, heads, queries)
    index = target.clamp_min(0)
    target_key = key.gather(2, index[..., None].expand(-1, -1, -1, width))  # (batch, heads, queries, dim)
    score = scale * (query.to(lse.dtype) * target_key.to(lse.dtype)).sum(dim=-1)
    if allowed.bias is not None:
        bias = allowed.bias.expand(batch, heads, queries, key.shape[2])
        score = score + bias.gather(-1, index[..., None])[..., 0]
    seen = target >= 0
    if allowed.causal:
        seen = seen & (index <= torch.arange(queries, device=index.device))
    if allowed.alive is not None:
        seen = seen & allowed.alive
    return torch.where(seen, score - lse, float("-inf")).exp()


def reach_of(reading: Targeted, allowed: Allowed, full: tuple[int, ...]) -> Tensor:
    """Σ_k P[q, k] over the keys that q may see, for maps of `full`, (batch, heads, queries, keys)."""
    if isinstance(reading.target, Entries):
        return entries_reach(reading.target, allowed, full)
    target = reading.target.detach()
    if reading.is_sparse:
        target = _by_head(target)  # (batch, heads or 1, queries)
        seen = target >= 0
        index = target.clamp_min(0)
        if allowed.bias is not None:
            heads = max(target.shape[1], allowed.bias.shape[1])
            bias = allowed.bias.expand(full[0], heads, *full[2:])
            index = index.expand(full[0], heads, full[2])
            seen = seen & (bias.gather(-1, index[..., None])[..., 0] > FORBIDDEN / 2)
        elif allowed.causal:
            seen = seen & (index <= torch.arange(full[2], device=index.device))
        return seen.to(torch.get_default_dtype()).expand(full[:3])
    while target.dim() < 4:
        target = target[None]
    if allowed.bias is not None:
        within = target * (allowed.bias > FORBIDDEN / 2)
    elif allowed.causal:
        within = target * causal_triangle(0, full[2], 0, full[3], target.device)
    else:
        within = target
    return within.expand(*within.shape[:3], full[3]).sum(dim=-1).expand(full[:3])


def _by_head(target: Tensor) -> Tensor:
    return target if target.dim() == 3 else target[:, None]
