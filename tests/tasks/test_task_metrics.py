"""Scores against values worked out by hand."""

import math

import numpy as np
import pytest
import torch

from attentune.errors import UserError
from attentune.tasks import Task
from attentune.tasks.metrics import METRICS, score, score_numbers
from attentune.tasks.task import CLASSIFICATION, REGRESSION, SCORE, split

# Ten rows: 4 true positives, 1 false positive, 2 false negatives, 3 true negatives.
REFERENCES = [1, 1, 1, 1, 0, 1, 1, 0, 0, 0]
PREDICTIONS = [1, 1, 1, 1, 1, 0, 0, 0, 0, 0]


def small_task(labels: tuple[str, ...] = ("no", "yes")) -> Task:
    """A task with the smallest splits."""
    rows = split(["0", "1"], {"text": ["a", "b"]}, [0, 1], labels)
    return Task(
        name="small",
        splits={"train": rows, "validation": rows},
        text="text",
        text_pair=None,
        label="label",
        labels=labels,
        metrics=("accuracy", "matthews", "f1"),
        deciding="accuracy",
        source="here",
    )


def test_binary_scores_are_those_of_the_formulas() -> None:
    tp, fp, fn, tn = 4, 1, 2, 3
    scores = small_task().score(PREDICTIONS, REFERENCES)
    matthews = (tp * tn - fp * fn) / math.sqrt((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn))
    f1 = (2 * tp / (2 * tp + fp + fn) + 2 * tn / (2 * tn + fn + fp)) / 2
    assert scores == {"accuracy": 0.7, "matthews": round(matthews, 6), "f1": round(f1, 6)}
    assert all(type(value) is float for value in scores.values())


def test_three_class_scores_are_those_of_the_formulas() -> None:
    references, predictions = [0, 0, 1, 1, 2, 2], [0, 1, 1, 1, 2, 0]
    scores = small_task(("a", "b", "c")).score(predictions, references)
    # By class: precision 1/2, 2/3, 1/1; recall 1/2, 1, 1/2.
    f1 = (1 / 2 + 4 / 5 + 2 / 3) / 3
    # Gorodkin's R: (c·s − Σ p·t) / √((s² − Σ p²)(s² − Σ t²)) with c = 4 right of s = 6.
    predicted, true = (2, 3, 1), (2, 2, 2)
    covariance = 4 * 6 - sum(p * t for p, t in zip(predicted, true, strict=True))
    matthews = covariance / math.sqrt((36 - sum(p * p for p in predicted)) * (36 - sum(t * t for t in true)))
    assert scores == {"accuracy": round(4 / 6, 6), "matthews": round(matthews, 6), "f1": round(f1, 6)}


def test_perfect_and_inverted_predictions_are_the_ends_of_matthews() -> None:
    task = small_task()
    assert task.score([0, 1, 0, 1], [0, 1, 0, 1])["matthews"] == 1.0
    assert task.score([1, 0, 1, 0], [0, 1, 0, 1])["matthews"] == -1.0


@pytest.mark.parametrize("answer", [0, 1])
def test_a_constant_answer_has_no_matthews_correlation(answer: int) -> None:
    references = [1] * 721 + [0] * 322  # CoLA's validation split
    scores = small_task().score([answer] * 1043, references)
    assert scores["matthews"] == 0.0
    assert scores["accuracy"] == round((721 if answer else 322) / 1043, 6)


def test_references_of_one_class_have_no_matthews_correlation() -> None:
    assert small_task().score([1, 1], [1, 1]) == {"accuracy": 1.0, "matthews": 0.0, "f1": 1.0}


@pytest.mark.parametrize("kind", [list, tuple, np.array, torch.tensor, lambda ids: np.array(ids, dtype=np.int32)])
def test_any_kind_of_sequence_is_scored(kind) -> None:
    assert small_task().score(kind(PREDICTIONS), kind(REFERENCES))["accuracy"] == 0.7


def test_only_the_tasks_own_metrics_are_reported() -> None:
    assert set(CLASSIFICATION) < set(METRICS)
    assert score(["matthews"], [0, 1], [0, 1], classes=2) == {"matthews": 1.0}


@pytest.mark.parametrize(
    ("predictions", "references", "sentence"),
    [
        ([0, 1, 1], [0, 1], "3 predictions for 2 references; give one for each row"),
        ([], [], "there are no predictions to score; give at least one"),
        ([0, 1], [-1, -1], "these rows have no labels (-1) to score predictions against; score a split that has them"),
        ([0, 2], [0, 1], "the predictions hold the class id 2; the ids of 2 classes are 0 to 1"),
        ([0, -1], [0, 1], "the predictions hold the class id -1; the ids of 2 classes are 0 to 1"),
        ([0, 1], [0, 7], "the references hold the class id 7; the ids of 2 classes are 0 to 1"),
        (
            [[0.1, 0.9], [0.8, 0.2]],
            [0, 1],
            "the predictions have shape (2, 2) and type float64; give one whole class id for each row",
        ),
    ],
)
def test_what_cannot_be_scored_is_told(predictions, references, sentence: str) -> None:
    with pytest.raises(UserError) as error:
        small_task().score(predictions, references)
    assert str(error.value) == sentence


def test_macro_precision_and_recall_are_means_over_the_classes() -> None:
    references, predictions = [0, 0, 1, 1, 2, 2], [0, 1, 1, 1, 2, 0]
    scores = score(["precision", "recall"], predictions, references, classes=3)
    assert scores == {"precision": round((1 / 2 + 2 / 3 + 1) / 3, 6), "recall": round((1 / 2 + 1 + 1 / 2) / 3, 6)}
    never = score(["precision", "recall", "f1"], [0, 0, 0], [0, 0, 1], classes=2)
    assert never == {"precision": round((2 / 3) / 2, 6), "recall": 0.5, "f1": round((4 / 5) / 2, 6)}


def test_f1_positive_is_that_of_the_second_class_alone() -> None:
    assert score(["f1_positive"], PREDICTIONS, REFERENCES, classes=2) == {"f1_positive": round(8 / (8 + 1 + 2), 6)}


def test_correlations_are_those_of_the_formulas_with_equal_numbers_sharing_their_rank() -> None:
    x, y = [0.5, 2.0, 2.0, 7.0, 4.0], [1.0, 2.5, 3.0, 3.5, 5.0]
    ranks = [1.0, 2.5, 2.5, 5.0, 4.0], [1.0, 2.0, 3.0, 4.0, 5.0]

    def correlation(a: list[float], b: list[float]) -> float:
        mean_a, mean_b = sum(a) / 5, sum(b) / 5
        covariance = sum((p - mean_a) * (q - mean_b) for p, q in zip(a, b, strict=True))
        return covariance / math.sqrt(sum((p - mean_a) ** 2 for p in a) * sum((q - mean_b) ** 2 for q in b))

    found = score_numbers(["pearson", "spearman"], x, y)
    assert found == {"pearson": round(correlation(x, y), 6), "spearman": round(correlation(*ranks), 6)}


def test_numbers_that_are_all_the_same_have_no_correlation() -> None:
    assert score_numbers(["pearson", "spearman"], [3.1, 3.1], [0.0, 5.0]) == {"pearson": 0.0, "spearman": 0.0}


def test_a_regression_scores_numbers() -> None:
    rows = split(["0", "1"], {"text": ["a", "b"]}, [0.5, 4.0], SCORE)
    splits = {"train": rows, "validation": rows}
    task = Task("rated", splits, "text", None, "label", SCORE, REGRESSION, "pearson", "here", "regression")
    assert task.score([1.0, 2.0], rows["label"]) == {"pearson": 1.0, "spearman": 1.0}
    with pytest.raises(UserError, match="have no numbers to score"):
        task.score([1.0, 2.0], [math.nan, math.nan])
    with pytest.raises(UserError, match="hold a value that is no number"):
        task.score([1.0, math.inf], [1.0, 2.0])
    with pytest.raises(UserError, match="3 predictions for 2 references"):
        task.score([1.0, 2.0, 3.0], [1.0, 2.0])
