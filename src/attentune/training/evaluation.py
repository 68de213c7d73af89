"""A trained model judged on held-out splits: the task's scores, what they are made of, and each prediction."""

from collections.abc import Callable, Sequence
from typing import Any

import datasets
import numpy as np
import torch
from transformers import EvalPrediction

from attentune.errors import UserError
from attentune.tasks import Judged, Task, judge
from attentune.training.encoding import Encoded
from attentune.training.trainer import Trainer


def evaluate(trainer: Trainer, task: Task, rows: datasets.Dataset, split: str = "validation") -> Judged:
    """What the model is worth on a split, its predictions in the order of the data, whatever that of `rows`."""
    answers = _in_data(rows, trainer.predict(rows).predictions)
    judged = _judged(task, answers, split)
    # Not transformers' own, a mean of means over processes, in which rows that fill up the last batch count twice.
    judged.scores["loss"] = _loss(answers, task.splits[split][task.label][:])
    return judged


def evaluate_all(trainer: Trainer, task: Task, encoded: Encoded) -> dict[str, Judged]:
    """Each split that the task is judged on, by name, the deciding one first."""
    return {name: evaluate(trainer, task, encoded.judged(name), name) for name in task.judged}


def scores_of(judged: dict[str, Judged]) -> dict[str, float]:
    """All scores by one name each: those of `validation_mismatched` begin with `mismatched_`."""
    named = {split.removeprefix("validation").removeprefix("_"): one.scores for split, one in judged.items()}
    return {f"{split}_{name}" if split else name: value for split, own in named.items() for name, value in own.items()}


def details_of(judged: dict[str, Judged]) -> dict[str, object]:
    """What the scores are made of, by split: confusion matrix and the figures of each class, or of each group."""
    return {split: one.details for split, one in judged.items()}


def watched(task: Task, rows: datasets.Dataset) -> Callable[[EvalPrediction], dict[str, float]]:
    """What the task's scores are made by while a model is trained and watched on the rows of the validation split."""
    return lambda output: _judged(task, _in_data(rows, output.predictions), "validation").scores


def _in_data(rows: datasets.Dataset, answers: Any) -> torch.Tensor:
    """Answers to the encoded rows, in their order, brought to the order of the data: (rows, outputs)."""
    logits = answers[0] if isinstance(answers, tuple) else answers
    return finite(torch.from_numpy(np.asarray(logits)[np.argsort(rows["position"])]).float())


def _judged(task: Task, answers: torch.Tensor, split: str) -> Judged:
    return judge(task, task.splits[split], answers, task.labels, range(len(task.labels)))


def _loss(answers: torch.Tensor, truths: Sequence[float]) -> float:
    """The mean over all rows; a model with one output is a regression."""
    if answers.shape[-1] == 1:
        return float(torch.nn.functional.mse_loss(answers[:, 0], torch.tensor(truths, dtype=answers.dtype)))
    return float(torch.nn.functional.cross_entropy(answers, torch.tensor(truths)))


def finite(logits: torch.Tensor) -> torch.Tensor:
    """The model's answers, if they are numbers; logits is (texts, outputs).

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
