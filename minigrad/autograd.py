"""The reverse pass and the table of rules. This module knows no calculus: what it knows is the table.

A recorded computation is a graph of Nodes, each saying which function made a value, from what. The table says, for each
function and each of its arguments, how a gradient of the value becomes a gradient of the argument (a vector-Jacobian
product, *vjp*). The reverse pass walks the nodes newest first, asks the table, and adds up.

Words used here and in the rules: g is the gradient of the value (of a scalar loss with respect to it), y the value itself
(z where y is an argument), x, y the arguments. A *leaf* is a tensor that wants a gradient and was not computed from others.
"""

import inspect
import itertools
from operator import attrgetter

import numpy as np

from minigrad.modes import current_module

RULES = {}  # function -> Row
# counts births of nodes and writes into tensors, so that one can be older than the other
clock = itertools.count(1)


# ---------------------------------------------------------------- the table


class Row:
    """What the table says of one function: a rule for each argument, None where there is no gradient.

    A rule is called as rule(g, y, *args, **kwargs). Its parameters tell what it reads: of one whose name begins with an
    underscore it may look at the shape and dtype only, and the engine keeps no more than that.
    """

    def __init__(self, fun, rules):
        self.fun, self.rules = fun, rules
        # which arguments need a gradient -> what must be kept for it, once it has been looked at
        self.reads = {}

    def what_is_read(self, needs):
        """(is y read?, is each argument read?) by the rules of those arguments that need a gradient."""
        reads = [_reads(rule, len(needs)) for rule, needed in zip(self.rules, needs) if needed and rule]
        return tuple(map(any, zip(*reads, strict=True))) or (False,) * (len(needs) + 1)

    def vjp(self, node, g, y, args, needs):
        """The gradient of each argument that has a rule and needs one, and None for the others."""
        gradients = []  # not in a comprehension, which costs a call of its own before Python 3.12
        for rule, needed in zip(self.rules, needs):
            gradients.append(rule(g, y, *args, **node.kwargs) if needed and rule else None)
        return gradients


class EachRow(Row):
    """A row for functions of any number of like arguments: one rule, told which argument is meant."""

    def vjp(self, node, g, y, args, needs):
        return [
            self.rules(i, g, y, *args, **node.kwargs) if needed else None for i, needed in enumerate(needs)
        ]

    def what_is_read(self, needs):
        return _reads(self.rules, len(needs) + 1)[1:]


class KernelRow:
    """A hand-written pair: backward(g, y, saved, needs, *args, **kwargs) gives all gradients at once.

    `definition` is the same function composed from ops. Where the gradient must itself have a gradient, the engine runs
    the definition again and differentiates that, because what a kernel saved is a bare number to any later derivative.
    `value` is forward's y alone, where that saves time: it runs where nothing is recorded.
    """

    def __init__(self, definition, forward, backward, value=None):
        self.definition, self.forward, self.backward, self.value = definition, forward, backward, value
        self.reads = {}

    def what_is_read(self, needs):
        return (_reads(self.backward, 1)[0], *[True] * len(needs))

    def vjp(self, node, g, y, args, needs):
        return self.backward(g, y, node.saved, needs, *args, **node.kwargs)


def _reads(rule, count):
    """For y and each of `count` arguments: does the rule read its value? A leading underscore in the parameter's name says no.

    lambda g, _z, _x, y: g * y   reads y only: (False, False, True)
    """
    parameters = list(inspect.signature(rule).parameters.values())[1:]  # g is always read
    names = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    # *xs: all others bear that name
    names += [p.name for p in parameters if p.kind is p.VAR_POSITIONAL] * (count + 1)
    names += ["_"] * (count + 1)
    return tuple(not name.startswith("_") for name in names[: count + 1])


def defvjp(fun, *rules):
    """Add a row: one rule for each argument of `fun`, in order; None for an argument without a gradient."""
    RULES[fun] = Row(fun, rules)


def defvjp_each(fun, rule):
    """Add a row for a function of any number of like arguments: rule(i, g, y, *args, **kwargs) for the i-th."""
    RULES[fun] = EachRow(fun, rule)


def defkernel(definition, forward, backward, value=None):
    """Register a hand-derived pair for a definition; forward(*args, **kwargs) returns (y, saved), value(...) y alone."""
    RULES[forward] = definition.kernel = KernelRow(definition, forward, backward, value)


# ---------------------------------------------------------------- the graph


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
        """For each argument its node, the leaf that it is, or None where it wants no gradient."""
        if self._parents is None:
            self._parents = [
                (arg if type(arg) is Node or arg.node is None else arg.node) if needed else None
                for arg, needed in zip(self.args, self.needs)
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


# ---------------------------------------------------------------- the reverse pass


def oldest_first(starts, ends=()):
    """All nodes behind `starts`, sorted by birth; what lies behind a node in `ends` may be gone.

    Lemma: a value is made only from values that exist already, so every node is younger than its parents. Read from its
    end, the list is therefore a reverse topological order: when a node's turn comes, all who used its value have had theirs.
    """
    stack = [start for start in starts if type(start) is Node]
    seen = set(stack)
    while stack:
        node = stack.pop()
        if node.args is None and node in ends:
            continue
        if node.args is None:
            raise RuntimeError(
                f"backward needs the history of a value made by {node.name} (shape {node.shape}), which an earlier backward has "
                "used up and let go. To go "
                "through the same graph twice, call the first one with retain_graph=True; else compute the value again."
            )
        for parent in node.parents:
            if type(parent) is Node and parent not in seen:
                seen.add(parent)
                stack.append(parent)
    return sorted(seen, key=attrgetter("birth"))


def leading_to(nodes, wanted):
    """Those of `nodes` (oldest first) through which a gradient reaches something in `wanted`, and the wanted themselves."""
    leads = set(wanted)
    for node in nodes:
        if node.args is not None and not leads.isdisjoint(node.parents):
            leads.add(node)
    return leads


def oldest_users(nodes):
    """node -> the leaves used by it and by no older one, whose gradients are therefore complete once it has had its turn."""
    users, seen = {}, set()
    for node in nodes:  # oldest first
        for parent in node.parents if node.args is not None else ():
            if isinstance(parent, Value) and parent not in seen:
                seen.add(parent)
                users.setdefault(node, []).append(parent)
    return users


def pull_back(pending, wanted=None, retain_graph=False, wrap=None, run_hooks=True, ready=None):
    """The reverse pass. Returns the gradients, by leaf (or by what is `wanted`). At its heart it is this:

        for node in newest first:
            g = pending.pop(node)                           # complete: all who used the value have had their turn
            for parent, gradient in zip(node.parents, vjp(node, g)):
                pending[parent] += gradient                 # the multivariate chain rule: every use counts

    pending       what to start from: node or leaf -> gradient
    wanted        nodes and leaves; if given, only what leads to them is computed, and used up
    run_hooks     whether the wanted nodes' and leaves' own hooks are called
    retain_graph  keep the history for another pass, instead of letting it go node by node
    wrap          makes a Tensor of (array, node): then the rules compute with Tensors, and their results have a history;
                  wrap.differentiate does the same for a kernel, through its definition
    ready         if given, called as ready(leaf, gradient) as soon as a leaf's gradient is complete, which is then not returned
    """
    order = oldest_first(pending, wanted or ())
    useful = None if wanted is None else leading_to(order, wanted)
    users = oldest_users(order) if ready else {}
    found = {}
    while order:
        node = order.pop()
        g = pending.pop(node, None)
        if g is None:
            needs = ()
        else:
            is_wanted = useful is not None and node in wanted
            if node.hooks and (run_hooks or not is_wanted):
                g = _through_hooks(node, g)
            if is_wanted:
                found[node] = g
            needs = node.needs if useful is None else _needs(node, useful)
        if True in needs:
            parents = node.parents
            for parent, gradient in zip(parents, vjp(node, g, needs, wrap)):
                if gradient is not None:
                    gradient = fit(gradient, parent, node)
                    if node.trace is not None:
                        node.trace.check_gradient(node, g, gradient)
                    before = pending.get(parent)
                    pending[parent] = gradient if before is None else plus(before, gradient)
        for leaf in users.get(node, ()) if ready else ():
            if leaf in pending:
                g = pending.pop(leaf)
                ready(leaf, _through_hooks(leaf, g) if leaf.hooks else g)
        if not retain_graph and (useful is None or True in needs):
            node.release()
    return {
        leaf: _through_hooks(leaf, g) if leaf.hooks and run_hooks else g for leaf, g in pending.items()
    } | found


def _needs(node, useful):
    """Which arguments lead on to something wanted; none if the node's history is gone (it is then wanted itself)."""
    return (
        ()
        if node.args is None
        else tuple([parent is not None and parent in useful for parent in node.parents])
    )


def _through_hooks(owner, g):
    """The gradient as the hooks of a node or leaf leave it."""
    for hook in list(owner.hooks.values()):
        g = hook(g)
    return g


def vjp(node, g, needs, wrap):
    """Ask the table: the gradients of the node's arguments, from the gradient g of its value."""
    row = RULES[node.fun]
    arrays = unwritten(node, row)
    if node.trace is not None:
        node.trace.check_arrays(node)
    if type(g) is tuple:
        g = tuple(_zeros(item, wrap) if one is None else one for one, item in zip(g, node.shape, strict=True))
    if wrap is None:
        return row.vjp(node, g, node.y, arrays, needs)
    if isinstance(row, KernelRow):
        return wrap.differentiate(row.definition, node.args, node.kwargs, g, needs)
    return row.vjp(node, g, None if node.y is None else wrap(node.y, node), node.args, needs)


def _zeros(like, wrap):
    zeros = np.zeros(like.shape, like.dtype)
    return zeros if wrap is None else wrap(zeros, None)


def plus(a, b):
    """a + b for gradients: never in place, for either may be somebody else's array."""
    if type(a) is not tuple:
        return a + b
    return tuple(y if x is None else x if y is None else x + y for x, y in zip(a, b, strict=True))


def fit(gradient, parent, node):
    """The gradient in its argument's own shape and dtype: what broadcasting had stretched is summed, here and nowhere else."""
    if type(gradient) is tuple:
        return gradient
    if gradient.shape != parent.shape:
        gradient = unbroadcast(gradient, parent.shape, node)
    dtype = parent.dtype
    return gradient if gradient.dtype is dtype or gradient.dtype == dtype else gradient.astype(dtype)


def unbroadcast(gradient, shape, node):
    """Sum `gradient` over the axes along which an array of `shape` was repeated to get the gradient's shape."""
    extra = gradient.ndim - len(shape)
    stretched = (
        tuple(i + extra for i, n in enumerate(shape) if n == 1 and gradient.shape[i + extra] != 1)
        if extra >= 0
        else ()
    )
    summed = (
        gradient.sum(axis=tuple(range(extra)) + stretched, keepdims=True)
        if extra > 0 or stretched
        else gradient
    )
    if extra < 0 or summed.shape[extra:] != shape:
        raise AssertionError(
            f"the rule of {node.name} gave a gradient of shape {tuple(gradient.shape)} for an argument of shape {shape}: "
            "a rule must return its argument's shape, or one that broadcasting stretched it to."
        )
    return summed.reshape(shape)


def unwritten(node, row):
    """The arguments as arrays. Refuses if something that the rules read has been written into since the value was computed."""
    birth, arrays = node.birth, []
    if node.y is not None and node.writes[0] > birth:
        raise RuntimeError(_written(node, "the result"))
    for arg in node.args:
        if isinstance(arg, Value):
            if arg.writes[0] > birth and row.what_is_read(node.needs)[len(arrays) + 1]:
                raise RuntimeError(_written(node, f"argument {len(arrays)} (shape {tuple(arg.shape)})"))
            arg = arg.data
        elif isinstance(arg, np.generic):
            arg = arg.item()  # NumPy's float64 scalars would widen what they meet; Python's numbers do not
        arrays.append(arg)
    return arrays


def _written(node, what):
    return (
        f"backward of {node.name} needs {what} as it was, but it has been changed in place since. "
        "Change it after backward, or compute with a copy: x.clone()."
    )
