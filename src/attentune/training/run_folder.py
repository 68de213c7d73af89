"""The folder that a run leaves: the recipe as run, versions, metrics, predictions, the log and the checkpoint.

A folder belongs to one run. Nothing in it is ever overwritten, and each file is there whole or not at all.
"""

import json
import math
import os
import platform
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Protocol, TextIO

from attentune.errors import UserError
from attentune.tasks import Judged, trec_lines
from attentune.training.recipe import Recipe, read_values

RECORDED_PACKAGES = ("attentune", "torch", "transformers", "datasets", "tokenizers", "accelerate", "numpy")
METRICS = ("task", "method", "seed", "eval", "train", "inputs", "deciding")


class Written(Protocol):
    """A recipe of any kind."""

    def to_yaml(self) -> str:
        """The recipe as it is kept beside a run."""


@dataclass(frozen=True)
class RunFolder:
    """The files of one run, by name."""

    path: Path

    @classmethod
    def check_free(cls, path: str | Path) -> Path:
        """A folder that can't be made or written in is refused, and so is one that holds anything already."""
        folder = Path(path)
        there = next(place for place in (folder, *folder.absolute().parents) if place.exists())
        if not there.is_dir():
            raise UserError(
                f"the output folder {folder} can't be made: {there} is a file; choose another with --output"
            )
        if not os.access(there, os.W_OK | os.X_OK):
            raise UserError(
                f"the output folder {folder} can't be written: no permission in {there}; choose another with --output"
            )
        if there == folder and any(folder.iterdir()):
            run = cls(folder)
            holds = "a run" if run.is_finished else "an unfinished run" if run.recipe_file.exists() else "files"
            more = ", go on with it by adding --resume, or remove it" if holds == "an unfinished run" else ""
            raise UserError(f"the output folder {folder} already holds {holds}; choose another with --output{more}")
        return folder

    @classmethod
    def create(cls, path: str | Path) -> "RunFolder":
        """A new folder, or an empty one that is there."""
        folder = cls.check_free(path)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(f"the output folder {folder} can't be made: {error.strerror}") from None
        return cls(folder)

    @classmethod
    def open(cls, path: str | Path) -> "RunFolder":
        """The folder of a finished run."""
        folder = cls(Path(path))
        if not folder.recipe_file.is_file():
            raise UserError(
                f"{path} is not the folder of a run: there is no recipe.yaml in it; give one that train left"
            )
        if not folder.is_finished:
            raise UserError(
                f"the run in {path} has not finished: there is no metrics.json in it; train it to its end first"
            )
        return folder

    @classmethod
    def interrupted(cls, path: str | Path) -> "RunFolder":
        """The folder of a run that has begun and not finished."""
        folder = cls(Path(path))
        if not folder.recipe_file.is_file():
            raise UserError(f"there is no run in {path} to go on with: no recipe.yaml is in it; train without --resume")
        if folder.is_finished:
            raise UserError(f"the run in {path} has finished already; there is nothing to go on with")
        if not os.access(folder.path, os.W_OK | os.X_OK):
            raise UserError(f"the run in {path} can't be gone on with: no permission to write there; allow it")
        return folder

    @property
    def is_finished(self) -> bool:
        """Whether the last of the files is there."""
        return self.metrics_file.is_file()

    @property
    def recipe_file(self) -> Path:
        """The recipe as run."""
        return self.path / "recipe.yaml"

    @property
    def metrics_file(self) -> Path:
        """What came out, as JSON."""
        return self.path / "metrics.json"

    @property
    def checkpoint(self) -> Path:
        """The trained model and its tokenizer, for plain transformers to load."""
        return self.path / "checkpoint"

    @property
    def steps(self) -> Path:
        """Checkpoints on the way, where --save-steps asks for them."""
        return self.path / "steps"

    @property
    def adapter(self) -> Path:
        """The adapter alone, where one was trained (lora)."""
        return self.path / "adapter"

    def recipe(self) -> Recipe:
        """The recipe as run, for a run that fine-tunes."""
        if read_values(self.recipe_file).get("run") == "pretraining":
            raise UserError(
                f"the run in {self.path} is one of pre-training: fine-tune its model with attentune train --model {self.path}, "
                f"or go on with it, if it was interrupted, with attentune pretrain --resume --output {self.path}"
            )
        return Recipe.from_yaml(self.recipe_file)

    def metrics(self) -> dict[str, Any]:
        """What came out."""
        try:
            result = json.loads(self.metrics_file.read_text(encoding="utf-8"))
            lacking = [name for name in METRICS if name not in result]
            problem = f"it has no {lacking[0]!r}" if lacking else ""
        except (OSError, ValueError, TypeError) as error:
            problem = str(error)
        if problem:
            raise UserError(f"{self.metrics_file} is damaged ({problem}); restore it, or train again")
        metrics: dict[str, Any] = result
        return metrics

    def versions_changed(self) -> list[str]:
        """What has another version now than when the run began: its results may then differ in the last digits."""
        try:
            before = json.loads((self.path / "versions.json").read_text(encoding="utf-8"))
            items = dict(before).items()
        except (OSError, ValueError, TypeError):
            return ["versions.json can't be read"]
        now = versions()
        return [f"{name} {old} → {now[name]}" for name, old in items if name in now and now[name] != old]

    def write_start(self, recipe: Written) -> None:
        """What is known before training: the recipe, and with which versions it is run."""
        write_whole(self.recipe_file, recipe.to_yaml())
        write_whole(self.path / "versions.json", json.dumps(versions(), indent=2) + "\n")

    def write_log(self, log: Iterable[dict[str, Any]]) -> None:
        """The training log, one line for each entry."""
        write_whole(self.path / "log.jsonl", "".join(json_line(_with_null(entry)) for entry in log))

    def write_judged(self, judged: Mapping[str, Judged], tag: str) -> None:
        """The predictions on each split that was judged, and rankings as TREC run files."""
        for split, one in judged.items():
            name = split.removeprefix("validation")  # the deciding one's files need no more of a name
            self.write_predictions(one.predictions, name)
            if one.ranking:
                write_whole(self.path / f"ranking{name}.trec", "".join(trec_lines(one.ranking, "".join(tag.split()))))

    def write_predictions(self, rows: Iterable[dict[str, Any]], name: str = "") -> None:
        """The predictions on an evaluation split, one line for each example."""
        write_whole(self.path / f"predictions{name}.jsonl", "".join(map(json_line, rows)))

    def write_metrics(self, metrics: dict[str, Any]) -> None:
        """What came out; the last file to be written: where it is, the run is whole."""
        if self.steps.is_dir() and not any(self.steps.iterdir()):
            self.steps.rmdir()  # transformers makes it even where no checkpoint is to be kept
        write_whole(self.metrics_file, json.dumps(metrics, indent=2, allow_nan=False) + "\n")

    def drop_steps(self) -> None:
        """Remove the checkpoints on the way; whatever else stands there stays."""
        for kept in self.steps.glob("checkpoint-*"):
            shutil.rmtree(kept, ignore_errors=True)
        with suppress(OSError):  # not empty, or not there
            self.steps.rmdir()


@contextmanager
def written_whole(path: Path) -> Iterator[TextIO]:
    """A file to write in, which is there under its name when the block ends well, and not at all if it doesn't."""
    part = path.with_name(path.name + ".part")
    try:
        with part.open("w", encoding="utf-8") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except OSError as error:
        raise UserError(f"{path} can't be written: {error.strerror or error}; choose another place") from None
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)


def write_whole(path: Path, text: str) -> None:
    """Write a file so that it is there whole or not at all."""
    with written_whole(path) as file:
        file.write(text)


def json_line(value: Mapping[str, Any]) -> str:
    """A line of JSON that every reader takes: Python's NaN and Infinity are no JSON, and raise a ValueError.

    >>> json_line({"id": "0", "label": "schön"})
    '{"id": "0", "label": "schön"}\\n'
    """
    return json.dumps(value, ensure_ascii=False, allow_nan=False) + "\n"


def _with_null(entry: Mapping[str, Any]) -> dict[str, Any]:
    """A log may hold a gradient's norm that overflowed, and goes on."""
    is_no_number = {name: isinstance(value, float) and not math.isfinite(value) for name, value in entry.items()}
    return {name: None if is_no_number[name] else value for name, value in entry.items()}


def versions() -> dict[str, str]:
    """The versions that a result depends on."""
    found = {"python": platform.python_version()}
    for name in RECORDED_PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found
