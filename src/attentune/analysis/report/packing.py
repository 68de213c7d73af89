"""Maps as the page keeps them: in even steps of √A, deflated, as base64; as many examples as the file may hold.

With n steps a value A is kept as the whole number next to n·√A, so that what the page shows is off by at most
√A/n + 1/(4n²), and never by more than 1/n − 1/(4n²). Small values, of which maps are full, are kept more precisely than
large ones.
"""

import base64
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attentune.analysis.maps import Maps
from attentune.analysis.report.arms import Arm, Example
from attentune.analysis.texts import Token

STEPS = (255, 127, 63)
"""From the finest to the coarsest that is still good to look at."""


def quantised(maps: ArrayLike, steps: int) -> NDArray[np.uint8]:
    """Values between 0 and 1 as whole numbers up to `steps`.

    >>> quantised([0.0, 0.25, 1.0], 63).tolist()
    [0, 32, 63]
    """
    return np.asarray(np.rint(np.sqrt(np.asarray(maps).clip(0, 1)) * steps), dtype=np.uint8)


def restored(codes: ArrayLike, steps: int) -> NDArray[np.float64]:
    """The values that the page shows.

    >>> restored([0, 63], 63).tolist()
    [0.0, 1.0]
    """
    return np.asarray(np.square(np.asarray(codes, dtype=np.float64) / steps))


def largest_error(steps: int) -> float:
    """How far a value may be from the one that is shown, at most: for values near 1.

    >>> round(largest_error(63), 4)
    0.0158
    """
    return 1 / steps - 1 / (4 * steps**2)


FOR_MEANS = 0.12
"""Of the room, where not all maps fit: for the mean maps of the examples whose own don't."""


@dataclass(frozen=True)
class PackedMaps:
    """The maps of one example by one arm."""

    tokens: tuple[Token, ...]
    received: str
    """What each token receives from each layer, the mean over its heads, (layers, tokens), in 255 steps as base64."""
    maps: str | None
    """(layers, heads, keys, queries), deflated, as base64; None where the file has no room for them."""
    is_mean: bool = False
    """Whether these are the means over the heads of each layer, (layers, 1, keys, queries)."""


@dataclass(frozen=True)
class Packed:
    """The examples with their maps, (examples, arms), and how well these are kept."""

    examples: tuple[tuple[PackedMaps, ...], ...]
    steps: int
    error: float
    """The largest error that was met."""

    @property
    def with_maps(self) -> int:
        """How many examples have the maps of all heads in the file."""
        return sum(example[0].maps is not None and not example[0].is_mean for example in self.examples)

    @property
    def with_means(self) -> int:
        """How many have the mean map of each layer instead."""
        return sum(example[0].is_mean for example in self.examples)

    @property
    def size(self) -> int:
        """How many characters they take: the maps of an example, or else what its tokens receive."""
        return sum(len(kept.maps or kept.received) for example in self.examples for kept in example)

    def trimmed(self, size: int) -> "Packed":
        """With the maps of the last examples left out, as many as it takes to come down to `size` characters."""
        examples, taken = list(self.examples), self.size
        for place in reversed(range(len(examples))):
            if taken <= size:
                break
            without = tuple(replace(kept, maps=None, is_mean=False) for kept in examples[place])
            taken -= sum(len(kept.maps or kept.received) - len(kept.received) for kept in examples[place])
            examples[place] = without
        return replace(self, examples=tuple(examples))


def pack(examples: Sequence[Example], arms: Sequence[Arm], budget: int) -> Packed:
    """Keep the maps of as many examples as fit into `budget` characters, in their order, in the finest steps that fit all.

    Where not all fit, the coarsest steps are taken, and of those for which there is no room the means over the heads of each
    layer are kept, as long as there is room for these.
    """
    shelves = [_Shelf(steps, budget, may_leave_out=False) for steps in STEPS]
    means = _Shelf(STEPS[-1], round(FOR_MEANS * budget), may_leave_out=True)
    some = _Shelf(STEPS[-1], budget - means.room, may_leave_out=True)
    tokens, received = [], []
    for example in examples:
        found = [arm.maps(example.input) for arm in arms if arm.maps is not None]
        tokens.append([maps.tokens for maps in found])
        received.append([_text(quantised(maps.maps.mean(axis=(1, 2)), STEPS[0])) for maps in found])
        for shelf in shelves:
            shelf.put(found)
        some.put(found)
        means.put([Maps(maps.tokens, maps.maps.mean(axis=1, keepdims=True)) for maps in found] if some.left_out else [])
    chosen = next((shelf for shelf in shelves if not shelf.is_given_up), some)
    packed = []
    for own, share, row, mean in zip(tokens, received, chosen.rows, means.rows, strict=True):
        is_mean = chosen is some and row[0] is None and bool(mean) and mean[0] is not None
        texts = mean if is_mean else row
        packed.append(tuple(PackedMaps(*kept, is_mean) for kept in zip(own, share, texts, strict=True)))
    return Packed(tuple(packed), chosen.steps, max(chosen.error, means.error) if chosen is some else chosen.error)


class _Shelf:
    """Room for maps that are kept in one number of steps."""

    def __init__(self, steps: int, room: int, may_leave_out: bool) -> None:
        self.steps, self.room, self.may_leave_out = steps, room, may_leave_out
        self.too_little = room // 100  # room for which there is no use in trying
        self.rows: list[list[str] | list[None]] = []
        self.error = 0.0
        self.is_given_up = False

    @property
    def left_out(self) -> bool:
        """Whether there was no room for the last example."""
        return self.rows[-1][0] is None

    def put(self, found: Sequence[Maps]) -> None:
        """Keep the maps of one example, by all arms, or none of them."""
        row: list[str] | list[None] = [None] * len(found)
        if not found:
            self.rows.append(row)
            return
        if not self.is_given_up and self.room > self.too_little:
            codes = [quantised(maps.maps, self.steps) for maps in found]
            texts = [_text(np.ascontiguousarray(code.swapaxes(-1, -2)), deflate=True) for code in codes]
            if sum(map(len, texts)) <= self.room:
                row = texts
                self.room -= sum(map(len, texts))
                errors = (
                    float(np.abs(restored(code, self.steps) - maps.maps).max())
                    for code, maps in zip(codes, found, strict=True)
                )
                self.error = max(self.error, *errors)
        if row[0] is None and not self.may_leave_out:
            self.is_given_up = True
        self.rows.append(row)


def _text(codes: NDArray[np.uint8], deflate: bool = False) -> str:
    data = codes.tobytes()
    if deflate:
        packer = zlib.compressobj(9, wbits=-zlib.MAX_WBITS)  # without a header: "deflate-raw" in the browser
        data = packer.compress(data) + packer.flush()
    return base64.b64encode(data).decode()
