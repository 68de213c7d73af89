"""Checkpoints on the way: written whole or not at all, and gone on from so that nothing shows of the interruption.

A checkpoint is made in a folder of another name and takes its own only when all of it is on disk. What a checkpoint holds
is read as safetensors, JSON, or by torch's loader of plain tensors (`weights_only`): none of it can run code.
"""

import contextlib
import json
import os
import pickle
import re
import shutil
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn
from transformers import TrainerCallback
from transformers.trainer_utils import rotate_checkpoints

from attentune.errors import UserError
from attentune.training import processes

UNFINISHED = "unfinished"
"""The folder, beside the checkpoints, in which the next one is made."""
LOGGED = "attentune_logged"
"""Where a checkpoint keeps what the next log is made of, among the states of callbacks."""
NAME = re.compile(r"checkpoint-(\d+)")
WEIGHTS = ("model.safetensors", "model.safetensors.index.json", "adapter_model.safetensors")
STATES = ("optimizer.pt", "scheduler.pt")
TORCH_WRITER = ("PytorchStreamWriter", "inline_container", "iostream error")
"""How torch's own writer of files complains."""


def last_good(steps: Path) -> tuple[Path | None, list[str]]:
    """The last whole checkpoint in a folder, and a sentence for each later one that is passed over."""
    named = [(int(found[1]), path) for path in steps.glob("checkpoint-*") if (found := NAME.fullmatch(path.name))]
    passed_over: list[str] = []
    for step, path in sorted(named, reverse=True):
        problem = problem_of(path, step)
        if problem is None:
            return path, passed_over
        passed_over.append(f"the checkpoint {path} isn't whole ({problem}) and is passed over")
    return None, passed_over


def problem_of(checkpoint: Path, step: int) -> str | None:
    """What a checkpoint lacks, if anything, as far as it can be told without reading all of it."""
    try:
        state = json.loads((checkpoint / "trainer_state.json").read_text(encoding="utf-8"))
        if not isinstance(state, dict) or state.get("global_step") != step:
            return "trainer_state.json is of another step"
        files = [checkpoint / name for name in WEIGHTS if (checkpoint / name).is_file()]
        if not files:
            return "it has no weights as safetensors"
        if files[0].name.endswith(".json"):
            index = json.loads(files[0].read_text(encoding="utf-8"))
            files = [checkpoint / Path(name).name for name in set(index["weight_map"].values())]
        for file in files:
            with safe_open(file, framework="pt"):
                pass
    except (OSError, ValueError, KeyError, AttributeError, RecursionError, SafetensorError) as error:
        return next(iter(str(error).splitlines()), type(error).__name__)
    states = [*STATES, *(file.name for file in checkpoint.glob("rng_state*.pth"))]
    broken = [name for name in states if not zipfile.is_zipfile(checkpoint / name)]
    if broken:
        return f"{broken[0]} is {'damaged' if (checkpoint / broken[0]).exists() else 'missing'}"
    return None if len(states) > len(STATES) else "the state of the random numbers is missing"


class KeepsCheckpoints(transformers.Trainer):
    """A Trainer whose checkpoints are whole, and which goes on from one as if it had never stopped."""

    _part_of: str | None = None
    """Where the checkpoint that is being made will stand."""
    _began = 0.0

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.add_callback(_GoOn(self))

    @property
    def seconds(self) -> float:
        """How long training has taken, that before an interruption included."""
        return time.perf_counter() - self._began

    def _get_output_dir(self, trial: Any) -> str:
        folder = super()._get_output_dir(trial)
        return folder if self._part_of is None else str(Path(folder) / UNFINISHED)

    def _save_checkpoint(self, model: nn.Module, trial: Any) -> None:
        steps = Path(self._get_output_dir(trial))
        name = f"checkpoint-{self.state.global_step}"
        self._keep_logged()
        with processes.agreed(), told_of_disk(f"the checkpoint of step {self.state.global_step}", steps):
            if self.args.should_save:
                shutil.rmtree(steps / UNFINISHED, ignore_errors=True)
                (steps / UNFINISHED).mkdir(parents=True)
        self._part_of = str(steps)
        try:
            with processes.agreed(), told_of_disk(f"the checkpoint of step {self.state.global_step}", steps):
                super()._save_checkpoint(model, trial)
                self._name_best(steps)
                if self.args.should_save:
                    made = steps / UNFINISHED / name
                    self.state.save_to_json(str(made / "trainer_state.json"))
                    sync_to_disk(made)
            with processes.agreed(), told_of_disk(f"the checkpoint of step {self.state.global_step}", steps):
                if self.args.should_save:
                    shutil.rmtree(steps / name, ignore_errors=True)  # of an earlier training in the same place
                    (steps / UNFINISHED / name).rename(steps / name)
        finally:
            self._part_of = None
            if self.args.should_save:
                shutil.rmtree(steps / UNFINISHED, ignore_errors=True)
        if self.args.push_to_hub:
            super()._push_from_checkpoint(str(steps / name))
        if self.args.should_save:
            rotate_checkpoints(
                str(steps), self.args.save_total_limit, self.state.best_model_checkpoint, use_mtime=False
            )

    def _push_from_checkpoint(self, checkpoint_folder: str) -> None:
        if self._part_of is None:
            super()._push_from_checkpoint(checkpoint_folder)  # otherwise when it has its name

    def _name_best(self, steps: Path) -> None:
        """The best checkpoint by where it stands now: folders are moved, and one under way has another name."""
        if self.state.best_global_step:
            best = steps / f"checkpoint-{self.state.best_global_step}"
            is_made = self.state.best_global_step == self.state.global_step and self._part_of is not None
            self.state.best_model_checkpoint = str(best) if is_made or best.is_dir() else None

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        with _told_of_damage(resume_from_checkpoint):
            super()._load_from_checkpoint(resume_from_checkpoint, model)

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        with _told_of_damage(checkpoint):
            super()._load_optimizer_and_scheduler(checkpoint)

    def _load_rng_state(self, checkpoint: str | None) -> None:
        with _told_of_damage(checkpoint):
            super()._load_rng_state(checkpoint)

    def _keep_logged(self) -> None:
        """Put into the state what the next log will be made of: the parts of the loss since the last."""
        own: dict[str, Tensor] = getattr(self, "_logged", {})
        sums = {"": self._tr_loss, **own}
        if self.args.world_size > 1:
            sums = {name: self.accelerator.reduce(value, reduction="mean") for name, value in sums.items()}
        states: Any = self.state.stateful_callbacks
        states[LOGGED] = {
            "loss": sums.pop("").item(),
            "total": self._total_loss_scalar,
            "last": self._globalstep_last_logged,
            "parts": {name: value.item() for name, value in sums.items()},
            "steps": getattr(self, "_logged_steps", 0),
            "seconds": self.seconds,
        }

    def _go_on(self) -> None:
        """Take what `_keep_logged` put there back, when training begins."""
        self._began = time.perf_counter()
        self._name_best(Path(self._get_output_dir(None)))
        states: Any = self.state.stateful_callbacks
        kept = states.get(LOGGED)
        if self.state.global_step == 0 or not isinstance(kept, dict):
            return
        self._began -= float(kept["seconds"])
        self._tr_loss += float(kept["loss"])
        self._total_loss_scalar = float(kept["total"])
        self._globalstep_last_logged = int(kept["last"])
        self._initial_global_step = 0  # the mean loss is one over all steps
        parts = {str(name): torch.tensor(float(value)) for name, value in kept["parts"].items()}
        self._logged = {name: value.to(self.args.device) for name, value in parts.items()}
        self._logged_steps = int(kept["steps"])


class _GoOn(TrainerCallback):
    """Calls the trainer when training begins, after transformers has set its own counts."""

    def __init__(self, trainer: KeepsCheckpoints) -> None:
        self.trainer = trainer

    def on_train_begin(self, *args: Any, **kwargs: Any) -> None:
        self.trainer._go_on()


@contextlib.contextmanager
def told_of_disk(what: str, folder: Path) -> Iterator[None]:
    """A block that writes `what`; where the disk doesn't take it, one sentence."""
    try:
        yield
    except (OSError, SafetensorError) as error:
        raise UserError(_unwritten(what, folder, getattr(error, "strerror", None) or str(error))) from error
    except RuntimeError as error:
        if not any(mark in str(error) for mark in TORCH_WRITER):
            raise
        raise UserError(_unwritten(what, folder, "the disk takes no more")) from error


def _unwritten(what: str, folder: Path, why: str) -> str:
    reason = next(iter(why.splitlines()), "no reason given")
    return (
        f"{what} can't be written in {folder} ({reason}), and what is there already is as it was; "
        "make room or allow writing there, and go on with --resume"
    )


@contextlib.contextmanager
def _told_of_damage(checkpoint: str | None) -> Iterator[None]:
    try:
        yield
    except (pickle.UnpicklingError, EOFError, KeyError, ValueError, TypeError, AttributeError, RuntimeError) as error:
        first = next(iter(str(error).splitlines()), type(error).__name__)
        if isinstance(error, pickle.UnpicklingError):
            first = "it holds something else than plain tensors and numbers, and nothing else is ever loaded"
        raise UserError(
            f"the checkpoint {checkpoint} can't be gone on from ({first}); remove its folder, and the one before is taken"
        ) from error


def sync_to_disk(folder: Path) -> None:
    """Have all files in a folder on disk, so that a name given to it afterwards names something whole."""
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            with path.open("rb") as file:
                os.fsync(file.fileno())
