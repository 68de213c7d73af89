"""transformers' AttentionInterface, where models look up their attention by name: our wrappers of what they find there.

A model under observation has the name of a wrapper in its configuration; the wrapper hands each call to the module's
observer, or, for modules that nobody observes, to what it wraps.
"""

import contextlib
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.masking_utils import AttentionMaskInterface
from transformers.modeling_utils import AttentionInterface

from attentune.errors import UserError

PREFIX = "attentune_"
WRAPPED = ("sdpa", "eager")


class TakesAttention(Protocol):
    """What a module's attention calls are handed to."""

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
        """What the implementation `base` returns."""


observers: "WeakKeyDictionary[nn.Module, TakesAttention]" = WeakKeyDictionary()
"""Who observes a module."""
_users: dict[int, int] = {}  # how many observed models share a configuration, by its id


@contextlib.contextmanager
def wrapped_implementations(model: PreTrainedModel) -> Iterator[None]:
    """Within, the model's attention goes through our wrapper of the implementation that it had."""
    name = type(model).__name__
    if not isinstance(model, PreTrainedModel):
        raise UserError(f"only a transformers PreTrainedModel can be guided, not {name}")
    if getattr(model.config, "is_encoder_decoder", False):
        raise UserError(
            f"{name} can't be guided: encoder-decoder models, with their two kinds of attention, aren't supported"
        )
    for part in model.modules():
        if isinstance(part, PreTrainedModel) and not type(part)._can_set_attn_implementation():
            raise UserError(
                f"{type(part).__name__} can't be guided: it computes its attention itself instead of through transformers' "
                "AttentionInterface; use a model that does, such as BERT, RoBERTa, ALBERT, DistilBERT, ELECTRA or ModernBERT"
            )
    if getattr(model.config, "add_cross_attention", False):
        raise UserError(f"{name} can't be guided: its layers have two kinds of attention (add_cross_attention)")
    if any(module in observers for module in model.modules()):
        raise UserError(
            f"this {name} is guided already; detach the first guide, or add the methods: 'mdg(0.1) + pdg(0.01)'"
        )
    configs = {id(part.config): part.config for part in model.modules() if isinstance(part, PreTrainedModel)}
    # A prefix that is there already is that of a copy made while attached, or of a guided model of the same configuration.
    own = [(config, str(config._attn_implementation).removeprefix(PREFIX)) for config in configs.values()]
    for _, implementation in own:
        if implementation not in WRAPPED:
            raise UserError(
                f"{name} runs the attention implementation {implementation!r}, whose masks can't be read; "
                "call model.set_attn_implementation('sdpa') first (it is fused as well)"
            )
    try:
        for config, implementation in own:
            _register(implementation)
            _users[id(config)] = _users.get(id(config), 0) + 1
            # Just the internal field, as transformers itself does it: the public one would reach into
            # sub-configurations.
            config._attn_implementation_internal = PREFIX + implementation
        yield
    finally:
        for config, implementation in own:
            _users[id(config)] -= 1
            if not _users[id(config)]:
                del _users[id(config)]
                config._attn_implementation_internal = implementation


def _register(base: str) -> None:
    """Register our wrapper of `base`, once, with the masks that `base` expects."""
    if PREFIX + base in AttentionInterface._global_mapping:
        return

    @torch.compiler.disable
    def through_observer(
        module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **kwargs: Any
    ) -> tuple[Tensor, Tensor | None]:
        observer = observers.get(module)
        if observer is None:  # a copy of the model, or another one that shares its configuration
            return own_implementation(base, module)(module, query, key, value, attention_mask, **kwargs)
        return observer.attention(base, module, query, key, value, attention_mask, **kwargs)

    AttentionInterface.register(PREFIX + base, through_observer)
    AttentionMaskInterface.register(PREFIX + base, AttentionMaskInterface()[base])


def own_implementation(base: str, module: nn.Module) -> Callable[..., tuple[Tensor, Tensor | None]]:
    """The function that the module would have called: eager ones live in the file of the model."""
    if base != "eager":
        function: Callable[..., tuple[Tensor, Tensor | None]] = AttentionInterface._global_mapping[base]
        return function
    for kind in type(module).__mro__:
        eager = getattr(sys.modules.get(kind.__module__), "eager_attention_forward", None)
        if eager is not None:
            return eager  # type: ignore[no-any-return]
    raise UserError(
        f"{type(module).__name__} keeps its eager attention where it can't be found; "
        "call model.set_attn_implementation('sdpa') first"
    )


def is_causal(module: nn.Module, kwargs: Mapping[str, Any]) -> bool:
    """As transformers' sdpa decides it, where there is no mask."""
    asked = kwargs.get("is_causal")
    return bool(getattr(module, "is_causal", True) if asked is None else asked)


def check_supported(module: nn.Module, kwargs: Mapping[str, Any]) -> None:
    """Raise an error where a model's attention is more than a softmax of scaled products and a mask."""
    for name, what in (
        ("softcap", "soft-capped scores"),
        ("s_aux", "attention sinks"),
        ("position_bias", "a learned position bias"),
    ):
        if kwargs.get(name) is not None:
            raise UserError(f"{type(module).__name__} can't be guided: it uses {what}, which the readings don't know")
