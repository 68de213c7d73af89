"""Rows that are left out of a data set: never silently, but counted by file and told with the first of them."""

from collections.abc import Iterator
from pathlib import Path


class Dropped:
    """The rows that were left out so far.

    >>> dropped = Dropped()
    >>> dropped.damaged(Path("QQP/train.tsv"), "line 7")
    >>> dropped.damaged(Path("QQP/train.tsv"), "line 9")
    >>> list(dropped.told())
    ['2 rows of train.tsv are left out, as they are damaged (the first is line 7)']
    """

    def __init__(self) -> None:
        self._places: dict[tuple[str, str], list[str]] = {}

    def damaged(self, path: Path, place: str) -> None:
        """A row with too few or too many fields, or without a text or a label."""
        self._add(path, place, "damaged")

    def unlabelled(self, path: Path, place: str) -> None:
        """A row on whose label the annotators did not agree."""
        self._add(path, place, "without an agreed label")

    def _add(self, path: Path, place: str, why: str) -> None:
        self._places.setdefault((path.name, why), []).append(place)

    def told(self) -> Iterator[str]:
        """What was left out, a sentence for each file and reason."""
        for (file, why), places in self._places.items():
            rows, they = ("row", "it is") if len(places) == 1 else ("rows", "they are")
            are = "is" if len(places) == 1 else "are"
            first = f"({places[0]})" if len(places) == 1 else f"(the first is {places[0]})"
            yield f"{len(places):,} {rows} of {file} {are} left out, as {they} {why} {first}"
