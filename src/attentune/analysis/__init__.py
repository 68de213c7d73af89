"""What can be seen and measured of a model's attention; it reads runs and trains nothing."""

from attentune.analysis.diversity import HeadDiversity, diversity_by_head, effective_rank, head_diversity
from attentune.analysis.estimates import Estimate, mean_over_examples
from attentune.analysis.explanation import Explanation, explain
from attentune.analysis.figures import (
    Drawing,
    draw_ablation,
    draw_average_maps,
    draw_head_grid,
    draw_head_pca,
    draw_layer_weights,
    draw_received,
    draw_token_importance,
    draw_training_curves,
)
from attentune.analysis.maps import AverageMap, Maps, attention_maps, average_map
from attentune.analysis.measures import MEASURES, Measure
from attentune.analysis.paired import Paired, compare_answers
from attentune.analysis.patterns import pattern_scores
from attentune.analysis.received import Received, received_by_head
from attentune.analysis.report import Answer, Arm, Example, Report, make_report
from attentune.analysis.survey import Survey, difference, installed_dependency, survey

__all__ = [
    "MEASURES",
    "Answer",
    "Arm",
    "AverageMap",
    "Drawing",
    "Estimate",
    "Example",
    "Explanation",
    "HeadDiversity",
    "Maps",
    "Measure",
    "Paired",
    "Received",
    "Report",
    "Survey",
    "attention_maps",
    "average_map",
    "compare_answers",
    "difference",
    "diversity_by_head",
    "draw_ablation",
    "draw_average_maps",
    "draw_head_grid",
    "draw_head_pca",
    "draw_layer_weights",
    "draw_received",
    "draw_token_importance",
    "draw_training_curves",
    "effective_rank",
    "explain",
    "head_diversity",
    "installed_dependency",
    "make_report",
    "mean_over_examples",
    "pattern_scores",
    "received_by_head",
    "survey",
]
