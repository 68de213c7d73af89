"""What is measured of attention: each measure's name, what it says, and its equation.

M is what tokens receive, a row a head, as shares: M[h, k] = (1/n) Σ_q A_h[q, k] over the n real tokens. `survey` computes
them all from fused readings.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Measure:
    """One measure: for a head unless `by_head` is False, then for a whole model."""

    name: str
    title: str
    meaning: str
    equation: str
    is_share: bool = False
    """Whether it is a share of attention, and so shown in per cent."""
    by_head: bool = True


_ALL = (
    Measure(
        "diversity", "Diversity of heads", "how differently a head spreads its attention over the tokens than all other "
        "heads do; 0 where they are alike", "1 − mean over g ≠ h of cos(M[h], M[g])",
    ),
    Measure(
        "effective_rank", "Effective rank of heads", "how many different patterns the heads of the model hold together",
        "exp(−Σ p log p), p the normalised singular values of M with unit rows", by_head=False,
    ),
    Measure(
        "evenness", "Evenness of received attention", "how evenly the tokens receive; 1 where all receive the same",
        "−Σ_k M[h, k] log M[h, k] / log n",
    ),
    Measure("entropy", "Entropy of a row", "over how much a token spreads its attention, in nats",
            "mean over q of −Σ_k A[q, k] log A[q, k]"),
    Measure("sharpness", "Sharpness of a row", "how concentrated a token's attention is; 1 where all of it is on one token",
            "mean over q of Σ_k A[q, k]²"),
    Measure("cls", "To [CLS]", "share of attention that the classification token receives", "Σ M[h, k], k a [CLS]", True),
    Measure("sep", "To [SEP]", "share of attention that the separators receive", "Σ M[h, k], k a [SEP]", True),
    Measure("punctuation", "To punctuation", "share of attention that punctuation receives", "Σ M[h, k], k punctuation", True),
    Measure("first", "Pattern: first", "attention to the first token", "mean over q of A[q, first]", True),
    Measure("next", "Pattern: next", "attention to the next token", "mean over q of A[q, q + 1]", True),
    Measure("prev", "Pattern: previous", "attention to the previous token", "mean over q of A[q, q − 1]", True),
    Measure("delim", "Pattern: delimiter", "attention to what ends or parts texts",
            "mean over q of Σ A[q, k], k a delimiter", True),
    Measure("period", "Pattern: full stop", "attention to full stops", "mean over q of Σ A[q, k], k a full stop", True),
    Measure(
        "dependency", "To grammatical head and children", "share of a word's attention along the edges of its sentence's "
        "dependency tree, in both directions",
        "mean over q with an edge of Σ A[q, k], k in a word with an edge to that of q", True,
    ),
)  # fmt: skip

MEASURES = {measure.name: measure for measure in _ALL}
"""All measures by name, in the order in which they are told."""
