"""The calculus: one row for each function, one rule for each argument.

In a rule, g is the gradient of the value y (z where y is an argument), and x, y are the arguments. If a name
begins with an underscore, the rule reads its shape only. A rule uses what arrays and Tensors have in common
(operators, NumPy's functions, array_functions.py), so that a rule can be differentiated too. A rule never
undoes broadcasting: the engine does. quotient(a, b) is a / b, but 0 / anything is 0. It is used where a slope
is infinite at one point, such as sqrt's at 0: if the arriving gradient is 0, the result is 0.
"""

import math

import numpy as np

from minigrad.engine.array_functions import (
    cast,
    concatenate,
    erf,
    erfc,
    getitem,
    logabsdet,
    norm,
    quotient,
    relu,
    scatter_add,
    sigmoid,
    softplus,
    split,
)  # fmt: skip
from minigrad.engine.table import CONSTANT, RULES, defvjp, defvjp_each

# ---------------------------------------------------------------- arithmetic


def power_slope(x, y):
    """y x^(y-1), and 0 where y is 0, at x = 0 too: x^0 is 1 everywhere.

    The exponent is replaced only there, so that the slope's own slope in y, 1/x at y = 0, stays correct.
    """
    if isinstance(y, (int, float)):
        return 0 * x if y == 0 else y * x ** (y - 1)
    return y * x ** np.where((y == 0) & (x == 0), 1, y - 1)


def exponent_slope(z, x):
    """x^y log x, and 0 where x is 0, for every y. A Python number stays one, so it widens no float32."""
    if isinstance(x, (int, float)):
        return 0 * z if x == 0 else z * (math.log(x) if x > 0 else math.nan)
    return z * np.log(np.where(x == 0, 1, x))


defvjp(np.add, lambda g, _z, _x, _y: g, lambda g, _z, _x, _y: g)
defvjp(np.subtract, lambda g, _z, _x, _y: g, lambda g, _z, _x, _y: -g)
defvjp(np.multiply, lambda g, _z, _x, y: g * y, lambda g, _z, x, _y: g * x)
defvjp(np.true_divide, lambda g, _z, _x, y: g / y, lambda g, z, _x, y: -g * z / y)
defvjp(np.negative, lambda g, _y, _x: -g)
defvjp(np.power, lambda g, _z, x, y: g * power_slope(x, y), lambda g, z, x, _y: g * exponent_slope(z, x))
defvjp(quotient, lambda g, _z, _x, y: quotient(g, y), lambda g, z, _x, y: -quotient(g * z, y))

# ---------------------------------------------------------------- elementwise functions of one argument

defvjp(np.exp, lambda g, y, _x: g * y)
defvjp(np.exp2, lambda g, y, _x: g * y * math.log(2))
defvjp(np.expm1, lambda g, y, _x: g * (y + 1))
defvjp(np.log, lambda g, _y, x: g / x)
defvjp(np.log2, lambda g, _y, x: g / (x * math.log(2)))
defvjp(np.log10, lambda g, _y, x: g / (x * math.log(10)))
defvjp(np.log1p, lambda g, _y, x: g / (1 + x))
defvjp(np.sqrt, lambda g, y, _x: quotient(g, 2 * y))
defvjp(np.square, lambda g, _y, x: g * 2 * x)
defvjp(np.sin, lambda g, _y, x: g * np.cos(x))
defvjp(np.cos, lambda g, _y, x: -g * np.sin(x))
defvjp(np.tan, lambda g, y, _x: g * (1 + y * y))
defvjp(np.arcsin, lambda g, _y, x: g / np.sqrt(1 - x * x))
defvjp(np.arccos, lambda g, _y, x: -g / np.sqrt(1 - x * x))
defvjp(np.arctan, lambda g, _y, x: g / (1 + x * x))
defvjp(np.sinh, lambda g, _y, x: g * np.cosh(x))
defvjp(np.cosh, lambda g, _y, x: g * np.sinh(x))
defvjp(np.tanh, lambda g, y, _x: g * (1 - y * y))
defvjp(np.arcsinh, lambda g, _y, x: g / np.sqrt(x * x + 1))
defvjp(np.arccosh, lambda g, _y, x: g / np.sqrt(x * x - 1))
defvjp(np.arctanh, lambda g, _y, x: g / (1 - x * x))
defvjp(np.absolute, lambda g, _y, x: g * np.sign(x))
defvjp(sigmoid, lambda g, y, _x: g * y * (1 - y))
defvjp(erf, lambda g, _y, x: g * (2 / math.sqrt(math.pi)) * np.exp(-x * x))
defvjp(erfc, lambda g, _y, x: g * (-2 / math.sqrt(math.pi)) * np.exp(-x * x))
defvjp(softplus, lambda g, _y, x: g * sigmoid(x))
defvjp(relu, lambda g, _y, x: g * (x > 0))
defvjp(np.sign, lambda g, _y, _x: 0 * g)
defvjp(np.floor, lambda g, _y, _x: 0 * g)
defvjp(np.ceil, lambda g, _y, _x: 0 * g)
defvjp(np.trunc, lambda g, _y, _x: 0 * g)
defvjp(np.rint, lambda g, _y, _x: 0 * g)
defvjp(cast, lambda g, _y, _x, dtype=None: g)

# ---------------------------------------------------------------- elementwise functions of two arguments

# fmt: off
defvjp(np.arctan2, lambda g, _z, x, y: g * quotient(y, x * x + y * y), lambda g, _z, x, y: -g * quotient(x, x * x + y * y))
defvjp(np.hypot, lambda g, z, x, _y: g * quotient(x, z), lambda g, z, _x, y: g * quotient(y, z))
defvjp(np.logaddexp, lambda g, z, x, _y: g * np.exp(x - z), lambda g, z, _x, y: g * np.exp(y - z))
defvjp(np.fmod, lambda g, _z, _x, _y: g, lambda g, _z, x, y: -g * np.trunc(x / y))
defvjp(np.remainder, lambda g, _z, _x, _y: g, lambda g, _z, x, y: -g * np.floor(x / y))
# fmt: on

# ---------------------------------------------------------------- choosing


def where_larger(g, x, y):
    """g where x > y, half of it at a tie, 0 elsewhere."""
    return np.where(x > y, g, np.where(x == y, g / 2, 0))


defvjp(np.maximum, lambda g, _z, x, y: where_larger(g, x, y), lambda g, _z, x, y: where_larger(g, y, x))
defvjp(np.minimum, lambda g, _z, x, y: where_larger(g, y, x), lambda g, _z, x, y: where_larger(g, x, y))
defvjp(np.where, None, lambda g, _z, c, _x, _y: np.where(c, g, 0), lambda g, _z, c, _x, _y: np.where(c, 0, g))
defvjp(np.tril, lambda g, _y, _x, k=0: np.tril(g, k))
defvjp(np.triu, lambda g, _y, _x, k=0: np.triu(g, k))

# ---------------------------------------------------------------- reductions


def restore_axes(reduced, x, axis, keepdims):
    """Give a reduced array its axes back with length 1, so that it broadcasts against x."""
    if keepdims or axis == () or not x.shape:
        return reduced
    axes = range(len(x.shape)) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    axes = {a % len(x.shape) for a in axes}
    return reduced.reshape(tuple(1 if i in axes else n for i, n in enumerate(x.shape)))


def extreme_vjp(g, y, x, axis=None, keepdims=False):
    """The largest (or smallest) entries share the gradient equally, so that its total is g."""
    chosen = x == restore_axes(y, x, axis, keepdims)
    ties = cast(chosen, g.dtype).sum(axis=axis, keepdims=True)
    return np.where(chosen, restore_axes(g, x, axis, keepdims) / ties, 0)


# fmt: off
defvjp(np.sum, lambda g, _y, _x, axis=None, keepdims=False: np.broadcast_to(restore_axes(g, _x, axis, keepdims), _x.shape))
defvjp(np.amax, extreme_vjp)
defvjp(np.amin, extreme_vjp)
# fmt: on


def norm_vjp(g, y, x, axis=None, keepdims=False):
    """x / |x|, and 0 at the zero vector."""
    return restore_axes(g, x, axis, keepdims) * quotient(x, restore_axes(y, x, axis, keepdims))


def product_before(x):
    """For each element, the product of the elements before it in the last axis: 1, x0, x0 x1 ..."""
    return np.cumprod(concatenate(np.ones_like(x[..., :1]), x[..., :-1], axis=-1), axis=-1)


def product_of_others(x):
    """For each element, the product of all others in the last axis. Zeros are allowed: nothing is divided."""
    return product_before(x) * np.flip(product_before(np.flip(x, -1)), -1)


# fmt: off
defvjp(norm, norm_vjp)
# over the last axis only: `prod` moves the reduced axes there
defvjp(np.prod, lambda g, _y, x, axis: np.expand_dims(g, -1) * product_of_others(x))
defvjp(np.cumsum, lambda g, _y, _x, axis: np.flip(np.cumsum(np.flip(g, axis), axis=axis), axis))
# fmt: on

# ---------------------------------------------------------------- shapes


def inverse(axes, ndim):
    """The permutation that undoes `axes`. None means reversing, which is its own inverse."""
    return None if axes is None else tuple(np.argsort([a % ndim for a in axes]))


defvjp(np.reshape, lambda g, _y, _x, shape: g.reshape(_x.shape))
defvjp(np.transpose, lambda g, _y, _x, axes=None: np.transpose(g, inverse(axes, g.ndim)))
defvjp(np.swapaxes, lambda g, _y, _x, a, b: g.swapaxes(a, b))
defvjp(np.squeeze, lambda g, _y, _x, axis=None: g.reshape(_x.shape))
defvjp(np.expand_dims, lambda g, _y, _x, axis: g.reshape(_x.shape))
defvjp(np.broadcast_to, lambda g, _y, _x, shape: g)
defvjp(getitem, lambda g, _y, _x, index: scatter_add(g, index, _x.shape))
defvjp(scatter_add, lambda g, _y, _x, index, shape: getitem(g, index))


def part(i, g, _y, *_xs, axis=0):
    """The slice of g that belongs to the i-th array."""
    start = sum(x.shape[axis] for x in _xs[:i])
    return getitem(g, (slice(None),) * (axis % g.ndim) + (slice(start, start + _xs[i].shape[axis]),))


defvjp_each(concatenate, part)
defvjp(split, lambda g, _y, _x, sizes, axis: concatenate(*g, axis=axis))

# ---------------------------------------------------------------- matmul


def rows(x):
    """x (..., n) as a matrix, with all leading axes merged into one."""
    # with -1 instead, NumPy could not infer the length where an axis is empty
    return x.reshape((math.prod(x.shape[:-1]), x.shape[-1]))


def matmul_x(g, _z, _x, y):
    """dL/dx = g @ y^T, with the axes restored that the product with a vector loses."""
    if y.ndim == 1:
        return (g if _x.ndim == 1 else np.expand_dims(g, -1)) * y  # (..., n, 1) * (k,)
    if _x.ndim == 1:
        return (y @ np.expand_dims(g, -1)).reshape(y.shape[:-1])  # (..., k, m) @ (..., m, 1)
    return g @ y.mT


def matmul_y(g, _z, x, _y):
    """dL/dy = x^T @ g, as one product over all rows if y is a single matrix or vector."""
    if x.ndim == 1:
        if _y.ndim == 1:
            return g * x
        return np.expand_dims(x, -1) * np.expand_dims(g, -2)  # (k, 1) * (..., 1, m)
    if _y.ndim == 1:
        return g.reshape(-1) @ rows(x)  # (rows,) @ (rows, k)
    if _y.ndim == 2:
        return rows(x).mT @ rows(g)  # (k, rows) @ (rows, m)
    return x.mT @ g


defvjp(np.matmul, matmul_x, matmul_y)

# ---------------------------------------------------------------- whole matrices


def as_1x1(g):
    """A scalar for each matrix, as a 1 x 1 matrix."""
    return np.expand_dims(g, (-2, -1))


def inverse_for_det(x):
    try:
        return np.linalg.inv(x)
    except ValueError:
        raise np.linalg.LinAlgError(
            "det of a singular matrix is 0, but its gradient needs the inverse; add a little to the diagonal."
        ) from None


def cholesky_vjp(g, y, _x):
    """L^-T P L^-1, symmetrized; P: lower triangle of L^T g, diagonal halved (Murray 2016, equation 10)."""
    p = np.tril(y.mT @ g)
    p = np.where(np.eye(y.shape[-1], dtype=bool), p / 2, p)
    inverse_y = np.linalg.inv(y)
    dx = inverse_y.mT @ p @ inverse_y
    return (dx + dx.mT) / 2


# fmt: off
defvjp(np.linalg.inv, lambda g, y, _x: -y.mT @ g @ y.mT)
defvjp(np.linalg.solve, lambda g, z, x, _y: -np.linalg.solve(x.mT, g) @ z.mT, lambda g, _z, x, _y: np.linalg.solve(x.mT, g))
defvjp(np.linalg.det, lambda g, y, x: as_1x1(g * y) * inverse_for_det(x).mT)
defvjp(logabsdet, lambda g, _y, x: as_1x1(g) * np.linalg.inv(x).mT)
defvjp(np.linalg.cholesky, cholesky_vjp)
# fmt: on

# ---------------------------------------------------------------- no gradient at all

for fun in (
    np.greater, np.greater_equal, np.less, np.less_equal, np.equal, np.not_equal, np.logical_and, np.logical_or,
    np.logical_not, np.logical_xor, np.isnan, np.isinf, np.isfinite, np.signbit, np.argmax, np.argmin, np.argsort,
    np.any, np.all, np.count_nonzero, np.bitwise_and, np.bitwise_or, np.bitwise_xor, np.invert, np.floor_divide,
    np.zeros_like, np.ones_like,
):  # fmt: skip
    RULES[fun] = CONSTANT
