"""The card of a trained model, README.md in its checkpoint: method, data, what came out, and how to do it again.

Folders of the machine that it was trained on are cut to their names.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from huggingface_hub import EvalResult, ModelCardData

from attentune.training.recipe import Recipe

NAME = "README.md"
PLACES = ("data_dir", "train_file", "eval_file")


def model_card(recipe: Recipe, metrics: Mapping[str, Any], versions: Mapping[str, str], source: str) -> str:
    """The card as Markdown, with the fields that the hub reads on top."""
    public = without_places(recipe)
    task, base = str(metrics["task"]), str(public["model"])
    rows = "\n".join(f"| {name} | {value:.4f} |" for name, value in metrics["eval"].items() if _is_number(value))
    results = [
        EvalResult(
            task_type="text-classification",
            dataset_type=task,
            dataset_name=task,
            dataset_split="validation",
            metric_type=name,
            metric_value=round(float(value), 6),
        )
        for name, value in metrics["eval"].items()
        if _is_number(value) and name != "loss"
    ]
    is_on_hub = "/" in base
    data = ModelCardData(
        library_name="transformers",
        pipeline_tag="text-classification",
        base_model=base if is_on_hub else None,
        tags=["attentune", "attention-guiding"] if recipe.method != "none" else ["attentune"],
        model_name=f"{Path(base).name}-{task}",
        eval_results=results,
    )
    train = metrics["train"]
    return f"""---
{data.to_yaml().strip()}
---

# {Path(base).name}, fine-tuned on {task}

| | |
|---|---|
| base model | {base}{f" (revision {recipe.revision})" if recipe.revision else ""} |
| method | `{recipe.method}` |
| data | {_without_folders(source, recipe)} |
| trained | {train["steps"]:,} steps on {train["examples"]:,} rows, {train["precision"]}, seed {recipe.training.seed} |

On the validation split ({metrics["deciding"]} decides):

| metric | |
|---|--:|
{rows}

## Use

```python
from transformers import pipeline

classify = pipeline("text-classification", "PATH_OR_NAME_OF_THIS_MODEL")
```
{_needs_attentune(recipe)}
## Do it again

Save this as `recipe.yaml`, put your own folders in where only names stand, and run `attentune train recipe.yaml`:

```yaml
{yaml.safe_dump(public, sort_keys=False, allow_unicode=True).strip()}
```

With {", ".join(f"{name} {number}" for name, number in versions.items())}.
"""


def without_places(recipe: Recipe) -> dict[str, Any]:
    """A recipe's fields as others may read them: the data's and the model's folders by name only."""
    values = recipe.model_dump(mode="json", exclude_none=True)
    for name in PLACES:
        if name in values["data"]:
            values["data"][name] = Path(values["data"][name]).name
    if Path(recipe.model).is_absolute() or Path(recipe.model).is_dir():
        values["model"] = Path(recipe.model).name
    return values


def _without_folders(source: str, recipe: Recipe) -> str:
    for place in sorted({getattr(recipe.data, name) or "" for name in PLACES}, key=len, reverse=True):
        if place:
            source = source.replace(place, Path(place).name)
    return source


def _needs_attentune(recipe: Recipe) -> str:
    from attentune.methods import parse

    if not parse(recipe.method).lasting.parts:
        return ""
    return (
        f"\nThe method `{parse(recipe.method).lasting}` changes the forward pass: load the model with `attentune.load`; plain "
        "transformers would run it without.\n"
    )


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
