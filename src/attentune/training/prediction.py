"""Predictions of a trained model, for any number of texts: read in windows, sorted by length within each to pad less, and
answered in batches. No more than a window is held, and the first window is small, so that a first answer comes soon.
"""

from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from attentune.training.encoding import are_cut
from attentune.training.evaluation import finite
from attentune.training.lengths import longest_length
from attentune.training.loading import load_run
from attentune.training.precision import takes_bf16
from attentune.training.run_folder import RunFolder

LARGEST_WINDOW = 4096
"""In texts; a batch that is larger is a window of its own."""


@dataclass(frozen=True)
class Prediction:
    """The label of one text and the probability of each; or, of a model that gives numbers, the number."""

    label: str | None
    probabilities: dict[str, float]
    score: float | None = None

    def fields(self) -> dict[str, Any]:
        """What is told of it.

        >>> Prediction("good", {"bad": 0.25, "good": 0.75}).fields()
        {'label': 'good', 'probabilities': {'bad': 0.25, 'good': 0.75}}
        >>> Prediction(None, {}, 3.5).fields()
        {'score': 3.5}
        """
        if self.score is not None:
            return {"score": self.score}
        return {"label": self.label, "probabilities": self.probabilities}


class Predictor:
    """A trained model, ready to be asked."""

    def __init__(self, model: PreTrainedModel, tokenizer: Any, max_length: int, precision: str = "auto") -> None:
        self.model, self.tokenizer = model.eval(), tokenizer
        self.max_length = longest_length(model, tokenizer, max_length)
        self.cut = 0  # how many texts were longer so far
        self.bf16 = takes_bf16(precision, model.device)
        names = dict(model.config.id2label or {})
        self.labels = [str(name) for _, name in sorted(names.items())]

    @classmethod
    def from_run(
        cls, path: str | Path, precision: str | None = None, *, trust_remote_code: bool = False
    ) -> "Predictor":
        """The model that a run has trained, with the methods that it was saved with, in the run's precision or another."""
        folder = RunFolder.open(path)
        recipe = folder.recipe()
        loaded = load_run(folder, trust_remote_code=trust_remote_code)
        if torch.cuda.is_available():
            loaded.model.to("cuda")  # type: ignore[arg-type]  # transformers' decorator hides the type
        return cls(loaded.model, loaded.tokenizer, recipe.training.max_length, precision or recipe.training.precision)

    @property
    def gives_numbers(self) -> bool:
        """Whether the model answers with a number, not with a class."""
        return len(self.labels) == 1

    def stream(self, texts: Iterable[tuple[str, str | None]], batch_size: int = 32) -> Iterator[Prediction]:
        """One prediction for each text (or pair), in their order, however many there are."""
        for window in self._windows(texts, batch_size):
            if self.gives_numbers:
                yield from (Prediction(None, {}, row[0]) for row in window.tolist())
            else:
                yield from map(self._classified, window.softmax(dim=-1).tolist())

    def answers(self, texts: Iterable[tuple[str, str | None]], batch_size: int = 32) -> Tensor:
        """The model's outputs as they are, before any softmax: (texts, outputs)."""
        found = list(self._windows(texts, batch_size))
        return torch.cat(found) if found else torch.empty(0, len(self.labels))

    def _classified(self, row: list[float]) -> Prediction:
        best = max(range(len(row)), key=row.__getitem__)
        return Prediction(self.labels[best], dict(zip(self.labels, row, strict=True)))

    def _windows(self, texts: Iterable[tuple[str, str | None]], batch_size: int) -> Iterator[Tensor]:
        """The answers window by window, each twice as large as the one before, up to the largest."""
        remaining, size = iter(texts), batch_size
        while window := list(islice(remaining, size)):
            yield self._answer(window, batch_size)
            size = max(batch_size, min(2 * size, LARGEST_WINDOW // batch_size * batch_size))

    def _answer(self, window: list[tuple[str, str | None]], batch_size: int) -> Tensor:
        first = [text for text, _ in window]
        second = [pair for _, pair in window if pair is not None]
        encoded = self.tokenizer(first, second or None, truncation=True, max_length=self.max_length)
        self.cut += sum(are_cut(encoded))
        by_length = sorted(range(len(window)), key=lambda row: len(encoded["input_ids"][row]))
        device = self.model.device.type
        # One autocast for the whole window: it keeps the weights that it has cast.
        with torch.no_grad(), torch.autocast(device, torch.bfloat16) if self.bf16 else nullcontext():
            found = [
                self._logits(encoded, by_length[start : start + batch_size])
                for start in range(0, len(window), batch_size)
            ]
        answers = torch.cat(found)  # (texts, outputs), by length
        return finite(answers[torch.tensor(by_length).argsort()])

    def _logits(self, encoded: Any, rows: list[int]) -> Tensor:
        batch = self.tokenizer.pad(
            {name: [values[row] for row in rows] for name, values in encoded.items()}, return_tensors="pt"
        )
        logits: Tensor = self.model(**batch.to(self.model.device)).logits
        return logits.float().cpu()
