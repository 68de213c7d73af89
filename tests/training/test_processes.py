"""More than one device: two processes (gloo, on the CPU) do what one does with the batch whole, and one of them speaks."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from attentune.training import run_recipe
from attentune.training.batches import LengthGroupedBatches

SOURCES = str(Path(__file__).parents[2] / "src")


def torchrun(folder, *command, processes=2):
    """Start a command in two processes."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    launcher = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--nproc-per-node",
        str(processes),
        f"--master-port={port}",
    ]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": SOURCES, "CUDA_VISIBLE_DEVICES": ""}
    return subprocess.run(
        [*launcher, *map(str, command)], cwd=folder, env=environment, capture_output=True, text=True, check=False,
        timeout=300,
    )  # fmt: skip


@pytest.mark.slow
def test_two_processes_have_the_gradients_of_one_with_the_whole_batch(tmp_path):
    script = Path(__file__).with_name("shared_step.py")
    folders = [tmp_path / name for name in ("alone", "together")]
    for folder in folders:
        folder.mkdir()
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": SOURCES, "CUDA_VISIBLE_DEVICES": ""}
    subprocess.run([sys.executable, script, folders[0]], env=environment, check=True, capture_output=True)
    together = torchrun(tmp_path, script, folders[1])
    assert together.returncode == 0, together.stderr
    alone, shared = (load_file(folder / "gradients.safetensors") for folder in folders)
    assert alone.keys() == shared.keys()
    assert {name.split(":")[0] for name in alone} >= {"none", "mdg", "pdg", "patterns", "auto", "se", "uneven"}
    for name, expected in alone.items():
        apart = (shared[name] - expected).abs().max()
        assert apart <= 1e-4 * expected.abs().max() + 1e-7, name
    for case in ("mdg", "pdg", "patterns", "auto", "se", "blur"):  # each does something, far above that
        for layer in (1, 2):
            query = f"bert.encoder.layer.{layer}.attention.self.query.weight"
            with_it, without = alone[f"{case}: {query}"], alone[f"none: {query}"]
            assert (with_it - without).abs().max() > 0.01 * without.abs().max(), case


def flat(run):
    return load_file(Path(run) / "checkpoint" / "model.safetensors")


@pytest.mark.slow
def test_a_run_on_two_processes_is_the_run_on_one(tiny_recipe, tmp_path):
    recipe = tiny_recipe(method="mdg(0.1) + se()", training={
        "epochs": 2, "batch_size": 8, "lr": 0.001, "precision": "fp32", "save_steps": 4, "eval_steps": 3,
    })  # fmt: skip
    (tmp_path / "recipe.yaml").write_text(recipe.to_yaml())
    one = run_recipe(recipe, tmp_path / "one")
    both = torchrun(tmp_path, "-m", "attentune", "train", "recipe.yaml", "--output", "two")
    assert both.returncode == 0, both.stderr
    assert both.stdout.count("run: two") == 1
    assert both.stderr.count("data: ") == 1
    assert "; 2 processes" in both.stderr
    metrics = [json.loads((tmp_path / name / "metrics.json").read_text()) for name in ("one", "two")]
    assert metrics[1]["train"]["processes"] == 2
    assert metrics[1]["train"]["steps"] == metrics[0]["train"]["steps"]
    for part in ("eval", "train"):
        for name in set(metrics[0][part]) & {"accuracy", "matthews", "f1", "loss"}:
            assert metrics[1][part][name] == pytest.approx(metrics[0][part][name], abs=1e-4)
    rows = [(tmp_path / name / "predictions.jsonl").read_text().splitlines() for name in ("one", "two")]
    assert [json.loads(row)["id"] for row in rows[0]] == [json.loads(row)["id"] for row in rows[1]]
    weights = flat(tmp_path / "two")
    for name, expected in flat(one.path).items():
        torch.testing.assert_close(weights[name], expected, atol=1e-4, rtol=1e-3)
    files = {path.name for path in (tmp_path / "two" / "steps" / "checkpoint-4").iterdir()}
    assert {"rng_state_0.pth", "rng_state_1.pth", "model.safetensors"} <= files
    # Interrupted after its first checkpoint, it goes on to the same end.
    for file in ("metrics.json", "steps/checkpoint-8/trainer_state.json", "steps/checkpoint-12/trainer_state.json"):
        (tmp_path / "two" / file).unlink()
    again = torchrun(tmp_path, "-m", "attentune", "train", "--resume", "--output", "two")
    assert again.returncode == 0, again.stderr
    assert "resuming from two/steps/checkpoint-4" in again.stderr
    resumed = flat(tmp_path / "two")
    assert all(torch.equal(resumed[name], value) for name, value in weights.items())


@pytest.mark.slow
def test_a_mistake_is_told_once_and_ends_all(tiny_recipe, tmp_path):
    (tmp_path / "recipe.yaml").write_text(tiny_recipe().to_yaml())
    both = torchrun(tmp_path, "-m", "attentune", "train", "recipe.yaml", "--batch-size", "7", "--output", "two")
    assert both.returncode != 0
    assert both.stderr.count("attentune: a step of 7 rows (--batch-size) can't be shared evenly by 2 processes") == 1
    assert not (tmp_path / "two").exists()


ONE_OF_TWO = """
import os, signal, sys
from attentune.training import processes
from attentune.training import running
class Odd(running.ShowProgress):
    def on_step_begin(self, args, state, control, model=None, **kwargs):
        if state.global_step == 2 and processes.rank() == 1:
            if what == "diverges":
                model.classifier.weight.data.fill_(float("nan"))
            else:
                os.kill(os.getpid(), signal.SIGTERM)
running.ShowProgress = Odd
what = sys.argv[1]
sys.argv[1] = "train"
from attentune.cli import main
main()
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("what", "told"),
    [
        ("diverges", "attentune: the loss is nan at step 2 (task_loss nan"),
        ("is told to stop", "attentune: stopped; a checkpoint of step 3 is kept"),
    ],
)
def test_what_happens_to_one_process_ends_all_of_them_alike(tiny_recipe, tmp_path, what, told):
    (tmp_path / "recipe.yaml").write_text(tiny_recipe(training={"batch_size": 8, "precision": "fp32"}).to_yaml())
    (tmp_path / "odd.py").write_text(ONE_OF_TWO)
    both = torchrun(tmp_path, "odd.py", what, "recipe.yaml", "--output", "two")
    assert both.returncode != 0
    assert both.stderr.count(told) == 1, both.stderr
    assert (tmp_path / "two" / "steps" / "checkpoint-3").is_dir() == (what != "diverges")


@pytest.mark.parametrize(("count", "size", "processes"), [(23, 8, 2), (24, 8, 4), (17, 8, 2), (5, 8, 2), (9, 6, 3)])
def test_processes_share_each_batch_and_no_row_is_lost(count, size, processes):
    lengths = [(7 * i) % 13 for i in range(count)]
    alone = list(LengthGroupedBatches(lengths, size, seed=3))
    shares = [
        list(LengthGroupedBatches(lengths, size, seed=3, rank=rank, processes=processes)) for rank in range(processes)
    ]
    assert sorted(row for batch in alone for row in batch) == list(range(count))
    for number, batch in enumerate(alone):
        together = [row for share in shares for row in share[number]]
        assert set(together) == set(batch)
        assert len(together) == max(len(batch), processes)
        sizes = [len(share[number]) for share in shares]
        assert max(sizes) - min(sizes) <= 1


def test_the_order_is_that_of_seed_and_epoch_whatever_was_drawn_before():
    batches = LengthGroupedBatches(list(range(40)), 4, seed=5)
    first = list(batches)
    torch.rand(3)
    assert list(batches) == first
    batches.set_epoch(1)
    second = list(batches)
    assert second != first
    other = LengthGroupedBatches(list(range(40)), 4, seed=6)
    assert list(other) not in (first, second)


def test_texts_of_a_batch_are_about_as_long_as_each_other():
    lengths = [(31 * i) % 97 for i in range(400)]
    batches = list(LengthGroupedBatches(lengths, 8, seed=0))
    spread = [max(lengths[i] for i in batch) - min(lengths[i] for i in batch) for batch in batches]
    assert sorted(spread)[len(spread) // 2] < 15  # at random it would be about 75
