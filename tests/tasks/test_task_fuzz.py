"""Whatever is in a file: its texts arrive unchanged, or the user is told; nothing else is ever raised."""

import contextlib
import csv
import json
import re
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from attentune import tasks
from attentune.errors import UserError

# Any character a UTF-8 file can hold but those that end a field or a line of TSV.
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\t\n\r"), min_size=1).filter(str.strip)
BYTES = st.one_of(
    st.binary(max_size=200),
    st.text('text,label\t\n\r"{}[]:0123456789\\ueE+-\x00\ufeff', max_size=100).map(str.encode),
    st.binary(max_size=60).map(lambda rows: b"text,label\n" + rows),
    st.binary(max_size=60).map(lambda rows: b"text\tlabel\n" + rows),
)


@given(texts=st.lists(TEXT, min_size=2, max_size=8))
@example(texts=['"', '""', 'a "quote', '"a",b', "'", "\\"])
@example(texts=["\ufeffmarked", "a\x85b", "a\u2028b", "a\x00b", "#", "nan"])
def test_texts_come_back_unchanged_from_every_format(texts: list[str]) -> None:
    rows = [(text, str(number % 2)) for number, text in enumerate(texts)]
    with TemporaryDirectory() as folder:
        tsv, csv_file, jsonl = (Path(folder, f"a.{ending}") for ending in ("tsv", "csv", "jsonl"))
        content = "text\tlabel\n" + "".join(f"{text}\t{label}\n" for text, label in rows)
        tsv.write_text(content, encoding="utf-8", newline="")
        with csv_file.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([("text", "label"), *rows])
        objects = (json.dumps({"text": text, "label": label}, ensure_ascii=False) for text, label in rows)
        jsonl.write_text("\n".join(objects), encoding="utf-8", newline="")
        for path in (tsv, csv_file, jsonl):
            dev = path.with_stem("dev")
            dev.write_bytes(path.read_bytes())
            train = tasks.from_files(path, dev).splits["train"]
            assert train["text"][:] == texts
            assert train["label"][:] == [number % 2 for number in range(len(texts))]
            assert [row["text"] for row in tasks.read_texts(path)] == texts


@pytest.mark.parametrize("ending", ["tsv", "csv", "jsonl", "json", "txt", "parquet"])
@given(content=BYTES)
def test_no_bytes_raise_anything_but_a_users_error(ending: str, content: bytes) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder, f"a.{ending}")
        path.write_bytes(content)
        with contextlib.suppress(UserError):
            tasks.from_files(path)
        for kind in ("regression", "ranking"):
            with contextlib.suppress(UserError):
                tasks.from_files(path, kind=kind)
        with contextlib.suppress(UserError):
            list(tasks.read_texts(path))


OFFICIAL = {
    "stsb": ["STS-B/train.tsv", "STS-B/dev.tsv"],
    "mrpc": ["MRPC/train.tsv", "MRPC/dev.tsv"],
    "qqp": ["QQP/train.tsv", "QQP/dev.tsv"],
    "mnli": ["MNLI/train.tsv", "MNLI/dev_matched.tsv"],
    "ax": ["diagnostic/diagnostic.tsv"],
    "hans": ["hans/heuristics_evaluation_set.txt"],
    "mednli": ["mednli/mli_train_v1.jsonl", "mednli/mli_dev_v1.jsonl"],
    "cross-genre-ir": [
        "cross-genre-ir/train_dataset.csv", "cross-genre-ir/dev_dataset.csv",
        "cross-genre-ir/dev_data_claim_pmid_dict.json",
    ],
    "beir": ["corpus.jsonl", "queries.jsonl", "qrels/train.tsv", "qrels/dev.tsv", "candidates/dev.trec"],
}  # fmt: skip
HEADERS = [
    "index\tsentence1\tsentence2\tscore\tgold_label\n0\ta\tb\t1\tneutral\n",
    "Quality\t#1 String\t#2 String\n1\ta\tb\n",
    "id\tquestion1\tquestion2\tis_duplicate\n1\ta\tb\t0\n",
    "gold_label\tsentence1\tsentence2\tpairID\theuristic\tsubcase\nentailment\ta\tb\tc\td\te\n",
    '{"sentence1": "a", "sentence2": "b", "gold_label": "neutral"}\n',
    "PMID,Premise,Hypothesis,Label\n1,a,b,1\n",
    '{"_id": "a", "title": "", "text": "b"}\n',
    "query-id\tcorpus-id\tscore\na\ta\t1\n",
    "a Q0 a 1 0.5 x\n",
    '{"b": ["1"]}',
]


@pytest.mark.parametrize("name", OFFICIAL)
@given(data=st.data())
def test_no_official_file_raises_anything_but_a_users_error(name: str, data: st.DataObject) -> None:
    piece = st.one_of(st.binary(max_size=40), st.sampled_from(HEADERS).map(str.encode))
    with TemporaryDirectory() as folder:
        for file in OFFICIAL[name]:
            path = Path(folder, file)
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(b"".join(data.draw(st.lists(piece, max_size=3))))
        with contextlib.suppress(UserError):
            tasks.load(name, folder)


FIELD = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n"), max_size=6)


@given(rows=st.lists(st.lists(FIELD, min_size=2, max_size=5), min_size=1, max_size=8))
def test_no_row_of_qqp_is_dropped_without_being_counted(rows: list[list[str]]) -> None:
    content = "id\tquestion1\tquestion2\tis_duplicate\n1\ta\tb\t0\n" + "".join("\t".join(row) + "\n" for row in rows)
    with TemporaryDirectory() as folder:
        for file in ("train.tsv", "dev.tsv"):
            Path(folder, file).write_text(content, encoding="utf-8", newline="")
        try:
            task = tasks.load("qqp", folder)
        except UserError:
            return  # a blank line in the middle, say
        lines = content.removesuffix("\n").split("\n")
        while lines[-1] in ("", "\r"):
            lines.pop()
        told = re.search(r"(\d+) rows? of train.tsv (?:is|are) left out", task.source)
        assert len(task.splits["train"]) + int(told.group(1) if told else 0) == len(lines) - 1


def test_a_million_characters_in_a_field_are_a_text() -> None:
    long = 'a "b" ' * 170_000
    with TemporaryDirectory() as folder:
        for name in ("train", "dev"):
            row = f"0\t{long}\tb\t2.5\n"
            Path(folder, f"{name}.tsv").write_text("index\tsentence1\tsentence2\tscore\n" + row)
        assert tasks.load("stsb", folder).splits["train"]["sentence1"][0] == long
