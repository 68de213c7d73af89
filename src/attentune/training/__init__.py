"""Training: a Trainer that takes a method, recipes that say everything about a run, and the folder that a run leaves."""

from attentune.training.collation import GIVEN, BringColumns
from attentune.training.columns import add_columns
from attentune.training.models import load_for_classification
from attentune.training.prediction import Prediction, Predictor
from attentune.training.recipe import DataRecipe, Recipe, TrainingRecipe
from attentune.training.run import run_recipe
from attentune.training.run_folder import RunFolder, json_line, written_whole
from attentune.training.trainer import Trainer
from attentune.training.trial import try_method

__all__ = [
    "GIVEN",
    "BringColumns",
    "DataRecipe",
    "Prediction",
    "Predictor",
    "Recipe",
    "RunFolder",
    "Trainer",
    "TrainingRecipe",
    "add_columns",
    "json_line",
    "load_for_classification",
    "run_recipe",
    "try_method",
    "written_whole",
]
