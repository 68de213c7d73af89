"""Inference beside GLUE's: HANS, which tells who reasons from who guesses by overlap of words, and MedNLI.

HANS (McCoy et al. 2019) is for evaluation: three-way models are folded to its two classes (see `label_match`), and scores
are told by heuristic and by subcase. MedNLI (Romanov and Shivade 2018) needs credentials, and is read from the user's copy.
"""

from collections.abc import Mapping
from pathlib import Path

import datasets

from attentune.errors import UserError
from attentune.tasks.data_dir import dataset_folder, missing_file
from attentune.tasks.delimited import delimited
from attentune.tasks.dropped import Dropped
from attentune.tasks.hub import from_hub
from attentune.tasks.json_lines import json_lines
from attentune.tasks.task import CLASSIFICATION, Task, split

HANS_FILES = {"train": "heuristics_train_set.txt", "validation": "heuristics_evaluation_set.txt"}
HANS_LABELS = ("entailment", "not_entailment")
HANS_SPELLINGS = {"entailment": 0, "non-entailment": 1}
GROUPS = ("heuristic", "subcase")
MEDNLI_FILES = {"train": "mli_train_v1.jsonl", "validation": "mli_dev_v1.jsonl", "test": "mli_test_v1.jsonl"}
MEDNLI_LABELS = ("entailment", "neutral", "contradiction")
MEDNLI_SITE = "https://physionet.org/content/mednli/"


def hans(data_dir: Path | None) -> Task:
    """HANS from the authors' files, or from the hub; the evaluation set is the validation split."""
    if data_dir is None:
        otherwise = f"give --data-dir with the folder that holds the authors' {HANS_FILES['validation']}"
        texts = ("premise", "hypothesis")
        splits = from_hub("jhu-cogsci/hans", None, texts=texts, labels=HANS_LABELS, otherwise=otherwise, more=GROUPS)
        source = "HANS, from the Hugging Face hub (jhu-cogsci/hans)"
    else:
        folder = dataset_folder(data_dir, "hans")
        there = {name: folder / file for name, file in HANS_FILES.items() if (folder / file).is_file()}
        if "validation" not in there:
            raise missing_file("hans", data_dir, "hans", HANS_FILES["validation"])
        splits = {name: _read_hans(path) for name, path in there.items()}
        source = f"HANS, from the files in {folder}" + ("" if "train" in there else f"; no {HANS_FILES['train']} there")
    return Task(
        name="hans",
        splits=splits,
        text="premise",
        text_pair="hypothesis",
        label="label",
        labels=HANS_LABELS,
        metrics=CLASSIFICATION,
        deciding="accuracy",
        source=source,
        groups=GROUPS,
    )


def _read_hans(path: Path) -> datasets.Dataset:
    ids, labels, premises, hypotheses = [], [], [], []
    groups: dict[str, list[str]] = {name: [] for name in GROUPS}
    wanted = ("gold_label", "sentence1", "sentence2", "pairID", *GROUPS)
    for number, row in enumerate(delimited(path).rows(*wanted)):
        ids.append(row.id("pairID", number))
        labels.append(row.class_id("gold_label", HANS_SPELLINGS))
        premises.append(row.text("sentence1"))
        hypotheses.append(row.text("sentence2"))
        for name, values in groups.items():
            values.append(row.text(name))
    return split(ids, {"premise": premises, "hypothesis": hypotheses}, labels, HANS_LABELS, **groups)


def mednli(data_dir: Path | None) -> Task:
    """MedNLI from the JSONL files of the credentialed release."""
    if data_dir is None:
        raise UserError(
            f"mednli is given to credentialed users only, at {MEDNLI_SITE}; "
            f"give --data-dir with the folder that holds {', '.join(MEDNLI_FILES.values())}"
        )
    folder, dropped, splits = dataset_folder(data_dir, "mednli"), Dropped(), {}
    for name, file in MEDNLI_FILES.items():
        if (folder / file).is_file():
            splits[name] = _read_mednli(folder / file, dropped)
        elif name != "test":
            raise missing_file("mednli", data_dir, "mednli", file)
    return Task(
        name="mednli",
        splits=splits,
        text="sentence1",
        text_pair="sentence2",
        label="label",
        labels=MEDNLI_LABELS,
        metrics=CLASSIFICATION,
        deciding="accuracy",
        source="; ".join([f"MedNLI, from the files in {folder}", *dropped.told()]),
    )


def _read_mednli(path: Path, dropped: Dropped) -> datasets.Dataset:
    spellings: Mapping[str, int] = {name: number for number, name in enumerate(MEDNLI_LABELS)}
    table = json_lines(path)
    own_id = "pairID" if "pairID" in table.columns else None
    ids, labels, first, second = [], [], [], []
    wanted = ("sentence1", "sentence2", "gold_label", *([own_id] if own_id else []))
    for number, row in enumerate(table.rows(*wanted)):
        if row.values.get("gold_label") == "-":  # as in SNLI's format, where annotators did not agree
            dropped.unlabelled(row.path, row.place)
            continue
        ids.append(row.id(own_id, number))
        labels.append(row.class_id("gold_label", spellings))
        first.append(row.text("sentence1"))
        second.append(row.text("sentence2"))
    if not ids:
        raise UserError(f"no row of {path} can be used: {'; '.join(dropped.told())}")
    return split(ids, {"sentence1": first, "sentence2": second}, labels, MEDNLI_LABELS)
