"""A recipe says all there is to say about a run: model, data, method and hyper-parameters. YAML on disk, checked by pydantic."""

import math
from pathlib import Path
from typing import Any, Literal, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from attentune import tasks
from attentune.errors import UserError
from attentune.methods import parse
from attentune.training.recipe_errors import told


class Part(BaseModel):
    """A part of a recipe: its fields and no others, and what they are stays so."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class RecipeFile(Part):
    """A whole recipe of any kind, on disk as YAML; its `method` is the text of one."""

    @field_validator("method", check_fields=False)
    @classmethod
    def _canonical(cls, text: str) -> str:
        return str(parse(text))

    @classmethod
    def build(cls, values: dict[str, object]) -> Self:
        """From plain values, with one sentence for the first thing that is wrong."""
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            raise told(error, cls) from None

    def to_yaml(self) -> str:
        """The recipe as it is kept beside a run."""
        return yaml.safe_dump(self.model_dump(mode="json"), sort_keys=False, allow_unicode=True)

    @classmethod
    def from_yaml(cls, path: str | Path) -> Self:
        """Read a recipe from a file."""
        values = read_values(path)
        try:
            return cls.build(values)
        except UserError as error:
            raise UserError(f"the recipe {path} can't be used: {error}") from None


class DataRecipe(Part):
    """Which data: a task by name, or files of one's own."""

    task: str | None = None
    data_dir: str | None = None
    train_file: str | None = None
    eval_file: str | None = None
    text: str | None = None
    text_pair: str | None = None
    label: str | None = None
    kind: tasks.Kind | None = None
    negatives: int | None = Field(default=None, ge=1)
    also: tuple[str, ...] = ()
    max_train: int | None = Field(default=None, ge=1)
    max_eval: int | None = Field(default=None, ge=1)
    held_out: float | None = Field(default=None, gt=0, lt=1)
    """Judge on this share of the training rows, taken out of them, and leave the task's own evaluation split alone."""

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if self.task and (self.train_file or self.eval_file):
            raise ValueError("give a task or files of your own (--train-file), not both")
        if not self.task and not self.train_file:
            raise ValueError("there is no data: give --task (such as rotten-tomatoes) or --train-file")
        columns = [name for name in ("text", "text_pair", "label") if getattr(self, name)]
        if self.train_file and self.data_dir:
            raise ValueError(
                f"--data-dir is for tasks by name, and the data are in --train-file {self.train_file} "
                f"(given: --data-dir {self.data_dir}); leave --data-dir out"
            )
        if self.task and self.kind:
            raise ValueError(f"--kind is for your own files; the task {self.task} has its own (given: {self.kind})")
        if self.train_file and self.negatives:
            raise ValueError(
                "--negatives is for the rankings among the tasks; your own file gives its negatives itself"
            )
        if self.task and columns:
            flags = ", ".join("--" + name.replace("_", "-") for name in columns)
            raise ValueError(f"{flags} name columns of your own files; the task {self.task} has its own")
        return self

    @property
    def name(self) -> str:
        """The task's name, or that of the user's file."""
        return self.task or Path(self.train_file or "").stem

    def load(self, seed: int) -> tasks.Task:
        """The data itself, cut to size where that is asked for."""
        if self.task:
            task = tasks.load(self.task, self.data_dir, negatives=self.negatives)
        else:
            task = tasks.from_files(
                self.train_file or "",
                self.eval_file,
                text=self.text,
                text_pair=self.text_pair,
                label=self.label,
                kind=self.kind,
            )
        if self.held_out is not None:
            task = tasks.judged_on_training_rows(task, self.held_out)
        return task.sample(self.max_train, self.max_eval, seed=seed)


class TrainingRecipe(Part):
    """How to train. The defaults are the common ones for fine-tuning encoders.

    `batch_size` is how many rows a step has, however many processes share them and in however many parts
    (`gradient_accumulation`) they are taken: the same recipe is the same training on any machine.
    """

    seed: int = Field(default=42, ge=0, lt=2**32)
    epochs: float = Field(default=3.0, gt=0, allow_inf_nan=False)
    max_steps: int | None = Field(default=None, ge=1)
    lr: float = Field(default=5e-5, gt=0, allow_inf_nan=False)
    batch_size: int = Field(default=32, ge=1)
    gradient_accumulation: int = Field(default=1, ge=1)
    max_length: int = Field(default=128, ge=4)
    warmup: float = Field(default=0.1, ge=0, le=1)
    weight_decay: float = Field(default=0.01, ge=0, allow_inf_nan=False)
    layer_decay: float = Field(default=1.0, gt=0, le=1)
    """The learning rate of a layer is that of the layer above it times this."""
    reinit_layers: int = Field(default=0, ge=0)
    """So many layers from the top, and the pooler, begin with new weights."""
    scheduler: Literal["linear", "cosine", "polynomial", "constant"] = "linear"
    class_weights: Literal["balanced"] | tuple[float, ...] | None = None
    save_steps: int | None = Field(default=None, ge=1)
    save_total_limit: int | None = Field(default=None, ge=1)
    eval_steps: int | None = Field(default=None, ge=1)
    early_stopping: int | None = Field(default=None, ge=1)
    gradient_checkpointing: bool = False
    precision: Literal["auto", "bf16", "fp32"] = "auto"
    report_to: tuple[str, ...] = ()

    @field_validator("report_to", mode="before")
    @classmethod
    def _one_is_a_list(cls, given: object) -> object:
        return (given,) if isinstance(given, str) else given

    @field_validator("class_weights")
    @classmethod
    def _positive(cls, weights: str | tuple[float, ...] | None) -> str | tuple[float, ...] | None:
        if isinstance(weights, tuple) and not all(math.isfinite(w) and w > 0 for w in weights):
            raise ValueError(f"training.class_weights is {list(weights)}; give numbers above 0, one for each class")
        return weights

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.batch_size % self.gradient_accumulation:
            raise ValueError(
                f"training.batch_size is {self.batch_size}, which can't be taken in {self.gradient_accumulation} equal parts "
                "(training.gradient_accumulation); give a number that divides it"
            )
        if self.early_stopping and self.save_steps and self.save_steps != (self.eval_steps or self.save_steps):
            raise ValueError(
                f"training.early_stopping keeps a checkpoint at each evaluation (training.eval_steps is {self.eval_steps}), so "
                f"training.save_steps can't be {self.save_steps}; leave it out"
            )
        return self


class LoraRecipe(Part):
    """Adapters of low rank (peft) in place of all the model's weights."""

    r: int = Field(default=8, ge=1)
    alpha: int | None = Field(default=None, ge=1)
    dropout: float = Field(default=0.0, ge=0, lt=1)
    targets: tuple[str, ...] | None = None


class Recipe(RecipeFile):
    """Everything about a run.

    >>> recipe = Recipe(data={"task": "rotten-tomatoes"}, method="mdg(0.1)")
    >>> recipe.method, recipe.training.epochs
    ('mdg(weight=0.1)', 3.0)
    """

    model: str = "minilm"
    revision: str | None = None
    trust_remote_code: bool = False
    data: DataRecipe
    method: str = "none"
    training: TrainingRecipe = TrainingRecipe()
    lora: LoraRecipe | None = None


def read_values(path: str | Path) -> dict[str, Any]:
    """The fields that a recipe's file gives, not yet checked."""
    try:
        values = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError, RecursionError) as error:
        told = next(iter(str(error).splitlines()), type(error).__name__)
        raise UserError(f"the recipe {path} can't be read: {told}") from None
    if not isinstance(values, dict):
        raise UserError(f"the recipe {path} must be a mapping of fields, not {type(values).__name__}")
    return values
