"""trace_forward: a forward pass, step by step: what was computed where, in which shapes, at what cost. Knows ops and the names of
modules; nothing of Transformers.

Runs under definitions(), so that what a kernel would do in one go shows as the ops it stands for.
"""

import re
from dataclasses import asdict, dataclass, field
from itertools import groupby

import numpy as np

from minigrad.engine import array_functions
from minigrad.engine.graph import Node, Value, name_of, oldest_first
from minigrad.engine.tensor import Tensor
from minigrad.gradcheck.rule_source import is_elementwise
from minigrad.modes import Mode, current_module, definitions, tracing
from minigrad.nn import Module, Parameter

REDUCTIONS = {np.sum, np.amax, np.amin, np.prod, np.cumsum, np.any, np.all, np.argmax, np.argmin}
REDUCTIONS.add(array_functions.norm)


@dataclass(frozen=True)
class Step:
    """One op of a forward pass.

    module      path of the module that ran it, "" for the outermost     op         its name
    inputs      the shapes of its arguments, () for a number             output     the shape of its value
    weights     for each argument the name of the parameter or buffer that it is, "" if it is none
    parameters  how many numbers it reads of parameters
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

    A module does what its mode says: in training, as it is after it was made, dropout is among the steps; after .eval() not.
    """
    return trace_call(fun, fun if isinstance(fun, Module) else None, *inputs, values=values, **kwargs)


def trace_call(fun, model, *inputs, values=False, outside="", **kwargs):
    """trace_forward of a function that calls `model` (None if there is none): the steps bear the names of the model's modules.

    outside  the name for steps that no module ran, such as "the loss"
    """
    modules = (
        {id(m): (path, type(m).__name__) for path, m in model.named_modules()} if model is not None else {}
    )
    named = (*model.named_buffers(), *model.named_parameters()) if model is not None else ()
    held = {_address(t.data): (name, isinstance(t, Parameter)) for name, t in named}
    steps = []

    def note(op, arrays, out):
        running = current_module.get()
        path = outside if running is None else modules.get(id(running), ("",))[0]
        steps.append(_step(path, op, _inputs(op, arrays), out.data, held, values))

    with definitions(), Mode(tracing, note):
        fun(*inputs, **kwargs)
    return Trace(steps, dict(modules.values()), model)


def _step(path, op, arrays, value, held, keep_value):
    """held  {address: (name, does it train?)} of the model's parameters and buffers"""
    found = [held.get(_address(a), ("", False)) if isinstance(a, np.ndarray) else ("", False) for a in arrays]
    is_view = any(isinstance(a, np.ndarray) and np.may_share_memory(a, value) for a in arrays)
    read = 0 if is_view else sum(a.size for a, (_, trains) in zip(arrays, found, strict=True) if trains)
    finite = value[np.isfinite(value)].astype(np.float64)  # masked scores are -inf
    mean, std = (float(finite.mean()), float(finite.std())) if finite.size else (0.0, 0.0)
    return Step(
        path, name_of(op), tuple(map(np.shape, arrays)), tuple(name for name, _ in found), value.shape, str(value.dtype), read, flops(op, arrays, value),
        0 if is_view else value.nbytes, mean, std, value.copy() if keep_value else None,
    )  # fmt: skip


def _inputs(op, args):
    """The arguments that are values, not settings such as an axis: arrays, and for elementwise functions numbers too."""
    kinds = (np.ndarray, np.generic, float, int) if is_elementwise(op) else (np.ndarray,)
    return [a for a in _flat(args) if isinstance(a, kinds)]


def flops(op, arrays, value):
    """Floating-point operations, counted as papers do: a matrix product (m, k) @ (k, n) is 2 m k n; an elementwise function one
    for each number of its value, whatever the function; a sum or maximum one for each number of its argument; moving and
    choosing numbers, comparing them, and linalg's factorizations (which are not counted) none."""
    if op is np.matmul:
        return 2 * value.size * np.shape(arrays[0])[-1]
    if op in REDUCTIONS:
        return int(np.size(arrays[0]))
    return value.size if value.dtype.kind == "f" and is_elementwise(op) and op is not np.where else 0


LEGEND = """· is one op, a row without it a module, (again) one that ran before. No FLOPs: numbers are only moved, chosen or compared. No bytes:
a view, nothing is copied. 1 among the inputs is a number. mean and std are of the value, masked scores (-inf) left out.
Shown are the readable definitions; in training, fused kernels do the same in fewer steps."""


class Trace:
    """The steps of a forward pass, in order. Prints as a tree; `trace["h.0.attn"]` is the part of one module."""

    def __init__(self, steps, kinds, model=None):
        self.steps, self.kinds, self._model = steps, kinds, model
        # the module that all steps ran in; they themselves, in parts if others ran meanwhile
        self.root, self._runs = "", [steps]

    def __getitem__(self, path):
        """The part of the module with that path, counted from the model also where this is a part already."""
        split = (
            groupby(run, lambda step: step.module == path or step.module.startswith(path + "."))
            for run in self._runs
        )
        runs = [list(group) for parts in split for inside, group in parts if inside]
        if not runs:
            known = ", ".join(
                dict.fromkeys(_next_name(step.module, "") for step in self.steps if step.module)
            )
            raise KeyError(
                f"no step ran in a module {path!r}; the outermost ones are {known or 'none'} (more levels: --depth, text(depth))."
            )
        part = Trace([step for run in runs for step in run], self.kinds, self._model)
        part.root, part._runs = path, runs
        return part

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
        rows, met = [("", "in", "out", "params", "FLOPs", "bytes", "mean", "std")], set()
        for run in self._runs:
            if self.root:
                rows.append(self._heading(run, self.root, self.root, met))
            rows += self._inside(run, self.root, 1 if self.root else 0, depth, met)
        where = f" in {self.root}" if self.root else ""
        total = f"{len(self.steps)} steps{where}, {amount(self.flops).strip()} FLOPs, {amount(self.bytes)}B of values"
        return "\n".join([*_table(rows), "", LEGEND, "", total])

    __str__ = text

    def _inside(self, steps, path, level, depth, met):
        """The rows of what ran in the module `path`, so many levels of it opened; met: the modules that have a row already."""
        for name, group in groupby(steps, lambda step: _next_name(step.module, path)):
            group = list(group)
            if not name:
                yield from (_step_row(step, level) for step in group)
                continue
            inner = f"{path}.{name}" if path else name
            yield self._heading(group, inner, "  " * level + name, met)
            if depth is None or depth > 1:
                yield from self._inside(group, inner, level + 1, depth and depth - 1, met)

    def _heading(self, steps, path, title, met):
        last, again = steps[-1], " (again)" * (path in met)
        met.add(path)
        costs = (amount(sum(step.flops for step in steps)), amount(sum(step.bytes for step in steps)))
        title = f"{title} {self.kinds.get(path, '')}".rstrip() + again
        return (
            title,
            _shape(_comes_in(steps)),
            _shape(last.output),
            self._parameters(path),
            *costs,
            _figure(last.mean),
            _figure(last.std),
        )

    def _parameters(self, path):
        """How many numbers train in a module, each once, whether or not a step of the pass used them."""
        inside = dict(self._model.named_modules()).get(path) if self._model is not None else None
        return amount(sum(p.numel() for p in inside.parameters())) if inside is not None else ""


def _table(rows):
    """Lines with the first column flush left and the others flush right, each as wide as its longest cell."""
    first, *others = (max(map(len, column)) for column in zip(*rows, strict=True))
    for title, *cells in rows:
        yield (
            f"{title:{first}s}"
            + "".join(f"  {cell:>{width}s}" for cell, width in zip(cells, others, strict=True))
        ).rstrip()


def _step_row(step, level):
    weights = [name.rpartition(".")[2] for name in step.weights if name]
    title = "  " * level + "· " + step.op + (f" ({', '.join(weights)})" if weights else "")
    costs = (amount(n) if n else "" for n in (step.parameters, step.flops, step.bytes))
    return title, _shapes(step.inputs), _shape(step.output), *costs, _figure(step.mean), _figure(step.std)


def _next_name(path, above):
    """The name of the module right inside `above` on the way to `path`, "" if they are one; a number with the list it counts in:
    h.0 on the way to h.0.attn."""
    rest = path[len(above) + 1 :] if above else path
    return re.split(r"\.(?!\d+(?:\.|$))", rest)[0]


def _comes_in(steps):
    """The shape of the first argument that is no parameter, no buffer and no number: the data."""
    shapes = (
        shape
        for step in steps
        for shape, name in zip(step.inputs, step.weights, strict=True)
        if shape and not name
    )
    return next(shapes, ())


def _shapes(shapes):
    """All of them, or, where these are many or long, how many and of what."""
    text = " ".join(map(_shape, shapes))
    if len(text) <= 28:
        return text
    return (
        f"{len(shapes)} of {_shape(shapes[0])}"
        if len(set(shapes)) == 1
        else f"{_shape(shapes[0])} ... ({len(shapes)})"
    )


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
    nodes = oldest_first([y])
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
