"""The functions NumPy lacks, on plain arrays. Knows nothing of tensors or gradients; rules.py gives each of these its rule.

`dispatched` lets them speak the protocol that NumPy's own functions speak (`__array_function__`, NEP 18): given arrays they
compute; given something that brings its own meaning, such as a Tensor, they hand the call over to it. That is why a rule
in rules.py may call them on arrays and on Tensors alike.
"""

import functools
import itertools

import numpy as np

from minigrad.engine import errors

float32, float64, int64, bool_ = map(np.dtype, ("float32", "float64", "int64", "bool"))
_default = [float32]


def dispatched(fun):
    """Make `fun` ask its arguments, as NumPy's functions do, whether one of them wants to handle the call."""

    @functools.wraps(fun)
    def handed_over(*args, **kwargs):
        for arg in args:
            handler = getattr(arg, "__array_function__", None)
            if handler is not None and not isinstance(arg, np.ndarray):
                return handler(handed_over, (type(arg),), args, kwargs)
        return fun(*args, **kwargs)

    return handed_over


# ---------------------------------------------------------------- dtypes


def get_default_dtype():
    """The dtype of tensors made from Python floats, and of integer / integer: float32 unless set otherwise."""
    return _default[0]


def set_default_dtype(dtype):
    """Make `dtype` (float32 or float64) what Python floats become."""
    dtype = np.dtype(dtype)
    if dtype not in (float32, float64):
        raise TypeError(f"The default dtype can be float32 or float64, got {dtype}.")
    _default[0] = dtype


def as_array(x, dtype=None):
    """x, a number, nested lists or an array, as an array. Python floats become the default dtype; an array keeps its own.

    Raises ValueError for rows of unequal length, TypeError for what is neither a float, an integer nor a boolean.
    """
    try:
        array = np.asarray(_arrays_inside(x))
    except ValueError:
        raise ValueError(
            "A tensor needs rows of equal length; this nested list is ragged. Pad the rows first."
        ) from None
    for kind in (array.dtype, np.dtype(dtype or array.dtype)):
        if kind.kind not in "fiub":
            raise errors.unsupported_dtype(None, kind)
    if dtype is None and array.dtype.kind == "f" and not isinstance(x, (np.ndarray, np.generic)):
        dtype = _default[0]
    return array if dtype is None else array.astype(dtype, copy=False)


def _arrays_inside(x):
    if isinstance(x, (list, tuple)):
        return [_arrays_inside(part) for part in x]
    return x.numpy() if hasattr(x, "numpy") else x


# ---------------------------------------------------------------- moving numbers about


@dispatched
def getitem(x, index):
    """x[index]: every basic, fancy and boolean form that NumPy knows."""
    return x[index]


@dispatched
def scatter_add(g, index, shape):
    """Zeros of `shape` to which g is added at [index]; an index that occurs twice receives both. The adjoint of getitem."""
    out = np.zeros(shape, g.dtype)
    if is_basic(index):
        out[index] = g  # slices and single numbers cannot name a place twice
    else:
        np.add.at(out, index, g)
    return out


def is_basic(index):
    """Whether `index` holds only whole numbers, slices, None and ... , so that x[index] is a view."""
    parts = index if isinstance(index, tuple) else (index,)
    basic = (int, np.integer, slice, type(None), type(Ellipsis))
    return all(isinstance(part, basic) and not isinstance(part, (bool, np.bool_)) for part in parts)


@dispatched
def concatenate(*xs, axis=0):
    """np.concatenate, with the arrays as arguments of their own rather than in a list, so that each can have a gradient."""
    return np.concatenate(xs, axis=axis)


@dispatched
def split(x, sizes, axis=0):
    """x cut along an axis into pieces of the given lengths; a tuple."""
    ends = itertools.accumulate(sizes)
    return tuple(
        x[(slice(None),) * axis + (slice(end - size, end),)] for size, end in zip(sizes, ends, strict=True)
    )


@dispatched
def cast(x, dtype):
    """The same numbers as another dtype; always a new array."""
    return np.array(x, dtype=dtype)


# ---------------------------------------------------------------- of many numbers one


@dispatched
def norm(x, axis=None, keepdims=False):
    """The length of a vector: sqrt of the sum of squares. A function of its own for the sake of its slope at 0."""
    return np.sqrt(np.square(x).sum(axis=axis, keepdims=keepdims))


@dispatched
def logabsdet(x):
    """log |det x| of matrices in the last two axes, without overflow."""
    return np.linalg.slogdet(x)[1]


# ---------------------------------------------------------------- functions of one number


@dispatched
def quotient(x, y):
    """x / y, and 0 wherever x is 0: what "nothing arrives, so nothing leaves" means where a slope is infinite (sqrt at 0)."""
    nothing = x == 0
    return np.where(nothing, 0, x) / np.where(nothing, 1, y)


@dispatched
def relu(x):
    """max(0, x)."""
    return np.maximum(x, 0)


@dispatched
def sigmoid(x):
    """1 / (1 + exp(-x)), from exp(-|x|), which cannot overflow."""
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, 1, e) / (1 + e)


@dispatched
def softplus(x):
    """log(1 + exp(x)), from exp(-|x|), which cannot overflow."""
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


@dispatched
def erf(x):
    """The error function 2/sqrt(pi) * integral of exp(-t*t) from 0 to x, to about 1e-15.

    W. J. Cody, "Rational Chebyshev approximations for the error function", Math. Comp. 23 (1969): one rational form for
    |x| < 0.46875, two for its complement beyond. Computed in float64, returned in x's dtype.
    """
    x = np.asarray(x)
    out, beyond, tail = _erf_and_tail(x)
    out[beyond] = 1 - tail
    return np.copysign(out, x).astype(x.dtype if x.dtype.kind == "f" else np.float64)


@dispatched
def erfc(x):
    """1 - erf(x), without losing the digits of a small difference: erfc(10) is 2e-45."""
    x = np.asarray(x)
    out, beyond, tail = _erf_and_tail(x)
    out = np.array(1 - out)
    out[beyond] = tail
    return np.where(x < 0, 2 - out, out).astype(x.dtype if x.dtype.kind == "f" else np.float64)


def _erf_and_tail(x):
    """erf(|x|) where |x| is small, as an array to be completed; where it is not; and erfc(|x|) there."""
    z = np.array(np.abs(x), dtype=np.float64)
    small, beyond = np.minimum(z, 0.46875), z > 0.46875
    z = z[beyond]
    tail = np.exp(-z * z) * _ratio(np.minimum(z, 4), _MIDDLE)
    large = z > 4
    if large.any():
        t = 1 / np.minimum(z[large], 28) ** 2  # erfc(28) is 0 in float64
        tail[large] = np.exp(-1 / t) * np.sqrt(t) * (1 / np.sqrt(np.pi) - t * _ratio(t, _LARGE))
    return np.array(small * _ratio(small * small, _SMALL)), beyond, tail


def _ratio(x, coefficients):
    above, below = coefficients
    return np.polyval(above, x) / np.polyval(below, x)


# Cody's coefficients (numerator, denominator), highest power first.
_SMALL = (
    [
        1.85777706184603153e-1,
        3.16112374387056560,
        1.13864154151050156e2,
        3.77485237685302021e2,
        3.20937758913846947e3,
    ],
    [1, 2.36012909523441209e1, 2.44024637934444173e2, 1.28261652607737228e3, 2.84423683343917062e3],
)
_MIDDLE = (
    [
        2.15311535474403846e-8, 5.64188496988670089e-1, 8.88314979438837594, 6.61191906371416295e1, 2.98635138197400131e2,
        8.81952221241769090e2, 1.71204761263407058e3, 2.05107837782607147e3, 1.23033935479799725e3,
    ],
    [
        1, 1.57449261107098347e1, 1.17693950891312499e2, 5.37181101862009858e2, 1.62138957456669019e3,
        3.29079923573345963e3, 4.36261909014324716e3, 3.43936767414372164e3, 1.23033935480374942e3,
    ],
)  # fmt: skip
_LARGE = (
    [
        1.63153871373020978e-2, 3.05326634961232344e-1, 3.60344899949804439e-1, 1.25781726111229246e-1,
        1.60837851487422766e-2, 6.58749161529837803e-4,
    ],
    [1, 2.56852019228982242, 1.87295284992346725, 5.27905102951428412e-1, 6.05183413124413191e-2, 2.33520497626869185e-3],
)  # fmt: skip
