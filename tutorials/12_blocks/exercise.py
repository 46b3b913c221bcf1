"""Exercises of lesson 12: feed-forward, layer norm, residual.

Replace each NotImplementedError by your code; `python -m tutorials check 12` tests this file and explains.
NumPy is all you need.
"""

import numpy as np


def rows(x):
    """Given: (..., C) -> (N, C), one row for each position, as the gradients of weights need it."""
    return x.reshape(-1, x.shape[-1])


def feed_forward(x, W1, b1, W2, b2):
    """The feed-forward network, max(0, x W1 + b1) W2 + b2, at each position separately.

    x: (..., d_model); W1: (d_model, d_ff), b1: (d_ff,); W2: (d_ff, d_model), b2: (d_model,)
    ->  (..., d_model)
    """
    # solution
    hidden = np.maximum(x @ W1 + b1, 0)  # (..., d_ff)
    return hidden @ W2 + b2
    # end


def feed_forward_backward(g, x, W1, b1, W2, b2):
    """The gradients of a loss, given g = dL/dy of y = feed_forward(x, W1, b1, W2, b2); g has the shape of x.

    Returns (dx, dW1, db1, dW2, db2), each in the shape of its input. The gradients of weights and biases are
    sums over all positions (x may have any number of axes before the last; `rows` helps). The derivative of
    max(0, a) at a = 0 is 0.
    """
    # solution
    before = x @ W1 + b1
    hidden = np.maximum(before, 0)  # (..., d_ff)
    dbefore = (g @ W2.T) * (before > 0)  # (..., d_ff)
    dx = dbefore @ W1.T
    dW1 = rows(x).T @ rows(dbefore)
    db1 = rows(dbefore).sum(0)
    dW2 = rows(hidden).T @ rows(g)
    db2 = rows(g).sum(0)
    return dx, dW1, db1, dW2, db2
    # end


def layer_norm(x, gamma, beta, eps=1e-5):
    """Layer norm, (x - mean) / sqrt(variance + eps) * gamma + beta; each position has its mean and variance.

    x: (..., C); gamma, beta: (C,)  ->  (..., C), a new array; x is not changed
    The variance divides by C (it is the biased one), and eps is inside the root.
    """
    # solution
    centred = x - x.mean(-1, keepdims=True)
    variance = (centred**2).mean(-1, keepdims=True)
    return centred / np.sqrt(variance + eps) * gamma + beta
    # end


def layer_norm_backward(g, x, gamma, eps=1e-5):
    """The gradients of a loss, given g = dL/dy of y = layer_norm(x, gamma, beta, eps).

    g has the shape of x, (..., C). Returns (dx, dgamma, dbeta), of the shapes (..., C), (C,), (C,).
    (beta itself is not needed.)
    """
    # solution
    centred = x - x.mean(-1, keepdims=True)
    s = 1 / np.sqrt((centred**2).mean(-1, keepdims=True) + eps)
    xhat = centred * s
    h = g * gamma
    dx = s * (h - h.mean(-1, keepdims=True) - xhat * (h * xhat).mean(-1, keepdims=True))
    return dx, rows(g * xhat).sum(0), rows(g).sum(0)
    # end


def rms_norm(x, gamma, eps=1e-6):
    """RMS norm, x / sqrt(mean of x^2 + eps) * gamma; each position has its mean square.

    No mean is subtracted.
    x: (..., C); gamma: (C,)  ->  (..., C), a new array
    """
    # solution
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * gamma
    # end


def rms_norm_backward(g, x, gamma, eps=1e-6):
    """The gradients of a loss, given g = dL/dy of y = rms_norm(x, gamma, eps).

    g has the shape of x, (..., C). Returns (dx, dgamma), of the shapes (..., C) and (C,).
    """
    # solution
    s = 1 / np.sqrt((x * x).mean(-1, keepdims=True) + eps)
    xhat = x * s
    h = g * gamma
    dx = s * (h - xhat * (h * xhat).mean(-1, keepdims=True))
    return dx, rows(g * xhat).sum(0)
    # end


def residual_block(x, sublayer, norm, order):
    """A sublayer with a path around it, and a norm.

    x: an array; sublayer, norm: functions that keep the shape of an array; order: "post" or "pre".
    "post": the norm is applied to the sum, as in the paper.
    "pre": the norm is applied to the sublayer's input, and the path around is not changed.
    """
    # solution
    if order == "post":
        return norm(x + sublayer(x))
    return x + sublayer(norm(x))
    # end


def residual_block_backward(g, x, sublayer, norm, order, sublayer_backward, norm_backward):
    """The gradient dL/dx, given g = dL/dy of y = residual_block(x, sublayer, norm, order).

    sublayer_backward(g, x) is the gradient at the sublayer's input, if x is this input and g the gradient at
    its output; norm_backward(g, x) is the same for the norm.
    """
    # solution
    if order == "post":
        dsum = norm_backward(g, x + sublayer(x))
        return dsum + sublayer_backward(dsum, x)
    return g + norm_backward(sublayer_backward(g, norm(x)), x)
    # end
