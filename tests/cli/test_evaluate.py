"""`attentune evaluate`, `submit` and `tasks`: a run judged elsewhere, and what GLUE's server takes."""

import json
import zipfile

import pytest
from rich.console import Console

from attentune.tasks import TASKS
from attentune.tasks.glue_server import SHEETS, glue_score
from attentune.training import Recipe, run_recipe

TRAINING = {"epochs": 1, "batch_size": 16, "precision": "fp32"}


def write_glue(folder):
    """Small files of four of GLUE's tasks in its layout, with test sets."""
    nli = ["entailment", "neutral", "contradiction"]
    files = {
        "MNLI": ("gold_label", nli, ("train", "dev_matched", "dev_mismatched", "test_matched", "test_mismatched")),
        "RTE": ("label", ["entailment", "not_entailment"], ("train", "dev", "test")),
        "STS-B": ("score", ["0.5", "2.25", "5.000"], ("train", "dev", "test")),
    }
    for name, (label, values, splits) in files.items():
        (folder / name).mkdir(parents=True)
        for split in splits:
            rows = [f"index\tsentence1\tsentence2\t{label}"]
            rows += [
                f"{row}\ta fine film\tit was {('good', 'bad', 'dull')[row % 3]}\t{values[row % len(values)]}"
                for row in range(12)
            ]
            if split.startswith("test"):
                rows = [row.rpartition("\t")[0] for row in rows]
            (folder / name / f"{split}.tsv").write_text("\n".join(rows) + "\n")
    (folder / "diagnostic").mkdir()
    (folder / "diagnostic" / "diagnostic.tsv").write_text("index\tsentence1\tsentence2\n0\ta film\ta bore\n1\ta\tit\n")
    header = "gold_label\tsentence1\tsentence2\tpairID\theuristic\tsubcase\ttemplate\n"
    rows = [
        f"{'non-' * (row % 2)}entailment\ta film\tit was\tex{row}\tconstituent\tc{row % 2}\tt\n" for row in range(6)
    ]
    (folder / "hans").mkdir()
    (folder / "hans" / "heuristics_evaluation_set.txt").write_text(header + "".join(rows))
    return folder


@pytest.fixture
def glue(tmp_path):
    return write_glue(tmp_path / "glue")


@pytest.fixture
def run_on(model_folder, glue, tmp_path):
    def make(task, **data):
        values = {"task": task, "data_dir": str(glue), **data}
        recipe = Recipe.build({"model": str(model_folder), "data": values, "training": TRAINING})
        return run_recipe(recipe, tmp_path / f"run-{task}", console=Console(quiet=True))

    return make


def refused(result):
    code, out, err = result
    assert (code, out) == (2, ""), err
    return err.splitlines()[-1]


def test_mnli_reports_both_validations_and_matched_decides(run_on):
    run = run_on("mnli")
    metrics = run.metrics()
    assert metrics["deciding"] == "accuracy"
    assert {"accuracy", "mismatched_accuracy", "loss", "mismatched_loss"} <= set(metrics["eval"])
    for name, split in (("", "validation"), ("_mismatched", "validation_mismatched")):
        rows = [json.loads(line) for line in (run.path / f"predictions{name}.jsonl").read_text().splitlines()]
        right = sum(row["label"] == row["prediction"] for row in rows) / len(rows)
        assert metrics["eval"][f"{name}_accuracy".strip("_")] == pytest.approx(right, abs=1e-6)
        assert sum(map(sum, metrics["details"][split]["confusion"]["true_by_predicted"])) == 12


def test_an_mnli_run_is_judged_on_hans_with_its_classes_folded(attentune, run_on):
    run = run_on("mnli")
    code, out, err = attentune("evaluate", "--run", run.path, "--task", "hans", "--json")
    assert code == 0, err
    metrics = json.loads(out)
    folder = run.path / "evaluations" / "hans"
    assert json.loads((folder / "metrics.json").read_text()) == metrics
    rows = [json.loads(line) for line in (folder / "predictions.jsonl").read_text().splitlines()]
    for row in rows:
        likely = max(row["probabilities"], key=row["probabilities"].get)
        assert row["prediction"] == ("entailment" if likely == "entailment" else "not_entailment")
    right = sum(row["label"] == row["prediction"] for row in rows) / len(rows)
    assert metrics["eval"]["accuracy"] == pytest.approx(right, abs=1e-6)
    assert set(metrics["details"]["validation"]["groups"]) == {"heuristic", "subcase"}
    code, out, _ = attentune("evaluate", "--run", run.path, "--task", "hans")
    assert (code, "constituent" in out, "evaluations/hans-2" in out) == (0, True, True)
    assert not list(run.path.rglob("*.part*"))


def test_the_runs_own_task_is_the_default_and_gives_its_own_scores(attentune, run_on):
    run = run_on("rte")
    code, out, err = attentune("evaluate", "--run", run.path, "--json", "--output", "again")
    assert code == 0, err
    own = {name: value for name, value in run.metrics()["eval"].items() if name != "loss"}
    assert json.loads(out)["eval"] == own
    assert "is there already" in refused(attentune("evaluate", "--run", run.path, "--output", "again"))
    assert "have no labels" in refused(attentune("evaluate", "--run", run.path, "--split", "test"))
    assert "has no split trial" in refused(attentune("evaluate", "--run", run.path, "--split", "trial"))


def test_a_task_that_the_model_does_not_fit_is_told(attentune, run_on, glue):
    rte, stsb = run_on("rte"), run_on("stsb")
    assert "'entailment', 'not_entailment' apart, and mnli wants" in refused(
        attentune("evaluate", "--run", rte.path, "--task", "mnli")
    )
    assert "gives a number, and rte wants classes" in refused(
        attentune("evaluate", "--run", stsb.path, "--task", "rte")
    )
    assert "gives classes, and stsb wants a number" in refused(
        attentune("evaluate", "--run", rte.path, "--task", "stsb")
    )
    (glue / "rotten-tomatoes").mkdir()
    for name in ("train", "validation"):
        (glue / "rotten-tomatoes" / f"{name}.csv").write_text("text,label\nfine,pos\n")
    assert "takes pairs of texts, and rotten-tomatoes gives single ones" in refused(
        attentune("evaluate", "--run", rte.path, "--task", "rotten-tomatoes")
    )


def test_rows_of_ones_own_are_judged_too(attentune, tiny_recipe, tmp_path):
    run = run_recipe(tiny_recipe(), tmp_path / "own", console=Console(quiet=True))
    (tmp_path / "new.csv").write_text("review,verdict\na fine film,good\na dull bore,bad\na film,bad\n")
    code, out, err = attentune("evaluate", "--run", run.path, "--eval-file", "new.csv", "--json")
    assert code == 0, err
    assert json.loads(out)["rows"] == {"validation": 3}
    (tmp_path / "strange.csv").write_text("review,verdict\na fine film,great\n")
    assert "labels that the model does not know: 'great'" in refused(
        attentune("evaluate", "--run", run.path, "--eval-file", "strange.csv")
    )
    assert "give --task or --eval-file" in refused(attentune("evaluate", "--run", run.path))


def test_a_run_is_judged_on_another_task_in_the_same_command(attentune, model_folder, glue, tmp_path):
    more = ("--data-dir", glue, "--also", "hans", "--epochs", "1", "--precision", "fp32", "--json")
    code, out, err = attentune("train", "--model", model_folder, "--task", "mnli", *more, "--output", "run")
    assert code == 0, err
    assert json.loads(out)["also"]["hans"]["accuracy"] == pytest.approx(
        json.loads((tmp_path / "run" / "evaluations" / "hans" / "metrics.json").read_text())["eval"]["accuracy"]
    )
    command = ("train", "--model", model_folder, "--task", "rte", "--data-dir", glue, "--also")
    assert "mnli wants 'entailment', 'neutral'" in refused(attentune(*command, "mnli", "--output", "other"))
    assert not (tmp_path / "other").exists()


def test_a_submission_has_the_servers_files_and_label_names(attentune, run_on, tmp_path):
    runs = {name: run_on(name) for name in ("mnli", "rte", "stsb")}
    given = [word for run in runs.values() for word in ("--run", run.path)]
    code, out, err = attentune("submit", *given, "--output", "sub", "--json")
    assert code == 0, err
    told = json.loads(out)
    written = {"STS-B.tsv", "MNLI-m.tsv", "MNLI-mm.tsv", "RTE.tsv", "AX.tsv"}
    assert {one["file"] for one in told["files"] if one["written"]} == written
    assert {path.name for path in (tmp_path / "sub").iterdir()} == {*written, "submission.zip"}
    with zipfile.ZipFile(tmp_path / "sub" / "submission.zip") as archive:
        contents = {name: archive.read(name).decode().splitlines() for name in archive.namelist()}
    assert set(contents) == written
    for name, (header, *rows) in contents.items():
        assert header == "index\tprediction"
        answers = [row.split("\t")[1] for row in rows]
        assert [row.split("\t")[0] for row in rows] == [str(number) for number in range(len(rows))]
        assert len(rows) == (2 if name == "AX.tsv" else 12)
        if name == "STS-B.tsv":
            assert all(0 <= float(answer) <= 5 for answer in answers)
        elif name == "RTE.tsv":
            assert set(answers) <= {"entailment", "not_entailment"}
        else:
            assert set(answers) <= {"entailment", "neutral", "contradiction"}
    assert set(told["lacking"]) == {"cola", "sst2", "mrpc", "qqp", "qnli", "wnli"}
    of_rte = next(one for one in told["files"] if one["file"] == "RTE.tsv")
    assert of_rte["note"] == "the official test set has 3,000 rows"


def test_missing_files_are_told_and_filled_only_where_that_is_asked_for(attentune, run_on, tmp_path):
    rte = run_on("rte")
    code, _, err = attentune("submit", "--run", rte.path, "--output", "some")
    assert code == 0
    assert "CoLA.tsv: there is no run on cola" in err
    assert "--fill-missing" in err
    code, _, err = attentune("submit", "--run", rte.path, "--output", "all", "--fill-missing")
    assert code == 0, err
    assert {path.name for path in (tmp_path / "all").glob("*.tsv")} == {sheet.file for sheet in SHEETS}
    assert (tmp_path / "all" / "STS-B.tsv").read_text().startswith("index\tprediction\n0\t2.500\n1\t2.500\n")
    assert len((tmp_path / "all" / "QQP.tsv").read_text().splitlines()) == 1 + 390965
    assert "every answer is '0'" in err


def test_what_cannot_be_submitted_is_told(attentune, run_on, tiny_recipe, tmp_path):
    own = run_recipe(tiny_recipe(), tmp_path / "own", console=Console(quiet=True))
    assert "no task of GLUE's" in refused(attentune("submit", "--run", own.path))
    rte = run_on("rte")
    assert "are both runs on rte" in refused(attentune("submit", "--run", rte.path, "--run", rte.path))


def test_the_glue_score_is_the_mean_over_tasks_of_their_means():
    scores = {
        "cola": {"matthews": 0.6, "accuracy": 0.9},
        "mrpc": {"f1_positive": 0.9, "accuracy": 0.8, "f1": 0.1},
        "stsb": {"pearson": 0.8, "spearman": 0.7},
        "mnli": {"accuracy": 0.84, "mismatched_accuracy": 0.82},
    }
    total, lacking = glue_score(scores)
    assert total == (60 + 85 + 75 + 83) / 4
    assert list(lacking) == ["sst2", "qqp", "qnli", "rte", "wnli"]


def test_the_tasks_are_listed_with_what_one_needs_to_know(attentune):
    code, out, _ = attentune("tasks", "--json")
    listed = json.loads(out)
    assert code == 0
    assert [task["name"] for task in listed] == list(TASKS)
    assert all(task["rows"] and task["metric"] and task["data"] and task["asks"] for task in listed)
    code, out, _ = attentune("tasks")
    assert (code, "mednli" in out, "physionet" in out) == (0, True, True)
