"""Runs that survive: killed, stopped or out of disk, a run that goes on ends as one that was never stopped."""

import json
import os
import pickle
import shutil
import signal
import subprocess
import sys

import pytest
import torch
from safetensors.torch import load_file
from transformers import TrainerCallback

from attentune.errors import UserError
from attentune.training import checkpoints, resume_run, run_recipe, running
from attentune.training import run as run_module
from attentune.training.checkpoints import last_good, problem_of
from attentune.training.stopping import StopOnSignal

GUIDED = "mdg(auto(0.1, every=2)) + pdg(0.01, tokens=content, schedule=linear(hold=0.2)) + se()"


@pytest.fixture
def recipe(tiny_recipe, tiny_model, tiny_tokenizer, tmp_path):
    """A model with dropout, three epochs of six steps, a checkpoint every four."""
    folder = tmp_path / "dropping"
    tiny_model(hidden_dropout_prob=0.2, attention_probs_dropout_prob=0.1).save_pretrained(folder)
    tiny_tokenizer.save_pretrained(folder)

    def make(method="none", **training):
        defaults = {"epochs": 3, "batch_size": 8, "lr": 0.01, "precision": "fp32", "save_steps": 4}
        return tiny_recipe(model=str(folder), method=method, training={**defaults, **training})

    return make


def assert_same(first, second):
    weights = [load_file(run.checkpoint / "model.safetensors") for run in (first, second)]
    assert weights[0].keys() == weights[1].keys()
    for name, value in weights[0].items():
        assert torch.equal(value, weights[1][name]), name
    for run in (first, second):
        assert not (run.steps / "unfinished").exists()
    metrics = [run.metrics() for run in (first, second)]
    for one in metrics:
        for changing in ("seconds", "peak_memory_mb"):
            del one["train"][changing]
    assert metrics[0] == metrics[1]
    names = ("loss", "task_loss", "guide/mdg", "weight/mdg", "step", "grad_norm", "eval_accuracy")
    logs = [
        [{name: entry[name] for name in names if name in entry} for entry in map(json.loads, log.splitlines())]
        for log in ((run.path / "log.jsonl").read_text() for run in (first, second))
    ]
    assert logs[0] == logs[1]
    assert (first.path / "predictions.jsonl").read_text() == (second.path / "predictions.jsonl").read_text()


class At(TrainerCallback):
    """Does something after a step."""

    def __init__(self, step, do):
        self.step, self.do = step, do

    def on_step_end(self, args, state, control, **kwargs):
        if state.global_step == self.step:
            self.do()


@pytest.fixture
def interrupt(monkeypatch):
    """Has a run stopped dead after a step; with `None`, no more."""
    stock = running.ShowProgress

    def at(step, do=None):
        def crash():
            raise MemoryError

        class Stopped(stock):
            def on_step_end(self, args, state, control, **kwargs):
                super().on_step_end(args, state, control, **kwargs)
                if state.global_step == step:
                    (do or crash)()

        monkeypatch.setattr(running, "ShowProgress", Stopped)

    return at


KILLED = """
import os, signal, sys
from attentune.training import checkpoints
whole = checkpoints.sync_to_disk
def dies_while_it_saves(folder):
    if folder.name == "checkpoint-8":
        os.truncate(folder / "optimizer.pt", 100)
        os.kill(os.getpid(), signal.SIGKILL)
    whole(folder)
checkpoints.sync_to_disk = dies_while_it_saves
from attentune.cli import main
main()
"""


@pytest.mark.slow
@pytest.mark.parametrize(("method", "precision"), [("none", "fp32"), (GUIDED, "bf16")])
def test_a_run_that_was_killed_while_it_saved_ends_as_if_it_had_not_been(recipe, tmp_path, method, precision):
    wanted = recipe(method, precision=precision, gradient_accumulation=2)
    (tmp_path / "recipe.yaml").write_text(wanted.to_yaml())
    command = [sys.executable, "-c", KILLED, "train", "recipe.yaml", "--output", "run"]
    killed = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    run = tmp_path / "run"
    assert sorted(path.name for path in (run / "steps").iterdir()) == ["checkpoint-4", "unfinished"]
    assert not (run / "metrics.json").exists()
    told = []
    assert_same(run_recipe(wanted, tmp_path / "never-stopped"), resume_run(run, say=told.append))
    assert f"resuming from {run / 'steps' / 'checkpoint-4'}" in told


@pytest.mark.parametrize(
    "step", [3, 5, 12, 18]
)  # before any checkpoint; within, and at the end of, an epoch; at the end
def test_where_a_run_was_stopped_does_not_show(recipe, interrupt, tmp_path, step):
    whole = run_recipe(recipe(GUIDED), tmp_path / "whole")
    interrupt(step)
    with pytest.raises(MemoryError):
        run_recipe(recipe(GUIDED), tmp_path / "run")
    interrupt(None)
    assert_same(whole, resume_run(tmp_path / "run"))


def test_a_run_that_was_trained_but_not_judged_is_only_judged(recipe, monkeypatch, tmp_path):
    wanted = recipe("mdg(0.1)", epochs=1.5, early_stopping=5, eval_steps=4, save_steps=None)
    whole = run_recipe(wanted, tmp_path / "whole")
    with monkeypatch.context() as patch:
        patch.setattr(run_module, "evaluate_all", lambda *args: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            run_recipe(wanted, tmp_path / "run")
    assert_same(whole, resume_run(tmp_path / "run"))


def test_early_stopping_goes_on_counting(recipe, interrupt, tmp_path):
    wanted = recipe(lr=1e-6, early_stopping=3, eval_steps=2, save_steps=None)  # too slow to become better
    whole = run_recipe(wanted, tmp_path / "whole")
    assert whole.metrics()["train"]["steps"] == 8  # the first is the best, and three more were waited for
    interrupt(5)
    with pytest.raises(MemoryError):
        run_recipe(wanted, tmp_path / "run")
    interrupt(None)
    moved = (tmp_path / "run").rename(tmp_path / "elsewhere")  # the best checkpoint is found there too
    assert_same(whole, resume_run(moved))
    assert not list(moved.glob("steps/checkpoint-*"))


def test_checkpoints_that_are_not_whole_are_passed_over(recipe, interrupt, tmp_path):
    whole = run_recipe(recipe(), tmp_path / "whole")
    for damage, sentence in (
        (lambda folder: os.truncate(folder / "model.safetensors", 1000), "isn't whole"),
        (lambda folder: os.truncate(folder / "optimizer.pt", 1000), "optimizer.pt is damaged"),
        (lambda folder: (folder / "scheduler.pt").unlink(), "scheduler.pt is missing"),
        (lambda folder: (folder / "rng_state.pth").unlink(), "random numbers is missing"),
        (lambda folder: (folder / "trainer_state.json").write_text('{"global_step"'), "isn't whole"),
        (lambda folder: (folder / "trainer_state.json").write_text('{"global_step": 3}'), "of another step"),
    ):
        copy = tmp_path / "copy"
        shutil.copytree(whole.path, copy)
        (copy / "metrics.json").unlink()
        for folder in copy.glob("steps/checkpoint-*"):
            if folder.name != "checkpoint-4":
                damage(folder)
        found, passed_over = last_good(copy / "steps")
        assert found.name == "checkpoint-4"
        assert len(passed_over) == 4
        assert all(sentence in line for line in passed_over), passed_over
        assert problem_of(found, 4) is None
        shutil.rmtree(copy)


class Bomb:
    def __reduce__(self):
        return os.mkdir, ("exploded",)


@pytest.mark.parametrize("file", ["optimizer.pt", "scheduler.pt", "rng_state.pth"])
def test_a_strangers_run_cannot_run_code(recipe, interrupt, tmp_path, monkeypatch, file):
    monkeypatch.chdir(tmp_path)
    interrupt(5)
    with pytest.raises(MemoryError):
        run_recipe(recipe(), tmp_path / "run")
    interrupt(None)
    torch.save(Bomb(), tmp_path / "run" / "steps" / "checkpoint-4" / file)
    with pytest.raises(UserError, match="holds something else than plain tensors and numbers"):
        resume_run(tmp_path / "run")
    assert not (tmp_path / "exploded").exists()
    with (tmp_path / "run" / "steps" / "checkpoint-4" / "pytorch_model.bin").open("wb") as pickled:
        pickle.dump(Bomb(), pickled)
    (tmp_path / "run" / "steps" / "checkpoint-4" / "model.safetensors").unlink()
    assert "no weights as safetensors" in last_good(tmp_path / "run" / "steps")[1][0]


def test_a_strangers_recipe_cannot_have_foreign_code_run(recipe, interrupt, tmp_path):
    interrupt(5)
    with pytest.raises(MemoryError):
        run_recipe(recipe(), tmp_path / "run")
    file = tmp_path / "run" / "recipe.yaml"
    file.write_text(file.read_text().replace("trust_remote_code: false", "trust_remote_code: true"))
    with pytest.raises(UserError, match="add --trust-remote-code if you trust it"):
        resume_run(tmp_path / "run")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_after_the_step_with_a_checkpoint(recipe, interrupt, tmp_path, number):
    whole = run_recipe(recipe("mdg(0.1)", save_steps=None), tmp_path / "whole")
    handler = signal.getsignal(number)
    interrupt(5, lambda: os.kill(os.getpid(), number))
    told = []
    with pytest.raises(KeyboardInterrupt, match=r"step 5 is kept; go on with: attentune train --resume --output"):
        run_recipe(recipe("mdg(0.1)", save_steps=None), tmp_path / "run", say=told.append)
    assert signal.getsignal(number) is handler
    assert told[-1].startswith("stopping after this step")
    assert last_good(tmp_path / "run" / "steps")[0].name == "checkpoint-5"
    interrupt(None)
    assert_same(whole, resume_run(tmp_path / "run"))
    assert not list((tmp_path / "run").glob("steps/*"))  # nobody had asked to keep it


def test_a_second_signal_stops_at_once():
    stop = StopOnSignal()
    with stop.listening():
        os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


def test_runs_that_cannot_go_on_are_told(recipe, tmp_path):
    with pytest.raises(UserError, match=r"no recipe.yaml is in it; train without --resume"):
        resume_run(tmp_path)
    run_recipe(recipe(max_steps=1), tmp_path / "run")
    with pytest.raises(UserError, match="has finished already; there is nothing to go on with"):
        resume_run(tmp_path / "run")


def test_a_disk_that_fills_up_loses_no_earlier_checkpoint(recipe, tmp_path, monkeypatch):
    whole = run_recipe(recipe(), tmp_path / "whole")
    stock = torch.save

    def full(what, place, *args, **kwargs):
        if "checkpoint-8" in str(place) and "scheduler" in str(place):
            raise OSError(28, "No space left on device")
        return stock(what, place, *args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(torch, "save", full)
        with pytest.raises(
            UserError, match=r"the checkpoint of step 8 can't be written in .* \(No space left on device\)"
        ):
            run_recipe(recipe(), tmp_path / "run")
    assert [path.name for path in (tmp_path / "run" / "steps").iterdir()] == ["checkpoint-4"]
    assert_same(whole, resume_run(tmp_path / "run"))


@pytest.fixture
def small_disk(tmp_path):
    """A real file system of 800 kB, full after two checkpoints and a bit."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=800k", "tmpfs", place], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("a small file system can't be mounted here: that takes root")
    yield place
    subprocess.run(["umount", place], check=True)


def test_a_disk_that_is_really_full_is_one_sentence(recipe, small_disk):
    with pytest.raises(
        UserError, match=r"the checkpoint of step \d+ can't be written in .*; make room or allow writing there"
    ):
        run_recipe(recipe(save_steps=1), small_disk / "run")
    found, passed_over = last_good(small_disk / "run" / "steps")
    assert found is not None
    assert passed_over == []
    assert not (small_disk / "run" / "metrics.json").exists()
    shutil.rmtree(small_disk / "run" / "steps" / "checkpoint-1")
    assert checkpoints.problem_of(found, int(found.name.split("-")[1])) is None


def test_results_that_cannot_be_written_lose_no_checkpoint(recipe, tmp_path, monkeypatch):
    wanted = recipe(early_stopping=9, eval_steps=2, save_steps=None)
    whole = run_recipe(wanted, tmp_path / "whole")

    def full(self, metrics):
        raise UserError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(run_module.RunFolder, "write_metrics", full)
        with pytest.raises(UserError, match="full"):
            run_recipe(wanted, tmp_path / "run")
    assert last_good(tmp_path / "run" / "steps")[0] is not None
    assert_same(whole, resume_run(tmp_path / "run"))
