"""Softmax, its logarithm and gelu, on plain arrays. Know no layers and no losses."""

import math

import numpy as np

from minigrad import functional as F
from minigrad.autograd import defkernel
from minigrad.primitives import erf

# ---------------------------------------------------------------- softmax: y = exp(x) / sum exp(x)


def softmax(x, axis):
    y = np.exp(x - x.max(axis, keepdims=True))
    y /= y.sum(axis, keepdims=True)
    return y, None


def softmax_backward(g, y, saved, needs, x, axis):
    """dy_i/dx_j = y_i (1[i=j] - y_j), hence dx = y (g - sum g y)."""
    dx = g * y
    return dx - y * dx.sum(axis, keepdims=True), None


# ---------------------------------------------------------------- log softmax: y = x - log sum exp(x)


def log_softmax(x, axis):
    y = x - x.max(axis, keepdims=True)
    y -= np.log(np.exp(y).sum(axis, keepdims=True))
    return y, None


def log_softmax_backward(g, y, saved, needs, x, axis):
    """dy_i/dx_j = 1[i=j] - softmax_j, hence dx = g - softmax sum g."""
    return g - np.exp(y) * g.sum(axis, keepdims=True), None


# ---------------------------------------------------------------- gelu: y = x Phi(x)


def gelu(x, approximate):
    if approximate not in ("none", "tanh"):
        raise ValueError(f"approximate must be 'none' or 'tanh', got {approximate!r}")
    inner = _gelu_tanh(x) if approximate == "tanh" else erf(x * (1 / math.sqrt(2)))
    y = inner + 1
    y *= x
    y *= 0.5
    return y, inner


def _gelu_tanh(x):
    u = x * x
    u *= 0.044715
    u += 1
    u *= x
    u *= math.sqrt(2 / math.pi)
    return np.tanh(u, out=u)


def gelu_backward(g, y, inner, needs, x, approximate):
    """dy/dx = (1 + inner) / 2 + x inner' / 2, where inner is erf(x / sqrt 2) or tanh(u(x))."""
    if approximate == "none":
        slope = np.exp(-0.5 * x * x)
        slope *= math.sqrt(2 / math.pi)
    else:
        slope = x * x
        slope *= 3 * 0.044715
        slope += 1
        slope *= math.sqrt(2 / math.pi)
        slope *= 1 - inner * inner
    slope *= x
    slope += inner
    slope += 1
    slope *= 0.5
    slope *= g
    return slope, None


defkernel(F.softmax, softmax, softmax_backward)
defkernel(F.log_softmax, log_softmax, log_softmax_backward)
defkernel(F.gelu, gelu, gelu_backward)
