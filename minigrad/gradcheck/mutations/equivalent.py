"""Find the mutants that change nothing, which no check can catch, by differentiating rules."""

import numpy as np

from minigrad import grad, kernels
from minigrad.engine.table import RULES, Row
from minigrad.engine.tensor import Tensor
from minigrad.gradcheck.mutations.spoiling import RESULTS
from minigrad.gradcheck.samples import leaf

NEVER_TRANSPOSED = {
    (kernels.linear, 2), (kernels.cross_entropy, 2), (kernels.gru_states, 3), (kernels.lstm_states, 3),
    (kernels.gru_states, 2), (np.linalg.cholesky, 0),
}  # fmt: skip


def why_equivalent(mutant, nodes):
    """Return the reason why a mutant changes nothing, or None.

    nodes    the nodes of its function that the samples record
    """
    i, how, row = mutant.position, mutant.how, RULES[mutant.fun]
    if how == "transposed" and (mutant.fun, i) in NEVER_TRANSPOSED:
        return "a vector, a symmetric matrix, or one that is never square: transposing does not change it"
    if not isinstance(row, Row):
        return None
    if (how in RESULTS or "detached" in how) and is_flat(i, nodes):
        return "the slope is 0 everywhere"
    if how == "arguments detached" and not _depends_somewhere(i, nodes, on_g=False):
        return "linear or piecewise linear: the slope does not depend on the arguments"
    if how in ("rules exchanged", "arguments swapped") and mutant.fun is np.add:
        return "both arguments have the same slope, 1"
    if how == "arguments swapped" and not any(_reads(row, i, nodes[0])[-2:]):
        return "the rule reads neither argument"
    return None


def is_flat(i, nodes):
    """Is the gradient of the i-th argument 0 for every gradient of the value?"""
    return not _depends_somewhere(i, nodes, on_g=True)


def _depends_somewhere(i, nodes, on_g):
    return any(_depends(i, node, on_g) for node in nodes if node.needs[i : i + 1] == (True,))


def _depends(i, node, on_g):
    """Does the i-th argument's gradient depend on g? If not on_g: on the value or an argument?"""
    row = RULES[node.fun]
    if not on_g and not any(_reads(row, i, node)):
        return False
    several, rng = node.dtype is None, np.random.default_rng(0)
    gs = [leaf(rng.standard_normal(like.shape)) for like in (node.shape if several else [node])]
    ys = [leaf(y) for y in (node.y if several else [node.y])] if node.y is not None else [None]
    args = [leaf(a.data) if isinstance(a, Tensor) and a.dtype.kind == "f" else a for a in node.args]
    one = tuple if several else lambda values: values[0]
    d = row.vjp(node, one(gs), one(ys), args, _only(i, node))[i]
    parts = [part for part in (d if type(d) is tuple else (d,)) if part is not None and part.requires_grad]
    leaves = gs if on_g else [x for x in (*ys, *args) if isinstance(x, Tensor) and x.requires_grad]
    squares = sum((part * part).sum() for part in parts)
    return bool(parts) and any(
        x is not None and x.data.any() for x in grad(squares, leaves, allow_unused=True)
    )


def _only(i, node):
    return [j == i for j in range(len(node.needs))]


def _reads(row, i, node):
    return row.reads(_only(i, node))
