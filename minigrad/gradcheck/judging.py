"""The verdict on one gradient, once its slopes are measured: its shape, its dtype, then its numbers.

Serves functions of tensors (checking.py), a learner's own backward (by_hand.py) and single ops of a graph (locate/).
"""

import numpy as np

from minigrad.gradcheck.diagnosis.numbers import only_float32
from minigrad.gradcheck.results import GradcheckError, Result, compare

VACUOUS = (
    "The check is vacuous: every gradient is zero{because}, so any wrong rule that gives zero would pass. "
    "Choose inputs at which the function changes."
)


class BackwardFailed(GradcheckError):
    """Backward raised an error instead of giving gradients."""


def judged(evidence, found):
    """The Result of an input whose slopes are known."""
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
    """What is wrong with a gradient before its numbers are looked at."""
    if raw is None:
        return "backward gives no gradient (None), though the output depends on it"
    if not isinstance(raw, np.ndarray) or raw.dtype.kind not in "fiub":
        return (
            f"backward gives a {type(raw).__name__}{f' of {raw.dtype}' if isinstance(raw, np.ndarray) else ''}; it must be an "
            f"array of numbers"
        )
    if raw.shape != shape:
        return f"backward gives a gradient of shape {raw.shape} for an input of shape {shape}; it must have the input's shape"
    return ""


def imprecise(raw):
    """The dtype, or numbers that have been through float32."""
    if raw.dtype != np.float64:
        return f"backward gives a gradient of {raw.dtype} for a float64 input; its dtype must be the input's"
    if only_float32(raw):
        return (
            "the gradient has been through float32: every number of it has only the precision of float32, though the inputs "
            "are float64"
        )
    return ""
