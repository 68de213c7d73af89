"""Received attention: what each token is given by each head, as numbers and as a picture."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import PreTrainedModel

from attentune.attention import Observation, count_layers, observe


@dataclass(frozen=True)
class Received:
    """Received attention of one text: `share` (layers, heads, tokens), each head's share sums to 1 over the tokens."""

    tokens: tuple[str, ...]
    share: NDArray[np.float32]


def received_by_head(
    model: PreTrainedModel, tokenizer: Any, texts: Sequence[str], max_length: int = 128
) -> list[Received]:
    """What each token of each text receives from each head of each layer, as shares."""
    layers = count_layers(model)
    passes: list[Observation] = []
    results = []
    was_training = model.training
    model.eval()
    with (
        observe(model, lambda observation: dict.fromkeys(range(layers), ("received",)), passes.append),
        torch.no_grad(),
    ):
        for text in texts:
            encoded = tokenizer(text, truncation=True, max_length=max_length, return_tensors="pt").to(model.device)
            model(**encoded)
            received = torch.stack([passes[-1].layers[layer]["received"][0] for layer in range(layers)])
            passes.clear()
            share = received / received.sum(dim=-1, keepdim=True)
            tokens = tokenizer.convert_ids_to_tokens(encoded["input_ids"][0].tolist())
            results.append(Received(tuple(tokens), share.cpu().numpy()))
    model.train(was_training)
    return results


def draw_received(panels: Mapping[str, Received], path: str | Path, note: str = "") -> None:
    """One panel for each model, one row for each head, one column for each token: who is given how much attention.

    The colour scale is common to all panels and logarithmic, since [CLS] and [SEP] would drown the words otherwise.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot
    from matplotlib.colors import LogNorm

    first = next(iter(panels.values()))
    layers, heads, length = first.share.shape
    width = max(4.0, 0.30 * length + 0.6)
    figure, axes = pyplot.subplots(
        1, len(panels), figsize=(width * len(panels) + 1.2, 0.085 * layers * heads + 2.1), squeeze=False,
        sharey=True, layout="constrained",
    )  # fmt: skip
    norm = LogNorm(vmin=0.2 / length, vmax=min(1.0, 12 / length), clip=True)
    image = None
    for axis, (title, received) in zip(axes[0], panels.items(), strict=True):
        image = axis.imshow(
            received.share.reshape(layers * heads, length),
            aspect="auto",
            cmap="cividis",
            norm=norm,
            interpolation="nearest",
        )
        axis.set_title(title, fontsize=11)
        axis.set_xticks(range(length), [_shown(token) for token in received.tokens], rotation=90, fontsize=9)
        axis.set_yticks([heads * layer + (heads - 1) / 2 for layer in range(layers)], [str(i) for i in range(layers)])
        axis.tick_params(length=0)
        for layer in range(1, layers):
            axis.axhline(heads * layer - 0.5, color="white", linewidth=1.2)
    axes[0][0].set_ylabel(f"layer ({heads} heads each, a row a head)")
    assert image is not None
    bar = figure.colorbar(image, ax=axes[0].tolist(), pad=0.01, fraction=0.03)
    bar.set_label("share of the head's attention")
    even = 1 / length
    ticks = [even / 4, even, 4 * even]
    bar.set_ticks([t for t in ticks if norm.vmin <= t <= norm.vmax], labels=[
        name for t, name in zip(ticks, ("¼ of even", "even", "4 × even"), strict=True) if norm.vmin <= t <= norm.vmax
    ])  # fmt: skip
    bar.ax.minorticks_off()
    if note:
        figure.supxlabel(note, fontsize=9)
    figure.savefig(path, dpi=150)
    pyplot.close(figure)


def _shown(token: str) -> str:
    """A token as it may stand under a picture: matplotlib would take dollar signs for mathematics."""
    token = token.replace("$", r"\$")
    return token if len(token) <= 14 else token[:13] + "…"
