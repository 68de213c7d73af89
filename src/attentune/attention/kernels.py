"""The one module that touches torch's internal attention kernels: fused forward with log-sum-exp, and fused backward.

They are private to torch and may change with it, so `available` compares them with plain torch on a tiny input the
first time they are asked for on a device, and answers no, with a log line, where they differ. Nothing here knows what a
reading is.
"""

import functools
import logging
from dataclasses import dataclass

import torch
from torch import Tensor

logger = logging.getLogger(__name__)

DTYPES = {
    "cpu": (torch.float32, torch.float64, torch.bfloat16),
    "cuda": (torch.float32, torch.bfloat16),
}


@dataclass(frozen=True)
class Saved:
    """What a forward kernel leaves for its backward: the log-sum-exp as the kernel wrote it, and CUDA's random state."""

    logsumexp: Tensor
    state: tuple[Tensor, ...] = ()


def available(device: torch.device, dtype: torch.dtype) -> bool:
    """Whether torch has working kernels for this device and dtype; found out once."""
    return dtype in DTYPES.get(device.type, ()) and _agrees_with_plain_torch(device.type, dtype)


def missing_width(query: Tensor) -> int:
    """How many columns of zeros the inputs need before the kernel takes them: CUDA's wants a multiple of 8."""
    return 0 if query.device.type == "cpu" else -query.shape[-1] % 8


def narrowest_value(query: Tensor) -> int:
    """How wide a value must be at least: the CPU kernel has one width for all three, CUDA's reads 16 bytes at a time."""
    return query.shape[-1] if query.device.type == "cpu" else min(8, query.shape[-1])


def forward(
    query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, scale: float, causal: bool
) -> tuple[Tensor, Tensor, Saved]:
    """Output and log-sum-exp of each row; (batch, heads, length, dim) with as many heads everywhere.

    `bias` is additive and broadcastable, float32 (float64 for float64 inputs). On CUDA it is rounded to the inputs'
    dtype.
    """
    if query.device.type == "cpu":
        bias = _expanded(bias, query, key)
        output, lse = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
            query, key, value, 0.0, causal, attn_mask=bias, scale=scale
        )
        return output, lse, Saved(lse)
    bias = _aligned(bias, query, key)
    output, lse, *state = torch.ops.aten._scaled_dot_product_efficient_attention(
        query, key, value, bias, True, 0.0, causal, scale=scale
    )
    return output, lse[..., : query.shape[2]], Saved(lse, tuple(state))


def backward(
    d_output: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    output: Tensor,
    saved: Saved,
    bias: Tensor | None,
    scale: float,
    causal: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of query, key and value, given the forward's output and what it saved."""
    if query.device.type == "cpu":
        bias = _expanded(bias, query, key)
        dq, dk, dv = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward(
            d_output, query, key, value, output, saved.logsumexp, 0.0, causal, attn_mask=bias, scale=scale
        )
        return dq, dk, dv
    bias = _aligned(bias, query, key)
    # In bfloat16 the kernel reads the output as (batch, length, heads, dim) in memory, whatever its strides say.
    d_output, output = (x.transpose(1, 2).contiguous().transpose(1, 2) for x in (d_output, output))
    dq, dk, dv, _ = torch.ops.aten._scaled_dot_product_efficient_attention_backward(
        d_output, query, key, value, bias, output, saved.logsumexp, *saved.state, 0.0, [True, True, True, False], causal,
        scale=scale,
    )  # fmt: skip
    return dq, dk, dv


def _expanded(bias: Tensor | None, query: Tensor, key: Tensor) -> Tensor | None:
    """The CPU kernel takes strides, so repeating costs nothing; only its rows must be dense, or it copies the whole."""
    if bias is None:
        return None
    if bias.stride(-1) != 1:
        bias = bias.contiguous()
    return bias.expand(*bias.shape[:2], query.shape[2], key.shape[2])


def _aligned(bias: Tensor | None, query: Tensor, key: Tensor) -> Tensor | None:
    """The CUDA kernel wants all four dimensions, the inputs' dtype, and rows that begin at multiples of 16 elements."""
    if bias is None:
        return None
    length = key.shape[2]
    bias = bias.clamp_min(torch.finfo(query.dtype).min / 2).to(query.dtype)
    if bias.stride(-1) != 1:
        bias = bias.contiguous()
    if length % 16:
        bias = torch.nn.functional.pad(bias, (0, 16 - length % 16))[..., :length]
    return bias.expand(*query.shape[:3], length)


@functools.cache
def _agrees_with_plain_torch(device_type: str, dtype: torch.dtype) -> bool:
    """Run both kernels once on a tiny input, with a mask and an odd width, beside plain torch."""
    problem = ""
    try:
        # Not within anybody's autocast or no_grad, and without touching anybody's random numbers.
        with torch.enable_grad(), torch.autocast(device_type, enabled=False), torch.random.fork_rng(devices=[]):
            worst = _self_check(device_type, dtype)
        tolerance = {torch.float64: 1e-9, torch.float32: 1e-3, torch.bfloat16: 1e-1}[dtype]
        if not worst < tolerance:
            problem = f"they differ from plain torch by {worst:.1e}"
    except (RuntimeError, AttributeError, TypeError, NotImplementedError, ValueError) as error:
        problem = f"{type(error).__name__}: {str(error).splitlines()[0]}"
    if problem:
        logger.warning(
            "torch %s has no fused attention kernels that attentune can use for %s on %s (%s); "
            "readings are computed in chunks instead, which is slower",
            torch.__version__, dtype, device_type, problem,
        )  # fmt: skip
    return not problem


def _self_check(device_type: str, dtype: torch.dtype) -> float:
    """The largest difference from plain torch, over output, log-sum-exp and gradients."""
    torch.manual_seed(0)
    width, scale = (10, 0.3) if device_type == "cpu" else (16, 0.3)
    wide = torch.float64
    query, key, value, d_output = (torch.randn(2, 3, 9, width).to(device_type, dtype) for _ in range(4))
    bias = torch.zeros(2, 1, 1, 9, dtype=wide if dtype == wide else torch.float32, device=device_type)
    bias[1, ..., 6:] = -1e30
    output, lse, saved = forward(query, key, value, bias, scale, causal=False)
    grads = backward(d_output, query, key, value, output, saved, bias, scale, causal=False)

    leaves = [x.to("cpu", wide).requires_grad_() for x in (query, key, value)]
    scores = leaves[0] @ leaves[1].mT * scale + bias.to("cpu", wide)
    expected = scores.softmax(dim=-1) @ leaves[2]
    expected_grads = torch.autograd.grad(expected, leaves, d_output.to("cpu", wide))
    pairs = [(output, expected), (lse, scores.logsumexp(dim=-1)), *zip(grads, expected_grads, strict=True)]
    return max(float((got.detach().to("cpu", wide) - want.detach()).abs().max()) for got, want in pairs)
