"""Attention maps themselves, for pictures: a text at a time, through the reference backend."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import PreTrainedModel

from attentune.analysis.texts import TextOrPair, Token, encode, shown_tokens
from attentune.attention import Observation, count_layers, watch


@dataclass(frozen=True)
class Maps:
    """All maps of one text: `maps` (layers, heads, queries, keys), each row sums to 1."""

    tokens: tuple[Token, ...]
    maps: NDArray[np.float32]


@dataclass(frozen=True)
class AverageMap:
    """The mean map over layers and heads, (tokens, tokens), of a text's first tokens."""

    tokens: tuple[str, ...]
    map: NDArray[np.float32]


def attention_maps(
    model: PreTrainedModel, tokenizer: Any, texts: Sequence[TextOrPair], max_length: int = 128
) -> Iterator[Maps]:
    """The maps of each text in turn; between two texts the model may be used for anything else."""
    layers = range(count_layers(model))
    for text in texts:
        encoded = encode(tokenizer, [text], max_length)
        tokens = shown_tokens(tokenizer, encoded, 0, text)
        passes: list[Observation] = []
        was_training = model.training
        model.eval()
        try:
            with watch(model, lambda seen: dict.fromkeys(layers, ("maps",)), passes.append), torch.no_grad():
                model(**encoded.to(model.device))
        finally:
            model.train(was_training)
        read = passes[0].layers
        yield Maps(tokens, torch.stack([read[layer]["maps"][0] for layer in layers]).float().cpu().numpy())


def average_map(
    model: PreTrainedModel, tokenizer: Any, text: TextOrPair, first: int = 15, max_length: int = 128
) -> AverageMap:
    """The mean of all maps of a text, cut to its first tokens: Figure 4 of the attention-guiding paper."""
    (found,) = attention_maps(model, tokenizer, [text], max_length)
    return AverageMap(tuple(token.text for token in found.tokens[:first]), found.maps.mean(axis=(0, 1))[:first, :first])
