"""What predictions are scored by: torchmetrics' functions by name, on class ids or on numbers.

One departure: torchmetrics gives a classifier that always answers the same a small Matthews correlation that is not
zero (0.026 for "acceptable" on all of CoLA's validation split), where GLUE's own scorer gives 0. Here it is 0, and so
is the correlation of numbers that are all the same.
"""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import ArrayLike
from scipy.stats import rankdata
from torch import Tensor
from torchmetrics.functional.classification import (
    multiclass_accuracy,
    multiclass_f1_score,
    multiclass_matthews_corrcoef,
    multiclass_precision,
    multiclass_recall,
)
from torchmetrics.functional.regression import pearson_corrcoef

from attentune.errors import UserError


def accuracy(predictions: Tensor, references: Tensor, classes: int) -> Tensor:
    """The share of rows that are right.

    >>> accuracy(torch.tensor([0, 1, 1, 1]), torch.tensor([0, 1, 1, 0]), 2)
    tensor(0.7500)
    """
    return multiclass_accuracy(predictions, references, num_classes=classes, average="micro")


def matthews(predictions: Tensor, references: Tensor, classes: int) -> Tensor:
    """The Matthews correlation; 0 where predictions or references are all the same, and so correlate with nothing.

    >>> matthews(torch.tensor([1, 1, 1]), torch.tensor([1, 1, 0]), 2)
    tensor(0.)
    """
    if predictions.min() == predictions.max() or references.min() == references.max():
        return torch.tensor(0.0)
    return multiclass_matthews_corrcoef(predictions, references, num_classes=classes)


def f1(predictions: Tensor, references: Tensor, classes: int) -> Tensor:
    """The mean over the classes (macro) of their F1; a class that is neither predicted nor there does not count.

    >>> f1(torch.tensor([0, 1]), torch.tensor([0, 1]), 2)
    tensor(1.)
    """
    return multiclass_f1_score(predictions, references, num_classes=classes, average="macro")


def precision(predictions: Tensor, references: Tensor, classes: int) -> Tensor:
    """The mean over the classes of the share of predictions that are right; 0 for a class that is never predicted.

    >>> precision(torch.tensor([0, 1, 1, 1]), torch.tensor([0, 1, 1, 0]), 2)
    tensor(0.8333)
    """
    return multiclass_precision(predictions, references, num_classes=classes, average="macro")


def recall(predictions: Tensor, references: Tensor, classes: int) -> Tensor:
    """The mean over the classes of the share of rows that are found.

    >>> recall(torch.tensor([0, 1, 1, 1]), torch.tensor([0, 1, 1, 0]), 2)
    tensor(0.7500)
    """
    return multiclass_recall(predictions, references, num_classes=classes, average="macro")


def f1_positive(predictions: Tensor, references: Tensor, classes: int) -> Tensor:
    """The F1 of the last class alone: what GLUE calls the F1 of MRPC and QQP.

    >>> f1_positive(torch.tensor([0, 1, 1, 1]), torch.tensor([0, 1, 1, 0]), 2)
    tensor(0.8000)
    """
    return multiclass_f1_score(predictions, references, num_classes=classes, average="none")[-1]


def pearson(predictions: Tensor, references: Tensor) -> Tensor:
    """The linear correlation; 0 where predictions or references are all the same.

    >>> round(pearson(torch.tensor([1.0, 2.0, 4.0]), torch.tensor([2.0, 4.0, 8.0])).item(), 6)
    1.0
    """
    return _correlation(predictions, references)


def spearman(predictions: Tensor, references: Tensor) -> Tensor:
    """The correlation of ranks, equal numbers sharing the mean of theirs; 0 where numbers are all the same.

    >>> round(spearman(torch.tensor([1.0, 2.0, 4.0]), torch.tensor([1.0, 2.0, 100.0])).item(), 6)
    1.0
    """
    # torchmetrics' own adds a millionth to the spread of the ranks, which shows where there are few.
    ranks = (torch.from_numpy(rankdata(values)) for values in (predictions, references))
    return _correlation(*ranks)


def _correlation(predictions: Tensor, references: Tensor) -> Tensor:
    if predictions.min() == predictions.max() or references.min() == references.max():
        return torch.tensor(0.0)
    return pearson_corrcoef(predictions, references)


METRICS: dict[str, Callable[[Tensor, Tensor, int], Tensor]] = {
    "accuracy": accuracy,
    "matthews": matthews,
    "precision": precision,
    "recall": recall,
    "f1": f1,
    "f1_positive": f1_positive,
}
OF_NUMBERS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {"pearson": pearson, "spearman": spearman}


def score(names: Sequence[str], predictions: ArrayLike, references: ArrayLike, classes: int) -> dict[str, float]:
    """Each named metric of the predicted class ids against the true ones.

    >>> score(["accuracy"], [0, 1, 1, 1], [0, 1, 1, 0], classes=2)
    {'accuracy': 0.75}
    """
    predicted, true = _class_ids("predictions", predictions), _class_ids("references", references)
    _check_lengths(predicted, true)
    if (true < 0).any():
        raise UserError("these rows have no labels (-1) to score predictions against; score a split that has them")
    for what, ids in (("predictions", predicted), ("references", true)):
        if ids.min() < 0 or ids.max() >= classes:
            wrong = int(ids.min() if ids.min() < 0 else ids.max())
            raise UserError(
                f"the {what} hold the class id {wrong}; the ids of {classes} classes are 0 to {classes - 1}"
            )
    # torchmetrics computes in float32; beyond six places stand only its rounding errors (0.8999999762).
    return {name: round(METRICS[name](predicted, true, classes).item(), 6) for name in names}


def score_numbers(names: Sequence[str], predictions: ArrayLike, references: ArrayLike) -> dict[str, float]:
    """Each named metric of the predicted numbers against the true ones.

    >>> score_numbers(["pearson"], [0.0, 1.0, 1.0, 2.0], [0.0, 1.0, 3.0, 4.0])
    {'pearson': 0.894427}
    """
    predicted, true = _numbers("predictions", predictions), _numbers("references", references)
    _check_lengths(predicted, true)
    if true.isnan().any():
        raise UserError("these rows have no numbers to score predictions against; score a split that has them")
    if not predicted.isfinite().all():
        raise UserError("the predictions hold a value that is no number; give one number for each row")
    return {name: round(OF_NUMBERS[name](predicted, true).item(), 6) for name in names}


def _check_lengths(predicted: Tensor, true: Tensor) -> None:
    if len(predicted) != len(true):
        raise UserError(f"{len(predicted)} predictions for {len(true)} references; give one for each row")
    if len(true) == 0:
        raise UserError("there are no predictions to score; give at least one")


def _numbers(what: str, values: ArrayLike) -> Tensor:
    numbers = np.asarray(values, dtype=np.float64)
    if numbers.ndim != 1:
        raise UserError(f"the {what} have shape {numbers.shape}; give one number for each row")
    return torch.from_numpy(numbers)


def _class_ids(what: str, values: ArrayLike) -> Tensor:
    ids = np.asarray(values)
    if ids.ndim != 1 or not (ids.size == 0 or np.issubdtype(ids.dtype, np.integer)):
        raise UserError(f"the {what} have shape {ids.shape} and type {ids.dtype}; give one whole class id for each row")
    return torch.from_numpy(ids.astype(np.int64))
