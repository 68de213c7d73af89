"""A task from the user's own files, or from a data set on the hub.

The columns of the task have the same names whatever the files call theirs: `id`, `text`, `text_pair`, `label`.
"""

import re
from collections.abc import Sequence
from pathlib import Path

from attentune.errors import UserError
from attentune.tasks.columns import Columns, choose
from attentune.tasks.formats import FORMATS, open_table
from attentune.tasks.hub import hub_tables
from attentune.tasks.own_rows import Rows, guess_kind, in_order, nothing_to_hold_out, read_rows
from attentune.tasks.table import Table, shown
from attentune.tasks.task import CLASSIFICATION, RANKING, REGRESSION, SCORE, Kind, Task

METRICS: dict[Kind, tuple[str, ...]] = {
    "classification": CLASSIFICATION,
    "regression": REGRESSION,
    "ranking": RANKING,
}
HUB_NAME = re.compile(r"[\w-][\w.-]*(/[\w-][\w.-]*)?(:[\w.-]+)?")


def from_files(
    train_file: str | Path,
    eval_file: str | Path | None = None,
    *,
    text: str | None = None,
    text_pair: str | None = None,
    label: str | None = None,
    kind: Kind | None = None,
    holdout_seed: int = 0,
) -> Task:
    """A task from a TSV, CSV, JSONL or Parquet file, and a second one to validate on.

    `text`, `text_pair` and `label` name the columns; those not given are guessed from their usual names. Without
    `kind` a column of numbers that aren't all whole makes a regression, and any other a classification, whose classes are
    the labels of the training file in sorted order. A ranking has pairs, query and document, with the label 1 or 0.
    Without `eval_file`, a tenth of the rows is held out. `train_file` may be a data set on the hub, `name` or
    `name:configuration`.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder, "reviews.tsv")
    ...     _ = file.write_text("text\\tlabel\\na fine film\\tgood\\na joy\\tgood\\na bore\\tbad\\ntoo long\\tbad\\n")
    ...     task = from_files(file)
    >>> task.labels, len(task.splits["train"]), len(task.splits["validation"])
    (('bad', 'good'), 2, 2)
    """
    table, eval_table = _tables(train_file, eval_file)
    columns = choose(table, text=text, text_pair=text_pair, label=label)
    assert columns.label is not None
    chosen = kind or guess_kind(table, columns.label)
    told = columns.told() + ("" if kind or chosen == "classification" else _told_guess())
    if chosen == "ranking" and columns.text_pair is None:
        raise UserError(
            f"a ranking has pairs of query and document, and {table.path} gives single texts; name the second with --text-pair"
        )
    train = read_rows(table, columns, chosen)
    labels = SCORE if chosen == "regression" else train.label_space()
    if len(set(train.labels)) == 1:
        needs = {
            "classification": "a classifier needs two classes or more",
            "regression": "a regression needs numbers that differ",
            "ranking": "a ranking needs documents that are relevant and others",
        }[chosen]
        raise UserError(
            f"all rows of {table.path} have the label {shown(train.labels[0])} in column {columns.label!r}; {needs}"
        )
    if eval_table is None:
        kept, held = train.hold_out(holdout_seed)
        if not held or not kept:
            raise nothing_to_hold_out(table, chosen)
        train, validation = train.pick(kept), train.pick(held)
        rows = f"{len(held):,} of its {len(kept) + len(held):,} rows are held out as validation"
        source = f"{table.path}: {told}; {rows}, drawn with seed {holdout_seed}"
    else:
        validation = _read_validation(eval_table, columns, chosen, labels, table.path)
        source = f"{table.path}, validated on {eval_table.path}: {told}"
    return Task(
        name=_name(table),
        splits={"train": train.split(labels), "validation": validation.split(labels)},
        text="text",
        text_pair=None if columns.text_pair is None else "text_pair",
        label="label",
        labels=labels,
        metrics=METRICS[chosen],
        deciding=METRICS[chosen][0],
        source=source,
        kind=chosen,
    )


def to_judge(
    file: str | Path,
    labels: Sequence[str],
    kind: Kind,
    *,
    text: str | None = None,
    text_pair: str | None = None,
    label: str | None = None,
) -> Task:
    """A task to judge a trained model by, from a file with the labels, or the kind of labels, that it knows.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder, "new.tsv")
    ...     _ = file.write_text("text\\tlabel\\na fine film\\tgood\\n")
    ...     to_judge(file, ("bad", "good"), "classification").splits["validation"]["label"][:]
    [1]
    """
    table = open_table(file)
    columns = choose(table, text=text, text_pair=text_pair, label=label)
    rows = read_rows(table, columns, kind)
    if kind == "classification":
        unseen = in_order({str(name) for name in rows.labels} - set(labels))
        if unseen:
            raise UserError(
                f"{table.path} has labels that the model does not know: {', '.join(map(shown, unseen[:3]))}; "
                f"it tells {', '.join(map(repr, labels))} apart"
            )
    return Task(
        name=_name(table),
        splits={"validation": rows.split(labels)},
        text="text",
        text_pair=None if columns.text_pair is None else "text_pair",
        label="label",
        labels=tuple(labels),
        metrics=METRICS[kind],
        deciding=METRICS[kind][0],
        source=f"{table.path}: {columns.told()}",
        kind=kind,
    )


def _told_guess() -> str:
    return "; the labels are numbers, so that a regression is trained (--kind classification takes them for names)"


def _tables(train_file: str | Path, eval_file: str | Path | None) -> tuple[Table, Table | None]:
    """What to train on, and what to validate on if it is given or the hub has it."""
    if _is_on_hub(train_file):
        splits = hub_tables(str(train_file))
        if "train" not in splits:
            raise UserError(f"{train_file} on the hub has no split train; its splits are {', '.join(splits)}")
        table = splits["train"]
        eval_table = next((splits[name] for name in ("validation", "test") if name in splits), None)
        return table, open_table(eval_file) if eval_file is not None else eval_table
    table = open_table(train_file)
    if eval_file is None:
        return table, None
    eval_table = open_table(eval_file)
    if table.path.samefile(eval_table.path):
        raise UserError(
            f"{table.path} is given both to train on and to validate on, so that the scores would be those of rows "
            "seen in training; give other rows with --eval-file, or leave it out to hold out a tenth"
        )
    return table, eval_table


def _is_on_hub(name: str | Path) -> bool:
    is_file_name = Path(name).suffix.lower() in FORMATS or Path(name).exists()
    return isinstance(name, str) and not is_file_name and HUB_NAME.fullmatch(name) is not None


def _name(table: Table) -> str:
    return table.path.stem if table.path.suffix.lower() in FORMATS else table.path.parent.name


def _read_validation(table: Table, columns: Columns, kind: Kind, labels: Sequence[str], train_path: Path) -> Rows:
    rows = read_rows(table, columns.within(table), kind)
    if kind == "classification":
        _check_labels([str(label) for label in rows.labels], labels, table.path, train_path)
    return rows


def _check_labels(found: Sequence[str], known: Sequence[str], eval_path: Path, train_path: Path) -> None:
    unseen = in_order(set(found) - set(known))
    if unseen:
        named = ", ".join(shown(name) for name in unseen[:3]) + (", …" if len(unseen) > 3 else "")
        count = f"{len(unseen)} label" + ("s" if len(unseen) > 1 else "")
        raise UserError(
            f"{eval_path} has {count} that {train_path} has not: {named}; add such rows to the training file, "
            "or correct them"
        )
