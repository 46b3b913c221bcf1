"""Is the *value* right?

A gradient check takes the forward on trust, and happily confirms the right gradient of a wrong function.

Compares a forward with another implementation of the same function, and says what probably differs. Knows no gradients.
"""

import math

import numpy as np

from minigrad.engine.tensor import Tensor
from minigrad.gradcheck.diagnosis.factors import spelled
from minigrad.gradcheck.results import Diagnosis, GradcheckError

TOLERANCE = 1e-4  # an eps inside a root blurs a factor by about 1e-5


def compare_values(forward, reference, inputs, tolerance=1e-9):
    """True if forward(*inputs) equals reference(*inputs), which may take and give Tensors.

    Else raises GradcheckError and says how they differ.
    """
    arrays = [x.data if isinstance(x, Tensor) else x for x in inputs]
    ours, right = _value(forward(*arrays)), _value(reference(*arrays))
    if ours.shape != right.shape:
        raise GradcheckError(f"The value has the shape {ours.shape}, that of the reference {right.shape}.")
    if np.abs(ours - right).max(initial=0) <= tolerance * max(1.0, np.abs(right).max(initial=0)):
        return True
    index = tuple(int(i) for i in np.unravel_index(np.argmax(np.abs(ours - right)), ours.shape))
    found = _difference(ours, right, {n for x in arrays for n in np.shape(x)})
    raise GradcheckError(
        f"The value is wrong, whatever its gradient: {ours[index]:.8g} at index {index}, the reference has "
        f"{right[index]:.8g}.\n  Likely: {found}",
        None,
        [found],
    )


def _value(out):
    out = out[0] if isinstance(out, tuple) else out
    return out.data if isinstance(out, Tensor) else np.asarray(out)


def _difference(ours, right, sizes):
    """What the two values have to do with each other."""
    factor = _multiple(ours, right)
    if factor is not None:
        return Diagnosis(
            "factor",
            f"every number is {spelled(factor)} times the right one. {_why(factor, {*right.shape, *sizes})}",
        )
    rows = (
        [
            _multiple(a, b)
            for a, b in zip(ours.reshape(-1, ours.shape[-1]), right.reshape(-1, right.shape[-1]), strict=True)
        ]
        if ours.ndim
        else [None]
    )
    if all(r is not None for r in rows):
        return Diagnosis("row factor", (
            f"each row is the right one times a number of its own ({min(rows):.3g} to {max(rows):.3g}): its weights do not "
            f"sum to 1, because they were normalised before "
            "some were removed. A mask belongs before the softmax (-inf in the scores), not after it; if after, divide by "
            "the sum again."
        ))  # fmt: skip
    gap = ours - right
    if np.abs(gap - gap.mean()).max() <= TOLERANCE * np.abs(gap).max():
        return Diagnosis("offset", f"every number is off by the same {gap.mean():.6g}.")
    wrong = np.abs(gap) > TOLERANCE * np.abs(right).max()
    return Diagnosis(
        "unknown", f"{int(wrong.sum())} of {wrong.size} numbers differ, and not by a common factor or amount."
    )


def _multiple(a, b):
    """c if a = c b up to TOLERANCE, else None."""
    c = float(np.vdot(a, b) / max(np.vdot(b, b), 1e-300))
    return (
        c if np.abs(a - c * b).max(initial=0) <= TOLERANCE * max(np.abs(a).max(initial=0), 1e-300) else None
    )


def _why(factor, sizes):
    """The factors that wrong statistics give."""
    for n in sorted(sizes - {0, 1}):
        for value, sentence in (
            (math.sqrt((n - 1) / n), f"That is sqrt((n-1)/n) for n = {n}: the variance was divided by n - 1 (ddof=1), where a "
                                     "normalisation divides by n (ddof=0)."),
            (math.sqrt(n / (n - 1)), f"That is sqrt(n/(n-1)) for n = {n}: the variance was divided by n, where n - 1 is due."),
            (math.sqrt(n), f"That is sqrt({n}): a scale by 1/sqrt({n}) is missing."),
            (n, f"That is {n}: a mean over {n} was taken as a sum."),
            (1 / n, f"That is 1/{n}: a sum over {n} was taken as a mean."),
        ):  # fmt: skip
            if abs(factor / value - 1) < TOLERANCE:
                return sentence
    return "Look for a factor that belongs there, or does not."
