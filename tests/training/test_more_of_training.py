"""What a recipe may ask for beyond the defaults: classes that weigh more, parts of a step, an end before the last step, adapters,
trackers; and what is told where the loss is no number."""

import json

import pytest
import torch
from safetensors.torch import load_file
from torch.nn.functional import log_softmax
from transformers import AutoModelForSequenceClassification, TrainerCallback

from attentune.errors import UserError
from attentune.training import LoraRecipe, load_for_classification, run_recipe, running
from attentune.training import run as run_module
from attentune.training.class_weights import weighted_loss, weights_of_classes
from attentune.training.lora import adapt, merged

STILL = {"epochs": 1, "batch_size": 8, "lr": 0.01, "precision": "fp32", "seed": 0}


def weights_of(run):
    return load_file(run.checkpoint / "model.safetensors")


def log_of(run):
    return [json.loads(line) for line in (run.path / "log.jsonl").read_text().splitlines()]


def test_the_weighted_loss_is_the_papers_mean_over_rows():
    logits = torch.tensor([[1.0, 0.0, 2.0], [0.5, 0.5, 0.5], [3.0, -1.0, 0.0]])
    labels, weights = [2, 1, 0], [0.5, 2.0, 3.0]
    by_hand = 0.0
    for row, label in zip(logits, labels, strict=True):
        by_hand -= weights[label] * log_softmax(row, dim=0)[label].item()
    loss = weighted_loss(weights)
    assert loss({"logits": logits}, torch.tensor(labels)).item() == pytest.approx(by_hand / 3)
    assert loss({"logits": logits}, torch.tensor(labels), 12).item() == pytest.approx(by_hand / 12)


def test_balanced_classes_have_the_same_share_of_the_loss_and_weights_a_mean_of_one():
    labels = [0] * 6 + [1] * 2 + [2]
    weights = weights_of_classes("balanced", labels, ("a", "b", "c"))
    assert [weight * labels.count(i) for i, weight in enumerate(weights)] == pytest.approx([3, 3, 3])
    given = weights_of_classes([1, 2, 4], labels, ("a", "b", "c"))
    assert given[1] / given[0] == pytest.approx(2)
    assert given[2] / given[0] == pytest.approx(4)
    assert sum(given[label] for label in labels) / len(labels) == pytest.approx(1)
    assert weights_of_classes("balanced", [1, 1], ("a", "b")) == [0.0, 1.0]  # a class that isn't there
    with pytest.raises(UserError, match="is for tasks with classes"):
        weights_of_classes("balanced", [0.5], ())


def test_class_weights_change_the_training_and_not_the_judging(tiny_recipe, tmp_path):
    plain = run_recipe(tiny_recipe(training=STILL), tmp_path / "plain")
    even = run_recipe(tiny_recipe(training={**STILL, "class_weights": [1, 1]}), tmp_path / "even")
    skewed = run_recipe(tiny_recipe(training={**STILL, "class_weights": [9, 1]}), tmp_path / "skewed")
    for name, expected in weights_of(plain).items():
        torch.testing.assert_close(weights_of(even)[name], expected, atol=1e-5, rtol=1e-4)
    answers = [json.loads(line) for line in (skewed.path / "predictions.jsonl").read_text().splitlines()]
    before = [json.loads(line) for line in (plain.path / "predictions.jsonl").read_text().splitlines()]
    assert all(a["probabilities"]["bad"] > b["probabilities"]["bad"] for a, b in zip(answers, before, strict=True))
    judged = -sum(torch.tensor(row["probabilities"][row["label"]]).log().item() for row in answers) / len(answers)
    assert skewed.metrics()["eval"]["loss"] == pytest.approx(judged, abs=1e-4)


@pytest.mark.parametrize("method", ["none", "mdg(0.5) + pdg(0.1)"])
def test_a_step_in_parts_is_the_step(tiny_recipe, tmp_path, method):
    """43 rows: the last step has 3, in parts of 2 and 1."""
    whole = run_recipe(tiny_recipe(method=method, training=STILL), tmp_path / "whole")
    parts = run_recipe(tiny_recipe(method=method, training={**STILL, "gradient_accumulation": 4}), tmp_path / "parts")
    assert parts.metrics()["train"]["steps"] == whole.metrics()["train"]["steps"] == 6
    for name, expected in weights_of(whole).items():
        torch.testing.assert_close(weights_of(parts)[name], expected, atol=2e-4, rtol=1e-3)
    for a, b in zip(log_of(whole), log_of(parts), strict=True):
        assert a.keys() == b.keys()
        for name in {"loss", "task_loss", "guide/mdg", "guide/pdg"} & a.keys():
            assert a[name] == pytest.approx(b[name], rel=2e-3)


def test_steps_and_schedule_are_those_asked_for(tiny_recipe, tmp_path):
    training = {**STILL, "max_steps": 20, "warmup": 0.5, "scheduler": "constant", "weight_decay": 0.0}
    run = run_recipe(tiny_recipe(training=training), tmp_path / "run")
    rates = [entry["learning_rate"] for entry in log_of(run) if "learning_rate" in entry]
    assert run.metrics()["train"]["steps"] == 20
    assert rates == pytest.approx([0.01 * min(1, step / 10) for step in range(20)])


def test_checkpoints_are_as_many_as_asked_for(tiny_recipe, tmp_path):
    run = run_recipe(tiny_recipe(training={**STILL, "save_steps": 1, "save_total_limit": 2}), tmp_path / "run")
    assert sorted(path.name for path in run.steps.iterdir()) == ["checkpoint-5", "checkpoint-6"]


def test_evaluations_on_the_way_are_logged_and_the_best_model_is_kept(tiny_recipe, tmp_path):
    training = {**STILL, "epochs": 4, "eval_steps": 2, "early_stopping": 2, "lr": 0.05}
    run = run_recipe(tiny_recipe(training=training), tmp_path / "run")
    seen = [entry["eval_accuracy"] for entry in log_of(run) if "eval_accuracy" in entry]
    assert len(seen) >= 3
    assert run.metrics()["eval"]["accuracy"] == pytest.approx(max(seen))
    assert not run.steps.exists()


def test_gradient_checkpointing_trains_the_same(tiny_recipe, tmp_path):
    plain = run_recipe(tiny_recipe(method="mdg(0.1)", training=STILL), tmp_path / "plain")
    saving = run_recipe(
        tiny_recipe(method="mdg(0.1)", training={**STILL, "gradient_checkpointing": True}), tmp_path / "saving"
    )
    for name, expected in weights_of(plain).items():
        torch.testing.assert_close(weights_of(saving)[name], expected, atol=1e-4, rtol=1e-3)


def test_a_loss_that_is_no_number_is_told_with_its_rows_and_terms(tiny_recipe, review_rows, tmp_path, monkeypatch):
    stock = running.ShowProgress

    class Break(stock):
        def on_step_begin(self, args, state, control, model=None, **kwargs):
            if state.global_step == 2:
                model.classifier.weight.data.fill_(float("nan"))

    monkeypatch.setattr(running, "ShowProgress", Break)
    with pytest.raises(UserError) as error:
        run_recipe(tiny_recipe(method="mdg(0.1)", training=STILL), tmp_path / "run")
    told = str(error.value)
    assert told.startswith("the loss is nan at step 2 (task_loss nan, guide/mdg ")
    assert ") by task_loss in the batch of rows " in told
    rows = told.split("batch of rows ")[1].split(";")[0].split(", ")
    assert len(rows) == len(set(rows)) == 8
    assert all(0 <= int(row) < 48 for row in rows)


def test_a_run_is_reported_where_it_is_asked_for(tiny_recipe, tmp_path, monkeypatch):
    from transformers.integrations import integration_utils

    seen = []

    class Tracker(TrainerCallback):
        def on_log(self, args, state, control, logs=None, **kwargs):
            seen.append((args.run_name, dict(logs)))

    monkeypatch.setitem(integration_utils.INTEGRATION_TO_CALLBACK, "tensorboard", Tracker)
    training = {**STILL, "report_to": ["tensorboard"], "eval_steps": 3}
    run_recipe(tiny_recipe(method="mdg(0.1)", training=training), tmp_path / "named")
    assert {name for name, _ in seen} == {"named"}
    keys = {key for _, logs in seen for key in logs}
    assert {"loss", "task_loss", "guide/mdg", "eval_accuracy", "learning_rate"} <= keys


class TestAdapters:
    """With peft: a few small matrices are trained, guided as all weights would be."""

    @pytest.fixture(autouse=True)
    def _peft(self):
        pytest.importorskip("peft", reason="peft is not installed (the extra lora)")

    def test_the_base_model_stays_and_the_checkpoint_is_plain(self, tiny_recipe, model_folder, tmp_path):
        run = run_recipe(
            tiny_recipe(method="mdg(0.5)", training={**STILL, "save_steps": 3}, lora={"r": 2}), tmp_path / "run"
        )
        base, trained = load_file(model_folder / "model.safetensors"), weights_of(run)
        assert base.keys() == trained.keys()
        moved = {name for name in base if not torch.equal(base[name], trained[name])}
        assert moved
        assert all("query" in name or "value" in name or not name.startswith("bert.enc") for name in moved)
        assert {"adapter_model.safetensors", "adapter_config.json"} <= {path.name for path in run.adapter.iterdir()}
        plain = AutoModelForSequenceClassification.from_pretrained(run.checkpoint).eval()
        assert plain(torch.tensor([[1, 6, 7, 2]])).logits.isfinite().all()
        assert any("guide/mdg" in entry for entry in log_of(run))

    def test_it_goes_on_where_it_was_stopped(self, tiny_recipe, tmp_path, monkeypatch):
        from attentune.training import resume_run

        recipe = tiny_recipe(
            method="mdg(auto(0.1))", training={**STILL, "save_steps": 2}, lora={"r": 2, "dropout": 0.1}
        )
        whole = run_recipe(recipe, tmp_path / "whole")
        with monkeypatch.context() as patch:
            patch.setattr(run_module, "evaluate_all", lambda *args: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                run_recipe(recipe, tmp_path / "run")
        for file in ("checkpoint-4", "checkpoint-6"):
            (tmp_path / "run" / "steps" / file / "optimizer.pt").unlink()
        resumed = resume_run(tmp_path / "run")
        for name, expected in weights_of(whole).items():
            assert torch.equal(weights_of(resumed)[name], expected), name

    def test_a_method_that_it_cannot_be_saved_with_is_refused_before_anything_is_written(self, tiny_recipe, tmp_path):
        with pytest.raises(UserError, match="which a peft adapter can't be saved with"):
            run_recipe(tiny_recipe(method="se()", training=STILL, lora={"r": 2}), tmp_path / "run")
        assert not (tmp_path / "run").exists()

    def test_what_cannot_be_adapted_is_told(self, model_folder):
        model, _ = load_for_classification(str(model_folder), ("a", "b"))
        with pytest.raises(UserError, match="can't be given an adapter"):
            adapt(model, LoraRecipe(targets=("nowhere",)))

    def test_merged_it_answers_as_before(self, model_folder):
        model, _ = load_for_classification(str(model_folder), ("a", "b"))
        ids = torch.tensor([[1, 6, 7, 2]])
        adapted = adapt(model, LoraRecipe(r=2)).eval()
        with torch.no_grad():
            for name, parameter in adapted.named_parameters():
                if "lora_B" in name:
                    parameter.normal_()
            before = adapted(input_ids=ids).logits
            torch.testing.assert_close(merged(adapted)(input_ids=ids).logits, before, atol=1e-5, rtol=1e-4)


def test_an_adapter_without_peft_is_told(model_folder, monkeypatch):
    from attentune.training import lora

    model, _ = load_for_classification(str(model_folder), ("a", "b"))
    monkeypatch.setattr(lora.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(
        UserError, match=r"needs peft, which isn't installed; install it: pip install 'attentune\[lora\]'"
    ):
        adapt(model, LoraRecipe())
    assert merged(model) is model
