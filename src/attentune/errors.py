"""The one error that a user's mistake raises, anywhere in the library.

Its message is a sentence that says what is wrong, what was given and what to do. The command line prints it and exits
with code 2; a library user can catch it as a ValueError.
"""


class UserError(ValueError):
    """A mistake of the user's, told in one sentence.

    >>> raise UserError("no such file: reviews.tsv")
    Traceback (most recent call last):
    attentune.errors.UserError: no such file: reviews.tsv
    """
