"""Kernels of softmax, log_softmax, gelu and silu."""

import math

import numpy as np

from minigrad import functional as F
from minigrad.engine.array_functions import erf
from minigrad.engine.table import defkernel
from minigrad.kernels.blocks import in_blocks

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


# ---------------------------------------------------------------- gelu: y = x phi(x), dy/dx = phi + x phi'
#
# Elementwise functions compute their slope in forward, while x and the intermediate arrays are in the
# processor's cache. backward is then one product. Saved: the slope.


def gelu(x, approximate):
    """phi is the normal distribution function (1 + erf(x / sqrt 2)) / 2, or nearly so, (1 + tanh u(x)) / 2."""
    form, y, slope = _gelu_form(approximate), np.empty(x.shape, x.dtype), np.empty(x.shape, x.dtype)
    for parts in in_blocks(x, y, slope):
        form(*parts)
    return y, slope


def gelu_value(x, approximate):
    form, y = _gelu_form(approximate), np.empty(x.shape, x.dtype)
    for parts in in_blocks(x, y):
        form(*parts)
    return y


def _gelu_form(approximate):
    if approximate not in ("none", "tanh"):
        raise ValueError(f"approximate must be 'none' or 'tanh', got {approximate!r}")
    return _gelu_tanh if approximate == "tanh" else _gelu_erf


def _gelu_tanh(x, y, slope=None):
    """With u = c (x + k x^3): phi' = 2 phi (1 - phi) u', so dy/dx = phi + y (1 - phi) 2 u'."""
    c, k = math.sqrt(2 / math.pi), 0.044715
    square = x * x
    phi = square * (c * k)
    phi += c
    phi *= x
    np.tanh(phi, out=phi)
    phi *= 0.5
    phi += 0.5
    np.multiply(x, phi, out=y)
    if slope is None:
        return
    np.multiply(square, 6 * c * k, out=slope)  # 2 u'
    slope += 2 * c
    np.multiply(y, phi, out=square)
    slope *= np.subtract(y, square, out=square)
    slope += phi


def _gelu_erf(x, y, slope=None):
    """phi' is the normal density exp(-x^2 / 2) / sqrt(2 pi)."""
    bell = x * x
    bell *= -0.5
    np.exp(bell, out=bell)
    phi = _normal_below(x, bell) if x.dtype == np.float32 else 0.5 + 0.5 * erf(x * math.sqrt(0.5))
    np.multiply(x, phi, out=y)
    if slope is None:
        return
    np.multiply(x, bell, out=slope)
    slope *= 1 / math.sqrt(2 * math.pi)
    slope += phi


ERF = (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592)


def _normal_below(x, bell):
    """phi(x) to 1e-7, for float32.

    1 - erf(|x| / sqrt 2) is a polynomial in t = 1 / (1 + p |x| / sqrt 2), times bell = exp(-x^2 / 2)
    (Abramowitz & Stegun 1964, 7.1.26).
    """
    t = np.abs(x)
    t *= 0.3275911 * math.sqrt(0.5)
    t += 1
    np.divide(1, t, out=t)
    tail = t * ERF[0]
    for coefficient in ERF[1:]:
        tail += coefficient
        tail *= t
    tail *= bell
    tail *= 0.5  # the probability beyond |x|
    np.copysign(tail, x, out=tail)
    # 1 - tail for positive x, tail for negative ones; np.where is five times slower
    return np.subtract(~np.signbit(x), tail, out=tail)


def slope_backward(g, _y, slope, needs, _x, *_):
    """dx = g dy/dx."""
    return g * slope, None


# ------------------------------------------------------- silu: y = x s, s = sigmoid(x), dy/dx = s + y (1 - s)


def silu(x):
    y, slope = np.empty(x.shape, x.dtype), np.empty(x.shape, x.dtype)
    with np.errstate(over="ignore"):  # far below 0, exp(-x) is inf, and s is 0 as it should be
        for parts in in_blocks(x, y, slope):
            _silu(*parts)
    return y, slope


def silu_value(x):
    y = np.empty(x.shape, x.dtype)
    with np.errstate(over="ignore"):
        for parts in in_blocks(x, y):
            _silu(*parts)
    return y


def _silu(x, y, slope=None):
    s = np.negative(x)
    np.exp(s, out=s)
    s += 1
    np.divide(1, s, out=s)
    np.multiply(x, s, out=y)
    if slope is None:
        return
    np.multiply(y, s, out=slope)
    np.subtract(y, slope, out=slope)
    slope += s


defkernel(F.softmax, softmax, softmax_backward)
defkernel(F.log_softmax, log_softmax, log_softmax_backward)
defkernel(F.gelu, gelu, slope_backward, gelu_value)
defkernel(F.silu, silu, slope_backward, silu_value)
