"""Received attention: what each token is given by each head."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import PreTrainedModel

from attentune.attention import Observation, count_layers, watch


@dataclass(frozen=True)
class Received:
    """Received attention of one text: `share` (layers, heads, tokens), each head's share sums to 1 over the tokens."""

    tokens: tuple[str, ...]
    share: NDArray[np.float32]


def received_by_head(
    model: PreTrainedModel, tokenizer: Any, texts: Sequence[str], max_length: int = 128
) -> list[Received]:
    """What each token of each text receives from each head of each layer, as shares."""
    layers = count_layers(model)
    passes: list[Observation] = []
    results = []
    was_training = model.training
    model.eval()
    with (
        watch(model, lambda observation: dict.fromkeys(range(layers), ("received",)), passes.append),
        torch.no_grad(),
    ):
        for text in texts:
            encoded = tokenizer(text, truncation=True, max_length=max_length, return_tensors="pt").to(model.device)
            model(**encoded)
            received = torch.stack([passes[-1].layers[layer]["received"][0] for layer in range(layers)])
            passes.clear()
            share = received / received.sum(dim=-1, keepdim=True)
            tokens = tokenizer.convert_ids_to_tokens(encoded["input_ids"][0].tolist())
            results.append(Received(tuple(tokens), share.cpu().numpy()))
    model.train(was_training)
    return results
