"""Exercises of lesson 03: the backward of matrix products, of a linear layer, and of a permutation of axes.

Write each function where it says so. `python -m tutorials check 03` tests this file and explains.
NumPy is all you need.

In every function g is the gradient of the result, and has its shape. The gradient of an argument has the
argument's shape.
"""

import math

import numpy as np


def unbroadcast(g, shape):
    """Sum g over the axes along which an array of `shape` was repeated. (Given, from lesson 02.)"""
    g = g.sum(axis=tuple(range(g.ndim - len(shape))))
    return g.sum(axis=tuple(i for i, n in enumerate(shape) if n == 1), keepdims=True)


def outer_backward(g, u, v):
    """The gradients of the outer product z = np.outer(u, v), z[i, j] = u[i] * v[j].

    g: (n, m); u: (n,); v: (m,)  ->  the tuple (gradient of u, gradient of v)
    """
    # solution
    return g @ v, u @ g
    # end


def matvec_backward(g, x, v):
    """The gradients of y = x @ v, a matrix times a vector.

    g: (n,); x: (n, k); v: (k,)  ->  the tuple (gradient of x, gradient of v)
    """
    # solution
    return np.outer(g, v), x.T @ g
    # end


def matmul_backward(g, x, y):
    """The gradients of z = x @ y for two matrices.

    g: (n, m); x: (n, k); y: (k, m)  ->  the tuple (gradient of x, gradient of y)
    """
    # solution
    return g @ y.T, x.T @ g
    # end


def linear_backward(g, x, weight):
    """The gradients of a linear layer, y = x @ weight.T + bias. The weight has a row for each output.

    g: (..., out); x: (..., in) with any number of leading axes, or none; weight: (out, in); bias: (out,)
    ->  the tuple (gradient of x, gradient of weight, gradient of bias)
    """
    # solution
    g_rows, x_rows = g.reshape(-1, g.shape[-1]), x.reshape(-1, x.shape[-1])  # (N, out), (N, in)
    return g @ weight, g_rows.T @ x_rows, g_rows.sum(axis=0)
    # end


def permute_backward(g, axes):
    """The gradient of y = np.transpose(x, axes): axis i of y is axis axes[i] of x.

    g: an array; axes: a tuple with each of g's axes once, counted from 0  ->  an array of the shape of x
    """
    # solution
    return np.transpose(g, np.argsort(axes))
    # end


def batched_matmul_backward(g, x, y):
    """The gradients of z = x @ y: matrices in the last two axes, a batch in any axes before.

    The batch axes broadcast: (2, 1, 3, 4) @ (5, 4, 2) -> (2, 5, 3, 2).
    g: of the shape of z; x: (..., n, k); y: (..., k, m)  ->  the tuple (gradient of x, gradient of y)
    """
    # solution
    dx = g @ np.swapaxes(y, -1, -2)
    dy = np.swapaxes(x, -1, -2) @ g
    return unbroadcast(dx, x.shape), unbroadcast(dy, y.shape)
    # end


def matmul_flops(x_shape, y_shape):
    """Count the operations of a matrix product: 2 n k m for (n, k) @ (k, m), multiplications and additions.

    x_shape, y_shape: shapes of at least two axes, whose batch axes broadcast (np.broadcast_shapes)
    ->  the tuple (forward, backward) of integers; backward: both gradients, without the sums over stretched
    batch axes
    """
    # solution
    batch = math.prod(np.broadcast_shapes(x_shape[:-2], y_shape[:-2]))
    forward = 2 * batch * math.prod(x_shape[-2:]) * y_shape[-1]
    return forward, 2 * forward
    # end
