"""Measure slopes by finite differences, and the relative error between two gradients; plain NumPy only."""

from dataclasses import dataclass

import numpy as np

EPS = 1e-5
FLOOR = 1e-3  # the least denominator of a relative error
TOLERANCE = 1e-6
KINK = 1e-2  # a slope that jumps by more than this fraction within 2 eps is a kink, not a curve
# at a kink, values between the one-sided slopes are accepted, extended by this: the slopes are exact to about
# eps
SLACK = 1e-3
LARGEST_JACOBIAN = 200_000  # entries


def relative_error(analytic, numeric, size=0.0):
    """max|a - n| / max(FLOOR, max|a|, max|n|), the definition of relative error throughout minigrad.

    size    the norm of the whole gradient, if a and n are only its component along a direction
    """
    analytic, numeric = np.asarray(analytic), np.asarray(numeric)
    if not analytic.size:
        return 0.0
    if not (np.isfinite(analytic).all() and np.isfinite(numeric).all()):
        return float("inf")
    largest = max(FLOOR, size, np.abs(analytic).max(), np.abs(numeric).max())
    return float(np.abs(analytic - numeric).max() / largest)


@dataclass
class Slopes:
    """The slopes of sum(seed * values), measured by moving the entries of an array one at a time."""

    gradient: np.ndarray
    below: np.ndarray  # the slope of the left side
    above: np.ndarray  # the slope of the right side
    jacobian: np.ndarray | None  # the slope of each value (values, entries); None if that would be large
    # the slope when all entries at kinks move together; None if there are no kinks or it has a kink too
    together: float | None = None

    @property
    def kinks(self):
        """The entries at which the slope jumps, as a boolean array."""
        return find_kinks(self.below, self.above)

    def allowed(self, analytic):
        """Return the values to compare `analytic` with: the slopes, and at kinks the nearest accepted value.

        At a kink, any value between the slopes of the two sides is accepted. Tied entries (several equal
        maxima) may divide their gradient in any proportion, but its total must be right.
        """
        kinks = self.kinks
        if not kinks.any():
            return self.gradient
        low, high = np.minimum(self.below, self.above), np.maximum(self.below, self.above)
        slack = SLACK * np.maximum(1, np.abs(self.gradient))
        between = np.clip(analytic, low - slack, high + slack)
        if self.together is not None:
            excess = analytic[kinks].sum() - self.together
            if abs(excess) > TOLERANCE * max(FLOOR, abs(self.together)):
                between = analytic - excess / kinks.sum()
        return np.where(kinks, between, self.gradient)


def find_kinks(below, above):
    return np.abs(above - below) > KINK * np.maximum(1.0, np.abs(above + below) / 2)


def slopes(x, values, seed, eps=EPS):
    """Measure the Slopes by moving each entry of the array x up and down, in place.

    values() evaluates the function at the current x. Returns a flat array.
    """
    middle, jacobian = values(), None
    gradient, below, above = (np.zeros(x.shape) for _ in range(3))
    if x.size * middle.size <= LARGEST_JACOBIAN:
        jacobian = np.zeros((middle.size, x.size))
    with np.errstate(invalid="ignore", over="ignore"):  # a value that is not finite is reported later
        for column, index in enumerate(np.ndindex(x.shape)):
            down, up = values_around(x, index, 1.0, values, eps)
            gradient[index] = seed @ (up - down) / (2 * eps)
            below[index], above[index] = seed @ (middle - down) / eps, seed @ (up - middle) / eps
            if jacobian is not None:
                jacobian[:, column] = (up - down) / (2 * eps)
        found = Slopes(gradient, below, above, jacobian)
        if found.kinks.any():
            found.together = _together(x, found.kinks, values, seed, eps)
    return found


def _together(x, kinks, values, seed, eps):
    """Measure the slope when all entries at kinks move together; None if that slope has a kink too."""
    down, up = values_around(x, kinks, 1.0, values, eps)
    below, above = seed @ (values() - down) / eps, seed @ (up - values()) / eps
    return None if find_kinks(below, above) else seed @ (up - down) / (2 * eps)


def slope_along(x, direction, values, seed, eps=EPS):
    """Measure the slope when the whole array moves along a direction: two evaluations for any size."""
    down, up = values_around(x, ..., direction, values, eps)
    with np.errstate(invalid="ignore", over="ignore"):
        return float(seed @ (up - down) / (2 * eps))


def values_around(x, where, direction, values, eps):
    """Evaluate values() one step below and one step above. Restores x, also after an error."""
    original = np.array(x[where])
    try:
        x[where] = original - eps * direction
        down = values()
        x[where] = original + eps * direction
        return down, values()
    finally:
        x[where] = original


def flat(arrays):
    """Concatenate several arrays into one flat array that shares no memory with them."""
    return np.concatenate([np.zeros(0), *(np.ravel(a) for a in arrays)])
