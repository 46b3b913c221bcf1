"""Helpers of the engine's tests: walk a graph, replace a rule of the table for a while, make leaves."""

import contextlib
import importlib.util
import threading
from pathlib import Path

import numpy as np

import minigrad as mg
from minigrad.engine.graph import nodes_behind
from minigrad.engine.table import RULES

ROOT = Path(__file__).parents[2]


def nodes(*outputs):
    """List every node behind some tensors, oldest first."""
    return sorted(nodes_behind(outputs), key=lambda node: node.birth)


def functions(*outputs):
    """The set of functions that were recorded behind some tensors."""
    return {node.fun for node in nodes(*outputs)}


@contextlib.contextmanager
def row_of(fun, row):
    """Replace the table's row for `fun` inside the block. None removes it."""
    before = RULES.get(fun)
    try:
        RULES.pop(fun, None) if row is None else RULES.__setitem__(fun, row)
        yield
    finally:
        RULES.pop(fun, None) if before is None else RULES.__setitem__(fun, before)


def leaf_of(numbers, dtype=np.float64):
    """A tensor with these elements that requires a gradient."""
    return mg.tensor(np.array(numbers, dtype=dtype), requires_grad=True)


def slope(fun, *numbers):
    """Compute the gradients of sum(fun(...)) at numbers or lists. Returns numbers or lists."""
    leaves = [leaf_of(n) for n in numbers]
    found = [g.tolist() for g in mg.grad(fun(*leaves).sum(), leaves)]
    return found[0] if len(found) == 1 else found


def in_thread(fun):
    """Run fun() in another thread and return its result."""
    results = []
    thread = threading.Thread(target=lambda: results.append(fun()))
    thread.start()
    thread.join()
    return results[0]


def exists(name):
    """Return whether a dotted name, of a module or inside one, exists."""
    first, *rest = name.split(".")
    path = {"F": "minigrad.nn.functional", "nn": "minigrad.nn", "optim": "minigrad.optim"}.get(first, first)
    thing = importlib.import_module(path)
    for part in rest:
        path = f"{path}.{part}"
        if not hasattr(thing, part) and not importlib.util.find_spec(path):
            return False
        thing = getattr(thing, part) if hasattr(thing, part) else importlib.import_module(path)
    return True
