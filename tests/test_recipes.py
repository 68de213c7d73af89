"""The papers' own settings in recipes/: each is read, and trains two steps on a tiny model and a few rows in place of its own."""

import re
from pathlib import Path

import pytest
import yaml

from attentune import tasks
from attentune.errors import UserError
from attentune.training import Recipe, assigned, read_values, run_recipe

FOLDER = Path(__file__).parents[1] / "recipes"
KINDS = ("attention-guiding", "self-supervised-attention", "sesamebert")  # the others are no fine-tunings
FILES = sorted(file for kind in KINDS for file in (FOLDER / kind).glob("*.yaml"))
SINGLE = ("cola", "sst2")


def test_every_setting_of_the_papers_is_there():
    names = {f"{file.parent.name}/{file.stem}" for file in FILES}
    models = ("bert", "roberta", "albert", "biobert", "clinicalbert", "bluebert", "scibert")
    glue = ("cola", "sst2", "mrpc", "stsb", "qqp", "mnli", "qnli", "rte")
    assert names == {
        *(f"attention-guiding/{model}-{data}" for model in models for data in ("mnli", "mednli", "cross-genre-ir")),
        *(f"sesamebert/{task}" for task in (*glue, "hans")),
        *(f"self-supervised-attention/{mode}-{task}" for mode in ("co", "hybrid") for task in (*glue, "wnli")),
    }


@pytest.fixture
def few_rows(tmp_path):
    """Pairs or single texts in place of a task's own rows."""

    def make(task):
        lines = ["sentence\tsentence2\tlabel"] + [
            f"a fine film {i % 3}\tit was {'good' if i % 2 else 'bad'}\t{i % 2}" for i in range(24)
        ]
        if task in SINGLE:
            lines = [line.replace("\tsentence2", "", 1) if i == 0 else re.sub(r"\t[^\t]*\t", "\t", line)
                     for i, line in enumerate(lines)]  # fmt: skip
        file = tmp_path / "few.tsv"
        file.write_text("\n".join(lines) + "\n")
        return {"train_file": str(file), "text": "sentence", "label": "label"} | (
            {} if task in SINGLE else {"text_pair": "sentence2"}
        )

    return make


@pytest.mark.parametrize("file", FILES, ids=[f"{file.parent.name}/{file.stem}" for file in FILES])
def test_it_trains(file, model_folder, few_rows, tmp_path):
    values = read_values(file)
    recipe = Recipe.build(values)
    small = assigned(
        {**values, "model": str(model_folder), "data": few_rows(recipe.data.task)},
        ["training.max_steps=2", "training.max_length=16", "training.batch_size=8", "training.precision=fp32"],
    )
    run = run_recipe(Recipe.build(small), tmp_path / "run")
    assert run.metrics()["train"]["steps"] == 2
    assert run.metrics()["method"] == recipe.method


@pytest.mark.parametrize("task", sorted({read_values(file)["data"]["task"] for file in FILES}))
def test_its_task_is_one_that_there_is(task):
    assert task in tasks.names()
    assert Recipe.build({"data": {"task": task}}).data.name == task


@pytest.mark.parametrize("file", FILES, ids=[f"{file.parent.name}/{file.stem}" for file in FILES])
def test_every_value_says_where_it_is_from(file):
    lines = file.read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines):
        is_value = not line.startswith("#") and not line.endswith(":")
        assert not is_value or "  # " in line or lines[number - 1].startswith("#"), line
    assert set(yaml.safe_load("\n".join(lines))) == {"model", "data", "method", "training"}


def test_the_papers_figures_are_those_of_the_text():
    """Section 3.3 of Wang et al.: Adam, 1e-5, 256 tokens, 64 rows (ALBERT 56), 5, 20 and 5 epochs, temperature 1."""
    for file in FOLDER.glob("attention-guiding/*.yaml"):
        training = yaml.safe_load(file.read_text())["training"]
        assert (float(training["lr"]), training["max_length"], training["weight_decay"]) == (1e-5, 256, 0)
        assert training["batch_size"] == (56 if file.stem.startswith("albert") else 64)
        assert training["epochs"] == (20 if file.stem.endswith("mednli") else 5)


def test_a_recipe_of_an_unknown_method_is_told_with_its_file(tmp_path):
    file = tmp_path / "recipe.yaml"
    file.write_text("data: {task: rte}\nmethod: mgd(0.1)\n")
    with pytest.raises(UserError, match=r"recipe\.yaml can't be used: unknown method 'mgd'"):
        Recipe.from_yaml(file)
