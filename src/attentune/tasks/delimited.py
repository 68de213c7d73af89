"""Tables of fields: TSV, CSV, and plain text with one text a line.

In TSV a quote is an ordinary character and only a tab or a line break ends a field; CSV is quoted as usual (RFC 4180),
strictly, because a quote that is never closed would swallow the rows after it. No row is dropped and none is mended.
"""

import csv
from collections.abc import Callable, Generator
from contextlib import closing
from pathlib import Path

from attentune.errors import UserError
from attentune.tasks.table import Records, Table, empty, opened

Lines = Generator[tuple[int, list[str]], None, None]  # the line a record begins on, from 1, and its fields


def delimited(
    path: Path, header: tuple[str, ...] | None = None, ragged: Callable[[Path, str], None] | None = None
) -> Table:
    """A TSV or CSV file; `header` names the columns of a file that has no header row.

    A row with too few or too many fields is an error, unless `ragged` is given: then it is told of, and left out.

    >>> delimited(Path("no/such/file.tsv"))
    Traceback (most recent call last):
    attentune.errors.UserError: no such file: no/such/file.tsv
    """
    split = _csv if path.suffix.lower() == ".csv" else _tsv
    with closing(_without_trailing_blanks(path, split)) as lines:
        first = next(lines, None)
    if first is None:
        raise empty(path)
    columns = header or tuple(name.strip() for name in first[1])

    def records(wanted: tuple[str, ...]) -> Records:
        positions = {name: columns.index(name) for name in wanted}
        lines = _without_trailing_blanks(path, split)
        if header is None:
            next(lines)
        for line, fields in lines:
            if len(fields) != len(columns):
                if ragged is not None:
                    ragged(path, f"line {line}")
                    continue
                hint = "a tab ends a field" if split is _tsv else "a field with a comma in it needs quotes"
                count = "1 field" if len(fields) == 1 else f"{len(fields)} fields"
                raise UserError(f"line {line} of {path} has {count} where {len(columns)} are expected; {hint}")
            yield f"line {line}", {name: fields[position] for name, position in positions.items()}

    return Table(path, columns, records, is_typed=False)


def plain(path: Path) -> Table:
    """A text file with one text a line, as a table with the one column `text`.

    >>> plain(Path("no/such/file.txt"))
    Traceback (most recent call last):
    attentune.errors.UserError: no such file: no/such/file.txt
    """
    with closing(_without_trailing_blanks(path, _lines)) as lines:
        if next(lines, None) is None:
            raise empty(path)

    def records(wanted: tuple[str, ...]) -> Records:
        for line, (text,) in _without_trailing_blanks(path, _lines):
            yield f"line {line}", {"text": text}

    return Table(path, ("text",), records)


def _lines(path: Path) -> Lines:
    with opened(path, newline="\n") as file:
        for number, line in enumerate(file, start=1):
            yield number, [line.removesuffix("\n").removesuffix("\r")]


def _tsv(path: Path) -> Lines:
    for number, (line,) in _lines(path):
        yield number, line.split("\t")


def _csv(path: Path) -> Lines:
    # The limit is the csv module's own and holds for the whole process; this is the most that every platform takes.
    csv.field_size_limit(2**31 - 1)
    with opened(path, newline="") as file:
        reader = csv.reader(file, strict=True)
        begins = 1
        try:
            for fields in reader:
                yield begins, fields
                begins = reader.line_num + 1
        except csv.Error as error:
            raise UserError(
                f"line {begins} of {path} is not CSV ({error}); double the quotes inside a quoted field and close it"
            ) from error


def _without_trailing_blanks(path: Path, split: Callable[[Path], Lines]) -> Lines:
    """The records of a file that may end in blank lines; a blank line before another record is an error."""
    blank = None
    for line, fields in split(path):
        if fields in ([], [""]):
            blank = blank or line
            continue
        if blank is not None:
            raise UserError(f"line {blank} of {path} is blank; remove it or fill it in")
        yield line, fields
