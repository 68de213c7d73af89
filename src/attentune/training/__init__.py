"""Training: a Trainer that takes a method, recipes that say everything about a run, and the folder that a run leaves."""

from attentune.training.models import load_for_classification
from attentune.training.prediction import Prediction, Predictor
from attentune.training.recipe import DataRecipe, Recipe, TrainingRecipe
from attentune.training.run import run_recipe
from attentune.training.run_folder import RunFolder
from attentune.training.trainer import Trainer

__all__ = [
    "DataRecipe",
    "Prediction",
    "Predictor",
    "Recipe",
    "RunFolder",
    "Trainer",
    "TrainingRecipe",
    "load_for_classification",
    "run_recipe",
]
