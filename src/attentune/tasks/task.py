"""A task: rows of text with labels in splits, and what decides how well they are told apart.

The text stays text; tokenizing is training's. A label of −1 says that a row has none (GLUE's test splits).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import datasets
from numpy.typing import ArrayLike

from attentune.errors import UserError
from attentune.tasks.sampling import draw

NO_LABEL = -1
CLASSIFICATION = ("accuracy", "matthews", "f1")


@dataclass(frozen=True)
class Task:
    """What a model is trained and judged on.

    >>> rows = split(["0", "1"], {"text": ["a fine film", "a bore"]}, [1, 0], ("negative", "positive"))
    >>> task = Task(
    ...     name="films",
    ...     splits={"train": rows, "validation": rows},
    ...     text="text",
    ...     text_pair=None,
    ...     label="label",
    ...     labels=("negative", "positive"),
    ...     metrics=("accuracy",),
    ...     deciding="accuracy",
    ...     source="two sentences",
    ... )
    >>> task.score(predictions=[1, 1], references=task.splits["validation"]["label"])
    {'accuracy': 0.5}
    """

    name: str
    splits: dict[str, datasets.Dataset]
    """`train`, `validation` and, where there is one, `test`; each with `id`, the text or texts, and the label."""
    text: str
    text_pair: str | None
    label: str
    labels: tuple[str, ...]
    """The names of the classes, in the order of their ids."""
    metrics: tuple[str, ...]
    deciding: str
    """The one of the metrics that says which of two models is better."""
    source: str
    """Where the data came from, as a sentence for the user."""

    def score(self, predictions: ArrayLike, references: ArrayLike) -> dict[str, float]:
        """Each of the task's metrics of predicted class ids against the true ones."""
        from attentune.tasks import metrics  # here, because torchmetrics takes seconds to import

        return metrics.score(self.metrics, predictions, references, len(self.labels))

    def sample(self, max_train: int | None = None, max_eval: int | None = None, seed: int = 0) -> "Task":
        """The task with at most so many rows in training and in every other split, drawn in proportion to the labels.

        The same seed draws the same rows, and a smaller sample is part of a larger one.
        """
        splits, told = dict(self.splits), []
        for name, rows in self.splits.items():
            flag, most = ("max-train", max_train) if name == "train" else ("max-eval", max_eval)
            if most is not None and most < 1:
                raise UserError(f"--{flag} is {most}; give 1 or more rows")
            if most is not None and most < len(rows):
                splits[name] = rows.select(draw(rows[self.label], most, seed))
                told.append(f"{most:,} of {len(rows):,} {name} rows")
        if not told:
            return self
        return replace(
            self, splits=splits, source=f"{self.source}; a sample of {', '.join(told)}, drawn with seed {seed}"
        )


def split(
    ids: Sequence[str], texts: Mapping[str, Sequence[str]], class_ids: Sequence[int], labels: Sequence[str]
) -> datasets.Dataset:
    """The rows of one split, in memory: `id`, the text columns, and `label`.

    >>> split(["0"], {"sentence": ["They drank the pub dry."]}, [1], ["unacceptable", "acceptable"])[0]
    {'id': '0', 'sentence': 'They drank the pub dry.', 'label': 1}
    """
    text = datasets.Value("string")
    features = {"id": text, **dict.fromkeys(texts, text), "label": datasets.ClassLabel(names=list(labels))}
    columns = {"id": list(ids), **{name: list(column) for name, column in texts.items()}, "label": list(class_ids)}
    return datasets.Dataset.from_dict(columns, features=datasets.Features(features))
