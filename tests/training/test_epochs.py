"""Methods that prepare the data before each epoch, in a Trainer: the labels are those of the model by then, they are kept
for who resumes, and the data's rows stay who they are."""

import gc
import os
from io import StringIO
from pathlib import Path

import pytest
import torch
import torch.multiprocessing as mp
from datasets import Dataset
from rich.console import Console
from safetensors.torch import load_file, save_file
from torch.utils.data import IterableDataset
from transformers import DataCollatorWithPadding, TrainerCallback, TrainingArguments
from transformers.utils import logging as transformers_logging

from attentune.errors import UserError
from attentune.methods import SSA, attach
from attentune.methods.epochs import ROW
from attentune.methods.token_labels import batch_labels
from attentune.training import Trainer, run_recipe
from attentune.training.epochs import FILE, NumberedRows
from attentune.training.loading import load
from attentune.training.progress import ShowProgress, tell_preparing

SSA_TEXT = "ssa(alpha=0.7, gamma=2.0)"


def make_rows(count=24):
    """Texts of two to nine words; those that hold word 9 are of class 1."""
    draw = torch.Generator().manual_seed(0)
    rows = []
    for n in range(count):
        words = torch.randint(5, 15, (2 + n % 8,), generator=draw).tolist()
        words = [9, *words] if n % 2 else [word if word != 9 else 8 for word in words]
        rows.append({"input_ids": [1, *words, 2], "labels": n % 2})
    return rows


def make_trainer(model, tokenizer, folder, method=SSA_TEXT, rows=None, callbacks=(), **settings):
    defaults = {
        "num_train_epochs": 3, "per_device_train_batch_size": 4, "logging_steps": 1, "save_strategy": "no",
        "report_to": "none", "use_cpu": True, "disable_tqdm": True, "learning_rate": 1e-2, "seed": 0,
    }  # fmt: skip
    return Trainer(
        model,
        TrainingArguments(str(folder), **{**defaults, **settings}),
        train_dataset=Dataset.from_list(make_rows()) if rows is None else rows,
        data_collator=DataCollatorWithPadding(tokenizer),
        processing_class=tokenizer,
        method=method,
        callbacks=list(callbacks),
    )


class Watch(TrainerCallback):
    """Keeps what was made for each epoch."""

    def __init__(self):
        self.made = []

    def on_step_end(self, args, state, control, **kwargs):
        made = self.trainer.guided.epochs.made
        if not self.made or self.made[-1] is not made["ssa"]:
            self.made.append(made["ssa"])


def watched(*args, **kwargs):
    watch = Watch()
    watch.trainer = make_trainer(*args, callbacks=[watch], **kwargs)
    return watch, watch.trainer


def test_each_epoch_but_the_first_has_labels_of_its_own(tiny_model, tiny_tokenizer, tmp_path):
    watch, trainer = watched(tiny_model(), tiny_tokenizer, tmp_path)
    trainer.train()
    first, second, third = watch.made
    assert len(first["row"]) == 0 < len(second["row"])
    assert second["position"].tolist() != third["position"].tolist()
    log = trainer.state.log_history
    figures = [entry for entry in log if "ssa/right" in entry]
    assert [entry["step"] for entry in figures] == [6, 12]
    assert all(0 < entry["ssa/right"] <= 1 and 0 <= entry["ssa/flipped"] <= 1 for entry in figures)
    steps = [entry for entry in log if "guide/ssa" in entry]
    assert [entry["guide/ssa"] for entry in steps[:6]] == [0.0] * 6
    assert min(entry["guide/ssa"] for entry in steps[6:]) > 0
    for entry in steps:
        assert entry["loss"] == pytest.approx(0.7 * entry["task_loss"] + 0.3 * entry["guide/ssa"], rel=1e-4)


def test_a_batch_gets_the_labels_of_its_own_rows(tiny_model, tiny_tokenizer, tmp_path):
    """In whatever order rows come, and wherever padding stands."""
    seen = []

    class Spy(Trainer):
        def compute_loss(self, model, inputs, *args, **kwargs):
            numbers = inputs["attentune_given"][ROW].clone()
            result = super().compute_loss(model, inputs, *args, **kwargs)
            seen.append((numbers, inputs["input_ids"], self.guided.epochs.made["ssa"], self.labels))
            return result

    rows = make_rows()
    tiny_tokenizer.padding_side = "left"
    arguments = {"num_train_epochs": 2, "train_sampling_strategy": "group_by_length", "use_cpu": True}
    trainer = Spy(
        tiny_model(),
        TrainingArguments(
            str(tmp_path), **arguments, per_device_train_batch_size=4, report_to="none", disable_tqdm=True
        ),
        train_dataset=Dataset.from_list([{**row, "length": len(row["input_ids"])} for row in rows]),
        data_collator=DataCollatorWithPadding(tiny_tokenizer),
        processing_class=tiny_tokenizer,
        method=SSA_TEXT,
    )
    bring = SSA.bring

    def spied(self, made, numbers, inputs):
        trainer.labels, inputs = bring(self, made, numbers, inputs)
        return trainer.labels, inputs

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SSA, "bring", spied)
        trainer.train()
    assert sorted(number for numbers, *_ in seen[:6] for number in numbers.tolist()) == list(range(24))
    assert [n for numbers, *_ in seen[:6] for n in numbers.tolist()] != list(range(24))
    labelled = 0
    for numbers, ids, made, labels in seen:
        for b, number in enumerate(numbers.tolist()):
            words = rows[number]["input_ids"]
            start = ids.shape[1] - len(words)
            assert ids[b, start:].tolist() == words
            expected = batch_labels(made, torch.tensor([number]), torch.ones(1, len(words), dtype=torch.bool))[0]
            if (expected >= 0).any():
                assert torch.equal(labels[b, : len(expected), start:], expected)
                labelled += 1
            assert (labels[b, :, :start] == -1).all()
    assert labelled > 5


def weights(model):
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


@pytest.mark.parametrize("method", ["ssa(gamma=2.0)", "ssa(mode=hybrid) + mdg(auto(0.05))", "maskaug(1.5)"])
@pytest.mark.parametrize("stop", [9, 12])
def test_resumed_training_ends_with_the_same_weights_to_the_bit(method, stop, tiny_model, tiny_tokenizer, tmp_path):
    """Resumed in the middle of an epoch, or at its end. The learning rate changes the model from step to step, so that
    labels made anew would be others."""
    make = {"hidden_dropout_prob": 0.3}
    settings = {"save_strategy": "steps", "save_steps": stop, "logging_steps": 5}
    if method.startswith("maskaug"):
        settings["per_device_train_batch_size"] = 10
    model = tiny_model(**make)
    make_trainer(model, tiny_tokenizer, tmp_path / "whole", method, **settings).train()
    whole = weights(model)
    checkpoint = tmp_path / "whole" / f"checkpoint-{stop}"
    assert (checkpoint / FILE).is_file()
    model = tiny_model(**make)
    trainer = make_trainer(model, tiny_tokenizer, tmp_path / "resumed", method, **settings)
    trainer.train(resume_from_checkpoint=str(checkpoint))
    resumed = weights(model)
    assert resumed.keys() == whole.keys()
    for name, expected in whole.items():
        assert torch.equal(resumed[name], expected), name


def test_the_labels_of_a_checkpoint_are_those_that_are_used(tiny_model, tiny_tokenizer, tmp_path, caplog):
    """Changed in the checkpoint, they change what comes of it; so they weren't made anew."""
    settings = {"save_strategy": "steps", "save_steps": 9}
    make_trainer(tiny_model(), tiny_tokenizer, tmp_path, **settings).train()
    checkpoint = tmp_path / "checkpoint-9"
    found = []
    for change in ("none", "flipped", "absent"):
        state = load_file(checkpoint / FILE)
        if change == "flipped":
            state["ssa.flipped"] = 1 - state["ssa.flipped"]
            notes = {"format": "1", "method": SSA_TEXT, "epoch": "1"}
            save_file(state, checkpoint / FILE, notes)
        elif change == "absent":
            (checkpoint / FILE).unlink()
        model = tiny_model()
        trainer = make_trainer(model, tiny_tokenizer, tmp_path / "resumed", **settings)
        trainer.train(resume_from_checkpoint=str(checkpoint))
        found.append(weights(model)["classifier.weight"])
        assert ("is made anew" in caplog.text) is (change == "absent")
    assert not torch.equal(found[0], found[1])


def test_labels_that_are_damaged_are_told(tiny_model, tiny_tokenizer, tmp_path):
    make_trainer(tiny_model(), tiny_tokenizer, tmp_path, save_strategy="steps", save_steps=9).train()
    file = tmp_path / "checkpoint-9" / FILE
    file.write_bytes(b"nonsense")
    trainer = make_trainer(tiny_model(), tiny_tokenizer, tmp_path / "resumed")
    with pytest.raises(UserError, match=r"can't be read: .*resume from an earlier checkpoint"):
        trainer.train(resume_from_checkpoint=str(file.parent))


def test_a_saved_model_has_no_labels_beside_it(tiny_model, tiny_tokenizer, tmp_path):
    trainer = make_trainer(tiny_model(), tiny_tokenizer, tmp_path)
    trainer.train()
    trainer.save_model(tmp_path / "saved")
    assert not (tmp_path / "saved" / FILE).exists()
    assert (tmp_path / "saved" / "attentune.json").is_file()


def test_ssa_changes_neither_the_order_of_the_data_nor_dropout(tiny_model, tiny_tokenizer, tmp_path):
    """With a token loss that counts for nothing, training is that of the task."""
    ends = []
    for method in ("none", "ssa(alpha=1)"):
        model = tiny_model(hidden_dropout_prob=0.3)
        make_trainer(model, tiny_tokenizer, tmp_path, method).train()
        ends.append(weights(model))
    for name, expected in ends[0].items():
        assert torch.equal(ends[1][name], expected), name


@pytest.mark.parametrize("mode", ["co", "hybrid"])
def test_accumulated_steps_equal_whole_ones(mode, tiny_model, tiny_tokenizer, tmp_path):
    """Batches alike in the number of labelled tokens, so that a mean of means is the mean."""
    row = {"input_ids": [1, 5, 6, 7, 8, 2]}
    rows = Dataset.from_list([{**row, "labels": 1}] * 8)
    ends = []
    for size, steps in ((8, 1), (2, 4)):
        model = tiny_model()
        settings = {"per_device_train_batch_size": size, "gradient_accumulation_steps": steps, "optim": "sgd"}
        trainer = make_trainer(
            model,
            tiny_tokenizer,
            tmp_path,
            SSA(mode=mode, alpha=0.6),
            rows,
            max_grad_norm=0.0,
            learning_rate=0.1,
            **settings,
        )
        trainer.train()
        assert trainer.state.log_history[-2]["guide/ssa"] > 0
        ends.append(weights(model))
    for name, expected in ends[0].items():
        torch.testing.assert_close(ends[1][name], expected, atol=1e-6, rtol=1e-4)


def test_maskaug_trains_on_the_copies_too(tiny_model, tiny_tokenizer, tmp_path):
    seen = []

    class Spy(Trainer):
        def training_step(self, model, inputs, *args, **kwargs):
            return super().training_step(model, inputs, *args, **kwargs)

        def create_optimizer(self, *args, **kwargs):
            self.model.register_forward_pre_hook(
                lambda module, args, kwargs: seen.append((kwargs["input_ids"], kwargs["labels"])), with_kwargs=True
            )
            return super().create_optimizer(*args, **kwargs)

    rows = make_rows()
    arguments = TrainingArguments(
        str(tmp_path),
        num_train_epochs=2,
        per_device_train_batch_size=4,
        report_to="none",
        use_cpu=True,
        disable_tqdm=True,
    )
    trainer = Spy(
        tiny_model(), arguments, train_dataset=rows, data_collator=DataCollatorWithPadding(tiny_tokenizer),
        processing_class=tiny_tokenizer, method="maskaug(1.5)",
    )  # fmt: skip
    trainer.train()
    assert trainer.state.global_step == 2 * 15  # 24 texts and 36 copies
    epochs = []
    for batches in (seen[:15], seen[15:]):
        texts = [(row[row != 0], label) for ids, labels in batches for row, label in zip(ids, labels, strict=True)]
        masked = [(text, label) for text, label in texts if (text == 4).any()]
        assert len(texts) - len(masked) == 24
        assert len(masked) == 36
        for text, label in masked:
            fitting = [
                row
                for row in rows
                if len(row["input_ids"]) == len(text)
                and all(a in (4, b) for a, b in zip(text.tolist(), row["input_ids"], strict=True))
            ]
            assert label.item() in {row["labels"] for row in fitting}
        epochs.append({tuple(text.tolist()) for text, _ in masked})
    assert epochs[0] != epochs[1]


def test_rows_that_workers_bring_have_the_labels_of_this_epoch(tiny_model, tiny_tokenizer, tmp_path):
    logs = []
    for workers in (0, 1):
        trainer = make_trainer(
            tiny_model(), tiny_tokenizer, tmp_path, num_train_epochs=2, dataloader_num_workers=workers,
            dataloader_persistent_workers=workers > 0, train_sampling_strategy="sequential",
        )  # fmt: skip
        trainer.train()
        logs.append([entry["guide/ssa"] for entry in trainer.state.log_history if "guide/ssa" in entry])
    assert logs[0] == logs[1]
    assert logs[0][-1] > 0


def test_how_far_it_is_shows_in_the_bar_or_in_transformers_own(
    tiny_model, tiny_tokenizer, tmp_path, capsys, monkeypatch
):
    console = Console(file=StringIO(), force_terminal=True, width=100)
    progress = ShowProgress(console)
    shown = []
    own = progress.bar.update
    progress.bar.update = lambda task, **values: (shown.append(progress.bar.tasks[-1].description), own(task, **values))
    trainer = make_trainer(tiny_model(), tiny_tokenizer, tmp_path, callbacks=[progress], num_train_epochs=2)
    trainer.train()
    assert shown.count("preparing epoch 2") >= 4  # the copies are drawn, and texts and copies asked about in batches
    assert "preparing epoch 2" not in {task.description for task in progress.bar.tasks}
    assert "ssa/right" in console.file.getvalue()
    monkeypatch.setattr(transformers_logging, "_tqdm_active", True)  # commands switch it off for good
    trainer.args.disable_tqdm = False
    tell = tell_preparing([], trainer.args, "preparing epoch 3")
    tell(1, 2)
    tell(2, 2)
    assert "preparing epoch 3" in capsys.readouterr().err


def test_numbered_rows_are_the_rows():
    own = Dataset.from_list(make_rows(3))
    rows = NumberedRows(own, again=[2, 0])
    assert len(rows) == 5
    assert [row[ROW] for row in rows] == list(range(5))
    assert [row["labels"] for row in rows] == [0, 1, 0, 0, 0]
    assert rows.__getitems__([4, 1]) == [rows[4], rows[1]]
    assert rows[4]["input_ids"] == own[0]["input_ids"]
    with pytest.raises(IndexError):
        rows[5]


def test_a_regression_is_trained_too(tiny_model, tiny_tokenizer, tmp_path):
    rows = Dataset.from_list([{**row, "labels": 1.0 + 0.05 * row["labels"]} for row in make_rows()])
    model = tiny_model(num_labels=1, problem_type="regression")
    trainer = make_trainer(model, tiny_tokenizer, tmp_path, "ssa(mode=hybrid, flip=0.5)", rows, num_train_epochs=4)
    trainer.train()
    log = trainer.state.log_history
    assert max(entry["ssa/right"] for entry in log if "ssa/right" in entry) > 0.5
    assert max(entry["guide/ssa"] for entry in log if "guide/ssa" in entry) > 0


def test_texts_with_several_labels_are_refused(tiny_model, tiny_tokenizer, tmp_path):
    rows = Dataset.from_list([{**row, "labels": [1.0, 0.0]} for row in make_rows()])
    model = tiny_model(problem_type="multi_label_classification")
    with pytest.raises(UserError, match="texts that have one class or one number each"):
        make_trainer(model, tiny_tokenizer, tmp_path, rows=rows).train()


def test_labels_are_made_in_the_precision_of_training(tiny_model, tiny_tokenizer, tmp_path):
    for bf16 in (False, True):
        model, seen = tiny_model(), []
        model.bert.register_forward_pre_hook(
            lambda *_, model=model, seen=seen: seen.append((model.training, torch.is_autocast_enabled("cpu")))
        )
        make_trainer(model, tiny_tokenizer, tmp_path, num_train_epochs=2, bf16=bf16).train()
        assert set(seen) == {(True, bf16), (False, bf16)}


def test_a_training_of_one_epoch_is_warned_of(tiny_model, tiny_tokenizer, tmp_path, caplog):
    for method, is_told in (("ssa", True), ("maskaug", False)):
        caplog.clear()
        make_trainer(tiny_model(), tiny_tokenizer, tmp_path, method, num_train_epochs=1).train()
        assert ("has no labels in the first epoch" in caplog.text) is is_told


def test_a_stream_of_texts_is_refused(tiny_model, tiny_tokenizer, tmp_path):
    class Stream(IterableDataset):
        def __iter__(self):
            yield from make_rows()

    trainer = make_trainer(tiny_model(), tiny_tokenizer, tmp_path, rows=Stream(), max_steps=2)
    with pytest.raises(UserError, match=r"goes over all training texts before each epoch, .* not a Stream"):
        trainer.train()


@pytest.mark.parametrize("method", ["ssa(mode=hybrid)", "maskaug(0.5)", "ssa + maskaug(0.5) + mdg(0.1)"])
def test_a_run_leaves_a_model_that_comes_back(method, tiny_recipe, tmp_path):
    run = run_recipe(
        tiny_recipe(method=method, training={"epochs": 2, "batch_size": 16, "precision": "fp32"}), tmp_path / "run"
    )
    loaded = load(run.path)
    assert ("ssa" in loaded.added) is ("ssa" in method)
    inputs = loaded.tokenizer(["a fine film", "the dull bore was bad"], padding=True, return_tensors="pt")
    with torch.no_grad():
        logits = loaded.model(**inputs).logits
    assert logits.isfinite().all()
    if "ssa" in method:
        assert (loaded.token_scores > 0).equal((inputs["attention_mask"] == 1) & (inputs["input_ids"] > 2))
    log = (run.path / "log.jsonl").read_text()
    assert ('"ssa/right"' in log) is ("ssa" in method)


def _label_in_parallel(rank, folder):
    """One of two processes: labels by a model, and the gradients of a step under DistributedDataParallel."""
    from tests.conftest import make_tiny_model, make_tiny_tokenizer

    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2)
    model, tokenizer = make_tiny_model(), make_tiny_tokenizer()
    rows = make_rows()
    asked = []
    for mode in ("co", "hybrid"):
        with attach(model, SSA(mode=mode, gamma=2.0), tokenizer) as guided:
            hook = model.register_forward_pre_hook(
                lambda m, a, kw: asked.append(len(kw["input_ids"])), with_kwargs=True
            )
            guided.begin_epoch(1, rows, batch_size=4)
            hook.remove()
            save_file(guided.epochs.state_dict(), f"{folder}/{mode}-{rank}.safetensors")
            parallel = torch.nn.parallel.DistributedDataParallel(model, find_unused_parameters=True)
            mine = rows[rank * 4 : rank * 4 + 4]
            batch = guided.bring(range(rank * 4, rank * 4 + 4), tokenizer.pad(mine, return_tensors="pt"))
            guided.loss(parallel(**batch).loss).backward()
            gradients = {n: p.grad for n, p in model.named_parameters()}
            save_file(gradients, f"{folder}/{mode}-gradients-{rank}.safetensors")
            model.zero_grad()
    Path(f"{folder}/asked-{rank}").write_text(str(sum(asked)))
    del parallel  # before its group, or either may wait for the other
    gc.collect()
    torch.distributed.destroy_process_group()


@pytest.mark.slow
def test_two_processes_label_a_share_each_and_all_know_all(tiny_model, tiny_tokenizer, tmp_path):
    mp.spawn(_label_in_parallel, (str(tmp_path),), nprocs=2)
    rows = make_rows()
    asked = []
    for mode in ("co", "hybrid"):
        model = tiny_model()
        with attach(model, SSA(mode=mode, gamma=2.0), tiny_tokenizer) as guided:
            hook = model.register_forward_pre_hook(
                lambda m, a, kw: asked.append(len(kw["input_ids"])), with_kwargs=True
            )
            guided.begin_epoch(1, rows, batch_size=4)
            hook.remove()
            expected = guided.epochs.state_dict()
            assert len(expected["ssa.row"]) > 4
            batches = []
            for first in (0, 4):
                model.zero_grad()
                batch = guided.bring(
                    range(first, first + 4), tiny_tokenizer.pad(rows[first : first + 4], return_tensors="pt")
                )
                guided.loss(model(**batch).loss).backward()
                batches.append({n: p.grad.clone() for n, p in model.named_parameters()})
        for rank in range(2):
            found = load_file(tmp_path / f"{mode}-{rank}.safetensors")
            assert found.keys() == expected.keys()
            for name in expected:
                assert torch.equal(found[name], expected[name])
            for name, gradient in load_file(tmp_path / f"{mode}-gradients-{rank}.safetensors").items():
                mean = (batches[0][name] + batches[1][name]) / 2
                torch.testing.assert_close(gradient, mean, atol=1e-6, rtol=1e-4)
    shares = [int((tmp_path / f"asked-{rank}").read_text()) for rank in range(2)]
    assert sum(shares) == sum(asked)
    assert min(shares) > 0.3 * sum(shares)
