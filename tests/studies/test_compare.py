"""Comparisons: on equal footing, resumable, with the same search for every side, and no claim beyond the statistics."""

import csv
import io
import json
import math
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
import optuna
import pytest
from quick import quick_run

from attentune.errors import UserError
from attentune.studies import Arm, Comparison, compare, open_storage, parse_arms, read_study, tables
from attentune.studies.arms import baseline_of
from attentune.studies.plots import differences_figure, draw_differences
from attentune.studies.runs import Answers, Outcome
from attentune.studies.verdicts import compare_sides

BASE = {"data": {"task": "rotten-tomatoes"}}


def asked(methods="none; mdg(0.1); pdg(0.001)", seeds=5, **values):
    return Comparison(base=BASE, arms=parse_arms(methods), seeds=tuple(range(1, seeds + 1)), **values)


@pytest.fixture
def compared(tmp_path):
    return compare(asked(), open_storage(tmp_path), tmp_path, run=quick_run)


def test_every_side_has_the_same_seeds_and_data(compared):
    by_method = {}
    for run in compared.runs:
        recipe = run["recipe"]
        by_method.setdefault(recipe["method"], []).append((recipe["training"]["seed"], json.dumps(recipe["data"])))
    assert len(by_method) == 3
    assert len(set(map(tuple, by_method.values()))) == 1


def test_what_is_better_and_what_is_worse_is_said_so(compared):
    (group,) = compared.groups
    assert group.sentence("mdg(weight=0.1)").startswith("mdg(weight=0.1) is better than none: +")
    assert "corrected for 2 methods" in group.sentence("mdg(weight=0.1)")
    assert " is worse than none: -" in group.sentence("pdg(weight=0.001)")
    assert group.verdicts["mdg(weight=0.1)"].stars == "**"
    assert group.verdicts["mdg(weight=0.1)"].answers_p < 0.01


def test_no_difference_is_said_so_with_the_seeds_that_it_would_take(tmp_path):
    found = compare(asked("none; first(0.1)"), open_storage(tmp_path), tmp_path, run=quick_run)
    sentence = found.groups[0].sentence("first(weight=0.1)")
    assert "no evidence of a difference from none" in sentence
    assert "5 seeds show differences of" in sentence
    assert found.groups[0].verdicts["first(weight=0.1)"].stars == ""


def test_runs_that_are_equal_are_said_to_be_so():
    answers = Answers([0.0, 1.0], [0.0, 0.0], ["a", "b"], "rows")
    sides = {name: {seed: outcome(0.5, answers) for seed in (1, 2, 3)} for name in ("none", "mdg")}
    group = compare_sides("films", "minilm", "none", sides)
    assert group.sentence("mdg") == "mdg: the same accuracy as none on each of 3 seeds"


def test_one_seed_is_no_evidence(tmp_path):
    found = compare(asked(seeds=1), open_storage(tmp_path), tmp_path, run=quick_run)
    assert "with one seed, which is no evidence" in found.groups[0].sentence("mdg(weight=0.1)")


def test_started_again_nothing_is_repeated_and_the_table_is_the_same(tmp_path):
    ran = Counter()

    def run(recipe, folder, **asked):
        ran[recipe.method, recipe.training.seed] += 1
        if sum(ran.values()) == 7:
            raise KeyboardInterrupt
        return quick_run(recipe, folder)

    with pytest.raises(KeyboardInterrupt):
        compare(asked(), open_storage(tmp_path / "a"), tmp_path / "a", run=run)
    again = compare(asked(), open_storage(tmp_path / "a"), tmp_path / "a", run=run)
    whole = compare(asked(), open_storage(tmp_path / "b"), tmp_path / "b", run=quick_run)
    assert [tables.as_json(group) for group in again.groups] == [tables.as_json(group) for group in whole.groups]
    assert sorted(ran.values()) == [1] * 14 + [2]  # the one that was interrupted


def test_more_seeds_go_on_from_those_that_are_there(tmp_path):
    ran = []
    for seeds in (2, 3):
        compare(
            asked(seeds=seeds),
            open_storage(tmp_path),
            tmp_path,
            run=lambda *a, **k: ran.append(1) or quick_run(*a, **k),
        )
    assert len(ran) == 9


def test_a_budget_gives_every_side_as_many_trials_on_held_out_training_rows(tmp_path):
    ran = []

    def run(recipe, folder, **asked):
        ran.append(recipe)
        return quick_run(recipe, folder)

    found = compare(asked("none; mdg(0.1)", seeds=2, budget=4), open_storage(tmp_path), tmp_path, run=run)
    searched = [recipe for recipe in ran if recipe.data.held_out is not None]
    assert Counter(recipe.method == "none" for recipe in searched) == {True: 4, False: 4}
    rates = [sorted(r.training.lr for r in searched if (r.method == "none") is side) for side in (True, False)]
    assert rates[0] == rates[1]  # all sides try the same learning rates
    assert len(set(rates[0])) == 4
    reported = [recipe for recipe in ran if recipe.data.held_out is None]
    assert len(reported) == 4
    told = tables.choices(found.chosen)
    assert [row[0] for row in told.rows] == ["none", "mdg(weight=0.1)"]
    assert [row[-1] for row in told.rows] == [f"{100 * one['score']:.2f}" for one in found.chosen]
    assert tables.page("t", "c", [], [], told).count("what the searches chose") == 1
    for one in found.chosen:
        best = max(one["tried"], key=lambda tried: tried["score"])
        assert one["score"] == best["score"]
        own = {recipe.training.lr for recipe in reported if (recipe.method == "none") is (one["method"] == "none")}
        assert own == {one["chosen"].get("training.lr", 5e-5)}


def test_the_picture_shows_each_seed_the_mean_and_the_interval(tmp_path):
    question = asked("none; mdg(0.1); pdg(0.1)", seeds=4, tasks=("rte", "cola"))
    found = compare(question, open_storage(tmp_path), tmp_path, run=quick_run)
    figure = differences_figure(found.groups)
    assert [axis.get_title() for axis in figure.axes] == ["rte, minilm", "cola, minilm"]
    for axis, group in zip(figure.axes, found.groups, strict=True):
        plain = {side.arm: side.scores for side in group.sides}
        for row, name in enumerate(("mdg(weight=0.1)", "pdg(weight=0.1)")):
            seeds, mean = axis.collections[2 * row].get_offsets(), axis.collections[2 * row + 1].get_offsets()
            expected = [100 * (plain[name][seed] - plain["none"][seed]) for seed in range(1, 5)]
            assert seeds[:, 0].tolist() == pytest.approx(expected)
            assert mean.tolist()[0] == pytest.approx([sum(expected) / 4, row])
            interval = group.verdicts[name].tests.interval
            line = axis.lines[1 + row].get_xdata()  # the first is that of no difference
            assert list(line) == pytest.approx([100 * interval.low, 100 * interval.high])
    draw_differences(found.groups, tmp_path / "d.png")
    assert (tmp_path / "d.png").read_bytes().startswith(b"\x89PNG")


def test_what_is_done_so_far_is_compared_and_nothing_run(tmp_path):
    question = asked("none; mdg(0.1)", seeds=3, tasks=("rte", "cola"), budget=2)
    storage, ran = open_storage(tmp_path), []

    def stops(recipe, folder, **asked):
        if recipe.data.held_out is None:
            ran.append(recipe)
            if len(ran) == 6:  # of seed 2, none on rte is done
                raise KeyboardInterrupt
        return quick_run(recipe, folder)

    with pytest.raises(KeyboardInterrupt):
        compare(question, storage, tmp_path, run=stops)
    ran.clear()
    found = compare(question, storage, tmp_path, run=stops, so_far=True)
    assert not ran
    assert [(group.task, [len(side.scores) for side in group.sides]) for group in found.groups] == [
        ("rte", [2, 1]), ("cola", [1, 1]),
    ]  # fmt: skip
    assert found.missing == 12 - 5
    assert found.groups[0].verdicts["mdg(weight=0.1)"].tests.seeds == 1


def test_the_searches_of_all_sides_are_one_queue(tmp_path):
    question, storage = asked("none; mdg(0.1)", seeds=2, tasks=("rte", "cola"), budget=3), open_storage(tmp_path)
    compare(question, storage, tmp_path, run=quick_run)
    studies = {study.study_name: study.n_trials for study in optuna.get_all_study_summaries(storage)}
    assert studies == {"compare/search": 12, "compare": 8}


def test_a_side_whose_search_fails_leaves_the_others_theirs(tmp_path):
    def run(recipe, folder, **asked):
        if recipe.method.startswith("mdg"):
            raise UserError("the loss is nan")
        return quick_run(recipe, folder)

    found = compare(asked("none; mdg(0.1); pdg(0.1)", seeds=2, budget=3), open_storage(tmp_path), tmp_path, run=run)
    scores = {one["method"].split("(")[0]: one["score"] for one in found.chosen}
    assert scores["mdg"] is None
    assert scores["none"] is not None
    (group,) = found.groups
    assert group.verdicts["pdg(weight=0.1)"].tests.seeds == 2
    assert set(found.failed.values()) == {"the loss is nan"}


def test_a_space_of_ones_own_is_searched_where_it_fits(tmp_path):
    space = ("training.epochs=int(1,5)", "method.mdg.weight={0.1,0.2}")
    question = asked("none; mdg(0.1)", seeds=2, budget=3, space=space)
    assert [str(d) for d in question.space_of(question.arms[0])] == ["training.epochs=int(1,5)"]
    assert len(question.space_of(question.arms[1])) == 2
    with pytest.raises(UserError, match="no part of --space is for none"):
        compare(asked(budget=3, space=space[1:]), open_storage(tmp_path), tmp_path, run=quick_run)


def test_a_run_that_fails_is_left_out_of_the_pairs_and_told(tmp_path):
    def run(recipe, folder, **asked):
        if recipe.method.startswith("mdg") and recipe.training.seed == 2:
            raise UserError("the loss is nan")
        return quick_run(recipe, folder)

    found = compare(asked(), open_storage(tmp_path), tmp_path, run=run)
    (group,) = found.groups
    assert group.verdicts["mdg(weight=0.1)"].tests.seeds == 4
    assert group.verdicts["pdg(weight=0.001)"].tests.seeds == 5
    assert found.failed == {"mdg(weight=0.1), seed 2": "the loss is nan"}


def test_tasks_and_models_are_tables_of_their_own(tmp_path):
    question = asked("none; mdg(0.1)", seeds=2, tasks=("rte", "cola"), models=("minilm", "other"))
    found = compare(question, open_storage(tmp_path), tmp_path, run=quick_run)
    assert [(group.task, group.model) for group in found.groups] == [
        ("rte", "minilm"), ("rte", "other"), ("cola", "minilm"), ("cola", "other"),
    ]  # fmt: skip
    assert len(tables.overview(found.groups).columns) == 6


def test_the_forms_of_the_table_hold_the_same_figures(compared):
    (group,) = compared.groups
    table = tables.table_of(group)
    row = next(row for row in table.rows if row[0].startswith("mdg"))
    verdict = group.verdicts["mdg(weight=0.1)"]
    scores = [run["scores"]["accuracy"] for run in compared.runs if run["recipe"]["method"] == "mdg(weight=0.1)"]
    assert row[2] == f"{100 * np.mean(scores):.2f} ± {100 * np.std(scores, ddof=1):.2f}"
    assert row[3] == f"{100 * verdict.tests.difference:+.2f}**"
    assert all(cell in tables.markdown(table) for cell in row)
    assert row[2].replace("±", r"$\pm$") in tables.latex(table)
    flat = list(csv.DictReader(io.StringIO(tables.comma_separated(compared.groups))))
    assert float(flat[1]["mean"]) == pytest.approx(np.mean(scores))
    assert flat[0]["t_p"] == ""
    assert json.loads(json.dumps(tables.as_json(group), allow_nan=False))["sides"][1]["mean"] == pytest.approx(
        np.mean(scores)
    )
    narrow = tables.in_width(table, 70)
    assert narrow.columns[0] == "method"
    assert len(narrow.columns) < len(table.columns)


def outcome(score, answers, metric="accuracy"):
    return Outcome({metric: score}, metric, 1.0, 1.0, {}, answers)


def test_rows_that_differ_by_seed_are_pooled_as_examples_of_their_own():
    truths = [0.0, 1.0] * 20
    sides = {"none": {}, "mdg": {}}
    for seed in (1, 2):
        wrong = [1 - t if i < 12 else t for i, t in enumerate(truths)]
        sides["none"][seed] = outcome(0.7, Answers(truths, wrong, ["a", "b"], f"rows {seed}"))
        sides["mdg"][seed] = outcome(1.0, Answers(truths, truths, ["a", "b"], f"rows {seed}"))
    verdict = compare_sides("films", "minilm", "none", sides).verdicts["mdg"]
    assert verdict.answers_test == "McNemar"
    assert verdict.answers_p == pytest.approx(2 * 0.5**24)


def test_correlations_are_tested_by_drawing_rows_anew():
    generator = np.random.default_rng(0)
    truths = generator.normal(size=150)
    sides = {"none": {}, "far": {}}
    for seed in (1, 2):
        near, far = truths + generator.normal(0, 0.2, 150), truths + generator.normal(0, 2.0, 150)
        sides["none"][seed] = outcome(0.98, Answers(truths.tolist(), near.tolist(), None, "rows"), "pearson")
        sides["far"][seed] = outcome(0.4, Answers(truths.tolist(), far.tolist(), None, "rows"), "pearson")
    verdict = compare_sides("sts", "minilm", "none", sides).verdicts["far"]
    assert (verdict.answers_test, verdict.answers_p) == ("bootstrap", pytest.approx(0.001))


def test_a_metric_that_needs_more_than_answers_has_no_test_on_them():
    answers = Answers([0.0, 1.0], [0.0, 1.0], ["a", "b"], "rows")
    sides = {"none": {1: outcome(0.5, answers, "mrr")}, "mdg": {1: outcome(0.6, answers, "mrr")}}
    assert math.isnan(compare_sides("ir", "minilm", "none", sides).verdicts["mdg"].answers_p)


def test_arms_may_have_fields_of_their_own():
    arms = parse_arms("mdg(0.1); none with training.epochs=10, training.warmup=0; none")
    assert str(baseline_of(arms)) == "none"
    recipe = asked().recipe("minilm", None, arms[1], 3)
    assert (recipe.method, recipe.training.epochs, recipe.training.warmup, recipe.training.seed) == ("none", 10, 0, 3)


@pytest.mark.parametrize(
    ("methods", "told"),
    [
        ("none", "needs two methods"),
        ("none; none", "is there twice"),
        ("none; mgd(0.1)", "did you mean 'mdg'"),
        ("none; none with training.lr=1 with a=2", "more than one 'with'"),
    ],
)
def test_mistakes_in_the_methods_are_told(methods, told):
    with pytest.raises(UserError, match=told):
        parse_arms(methods)


def test_a_mistake_in_an_arms_fields_is_told_before_anything_is_run(tmp_path):
    with pytest.raises(UserError, match="epoch"):
        compare(asked("none; none with training.epoch=3"), open_storage(tmp_path), tmp_path, run=quick_run)


def test_a_study_file_has_a_small_form(tmp_path):
    file = tmp_path / "study.yaml"
    file.write_text(
        "about: Table 1\ncompare: {methods: [none, mdg(0.1)], tasks: [mnli], seeds: 5}\n"
        "recipe: {training: {lr: 1.0e-5, epochs: 5}}\n"
        "small: {compare: {tasks: [rte]}, recipe: {training: {epochs: 1}}}\n"
    )
    whole, small = (read_study(file, "compare", small=is_small) for is_small in (False, True))
    assert (whole.about, small.about) == ("Table 1", "Table 1 (in small)")
    assert (whole.compare.tasks, whole.recipe["training"]) == (["mnli"], {"lr": 1e-5, "epochs": 5})
    assert (small.compare.tasks, small.compare.seeds, small.recipe["training"]) == (
        ["rte"],
        5,
        {"lr": 1e-5, "epochs": 1},
    )
    with pytest.raises(UserError, match="is for attentune compare, not for sweep"):
        read_study(file, "sweep")


def test_a_plain_recipe_is_what_all_runs_share(tmp_path):
    file = tmp_path / "recipe.yaml"
    file.write_text("data: {task: rte}\ntraining: {epochs: 2}\n")
    assert read_study(file, "compare").recipe == {"data": {"task": "rte"}, "training": {"epochs": 2}}
    with pytest.raises(UserError, match="has no small form"):
        read_study(file, "compare", small=True)
    file.write_text("about: x\ncompair: {}\n")
    with pytest.raises(UserError, match="compair"):
        read_study(file, "compare")


def test_an_arm_reads_back():
    assert Arm.parse(str(Arm.parse("mdg(0.1) with training.lr=1e-4"))) == Arm.parse("mdg(0.1) with training.lr=1e-4")


KILLED = """
import sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from quick import quick_run
from attentune.studies import Comparison, compare, open_storage, parse_arms, tables

folder = Path(sys.argv[1])

def run(recipe, at, **asked):
    with (folder / "log").open("a") as file:
        file.write(f"begin {recipe.method} {recipe.training.seed}\\n")
    time.sleep(0.2)
    outcome = quick_run(recipe, at)
    with (folder / "log").open("a") as file:
        file.write(f"end {recipe.method} {recipe.training.seed}\\n")
    return outcome

asked = Comparison(base={"data": {"task": "rotten-tomatoes"}}, arms=parse_arms("none; mdg(0.1)"), seeds=(1, 2, 3))
found = compare(asked, open_storage(folder, heartbeat=1), folder, run=run)
print(tables.markdown(tables.table_of(found.groups[0])))
"""


def test_a_comparison_that_was_killed_ends_with_the_same_table(tmp_path):
    script = tmp_path / "compare.py"
    script.write_text(KILLED)
    folder = tmp_path / "study"
    folder.mkdir()
    command = [sys.executable, str(script), str(folder), str(Path(__file__).parent)]
    first = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    log = folder / "log"
    deadline = time.monotonic() + 90
    while not (log.exists() and log.read_text().count("begin") == 4):
        assert time.monotonic() < deadline
        assert first.poll() is None
        time.sleep(0.01)
    first.kill()
    first.wait()
    ended = [line.removeprefix("end ") for line in log.read_text().splitlines() if line.startswith("end")]
    again = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=120, check=True)
    begun = Counter(line.removeprefix("begin ") for line in log.read_text().splitlines() if line.startswith("begin"))
    assert len(ended) == 3
    assert [begun[run] for run in ended] == [1, 1, 1]
    assert sum(begun.values()) == 7  # six, and the one that was killed
    question = asked("none; mdg(0.1)", seeds=3)
    whole = compare(question, open_storage(tmp_path / "b"), tmp_path / "b", run=quick_run)
    assert again.stdout.strip() == tables.markdown(tables.table_of(whole.groups[0]))


def test_a_side_may_be_whichever_of_several_methods_the_search_finds_better(tmp_path):
    question = asked("none; pdg(0.001) or mdg(0.1)", seeds=2, budget=12)
    found = compare(question, open_storage(tmp_path), tmp_path, run=quick_run)
    (chosen,) = [one["chosen"] for one in found.chosen if one["method"] != "none"]
    assert chosen["method"].startswith("mdg")
    assert {run["recipe"]["method"] for run in found.runs} == {"none", chosen["method"]}
    with pytest.raises(UserError, match="give --budget"):
        compare(asked("none; pdg(0.001) or mdg(0.1)"), open_storage(tmp_path), tmp_path, run=quick_run)
