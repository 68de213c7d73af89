"""What the page's script is given, as plain values for JSON: numbers, texts and colours, but no markup."""

import base64
import math
from collections.abc import Mapping, Sequence
from typing import Any

from attentune.analysis.curves import curves_of
from attentune.analysis.estimates import Estimate
from attentune.analysis.measures import MEASURES
from attentune.analysis.report.arms import Arm, Example, base_of, is_of_interest
from attentune.analysis.report.packing import STEPS, Packed, largest_error
from attentune.analysis.scales import diverging, sequential
from attentune.analysis.survey import difference
from attentune.analysis.texts import Token


def page_data(
    arms: Sequence[Arm], kept: Sequence[Arm], examples: Sequence[Example], packed: Packed | None, labels: Sequence[str]
) -> dict[str, Any]:
    """Everything but the maps. `kept` are the arms whose maps can be looked at, `packed` is None to see how large the rest is."""
    return {
        "arms": [_arm(arm) for arm in arms],
        "explored": [list(arms).index(arm) for arm in kept],
        "labels": list(labels),
        "measures": [_measure(name) for name in shown_measures(arms)],
        "examples": [
            _example(example, arms, packed.examples[place] if packed else None)
            for place, example in enumerate(examples)
        ],
        "scales": {
            name: {theme: base64.b64encode(scale(theme).tobytes()).decode() for theme in ("light", "dark")}
            for name, scale in (("sequential", sequential), ("diverging", diverging))
        },
        "steps": packed.steps if packed else 0,
        "error": largest_error(packed.steps) if packed else 0,
        "received_steps": STEPS[0],
    }


def shown_measures(arms: Sequence[Arm]) -> list[str]:
    """The measures that all arms have and that are no repetition: in BERT, [SEP] is the only delimiter."""
    shown: list[str] = []
    for name in MEASURES:
        if not all(name in arm.survey.measures for arm in arms):
            continue
        values = [arm.survey.estimate(name).value for arm in arms]
        if any(math.isnan(value) for value in values):
            continue
        if not any(values == [arm.survey.estimate(other).value for arm in arms] for other in shown):
            shown.append(name)
    return shown


def differences(arms: Sequence[Arm], names: Sequence[str]) -> dict[str, list[Estimate | None]]:
    """Of each measure, by arm: how far a trained one is from what it is held against; None for the others."""
    base = base_of(arms)
    return {
        name: [
            difference(base.survey, arm.survey, name) if arm.is_trained and arm is not base else None for arm in arms
        ]
        for name in names
    }


def plain_estimate(estimate: Estimate) -> dict[str, Any]:
    """An estimate as JSON has it."""
    return {
        "value": _number(estimate.value), "low": _number(estimate.low), "high": _number(estimate.high),
        "examples": estimate.examples,
    }  # fmt: skip


def _arm(arm: Arm) -> dict[str, Any]:
    survey = arm.survey
    return {
        "title": arm.title,
        "trained": arm.is_trained,
        "grids": {name: [[_number(value, 5) for value in row] for row in survey.grid(name)] for name in survey.by_head},
        "curves": {
            name: {"steps": steps, "values": [_number(v, 6) for v in values]}
            for name, (steps, values) in curves_of(arm.log).items()
        },
    }


def _measure(name: str) -> dict[str, Any]:
    measure = MEASURES[name]
    return {"name": name, "title": measure.title, "share": measure.is_share, "by_head": measure.by_head}


def _example(example: Example, arms: Sequence[Arm], kept: Sequence[Any] | None) -> dict[str, Any]:
    found: dict[str, Any] = {
        "id": example.id,
        "text": example.text,
        "pair": example.pair,
        "label": example.label,
        "interesting": is_of_interest(example, arms),
        "answers": [_answer(arm, example) for arm in arms],
    }
    if kept is not None:
        first = kept[0].tokens
        found["tokens"] = [_tokens(one.tokens) if i == 0 or one.tokens != first else None for i, one in enumerate(kept)]
        found["has_maps"] = kept[0].maps is not None
        found["means"] = kept[0].is_mean
    return found


def _answer(arm: Arm, example: Example) -> dict[str, Any] | None:
    if not arm.is_trained:
        return None
    answer = arm.answers[example.id]
    told: dict[str, Any] = {
        "label": answer.label,
        "p": {label: _number(p, 4) for label, p in answer.probabilities.items()},
    }
    return told if answer.number is not None else told | {"right": answer.is_right(example)}


def _tokens(tokens: Sequence[Token]) -> list[list[Any]]:
    """The text, and 1 for one that continues the token before it, 2 for a special one."""
    return [[token.text, 2 if token.is_special else int(token.is_joined)] for token in tokens]


def _number(value: float | None, places: int = 6) -> float | None:
    """JSON has no NaN."""
    return None if value is None or not math.isfinite(value) else round(float(value), places)


def stored_texts(packed: Packed | None, kept: Sequence[Arm]) -> Mapping[str, str]:
    """What the page keeps as text of its own, by name: the maps of an example by an arm, or else what its tokens receive."""
    if packed is None:
        return {}
    return {
        f"{'maps' if one.maps else 'received'}-{example}-{arm}": one.maps or one.received
        for example, row in enumerate(packed.examples)
        for arm, one in enumerate(row)
    }
