"""`attentune pretrain`, as a user types it."""

import json

import datasets
import pytest

TINY = ["--layers", "2", "--width", "16", "--heads", "4", "--vocab-size", "320", "--max-length", "32"]
SHORT = ["--max-steps", "3", "--batch-size", "4", "--precision", "fp32"]


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def text(tmp_path):
    file = tmp_path / "text.txt"
    file.write_text("".join(f"document {i} of the river and its {i % 7} old bridges\n" for i in range(60)))
    return file


def test_flags_make_the_recipe_that_is_run(attentune, text, tmp_path):
    method = "first(0.8, heads=2, schedule=linear(hold=0.5)) + next(0.8, heads=1) + prev(0.8, heads=1)"
    code, out, err = attentune(
        "pretrain", "--train-file", text, "--architecture", "bert", *TINY, *SHORT, "--mask-rate", "0.3", "--whole-word",
        "--method", method, "--seed", "7", "--eval-steps", "2", "--set", "new.dropout=0", "--output", "run", "--json",
    )  # fmt: skip
    assert code == 0, err
    metrics = json.loads(out)
    assert {"loss", "perplexity"} == set(metrics["eval"])
    assert metrics["seed"] == 7
    assert metrics["model"] == {
        "architecture": "bert", "layers": 2, "width": 16, "heads": 4, "feed_forward": None, "vocab_size": 320, "dropout": 0.0
    }  # fmt: skip
    assert metrics["method"].startswith("first(weight=0.8, schedule=linear(hold=0.5), heads=2) + next(")
    recipe = (tmp_path / "run" / "recipe.yaml").read_text()
    assert "rate: 0.3" in recipe
    assert "whole_word: true" in recipe
    steps = [json.loads(line)["step"] for line in (tmp_path / "run" / "curve.jsonl").read_text().splitlines()]
    assert steps == [0, 2, 3]
    assert "step 2," in err
    assert "held-out loss" in err


def test_a_run_is_shown_gone_on_with_and_fine_tuned(attentune, text, review_rows, tmp_path):
    code, out, err = attentune("pretrain", "--train-file", text, *TINY, *SHORT, "--output", "run")
    assert code == 0, err
    assert "held-out perplexity" in out
    assert "run: run" in out
    code, _, err = attentune("pretrain", "--resume", "--output", "run")
    assert (code, "has finished already" in err) == (2, True)
    code, _, err = attentune(
        "train", "--model", "run", "--train-file", review_rows, "--text", "review", "--label", "verdict",
        "--max-steps", "1", "--max-length", "32", "--output", "tuned",
    )  # fmt: skip
    assert code == 0, err
    code, _, err = attentune(
        "pretrain", "--model", "run", "--train-file", text, *SHORT, "--max-length", "32", "--output", "on"
    )
    assert code == 0, err
    assert "packed: " in err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "there is no text: give --train-file"),
        (["--train-file", "gone.txt"], "no such file: gone.txt"),
        (["--train-file", "text.txt", "--width", "10"], "--width is 10 and --heads 8"),
        (["--train-file", "text.txt", "--model", "minilm", "--layers", "2"], "is a checkpoint to go on from"),
        (["--train-file", "text.txt", "--heads", "0"], "--heads (new.heads) is 0; give a whole number, at least 1"),
        (["--train-file", "text.txt", "--set", "new.depth=3"], "a recipe's new has no field 'depth'"),
        (["--train-file", "text.txt", "--set", "layers=3"], "did you mean new.layers?"),
        (["--train-file", "text.txt", "--method", "first(heads=20)"], "20 heads are asked for, but a layer has 8"),
        (
            ["--resume", "--output", "run", "--layers", "3"],
            "--resume goes on with the run's own recipe, which --layers would",
        ),
        (["--resume", "--output", "run"], "there is no run in run to go on with"),
        (["--train-file", "text.txt", "--max-length", "4000", "--model", "nowhere"], "there is no model 'nowhere'"),
    ],
)
def test_a_mistake_is_one_sentence(attentune, text, monkeypatch, words, told):
    from attentune.training import sources

    def no_model(*args, **kwargs):
        raise sources.RepositoryNotFoundError("no", response=type("R", (), {"headers": {}, "request": None})())

    monkeypatch.setattr(sources.huggingface_hub.HfApi, "model_info", no_model)
    code, out, err = attentune("pretrain", *words)
    assert (code, out) == (2, "")
    assert told in err
    assert "Traceback" not in err
    assert len([line for line in err.splitlines() if line.startswith("attentune: ")]) == 1


def test_predict_and_train_tell_a_run_of_pretraining(attentune, text, tmp_path):
    assert attentune("pretrain", "--train-file", text, *TINY, *SHORT, "--output", "run")[0] == 0
    code, _, err = attentune("predict", "--run", "run", text)
    assert code == 2
    assert "is one of pre-training: fine-tune its model with attentune train --model run" in err
