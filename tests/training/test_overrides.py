"""What stands over a recipe: flags over the file, --set over both, and each mistake told by its field."""

import pytest

from attentune.errors import UserError
from attentune.training import assigned, laid_over, lora_values


def test_what_is_given_goes_over_what_is_there_and_nothing_else_changes():
    file = {"model": "a", "data": {"task": "rte", "max_train": 5}, "training": {"lr": 0.1}}
    over = laid_over(file, {"model": None, "data": {"task": None, "max_train": 7}, "training": {"seed": 0}})
    assert over == {"model": "a", "data": {"task": "rte", "max_train": 7}, "training": {"lr": 0.1, "seed": 0}}
    assert file["data"]["max_train"] == 5


@pytest.mark.parametrize(
    ("assignment", "expected"),
    [
        ("training.seed=3", {"training": {"seed": 3}}),
        ("method=mdg(0.1) + pdg(0.1)", {"method": "mdg(0.1) + pdg(0.1)"}),
        ("training.lr=1e-5", {"training": {"lr": "1e-5"}}),  # which pydantic reads as the number
        ("training.class_weights=[1, 2.5]", {"training": {"class_weights": [1, 2.5]}}),
        ("training.class_weights=balanced", {"training": {"class_weights": "balanced"}}),
        ("training.gradient_checkpointing=true", {"training": {"gradient_checkpointing": True}}),
        ("training.save_steps=null", {"training": {"save_steps": None}}),
        ("data.text=1984", {"data": {"text": "1984"}}),  # a column's name, not a number
        ("data.text=null", {"data": {"text": None}}),
        ("lora.r=4", {"lora": {"r": 4}}),
    ],
)
def test_set_reads_a_value_as_its_field_takes_it(assignment, expected):
    assert assigned({}, [assignment]) == expected


def test_later_assignments_win_and_values_given_are_left_alone():
    values = {"training": {"seed": 1}, "lora": None}
    assert assigned(values, ["training.seed=2", "training.seed=3", "lora.r=2"]) == {
        "training": {"seed": 3},
        "lora": {"r": 2},
    }
    assert values == {"training": {"seed": 1}, "lora": None}


@pytest.mark.parametrize(
    ("assignment", "sentence"),
    [
        ("seed=3", "a recipe has no field 'seed' (did you mean training.seed?)"),
        ("training.sed=3", "a recipe's training has no field 'sed' (did you mean training.seed?)"),
        ("training.seed", "--set training.seed is no field=value"),
        ("=3", "--set =3 is no field=value"),
        ("training.seed.x=3", "training.seed is a field and has none of its own"),
        ("training.class_weights=[1,", "is no YAML value"),
    ],
)
def test_an_assignment_that_leads_nowhere_is_told(assignment, sentence):
    with pytest.raises(UserError) as error:
        assigned({}, [assignment])
    assert sentence in str(error.value)


def test_lora_is_given_as_fields_with_commas():
    assert lora_values("r=16, dropout=0.1") == {"r": 16, "dropout": 0.1}
    assert lora_values(None) is None
    with pytest.raises(UserError, match="--lora 8 is no list of field=value; write it as --lora r=8"):
        lora_values("8")
