"""Progress of training on a terminal: one bar with the loss and its parts; on anything else, one line an epoch."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments


@contextmanager
def show_work(console: Console) -> Iterator[Callable[[str, int, int], None]]:
    """Within, work on many texts can be told of: what is done, and how many of how many; a bar for each kind of work."""
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
    )
    bars: dict[str, TaskID] = {}

    def told(what: str, done: int, total: int) -> None:
        if what not in bars:
            bars[what] = bar.add_task(what, total=total)
        bar.update(bars[what], completed=done)

    with bar if console.is_terminal else nullcontext():
        yield told


class ShowProgress(TrainerCallback):
    """A rich progress bar in place of transformers' own."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.latest: dict[str, float] = {}
        self.bar = Progress(
            TextColumn("training"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[parts]}"),
            console=console,
            transient=True,
        )

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Show the bar."""
        self.bar_task = self.bar.add_task("training", total=state.max_steps, completed=state.global_step, parts="")
        if self.console.is_terminal:
            self.bar.start()

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Move the bar."""
        self.bar.update(self.bar_task, completed=state.global_step)

    def on_log(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, logs: Any = None, **kwargs: Any
    ) -> None:
        """Show the latest parts of the loss."""
        shown = {name: value for name, value in (logs or {}).items() if "loss" in name or name.startswith("guide/")}
        if "loss" in shown:
            self.latest = shown
            self.bar.update(self.bar_task, parts=self._parts())

    def on_epoch_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Where there is no terminal, say at least this."""
        if not self.console.is_terminal:
            self.console.print(
                f"epoch {state.epoch or 0:.0f}, step {state.global_step}: {self._parts()}", highlight=False
            )

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Take the bar away."""
        self.stop()

    def stop(self) -> None:
        """Take the bar away and give the terminal its cursor back, however training ended; harmless when done twice."""
        if self.bar.live.is_started:  # a bar that never began would leave an empty line instead
            self.bar.stop()

    def _parts(self) -> str:
        return "  ".join(f"{name} {value:.4f}" for name, value in self.latest.items())
