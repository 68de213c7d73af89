"""The figures of a comparison, as PNG and SVG files: all that its runs can give."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from attentune.analysis import (
    Arm,
    Drawing,
    average_map,
    draw_average_maps,
    draw_head_grid,
    draw_head_pca,
    draw_layer_weights,
    draw_received,
    draw_token_importance,
    draw_training_curves,
    received_by_head,
)
from attentune.analysis.explanation import explain
from attentune.analysis.texts import encode

if TYPE_CHECKING:
    from attentune.cli.comparison import Comparison, Loaded

WORDS = (10, 18)
"""A sentence of so many words fits into a picture."""
WEIGHED = 128


def write_figures(compared: "Comparison", folder: Path) -> Iterator[Path]:
    """Write them one after the other; each path as it is there."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, drawing in _drawings(compared):
        yield from drawing.save(folder / name)


def _drawings(compared: "Comparison") -> Iterator[tuple[str, Drawing]]:
    models = compared.models
    fits = (example for example in compared.examples if WORDS[0] <= len(example.text.split()) <= WORDS[1])
    text = next(fits, compared.examples[0]).text
    averages = {
        title: average_map(loaded.model, loaded.tokenizer, text, max_length=loaded.max_length)
        for title, loaded in models.items()
    }
    yield "average-maps", draw_average_maps(averages)
    received = {
        title: received_by_head(loaded.model, loaded.tokenizer, [text], loaded.max_length)[0]
        for title, loaded in models.items()
    }
    if len({found.tokens for found in received.values()}) == 1:
        yield "received", draw_received(received)
        yield "heads-pca", draw_head_pca(received)
    for measure in _measures(compared.arms):
        yield (
            f"heads-{measure}",
            draw_head_grid({arm.title: arm.survey.grid(measure) for arm in compared.arms}, measure),
        )
    logs = {arm.title: arm.log for arm in compared.arms if arm.log}
    if logs:
        yield "training", draw_training_curves(logs)
    for title, loaded in models.items():
        name = title.replace("/", "-")
        weights = _layer_weights(loaded, [example.input for example in compared.examples[:WEIGHED]])
        if weights is not None:
            yield f"layer-weights-{name}", draw_layer_weights(weights)
        found = explain(loaded.model, loaded.tokenizer, text, max_length=loaded.max_length, guided=loaded.guided)
        if found.importance is not None:
            scores = {"SSA importance": found.importance, "received attention": found.received}
            yield f"token-importance-{name}", draw_token_importance([token.text for token in found.tokens], scores)


def _measures(arms: tuple[Arm, ...]) -> list[str]:
    from attentune.analysis.report.payload import shown_measures

    return [name for name in shown_measures(arms) if name in arms[0].survey.by_head]


def _layer_weights(loaded: "Loaded", texts: list[Any]) -> Any:
    """The layers' weights by squeeze-and-excitation, (examples, layers); None for a model without it."""
    if loaded.guided is None or "se" not in loaded.guided.added:
        return None
    found = []
    with torch.no_grad():
        for start in range(0, len(texts), 16):
            loaded.model(
                **encode(loaded.tokenizer, texts[start : start + 16], loaded.max_length).to(loaded.model.device)
            )
            found.append(loaded.guided.layer_weights.cpu())
    return torch.cat(found).numpy()
