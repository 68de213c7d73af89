"""Studies: many runs that answer one question, shared by any number of workers, with statistics that hold."""

from attentune.studies.ablate import Ablated, ablate, draw_ablations
from attentune.studies.ablations import Ablation, choices_of, layers_and_heads
from attentune.studies.arms import Arm, distinct, parse_arms
from attentune.studies.cells import write_json
from attentune.studies.compare import Compared, Comparison, compare
from attentune.studies.files import StudyFile, read_study
from attentune.studies.power import seeds_needed
from attentune.studies.space import Dimension
from attentune.studies.statistics import holm, mcnemar, over_seeds
from attentune.studies.storage import open_storage
from attentune.studies.sweep import Sweep, Swept, sweep

__all__ = [
    "Ablated",
    "Ablation",
    "Arm",
    "Compared",
    "Comparison",
    "Dimension",
    "StudyFile",
    "Sweep",
    "Swept",
    "ablate",
    "choices_of",
    "compare",
    "distinct",
    "draw_ablations",
    "holm",
    "layers_and_heads",
    "mcnemar",
    "open_storage",
    "over_seeds",
    "parse_arms",
    "read_study",
    "seeds_needed",
    "sweep",
    "write_json",
]
