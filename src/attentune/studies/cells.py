"""Runs of recipes as the cells of a study: whatever worker draws one has the recipe with it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from attentune.studies.progress import Begins, shown
from attentune.studies.runs import Outcome, as_values, recipe_key, run_alone
from attentune.studies.work import LABEL, Cell, Standing, standing_of, work
from attentune.training import Recipe, written_whole

if TYPE_CHECKING:
    import optuna
    from optuna.trial import Trial

RECIPE, OUTCOME = "recipe", "outcome"

RunOne = Callable[..., Outcome]
"""How a recipe is run: `run_alone`, or something quicker in a test."""


def recipe_cell(recipe: Recipe, label: str) -> Cell:
    """A run of a recipe, for any worker to do."""
    return Cell(recipe_key(recipe), label, {RECIPE: recipe.model_dump(mode="json")})


def run_cells(
    study: optuna.Study,
    cells: Sequence[Cell],
    output: Path,
    *,
    what: str,
    console: Console | None = None,
    keep_models: bool = False,
    run: RunOne = run_alone,
    so_far: bool = False,
) -> Standing:
    """Do the runs of recipes that aren't done yet; `so_far`, do none, and tell how far they are."""
    if so_far:
        return standing_of(study, cells)
    with shown(console, what) as (watch, begins):
        return work(study, cells, lambda trial: _do(trial, output / "runs", keep_models, begins, run), watch)


def _do(trial: Trial, runs: Path, keep_model: bool, begins: Begins, run: RunOne) -> float:
    recipe = Recipe.build(trial.user_attrs[RECIPE])
    begins(trial.user_attrs[LABEL])
    outcome = run(recipe, runs / f"{trial.number:04d}-{recipe_key(recipe)}", keep_model=keep_model)
    trial.set_user_attr(OUTCOME, as_values(outcome))
    return outcome.score


def outcomes_of(standing: Standing) -> dict[str, Outcome]:
    """What came of the runs that are done, by their keys."""
    return {
        key: Outcome.read(trial.user_attrs[OUTCOME])
        for key, trial in standing.done.items()
        if OUTCOME in trial.user_attrs
    }


def run_values(recipe: Recipe, outcome: Outcome) -> dict[str, Any]:
    """A run for the raw results; its answers are in the study, and in the run's folder."""
    return {
        "recipe": recipe.model_dump(mode="json", exclude_defaults=True)
        | {"method": recipe.method, "model": recipe.model},
        "scores": outcome.scores,
        "deciding": outcome.deciding,
        "train": outcome.train,
    }


def write_json(path: Path, values: Any) -> None:
    """Raw results, for other programs."""
    with written_whole(path) as file:
        file.write(json.dumps(values, indent=1, ensure_ascii=False, allow_nan=False) + "\n")
