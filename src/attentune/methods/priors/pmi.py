"""Which words keep company: positive pointwise mutual information, counted once over the training texts.

PMI(i, j) = log(n_ij · N / (n_i · n_j)), where n_ij counts how often i and j stand within a window of each other, n_i sums
n_ij over j, and N over both; what is not above 0 is no relation. Words are compared in lower case, and punctuation marks
are passed over. The counts never cross texts; the relations of a pair of texts do.
"""

import hashlib
import json
import os
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from attentune.errors import UserError
from attentune.methods.priors.relations import FloatArray, Relations, check_top, relations
from attentune.methods.priors.words import IntArray, Text, folded_words

FORMAT = 1
COUNTED_AT_ONCE = 1_000_000  # words; bounds the memory of counting


@dataclass(frozen=True, eq=False)
class PMI:
    """Positive PMI between the words of `vocabulary`: `value[n]` for the words `first[n]` ≤ `second[n]`.

    >>> pmi = PMI.count(["hot tea", "hot tea", "cold beer", "cold beer"], min_count=1)
    >>> {
    ...     (pmi.vocabulary[i], pmi.vocabulary[j]): round(float(v), 3)
    ...     for i, j, v in zip(pmi.first, pmi.second, pmi.value)
    ... }
    {('hot', 'tea'): 1.386, ('cold', 'beer'): 1.386}
    """

    name: ClassVar[str] = "pmi"

    vocabulary: tuple[str, ...] = field(repr=False)
    first: IntArray = field(repr=False)
    second: IntArray = field(repr=False)
    value: FloatArray = field(repr=False)
    window: int
    min_count: int
    top: int | None = 32
    """How many of its strongest relations a word keeps within a text; None keeps all."""
    _index: dict[str, int] = field(init=False, repr=False)
    _pairs: NDArray[np.int64] = field(init=False, repr=False)  # ascending, for lookup by bisection

    def __post_init__(self) -> None:
        check_top(self.top)
        index = {word: i for i, word in enumerate(self.vocabulary)}
        pairs = self.first.astype(np.int64) * len(index) + self.second
        object.__setattr__(self, "_index", index)
        object.__setattr__(self, "_pairs", pairs)

    @classmethod
    def count(cls, texts: Iterable[str], window: int = 5, min_count: int = 5, top: int | None = 32) -> "PMI":
        """Count over texts. A word seen fewer than `min_count` times has no relations, but keeps its place in windows."""
        check_counts(window, min_count)
        seen: dict[str, int] = {}
        numbered = [np.array([seen.setdefault(word, len(seen)) for word in folded_words(t)], np.int32) for t in texts]
        lengths = np.array([len(words) for words in numbered], dtype=np.int64)
        words = np.concatenate([np.zeros(0, np.int32), *numbered])
        del numbered
        frequent = np.bincount(words, minlength=len(seen)) >= min_count
        renumbered = np.where(frequent, np.cumsum(frequent) - 1, -1).astype(np.int32)
        vocabulary = tuple(word for word, kept in zip(seen, frequent, strict=True) if kept)
        text_of = np.repeat(np.arange(len(lengths), dtype=np.int32), lengths)
        upper = _count_pairs(renumbered[words], text_of, window, len(vocabulary))
        return cls(vocabulary, *_positive(upper), window, min_count, top)

    @property
    def stem(self) -> str:
        """The name of the files that a run keeps of it."""
        return stem_of(self.window, self.min_count)

    def prepare(self) -> None:
        """Nothing is left to load."""

    def identity(self) -> Mapping[str, object]:
        """The counts themselves, by their digest."""
        digest = hashlib.sha256(json.dumps(self.vocabulary).encode())
        for part in (self.first, self.second, self.value):
            digest.update(np.ascontiguousarray(part).tobytes())
        return {"prior": self.name, "format": FORMAT, "counts": digest.hexdigest(), "top": self.top}

    def relate(self, examples: Sequence[tuple[Text, ...]]) -> list[Relations]:
        """All pairs of words of a text, or of both texts of a pair, that have positive PMI."""
        return [self._relate([word for text in example for word in text.words]) for example in examples]

    def _relate(self, words: Sequence[str]) -> Relations:
        ids = np.array([self._index.get(word.casefold(), -1) for word in words], dtype=np.int64)
        known = np.flatnonzero(ids >= 0)
        a, b = np.triu_indices(len(known), k=1)
        x, y = ids[known[a]], ids[known[b]]
        pairs = np.minimum(x, y) * len(self._index) + np.maximum(x, y)
        if not len(pairs) or not len(self._pairs):
            return relations([], [], [])
        place = np.minimum(np.searchsorted(self._pairs, pairs), len(self._pairs) - 1)
        found = self._pairs[place] == pairs
        i, j, value = known[a[found]], known[b[found]], self.value[place[found]]
        return relations(np.concatenate([i, j]), np.concatenate([j, i]), np.concatenate([value, value]), self.top)

    def save(self, path: str | Path) -> None:
        """Write `path`.npz with the values and, beside it, `path`.json with the vocabulary."""
        arrays, words = _files(path)
        arrays.parent.mkdir(parents=True, exist_ok=True)
        head = {"format": FORMAT, "window": self.window, "min_count": self.min_count, "top": self.top}
        with _whole(arrays) as file:
            np.savez_compressed(file, first=self.first, second=self.second, value=self.value)
        with _whole(words) as file:  # last: where it is, all is
            file.write(json.dumps({**head, "vocabulary": self.vocabulary}, ensure_ascii=False).encode())

    @classmethod
    def load(cls, path: str | Path) -> "PMI":
        """Read what `save` wrote; no pickle is ever read."""
        arrays, words = _files(path)
        for file in (arrays, words):
            if not file.is_file():
                raise UserError(
                    f"no such file: {file}; PMI.count(texts).save({str(arrays.with_suffix(''))!r}) makes it"
                )
        try:
            head = json.loads(words.read_text(encoding="utf-8"))
            if head["format"] != FORMAT:
                raise UserError(f"{words} is of format {head['format']}, this version reads {FORMAT}; count it again")
            with np.load(arrays, allow_pickle=False) as held:
                parts = held["first"], held["second"], held["value"]
            loaded = cls(tuple(head["vocabulary"]), *parts, head["window"], head["min_count"], head["top"])
        except UserError:
            raise
        except (OSError, ValueError, KeyError, TypeError, zipfile.BadZipFile) as error:
            raise UserError(f"{arrays} and {words} are not what PMI.save writes ({error}); count it again") from error
        loaded._check(arrays)
        return loaded

    def _check(self, path: Path) -> None:
        """What was read must hold together: pairs of known words, in order, each once."""
        shapes = {part.shape for part in (self.first, self.second, self.value)}
        inside = all(((part >= 0) & (part < len(self.vocabulary))).all() for part in (self.first, self.second))
        if len(shapes) != 1 or not inside or not (np.diff(self._pairs) > 0).all():
            raise UserError(f"{path} does not fit its vocabulary; count it again")


@contextmanager
def _whole(path: Path) -> Iterator[BinaryIO]:
    """A file to write in, which is there when the block ends well, and not at all if it doesn't."""
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        with part.open("wb") as file:
            yield file
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def check_counts(window: int, min_count: int) -> None:
    """Both must be whole numbers above 0."""
    for name, number in (("window", window), ("min_count", min_count)):
        if isinstance(number, bool) or not isinstance(number, int) or number < 1:
            raise UserError(f"{name} must be a whole number, at least 1, not {number!r}")


def stem_of(window: int, min_count: int) -> str:
    """The name of the files of a run's counts.

    >>> stem_of(5, 5)
    'pmi-window5-min5'
    """
    return f"pmi-window{window}-min{min_count}"


def _files(path: str | Path) -> tuple[Path, Path]:
    stem = Path(path)
    stem = stem.with_suffix("") if stem.suffix in (".npz", ".json") else stem
    return stem.with_name(f"{stem.name}.npz"), stem.with_name(f"{stem.name}.json")


def _count_pairs(words: IntArray, text_of: IntArray, window: int, size: int) -> sparse.csr_array:
    """How often two words stand within a window, the smaller number first; −1 is a word that isn't counted."""
    total = sparse.csr_array((size, size), dtype=np.int64)
    for begin in range(0, len(words), COUNTED_AT_ONCE):
        first, second = [], []
        for distance in range(1, window + 1):
            end = max(begin, min(begin + COUNTED_AT_ONCE, len(words) - distance))
            a, b = words[begin:end], words[begin + distance : end + distance]
            together = (text_of[begin:end] == text_of[begin + distance : end + distance]) & (a >= 0) & (b >= 0)
            first.append(np.minimum(a, b)[together])
            second.append(np.maximum(a, b)[together])
        i, j = np.concatenate(first), np.concatenate(second)
        total += sparse.coo_array((np.ones(len(i), dtype=np.int64), (i, j)), shape=(size, size)).tocsr()
    return total


def _positive(upper: sparse.csr_array) -> tuple[IntArray, IntArray, FloatArray]:
    """Positive PMI of counts of which only the upper triangle is held; a word beside itself counts for both sides."""
    marginal = np.asarray(upper.sum(axis=0) + upper.sum(axis=1), dtype=np.float64)  # n_i
    upper.sort_indices()
    pairs = upper.tocoo()
    i, j = pairs.coords
    joint = pairs.data * np.where(i == j, 2.0, 1.0)  # n_ij
    pmi = np.log(joint * marginal.sum() / (marginal[i] * marginal[j]))
    kept = pmi > 0
    return i[kept].astype(np.int32), j[kept].astype(np.int32), pmi[kept].astype(np.float32)
