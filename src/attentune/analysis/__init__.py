"""What can be seen and measured of a model's attention; it reads runs and trains nothing."""

from attentune.analysis.diversity import HeadDiversity, head_diversity
from attentune.analysis.page import Picture, render_page
from attentune.analysis.paired import Paired, compare_answers
from attentune.analysis.received import Received, draw_received, received_by_head

__all__ = [
    "HeadDiversity",
    "Paired",
    "Picture",
    "Received",
    "compare_answers",
    "draw_received",
    "head_diversity",
    "received_by_head",
    "render_page",
]
