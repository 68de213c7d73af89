"""The tasks that come with the library, by name."""

from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from attentune.errors import UserError
from attentune.tasks import glue, rotten_tomatoes
from attentune.tasks.task import Task


@dataclass(frozen=True)
class _BuiltIn:
    load: Callable[[Path | None], Task]
    summary: str


_TASKS = {
    "rte": _BuiltIn(
        glue.RTE.load,
        "does the first text entail the second? GLUE's RTE, 2,490 pairs to train on, decided by accuracy",
    ),
    "cola": _BuiltIn(
        glue.COLA.load,
        "is the sentence grammatical? GLUE's CoLA, 8,551 sentences to train on, decided by Matthews correlation",
    ),
    rotten_tomatoes.NAME: _BuiltIn(
        rotten_tomatoes.load,
        "is the sentence of a film review positive? 7,464 sentences to train on, decided by accuracy; no download",
    ),
}


def names() -> list[str]:
    """The tasks there are.

    >>> names()
    ['rte', 'cola', 'rotten-tomatoes']
    """
    return list(_TASKS)


def describe(name: str) -> str:
    """A task in one line.

    >>> describe("rte")
    "does the first text entail the second? GLUE's RTE, 2,490 pairs to train on, decided by accuracy"
    """
    return _TASKS[_known(name)].summary


def load(name: str, data_dir: str | Path | None = None) -> Task:
    """A task by its name, from the files in `data_dir` or, without one, from where it can be had.

    `data_dir` is the folder that holds `RTE/`, `CoLA/`, … or the data set's own folder.

    >>> load("rtee")
    Traceback (most recent call last):
    attentune.errors.UserError: there is no task 'rtee' (did you mean 'rte'?); give one of rte, cola, ...
    """
    return _TASKS[_known(name)].load(None if data_dir is None else Path(data_dir))


def _known(name: str) -> str:
    plain = name.strip().lower().replace("_", "-")
    if plain in _TASKS:
        return plain
    close = get_close_matches(plain, _TASKS, n=1)
    meant = f" (did you mean {close[0]!r}?)" if close else ""
    raise UserError(
        f"there is no task {name!r}{meant}; give one of {', '.join(_TASKS)}, or your own data with --train-file"
    )
