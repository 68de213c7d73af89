"""The rows of a ranking task: pairs of a query and a document, relevant or not."""

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import datasets

from attentune.tasks.task import RANKING, RELEVANCE, Task, split

NEGATIVES = 4
"""How many documents that are not relevant are drawn for each that is, where none are given."""


@dataclass
class Pairs:
    """Pairs as they are gathered, split by split; `relevant` counts a query's relevant documents, candidates or not."""

    text: str
    text_pair: str
    queries: list[str] = field(default_factory=list)
    documents: list[str] = field(default_factory=list)
    texts: list[tuple[str, str]] = field(default_factory=list)
    labels: list[int] = field(default_factory=list)
    relevant: list[int] = field(default_factory=list)

    def add(self, query: str, document: str, texts: tuple[str, str], *, is_relevant: bool, relevant: int) -> None:
        """One pair."""
        self.queries.append(query)
        self.documents.append(document)
        self.texts.append(texts)
        self.labels.append(int(is_relevant))
        self.relevant.append(relevant)

    def split(self) -> datasets.Dataset:
        """The pairs as a task holds them; the id of a pair is made of the query's and the document's."""
        return split(
            [f"{query} {document}" for query, document in zip(self.queries, self.documents, strict=True)],
            {self.text: [first for first, _ in self.texts], self.text_pair: [second for _, second in self.texts]},
            self.labels,
            RELEVANCE,
            query=self.queries,
            document=self.documents,
            relevant=self.relevant,
        )


def draw_negatives(pool: Sequence[str], relevant: Iterable[str], count: int, seed: str) -> list[str]:
    """So many documents of the pool that are not relevant, or all where there are no more; the same for the same seed.

    >>> sorted(draw_negatives(["a", "b", "c"], ["b"], 5, seed="q1"))
    ['a', 'c']
    """
    known = set(relevant)
    others = [document for document in pool if document not in known]
    return random.Random(seed).sample(others, min(count, len(others)))


def ranking_task(name: str, splits: Mapping[str, datasets.Dataset], text: str, text_pair: str, source: str) -> Task:
    """A task of such pairs."""
    return Task(
        name=name,
        splits=dict(splits),
        text=text,
        text_pair=text_pair,
        label="label",
        labels=RELEVANCE,
        metrics=RANKING,
        deciding=RANKING[0],
        source=source,
        kind="ranking",
    )
