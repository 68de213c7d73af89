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

from attentune.errors import UserError
from attentune.studies.cells import RunOne, outcomes_of, recipe_cell, run_cells
from attentune.studies.runs import recipe_key
from attentune.studies.space import Dimension, draws, with_fields
from attentune.studies.storage import open_study
from attentune.training import Recipe

if TYPE_CHECKING:
    from optuna.storages import RDBStorage

HELD_OUT = 0.2
"""The share of the training rows that a search is judged on."""
SEARCH_SEED = 0


@dataclass(frozen=True)
class Found:
    """What a search chose."""

    chosen: dict[str, Any]
    """Fields and their values; none where the recipe as given was best."""
    score: float
    """On the held-out training rows."""
    tried: list[dict[str, Any]]
    """Each trial's fields and score."""


def judged_on_held_out(recipe: Recipe, share: float = HELD_OUT) -> Recipe:
    """The recipe, judged on a part of its training rows."""
    values = recipe.model_dump(mode="json")
    return Recipe.build(values | {"data": values["data"] | {"held_out": share}})


def search(
    recipe: Recipe,
    space: Sequence[Dimension],
    budget: int,
    storage: RDBStorage,
    output: Path,
    *,
    name: str,
    what: str,
    console: Console | None,
    run: RunOne,
) -> Found:
    """The best of `budget` trials."""
    base = judged_on_held_out(recipe)
    points: list[dict[str, Any]] = [{}, *draws(space, budget - 1, SEARCH_SEED)]
    recipes = [with_fields(base, point) for point in points]
    keys = [recipe_key(tried) for tried in recipes]
    labels = [f"{what}: {shown_point(point)}" for point in points]
    cells = {cell.key: cell for cell in map(recipe_cell, recipes, labels)}  # a draw may be there twice
    study = open_study(storage, f"{name}/search/{keys[0]}")
    standing = run_cells(
        study, list(cells.values()), output / "search" / keys[0], what="search", console=console, run=run
    )
    outcomes = outcomes_of(standing)
    if not outcomes:
        raise UserError(
            f"no trial of the search for {what} succeeded: {next(iter(standing.failed.values()), 'none ran')}"
        )
    scores = [outcomes[key].score if key in outcomes else None for key in keys]
    best = max((i for i, score in enumerate(scores) if score is not None), key=lambda i: (scores[i], -i))
    tried = [{"fields": point, "score": score} for point, score in zip(points, scores, strict=True)]
    return Found(points[best], outcomes[keys[best]].score, tried)


def shown_point(point: dict[str, Any]) -> str:
    """A point of a space in a few words.

    >>> shown_point({"training.lr": 2.5e-05, "method.mdg.weight": 0.1})
    'lr 2.5e-05, mdg.weight 0.1'
    """
    named = {path.removeprefix("training.").removeprefix("method."): value for path, value in point.items()}
    values = {path: f"{value:g}" if isinstance(value, float) else value for path, value in named.items()}
    return ", ".join(f"{path} {value}" for path, value in values.items()) or "as given"
