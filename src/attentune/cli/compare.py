"""`attentune compare`: does a method help? Methods × seeds (× tasks × models), with statistics that hold."""

from pathlib import Path
from typing import Annotated, Any

import typer

from attentune.cli import study as shared
from attentune.cli.output import note, notes, print_json, quiet_libraries, results, table
from attentune.errors import UserError

SEEDS = 5


def compare(
    file: shared.File = None,
    methods: Annotated[
        str | None,
        typer.Option(help='With semicolons between: "none; mdg(0.01); none with training.epochs=10".'),
    ] = None,
    seeds: Annotated[int | None, typer.Option(min=1, help="Seeds 1, 2, … for each method. [5]")] = None,
    models: Annotated[
        str | None, typer.Option("--models", "--model", help="minilm, folders, or hub names. [minilm]")
    ] = None,
    tasks: Annotated[str | None, typer.Option("--tasks", "--task", help='Such as "cola; rte".')] = None,
    budget: Annotated[
        int | None,
        typer.Option(min=1, help="Search trials for each method and the baseline, on held-out training rows."),
    ] = None,
    space: Annotated[
        list[str] | None,
        typer.Option(
            help="What --budget searches, once for each field: training.lr=log(1e-5,1e-4). [what the papers searched]"
        ),
    ] = None,
    small: shared.Small = False,
    data_dir: shared.DataDir = None,
    train_file: shared.TrainFile = None,
    eval_file: shared.EvalFile = None,
    text: shared.Text = None,
    text_pair: shared.TextPair = None,
    label: shared.Label = None,
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
    keep_models: shared.KeepModels = False,
    so_far: Annotated[
        bool, typer.Option("--so-far", help="Run nothing: the tables of what is done, also beside a worker at work.")
    ] = False,
    heartbeat: shared.Heartbeat = 20,
    json: shared.Json = False,
) -> None:
    """Compare methods over seeds on equal footing; stopped or killed, the same command goes on where it was."""
    given = shared.given(locals())
    from attentune.studies import Arm, Comparison, distinct, parse_arms, read_study
    from attentune.studies import compare as compare_methods

    quiet_libraries()
    asked = read_study(file, "compare", small=small)
    question = asked.compare
    base = shared.shared_recipe(asked.recipe, given, set_, trust_remote_code)
    if methods is not None:
        arms = parse_arms(methods)
    elif question is not None and question.methods:
        arms = distinct([Arm.parse(method) for method in question.methods])
    else:
        raise UserError('there is nothing to compare: give --methods, such as "none; mdg(0.01)"')
    named = shared.separated(tasks) or (question and question.tasks) or None
    if named is None and not base["data"].get("train_file") and not base["data"].get("task"):
        raise UserError("there is no data: give --tasks (such as rotten-tomatoes) or --train-file")
    searched = space or (question and question.space) or None
    comparison = Comparison(
        base=base,
        arms=arms,
        seeds=tuple(range(1, (seeds or (question and question.seeds) or SEEDS) + 1)),
        models=tuple(shared.separated(models) or (question and question.models) or [base.get("model", "minilm")]),
        tasks=tuple(named) if named else (base["data"].get("task"),),
        budget=budget or (question and question.budget) or 0,
        space=None if searched is None else tuple(searched),
    )
    folder = output or Path("runs") / (file.stem + ("-small" if small else "") if file else "compare")
    if so_far and storage is None and not (folder / "study.db").exists():
        raise UserError(f"there is no study in {folder} yet; leave --so-far out to begin it")
    opened, name = shared.opened(folder, storage, study, heartbeat)
    try:
        compared = compare_methods(
            comparison, opened, folder, name=name, console=notes, keep_models=keep_models, so_far=so_far
        )
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"what is done is kept in {folder}; the same command goes on from there") from None
    if so_far and not compared.runs:
        raise UserError(f"none of the tables' {compared.missing} runs is done yet")
    values = write_comparison(compared, folder, asked.about)
    if json:
        print_json(values)
    else:
        show_comparison(compared)
        results.print(f"tables, picture, raw results: {folder}", markup=False, highlight=False)
    if compared.failed:
        first, problem = next(iter(compared.failed.items()))
        raise UserError(
            f"{len(compared.failed)} of {len(compared.failed) + len(compared.runs)} runs failed, and are not in the tables: "
            f"{first}: {problem}; the same command tries them again"
        )


def write_comparison(compared: Any, folder: Path, about: str) -> dict[str, Any]:
    """All forms of the table, each whole; a picture; the raw results as JSON."""
    from attentune.studies import plots, tables, write_json
    from attentune.training import versions, written_whole

    command = shared.command_line()
    shown = [tables.table_of(group) for group in compared.groups]
    if len(compared.groups) > 1:
        shown.insert(0, tables.overview(compared.groups))
    sentences = [f"{compared.missing} runs are still to be done."] if compared.missing else []
    sentences += [group.sentence(arm) for group in compared.groups for arm in group.verdicts]
    texts = {
        "table.md": tables.page(about or "Comparison", command, shown, sentences, tables.choices(compared.chosen)),
        "table.tex": "\n\n".join(map(tables.latex, shown)) + "\n",
        "table.csv": tables.comma_separated(compared.groups),
    }
    for name, content in texts.items():
        with written_whole(folder / name) as file:
            file.write(content)
    if any(group.verdicts for group in compared.groups):
        plots.draw_differences([group for group in compared.groups if group.verdicts], folder / "differences.png")
    values = tables.without_nan(
        {
            "command": command,
            "about": about,
            "versions": versions(),
            "tables": [tables.as_json(group) for group in compared.groups],
            "chosen": compared.chosen,
            "runs": compared.runs,
            "failed": compared.failed,
        }
    )
    write_json(folder / "results.json", values)
    return dict(values)


def show_comparison(compared: Any) -> None:
    """The tables and what may be said of them."""
    from attentune.studies import tables

    for one in compared.chosen:
        if one["score"] is None:  # not tried yet, or every trial failed
            continue
        note(f"chosen for {one['method']} on {one['task'] or 'your data'}: {one['chosen'] or 'as given'}")
    shown = [tables.table_of(group) for group in compared.groups]
    if len(compared.groups) > 1:
        shown.insert(0, tables.overview(compared.groups))
    for one in (tables.in_width(whole, results.width) for whole in shown):
        printed = table(*one.columns, title=one.title)
        for row in one.rows:
            printed.add_row(*row)
        results.print(printed)
        results.print()
    if compared.missing:
        results.print(f"{compared.missing} runs are still to be done.\n", markup=False, highlight=False)
    for group in compared.groups:
        where = f"{group.task}: " if len(compared.groups) > 1 else ""
        for arm in group.verdicts:
            results.print(where + group.sentence(arm), markup=False, highlight=False)
    results.print()
