"""`attentune sweep`: search any fields of a recipe, and write the best recipe out."""

from pathlib import Path
from typing import Annotated, Any

import typer

from attentune.cli import study as shared
from attentune.cli.output import notes, print_json, quiet_libraries, results, table
from attentune.errors import UserError

SHOWN = 10
FOLDS = 3


def sweep(
    file: shared.File = None,
    space: Annotated[
        list[str] | None,
        typer.Option(help='Once for each field: "method.mdg.weight=log(1e-4,1)", "training.lr={1e-5,2e-5}", ….'),
    ] = None,
    trials: Annotated[
        int | None, typer.Option(min=1, help="How many. [all of a space that is nothing but lists]")
    ] = None,
    folds: Annotated[
        int | None, typer.Option(min=1, help="Parts of the held-out rows that a trial is scored on. [3]")
    ] = None,
    spread: Annotated[
        float, typer.Option(min=0, help="Deviations over the parts that are taken off their mean.")
    ] = 1.0,
    held_out: Annotated[float, typer.Option(help="Share of the training rows that trials are judged on.")] = 0.2,
    prune: Annotated[bool, typer.Option(help="Break off trials that are below the median after an epoch.")] = True,
    sampler_seed: Annotated[int | None, typer.Option(help="The same trials again, with one worker.")] = None,
    small: shared.Small = False,
    model: Annotated[str | None, typer.Option(help="minilm, a folder, or a name on the hub. [minilm]")] = None,
    task: Annotated[str | None, typer.Option(help="Such as rte; without it, --train-file.")] = None,
    method: Annotated[str | None, typer.Option(help='Such as "mdg(0.01)". [none]')] = None,
    data_dir: shared.DataDir = None,
    train_file: shared.TrainFile = None,
    eval_file: shared.EvalFile = None,
    text: shared.Text = None,
    text_pair: shared.TextPair = None,
    label: shared.Label = None,
    seed: Annotated[int | None, typer.Option(help="Of all trials' training. [42]")] = None,
    max_train: shared.MaxTrain = None,
    max_eval: shared.MaxEval = None,
    epochs: shared.Epochs = None,
    lr: shared.Lr = None,
    batch_size: shared.BatchSize = None,
    max_length: shared.MaxLength = None,
    set_: shared.Set = None,
    trust_remote_code: shared.TrustRemoteCode = False,
    output: shared.Output = None,
    storage: shared.Storage = None,
    study: shared.Study = None,
    heartbeat: shared.Heartbeat = 20,
    json: shared.Json = False,
) -> None:
    """Search fields of a recipe on held-out training rows; the task's own evaluation split is not looked at."""
    given = shared.given(locals())
    from attentune.studies import Dimension, Sweep, read_study
    from attentune.studies import sweep as sweep_recipe
    from attentune.training import Recipe

    quiet_libraries()
    asked = read_study(file, "sweep", small=small)
    recipe = Recipe.build(shared.shared_recipe(asked.recipe, given, set_, trust_remote_code))
    searched = space or (asked.sweep and asked.sweep.space)
    if not searched:
        raise UserError('there is nothing to search: give --space, such as "training.lr=log(1e-5,1e-4)"')
    question = Sweep(
        recipe=recipe,
        space=tuple(Dimension.parse(one) for one in searched),
        trials=trials or (asked.sweep and asked.sweep.trials) or None,
        folds=folds or (asked.sweep and asked.sweep.folds) or FOLDS,
        spread=spread,
        held_out=held_out,
        prune=prune,
        seed=sampler_seed,
    )
    folder = output or Path("runs") / (file.stem + ("-small" if small else "") if file else "sweep")
    opened, name = shared.opened(folder, storage, study, heartbeat)
    try:
        swept = sweep_recipe(question, opened, folder, name=name, console=notes)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"what is done is kept in {folder}; the same command goes on from there") from None
    values = _write(swept, folder)
    if json:
        print_json(values)
        return
    _show(swept, folder)


def _write(swept: Any, folder: Path) -> dict[str, Any]:
    from attentune.studies import plots, tables, write_json
    from attentune.training import versions, written_whole

    with written_whole(folder / "best.yaml") as file:
        file.write(swept.best.to_yaml())
    plots.draw_history(swept.trials, folder / "history.png")
    if swept.importance:
        plots.draw_importance(swept.importance, folder / "importance.png")
    values = tables.without_nan(
        {
            "command": shared.command_line(),
            "versions": versions(),
            "best": {"fields": swept.best_point, "value": swept.best_value},
            "importance": swept.importance,
            "trials": swept.trials,
            "failed": swept.failed,
        }
    )
    write_json(folder / "results.json", values)
    return dict(values)


def _show(swept: Any, folder: Path) -> None:
    done = sorted((one for one in swept.trials if one["value"] is not None), key=lambda one: -one["value"])
    paths = list(swept.best_point)
    shown = table(
        "trial",
        *(path.removeprefix("training.").removeprefix("method.") for path in paths),
        "mean",
        "deviation",
        "value",
    )
    for one in done[:SHOWN]:
        fields = [f"{value:g}" if isinstance(value := one["fields"][path], float) else str(value) for path in paths]
        figures = [f"{100 * one[name]:.2f}" for name in ("mean", "deviation", "value")]
        shown.add_row(str(one["trial"]), *fields, *figures)
    results.print(shown)
    broken_off = len(swept.trials) - len(done)
    told = [f"{len(done)} trials came to their end, {broken_off} were broken off"]
    if swept.failed:
        told.append(f"{len(swept.failed)} failed ({next(iter(swept.failed.values()))})")
    results.print("; ".join(told), markup=False, highlight=False)
    for path, share in swept.importance.items():
        results.print(f"importance of {path}: {share:.2f}", markup=False, highlight=False)
    results.print(f"best recipe: {folder / 'best.yaml'}", markup=False, highlight=False)
