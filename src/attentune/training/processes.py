"""The processes of a run, one for each device: which of them this is, and how they come to agree.

Started by `torchrun` or `accelerate launch`, every process runs the whole program. The first alone writes and prints; what
one of them can't do, none of them does.
"""

import contextlib
import os
from collections.abc import Iterator
from typing import Any

import accelerate
import torch
from torch import distributed

from attentune.errors import UserError


def is_first() -> bool:
    """Whether this process is the one that writes and prints.

    >>> is_first()
    True
    """
    return os.environ.get("RANK", "0") == "0"


def count() -> int:
    """How many processes there are, on all machines.

    >>> count()
    1
    """
    return distributed.get_world_size() if _are_joined() else 1


def rank() -> int:
    """The number of this process, from 0."""
    return distributed.get_rank() if _are_joined() else 0


def join() -> None:
    """Bring the processes together, where there is more than one."""
    if int(os.environ.get("WORLD_SIZE", "1")) > 1 and not _are_joined():
        accelerate.PartialState(cpu=not torch.cuda.is_available())


@contextlib.contextmanager
def agreed() -> Iterator[None]:
    """A block whose UserError in one process is that of all of them; alone, nothing more than the block."""
    if not _are_joined():
        yield
        return
    problem: UserError | None = None
    try:
        yield
    except UserError as error:
        problem = error
    first = next((told for told in gathered(None if problem is None else str(problem)) if told is not None), None)
    if first is not None:
        raise UserError(first) from problem


def any_has(flag: bool, device: torch.device | str = "cpu") -> bool:
    """Whether it is so in any of the processes; cheap enough for every step.

    >>> any_has(False)
    False
    """
    if not _are_joined():
        return flag
    told = torch.tensor(int(flag), device=device)
    distributed.all_reduce(told, distributed.ReduceOp.MAX)
    return bool(told.item())


def gathered(value: Any) -> list[Any]:
    """The value of each process, in their order."""
    if not _are_joined():
        return [value]
    values: list[Any] = [None] * distributed.get_world_size()
    distributed.all_gather_object(values, value)
    return values


def wait() -> None:
    """Until all processes have come here."""
    gathered(None)


def _are_joined() -> bool:
    return distributed.is_available() and distributed.is_initialized() and distributed.get_world_size() > 1
