"""What kernels give where nothing is recorded: the value alone, in few calls, for in decoding a call takes longer than what it computes.
Knows no gradients; whatever is out of the ordinary it leaves to the kernel itself.

A kernel's forward and its value here are the same to rounding; tests hold them together.
"""

import math

import numpy as np

from minigrad import functional as F
from minigrad.kernels.attention import SAFE, attention, shifted_exp
from minigrad.kernels.layers import layer_norm, linear, rms_norm
from minigrad.kernels.products import filled


def linear_value(x, weight, bias):
    if weight.ndim != 2 or x.shape[-1:] != weight.shape[1:] or not x.size:
        return linear(x, weight, bias)[0]
    out, width = weight.shape
    y = x.reshape(-1, width) @ weight.T
    if bias is not None:
        y += bias
    return y.reshape(x.shape[:-1] + (out,))


def layer_norm_value(x, weight, bias, eps, axes):
    """1 / sqrt(s / n + eps) = sqrt(n / (s + n eps)), with s the sum of squares: one operation less."""
    if axes != 1 or not x.size:
        return layer_norm(x, weight, bias, eps, axes)[0]
    n = x.shape[-1]
    flat = x.reshape(-1, n)
    y = flat - flat @ filled((n, 1), 1 / n, x.dtype)
    y *= _inverse_root_mean_square(y, eps, n)
    return _times_and_plus(y, weight, bias).reshape(x.shape)


def rms_norm_value(x, weight, eps, axes):
    if axes != 1 or not x.size:
        return rms_norm(x, weight, eps, axes)[0]
    n = x.shape[-1]
    flat = x.reshape(-1, n)
    return _times_and_plus(flat * _inverse_root_mean_square(flat, eps, n), weight, None).reshape(x.shape)


def _inverse_root_mean_square(x, eps, n):
    if len(x) == 1 and eps > 0:  # arithmetic on one number is faster in Python
        return math.sqrt(n / (float(x[0].dot(x[0])) + n * eps))
    squares = np.vecdot(x, x)
    squares += n * eps
    np.divide(n, squares, out=squares)
    return np.sqrt(squares, out=squares)[:, None]


def _times_and_plus(y, weight, bias):
    if weight is not None:
        y *= weight
    if bias is not None:
        y += bias
    return y


def attention_value(q, k, v, mask, kept, scale):
    """One query (..., 1, D) that sees all keys: nothing is turned or copied, and the scale goes into q."""
    if mask is not None or kept is not None or q.shape[-2] != 1 or not k.size:
        return attention(q, k, v, mask, kept, scale)[0]
    e = (q * np.asarray(scale, q.dtype)) @ k.mT  # (..., 1, Tk)
    if -SAFE < e.min() and e.max() < SAFE:
        np.exp(e, out=e)
    else:
        e = shifted_exp(e, None)
    y = e @ v
    y /= e @ filled((e.shape[-1], 1), 1, e.dtype)
    return y


F.linear.kernel.value = linear_value
F.normalized.kernel.value = layer_norm_value
F.root_mean_square_normalized.kernel.value = rms_norm_value
F.attention.kernel.value = attention_value
