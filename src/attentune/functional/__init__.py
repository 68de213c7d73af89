"""The papers' equations as pure functions on tensors: no model, no trainer, no state."""

from attentune.functional.guiding import mdg_loss, pdg_loss

__all__ = ["mdg_loss", "pdg_loss"]
