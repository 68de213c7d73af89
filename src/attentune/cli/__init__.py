"""The command line: each command parses, calls the library, and prints. A user's mistake is one sentence and exit code 2."""

from attentune.cli.app import main

__all__ = ["main"]
