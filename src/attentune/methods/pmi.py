"""PMI: heads pulled to words that keep company, by their positive pointwise mutual information in the training texts."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from attentune.errors import UserError
from attentune.methods.by_heads import ByHeads
from attentune.methods.drawn import TrainingTexts
from attentune.methods.knowledge import Knowledge
from attentune.methods.priors.pmi import PMI as PMIPrior
from attentune.methods.priors.pmi import check_counts, stem_of
from attentune.methods.priors.relations import check_top
from attentune.methods.priors.text_form import most_as_text, read_most, whole_number

TOLD_EVERY = 1000  # texts


@dataclass(frozen=True)
class PMI(Knowledge):
    """Words that stand near each other more often than chance has it; counted once, over the texts that are trained on.

    >>> str(PMI(0.1, window=10))
    'pmi(weight=0.1, window=10)'
    """

    name: ClassVar[str] = "pmi"
    summary: ClassVar[str] = "heads look at the words that a word is often seen with"
    drawn_by: ClassVar[tuple[str, ...]] = ("window", "min_count", "top")
    nothing: ClassVar[str] = "give more texts, a lower min_count or a larger window"
    text_readers: ClassVar[Mapping[str, Callable[[str], Any]]] = {
        **ByHeads.text_readers, "window": whole_number, "min_count": whole_number, "top": read_most,
    }  # fmt: skip

    window: int = 5
    """How far apart two words may stand to be counted as together."""
    min_count: int = 5
    """How often a word must be there to have relations."""
    top: int | None = 32
    """How many of its strongest relations a word keeps within a text; None keeps all."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_counts(self.window, self.min_count)
        check_top(self.top)

    def text_of(self, name: str, value: object) -> str:
        """`top=None` is written `top=all`."""
        return most_as_text(value) if name == "top" else super().text_of(name, value)

    def prior(self, texts: TrainingTexts) -> PMIPrior:
        """The counts that were kept, or else those of these texts."""
        path = None if texts.kept is None else texts.kept / stem_of(self.window, self.min_count)
        if path is not None and path.with_suffix(".json").is_file():
            kept = PMIPrior.load(path)
            if (kept.window, kept.min_count) != (self.window, self.min_count):
                raise UserError(
                    f"{path}.json was counted with window={kept.window} and min_count={kept.min_count}, not with "
                    f"{self.window} and {self.min_count}; remove it, and it is counted again"
                )
            return replace(kept, top=self.top)
        told = _told([texts.texts] if texts.pairs is None else [texts.texts, texts.pairs], texts, self.name)
        return PMIPrior.count(told, self.window, self.min_count, self.top)


def _told(columns: Sequence[Sequence[str]], texts: TrainingTexts, name: str) -> Iterator[str]:
    """All texts one by one, and word of how many were taken."""
    done, total = 0, sum(map(len, columns))
    for column in columns:
        for text in column:
            yield text
            done += 1
            if done % TOLD_EVERY == 0 or done == total:
                texts.progress(f"counting for {name}", done, total)
