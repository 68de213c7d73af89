"""`attentune explain`: one text, what the model of a run says of it, and where its attention goes."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from attentune.cli.output import print_json, quiet_libraries, results, table
from attentune.errors import UserError

if TYPE_CHECKING:
    from attentune.analysis import Explanation

BAR = 24
SHOWN = 10


def explain(
    run: Annotated[Path, typer.Option(help="Folder of the run whose model is asked.")],
    text: Annotated[str, typer.Argument(help="The text.")],
    pair: Annotated[str | None, typer.Argument(help="The second text, where the model takes pairs.")] = None,
    layers: Annotated[str, typer.Option(help="Layers whose attention is told, such as 3-5 or -1.")] = "all",
    heads: Annotated[str, typer.Option(help="Heads whose attention is told, such as 0 or [0,3].")] = "all",
    html: Annotated[Path | None, typer.Option(help="Write a page instead; must be new.")] = None,
    trust_remote_code: Annotated[bool, typer.Option(help="Run code that the model brings along.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
) -> None:
    """Tell a prediction, and which tokens receive attention and matter to self-supervised attention."""
    from attentune import analysis
    from attentune.training import RunFolder
    from attentune.training.lengths import longest_length
    from attentune.training.loading import load_run

    quiet_libraries()
    if html is not None and html.exists():
        raise UserError(f"{html} is there already; choose another with --html")
    if not text.strip():
        raise UserError('the text is empty; give one, such as "a fine film"')
    folder = RunFolder.open(run)
    recipe = folder.recipe()
    takes_pairs = folder.metrics()["inputs"]["text_pair"] is not None
    if takes_pairs and pair is None:
        raise UserError(f"the model of {run} takes pairs of texts; give the second after the first")
    if pair is not None and not takes_pairs:
        raise UserError(
            f"the model of {run} takes single texts, and two are given; put one text into one pair of quotes"
        )
    guided = load_run(folder, trust_remote_code=trust_remote_code)
    length = longest_length(guided.model, guided.tokenizer, recipe.training.max_length)
    found = analysis.explain(
        guided.model, guided.tokenizer, (text, pair), max_length=length, layers=layers, heads=heads, guided=guided
    )
    if json:
        print_json(found.as_json())
    if html is not None:
        found.save(html)
        if not json:
            results.print(f"page: {html}", markup=False, highlight=False)
    elif not json:
        _show(found)


def _show(found: "Explanation") -> None:
    """In the terminal: the labels, the shaded text, and the tokens that stand out."""
    from rich.text import Text

    from attentune.analysis.explanation import is_dark, rgb_of

    if not found.probabilities:
        results.print(Text(found.label, style="bold"))
    labels = table("label", "probability", "")
    labels.columns[2].justify = "left"
    for label, p in sorted(found.probabilities.items(), key=lambda item: -item[1]):
        labels.add_row(Text(label, style="bold" if label == found.label else ""), f"{p:.1%}", "█" * round(BAR * p))
    if found.probabilities:
        results.print(labels)
    for title, tokens in found.rows():
        line = Text()
        for i, (token, _, shade) in enumerate(tokens):
            rgb = rgb_of(shade)
            if i and not token.is_joined:
                line.append(" ")
            line.append(token.text, style=f"{'white' if is_dark(rgb) else 'black'} on rgb({rgb[0]},{rgb[1]},{rgb[2]})")
        results.print(Text(f"\n{title}", style="bold"))
        results.print(line)
    received = dict(enumerate(found.received.tolist()))
    even = 1 / len(received)
    scores = ["received attention"] + (["SSA importance"] if found.importance is not None else [])
    shown = table("token", *scores)
    order = [i for i in sorted(received, key=lambda i: -received[i]) if not found.tokens[i].is_special][:SHOWN]
    for i in order:
        cells = [f"{received[i]:.1%} ({received[i] / even:.1f} × even)"]
        if found.importance is not None:
            cells.append(f"{found.importance[i]:.3f}")
        shown.add_row(Text(found.tokens[i].text), *cells)
    results.print()
    results.print(shown)
    special = sum(value for i, value in received.items() if found.tokens[i].is_special)
    results.print(
        f"\nmean of {found.heads}; {special:.0%} goes to special tokens. Attention says where the model looks, "
        "not what its answer rests on.",
        style="dim", highlight=False,
    )  # fmt: skip
