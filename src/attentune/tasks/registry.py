"""The tasks that come with the library, by name."""

from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from attentune.errors import UserError
from attentune.tasks import beir, cross_genre, inference, rotten_tomatoes
from attentune.tasks.glue import Glue
from attentune.tasks.glue_tasks import GLUE
from attentune.tasks.task import Kind, Task


@dataclass(frozen=True)
class BuiltIn:
    """A task that comes with the library, as it is listed."""

    load: Callable[..., Task]
    """Takes the folder of the data, or None; of rankings, how many negatives to draw as well."""
    asks: str
    """What the model has to tell, as a question."""
    rows: str
    """How many rows there are, in training / validation / test."""
    metric: str
    data: str
    """How to get the data."""
    kind: Kind = "classification"


GLUE_DATA = "without --data-dir the hub (nyu-mll/glue), with it the folder {}/ of the official download"


def _glue(task: Glue, asks: str, rows: str, metric: str) -> BuiltIn:
    return BuiltIn(task.load, asks, rows, metric, GLUE_DATA.format(task.folder), task.kind)


TASKS = {
    "cola": _glue(GLUE["cola"], "is the sentence grammatical?", "8,551 / 1,043 / 1,063", "Matthews correlation"),
    "sst2": _glue(GLUE["sst2"], "is the phrase of a film review positive?", "67,349 / 872 / 1,821", "accuracy"),
    "mrpc": _glue(
        GLUE["mrpc"], "do two sentences say the same?", "3,668 / 408 / 1,725", "F1 of the paraphrases, accuracy"
    ),
    "stsb": _glue(
        GLUE["stsb"], "how alike are two sentences, from 0 to 5?", "5,749 / 1,500 / 1,379", "Pearson and Spearman"
    ),
    "qqp": _glue(
        GLUE["qqp"], "do two questions ask the same?", "363,846 / 40,430 / 390,965", "F1 of the duplicates, accuracy"
    ),
    "mnli": _glue(
        GLUE["mnli"],
        "does the premise entail the hypothesis, contradict it, or neither?",
        "392,702 / 9,815 matched, 9,832 mismatched / 9,796, 9,847",
        "accuracy, matched decides",
    ),
    "qnli": _glue(GLUE["qnli"], "does the sentence answer the question?", "104,743 / 5,463 / 5,463", "accuracy"),
    "rte": _glue(GLUE["rte"], "does the first text entail the second?", "2,490 / 277 / 3,000", "accuracy"),
    "wnli": _glue(GLUE["wnli"], "is the pronoun rightly resolved?", "635 / 71 / 146", "accuracy"),
    "ax": _glue(
        GLUE["ax"],
        "MNLI's question, by linguistic phenomenon; nothing to train on",
        "0 / 0 / 1,104",
        "Matthews correlation",
    ),
    "hans": BuiltIn(
        inference.hans,
        "does the premise entail the hypothesis, where overlap of words misleads?",
        "30,000 / 30,000",
        "accuracy, told by heuristic and label, and by subcase",
        "without --data-dir the hub (jhu-cogsci/hans), with it the authors' heuristics_evaluation_set.txt",
    ),
    "mednli": BuiltIn(
        inference.mednli,
        "does the clinical premise entail the hypothesis, contradict it, or neither?",
        "11,232 / 1,395 / 1,422",
        "accuracy",
        f"credentialed users only ({inference.MEDNLI_SITE}); --data-dir with mli_train_v1.jsonl, mli_dev_v1.jsonl, …",
    ),
    cross_genre.NAME: BuiltIn(
        cross_genre.load,
        "which publication supports the claim of a health news article?",
        "5,034 claims",
        "MRR, R@1, 3, 5, 20",
        f"from the authors ({cross_genre.SITE}); --data-dir with their CSV and JSON files",
        "ranking",
    ),
    "beir": BuiltIn(
        beir.load,
        "which documents are relevant to the query? Your own data",
        "yours",
        "MRR, R@1, 3, 5, 20",
        "--data-dir with corpus.jsonl, queries.jsonl, qrels/ and candidates/ in TREC run format",
        "ranking",
    ),
    rotten_tomatoes.NAME: BuiltIn(
        rotten_tomatoes.load,
        "is the sentence of a film review positive?",
        "7,464 / 1,066",
        "accuracy",
        "packaged with the demo extra, no download; or --data-dir with train.csv and validation.csv",
    ),
}


def names() -> list[str]:
    """The tasks there are.

    >>> names()[:3]
    ['cola', 'sst2', 'mrpc']
    """
    return list(TASKS)


def describe(name: str) -> str:
    """A task in one line.

    >>> describe("rte")
    'does the first text entail the second? (2,490 / 277 / 3,000 rows; accuracy)'
    """
    task = TASKS[_known(name)]
    return f"{task.asks} ({task.rows} rows; {task.metric})"


def load(name: str, data_dir: str | Path | None = None, *, negatives: int | None = None) -> Task:
    """A task by its name, from the files in `data_dir` or, without one, from where it can be had.

    `data_dir` is the folder that holds `RTE/`, `CoLA/`, … or the data set's own folder. Rankings draw so many `negatives`
    for each relevant document to train on.

    >>> load("rtee")
    Traceback (most recent call last):
    attentune.errors.UserError: there is no task 'rtee' (did you mean 'rte'?); give one of cola, sst2, ...
    """
    task, folder = TASKS[_known(name)], None if data_dir is None else Path(data_dir)
    if task.kind == "ranking":
        return task.load(folder, negatives)
    if negatives is not None:
        raise UserError(f"--negatives is for rankings, and {_known(name)} is none (given: {negatives}); leave it out")
    return task.load(folder)


def _known(name: str) -> str:
    plain = name.strip().lower().replace("_", "-")
    if plain in TASKS:
        return plain
    close = get_close_matches(plain, TASKS, n=1)
    meant = f" (did you mean {close[0]!r}?)" if close else ""
    raise UserError(
        f"there is no task {name!r}{meant}; give one of {', '.join(TASKS)}, or your own data with --train-file"
    )
