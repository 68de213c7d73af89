"""The model to pre-train: a new one of any size, or a checkpoint that is gone on from."""

from typing import Any

import torch
from transformers import (
    AutoConfig,
    AutoModelForMaskedLM,
    AutoTokenizer,
    BertConfig,
    ModernBertConfig,
    PreTrainedConfig,
    PreTrainedModel,
    RobertaConfig,
)
from transformers.utils import logging as transformers_logging

from attentune.errors import UserError
from attentune.training.models import _require_padding, _why
from attentune.training.pretraining.recipe import NewModel
from attentune.training.sources import locate
from attentune.training.weights import check_weights


def new_model(new: NewModel, tokenizer: Any, max_length: int) -> PreTrainedModel:
    """A model with random weights, of the architecture's own layout, for texts of up to `max_length` tokens."""
    config = _CONFIGS[new.architecture](new, tokenizer, max_length)
    model: PreTrainedModel = AutoModelForMaskedLM.from_config(config, dtype=torch.float32)
    return model


def load_for_masking(
    name: str, *, revision: str | None = None, trust_remote_code: bool = False
) -> tuple[PreTrainedModel, Any, bool]:
    """A checkpoint and its tokenizer, to pre-train it further, and whether it got a new head to tell masked tokens with."""
    source = locate(name, revision)
    options = source.options | {"trust_remote_code": trust_remote_code}
    before = transformers_logging.get_verbosity()
    transformers_logging.set_verbosity_error()  # what it would warn of is checked below
    try:
        tokenizer = AutoTokenizer.from_pretrained(source.path, **options)
        config = AutoConfig.from_pretrained(source.path, **options)
        _require_padding(name, tokenizer, config)
        model, info = AutoModelForMaskedLM.from_pretrained(
            source.path, config=config, dtype=torch.float32, use_safetensors=True, output_loading_info=True, **options
        )
    except UserError:
        raise
    except Exception as error:  # transformers, the hub and tokenizers each raise their own kinds
        raise UserError(_why(source, error)) from error
    finally:
        transformers_logging.set_verbosity(before)
    check_weights(name, model, info, new_head=True)
    if getattr(tokenizer, "mask_token_id", None) is None:
        raise UserError(
            f"the tokenizer of {name!r} has no token to mask others with; give a model that was trained with masks, "
            "such as BERT, RoBERTa or ModernBERT"
        )
    return model, tokenizer, bool(info["missing_keys"])


def _roberta(new: NewModel, tokenizer: Any, max_length: int) -> PreTrainedConfig:
    positions = max_length + tokenizer.pad_token_id + 1  # numbered from behind that of padding
    return RobertaConfig(
        **_sizes(new, tokenizer), **_dropout(new), type_vocab_size=1, max_position_embeddings=positions
    )


def _bert(new: NewModel, tokenizer: Any, max_length: int) -> PreTrainedConfig:
    return BertConfig(**_sizes(new, tokenizer), **_dropout(new), max_position_embeddings=max_length)


def _modernbert(new: NewModel, tokenizer: Any, max_length: int) -> PreTrainedConfig:
    sizes = _sizes(new, tokenizer) | {"intermediate_size": new.feed_forward or -(-3 * new.width // 2)}
    return ModernBertConfig(
        **sizes,
        embedding_dropout=new.dropout,
        mlp_dropout=new.dropout,
        attention_dropout=new.dropout,
        max_position_embeddings=max_length,
        cls_token_id=tokenizer.cls_token_id,
        sep_token_id=tokenizer.sep_token_id,
    )


_CONFIGS = {"roberta": _roberta, "bert": _bert, "modernbert": _modernbert}


def _sizes(new: NewModel, tokenizer: Any) -> dict[str, Any]:
    return {
        "vocab_size": len(tokenizer),
        "hidden_size": new.width,
        "num_hidden_layers": new.layers,
        "num_attention_heads": new.heads,
        "intermediate_size": new.feed_forward or 4 * new.width,
        "pad_token_id": tokenizer.pad_token_id,
        "bos_token_id": tokenizer.cls_token_id,
        "eos_token_id": tokenizer.sep_token_id,
    }


def _dropout(new: NewModel) -> dict[str, Any]:
    return {"hidden_dropout_prob": new.dropout, "attention_probs_dropout_prob": new.dropout}
