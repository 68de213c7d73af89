"""Gradient checkpointing runs layers a second time, in the backward pass, where nobody says which layer of which pass
it is.

The layers of transformers call a checkpoint function that they hold. While a model is observed that function remembers,
for each call, where the model was, and brings the observer back there whenever the layer runs again.
"""

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

from torch import nn

ATTRIBUTE = "_gradient_checkpointing_func"


class Positioned(Protocol):
    """What knows where in a forward pass the model is, and can be brought back there."""

    def position(self) -> Any:
        """Where the model is."""

    def back_at(self, position: Any) -> contextlib.AbstractContextManager[None]:
        """A context in which it is there again."""


class _Carrying:
    """A layer's checkpoint function that carries the position along."""

    def __init__(self, own: Callable[..., Any], observer: Positioned) -> None:
        self.own, self.observer = own, observer

    def __call__(self, layer: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        position = self.observer.position()

        def run(*inputs: Any, **more: Any) -> Any:
            with self.observer.back_at(position):
                return layer(*inputs, **more)

        return self.own(run, *args, **kwargs)


@contextlib.contextmanager
def carry_through_checkpoints(model: nn.Module, observer: Positioned, entrances: Iterable[nn.Module]) -> Iterator[None]:
    """Within, checkpointed layers of `model` know their position; checkpointing may be switched on and off meanwhile.

    `entrances` are the modules with whose call a forward pass may begin.
    """

    def wrap(model: nn.Module, *_: Any) -> None:
        for layer in model.modules():
            own = layer.__dict__.get(ATTRIBUTE)
            if own is not None and not isinstance(own, _Carrying):
                setattr(layer, ATTRIBUTE, _Carrying(own, observer))

    hooks = [entrance.register_forward_pre_hook(wrap) for entrance in entrances]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
        for layer in model.modules():
            held = layer.__dict__.get(ATTRIBUTE)
            if isinstance(held, _Carrying):
                setattr(layer, ATTRIBUTE, held.own)
