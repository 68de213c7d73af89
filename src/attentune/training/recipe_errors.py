"""What pydantic finds wrong with a recipe, in our own words: which flag and field, what was given, what to give.

What a field takes is read from the field itself, by its JSON schema, so that no sentence can fall behind the recipe.
"""

import math
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from pydantic import BaseModel, ValidationError

from attentune.errors import UserError

ONLY_IN_RECIPES = ("warmup", "weight_decay")
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
    *parents, name = map(str, first["loc"])
    part = recipe
    for parent in parents:
        part = _part(part, parent) or part
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
    flag = "" if name in ONLY_IN_RECIPES or inner is not None else f"--{name.replace('_', '-')} "
    return UserError(f"{flag}{f'({where})' if flag else where} is {first['input']!r}; give {expected}")


def _part(model: type[BaseModel], name: str) -> type[BaseModel] | None:
    """The part of a recipe that a field holds, if it holds one."""
    field = model.model_fields.get(name)
    kind = None if field is None else field.annotation
    return kind if isinstance(kind, type) and issubclass(kind, BaseModel) else None


def _expected(schema: Mapping[str, Any], given: object) -> str:
    """What a field takes.

    >>> _expected({"type": "integer", "minimum": 1}, 0.5)
    'a whole number, at least 1'
    """
    options = [option for option in schema.get("anyOf", [schema]) if option.get("type") != "null"]
    option = options[0]
    if "enum" in option:
        return f"one of {', '.join(map(str, option['enum']))}"
    what = KINDS.get(option.get("type", ""), "something else")
    if isinstance(given, float) and not math.isfinite(given):
        what = what.replace("a ", "a finite ", 1)
    bounds = [text.format(f"{option[bound]:,}".removesuffix(".0")) for bound, text in BOUNDS.items() if bound in option]
    return what + "".join(f", {bound}" for bound in bounds)
