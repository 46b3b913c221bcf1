"""The graph of a recorded computation: Nodes, each saying which function made a value, and from what.

A *leaf* is a tensor that wants a gradient and was not computed from others.
"""

import itertools
from collections import Counter
from operator import attrgetter

from minigrad.engine.table import defvjp
from minigrad.modes import current_module

# counts births of nodes and writes into tensors, so that one can be older than the other
clock = itertools.count(1)


class Value:
    """What a Tensor is to this module: something with `data` (an array), `node` (None for a leaf), `writes`, `hooks`."""

    __slots__ = ()


class Node:
    """How one value came to be: `fun(*args, **kwargs)`, at `birth`. Fields are public, for drawing and tracing.

    fun      the function, a key of RULES          args    its arguments; a node stands in where only its shape may be read
    needs    does each argument want a gradient?   birth   the clock when it was made
    y        the value, where a rule reads it      writes  when the value's memory was last written (a list of one number,
                                                           so that views, which share the memory, can share it)
    shape, dtype  of the value (a tuple of things with both, where the value is a tuple)
    saved    what a kernel kept for its backward   module  the nn.Module that was running
    hooks    called with the gradient of the value trace   what anomaly.py noted when the value was made
    """

    __slots__ = ("fun", "args", "kwargs", "needs", "birth", "y", "writes", "shape", "dtype", "saved", "module",
                 "hooks", "trace", "_parents", "__weakref__")  # fmt: skip

    def __init__(self, fun, args, kwargs, needs, y, writes, shape, dtype, saved, parents=None):
        # one by one, which is faster than in tuples: this runs for every op
        self.fun = fun
        self.args = args
        self.kwargs = kwargs
        self.needs = needs
        self.y = y
        self.writes = writes
        self.shape = shape
        self.dtype = dtype
        self.saved = saved
        self.birth = next(clock)
        self.module = current_module.get()
        self.hooks = None
        self.trace = None
        self._parents = parents

    @property
    def parents(self):
        """For each argument its node, the leaf that it is, or None where it wants no gradient; nothing once released."""
        if self._parents is None:
            self._parents = [
                (arg if type(arg) is Node or arg.node is None else arg.node) if needed else None
                for arg, needed in zip(self.args or (), self.needs)
            ]
        return self._parents

    @property
    def name(self):
        return name_of(self.fun)

    @property
    def ndim(self):
        return len(self.shape)

    @property
    def released(self):
        return self.args is None

    def release(self):
        """Let go of everything that only the reverse pass needed."""
        self.args = self.y = self.saved = self._parents = None

    def __repr__(self):
        return f"<{self.name}: shape {self.shape}, {self.dtype}>"


def name_of(fun):
    return getattr(fun, "__name__", str(fun)).strip("_")


def take_item(items, i):
    """The i-th of the values of a function that has several."""
    return items[i]


# The gradient of a tuple is a tuple, None where nothing has arrived yet.
defvjp(take_item, lambda g, _y, _items, i: tuple(g if j == i else None for j in range(len(_items.shape))))


def nodes_behind(starts):
    """List every node behind some nodes and tensors, their own included. A released node has no parents to follow."""
    own = (start if type(start) is Node else start.node for start in starts)
    found = list(dict.fromkeys(node for node in own if node is not None))
    seen = set(found)
    for node in found:  # the list grows while it is read; no recursion, so long chains pass
        if node.args is not None:
            for parent in node.parents:
                if type(parent) is Node and parent not in seen:
                    seen.add(parent)
                    found.append(parent)
    return found


def oldest_first(starts, ends=()):
    """All nodes behind `starts`, sorted by birth. Raises RuntimeError if one has been released, unless it is in `ends`.

    Lemma: a value is made only from values that exist already, so every node is younger than its parents. Read from its
    end, the list is therefore a reverse topological order: when a node's turn comes, all who used its value have had theirs.
    """
    nodes = nodes_behind(starts)
    for node in nodes:
        if node.args is None and node not in ends:
            raise RuntimeError(
                f"backward needs the history of a value made by {node.name} (shape {node.shape}), which an earlier backward has "
                "used up and let go. To go "
                "through the same graph twice, call the first one with retain_graph=True; else compute the value again."
            )
    return sorted(nodes, key=attrgetter("birth"))


def leading_to(nodes, wanted):
    """Those of `nodes` (oldest first) through which a gradient reaches something in `wanted`, and the wanted themselves."""
    leads = set(wanted)
    for node in nodes:
        if not leads.isdisjoint(node.parents):
            leads.add(node)
    return leads


def uses_of_leaves(nodes, leads=None):
    """How many arguments of `nodes` each leaf is; if `leads` is given, only leaves in it count. In x * x, x is used twice."""
    parents = (parent for node in nodes for parent in node.parents)
    return Counter(p for p in parents if isinstance(p, Value) and (leads is None or p in leads))
