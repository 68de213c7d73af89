"""A run: judged in the order of its data, refused before anything is written, and never a success where it diverged."""

import json
import math
import os

import numpy as np
import pytest
import torch
from datasets import Dataset
from rich.console import Console
from transformers import FNetConfig, FNetForSequenceClassification, Gemma2Config, Gemma2ForSequenceClassification

from attentune.errors import UserError
from attentune.tasks import from_files
from attentune.training import Recipe, RunFolder, run_recipe, running, written_whole
from attentune.training.evaluation import evaluate
from attentune.training.progress import ShowProgress
from attentune.training.trial import try_method


class Answers:
    """A trainer whose model answers each row with the logits that the row brings along."""

    def __init__(self):
        self.args = type("Arguments", (), {})()

    def predict(self, rows):
        return type("Output", (), {"predictions": np.array(rows["logits"]), "metrics": {"test_loss": 0.5}})


@pytest.fixture
def judged(tmp_path):
    """A task whose held-out rows are of labels a, b, a, b, and share their ids."""

    def make(logits):
        files = [tmp_path / name for name in ("train.tsv", "eval.tsv")]
        for file in files:
            file.write_text("id\ttext\tlabel\nx\tone\ta\nx\ttwo\tb\ny\tthree\ta\nx\tfour\tb\n")
        rows = Dataset.from_dict({"position": [2, 0, 3, 1], "logits": [logits[i] for i in (2, 0, 3, 1)]})
        return from_files(*files), rows

    return make


def test_predictions_stand_in_the_order_of_the_data_even_where_ids_repeat(judged):
    task, rows = judged([[9.0, 0.0], [0.0, 1.0], [0.0, 2.0], [0.0, 3.0]])
    judged_as = evaluate(Answers(), task, rows)
    predictions = judged_as.predictions
    assert [row["id"] for row in predictions] == ["x", "x", "y", "x"]
    assert [row["label"] for row in predictions] == ["a", "b", "a", "b"]
    assert [row["prediction"] for row in predictions] == ["a", "b", "b", "b"]
    assert [round(math.log(r["probabilities"]["b"] / r["probabilities"]["a"])) for r in predictions[1:]] == [1, 2, 3]
    assert judged_as.scores["accuracy"] == 0.75
    assert judged_as.details["confusion"] == {"labels": ["a", "b"], "true_by_predicted": [[1, 1], [0, 2]]}


@pytest.mark.parametrize("wrong", [math.nan, math.inf])
def test_a_model_that_gives_no_numbers_is_no_success(judged, wrong):
    task, rows = judged([[9.0, 0.0], [wrong, 1.0], [0.0, 2.0], [0.0, 3.0]])
    with pytest.raises(UserError, match="no numbers for 1 of 4 texts: its training has diverged"):
        evaluate(Answers(), task, rows)


def test_what_a_run_leaves_is_json_that_every_reader_takes(tmp_path):
    folder = RunFolder.create(tmp_path / "run")
    folder.write_log([{"loss": 1.0, "grad_norm": math.inf}])
    assert json.loads((tmp_path / "run" / "log.jsonl").read_text()) == {"loss": 1.0, "grad_norm": None}
    with pytest.raises(ValueError, match="JSON"):
        folder.write_metrics({"eval": {"accuracy": math.nan}})
    with pytest.raises(ValueError, match="JSON"):
        folder.write_predictions([{"probabilities": {"a": math.nan}}])
    assert not folder.is_finished


def test_a_file_that_fails_half_way_leaves_nothing(tmp_path):
    def write_half():
        with written_whole(tmp_path / "out.jsonl") as file:
            file.write("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_half()
    assert list(tmp_path.iterdir()) == []


SMALL = {"vocab_size": 50, "hidden_size": 16, "num_hidden_layers": 2, "intermediate_size": 32, "pad_token_id": 0}


def unguidable(name):
    if name == "fnet":
        return FNetForSequenceClassification(FNetConfig(**SMALL, num_attention_heads=4))
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 4}
    return Gemma2ForSequenceClassification(Gemma2Config(**SMALL, **heads, bos_token_id=1, eos_token_id=2))


@pytest.mark.parametrize("name", ["fnet", "gemma2"])
def test_a_model_that_cannot_be_guided_is_told_before_anything_is_written(tiny_tokenizer, review_rows, tmp_path, name):
    unguidable(name).save_pretrained(tmp_path / "model")
    tiny_tokenizer.save_pretrained(tmp_path / "model")
    data = {"train_file": str(review_rows), "text": "review", "label": "verdict"}
    recipe = Recipe.build({"model": str(tmp_path / "model"), "data": data, "method": "mdg(0.1)"})
    with pytest.raises(UserError, match="can't be guided"):
        run_recipe(recipe, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_trial_leaves_the_model_and_the_random_numbers_as_they_were(tiny_model, tiny_tokenizer):
    model = tiny_model(hidden_dropout_prob=0.5)
    before, random = {name: w.clone() for name, w in model.state_dict().items()}, torch.get_rng_state()
    try_method(model, "mdg(0.1) + pdg(0.1, tokens=content)", tiny_tokenizer, "a fine film")
    assert model.training
    assert model.config._attn_implementation == "sdpa"
    assert torch.equal(torch.get_rng_state(), random)
    assert all(torch.equal(model.state_dict()[name], w) for name, w in before.items())
    assert all(p.grad is None for p in model.parameters())


def test_an_output_that_cannot_be_is_told_before_the_data_are_read(review_rows, tmp_path, monkeypatch):
    recipe = Recipe.build({"data": {"train_file": "nowhere.tsv"}})
    with pytest.raises(UserError, match=r"can't be made: .*reviews.tsv is a file"):
        run_recipe(recipe, review_rows)
    with pytest.raises(UserError, match=r"can't be made: .*reviews.tsv is a file"):
        run_recipe(recipe, review_rows / "run")
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(UserError, match="no permission in"):
        run_recipe(recipe, tmp_path / "new" / "run")
    assert not (tmp_path / "new").exists()


def test_what_a_folder_holds_is_told_apart(tmp_path):
    held = tmp_path / "held"
    held.mkdir()
    RunFolder.check_free(held)
    for file, holds in (("notes.txt", "files;"), ("recipe.yaml", "an unfinished run;"), ("metrics.json", "a run;")):
        (held / file).write_text("")
        with pytest.raises(UserError, match=f"already holds {holds}"):
            RunFolder.check_free(held)


@pytest.mark.parametrize("stop", [KeyboardInterrupt, UserError])
def test_the_progress_bar_goes_however_training_ends(tiny_recipe, tmp_path, monkeypatch, stop):
    bars = []

    class Watched(ShowProgress):
        def __init__(self, console):
            super().__init__(console)
            bars.append(self.bar)

        def on_step_end(self, *args, **kwargs):
            assert self.bar.live.is_started
            raise stop

    monkeypatch.setattr(running, "ShowProgress", Watched)
    console = Console(force_terminal=True, file=(tmp_path / "terminal").open("w"))
    with pytest.raises(stop):
        run_recipe(tiny_recipe(), tmp_path / "run", console=console)
    assert not bars[0].live.is_started
    console.file.flush()
    shown = (tmp_path / "terminal").read_text()
    assert shown.rindex("\x1b[?25h") > shown.rindex("\x1b[?25l")  # the cursor is back


def test_the_data_are_told_with_their_classes(tiny_recipe, tmp_path):
    train, dev = tmp_path / "train.csv", tmp_path / "dev.csv"
    labels = ["b", "a", "a", "a", "c", "d", "e", "f", "a name that goes on and on and on"]
    train.write_text("review,verdict\n" + "".join(f"fine,{label}\n" for label in labels))
    dev.write_text("review,verdict\ndull,b\n")
    data = {"train_file": str(train), "eval_file": str(dev), "text": "review", "label": "verdict"}
    told = []
    run_recipe(tiny_recipe(data=data), tmp_path / "run", say=told.append)
    assert told[0].endswith(
        "(9 train, 1 validation; 7 classes: 'a' 3, 'a name that goes on and …' 1, 'b' 1, 'c' 1, 'd' 1, …)"
    )


@pytest.mark.parametrize("content", ["", '{"task": "revi', "[]", "3", '{"task": "reviews"}'])
def test_damaged_metrics_are_told(tiny_recipe, tmp_path, content):
    folder = RunFolder.create(tmp_path / "run")
    folder.write_start(tiny_recipe())
    with pytest.raises(UserError, match="has not finished"):
        RunFolder.open(folder.path)
    folder.metrics_file.write_text(content)
    with pytest.raises(UserError, match=r"metrics.json is damaged \(.+\); restore it, or train again"):
        RunFolder.open(folder.path).metrics()
