"""What a prior is: a sparse matrix over the words of a text, and its way to the tokens.

A `Prior` says how strongly word i is related to word j, i ≠ j, as rows (i, j, value); `token_prior` turns them into rows
over tokens that each sum to 1. What value a relation has is the business of the priors; `targets` makes tensors of it.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from transformers import BatchEncoding

from attentune.errors import UserError
from attentune.methods.priors.words import Alignment, IntArray, Text, align, split_words

FloatArray = NDArray[np.float32]

COLUMNS = ("query", "key", "value")
"""A prior `pmi` is stored in a data set as the columns `pmi_query`, `pmi_key` and `pmi_value`."""


class Relations(NamedTuple):
    """How strongly words are related: `first[n]` to `second[n]` by `value[n]`; words are counted through both texts."""

    first: IntArray
    second: IntArray
    value: FloatArray


class Prior(Protocol):
    """Knowledge about the words of texts: `relate` says which belong together."""

    @property
    def name(self) -> str:
        """What columns and files are called by."""

    def prepare(self) -> None:
        """Load what is needed; a UserError where it is missing."""

    def identity(self) -> Mapping[str, object]:
        """All that the relations depend on besides the texts, as plain values; what is kept on disk goes by it."""

    def relate(self, examples: Sequence[tuple[Text, ...]]) -> list[Relations]:
        """The relations of each example, which is a text or a pair of texts."""


def relations(first: ArrayLike, second: ArrayLike, value: ArrayLike, top: int | None = None) -> Relations:
    """Relations in order: no word to itself, nothing that isn't above 0, the stronger of two between the same words.

    With `top`, each word keeps so many of its strongest; of equals, those that come first in the text.

    >>> relations([0, 0, 1, 1], [1, 1, 0, 1], [0.5, 2.0, 0.0, 3.0]).value.tolist()
    [2.0]
    """
    rows = np.asarray(first, dtype=np.int64), np.asarray(second, dtype=np.int64), np.asarray(value, dtype=np.float32)
    kept = (rows[0] != rows[1]) & (rows[2] > 0)
    i, j, v = (part[kept] for part in rows)
    order = np.lexsort((-v, j, i))
    i, j, v = i[order], j[order], v[order]
    new = np.ones(len(i), dtype=bool)
    new[1:] = (np.diff(i) != 0) | (np.diff(j) != 0)
    i, j, v = i[new], j[new], v[new]
    if top is not None and len(i):
        order = np.lexsort((j, -v, i))
        row_starts = np.flatnonzero(np.diff(i, prepend=-1))
        rank = np.arange(len(i)) - np.repeat(row_starts, np.diff(row_starts, append=len(i)))
        chosen = np.sort(order[rank < top])
        i, j, v = i[chosen], j[chosen], v[chosen]
    return Relations(i.astype(np.int32), j.astype(np.int32), v)


def check_top(top: int | None) -> None:
    """`top` must be a whole number above 0, or None for all."""
    if top is not None and (isinstance(top, bool) or not isinstance(top, int) or top < 1):
        raise UserError(f"top must be a whole number, at least 1, or None to keep all relations, not {top!r}")


class TokenPrior(NamedTuple):
    """Rows over tokens: token `query[n]` should give `value[n]` to token `key[n]`; what a token gives sums to 1."""

    query: IntArray
    key: IntArray
    value: FloatArray


def token_prior(related: Relations, alignment: Alignment) -> TokenPrior:
    """Relations between words as rows over tokens: P[q, k] = v_ij / (n_j · Σ_j v_ij), q of word i, k of word j of n_j tokens.

    All tokens of a word give as it does, and those of a word share what it is given, so that a word counts the same
    in however many pieces it is. A word that was truncated away has no part; a token without relations has no row.

    >>> tokens = Alignment(*[np.array([-1, 0, 1, 1, -1])] * 3)
    >>> rows = token_prior(relations([0, 1], [1, 0], [2.0, 2.0]), tokens)
    >>> list(zip(rows.query.tolist(), rows.key.tolist(), rows.value.tolist()))
    [(1, 2, 0.5), (1, 3, 0.5), (2, 1, 1.0), (3, 1, 1.0)]
    """
    number = alignment.number
    tokens = np.flatnonzero(number >= 0)
    tokens = tokens[np.argsort(number[tokens], kind="stable")]  # grouped by word
    words = 1 + max((int(part.max()) for part in (number, related.first, related.second) if len(part)), default=0)
    pieces = np.bincount(number[tokens], minlength=words)
    begins = np.cumsum(pieces) - pieces

    there = (pieces[related.first] > 0) & (pieces[related.second] > 0)
    i, j, v = related.first[there], related.second[there], related.value[there].astype(np.float64)
    v = v / np.bincount(i, weights=v, minlength=words)[i] / pieces[j]

    blocks = pieces[i] * pieces[j]  # each relation becomes a block of tokens × tokens
    within = np.arange(blocks.sum()) - np.repeat(np.cumsum(blocks) - blocks, blocks)
    width = np.repeat(pieces[j], blocks)
    query = tokens[np.repeat(begins[i], blocks) + within // width]
    key = tokens[np.repeat(begins[j], blocks) + within % width]
    order = np.lexsort((key, query))
    return TokenPrior(
        query[order].astype(np.int32), key[order].astype(np.int32), np.repeat(v, blocks)[order].astype(np.float32)
    )


def prior_columns(
    name: str, related: Mapping[str, Sequence[ArrayLike]], encoded: BatchEncoding, *texts: Sequence[str]
) -> dict[str, list[NDArray[np.generic]]]:
    """The columns of a prior for a batch of a data set, beside its token ids.

    `related` is a slice of what `build_priors` gave, `encoded` what a fast tokenizer made of `texts`: one list, or two
    where the examples are pairs.
    """
    encodings = encoded.encodings
    if encodings is None:
        raise UserError(
            f"{name} needs to know which letters a token stands for, and this tokenizer can't tell: "
            "load a fast one with AutoTokenizer.from_pretrained(…, use_fast=True)"
        )
    columns: dict[str, list[NDArray[np.generic]]] = {f"{name}_{column}": [] for column in COLUMNS}
    for row, example in enumerate(zip(*texts, strict=True)):
        words = Relations(
            np.asarray(related["first"][row], dtype=np.int32),
            np.asarray(related["second"][row], dtype=np.int32),
            np.asarray(related["value"][row], dtype=np.float32),
        )
        alignment = align(encodings[row], [split_words(text) for text in example])
        for column, values in zip(COLUMNS, token_prior(words, alignment), strict=True):
            columns[f"{name}_{column}"].append(values)
    return columns
