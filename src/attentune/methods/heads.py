"""Heads by count: a sum of patterns gives each of them its own block of heads, one after the other."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from attentune.attention import Selection
from attentune.errors import UserError


@dataclass(frozen=True)
class Block(Selection):
    """So many heads in a row, `start` of them being taken already; the same in every layer.

    >>> Block(size=2, start=4).resolve(12, "head")
    (4, 5)
    >>> Block(size=9, start=4).resolve(12, "head")
    Traceback (most recent call last):
    attentune.errors.UserError: 9 heads are asked for beside 4 that are taken, but a layer has 12; ask for fewer, or ...
    """

    size: int = 1
    start: int = 0

    def __post_init__(self) -> None:
        if self.size < 1:
            raise UserError(
                f"heads must be a count of at least 1, or a choice such as [4], 0-3 or all, not {self.size}"
            )

    def resolve(self, count: int, what: str) -> tuple[int, ...]:
        """The numbers themselves, among `count` things called `what`."""
        if self.start + self.size > count:
            taken = f" beside {self.start} that are taken" if self.start else ""
            raise UserError(
                f"{self.size} {what}s are asked for{taken}, but a layer has {count}; ask for fewer, or name them, "
                "as in heads=[0,3]"
            )
        return tuple(range(self.start, self.start + self.size))

    def __str__(self) -> str:
        return str(self.size)


def count_or_choice(given: Selection | str | int | Iterable[int | str]) -> Selection:
    """Of what a user writes for the heads of a pattern: a bare number is a count, all else a choice.

    >>> count_or_choice("4")
    Block(parts=(), size=4, start=0)
    >>> count_or_choice([4])
    Selection(parts=((4, 4),))
    """
    if isinstance(given, str) and re.fullmatch(r"\s*-?\d+\s*", given):
        return Block(size=int(given))
    if isinstance(given, int):
        return Block(size=int(given))
    return Selection.parse(given)


def choice_as_text(choice: Selection) -> str:
    """The inverse of `count_or_choice`: a choice of one head stands in brackets.

    >>> choice_as_text(Selection.parse([4]))
    '[4]'
    """
    text = str(choice)
    return f"[{text}]" if not isinstance(choice, Block) and re.fullmatch(r"-?\d+", text) else text
