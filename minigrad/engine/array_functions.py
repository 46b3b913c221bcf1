"""Functions that NumPy lacks, on plain arrays. rules.py gives each of them its rule.

`dispatched` makes them follow the protocol of NumPy's own functions (`__array_function__`, NEP 18): they
compute with arrays, and pass the call on to an argument that handles it itself, such as a Tensor. That is why
a rule in rules.py may call them on arrays and on Tensors alike.
"""

import functools
import itertools

import numpy as np

from minigrad.engine import errors

float32, float64, int64, bool_ = map(np.dtype, ("float32", "float64", "int64", "bool"))
_default = [float32]


def dispatched(fun):
    """Make `fun` pass its calls on to an argument with `__array_function__`, as NumPy's functions do."""

    @functools.wraps(fun)
    def dispatch(*args, **kwargs):
        for arg in args:
            handler = getattr(arg, "__array_function__", None)
            if handler is not None and not isinstance(arg, np.ndarray):
                return handler(dispatch, (type(arg),), args, kwargs)
        return fun(*args, **kwargs)

    return dispatch


# ---------------------------------------------------------------- dtypes


def get_default_dtype():
    """Return the dtype of tensors made from Python floats, and of integer / integer: float32 unless set."""
    return _default[0]


def set_default_dtype(dtype):
    """Set the dtype that Python floats become: float32 or float64."""
    dtype = np.dtype(dtype)
    if dtype not in (float32, float64):
        raise TypeError(f"The default dtype can be float32 or float64, got {dtype}.")
    _default[0] = dtype


def as_array(x, dtype=None):
    """Convert x (a number, nested lists or an array) to an array. Python floats become the default dtype.

    An array keeps its dtype. Raises ValueError if rows have unequal lengths, TypeError if an element is
    neither a float, an integer nor a boolean.
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


# ---------------------------------------------------------------- moving elements


@dispatched
def getitem(x, index):
    """x[index], in all of NumPy's basic, fancy and boolean forms."""
    return x[index]


@dispatched
def scatter_add(g, index, shape):
    """Add g at [index] to zeros of `shape`, twice where an index occurs twice. The adjoint of getitem."""
    out = np.zeros(shape, g.dtype)
    if is_basic(index):
        out[index] = g  # slices and integers select no position twice
    else:
        np.add.at(out, index, g)
    return out


def is_basic(index):
    """Check whether `index` has only integers, slices, None and ... in it, so that x[index] is a view."""
    parts = index if isinstance(index, tuple) else (index,)
    basic = (int, np.integer, slice, type(None), type(Ellipsis))
    return all(isinstance(part, basic) and not isinstance(part, (bool, np.bool_)) for part in parts)


@dispatched
def concatenate(*xs, axis=0):
    """np.concatenate with each array as a separate argument, so that each can have a gradient."""
    return np.concatenate(xs, axis=axis)


@dispatched
def split(x, sizes, axis=0):
    """Split x along an axis into pieces of the given lengths. Returns a tuple."""
    ends = itertools.accumulate(sizes)
    return tuple(
        x[(slice(None),) * axis + (slice(end - size, end),)] for size, end in zip(sizes, ends, strict=True)
    )


@dispatched
def cast(x, dtype):
    """Copy x to a new array of another dtype."""
    return np.array(x, dtype=dtype)


# ---------------------------------------------------------------- reductions


@dispatched
def norm(x, axis=None, keepdims=False):
    """The length of a vector: sqrt of the sum of squares. A function of its own because of its slope at 0."""
    return np.sqrt(np.square(x).sum(axis=axis, keepdims=keepdims))


@dispatched
def logabsdet(x):
    """log |det x| of matrices in the last two axes, without overflow."""
    return np.linalg.slogdet(x)[1]


# ---------------------------------------------------------------- elementwise functions


@dispatched
def quotient(x, y):
    """x / y, and 0 wherever x is 0: a gradient of 0 stays 0 where a slope is infinite (sqrt at 0)."""
    zero = x == 0
    return np.where(zero, 0, x) / np.where(zero, 1, y)


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

    W. J. Cody, "Rational Chebyshev approximations for the error function", Math. Comp. 23 (1969): one
    rational function for |x| < 0.46875, two for the complement of erf beyond. Computed in float64, returned
    in x's dtype.
    """
    x = np.asarray(x)
    out, beyond, tail = _erf_and_tail(x)
    out[beyond] = 1 - tail
    return np.copysign(out, x).astype(x.dtype if x.dtype.kind == "f" else np.float64)


@dispatched
def erfc(x):
    """1 - erf(x) without cancellation: erfc(10) is 2e-45."""
    x = np.asarray(x)
    out, beyond, tail = _erf_and_tail(x)
    out = np.array(1 - out)
    out[beyond] = tail
    return np.where(x < 0, 2 - out, out).astype(x.dtype if x.dtype.kind == "f" else np.float64)


def _erf_and_tail(x):
    """Compute erf(|x|), valid where |x| is small; a mask of the other elements; and erfc(|x|) at those."""
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
