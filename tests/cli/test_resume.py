"""A run that is stopped and gone on with on the command line: exit codes, the sentence that says how, and every way to say it."""

import json
import os
import signal
import subprocess
import sys

import huggingface_hub
import pytest

from attentune.training import running


@pytest.fixture
def train(attentune, model_folder, review_rows):
    def run(*more):
        return attentune(
            "train", "--model", model_folder, "--train-file", review_rows, "--text", "review", "--label", "verdict",
            "--epochs", "2", "--batch-size", "8", *more,
        )  # fmt: skip

    return run


@pytest.fixture
def stopped(train, monkeypatch):
    """A run that was stopped by Ctrl-C after its fifth step."""
    stock = running.ShowProgress

    class Pressed(stock):
        def on_step_end(self, args, state, control, **kwargs):
            super().on_step_end(args, state, control, **kwargs)
            if state.global_step == 5:
                os.kill(os.getpid(), signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(running, "ShowProgress", Pressed)
        return train("--output", "run")


def test_ctrl_c_keeps_a_checkpoint_and_says_how_to_go_on(stopped, tmp_path):
    code, out, err = stopped
    assert (code, out) == (130, "")
    assert err.splitlines()[-1] == (
        "attentune: stopped; a checkpoint of step 5 is kept; go on with: attentune train --resume --output run"
    )
    assert (tmp_path / "run" / "steps" / "checkpoint-5" / "model.safetensors").is_file()


@pytest.mark.parametrize("words", [("--resume", "--output", "run"), ("--resume", "--run", "run"), ("--resume", "run")])
def test_it_goes_on_however_the_run_is_named(stopped, attentune, tmp_path, words):
    code, out, err = attentune("train", *words, "--json")
    assert code == 0, err
    assert "resuming from run/steps/checkpoint-5" in err
    assert json.loads(out)["train"]["steps"] == 12


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--resume", "--output", "run", "--epochs", "5"), "the run's own recipe, which --epochs would change"),
        (("--resume", "run", "--set", "training.seed=1", "--lora", "r=2"), "which --lora and --set would change"),
        (("--resume",), "--resume goes on with one run; name its folder"),
        (("--resume", "run", "--output", "other"), "goes on with one run (given: run, other)"),
        (("--resume", "--output", "nowhere"), "there is no run in nowhere to go on with"),
    ],
)
def test_what_would_be_another_run_is_refused(stopped, attentune, words, sentence):
    code, out, err = attentune("train", *words)
    assert (code, out) == (2, "")
    assert sentence in err


def test_a_run_that_is_there_is_not_written_over(stopped, train):
    code, _, err = train("--output", "run")
    assert code == 2
    assert "already holds an unfinished run; choose another with --output, go on with it by adding --resume" in err


@pytest.mark.slow
def test_a_batch_systems_signal_to_a_real_process(model_folder, review_rows, tmp_path):
    command = [
        sys.executable, "-m", "attentune", "train", "--model", model_folder, "--train-file", review_rows,
        "--text", "review", "--label", "verdict", "--epochs", "100000", "--save-steps", "5", "--output", "run",
    ]  # fmt: skip
    process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    for line in process.stderr:
        if line.startswith("epoch 2,"):
            process.send_signal(signal.SIGTERM)
            break
    _, rest = process.communicate(timeout=120)
    assert process.returncode == 130, rest
    assert "go on with: attentune train --resume --output run" in rest
    assert "Traceback" not in rest


def test_push_says_where_it_is(train, attentune, monkeypatch):
    class Hub:
        def create_repo(self, name, **kwargs):
            return huggingface_hub.RepoUrl(f"https://huggingface.co/{name}")

        def upload_folder(self, **kwargs):
            pass

    train("--max-steps", "1", "--output", "run")
    monkeypatch.setattr(huggingface_hub, "HfApi", Hub)
    assert attentune("push", "run", "someone/films")[1] == "pushed: https://huggingface.co/someone/films\n"
    assert json.loads(attentune("push", "run", "someone/films", "--json")[1])["url"].endswith("someone/films")
    code, _, err = attentune("push", "nowhere", "someone/films")
    assert code == 2
    assert "not the folder of a run" in err


def test_the_summary_fits_on_one_screen(train, tmp_path):
    _, out, _ = train("--max-steps", "2", "--output", "run", "--method", "mdg(0.1)")
    assert len(out.splitlines()) <= 24
    assert "accuracy (decides)" in out
    assert "run: run" in out
