"""The history of a value once more, step by step: what each op gave, and what each step of the reverse pass did. For drawings and
the stepper. Knows nodes and rules; nothing of pictures.

The engine keeps only what the rules read, so values are computed again here. The reverse pass is the engine's own, watched.
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
    """A value in the history: a leaf, a constant that an op was given (an array or a number), or what an op made.

    kind      "leaf" (it wants a gradient), "constant", "op"        name     the op's, or the leaf's name in the model
    value     an array, or a tuple of arrays                        module   the nn.Module that was running, for an op
    parents   the vertices of an op's arguments, in order           node     the engine's own record, for an op
    gradient  of the root with respect to this value, None where none arrives
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
    """What a step of the reverse pass sent to one parent: `raw` as the rule gave it, `sent` after broadcasting was undone, in the
    parent's shape; `before` is what had arrived there already (None: nothing), to which it was added."""

    parent: Vertex
    raw: object
    sent: object
    before: object

    @property
    def summed(self):
        """Did undoing the broadcast sum anything?"""
        return isinstance(self.raw, np.ndarray) and self.raw.shape != self.sent.shape


@dataclass(eq=False)
class Step:
    """One step of the reverse pass: the op whose turn it was, the whole gradient of its value, and what its arguments were sent."""

    vertex: Vertex
    g: object
    shares: list


def replay(root, model=None, gradient=None):
    """(vertices, oldest first; steps of the reverse pass, in its order) behind a Tensor.

    model     leaves get the names of its parameters
    gradient  to start from, in the root's shape; may be left out for a single number
    The history is not used up; one that is gone already raises the engine's own sentence. No `.grad` is touched; hooks are called.
    """
    if not isinstance(root, Tensor) or root.node is None:
        raise ValueError(
            "There is no history to show: give a tensor that was computed from tensors that require a gradient (requires_grad=True)."
        )
    seed = seed_of(root, gradient).data
    with np.errstate(all="ignore"):  # what is not finite was said when it was computed first
        vertices = _forward(oldest_first([root]), _names(model))
        steps = _backward(vertices, root.node, seed)
    return [*vertices.values()], steps


def _names(model):
    return {id(p): name for name, p in model.named_parameters()} if model is not None else {}


def _forward(nodes, names):
    """{node, leaf or id of a constant: its vertex}, in the order in which they came to be."""
    vertices = {}
    for node in nodes:
        parents = [_argument(arg, place, node, vertices, names) for place, arg in enumerate(node.args)]
        value = _value(node, [p.value for p in parents])
        vertices[node] = Vertex("op", node.name, value, node.module, parents, node)
    return vertices


def _argument(arg, place, node, vertices, names):
    """The vertex of an argument: of the op that made it, of a leaf, or of a constant."""
    key = (arg.node or arg) if isinstance(arg, Value) else arg if type(arg) is Node else None
    if key in vertices:
        return vertices[key]
    if isinstance(arg, Value):
        kind = "leaf" if arg.requires_grad else "constant"
        vertices[key] = Vertex(kind, names.get(id(arg), ""), arg.data)
        return vertices[key]
    vertex = Vertex("constant", "", arg)  # a number or an array is nobody's but this op's
    if isinstance(arg, np.ndarray):
        vertices[id(node), place] = vertex
    return vertex


def _value(node, arrays):
    """The op's value, computed again as the engine did."""
    if node.fun is take_item:
        return arrays[0][node.args[1]]
    value = node.y
    if value is None and node.fun is recomputed:
        raise ValueError(
            "A checkpointed part has let its values go, and shows nothing of what is inside; compute without checkpoint to see it."
        )
    if value is None:
        value = node.fun(*arrays, **node.kwargs)
        if isinstance(table.RULES[node.fun], table.KernelRow):
            value = value[0]
    if isinstance(value, (tuple, list)):
        return tuple(np.asarray(v) for v in value)
    return np.asarray(value, node.dtype)


def _backward(vertices, root, seed):
    """The steps of the engine's own reverse pass, every share written down; each vertex gets its gradient."""
    shares = {key: [] for key in vertices if type(key) is Node}

    def watch(parent, node, raw, sent, before):
        shares[node].append(Share(vertices[parent], raw, sent, before))

    wanted = {key for key in vertices if isinstance(key, (Node, Value))}
    with _grads_left_alone(shares):
        gradients = pull_back({root: seed}, wanted, retain_graph=True, watch=watch)
    for key, g in gradients.items():
        vertices[key].gradient = g
    return [Step(vertices[node], g, shares[node]) for node, g in gradients.items() if node in shares]


@contextlib.contextmanager
def _grads_left_alone(nodes):
    """Give back the `.grad` of computed tensors, into which the hook of retain_grad adds."""
    tensors = [handle.keeps_for() for node in nodes for handle in node.hooks or () if handle.keeps_for]
    before = [(tensor, tensor.grad) for tensor in tensors if tensor is not None]
    yield
    for tensor, grad in before:
        tensor.grad = grad


def path_of(vertex, model):
    """The path of the module that ran a vertex's op, "" for none or for one outside the model."""
    found = {id(m): path for path, m in model.named_modules()} if model is not None else {}
    return found.get(id(vertex.module), "")
