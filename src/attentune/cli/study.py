"""What `compare`, `sweep` and `ablate` share: the recipe that all runs have, the folder, the storage."""

import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attentune.errors import UserError

if TYPE_CHECKING:
    from optuna.storages import RDBStorage

File = Annotated[
    Path | None, typer.Argument(help="A study (YAML), such as recipes/papers/…, or a recipe for all runs; flags go over it.")
]  # fmt: skip
Small = Annotated[bool, typer.Option("--small", help="The study's small form, for MiniLM on a CPU.")]
Set = Annotated[list[str] | None, typer.Option("--set", help="field=value for all runs, such as training.epochs=2.")]
DataDir = Annotated[str | None, typer.Option(help="Folder that holds RTE/, CoLA/, …; without it, the hub.")]
TrainFile = Annotated[str | None, typer.Option(help="Your own data: TSV, CSV, JSONL or Parquet.")]
EvalFile = Annotated[str | None, typer.Option(help="Held-out rows; without it, a tenth of --train-file.")]
Text = Annotated[str | None, typer.Option(help="Column of the text.")]
TextPair = Annotated[str | None, typer.Option(help="Column of the second text of a pair.")]
Label = Annotated[str | None, typer.Option(help="Column of the label.")]
MaxTrain = Annotated[int | None, typer.Option(help="Train on a sample of so many rows, drawn by the seed.")]
MaxEval = Annotated[int | None, typer.Option(help="Evaluate on a sample of so many rows, drawn by the seed.")]
Epochs = Annotated[float | None, typer.Option(help="Passes over the training rows. [3]")]
Lr = Annotated[float | None, typer.Option(help="Peak learning rate. [5e-5]")]
BatchSize = Annotated[int | None, typer.Option(help="Rows a step. [32]")]
MaxLength = Annotated[int | None, typer.Option(help="Tokens at most; longer texts are cut. [128]")]
TrustRemoteCode = Annotated[bool, typer.Option(help="Run code that the model brings along.")]
Output = Annotated[Path | None, typer.Option(help="Folder of the study; one that is there is gone on with.")]
Storage = Annotated[
    str | None,
    typer.Option(help="A database that workers on other machines share, such as postgresql://user@host/name."),
]
Study = Annotated[str | None, typer.Option(help="The study's name in --storage. [the output folder's name]")]
KeepModels = Annotated[bool, typer.Option(help="Keep the trained model of each run.")]
Heartbeat = Annotated[
    int, typer.Option(min=1, help="Seconds between a worker's signs of life; three missed, and it is dead.")
]
Json = Annotated[bool, typer.Option("--json", help="Print the results as JSON and nothing else.")]


OF_DATA = (
    "task", "data_dir", "train_file", "eval_file", "text", "text_pair", "label", "max_train", "max_eval",
)  # fmt: skip
OF_TRAINING = ("seed", "epochs", "lr", "batch_size", "max_length")


def given(flags: Mapping[str, Any]) -> dict[str, Any]:
    """The flags of a command (its `locals()`) that are fields of the recipe, as the recipe has them; None where not given.

    >>> given({"method": "mdg", "epochs": 2, "storage": None})
    {'method': 'mdg', 'data': {}, 'training': {'epochs': 2}}
    """
    of_all = {name: flags[name] for name in ("model", "method") if name in flags}
    data = {name: flags[name] for name in OF_DATA if name in flags}
    return {**of_all, "data": data, "training": {name: flags[name] for name in OF_TRAINING if name in flags}}


def shared_recipe(
    file: Mapping[str, Any], given: Mapping[str, Any], sets: Sequence[str] | None, trust: bool
) -> dict[str, Any]:
    """The values that all runs share: of the file, the flags over them, and over both what --set says."""
    from attentune.training import assigned, laid_over

    values = laid_over(file, {**given, "trust_remote_code": trust or None})
    if values.get("trust_remote_code") and not trust:
        raise UserError("the study asks to run code that a model brings along; add --trust-remote-code if you trust it")
    return assigned({"data": {}} | values, sets or [])


def separated(text: str | None) -> list[str] | None:
    """A list on the command line, with semicolons or commas between.

    >>> separated("cola; rte")
    ['cola', 'rte']
    """
    if text is None:
        return None
    found = [part.strip() for part in text.replace(";", ",").split(",") if part.strip()]
    if not found:
        raise UserError(f"a list of names is expected, such as 'cola; rte', not {text!r}")
    return found


def command_line() -> str:
    """The command as it was given, fit to be kept: a database's password is left out."""
    from attentune.studies.storage import without_password

    return shlex.join(["attentune", *(without_password(word) if "://" in word else word for word in sys.argv[1:])])


def opened(output: Path, url: str | None, name: str | None, heartbeat: int) -> tuple["RDBStorage", str]:
    """The storage, and the study's name in it."""
    from attentune.studies.storage import open_storage

    if output.exists() and not output.is_dir():
        raise UserError(f"the output folder {output} is a file; choose another with --output")
    if (output / "recipe.yaml").exists():
        raise UserError(f"the output folder {output} holds a run; choose another with --output")
    output.mkdir(parents=True, exist_ok=True)
    return open_storage(output, url, heartbeat), name or output.name
