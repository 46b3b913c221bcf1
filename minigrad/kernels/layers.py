"""Kernels of layers: the linear map, layer norm, RMS norm, embedding."""

import math

import numpy as np

from minigrad import functional as F
from minigrad.engine.table import defkernel
from minigrad.kernels.products import cached_full, mean_of_rows, rows, sum_of_rows, times_transposed

# ---------------------------------------------------------------- linear: y = x W^T + b


def linear(x, weight, bias):
    if weight.ndim != 2:
        raise ValueError(f"the weight must have the shape (out_features, in_features), got {weight.shape}")
    if x.shape[-1:] != weight.shape[1:]:
        raise ValueError(
            f"the last axis of the input {x.shape} must be the layer's {weight.shape[1]} in_features"
        )
    y = times_transposed(rows(x), weight)
    if bias is not None:
        y += bias
    return y.reshape(*x.shape[:-1], weight.shape[0]), None


def linear_value(x, weight, bias):
    if weight.ndim != 2 or x.shape[-1:] != weight.shape[1:] or not x.size:
        return linear(x, weight, bias)[0]
    out, width = weight.shape
    y = x.reshape(-1, width) @ weight.T
    if bias is not None:
        y += bias
    return y.reshape(x.shape[:-1] + (out,))


def linear_backward(g, _y, saved, needs, x, weight, bias):
    """dx = g W, dW = g^T x, db = the sum of g over rows, as a product with ones, which is twice as fast."""
    g = rows(g)
    return (
        (g @ weight).reshape(x.shape) if needs[0] else None,
        g.T @ rows(x) if needs[1] else None,
        sum_of_rows(g) if needs[2] else None,
    )


# ------------------------------------------------ layer norm: y = x^ w + b, x^ = (x - mean) / sqrt(var + eps)


def layer_norm(x, weight, bias, eps, axes):
    """Saved: x^ and 1 / sqrt(var + eps).

    Sums along rows are products, which are several times faster than .sum(-1).
    """
    n = math.prod(x.shape[x.ndim - axes :])
    flat = x.reshape(math.prod(x.shape[: x.ndim - axes]), n)
    xhat = flat - mean_of_rows(flat)
    scale = 1 / np.sqrt(np.einsum("ij,ij->i", xhat, xhat) / n + eps)[:, None]
    xhat *= scale
    y = xhat * weight.reshape(-1) if weight is not None else xhat.copy()
    if bias is not None:
        y += bias.reshape(-1)
    return y.reshape(x.shape), (xhat, scale)


def layer_norm_value(x, weight, bias, eps, axes):
    """1 / sqrt(s / n + eps) = sqrt(n / (s + n eps)), with s the sum of squares: one operation less."""
    if axes != 1 or not x.size:
        return layer_norm(x, weight, bias, eps, axes)[0]
    n = x.shape[-1]
    flat = x.reshape(-1, n)
    y = flat - flat @ cached_full((n, 1), 1 / n, x.dtype)
    y *= _inverse_root_mean_square(y, eps, n)
    return _times_and_plus(y, weight, bias).reshape(x.shape)


def layer_norm_backward(g, _y, saved, needs, x, weight, bias, eps, axes):
    """With h = g w: dx = (h - mean(h) - x^ mean(h x^)) / sqrt(var + eps).

    The two means come from the derivatives of mean and variance; as products they are g (w / n) and (g x^) (w
    / n). dw = the sum of g x^ over rows, db = the sum of g.
    """
    xhat, scale = saved
    n = xhat.shape[-1]
    g = g.reshape(xhat.shape)
    moved = g * xhat
    dx = dw = db = None
    if needs[1]:
        dw = sum_of_rows(moved).reshape(weight.shape)
    if needs[2]:
        db = sum_of_rows(g).reshape(bias.shape)
    if needs[0]:
        mean = cached_full((n, 1), 1 / n, x.dtype) if weight is None else weight.reshape(n, 1) / n
        np.multiply(xhat, moved @ mean, out=moved)
        moved += g @ mean
        h = g * weight.reshape(-1) if weight is not None else g.copy()
        h -= moved
        h *= scale
        dx = h.reshape(x.shape)
    return dx, dw, db, None, None


# --------------------------------------------------------- RMS norm: y = x^ w, x^ = x / sqrt(mean(x^2) + eps)


def rms_norm(x, weight, eps, axes):
    """Saved: 1 / sqrt(mean(x^2) + eps) of each row."""
    n = math.prod(x.shape[x.ndim - axes :])
    flat = x.reshape(math.prod(x.shape[: x.ndim - axes]), n)
    scale = 1 / np.sqrt(np.einsum("ij,ij->i", flat, flat) / n + eps)[:, None]
    y = flat * scale
    if weight is not None:
        y *= weight.reshape(-1)
    return y.reshape(x.shape), scale


def rms_norm_value(x, weight, eps, axes):
    if axes != 1 or not x.size:
        return rms_norm(x, weight, eps, axes)[0]
    n = x.shape[-1]
    flat = x.reshape(-1, n)
    return _times_and_plus(flat * _inverse_root_mean_square(flat, eps, n), weight, None).reshape(x.shape)


def _inverse_root_mean_square(x, eps, n):
    if len(x) == 1 and eps > 0:  # scalar arithmetic is faster in Python
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


def rms_norm_backward(g, _y, saved, needs, x, weight, eps, axes):
    """With h = g w and s the scale: dx = s (h - x^ mean(h x^)). The mean comes from the derivative of s.

    dw = the sum of g x^ over rows.
    """
    n = math.prod(x.shape[x.ndim - axes :])
    g = g.reshape(-1, n)
    xhat = x.reshape(-1, n) * saved
    dx = dw = None
    if needs[0]:
        h = g * weight.reshape(-1) if weight is not None else g.copy()
        along = np.einsum("ij,ij->i", h, xhat)[:, None] / n
        h -= xhat * along
        h *= saved
        dx = h.reshape(x.shape)
    if needs[1]:
        xhat *= g
        dw = sum_of_rows(xhat).reshape(weight.shape)
    return dx, dw, None, None


# ---------------------------------------------------------------- embedding: y = W[index]


def embedding(weight, index, padding_idx):
    return weight[index], None


def embedding_backward(g, _y, saved, needs, weight, index, padding_idx):
    """dW[v] = the sum of g over all positions with token v.

    With a small vocabulary that is a product with one-hot rows; else the positions are sorted by token and
    each run is summed. np.add.at is several times slower.
    """
    flat, g = index.reshape(-1), rows(g)
    if len(weight) <= 256:
        onehot = np.zeros((len(weight), len(flat)), g.dtype)
        onehot[flat, np.arange(len(flat))] = 1
        dw = onehot @ g
    else:
        dw = np.zeros(weight.shape, g.dtype)
        if len(flat):
            order = np.argsort(flat, kind="stable")
            ids = flat[order]
            starts = np.flatnonzero(np.concatenate(([True], ids[1:] != ids[:-1])))
            dw[ids[starts]] = np.add.reduceat(g[order], starts)
    if padding_idx is not None:
        dw[padding_idx] = 0
    return dw, None, None


defkernel(F.linear, linear, linear_backward, linear_value)
defkernel(F.normalized, layer_norm, layer_norm_backward, layer_norm_value)
defkernel(F.root_mean_square_normalized, rms_norm, rms_norm_backward, rms_norm_value)
defkernel(F.rows_of, embedding, embedding_backward)
