"""`auto`: a guide's weight that sets itself, so that the guide pushes a given fraction as hard as the task.

With θ all queries and keys of the guide's layers, as their attention calls see them (batch and tokens included), and
‖·‖ the Euclidean norm,

    weight = fraction · ‖∂ task / ∂θ‖ / ‖∂ guide / ∂θ‖

is measured every few steps on the batch at hand, and smoothed. Both gradients are those of the losses whole, through all
that comes after the queries and keys. Nothing of the parameters' gradients is computed for it, and none is changed.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.autograd.graph import GradientEdge

from attentune.errors import UserError

NEW_SHARE = 0.5
"""How much a new measurement counts, against all before: a geometric mean, as ratios have it."""
SCALES = (2.0**16, 2.0**8, 1.0)
"""Losses are scaled for their gradients not to vanish in float16; the next one is tried where that overflows."""


@dataclass(frozen=True)
class Auto:
    """A weight that is measured: the guide's gradient is `fraction` of the task's; measured `every` so many steps.

    >>> str(Auto()), str(Auto(0.1, every=50))
    ('auto(0.05)', 'auto(0.1, every=50)')
    """

    name: ClassVar[str] = "auto"
    fraction: float = 0.05
    every: int = 20

    def __post_init__(self) -> None:
        for name in ("fraction", "every"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise UserError(f"{name} of auto must be a number, not {value!r}")
        if not (math.isfinite(self.fraction) and self.fraction > 0):
            raise UserError(
                f"auto takes a fraction of the task's gradient, above 0, not {self.fraction} (0.05 is a start; a weight of 0 "
                "is written as the number)"
            )
        if not (self.every >= 1 and self.every == int(self.every)):
            raise UserError(
                f"every is how many steps apart auto measures, a whole number of at least 1, not {self.every}"
            )
        object.__setattr__(self, "every", int(self.every))  # text has 20.0

    def __str__(self) -> str:
        every = "" if self.every == Auto.every else f", every={self.every}"
        return f"auto({self.fraction!r}{every})"


class AutoWeights:
    """The measured weights of the guides that have `auto`, by name: what they are and when they were measured.

    The state (`state_dict`, `load_state_dict`) is plain numbers, fit for JSON.
    """

    def __init__(self, autos: Mapping[str, Auto]) -> None:
        self.autos = dict(autos)
        self.values: dict[str, float] = {}  # none until it has been measured
        self.measured: dict[str, int] = {}  # at which step it was, last

    def __getitem__(self, name: str) -> float:
        """The weight now; before it could be measured, 0."""
        return self.values.get(name, 0.0)

    def due(self, step: int) -> tuple[str, ...]:
        """Whose weight is to be measured in this step: those that have none yet, and those whose time has come."""
        return tuple(
            name
            for name, auto in self.autos.items()
            if name not in self.values or step - self.measured[name] >= auto.every or step < self.measured[name]
        )

    def measure(
        self, step: int, task_loss: Tensor, terms: Mapping[str, Tensor], edges: Mapping[str, Sequence[GradientEdge]]
    ) -> None:
        """Measure the weights that are due; one whose gradients are zero or no numbers stays what it was.

        `terms` are the guides' losses before any weight, `edges` the queries and keys of each guide's layers.
        """
        due = self.due(step)
        if not due:
            return
        if not task_loss.requires_grad:
            raise UserError(
                "the task's loss carries no gradient, so auto has nothing to measure by; give it undetached"
            )
        all_edges = {id(edge): edge for name in due for edge in edges[name]}
        by_task = gradient_norms(task_loss, list(all_edges.values()))
        pushes = [
            push
            for name in due
            for push in (
                _push(name, "the task's loss", by_task, edges[name]),
                _push(name, "it", gradient_norms(terms[name], edges[name]), edges[name]).to(task_loss.device),
            )
        ]
        norms = torch.stack(pushes).view(len(due), 2)  # of the task and of the guide
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            squares = norms.double().square()
            torch.distributed.all_reduce(squares)  # as if the batches of all processes were one
            norms = squares.sqrt()
        for name, (task, guide) in zip(due, norms.tolist(), strict=True):
            if name in self.values:
                self.measured[name] = step
            if not (math.isfinite(task) and math.isfinite(guide) and task > 0 and guide > 0):
                continue
            new = self.autos[name].fraction * task / guide
            before = self.values.get(name, new)
            self.values[name] = before ** (1 - NEW_SHARE) * new**NEW_SHARE if name in self.values else new
            self.measured[name] = step

    def state_dict(self) -> dict[str, Any]:
        """What is to be kept so that training can go on as if it had never stopped."""
        return {"values": dict(self.values), "measured": dict(self.measured)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a state; guides that it doesn't know are measured anew."""
        self.values = {name: float(value) for name, value in state["values"].items() if name in self.autos}
        self.measured = {name: int(state["measured"][name]) for name in self.values}


def _push(name: str, what: str, norms: Mapping[int, Tensor], edges: Sequence[GradientEdge]) -> Tensor:
    """The norm over all of a guide's queries and keys, of the norms for each."""
    if not edges:
        raise UserError(
            f"the weight of {name} can't be auto: no query and no key of its layers takes a gradient (are they frozen?)"
        )
    own = [norms[id(edge)] for edge in edges if id(edge) in norms]
    if not own:
        raise UserError(f"the weight of {name} can't be auto: {what} does not depend on its queries and keys")
    whole: Tensor = torch.linalg.vector_norm(torch.stack(own))
    return whole


def gradient_norms(loss: Tensor, edges: Sequence[GradientEdge]) -> dict[int, Tensor]:
    """‖∂ loss / ∂ x‖ for the x at each edge that the loss depends on, by the edge's id.

    The graph is kept, and no parameter's gradient is touched. A loss that has no gradient at all has one of 0.

    >>> from torch.autograd.graph import get_gradient_edge
    >>> query = torch.tensor([3.0, 4.0], requires_grad=True)
    >>> list(gradient_norms(query.square().sum() / 2, [get_gradient_edge(query)]).values())
    [tensor(5.)]
    """
    if not loss.requires_grad or not edges:
        return {id(edge): torch.zeros((), device=loss.device) for edge in edges}
    norms: dict[int, Tensor] = {}
    for scale in SCALES:
        try:
            found = torch.autograd.grad(
                loss, list(edges), torch.full_like(loss, scale), retain_graph=True, allow_unused=True
            )
        except RuntimeError as error:
            if "donated buffer" not in str(error):
                raise
            raise UserError(
                "auto takes gradients twice in a step, for which a compiled model must keep its buffers: set "
                "torch._functorch.config.donated_buffer = False before torch.compile, or give the weight as a number"
            ) from error
        norms = {
            id(edge): (torch.linalg.vector_norm(x.float() if x.dtype.itemsize < 4 else x) / scale).to(loss.device)
            for edge, x in zip(edges, found, strict=True)
            if x is not None
        }
        if all(norm.isfinite() for norm in norms.values()):
            break
    return norms
