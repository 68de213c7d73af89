"""Pictures of heads: where they lie by what they give to tokens (Figure 5 of the attention-guiding paper), and any measure
as a grid of layers and heads."""

from collections.abc import Mapping

import numpy as np
from matplotlib.colors import Normalize, TwoSlopeNorm
from matplotlib.ticker import MaxNLocator, PercentFormatter
from numpy.typing import ArrayLike

from attentune.analysis.figures.drawing import DIVERGING, SEQUENTIAL, Drawing, no_ticks, styled
from attentune.analysis.measures import MEASURES
from attentune.analysis.received import Received
from attentune.errors import UserError


def draw_head_pca(panels: Mapping[str, Received]) -> Drawing:
    """One panel a model, one point a head: the two main directions in which the heads' received attention varies.

    The directions are those of all panels together, so that distances in one panel may be compared with those in
    another. The text must be the same in all.
    """
    from sklearn.decomposition import PCA  # here, because it takes a second to import

    if len({received.tokens for received in panels.values()}) != 1:
        raise UserError(
            "the heads of different texts lie in different spaces; take one text, in the same tokens, for all"
        )
    rows = [received.share.reshape(-1, received.share.shape[-1]) for received in panels.values()]
    if len(np.concatenate(rows)) < 3 or rows[0].shape[1] < 3:
        raise UserError("two main directions need at least 3 heads and 3 tokens")
    pca = PCA(n_components=2, svd_solver="full").fit(np.concatenate(rows))
    explained = pca.explained_variance_ratio_
    with styled(2.5 * len(panels) + 1.0, 2.9, 1, len(panels), sharex=True, sharey=True) as (figure, axes):
        for axis, (title, received), heads in zip(axes[0], panels.items(), rows, strict=True):
            x, y = pca.transform(heads).T
            layers, in_layer = received.share.shape[:2]
            points = axis.scatter(
                x, y, c=np.repeat(range(layers), in_layer), cmap=SEQUENTIAL, s=16, edgecolors="0.25", linewidths=0.4,
                vmin=0, vmax=max(1, layers - 1),
            )  # fmt: skip
            axis.set_title(title)
            axis.axhline(0, color="0.85", linewidth=0.7, zorder=0)
            axis.axvline(0, color="0.85", linewidth=0.7, zorder=0)
            axis.set_xlabel(f"first direction ({explained[0]:.0%} of the variance)" if len(panels) == 1 else "")
        if len(panels) > 1:
            figure.supxlabel(f"first direction ({explained[0]:.0%} of the variance)", fontsize=9)
        axes[0][0].set_ylabel(f"second direction ({explained[1]:.0%})")
        bar = figure.colorbar(points, ax=axes[0].tolist(), pad=0.01, fraction=0.03)
        bar.set_label("layer")
        bar.locator = MaxNLocator(integer=True)
        bar.update_ticks()
    return Drawing(figure, f"Principal components of what heads give to tokens: {', '.join(panels)}")


def draw_head_grid(panels: Mapping[str, ArrayLike], measure: str, *, is_difference: bool = False) -> Drawing:
    """One panel a model, one cell a head: any measure, as `Survey.grid` gives it; differences have their 0 in the middle."""
    known = MEASURES.get(measure)
    grids = {title: np.asarray(grid, dtype=float) for title, grid in panels.items()}
    values = np.concatenate([grid.ravel() for grid in grids.values()])
    values = values[~np.isnan(values)]
    if not len(values):
        raise UserError(f"there is nothing to draw: no head has a value of {measure!r}")
    norm: Normalize = Normalize(values.min(), values.max())
    if is_difference:
        most = max(float(np.abs(values).max()), 1e-9)
        norm = TwoSlopeNorm(0, -most, most)
    layers, heads = next(iter(grids.values())).shape
    width, height = 0.22 * heads + 0.6, 0.22 * layers + 1.1
    with styled(width * len(grids) + 1.2, height, 1, len(grids), sharey=True) as (figure, axes):
        for axis, (title, grid) in zip(axes[0], grids.items(), strict=True):
            image = axis.imshow(
                grid, cmap=DIVERGING if is_difference else SEQUENTIAL, norm=norm, interpolation="nearest"
            )
            axis.set_title(title)
            axis.set_xlabel("head")
            for ticks, count in ((axis.xaxis, grid.shape[1]), (axis.yaxis, grid.shape[0])):
                ticks.set_ticks(range(0, count, 1 if count <= 6 else 3))
            no_ticks(axis)
        axes[0][0].set_ylabel("layer")
        bar = figure.colorbar(image, ax=axes[0].tolist(), pad=0.02, fraction=0.05)
        bar.set_label(known.title if known else measure)
        if known and known.is_share:
            bar.ax.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    return Drawing(figure, f"{known.title if known else measure} by layer and head: {', '.join(grids)}")
