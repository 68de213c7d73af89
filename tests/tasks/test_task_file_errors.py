"""What is wrong with a user's file is told in one sentence: the file, the line and the column, and what to do."""

from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from attentune import tasks

ERRORS = [
    ("a.csv", "", "{path} is empty; give a file with at least one row"),
    ("a.tsv", "\n\n", "{path} is empty; give a file with at least one row"),
    ("a.jsonl", " \n", "{path} is empty; give a file with at least one row"),
    ("a.json", "[]", "{path} is empty; give a file with at least one row"),
    ("a.csv", "text,label\n", "{path} has columns but no rows; give a file with at least one row"),
    ("a.tsv", "text\tlabel\n\n", "{path} has columns but no rows; give a file with at least one row"),
    (
        "a.csv",
        b"text,label\nfine,a\nna\xefve,b\n",
        "{path} is not UTF-8: byte 20 (line 3) is 0xef; save the file as UTF-8",
    ),
    (
        "a.tsv",
        b"\xef\xbb\xbftext\tlabel\n\xff\ta\n",
        "{path} is not UTF-8: byte 14 (line 2) is 0xff; save the file as UTF-8",
    ),
    ("a.jsonl", b'{"text": "\xe9"}', "{path} is not UTF-8: byte 10 (line 1) is 0xe9; save the file as UTF-8"),
    (
        "a.csv",
        "text,label\nfine,a\n,b\n",
        "line 3 of {path} has no text in column 'text'; fill it in or remove the row",
    ),
    (
        "a.tsv",
        "text\tlabel\nfine\t \nx\tb\n",
        "line 2 of {path} has no label in column 'label'; fill it in or remove the row",
    ),
    (
        "a.csv",
        'text,label\n"two\nlines",a\nx,\n',
        "line 4 of {path} has no label in column 'label'; fill it in or remove the row",
    ),
    (
        "a.jsonl",
        '{"text": "a", "label": 1}\n\n{"text": "b"}\n',
        "line 3 of {path} has no label in column 'label'; fill it in or remove the row",
    ),
    (
        "a.jsonl",
        '{"text": "a", "label": NaN}\n',
        "line 1 of {path} has no label in column 'label'; fill it in or remove the row",
    ),
    (
        "a.jsonl",
        '{"text": "a", "label": [0.5]}\n',
        "line 1 of {path} has the label [0.5] in column 'label'; give a string or a whole number",
    ),
    (
        "a.jsonl",
        '{"text": 7, "label": 1}\n',
        "line 1 of {path} has 7 in column 'text', where a text is expected; make it a string",
    ),
    (
        "a.jsonl",
        '{"text": "\\ud800", "label": 1}\n',
        "line 1 of {path} has half a surrogate pair in column 'text', which is no character; remove it",
    ),
    (
        "a.json",
        '[{"text": "a", "label": 1}, {"text": "", "label": 2}]',
        "item 2 of {path} has no text in column 'text'; fill it in or remove the row",
    ),
    (
        "a.tsv",
        "text\tlabel\none\ta\ntwo\tb\tc\n",
        "line 3 of {path} has 3 fields where 2 are expected; a tab ends a field",
    ),
    (
        "a.csv",
        "text,label\none\ntwo,b\n",
        "line 2 of {path} has 1 field where 2 are expected; a field with a comma in it needs quotes",
    ),
    ("a.csv", "text,label\n\none,a\ntwo,b\n", "line 2 of {path} is blank; remove it or fill it in"),
    (
        "a.csv",
        'text,label\nfine,a\n"never closed,b\nx,a\n',
        "line 3 of {path} is not CSV (unexpected end of data); double the quotes inside a quoted field and close it",
    ),
    (
        "a.csv",
        'text,label\n"Oh" he said,a\n',
        "line 2 of {path} is not CSV (',' expected after '\"'); double the quotes inside a quoted field and close it",
    ),
    ("a.csv", "text,text,label\na,b,c\n", "{path} has the column 'text' more than once; rename one of them"),
    (
        "a.jsonl",
        '{"text": "a", "label": 1}\n{"text": }\n',
        "line 2 of {path} is not JSON (Expecting value: line 1 column 10 (char 9)); write one object a line",
    ),
    ("a.jsonl", "[" * 100_000, "line 1 of {path} is not JSON (nested too deeply); write one object a line"),
    (
        "a.jsonl",
        '{"text": "a", "label": 1}\n["b", 2]\n',
        'line 2 of {path} is not a JSON object; write each row as {{"text": …, "label": …}}',
    ),
    ("a.json", "[1]", 'item 1 of {path} is not a JSON object; write each row as {{"text": …, "label": …}}'),
    (
        "a.csv",
        "review,stars\nfine,1\n",
        "cannot tell which column of {path} holds the text: its columns are 'review', 'stars'; "
        "name the column with --text (a second one with --text-pair, the label with --label)",
    ),
    (
        "a.csv",
        "text,question,answer,label\nfine,1,2,3\n",
        "cannot tell which column of {path} holds the text: its columns are 'text', 'question', 'answer', 'label'; "
        "name the column with --text (a second one with --text-pair, the label with --label)",
    ),
    (
        "a.csv",
        "text,stars\nfine,1\n",
        "cannot tell which column of {path} holds the label: its columns are 'text', 'stars'; name the column with --label",
    ),
    (
        "a.csv",
        "text,label\nfine,good\na joy,good\n",
        "all rows of {path} have the label 'good' in column 'label'; a classifier needs two classes or more",
    ),
    (
        "a.csv",
        "text,label\na,1\nb,2\n",
        "{path} has no label that occurs twice, so that no row can be held out for validation; "
        "give more rows, or rows to validate on with --eval-file",
    ),
    (
        "a.csv",
        "text,label\nfine,good\ndull,nan\n",
        "line 3 of {path} has the label 'nan' in column 'label', which is how a missing value is written; fill it in or "
        "remove the row (a class of that name can be spelled otherwise, or kept by giving the file as JSONL)",
    ),
    (
        "a.xlsx",
        "?",
        "cannot tell the format of {path} from the extension '.xlsx'; "
        "expected one of .tsv, .csv, .jsonl, .json, .parquet",
    ),
]


@pytest.mark.parametrize(("name", "content", "sentence"), ERRORS)
def test_what_is_wrong_with_a_file_is_told_in_one_sentence(told, file, name: str, content, sentence: str) -> None:
    path = file(name, content)
    assert told(tasks.from_files, path) == sentence.format(path=path)


@pytest.mark.parametrize(
    "name", ["none.csv", "none.tsv", "none.jsonl", "none.json", "none.parquet", "none", "none.txt"]
)
def test_a_file_that_is_not_there_is_told(told, tmp_path: Path, name: str) -> None:
    assert told(tasks.from_files, tmp_path / name) == f"no such file: {tmp_path / name}"
    assert told(tasks.read_texts, tmp_path / name) == f"no such file: {tmp_path / name}"


@pytest.mark.parametrize("ending", [".csv", ".tsv", ".jsonl", ".parquet"])
def test_a_folder_is_no_file(told, tmp_path: Path, ending: str) -> None:
    folder = tmp_path / f"folder{ending}"
    folder.mkdir()
    assert told(tasks.from_files, folder) == f"{folder} is a folder; give a file"


def test_a_missing_column_is_named_with_those_there_are(told, file) -> None:
    path = file("a.csv", "text,label\nfine,a\n")
    for named in ({"text": "review"}, {"text_pair": "review"}, {"label": "review"}):
        assert (
            told(tasks.from_files, path, **named) == f"{path} has no column 'review'; its columns are 'text', 'label'"
        )
    assert (
        told(tasks.read_texts, path, text="review") == f"{path} has no column 'review'; its columns are 'text', 'label'"
    )
    dev = file("dev.csv", "sentence,label\nfine,a\n")
    train = file("train.csv", "text,label\nfine,a\ndull,b\n")
    assert told(tasks.from_files, train, dev) == f"{dev} has no column 'text'; its columns are 'sentence', 'label'"


def test_many_columns_are_not_all_listed(told, file) -> None:
    path = file("a.csv", ",".join(f"c{number}" for number in range(30)) + "\n" + ",".join(["x"] * 30) + "\n")
    assert "'c18', 'c19' and 10 more; name the column with --text" in told(tasks.from_files, path)


def test_a_column_named_twice_is_told(told, file) -> None:
    path = file("a.csv", "text,label\nfine,a\n")
    assert told(tasks.from_files, path, text="text", label="text") == (
        "the column 'text' is named twice; give --text, --text-pair and --label different columns"
    )


def test_a_pair_without_its_first_text_is_told(told, file) -> None:
    path = file("a.csv", "one,two,label\nfine,b,a\n")
    assert told(tasks.from_files, path, text_pair="two") == (
        f"cannot tell which column of {path} goes with 'two': "
        "its columns are 'one', 'two', 'label'; name the column with --text"
    )


def test_labels_that_training_has_not_seen_are_named_and_counted(told, file) -> None:
    train = file("train.tsv", "text\tlabel\na\t1\nb\t2\n")
    one = file("one.tsv", "text\tlabel\na\t1\nb\t3\n")
    assert told(tasks.from_files, train, one) == (
        f"{one} has 1 label that {train} has not: '3'; add such rows to the training file, or correct them"
    )
    five = file("five.tsv", "text\tlabel\n" + "".join(f"t\t{label}\n" for label in (1, 7, 6, 5, 4, 11)))
    assert told(tasks.from_files, train, five) == (
        f"{five} has 5 labels that {train} has not: '4', '5', '6', …; "
        "add such rows to the training file, or correct them"
    )


def test_plain_text_is_only_for_prediction_and_has_no_columns(told, file) -> None:
    path = file("a.txt", "one\n")
    assert told(tasks.from_files, path).endswith("expected one of .tsv, .csv, .jsonl, .json, .parquet")
    assert told(tasks.read_texts, path, text="review") == f"{path} has no column 'review'; its columns are 'text'"
    assert told(tasks.read_texts, file("b.txt", "one\n\ntwo\n")).endswith("b.txt is blank; remove it or fill it in")


def test_a_damaged_parquet_file_is_told(told, tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"text": ["a", "b", "c"], "label": [0, 1, 0]}), path)
    path.write_bytes(path.read_bytes()[:-20])
    assert told(tasks.from_files, path).startswith(f"{path} is not a Parquet file that can be read (")


def test_damaged_metadata_in_a_parquet_file_is_told(told, tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    table = pyarrow.table({"text": ["a", "b"], "label": [0, 1]})
    for metadata in ('{"info": {"features": "x"}}', '{"info": {"features": {"text": {"_type": "Value"}}}}', "{"):
        pyarrow.parquet.write_table(table.replace_schema_metadata({"huggingface": metadata}), path)
        assert told(tasks.from_files, path).startswith(f"{path} is not a Parquet file that can be read (")


def test_a_parquet_file_without_rows_is_told(told, tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"text": pyarrow.array([], pyarrow.string()), "label": []}), path)
    assert told(tasks.from_files, path) == f"{path} has columns but no rows; give a file with at least one row"


@pytest.mark.parametrize("label", ["NA", "NaN", "null", "None", "<NA>"])
def test_a_missing_label_is_no_class_where_the_format_has_only_strings(told, file, label: str) -> None:
    for path in (
        file("a.tsv", f"text\tlabel\na\tx\nb\ty\nc\t{label}\n"),
        file("a.csv", f"text,label\na,x\nb,{label}\n"),
    ):
        assert f"has the label {label!r} in column 'label'" in told(tasks.from_files, path)
    typed = file("a.jsonl", "".join(f'{{"text": "t", "label": "{name}"}}\n' for name in ("x", label, "x")))
    assert set(tasks.from_files(typed).labels) == {"x", label}


def test_the_training_file_is_no_file_to_validate_on(told, file, tmp_path: Path) -> None:
    path = file("a.tsv", "text\tlabel\na\tx\nb\ty\n")
    (tmp_path / "link.tsv").symlink_to(path)
    for same in (path, tmp_path / "link.tsv", tmp_path / "." / "a.tsv"):
        assert told(tasks.from_files, path, same).startswith(f"{path} is given both to train on and to validate on")


def test_a_column_to_predict_is_named_with_the_flags_of_predict(told, file) -> None:
    sentence = told(tasks.read_texts, file("a.csv", "review,stars\nfine,1\n"))
    assert sentence.endswith("name the column with --text (a second one with --text-pair)")


NUMBERS = "".join(f"text {row}\t{row / 4}\n" for row in range(20))


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        ("x\tabc\n", "line 22 of {path} has 'abc' in column 'label', where a number is expected; correct it"),
        ("x\tnan\n", "line 22 of {path} has 'nan' in column 'label', where a number is expected; correct it"),
        ("x\tinf\n", "line 22 of {path} has 'inf' in column 'label', where a number is expected; correct it"),
        ("x\t \n", "line 22 of {path} has no number in column 'label'; fill it in or remove the row"),
    ],
)
def test_what_is_no_number_among_numbers_is_told(told, file, rows: str, sentence: str) -> None:
    path = file("a.tsv", "text\tlabel\n" + NUMBERS + rows)
    assert told(tasks.from_files, path) == sentence.format(path=path)


def test_a_number_that_is_missing_or_none_in_jsonl_is_told(told, file) -> None:
    rows = "".join(f'{{"text": "t", "label": {row / 4}}}\n' for row in range(20))
    for value, what in (
        ("NaN", "has no number"),
        ("null", "has no number"),
        ("true", "has True"),
        ("1e999", "has inf"),
    ):
        path = file("a.jsonl", f'{rows}{{"text": "t", "label": {value}}}\n')
        assert told(tasks.from_files, path).startswith(f"line 21 of {path} {what}")


def test_numbers_that_cannot_be_learnt_are_told(told, file) -> None:
    same = file("same.tsv", "text\tlabel\na\t0.5\nb\t0.5\n")
    assert told(tasks.from_files, same) == (
        f"all rows of {same} have the label 0.5 in column 'label'; a regression needs numbers that differ"
    )
    names = file("names.tsv", "text\tlabel\na\tgood\nb\tbad\n")
    assert told(tasks.from_files, names, kind="regression") == (
        f"line 2 of {names} has 'good' in column 'label', where a number is expected; correct it"
    )


def test_a_ranking_wants_pairs_and_relevance(told, file) -> None:
    single = file("single.tsv", "text\tlabel\na\t1\nb\t0\n")
    assert "name the second with --text-pair" in told(tasks.from_files, single, kind="ranking")
    graded = file("graded.tsv", "query\tdocument\tlabel\na\tb\t1\na\tc\t2\n")
    assert told(tasks.from_files, graded, kind="ranking") == (
        f"line 3 of {graded} has the label '2' in column 'label'; give 1 to a relevant document, 0 to others"
    )
