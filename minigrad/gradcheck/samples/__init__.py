"""What to check: one Sample for each op, kernel and layer, at inputs where its derivatives say something.

ops.py and layers.py list those of minigrad, models/samples.py those of models. This file knows nothing of checking.
"""

from dataclasses import dataclass

import numpy as np

from minigrad.engine.tensor import Tensor


@dataclass
class Sample:
    """One thing to check: make(rng) gives (fun, inputs), all in float64; square(rng) the same with 3 x 3 matrices as inputs."""

    group: str
    name: str
    make: object
    fast: bool = False
    second: bool = True
    square: object = None


def leaf(array):
    """A float64 tensor that requires its gradient."""
    return Tensor(np.array(array, dtype=np.float64)).requires_grad_()
