"""Ablations: which variants there are, and what becomes of them."""

import pytest
from quick import quick_run

from attentune.errors import UserError
from attentune.methods import parse
from attentune.studies import Dimension, ablate, choices_of, draw_ablations, open_storage
from attentune.studies import ablations as of
from attentune.training import Recipe

RECIPE = Recipe.build({"data": {"task": "rotten-tomatoes"}, "method": "mdg(0.1) + pdg(0.001, layers=0-1)"})


def methods(ablation):
    return {variant.name: variant.recipe.method for variant in ablation.variants}


def test_parts_are_left_out_one_at_a_time():
    assert methods(of.parts(RECIPE)) == {
        "full": RECIPE.method,
        "without mdg": "pdg(weight=0.001, layers=0-1)",
        "without pdg": "mdg(weight=0.1)",
        "none": "none",
    }
    three = Recipe.build({"data": {"task": "rte"}, "method": "mdg(0.1) + pdg(0.1) + first(0.1)"})
    assert {"mdg alone", "pdg alone", "first alone"} <= methods(of.parts(three)).keys()


def test_layers_are_guided_alone_and_in_ranges():
    found = methods(of.places(RECIPE, "layers", [*choices_of("each", 3), "0-1"]))
    assert found["layers 2"] == "mdg(weight=0.1, layers=2) + pdg(weight=0.001, layers=2)"
    assert found["layers 0-1"] == "mdg(weight=0.1, layers=0-1) + pdg(weight=0.001, layers=0-1)"
    assert found["all"] == RECIPE.method


def test_a_head_is_the_head_of_that_number():
    """For patterns a bare number is a count of heads."""
    first = Recipe.build({"data": {"task": "rte"}, "method": "first(0.1)"})
    for recipe in (RECIPE, first):
        found = of.places(recipe, "heads", ["2"]).variants[-1]
        for part in parse(found.recipe.method).parts:
            assert part.heads.resolve(12, "head") == (2,)


def test_shares_of_the_training_rows_are_comparisons_of_their_own():
    half, whole = of.train_size(RECIPE, [50, 100], 7464)
    assert {variant.recipe.data.max_train for variant in half.variants} == {3732}
    assert {variant.recipe.data.max_train for variant in whole.variants} == {7464}
    assert [variant.name for variant in half.variants] == ["none", RECIPE.method]


def test_any_parameter_is_varied():
    blurred = Recipe.build({"data": {"task": "rte"}, "method": "blur(sigma=0.1)"})
    found = of.sensitivity(blurred, Dimension.parse("method.blur.sigma={0.01,0.5}"))
    assert [variant.place for variant in found.variants] == ["none", 0.01, 0.5]
    assert parse(found.variants[1].recipe.method).parts[0].sigma == 0.01
    with pytest.raises(UserError, match="takes values"):
        of.sensitivity(blurred, Dimension.parse("method.blur.sigma=log(0.1,1)"))


def test_ablations_share_their_runs_and_have_a_table_and_a_picture_each(tmp_path):
    ran = []

    def run(recipe, folder, **asked):
        ran.append((recipe.method, recipe.data.max_train, recipe.training.seed))
        return quick_run(recipe, folder)

    asked = [
        of.parts(RECIPE),
        of.places(RECIPE, "layers", ["0", "1"]),
        *of.train_size(RECIPE, [20, 100], 7464),
        of.sensitivity(RECIPE, Dimension.parse("method.mdg.weight={0.1,0.2}")),
    ]
    found, failed = ablate(asked, [1, 2], open_storage(tmp_path), tmp_path, run=run)
    assert len(ran) == len(set(ran)) == 2 * (4 + 2 + 4 + 1)  # none and the full method are run once a seed
    assert not failed
    assert found[0].group.baseline == "full"
    assert found[0].group.verdicts["without mdg"].tests.difference < 0
    drawn = draw_ablations(found, tmp_path)
    assert {path.name for path in drawn} == {"parts.png", "layers.png", "train-size.png", "mdg-weight.png"}
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in drawn)


def test_mistakes_are_told():
    none = Recipe.build({"data": {"task": "rte"}, "method": "mdg(0.1)"})
    with pytest.raises(UserError, match="no parts to leave out"):
        of.parts(none)
    with pytest.raises(UserError, match="has heads to choose"):
        of.places(Recipe.build({"data": {"task": "rte"}, "method": "se(ratio=3)"}), "heads", ["0"])
    with pytest.raises(UserError, match="percents above 0"):
        of.train_size(RECIPE, [120], 100)


def test_layers_and_heads_are_the_models(model_folder):
    recipe = Recipe.build({"model": str(model_folder), "data": {"task": "rte"}})
    assert of.layers_and_heads(recipe) == (3, 4)
    with pytest.raises(UserError, match="there is no folder"):
        of.layers_and_heads(Recipe.build({"model": str(model_folder / "none"), "data": {"task": "rte"}}))
