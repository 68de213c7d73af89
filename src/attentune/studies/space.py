"""What is searched: any field of a recipe, any parameter of its method, each over a range or a list of values.

training.lr=log(1e-5,1e-4)      evenly in the logarithm
training.warmup=uniform(0,0.2)  evenly
training.epochs=int(2,5)        whole numbers
method.mdg.weight={0.1,0.01}    these; the parameter `weight` of the method's part `mdg`
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np
import yaml

from attentune.errors import UserError
from attentune.methods import Method, Sum, parse
from attentune.training import Recipe, assigned

if TYPE_CHECKING:
    from optuna.trial import Trial

CALL = re.compile(r"(log|uniform|int)\s*\((.*)\)\s*")
LISTED = re.compile(r"\{(.*)\}\s*")
OF_METHOD = "method."


@dataclass(frozen=True)
class Dimension:
    """One field and what it may be: a range from `low` to `high`, or `choices`."""

    path: str
    kind: str
    low: float = 0.0
    high: float = 0.0
    choices: tuple[Any, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Dimension:
        """From the command line's form.

        >>> Dimension.parse("training.lr=log(1e-5, 1e-4)")
        Dimension(path='training.lr', kind='log', low=1e-05, high=0.0001, choices=())
        >>> Dimension.parse("method.mdg.weight={0.1,0.01}").choices
        (0.1, 0.01)
        """
        path, found, what = (part.strip() for part in text.partition("="))
        how = f"write it as training.lr=log(1e-5,1e-4), uniform(0,1), int(2,5) or {{0.1,0.01}} (given: {text})"
        if not found or not path:
            raise UserError(f"a part of the space is no field=range; {how}")
        if listed := LISTED.fullmatch(what):
            values = [_plain(text, value) for value in _split(listed[1])]
            if not values or len(set(map(str, values))) < len(values):
                raise UserError(f"{path} needs different values to choose from; {how}")
            return cls(path, "choice", choices=tuple(values))
        call = CALL.fullmatch(what)
        if call is None:
            raise UserError(f"{path} has no range; {how}")
        try:
            low, high = (float(value) for value in call[2].split(","))
        except ValueError:
            raise UserError(f"{call[1]} takes two numbers; {how}") from None
        if not (math.isfinite(low) and math.isfinite(high) and low < high) or (call[1] == "log" and low <= 0):
            raise UserError(f"{path} needs a lower and a higher number, above 0 where it is log; {how}")
        if call[1] == "int" and not (low.is_integer() and high.is_integer()):
            raise UserError(f"int takes whole numbers; {how}")
        return cls(path, call[1], low, high)

    def suggested(self, trial: Trial) -> Any:
        """The value that a trial is to take."""
        if self.kind == "choice":
            return trial.suggest_categorical(self.path, self.choices)
        if self.kind == "int":
            return trial.suggest_int(self.path, int(self.low), int(self.high))
        return trial.suggest_float(self.path, self.low, self.high, log=self.kind == "log")

    def at(self, share: float) -> Any:
        """The value so far along the range, from 0 to 1.

        >>> Dimension.parse("training.lr=log(1e-5,1e-3)").at(0.5)
        0.0001
        """
        if self.kind == "choice":
            return self.choices[min(int(share * len(self.choices)), len(self.choices) - 1)]
        if self.kind == "int":
            return min(int(self.low + share * (self.high - self.low + 1)), int(self.high))
        if self.kind == "log":
            return float(f"{math.exp(math.log(self.low) + share * math.log(self.high / self.low)):.6g}")
        return self.low + share * (self.high - self.low)

    def __str__(self) -> str:
        if self.kind == "choice":
            return f"{self.path}={{{','.join(map(str, self.choices))}}}"
        return f"{self.path}={self.kind}({self.low:g},{self.high:g})"


def grid(space: Sequence[Dimension]) -> list[dict[str, Any]]:
    """All combinations of a space that is nothing but lists.

    >>> grid([Dimension.parse("method.mdg.weight={0.1,0.01}"), Dimension.parse("training.epochs={3}")])
    [{'method.mdg.weight': 0.1, 'training.epochs': 3}, {'method.mdg.weight': 0.01, 'training.epochs': 3}]
    """
    names = [dimension.path for dimension in space]
    return [dict(zip(names, values, strict=True)) for values in itertools.product(*(one.choices for one in space))]


def is_grid(space: Sequence[Dimension]) -> bool:
    """Whether a space is nothing but lists."""
    return all(dimension.kind == "choice" for dimension in space)


def draws(space: Sequence[Dimension], count: int, seed: int = 0) -> list[dict[str, Any]]:
    """Random points of a space, the same whenever they are drawn; a field's values don't depend on the other fields.

    >>> lr = Dimension.parse("training.lr=log(1e-5,1e-4)")
    >>> both = draws([lr, Dimension.parse("method.mdg.weight=log(1e-4,1)")], 3)
    >>> [point["training.lr"] for point in both] == [point["training.lr"] for point in draws([lr], 3)]
    True
    """
    columns = {}
    for dimension in space:
        # Python promises that the bytes of a text are what they are; its own hash changes with every process.
        generator = np.random.default_rng([seed, *dimension.path.encode()])
        # One draw in each of `count` equal parts, in random order: a few draws cover the whole range.
        shares = (generator.permutation(count) + generator.random(count)) / count
        columns[dimension.path] = [dimension.at(float(share)) for share in shares]
    return [{path: column[i] for path, column in columns.items()} for i in range(count)]


def with_fields(recipe: Recipe, chosen: Mapping[str, Any]) -> Recipe:
    """The recipe with these fields; `method.mdg.weight` is a parameter of the method.

    >>> recipe = Recipe.build({"data": {"task": "rte"}, "method": "mdg(0.1) + pdg(0.01)"})
    >>> changed = with_fields(recipe, {"method.pdg.weight": 0.5, "training.epochs": 2})
    >>> changed.method, changed.training.epochs
    ('mdg(weight=0.1) + pdg(weight=0.5)', 2.0)
    """
    values = recipe.model_dump(mode="json")
    for path, value in chosen.items():
        if path.startswith(OF_METHOD):
            values["method"] = str(_with_parameter(parse(values["method"]), path, value))
        else:
            # as text, so that it is read, and refused, as --set does; a text is its own text
            text = value if isinstance(value, str) else yaml.safe_dump(value, default_flow_style=True).split("\n")[0]
            values = assigned(values, [f"{path}={text}"])
    return Recipe.build(values)


def _with_parameter(method: Sum, path: str, value: Any) -> Sum:
    """A sum with one parameter of one part changed, read as the text form reads it."""
    name, found, parameter = path.removeprefix(OF_METHOD).partition(".")
    if not found or name not in method.names:
        raise UserError(
            f"there is no part {name!r} in the method {method} to take {path}; write method.NAME.PARAMETER, with a name of "
            f"{', '.join(method.names) or 'a method that is not none'}"
        )
    parts = list(method.parts)
    place = method.names.index(name)
    part = parts[place]
    texts = {f.name: part.text_of(f.name, getattr(part, f.name)) for f in fields(part) if _is_shown(part, f.name)}
    texts[parameter] = str(value)
    (parts[place],) = parse(f"{part.name}({', '.join(f'{key}={text}' for key, text in texts.items())})").parts
    return Sum(tuple(parts))


def _is_shown(part: Method, name: str) -> bool:
    return name == "weight" or getattr(part, name) != getattr(type(part)(), name)


def _split(listed: str) -> list[str]:
    """The values of a list, at commas outside of brackets.

    >>> _split("0-2, [1,3], all")
    ['0-2', '[1,3]', 'all']
    """
    values, depth, start = [], 0, 0
    for position, character in enumerate(listed + ","):
        depth += (character in "([{") - (character in ")]}")
        if character == "," and depth == 0:
            values.append(listed[start:position].strip())
            start = position + 1
    return [value for value in values if value]


def _plain(text: str, value: str) -> Any:
    """A value as YAML has it, if it is a plain one; a number in Python's way of writing too (1e-4)."""
    try:
        number = float(value)
        return int(number) if number.is_integer() and re.fullmatch(r"[+-]?\d+", value) else number
    except ValueError:
        pass
    read = yaml.safe_load(value)
    return read if isinstance(read, str | bool) or read is None else value


PAPERS_GRID = "{0.1,0.01,0.001,0.0001}"
OWN_PARAMETERS = {
    "blur": {"sigma": "{0.01,0.1,0.3,0.5}"},
    "ssa": {"alpha": "{0.7,0.9}", "beta": "{0.2,0.5,0.9}", "gamma": "{0.6,1.0,2.0}"},
    "maskaug": {"gamma": "{0.6,1.0,2.0}"},
    "rdrop": {"weight": "{0.1,0.5,1.0}"},
    "mixout": {"p": "{0.1,0.3,0.5,0.7,0.9}"},
}
"""What is searched, by method: what its paper tells of, and for rdrop and mixout, whose papers' grids we don't know, values over
the range that makes sense. Other guides have attention guiding's grid."""
LR = "training.lr=log(1e-5,2e-4)"


def usual_space(method: str) -> list[Dimension]:
    """What is searched where nothing is said: the learning rate, and what the paper of each part of the method searched.

    >>> [str(dimension) for dimension in usual_space("mdg(0.1)")]
    ['training.lr=log(1e-05,0.0002)', 'method.mdg.weight={0.1,0.01,0.001,0.0001}']
    """
    searched = [LR]
    whole = parse(method)
    for name, part in zip(whole.names, whole.parts, strict=True):
        own = {f.name for f in fields(part)}
        usual = OWN_PARAMETERS.get(part.name, {"weight": PAPERS_GRID})
        searched += [
            f"{OF_METHOD}{name}.{parameter}={values}" for parameter, values in usual.items() if parameter in own
        ]
    return [Dimension.parse(text) for text in searched]


def either_space(methods: Sequence[str]) -> list[Dimension]:
    """What is searched where one of several methods is to be chosen: the learning rate, and each method at all points of its
    usual space.

    >>> either_space(["first(0.1)", "next(0.1)"])[1].choices[3:6]
    ('first(weight=0.0001)', 'next(weight=0.1)', 'next(weight=0.01)')
    """
    texts: list[str] = []
    for method in methods:
        for point in grid(usual_space(method)[1:]):
            changed = parse(method)
            for path, value in point.items():
                changed = _with_parameter(changed, path, value)
            texts.append(str(changed))
    return [Dimension.parse(LR), Dimension("method", "choice", choices=tuple(dict.fromkeys(texts)))]
