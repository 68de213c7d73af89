"""One run, from a recipe to the folder that it leaves: load, fine-tune, judge on the held-out split, save."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import torch
from rich.console import Console
from transformers import DataCollatorWithPadding, PreTrainedModel, TrainingArguments, set_seed
from transformers.trainer_callback import PrinterCallback

from attentune.errors import UserError
from attentune.methods import attach
from attentune.tasks import Task
from attentune.training.memory import peak_memory_mb
from attentune.training.models import load_for_classification
from attentune.training.precision import takes_bf16
from attentune.training.progress import ShowProgress
from attentune.training.recipe import Recipe
from attentune.training.run_folder import RunFolder
from attentune.training.trainer import Trainer

EVALUATION_BATCH = 64


def run_recipe(
    recipe: Recipe,
    output: str | Path,
    *,
    console: Console | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> RunFolder:
    """Run a recipe and leave its results in `output`, a folder that must be new or empty.

    `say` is told, line by line, what is used and found on the way; progress goes to `console`.
    """
    RunFolder.check_free(output)
    task = recipe.data.load(recipe.training.seed)
    say(f"data: {task.source} ({_sizes(task)})")
    set_seed(recipe.training.seed)  # the new head's weights depend on it
    model, tokenizer = load_for_classification(
        recipe.model, task.labels, revision=recipe.revision, trust_remote_code=recipe.trust_remote_code
    )
    with attach(model, recipe.method, tokenizer):
        pass  # a method that doesn't fit this model is told of before anything is written
    folder = RunFolder.create(output)
    folder.write_start(recipe)
    bf16 = takes_bf16(recipe.training.precision)
    say(f"precision: {'bfloat16 autocast' if bf16 else 'float32'}; method: {recipe.method}")

    splits = {name: _tokenize(task, name, tokenizer, recipe) for name in ("train", "validation")}
    trainer = Trainer(
        model,
        _training_arguments(recipe, folder, bf16, len(splits["train"])),
        train_dataset=splits["train"],
        data_collator=DataCollatorWithPadding(tokenizer, pad_to_multiple_of=8),
        processing_class=tokenizer,
        method=recipe.method,
        callbacks=[ShowProgress(console or Console(stderr=True))],
    )
    trainer.remove_callback(PrinterCallback)
    started = time.perf_counter()
    result = trainer.train()
    seconds = time.perf_counter() - started

    scores, predictions = _evaluate(trainer, task, splits["validation"])
    _save(model, tokenizer, folder)
    folder.write_log(trainer.state.log_history)
    folder.write_predictions(predictions)
    folder.write_metrics(
        {
            "task": task.name,
            "method": recipe.method,
            "seed": recipe.training.seed,
            "eval": scores,
            "train": {
                "loss": result.training_loss,
                "examples": len(splits["train"]),
                "steps": trainer.state.global_step,
                "epochs": recipe.training.epochs,
                "seconds": round(seconds, 2),
                "peak_memory_mb": round(peak_memory_mb()),
                "precision": "bf16" if bf16 else "fp32",
            },
            "model": recipe.model,
            "inputs": {"text": task.text, "text_pair": task.text_pair},
            "deciding": task.deciding,
        }
    )
    return folder


def _sizes(task: Task) -> str:
    return ", ".join(f"{len(rows):,} {name}" for name, rows in task.splits.items())


def _tokenize(task: Task, split: str, tokenizer: Any, recipe: Recipe) -> datasets.Dataset:
    """Token ids, labels and lengths of one split; the evaluation split is sorted by length, to pad less."""
    rows = task.splits[split]
    longest = min(recipe.training.max_length, tokenizer.model_max_length)

    def encode(batch: dict[str, list[Any]]) -> dict[str, list[Any]]:
        pairs = [batch[task.text_pair]] if task.text_pair else []
        encoded = dict(tokenizer(batch[task.text], *pairs, truncation=True, max_length=longest))
        encoded["labels"] = batch[task.label]
        encoded["length"] = [len(ids) for ids in encoded["input_ids"]]
        return encoded

    encoded = rows.map(encode, batched=True, desc=f"tokenizing {split}", remove_columns=rows.column_names)
    if split == "train":
        return encoded
    order = np.argsort(encoded["length"], kind="stable")
    ids = datasets.Dataset.from_dict({"id": rows["id"]})
    return datasets.concatenate_datasets([encoded, ids], axis=1).select(order)


def _training_arguments(recipe: Recipe, folder: RunFolder, bf16: bool, examples: int) -> TrainingArguments:
    training = recipe.training
    on_gpu = torch.cuda.is_available()
    steps = int(np.ceil(examples / training.batch_size) * training.epochs)
    return TrainingArguments(
        output_dir=str(folder.steps),
        num_train_epochs=training.epochs,
        per_device_train_batch_size=training.batch_size,
        per_device_eval_batch_size=EVALUATION_BATCH,
        learning_rate=training.lr,
        warmup_steps=round(training.warmup * steps),
        weight_decay=training.weight_decay,
        seed=training.seed,
        bf16=bf16,
        use_cpu=not on_gpu,
        dataloader_pin_memory=on_gpu,
        train_sampling_strategy="group_by_length",
        length_column_name="length",
        logging_steps=max(1, steps // 20),
        save_strategy="steps" if training.save_steps else "no",
        save_steps=training.save_steps or 500,
        report_to="none",
        disable_tqdm=True,
    )


def _evaluate(trainer: Trainer, task: Task, rows: datasets.Dataset) -> tuple[dict[str, float], list[dict[str, Any]]]:
    """Scores on the evaluation split, and its predictions in the order of the data."""
    trainer.args.train_sampling_strategy = "sequential"  # keep rows and predictions in one order
    output = trainer.predict(rows)
    logits = output.predictions[0] if isinstance(output.predictions, tuple) else output.predictions
    probabilities = torch.from_numpy(np.asarray(logits)).float().softmax(dim=-1)
    predicted = probabilities.argmax(dim=-1).tolist()
    references = rows["labels"][:]
    scores = task.score(predicted, references)
    scores["loss"] = float((output.metrics or {})["test_loss"])
    labelled = {
        identity: {
            "id": identity,
            "label": task.labels[truth],
            "prediction": task.labels[guess],
            "probabilities": {label: round(p, 6) for label, p in zip(task.labels, row, strict=True)},
        }
        for identity, truth, guess, row in zip(rows["id"], references, predicted, probabilities.tolist(), strict=True)
    }
    return scores, [labelled[identity] for identity in task.splits["validation"]["id"]]


def _save(model: PreTrainedModel, tokenizer: Any, folder: RunFolder) -> None:
    """The checkpoint, whole or not at all."""
    part = folder.checkpoint.with_name("checkpoint.part")
    try:
        model.save_pretrained(part)
        tokenizer.save_pretrained(part)
        part.rename(folder.checkpoint)
    except Exception as error:
        raise UserError(f"the model can't be saved in {folder.checkpoint}: {error}") from error
