"""Initialize parameters in place, with names and formulas of torch.nn.init.

All draw from the stream "init", so no two layers start with equal values.
"""

import math

import numpy as np

from minigrad.modes import no_grad
from minigrad.nn.module import init_stream


def _fill(tensor, values):
    with no_grad():
        return tensor.copy_(np.asarray(values, dtype=tensor.dtype))


def zeros_(tensor):
    return _fill(tensor, np.zeros(tensor.shape))


def ones_(tensor):
    return _fill(tensor, np.ones(tensor.shape))


def constant_(tensor, value):
    return _fill(tensor, np.full(tensor.shape, value))


def uniform_(tensor, a=0.0, b=1.0):
    return _fill(tensor, init_stream().uniform(a, b, tensor.shape))


def normal_(tensor, mean=0.0, std=1.0):
    return _fill(tensor, init_stream().normal(mean, std, tensor.shape))


def _fans(tensor):
    """(in, out) of a weight (out, in)."""
    if tensor.ndim != 2:
        raise ValueError(
            f"This initialization is for matrices (out, in), got a tensor of shape {tensor.shape}."
        )
    return tensor.shape[1], tensor.shape[0]


def xavier_uniform_(tensor, gain=1.0):
    """Uniform with variance 2 / (in + out), to preserve the scale of values and gradients (Glorot & Bengio 2010)."""
    bound = gain * math.sqrt(6 / sum(_fans(tensor)))
    return uniform_(tensor, -bound, bound)


def xavier_normal_(tensor, gain=1.0):
    return normal_(tensor, 0, gain * math.sqrt(2 / sum(_fans(tensor))))


def kaiming_uniform_(tensor, a=0.0):
    """Uniform with variance 2 / ((1 + a^2) in), for layers followed by a (leaky) relu of slope a (He et al.

    2015).
    """
    bound = math.sqrt(6 / ((1 + a * a) * _fans(tensor)[0]))
    return uniform_(tensor, -bound, bound)


def kaiming_normal_(tensor, a=0.0):
    return normal_(tensor, 0, math.sqrt(2 / ((1 + a * a) * _fans(tensor)[0])))
