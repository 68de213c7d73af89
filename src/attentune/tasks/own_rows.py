"""The rows of a user's file, with labels of one kind: names of classes, numbers, or relevant and not.

Which kind a label column holds is guessed where the user doesn't say, and a guess is told.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import datasets

from attentune.errors import UserError
from attentune.tasks.columns import Columns
from attentune.tasks.sampling import draw_groups, hold_out
from attentune.tasks.table import Row, Table, as_number
from attentune.tasks.task import RELEVANCE, Kind, split

HELD_OUT = 0.1
MOSTLY = 0.9
# What pandas and spreadsheets write for a value that is missing: pandas reads all of these as one.
MISSING = {
    "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A", "NA", "NULL",
    "NaN", "None", "n/a", "nan", "null",
}  # fmt: skip
RELEVANT = {
    "0": "not_relevant", "1": "relevant", "false": "not_relevant", "true": "relevant", "not_relevant": "not_relevant",
    "relevant": "relevant",
}  # fmt: skip


@dataclass(frozen=True)
class Rows:
    """Rows as they are read; a label is the name of a class, or a number."""

    ids: list[str]
    texts: dict[str, list[str]]
    labels: list[str | float]
    kind: Kind

    def pick(self, positions: Sequence[int]) -> "Rows":
        """Some of the rows."""
        return Rows(
            [self.ids[row] for row in positions],
            {name: [column[row] for row in positions] for name, column in self.texts.items()},
            [self.labels[row] for row in positions],
            self.kind,
        )

    def split(self, labels: Sequence[str]) -> datasets.Dataset:
        """The rows as a task holds them."""
        if self.kind == "regression":
            return split(self.ids, self.texts, [float(label) for label in self.labels], labels)
        class_ids = self._class_ids(labels)
        if self.kind == "classification":
            return split(self.ids, self.texts, class_ids, labels)
        relevant = Counter(query for query, label in zip(self.texts["text"], class_ids, strict=True) if label)
        return split(
            self.ids,
            self.texts,
            class_ids,
            labels,
            query=self.texts["text"],
            document=self.ids,
            relevant=[relevant[query] for query in self.texts["text"]],
        )

    def label_space(self) -> tuple[str, ...]:
        """The classes in sorted order, which for whole numbers is that of their values."""
        return RELEVANCE if self.kind == "ranking" else in_order(str(label) for label in self.labels)

    def hold_out(self, seed: int) -> tuple[list[int], list[int]]:
        """The rows that stay, and a tenth to validate on: of each class, or whole queries."""
        if self.kind == "ranking":
            queries = self.texts["text"]
            held = draw_groups(queries, max(1, round(HELD_OUT * len(set(queries)))), seed)
            if len(held) == len(queries):
                return list(range(len(queries))), []
            left = set(held)
            return [row for row in range(len(queries)) if row not in left], held
        groups = [0] * len(self.labels) if self.kind == "regression" else self._class_ids(self.label_space())
        repeated = sum(count > 1 for count in Counter(groups).values())
        return hold_out(groups, max(round(HELD_OUT * len(groups)), repeated), seed)

    def _class_ids(self, labels: Sequence[str]) -> list[int]:
        ids = {name: number for number, name in enumerate(labels)}
        return [ids[str(name)] for name in self.labels]


def in_order(labels: Iterable[str]) -> tuple[str, ...]:
    """Names once each in sorted order, which for whole numbers is that of their values.

    >>> in_order(["10", "9", "10"])
    ('9', '10')
    """
    unique = sorted(set(labels))
    try:
        return tuple(sorted(unique, key=int))
    except ValueError:
        return tuple(unique)


def guess_kind(table: Table, column: str) -> Kind:
    """Regression where the labels are numbers and not all of them whole; one in ten may be something else, by mistake."""
    rows = numbers = fractions = 0
    for row in table.rows(column):
        number = as_number(row.values.get(column))
        rows += 1
        numbers += number is not None
        fractions += number is not None and not number.is_integer()
    return "regression" if fractions and numbers >= MOSTLY * rows else "classification"


def read_rows(table: Table, columns: Columns, kind: Kind) -> Rows:
    """All rows, each with its text or texts and a label of this kind."""
    sources = {"text": columns.text} | ({} if columns.text_pair is None else {"text_pair": columns.text_pair})
    assert columns.label is not None
    rows = Rows([], {name: [] for name in sources}, [], kind)
    for number, row in enumerate(table.rows(*columns.all())):
        rows.ids.append(row.id(columns.id, number))
        rows.labels.append(_label(row, columns.label, table, kind))
        for name, column in sources.items():
            rows.texts[name].append(row.text(column))
    return rows


def _label(row: Row, column: str, table: Table, kind: Kind) -> str | float:
    if kind == "regression":
        return row.number(column)
    label = row.label(column)
    if kind == "ranking":
        if label.casefold() not in RELEVANT:
            raise row.error(f"has the label {label!r} in column {column!r}; give 1 to a relevant document, 0 to others")
        return RELEVANT[label.casefold()]
    if label in MISSING and not table.is_typed:
        raise row.error(
            f"has the label {label!r} in column {column!r}, which is how a missing value is written; fill it in or remove "
            "the row (a class of that name can be spelled otherwise, or kept by giving the file as JSONL)"
        )
    return label


def nothing_to_hold_out(table: Table, kind: Kind) -> UserError:
    """The error for a file of which no row can be spared."""
    what = {
        "classification": "no label that occurs twice",
        "regression": "a single row",
        "ranking": "a single query",
    }[kind]
    more = "queries" if kind == "ranking" else "rows"
    return UserError(
        f"{table.path} has {what}, so that no row can be held out for validation; "
        f"give more {more}, or rows to validate on with --eval-file"
    )
