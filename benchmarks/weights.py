"""What a method's weight does to accuracy and to the heads: one short fine-tuning of MiniLM for each method given.

    python benchmarks/weights.py                                        the tables of docs/methods/mdg.md and pdg.md
    python benchmarks/weights.py "mdg(auto(0.05))" "first(0.1, heads=4)" --seeds 1 2 3

Rotten Tomatoes, 1,000 sentences, 2 epochs, learning rate 1e-4; accuracy on 1,066 held-out sentences, head diversity (1 − the
mean cosine between what tokens receive from two heads) on 60 of them. Needs the `demo` extra and no download.
"""

import argparse
import tempfile
from pathlib import Path

from rich.console import Console

import attentune
from attentune import tasks
from attentune.analysis import head_diversity
from attentune.cli.output import quiet_libraries

METHODS = [
    "none",
    "mdg(0.01)",
    "mdg(0.1)",
    "mdg(1, tokens=content)",
    "pdg(0.0001, tokens=content)",
    "pdg(0.001)",
    "mdg(0.01) + pdg(0.0001, tokens=content)",
]
SENTENCES = 60


def measure(method: str, seed: int, train: int, folder: Path) -> tuple[float, float, float, float]:
    """Accuracy, head diversity, share of attention that special tokens receive, and seconds of training."""
    recipe = attentune.Recipe.build(
        {
            "data": {"task": "rotten-tomatoes", "max_train": train},
            "method": method,
            "training": {"seed": seed, "epochs": 2, "lr": 1e-4},
        }
    )
    run = attentune.run_recipe(recipe, folder, console=Console(quiet=True))
    texts = tasks.load("rotten-tomatoes").splits["validation"]["text"][:SENTENCES]
    loaded = attentune.load(run.path)  # with methods that change the forward pass
    heads = head_diversity(loaded.model, loaded.tokenizer, texts)
    metrics = run.metrics()
    return metrics["eval"]["accuracy"], heads.diversity, heads.special_share, metrics["train"]["seconds"]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("methods", nargs="*", default=METHODS)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--train", type=int, default=1000, help="training sentences")
    options = parser.parse_args()
    quiet_libraries()
    print("| method | seed | accuracy | head diversity | attention to [CLS], [SEP] | training |")
    print("|---|--:|--:|--:|--:|--:|")
    for method in options.methods:
        for seed in options.seeds:
            with tempfile.TemporaryDirectory() as folder:
                accuracy, diversity, special, seconds = measure(method, seed, options.train, Path(folder))
            cells = [method, str(seed), f"{100 * accuracy:.1f} %", f"{diversity:.3f}", f"{100 * special:.0f} %"]
            print("| " + " | ".join([*cells, f"{seconds:.0f} s"]) + " |", flush=True)


if __name__ == "__main__":
    main()
