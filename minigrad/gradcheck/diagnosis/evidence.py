"""Evidence: a wrong gradient, the right one, and the arrays it was computed from.

The hypotheses about it are in numbers.py, structure.py, rerun.py and terms.py.
"""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from minigrad.gradcheck.numeric import FLOOR, TOLERANCE
from minigrad.gradcheck.results import Diagnosis

HYPOTHESES = []  # in the order in which they are tried


@dataclass(frozen=True)
class Hypothesis:
    """A possible mistake: test(evidence) returns a sentence if every entry fits it, else None."""

    name: str
    test: object
    last_resort: bool = False  # tried only if nothing else fits


def hypothesis(name, last_resort=False):
    """Decorator: append a hypothesis, a function that takes the Evidence and returns a sentence or None."""

    def add(test):
        HYPOTHESES.append(Hypothesis(name, test, last_resort))
        return test

    return add


def diagnose(evidence, most=2):
    """Return at most `most` Diagnoses that fit all entries, likeliest first, each of a different name."""
    found = {}
    with np.errstate(all="ignore"):  # hypotheses divide by zero freely
        for h in HYPOTHESES:
            if h.name in found or h.last_resort and found or evidence.close and h.name != "dtype":
                continue
            sentence = h.test(evidence)
            if sentence:
                found[h.name] = Diagnosis(h.name, sentence, evidence)
            if len(found) == most:
                break
    return list(found.values())


@dataclass
class Evidence:
    """One input's gradient from backward (`raw`), the right one (`numeric`), and what may explain the error.

    x         the input
    g, y      the incoming gradients and the outputs
    args      all arguments of the function
    position  the position of x among them; None if x is a parameter
    jacobian  the outputs' Jacobian with respect to x, if it is small
    kinks     the entries at which the slope jumps
    siblings  the Evidence of all inputs, including this one
    forward   forward(args) -> y: run forward with other arguments
    call      call(g, y, args) -> raw: run backward with other arguments
    others    [(position, function that calls the rule of that argument)], if each argument has its own rule
    """

    name: str
    raw: object
    numeric: np.ndarray
    x: np.ndarray
    g: list = field(default_factory=list)
    y: list = field(default_factory=list)
    args: tuple = ()
    position: int | None = None
    jacobian: np.ndarray | None = None
    kinks: np.ndarray | None = None
    siblings: list = field(default_factory=list)
    forward: object = None
    call: object = None
    others: list = field(default_factory=list)
    failure: Exception | None = None  # the error that backward raised
    words: tuple = ("input", "backward")  # the words for an argument and for what computes its gradient

    @cached_property
    def a(self):
        """The gradient that backward gave, if it has the input's shape and is finite; else None."""
        fits = (
            isinstance(self.raw, np.ndarray)
            and self.raw.shape == self.x.shape
            and self.raw.dtype.kind in "fiub"
        )
        return self.raw.astype(np.float64) if fits and np.isfinite(self.raw).all() else None

    @property
    def n(self):
        return self.numeric

    @cached_property
    def scale(self):
        return max(
            FLOOR, np.abs(self.n).max(initial=0), 0 if self.a is None else np.abs(self.a).max(initial=0)
        )

    @cached_property
    def tolerance(self):
        """The largest error a hypothesis may have: rounding, and at most 2 % of the gradient's own error."""
        error = np.inf if self.a is None else np.abs(self.a - self.n).max(initial=0)
        return min(TOLERANCE * self.scale, 0.02 * error)

    @cached_property
    def close(self):
        """True if all entries are right: then only their precision can be wrong."""
        return self.a is not None and bool(np.abs(self.a - self.n).max(initial=0) <= TOLERANCE * self.scale)

    @cached_property
    def wrong(self):
        """The wrong entries, as a boolean array."""
        return np.abs(self.a - self.n) > min(
            TOLERANCE * self.scale, 0.01 * np.abs(self.a - self.n).max(initial=0)
        )

    @cached_property
    def difference(self):
        return self.a - self.n

    def is_given(self, candidate):
        """True if `candidate` equals the gradient that backward gave, in every entry."""
        return self.a is not None and self._close(candidate, self.a)

    def is_difference(self, candidate):
        """True if `candidate` equals the gradient that backward gave, minus the right one."""
        return self.a is not None and self._close(candidate, self.difference)

    def is_right(self, candidate):
        """True if `candidate` equals the right gradient."""
        return candidate is not None and self._close(np.asarray(candidate, float), self.n)

    def _close(self, candidate, array):
        candidate = np.asarray(candidate)
        return candidate.shape == array.shape and bool(
            np.abs(candidate - array).max(initial=0) <= self.tolerance
        )

    @property
    def me(self):
        """The name of x in a sentence."""
        return f"{self.words[0]} {self.position}" if self.position is not None else self.name

    @property
    def backward(self):
        """The name, in a sentence, of the function that computed the gradient."""
        return self.words[1]

    def called(self, position):
        return f"{self.words[0]} {position}"

    @cached_property
    def one_g(self):
        """The incoming gradient, if there is exactly one output; else None."""
        return self.g[0] if len(self.g) == 1 else None

    @cached_property
    def one_y(self):
        return self.y[0] if len(self.y) == 1 else None

    def beside_x(self, array):
        """List the ways to align `array` with x: broadcast, or with the axes that a reduction removed."""
        if array is None or getattr(array, "dtype", np.dtype("O")).kind not in "fiub":
            return []
        return [
            np.broadcast_to(array.reshape(shape), self.x.shape)
            for shape in _aligned_shapes(array.shape, self.x.shape)
        ]

    @cached_property
    def floats(self):
        """(name, array) of the other arguments that are floats or arrays of floats."""
        others = [
            (i, np.asarray(arg))
            for i, arg in enumerate(self.args)
            if i != self.position and isinstance(arg, (np.ndarray, float))
        ]
        return [(self.called(i), array.astype(float)) for i, array in others if array.dtype.kind == "f"]

    @cached_property
    def axes(self):
        """The tuples of axes that a normalisation may have reduced, each over at least 3 elements."""
        d, shape = self.x.ndim, self.x.shape
        every = [(i,) for i in reversed(range(d))] + [tuple(range(i, d)) for i in range(d - 2, -1, -1)]
        return [axes for axes in every if np.prod([shape[i] for i in axes]) >= 3]


def _aligned_shapes(shape, wanted):
    """Yield the shapes to which an array of `shape` can be reshaped so that it broadcasts to `wanted`."""
    if len(shape) <= len(wanted) and all(
        n in (1, w) for n, w in zip(shape[::-1], wanted[::-1], strict=False)
    ):
        yield shape
    missing = len(wanted) - len(shape)
    for start in range(len(wanted) - missing, -1, -1) if missing > 0 else ():
        rest = wanted[:start] + wanted[start + missing :]
        if rest == shape:
            yield wanted[:start] + (1,) * missing + wanted[start + missing :]


def sum_to(gradient, shape):
    """Sum `gradient` over the axes along which broadcasting stretched an array of `shape`.

    Returns None if an array of `shape` does not broadcast to the gradient's shape.
    """
    extra = gradient.ndim - len(shape)
    if extra < 0 or any(n not in (1, m) for n, m in zip(shape, gradient.shape[extra:], strict=True)):
        return None
    stretched = tuple(i + extra for i, n in enumerate(shape) if n == 1 and gradient.shape[i + extra] != 1)
    return gradient.sum(axis=tuple(range(extra)) + stretched, keepdims=True).reshape(shape)
