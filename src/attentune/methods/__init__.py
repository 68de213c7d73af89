"""The papers' systems as methods that compose: each a small value that says what it reads, where, and what loss it makes."""

from attentune.methods.base import Guide, Method, Sum
from attentune.methods.guided import Guided, attach
from attentune.methods.mdg import MDG
from attentune.methods.passes import Pass
from attentune.methods.pdg import PDG
from attentune.methods.schedules import Constant, Linear, Schedule, Warmup
from attentune.methods.spec import METHODS, SpecError, parse

__all__ = [
    "MDG",
    "METHODS",
    "PDG",
    "Constant",
    "Guide",
    "Guided",
    "Linear",
    "Method",
    "Pass",
    "Schedule",
    "SpecError",
    "Sum",
    "Warmup",
    "attach",
    "parse",
]
