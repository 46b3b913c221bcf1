"""Hypotheses that call backward again with one argument changed, and test whether the gradient is then right.

Continues the list of numbers.py and structure.py. They apply to a pair and to one op of a graph, where
backward can be called by itself.
"""

import numpy as np

from minigrad.gradcheck.diagnosis.evidence import hypothesis, sum_to


@hypothesis("input for output")
def y_for_x(e):
    """The rule reads x instead of y, or y instead of x."""
    if e.position is None or e.one_y is None or e.one_y.shape != e.x.shape:
        return None
    if _is_right_with(e, args=_replace(e.args, e.position, e.one_y)):
        return (
            f"{e.backward} reads the input where it should read the output: with y in place of x it is "
            "right. As a function of y = tanh(x) the derivative is 1 - y², of y = sigmoid(x) it is y(1 - "
            "y), of y = exp(x) it is y. Save the output in forward, or compute it again."
        )
    if _is_right_with(e, y=[e.x]):
        return (
            f"{e.backward} reads the output where it should read the input: with x in place of y it is right."
        )


@hypothesis("swapped")
def swapped_arguments(e):
    arrays = [i for i, arg in enumerate(e.args) if isinstance(arg, (np.ndarray, float))]
    for i in arrays:
        for j in arrays[: arrays.index(i)]:
            if _is_right_with(e, args=_replace(_replace(e.args, i, e.args[j]), j, e.args[i])):
                return (
                    f"{e.backward} has its arguments {j} and {i} in the wrong order: with the two exchanged "
                    "it is right."
                )
    for j, rule in e.others:
        if _is_right(e, rule):
            return (
                f"the rules of the arguments {e.position} and {j} are exchanged: the rule of {j} gives the "
                f"right gradient of {e.position}."
            )


@hypothesis("transposed factor")
def transposed_argument(e):
    """A factor of a product lacks its transpose."""
    for i, arg in enumerate(e.args):
        if (
            isinstance(arg, np.ndarray)
            and arg.ndim > 1
            and arg.dtype.kind == "f"
            and _is_right_with(e, args=_replace(e.args, i, arg.swapaxes(-1, -2)))
        ):
            return (
                f"a transpose is missing: with {e.called(i)} transposed, {e.backward} is right. For y = x @ "
                "W the gradients are dx = g @ W.T and dW = x.T @ g; check that the shapes fit, and test "
                "with shapes that are not square."
            )
    for i, g in enumerate(e.g):
        if g.ndim > 1 and _is_right_with(e, g=_replace(e.g, i, g.swapaxes(-1, -2))):
            return f"a transpose is missing: with the incoming gradient transposed, {e.backward} is right."


@hypothesis("half of two")
def one_of_two_factors(e):
    """A product of x with itself, differentiated with respect to only one of the two factors."""
    if e.a is None or e.call is None or e.one_g is None or e.one_g.ndim < 2:
        return None
    if _is_right(e, lambda: e.a + e.call([e.one_g.swapaxes(-1, -2)], e.y, e.args)):
        return (
            f"{e.me} is used twice, as in x @ x.T, and only one of the two gradients was counted: (g + g.T) "
            "@ x, not g @ x."
        )


def _replace(items, i, item):
    return type(items)([*items[:i], item, *items[i + 1 :]])


def _is_right_with(e, g=None, y=None, args=None):
    """Does backward give the right gradient with these arguments?"""
    given = (e.g if g is None else g, e.y if y is None else y, e.args if args is None else args)
    return e.call is not None and _is_right(e, lambda: e.call(*given))


def _is_right(e, backward):
    try:
        found = backward()
    except Exception:  # a rule may raise anything when its arguments are changed
        return False
    if not isinstance(found, np.ndarray):
        return False
    found = found if found.shape == e.x.shape else sum_to(found, e.x.shape)
    error = np.abs(found - e.n).max(initial=0) if found is not None and found.shape == e.x.shape else np.inf
    return bool(error <= 1e-6 * e.scale)


# ---------------------------------------------------------------- NaN and inf


@hypothesis("not finite")
def not_finite(e):
    if (
        isinstance(e.raw, np.ndarray)
        and e.raw.shape == e.x.shape
        and e.raw.size
        and not np.isfinite(e.raw).all()
    ):
        bad = ~np.isfinite(e.raw)
        where = tuple(int(i) for i in np.argwhere(bad)[0])
        return (
            f"{bad.sum()} of {bad.size} entries are NaN or inf, the first at index {where}, where the input "
            f"is {e.x[where]:.4g}: look for a division by 0, a log of 0, or a root of a negative number "
            "there."
        )
