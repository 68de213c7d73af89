"""The papers' equations as pure functions on tensors: no model, no trainer, no state."""

from attentune.functional.disagreement import disagreement_loss
from attentune.functional.guiding import mdg_loss, pdg_loss
from attentune.functional.knowledge import received_loss
from attentune.functional.patterns import (
    pattern_loss,
    pattern_loss_from_readings,
    pattern_target,
    spread_target,
    target_rows,
    target_squares,
)
from attentune.functional.sesame import gaussian_blur, gaussian_kernel, squeeze_excite, weighted_layers
from attentune.functional.ssa import ssa_loss, ssa_vector

__all__ = [
    "disagreement_loss",
    "gaussian_blur",
    "gaussian_kernel",
    "mdg_loss",
    "pattern_loss",
    "pattern_loss_from_readings",
    "pattern_target",
    "pdg_loss",
    "received_loss",
    "spread_target",
    "squeeze_excite",
    "ssa_loss",
    "ssa_vector",
    "target_rows",
    "target_squares",
    "weighted_layers",
]
