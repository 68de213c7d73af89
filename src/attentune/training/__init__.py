"""Training: a Trainer that takes a method, recipes that say everything about a run, and the folder that a run leaves."""

from attentune.training.collation import GIVEN, BringColumns
from attentune.training.columns import add_columns
from attentune.training.hub import push_run
from attentune.training.loading import load
from attentune.training.models import load_for_classification
from attentune.training.overrides import assigned, laid_over, lora_values
from attentune.training.prediction import Prediction, Predictor
from attentune.training.pretraining import PretrainingRecipe, pretrain, resume_pretraining
from attentune.training.processes import is_first
from attentune.training.recipe import DataRecipe, LoraRecipe, Recipe, TrainingRecipe, read_values
from attentune.training.run import resume_run, run_recipe
from attentune.training.run_folder import RunFolder, json_line, versions, written_whole
from attentune.training.sources import locate
from attentune.training.trainer import Trainer
from attentune.training.trial import try_method
from attentune.training.trust import require_trust

__all__ = [
    "GIVEN",
    "BringColumns",
    "DataRecipe",
    "LoraRecipe",
    "Prediction",
    "Predictor",
    "PretrainingRecipe",
    "Recipe",
    "RunFolder",
    "Trainer",
    "TrainingRecipe",
    "add_columns",
    "assigned",
    "is_first",
    "json_line",
    "laid_over",
    "load",
    "load_for_classification",
    "locate",
    "lora_values",
    "pretrain",
    "push_run",
    "read_values",
    "require_trust",
    "resume_pretraining",
    "resume_run",
    "run_recipe",
    "try_method",
    "versions",
    "written_whole",
]
