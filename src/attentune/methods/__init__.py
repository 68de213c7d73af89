"""The papers' systems as methods that compose: each a small value that says what it reads, where, and what loss it makes."""

from attentune.methods.auto import Auto
from attentune.methods.base import Guide, Method, Objective, Sum
from attentune.methods.blur import Blur
from attentune.methods.disagreement import Disagreement
from attentune.methods.epochs import Preparing
from attentune.methods.guided import Guided, attach
from attentune.methods.maskaug import MaskAug
from attentune.methods.mdg import MDG
from attentune.methods.passes import Pass
from attentune.methods.patterns import Delim, First, Next, Pattern, Period, Prev, Same
from attentune.methods.pdg import PDG
from attentune.methods.persistence import restore, save
from attentune.methods.schedules import Constant, Linear, Schedule, Warmup
from attentune.methods.se import SE
from attentune.methods.spec import METHODS, SpecError, parse
from attentune.methods.ssa import SSA

__all__ = [
    "MDG",
    "METHODS",
    "PDG",
    "SE",
    "SSA",
    "Auto",
    "Blur",
    "Constant",
    "Delim",
    "Disagreement",
    "First",
    "Guide",
    "Guided",
    "Linear",
    "MaskAug",
    "Method",
    "Next",
    "Objective",
    "Pass",
    "Pattern",
    "Period",
    "Preparing",
    "Prev",
    "Same",
    "Schedule",
    "SpecError",
    "Sum",
    "Warmup",
    "attach",
    "parse",
    "restore",
    "save",
]
