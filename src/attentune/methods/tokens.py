"""Which tokens are which: special ones, delimiters, full stops; known from the tokenizer."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True)
class TokenKinds:
    """The ids of the tokens that methods treat apart.

    >>> TokenKinds(special=(101, 102)).is_special(torch.tensor([[101, 7592, 102]]))
    tensor([[ True, False,  True]])
    """

    special: tuple[int, ...]
    """Tokens that stand for no text, such as [CLS] and [SEP]; an unknown word and a masked one do stand for some."""
    delimiters: tuple[int, ...] = ()
    """Tokens that end or part texts, such as [SEP] and </s>; not [CLS]."""
    stops: tuple[int, ...] = ()
    """Full stops, with and without white space around them."""
    beginnings: tuple[int, ...] = ()
    """Tokens that begin an input, such as [CLS]: where several documents are packed into one, each has its own."""

    @classmethod
    def of(cls, tokenizer: Any) -> "TokenKinds":
        """As a tokenizer has them."""
        text = {getattr(tokenizer, "unk_token_id", None), getattr(tokenizer, "mask_token_id", None)}
        parting = {getattr(tokenizer, name, None) for name in ("sep_token_id", "eos_token_id")}
        beginning = getattr(tokenizer, "cls_token_id", None)
        beginnings = () if beginning is None or beginning in parting else (int(beginning),)
        parting -= {None, beginning}
        vocabulary = tokenizer.get_vocab() if hasattr(tokenizer, "get_vocab") else {}
        return cls(
            special=tuple(i for i in tokenizer.all_special_ids if i not in text),
            delimiters=tuple(sorted(int(i) for i in parting if i is not None)),
            stops=tuple(sorted(i for token, i in vocabulary.items() if "." in token and _surface(token) == ".")),
            beginnings=beginnings,
        )

    def is_special(self, ids: Tensor) -> Tensor:
        """True where a token is special, in the shape of `ids`."""
        return _is_one_of(ids, self.special)

    def is_delimiter(self, ids: Tensor) -> Tensor:
        """True where a token ends or parts texts."""
        return _is_one_of(ids, self.delimiters)

    def is_beginning(self, ids: Tensor) -> Tensor:
        """True where a token begins an input, or a document that is packed into one."""
        return _is_one_of(ids, self.beginnings)

    def is_stop(self, ids: Tensor) -> Tensor:
        """True where a token is a full stop."""
        return _is_one_of(ids, self.stops)


def _is_one_of(ids: Tensor, kinds: tuple[int, ...]) -> Tensor:
    return torch.isin(ids, torch.tensor(kinds, dtype=ids.dtype, device=ids.device))


WHITE = "▁ĠĊĉč"
"""White space, as SentencePiece and byte-level BPE write it: ▁, and the bytes of space, line feed, tab and return."""


def _surface(token: str) -> str:
    """What a token looks like in the text, white space aside; a token of WordPiece or BPE may be a part of a word."""
    return token.removeprefix("##").removesuffix("</w>").strip(WHITE)
