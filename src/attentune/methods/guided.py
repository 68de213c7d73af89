"""A method brought to a model: `attach` observes the layers that the method asks for and turns the readings into its loss."""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from types import TracebackType
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from attentune.attention import Backend, Observation, Observer, Reading, Selection, base_model, count_layers, observe
from attentune.errors import UserError
from attentune.methods.auto import Auto, AutoWeights
from attentune.methods.base import Method, Objective, Sum, Watch
from attentune.methods.epochs import Epochs
from attentune.methods.lasting import LastingChanges
from attentune.methods.masking import Progress, Rows
from attentune.methods.passes import Pass
from attentune.methods.se import layer_weights
from attentune.methods.spec import parse
from attentune.methods.ssa import token_scores
from attentune.methods.tokens import TokenKinds

logger = logging.getLogger(__name__)

FORGOTTEN_PASSES = 32
"""So many passes in a row whose loss nobody asked for: most likely forgotten, and each keeps its graph in memory."""


class Guided:
    """A model under guidance, until `detach` or the end of its `with` block.

    `loss` is the weighted sum for the forward passes since it was last asked for, `terms` the parts by name.
    `progress`, from 0 to 1, is what schedules go by; a trainer moves it. `step` is what the measurements of `auto`
    weights go by: in a loop of one's own each loss that is asked for is a step, a trainer sets it.
    """

    def __init__(
        self,
        model: nn.Module,
        method: Sum,
        tokenizer: Any,
        backend: Backend,
        trained: Mapping[str, Tensor] | None = None,
    ) -> None:
        self.model: PreTrainedModel = base_model(model)
        self.method, self.progress, self.step = method, 0.0, 0
        self.tokenizer = tokenizer
        self._kinds = None if tokenizer is None else TokenKinds.of(tokenizer)
        self._given: Mapping[str, Any] = {}
        self._next: list[Pass] = []  # the pass under way, as each guide sees it
        self._passes: list[list[Pass]] = []
        self._terms: dict[str, Tensor] | None = None
        self._is_asked = False  # whether the loss of these passes has been asked for: the next pass begins anew
        self._guides = {
            name: part for name, part in zip(method.names, method.parts, strict=True) if isinstance(part, Objective)
        }
        self._heads = [
            part.choose_heads(method.parts[:i]) for i, part in enumerate(method.parts) if isinstance(part, Objective)
        ]
        weights = {name: getattr(part, "weight", None) for name, part in self._guides.items()}
        self._auto = AutoWeights({name: weight for name, weight in weights.items() if isinstance(weight, Auto)})
        self._is_weighed = False  # whether the weights for these passes are found: asked again, they are the same
        self._layers = _resolve_layers(self.model, list(self._guides.values()), self._heads)
        self._observer: Observer | None = None
        self.epochs = Epochs(method, tokenizer)
        self._changes = LastingChanges(model, method, trained, self._kinds)
        self._around = ExitStack()
        if method.parts:
            self._observer = observe(model, self._plan, self._on_pass, backend, self._changes.revisions)
            try:
                self._changes.begin()
                for name, part in zip(method.names, method.parts, strict=True):
                    self._around.enter_context(part.around(model, self._watch(name)))
            except BaseException:
                self._around.close()
                self._changes.end()
                self._observer.detach()
                raise

    def give(self, values: Mapping[str, Any]) -> None:
        """What the data has for the methods in the next forward pass, by column, as their `collate` makes it of rows."""
        self._given = values

    def loss(self, task_loss: Tensor | None = None) -> Tensor:
        """The guides' loss, the weighted sum of the terms, to be added to the task's; a pass more makes it a sum over
        the passes. Given the task's loss, it returns the total that is to be minimised, the task's part included: all of
        it, or the share that a method (ssa) leaves.

        Weights of `auto` are measured against the task, so there it must be given. Asked twice without a forward pass
        between, it answers the same twice.
        """
        share = self.method.task_share
        if share != 1:
            if task_loss is None:
                raise UserError(
                    "ssa weighs the task's loss as well as its own (alpha): write guided.loss(task_loss), which returns both "
                    "together, instead of task_loss + guided.loss()"
                )
            task_loss = share * task_loss
        terms = self.terms
        if self._auto.autos:
            self._weigh(task_loss, terms)
        self._is_asked = True
        total = torch.zeros((), device=self.model.device)
        for name, weight in self.weights.items():
            total = total + weight * terms[name]
        return total if task_loss is None else task_loss + total.to(task_loss.device)

    @property
    def weights(self) -> dict[str, float]:
        """The weight of each guide at this moment, as measured and with its schedule; to look at them changes nothing."""
        return {name: part.weight_at(self.progress, self._auto[name]) for name, part in self._guides.items()}

    def state_dict(self) -> dict[str, Any]:
        """The state of training, as plain numbers: kept with a checkpoint and given back to `load_state_dict`, training
        goes on as if it had never stopped. There is one where weights are `auto`, and none elsewhere."""
        return {"step": self.step, **self._auto.state_dict()} if self._auto.autos else {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state_dict` gave."""
        if state:
            self.step = int(state["step"])
            self._auto.load_state_dict(state)

    @property
    def terms(self) -> dict[str, Tensor]:
        """Each method's loss before its weight, by name; to look at them changes nothing."""
        if self._terms is None:
            self._terms = self._compute_terms()
        return dict(self._terms)

    def discard(self) -> None:
        """Forget the passes whose loss nobody will ask for."""
        self._passes, self._terms, self._is_asked, self._is_weighed = [], None, False, False

    def detach(self) -> None:
        """Give the model back as it was, bit for bit; harmless when done twice."""
        self.discard()
        self._around.close()
        self._changes.end()
        if self._observer is not None:
            self._observer.detach()

    @property
    def added(self) -> nn.ModuleDict:
        """What lasting methods have added to the model's parameters, by method; it outlives `detach`."""
        return self._changes.added

    @property
    def layer_weights(self) -> Tensor:
        """The weight that `se` gave each layer in the last pass, (batch, layers): Eq. 3, Figure 4."""
        return layer_weights(self.added)

    @property
    def token_scores(self) -> Tensor:
        """What `ssa` takes each token to matter, in the last pass, (batch, length) from 0 to 1, as in the paper's Figure 8;
        0 for special tokens and padding."""
        return token_scores(self.added)

    def begin_epoch(
        self,
        number: int,
        rows: Rows,
        *,
        collate: Callable[[list[Any]], Mapping[str, Any]] | None = None,
        label: str = "labels",
        seed: int = 0,
        batch_size: int = 64,
        progress: Progress = lambda done, total: None,
    ) -> dict[str, float]:
        """Before an epoch, from 0 on: let methods (ssa, maskaug) make what they need of the training data, by the model as
        it is now. Returns figures about it.

        `rows` are the tokenized texts with their label; without `collate` the tokenizer pads them. A trainer calls it.
        """
        self.discard()
        pad = collate or (lambda chosen: self.tokenizer.pad(chosen, return_tensors="pt"))
        with self.paused():
            return self.epochs.begin(
                self.model, number, rows, collate=pad, label=label, seed=seed, batch_size=batch_size, progress=progress
            )

    def bring(self, numbers: Tensor | Sequence[int], inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Of a batch, made of the rows of these numbers, what the model shall be called with; what methods have made of the
        rows goes to the next forward pass."""
        given, brought = self.epochs.bring(torch.as_tensor(numbers), dict(inputs))
        self.give({**self._given, **given})
        return brought

    def rest(self) -> None:
        """From now on nothing is read, as within `paused`: for a model that only predicts."""
        if self._observer is not None:
            self._observer.pause()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Within, nothing is read and no loss is made, at no cost; what changes the forward pass goes on."""
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

    def _watch(self, name: str) -> Watch:
        def seen() -> Pass | None:
            return next((view for view in self._next if view.name == name), None)

        observer = self._observer
        assert observer is not None
        return Watch(lambda: not observer.is_paused, lambda: self._given, seen)

    def _plan(self, observation: Observation) -> dict[int, tuple[Reading, ...]]:
        given, self._given = self._given, {}
        added = dict(self.added.items())
        self._next = [
            Pass(name, observation, layers, heads, self._kinds, given, added.get(name))
            for name, layers, heads in zip(self._guides, self._layers, self._heads, strict=True)
        ]
        observation.traced = {layer for seen in self._next if seen.name in self._auto.autos for layer in seen.layers}
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
        self._terms, self._is_asked, self._is_weighed = None, False, False
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

    def _weigh(self, task_loss: Tensor | None, terms: Mapping[str, Tensor]) -> None:
        """Measure the weights whose time has come, on the passes at hand."""
        if task_loss is None:
            raise UserError(
                f"the weight of {' and '.join(self._auto.autos)} is auto, a fraction of the task's gradient: write "
                "guided.loss(task_loss), which returns task and guide together, instead of task_loss + guided.loss()"
            )
        in_training = self._passes[-1][0].observation.with_grad and torch.is_grad_enabled()
        if self._is_weighed or not in_training:
            return
        observations = [views[0].observation for views in self._passes]
        edges = {
            seen.name: [edge for one in observations for layer in seen.layers for edge in one.edges.get(layer, ())]
            for seen in self._passes[-1]
            if seen.name in self._auto.autos
        }
        self._auto.measure(self.step, task_loss, terms, edges)
        self.step += 1
        self._is_weighed = True

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
    model: nn.Module,
    method: Method | Sum | str,
    tokenizer: Any = None,
    *,
    backend: Backend = "auto",
    trained: Mapping[str, Tensor] | None = None,
) -> Guided:
    """Guide a stock transformers model while it is trained, on any loop.

    `method` is a method, a sum of methods or its text; `tokenizer` is needed where a method looks at tokens
    (tokens=content). `trained` gives methods with parameters (se) those of an earlier time: `guided.added.state_dict()`.

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
    return Guided(model, Sum(method.parts), tokenizer, backend, trained)


def _resolve_layers(
    model: PreTrainedModel, guides: Sequence[Objective], heads: Sequence[Selection]
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
    return [guide.read_layers(layers) for guide in guides]
