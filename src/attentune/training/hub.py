"""A finished run's model, with its card, on the Hugging Face hub."""

from pathlib import Path

import huggingface_hub
from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalTokenNotFoundError

from attentune.errors import UserError
from attentune.training.run_folder import RunFolder

NOT_SENT = ["*.bin", "*.pt", "*.pth", "*.pkl", "*.part"]


def push_run(path: str | Path, name: str, *, private: bool = False) -> str:
    """Put a run's checkpoint into the repository `name` (owner/name) on the hub, which is made if it isn't there; returns
    where it can be seen."""
    folder = RunFolder.open(path)
    metrics = folder.metrics()
    if not (folder.checkpoint / "config.json").is_file():
        raise UserError(f"the run in {path} has no checkpoint to push; train it again")
    message = f"{metrics['task']}, {metrics['method']}, seed {metrics['seed']}"
    try:
        hub = huggingface_hub.HfApi()
        place = hub.create_repo(name, private=private, exist_ok=True)
        hub.upload_folder(
            repo_id=place.repo_id, folder_path=folder.checkpoint, commit_message=message, ignore_patterns=NOT_SENT
        )
    except HFValidationError:
        raise UserError(f"{name!r} can't be the name of a repository on the hub; write it as owner/name") from None
    except LocalTokenNotFoundError:
        raise UserError("the hub doesn't know you: log in first, with: hf auth login") from None
    except HfHubHTTPError as error:
        status = getattr(error.response, "status_code", None)
        if status in (401, 403):
            raise UserError(
                f"the hub doesn't let you write to {name}; log in (hf auth login) with a token that may write there"
            ) from None
        raise UserError(f"{name} can't be pushed to the hub: {_first_line(error)}; try again later") from None
    except Exception as error:  # the network, a proxy
        raise UserError(f"the hub can't be reached: {_first_line(error)}; check the network") from error
    return str(place)


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), "").rstrip(".") or type(error).__name__
