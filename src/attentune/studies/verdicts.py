"""What a comparison says: for each method beside the baseline all statistics, and a sentence that claims no more than they do."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from attentune.studies.power import power_of_t_test, seeds_needed
from attentune.studies.runs import Answers, Outcome
from attentune.studies.scoring import score_of
from attentune.studies.statistics import SeedTests, bootstrap_of_answers, holm, mcnemar, over_seeds, stars

SIGNIFICANT = 0.05


@dataclass(frozen=True)
class Side:
    """One side's own figures over its seeds."""

    arm: str
    scores: Mapping[int, float]
    """By seed."""
    seconds: float
    """The mean of the runs' training times."""
    memory_mb: float
    """The highest peak of its runs."""

    @property
    def mean(self) -> float:
        """The mean score."""
        return float(np.mean(list(self.scores.values()))) if self.scores else math.nan

    @property
    def deviation(self) -> float:
        """The scores' standard deviation over seeds; not a number with one seed."""
        return float(np.std(list(self.scores.values()), ddof=1)) if len(self.scores) > 1 else math.nan


@dataclass(frozen=True)
class Verdict:
    """A method beside the baseline, on the seeds that both have."""

    tests: SeedTests
    corrected_p: float
    """The t-test's, by Holm's correction for all methods of the table."""
    answers_p: float
    """Of the pooled answers: McNemar's test for accuracy, a bootstrap for other metrics; not a number where there is none."""
    answers_test: str
    needed: int | None
    """How many seeds would show a difference such as the one seen in four studies of five."""
    detectable: float
    """What difference these seeds would show in four studies of five."""

    @property
    def is_significant(self) -> bool:
        """Whether chance alone seldom brings such a difference about."""
        return self.corrected_p < SIGNIFICANT

    @property
    def stars(self) -> str:
        """* p < 0.05, ** p < 0.01, of the corrected p."""
        return stars(self.corrected_p)


@dataclass(frozen=True)
class Group:
    """The comparison on one task with one model."""

    task: str
    model: str
    metric: str
    baseline: str
    sides: Sequence[Side]
    verdicts: Mapping[str, Verdict]
    """By arm; the baseline has none."""

    def sentence(self, arm: str) -> str:
        """What may be said of a method, and no more."""
        verdict = self.verdicts[arm]
        tests = verdict.tests
        points = f"{100 * tests.difference:+.2f} points of {self.metric}"
        if tests.seeds < 2:
            return f"{arm}: {points} against {self.baseline} with one seed, which is no evidence; give more --seeds"
        low, high = 100 * tests.interval.low, 100 * tests.interval.high
        figures = f"95% interval {low:+.2f} to {high:+.2f}, p = {_p(verdict.corrected_p)}{self._corrected()}"
        if tests.difference == 0 and tests.deviation == 0:
            return f"{arm}: the same {self.metric} as {self.baseline} on each of {tests.seeds} seeds"
        if verdict.is_significant:
            word = "better" if tests.difference > 0 else "worse"
            return f"{arm} is {word} than {self.baseline}: {points} ({figures})"
        return f"{arm}: no evidence of a difference from {self.baseline} ({points}, {figures}). {_more_seeds(verdict)}"

    def _corrected(self) -> str:
        return f" corrected for {len(self.verdicts)} methods" if len(self.verdicts) > 1 else ""


def _p(p_value: float) -> str:
    return f"{p_value:.3f}" if p_value >= 0.001 else "< 0.001"


def _more_seeds(verdict: Verdict) -> str:
    tests = verdict.tests
    shown = f"{tests.seeds} seeds show differences of {100 * verdict.detectable:.2f} points and more in four studies of five"
    if verdict.needed is None:
        return f"{shown}; as it is, no number of seeds would show one."
    if verdict.needed <= tests.seeds:  # the correction, or this study was of the fifth of five
        return f"{shown}."
    return f"{shown}; to see one of {100 * abs(tests.difference):.2f}, {verdict.needed:,} would be needed."


def compare_sides(task: str, model: str, baseline: str, outcomes: Mapping[str, Mapping[int, Outcome]]) -> Group:
    """Compare the outcomes of each arm by seed; arms without any common seed get no verdict."""
    sides = [
        Side(
            arm,
            {seed: outcome.score for seed, outcome in sorted(by_seed.items())},
            float(np.mean([outcome.seconds for outcome in by_seed.values()])) if by_seed else math.nan,
            max((outcome.memory_mb for outcome in by_seed.values()), default=math.nan),
        )
        for arm, by_seed in outcomes.items()
    ]
    metric = next((outcome.deciding for by_seed in outcomes.values() for outcome in by_seed.values()), "score")
    compared = {
        arm: sorted(by_seed.keys() & outcomes[baseline].keys()) for arm, by_seed in outcomes.items() if arm != baseline
    }
    tests = {
        arm: over_seeds(
            [outcomes[baseline][seed].score for seed in seeds], [outcomes[arm][seed].score for seed in seeds]
        )
        for arm, seeds in compared.items()
        if seeds
    }
    corrected = dict(zip(tests, holm([found.t_p for found in tests.values()]), strict=True))
    verdicts = {}
    for arm, found in tests.items():
        seeds = compared[arm]
        p_value, kind = _answers_p(
            [outcomes[baseline][seed].answers for seed in seeds],
            [outcomes[arm][seed].answers for seed in seeds],
            metric,
        )
        needed = seeds_needed(found.difference, found.deviation)
        verdicts[arm] = Verdict(found, corrected[arm], p_value, kind, needed, _detectable(found))
    return Group(task, model, metric, baseline, sides, verdicts)


def _detectable(tests: SeedTests) -> float:
    """The smallest difference that so many seeds find at a power of 80%, by halving."""
    if tests.seeds < 2 or not math.isfinite(tests.deviation):
        return math.nan
    low, high = 0.0, 100.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (low, middle) if power_of_t_test(middle, tests.seeds) >= 0.8 else (middle, high)
    return high * tests.deviation


def _answers_p(baseline: Sequence[Answers], method: Sequence[Answers], metric: str) -> tuple[float, str]:
    """The test on the pooled answers, and its name."""
    truths = [np.asarray(answers.truths, dtype=float) for answers in baseline]
    given = [[np.asarray(answers.given, dtype=float) for answers in side] for side in (baseline, method)]
    same = [
        np.array_equal(true, np.asarray(other.truths, dtype=float)) for true, other in zip(truths, method, strict=True)
    ]
    if not truths or not all(same):
        return math.nan, "none"
    is_one_split = len({answers.rows for answers in baseline}) == 1
    if metric == "accuracy":
        right = [[own == true for own, true in zip(side, truths, strict=True)] for side in given]
        if is_one_split:
            return mcnemar(np.stack(right[0]), np.stack(right[1])), "McNemar"
        return mcnemar(np.concatenate(right[0]), np.concatenate(right[1])), "McNemar"
    score = score_of(baseline[0], metric)
    if score is None or not is_one_split:
        return math.nan, "none"
    return bootstrap_of_answers(score, truths, given[0], given[1]), "bootstrap"
