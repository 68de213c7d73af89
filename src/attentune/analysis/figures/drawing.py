"""A figure that can be saved and shown, and the one style that all figures share.

The colours are Okabe and Ito's and the colour maps perceptually uniform ones, so that figures can be read by the
colour-blind and in print; lines differ in their markers as well.
"""

import base64
import io
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure

from attentune.analysis.scales import diverging, sequential
from attentune.errors import UserError

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
SEQUENTIAL = ListedColormap(sequential() / 255, "attention")
DIVERGING = ListedColormap(diverging() / 255, "difference")
DOTS_PER_INCH = 200
STYLE: Any = {
    "font.size": 9, "axes.titlesize": 10, "axes.labelsize": 9, "xtick.labelsize": 8, "ytick.labelsize": 8,
    "legend.fontsize": 8, "legend.frameon": False, "axes.spines.top": False, "axes.spines.right": False,
    "axes.linewidth": 0.7, "lines.linewidth": 1.6, "svg.hashsalt": "attentune", "axes.titlelocation": "left",
    "axes.formatter.useoffset": False,
}  # fmt: skip


class Drawing:
    """A figure with words for those who can't see it; `figure` is matplotlib's own, to be changed at will."""

    def __init__(self, figure: Figure, description: str) -> None:
        self.figure, self.description = figure, description

    def save(self, path: str | Path) -> list[Path]:
        """Write `name.png` or `name.svg`; for a name without a suffix, both. Returns what was written."""
        asked = Path(path)
        files = [asked] if asked.suffix else [asked.with_name(asked.name + suffix) for suffix in (".png", ".svg")]
        for file in files:
            if file.suffix not in (".png", ".svg"):
                raise UserError(
                    f"a figure is saved as .png or .svg, not {file.suffix!r}; leave the suffix out for both"
                )
            file.write_bytes(self._as(file.suffix[1:]))
        return files

    def _repr_html_(self) -> str:
        data = base64.b64encode(self._as("png")).decode()
        width = round(self.figure.get_figwidth() * 96)
        return f'<img src="data:image/png;base64,{data}" alt="{escape(self.description)}" style="width:100%;max-width:{width}px">'

    def _as(self, kind: str) -> bytes:
        buffer = io.BytesIO()
        with matplotlib.rc_context(STYLE):
            metadata = {"Date": None} if kind == "svg" else None
            self.figure.savefig(buffer, format=kind, dpi=DOTS_PER_INCH, metadata=metadata)
        return buffer.getvalue()


@contextmanager
def styled(width: float, height: float, rows: int = 1, columns: int = 1, **axes: Any) -> Iterator[tuple[Figure, Any]]:
    """A new figure, in inches, with its axes as an array (rows, columns); within, the style holds."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        FigureCanvasAgg(figure)
        yield figure, figure.subplots(rows, columns, squeeze=False, **axes)


def shown(token: str, letters: int = 14) -> str:
    """A token as it may stand in a figure: matplotlib would take dollar signs for mathematics.

    >>> shown("$5")
    '\\\\$5'
    """
    token = token if len(token) <= letters else token[: letters - 1] + "…"
    return token.replace("$", r"\$")


def no_ticks(axis: Any) -> None:
    """Labels without the marks."""
    axis.tick_params(length=0)
