"""Data to train and judge on: the tasks that come with the library, and the user's own files.

A task is its splits, the columns of its texts, its label space and its metrics. It holds text and labels; it knows
nothing of tokens and models.

    >>> from attentune import tasks
    >>> tasks.names()
    ['rte', 'cola', 'rotten-tomatoes']
"""

from attentune.tasks.own_files import from_files, read_texts
from attentune.tasks.registry import describe, load, names
from attentune.tasks.standard_input import read_lines
from attentune.tasks.task import Task

__all__ = ["Task", "describe", "from_files", "load", "names", "read_lines", "read_texts"]
