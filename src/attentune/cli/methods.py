"""`attentune methods`: what can stand after --method."""

from dataclasses import fields
from typing import Annotated, Any

import typer

from attentune.cli.output import print_json, results, table


def methods(json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False) -> None:
    """List the methods, their parameters and the papers that they come from."""
    from attentune.methods import METHODS
    from attentune.methods.schedules import SCHEDULES

    listed: list[dict[str, Any]] = []
    for name, kind in METHODS.items():
        example = kind()
        parameters = {f.name: str(getattr(example, f.name)) for f in fields(kind)}
        listed.append({"name": name, "summary": kind.summary, "paper": kind.paper, "parameters": parameters})
    if json:
        print_json(listed)
        return
    shown = table("method", "what it does")
    shown.columns[1].justify = "left"
    for method in listed:
        shown.add_row(method["name"], method["summary"])
        shown.add_row("", method["paper"], style="dim")
        shown.add_row("", ", ".join(f"{key}={value}" for key, value in method["parameters"].items()), style="dim")
    results.print(shown)
    results.print(
        'Methods add up, and a bare number is the weight: --method "mdg(0.01) + pdg(0.0001, tokens=content, layers=3-5)". '
        f"Schedules: {', '.join(str(kind()) for kind in SCHEDULES.values())}. The unguided model is none.",
        markup=False, highlight=False, soft_wrap=False,
    )  # fmt: skip
