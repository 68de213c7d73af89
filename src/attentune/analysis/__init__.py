"""What can be seen and measured of a model's attention; it reads runs and trains nothing."""

from attentune.analysis.diversity import HeadDiversity, diversity_by_head, effective_rank, head_diversity
from attentune.analysis.estimates import Estimate, mean_over_examples
from attentune.analysis.measures import MEASURES, Measure
from attentune.analysis.page import Picture, render_page
from attentune.analysis.paired import Paired, compare_answers
from attentune.analysis.received import Received, draw_received, received_by_head
from attentune.analysis.survey import Survey, difference, installed_dependency, survey

__all__ = [
    "MEASURES",
    "Estimate",
    "HeadDiversity",
    "Measure",
    "Paired",
    "Picture",
    "Received",
    "Survey",
    "compare_answers",
    "difference",
    "diversity_by_head",
    "draw_received",
    "effective_rank",
    "head_diversity",
    "installed_dependency",
    "mean_over_examples",
    "received_by_head",
    "render_page",
    "survey",
]
