"""Whatever is in a file: its texts arrive unchanged, or the user is told; nothing else is ever raised."""

import contextlib
import csv
import json
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
        with contextlib.suppress(UserError):
            list(tasks.read_texts(path))
