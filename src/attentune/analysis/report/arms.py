"""What a report is made of: arms (trained runs, or the model before training) and the examples that all of them saw."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from attentune.analysis.estimates import Estimate
from attentune.analysis.maps import Maps
from attentune.analysis.survey import Survey
from attentune.analysis.texts import TextOrPair


@dataclass(frozen=True)
class Example:
    """One held-out example, and its true label."""

    id: str
    text: str
    pair: str | None
    label: str
    number: float | None = None
    """The truth where numbers are predicted; `label` is the same as text."""

    @property
    def input(self) -> TextOrPair:
        """As the analysis takes texts."""
        return (self.text, self.pair)


@dataclass(frozen=True)
class Answer:
    """What an arm says of an example: a label, and the probability of each."""

    label: str
    probabilities: Mapping[str, float]
    number: float | None = None

    def is_right(self, example: Example) -> bool:
        """Whether the label is the true one."""
        return self.label == example.label

    def error(self, example: Example) -> float:
        """How far from the truth it is, where numbers are predicted."""
        return abs((self.number or 0.0) - (example.number or 0.0))


@dataclass(frozen=True)
class Arm:
    """One of the models that are compared."""

    title: str
    survey: Survey
    maps: Callable[[TextOrPair], Maps] | None = None
    """The maps of a text; None: the arm's measures are told, but its maps are not kept."""
    facts: Mapping[str, str] = field(default_factory=dict)
    """What else there is to know, such as the method and the seed."""
    metrics: Mapping[str, Estimate] = field(default_factory=dict)
    answers: Mapping[str, Answer] = field(default_factory=dict)
    """By the id of the example; empty for a model before training."""
    log: Sequence[Mapping[str, Any]] = ()

    @property
    def is_trained(self) -> bool:
        """Whether it answers."""
        return bool(self.answers)


def base_of(arms: Sequence[Arm]) -> Arm:
    """What the others are held against: the first of several runs; for a single run, the model before training."""
    trained = [arm for arm in arms if arm.is_trained]
    before = [arm for arm in arms if not arm.is_trained]
    return trained[0] if len(trained) > 1 or not before else before[0]


def in_order_of_interest(examples: Sequence[Example], arms: Sequence[Arm]) -> list[Example]:
    """Those first on which the arms give different answers, the most different ones at the head; with one arm, those it gets
    wrong, the surest errors at the head; the others as they come. Where numbers are predicted, those first on which they are
    farthest apart, or with one arm farthest from the truth."""
    trained = [arm for arm in arms if arm.is_trained]

    def difference(example: Example) -> float:
        """How far apart the arms are, by the probability of the true label."""
        if example.number is not None:
            given = [arm.answers[example.id].number or 0.0 for arm in trained]
            return max(given) - min(given) if len(given) > 1 else trained[0].answers[example.id].error(example)
        sure = [arm.answers[example.id].probabilities.get(example.label, 0.0) for arm in trained]
        return max(sure) - min(sure) if len(sure) > 1 else 1 - min(sure, default=1.0)

    first = [example for example in examples if is_of_interest(example, trained)]
    others = [example for example in examples if not is_of_interest(example, trained)]
    if all(example.number is not None for example in others):
        others = sorted(others, key=difference, reverse=True)
    return sorted(first, key=difference, reverse=True) + others


def is_of_interest(example: Example, arms: Sequence[Arm]) -> bool:
    """Whether the arms disagree on an example, or the only one is wrong."""
    if example.number is not None:
        return False  # numbers are hardly ever the same
    answers = {arm.answers[example.id].label for arm in arms if arm.is_trained}
    return len(answers) > 1 or (sum(arm.is_trained for arm in arms) == 1 and answers != {example.label})
