"""Shared by the functions here: accept PyTorch's and NumPy's names of arguments, and resolve axes."""

import functools

import numpy as np

from minigrad.engine.operators import FROM_NUMPY

_SPELLINGS = {
    "dim": "axis", "dims": "axis", "dim0": "axis0", "dim1": "axis1", "dim2": "axis2", "keepdim": "keepdims", "shifts": "shift",
    "input": "x", "self": "x", "a": "x", "other": "y", "exponent": "y",
}  # fmt: skip
NO_GPU = (
    "minigrad computes on the CPU only, with NumPy; "
    "leave .cuda() out, or write .to('cpu'), which does nothing."
)


def either_spelling(fun):
    """Make `fun` accept dim for axis, keepdim for keepdims ..."""

    @functools.wraps(fun)
    def either(*args, **kwargs):
        return fun(*args, **{_SPELLINGS.get(k, k): v for k, v in kwargs.items()}) if kwargs else fun(*args)

    return either


def public(*numpys):
    """Make a function of `__all__` accept either spelling, and stand for these NumPy functions on tensors."""

    def decorate(fun):
        either = either_spelling(fun)
        FROM_NUMPY.update(dict.fromkeys(numpys, either))
        return either

    return decorate


def several(numbers):
    """Unpack a single tuple, so that reshape(2, 3) and reshape((2, 3)) mean the same."""
    return tuple(numbers[0]) if len(numbers) == 1 and isinstance(numbers[0], (tuple, list)) else numbers


def axis_of(x, axis):
    """Count an axis from the left. Raises AxisError if x has no such axis."""
    if not -x.ndim <= axis < x.ndim:
        raise np.exceptions.AxisError(
            f"axis {axis} does not exist in a tensor of shape {x.shape}, which has {x.ndim} axes."
        )
    return axis % x.ndim


def along(axis, index):
    """Make an index that takes `index` on one axis and everything on the axes before it."""
    return (slice(None),) * axis + (index,)
