"""GLUE's tasks, from files in the layout of the official download or from the hub.

In the official files a quote is an ordinary character, CoLA's training and validation files have no header, and the
test files have no labels: their rows get the label −1.
"""

from dataclasses import dataclass
from pathlib import Path

import datasets

from attentune.tasks.data_dir import dataset_folder, missing_file
from attentune.tasks.delimited import delimited
from attentune.tasks.hub import from_hub
from attentune.tasks.task import CLASSIFICATION, NO_LABEL, Task, split

FILES = {"train": "train.tsv", "validation": "dev.tsv", "test": "test.tsv"}


@dataclass(frozen=True)
class Glue:
    """What sets one of GLUE's tasks apart from the others."""

    name: str
    folder: str
    """Its folder in the official download."""
    text: str
    text_pair: str | None
    labels: tuple[str, ...]
    spelled: tuple[str, ...]
    """The labels as the files write them, in the order of the ids."""
    deciding: str
    header: tuple[str, ...] | None = None
    """The columns of the labelled files, where they have no header row."""

    def load(self, data_dir: Path | None) -> Task:
        """The task from the official files in `data_dir`, or from the hub."""
        if data_dir is None:
            splits, source = self._from_hub(), f"{self.folder} of GLUE, from the Hugging Face hub (nyu-mll/glue)"
        else:
            folder = dataset_folder(data_dir, self.folder)
            splits, source = self._from_files(data_dir, folder), f"{self.folder} of GLUE, from the files in {folder}"
        return Task(
            name=self.name,
            splits=splits,
            text=self.text,
            text_pair=self.text_pair,
            label="label",
            labels=self.labels,
            metrics=CLASSIFICATION,
            deciding=self.deciding,
            source=source,
        )

    def _texts(self) -> tuple[str, ...]:
        return (self.text,) if self.text_pair is None else (self.text, self.text_pair)

    def _from_hub(self) -> dict[str, datasets.Dataset]:
        otherwise = f"give --data-dir with the folder that holds {self.folder}/ ({', '.join(FILES.values())})"
        return from_hub("nyu-mll/glue", self.name, texts=self._texts(), labels=self.labels, otherwise=otherwise)

    def _from_files(self, data_dir: Path, folder: Path) -> dict[str, datasets.Dataset]:
        splits = {}
        for name, file in FILES.items():
            path = folder / file
            if path.is_file():
                splits[name] = self._read(path, labelled=name != "test")
            elif name != "test":
                raise missing_file(self.name, data_dir, self.folder, file)
        return splits

    def _read(self, path: Path, *, labelled: bool) -> datasets.Dataset:
        table = delimited(path, self.header if labelled else None)
        own_id = "index" if "index" in table.columns else None
        wanted = [*self._texts(), *(["label"] if labelled else []), *([own_id] if own_id else [])]
        spellings = {spelled: number for number, spelled in enumerate(self.spelled)}
        ids: list[str] = []
        class_ids: list[int] = []
        texts: dict[str, list[str]] = {name: [] for name in self._texts()}
        for number, row in enumerate(table.rows(*wanted)):
            ids.append(row.id(own_id, number))
            class_ids.append(row.class_id("label", spellings) if labelled else NO_LABEL)
            for name, column in texts.items():
                column.append(row.text(name))
        return split(ids, texts, class_ids, self.labels)


RTE = Glue(
    name="rte",
    folder="RTE",
    text="sentence1",
    text_pair="sentence2",
    labels=("entailment", "not_entailment"),
    spelled=("entailment", "not_entailment"),
    deciding="accuracy",
)
COLA = Glue(
    name="cola",
    folder="CoLA",
    text="sentence",
    text_pair=None,
    labels=("unacceptable", "acceptable"),
    spelled=("0", "1"),
    deciding="matthews",
    header=("source", "label", "original mark", "sentence"),
)
