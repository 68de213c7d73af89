"""The card of a pre-trained model, README.md in its checkpoint: what it is, what came out, and how to do it again.

Folders of the machine that it was trained on are cut to their names.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from huggingface_hub import ModelCardData

from attentune.training.card import PLACES
from attentune.training.pretraining.recipe import PretrainingRecipe


def pretraining_card(recipe: PretrainingRecipe, metrics: Mapping[str, Any], versions: Mapping[str, str]) -> str:
    """The card as Markdown, with the fields that the hub reads on top."""
    public = recipe.model_dump(mode="json", exclude_none=True)
    for name in PLACES:
        if name in public["data"] and Path(public["data"][name]).exists():
            public["data"][name] = Path(public["data"][name]).name
    base = None if recipe.model is None else recipe.model
    if base is not None and Path(base).is_dir():
        public["model"] = base = Path(base).name
    tags = ["attentune", "attention-guiding"] if recipe.method != "none" else ["attentune"]
    data = ModelCardData(
        library_name="transformers",
        pipeline_tag="fill-mask",
        tags=tags,
        base_model=base if base and "/" in base else None,
    )
    train, held_out = metrics["train"], metrics["eval"]
    made_of = base or "a new {architecture}: {layers} layers, {width} wide, {heads} heads".format(**public["new"])
    return f"""---
{data.to_yaml().strip()}
---

# {recipe.data.name}, a masked language model

| | |
|---|---|
| from | {made_of} |
| method | `{recipe.method}` |
| trained | {train["steps"]:,} steps, {train["tokens"]:,} tokens, {train["precision"]}, seed {recipe.training.seed} |
| held out | loss {held_out["loss"]:.4f}, perplexity {held_out["perplexity"]:.2f} |

## Use

```python
from transformers import pipeline

fill = pipeline("fill-mask", "PATH_OR_NAME_OF_THIS_MODEL")
```

## Do it again

Save this as `recipe.yaml`, put your own folders in where only names stand, and run `attentune pretrain recipe.yaml`:

```yaml
{yaml.safe_dump(public, sort_keys=False, allow_unicode=True).strip()}
```

With {", ".join(f"{name} {number}" for name, number in versions.items())}.
"""
