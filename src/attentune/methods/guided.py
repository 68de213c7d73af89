"""A method brought to a model: `attach` observes the layers that the method asks for and turns the readings into its loss."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from attentune.attention import Backend, Observation, Observer, Reading, count_layers, observe
from attentune.errors import UserError
from attentune.methods.base import Method, Readings, Sum
from attentune.methods.spec import parse
from attentune.methods.tokens import find_special, special_ids

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
        self._special_ids = None if tokenizer is None else special_ids(tokenizer)
        self._passes: list[Observation] = []
        self._terms: dict[str, Tensor] | None = None
        self._is_asked = False  # whether the loss of these passes has been asked for: the next pass begins anew
        self._layers = _resolve_layers(model, method)
        self._observer: Observer | None = None
        if method.parts:
            self._observer = observe(model, self._plan, self._on_pass, backend)

    def loss(self) -> Tensor:
        """The weighted sum of the terms, to be added to the task's loss; a pass more makes it a sum over the passes.

        Asked twice without a forward pass between, it answers the same twice.
        """
        terms = self.terms
        self._is_asked = True
        total = torch.zeros((), device=self.model.device)
        for name, part in zip(self.method.names, self.method.parts, strict=True):
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
        wanted: dict[int, tuple[Reading, ...]] = {}
        for part, layers in zip(self.method.parts, self._layers, strict=True):
            for layer in layers:
                wanted[layer] = tuple(dict.fromkeys((*wanted.get(layer, ()), *part.reads())))
        return wanted

    def _on_pass(self, observation: Observation) -> None:
        in_training_step = bool(self._passes) and not self._is_asked and self._passes[-1].with_grad
        if in_training_step and not observation.with_grad:
            return  # a look at the model, in the middle of a training step, doesn't disturb it
        self._passes = [*self._passes, observation] if in_training_step else [observation]
        self._terms, self._is_asked = None, False
        if len(self._passes) == FORGOTTEN_PASSES:
            logger.warning(
                "%d forward passes and nobody asked for guided.loss(): each keeps its graph in memory; "
                "add guided.loss() to your loss, or run such passes under torch.no_grad() or guided.paused()",
                FORGOTTEN_PASSES,
            )

    def _compute_terms(self) -> dict[str, Tensor]:
        names = self.method.names
        if not names:
            return {}
        if not self._passes:
            raise UserError(
                "there is no loss yet: run the attached model itself (not a part of it) forward once, outside guided.paused()"
            )
        terms = {name: torch.zeros((), device=self.model.device) for name in names}
        for observation in self._passes:
            self._check_calls(len(observation.calls))
            special = self._special(observation)
            for name, part, layers in zip(names, self.method.parts, self._layers, strict=True):
                term = part.loss(Readings(observation, layers, part.heads, special))
                terms[name] = terms[name] + term.to(terms[name].device)
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

    def _special(self, observation: Observation) -> Tensor | None:
        """True for special tokens, as far as tokenizer and inputs tell."""
        ids = observation.inputs.get("input_ids")
        return None if self._special_ids is None else find_special(ids, self._special_ids)


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


def _resolve_layers(model: PreTrainedModel, method: Sum) -> list[tuple[int, ...]]:
    """The layers of each part; also checks what can be checked of the heads before a forward pass."""
    if not method.parts:
        return []
    if not isinstance(model, PreTrainedModel):
        raise UserError(f"only a transformers PreTrainedModel can be guided, not {type(model).__name__}")
    heads = getattr(model.config.get_text_config(), "num_attention_heads", None)
    if heads:
        for part in method.parts:
            part.heads.resolve(heads, "head")
    count = count_layers(model)
    return [part.layers.resolve(count, "layer") for part in method.parts]
