"""Sweeps and the spaces that they search."""

import numpy as np
import pytest
from quick import quick_run

from attentune.errors import UserError
from attentune.studies import Dimension, Sweep, open_storage, plots, sweep
from attentune.studies.runs import Answers
from attentune.studies.scoring import part_scores
from attentune.studies.space import draws, usual_space, with_fields
from attentune.training import Recipe

RECIPE = Recipe.build({"data": {"task": "rotten-tomatoes"}, "method": "mdg(0.1) + first(0.2, layers=0-1)"})
GRID = (Dimension.parse("method.mdg.weight={0.1,0.01}"), Dimension.parse("training.lr={1e-5,2e-5,3e-5}"))
RANGES = (Dimension.parse("method.mdg.weight=log(1e-4,1)"), Dimension.parse("training.epochs=int(2,4)"))


def test_a_grid_is_searched_whole_and_once(tmp_path):
    ran = []

    def run(recipe, folder, **asked):
        ran.append(recipe)
        return quick_run(recipe, folder, **asked)

    asked = Sweep(RECIPE, GRID, prune=False)
    for _ in range(2):
        found = sweep(asked, open_storage(tmp_path), tmp_path, run=run)
    assert len(ran) == len({(recipe.method, recipe.training.lr) for recipe in ran}) == 6
    assert {recipe.data.held_out for recipe in ran} == {0.2}
    assert len(found.trials) == 6
    best = max(found.trials, key=lambda trial: trial["value"])
    assert found.best_value == best["value"]
    assert found.best.training.lr == best["fields"]["training.lr"]
    assert found.best.data.held_out is None  # ready to be reported on the split that wasn't looked at


def test_a_range_is_sampled_as_often_as_is_said(tmp_path):
    for trials in (5, 8):  # more trials go on from those that are there
        found = sweep(
            Sweep(RECIPE, RANGES, trials=trials, prune=False), open_storage(tmp_path), tmp_path, run=quick_run
        )
        assert len(found.trials) == trials
    weights = [trial["fields"]["method.mdg.weight"] for trial in found.trials]
    assert all(1e-4 <= weight <= 1 for weight in weights)
    assert {trial["fields"]["training.epochs"] for trial in found.trials} <= {2, 3, 4}
    assert set(found.importance) <= {"method.mdg.weight", "training.epochs"}


def test_a_trials_value_is_its_parts_mean_less_their_deviation(tmp_path):
    found = sweep(
        Sweep(RECIPE, GRID, folds=4, spread=0.5, prune=False), open_storage(tmp_path), tmp_path, run=quick_run
    )
    for trial in found.trials:
        assert len(trial["parts"]) == 4
        mean = sum(trial["parts"]) / 4
        deviation = (sum((part - mean) ** 2 for part in trial["parts"]) / 4) ** 0.5
        assert trial["value"] == pytest.approx(mean - 0.5 * deviation, abs=1e-6)


def test_parts_are_equal_and_make_up_the_whole():
    generator = np.random.default_rng(0)
    truths, given = generator.integers(0, 2, 90).tolist(), generator.integers(0, 2, 90).tolist()
    found = part_scores(Answers(truths, given, ["a", "b"]), "accuracy", 3)
    assert np.mean(found) == pytest.approx(np.mean(np.equal(truths, given)))
    assert found == part_scores(Answers(truths, given, ["a", "b"]), "accuracy", 3)


def test_hopeless_trials_are_broken_off(tmp_path):
    ran = []

    def run(recipe, folder, *, told, each_epoch):
        assert each_epoch
        ran.append(recipe.training.lr)
        hopeless = len(ran) > 5
        for epoch in (1, 2):
            told({"epoch": epoch, "scores": {"accuracy": 0.1 if hopeless else 0.8}})
        assert not hopeless, "should have been broken off"
        return quick_run(recipe, folder)

    space = (Dimension.parse("training.lr=log(1e-5,1e-4)"),)
    found = sweep(Sweep(RECIPE, space, trials=8), open_storage(tmp_path), tmp_path, run=run)
    assert [trial["value"] is None for trial in found.trials] == [False] * 5 + [True] * 3


def test_pictures_of_a_sweep(tmp_path):
    trials = [{"trial": i, "value": None if i == 2 else 0.5 + 0.1 * i} for i in range(5)]
    plots.draw_history(trials, tmp_path / "history.png")
    plots.draw_importance({"training.lr": 0.8, "method.mdg.weight": 0.2}, tmp_path / "importance.png")
    for name in ("history.png", "importance.png"):
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")


def test_a_field_of_the_method_is_read_as_its_text_is():
    changed = with_fields(
        RECIPE, {"method.first.layers": "1-2", "method.mdg.weight": 0.5, "training.scheduler": "cosine"}
    )
    assert changed.method == "mdg(weight=0.5) + first(weight=0.2, layers=1-2)"
    assert changed.training.scheduler == "cosine"


def test_draws_cover_the_range_and_are_the_same_again():
    (lr,) = [Dimension.parse("training.lr=log(1e-5,1e-3)")]
    values = sorted(point["training.lr"] for point in draws([lr], 10))
    for i, value in enumerate(values):
        assert 1e-5 * 100 ** (i / 10) * 0.999 <= value <= 1e-5 * 100 ** ((i + 1) / 10) * 1.001
    assert draws([lr], 10) == draws([lr], 10)
    whole = [point["n"] for point in draws([Dimension.parse("n=int(2,5)")], 8)]
    assert sorted(whole) == [2, 2, 3, 3, 4, 4, 5, 5]


def test_the_usual_space_is_the_papers():
    assert [str(one) for one in usual_space("blur(sigma=0.1) + mdg(0.1)")] == [
        "training.lr=log(1e-05,0.0002)",
        "method.blur.sigma={0.01,0.1,0.3,0.5}",
        "method.mdg.weight={0.1,0.01,0.001,0.0001}",
    ]


@pytest.mark.parametrize(
    "text",
    ["training.lr", "training.lr=log(1,2", "training.lr=log(0,1)", "training.lr=log(2,1)", "x={}", "x={1,1}", "x=int(1.5,2)",
     "x=uniform(1)", "x=normal(0,1)", "=log(1,2)", "x=uniform(0,inf)"],
)  # fmt: skip
def test_mistakes_in_a_space_are_told_with_what_was_given(text):
    with pytest.raises(UserError) as told:
        Dimension.parse(text)
    assert text in str(told.value)


def test_what_does_not_fit_the_recipe_is_told_before_anything_is_run(tmp_path):
    for text, told in (("method.pdg.weight={1,2}", "no part 'pdg'"), ("training.lrr={1,2}", "no field 'lrr'")):
        with pytest.raises(UserError, match=told):
            sweep(Sweep(RECIPE, (Dimension.parse(text),)), open_storage(tmp_path), tmp_path, run=quick_run)
    with pytest.raises(UserError, match="how many --trials"):
        sweep(Sweep(RECIPE, RANGES, prune=False), open_storage(tmp_path), tmp_path, run=quick_run)
