"""Gradient clipping, between backward and step."""

import math

import numpy as np

from minigrad.engine.tensor import Tensor


def clip_grad_norm_(parameters, max_norm, error_if_nonfinite=False):
    """Scale all gradients, as one vector, down to the norm max_norm if it is larger. Returns the norm before.

    Pascanu, Mikolov & Bengio 2013. If a gradient has a NaN or inf, nothing is scaled and the norm returned is
    NaN or inf; with error_if_nonfinite, raises RuntimeError instead.
    """
    parameters = [parameters] if isinstance(parameters, Tensor) else parameters
    grads = [p.grad for p in parameters if p.grad is not None]
    if not max_norm >= 0:
        raise ValueError(f"clip_grad_norm_: max_norm must be a number >= 0, got {max_norm}.")
    norm = math.hypot(*(_length(g.data) for g in grads))
    if error_if_nonfinite and not math.isfinite(norm):
        raise RuntimeError("The gradient has a NaN or an inf; find where it arises before clipping.")
    if max_norm < norm < math.inf:
        for g in grads:
            g.data *= max_norm / (norm + 1e-6)
    return norm


def _length(g):
    """The norm of an array as one vector, in float64 if its square is outside the range of float32."""
    square = float(np.vdot(g, g))
    return math.sqrt(square) if 1e-30 < square < math.inf else float(np.linalg.norm(g.astype(np.float64)))
