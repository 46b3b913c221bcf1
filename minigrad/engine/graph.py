"""The graph of a recorded computation: each Node has the function that made a value, and its arguments.

A *leaf* is a tensor that requires a gradient and was not computed from others.
"""

import itertools
from collections import Counter
from operator import attrgetter

from minigrad.engine.table import defvjp
from minigrad.modes import current_module

# counts births of nodes and writes into tensors, to tell which came first
clock = itertools.count(1)


class Value:
    """A Tensor as this module sees it, with `data` (an array), `node` (or None), `writes` and `hooks`."""

    __slots__ = ()


class Node:
    """The call that made a value: `fun(*args, **kwargs)`, at `birth`. Fields are public, for drawing.

    fun      the function, a key of RULES
    args     its arguments; an argument that no rule reads is replaced by its node, which has its shape
    needs    does each argument need a gradient?
    birth    the clock when the node was made
    y        the value, if a rule reads it
    writes   when the value's memory was last written: a list of one integer, which views of the memory share
    shape, dtype  of the value; if the value is a tuple, shape is a tuple of objects with a shape and a dtype
    saved    what a kernel kept for its backward
    module   the nn.Module that was running
    hooks    functions to call with the gradient of the value
    trace    what anomaly.py noted when the value was made
    """

    __slots__ = ("fun", "args", "kwargs", "needs", "birth", "y", "writes", "shape", "dtype", "saved", "module",
                 "hooks", "trace", "_parents", "__weakref__")  # fmt: skip

    def __init__(self, fun, args, kwargs, needs, y, writes, shape, dtype, saved, parents=None):
        # one by one, which is faster than assigning tuples: this runs for every op
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
        """For each argument its node, or the leaf, or None if it needs no gradient; empty once released."""
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
        """Drop everything that only the reverse pass needs."""
        self.args = self.y = self.saved = self._parents = None

    def __repr__(self):
        return f"<{self.name}: shape {self.shape}, {self.dtype}>"


def name_of(fun):
    return getattr(fun, "__name__", str(fun)).strip("_")


def take_item(items, i):
    """Take the i-th value of a function that returns several."""
    return items[i]


# The gradient of a tuple is a tuple, with None where no gradient has arrived yet.
defvjp(take_item, lambda g, _y, _items, i: tuple(g if j == i else None for j in range(len(_items.shape))))


def nodes_behind(starts):
    """List every node behind some nodes and tensors, including theirs. Stops at released nodes."""
    own = (start if type(start) is Node else start.node for start in starts)
    found = list(dict.fromkeys(node for node in own if node is not None))
    seen = set(found)
    for node in found:  # the list grows during the loop; without recursion, a chain can have any length
        if node.args is not None:
            for parent in node.parents:
                if type(parent) is Node and parent not in seen:
                    seen.add(parent)
                    found.append(parent)
    return found


def oldest_first(starts, ends=()):
    """List all nodes behind `starts` by birth. Raises RuntimeError if one is released and not in `ends`.

    Lemma: a value is made only from values that exist already, so every node is younger than its parents.
    From its end, the list is therefore in reverse topological order: a node comes after all nodes that used
    its value.
    """
    nodes = nodes_behind(starts)
    for node in nodes:
        if node.args is None and node not in ends:
            raise RuntimeError(
                f"backward needs the history of a value made by {node.name} (shape {node.shape}), which an "
                "earlier backward has used up and released. To go through the same graph twice, call the first "
                "backward with retain_graph=True; else compute the value again."
            )
    return sorted(nodes, key=attrgetter("birth"))


def leading_to(nodes, wanted):
    """Find the `nodes` (oldest first) that lead a gradient to something in `wanted`. Includes `wanted`."""
    leads = set(wanted)
    for node in nodes:
        if not leads.isdisjoint(node.parents):
            leads.add(node)
    return leads


def uses_of_leaves(nodes, leads=None):
    """Count how many arguments of `nodes` each leaf (in `leads`, if given) is: x * x uses x twice."""
    parents = (parent for node in nodes for parent in node.parents)
    return Counter(p for p in parents if isinstance(p, Value) and (leads is None or p in leads))
