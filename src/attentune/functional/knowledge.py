"""Heads guided by knowledge of the text, by what each token receives: Wang et al. 2022, Table 2, as their code reads it.

A prior between words, such as who depends on whom, becomes one number for each token: what it should be given. What the
tokens are given by a head is compared with it, both at a sum of 1 over the real tokens. The other reading, row by row of
the map, is `pattern_loss`. How a prior comes from a text is not decided here.
"""

from torch import Tensor

from attentune.errors import UserError
from attentune.functional.guiding import Reduction, _reduce


def received_loss(
    received: Tensor, target: Tensor, *, mask: Tensor | None = None, reduction: Reduction = "mean"
) -> Tensor:
    """Squared error between what tokens receive and what they should: Σ_k (r[k] / Σ r − p[k] / Σ p)².

    `received` (batch, heads, length) is r[k] = Σ_q A[q, k], as `attentune.attend` reads it; `target` (batch, length) is p, at
    least 0. Both are taken over the tokens of `mask` (batch, length). An example whose target is 0 throughout has no
    loss. `reduction` is "mean" over heads and batch, "sum" over both, or "none", the sum over each example's heads.

    >>> import torch
    >>> received = torch.tensor([[[2.0, 1.0, 1.0]]])
    >>> float(received_loss(received, torch.tensor([[0.0, 1.0, 1.0]])))
    0.375
    """
    if received.dim() != 3:
        raise UserError(f"received must be (batch, heads, length), not {tuple(received.shape)}")
    batch, heads, length = received.shape
    for what, given in (("target", target), ("mask", mask)):
        if given is not None and given.shape != (batch, length):
            raise UserError(f"{what} must be (batch, length) = {(batch, length)}, not {tuple(given.shape)}")
    wanted = target.to(received)
    if mask is not None:
        hidden = ~mask.bool().to(received.device)
        received, wanted = received.masked_fill(hidden[:, None], 0), wanted.masked_fill(hidden, 0)
    has = wanted.sum(dim=-1) > 0  # (batch,)
    got = _to_sum_1(received)  # (batch, heads, length)
    apart = (got - _to_sum_1(wanted)[:, None]).square().sum(dim=-1)  # (batch, heads)
    per_example = apart.masked_fill(~has[:, None], 0).sum(dim=-1)
    if reduction == "mean":
        return per_example.mean() / heads
    return _reduce(per_example, reduction)


def _to_sum_1(given: Tensor) -> Tensor:
    total = given.sum(dim=-1, keepdim=True)
    return given / total.masked_fill(total <= 0, 1)
