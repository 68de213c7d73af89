"""Ablations done: each is a comparison whose sides are variants of one method, and each has its picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from attentune.studies.ablations import NONE, Ablation
from attentune.studies.cells import RunOne, outcomes_of, recipe_cell, run_cells, run_values
from attentune.studies.plots import Curve, draw_curves, draw_points
from attentune.studies.runs import recipe_key, run_alone
from attentune.studies.space import with_fields
from attentune.studies.storage import open_study
from attentune.studies.verdicts import Group, compare_sides

if TYPE_CHECKING:
    from optuna.storages import RDBStorage


@dataclass(frozen=True)
class Ablated:
    """What came of one ablation."""

    ablation: Ablation
    group: Group
    runs: list[dict[str, Any]]


def ablate(
    ablations: Sequence[Ablation],
    seeds: Sequence[int],
    storage: RDBStorage,
    output: Path,
    *,
    name: str = "ablate",
    console: Console | None = None,
    run: RunOne = run_alone,
) -> tuple[list[Ablated], dict[str, str]]:
    """Do the runs that aren't done yet, once each however many ablations they are in, and compare; and why runs failed."""
    seeded = {
        (ablation.name, variant.name, seed): with_fields(variant.recipe, {"training.seed": seed})
        for seed in seeds
        for ablation in ablations
        for variant in ablation.variants
    }
    cells = {recipe_key(recipe): recipe_cell(recipe, f"{key[1]}, seed {key[2]}") for key, recipe in seeded.items()}
    standing = run_cells(
        open_study(storage, name), list(cells.values()), output, what="ablate", console=console, run=run
    )
    outcomes = outcomes_of(standing)
    found = []
    for ablation in ablations:
        by_variant = {}
        for variant in ablation.variants:
            keys = {seed: recipe_key(seeded[ablation.name, variant.name, seed]) for seed in seeds}
            by_variant[variant.name] = {seed: outcomes[key] for seed, key in keys.items() if key in outcomes}
        example = ablation.variants[0].recipe
        group = compare_sides(example.data.name, example.model, ablation.baseline, by_variant)
        own = {recipe_key(recipe): recipe for key, recipe in seeded.items() if key[0] == ablation.name}
        found.append(
            Ablated(
                ablation, group, [run_values(recipe, outcomes[key]) for key, recipe in own.items() if key in outcomes]
            )
        )
    return found, {cells[key].label: problem for key, problem in standing.failed.items()}


def draw_ablations(found: Sequence[Ablated], folder: Path) -> list[Path]:
    """The picture of each ablation, the shares of the training rows together in one."""
    drawn = []
    sized = [one for one in found if one.ablation.name.startswith("train-size")]
    if sized:
        drawn.append(folder / "train-size.png")
        draw_curves(_over_sizes(sized), drawn[-1], along=sized[0].ablation.along, metric=sized[0].group.metric)
    for one in found:
        if one in sized:
            continue
        drawn.append(folder / f"{one.ablation.name}.png")
        sides = [side for side in one.group.sides if side.scores]
        if not one.ablation.curves:
            names, means = [side.arm for side in sides], [side.mean for side in sides]
            draw_points(names, means, [side.deviation for side in sides], drawn[-1], metric=one.group.metric)
            continue
        draw_curves(_along(one), drawn[-1], along=one.ablation.along, metric=one.group.metric)
    return drawn


def _along(one: Ablated) -> list[Curve]:
    """The method along what is varied, and the unguided model as a level beside it."""
    places = {variant.name: variant.place for variant in one.ablation.variants}
    sides = [side for side in one.group.sides if side.scores]
    method = [side for side in sides if side.arm != NONE]
    if not method:
        return []
    own = Curve(
        one.ablation.along, [places[s.arm] for s in method], [s.mean for s in method], [s.deviation for s in method]
    )
    level = next((side for side in sides if side.arm == NONE), None)
    if level is None:
        return [own]
    return [Curve(NONE, own.places, [level.mean] * len(method), [level.deviation] * len(method)), own]


def _over_sizes(sized: Sequence[Ablated]) -> list[Curve]:
    """The unguided model and the method, each over the shares of the training rows."""
    curves = []
    for name in dict.fromkeys(side.arm for one in sized for side in one.group.sides):
        found = [
            (one.ablation.variants[0].place, side) for one in sized for side in one.group.sides if side.arm == name
        ]
        kept = [(place, side) for place, side in found if side.scores]
        curves.append(Curve(name, [p for p, _ in kept], [s.mean for _, s in kept], [s.deviation for _, s in kept]))
    return curves
