"""How different the heads of a model are, by what tokens receive from them: the rows of the paper's M.

With unit rows m_h: diversity of head h = 1 − the mean of m_h·m_g over all other heads g, and of the model its mean over
heads; effective rank = exp(−Σ p log p) of the normalised singular values p of M.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
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


def diversity_by_head(received: ArrayLike) -> NDArray[np.float64]:
    """1 − the mean cosine of each head with all others, (heads,), of `received` (heads, tokens).

    >>> diversity_by_head([[1.0, 0.0], [2.0, 0.0], [0.0, 3.0]]).tolist()
    [0.5, 0.5, 1.0]
    """
    unit = _unit_rows(received)
    if len(unit) < 2:
        return np.full(len(unit), np.nan)  # one head has no other to differ from
    own = np.square(unit).sum(axis=1)
    return np.asarray(1 - (unit @ unit.sum(axis=0) - own) / (len(unit) - 1))


def effective_rank(received: ArrayLike) -> float:
    """How many different patterns the rows of `received` (heads, tokens) hold.

    >>> round(effective_rank([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]]), 6)
    2.0
    """
    singular = np.linalg.svd(_unit_rows(received), compute_uv=False)
    p = singular / singular.sum()
    p = p[p > 0]
    return float(np.exp(-(p * np.log(p)).sum()))


def head_diversity(
    model: PreTrainedModel, tokenizer: Any, texts: Sequence[str], max_length: int = 128
) -> HeadDiversity:
    """Measure a model's heads on some texts."""
    special = set(tokenizer.all_special_tokens)
    figures = []
    for received in received_by_head(model, tokenizer, texts, max_length):
        rows = received.share.reshape(-1, received.share.shape[-1]).astype(np.float64)
        is_special = np.array([token in special for token in received.tokens])
        share = rows[:, is_special].sum(axis=1).mean()
        figures.append((diversity_by_head(rows).mean(), effective_rank(rows), share))
    diversity, rank, share = np.mean(figures, axis=0)
    return HeadDiversity(float(diversity), float(rank), float(share))


def _unit_rows(received: ArrayLike) -> NDArray[np.float64]:
    rows = np.asarray(received, dtype=np.float64)
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))
