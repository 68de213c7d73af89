"""The studies in recipes/papers and docs/studies: each asks for runs whose recipes are whole, in full and in small."""

from pathlib import Path

import pytest
import yaml

from attentune.studies import Arm, Comparison, Dimension, choices_of, distinct, read_study
from attentune.studies import ablations as of
from attentune.training import Recipe

ROOT = Path(__file__).parents[2]
FILES = sorted([*(ROOT / "recipes" / "papers").glob("*/*.yaml"), *(ROOT / "docs" / "studies").glob("*/study.yaml")])


def test_every_table_and_figure_that_a_study_makes_is_there():
    names = {f"{file.parent.name}/{file.stem}" for file in FILES}
    data = ("mnli", "mednli", "cross-genre-ir")
    assert names == {
        *(f"attention-guiding/table-{table}-{name}" for table in (1, 2, 3, 4) for name in data),
        *(f"attention-guiding/figure-{figure}" for figure in ("3a", "3b", "3c", "6")),
        *(f"sesamebert/{name}" for name in ("table-1", "table-2", "table-3", "figure-3", "figure-4")),
        *(f"self-supervised-attention/{name}" for name in ("table-2", "table-3", "figure-6", "search")),
        *(f"self-supervised-attention/figure-7-{name}" for name in ("mask", "co", "hybrid")),
        "first/study",
    }


@pytest.mark.parametrize("small", [False, True], ids=["full", "small"])
@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}/{file.stem}")
def test_its_runs_have_whole_recipes(file, small):
    kind = next(kind for kind in ("compare", "sweep", "ablate") if kind in yaml.safe_load(file.read_text()))
    study = read_study(file, kind, small=small)
    base = {"data": {}, **study.recipe}
    if kind == "compare":
        asked = study.compare
        arms = distinct([Arm.parse(method) for method in asked.methods])
        comparison = Comparison(base, arms, tuple(range(1, asked.seeds + 1)), tuple(asked.models), tuple(asked.tasks))
        recipes = [comparison.recipe(*place, arm, 1) for place in comparison.places() for arm in arms]
        assert len(recipes) == len(asked.models) * len(asked.tasks) * len(arms)
        if asked.budget:
            assert all(comparison.space_of(arm) for arm in arms)
    elif kind == "sweep":
        recipes = [Recipe.build(base)]
        assert [Dimension.parse(text) for text in study.sweep.space]
    else:
        recipe, asked = Recipe.build(base), study.ablate
        recipes = [recipe]
        made = [of.parts(recipe)] if asked.parts else []
        made += [of.places(recipe, "layers", choices_of(asked.layers, 12))] if asked.layers else []
        made += of.train_size(recipe, [float(p) for p in asked.train_size.split(",")], 2490) if asked.train_size else []
        made += [of.sensitivity(recipe, Dimension.parse(text)) for text in asked.vary or []]
        assert all(len(ablation.variants) >= 2 for ablation in made)
        assert made
    if small:
        assert {recipe.model for recipe in recipes} == {"minilm"}
        assert all(recipe.training.epochs <= 2 and recipe.data.max_train for recipe in recipes)
