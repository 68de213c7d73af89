"""`attentune report` and `attentune explain` on runs as training leaves them."""

import json

import pytest
from rich.console import Console

from attentune.training import run_recipe

EVIL = "a fine <script>alert(1)</script> film"


@pytest.fixture
def train(tiny_recipe, tmp_path):
    """Trains a run and gives its folder."""

    def make(name="run", **values):
        return run_recipe(tiny_recipe(**values), tmp_path / name, console=Console(quiet=True)).path

    return make


def refused(result):
    code, out, err = result
    assert (code, out) == (2, "")
    assert err.startswith("attentune: ")
    assert err.count("\n") == 1, err
    return err


def data_of(file):
    html = file.read_text(encoding="utf-8")
    return json.loads(html.split('<script type="application/json" id="data">')[1].split("</script>")[0])


def test_runs_are_compared_in_one_file(attentune, train, tmp_path):
    runs = [train("plain"), train("guided", method="mdg(0.5)")]
    options = ("--examples", 3, "--measure", 4, "--pipeline", "none")
    code, out, err = attentune("report", *runs, "-o", "r.html", *options, "--figures", "figures", "--json")
    assert code == 0, err
    told = json.loads(out)
    assert list(told["arms"]) == ["before training", "plain", "guided"]
    rows = [[json.loads(line) for line in (run / "predictions.jsonl").read_text().splitlines()] for run in runs]
    right = [sum(row["label"] == row["prediction"] for row in some) / len(some) for some in rows]
    assert told["arms"]["plain"]["metrics"]["accuracy"]["value"] == pytest.approx(right[0])
    assert told["arms"]["guided"]["metrics"]["accuracy"]["value"] == pytest.approx(right[1])
    assert told["arms"]["guided"]["measures"]["entropy"]["examples"] == 4
    assert told["verdicts"][0]["paired"]["examples"] == len(rows[0])
    data = data_of(tmp_path / "r.html")
    assert [arm["title"] for arm in data["arms"]] == ["before training", "plain", "guided"]
    assert set(data["arms"][2]["curves"]) == {"task loss", "mdg"}
    assert len(data["examples"]) == 3
    assert data["explored"] == [1, 2]  # the model before is measured, and its maps aren't kept
    made = {file.name for file in (tmp_path / "figures").iterdir()}
    assert {"average-maps.png", "average-maps.svg", "received.png", "heads-pca.svg", "training.png"} <= made
    assert "figure: figures/heads-entropy.svg" in err
    assert "is there already" in refused(attentune("report", *runs, "-o", "r.html"))


def test_a_single_run_is_shown_beside_the_model_before(attentune, train, tmp_path):
    code, out, err = attentune("report", train(), "--examples", 2, "--measure", 2, "--pipeline", "none")
    assert code == 0, err
    assert out.startswith("run: accuracy ")
    assert out.endswith("report: report.html\n")
    assert data_of(tmp_path / "report.html")["explored"] == [0, 1]


def test_a_run_with_layer_weights_gets_their_figure(attentune, train, tmp_path):
    run = train("se", method="se()")
    code, _, err = attentune("report", run, "--examples", 2, "--measure", 2, "--pipeline", "none", "--figures", "f")
    assert code == 0, err
    assert (tmp_path / "f" / "layer-weights-se.png").is_file()


def test_a_run_with_token_importance_is_explained_by_it(attentune, train, tmp_path):
    run = train("ssa", method="ssa()")
    code, out, err = attentune("explain", "--run", run, "a fine film", "--json")
    assert code == 0, err
    tokens = json.loads(out)["tokens"]
    assert [token["importance"] for token in tokens if token["special"]] == [0, 0]
    assert all(0 < token["importance"] < 1 for token in tokens if not token["special"])
    assert "SSA importance" in attentune("explain", "--run", run, "a fine film")[1]
    code, _, err = attentune("report", run, "--examples", 2, "--measure", 2, "--pipeline", "none", "--figures", "f")
    assert code == 0, err
    assert (tmp_path / "f" / "token-importance-ssa.svg").is_file()


def test_runs_that_predict_numbers_are_compared_by_their_distance_from_the_truth(attentune, tiny_recipe, tmp_path):
    rows = tmp_path / "stars.tsv"
    rows.write_text("review\tstars\n" + "a fine film\t4.5\na dull bore\t1.0\nit was good\t3.0\n" * 8)
    data = {"train_file": str(rows), "text": "review", "label": "stars", "kind": "regression"}
    runs = [
        run_recipe(tiny_recipe(data=data, method=method), tmp_path / name, console=Console(quiet=True)).path
        for name, method in (("plain", "none"), ("guided", "mdg(0.5)"))
    ]
    code, out, err = attentune("report", *runs, "-o", "r.html", "--measure", 2, "--pipeline", "none", "--json")
    assert code == 0, err
    told = json.loads(out)
    errors = []
    for run in runs:
        some = [json.loads(line) for line in (run / "predictions.jsonl").read_text().splitlines()]
        errors.append(sum(abs(row["prediction"] - row["label"]) for row in some) / len(some))
    nearer = f"{errors[0] - errors[1]:+.3f}".replace("-", "−")
    assert f"nearer by {nearer} on average" in told["verdicts"][0]["grounds"]
    assert set(told["arms"]["plain"]["metrics"]) == {"pearson", "spearman"}
    code, out, err = attentune("explain", "--run", runs[0], "a fine film", "--json")
    assert code == 0, err
    assert -5 < float(json.loads(out)["label"]) < 5
    assert json.loads(out)["probabilities"] == {}
    assert attentune("explain", "--run", runs[0], "a fine film")[1].startswith(json.loads(out)["label"])
    assert "right" not in data_of(tmp_path / "r.html")["examples"][0]["answers"][1]


def test_runs_that_cannot_be_compared_are_refused(attentune, train, review_rows, tmp_path):
    first = train("first")
    assert "the same run is given twice" in refused(attentune("report", first, first))
    other = tmp_path / "other.tsv"
    other.write_bytes(review_rows.read_bytes())
    data = {"train_file": str(other), "text": "review", "label": "verdict"}
    assert "trained on different data" in refused(attentune("report", first, train("second", data=data)))
    assert "not the folder of a run" in refused(attentune("report", tmp_path))
    (first / "log.jsonl").write_text("{")
    assert "log.jsonl can't be read" in refused(attentune("report", first))


def test_an_explanation_in_the_terminal_as_json_and_as_a_page(attentune, train, tmp_path):
    run = train()
    code, out, err = attentune("explain", "--run", run, EVIL)
    assert code == 0, err
    for part in ("good", "bad", "received attention", "film", "× even", "all layers, all heads"):
        assert part in out
    code, out, _ = attentune("explain", "--run", run, EVIL, "--layers", "-1", "--json")
    told = json.loads(out)
    assert code == 0
    assert told["text"] == EVIL
    assert sum(told["probabilities"].values()) == pytest.approx(1, abs=1e-5)
    assert sum(token["received"] for token in told["tokens"]) == pytest.approx(1, abs=1e-4)
    assert {token["importance"] for token in told["tokens"]} == {None}
    code, out, _ = attentune("explain", "--run", run, EVIL, "--html", "page.html")
    assert (code, out) == (0, "page: page.html\n")
    assert "<script" not in (tmp_path / "page.html").read_text()
    assert "is there already" in refused(attentune("explain", "--run", run, EVIL, "--html", "page.html"))


def test_mistakes_in_explain_are_told(attentune, train):
    run = train()
    assert "takes single texts, and two are given" in refused(attentune("explain", "--run", run, "a film", "a bore"))
    assert "the text is empty" in refused(attentune("explain", "--run", run, " "))
    assert "there is no layer 7" in refused(attentune("explain", "--run", run, "a film", "--layers", "7"))


def test_a_model_of_pairs_explains_pairs(attentune, tiny_recipe, tmp_path):
    rows = tmp_path / "pairs.tsv"
    rows.write_text("one\ttwo\tsame\n" + "a film\ta film\tyes\na film\ta bore\tno\n" * 10)
    data = {"train_file": str(rows), "text": "one", "text_pair": "two", "label": "same"}
    run = run_recipe(tiny_recipe(data=data), tmp_path / "run", console=Console(quiet=True)).path
    assert "takes pairs of texts" in refused(attentune("explain", "--run", run, "a film"))
    code, out, err = attentune("explain", "--run", run, "a film", "a bore", "--json")
    assert code == 0, err
    assert [token["token"] for token in json.loads(out)["tokens"]] == [
        "[CLS]",
        "a",
        "film",
        "[SEP]",
        "a",
        "bore",
        "[SEP]",
    ]
    code, _, err = attentune("report", run, "--examples", 2, "--measure", 2, "--pipeline", "none")
    assert code == 0, err


def test_a_folder_alone_may_not_have_code_run(attentune, train):
    run = train()
    recipe = run / "recipe.yaml"
    text = recipe.read_text(encoding="utf-8")
    recipe.write_text(text.replace("trust_remote_code: false", "trust_remote_code: true"), encoding="utf-8")
    for command in (["predict", "--run"], ["explain", "a fine film", "--run"], ["report"]):
        assert "which a file alone may not allow; add --trust-remote-code" in refused(attentune(*command, run))
