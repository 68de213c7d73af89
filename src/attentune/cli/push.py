"""`attentune push`: a finished run's model and its card to the Hugging Face hub."""

from pathlib import Path
from typing import Annotated

import typer

from attentune.cli.output import print_json, quiet_libraries, results


def push(
    run: Annotated[Path, typer.Argument(help="Folder of the run whose model is pushed.")],
    name: Annotated[str, typer.Argument(help="Where to, as owner/name; made if it isn't there.")],
    private: Annotated[bool, typer.Option("--private", help="Make it so that only you see it.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print where it is as JSON.")] = False,
) -> None:
    """Push a run's model to the Hugging Face hub, with a card that says how it was made."""
    from attentune.training import push_run

    quiet_libraries()
    url = push_run(run, name, private=private)
    if json:
        print_json({"url": url})
    else:
        results.print(f"pushed: {url}", markup=False, highlight=False)
