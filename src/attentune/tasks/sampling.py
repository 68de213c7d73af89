"""Random draws of rows that keep the classes in proportion: a task's sample, and the rows held out for validation.

Within each class the rows are shuffled by the seed; the row of rank r in a class of n comes at r / n of the way, and a
draw takes the first so many of all rows in that order. So a class's part is its share to within a row, each class is
there before any is there twice, and a smaller draw is part of a larger one with the same seed.
"""

import random
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def draw(labels: Sequence[int], size: int, seed: int) -> list[int]:
    """The positions of `size` rows, in the order of the file; all of them where there are no more.

    >>> draw([0, 0, 0, 0, 1, 1], size=3, seed=0)
    [2, 3, 5]
    """
    order, _, _ = _order(labels, seed)
    return sorted(order[:size].tolist())


def hold_out(labels: Sequence[int], size: int, seed: int) -> tuple[list[int], list[int]]:
    """The positions of the rows that stay and of `size` rows that are held out, at least one of each class in both.

    A class with a single row stays whole, and then fewer than `size` rows may be left to hold out.

    >>> hold_out([0, 0, 0, 0, 1, 1, 2], size=2, seed=0)
    ([0, 1, 2, 4, 6], [3, 5])
    """
    order, rank, count = _order(labels, seed)
    may_leave = order[rank[order] < count[order] - 1]
    held = set(may_leave[:size].tolist())
    return [row for row in range(len(labels)) if row not in held], sorted(held)


def draw_groups(groups: Sequence[str], size: int, seed: int) -> list[int]:
    """The positions of all rows of `size` groups, in the order of the file.

    >>> draw_groups(["a", "a", "b", "c", "c"], size=2, seed=0)
    [2, 3, 4]
    """
    names = list(dict.fromkeys(groups))
    drawn = {names[position] for position in draw([0] * len(names), size, seed)}
    return [row for row, name in enumerate(groups) if name in drawn]


def _order(labels: Sequence[int], seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """The rows in the order of drawing; each row's rank in its class; the size of its class."""
    # Python promises the same numbers from a seed for ever; numpy's generators do not.
    generator = random.Random(seed)
    noise = np.array([generator.random() for _ in labels])
    _, group, sizes = np.unique(np.asarray(labels), return_inverse=True, return_counts=True)
    by_class = np.lexsort((noise, group))
    rank = np.empty(len(labels), dtype=np.int64)
    rank[by_class] = np.arange(len(labels)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    count = sizes[group]
    return np.lexsort((noise, rank / count)), rank, count
