"""Texts to predict from a user's file, row by row; nothing but the row at hand is kept."""

from collections.abc import Iterator
from pathlib import Path

from attentune.tasks.columns import choose
from attentune.tasks.formats import open_table


def read_texts(
    path: str | Path,
    text: str | None = None,
    text_pair: str | None = None,
    *,
    usual: tuple[str | None, str | None] = (None, None),
) -> Iterator[dict[str, str]]:
    """The texts of a file to predict, row by row: `id`, `text` and, where the file has pairs, `text_pair`.

    Where no column is named, those of `usual` are taken if the file has them, and otherwise they are guessed. A `.txt`
    file holds one text a line. `id` is the file's own or else the row's number, from 0. What is wrong with the file as
    a whole is raised at once, what is wrong with a row when the row is reached.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder, "new.txt")
    ...     _ = file.write_text("a fine film\\na bore\\n")
    ...     list(read_texts(file))
    [{'id': '0', 'text': 'a fine film'}, {'id': '1', 'text': 'a bore'}]
    """
    table = open_table(path, plain_text=True)
    if text is None and text_pair is None and all(name is None or name in table.columns for name in usual):
        text, text_pair = usual
    columns = choose(table, text=text, text_pair=text_pair, labelled=False)

    def rows() -> Iterator[dict[str, str]]:
        for number, row in enumerate(table.rows(*columns.all())):
            read = {"id": row.id(columns.id, number), "text": row.text(columns.text)}
            if columns.text_pair is not None:
                read["text_pair"] = row.text(columns.text_pair)
            yield read

    return rows()
