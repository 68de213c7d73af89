"""Squeeze-and-excitation over the layers, SesameBERT (Su and Cheng 2019), section 3.1: each layer's output is weighed by a
small gate that sees all of them, and the head is given the weighted average, or another of Table 3's choices.

The equations are `functional.squeeze_excite` and `weighted_layers`; where in a model they stand is `methods.site`.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from attentune.attention import count_layers
from attentune.errors import UserError
from attentune.functional import squeeze_excite, weighted_layers
from attentune.methods.base import Method
from attentune.methods.site import check_site, final_hidden

Output = Literal["first", "second", "second_to_last", "last", "sum_last4", "sum", "weighted"]

LAYERS_NEEDED: Mapping[str, int] = {"second": 2, "second_to_last": 2, "sum_last4": 4}
INITIAL_BIAS = 0.8


@dataclass(frozen=True)
class SE(Method):
    """The layers' outputs, each rescaled by its weight (Eq. 2 to 4), make the hidden states that the head works on.

    >>> str(SE(output="sum_last4"))
    'se(output=sum_last4)'
    """

    name: ClassVar[str] = "se"
    summary: ClassVar[str] = "the layers' outputs are weighed against each other before the head"
    paper: ClassVar[str] = "Su and Cheng 2019, SesameBERT, Eq. 2 to 5"

    output: Output = "weighted"
    ratio: float = 3.0
    gate: Literal["on", "off"] = "on"
    """Without it (`off`) the layers are taken as they come: Table 3's columns BERT and BLUR-BERT."""

    def __post_init__(self) -> None:
        if self.output not in get_args(Output):
            raise UserError(f"output must be one of {', '.join(get_args(Output))}, not {self.output!r}")
        if (
            isinstance(self.ratio, bool)
            or not isinstance(self.ratio, int | float)
            or not 1 <= self.ratio < float("inf")
        ):
            raise UserError(f"ratio must be a number, at least 1, such as 3, not {self.ratio!r}")
        if self.gate not in ("on", "off"):
            raise UserError(f"gate must be on or off, not {self.gate!r}")

    @property
    def is_lasting(self) -> bool:
        """It changes what the head works on."""
        return True

    def check_model(self, model: PreTrainedModel, before: Sequence[Method]) -> None:
        """On encoders that are known, once, and with as many layers as the output needs."""
        for other in before:
            if other.works_on_final_hidden:
                raise UserError(
                    f"{self} makes the head's hidden states anew from the layers, and would undo what {other} does with the last "
                    f"ones; put it first: {self} + {other}"
                )
            if isinstance(other, SE):
                raise UserError(
                    f"{other} and {self} both make the head's hidden states from the same layers, so that the second would "
                    "undo the first; give one"
                )
        try:
            check_site(model)
        except UserError as error:
            raise UserError(f"se can't be used here: {error}") from None
        layers, needed = count_layers(model), LAYERS_NEEDED.get(self.output, 1)
        if layers < needed:
            raise UserError(
                f"se(output={self.output}) needs {needed} layers, and {type(model).__name__} has {layers}; give another output"
            )

    def added(self, model: PreTrainedModel) -> "LayerGate | None":
        """W₁, W₂ and their biases."""
        return LayerGate(count_layers(model), self.ratio) if self.gate == "on" else None

    def applied(self, model: PreTrainedModel, added: nn.Module | None) -> AbstractContextManager[None]:
        """The head gets what `output` names, of the rescaled layers."""

        def revise(last: Tensor, layers: list[Tensor], real: Tensor | None) -> Tensor:
            s = added(layers, real) if added is not None else last.new_ones(last.shape[0], len(layers))
            return choose_output(layers, s, self.output)

        return final_hidden(model, revise, wants_layers=True)


class LayerGate(nn.Module):
    """Eq. 2 and 3 with parameters of their own; `latest` is the layers' weights (batch, layers) in the last pass.

    W₁ and W₂ begin at a variance of 1 / fan-in, from a normal distribution cut at two standard deviations.
    """

    def __init__(self, layers: int, ratio: float) -> None:
        super().__init__()
        inner = max(1, int(layers / ratio))
        self.w1 = nn.Parameter(_scaled(layers, inner))
        self.bias1 = nn.Parameter(torch.full((inner,), INITIAL_BIAS))
        self.w2 = nn.Parameter(_scaled(inner, layers))
        self.bias2 = nn.Parameter(torch.full((layers,), INITIAL_BIAS))
        self.latest: Tensor | None = None

    def forward(self, layers: Sequence[Tensor], real: Tensor | None) -> Tensor:
        """The weight of each layer, (batch, layers)."""
        with torch.autocast(layers[0].device.type, enabled=False):
            s = squeeze_excite(layers, self.w1, self.bias1, self.w2, self.bias2, mask=real)
        self.latest = s.detach()
        return s


def choose_output(layers: Sequence[Tensor], s: Tensor, output: Output) -> Tensor:
    """What the head is given (batch, length, width), of layers and their weights `s` (batch, layers); Table 3's choices.

    >>> layers = [torch.full((1, 1, 1), 2.0), torch.full((1, 1, 1), 4.0)]
    >>> choose_output(layers, torch.tensor([[0.5, 0.25]]), "sum").item()
    2.0
    """
    if output == "weighted":
        return weighted_layers(layers, s)
    of: Callable[[int], Tensor] = lambda k: layers[k] * s[:, k, None, None].to(layers[k].dtype)  # noqa: E731  # Eq. 4
    single = {"first": 0, "second": 1, "second_to_last": -2, "last": -1}
    if output in single:
        return of(single[output])
    chosen = range(len(layers))[-4:] if output == "sum_last4" else range(len(layers))
    total = of(chosen[0])
    for k in chosen[1:]:
        total = total + of(k)
    return total


def layer_weights(added: nn.ModuleDict) -> Tensor:
    """The layers' weights in the last pass, among what methods have added."""
    gate = dict(added.items()).get("se")
    if not isinstance(gate, LayerGate):
        raise UserError("there are no layer weights: none of the methods is se(…) with its gate")
    if gate.latest is None:
        raise UserError("there are no layer weights yet: run the model forward once")
    return gate.latest


def _scaled(fan_in: int, fan_out: int) -> Tensor:
    """Variance scaling: a variance of 1 / fan-in, after the cut."""
    deviation = fan_in**-0.5 / 0.8796256610342398  # of a standard normal distribution, cut at ±2
    return nn.init.trunc_normal_(torch.empty(fan_in, fan_out), std=deviation, a=-2 * deviation, b=2 * deviation)
