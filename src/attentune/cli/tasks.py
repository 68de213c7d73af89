"""`attentune tasks`: what can stand after --task."""

from typing import Annotated, Any

import typer

from attentune.cli.output import print_json, results, table


def tasks(json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False) -> None:
    """List the tasks: what they ask, how large they are, what decides, and how to get the data."""
    from attentune.tasks import TASKS

    listed: list[dict[str, Any]] = [
        {
            "name": name,
            "asks": task.asks,
            "kind": task.kind,
            "rows": task.rows,
            "metric": task.metric,
            "data": task.data,
        }
        for name, task in TASKS.items()
    ]
    if json:
        print_json(listed)
        return
    shown = table("task", "what it asks")
    shown.columns[1].justify = "left"
    for task in listed:
        shown.add_row(task["name"], task["asks"])
        shown.add_row("", f"{task['metric']}; rows: {task['rows']}", style="dim")
        shown.add_row("", task["data"], style="dim")
    results.print(shown)
    results.print(
        "Your own data: --train-file with TSV, CSV, JSONL, Parquet or the name of a data set on the hub; see docs/tasks.md.",
        markup=False, highlight=False, soft_wrap=False,
    )  # fmt: skip
