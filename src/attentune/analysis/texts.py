"""Texts as the analysis takes them, and their tokens as a reader may see them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from attentune.methods.priors.words import is_punctuation
from attentune.methods.tokens import WHITE, TokenKinds

TextOrPair = str | tuple[str, str | None]


def as_pair(text: TextOrPair) -> tuple[str, str | None]:
    """A text and, where there is one, the second of a pair.

    >>> as_pair("a fine film")
    ('a fine film', None)
    """
    return (text, None) if isinstance(text, str) else text


@dataclass(frozen=True)
class Token:
    """One token as it stands in the text."""

    text: str
    is_joined: bool = False
    """Whether it continues the token before it, without white space between."""
    is_special: bool = False


def encode(tokenizer: Any, texts: Sequence[TextOrPair], max_length: int) -> Any:
    """A padded batch of texts or of pairs."""
    pairs = [as_pair(text) for text in texts]
    second = [pair for _, pair in pairs if pair is not None]
    return tokenizer(
        [text for text, _ in pairs], second or None, truncation=True, max_length=max_length, padding=True,
        return_tensors="pt",
    )  # fmt: skip


def shown_tokens(tokenizer: Any, encoded: Any, row: int, text: TextOrPair) -> tuple[Token, ...]:
    """The real tokens of one row of a batch, in the letters of the text itself where the tokenizer can tell them."""
    ids = encoded["input_ids"][row].tolist()
    real = [position for position, is_real in enumerate(encoded["attention_mask"][row].tolist()) if is_real]
    names = tokenizer.convert_ids_to_tokens(ids)
    special = set(TokenKinds.of(tokenizer).special)
    if not encoded.encodings:  # not a fast tokenizer
        return tuple(Token(plain(names[i]), names[i].startswith("##"), ids[i] in special) for i in real)
    encoding, texts = encoded.encodings[row], as_pair(text)
    found, ended, before = [], -1, None
    for i in real:
        sequence, (start, stop) = encoding.sequence_ids[i], encoding.offsets[i]
        if sequence is None or ids[i] in special:
            found.append(Token(names[i], is_special=True))
            before = None
            continue
        letters = (texts[sequence] or "")[start:stop]
        joined = before == sequence and start <= ended and not letters[:1].isspace()
        found.append(Token(letters.strip() or plain(names[i]) or "␣", joined))
        ended, before = stop, sequence
    return tuple(found)


def plain(token: str) -> str:
    """A token without the marks of its tokenizer.

    >>> plain("##eur"), plain("Ġfilm")
    ('eur', 'film')
    """
    return token.removeprefix("##").removesuffix("</w>").strip(WHITE)


def is_punctuation_token(token: str) -> bool:
    """Whether a token is punctuation.

    >>> [is_punctuation_token(token) for token in ("Ġ,", "##s", "▁")]
    [True, False, False]
    """
    return bool(plain(token)) and is_punctuation(plain(token))
