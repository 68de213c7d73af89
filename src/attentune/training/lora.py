"""Adapters of low rank in place of all weights, by peft: the base model stays as it is, a few small matrices are trained."""

import importlib.util
from pathlib import Path
from typing import Any

from torch import nn
from transformers import PreTrainedModel

from attentune.attention import base_model
from attentune.errors import UserError
from attentune.training.recipe import LoraRecipe

ALPHA_PER_RANK = 2


def adapt(model: PreTrainedModel, lora: LoraRecipe) -> nn.Module:
    """The model with an adapter to train; what stands outside its layers, as pooler and head, is trained whole."""
    if importlib.util.find_spec("peft") is None:
        raise UserError("--lora needs peft, which isn't installed; install it: pip install 'attentune[lora]'")
    import peft

    config = peft.LoraConfig(
        task_type=peft.TaskType.SEQ_CLS,
        r=lora.r,
        lora_alpha=lora.alpha or ALPHA_PER_RANK * lora.r,
        lora_dropout=lora.dropout,
        target_modules=list(lora.targets) if lora.targets else None,
        modules_to_save=_outside_layers(model),
    )
    try:
        adapted: nn.Module = peft.get_peft_model(model, config)
    except ValueError as error:
        first = next(iter(str(error).splitlines()), "no reason given")
        raise UserError(
            f"{type(model).__name__} can't be given an adapter ({first}); name its query and value projections with "
            '--set "lora.targets=[query, value]"'
        ) from error
    return adapted


def save_adapter(model: nn.Module, folder: Path) -> None:
    """Keep the adapter alone, as peft does."""
    model.save_pretrained(str(folder))  # type: ignore[operator]


def merged(model: nn.Module) -> PreTrainedModel:
    """The plain model, the adapter worked into its weights; a model without one as it is."""
    if base_model(model) is model or not hasattr(model, "merge_and_unload"):
        return model  # type: ignore[return-value]
    adapted: Any = model
    plain: Any = adapted.merge_and_unload()
    return plain  # type: ignore[no-any-return]


def _outside_layers(model: PreTrainedModel) -> list[str]:
    """The heads, and the pooler before them: they may be new, and a frozen new one could not be learned around."""
    inner = model.base_model
    heads = [name for name, _ in model.named_children() if name != model.base_model_prefix]
    poolers = [
        name for name, child in inner.named_children() if name == "pooler" and any(True for _ in child.parameters())
    ]
    with_weights = [name for name in heads if any(True for _ in model.get_submodule(name).parameters())]
    return [*with_weights, *poolers]
