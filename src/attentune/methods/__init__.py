"""The papers' systems as methods that compose: each a small value that says what it reads, where, and what loss it makes."""

from attentune.methods.base import Method, Readings, Sum
from attentune.methods.guided import Guided, attach
from attentune.methods.mdg import MDG
from attentune.methods.pdg import PDG
from attentune.methods.schedules import Constant, Linear, Schedule, Warmup
from attentune.methods.spec import METHODS, SpecError, parse

__all__ = [
    "MDG",
    "METHODS",
    "PDG",
    "Constant",
    "Guided",
    "Linear",
    "Method",
    "Readings",
    "Schedule",
    "SpecError",
    "Sum",
    "Warmup",
    "attach",
    "parse",
]
