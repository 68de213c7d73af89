"""`attentune demo`: the same model fine-tuned with and without guiding, and what became of its attention.

Both runs have the same seed, data, order of the data and number of steps; dropout draws differ, since a guided step
draws its own.
"""

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
    from attentune.analysis import Paired
    from attentune.cli.comparison import Comparison

METHOD = "mdg(0.05) + pdg(0.0001, tokens=content)"
SETTINGS = ["--task", "rotten-tomatoes", "--max-train", "1500", "--epochs", "2", "--lr", "1e-4"]
MEASURED_SENTENCES = 100
SHOWN_SENTENCES = 60
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
    heads: dict[str, float]
    metrics: dict[str, Any] | None  # none for the model before training

    def cells(self) -> list[str]:
        trained = ["—", "—", "—"]
        if self.metrics is not None:
            train = self.metrics["train"]
            accuracy = f"{100 * self.metrics['eval']['accuracy']:.1f} %"
            trained = [accuracy, f"{train['seconds']:.0f} s", f"{train['peak_memory_mb']:,} MB"]
        heads = [
            f"{self.heads['diversity']:.3f}",
            f"{self.heads['effective_rank']:.1f}",
            f"{100 * self.heads['special_share']:.0f} %",
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
    from attentune.cli.comparison import compare_runs
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
    compared = compare_runs(
        {name: folder / name for name in commands}, shown=SHOWN_SENTENCES, measured=MEASURED_SENTENCES,
        commands=[_shown(command) for command in commands.values()],
    )  # fmt: skip
    arms = _arms(folder, compared)
    paired = compared.report.verdicts[0].paired
    assert paired is not None
    verdict = _verdict(arms[1], arms[2], paired)
    picture = _draw(folder, compared)
    page = compared.report.save(folder / "report.html")
    if json:
        print_json(
            {
                "arms": {arm.name: {"heads": arm.heads, "metrics": arm.metrics} for arm in arms},
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


def _arms(folder: Path, compared: "Comparison") -> list[_Arm]:
    """The heads of the model before training, after it, and after it guided."""
    from attentune.training import RunFolder

    arms = []
    for arm in compared.arms:
        diversity, rank, cls, sep = (
            arm.survey.estimate(name).value for name in ("diversity", "effective_rank", "cls", "sep")
        )
        metrics = RunFolder.open(folder / arm.title).metrics() if arm.is_trained else None
        heads = {"diversity": diversity, "effective_rank": rank, "special_share": cls + sep}
        arms.append(_Arm(arm.title if arm.is_trained else "before", heads, metrics))
    return arms


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
    change = guided.heads["diversity"] / unguided.heads["diversity"]
    heads = f"The heads are {change:.2f} × as diverse as without guiding" if change >= 1 else (
        f"The heads did not become more diverse ({change:.2f} × the unguided model's)"
    )  # fmt: skip
    return f"{accuracy} ({test}). {heads}. One seed each: attentune train with other seeds tells more."


def _draw(folder: Path, compared: "Comparison") -> Path:
    """What each token of one held-out sentence receives from each head, in all arms."""
    from attentune.analysis import draw_received, received_by_head

    fits = (example.text for example in compared.examples if 12 <= len(example.text.split()) <= 16)
    sentence = next(fits, compared.examples[0].text)
    titles = {"unguided": "fine-tuned", "guided": "fine-tuned, guided"}
    received = {
        titles.get(name, "before fine-tuning"): received_by_head(loaded.model, loaded.tokenizer, [sentence])[0]
        for name, loaded in compared.models.items()
    }
    return draw_received(received).save(folder / "received.png")[0]
