"""Predictions of a trained classifier, in batches, for any number of texts."""

from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedModel

from attentune.training.encoding import are_cut
from attentune.training.evaluation import finite
from attentune.training.lengths import longest_length
from attentune.training.models import load_for_classification
from attentune.training.precision import takes_bf16
from attentune.training.run_folder import RunFolder


@dataclass(frozen=True)
class Prediction:
    """The label of one text, and the probability of each."""

    label: str
    probabilities: dict[str, float]


class Predictor:
    """A trained classifier, ready to be asked."""

    def __init__(self, model: PreTrainedModel, tokenizer: Any, max_length: int, precision: str = "auto") -> None:
        self.model, self.tokenizer = model.eval(), tokenizer
        self.max_length = longest_length(model, tokenizer, max_length)
        self.cut = 0  # how many texts were longer so far
        self.bf16 = takes_bf16(precision, model.device)
        names = dict(model.config.id2label or {})
        self.labels = [str(name) for _, name in sorted(names.items())]

    @classmethod
    def from_run(cls, path: str | Path) -> "Predictor":
        """The classifier that a run has trained."""
        folder = RunFolder.open(path)
        recipe = folder.recipe()
        model, tokenizer = load_for_classification(str(folder.checkpoint), trust_remote_code=recipe.trust_remote_code)
        if torch.cuda.is_available():
            model.to("cuda")  # type: ignore[arg-type]  # transformers' decorator hides the type
        return cls(model, tokenizer, recipe.training.max_length, recipe.training.precision)

    def stream(self, texts: Iterable[tuple[str, str | None]], batch_size: int = 32) -> Iterator[Prediction]:
        """One prediction for each text (or pair), in their order, however many there are."""
        remaining = iter(texts)
        while batch := list(islice(remaining, batch_size)):
            yield from self._predict(batch)

    def _predict(self, batch: list[tuple[str, str | None]]) -> list[Prediction]:
        first = [text for text, _ in batch]
        second = [pair for _, pair in batch if pair is not None]
        encoded = self.tokenizer(
            first, second or None, truncation=True, max_length=self.max_length, padding=True, return_tensors="pt"
        )
        self.cut += sum(are_cut(encoded))
        encoded = encoded.to(self.model.device)
        device = self.model.device.type
        with torch.inference_mode(), torch.autocast(device, torch.bfloat16) if self.bf16 else nullcontext():
            logits = self.model(**encoded).logits
        rows = finite(logits.float()).softmax(dim=-1).tolist()
        return [
            Prediction(self.labels[max(range(len(row)), key=row.__getitem__)], dict(zip(self.labels, row, strict=True)))
            for row in rows
        ]
