"""One form for every mask: an additive bias that forbids by a finite, very negative number, and the rows that are left.

Boolean masks, additive masks and the causal flag come in; `Allowed` goes out. Dimensions along which a mask merely
repeats itself, as a padding mask does for every query, are brought to size 1, so that padding costs O(length).
"""

import weakref
from dataclasses import dataclass

import torch
from torch import Tensor

from attentune.errors import UserError

FORBIDDEN = -1e30
"""Stands for minus infinity: exp of it is 0, and unlike minus infinity it leaves no NaN in a row where all is forbidden."""

FORBIDS = -9_999.0
"""An additive value at or below this forbids: models write −10000, the smallest float or minus infinity, and mean "never"."""


@dataclass(frozen=True)
class Allowed:
    """Which query may attend to which key, and with what bias.

    `bias` broadcasts to (batch, heads, queries, keys), in the dtype that readings are computed in. `alive` (batch,
    heads, queries) is False for rows with no allowed key, None where every row has one. `causal` is the plain triangle,
    only ever without a bias.
    """

    bias: Tensor | None
    alive: Tensor | None
    causal: bool
    finite: bool  # whether the bias may hold values other than 0 and FORBIDDEN

    def of_heads(self, index: slice | list[int]) -> "Allowed":
        """The same for some of the heads."""
        bias, alive = (x if x is None or x.shape[1] == 1 else x[:, index] for x in (self.bias, self.alive))
        return Allowed(bias, alive, self.causal, self.finite)

    @property
    def keys_only(self) -> bool:
        """Whether the mask is the same for every query, as a padding mask is."""
        return not self.causal and (self.bias is None or self.bias.shape[-2] == 1)


def reading_dtype(dtype: torch.dtype) -> torch.dtype:
    """Readings are never less precise than float32."""
    return torch.float64 if dtype == torch.float64 else torch.float32


def allow(mask: Tensor | None, is_causal: bool, query: Tensor, key: Tensor) -> Allowed:
    """Bring `mask` and the causal flag into one form, for `query` and `key` of (batch, heads, length, dim)."""
    if mask is None:
        return Allowed(None, None, is_causal, finite=False)
    full = (*query.shape[:3], key.shape[2])
    question = (full, is_causal, reading_dtype(query.dtype))
    known = _remembered.find(mask, question)
    if known is None:
        known = _allow(mask, is_causal, query, full)
        _remembered.keep(mask, question, known)
    return known


def _allow(mask: Tensor, is_causal: bool, query: Tensor, full: tuple[int, ...]) -> Allowed:
    mask = _unrepeated(mask, full)
    finite = mask.dtype != torch.bool
    dtype = reading_dtype(query.dtype)
    if finite:
        mask = mask.to(torch.promote_types(mask.dtype, torch.float32))
        may = mask > FORBIDS
        bias = torch.where(may, mask, FORBIDDEN).to(dtype)
    else:
        may = mask
        bias = torch.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill_(~mask, FORBIDDEN)
    if is_causal:
        triangle = causal_triangle(0, full[2], 0, full[3], device=mask.device)
        may = may & triangle
        bias = torch.where(triangle, bias, FORBIDDEN)
    alive = may.any(dim=-1)
    return Allowed(bias, None if bool(alive.all()) else alive, causal=False, finite=finite)


class _Memory:
    """What was made of a mask, for as long as the mask lives: a model hands one and the same to all of its layers."""

    def __init__(self) -> None:
        self._answers: dict[int, tuple[weakref.ref[Tensor], int, tuple[object, ...], Allowed]] = {}

    def find(self, mask: Tensor, question: tuple[object, ...]) -> Allowed | None:
        """What was made of this very mask, if it hasn't been written to since."""
        found = self._answers.get(id(mask))
        if found is None or mask.is_inference():
            return None
        alive, version, asked, answer = found
        return answer if alive() is mask and version == mask._version and asked == question else None

    def keep(self, mask: Tensor, question: tuple[object, ...], answer: Allowed) -> None:
        """Remember what was made of a mask; the answer must not hold on to the mask, or it would live for ever."""
        if mask.requires_grad or mask.is_inference():
            return
        name = id(mask)
        forget = weakref.ref(mask, lambda _: self._answers.pop(name, None))
        self._answers[name] = (forget, mask._version, question, answer)


_remembered = _Memory()


def causal_triangle(q_from: int, q_to: int, k_from: int, k_to: int, device: torch.device) -> Tensor:
    """True where query q may see key k ≤ q, for a window of queries and of keys (torch's alignment: to the upper left)."""
    return torch.arange(k_from, k_to, device=device) <= torch.arange(q_from, q_to, device=device)[:, None]


def _unrepeated(mask: Tensor, full: tuple[int, ...]) -> Tensor:
    """The mask in four dimensions, with size 1 wherever it only repeats itself."""
    if mask.dim() > 4 or mask.dim() < 2:
        raise UserError(f"a mask has 2 to 4 dimensions, broadcastable to {full}, not {tuple(mask.shape)}")
    while mask.dim() < 4:
        mask = mask[None]
    for size, wanted in zip(mask.shape, full, strict=True):
        if size not in (1, wanted):
            raise UserError(
                f"mask {tuple(mask.shape)} does not broadcast to (batch, heads, queries, keys) = {full}; "
                "a padding mask of (batch, keys) is mask[:, None, None, :]"
            )
    for dim in range(3):  # the last dimension stays whole: kernels read it in vectors
        if mask.shape[dim] > 1 and mask.stride(dim) == 0:
            mask = mask.narrow(dim, 0, 1)
    if mask.shape[2] > 1 and not mask.requires_grad and bool((mask == mask[:, :, :1]).all()):
        mask = mask[:, :, :1]  # a padding mask written out for every query, as transformers makes them
    return mask if mask.shape[-1] == full[-1] else mask.expand(*mask.shape[:-1], full[-1])
