"""What methods cost beside the unguided training: each training in a process of its own, the methods taking turns, so that
what else the machine does meets them alike.

Time is that of the training alone, without loading and evaluation: on a CPU the processor time that it took, which other work
on the machine hardly changes, on a GPU the time on the clock. Memory is the peak above that of a process that has only
imported the libraries; on a GPU, what torch allocated at most.
"""

import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from attentune.errors import UserError
from attentune.methods import parse
from attentune.studies.runs import run_alone
from attentune.training import Recipe
from attentune.training.memory import peak_resident_mb

UNGUIDED = "none"


@dataclass(frozen=True)
class Spent:
    """One training."""

    task: str
    method: str
    seed: int
    score: float
    metric: str
    seconds: float
    """Of a step."""
    megabytes: float


@dataclass(frozen=True)
class Ratio:
    """A method's cost in that of the unguided training of the same seed."""

    median: float
    low: float
    high: float
    count: int

    @classmethod
    def of(cls, method: Sequence[float], unguided: Sequence[float]) -> "Ratio":
        """Of both, seed by seed.

        >>> str(Ratio.of([3.0, 2.0, 2.2], [2.0, 2.0, 2.0]))
        '1.10 × (1.00–1.50)'
        """
        ratios = [mine / plain for mine, plain in zip(method, unguided, strict=True)]
        return cls(statistics.median(ratios), min(ratios), max(ratios), len(ratios))

    def __str__(self) -> str:
        spread = f" ({self.low:.2f}–{self.high:.2f})" if self.count > 1 else ""
        return f"{self.median:.2f} ×{spread}"


@dataclass(frozen=True)
class Cost:
    """What a method costs on a task; the unguided one has no ratios."""

    task: str
    method: str
    score: float
    metric: str
    seconds: float
    megabytes: float
    time: Ratio | None
    memory: Ratio | None


def with_unguided(methods: Iterable[str]) -> list[str]:
    """The methods as they write themselves, each once, behind the unguided one.

    >>> with_unguided(["mdg(0.1)", "none", "mdg(0.1)"])
    ['none', 'mdg(weight=0.1)']
    """
    return list(dict.fromkeys([UNGUIDED, *(str(parse(method)) for method in methods)]))


def measure(recipes: Sequence[Recipe], told: Callable[[Spent], None] = lambda spent: None) -> list[Spent]:
    """Train each, in this order; `told` hears of each as it ends. A recipe that can't be trained ends it all."""
    spent = []
    with tempfile.TemporaryDirectory(prefix="attentune-bench-") as folder:
        for number, recipe in enumerate(recipes):
            spent.append(_measured(recipe, Path(folder) / str(number)))
            told(spent[-1])
    return spent


def _measured(recipe: Recipe, folder: Path) -> Spent:
    cost: dict[str, float] = {}
    try:
        outcome = run_alone(recipe, folder, told=lambda line: cost.update(line.get("cost", {})), cost=True)
    except UserError as error:
        raise UserError(f"{recipe.method} on {recipe.data.name} can't be measured: {error}") from None
    return Spent(
        recipe.data.name,
        recipe.method,
        recipe.training.seed,
        outcome.score,
        outcome.deciding,
        cost["seconds"] / outcome.train["steps"],
        cost["megabytes"],
    )


def costs(spent: Sequence[Spent]) -> list[Cost]:
    """Of each method on each task, over its seeds, in the order in which they were measured."""
    by_place: dict[tuple[str, str], list[Spent]] = {}
    for one in spent:
        by_place.setdefault((one.task, one.method), []).append(one)
    return [_cost(mine, by_place[task, UNGUIDED]) for (task, _), mine in by_place.items()]


def _cost(mine: Sequence[Spent], plain: Sequence[Spent]) -> Cost:
    seconds, megabytes = (
        [[getattr(one, what) for one in runs] for runs in (mine, plain)] for what in ("seconds", "megabytes")
    )
    return Cost(
        mine[0].task,
        mine[0].method,
        statistics.fmean(one.score for one in mine),
        mine[0].metric,
        statistics.median(seconds[0]),
        statistics.median(megabytes[0]),
        None if mine is plain else Ratio.of(*seconds),
        None if mine is plain else Ratio.of(*megabytes),
    )


class Meter(TrainerCallback):
    """Tells what the training took, before the evaluation, whose batches are larger."""

    def __init__(self, tell: Callable[..., None]) -> None:
        self.tell = tell
        self.on_gpu = torch.cuda.is_available()
        self.clock = time.perf_counter if self.on_gpu else time.process_time
        self.idle = peak_resident_mb()
        self.began = 0.0

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """From here on it counts."""
        self.began = self._now()

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Tell."""
        seconds = self._now() - self.began
        megabytes = torch.cuda.max_memory_allocated() / 2**20 if self.on_gpu else peak_resident_mb() - self.idle
        self.tell(cost={"seconds": seconds, "megabytes": megabytes})

    def _now(self) -> float:
        if self.on_gpu:
            torch.cuda.synchronize()
        return self.clock()
