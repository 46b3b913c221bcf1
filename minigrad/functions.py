"""What people type: functions named as in PyTorch, each also a method of Tensor. Knows names and spellings; the work is done
by NumPy's functions through `apply`, and by their rules in ops.py.

`axis` and `keepdims` may be spelled `dim` and `keepdim`. NumPy's own functions, called on tensors, land here as well.
"""

import functools

import numpy as np

from minigrad import primitives
from minigrad._tensor import FROM_NUMPY, Tensor, apply, as_tensor

__all__ = ["cat"]  # and every function marked @public
_SPELLINGS = {"dim": "axis", "keepdim": "keepdims", "input": "x", "a": "x"}


def either_spelling(fun):
    """Let `fun` take dim for axis, keepdim for keepdims."""

    @functools.wraps(fun)
    def either(*args, **kwargs):
        return fun(*args, **{_SPELLINGS.get(k, k): v for k, v in kwargs.items()}) if kwargs else fun(*args)

    return either


def public(*numpys, method=True):
    """Make a function a method of Tensor, and what the given NumPy functions mean on tensors; accept both spellings."""

    def decorate(fun):
        either = either_spelling(fun)
        if method:
            setattr(Tensor, fun.__name__, either)
        FROM_NUMPY.update(dict.fromkeys(numpys, either))
        __all__.append(fun.__name__)
        return either

    return decorate


def _elementwise(fun, name=None):
    def call(x):
        return apply(fun, as_tensor(x))

    call.__name__ = call.__qualname__ = name or fun.__name__
    call.__doc__ = f"{call.__name__}(x) of every element."
    return public()(call)


exp = _elementwise(np.exp)
log = _elementwise(np.log)
sqrt = _elementwise(np.sqrt)
square = _elementwise(np.square)
tanh = _elementwise(np.tanh)
sin = _elementwise(np.sin)
cos = _elementwise(np.cos)
abs = _elementwise(np.absolute, "abs")
neg = _elementwise(np.negative, "neg")
sign = _elementwise(np.sign)
floor = _elementwise(np.floor)
ceil = _elementwise(np.ceil)
round = _elementwise(np.rint, "round")
sigmoid = _elementwise(primitives.sigmoid)
erf = _elementwise(primitives.erf)
relu = _elementwise(primitives.relu)
isnan = _elementwise(np.isnan)
isinf = _elementwise(np.isinf)
isfinite = _elementwise(np.isfinite)

# ---------------------------------------------------------------- two arguments


@public()
def maximum(x, y):
    """The larger of the two, elementwise; at a tie each gets half of the gradient."""
    return apply(np.maximum, x, y)


@public()
def minimum(x, y):
    """The smaller of the two, elementwise; at a tie each gets half of the gradient."""
    return apply(np.minimum, x, y)


@public()
def matmul(x, y):
    """The matrix product x @ y over the last two axes, broadcasting the others; vectors as in NumPy."""
    return apply(np.matmul, x, y)


@public(np.where, method=False)
def where(condition, x, y):
    """x where the condition holds, else y. A NaN or inf in the slope of the branch not chosen still spoils the gradient
    (0 * inf is NaN): make its argument harmless too, with a second where inside."""
    return apply(np.where, condition, x, y)


@public()
def masked_fill(x, mask, value):
    """x with `value` wherever the mask is True."""
    return apply(np.where, mask, value, x)


# The method is called on the tensor to keep, as in PyTorch: x.where(condition, other).
Tensor.where = lambda self, condition, y: where(condition, self, y)

# ---------------------------------------------------------------- reductions


def _axes(axis):
    return tuple(axis) if isinstance(axis, list) else axis


@public(np.sum)
def sum(x, axis=None, keepdims=False):
    """The sum over one axis, several, or all."""
    return apply(np.sum, as_tensor(x), axis=_axes(axis), keepdims=keepdims)


@public(np.amax)
def amax(x, axis=None, keepdims=False):
    """The largest value over an axis, several, or all; ties share the gradient equally."""
    return apply(np.amax, as_tensor(x), axis=_axes(axis), keepdims=keepdims)


@public(np.amin)
def amin(x, axis=None, keepdims=False):
    """The smallest value over an axis, several, or all; ties share the gradient equally."""
    return apply(np.amin, as_tensor(x), axis=_axes(axis), keepdims=keepdims)


@public(np.mean)
def mean(x, axis=None, keepdims=False):
    """The mean over one axis, several, or all."""
    x = as_tensor(x)
    total = sum(x, axis, keepdims)
    return total / (x.data.size / total.data.size if total.data.size else 1)


@public()
def var(x, axis=None, correction=1, keepdims=False, unbiased=None):
    """The variance: squared distance from the mean, summed, over n - correction (1 as in PyTorch; np.var on a tensor uses 0)."""
    x, correction = as_tensor(x), correction if unbiased is None else int(unbiased)
    distance = x - mean(x, axis, keepdims=True)
    total = sum(distance * distance, axis, keepdims)
    return total / (x.data.size / total.data.size - correction if total.data.size else 1)


@public()
def std(x, axis=None, correction=1, keepdims=False, unbiased=None):
    """The square root of the variance."""
    return sqrt(var(x, axis, correction, keepdims, unbiased))


@public(np.argmax)
def argmax(x, axis=None, keepdims=False):
    """The position of the (first) largest value; whole numbers, no gradient."""
    return apply(np.argmax, as_tensor(x), axis=axis, keepdims=keepdims)


@public(np.argmin)
def argmin(x, axis=None, keepdims=False):
    """The position of the (first) smallest value; whole numbers, no gradient."""
    return apply(np.argmin, as_tensor(x), axis=axis, keepdims=keepdims)


@public(np.any)
def any(x, axis=None, keepdims=False):
    """Whether some element is not zero."""
    return apply(np.any, as_tensor(x), axis=_axes(axis), keepdims=keepdims)


@public(np.all)
def all(x, axis=None, keepdims=False):
    """Whether no element is zero."""
    return apply(np.all, as_tensor(x), axis=_axes(axis), keepdims=keepdims)


# ---------------------------------------------------------------- shape


def _several(numbers):
    """reshape(2, 3) and reshape((2, 3)) mean the same."""
    return tuple(numbers[0]) if len(numbers) == 1 and isinstance(numbers[0], (tuple, list)) else numbers


def _axis(x, axis):
    """An axis counted from the left, if there is one of that number."""
    if not -x.ndim <= axis < x.ndim:
        raise np.exceptions.AxisError(f"axis {axis} does not exist in a tensor of shape {x.shape}, which has {x.ndim} axes.")
    return axis % x.ndim


@public()
def reshape(x, *shape):
    """The same elements in another shape; one length may be -1."""
    return apply(np.reshape, x, _several(shape))


@public()
def view(x, *shape):
    """reshape, under PyTorch's other name."""
    return apply(np.reshape, x, _several(shape))


@public()
def permute(x, *axes):
    """The axes in another order."""
    return apply(np.transpose, x, _several(axes))


@public(np.swapaxes)
def swapaxes(x, axis0, axis1):
    """Two axes exchanged."""
    return apply(np.swapaxes, x, axis0, axis1)


@public()
def transpose(x, dim0, dim1):
    """Two axes exchanged, as in PyTorch; permute orders all of them, .T reverses a matrix."""
    return apply(np.swapaxes, x, dim0, dim1)


@public()
def broadcast_to(x, *shape):
    """Repeated, without copying, along axes of length 1 and new leading axes."""
    return apply(np.broadcast_to, x, _several(shape))


@public()
def expand(x, *shape):
    """broadcast_to, where -1 keeps an axis as it is."""
    shape = _several(shape)
    extra = len(shape) - x.ndim
    return broadcast_to(x, tuple(x.shape[i - extra] if n == -1 else n for i, n in enumerate(shape)))


@public()
def squeeze(x, axis=None):
    """Without the axes of length 1; one that is longer is left alone, as in PyTorch."""
    if axis is not None:
        axis = tuple(a for a in (axis if isinstance(axis, tuple) else (axis,)) if x.shape[_axis(x, a)] == 1)
    return apply(np.squeeze, x, axis=axis)


@public()
def unsqueeze(x, axis):
    """With a new axis of length 1."""
    return apply(np.expand_dims, x, axis)


@public()
def flatten(x, start_dim=0, end_dim=-1):
    """The axes from start_dim to end_dim as one."""
    if not x.ndim:
        return reshape(x, 1)
    start, end = _axis(x, start_dim), _axis(x, end_dim)
    if start > end:
        raise ValueError(f"flatten: start_dim {start_dim} comes after end_dim {end_dim} in a tensor of shape {x.shape}.")
    return reshape(x, x.shape[:start] + (-1,) + x.shape[end + 1 :])


@public(method=False)
def concatenate(tensors, axis=0):
    """Joined along an axis that exists."""
    tensors = [as_tensor(t) for t in tensors]
    if not tensors:
        raise ValueError("concatenate needs at least one tensor, got an empty list.")
    return apply(primitives.concatenate, *tensors, axis=axis)


@public(method=False)
def stack(tensors, axis=0):
    """Joined along a new axis; all must have the same shape."""
    tensors = [as_tensor(t) for t in tensors]
    if len({t.shape for t in tensors}) != 1:
        raise ValueError(f"stack needs tensors of one shape, got {[t.shape for t in tensors]}.")
    return concatenate([unsqueeze(t, axis) for t in tensors], axis=axis)


cat = concatenate


@public(np.tril)
def tril(x, k=0, *, diagonal=0):
    """The lower triangle of the last two axes: zero above the k-th diagonal."""
    return apply(np.tril, as_tensor(x), k=k + diagonal)


@public(np.triu)
def triu(x, k=0, *, diagonal=0):
    """The upper triangle of the last two axes: zero below the k-th diagonal."""
    return apply(np.triu, as_tensor(x), k=k + diagonal)


def _transposed(x):
    return apply(np.transpose, x)


Tensor.T = property(_transposed, doc="The axes reversed: a matrix transposed.")
Tensor.mT = property(lambda x: apply(np.swapaxes, x, -1, -2), doc="The last two axes exchanged: a batch of matrices transposed.")

# ---------------------------------------------------------------- dtype


@public()
def to(x, *what, dtype=None, device="cpu", **_):
    """x as another dtype, differentiably. A device may be given, as in PyTorch; there is only the CPU."""
    for one in what:
        if isinstance(one, str) and one.split(":")[0] in ("cpu", "cuda", "mps"):
            device = one
        else:
            dtype = one.dtype if isinstance(one, Tensor) else one
    return as_tensor(x, dtype) if str(device).startswith("cpu") else x.cuda()


NO_GPU = "minigrad computes on the CPU only, with NumPy; leave .cuda() out, or write .to('cpu'), which does nothing."


def _no_gpu(self, *_, **__):
    raise NotImplementedError(NO_GPU)


Tensor.cuda = _no_gpu
Tensor.cpu = lambda self: self
Tensor.astype = Tensor.type = to
Tensor.float = lambda self: to(self, np.float32)
Tensor.double = lambda self: to(self, np.float64)
Tensor.long = lambda self: to(self, np.int64)
Tensor.bool = lambda self: to(self, np.bool_)
Tensor.contiguous = lambda self: self
Tensor.pow = Tensor.__pow__
Tensor.add, Tensor.sub, Tensor.mul, Tensor.div = Tensor.__add__, Tensor.__sub__, Tensor.__mul__, Tensor.__truediv__

# ---------------------------------------------------------------- comparisons, elementwise

for _name, _fun in {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor, "floordiv": np.floor_divide,
}.items():  # fmt: skip
    _compare = functools.partialmethod(lambda x, y, fun: apply(fun, x, y), fun=_fun)
    setattr(Tensor, f"__{_name}__", _compare)
Tensor.__invert__ = lambda self: apply(np.logical_not if self.dtype == bool else np.invert, self)
for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    setattr(Tensor, _name, getattr(Tensor, f"__{_name}__"))

# ---------------------------------------------------------------- NumPy's functions that mean something else there

FROM_NUMPY[np.concatenate] = lambda arrays, axis=0: concatenate(arrays, axis)
FROM_NUMPY[np.stack] = lambda arrays, axis=0: stack(arrays, axis)
FROM_NUMPY[np.reshape] = lambda x, shape: reshape(x, shape)
FROM_NUMPY[np.broadcast_to] = lambda x, shape: broadcast_to(x, shape)
FROM_NUMPY[np.max] = amax
FROM_NUMPY[np.min] = amin
FROM_NUMPY[np.var] = lambda x, axis=None, ddof=0, keepdims=False: var(x, axis, ddof, keepdims)
FROM_NUMPY[np.std] = lambda x, axis=None, ddof=0, keepdims=False: std(x, axis, ddof, keepdims)
FROM_NUMPY[np.shape] = lambda x: x.shape
FROM_NUMPY[np.ndim] = lambda x: x.ndim
FROM_NUMPY[np.size] = lambda x, axis=None: x.numel() if axis is None else x.shape[axis]
for _fun in (np.allclose, np.array_equal):
    FROM_NUMPY[_fun] = lambda x, y, fun=_fun, **kwargs: fun(as_tensor(x).data, as_tensor(y).data, **kwargs)
