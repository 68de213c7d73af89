"""The papers' systems as methods that compose: each a small value that says what it reads, where, and what loss it makes."""

from attentune.methods.auto import Auto
from attentune.methods.base import Guide, Method, Sum
from attentune.methods.blur import Blur
from attentune.methods.dependency import Dependency
from attentune.methods.drawn import Drawn, TrainingTexts
from attentune.methods.guided import Guided, attach
from attentune.methods.knowledge import Knowledge
from attentune.methods.mdg import MDG
from attentune.methods.passes import Pass
from attentune.methods.patterns import Delim, First, Next, Pattern, Period, Prev, Same
from attentune.methods.pdg import PDG
from attentune.methods.pmi import PMI
from attentune.methods.schedules import Constant, Linear, Schedule, Warmup
from attentune.methods.se import SE
from attentune.methods.spec import METHODS, SpecError, parse
from attentune.methods.wordsim import WordSim

__all__ = [
    "MDG",
    "METHODS",
    "PDG",
    "PMI",
    "SE",
    "Auto",
    "Blur",
    "Constant",
    "Delim",
    "Dependency",
    "Drawn",
    "First",
    "Guide",
    "Guided",
    "Knowledge",
    "Linear",
    "Method",
    "Next",
    "Pass",
    "Pattern",
    "Period",
    "Prev",
    "Same",
    "Schedule",
    "SpecError",
    "Sum",
    "TrainingTexts",
    "Warmup",
    "WordSim",
    "attach",
    "parse",
]
