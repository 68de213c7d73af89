"""`attentune submit`: finished runs to the files that GLUE's server takes."""

from pathlib import Path
from typing import Annotated

import typer

from attentune.cli.output import first_free, note, print_json, quiet_libraries, results, table
from attentune.errors import UserError


def submit(
    run: Annotated[list[Path], typer.Option(help="Folder of a run on a GLUE task; give one for each task.")],
    data_dir: Annotated[str | None, typer.Option(help="Folder that holds RTE/, CoLA/, …. [that of each run]")] = None,
    fill_missing: Annotated[
        bool,
        typer.Option("--fill-missing", help="Write the files that no run answers too, with one answer for all rows."),
    ] = False,
    batch_size: Annotated[int, typer.Option(help="Texts at once.", min=1)] = 64,
    trust_remote_code: Annotated[bool, typer.Option(help="Run code that the model brings along.")] = False,
    output: Annotated[Path | None, typer.Option(help="New folder for the files and the zip. [glue-submission]")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print what was written as JSON.")] = False,
) -> None:
    """Answer GLUE's test sets with the models of runs, and zip the answers as the server takes them."""
    from attentune.tasks.glue_server import SCORED, glue_score, task_score
    from attentune.training.submission import answer_sheets, runs_by_task, write_submission

    quiet_libraries()
    if output is not None and output.exists():
        raise UserError(f"{output} is there already; choose another with --output")
    runs = runs_by_task(run)
    answered = answer_sheets(
        runs, data_dir, fill=fill_missing, batch_size=batch_size, trust_remote_code=trust_remote_code, say=note
    )
    folder = output or first_free(Path("glue-submission"))
    archive = write_submission(folder, answered)
    scores = {task: found.metrics()["eval"] for task, found in runs.items()}
    total, lacking = glue_score(scores)
    if json:
        print_json(
            {
                "zip": str(archive),
                "files": [
                    {
                        "file": one.sheet.file,
                        "run": one.run,
                        "rows": one.rows,
                        "written": one.content is not None,
                        "note": one.why,
                    }
                    for one in answered
                ],
                "validation": {task: task_score(task, scores[task]) for task in SCORED if task in scores},
                "glue_score": total,
                "lacking": list(lacking),
            }
        )
        return
    shown = table("file", "rows", "validation score", "run")
    for one in answered:
        of_task = scores.get(one.sheet.task) if one.run else None
        score = "—" if of_task is None else f"{task_score(one.sheet.task, of_task):.1f}"
        shown.add_row(one.sheet.file, f"{one.rows:,}" if one.content else "missing", score, one.run or "—")
    results.print(shown)
    for one in answered:
        if one.why:
            note(f"{one.sheet.file}: {one.why}")
    without = f", without {', '.join(lacking)}" if lacking else ""
    results.print(f"GLUE score on the validation splits: {total:.1f}{without}", markup=False, highlight=False)
    if any(one.content is None for one in answered):
        note("the server takes whole submissions only: add runs on the missing tasks, or fill them with --fill-missing")
    results.print(f"submission: {archive}", markup=False, highlight=False)
