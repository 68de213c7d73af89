"""The task's loss with a weight for each class: mean over rows of w(class) · cross-entropy.

Weights are scaled so that their mean over the training rows is 1: the loss keeps its size beside a guide's, and, unlike
torch's weighted mean, a batch in parts, or shared by processes, gives the gradient of the batch whole.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from attentune.errors import UserError


def weights_of_classes(
    given: Literal["balanced"] | Sequence[float], labels: Sequence[int], names: Sequence[str]
) -> list[float]:
    """A weight for each class; "balanced" gives all classes the same share of the loss.

    >>> weights_of_classes("balanced", [0, 0, 0, 1], ("common", "rare"))
    [0.6666666666666666, 2.0]
    """
    if not names:
        raise UserError("training.class_weights is for tasks with classes, and this one has none; leave it out")
    counts = Counter(labels)
    if given == "balanced":
        there = len(counts)
        return [len(labels) / (there * counts[i]) if counts[i] else 0.0 for i in range(len(names))]
    if len(given) != len(names):
        shown = ", ".join(names[:10]) + (", …" if len(names) > 10 else "")
        raise UserError(
            f"training.class_weights has {len(given)} numbers, and there are {len(names)} classes: {shown}; give one for each"
        )
    values = [float(weight) for weight in given]
    mean = sum(values[label] for label in labels) / len(labels)
    return [value / mean for value in values]


def weighted_loss(weights: Sequence[float]) -> Callable[..., Tensor]:
    """The loss as transformers' `compute_loss_func` takes it: a sum over the step's rows, divided by their number."""

    def loss(outputs: Any, labels: Tensor, num_items_in_batch: Tensor | int | None = None) -> Tensor:
        logits = outputs["logits"]
        each = cross_entropy(logits.float(), labels, torch.tensor(weights, device=logits.device), reduction="sum")
        return each / (len(labels) if num_items_in_batch is None else num_items_in_batch)

    return loss
