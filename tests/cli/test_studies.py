"""`compare`, `sweep` and `ablate` as a user types them, with a tiny model that is really trained."""

import json

import pytest

SETTINGS = ["--epochs", 1, "--batch-size", 16, "--set", "training.precision=fp32"]


@pytest.fixture
def own_data(review_rows):
    return ["--train-file", review_rows, "--text", "review", "--label", "verdict", *SETTINGS]


@pytest.mark.slow
def test_compare_trains_each_run_in_a_process_of_its_own_and_goes_on(attentune, model_folder, own_data, tmp_path):
    command = [
        "compare",
        "--methods",
        "none; mdg(0.1)",
        "--model",
        model_folder,
        *own_data,
        "--output",
        tmp_path / "out",
    ]
    code, printed, told = attentune(*command, "--seeds", 1, "--json")
    assert code == 0, told
    found = json.loads(printed)
    assert [run["recipe"]["method"] for run in found["runs"]] == ["none", "mdg(weight=0.1)"]
    assert all(run["train"]["peak_memory_mb"] > 50 for run in found["runs"])
    assert "[2/2]" in told
    code, printed, told = attentune(*command, "--seeds", 1)
    assert code == 0
    assert "2 of 2 runs are done already" in told
    assert "with one seed, which is no evidence" in printed
    for name in ("table.md", "table.tex", "table.csv", "results.json", "study.db", "differences.png"):
        assert (tmp_path / "out" / name).stat().st_size > 0
    assert "attentune compare --methods" in (tmp_path / "out" / "table.md").read_text()
    assert not list((tmp_path / "out").glob("runs/*/checkpoint"))
    assert len(list((tmp_path / "out").glob("runs/*/predictions.jsonl"))) == 2


@pytest.mark.slow
def test_sweep_writes_the_best_recipe_which_train_takes(attentune, model_folder, own_data, tmp_path):
    space = ["--space", "method.mdg.weight={0.1,0.01}", "--folds", 2]
    command = ["sweep", "--method", "mdg(0.1)", "--model", model_folder, *own_data, *space, "--epochs", 2]
    code, printed, told = attentune(*command, "--output", tmp_path / "out", "--json")
    assert code == 0, told
    found = json.loads(printed)
    assert {trial["fields"]["method.mdg.weight"] for trial in found["trials"]} == {0.1, 0.01}
    assert all(list(trial["epochs"]) == ["1"] for trial in found["trials"])  # judged after the first of two epochs
    assert (tmp_path / "out" / "history.png").exists()
    code, _, told = attentune("train", tmp_path / "out" / "best.yaml", "--max-steps", 1, "--output", tmp_path / "best")
    assert code == 0, told


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["compare"], "nothing to compare"),
        (["compare", "--methods", "none; mdg(0.1)"], "there is no data"),
        (["compare", "--methods", "none; mdg(0.1)", "--tasks", "colla", "--seeds", 1], "there is no task 'colla'"),
        (["compare", "--small", "--methods", "none; mdg(0.1)"], "--small is for a study's file"),
        (["compare", "--methods", "none; pdg", "--tasks", "rte", "--so-far", "--output", "no"], "there is no study in no"),
        (["sweep", "--task", "rotten-tomatoes"], "nothing to search"),
        (["sweep", "--task", "rotten-tomatoes", "--space", "training.lr=1"], "training.lr has no range"),
        (["ablate", "--task", "rotten-tomatoes"], "no method to take apart"),
        (["ablate", "--task", "rotten-tomatoes", "--method", "mdg(0.1)"], "say what to vary"),
        (["ablate", "--task", "rotten-tomatoes", "--method", "mdg(0.1)", "--train-size", "many"], "takes percents"),
        (["bench", "--methods", "none"], "nothing to measure"),
        (["bench", "--methods", "mdg(0.1); mgd"], "unknown method 'mgd'"),
        (["bench", "--methods", "mdg(0.1)", "--tasks", "colla"], "there is no task 'colla'"),
        (["compare", "--methods", "none; pdg", "--tasks", "rte", "--storage", "mysql://u:pw@h/x"], "mysql://u:…@h/x can't be"),
    ],
)  # fmt: skip
def test_mistakes_are_one_sentence(attentune, words, told):
    code, _, error = attentune(*words)
    assert code == 2
    assert told in error
    assert "Traceback" not in error
    assert "pw@" not in error


@pytest.mark.slow
def test_bench_tells_what_methods_cost(attentune, model_folder, own_data):
    command = ["bench", "--model", model_folder, *own_data, "--max-train", 40]
    code, printed, told = attentune(*command, "--methods", "mdg(0.1)", "--seeds", 2, "--json")
    assert code == 0, told
    found = json.loads(printed)
    assert [one["method"] for one in found["costs"]] == ["none", "mdg(weight=0.1)"]
    assert [(run["seed"], run["method"][:3]) for run in found["runs"]] == [
        (1, "non"), (1, "mdg"), (2, "non"), (2, "mdg"),
    ]  # in turns  # fmt: skip
    plain, guided = found["costs"]
    assert plain["time"] is None
    assert guided["time"]["count"] == 2
    assert guided["time"]["median"] > 0
    assert all(run["seconds"] > 0 and run["megabytes"] > 0 for run in found["runs"])
    code, printed, told = attentune(*command, "--methods", "se", "--seeds", 1)
    assert code == 0, told
    assert "time of a step" in printed
    assert "×" in printed
