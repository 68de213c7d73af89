"""Readings of a model that may be guided already: by the way, and without changing what its guide reads."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from torch import nn

from attentune.attention.attend import Backend
from attentune.attention.interface import observers
from attentune.attention.observe import Observation, Observer, Plan, observe
from attentune.attention.wrapped import base_model


@contextmanager
def watch(
    model: nn.Module, plan: Plan, on_pass: Callable[[Observation], None], backend: Backend = "auto"
) -> Iterator[None]:
    """Take readings as `observe` does, of a model that may be guided already: then its own observer takes them along,
    and the methods that change its forward pass go on doing so.

    >>> import torch
    >>> from transformers import BertConfig, BertModel
    >>> config = BertConfig(
    ...     vocab_size=20, hidden_size=8, num_hidden_layers=2, num_attention_heads=2, intermediate_size=8
    ... )
    >>> model, own, others = BertModel(config), [], []
    >>> with observe(model, lambda observation: {0: ("received",)}, own.append):
    ...     with watch(model, lambda observation: {1: ("entropy",)}, others.append):
    ...         _ = model(input_ids=torch.tensor([[1, 2, 3]]))
    >>> len(own), sorted(others[0].layers)
    (1, [0, 1])
    """
    observer = observers.get(base_model(model))
    if isinstance(observer, Observer):
        with observer.watched(plan, on_pass):
            yield
    else:
        with observe(model, plan, on_pass, backend):
            yield
