"""A recipe for pre-training: a new model or a checkpoint, the corpus, what is masked, the method, and how to train."""

from pathlib import Path
from typing import Literal, Self

from pydantic import Field, model_validator

from attentune.training.recipe import Part, RecipeFile, TrainingRecipe


class NewModel(Part):
    """A model that is yet to be made, with a tokenizer that is trained on the corpus."""

    architecture: Literal["roberta", "bert", "modernbert"] = "roberta"
    layers: int = Field(default=4, ge=1)
    width: int = Field(default=256, ge=1)
    heads: int = Field(default=8, ge=1)
    feed_forward: int | None = Field(default=None, ge=1)
    vocab_size: int = Field(default=16_000, ge=300)
    dropout: float = Field(default=0.1, ge=0, lt=1)

    @model_validator(mode="after")
    def _heads_fit(self) -> Self:
        if self.width % self.heads:
            raise ValueError(
                f"--width is {self.width} and --heads {self.heads}: the heads share the width evenly; give a width that is a "
                f"multiple of the heads, such as {self.heads * max(1, round(self.width / self.heads))}"
            )
        if self.architecture == "modernbert" and (self.width // self.heads) % 2:
            raise ValueError(
                f"--width {self.width} over --heads {self.heads} makes heads of {self.width // self.heads}, and ModernBERT "
                "rotates them in pairs of numbers; give a width that makes their size even"
            )
        return self


class CorpusRecipe(Part):
    """The text: a file, a folder of files, or a name on the hub."""

    train_file: str
    eval_file: str | None = None
    text: str | None = None
    max_train: int | None = Field(default=None, ge=1)
    max_eval: int | None = Field(default=None, ge=1)

    @property
    def name(self) -> str:
        """The corpus's name, from that of its file."""
        return Path(self.train_file.rpartition("/")[2]).stem or "corpus"


class MaskingRecipe(Part):
    """Which tokens the model has to tell."""

    rate: float = Field(default=0.15, gt=0, lt=1)
    whole_word: bool = False


class PretrainingSchedule(TrainingRecipe):
    """How to train: what a recipe of fine-tuning has, but for what needs classes or a best moment to stop at."""

    epochs: float = Field(default=10.0, gt=0, allow_inf_nan=False)
    lr: float = Field(default=5e-4, gt=0, allow_inf_nan=False)
    max_length: int = Field(default=128, ge=8)

    @model_validator(mode="after")
    def _has_no_classes(self) -> Self:
        for name in ("class_weights", "early_stopping"):
            if getattr(self, name) is not None:
                raise ValueError(
                    f"training.{name} is for fine-tuning, and pre-training knows nothing of it; leave it out"
                )
        return self


class PretrainingRecipe(RecipeFile):
    """Everything about a pre-training run. With `model` it goes on from a checkpoint; otherwise `new` says what to make.

    >>> recipe = PretrainingRecipe(data={"train_file": "train.txt"}, method="first(0.8, heads=2)")
    >>> recipe.method, recipe.new.layers
    ('first(weight=0.8, heads=2)', 4)
    """

    run: Literal["pretraining"] = "pretraining"
    """Tells the recipe from one of fine-tuning."""
    model: str | None = None
    revision: str | None = None
    trust_remote_code: bool = False
    new: NewModel | None = None
    data: CorpusRecipe
    masking: MaskingRecipe = MaskingRecipe()
    method: str = "none"
    training: PretrainingSchedule = PretrainingSchedule()

    @model_validator(mode="after")
    def _one_model(self) -> Self:
        if self.model is not None and self.new is not None:
            given = ", ".join(f"{name} {value}" for name, value in self.new.model_dump(exclude_unset=True).items())
            raise ValueError(
                f"--model {self.model} is a checkpoint to go on from, and has its own sizes (given for a new model: {given}); "
                "leave one of them out"
            )
        if self.model is None and (self.revision or self.trust_remote_code):
            raise ValueError("--revision and --trust-remote-code are about a checkpoint; name it with --model")
        if self.model is None and self.new is None:
            object.__setattr__(self, "new", NewModel())
        return self
