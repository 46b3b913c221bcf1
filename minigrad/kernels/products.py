"""Sums and means over rows as matrix products, which are faster than NumPy's reductions. Knows no gradients."""

import math

import numpy as np


def rows(x):
    """x (..., C) as a matrix (N, C): one large product is faster than many small ones."""
    return x.reshape(math.prod(x.shape[:-1]), x.shape[-1])


def sum_of_rows(x):
    """x (N, C) -> (C,): x.sum(0), as a product with ones, which is faster."""
    return np.ones(len(x), x.dtype) @ x


def mean_of_rows(x):
    """x (N, C) -> (N, 1): x.mean(1, keepdims=True), as a product, which is faster."""
    return x @ np.full((x.shape[1], 1), 1 / x.shape[1], x.dtype)
