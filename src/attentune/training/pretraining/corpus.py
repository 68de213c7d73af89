"""The text that a model is pre-trained on, as documents: read line by line, and kept on disk by `datasets`, never in memory.

A text file has a document a line; tables (JSONL, CSV, TSV, Parquet) and data sets on the hub have one a row. Documents
without any text, such as the blank lines between paragraphs, are passed over.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import datasets
import numpy as np
from datasets.exceptions import DatasetGenerationError

from attentune.errors import UserError
from attentune.tasks import hub
from attentune.tasks.formats import FORMATS, open_table
from attentune.tasks.table import Row, Table, opened, reason
from attentune.training.pretraining.recipe import CorpusRecipe

FORMAT = 1
HELD_OUT = 0.05
HELD_OUT_SEED = 0
PLAIN = ".txt"


@dataclass(frozen=True)
class Corpus:
    """The documents to train on and those held out, each a data set with the one column `text`."""

    train: datasets.Dataset
    validation: datasets.Dataset
    source: str


def load_corpus(recipe: CorpusRecipe, seed: int) -> Corpus:
    """The documents that a recipe names. Where it has nothing held out, one in twenty is, always the same ones."""
    train, held = _documents(recipe.train_file, recipe.text)
    source = recipe.train_file
    if recipe.eval_file is not None:
        held = _documents(recipe.eval_file, recipe.text)[0]
        source += f", held out: {recipe.eval_file}"
        if train._fingerprint == held._fingerprint:
            raise UserError(
                f"--train-file {recipe.train_file} and --eval-file {recipe.eval_file} hold the same text, so that the held-out "
                "loss would be that of text seen in training; give another, or leave --eval-file out"
            )
    elif held is None:
        train, held = _held_out(train, recipe.train_file)
        source += f", one document in {round(1 / HELD_OUT)} held out"
    return Corpus(_sample(train, recipe.max_train, seed), _sample(held, recipe.max_eval, seed), source)


def _documents(name: str, column: str | None) -> tuple[datasets.Dataset, datasets.Dataset | None]:
    """The documents of a file or folder; of a data set on the hub also those of its validation split."""
    path = Path(name)
    if path.is_dir():
        files = sorted(file for file in path.iterdir() if file.suffix.lower() in (PLAIN, *FORMATS))
        if not files:
            raise UserError(f"the folder {name} holds no text: give files of {', '.join((PLAIN, *FORMATS))}")
        return _from_files(files, column), None
    if path.exists() or path.suffix.lower() in (PLAIN, *FORMATS):
        return _from_files([path], column), None
    return _from_hub(name, column)


def _from_files(files: Sequence[Path], column: str | None) -> datasets.Dataset:
    """The documents of files, kept by what the files hold: a file that has changed is read again."""
    digest = hashlib.sha256(f"{FORMAT} {column}".encode())
    for file in files:
        if not file.is_file():
            raise UserError(f"no such file: {file}")
        with file.open("rb") as opened_file:
            digest.update(hashlib.file_digest(opened_file, "sha256").digest() + file.suffix.lower().encode())
    try:
        return datasets.Dataset.from_generator(
            _rows,
            features=datasets.Features({"text": datasets.Value("large_string")}),
            gen_kwargs={"files": tuple(map(str, files)), "column": column},
            fingerprint=digest.hexdigest()[:32],
        )
    except DatasetGenerationError as error:
        if isinstance(error.__cause__, UserError):
            raise error.__cause__ from None
        raise


def _rows(files: tuple[str, ...], column: str | None) -> Iterator[dict[str, str]]:
    is_empty = True
    for file in map(Path, files):
        for text in _lines(file) if file.suffix.lower() == PLAIN else _column(open_table(file), column):
            if text.strip():
                is_empty = False
                yield {"text": text}
    if is_empty:
        raise UserError(f"there is no text in {', '.join(files)}; give a document a line")


def _lines(path: Path) -> Iterator[str]:
    with opened(path, newline="\n") as file:
        yield from (line.removesuffix("\n").removesuffix("\r") for line in file)


def _column(table: Table, column: str | None) -> Iterator[str]:
    name = column or _guessed(table.columns, str(table.path))
    for row in table.rows(name):
        yield from _text(row, name)


def _text(row: Row, column: str) -> Iterator[str]:
    """The text of a row, if it has one."""
    value = row.values.get(column)
    if value is not None and not (isinstance(value, str) and not value.strip()):
        yield row.text(column)


def _guessed(columns: Sequence[str], where: str) -> str:
    """The column of the text where none is named: `text`, or the only one there is."""
    if "text" in columns:
        return "text"
    if len(columns) == 1:
        return columns[0]
    names = ", ".join(map(repr, columns[:20]))
    raise UserError(f"it isn't clear which column of {where} holds the text ({names}); name it with --text")


def _from_hub(name: str, column: str | None) -> tuple[datasets.Dataset, datasets.Dataset | None]:
    repository, _, config = name.partition(":")
    try:
        splits = hub.load_splits(repository, config or None)
    except Exception as error:  # the network, the hub, the disk
        raise UserError(
            f"there is no file {name!r}, and as a data set of the Hugging Face hub it can't be loaded ({reason(error)}); "
            "give --train-file a text file, a folder, or a name on the hub as Salesforce/wikitext:wikitext-103-raw-v1"
        ) from error
    if "train" not in splits:
        raise UserError(f"the data set {name} has no split 'train' (it has {', '.join(splits)}); give another")
    train, held = splits["train"], splits.get("validation")
    text = column or _guessed(train.column_names, name)
    if text not in train.column_names:
        raise UserError(f"the data set {name} has no column {text!r}; its columns are {', '.join(train.column_names)}")
    return _texts_of(train, text), None if held is None else _texts_of(held, text)


def _texts_of(rows: datasets.Dataset, column: str) -> datasets.Dataset:
    texts = rows.select_columns([column])
    texts = texts if column == "text" else texts.rename_column(column, "text")
    return texts.filter(_have_text, input_columns="text", batched=True, desc="reading")


def _have_text(texts: Sequence[str | None]) -> list[bool]:
    return [bool(text and text.strip()) for text in texts]


def _held_out(documents: datasets.Dataset, name: str) -> tuple[datasets.Dataset, datasets.Dataset]:
    if len(documents) < 2:
        raise UserError(
            f"{name} holds one document, so that none can be held out; give text to judge on with --eval-file"
        )
    held = np.zeros(len(documents), dtype=bool)
    count = max(1, round(HELD_OUT * len(documents)))
    held[np.random.default_rng(HELD_OUT_SEED).choice(len(documents), count, replace=False)] = True
    return documents.select(np.flatnonzero(~held)), documents.select(np.flatnonzero(held))


def _sample(documents: datasets.Dataset, most: int | None, seed: int) -> datasets.Dataset:
    """At most so many documents, in their order."""
    if most is None or most >= len(documents):
        return documents
    return documents.select(np.sort(np.random.default_rng(seed).choice(len(documents), most, replace=False)))
