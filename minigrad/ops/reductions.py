"""Reductions, cumulative sums and products, and sorting.

`axis` may be one axis, several where that makes sense, or None for all elements.
"""

from collections import namedtuple

import numpy as np

from minigrad.engine import array_functions
from minigrad.engine.operators import FROM_NUMPY
from minigrad.engine.recording import apply, as_tensor, floating
from minigrad.engine.tensor import Tensor
from minigrad.ops.elementwise import maximum, minimum, where
from minigrad.ops.indexing import take_along_axis
from minigrad.ops.shape import concatenate, flip, permute, squeeze, unsqueeze
from minigrad.ops.spelling import along, axis_of, public

__all__ = [
    "sum", "mean", "var", "std", "norm", "prod", "cumsum", "cumprod", "any", "all", "count_nonzero", "argmax", "argmin",
    "amax", "amin", "max", "min", "argsort", "sort", "topk", "median",
]  # fmt: skip


def _axes(axis):
    return tuple(axis) if isinstance(axis, list) else axis


def _as(x, dtype):
    return as_tensor(x) if dtype is None else as_tensor(x).to(dtype)


def _merge_axes(x, axis):
    """Merge axes (None: all) into one, the last. Also returns the shape of a result with keepdims=True."""
    axes = range(x.ndim) if axis is None else axis if isinstance(axis, (tuple, list)) else (axis,)
    axes = [axis_of(x, a) for a in axes]
    others = [i for i in range(x.ndim) if i not in axes]
    shape = tuple(1 if i in axes else n for i, n in enumerate(x.shape))
    return permute(x, *others, *axes).reshape(
        *(x.shape[i] for i in others), int(np.prod([x.shape[a] for a in axes]))
    ), shape


# ---------------------------------------------------------------- sums, means and norms


@public(np.sum)
def sum(x, axis=None, keepdims=False, dtype=None):
    """The sum over one axis, several, or all."""
    return apply(np.sum, _as(x, dtype), axis=_axes(axis), keepdims=keepdims)


@public(np.mean)
def mean(x, axis=None, keepdims=False, dtype=None):
    """The mean over one axis, several, or all."""
    x = _as(x, dtype)
    total = sum(x, axis, keepdims)
    return total / _freedom(x, total, 0)


@public()
def var(x, axis=None, correction=1, keepdims=False, unbiased=None):
    """The variance: sum of (x - mean)^2 / (n - correction). Like PyTorch's; np.var has correction 0."""
    x = as_tensor(x)
    distance = x - mean(x, axis, keepdims=True)
    total = sum(distance * distance, axis, keepdims)
    return total / _freedom(x, total, correction if unbiased is None else int(unbiased))


@public()
def std(x, axis=None, correction=1, keepdims=False, unbiased=None):
    """The square root of the variance. Where all elements are equal, its gradient is 0, as the norm's."""
    x = as_tensor(x)
    distance = norm(x - mean(x, axis, keepdims=True), 2, axis, keepdims)
    return distance / _freedom(x, distance, correction if unbiased is None else int(unbiased)) ** 0.5


def _freedom(x, total, correction):
    """Return n - correction, with n elements in each total; nan unless positive, as in PyTorch."""
    left = x.data.size / total.data.size - correction if total.data.size else 1
    return left if left > 0 else np.nan


@public()
def norm(x, p="fro", axis=None, keepdims=False, dtype=None):
    """The p-norm of the elements as one vector: (sum |x|^p)^(1/p).

    p = 2 or "fro" is the Euclidean norm, 1 the sum of absolute values, inf the largest absolute value, 0 the
    number of nonzero elements. At the zero vector, where the norm has a kink, its gradient is 0.
    """
    x, axis = floating(_as(x, dtype)), _axes(axis)
    if p in ("fro", 2, None):
        return apply(array_functions.norm, x, axis=axis, keepdims=keepdims)
    if isinstance(p, str):
        raise ValueError(f"norm: p is a number or 'fro', got {p!r}.")
    if p == 1:
        return sum(abs(x), axis, keepdims)
    if p == 0:
        return sum((x != 0).to(x.dtype), axis, keepdims)
    if p in (np.inf, -np.inf):
        return (amax if p > 0 else amin)(abs(x), axis, keepdims)
    total = sum(abs(x) ** p, axis, keepdims)
    # the inner where keeps the slope at 0 finite
    return where(total == 0, 0.0, where(total == 0, 1.0, total) ** (1 / p))


@public(np.prod)
def prod(x, axis=None, keepdims=False, dtype=None):
    """The product over one axis, several, or all. Its gradient is also right if elements are zero."""
    x, shape = _merge_axes(_as(x, dtype), axis)
    out = apply(np.prod, x, axis=-1)
    return out.reshape(shape) if keepdims else out


@public(np.cumsum)
def cumsum(x, axis=None, dtype=None):
    """The cumulative sum along an axis; without one, of the flattened x."""
    x = _as(x, dtype)
    return (
        apply(np.cumsum, x.reshape(-1), axis=0)
        if axis is None
        else apply(np.cumsum, x, axis=axis_of(x, axis))
    )


@public(np.cumprod)
def cumprod(x, axis=None, dtype=None):
    """The cumulative product along an axis; without one, of the flattened x.

    Computed by doubling: products of 2 neighbors, then of 4, then of 8. Nothing is divided, so derivatives of
    any order are right if elements are zero.
    """
    x = _as(x, dtype)
    x = x.reshape(-1) if axis is None else x
    x = x if x.dtype.kind == "f" else x.long()
    axis, step = axis_of(x, axis or 0), 1
    while step < x.shape[axis]:
        first, rest, before = (x[along(axis, s)] for s in (slice(step), slice(step, None), slice(-step)))
        x, step = concatenate([first, rest * before], axis), 2 * step
    return x * 1 if step == 1 else x  # always a new tensor


# ---------------------------------------------------------------- booleans and counts: no gradient


@public(np.any)
def any(x, axis=None, keepdims=False):
    """Check whether any element is nonzero."""
    return apply(np.any, as_tensor(x), axis=_axes(axis), keepdims=keepdims)


@public(np.all)
def all(x, axis=None, keepdims=False):
    """Check whether all elements are nonzero."""
    return apply(np.all, as_tensor(x), axis=_axes(axis), keepdims=keepdims)


@public(np.count_nonzero)
def count_nonzero(x, axis=None, keepdims=False):
    """Count the nonzero elements."""
    return apply(np.count_nonzero, as_tensor(x), axis=_axes(axis), keepdims=keepdims)


@public(np.argmax)
def argmax(x, axis=None, keepdims=False):
    """The position of the (first) largest value; integers, no gradient."""
    return apply(np.argmax, as_tensor(x), axis=axis, keepdims=keepdims)


@public(np.argmin)
def argmin(x, axis=None, keepdims=False):
    """The position of the (first) smallest value; integers, no gradient."""
    return apply(np.argmin, as_tensor(x), axis=axis, keepdims=keepdims)


# ---------------------------------------------------------------- extremes and sorting


@public(np.amax, np.max)
def amax(x, axis=None, keepdims=False):
    """The largest value over one axis, several, or all; ties share the gradient equally."""
    return apply(np.amax, as_tensor(x), axis=_axes(axis), keepdims=keepdims)


@public(np.amin, np.min)
def amin(x, axis=None, keepdims=False):
    """The smallest value over one axis, several, or all; ties share the gradient equally."""
    return apply(np.amin, as_tensor(x), axis=_axes(axis), keepdims=keepdims)


Extremes = namedtuple("Extremes", "values indices")  # the result of max, min and median over an axis
Sorted = namedtuple("Sorted", "values indices")  # the result of sort and topk


@public()
def max(x, axis=None, keepdims=False, y=None):
    """The largest value; over an axis (values, indices); with a second tensor, maximum. As in PyTorch.

    Over an axis the gradient goes to the chosen index.
    """
    return _extreme(x, axis, keepdims, y, amax, argmax, maximum)


@public()
def min(x, axis=None, keepdims=False, y=None):
    """The smallest value; over an axis (values, indices); with a second tensor, minimum. As in PyTorch.

    Over an axis the gradient goes to the chosen index.
    """
    return _extreme(x, axis, keepdims, y, amin, argmin, minimum)


def _extreme(x, axis, keepdims, y, value, position, of_two):
    if y is not None or isinstance(axis, (Tensor, np.ndarray)):
        return of_two(x, axis if y is None else y)
    return (
        value(x) if axis is None else _choose(as_tensor(x), position(x, axis, keepdims=True), axis, keepdims)
    )


def _choose(x, index, axis, keepdims):
    """Return the values at one index along the axis, and the index."""
    values = take_along_axis(x, index, axis)
    return Extremes(values, index) if keepdims else Extremes(squeeze(values, axis), squeeze(index, axis))


@public()
def argsort(x, axis=-1, descending=False, stable=True):
    """The positions that sort x. Equal elements keep their order."""
    x = as_tensor(x).detach()
    if not descending:
        return apply(np.argsort, x, axis=axis, kind="stable")
    order = flip(apply(np.argsort, flip(x, axis), axis=axis, kind="stable"), axis)
    return x.shape[axis_of(x, axis)] - 1 - order


@public()
def sort(x, axis=-1, descending=False, stable=True):
    """Sort. Returns (values, indices); each gradient goes back to the position of its value."""
    if not as_tensor(x).ndim:
        return Sorted(as_tensor(x) * 1, argsort(unsqueeze(as_tensor(x), 0))[0])
    order = argsort(x, axis, descending)
    return Sorted(take_along_axis(x, order, axis), order)


@public()
def topk(x, k, axis=-1, largest=True, sorted=True):
    """(values, indices) of the k largest elements, largest first; or of the k smallest."""
    x = as_tensor(x)
    if not 0 <= k <= x.shape[axis_of(x, axis)]:
        raise ValueError(
            f"topk: k = {k}, but axis {axis} of a tensor of shape {x.shape} has {x.shape[axis]} elements."
        )
    order = argsort(x, axis, descending=largest)[along(axis_of(x, axis), slice(k))]
    return Sorted(take_along_axis(x, order, axis), order)


@public()
def median(x, axis=None, keepdims=False):
    """The middle value; over an axis (values, indices).

    Of two middle values it is the lower one, as in PyTorch. (np.median on a tensor takes their mean.)
    """
    x = as_tensor(x)
    if axis is None:
        return median(x.reshape(-1), 0).values
    middle = (x.shape[axis_of(x, axis)] - 1) // 2
    if middle < 0:
        raise ValueError(f"median: axis {axis} of a tensor of shape {x.shape} is empty.")
    return _choose(x, argsort(x, axis)[along(axis_of(x, axis), slice(middle, middle + 1))], axis, keepdims)


# ---------------------------------------------------------------- NumPy's functions with another meaning


def _median(a, axis=None, keepdims=False):
    x, shape = _merge_axes(as_tensor(a), axis)
    n = x.shape[-1]
    out = sort(x).values[..., (n - 1) // 2 : n // 2 + 1].mean(-1)
    return out.reshape(shape) if keepdims else out


FROM_NUMPY[np.var] = lambda a, axis=None, ddof=0, keepdims=False: var(a, axis, ddof, keepdims)
FROM_NUMPY[np.std] = lambda a, axis=None, ddof=0, keepdims=False: std(a, axis, ddof, keepdims)
FROM_NUMPY[np.median] = _median
FROM_NUMPY[np.ptp] = lambda a, axis=None, keepdims=False: amax(a, axis, keepdims) - amin(a, axis, keepdims)
FROM_NUMPY[np.sort] = lambda a, axis=-1, kind=None, stable=None: sort(
    a.reshape(-1) if axis is None else a, 0 if axis is None else axis
)[0]
FROM_NUMPY[np.argsort] = lambda a, axis=-1, kind=None, stable=None: argsort(
    a.reshape(-1) if axis is None else a, 0 if axis is None else axis
)
