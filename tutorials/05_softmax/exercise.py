"""Exercises of lesson 05: softmax and cross-entropy.

Write each function where it says so. `python -m tutorials check 05` tests this file and explains.
NumPy is all you need. Later functions may call the ones before them.
"""

import numpy as np


def softmax(x):
    """Softmax along the last axis.

    x: float array (..., C)  ->  array of the same shape; each row is positive and sums to 1.
    Finite for any finite x, also 1e4, without a warning. An entry may be -inf (its probability is 0) if its
    row has a finite entry. x is not changed.
    """
    # solution
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)
    # end


def softmax_backward(g, y):
    """The gradient of x, where y = softmax(x).

    g: (..., C), the gradient of a loss with respect to y
    y: (..., C), the result of softmax
    ->  (..., C), the gradient of the loss with respect to x. g and y are not changed.
    """
    # solution
    return y * (g - (g * y).sum(axis=-1, keepdims=True))
    # end


def logsumexp(x):
    """The logarithm of the sum of exp along the last axis.

    x: float array (..., C)  ->  (...), one number for each row: the last axis is gone.
    Finite for any finite x, without a warning.
    """
    # solution
    m = x.max(axis=-1)
    return m + np.log(np.exp(x - m[..., None]).sum(axis=-1))
    # end


def log_softmax(x):
    """The logarithm of softmax along the last axis.

    x: float array (..., C)  ->  array of the same shape.
    Finite for any finite x: log_softmax of [0, 800] is [-800, 0], not [-inf, 0]. Exact for very large x, too:
    [1e16, 1e16 + 2] gives the same as [0, 2].
    """
    # solution
    shifted = x - x.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    # end


def log_softmax_backward(g, y):
    """The gradient of x, where y = log_softmax(x).

    g: (..., C), the gradient of a loss with respect to y
    y: (..., C), the result of log_softmax: logarithms, not probabilities
    ->  (..., C), the gradient of the loss with respect to x.
    """
    # solution
    return g - np.exp(y) * g.sum(axis=-1, keepdims=True)
    # end


def cross_entropy(logits, targets, ignore_index=-100):
    """The mean of -log softmax(logits)[target] over the rows that have a target.

    logits: float array (N, C)
    targets: (N,) integers, each a class 0 .. C-1, or ignore_index. A row with ignore_index counts neither in
    the sum nor in the number of rows that divides it.
    ->  one number; 0.0 if no row has a target. Finite for any finite logits.
    """
    # solution
    rows = np.flatnonzero(targets != ignore_index)
    right = log_softmax(logits)[rows, targets[rows]]
    return -right.sum() / max(len(rows), 1)
    # end


def cross_entropy_backward(logits, targets, ignore_index=-100):
    """The gradient of cross_entropy(logits, targets, ignore_index) with respect to the logits.

    logits: float array (N, C)
    targets: (N,) integers, classes or ignore_index
    ->  (N, C). The rows without a target get exactly 0. Finite for any finite logits.
    """
    # solution
    rows = np.flatnonzero(targets != ignore_index)
    d = np.zeros_like(logits)
    d[rows] = softmax(logits[rows])
    d[rows, targets[rows]] -= 1
    return d / max(len(rows), 1)
    # end
