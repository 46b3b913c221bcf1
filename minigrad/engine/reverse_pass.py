"""The reverse pass: walk the graph newest first, ask the table for each node's gradients, and add them up.

Knows no calculus; that is in the table.
"""

import numpy as np

from minigrad.engine.graph import Value, leading_to, oldest_first, oldest_users
from minigrad.engine.table import RULES, KernelRow


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
