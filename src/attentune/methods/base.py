"""What a method is: which readings it takes from which layers and heads, and the loss that it makes of them.

Methods add up: `MDG(0.1) + PDG(0.001)`. `str` of a method is the text that `attentune.parse` reads back. A method is a
value: it holds no state of training and knows no model; `methods.guided` brings the two together.
"""

import math
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from attentune.attention import Observation, Reading, Selection
from attentune.errors import UserError
from attentune.methods.schedules import Constant, Schedule

Tokens = Literal["all", "content"]


@dataclass(frozen=True)
class Readings:
    """What a method sees of one forward pass: its own layers and heads, and the tokens that count."""

    observation: Observation
    layers: tuple[int, ...]
    heads: Selection
    special: Tensor | None  # (batch, length) True for special tokens, None where the tokenizer isn't known

    def stacked(self, name: str) -> Tensor:
        """One reading of all heads of all guided layers, as (batch, layers × heads, length)."""
        parts = []
        for layer in self.layers:
            reading = self.observation.layers[layer][name]
            chosen = list(self.heads.resolve(reading.shape[1], "head"))
            parts.append(reading if len(chosen) == reading.shape[1] else reading[:, chosen])
        return torch.cat(parts, dim=1)

    def tokens(self, which: Tokens) -> Tensor | None:
        """(batch, length) True for the tokens that count; None where all do."""
        real = self.observation.real
        if which == "all":
            return real
        if self.special is None:
            raise UserError(
                "tokens=content needs to know the special tokens: give the tokenizer, attach(model, method, tokenizer), "
                "and call the model with input_ids"
            )
        if real is not None and real.shape != self.special.shape:
            raise UserError(
                "tokens=content can't be told in a pass that goes on from a cache, whose first tokens the model is not "
                "given again; run such passes within guided.paused()"
            )
        return ~self.special if real is None else real & ~self.special


@dataclass(frozen=True)
class Method:
    """A guide: the base of all methods. `weight` scales its loss, `schedule` moves the weight over training."""

    name: ClassVar[str]
    summary: ClassVar[str]
    paper: ClassVar[str]

    weight: float = 1.0
    schedule: Schedule = field(default_factory=Constant)
    layers: Selection = field(default_factory=Selection)
    heads: Selection = field(default_factory=Selection)

    def __post_init__(self) -> None:
        for name in ("layers", "heads"):  # so that MDG(layers="6-11") may be written
            object.__setattr__(self, name, Selection.parse(getattr(self, name)))
        if isinstance(self.weight, bool) or not isinstance(self.weight, int | float):
            raise UserError(f"weight must be a number, not {self.weight!r}")
        if not (math.isfinite(self.weight) and self.weight >= 0):
            raise UserError(f"weight must be a finite number, at least 0, not {self.weight}")
        if not isinstance(self.schedule, Schedule):
            raise UserError(f"schedule must be one such as Linear(hold=0.2), not {self.schedule!r}")

    def reads(self) -> tuple[Reading, ...]:
        """Which readings the method takes from each of its layers."""
        raise NotImplementedError

    def loss(self, readings: Readings) -> Tensor:
        """The method's loss for one forward pass, before its weight."""
        raise NotImplementedError

    @property
    def parts(self) -> tuple["Method", ...]:
        """The methods that this one is a sum of: itself."""
        return (self,)

    def __add__(self, other: "Method | Sum") -> "Sum":
        if not isinstance(other, Method | Sum):
            return NotImplemented
        return Sum(self.parts + other.parts)

    def __str__(self) -> str:
        shown = [f"weight={_as_text(self.weight)}"]
        for f in fields(self):
            value = getattr(self, f.name)
            if f.name != "weight" and value != _default(f):
                shown.append(f"{f.name}={_as_text(value)}")
        return f"{self.name}({', '.join(shown)})"


@dataclass(frozen=True)
class Sum:
    """Several methods at once, or, with no parts, the unguided model.

    >>> str(Sum())
    'none'
    """

    parts: tuple[Method, ...] = ()

    def __add__(self, other: "Method | Sum") -> "Sum":
        if not isinstance(other, Method | Sum):
            return NotImplemented
        return Sum(self.parts + other.parts)

    def __str__(self) -> str:
        return " + ".join(map(str, self.parts)) or "none"

    @property
    def names(self) -> tuple[str, ...]:
        """A name for each part, unique: a method that is there twice is `mdg` and `mdg_2`."""
        seen: dict[str, int] = {}
        unique = []
        for part in self.parts:
            seen[part.name] = seen.get(part.name, 0) + 1
            unique.append(part.name if seen[part.name] == 1 else f"{part.name}_{seen[part.name]}")
        return tuple(unique)


def _default(f: Any) -> Any:
    return f.default_factory() if callable(f.default_factory) else f.default


def _as_text(value: object) -> str:
    return repr(value) if isinstance(value, float) else str(value)
