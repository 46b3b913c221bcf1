"""Format the figures of a training (numbers, arrays, dicts of these) as text, tables and JSON."""

import platform
import sys

import numpy as np

from minigrad import nn, no_grad
from minigrad.machine import blas_kernels
from minigrad.training.health import layer_of
from minigrad.training.recipe import is_number
from minigrad.viz.trace import trace_call

LONGEST = 24  # characters shown of an array
OUTSIDE = "the loss"


def cell(value, form):
    """Format a figure. `form` formats numbers: a format such as ".3g", or a function. Strings stay as they
    are, None becomes "", and of an array or anything else the first 24 characters are shown."""
    value = single(value)
    if is_number(value):
        return form(value) if callable(form) else f"{value:{form}}"
    text = "" if value is None else value if isinstance(value, str) else " ".join(repr(value).split())
    return text if isinstance(value, str) or len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def single(value):
    """Convert an array or Tensor of shape () to a Python number; return everything else unchanged."""
    return value.item() if getattr(value, "shape", None) == () and hasattr(value, "item") else value


def rows_of(figures):
    """Table (head, rows) of figures; each row is a name and its values. {name: figure} gives one column and
    an empty head. {name: {second name: figure}} gives a column for each second name, with None where a row
    has no figure."""
    if not any(isinstance(value, dict) for value in figures.values()):
        return [], [[name, value] for name, value in figures.items()]
    by_two = {name: value if isinstance(value, dict) else {"": value} for name, value in figures.items()}
    columns = list(dict.fromkeys(column for inner in by_two.values() for column in inner))
    return ["", *columns], [
        [name, *(inner.get(column) for column in columns)] for name, inner in by_two.items()
    ]


def jsonable(value):
    """Convert a recipe's figures to JSON types: arrays to lists, names to strings, the rest to their repr."""
    value = single(value)
    if isinstance(value, dict):
        return {
            name if isinstance(name, str) else str(single(name)): jsonable(inner)
            for name, inner in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [jsonable(inner) for inner in value]
    if hasattr(value, "tolist"):
        return value.tolist()
    if value is None or isinstance(value, (str, bool, int, float)):
        return value
    return float(value) if is_number(value) else repr(value)


def environment(threads):
    """Versions and hardware that a run was computed with; no names of machines or folders."""
    blas = np.show_config("dicts")["Build Dependencies"]["blas"]
    library = f"{blas.get('name')} {blas.get('version', '')} {blas_kernels()}".strip()
    return {
        "Python": platform.python_version(),
        "NumPy": np.__version__,
        "matrix products by": library,
        "threads": threads,
        "system": f"{platform.system()} {platform.machine()}",
        "byte order": sys.byteorder,
    }


# ---------------------------------------------------------------- of a model


def titles(model):
    """{layer: title} for layers of an nn.Sequential, which have only numbers as names: "0 Linear"."""
    modules = dict(model.named_modules())
    return {
        path: f"{path} {type(one).__name__}"
        for path, one in modules.items()
        if path and isinstance(modules.get(path.rpartition(".")[0]), nn.Sequential)
    }


@no_grad()
def activation_scale(recipe, model):
    """Root mean square of each layer's output for the first batch: {layer: size}, in the order in which the
    layers first finished. An embedding that is used twice is listed at its first use; a layer that holds
    others, where it last finished."""
    with model.evaluating():
        trace = trace_call(lambda: recipe.loss(model, recipe.batch(0)), model, outside=OUTSIDE)
    everywhere, layers = shared_modules(model), {layer_of(path) for path, _ in model.named_modules()}
    scale, layer = {}, None
    for step in trace.steps:
        if step.module != OUTSIDE:
            layer = layer if layer is not None and step.module in everywhere else layer_of(step.module)
            if any(other.startswith(f"{layer}." if layer else "") for other in layers - {layer}):
                scale.pop(layer, None)
            scale[layer] = (step.mean**2 + step.std**2) ** 0.5
    return {layer or "the model itself": size for layer, size in scale.items()}


def shared_modules(model):
    """Paths of modules that belong to several layers, such as one GELU for all: their steps do not tell which
    layer is running. A layer that is itself used in several places is not included."""
    layers = {}
    for path, module in model.named_modules(remove_duplicate=False):
        layers.setdefault(id(module), set()).add(layer_of(path))
    several = {path for path, module in model.named_modules() if len(layers[id(module)]) > 1}
    return {path for path in several if layer_of(path) not in several}
