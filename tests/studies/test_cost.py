"""What methods cost: the ratios from first principles, and what ends a measurement."""

import pytest
from transformers import TrainerControl, TrainerState, TrainingArguments

from attentune.errors import UserError
from attentune.studies import cost
from attentune.studies.cost import Meter, Spent, costs, measure, with_unguided
from attentune.training import Recipe


def spent(method, seed, seconds, megabytes=100.0, task="rte"):
    return Spent(task, method, seed, 0.5 + seed / 10, "accuracy", seconds, megabytes)


def test_a_method_is_set_beside_the_unguided_training_of_its_seed():
    runs = [
        spent("none", 1, 2.0), spent("mdg", 1, 3.0, 110.0), spent("none", 2, 4.0), spent("mdg", 2, 4.0, 90.0),
        spent("none", 3, 1.0), spent("mdg", 3, 1.1, 120.0),
    ]  # fmt: skip
    plain, guided = costs(runs)
    assert (plain.method, plain.time, plain.memory, plain.seconds) == ("none", None, None, 2.0)
    assert plain.score == pytest.approx((0.6 + 0.7 + 0.8) / 3)
    assert guided.time.median == pytest.approx(1.1)  # of 1.5, 1.0 and 1.1
    assert (guided.time.low, guided.time.high) == (1.0, 1.5)
    assert guided.memory.median == pytest.approx(1.1)
    assert str(guided.memory) == "1.10 × (0.90–1.20)"


def test_each_task_has_its_own_baseline():
    runs = [spent(m, 1, s, task=t) for t, m, s in (("a", "none", 1), ("a", "x", 2), ("b", "none", 4), ("b", "x", 2))]
    assert [one.time and one.time.median for one in costs(runs)] == [None, 2.0, None, 0.5]
    assert str(costs(runs)[1].time) == "2.00 ×"  # one seed has no range


def test_the_unguided_one_is_first_and_there_once():
    assert with_unguided(["pdg(0.1)", "none"]) == ["none", "pdg(weight=0.1)"]


def test_a_training_that_fails_ends_it_with_its_name(monkeypatch):
    def fails(recipe, folder, **asked):
        raise UserError("the loss is nan")

    monkeypatch.setattr(cost, "run_alone", fails)
    with pytest.raises(UserError, match=r"mdg\(weight=1.0\) on rte can't be measured: the loss is nan"):
        measure([Recipe.build({"model": "minilm", "method": "mdg", "data": {"task": "rte"}})])


def test_the_meter_counts_the_training_alone(tmp_path):
    told = []
    meter = Meter(lambda **line: told.append(line["cost"]))
    now = iter([5.0, 12.0])
    meter.clock = lambda: next(now)
    args = (TrainingArguments(output_dir=str(tmp_path)), TrainerState(), TrainerControl())
    meter.on_train_begin(*args)
    held = bytearray(64 << 20)
    meter.on_train_end(*args)
    assert told[0]["seconds"] == 7.0
    assert told[0]["megabytes"] >= 0
    assert len(held)
