"""The words of a text, and which of them each token belongs to.

`split_words` cuts a text as given into words with their places; `align` brings the tokens of any fast tokenizer to those
words by their characters, so that WordPiece, byte-level BPE and SentencePiece need no rules of their own. Sub-words share
their word; special tokens and padding have none.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple

import numpy as np
import regex
from numpy.typing import NDArray
from tokenizers import Encoding

IntArray = NDArray[np.int32]

NO_WORD = -1

# The clitics are those of the Penn treebank, as spaCy and the vocabularies of word vectors have them: do·n't, dog·'s.
# Chinese has no spaces; each character counts as a word, as in BERT.
_WORD = regex.compile(
    r"""
      (?=\d)\d++(?:[.,]\d++){1,9}+(?!\w)
    | [\w--\p{Han}]++(?<![nN](?=['’][tT]\b))
    | [\w--\p{Han}]+(?=[nN]['’][tT]\b) | [nN]['’][tT]\b
    | (?<=\w)['’](?:s|re|ve|ll|d|m|S|RE|VE|LL|D|M)\b
    | \p{Han}
    | (?=[^\w\s])\X
    """,
    regex.VERBOSE | regex.VERSION1,
)


@dataclass(frozen=True, eq=False)
class Text:
    """A text, its words and their places: word i is `text[starts[i]:stops[i]]`."""

    text: str
    words: tuple[str, ...]
    starts: IntArray
    stops: IntArray

    def __len__(self) -> int:
        return len(self.words)

    @cached_property
    def _word_at(self) -> tuple[IntArray, IntArray]:
        """Of each character, the word that it or else the next character with a word is in, and where that one is."""
        word = np.full(len(self.text) + 1, NO_WORD, dtype=np.int32)
        lengths = self.stops - self.starts
        inside = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        word[np.repeat(self.starts, lengths) + inside] = np.repeat(np.arange(len(self)), lengths)
        place = np.where(word == NO_WORD, len(self.text), np.arange(len(word)))
        place = np.minimum.accumulate(place[::-1])[::-1].astype(np.int32)
        return word[place], place

    def words_within(self, starts: IntArray, stops: IntArray) -> IntArray:
        """Of each stretch of characters, the first word that it touches; −1 where it touches none.

        >>> split_words("so it goes").words_within(np.array([2, 2]), np.array([5, 3])).tolist()
        [1, -1]
        """
        word, place = self._word_at
        starts = np.minimum(starts, len(self.text))
        return np.where(place[starts] < stops, word[starts], NO_WORD).astype(np.int32)


def split_words(text: str) -> Text:
    """The words of a text; each punctuation mark is a word of its own.

    >>> split_words("Dogs don't bark, 3.5 do.").words
    ('Dogs', 'do', "n't", 'bark', ',', '3.5', 'do', '.')
    """
    found = [(m.start(), m.end()) for m in _WORD.finditer(text)]
    places = np.array(found, dtype=np.int32).reshape(-1, 2)
    return Text(text, tuple(text[start:stop] for start, stop in found), places[:, 0], places[:, 1])


def folded_words(text: str) -> list[str]:
    """The words without the punctuation, in lower case: what words are counted by.

    >>> folded_words("Dogs, dogs!")
    ['dogs', 'dogs']
    """
    return [word.casefold() for word in _WORD.findall(text) if not is_punctuation(word)]


def is_punctuation(word: str) -> bool:
    """Whether a word has neither a letter nor a digit.

    >>> [is_punctuation(word) for word in ("'", "'s")]
    [True, False]
    """
    return not (word.isalnum() or any(map(str.isalnum, word)))


class Alignment(NamedTuple):
    """Of each token, its word in its text, which text that is, and the word's number counted through both texts."""

    word: IntArray  # (tokens,) −1 for special tokens and such as hold white space only
    text: IntArray  # (tokens,) 0 or 1; −1 likewise
    number: IntArray  # (tokens,) −1 likewise


def align(encoding: Encoding, texts: Sequence[Text]) -> Alignment:
    """Bring the tokens of one encoding, of a text or of a pair, to the words. A token over several words has the first.

    >>> from tokenizers import Tokenizer, models, pre_tokenizers
    >>> wordpiece = Tokenizer(models.WordPiece({"play": 0, "##ed": 1, "[UNK]": 2}, unk_token="[UNK]"))
    >>> wordpiece.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    >>> align(wordpiece.encode("he played"), [split_words("he played")]).word.tolist()
    [0, 1, 1]
    """
    offsets = np.array(encoding.offsets, dtype=np.int32).reshape(-1, 2)
    sequence = np.array([NO_WORD if s is None else s for s in encoding.sequence_ids], dtype=np.int32)
    word = np.full(len(offsets), NO_WORD, dtype=np.int32)
    number = word.copy()
    before = accumulate((len(text) for text in texts), initial=0)
    for index, (text, earlier) in enumerate(zip(texts, before, strict=False)):
        mine = sequence == index
        word[mine] = text.words_within(offsets[mine, 0], offsets[mine, 1])
        number[mine] = np.where(word[mine] == NO_WORD, NO_WORD, word[mine] + earlier)
    return Alignment(word, np.where(word == NO_WORD, NO_WORD, sequence).astype(np.int32), number)
