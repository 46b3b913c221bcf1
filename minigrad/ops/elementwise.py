"""Elementwise functions of one argument and of several, comparisons, and conversion of dtypes."""

import numpy as np

from minigrad.engine import array_functions
from minigrad.engine.operators import FROM_NUMPY
from minigrad.engine.recording import apply, as_tensor, floating
from minigrad.engine.tensor import Tensor
from minigrad.ops.spelling import public

__all__ = [
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "square", "sin", "cos", "tan", "arcsin", "asin", "arccos", "acos", "arctan", "atan",
    "sinh", "cosh", "tanh", "arcsinh", "asinh", "arccosh", "acosh", "arctanh", "atanh", "abs", "absolute", "neg", "negative", "sign", "floor", "ceil",
    "trunc", "sigmoid", "erf", "erfc", "relu", "isnan", "isinf", "isfinite", "logical_not", "reciprocal", "rsqrt", "round", "frac",
    "arctan2", "atan2", "hypot", "logaddexp", "fmod", "remainder", "floor_divide", "logical_and", "logical_or", "logical_xor",
    "eq", "ne", "lt", "le", "gt", "ge", "maximum", "minimum", "add", "sub", "subtract", "mul", "multiply", "div", "divide", "true_divide", "pow",
    "float_power", "lerp", "clip", "clamp", "where", "masked_fill", "isclose", "allclose", "equal", "to",
]  # fmt: skip

# ---------------------------------------------------------------- one argument


_KEEP_INTEGERS = {  # functions that return integers or booleans for integers
    np.absolute, np.negative, np.sign, np.floor, np.ceil, np.trunc, np.square, array_functions.relu,
    np.isnan, np.isinf, np.isfinite, np.logical_not,
}  # fmt: skip


def _elementwise(fun, name=None):
    """Make the public function that applies `fun` to each element, under its own name or another."""

    def call(x):
        return apply(fun, as_tensor(x) if fun in _KEEP_INTEGERS else floating(x))

    call.__name__ = call.__qualname__ = name or fun.__name__
    call.__doc__ = f"{call.__name__}(x) of each element."
    return public()(call)


exp = _elementwise(np.exp)
exp2 = _elementwise(np.exp2)
expm1 = _elementwise(np.expm1)
log = _elementwise(np.log)
log2 = _elementwise(np.log2)
log10 = _elementwise(np.log10)
log1p = _elementwise(np.log1p)
sqrt = _elementwise(np.sqrt)
square = _elementwise(np.square)
sin = _elementwise(np.sin)
cos = _elementwise(np.cos)
tan = _elementwise(np.tan)
arcsin = asin = _elementwise(np.arcsin)
arccos = acos = _elementwise(np.arccos)
arctan = atan = _elementwise(np.arctan)
sinh = _elementwise(np.sinh)
cosh = _elementwise(np.cosh)
tanh = _elementwise(np.tanh)
arcsinh = asinh = _elementwise(np.arcsinh)
arccosh = acosh = _elementwise(np.arccosh)
arctanh = atanh = _elementwise(np.arctanh)
abs = absolute = _elementwise(np.absolute, "abs")
neg = negative = _elementwise(np.negative, "neg")
sign = _elementwise(np.sign)
floor = _elementwise(np.floor)
ceil = _elementwise(np.ceil)
trunc = _elementwise(np.trunc)
sigmoid = _elementwise(array_functions.sigmoid)
erf = _elementwise(array_functions.erf)
erfc = _elementwise(array_functions.erfc)
relu = _elementwise(array_functions.relu)
isnan = _elementwise(np.isnan)
isinf = _elementwise(np.isinf)
isfinite = _elementwise(np.isfinite)
logical_not = _elementwise(np.logical_not)


@public(np.reciprocal)
def reciprocal(x):
    """1 / x."""
    return apply(np.true_divide, 1, as_tensor(x))


@public()
def rsqrt(x):
    """1 / sqrt(x)."""
    return reciprocal(sqrt(x))


@public(np.round, np.around)
def round(x, decimals=0):
    """Round to the nearest integer, a tie to the even one; or to the given number of decimals."""
    if not decimals:
        return apply(np.rint, as_tensor(x)) if as_tensor(x).dtype.kind == "f" else as_tensor(x)
    return apply(np.rint, as_tensor(x) * 10.0**decimals) / 10.0**decimals


@public()
def frac(x):
    """The fractional part of x, with the sign of x."""
    return as_tensor(x) - trunc(x)


# ---------------------------------------------------------------- two arguments or more


def _pairwise(fun, name=None):
    """Make the public function that applies `fun` to pairs of elements, under its own name or another."""

    def call(x, y):
        return apply(fun, x, y)

    call.__name__ = call.__qualname__ = name or fun.__name__
    call.__doc__ = f"{call.__name__}(x, y) of elements at the same position after broadcasting."
    return public()(call)


arctan2 = atan2 = _pairwise(np.arctan2)
hypot = _pairwise(np.hypot)
logaddexp = _pairwise(np.logaddexp)
fmod = _pairwise(np.fmod)  # the remainder with the sign of x, as in C
remainder = _pairwise(np.remainder)  # the remainder with the sign of y, as Python's %
floor_divide = _pairwise(np.floor_divide)
logical_and = _pairwise(np.logical_and)
logical_or = _pairwise(np.logical_or)
logical_xor = _pairwise(np.logical_xor)
eq = _pairwise(np.equal, "eq")
ne = _pairwise(np.not_equal, "ne")
lt = _pairwise(np.less, "lt")
le = _pairwise(np.less_equal, "le")
gt = _pairwise(np.greater, "gt")
ge = _pairwise(np.greater_equal, "ge")


@public()
def maximum(x, y):
    """The larger of the two, elementwise; at a tie each gets half of the gradient."""
    return apply(np.maximum, x, y)


@public()
def minimum(x, y):
    """The smaller of the two, elementwise; at a tie each gets half of the gradient."""
    return apply(np.minimum, x, y)


@public()
def add(x, y, *, alpha=1):
    """x + alpha * y."""
    return apply(np.add, x, y if alpha == 1 else alpha * as_tensor(y))


@public()
def sub(x, y, *, alpha=1):
    """x - alpha * y."""
    return apply(np.subtract, x, y if alpha == 1 else alpha * as_tensor(y))


@public()
def mul(x, y):
    """x * y, elementwise."""
    return apply(np.multiply, x, y)


@public()
def div(x, y, *, rounding_mode=None):
    """x / y, rounded down with "floor", towards 0 with "trunc"."""
    quotient = apply(np.true_divide, x, y)
    if rounding_mode is None:
        return quotient
    rounded = {"floor": floor, "trunc": trunc}[rounding_mode](quotient)
    dtypes = {as_tensor(x).dtype.kind, as_tensor(y).dtype.kind}
    return rounded if "f" in dtypes else rounded.long()


@public()
def pow(x, y):
    """x to the power y. An integer power allows a negative x; x^0 is 1 with gradient 0 everywhere."""
    return x**y if isinstance(x, Tensor) or isinstance(y, Tensor) else apply(np.power, x, y)


@public(np.float_power)
def float_power(x, y):
    """x to the power y in floating point, even if both are integers."""
    return pow(floating(x), y)


@public()
def lerp(x, end, weight):
    """Interpolate linearly from x (weight 0) to end (weight 1)."""
    return x + weight * (as_tensor(end) - x)


@public()
def clip(x, min=None, max=None):
    """Limit x to at least `min` and at most `max`, numbers or tensors. At a limit the gradient is x's."""
    x = as_tensor(x)
    if min is None and max is None:
        raise ValueError("clip needs min, max, or both.")
    if min is not None:
        x = where(x < min, min, x)
    return x if max is None else where(x > max, max, x)


@public(np.where)
def where(condition, x=None, y=None):
    """x where the condition holds, else y.

    With the condition alone, the positions where it holds, as in nonzero. A NaN or inf in the slope of the
    branch not chosen still makes the gradient NaN (0 * inf is NaN). Replace its argument too, with a second
    where inside.
    """
    if x is None and y is None:
        return as_tensor(condition).nonzero(as_tuple=True)
    return apply(np.where, condition, x, y)


@public()
def masked_fill(x, mask, value):
    """x with `value` wherever the mask is True."""
    return apply(np.where, mask, value, x)


subtract = sub
multiply = mul
divide = true_divide = div
clamp = clip

# ---------------------------------------------------------------- comparing tensors


@public()
def isclose(x, y, rtol=1e-5, atol=1e-8, equal_nan=False):
    """|x - y| <= atol + rtol |y|, elementwise."""
    return Tensor(np.isclose(as_tensor(x).data, as_tensor(y).data, rtol, atol, equal_nan))


@public(np.allclose)
def allclose(x, y, rtol=1e-5, atol=1e-8, equal_nan=False):
    """Check whether isclose holds for all elements. Returns a Python bool."""
    return bool(np.allclose(as_tensor(x).data, as_tensor(y).data, rtol, atol, equal_nan))


@public(np.array_equal)
def equal(x, y):
    """Check whether two tensors have the same shape and the same elements. Returns a Python bool."""
    return np.array_equal(as_tensor(x).data, as_tensor(y).data)


# ---------------------------------------------------------------- dtype


@public()
def to(x, *what, dtype=None, device="cpu", **_):
    """Convert x to another dtype, differentiably. A device may be given too; there is only the CPU."""
    for one in what:
        if isinstance(one, str) and one.split(":")[0] in ("cpu", "cuda", "mps"):
            device = one
        else:
            dtype = one.dtype if isinstance(one, Tensor) else one
    return as_tensor(x, dtype) if str(device).startswith("cpu") else x.cuda()


# ---------------------------------------------------------------- NumPy's functions with other arguments


def _clip(a, a_min=None, a_max=None, *, min=None, max=None):
    return clip(a, a_min if min is None else min, a_max if max is None else max)


FROM_NUMPY[np.clip] = _clip
FROM_NUMPY[np.positive] = lambda x: x
FROM_NUMPY[np.fabs] = abs
FROM_NUMPY[np.isclose] = lambda a, b, rtol=1e-5, atol=1e-8, equal_nan=False: isclose(
    a, b, rtol, atol, equal_nan
)
