"""One training step of a tiny model by each of several methods, and the gradients that come of it; run alone or under torchrun.

    python tests/training/shared_step.py FOLDER

The first process writes `FOLDER/gradients.safetensors`: a name for each case, method and parameter.
"""

import logging
import os
import sys
from pathlib import Path

import torch
from datasets import Dataset
from safetensors.torch import save_file
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    DataCollatorWithPadding,
    TrainerCallback,
    TrainingArguments,
)

sys.path.insert(0, str(Path(__file__).parents[1]))
from conftest import make_tiny_tokenizer

from attentune.training import Trainer, processes
from attentune.training.class_weights import weighted_loss

CASES = {  # name: method, rows, parts of a step, weights of the classes
    "none": ("none", 8, 1, None),
    "mdg": ("mdg(0.5, layers=1-2)", 8, 1, None),
    "pdg": ("pdg(0.5, tokens=content)", 8, 1, None),
    "patterns": ("first(2.0, heads=2) + next(2.0, heads=1)", 8, 1, None),
    "auto": ("mdg(auto(0.5)) + pdg(auto(0.3))", 8, 1, None),
    "se": ("se() + mdg(0.5)", 8, 1, None),
    "blur": ("blur(sigma=0.5) + pdg(0.5)", 8, 1, None),
    "uneven": ("mdg(0.5)", 7, 1, None),
    "in parts": ("mdg(0.5)", 7, 2, None),
    "weighted": ("mdg(0.5)", 7, 1, (0.5, 2.0)),
    "weighted in parts": ("mdg(0.5)", 7, 2, (0.5, 2.0)),
}


def rows(count):
    generator = torch.Generator().manual_seed(3)
    ids = [
        [1, *torch.randint(5, 15, (length,), generator=generator).tolist(), 2]
        for length in (7, 3, 5, 9, 4, 8, 2, 6)[:count]
    ]
    return Dataset.from_dict(
        {
            "input_ids": ids,
            "attention_mask": [[1] * len(one) for one in ids],
            "labels": [0, 1, 1, 0, 1, 0, 0, 1][:count],
            "length": list(map(len, ids)),
            "row_id": [f"row {i}" for i in range(count)],
        }
    )


class Keep(TrainerCallback):
    def __init__(self):
        self.gradients, self.logs = {}, {}

    def on_pre_optimizer_step(self, args, state, control, model=None, **kwargs):
        self.gradients = {
            name.removeprefix("module."): parameter.grad.clone() for name, parameter in model.named_parameters()
        }

    def on_log(self, args, state, control, logs=None, **kwargs):
        self.logs |= logs


def step(folder, method, count, parts, weights):
    torch.manual_seed(0)
    still = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    still["initializer_range"] = 0.4  # so that heads look somewhere, and their gradients are no rounding errors
    config = BertConfig(
        vocab_size=15, hidden_size=16, num_hidden_layers=3, num_attention_heads=4, intermediate_size=32, **still
    )
    tokenizer, keep = make_tiny_tokenizer(), Keep()
    arguments = TrainingArguments(
        str(folder), max_steps=1, per_device_train_batch_size=8 // parts // processes.count(),
        gradient_accumulation_steps=parts, logging_steps=1, save_strategy="no", report_to="none", use_cpu=True,
        disable_tqdm=True, max_grad_norm=0.0, train_sampling_strategy="group_by_length",
    )  # fmt: skip
    trainer = Trainer(
        BertForSequenceClassification(config), arguments, train_dataset=rows(count), processing_class=tokenizer,
        data_collator=DataCollatorWithPadding(tokenizer), method=method, callbacks=[keep],
        compute_loss_func=weighted_loss(weights) if weights else None,
    )  # fmt: skip
    trainer.train()
    figures = {name: torch.tensor(value) for name, value in keep.logs.items() if "loss" in name or "/" in name}
    return {**keep.gradients, **figures}


def main(folder):
    logging.disable(logging.WARNING)
    processes.join()
    found = {
        f"{case}: {name}": value
        for case, given in CASES.items()
        for name, value in step(folder, *given).items()
    }  # fmt: skip
    if processes.is_first():
        save_file(found, folder / "gradients.safetensors")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
    os._exit(0)  # as the command line does: torch's threads may abort a process that takes itself apart
