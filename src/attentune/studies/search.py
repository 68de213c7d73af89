"""The search that every side of a comparison gets: so many draws of the same kind, judged on a part of the training rows.

The draws are random, spread evenly over each range, and the same whoever draws them: all sides try the same learning
rates. The first trial of each is the recipe as it was given.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from attentune.studies.cells import RunOne, outcomes_of, recipe_cell, run_cells
from attentune.studies.runs import recipe_key, run_alone
from attentune.studies.space import Dimension, draws, with_fields
from attentune.studies.storage import open_study
from attentune.training import Recipe

if TYPE_CHECKING:
    from optuna.storages import RDBStorage

HELD_OUT = 0.2
"""The share of the training rows that a search is judged on."""
SEARCH_SEED = 0


@dataclass(frozen=True)
class Start:
    """Where the search for one side of a comparison begins, in one place."""

    recipe: Recipe
    space: Sequence[Dimension]
    name: str


@dataclass(frozen=True)
class Found:
    """What a search chose."""

    chosen: dict[str, Any]
    """Fields and their values; none where the recipe as given was best."""
    score: float | None
    """On the held-out training rows; None where every trial failed."""
    tried: list[dict[str, Any]]
    """Each trial's fields and score."""


def judged_on_held_out(recipe: Recipe, share: float = HELD_OUT) -> Recipe:
    """The recipe, judged on a part of its training rows."""
    values = recipe.model_dump(mode="json")
    return Recipe.build(values | {"data": values["data"] | {"held_out": share}})


def search(
    sides: Sequence[Start],
    budget: int,
    storage: RDBStorage,
    output: Path,
    *,
    name: str,
    console: Console | None = None,
    run: RunOne = run_alone,
    so_far: bool = False,
) -> list[Found]:
    """The best of `budget` trials, for each side. All sides' trials are one queue, so that no worker waits for another's."""
    points = [[{}, *draws(side.space, budget - 1, SEARCH_SEED)] for side in sides]
    recipes = [
        [with_fields(judged_on_held_out(side.recipe), point) for point in own]
        for side, own in zip(sides, points, strict=True)
    ]
    labels = [[f"{side.name}: {shown_point(point)}" for point in own] for side, own in zip(sides, points, strict=True)]
    cells = {  # a draw may be there twice
        cell.key: cell for own in zip(recipes, labels, strict=True) for cell in map(recipe_cell, *own)
    }
    study = open_study(storage, f"{name}/search")
    standing = run_cells(
        study, list(cells.values()), output / "search", what="search", console=console, run=run, so_far=so_far
    )
    scores = {key: outcome.score for key, outcome in outcomes_of(standing).items()}
    return [
        _best(own, [scores.get(recipe_key(tried)) for tried in tries])
        for own, tries in zip(points, recipes, strict=True)
    ]


def _best(points: Sequence[dict[str, Any]], scores: Sequence[float | None]) -> Found:
    """The first of those with the highest score.

    >>> _best([{}, {"training.lr": 1e-4}, {"training.lr": 2e-4}], [None, 0.5, 0.5]).chosen
    {'training.lr': 0.0001}
    """
    tried = [{"fields": point, "score": score} for point, score in zip(points, scores, strict=True)]
    score, _, chosen = max(
        ((score, -i, points[i]) for i, score in enumerate(scores) if score is not None),
        key=lambda one: one[:2],
        default=(None, 0, {}),
    )
    return Found(chosen, score, tried)


def shown_point(point: dict[str, Any]) -> str:
    """A point of a space in a few words.

    >>> shown_point({"training.lr": 2.5e-05, "method.mdg.weight": 0.1})
    'lr 2.5e-05, mdg.weight 0.1'
    """
    named = {path.removeprefix("training.").removeprefix("method."): value for path, value in point.items()}
    values = {path: f"{value:g}" if isinstance(value, float) else value for path, value in named.items()}
    return ", ".join(f"{path} {value}" for path, value in values.items()) or "as given"
