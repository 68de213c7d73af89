"""A model's attention over a data set: every measure for every head and example, from fused readings.

No attention map is made, but for the agreement with dependency edges, whose maps live a block at a time.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import PreTrainedModel

from attentune.analysis.diversity import diversity_by_head, effective_rank
from attentune.analysis.estimates import Estimate, mean_over_examples
from attentune.analysis.measures import MEASURES
from attentune.analysis.texts import TextOrPair, as_pair, encode, is_punctuation_token
from attentune.attention import Observation, count_layers, mass, watch
from attentune.errors import UserError
from attentune.functional import pattern_target
from attentune.methods.priors import Dependency, align, dense_target, split_words, token_prior
from attentune.methods.tokens import TokenKinds

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Survey:
    """The measures of one model on some texts; NaN where an example has nothing to measure, as a text without full stops."""

    by_head: Mapping[str, FloatArray]
    """By measure, (examples, layers, heads)."""
    of_model: Mapping[str, FloatArray]
    """The measures that only a whole model has, (examples,)."""

    @property
    def measures(self) -> tuple[str, ...]:
        """The measures that were taken."""
        return tuple(name for name in MEASURES if name in self.by_head or name in self.of_model)

    def by_example(self, measure: str) -> FloatArray:
        """One number an example: the mean over the heads."""
        if measure in self.of_model:
            return self.of_model[measure]
        return np.asarray(self._values(measure).mean(axis=(1, 2)))

    def estimate(self, measure: str) -> Estimate:
        """The mean over heads and examples, with an interval over the examples."""
        return mean_over_examples(self.by_example(measure))

    def grid(self, measure: str) -> FloatArray:
        """(layers, heads), the mean over the examples; NaN where none has the measure."""
        values = self._values(measure)
        known = ~np.isnan(values)
        total = np.where(known, values, 0).sum(axis=0)
        count = known.sum(axis=0)
        return np.asarray(np.divide(total, count, out=np.full(total.shape, np.nan), where=count > 0))

    def _values(self, measure: str) -> FloatArray:
        if measure not in self.by_head:
            raise UserError(f"there is no {measure!r} by head; there are {', '.join(self.by_head)}")
        return self.by_head[measure]


def difference(first: Survey, second: Survey, measure: str) -> Estimate:
    """The second model's measure less the first's, on the same texts: paired, so the interval is that of the difference."""
    one, two = first.by_example(measure), second.by_example(measure)
    if len(one) != len(two):
        raise UserError(f"the models were measured on {len(one)} and {len(two)} texts; take the same for both")
    return mean_over_examples(two - one)


def survey(
    model: PreTrainedModel,
    tokenizer: Any,
    texts: Sequence[TextOrPair],
    *,
    max_length: int = 128,
    batch_size: int = 16,
    dependency: Dependency | None = None,
) -> Survey:
    """Measure a model's attention on texts, or on pairs of texts; the model is left as it was.

    With `dependency`, a spaCy pipeline as a prior, the agreement with the grammar is measured too.
    """
    kinds, layers = TokenKinds.of(tokenizer), range(count_layers(model))
    rows: list[dict[str, FloatArray]] = []
    targets: dict[str, Tensor] = {}
    passes: list[Observation] = []

    def plan(observation: Observation) -> dict[int, tuple[Any, ...]]:
        masses = tuple(mass(target, name=_name(name)) for name, target in targets.items())
        return dict.fromkeys(layers, ("received", "entropy", "sharpness", *masses))

    was_training = model.training
    model.eval()
    try:
        with watch(model, plan, passes.append), torch.no_grad():
            for start in range(0, len(texts), batch_size):
                batch = texts[start : start + batch_size]
                encoded = encode(tokenizer, batch, max_length)
                targets.clear()
                targets.update(_targets(encoded, batch, dependency))
                model(**encoded.to(model.device))
                rows.extend(_measured(passes.pop(), encoded, targets, kinds, tokenizer))
    finally:
        model.train(was_training)
    if not rows:
        raise UserError("there is no text to measure attention on; give at least one")
    names = list(rows[0])
    of_model = {name for name in names if not MEASURES[name].by_head}
    values = {name: np.stack([row[name] for row in rows]) for name in names}
    return Survey(
        {name: value for name, value in values.items() if name not in of_model},
        {name: value for name, value in values.items() if name in of_model},
    )


def installed_dependency(pipeline: str = "en_core_web_sm") -> Dependency | None:
    """The grammar to compare with, or None where spaCy or the pipeline is not installed."""
    prior = Dependency(pipeline)
    try:
        prior.prepare()
    except UserError:
        return None
    return prior


def _name(measure: str) -> str:
    return f"survey of {measure}"  # no method has a reading of this name


def _targets(encoded: Any, texts: Sequence[TextOrPair], dependency: Dependency | None) -> dict[str, Tensor]:
    """Where each query would look: sparse for next and previous, dense for the grammar."""
    real = encoded["attention_mask"].bool()
    length = real.shape[1]
    found = {"next": pattern_target("next", length, real=real), "prev": pattern_target("prev", length, real=real)}
    if dependency is not None and encoded.encodings:
        examples = [tuple(split_words(part) for part in as_pair(text) if part is not None) for text in texts]
        related = dependency.relate(examples)
        priors = [
            token_prior(some, align(encoding, example))
            for some, encoding, example in zip(related, encoded.encodings, examples, strict=True)
        ]
        ones = [np.ones(len(prior.query), dtype=np.float32) for prior in priors]  # what falls on an edge, all alike
        edges = dense_target([prior.query for prior in priors], [prior.key for prior in priors], ones, length)
        found["dependency"] = edges[:, None]  # (batch, 1, queries, keys)
    return found


def _measured(
    seen: Observation, encoded: Any, targets: Mapping[str, Tensor], kinds: TokenKinds, tokenizer: Any
) -> list[dict[str, FloatArray]]:
    """The measures of each example of one pass."""
    read = {
        name: np.stack([layer[name].double().cpu().numpy() for layer in seen.layers.values()], axis=1)
        for name in seen.layers[0]
    }  # each (batch, layers, heads, length)
    ids, reals = encoded["input_ids"].cpu(), encoded["attention_mask"].bool().cpu().numpy()
    has_target = {
        name: (target >= 0).numpy() if target.dim() == 2 else (target[:, 0].sum(dim=-1) > 0).numpy()
        for name, target in targets.items()
    }  # each (batch, length)
    rows = []
    for i, real in enumerate(reals):
        received = read["received"][i][..., real]  # (layers, heads, tokens)
        share = received / received.sum(axis=-1, keepdims=True)
        row = _of_received(share, ids[i][torch.from_numpy(real)], kinds, tokenizer)
        row["entropy"] = read["entropy"][i][..., real].mean(axis=-1)
        row["sharpness"] = read["sharpness"][i][..., real].mean(axis=-1)
        for name, has in has_target.items():
            falls = read[_name(name)][i][..., has[i] & real]
            row[name] = falls.mean(axis=-1) if falls.shape[-1] else np.full(share.shape[:2], np.nan)
        rows.append(row)
    return rows


def _of_received(share: FloatArray, ids: Tensor, kinds: TokenKinds, tokenizer: Any) -> dict[str, FloatArray]:
    """What follows from the shares (layers, heads, tokens) that the tokens `ids` receive."""
    heads = share.reshape(-1, share.shape[-1])
    nothing = np.full(share.shape[:2], np.nan)

    def of(is_one: Tensor | NDArray[np.bool_]) -> FloatArray:
        chosen = np.asarray(is_one, dtype=bool)
        return np.asarray(share[..., chosen].sum(axis=-1)) if chosen.any() else nothing

    tokens = tokenizer.convert_ids_to_tokens(ids.tolist())
    special = kinds.is_special(ids).numpy()
    punctuation = np.array([is_punctuation_token(token) for token in tokens]) & ~special
    surprise = np.log(share, out=np.zeros_like(share), where=share > 0)
    evenness = -(share * surprise).sum(axis=-1) / np.log(len(ids)) if len(ids) > 1 else nothing
    return {
        "diversity": diversity_by_head(heads).reshape(share.shape[:2]),
        "effective_rank": np.asarray(effective_rank(heads)),
        "evenness": evenness,
        "cls": of(_is(ids, tokenizer.cls_token_id)),
        "sep": of(_is(ids, tokenizer.sep_token_id)),
        "punctuation": of(punctuation),
        "first": share[..., 0],
        "delim": of(kinds.is_delimiter(ids)),
        "period": of(kinds.is_stop(ids)),
    }


def _is(ids: Tensor, token: int | None) -> NDArray[np.bool_]:
    return np.zeros(len(ids), dtype=bool) if token is None else (ids == token).numpy()
