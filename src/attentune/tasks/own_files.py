"""A task, or texts to predict, from the user's own files.

The columns of the task have the same names whatever the files call theirs: `id`, `text`, `text_pair`, `label`.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import datasets

from attentune.errors import UserError
from attentune.tasks.columns import Columns, choose
from attentune.tasks.formats import open_table
from attentune.tasks.sampling import hold_out
from attentune.tasks.table import Row, Table, shown
from attentune.tasks.task import CLASSIFICATION, Task, split

HELD_OUT = 0.1
# What pandas and spreadsheets write for a value that is missing: pandas reads all of these as one.
MISSING = {
    "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A", "NA", "NULL",
    "NaN", "None", "n/a", "nan", "null",
}  # fmt: skip


def from_files(
    train_file: str | Path,
    eval_file: str | Path | None = None,
    *,
    text: str | None = None,
    text_pair: str | None = None,
    label: str | None = None,
    holdout_seed: int = 0,
) -> Task:
    """A classification task from a TSV, CSV, JSONL or Parquet file, and a second one to validate on.

    `text`, `text_pair` and `label` name the columns; those not given are guessed from their usual names. Without
    `eval_file`, a tenth of the rows is held out. The classes are the labels of the training file, in sorted order.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder, "reviews.tsv")
    ...     _ = file.write_text("text\\tlabel\\na fine film\\tgood\\na joy\\tgood\\na bore\\tbad\\ntoo long\\tbad\\n")
    ...     task = from_files(file)
    >>> task.labels, len(task.splits["train"]), len(task.splits["validation"])
    (('bad', 'good'), 2, 2)
    """
    table = open_table(train_file)
    columns = choose(table, text=text, text_pair=text_pair, label=label)
    train = _read(table, columns)
    labels = _label_space(train.labels)
    if len(labels) == 1:
        raise UserError(
            f"all rows of {table.path} have the label {shown(labels[0])} in column {columns.label!r}; "
            "a classifier needs two classes or more"
        )
    if eval_file is None:
        kept, held, held_told = _held_out(table, train, labels, holdout_seed)
        splits = {"train": train.pick(kept).split(labels), "validation": train.pick(held).split(labels)}
        source = f"{table.path}: {columns.told()}; {held_told}"
    else:
        eval_table = open_table(eval_file)
        if table.path.samefile(eval_table.path):
            raise UserError(
                f"{table.path} is given both to train on and to validate on, so that the scores would be those of rows "
                "seen in training; give other rows with --eval-file, or leave it out to hold out a tenth"
            )
        validation = _read(eval_table, columns.within(eval_table))
        _check_labels(validation.labels, labels, eval_table.path, table.path)
        splits = {"train": train.split(labels), "validation": validation.split(labels)}
        source = f"{table.path}, validated on {eval_table.path}: {columns.told()}"
    return Task(
        name=table.path.stem,
        splits=splits,
        text="text",
        text_pair=None if columns.text_pair is None else "text_pair",
        label="label",
        labels=labels,
        metrics=CLASSIFICATION,
        deciding="accuracy",
        source=source,
    )


def read_texts(
    path: str | Path,
    text: str | None = None,
    text_pair: str | None = None,
    *,
    usual: tuple[str | None, str | None] = (None, None),
) -> Iterator[dict[str, str]]:
    """The texts of a file to predict, row by row: `id`, `text` and, where the file has pairs, `text_pair`.

    Where no column is named, those of `usual` are taken if the file has them, and otherwise they are guessed. A `.txt`
    file holds one text a line. `id` is the file's own or else the row's number, from 0. What is wrong with the file as
    a whole is raised at once, what is wrong with a row when the row is reached.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder, "new.txt")
    ...     _ = file.write_text("a fine film\\na bore\\n")
    ...     list(read_texts(file))
    [{'id': '0', 'text': 'a fine film'}, {'id': '1', 'text': 'a bore'}]
    """
    table = open_table(path, plain_text=True)
    if text is None and text_pair is None and all(name is None or name in table.columns for name in usual):
        text, text_pair = usual
    columns = choose(table, text=text, text_pair=text_pair, labelled=False)

    def rows() -> Iterator[dict[str, str]]:
        for number, row in enumerate(table.rows(*columns.all())):
            read = {"id": row.id(columns.id, number), "text": row.text(columns.text)}
            if columns.text_pair is not None:
                read["text_pair"] = row.text(columns.text_pair)
            yield read

    return rows()


@dataclass(frozen=True)
class _Rows:
    ids: list[str]
    texts: dict[str, list[str]]
    labels: list[str]

    def pick(self, positions: Sequence[int]) -> "_Rows":
        return _Rows(
            [self.ids[row] for row in positions],
            {name: [column[row] for row in positions] for name, column in self.texts.items()},
            [self.labels[row] for row in positions],
        )

    def class_ids(self, labels: Sequence[str]) -> list[int]:
        ids = {name: number for number, name in enumerate(labels)}
        return [ids[name] for name in self.labels]

    def split(self, labels: Sequence[str]) -> datasets.Dataset:
        return split(self.ids, self.texts, self.class_ids(labels), labels)


def _read(table: Table, columns: Columns) -> _Rows:
    sources = {"text": columns.text} | ({} if columns.text_pair is None else {"text_pair": columns.text_pair})
    assert columns.label is not None
    rows = _Rows([], {name: [] for name in sources}, [])
    for number, row in enumerate(table.rows(*columns.all())):
        rows.ids.append(row.id(columns.id, number))
        rows.labels.append(_class_name(row, columns.label, table.is_typed))
        for name, column in sources.items():
            rows.texts[name].append(row.text(column))
    return rows


def _class_name(row: Row, column: str, is_typed: bool) -> str:
    label = row.label(column)
    if label in MISSING and not is_typed:
        raise row.error(
            f"has the label {label!r} in column {column!r}, which is how a missing value is written; fill it in or remove "
            "the row (a class of that name can be spelled otherwise, or kept by giving the file as JSONL)"
        )
    return label


def _label_space(labels: Iterable[str]) -> tuple[str, ...]:
    """The classes in sorted order, which for whole numbers is that of their values."""
    unique = sorted(set(labels))
    try:
        return tuple(sorted(unique, key=int))
    except ValueError:
        return tuple(unique)


def _held_out(table: Table, rows: _Rows, labels: Sequence[str], seed: int) -> tuple[list[int], list[int], str]:
    class_ids = rows.class_ids(labels)
    repeated = sum(count > 1 for count in Counter(class_ids).values())
    kept, held = hold_out(class_ids, max(round(HELD_OUT * len(class_ids)), repeated), seed)
    if not held:
        raise UserError(
            f"{table.path} has no label that occurs twice, so that no row can be held out for validation; "
            "give more rows, or rows to validate on with --eval-file"
        )
    told = f"{len(held):,} of its {len(class_ids):,} rows are held out as validation, drawn with seed {seed}"
    return kept, held, told


def _check_labels(found: Sequence[str], known: Sequence[str], eval_path: Path, train_path: Path) -> None:
    unseen = _label_space(set(found) - set(known))
    if unseen:
        named = ", ".join(shown(name) for name in unseen[:3]) + (", …" if len(unseen) > 3 else "")
        count = f"{len(unseen)} label" + ("s" if len(unseen) > 1 else "")
        raise UserError(
            f"{eval_path} has {count} that {train_path} has not: {named}; add such rows to the training file, "
            "or correct them"
        )
