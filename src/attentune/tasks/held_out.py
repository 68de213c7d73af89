"""A task judged on a part of its training rows: to choose by, so that the evaluation split is left for the report."""

from dataclasses import replace

import datasets

from attentune.errors import UserError
from attentune.tasks.sampling import hold_out
from attentune.tasks.task import Task


def judged_on_training_rows(task: Task, share: float, seed: int = 0) -> Task:
    """The task with `share` of its training rows, in proportion to the classes, as the split that it is judged on.

    The rows are the same whatever the seed of a run. Of a ranking task whole queries are taken.
    """
    rows = task.splits["train"]
    classes = rows[task.label][:] if isinstance(rows.features[task.label], datasets.ClassLabel) else [0] * len(rows)
    groups = rows["query"][:] if "query" in rows.column_names else list(range(len(rows)))
    first_of = {group: row for row, group in reversed(list(enumerate(groups)))}
    units = sorted(first_of.values())
    by_group = "query" in rows.column_names
    size = round(share * len(units))
    if size < 1 or size >= len(units):
        raise UserError(f"data.held_out is {share}, which of {len(units):,} training rows leaves no rows on one side")
    stay, held = hold_out([0 if by_group else classes[row] for row in units], size, seed)
    chosen = {
        name: {groups[units[unit]] for unit in unit_rows} for name, unit_rows in (("train", stay), ("validation", held))
    }
    splits = {
        name: rows.select([row for row, group in enumerate(groups) if group in members])
        for name, members in chosen.items()
    }
    told = f"{len(splits['validation']):,} of {len(rows):,} train rows held out to judge by, its own evaluation split left alone"
    return replace(task, splits=splits, source=f"{task.source}; {told}")
