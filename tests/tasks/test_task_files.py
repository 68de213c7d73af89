"""The user's own files: every row arrives as it is, or a sentence says which one does not and why."""

import csv
import json
from collections import Counter
from pathlib import Path

import datasets
import huggingface_hub
import pyarrow
import pyarrow.parquet
import pytest

from attentune import tasks
from attentune.errors import UserError

ROWS = [("a fine film", "good"), ("a joy", "good"), ("a bore", "bad"), ("too long", "bad")]


def write(path: Path, rows: list[dict[str, object]]) -> Path:
    """Rows in the format of the file's extension."""
    if path.suffix == ".parquet":
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
        return path
    if path.suffix == ".jsonl":
        content = "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows)
    elif path.suffix == ".json":
        content = json.dumps(rows, indent=1)
    elif path.suffix == ".tsv":
        content = "".join(
            "\t".join(str(value) for value in row) + "\n" for row in [rows[0], *(r.values() for r in rows)]
        )
    else:
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            writer.writerows(rows)
        return path
    path.write_text(content, encoding="utf-8", newline="")
    return path


def texts_and_labels(task: tasks.Task) -> list[tuple[str, str]]:
    """All rows of a task, by their text and the name of their label."""
    rows = [row for split in task.splits.values() for row in split]
    return sorted((row["text"], task.labels[row["label"]]) for row in rows)


@pytest.mark.parametrize("ending", [".tsv", ".csv", ".jsonl", ".json", ".parquet", ".CSV"])
def test_every_format_gives_the_same_task(tmp_path: Path, ending: str) -> None:
    path = write(tmp_path / f"reviews{ending}", [{"text": text, "label": label} for text, label in ROWS])
    task = tasks.from_files(path)
    assert (task.name, task.text, task.text_pair, task.label) == ("reviews", "text", None, "label")
    assert (task.labels, task.deciding) == (("bad", "good"), "accuracy")
    assert task.splits["train"].features["label"].names == ["bad", "good"]
    assert texts_and_labels(task) == sorted(ROWS)


def test_a_tenth_is_held_out_in_proportion_and_the_source_says_so(tmp_path: Path) -> None:
    rows = [{"text": f"text {row}", "label": "yes" if row % 5 else "no"} for row in range(200)]
    path = write(tmp_path / "rows.csv", rows)
    task = tasks.from_files(path)
    assert Counter(task.splits["validation"]["label"]) == {1: 16, 0: 4}
    assert len(task.splits["train"]) == 180
    assert task.source == (
        f"{path}: text from column 'text', label from 'label' (guessed from the names); "
        "20 of its 200 rows are held out as validation, drawn with seed 0"
    )
    again, other = tasks.from_files(path), tasks.from_files(path, holdout_seed=1)
    assert again.splits["validation"]["id"][:] == task.splits["validation"]["id"][:]
    assert other.splits["validation"]["id"][:] != task.splits["validation"]["id"][:]
    assert not set(task.splits["train"]["id"]) & set(task.splits["validation"]["id"])


def test_each_class_that_can_be_is_in_both_parts_of_a_small_file(file) -> None:
    path = file("small.tsv", "text\tlabel\n" + "".join(f"text {row}\t{row // 2}\n" for row in range(9)))
    task = tasks.from_files(path)  # the labels 0 to 3 twice, 4 once
    assert sorted(task.splits["validation"]["label"]) == [0, 1, 2, 3]
    assert sorted(task.splits["train"]["label"]) == [0, 1, 2, 3, 4]


def test_an_eval_file_is_the_validation_split(file) -> None:
    train = file("train.tsv", "review\tstars\nfine\t1\ndull\t0\n")
    dev = file("dev.jsonl", '{"stars": 0, "review": "meh"}\n')
    task = tasks.from_files(train, dev, text="review", label="stars")
    assert task.splits["train"][:] == {"id": ["0", "1"], "text": ["fine", "dull"], "label": [1, 0]}
    assert task.splits["validation"][:] == {"id": ["0"], "text": ["meh"], "label": [0]}
    assert task.source == f"{train}, validated on {dev}: text from column 'review', label from 'stars'"


def test_a_byte_order_mark_is_no_part_of_the_first_column(file) -> None:
    for name, separator in (("a.tsv", "\t"), ("a.csv", ",")):
        path = file(name, f"\ufefftext{separator}label\nüber{separator}a\nunter{separator}b\nx{separator}a\n")
        assert texts_and_labels(tasks.from_files(path)) == [("unter", "b"), ("x", "a"), ("über", "a")]
    assert [row["text"] for row in tasks.read_texts(file("a.txt", "\ufeffüber\n"))] == ["über"]
    assert [row["text"] for row in tasks.read_texts(file("a.jsonl", '\ufeff{"text": "über"}\n'))] == ["über"]


def test_windows_line_ends_are_no_part_of_the_last_column(file) -> None:
    for name, content in (
        ("a.tsv", "label\ttext\r\na\tone\r\nb\ttwo\r\na\tthree"),
        ("a.txt", "one\r\ntwo\r\nthree\r\n"),
    ):
        assert [row["text"] for row in tasks.read_texts(file(name, content))] == ["one", "two", "three"]


def test_in_tsv_a_quote_is_an_ordinary_character(file) -> None:
    path = file("a.tsv", 'text\tlabel\n"Oh, he said\ta\nno" way\tb\n"both"\ta\n')
    assert texts_and_labels(tasks.from_files(path)) == [('"Oh, he said', "a"), ('"both"', "a"), ('no" way', "b")]


def test_in_csv_quotes_hold_commas_line_breaks_and_quotes(file) -> None:
    path = file("a.csv", 'text,label\n"one, ""two""\nthree",a\nfour,b\n"five",a\n')
    assert texts_and_labels(tasks.from_files(path)) == [("five", "a"), ("four", "b"), ('one, "two"\nthree', "a")]


def test_only_a_line_feed_ends_a_line_of_tsv(file) -> None:
    strange = "a\x0bb\x0cc\x1cd\x85e\u2028f\u2029g\rh"
    assert [row["text"] for row in tasks.read_texts(file("a.tsv", f"text\tn\n{strange}\t1\n"))] == [strange]


def test_a_field_may_be_longer_than_pythons_csv_takes_by_default(file) -> None:
    long = "word " * 100_000
    for name, separator in (("a.csv", ","), ("a.tsv", "\t")):
        path = file(name, f"text{separator}label\n{long}{separator}a\nshort{separator}b\nx{separator}b\n")
        assert (long, "a") in texts_and_labels(tasks.from_files(path))


def test_texts_keep_their_blanks_and_labels_lose_them(file) -> None:
    task = tasks.from_files(file("a.csv", "text, label\n  one , a\ntwo ,a \n three,b\n"))
    assert texts_and_labels(task) == [("  one ", "a"), (" three", "b"), ("two ", "a")]


@pytest.mark.parametrize(
    ("labels", "space"),
    [
        (["10", "9", "-1", "10"], ("-1", "9", "10")),
        (["10", "9", "x", "10"], ("10", "9", "x")),
        (["b", "a", "B", "b"], ("B", "a", "b")),
    ],
)
def test_labels_are_in_numeric_order_where_all_are_whole_numbers(file, labels: list[str], space: tuple) -> None:
    content = "text\tlabel\n" + "".join(f"t{row}\t{label}\n" for row, label in enumerate(labels))
    assert tasks.from_files(file("a.tsv", content)).labels == space


def test_numbers_and_booleans_are_labels_too(file) -> None:
    jsonl = file("a.jsonl", "".join(f'{{"text": "t", "label": {label}}}\n' for label in ["2", "10", "2.0", "2"]))
    assert tasks.from_files(jsonl).labels == ("2", "10")
    jsonl = file("b.jsonl", "".join(f'{{"text": "t", "label": {label}}}\n' for label in ["true", "false", "true"]))
    assert tasks.from_files(jsonl).labels == ("False", "True")


def test_the_class_names_in_a_parquet_file_are_kept(told, tmp_path: Path) -> None:
    features = datasets.Features({"text": datasets.Value("string"), "label": datasets.ClassLabel(names=["neg", "pos"])})
    rows = {"text": ["a", "b", "c"], "label": [1, 0, 1]}
    path = tmp_path / "data[1].parquet"  # a bracket is no pattern
    datasets.Dataset.from_dict(rows, features=features).to_parquet(path)
    assert texts_and_labels(tasks.from_files(path)) == [("a", "pos"), ("b", "neg"), ("c", "pos")]

    datasets.Dataset.from_dict({**rows, "label": [1, -1, 0]}, features=features).to_parquet(path)
    assert told(tasks.from_files, path) == (
        f"row 2 of {path} has no label in column 'label'; fill it in or remove the row"
    )


def test_a_parquet_file_is_read_beyond_its_first_batch(tmp_path: Path) -> None:
    count = 150_000
    path = write(tmp_path / "many.parquet", [{"text": f"t{row}", "extra": None} for row in range(count)])
    rows = list(tasks.read_texts(path))
    assert len(rows) == count
    assert rows[-1] == {"id": str(count - 1), "text": f"t{count - 1}"}


@pytest.mark.parametrize(
    ("header", "text", "text_pair"),
    [
        ("text\tlabel", "text", None),
        ("Sentence\tGold_Label", "Sentence", None),
        ("sentence1\tsentence2\tlabels", "sentence1", "sentence2"),
        ("premise\thypothesis\tclass", "premise", "hypothesis"),
        ("question\tsentence\ttarget", "question", "sentence"),
        ("label\ttext\ttext_pair", "text", "text_pair"),
        ("note\ttext\tlabel\ttarget", "text", None),
    ],
)
def test_usual_names_of_columns_are_guessed(file, header: str, text: str, text_pair: str | None) -> None:
    names = header.split("\t")
    rows = [[f"{name} {number % 2}" for name in names] for number in range(4)]
    path = file("a.tsv", "\n".join("\t".join(row) for row in [names, *rows]) + "\n")
    task = tasks.from_files(path)
    assert "(guessed from the names)" in task.source
    assert (task.text, task.text_pair) == ("text", "text_pair" if text_pair else None)
    first = next(row for rows in task.splits.values() for row in rows if row["id"] == "0")
    assert first["text"] == f"{text} 0"
    assert first.get("text_pair") == (f"{text_pair} 0" if text_pair else None)


def test_a_named_text_is_a_single_text_and_a_named_pair_finds_its_first(file) -> None:
    path = file("a.tsv", "sentence1\tsentence2\tlabel\na\tb\t0\nc\td\t1\ne\tf\t0\n")
    assert tasks.from_files(path, text="sentence2").text_pair is None
    assert [row["text"] for row in tasks.read_texts(path, text="sentence2")] == ["b", "d", "f"]
    assert next(tasks.read_texts(path, text_pair="sentence2")) == {"id": "0", "text": "a", "text_pair": "b"}


@pytest.mark.parametrize("name", ["id", "idx", "Index"])
def test_the_files_own_ids_are_kept(file, name: str) -> None:
    rows = f"{name},text,label\nx7,one,a\n,two,b\n x9 ,three,a\n"
    path = file("a.csv", rows)
    task = tasks.from_files(path, file("b.csv", rows))
    assert task.splits["validation"]["id"][:] == ["x7", "1", "x9"]  # the second has none: its row number
    assert [row["id"] for row in tasks.read_texts(path)] == ["x7", "1", "x9"]


def test_a_column_that_is_named_for_text_or_label_is_no_id(file) -> None:
    rows = "id,index\none,a\ntwo,b\nthree,a\n"
    task = tasks.from_files(file("a.csv", rows), file("b.csv", rows), text="id", label="index")
    assert task.splits["train"][0] == {"id": "0", "text": "one", "label": 0}


def test_texts_to_predict_are_read_lazily(file) -> None:
    path = file("a.tsv", "text\tother\none\t1\nragged\n")
    rows = tasks.read_texts(path)
    assert next(rows) == {"id": "0", "text": "one"}
    with pytest.raises(UserError, match=r"^line 3 of "):
        next(rows)
    with pytest.raises(UserError):  # before a row is asked for
        tasks.read_texts(path, text="none")


def test_plain_text_is_one_text_a_line(file) -> None:
    path = file("a.txt", 'one "text"\n\ttwo\tfields \nthree, four\n\n\n')
    assert [row["text"] for row in tasks.read_texts(path)] == ['one "text"', "\ttwo\tfields ", "three, four"]
    assert [row["id"] for row in tasks.read_texts(path)] == ["0", "1", "2"]


def test_blank_lines_at_the_end_are_no_rows(file) -> None:
    for name, content in (
        ("a.csv", "text,label\na,x\nb,y\nc,x\n\n\n"),
        ("a.tsv", "text\tlabel\na\tx\nb\ty\nc\tx\n\r\n"),
    ):
        assert [text for text, _ in texts_and_labels(tasks.from_files(file(name, content)))] == ["a", "b", "c"]
    assert len(list(tasks.read_texts(file("a.jsonl", '\n{"text": "a"}\n\n{"text": "b"}\n\n')))) == 2


def test_nothing_is_left_in_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "a.parquet", [{"text": text, "label": label} for text, label in ROWS])
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    tasks.from_files(path).sample(max_train=1)
    assert list(here.iterdir()) == []


def test_the_usual_columns_are_taken_where_the_file_has_them_and_none_is_named(file) -> None:
    path = file("a.tsv", "text\treview\na\tb\n")
    assert [row["text"] for row in tasks.read_texts(path, usual=("review", None))] == ["b"]
    assert [row["text"] for row in tasks.read_texts(path, "text", usual=("review", None))] == ["a"]
    assert [row["text"] for row in tasks.read_texts(path, usual=("verdict", None))] == ["a"]
    assert next(tasks.read_texts(path, usual=("review", "text"))) == {"id": "0", "text": "b", "text_pair": "a"}


@pytest.mark.parametrize("ending", [".tsv", ".csv", ".jsonl", ".json", ".parquet"])
def test_numbers_that_are_not_all_whole_make_a_regression(tmp_path: Path, ending: str) -> None:
    rows = [{"text": f"text {row}", "label": row / 2} for row in range(20)]
    path = write(tmp_path / f"rated{ending}", rows)
    task = tasks.from_files(path)
    assert (task.kind, task.labels, task.metrics) == ("regression", ("score",), ("pearson", "spearman"))
    assert {name: len(split) for name, split in task.splits.items()} == {"train": 18, "validation": 2}
    found = {row["text"]: row["label"] for split in task.splits.values() for row in split}
    assert found == {row["text"]: row["label"] for row in rows}
    assert "the labels are numbers, so that a regression is trained (--kind classification" in task.source
    assert task.told().startswith("18 train, 2 validation; numbers from ")


def test_the_kind_that_is_asked_for_is_taken(file) -> None:
    stars = file("stars.tsv", "text\tlabel\n" + "".join(f"t{row}\t{1 + row % 5}\n" for row in range(20)))
    assert tasks.from_files(stars).kind == "classification"
    assert tasks.from_files(stars, kind="regression").splits["train"]["label"][:3] == [1.0, 2.0, 3.0]
    halves = file("halves.tsv", "text\tlabel\n" + "".join(f"t{row}\t{1 + row % 2 / 2}\n" for row in range(20)))
    assert tasks.from_files(halves).kind == "regression"
    assert tasks.from_files(halves, kind="classification").labels == ("1.0", "1.5")


def test_a_sample_of_a_regression_is_drawn_from_all_rows_alike(file) -> None:
    labels = [0.5] * 90 + [row + 0.25 for row in range(10)]
    path = file("a.tsv", "text\tlabel\n" + "".join(f"t{row}\t{label}\n" for row, label in enumerate(labels)))
    dev = file("dev.tsv", "text\tlabel\na\t0.5\n")
    drawn = tasks.from_files(path, dev).sample(max_train=20).splits["train"]["label"][:]
    assert drawn.count(0.5) >= 15  # in proportion to the classes, ten would have a single row each


def test_a_ranking_is_held_out_by_whole_queries(file) -> None:
    rows = [f"query {row // 4}\tdocument {row}\t{int(row % 4 == 0)}\n" for row in range(80)]
    path = file("pairs.tsv", "query\tdocument\tlabel\n" + "".join(rows))
    task = tasks.from_files(path, kind="ranking")
    assert (task.kind, task.labels, task.deciding) == ("ranking", ("not_relevant", "relevant"), "mrr")
    train, validation = (set(task.splits[name]["query"]) for name in ("train", "validation"))
    assert (len(train), len(validation), train & validation) == (18, 2, set())
    assert len(task.splits["validation"]) == 8
    sample = task.sample(max_train=3)
    assert len(sample.splits["train"]) == 12
    assert "3 of 18 train queries" in sample.source


def test_a_data_set_on_the_hub_is_ones_own_data_too(monkeypatch: pytest.MonkeyPatch, told) -> None:
    features = datasets.Features({"text": datasets.Value("string"), "label": datasets.ClassLabel(names=["neg", "pos"])})
    rows = datasets.Dataset.from_dict({"text": ["a", "b"], "label": [1, 0]}, features=features)
    asked = []

    def load_dataset(repository, config):
        asked.append((repository, config))
        return datasets.DatasetDict({"train": rows, "test": rows})

    monkeypatch.setattr(huggingface_hub.HfApi, "dataset_info", lambda *args, **kwargs: None)
    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    task = tasks.from_files("someone/films")
    assert (task.name, task.labels) == ("films", ("neg", "pos"))
    assert task.splits["validation"]["label"][:] == [1, 0]
    tasks.from_files("someone/films:small")
    assert asked == [("someone/films", None), ("someone/films", "small")]

    def unreachable(*args, **kwargs):
        raise ConnectionError("no network")

    monkeypatch.setattr(datasets, "load_dataset", unreachable)
    assert told(tasks.from_files, "someone/films").startswith("there is no file someone/films, and no such data set")
