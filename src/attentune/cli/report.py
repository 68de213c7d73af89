"""`attentune report`: runs side by side in one page that opens from disk, with every attention map to look into."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attentune.cli.output import first_free, note, print_json, quiet_libraries, results
from attentune.errors import UserError

if TYPE_CHECKING:
    from attentune.cli.comparison import Comparison


def report(
    runs: Annotated[list[Path], typer.Argument(help="Folders of runs; the others are held against the first.")],
    output: Annotated[Path | None, typer.Option("--output", "-o", help="The page; must be new. [report.html]")] = None,
    examples: Annotated[int, typer.Option(help="Examples to look at, at most.", min=1)] = 100,
    measure: Annotated[int, typer.Option(help="Held-out texts that attention is measured on.", min=2)] = 200,
    pipeline: Annotated[
        str, typer.Option(help="spaCy pipeline whose grammar attention is held against; none for no grammar.")
    ] = "en_core_web_sm",
    size: Annotated[float, typer.Option(help="Megabytes that the page may have.", min=0.2)] = 5.0,
    figures: Annotated[
        Path | None, typer.Option(help="Write figures as PNG and SVG too, into this folder; new or empty.")
    ] = None,
    trust_remote_code: Annotated[bool, typer.Option(help="Run code that the model brings along.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print what was measured as JSON.")] = False,
) -> None:
    """Compare runs in one page: results, what became of the attention, and an attention explorer."""
    from attentune.cli.comparison import compare_runs, titles_of
    from attentune.training import RunFolder

    quiet_libraries()
    if output is not None and output.exists():
        raise UserError(f"{output} is there already; choose another with --output")
    page = output or first_free(Path("report.html"))
    if figures is not None:
        RunFolder.check_free(figures)
    command = "attentune " + shlex.join(["report", *map(str, runs), "--output", str(page)])
    compared = compare_runs(
        titles_of(runs),
        shown=examples,
        measured=measure,
        pipeline=pipeline,
        commands=[command],
        largest=round(size * 1e6),
        trust_remote_code=trust_remote_code,
    )
    compared.report.save(page)
    if figures is not None:
        from attentune.cli.figures import write_figures

        for file in write_figures(compared, figures):
            note(f"figure: {file}")
    if json:
        print_json({**summary(compared), "report": str(page)})
        return
    for verdict in compared.report.verdicts:
        results.print(f"{verdict.headline}\n{verdict.grounds}\n", highlight=False, markup=False)
    results.print(f"report: {page}", highlight=False, markup=False)


def summary(compared: "Comparison") -> dict[str, Any]:
    """What a report tells, as plain values."""
    from attentune.analysis.report.payload import plain_estimate

    return {
        "arms": {
            arm.title: {
                "metrics": {name: plain_estimate(estimate) for name, estimate in arm.metrics.items()},
                "measures": {name: plain_estimate(arm.survey.estimate(name)) for name in arm.survey.measures},
            }
            for arm in compared.arms
        },
        "verdicts": [
            {
                "headline": verdict.headline,
                "grounds": verdict.grounds,
                "paired": verdict.paired and vars(verdict.paired),
            }
            for verdict in compared.report.verdicts
        ],
        "examples": len(compared.examples),
        "with_maps": compared.report.with_maps,
    }
