"""Parquet files as tables, read batch by batch.

pyarrow reads them and not `datasets`, which would leave a second copy of each file in its cache and takes a bracket in
a file's name for a pattern. A column that `datasets` wrote as class ids with names is read as the names.
"""

from pathlib import Path

import datasets
import pyarrow
import pyarrow.parquet

from attentune.errors import UserError
from attentune.tasks.table import Records, Table, reason, unreadable


def parquet(path: Path) -> Table:
    """A Parquet file.

    >>> parquet(Path("no/such/file.parquet"))
    Traceback (most recent call last):
    attentune.errors.UserError: no such file: no/such/file.parquet
    """
    try:
        with path.open("rb") as file:
            schema = pyarrow.parquet.read_schema(file)
        names = _class_names(schema)
    except Exception as error:  # besides pyarrow's own, whatever `datasets` makes of damaged metadata
        raise _not_parquet(path, error) from error

    def records(wanted: tuple[str, ...]) -> Records:
        number = 0
        try:
            with path.open("rb") as file:
                for batch in pyarrow.parquet.ParquetFile(file).iter_batches(columns=list(wanted)):
                    for values in batch.to_pylist():
                        number += 1
                        named = {
                            column: names[column].get(value) if column in names else value
                            for column, value in values.items()
                        }
                        yield f"row {number}", named
        except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
            raise _not_parquet(path, error) from error

    return Table(path, tuple(schema.names), records)


def _class_names(schema: pyarrow.Schema) -> dict[str, dict[int, str]]:
    """By column, the name of each class id; an id without a name (−1 stands for "no label") has no label."""
    if b"huggingface" not in (schema.metadata or {}):
        return {}
    features = datasets.Features.from_arrow_schema(schema)
    return {
        column: dict(enumerate(feature.names))
        for column, feature in features.items()
        if isinstance(feature, datasets.ClassLabel)
    }


def _not_parquet(path: Path, error: Exception) -> UserError:
    if isinstance(error, OSError) and error.errno is not None:
        return unreadable(path, error)
    return UserError(f"{path} is not a Parquet file that can be read ({reason(error)})")
