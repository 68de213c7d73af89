"""What a recipe says about training, in transformers' own terms."""

import math
from dataclasses import dataclass
from typing import Any

import torch
from transformers import TrainingArguments

from attentune.errors import UserError
from attentune.training import processes
from attentune.training.recipe import TrainingRecipe
from attentune.training.run_folder import RunFolder

EVALUATION_BATCH = 64
LOGS = 20
"""How often the parts of the loss are logged in a run."""


@dataclass(frozen=True)
class Plan:
    """How many steps a run has, and at which it evaluates and keeps checkpoints (0: never)."""

    steps: int
    evaluate_every: int
    save_every: int

    @classmethod
    def of(cls, training: TrainingRecipe, rows: int) -> "Plan":
        """The plan for so many rows to train on.

        >>> Plan.of(TrainingRecipe(epochs=2, early_stopping=1), rows=100)
        Plan(steps=8, evaluate_every=4, save_every=4)
        """
        in_epoch = math.ceil(rows / training.batch_size)
        steps = training.max_steps or math.ceil(in_epoch * training.epochs)
        evaluate, save = training.eval_steps or 0, training.save_steps or 0
        if training.early_stopping:  # what is best has to be there to be gone back to
            evaluate = evaluate or save or in_epoch
            save = evaluate
        return cls(steps, evaluate, save)


def training_arguments(
    training: TrainingRecipe, folder: RunFolder, *, bf16: bool, rows: int, deciding: str, run_name: str
) -> TrainingArguments:
    """transformers' arguments for a run, on this one of its processes."""
    on_gpu = torch.cuda.is_available()
    plan = Plan.of(training, rows)
    is_best_kept = training.early_stopping is not None
    limit = training.save_total_limit or (1 if is_best_kept and training.save_steps is None else None)
    scheduler = "constant_with_warmup" if training.scheduler == "constant" else training.scheduler
    try:
        return TrainingArguments(
            output_dir=str(folder.steps),
            run_name=run_name,
            num_train_epochs=training.epochs,
            max_steps=training.max_steps or -1,
            per_device_train_batch_size=rows_of_each(training),
            gradient_accumulation_steps=training.gradient_accumulation,
            per_device_eval_batch_size=EVALUATION_BATCH,
            learning_rate=training.lr,
            lr_scheduler_type=scheduler,
            warmup_steps=round(training.warmup * plan.steps),
            weight_decay=training.weight_decay,
            seed=training.seed,
            bf16=bf16,
            use_cpu=not on_gpu,
            dataloader_pin_memory=on_gpu,
            train_sampling_strategy="group_by_length",
            length_column_name="length",
            logging_steps=max(1, plan.steps // LOGS),
            eval_strategy="steps" if plan.evaluate_every else "no",
            eval_steps=plan.evaluate_every or None,
            save_strategy="steps" if plan.save_every else "no",
            save_steps=plan.save_every or 500,
            save_total_limit=limit,
            load_best_model_at_end=is_best_kept,
            metric_for_best_model=deciding if is_best_kept else None,
            greater_is_better=deciding != "loss" if is_best_kept else None,
            **_checkpointing(training),
            report_to=list(training.report_to) or "none",
            disable_tqdm=True,
        )
    except ValueError as error:
        raise UserError(f"these settings can't be trained with: {_first_line(error)}; change them") from error


def rows_of_each(training: TrainingRecipe) -> int:
    """How many rows each process takes at a time, of those that a step has."""
    parts = processes.count() * training.gradient_accumulation
    if training.batch_size % parts:
        raise UserError(
            f"a step of {training.batch_size} rows (--batch-size) can't be shared evenly by {processes.count()} processes with "
            f"{training.gradient_accumulation} parts each (training.gradient_accumulation); give a multiple of {parts}"
        )
    return training.batch_size // parts


def _checkpointing(training: TrainingRecipe) -> dict[str, Any]:
    """Under the name that this transformers has for it."""
    if not training.gradient_checkpointing:
        return {}
    newer, older = "activation_checkpointing", "gradient_checkpointing"
    return {newer if newer in TrainingArguments.__dataclass_fields__ else older: True}


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), "").rstrip(".") or type(error).__name__
