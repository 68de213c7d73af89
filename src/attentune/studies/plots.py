"""The pictures of studies, by matplotlib: a sweep's history and importances, an ablation's points and curves."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from attentune.studies.verdicts import SIGNIFICANT, Group

BLUE, ORANGE, GREY = "#2a6f97", "#d1495b", "#8d99ae"


@dataclass(frozen=True)
class Curve:
    """Scores over something that is varied: at each place the mean and the standard deviation over seeds."""

    name: str
    places: Sequence[float | str]
    means: Sequence[float]
    deviations: Sequence[float]


def _figure(width: float = 6.4, height: float = 4.0) -> tuple[Any, Any]:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axis = pyplot.subplots(figsize=(width, height), layout="constrained")
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)
    return figure, axis


def _save(figure: Any, path: Path) -> None:
    from matplotlib import pyplot

    figure.savefig(path, dpi=150)
    pyplot.close(figure)


def draw_history(trials: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Each trial's value in the order of the trials, the best so far, and the trials that were broken off."""
    figure, axis = _figure()
    numbers = np.array([trial["trial"] for trial in trials])
    values = np.array([np.nan if trial["value"] is None else trial["value"] for trial in trials], dtype=float)
    done = ~np.isnan(values)
    axis.plot(
        numbers[done], np.maximum.accumulate(values[done]), color=ORANGE, drawstyle="steps-post", label="best so far"
    )
    axis.scatter(numbers[done], values[done], color=BLUE, s=18, zorder=3, label="trial")
    if not done.all():
        lowest = np.full((~done).sum(), values[done].min())
        axis.scatter(numbers[~done], lowest, color=GREY, marker="x", s=18, label="broken off")
    axis.set_xlabel("trial")
    axis.set_ylabel("mean over the parts − deviations")
    axis.legend(frameon=False)
    _save(figure, path)


def draw_importance(importance: Mapping[str, float], path: Path) -> None:
    """How much of the variance of the trials' values each field explains."""
    figure, axis = _figure(height=1.2 + 0.4 * len(importance))
    names = sorted(importance, key=lambda name: importance[name])
    axis.barh(names, [importance[name] for name in names], color=BLUE)
    axis.set_xlabel("importance")
    _save(figure, path)


def draw_curves(curves: Sequence[Curve], path: Path, *, along: str, metric: str, logarithmic: bool = False) -> None:
    """Each curve with its deviation; words along the axis stand at equal distances, and nothing lies between them."""
    figure, axis = _figure()
    words = any(isinstance(place, str) for curve in curves for place in curve.places)
    order = list(dict.fromkeys(place for curve in curves for place in curve.places))
    for curve, colour in zip(curves, _colours(len(curves)), strict=True):
        places = [order.index(place) for place in curve.places] if words else list(curve.places)
        errors = np.asarray(curve.deviations, dtype=float)
        is_level = len(set(curve.means)) == 1  # such as the unguided model's, which is the same everywhere
        axis.errorbar(
            places, 100 * np.asarray(curve.means), yerr=None if np.isnan(errors).all() else 100 * np.nan_to_num(errors),
            label=curve.name, color=colour, marker="o", markersize=4, capsize=2, linewidth=1.4,
            linestyle="none" if words and not is_level else "solid",
        )  # fmt: skip
    if words:
        axis.set_xticks(range(len(order)), [str(place) for place in order])
    elif logarithmic:
        axis.set_xscale("log")
    axis.set_xlabel(along)
    axis.set_ylabel(f"{metric}, in points")
    axis.legend(frameon=False, fontsize=8)
    _save(figure, path)


def draw_points(
    names: Sequence[str], means: Sequence[float], deviations: Sequence[float], path: Path, *, metric: str
) -> None:
    """A point for each variant with its deviation: bars would have to begin at 0, and differences are small."""
    figure, axis = _figure(height=1.4 + 0.45 * len(names))
    values, errors = 100 * np.asarray(means), 100 * np.nan_to_num(np.asarray(deviations, dtype=float))
    axis.errorbar(values, range(len(names)), xerr=errors, color=BLUE, fmt="o", capsize=3)
    axis.set_yticks(range(len(names)), [_shown(name) for name in names])
    axis.set_ylim(len(names) - 0.5, -0.5)
    axis.grid(axis="x", alpha=0.3)
    axis.set_xlabel(f"{metric}, in points")
    _save(figure, path)


def draw_differences(groups: Sequence[Group], path: Path) -> None:
    """A panel for each task and model: how far each method is from the baseline, its interval, and every seed."""
    figure = differences_figure(groups)
    _save(figure, path)


def differences_figure(groups: Sequence[Group]) -> Any:
    """The picture of `draw_differences`, which matplotlib can go on with."""
    from matplotlib import pyplot

    names = list(dict.fromkeys(side.arm for group in groups for side in group.sides if side.arm != group.baseline))
    pyplot.close(_figure()[0])  # sets matplotlib up
    figure, axes = pyplot.subplots(
        1, len(groups), figsize=(2.2 + 3.0 * len(groups), 1.3 + 0.36 * len(names)), sharey=True, squeeze=False,
        layout="constrained",
    )  # fmt: skip
    for axis, group in zip(axes[0], groups, strict=True):
        _draw_group(axis, group, names)
    axes[0, 0].set_yticks(range(len(names)), [_shown(name, 40) for name in names], fontsize=9)
    axes[0, 0].set_ylim(len(names) - 0.5, -0.5)
    legend = f"mean, 95% interval, each seed; red: p < {SIGNIFICANT:g} by Holm's correction"
    figure.supxlabel(legend, fontsize=8, x=0.99, ha="right")
    return figure


def _draw_group(axis: Any, group: Group, names: Sequence[str]) -> None:
    scores = {side.arm: side.scores for side in group.sides}
    plain = scores[group.baseline]
    axis.axvline(0, color="black", linewidth=0.8)
    for row, name in enumerate(names):
        if (verdict := group.verdicts.get(name)) is None:
            continue
        found, colour = verdict.tests, ORANGE if verdict.is_significant else BLUE
        own = [100 * (score - plain[seed]) for seed, score in scores[name].items() if seed in plain]
        axis.scatter(own, [row] * len(own), color=GREY, s=9, alpha=0.7)
        if np.isfinite(found.interval.low):
            axis.plot([100 * found.interval.low, 100 * found.interval.high], [row, row], color=colour, linewidth=1.6)
        axis.scatter([100 * found.difference], [row], color=colour, s=26, zorder=3)
    for side in ("top", "right", "left"):
        axis.spines[side].set_visible(False)
    axis.tick_params(axis="y", length=0)
    axis.grid(axis="x", alpha=0.3)
    axis.set_title(f"{group.task}, {_shown(group.model, 24)}", fontsize=10)
    axis.set_xlabel(f"{group.metric} − that of {_shown(group.baseline, 24)}, points", fontsize=9)


def _colours(count: int) -> list[Any]:
    from matplotlib import colormaps

    return [GREY, BLUE, ORANGE][:count] if count <= 3 else [colormaps["viridis"](i / (count - 1)) for i in range(count)]


def _shown(name: str, letters: int = 48) -> str:
    """A name as it may stand in a picture: matplotlib would take dollar signs for mathematics."""
    name = name.replace("$", r"\$")
    return name if len(name) <= letters else name[: letters - 1] + "…"
