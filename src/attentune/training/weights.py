"""Whether a checkpoint's weights are those of the model they were loaded into.

transformers fills what a checkpoint lacks, or has in another size, with random numbers, and says so in a warning at
most. We allow this for a new classification head and for nothing else.
"""

import re
from collections.abc import Mapping
from typing import Any

from transformers import PreTrainedModel

from attentune.errors import UserError

POOLER = re.compile(r"(^|\.)pooler\.")


def check_weights(name: str, model: PreTrainedModel, info: Mapping[str, Any], *, new_head: bool) -> None:
    """Raise an error for weights that were filled with random numbers; `info` is transformers' loading info.

    With `new_head`, whatever stands outside the base model may be new, and so may its pooler, which checkpoints of
    language models lack. Embeddings and layers must be there, and of the model's sizes.
    """
    if info["error_msgs"]:
        raise UserError(f"the weights of {name!r} can't be loaded: {info['error_msgs'][0]}; give another checkpoint")
    wrong_sizes = {key: sizes for key, *sizes in info["mismatched_keys"] if not (new_head and _in_head(model, key))}
    if wrong_sizes:
        key = min(wrong_sizes)
        found, expected = (tuple(size) for size in wrong_sizes[key])
        raise UserError(
            f"the weights of {name!r} don't fit its config.json: {key} is {found}, where {expected} is expected"
            f"{_more(wrong_sizes)}; give a checkpoint whose weights and config.json belong together"
        )
    missing = {
        key for key in info["missing_keys"] if not (new_head and (_in_head(model, key) or POOLER.search(key)))
    }  # fmt: skip
    if missing and not new_head and all(_in_head(model, key) for key in missing):
        raise UserError(
            f"the model {name!r} has no trained classification head ({min(missing)} is missing{_more(missing)}); "
            "give the checkpoint of a classifier, or labels to train one for"
        )
    if missing:
        raise UserError(
            f"the weights of {name!r} aren't whole: {min(missing)} is missing{_more(missing)}; "
            "give a checkpoint with all of a model's weights"
        )


def _in_head(model: PreTrainedModel, key: str) -> bool:
    """Whether a weight is outside the base model; where a model has none, no weight is."""
    return model.base_model is not model and not key.startswith(model.base_model_prefix + ".")


def _more(keys: Mapping[str, Any] | set[str]) -> str:
    return f", and {len(keys) - 1:,} more" if len(keys) > 1 else ""
