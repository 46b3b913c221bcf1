"""Train a model, save its run, resume it. recipe.py and loop.py are the core; run.py trains to the end."""

from minigrad.training.recipe import Recipe
from minigrad.training.loop import Training, TrainingError, fit
