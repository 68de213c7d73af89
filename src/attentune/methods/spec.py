"""The text form of methods, as the command line and recipes write it: `mdg(0.1, layers=6-11) + pdg(weight=0.001)`.

`parse` reads it and `str` of a method writes it. An error shows the text, and points at the bad spot.
"""

import difflib
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Any, TypeVar

from attentune.attention import Selection
from attentune.errors import UserError
from attentune.methods.auto import Auto
from attentune.methods.base import Method, Sum
from attentune.methods.blur import Blur
from attentune.methods.dependency import Dependency
from attentune.methods.disagreement import Disagreement
from attentune.methods.maskaug import MaskAug
from attentune.methods.mdg import MDG
from attentune.methods.mixout import Mixout
from attentune.methods.patterns import Delim, First, Next, Period, Prev, Same
from attentune.methods.pdg import PDG
from attentune.methods.pmi import PMI
from attentune.methods.quotes import UnclosedQuote, outside_quotes
from attentune.methods.rdrop import RDrop
from attentune.methods.schedules import SCHEDULES, Schedule
from attentune.methods.se import SE
from attentune.methods.ssa import SSA
from attentune.methods.wordsim import WordSim

METHODS: dict[str, type[Method]] = {
    kind.name: kind
    for kind in (
        MDG, PDG, First, Next, Prev, Same, Delim, Period, PMI, Dependency, WordSim, Disagreement, Blur, SE, SSA, MaskAug,
        RDrop, Mixout,
    )
}  # fmt: skip

Kind = TypeVar("Kind", bound="Method | Schedule | Auto")

_WORD = re.compile(r"[A-Za-z_]\w*")


class SpecError(UserError):
    """A text that isn't a method: what is wrong, and where."""

    def __init__(self, problem: str, text: str, start: int, stop: int | None = None) -> None:
        stop = max(start + 1, min(len(text), stop if stop is not None else start + 1))
        super().__init__(f"{problem}\n  {text}\n  {' ' * start}{'^' * (stop - start)}")
        self.problem, self.start = problem, start


def parse(text: str) -> Sum:
    """The methods that a text describes; the inverse of `str`.

    >>> str(parse("mdg(0.1) + pdg(1e-3, layers=6-11, schedule=linear(hold=0.2))"))
    'mdg(weight=0.1) + pdg(weight=0.001, schedule=linear(hold=0.2), layers=6-11)'
    >>> str(parse("mdg(auto(0.1), layers=6-11)"))
    'mdg(weight=auto(0.1), layers=6-11)'
    >>> parse("mgd(0.1)")
    Traceback (most recent call last):
    attentune.methods.spec.SpecError: unknown method 'mgd'; did you mean 'mdg'? (there are mdg, pdg, ...)
      mgd(0.1)
      ^^^
    """
    if text.strip() == "none":
        return Sum()
    methods = []
    for start, stop in _split(text, "+", 0, len(text)):
        call = _call(text, start, stop, METHODS, "method")
        methods.append(_build(call, METHODS[call.name], text))
    return Sum(tuple(methods))


@dataclass(frozen=True)
class _Piece:
    """A part of the text, and where it stands."""

    text: str
    start: int

    @property
    def stop(self) -> int:
        return self.start + len(self.text)


@dataclass(frozen=True)
class _Call:
    """`name(value, key=value)`, taken apart but not yet understood."""

    name: str
    start: int
    arguments: tuple[tuple[_Piece | None, _Piece], ...]


def _piece(text: str, start: int, stop: int) -> _Piece:
    """The text between two positions, without the white space around it."""
    raw = text[start:stop]
    return _Piece(raw.strip(), start + len(raw) - len(raw.lstrip()))


def _split(text: str, separator: str, start: int, stop: int) -> list[tuple[int, int]]:
    """Where the parts between separators stand, outside all brackets."""
    closing: list[tuple[str, int]] = []
    cuts = [start - 1]
    for position, character in _unquoted(text, start, stop):
        if character in "([":
            closing.append((")" if character == "(" else "]", position))
        elif character in ")]":
            if not closing or closing[-1][0] != character:
                raise SpecError(f"this {character!r} closes nothing", text, position)
            closing.pop()
        elif character == separator and not closing:
            cuts.append(position)
    if closing:
        raise SpecError(f"this {text[closing[-1][1]]!r} is never closed", text, closing[-1][1])
    cuts.append(stop)
    return [(cut + 1, after) for cut, after in pairwise(cuts)]


def _unquoted(text: str, start: int, stop: int) -> Iterator[tuple[int, str]]:
    try:
        yield from outside_quotes(text, start, stop)
    except UnclosedQuote as error:
        raise SpecError(f"this {text[error.position]} is never closed", text, error.position) from None


def _closing(text: str, opening: int) -> int:
    """Where the bracket that opens at `opening` is closed; `_split` has made sure that it is."""
    depth = 0
    for position, character in _unquoted(text, opening, len(text)):
        depth += (character in "([") - (character in ")]")
        if depth == 0:
            return position
    raise SpecError(f"this {text[opening]!r} is never closed", text, opening)


def _call(text: str, start: int, stop: int, known: Mapping[str, Any], what: str) -> _Call:
    piece = _piece(text, start, stop)
    word = _WORD.match(piece.text)
    if word is None:
        raise SpecError(f"a {what} is expected here, such as {next(iter(known))}(…)", text, piece.start, piece.stop)
    name = word[0]
    if name == "none" and what == "method":
        raise SpecError("none is the unguided model and stands alone; leave it out", text, piece.start, piece.start + 4)
    if name not in known:
        others = " and none" if what == "method" else ""
        close = difflib.get_close_matches(name, known, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        problem = f"unknown {what} {name!r}{hint} (there are {', '.join(known)}{others})"
        raise SpecError(problem, text, piece.start, piece.start + len(name))
    rest = _piece(text, piece.start + len(name), piece.stop)
    if not rest.text:
        return _Call(name, piece.start, ())
    if not rest.text.startswith("("):
        raise SpecError(f"after {name} a bracket is expected, as in {name}(…)", text, rest.start, rest.stop)
    inside = (rest.start + 1, _closing(text, rest.start))
    after = _piece(text, inside[1] + 1, rest.stop)
    if after.text:
        problem = "a '+' is expected between methods" if what == "method" else f"nothing may follow a {what} here"
        raise SpecError(problem, text, after.start, after.stop)
    if not text[slice(*inside)].strip():
        return _Call(name, piece.start, ())
    arguments = []
    for begin, end in _split(text, ",", *inside):
        whole = _piece(text, begin, end)
        key = re.match(r"([A-Za-z_]\w*)\s*=", whole.text)
        value = _piece(text, whole.start + (key.end() if key else 0), whole.stop)
        if not value.text:
            raise SpecError("a value is missing here", text, value.start if key else max(begin - 1, 0))
        arguments.append((_Piece(key[1], whole.start) if key else None, value))
    return _Call(name, piece.start, tuple(arguments))


def _build(call: _Call, kind: type[Kind], text: str) -> Kind:
    """The method or schedule that a call describes; a bare value is its first parameter."""
    names = [f.name for f in fields(kind)]
    values: dict[str, Any] = {}
    spots: dict[str, _Piece] = {}
    for key, value in call.arguments:
        if key is None:
            if values or not names:
                raise SpecError("only the first value may stand without its name", text, value.start, value.stop)
            name = names[0]
        else:
            name = key.text
        if name not in names:
            assert key is not None
            close = difflib.get_close_matches(name, names, n=1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            has = ", ".join(names) or "no parameters"
            raise SpecError(f"{call.name} has no parameter {name!r}{hint} (it has {has})", text, key.start, key.stop)
        if name in values:
            spot = key or value
            raise SpecError(f"{name} is given twice", text, spot.start, spot.stop)
        values[name], spots[name] = _value(kind, name, value, text), value
    try:
        return kind(**values)
    except (UserError, TypeError) as error:
        raise _told(error, kind, values, spots, text) from None


def _told(error: Exception, kind: type, values: Mapping[str, Any], spots: Mapping[str, _Piece], text: str) -> SpecError:
    """An error of values that were read, pointing at the first with which they go wrong and don't come right again."""
    for number in range(len(values), 0, -1):
        tried = list(values)[:number]
        try:
            kind(**{name: values[name] for name in tried[:-1]})
        except (UserError, TypeError) as earlier:
            error = earlier
        else:
            break
    return SpecError(str(error), text, spots[tried[-1]].start, spots[tried[-1]].stop)


def _value(kind: type, name: str, value: _Piece, text: str) -> Any:
    own = getattr(kind, "text_readers", {}).get(name)
    reader = _READERS.get(name) if own is None else lambda piece, _: own(piece.text)
    if reader is not None:
        try:
            return reader(value, text)
        except SpecError:
            raise
        except UserError as error:
            raise SpecError(str(error), text, value.start, value.stop) from None
    if _WORD.fullmatch(value.text) and value.text not in ("nan", "inf"):
        return value.text
    try:
        return float(value.text)
    except ValueError:
        raise SpecError(
            f"{name} must be a number or a word, not {value.text!r}", text, value.start, value.stop
        ) from None


def _read_number(value: _Piece, text: str) -> float:
    try:
        return float(value.text)
    except ValueError:
        raise UserError(f"a number is expected here, not {value.text!r}") from None


def _read_weight(value: _Piece, text: str) -> float | Auto:
    word = _WORD.match(value.text)
    if word is not None and word[0] == Auto.name:
        return _build(_call(text, value.start, value.stop, {Auto.name: Auto}, "weight"), Auto, text)
    try:
        return float(value.text)
    except ValueError:
        raise UserError(
            f"a number is expected here, not {value.text!r} (or auto(0.05), a weight that sets itself)"
        ) from None


def _read_selection(value: _Piece, text: str) -> Selection:
    return Selection.parse(value.text)


def _read_schedule(value: _Piece, text: str) -> Schedule:
    call = _call(text, value.start, value.stop, SCHEDULES, "schedule")
    return _build(call, SCHEDULES[call.name], text)


_READERS: dict[str, Callable[[_Piece, str], Any]] = {
    "weight": _read_weight,
    "fraction": _read_number,
    "every": _read_number,
    "temperature": _read_number,
    "hold": _read_number,
    "share": _read_number,
    "layers": _read_selection,
    "heads": _read_selection,
    "schedule": _read_schedule,
}
