"""What each method costs beside the unguided training, in time and memory, and that it trains: a table in Markdown.

    python benchmarks/methods.py --tasks rte cola --data-dir glue "mdg(0.05)" "first(0.1, heads=4)" "blur + se"

Every training is one of `attentune train`'s, from the recipe to the run folder: MiniLM, one epoch of 500 examples if nothing
else is asked for. Each has a process of its own, and the methods take turns with the unguided one, so that noise meets them
alike; the median of the ratios is what counts, in brackets their range. The score is the task's deciding one. Time is that
of the training alone, without loading and evaluation: on a CPU the processor time that it took, which other work on the
machine hardly changes, on a GPU the time on the clock. Memory is the peak above that of a process that has only imported the
libraries; on a GPU, what torch allocated at most.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

import attentune
from attentune.cli.output import quiet_libraries
from attentune.training.memory import peak_resident_mb

UNGUIDED = "none"


def train_once(recipe: attentune.Recipe) -> dict[str, Any]:
    """Train, and tell the score, the seconds and the megabytes."""
    quiet_libraries()
    on_gpu, idle = torch.cuda.is_available(), peak_resident_mb()
    clock = time.perf_counter if on_gpu else time.process_time
    spent: dict[str, float] = {}
    train = attentune.Trainer.train

    def timed(trainer: attentune.Trainer, *args: Any, **kwargs: Any) -> Any:
        started = clock()
        result = train(trainer, *args, **kwargs)
        if on_gpu:
            torch.cuda.synchronize()
        spent["seconds"] = clock() - started
        # Before the evaluation, whose batches are larger.
        spent["megabytes"] = torch.cuda.max_memory_allocated() / 2**20 if on_gpu else peak_resident_mb() - idle
        return result

    attentune.Trainer.train = timed
    with tempfile.TemporaryDirectory() as folder:
        metrics = attentune.run_recipe(recipe, Path(folder) / "run", console=Console(quiet=True)).metrics()
    return {"score": metrics["eval"][metrics["deciding"]], "steps": metrics["train"]["steps"], **spent}


def in_own_process(task: str, method: str, seed: int, options: argparse.Namespace) -> dict[str, Any]:
    """One training in a process of its own."""
    recipe = {
        "model": options.model,
        "method": method,
        "data": {
            "task": task, "data_dir": options.data_dir, "max_train": options.max_train, "max_eval": options.max_eval,
        },
        "training": {"seed": seed, "epochs": options.epochs, "lr": options.lr, "batch_size": options.batch_size},
    }  # fmt: skip
    command = [sys.executable, __file__, "--recipe", json.dumps(recipe)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        said = (done.stderr.strip() or "no reason given").splitlines()[-1]
        sys.exit(f"{method} on {task} can't be measured: {said}")
    measured = json.loads(done.stdout.splitlines()[-1])
    return {"task": task, "method": method, "seed": seed, **measured}


def row(task: str, method: str, runs: list[dict[str, Any]]) -> str:
    """A line of the table: one method on one task, beside the unguided training of the same seed."""
    plain = {run["seed"]: run for run in runs if (run["task"], run["method"]) == (task, UNGUIDED)}
    mine = [run for run in runs if (run["task"], run["method"]) == (task, method)]
    cells = [f"`{method}`", task, f"{statistics.fmean(run['score'] for run in mine):.3f}"]
    for what, unit, each in (("seconds", "ms", 1000 / mine[0]["steps"]), ("megabytes", "MB", 1.0)):
        absolute = statistics.median(run[what] for run in mine) * each
        ratios = [run[what] / plain[run["seed"]][what] for run in mine]
        told = f"{statistics.median(ratios):.2f} ×"
        if len(ratios) > 1:
            told += f" ({min(ratios):.2f}–{max(ratios):.2f})"
        cells.append(f"{absolute:,.0f} {unit}" if method == UNGUIDED else told)
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("methods", nargs="*", default=["mdg(0.05)"], help="as after --method")
    parser.add_argument("--tasks", nargs="+", default=["rotten-tomatoes"], help="as after --task")
    parser.add_argument("--data-dir", help="the folder that holds RTE/, CoLA/, …; without it, the hub")
    parser.add_argument("--model", default="minilm")
    parser.add_argument("--max-train", type=int, default=500)
    parser.add_argument("--max-eval", type=int, default=200)
    parser.add_argument("--epochs", type=float, default=1)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--lr", type=float, default=5e-5)
    parser.add_argument("--repeats", type=int, default=3, help="trainings of each method, each of another seed")
    parser.add_argument("--json", type=Path, help="write the raw results here")
    parser.add_argument("--recipe", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.recipe:
        print(json.dumps(train_once(attentune.Recipe.build(json.loads(options.recipe)))))
        return
    methods = [UNGUIDED, *(method for method in dict.fromkeys(options.methods) if method != UNGUIDED)]
    try:
        for method in methods:
            attentune.parse(method)  # a mistake shows before anything is trained
    except attentune.UserError as error:
        sys.exit(str(error))
    where = torch.cuda.get_device_name() if torch.cuda.is_available() else f"CPU, {torch.get_num_threads()} threads"
    print(
        f"{where}, torch {torch.__version__}, {options.model}, {options.max_train} examples, batch {options.batch_size}\n"
    )
    print("| method | task | score | time of a step | memory |\n|---|---|--:|--:|--:|")
    runs: list[dict[str, Any]] = []
    for task in options.tasks:
        for seed in range(1, options.repeats + 1):
            for method in methods:
                runs.append(in_own_process(task, method, seed, options))
                if options.json:
                    options.json.write_text(json.dumps(runs, indent=2) + "\n")
        for method in methods:
            print(row(task, method, runs), flush=True)


if __name__ == "__main__":
    main()
