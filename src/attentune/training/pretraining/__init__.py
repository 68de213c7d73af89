"""Pre-training: masked language models from nothing, or on from a checkpoint, guided or not."""

from attentune.training.pretraining.masking import Masking
from attentune.training.pretraining.packing import Frame, Part, packed, plan_blocks, tokenized
from attentune.training.pretraining.recipe import PretrainingRecipe
from attentune.training.pretraining.run import pretrain, resume_pretraining

__all__ = [
    "Frame",
    "Masking",
    "Part",
    "PretrainingRecipe",
    "packed",
    "plan_blocks",
    "pretrain",
    "resume_pretraining",
    "tokenized",
]
