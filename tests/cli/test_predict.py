"""`attentune predict`: the columns of the run, streams and pipes, and files that are there whole or not at all."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
import torch
from rich.console import Console

from attentune.training import load, run_recipe

ATTENTUNE = f"{sys.executable} -m attentune"


@pytest.fixture
def run(tiny_recipe, tmp_path):
    return run_recipe(tiny_recipe(), tmp_path / "run", console=Console(quiet=True)).path


def answers(result):
    code, out, err = result
    assert code == 0, err
    return [json.loads(line) for line in out.splitlines()]


def refused(result):
    code, out, err = result
    assert (code, out) == (2, "")
    assert err.startswith("attentune: ")
    assert err.count("\n") == 1, err
    return err


def shell(line, folder):
    finished = subprocess.run(["bash", "-c", f"set -o pipefail; {line}"], capture_output=True, cwd=folder, check=False)
    return finished.returncode, finished.stdout.decode(), finished.stderr.decode()


def test_the_columns_are_those_of_training_unless_they_are_named(attentune, run, review_rows, tmp_path):
    assert len(answers(attentune("predict", "--run", run, review_rows))) == 48
    (tmp_path / "both.csv").write_text("text,review\na film,a bore\n")
    assert answers(attentune("predict", "--run", run, "both.csv"))[0]["text"] == "a bore"
    assert answers(attentune("predict", "--run", run, "both.csv", "--text", "text"))[0]["text"] == "a film"
    (tmp_path / "new.txt").write_text("a fine film\n")
    assert answers(attentune("predict", "--run", run, "new.txt"))[0]["text"] == "a fine film"
    (tmp_path / "other.csv").write_text("words,n\na film,1\n")
    assert "name the column with --text" in refused(attentune("predict", "--run", run, "other.csv"))
    (tmp_path / "pairs.csv").write_text("premise,hypothesis\na film,a bore\n")
    assert "takes single texts, but pairs.csv gives pairs; name the column with --text" in refused(
        attentune("predict", "--run", run, "pairs.csv")
    )


def test_a_model_with_a_changed_forward_pass_predicts_with_it(attentune, tiny_recipe, tmp_path):
    run_recipe(tiny_recipe(method="blur(sigma=0.8) + se"), tmp_path / "run", console=Console(quiet=True))
    loaded = load(tmp_path / "run")
    with torch.no_grad():
        logits = loaded.model(**loaded.tokenizer("a fine film", return_tensors="pt")).logits
    expected = dict(zip(loaded.model.config.id2label.values(), logits.softmax(-1)[0].tolist(), strict=True))
    (tmp_path / "new.txt").write_text("a fine film\n")
    (answer,) = answers(attentune("predict", "--run", "run", "new.txt"))
    assert answer["probabilities"] == pytest.approx(expected, abs=1e-6)
    (tmp_path / "run" / "checkpoint" / "attentune.json").write_text("{")
    assert "isn't what attentune writes there" in refused(attentune("predict", "--run", "run", "new.txt"))


def test_standard_input_is_read_as_files_are(run, tmp_path):
    code, out, err = shell(
        f"printf '\\xef\\xbb\\xbfa film\\r\\na bore\\r\\n' | {ATTENTUNE} predict --run run", tmp_path
    )
    assert [row["text"] for row in answers((code, out, err))] == ["a film", "a bore"]
    told = refused(shell(f"printf 'a film\\nna\\xefve\\n' | LC_ALL=C {ATTENTUNE} predict --run run", tmp_path))
    assert "line 2 of standard input is not UTF-8" in told
    assert "standard input has none" in refused(
        shell(f"{ATTENTUNE} predict --run run --text review < /dev/null", tmp_path)
    )


def test_a_reader_that_leaves_is_no_error(run, tmp_path):
    code, out, err = shell(f"yes text | {{ {ATTENTUNE} predict --run run; echo $? > code; }} | head -1", tmp_path)
    assert json.loads(out)["text"] == "text"
    assert "Traceback" not in err
    assert "Exception" not in err
    assert (tmp_path / "code").read_text().strip() == "0"
    code, _, err = shell(f"{ATTENTUNE} methods --json | true", tmp_path)
    assert (code, err) == (0, "")


def test_what_is_written_is_there_whole_or_not_at_all(attentune, run, review_rows, tmp_path):
    (tmp_path / "torn.tsv").write_text("review\tn\na film\t1\n" * 40 + "ragged\n")
    refused(attentune("predict", "--run", run, "torn.tsv", "--output", "out.jsonl"))
    assert not list(tmp_path.glob("out*"))
    answers(attentune("predict", "--run", run, review_rows, "--output", "out.jsonl"))
    assert len((tmp_path / "out.jsonl").read_text().splitlines()) == 48
    assert not list(tmp_path.glob("out.jsonl.*"))
    assert "can't be written" in refused(
        attentune("predict", "--run", run, review_rows, "--output", tmp_path / "nowhere" / "out.jsonl")
    )


def test_an_unfinished_and_a_damaged_run_are_told(attentune, run):
    metrics = run / "metrics.json"
    metrics.write_text(metrics.read_text()[:40])
    assert "metrics.json is damaged" in refused(attentune("predict", "--run", run))
    metrics.unlink()
    assert "has not finished" in refused(attentune("predict", "--run", run))


def test_texts_that_are_cut_are_told(attentune, run, tmp_path):
    (tmp_path / "long.txt").write_text("a fine film " * 60 + "\na bore\n")
    code, out, err = attentune("predict", "--run", run, "long.txt")
    assert len(answers((code, out, err))) == 2
    assert err.strip() == "1 text is longer than 64 tokens, and was cut"


def test_ctrl_c_names_the_unfinished_run_and_exits_with_130(model_folder, review_rows, tmp_path):
    command = [
        *ATTENTUNE.split(), "train", "--model", model_folder, "--train-file", review_rows, "--text", "review",
        "--label", "verdict", "--epochs", "100000", "--output", "run",
    ]  # fmt: skip
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        for line in process.stderr:
            if line.startswith("epoch "):
                break
        time.sleep(0.2)
        os.kill(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130
    assert out == ""
    assert err.splitlines()[-1] == "attentune: stopped; the unfinished run is in run"
    assert "Traceback" not in err
