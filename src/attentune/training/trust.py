"""A model's own code is run only where the user says so: a recipe or a run's folder may be a stranger's."""

from typing import Protocol

from attentune.errors import UserError


class MayAsk(Protocol):
    """A recipe of any kind."""

    @property
    def model(self) -> str | None:
        """The model that it names."""

    @property
    def trust_remote_code(self) -> bool:
        """Whether it asks for the model's own code to be run."""


def require_trust(recipe: MayAsk, is_given: bool, what: str) -> None:
    """A file may ask for a model's own code to be run; only the user may allow it.

    >>> from attentune.training.recipe import Recipe
    >>> asking = Recipe(data={"task": "rte"}, model="someone/model", trust_remote_code=True)
    >>> require_trust(asking, False, "the recipe r.yaml")
    Traceback (most recent call last):
    attentune.errors.UserError: the recipe r.yaml asks to run code that the model 'someone/model' brings along, which ...
    """
    if recipe.trust_remote_code and not is_given:
        raise UserError(
            f"{what} asks to run code that the model {recipe.model!r} brings along, which a file alone may not allow; "
            "add --trust-remote-code if you trust it"
        )
