"""Make a Step of each node of a graph: a function of arrays with a rule, which locate checks by itself.

The arguments are those of the node, as float64. Where the graph released an argument's values (no rule reads
them), they are recomputed from the nodes before it, oldest first.
"""

import numpy as np

from minigrad import random
from minigrad.engine.graph import Node, name_of, oldest_first
from minigrad.engine.recompute import recomputed
from minigrad.engine.table import RULES, KernelRow, Row
from minigrad.engine.tensor import Tensor
from minigrad.gradcheck.diagnosis.evidence import Evidence, sum_to
from minigrad.gradcheck.diagnosis.numbers import only_float32
from minigrad.gradcheck.judging import judge
from minigrad.gradcheck.numeric import EPS, TOLERANCE, flat, relative_error, slopes, values_around
from minigrad.modes import no_grad

# an argument whose slope along a direction is wrong is checked entry by entry if it has at most this many
LARGEST = 20_000

SYMMETRIC = {np.linalg.cholesky}  # functions of symmetric matrices: their two halves move together


def steps_of(starts):
    """Return the Steps of nodes and their ancestors, oldest first; a checkpoint follows its inner steps."""
    values, steps = {}, []
    for node in oldest_first(starts):
        if node.fun is recomputed:
            step = Rerun(node)
            steps += step.inner_steps()
        else:
            step = Step(node, tuple(_value(arg, values) for arg in node.args))
        values[node] = step.value
        steps.append(step)
    return steps


def _value(arg, values):
    """Return the value of an argument, in float64."""
    if isinstance(arg, Node):
        return values[arg]
    if isinstance(arg, Tensor):
        arg = arg.data
    if isinstance(arg, (np.dtype, type)) and np.dtype(arg).kind == "f":
        return np.dtype(np.float64)  # a cast to float32 would leave only rounding noise
    return arg.astype(np.float64) if isinstance(arg, np.ndarray) and arg.dtype.kind == "f" else arg


class Several(tuple):
    """The values of a function that returns several, with the `shape` that rules of the table expect."""

    @property
    def shape(self):
        return tuple(self)

    dtype = None


class Step:
    """One call fun(*args), and the row of its rules."""

    def __init__(self, node, args):
        self.node, self.args, self.row = node, args, RULES[node.fun]
        self.positions = [i for i, needed in enumerate(node.needs) if needed]
        self.value = self.run(args)[0]

    @property
    def name(self):
        return name_of(self.node.fun)

    def run(self, args):
        """Call the function. Returns (value, saved); the value is an array, or Several."""
        out = self.node.fun(*args, **self.node.kwargs)
        y, saved = out if isinstance(self.row, KernelRow) else (out, None)
        return (Several(map(np.asarray, y)) if isinstance(y, tuple) else np.asarray(y)), saved

    def outputs(self, args=None):
        """Return the values that can carry a gradient."""
        y = self.value if args is None else self.run(args)[0]
        return [part for part in (y if isinstance(y, Several) else [y]) if part.dtype.kind == "f"]

    def gradient(self, i, g, y, args):
        """Call the rule of argument i. Returns its gradient as an array; several parts are concatenated."""
        value, saved = self.run(self.args) if isinstance(self.row, KernelRow) else (self.value, None)
        if isinstance(value, Several):
            incoming, given = iter(g), iter(y)
            g = tuple(next(incoming) if part.dtype.kind == "f" else np.zeros_like(part) for part in value)
            y = Several(next(given) if part.dtype.kind == "f" else part for part in value)
        else:
            g, y = g[0], y[0]
        needs = tuple(j == i for j in range(len(args)))
        node = Node(self.node.fun, args, self.node.kwargs, needs, y, [0], value.shape, value.dtype, saved)
        return _as_array(self.row.vjp(node, g, y, list(args), needs)[i], self.args[i])

    def other_rules(self):
        """Return the positions of the arguments with rules of their own; none if one rule serves all."""
        if type(self.row) is Row:
            return range(len(self.row.rules))
        return range(len(self.args)) if isinstance(self.row, KernelRow) else []


def _as_array(gradient, arg):
    if not isinstance(arg, Several):
        return np.asarray(gradient) if isinstance(gradient, (np.generic, float)) else gradient
    return flat(np.zeros(part.shape) if d is None else d for d, part in zip(gradient, arg, strict=True))


class Rerun(Step):
    """A checkpoint, whose function is run again. It reads tensors, so their arrays are changed in place."""

    def __init__(self, node):
        self.node, self.row = node, RULES[node.fun]
        self.run_again, *self.tensors = node.args
        self.args = (None, *(t.data for t in self.tensors))
        movable = [
            t.dtype == np.float64 and (t.node is None or i < len(self.run_again.positions))
            for i, t in enumerate(self.tensors)
        ]
        self.positions = [i + 1 for i, can in enumerate(movable) if can and node.needs[i + 1]]
        self.value = self.run(self.args)[0]

    def inner_steps(self):
        """Return the Steps of the graph that the checkpoint recomputes."""
        values = self._recompute()
        return steps_of([y.node for y in values if isinstance(y, Tensor) and y.node is not None])

    def _recompute(self):
        state = random.get_state()
        try:
            fresh = [
                x.detach().requires_grad_(x.requires_grad)
                for x in self.tensors[: len(self.run_again.positions)]
            ]
            return self.run_again.values(self.run_again.repeat(fresh))
        finally:
            random.set_state(state)

    def run(self, args):
        originals = [t.data.copy() for t in self.tensors]
        try:
            for tensor, array in zip(self.tensors, args[1:], strict=True):
                np.copyto(tensor.data, array)
            with no_grad():
                values = [y.data for y in self._recompute()]
        finally:
            for tensor, array in zip(self.tensors, originals, strict=True):
                np.copyto(tensor.data, array)
        return (Several(values) if self.run_again.several else values[0]), None

    def gradient(self, i, g, y, args):
        return self.row.vjp(
            self.node, tuple(g) if self.run_again.several else g[0], None, None, self.node.needs
        )[i]


# ---------------------------------------------------------------- checking one rule


def examine(step, rng):
    """Return the Results of the arguments whose gradient is wrong.

    One step along a random direction suffices for most; the others are checked entry by entry.
    """
    g, every = [rng.standard_normal(y.shape) for y in step.outputs()], []
    for i in step.positions:
        every.append(_evidence(step, i, g, every))
    suspects = [e for e in every if not _is_right_along_direction(e, step, rng)]
    if not suspects:
        return []
    results = [judge(e, slopes(e.x, _values(step, e), flat(e.g))) for e in every if e.x.size <= LARGEST]
    return [_add_failure(r) for r in results if not r.right() and r.evidence in suspects]


def _evidence(step, i, g, every):
    """Call the rule of one argument, and collect the Evidence for its diagnosis."""
    x, args = step.args[i], step.args
    shape = flat(x).shape if isinstance(x, Several) else np.shape(x)
    words = ("argument", f"the rule of {step.name}")
    e = Evidence(f"argument {i}", None, None, x, g, step.outputs(), args, i, siblings=every, words=words)
    try:
        raw = step.gradient(i, g, e.y, args)
        stretched = _stretch(step, i, raw)
        if stretched is not None:  # then no sum hides what the rule does to each entry
            e.args = (*args[:i], stretched, *args[i + 1 :])
        else:
            raw = _fit(raw, shape)
        e.raw = raw
    except Exception as error:  # a wrong rule may raise anything
        e.failure = error
    e.x = flat(x) if isinstance(x, Several) else np.array(e.args[i])
    e.forward = step.outputs
    e.call = lambda g, y, args: step.gradient(i, g, y, args)
    e.others = [(j, lambda j=j: step.gradient(j, g, e.y, e.args)) for j in step.other_rules() if j != i]
    return e


def _stretch(step, i, raw):
    """Stretch argument i by broadcasting to the shape of its gradient `raw`.

    Returns None if the shapes do not differ by broadcasting, or if the function's value would change.
    """
    x = step.args[i]
    if not (
        isinstance(raw, np.ndarray)
        and isinstance(x, np.ndarray)
        and raw.shape != x.shape
        and _fit(raw, x.shape) is not raw
    ):
        return None
    stretched = np.broadcast_to(x, raw.shape).copy()
    try:
        outputs = step.outputs((*step.args[:i], stretched, *step.args[i + 1 :]))
        same = np.array_equal(flat(outputs), flat(step.outputs()), equal_nan=True)
    except Exception:  # a function that does not broadcast
        return None
    return stretched if same else None


def _add_failure(result):
    """Add the error that a rule raised to its Result."""
    error = result.evidence.failure
    if error is not None:
        result.problem = f"the rule fails: {type(error).__name__}: {error}"
    return result


def _fit(raw, shape):
    """Sum a gradient to its argument's shape, as the engine should; keep it unchanged if it does not fit."""
    summed = sum_to(raw, shape) if isinstance(raw, np.ndarray) and raw.shape != shape else None
    return raw if summed is None else summed


def _values(step, e):
    """Return a function that evaluates the step at the current value of e.x."""

    def values():
        x = e.x
        if isinstance(step.args[e.position], Several):
            parts, start = [], 0
            for part in step.args[e.position]:
                parts.append(x[start : start + part.size].reshape(part.shape))
                start += part.size
            x = Several(parts)
        elif step.node.fun in SYMMETRIC:
            x = (x + x.mT) / 2
        return flat(step.outputs((*step.args[: e.position], x, *step.args[e.position + 1 :])))

    return values


def _is_right_along_direction(e, step, rng):
    """Are the gradient's type, shape and dtype right, and its slope along one random direction?"""
    raw = e.raw
    if (
        not isinstance(raw, np.ndarray)
        or raw.shape != e.x.shape
        or raw.dtype != np.float64
        or only_float32(raw)
    ):
        return False
    direction = rng.standard_normal(e.x.shape)
    with np.errstate(all="ignore"):
        down, up = values_around(e.x, ..., direction, _values(step, e), EPS)
        slope = flat(e.g) @ (up - down) / (2 * EPS)
        return relative_error((raw * direction).sum(), slope, float(np.linalg.norm(raw))) <= TOLERANCE
