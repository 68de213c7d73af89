"""How much of their attention heads give to the positional patterns, as the pre-training paper pictures it.

A score is the attention that falls on a pattern's targets, a mean over the tokens that have one: 1 where a head does
nothing else, about 1 / length for a head that looks everywhere alike.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from attentune.attention import Observation, Reading, Selection, count_layers, mass, observe, reach
from attentune.errors import UserError
from attentune.methods import METHODS
from attentune.methods.passes import Pass
from attentune.methods.patterns import Pattern
from attentune.methods.tokens import TokenKinds


def pattern_scores(
    model: PreTrainedModel,
    tokenizer: Any,
    batches: Iterable[Mapping[str, Tensor]],
    patterns: Sequence[str] = ("first", "next", "prev", "same"),
) -> dict[str, Tensor]:
    """The score of each head for each pattern, (layers, heads), over batches of what the model takes.

    >>> from transformers import BertConfig, BertModel
    >>> config = BertConfig(
    ...     vocab_size=20, hidden_size=8, num_hidden_layers=2, num_attention_heads=2, intermediate_size=8
    ... )
    >>> scores = pattern_scores(BertModel(config), None, [{"input_ids": torch.tensor([[1, 2, 3]])}])
    >>> scores["next"].shape
    torch.Size([2, 2])
    """
    kinds = None if tokenizer is None else TokenKinds.of(tokenizer)
    chosen = {name: _pattern(name) for name in patterns}
    layers = tuple(range(count_layers(model)))
    found: dict[str, Tensor] = {}
    counted: dict[str, Tensor] = {}

    def plan(observation: Observation) -> dict[int, tuple[Reading, ...]]:
        reads: list[Reading] = []
        for name, pattern in chosen.items():
            seen = Pass(name, observation, layers, Selection(), kinds)
            pattern.check_told(seen)
            target = _Target(pattern, seen)
            reads += [mass(target, name), reach(target, f"{name}.reach")]
        return dict.fromkeys(layers, tuple(reads))

    def on_pass(observation: Observation) -> None:
        for name in chosen:
            masses, within = (
                torch.stack([observation.layers[layer][reading].float() for layer in layers])
                for reading in (name, f"{name}.reach")
            )  # each (layers, batch, heads, queries)
            rows = within > 0
            if observation.real is not None:
                rows = rows & observation.real[:, None, :].to(rows.device)
            shares = (masses / within.clamp_min(1)).masked_fill(~rows, 0)
            found[name] = found.get(name, torch.zeros(())) + shares.sum(dim=(1, 3)).cpu()
            counted[name] = counted.get(name, torch.zeros(())) + rows.sum(dim=(1, 3)).cpu()

    was_training = model.training
    model.eval()
    try:
        with torch.no_grad(), observe(model, plan, on_pass):
            for batch in batches:
                model(**{name: value.to(model.device) for name, value in batch.items()})
    finally:
        model.train(was_training)
    return {name: found[name] / counted[name].clamp_min(1) for name in found}


class _Target:
    """A pattern's target in a pass, made once for all layers."""

    def __init__(self, pattern: Pattern, seen: Pass) -> None:
        self.pattern, self.seen = pattern, seen
        self.made: dict[tuple[int, int], Tensor] = {}

    def __call__(self, queries: int, keys: int) -> Tensor:
        if (queries, keys) not in self.made:
            self.made[queries, keys] = self.pattern.target(self.seen, queries, keys)
        return self.made[queries, keys]


def _pattern(name: str) -> Pattern:
    kind = METHODS.get(name)
    if kind is None or not issubclass(kind, Pattern):
        known = ", ".join(name for name, kind in METHODS.items() if issubclass(kind, Pattern))
        raise UserError(f"there is no pattern {name!r}; the patterns are {known}")
    return kind()
