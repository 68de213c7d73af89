"""What a guided training step costs beside an unguided one, and beside what one would do without Attentune.

Three ways to run one and the same step (forward, backward, AdamW), on random token ids with a padded example in each batch:

    sdpa     the stock model, unguided
    fused    the stock model guided by mdg + pdg through attentune.attach
    eager    the stock model with eager attention and output_attentions=True, the maps reduced to the same two losses

Time: all three take turns in one process, step by step, so that noise meets them alike; the ratio of the medians is
what counts. Memory: each way has a process of its own; what counts is its peak resident memory above that of a process that
has only imported the libraries, so parameters, gradients, optimizer and activations. On a GPU, memory is what torch
allocated at most.

    python benchmarks/step.py                         the table of the README
    python benchmarks/step.py --model small --lengths 4096 --precision fp32 --attention-dropout 0.1
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from contextlib import nullcontext
from pathlib import Path

import torch
from transformers import BertConfig, BertForSequenceClassification
from transformers.utils import logging

import attentune

WAYS = ("sdpa", "fused", "eager")
METHOD = "mdg(0.01) + pdg(0.001)"
SIZES = {
    "base": {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072},
    "small": {"hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 12, "intermediate_size": 1536},
}


class Step:
    """A model, and the three ways to take a training step with it."""

    def __init__(self, size: str, length: int, tokens: int, precision: str, attention_dropout: float) -> None:
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        torch.manual_seed(0)
        config = BertConfig(
            max_position_embeddings=length, attention_probs_dropout_prob=attention_dropout, num_labels=2, **SIZES[size]
        )
        self.model = BertForSequenceClassification(config).to(self.device).train()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-5)
        batch = max(1, tokens // length)
        ids = torch.randint(1000, 30_000, (batch, length))
        mask = torch.ones_like(ids)
        mask[-1, -length // 8 :] = 0  # padding, as real batches have it
        self.inputs = {"input_ids": ids, "attention_mask": mask, "labels": torch.arange(batch) % 2}
        self.inputs = {name: x.to(self.device) for name, x in self.inputs.items()}
        self.real = self.inputs["attention_mask"].bool()
        self.bf16 = precision == "bf16"

    def take(self, way: str) -> None:
        """One training step."""
        autocast = torch.autocast(self.device, torch.bfloat16) if self.bf16 else nullcontext()
        self.model.set_attn_implementation("eager" if way == "eager" else "sdpa")
        if way == "fused":
            with attentune.attach(self.model, METHOD) as guided, autocast:
                loss = self.model(**self.inputs).loss
                loss = loss + guided.loss()
        elif way == "eager":
            with autocast:
                output = self.model(**self.inputs, output_attentions=True)
                loss = output.loss + self._guide(output.attentions)
        else:
            with autocast:
                loss = self.model(**self.inputs).loss
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()

    def _guide(self, maps: tuple[torch.Tensor, ...]) -> torch.Tensor:
        weight = self.real[:, None, :, None]
        received = torch.cat([(layer.float() * weight).sum(dim=-2) for layer in maps], dim=1)
        mdg = attentune.mdg_loss(received, mask=self.real)
        return 0.01 * mdg + 0.001 * attentune.pdg_loss(received, mask=self.real)

    def seconds(self, way: str) -> float:
        """How long one step takes."""
        if self.device == "cuda":
            torch.cuda.synchronize()
        started = time.perf_counter()
        self.take(way)
        if self.device == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter() - started


def memory_of(way: str, arguments: list[str]) -> float:
    """Peak memory of two steps, from a process of its own."""
    command = [sys.executable, __file__, *arguments, "--memory-of", way]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()[-1])


def print_memory(way: str, size: str, length: int, options: argparse.Namespace) -> None:
    """What `memory_of` reads."""
    on_gpu = torch.cuda.is_available()
    if not on_gpu:
        from attentune.training.memory import peak_resident_mb

        before = peak_resident_mb()
    step = Step(size, length, options.tokens, options.precision, options.attention_dropout)
    for _ in range(2):
        step.take(way)
    print(torch.cuda.max_memory_allocated() / 2**20 if on_gpu else peak_resident_mb() - before)


def measure(size: str, length: int, options: argparse.Namespace) -> dict:
    """Time and memory of the three ways for one size and length."""
    step = Step(size, length, options.tokens, options.precision, options.attention_dropout)
    ways = WAYS if length <= options.eager_up_to else WAYS[:2]
    times: dict[str, list[float]] = {way: [] for way in ways}
    for way in ways:
        step.take(way)
    for _ in range(options.repeats):
        for way in ways:
            times[way].append(step.seconds(way))
    del step
    arguments = ["--model", size, "--lengths", str(length), "--precision", options.precision]
    arguments += ["--tokens", str(options.tokens), "--attention-dropout", str(options.attention_dropout)]
    memory = {way: memory_of(way, arguments) for way in ways}
    ratios = [fused / plain for fused, plain in zip(times["fused"], times["sdpa"], strict=True)]
    return {
        "model": size,
        "length": length,
        "batch": max(1, options.tokens // length),
        "precision": options.precision,
        "attention_dropout": options.attention_dropout,
        "seconds": {way: statistics.median(values) for way, values in times.items()},
        "megabytes": memory,
        "fused_ratio_range": [min(ratios), max(ratios)],
    }


def row(result: dict) -> str:
    """A line of the table."""

    def ratio(what: str, way: str) -> str:
        return f"{result[what][way] / result[what]['sdpa']:.2f} ×" if way in result[what] else "—"

    low, high = result["fused_ratio_range"]
    cells = [
        result["model"], str(result["length"]), str(result["batch"]),
        f"{result['seconds']['sdpa'] * 1000:.0f} ms",
        f"{ratio('seconds', 'fused')} ({low:.2f}–{high:.2f})", ratio("seconds", "eager"),
        f"{result['megabytes']['sdpa']:.0f} MB", ratio("megabytes", "fused"), ratio("megabytes", "eager"),
    ]  # fmt: skip
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=[*SIZES, "both"], default="both")
    parser.add_argument("--lengths", type=int, nargs="+", default=[128, 256, 512, 1024, 2048, 4096])
    parser.add_argument("--tokens", type=int, default=2048, help="tokens a batch, unless one text is longer")
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="bf16")
    parser.add_argument(
        "--attention-dropout", type=float, default=0.0, help="above 0, torch has no fused CPU attention"
    )
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--eager-up-to", type=int, default=4096, help="leave eager out for longer texts")
    parser.add_argument("--json", type=Path, help="write the raw results here")
    parser.add_argument("--memory-of", choices=WAYS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    logging.set_verbosity_error()
    sizes = list(SIZES) if options.model == "both" else [options.model]
    if options.memory_of:
        print_memory(options.memory_of, sizes[0], options.lengths[0], options)
        return
    where = torch.cuda.get_device_name() if torch.cuda.is_available() else f"CPU, {torch.get_num_threads()} threads"
    print(f"{where}, torch {torch.__version__}, {options.precision}, attention dropout {options.attention_dropout}\n")
    print(
        "| model | length | batch | sdpa step | fused, time | eager, time | sdpa memory | fused, memory | eager, memory |"
    )
    print("|---|--:|--:|--:|--:|--:|--:|--:|--:|")
    results = []
    for size in sizes:
        for length in options.lengths:
            results.append(measure(size, length, options))
            print(row(results[-1]), flush=True)
    if options.json:
        options.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
