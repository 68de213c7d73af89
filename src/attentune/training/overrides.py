"""Values laid over a recipe: those of a file, over them the command's flags, and over both what `--set field=value` says.

`--set` reaches every field by its path, as `training.seed` or `lora.r`; the value is read as YAML, but where the field is
a text it is taken as it stands.
"""

import types
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Union, get_args, get_origin

import yaml
from pydantic import BaseModel

from attentune.errors import UserError
from attentune.training.recipe import LoraRecipe, Recipe


def laid_over(values: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """The values with more of them on top, part by part; nothing given is nothing changed.

    >>> laid_over({"training": {"seed": 1, "lr": 0.1}}, {"training": {"seed": 2, "epochs": None}})
    {'training': {'seed': 2, 'lr': 0.1}}
    """
    result = dict(values)
    for name, value in more.items():
        if isinstance(value, Mapping):
            below = result.get(name)
            inner = laid_over(below if isinstance(below, Mapping) else {}, value)
            if inner or name in result:
                result[name] = inner
        elif value is not None:
            result[name] = value
    return result


def assigned(values: Mapping[str, Any], assignments: Sequence[str], recipe: type[BaseModel] = Recipe) -> dict[str, Any]:
    """The values with what each `field=value` says; the fields are those of a kind of recipe.

    >>> assigned({"training": {"seed": 1}}, ["training.seed=3", "method=mdg(0.1)"])
    {'training': {'seed': 3}, 'method': 'mdg(0.1)'}
    """
    result = dict(values)
    for assignment in assignments:
        path, found, text = assignment.partition("=")
        if not found or not path.strip():
            raise UserError(f"--set {assignment} is no field=value; write it as --set training.seed=3")
        names = path.strip().split(".")
        value = _read(assignment, names, text, recipe)
        place = result
        for name in names[:-1]:
            inner = place.get(name)
            place[name] = dict(inner) if isinstance(inner, Mapping) else {}
            place = place[name]
        place[names[-1]] = value
    return result


def lora_values(text: str | None) -> dict[str, Any] | None:
    """What --lora gives: `r=8`, or more of its fields with commas between.

    >>> lora_values("r=16, alpha=32")
    {'r': 16, 'alpha': 32}
    """
    if text is None:
        return None
    values: dict[str, Any] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, found, value = part.partition("=")
        if not found:
            raise UserError(f"--lora {text} is no list of field=value; write it as --lora r=8 ({_fields(LoraRecipe)})")
        values[name.strip()] = _yaml(f"--lora {text}", value)
    return values


def _read(assignment: str, names: Sequence[str], text: str, recipe: type[BaseModel]) -> Any:
    """The value of an assignment, as its field takes it; a path that leads nowhere is told."""
    part = recipe
    for i, name in enumerate(names):
        field = part.model_fields.get(name)
        if field is None:
            close = get_close_matches(name, part.model_fields, n=1)
            meant = f" (did you mean {'.'.join([*names[:i], close[0]])}?)" if close else _elsewhere(name, recipe)
            where = f"a recipe's {'.'.join(names[:i])}" if i else "a recipe"
            raise UserError(f"--set {assignment}: {where} has no field {name!r}{meant}; its fields are {_fields(part)}")
        kinds = _kinds(field.annotation)
        inner = [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel)]
        if i + 1 < len(names):
            if not inner:
                raise UserError(
                    f"--set {assignment}: {'.'.join(names[: i + 1])} is a field and has none of its own; set it itself"
                )
            part = inner[0]
        elif str in kinds and text.strip() not in ("", "null"):
            return text
    return _yaml(f"--set {assignment}", text)


def _yaml(what: str, text: str) -> Any:
    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError):
        raise UserError(f"{what} can't be read: {text!r} is no YAML value; put it in quotes") from None


def _kinds(annotation: Any) -> tuple[Any, ...]:
    """The types that an annotation allows.

    >>> _kinds(int | None)
    (<class 'int'>, <class 'NoneType'>)
    """
    return get_args(annotation) if get_origin(annotation) in (Union, types.UnionType) else (annotation,)


def _elsewhere(name: str, recipe: type[BaseModel]) -> str:
    """Where a field of that name is, if it is in one of the parts."""
    for outer, field in recipe.model_fields.items():
        for kind in _kinds(field.annotation):
            if isinstance(kind, type) and issubclass(kind, BaseModel) and name in kind.model_fields:
                return f" (did you mean {outer}.{name}?)"
    return ""


def _fields(part: type[BaseModel]) -> str:
    return ", ".join(part.model_fields)
