"""Pictures of weights: those that squeeze-and-excitation gives to layers (SesameBERT's Figure 4), and the importance that
self-supervised attention gives to tokens (Figure 8 of its paper)."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

from attentune.analysis.figures.drawing import COLOURS, SEQUENTIAL, Drawing, no_ticks, shown, styled
from attentune.errors import UserError


def draw_layer_weights(weights: ArrayLike) -> Drawing:
    """The weights (examples, layers) that `guided.layer_weights` holds: of each layer, the mean and how far examples spread.

    The box goes from the lower to the upper quartile, the line from the 5th to the 95th percentile.
    """
    values = np.asarray(weights, dtype=float)
    if values.ndim != 2 or not values.size:
        raise UserError(
            f"layer weights are (examples, layers), not {values.shape}; stack guided.layer_weights of all batches"
        )
    layers = values.shape[1]
    low, lower, upper, high = np.percentile(values, [5, 25, 75, 95], axis=0)
    with styled(0.34 * layers + 1.4, 2.6) as (figure, axes):
        axis = axes[0][0]
        axis.vlines(range(layers), low, high, color=COLOURS[0], linewidth=1)
        axis.bar(
            range(layers), upper - lower, bottom=lower, width=0.5, color=COLOURS[5], edgecolor=COLOURS[0], linewidth=0.8
        )
        axis.plot(range(layers), values.mean(axis=0), linestyle="none", marker="o", color="black", markersize=4)
        axis.set_xticks(range(layers))
        axis.set_xlabel("layer")
        axis.set_ylabel("weight of the layer")
        axis.set_ylim(0, 1)
    return Drawing(figure, f"Weights of {layers} layers by squeeze-and-excitation, over {len(values)} examples")


def draw_token_importance(tokens: Sequence[str], scores: Mapping[str, ArrayLike]) -> Drawing:
    """One row for each kind of score, one column a token; each row has a scale of its own, from 0 to its largest score.

    Such as `{"SSA importance": …, "received attention": …}`, each (tokens,).
    """
    rows = {name: np.asarray(values, dtype=float) for name, values in scores.items()}
    for name, values in rows.items():
        if values.shape != (len(tokens),):
            raise UserError(
                f"{name!r} has the shape {values.shape}; give one score for each of the {len(tokens)} tokens"
            )
    with styled(0.36 * len(tokens) + 1.6, 0.34 * len(rows) + 0.9) as (figure, axes):
        axis = axes[0][0]
        relative = np.stack([values / max(float(np.nanmax(values)), 1e-12) for values in rows.values()])
        image = axis.imshow(relative, cmap=SEQUENTIAL, vmin=0, vmax=1, aspect="auto", interpolation="nearest")
        axis.set_xticks(range(len(tokens)), [shown(token) for token in tokens], rotation=90)
        axis.set_yticks(range(len(rows)), list(rows))
        no_ticks(axis)
        bar = figure.colorbar(image, ax=axis, pad=0.02, fraction=0.05)
        bar.set_ticks([0, 1], labels=["0", "highest"])
    return Drawing(figure, f"Importance of the tokens of: {' '.join(tokens)}")
