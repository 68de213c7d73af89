"""How far a study is: one bar over all runs and all workers on a terminal, one line a run elsewhere."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from attentune.studies.work import LABEL, Standing, Watch

Begins = Callable[[str], None]


class Shown:
    """What a worker tells while it works: `standing` after each run, `begins` at the start of each of its own."""

    def __init__(self, console: Console, what: str) -> None:
        self.console = console
        self.told: set[str] = set()
        self.is_first = True
        self.bar = Progress(
            TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
            TimeRemainingColumn(), TextColumn("{task.fields[now]}", markup=False), console=console, transient=True,
        )  # fmt: skip
        self.row = self.bar.add_task(what, total=None, now="")
        self.what = what

    def standing(self, standing: Standing) -> None:
        """Tell of the runs that are new since the last time."""
        count = len(standing.done) + len(standing.failed)
        self.bar.update(self.row, completed=count, total=standing.total)
        if self.is_first and standing.done:
            self._line(f"{self.what}: {len(standing.done)} of {standing.total} runs are done already")
            self.told |= standing.done.keys()
        self.is_first = False
        for key, problem in standing.failed.items():
            if key not in self.told:
                self._line(f"{self.what}: a run failed: {problem}")
        if not self.console.is_terminal:
            for key, trial in standing.done.items():
                if key not in self.told:
                    value = "pruned" if trial.value is None else f"{trial.value:.4f}"
                    self._line(f"{self.what} [{count}/{standing.total}] {trial.user_attrs[LABEL]}: {value}")
        self.told |= {*standing.done, *standing.failed}
        if standing.running:
            self.bar.update(self.row, now=f"waiting for {', '.join(sorted(set(standing.running.values())))}")

    def begins(self, label: str) -> None:
        """A run of this worker has begun."""
        self.bar.update(self.row, now=label)

    def _line(self, line: str) -> None:
        self.console.print(line, style="dim", markup=False, highlight=False)


@contextmanager
def shown(console: Console | None, what: str) -> Iterator[tuple[Watch, Begins]]:
    """A block of work whose progress is shown on a console, if there is one."""
    if console is None:
        yield (lambda standing: None), (lambda label: None)
        return
    progress = Shown(console, what)
    if console.is_terminal:
        progress.bar.start()
    try:
        yield progress.standing, progress.begins
    finally:
        if progress.bar.live.is_started:
            progress.bar.stop()
