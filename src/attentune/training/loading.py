"""A trained classifier as it was saved, with the methods that change its forward pass."""

from pathlib import Path

from attentune.errors import UserError
from attentune.methods.guided import Guided
from attentune.methods.persistence import restore
from attentune.training.models import load_for_classification
from attentune.training.run_folder import RunFolder
from attentune.training.trust import require_trust


def load(folder: str | Path, *, trust_remote_code: bool = False) -> Guided:
    """The classifier in a folder that `attentune.save`, `attentune.Trainer` or a run has left, ready to predict.

    `.model` and `.tokenizer` are the parts; methods that were saved with it are attached.

        loaded = attentune.load("runs/first")
        logits = loaded.model(**loaded.tokenizer("a fine film", return_tensors="pt")).logits
    """
    path = Path(folder)
    if not path.is_dir():
        raise UserError(f"there is no folder {str(folder)!r}; give one that holds a trained model")
    if not (path / "config.json").exists() and (path / "checkpoint").is_dir():
        path = path / "checkpoint"  # of a run
    model, tokenizer = load_for_classification(str(path), trust_remote_code=trust_remote_code)
    return restore(model.eval(), path, tokenizer)


def load_run(folder: RunFolder, *, trust_remote_code: bool = False) -> Guided:
    """The model of a finished run, as `load` gives it; code that it brings along is run only if that is allowed anew."""
    require_trust(folder.recipe(), trust_remote_code, f"the run in {folder.path}")
    return load(folder.path, trust_remote_code=trust_remote_code)
