"""Why a model answers as it does, as far as attention tells: a prediction, and its tokens by what they receive and by how
important self-supervised attention finds them.

Received attention says where a model looks, not what its answer rests on; it is shown as that and no more.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jinja2 import Environment, PackageLoader, StrictUndefined
from numpy.typing import NDArray
from transformers import PreTrainedModel

from attentune.analysis.scales import STEPS, sequential
from attentune.analysis.texts import TextOrPair, Token, as_pair, encode, shown_tokens
from attentune.attention import Observation, Selection, count_layers, watch
from attentune.errors import UserError

FULL = 8.0
"""So many times an even share has the darkest shade."""


@dataclass(frozen=True)
class Explanation:
    """One text, what is predicted for it, and its tokens."""

    text: str
    pair: str | None
    label: str
    """What is predicted; of a model that gives numbers, the number."""
    probabilities: dict[str, float]
    tokens: tuple[Token, ...]
    received: NDArray[np.float64]
    """What each token receives, as shares that sum to 1: the mean over the heads."""
    importance: NDArray[np.float64] | None
    """What self-supervised attention gives each token, where the model has it."""
    heads: str
    """Which heads `received` is the mean of, in words."""

    def ranked(self, by: str = "received") -> list[tuple[Token, float]]:
        """The tokens of the text itself, the highest first, by `received` or `importance`."""
        values = self.received if by == "received" else self.importance
        if values is None:
            raise UserError("this model has no token importance: it was not trained with ssa(…)")
        pairs = [
            (token, float(value)) for token, value in zip(self.tokens, values, strict=True) if not token.is_special
        ]
        return sorted(pairs, key=lambda pair: -pair[1])

    def as_json(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "text": self.text,
            "text_pair": self.pair,
            "label": self.label,
            "probabilities": self.probabilities,
            "heads": self.heads,
            "tokens": [
                {
                    "token": token.text,
                    "special": token.is_special,
                    "received": round(float(self.received[i]), 6),
                    "importance": None if self.importance is None else round(float(self.importance[i]), 6),
                }
                for i, token in enumerate(self.tokens)
            ],
        }

    def rows(self) -> list[tuple[str, list[tuple[Token, float, float]]]]:
        """For display, by kind of score: each token with its value and its shade from 0 to 1."""
        even = self.received * len(self.tokens)
        found = [("received attention", self._shaded(even, np.minimum(even / FULL, 1) ** 0.85))]
        if self.importance is not None:
            highest = max(float(self.importance.max()), 1e-12)
            found.append(("SSA importance", self._shaded(self.importance, (self.importance / highest).clip(0, 1))))
        return found

    def _shaded(self, values: NDArray[np.float64], shades: NDArray[np.float64]) -> list[tuple[Token, float, float]]:
        return [(token, float(v), float(s)) for token, v, s in zip(self.tokens, values, shades, strict=True)]

    def html(self) -> str:
        """A page of its own that loads nothing."""
        environment = Environment(
            loader=PackageLoader("attentune.analysis"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
        )
        return environment.get_template("explanation.html.j2").render(explanation=self, colours=colours)

    def save(self, path: str | Path) -> Path:
        """Write the page."""
        file = Path(path)
        file.write_text(self.html(), encoding="utf-8")
        return file

    def _repr_html_(self) -> str:
        return (
            f'<iframe srcdoc="{escape(self.html())}" style="width:100%;height:{320 + 2 * len(self.tokens)}px;border:0" '
            'title="explanation"></iframe>'
        )


def explain(
    model: PreTrainedModel,
    tokenizer: Any,
    text: TextOrPair,
    *,
    max_length: int = 128,
    layers: str = "all",
    heads: str = "all",
    guided: Any = None,
) -> Explanation:
    """What a classifier predicts for a text, or for a pair, and what its tokens receive from the chosen heads.

    `guided` is what `attentune.load` returns; where it gives tokens an importance (ssa), that is told too.
    """
    chosen = Selection.parse(layers).resolve(count_layers(model), "layer")
    encoded = encode(tokenizer, [text], max_length)
    tokens = shown_tokens(tokenizer, encoded, 0, text)
    passes: list[Observation] = []
    was_training = model.training
    model.eval()
    try:
        with watch(model, lambda seen: dict.fromkeys(chosen, ("received",)), passes.append), torch.no_grad():
            logits = model(**encoded.to(model.device)).logits
    finally:
        model.train(was_training)
    received = torch.stack([passes[0].layers[layer]["received"][0] for layer in chosen])  # (layers, heads, tokens)
    some = list(Selection.parse(heads).resolve(received.shape[1], "head"))
    share = received[:, some].double().cpu().numpy()
    share = (share / share.sum(axis=-1, keepdims=True)).mean(axis=(0, 1))
    names = [str(name) for _, name in sorted(dict(model.config.id2label or {}).items())]
    is_number = logits.shape[-1] == 1
    probabilities = {} if is_number else dict(zip(names, logits[0].float().softmax(dim=-1).tolist(), strict=True))
    importance = token_scores(guided)
    first, pair = as_pair(text)
    return Explanation(
        first,
        pair,
        f"{logits.item():.2f}" if is_number else max(probabilities, key=probabilities.__getitem__),
        probabilities,
        tokens,
        share,
        None if importance is None else importance[0][: len(tokens)],
        f"{'all layers' if layers == 'all' else f'layers {layers}'}, {'all heads' if heads == 'all' else f'heads {heads}'}",
    )


def token_scores(guided: Any) -> list[NDArray[np.float64]] | None:
    """The importance that self-supervised attention gave each token in the last pass, (tokens,) for each example; None for a
    model that has no such scores."""
    try:
        scores = getattr(guided, "token_scores", None)
    except UserError:  # it would have them with another method
        return None
    if scores is None:
        return None
    return [np.asarray(torch.as_tensor(row).double().cpu()) for row in scores]


def colours(shade: float) -> tuple[str, str]:
    """Ground and ink of a shade from 0 to 1, as CSS.

    >>> colours(0.0)[1], colours(1.0)[1]
    ('#000000', '#ffffff')
    """
    rgb = rgb_of(shade)
    return f"rgb({rgb[0]}, {rgb[1]}, {rgb[2]})", "#ffffff" if is_dark(rgb) else "#000000"


def rgb_of(shade: float) -> Sequence[int]:
    """The colour of a shade from 0 to 1."""
    return [int(part) for part in sequential()[round((STEPS - 1) * min(1.0, max(0.0, shade)))]]


def is_dark(rgb: Sequence[int]) -> bool:
    """Whether white can be read on a colour better than black."""
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in (part / 255 for part in rgb)]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True)) <= 0.179
