"""What may be said of two runs, and no more: right answers by the exact McNemar test, heads by a paired interval."""

from collections.abc import Sequence
from dataclasses import dataclass

from attentune.analysis.estimates import Estimate, mean_over_examples
from attentune.analysis.paired import Paired, compare_answers
from attentune.analysis.report.arms import Arm, Example
from attentune.analysis.survey import difference

SIGNIFICANT = 0.05


@dataclass(frozen=True)
class Verdict:
    """One run against another: the headline, and what it rests on."""

    headline: str
    grounds: str
    paired: Paired | None
    """None where there is only one run, or where numbers are predicted."""
    diversity: Estimate
    """The difference in the diversity of heads."""


def judge(first: Arm, second: Arm, examples: Sequence[Example]) -> Verdict:
    """The second run against the first, on the examples that both have answered."""
    if examples[0].number is not None:
        return _judge_numbers(first, second, examples)
    right = [[arm.answers[example.id].is_right(example) for example in examples] for arm in (first, second)]
    paired = compare_answers(*right)
    points = 100 * paired.difference
    if paired.p_value >= SIGNIFICANT:
        headline = (
            f"No evidence that {second.title} answers better or worse than {first.title}: {_signed(points)} points"
        )
    else:
        headline = (
            f"{second.title} answers {'better' if points > 0 else 'worse'} than {first.title}: {_signed(points)} points"
        )
    grounds = (
        f"Of {paired.examples:,} held-out examples {paired.only_second:,} are right only with {second.title} and "
        f"{paired.only_first:,} only with {first.title} (exact McNemar test, p = {_p(paired.p_value)}). "
        f"{_heads(first, second)} One training run each: other seeds may tell otherwise."
    )
    return Verdict(headline, grounds, paired, difference(first.survey, second.survey, "diversity"))


def _judge_numbers(first: Arm, second: Arm, examples: Sequence[Example]) -> Verdict:
    """By the mean distance from the truth, with a paired interval."""
    nearer = mean_over_examples(
        [first.answers[example.id].error(example) - second.answers[example.id].error(example) for example in examples]
    )
    one, other = first.title, second.title
    if not nearer.excludes_zero:
        headline = f"No evidence that the numbers of {other} are nearer to the truth than those of {one}, or farther"
    else:
        where = "nearer to" if nearer.value > 0 else "farther from"
        headline = f"The numbers of {other} are {where} the truth than those of {one}"
    figures = _signed(nearer.value, 3)
    if nearer.low is not None and nearer.high is not None:
        figures += f" on average (95 % interval {_signed(nearer.low, 3)} to {_signed(nearer.high, 3)})"
    grounds = (
        f"Over {len(examples):,} held-out examples, those of {other} are nearer by {figures}. {_heads(first, second)} "
        "One training run each: other seeds may tell otherwise."
    )
    return Verdict(headline, grounds, None, difference(first.survey, second.survey, "diversity"))


def describe(run: Arm, before: Arm) -> Verdict:
    """A single run against the model that it began with, where that is known."""
    told = ", ".join(
        f"{name} {estimate.value:.3f}"
        + (f" ({estimate.low:.3f} to {estimate.high:.3f})" if estimate.low is not None else "")
        for name, estimate in list(run.metrics.items())[:1]
    )
    grounds = f"{_heads(before, run)} " if before is not run else ""
    return Verdict(
        f"{run.title}: {told}" if told else run.title,
        f"{grounds}One training run: other seeds may tell otherwise.",
        None,
        difference(before.survey, run.survey, "diversity"),
    )


def _heads(first: Arm, second: Arm) -> str:
    change = difference(first.survey, second.survey, "diversity")
    before, after = (arm.survey.estimate("diversity").value for arm in (first, second))
    figures = f"(diversity {before:.3f} and {after:.3f}"
    if change.low is not None and change.high is not None:
        figures += f"; difference {_signed(change.value, 3)}, 95 % interval {_signed(change.low, 3)} to {_signed(change.high, 3)}"
    if not change.excludes_zero:
        return f"Their heads are about as diverse {figures})."
    more, less = (second, first) if change.value > 0 else (first, second)
    names = [arm.title if arm.is_trained else f"the model {arm.title}" for arm in (more, less)]
    return f"The heads of {names[0]} are more diverse than those of {names[1]} {figures})."


def _signed(value: float, places: int = 1) -> str:
    return f"{value:+.{places}f}".replace("-", "−")


def _p(value: float) -> str:
    return "< 0.001" if value < 0.001 else f"{value:.3f}"
