"""R-Drop (Liang et al. 2021): every text goes through the model twice, with other dropout, and the two answers shall agree.

    L = −log P₁(y) − log P₂(y) + α · ½ [KL(P₁‖P₂) + KL(P₂‖P₁)]        (the paper's Eq. 4)

Here it is half of that, so that the task's part is a mean over texts as without it: the model is given each batch twice over,
its own loss is then the mean of both, and the method adds α · ¼ [KL(P₁‖P₂) + KL(P₂‖P₁)]. Where the answer is a number there
is no distribution, and the squared difference takes the divergence's place. It changes nothing in evaluation.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from attentune.attention import Reading
from attentune.errors import UserError
from attentune.methods.base import Objective, Watch, check_number
from attentune.methods.passes import Pass
from attentune.methods.schedules import Constant, Schedule

KEPT = "answers"


@dataclass(frozen=True)
class RDrop(Objective):
    """Two passes with different dropout, and the divergence between their answers; `weight` is the paper's α.

    >>> str(RDrop(0.5))
    'rdrop(weight=0.5)'
    """

    name: ClassVar[str] = "rdrop"
    summary: ClassVar[str] = "each text twice, with other dropout, and the answers shall agree"
    paper: ClassVar[str] = "Liang et al. 2021, R-Drop, Eq. 4"

    weight: float = 1.0
    schedule: Schedule = field(default_factory=Constant)

    def __post_init__(self) -> None:
        check_number("weight", self.weight, least=0)
        if not isinstance(self.schedule, Schedule):
            raise UserError(f"schedule must be one such as Linear(hold=0.2), not {self.schedule!r}")

    def weight_at(self, progress: float, measured: float) -> float:
        """α, by its schedule."""
        return self.weight * self.schedule.factor(progress)

    def reads(self, seen: Pass) -> tuple[Reading, ...]:
        """Nothing of attention."""
        return ()

    def loss(self, seen: Pass) -> Tensor:
        """A quarter of the symmetric divergence, a mean over texts; 0 for a pass that was not doubled."""
        answers = seen.kept.get(KEPT)
        if answers is None:
            return torch.zeros(())
        first, second = answers.float().chunk(2)
        return divergence(first, second) / 4

    @contextmanager
    def around(self, model: nn.Module, watch: Watch) -> Iterator[None]:
        """Within, what the model is given in training it is given twice over, and gives back once."""

        def twice(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            if not (watch.is_on() and module.training and torch.is_grad_enabled()):
                return None
            if watch.given():
                raise UserError(
                    f"{self} gives the model each text twice, and another method of the sum brings data for each text once; "
                    "use rdrop alone, or with guides by attention, such as mdg(0.01)"
                )
            rows = _rows(args, kwargs)
            return tuple(_twice(value, rows) for value in args), {
                name: 2 * value if name == "num_items_in_batch" and value is not None else _twice(value, rows)
                for name, value in kwargs.items()
            }

        def once(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> Any:
            if not (watch.is_on() and module.training and torch.is_grad_enabled()):
                return None
            answers, seen = getattr(output, "logits", None), watch.seen()
            if not isinstance(answers, Tensor) or seen is None:
                raise UserError(f"{self} needs a model that answers with logits; {type(module).__name__} does not")
            seen.kept[KEPT] = answers
            output["logits"] = answers.chunk(2)[0]
            return output

        hooks = [
            model.register_forward_pre_hook(
                twice, with_kwargs=True, prepend=True
            ),  # what observes the pass sees it doubled
            model.register_forward_hook(once, with_kwargs=True),
        ]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()


def divergence(first: Tensor, second: Tensor) -> Tensor:
    """KL(P₁‖P₂) + KL(P₂‖P₁) of logits (texts, classes), a mean over texts; with one output, the squared difference.

    >>> round(divergence(torch.tensor([[0.0, 0.0]]), torch.tensor([[0.0, 1.0]])).item(), 4)
    0.2311
    """
    if first.shape[-1] == 1:
        return (first - second).square().mean()
    one, other = first.log_softmax(dim=-1), second.log_softmax(dim=-1)
    # KL(P‖Q) + KL(Q‖P) = Σ (P − Q)(log P − log Q)
    return ((one.exp() - other.exp()) * (one - other)).sum(dim=-1).mean()


def _rows(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> int:
    named = [kwargs[name] for name in ("input_ids", "inputs_embeds", "pixel_values") if kwargs.get(name) is not None]
    return next(len(value) for value in [*named, *args, *kwargs.values()] if isinstance(value, Tensor) and value.dim())


def _twice(value: Any, rows: int) -> Any:
    return torch.cat([value, value]) if isinstance(value, Tensor) and value.dim() and len(value) == rows else value
