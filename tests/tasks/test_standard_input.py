"""Standard input is read as a file of lines is: strictly, and with the line named where something is wrong."""

import io

import pytest

from attentune import tasks
from attentune.errors import UserError


def read(content: bytes, *, pairs: bool = False) -> list[dict[str, str]]:
    return list(tasks.read_lines(io.BytesIO(content), pairs=pairs))


def test_a_byte_order_mark_and_windows_line_ends_are_no_text() -> None:
    assert read("\ufeffüber\r\nunter\r\n".encode()) == [{"id": "0", "text": "über"}, {"id": "1", "text": "unter"}]
    assert read(b"a\tb\r\n", pairs=True) == [{"id": "0", "text": "a", "text_pair": "b"}]


def test_only_a_line_feed_ends_a_line_and_blank_lines_at_the_end_are_no_texts() -> None:
    strange = "a\x0bb\x0cc\x1cd\x85e\u2028f\rg"
    assert [row["text"] for row in read(f"{strange}\nlast\n\n\r\n".encode())] == [strange, "last"]
    assert read(b"") == []


@pytest.mark.parametrize(
    ("content", "pairs", "sentence"),
    [
        (b"fine\nna\xefve\n", False, "line 2 of standard input is not UTF-8: byte 2 is 0xef; give it as UTF-8"),
        (b"\xff\xfea\x00", False, "line 1 of standard input is not UTF-8: byte 0 is 0xff; give it as UTF-8"),
        (b"fine\n \nbore\n", False, "line 2 of standard input is blank; remove it or fill it in"),
        (b"a\tb\nc\n", True, "line 2 of standard input is not a pair of texts, which the model takes; give two with a"),
        (b"a\t \n", True, "line 1 of standard input is not a pair of texts"),
    ],
)
def test_what_is_wrong_with_a_line_is_told(content: bytes, pairs: bool, sentence: str) -> None:
    with pytest.raises(UserError) as error:
        read(content, pairs=pairs)
    assert str(error.value).startswith(sentence)


def test_it_is_read_lazily() -> None:
    rows = tasks.read_lines(io.BytesIO(b"one\n\xff\n"))
    assert next(rows) == {"id": "0", "text": "one"}
    with pytest.raises(UserError):
        next(rows)
