"""The reverse pass: walk the graph newest first, apply each node's rules, and add up the gradients.

The calculus is in rules.py.
"""

import numpy as np

from minigrad.engine.graph import Value, leading_to, oldest_first, uses_of_leaves
from minigrad.engine.table import RULES, KernelRow


def pull_back(pending, wanted=None, retain_graph=False, history=None, run_hooks=True, watch=None):
    """Run the reverse pass. Returns the gradients by leaf (or by what is `wanted`). Its core is this loop:

        for node in newest first:
            g = pending.pop(node)                           # complete: all nodes that used the value are done
            for parent, gradient in zip(node.parents, vjp(node, g)):
                pending[parent] += gradient                 # the multivariate chain rule: every use counts

    pending       where to start: node or leaf -> gradient
    wanted        nodes and leaves; if given, only what leads to them is computed and released
    retain_graph  keep the history for another pass, instead of releasing it node by node
    history       the class History: the rules then compute with Tensors, and the gradients have a history too
    run_hooks     call the hooks of the wanted nodes and of leaves? a leaf's run once its gradient is complete
    watch         called as watch(parent, node, the rule's gradient, the gradient after fit, the sum before)
    """
    ends = wanted or ()
    order = oldest_first(pending, ends)
    leads = None if wanted is None else leading_to(order, wanted)
    uses = uses_of_leaves(order, leads)  # for each leaf: how many gradients are still to arrive
    found = {}
    while order:
        node = order.pop()
        g = pending.pop(node, None)
        parents, needs = (node.parents, node.needs) if leads is None else _leading(node, leads)
        if g is not None:
            if node.hooks:
                g = _through_hooks(node, g, run_hooks or node not in ends)
            if node in ends:
                found[node] = g
            for parent, raw in zip(parents, vjp(node, g, needs, history) if True in needs else ()):
                if raw is not None:
                    sent, before = fit(raw, parent, node), pending.get(parent)
                    pending[parent] = sent if before is None else plus(before, sent)
                    if node.trace is not None:
                        node.trace.check_gradient(node, g, sent)
                    if watch:
                        watch(parent, node, raw, sent, before)
        for leaf in parents:
            if leaf in uses:
                uses[leaf] -= 1
                if not uses[leaf] and leaf in pending:
                    found[leaf] = _through_hooks(leaf, pending.pop(leaf), run_hooks)
        if not retain_graph and (leads is None or g is not None and True in needs):
            node.release()
    return found | {leaf: _through_hooks(leaf, g, run_hooks) for leaf, g in pending.items()}  # unused outputs


def _leading(node, leads):
    """Return (parents, needs) of a node without what is not in `leads`; nothing of a released node."""
    parents = [p if p is not None and p in leads else None for p in node.parents]
    return parents, tuple([p is not None for p in parents])


def _through_hooks(owner, g, run_hooks=True):
    """Pass a gradient through the hooks of a node or leaf."""
    for hook in list(owner.hooks.values()) if owner.hooks and run_hooks else ():
        g = hook(g)
    return g


def vjp(node, g, needs, history=None):
    """Compute the gradients of a node's arguments from the gradient g of its value, by the table's rules."""
    row = RULES[node.fun]
    arrays = read_args(node, row)
    if node.trace is not None:
        node.trace.check_arrays(node)
    if type(g) is tuple:
        g = tuple(
            _zeros(item, history) if one is None else one for one, item in zip(g, node.shape, strict=True)
        )
    if history is None:
        return row.vjp(node, g, node.y, arrays, needs)
    if isinstance(row, KernelRow):
        return history.differentiate(row.definition, node.args, node.kwargs, g, needs)
    return row.vjp(node, g, None if node.y is None else history.tensor(node.y, node), node.args, needs)


def _zeros(like, history):
    zeros = np.zeros(like.shape, like.dtype)
    return zeros if history is None else history.tensor(zeros, None)


def plus(a, b):
    """Add two gradients, never in place, because either array may be shared."""
    if type(a) is not tuple:
        return a + b
    return tuple(y if x is None else x if y is None else x + y for x, y in zip(a, b, strict=True))


def fit(gradient, parent, node):
    """Bring a gradient to its argument's shape and dtype: the only place where broadcasting is undone."""
    if type(gradient) is tuple:
        return gradient
    if gradient.shape != parent.shape:
        gradient = unbroadcast(gradient, parent.shape, node)
    dtype = parent.dtype
    return gradient if gradient.dtype is dtype or gradient.dtype == dtype else gradient.astype(dtype)


def unbroadcast(gradient, shape, node):
    """Sum `gradient` over the axes along which an array of `shape` was broadcast to the gradient's shape."""
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
            f"the rule of {node.name} gave a gradient of shape {tuple(gradient.shape)} for an argument of "
            f"shape {shape}: a rule must return its argument's shape, or a shape to which broadcasting "
            "stretched it."
        )
    return summed.reshape(shape)


def read_args(node, row):
    """Return the arguments as arrays. Raises RuntimeError if something that the rules read has changed."""
    birth, arrays = node.birth, []
    if node.y is not None and node.writes[0] > birth:
        raise RuntimeError(_changed_in_place(node, "the result"))
    for arg in node.args:
        if isinstance(arg, Value):
            if arg.writes[0] > birth and row.reads(node.needs)[len(arrays) + 1]:
                what = f"argument {len(arrays)} (shape {tuple(arg.shape)})"
                raise RuntimeError(_changed_in_place(node, what))
            arg = arg.data
        elif isinstance(arg, np.generic):
            arg = arg.item()  # NumPy's float64 scalars would widen float32 arrays; Python's numbers do not
        arrays.append(arg)
    return arrays


def _changed_in_place(node, what):
    return (
        f"backward of {node.name} needs {what} as it was, but it was changed in place since. "
        "Change it after backward, or compute with a copy: x.clone()."
    )
