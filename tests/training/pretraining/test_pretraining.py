"""Runs of pre-training: what they leave is plain transformers, what they say is so, and interruptions don't show."""

import json
import math
import os
import signal
import subprocess
import sys

import datasets
import pytest
import torch
from safetensors.torch import load_file
from torch.nn.functional import cross_entropy
from transformers import AutoModelForMaskedLM, AutoTokenizer, TrainerCallback, pipeline

from attentune.analysis import pattern_scores
from attentune.errors import UserError
from attentune.training import Recipe, pretrain, resume_pretraining, run_recipe
from attentune.training.checkpoints import last_good
from attentune.training.pretraining import Frame, Masking, packed, tokenized
from attentune.training.pretraining.corpus import load_corpus
from attentune.training.pretraining.recipe import MaskingRecipe
from attentune.training.pretraining.trainer import PretrainingTrainer, ShuffledBatches, masked_loss

GUIDED = "first(0.8, heads=2, schedule=linear(hold=0.5)) + next(0.8, heads=1) + prev(0.8, heads=1)"


def lines_of(run, file="curve.jsonl", without=("seconds",)):
    rows = [json.loads(line) for line in (run.path / file).read_text().splitlines()]
    return [{name: value for name, value in row.items() if name not in without} for row in rows]


@pytest.mark.parametrize("architecture", ["roberta", "bert", "modernbert"])
def test_the_result_is_one_of_plain_transformers(make_recipe, tmp_path, architecture):
    run = pretrain(make_recipe(new={"architecture": architecture}, method=GUIDED), tmp_path / "run")
    names = {path.name for path in run.path.iterdir()}
    assert {"recipe.yaml", "versions.json", "metrics.json", "log.jsonl", "curve.jsonl", "checkpoint"} <= names
    model, info = AutoModelForMaskedLM.from_pretrained(run.checkpoint, output_loading_info=True)
    assert not any(info.values())
    assert type(model).__name__.lower() == f"{architecture}formaskedlm"
    assert (model.config.num_hidden_layers, model.config.hidden_size, model.config.num_attention_heads) == (2, 16, 4)
    tokenizer = AutoTokenizer.from_pretrained(run.checkpoint)
    assert model.config.vocab_size == len(tokenizer) <= 320
    longest = tokenizer("stone " * 100, truncation=True, return_tensors="pt")
    assert longest["input_ids"].shape[1] == 32
    assert model(**longest).logits.isfinite().all()
    assert len(pipeline("fill-mask", str(run.checkpoint))(f"the {tokenizer.mask_token} of a river")) == 5


@pytest.mark.parametrize("architecture", ["roberta", "modernbert"])
def test_the_result_is_fine_tuned_by_its_folder(make_recipe, review_rows, tmp_path, architecture):
    run = pretrain(make_recipe(new={"architecture": architecture}), tmp_path / "run")
    data = {"train_file": str(review_rows), "text": "review", "label": "verdict"}
    training = {"max_steps": 2, "max_length": 32, "precision": "fp32"}
    tuned = run_recipe(
        Recipe.build({"model": str(run.path), "data": data, "method": "mdg(0.1)", "training": training}),
        tmp_path / "tuned",
    )
    assert tuned.metrics()["train"]["steps"] == 2


def test_the_held_out_loss_is_that_of_the_model_that_is_left(make_recipe, tmp_path):
    recipe = make_recipe(method=GUIDED)
    run = pretrain(recipe, tmp_path / "run")
    model, tokenizer = (
        AutoModelForMaskedLM.from_pretrained(run.checkpoint).eval(),
        AutoTokenizer.from_pretrained(run.checkpoint),
    )
    held_out = load_corpus(recipe.data, 42).validation
    blocks = packed(tokenized(held_out, tokenizer, offsets=False), Frame.of(tokenizer), 32)
    masking, losses = Masking(tokenizer, MaskingRecipe(), seed=0), []
    for draw, block in enumerate(blocks):
        batch = masking([{**block, "draw": draw}])
        labels = batch.pop("labels")[0]
        with torch.no_grad():
            logits = model(**batch).logits[0]
        for i in torch.nonzero(labels != -100).flatten().tolist():
            losses.append(float(cross_entropy(logits[i], labels[i])))
    metrics = run.metrics()["eval"]
    assert metrics["loss"] == pytest.approx(sum(losses) / len(losses), rel=1e-4)
    assert metrics["perplexity"] == pytest.approx(math.exp(metrics["loss"]))
    curve = lines_of(run)
    assert curve[-1] == {"step": 6, **metrics}
    assert curve[0]["step"] == 0


def test_it_goes_on_from_a_checkpoint(make_recipe, tmp_path):
    first = pretrain(make_recipe(), tmp_path / "first")
    told = []
    second = pretrain(make_recipe(model=str(first.path)), tmp_path / "second", say=told.append)
    assert lines_of(second)[0]["loss"] == pytest.approx(lines_of(first)[-1]["loss"], rel=1e-5)
    assert lines_of(second)[-1]["loss"] != lines_of(second)[0]["loss"]
    assert not any("new one" in line for line in told)


def test_a_checkpoint_without_a_head_gets_one(make_recipe, model_folder, corpus_file, tmp_path):
    told = []
    corpus_file.write_text("a fine film it was\n" * 30 + "the dull bore\n" * 30)  # what its tokenizer knows
    run = pretrain(make_recipe(model=str(model_folder)), tmp_path / "run", say=told.append)
    assert any("no head that tells masked tokens; it gets a new one" in line for line in told)
    before, after = (load_file(folder / "model.safetensors") for folder in (model_folder, run.checkpoint))
    assert "cls.predictions.transform.dense.weight" in after
    assert "cls.predictions.transform.dense.weight" not in before


def test_guided_and_unguided_begin_alike_and_see_the_same(make_recipe, tmp_path):
    still = {"dropout": 0.0}
    runs = [
        pretrain(make_recipe(new=still, method=method), tmp_path / name)
        for name, method in (("a", "none"), ("b", GUIDED))
    ]
    logs = [[row for row in lines_of(run, "log.jsonl") if "loss" in row] for run in runs]
    assert lines_of(runs[0])[0] == lines_of(runs[1])[0]
    assert logs[0][0]["task_loss"] == pytest.approx(logs[1][0]["task_loss"], rel=1e-5)
    assert {"guide/first", "guide/next", "guide/prev"} <= set(logs[1][0])
    assert lines_of(runs[0])[-1]["loss"] != lines_of(runs[1])[-1]["loss"]


@pytest.mark.slow
def test_guided_heads_take_to_their_patterns_and_the_others_do_not(make_recipe, tmp_path):
    recipe = make_recipe(
        new={"dropout": 0.0, "width": 32},
        method=GUIDED.replace("0.8", "10"),
        training={"max_steps": 100, "lr": 0.01, "eval_steps": 100},
    )
    run = pretrain(recipe, tmp_path / "run")
    model, tokenizer = (
        AutoModelForMaskedLM.from_pretrained(run.checkpoint),
        AutoTokenizer.from_pretrained(run.checkpoint),
    )
    texts = datasets.Dataset.from_dict({"text": ["the river moves slowly", "old bridges and people walk", "water"] * 8})
    blocks = packed(tokenized(texts, tokenizer, offsets=False), Frame.of(tokenizer), 32)
    batch = dict(tokenizer.pad([{"input_ids": row["input_ids"]} for row in blocks], return_tensors="pt"))
    scores = pattern_scores(model, tokenizer, [batch], ("first", "next", "prev"))
    assert scores["first"][:, :2].mean() > 2 * scores["first"][:, 2:].mean()
    for head, name in ((2, "next"), (3, "prev")):
        others = [other for other in range(4) if other != head]
        assert scores[name][:, head].mean() > 0.7 > 0.2 > scores[name][:, others].mean()


def test_accumulation_takes_the_same_steps(make_recipe, tmp_path):
    def train(parts):
        training = {"batch_size": 5, "gradient_accumulation": parts}
        return pretrain(make_recipe(new={"dropout": 0.0}, method=GUIDED, training=training), tmp_path / str(parts))

    whole, parts = train(1), train(5)
    for first, second in zip(lines_of(whole), lines_of(parts), strict=True):
        assert second["loss"] == pytest.approx(first["loss"], rel=2e-4)


def test_the_loss_is_a_mean_over_the_masked_tokens_of_a_step():
    logits, labels = torch.randn(2, 3, 5), torch.tensor([[1, -100, 2], [-100, -100, 4]])
    outputs = type("Outputs", (), {"logits": logits})
    expected = sum(float(-logits[b, i].log_softmax(-1)[labels[b, i]]) for b, i in ((0, 0), (0, 2), (1, 2)))
    assert float(masked_loss(outputs, labels)) == pytest.approx(expected / 3, rel=1e-5)
    assert float(masked_loss(outputs, labels, 6)) == pytest.approx(expected / 6, rel=1e-5)
    assert float(masked_loss(outputs, torch.full((2, 3), -100), 0)) == 0.0


def test_processes_share_each_batch_and_miss_no_block():
    for blocks, processes in ((10, 2), (7, 3)):
        shares = [ShuffledBatches(blocks, 4, seed=1, rank=rank, processes=processes) for rank in range(processes)]
        whole = [sorted(batch) for batch in ShuffledBatches(blocks, 4, seed=1)]
        together = [sorted({draw for part in parts for draw in part}) for parts in zip(*shares, strict=True)]
        assert together == whole
        assert sorted(draw for batch in whole for draw in batch) == list(range(blocks))


class StopAt(TrainerCallback):
    """Ends the program, as far as the run can tell, after a step."""

    def __init__(self, step):
        self.step = step

    def on_step_end(self, args, state, control, **kwargs):
        if state.global_step == self.step:
            raise MemoryError


def assert_same(first, second):
    assert lines_of(first) == lines_of(second)
    volatile = ("seconds", "train_runtime", "train_samples_per_second", "train_steps_per_second")
    assert lines_of(first, "log.jsonl", volatile) == lines_of(second, "log.jsonl", volatile)
    weights = [load_file(run.checkpoint / "model.safetensors") for run in (first, second)]
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])


@pytest.mark.parametrize("step", [1, 4, 5])
def test_where_a_run_was_stopped_does_not_show(make_recipe, tmp_path, step):
    recipe = make_recipe(method=GUIDED, masking={"whole_word": True}, training={"save_steps": 2, "eval_steps": 1})
    whole = pretrain(recipe, tmp_path / "whole")
    with pytest.raises(MemoryError):
        pretrain(recipe, tmp_path / "run", callbacks=[StopAt(step)])
    assert_same(whole, resume_pretraining(tmp_path / "run"))


KILLED = """
import os, signal
from attentune.training.pretraining.trainer import PretrainingTrainer
step = PretrainingTrainer.training_step
def dies(self, *args, **kwargs):
    if self.state.global_step == 5:
        os.kill(os.getpid(), signal.SIGKILL)
    return step(self, *args, **kwargs)
PretrainingTrainer.training_step = dies
from attentune.cli import main
main()
"""


def in_a_process(command, tmp_path, threads=1):
    threads = {"OMP_NUM_THREADS": str(threads)}
    environment = {**os.environ, "HF_DATASETS_CACHE": datasets.config.HF_DATASETS_CACHE, **threads}
    return subprocess.run(
        [sys.executable, *map(str, command)], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_run_that_was_killed_has_the_same_curve(make_recipe, tmp_path, precision):
    training = {"save_steps": 2, "eval_steps": 1, "precision": precision, "max_steps": 8, "gradient_accumulation": 2}
    recipe = make_recipe(method=GUIDED, training=training)
    (tmp_path / "recipe.yaml").write_text(recipe.to_yaml())
    same = torch.get_num_threads()  # sums of another number of threads are other sums, in the last bit
    killed = in_a_process(["-c", KILLED, "pretrain", "recipe.yaml", "--output", "run"], tmp_path, threads=same)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert last_good(tmp_path / "run" / "steps")[0].name == "checkpoint-4"
    assert len(lines_of(type("Run", (), {"path": tmp_path / "run"}))) == 6  # the curve up to where it was killed
    assert_same(pretrain(recipe, tmp_path / "whole"), resume_pretraining(tmp_path / "run"))


@pytest.mark.slow
def test_two_processes_train_as_one_does(make_recipe, tmp_path):
    recipe = make_recipe(new={"dropout": 0.0}, method=GUIDED, training={"eval_steps": 1})
    (tmp_path / "recipe.yaml").write_text(recipe.to_yaml())
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "attentune"]
    done = in_a_process([*launch, "pretrain", "recipe.yaml", "--output", "run"], tmp_path)
    assert done.returncode == 0, done.stderr
    run = type("Run", (), {"path": tmp_path / "run"})
    alone = pretrain(recipe, tmp_path / "alone")
    for first, second in zip(lines_of(alone), lines_of(run), strict=True):
        assert second["loss"] == pytest.approx(first["loss"], rel=2e-4)
    assert json.loads((tmp_path / "run" / "metrics.json").read_text())["train"]["processes"] == 2


def test_a_run_whose_text_has_changed_does_not_go_on(make_recipe, corpus_file, tmp_path):
    recipe = make_recipe(training={"save_steps": 2})
    with pytest.raises(MemoryError):
        pretrain(recipe, tmp_path / "run", callbacks=[StopAt(3)])
    corpus_file.write_text(corpus_file.read_text() + "one more document\n")
    with pytest.raises(UserError, match=r"is not that with which the run in .* began"):
        resume_pretraining(tmp_path / "run")


def test_what_cannot_be_is_told_before_anything_is_written(make_recipe, tmp_path):
    with pytest.raises(UserError, match="9 heads are asked for, but a layer has 4"):
        pretrain(make_recipe(method="first(0.1, heads=9)"), tmp_path / "run")
    with pytest.raises(UserError, match=r"16 rows .* can't be shared evenly|can't be taken in 3 equal parts"):
        pretrain(make_recipe(training={"batch_size": 16, "gradient_accumulation": 3}), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_training_that_diverged_is_no_success(make_recipe, tmp_path, monkeypatch):
    monkeypatch.setattr(
        PretrainingTrainer, "compute_loss", lambda self, model, *a, **k: sum(p.sum() for p in model.parameters())
    )
    with pytest.raises(UserError, match="training has diverged; train again with a lower --lr"):
        pretrain(make_recipe(training={"lr": 1e30, "warmup": 0, "eval_steps": 1}), tmp_path / "run")
    assert not (tmp_path / "run" / "metrics.json").exists()


def test_a_tokenizer_without_a_mask_is_told(make_recipe, model_folder, tmp_path):
    tokenizer = AutoTokenizer.from_pretrained(model_folder)
    tokenizer.mask_token = None
    tokenizer.save_pretrained(model_folder)
    with pytest.raises(UserError, match="has no token to mask others with; give a model that was trained with masks"):
        pretrain(make_recipe(model=str(model_folder)), tmp_path / "run")


def test_a_run_of_pretraining_is_told_from_one_of_fine_tuning(make_recipe, tmp_path):
    run = pretrain(make_recipe(training={"max_steps": 1}), tmp_path / "run")
    with pytest.raises(
        UserError, match=r"is one of pre-training: fine-tune its model with attentune train --model .*run"
    ):
        run.recipe()
