"""A batch of token priors as tensors: the target of a head's map, or of the attention that its tokens receive.

Both are gathers of what is stored; nothing is computed from texts here.
"""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from attentune.attention import Entries
from attentune.errors import UserError


def dense_target(
    query: Sequence[ArrayLike],
    key: Sequence[ArrayLike],
    value: Sequence[ArrayLike],
    length: int,
    *,
    starts: Sequence[int] | None = None,
) -> Tensor:
    """P as (batch, length, length): a row of a token with relations sums to 1, any other row and all padding is 0.

    The sequences hold one list an example, as a data set does. `starts` says at which position each example begins,
    where padding is on the left.

    >>> dense_target([[0, 1], [1]], [[1, 0], [0]], [[1.0, 1.0], [1.0]], length=2)
    tensor([[[0., 1.],
             [1., 0.]],
    <BLANKLINE>
            [[0., 0.],
             [1., 0.]]])
    """
    return gather(query, key, value, length=length, starts=starts).dense(len(query), length, length)


def dense_received(
    query: Sequence[ArrayLike],
    key: Sequence[ArrayLike],
    value: Sequence[ArrayLike],
    length: int,
    *,
    starts: Sequence[int] | None = None,
) -> Tensor:
    """What each token is given, as (batch, length): the mean of P over its queries, of which only those with relations count.

    So it sums to 1, or is 0 throughout for a text without relations.

    >>> dense_received([[0, 2, 2]], [[1, 1, 0]], [[1.0, 0.5, 0.5]], length=4)
    tensor([[0.2500, 0.7500, 0.0000, 0.0000]])
    """
    return received_of(gather(query, key, value, length=length, starts=starts), len(query), length)


def received_of(entries: Entries, batch: int, length: int) -> Tensor:
    """`dense_received` of entries, where they are."""
    row, q, k, v = entries
    given = torch.zeros(batch, length, device=v.device).index_put_((row, k), v, accumulate=True)  # (batch, keys)
    gives = torch.zeros(batch, length, dtype=torch.bool, device=v.device)  # (batch, queries)
    gives[row, q] = True
    return given / gives.sum(dim=-1, keepdim=True).clamp(min=1)


def gather(
    query: Sequence[ArrayLike],
    key: Sequence[ArrayLike],
    value: Sequence[ArrayLike],
    *,
    length: int,
    starts: Sequence[int] | None = None,
) -> Entries:
    """The entries of all examples in one list.

    >>> gather([[0], [1]], [[1], [0]], [[1.0], [1.0]], length=2).row
    tensor([0, 1])
    """
    counts = [len(np.asarray(queries)) for queries in query]
    row = np.repeat(np.arange(len(counts)), counts)
    shift = 0 if starts is None else np.repeat(np.asarray(starts, dtype=np.int64), counts)
    q, k = (_flat(part, np.int64) + shift for part in (query, key))
    longest = max((int(part.max()) for part in (q, k) if len(part)), default=-1)
    if longest >= length:
        raise UserError(f"a prior speaks of token {longest}, but the batch has {length} positions: pad it further")
    return Entries(*map(torch.from_numpy, (row, q, k, _flat(value, np.float32))))


def _flat(parts: Sequence[ArrayLike], kind: type[np.generic]) -> np.ndarray:
    return np.concatenate([np.zeros(0, dtype=kind), *(np.asarray(part, dtype=kind) for part in parts)])
