"""WordSim: heads pulled to words of like meaning, by WordNet or by word vectors."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from attentune.errors import UserError
from attentune.methods.by_heads import ByHeads
from attentune.methods.drawn import TrainingTexts
from attentune.methods.knowledge import Knowledge
from attentune.methods.priors.text_form import most_as_text, read_most
from attentune.methods.priors.wordsim import WORDNET
from attentune.methods.priors.wordsim import WordSim as WordSimPrior
from attentune.methods.quotes import quoted, unquoted

PATHS = ("source", "vocabulary", "data")


@dataclass(frozen=True)
class WordSim(Knowledge):
    """Words whose similarity is above a threshold: Wu–Palmer's in WordNet, or the cosine of vectors from a file.

    >>> str(WordSim(0.1, source="glove.6B.50d.txt", threshold=0.6))
    'wordsim(weight=0.1, source=glove.6B.50d.txt, threshold=0.6)'
    """

    name: ClassVar[str] = "wordsim"
    summary: ClassVar[str] = "heads look at words of like meaning"
    drawn_by: ClassVar[tuple[str, ...]] = ("source", "threshold", "top", *PATHS[1:])
    nothing: ClassVar[str] = "give a lower threshold, or a source for the language of the texts"
    text_readers: ClassVar[Mapping[str, Callable[[str], Any]]] = {
        **ByHeads.text_readers, "top": read_most, **dict.fromkeys(PATHS, unquoted),
    }  # fmt: skip

    source: str = WORDNET
    """`wordnet`, or a file of word vectors: text as of GloVe and word2vec, or `.npy`."""
    threshold: float = 0.5
    """Relations are above it. Wu–Palmer's 0.5 is what WordNet gives to any two adjectives."""
    top: int | None = 32
    """How many of its strongest relations a word keeps within a text; None keeps all."""
    vocabulary: str | None = None
    """The words of a `.npy`, one a line or as Parquet."""
    data: str | None = None
    """The nltk_data folder that has WordNet, where NLTK doesn't find it by itself."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in PATHS:
            value = getattr(self, name)
            if (value is not None or name == "source") and not (isinstance(value, str) and value.strip()):
                raise UserError(f"{name} of wordsim must be a path, not {value!r}")
        if isinstance(self.threshold, bool) or not isinstance(self.threshold, int | float):
            raise UserError(f"threshold must be a number, not {self.threshold!r}")
        self._prior()

    def text_of(self, name: str, value: object) -> str:
        """`top=None` is written `top=all`; a path may need quotes."""
        if name == "top":
            return most_as_text(value)
        return quoted(str(value)) if name in PATHS else super().text_of(name, value)

    def prior(self, texts: TrainingTexts) -> WordSimPrior:
        """The similarities."""
        return self._prior()

    def _prior(self) -> WordSimPrior:
        return WordSimPrior(self.source, self.threshold, self.top, self.vocabulary, self.data)
