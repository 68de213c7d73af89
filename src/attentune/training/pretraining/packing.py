"""Documents packed into blocks of one length, so that a step wastes nothing on padding.

Documents stand in a block one after the other, each framed as the tokenizer frames a text: [CLS] … [SEP]. One that doesn't
fit is cut, and goes on in the next block with a frame of its own. So every block begins with [CLS], as inputs do later
on, a frame tells where a document begins and ends, and no token of the text is lost or there twice.
"""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import datasets
import pyarrow.compute as pc

from attentune.errors import UserError

FORMAT = 1
ROWS_AT_ONCE = 10_000
IDS = datasets.List(datasets.Value("int32"))
OFFSETS = datasets.List(datasets.List(datasets.Value("int32")))


@dataclass(frozen=True)
class Part:
    """The tokens of one document, from `start` to before `stop`, that stand in a block."""

    document: int
    start: int
    stop: int


@dataclass(frozen=True)
class Frame:
    """The special tokens before and behind a text."""

    before: tuple[int, ...]
    behind: tuple[int, ...]

    @classmethod
    def of(cls, tokenizer: Any) -> "Frame":
        """As a tokenizer puts them there; one that marks no beginning and no end can't be packed."""
        encoded = tokenizer("a", return_special_tokens_mask=True)
        ids, special = encoded["input_ids"], encoded["special_tokens_mask"]
        text = [i for i, is_special in enumerate(special) if not is_special] or [0]
        frame = cls(tuple(ids[: text[0]]), tuple(ids[text[-1] + 1 :]))
        if tokenizer.cls_token_id not in frame.before or not frame.behind:
            raise UserError(
                f"the tokenizer ({type(tokenizer).__name__}) doesn't put a text between a token that begins it and one that ends "
                "it, so that packed documents couldn't be told apart; use one such as BERT's, RoBERTa's or ModernBERT's"
            )
        return frame

    def __len__(self) -> int:
        return len(self.before) + len(self.behind)


def plan_blocks(lengths: Iterable[int], block: int, frame: int) -> Iterator[list[Part]]:
    """Which parts of documents of these lengths stand in which block, where each part takes `frame` tokens more.

    >>> for parts in plan_blocks([3, 7], block=8, frame=2):
    ...     print([(part.document, part.start, part.stop) for part in parts])
    [(0, 0, 3), (1, 0, 1)]
    [(1, 1, 7)]
    """
    if block <= frame:
        raise UserError(f"blocks of {block} tokens hold no text beside the {frame} that frame it; raise --max-length")
    parts: list[Part] = []
    room = block
    for document, length in enumerate(lengths):
        start = 0
        while start < length:
            if room <= frame:
                yield parts
                parts, room = [], block
            stop = min(length, start + room - frame)
            parts.append(Part(document, start, stop))
            room -= stop - start + frame
            start = stop
    if parts:
        yield parts


def tokenized(documents: datasets.Dataset, tokenizer: Any, *, offsets: bool) -> datasets.Dataset:
    """The documents as tokens without their frames, kept on disk by `datasets`; with `offsets`, where in the text they are."""
    features = datasets.Features({"input_ids": IDS, **({"offset_mapping": OFFSETS} if offsets else {})})

    def tokens(texts: list[str]) -> dict[str, Any]:
        # No limit: `verbose` would warn that the model can't take what is cut into blocks in a moment.
        encoded = tokenizer(texts, add_special_tokens=False, return_offsets_mapping=offsets, verbose=False)
        return {name: encoded[name] for name in features}

    return documents.map(
        tokens,
        batched=True,
        input_columns="text",
        remove_columns=documents.column_names,
        features=features,
        new_fingerprint=_digest("tokens", documents._fingerprint, tokenizer.backend_tokenizer.to_str(), offsets),
        desc="tokenizing",
    )


def packed(documents: datasets.Dataset, frame: Frame, block: int) -> datasets.Dataset:
    """Tokenized documents as blocks of `block` tokens, the last perhaps shorter, kept on disk by `datasets`."""
    if not tokens_of(documents):
        raise UserError("nothing is left of the text once it is in tokens; give more of it")
    return datasets.Dataset.from_generator(
        _blocks,
        features=documents.features,
        gen_kwargs={"documents": documents, "frame": frame, "block": block},
        fingerprint=_digest("blocks", documents._fingerprint, frame, block),
    )


def _blocks(documents: datasets.Dataset, frame: Frame, block: int) -> Iterator[dict[str, list[Any]]]:
    """The blocks' rows. Documents are read in their order, and kept no longer than they are needed."""
    waiting: dict[int, dict[str, list[Any]]] = {}
    nowhere = [[0, 0]]

    def lengths() -> Iterator[int]:
        for number, document in enumerate(documents):
            waiting[number] = document
            yield len(document["input_ids"])

    for parts in plan_blocks(lengths(), block, len(frame)):
        row: dict[str, list[Any]] = {name: [] for name in documents.column_names}
        for part in parts:
            whole = waiting[part.document]
            row["input_ids"] += [*frame.before, *whole["input_ids"][part.start : part.stop], *frame.behind]
            if "offset_mapping" in row:
                offsets = whole["offset_mapping"][part.start : part.stop]
                row["offset_mapping"] += [*nowhere * len(frame.before), *offsets, *nowhere * len(frame.behind)]
        for number in [number for number in waiting if number < parts[-1].document]:
            del waiting[number]
        yield row


def tokens_of(blocks: datasets.Dataset) -> int:
    """How many tokens some blocks, or tokenized documents, hold."""
    lengths = (pc.list_value_length(batch["input_ids"]) for batch in blocks.with_format("arrow").iter(ROWS_AT_ONCE))
    return sum(int(pc.sum(some).as_py()) for some in lengths)


def _digest(*parts: object) -> str:
    return hashlib.sha256(repr((FORMAT, *parts)).encode()).hexdigest()[:32]
