"""The relations of many texts: computed in parallel, and kept on disk by content.

What is kept goes by the texts, what the prior depends on, and nothing else; the same question is answered from the file.
"""

import hashlib
import json
import multiprocessing
import os
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from pathlib import Path

import datasets
import numpy as np
import pyarrow as pa
from filelock import FileLock

from attentune.errors import UserError
from attentune.methods.priors.relations import Prior, Relations
from attentune.methods.priors.words import split_words

FORMAT = 1
EXAMPLES_AT_ONCE = 512
SCHEMA = pa.schema({"first": pa.list_(pa.int32()), "second": pa.list_(pa.int32()), "value": pa.list_(pa.float32())})

Examples = Sequence[tuple[str, ...]]
Progress = Callable[[int, int], None]


def build_priors(
    prior: Prior,
    texts: Sequence[str],
    pairs: Sequence[str] | None = None,
    *,
    cache_dir: str | Path | None = None,
    num_proc: int = 1,
    progress: Progress = lambda done, total: None,
) -> datasets.Dataset:
    """The relations of each text, or each pair of texts: a row `first`, `second`, `value` for each, in their order.

    `progress` is told how many of how many examples are done. `cache_dir` is a folder beside the caches of `datasets`
    unless another is given.

    >>> from tempfile import mkdtemp
    >>> from attentune.methods.priors.pmi import PMI
    >>> pmi = PMI.count(["hot tea", "cold beer"], min_count=1)
    >>> build_priors(pmi, ["more hot tea"], cache_dir=mkdtemp())["first"][0]
    [1, 2]
    """
    if num_proc < 1:
        raise UserError(f"num_proc must be at least 1, not {num_proc}")
    examples: Examples = list(zip(texts, strict=True) if pairs is None else zip(texts, pairs, strict=True))
    prior.prepare()  # what is missing is told before any work is done, and loaded before other processes need it
    folder = Path(cache_dir) if cache_dir is not None else Path(datasets.config.HF_DATASETS_CACHE) / "attentune-priors"
    path = folder / f"{prior.name}-{_digest(prior, examples)}.arrow"
    if not path.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(path.with_suffix(".lock")):  # of the processes of one run, one builds and the others wait for it
            if not path.is_file():
                _write(path, prior, examples, num_proc, progress)
    progress(len(examples), len(examples))
    return datasets.Dataset.from_file(str(path))


def _digest(prior: Prior, examples: Examples) -> str:
    digest = hashlib.sha256(json.dumps([FORMAT, prior.identity()], sort_keys=True).encode())
    for example in examples:
        for text in (str(len(example)), *example):
            encoded = text.encode("utf-8", "surrogatepass")
            digest.update(len(encoded).to_bytes(8, "little") + encoded)
    return digest.hexdigest()[:32]


def _write(path: Path, prior: Prior, examples: Examples, num_proc: int, progress: Progress) -> None:
    """The file, whole or not at all."""
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        with pa.OSFile(str(part), "wb") as file, pa.ipc.new_stream(file, SCHEMA) as stream:
            done = 0
            with closing(_related(prior, examples, num_proc)) as chunks:
                for chunk in chunks:
                    stream.write_batch(_batch(chunk))
                    done += len(chunk)
                    progress(done, len(examples))
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _batch(chunk: Sequence[Relations]) -> pa.RecordBatch:
    offsets = np.cumsum([0, *(len(row.first) for row in chunk)], dtype=np.int32)
    columns = (np.concatenate(parts) for parts in zip(*chunk, strict=True))
    return pa.record_batch([pa.ListArray.from_arrays(offsets, column) for column in columns], schema=SCHEMA)


def _related(prior: Prior, examples: Examples, num_proc: int) -> Generator[list[Relations], None, None]:
    chunks = [examples[begin : begin + EXAMPLES_AT_ONCE] for begin in range(0, len(examples), EXAMPLES_AT_ONCE)]
    if num_proc == 1 or len(chunks) < 2:
        for chunk in chunks:
            yield _relate(prior, chunk)
        return
    with multiprocessing.Pool(min(num_proc, len(chunks)), _start_worker, (prior,)) as pool:
        yield from pool.imap(_work, chunks)


def _relate(prior: Prior, chunk: Examples) -> list[Relations]:
    return prior.relate([tuple(map(split_words, example)) for example in chunk])


_worker_prior: Prior | None = None


def _start_worker(prior: Prior) -> None:
    global _worker_prior
    _worker_prior = prior


def _work(chunk: Examples) -> list[Relations]:
    assert _worker_prior is not None
    return _relate(_worker_prior, chunk)
