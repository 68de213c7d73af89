"""`attentune predict`: the columns of the run, streams and pipes, and files that are there whole or not at all."""

import json
import math
import os
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest
import torch
from rich.console import Console

from attentune.training import Predictor, load, run_recipe

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


def test_ctrl_c_says_how_to_go_on_and_exits_with_130(model_folder, review_rows, tmp_path):
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
    told = err.splitlines()[-1]
    assert told.startswith("attentune: stopped; a checkpoint of step ")
    assert told.endswith(" is kept; go on with: attentune train --resume --output run")
    assert "Traceback" not in err


MEASURE = """
import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024)
"""


@pytest.mark.slow
def test_a_hundred_thousand_lines_take_no_more_memory_than_ten_thousand(run, tmp_path):
    peaks = []
    for lines in (10_000, 100_000):
        file = tmp_path / f"{lines}.txt"
        file.write_text("".join(f"a fine film {'the was ' * (line % 20)}\n" for line in range(lines)))
        command = [
            *ATTENTUNE.split(),
            "predict",
            "--run",
            run,
            file,
            "--batch-size",
            "256",
            "--output",
            f"{file}.jsonl",
        ]
        measured = subprocess.run([sys.executable, "-c", MEASURE, *map(str, command)], capture_output=True, check=True)
        peaks.append(float(measured.stdout))
        with (tmp_path / f"{lines}.txt.jsonl").open() as answers:
            assert sum(1 for _ in answers) == lines
    small, large = peaks  # in MB
    assert large - small < 40, peaks


def test_texts_of_all_lengths_are_answered_in_their_order_whatever_the_batches(tiny_model, tiny_tokenizer):
    model, widths = tiny_model(), []

    def count_tokens(input_ids, attention_mask, **kwargs):
        widths.append(input_ids.shape[1])
        return SimpleNamespace(logits=attention_mask.sum(dim=1, keepdim=True).float() @ torch.tensor([[0.1, 0.0]]))

    model.forward = count_tokens
    predictor = Predictor(model, tiny_tokenizer, 64, "fp32")
    lengths = [1 + 17 * number % 23 for number in range(150)]
    answered = list(predictor.stream((("fine " * length, None) for length in lengths), batch_size=4))
    chances = [one.probabilities["LABEL_0"] for one in answered]
    assert chances == pytest.approx([1 / (1 + math.exp(-0.1 * (length + 2))) for length in lengths], abs=1e-6)
    assert sum(widths) * 4 < 0.8 * 150 * 25  # padded to the longest of a batch of its like, not to the longest of all


def test_the_first_answer_comes_before_the_last_text_is_read(run, tmp_path):
    command = [*ATTENTUNE.split(), "predict", "--run", str(run), "--batch-size", "2"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=tmp_path, bufsize=0)
    process.stdin.write(b"a film\na bore\n" * 4)
    assert json.loads(process.stdout.readline())["text"] == "a film"
    process.stdin.close()
    assert len(process.stdout.read().splitlines()) == 7
    assert process.wait(timeout=60) == 0


def test_precision_is_one_of_three(attentune, run, review_rows):
    bf16 = answers(attentune("predict", "--run", run, review_rows, "--precision", "bf16"))
    fp32 = answers(attentune("predict", "--run", run, review_rows, "--precision", "fp32"))
    assert fp32 != bf16
    assert all(
        a["probabilities"]["good"] == pytest.approx(b["probabilities"]["good"], abs=0.02)
        for a, b in zip(bf16, fp32, strict=True)
    )
    assert "--precision is 'fp8'; give auto, bf16 or fp32" in refused(
        attentune("predict", "--run", run, review_rows, "--precision", "fp8")
    )
