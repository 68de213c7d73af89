"""Samples and hold-outs: seeded, and in proportion to the labels."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attentune.errors import UserError
from attentune.tasks import Task
from attentune.tasks.sampling import draw, hold_out
from attentune.tasks.task import split

LABELS = [0] * 60 + [1] * 30 + [2] * 10


def hundred() -> Task:
    """A task with a hundred rows for training and as many for validation."""
    rows = split([str(row) for row in range(100)], {"text": [f"text {row}" for row in range(100)]}, LABELS, "abc")
    return Task("hundred", {"train": rows, "validation": rows}, "text", None, "label", ("a", "b", "c"), (), "", "here")


def test_a_sample_keeps_the_proportions() -> None:
    sample = hundred().sample(max_train=50, max_eval=10)
    assert Counter(sample.splits["train"]["label"]) == {0: 30, 1: 15, 2: 5}
    assert Counter(sample.splits["validation"]["label"]) == {0: 6, 1: 3, 2: 1}


def test_the_same_seed_draws_the_same_rows_and_another_draws_others() -> None:
    ids = [hundred().sample(max_train=20, seed=seed).splits["train"]["id"][:] for seed in (7, 7, 8)]
    assert ids[0] == ids[1] != ids[2]


def test_the_rows_of_a_seed_stay_the_same_in_every_version() -> None:
    assert draw(LABELS, 6, seed=0) == [35, 40, 52, 71, 75, 97]


def test_a_sample_keeps_rows_whole_and_in_order() -> None:
    rows = hundred().sample(max_train=30).splits["train"]
    assert all(row["text"] == f"text {row['id']}" and row["label"] == LABELS[int(row["id"])] for row in rows)
    assert [int(number) for number in rows["id"]] == sorted(int(number) for number in rows["id"])


def test_asking_for_more_than_there_is_gives_all() -> None:
    task = hundred()
    assert task.sample(max_train=100, max_eval=1000) is task
    assert task.sample() is task


def test_only_the_splits_asked_for_are_sampled_and_the_source_says_so() -> None:
    sample = hundred().sample(max_train=10, seed=3)
    assert {name: len(rows) for name, rows in sample.splits.items()} == {"train": 10, "validation": 100}
    assert sample.source == "here; a sample of 10 of 100 train rows, drawn with seed 3"


@pytest.mark.parametrize("flag", ["max-train", "max-eval"])
def test_no_rows_at_all_is_an_error(flag: str) -> None:
    with pytest.raises(UserError, match=f"^--{flag} is 0; give 1 or more rows$"):
        hundred().sample(**{flag.replace("-", "_"): 0})


@given(labels=st.lists(st.integers(0, 4), min_size=1, max_size=60), size=st.integers(1, 60), seed=st.integers(0, 9))
def test_a_draw_is_proportional_nested_and_has_every_class_it_can(labels: list[int], size: int, seed: int) -> None:
    drawn = draw(labels, size, seed)
    assert len(drawn) == len(set(drawn)) == min(size, len(labels))
    assert set(draw(labels, size - 1, seed)) < set(drawn) or size > len(labels)
    there, taken = Counter(labels), Counter(labels[row] for row in drawn)
    if size >= len(there):
        assert set(taken) == set(there)
    shares = [taken[label] / there[label] for label in there]
    assert max(shares) - min(shares) <= 1 / min(there.values())


@given(labels=st.lists(st.integers(0, 4), min_size=1, max_size=60), size=st.integers(0, 60), seed=st.integers(0, 9))
def test_a_hold_out_leaves_a_row_of_each_class_behind(labels: list[int], size: int, seed: int) -> None:
    kept, held = hold_out(labels, size, seed)
    assert sorted(kept + held) == list(range(len(labels)))
    assert {labels[row] for row in kept} == set(labels)
    assert len(held) == min(size, len(labels) - len(set(labels)))
