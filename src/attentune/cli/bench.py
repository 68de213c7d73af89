"""`attentune bench`: what methods cost in time and memory, on the user's own machine, model and data."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attentune.cli import study as shared
from attentune.cli.output import note, print_json, quiet_libraries, results, table
from attentune.errors import UserError

if TYPE_CHECKING:
    from attentune.studies.cost import Cost

METHODS = "mdg(0.01) + pdg(0.0001, tokens=content)"
TASK = "rotten-tomatoes"


def bench(
    methods: Annotated[
        str, typer.Option(help='With semicolons between; the unguided model is always there: "mdg(0.01); blur + se".')
    ] = METHODS,
    seeds: Annotated[int, typer.Option(min=1, help="Trainings of each method, with seeds 1, 2, ….")] = 3,
    model: Annotated[str, typer.Option(help="minilm, a folder, or a name on the hub.")] = "minilm",
    tasks: Annotated[
        str | None, typer.Option("--tasks", "--task", help=f'Such as "cola; rte". [{TASK}, or --train-file]')
    ] = None,
    data_dir: shared.DataDir = None,
    train_file: shared.TrainFile = None,
    eval_file: shared.EvalFile = None,
    text: shared.Text = None,
    text_pair: shared.TextPair = None,
    label: shared.Label = None,
    max_train: Annotated[int, typer.Option(min=1, help="Train on a sample of so many rows, drawn by the seed.")] = 500,
    max_eval: Annotated[int, typer.Option(min=1, help="Evaluate on a sample of so many rows.")] = 200,
    epochs: Annotated[float, typer.Option(help="Passes over the training rows.")] = 1,
    lr: shared.Lr = None,
    batch_size: shared.BatchSize = None,
    max_length: shared.MaxLength = None,
    set_: shared.Set = None,
    trust_remote_code: shared.TrustRemoteCode = False,
    json: shared.Json = False,
) -> None:
    """Measure what methods cost beside the unguided training, in turns, each training in a process of its own."""
    given = shared.given(locals())
    import torch

    from attentune.studies.cost import Spent, costs, measure, with_unguided
    from attentune.training import Recipe, laid_over, versions

    quiet_libraries()
    sides = with_unguided(method for method in methods.split(";") if method.strip())
    if len(sides) == 1:
        raise UserError('there is nothing to measure: give --methods, such as "mdg(0.01); blur + se"')
    places: list[str | None] = [*(shared.separated(tasks) or ())] or [None if train_file else TASK]
    base = shared.shared_recipe({}, given, set_, trust_remote_code)
    recipes = [
        Recipe.build(laid_over(base, {"method": method, "data": {"task": task}, "training": {"seed": seed}}))
        for task in places
        for seed in range(1, seeds + 1)
        for method in sides
    ]
    where = torch.cuda.get_device_name() if torch.cuda.is_available() else f"CPU, {torch.get_num_threads()} threads"
    note(f"{where}, torch {torch.__version__}, {model}, {max_train} examples, {len(recipes)} trainings")

    def told(spent: Spent) -> None:
        note(f"{spent.task}, {spent.method}, seed {spent.seed}: {1000 * spent.seconds:.0f} ms a step")

    spent = measure(recipes, told)
    found = costs(spent)
    if json:
        values: dict[str, Any] = {"command": shared.command_line(), "machine": where, "versions": versions()}
        print_json({**values, "costs": [asdict(one) for one in found], "runs": [asdict(one) for one in spent]})
        return
    for task in dict.fromkeys(one.task for one in found):
        _show([one for one in found if one.task == task])
    results.print(
        "Time and memory are in those of the unguided training; in brackets, the range over seeds.", style="dim"
    )


def _show(found: "list[Cost]") -> None:
    shown = table("method", found[0].metric, "time of a step", "memory", title=found[0].task)
    for one in found:
        time = str(one.time) if one.time else f"{1000 * one.seconds:,.0f} ms"
        memory = str(one.memory) if one.memory else f"{one.megabytes:,.0f} MB"
        shown.add_row(one.method, f"{one.score:.3f}", time, memory)
    results.print(shown)
    results.print()
