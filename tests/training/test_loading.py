"""Changed models through training: Trainer's checkpoints, resumed runs, run folders and `attentune predict`."""

import json

import pytest
import torch
from datasets import Dataset
from rich.console import Console
from transformers import AutoModelForSequenceClassification, Trainer, TrainingArguments

import attentune
from attentune.errors import UserError
from attentune.training import Predictor, run_recipe

CHANGES = ["se", "blur(sigma=0.8)", "blur(sigma=0.8) + se"]


def pad(rows):
    width = max(len(row["input_ids"]) for row in rows)
    ids = torch.tensor([row["input_ids"] + [0] * (width - len(row["input_ids"])) for row in rows])
    return {"input_ids": ids, "attention_mask": (ids != 0).long(), "labels": torch.tensor([r["labels"] for r in rows])}


@pytest.fixture
def make_trainer(tiny_batch, tiny_tokenizer):
    """Makes a trainer of a model and a method, on eight random texts."""
    batch = tiny_batch((9, 6, 4, 7, 8, 5, 9, 3))
    lengths = batch["attention_mask"].sum(-1).tolist()
    ids = [row[:n].tolist() for row, n in zip(batch["input_ids"], lengths, strict=True)]
    data = Dataset.from_dict({"input_ids": ids, "labels": batch["labels"].tolist()})

    def make(model, folder, method, **settings):
        defaults = {
            "max_steps": 4, "per_device_train_batch_size": 4, "logging_steps": 1, "save_strategy": "no", "seed": 0,
            "report_to": "none", "use_cpu": True, "disable_tqdm": True, "learning_rate": 1e-2,
        }  # fmt: skip
        return attentune.Trainer(
            model, TrainingArguments(str(folder), **{**defaults, **settings}), train_dataset=data, eval_dataset=data,
            data_collator=pad, processing_class=tiny_tokenizer, method=method,
        )  # fmt: skip

    return make


@pytest.mark.parametrize("method", CHANGES)
@pytest.mark.parametrize("name", ["bert", "modernbert"])
def test_what_trainer_saves_comes_back_and_predicts_the_same_to_the_bit(
    tiny_model, tiny_batch, make_trainer, tmp_path, name, method
):
    model, batch = tiny_model(name, vocab_size=50), tiny_batch()
    trainer = make_trainer(model, tmp_path / "out", f"{method} + mdg(0.1)")
    trainer.train()
    trainer.save_model(tmp_path / "saved")
    with torch.no_grad():
        expected = model.eval()(**batch).logits  # the changes stay with the model after training
    loaded = attentune.load(tmp_path / "saved")
    with torch.no_grad():
        assert torch.equal(loaded.model(**batch).logits, expected)
        with loaded:
            pass
        assert not torch.equal(loaded.model(**batch).logits, expected)
    assert str(loaded.method) == method
    assert loaded.tokenizer("a fine film")["input_ids"]
    assert not loaded.model.training


def test_evaluation_while_training_has_the_changes_too(tiny_model, tiny_batch, make_trainer, tmp_path):
    model = tiny_model(initializer_range=0.5)
    trainer = make_trainer(model, tmp_path, "blur(sigma=0.8) + se + mdg(0.1)", eval_strategy="steps", eval_steps=2)
    before = trainer.evaluate()["eval_loss"]
    trainer.train()
    within = [logs["eval_loss"] for logs in trainer.state.log_history if "eval_loss" in logs][-1]
    after = trainer.evaluate()["eval_loss"]
    assert after == pytest.approx(within, abs=1e-6)
    assert before != pytest.approx(after, abs=1e-3)
    trainer.guided.detach()
    plain = Trainer(model, trainer.args, eval_dataset=trainer.eval_dataset, data_collator=pad)
    assert plain.evaluate()["eval_loss"] != pytest.approx(after, abs=1e-4)


@pytest.mark.parametrize("method", ["blur(sigma=0.8) + se + mdg(0.1)", "se"])
def test_a_resumed_run_ends_as_one_that_was_never_stopped(tiny_model, make_trainer, tmp_path, method):
    settings = {"max_steps": 6, "save_strategy": "steps", "save_steps": 2}
    whole = make_trainer(tiny_model(), tmp_path / "whole", method, **settings)
    whole.train()
    folder = tmp_path / "whole" / "checkpoint-4"
    assert json.loads((folder / "attentune.json").read_text())["method"] == method.removesuffix(" + mdg(0.1)")
    resumed = make_trainer(tiny_model(), tmp_path / "resumed", method, **settings)
    with torch.no_grad():
        resumed.guided.added["se"].w1.add_(1.0)  # and whatever was there comes back from the checkpoint
    resumed.train(resume_from_checkpoint=str(folder))
    expected = whole.model.state_dict()
    assert "attentune.se.w1" in expected
    for name, tensor in resumed.model.state_dict().items():
        assert torch.equal(tensor, expected[name]), name


def test_the_best_of_several_checkpoints_comes_back_whole(tiny_model, tiny_batch, make_trainer, tmp_path):
    trainer = make_trainer(
        tiny_model(), tmp_path, "se", eval_strategy="steps", eval_steps=2, save_strategy="steps", save_steps=2,
        load_best_model_at_end=True, metric_for_best_model="eval_loss",
    )  # fmt: skip
    trainer.train()
    best = attentune.load(trainer.state.best_model_checkpoint)
    batch = tiny_batch()
    with torch.no_grad():
        assert torch.equal(best.model(**batch).logits, trainer.model.eval()(**batch).logits)


def test_an_optimizer_that_does_not_know_the_gate_is_refused(tiny_model, tmp_path):
    model = tiny_model()
    optimizer = torch.optim.AdamW(model.parameters())
    arguments = TrainingArguments(str(tmp_path), use_cpu=True, report_to="none")
    with pytest.raises(UserError, match=r"the optimizer that you give can't train what se adds"):
        attentune.Trainer(model, arguments, optimizers=(optimizer, None), method="se")
    assert model.config._attn_implementation == "sdpa"


def test_a_model_made_when_training_begins_is_changed(tiny_model, make_trainer, tmp_path):
    plain = make_trainer(tiny_model(), tmp_path, "none")
    trainer = attentune.Trainer(
        model_init=lambda: tiny_model(), args=plain.args, train_dataset=plain.train_dataset, data_collator=pad,
        method="se",
    )  # fmt: skip
    trainer.train()
    assert "attentune.se.w1" in trainer.model.state_dict()
    assert trainer.guided.layer_weights.shape[1] == 3


# Runs.


@pytest.fixture(params=CHANGES)
def run(request, tiny_recipe, tmp_path):
    """A run of each of the changes."""
    return run_recipe(tiny_recipe(method=request.param), tmp_path / "run", console=Console(quiet=True))


def test_a_runs_predictions_are_those_of_its_changed_model(run, tiny_recipe):
    told = [json.loads(line) for line in (run.path / "predictions.jsonl").read_text().splitlines()]
    split = tiny_recipe().data.load(42).splits["validation"]
    texts = [(text, None) for text in split["text"]]
    predictor = Predictor.from_run(run.path)
    again = list(predictor.stream(texts, batch_size=len(texts)))
    for row, prediction in zip(told, again, strict=True):
        assert prediction.label == row["prediction"]
        assert prediction.probabilities == pytest.approx(row["probabilities"], abs=2e-6)
    loaded = attentune.load(run.path)  # the run's folder, or its checkpoint
    assert str(loaded.method) == run.recipe().method
    plain = AutoModelForSequenceClassification.from_pretrained(run.checkpoint).eval()
    inputs = loaded.tokenizer(split["text"][:4], padding=True, return_tensors="pt")
    with torch.no_grad():
        assert not torch.equal(loaded.model(**inputs).logits, plain(**inputs).logits)


def test_a_guided_runs_checkpoint_is_a_plain_one(tiny_recipe, tmp_path):
    folder = run_recipe(tiny_recipe(method="mdg(0.1)"), tmp_path / "run", console=Console(quiet=True))
    for file in folder.checkpoint.iterdir():
        assert file.name == "README.md" or b"attentune" not in file.read_bytes()  # the model card tells of the run
    assert str(attentune.load(folder.path).method) == "none"


def test_a_folder_that_is_none_gets_a_sentence(tmp_path):
    with pytest.raises(UserError, match="there is no folder"):
        attentune.load(tmp_path / "nothing")
    with pytest.raises(UserError, match="no model is in it"):
        attentune.load(tmp_path)
