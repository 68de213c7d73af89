"""Words, names and paths as values in the text form of methods: plain where nothing can be mistaken, otherwise in quotes.

Within quotes nothing but the quote itself is special, and it is written twice; so a path of Windows stands as it is.
"""

import re
from collections.abc import Iterator

from attentune.errors import UserError

QUOTES = "'\""
_PLAIN = re.compile(r"[\w.~:@%\\/-]+")


def quoted(value: str) -> str:
    """A value as text, in quotes where it needs them.

    >>> print(quoted("data/glove.6B.50d.txt"), quoted("my vectors (old).txt"), quoted("o'clock"))
    data/glove.6B.50d.txt 'my vectors (old).txt' 'o''clock'
    """
    return value if _PLAIN.fullmatch(value) else "'" + value.replace("'", "''") + "'"


def unquoted(text: str) -> str:
    """The inverse of `quoted`; double quotes do as well.

    >>> unquoted('"my vectors.txt"')
    'my vectors.txt'
    """
    quote = text[:1]
    if quote not in QUOTES or not quote:
        value = text
    elif len(text) > 1 and text.endswith(quote) and quote not in text[1:-1].replace(2 * quote, ""):
        value = text[1:-1].replace(2 * quote, quote)
    else:
        raise UserError(f"nothing may follow the quote that closes, as in {quote}my vectors.txt{quote}, here {text}")
    if not value.strip():
        raise UserError("a name or a path is expected here, not nothing")
    return value


def outside_quotes(text: str, start: int, stop: int) -> Iterator[tuple[int, str]]:
    """The characters between two positions that aren't in quotes, and where they stand.

    >>> list(outside_quotes("a='+'", 0, 5))
    [(0, 'a'), (1, '=')]
    """
    position = start
    while position < stop:
        if text[position] in QUOTES:
            end = text.find(text[position], position + 1, stop)
            if end < 0:
                raise UnclosedQuote(position)
            position = end + 1
        else:
            yield position, text[position]
            position += 1


class UnclosedQuote(ValueError):
    """A quote at a position opens and nothing closes it."""

    def __init__(self, position: int) -> None:
        super().__init__(position)
        self.position = position
