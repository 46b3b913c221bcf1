"""Compare the *value* of a forward with that of a reference implementation, and name the probable difference.

A gradient check trusts the forward: it happily confirms the right gradient of a wrong function.
"""

import math

import numpy as np

from minigrad.engine.tensor import Tensor
from minigrad.gradcheck.diagnosis.factors import spell
from minigrad.gradcheck.results import Diagnosis, GradcheckError

TOLERANCE = 1e-4  # an eps under a root changes a factor by about 1e-5


def compare_values(forward, reference, inputs, tolerance=1e-9):
    """Return True if forward(*inputs) equals reference(*inputs); both may return Tensors.

    Raises GradcheckError otherwise, with the probable cause of the difference.
    """
    arrays = [x.data if isinstance(x, Tensor) else x for x in inputs]
    ours, right = _value(forward(*arrays)), _value(reference(*arrays))
    if ours.shape != right.shape:
        raise GradcheckError(f"The value has the shape {ours.shape}, the reference {right.shape}.")
    if np.abs(ours - right).max(initial=0) <= tolerance * max(1.0, np.abs(right).max(initial=0)):
        return True
    index = tuple(int(i) for i in np.unravel_index(np.argmax(np.abs(ours - right)), ours.shape))
    found = _difference(ours, right, {n for x in arrays for n in np.shape(x)})
    raise GradcheckError(
        f"The value is wrong, whatever its gradient: {ours[index]:.8g} at index {index}, where the reference "
        f"has {right[index]:.8g}.\n  Likely: {found}",
        None,
        [found],
    )


def _value(out):
    out = out[0] if isinstance(out, tuple) else out
    return out.data if isinstance(out, Tensor) else np.asarray(out)


def _difference(ours, right, sizes):
    """Return the Diagnosis of how the two values differ."""
    factor = _multiple(ours, right)
    if factor is not None:
        why = _why(factor, {*right.shape, *sizes})
        return Diagnosis("factor", f"every element is {spell(factor)} times the right one. {why}")
    rows = [None]
    if ours.ndim:
        both = (array.reshape(-1, array.shape[-1]) for array in (ours, right))
        rows = [_multiple(a, b) for a, b in zip(*both, strict=True)]
    if all(r is not None for r in rows):
        return Diagnosis(
            "row factor",
            f"each row is the right one times a factor of its own ({min(rows):.3g} to {max(rows):.3g}): its "
            "weights do not sum to 1, because they were normalised before some were removed. A mask belongs "
            "before the softmax (-inf in the scores), not after it; if it is applied after, divide by the "
            "sum again.",
        )
    gap = ours - right
    if np.abs(gap - gap.mean()).max() <= TOLERANCE * np.abs(gap).max():
        return Diagnosis("offset", f"every element is off by the same {gap.mean():.6g}.")
    wrong = np.abs(gap) > TOLERANCE * np.abs(right).max()
    return Diagnosis(
        "unknown",
        f"{int(wrong.sum())} of {wrong.size} elements differ, and not by a common factor or amount.",
    )


def _multiple(a, b):
    """Return c if a = c b up to TOLERANCE, else None."""
    c = float(np.vdot(a, b) / max(np.vdot(b, b), 1e-300))
    largest = max(np.abs(a).max(initial=0), 1e-300)
    return c if np.abs(a - c * b).max(initial=0) <= TOLERANCE * largest else None


def _why(factor, sizes):
    """Explain a factor by the sizes: a wrong variance, a missing scale, a sum in place of a mean."""
    for n in sorted(sizes - {0, 1}):
        for value, sentence in (
            (
                math.sqrt((n - 1) / n),
                f"That is sqrt((n-1)/n) for n = {n}: the variance was divided by n - 1 (ddof=1), where a "
                "normalisation divides by n (ddof=0).",
            ),
            (
                math.sqrt(n / (n - 1)),
                f"That is sqrt(n/(n-1)) for n = {n}: the variance was divided by n instead of n - 1.",
            ),
            (math.sqrt(n), f"That is sqrt({n}): a scale by 1/sqrt({n}) is missing."),
            (n, f"That is {n}: a sum over {n} elements stands where their mean should."),
            (1 / n, f"That is 1/{n}: a mean over {n} elements stands where their sum should."),
        ):
            if abs(factor / value - 1) < TOLERANCE:
                return sentence
    return "Look for a factor that is missing or superfluous."
