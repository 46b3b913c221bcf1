"""Is a gradient right? Compares what backward gives with finite differences, in float64, and says where they differ.

Knows functions of tensors, and that a derivative is a quotient of small differences; nothing of rules. `python -m
minigrad.gradcheck` runs it over everything minigrad and models offer.
"""

from dataclasses import dataclass

import numpy as np

from minigrad import random
from minigrad._tensor import Tensor, as_tensor, grad
from minigrad.modes import enable_grad

FLOOR = 1e-3  # a tensor whose largest gradient is below this is compared absolutely, in units of this
TOLERANCE = 1e-6
KINK = 1e-2  # a slope that jumps by more than this share within 2 eps is a kink, not a curve


class GradcheckError(AssertionError):
    """A gradient is wrong, or cannot be checked."""


@dataclass
class Result:
    """What was found for one input: the worst disagreement, and what was left out."""

    name: str
    error: float  # max|analytic - numeric| / max(FLOOR, largest |gradient|)
    index: tuple
    analytic: float
    numeric: float
    largest: float  # the largest gradient; near 0 the check says little
    kinks: int = 0

    @property
    def note(self):
        notes = [f"{self.kinks} kinks skipped"] * bool(self.kinks)
        return ", ".join(notes + ["zero gradient"] * (self.largest < 1e-9))

    def __str__(self):
        where = f" at index {self.index}" if self.index else ""
        return (
            f"{self.name}: backward gives {self.analytic:.8g}{where}, finite differences {self.numeric:.8g} "
            f"(relative error {self.error:.2g}, largest gradient {self.largest:.3g})"
        )


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


def gradcheck(fun, inputs=(), *, order=1, eps=1e-5, tolerance=TOLERANCE, fast=False, seed=0):
    """True if the gradients of fun(*inputs) agree with finite differences; else raises GradcheckError, naming the worst entry.

    fun     a function of Tensors that returns a Tensor or several; or a Module, whose parameters are then checked as well
    inputs  Tensors; those that require a gradient are checked, and must be float64
    order   2 checks the gradients of the gradients (with respect to the inputs and to the incoming gradient)
    fast    compare along one random direction for each tensor, instead of entry by entry: for whole models
    The incoming gradient is random (with ones, a softmax whose backward gives zeros would pass); random streams start each
    evaluation alike, so dropout keeps its mask; the inputs are left as they were.
    """
    results = check(fun, inputs, order=order, eps=eps, fast=fast, seed=seed)
    wrong = [r for r in results if not r.error <= tolerance]
    if wrong:
        worst = max(wrong, key=lambda r: r.error)
        others = f" ({len(wrong)} of {len(results)} tensors are wrong.)" if len(results) > 1 else ""
        raise GradcheckError(f"The gradient is wrong for {worst}.{others}")
    if all(r.largest < 1e-9 for r in results) and order == 1:
        raise GradcheckError(
            "The check is vacuous: every gradient is zero, so any wrong rule that gives zero would pass. "
            "Choose inputs at which the function changes."
        )
    return True


def gradgradcheck(fun, inputs=(), **settings):
    """gradcheck of the second order."""
    return gradcheck(fun, inputs, order=2, **settings)


def check(fun, inputs=(), *, order=1, eps=1e-5, fast=False, seed=0):
    """The same, as a list of Results, one for each tensor; raises only where nothing can be compared."""
    named = _differentiable(fun, inputs)
    rng = np.random.default_rng(seed)
    state = random.get_state()
    try:
        with enable_grad():
            scalar = _First(fun, inputs, rng, state)
            if order == 2:
                scalar, named = _Second(scalar, [t for _, t in named], rng), [*named, *scalar.named_seeds()]
            analytic = scalar.gradients([t for _, t in named])
            return [
                (_along_direction if fast else _entry_by_entry)(name, tensor, g, scalar, eps, rng)
                for (name, tensor), g in zip(named, analytic, strict=True)
            ]
    finally:
        random.set_state(state)


def _differentiable(fun, inputs):
    """(name, tensor) for all that is to be checked: float64 leaves that require a gradient."""
    named = [(f"input {i}", x) for i, x in enumerate(inputs) if isinstance(x, Tensor) and x.requires_grad]
    if hasattr(fun, "named_parameters"):
        named += [(name, p) for name, p in fun.named_parameters() if p.requires_grad]
    if not named:
        raise GradcheckError("There is nothing to check: no input requires a gradient. Pass tensors made with requires_grad=True.")  # fmt: skip
    for name, tensor in named:
        if tensor.dtype != np.float64:
            raise GradcheckError(
                f"{name} is {tensor.dtype}; finite differences need float64, because a step of 1e-5 drowns in float32's "
                "rounding (1e-7 of the value). Use x.double() on inputs and module.double() on models."
            )
    return named


class _First:
    """The scalar sum(seed * output), as a function of whatever stands in the inputs now.

    It is summed by NumPy, and the seeds go to `grad` as they are: a wrong rule for multiply or sum must not help to check itself.
    """

    def __init__(self, fun, inputs, rng, state):
        self.fun, self.inputs, self.state = fun, inputs, state
        self.seeds = [Tensor(rng.standard_normal(y.shape)).requires_grad_() for y in self.outputs()]

    def outputs(self):
        random.set_state(self.state)
        outputs = self.fun(*self.inputs)
        outputs = map(as_tensor, outputs if isinstance(outputs, (tuple, list)) else [outputs])
        outputs = [y for y in outputs if y.dtype.kind == "f"]
        for y in outputs:
            if y.dtype != np.float64:
                raise GradcheckError(f"The function turned float64 inputs into {y.dtype}; find where it loses precision.")
        return outputs

    def value(self):
        return _dot(self.outputs(), self.seeds)

    def named_seeds(self):
        return [(f"incoming gradient {i}", s) for i, s in enumerate(self.seeds)]

    def gradients(self, tensors):
        return _dense(_gradients(self.outputs(), self.seeds, tensors), tensors)


class _Second:
    """The scalar sum(u * gradient of the first scalar), so that its gradient is a second derivative."""

    def __init__(self, first, tensors, rng):
        self.first, self.tensors = first, tensors
        self.directions = [Tensor(rng.standard_normal(t.shape)) for t in tensors]

    def outputs(self, create_graph=False):
        gradients = _gradients(self.first.outputs(), self.first.seeds, self.tensors, create_graph)
        return [Tensor(np.zeros(t.shape)) if g is None else g for g, t in zip(gradients, self.tensors, strict=True)]

    def value(self):
        return _dot(self.outputs(), self.directions)

    def gradients(self, tensors):
        return _dense(_gradients(self.outputs(create_graph=True), self.directions, tensors), tensors)


def _dot(outputs, seeds):
    return sum(float(np.vdot(y.data, s.data)) for y, s in zip(outputs, seeds, strict=True))


def _gradients(outputs, seeds, tensors, create_graph=False):
    """grad, with None for every tensor that the outputs do not depend on."""
    pairs = [(y, s) for y, s in zip(outputs, seeds, strict=True) if y.requires_grad]
    if not pairs:
        return [None] * len(tensors)
    outputs, seeds = zip(*pairs, strict=True)
    return grad(outputs, tensors, seeds, create_graph=create_graph, allow_unused=True)


def _dense(gradients, tensors):
    """As arrays, with zeros for None."""
    return [np.zeros(t.shape) if g is None else g.data for g, t in zip(gradients, tensors, strict=True)]


def _entry_by_entry(name, tensor, analytic, scalar, eps, rng):
    """Move each entry a little up and down, and compare slopes."""
    numeric, kinks = np.zeros(tensor.shape), np.zeros(tensor.shape, bool)
    middle = scalar.value()
    for index in np.ndindex(tensor.shape):
        kept = tensor.data[index]
        try:
            tensor.data[index] = kept + eps
            up = scalar.value()
            tensor.data[index] = kept - eps
            down = scalar.value()
        finally:
            tensor.data[index] = kept
        numeric[index] = (up - down) / (2 * eps)
        kinks[index] = abs(up - 2 * middle + down) > KINK * eps * max(1.0, abs(numeric[index]))
    analytic, numeric = np.where(kinks, 0, analytic), np.where(kinks, 0, numeric)
    return _result(name, analytic, numeric, int(kinks.sum()))


def _along_direction(name, tensor, analytic, scalar, eps, rng):
    """Move the whole tensor along one random direction: two evaluations, however many entries."""
    direction = rng.standard_normal(tensor.shape)
    kept = tensor.data.copy()
    try:
        np.copyto(tensor.data, kept + eps * direction)
        up = scalar.value()
        np.copyto(tensor.data, kept - eps * direction)
        down = scalar.value()
    finally:
        np.copyto(tensor.data, kept)
    along = np.array((analytic * direction).sum())
    return _result(name, along, np.array((up - down) / (2 * eps)), size=float(np.linalg.norm(analytic)))


def _result(name, analytic, numeric, kinks=0, size=0.0):
    if not analytic.size:
        return Result(name, 0.0, (), 0.0, 0.0, 0.0, kinks)
    bad = ~(np.isfinite(analytic) & np.isfinite(numeric))
    a, n = np.where(bad, 0, analytic), np.where(bad, 0, numeric)
    index = np.unravel_index(np.argmax(np.where(bad, np.inf, np.abs(a - n))), bad.shape)
    index = tuple(int(i) for i in index)
    largest = float("inf") if bad.any() else float(np.abs([a, n]).max())
    return Result(name, relative_error(analytic, numeric, size), index, float(analytic[index]), float(numeric[index]), largest, kinks)


@dataclass
class Sample:
    """One thing to check: make(rng) gives (fun, inputs), all in float64. The layers declare theirs in samples.py beside them."""

    group: str
    name: str
    make: object
    fast: bool = False
    second: bool = True


def leaf(array):
    """A float64 tensor that requires its gradient."""
    return Tensor(np.array(array, dtype=np.float64)).requires_grad_()
