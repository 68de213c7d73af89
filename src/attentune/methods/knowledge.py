"""Heads pulled to what is known of a text: which of its words belong together (Wang et al. 2022, Table 2).

A prior between words becomes rows P[q] over tokens that sum to 1: all tokens of a word give as it does, and share what it is
given; special tokens, and words without relations, have none. `target=map` pulls each row of a head's map to its row of P:

    loss = Σ_layers mean over heads, the rows q that have a target, and the batch, of Σ_k (A[q, k] − P[q, k])²

`target=received` compares sums over the rows, as the authors' code does: r[k] = Σ_q A[q, k] with p[k] = Σ_q P[q, k], both at a
sum of 1 over the real tokens:

    loss = Σ_layers mean over heads and the batch of Σ_k (r[k] − p[k])²

P comes with the training data, as columns of it; the training step only gathers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar, Literal, get_args

import datasets
import torch
from torch import Tensor
from transformers import BatchEncoding

from attentune.attention import Entries, Reading
from attentune.errors import UserError
from attentune.functional import received_loss
from attentune.methods.base import _default
from attentune.methods.by_heads import ByHeads
from attentune.methods.drawn import TrainingTexts
from attentune.methods.passes import Pass
from attentune.methods.priors import PMI, Prior, build_priors, gather, prior_columns, received_of
from attentune.methods.priors.relations import COLUMNS
from attentune.methods.towards import loss_towards, readings_towards

Pulled = Literal["map", "received"]
BLOCK = 10_000  # rows looked at together, where there may be very many


@dataclass(frozen=True)
class Knowledge(ByHeads):
    """The base of the guides by knowledge: `prior` draws it from the texts."""

    paper: ClassVar[str] = "Wang et al. 2022, Attention Guiding, Table 2"
    drawn_by: ClassVar[tuple[str, ...]]
    """The parameters that the prior depends on; two methods that agree in them share its columns."""
    nothing: ClassVar[str] = ""
    """What to do where no text has related words."""

    target: Pulled = "map"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.target not in get_args(Pulled):
            raise UserError(f"target must be map or received, not {self.target!r}")

    def prior(self, texts: TrainingTexts) -> Prior:
        """The knowledge itself, of these texts; a UserError where what it takes is missing."""
        raise NotImplementedError

    @property
    def label(self) -> str:
        """A name for the prior: `pmi`, or `pmi(window=10)` where it isn't drawn by the defaults."""
        given = {f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name) != _default(f)}
        shown = [f"{name}={self.text_of(name, given[name])}" for name in self.drawn_by if name in given]
        return f"{self.name}({', '.join(shown)})" if shown else self.name

    @property
    def columns(self) -> tuple[str, ...]:
        """Of each row of P: which tokens give how much to which."""
        return tuple(f"{self.label}_{column}" for column in COLUMNS)

    def draw(self, texts: TrainingTexts) -> "Related":
        """The relations between the words of each text, from the cache where they are in it."""
        prior = self.prior(texts)
        rows = build_priors(
            prior,
            texts.texts,
            texts.pairs,
            cache_dir=texts.cache_dir,
            num_proc=texts.num_proc,
            progress=lambda done, total: texts.progress(self.label, done, total),
        )
        return Related(self.label, prior, rows, self.nothing)

    def collate(self, rows: Sequence[Mapping[str, Any]], shape: tuple[int, int], pad_left: bool) -> Mapping[str, Any]:
        """All entries of P in one list."""
        for row in rows:
            missing = [name for name in self.columns if name not in row]
            if missing:
                raise UserError(f"a row of this batch lacks the column {missing[0]!r}; {self._how}")
        starts = [shape[1] - len(row["input_ids"]) for row in rows] if pad_left else None
        found = gather(*([row[name] for row in rows] for name in self.columns), length=shape[1], starts=starts)
        named = {f"{self.label}_{name}": part for name, part in found._asdict().items()}
        return {**named, f"{self.label}_shape": shape}

    def reads(self, seen: Pass) -> tuple[Reading, ...]:
        """What the target takes; nothing in a pass without the columns, as evaluation is: only its loss can't be had."""
        if f"{self.label}_shape" not in seen.given:
            return ()
        if self.target == "received":
            return ("received",)
        return readings_towards(lambda queries, keys: self._rows(seen, queries, keys), seen, even=False)

    def loss(self, seen: Pass) -> Tensor:
        """The squared error, summed over layers."""
        if f"{self.label}_shape" not in seen.given:
            raise UserError(f"{self.label} has nothing to guide by: {self._how}")
        if self.target == "map":
            return loss_towards(seen, even=False)
        losses: list[Tensor] = []
        for received in seen.by_layer("received"):  # (batch, heads, keys)
            entries, (batch, length) = self._given(seen, received.shape[2], received.shape[0])
            wanted = received_of(entries, batch, length).to(received.device)
            real = None if seen.real is None else seen.real.to(received.device)
            losses.append(
                received_loss(received, wanted, mask=real).to(losses[0].device if losses else received.device)
            )
        return torch.stack(losses).sum()

    def _rows(self, seen: Pass, queries: int, keys: int) -> Entries:
        """P, in a pass that is given all of its tokens: then there are as many queries as keys."""
        return self._given(seen, keys, None if seen.ids is None else len(seen.ids))[0]

    def _given(self, seen: Pass, keys: int, called: int | None) -> tuple[Entries, tuple[int, int]]:
        batch, length = seen.given[f"{self.label}_shape"]
        if called not in (None, batch):
            raise UserError(
                f"{self.label} was given for {batch} texts, but the model is called with {called}: give the columns of "
                "the batch that the model is called with"
            )
        if length != keys:
            raise UserError(
                f"{self.label} was given for texts of {length} tokens, but the model's attention has {keys}: give the "
                "columns of the batch that the model is called with"
            )
        return Entries(*(seen.given[f"{self.label}_{name}"] for name in Entries._fields)), (batch, length)

    @property
    def _how(self) -> str:
        return (
            f"the training data need its columns ({', '.join(self.columns)}): attentune.training.add_columns(dataset, "
            "method, tokenizer) makes them, attentune.Trainer brings them to the model, and in a loop of one's own "
            "guided.give does"
        )


@dataclass(frozen=True, eq=False)
class Related:
    """The relations of all texts, on their way to the tokens."""

    name: str
    prior: Prior
    rows: datasets.Dataset
    nothing: str

    @property
    def found(self) -> int:
        """How many texts have related words."""
        blocks = (self.rows[i : i + BLOCK]["first"] for i in range(0, len(self.rows), BLOCK))
        return sum(1 for block in blocks for first in block if len(first))

    @property
    def note(self) -> str:
        """How many texts the method has something to say about."""
        return f"{self.name}: {self.found:,} of {len(self.rows):,} training texts have related words"

    def check(self) -> None:
        """A UserError where none has."""
        if not self.found:
            raise UserError(
                f"{self.name} finds no related words in any of the {len(self.rows):,} training texts, so it would guide "
                f"nothing; {self.nothing}"
            )

    def columns(
        self, rows: Sequence[int], encoded: BatchEncoding, *texts: Sequence[str]
    ) -> Mapping[str, Sequence[Any]]:
        """P for each text, in the tokens that it has become."""
        return prior_columns(self.name, self.rows[rows], encoded, *texts)

    def save(self, folder: Path) -> None:
        """What was counted stays with the run."""
        if isinstance(self.prior, PMI):
            self.prior.save(folder / self.prior.stem)
