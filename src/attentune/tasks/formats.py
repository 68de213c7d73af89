"""Which format a file is in: its extension says."""

from pathlib import Path

from attentune.errors import UserError
from attentune.tasks.delimited import delimited, plain
from attentune.tasks.json_lines import json_lines
from attentune.tasks.parquet import parquet
from attentune.tasks.table import Table

FORMATS = {".tsv": delimited, ".csv": delimited, ".jsonl": json_lines, ".json": json_lines, ".parquet": parquet}


def open_table(path: str | Path, *, plain_text: bool = False) -> Table:
    """The file as a table; with `plain_text`, a `.txt` file is one too, with the one column `text`.

    >>> open_table("no/such/file.csv")
    Traceback (most recent call last):
    attentune.errors.UserError: no such file: no/such/file.csv
    """
    path = Path(path)
    formats = FORMATS | ({".txt": plain} if plain_text else {})
    reader = formats.get(path.suffix.lower())
    if reader is None:
        if not path.exists():
            raise UserError(f"no such file: {path}")
        raise UserError(
            f"cannot tell the format of {path} from the extension {path.suffix!r}; expected one of {', '.join(formats)}"
        )
    return reader(path)
