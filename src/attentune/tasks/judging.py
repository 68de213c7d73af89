"""A model's answers to the rows of a split, judged: scores, what they are made of, and each prediction.

Beside the scores stand the confusion matrix and the figures of each class, or of each group of rows where the task has
groups (HANS by heuristic and by subcase).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import datasets
import torch
from torch import Tensor

from attentune.errors import UserError
from attentune.tasks.ranked import Ranked, rank
from attentune.tasks.ranked import score as ranking_score
from attentune.tasks.task import RELEVANCE, Task


@dataclass(frozen=True)
class Judged:
    """How good the answers to one split are."""

    scores: dict[str, float]
    details: dict[str, Any]
    predictions: list[dict[str, Any]]
    ranking: list[Ranked]
    """Of a ranking task; empty for others."""


def judge(task: Task, rows: datasets.Dataset, answers: Tensor, answered: Sequence[str], ids: Sequence[int]) -> Judged:
    """Judge a model's outputs, (rows, outputs) before any softmax, for the rows in their order.

    `answered` are the names of the outputs, and `ids` the task's class id for each of them, as `match` gives them.
    """
    if len(answers) != len(rows):
        raise UserError(f"{len(answers)} answers for {len(rows)} rows; give one for each row")
    answers = answers.double()
    if task.kind == "regression":
        return _judge_numbers(task, rows, answers)
    probabilities = answers.softmax(dim=-1)
    predicted = [ids[answer] for answer in answers.argmax(dim=-1).tolist()]
    truths: list[int] = rows[task.label][:]
    _require_labels(task, min(truths) < 0)
    predictions = [
        {
            "id": identity,
            "label": task.labels[truth],
            "prediction": task.labels[guess],
            "probabilities": {name: round(p, 6) for name, p in zip(answered, row, strict=True)},
        }
        for identity, truth, guess, row in zip(rows["id"], truths, predicted, probabilities.tolist(), strict=True)
    ]
    details = _confusion(task, predicted, truths)
    if task.kind == "ranking":
        relevant = list(ids).index(RELEVANCE.index("relevant"))
        log_odds = (
            answers[:, relevant] - answers[:, 1 - relevant]
        ).tolist()  # a softmax would make the surest ones equal
        is_relevant = [task.labels[truth] == "relevant" for truth in truths]
        ranked = rank(rows["query"][:], rows["document"][:], log_odds, is_relevant, rows["relevant"][:])
        details["queries"] = len(ranked)
        details["queries_without_a_relevant_candidate"] = sum(not any(one.is_relevant) for one in ranked)
        return Judged(ranking_score(ranked), details, predictions, ranked)
    details |= _by_group(task, rows, predicted, truths)
    return Judged(task.score(predicted, truths), details, predictions, [])


def _judge_numbers(task: Task, rows: datasets.Dataset, answers: Tensor) -> Judged:
    from torchmetrics.functional.regression import mean_absolute_error, mean_squared_error

    values: list[float] = answers[:, 0].tolist()
    truths: list[float] = rows[task.label][:]
    _require_labels(task, any(truth != truth for truth in truths))
    scores = task.score(values, truths)
    predictions = [
        {"id": identity, "label": truth, "prediction": round(value, 6)}
        for identity, truth, value in zip(rows["id"], truths, values, strict=True)
    ]
    pair = (torch.tensor(values), torch.tensor(truths))
    details = {
        "mean_absolute_error": round(mean_absolute_error(*pair).item(), 6),
        "root_mean_squared_error": round(mean_squared_error(*pair, squared=False).item(), 6),
    }
    return Judged(scores, details, predictions, [])


def _require_labels(task: Task, are_missing: bool) -> None:
    if are_missing:
        raise UserError(f"these rows of {task.name} have no labels to judge answers by; choose a split that has them")


def _confusion(task: Task, predicted: Sequence[int], truths: Sequence[int]) -> dict[str, Any]:
    """The confusion matrix, true classes by predicted ones, and each class's precision, recall, F1 and rows."""
    from torchmetrics.functional.classification import (
        multiclass_confusion_matrix,
        multiclass_f1_score,
        multiclass_precision,
        multiclass_recall,
    )

    classes, pair = len(task.labels), (torch.tensor(predicted), torch.tensor(truths))
    matrix = multiclass_confusion_matrix(*pair, num_classes=classes).tolist()
    measures = {"precision": multiclass_precision, "recall": multiclass_recall, "f1": multiclass_f1_score}
    figures = {name: measure(*pair, num_classes=classes, average="none").tolist() for name, measure in measures.items()}
    return {
        "confusion": {"labels": list(task.labels), "true_by_predicted": matrix},
        "classes": {
            label: {name: round(values[number], 6) for name, values in figures.items()} | {"rows": sum(matrix[number])}
            for number, label in enumerate(task.labels)
        },
    }


def _by_group(task: Task, rows: datasets.Dataset, predicted: Sequence[int], truths: Sequence[int]) -> dict[str, Any]:
    """Accuracy and number of rows by the values of each of the task's groups, and within these by true class."""
    from attentune.tasks import metrics

    found: dict[str, Any] = {}
    for column in task.groups:
        members: dict[tuple[str, int], list[int]] = {}
        for row, key in enumerate(zip(rows[column], truths, strict=True)):
            members.setdefault(key, []).append(row)
        by_value: dict[str, Any] = {}
        for (value, truth), own in sorted(members.items()):
            guesses = [predicted[row] for row in own]
            accuracy = metrics.score(("accuracy",), guesses, [truth] * len(own), len(task.labels))
            by_value.setdefault(value, {})[task.labels[truth]] = accuracy | {"rows": len(own)}
        found[column] = by_value
    return {"groups": found} if found else {}
