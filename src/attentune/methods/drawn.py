"""What methods draw from the texts that are trained on, before training: the seam between them and the data pipeline.

A pipeline gives each method the texts (`TrainingTexts`), and asks what comes of it (`Drawn`) for columns of the
rows that it tokenizes, which `Method.collate` brings to a pass.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from transformers import BatchEncoding


@dataclass(frozen=True)
class TrainingTexts:
    """The texts of the training split, or the pairs of texts, and how to work on them."""

    texts: Sequence[str]
    pairs: Sequence[str] | None = None
    kept: Path | None = None
    """A folder in which an earlier `Drawn.save` may have left what need not be counted again."""
    cache_dir: Path | None = None
    num_proc: int = 1
    progress: Callable[[str, int, int], None] = lambda what, done, total: None
    """Is told what is being done, and how many of how many texts are."""


class Drawn(Protocol):
    """What a method has drawn from all texts, ready to make columns of each."""

    @property
    def note(self) -> str:
        """A line for the user: what was found."""

    def check(self) -> None:
        """Raise an error where the texts, all together, give the method nothing to guide by."""

    def columns(
        self, rows: Sequence[int], encoded: BatchEncoding, *texts: Sequence[str]
    ) -> Mapping[str, Sequence[Any]]:
        """The method's columns for some rows: their numbers, what the tokenizer made of them, and their texts."""

    def save(self, folder: Path) -> None:
        """Keep, with a run, what belongs to it."""
