"""A forward pass before a run begins, so that a model which can't be guided is told of before anything is written."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from transformers import PreTrainedModel

from attentune.methods import Method, Sum, TrainingTexts, attach
from attentune.training.collation import GIVEN, BringColumns
from attentune.training.columns import columns_of, draw

FEW_TOKENS = 8


def try_method(
    model: PreTrainedModel, method: Method | Sum | str, tokenizer: Any, text: str, pair: str | None = None
) -> None:
    """Raise the UserError that guiding `model` would raise in training; the model is left as it was.

    Where the method has columns of the training data, it is tried on those of this one text, or pair of texts.
    """
    was_training = model.training
    model.eval()  # no dropout, so that no random number is drawn
    try:
        with attach(model, method, tokenizer) as guided, torch.no_grad():
            if guided.method.parts:
                batch = _one_row(guided.method, tokenizer, [text] if pair is None else [text, pair])
                guided.give(batch.pop(GIVEN, {}))
                model(**{name: values.to(model.device) for name, values in batch.items()})
                _ = guided.terms
    finally:
        model.train(was_training)


def _one_row(method: Sum, tokenizer: Any, texts: list[str]) -> dict[str, Any]:
    """A batch of one row, whose texts are cut to a few tokens."""
    first, pairs = [texts[0]], texts[1:] or None
    columns = [first] if pairs is None else [first, pairs]
    encoded = tokenizer(*columns, truncation=True, max_length=FEW_TOKENS)
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:  # not in the cache, which is for what is trained on
        drawn = draw(method, TrainingTexts(first, pairs, cache_dir=Path(folder)))
        row = {**encoded, **columns_of(drawn, [0], encoded, *columns)}
    collate = BringColumns(method, lambda rows: {name: torch.tensor([rows[0][name]]) for name in encoded})
    return collate([{name: values[0] for name, values in row.items()}])
