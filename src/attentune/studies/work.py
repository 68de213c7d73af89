"""Runs shared by any number of workers: each is a trial of an Optuna study, in one of the study's queue.

`work` is called alike by every worker, with the same list of runs. What is missing is put into the queue, and Optuna hands
out what waits there. A worker that dies stops giving signs of life (Optuna's heartbeat), and its trial is queued again.

Two workers that begin at the same moment may both queue a run. That is allowed for rather than prevented, which no
database-independent way does: of trials of the same run the first one counts, and the others give way when they are drawn.
"""

from __future__ import annotations

import contextlib
import math
import os
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from attentune.errors import UserError
from attentune.studies.storage import SILENT_BEATS

if TYPE_CHECKING:
    import optuna
    from optuna.trial import FrozenTrial, Trial

RUN, LABEL, PROBLEM, GIVES_WAY, WORKER = "run", "label", "problem", "gives way", "worker"
"""What a trial is marked with: which run it is, its name for the user, why it failed, and who has it."""
LOOK_AGAIN = 1.0
"""Seconds between two looks at the runs of other workers, when there is nothing else to do."""


@dataclass(frozen=True)
class Cell:
    """One run of a study, whoever may do it."""

    key: str
    """Unique within the study, and the same whenever the same command is given."""
    label: str
    attributes: Mapping[str, Any] = field(default_factory=dict)
    """All that a worker needs to know to do it, as JSON."""
    params: Mapping[str, Any] = field(default_factory=dict)
    """Where a sampler shall not choose."""


class GivesWay(Exception):
    """This trial is of a run that another trial has, or of none."""


Do = Callable[["Trial"], float]
Watch = Callable[["Standing"], None]


@dataclass(frozen=True)
class Standing:
    """How far the runs are, over all workers."""

    done: Mapping[str, FrozenTrial]
    """The finished trial of each run, by its key; one that was pruned is finished."""
    failed: Mapping[str, str]
    """Why a run failed, by its key."""
    running: Mapping[str, str]
    """By which worker, by its key."""
    total: int


def work(study: optuna.Study, cells: Sequence[Cell], do: Do, watch: Watch = lambda standing: None) -> Standing:
    """Do the runs that are not done yet, until all are, by this worker or by others.

    `do` gives a trial's score; what else it finds it leaves in the trial's user attributes. A `UserError` in it makes the
    run a failed one, and the others go on; where not a single run has succeeded, it is raised.
    """
    import optuna

    before = max((trial.number for trial in _trials(study)), default=-1)
    by_key = {cell.key: cell for cell in cells}
    problems: list[UserError] = []
    unborn = _Unborn(study)

    def objective(trial: Trial) -> float:
        storage = study._storage
        if isinstance(storage, optuna.storages._heartbeat.BaseHeartbeat) and storage.get_heartbeat_interval():
            storage.record_heartbeat(
                trial._trial_id
            )  # Optuna's thread may be late, and a name stands for a sign of life
        trial.set_user_attr(WORKER, [_own_name(), trial.number])
        _give_way(study, trial)
        try:
            return do(trial)
        except UserError as error:
            trial.set_user_attr(PROBLEM, str(error))
            problems.append(error)
            raise

    while True:
        optuna.storages.fail_stale_trials(study)
        unborn.fail()
        trials = _trials(study)
        standing = _standing(trials, by_key, forgiven=before)
        watch(standing)
        if problems and not standing.done and not standing.running:
            raise problems[0]
        waiting = {trial.user_attrs.get(RUN) for trial in trials if trial.state is optuna.trial.TrialState.WAITING}
        settled = {*standing.done, *standing.failed, *standing.running, *waiting}
        for cell in cells:
            if cell.key not in settled:
                waiting.add(cell.key)
                attributes = {RUN: cell.key, LABEL: cell.label, **cell.attributes}
                study.enqueue_trial(dict(cell.params), user_attrs=attributes)
        if waiting:
            _do_one(study, objective)
        elif standing.running:
            time.sleep(LOOK_AGAIN)
        else:
            return standing


def _do_one(study: optuna.Study, objective: Do) -> None:
    import optuna

    drawn: list[int] = []
    own: list[Exception] = []

    def noted(trial: Trial) -> float:
        drawn.append(trial.number)
        try:
            return objective(trial)
        except ValueError as error:
            own.append(error)
            raise

    try:
        study.optimize(noted, n_trials=1, catch=(GivesWay, UserError))
    except (ValueError, optuna.exceptions.UpdateFinishedTrialError) as error:
        # A worker that was asleep for long, and was taken for dead, finds its trial closed: another has it now.
        if error in own or not drawn or _trials(study)[drawn[0]].state is not optuna.trial.TrialState.FAIL:
            raise


def standing_of(study: optuna.Study, cells: Sequence[Cell]) -> Standing:
    """How far the runs are, without doing any."""
    return _standing(_trials(study), {cell.key: cell for cell in cells}, forgiven=-1)


def _standing(trials: Sequence[FrozenTrial], cells: Mapping[str, Cell], forgiven: int) -> Standing:
    from optuna.trial import TrialState

    done: dict[str, FrozenTrial] = {}
    failed: dict[str, str] = {}
    running: dict[str, str] = {}
    for trial in trials:
        key: str = trial.user_attrs.get(RUN, "")
        if key not in cells:
            continue
        if trial.state in (TrialState.COMPLETE, TrialState.PRUNED):
            done.setdefault(key, trial)
        elif trial.state is TrialState.RUNNING:
            running[key] = _worker(trial) or "another worker"
        elif trial.state is TrialState.FAIL and PROBLEM in trial.user_attrs and trial.number > forgiven:
            failed[key] = trial.user_attrs[PROBLEM]
    failed = {key: problem for key, problem in failed.items() if key not in done}
    return Standing(done, failed, running, len(cells))


def _give_way(study: optuna.Study, trial: Trial) -> None:
    """Of the trials of one run, a finished one counts, and else that with the lowest number."""
    from optuna.trial import TrialState

    key = trial.user_attrs.get(RUN)
    if key is None:
        trial.set_user_attr(GIVES_WAY, True)
        raise GivesWay("drawn when the queue was empty")
    for other in _trials(study):
        if other.number == trial.number or other.user_attrs.get(RUN) != key:
            continue
        is_open = other.state in (TrialState.WAITING, TrialState.RUNNING)
        if other.state in (TrialState.COMPLETE, TrialState.PRUNED) or (is_open and other.number < trial.number):
            trial.set_user_attr(GIVES_WAY, True)
            raise GivesWay(f"trial {other.number} is of the same run")


class _Unborn:
    """Trials of workers that died between drawing one and their first sign of life, of which Optuna's own look at heartbeats
    knows nothing: they are given back when they have been seen so for long enough."""

    def __init__(self, study: optuna.Study) -> None:
        self.study = study
        self.first_seen: dict[int, float] = {}

    def fail(self) -> None:
        import optuna

        now, running = time.monotonic(), optuna.trial.TrialState.RUNNING
        storage = self.study._storage
        beat = (
            storage.get_heartbeat_interval() if isinstance(storage, optuna.storages._heartbeat.BaseHeartbeat) else None
        )
        grace = SILENT_BEATS * beat if beat else math.inf
        for trial in self.study.get_trials(deepcopy=False, states=(running,)):
            if _worker(trial) is None and now - self.first_seen.setdefault(trial.number, now) > grace:
                with contextlib.suppress(ValueError, RuntimeError):  # another worker was faster
                    self.study.tell(trial.number, state=optuna.trial.TrialState.FAIL)


def _worker(trial: FrozenTrial) -> str | None:
    """Who has a trial; one that was queued again still bears the name of the worker that died."""
    name, number = trial.user_attrs.get(WORKER, (None, None))
    return name if number == trial.number else None


def _trials(study: optuna.Study) -> list[FrozenTrial]:
    return study.get_trials(deepcopy=False)


def _own_name() -> str:
    return f"{socket.gethostname()}:{os.getpid()}"
