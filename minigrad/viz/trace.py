"""trace_forward: a forward pass, step by step: what was computed where, in which shapes, at what cost. Knows ops and the names of
modules; nothing of Transformers.

Runs under definitions(), so that what a kernel would do in one go shows as the ops it stands for.
"""

import re
from dataclasses import asdict, dataclass, field
from itertools import groupby

import numpy as np

from minigrad import primitives
from minigrad._tensor import Tensor
from minigrad.autograd import Node, Value, name_of, oldest_first
from minigrad.modes import Mode, current_module, definitions, tracing
from minigrad.nn import Module

REDUCTIONS = {np.sum, np.amax, np.amin, np.prod, np.cumsum, np.any, np.all, np.argmax, np.argmin, primitives.norm}
ELEMENTWISE = {primitives.sigmoid, primitives.erf, primitives.erfc, primitives.softplus, primitives.relu, primitives.quotient}


@dataclass(frozen=True)
class Step:
    """One op of a forward pass.

    module      path of the module that ran it, "" for the outermost     op         its name
    inputs      the shapes of its arguments, () for a number             output     the shape of its value
    weights     for each argument the parameter's name, "" if it is none parameters how many numbers it reads of them
    flops       see `flops`                                              value      the value, if asked for
    bytes       of new memory its value takes; 0 where it is a view of an argument, such as a transpose
    mean, std   of its value, its finite numbers only
    """

    module: str
    op: str
    inputs: tuple
    weights: tuple
    output: tuple
    dtype: str
    parameters: int
    flops: int
    bytes: int
    mean: float
    std: float
    value: np.ndarray | None = field(default=None, repr=False, compare=False)


def trace_forward(fun, *inputs, values=False, **kwargs):
    """Call fun(*inputs, **kwargs), a module or a function of tensors, and tell what it did: a Trace, which prints as a tree.

    values  keep a copy of each step's value too
    """
    return trace_call(fun, fun if isinstance(fun, Module) else None, *inputs, values=values, **kwargs)


def trace_call(fun, model, *inputs, values=False, **kwargs):
    """trace_forward of a function that calls `model` (None if there is none): the steps bear the names of the model's modules."""
    modules = {id(m): (path, type(m).__name__) for path, m in model.named_modules()} if model is not None else {}
    names = {_address(p.data): name for name, p in model.named_parameters()} if model is not None else {}
    steps = []

    def note(op, arrays, out):
        path, _ = modules.get(id(current_module.get()), ("", ""))
        steps.append(_step(path, op, _inputs(op, arrays), out.data, names, values))

    with definitions(), Mode(tracing, note):
        fun(*inputs, **kwargs)
    return Trace(steps, dict(modules.values()), model)


def _step(path, op, arrays, value, names, keep_value):
    weights = tuple(names.get(_address(a), "") if isinstance(a, np.ndarray) else "" for a in arrays)
    is_view = any(isinstance(a, np.ndarray) and np.may_share_memory(a, value) for a in arrays)
    read = 0 if is_view else sum(a.size for a, name in zip(arrays, weights, strict=True) if name)
    finite = value[np.isfinite(value)].astype(np.float64)  # masked scores are -inf
    mean, std = (float(finite.mean()), float(finite.std())) if finite.size else (0.0, 0.0)
    return Step(
        path, name_of(op), tuple(map(np.shape, arrays)), weights, value.shape, str(value.dtype), read, flops(op, arrays, value),
        0 if is_view else value.nbytes, mean, std, value.copy() if keep_value else None,
    )  # fmt: skip


def _inputs(op, args):
    """The arguments that are values, not settings such as an axis: arrays, and for elementwise functions numbers too."""
    kinds = (np.ndarray, np.generic, float, int) if isinstance(op, np.ufunc) or op is np.where else (np.ndarray,)
    return [a for a in _flat(args) if isinstance(a, kinds)]


def flops(op, arrays, value):
    """Floating-point operations, counted as papers do: a matrix product (m, k) @ (k, n) is 2 m k n; an elementwise function one
    for each number of its value, whatever the function; a sum or maximum one for each number of its argument; moving and
    choosing numbers, comparing them, and linalg's factorizations (which are not counted) none."""
    if op is np.matmul:
        return 2 * value.size * np.shape(arrays[0])[-1]
    if op in REDUCTIONS:
        return int(np.size(arrays[0]))
    floats = value.dtype.kind == "f"
    return value.size if floats and (isinstance(op, np.ufunc) or op in ELEMENTWISE) else 0


class Trace:
    """The steps of a forward pass, in order. Prints as a tree; `trace["h.0.attn"]` is the part of one module."""

    def __init__(self, steps, kinds, model=None):
        self.steps, self.kinds, self._model = steps, kinds, model

    def __getitem__(self, path):
        inside = [step for step in self.steps if step.module == path or step.module.startswith(path + ".")]
        if not inside:
            known = ", ".join(dict.fromkeys(name for step in self.steps for name in _names(step.module)[:1]))
            raise KeyError(f"no step ran in a module {path!r}; the outermost ones are {known or 'none'} (more levels: --depth, text(depth)).")
        return Trace(inside, self.kinds, self._model)

    def __len__(self):
        return len(self.steps)

    @property
    def flops(self):
        return sum(step.flops for step in self.steps)

    @property
    def bytes(self):
        """Of all values together; not all of them live at once."""
        return sum(step.bytes for step in self.steps)

    def rows(self):
        """The steps as dicts, for a table or a file."""
        return [{key: value for key, value in asdict(step).items() if key != "value"} for step in self.steps]

    def text(self, depth=None):
        """The tree, down to modules that many levels inside (1: the outermost ones only); None: every step."""
        lines = [_LINE.format("", "in", "out", "params", "FLOPs", "bytes", "mean", "std")]
        lines += self._lines(self.steps, (), depth)
        total = f"{len(self.steps)} steps, {amount(self.flops)} FLOPs, {amount(self.bytes)}B of values"
        return "\n".join([*(line.rstrip() for line in lines), total])

    __str__ = text

    def _lines(self, steps, above, depth):
        level = len(above)
        for name, group in groupby(steps, lambda step: _names(step.module)[level : level + 1]):
            group = list(group)
            if name:
                yield self._heading(group, (*above, *name))
                if depth is None or level + 1 < depth:
                    yield from self._lines(group, (*above, *name), depth)
            elif depth is None or level < depth:
                yield from (_step_line(step, level) for step in group)

    def _heading(self, group, names):
        path, last = ".".join(names), group[-1]
        title = f"{'  ' * (len(names) - 1)}{names[-1]} {self.kinds.get(path, '')}"
        figures = (amount(sum(step.flops for step in group)), amount(sum(step.bytes for step in group)))
        return _LINE.format(title, _shape(_comes_in(group)), _shape(last.output), self._parameters(path), *figures, _figure(last.mean), _figure(last.std))

    def _parameters(self, path):
        """How many numbers train in a module, each once, whether or not a step of the pass used them."""
        inside = dict(self._model.named_modules()).get(path) if self._model is not None else None
        return amount(sum(p.numel() for p in inside.parameters())) if inside is not None else ""


_LINE = "{:40.40s} {:>28s} {:>16s} {:>8s} {:>8s} {:>8s} {:>9s} {:>9s}"


def _step_line(step, level):
    weights = [name.rpartition(".")[2] for name in step.weights if name]
    title = "  " * level + "· " + step.op + (f" ({', '.join(weights)})" if weights else "")
    given = " ".join(map(_shape, step.inputs))
    costs = (amount(n) if n else "" for n in (step.parameters, step.flops, step.bytes))
    return _LINE.format(title, given, _shape(step.output), *costs, _figure(step.mean), _figure(step.std))


def _names(path):
    """The path's parts, a number with the list it counts in: h.0.attn -> h.0, attn."""
    return tuple(re.split(r"\.(?!\d+(?:\.|$))", path)) if path else ()


def _comes_in(steps):
    """The shape of the first argument that is no parameter, nor a number."""
    shapes = (shape for step in steps for shape, name in zip(step.inputs, step.weights, strict=True) if shape and not name)
    return next(shapes, ())


def _shape(shape):
    return "x".join(map(str, shape)) or "1"


def _figure(x):
    return f"{x:.3g}"


def amount(n):
    """12,345,678 as "12.3 M"."""
    for factor, unit in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if n >= factor:
            return f"{n / factor:.3g} {unit}"
    return f"{n} "


def _address(array):
    return array.__array_interface__["data"][0]


def _flat(args):
    for arg in args:
        if isinstance(arg, (list, tuple)):
            yield from _flat(arg)
        else:
            yield arg.data if isinstance(arg, Tensor) else arg


def kept_for_backward(y):
    """Bytes of the arrays that the graph behind y holds on to, each buffer once, leaves (parameters, inputs) left out."""
    nodes = oldest_first([y.node]) if y.node is not None else []
    leaves = {_address(p.data) for node in nodes for p in node.parents if isinstance(p, Value)}
    held = {}
    for node in nodes:
        for array in _arrays((node.args, node.y, node.saved, tuple(node.kwargs.values()))):
            owner = array
            while isinstance(owner.base, np.ndarray):
                owner = owner.base
            held[_address(owner)] = owner.nbytes
    return sum(size for address, size in held.items() if address not in leaves)


def _arrays(things):
    """Every array inside nested tuples and lists, tensors' own too."""
    for thing in things:
        if isinstance(thing, np.ndarray):
            yield thing
        elif isinstance(thing, Value):
            yield thing.data
        elif isinstance(thing, (tuple, list)) and not isinstance(thing, Node):
            yield from _arrays(thing)
        elif isinstance(thing, dict):
            yield from _arrays(thing.values())
