"""Rankings: the order of each query's documents by score, its metrics, and its TREC run file.

MRR and R@k are means over the queries that have a relevant document among their candidates; R@k divides by all relevant
documents of the query, found as candidates or not. Equal scores are ordered as trec_eval does, by the document's id from
the last to the first, so that it gives the same figures for the run file. torchmetrics computes them from these orders:
on its own it would leave the order of equal scores open, and would take scores of 0 and less for not retrieved.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from attentune.errors import UserError

CUTS = (1, 3, 5, 20)
DIGITS = 6
"""Of a score in the run file; the order is that of the scores as written."""


@dataclass(frozen=True)
class Ranked:
    """The documents of one query, from the first to the last."""

    query: str
    documents: tuple[str, ...]
    scores: tuple[float, ...]
    is_relevant: tuple[bool, ...]
    relevant: int
    """How many relevant documents there are, those that are no candidates included."""


def rank(
    queries: Sequence[str],
    documents: Sequence[str],
    scores: Sequence[float],
    is_relevant: Sequence[bool],
    relevant: Sequence[int],
) -> list[Ranked]:
    """The ranking of each query, in the order in which the queries come.

    >>> rank(["q"] * 3, ["a", "b", "c"], [0.5, 2.0, 0.5], [True, False, False], [1] * 3)[0].documents
    ('b', 'c', 'a')
    """
    rows: dict[str, list[int]] = {}
    for row, query in enumerate(queries):
        rows.setdefault(query, []).append(row)
    rounded = [round(float(score), DIGITS) for score in scores]
    ranked = []
    for query, own in rows.items():
        own = sorted(own, key=lambda row: (rounded[row], documents[row]), reverse=True)
        names = tuple(documents[row] for row in own)
        truths = tuple(bool(is_relevant[row]) for row in own)
        ranked.append(Ranked(query, names, tuple(rounded[row] for row in own), truths, relevant[own[0]]))
    return ranked


def score(ranked: Sequence[Ranked]) -> dict[str, float]:
    """MRR and R@1, 3, 5, 20, over the queries that have a relevant document among their candidates.

    >>> score([Ranked("q", ("a", "b"), (1.0, 0.5), (False, True), 1)])
    {'mrr': 0.5, 'r@1': 0.0, 'r@3': 1.0, 'r@5': 1.0, 'r@20': 1.0}
    """
    from torchmetrics.functional.retrieval import retrieval_recall, retrieval_reciprocal_rank  # takes seconds to import

    counted = [one for one in ranked if any(one.is_relevant)]
    if not counted:
        raise UserError("no query has a relevant document among its candidates; there is nothing to score")
    sums = dict.fromkeys(("mrr", *(f"r@{k}" for k in CUTS)), 0.0)
    for one in counted:
        places = torch.arange(len(one.documents), 0, -1).double()  # above 0, and no two alike
        target = torch.tensor(one.is_relevant)
        found = sum(one.is_relevant) / one.relevant
        sums["mrr"] += retrieval_reciprocal_rank(places, target).item()
        for k in CUTS:
            sums[f"r@{k}"] += retrieval_recall(places, target, top_k=k).item() * found
    return {name: round(total / len(counted), DIGITS) for name, total in sums.items()}


def trec_lines(ranked: Sequence[Ranked], tag: str) -> Iterator[str]:
    """The lines of a run file: query, Q0, document, rank from 1, score, and the name of what ranked them.

    >>> list(trec_lines([Ranked("q", ("a",), (1.5,), (True,), 1)], "mdg"))
    ['q Q0 a 1 1.500000 mdg\\n']
    """
    for one in ranked:
        for place, (document, value) in enumerate(zip(one.documents, one.scores, strict=True), start=1):
            yield f"{one.query} Q0 {document} {place} {value:.{DIGITS}f} {tag}\n"
