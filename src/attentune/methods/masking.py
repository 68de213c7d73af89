"""Masked copies of training texts: which texts have some, and which of their tokens are masked in each.

`MaskedCopies` holds positions and nothing of the texts. Special tokens and padding are never masked. A position is a
token's number among the real tokens of its text, so that it is the same wherever padding stands.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from attentune.errors import UserError
from attentune.methods.tokens import TokenKinds

Row = Mapping[str, Any]
Progress = Callable[[int, int], None]
"""Is told how many of how many are done."""
ROWS_AT_ONCE = 1024


class Rows(Protocol):
    """Rows of tokenized training data, by number."""

    def __len__(self) -> int: ...

    def __getitem__(self, number: int, /) -> Row: ...


def fetch(rows: Rows, numbers: Sequence[int] | np.ndarray) -> list[Row]:
    """Some rows; at once, where the data can do that."""
    wanted = [int(number) for number in numbers]
    at_once = getattr(rows, "__getitems__", None)  # data sets of `datasets` and of torch have it
    return list(at_once(wanted)) if at_once is not None else [rows[number] for number in wanted]


def choose_rows(count: int, gamma: float, draw: np.random.Generator) -> np.ndarray:
    """Of `count` rows, those that get a masked copy, in order, and once for each that they get: γ · count in all.

    >>> choose_rows(2, 1.5, np.random.default_rng(0)).tolist()
    [0, 1, 1]
    """
    each = int(gamma)
    more = draw.choice(count, size=round((gamma - each) * count), replace=False)
    chosen: np.ndarray = np.sort(np.concatenate([np.repeat(np.arange(count), each), more]))
    return chosen


def real_positions(row: Row) -> np.ndarray:
    """Where the real tokens of a row stand: everywhere, unless it has been padded already."""
    mask = row.get("attention_mask")
    return np.arange(len(row["input_ids"])) if mask is None else np.flatnonzero(np.asarray(mask))


def masked(row: Row, positions: np.ndarray, mask_token: int) -> Row:
    """A row with some of its tokens masked.

    >>> masked({"input_ids": [1, 7, 8, 2], "labels": 0}, np.array([2]), mask_token=4)
    {'input_ids': [1, 7, 4, 2], 'labels': 0}
    """
    own = row["input_ids"]
    ids = np.array(own.tolist() if isinstance(own, Tensor) else own)
    ids[real_positions(row)[positions]] = mask_token
    if isinstance(own, Tensor):
        return {**row, "input_ids": torch.from_numpy(ids)}
    return {**row, "input_ids": ids if isinstance(own, np.ndarray) else ids.tolist()}  # as the collator knows them


@dataclass(frozen=True)
class MaskedCopies:
    """Masked copies, in the order of the rows that they are of."""

    row: np.ndarray
    """(copies,) the number of the row."""
    offset: np.ndarray
    """(copies + 1,) where the positions of each copy begin, and the last end."""
    position: np.ndarray
    """The masked tokens of all copies, one after the other."""

    def __post_init__(self) -> None:
        fits = len(self.offset) == len(self.row) + 1 and self.offset[0] == 0 and self.offset[-1] == len(self.position)
        if not fits or (np.diff(self.offset) < 0).any() or (np.diff(self.row) < 0).any():
            raise UserError("these masked copies are damaged: their parts don't belong together")

    def __len__(self) -> int:
        return len(self.row)

    @classmethod
    def draw(
        cls,
        rows: Rows,
        chosen: np.ndarray,
        kinds: TokenKinds,
        rate: float,
        draw: np.random.Generator,
        progress: Progress = lambda done, total: None,
    ) -> "MaskedCopies":
        """Copies of the chosen rows, in each of which `rate` of the tokens that may be masked are, at least one.

        A row of nothing but special tokens has no copy.

        >>> rows = [{"input_ids": [1, 7, 8, 9, 2]}]
        >>> copies = MaskedCopies.draw(rows, np.array([0]), TokenKinds((1, 2)), 1.0, np.random.default_rng(0))
        >>> copies.position.tolist()
        [1, 2, 3]
        """
        special = np.asarray(kinds.special)
        of, positions = [], []
        for begin in range(0, len(chosen), ROWS_AT_ONCE):
            numbers = chosen[begin : begin + ROWS_AT_ONCE]
            for number, row in zip(numbers, fetch(rows, numbers), strict=True):
                ids = np.asarray(row["input_ids"])[real_positions(row)]
                maskable = np.flatnonzero(~np.isin(ids, special))
                if len(maskable):
                    many = max(1, int(rate * len(maskable) + 0.5))
                    of.append(int(number))
                    positions.append(np.sort(draw.permutation(maskable)[:many]))
            progress(begin + len(numbers), len(chosen))
        offset = np.cumsum([0, *map(len, positions)], dtype=np.int64)
        flat = np.concatenate([np.zeros(0, dtype=np.int64), *positions])
        return cls(np.array(of, dtype=np.int64), offset, flat.astype(np.int64))

    def positions(self, copy: int) -> np.ndarray:
        """The masked tokens of one copy."""
        return self.position[self.offset[copy] : self.offset[copy + 1]]

    def of(self, row: int) -> Iterator[int]:
        """The copies of one row."""
        return iter(range(*np.searchsorted(self.row, [row, row + 1]).tolist()))

    def only(self, kept: np.ndarray) -> "MaskedCopies":
        """Those of the copies whose numbers are given, in order."""
        positions = [self.positions(copy) for copy in kept]
        offset = np.cumsum([0, *map(len, positions)], dtype=np.int64)
        return MaskedCopies(self.row[kept], offset, np.concatenate([self.position[:0], *positions]))

    def to_tensors(self) -> dict[str, Tensor]:
        """As tensors, for a file."""
        return {name: torch.from_numpy(getattr(self, name)) for name in ("row", "offset", "position")}

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor]) -> "MaskedCopies":
        """As `to_tensors` gave them."""
        return cls(*(tensors[name].numpy() for name in ("row", "offset", "position")))
