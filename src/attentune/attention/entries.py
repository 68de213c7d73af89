"""A target P that is given by its entries, for where most of it is 0: what of attention falls on it costs a product an entry.

Σ_k A[q, k] P[q, k] is made of the scores of the entries alone, A = exp(S − lse), and made again in the backward, so that
nothing of the size of entries × heads is kept. The gradient goes through queries, keys and the log-sum-exp.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from attentune.attention.masks import FORBIDDEN, Allowed, reading_dtype

AT_ONCE = 2**21
"""How many numbers of queries, and as many of keys, are gathered at once."""


class Entries(NamedTuple):
    """P[row, query, key] = value, the same for every head, and 0 elsewhere; rows are the examples of a batch."""

    row: Tensor  # (entries,) integers, as are query and key
    query: Tensor
    key: Tensor
    value: Tensor  # (entries,) floats

    def to(self, device: torch.device) -> "Entries":
        """The same on a device."""
        return Entries(*(part.to(device) for part in self))

    def squared(self) -> "Entries":
        """P², entry by entry."""
        return self._replace(value=self.value.square())

    def dense(self, batch: int, queries: int, keys: int) -> Tensor:
        """P whole, (batch, queries, keys).

        >>> one = torch.tensor([0])
        >>> Entries(one, one, one + 1, torch.tensor([0.5])).dense(1, 2, 2)
        tensor([[[0.0000, 0.5000],
                 [0.0000, 0.0000]]])
        """
        target = torch.zeros(batch, queries, keys, dtype=self.value.dtype, device=self.value.device)
        target[self.row, self.query, self.key] = self.value
        return target


def entries_mass(entries: Entries, query: Tensor, key: Tensor, allowed: Allowed, scale: float, lse: Tensor) -> Tensor:
    """Σ_k A[q, k] P[q, k] as (batch, heads, queries), in the dtype of `lse`."""
    mass: Tensor = _EntriesMass.apply(query, key, lse, allowed, scale, entries)
    return mass


def entries_reach(entries: Entries, allowed: Allowed, full: tuple[int, ...]) -> Tensor:
    """Σ_k P[q, k] over the keys that q may see, for maps of `full`, (batch, heads, queries, keys)."""
    batch, heads, queries, _ = full
    within = entries.value[:, None] * _may_see(entries, allowed, full)  # (entries, heads or 1)
    found = within.new_zeros(batch * queries, within.shape[1])
    found.index_add_(0, entries.row * queries + entries.query, within)
    return found.view(batch, queries, -1).transpose(1, 2).expand(batch, heads, queries)


class _EntriesMass(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, lse: Tensor, allowed: Allowed, scale: float, entries: Entries
    ) -> Tensor:
        batch, heads, queries, _ = query.shape
        mass = lse.new_zeros(batch * queries, heads)
        for part in _parts(entries, query):
            maps = _maps(part, query, key, lse, allowed, scale)[0]
            mass.index_add_(0, part.row * queries + part.query, maps * part.value.to(maps.dtype)[:, None])
        mass = mass.view(batch, queries, heads).transpose(1, 2)
        ctx.save_for_backward(query, key, lse, mass, *entries)
        ctx.allowed, ctx.scale = allowed, scale
        return mass

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_mass: Tensor) -> tuple[Tensor | None, ...]:
        query, key, lse, mass, *parts = ctx.saved_tensors
        batch, heads, queries, width = query.shape
        keys = key.shape[2]
        dq = lse.new_zeros(batch * queries, heads, width)
        dk = lse.new_zeros(batch * keys, heads, width)
        for part in _parts(Entries(*parts), query):
            maps, q, k = _maps(part, query, key, lse, ctx.allowed, ctx.scale)
            d_maps = d_mass.transpose(1, 2)[part.row, part.query] * part.value.to(maps.dtype)[:, None]
            d_scores = (maps * d_maps * ctx.scale)[..., None]  # (entries, heads, 1)
            dq.index_add_(0, part.row * queries + part.query, d_scores * k)
            dk.index_add_(0, part.row * keys + part.key, d_scores * q)
        dq, dk = (d.view(batch, -1, heads, width).transpose(1, 2) for d in (dq, dk))
        return dq.to(query.dtype), dk.to(key.dtype), -d_mass * mass, None, None, None


def _parts(entries: Entries, query: Tensor) -> Iterator[Entries]:
    """The entries, so many at once as memory should hold."""
    step = max(1, AT_ONCE // (query.shape[1] * query.shape[3]))
    for begin in range(0, len(entries.row), step):
        yield Entries(*(part[begin : begin + step] for part in entries))


def _maps(
    entries: Entries, query: Tensor, key: Tensor, lse: Tensor, allowed: Allowed, scale: float
) -> tuple[Tensor, Tensor, Tensor]:
    """A at the entries, (entries, heads), and the queries and keys there, (entries, heads, dim)."""
    dtype = reading_dtype(query.dtype)
    full = (*query.shape[:3], key.shape[2])
    row = entries.row
    q = query.transpose(1, 2)[row, entries.query].to(dtype)
    k = key.transpose(1, 2)[row, entries.key].to(dtype)
    scores = (q * k).sum(dim=-1) * scale - lse.transpose(1, 2)[row, entries.query]
    if allowed.bias is not None:
        scores = scores + _bias(entries, allowed.bias)
    return scores.exp() * _may_see(entries, allowed, full), q, k


def _bias(entries: Entries, bias: Tensor) -> Tensor:
    """The bias at the entries, (entries, heads or 1); a dimension of size 1 repeats itself."""
    places = (entries.row, entries.query, entries.key)
    sizes = (bias.shape[0], bias.shape[2], bias.shape[3])
    row, query, key = (
        torch.zeros_like(place) if size == 1 else place for place, size in zip(places, sizes, strict=True)
    )
    return bias.transpose(1, 2)[row, query, :, key]


def _may_see(entries: Entries, allowed: Allowed, full: tuple[int, ...]) -> Tensor:
    """Whether the query of an entry may see its key, (entries, heads or 1)."""
    if allowed.bias is not None:
        return _bias(entries, allowed.bias) > FORBIDDEN / 2
    if allowed.causal:
        return (entries.key <= entries.query)[:, None]
    return torch.ones(1, 1, dtype=torch.bool, device=entries.row.device).expand(len(entries.row), 1)
