"""Mixout (Lee, Cho and Kang 2020): in each training pass every weight is with probability p what it was before fine-tuning.

    W' = ( M ∘ W₀ + (1 − M) ∘ W − p W₀ ) / (1 − p),        M Bernoulli(p)        (the paper's Eq. 5)

so that W' is W on the average, as with dropout, which mixout is where W₀ is 0. It holds the model near to where it began. As in
the authors' code it is the weights of the linear maps that are mixed, and not their biases; those of a new head, which were
nothing before, are left alone. In evaluation the weights are W.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from attentune.attention import base_model
from attentune.methods.base import Method, Watch, check_number


@dataclass(frozen=True)
class Mixout(Method):
    """Weights fall back to the pre-trained ones at random, in training.

    >>> str(Mixout(0.9))
    'mixout(p=0.9)'
    """

    name: ClassVar[str] = "mixout"
    summary: ClassVar[str] = "at random, weights are what they were before fine-tuning"
    paper: ClassVar[str] = "Lee et al. 2020, Mixout, Eq. 5"

    p: float = 0.7

    def __post_init__(self) -> None:
        check_number("p", self.p, least=0)
        check_number("p", self.p, most=0.99)

    @contextmanager
    def around(self, model: nn.Module, watch: Watch) -> Iterator[None]:
        """Within, the linear maps of the pre-trained part work with mixed weights."""
        plain = base_model(model)
        pretrained = getattr(plain, "base_model", plain)
        hooks = []
        for linear in pretrained.modules():
            if isinstance(linear, nn.Linear) and linear.weight.requires_grad:
                hooks += self._mix(linear, watch)
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()

    def _mix(self, linear: nn.Linear, watch: Watch) -> list[Any]:
        before = linear.weight.detach().clone()
        own: list[nn.Parameter] = []

        def swap(module: nn.Module, args: tuple[Any, ...]) -> None:
            if watch.is_on() and module.training and torch.is_grad_enabled():
                parameter = module._parameters["weight"]
                assert parameter is not None
                own.append(parameter)
                # In place, so that parameters keep their order; a tensor there is what the module computes with.
                module._parameters["weight"] = mixed(parameter, before.to(parameter), self.p)  # type: ignore[assignment]

        def swap_back(module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
            if own:
                module._parameters["weight"] = own.pop()

        return [linear.register_forward_pre_hook(swap), linear.register_forward_hook(swap_back, always_call=True)]


def mixed(weight: Tensor, before: Tensor, p: float) -> Tensor:
    """W', with a mask drawn anew.

    >>> mixed(torch.tensor([2.0]), torch.tensor([1.0]), p=0.0)
    tensor([2.])
    """
    mask = torch.rand_like(weight) < p
    return (torch.where(mask, before, weight) - p * before) / (1 - p)
