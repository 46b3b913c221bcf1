"""checkpoint(fun, *args): keep nothing from inside fun, and compute it again when a gradient is needed.

This trades time for memory (Chen et al. 2016): a stack of n layers, each checkpointed, keeps n inputs instead
of all values inside the layers.
"""

import numpy as np

from minigrad import random
from minigrad.engine.backward import gradients_of
from minigrad.engine.graph import Node, clock, oldest_first
from minigrad.engine.recording import apply
from minigrad.engine.table import RULES
from minigrad.engine.tensor import Tensor
from minigrad.modes import enable_grad, is_grad_enabled


def checkpoint(fun, *args, **kwargs):
    """Return fun(*args, **kwargs), with gradients for the arguments and for what else fun uses (parameters).

    For the second run the random streams are set back, so that dropout repeats its masks. fun must compute
    the same both times. Raises TypeError if fun returns neither a tensor nor a tuple of tensors.
    """
    if not is_grad_enabled():
        return fun(*args, **kwargs)
    run = _Run(fun, args, kwargs)
    tensors = [arg for arg in args if isinstance(arg, Tensor)]
    began = next(clock)
    with enable_grad():
        inside = [x.detach().requires_grad_(x.requires_grad) for x in tensors]
        run.value = run(inside)
    run.state = random.moved_since(run.state)
    run.several = isinstance(run.value, tuple)
    if not all(isinstance(y, Tensor) for y in run.values(run.value)):
        raise TypeError(
            f"checkpoint: the function must return a tensor or a tuple of tensors, got {_kinds(run.value)}."
        )
    return apply(recomputed, run, *tensors, *_used_from_outside(run.values(run.value), inside, began))


def _kinds(value):
    inside = f" of {', '.join(type(y).__name__ for y in value)}" if isinstance(value, tuple) else ""
    return type(value).__name__ + inside


class _Run:
    """One call: the function, its arguments, and the positions of the random streams."""

    def __init__(self, fun, args, kwargs):
        self.fun, self.kwargs, self.state = fun, kwargs, random.get_state()["streams"]
        self.args = [None if isinstance(arg, Tensor) else arg for arg in args]
        self.positions = [i for i, arg in enumerate(args) if isinstance(arg, Tensor)]

    def __call__(self, tensors):
        args = list(self.args)
        for position, tensor in zip(self.positions, tensors, strict=True):
            args[position] = tensor
        return self.fun(*args, **self.kwargs)

    def values(self, value):
        return value if self.several else (value,)

    def repeat(self, tensors):
        """Call fun again with the random streams as they were in the first run; afterwards restore them."""
        now = random.get_state()["streams"]
        random.set_positions(self.state)
        try:
            return self(tensors)
        finally:
            random.set_positions({name: now[name] for name in self.state})


def _used_from_outside(values, inside, began):
    """List what the values depend on besides the arguments: leaves, and values older than the call."""
    nodes = [node for node in oldest_first(values) if node.birth > began]
    found, arguments = {}, {id(x) for x in inside}
    for parent in (parent for node in nodes for parent in node.parents if parent is not None):
        if type(parent) is not Node:
            found[id(parent)] = parent
        elif parent.birth < began:
            found[id(parent)] = _placeholder(parent)
    return [tensor for key, tensor in found.items() if key not in arguments]


def _placeholder(node):
    """A Tensor at this node of the graph whose elements nobody will read."""
    out = Tensor(np.broadcast_to(np.zeros((), node.dtype), node.shape))
    out.node, out._requires_grad, out.writes = node, True, node.writes
    return out


def recomputed(run, *arrays):
    """Return the value of the first run and drop its history."""
    values, run.value = run.value, None
    return tuple(y.data for y in values) if run.several else values.data


class _RecomputeRow:
    """The rule: run again, recording, and differentiate that."""

    def __init__(self):
        self.reads_by_needs = {}

    def reads(self, needs):
        return (False, *(True for _ in needs))

    def vjp(self, node, g, y, args, needs):
        run, *tensors = node.args
        seeds = g if type(g) is tuple else (g,)
        higher = isinstance(seeds[0], Tensor)
        inputs, outside = tensors[: len(run.positions)], tensors[len(run.positions) :]
        with enable_grad():
            fresh = [_alias(x, higher and needed) for x, needed in zip(inputs, needs[1:], strict=False)]
            values = run.values(run.repeat(fresh))
        wanted = [x for x, needed in zip([*fresh, *outside], needs[1:], strict=True) if needed]
        outputs, seeds = zip(
            *((y, s) for y, s in zip(values, seeds, strict=True) if y.requires_grad), strict=True
        )
        # do not release the graph before fun; its hooks are called when the gradients get there
        found = iter(gradients_of(outputs, wanted, seeds, True, higher, run_hooks=False))
        return [next(found) if needed else None for needed in needs]


def _alias(x, recorded):
    """Return x for the second run: a recorded alias if the gradient must have a gradient, else a new leaf."""
    return apply(np.reshape, x, x.shape) if recorded else x.detach().requires_grad_(x.requires_grad)


RULES[recomputed] = _RecomputeRow()
