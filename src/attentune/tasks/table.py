"""A file of rows, whatever its format: the columns it has, and its rows one by one.

Every value is checked where it is read, so that a mistake in a file is told with the file, the line and the column.
The formats themselves are in `delimited`, `json_lines` and `parquet`; `formats.open_table` picks one.
"""

import math
import reprlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from attentune.errors import UserError

Records = Iterator[tuple[str, Mapping[str, object]]]  # where a row stands ("line 5"), and its values by column


@dataclass(frozen=True)
class Row:
    """One row of a file: its values, and where it stands."""

    path: Path
    place: str
    values: Mapping[str, object]

    def error(self, what: str) -> UserError:
        """The error that says `what` is wrong with this row.

        >>> str(Row(Path("reviews.csv"), "line 5", {}).error("is blank"))
        'line 5 of reviews.csv is blank'
        """
        return UserError(f"{self.place} of {self.path} {what}")

    def text(self, column: str, *, may_be_blank: bool = False) -> str:
        """The text in `column`, unchanged.

        >>> Row(Path("reviews.csv"), "line 5", {"text": " as it is "}).text("text")
        ' as it is '
        """
        value = self.values.get(column)
        if _missing(value) and not (may_be_blank and isinstance(value, str)):
            raise self.error(f"has no text in column {column!r}; fill it in or remove the row")
        if not isinstance(value, str):
            raise self.error(f"has {shown(value)} in column {column!r}, where a text is expected; make it a string")
        if not _writable(value):
            raise self.error(f"has half a surrogate pair in column {column!r}, which is no character; remove it")
        return value

    def label(self, column: str) -> str:
        """The label in `column`: a string or a whole number, as a string without blanks around it.

        >>> Row(Path("reviews.csv"), "line 5", {"stars": 3}).label("stars")
        '3'
        """
        value = self.values.get(column)
        if _missing(value):
            raise self.error(f"has no label in column {column!r}; fill it in or remove the row")
        if isinstance(value, float) and value.is_integer():  # what pandas makes of a column of whole numbers
            value = int(value)
        if not isinstance(value, str | int):
            raise self.error(f"has the label {shown(value)} in column {column!r}; give a string or a whole number")
        label = str(value).strip()
        if not _writable(label):
            raise self.error(f"has half a surrogate pair in column {column!r}, which is no character; remove it")
        return label

    def number(self, column: str, lowest: float = -math.inf, highest: float = math.inf) -> float:
        """The number in `column`, written as a number or as a string; one that is not finite is none.

        >>> Row(Path("pairs.tsv"), "line 5", {"score": "3.80"}).number("score")
        3.8
        """
        value = self.values.get(column)
        if _missing(value):
            raise self.error(f"has no number in column {column!r}; fill it in or remove the row")
        number = as_number(value)
        if number is None:
            raise self.error(f"has {shown(value)} in column {column!r}, where a number is expected; correct it")
        if not lowest <= number <= highest:
            raise self.error(f"has {number:g} in column {column!r}; expected a number from {lowest:g} to {highest:g}")
        return number

    def class_id(self, column: str, spellings: Mapping[str, int]) -> int:
        """The class id of the label in `column`, which must be one of `spellings`.

        >>> Row(Path("dev.tsv"), "line 5", {"label": "1"}).class_id("label", {"0": 0, "1": 1})
        1
        """
        label = self.label(column)
        if label not in spellings:
            known = ", ".join(spellings)
            raise self.error(f"has the label {shown(label)} in column {column!r}; expected one of {known}")
        return spellings[label]

    def id(self, column: str | None, number: int) -> str:
        """The row's own id in `column`, or the row's number where it has none.

        >>> Row(Path("dev.tsv"), "line 5", {"index": "12"}).id("index", 3)
        '12'
        """
        value = None if column is None else self.values.get(column)
        own = str(value).strip() if isinstance(value, str | int) else ""
        return own if own and _writable(own) else str(number)


@dataclass(frozen=True)
class Table:
    """A file's columns, and how to read its rows: `records` takes the wanted columns and starts at the first row."""

    path: Path
    columns: tuple[str, ...]
    records: Callable[[tuple[str, ...]], Records]
    is_typed: bool = True
    """Whether the format tells a missing value from a string; in CSV both are strings."""

    def __post_init__(self) -> None:
        for name, count in Counter(self.columns).items():
            if name and count > 1:
                raise UserError(f"{self.path} has the column {name!r} more than once; rename one of them")

    def require(self, columns: Iterable[str]) -> None:
        """Raise an error that names the first of `columns` that is not there, and those that are.

        >>> Table(Path("dev.tsv"), ("text", "stars"), lambda columns: iter(())).require(["label"])
        Traceback (most recent call last):
        attentune.errors.UserError: dev.tsv has no column 'label'; its columns are 'text', 'stars'
        """
        for name in columns:
            if name not in self.columns:
                raise UserError(f"{self.path} has no column {name!r}; {self.told()}")

    def told(self) -> str:
        """The columns there are, for an error's sentence.

        >>> Table(Path("dev.tsv"), ("text", "stars"), lambda columns: iter(())).told()
        "its columns are 'text', 'stars'"
        """
        more = f" and {len(self.columns) - 20} more" if len(self.columns) > 20 else ""
        return f"its columns are {', '.join(shown(name) for name in self.columns[:20])}{more}"

    def rows(self, *columns: str) -> Iterator[Row]:
        """The rows, lazily, with the values of `columns`; a file without one is an error.

        >>> table = Table(Path("dev.tsv"), ("text",), lambda columns: iter([("line 2", {"text": "fine"})]))
        >>> [row.text("text") for row in table.rows("text")]
        ['fine']
        """
        self.require(columns)
        empty = True
        for place, values in self.records(columns):
            empty = False
            yield Row(self.path, place, values)
        if empty:
            raise UserError(f"{self.path} has columns but no rows; give a file with at least one row")


def as_number(value: object) -> float | None:
    """A finite number that is given as such or as a string; None for anything else.

    >>> as_number(" 2.5 "), as_number(3), as_number("3_0"), as_number("nan"), as_number(True)
    (2.5, 3.0, None, None, None)
    """
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    if isinstance(value, str) and "_" in value:  # Python's own way of writing 1,000
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


_short = reprlib.Repr()
_short.maxstring = _short.maxother = 60


def shown(value: object) -> str:
    """A value as an error shows it: quoted, and cut in the middle where it is long.

    >>> shown("good " * 20)
    "'good good good good good go...d good good good good good '"
    """
    return _short.repr(value)


@contextmanager
def opened(path: Path, *, newline: str) -> Iterator[TextIO]:
    """The file as UTF-8 text, with or without a byte-order mark; `newline` as in `open`.

    >>> with opened(Path("no/such/file.csv"), newline="") as file:
    ...     pass
    Traceback (most recent call last):
    attentune.errors.UserError: no such file: no/such/file.csv
    """
    try:
        with path.open(encoding="utf-8-sig", newline=newline) as file:
            yield file
    except UnicodeDecodeError:
        raise _not_utf8(path) from None
    except OSError as error:
        raise unreadable(path, error) from error


def unreadable(path: Path, error: OSError) -> UserError:
    """The error for a file that cannot be opened.

    >>> str(unreadable(Path("data"), IsADirectoryError()))
    'data is a folder; give a file'
    """
    if isinstance(error, FileNotFoundError):
        return UserError(f"no such file: {path}")
    if isinstance(error, IsADirectoryError):
        return UserError(f"{path} is a folder; give a file")
    return UserError(f"cannot read {path}: {error.strerror or error}")


def empty(path: Path) -> UserError:
    """The error for a file with nothing in it.

    >>> str(empty(Path("dev.tsv")))
    'dev.tsv is empty; give a file with at least one row'
    """
    return UserError(f"{path} is empty; give a file with at least one row")


def reason(error: Exception) -> str:
    """Another library's error in a few words: its first line, or its name where it has none.

    >>> reason(ConnectionError("no answer\\nfrom anywhere")), reason(ConnectionError())
    ('no answer', 'ConnectionError')
    """
    return next(iter(str(error).splitlines()), "") or type(error).__name__


def _not_utf8(path: Path) -> UserError:
    """Find the first byte that is not UTF-8: the decoder knows only its place in a buffer."""
    content = path.read_bytes()
    try:
        content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        at = f"byte {error.start} (line {line}) is 0x{content[error.start]:02x}"
        return UserError(f"{path} is not UTF-8: {at}; save the file as UTF-8")
    return UserError(f"{path} changed while it was read; try again")


def _missing(value: object) -> bool:
    if isinstance(value, float):
        return math.isnan(value)
    return value is None or (isinstance(value, str) and not value.strip())


def _writable(text: str) -> bool:
    """JSON can escape half a surrogate pair; no tokenizer and no file takes it."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
