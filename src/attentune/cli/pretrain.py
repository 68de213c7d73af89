"""`attentune pretrain`: a masked language model from nothing, or on from a checkpoint, guided or not; or go on with a run."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attentune.cli.output import first_free, note, notes, print_json, quiet_libraries, results, table
from attentune.cli.train import _interrupted, _nothing, _recipe_file, _refuse_changes
from attentune.errors import UserError

if TYPE_CHECKING:
    from attentune.training import PretrainingRecipe, RunFolder


def pretrain(
    recipe: Annotated[
        Path | None, typer.Argument(help="A recipe (YAML), such as recipes/pretraining/…; flags go over it.")
    ] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="field=value, over recipe and flags, such as new.dropout=0.")
    ] = None,
    train_file: Annotated[
        str | None, typer.Option(help="The text: a document a line, JSONL, a folder of files, or a name on the hub.")
    ] = None,
    eval_file: Annotated[str | None, typer.Option(help="Held-out text; without it, a twentieth of the text.")] = None,
    text: Annotated[str | None, typer.Option(help="Column of the text, where there are columns.")] = None,
    max_train: Annotated[int | None, typer.Option(help="Train on a sample of so many documents.")] = None,
    max_eval: Annotated[int | None, typer.Option(help="Judge on a sample of so many documents.")] = None,
    model: Annotated[str | None, typer.Option(help="Go on from a checkpoint: a folder, or a name on the hub.")] = None,
    revision: Annotated[str | None, typer.Option(help="Revision of a model on the hub.")] = None,
    trust_remote_code: Annotated[bool, typer.Option(help="Run code that the model brings along.")] = False,
    architecture: Annotated[str | None, typer.Option(help="roberta, bert or modernbert. [roberta]")] = None,
    layers: Annotated[int | None, typer.Option(help="Of a new model. [4]")] = None,
    width: Annotated[int | None, typer.Option(help="Of a new model. [256]")] = None,
    heads: Annotated[int | None, typer.Option(help="Of each layer of a new model. [8]")] = None,
    vocab_size: Annotated[int | None, typer.Option(help="Tokens of a new model's own tokenizer. [16000]")] = None,
    mask_rate: Annotated[float | None, typer.Option(help="Share of the tokens to be told. [0.15]")] = None,
    whole_word: Annotated[bool, typer.Option("--whole-word", help="Mask whole words.")] = False,
    method: Annotated[
        str | None, typer.Option(help='Such as "first(0.8, heads=2) + next(0.8, heads=1)"; see methods. [none]')
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Of weights, order, masks and dropout. [42]")] = None,
    epochs: Annotated[float | None, typer.Option(help="Passes over the text. [10]")] = None,
    max_steps: Annotated[int | None, typer.Option(help="End after so many steps, whatever --epochs says.")] = None,
    lr: Annotated[float | None, typer.Option(help="Peak learning rate. [5e-4]")] = None,
    batch_size: Annotated[int | None, typer.Option(help="Blocks a step. [32]")] = None,
    max_length: Annotated[int | None, typer.Option(help="Tokens of a block. [128]")] = None,
    eval_steps: Annotated[int | None, typer.Option(help="Judge every so many steps. [a twentieth of all]")] = None,
    save_steps: Annotated[int | None, typer.Option(help="Keep a checkpoint every so many steps.")] = None,
    precision: Annotated[
        str | None, typer.Option(help="auto (bfloat16 where the processor has it), bf16 or fp32.")
    ] = None,
    output: Annotated[Path | None, typer.Option(help="Folder of the run, new or empty. [runs/…]")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the interrupted run in --output.")] = False,
    run: Annotated[Path | None, typer.Option(help="The run to go on with, as --output.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the metrics as JSON and nothing else.")] = False,
) -> None:
    """Pre-train a masked language model on text, guided by --method or not."""
    from attentune.training import is_first, resume_pretraining
    from attentune.training import pretrain as run_pretraining

    quiet_libraries()
    given: dict[str, Any] = {
        "model": model,
        "revision": revision,
        "trust_remote_code": trust_remote_code or None,
        "new": {
            "architecture": architecture, "layers": layers, "width": width, "heads": heads, "vocab_size": vocab_size,
        },
        "data": {
            "train_file": train_file, "eval_file": eval_file, "text": text, "max_train": max_train, "max_eval": max_eval,
        },
        "masking": {"rate": mask_rate, "whole_word": whole_word or None},
        "method": method,
        "training": {
            "seed": seed, "epochs": epochs, "max_steps": max_steps, "lr": lr, "batch_size": batch_size,
            "max_length": max_length, "eval_steps": eval_steps, "save_steps": save_steps, "precision": precision,
        },
    }  # fmt: skip
    say, console = (note, notes) if is_first() else (_nothing, None)
    if resume:
        path = _interrupted(recipe, output, run)
        flat = {**given["new"], "mask_rate": mask_rate, "whole_word": whole_word or None}
        _refuse_changes({**given, **flat, "trust_remote_code": None}, set_)
        finished = resume_pretraining(path, trust_remote_code=trust_remote_code, console=console, say=say)
    else:
        if run is not None:
            raise UserError("--run names a run to go on with, by --resume; a new one goes to --output")
        built = _recipe(recipe, given, set_ or [], trust_remote_code)
        path = output or _free_folder(built)
        try:
            finished = run_pretraining(built, path, console=console, say=say)
        except KeyboardInterrupt as stopped:
            unfinished = [f"the unfinished run is in {path}"] * (path / "recipe.yaml").exists()
            raise KeyboardInterrupt(*(stopped.args or unfinished)) from None
    if is_first():
        _show(finished, json)


def _recipe(file: Path | None, given: dict[str, Any], sets: list[str], trust: bool) -> "PretrainingRecipe":
    """The recipe: of the file, with the flags over it, and over them what --set says."""
    from attentune.training import PretrainingRecipe, assigned, laid_over, read_values, require_trust

    values = {} if file is None else read_values(_recipe_file(file))
    over = assigned(laid_over(values, given), sets, PretrainingRecipe)
    if not (isinstance(over.get("data"), dict) and over["data"].get("train_file")):
        raise UserError(
            "there is no text: give --train-file, a file with a document a line, a folder, or a name on the hub"
        )
    try:
        recipe = PretrainingRecipe.build(over)
    except UserError as error:
        if file is None:
            raise
        raise UserError(f"the recipe {file} can't be used: {error}") from None
    if file is not None:
        require_trust(recipe, trust, f"the recipe {file}")
    return recipe


def _show(folder: "RunFolder", json: bool) -> None:
    """What came of it, on one screen."""
    metrics = folder.metrics()
    if json:
        print_json(metrics)
        return
    train, held_out = metrics["train"], metrics["eval"]
    shown = table(f"{metrics['task']}, {metrics['method']}, seed {metrics['seed']}", "")
    shown.add_row("held-out loss", f"{held_out['loss']:.4f}")
    shown.add_row("held-out perplexity", f"{held_out['perplexity']:,.2f}")
    shown.add_row("loss in training", f"{train['loss']:.4f}")
    shown.add_row("training time", f"{train['seconds']:.1f} s for {train['steps']:,} steps")
    shown.add_row("tokens", f"{train['tokens']:,}, {train['tokens_per_second']:,} a second")
    shown.add_row("peak memory", f"{train['peak_memory_mb']:,} MB")
    results.print(shown)
    results.print(f"run: {folder.path}", markup=False, highlight=False)
    notes.print(f"fine-tune: attentune train --model {folder.path} --task …", style="dim", markup=False)


def _free_folder(recipe: "PretrainingRecipe") -> Path:
    """A folder under runs/ that says what is in it and is not there yet."""
    from attentune.methods import parse

    method = "+".join(parse(recipe.method).names) or "none"
    return first_free(Path("runs") / f"{recipe.data.name}-pretrained-{method}-seed{recipe.training.seed}")
