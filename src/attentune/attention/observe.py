"""Readings from a stock transformers model while it runs, and their gradients into it.

transformers dispatches attention by name, through `AttentionInterface`. `observe` registers, beside each implementation
that it meets ("sdpa", "eager"), a wrapper of it, and gives the model the wrapper's name. The wrapper calls what the
model had, or, where nothing would differ, computes output and readings in one fused pass; for modules that nobody
observes it is what it wraps. Detached, the model has its own implementation again and nothing of ours is left on it.
"""

import contextlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, get_gradient_edge
from transformers import PreTrainedModel

from attentune.attention.attend import Backend, attend, drops_out, read_attention
from attentune.attention.checkpointing import carry_through_checkpoints
from attentune.attention.inputs import bind_inputs, real_tokens
from attentune.attention.interface import (
    check_supported,
    is_causal,
    observers,
    own_implementation,
    wrapped_implementations,
)
from attentune.attention.readings import OF_LAYERS, Reading
from attentune.attention.wrapped import base_model, entrances
from attentune.errors import UserError

Plan = Callable[["Observation"], Mapping[int, tuple[Reading, ...]]]
"""Which readings to take on which layers in the forward pass that is about to begin."""


class Revision(Protocol):
    """A change to what a layer's attention works on or gives; it is made in every pass, observed or paused."""

    def value(self, value: Tensor, observation: "Observation") -> Tensor:
        """The values (batch, heads, keys, dim) that the layer shall use."""

    def output(self, output: Tensor, observation: "Observation") -> Tensor:
        """The context (batch, queries, heads, dim) that the layer shall give, before its output projection."""


@dataclass(eq=False)
class Observation:
    """One forward pass: its inputs, and the readings of each layer that was asked for them."""

    inputs: Mapping[str, Any]
    real: Tensor | None  # (batch, length) True for tokens that aren't padding; None: no padding
    with_grad: bool
    wanted: Mapping[int, tuple[Reading, ...]] = field(default_factory=dict)
    layers: dict[int, Mapping[str, Tensor]] = field(default_factory=dict)
    traced: Collection[int] = ()  # the layers whose queries and keys are to be found again in the graph
    edges: dict[int, tuple[GradientEdge, ...]] = field(
        default_factory=dict
    )  # where they are: those that need a gradient
    calls: list[nn.Module] = field(default_factory=list)  # the module of each attention call: the position is the layer
    heads: list[int] = field(default_factory=list)  # how many heads each of these has
    is_open: bool = True


@dataclass
class _Cursor:
    """Where in a pass the model is: the next attention call is that of `layer`."""

    observation: Observation
    layer: int = 0


class Observer:
    """Takes the readings that `plan` asks for in each forward pass of `model`; made by `observe`, undone by `detach`."""

    def __init__(
        self,
        model: nn.Module,
        plan: Plan,
        on_pass: Callable[[Observation], None],
        backend: Backend,
        revisions: Mapping[int, tuple[Revision, ...]],
    ) -> None:
        self.model: PreTrainedModel = base_model(model)
        self.plan, self.on_pass, self.backend = plan, on_pass, backend
        self.revisions = revisions
        self._entrances = entrances(model)
        self._entered: nn.Module | None = None
        self._cursor: _Cursor | None = None
        self._latest: Observation | None = None
        self._is_paused = False
        self._watching: list[tuple[Plan, Callable[[Observation], None]]] = []
        self._undo = contextlib.ExitStack()
        with contextlib.ExitStack() as undo:
            undo.enter_context(wrapped_implementations(self.model))
            for module in self.model.modules():
                observers[module] = self
                undo.callback(observers.pop, module, None)
            for entrance in self._entrances:
                hook = entrance.register_forward_pre_hook(self._begin, with_kwargs=True, prepend=True)
                undo.callback(hook.remove)
                hook = entrance.register_forward_hook(self._end, always_call=True)
                undo.callback(hook.remove)
            undo.enter_context(carry_through_checkpoints(self.model, self, self._entrances))
            self._undo = undo.pop_all()

    def detach(self) -> None:
        """Give the model back as it was; harmless when done twice."""
        self._undo.close()

    @property
    def is_paused(self) -> bool:
        """Whether forward passes go by unread."""
        return self._is_paused

    def pause(self) -> None:
        """From now on, forward passes are as within `paused`."""
        self._is_paused = True

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Within, forward passes are the model's own, revisions aside: nothing is read and nothing is paid."""
        before, self._is_paused = self._is_paused, True
        try:
            yield
        finally:
            self._is_paused = before

    @contextlib.contextmanager
    def watched(self, plan: Plan, on_pass: Callable[[Observation], None]) -> Iterator[None]:
        """Within, somebody else takes readings as well, paused or not; what is read for `self.plan` stays the same."""
        watching = (plan, on_pass)
        self._watching.append(watching)
        try:
            yield
        finally:
            self._watching.remove(watching)

    def __enter__(self) -> "Observer":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.detach()

    def __deepcopy__(self, memo: dict[int, Any]) -> "Observer":
        """A copy of the model carries our hooks along; they stay those of the original, and do nothing for the copy."""
        return self

    # The forward pass, from the model's hooks.

    @torch.compiler.disable
    def _begin(self, model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if self._entered not in (None, model) or not any(model is entrance for entrance in self._entrances):
            return
        self._entered = model
        if self._is_paused and not self.revisions and not self._watching:
            return
        inputs = bind_inputs(self.model, args, kwargs)
        observation = Observation(inputs, real_tokens(inputs), torch.is_grad_enabled())
        plans = (
            [plan for plan, _ in self._watching] if self._is_paused else [self.plan, *(p for p, _ in self._watching)]
        )
        observation.wanted = _merged([plan(observation) for plan in plans])
        self._cursor = _Cursor(observation)

    @torch.compiler.disable
    def _end(self, model: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        if model is not self._entered:
            return
        self._entered = None
        if self._cursor is None:
            return
        observation, self._cursor = self._cursor.observation, None
        observation.is_open = False
        if output is None:  # the forward pass failed
            return
        if not self._is_paused:
            self._latest = observation
            self.on_pass(observation)
        for _, on_pass in tuple(self._watching):
            on_pass(observation)

    # Gradient checkpointing runs layers again in the backward pass: the same work, but nothing new is read.

    def position(self) -> tuple[Observation, int] | None:
        """Where the model is, for a checkpoint to come back to."""
        return None if self._cursor is None else (self._cursor.observation, self._cursor.layer)

    @contextlib.contextmanager
    def back_at(self, position: tuple[Observation, int] | None) -> Iterator[None]:
        """Within, the model is at `position` again; the pass itself, if it is still going on, is left alone."""
        if position is None or position[0].is_open:
            yield
            return
        before, self._cursor = self._cursor, _Cursor(*position)
        try:
            yield
        finally:
            self._cursor = before

    # One attention call.

    def attention(
        self,
        base: str,
        module: nn.Module,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | None,
        **kwargs: Any,
    ) -> tuple[Tensor, Tensor | None]:
        """What the model's own implementation returns, having taken the layer's readings on the way."""
        own = own_implementation(base, module)
        weights: Tensor | None = None
        cursor = self._cursor or self._cursor_of_foreign_checkpoint(module)
        if cursor is None:
            return own(module, query, key, value, mask, **kwargs)
        observation, layer = cursor.observation, cursor.layer
        cursor.layer += 1
        if observation.is_open:
            observation.calls.append(module)
            observation.heads.append(query.shape[1])
            if layer in observation.traced:
                observation.edges[layer] = tuple(get_gradient_edge(x) for x in (query, key) if x.requires_grad)
        revisions = self.revisions.get(layer, ())
        for revision in revisions:
            value = revision.value(value, observation)
        wanted = observation.wanted.get(layer, ())
        if wanted and observation.with_grad and not torch.is_grad_enabled():
            raise UserError(
                "reentrant gradient checkpointing hides the attention from the guide; "
                'use gradient_checkpointing_kwargs={"use_reentrant": False}'
            )
        read = tuple(reading for reading in wanted if reading not in OF_LAYERS)
        readings: dict[str, Tensor] = {}
        dropout = kwargs.get("dropout") or 0.0
        if read and base == "sdpa" and (not dropout or drops_out(query)):
            arguments = self._arguments(base, module, query, mask, kwargs, observation, read)
            attended = attend(query, key, value, dropout=dropout, **arguments)
            output = attended.output.transpose(1, 2).contiguous()
            readings.update(attended.readings)
        else:
            output, weights = own(module, query, key, value, mask, **kwargs)
            if read:
                arguments = self._arguments(base, module, query, mask, kwargs, observation, read)
                readings.update(read_attention(query, key, **arguments))
        output = self._revised(output, observation, revisions)
        if "outputs" in wanted:
            readings["outputs"] = output.transpose(1, 2)
        if "values" in wanted:
            shared = query.shape[1] // value.shape[1]
            readings["values"] = value if shared == 1 else value.repeat_interleave(shared, dim=1)
        if wanted and observation.is_open:
            observation.layers[layer] = readings
        return output, weights

    def _arguments(
        self,
        base: str,
        module: nn.Module,
        query: Tensor,
        mask: Tensor | None,
        kwargs: Mapping[str, Any],
        observation: Observation,
        read: tuple[Reading, ...],
    ) -> dict[str, Any]:
        """What `attend` has to know of a call beside its tensors."""
        check_supported(module, kwargs)
        weight = observation.real
        return {
            "mask": mask,
            "scale": kwargs.get("scaling"),
            "query_weight": None if weight is None else weight[:, -query.shape[2] :],
            "is_causal": base == "sdpa" and mask is None and query.shape[2] > 1 and is_causal(module, kwargs),
            "read": read,
            "backend": self.backend,
        }

    @staticmethod
    def _revised(output: Tensor, observation: Observation, revisions: tuple[Revision, ...]) -> Tensor:
        for revision in revisions:
            output = revision.output(output, observation)
        return output

    def _cursor_of_foreign_checkpoint(self, module: nn.Module) -> _Cursor | None:
        """A checkpoint that isn't transformers' runs a layer again: which layer of which pass can only be told from the last."""
        in_backward = torch._C._current_graph_task_id() != -1
        if not in_backward or self._latest is None:
            return None
        layers = [layer for layer, called in enumerate(self._latest.calls) if called is module]
        if len({self._latest.wanted.get(layer, ()) for layer in layers}) > 1:
            raise UserError(
                "torch.utils.checkpoint around a layer that is used several times, but not always guided, can't be followed; "
                "guide all layers, or use the model's gradient_checkpointing_enable()"
            )
        return _Cursor(self._latest, layers[0]) if layers else None


def _merged(plans: Sequence[Mapping[int, tuple[Reading, ...]]]) -> Mapping[int, tuple[Reading, ...]]:
    if len(plans) == 1:
        return plans[0]
    layers = sorted({layer for plan in plans for layer in plan})
    return {layer: tuple(dict.fromkeys(r for plan in plans for r in plan.get(layer, ()))) for layer in layers}


def observe(
    model: nn.Module,
    plan: Plan,
    on_pass: Callable[[Observation], None],
    backend: Backend = "auto",
    revisions: Mapping[int, tuple[Revision, ...]] | None = None,
) -> Observer:
    """Take readings in each forward pass of `model`, which may be inside a peft model, until the observer is detached
    (or its `with` block ends).

    `plan` is asked at the beginning of each pass which readings to take on which layers, `on_pass` is given the
    finished pass; `revisions` change what layers work on. Layers are numbered by the order in which a pass comes to
    them: where layers share weights (ALBERT), each pass is its own.

    >>> from transformers import BertConfig, BertModel
    >>> config = BertConfig(
    ...     vocab_size=20, hidden_size=8, num_hidden_layers=2, num_attention_heads=2, intermediate_size=8
    ... )
    >>> model, passes = BertModel(config), []
    >>> with observe(model, lambda observation: {1: ("received",)}, passes.append):
    ...     _ = model(input_ids=torch.tensor([[1, 2, 3]]))
    >>> passes[0].layers[1]["received"].shape
    torch.Size([1, 2, 3])
    """
    return Observer(model, plan, on_pass, backend, revisions or {})


def count_layers(model: PreTrainedModel) -> int:
    """How many attention layers one forward pass goes through."""
    config = model.config.get_text_config()
    count = getattr(config, "num_hidden_layers", None)
    if count is None:
        raise UserError(
            f"{type(model).__name__} does not say how many layers it has (num_hidden_layers), so it can't be guided"
        )
    return int(count) * int(getattr(config, "inner_group_num", 1))  # ALBERT may hold several layers in a group
