"""Heads pulled to a positional pattern: Deshpande and Narasimhan 2020, "Guiding Attention for Self-Supervised Learning".

loss = Σ_layers mean over the pattern's heads, the rows q that have a target, and the batch, of Σ_k (A[q, k] − P[q, k])²,
from Σ_k A² and Σ_k A·P, without the maps. Where a pattern looks is `functional.pattern_target`; what is out of a
query's reach, as the next token in a decoder, is no target. Where several documents are packed into one input, each begun
by a [CLS] of its own, no pattern looks from one into another.
"""

import functools
import logging
from dataclasses import dataclass
from typing import ClassVar, Literal, cast

import torch
from torch import Tensor

from attentune.attention import Reading
from attentune.errors import UserError
from attentune.functional import pattern_target
from attentune.methods.by_heads import ByHeads
from attentune.methods.passes import Pass
from attentune.methods.towards import loss_towards, readings_towards

logger = logging.getLogger(__name__)

ByPosition = Literal["first", "next", "prev", "same"]


@dataclass(frozen=True)
class Pattern(ByHeads):
    """The base of the six patterns. `heads` is a count, for the next so many heads of a sum's patterns, or a choice.

    >>> for part in (First(heads=4) + Next(heads=[4])).parts:
    ...     print(part)
    first(weight=1.0, heads=4)
    next(weight=1.0, heads=[4])
    """

    paper: ClassVar[str] = "Deshpande and Narasimhan 2020, Guiding Attention for Self-Supervised Learning"

    def reads(self, seen: Pass) -> tuple[Reading, ...]:
        """Σ_k A², Σ_k A·P, and how much of P is within reach."""
        self.check_told(seen)
        return readings_towards(lambda queries, keys: self.target(seen, queries, keys), seen)

    def loss(self, seen: Pass) -> Tensor:
        """The squared error, a mean over rows, heads and batch, summed over layers."""
        return loss_towards(seen)

    def check_told(self, seen: Pass) -> None:
        """Raise a UserError where the pattern can't be told in a pass."""

    def target(self, seen: Pass, queries: int, keys: int) -> Tensor:
        """Where the last `queries` of `keys` tokens should look, as `attention.mass` takes it."""
        target = pattern_target(
            cast(ByPosition, self.name), keys, real=_real(seen, keys), segments=_segments(seen, keys)
        )
        return (target if target.dim() == 2 else target[None])[:, keys - queries :]


@dataclass(frozen=True)
class First(Pattern):
    """Every token looks at the text's first, such as [CLS].

    >>> str(First(0.1, heads=4))
    'first(weight=0.1, heads=4)'
    """

    name: ClassVar[str] = "first"
    summary: ClassVar[str] = "heads look at the first token"

    def target(self, seen: Pass, queries: int, keys: int) -> Tensor:
        """The document's first token; a second text of a pair has no other."""
        target = pattern_target("first", keys, real=_real(seen, keys), segments=_documents(seen, keys))
        return (target if target.dim() == 2 else target[None])[:, keys - queries :]


@dataclass(frozen=True)
class Next(Pattern):
    """Every token looks at the one after it, within its text."""

    name: ClassVar[str] = "next"
    summary: ClassVar[str] = "heads look at the next token"

    def loss(self, seen: Pass) -> Tensor:
        """As for all patterns; in a decoder no token has a next one to see, and the loss is 0."""
        attention = seen.observation.calls[seen.layers[0]]
        if getattr(attention, "is_causal", False):
            _say_once(
                f"next guides nothing here: the tokens of {type(attention).__name__} don't see what comes after them"
            )
        return super().loss(seen)


@dataclass(frozen=True)
class Prev(Pattern):
    """Every token looks at the one before it, within its text."""

    name: ClassVar[str] = "prev"
    summary: ClassVar[str] = "heads look at the previous token"


@dataclass(frozen=True)
class Same(Pattern):
    """Every token looks at itself."""

    name: ClassVar[str] = "same"
    summary: ClassVar[str] = "heads look at the token itself"


@dataclass(frozen=True)
class _Marked(Pattern):
    """The patterns that look at tokens of one kind, evenly at all of those within reach."""

    kind: ClassVar[str]

    def check_told(self, seen: Pass) -> None:
        """The kind is known from the tokenizer, and the tokens from their ids."""
        if seen.kinds is None or seen.ids is None:
            raise UserError(
                f"{self.name} needs to know which tokens are {self.kind}: give the tokenizer, "
                "attach(model, method, tokenizer), and call the model with input_ids"
            )
        if not self._kinds(seen):
            raise UserError(
                f"{self.name} has nothing to look at: among the tokenizer's tokens there are no {self.kind}"
            )

    def target(self, seen: Pass, queries: int, keys: int) -> Tensor:
        """1 for the tokens of the kind, (batch, 1, 1, keys): the same for every query; where documents are packed,
        (batch, 1, keys, keys): for each query those of its own document."""
        assert seen.ids is not None
        if seen.ids.shape[1] != keys:  # a pass that goes on from a cache: `loss` says so
            return torch.zeros(1, 1, 1, keys)
        kinds = torch.tensor(self._kinds(seen), dtype=seen.ids.dtype, device=seen.ids.device)
        marked = torch.isin(seen.ids, kinds)
        real = _real(seen, keys)
        marked = (marked if real is None else marked & real)[:, None, :]
        documents = _documents(seen, keys)
        if documents is not None:
            marked = marked & (documents[:, :, None] == documents[:, None, :])
        return marked.to(torch.get_default_dtype())[:, None]

    def loss(self, seen: Pass) -> Tensor:
        """As for all patterns, in a pass that is given all of its tokens."""
        if seen.ids is not None and seen.real is not None and seen.ids.shape != seen.real.shape:
            raise UserError(
                f"{self.name} can't be told in a pass that goes on from a cache, whose first tokens the model is not "
                "given again; run such passes within guided.paused()"
            )
        return super().loss(seen)

    def _kinds(self, seen: Pass) -> tuple[int, ...]:
        raise NotImplementedError


@dataclass(frozen=True)
class Delim(_Marked):
    """Every token looks at the separators, such as [SEP] or </s>."""

    name: ClassVar[str] = "delim"
    summary: ClassVar[str] = "heads look at the separators, such as [SEP]"
    kind: ClassVar[str] = "separators"

    def _kinds(self, seen: Pass) -> tuple[int, ...]:
        return () if seen.kinds is None else seen.kinds.delimiters


@dataclass(frozen=True)
class Period(_Marked):
    """Every token looks at the full stops."""

    name: ClassVar[str] = "period"
    summary: ClassVar[str] = "heads look at the full stops"
    kind: ClassVar[str] = "full stops"

    def _kinds(self, seen: Pass) -> tuple[int, ...]:
        return () if seen.kinds is None else seen.kinds.stops


def _real(seen: Pass, keys: int) -> Tensor | None:
    """(batch, keys) True for tokens that aren't padding."""
    if seen.real is not None and seen.real.shape[1] != keys:
        raise UserError(
            f"the model's attention has {keys} tokens, but its attention_mask {seen.real.shape[1]}: "
            "the patterns can't tell which are padding"
        )
    return seen.real


def _segments(seen: Pass, keys: int) -> Tensor | None:
    """(batch, keys) numbers of the texts that tokens are of: a separator ends one and a [CLS] begins one, or the model is told
    by its token types."""
    ids, types = seen.ids, seen.observation.inputs.get("token_type_ids")
    if ids is not None and ids.shape[1] == keys and seen.kinds is not None and seen.kinds.delimiters:
        ends = seen.kinds.is_delimiter(ids).long()
        return (ends + seen.kinds.is_beginning(ids).long()).cumsum(dim=-1) - ends
    return types if isinstance(types, Tensor) and types.shape[-1] == keys and types.dim() == 2 else None


def _documents(seen: Pass, keys: int) -> Tensor | None:
    """(batch, keys) numbers of the documents that tokens are of; None where each input is but one, as far as we know."""
    ids = seen.ids
    if ids is None or ids.shape[1] != keys or seen.kinds is None:
        return None
    numbers = seen.kinds.is_beginning(ids).long().cumsum(dim=-1)
    return numbers if bool((numbers > 1).any()) else None


@functools.cache
def _say_once(line: str) -> None:
    logger.warning(line)
