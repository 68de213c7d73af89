"""Studies as files: what is asked, the recipe that all runs share, and the same in small for a machine without a GPU.

    about: Attention guiding, Table 3
    compare: {methods: [none, mdg(0.001)], tasks: [mnli], models: [bert-base-uncased], seeds: 5}
    recipe: {training: {lr: 1.0e-5}}
    small:
      compare: {tasks: [rotten-tomatoes], models: [minilm]}
      recipe: {data: {max_train: 300}}

A plain recipe is taken as well: then it is what all runs share.
"""

from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError

from attentune.errors import UserError
from attentune.training import laid_over, read_values
from attentune.training.recipe import Part

Kind = Literal["compare", "sweep", "ablate"]


class CompareFile(Part):
    """What `compare` is asked."""

    methods: list[str] | None = None
    tasks: list[str] | None = None
    models: list[str] | None = None
    seeds: int | None = Field(default=None, ge=1)
    budget: int | None = Field(default=None, ge=1)
    space: list[str] | None = None


class SweepFile(Part):
    """What `sweep` is asked."""

    space: list[str] | None = None
    trials: int | None = Field(default=None, ge=1)
    folds: int | None = Field(default=None, ge=1)


class AblateFile(Part):
    """What `ablate` is asked."""

    parts: bool | None = None
    layers: str | None = None
    heads: str | None = None
    train_size: str | None = None
    vary: list[str] | None = None
    seeds: int | None = Field(default=None, ge=1)


class StudyFile(Part):
    """A file's contents; `recipe` is not checked before the runs' recipes are made of it."""

    about: str = ""
    compare: CompareFile | None = None
    sweep: SweepFile | None = None
    ablate: AblateFile | None = None
    recipe: dict[str, Any] = Field(default_factory=dict)


def read_study(path: str | Path | None, kind: Kind, *, small: bool = False) -> StudyFile:
    """The study in a file, or with none an empty one; `small` lays the file's own small form over it."""
    if path is None:
        if small:
            raise UserError(
                "--small is for a study's file; give one, such as recipes/papers/attention-guiding/table-1-mnli.yaml"
            )
        return StudyFile()
    values = read_values(path)
    if not {"about", "compare", "sweep", "ablate", "recipe", "small"} & values.keys():
        values = {"recipe": values}
    smaller = values.pop("small", None)
    if small:
        if not isinstance(smaller, dict):
            raise UserError(f"the study {path} has no small form; leave --small out")
        values = laid_over({**values, "about": f"{values.get('about', 'A study')} (in small)"}, smaller)
    try:
        study = StudyFile.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise UserError(f"the study {path} can't be used: {where}: {first['msg']}") from None
    asked = [name for name in ("compare", "sweep", "ablate") if getattr(study, name) is not None]
    if asked and kind not in asked:
        raise UserError(f"the study {path} is for attentune {' and '.join(asked)}, not for {kind}")
    return study
