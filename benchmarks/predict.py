"""Throughput of `attentune predict` beside the plain transformers pipeline, in one process and on the same texts.

    python benchmarks/predict.py --texts 2000

Both get the same model, threads and batch size; each is warmed up and then timed in turn, several rounds, of which the
median counts. The pipeline is transformers' own with its defaults: float32, in the order of the texts. Ours is asked in
float32 and in bfloat16, and with the texts in windows sorted by length, as it comes. Texts are real ones, of many lengths.
Peak memory is measured by prediction of so many lines in a process of its own (--lines; 0 leaves it out).
"""

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
from transformers import pipeline

from attentune import tasks
from attentune.cli.output import quiet_libraries
from attentune.training import Predictor, load_for_classification


def main() -> None:
    """Measure, and print one line for each way."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="minilm")
    parser.add_argument("--texts", type=int, default=2000, help="how many texts are timed")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--lines", type=int, default=0, help="lines of a file whose prediction's memory is measured")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    quiet_libraries()
    texts = [row["text"] for row in tasks.load("rotten-tomatoes").splits["train"].select(range(given.texts))]
    model, tokenizer = load_for_classification(given.model, ("negative", "positive"))
    plain = pipeline("text-classification", model=model.eval(), tokenizer=tokenizer, device="cpu", top_k=None)
    ways: dict[str, Callable[[], object]] = {
        "transformers pipeline": lambda: plain(texts, batch_size=given.batch_size, truncation=True, max_length=128)
    }
    asked = [(text, None) for text in texts]
    predictors = {precision: Predictor(model, tokenizer, 128, precision) for precision in ("fp32", "bf16")}
    ways |= {
        f"attentune {name}": lambda one=one: list(one.stream(asked, given.batch_size))
        for name, one in predictors.items()
    }
    seconds = timed(ways, given.rounds)
    base = seconds["transformers pipeline"]
    print(f"{given.model}, {len(texts):,} texts, batches of {given.batch_size}, {given.threads} threads")
    for name, value in seconds.items():
        print(f"{name:24} {len(texts) / value:8.1f} texts/s   {base / value:5.2f} x")
    if given.lines:
        for lines in (given.lines // 10, given.lines):
            print(
                f"peak memory of predict on {lines:>9,} lines: {peak_memory(model, tokenizer, texts, lines):6,.0f} MB"
            )


def timed(ways: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """The median time of each; they take turns, so that a busy moment of the machine hits all alike."""
    found: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(rounds + 1):
        for name, way in ways.items():
            started = time.perf_counter()
            way()
            if number > 0:  # the first is to warm up
                found[name].append(time.perf_counter() - started)
    return {name: statistics.median(values) for name, values in found.items()}


def peak_memory(model: torch.nn.Module, tokenizer: object, texts: list[str], lines: int) -> float:
    """The largest resident memory, in MB, of the command `predict` on a file of so many lines."""
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder, "run")
        for part in (model, tokenizer):
            part.save_pretrained(run / "checkpoint")  # type: ignore[attr-defined]
        (run / "recipe.yaml").write_text("data:\n  task: rotten-tomatoes\n")
        inputs = {"inputs": {"text": "text", "text_pair": None}, "deciding": "accuracy"}
        (run / "metrics.json").write_text(
            json.dumps({"task": "", "method": "", "seed": 0, "eval": {}, "train": {}} | inputs)
        )
        file = Path(folder, "lines.txt")
        file.write_text("".join(f"{texts[number % len(texts)]}\n" for number in range(lines)))
        command = [
            sys.executable,
            "-m",
            "attentune",
            "predict",
            "--run",
            str(run),
            str(file),
            "--output",
            f"{folder}/out",
        ]
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
        subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
        assert after >= before
        return after / 1024


if __name__ == "__main__":
    main()
