"""Two models on the same examples: how many each gets right that the other gets wrong, and whether that says anything."""

from collections.abc import Sequence
from dataclasses import dataclass

from scipy.stats import binomtest


@dataclass(frozen=True)
class Paired:
    """The exact McNemar test of two models' answers to the same questions."""

    examples: int
    only_first: int
    """Examples that only the first model gets right."""
    only_second: int
    p_value: float

    @property
    def difference(self) -> float:
        """The second model's accuracy less the first's."""
        return (self.only_second - self.only_first) / self.examples


def compare_answers(first_is_right: Sequence[bool], second_is_right: Sequence[bool]) -> Paired:
    """Compare two models by which examples each gets right.

    >>> compare_answers([True, True, False, False], [True, False, True, True])
    Paired(examples=4, only_first=1, only_second=2, p_value=1.0)
    """
    pairs = list(zip(first_is_right, second_is_right, strict=True))
    only_first = sum(first and not second for first, second in pairs)
    only_second = sum(second and not first for first, second in pairs)
    differing = only_first + only_second
    p_value = float(binomtest(only_second, differing).pvalue) if differing else 1.0
    return Paired(len(pairs), only_first, only_second, p_value)
