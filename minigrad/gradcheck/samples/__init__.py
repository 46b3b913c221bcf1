"""Samples to check: one for each op, kernel and layer, with inputs at which a wrong derivative shows.

ops.py and layers.py list the samples of minigrad, models/samples.py those of models.
"""

from dataclasses import dataclass

import numpy as np

from minigrad.engine.tensor import Tensor


@dataclass
class Sample:
    """A function to check: make(rng) returns (fun, inputs) in float64; square(rng) the same with 3 x 3 matrices."""

    group: str
    name: str
    make: object
    fast: bool = False
    second: bool = True
    square: object = None


def leaf(array):
    """Make a float64 tensor that requires a gradient."""
    return Tensor(np.array(array, dtype=np.float64)).requires_grad_()
