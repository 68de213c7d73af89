"""`python -m attentune.studies.alone FOLDER`: one run in a process of its own, so that its peak of memory is its own.

The recipe comes as a line of JSON on standard input, and the input then stays open: when it closes, whoever asked for the run
is gone, and the run ends at once. Lines of JSON on standard output tell how it goes.
"""

import json
import os
import sys
import threading
from pathlib import Path
from typing import Any

from attentune.errors import UserError


def main() -> int:
    """Run, and tell."""
    asked = json.loads(sys.stdin.readline())
    out = sys.stdout
    sys.stdout = sys.stderr  # what libraries print is none of our lines
    threading.Thread(target=_end_with_the_other_side, daemon=True).start()

    def tell(**values: Any) -> None:
        out.write(json.dumps(values) + "\n")
        out.flush()

    try:
        _run(asked, Path(sys.argv[1]), tell)
    except UserError as error:
        tell(problem=str(error))
        return 2
    return 0


def _run(asked: dict[str, Any], folder: Path, tell: Any) -> None:
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    import datasets
    from rich.console import Console
    from transformers.utils import logging as transformers_logging

    from attentune.studies.cost import Meter
    from attentune.studies.watched import AtEpochs
    from attentune.training import Recipe, run_recipe

    datasets.disable_progress_bars()
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    run_recipe(
        Recipe.build(asked["recipe"]),
        folder,
        console=Console(stderr=True, quiet=True),
        say=lambda line: print(line, file=sys.stderr),
        callbacks=[kind(tell) for wish, kind in (("each_epoch", AtEpochs), ("cost", Meter)) if asked.get(wish)],
    )
    tell(done=True)


def _end_with_the_other_side() -> None:
    # Not sys.stdin.read(), which would hold its lock for good: a process forked from this one, such as those that prepare
    # data, closes its sys.stdin, and would wait for that lock for ever.
    while os.read(sys.stdin.fileno(), 1):
        pass
    os._exit(3)


if __name__ == "__main__":
    sys.exit(main())
