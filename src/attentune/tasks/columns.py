"""Which columns of a user's file hold the text and the label: those that are named, or else those with a usual name.

A guess is never silent: it is told in the task's `source`, and where the names leave a choice, it is an error.
"""

from dataclasses import dataclass, replace

from attentune.errors import UserError
from attentune.tasks.table import Table

PAIRS = [
    ("sentence1", "sentence2"),
    ("premise", "hypothesis"),
    ("question1", "question2"),
    ("question", "sentence"),
    ("question", "answer"),
    ("question", "context"),
    ("query", "document"),
    ("text1", "text2"),
    ("text_a", "text_b"),
    ("text", "text_pair"),
]
SINGLE = ["text", "sentence"]
LABEL = ["label", "labels", "gold_label", "class", "target"]
ID = ["id", "idx", "index"]


@dataclass(frozen=True)
class Columns:
    """The columns of a file that a task is made of; `guessed` says whether one was found by its name alone."""

    text: str
    text_pair: str | None
    label: str | None
    id: str | None
    guessed: bool

    def all(self) -> tuple[str, ...]:
        """Those there are.

        >>> Columns("review", None, "stars", None, guessed=False).all()
        ('review', 'stars')
        """
        return tuple(name for name in (self.text, self.text_pair, self.label, self.id) if name is not None)

    def told(self) -> str:
        """The choice in words.

        >>> Columns("review", None, "stars", None, guessed=True).told()
        "text from column 'review', label from 'stars' (guessed from the names)"
        """
        parts = [f"text from column {self.text!r}"]
        if self.text_pair is not None:
            parts.append(f"its pair from {self.text_pair!r}")
        if self.label is not None:
            parts.append(f"label from {self.label!r}")
        return ", ".join(parts) + (" (guessed from the names)" if self.guessed else "")

    def within(self, table: Table) -> "Columns":
        """The same columns in another file, which may do without the id.

        >>> from pathlib import Path
        >>> table = Table(Path("dev.csv"), ("review", "stars"), lambda columns: iter(()))
        >>> Columns("review", None, "stars", "id", guessed=True).within(table).all()
        ('review', 'stars')
        """
        here = self if self.id in table.columns else replace(self, id=None)
        table.require(here.all())
        return here


def choose(
    table: Table, *, text: str | None, text_pair: str | None, label: str | None = None, labelled: bool = True
) -> Columns:
    """Take the columns that are named and guess the others; a named `text` without `text_pair` is a single text.

    >>> from pathlib import Path
    >>> table = Table(Path("nli.tsv"), ("Premise", "Hypothesis", "gold_label"), lambda columns: iter(()))
    >>> choose(table, text=None, text_pair=None).all()
    ('Premise', 'Hypothesis', 'gold_label')
    """
    named = [name for name in (text, text_pair, label) if name is not None]
    table.require(named)
    for name in named:
        if named.count(name) > 1:
            raise UserError(
                f"the column {name!r} is named twice; give --text, --text-pair and --label different columns"
            )
    free = {name.casefold(): name for name in reversed(table.columns) if name not in named}
    guessed = text is None
    if text is None and text_pair is None:
        text, text_pair = _guess_texts(table, free, labelled)
    elif text is None:
        text = _guess_partner(table, free, str(text_pair))
    if labelled and label is None:
        guessed = True
        found = [free[name] for name in LABEL if name in free and free[name] not in (text, text_pair)]
        if not found:
            raise UserError(
                f"cannot tell which column of {table.path} holds the label: {table.told()}; name the column with --label"
            )
        label = found[0]
    own_id = next((free[name] for name in ID if name in free and free[name] not in (text, text_pair, label)), None)
    return Columns(text, text_pair, label, own_id, guessed)


def _guess_texts(table: Table, free: dict[str, str], labelled: bool) -> tuple[str, str | None]:
    pairs = [pair for pair in PAIRS if all(name in free for name in pair)]
    paired = {name for pair in pairs for name in pair}
    found: list[tuple[str, ...]] = [*pairs, *((name,) for name in SINGLE if name in free and name not in paired)]
    if len(found) != 1:
        others = "a second one with --text-pair" + (", the label with --label" if labelled else "")
        flags = f"name the column with --text ({others})"
        raise UserError(f"cannot tell which column of {table.path} holds the text: {table.told()}; {flags}")
    text, *pair = (free[name] for name in found[0])
    return text, pair[0] if pair else None


def _guess_partner(table: Table, free: dict[str, str], text_pair: str) -> str:
    """The text that goes with a named second one."""
    usual = [first for first, second in PAIRS if second == text_pair.casefold()]
    for name in [*usual, *SINGLE]:
        if name in free:
            return free[name]
    raise UserError(
        f"cannot tell which column of {table.path} goes with {text_pair!r}: {table.told()}; name the column with --text"
    )
