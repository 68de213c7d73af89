"""Self-supervised attention: the two equations of Kou et al. 2021, "Improving BERT with Self-Supervised Attention".

`ssa_loss` is the token loss of section 3.1, cross entropy over the tokens that have a label; `ssa_vector` is the hybrid
model's sentence vector, Eq. 1. Where labels come from, and where in a model the vector stands, is not decided here.
"""

import torch
from torch import Tensor

from attentune.errors import UserError

NO_LABEL = -1


def ssa_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """The token loss, −Σ_i log softmax(z_i)[y_i] over the tokens that have a label, divided by their number.

    `logits` is (batch, length, 2), a token's for "doesn't matter" and "matters". `labels` is (batch, length): 1, 0, and −1
    for a token without one, such as padding; or (batch, copies, length), where a text has labels from several masked
    copies of it: each label counts, so copies that say different things of a token ask for a score between. Without any
    label the loss is 0, and so is its gradient.

    >>> import torch
    >>> logits = torch.tensor([[[0.0, 0.0], [5.0, -5.0], [9.0, 9.0]]])
    >>> ssa_loss(logits, torch.tensor([[1, 0, -1]]))
    tensor(0.3466)
    """
    if logits.dim() != 3 or logits.shape[-1] != 2:
        raise UserError(f"logits must be (batch, length, 2), not {tuple(logits.shape)}")
    copies = labels[:, None] if labels.dim() == 2 else labels  # (batch, copies, length)
    if copies.dim() != 3 or (copies.shape[0], copies.shape[2]) != logits.shape[:2]:
        raise UserError(
            f"labels must be (batch, length) or (batch, copies, length) of logits {tuple(logits.shape)}, "
            f"not {tuple(labels.shape)}"
        )
    counts = torch.stack([(copies == label).sum(dim=1) for label in (0, 1)], dim=-1)  # (batch, length, 2)
    no_label = counts.sum(dim=-1, keepdim=True) == 0
    surprise = -logits.masked_fill(no_label, 0).log_softmax(dim=-1)  # what stands at padding never matters
    return (surprise * counts).sum() / counts.sum().clamp_min(1)


def ssa_vector(sentence: Tensor, tokens: Tensor, scores: Tensor, *, beta: float, mask: Tensor | None = None) -> Tensor:
    """The hybrid model's sentence vector, Eq. 1: R_o = β R_s + (1 − β) Σ_i softmax(y)_i R_i.

    `tokens` (batch, length, width) are the vectors R_i, `scores` (batch, length) the importance y_i of each, and `mask`
    (batch, length) keeps those that count, 1 or True: real tokens, and not [CLS] or [SEP]. `sentence` is the vector R_s of
    each text, (batch, width), or several of them, (batch, n, width), to each of which the same sum is mixed in. A text
    in which no token counts has a sum of 0.

    >>> import torch
    >>> tokens = torch.tensor([[[0.0], [4.0]]])
    >>> ssa_vector(torch.tensor([[8.0]]), tokens, torch.zeros(1, 2), beta=0.5)
    tensor([[5.]])
    """
    if not 0 <= beta <= 1:
        raise UserError(f"beta must be from 0 to 1, not {beta}")
    if tokens.dim() != 3 or scores.shape != tokens.shape[:2]:
        raise UserError(
            f"tokens must be (batch, length, width) and scores (batch, length), not {tuple(tokens.shape)} and "
            f"{tuple(scores.shape)}"
        )
    if sentence.dim() not in (2, 3) or (sentence.shape[0], sentence.shape[-1]) != (tokens.shape[0], tokens.shape[2]):
        raise UserError(
            f"sentence must be (batch, width) or (batch, n, width) of tokens {tuple(tokens.shape)}, "
            f"not {tuple(sentence.shape)}"
        )
    if mask is not None:
        if mask.shape != scores.shape:
            raise UserError(f"mask must be (batch, length) = {tuple(scores.shape)}, not {tuple(mask.shape)}")
        left_out = ~mask.bool()
        scores = scores.masked_fill(left_out, torch.finfo(scores.dtype).min)
        tokens = tokens.masked_fill(left_out[..., None], 0)  # so that nothing that stands there gets through
    weights = scores.softmax(dim=-1).to(tokens.dtype)  # (batch, length)
    extra = (weights[:, None] @ tokens)[:, 0]  # (batch, width)
    return beta * sentence + (1 - beta) * (extra if sentence.dim() == 2 else extra[:, None])
