"""A finished run judged on any task that its model fits: another data set, another split, or rows of one's own.

The model's classes are matched with the task's by name (`tasks.match`), so that a three-way model answers for a two-way
task such as HANS. What comes out is a folder, there whole or not at all: metrics, predictions, and rankings.
"""

import json
import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attentune import tasks
from attentune.errors import UserError
from attentune.tasks import Judged, Task, judge, match
from attentune.training.evaluation import details_of, scores_of
from attentune.training.prediction import Predictor
from attentune.training.recipe import Recipe
from attentune.training.run_folder import RunFolder, write_whole


def judge_run(
    run: RunFolder, task: Task, splits: tuple[str, ...], predictor: Predictor, batch_size: int = 64
) -> dict[str, Judged]:
    """What the run's model is worth on these splits of a task."""
    return judge_by(predictor, task, splits, match_run(run, task, predictor), batch_size)


def judge_by(
    predictor: Predictor, task: Task, splits: tuple[str, ...], ids: list[int], batch_size: int = 64
) -> dict[str, Judged]:
    """What a model is worth on these splits; `ids` are the task's class ids for its outputs, as `matched` gives them."""
    judged = {}
    for split in splits:
        answers = predictor.answers(texts_of(task, split), batch_size)
        judged[split] = judge(task, task.splits[split], answers, predictor.labels, ids)
    return judged


def match_run(run: RunFolder, task: Task, predictor: Predictor) -> list[int]:
    """The task's class id for each output of the run's model; an error where the one doesn't fit the other."""
    return matched(predictor.labels, run.metrics()["inputs"]["text_pair"] is not None, task, str(run.path))


def matched(labels: Sequence[str], takes_pairs: bool, task: Task, run: str) -> list[int]:
    """The task's class id for each of a model's outputs; an error where the model doesn't fit the task."""
    if takes_pairs != (task.text_pair is not None):
        takes, gives = ("pairs of texts", "single ones") if takes_pairs else ("single texts", "pairs")
        raise UserError(f"the model of {run} takes {takes}, and {task.name} gives {gives}; give a run that fits")
    gives_numbers = len(labels) == 1
    if gives_numbers != (task.kind == "regression"):
        gives, wants = ("a number", "classes") if gives_numbers else ("classes", "a number")
        raise UserError(f"the model of {run} gives {gives}, and {task.name} wants {wants}; give a run that fits")
    return [0] if gives_numbers else match(labels, task.labels, run, task.name)


def texts_of(task: Task, split: str) -> Iterator[tuple[str, str | None]]:
    """The text, or the two texts, of each row of a split."""
    for row in task.splits[split]:
        yield row[task.text], None if task.text_pair is None else row[task.text_pair]


def evaluation_metrics(run: RunFolder, task: Task, judged: dict[str, Judged]) -> dict[str, Any]:
    """What came out, as it is kept and printed."""
    trained = run.metrics()
    return {
        "task": task.name,
        "run": str(run.path),
        "trained_on": trained["task"],
        "method": trained["method"],
        "seed": trained["seed"],
        "eval": scores_of(judged),
        "rows": {split: len(task.splits[split]) for split in judged},
        "deciding": task.deciding,
        "kind": task.kind,
        "details": details_of(judged),
        "source": task.source,
    }


def write_evaluation(folder: Path, metrics: dict[str, Any], judged: dict[str, Judged]) -> None:
    """Leave metrics, predictions and rankings in a new folder, whole or not at all."""
    part = folder.with_name(f"{folder.name}.part-{os.getpid()}")
    try:
        part.mkdir(parents=True)
        RunFolder(part).write_judged(judged, tag=str(metrics["method"]))
        write_whole(part / "metrics.json", json.dumps(metrics, indent=2, allow_nan=False) + "\n")
        part.rename(folder)
    except OSError as error:
        raise UserError(f"{folder} can't be written: {error.strerror or error}; choose another place") from None
    finally:
        shutil.rmtree(part, ignore_errors=True)


@dataclass(frozen=True)
class Other:
    """Another task that a run is judged on when it has been trained."""

    task: Task
    ids: list[int]

    @classmethod
    def load(cls, recipe: Recipe, trained: Task) -> "list[Other]":
        """Those that the recipe names, so that one which doesn't fit is told before training."""
        found = []
        for name in recipe.data.also:
            task = tasks.load(name, recipe.data.data_dir).sample(
                max_eval=recipe.data.max_eval, seed=recipe.training.seed
            )
            if not task.judged:
                raise UserError(f"{task.name} has no rows with labels to judge by ({task.source}); leave --also out")
            takes_pairs = trained.text_pair is not None
            found.append(cls(task, matched(trained.labels, takes_pairs, task, f"a run on {trained.name}")))
        return found

    def judge(self, predictor: Predictor, folder: RunFolder, tag: str) -> dict[str, float]:
        """Its scores; predictions and rankings go to the run's evaluations."""
        judged = judge_by(predictor, self.task, self.task.judged, self.ids)
        metrics = {"task": self.task.name, "eval": scores_of(judged), "details": details_of(judged)}
        place = folder.path / "evaluations" / self.task.name
        shutil.rmtree(place, ignore_errors=True)  # of the same run, stopped before its end
        write_evaluation(place, metrics | {"method": tag}, judged)
        return scores_of(judged)
