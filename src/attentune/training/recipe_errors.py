"""What pydantic finds wrong with a recipe, in our own words: which flag and field, what was given, what to give.

What a field takes is read from the field itself, by its JSON schema, so that no sentence can fall behind the recipe.
"""

import math
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from attentune.errors import UserError

FLAGS = (
    *("model", "revision", "trust_remote_code", "task", "data_dir", "train_file", "eval_file", "text", "text_pair", "label"),
    *("method", "seed", "epochs", "max_steps", "lr", "batch_size", "max_length", "max_train", "max_eval", "save_steps"),
    *("precision", "lora", "architecture", "layers", "width", "heads", "vocab_size", "whole_word"),
)  # fmt: skip
"""The fields that have a flag of their name; the others are reached with --set."""
KINDS = {"integer": "a whole number", "number": "a number", "string": "a text", "boolean": "true or false"}
BOUNDS = {
    "minimum": "at least {}",
    "exclusiveMinimum": "above {}",
    "maximum": "at most {}",
    "exclusiveMaximum": "below {}",
}


def told(error: ValidationError, recipe: type[BaseModel]) -> UserError:
    """The first thing that is wrong, as the user's error."""
    first = error.errors()[0]
    cause = first.get("ctx", {}).get("error")
    if isinstance(cause, UserError):
        return cause
    if cause is not None:  # a validator of ours, whose sentence is whole
        return UserError(str(cause))
    parents, name, part = _place(recipe, [str(step) for step in first["loc"]])
    where = ".".join([*parents, name])
    fields = ", ".join(part.model_fields)
    if first["type"] == "extra_forbidden":
        close = get_close_matches(name, part.model_fields, n=1)
        meant = f" (did you mean {close[0]!r}?)" if close else ""
        return UserError(f"a recipe has no field {where!r}{meant}; its fields there are {fields}")
    if first["type"] == "missing":
        return UserError(f"the recipe has no {where!r}; add it (its fields there are {fields})")
    inner = _part(part, name)
    if inner is not None:
        expected = f"fields of its own: {', '.join(inner.model_fields)}"
    else:
        expected = _expected(part.model_json_schema()["properties"][name], first["input"])
    flag = f"--{name.replace('_', '-')} " if name in FLAGS and inner is None and "lora" not in parents else ""
    return UserError(f"{flag}{f'({where})' if flag else where} is {first['input']!r}; give {expected}")


def _place(recipe: type[BaseModel], steps: list[str]) -> tuple[list[str], str, type[BaseModel]]:
    """The field that an error is about: the parts that lead to it, its name, and the part that it is in. What stands
    behind a field's name, as the number of an item in a list, is within it."""
    parents: list[str] = []
    part = recipe
    for i, step in enumerate(steps):
        inner = _part(part, step)
        if inner is None or i + 1 == len(steps):
            return parents, step, part
        parents, part = [*parents, step], inner
    return parents, "", part


def _part(model: type[BaseModel], name: str) -> type[BaseModel] | None:
    """The part of a recipe that a field holds, if it holds one."""
    field = model.model_fields.get(name)
    kinds = [] if field is None else [field.annotation, *get_args(field.annotation)]
    parts = [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel)]
    return parts[0] if parts else None


def _expected(schema: Mapping[str, Any], given: object) -> str:
    """What a field takes.

    >>> _expected({"type": "integer", "minimum": 1}, 0.5)
    'a whole number, at least 1'
    """
    options = [option for option in schema.get("anyOf", [schema]) if option.get("type") != "null"]
    return ", or ".join(_option(option, given) for option in options)


def _option(option: Mapping[str, Any], given: object) -> str:
    if "const" in option:
        return str(option["const"])
    if "enum" in option:
        return f"one of {', '.join(map(str, option['enum']))}"
    if option.get("type") == "array":
        return f"a list of {KINDS.get(option['items'].get('type', ''), 'a value').removeprefix('a ')}s, as [a, b]"
    what = KINDS.get(option.get("type", ""), "something else")
    if isinstance(given, float) and not math.isfinite(given):
        what = what.replace("a ", "a finite ", 1)
    bounds = [text.format(f"{option[bound]:,}".removesuffix(".0")) for bound, text in BOUNDS.items() if bound in option]
    return what + "".join(f", {bound}" for bound in bounds)
