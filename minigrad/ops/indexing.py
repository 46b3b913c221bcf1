"""Numbers chosen by index: taken out, put in, added. Each is the index of x[...] spelled out, so its gradient is x[...]'s.

An index is whole numbers, a tensor or an array. (x[...] itself is Tensor.__getitem__.)
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


def _whole(index, name):
    """The index as an array of whole numbers."""
    index = as_tensor(index).data
    if index.dtype.kind not in "iu":
        raise TypeError(f"{name}: the index must be whole numbers, got {index.dtype}.")
    return index


def _places(index, axis):
    """The full index of x[i, j, index[i, j, k]] and its like: `index` on one axis, every other its own position."""
    grid = np.ogrid[tuple(slice(n) for n in index.shape)]
    return tuple(index if i == axis else at for i, at in enumerate(grid))


# ---------------------------------------------------------------- taken out


@public(np.take_along_axis)
def take_along_axis(x, indices, axis=None):
    """For each place of `indices` the number that it names along the axis: what argsort and argmax(keepdims=True) return."""
    x, indices = as_tensor(x), _whole(indices, "take_along_axis")
    if axis is None:
        return reshape(x, -1)[indices.reshape(-1)]
    axis = axis_of(x, axis)
    if indices.ndim != x.ndim:
        raise ValueError(
            f"take_along_axis: indices of shape {indices.shape} need as many axes as the tensor of shape {x.shape}."
        )
    lengths = [(n, m) for i, (n, m) in enumerate(zip(x.shape, indices.shape)) if i != axis]
    if any(n != m and 1 not in (n, m) for n, m in lengths):
        raise ValueError(
            f"take_along_axis: indices of shape {indices.shape} must fit {x.shape} on every axis but axis {axis}."
        )
    common = [m if n == 1 else n for n, m in lengths]
    return gather(
        broadcast_to(x, *common[:axis], x.shape[axis], *common[axis:]), axis,
        np.broadcast_to(indices, (*common[:axis], indices.shape[axis], *common[axis:])),
    )  # fmt: skip


take_along_dim = take_along_axis


@public()
def gather(x, axis, index):
    """out[i, j, k] = x[i, index[i, j, k], k] for axis 1, and so on; the index may be smaller than x on the other axes."""
    x, index = as_tensor(x), _whole(index, "gather")
    _check_fits(x, axis, index, "gather")
    return x[_places(index, axis_of(x, axis))]


def _check_fits(x, axis, index, name):
    axis = axis_of(x, axis)
    if index.ndim != x.ndim or any(n > m for i, (n, m) in enumerate(zip(index.shape, x.shape)) if i != axis):
        raise ValueError(
            f"{name}: an index of shape {index.shape} must have the axes of {x.shape} and be no longer on those other than {axis}."
        )


@public()
def index_select(x, axis, index):
    """The slices of an axis that `index` (one axis) names."""
    x = as_tensor(x)
    return x[along(axis_of(x, axis), np.atleast_1d(_whole(index, "index_select")))]


@public()
def take(x, index):
    """x flattened, at the index (np.take on a tensor takes an axis as well)."""
    return reshape(as_tensor(x), -1)[_whole(index, "take")]


@public()
def masked_select(x, mask):
    """The numbers where the mask is True, as one axis; both broadcast."""
    x, mask = as_tensor(x), as_tensor(mask).data
    if mask.dtype != bool:
        raise TypeError(f"masked_select: the mask must be boolean, got {mask.dtype}.")
    shape = np.broadcast_shapes(x.shape, mask.shape)
    return broadcast_to(x, shape)[np.broadcast_to(mask, shape)]


@public()
def select(x, axis, index):
    """One slice of an axis, which disappears."""
    x = as_tensor(x)
    return x[along(axis_of(x, axis), int(index))]


@public()
def narrow(x, axis, start, length):
    """`length` slices of an axis, from `start` on."""
    x = as_tensor(x)
    n = x.shape[axis_of(x, axis)]
    first = int(start) + n if start < 0 else int(start)
    if not 0 <= first <= first + length <= n:
        raise IndexError(f"narrow: {length} from {start} on does not lie within axis {axis} of length {n}.")
    return x[along(axis_of(x, axis), slice(first, first + length))]


@public()
def nonzero(x, as_tuple=False):
    """The positions of what is not zero: (how many, axes), or with as_tuple one tensor for each axis, to be used as an index."""
    found = as_tensor(x).data.nonzero() if as_tensor(x).ndim else np.nonzero(as_tensor(x).data.reshape(1))
    return tuple(map(Tensor, found)) if as_tuple else Tensor(np.stack(found, 1)[:, : as_tensor(x).ndim])


# ---------------------------------------------------------------- put in and added


def _source(source, index, x, name):
    """The part of the source that the index has places for, in x's dtype."""
    source = as_tensor(source, x.dtype)
    if not source.ndim:
        return broadcast_to(source, index.shape)
    if source.ndim != index.ndim or any(n > m for n, m in zip(index.shape, source.shape)):
        raise ValueError(
            f"{name}: an index of shape {index.shape} needs a source at least as long on every axis, got {source.shape}."
        )
    return source[tuple(slice(n) for n in index.shape)]


@public()
def scatter_add(x, axis, index, src):
    """x, with src[i, j] added at [index[i, j], j] for axis 0, and so on; an index that occurs twice receives both."""
    x, index = as_tensor(x), _whole(index, "scatter_add")
    _check_fits(x, axis, index, "scatter_add")
    places = _places(index, axis_of(x, axis))
    return x + apply(array_functions.scatter_add, _source(src, index, x, "scatter_add"), places, x.shape)


@public()
def scatter(x, axis, index, src=None, *, value=None):
    """x, with src[i, j] at [index[i, j], j] for axis 0, and so on; src may be one number. Of several for one place the last
    one counts, and it alone gets the gradient (in PyTorch any of them may)."""
    x, index = as_tensor(x), _whole(index, "scatter")
    _check_fits(x, axis, index, "scatter")
    source = _source(value if src is None else src, index, x, "scatter")
    winner = np.full(x.shape, -1)
    winner[_places(index, axis_of(x, axis))] = np.arange(index.size).reshape(index.shape)
    put = winner >= 0
    return where(
        put, apply(array_functions.scatter_add, reshape(source, -1)[winner[put]], put.nonzero(), x.shape), x
    )


@public()
def index_add(x, axis, index, source, *, alpha=1):
    """x, with the slices of `source` added where `index` (one axis) says; an index that occurs twice receives both."""
    x, index = as_tensor(x), np.atleast_1d(_whole(index, "index_add"))
    source = as_tensor(source, x.dtype)
    return x + apply(
        array_functions.scatter_add,
        source if alpha == 1 else source * alpha,
        along(axis_of(x, axis), index),
        x.shape,
    )


# ---------------------------------------------------------------- NumPy's functions that take something else


def _take(a, indices, axis=None):
    x = as_tensor(a)
    return take(x, indices) if axis is None else x[along(axis_of(x, axis), _whole(indices, "take"))]


FROM_NUMPY[np.take] = _take
FROM_NUMPY[np.nonzero] = lambda a: nonzero(a, as_tuple=True)
FROM_NUMPY[np.argwhere] = nonzero
FROM_NUMPY[np.flatnonzero] = lambda a: nonzero(reshape(a, -1), as_tuple=True)[0]
FROM_NUMPY[np.compress] = lambda condition, a, axis=None: _take(
    a, np.flatnonzero(as_tensor(condition).data), axis
)
