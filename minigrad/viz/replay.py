"""Replay the history of a value for drawings and the stepper: each op's value, each step of the reverse pass.

The engine keeps only the arrays that the rules read, so values are computed again here. The reverse pass is
the engine's own, observed by a callback.
"""

import contextlib
from dataclasses import dataclass, field

import numpy as np

from minigrad.engine import table
from minigrad.engine.backward import seed_of
from minigrad.engine.graph import Node, Value, oldest_first, take_item
from minigrad.engine.recompute import recomputed
from minigrad.engine.reverse_pass import pull_back
from minigrad.engine.tensor import Tensor


@dataclass(eq=False)
class Vertex:
    """A value in the history: a leaf, a constant (array or number) passed to an op, or the result of an op.

    kind      "leaf" (it requires a gradient), "constant", "op"
    name      name of the op, or of the leaf in the model
    value     an array, or a tuple of arrays
    module    the nn.Module that was running, for an op
    parents   the vertices of an op's arguments, in order
    node      the engine's own record, for an op
    gradient  gradient of the root with respect to this value, None if none arrives
    """

    kind: str
    name: str
    value: object
    module: object = None
    parents: list = field(default_factory=list)
    node: object = None
    gradient: object = None

    @property
    def shape(self):
        return tuple(v.shape for v in self.value) if isinstance(self.value, tuple) else np.shape(self.value)


@dataclass(eq=False)
class Share:
    """The gradient that a step of the reverse pass sent to one parent.

    raw     as returned by the rule
    sent    after broadcasting was undone, in the parent's shape
    before  the parent's gradient so far, to which this share was added; None if it is the first
    """

    parent: Vertex
    raw: object
    sent: object
    before: object

    @property
    def summed(self):
        """True if undoing the broadcast summed over an axis."""
        return isinstance(self.raw, np.ndarray) and self.raw.shape != self.sent.shape


@dataclass(eq=False)
class Step:
    """A step of the reverse pass: an op, the complete gradient `g` of its value, the shares it sends."""

    vertex: Vertex
    g: object
    shares: list


def replay(root, model=None, gradient=None):
    """Replay the history of a tensor. Returns (vertices, oldest first; steps of the reverse pass, in order).

    model     leaves get the names of its parameters
    gradient  to start from, in the root's shape; optional for a scalar

    The history is not freed, no `.grad` is changed, and hooks are called. Raises ValueError if the tensor has
    no history, and the engine's RuntimeError if the history was freed by an earlier backward().
    """
    if not isinstance(root, Tensor) or root.node is None:
        raise ValueError(
            "There is no history to show: give a tensor that was computed from tensors that require a "
            "gradient (requires_grad=True)."
        )
    seed = seed_of(root, gradient).data
    with np.errstate(all="ignore"):  # NumPy warned when these values were computed first
        vertices = _forward(oldest_first([root]), _names(model))
        steps = _backward(vertices, root.node, seed)
    return [*vertices.values()], steps


def _names(model):
    return {id(p): name for name, p in model.named_parameters()} if model is not None else {}


def _forward(nodes, names):
    """Map each node, leaf and constant (by its id) to a vertex, oldest first."""
    vertices = {}
    for node in nodes:
        parents = [_argument(arg, place, node, vertices, names) for place, arg in enumerate(node.args)]
        value = _value(node, [p.value for p in parents])
        vertices[node] = Vertex("op", node.name, value, node.module, parents, node)
    return vertices


def _argument(arg, place, node, vertices, names):
    """Return the vertex of an argument: that of the op that computed it, of a leaf, or of a constant."""
    key = (arg.node or arg) if isinstance(arg, Value) else arg if type(arg) is Node else None
    if key in vertices:
        return vertices[key]
    if isinstance(arg, Value):
        kind = "leaf" if arg.requires_grad else "constant"
        vertices[key] = Vertex(kind, names.get(id(arg), ""), arg.data)
        return vertices[key]
    vertex = Vertex("constant", "", arg)  # a number or an array belongs to this op alone
    if isinstance(arg, np.ndarray):
        vertices[id(node), place] = vertex
    return vertex


def _value(node, arrays):
    """Compute the op's value again, as the engine did."""
    if node.fun is take_item:
        return arrays[0][node.args[1]]
    value = node.y
    if value is None and node.fun is recomputed:
        raise ValueError(
            "The values inside a checkpoint were freed, so they cannot be shown; compute without checkpoint "
            "to see them."
        )
    if value is None:
        value = node.fun(*arrays, **node.kwargs)
        if isinstance(table.RULES[node.fun], table.KernelRow):
            value = value[0]
    if isinstance(value, (tuple, list)):
        return tuple(np.asarray(v) for v in value)
    return np.asarray(value, node.dtype)


def _backward(vertices, root, seed):
    """Run the engine's reverse pass and record every share.

    Sets the gradient of each vertex, returns the steps.
    """
    shares = {key: [] for key in vertices if type(key) is Node}

    def watch(parent, node, raw, sent, before):
        shares[node].append(Share(vertices[parent], raw, sent, before))

    wanted = {key for key in vertices if isinstance(key, (Node, Value))}
    with _restore_grads(shares):
        gradients = pull_back({root: seed}, wanted, retain_graph=True, watch=watch)
    for key, g in gradients.items():
        vertices[key].gradient = g
    return [Step(vertices[node], g, shares[node]) for node, g in gradients.items() if node in shares]


@contextlib.contextmanager
def _restore_grads(nodes):
    """Restore the `.grad` of computed tensors afterwards: the hook of retain_grad() adds to it."""
    tensors = [handle.keeps_for() for node in nodes for handle in node.hooks or () if handle.keeps_for]
    before = [(tensor, tensor.grad) for tensor in tensors if tensor is not None]
    yield
    for tensor, grad in before:
        tensor.grad = grad


def path_of(vertex, model):
    """The path of the module that ran a vertex's op, "" if none did or it is not part of the model."""
    found = {id(m): path for path, m in model.named_modules()} if model is not None else {}
    return found.get(id(vertex.module), "")
