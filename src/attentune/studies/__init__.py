"""Studies: many runs that answer one question, shared by any number of workers, with statistics that hold."""

from attentune.studies.arms import Arm, distinct, parse_arms
from attentune.studies.cells import write_json
from attentune.studies.compare import Compared, Comparison, compare
from attentune.studies.files import StudyFile, read_study
from attentune.studies.power import seeds_needed
from attentune.studies.statistics import holm, mcnemar, over_seeds
from attentune.studies.storage import open_storage

__all__ = [
    "Arm",
    "Compared",
    "Comparison",
    "StudyFile",
    "compare",
    "distinct",
    "holm",
    "mcnemar",
    "open_storage",
    "over_seeds",
    "parse_arms",
    "read_study",
    "seeds_needed",
    "write_json",
]
