"""One run, from a recipe to the folder that it leaves: load, fine-tune, judge on the held-out split, save."""

import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from transformers import PreTrainedModel, TrainingArguments, set_seed
from transformers.trainer_callback import PrinterCallback

from attentune.errors import UserError
from attentune.methods import Drawn, parse
from attentune.tasks import Task
from attentune.training.columns import cores, draw
from attentune.training.encoding import encode, training_texts
from attentune.training.evaluation import evaluate
from attentune.training.memory import peak_memory_mb
from attentune.training.models import load_for_classification
from attentune.training.precision import takes_bf16
from attentune.training.progress import ShowProgress, show_work
from attentune.training.recipe import Recipe
from attentune.training.run_folder import RunFolder
from attentune.training.trainer import Trainer
from attentune.training.trial import try_method

EVALUATION_BATCH = 64
SHOWN_CLASSES = 5
SHOWN_LETTERS = 24


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
    first = task.splits["train"][0]
    try_method(model, recipe.method, tokenizer, first[task.text], first[task.text_pair] if task.text_pair else None)
    console = console or Console(stderr=True)
    drawn = _drawn(recipe, task, Path(output), console)
    encoded = encode(task, model, tokenizer, recipe.training.max_length, drawn)
    folder = RunFolder.create(output)
    folder.write_start(recipe)
    for part in drawn:
        part.save(folder.path)
        say(part.note)
    bf16 = takes_bf16(recipe.training.precision)
    if encoded.note:
        say(encoded.note)
    say(f"precision: {'bfloat16 autocast' if bf16 else 'float32'}; method: {recipe.method}")

    progress = ShowProgress(console)
    trainer = Trainer(
        model,
        _training_arguments(recipe, folder, bf16, len(encoded.train)),
        train_dataset=encoded.train,
        data_collator=encoded.collator,
        processing_class=tokenizer,
        method=recipe.method,
        callbacks=[progress],
    )
    trainer.remove_callback(PrinterCallback)
    started = time.perf_counter()
    try:
        result = trainer.train()
    finally:
        progress.stop()
    seconds = time.perf_counter() - started

    scores, predictions = evaluate(trainer, task, encoded.validation)
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
                "examples": len(encoded.train),
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


def _drawn(recipe: Recipe, task: Task, kept: Path, console: Console) -> list[Drawn]:
    """What the methods draw from the texts that are trained on."""
    with show_work(console) as progress:
        texts = training_texts(task, kept=kept, num_proc=cores(), progress=progress)
        drawn = draw(parse(recipe.method), texts)
    for part in drawn:
        part.check()
    return drawn


def _sizes(task: Task) -> str:
    """How many rows there are, and of which classes: a label that is none shows here."""
    rows = ", ".join(f"{len(split):,} {name}" for name, split in task.splits.items())
    counts = Counter(task.splits["train"][task.label])
    names = [name if len(name) <= SHOWN_LETTERS else name[:SHOWN_LETTERS] + "…" for name in task.labels]
    shown = [f"{name!r} {counts[label]:,}" for label, name in enumerate(names)]
    more = ", …" if len(shown) > SHOWN_CLASSES else ""
    return f"{rows}; {len(shown)} classes: {', '.join(shown[:SHOWN_CLASSES])}{more}"


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


def _save(model: PreTrainedModel, tokenizer: Any, folder: RunFolder) -> None:
    """The checkpoint, whole or not at all."""
    part = folder.checkpoint.with_name("checkpoint.part")
    try:
        model.save_pretrained(part)
        tokenizer.save_pretrained(part)
        part.rename(folder.checkpoint)
    except Exception as error:
        raise UserError(f"the model can't be saved in {folder.checkpoint}: {error}") from error
