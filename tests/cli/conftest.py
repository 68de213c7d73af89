"""What the tests of the command line share: a command, run as a user types it."""

import sys

import pytest

from attentune.cli import main


@pytest.fixture
def attentune(monkeypatch, capsys, tmp_path):
    """Run a command in an empty folder; what it printed, and its exit code."""
    monkeypatch.chdir(tmp_path)

    def run(*words):
        capsys.readouterr()  # what fixtures have printed
        monkeypatch.setattr(sys, "argv", ["attentune", *map(str, words)])
        code = 0
        try:
            main()
        except SystemExit as stopped:
            code = stopped.code or 0
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run
