"""What can be read from an attention map A: the names, and the one reading that has an argument.

received   (batch, heads, keys)      Σ_q w_q A[q, k]       what each token is given
sharpness  (batch, heads, queries)   Σ_k A[q, k]²
entropy    (batch, heads, queries)   −Σ_k A log A
mass       (batch, heads, queries)   Σ_k A[q, k] P[q, k]   for a target P, sparse or dense
maps       (batch, heads, queries, keys)                   A itself; `reference` backend only
"""

import difflib
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from attentune.errors import UserError

NAMED = ("received", "sharpness", "entropy", "maps")


@dataclass(frozen=True, eq=False)
class Mass:
    """The reading Σ_k A[q, k] P[q, k]; made by `mass`."""

    target: Tensor
    name: str = "mass"

    def check_fits(self, full: tuple[int, ...]) -> None:
        """Raise an error if this can't be a target for maps of (batch, heads, queries, keys)."""
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

    @property
    def is_sparse(self) -> bool:
        """Whether the target names one key for each query instead of giving every P[q, k]."""
        return not self.target.is_floating_point()


Reading = str | Mass


def mass(target: Tensor, name: str = "mass") -> Mass:
    """Ask `attend` for the attention that falls on a target.

    An integer `target` is sparse: (batch, queries) or (batch, heads, queries), the one key that each query should look
    at, −1 for none. A floating-point `target` is dense: P, broadcastable to (batch, heads, queries, keys). Several
    masses in one call need several names.

    >>> import torch
    >>> mass(torch.tensor([[1, 2, -1]]), name="next").is_sparse
    True
    """
    if target.dtype == torch.bool or target.is_complex():
        raise UserError(
            f"a mass target is whole numbers (one key a query) or floats (a P for each key), not {target.dtype}"
        )
    allowed = (2, 3) if not target.is_floating_point() else (2, 3, 4)
    if target.dim() not in allowed:
        kind = "dense" if target.is_floating_point() else "sparse"
        raise UserError(f"a {kind} mass target has {allowed[0]} to {allowed[-1]} dimensions, not {target.dim()}")
    return Mass(target, name)


def check_readings(read: Iterable[Reading] | Reading) -> tuple[Reading, ...]:
    """The readings asked for, each known and each name once."""
    asked = (read,) if isinstance(read, str | Mass) else tuple(read)
    names = [reading.name if isinstance(reading, Mass) else reading for reading in asked]
    for reading, name in zip(asked, names, strict=True):
        if isinstance(reading, str) and name not in NAMED:
            close = difflib.get_close_matches(name, NAMED, n=1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            raise UserError(f"unknown reading {name!r}{hint} (there are {', '.join(NAMED)} and mass(target))")
    if len(set(names)) < len(names):
        raise UserError(f"two readings share a name in {names}; give each mass its own with mass(target, name=...)")
    return asked
