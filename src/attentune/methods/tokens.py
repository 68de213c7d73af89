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

    @classmethod
    def of(cls, tokenizer: Any) -> "TokenKinds":
        """As a tokenizer has them."""
        text = {getattr(tokenizer, "unk_token_id", None), getattr(tokenizer, "mask_token_id", None)}
        return cls(special=tuple(i for i in tokenizer.all_special_ids if i not in text))

    def is_special(self, ids: Tensor) -> Tensor:
        """True where a token is special, in the shape of `ids`."""
        return _is_one_of(ids, self.special)


def _is_one_of(ids: Tensor, kinds: tuple[int, ...]) -> Tensor:
    return torch.isin(ids, torch.tensor(kinds, dtype=ids.dtype, device=ids.device))
