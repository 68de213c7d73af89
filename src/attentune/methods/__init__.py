"""The papers' systems as methods that compose: each a small value that says what it reads, where, and what loss it makes."""

from attentune.methods.auto import Auto
from attentune.methods.base import Guide, Method, Objective, Sum
from attentune.methods.blur import Blur
from attentune.methods.dependency import Dependency
from attentune.methods.disagreement import Disagreement
from attentune.methods.drawn import Drawn, TrainingTexts
from attentune.methods.epochs import Preparing
from attentune.methods.guided import Guided, attach
from attentune.methods.knowledge import Knowledge
from attentune.methods.maskaug import MaskAug
from attentune.methods.mdg import MDG
from attentune.methods.mixout import Mixout
from attentune.methods.passes import Pass
from attentune.methods.patterns import Delim, First, Next, Pattern, Period, Prev, Same
from attentune.methods.pdg import PDG
from attentune.methods.persistence import restore, save
from attentune.methods.pmi import PMI
from attentune.methods.rdrop import RDrop
from attentune.methods.schedules import Constant, Linear, Schedule, Warmup
from attentune.methods.se import SE
from attentune.methods.spec import METHODS, SpecError, parse
from attentune.methods.ssa import SSA
from attentune.methods.wordsim import WordSim

__all__ = [
    "MDG",
    "METHODS",
    "PDG",
    "PMI",
    "SE",
    "SSA",
    "Auto",
    "Blur",
    "Constant",
    "Delim",
    "Dependency",
    "Disagreement",
    "Drawn",
    "First",
    "Guide",
    "Guided",
    "Knowledge",
    "Linear",
    "MaskAug",
    "Method",
    "Mixout",
    "Next",
    "Objective",
    "Pass",
    "Pattern",
    "Period",
    "Preparing",
    "Prev",
    "RDrop",
    "Same",
    "Schedule",
    "SpecError",
    "Sum",
    "TrainingTexts",
    "Warmup",
    "WordSim",
    "attach",
    "parse",
    "restore",
    "save",
]
