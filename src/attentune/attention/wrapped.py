"""Models inside a peft model (LoRA and its like): the transformers model to work on, and where its forward pass begins.

peft is not imported: a model that isn't peft's is taken for what it is.
"""

from typing import Any

from torch import nn
from transformers import PreTrainedModel


def base_model(model: Any) -> Any:
    """The transformers model inside a peft model; any other model as it is.

    >>> from transformers import BertConfig, BertModel
    >>> tiny = BertModel(BertConfig(vocab_size=20, hidden_size=8, num_attention_heads=2, num_hidden_layers=1))
    >>> base_model(tiny) is tiny
    True
    """
    if isinstance(model, PreTrainedModel) or not callable(getattr(model, "get_base_model", None)):
        return model
    return model.get_base_model()


def entrances(model: nn.Module) -> tuple[nn.Module, ...]:
    """The modules whose call may be the beginning of a forward pass: older peft calls its layers' owner, but then the
    `forward` of the transformers model itself, past the hooks of that."""
    base = base_model(model)
    owner = getattr(model, "base_model", None) if base is not model else None
    return (base,) if not isinstance(owner, nn.Module) or owner is base else (owner, base)
