"""Functions that only move elements: reshape, transpose, repeat, join, split."""

import numpy as np

from minigrad.engine import array_functions
from minigrad.engine.operators import FROM_NUMPY
from minigrad.engine.recording import apply, as_tensor
from minigrad.engine.tensor import Tensor
from minigrad.ops.elementwise import where
from minigrad.ops.spelling import along, axis_of, public, several

__all__ = [
    "reshape", "view", "ravel", "flatten", "unflatten", "squeeze", "unsqueeze", "permute", "swapaxes", "transpose", "movedim",
    "moveaxis", "t", "flip", "roll", "broadcast_to", "expand", "tile", "repeat", "repeat_interleave", "meshgrid",
    "concatenate", "cat", "concat", "stack", "hstack", "vstack", "split", "chunk", "tensor_split", "array_split", "unbind",
    "tril", "triu", "diagonal", "diag_embed", "diag",
]  # fmt: skip


def _tuple(axes):
    return tuple(axes) if isinstance(axes, (tuple, list)) else (axes,)


# ---------------------------------------------------------------- shapes


@public()
def reshape(x, *shape):
    """Give the elements another shape; one length may be -1."""
    return apply(np.reshape, x, several(shape))


@public()
def view(x, *shape):
    """reshape under PyTorch's other name."""
    return apply(np.reshape, x, several(shape))


@public(np.ravel)
def ravel(x):
    """Flatten x to one axis."""
    return apply(np.reshape, x, (-1,))


@public()
def flatten(x, start_dim=0, end_dim=-1):
    """Merge the axes from start_dim to end_dim into one."""
    if not x.ndim:
        return reshape(x, 1)
    start, end = axis_of(x, start_dim), axis_of(x, end_dim)
    if start > end:
        raise ValueError(
            f"flatten: start_dim {start_dim} comes after end_dim {end_dim} in a tensor of shape {x.shape}."
        )
    return reshape(x, x.shape[:start] + (int(np.prod(x.shape[start : end + 1])),) + x.shape[end + 1 :])


@public()
def unflatten(x, axis, sizes):
    """Split one axis into several of the given sizes; one size may be -1."""
    axis = axis_of(x, axis)
    return reshape(x, x.shape[:axis] + _tuple(sizes) + x.shape[axis + 1 :])


@public()
def squeeze(x, axis=None):
    """Remove axes of length 1. Longer axes stay, as in PyTorch."""
    if axis is not None:
        axis = tuple(a for a in _tuple(axis) if x.shape[axis_of(x, a)] == 1)
    return apply(np.squeeze, x, axis=axis)


@public()
def unsqueeze(x, axis):
    """Insert a new axis of length 1."""
    return apply(np.expand_dims, x, axis)


# ---------------------------------------------------------------- the order of axes or of elements


@public()
def permute(x, *axes):
    """Reorder the axes."""
    return apply(np.transpose, x, several(axes))


@public()
def swapaxes(x, axis0, axis1):
    """Swap two axes."""
    return apply(np.swapaxes, x, axis0, axis1)


@public()
def transpose(x, axis0, axis1):
    """Swap two axes, as in PyTorch. permute reorders all axes, .T transposes a matrix."""
    return apply(np.swapaxes, x, axis0, axis1)


@public(np.moveaxis)
def movedim(x, source, destination):
    """Move some axes to other positions; the others keep their order."""
    source, destination = ([axis_of(x, a) for a in _tuple(axes)] for axes in (source, destination))
    if len(set(source)) != len(set(destination)) or len(source) != len(destination):
        raise ValueError(
            f"movedim needs as many positions as axes, each once, got {source} and {destination}."
        )
    order = [a for a in range(x.ndim) if a not in source]
    for position, axis in sorted(zip(destination, source)):
        order.insert(position, axis)
    return permute(x, order)


@public()
def t(x):
    """Transpose a matrix; a vector stays as it is."""
    if x.ndim > 2:
        raise ValueError(
            f"t() is for matrices, got shape {x.shape}; use .mT for a batch of them, or permute."
        )
    return apply(np.transpose, x)


@public()
def flip(x, *axes, axis=None):
    """Reverse the order of the elements along some axes."""
    axes = _tuple(axis) if axis is not None else several(axes)
    backwards = {axis_of(x, a) for a in axes}
    return x[tuple(slice(None, None, -1 if i in backwards else 1) for i in range(x.ndim))]


@public(np.roll)
def roll(x, shift, axis=None):
    """Shift the elements by `shift` positions along one axis or several, cyclically."""
    if axis is None:
        return roll(reshape(x, -1), shift, 0).reshape(x.shape)
    for s, a in np.broadcast(shift, axis):
        a = axis_of(x, int(a))
        cut = -int(s) % (x.shape[a] or 1)
        x = concatenate([x[along(a, slice(cut, None))], x[along(a, slice(cut))]], a)
    return x


# ---------------------------------------------------------------- copies


@public()
def broadcast_to(x, *shape):
    """Repeat x along axes of length 1 and new leading axes, without copying."""
    return apply(np.broadcast_to, x, several(shape))


@public()
def expand(x, *shape):
    """broadcast_to, in which -1 leaves an axis as it is."""
    shape = several(shape)
    extra = len(shape) - x.ndim
    return broadcast_to(x, tuple(x.shape[i - extra] if n == -1 else n for i, n in enumerate(shape)))


@public()
def tile(x, *reps):
    """Repeat the whole of x `reps` times along each axis; missing entries, on the left, mean 1."""
    reps = several(reps)
    ndim = max(len(reps), x.ndim)
    shape, reps = (1,) * (ndim - x.ndim) + x.shape, (1,) * (ndim - len(reps)) + tuple(reps)
    between = [n for size in shape for n in (1, size)]  # (1, A, 1, B): an axis to stretch before each axis
    stretched = [n for pair in zip(reps, shape) for n in pair]
    return reshape(broadcast_to(reshape(x, between), stretched), [r * n for r, n in zip(reps, shape)])


@public()
def repeat(x, *sizes):
    """tile under PyTorch's name, with an entry for every axis. (np.repeat is repeat_interleave.)"""
    if len(several(sizes)) < x.ndim:
        raise ValueError(
            f"repeat: {several(sizes)} has fewer entries than the tensor of shape {x.shape} has axes; "
            "tile adds ones."
        )
    return tile(x, *sizes)


@public(np.repeat)
def repeat_interleave(x, repeats, axis=None):
    """Repeat each element `repeats` times, along an axis or flattened; or each by its own number."""
    x, axis = (reshape(x, -1), 0) if axis is None else (x, axis_of(x, axis))
    repeats = as_tensor(repeats).data
    if repeats.ndim:
        return x[along(axis, np.repeat(np.arange(x.shape[axis]), repeats))]
    stretched = broadcast_to(
        unsqueeze(x, axis + 1), x.shape[: axis + 1] + (int(repeats),) + x.shape[axis + 1 :]
    )
    return flatten(stretched, axis, axis + 1)


@public()
def meshgrid(*tensors, indexing="ij"):
    """Make a grid of each vector, in which it varies along its own axis. (np.meshgrid's default is "xy".)"""
    tensors = [reshape(as_tensor(x), -1) for x in several(tensors)]
    shape = tuple(x.shape[0] for x in tensors)
    grids = [
        broadcast_to(reshape(x, [-1 if j == i else 1 for j in range(len(shape))]), shape)
        for i, x in enumerate(tensors)
    ]
    return tuple(swapaxes(grid, 0, 1) if indexing == "xy" and len(shape) > 1 else grid for grid in grids)


# ---------------------------------------------------------------- joining and splitting


@public()
def concatenate(tensors, axis=0):
    """Join tensors along an existing axis."""
    tensors = [as_tensor(t) for t in tensors]
    if not tensors:
        raise ValueError("concatenate needs at least one tensor, got an empty list.")
    return apply(array_functions.concatenate, *tensors, axis=axis)


@public()
def stack(tensors, axis=0):
    """Join tensors of the same shape along a new axis."""
    tensors = [as_tensor(t) for t in tensors]
    if len({t.shape for t in tensors}) != 1:
        raise ValueError(f"stack needs tensors of one shape, got {[t.shape for t in tensors]}.")
    return concatenate([unsqueeze(t, axis) for t in tensors], axis=axis)


@public()
def hstack(tensors):
    """Join tensors horizontally: vectors along their only axis, all others along the second axis."""
    tensors = [as_tensor(t) if as_tensor(t).ndim else reshape(as_tensor(t), 1) for t in tensors]
    return concatenate(tensors, min(1, tensors[0].ndim - 1))


@public()
def vstack(tensors):
    """Join tensors vertically: along the first axis, with vectors as rows."""
    return concatenate(
        [reshape(as_tensor(t), 1, -1) if as_tensor(t).ndim < 2 else as_tensor(t) for t in tensors]
    )


@public()
def split(x, split_size_or_sections, axis=0):
    """Split an axis into pieces of one size (the last may be shorter), or of the listed sizes.

    np.split on a tensor takes the positions of the cuts instead.
    """
    n = x.shape[axis_of(x, axis)]
    sizes = split_size_or_sections
    if not isinstance(sizes, (tuple, list)):
        size = int(sizes)
        if size < 1:
            raise ValueError(f"split: the size of a piece must be at least 1, got {size}.")
        sizes = [size] * (n // size) + [n % size] * (n % size > 0 or n == 0)
    if sum(sizes) != n or min(sizes, default=0) < 0:
        raise ValueError(
            f"split: pieces of {list(sizes)} do not add up to axis {axis} of a tensor of shape {x.shape}."
        )
    return apply(array_functions.split, x, sizes=tuple(sizes), axis=axis_of(x, axis)) if sizes else ()


@public()
def chunk(x, chunks, axis=0):
    """Split an axis into at most `chunks` pieces of one size; the last may be shorter."""
    n = x.shape[axis_of(x, axis)]
    return split(x, -(-n // chunks) if n else [0] * chunks, axis)


@public()
def tensor_split(x, indices_or_sections, axis=0):
    """Split an axis at the given positions; or into n pieces, the first ones longer by one if needed."""
    n, cuts = x.shape[axis_of(x, axis)], indices_or_sections
    if isinstance(cuts, (int, np.integer)):
        cuts = np.cumsum([n // cuts + (i < n % cuts) for i in range(cuts - 1)], dtype=int)
    edges = [0, *map(int, as_tensor(cuts).data), n]
    return tuple(x[along(axis_of(x, axis), slice(a, b))] for a, b in zip(edges, edges[1:]))


@public()
def unbind(x, axis=0):
    """Split an axis into its slices. Returns a tuple."""
    return tuple(squeeze(piece, axis) for piece in split(x, [1] * x.shape[axis_of(x, axis)], axis))


def pad(x, widths, mode="constant", value=0):
    """Add (before, after) elements to each axis: a value, or x's own by `mode`, as in np.pad.

    Negative widths remove elements.
    """
    if mode != "constant":
        for axis, (before, after) in enumerate(widths):
            if before or after:
                x = x[along(axis, np.pad(np.arange(x.shape[axis]), (before, after), mode))]
        return x
    x = x[tuple(slice(max(0, -a), n + min(0, b)) for n, (a, b) in zip(x.shape, widths))]
    inside = tuple(slice(max(0, a), max(0, a) + n) for n, (a, _) in zip(x.shape, widths))
    shape = tuple(n + max(0, a) + max(0, b) for n, (a, b) in zip(x.shape, widths))
    out = apply(array_functions.scatter_add, x, inside, shape)
    if not isinstance(value, Tensor) and value == 0:
        return out
    return where(
        array_functions.scatter_add(np.ones(x.shape, bool), inside, shape), out, as_tensor(value, x.dtype)
    )


# ---------------------------------------------------------------- triangles and diagonals


@public(np.tril)
def tril(x, k=0, *, diagonal=0):
    """The lower triangle of the last two axes: zero above the k-th diagonal."""
    return apply(np.tril, as_tensor(x), k=k + diagonal)


@public(np.triu)
def triu(x, k=0, *, diagonal=0):
    """The upper triangle of the last two axes: zero below the k-th diagonal."""
    return apply(np.triu, as_tensor(x), k=k + diagonal)


def _on_the_diagonal(n, m, k):
    """Make the index of the k-th diagonal in a flattened n by m matrix."""
    start, length = (k if k >= 0 else -k * m), max(0, min(n + min(k, 0), m - max(k, 0)))
    return ..., slice(start, start + length * (m + 1), m + 1)


@public(np.diagonal)
def diagonal(x, offset=0, axis1=0, axis2=1):
    """Take the diagonal of two axes, as the last axis."""
    x = movedim(x, (axis1, axis2), (-2, -1))
    return flatten(x, -2)[_on_the_diagonal(*x.shape[-2:], offset)]


@public()
def diag_embed(x, offset=0):
    """Make square matrices with the last axis on their diagonal and zeros elsewhere."""
    n = x.shape[-1] + abs(offset)
    return apply(
        array_functions.scatter_add, x, _on_the_diagonal(n, n, offset), (*x.shape[:-1], n * n)
    ).reshape(*x.shape[:-1], n, n)


@public(np.diag)
def diag(x, k=0, *, diagonal=0):
    """Make a matrix with a vector on its k-th diagonal, or take the k-th diagonal of a matrix."""
    if x.ndim not in (1, 2):
        raise ValueError(
            f"diag is for vectors and matrices, got shape {x.shape}; diagonal and diag_embed take batches."
        )
    return diag_embed(x, k + diagonal) if x.ndim == 1 else x.diagonal(k + diagonal)


# ---------------------------------------------------------------- other names

moveaxis = movedim
cat = concat = concatenate
array_split = tensor_split

# ---------------------------------------------------------------- NumPy's functions with other arguments


def _pad(array, pad_width, mode="constant", *, constant_values=0):
    if mode not in ("constant", "edge", "reflect", "symmetric", "wrap") or np.ndim(constant_values):
        raise NotImplementedError(
            "np.pad on a tensor has the modes constant (one value), edge, reflect, symmetric and wrap, "
            f"got mode {mode!r}."
        )
    return pad(array, np.broadcast_to(pad_width, (array.ndim, 2)).tolist(), mode, constant_values)


def _split(ary, indices_or_sections, axis=0):
    n = ary.shape[axis_of(ary, axis)]
    if isinstance(indices_or_sections, (int, np.integer)) and n % indices_or_sections:
        raise ValueError(
            f"np.split: axis {axis} of a tensor of shape {ary.shape} does not divide into "
            f"{indices_or_sections} equal parts."
        )
    return list(tensor_split(ary, indices_or_sections, axis))


FROM_NUMPY[np.concatenate] = lambda arrays, axis=0: concatenate(
    arrays if axis is not None else map(ravel, map(as_tensor, arrays)), axis or 0
)
FROM_NUMPY[np.stack] = lambda arrays, axis=0: stack(arrays, axis)
FROM_NUMPY[np.hstack] = lambda tup: hstack(tup)
FROM_NUMPY[np.vstack] = lambda tup: vstack(tup)
FROM_NUMPY[np.split] = _split
FROM_NUMPY[np.array_split] = lambda ary, indices_or_sections, axis=0: list(
    tensor_split(ary, indices_or_sections, axis)
)
FROM_NUMPY[np.reshape] = lambda a, shape: reshape(a, shape)
FROM_NUMPY[np.broadcast_to] = lambda array, shape: broadcast_to(array, shape)
FROM_NUMPY[np.broadcast_arrays] = lambda *args: tuple(
    as_tensor(x).broadcast_to(np.broadcast_shapes(*map(np.shape, args))) for x in args
)
FROM_NUMPY[np.matrix_transpose] = lambda x: x.mT
FROM_NUMPY[np.tile] = lambda A, reps: tile(A, *_tuple(reps))
FROM_NUMPY[np.flip] = lambda m, axis=None: flip(m, *(range(m.ndim) if axis is None else _tuple(axis)))
FROM_NUMPY[np.flipud] = lambda m: flip(m, 0)
FROM_NUMPY[np.fliplr] = lambda m: flip(m, 1)
FROM_NUMPY[np.meshgrid] = lambda *xi, indexing="xy": meshgrid(*xi, indexing=indexing)
FROM_NUMPY[np.pad] = _pad
FROM_NUMPY[np.shape] = lambda a: a.shape
FROM_NUMPY[np.ndim] = lambda a: a.ndim
FROM_NUMPY[np.size] = lambda a, axis=None: a.numel() if axis is None else a.shape[axis]
FROM_NUMPY[np.copy] = lambda a: a.clone()
if hasattr(np, "unstack"):  # NumPy 2.1
    FROM_NUMPY[np.unstack] = lambda x, *, axis=0: unbind(x, axis)
