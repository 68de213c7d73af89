"""Does guiding speed up pre-training? The paper's claim, measured at a size that one CPU core can do.

A RoBERTa of 4 layers, 256 wide, with 8 heads, new each time, is pre-trained on plain English text with and without the
patterns, with several seeds; the two of a seed have the same weights to begin with, the same batches and the same masks. Then
each is fine-tuned on CoLA and RTE. What came out of each run is kept as JSON in `results/`; what is there is not run again,
and a run that was interrupted is gone on with.

    python docs/studies/pretraining/run.py --text TEXT_FOLDER --data-dir GLUE_FOLDER
    python docs/studies/pretraining/run.py --draw      the tables and pictures of what is there
"""

import argparse
import copy
import json
import statistics
import time
from pathlib import Path

from transformers import TrainerCallback

from attentune.analysis import pattern_scores
from attentune.training import (
    PretrainingRecipe,
    Recipe,
    RunFolder,
    pretrain,
    resume_pretraining,
    resume_run,
    run_recipe,
)
from attentune.training.run_folder import versions

HERE = Path(__file__).parent
RESULTS = HERE / "results"
PATTERNS = ("first", "next", "prev")
# The paper's weight of 100 on a mean over L×L is 100 / L on our sum over keys, and L is 128 here.
SCHEDULE = "schedule=linear(hold=0.5)"
ARMS = {
    "unguided": "none",
    "guided": f"first(0.78, heads=2, {SCHEDULE}) + next(0.78, heads=1, {SCHEDULE}) + prev(0.78, heads=1, {SCHEDULE})",
}
MODEL = {"architecture": "roberta", "layers": 4, "width": 256, "heads": 8, "vocab_size": 8_000, "dropout": 0.0}
STEPS = 300
PRETRAINING = {
    "max_steps": STEPS, "batch_size": 16, "max_length": 128, "lr": 1e-3, "eval_steps": 20, "save_steps": 50,
    "save_total_limit": 1, "precision": "auto",
}  # fmt: skip
HELD_OUT_DOCUMENTS = 120
SCORED_BLOCKS = 32
TASKS = {
    "cola": {"training": {"epochs": 3, "batch_size": 32, "lr": 2e-4, "max_length": 64}, "data": {"max_train": 3000}},
    "rte": {"training": {"epochs": 2, "batch_size": 32, "lr": 2e-4, "max_length": 128}, "data": {}},
}


class PatternScores(TrainerCallback):
    """Looks at the heads at some steps."""

    def __init__(self, folder: Path, at: tuple[int, ...]) -> None:
        self.folder, self.at = folder, at

    def on_train_begin(self, args, state, control, **kwargs):
        self.on_step_end(args, state, control, **kwargs)

    def on_step_end(self, args, state, control, model=None, processing_class=None, eval_dataloader=None, **kwargs):
        file = self.folder / f"scores-{state.global_step}.json"
        if state.global_step in self.at and not file.exists():
            batches = self.batches(processing_class)
            scores = pattern_scores(copy.deepcopy(model), processing_class, batches, PATTERNS)  # itself is guided
            rounded = {name: [[round(x, 4) for x in row] for row in found.tolist()] for name, found in scores.items()}
            file.write_text(json.dumps(rounded))

    def batches(self, tokenizer):
        """Held-out text, not masked, in blocks as the model knows them."""
        from attentune.training.pretraining import Frame, packed, tokenized
        from attentune.training.pretraining.corpus import load_corpus

        recipe = PretrainingRecipe.from_yaml(self.folder / "recipe.yaml")
        held_out = load_corpus(recipe.data, recipe.training.seed).validation
        blocks = packed(
            tokenized(held_out, tokenizer, offsets=False), Frame.of(tokenizer), recipe.training.max_length
        ).select(range(SCORED_BLOCKS))
        for start in range(0, len(blocks), 8):
            rows = [{"input_ids": ids} for ids in blocks[start : start + 8]["input_ids"]]
            yield dict(tokenizer.pad(rows, return_tensors="pt"))


class ProcessorTime(TrainerCallback):
    """What the run has taken of the processor at each evaluation, evaluations included: unlike the time on the wall, it
    doesn't depend on what else the machine does. Of a run that was gone on with, only the last part."""

    def __init__(self) -> None:
        self.began, self.seconds = 0.0, {}

    def on_train_begin(self, args, state, control, **kwargs):
        self.began = time.process_time()

    def on_evaluate(self, args, state, control, **kwargs):
        self.seconds[state.global_step] = round(time.process_time() - self.began, 2)


def run(arm: str, seed: int, text: Path, glue: Path, runs: Path) -> None:
    """One model: pre-trained, fine-tuned, and what came of it kept, each part when it is done."""
    file = RESULTS / f"{arm}-seed{seed}.json"
    folder = runs / f"{arm}-seed{seed}"
    recipe = PretrainingRecipe.build(
        {
            "new": MODEL,
            "data": {
                "train_file": str(text / "train.txt"),
                "eval_file": str(text / "valid.txt"),
                "max_eval": HELD_OUT_DOCUMENTS,
            },
            "method": ARMS[arm],
            "training": {**PRETRAINING, "seed": seed},
        }
    )
    looks = (0, max(1, STEPS // 100), STEPS)
    clock = ProcessorTime()
    callbacks = [PatternScores(folder, looks), clock]
    done = finished(folder, lambda: pretrain(recipe, folder, say=print, callbacks=callbacks),
                    lambda: resume_pretraining(folder, say=print, callbacks=callbacks))  # fmt: skip
    public = recipe.model_dump(mode="json", exclude_none=True)
    public["data"] |= {"train_file": "train.txt", "eval_file": "valid.txt"}
    result = {
        "arm": arm,
        "seed": seed,
        "recipe": public,
        "versions": versions(),
        "metrics": {name: done.metrics()[name] for name in ("eval", "train")},
        "processor_seconds": clock.seconds or kept(file).get("processor_seconds", {}),
        "curve": [json.loads(line) for line in (folder / "curve.jsonl").read_text().splitlines()],
        "scores": {str(step): json.loads((folder / f"scores-{step}.json").read_text()) for step in looks},
        "fine_tuned": {},
    }
    write(file, result)
    for task, settings in TASKS.items():
        fine = runs / f"{arm}-seed{seed}-{task}"
        tuned = Recipe.build(
            {
                "model": str(folder),
                "data": {"task": task, "data_dir": str(glue), **settings["data"]},
                "training": {**settings["training"], "seed": seed},
            }
        )
        metrics = finished(fine, lambda r=tuned, f=fine: run_recipe(r, f), lambda f=fine: resume_run(f)).metrics()
        result["fine_tuned"][task] = {"metrics": metrics["eval"], "seconds": metrics["train"]["seconds"]}
        write(file, result)


def kept(file: Path) -> dict:
    return json.loads(file.read_text()) if file.exists() else {}


def write(file: Path, result: dict) -> None:
    file.write_text(json.dumps(result) + "\n")


def finished(folder: Path, begin, go_on) -> RunFolder:
    """The run in a folder, begun, gone on with, or as it is."""
    if (folder / "metrics.json").exists():
        return RunFolder.open(folder)
    if (folder / "recipe.yaml").exists():
        return go_on()
    return begin()


def draw() -> None:
    """Tables on the terminal, pictures beside this file."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    found = [json.loads(file.read_text()) for file in sorted(RESULTS.glob("*.json"))]
    by_arm = {arm: [result for result in found if result["arm"] == arm] for arm in ARMS}
    colours = {"unguided": "#777777", "guided": "#c2410c"}

    figure, axes = plt.subplots(1, 2, figsize=(10, 4), sharey=True)
    for arm, results in by_arm.items():
        for i, result in enumerate(results):
            for axis, against in zip(axes, ("step", "seconds"), strict=True):
                points = [point for point in result["curve"] if point["step"] > 0]
                axis.plot(
                    [point[against] for point in points], [point["loss"] for point in points],
                    color=colours[arm], alpha=0.8, label=arm if i == 0 else None,
                )  # fmt: skip
    axes[0].set(xlabel="step", ylabel="held-out loss of masked tokens")
    axes[1].set(xlabel="seconds of training, guide included")
    axes[0].legend(frameon=False)
    for axis in axes:
        axis.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(HERE / "curves.png", dpi=130)

    looks = list(found[0]["scores"])
    figure, axes = plt.subplots(len(PATTERNS), 2 * len(looks), figsize=(12, 5.5), sharex=True, sharey=True)
    for row, name in zip(axes, PATTERNS, strict=True):
        for j, (arm, step) in enumerate((arm, step) for arm in ARMS for step in looks):
            if not by_arm[arm]:
                continue
            shown = row[j].imshow(by_arm[arm][0]["scores"][step][name], vmin=0, vmax=1, cmap="viridis", aspect="auto")
            row[j].set_title(f"{arm}, step {step}" if name == PATTERNS[0] else "", fontsize=9)
        row[0].set_ylabel(f"{name}\nlayer")
    for axis in axes[-1]:
        axis.set_xlabel("head")
    figure.colorbar(shown, ax=axes, shrink=0.6, label="attention on the pattern")
    figure.savefig(HERE / "patterns.png", dpi=110, bbox_inches="tight")
    print_tables(by_arm)


def print_tables(by_arm: dict[str, list[dict]]) -> None:
    """Held-out loss by step, times, and what fine-tuning gave; means over seeds, and the difference seed by seed."""
    seeds = sorted({r["seed"] for r in by_arm["guided"]} & {r["seed"] for r in by_arm["unguided"]})
    pairs = [
        tuple(next(r for r in by_arm[arm] if r["seed"] == seed) for arm in ("unguided", "guided")) for seed in seeds
    ]
    print(
        f"seeds {', '.join(map(str, seeds))}\n\n| step | unguided | guided | guided − unguided, seed by seed |\n|--:|--:|--:|--:|"
    )
    steps = [point["step"] for point in pairs[0][0]["curve"]]
    for step in sorted({steps[i] for i in (1, 2, 5, 10, -1) if i < len(steps)}):
        losses = [tuple(next(p["loss"] for p in r["curve"] if p["step"] == step) for r in pair) for pair in pairs]
        print(f"| {step} | {mean(a for a, _ in losses):.3f} | {mean(b for _, b in losses):.3f} | {apart(losses, 3)} |")
    times = [tuple(r["metrics"]["train"]["seconds"] for r in pair) for pair in pairs]
    print(f"\nseconds of training: {times}; guided / unguided: {mean(b / a for a, b in times):.3f}")
    last = str(steps[-1])
    work = [tuple(r["processor_seconds"].get(last) for r in pair) for pair in pairs]
    known = [pair for pair in work if None not in pair]
    print(f"of the processor, evaluations included: {known}; guided / unguided: {mean(b / a for a, b in known):.3f}")
    print("\n| task | metric | unguided | guided | guided − unguided, seed by seed |\n|---|---|--:|--:|--:|")
    for task, metric in (("cola", "matthews"), ("cola", "accuracy"), ("rte", "accuracy")):
        tuned = [pair for pair in pairs if all(task in r["fine_tuned"] for r in pair)]
        scores = [tuple(100 * r["fine_tuned"][task]["metrics"][metric] for r in pair) for pair in tuned]
        if not scores:
            continue
        print(
            f"| {task} | {metric} | {mean(a for a, _ in scores):.1f} | {mean(b for _, b in scores):.1f} | {apart(scores, 1)} |"
        )
    print(
        "\n| step | arm | " + " | ".join(PATTERNS) + " (the most that a head of the model gives, a mean over seeds) |"
    )
    for step in pairs[0][0]["scores"]:
        for arm, results in by_arm.items():
            most = {n: mean(max(map(max, r["scores"][step][n])) for r in results) for n in PATTERNS}
            print(f"| {step} | {arm} | " + " | ".join(f"{most[n]:.2f}" for n in PATTERNS) + " |")


def mean(values) -> float:
    return statistics.fmean(values)


def apart(pairs: list[tuple[float, float]], digits: int) -> str:
    return ", ".join(f"{b - a:+.{digits}f}" for a, b in pairs)


def main() -> None:
    """Run what is not there yet, then draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", type=Path, help="folder that holds train.txt and valid.txt")
    parser.add_argument("--data-dir", type=Path, help="folder that holds CoLA/ and RTE/")
    parser.add_argument("--runs", type=Path, default=Path("runs/study-pretraining"), help="where the runs go")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument(
        "--arm", choices=ARMS, help="only this one, to run both at once; what is there is drawn by --draw"
    )
    parser.add_argument("--draw", action="store_true", help="draw what is there, run nothing")
    options = parser.parse_args()
    if not options.draw:
        if options.text is None or options.data_dir is None:
            parser.error("give --text and --data-dir, or --draw")
        RESULTS.mkdir(exist_ok=True)
        for seed in range(1, options.seeds + 1):
            for arm in [options.arm] if options.arm else ARMS:
                if set(kept(RESULTS / f"{arm}-seed{seed}.json").get("fine_tuned", {})) != set(TASKS):
                    print(f"{arm}, seed {seed}", flush=True)
                    run(arm, seed, options.text, options.data_dir, options.runs)
    if options.arm is None:
        draw()


if __name__ == "__main__":
    main()
