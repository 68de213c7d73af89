"""`attentune train`: fine-tune a classifier, guided or not, and leave a run folder."""

from pathlib import Path
from typing import Annotated, Any

import typer

from attentune.cli.output import first_free, note, notes, print_json, quiet_libraries, results, table


def train(
    model: Annotated[str, typer.Option(help="minilm, a folder, or a name on the hub.")] = "minilm",
    revision: Annotated[str | None, typer.Option(help="Revision of a model on the hub.")] = None,
    trust_remote_code: Annotated[bool, typer.Option(help="Run code that the model brings along.")] = False,
    task: Annotated[str | None, typer.Option(help="rte, cola or rotten-tomatoes.")] = None,
    data_dir: Annotated[str | None, typer.Option(help="Folder that holds RTE/, CoLA/, …; without it, the hub.")] = None,
    train_file: Annotated[str | None, typer.Option(help="Your own data: TSV, CSV, JSONL or Parquet.")] = None,
    eval_file: Annotated[str | None, typer.Option(help="Held-out rows; without it, a tenth of --train-file.")] = None,
    text: Annotated[str | None, typer.Option(help="Column of the text.")] = None,
    text_pair: Annotated[str | None, typer.Option(help="Column of the second text of a pair.")] = None,
    label: Annotated[str | None, typer.Option(help="Column of the label.")] = None,
    method: Annotated[
        str, typer.Option(help='Such as "mdg(0.01) + pdg(0.0001, tokens=content)"; see methods.')
    ] = "none",
    seed: Annotated[int | None, typer.Option(help="Of weights, order, dropout and samples. [42]")] = None,
    epochs: Annotated[float | None, typer.Option(help="Passes over the training rows. [3]")] = None,
    lr: Annotated[float | None, typer.Option(help="Peak learning rate. [5e-5]")] = None,
    batch_size: Annotated[int | None, typer.Option(help="Rows a step. [32]")] = None,
    max_length: Annotated[int | None, typer.Option(help="Tokens at most; longer texts are cut. [128]")] = None,
    max_train: Annotated[int | None, typer.Option(help="Train on a sample of so many rows.")] = None,
    max_eval: Annotated[int | None, typer.Option(help="Evaluate on a sample of so many rows.")] = None,
    save_steps: Annotated[int | None, typer.Option(help="Keep a checkpoint every so many steps.")] = None,
    precision: Annotated[
        str | None, typer.Option(help="auto (bfloat16 where the processor has it), bf16 or fp32.")
    ] = None,
    output: Annotated[Path | None, typer.Option(help="Folder of the run, new or empty. [runs/…]")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the metrics as JSON and nothing else.")] = False,
) -> None:
    """Fine-tune a classifier on a task or on your own files, guided by --method or not."""
    from attentune.training import Recipe, run_recipe

    quiet_libraries()
    values: dict[str, Any] = {
        "model": model,
        "revision": revision,
        "trust_remote_code": trust_remote_code,
        "method": method,
        "data": {
            "task": task, "data_dir": data_dir, "train_file": train_file, "eval_file": eval_file,
            "text": text, "text_pair": text_pair, "label": label, "max_train": max_train, "max_eval": max_eval,
        },
        "training": {
            "seed": seed, "epochs": epochs, "lr": lr, "batch_size": batch_size, "max_length": max_length,
            "save_steps": save_steps, "precision": precision,
        },
    }  # fmt: skip
    values["training"] = {name: value for name, value in values["training"].items() if value is not None}
    recipe = Recipe.build(values)
    path = output or _free_folder(recipe)
    try:
        folder = run_recipe(recipe, path, console=notes, say=note)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(*[f"the unfinished run is in {path}"] * (path / "recipe.yaml").exists()) from None
    metrics = folder.metrics()
    if json:
        print_json(metrics)
        return
    shown = table(f"{metrics['task']}, {metrics['method']}, seed {metrics['seed']}", "")
    for name, value in metrics["eval"].items():
        shown.add_row(name + (" (decides)" if name == metrics["deciding"] else ""), f"{value:.4f}")
    shown.add_row("training time", f"{metrics['train']['seconds']:.1f} s for {metrics['train']['steps']} steps")
    shown.add_row("peak memory", f"{metrics['train']['peak_memory_mb']:,} MB")
    results.print(shown)
    results.print(f"run: {folder.path}", markup=False, highlight=False)


def _free_folder(recipe: Any) -> Path:
    """A folder under runs/ that says what is in it and is not there yet."""
    from attentune.methods import parse

    method = "+".join(parse(recipe.method).names) or "none"
    return first_free(Path("runs") / f"{recipe.data.name}-{method}-seed{recipe.training.seed}")
