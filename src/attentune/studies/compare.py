"""Methods compared on equal footing: every side has the same seeds, and with them the same rows, order and new head, the
same settings, and, where weights and learning rates are searched for, the same number of trials.

What is searched is chosen on a part of the training rows; the split that the table reports is looked at by no choice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from attentune.errors import UserError
from attentune.methods import parse
from attentune.studies.arms import Arm, baseline_of
from attentune.studies.cells import RunOne, outcomes_of, recipe_cell, run_cells, run_values
from attentune.studies.runs import Outcome, recipe_key, run_alone
from attentune.studies.search import SEARCH_SEED, Found, Start, search
from attentune.studies.space import Dimension, either_space, usual_space, with_fields
from attentune.studies.storage import open_study
from attentune.studies.verdicts import Group, compare_sides
from attentune.training import Recipe

if TYPE_CHECKING:
    from optuna.storages import RDBStorage


@dataclass(frozen=True)
class Comparison:
    """What is to be compared: `base` says everything but method, model, task and seed."""

    base: Mapping[str, Any]
    arms: tuple[Arm, ...]
    seeds: tuple[int, ...]
    models: tuple[str, ...] = ("minilm",)
    tasks: tuple[str | None, ...] = (None,)
    """None for the user's own files, which `base` names."""
    budget: int = 0
    """So many search trials for each side, on each task with each model; 0 takes the methods as they are."""
    space: tuple[str, ...] | None = None
    """What is searched; None for the learning rate and what the methods' papers searched."""

    def recipe(self, model: str, task: str | None, arm: Arm, seed: int) -> Recipe:
        """The recipe of one run, before any search."""
        values = {**self.base, "model": model, "data": dict(self.base.get("data", {}))}
        if task is not None:
            values["data"]["task"] = task
        values["training"] = {**self.base.get("training", {}), "seed": seed}
        return arm.of(Recipe.build(values))

    def places(self) -> list[tuple[str, str | None]]:
        """The models and tasks that are compared on."""
        return [(model, task) for task in self.tasks for model in self.models]

    def space_of(self, arm: Arm) -> list[Dimension]:
        """What is searched for one side: the fields that it has."""
        if arm.others:
            return either_space((arm.method, *arm.others))
        if self.space is None:
            return usual_space(arm.method)
        own = [Dimension.parse(text) for text in self.space]
        fits = [one for one in own if not one.path.startswith("method.") or _has(arm.method, one.path)]
        if not fits:
            raise UserError(
                f"no part of --space is for {arm}; add a field that all have, such as training.lr=log(1e-5,1e-4)"
            )
        return fits


@dataclass(frozen=True)
class Compared:
    """All that came of a comparison."""

    groups: list[Group]
    runs: list[dict[str, Any]]
    """Recipe, scores and cost of each run."""
    chosen: list[dict[str, Any]]
    """What the searches chose, and by which score."""
    failed: dict[str, str] = field(default_factory=dict)
    """Why runs failed, by their labels."""
    missing: int = 0
    """How many runs of the tables are still to be done."""


def compare(
    comparison: Comparison,
    storage: RDBStorage,
    output: Path,
    *,
    name: str = "compare",
    console: Console | None = None,
    keep_models: bool = False,
    run: RunOne = run_alone,
    so_far: bool = False,
) -> Compared:
    """Do all runs that aren't done yet, with whoever else works at them, and compare; `so_far`, compare what is done."""
    if not comparison.budget and (either := next((arm for arm in comparison.arms if arm.others), None)):
        raise UserError(f"which of {either} it shall be is for a search to say: give --budget")
    # Seeds go outermost: a study that is broken off has whole seeds of everything.
    places = [(model, task, arm) for model, task in comparison.places() for arm in comparison.arms]
    recipes = {(*place, seed): comparison.recipe(*place, seed) for seed in comparison.seeds for place in places}
    found: dict[tuple[str, str | None, Arm], Found] = {}
    if comparison.budget:
        sides = [
            Start(comparison.recipe(*place, SEARCH_SEED), comparison.space_of(place[-1]), _searched(*place, comparison))
            for place in places
        ]
        best = search(sides, comparison.budget, storage, output, name=name, console=console, run=run, so_far=so_far)
        found = dict(zip(places, best, strict=True))
        recipes = {place: with_fields(recipe, found[place[:3]].chosen) for place, recipe in recipes.items()}
    cells = [
        recipe_cell(recipe, _label(arm, seed, task, model, comparison))
        for (model, task, arm, seed), recipe in recipes.items()
    ]
    standing = run_cells(
        open_study(storage, name),
        cells,
        output,
        what="compare",
        console=console,
        keep_models=keep_models,
        run=run,
        so_far=so_far,
    )
    outcomes = outcomes_of(standing)
    groups = []
    for model, task in comparison.places():
        by_arm: dict[str, dict[int, Outcome]] = {}
        for arm in comparison.arms:
            keys = {seed: recipe_key(recipes[model, task, arm, seed]) for seed in comparison.seeds}
            by_arm[str(arm)] = {seed: outcomes[key] for seed, key in keys.items() if key in outcomes}
        if so_far and not any(by_arm.values()):
            continue
        example = recipes[model, task, comparison.arms[0], comparison.seeds[0]]
        groups.append(compare_sides(example.data.name, model, str(baseline_of(comparison.arms)), by_arm))
    labels = {cell.key: cell.label for cell in cells}
    return Compared(
        groups,
        [
            run_values(recipe, outcomes[recipe_key(recipe)])
            for recipe in recipes.values()
            if recipe_key(recipe) in outcomes
        ],
        [asdict(one) | {"model": model, "task": task, "method": str(arm)} for (model, task, arm), one in found.items()],
        {labels[key]: problem for key, problem in standing.failed.items()},
        len(cells) - len(standing.done) - len(standing.failed),
    )


def _has(method: str, path: str) -> bool:
    """Whether a method has the part that a path of the space names."""
    return path.split(".")[1] in parse(method).names


def _searched(model: str, task: str | None, arm: Arm, comparison: Comparison) -> str:
    return f"{arm} on {task or 'your data'}" + f" with {model}" * (len(comparison.models) > 1)


def _label(arm: Arm, seed: int, task: str | None, model: str, comparison: Comparison) -> str:
    more = [task] * (len(comparison.tasks) > 1) + [model] * (len(comparison.models) > 1)
    return ", ".join([str(arm), f"seed {seed}", *(part for part in more if part)])
