"""Figures for papers and notebooks: they save themselves as PNG and SVG, and show themselves in Jupyter."""

from attentune.analysis.figures.drawing import Drawing
from attentune.analysis.figures.heads import draw_head_grid, draw_head_pca
from attentune.analysis.figures.maps import draw_average_maps, draw_received
from attentune.analysis.figures.runs import draw_ablation, draw_training_curves
from attentune.analysis.figures.weights import draw_layer_weights, draw_token_importance

__all__ = [
    "Drawing",
    "draw_ablation",
    "draw_average_maps",
    "draw_head_grid",
    "draw_head_pca",
    "draw_layer_weights",
    "draw_received",
    "draw_token_importance",
    "draw_training_curves",
]
