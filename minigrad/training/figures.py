"""The figures of a training, and how a figure of any kind is shown as text, in a table or in JSON."""

import platform
import sys

import numpy as np

from minigrad import nn, no_grad
from minigrad.machine import blas_kernels
from minigrad.training.health import layer_of
from minigrad.training.recipe import is_number
from minigrad.viz.trace import trace_call

LONGEST = 24  # characters of what is shown of an array
OUTSIDE = "the loss"


def cell(value, form):
    """A figure as text: a number in a form such as ".3g", or as a function shows it; text as it is, nothing for None; of an array
    or anything else the beginning."""
    value = single(value)
    if is_number(value):
        return form(value) if callable(form) else f"{value:{form}}"
    text = "" if value is None else value if isinstance(value, str) else " ".join(repr(value).split())
    return text if isinstance(value, str) or len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def single(value):
    """An array or Tensor of no axes as the number that it holds; everything else as it is."""
    return value.item() if getattr(value, "shape", None) == () and hasattr(value, "item") else value


def rows_of(figures):
    """(head, rows) of a table, each row a name and its values: a row for each figure, and, where figures are by two names, a column
    for every second name that there is, None where a row has none. The head is empty for figures by one name."""
    if not any(isinstance(value, dict) for value in figures.values()):
        return [], [[name, value] for name, value in figures.items()]
    by_two = {name: value if isinstance(value, dict) else {"": value} for name, value in figures.items()}
    columns = list(dict.fromkeys(column for inner in by_two.values() for column in inner))
    return ["", *columns], [
        [name, *(inner.get(column) for column in columns)] for name, inner in by_two.items()
    ]


def jsonable(value):
    """A recipe's figures as JSON can hold them: arrays as lists, names as text; of what it does not know, what Python writes for it."""
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
    """What the run was computed with; no names of machines or folders."""
    blas = np.show_config("dicts")["Build Dependencies"]["blas"]
    return {
        "Python": platform.python_version(), "NumPy": np.__version__, "matrix products by": f"{blas.get('name')} {blas.get('version', '')} {blas_kernels()}".strip(),
        "threads": threads, "system": f"{platform.system()} {platform.machine()}", "byte order": sys.byteorder,
    }  # fmt: skip


# ---------------------------------------------------------------- of a model


def titles(model):
    """{layer: how it is called} for layers of an nn.Sequential, whose names are mere numbers: 0 Linear."""
    modules = dict(model.named_modules())
    return {
        path: f"{path} {type(one).__name__}"
        for path, one in modules.items()
        if path and isinstance(modules.get(path.rpartition(".")[0]), nn.Sequential)
    }


@no_grad()
def activation_scale(recipe, model):
    """{layer: the root mean square of what it hands on} for the first batch, in the order in which the layers first ended: an
    embedding that is used again stands where it was used first. What holds other layers stands where it ended last."""
    with model.evaluating():
        trace = trace_call(lambda: recipe.loss(model, recipe.batch(0)), model, outside=OUTSIDE)
    everywhere, layers = shared(model), {layer_of(path) for path, _ in model.named_modules()}
    scale, layer = {}, None
    for step in trace.steps:
        if step.module != OUTSIDE:
            layer = layer if layer is not None and step.module in everywhere else layer_of(step.module)
            if any(other.startswith(f"{layer}." if layer else "") for other in layers - {layer}):
                scale.pop(layer, None)
            scale[layer] = (step.mean**2 + step.std**2) ** 0.5
    return {layer or "the model itself": size for layer, size in scale.items()}


def shared(model):
    """The paths of modules that stand in several layers, such as one GELU for all: which of them is running, their steps do not say.
    A layer that is itself used in several places is not meant."""
    layers = {}
    for path, module in model.named_modules(remove_duplicate=False):
        layers.setdefault(id(module), set()).add(layer_of(path))
    several = {path for path, module in model.named_modules() if len(layers[id(module)]) > 1}
    return {path for path in several if layer_of(path) not in several}
