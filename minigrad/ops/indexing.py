"""Read, write and add elements by index.

Each function builds an index of x[...], so its gradient is x[...]'s. An index is a tensor or an array of
integers. (x[...] itself is Tensor.__getitem__.)
"""

import numpy as np

from minigrad.engine import array_functions
from minigrad.engine.operators import FROM_NUMPY
from minigrad.engine.recording import apply, as_tensor
from minigrad.engine.tensor import Tensor
from minigrad.ops.elementwise import where
from minigrad.ops.shape import broadcast_to, reshape
from minigrad.ops.spelling import along, axis_of, public

__all__ = [
    "take_along_axis", "take_along_dim", "gather", "index_select", "take", "masked_select", "select", "narrow", "nonzero",
    "scatter_add", "scatter", "index_add",
]  # fmt: skip


def _integers(index, name):
    """Return the index as an array of integers. Raises TypeError if it is none."""
    index = as_tensor(index).data
    if index.dtype.kind not in "iu":
        raise TypeError(f"{name}: the index must be integers, got {index.dtype}.")
    return index


def _full_index(index, axis):
    """Make the index of x[i, j, index[i, j, k]]: `index` on one axis, the own position on the others."""
    grid = np.ogrid[tuple(slice(n) for n in index.shape)]
    return tuple(index if i == axis else at for i, at in enumerate(grid))


# ---------------------------------------------------------------- reading


@public(np.take_along_axis)
def take_along_axis(x, indices, axis=None):
    """Take the elements at `indices`, as argsort and argmax(keepdims=True) return them, along the axis."""
    x, indices = as_tensor(x), _integers(indices, "take_along_axis")
    if axis is None:
        return reshape(x, -1)[indices.reshape(-1)]
    axis = axis_of(x, axis)
    if indices.ndim != x.ndim:
        raise ValueError(
            f"take_along_axis: indices of shape {indices.shape} need as many axes as the tensor "
            f"of shape {x.shape}."
        )
    lengths = [(n, m) for i, (n, m) in enumerate(zip(x.shape, indices.shape)) if i != axis]
    if any(n != m and 1 not in (n, m) for n, m in lengths):
        raise ValueError(
            f"take_along_axis: indices of shape {indices.shape} must fit {x.shape} on every axis but axis "
            f"{axis}."
        )
    common = [m if n == 1 else n for n, m in lengths]
    return gather(
        broadcast_to(x, *common[:axis], x.shape[axis], *common[axis:]), axis,
        np.broadcast_to(indices, (*common[:axis], indices.shape[axis], *common[axis:])),
    )  # fmt: skip


take_along_dim = take_along_axis


@public()
def gather(x, axis, index):
    """out[i, j, k] = x[i, index[i, j, k], k] for axis 1. index may be smaller than x on other axes."""
    x, index = as_tensor(x), _integers(index, "gather")
    _check_fits(x, axis, index, "gather")
    return x[_full_index(index, axis_of(x, axis))]


def _check_fits(x, axis, index, name):
    axis = axis_of(x, axis)
    if index.ndim != x.ndim or any(n > m for i, (n, m) in enumerate(zip(index.shape, x.shape)) if i != axis):
        raise ValueError(
            f"{name}: an index of shape {index.shape} must have as many axes as {x.shape} and be no longer "
            f"on any axis but {axis}."
        )


@public()
def index_select(x, axis, index):
    """Take the slices of an axis at `index` (one axis)."""
    x = as_tensor(x)
    return x[along(axis_of(x, axis), np.atleast_1d(_integers(index, "index_select")))]


@public()
def take(x, index):
    """Index the flattened x. (np.take on a tensor also accepts an axis.)"""
    return reshape(as_tensor(x), -1)[_integers(index, "take")]


@public()
def masked_select(x, mask):
    """Return the elements where the mask is True, as a vector. x and the mask broadcast."""
    x, mask = as_tensor(x), as_tensor(mask).data
    if mask.dtype != bool:
        raise TypeError(f"masked_select: the mask must be boolean, got {mask.dtype}.")
    shape = np.broadcast_shapes(x.shape, mask.shape)
    return broadcast_to(x, shape)[np.broadcast_to(mask, shape)]


@public()
def select(x, axis, index):
    """Take one slice of an axis, and drop the axis."""
    x = as_tensor(x)
    return x[along(axis_of(x, axis), int(index))]


@public()
def narrow(x, axis, start, length):
    """Take `length` slices of an axis, beginning at `start`."""
    x = as_tensor(x)
    n = x.shape[axis_of(x, axis)]
    first = int(start) + n if start < 0 else int(start)
    if not 0 <= first <= first + length <= n:
        raise IndexError(f"narrow: {length} slices from {start} exceed axis {axis} of length {n}.")
    return x[along(axis_of(x, axis), slice(first, first + length))]


@public()
def nonzero(x, as_tuple=False):
    """The positions of nonzero elements: (count, axes), or with as_tuple an index, a tensor for each axis."""
    found = as_tensor(x).data.nonzero() if as_tensor(x).ndim else np.nonzero(as_tensor(x).data.reshape(1))
    return tuple(map(Tensor, found)) if as_tuple else Tensor(np.stack(found, 1)[:, : as_tensor(x).ndim])


# ---------------------------------------------------------------- writing and adding


def _source(source, index, x, name):
    """Cut the source to the shape of the index, and convert it to x's dtype."""
    source = as_tensor(source, x.dtype)
    if not source.ndim:
        return broadcast_to(source, index.shape)
    if source.ndim != index.ndim or any(n > m for n, m in zip(index.shape, source.shape)):
        raise ValueError(
            f"{name}: an index of shape {index.shape} needs a source at least as long on every axis, "
            f"got {source.shape}."
        )
    return source[tuple(slice(n) for n in index.shape)]


@public()
def scatter_add(x, axis, index, src):
    """Add src[i, j] to x at [index[i, j], j] for axis 0. An index that occurs twice receives both."""
    x, index = as_tensor(x), _integers(index, "scatter_add")
    _check_fits(x, axis, index, "scatter_add")
    full_index = _full_index(index, axis_of(x, axis))
    return x + apply(array_functions.scatter_add, _source(src, index, x, "scatter_add"), full_index, x.shape)


@public()
def scatter(x, axis, index, src=None, *, value=None):
    """Write src[i, j] into a copy of x at [index[i, j], j] for axis 0. src may be a scalar.

    If several elements go to one position, the last one wins and alone gets the gradient (in PyTorch any may
    win).
    """
    x, index = as_tensor(x), _integers(index, "scatter")
    _check_fits(x, axis, index, "scatter")
    source = _source(value if src is None else src, index, x, "scatter")
    winner = np.full(x.shape, -1)
    winner[_full_index(index, axis_of(x, axis))] = np.arange(index.size).reshape(index.shape)
    put = winner >= 0
    return where(
        put, apply(array_functions.scatter_add, reshape(source, -1)[winner[put]], put.nonzero(), x.shape), x
    )


@public()
def index_add(x, axis, index, source, *, alpha=1):
    """Add the slices of `source` to x at `index` (one axis). An index that occurs twice receives both."""
    x, index = as_tensor(x), np.atleast_1d(_integers(index, "index_add"))
    source = as_tensor(source, x.dtype)
    return x + apply(
        array_functions.scatter_add,
        source if alpha == 1 else source * alpha,
        along(axis_of(x, axis), index),
        x.shape,
    )


# ---------------------------------------------------------------- NumPy's functions with other arguments


def _take(a, indices, axis=None):
    x = as_tensor(a)
    return take(x, indices) if axis is None else x[along(axis_of(x, axis), _integers(indices, "take"))]


FROM_NUMPY[np.take] = _take
FROM_NUMPY[np.nonzero] = lambda a: nonzero(a, as_tuple=True)
FROM_NUMPY[np.argwhere] = nonzero
FROM_NUMPY[np.flatnonzero] = lambda a: nonzero(reshape(a, -1), as_tuple=True)[0]
FROM_NUMPY[np.compress] = lambda condition, a, axis=None: _take(
    a, np.flatnonzero(as_tensor(condition).data), axis
)
