"""A method brought to a model: `attach` observes the layers that the method asks for and turns the readings into its loss."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from attentune.attention import Backend, Observation, Observer, Reading, Selection, count_layers, observe
from attentune.errors import UserError
from attentune.methods.base import Guide, Method, Sum
from attentune.methods.passes import Pass
from attentune.methods.spec import parse
from attentune.methods.tokens import TokenKinds

logger = logging.getLogger(__name__)

FORGOTTEN_PASSES = 32
"""So many passes in a row whose loss nobody asked for: most likely forgotten, and each keeps its graph in memory."""


class Guided:
    """A model under guidance, until `detach` or the end of its `with` block.

    `loss` is the weighted sum for the forward passes since it was last asked for, `terms` the parts by name.
    `progress`, from 0 to 1, is what schedules go by; a trainer moves it.
    """

    def __init__(self, model: PreTrainedModel, method: Sum, tokenizer: Any, backend: Backend) -> None:
        self.model, self.method, self.progress = model, method, 0.0
        self._kinds = None if tokenizer is None else TokenKinds.of(tokenizer)
        self._given: Mapping[str, Any] = {}
        self._next: list[Pass] = []  # the pass under way, as each guide sees it
        self._passes: list[list[Pass]] = []
        self._terms: dict[str, Tensor] | None = None
        self._is_asked = False  # whether the loss of these passes has been asked for: the next pass begins anew
        self._guides = {
            name: part for name, part in zip(method.names, method.parts, strict=True) if isinstance(part, Guide)
        }
        self._heads = [
            part.choose_heads(method.parts[:i]) for i, part in enumerate(method.parts) if isinstance(part, Guide)
        ]
        self._layers = _resolve_layers(model, list(self._guides.values()), self._heads)
        self._observer: Observer | None = None
        if method.parts:
            self._observer = observe(model, self._plan, self._on_pass, backend)

    def give(self, values: Mapping[str, Any]) -> None:
        """What the data has for the methods in the next forward pass, by column, as their `collate` makes it of rows."""
        self._given = values

    def loss(self) -> Tensor:
        """The weighted sum of the terms, to be added to the task's loss; a pass more makes it a sum over the passes.

        Asked twice without a forward pass between, it answers the same twice.
        """
        terms = self.terms
        self._is_asked = True
        total = torch.zeros((), device=self.model.device)
        for name, part in self._guides.items():
            total = total + part.weight * part.schedule.factor(self.progress) * terms[name]
        return total

    @property
    def terms(self) -> dict[str, Tensor]:
        """Each method's loss before its weight, by name; to look at them changes nothing."""
        if self._terms is None:
            self._terms = self._compute_terms()
        return dict(self._terms)

    def discard(self) -> None:
        """Forget the passes whose loss nobody will ask for."""
        self._passes, self._terms, self._is_asked = [], None, False

    def detach(self) -> None:
        """Give the model back as it was, bit for bit; harmless when done twice."""
        self.discard()
        if self._observer is not None:
            self._observer.detach()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Within, the model runs as if it weren't guided, at no cost."""
        if self._observer is None:
            yield
        else:
            with self._observer.paused():
                yield

    def __enter__(self) -> "Guided":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.detach()

    def _plan(self, observation: Observation) -> dict[int, tuple[Reading, ...]]:
        given, self._given = self._given, {}
        self._next = [
            Pass(name, observation, layers, heads, self._kinds, given)
            for name, layers, heads in zip(self._guides, self._layers, self._heads, strict=True)
        ]
        wanted: dict[int, tuple[Reading, ...]] = {}
        for part, seen in zip(self._guides.values(), self._next, strict=True):
            reads = part.reads(seen)
            for layer in seen.layers:
                wanted[layer] = tuple(dict.fromkeys((*wanted.get(layer, ()), *reads)))
        return wanted

    def _on_pass(self, observation: Observation) -> None:
        if not self._guides:
            return
        latest = self._passes[-1][0].observation if self._passes else None
        in_training_step = latest is not None and not self._is_asked and latest.with_grad
        if in_training_step and not observation.with_grad:
            return  # a look at the model, in the middle of a training step, doesn't disturb it
        self._passes = [*self._passes, self._next] if in_training_step else [self._next]
        self._terms, self._is_asked = None, False
        if len(self._passes) == FORGOTTEN_PASSES:
            logger.warning(
                "%d forward passes and nobody asked for guided.loss(): each keeps its graph in memory; "
                "add guided.loss() to your loss, or run such passes under torch.no_grad() or guided.paused()",
                FORGOTTEN_PASSES,
            )

    def _compute_terms(self) -> dict[str, Tensor]:
        if not self._guides:
            return {}
        if not self._passes:
            raise UserError(
                "there is no loss yet: run the attached model itself (not a part of it) forward once, outside guided.paused()"
            )
        terms = {name: torch.zeros((), device=self.model.device) for name in self._guides}
        for views in self._passes:
            self._check_calls(len(views[0].observation.calls))
            for part, seen in zip(self._guides.values(), views, strict=True):
                term = part.loss(seen)
                terms[seen.name] = terms[seen.name] + term.to(self.model.device)
        return terms

    def _check_calls(self, calls: int) -> None:
        """Layers are numbered by their attention calls, so there must be as many of these as layers."""
        count = count_layers(self.model)
        name = type(self.model).__name__
        if calls == 0:
            raise UserError(
                f"{name} can't be guided: none of its layers ran attention through transformers' AttentionInterface "
                "(has set_attn_implementation been called while it was attached?)"
            )
        if calls != count:
            raise UserError(
                f"{name} can't be guided: a forward pass called attention {calls} times, and its configuration tells of "
                f"{count} layers, so that it isn't clear which is which"
            )


def attach(
    model: PreTrainedModel,
    method: Method | Sum | str,
    tokenizer: Any = None,
    *,
    backend: Backend = "auto",
) -> Guided:
    """Guide a stock transformers model while it is trained, on any loop.

    `method` is a method, a sum of methods or its text; `tokenizer` is needed where a method looks at tokens
    (tokens=content).

    >>> from transformers import BertConfig, BertForSequenceClassification
    >>> config = BertConfig(
    ...     vocab_size=20, hidden_size=8, num_hidden_layers=2, num_attention_heads=2, intermediate_size=8
    ... )
    >>> model = BertForSequenceClassification(config)
    >>> batch = {"input_ids": torch.tensor([[1, 2, 3]]), "labels": torch.tensor([1])}
    >>> with attach(model, "mdg(0.1) + pdg(0.001)") as guided:
    ...     loss = model(**batch).loss + guided.loss()
    ...     loss.backward()
    """
    if isinstance(method, str):
        method = parse(method)
    return Guided(model, Sum(method.parts), tokenizer, backend)


def _resolve_layers(
    model: PreTrainedModel, guides: Sequence[Guide], heads: Sequence[Selection]
) -> list[tuple[int, ...]]:
    """The layers of each guide; also checks what can be checked of the heads before a forward pass."""
    if not guides:
        return []
    if not isinstance(model, PreTrainedModel):
        raise UserError(f"only a transformers PreTrainedModel can be guided, not {type(model).__name__}")
    count = getattr(model.config.get_text_config(), "num_attention_heads", None)
    if count:
        for choice in heads:
            choice.resolve(count, "head")
    layers = count_layers(model)
    return [guide.layers.resolve(layers, "layer") for guide in guides]
