"""Methods that make something of the training data before each epoch, such as labels by the model as it is by then, and
bring it to each pass.

`Preparing` is such a method. `Epochs` keeps what was made until the next epoch, and gives it to a checkpoint as plain
tensors. Rows of data are known by their number, which a batch brings along.
"""

import contextlib
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from attentune.errors import UserError
from attentune.methods.base import Method, Sum
from attentune.methods.masking import Progress, Row, Rows
from attentune.methods.tokens import TokenKinds

ROW = "attentune_row"
"""The column of a row's number."""

Made = Mapping[str, Tensor]


@dataclass(frozen=True)
class Epoch:
    """What a method is told before an epoch."""

    number: int
    """From 0."""
    rows: Rows
    kinds: TokenKinds
    mask_token: int
    answer: Callable[[Sequence[Row]], tuple[Tensor, Tensor]]
    """The answers of the model, as it is now, to a batch of rows (rows, classes), and the truth (rows,)."""
    seed: int = 0
    batch_size: int = 64
    progress: Progress = lambda done, total: None

    def draws(self) -> np.random.Generator:
        """Random numbers of this epoch, the same ones in each process and each run."""
        return np.random.default_rng([self.seed, self.number])


@dataclass(frozen=True)
class Preparing(Method):
    """A method that makes something of the training data before each epoch."""

    asks_model: ClassVar[bool] = True
    """Whether it asks the model about the texts for that."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The number of each row."""
        return (ROW,)

    def collate(self, rows: Sequence[Mapping[str, Any]], shape: tuple[int, int], pad_left: bool) -> Mapping[str, Any]:
        """The numbers of a batch's rows."""
        return {ROW: torch.tensor([row[ROW] for row in rows])} if all(ROW in row for row in rows) else {}

    def extra_rows(self, count: int, seed: int) -> np.ndarray:
        """Of `count` rows of training data, those that shall be there once more."""
        return np.zeros(0, dtype=np.int64)

    def prepare(self, epoch: Epoch) -> tuple[Made, Mapping[str, float]]:
        """What the method makes before an epoch; and figures about it, for the log."""
        raise NotImplementedError

    def bring(self, made: Made, numbers: Tensor, inputs: dict[str, Any]) -> tuple[Tensor | None, dict[str, Any]]:
        """For the rows of a batch, what the pass is given of it under the method's name; and the batch, changed or not."""
        raise NotImplementedError


class Epochs:
    """What the methods of a sum have made for the epoch that goes on."""

    def __init__(self, method: Sum, tokenizer: Any) -> None:
        self.parts = {n: p for n, p in zip(method.names, method.parts, strict=True) if isinstance(p, Preparing)}
        self.number: int | None = None
        self.made: dict[str, Made] = {}
        self._is_restored = False
        self._kinds = None if tokenizer is None or not self.parts else TokenKinds.of(tokenizer)
        self._mask_token: int | None = getattr(tokenizer, "mask_token_id", None)
        if self._kinds is not None and self._mask_token is None:
            raise UserError(
                f"{_names(self.parts)} masks words, and this tokenizer has no token for that (mask_token); use a model "
                "that was trained with one, such as BERT, RoBERTa, ELECTRA or ModernBERT"
            )

    def begin(
        self,
        model: nn.Module,
        number: int,
        rows: Rows,
        *,
        collate: Callable[[list[Any]], Mapping[str, Any]],
        label: str,
        seed: int,
        batch_size: int,
        progress: Progress,
    ) -> dict[str, float]:
        """Make what the epoch `number` needs, by the model as it is; what a checkpoint of this epoch had is kept."""
        if self._is_restored and self.number == number:
            self._is_restored = False
            return {}
        if not self.parts:
            return {}
        if self._kinds is None or self._mask_token is None:
            raise UserError(
                f"{_names(self.parts)} masks words, for which it needs the tokenizer: attach(model, method, tokenizer), or "
                "Trainer(processing_class=tokenizer)"
            )
        figures: dict[str, float] = {}
        with undisturbed(model):
            answer = _Answers(model, collate, label)
            epoch = Epoch(number, rows, self._kinds, self._mask_token, answer, seed, batch_size, progress)
            for name, part in self.parts.items():
                self.made[name], told = part.prepare(epoch)
                figures |= {f"{name}/{key}": value for key, value in told.items()}
        self.number, self._is_restored = number, False
        return figures

    def bring(self, numbers: Tensor, inputs: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """What is for the pass with a batch, by method, and the batch as it shall go in."""
        given = {}
        for name, part in self.parts.items():
            if name not in self.made:
                raise UserError(
                    f"nothing is made for {name} yet: call guided.begin_epoch(0, rows) before the first epoch"
                )
            given[name], inputs = part.bring(self.made[name], numbers, inputs)
        return given, inputs

    def state_dict(self) -> dict[str, Tensor]:
        """What was made for this epoch."""
        return {f"{name}.{key}": tensor for name, made in self.made.items() for key, tensor in made.items()}

    def load_state_dict(self, number: int, state: Mapping[str, Tensor]) -> None:
        """Go on within the epoch `number`, with what `state_dict` gave in it."""
        made: dict[str, dict[str, Tensor]] = {name: {} for name in self.parts}
        for key, tensor in state.items():
            name, _, rest = key.partition(".")
            if name not in made:
                raise UserError(f"there is something made by {name}, which isn't among {_names(self.parts)}")
            made[name][rest] = tensor
        self.number, self.made, self._is_restored = number, dict(made), True


class _Answers:
    """The model as it is, asked about rows of data."""

    def __init__(self, model: nn.Module, collate: Callable[[list[Any]], Mapping[str, Any]], label: str) -> None:
        self.model, self.collate, self.label = model, collate, label
        self.device = next(model.parameters()).device

    def __call__(self, rows: Sequence[Row]) -> tuple[Tensor, Tensor]:
        batch = dict(self.collate([dict(row) for row in rows]))
        truth = batch.pop(self.label, None)
        if not isinstance(truth, Tensor):
            raise UserError(
                f"which texts the model gets right can't be told: a batch has no {self.label!r} (it has {', '.join(batch)})"
            )
        tensors = {name: value.to(self.device) for name, value in batch.items() if isinstance(value, Tensor)}
        output = self.model(**tensors)  # what else a batch holds is for others
        logits: Tensor = output["logits"]
        return logits.float().cpu(), truth.cpu()


@contextlib.contextmanager
def undisturbed(model: nn.Module) -> Iterator[None]:
    """Within, the model is in evaluation and keeps no graph; afterwards all is as it was, random numbers included."""
    modes = [(module, module.training) for module in model.modules()]
    devices = sorted({p.device.index or 0 for p in model.parameters() if p.device.type == "cuda"})
    states = random.getstate(), np.random.get_state()
    model.eval()
    try:
        with torch.no_grad(), torch.random.fork_rng(devices=devices):
            yield
    finally:
        for module, training in modes:
            module.training = training
        random.setstate(states[0])
        np.random.set_state(states[1])


def _names(parts: Mapping[str, Method]) -> str:
    return " and ".join(parts)
