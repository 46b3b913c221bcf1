"""gradcheck_pair: is a learner's own backward right? For a forward and a backward in plain NumPy.

Knows no tensors and no graph.
"""

import inspect

import numpy as np

from minigrad.engine.tensor import Tensor
from minigrad.gradcheck.diagnosis.evidence import Evidence
from minigrad.gradcheck.diagnosis.reasons import explanations
from minigrad.gradcheck.judging import VACUOUS, BackwardFailed, judged
from minigrad.gradcheck.numeric import EPS, TOLERANCE, flat, slopes
from minigrad.gradcheck.results import GradcheckError, Report, explained


def gradcheck_pair(forward, backward, inputs, *, eps=EPS, tolerance=TOLERANCE, seed=0):
    """True if `backward` is the gradient of `forward`.

    Else raises GradcheckError, which says where not, and what probably went wrong.

    forward   forward(*inputs) -> y, an array; or (y, saved), where saved is whatever backward wants to have
    backward  g is the gradient of a loss with respect to y. It is called as backward(g, *inputs), or backward(g, y, *inputs)
              if it takes one more; after a forward that returns (y, saved) as backward(g, saved), or backward(g, saved,
              *inputs). It returns one gradient for each float array among the inputs, in their order, each in the shape of
              its input: one array, or a tuple. None may stand in the places of all other inputs.
    inputs    float64 arrays (or tensors) are checked; whole numbers, booleans and Python numbers are passed on as they are
              (indices, targets, masks, a dropout rate). A function that draws random numbers must be given them: pass the mask.
    """
    try:
        report = check_pair(forward, backward, inputs, eps=eps, seed=seed, tolerance=tolerance)
    except PairFailed as failure:
        diagnoses = explanations(failure.evidence)
        raise GradcheckError(explained(str(failure), diagnoses), None, diagnoses) from failure.__cause__
    if report.wrong:
        diagnoses = explanations([r.evidence for r in _worst_first(report)])
        raise GradcheckError(explained(report.sentence(), diagnoses), report, diagnoses)
    if report.vacuous:
        constant = not any(r.evidence.jacobian is not None and r.evidence.jacobian.any() for r in report)
        raise GradcheckError(
            VACUOUS.format(because=" (the output does not change with the inputs here)" * constant), report
        )
    return True


def check_pair(forward, backward, inputs, *, eps=EPS, seed=0, tolerance=TOLERANCE):
    """The same as a Report: a list of Results, one for each float array; raises only where nothing can be compared."""
    pair = Pair(forward, backward, inputs)
    y, saved = pair.run()
    again, _ = pair.run()
    if not np.array_equal(y, again, equal_nan=True):
        raise GradcheckError(
            "forward gives different values for the same inputs, so its slope cannot be measured: draw what is random "
            "outside and pass it in, "
            "e.g. dropout's mask."
        )
    # numbers that nobody gets who draws inputs with default_rng(0)
    g = np.random.default_rng([seed, 20]).standard_normal(y.shape)
    evidence = pair.evidence(g, y)
    measured = [slopes(pair.args[i], lambda: flat([pair.run()[0]]), g.ravel(), eps) for i in pair.places]
    try:
        raw = pair.gradients([g], [y], pair.args)
    except GradcheckError:
        raise
    except Exception as error:
        for e, found in zip(evidence, measured, strict=True):
            e.numeric, e.jacobian, e.failure = found.gradient, found.jacobian, error
        raise PairFailed(error, evidence) from error
    results = []
    for e, found, d in zip(evidence, measured, raw, strict=True):
        e.raw = d
        results.append(judged(e, found))
        results[-1].remark = _at_kinks(e, found)
    return Report(results, tolerance)


class PairFailed(BackwardFailed):
    """The learner's backward raised an error."""

    def __init__(self, error, evidence):
        super().__init__(f"backward failed: {type(error).__name__}: {error}")
        self.evidence = evidence


def _worst_first(report):
    return sorted(report.wrong, key=lambda r: (bool(r.problem), r.error), reverse=True)


def _at_kinks(e, found):
    """What backward gives where the slope jumps: worth saying, though every number between the two sides is accepted."""
    kinks = found.kinks
    if not kinks.any() or e.a is None:
        return ""
    sides = {"left": found.below[kinks], "right": found.above[kinks]}
    for side, slope in sides.items():
        if np.allclose(e.a[kinks], slope, rtol=1e-3, atol=1e-6) and slope.any():
            return f"there backward gives the slope of the {side} side; for relu and abs PyTorch and minigrad take 0 at 0"
    return ""


class Pair:
    """A forward and a backward at a point. Gives both fresh copies, and says in a sentence what does not fit."""

    def __init__(self, forward, backward, inputs):
        self.forward, self.backward = forward, backward
        inputs = inputs if isinstance(inputs, (list, tuple)) else [inputs]
        self.args = tuple(_plain(i, x) for i, x in enumerate(inputs))
        self.places = [i for i, x in enumerate(self.args) if _is_float(x)]
        self.saves = False  # does forward return (y, saved)?
        if not self.places:
            raise GradcheckError(
                "There is nothing to check: none of the inputs is an array of floats (Python numbers are settings and passed "
                "on)."
            )

    def run(self, args=None):
        """(y, saved) of forward."""
        given = _copies(self.args if args is None else args)
        out = self.forward(*given)
        self.saves = isinstance(out, tuple) and len(out) == 2
        y, saved = out if self.saves else (out, None)
        if not isinstance(y, (np.ndarray, np.generic, float)):
            raise GradcheckError(
                f"forward must return an array, or (array, saved); it returned a {type(out).__name__}."
            )
        y = np.array(y)
        if y.dtype != np.float64:
            raise GradcheckError(
                f"forward turned float64 inputs into {y.dtype}; finite differences need float64: find where it loses precision."
            )
        if args is None and any(
            not np.array_equal(a, b, equal_nan=True)
            for a, b in zip(given, self.args, strict=True)
            if _is_float(a)
        ):
            raise GradcheckError(
                "forward writes into its inputs; work on copies (x = x.copy(), or x = x + ... instead of x += ...)."
            )
        return y, saved

    def gradients(self, g, y, args):
        """What backward gives for each float array, as it gives it."""
        saved = self.run()[1] if self.saves else None
        changed = [(old, new) for old, new in zip(self.args, args, strict=True) if old is not new]
        given, incoming = _copies(args), g[0].copy()
        found = self.backward(incoming, *self._arguments(y[0].copy(), _replaced(saved, changed), given))
        if not np.array_equal(incoming, g[0]):
            raise GradcheckError(
                "backward writes into g, which belongs to others as well; start with g = g.copy(), or avoid += and -= on it."
            )
        return self._sorted(found)

    def _arguments(self, y, saved, given):
        """The further arguments of backward, by how many it takes."""
        count, n = _takes(self.backward), len(given)
        if self.saves:
            return [saved] if count == 2 else [saved, *given]
        if count is None or count == n + 1:
            return given
        if count == n + 2:
            return [y, *given]
        if count == 1:
            return []
        raise GradcheckError(
            f"backward takes {count} arguments, and forward {n}: write backward(g, {_names(n)}), or backward(g, y, "
            f"{_names(n)}) to have the output too, or let "
            "forward return (y, saved) and write backward(g, saved)."
        )

    def _sorted(self, found):
        """One gradient for each float array, out of whatever was returned."""
        wanted = len(self.places)
        if isinstance(found, (tuple, list)):
            if len(found) == len(self.args) and len(self.args) != wanted:
                found = [found[i] for i in self.places]
            if len(found) != wanted:
                raise GradcheckError(
                    f"backward returned {len(found)} gradients; {wanted} of the inputs are float arrays, and each needs one: "
                    f"return {_names(wanted, 'd')}."
                )
            return [_as_array(d) for d in found]
        if wanted != 1:
            raise GradcheckError(
                f"backward returned one gradient; {wanted} of the inputs are float arrays, and each needs one: return a tuple "
                f"{_names(wanted, 'd')}."
            )
        return [_as_array(found)]

    def evidence(self, g, y):
        """What is known of each input before backward is called."""
        every = []
        for k, i in enumerate(self.places):
            every.append(
                Evidence(f"input {i}", None, None, self.args[i], [g], [y], self.args, i, siblings=every)
            )
            every[-1].forward = lambda args: [self.run(args)[0]]
            every[-1].call = lambda g, y, args, k=k: self.gradients(g, y, args)[k]
        return every


def _plain(i, x):
    """An input as a float64 array, or as it is."""
    x = x.data if isinstance(x, Tensor) else x
    if isinstance(x, np.ndarray) and x.dtype.kind == "f":
        if x.dtype != np.float64:
            raise GradcheckError(
                f"input {i} is {x.dtype}; finite differences need float64, because a step of 1e-5 drowns in float32's "
                f"rounding (1e-7 of the value). "
                "Use x.astype(np.float64)."
            )
        return x.copy()
    return x


def _is_float(x):
    return isinstance(x, np.ndarray) and x.dtype.kind == "f"


def _copies(args):
    return tuple(x.copy() if isinstance(x, np.ndarray) else x for x in args)


def _replaced(saved, changed):
    """What forward saved, with other arrays in the places of those that are changed."""
    if isinstance(saved, (list, tuple)):
        return type(saved)([_replaced(s, changed) for s in saved])
    if isinstance(saved, dict):
        return {key: _replaced(s, changed) for key, s in saved.items()}
    same = [new for old, new in changed if isinstance(saved, np.ndarray) and np.array_equal(saved, old)]
    return np.array(same[0]) if same else saved


def _as_array(d):
    d = d.data if isinstance(d, Tensor) else d
    return np.array(d) if isinstance(d, (np.generic, float, int)) else d


def _takes(fun):
    """How many arguments a function takes by position; None for any number."""
    try:
        parameters = inspect.signature(fun).parameters.values()
    except (TypeError, ValueError):
        return None
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return None
    return sum(
        p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) and p.default is p.empty for p in parameters
    )


def _names(n, prefix="x"):
    return ", ".join(f"{prefix}{i}" for i in range(n))
