"""How a method's weight moves over training: a factor of it, as a function of progress from 0 to 1."""

from dataclasses import dataclass, fields
from typing import ClassVar

from attentune.errors import UserError


@dataclass(frozen=True)
class Schedule:
    """A factor for the weight; the base of all schedules."""

    name: ClassVar[str]

    def factor(self, progress: float) -> float:
        """The factor at a share of training done."""
        raise NotImplementedError

    def __str__(self) -> str:
        arguments = ", ".join(f"{f.name}={getattr(self, f.name)!r}" for f in fields(self))
        return f"{self.name}({arguments})" if arguments else self.name


@dataclass(frozen=True)
class Constant(Schedule):
    """The weight as given, always."""

    name: ClassVar[str] = "constant"

    def factor(self, progress: float) -> float:
        """Always 1."""
        return 1.0


@dataclass(frozen=True)
class Linear(Schedule):
    """The weight as given for a share of training (`hold`), then in a straight line to 0 at the end.

    >>> [Linear(hold=0.5).factor(progress) for progress in (0, 0.5, 0.75, 1)]
    [1.0, 1.0, 0.5, 0.0]
    """

    name: ClassVar[str] = "linear"
    hold: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.hold < 1:
            raise UserError(f"hold is a share of training, at least 0 and below 1, not {self.hold}")

    def factor(self, progress: float) -> float:
        """1 until `hold`, then falling to 0."""
        return 1.0 if progress <= self.hold else max(0.0, (1 - progress) / (1 - self.hold))


@dataclass(frozen=True)
class Warmup(Schedule):
    """In a straight line from 0 to the weight as given over a share of training, then constant.

    >>> [Warmup(share=0.5).factor(progress) for progress in (0, 0.25, 0.5, 1)]
    [0.0, 0.5, 1.0, 1.0]
    """

    name: ClassVar[str] = "warmup"
    share: float = 0.1

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise UserError(f"share is a share of training, above 0 and at most 1, not {self.share}")

    def factor(self, progress: float) -> float:
        """Rising to 1 at `share`."""
        return min(1.0, progress / self.share)


SCHEDULES: dict[str, type[Schedule]] = {kind.name: kind for kind in (Constant, Linear, Warmup)}
