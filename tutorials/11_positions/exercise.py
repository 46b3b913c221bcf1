"""Exercises of lesson 11: positions.

Replace each NotImplementedError by your code; `python -m tutorials check 11` tests this file and explains.
NumPy is all you need.
"""

import numpy as np


def is_equivariant(f, x, order):
    """True if reordering the rows of x reorders the rows of f(x) in the same way: f(x[order]) = f(x)[order].

    f: a function from an array (T, C) to an array with T rows; x: (T, C)
    order: T integers, the index of each row of x once
    Equal means: to within 1e-9 in every element. Returns a bool (True or False).
    """
    # solution
    return bool(np.allclose(f(x[order]), f(x)[order], rtol=0, atol=1e-9))
    # end


def sinusoidal(length, d_model):
    """The sinusoidal table, for pos = 0 ... length - 1.

    PE(pos, 2i) = sin(pos / 10000^(2i/d_model)), PE(pos, 2i+1) = cos(pos / 10000^(2i/d_model))
    ->  (length, d_model), float64. An odd d_model ends with a sine that has no cosine.
    """
    # solution
    column = np.arange(d_model)
    angle = np.arange(length)[:, None] / 10000.0 ** (column // 2 * 2 / d_model)  # (length, d_model)
    return np.where(column % 2 == 0, np.sin(angle), np.cos(angle))
    # end


def shift_matrix(k, d_model):
    """The matrix M_k with PE(pos + k) = M_k PE(pos) for every pos, where PE(pos) is a row of `sinusoidal`.

    k: an integer of any sign; d_model: even   ->   (d_model, d_model)
    M_k consists of 2 x 2 blocks on the diagonal, and zeros elsewhere. It multiplies PE(pos) as a column.
    """
    # solution
    M = np.zeros((d_model, d_model))
    for i in range(0, d_model, 2):
        angle = k / 10000.0 ** (i / d_model)
        M[i : i + 2, i : i + 2] = [[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]]
    return M
    # end


def learned_positions_backward(g, positions, max_len):
    """The gradient of the table (max_len, C), given g = dL/dy of y = x + table[positions].

    g: (B, T, C); positions: (B, T), integers from 0 to max_len - 1, in any order, repeated or not
    ->  (max_len, C): the sum of the gradients of all uses of a row; 0 for a row that was not used
    """
    # solution
    d = np.zeros((max_len, g.shape[-1]))
    np.add.at(d, positions, g)
    return d
    # end


def pairs(width, layout):
    """Given: slices for the first and for the second column of all pairs: x[..., first], x[..., second]."""
    if layout == "halves":
        return slice(0, width // 2), slice(width // 2, width)
    return slice(0, width, 2), slice(1, width, 2)


def rotary(x, positions, layout="halves", base=10000.0):
    """Rotate pair i of each row, (a, b), by the angle t = position * base^(-2i/D).

    The result is (a cos t - b sin t, b cos t + a sin t).
    x: (..., T, D) with D even; positions: (T,), the positions of the rows   ->   the same shape, a new array
    layout: the columns of pair i (0 ... D/2 - 1): "halves": i and i + D/2; "interleaved": 2i and 2i + 1.
    `pairs` gives these columns.
    """
    # solution
    D = x.shape[-1]
    angle = positions[:, None] * base ** (-np.arange(0, D, 2) / D)  # (T, D/2)
    first, second = pairs(D, layout)
    a, b = x[..., first], x[..., second]
    y = np.empty_like(x)
    y[..., first] = a * np.cos(angle) - b * np.sin(angle)
    y[..., second] = b * np.cos(angle) + a * np.sin(angle)
    return y
    # end


def rotary_backward(g, positions, layout="halves", base=10000.0):
    """The gradient dL/dx, given g = dL/dy of y = rotary(x, positions, layout, base).

    g and the result have the shape of x, (..., T, D).
    """
    # solution
    return rotary(g, -positions, layout, base)
    # end
