"""Training rows held out to choose by: of each class its share, the same whatever the seed."""

import pytest

from attentune import tasks
from attentune.errors import UserError
from attentune.tasks import judged_on_training_rows
from attentune.training import DataRecipe


def write(path, labels, start=0):
    lines = ["review,verdict"] + [f"text {start + i},{label}" for i, label in enumerate(labels)]
    path.write_text("\n".join(lines) + "\n")
    return str(path)


@pytest.fixture
def own(tmp_path):
    train = write(tmp_path / "train.csv", ["good"] * 30 + ["bad"] * 10)
    return {
        "train_file": train,
        "eval_file": write(tmp_path / "dev.csv", ["good", "bad"], start=100),
        "label": "verdict",
        "text": "review",
    }


def test_the_evaluation_split_is_left_alone(own):
    task = judged_on_training_rows(
        tasks.from_files(own["train_file"], own["eval_file"], text="review", label="verdict"), 0.2
    )
    held, left = set(task.splits["validation"][task.text]), set(task.splits["train"][task.text])
    assert held | left == {f"text {i}" for i in range(40)}
    assert not held & left
    assert set(task.splits) == {"train", "validation"}
    labels = task.splits["validation"][task.label][:]
    assert sorted(labels.count(i) for i in range(2)) == [2, 6]
    assert "8 of 40 train rows held out" in task.source


def test_the_rows_are_the_same_for_every_seed(own):
    recipe = DataRecipe(**own, held_out=0.2)
    held = [task.splits["validation"][task.text][:] for task in map(recipe.load, (1, 2))]
    assert held[0] == held[1]


def test_a_sample_is_drawn_of_what_is_left(own):
    task = DataRecipe(**own, held_out=0.2, max_train=10).load(3)
    assert len(task.splits["train"]) == 10
    assert not set(task.splits["train"][task.text]) & set(task.splits["validation"][task.text])


def test_numbers_are_held_out_too(tmp_path):
    file = write(tmp_path / "rated.csv", [i / 10 for i in range(40)])
    task = tasks.from_files(file, None, text="review", label="verdict", kind="regression")
    rows = len(task.splits["train"])
    assert len(judged_on_training_rows(task, 0.25).splits["validation"]) == round(rows / 4)


def test_whole_queries_are_held_out(shared_data):
    task = tasks.load("beir", str(shared_data / "pubmedqa-ranking"))
    held = judged_on_training_rows(task, 0.1)
    queries = {name: set(held.splits[name]["query"]) for name in ("train", "validation")}
    assert not queries["train"] & queries["validation"]
    assert len(queries["validation"]) == round(0.1 * len(set(task.splits["train"]["query"])))


def test_a_share_that_leaves_nothing_is_told(own):
    with pytest.raises(UserError, match=r"data.held_out is 0.001"):
        DataRecipe(**own, held_out=0.001).load(1)
