"""The corpus: every document of the files and none twice, blank lines passed over, what is held out held out."""

import json

import datasets
import pytest

from attentune.errors import UserError
from attentune.tasks import hub
from attentune.training.pretraining.corpus import load_corpus
from attentune.training.pretraining.recipe import CorpusRecipe

LINES = [f"document {i} of some words" for i in range(41)]


def texts(dataset):
    return list(dataset["text"])


def load(seed=0, **recipe):
    values = {name: str(value) if name.endswith("file") else value for name, value in recipe.items()}
    return load_corpus(CorpusRecipe(**values), seed)


@pytest.fixture
def text_file(tmp_path):
    file = tmp_path / "text.txt"
    file.write_text("\n\n".join(LINES) + "\n \n", encoding="utf-8")
    return file


def test_each_document_is_trained_on_or_held_out(text_file):
    corpus = load(train_file=text_file)
    assert sorted(texts(corpus.train) + texts(corpus.validation)) == sorted(LINES)
    assert len(corpus.validation) == 2  # a twentieth
    assert texts(corpus.train) == [line for line in LINES if line not in texts(corpus.validation)]
    again = load(train_file=text_file, seed=5)
    assert texts(again.validation) == texts(corpus.validation)  # whatever the seed


def test_text_of_ones_own_is_held_out(text_file, tmp_path):
    other = tmp_path / "other.jsonl"
    other.write_text(json.dumps({"text": "held out"}) + "\n" + json.dumps({"text": None}) + "\n")
    corpus = load(train_file=text_file, eval_file=other)
    assert texts(corpus.train) == LINES
    assert texts(corpus.validation) == ["held out"]
    with pytest.raises(UserError, match="hold the same text"):
        load(train_file=text_file, eval_file=text_file)


def test_rows_of_tables_and_folders_of_files_are_read(tmp_path):
    folder = tmp_path / "texts"
    folder.mkdir()
    (folder / "a.jsonl").write_text("".join(json.dumps({"body": line, "n": 1}) + "\n" for line in ["one", "", "two"]))
    (folder / "b.csv").write_text('body,n\n"three, indeed",1\nfour,2\n')
    (folder / "notes.md").write_text("not text of the corpus")
    corpus = load(train_file=folder, text="body")
    assert sorted(texts(corpus.train) + texts(corpus.validation)) == ["four", "one", "three, indeed", "two"]


def test_a_sample_keeps_the_order_and_goes_by_the_seed(text_file):
    first, same, other = (texts(load(train_file=text_file, max_train=10, seed=seed).train) for seed in (1, 1, 2))
    assert first == same != other
    assert first == [line for line in LINES if line in first]
    assert len(first) == 10


def test_a_data_set_on_the_hub_brings_what_is_held_out(monkeypatch):
    asked = []

    def answer(repository, config):
        asked.append((repository, config))
        rows = {"train": ["one", " \n", "", "two"], "validation": ["three"], "test": ["four"]}
        return {name: datasets.Dataset.from_dict({"text": found}) for name, found in rows.items()}

    monkeypatch.setattr(hub, "load_splits", answer)
    corpus = load(train_file="Salesforce/wikitext:wikitext-103-raw-v1")
    assert asked == [("Salesforce/wikitext", "wikitext-103-raw-v1")]
    assert (texts(corpus.train), texts(corpus.validation)) == (["one", "two"], ["three"])
    with pytest.raises(UserError, match="has no column 'body'; its columns are text"):
        load(train_file="Salesforce/wikitext", text="body")


def test_mistakes_are_told(text_file, tmp_path, monkeypatch):
    def no_answer(repository, config):
        raise ConnectionError("no answer")

    monkeypatch.setattr(hub, "load_splits", no_answer)
    with pytest.raises(
        UserError, match=r"no file 'nowhere/at-all', and as a data set .* \(no answer\); give --train-file"
    ):
        load(train_file="nowhere/at-all")
    with pytest.raises(UserError, match=r"no such file: .*gone.txt"):
        load(train_file=tmp_path / "gone.txt")
    (tmp_path / "empty.txt").write_text("\n \n")
    with pytest.raises(UserError, match=r"there is no text in .*empty.txt; give a document a line"):
        load(train_file=tmp_path / "empty.txt")
    (tmp_path / "one.txt").write_text("one document")
    with pytest.raises(UserError, match="holds one document, so that none can be held out"):
        load(train_file=tmp_path / "one.txt")
    (tmp_path / "two.csv").write_text("a,b\nx,y\n")
    with pytest.raises(UserError, match=r"which column of .*two.csv holds the text .*; name it with --text"):
        load(train_file=tmp_path / "two.csv")
    (tmp_path / "bad.txt").write_bytes(b"fine\n\xff\n")
    with pytest.raises(UserError, match="UTF-8"):
        load(train_file=tmp_path / "bad.txt")
    (tmp_path / "numbers.jsonl").write_text('{"text": 3}\n')
    with pytest.raises(UserError, match=r"line 1 of .*numbers.jsonl has 3 in column 'text', where a text is expected"):
        load(train_file=tmp_path / "numbers.jsonl")
