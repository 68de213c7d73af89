"""Attention with readings: differentiable statistics of the attention maps, without the maps.

`attend` is the primitive, with a `reference` and a `fused` backend; `observe` takes the same readings from the layers
of a stock transformers model while it runs.
"""

from attentune.attention.attend import Attended, Backend, attend
from attentune.attention.entries import Entries
from attentune.attention.observe import Observation, Observer, Revision, count_layers, observe
from attentune.attention.readings import Mass, Overlap, Reach, Reading, Sharpness, mass, overlap, reach, sharpness
from attentune.attention.selection import Selection
from attentune.attention.watch import watch
from attentune.attention.wrapped import base_model

__all__ = [
    "Attended",
    "Backend",
    "Entries",
    "Mass",
    "Observation",
    "Observer",
    "Overlap",
    "Reach",
    "Reading",
    "Revision",
    "Selection",
    "Sharpness",
    "attend",
    "base_model",
    "count_layers",
    "mass",
    "observe",
    "overlap",
    "reach",
    "sharpness",
    "watch",
]
