"""Gaussian blurring, SesameBERT (Su and Cheng 2019), section 3.2: each head's context or values, blurred along the text.

The equations are `functional.gaussian_blur`; here they are put into the layers of a model.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, get_args

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from attentune.attention import Observation, Revision, Selection, count_layers
from attentune.errors import UserError
from attentune.functional import gaussian_blur
from attentune.functional.sesame import gaussian_kernel
from attentune.methods.base import Method

On = Literal["context", "value"]

WIDEST_KERNEL = 255


@dataclass(frozen=True)
class Blur(Method):
    """What each head gives (Eq. 11) or works on (Eq. 12), blurred along the text, in every chosen layer.

    >>> str(Blur(on="value", sigma=0.3))
    'blur(on=value, sigma=0.3)'
    """

    name: ClassVar[str] = "blur"
    summary: ClassVar[str] = "each head's context or values are blurred along the text"
    paper: ClassVar[str] = "Su and Cheng 2019, SesameBERT, Eq. 11 and 12"
    text_readers: ClassVar[Mapping[str, Callable[[str], Any]]] = {
        "sigma": lambda text: _number("sigma", text),
        "kernel": lambda text: _whole("kernel", text),
    }

    on: On = "context"
    sigma: float = 0.5
    kernel: int = 3
    layers: Selection = field(default_factory=Selection)

    def __post_init__(self) -> None:
        object.__setattr__(self, "layers", Selection.parse(self.layers))
        if self.on not in get_args(On):
            raise UserError(f"on must be context or value, not {self.on!r}")
        if (
            isinstance(self.sigma, bool)
            or not isinstance(self.sigma, int | float)
            or not 0 <= self.sigma < float("inf")
        ):
            raise UserError(f"sigma must be a number, at least 0, such as 0.5, not {self.sigma!r}")
        if isinstance(self.kernel, bool) or not isinstance(self.kernel, int) or self.kernel % 2 == 0:
            raise UserError(f"kernel must be an odd whole number, such as 3, not {self.kernel!r}")
        if not 1 <= self.kernel <= WIDEST_KERNEL:
            raise UserError(f"kernel must be from 1 to {WIDEST_KERNEL} tokens wide, not {self.kernel}")

    @property
    def is_lasting(self) -> bool:
        """It changes what layers give."""
        return True

    def check_model(self, model: PreTrainedModel, before: Sequence[Method]) -> None:
        """Not on a decoder nor on pictures, and once in a layer."""
        if model.main_input_name == "pixel_values":
            raise UserError(
                f"blur can't be used on {type(model).__name__}: its tokens are the patches of a picture, and those beside each "
                "other in a row of tokens needn't be so in the picture; use a model of texts"
            )
        if any(getattr(module, "is_causal", False) is True for module in model.modules()):
            raise UserError(
                f"blur can't be used on {type(model).__name__}: its tokens may not see those after them, "
                "and a blur mixes them in; use an encoder, such as BERT"
            )
        mine = self._layers(model)
        for other in before:
            if isinstance(other, Blur) and other.on == self.on and (shared := mine & other._layers(model)):
                raise UserError(
                    f"layer {min(shared)} is blurred twice, by {other} and by {self}, which makes a single wider blur of it; "
                    "give one, with a larger sigma and kernel, or other layers"
                )

    def revisions(self, model: PreTrainedModel) -> Mapping[int, Revision]:
        """The blur, in each of its layers."""
        revision = _Blurring(self.on, self.sigma, self.kernel)
        return dict.fromkeys(self._layers(model), revision)

    def added(self, model: PreTrainedModel) -> nn.Module:
        """The kernel of Eq. 7, as a buffer: so plain transformers says that a checkpoint holds what it doesn't know."""
        holder = nn.Module()
        holder.register_buffer("kernel", gaussian_kernel(self.sigma, self.kernel, dtype=torch.float32))
        return holder

    def _layers(self, model: PreTrainedModel) -> set[int]:
        return set(self.layers.resolve(count_layers(model), "layer"))


@dataclass(frozen=True)
class _Blurring:
    """The blur in the attention of one layer, among real tokens."""

    on: On
    sigma: float
    kernel: int

    def value(self, value: Tensor, observation: Observation) -> Tensor:
        """V * g of Eq. 12; (batch, heads, keys, dim)."""
        return self._blurred(value, observation) if self.on == "value" else value

    def output(self, output: Tensor, observation: Observation) -> Tensor:
        """O * g of Eq. 11; (batch, queries, heads, dim)."""
        if self.on == "value":
            return output
        return self._blurred(output.transpose(1, 2), observation).transpose(1, 2)

    def _blurred(self, x: Tensor, observation: Observation) -> Tensor:
        return gaussian_blur(x, sigma=self.sigma, kernel_size=self.kernel, mask=observation.real)


def _number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise UserError(f"{name} must be a number, not {text!r}") from None


def _whole(name: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise UserError(f"{name} must be a whole number, not {text!r}") from None
