"""What a model was called with: its inputs by name, and which of their tokens are real."""

import inspect
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn


def bind_inputs(model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Mapping[str, Any]:
    """The arguments of `model(*args, **kwargs)` by name."""
    if not args:
        return dict(kwargs)
    names = list(inspect.signature(model.forward).parameters)
    return {**dict(zip(names, args, strict=False)), **kwargs}


def real_tokens(inputs: Mapping[str, Any]) -> Tensor | None:
    """(batch, length) True where a token isn't padding, from the model's `attention_mask`; None where there is no
    padding to know of.

    >>> real_tokens({"attention_mask": torch.tensor([[1, 1, 0]])})
    tensor([[ True,  True, False]])
    """
    mask = inputs.get("attention_mask")
    if not isinstance(mask, Tensor):
        return None
    if mask.dim() == 2:
        return mask.bool()
    ids = inputs.get("input_ids")
    if (
        mask.dim() == 3 and isinstance(ids, Tensor) and ids.dim() == 3
    ):  # choices (batch, choices, length), made one batch
        return mask.flatten(0, 1).bool()
    if mask.dim() == 4:  # a mask made by hand: a token is real if any query may see it
        may = mask if mask.dtype == torch.bool else mask >= 0
        return may.any(dim=-2).any(dim=1)
    return None
