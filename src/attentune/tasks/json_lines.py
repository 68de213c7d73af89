"""Tables of JSON objects: one object a line, or (in a `.json` file) one array of objects.

The columns are those of the first object. A blank line holds no row and is passed over.
"""

import json
from collections.abc import Generator, Iterator
from contextlib import closing
from itertools import chain
from pathlib import Path

from attentune.errors import UserError
from attentune.tasks.table import Records, Table, empty, opened


def json_lines(path: Path) -> Table:
    """A JSONL file, or a JSON file with an array of objects.

    >>> json_lines(Path("no/such/file.jsonl"))
    Traceback (most recent call last):
    attentune.errors.UserError: no such file: no/such/file.jsonl
    """
    with closing(_objects(path)) as objects:
        first = next(objects, None)
    if first is None:
        raise empty(path)

    def records(wanted: tuple[str, ...]) -> Records:
        yield from _objects(path)

    return Table(path, tuple(first[1]), records)


def _objects(path: Path) -> Generator[tuple[str, dict[str, object]], None, None]:
    for place, value in _values(path):
        if not isinstance(value, dict):
            raise UserError(f'{place} of {path} is not a JSON object; write each row as {{"text": …, "label": …}}')
        yield place, value


def _values(path: Path) -> Iterator[tuple[str, object]]:
    with opened(path, newline="\n") as file:
        lines = ((number, line) for number, line in enumerate(file, start=1) if line.strip())
        first = next(lines, None)
        if first is None:
            return
        if path.suffix.lower() == ".json" and first[1].lstrip().startswith("["):
            array = _parsed(path, first[1] + file.read())
            assert isinstance(array, list)
            yield from ((f"item {number}", value) for number, value in enumerate(array, start=1))
            return
        for number, line in chain([first], lines):
            yield f"line {number}", _parsed(path, line, number)


def _parsed(path: Path, text: str, line: int | None = None) -> object:
    try:
        return json.loads(text)
    except RecursionError:
        why = "nested too deeply"
    except ValueError as error:
        why = str(error)
    what = f"line {line} of {path}" if line else str(path)
    raise UserError(f"{what} is not JSON ({why}); write one object a line")
