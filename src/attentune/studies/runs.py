"""One run of a study: a recipe trained in a process of its own, and what is kept of it.

The trained model is not, unless it is asked for: a study of hundreds of runs would fill a disk. Scores, cost and every
answer are, so that the table can be made on any machine that sees the study.
"""

import contextlib
import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from attentune.errors import UserError
from attentune.training import Recipe, RunFolder

TAIL = 3
"""So many lines of what a run that broke had printed are told."""


@dataclass(frozen=True)
class Answers:
    """What a model answered to each row of the evaluation split, in the order of the data, and what is true.

    Class ids where texts are told apart, and numbers where they are rated; `labels` are the names of the classes.
    """

    truths: list[float]
    given: list[float]
    labels: list[str] | None = None
    rows: str = ""
    """The same for the same rows, whatever they were answered."""


@dataclass(frozen=True)
class Outcome:
    """What is kept of a run, as plain values: `asdict` of it goes into the study, and `Outcome.read` takes it out."""

    scores: dict[str, float]
    deciding: str
    seconds: float
    memory_mb: float
    train: dict[str, Any]
    answers: Answers

    @property
    def score(self) -> float:
        """The deciding one."""
        return self.scores[self.deciding]

    @classmethod
    def read(cls, values: dict[str, Any]) -> "Outcome":
        """From what `asdict` gave."""
        return cls(**{**values, "answers": Answers(**values["answers"])})

    @classmethod
    def of(cls, folder: RunFolder) -> "Outcome":
        """From the folder of a finished run."""
        metrics = folder.metrics()
        lines = (folder.path / "predictions.jsonl").read_text(encoding="utf-8").splitlines()
        return cls(
            scores=metrics["eval"],
            deciding=metrics["deciding"],
            seconds=metrics["train"]["seconds"],
            memory_mb=metrics["train"]["peak_memory_mb"],
            train=metrics["train"],
            answers=_answers([json.loads(line) for line in lines]),
        )


def _answers(rows: list[dict[str, Any]]) -> Answers:
    """Of the lines of predictions.jsonl.

    >>> _answers([{"id": "0", "label": "b", "prediction": "a", "probabilities": {"a": 0.9, "b": 0.1}}])
    Answers(truths=[1], given=[0], labels=['a', 'b'], rows='5feceb66ffc86f38')
    """
    identity = digest("\n".join(str(row["id"]) for row in rows))
    if not rows or "probabilities" not in rows[0]:
        return Answers([row["label"] for row in rows], [row["prediction"] for row in rows], None, identity)
    labels = list(rows[0]["probabilities"])
    numbers = {label: number for number, label in enumerate(labels)}
    return Answers(
        [numbers[row["label"]] for row in rows], [numbers[row["prediction"]] for row in rows], labels, identity
    )


def recipe_key(recipe: Recipe) -> str:
    """The same for the same recipe, and no other."""
    return digest(json.dumps(recipe.model_dump(mode="json"), sort_keys=True))


def digest(text: str) -> str:
    """A short name for a text, the same on every machine."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


Told = Callable[[dict[str, Any]], None]


def run_alone(
    recipe: Recipe, folder: Path, *, keep_model: bool = False, told: Told = lambda line: None, **asked: Any
) -> Outcome:
    """Train a recipe in a process of its own, and wait for it.

    `told` gets what the run tells on its way; an exception in it ends the run. `asked` is for `alone` beside the recipe.
    """
    if folder.exists():  # of a worker that died
        shutil.rmtree(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    log = folder.with_name(folder.name + ".log")
    problem = None
    with log.open("w", encoding="utf-8") as printed, _child(folder, printed) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(json.dumps({"recipe": recipe.model_dump(mode="json"), **asked}) + "\n")
        child.stdin.flush()
        for text in child.stdout:
            line = json.loads(text)
            problem = line.get("problem", problem)
            told(line)
        code = child.wait()
    if problem is not None:
        raise UserError(problem)
    if code:
        lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-TAIL:]
        raise UserError(f"the run ended with exit code {code} ({' / '.join(lines) or 'it printed nothing'}); see {log}")
    outcome = Outcome.of(RunFolder.open(folder))
    if not keep_model:
        shutil.rmtree(folder / "checkpoint", ignore_errors=True)
    return outcome


@contextlib.contextmanager
def _child(folder: Path, printed: Any) -> Iterator[subprocess.Popen[str]]:
    """The process, which is gone when the block is left, however that is."""
    child = subprocess.Popen(
        [sys.executable, "-m", "attentune.studies.alone", str(folder)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=printed, text=True, encoding="utf-8",
        start_new_session=True,  # Ctrl-C is for us, and we end it
    )  # fmt: skip
    try:
        yield child
    finally:
        for pipe in (child.stdin, child.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        if child.poll() is None:
            try:
                child.wait(timeout=5)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()


def as_values(outcome: Outcome) -> dict[str, Any]:
    """The outcome as JSON takes it."""
    return asdict(outcome)
