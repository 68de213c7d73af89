"""GLUE's tasks, from files in the layout of the official download or from the hub; `glue_tasks` holds them one by one.

In the official files a quote is an ordinary character, some files have no header, and the test files have no labels:
their rows get the label −1, or NaN where labels are numbers. Rows that are damaged in the official files themselves (a
few of QQP) are left out, counted, and told in the task's `source`; any other damage is an error.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import datasets

from attentune.errors import UserError
from attentune.tasks.data_dir import dataset_folder, missing_file
from attentune.tasks.delimited import delimited
from attentune.tasks.dropped import Dropped
from attentune.tasks.hub import from_hub
from attentune.tasks.table import Row
from attentune.tasks.task import CLASSIFICATION, NO_LABEL, NO_NUMBER, Kind, Task, split

FILES = {"train": ("train.tsv",), "validation": ("dev.tsv",), "test": ("test.tsv",)}
IDS = ("index", "id")


@dataclass(frozen=True)
class Glue:
    """What sets one of GLUE's tasks apart from the others."""

    name: str
    folders: tuple[str, ...]
    """Its folder in the official download, and what others call it."""
    texts: Mapping[str, str]
    """The text columns: their names on the hub, which are ours, and those in the files."""
    labels: tuple[str, ...]
    spelled: tuple[str, ...]
    """The labels as the files and GLUE's server write them, in the order of the ids; none for numbers."""
    deciding: str
    label: str = "label"
    """The column of the label in the files."""
    metrics: tuple[str, ...] = CLASSIFICATION
    header: tuple[str, ...] | None = None
    """The columns of the labelled files, where they have no header row."""
    files: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: FILES)
    """The file of each split; where there are several, the first that is there."""
    required: tuple[str, ...] = ("train", "validation")
    unlabelled: str | None = None
    """What stands for the label of a row on which the annotators did not agree."""
    has_damaged_rows: bool = False
    highest: float = 5.0
    """Of a number; the lowest is 0."""

    @property
    def folder(self) -> str:
        """Its folder in the official download."""
        return self.folders[0]

    @property
    def kind(self) -> Kind:
        """Whether its labels are classes or numbers."""
        return "classification" if self.spelled else "regression"

    def load(self, data_dir: Path | None) -> Task:
        """The task from the official files in `data_dir`, or from the hub."""
        if data_dir is None:
            splits, source = self._from_hub(), f"{self.folder} of GLUE, from the Hugging Face hub (nyu-mll/glue)"
        else:
            splits, source = self._from_files(data_dir)
        text, text_pair = (*self.texts, None)[:2]
        assert text is not None
        return Task(
            name=self.name,
            splits=splits,
            text=text,
            text_pair=text_pair,
            label="label",
            labels=self.labels,
            metrics=self.metrics,
            deciding=self.deciding,
            source=source,
            kind=self.kind,
        )

    def _from_hub(self) -> dict[str, datasets.Dataset]:
        needed = ", ".join(names[0] for names in self.files.values())
        otherwise = f"give --data-dir with the folder that holds {self.folder}/ ({needed})"
        found = from_hub("nyu-mll/glue", self.name, texts=tuple(self.texts), labels=self.labels, otherwise=otherwise)
        ours = {name.removesuffix("_matched"): rows for name, rows in found.items()}
        return {name: ours[name] for name in self.files if name in ours}

    def _from_files(self, data_dir: Path) -> tuple[dict[str, datasets.Dataset], str]:
        folder = next(
            (found for name in self.folders if (found := dataset_folder(data_dir, name)) != data_dir), data_dir
        )
        dropped, splits, absent = Dropped(), {}, []
        for name, files in self.files.items():
            path = next((folder / file for file in files if (folder / file).is_file()), None)
            if path is not None:
                splits[name] = self._read(path, dropped, labelled=not name.startswith("test"))
            elif name in self.required:
                raise missing_file(self.name, data_dir, self.folder, files[0])
            elif name.startswith("validation") and len(splits) > 0:
                absent.append(f"there is no {files[0]}, so that only {next(iter(self.files['validation']))} is judged")
        if not splits:
            raise missing_file(self.name, data_dir, self.folder, next(iter(self.files.values()))[0])
        told = [f"{self.folder} of GLUE, from the files in {folder}", *absent, *dropped.told()]
        return splits, "; ".join(told)

    def _read(self, path: Path, dropped: Dropped, *, labelled: bool) -> datasets.Dataset:
        may_drop = labelled and self.has_damaged_rows
        table = delimited(path, self.header if labelled else None, ragged=dropped.damaged if may_drop else None)
        own_id = next((name for name in IDS if name in table.columns), None)
        columns = self._columns(table.columns, path)
        wanted = [*columns.values(), *([self.label] if labelled else []), *([own_id] if own_id else [])]
        ids: list[str] = []
        labels: list[float] = []
        texts: dict[str, list[str]] = {name: [] for name in self.texts}
        spellings = {spelled: number for number, spelled in enumerate(self.spelled)}
        for number, row in enumerate(table.rows(*dict.fromkeys(wanted))):
            if labelled and self.unlabelled is not None and row.values[self.label] == self.unlabelled:
                dropped.unlabelled(row.path, row.place)
                continue
            try:
                read = {name: row.text(column, may_be_blank=not labelled) for name, column in columns.items()}
                label = self._label(row, spellings) if labelled else NO_LABEL if spellings else NO_NUMBER
            except UserError:
                if not may_drop:
                    raise
                dropped.damaged(row.path, row.place)
                continue
            ids.append(row.id(own_id, number))
            labels.append(label)
            for name, text in read.items():
                texts[name].append(text)
        if not ids:
            raise UserError(f"no row of {path} can be used: {'; '.join(dropped.told())}")
        return split(ids, texts, labels, self.labels)

    def _columns(self, found: tuple[str, ...], path: Path) -> dict[str, str]:
        """The text columns of a file by our names; AX calls its own as the hub does in one of its files."""
        for names in (self.texts, {name: name.capitalize() for name in self.texts}):
            if all(column in found for column in names.values()):
                return dict(names)
        return dict(self.texts)

    def _label(self, row: Row, spellings: Mapping[str, int]) -> float:
        if not spellings:
            return row.number(self.label, 0.0, self.highest)
        return row.class_id(self.label, spellings)
