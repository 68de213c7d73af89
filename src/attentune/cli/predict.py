"""`attentune predict`: texts in, one JSON line with label and probabilities out for each."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from attentune.cli.output import quiet_libraries


def predict(
    run: Annotated[Path, typer.Option(help="Folder of the run whose model is asked.")],
    file: Annotated[
        str, typer.Argument(help="TSV, CSV, JSONL or plain text; - is standard input, a text a line.")
    ] = "-",
    text: Annotated[str | None, typer.Option(help="Column of the text.")] = None,
    text_pair: Annotated[str | None, typer.Option(help="Column of the second text of a pair.")] = None,
    batch_size: Annotated[int, typer.Option(help="Texts at once.", min=1)] = 32,
    output: Annotated[Path | None, typer.Option(help="Write here instead of to standard output; must be new.")] = None,
) -> None:
    """Classify texts with the model of a run."""
    from attentune import tasks
    from attentune.errors import UserError
    from attentune.training import Predictor, RunFolder

    quiet_libraries()
    takes_pairs = RunFolder.open(run).metrics()["inputs"]["text_pair"] is not None
    rows = _from_standard_input(takes_pairs) if file == "-" else tasks.read_texts(file, text, text_pair)
    if output is not None and output.exists():
        raise UserError(f"{output} is there already; choose another with --output")
    predictor = Predictor.from_run(run)
    read: list[dict[str, Any]] = []  # the rows of the batch under way

    def texts() -> Iterator[tuple[str, str | None]]:
        for row in rows:
            if takes_pairs != ("text_pair" in row):
                needs = "pairs of texts (--text-pair)" if takes_pairs else "single texts"
                raise UserError(f"the model of {run} takes {needs}, but row {row['id']} of {file} is not one")
            read.append(row)
            yield row["text"], row.get("text_pair")

    stream = sys.stdout if output is None else output.open("x", encoding="utf-8")
    try:
        for prediction in predictor.stream(texts(), batch_size):
            row = read.pop(0)
            answer = {"id": row["id"], "text": row["text"]}
            if takes_pairs:
                answer["text_pair"] = row["text_pair"]
            answer |= {"label": prediction.label, "probabilities": prediction.probabilities}
            print(json.dumps(answer, ensure_ascii=False), file=stream)
        stream.flush()
    finally:
        if output is not None:
            stream.close()


def _from_standard_input(takes_pairs: bool) -> Iterator[dict[str, Any]]:
    """One text a line; a pair is two texts with a tab between."""
    from attentune.errors import UserError

    for number, line in enumerate(sys.stdin):
        line = line.rstrip("\n")
        if not line.strip():
            raise UserError(f"line {number + 1} of standard input is empty; give one text a line")
        parts = line.split("\t") if takes_pairs else [line]
        if takes_pairs and len(parts) != 2:
            raise UserError(f"line {number + 1} of standard input must be two texts with a tab between them")
        yield dict(zip(("text", "text_pair"), parts, strict=False)) | {"id": str(number)}
