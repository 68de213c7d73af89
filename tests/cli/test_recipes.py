"""Recipes on the command line: over a file go flags, over both --set; and what a run keeps makes the same run again."""

import json

import pytest
import torch
import yaml
from safetensors.torch import load_file

from attentune.training import Recipe


@pytest.fixture
def recipe_file(model_folder, review_rows, tmp_path):
    values = {
        "model": str(model_folder),
        "data": {"train_file": str(review_rows), "text": "review", "label": "verdict"},
        "training": {"epochs": 2, "batch_size": 8, "lr": 0.01, "seed": 1, "precision": "fp32"},
    }
    file = tmp_path / "recipe.yaml"
    file.write_text(yaml.safe_dump(values))
    return file


def kept(run):
    return Recipe.from_yaml(run / "recipe.yaml")


def test_flags_go_over_the_file_and_set_over_both(attentune, recipe_file, tmp_path):
    code, _, err = attentune(
        "train", recipe_file, "--seed", "2", "--lr", "0.02", "--set", "training.seed=3", "--set", "method=mdg(0.1)",
        "--max-steps", "2", "--output", "run",
    )  # fmt: skip
    assert code == 0, err
    recipe = kept(tmp_path / "run")
    assert (recipe.training.seed, recipe.training.lr, recipe.training.batch_size) == (3, 0.02, 8)
    assert recipe.method == "mdg(weight=0.1)"
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert (metrics["train"]["steps"], metrics["seed"]) == (2, 3)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("method", ["none", "mdg(auto(0.1)) + pdg(0.01, tokens=content) + se()"])
def test_the_recipe_that_a_run_keeps_makes_it_again_to_the_bit(attentune, recipe_file, tmp_path, precision, method):
    assert attentune("train", recipe_file, "--method", method, "--precision", precision, "--output", "first")[0] == 0
    torch.manual_seed(99)  # nothing may hang on what was drawn before
    code, _, err = attentune("train", "first", "--output", "second")
    assert code == 0, err
    assert kept(tmp_path / "first") == kept(tmp_path / "second")
    same_run(tmp_path / "first", tmp_path / "second")


def same_run(first, second):
    weights = [load_file(run / "checkpoint" / "model.safetensors") for run in (first, second)]
    assert weights[0].keys() == weights[1].keys()
    for name, value in weights[0].items():
        assert torch.equal(value, weights[1][name]), name
    metrics = [json.loads((run / "metrics.json").read_text()) for run in (first, second)]
    for one in metrics:
        for changing in ("seconds", "peak_memory_mb"):
            del one["train"][changing]
    assert metrics[0] == metrics[1]
    for file in ("predictions.jsonl",):
        assert (first / file).read_text() == (second / file).read_text()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--set", "training.sed=3"], "--set training.sed=3: a recipe's training has no field 'sed'"),
        (["--set", "training.epochs=0"], "recipe.yaml can't be used: --epochs (training.epochs) is 0; give a number, above 0"),
        (["--task", "rte"], "not both"),
        (["--run", "elsewhere"], "--run names a run to go on with"),
        (["--set", "training.class_weights=[1]"], "has 1 numbers, and there are 2 classes: bad, good"),
        (["--set", "training.report_to=nowhere"], "can't be reported to nowhere"),
    ],
)  # fmt: skip
def test_mistakes_over_a_recipe(attentune, recipe_file, arguments, sentence):
    code, out, err = attentune("train", recipe_file, *arguments)
    assert (code, out) == (2, "")
    assert sentence in err
    assert "Traceback" not in err


def test_a_recipe_alone_may_not_have_foreign_code_run(attentune, recipe_file):
    values = yaml.safe_load(recipe_file.read_text())
    recipe_file.write_text(yaml.safe_dump({**values, "trust_remote_code": True}))
    code, _, err = attentune("train", recipe_file)
    assert code == 2
    assert "which a file alone may not allow; add --trust-remote-code if you trust it" in err


def test_files_that_are_no_recipe_are_told(attentune, tmp_path):
    (tmp_path / "list.yaml").write_text("- a\n")
    (tmp_path / "folder").mkdir()
    for given, sentence in (
        ("list.yaml", "must be a mapping of fields"),
        ("folder", "no recipe is in it"),
        ("nowhere.yaml", "can't be read"),
    ):
        code, _, err = attentune("train", given)
        assert code == 2
        assert sentence in err
