"""The tables of the page, ready to be shown: numbers as text, and where the points and whiskers of their pictures stand."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from attentune.analysis.estimates import Estimate, mean_over_examples
from attentune.analysis.measures import MEASURES
from attentune.analysis.report.arms import Arm, Example, base_of
from attentune.analysis.report.payload import differences

MARGIN = 0.06
"""Of the width of a picture, left free at each side."""


@dataclass(frozen=True)
class Cell:
    """One arm's value: as text, with its interval, and in per cent of the picture's width."""

    value: str
    interval: str
    at: float | None = None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Row:
    """One metric or measure of all arms; `changes` are the differences to the first trained arm."""

    title: str
    meaning: str
    cells: tuple[Cell | None, ...]
    changes: tuple[Cell | None, ...]
    is_clear: tuple[bool, ...]
    """Of each change, whether its interval excludes 0."""


def metric_rows(arms: Sequence[Arm], examples: Sequence[Example]) -> list[Row]:
    """The metrics of the trained arms; of right answers, the paired difference as well."""
    names = list(dict.fromkeys(name for arm in arms for name in arm.metrics))
    base = base_of(arms)
    rows = []
    for name in names:
        is_share = name == "accuracy"
        estimates = [arm.metrics.get(name) for arm in arms]
        changes: list[Estimate | None] = [None] * len(arms)
        if is_share:
            right = {
                arm.title: np.array([arm.answers[example.id].is_right(example) for example in examples], dtype=float)
                for arm in arms
                if arm.is_trained
            }
            changes = [
                mean_over_examples(right[arm.title] - right[base.title])
                if arm.is_trained and base.is_trained and arm is not base
                else None
                for arm in arms
            ]
        rows.append(_row(name, "", estimates, changes, is_share))
    return rows


def measure_rows(arms: Sequence[Arm], names: Sequence[str]) -> list[Row]:
    """The measures of all arms."""
    changes = differences(arms, names)
    rows = []
    for name in names:
        measure = MEASURES[name]
        estimates = [arm.survey.estimate(name) for arm in arms]
        rows.append(_row(measure.title, measure.meaning, estimates, changes[name], measure.is_share))
    return rows


def _row(
    title: str, meaning: str, estimates: Sequence[Estimate | None], changes: Sequence[Estimate | None], is_share: bool
) -> Row:
    ends = [end for e in estimates if e is not None for end in (e.value, e.low, e.high) if end is not None]
    low, high = min(ends), max(ends)
    width = (high - low) or 1.0

    def place(value: float | None) -> float | None:
        if value is None:
            return None
        return round(100 * (MARGIN + (1 - 2 * MARGIN) * ((value - low) / width if high > low else 0.5)), 2)

    places = 1 if max(map(abs, ends)) >= 10 else 3

    def cell(e: Estimate | None, *, sign: bool = False) -> Cell | None:
        if e is None:
            return None
        texts = number(e.value, is_share, places, sign=sign), _interval(e, is_share, places, sign=sign)
        return Cell(*texts) if sign else Cell(*texts, place(e.value), place(e.low), place(e.high))

    cells, told = tuple(map(cell, estimates)), tuple(cell(e, sign=True) for e in changes)
    return Row(title, meaning, cells, told, tuple(e is not None and e.excludes_zero for e in changes))


def number(value: float, is_share: bool, places: int = 3, *, sign: bool = False) -> str:
    """A number as the page shows it, with a true minus; with a sign it is a difference, and one of shares is in points.

    >>> number(0.1234, True), number(0.1234, True, sign=True), number(-0.1234, False, sign=True)
    ('12.3 %', '+12.3 points', '−0.123')
    """
    plus = "+" if sign else ""
    share = f"{100 * value:{plus}.1f} {'points' if sign else '%'}"
    return (share if is_share else f"{value:{plus}.{places}f}").replace("-", "−")


def _interval(estimate: Estimate, is_share: bool, places: int, *, sign: bool = False) -> str:
    if estimate.low is None or estimate.high is None:
        return ""
    low, high = (number(end, is_share, places, sign=sign) for end in (estimate.low, estimate.high))
    return f"{low.split()[0]} to {high.split()[0]}"
