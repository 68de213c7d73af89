"""A search over any fields of a recipe, judged on held-out training rows: high mean over several parts of them, low variance.

As in the SSA paper (section 4.1), the rows to judge by are cut into equal parts, and a trial's value is the mean of the parts'
scores less so many of their standard deviations. A trial whose score after an epoch is below the median of the others'
at that epoch is broken off.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console

from attentune.errors import UserError
from attentune.studies.cells import OUTCOME, RunOne
from attentune.studies.progress import Begins, shown
from attentune.studies.runs import Outcome, as_values, digest, recipe_key, run_alone
from attentune.studies.scoring import part_scores
from attentune.studies.search import HELD_OUT, judged_on_held_out, shown_point
from attentune.studies.space import Dimension, grid, is_grid, with_fields
from attentune.studies.storage import open_study
from attentune.studies.work import LABEL, Cell, Standing, work
from attentune.training import Recipe

if TYPE_CHECKING:
    import optuna
    from optuna.storages import RDBStorage
    from optuna.trial import FrozenTrial, Trial

PARTS = "parts"
TRIALS_BEFORE_PRUNING = 4


@dataclass(frozen=True)
class Sweep:
    """What is to be searched, and how trials are judged."""

    recipe: Recipe
    space: tuple[Dimension, ...]
    trials: int | None = None
    """None for the whole grid, where the space is nothing but lists."""
    folds: int = 3
    """Into so many parts the held-out rows are cut."""
    spread: float = 1.0
    """So many standard deviations over the parts are taken off the mean."""
    held_out: float = HELD_OUT
    prune: bool = True
    seed: int | None = None
    """Of the sampler; with one worker, the same trials again."""

    def cells(self) -> list[Cell]:
        """The trials: those of a grid are told what to take, the others ask the sampler."""
        if self.trials is None and not is_grid(self.space):
            raise UserError("a space with ranges has no end: say how many --trials there shall be")
        points = grid(self.space) if self.trials is None else []
        if points:
            return [Cell(f"point-{recipe_key(self.of(point))}", shown_point(point), params=point) for point in points]
        return [Cell(f"trial-{i}", f"trial {i + 1}") for i in range(self.trials or 0)]

    def of(self, point: dict[str, Any]) -> Recipe:
        """The recipe at a point of the space."""
        return with_fields(self.recipe, point)

    def value(self, scores: Sequence[float]) -> float:
        """What a trial is worth.

        >>> recipe = Recipe.build({"data": {"task": "rte"}})
        >>> Sweep(recipe, ()).value([0.8, 0.9])
        0.8
        """
        return round(float(np.mean(scores)) - self.spread * float(np.std(scores)), 6)


@dataclass(frozen=True)
class Swept:
    """What came of a sweep."""

    best: Recipe
    """With its own evaluation split again, ready to be trained and reported."""
    best_point: dict[str, Any]
    best_value: float
    trials: list[dict[str, Any]]
    """Each finished trial: its fields, its parts' scores, its value; broken off ones have none."""
    importance: dict[str, float]
    failed: dict[str, str]


def sweep(
    asked: Sweep,
    storage: RDBStorage,
    output: Path,
    *,
    name: str = "sweep",
    console: Console | None = None,
    run: RunOne = run_alone,
) -> Swept:
    """Do the trials that aren't done yet, with whoever else works at them, and choose."""
    import optuna

    for dimension in asked.space:  # what doesn't fit the recipe is told before anything is run
        asked.of({dimension.path: dimension.at(0.5)})
    base = judged_on_held_out(asked.recipe, asked.held_out)
    deciding = base.data.load(base.training.seed).deciding if asked.prune else ""
    pruner = optuna.pruners.MedianPruner(n_startup_trials=TRIALS_BEFORE_PRUNING) if asked.prune else None
    study = open_study(storage, study_name(asked, name), sampler=_sampler(asked), pruner=pruner)
    cells = asked.cells()
    with shown(console, "sweep") as (watch, begins):
        standing = work(
            study, cells, lambda trial: _do(trial, asked, base, deciding, output / "runs", begins, run), watch
        )
    return _chosen(asked, study, standing)


def study_name(asked: Sweep, name: str) -> str:
    """Another recipe, space or judgement is another study; more trials are not."""
    space = Recipe.model_dump_json(asked.recipe) + " ".join(map(str, asked.space))
    return f"{name}/sweep/{digest(f'{space} {asked.folds} {asked.spread} {asked.held_out}')}"


def _sampler(asked: Sweep) -> Any:
    """TPE, which learns from the trials so far, those of other workers included."""
    import optuna

    return optuna.samplers.TPESampler(seed=asked.seed, multivariate=len(asked.space) > 1, constant_liar=True)


def _do(trial: Trial, asked: Sweep, base: Recipe, deciding: str, runs: Path, begins: Begins, run: RunOne) -> float:
    import optuna

    point = {dimension.path: dimension.suggested(trial) for dimension in asked.space}
    recipe = with_fields(base, point)
    begins(shown_point(point))
    trial.set_user_attr(LABEL, shown_point(point))

    def told(line: dict[str, Any]) -> None:
        score = line.get("scores", {}).get(deciding)
        if score is None or not asked.prune:
            return
        trial.report(score, line["epoch"])
        if trial.should_prune():
            raise optuna.TrialPruned

    folder = runs / f"{trial.number:04d}-{recipe_key(recipe)}"
    outcome: Outcome = run(recipe, folder, told=told, each_epoch=asked.prune)
    scores = part_scores(outcome.answers, outcome.deciding, asked.folds) or [outcome.score]
    trial.set_user_attr(OUTCOME, as_values(outcome))
    trial.set_user_attr(PARTS, scores)
    return asked.value(scores)


def _chosen(asked: Sweep, study: optuna.Study, standing: Standing) -> Swept:
    finished = sorted(standing.done.values(), key=lambda trial: trial.number)
    complete = [trial for trial in finished if trial.value is not None and PARTS in trial.user_attrs]
    if not complete:
        reason = next(iter(standing.failed.values()), "all were broken off")
        raise UserError(f"no trial of the sweep came to its end: {reason}")
    best = max(complete, key=lambda trial: (trial.value or -math.inf, -trial.number))
    return Swept(
        asked.of(best.params),
        dict(best.params),
        float(best.value or 0.0),
        [_values(trial) for trial in finished],
        _importance(study, asked, complete),
        dict(standing.failed),
    )


def _values(trial: FrozenTrial) -> dict[str, Any]:
    parts = trial.user_attrs.get(PARTS)
    return {
        "trial": trial.number,
        "fields": dict(trial.params),
        "value": trial.value if parts else None,
        "mean": float(np.mean(parts)) if parts else None,
        "deviation": float(np.std(parts)) if parts else None,
        "parts": parts,
        "epochs": dict(trial.intermediate_values),
    }


def _importance(study: optuna.Study, asked: Sweep, complete: Sequence[FrozenTrial]) -> dict[str, float]:
    """How much of the variance of the trials' values each field explains; none with a single field or few trials."""
    import optuna

    if len(asked.space) < 2 or len({trial.value for trial in complete}) < TRIALS_BEFORE_PRUNING:
        return {}
    paths = [dimension.path for dimension in asked.space]
    found = optuna.importance.get_param_importances(
        study, params=paths, evaluator=optuna.importance.PedAnovaImportanceEvaluator()
    )
    return {path: round(share, 4) for path, share in found.items()}
