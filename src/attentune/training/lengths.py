"""How many tokens a text may have: what the user asks for, at most what tokenizer and model can take."""

from typing import Any

from torch import nn
from transformers import PreTrainedModel

PADDED_TO = 8  # lengths that the hardware likes


def longest_length(model: PreTrainedModel, tokenizer: Any, asked: int) -> int:
    """The length in tokens that texts are cut to, special tokens included."""
    return min(asked, _taken_by(model, tokenizer))


def padding_multiple(model: PreTrainedModel, tokenizer: Any, longest: int) -> int | None:
    """What lengths may be padded to a multiple of: nothing, where this would exceed what the model takes."""
    padded = -(-longest // PADDED_TO) * PADDED_TO
    return PADDED_TO if padded <= _taken_by(model, tokenizer) else None


def _taken_by(model: PreTrainedModel, tokenizer: Any) -> int:
    config = model.config.get_text_config()
    positions = getattr(config, "max_position_embeddings", None) or 0
    most = int(tokenizer.model_max_length)  # a very large number where the tokenizer doesn't know
    return min(most, positions - _reserved(model, positions)) if positions > 0 else most


def _reserved(model: PreTrainedModel, positions: int) -> int:
    """The positions that no token gets: RoBERTa and its kin number theirs from behind that of padding."""
    for name, module in model.named_modules():
        is_table = isinstance(module, nn.Embedding) and module.num_embeddings == positions and "position" in name
        if is_table and module.padding_idx is not None:
            return int(module.padding_idx) + 1
    return 0
