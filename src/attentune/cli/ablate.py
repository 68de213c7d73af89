"""`attentune ablate`: what a method's effect comes from; each ablation with its table and its plot."""

from pathlib import Path
from typing import Annotated, Any

import typer

from attentune.cli import study as shared
from attentune.cli.output import notes, print_json, quiet_libraries, results, table
from attentune.errors import UserError

SEEDS = 3


def ablate(
    file: shared.File = None,
    method: Annotated[str | None, typer.Option(help='Such as "mdg(0.01) + pdg(0.0001)".')] = None,
    parts: Annotated[bool | None, typer.Option("--parts", help="The sum, without each of its parts, and none.")] = None,
    layers: Annotated[str | None, typer.Option(help='each, from-top, or choices: "0; 1; 0-2".')] = None,
    heads: Annotated[str | None, typer.Option(help='each, or choices: "0; 0-5".')] = None,
    train_size: Annotated[str | None, typer.Option(help="Percents of the training rows: 20,40,60,80,100.")] = None,
    vary: Annotated[
        list[str] | None,
        typer.Option(help='Values of any field: "method.blur.sigma={0.01,0.1,0.5}"; may be there again.'),
    ] = None,
    seeds: Annotated[int | None, typer.Option(min=1, help="Seeds 1, 2, … for each variant. [3]")] = None,
    small: shared.Small = False,
    model: Annotated[str | None, typer.Option(help="minilm, a folder, or a name on the hub. [minilm]")] = None,
    task: Annotated[str | None, typer.Option(help="Such as rte; without it, --train-file.")] = None,
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
    heartbeat: shared.Heartbeat = 20,
    json: shared.Json = False,
) -> None:
    """Take a method apart: by parts, layers, heads, training-set size, or any parameter."""
    given = shared.given(locals())
    from attentune.studies import ablate as ablate_method
    from attentune.studies import read_study
    from attentune.training import Recipe

    quiet_libraries()
    asked = read_study(file, "ablate", small=small)
    recipe = Recipe.build(shared.shared_recipe(asked.recipe, given, set_, trust_remote_code))
    question = asked.ablate.model_dump() if asked.ablate else {}
    flags = {"parts": parts, "layers": layers, "heads": heads, "train_size": train_size, "vary": vary}
    wanted = {name: flag if flag is not None else question.get(name) for name, flag in flags.items()}
    ablations = _ablations(recipe, wanted)
    folder = output or Path("runs") / (file.stem + ("-small" if small else "") if file else "ablate")
    opened, name = shared.opened(folder, storage, study, heartbeat)
    count = seeds or question.get("seeds") or SEEDS
    try:
        found, failed = ablate_method(ablations, range(1, count + 1), opened, folder, name=name, console=notes)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"what is done is kept in {folder}; the same command goes on from there") from None
    values = _write(found, failed, folder, asked.about)
    if json:
        print_json(values)
    else:
        _show(found, folder)
    if failed:
        label_of, problem = next(iter(failed.items()))
        raise UserError(f"{len(failed)} runs failed: {label_of}: {problem}; the same command tries them again")


def _ablations(recipe: Any, wanted: dict[str, Any]) -> list[Any]:
    """All that are asked for."""
    from attentune.studies import Dimension, choices_of, layers_and_heads
    from attentune.studies import ablations as of
    from attentune.training import Recipe

    if recipe.method == "none":
        raise UserError('there is no method to take apart: give --method, such as "mdg(0.01) + pdg(0.0001)"')
    made: list[Any] = []
    if wanted["parts"]:
        made.append(of.parts(recipe))
    if wanted["layers"] or wanted["heads"]:
        for which, count in zip(("layers", "heads"), layers_and_heads(recipe), strict=True):
            if wanted[which]:
                made.append(of.places(recipe, which, choices_of(wanted[which], count)))
    if wanted["train_size"]:
        try:
            percents = [float(part) for part in wanted["train_size"].split(",")]
        except ValueError:
            raise UserError(f"--train-size takes percents, as 20,40,60,80,100, not {wanted['train_size']!r}") from None
        whole = Recipe.build(recipe.model_dump(mode="json"))
        made += of.train_size(recipe, percents, len(whole.data.load(whole.training.seed).splits["train"]))
    made += [of.sensitivity(recipe, Dimension.parse(one)) for one in wanted["vary"] or []]
    if not made:
        raise UserError("say what to vary: --parts, --layers each, --heads each, --train-size 20,60,100 or --vary")
    return made


def _write(found: list[Any], failed: dict[str, str], folder: Path, about: str) -> dict[str, Any]:
    from attentune.studies import draw_ablations, tables, write_json
    from attentune.training import versions, written_whole

    command = shared.command_line()
    shown = [tables.table_of(one.group) for one in found]
    sentences = [one.group.sentence(variant) for one in found for variant in one.group.verdicts]
    with written_whole(folder / "table.md") as file:
        file.write(tables.page(about or "Ablation", command, shown, sentences))
    with written_whole(folder / "table.tex") as file:
        file.write("\n\n".join(map(tables.latex, shown)) + "\n")
    with written_whole(folder / "table.csv") as file:
        file.write(tables.comma_separated([one.group for one in found]))
    draw_ablations(found, folder)
    values = tables.without_nan(
        {
            "command": command,
            "about": about,
            "versions": versions(),
            "ablations": [
                {"name": one.ablation.name, "table": tables.as_json(one.group), "runs": one.runs} for one in found
            ],
            "failed": failed,
        }
    )
    write_json(folder / "results.json", values)
    return dict(values)


def _show(found: list[Any], folder: Path) -> None:
    from attentune.studies import tables

    for one in found:
        whole = tables.in_width(tables.table_of(one.group), results.width)
        printed = table(*whole.columns, title=f"{one.ablation.along}: {whole.title}")
        for row in whole.rows:
            printed.add_row(*row)
        results.print(printed)
        results.print()
    for one in found:
        for variant in one.group.verdicts:
            results.print(one.group.sentence(variant), markup=False, highlight=False)
    results.print(f"\ntables, plots, raw results: {folder}", markup=False, highlight=False)
