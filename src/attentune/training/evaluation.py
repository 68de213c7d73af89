"""A trained model judged on the held-out split: the task's scores, and each prediction."""

from typing import Any

import datasets
import numpy as np
import torch

from attentune.errors import UserError
from attentune.tasks import Task
from attentune.training.trainer import Trainer


def evaluate(trainer: Trainer, task: Task, rows: datasets.Dataset) -> tuple[dict[str, float], list[dict[str, Any]]]:
    """Scores on the evaluation split, and its predictions in the order of the data, whatever that of `rows`."""
    trainer.args.train_sampling_strategy = "sequential"  # keep rows and predictions in one order
    output = trainer.predict(rows)
    logits = output.predictions[0] if isinstance(output.predictions, tuple) else output.predictions
    as_in_data = np.argsort(rows["position"])
    probabilities = finite(torch.from_numpy(np.asarray(logits)[as_in_data]).float()).softmax(dim=-1)
    predicted = probabilities.argmax(dim=-1).tolist()
    split = task.splits["validation"]
    truths = split[task.label][:]
    scores = task.score(predicted, truths)
    scores["loss"] = float((output.metrics or {})["test_loss"])
    predictions = [
        {
            "id": identity,
            "label": task.labels[truth],
            "prediction": task.labels[guess],
            "probabilities": {label: round(p, 6) for label, p in zip(task.labels, row, strict=True)},
        }
        for identity, truth, guess, row in zip(split["id"], truths, predicted, probabilities.tolist(), strict=True)
    ]
    return scores, predictions


def scores_of(task: Task, answers: Any, truths: Any) -> dict[str, float]:
    """The task's scores of a model's answers (rows, classes), as they are watched while it is trained."""
    logits = answers[0] if isinstance(answers, tuple) else answers
    return task.score(np.asarray(logits).argmax(axis=-1), truths)


def finite(logits: torch.Tensor) -> torch.Tensor:
    """The model's answers, if they are numbers; logits is (texts, classes).

    >>> finite(torch.tensor([[0.0, 1.0], [float("nan"), 0.0]]))
    Traceback (most recent call last):
    attentune.errors.UserError: the model gives no numbers for 1 of 2 texts: its training has diverged; train it again ...
    """
    broken = int((~logits.isfinite()).any(dim=-1).sum())
    if broken:
        raise UserError(
            f"the model gives no numbers for {broken:,} of {len(logits):,} texts: its training has diverged; train it again "
            "with a lower --lr or a lower weight of the method"
        )
    return logits
