"""Guides that pull some heads to a target, and leave others free: their heads may be given by count."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from attentune.attention import Selection
from attentune.methods.base import Guide, Method
from attentune.methods.heads import Block, choice_as_text, count_or_choice


@dataclass(frozen=True)
class ByHeads(Guide):
    """`heads` is a count, for the next so many heads of a sum, or a choice as for all guides."""

    text_readers: ClassVar[Mapping[str, Callable[[str], Any]]] = {"heads": count_or_choice}

    def __post_init__(self) -> None:
        object.__setattr__(self, "heads", count_or_choice(self.heads))
        super().__post_init__()

    def text_of(self, name: str, value: object) -> str:
        """Heads are written so that a count isn't taken for the number of a head."""
        return (
            choice_as_text(value) if isinstance(value, Selection) and name == "heads" else super().text_of(name, value)
        )

    def choose_heads(self, before: Sequence[Method]) -> Selection:
        """A count begins where the counts of those before it end."""
        if not isinstance(self.heads, Block):
            return self.heads
        counts = [part.heads.size for part in before if isinstance(part, ByHeads) and isinstance(part.heads, Block)]
        return Block(size=self.heads.size, start=sum(counts))
