"""A forward pass before a run begins, so that a model which can't be guided is told of before anything is written."""

from typing import Any

import torch
from transformers import PreTrainedModel

from attentune.methods import Method, Sum, attach

FEW_TOKENS = 8


def try_method(model: PreTrainedModel, method: Method | Sum | str, tokenizer: Any, text: str) -> None:
    """Raise the UserError that guiding `model` would raise in training; the model is left as it was."""
    was_training = model.training
    model.eval()  # no dropout, so that no random number is drawn
    try:
        with attach(model, method, tokenizer) as guided, torch.no_grad():
            if guided.method.parts:
                encoded = tokenizer(text, truncation=True, max_length=FEW_TOKENS, return_tensors="pt")
                model(**encoded.to(model.device))
                _ = guided.terms
    finally:
        model.train(was_training)
