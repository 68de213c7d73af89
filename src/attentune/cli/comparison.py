"""From the folders of runs to the arms of a report: what each run left behind, its model, and what the model attends to."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from attentune.analysis import (
    Answer,
    Arm,
    Estimate,
    Example,
    Maps,
    Report,
    attention_maps,
    installed_dependency,
    make_report,
    survey,
)
from attentune.analysis.estimates import metrics_of
from attentune.analysis.report.page import LARGEST
from attentune.analysis.texts import TextOrPair
from attentune.cli.output import note
from attentune.errors import UserError
from attentune.methods.priors import Dependency
from attentune.training import RunFolder, load_for_classification
from attentune.training.lengths import longest_length
from attentune.training.loading import load_run
from attentune.training.trust import require_trust

if TYPE_CHECKING:
    from attentune.tasks import Task
    from attentune.training import Recipe

MEASURED, SHOWN = 200, 100
BEFORE = "before training"
NO_GRAMMAR = "none"


@dataclass(frozen=True)
class Loaded:
    """The model of an arm, with the methods that change its forward pass attached."""

    model: Any
    tokenizer: Any
    max_length: int
    guided: Any = None


@dataclass(frozen=True)
class Comparison:
    """A report, and what went into it."""

    report: Report
    arms: tuple[Arm, ...]
    examples: tuple[Example, ...]
    models: Mapping[str, Loaded]
    """By the title of the arm."""


def compare_runs(
    runs: Mapping[str, Path],
    *,
    shown: int = SHOWN,
    measured: int = MEASURED,
    pipeline: str = "en_core_web_sm",
    commands: Sequence[str] = (),
    largest: int = LARGEST,
    trust_remote_code: bool = False,
) -> Comparison:
    """The report of finished runs by title; they must be runs of one task."""
    folders = {title: RunFolder.open(path) for title, path in runs.items()}
    recipes = {title: folder.recipe() for title, folder in folders.items()}
    _check_one_task(recipes)
    for title, recipe in recipes.items():
        require_trust(recipe, trust_remote_code, f"the run in {runs[title]}")
    first = next(iter(recipes.values()))
    task = first.data.load(first.training.seed)
    rows = {title: _lines(folder.path / "predictions.jsonl") for title, folder in folders.items()}
    logs = {title: _lines(folder.path / "log.jsonl") for title, folder in folders.items()}
    examples = _common_examples(task, rows)
    texts = [example.input for example in examples[:: max(1, len(examples) // measured)][:measured]]
    grammar = None if pipeline == NO_GRAMMAR else _grammar(pipeline)

    models = dict(_models_before(recipes, task))
    before = list(models)
    models |= {title: _load(folder, recipes[title], trust_remote_code) for title, folder in folders.items()}
    arms = []
    for title, loaded in models.items():
        note(f"measuring the attention of {title} on {len(texts):,} held-out texts")
        found = survey(loaded.model, loaded.tokenizer, texts, max_length=loaded.max_length, dependency=grammar)
        if title in before:
            arms.append(Arm(title, found, _maps(loaded) if len(runs) == 1 else None))
            continue
        folder = folders[title]
        arms.append(
            Arm(
                title, found, _maps(loaded), _facts(folder), _metrics(task, folder, rows[title]),
                _answers(rows[title], examples), logs[title],
            )
        )  # fmt: skip
    note(f"reading the attention maps of up to {min(shown, len(examples)):,} examples")
    report = make_report(
        arms, examples, title=_title(list(runs)), lead=_lead(task, examples, texts, models, folders), labels=task.labels,
        shown=shown, commands=commands, largest=largest,
    )  # fmt: skip
    return Comparison(report, tuple(arms), tuple(examples), models)


def titles_of(runs: Sequence[Path]) -> dict[str, Path]:
    """The runs by the last parts of their paths, as many as it takes to tell them apart."""
    whole = [run.absolute() for run in runs]
    if len(set(whole)) < len(whole):
        raise UserError("the same run is given twice; give different ones")
    for parts in range(1, max(len(path.parts) for path in whole)):
        titles = ["/".join(path.parts[-parts:]) for path in whole]
        if len(set(titles)) == len(titles):
            break
    return dict(zip(titles, runs, strict=True))


def _check_one_task(recipes: Mapping[str, "Recipe"]) -> None:
    (first, recipe), *others = recipes.items()
    sources = ("task", "data_dir", "train_file", "eval_file", "text", "text_pair", "label")
    for title, other in others:
        for source in sources:
            one, two = getattr(recipe.data, source), getattr(other.data, source)
            if one != two:
                raise UserError(
                    f"{first} and {title} were trained on different data ({source} {one} and {two}), so that their answers "
                    "can't be compared; give runs of one task"
                )


def _lines(path: Path) -> list[dict[str, Any]]:
    """The lines of one of a run's files."""
    try:
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    except (OSError, ValueError) as error:
        raise UserError(f"{path} can't be read ({error}); restore it, or train again") from None


def _common_examples(task: "Task", rows: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[Example]:
    """The examples that every run has answered, in the order of the data."""
    answered = [{row["id"] for row in some} for some in rows.values()]
    split = task.splits["validation"]
    pairs = split[task.text_pair] if task.text_pair else [None] * len(split)
    found = [
        _example(task, identity, text, pair, label)
        for identity, text, pair, label in zip(split["id"], split[task.text], pairs, split[task.label], strict=True)
        if label is not None and (task.kind == "regression" or label >= 0) and all(identity in ids for ids in answered)
    ]
    if not found:
        raise UserError(
            f"no held-out example of {task.name} was answered by all of {', '.join(rows)}; give runs of one task"
        )
    return found


def _example(task: "Task", identity: str, text: str, pair: str | None, label: float) -> Example:
    if task.kind == "regression":
        return Example(identity, text, pair, f"{label:g}", float(label))
    return Example(identity, text, pair, task.labels[int(label)])


def _grammar(pipeline: str) -> Dependency | None:
    found = installed_dependency(pipeline)
    if found is None:
        note(f"grammar: spaCy's {pipeline} is not installed, so that attention is not held against it")
    return found


def _models_before(recipes: Mapping[str, "Recipe"], task: "Task") -> Iterator[tuple[str, Loaded]]:
    """The models that the runs began with, each once; one that is no longer to be had is left out."""
    begun = dict.fromkeys((recipe.model, recipe.revision, recipe.trust_remote_code) for recipe in recipes.values())
    for name, revision, trusted in begun:
        title = BEFORE if len(begun) == 1 else f"{name} {BEFORE}"
        length = next(recipe.training.max_length for recipe in recipes.values() if recipe.model == name)
        try:
            model, tokenizer = load_for_classification(name, task.labels, revision=revision, trust_remote_code=trusted)
        except UserError as error:
            note(f"without the model {BEFORE}: {error}")
            continue
        yield title, Loaded(_placed(model), tokenizer, longest_length(model, tokenizer, length))


def _load(folder: RunFolder, recipe: "Recipe", trust_remote_code: bool) -> Loaded:
    guided = load_run(folder, trust_remote_code=trust_remote_code)
    _placed(guided.model)
    length = longest_length(guided.model, guided.tokenizer, recipe.training.max_length)
    return Loaded(guided.model, guided.tokenizer, length, guided)


def _placed(model: Any) -> Any:
    return model.to("cuda") if torch.cuda.is_available() else model


def _maps(loaded: Loaded) -> Callable[[TextOrPair], Maps]:
    return lambda text: next(attention_maps(loaded.model, loaded.tokenizer, [text], loaded.max_length))


def _facts(folder: RunFolder) -> dict[str, str]:
    metrics = folder.metrics()
    train = metrics["train"]
    return {
        "method": metrics["method"],
        "seed": str(metrics["seed"]),
        "trained on": f"{train['examples']:,} examples, {train['steps']:,} steps",
        "training time": f"{train['seconds']:,.0f} s",
        "peak memory": f"{train['peak_memory_mb']:,} MB",
    }


def _metrics(task: "Task", folder: RunFolder, rows: Sequence[Mapping[str, Any]]) -> dict[str, Estimate]:
    """The task's metrics with intervals, of the predictions; of rankings, which are no mean over pairs, as the run has them."""
    if task.kind == "regression":
        return metrics_of(task.score, [row["prediction"] for row in rows], [row["label"] for row in rows])
    if task.kind == "classification":
        number = {label: i for i, label in enumerate(task.labels)}
        return metrics_of(
            task.score, [number[row["prediction"]] for row in rows], [number[row["label"]] for row in rows]
        )
    return {name: Estimate(float(value), None, None, len(rows)) for name, value in folder.metrics()["eval"].items()}


def _answers(rows: Sequence[Mapping[str, Any]], examples: Sequence[Example]) -> dict[str, Answer]:
    wanted = {example.id for example in examples}
    return {
        row["id"]: Answer(row["prediction"], row["probabilities"])
        if "probabilities" in row
        else Answer(f"{row['prediction']:.2f}", {}, float(row["prediction"]))
        for row in rows
        if row["id"] in wanted
    }


def _title(titles: Sequence[str]) -> str:
    return titles[0] if len(titles) == 1 else f"{', '.join(titles[:-1])} and {titles[-1]}"


def _lead(
    task: "Task",
    examples: Sequence[Example],
    texts: Sequence[TextOrPair],
    models: Mapping[str, Loaded],
    folders: Mapping[str, RunFolder],
) -> str:
    names = list(dict.fromkeys(str(folder.recipe().model) for folder in folders.values()))
    model = models[next(iter(folders))].model
    config = model.config.get_text_config()
    size = f"{config.num_hidden_layers} layers of {config.num_attention_heads} heads"
    return (
        f"{', '.join(Path(name).name if Path(name).is_dir() else name for name in names)} ({size}) on {task.name}: results on "
        f"{len(examples):,} held-out examples, attention measured on {len(texts):,} of them."
    )
