"""Helpers of the engine's tests. Know how to walk a graph and how to put another rule into the table for a while."""

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
    """Every node behind some tensors, oldest first."""
    return sorted(nodes_behind(outputs), key=lambda node: node.birth)


def functions(*outputs):
    """The functions that were recorded on the way to some tensors."""
    return {node.fun for node in nodes(*outputs)}


@contextlib.contextmanager
def row_of(fun, row):
    """The table with another row for `fun`; a row of None takes it out."""
    before = RULES.get(fun)
    try:
        RULES.pop(fun, None) if row is None else RULES.__setitem__(fun, row)
        yield
    finally:
        RULES.pop(fun, None) if before is None else RULES.__setitem__(fun, before)


def leaf_of(numbers, dtype=np.float64):
    """A tensor of these numbers that requires its gradient."""
    return mg.tensor(np.array(numbers, dtype=dtype), requires_grad=True)


def slope(fun, *numbers):
    """The gradients of sum(fun(...)) at plain numbers or lists, as lists or numbers."""
    leaves = [leaf_of(n) for n in numbers]
    found = [g.tolist() for g in mg.grad(fun(*leaves).sum(), leaves)]
    return found[0] if len(found) == 1 else found


def in_thread(fun):
    """What fun() returns in another thread."""
    results = []
    thread = threading.Thread(target=lambda: results.append(fun()))
    thread.start()
    thread.join()
    return results[0]


def exists(name):
    """Does a dotted name, of a module or in one, exist?"""
    first, *rest = name.split(".")
    path = {"F": "minigrad.nn.functional", "nn": "minigrad.nn", "optim": "minigrad.optim"}.get(first, first)
    thing = importlib.import_module(path)
    for part in rest:
        path = f"{path}.{part}"
        if not hasattr(thing, part) and not importlib.util.find_spec(path):
            return False
        thing = getattr(thing, part) if hasattr(thing, part) else importlib.import_module(path)
    return True
