"""GLUE's nine tasks and its diagnostic set, as their files and the hub have them."""

from attentune.tasks.glue import Glue
from attentune.tasks.task import CLASSIFICATION, REGRESSION, SCORE

SENTENCES = {"sentence1": "sentence1", "sentence2": "sentence2"}
INFERENCE = {"premise": "sentence1", "hypothesis": "sentence2"}
TWO_WAY = ("entailment", "not_entailment")
THREE_WAY = ("entailment", "neutral", "contradiction")
YES_NO = ("0", "1")
WITH_F1 = ("accuracy", "f1_positive", *CLASSIFICATION[1:])

COLA = Glue(
    name="cola",
    folders=("CoLA",),
    texts={"sentence": "sentence"},
    labels=("unacceptable", "acceptable"),
    spelled=YES_NO,
    deciding="matthews",
    header=("source", "label", "original mark", "sentence"),
)
SST2 = Glue(
    name="sst2",
    folders=("SST-2",),
    texts={"sentence": "sentence"},
    labels=("negative", "positive"),
    spelled=YES_NO,
    deciding="accuracy",
)
MRPC = Glue(
    name="mrpc",
    folders=("MRPC",),
    texts={"sentence1": "#1 String", "sentence2": "#2 String"},
    labels=("not_equivalent", "equivalent"),
    spelled=YES_NO,
    label="Quality",
    metrics=WITH_F1,
    deciding="f1_positive",
)
STSB = Glue(
    name="stsb",
    folders=("STS-B",),
    texts=SENTENCES,
    labels=SCORE,
    spelled=(),
    label="score",
    metrics=REGRESSION,
    deciding="pearson",
)
QQP = Glue(
    name="qqp",
    folders=("QQP",),
    texts={"question1": "question1", "question2": "question2"},
    labels=("not_duplicate", "duplicate"),
    spelled=YES_NO,
    label="is_duplicate",
    metrics=WITH_F1,
    deciding="f1_positive",
    has_damaged_rows=True,
)
MNLI = Glue(
    name="mnli",
    folders=("MNLI",),
    texts=INFERENCE,
    labels=THREE_WAY,
    spelled=THREE_WAY,
    label="gold_label",
    deciding="accuracy",
    files={
        "train": ("train.tsv",),
        "validation": ("dev_matched.tsv",),
        "validation_mismatched": ("dev_mismatched.tsv",),
        "test": ("test_matched.tsv",),
        "test_mismatched": ("test_mismatched.tsv",),
    },
    unlabelled="-",
)
QNLI = Glue(
    name="qnli",
    folders=("QNLI",),
    texts={"question": "question", "sentence": "sentence"},
    labels=TWO_WAY,
    spelled=TWO_WAY,
    deciding="accuracy",
)
RTE = Glue(
    name="rte",
    folders=("RTE",),
    texts=SENTENCES,
    labels=TWO_WAY,
    spelled=TWO_WAY,
    deciding="accuracy",
)
WNLI = Glue(
    name="wnli",
    folders=("WNLI",),
    texts=SENTENCES,
    labels=("not_entailment", "entailment"),
    spelled=YES_NO,
    deciding="accuracy",
)
AX = Glue(
    name="ax",
    folders=("diagnostic", "AX"),
    texts=INFERENCE,
    labels=THREE_WAY,
    spelled=THREE_WAY,
    label="Label",
    deciding="matthews",
    files={"validation": ("diagnostic-full.tsv",), "test": ("diagnostic.tsv", "AX.tsv")},
    required=(),
)

GLUE = {task.name: task for task in (COLA, SST2, MRPC, STSB, QQP, MNLI, QNLI, RTE, WNLI, AX)}
"""By name."""
