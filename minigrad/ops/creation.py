"""Make tensors from lists, arrays, fills, ranges and random numbers, with PyTorch's names.

Shapes are given as integers or as a tuple. Floats are float32 unless a dtype is given; integers are int64.
"""

import numpy as np

from minigrad import random
from minigrad.engine.array_functions import get_default_dtype
from minigrad.engine.recording import as_tensor
from minigrad.engine.tensor import Tensor

__all__ = [
    "tensor", "from_numpy", "zeros", "ones", "empty", "full", "arange", "linspace", "eye", "randn", "rand", "randint", "randperm",
    "zeros_like", "ones_like", "empty_like", "randn_like", "rand_like", "full_like",
]  # fmt: skip


def tensor(data, dtype=None, requires_grad=False):
    """Make a leaf with a copy of `data`: a number, nested lists, or an array (whose dtype is kept)."""
    out = as_tensor(data.detach() if isinstance(data, Tensor) else data, dtype)
    return Tensor(np.array(out.data)).requires_grad_(requires_grad)


def from_numpy(array):
    """Make a tensor that shares the array's memory."""
    return as_tensor(array)


def _shape(shape):
    shape = shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
    return tuple(int(n) for n in shape)


def _filled(array, dtype, requires_grad):
    return as_tensor(array, dtype or get_default_dtype()).requires_grad_(requires_grad)


def zeros(*shape, dtype=None, requires_grad=False):
    return _filled(np.zeros(_shape(shape), dtype or get_default_dtype()), dtype, requires_grad)


def ones(*shape, dtype=None, requires_grad=False):
    return _filled(np.ones(_shape(shape), dtype or get_default_dtype()), dtype, requires_grad)


def empty(*shape, dtype=None, requires_grad=False):
    """zeros under PyTorch's name: uninitialized memory would only surprise in a teaching engine."""
    return zeros(*shape, dtype=dtype, requires_grad=requires_grad)


def full(shape, fill_value, dtype=None, requires_grad=False):
    return tensor(np.full(shape, fill_value), dtype or as_tensor(fill_value).dtype, requires_grad)


def arange(start, end=None, step=1, dtype=None, requires_grad=False):
    """start, start + step ... before end; integers if all three are."""
    start, end = (0, start) if end is None else (start, end)
    array = np.arange(start, end, step)
    return tensor(
        array, dtype or (get_default_dtype() if array.dtype.kind == "f" else np.int64), requires_grad
    )


def linspace(start, end, steps, dtype=None, requires_grad=False):
    return _filled(np.linspace(start, end, steps), dtype, requires_grad)


def eye(n, m=None, dtype=None, requires_grad=False):
    return _filled(np.eye(n, m), dtype, requires_grad)


def randn(*shape, dtype=None, requires_grad=False, generator=None):
    """Draw from the standard normal distribution, with the stream "default" or a np.random.Generator."""
    return _filled((generator or random.stream()).standard_normal(_shape(shape)), dtype, requires_grad)


def rand(*shape, dtype=None, requires_grad=False, generator=None):
    """Draw uniformly from [0, 1)."""
    return _filled((generator or random.stream()).random(_shape(shape)), dtype, requires_grad)


def randint(low, high=None, size=(), generator=None):
    """Draw integers from low up to, but not including, high."""
    low, high = (0, low) if high is None else (low, high)
    return Tensor(np.asarray((generator or random.stream()).integers(low, high, _shape((tuple(size),)))))


def randperm(n, generator=None):
    """Draw a random permutation of 0 .. n-1."""
    return Tensor((generator or random.stream()).permutation(n))


def _like(make):
    def like(x, dtype=None, requires_grad=False):
        return make(*x.shape, dtype=dtype or x.dtype, requires_grad=requires_grad)

    like.__name__ = like.__qualname__ = make.__name__ + "_like"
    like.__doc__ = f"{make.__name__} with the shape and dtype of x."
    return like


zeros_like, ones_like, empty_like, randn_like, rand_like = map(_like, (zeros, ones, empty, randn, rand))


def full_like(x, fill_value, dtype=None, requires_grad=False):
    return full(x.shape, fill_value, dtype or x.dtype, requires_grad)
