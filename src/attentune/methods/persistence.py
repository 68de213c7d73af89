"""Models with lasting methods on disk: a checkpoint that plain transformers loads too, and `attentune.json` beside it.

The checkpoint's safetensors hold what the methods have added, as `attentune.se.w1`; the small JSON holds their text.
Nothing is pickled, and nothing in the JSON is run.
"""

import json
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from torch import Tensor, nn
from transformers import PreTrainedModel

from attentune.attention import base_model
from attentune.errors import UserError
from attentune.methods.base import Sum
from attentune.methods.guided import Guided, attach
from attentune.methods.lasting import PREFIX, lasting_methods
from attentune.methods.spec import parse

FILE = "attentune.json"
FORMAT = 1
LARGEST = 64 * 1024
"""Bytes of an `attentune.json` that may still be one."""


def save(model: nn.Module, folder: str | Path, tokenizer: Any = None) -> None:
    """Save a model as `save_pretrained` does, with the methods attached to it that change its forward pass.

    `attentune.load(folder)` brings both back. Guides change nothing that is saved.
    """
    model.save_pretrained(folder)  # type: ignore[operator]
    if tokenizer is not None:
        tokenizer.save_pretrained(folder)
    save_methods(model, folder)


def save_methods(model: nn.Module, folder: str | Path) -> None:
    """Write `attentune.json` for a model that is saved in a folder, or remove that of an earlier one."""
    method, file = lasting_methods(base_model(model)), Path(folder) / FILE
    if method.parts:
        text = json.dumps({"format": FORMAT, "method": str(method)}, indent=2)
        file.write_text(text + "\n", encoding="utf-8")
    else:
        file.unlink(missing_ok=True)


def load_methods(folder: str | Path) -> Sum:
    """The methods that a saved model was saved with; none where it has no `attentune.json`."""
    file = Path(folder) / FILE
    try:
        with file.open("rb") as opened:
            raw = opened.read(LARGEST + 1)
    except FileNotFoundError:
        return Sum()
    except OSError as error:
        raise UserError(f"{file} can't be read: {error.strerror}") from error
    try:
        notes = json.loads(raw) if len(raw) <= LARGEST else None
    except (ValueError, RecursionError):
        notes = None
    if not isinstance(notes, dict) or type(notes.get("format")) is not int:
        raise UserError(f"{file} isn't what attentune writes there; take it from the model's source again")
    if notes["format"] != FORMAT:
        raise UserError(
            f"{file} is of format {notes['format']}, and this attentune reads {FORMAT}; pip install --upgrade attentune"
        )
    text = notes.get("method")
    if not isinstance(text, str):
        raise UserError(f"{file} names no method; take it from the model's source again")
    try:
        method = parse(text)
    except UserError as error:
        raise UserError(f"{file} names methods that this attentune doesn't know; upgrade it. {error}") from None
    for part in method.parts:
        if not part.is_lasting:
            raise UserError(f"{file} names {part.name}, which is no method that a model is saved with; remove it there")
    return method


def restore(model: PreTrainedModel, folder: str | Path, tokenizer: Any = None) -> Guided:
    """Attach to a model, loaded from a folder, the methods that it was saved with, as they were trained.

    `attentune.load` does it for classifiers; this is for any other head.
    """
    method, trained = load_methods(folder), _added_weights(Path(folder))
    if trained and not method.parts:
        raise UserError(
            f"{folder} holds weights of a method, {min(trained)}, but no {FILE} that says which; "
            "save such models by attentune.save or attentune.Trainer, and copy whole folders"
        )
    try:
        guided = attach(model, method, tokenizer, trained=trained if method.parts else None)
    except UserError as error:
        raise UserError(f"{folder} can't be loaded with its methods: {error}") from None
    guided.rest()
    return guided


def _added_weights(folder: Path) -> dict[str, Tensor]:
    """What methods have added, without the prefix, from all the checkpoint's files."""
    found: dict[str, Tensor] = {}
    for file in sorted(folder.glob("*.safetensors")):
        try:
            with safe_open(file, framework="pt") as weights:
                names = [name for name in weights.keys() if name.startswith(PREFIX + ".")]  # noqa: SIM118
                found.update({name.removeprefix(PREFIX + "."): weights.get_tensor(name) for name in names})
        except (SafetensorError, OSError) as error:
            raise UserError(f"{file} can't be read: {error}") from error
    return found
