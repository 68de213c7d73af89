"""`attentune evaluate`: a finished run judged on any task that its model fits."""

from pathlib import Path
from typing import Annotated, Any

import typer

from attentune.cli.output import first_free, note, print_json, quiet_libraries, results, table
from attentune.errors import UserError

PRECISIONS = (None, "auto", "bf16", "fp32")


def evaluate(
    run: Annotated[Path, typer.Option(help="Folder of the run whose model is judged.")],
    task: Annotated[str | None, typer.Option(help="Name of a task; see attentune tasks. [that of the run]")] = None,
    data_dir: Annotated[str | None, typer.Option(help="Folder of the task's files. [that of the run]")] = None,
    eval_file: Annotated[str | None, typer.Option(help="Rows of your own instead: TSV, CSV, JSONL or Parquet.")] = None,
    text: Annotated[str | None, typer.Option(help="Column of the text in --eval-file.")] = None,
    text_pair: Annotated[str | None, typer.Option(help="Column of the second text.")] = None,
    label: Annotated[str | None, typer.Option(help="Column of the label.")] = None,
    split: Annotated[str | None, typer.Option(help="Such as test. [all that end in validation]")] = None,
    max_eval: Annotated[int | None, typer.Option(help="Judge on a sample of so many rows.")] = None,
    seed: Annotated[int, typer.Option(help="Of the sample.")] = 42,
    batch_size: Annotated[int, typer.Option(help="Texts at once.", min=1)] = 64,
    precision: Annotated[str | None, typer.Option(help="auto, bf16 or fp32. [that of training]")] = None,
    trust_remote_code: Annotated[bool, typer.Option(help="Run code that the model brings along.")] = False,
    output: Annotated[
        Path | None, typer.Option(help="New folder for metrics and predictions. [in the run's evaluations/]")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the metrics as JSON and nothing else.")] = False,
) -> None:
    """Judge the model of a run on a task, such as an MNLI or RTE run on HANS."""
    from attentune.training import Predictor, RunFolder
    from attentune.training.evaluations import evaluation_metrics, judge_run, write_evaluation

    quiet_libraries()
    if precision not in PRECISIONS:
        raise UserError(f"--precision is {precision!r}; give auto, bf16 or fp32")
    if output is not None and output.exists():
        raise UserError(f"{output} is there already; choose another with --output")
    if eval_file is None and (text or text_pair or label):
        raise UserError(
            "--text, --text-pair and --label name columns of --eval-file, and there is none; leave them out"
        )
    folder = RunFolder.open(run)
    found = _task(folder, task, data_dir, eval_file, text, text_pair, label).sample(max_eval=max_eval, seed=seed)
    splits = _splits(found, split)
    note(f"data: {found.source}")
    predictor = Predictor.from_run(run, precision, trust_remote_code=trust_remote_code)
    judged = judge_run(folder, found, splits, predictor, batch_size)
    metrics = evaluation_metrics(folder, found, judged)
    name = found.name if split is None else f"{found.name}-{split}"
    place = output or first_free(folder.path / "evaluations" / name)
    write_evaluation(place, metrics, judged)
    if json:
        print_json(metrics)
        return
    _print(metrics)
    results.print(f"evaluation: {place}", markup=False, highlight=False)


def _task(
    folder: Any,
    name: str | None,
    data_dir: str | None,
    file: str | None,
    text: str | None,
    pair: str | None,
    label: str | None,
) -> Any:
    """The task by name, the rows of a file, or the task that the run was trained on."""
    from attentune import tasks
    from attentune.training.models import labels_of

    data = folder.recipe().data
    if file is not None:
        if name is not None:
            raise UserError("give a task or a file of your own (--eval-file), not both")
        usual = (data.text, data.text_pair, data.label) if data.train_file and not (text or pair or label) else ()
        text, pair, label = usual or (text, pair, label)
        kind = folder.metrics().get("kind", "classification")
        return tasks.to_judge(file, labels_of(folder.checkpoint), kind, text=text, text_pair=pair, label=label)
    if name is not None:
        return tasks.load(name, data_dir or data.data_dir)
    if data.task is None:
        raise UserError(f"the run in {folder.path} was trained on a file of yours; give --task or --eval-file")
    return tasks.load(data.task, data_dir or data.data_dir)


def _splits(task: Any, split: str | None) -> tuple[str, ...]:
    splits: tuple[str, ...] = task.judged if split is None else (split,)
    if not splits or splits[0] not in task.splits:
        wanted = split or "validation"
        raise UserError(f"{task.name} has no split {wanted}; its splits are {', '.join(task.splits)} (see --split)")
    return splits


def _print(metrics: dict[str, Any]) -> None:
    shown = table(f"{metrics['task']}, judged by the run on {metrics['trained_on']}, {metrics['method']}", "")
    for name, value in metrics["eval"].items():
        shown.add_row(name + (" (decides)" if name == metrics["deciding"] else ""), f"{value:.4f}")
    results.print(shown)
    for split, details in metrics["details"].items():
        for column, groups in details.get("groups", {}).items():
            labels = list(dict.fromkeys(label for by_label in groups.values() for label in by_label))
            grouped = table(f"{split} accuracy by {column}", *labels)
            for value, by_label in groups.items():
                cells = [f"{by_label[label]['accuracy']:.4f}" if label in by_label else "—" for label in labels]
                grouped.add_row(value, *cells)
            results.print(grouped)
