"""What can be seen and measured of a model's attention; it reads runs and trains nothing."""

from attentune.analysis.diversity import HeadDiversity, head_diversity
from attentune.analysis.received import draw_received, received_by_head

__all__ = ["HeadDiversity", "draw_received", "head_diversity", "received_by_head"]
