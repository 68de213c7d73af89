"""A task's deciding metric on any choice of rows, from the answers that are kept of a run: for parts of a split, and for
drawing its rows anew."""

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import stats

from attentune.studies.runs import Answers
from attentune.tasks import metrics

Floats = NDArray[np.float64]
Score = Callable[[Floats, Floats], float]
"""Of answers and truths."""

OF_NUMBERS: dict[str, Callable[[Floats, Floats], float]] = {
    "pearson": lambda given, true: float(stats.pearsonr(given, true).statistic),
    "spearman": lambda given, true: float(stats.spearmanr(given, true).statistic),
}


def score_of(answers: Answers, metric: str) -> Score | None:
    """How the metric is computed from answers; None for one that needs more than these, such as a ranking's.

    >>> score = score_of(Answers([0, 1, 1], [0, 1, 0], ["a", "b"]), "accuracy")
    >>> round(score(np.array([0, 1, 0]), np.array([0, 1, 1])), 4)
    0.6667
    """
    if answers.labels is not None and metric in metrics.METRICS:
        classes, compute = len(answers.labels), metrics.METRICS[metric]

        def of_classes(given: Floats, true: Floats) -> float:
            return float(compute(torch.from_numpy(given).long(), torch.from_numpy(true).long(), classes))

        return of_classes
    if answers.labels is None and metric in OF_NUMBERS:
        correlate = OF_NUMBERS[metric]

        def of_numbers(given: Floats, true: Floats) -> float:
            if np.ptp(given) == 0 or np.ptp(true) == 0:
                return 0.0
            return correlate(given, true)

        return of_numbers
    return None


def part_scores(answers: Answers, metric: str, parts: int, seed: int = 0) -> list[float] | None:
    """The metric on each of so many equal parts of the rows, drawn at random but always the same.

    >>> part_scores(Answers([0, 1] * 6, [0, 1] * 6, ["a", "b"]), "accuracy", parts=3)
    [1.0, 1.0, 1.0]
    """
    score = score_of(answers, metric)
    if score is None:
        return None
    given, true = np.asarray(answers.given, dtype=float), np.asarray(answers.truths, dtype=float)
    rows = np.random.default_rng(seed).permutation(len(true))
    return [score(given[part], true[part]) for part in np.array_split(rows, parts)]
