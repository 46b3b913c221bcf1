"""Slopes by finite differences, and how far two gradients are apart. Knows arrays and that functions have values.

Nothing of backward.
"""

from dataclasses import dataclass

import numpy as np

EPS = 1e-5
FLOOR = 1e-3  # a tensor whose largest gradient is below this is compared absolutely, in units of this
TOLERANCE = 1e-6
KINK = 1e-2  # a slope that jumps by more than this share within 2 eps is a kink, not a curve
# one-sided slopes are good to about eps; what lies between them, give or take this, is accepted at a kink
SLACK = 1e-3
LARGEST_JACOBIAN = 200_000  # entries


def relative_error(analytic, numeric, size=0.0):
    """max|a - n| / max(FLOOR, max|a|, max|n|): the definition used everywhere in minigrad. (`size`: of the whole gradient,
    where a and n are only its component along a direction, which may happen to be small.)"""
    analytic, numeric = np.asarray(analytic), np.asarray(numeric)
    if not analytic.size:
        return 0.0
    if not (np.isfinite(analytic).all() and np.isfinite(numeric).all()):
        return float("inf")
    largest = max(FLOOR, size, np.abs(analytic).max(), np.abs(numeric).max())
    return float(np.abs(analytic - numeric).max() / largest)


@dataclass
class Slopes:
    """What moving the entries of an array, one at a time, did to sum(seed * values)."""

    gradient: np.ndarray
    below: np.ndarray  # the slope on the left alone
    above: np.ndarray  # the slope on the right alone
    jacobian: np.ndarray | None  # (values, entries): of each value; None where that would be large
    # where there are kinks: the slope if all entries at kinks move together, if that is smooth
    together: float | None = None

    @property
    def kinks(self):
        """Where the slope jumps."""
        return bent(self.below, self.above)

    def allowed(self, analytic):
        """The numbers to hold `analytic` against: the slopes, and at a kink whatever lies between its two sides.

        Entries that are tied (two largest numbers) may share their gradient as they like, but its total must be right."""
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


def bent(below, above):
    return np.abs(above - below) > KINK * np.maximum(1.0, np.abs(above + below) / 2)


def slopes(x, values, seed, eps=EPS):
    """Move each entry of the array x up and down, in place; values() is what the function then gives, as a flat array."""
    middle, jacobian = values(), None
    gradient, below, above = (np.zeros(x.shape) for _ in range(3))
    if x.size * middle.size <= LARGEST_JACOBIAN:
        jacobian = np.zeros((middle.size, x.size))
    with np.errstate(invalid="ignore", over="ignore"):  # what is not finite is reported, not warned of
        for column, index in enumerate(np.ndindex(x.shape)):
            down, up = around(x, index, 1.0, values, eps)
            gradient[index] = seed @ (up - down) / (2 * eps)
            below[index], above[index] = seed @ (middle - down) / eps, seed @ (up - middle) / eps
            if jacobian is not None:
                jacobian[:, column] = (up - down) / (2 * eps)
        found = Slopes(gradient, below, above, jacobian)
        if found.kinks.any():
            found.together = _together(x, found.kinks, values, seed, eps)
    return found


def _together(x, kinks, values, seed, eps):
    """The slope if all entries at kinks move alike; None if that bends too."""
    down, up = around(x, kinks, 1.0, values, eps)
    below, above = seed @ (values() - down) / eps, seed @ (up - values()) / eps
    return None if bent(below, above) else seed @ (up - down) / (2 * eps)


def slope_along(x, direction, values, seed, eps=EPS):
    """The slope if the whole array moves along a direction: two evaluations, however many entries."""
    down, up = around(x, ..., direction, values, eps)
    with np.errstate(invalid="ignore", over="ignore"):
        return float(seed @ (up - down) / (2 * eps))


def around(x, where, direction, values, eps):
    """values() a step before and after; x is as it was afterwards, whatever happens."""
    kept = np.array(x[where])
    try:
        x[where] = kept - eps * direction
        down = values()
        x[where] = kept + eps * direction
        return down, values()
    finally:
        x[where] = kept


def flat(arrays):
    """Several arrays as one row of numbers, never sharing their memory."""
    return np.concatenate([np.zeros(0), *(np.ravel(a) for a in arrays)])
