"""The recipes of `python -m minigrad.train`, one file each, and functions that load a recipe or a run."""

import importlib
import importlib.util
import math
import traceback
from pathlib import Path

from minigrad import manual_seed, saving
from minigrad.pytorch.words import did_you_mean
from minigrad.training import Recipe
from minigrad.training.folder import RunFolder

NAMES = ("dates", "translate", "text", "reverse", "sort", "copy", "add", "mlm", "recall")
MODULES = {name: f"models.recipes.{name}" for name in NAMES}
ALLOWED = 1 << 24  # elements that a model may have beyond the saved ones, such as a table of positions


class RecipeProblem(ValueError):
    """Raised for a recipe or run that cannot be found or read."""


def find(name):
    """The Recipe class of a name in MODULES, or of a file NAME.py."""
    if name in MODULES:
        return _recipe_in(importlib.import_module(MODULES[name]))
    if not name.endswith(".py"):
        raise RecipeProblem(
            f"there is no recipe {name!r}{did_you_mean(name, MODULES)}; there are: {', '.join(MODULES)}. "
            "Give a recipe of your own as a file, my_recipe.py."
        )
    if not Path(name).is_file():
        raise RecipeProblem(f"there is no file {name}.")
    spec = importlib.util.spec_from_file_location(Path(name).stem, name)
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise RecipeProblem(
            f"the recipe {name} cannot be loaded: {_place(error, name)}{type(error).__name__}: {error}"
        ) from error
    recipe = _recipe_in(module)
    recipe.name, recipe.file = recipe.name or Path(name).stem, str(Path(name).resolve())
    return recipe


def _place(error, name):
    """The innermost line of the recipe's file in the traceback, as "line 3: "; empty if there is none."""
    lines = [
        frame.lineno
        for frame in traceback.extract_tb(error.__traceback__)
        if Path(frame.filename).name == Path(name).name
    ]
    line = getattr(error, "lineno", None) or (lines[-1] if lines else None)
    return f"line {line}: " if line else ""


def _recipe_in(module):
    """The last class of a module that extends Recipe."""
    own = [
        v
        for v in vars(module).values()
        if isinstance(v, type) and issubclass(v, Recipe) and v.__module__ == module.__name__
    ]
    if not own:
        raise RecipeProblem(
            f"{module.__file__} defines no recipe; it needs a class that extends minigrad.training.Recipe."
        )
    return own[-1]


def load_run(folder):
    """Load (recipe, trained model in evaluation) from a run's folder."""
    folder = RunFolder(folder)
    config = folder.read_config()
    _check_sizes(config["settings"], folder)
    recipe, model = untrained(config, folder)
    if not folder.weights.exists():
        raise RecipeProblem(
            f"the run {folder} was interrupted before it had saved anything. "
            f"To start it again: python -m minigrad.train --resume {folder}"
        )
    model.load_state_dict(saving.load_tensors(folder.weights))
    return recipe, model.eval()


def _check_sizes(settings, folder):
    """Raises RecipeProblem if the settings ask for a model far larger than the saved weights.

    Such a model could fill the memory before load_state_dict compares the shapes."""
    size = {name: value for name, value in settings.items() if isinstance(value, int)}
    width, layers = size.get("d_model", 1), size.get("layers", 1)
    # a lower bound of the bytes in the layers, and of the rows in the tables
    stacked = layers * max(100, width * max(width, size.get("d_ff", 1)))
    tables = width * max(
        size.get(name, 1) for name in ("context", "length", "digits", "distance", "vocab_size")
    )
    saved = folder.weights.stat().st_size if folder.weights.is_file() else math.inf
    if stacked > saved or tables > saved + ALLOWED:
        raise RecipeProblem(
            f"{folder.config} does not fit {folder.weights.name}: it asks for a far larger model."
        )


def untrained(config, folder):
    """(recipe, initial model) from the config of a run's RunFolder."""
    manual_seed(config["seed"])
    recipe_class = find(config["recipe"])
    try:
        recipe = recipe_class(config["settings"])
        return recipe, recipe.model()
    except (TypeError, ValueError, KeyError, IndexError, OverflowError) as error:
        raise RecipeProblem(f"{folder.config} does not fit the recipe {recipe_class.name}: {error}") from None
