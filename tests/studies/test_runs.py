"""A run in a process of its own: what it tells, and that it ends with whoever asked for it."""

import json
import subprocess
import sys
import threading
import time

import pytest

from attentune.errors import UserError
from attentune.methods.priors.build import EXAMPLES_AT_ONCE
from attentune.studies.runs import Outcome, as_values, recipe_key, run_alone


@pytest.mark.slow
def test_a_run_ends_with_whoever_asked_for_it(tiny_recipe, tmp_path):
    """A worker that is killed can't end its run; the run sees that nobody listens any more."""
    recipe = tiny_recipe(training={"epochs": 100_000, "batch_size": 16, "precision": "fp32"})
    folder = tmp_path / "run"
    command = [sys.executable, "-m", "attentune.studies.alone", str(folder)]
    child = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    child.stdin.write(json.dumps({"recipe": recipe.model_dump(mode="json")}) + "\n")
    child.stdin.flush()
    deadline = time.monotonic() + 120
    while not (folder / "recipe.yaml").exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    child.stdin.close()
    assert child.wait(timeout=60) == 3


@pytest.mark.slow
def test_a_run_tells_its_epochs_and_what_came_of_it(tiny_recipe, tmp_path):
    recipe = tiny_recipe(training={"epochs": 3, "batch_size": 16, "precision": "fp32"})
    told = []
    outcome = run_alone(recipe, tmp_path / "run", told=told.append, each_epoch=True)
    assert [line["epoch"] for line in told if "epoch" in line] == [1, 2]
    assert all(0 <= line["scores"]["accuracy"] <= 1 for line in told if "epoch" in line)
    right = [a == b for a, b in zip(outcome.answers.given, outcome.answers.truths, strict=True)]
    assert outcome.score == pytest.approx(sum(right) / len(right), abs=1e-6)
    assert outcome.answers.labels == ["bad", "good"]
    assert Outcome.read(json.loads(json.dumps(as_values(outcome)))) == outcome
    assert not (tmp_path / "run" / "checkpoint").exists()


@pytest.mark.slow
def test_a_run_whose_data_are_prepared_by_several_processes_does_not_wait_for_ever(tiny_recipe, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))  # nothing is prepared already
    rows = [f"a fine film {word}\tgood\na dull bore {word}\tbad\n" for word in map(str, range(EXAMPLES_AT_ONCE))]
    (tmp_path / "many.tsv").write_text("review\tverdict\n" + "".join(rows))
    data = {"train_file": str(tmp_path / "many.tsv"), "text": "review", "label": "verdict"}
    training = {"max_steps": 1, "batch_size": 16, "precision": "fp32"}
    recipe = tiny_recipe(method="pmi(0.1)", data=data, training=training)
    done = threading.Thread(target=run_alone, args=(recipe, tmp_path / "run"), daemon=True)
    done.start()
    done.join(timeout=180)
    assert not done.is_alive()
    assert (tmp_path / "run" / "metrics.json").exists()


@pytest.mark.slow
def test_a_mistake_in_a_run_is_the_callers_error(tiny_recipe, tmp_path):
    recipe = tiny_recipe(model=str(tmp_path / "nothing"))
    with pytest.raises(UserError, match="there is no folder"):
        run_alone(recipe, tmp_path / "run")


def test_recipes_are_told_apart_by_what_they_say(tiny_recipe):
    assert recipe_key(tiny_recipe()) == recipe_key(tiny_recipe())
    assert recipe_key(tiny_recipe()) != recipe_key(tiny_recipe(method="mdg(0.1)"))
