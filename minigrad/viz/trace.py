"""trace_forward(): record a forward pass step by step, with the module, shapes and cost of each op.

The pass runs under definitions(), so that a fused kernel shows as the ops it stands for.
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

    module      path of the module that ran the op, "" for the outermost
    op          name of the op
    inputs      shapes of the arguments, () for a scalar
    weights     for each argument the name of the parameter or buffer it is, "" if it is none
    output      shape of the value
    dtype       dtype of the value
    parameters  number of elements read from parameters
    flops       see `flops`
    bytes       new memory for the value; 0 if it is a view of an argument, such as a transpose
    mean, std   of the value's finite elements
    value       the value, if asked for
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
    """Call fun(*inputs, **kwargs), a module or a function of tensors, and record its steps.

    values  True: also keep a copy of each step's value

    Returns a Trace, which prints as a tree. A module runs in its current mode: dropout is among the steps in
    training mode, which is a new module's mode, and not after .eval().
    """
    return trace_call(fun, fun if isinstance(fun, Module) else None, *inputs, values=values, **kwargs)


def trace_call(fun, model, *inputs, values=False, outside="", **kwargs):
    """Record the steps of a function that calls `model`, and name them after the model's modules.

    model    None if the function calls no model
    outside  name for steps that no module ran, such as "the loss"
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
    """Record one step.

    held  {address: (name, True for a parameter)} of the model's parameters and buffers
    """
    found = [held.get(_address(a), ("", False)) if isinstance(a, np.ndarray) else ("", False) for a in arrays]
    is_view = any(isinstance(a, np.ndarray) and np.may_share_memory(a, value) for a in arrays)
    read = 0 if is_view else sum(a.size for a, (_, trains) in zip(arrays, found, strict=True) if trains)
    finite = value[np.isfinite(value)].astype(np.float64)  # masked scores are -inf
    mean, std = (float(finite.mean()), float(finite.std())) if finite.size else (0.0, 0.0)
    return Step(
        path, name_of(op), tuple(map(np.shape, arrays)), tuple(name for name, _ in found), value.shape,
        str(value.dtype), read, flops(op, arrays, value), 0 if is_view else value.nbytes, mean, std,
        value.copy() if keep_value else None,
    )  # fmt: skip


def _inputs(op, args):
    """Select the arguments that are values, not settings: arrays, and the numbers of elementwise ops."""
    kinds = (np.ndarray, np.generic, float, int) if is_elementwise(op) else (np.ndarray,)
    return [a for a in _flatten(args) if isinstance(a, kinds)]


def flops(op, arrays, value):
    """Count floating-point operations as papers do.

    A matrix product (m, k) @ (k, n) is 2 m k n. Any elementwise function is one per element of its value, a
    sum or maximum one per element of its argument. Moving, selecting and comparing elements is 0. The
    factorizations of linalg are not counted.
    """
    if op is np.matmul:
        return 2 * value.size * np.shape(arrays[0])[-1]
    if op in REDUCTIONS:
        return int(np.size(arrays[0]))
    return value.size if value.dtype.kind == "f" and is_elementwise(op) and op is not np.where else 0


LEGEND = """\
A row with · is one op, a row without it a module; (again) marks a module that ran before. No FLOPs: elements
are only moved, selected or compared. No bytes: the value is a view, nothing is copied. Input 1: a scalar.
mean and std are those of the value, without masked scores (-inf). The table shows the readable definitions;
in training, fused kernels compute the same in fewer steps."""


class Trace:
    """The steps of a forward pass, in order.

    Prints as a tree; `trace["h.0.attn"]` is the part of one module.
    """

    def __init__(self, steps, kinds, model=None):
        self.steps, self.kinds, self._model = steps, kinds, model
        # root: the module that all steps ran in; _runs: its steps, split where other modules ran in between
        self.root, self._runs = "", [steps]

    def __getitem__(self, path):
        """The part of one module. Its path starts at the model, even if this trace is already a part."""
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
                f"no step ran in a module {path!r}; the outermost ones are {known or 'none'} "
                "(more levels: --depth, text(depth))."
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
        """Bytes of all values together. Not all of them exist at the same time."""
        return sum(step.bytes for step in self.steps)

    def rows(self):
        """The steps as dicts, for a table or a file."""
        return [{key: value for key, value in asdict(step).items() if key != "value"} for step in self.steps]

    def text(self, depth=None):
        """Format the tree, down to modules of level `depth` (1: the outermost only). None: every step."""
        rows, met = [("", "in", "out", "params", "FLOPs", "bytes", "mean", "std")], set()
        for run in self._runs:
            if self.root:
                rows.append(self._heading(run, self.root, self.root, met))
            rows += self._inside(run, self.root, 1 if self.root else 0, depth, met)
        where = f" in {self.root}" if self.root else ""
        total = (
            f"{len(self.steps)} steps{where}, {amount(self.flops).strip()} FLOPs, "
            f"{amount(self.bytes)}B of values"
        )
        return "\n".join([*_table(rows), "", LEGEND, "", total])

    __str__ = text

    def _inside(self, steps, path, level, depth, met):
        """Yield the rows of what ran in the module `path`, with `depth` levels opened.

        met: the modules that already have a row
        """
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
            _shape(_input_shape(steps)),
            _shape(last.output),
            self._parameters(path),
            *costs,
            _figure(last.mean),
            _figure(last.std),
        )

    def _parameters(self, path):
        """Count the trainable parameters of a module, each once, even if no step of the pass used them."""
        inside = dict(self._model.named_modules()).get(path) if self._model is not None else None
        return amount(sum(p.numel() for p in inside.parameters())) if inside is not None else ""


def _table(rows):
    """Format rows as lines. The first column is left-aligned, the others right-aligned."""
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
    """The name of the module directly inside `above` on the way to `path`, "" if they are the same.

    An index stays with the name of its list: h.0 on the way to h.0.attn.
    """
    rest = path[len(above) + 1 :] if above else path
    return re.split(r"\.(?!\d+(?:\.|$))", rest)[0]


def _input_shape(steps):
    """The shape of the first argument that is no parameter, buffer or scalar: the input data."""
    shapes = (
        shape
        for step in steps
        for shape, name in zip(step.inputs, step.weights, strict=True)
        if shape and not name
    )
    return next(shapes, ())


def _shapes(shapes):
    """Format several shapes. A long list is abbreviated to the first shape and their count."""
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
    """Format 12,345,678 as "12.3 M"."""
    for factor, unit in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if n >= factor:
            return f"{n / factor:.3g} {unit}"
    return f"{n} "


def _address(array):
    return array.__array_interface__["data"][0]


def _flatten(args):
    for arg in args:
        if isinstance(arg, (list, tuple)):
            yield from _flatten(arg)
        else:
            yield arg.data if isinstance(arg, Tensor) else arg


def kept_for_backward(y):
    """Count the bytes of the arrays that the graph behind y keeps alive.

    Each buffer counts once. Leaves (parameters, inputs) do not count.
    """
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
    """Yield every array inside nested tuples, lists and dicts, and the array of each tensor."""
    for thing in things:
        if isinstance(thing, np.ndarray):
            yield thing
        elif isinstance(thing, Value):
            yield thing.data
        elif isinstance(thing, (tuple, list)) and not isinstance(thing, Node):
            yield from _arrays(thing)
        elif isinstance(thing, dict):
            yield from _arrays(thing.values())
