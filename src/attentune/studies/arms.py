"""The sides of a comparison: a method, and fields of the recipe where one side shall have others than the rest.

mdg(0.01)                                            a method
none with training.layer_decay=0.9                   the unguided model, trained in another way
none with training.epochs=10, training.warmup=0.1
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from attentune.errors import UserError
from attentune.methods import parse
from attentune.training import Recipe, assigned

WITH, OR = re.compile(r"\s+with\s+"), re.compile(r"\s+or\s+")


@dataclass(frozen=True)
class Arm:
    """One side."""

    method: str
    assignments: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    """Methods that a search may choose in place of the first."""

    @classmethod
    def parse(cls, text: str) -> "Arm":
        """From the command line's form.

        >>> str(Arm.parse("mdg(0.01) with training.epochs=5,training.lr=1e-4"))
        'mdg(weight=0.01) with training.epochs=5, training.lr=1e-4'
        """
        said, *given = WITH.split(text.strip())
        if len(given) > 1:
            raise UserError(f"there is more than one 'with' in {text!r}; put commas between the fields")
        fields = [part.strip() for more in given for part in re.split(r",\s*(?=[\w.]+=)", more)]
        method, *others = (str(parse(one)) for one in OR.split(said))
        return cls(method, tuple(fields), tuple(others))

    def of(self, recipe: Recipe) -> Recipe:
        """The recipe as this side has it."""
        values = recipe.model_dump(mode="json") | {"method": self.method}
        return Recipe.build(assigned(values, self.assignments))

    @property
    def is_baseline(self) -> bool:
        """Whether this is the unguided model as it is."""
        return self.method == "none" and not self.assignments and not self.others

    def __str__(self) -> str:
        methods = " or ".join((self.method, *self.others))
        return methods + (f" with {', '.join(self.assignments)}" if self.assignments else "")


def parse_arms(text: str) -> tuple[Arm, ...]:
    """The sides that a text lists, with semicolons between.

    >>> [str(arm) for arm in parse_arms("none; mdg(0.1)")]
    ['none', 'mdg(weight=0.1)']
    """
    return distinct([Arm.parse(part) for part in text.split(";") if part.strip()])


def distinct(arms: Sequence[Arm]) -> tuple[Arm, ...]:
    """The sides, of which there must be two at least, and none twice."""
    if len(arms) < 2:
        raise UserError('a comparison needs two methods at least, as --methods "none; mdg(0.01)"')
    for i, arm in enumerate(arms):
        if arm in arms[:i]:
            raise UserError(f"the method {str(arm)!r} is there twice; leave one out")
    return tuple(arms)


def baseline_of(arms: Sequence[Arm]) -> Arm:
    """The unguided model where it is among them, and otherwise the first."""
    return next((arm for arm in arms if arm.is_baseline), arms[0])
