"""Data to train and judge on: the tasks that come with the library, and the user's own files.

A task is its splits, the columns of its texts, its label space and its metrics. It holds text and labels; it knows
nothing of tokens and models.

    >>> from attentune import tasks
    >>> tasks.names()[:3]
    ['cola', 'sst2', 'mrpc']
"""

from attentune.tasks.held_out import judged_on_training_rows
from attentune.tasks.judging import Judged, judge
from attentune.tasks.label_match import match
from attentune.tasks.own_files import from_files, to_judge
from attentune.tasks.ranked import trec_lines
from attentune.tasks.registry import TASKS, describe, load, names
from attentune.tasks.standard_input import read_lines
from attentune.tasks.task import Kind, Task
from attentune.tasks.texts import read_texts

__all__ = [
    "TASKS",
    "Judged",
    "Kind",
    "Task",
    "describe",
    "from_files",
    "judge",
    "judged_on_training_rows",
    "load",
    "match",
    "names",
    "read_lines",
    "read_texts",
    "to_judge",
    "trec_lines",
]
