"""Pictures of maps: the average map of the first tokens (Figure 4 of the attention-guiding paper), and what tokens receive."""

from collections.abc import Mapping
from math import ceil

from matplotlib.colors import LogNorm, PowerNorm

from attentune.analysis.figures.drawing import SEQUENTIAL, Drawing, no_ticks, shown, styled
from attentune.analysis.maps import AverageMap
from attentune.analysis.received import Received

MOST_IN_A_ROW = 4


def draw_average_maps(panels: Mapping[str, AverageMap]) -> Drawing:
    """One panel a model: how much each of the first tokens (rows) looks at each (columns), over all heads and layers.

    All panels share one scale, which goes by the square root, since [CLS] and [SEP] would drown the words otherwise.
    """
    columns = min(len(panels), MOST_IN_A_ROW)
    rows = ceil(len(panels) / columns)
    size = 0.19 * max(len(panel.tokens) for panel in panels.values())
    highest = max(float(panel.map.max()) for panel in panels.values())
    norm = PowerNorm(0.5, vmin=0, vmax=highest)
    with styled(columns * (size + 0.35) + 1.2, rows * (size + 1.0), rows, columns) as (figure, axes):
        for axis in axes.flat[len(panels) :]:
            axis.set_visible(False)
        for place, (axis, (title, panel)) in enumerate(zip(axes.flat, panels.items(), strict=False)):
            image = axis.imshow(panel.map, cmap=SEQUENTIAL, norm=norm, interpolation="nearest")
            names = [shown(token) for token in panel.tokens]
            axis.set_title(title)
            axis.set_xticks(range(len(names)), names, rotation=90)
            is_first = place % columns == 0
            axis.set_yticks(range(len(names)), names if is_first else [""] * len(names))
            no_ticks(axis)
        bar = figure.colorbar(image, ax=axes.ravel().tolist(), pad=0.01, fraction=0.03, aspect=30)
        bar.set_label("attention, mean over layers and heads")
    return Drawing(figure, f"Average attention maps of the first tokens: {', '.join(panels)}")


def draw_received(panels: Mapping[str, Received], note: str = "") -> Drawing:
    """One panel a model, one row a head, one column a token: who is given how much attention.

    The colour scale is common to all panels and logarithmic, since [CLS] and [SEP] would drown the words otherwise.
    """
    first = next(iter(panels.values()))
    layers, heads, length = first.share.shape
    width = max(3.2, 0.24 * length + 0.5)
    norm = LogNorm(vmin=0.2 / length, vmax=min(1.0, 12 / length), clip=True)
    height = 0.07 * layers * heads + 1.7
    with styled(width * len(panels) + 1.0, height, 1, len(panels), sharey=True) as (figure, axes):
        for axis, (title, received) in zip(axes[0], panels.items(), strict=True):
            image = axis.imshow(
                received.share.reshape(-1, received.share.shape[-1]),
                aspect="auto", cmap=SEQUENTIAL, norm=norm, interpolation="nearest",
            )  # fmt: skip
            axis.set_title(title)
            axis.set_xticks(range(len(received.tokens)), [shown(token) for token in received.tokens], rotation=90)
            axis.set_yticks([heads * layer + (heads - 1) / 2 for layer in range(layers)], range(layers))
            no_ticks(axis)
            for layer in range(1, layers):
                axis.axhline(heads * layer - 0.5, color="black", linewidth=0.6)
        axes[0][0].set_ylabel(f"layer ({heads} heads each, a row a head)")
        bar = figure.colorbar(image, ax=axes[0].tolist(), pad=0.01, fraction=0.03)
        bar.set_label("share of the head's attention")
        even = {0.25 / length: "¼ of even", 1 / length: "even", 4 / length: "4 × even"}
        ticks = {share: name for share, name in even.items() if norm.vmin <= share <= norm.vmax}
        bar.set_ticks(list(ticks), labels=list(ticks.values()))
        bar.ax.minorticks_off()
        if note:
            figure.supxlabel(note, fontsize=8)
    return Drawing(figure, f"What each token receives from each head: {', '.join(panels)}")
