"""The labels of self-supervised attention (Kou et al. 2021, section 3.1): masked copies of the texts that the model gets
right, and whether its prediction flips. The tokens masked in a copy are labelled 1 where it does, and 0 where it stays.

Where training runs in several processes, each asks its model about its share of the texts, and all get all answers.
"""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from attentune.errors import UserError
from attentune.functional.ssa import NO_LABEL
from attentune.methods.epochs import Epoch, Made
from attentune.methods.masking import MaskedCopies, Row, fetch, masked


def judge(copies: MaskedCopies, epoch: Epoch, flip: float) -> tuple[Made, dict[str, float]]:
    """Which copies flip the model's prediction, of those whose text it gets right; and both shares.

    For classes, right is the true class and a flip is another class than without the mask. For a number (regression),
    right is within `flip` of the truth and a flip is a change by more than that.
    """
    if not len(copies):
        return unlabelled(), {}
    rows = np.unique(copies.row)
    asked = _Asked(epoch, flip, total=len(rows) + len(copies))
    lengths = np.diff(copies.offset)  # masked tokens, which are a share of the text's: so it sorts by length
    first = np.searchsorted(copies.row, rows)
    before, is_right = asked.about(lengths[first], lambda chosen: fetch(epoch.rows, rows[chosen]))
    kept = np.flatnonzero(is_right[np.searchsorted(rows, copies.row)])
    copies = copies.only(kept)
    asked.total = len(rows) + len(copies)

    def in_copies(chosen: np.ndarray) -> list[Row]:
        texts = fetch(epoch.rows, copies.row[chosen])
        return [masked(row, copies.positions(copy), epoch.mask_token) for row, copy in zip(texts, chosen, strict=True)]

    after, _ = asked.about(lengths[kept], in_copies)
    change = np.abs(after - before[np.searchsorted(rows, copies.row)])
    flipped = change > (flip if asked.is_regression else 0)
    made = {**copies.to_tensors(), "flipped": torch.from_numpy(flipped.astype(np.uint8))}
    return made, {"right": float(is_right.mean()), "flipped": float(flipped.mean()) if len(flipped) else 0.0}


def unlabelled() -> Made:
    """What is made where nothing has a label."""
    none = torch.zeros(0, dtype=torch.int64)
    return {"row": none, "offset": torch.zeros(1, dtype=torch.int64), "position": none, "flipped": none.byte()}


def batch_labels(made: Made, numbers: Tensor, real: Tensor) -> Tensor:
    """The labels of a batch of rows, (batch, copies, length): 1, 0, or −1 for none; `real` (batch, length) are its tokens.

    There are as many copies as the row with most has, at least one.
    """
    copies, flipped = MaskedCopies.from_tensors(made), made["flipped"].tolist()
    of = [list(copies.of(number)) for number in numbers.tolist()]
    labels = np.full((len(of), max(1, *map(len, of)), real.shape[1]), NO_LABEL)
    for b, (own, text) in enumerate(zip(of, real.cpu().numpy(), strict=True)):
        places = np.flatnonzero(text) if own else None
        for n, copy in enumerate(own):
            assert places is not None
            labels[b, n, places[copies.positions(copy)]] = flipped[copy]
    return torch.from_numpy(labels)


Texts = Callable[[np.ndarray], Sequence[Row]]
"""The rows that stand at some places of a list."""


class _Asked:
    """The model's answers to many texts, by length, in all processes' shares."""

    def __init__(self, epoch: Epoch, flip: float, total: int) -> None:
        self.epoch, self.flip = epoch, flip
        self.is_regression = False
        self.done, self.total = 0, total

    def about(self, lengths: np.ndarray, texts: Texts) -> tuple[np.ndarray, np.ndarray]:
        """The prediction for each text, a class or a number, and whether it is right."""
        order = np.argsort(lengths, kind="stable")
        size = self.epoch.batch_size
        batches = [order[begin : begin + size] for begin in range(0, len(order), size)]
        rank, processes = _place()
        predicted, is_right = np.zeros(len(order)), np.zeros(len(order))
        regression = False
        for number, chosen in enumerate(batches):
            if number % processes == rank:
                logits, truth = self.epoch.answer(texts(chosen))
                predicted[chosen], is_right[chosen], regression = self._read(logits, truth)
            self.done += len(chosen)
            self.epoch.progress(self.done, self.total)
        whole = _summed(np.stack([predicted, is_right, np.full(len(order), float(regression))]))
        self.is_regression = self.is_regression or bool(whole[2].any())
        return whole[0], whole[1] > 0

    def _read(self, logits: Tensor, truth: Tensor) -> tuple[np.ndarray, np.ndarray, bool]:
        if truth.dim() != 1 or logits.dim() != 2 or len(logits) != len(truth):
            raise UserError(
                "ssa labels the words of texts that have one class or one number each; here the labels are "
                f"{tuple(truth.shape)} and the answers {tuple(logits.shape)}"
            )
        if logits.shape[1] == 1:
            values = logits[:, 0].double()
            return values.numpy(), ((values - truth).abs() <= self.flip).numpy(), True
        classes = logits.argmax(dim=-1)
        return classes.numpy(), (classes == truth).numpy(), False


def _place() -> tuple[int, int]:
    """Which of how many processes this is."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank(), torch.distributed.get_world_size()
    return 0, 1


def _summed(own: np.ndarray) -> np.ndarray:
    """The sum over the processes; each has filled in its share, and zeros elsewhere."""
    if _place()[1] == 1:
        return own
    on_gpu = torch.distributed.get_backend() == "nccl"
    tensor = torch.from_numpy(own).to("cuda" if on_gpu else "cpu")
    torch.distributed.all_reduce(tensor)
    summed: np.ndarray = tensor.cpu().numpy()
    return summed
