"""A recipe's mistakes are told in our words: the flag and the field, what was given, what to give."""

import pytest

from attentune.errors import UserError
from attentune.training import Recipe


def refused(**parts):
    with pytest.raises(UserError) as error:
        Recipe.build({"data": {"task": "rte"}, **parts})
    return str(error.value)


@pytest.mark.parametrize(
    ("part", "field", "given", "sentence"),
    [
        ("training", "epochs", 0.0, "--epochs (training.epochs) is 0.0; give a number, above 0"),
        ("training", "epochs", float("inf"), "--epochs (training.epochs) is inf; give a finite number, above 0"),
        ("training", "lr", float("nan"), "--lr (training.lr) is nan; give a finite number, above 0"),
        ("training", "lr", "fast", "--lr (training.lr) is 'fast'; give a number, above 0"),
        ("training", "seed", -1, "--seed (training.seed) is -1; give a whole number, at least 0, below 4,294,967,296"),
        ("training", "batch_size", 1.5, "--batch-size (training.batch_size) is 1.5; give a whole number, at least 1"),
        ("training", "precision", "fp8", "--precision (training.precision) is 'fp8'; give one of auto, bf16, fp32"),
        ("training", "warmup", 2, "training.warmup is 2; give a number, at least 0, at most 1"),
        ("training", "weight_decay", float("inf"), "training.weight_decay is inf; give a finite number, at least 0"),
        ("data", "max_train", 0, "--max-train (data.max_train) is 0; give a whole number, at least 1"),
        ("data", "task", 3, "--task (data.task) is 3; give a text"),
    ],
)
def test_a_value_that_does_not_do_is_told(part, field, given, sentence):
    values = {"task": "rte"} if part == "data" else {}
    assert refused(**{part: {**values, field: given}}) == sentence


def test_fields_that_are_not_there_are_told():
    assert refused(training={"epoch": 3}).startswith(
        "a recipe has no field 'training.epoch' (did you mean 'epochs'?); "
    )
    assert refused(model=None) == "--model (model) is None; give a text"
    assert refused(training=3).startswith("training is 3; give fields of its own: seed, epochs, max_steps, lr")
    with pytest.raises(UserError, match="the recipe has no 'data'; add it"):
        Recipe.build({})


def test_what_would_be_ignored_is_refused():
    sentence = refused(data={"train_file": "a.tsv", "data_dir": "glue"})
    assert sentence.endswith("(given: --data-dir glue); leave --data-dir out")


def test_a_damaged_recipe_is_told_with_its_file(tmp_path):
    file = tmp_path / "recipe.yaml"
    file.write_text("data: {task: rte}\ntraining: {epochs: .inf}\n")
    with pytest.raises(UserError, match=r"recipe.yaml can't be used: --epochs \(training.epochs\) is inf"):
        Recipe.from_yaml(file)


@pytest.mark.parametrize(
    ("training", "sentence"),
    [
        ({"max_steps": 0}, "--max-steps (training.max_steps) is 0; give a whole number, at least 1"),
        (
            {"scheduler": "step"},
            "training.scheduler is 'step'; give one of linear, cosine, polynomial, constant",
        ),
        ({"class_weights": "even"}, "training.class_weights is 'even'; give balanced, or a list of numbers, as [a, b]"),
        ({"class_weights": [1, -1]}, "training.class_weights is [1.0, -1.0]; give numbers above 0, one for each class"),
        ({"report_to": 3}, "training.report_to is 3; give a list of texts, as [a, b]"),
        (
            {"batch_size": 10, "gradient_accumulation": 3},
            "training.batch_size is 10, which can't be taken in 3 equal parts (training.gradient_accumulation); "
            "give a number that divides it",
        ),
        (
            {"early_stopping": 2, "eval_steps": 5, "save_steps": 7},
            "training.early_stopping keeps a checkpoint at each evaluation (training.eval_steps is 5), so "
            "training.save_steps can't be 7; leave it out",
        ),
    ],
)
def test_what_is_newer_is_told_alike(training, sentence):
    assert refused(training=training) == sentence


def test_an_adapters_fields_are_told_as_its_own():
    assert refused(lora={"r": 0}) == "lora.r is 0; give a whole number, at least 1"
    assert refused(lora={"rank": 8}).startswith("a recipe has no field 'lora.rank'; its fields there are r, alpha")


def test_one_tracker_needs_no_list():
    recipe = Recipe.build({"data": {"task": "rte"}, "training": {"report_to": "wandb"}})
    assert recipe.training.report_to == ("wandb",)


def test_a_recipe_comes_back_from_its_file_as_it_was(tmp_path):
    training = {"class_weights": [1, 2.5], "early_stopping": 2, "report_to": ["tensorboard"], "max_steps": 7}
    recipe = Recipe.build({"data": {"task": "rte"}, "training": training, "lora": {"r": 4, "targets": ["query"]}})
    (tmp_path / "recipe.yaml").write_text(recipe.to_yaml())
    assert Recipe.from_yaml(tmp_path / "recipe.yaml") == recipe
