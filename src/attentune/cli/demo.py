"""`attentune demo`: the same model fine-tuned with and without guiding, and what became of its attention.

Both runs have the same seed, data, order of the data and number of steps; dropout draws differ, since a guided step
draws its own.
"""

import json as json_module
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attentune.cli.output import first_free, note, print_json, quiet_libraries, results, table
from attentune.errors import UserError

if TYPE_CHECKING:
    from attentune.analysis import HeadDiversity, Paired, Received

METHOD = "mdg(0.05) + pdg(0.0001, tokens=content)"
SETTINGS = ["--task", "rotten-tomatoes", "--max-train", "1500", "--epochs", "2", "--lr", "1e-4"]
MEASURED_SENTENCES = 100
COLUMNS = (
    "",
    "accuracy",
    "head diversity",
    "effective rank of heads",
    "attention to [CLS], [SEP]",
    "training",
    "peak memory",
)


@dataclass(frozen=True)
class _Arm:
    """One of the models that are compared."""

    name: str
    title: str
    heads: "HeadDiversity"
    picture: "Received"
    metrics: dict[str, Any] | None  # none for the model before training

    def cells(self) -> list[str]:
        trained = ["—", "—", "—"]
        if self.metrics is not None:
            train = self.metrics["train"]
            accuracy = f"{100 * self.metrics['eval']['accuracy']:.1f} %"
            trained = [accuracy, f"{train['seconds']:.0f} s", f"{train['peak_memory_mb']:,} MB"]
        heads = [
            f"{self.heads.diversity:.3f}",
            f"{self.heads.effective_rank:.1f}",
            f"{100 * self.heads.special_share:.0f} %",
        ]
        return [self.name, trained[0], *heads, *trained[1:]]


def demo(
    method: Annotated[str, typer.Option(help="The method to compare with the unguided model.")] = METHOD,
    seed: Annotated[int, typer.Option(help="Of both runs.")] = 1,
    output: Annotated[
        Path | None, typer.Option(help="Folder for all that is made, new or empty. [attentune-demo]")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
) -> None:
    """Fine-tune MiniLM on film reviews with and without guided attention, and compare."""
    from attentune.methods import parse
    from attentune.tasks.rotten_tomatoes import LABELS
    from attentune.training import RunFolder, load_for_classification, try_method

    quiet_libraries()
    parse(
        method
    )  # a mistake in it is told before anything is loaded, and what doesn't fit the model before it is trained
    folder = RunFolder.check_free(output or first_free(Path("attentune-demo")))
    model, tokenizer = load_for_classification("minilm", LABELS)
    try_method(model, method, tokenizer, "a fine film")
    del model
    commands = {
        name: _command(folder / name, given, seed) for name, given in (("unguided", "none"), ("guided", method))
    }
    for name, command in commands.items():
        note(f"{name}: {_shown(command)}")
        _run(command)
    note(f"measuring the heads on {MEASURED_SENTENCES} held-out sentences")
    arms = _measure(folder, method)
    paired = _compare(folder)
    verdict = _verdict(arms[1], arms[2], paired)

    picture = folder / "received.png"
    _draw(arms, picture)
    page = folder / "report.html"
    _write_page(page, picture, arms, verdict, [_shown(command) for command in commands.values()])
    if json:
        print_json(
            {
                "arms": {arm.name: {"heads": vars(arm.heads), "metrics": arm.metrics} for arm in arms},
                "paired": vars(paired),
                "verdict": verdict,
                "report": str(page),
            }
        )
        return
    shown = table(*COLUMNS)
    for arm in arms:
        shown.add_row(*arm.cells())
    results.print(shown)
    results.print(f"\n{verdict}\n", highlight=False, markup=False)
    results.print(f"picture: {picture}\nreport:  {page}", highlight=False, markup=False)


def _command(folder: Path, method: str, seed: int) -> list[str]:
    return ["train", *SETTINGS, "--seed", str(seed), "--method", method, "--output", str(folder)]


def _shown(command: list[str]) -> str:
    return "attentune " + shlex.join(command)


def _run(command: list[str]) -> None:
    """Train in a process of its own, so that each run's memory is its own; its progress is shown as it comes."""
    finished = subprocess.run(
        [sys.executable, "-m", "attentune", *command, "--json"], stdout=subprocess.PIPE, check=False
    )
    if finished.returncode == 130:
        raise KeyboardInterrupt
    if finished.returncode:
        raise UserError("the demo stops here, for the reason above")


def _measure(folder: Path, method: str) -> list[_Arm]:
    """The heads of the model before training, after it, and after it guided."""
    from attentune import tasks
    from attentune.analysis import head_diversity, received_by_head
    from attentune.training import load_for_classification

    quiet_libraries()
    task = tasks.load("rotten-tomatoes")
    texts = task.splits["validation"][task.text][:MEASURED_SENTENCES]
    sentence = next(text for text in texts if 12 <= len(text.split()) <= 16)
    arms = []
    for name, title, source in (
        ("before", "before fine-tuning", "minilm"),
        ("unguided", "fine-tuned", str(folder / "unguided")),
        ("guided", "fine-tuned, guided", str(folder / "guided")),
    ):
        model, tokenizer = load_for_classification(source, task.labels if source == "minilm" else None)
        metrics = None
        if source != "minilm":
            metrics = json_module.loads((folder / name / "metrics.json").read_text(encoding="utf-8"))
        heads = head_diversity(model, tokenizer, texts)
        arms.append(_Arm(name, title, heads, received_by_head(model, tokenizer, [sentence])[0], metrics))
    return arms


def _compare(folder: Path) -> "Paired":
    from attentune.analysis import compare_answers

    right = []
    for name in ("unguided", "guided"):
        lines = (folder / name / "predictions.jsonl").read_text(encoding="utf-8").splitlines()
        rows = [json_module.loads(line) for line in lines]
        right.append([row["label"] == row["prediction"] for row in rows])
    return compare_answers(*right)


def _verdict(unguided: _Arm, guided: _Arm, paired: "Paired") -> str:
    """What may be said, and no more."""
    points = 100 * paired.difference
    if paired.p_value < 0.05 and points > 0:
        accuracy = f"Guiding helped: {points:+.1f} points of accuracy"
    elif paired.p_value < 0.05:
        accuracy = f"Guiding hurt: {points:+.1f} points of accuracy"
    else:
        accuracy = f"Guiding did not help accuracy here: {points:+.1f} points, no evidence of a difference"
    test = (
        f"of {paired.examples:,} held-out sentences {paired.only_second} are right only with guiding and "
        f"{paired.only_first} only without, McNemar p = {paired.p_value:.2f}"
    )
    change = guided.heads.diversity / unguided.heads.diversity
    heads = f"The heads are {change:.2f} × as diverse as without guiding" if change >= 1 else (
        f"The heads did not become more diverse ({change:.2f} × the unguided model's)"
    )  # fmt: skip
    return f"{accuracy} ({test}). {heads}. One seed each: attentune train with other seeds tells more."


def _draw(arms: list[_Arm], path: Path) -> None:
    from attentune.analysis import draw_received

    draw_received({arm.title: arm.picture for arm in arms}).save(path)


def _write_page(page: Path, picture: Path, arms: list[_Arm], verdict: str, commands: list[str]) -> None:
    from attentune.analysis import Picture, render_page

    caption = (
        "What each token of one held-out sentence receives (columns) from each attention head (rows, six layers from the top), "
        "as a share of the head's attention: yellow is four times an even share and more, dark blue a quarter and less. "
        "Rows that look alike are heads that do the same."
    )
    html = render_page(
        title="The same model, fine-tuned with and without guided attention",
        lead="all-MiniLM-L6-v2 on a sample of Rotten Tomatoes sentences: same seed, data, order and steps; dropout draws differ. "
        "Head diversity is 1 − the mean cosine between what tokens receive from two heads.",
        columns=COLUMNS,
        rows=[arm.cells() for arm in arms],
        verdict=verdict,
        pictures=[Picture(picture, caption)],
        commands=commands,
    )
    page.write_text(html, encoding="utf-8")
