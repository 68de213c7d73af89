"""Pictures of runs: how the task's loss and the guides' terms went, and what settings are worth (value and interval)."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.ticker import MaxNLocator

from attentune.analysis.curves import curves_of
from attentune.analysis.estimates import Estimate
from attentune.analysis.figures.drawing import COLOURS, MARKERS, Drawing, styled
from attentune.errors import UserError

MOST_IN_A_ROW = 3


def draw_training_curves(logs: Mapping[str, Sequence[Mapping[str, Any]]]) -> Drawing:
    """One panel for the task's loss and one for each guide's term, before its weight; one line a run.

    `logs` are the entries of `log.jsonl` by the name of the run.
    """
    curves = {run: curves_of(log) for run, log in logs.items()}
    terms = list(dict.fromkeys(term for found in curves.values() for term in found))
    if not terms:
        raise UserError("these logs hold no loss: a run's log.jsonl has one entry with a loss every few steps")
    columns = min(len(terms), MOST_IN_A_ROW)
    rows = -(-len(terms) // columns)
    with styled(2.7 * columns + 0.4, 2.1 * rows + 0.4, rows, columns) as (figure, axes):
        for axis in axes.flat[len(terms) :]:
            axis.set_visible(False)
        for axis, term in zip(axes.flat, terms, strict=False):
            for i, (run, found) in enumerate(curves.items()):
                if term in found:
                    steps, values = found[term]
                    axis.plot(
                        steps, values, color=COLOURS[i % len(COLOURS)], marker=MARKERS[i % len(MARKERS)], markersize=3,
                        markevery=max(1, len(steps) // 8), label=run,
                    )  # fmt: skip
            axis.set_title(term)
            axis.xaxis.set_major_locator(MaxNLocator(4, integer=True))
            axis.set_xlabel("step")
        axes[0][0].legend()
    return Drawing(figure, f"Training curves of {', '.join(logs)}: {', '.join(terms)}")


def draw_ablation(settings: Mapping[str, Estimate], metric: str, *, reference: str | None = None) -> Drawing:
    """One row a setting: its value and 95 % interval; with `reference`, a line where that setting's value is."""
    if reference is not None and reference not in settings:
        raise UserError(
            f"there is no setting {reference!r} to compare with; there are {', '.join(map(repr, settings))}"
        )
    with styled(4.6, 0.28 * len(settings) + 0.9) as (figure, axes):
        axis = axes[0][0]
        if reference is not None:
            axis.axvline(settings[reference].value, color="0.7", linewidth=0.9, linestyle="--", zorder=0)
        for row, (name, estimate) in enumerate(settings.items()):
            colour = COLOURS[0] if name != reference else "0.35"
            if estimate.low is not None and estimate.high is not None:
                axis.plot([estimate.low, estimate.high], [row, row], color=colour, linewidth=1.6, solid_capstyle="butt")
            axis.plot([estimate.value], [row], color=colour, marker="o" if name != reference else "D", markersize=5)
        axis.set_yticks(range(len(settings)), [name.replace("$", r"\$") for name in settings])
        axis.set_ylim(len(settings) - 0.4, -0.6)
        axis.set_xlabel(f"{metric} (95 % interval)")
        axis.grid(axis="x", color="0.9", linewidth=0.6)
        axis.set_axisbelow(True)
        axis.tick_params(axis="y", length=0)
    return Drawing(figure, f"{metric} of {', '.join(settings)}")
