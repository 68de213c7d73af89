"""What GLUE's server takes and how it scores: a zip of TSV files, one for each test set, and the mean over the tasks."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from attentune.tasks.glue_tasks import GLUE

HEADER = "index\tprediction\n"


@dataclass(frozen=True)
class Sheet:
    """One file of a submission: whose run answers it, and which rows."""

    file: str
    run_of: str
    task: str
    split: str
    rows: int
    """Of the official test set."""


SHEETS = (
    Sheet("CoLA.tsv", "cola", "cola", "test", 1063),
    Sheet("SST-2.tsv", "sst2", "sst2", "test", 1821),
    Sheet("MRPC.tsv", "mrpc", "mrpc", "test", 1725),
    Sheet("STS-B.tsv", "stsb", "stsb", "test", 1379),
    Sheet("MNLI-m.tsv", "mnli", "mnli", "test", 9796),
    Sheet("MNLI-mm.tsv", "mnli", "mnli", "test_mismatched", 9847),
    Sheet("QNLI.tsv", "qnli", "qnli", "test", 5463),
    Sheet("QQP.tsv", "qqp", "qqp", "test", 390965),
    Sheet("RTE.tsv", "rte", "rte", "test", 3000),
    Sheet("WNLI.tsv", "wnli", "wnli", "test", 146),
    Sheet("AX.tsv", "mnli", "ax", "test", 1104),
)
SCORED = {
    "cola": ("matthews",),
    "sst2": ("accuracy",),
    "mrpc": ("f1_positive", "accuracy"),
    "stsb": ("pearson", "spearman"),
    "qqp": ("f1_positive", "accuracy"),
    "mnli": ("accuracy", "mismatched_accuracy"),
    "qnli": ("accuracy",),
    "rte": ("accuracy",),
    "wnli": ("accuracy",),
}
"""What each task counts by: the mean of these."""


def answer(task: str, value: float) -> str:
    """A prediction as the server wants it: a class id by its official name, a number between 0 and 5.

    >>> answer("rte", 1), answer("mrpc", 1), answer("stsb", 5.3)
    ('not_entailment', '1', '5.000')
    """
    spec = GLUE[task]
    return spec.spelled[int(value)] if spec.spelled else f"{min(max(value, 0.0), spec.highest):.3f}"


def constant(task: str) -> str:
    """What stands for an answer where there is no run: the task's first class, or the middle of its numbers.

    >>> constant("cola"), constant("stsb")
    ('0', '2.500')
    """
    return answer(task, 0 if GLUE[task].spelled else GLUE[task].highest / 2)


def lines(ids: Iterable[str], answers: Iterable[str]) -> str:
    """A file's content.

    >>> lines(["0", "1"], ["0", "1"])
    'index\\tprediction\\n0\\t0\\n1\\t1\\n'
    """
    return HEADER + "".join(f"{index}\t{value}\n" for index, value in zip(ids, answers, strict=True))


def task_score(task: str, scores: Mapping[str, float]) -> float:
    """A task's part in the GLUE score, in percent: the mean of what it counts by, of those that there are.

    >>> task_score("mrpc", {"accuracy": 0.8, "f1_positive": 0.9, "matthews": 0.5})
    85.0
    """
    found = [scores[name] for name in SCORED[task] if name in scores]
    return round(100 * sum(found) / len(found), 4)


def glue_score(scores: Mapping[str, Mapping[str, float]]) -> tuple[float, Sequence[str]]:
    """The GLUE score in percent, the mean over its nine tasks, and the tasks that are lacking in it.

    >>> glue_score({"cola": {"matthews": 0.5}, "rte": {"accuracy": 0.7}})[0]
    60.0
    """
    there = [task for task in SCORED if task in scores]
    total = sum(task_score(task, scores[task]) for task in there)
    return round(total / max(1, len(there)), 4), [task for task in SCORED if task not in scores]
