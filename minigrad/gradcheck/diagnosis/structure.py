"""Hypotheses about the structure of the right gradient: Jacobians, normalisations, sums over the batch.

Continues the list of numbers.py.
"""

import numpy as np

from minigrad.gradcheck.diagnosis.evidence import hypothesis

# ---------------------------------------------------------------- what couples the entries


@hypothesis("cross terms")
def elementwise(e):
    """Backward used only the diagonal of the Jacobian."""
    if e.jacobian is None or e.one_g is None or e.one_y.size != e.x.size or e.x.size < 2:
        return None
    diagonal = np.diag(e.jacobian)
    if np.allclose(e.jacobian, np.diag(diagonal), rtol=0, atol=1e-7):
        return None
    if e.is_given((diagonal * e.one_g.ravel()).reshape(e.x.shape)):
        return (
            "the function was treated as elementwise: only dy_i/dx_i is there, and the cross terms "
            "dy_i/dx_j are missing. For softmax dx = y * (g - (g * y).sum(axis, keepdims=True)): y * (1 - "
            "y) * g is only the diagonal of its Jacobian."
        )


@hypothesis("cross terms")
def second_term(e):
    """Along an axis, the difference is one number times softmax."""
    if e.a is None or e.wrong.sum() < 3:
        return None
    for axes in e.axes:
        for name, direction in _softmaxes(e, axes):
            if _spans(e, [direction], axes) and not _spans(e, [np.ones(e.x.shape)], axes):
                return (
                    f"along axis {_format_axes(axes)} it is off by one number times {name}: the second term "
                    "of a normalisation is missing or too much. Softmax: dx = y * (g - (g * y).sum(axis, "
                    "keepdims=True)); log_softmax: dx = g - softmax * g.sum(axis, keepdims=True); "
                    "cross-entropy: (softmax - onehot) / N."
                )


@hypothesis("cross terms")
def attention_weights(e):
    """For each query, its gradient is off by one number times the weighted average of the keys."""
    arrays = [
        i
        for i, arg in enumerate(e.args)
        if isinstance(arg, np.ndarray) and arg.ndim > 1 and arg.dtype.kind == "f"
    ]
    if e.forward is None or e.a is None or len(arrays) < 3 or e.x.shape[-1] < 3 or e.position not in arrays:
        return None
    q, k, v = arrays[:3]
    if e.position != q or e.args[k].shape[:-1] != e.args[v].shape[:-1]:
        return None
    try:
        averages = e.forward((*e.args[:v], e.args[k], *e.args[v + 1 :]))[0]
    except Exception:  # the function is no attention
        return None
    if averages.shape == e.x.shape and _spans(e, [averages], (e.x.ndim - 1,)):
        return (
            "the softmax of the attention weights was treated as elementwise: for each query, one number "
            "times the weighted average of the keys is missing. With p = softmax(s) and dp = g @ v.T: ds = "
            "p * (dp - (dp * p).sum(-1, keepdims=True))."
        )


def _softmaxes(e, axes):
    for y in e.beside_x(e.one_y):
        yield "y", y
        yield "exp(y)", np.exp(y)
    shifted = np.exp(e.x - e.x.max(axes, keepdims=True))
    yield "softmax(x)", shifted / shifted.sum(axes, keepdims=True)


@hypothesis("mean terms")
def normalisation(e):
    """Along some axes, the difference is a combination of a constant and xhat."""
    if e.a is None or e.wrong.sum() < 3:
        return None
    for axes in e.axes:
        one, xhat = np.ones(e.x.shape), e.x - e.x.mean(axes, keepdims=True)
        if np.prod([e.x.shape[i] for i in axes]) < 4:
            continue
        for directions, shape, what in (
            ([one], "one number for all of them", "mean(h)"),
            ([xhat], "a multiple of xhat", "xhat * mean(h * xhat)"),
            ([one, xhat], "a number and a multiple of xhat", "mean(h) and xhat * mean(h * xhat)"),
        ):
            if _spans(e, directions, axes):
                return (
                    f"along axis {_format_axes(axes)} it is off by {shape}: the gradient through the mean "
                    "and the variance of a normalisation is missing or too much. Layer norm, with h = g * "
                    f"weight: dx = (h - mean(h) - xhat * mean(h * xhat)) / sigma; {what} was left out (or "
                    "the gradient through a mean was)."
                )


def _spans(e, directions, axes):
    """Is the difference a linear combination of `directions` in every row along `axes`?"""
    rest = [i for i in range(e.x.ndim) if i not in axes]

    def rows(array):
        return np.transpose(array, [*rest, *axes]).reshape(-1, int(np.prod([e.x.shape[i] for i in axes])))

    difference, basis = rows(e.difference), [rows(d) for d in directions]
    if not all(np.isfinite(b).all() for b in basis):
        return False
    for i, row in enumerate(difference):
        columns = np.stack([b[i] for b in basis], 1)
        if np.abs(row - columns @ np.linalg.lstsq(columns, row, rcond=None)[0]).max() > e.tolerance:
            return False
    return True


def _format_axes(axes):
    return str(axes[0]) if len(axes) == 1 else str(axes)


@hypothesis("transposed factor")
def jacobian_times_g(e):
    """J g instead of J^T g: g @ W instead of g @ W.T."""
    if e.jacobian is None or e.one_g is None or e.jacobian.shape[0] != e.jacobian.shape[1] or e.x.size < 2:
        return None
    if not np.allclose(e.jacobian, e.jacobian.T, rtol=0, atol=1e-7) and e.is_given(
        (e.jacobian @ e.one_g.ravel()).reshape(e.x.shape)
    ):
        return (
            "the Jacobian was applied without its transpose: for y = x @ W the gradients are dx = g @ W.T "
            "and dW = x.T @ g, not g @ W and x @ g. Square matrices hide this: test with shapes that are "
            "not square."
        )


@hypothesis("missing sum")
def one_slice(e):
    """Backward used only the first or last position along an axis of the output."""
    if e.jacobian is None or e.one_g is None or e.a is None:
        return None
    g = e.one_g
    for axis, n in enumerate(g.shape):
        for j in (0, n - 1) if n > 1 else ():
            only = np.zeros(g.shape)
            np.moveaxis(only, axis, 0)[j] = np.moveaxis(g, axis, 0)[j]
            if e.is_given((e.jacobian.T @ only.ravel()).reshape(e.x.shape)):
                return (
                    f"only the {'first' if j == 0 else 'last'} of the {n} positions along axis {axis} of the "
                    f"output was counted: all of them use {e.me}, so their gradients add up. Sum over that "
                    "axis (the batch); in a loop, add with +=."
                )


@hypothesis("identity")
def straight_through(e):
    if any(e.is_given(g) for g in e.beside_x(e.one_g)):
        where = (
            "everywhere"
            if e.wrong.all()
            else f"also at the {int(e.wrong.sum())} of {e.wrong.size} entries where it should not"
        )
        return (
            f"the incoming gradient is passed on unchanged {where}, as if the function were the identity: "
            "multiply it by the function's own slope (the chain rule); for relu or a mask, that is 0 where "
            "the output is flat."
        )


@hypothesis("mask", last_resort=True)
def leaks_where_flat(e):
    if e.a is None or not e.wrong.any() or e.wrong.all():
        return None
    for arg in e.args:
        if isinstance(arg, np.ndarray) and arg.dtype == bool:
            for mask in e.beside_x(arg):
                for value in (True, False):
                    if (mask == value)[e.wrong].all():
                        return (
                            f"it is wrong only where the mask is {value}: the mask of forward must act on "
                            "the gradient too (g * mask, or 0 where masked)."
                        )
    if not e.n[e.wrong].any() and e.n.any():
        return (
            f"it is wrong only at the {int(e.wrong.sum())} of {e.wrong.size} entries that the output does "
            "not depend on (masked, clipped, not chosen): set the gradient to 0 there."
        )
