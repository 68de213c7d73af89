"""SesameBERT: Gaussian blurring, and squeeze-and-excitation over layers, "SesameBERT: Attention for Anywhere", 2019.

`gaussian_kernel` is Eq. 7, normalised; `gaussian_blur` is Eq. 8 to 11 (or 12, on values) for one tensor; `squeeze_excite`
is Eq. 2 and 3, the weight of each layer, and `weighted_layers` Eq. 4 and 5, their weighted average. Where in a model they
are put is not decided here.
"""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from attentune.errors import UserError


def gaussian_kernel(
    sigma: float,
    kernel_size: int = 3,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
) -> Tensor:
    """The weights of Eq. 7, g(x) = exp(−(x − ⌊k/2⌋)² / 2σ²) for x = 0 … k − 1, divided by their sum.

    `kernel_size` is odd. σ = 0 is the limit σ → 0: all weight on the middle.

    >>> gaussian_kernel(0.5)
    tensor([0.1065, 0.7870, 0.1065])
    >>> gaussian_kernel(0.01)
    tensor([0., 1., 0.])
    """
    to_the_side = _side_weights(sigma, kernel_size)
    weights = [*reversed(to_the_side), 1 - 2 * sum(to_the_side), *to_the_side]
    return torch.tensor(weights, dtype=dtype or torch.get_default_dtype(), device=device)


def gaussian_blur(x: Tensor, *, sigma: float, kernel_size: int = 3, mask: Tensor | None = None) -> Tensor:
    """Blur along dim −2: each token of `x`, (…, length, dim), with its neighbours, weighted by `gaussian_kernel`.

    Where a neighbour is missing, because the text ends there or because it is padding, its weight stays with the token
    itself: y_i = x_i + Σ_o g_o (x_{i+o} − x_i) over the neighbours i + o that there are. With the paper's kernel of 3
    that is symmetric padding at both ends of the text; with a wider one it is that at the outermost token, while the
    tokens next to it keep the weight that symmetric padding would give to their mirror images. So a padded text is blurred
    as it is alone, a constant stays constant, and no token loses weight to another.

    `mask` (batch, length) keeps the real tokens, 1 or True, of an `x` whose first dimension is the batch, such as
    (batch, heads, length, dim); padding is returned as it came. With σ = 0, or one so small that the side weights are
    exactly 0, `x` itself is returned. Backward keeps nothing but the mask: the blur is its own adjoint.

    >>> import torch
    >>> gaussian_blur(torch.tensor([[0.0], [1.0], [0.0], [0.0]]), sigma=0.5).flatten()
    tensor([0.1065, 0.7870, 0.1065, 0.0000])
    """
    if x.dim() < 2:
        raise UserError(f"x must be (…, length, dim), not {tuple(x.shape)}")
    if mask is not None:
        if x.dim() < 3 or mask.shape != (x.shape[0], x.shape[-2]):
            raise UserError(
                f"mask must be (batch, length) of x (batch, …, length, dim) = {tuple(x.shape)}, not {tuple(mask.shape)}"
            )
        mask = mask.bool().view(x.shape[0], *[1] * (x.dim() - 3), x.shape[-2], 1)
    to_the_side = _side_weights(sigma, kernel_size)
    blurred: Tensor = _Blur.apply(x, mask, to_the_side) if any(to_the_side) else x
    return blurred


def squeeze_excite(
    hidden: Tensor | Sequence[Tensor],
    w1: Tensor,
    b1: Tensor,
    w2: Tensor,
    b2: Tensor,
    *,
    mask: Tensor | None = None,
) -> Tensor:
    """The weight of each layer, (batch, layers): Eq. 2, z = mean of a layer's output, and Eq. 3, s = σ(ReLU(z W₁) W₂).

    `hidden` is the outputs of the n layers, (batch, layers, length, width), or a sequence of n (batch, length, width), as
    models return them, without the embeddings. `w1` is (n, n/r) and `w2` (n/r, n); the biases `b1` and `b2`, which
    the paper doesn't write, are added before ReLU and σ. The mean runs over the tokens that `mask` (batch, length) keeps.

    >>> import torch
    >>> hidden = torch.rand(2, 6, 5, 8)
    >>> w1, w2 = torch.rand(6, 2), torch.rand(2, 6)
    >>> squeeze_excite(hidden, w1, torch.zeros(2), w2, torch.zeros(6)).shape
    torch.Size([2, 6])
    """
    layers = _layers(hidden)
    n = len(layers)
    inner = w1.shape[-1]
    for name, given, shape in (("w1", w1, (n, inner)), ("b1", b1, (inner,)), ("w2", w2, (inner, n)), ("b2", b2, (n,))):
        if given.shape != shape:
            raise UserError(f"{name} must be {shape} for {n} layers and w1 {tuple(w1.shape)}, not {tuple(given.shape)}")
    by_token = torch.stack([layer.mean(dim=-1, dtype=w1.dtype) for layer in layers], dim=1)  # (batch, layers, length)
    if mask is None:
        squeezed = by_token.mean(dim=-1)  # (batch, layers)
    else:
        if mask.shape != layers[0].shape[:2]:
            raise UserError(f"mask must be (batch, length) = {tuple(layers[0].shape[:2])}, not {tuple(mask.shape)}")
        real = mask.bool()
        squeezed = by_token.masked_fill(~real[:, None, :], 0).sum(dim=-1) / real.sum(dim=-1, keepdim=True).clamp_min(1)
    return ((squeezed @ w1 + b1).relu() @ w2 + b2).sigmoid()


def weighted_layers(hidden: Tensor | Sequence[Tensor], s: Tensor) -> Tensor:
    """The weighted average of the layers, Eq. 5: Σ_k s_k U_k / Σ_k s_k, (batch, length, width).

    `hidden` as in `squeeze_excite`, `s` (batch, layers) as it comes from there. No rescaled layer (Eq. 4) is kept.

    >>> import torch
    >>> weighted_layers([torch.zeros(1, 1, 2), torch.ones(1, 1, 2)], torch.tensor([[0.25, 0.75]]))
    tensor([[[0.7500, 0.7500]]])
    """
    layers = _layers(hidden)
    if s.shape != (layers[0].shape[0], len(layers)):
        raise UserError(
            f"s must be (batch, layers) = {(layers[0].shape[0], len(layers))}, one weight a layer, not {tuple(s.shape)}"
        )
    shares = (s / s.sum(dim=-1, keepdim=True)).to(layers[0].dtype)[..., None, None]  # (batch, layers, 1, 1)
    average = shares[:, 0] * layers[0]
    for k in range(1, len(layers)):
        average = average.addcmul(shares[:, k], layers[k])
    return average


class _Blur(torch.autograd.Function):
    """y_i = x_i + Σ_o g_o (x_{i+o} − x_i), over pairs of real tokens.

    Two tokens at distance o exchange g_o times their difference, so one subtraction serves both. That exchange is
    symmetric, hence the backward pass is the same blur of the gradient. Unlike a depthwise convolution this copies
    nothing into another layout, is not rounded by autocast or TF32, and leaves padding that is not a number where it is.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, real: Tensor | None, to_the_side: list[float]) -> Tensor:
        ctx.real, ctx.to_the_side = real, to_the_side
        blurred = x.clone()
        for offset, weight in enumerate(to_the_side, start=1):
            if weight == 0 or offset >= x.shape[-2]:
                break
            change = x[..., offset:, :] - x[..., :-offset, :]
            if real is not None:
                change.masked_fill_(~(real[..., offset:, :] & real[..., :-offset, :]), 0)
            blurred[..., :-offset, :].add_(change, alpha=weight)
            blurred[..., offset:, :].sub_(change, alpha=weight)
        return blurred

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        return _Blur.apply(upstream[0], ctx.real, ctx.to_the_side), None, None


def _side_weights(sigma: float, kernel_size: int) -> list[float]:
    """The normalised weights at the distances 1 … ⌊k/2⌋."""
    if isinstance(kernel_size, bool) or not isinstance(kernel_size, int) or kernel_size < 1 or kernel_size % 2 == 0:
        raise UserError(f"kernel_size must be an odd whole number, such as 3, not {kernel_size!r}")
    if not sigma >= 0:
        raise UserError(f"sigma must be at least 0, not {sigma}")
    if sigma == 0:
        return [0.0] * (kernel_size // 2)
    distances = [offset / sigma for offset in range(1, kernel_size // 2 + 1)]
    weights = [math.exp(-distance * distance / 2) for distance in distances]
    return [weight / (1 + 2 * sum(weights)) for weight in weights]


def _layers(hidden: Tensor | Sequence[Tensor]) -> Sequence[Tensor]:
    """The layers' outputs, each (batch, length, width), as views."""
    if isinstance(hidden, Tensor):
        if hidden.dim() != 4:
            raise UserError(f"hidden must be (batch, layers, length, width), not {tuple(hidden.shape)}")
        return hidden.unbind(dim=1)
    if not hidden or any(layer.dim() != 3 or layer.shape != hidden[0].shape for layer in hidden):
        shapes = [tuple(layer.shape) for layer in hidden]
        raise UserError(f"hidden must be one (batch, length, width) for each layer, all alike, not {shapes}")
    return hidden
