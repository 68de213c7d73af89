"""What can be read from an attention map A: the names, and the readings that have an argument.

received   (batch, heads, keys)      Σ_q w_q A[q, k]       what each token is given
sharpness  (batch, heads, queries)   Σ_k A[q, k]²
entropy    (batch, heads, queries)   −Σ_k A log A
mass       (batch, heads, queries)   Σ_k A[q, k] P[q, k]   for a target P, sparse or dense
reach      (batch, heads, queries)   Σ_k P[q, k] over the keys that q may see: what of a target is within reach
overlap    (batch, 1, queries)       Σ_k (Σ_h A_h[q, k])²  how much some heads look at the same
maps       (batch, heads, queries, keys)                   A itself; `reference` backend only

Of the layers of a model, `observe` takes two more, which are no matter of the map:

outputs    (batch, heads, queries, dim)  what each head gives, before the output projection
values     (batch, heads, keys, dim)     what each head works on; heads that share theirs (GQA) have a copy each
"""

import difflib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from attentune.attention.entries import Entries
from attentune.attention.selection import Selection
from attentune.errors import UserError

NAMED = ("received", "sharpness", "entropy", "maps")
OF_LAYERS = ("outputs", "values")
"""What `observe` takes from a layer's call itself, beside what `attend` reads."""

Target = Tensor | Entries | Callable[[int, int], Tensor | Entries]
"""A target P, or what makes it of the numbers of queries and keys, for where these are known only when a layer runs."""


@dataclass(frozen=True, eq=False)
class Mass:
    """The reading Σ_k A[q, k] P[q, k]; made by `mass`."""

    target: Target
    name: str = "mass"
    heads: Selection = field(default_factory=Selection)

    def resolved(self, full: tuple[int, ...], device: torch.device) -> "Targeted":
        """The reading with its target made, for maps of (batch, heads, queries, keys)."""
        target = _checked(self.target(full[2], full[3])) if callable(self.target) else self.target
        heads = self.heads.resolve(full[1], "head")
        found = Targeted(target.to(device), self.name, isinstance(self, Reach), heads if len(heads) < full[1] else None)
        found.check_fits((full[0], len(heads), *full[2:]))
        return found


@dataclass(frozen=True, eq=False)
class Reach(Mass):
    """The reading Σ_k P[q, k] over the keys that q may see; made by `reach`. It has no gradient."""

    name: str = "reach"


@dataclass(frozen=True, eq=False)
class Overlap:
    """The reading Σ_k (Σ_h A_h[q, k])² over some heads h; made by `overlap`."""

    heads: Selection = field(default_factory=Selection)
    name: str = "overlap"


@dataclass(frozen=True, eq=False)
class Sharpness:
    """The reading Σ_k A[q, k]² of some heads; made by `sharpness`."""

    heads: Selection = field(default_factory=Selection)
    name: str = "sharpness"


@dataclass(frozen=True, eq=False)
class Targeted:
    """A mass or a reach whose target is known."""

    target: Tensor | Entries
    name: str
    is_reach: bool
    heads: tuple[int, ...] | None  # None: all

    def check_fits(self, full: tuple[int, ...]) -> None:
        """Raise an error if this can't be a target for maps of (batch, heads, queries, keys)."""
        if isinstance(self.target, Entries):
            self._check_entries(self.target, full)
            return
        shape = tuple(self.target.shape)
        wanted = full
        if self.is_sparse:
            wanted = (full[0], full[2]) if len(shape) == 2 else full[:3]
        fits = len(shape) <= len(wanted) and all(
            size in (1, most) for size, most in zip(reversed(shape), reversed(wanted), strict=False)
        )
        if not fits:
            raise UserError(f"the target of {self.name} is {shape}, which does not broadcast to {wanted}")
        if (
            self.is_sparse
            and self.target.device.type == "cpu"
            and self.target.numel()
            and int(self.target.max()) >= full[3]
        ):
            raise UserError(f"the target of {self.name} names the key {int(self.target.max())}; there are {full[3]}")

    def _check_entries(self, entries: Entries, full: tuple[int, ...]) -> None:
        if len({part.shape for part in entries}) > 1 or entries.row.dim() != 1:
            raise UserError(
                f"the entries of {self.name} are {[tuple(part.shape) for part in entries]}, not all of one length"
            )
        if entries.row.device.type != "cpu" or not entries.row.numel():
            return
        for what, part, size in (
            ("row", entries.row, full[0]),
            ("query", entries.query, full[2]),
            ("key", entries.key, full[3]),
        ):
            if not 0 <= int(part.min()) <= int(part.max()) < size:
                raise UserError(f"an entry of {self.name} names the {what} {int(part.max())}; there are {size}")

    @property
    def is_sparse(self) -> bool:
        """Whether the target names one key for each query instead of giving every P[q, k]."""
        return isinstance(self.target, Tensor) and not self.target.is_floating_point()


def in_a_row(heads: Iterable[int]) -> slice | list[int]:
    """Numbers in ascending order as an index.

    >>> in_a_row((2, 3)), in_a_row((0, 3))
    (slice(2, 4, None), [0, 3])
    """
    numbers = list(heads)
    first, last = numbers[0], numbers[-1]
    return slice(first, last + 1) if last - first + 1 == len(numbers) else numbers


Reading = str | Mass | Overlap | Sharpness
Known = str | Targeted | Overlap | Sharpness
"""A reading with its target made."""


def mass(target: Target, name: str = "mass", heads: Selection | None = None) -> Mass:
    """Ask `attend` for the attention that falls on a target.

    An integer `target` is sparse: (batch, queries) or (batch, heads, queries), the one key that each query should look
    at, −1 for none. A floating-point `target` is dense: P, broadcastable to (batch, heads, queries, keys). `Entries` are
    P where it isn't 0. A function is asked for one of them with the numbers of queries and keys. Several masses in one
    call need several names. With `heads` the reading, and a target that has heads, is of these alone.

    >>> import torch
    >>> mass(torch.tensor([[1, 2, -1]]), name="next").name
    'next'
    """
    return Mass(target if callable(target) else _checked(target), name, heads or Selection())


def reach(target: Target, name: str = "reach", heads: Selection | None = None) -> Reach:
    """Ask `attend` how much of a target lies on keys that each query may see: 0 for a query without a target.

    `target` is what `mass` takes. Masks, causal attention and windows are what keeps a key out of reach.

    >>> reach(torch.tensor([[1, 2, -1]])).name
    'reach'
    """
    return Reach(target if callable(target) else _checked(target), name, heads or Selection())


def overlap(heads: Selection | None = None, name: str = "overlap") -> Overlap:
    """Ask `attend` how much some heads, all if none are named, look at the same: Σ_k (Σ_h A_h[q, k])².

    >>> overlap(Selection.parse("0-3")).name
    'overlap'
    """
    return Overlap(heads or Selection(), name)


def sharpness(heads: Selection | None = None, name: str = "sharpness") -> Sharpness:
    """Ask `attend` for the sharpness of some heads alone, (batch, those heads, queries), at their cost.

    >>> sharpness(Selection.parse("0-3"), "mine").name
    'mine'
    """
    return Sharpness(heads or Selection(), name)


def name_of(reading: Reading | Known) -> str:
    """Under which name a reading is found."""
    return reading if isinstance(reading, str) else reading.name


def _checked(target: Tensor | Entries) -> Tensor | Entries:
    if isinstance(target, Entries):
        return target
    if target.dtype == torch.bool or target.is_complex():
        raise UserError(
            f"a mass target is whole numbers (one key a query) or floats (a P for each key), not {target.dtype}"
        )
    allowed = (2, 3) if not target.is_floating_point() else (2, 3, 4)
    if target.dim() not in allowed:
        kind = "dense" if target.is_floating_point() else "sparse"
        raise UserError(f"a {kind} mass target has {allowed[0]} to {allowed[-1]} dimensions, not {target.dim()}")
    return target


def check_readings(read: Iterable[Reading] | Reading) -> tuple[Reading, ...]:
    """The readings asked for, each known and each name once."""
    asked = (read,) if isinstance(read, str | Mass | Overlap | Sharpness) else tuple(read)
    names = [name_of(reading) for reading in asked]
    for reading, name in zip(asked, names, strict=True):
        if isinstance(reading, str) and name not in NAMED:
            close = difflib.get_close_matches(name, NAMED, n=1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            known = f"{', '.join(NAMED)}, mass(target), reach(target) and overlap(heads)"
            raise UserError(f"unknown reading {name!r}{hint} (there are {known})")
    if len(set(names)) < len(names):
        raise UserError(f"two readings share a name in {names}; give each mass its own with mass(target, name=...)")
    return asked


def with_targets(asked: Iterable[Reading], query: Tensor, key: Tensor) -> tuple[Known, ...]:
    """The readings with all targets made, for query and key of (batch, heads, length, dim)."""
    full = (*query.shape[:3], key.shape[2])
    return tuple(reading.resolved(full, query.device) if isinstance(reading, Mass) else reading for reading in asked)
