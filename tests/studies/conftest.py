"""What the tests of studies share: workers as processes of their own, and a PostgreSQL server where there is one."""

import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # for `quick`, which workers in other processes import as well

WORKER = """
import json, os, sys, time
from pathlib import Path
from attentune.studies.storage import open_storage, open_study
from attentune.studies.work import Cell, work

url, log, count, seconds = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
study = open_study(open_storage(log.parent, url, heartbeat=1), "shared")
cells = [Cell(f"run-{i}", f"run {i}", {"i": i}) for i in range(count)]

def do(trial):
    i = trial.user_attrs["i"]
    with log.open("a") as file:
        file.write(f"begin {i} {os.getpid()}\\n")
    time.sleep(seconds)
    with log.open("a") as file:
        file.write(f"end {i} {os.getpid()}\\n")
    return i / 10

standing = work(study, cells, do)
print(json.dumps({key: trial.value for key, trial in standing.done.items()}))
"""


class Workers:
    """Workers of one study, each a process; `log` is what they did."""

    def __init__(self, folder: Path, url: str, count: int, seconds: float) -> None:
        self.script, self.log = folder / "worker.py", folder / "log"
        self.script.write_text(WORKER)
        self.log.touch()
        self.words = [url, str(self.log), str(count), str(seconds)]
        self.started: list[subprocess.Popen] = []

    def start(self) -> subprocess.Popen:
        command = [sys.executable, str(self.script), *self.words]
        self.started.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        return self.started[-1]

    def lines(self, what: str) -> list[tuple[int, int]]:
        """The runs that were begun, or ended, each with the worker that did."""
        lines = [line.split() for line in self.log.read_text().splitlines()]
        return [(int(run), int(worker)) for word, run, worker in lines if word == what]

    def kill_when_at_work(self, worker: subprocess.Popen, after: int = 1) -> int:
        """End a worker by SIGKILL in the middle of a run, when so many others have ended; the run that it had."""
        deadline = time.monotonic() + 90
        while time.monotonic() < deadline:
            begun = [run for run, by in self.lines("begin") if by == worker.pid]
            ended = [run for run, by in self.lines("end") if by == worker.pid]
            if len(begun) > len(ended) >= after:
                worker.send_signal(signal.SIGKILL)
                worker.wait()
                ended = [run for run, by in self.lines("end") if by == worker.pid]
                last = [run for run, by in self.lines("begin") if by == worker.pid][-1]
                assert last not in ended
                return last
            time.sleep(0.01)
        raise AssertionError("the worker had nothing to do")


@pytest.fixture
def workers(tmp_path):
    made = []

    def make(url, count, seconds):
        made.append(Workers(tmp_path, url, count, seconds))
        return made[-1]

    yield make
    for group in made:
        for worker in group.started:
            if worker.poll() is None:
                worker.kill()
                worker.wait()


@pytest.fixture(scope="session")
def postgres(tmp_path_factory):
    """The address of a real PostgreSQL server, made for the tests by the programs of Debian's package."""
    pytest.importorskip("psycopg", reason="the driver of PostgreSQL (extra `study`) is not installed")
    homes = [*sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)]
    found = [str(home / "initdb") for home in homes if (home / "initdb").exists()] or [shutil.which("initdb")]
    if found[0] is None:
        pytest.skip("PostgreSQL's server is not on this machine (apt-get install postgresql)")
    programs = Path(found[0]).resolve().parent
    as_user = {}
    folder = tmp_path_factory.mktemp("postgres")
    if os.geteuid() == 0:  # the server refuses to be run by root
        try:
            user = pwd.getpwnam("postgres")
        except KeyError:
            pytest.skip("PostgreSQL's server can't be run by root, and there is no user `postgres` here")
        as_user = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
        os.chown(folder, user.pw_uid, user.pw_gid)
        for parent in folder.parents:  # pytest's folders are for their owner alone
            if parent.name.startswith("pytest"):
                parent.chmod(parent.stat().st_mode | 0o011)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    data = folder / "data"
    quiet = {"cwd": folder, "stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, **as_user}
    subprocess.run([programs / "initdb", "-D", data, "-U", "studies", "-A", "trust", "--no-sync"], check=True, **quiet)
    options = ["-p", str(port), "-k", str(folder), "-c", "listen_addresses=127.0.0.1", "-c", "fsync=off"]
    server = subprocess.Popen([programs / "postgres", "-D", data, *options], **{**quiet, "stderr": subprocess.DEVNULL})
    try:
        for _ in range(200):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.1)
        yield f"postgresql://studies@127.0.0.1:{port}/postgres"
    finally:
        server.send_signal(signal.SIGINT)  # PostgreSQL's fast shutdown
        server.wait(timeout=60)
