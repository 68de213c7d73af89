"""The Trainer for masked language models: which blocks make a step, what the held-out text costs, and how long it took."""

import math
import time
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import datasets
import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, Dataset, Sampler

from attentune.errors import UserError
from attentune.training.pretraining.masking import IGNORED, Masking
from attentune.training.trainer import Trainer

LARGEST_EXPONENT = 700.0
"""A larger perplexity is no finite number."""


class DrawnBlocks(Dataset[dict[str, Any]]):
    """Blocks by the number of their draw: from epoch to epoch it goes on, so that a block is masked anew each time."""

    def __init__(self, blocks: datasets.Dataset) -> None:
        self.blocks = blocks

    def __len__(self) -> int:
        return len(self.blocks)

    def __getitem__(self, draw: int) -> dict[str, Any]:
        return {**self.blocks[draw % len(self.blocks)], "draw": draw}


class ShuffledBatches(Sampler[list[int]]):
    """Batches of draws, of which this process takes its share: each block once an epoch, in an order of the epoch's own.

    >>> batches = ShuffledBatches(5, batch_size=2, seed=0)
    >>> batches.set_epoch(1)
    >>> [len(batch) for batch in batches], sorted(draw for batch in batches for draw in batch)
    ([2, 2, 1], [5, 6, 7, 8, 9])
    """

    def __init__(self, blocks: int, batch_size: int, seed: int, *, rank: int = 0, processes: int = 1) -> None:
        self.blocks, self.batch_size, self.seed = blocks, batch_size, seed
        self.rank, self.processes = rank, processes
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Which epoch is to be drawn."""
        self.epoch = epoch

    def __len__(self) -> int:
        return -(-self.blocks // self.batch_size)

    def __iter__(self) -> Iterator[list[int]]:
        order = np.random.default_rng((self.seed, self.epoch)).permutation(self.blocks) + self.epoch * self.blocks
        for start in range(0, self.blocks, self.batch_size):
            batch = order[start : start + self.batch_size].tolist()
            # Where there are fewer blocks than processes, one is taken twice.
            yield batch[self.rank :: self.processes] or [batch[self.rank % len(batch)]]


class PretrainingTrainer(Trainer):
    """`attentune.Trainer` for blocks of masked text; `held_out_masking` masks what it is judged on."""

    def __init__(self, *args: Any, held_out_masking: Masking, **kwargs: Any) -> None:
        super().__init__(*args, compute_loss_func=masked_loss, **kwargs)
        self.held_out_masking = held_out_masking

    def get_train_dataloader(self) -> DataLoader[Any]:
        """The blocks in the order of each epoch."""
        blocks: Any = self.train_dataset
        batches = ShuffledBatches(
            len(blocks),
            self._train_batch_size * self.args.world_size,
            self.args.seed,
            rank=self.args.process_index,
            processes=self.args.world_size,
        )
        self._batches = batches  # type: ignore[assignment]  # the base tells it each epoch
        return DataLoader(blocks, batch_sampler=batches, collate_fn=self.data_collator)

    def evaluate(self, *args: Any, **kwargs: Any) -> dict[str, float]:
        """The loss and the perplexity of the held-out text, exactly: a mean over its masked tokens. Unguided, and off the
        clock."""
        step = self.state.global_step
        known = [entry for entry in self.state.log_history if entry["step"] == step and "eval_loss" in entry]
        if known:  # a run that goes on, or that comes to its end
            return known[-1]
        stopped = time.perf_counter()
        with nullcontext() if self.guided is None else self.guided.paused():
            loss = self._held_out_loss()
        self._began += time.perf_counter() - stopped
        metrics = {"eval_loss": loss, "eval_perplexity": math.exp(min(loss, LARGEST_EXPONENT))}
        self.log(dict(metrics))
        self.control = self.callback_handler.on_evaluate(self.args, self.state, self.control, metrics)
        return metrics

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Log as the base does, with the seconds of training so far: guide included, evaluation not."""
        logs["seconds"] = round(self.seconds, 3)
        super().log(logs, start_time)

    def _held_out_loss(self) -> float:
        rows: Any = self.eval_dataset
        model, device = self.plain_model, self.args.device
        size, was_training = self.args.per_device_eval_batch_size, model.training
        total = torch.zeros(2, dtype=torch.float64, device=device)  # the sum of losses, and of how many tokens
        model.eval()
        with torch.no_grad(), torch.autocast(device.type, torch.bfloat16, enabled=self.args.bf16):
            own = range(len(rows))[self.args.process_index :: self.args.world_size]
            for start in range(0, len(own), size):
                batch = self.held_out_masking([rows[draw] for draw in own[start : start + size]])
                labels = batch.pop("labels").to(device)
                outputs = model(**{name: value.to(device) for name, value in batch.items()})
                total[0] += masked_loss(outputs, labels, 1).double()
                total[1] += (labels != IGNORED).sum()
        model.train(was_training)
        if self.args.world_size > 1:
            total = self.accelerator.reduce(total, reduction="sum")
        loss, count = total.tolist()
        if not count:
            raise UserError("no token of the held-out text was masked; give more of it with --eval-file")
        if not math.isfinite(loss):
            raise UserError(
                f"the loss of the held-out text is {loss} at step {self.state.global_step}: training has diverged; "
                "train again with a lower --lr or a lower weight of the method"
            )
        return float(loss / count)


def masked_loss(outputs: Any, labels: Tensor, num_items_in_batch: Tensor | int | None = None) -> Tensor:
    """The cross-entropy of the masked tokens: their sum over how many a step has, in all its parts and processes.

    Only what is masked is looked at, so that nothing of the size of all logits is made a second time.
    """
    told = labels != IGNORED  # (batch, length)
    loss = cross_entropy(outputs.logits[told].float(), labels[told], reduction="sum")
    count = told.sum() if num_items_in_batch is None else num_items_in_batch
    return loss / max(1, int(count))  # a small step may have none
