"""The parameters of priors as text: whole numbers, and `all` for no bound."""

from attentune.errors import UserError


def whole_number(text: str) -> int:
    """A whole number as a user writes it.

    >>> whole_number("5")
    5
    """
    try:
        return int(text)
    except ValueError:
        raise UserError(f"a whole number is expected here, not {text!r}") from None


def read_most(text: str) -> int | None:
    """A whole number, or `all`: no bound, None.

    >>> read_most("all") is None
    True
    """
    return None if text == "all" else whole_number(text)


def most_as_text(value: object) -> str:
    """The inverse of `read_most`."""
    return "all" if value is None else str(value)
