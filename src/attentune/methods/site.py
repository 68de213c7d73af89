"""Where a stock encoder's last hidden states go on to its pooler or head, and where the outputs of its layers are.

`final_hidden` lets a function replace the last hidden states, by forward hooks alone, for BERT, ALBERT, RoBERTa,
DistilBERT, ELECTRA and ModernBERT, with any head or none. What is put there is the caller's affair.
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from attentune.attention.inputs import bind_inputs, real_tokens
from attentune.errors import UserError

Revise = Callable[[Tensor, list[Tensor], Tensor | None], Tensor]
"""Given the last hidden states (batch, length, width), the output of each layer, and which tokens are real (batch,
length; None: all), the hidden states that pooler and head shall work on."""

Counted = Callable[[Mapping[str, Any]], Tensor | None]
"""Of a pass's inputs, which tokens count (batch, length); None: all."""


@dataclass(frozen=True)
class _Place:
    """The modules that matter, by their names within the base model."""

    end: str  # gives the last hidden states; or takes them, where they are still to be normalised
    layers: tuple[str, ...]  # a path to them, through lists
    is_before: bool = False


_ENCODER = _Place("encoder", ("encoder.layer",))
_PLACES = {
    "bert": _ENCODER,
    "roberta": _ENCODER,
    "xlm-roberta": _ENCODER,
    "electra": _ENCODER,
    "albert": _Place("encoder", ("encoder.albert_layer_groups", "albert_layers")),
    "distilbert": _Place("transformer", ("transformer.layer",)),
    "modernbert": _Place("final_norm", ("layers",), is_before=True),
}


@contextlib.contextmanager
def final_hidden(
    model: PreTrainedModel,
    revise: Revise,
    *,
    wants_layers: bool = False,
    is_normalised: bool = False,
    counted: Counted = real_tokens,
) -> Iterator[None]:
    """Within, `revise` is called once in each forward pass of `model` (or of its base model), and what it returns goes
    on to the pooler or head; for ModernBERT, to the final norm, unless the states are wanted `is_normalised`.

    `counted` says, of what the base model is called with, which tokens count; `revise` is given it as the real ones.

    With `wants_layers` it is given the output of each layer, in the order in which they ran, embeddings not counted;
    a layer that is shared (ALBERT) is there once for each time it ran. Several at once see each other's result, in
    the order in which they were entered, and the layers as they are.

    >>> from transformers import BertConfig, BertModel
    >>> config = BertConfig(
    ...     vocab_size=20, hidden_size=8, num_hidden_layers=2, num_attention_heads=2, intermediate_size=8
    ... )
    >>> model, ids = BertModel(config).eval(), torch.tensor([[1, 2, 3]])
    >>> with final_hidden(model, lambda last, layers, real: layers[0], wants_layers=True):
    ...     first = model(ids, output_hidden_states=True)
    >>> torch.equal(first.last_hidden_state, first.hidden_states[1])
    True
    """
    base, place = _find(model)
    site = _Site(base, revise, counted)
    with contextlib.ExitStack() as undo:
        hooks = [
            base.register_forward_pre_hook(site.begin, with_kwargs=True),
            base.register_forward_hook(site.finish, always_call=True),
        ]
        if wants_layers:
            hooks += [layer.register_forward_hook(site.collect) for layer in _layers(base, place)]
        end = base.get_submodule(place.end)
        hooks.append(
            end.register_forward_pre_hook(site.replace_input)
            if place.is_before and not is_normalised
            else end.register_forward_hook(site.replace_output)
        )
        for hook in hooks:
            undo.callback(hook.remove)
        yield


def check_site(model: PreTrainedModel) -> None:
    """Raise an error where `final_hidden` can't be had of `model`."""
    _find(model)


class _Site:
    """One forward pass after the other of a base model, from its hooks.

    Layers that run outside a pass, as gradient checkpointing makes them run again, are not collected. A copy of the
    model carries the hooks along; they stay those of the original, and do nothing for the copy.
    """

    def __init__(self, base: nn.Module, revise: Revise, counted: Counted) -> None:
        self.base, self.revise, self.counted = base, revise, counted
        self._is_open = False
        self._real: Tensor | None = None
        self._outputs: list[Tensor] = []

    def __deepcopy__(self, memo: dict[int, Any]) -> "_Site":
        return self

    @torch.compiler.disable
    def begin(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if module is self.base:
            self._is_open, self._outputs = True, []
            self._real = self.counted(bind_inputs(module, args, kwargs))

    @torch.compiler.disable
    def finish(self, module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        if module is self.base:
            self._is_open, self._outputs, self._real = False, [], None

    @torch.compiler.disable
    def collect(self, module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        if self._is_open:
            self._outputs.append(output[0] if isinstance(output, tuple) else output)

    @torch.compiler.disable
    def replace_output(self, module: nn.Module, args: tuple[Any, ...], output: Any) -> Any:
        if not self._is_open:
            return None
        if isinstance(output, Tensor):
            return self._revised(output)
        if isinstance(output, tuple):
            return (self._revised(output[0]), *output[1:])
        output.last_hidden_state = self._revised(output.last_hidden_state)
        return output

    @torch.compiler.disable
    def replace_input(self, module: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...] | None:
        return (self._revised(args[0]), *args[1:]) if self._is_open else None

    def _revised(self, last: Tensor) -> Tensor:
        return self.revise(last, list(self._outputs), self._real)


def _find(model: PreTrainedModel) -> tuple[PreTrainedModel, _Place]:
    """The base model within `model`, and where in it the last hidden states are."""
    name = type(model).__name__
    base = getattr(model, "base_model", None)
    kind = getattr(getattr(base, "config", None), "model_type", None)
    place = _PLACES.get(str(kind))
    if not isinstance(base, PreTrainedModel) or place is None:
        raise UserError(
            f"{name} isn't an encoder whose last hidden states can be changed on their way to the head; "
            "use BERT, ALBERT, RoBERTa, DistilBERT, ELECTRA or ModernBERT"
        )
    if getattr(base.config, "is_decoder", False):
        raise UserError(
            f"{name} is set up as a decoder (is_decoder), whose tokens may not see those after them; use it as an encoder"
        )
    try:
        base.get_submodule(place.end), _layers(base, place)
    except AttributeError as error:
        raise UserError(
            f"{name} calls itself {kind!r}, but isn't laid out like transformers' own ({error}); use the stock model"
        ) from None
    return base, place


def _layers(base: nn.Module, place: _Place) -> list[nn.Module]:
    """The layers of a base model, each once."""
    found = [base]
    for path in place.layers:
        found = [inner for outer in found for inner in outer.get_submodule(path).children()]
    return found
