"""Words of a text, and the tokens of three kinds of tokenizers brought to them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attentune.methods.priors import align, split_words

TEXTS = [
    "The fox doesn't like the dog's well-known bone.",
    "Cafés in Zürich, and 北京, sell tea   for 3.5 francs…",
    "unbelievably",
    "",
    "   ",
    "!?",
    "naïve 👩‍🚀 cafe\u0301s हिन्दी\tﬁne",
    "\n leading and trailing \u00a0",
]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Dogs bark, loudly.", "Dogs bark , loudly ."),
        ("It's don't CAN'T isn’t", "It 's do n't CA N'T is n’t"),
        ("l'homme O'Brien", "l ' homme O ' Brien"),
        ("well-known 1st 3.5 1,000.", "well - known 1st 3.5 1,000 ."),
        ("北京abc हिन्दी cafe\u0301", "北 京 abc हिन्दी cafe\u0301"),
        ("👩‍🚀! é… -", "👩‍🚀 ! é … -"),
        ("", ""),
        (" \t", ""),
    ],
)
def test_texts_and_their_words(text, words):
    assert split_words(text).words == tuple(words.split())


@given(st.text())
def test_words_hold_everything_but_white_space_and_stand_where_they_say(text):
    split = split_words(text)
    assert tuple(text[a:b] for a, b in zip(split.starts, split.stops, strict=True)) == split.words
    assert all(b <= a for b, a in zip(split.stops, split.starts[1:], strict=False))
    left = "".join(text[a:b] for a, b in zip([0, *split.stops], [*split.starts, len(text)], strict=True))
    assert left.strip() == ""


def first_overlap(offset, text):
    """The first word that shares a character with the token, found by looking at all."""
    start, stop = offset
    for index, (a, b) in enumerate(zip(text.starts, text.stops, strict=True)):
        if max(a, start) < min(b, stop):
            return index
    return -1


def expected(encoding, texts):
    rows = []
    for offset, which in zip(encoding.offsets, encoding.sequence_ids, strict=True):
        word = -1 if which is None else first_overlap(offset, texts[which])
        number = -1 if word == -1 else word + sum(len(text) for text in texts[:which])
        rows.append((word, -1 if word == -1 else which, number))
    return np.array(rows).T.tolist()


@pytest.mark.parametrize("text", TEXTS)
def test_tokens_belong_to_the_word_whose_characters_they_hold(tokenizer, text):
    encoding, split = tokenizer(text).encodings[0], split_words(text)
    found = align(encoding, [split])
    assert [part.tolist() for part in found] == expected(encoding, [split])
    written = {i for i, word in enumerate(split.words) if any(map(str.isalnum, word))}
    assert written <= set(found.word)  # none is lost; a mark may be, to a normalizer or within its neighbour's token
    special = np.array(encoding.special_tokens_mask, dtype=bool)
    assert (found.word[special] == -1).all()


def test_pieces_share_their_word(tokenizers):
    text = "playing unplayable games"
    for kind, tokenizer in tokenizers.items():
        found = align(tokenizer(text).encodings[0], [split_words(text)]).word.tolist()
        assert found[0] == found[-1] == -1
        pieces = [word for word in found if word >= 0]  # a token that is only a space has none
        assert pieces == sorted(pieces), kind
        assert max(map(pieces.count, (0, 1, 2))) > 1, kind


@pytest.mark.parametrize("pair", [(TEXTS[0], TEXTS[1]), ("", "one"), ("one", ""), (TEXTS[6], TEXTS[0])])
@pytest.mark.parametrize("limit", [512, 12])
def test_pairs_and_truncation(tokenizer, pair, limit):
    encoding = tokenizer(*pair, truncation=True, max_length=limit).encodings[0]
    texts = [split_words(text) for text in pair]
    found = align(encoding, texts)
    assert len(found.word) == len(encoding.ids) <= limit
    assert [part.tolist() for part in found] == expected(encoding, texts)


def test_padding_has_no_word(tokenizer):
    batch = tokenizer(["a fox", TEXTS[0]], padding=True)
    found = align(batch.encodings[0], [split_words("a fox")])
    assert set(found.word) == {-1, 0, 1}
    assert (found.word[np.array(batch["attention_mask"][0]) == 0] == -1).all()


@settings(deadline=None, max_examples=50)
@given(text=st.text(), pair=st.text())
def test_any_text_can_be_aligned(tokenizers, text, pair):
    texts = [split_words(text), split_words(pair)]
    for tokenizer in tokenizers.values():
        encoding = tokenizer(text, pair).encodings[0]
        assert [part.tolist() for part in align(encoding, texts)] == expected(encoding, texts)
