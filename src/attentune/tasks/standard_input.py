"""Texts to predict from standard input, or any other stream of bytes: one a line, read as a file of such lines is."""

from collections.abc import Iterator
from typing import BinaryIO

from attentune.errors import UserError


def read_lines(stream: BinaryIO, *, pairs: bool = False) -> Iterator[dict[str, str]]:
    """The texts, line by line, as `read_texts` gives those of a file; a pair is two texts with a tab between.

    >>> import io
    >>> list(read_lines(io.BytesIO(b"a fine film\\r\\na bore\\n")))
    [{'id': '0', 'text': 'a fine film'}, {'id': '1', 'text': 'a bore'}]
    """
    blank = None
    for number, line in enumerate(stream, start=1):
        text = _decoded(line, number)
        if not text.strip():
            blank = blank or number
            continue
        if blank is not None:  # at the end they are no texts, as in a file
            raise UserError(f"line {blank} of standard input is blank; remove it or fill it in")
        parts = text.split("\t") if pairs else [text]
        if pairs and not (len(parts) == 2 and all(part.strip() for part in parts)):
            raise UserError(
                f"line {number} of standard input is not a pair of texts, which the model takes; give two with a tab between"
            )
        yield {"id": str(number - 1), **dict(zip(("text", "text_pair"), parts, strict=False))}


def _decoded(line: bytes, number: int) -> str:
    try:
        text = line.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        what = f"byte {error.start} is 0x{error.object[error.start]:02x}"
        raise UserError(f"line {number} of standard input is not UTF-8: {what}; give it as UTF-8") from None
    return text.removesuffix("\n").removesuffix("\r")
