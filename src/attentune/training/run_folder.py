"""The folder that a run leaves: the recipe as run, versions, metrics, predictions, the log and the checkpoint.

A folder belongs to one run. Nothing in it is ever overwritten, and each file is there whole or not at all.
"""

import json
import os
import platform
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from attentune.errors import UserError
from attentune.training.recipe import Recipe

RECORDED_PACKAGES = ("attentune", "torch", "transformers", "datasets", "tokenizers", "accelerate", "numpy")


@dataclass(frozen=True)
class RunFolder:
    """The files of one run, by name."""

    path: Path

    @classmethod
    def check_free(cls, path: str | Path) -> Path:
        """A folder that holds anything already is refused, whatever it is."""
        folder = Path(path)
        if folder.is_dir() and any(folder.iterdir()):
            holds = "a run" if (folder / "recipe.yaml").exists() else "files"
            raise UserError(f"the output folder {folder} already holds {holds}; choose another with --output")
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
            raise UserError(f"{path} is not the folder of a run: there is no recipe.yaml in it")
        if not (folder.checkpoint / "config.json").is_file():
            raise UserError(f"the run in {path} has not finished: there is no checkpoint in it")
        return folder

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

    def recipe(self) -> Recipe:
        """The recipe as run."""
        return Recipe.from_yaml(self.recipe_file)

    def metrics(self) -> dict[str, Any]:
        """What came out."""
        result: dict[str, Any] = json.loads(self.metrics_file.read_text(encoding="utf-8"))
        return result

    def write_start(self, recipe: Recipe) -> None:
        """What is known before training: the recipe, and with which versions it is run."""
        write_whole(self.recipe_file, recipe.to_yaml())
        write_whole(self.path / "versions.json", json.dumps(versions(), indent=2) + "\n")

    def write_log(self, log: Iterable[dict[str, Any]]) -> None:
        """The training log, one line for each entry."""
        write_whole(self.path / "log.jsonl", "".join(json.dumps(entry) + "\n" for entry in log))

    def write_predictions(self, rows: Iterable[dict[str, Any]]) -> None:
        """The predictions on the evaluation split, one line for each example."""
        lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        write_whole(self.path / "predictions.jsonl", "".join(lines))

    def write_metrics(self, metrics: dict[str, Any]) -> None:
        """What came out; the last file to be written: where it is, the run is whole."""
        if self.steps.is_dir() and not any(self.steps.iterdir()):
            self.steps.rmdir()  # transformers makes it even where no checkpoint is to be kept
        write_whole(self.metrics_file, json.dumps(metrics, indent=2) + "\n")


def write_whole(path: Path, text: str) -> None:
    """Write a file so that it is there whole or not at all."""
    part = path.with_name(path.name + ".part")
    try:
        with part.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise UserError(f"{path} can't be written: {error.strerror}") from None


def versions() -> dict[str, str]:
    """The versions that a result depends on."""
    found = {"python": platform.python_version()}
    for name in RECORDED_PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found
