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
    assert refused(training=3).startswith("training is 3; give fields of its own: seed, epochs, lr")
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
