"""Which layers or heads: "all", one number, a range with both ends, or a list of these; negative numbers count from the end."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from attentune.errors import UserError

_PART = re.compile(r"(-?\d+)(?:-(-?\d+))?")


@dataclass(frozen=True)
class Selection:
    """A choice of numbered things, before it is known how many there are. `parts` are (first, last); none means all.

    >>> Selection.parse("6-11").resolve(12, "layer")
    (6, 7, 8, 9, 10, 11)
    >>> Selection.parse([0, -1]).resolve(12, "layer")
    (0, 11)
    """

    parts: tuple[tuple[int, int], ...] = ()

    @classmethod
    def parse(cls, given: "Selection | str | int | Iterable[int | str]") -> "Selection":
        """From what a user writes: `"all"`, `"6-11"`, `"-1"`, `"[0-2,5]"`, `3`, `[0, 3]` or `range(4)`."""
        if isinstance(given, Selection):
            return given
        if isinstance(given, int):
            return cls(((given, given),))
        if isinstance(given, str):
            text = given.strip()
            if text == "all":
                return cls()
            pieces: list[int | str] = [piece.strip() for piece in text.removeprefix("[").removesuffix("]").split(",")]
        else:
            pieces = list(given)
        parts = []
        for piece in pieces:
            match = _PART.fullmatch(str(piece))
            if match is None:
                raise UserError(
                    f'{given!r} selects nothing; write "all", a number, a range as 6-11, or a list as [0,3]'
                )
            first = int(match[1])
            parts.append((first, int(match[2]) if match[2] else first))
        if not parts:
            raise UserError(
                'an empty selection guides nothing; write "all", a number, a range as 6-11, or a list as [0,3]'
            )
        return cls(tuple(parts))

    def resolve(self, count: int, what: str) -> tuple[int, ...]:
        """The numbers themselves, sorted, among `count` things called `what`; each must exist."""
        if not self.parts:
            return tuple(range(count))
        chosen: set[int] = set()
        for first, last in self.parts:
            for end in (first, last):
                if not -count <= end < count:
                    raise UserError(f"there is no {what} {end}: the model has {count}, numbered 0 to {count - 1}")
            first, last = first % count, last % count
            if last < first:
                raise UserError(f"{what}s {first}-{last} run backwards; write {last}-{first}")
            chosen.update(range(first, last + 1))
        return tuple(sorted(chosen))

    def __str__(self) -> str:
        if not self.parts:
            return "all"
        pieces = [str(first) if first == last else f"{first}-{last}" for first, last in self.parts]
        return pieces[0] if len(pieces) == 1 else f"[{','.join(pieces)}]"
