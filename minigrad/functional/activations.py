"""Activation functions, composed from ops: softmax, log_softmax, gelu, silu, elu ..."""

import math

from minigrad import ops as f
from minigrad.engine import array_functions
from minigrad.engine.recording import apply, as_tensor
from minigrad.engine.tensor import attach
from minigrad.functional.tiers import definition

# ---------------------------------------------------------------- over an axis


@definition(kernel="minigrad/kernels/activations.py")
def softmax(x, axis=-1):
    """exp(x) / sum exp(x) along an axis: positive, with sum 1.

    A row of only -inf gives NaN, as in PyTorch.
    """
    x = as_tensor(x)
    # softmax(x - c) = softmax(x) for any c, so the shift against overflow is a constant: no gradient flows
    # through it
    e = f.exp(x - x.detach().amax(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


@definition(kernel="minigrad/kernels/activations.py")
def log_softmax(x, axis=-1):
    """log softmax(x) = x - log sum exp(x), computed as a logarithm: exact for +-1e4 and beyond."""
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


# ---------------------------------------------------------------- elementwise


@definition(kernel="minigrad/kernels/activations.py")
def gelu(x, approximate="none"):
    """x times the probability that a standard normal variable is below x (Hendrycks & Gimpel 2016).

    approximate='tanh' is GPT-2's form: 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))).
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
    """x if positive, else negative_slope * x. At 0 the slope is negative_slope."""
    x = as_tensor(x)
    return f.where(x > 0, x, negative_slope * x)


@f.either_spelling
def elu(x, alpha=1.0):
    """x if positive, else alpha (exp(x) - 1) (Clevert et al. 2015)."""
    x = as_tensor(x)
    # the inner where keeps exp from overflowing
    return f.where(x > 0, x, alpha * f.expm1(f.where(x > 0, 0.0, x)))


@f.either_spelling
def softplus(x, beta=1.0, threshold=20.0):
    """log(1 + exp(beta x)) / beta, a smooth relu.

    `threshold` exists for compatibility with PyTorch and is ignored, because this form is exact everywhere.
    """
    return apply(array_functions.softplus, as_tensor(x) * beta) / beta


@f.either_spelling
def logsigmoid(x):
    """log sigmoid(x), computed as a logarithm, so that it does not underflow."""
    return -softplus(-as_tensor(x))


@f.either_spelling
def hardtanh(x, min_val=-1.0, max_val=1.0):
    """Limit x to at least min_val and at most max_val. At a limit the slope is 0 (clip's is 1)."""
    x = as_tensor(x)
    return f.where(x <= min_val, min_val, f.where(x >= max_val, max_val, x))


@f.either_spelling
def relu6(x):
    """Limit x to [0, 6]."""
    return hardtanh(x, 0.0, 6.0)


for _fun in (softmax, log_softmax, logsumexp, gelu):
    attach(_fun.__name__, _fun)
