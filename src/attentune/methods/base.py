"""What a method is. A `Guide` reads the attention of some layers and heads and makes a loss of it; other methods revise the
forward pass, or bring data of their own.

Methods add up: `MDG(0.1) + PDG(0.001)`. `str` of a method is the text that `attentune.parse` reads back. A method is a
value: it holds no state of training and knows no model; `methods.guided` brings the two together.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

from torch import Tensor, nn
from transformers import PreTrainedModel

from attentune.attention import Reading, Revision, Selection
from attentune.errors import UserError
from attentune.methods.auto import Auto
from attentune.methods.drawn import Drawn, TrainingTexts
from attentune.methods.passes import Pass
from attentune.methods.schedules import Constant, Schedule
from attentune.methods.tokens import TokenKinds


@dataclass(frozen=True)
class Watch:
    """What a method that works around the whole model is told of the pass under way."""

    is_on: Callable[[], bool]
    """Whether passes are observed; not while the model is paused, as in evaluation."""
    given: Callable[[], Mapping[str, Any]]
    """What the data has brought along for the methods in the pass that is about to begin."""
    seen: Callable[[], Pass | None]
    """The pass that has just been, as the method sees it; None for methods that are no `Objective`."""


@dataclass(frozen=True)
class Method:
    """The base of all methods."""

    name: ClassVar[str]
    summary: ClassVar[str]
    paper: ClassVar[str]
    text_readers: ClassVar[Mapping[str, Callable[[str], Any]]] = {}
    """How a parameter is read from text, where that is not what its name says everywhere."""
    works_on_final_hidden: ClassVar[bool] = False
    """Whether it works on the last hidden states as it finds them, so that no later method may make them anew."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of the training data that are the method's and not the model's."""
        return ()

    @property
    def parts(self) -> tuple["Method", ...]:
        """The methods that this one is a sum of: itself."""
        return (self,)

    def draw(self, texts: TrainingTexts) -> Drawn | None:
        """What the method draws from the texts that are trained on, to make its columns of; None where it has none.

        A UserError where something that this takes is missing.
        """
        return None

    def collate(self, rows: Sequence[Mapping[str, Any]], shape: tuple[int, int], pad_left: bool) -> Mapping[str, Any]:
        """Of some rows of data, whole as they are, what a pass is given: tensors for a batch of (batch, length)."""
        return {}

    @property
    def is_lasting(self) -> bool:
        """Whether the method changes the forward pass: in evaluation as in training, and saved with the model.

        `methods.lasting` makes the changes that `revisions`, `added` and `applied` tell of.
        """
        return False

    def check_model(self, model: PreTrainedModel, before: Sequence["Method"]) -> None:
        """Raise an error where a lasting method can't change this model, or not after those before it in the sum."""

    def revisions(self, model: PreTrainedModel) -> Mapping[int, Revision]:
        """What a lasting method changes in the attention of layers."""
        return {}

    def added(self, model: PreTrainedModel) -> nn.Module | None:
        """What a lasting method adds to the model's parameters and buffers, untrained."""
        return None

    def introduce(self, added: nn.Module | None, kinds: TokenKinds | None) -> None:
        """Tell what a lasting method has just added which tokens are which, if there is a tokenizer to know from."""

    def applied(self, model: PreTrainedModel, added: nn.Module | None) -> AbstractContextManager[None]:
        """Within, a lasting method makes its other changes, with what it has added."""
        return nullcontext()

    def around(self, model: nn.Module, watch: "Watch") -> AbstractContextManager[None]:
        """Within, for as long as it is attached, the method does what it does in training with the model whole, its head
        included, and leaves evaluation alone."""
        return nullcontext()

    @property
    def task_share(self) -> float:
        """How much of the task's loss is left beside the method's."""
        return 1.0

    def text_of(self, name: str, value: object) -> str:
        """A parameter as text, which `text_readers` read back."""
        return _as_text(value)

    def __add__(self, other: "Method | Sum") -> "Sum":
        if not isinstance(other, Method | Sum):
            return NotImplemented
        return Sum(self.parts + other.parts)

    def __str__(self) -> str:
        shown = []
        for f in fields(self):
            value = getattr(self, f.name)
            if f.name == "weight" or value != _default(f):
                shown.append(f"{f.name}={self.text_of(f.name, value)}")
        return f"{self.name}({', '.join(shown)})" if shown else self.name


@dataclass(frozen=True)
class Objective(Method):
    """A method with a loss of its own, of what it sees of a pass."""

    def reads(self, seen: Pass) -> tuple[Reading, ...]:
        """Which readings the method takes from each of its layers in the pass that is about to begin."""
        raise NotImplementedError

    def loss(self, seen: Pass) -> Tensor:
        """The method's loss for one forward pass, before its weight."""
        raise NotImplementedError

    def weight_at(self, progress: float, measured: float) -> float:
        """What scales the loss when training has come so far; `measured` is what `auto` has found."""
        raise NotImplementedError

    def read_layers(self, count: int) -> tuple[int, ...]:
        """The layers that are read, of so many."""
        return ()

    def choose_heads(self, before: Sequence[Method]) -> Selection:
        """The heads that are read, given the methods that stand before this one in a sum."""
        return Selection()


@dataclass(frozen=True)
class Guide(Objective):
    """An objective on attention: `weight` scales its loss, `schedule` moves the weight over training.

    A weight of `Auto(0.05)` is measured while the model is trained.
    """

    weight: float | Auto = 1.0
    schedule: Schedule = field(default_factory=Constant)
    layers: Selection = field(default_factory=Selection)
    heads: Selection = field(default_factory=Selection)

    def __post_init__(self) -> None:
        for name in ("layers", "heads"):  # so that MDG(layers="6-11") may be written
            object.__setattr__(self, name, Selection.parse(getattr(self, name)))
        if isinstance(self.weight, bool) or not isinstance(self.weight, int | float | Auto):
            raise UserError(f"weight must be a number or Auto(0.05), not {self.weight!r}")
        if not isinstance(self.weight, Auto) and not (math.isfinite(self.weight) and self.weight >= 0):
            raise UserError(f"weight must be a finite number, at least 0, not {self.weight}")
        if not isinstance(self.schedule, Schedule):
            raise UserError(f"schedule must be one such as Linear(hold=0.2), not {self.schedule!r}")

    def weight_at(self, progress: float, measured: float) -> float:
        """The weight, given or measured, by its schedule."""
        weight = measured if isinstance(self.weight, Auto) else self.weight
        return weight * self.schedule.factor(progress)

    def read_layers(self, count: int) -> tuple[int, ...]:
        """The layers that are guided."""
        return self.layers.resolve(count, "layer")

    def choose_heads(self, before: Sequence[Method]) -> Selection:
        """The heads that are guided, given the methods that stand before this one in a sum."""
        return self.heads


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
    def columns(self) -> tuple[str, ...]:
        """The columns of the training data that are the parts' and not the model's."""
        return tuple(dict.fromkeys(column for part in self.parts for column in part.columns))

    @property
    def task_share(self) -> float:
        """How much of the task's loss is left beside the parts'."""
        return math.prod(part.task_share for part in self.parts)

    @property
    def lasting(self) -> "Sum":
        """The parts that change the forward pass."""
        return Sum(tuple(part for part in self.parts if part.is_lasting))

    @property
    def names(self) -> tuple[str, ...]:
        """A name for each part, unique: a method that is there twice is `mdg` and `mdg_2`."""
        seen: dict[str, int] = {}
        unique = []
        for part in self.parts:
            seen[part.name] = seen.get(part.name, 0) + 1
            unique.append(part.name if seen[part.name] == 1 else f"{part.name}_{seen[part.name]}")
        return tuple(unique)


def check_number(
    name: str, value: object, *, above: float = -math.inf, least: float = -math.inf, most: float = math.inf
) -> None:
    """A parameter must be a finite number within bounds.

    >>> check_number("alpha", 2, above=0, most=1)
    Traceback (most recent call last):
    attentune.errors.UserError: alpha must be a number, above 0, at most 1, not 2
    """
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if not is_number or not (above < value and least <= value <= most):  # type: ignore[operator]
        bounds = [("above", above), ("at least", least), ("at most", most)]
        told = "".join(f", {word} {bound:g}" for word, bound in bounds if math.isfinite(bound))
        raise UserError(f"{name} must be a number{told}, not {value!r}")


def _default(f: Any) -> Any:
    return f.default_factory() if callable(f.default_factory) else f.default


def _as_text(value: object) -> str:
    return repr(value) if isinstance(value, float) else str(value)
