"""The curves of a training log: the task's loss and each guide's term, by step."""

import math
from collections.abc import Iterable, Mapping
from typing import Any

TASK = "task loss"


def curves_of(log: Iterable[Mapping[str, Any]]) -> dict[str, tuple[list[int], list[float]]]:
    """By name, the steps and the values; a value that was no number is left out.

    >>> curves_of([{"step": 4, "loss": 0.7, "task_loss": 0.6, "guide/mdg": 2.0, "weight/mdg": 0.1}])
    {'task loss': ([4], [0.6]), 'mdg': ([4], [2.0])}
    """
    found: dict[str, tuple[list[int], list[float]]] = {}
    for entry in log:
        if "loss" not in entry or "step" not in entry:
            continue
        terms = {TASK: entry.get("task_loss", entry["loss"])}
        terms |= {name.removeprefix("guide/"): value for name, value in entry.items() if name.startswith("guide/")}
        for name, value in terms.items():
            if isinstance(value, int | float) and math.isfinite(value):
                steps, values = found.setdefault(name, ([], []))
                steps.append(int(entry["step"]))
                values.append(float(value))
    return found
