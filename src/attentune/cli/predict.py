"""`attentune predict`: texts in, one JSON line with label and probabilities out for each."""

import sys
from collections import deque
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer

from attentune.cli.output import note, quiet_libraries
from attentune.errors import UserError


def predict(
    run: Annotated[Path, typer.Option(help="Folder of the run whose model is asked.")],
    file: Annotated[
        str, typer.Argument(help="TSV, CSV, JSONL or plain text; - is standard input, a text a line.")
    ] = "-",
    text: Annotated[str | None, typer.Option(help="Column of the text. [as in training]")] = None,
    text_pair: Annotated[str | None, typer.Option(help="Column of the second text. [as in training]")] = None,
    batch_size: Annotated[int, typer.Option(help="Texts at once.", min=1)] = 32,
    precision: Annotated[str | None, typer.Option(help="auto, bf16 or fp32. [that of training]")] = None,
    trust_remote_code: Annotated[bool, typer.Option(help="Run code that the model brings along.")] = False,
    output: Annotated[Path | None, typer.Option(help="Write here instead of to standard output; must be new.")] = None,
) -> None:
    """Classify, rate or score texts with the model of a run: a line of JSON for each, however many there are."""
    from attentune import tasks
    from attentune.training import Predictor, RunFolder, json_line, written_whole

    quiet_libraries()
    folder = RunFolder.open(run)
    data, inputs = folder.recipe().data, folder.metrics()["inputs"]
    takes_pairs = inputs["text_pair"] is not None
    if file != "-":
        usual = (inputs["text"], inputs["text_pair"]) if data.task else (data.text, data.text_pair)
        rows = tasks.read_texts(file, text, text_pair, usual=usual)
    elif text or text_pair:
        raise UserError("--text and --text-pair name columns of a file, and standard input has none; leave them out")
    else:
        rows = tasks.read_lines(sys.stdin.buffer, pairs=takes_pairs)
    if precision not in (None, "auto", "bf16", "fp32"):
        raise UserError(f"--precision is {precision!r}; give auto, bf16 or fp32")
    if output is not None and output.exists():
        raise UserError(f"{output} is there already; choose another with --output")
    read: deque[dict[str, Any]] = deque()  # the rows of the window under way

    def texts() -> Iterator[tuple[str, str | None]]:
        for row in rows:
            if takes_pairs and "text_pair" not in row:
                raise UserError(f"the model of {run} takes pairs of texts, but {file} gives single ones; name the column "
                                "of the second with --text-pair")  # fmt: skip
            if "text_pair" in row and not takes_pairs:
                raise UserError(
                    f"the model of {run} takes single texts, but {file} gives pairs; name the column with --text"
                )
            read.append(row)
            yield row["text"], row.get("text_pair")

    with nullcontext(sys.stdout) if output is None else written_whole(output) as stream:
        predictor = Predictor.from_run(run, precision, trust_remote_code=trust_remote_code)
        for prediction in predictor.stream(texts(), batch_size):
            row = read.popleft()
            stream.write(json_line({**row, **prediction.fields()}))
    if predictor.cut:
        are = "text is" if predictor.cut == 1 else "texts are"
        was = "was" if predictor.cut == 1 else "were"
        note(f"{predictor.cut:,} {are} longer than {predictor.max_length:,} tokens, and {was} cut")
