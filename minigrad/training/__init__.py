"""Train a model, keep the run, resume it. recipe.py and loop.py are the core; run.py is a run on its way."""

from minigrad.training.recipe import Recipe
from minigrad.training.loop import Training, TrainingError, fit
