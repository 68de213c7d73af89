"""What predictions are scored by: torchmetrics' functions by name, on class ids.

One departure: torchmetrics gives a classifier that always answers the same a small Matthews correlation that is not
zero (0.026 for "acceptable" on all of CoLA's validation split), where GLUE's own scorer gives 0. Here it is 0.
"""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor
from torchmetrics.functional.classification import (
    multiclass_accuracy,
    multiclass_f1_score,
    multiclass_matthews_corrcoef,
)

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


METRICS: dict[str, Callable[[Tensor, Tensor, int], Tensor]] = {"accuracy": accuracy, "matthews": matthews, "f1": f1}


def score(names: Sequence[str], predictions: ArrayLike, references: ArrayLike, classes: int) -> dict[str, float]:
    """Each named metric of the predicted class ids against the true ones.

    >>> score(["accuracy"], [0, 1, 1, 1], [0, 1, 1, 0], classes=2)
    {'accuracy': 0.75}
    """
    predicted, true = _class_ids("predictions", predictions), _class_ids("references", references)
    if len(predicted) != len(true):
        raise UserError(f"{len(predicted)} predictions for {len(true)} references; give one for each row")
    if len(true) == 0:
        raise UserError("there are no predictions to score; give at least one")
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


def _class_ids(what: str, values: ArrayLike) -> Tensor:
    ids = np.asarray(values)
    if ids.ndim != 1 or not (ids.size == 0 or np.issubdtype(ids.dtype, np.integer)):
        raise UserError(f"the {what} have shape {ids.shape} and type {ids.dtype}; give one whole class id for each row")
    return torch.from_numpy(ids.astype(np.int64))
