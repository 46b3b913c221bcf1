"""Compare gradients with finite differences, for functions of Tensors and for Modules."""

import numpy as np

from minigrad import random
from minigrad.engine.backward import grad
from minigrad.engine.recording import as_tensor
from minigrad.engine.tensor import Tensor
from minigrad.gradcheck.diagnosis.evidence import Evidence
from minigrad.gradcheck.judging import BackwardFailed, imprecise, judge, misfit
from minigrad.gradcheck.numeric import EPS, TOLERANCE, flat, slope_along, slopes
from minigrad.gradcheck.results import GradcheckError, Report, Result, compare
from minigrad.modes import enable_grad


def check_function(fun, inputs=(), *, order=1, eps=EPS, fast=False, seed=0, tolerance=TOLERANCE):
    """Check a function of Tensors or a Module. Takes the arguments of gradcheck and returns a Report.

    Raises GradcheckError if nothing can be compared.
    """
    named = _tensors_to_check(fun, inputs)
    rng = np.random.default_rng(seed)
    state = random.get_state()
    try:
        with enable_grad():
            scalar = _First(fun, inputs, rng, state)
            if order == 2:
                scalar, named = _Second(scalar, [t for _, t in named], rng), [*named, *scalar.named_seeds()]
            found = _backward(scalar, [t for _, t in named])
            evidence = [Evidence(name, g, None, t.data) for (name, t), g in zip(named, found, strict=True)]
            results = [(_along_direction if fast else _entry_by_entry)(e, scalar, eps, rng) for e in evidence]
    finally:
        random.set_state(state)
    for e in evidence:
        # copied, so that the Evidence shares no memory with the caller
        e.siblings, e.g, e.y = evidence, scalar.arrays(scalar.seeds), scalar.arrays(scalar.now)
        e.args = tuple(x.data.copy() if isinstance(x, Tensor) else x for x in inputs)
        e.position = next((i for i, x in enumerate(inputs) if isinstance(x, Tensor) and x.data is e.x), None)
        e.x = e.x.copy()
    return Report(results, tolerance)


def _tensors_to_check(fun, inputs):
    """List (name, tensor) of the inputs and parameters that require a gradient.

    Raises GradcheckError if there are none, or if one is not float64.
    """
    named = [(f"input {i}", x) for i, x in enumerate(inputs) if isinstance(x, Tensor) and x.requires_grad]
    if hasattr(fun, "named_parameters"):
        named += [(name, p) for name, p in fun.named_parameters() if p.requires_grad]
    if not named:
        raise GradcheckError(
            "There is nothing to check: no input requires a gradient. Pass tensors with requires_grad=True."
        )
    for name, tensor in named:
        if tensor.dtype != np.float64:
            raise GradcheckError(
                f"{name} is {tensor.dtype}; finite differences need float64, because a step of 1e-5 drowns "
                "in float32's rounding (1e-7 of the value). Use x.double() on inputs and module.double() on "
                "models."
            )
    return named


# ---------------------------------------------------------------- the scalar whose slopes are compared


class _Scalar:
    """sum(seed * output), a function of the current values of the inputs.

    NumPy computes the sum, and `grad` gets the seeds themselves: a wrong rule for multiply or sum must not
    take part in its own check.
    """

    def values(self):
        return flat(y.data for y in self.outputs())

    def seed(self):
        return flat(s.data for s in self.seeds)

    @staticmethod
    def arrays(tensors):
        return [t.data.copy() for t in tensors]


class _First(_Scalar):
    """The scalar of the function's own outputs, for the first order."""

    def __init__(self, fun, inputs, rng, state):
        self.fun, self.inputs, self.state = fun, inputs, state
        self.now = self.outputs()
        self.seeds = [Tensor(rng.standard_normal(y.shape)).requires_grad_() for y in self.now]

    def outputs(self):
        random.set_state(self.state)
        outputs = self.fun(*self.inputs)
        outputs = map(as_tensor, outputs if isinstance(outputs, (tuple, list)) else [outputs])
        outputs = [y for y in outputs if y.dtype.kind == "f"]
        for y in outputs:
            if y.dtype != np.float64:
                raise GradcheckError(
                    f"The function converted float64 inputs to {y.dtype}; find where it loses precision."
                )
        return outputs

    def named_seeds(self):
        return [(f"incoming gradient {i}", s) for i, s in enumerate(self.seeds)]

    def gradients(self, tensors):
        outputs = self.outputs()
        if not np.array_equal(flat(y.data for y in outputs), flat(y.data for y in self.now), equal_nan=True):
            raise GradcheckError(
                "The function gives different values for the same inputs, so its slope cannot be measured. "
                "If it draws random numbers, draw them from minigrad's streams (which are reset before each "
                "evaluation), or pass them in."
            )
        return _arrays(_gradients(outputs, self.seeds, tensors), tensors)


class _Second(_Scalar):
    """The scalar of the first scalar's gradients: its own gradient is a second derivative."""

    def __init__(self, first, tensors, rng):
        self.first, self.tensors = first, tensors
        self.seeds = [Tensor(rng.standard_normal(t.shape)) for t in tensors]
        self.now = []

    def outputs(self, create_graph=False):
        gradients = _gradients(self.first.outputs(), self.first.seeds, self.tensors, create_graph)
        return [
            Tensor(np.zeros(t.shape)) if g is None else g
            for g, t in zip(gradients, self.tensors, strict=True)
        ]

    def named_seeds(self):
        return self.first.named_seeds()

    def gradients(self, tensors):
        return _arrays(_gradients(self.outputs(create_graph=True), self.seeds, tensors), tensors)


def _gradients(outputs, seeds, tensors, create_graph=False):
    """Call grad. Returns None for each tensor that no output depends on."""
    pairs = [(y, s) for y, s in zip(outputs, seeds, strict=True) if y.requires_grad]
    if not pairs:
        return [None] * len(tensors)
    outputs, seeds = zip(*pairs, strict=True)
    return grad(outputs, tensors, seeds, create_graph=create_graph, allow_unused=True)


def _arrays(gradients, tensors):
    """Convert gradients to arrays, None to zeros."""
    return [np.zeros(t.shape) if g is None else g.data for g, t in zip(gradients, tensors, strict=True)]


def _backward(scalar, tensors):
    """Compute the gradients. Raises BackwardFailed if a rule raises an error."""
    try:
        return scalar.gradients(tensors)
    except GradcheckError:
        raise
    except (AssertionError, ValueError, TypeError, IndexError, AttributeError, ArithmeticError) as error:
        raise BackwardFailed(
            f"The gradient cannot be computed, backward failed: {type(error).__name__}: {error}"
        ) from error


# ---------------------------------------------------------------- one tensor


def _entry_by_entry(evidence, scalar, eps, rng):
    """Move each entry up and down by eps, and compare the slopes."""
    found = slopes(evidence.x, scalar.values, scalar.seed(), eps)
    return judge(evidence, found)


def _along_direction(evidence, scalar, eps, rng):
    """Move the whole tensor along one random direction: two evaluations for any number of entries."""
    direction, raw = rng.standard_normal(evidence.x.shape), evidence.raw
    slope = np.array(slope_along(evidence.x, direction, scalar.values, scalar.seed(), eps))
    problem = misfit(raw, evidence.x.shape) or imprecise(raw)
    if problem:
        return Result(
            evidence.name, float("inf"), (), np.nan, float(slope), abs(float(slope)), problem=problem
        )
    return compare(evidence.name, np.array((raw * direction).sum()), slope, size=float(np.linalg.norm(raw)))
