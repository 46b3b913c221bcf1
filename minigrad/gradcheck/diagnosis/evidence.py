"""All entries of a wrong gradient beside the right ones, and what was in play.

Knows how to ask "is it this?"; holds no guesses itself.
"""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from minigrad.gradcheck.numeric import FLOOR, TOLERANCE
from minigrad.gradcheck.results import Diagnosis

HYPOTHESES = []  # in the order in which they are tried


@dataclass(frozen=True)
class Hypothesis:
    """A guess about what went wrong: test(evidence) gives the sentence to say if everything fits it, else None."""

    name: str
    test: object
    last_resort: bool = False  # tried only if nothing else fits


def hypothesis(name, last_resort=False):
    """Append a guess to the list: the function below takes the Evidence and returns a sentence, or None."""

    def add(test):
        HYPOTHESES.append(Hypothesis(name, test, last_resort))
        return test

    return add


def diagnose(evidence, most=2):
    """The Diagnoses that fit all entries, likeliest first; at most so many of different names."""
    found = {}
    with np.errstate(all="ignore"):  # guesses divide by zero freely
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
    """One input's gradient as backward gave it (`raw`) and as it should be (`numeric`), and what may explain the difference.

    x         the input                                   g, y       the incoming gradients and the outputs
    args      everything the function was given           position   which of them x is (None: x is a parameter)
    jacobian  of the outputs by x, where it is small      kinks      where the slope jumps
    siblings  the Evidence of all inputs, this one too    forward    forward(args) -> y again, with other arguments
    call      call(g, y, args) -> raw: backward again, with other things
    others    (position, what the rule of that argument gives, as a function), where arguments have rules of their own
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
    failure: Exception | None = None  # what backward raised instead of giving a gradient
    words: tuple = ("input", "backward")  # how an argument and its derivative are called

    @cached_property
    def a(self):
        """The gradient as given, if it has the input's shape and is finite; else None."""
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
        """How close a guess must come: rounding, and far closer than the right gradient is."""
        apart = np.inf if self.a is None else np.abs(self.a - self.n).max(initial=0)
        return min(TOLERANCE * self.scale, 0.02 * apart)

    @cached_property
    def close(self):
        """Are all the numbers right? Then only their precision can be wrong."""
        return self.a is not None and bool(np.abs(self.a - self.n).max(initial=0) <= TOLERANCE * self.scale)

    @cached_property
    def wrong(self):
        """Which entries are wrong."""
        return np.abs(self.a - self.n) > min(
            TOLERANCE * self.scale, 0.01 * np.abs(self.a - self.n).max(initial=0)
        )

    @cached_property
    def difference(self):
        return self.a - self.n

    def is_given(self, candidate):
        """Is `candidate` what backward gave, in every entry?"""
        return self.a is not None and self._close(candidate, self.a)

    def is_difference(self, candidate):
        """Is `candidate` what backward gave minus what it should have given?"""
        return self.a is not None and self._close(candidate, self.difference)

    def is_right(self, candidate):
        """Is `candidate` what backward should have given?"""
        return candidate is not None and self._close(np.asarray(candidate, float), self.n)

    def _close(self, candidate, array):
        candidate = np.asarray(candidate)
        return candidate.shape == array.shape and bool(
            np.abs(candidate - array).max(initial=0) <= self.tolerance
        )

    @property
    def me(self):
        return f"{self.words[0]} {self.position}" if self.position is not None else self.name

    @property
    def backward(self):
        """What gave the gradient, as a sentence names it."""
        return self.words[1]

    def called(self, position):
        return f"{self.words[0]} {position}"

    @cached_property
    def one_g(self):
        """The incoming gradient, if there is one output; else None."""
        return self.g[0] if len(self.g) == 1 else None

    @cached_property
    def one_y(self):
        return self.y[0] if len(self.y) == 1 else None

    def beside_x(self, array):
        """The ways in which `array` lines up with x: as it is, broadcast, or with axes of one where a reduction took them."""
        if array is None or getattr(array, "dtype", np.dtype("O")).kind not in "fiub":
            return []
        return [
            np.broadcast_to(array.reshape(shape), self.x.shape)
            for shape in _lined_up(array.shape, self.x.shape)
        ]

    @cached_property
    def floats(self):
        """(name, array) of the other arguments that are arrays of numbers."""
        return [
            (self.called(i), np.asarray(arg, float)) for i, arg in enumerate(self.args)
            if i != self.position and isinstance(arg, (np.ndarray, float)) and np.asarray(arg).dtype.kind == "f"
        ]  # fmt: skip

    @cached_property
    def axes(self):
        """The tuples of axes along which a normalisation may have run, each long enough to say something."""
        d, shape = self.x.ndim, self.x.shape
        every = [(i,) for i in reversed(range(d))] + [tuple(range(i, d)) for i in range(d - 2, -1, -1)]
        return [axes for axes in every if np.prod([shape[i] for i in axes]) >= 3]


def _lined_up(shape, wanted):
    """The shapes that an array of `shape` may be given so that it broadcasts to `wanted`."""
    if len(shape) <= len(wanted) and all(
        n in (1, w) for n, w in zip(shape[::-1], wanted[::-1], strict=False)
    ):
        yield shape
    missing = len(wanted) - len(shape)
    for start in range(len(wanted) - missing, -1, -1) if missing > 0 else ():
        rest = wanted[:start] + wanted[start + missing :]
        if rest == shape:
            yield wanted[:start] + (1,) * missing + wanted[start + missing :]


def summed_to(gradient, shape):
    """`gradient` summed over the axes along which an array of `shape` had been stretched to its shape.

    None if that is not so.
    """
    extra = gradient.ndim - len(shape)
    if extra < 0 or any(n not in (1, m) for n, m in zip(shape, gradient.shape[extra:], strict=True)):
        return None
    stretched = tuple(i + extra for i, n in enumerate(shape) if n == 1 and gradient.shape[i + extra] != 1)
    return gradient.sum(axis=tuple(range(extra)) + stretched, keepdims=True).reshape(shape)
