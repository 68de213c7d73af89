"""Where the commands write: results to standard output, everything else to standard error."""

import json
import logging
import os
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table


class _Console(Console):
    """rich would end the program where the reader of our output has gone; what that means is for the commands to say."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


results = _Console(soft_wrap=True)
notes = _Console(stderr=True, soft_wrap=True, highlight=False)


def note(line: str) -> None:
    """Tell something on the way; the text is shown as it is, never taken for markup."""
    notes.print(line, style="dim", markup=False)


def first_free(path: Path) -> Path:
    """The path, or with -2, -3, … behind it the first that is not there yet."""
    candidates = (path if i == 1 else path.with_name(f"{path.name}-{i}") for i in range(1, 100_000))
    return next(candidate for candidate in candidates if not candidate.exists())


def print_json(value: Any) -> None:
    """A result for another program to read."""
    print(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False))


def quiet_libraries() -> None:
    """Keep the libraries beneath us from talking over us; their errors still come through."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    import datasets
    from transformers.utils import logging as transformers_logging

    datasets.disable_progress_bars()
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    logging.getLogger("attentune").addHandler(logging.StreamHandler())


def table(*columns: str, title: str | None = None) -> Table:
    """A table in the one style that all commands share."""
    made = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for i, column in enumerate(columns):
        made.add_column(column, justify="left" if i == 0 else "right")
    return made
