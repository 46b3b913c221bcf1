"""Hypotheses about a wrong gradient that need only its entries: shape, dtype, sign, factor, offset.

A hypothesis is a function of the Evidence that returns a sentence (the probable mistake and its remedy), or
None. If several fit, the one defined first counts as likelier. To add one, write it below. Hypotheses that
need more are in structure.py (Jacobians, normalisations), rerun.py (call backward with changed arguments) and
terms.py (missing terms).
"""

import numpy as np

from minigrad.gradcheck.diagnosis.evidence import hypothesis, sum_to
from minigrad.gradcheck.diagnosis.factors import causes, spell

# ---------------------------------------------------------------- not even a gradient


@hypothesis("nothing")
def gave_nothing(e):
    if e.raw is None and e.failure is None:
        return f"{e.backward} gives no gradient for {e.me} (None), though the output depends on it."


@hypothesis("transposed")
def transposed_shape(e):
    if _misshapen(e) and e.raw.ndim > 1 and e.is_right(e.raw.swapaxes(-1, -2)):
        return (
            f"the gradient is right but transposed: {e.raw.shape} for {e.me}, which is {e.x.shape}. Return "
            "its .T (or swap the two factors of the product)."
        )


@hypothesis("missing sum")
def not_summed(e):
    summed = sum_to(e.raw, e.x.shape) if _misshapen(e) else None
    if e.is_right(summed):
        return (
            f"{e.me} has the shape {e.x.shape} and its gradient {e.raw.shape}: broadcasting stretched it "
            "(over the batch, say), so each of its elements was used several times, and the gradients of "
            "all uses add up: add .sum(axis=...), e.g. g.sum(0) for a bias."
        )


@hypothesis("swapped")
def swapped_shape(e):
    for other in e.siblings:
        if (
            other is not e
            and _misshapen(e)
            and e.raw.shape == other.n.shape
            and np.abs(e.raw - other.n).max(initial=0) <= 1e-6 * max(other.scale, 1e-3)
        ):
            return (
                f"the gradient returned for {e.me} is the gradient of {other.me}: return the gradients in "
                "the order of the arguments."
            )


@hypothesis("shape")
def reshaped(e):
    if _misshapen(e) and e.raw.size == e.x.size and e.is_right(e.raw.reshape(e.x.shape)):
        return (
            f"the numbers are right, the shape is not: {e.raw.shape} where {e.me} has {e.x.shape}. Return "
            "dx.reshape(x.shape)."
        )


def _misshapen(e):
    return isinstance(e.raw, np.ndarray) and e.raw.shape != e.x.shape and e.raw.dtype.kind in "fiu"


# ---------------------------------------------------------------- dtype


def only_float32(array):
    """Can float32 represent every element of a float64 array exactly? (Almost no random number qualifies.)"""
    # smaller numbers are the rounding error of a zero, and may be powers of two
    numbers = array[np.abs(array) > 1e-9]
    return bool(numbers.size) and bool((numbers == numbers.astype(np.float32)).all())


@hypothesis("dtype")
def float32_between(e):
    remedy = (
        "Look for float32 in between: a cast, a mask or scale that is not float64, np.float32, .astype; "
        "keep the input's dtype throughout."
    )
    if isinstance(e.raw, np.ndarray) and e.raw.dtype.kind != "f":
        return (
            f"the gradient is of dtype {e.raw.dtype}, which cannot hold one: make it with np.zeros_like(x) "
            "of a float x, or with g's dtype."
        )
    if isinstance(e.raw, np.ndarray) and only_float32(e.raw):
        return (
            f"all values of {e.backward} have only the precision of float32, though the inputs are "
            f"float64. {remedy}"
        )
    if (
        e.y
        and all(only_float32(y) for y in e.y)
        and not only_float32(e.x)
        and not (e.jacobian is not None and (e.jacobian == np.rint(e.jacobian)).all())
    ):
        return (
            f"all values of forward have only the precision of float32: their differences are noise. {remedy}"
        )


# ---------------------------------------------------------------- only where the slope jumps


@hypothesis("ties")
def only_at_kinks(e):
    if e.a is not None and e.kinks is not None and e.kinks.any() and e.wrong.any() and e.kinks[e.wrong].all():
        return (
            f"it is right except at {int(e.wrong.sum())} ties or kinks: k equal maxima divide one gradient "
            "among them (1/k each, a total of 1), and at a kink the gradient must lie between the slopes of "
            "the two sides."
        )


# ---------------------------------------------------------------- the same everywhere


@hypothesis("zero")
def zero(e):
    if e.a is not None and not e.a.any():
        return (
            f"{e.backward} gives 0 everywhere, though the output depends on {e.me}: the path is cut (detach, "
            "a bare number, a plain copy), or the gradient was never written into the returned array."
        )


@hypothesis("sign")
def sign(e):
    if e.is_given(-e.n):
        return (
            "every entry has the wrong sign: a minus is missing, or there is one too many (the derivative "
            "of -x, of 1/x, of x - y with respect to y, of cos)."
        )


@hypothesis("factor")
def constant_factor(e):
    if e.a is None or not e.n.any():
        return None
    ratio = float(np.vdot(e.a, e.n) / np.vdot(e.n, e.n))
    if not ratio or abs(ratio - 1) < 1e-9 or not e.is_given(ratio * e.n):
        return None
    why = causes(abs(ratio), e)
    if np.count_nonzero(e.n) < 2 and not why:
        return None  # one number is always some multiple of another
    minus = " The sign is wrong as well." * (ratio < 0)
    why = " Or: ".join(why) or "Look for a factor that forward has and backward does not, or the reverse."
    return f"every entry is {spell(ratio)} times what it should be.{minus} {why}"


@hypothesis("transposed")
def transposed(e):
    if e.a is None or e.a.ndim < 2:
        return None
    for i in range(e.a.ndim):
        for j in range(i):
            if e.a.shape[i] == e.a.shape[j] and e.is_given(e.n.swapaxes(i, j)):
                return (
                    f"the gradient is right but transposed (axes {j} and {i} exchanged), which the square "
                    f"shape {e.x.shape} hides: return its .T or .swapaxes. Test with shapes that are not "
                    "square."
                )


@hypothesis("half of two")
def without_its_transpose(e):
    if (
        e.a is not None
        and e.a.ndim > 1
        and e.a.shape[-1] == e.a.shape[-2]
        and e.is_difference(-e.a.swapaxes(-1, -2))
    ):
        return (
            f"the transpose of the gradient that {e.backward} gives is missing: the matrix is used twice (as "
            "in x @ x.T), and both gradients add up: dx + dx.T."
        )


@hypothesis("offset")
def constant_offset(e):
    if e.a is not None and e.a.size > 1 and e.is_difference(np.full(e.x.shape, e.difference.mean())):
        return (
            f"every entry is off by the same amount, {e.difference.mean():.6g}: a term is added that does "
            "not belong there (an eps, a penalty, a constant)."
        )


@hypothesis("swapped")
def swapped_gradients(e):
    for other in e.siblings:
        if other is not e and e.is_given(other.n):
            both = other.is_given(e.n)
            return (
                f"the gradient returned for {e.me} is the gradient of "
                f"{other.me}{' and the other way round' * both}: return the gradients in the order of the "
                "arguments, and check that each rule reads the right one."
            )


# ---------------------------------------------------------------- each use of an input counts


@hypothesis("accumulation")
def skip_forgotten(e):
    if any(e.is_difference(-g) for g in e.beside_x(e.one_g)):
        return (
            f"the incoming gradient itself is missing: {e.me} also reaches the output directly (a residual: "
            "y = x + f(x), or a + 1 in the derivative), and the gradients of all its uses add up: dx = g + "
            "(the gradient through f)."
        )


# ---------------------------------------------------------------- right in some places


@hypothesis("repeated index")
def overwritten(e):
    if e.a is None or not e.wrong.any():
        return None
    for index in _indices(e):
        counts = _counts(index, e.x.shape)
        if counts is not None and (counts[e.wrong] > 1).all() and ((counts > 1) & (e.n != 0)).any():
            return (
                "it is right at positions that the index names once, and wrong at positions that it names "
                f"several times (at most {int(counts.max())}): their gradients must be added. dx[index] = g "
                "and dx[index] += g keep only the last; write np.add.at(dx, index, g)."
            )


def _indices(e):
    """Yield the arguments that may be an index into x."""
    for arg in e.args:
        whole = isinstance(arg, (list, tuple)) and any(isinstance(a, (list, np.ndarray)) for a in arg)
        if whole or isinstance(arg, np.ndarray) and arg.dtype.kind in "iu" or isinstance(arg, list):
            yield arg


def _counts(index, shape):
    """Count how often an index names each position of an array; None if it cannot index such an array."""
    counts = np.zeros(shape)
    try:
        np.add.at(counts, index, 1)
    except (IndexError, ValueError, TypeError):
        return None
    return counts


@hypothesis("target entry")
def wrong_at_targets(e):
    if e.a is None or e.x.ndim < 1 or not e.wrong.any():
        return None
    for arg in e.args:
        if (
            isinstance(arg, np.ndarray)
            and arg.dtype.kind in "iu"
            and arg.shape == e.x.shape[:-1]
            and e.x.shape[-1] > 2
        ):
            here = np.zeros(e.x.shape, bool)
            np.put_along_axis(here, np.where((arg >= 0) & (arg < e.x.shape[-1]), arg, 0)[..., None], True, -1)
            if not e.wrong[~here].any():
                return (
                    "it is wrong only at the target's entry of each row: the term of the right class is "
                    "missing or wrong. For cross-entropy the gradient is softmax - onehot: p[arange(N), "
                    "target] -= 1."
                )
