"""Regression from a file to predictions: one output, no softmax, correlations, and the number for each text."""

import json

import pytest
from rich.console import Console
from transformers import AutoModelForSequenceClassification

from attentune.training import Predictor, Recipe, run_recipe


@pytest.fixture
def rated(tmp_path):
    """Reviews whose rating is told by one word."""
    file = tmp_path / "rated.tsv"
    values = {"fine": 4.5, "good": 3.5, "bad": 1.5, "dull": 0.5}
    rows = [f"a {word} film {more}\t{value}" for word, value in values.items() for more in ("was", "it", "the") * 4]
    file.write_text("text\tlabel\n" + "\n".join(rows) + "\n")
    return file


@pytest.fixture
def run(rated, model_folder, tmp_path):
    training = {"epochs": 12, "batch_size": 8, "lr": 0.01, "precision": "fp32"}
    recipe = Recipe.build({"model": str(model_folder), "data": {"train_file": str(rated)}, "training": training})
    return run_recipe(recipe, tmp_path / "run", console=Console(quiet=True))


def test_a_regression_is_learnt_and_judged_by_correlations(run):
    metrics = run.metrics()
    assert metrics["kind"] == "regression"
    assert metrics["eval"]["pearson"] > 0.9
    assert set(metrics["eval"]) == {"pearson", "spearman", "loss"}
    predictions = [json.loads(line) for line in (run.path / "predictions.jsonl").read_text().splitlines()]
    assert all(set(row) == {"id", "label", "prediction"} for row in predictions)
    errors = [row["prediction"] - row["label"] for row in predictions]
    mean_squared = sum(error**2 for error in errors) / len(errors)
    assert metrics["eval"]["loss"] == pytest.approx(mean_squared, rel=1e-3)
    details = metrics["details"]["validation"]
    assert details["root_mean_squared_error"] == pytest.approx(mean_squared**0.5, rel=1e-3)


def test_the_checkpoint_is_a_plain_regression_and_predict_gives_its_number(run, tiny_tokenizer, attentune, tmp_path):
    model = AutoModelForSequenceClassification.from_pretrained(run.checkpoint).eval()
    assert (model.config.num_labels, model.config.problem_type) == (1, "regression")
    plain = model(
        **{k: v for k, v in tiny_tokenizer("a fine film", return_tensors="pt").items() if k != "token_type_ids"}
    )
    asked = next(Predictor.from_run(run.path).stream([("a fine film", None)]))
    assert (asked.label, asked.probabilities) == (None, {})
    assert asked.score == pytest.approx(plain.logits.item(), abs=1e-5)
    (tmp_path / "new.txt").write_text("a fine film\na dull film\n")
    code, out, _ = attentune("predict", "--run", run.path, "new.txt")
    rows = [json.loads(line) for line in out.splitlines()]
    assert code == 0
    assert [set(row) for row in rows] == [{"id", "text", "score"}] * 2
    assert rows[0]["score"] > rows[1]["score"] + 0.3


def test_the_kind_is_a_flag_for_own_files_alone(attentune, rated, model_folder):
    code, _, err = attentune("train", "--task", "rte", "--kind", "regression")
    assert (code, "--kind is for your own files" in err) == (2, True)
    code, _, err = attentune("train", "--train-file", rated, "--kind", "counting")
    assert (code, "give one of classification, regression, ranking" in err) == (2, True)
