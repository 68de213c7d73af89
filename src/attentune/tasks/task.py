"""A task: rows of text with labels in splits, and what decides how well they are told apart, rated or ranked.

The text stays text; tokenizing is training's. A label of −1, or NaN where labels are numbers, says that a row has none
(GLUE's test splits).
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import datasets
from numpy.typing import ArrayLike

from attentune.errors import UserError
from attentune.tasks.sampling import draw, draw_groups

Kind = Literal["classification", "regression", "ranking"]

NO_LABEL = -1
NO_NUMBER = math.nan
CLASSIFICATION = ("accuracy", "matthews", "precision", "recall", "f1")
REGRESSION = ("pearson", "spearman")
RANKING = ("mrr", "r@1", "r@3", "r@5", "r@20")
SCORE = ("score",)
"""The one output of a regression, where classifications have the names of their classes."""
RELEVANCE = ("not_relevant", "relevant")
"""The classes of a ranking task's pairs."""
SHOWN_CLASSES = 5
SHOWN_LETTERS = 24


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
    """The names of the classes, in the order of their ids; the single name of the number where numbers are predicted."""
    metrics: tuple[str, ...]
    deciding: str
    """The one of the metrics that says which of two models is better."""
    source: str
    """Where the data came from, as a sentence for the user."""
    kind: Kind = "classification"
    """Whether texts are told apart (a label is a class id), rated (a number), or ranked (pairs that are relevant or not,
    with the columns `query`, `document` and `relevant`, which is how many relevant documents the query has)."""
    groups: tuple[str, ...] = ()
    """Columns by which scores are broken down, as HANS by heuristic."""

    @property
    def judged(self) -> tuple[str, ...]:
        """The splits that a model is judged on after training; the first one decides.

        >>> rows = split(["0"], {"text": ["a fine film"]}, [0.5], SCORE)
        >>> splits = {"train": rows, "validation": rows, "validation_mismatched": rows, "test": rows}
        >>> Task("films", splits, "text", None, "label", SCORE, REGRESSION, "pearson", "here", "regression").judged
        ('validation', 'validation_mismatched')
        """
        return tuple(name for name in self.splits if name.partition("_")[0] == "validation")

    def require_training_rows(self) -> None:
        """Raise an error where there is nothing to train on, or nothing to judge by."""
        if "train" not in self.splits or "validation" not in self.splits:
            what = "train on" if "train" not in self.splits else "judge a model by after training"
            raise UserError(
                f"{self.name} has no rows to {what} ({self.source}); train on another task, "
                f"and score with: attentune evaluate --run … --task {self.name}"
            )

    def score(self, predictions: ArrayLike, references: ArrayLike) -> dict[str, float]:
        """Each of the task's metrics of predicted class ids, or numbers, against the true ones; see `judge` for rankings."""
        from attentune.tasks import metrics  # here, because torchmetrics takes seconds to import

        if self.kind == "ranking":
            raise UserError(f"{self.name} is a ranking task: a document is scored among its query's others, by judge")
        if self.kind == "regression":
            return metrics.score_numbers(self.metrics, predictions, references)
        return metrics.score(self.metrics, predictions, references, len(self.labels))

    def told(self) -> str:
        """How many rows there are, and of which labels: one that is none shows here.

        >>> rows = split(["0", "1"], {"text": ["a fine film", "a bore"]}, [4.5, 1.0], SCORE)
        >>> Task("films", {"train": rows}, "text", None, "label", SCORE, REGRESSION, "pearson", "", "regression").told()
        '2 train; numbers from 1 to 4.5'
        """
        rows = ", ".join(f"{len(split):,} {name}" for name, split in self.splits.items())
        split = next(iter(self.splits.values()))
        labels: list[Any] = split[self.label][:]
        if self.kind == "regression":
            return f"{rows}; numbers from {min(labels):g} to {max(labels):g}"
        counts = Counter(labels)
        names = [name if len(name) <= SHOWN_LETTERS else name[:SHOWN_LETTERS] + "…" for name in self.labels]
        shown = [f"{name!r} {counts[label]:,}" for label, name in enumerate(names)]
        more = ", …" if len(shown) > SHOWN_CLASSES else ""
        told = f"{rows}; {len(shown)} classes: {', '.join(shown[:SHOWN_CLASSES])}{more}"
        return f"{told}; {len(set(split['query']))} train queries" if self.kind == "ranking" else told

    def sample(self, max_train: int | None = None, max_eval: int | None = None, seed: int = 0) -> "Task":
        """The task with at most so many rows in training and in every other split, drawn in proportion to the classes.

        The same seed draws the same rows, and a smaller sample is part of a larger one. Of a ranking task so many queries
        are drawn, each with all its documents.
        """
        splits, told = dict(self.splits), []
        for name, rows in self.splits.items():
            flag, most = ("max-train", max_train) if name == "train" else ("max-eval", max_eval)
            if most is not None and most < 1:
                raise UserError(f"--{flag} is {most}; give 1 or more rows")
            what, units = self._units(name)
            if most is not None and most < units:
                splits[name] = rows.select(self._draw(rows, most, seed))
                told.append(f"{most:,} of {units:,} {name} {what}")
        if not told:
            return self
        return replace(
            self, splits=splits, source=f"{self.source}; a sample of {', '.join(told)}, drawn with seed {seed}"
        )

    def _units(self, name: str) -> tuple[str, int]:
        rows = self.splits[name]
        return ("queries", len(set(rows["query"]))) if self.kind == "ranking" else ("rows", len(rows))

    def _draw(self, rows: datasets.Dataset, size: int, seed: int) -> list[int]:
        if self.kind == "ranking":
            return draw_groups(rows["query"][:], size, seed)
        return draw([0] * len(rows) if self.kind == "regression" else rows[self.label], size, seed)


def split(
    ids: Sequence[str],
    texts: Mapping[str, Sequence[str]],
    labels: Sequence[float],
    names: Sequence[str],
    **more: Sequence[Any],
) -> datasets.Dataset:
    """The rows of one split, in memory: `id`, the text columns, `label` (a class id; a number under a single name), and
    `more` columns.

    >>> split(["0"], {"sentence": ["They drank the pub dry."]}, [1], ["unacceptable", "acceptable"])[0]
    {'id': '0', 'sentence': 'They drank the pub dry.', 'label': 1}
    """
    text = datasets.Value("string")
    label = datasets.ClassLabel(names=list(names)) if len(names) > 1 else datasets.Value("float64")
    features = {"id": text, **dict.fromkeys(texts, text), "label": label}
    columns = {"id": list(ids), **{name: list(column) for name, column in texts.items()}, "label": list(labels)}
    for name, values in more.items():
        columns[name] = list(values)
        features[name] = datasets.Value("int64") if all(isinstance(value, int) for value in values) else text
    return datasets.Dataset.from_dict(columns, features=datasets.Features(features))
