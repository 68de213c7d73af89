"""Runs shared by workers: each is done once, whoever dies, and whatever was begun before."""

import json
import sqlite3
from collections import Counter

import pytest
from optuna.trial import TrialState

from attentune.errors import UserError
from attentune.studies.storage import FILE, open_storage, open_study, without_password
from attentune.studies.work import GIVES_WAY, RUN, Cell, standing_of, work

ALL = {f"run-{i}": i / 10 for i in range(8)}


def cells(count):
    return [Cell(f"run-{i}", f"run {i}", {"i": i}) for i in range(count)]


def study_in(folder, heartbeat=20):
    return open_study(open_storage(folder, heartbeat=heartbeat), "study")


def test_a_dead_workers_run_is_done_by_another_and_no_finished_one_again(workers, tmp_path):
    group = workers(f"sqlite:///{tmp_path / 'study.db'}", 8, 0.3)
    first, second = group.start(), group.start()
    lost = group.kill_when_at_work(first)
    assert json.loads(second.communicate(timeout=120)[0]) == ALL
    begun = Counter(run for run, _ in group.lines("begin"))
    assert begun.pop(lost) == 2
    assert set(begun.values()) == {1}
    assert sorted(run for run, _ in group.lines("end")) == list(range(8))


def test_two_workers_share_the_runs(workers, tmp_path):
    group = workers(f"sqlite:///{tmp_path / 'study.db'}", 8, 0.5)
    both = [group.start(), group.start()]
    tables = [json.loads(worker.communicate(timeout=120)[0]) for worker in both]
    assert tables == [ALL, ALL]
    assert sorted(run for run, _ in group.lines("end")) == list(range(8))
    assert {by for _, by in group.lines("end")} == {worker.pid for worker in both}


def test_workers_that_ask_at_the_same_moment_never_get_the_same_run(workers, tmp_path):
    group = workers(f"sqlite:///{tmp_path / 'study.db'}", 30, 0.0)
    crowd = [group.start() for _ in range(4)]
    for worker in crowd:
        assert json.loads(worker.communicate(timeout=300)[0]) == {f"run-{i}": i / 10 for i in range(30)}
    assert Counter(run for run, _ in group.lines("begin")) == Counter(range(30))


def test_all_workers_killed_and_one_started_again_end_with_the_same_table(workers, tmp_path):
    group = workers(f"sqlite:///{tmp_path / 'study.db'}", 6, 0.3)
    lost = group.kill_when_at_work(group.start(), after=2)
    again = group.start()
    assert json.loads(again.communicate(timeout=120)[0]) == {f"run-{i}": i / 10 for i in range(6)}
    begun = Counter(run for run, _ in group.lines("begin"))
    assert begun[lost] == 2
    assert sum(begun.values()) == 7


def test_machines_share_a_study_through_postgresql(workers, postgres):
    group = workers(postgres, 8, 0.3)
    first, second = group.start(), group.start()
    lost = group.kill_when_at_work(first)
    assert json.loads(second.communicate(timeout=120)[0]) == ALL
    begun = Counter(run for run, _ in group.lines("begin"))
    assert begun.pop(lost) == 2
    assert set(begun.values()) == {1}


def test_what_is_done_is_not_done_again_and_what_is_new_is(tmp_path):
    seen = []

    def do(trial):
        seen.append(trial.user_attrs["i"])
        return 0.0

    work(study_in(tmp_path), cells(3), do)
    standing = work(study_in(tmp_path), cells(5), do)
    assert seen == [0, 1, 2, 3, 4]
    assert len(standing.done) == standing.total == 5


def test_of_trials_of_one_run_the_first_counts(tmp_path):
    """Two workers that begin at the same moment may both queue a run."""
    study, seen = study_in(tmp_path), []
    for _ in range(2):
        study.enqueue_trial({}, user_attrs={RUN: "run-0", "i": 0})
    work(study, cells(2), lambda trial: seen.append(trial.number) or 1.0)
    assert seen == [0, 2]
    assert [trial.number for trial in study.trials if GIVES_WAY in trial.user_attrs] == [1]


def test_a_run_that_fails_leaves_the_others_and_is_tried_again_by_the_next_command(tmp_path):
    tried = []

    def do(trial):
        tried.append(trial.user_attrs["i"])
        if trial.user_attrs["i"] == 1 and tried.count(1) == 1:
            raise UserError("the loss is nan")
        return 1.0

    standing = work(study_in(tmp_path), cells(3), do)
    assert standing.failed == {"run-1": "the loss is nan"}
    assert set(standing.done) == {"run-0", "run-2"}
    standing = work(study_in(tmp_path), cells(3), do)
    assert not standing.failed
    assert tried == [0, 1, 2, 1]


def test_where_nothing_works_the_first_reason_is_told(tmp_path):
    def do(trial):
        raise UserError("there is no task 'colla'")

    with pytest.raises(UserError, match="colla"):
        work(study_in(tmp_path), cells(30), do)
    assert len(study_in(tmp_path).trials) == 30


def test_an_interrupted_run_is_queued_again(tmp_path):
    def stop(trial):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        work(study_in(tmp_path), cells(2), stop)
    standing = work(study_in(tmp_path), cells(2), lambda trial: 1.0)
    assert set(standing.done) == {"run-0", "run-1"}


def test_a_worker_that_died_before_its_first_sign_of_life_gives_its_trial_back(tmp_path):
    study = study_in(tmp_path, heartbeat=1)
    study.enqueue_trial({}, user_attrs={RUN: "run-0", "i": 0})
    study.ask()  # and nothing more: no heartbeat, no name
    standing = work(study_in(tmp_path, heartbeat=1), cells(1), lambda trial: 1.0)
    assert standing.done["run-0"].value == 1.0


def test_a_trial_that_was_taken_away_is_not_counted_twice(tmp_path):
    """A worker that was asleep for long finds its trial closed, and goes on with the others."""
    study = study_in(tmp_path)

    def do(trial):
        if trial.number == 0:
            study.tell(0, state=TrialState.FAIL)
        trial.set_user_attr("outcome", 1)
        return 1.0

    standing = work(study, cells(2), do)
    assert {key: trial.number for key, trial in standing.done.items()} == {"run-0": 2, "run-1": 1}


def test_standing_is_told_without_doing_anything(tmp_path):
    study = study_in(tmp_path)
    work(study, cells(2), lambda trial: 1.0)
    standing = standing_of(study, cells(3))
    assert (len(standing.done), standing.total) == (2, 3)
    assert len(study.trials) == 2


def test_the_storage_holds_no_binary_data(tmp_path):
    study = study_in(tmp_path)

    def do(trial):
        trial.set_user_attr("outcome", {"scores": {"accuracy": 0.5}})
        trial.report(0.5, 0)
        return trial.suggest_float("lr", 1e-5, 1e-4, log=True)

    work(study, cells(3), do)
    database = sqlite3.connect(tmp_path / FILE)
    tables = [name for (name,) in database.execute("select name from sqlite_master where type = 'table'")]
    kinds = {type(value) for table in tables for row in database.execute(f"select * from {table}") for value in row}
    assert kinds <= {int, float, str, type(None)}


def test_a_storage_that_is_not_there_is_told_without_its_password(tmp_path):
    with pytest.raises(UserError, match=r"postgresql\+psycopg://ada:…@127\.0\.0\.1:1/studies can't be opened") as told:
        open_storage(tmp_path, "postgresql://ada:secret@127.0.0.1:1/studies")
    assert "secret" not in str(told.value)
    with pytest.raises(UserError, match="can't be opened"):
        open_storage(tmp_path, "no address")
    assert without_password("sqlite:///study.db") == "sqlite:///study.db"


def test_a_fault_of_our_own_is_not_taken_for_another_workers_doing(tmp_path):
    def do(trial):
        raise ValueError("a fault")

    with pytest.raises(ValueError, match="a fault"):
        work(study_in(tmp_path), cells(1), do)
