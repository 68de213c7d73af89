"""The variants of a method that `ablate` compares: its parts, its layers, its heads, the number of training rows, its own
parameters. The unguided model is always among them.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, fields

from transformers import AutoConfig

from attentune.errors import UserError
from attentune.methods import Sum, parse
from attentune.studies.space import Dimension, with_fields
from attentune.training import Recipe, locate

NONE = "none"


@dataclass(frozen=True)
class Variant:
    """One side of an ablation: what it is called, where it stands along what is varied, and its recipe."""

    name: str
    place: float | str
    recipe: Recipe


@dataclass(frozen=True)
class Ablation:
    """Variants that are compared with one of them; `curves` says whether they stand along an axis."""

    name: str
    along: str
    variants: tuple[Variant, ...]
    baseline: str
    curves: bool


def parts(recipe: Recipe) -> Ablation:
    """The whole sum, the sum without each part, each part alone where that is another thing, and none: against the whole."""
    whole = parse(recipe.method)
    if len(whole.parts) < 2:
        raise UserError(
            f"the method {recipe.method} has no parts to leave out; give a sum, such as mdg(0.01) + pdg(0.001)"
        )
    variants = [Variant("full", "full", recipe)]
    for i, name in enumerate(whole.names):
        rest = Sum(whole.parts[:i] + whole.parts[i + 1 :])
        variants.append(Variant(f"without {name}", f"− {name}", with_method(recipe, rest)))
    if len(whole.parts) > 2:
        variants += [
            Variant(f"{name} alone", name, with_method(recipe, Sum((part,))))
            for name, part in zip(whole.names, whole.parts, strict=True)
        ]
    return Ablation("parts", "part", (*variants, unguided(recipe)), "full", curves=False)


def places(recipe: Recipe, which: str, choices: Sequence[str]) -> Ablation:
    """The method on each choice of layers, or of heads, alone: `which` is the parameter, `layers` or `heads`."""
    whole = parse(recipe.method)
    able = [part for part in whole.parts if which in {f.name for f in fields(part)}]
    if not able:
        raise UserError(
            f"no part of the method {recipe.method} has {which} to choose; give one that does, such as mdg(0.01)"
        )
    variants = [unguided(recipe), Variant("all", "all", recipe)]
    for choice in choices:
        changed = {
            f"method.{name}.{which}": f"[{choice}]" if which == "heads" and choice.isdigit() else choice
            for name, part in zip(whole.names, whole.parts, strict=True)
            if part in able
        }
        variants.append(Variant(f"{which} {choice}", choice, with_fields(recipe, changed)))
    return Ablation(which, which, tuple(variants), NONE, curves=True)


def train_size(recipe: Recipe, percents: Sequence[float], rows: int) -> list[Ablation]:
    """The method beside the unguided model at each share of the training rows; each share is a comparison of its own."""
    found = []
    for percent in percents:
        if not 0 < percent <= 100:
            raise UserError(f"--train-size takes percents above 0 and up to 100, not {percent:g}")
        count = max(1, round(rows * percent / 100))
        sized = with_fields(recipe, {"data.max_train": count})
        variants = (unguided(sized, percent), Variant(sized.method, percent, sized))
        found.append(
            Ablation(f"train-size-{percent:g}", f"percent of {rows:,} training rows", variants, NONE, curves=True)
        )
    return found


def sensitivity(recipe: Recipe, dimension: Dimension) -> Ablation:
    """The method at each of several values of one field."""
    if dimension.kind != "choice":
        raise UserError(f"--vary takes values, such as {dimension.path}={{0.6,1,2}}, and no range")
    name = dimension.path.removeprefix("method.")
    variants = []
    for value in dimension.choices:
        place = value if isinstance(value, int | float) else str(value)
        variants.append(Variant(f"{name}={value}", place, with_fields(recipe, {dimension.path: value})))
    return Ablation(name.replace(".", "-"), name, (unguided(recipe), *variants), NONE, curves=True)


def unguided(recipe: Recipe, place: float | str = NONE) -> Variant:
    """The same without any method."""
    return Variant(NONE, place, with_method(recipe, Sum()))


def with_method(recipe: Recipe, method: Sum) -> Recipe:
    """The recipe with another method."""
    return Recipe.build(recipe.model_dump(mode="json") | {"method": str(method)})


def choices_of(text: str, count: int) -> list[str]:
    """What `--layers` or `--heads` says, of so many: `each`, `from-top` for ever more from the top, or a list.

    >>> choices_of("each", 3), choices_of("from-top", 3), choices_of("0-1; 2", 3)
    (['0', '1', '2'], ['2', '1-2', '0-2'], ['0-1', '2'])
    """
    if text == "each":
        return [str(i) for i in range(count)]
    if text == "from-top":
        return [str(count - 1), *(f"{i}-{count - 1}" for i in reversed(range(count - 1)))]
    return [choice for part in re.split(r"[;\s]+", text) if (choice := part.strip().strip(","))]


def layers_and_heads(recipe: Recipe) -> tuple[int, int]:
    """How many layers a recipe's model has, and how many heads each of them."""
    source = locate(recipe.model, recipe.revision)
    try:
        config = AutoConfig.from_pretrained(source.path, trust_remote_code=recipe.trust_remote_code, **source.options)
    except (OSError, ValueError) as error:
        first = next(iter(str(error).splitlines()), "no reason given")
        raise UserError(f"the model {recipe.model!r} can't be found: {first}; give another with --model") from None
    text = config.get_text_config()
    return int(text.num_hidden_layers), int(text.num_attention_heads)
