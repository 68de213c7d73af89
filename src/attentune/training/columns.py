"""The methods' own columns in the training data: drawn from the texts before training, brought to tokens with them.

`add_columns` does it for a data set of one's own, `encode` for a task. A batch brings them to the model through
`BringColumns`.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import datasets
from transformers import BatchEncoding

from attentune.errors import UserError
from attentune.methods import Drawn, Method, Sum, TrainingTexts, parse

WORKERS = 8
"""So many processes at most; more would wait for the one that writes."""


def cores() -> int:
    """How many processes to draw priors in: those of this machine's cores that we may use."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, WORKERS)


def draw(method: Sum, texts: TrainingTexts) -> list[Drawn]:
    """What the methods draw from the texts; once, where several have the same columns."""
    found: dict[tuple[str, ...], Drawn] = {}
    for part in method.parts:
        if part.columns in found:
            continue
        mine = part.draw(texts)
        if mine is not None:
            found[part.columns] = mine
    return list(found.values())


def columns_of(
    drawn: Sequence[Drawn], rows: Sequence[int], encoded: BatchEncoding, *texts: Sequence[str]
) -> dict[str, Sequence[Any]]:
    """The columns of all methods for some rows of the data, beside what the tokenizer made of their texts."""
    columns: dict[str, Sequence[Any]] = {}
    for part in drawn:
        columns.update(part.columns(rows, encoded, *texts))
    return columns


def add_columns(
    dataset: datasets.Dataset,
    method: Method | Sum | str,
    tokenizer: Any,
    *,
    text: str = "text",
    text_pair: str | None = None,
    kept: str | Path | None = None,
    cache_dir: str | Path | None = None,
    num_proc: int = 1,
    progress: Callable[[str, int, int], None] = lambda what, done, total: None,
    **tokenization: Any,
) -> datasets.Dataset:
    """The training data with what `pmi`, `dependency` and `wordsim` guide by: columns beside the tokens.

    `text` and `text_pair` name the columns of the texts, `tokenization` is what you give the tokenizer (`truncation`,
    `max_length`, …). Token ids are added where they aren't there yet, and compared where they are. What is drawn from
    the texts is cached by content in `cache_dir`; what is counted (pmi) is saved in the folder `kept`, and read from it
    when it is there, such as a run's. `progress` is told what is being done, and how many of how many texts are.

    Evaluation needs no columns.

    >>> from tempfile import mkdtemp
    >>> from tokenizers import Tokenizer, models, pre_tokenizers
    >>> from transformers import PreTrainedTokenizerFast
    >>> words = Tokenizer(models.WordLevel({w: i for i, w in enumerate(["[PAD]", "[UNK]", "hot", "tea"])}, "[UNK]"))
    >>> words.pre_tokenizer = pre_tokenizers.Whitespace()
    >>> tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, pad_token="[PAD]")
    >>> data = datasets.Dataset.from_dict({"text": ["hot tea", "more tea"]})
    >>> data = add_columns(data, "pmi(0.1, min_count=1)", tokenizer, max_length=64, cache_dir=mkdtemp())
    >>> data[0]["input_ids"], data[0]["pmi(min_count=1)_query"], data[0]["pmi(min_count=1)_key"]
    ([2, 3], [0, 1], [1, 0])
    """
    method = parse(method) if isinstance(method, str) else Sum(method.parts)
    names = [text] if text_pair is None else [text, text_pair]
    for name in names:
        if name not in dataset.column_names:
            raise UserError(f"the data have no column {name!r} (there are {', '.join(dataset.column_names)}); name it")
    folder = None if kept is None else Path(kept)
    texts = TrainingTexts(
        dataset[text],
        None if text_pair is None else dataset[text_pair],
        folder,
        None if cache_dir is None else Path(cache_dir),
        num_proc,
        progress,
    )
    drawn = draw(method, texts)
    for part in drawn:
        part.check()
        if folder is not None:
            part.save(folder)
    dataset = dataset.remove_columns([name for name in method.columns if name in dataset.column_names])

    def columns(batch: Mapping[str, list[Any]], rows: list[int]) -> dict[str, Sequence[Any]]:
        given = [batch[name] for name in names]
        encoded = tokenizer(*given, **tokenization)
        for row, ids, before in zip(
            rows, encoded["input_ids"], batch.get("input_ids", encoded["input_ids"]), strict=True
        ):
            if list(ids) != list(before):
                raise UserError(
                    f"the input_ids of row {row} are not what the tokenizer makes of its text now; give add_columns what you "
                    "gave the tokenizer, such as truncation=True, max_length=128"
                )
        own = {name: values for name, values in dict(encoded).items() if name not in batch}
        return {**own, **columns_of(drawn, rows, encoded, *given)}

    return dataset.map(columns, batched=True, with_indices=True, desc="columns of the method")
