"""Data sets from the Hugging Face hub, or from the cache of an earlier download."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import datasets
import huggingface_hub

from attentune.errors import UserError
from attentune.tasks.table import Records, Table, reason
from attentune.tasks.task import NO_NUMBER, split

SECONDS_TO_ANSWER = 10


def from_hub(
    repository: str,
    config: str | None,
    *,
    texts: Sequence[str],
    labels: Sequence[str],
    otherwise: str,
    more: Sequence[str] = (),
) -> dict[str, datasets.Dataset]:
    """The splits of a data set on the hub, as a task holds them, with `more` columns; `otherwise` says what to do where
    that fails."""
    try:
        found = load_splits(repository, config)
    except Exception as error:  # the network, the hub, the disk: whatever it was, the user has another way
        why = reason(error)
        raise UserError(f"cannot load {repository} from the Hugging Face hub ({why}); {otherwise}") from error
    return {name: _as_split(name, rows, texts, labels, more) for name, rows in found.items()}


def load_splits(repository: str, config: str | None) -> Mapping[str, datasets.Dataset]:
    """Ask once whether the hub answers: `datasets` would try for half a minute before it looks in its cache."""
    offline = datasets.config.HF_HUB_OFFLINE
    problem = None if offline else _problem(repository)
    datasets.config.HF_HUB_OFFLINE = offline or problem is not None
    try:
        loaded: Mapping[str, datasets.Dataset] = datasets.load_dataset(repository, config)
        return loaded
    except Exception as error:
        raise problem or error from error
    finally:
        datasets.config.HF_HUB_OFFLINE = offline


def _problem(repository: str) -> Exception | None:
    try:
        huggingface_hub.HfApi().dataset_info(repository, timeout=SECONDS_TO_ANSWER)
    except Exception as error:
        return error
    return None


def _as_split(
    name: str, rows: datasets.Dataset, texts: Sequence[str], labels: Sequence[str], more: Sequence[str]
) -> datasets.Dataset:
    ids = rows["idx"] if "idx" in rows.column_names else range(len(rows))
    values = rows["label"]
    if len(labels) == 1 and name.startswith("test"):  # the hub has −1 there, which could be a number
        values = [NO_NUMBER] * len(rows)
    columns = {column: rows[column] for column in more}
    return split([str(number) for number in ids], {text: rows[text] for text in texts}, values, labels, **columns)


def hub_tables(name: str) -> dict[str, Table]:
    """The splits of any data set on the hub, `name` or `name:configuration`, as tables of rows."""
    repository, _, config = name.partition(":")
    try:
        found = load_splits(repository, config or None)
    except Exception as error:
        raise UserError(
            f"there is no file {name}, and no such data set can be loaded from the Hugging Face hub ({reason(error)}); "
            "give a file, or a data set as name or name:configuration"
        ) from error
    return {split_name: _table(name, split_name, rows) for split_name, rows in found.items()}


def _table(name: str, split_name: str, rows: datasets.Dataset) -> Table:
    names = {
        column: dict(enumerate(feature.names))
        for column, feature in rows.features.items()
        if isinstance(feature, datasets.ClassLabel)
    }

    def records(wanted: tuple[str, ...]) -> Records:
        for number, row in enumerate(rows.select_columns(list(wanted)), start=1):
            named = {column: names[column].get(value) if column in names else value for column, value in row.items()}
            yield f"row {number}", named

    return Table(Path(name.replace(":", "-"), split_name), tuple(rows.column_names), records)
