"""Batches of rows that hold, beside what the model takes, columns of the methods, such as the priors of a text's words, and
the name of each row, by which an error can tell of it."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from attentune.methods import Method, Sum, parse

GIVEN = "attentune_given"
"""Where a batch keeps what is for the methods, until the model is called."""
ROW_ID = "row_id"
"""The column with the name that a row has in the user's data."""
ROW_IDS = "attentune_rows"
"""Where a batch keeps the names of its rows."""


class BringColumns:
    """A data collator around another: the methods' columns go to the methods, rows' names stay with the batch, everything
    else goes to the other.

    `attentune.Trainer` does it by itself. In a loop of your own, give the guide what a batch has for it:

        collate = BringColumns(method, DataCollatorWithPadding(tokenizer))
        for batch in DataLoader(dataset, batch_size=32, collate_fn=collate):
            guided.give(batch.pop(GIVEN))
            loss = model(**batch).loss + guided.loss()
    """

    def __init__(self, method: Method | Sum | str, own: Callable[[list[dict[str, Any]]], dict[str, Any]]) -> None:
        self.method, self.own = parse(method) if isinstance(method, str) else Sum(method.parts), own

    def __call__(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """One batch."""
        columns = set(self.method.columns)
        ours = columns | {ROW_ID}
        batch = dict(self.own([{name: value for name, value in row.items() if name not in ours} for row in rows]))
        if all(ROW_ID in row for row in rows):
            batch[ROW_IDS] = [str(row[ROW_ID]) for row in rows]
        if not any(name in row for row in rows for name in columns):
            return batch  # an evaluation split has none
        ids = batch["input_ids"]
        lengths = [len(row["input_ids"]) for row in rows]
        pad_left = bool(min(lengths) < ids.shape[1] and batch["attention_mask"][lengths.index(min(lengths)), 0] == 0)
        given: dict[str, Any] = {}
        for part in self.method.parts:
            if part.columns and given.keys() >= set(part.columns):
                continue  # another part has the same
            given |= part.collate(rows, (ids.shape[0], ids.shape[1]), pad_left)
        batch[GIVEN] = given
        return batch
