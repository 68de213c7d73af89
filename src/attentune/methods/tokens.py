"""Which tokens count for a guide: all real ones, or the content, which leaves out [CLS], [SEP] and their like."""

from typing import Any, get_args

import torch
from torch import Tensor

from attentune.errors import UserError
from attentune.methods.base import Tokens


def check_tokens(tokens: str) -> None:
    """`tokens` must be one of the two choices."""
    if tokens not in get_args(Tokens):
        raise UserError(f"tokens must be all or content, not {tokens!r}")


def special_ids(tokenizer: Any) -> tuple[int, ...]:
    """The ids of tokens that stand for no text: an unknown word and a masked one do stand for some."""
    text = {getattr(tokenizer, "unk_token_id", None), getattr(tokenizer, "mask_token_id", None)}
    return tuple(i for i in tokenizer.all_special_ids if i not in text)


def find_special(input_ids: Tensor | None, ids: tuple[int, ...]) -> Tensor | None:
    """True where a token is special, in the shape of `input_ids`.

    >>> find_special(torch.tensor([[101, 7592, 102]]), (101, 102))
    tensor([[ True, False,  True]])
    """
    if input_ids is None:
        return None
    return torch.isin(input_ids, torch.tensor(ids, dtype=input_ids.dtype, device=input_ids.device))
