"""Methods that prepare the training data before each epoch, within a Trainer: rows that know their number, and what was made
for an epoch in the checkpoints of that epoch, so that resumed training goes on with the same.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch.utils.data import Dataset, IterableDataset

from attentune.errors import UserError
from attentune.methods import Guided, Preparing, Sum
from attentune.methods.epochs import ROW
from attentune.methods.masking import Row, Rows, fetch

logger = logging.getLogger(__name__)

FILE = "attentune_epoch.safetensors"
FORMAT = "1"


class NumberedRows(Dataset[Row]):
    """Rows of training data with their number, and behind them those that a method wants once more.

    >>> rows = NumberedRows([{"labels": 0}, {"labels": 1}], again=[1])
    >>> rows[2]
    {'labels': 1, 'attentune_row': 2}
    """

    def __init__(self, own: Rows, again: Sequence[int] | np.ndarray) -> None:
        self.own = own
        self.again = np.asarray(again, dtype=np.int64)

    def __len__(self) -> int:
        return len(self.own) + len(self.again)

    def __getitem__(self, number: int) -> Row:
        if not 0 <= number < len(self):
            raise IndexError(number)
        return {**self.own[self._own_number(number)], ROW: number}

    def __getitems__(self, numbers: Sequence[int]) -> list[Row]:
        rows = fetch(self.own, [self._own_number(number) for number in numbers])
        return [{**row, ROW: number} for row, number in zip(rows, numbers, strict=True)]

    def __iter__(self) -> Iterator[Row]:
        return (self[number] for number in range(len(self)))

    def _own_number(self, number: int) -> int:
        count = len(self.own)
        return int(number) if number < count else int(self.again[number - count])


def prepares(method: Sum) -> bool:
    """Whether any part of a method prepares the training data."""
    return any(isinstance(part, Preparing) for part in method.parts)


def number_rows(method: Sum, rows: Any, seed: int) -> Any:
    """Training data as a method that prepares them needs them."""
    if isinstance(rows, IterableDataset) or not hasattr(rows, "__len__") or not hasattr(rows, "__getitem__"):
        raise UserError(
            f"{method} goes over all training texts before each epoch, for which it needs them by number; give a data set "
            f"that isn't a stream, not a {type(rows).__name__}"
        )
    again = np.concatenate([part.extra_rows(len(rows), seed) for part in method.parts if isinstance(part, Preparing)])
    if not isinstance(rows, datasets.Dataset):
        return NumberedRows(rows, again)
    if len(again):
        rows = datasets.concatenate_datasets([rows, rows.select(again)])
    return rows.add_column(ROW, np.arange(len(rows)))  # of the same kind, with its length column


def save_epoch(guided: Guided, folder: str | Path) -> None:
    """What was made for the epoch that goes on, beside a checkpoint; there whole or not at all."""
    epochs, file = guided.epochs, Path(folder) / FILE
    if epochs.number is None:
        return
    part = file.with_name(FILE + ".part")
    notes = {"format": FORMAT, "method": str(guided.method), "epoch": str(epochs.number)}
    save_file({name: tensor.contiguous() for name, tensor in epochs.state_dict().items()}, part, notes)
    part.replace(file)


def load_epoch(guided: Guided, folder: str | Path) -> None:
    """Go on within the epoch of a checkpoint, with what was made for it."""
    file = Path(folder) / FILE
    if not file.exists():
        logger.warning(
            "%s has no %s: what %s needs for this epoch is made anew, by the model of the checkpoint",
            folder, FILE, guided.method,
        )  # fmt: skip
        return
    try:
        with safe_open(file, framework="pt") as opened:
            notes: Mapping[str, str] = opened.metadata() or {}
            state = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise UserError(f"{file} can't be read: {error}; resume from an earlier checkpoint") from error
    if notes.get("format") != FORMAT or not notes.get("epoch", "").isdecimal():
        raise UserError(f"{file} isn't what this attentune writes there; resume from an earlier checkpoint")
    if notes.get("method") != str(guided.method):
        logger.warning("%s was made by %s: it is made anew by %s", file, notes.get("method"), guided.method)
        return
    guided.epochs.load_state_dict(int(notes["epoch"]), state)


def numbers_of(given: Mapping[str, Any]) -> torch.Tensor | None:
    """The numbers of a batch's rows."""
    numbers = given.get(ROW)
    return numbers if isinstance(numbers, torch.Tensor) else None
