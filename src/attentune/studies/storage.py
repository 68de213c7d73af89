"""Where the trials of studies are kept: a SQLite file in the output folder, or any database that Optuna takes.

What stands in it is numbers, text and JSON, nothing that could run code when it is read: neither Optuna's journal nor its
CMA-ES sampler, which keep pickles, is used.
"""

from __future__ import annotations

import logging
import re
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from attentune.errors import UserError

if TYPE_CHECKING:
    import optuna
    from optuna.pruners import BasePruner
    from optuna.samplers import BaseSampler
    from optuna.storages import RDBStorage
    from sqlalchemy import Connection, Engine

FILE = "study.db"
HEARTBEAT = 20
"""Seconds between two signs of life of a worker."""
SILENT_BEATS = 3
"""A worker that was silent for so many of its heartbeats is taken for dead, and its run is given to another."""
WAIT_FOR_LOCK = 120
ATTEMPTS = 10
MADE_BY_ANOTHER = re.compile("already exists|duplicate key|UNIQUE constraint|no longer compatible", re.IGNORECASE)
"""What databases and Optuna say where another worker is making the tables at this very moment."""
POSTGRES = ("postgresql://", "postgres://")


def require_optuna() -> None:
    """Raise an error where the extra that studies need is not installed."""
    try:
        import optuna
    except ImportError:
        raise UserError(
            "studies need optuna, which is not installed; install it: pip install 'attentune[study]'"
        ) from None
    optuna.logging.set_verbosity(logging.ERROR)
    warnings.filterwarnings("ignore", category=optuna.exceptions.ExperimentalWarning)  # heartbeats are called one


def open_storage(output: Path, url: str | None = None, heartbeat: int = HEARTBEAT) -> RDBStorage:
    """The database at `url`, or else the file in the output folder; it is made where it isn't there yet."""
    require_optuna()
    from optuna.storages import RDBStorage, RetryHeartbeatStaleTrialCallback
    from sqlalchemy.exc import SQLAlchemyError

    if url is None:
        output.mkdir(parents=True, exist_ok=True)
        url = f"sqlite:///{output / FILE}"
    for prefix in POSTGRES:
        if url.startswith(prefix):  # the driver that comes with the extra
            url = "postgresql+psycopg://" + url.removeprefix(prefix)
    is_file = url.startswith("sqlite")
    for attempt in range(ATTEMPTS):
        try:
            storage = RDBStorage(
                url,
                engine_kwargs={"connect_args": {"timeout": WAIT_FOR_LOCK}} if is_file else {"pool_pre_ping": True},
                heartbeat_interval=heartbeat,
                grace_period=SILENT_BEATS * heartbeat,
                heartbeat_stale_trial_callback=RetryHeartbeatStaleTrialCallback(),
            )
            if is_file:
                _one_at_a_time(storage.engine)
            return storage
        except (SQLAlchemyError, ImportError, ValueError, RuntimeError) as error:
            told = str(getattr(error, "orig", None) or error).strip()
            if attempt + 1 < ATTEMPTS and MADE_BY_ANOTHER.search(told):
                time.sleep(0.5)
                continue
            first = next(iter(told.splitlines()), type(error).__name__)
            raise UserError(
                f"the storage {without_password(url)} can't be opened: {first}; give a database that is there, such as "
                "--storage postgresql://user@host/name, or leave it out for a file in the output folder"
            ) from None
    raise AssertionError("the last attempt returns or raises")


def _one_at_a_time(engine: Engine) -> None:
    """Every transaction takes SQLite's lock as it begins.

    Optuna hands a run to one worker alone by `SELECT … FOR UPDATE`, which SQLite doesn't know: of two workers that ask at
    the same moment both would be given it.
    """
    from sqlalchemy import event

    @event.listens_for(engine, "connect")
    def _(connection: Any, record: Any) -> None:
        connection.isolation_level = None  # or the driver would begin transactions by itself, and later

    @event.listens_for(engine, "begin")
    def _(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    engine.dispose()  # connections that were made before know nothing of it


def without_password(url: str) -> str:
    """A database's address, fit to be shown.

    >>> without_password("postgresql://ada:secret@host/studies")
    'postgresql://ada:…@host/studies'
    """
    scheme, found, rest = url.partition("://")
    account, has_account, place = rest.rpartition("@")
    user, has_password, _ = account.partition(":")
    return f"{scheme}{found}{user}{':…' if has_password else ''}{has_account}{place}"


def open_study(
    storage: RDBStorage,
    name: str,
    *,
    direction: Literal["maximize", "minimize"] = "maximize",
    sampler: BaseSampler | None = None,
    pruner: BasePruner | None = None,
) -> optuna.Study:
    """The study of that name in a storage, made where it isn't there yet."""
    import optuna

    return optuna.create_study(
        storage=storage, study_name=name, direction=direction, sampler=sampler, pruner=pruner, load_if_exists=True
    )
