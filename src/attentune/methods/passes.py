"""A forward pass as one method sees it: before it, to say what is to be read; after it, to make a loss of what was."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from attentune.attention import Observation, Selection
from attentune.errors import UserError
from attentune.methods.tokens import TokenKinds

Tokens = Literal["all", "content"]


def check_tokens(tokens: str) -> None:
    """`tokens` must be one of the two choices."""
    if tokens not in get_args(Tokens):
        raise UserError(f"tokens must be all or content, not {tokens!r}")


@dataclass(frozen=True)
class Pass:
    """What a method knows of one forward pass."""

    name: str
    """The method's own name in the sum, for readings that no other method shall share."""
    observation: Observation
    layers: tuple[int, ...]
    heads: Selection
    kinds: TokenKinds | None = None  # None where no tokenizer was given
    given: Mapping[str, Any] = field(default_factory=dict)
    """What the data brought along for the methods, by column."""
    added: nn.Module | None = None
    """What the method has added to the model, if it has."""
    kept: dict[str, Tensor] = field(default_factory=dict)
    """What the method has kept of the pass for its loss, beside the readings."""

    @property
    def ids(self) -> Tensor | None:
        """(batch, length) token ids; None where the model was called with something else."""
        ids = self.observation.inputs.get("input_ids")
        return ids if isinstance(ids, Tensor) else None

    @property
    def real(self) -> Tensor | None:
        """(batch, length) True for tokens that aren't padding; None: no padding."""
        return self.observation.real

    def heads_of(self, layer: int) -> list[int]:
        """The numbers of the method's heads in a layer that has run."""
        return list(self.heads.resolve(self.observation.heads[layer], "head"))

    def by_layer(self, reading: str) -> list[Tensor]:
        """One reading of the method's heads, layer by layer, each (batch, heads, length)."""
        found = []
        for layer in self.layers:
            whole, chosen = self.observation.layers[layer][reading], self.heads_of(layer)
            found.append(whole if whole.shape[1] == len(chosen) else whole[:, chosen])  # or it was read of these alone
        return found

    def stacked(self, reading: str) -> Tensor:
        """One reading of all heads of all guided layers, as (batch, layers × heads, length)."""
        return torch.cat(self.by_layer(reading), dim=1)

    def tokens(self, which: Tokens) -> Tensor | None:
        """(batch, length) True for the tokens that count; None where all do."""
        if which == "all":
            return self.real
        if self.kinds is None or self.ids is None:
            raise UserError(
                "tokens=content needs to know the special tokens: give the tokenizer, attach(model, method, tokenizer), "
                "and call the model with input_ids"
            )
        special = self.kinds.is_special(self.ids)
        if self.real is not None and self.real.shape != special.shape:
            raise UserError(
                "tokens=content can't be told in a pass that goes on from a cache, whose first tokens the model is not "
                "given again; run such passes within guided.paused()"
            )
        return ~special if self.real is None else self.real & ~special
