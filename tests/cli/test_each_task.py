"""Each task, from the real files, is trained on and scored by one command."""

import json

import pytest

from attentune.tasks import TASKS, load

SMALL = (
    "--epochs",
    "1",
    "--batch-size",
    "16",
    "--max-train",
    "32",
    "--max-eval",
    "24",
    "--precision",
    "fp32",
    "--json",
)
IN_SHARED_DATA = ("cola", "sst2", "mrpc", "stsb", "qqp", "mnli", "qnli", "rte", "wnli")


@pytest.mark.slow
@pytest.mark.parametrize("name", [*IN_SHARED_DATA, "rotten-tomatoes"])
def test_a_task_is_trained_and_scored_by_one_command(attentune, model_folder, shared_data, tmp_path, name):
    where = () if name == "rotten-tomatoes" else ("--data-dir", shared_data)
    code, out, err = attentune("train", "--model", model_folder, "--task", name, *where, *SMALL, "--output", "run")
    assert code == 0, err
    metrics = json.loads(out)
    task = load(name, where[1] if where else None)
    assert set(task.metrics) < set(metrics["eval"])
    assert metrics["deciding"] == task.deciding
    predictions = [json.loads(line) for line in (tmp_path / "run" / "predictions.jsonl").read_text().splitlines()]
    assert len(predictions) == 24
    if task.kind == "classification":
        right = sum(row["label"] == row["prediction"] for row in predictions)
        assert metrics["eval"]["accuracy"] == pytest.approx(right / 24, abs=1e-6)
        assert sum(map(sum, metrics["details"]["validation"]["confusion"]["true_by_predicted"])) == 24


@pytest.mark.slow
def test_hans_is_scored_in_the_command_that_trains_on_mnli(attentune, model_folder, shared_data, tmp_path):
    command = ("train", "--model", model_folder, "--task", "mnli", "--also", "hans", "--data-dir", shared_data)
    code, out, err = attentune(*command, *SMALL, "--output", "run")
    assert code == 0, err
    assert set(json.loads(out)["also"]["hans"]) >= {"accuracy", "f1"}
    details = json.loads((tmp_path / "run" / "evaluations" / "hans" / "metrics.json").read_text())["details"]
    assert set(details["validation"]["groups"]["heuristic"]) == {"constituent", "lexical_overlap", "subsequence"}
    code, _, err = attentune("train", "--model", model_folder, "--task", "hans", "--data-dir", shared_data, *SMALL)
    assert (code, "attentune evaluate --run … --task hans" in err) == (2, True)


@pytest.mark.slow
def test_a_ranking_is_trained_and_scored_by_one_command(attentune, model_folder, shared_data, tmp_path):
    folder = shared_data / "pubmedqa-ranking"
    command = ("train", "--model", model_folder, "--task", "beir", "--data-dir", folder, "--negatives", "2")
    code, out, err = attentune(*command, *SMALL, "--output", "run")
    assert code == 0, err
    metrics = json.loads(out)
    assert metrics["train"]["examples"] == 32 * 3
    lines = [line.split() for line in (tmp_path / "run" / "ranking.trec").read_text().splitlines()]
    assert len(lines) == 24 * 20
    # From the run file and the judgements alone, with plain loops:
    judged = [line.split("\t") for line in (folder / "qrels" / "dev.tsv").read_text().splitlines()[1:]]
    relevant = {(query, document) for query, document, _ in judged}
    places = {query: int(place) for query, _, document, place, _, _ in lines if (query, document) in relevant}
    assert metrics["eval"]["mrr"] == pytest.approx(sum(1 / place for place in places.values()) / 24, abs=1e-5)
    for k in (1, 3, 5, 20):
        found = sum(place <= k for place in places.values()) / 24
        assert metrics["eval"][f"r@{k}"] == pytest.approx(found, abs=1e-5)


def test_every_task_that_has_no_files_here_is_tested_on_small_ones() -> None:
    assert set(TASKS) - set(IN_SHARED_DATA) == {"ax", "hans", "mednli", "cross-genre-ir", "beir", "rotten-tomatoes"}
