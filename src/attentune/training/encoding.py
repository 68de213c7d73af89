"""A task's texts as tokens, in the order and the batches that training and evaluation want them in."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import datasets
import numpy as np
from transformers import DataCollatorWithPadding, PreTrainedModel

from attentune.methods import Drawn, TrainingTexts
from attentune.tasks import Task
from attentune.training.collation import ROW_ID
from attentune.training.columns import columns_of
from attentune.training.lengths import longest_length, padding_multiple


@dataclass(frozen=True)
class Encoded:
    """The splits of a task as tokens. The validation split is sorted by length, to pad less; `position` is where each
    row stood."""

    train: datasets.Dataset
    validation: datasets.Dataset
    more: dict[str, datasets.Dataset]
    """The other splits that the task is judged on, sorted as the validation split is."""
    collator: DataCollatorWithPadding
    note: str | None
    """What the user should know of texts that were cut."""

    def judged(self, split: str) -> datasets.Dataset:
        """A split to judge on, by its name."""
        return self.validation if split == "validation" else self.more[split]


def encode(task: Task, model: PreTrainedModel, tokenizer: Any, max_length: int, drawn: Sequence[Drawn] = ()) -> Encoded:
    """Tokenize what is trained on and what is judged on; texts of more than `max_length` tokens are cut.

    The training split has the columns that methods have drawn.
    """
    longest = longest_length(model, tokenizer, max_length)
    splits = {"train": _tokenize(task, "train", tokenizer, longest, drawn)}
    splits |= {name: _tokenize(task, name, tokenizer, longest) for name in task.judged}
    cut = [
        f"{number:,} of {len(rows):,} {name} texts"
        for name, rows in splits.items()
        if (number := sum(rows["is_cut"])) > 0
    ]
    told = f"length: at most {longest:,} tokens"
    if longest < max_length:
        told += f", all that the model takes ({max_length:,} were asked for)"
    if cut:
        told += f"; {' and '.join(cut)} are cut to it"
    splits = {name: rows.remove_columns("is_cut") for name, rows in splits.items()}
    judged = {name: _by_length(rows) for name, rows in splits.items() if name != "train"}
    return Encoded(
        splits["train"],
        judged.pop("validation"),
        judged,
        DataCollatorWithPadding(tokenizer, pad_to_multiple_of=padding_multiple(model, tokenizer, longest)),
        told if cut or longest < max_length else None,
    )


def _by_length(rows: datasets.Dataset) -> datasets.Dataset:
    placed = rows.add_column("position", np.arange(len(rows)))
    return placed.select(np.argsort(placed["length"], kind="stable"))


def training_texts(task: Task, **how: Any) -> TrainingTexts:
    """The texts that methods may draw from: those of the training split."""
    rows = task.splits["train"]
    return TrainingTexts(rows[task.text], rows[task.text_pair] if task.text_pair else None, **how)


def _tokenize(task: Task, split: str, tokenizer: Any, longest: int, drawn: Sequence[Drawn] = ()) -> datasets.Dataset:
    rows = task.splits[split]

    def tokens(batch: dict[str, list[Any]], numbers: list[int]) -> dict[str, Any]:
        texts = [batch[task.text], *([batch[task.text_pair]] if task.text_pair else [])]
        encoded = tokenizer(*texts, truncation=True, max_length=longest)
        columns: dict[str, Any] = {**encoded, **columns_of(drawn, numbers, encoded, *texts)}
        columns[ROW_ID] = batch["id"]
        columns["labels"] = batch[task.label]
        columns["length"] = [len(ids) for ids in columns["input_ids"]]
        columns["is_cut"] = are_cut(encoded)
        return columns

    return rows.map(
        tokens, batched=True, with_indices=True, desc=f"tokenizing {split}", remove_columns=rows.column_names
    )


def are_cut(encoded: Any) -> list[bool]:
    """Which texts of a batch the tokenizer cut; one that isn't a fast one doesn't tell."""
    if not encoded.encodings:
        return [False] * len(encoded["input_ids"])
    return [bool(text.overflowing) for text in encoded.encodings]
