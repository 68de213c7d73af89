"""Trainer: transformers' own, with a guide in its loss and its log, and nothing of it in what is saved."""

import json

import pytest
import torch
import transformers
from datasets import Dataset
from transformers import AutoModelForSequenceClassification, TrainerCallback, TrainingArguments

from attentune.errors import UserError
from attentune.methods import MDG, Linear
from attentune.methods.auto import AutoWeights
from attentune.training import Trainer

METHOD = "mdg(0.1) + pdg(0.01)"


def make_data(batch):
    lengths = batch["attention_mask"].sum(-1).tolist()
    rows = {name: [row[:n].tolist() for row, n in zip(batch[name], lengths, strict=True)] for name in ("input_ids",)}
    return Dataset.from_dict({**rows, "labels": batch["labels"].tolist()})


def pad(rows):
    width = max(len(row["input_ids"]) for row in rows)
    ids = torch.tensor([row["input_ids"] + [0] * (width - len(row["input_ids"])) for row in rows])
    return {"input_ids": ids, "attention_mask": (ids != 0).long(), "labels": torch.tensor([r["labels"] for r in rows])}


def make_trainer(model, data, folder, method=METHOD, trainer=Trainer, callbacks=(), eval_dataset=None, **settings):
    defaults = {
        "max_steps": 4, "per_device_train_batch_size": 4, "logging_steps": 1, "save_strategy": "no", "report_to": "none",
        "use_cpu": True, "disable_tqdm": True, "learning_rate": 1e-2, "lr_scheduler_type": "constant", "seed": 0,
    }  # fmt: skip
    own = {"method": method} if trainer is Trainer else {}
    arguments = TrainingArguments(str(folder), **{**defaults, **settings})
    return trainer(
        model,
        arguments,
        train_dataset=data,
        eval_dataset=eval_dataset,
        data_collator=pad,
        callbacks=list(callbacks),
        **own,
    )


@pytest.fixture
def data(tiny_batch):
    return make_data(tiny_batch((9, 6, 4, 7, 8, 5, 9, 3)))


def test_it_logs_the_task_loss_and_each_term(tiny_model, data, tmp_path):
    seen = []

    class Tracker(TrainerCallback):
        def on_log(self, args, state, control, logs=None, **kwargs):
            seen.append(dict(logs))

    trainer = make_trainer(tiny_model(), data, tmp_path, callbacks=[Tracker()])
    trainer.train()
    steps = [logs for logs in seen if "loss" in logs]
    assert len(steps) == 4
    for logs in steps:
        assert {"task_loss", "guide/mdg", "guide/pdg"} <= set(logs)
        parts = logs["task_loss"] + 0.1 * logs["guide/mdg"] + 0.01 * logs["guide/pdg"]
        assert logs["loss"] == pytest.approx(parts, rel=1e-4)


def test_unguided_it_is_transformers_own_trainer(tiny_model, data, tmp_path):
    states = []
    for kind in (transformers.Trainer, Trainer):
        trainer = make_trainer(tiny_model(), data, tmp_path, method="none", trainer=kind)
        trainer.train()
        states.append(trainer.model.state_dict())
    for name, expected in states[0].items():
        assert torch.equal(states[1][name], expected)


def test_the_guide_changes_the_weights_and_its_own_loss(tiny_model, data, tmp_path):
    logged = {}
    for method in ("mdg(0)", "mdg(10)"):
        trainer = make_trainer(tiny_model(), data, tmp_path, method=method, max_steps=30, learning_rate=1e-3)
        trainer.train()
        logged[method] = [logs["guide/mdg"] for logs in trainer.state.log_history if "guide/mdg" in logs]
    assert logged["mdg(10)"][-1] < logged["mdg(0)"][-1] - 0.01


@pytest.mark.parametrize("name", ["bert", "llama", "modernbert"])
def test_accumulated_steps_equal_whole_ones(tiny_model, data, tmp_path, name):
    """Four batches of two rows move the weights as one batch of eight does, task and guide alike."""
    states = []
    for size, steps in ((8, 1), (2, 4)):
        model = tiny_model(name)
        settings = {"per_device_train_batch_size": size, "gradient_accumulation_steps": steps, "optim": "sgd"}
        trainer = make_trainer(model, data, tmp_path, max_steps=1, max_grad_norm=0.0, **settings)
        trainer.train()
        states.append(model.state_dict())
    for name, expected in states[0].items():
        torch.testing.assert_close(states[1][name], expected, atol=1e-6, rtol=1e-4)


def summed_cross_entropy(outputs, labels, num_items_in_batch=None):
    return torch.nn.functional.cross_entropy(outputs.logits, labels, reduction="sum") / num_items_in_batch


def test_a_loss_of_ones_own_accumulates_too(tiny_model, data, tmp_path):
    logs = []
    for size, steps in ((8, 1), (2, 4)):
        settings = {"max_steps": 1, "per_device_train_batch_size": size, "gradient_accumulation_steps": steps}
        trainer = make_trainer(tiny_model(), data, tmp_path, "mdg(1.0)", learning_rate=0.0, **settings)
        trainer.compute_loss_func = summed_cross_entropy
        trainer.train()
        logs.append(trainer.state.log_history[0])
    for name in ("task_loss", "guide/mdg", "loss"):
        assert logs[1][name] == pytest.approx(logs[0][name], rel=1e-2), (
            name
        )  # padded alike, so only the rounding differs
    assert logs[1]["loss"] == pytest.approx(logs[1]["task_loss"] + logs[1]["guide/mdg"], rel=1e-4)


def test_a_model_made_when_training_begins_is_guided(tiny_model, data, tmp_path):
    arguments = TrainingArguments(
        str(tmp_path),
        max_steps=2,
        report_to="none",
        use_cpu=True,
        disable_tqdm=True,
        save_strategy="no",
        logging_steps=1,
    )
    trainer = Trainer(
        model_init=lambda: tiny_model(), args=arguments, train_dataset=data, data_collator=pad, method="mdg(0.1)"
    )
    trainer.train()
    assert trainer.state.log_history[0]["guide/mdg"] > 0
    assert trainer.model.config._attn_implementation == "sdpa"


def test_evaluation_is_unguided(tiny_model, data, tmp_path):
    model = tiny_model()
    trainer = make_trainer(model, data, tmp_path, eval_strategy="steps", eval_steps=1, eval_dataset=data)
    trainer.train()
    with torch.no_grad():
        plain = transformers.Trainer.evaluate(make_trainer(model, data, tmp_path, method="none"), data)["eval_loss"]
    last = [logs["eval_loss"] for logs in trainer.state.log_history if "eval_loss" in logs][-1]
    assert last == pytest.approx(plain, abs=1e-6)


def test_checkpoints_bear_no_trace(tiny_model, data, tiny_batch, tmp_path):
    model = tiny_model()
    make_trainer(model, data, tmp_path, save_strategy="steps", save_steps=2).train()
    folder = tmp_path / "checkpoint-4"
    assert (folder / "model.safetensors").is_file()
    assert "attentune" not in (folder / "config.json").read_text()
    plain = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    batch = tiny_batch()
    assert torch.equal(plain(**batch).logits, model.eval()(**batch).logits)
    assert model.config._attn_implementation == "sdpa"


def test_gradient_checkpointing_ends_with_the_same_weights(tiny_model, data, tmp_path):
    states = []
    for checkpointing in (False, True):
        model = tiny_model()
        make_trainer(model, data, tmp_path, gradient_checkpointing=checkpointing).train()
        states.append(model.state_dict())
    for name, expected in states[0].items():
        torch.testing.assert_close(states[1][name], expected, atol=1e-5, rtol=1e-4)


def test_schedules_follow_training(tiny_model, data, tmp_path):
    trainer = make_trainer(tiny_model(), data, tmp_path, method=MDG(0.5, Linear()), max_steps=4)
    trainer.train()
    steps = [logs for logs in trainer.state.log_history if "guide/mdg" in logs]
    weights = [(logs["loss"] - logs["task_loss"]) / logs["guide/mdg"] for logs in steps]
    assert weights == pytest.approx([0.5, 0.375, 0.25, 0.125], rel=1e-3)


def test_a_loss_that_is_not_a_number_stops_training_with_its_parts(tiny_model, data, tmp_path):
    model = tiny_model()
    with torch.no_grad():
        model.classifier.weight.fill_(float("nan"))
    with pytest.raises(UserError, match=r"the loss is nan at step 0 \(task_loss nan, guide/mdg"):
        make_trainer(model, data, tmp_path).train()
    assert model.config._attn_implementation == "sdpa"


@pytest.mark.parametrize("method", ["mgd(1)", "mdg(1, layers=9)"])
def test_a_mistake_in_the_method_shows_at_once(tiny_model, data, tmp_path, method):
    with pytest.raises(UserError):
        make_trainer(tiny_model(), data, tmp_path, method=method)


@pytest.mark.slow
def test_reference_and_fused_follow_the_same_loss_curve(tiny_model, data, tmp_path):
    curves = []
    for backend in ("reference", "fused"):
        model = tiny_model("bert", hidden_size=32)
        trainer = make_trainer(model, data, tmp_path, max_steps=40, learning_rate=1e-3)
        trainer.backend = backend
        trainer.train()
        curves.append([logs["loss"] for logs in trainer.state.log_history if "loss" in logs])
    reference, fused = (torch.tensor(curve) for curve in curves)
    assert reference[-1] < reference[0] - 0.05  # it does learn
    torch.testing.assert_close(fused, reference, atol=2e-4, rtol=1e-4)
    assert json.dumps(curves[0]) != json.dumps(curves[1][:1])  # two curves, not one twice


# Weights that set themselves.


def weights_of(trainer):
    return [logs["weight/mdg"] for logs in trainer.state.log_history if "weight/mdg" in logs]


def test_a_measured_weight_is_logged_and_is_that_of_the_loss(tiny_model, data, tmp_path):
    trainer = make_trainer(tiny_model(), data, tmp_path, "mdg(auto(0.2, every=2)) + pdg(0.01)", max_steps=6)
    trainer.train()
    steps = [logs for logs in trainer.state.log_history if "weight/mdg" in logs]
    assert len(steps) == 6
    assert "weight/pdg" not in steps[0]
    for logs in steps:
        parts = logs["task_loss"] + logs["weight/mdg"] * logs["guide/mdg"] + 0.01 * logs["guide/pdg"]
        assert logs["loss"] == pytest.approx(parts, rel=1e-3)
    changes = [a != b for a, b in zip(weights_of(trainer), weights_of(trainer)[1:], strict=False)]
    assert changes == [False, True, False, True, False]


@pytest.mark.parametrize("checkpointing", [False, True])
def test_in_accumulated_steps_it_is_measured_once_a_step(tiny_model, data, tmp_path, checkpointing, monkeypatch):
    measured = []
    measure = AutoWeights.measure

    def noted(self, step, *args):
        if self.due(step):
            measured.append(step)
        measure(self, step, *args)

    monkeypatch.setattr(AutoWeights, "measure", noted)
    settings = {"per_device_train_batch_size": 2, "gradient_accumulation_steps": 2, "max_steps": 5}
    settings["gradient_checkpointing"] = checkpointing
    trainer = make_trainer(tiny_model(), data, tmp_path, "mdg(auto(0.1, every=2))", **settings)
    trainer.train()
    assert measured == [0, 2, 4]


@pytest.mark.parametrize(
    "method", ["mdg(auto(0.2, every=3))", "se + mdg(auto(0.2, every=3)) + pdg(auto(0.1, every=2))"]
)
def test_a_resumed_run_goes_on_with_what_was_measured(tiny_model, data, tmp_path, method):
    settings = {"max_steps": 8, "save_strategy": "steps", "save_steps": 2}
    whole = make_trainer(tiny_model(), data, tmp_path / "whole", method, **settings)
    whole.train()
    resumed = make_trainer(tiny_model(), data, tmp_path / "resumed", method, **settings)
    resumed.train(resume_from_checkpoint=str(tmp_path / "whole" / "checkpoint-4"))
    assert weights_of(resumed) == weights_of(whole)
    expected = whole.model.state_dict()
    for name, tensor in resumed.model.state_dict().items():
        assert torch.equal(tensor, expected[name]), name
    resumed.train()  # and a training that begins anew measures anew
    assert weights_of(resumed)[0] != weights_of(whole)[4]
