"""How different the heads of a model are, by what tokens receive from them: the rows of the paper's M."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from transformers import PreTrainedModel

from attentune.analysis.received import received_by_head


@dataclass(frozen=True)
class HeadDiversity:
    """Over the heads of all layers, a mean over texts."""

    diversity: float
    """1 − the mean cosine between the received attention of two heads: 0 where all heads look alike."""
    effective_rank: float
    """How many different patterns the heads hold: exp of the entropy of M's normalised singular values."""
    special_share: float
    """The share of all attention that special tokens such as [CLS] and [SEP] receive."""


def head_diversity(
    model: PreTrainedModel, tokenizer: Any, texts: Sequence[str], max_length: int = 128
) -> HeadDiversity:
    """Measure a model's heads on some texts."""
    special = set(tokenizer.all_special_tokens)
    figures = []
    for received in received_by_head(model, tokenizer, texts, max_length):
        rows = received.share.reshape(-1, received.share.shape[-1]).astype(np.float64)
        is_special = np.array([token in special for token in received.tokens])
        unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        heads = len(unit)
        similar = (np.square(unit.sum(axis=0)).sum() - heads) / (
            heads * (heads - 1)
        )  # the mean of all cosines but the own
        singular = np.linalg.svd(unit, compute_uv=False)
        p = singular / singular.sum()
        p = p[p > 0]
        figures.append((1 - similar, np.exp(-(p * np.log(p)).sum()), rows[:, is_special].sum(axis=1).mean()))
    diversity, rank, share = np.mean(figures, axis=0)
    return HeadDiversity(float(diversity), float(rank), float(share))
