"""`attentune train`: fine-tune a classifier, guided or not, and leave a run folder; or go on with one."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attentune.cli.output import first_free, note, notes, print_json, quiet_libraries, results, table
from attentune.errors import UserError

if TYPE_CHECKING:
    from attentune.training import Recipe, RunFolder

SHOWN_SCORES = 12


def train(
    recipe: Annotated[
        Path | None, typer.Argument(help="A recipe (YAML), such as recipes/… or a run's recipe.yaml; flags go over it.")
    ] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="field=value, over recipe and flags, such as training.warmup=0.")
    ] = None,
    model: Annotated[str | None, typer.Option(help="minilm, a folder, or a name on the hub. [minilm]")] = None,
    revision: Annotated[str | None, typer.Option(help="Revision of a model on the hub.")] = None,
    trust_remote_code: Annotated[bool, typer.Option(help="Run code that the model brings along.")] = False,
    task: Annotated[str | None, typer.Option(help="Name of a task, such as rte; see attentune tasks.")] = None,
    data_dir: Annotated[str | None, typer.Option(help="Folder that holds RTE/, CoLA/, …; without it, the hub.")] = None,
    train_file: Annotated[
        str | None, typer.Option(help="Your own data: TSV, CSV, JSONL, Parquet, or a hub name.")
    ] = None,
    eval_file: Annotated[str | None, typer.Option(help="Held-out rows; without it, a tenth of --train-file.")] = None,
    text: Annotated[str | None, typer.Option(help="Column of the text.")] = None,
    text_pair: Annotated[str | None, typer.Option(help="Column of the second text of a pair.")] = None,
    label: Annotated[str | None, typer.Option(help="Column of the label.")] = None,
    kind: Annotated[
        str | None, typer.Option(help="classification, regression or ranking of your own files. [as the labels look]")
    ] = None,
    negatives: Annotated[
        int | None, typer.Option(help="Of rankings: negatives to draw for each relevant document. [4]")
    ] = None,
    also: Annotated[
        list[str] | None, typer.Option(help="Judge the trained model on this task too, as an MNLI run on hans.")
    ] = None,
    method: Annotated[
        str | None, typer.Option(help='Such as "mdg(0.01) + pdg(0.0001, tokens=content)"; see methods. [none]')
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Of weights, order, dropout and samples. [42]")] = None,
    epochs: Annotated[float | None, typer.Option(help="Passes over the training rows. [3]")] = None,
    max_steps: Annotated[int | None, typer.Option(help="End after so many steps, whatever --epochs says.")] = None,
    lr: Annotated[float | None, typer.Option(help="Peak learning rate. [5e-5]")] = None,
    batch_size: Annotated[int | None, typer.Option(help="Rows a step. [32]")] = None,
    max_length: Annotated[int | None, typer.Option(help="Tokens at most; longer texts are cut. [128]")] = None,
    max_train: Annotated[int | None, typer.Option(help="Train on a sample of so many rows.")] = None,
    max_eval: Annotated[int | None, typer.Option(help="Evaluate on a sample of so many rows.")] = None,
    save_steps: Annotated[int | None, typer.Option(help="Keep a checkpoint every so many steps.")] = None,
    precision: Annotated[
        str | None, typer.Option(help="auto (bfloat16 where the processor has it), bf16 or fp32.")
    ] = None,
    lora: Annotated[
        str | None, typer.Option(help="Train an adapter of low rank: r=8, or r=8,alpha=16,dropout=0.1 (needs peft).")
    ] = None,
    output: Annotated[Path | None, typer.Option(help="Folder of the run, new or empty. [runs/…]")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the interrupted run in --output.")] = False,
    run: Annotated[Path | None, typer.Option(help="The run to go on with, as --output.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the metrics as JSON and nothing else.")] = False,
) -> None:
    """Fine-tune a model on a task or on your own files, guided by --method or not."""
    from attentune.training import is_first, resume_run, run_recipe

    quiet_libraries()
    given: dict[str, Any] = {
        "model": model,
        "revision": revision,
        "trust_remote_code": trust_remote_code or None,
        "method": method,
        "data": {
            "task": task, "data_dir": data_dir, "train_file": train_file, "eval_file": eval_file,
            "text": text, "text_pair": text_pair, "label": label, "kind": kind, "negatives": negatives,
            "also": tuple(also) if also else None,
            "max_train": max_train, "max_eval": max_eval,
        },
        "training": {
            "seed": seed, "epochs": epochs, "max_steps": max_steps, "lr": lr, "batch_size": batch_size,
            "max_length": max_length, "save_steps": save_steps, "precision": precision,
        },
    }  # fmt: skip
    say, console = (note, notes) if is_first() else (_nothing, None)
    if resume:
        path = _interrupted(recipe, output, run)
        _refuse_changes({**given, "trust_remote_code": None, "lora": lora}, set_)
        finished = resume_run(path, trust_remote_code=trust_remote_code, console=console, say=say)
    else:
        if run is not None:
            raise UserError("--run names a run to go on with, by --resume; a new one goes to --output")
        built = _recipe(recipe, given, lora, set_ or [], trust_remote_code)
        path = output or _free_folder(built)
        try:
            finished = run_recipe(built, path, console=console, say=say)
        except KeyboardInterrupt as stopped:
            unfinished = [f"the unfinished run is in {path}"] * (path / "recipe.yaml").exists()
            raise KeyboardInterrupt(*(stopped.args or unfinished)) from None
    if is_first():
        _show(finished, json)


def _recipe(file: Path | None, given: dict[str, Any], lora: str | None, sets: list[str], trust: bool) -> "Recipe":
    """The recipe: of the file, with the flags over it, and over them what --set says."""
    from attentune.training import Recipe, assigned, laid_over, lora_values, read_values, require_trust

    values = {} if file is None else read_values(_recipe_file(file))
    over = assigned({"data": {}} | laid_over(values, {**given, "lora": lora_values(lora)}), sets)
    try:
        recipe = Recipe.build(over)
    except UserError as error:
        if file is None:
            raise
        raise UserError(f"the recipe {file} can't be used: {error}") from None
    if file is not None:
        require_trust(recipe, trust, f"the recipe {file}")
    return recipe


def _recipe_file(given: Path) -> Path:
    """A recipe's file; of a run's folder, the one in it."""
    if given.is_dir() and (given / "recipe.yaml").is_file():
        return given / "recipe.yaml"
    if given.is_dir():
        raise UserError(f"{given} is a folder, and no recipe is in it; give a recipe.yaml")
    return given


def _interrupted(recipe: Path | None, output: Path | None, run: Path | None) -> Path:
    """The run to go on with, however it is named."""
    named = [path for path in (recipe, output, run) if path is not None]
    if len(set(named)) != 1:
        many = f" (given: {', '.join(map(str, named))})" if named else ""
        raise UserError(f"--resume goes on with one run{many}; name its folder: --resume --output runs/…")
    return named[0]


def _refuse_changes(given: dict[str, Any], sets: list[str] | None) -> None:
    """A run that goes on is the run that was begun."""
    flat = {**given, **given["data"], **given["training"]}
    flags = [
        "--" + name.replace("_", "-")
        for name, value in flat.items()
        if value is not None and value.__class__ is not dict
    ]
    if flags or sets:
        raise UserError(
            f"--resume goes on with the run's own recipe, which {' and '.join([*flags, *['--set'] * bool(sets)])} would change; "
            "leave that out, or train anew to another --output"
        )


def _show(folder: "RunFolder", json: bool) -> None:
    """What came of it, on one screen."""
    metrics = folder.metrics()
    if json:
        print_json(metrics)
        return
    train = metrics["train"]
    shown = table(f"{metrics['task']}, {metrics['method']}, seed {metrics['seed']}", "")
    scores = [(name, value) for name, value in metrics["eval"].items() if isinstance(value, int | float)]
    for name, value in scores[:SHOWN_SCORES]:
        shown.add_row(name + (" (decides)" if name == metrics["deciding"] else ""), f"{value:.4f}")
    if len(scores) > SHOWN_SCORES:
        shown.add_row(f"and {len(scores) - SHOWN_SCORES} more, in metrics.json", "")
    for other, values in metrics.get("also", {}).items():
        for name, value in values.items():
            shown.add_row(f"{other}: {name}", f"{value:.4f}")
    shown.add_row("loss in training", f"{train['loss']:.4f}")
    shown.add_row("training time", f"{train['seconds']:.1f} s for {train['steps']:,} steps")
    shown.add_row("peak memory", f"{train['peak_memory_mb']:,} MB")
    results.print(shown)
    results.print(f"run: {folder.path}", markup=False, highlight=False)
    notes.print(f"predict: attentune predict --run {folder.path} FILE", style="dim", markup=False)


def _nothing(line: str) -> None:
    """What processes other than the first say."""


def _free_folder(recipe: "Recipe") -> Path:
    """A folder under runs/ that says what is in it and is not there yet."""
    from attentune.methods import parse

    method = "+".join(parse(recipe.method).names) or "none"
    return first_free(Path("runs") / f"{recipe.data.name}-{method}-seed{recipe.training.seed}")
