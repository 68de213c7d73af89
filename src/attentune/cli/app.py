"""The commands by name, and what becomes of errors."""

import functools
import os
import sys
from collections.abc import Callable
from typing import Any

import typer

from attentune.cli.ablate import ablate
from attentune.cli.bench import bench
from attentune.cli.compare import compare
from attentune.cli.demo import demo
from attentune.cli.evaluate import evaluate
from attentune.cli.explain import explain
from attentune.cli.methods import methods
from attentune.cli.predict import predict
from attentune.cli.pretrain import pretrain
from attentune.cli.push import push
from attentune.cli.report import report
from attentune.cli.submit import submit
from attentune.cli.sweep import sweep
from attentune.cli.tasks import tasks
from attentune.cli.train import train
from attentune.errors import UserError

app = typer.Typer(
    name="attentune",
    help="Guide the attention of stock Hugging Face models while they are fine-tuned.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _told(command: Callable[..., None]) -> Callable[..., None]:
    """The command, with its errors told in our way; typer would tell some of them in its own before they reached `main`."""

    @functools.wraps(command)
    def told(*args: Any, **kwargs: Any) -> None:
        try:
            command(*args, **kwargs)
            sys.stdout.flush()
        except UserError as error:
            _stop(str(error), 2)
        except KeyboardInterrupt as stopped:
            _stop("; ".join(["stopped", *map(str, stopped.args)]), 130)
        except BrokenPipeError:  # the reader of our output has gone, as in `attentune predict ... | head`
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(0)
        except OSError as error:
            if error.strerror is None:
                raise
            _stop(f"{error.filename}: {error.strerror}" if error.filename else error.strerror, 2)

    return told


def _stop(message: str, code: int) -> None:
    if os.environ.get("RANK", "0") == "0":  # of several processes, which stop for the same reason, one tells it
        print(f"attentune: {message}", file=sys.stderr)
    sys.exit(code)


COMMANDS = (
    demo, train, pretrain, compare, sweep, ablate, evaluate, predict, explain, report, bench, submit, push, methods, tasks
)  # fmt: skip

for command in COMMANDS:
    app.command()(_told(command))


@app.callback(invoke_without_command=True)
def _version(version: bool = typer.Option(False, "--version", help="Print the version and exit.")) -> None:
    if version:
        from importlib.metadata import version as installed

        print(f"attentune {installed('attentune')}")
        raise typer.Exit


def main() -> None:
    """Run the command line."""
    try:
        app()
    except SystemExit as ended:
        if os.environ.get("WORLD_SIZE", "1") == "1":
            raise
        # One of several processes: where torch takes itself apart, its threads may wait for each other, or abort the process.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(ended.code if isinstance(ended.code, int) else int(ended.code is not None))
