"""Recipes of pre-training: the ones we give are valid and say what the paper says, and mistakes are told in a sentence."""

from pathlib import Path

import pytest

from attentune.errors import UserError
from attentune.methods import parse
from attentune.methods.heads import Block
from attentune.training import PretrainingRecipe

RECIPES = sorted((Path(__file__).parents[3] / "recipes" / "pretraining").glob("*.yaml"))


def test_there_is_a_recipe_for_each_depth_of_the_paper():
    assert sorted(PretrainingRecipe.from_yaml(file).new.layers for file in RECIPES) == [4, 8, 12, 16]


@pytest.mark.parametrize("file", RECIPES, ids=lambda file: file.stem)
def test_a_recipe_says_what_the_paper_says(file):
    recipe = PretrainingRecipe.from_yaml(file)
    assert (recipe.new.architecture, recipe.new.heads) == ("roberta", 12)
    parts = parse(recipe.method).parts
    assert [(part.name, part.heads.size) for part in parts] == [("first", 4), ("next", 1), ("prev", 1)]
    heads = [part.choose_heads(parts[:i]).resolve(12, "head") for i, part in enumerate(parts)]
    assert heads == [(0, 1, 2, 3), (4,), (5,)]
    assert all(isinstance(part.heads, Block) for part in parts)
    training = recipe.training
    for part in parts:
        assert part.weight == pytest.approx(100 / training.max_length, rel=0.01)
        assert part.schedule.hold * training.max_steps == 20_000
        assert [part.schedule.factor(progress) for progress in (0.2, 0.6, 1.0)] == [1.0, pytest.approx(0.5), 0.0]
    assert training.lr in (1e-4, 5e-5, 1e-5)
    assert training.warmup * training.max_steps in (0, 100, 1000)
    assert recipe.data.train_file == "Salesforce/wikitext:wikitext-103-raw-v1"


def test_a_recipe_comes_back_as_it_was_written(make_recipe, tmp_path):
    recipe = make_recipe(method="first(0.8, heads=2) + next(0.8, heads=1)", masking={"rate": 0.3, "whole_word": True})
    (tmp_path / "recipe.yaml").write_text(recipe.to_yaml())
    assert PretrainingRecipe.from_yaml(tmp_path / "recipe.yaml") == recipe


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"new": {"width": 100, "heads": 8}}, "give a width that is a multiple of the heads, such as 96"),
        ({"new": {"architecture": "modernbert", "width": 12, "heads": 4}}, "ModernBERT rotates them in pairs"),
        ({"new": {"architecture": "gpt"}}, r"--architecture \(new.architecture\) is 'gpt'; give one of roberta, bert"),
        ({"new": {"layers": 0}}, r"--layers \(new.layers\) is 0; give a whole number, at least 1"),
        (
            {"model": "minilm", "new": {"layers": 2}},
            r"--model minilm is a checkpoint .* \(given for a new model: layers 2\)",
        ),
        ({"revision": "main"}, "are about a checkpoint; name it with --model"),
        ({"masking": {"rate": 1.5}}, "masking.rate is 1.5; give a number, above 0, below 1"),
        ({"training": {"class_weights": "balanced"}}, "training.class_weights is for fine-tuning"),
        ({"training": {"early_stopping": 2}}, "training.early_stopping is for fine-tuning"),
        (
            {"training": {"max_length": 4}},
            r"--max-length \(training.max_length\) is 4; give a whole number, at least 8",
        ),
        ({"method": "fist(0.1)"}, "did you mean"),
        ({"data": {"train_file": "x", "task": "rte"}}, "a recipe has no field 'data.task'"),
    ],
)
def test_a_mistake_is_one_sentence(wrong, told):
    with pytest.raises(UserError, match=told):
        PretrainingRecipe.build({"data": {"train_file": "text.txt"}, **wrong})
