"""Which rows make a step, and what each counts: the same on one process as on many, and the same when training goes on.

The order of an epoch is drawn from the seed and the epoch's number alone, so that neither dropout nor an interruption
moves it. Processes share each batch, and each row counts the same wherever it is: the gradient is that of the batch
whole, guides included.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
import transformers
from torch import Tensor
from torch.utils.data import DataLoader, Sampler, SequentialSampler
from transformers.trainer_pt_utils import get_length_grouped_indices
from transformers.trainer_utils import has_length


class LengthGroupedBatches(Sampler[list[int]]):
    """Batches of texts about as long as each other, of which this process takes its share.

    `batch_size` counts the rows of all processes together; a step is `parts` such batches. Where the last batch has fewer
    rows than there are processes, some of its rows are taken twice.

    >>> batches = LengthGroupedBatches([5, 1, 4, 2, 3], batch_size=2, seed=0)
    >>> sorted(row for batch in batches for row in batch)
    [0, 1, 2, 3, 4]
    """

    def __init__(
        self,
        lengths: Sequence[int],
        batch_size: int,
        seed: int,
        *,
        parts: int = 1,
        rank: int = 0,
        processes: int = 1,
        drop_last: bool = False,
    ) -> None:
        self.lengths, self.batch_size, self.seed, self.parts = list(lengths), batch_size, seed, parts
        self.rank, self.processes, self.drop_last = rank, processes, drop_last
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Which epoch is to be drawn."""
        self.epoch = epoch

    def __len__(self) -> int:
        whole, rest = divmod(len(self.lengths), self.batch_size)
        return whole + (rest > 0 and not self.drop_last)

    def __iter__(self) -> Iterator[list[int]]:
        drawn = np.random.SeedSequence((self.seed, self.epoch)).generate_state(1, np.uint64)
        generator = torch.Generator().manual_seed(int(drawn[0]) >> 1)
        order = get_length_grouped_indices(self.lengths, self.batch_size * self.parts, generator=generator)
        for number in range(len(self)):
            batch = order[number * self.batch_size : (number + 1) * self.batch_size]
            # Every so-manieth row: those next to each other are of about one length, and no process waits for long texts.
            yield batch[self.rank :: self.processes] or [batch[self.rank % len(batch)]]


class SharesRows(transformers.Trainer):
    """A Trainer whose steps weigh each row the same, whatever processes and parts of a step the rows are spread over."""

    _step_rows: int | None = None
    """How many rows the step under way has, in all its parts and processes."""

    def get_train_dataloader(self) -> DataLoader[Any]:
        """As transformers makes it; batches grouped by length are drawn by us."""
        rows: Any = self.train_dataset
        lengths = self._lengths(rows)
        if self.args.train_sampling_strategy != "group_by_length" or lengths is None:
            return super().get_train_dataloader()
        arguments = self.args
        self._batches = LengthGroupedBatches(
            lengths,
            self._train_batch_size * arguments.world_size,
            arguments.seed if arguments.data_seed is None else arguments.data_seed,
            parts=arguments.gradient_accumulation_steps,
            rank=arguments.process_index,
            processes=arguments.world_size,
            drop_last=arguments.dataloader_drop_last,
        )
        return DataLoader(
            self._remove_unused_columns(rows, description="training"),
            batch_sampler=self._batches,
            collate_fn=self.data_collator,
            num_workers=arguments.dataloader_num_workers,
            pin_memory=arguments.dataloader_pin_memory,
            persistent_workers=arguments.dataloader_persistent_workers,
            prefetch_factor=arguments.dataloader_prefetch_factor,
        )

    def _get_eval_sampler(self, eval_dataset: Any) -> Sampler[int] | None:
        """Rows to judge on are taken in their order, so that each answer is known to be that of its row."""
        whole = eval_dataset is not None and has_length(eval_dataset) and self.args.world_size <= 1
        return SequentialSampler(eval_dataset) if whole else None

    def get_batch_samples(self, *args: Any, **kwargs: Any) -> Any:
        """The parts of a step, counted."""
        batches, items = super().get_batch_samples(*args, **kwargs)
        rows = sum(map(rows_of, batches))
        if self.args.world_size > 1:
            whole = torch.tensor(rows, device=self.args.device)
            rows = int(self.accelerator.reduce(whole, reduction="sum").item())
        self._step_rows = rows
        return batches, items

    def _run_epoch(self, *args: Any, **kwargs: Any) -> Any:
        if self.state.global_step >= self.state.max_steps or self.control.should_training_stop:
            self.control.should_training_stop = True  # what it goes on from had come to its end
            return None
        if hasattr(self, "_batches"):
            self._batches.set_epoch(kwargs["epoch"])
        return super()._run_epoch(*args, **kwargs)  # type: ignore[no-untyped-call]

    def _weigh(self, inputs: dict[str, Any]) -> tuple[float, float]:
        """What the mean over a batch counts for: as a portion of its step, times the number of processes, whose mean is
        taken; and times the parts of the step, where their mean is taken too."""
        parts = self.current_gradient_accumulation_steps
        if not self._step_rows:
            return 1 / parts, 1.0
        rows = rows_of(inputs) * self.args.world_size
        return rows / self._step_rows, rows * parts / self._step_rows

    def _lengths(self, rows: Any) -> list[int] | None:
        name = self.args.length_column_name
        if name in (getattr(rows, "column_names", None) or ()):
            return list(rows[name])
        if not hasattr(rows, "__len__") or not len(rows) or "input_ids" not in rows[0]:
            return None
        return [len(row["input_ids"]) for row in rows]


def rows_of(batch: dict[str, Any]) -> int:
    """How many rows a batch has.

    >>> rows_of({"input_ids": torch.zeros(3, 5)})
    3
    """
    return next((len(value) for value in batch.values() if isinstance(value, Tensor) and value.dim()), 1)
