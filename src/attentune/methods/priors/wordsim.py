"""Which words mean alike: Wu–Palmer similarity in WordNet, or the cosine of word vectors, above a threshold."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import ClassVar

import numpy as np

from attentune.errors import UserError
from attentune.methods.priors.relations import Relations, check_top, relations
from attentune.methods.priors.vectors import WordVectors, digest_of, load_vectors
from attentune.methods.priors.wordnet import Taxonomy, load_wordnet
from attentune.methods.priors.words import Text, is_punctuation

FORMAT = 1
WORDNET = "wordnet"


@dataclass(frozen=True)
class WordSim:
    """Similar words of a text, or of both texts of a pair; a word is never related to itself at its own place.

    `source` is `wordnet` or a file of word vectors, `data` the nltk_data folder of the one, `vocabulary` the words of
    a `.npy` of the other.

    >>> WordSim("vectors.npy", threshold=2.0)
    Traceback (most recent call last):
    attentune.errors.UserError: threshold must be at least 0 and below 1, not 2.0
    """

    name: ClassVar[str] = "wordsim"

    source: str = WORDNET
    threshold: float = 0.5
    """Relations are above it. Wu–Palmer's 0.5 is what WordNet gives to any two adjectives."""
    top: int | None = 32
    """How many of its strongest relations a word keeps within a text; None keeps all."""
    vocabulary: str | None = None
    data: str | None = None

    def __post_init__(self) -> None:
        check_top(self.top)
        if not 0 <= self.threshold < 1:
            raise UserError(f"threshold must be at least 0 and below 1, not {self.threshold}")
        for name, given, of_wordnet in (("vocabulary", self.vocabulary, False), ("data", self.data, True)):
            if given is not None and of_wordnet != (self.source == WORDNET):
                raise UserError(f"{name} does not go with source={self.source}")

    def prepare(self) -> None:
        """Load WordNet or the vectors."""
        self._similar()

    def identity(self) -> Mapping[str, object]:
        """The parameters, and WordNet's version or the digest of the vectors."""
        own = {"prior": self.name, "format": FORMAT, "threshold": self.threshold, "top": self.top}
        if self.source == WORDNET:
            return {**own, "wordnet": load_wordnet(self.data).version, "nltk": version("nltk")}
        files = [self.source] if self.vocabulary is None else [self.source, self.vocabulary]
        return {**own, "vectors": [digest_of(file) for file in files]}

    def relate(self, examples: Sequence[tuple[Text, ...]]) -> list[Relations]:
        """The pairs of words above the threshold."""
        similar = self._similar()
        return [self._relate(similar, [word for text in example for word in text.words]) for example in examples]

    def _similar(self) -> Taxonomy | WordVectors:
        return load_wordnet(self.data) if self.source == WORDNET else load_vectors(self.source, self.vocabulary)

    def _relate(self, similar: Taxonomy | WordVectors, words: Sequence[str]) -> Relations:
        places = np.array([i for i, word in enumerate(words) if not is_punctuation(word)], dtype=np.int64)
        different: dict[str, int] = {}
        which = np.array([different.setdefault(words[i], len(different)) for i in places], dtype=np.int64)
        values = similar.similarity(list(different))
        i, j = np.nonzero((values > self.threshold)[np.ix_(which, which)])
        return relations(places[i], places[j], values[which[i], which[j]], self.top)
