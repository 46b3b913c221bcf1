"""What a network bends its numbers with: softmax and its logarithm, gelu, elu and their kin."""

import math

from minigrad import ops as f
from minigrad.engine import array_functions
from minigrad.engine.recording import apply, as_tensor
from minigrad.engine.tensor import attach
from minigrad.functional.tiers import definition

# ---------------------------------------------------------------- over an axis


@definition(kernel="minigrad/kernels/activations.py")
def softmax(x, axis=-1):
    """exp(x) / sum exp(x) along an axis: positive numbers that sum to 1. A row of -inf only gives NaN, as in PyTorch."""
    x = as_tensor(x)
    # softmax(x - c) = softmax(x) for any c, so the shift that keeps exp from overflowing is a constant: no gradient through it
    e = f.exp(x - x.detach().amax(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


@definition(kernel="minigrad/kernels/activations.py")
def log_softmax(x, axis=-1):
    """log softmax(x) = x - log sum exp(x), without leaving the logarithm: exact for +-1e4 and beyond."""
    x = as_tensor(x)
    shifted = x - x.detach().amax(axis, keepdims=True)
    return shifted - f.log(f.exp(shifted).sum(axis, keepdims=True))


@f.either_spelling
def logsumexp(x, axis=-1, keepdims=False):
    """log sum exp(x) along an axis, without overflow."""
    x = as_tensor(x)
    top = x.detach().amax(axis, keepdims=True)
    top = f.where(f.isfinite(top), top, 0)
    out = f.log(f.exp(x - top).sum(axis, keepdims=True)) + top
    return out if keepdims else out.squeeze(axis)


# ---------------------------------------------------------------- of every number


@definition(kernel="minigrad/kernels/activations.py")
def gelu(x, approximate="none"):
    """x times the chance that a standard normal number is below x (Hendrycks & Gimpel 2016).

    approximate='tanh' is the form GPT-2 uses: 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))).
    """
    x = as_tensor(x)
    if approximate == "none":
        return 0.5 * x * (1 + f.erf(x / math.sqrt(2)))
    if approximate == "tanh":
        return 0.5 * x * (1 + f.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * (x * x * x))))
    raise ValueError(f"gelu: approximate must be 'none' or 'tanh', got {approximate!r}.")


@definition(kernel="minigrad/kernels/activations.py")
def silu(x):
    """x sigmoid(x), also called swish."""
    return as_tensor(x) * f.sigmoid(x)


@f.either_spelling
def leaky_relu(x, negative_slope=0.01):
    """x where it is positive, else negative_slope * x; at 0 the slope is negative_slope."""
    x = as_tensor(x)
    return f.where(x > 0, x, negative_slope * x)


@f.either_spelling
def elu(x, alpha=1.0):
    """x where it is positive, else alpha (exp(x) - 1) (Clevert et al. 2015)."""
    x = as_tensor(x)
    # the inner where keeps exp from overflowing
    return f.where(x > 0, x, alpha * f.expm1(f.where(x > 0, 0.0, x)))


@f.either_spelling
def softplus(x, beta=1.0, threshold=20.0):
    """log(1 + exp(beta x)) / beta, a smooth relu. `threshold` is there for PyTorch's sake: this form is exact everywhere."""
    return apply(array_functions.softplus, as_tensor(x) * beta) / beta


@f.either_spelling
def logsigmoid(x):
    """log sigmoid(x), without leaving the logarithm."""
    return -softplus(-as_tensor(x))


@f.either_spelling
def hardtanh(x, min_val=-1.0, max_val=1.0):
    """x, but at least min_val and at most max_val. On the border the slope is 0 (clip's is 1)."""
    x = as_tensor(x)
    return f.where(x <= min_val, min_val, f.where(x >= max_val, max_val, x))


@f.either_spelling
def relu6(x):
    """x between 0 and 6."""
    return hardtanh(x, 0.0, 6.0)


for _fun in (softmax, log_softmax, logsumexp, gelu):
    attach(_fun.__name__, _fun)
