"""What the layers declare to be checked, in samples.py beside them. Knows nothing of checking."""

from dataclasses import dataclass

import numpy as np

from minigrad.engine.tensor import Tensor


@dataclass
class Sample:
    """One thing to check: make(rng) gives (fun, inputs), all in float64.

    The layers declare theirs in samples.py beside them.
    """

    group: str
    name: str
    make: object
    fast: bool = False
    second: bool = True


def leaf(array):
    """A float64 tensor that requires its gradient."""
    return Tensor(np.array(array, dtype=np.float64)).requires_grad_()
