"""Judge one gradient by its measured slopes: first its shape, then its dtype, then its values.

Used for functions of tensors (checking.py), a hand-written backward (by_hand.py) and single ops of a graph
(locate/).
"""

import numpy as np

from minigrad.gradcheck.diagnosis.numbers import only_float32
from minigrad.gradcheck.results import GradcheckError, Result, compare

VACUOUS = (
    "The check is vacuous: every gradient is zero{because}, so any wrong rule that gives zero would pass. "
    "Choose inputs at which the function changes."
)


class BackwardFailed(GradcheckError):
    """Raised when backward raises an error instead of returning gradients."""


def judge(evidence, found):
    """Return the Result of one input, given its measured Slopes."""
    evidence.jacobian, evidence.kinks, raw = found.jacobian, found.kinks, evidence.raw
    evidence.numeric = found.gradient
    problem = misfit(raw, evidence.x.shape)
    if problem:
        largest = float(np.abs(found.gradient).max(initial=0))
        return Result(
            evidence.name, float("inf"), (), np.nan, np.nan, largest, problem=problem, evidence=evidence
        )
    evidence.numeric = found.allowed(raw)
    result = compare(evidence.name, raw, evidence.numeric, int(found.kinks.sum()))
    result.evidence, result.problem = evidence, imprecise(raw)
    return result


def misfit(raw, shape):
    """Describe what is wrong with a gradient's type or shape; "" if nothing is."""
    if raw is None:
        return "backward gives no gradient (None), though the output depends on it"
    if not isinstance(raw, np.ndarray) or raw.dtype.kind not in "fiub":
        dtype = f" of {raw.dtype}" if isinstance(raw, np.ndarray) else ""
        return f"backward gives a {type(raw).__name__}{dtype}; it must be an array of numbers"
    if raw.shape != shape:
        return (
            f"backward gives a gradient of shape {raw.shape} for an input of shape {shape}; it must have the "
            "input's shape"
        )
    return ""


def imprecise(raw):
    """Describe what is wrong with a gradient's precision: its dtype, or rounded values; "" if nothing is."""
    if raw.dtype != np.float64:
        return f"backward gives a gradient of {raw.dtype} for a float64 input; its dtype must be the input's"
    if only_float32(raw):
        return (
            "the gradient was rounded to float32: each of its entries has only the precision of float32, "
            "though the inputs are float64"
        )
    return ""
