"""Priors between the words of a text, the knowledge that `pmi`, `dependency` and `wordsim` guide by, and their way to tokens."""

from attentune.methods.priors.build import build_priors
from attentune.methods.priors.dependency import Dependency
from attentune.methods.priors.pmi import PMI
from attentune.methods.priors.relations import Prior, Relations, TokenPrior, prior_columns, relations, token_prior
from attentune.methods.priors.targets import dense_received, dense_target, gather, received_of
from attentune.methods.priors.words import Alignment, Text, align, split_words
from attentune.methods.priors.wordsim import WordSim

__all__ = [
    "PMI",
    "Alignment",
    "Dependency",
    "Prior",
    "Relations",
    "Text",
    "TokenPrior",
    "WordSim",
    "align",
    "build_priors",
    "dense_received",
    "dense_target",
    "gather",
    "prior_columns",
    "received_of",
    "relations",
    "split_words",
    "token_prior",
]
