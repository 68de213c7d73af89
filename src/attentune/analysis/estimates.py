"""Numbers with intervals: the mean of a measure over examples, a share of right answers, a metric of predictions.

All intervals are of 95 %. Means and metrics are bootstrapped over examples (percentile method, scipy), shares of right
answers have Wilson's interval. The draws are always the same, so that the same data give the same interval.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import binomtest, bootstrap

CONFIDENCE = 0.95
DRAWS = 2000
METRIC_DRAWS = 400  # a metric is computed anew for each draw
SEED = 0


@dataclass(frozen=True)
class Estimate:
    """A value, its 95 % interval where there is one, and the number of examples behind it."""

    value: float
    low: float | None
    high: float | None
    examples: int

    @property
    def excludes_zero(self) -> bool:
        """Whether the interval lies on one side of 0: for differences."""
        return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)


def mean_over_examples(values: ArrayLike) -> Estimate:
    """The mean of one number an example, NaN where an example has none; the interval is bootstrapped over examples.

    >>> estimate = mean_over_examples([0.2, 0.4, 0.6, float("nan")])
    >>> round(estimate.value, 6), estimate.examples
    (0.4, 3)
    """
    known = np.asarray(values, dtype=np.float64)
    known = known[~np.isnan(known)]
    if not len(known):
        return Estimate(float("nan"), None, None, 0)
    value = float(known.mean())
    if len(known) < 2:
        return Estimate(value, None, None, 1)
    if known.min() == known.max():
        return Estimate(value, value, value, len(known))
    found = bootstrap(
        (known,), np.mean, n_resamples=DRAWS, confidence_level=CONFIDENCE, method="percentile", random_state=SEED
    ).confidence_interval
    return Estimate(value, float(found.low), float(found.high), len(known))


def share_of_right(is_right: Sequence[bool]) -> Estimate:
    """A share of right answers with Wilson's interval.

    >>> share_of_right([True] * 8 + [False] * 2).value
    0.8
    """
    right, count = sum(map(bool, is_right)), len(is_right)
    interval = binomtest(right, count).proportion_ci(CONFIDENCE, method="wilson")
    return Estimate(right / count, float(interval.low), float(interval.high), count)


Score = Callable[[list[Any], list[Any]], Mapping[str, float]]
"""Metrics by name, of predicted class ids, or numbers, and true ones, as a task's `score`."""


def metrics_of(score: Score, predictions: Sequence[float], references: Sequence[float]) -> dict[str, Estimate]:
    """Each of a task's metrics with its interval: Wilson's for accuracy, otherwise bootstrapped over examples.

    >>> right = lambda p, r: {"accuracy": sum(a == b for a, b in zip(p, r)) / len(r)}
    >>> metrics_of(right, [0, 1, 1, 1], [0, 1, 1, 0])["accuracy"].value
    0.75
    """
    predicted, true = np.asarray(predictions), np.asarray(references)
    whole = score(predicted.tolist(), true.tolist())
    found = {}
    others = [name for name in whole if name != "accuracy"]
    drawn: dict[str, list[float]] = {name: [] for name in others}
    if others and len(true) > 1:
        generator = np.random.default_rng(SEED)
        for _ in range(METRIC_DRAWS):
            rows = generator.integers(len(true), size=len(true))
            for name, value in score(predicted[rows].tolist(), true[rows].tolist()).items():
                if name in drawn:
                    drawn[name].append(value)
    tail = 100 * (1 - CONFIDENCE) / 2
    for name, value in whole.items():
        if name == "accuracy":
            found[name] = share_of_right((predicted == true).tolist())
        elif drawn[name]:
            low, high = np.nanpercentile(drawn[name], [tail, 100 - tail])
            found[name] = Estimate(value, float(low), float(high), len(true))
        else:
            found[name] = Estimate(value, None, None, len(true))
    return found
