"""HANS and MedNLI as their files have them, and whose answers count for which task."""

import json
from collections import Counter

import pytest
import torch

from attentune import tasks
from attentune.errors import UserError
from attentune.tasks import judge, match
from attentune.tasks.task import split

THREE = ("entailment", "neutral", "contradiction")


def test_hans_has_every_row_with_heuristic_and_subcase(shared_data):
    lines = (
        (shared_data / "hans" / "heuristics_evaluation_set.txt").read_bytes().decode().removesuffix("\n").split("\n")
    )
    header = lines[0].split("\t")
    task = tasks.load("hans", shared_data)
    rows = task.splits["validation"]
    assert len(rows) == len(lines) - 1 == 6000
    for row, line in zip(rows, lines[1:], strict=True):
        raw = dict(zip(header, line.split("\t"), strict=True))
        assert row == {
            "id": raw["pairID"],
            "premise": raw["sentence1"],
            "hypothesis": raw["sentence2"],
            "label": int(raw["gold_label"] == "non-entailment"),
            "heuristic": raw["heuristic"],
            "subcase": raw["subcase"],
        }
    counts = Counter(zip(rows["heuristic"], rows["label"], strict=True))
    assert counts == {
        (name, label): 1000 for name in ("constituent", "lexical_overlap", "subsequence") for label in (0, 1)
    }


def test_the_official_hans_file_has_parses_too_and_a_training_file(tmp_path):
    parses = ["sentence1_binary_parse", "sentence2_binary_parse", "sentence1_parse", "sentence2_parse"]
    header = ["gold_label", *parses, "sentence1", "sentence2", "pairID", "heuristic", "subcase", "template"]
    row = ["non-entailment", "p", "p", "p", "p", "A .", "B .", "ex0", "constituent", "cn_adverb", "temp1"]
    for name in ("heuristics_train_set.txt", "heuristics_evaluation_set.txt"):
        (tmp_path / name).write_text("\t".join(header) + "\n" + "\t".join(row) + "\n")
    task = tasks.load("hans", tmp_path)
    assert list(task.splits) == ["train", "validation"]
    assert task.splits["train"][0]["label"] == 1


def test_hans_without_its_training_file_says_how_to_score(shared_data):
    with pytest.raises(UserError, match=r"hans has no rows to train on .*attentune evaluate --run … --task hans"):
        tasks.load("hans", shared_data).require_training_rows()


def mednli_row(label, number=0):
    row = {
        "gold_label": label,
        "pairID": f"p{number}",
        "sentence1": "No fever.",
        "sentence2": "Afebrile.",
        "parse": "( x )",
    }
    return json.dumps(row) + "\n"


def test_mednli_is_read_from_the_credentialed_release(told, tmp_path):
    folder = tmp_path / "mednli"
    folder.mkdir()
    for name, labels in (("train", ["entailment", "-", "neutral"]), ("dev", ["contradiction"]), ("test", ["neutral"])):
        rows = "".join(mednli_row(label, number) for number, label in enumerate(labels))
        (folder / f"mli_{name}_v1.jsonl").write_text(rows)
    task = tasks.load("mednli", tmp_path)
    assert task.labels == THREE
    assert task.splits["train"]["id"][:] == ["p0", "p2"]
    assert task.splits["validation"][0] == {"id": "p0", "sentence1": "No fever.", "sentence2": "Afebrile.", "label": 2}
    assert task.source.endswith("1 row of mli_train_v1.jsonl is left out, as it is without an agreed label (line 2)")
    assert told(tasks.load, "mednli").startswith("mednli is given to credentialed users only")
    (folder / "mli_dev_v1.jsonl").write_text(mednli_row("maybe"))
    assert "has the label 'maybe' in column 'gold_label'" in told(tasks.load, "mednli", tmp_path)
    (folder / "mli_dev_v1.jsonl").unlink()
    assert "needs the file" in told(tasks.load, "mednli", tmp_path)


def test_classes_are_matched_by_name_in_any_order_and_spelling():
    assert match(["Not Entailment", "ENTAILMENT"], ["entailment", "non-entailment"], "r", "t") == [1, 0]
    assert match(THREE, ["entailment", "not_entailment"], "r", "t") == [0, 1, 1]
    assert match(["contradiction", "neutral", "entailment"], THREE, "r", "t") == [2, 1, 0]


@pytest.mark.parametrize(
    ("answered", "wanted"),
    [
        (("entailment", "not_entailment"), THREE),
        (("neutral", "contradiction"), ("entailment", "not_entailment")),
        (("0", "1"), ("negative", "positive")),
        (("a", "b", "c"), ("a", "b")),
    ],
)
def test_classes_that_are_not_the_tasks_are_refused(answered, wanted):
    with pytest.raises(UserError, match="give a run whose classes have these names"):
        match(answered, wanted, "runs/x", "task")


def hans_task(rows):
    """A task like HANS with rows of heuristic, subcase and label."""
    names = ("entailment", "not_entailment")
    ids = [str(number) for number in range(len(rows))]
    texts = {"premise": ["a"] * len(rows), "hypothesis": ["b"] * len(rows)}
    groups = {"heuristic": [row[0] for row in rows], "subcase": [row[1] for row in rows]}
    rows_of_it = split(ids, texts, [row[2] for row in rows], names, **groups)
    return tasks.Task(
        "hans", {"validation": rows_of_it}, "premise", "hypothesis", "label", names, ("accuracy",), "accuracy", "here",
        groups=("heuristic", "subcase"),
    )  # fmt: skip


def test_a_three_way_answer_is_its_most_likely_class_and_then_folded():
    task = hans_task([("lexical", "le_a", 0), ("lexical", "ln_a", 1), ("lexical", "ln_b", 1), ("sub", "sn", 1)])
    # Most likely: entailment (though the others together weigh more), contradiction, entailment, neutral.
    logits = torch.tensor([[1.0, 0.9, 0.9], [0.0, 1.0, 2.0], [3.0, 0.0, 0.0], [0.0, 1.0, 0.5]])
    judged = judge(task, task.splits["validation"], logits, THREE, match(THREE, task.labels, "r", "t"))
    assert [row["prediction"] for row in judged.predictions] == [
        "entailment", "not_entailment", "entailment", "not_entailment",
    ]  # fmt: skip
    assert judged.scores == {"accuracy": 0.75}
    assert judged.details["confusion"]["true_by_predicted"] == [[1, 0], [1, 2]]
    assert judged.details["classes"]["not_entailment"] == {
        "precision": 1.0,
        "recall": round(2 / 3, 6),
        "f1": 0.8,
        "rows": 3,
    }
    assert judged.details["groups"] == {
        "heuristic": {
            "lexical": {"entailment": {"accuracy": 1.0, "rows": 1}, "not_entailment": {"accuracy": 0.5, "rows": 2}},
            "sub": {"not_entailment": {"accuracy": 1.0, "rows": 1}},
        },
        "subcase": {
            "le_a": {"entailment": {"accuracy": 1.0, "rows": 1}},
            "ln_a": {"not_entailment": {"accuracy": 1.0, "rows": 1}},
            "ln_b": {"not_entailment": {"accuracy": 0.0, "rows": 1}},
            "sn": {"not_entailment": {"accuracy": 1.0, "rows": 1}},
        },
    }
    assert set(judged.predictions[0]["probabilities"]) == set(THREE)


def test_rows_without_labels_are_not_judged():
    task = hans_task([("lexical", "le", -1)])
    with pytest.raises(UserError, match="these rows of hans have no labels"):
        judge(task, task.splits["validation"], torch.zeros(1, 2), task.labels, [0, 1])
