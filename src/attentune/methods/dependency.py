"""Dependency: heads pulled to the words that belong together in the grammar, heads and children alike."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from attentune.errors import UserError
from attentune.methods.by_heads import ByHeads
from attentune.methods.drawn import TrainingTexts
from attentune.methods.knowledge import Knowledge
from attentune.methods.priors.dependency import Dependency as DependencyPrior
from attentune.methods.quotes import quoted, unquoted


@dataclass(frozen=True)
class Dependency(Knowledge):
    """The edges between a word and its head, both ways, as a spaCy pipeline of any name or folder parses the texts.

    >>> str(Dependency(0.1, heads=2, pipeline="de_core_news_sm"))
    'dependency(weight=0.1, heads=2, pipeline=de_core_news_sm)'
    """

    name: ClassVar[str] = "dependency"
    summary: ClassVar[str] = "heads look at a word's head and children in the grammar"
    drawn_by: ClassVar[tuple[str, ...]] = ("pipeline",)
    nothing: ClassVar[str] = "texts of one word have no grammar"
    text_readers: ClassVar[Mapping[str, Callable[[str], Any]]] = {**ByHeads.text_readers, "pipeline": unquoted}

    pipeline: str = DependencyPrior.pipeline

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.pipeline, str) or not self.pipeline.strip():
            raise UserError(f"pipeline must be the name or the folder of a spaCy pipeline, not {self.pipeline!r}")

    def text_of(self, name: str, value: object) -> str:
        """A folder may need quotes."""
        return quoted(str(value)) if name == "pipeline" else super().text_of(name, value)

    def prior(self, texts: TrainingTexts) -> DependencyPrior:
        """The parser."""
        return DependencyPrior(self.pipeline)
