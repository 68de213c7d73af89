"""What a run of fine-tuning and one of pre-training share: who speaks, how a run goes on, training that a signal may stop, what
is told of its cost, and a checkpoint that is whole or not there at all.

On several processes all of them do the same, and the first alone writes and speaks.
"""

import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar

from rich.console import Console
from torch import nn
from transformers import PreTrainedModel, TrainerCallback, set_seed
from transformers.trainer_callback import PrinterCallback

from attentune.errors import UserError
from attentune.methods import save
from attentune.training import processes
from attentune.training.card import NAME as CARD
from attentune.training.checkpoints import last_good, sync_to_disk, told_of_disk
from attentune.training.lora import merged, save_adapter
from attentune.training.memory import peak_memory_mb
from attentune.training.precision import takes_bf16
from attentune.training.progress import ShowProgress, stage
from attentune.training.recipe import TrainingRecipe
from attentune.training.run_folder import RunFolder
from attentune.training.stopping import StopOnSignal
from attentune.training.trainer import Trainer
from attentune.training.trust import MayAsk, require_trust

Say = Callable[[str], None]


class Runs(MayAsk, Protocol):
    """A recipe of any kind."""

    @property
    def method(self) -> str:
        """The method, as it writes itself."""

    @property
    def training(self) -> TrainingRecipe:
        """How to train."""


AnyRecipe = TypeVar("AnyRecipe", bound=Runs)
AnyTrainer = TypeVar("AnyTrainer", bound=Trainer)
Judged = TypeVar("Judged")


class Fitting(NamedTuple, Generic[AnyTrainer]):
    """What a training runs with."""

    trainer: AnyTrainer
    stop: StopOnSignal
    progress: ShowProgress


@dataclass
class Running(ABC, Generic[AnyRecipe]):
    """A run of a recipe on its way: `say` is told of it line by line, and progress goes to the console."""

    command: ClassVar[str]
    """That of the command line which goes on with such a run."""

    recipe: AnyRecipe
    path: Path
    console: Console | None = None
    tell: Say = lambda line: None
    callbacks: Sequence[TrainerCallback] = ()

    def __post_init__(self) -> None:
        if not processes.is_first():
            self.console, self.tell = Console(quiet=True), lambda line: None
        self.console = self.console or Console(stderr=True)

    @classmethod
    @abstractmethod
    def recipe_of(cls, folder: RunFolder) -> AnyRecipe:
        """The recipe that a folder began with."""

    @abstractmethod
    def whole(self, folder: RunFolder | None = None, checkpoint: Path | None = None) -> RunFolder:
        """All of the run, or the rest of it in a folder that is there."""

    def anew(self) -> RunFolder:
        """All of it, in a folder that must be new or empty."""
        processes.join()
        with processes.agreed():
            if processes.is_first():
                RunFolder.check_free(self.path)
        return self.whole()

    @classmethod
    def resumed(cls, path: str | Path, trust_remote_code: bool, *speech: Any) -> RunFolder:
        """The rest of a run that was interrupted, from its last whole checkpoint, to the end that it would have had.

        Code that the model brings along is run only if it is allowed anew: the folder may be a stranger's.
        """
        processes.join()
        with processes.agreed():
            folder = RunFolder.interrupted(path)
            recipe = cls.recipe_of(folder)
            require_trust(recipe, trust_remote_code, f"the run in {path}")
            checkpoint, passed_over = last_good(folder.steps)
        run = cls(recipe, folder.path, *speech)
        for line in passed_over:
            run.say(line)
        run.say(f"resuming from {checkpoint}" if checkpoint else "there is no whole checkpoint yet: beginning anew")
        if changed := folder.versions_changed():
            run.say(
                f"not the versions that the run began with, so that its last digits may differ: {', '.join(changed)}"
            )
        if checkpoint is not None and len(list(checkpoint.glob("rng_state*.pth"))) != processes.count():
            run.say("not as many processes as before, so that other random numbers are drawn from here on")
        return run.whole(folder, checkpoint)

    def say(self, line: str) -> None:
        """Tell of the run."""
        self.tell(line)

    def stage(self, what: str) -> AbstractContextManager[None]:
        """Show that something takes a while."""
        assert self.console is not None
        return stage(self.console, what)

    def precision(self) -> bool:
        """Whether it trains in bfloat16, which is told with the method."""
        training, method = self.recipe.training, self.recipe.method
        bf16 = takes_bf16(training.precision)
        shared = f"; {processes.count()} processes" if processes.count() > 1 else ""
        self.say(f"precision: {'bfloat16 autocast' if bf16 else 'float32'}; method: {method}{shared}")
        return bf16

    def shown(self) -> tuple[ShowProgress, StopOnSignal]:
        """The callbacks that every training has."""
        assert self.console is not None
        return ShowProgress(self.console), StopOnSignal(self.say)

    def ready(self, trainer: Trainer) -> None:
        """The last touches before it trains."""
        trainer.remove_callback(PrinterCallback)
        if processes.rank():  # or dropout would be the same on every process
            set_seed(self.recipe.training.seed + processes.rank())

    def trained(
        self, fitting: Fitting[AnyTrainer], checkpoint: Path | None, judge: Callable[[], Judged]
    ) -> tuple[float, float, Judged]:
        """The mean loss, the seconds, and what the judge found; a signal ends it with a checkpoint."""
        trainer, stop, progress = fitting
        try:
            with stop.listening():
                result = trainer.train(resume_from_checkpoint=None if checkpoint is None else str(checkpoint))
            seconds = trainer.seconds
            if stop.stopped_at is not None:
                raise KeyboardInterrupt(
                    f"a checkpoint of step {stop.stopped_at:,} is kept; go on with: "
                    f"attentune {self.command} --resume --output {self.path}"
                )
            return result.training_loss, seconds, judge()
        finally:
            progress.stop()


def cost(trainer: Trainer, rows: int, loss: float, seconds: float) -> dict[str, Any]:
    """What a run's metrics tell of its training, over all processes."""
    losses = processes.gathered(loss)
    return {
        "loss": sum(losses) / len(losses),
        "examples": rows,
        "steps": trainer.state.global_step,
        "epochs": round(trainer.state.epoch or 0, 4),
        "seconds": round(seconds, 2),
        "peak_memory_mb": round(max(processes.gathered(peak_memory_mb()))),
        "precision": "bf16" if trainer.args.bf16 else "fp32",
        "processes": processes.count(),
    }


def save_checkpoint(model: nn.Module, tokenizer: Any, folder: RunFolder, card: str) -> PreTrainedModel:
    """The checkpoint with its card, whole or not at all; an adapter beside it, where one was trained. The model as it is kept."""
    part = folder.checkpoint.with_name("checkpoint.part")
    shutil.rmtree(part, ignore_errors=True)
    try:
        with told_of_disk("the trained model", folder.path):
            plain = merged(model)
            if plain is not model:
                save_adapter(model, folder.adapter)
            save(plain, part, tokenizer)
            (part / CARD).write_text(card, encoding="utf-8")
            sync_to_disk(part)
            shutil.rmtree(folder.checkpoint, ignore_errors=True)  # of the same run, stopped before its end
            part.rename(folder.checkpoint)
        return plain
    except UserError:
        shutil.rmtree(part, ignore_errors=True)
        raise
    except Exception as error:
        raise UserError(f"the model can't be saved in {folder.checkpoint}: {error}") from error
