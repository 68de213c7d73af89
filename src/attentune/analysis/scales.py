"""The colour scales that figures and page share: even steps of perceived lightness in OKLab, and no pair of colours that the
colour-blind confuse (blue against orange).

A scale is 256 colours from the lowest value to the highest; for a page on dark ground there is one of its own, whose
lowest value is again the ground.
"""

from collections.abc import Sequence
from functools import cache
from math import cos, radians, sin

import numpy as np
from numpy.typing import NDArray

STEPS = 256

Stop = tuple[float, float, float]  # lightness 0 … 1, chroma, hue in degrees
_SEQUENTIAL: dict[str, Sequence[Stop]] = {
    "light": [(0.985, 0.004, 230), (0.80, 0.085, 225), (0.615, 0.13, 245), (0.43, 0.15, 262), (0.245, 0.09, 272)],
    "dark": [(0.225, 0.015, 265), (0.41, 0.10, 268), (0.59, 0.135, 250), (0.775, 0.115, 220), (0.96, 0.05, 170)],
}
_DIVERGING: dict[str, Sequence[Stop]] = {
    "light": [(0.50, 0.145, 45), (0.74, 0.12, 60), (0.98, 0.003, 90), (0.74, 0.10, 240), (0.50, 0.16, 258)],
    "dark": [(0.82, 0.145, 65), (0.52, 0.11, 55), (0.225, 0.015, 265), (0.52, 0.14, 256), (0.82, 0.11, 235)],
}

# Björn Ottosson's OKLab: from Lab to cube roots of cone responses, and from these to linear sRGB.
_TO_CONES = np.array(
    [[1, 0.3963377774, 0.2158037573], [1, -0.1055613458, -0.0638541728], [1, -0.0894841775, -1.2914855480]]
)
_TO_RGB = np.array([
    [4.0767416621, -3.3077115913, 0.2309699292],
    [-1.2684380046, 2.6097574011, -0.3413193965],
    [-0.0041960863, -0.7034186147, 1.7076147010],
])  # fmt: skip


@cache
def sequential(theme: str = "light") -> NDArray[np.uint8]:
    """From nothing to much, (256, 3)."""
    return _between(_SEQUENTIAL[theme])


@cache
def diverging(theme: str = "light") -> NDArray[np.uint8]:
    """From much less (orange) over the same, in the middle, to much more (blue), (256, 3)."""
    return _between(_DIVERGING[theme])


def _between(stops: Sequence[Stop]) -> NDArray[np.uint8]:
    """The colours on the way along evenly spaced stops."""
    lab = np.array([(light, c * cos(radians(h)), c * sin(radians(h))) for light, c, h in stops])
    at = np.linspace(0, len(stops) - 1, STEPS)
    points = np.stack([np.interp(at, range(len(stops)), lab[:, part]) for part in range(3)], axis=1)  # (256, 3)
    linear = (points @ _TO_CONES.T) ** 3 @ _TO_RGB.T
    linear = linear.clip(0, 1)
    rgb = np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)
    return np.asarray(np.rint(255 * rgb), dtype=np.uint8)
