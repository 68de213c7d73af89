"""Progress on a terminal: a bar for each stage of a run, with the loss and its parts while it is trained; on anything
else, one line an epoch.

Before an epoch a method may go over all texts first; that is shown too, by the same bar or by transformers' own.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.utils.logging import tqdm

FOUND = ("/right", "/flipped")
"""How the names of figures end that ssa finds of its labels."""


@contextmanager
def stage(console: Console, what: str) -> Iterator[None]:
    """A block of unknown length, with what is done and for how long it has been; gone when it is done."""
    if not console.is_terminal:
        yield
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as shown:
        shown.add_task(what, total=None)
        yield


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
        self.evaluation: TaskID | None = None
        self.preparing: TaskID | None = None
        self.bar = Progress(
            TextColumn("{task.description}"),
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
        """Show the latest parts of the loss, and what a method found before an epoch."""
        shown = {name: value for name, value in (logs or {}).items() if "loss" in name or name.startswith("guide/")}
        if "loss" in shown:
            self.latest = shown
            self.bar.update(self.bar_task, parts=self._parts())
        found = {name: value for name, value in (logs or {}).items() if name.endswith(FOUND)}
        if found:
            told = "  ".join(f"{name} {value:.1%}" for name, value in found.items())
            self.console.print(f"step {state.global_step}: {told}", highlight=False)

    def on_preparing(self, what: str, done: int, total: int) -> None:
        """Show how far a method is with the texts, before an epoch."""
        if self.preparing is None:
            self.preparing = self.bar.add_task(what, total=total, parts="")
        self.bar.update(self.preparing, completed=done, total=total)
        if done == total:
            self.bar.remove_task(self.preparing)
            self.preparing = None

    def on_prediction_step(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        eval_dataloader: Any = None,
        **kwargs: Any,
    ) -> None:
        """Move the bar of an evaluation."""
        if self.evaluation is None:
            total = len(eval_dataloader) if hasattr(eval_dataloader, "__len__") else None
            self.evaluation = self.bar.add_task("evaluating", total=total, parts="")
            if self.console.is_terminal:
                self.bar.start()
        self.bar.advance(self.evaluation)

    def on_evaluate(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """An evaluation between steps is done."""
        self._end_evaluation()

    def on_predict(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, metrics: Any, **kwargs: Any
    ) -> None:
        """The last evaluation is done."""
        self._end_evaluation()
        self.stop()

    def _end_evaluation(self) -> None:
        if self.evaluation is not None:
            self.bar.remove_task(self.evaluation)
            self.evaluation = None

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
        self.bar.remove_task(self.bar_task)

    def stop(self) -> None:
        """Take the bar away and give the terminal its cursor back, however training ended; harmless when done twice."""
        if self.bar.live.is_started:  # a bar that never began would leave an empty line instead
            self.bar.stop()

    def _parts(self) -> str:
        return "  ".join(f"{name} {value:.4f}" for name, value in self.latest.items())


class BeforeEpochs(TrainerCallback):
    """Calls a function with the number of each epoch, from 0, before it begins; resumed training counts on."""

    def __init__(self, begin: Callable[[int], None]) -> None:
        self.begin = begin
        self.next = 0

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Count from here."""
        self.next = int(state.epoch or 0)

    def on_epoch_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Begin."""
        self.begin(self.next)
        self.next += 1


def tell_preparing(
    callbacks: Iterable[TrainerCallback], args: TrainingArguments, what: str
) -> Callable[[int, int], None]:
    """Who is told how many of how many texts are done, before an epoch: the callbacks that show it, or else a bar as
    transformers has them, where it may have some."""
    shown = [tell for callback in callbacks if (tell := getattr(callback, "on_preparing", None)) is not None]
    if shown:

        def on_callbacks(done: int, total: int) -> None:
            for tell in shown:
                tell(what, done, total)

        return on_callbacks
    bar: Any = None
    before = 0

    def on_bar(done: int, total: int) -> None:
        nonlocal bar, before
        if bar is None:
            before = 0
            bar = tqdm(desc=what, total=total, leave=False, disable=args.disable_tqdm or args.process_index != 0)
        bar.total = total
        bar.update(done - before)  # transformers' stand-in for a bar that is switched off can't tell where it is
        before = done
        if done == total:
            bar.close()
            bar = None

    return on_bar
