"""gradcheck_pair: check a hand-written backward against its forward, both in plain NumPy."""

import inspect

import numpy as np

from minigrad.engine.tensor import Tensor
from minigrad.gradcheck.diagnosis.evidence import Evidence
from minigrad.gradcheck.diagnosis.reasons import explanations
from minigrad.gradcheck.judging import VACUOUS, BackwardFailed, judge
from minigrad.gradcheck.numeric import EPS, TOLERANCE, flat, slopes
from minigrad.gradcheck.results import GradcheckError, Report, explained


def gradcheck_pair(forward, backward, inputs, *, eps=EPS, tolerance=TOLERANCE, seed=0):
    """Return True if `backward` is the gradient of `forward`.

    Raises GradcheckError otherwise; it names the worst entry and the probable mistake.

    forward   forward(*inputs) -> y, an array; or (y, saved), where saved is whatever backward needs
    backward  called as backward(g, *inputs), where g is the gradient of a loss with respect to y; as
              backward(g, y, *inputs) if it takes one argument more. If forward returns (y, saved), called as
              backward(g, saved) or backward(g, saved, *inputs). It returns one gradient for each float array
              among the inputs, in their order, each in the shape of its input: one array, or a tuple. The
              tuple may also have an entry for every input, with None for those that are no float arrays.
    inputs    float64 arrays (or tensors) are checked; integer and boolean arrays and Python numbers are
              passed on unchanged (indices, targets, masks, a dropout rate). Random numbers must be drawn
              beforehand and passed as inputs: pass dropout's mask.
    """
    try:
        report = check_pair(forward, backward, inputs, eps=eps, seed=seed, tolerance=tolerance)
    except PairFailed as failure:
        diagnoses = explanations(failure.evidence)
        raise GradcheckError(explained(str(failure), diagnoses), None, diagnoses) from failure.__cause__
    if report.wrong:
        diagnoses = explanations([r.evidence for r in _sort_worst_first(report)])
        raise GradcheckError(explained(report.sentence(), diagnoses), report, diagnoses)
    if report.vacuous:
        constant = not any(r.evidence.jacobian is not None and r.evidence.jacobian.any() for r in report)
        raise GradcheckError(
            VACUOUS.format(because=" (the output does not change with the inputs here)" * constant), report
        )
    return True


def check_pair(forward, backward, inputs, *, eps=EPS, seed=0, tolerance=TOLERANCE):
    """Compare like gradcheck_pair, and return a Report: a list of Results, one for each float array.

    Raises GradcheckError only if nothing can be compared.
    """
    pair = Pair(forward, backward, inputs)
    y, saved = pair.run()
    again, _ = pair.run()
    if not np.array_equal(y, again, equal_nan=True):
        raise GradcheckError(
            "forward gives different values for the same inputs, so its slope cannot be measured: draw "
            "random numbers outside and pass them in, e.g. dropout's mask."
        )
    # a seed that differs from any that a caller is likely to draw inputs with, such as default_rng(0)
    g = np.random.default_rng([seed, 20]).standard_normal(y.shape)
    evidence = pair.evidence(g, y)
    measured = [slopes(pair.args[i], lambda: flat([pair.run()[0]]), g.ravel(), eps) for i in pair.positions]
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
        results.append(judge(e, found))
        results[-1].remark = _kink_remark(e, found)
    return Report(results, tolerance)


class PairFailed(BackwardFailed):
    """The learner's backward raised an error."""

    def __init__(self, error, evidence):
        super().__init__(f"backward failed: {type(error).__name__}: {error}")
        self.evidence = evidence


def _sort_worst_first(report):
    return sorted(report.wrong, key=lambda r: (bool(r.problem), r.error), reverse=True)


def _kink_remark(e, found):
    """Describe what backward gives at kinks, where any value between the slopes of both sides is accepted."""
    kinks = found.kinks
    if not kinks.any() or e.a is None:
        return ""
    sides = {"left": found.below[kinks], "right": found.above[kinks]}
    for side, slope in sides.items():
        if np.allclose(e.a[kinks], slope, rtol=1e-3, atol=1e-6) and slope.any():
            return (
                f"there backward gives the slope of the {side} side; for relu and abs PyTorch and minigrad "
                "take 0 at 0"
            )
    return ""


class Pair:
    """A forward and a backward with their inputs. Calls both with fresh copies of the arrays.

    Raises GradcheckError if an argument, a value or a gradient does not fit.
    """

    def __init__(self, forward, backward, inputs):
        self.forward, self.backward = forward, backward
        inputs = inputs if isinstance(inputs, (list, tuple)) else [inputs]
        self.args = tuple(_as_input(i, x) for i, x in enumerate(inputs))
        self.positions = [i for i, x in enumerate(self.args) if _is_float(x)]
        self.saves = False  # does forward return (y, saved)?
        if not self.positions:
            raise GradcheckError(
                "There is nothing to check: none of the inputs is an array of floats (Python numbers count "
                "as settings and are not checked)."
            )

    def run(self, args=None):
        """Call forward. Returns (y, saved)."""
        given = _copy(self.args if args is None else args)
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
                f"forward converted float64 inputs to {y.dtype}; finite differences need float64: find where "
                "it loses precision."
            )
        if args is None and any(
            not np.array_equal(a, b, equal_nan=True)
            for a, b in zip(given, self.args, strict=True)
            if _is_float(a)
        ):
            raise GradcheckError(
                "forward writes into its inputs; use copies (x = x.copy(), or x = x + ... instead of x += "
                "...)."
            )
        return y, saved

    def gradients(self, g, y, args):
        """Call backward. Returns its unprocessed gradient for each float array."""
        saved = self.run()[1] if self.saves else None
        changed = [(old, new) for old, new in zip(self.args, args, strict=True) if old is not new]
        given, incoming = _copy(args), g[0].copy()
        found = self.backward(incoming, *self._arguments(y[0].copy(), _replace(saved, changed), given))
        if not np.array_equal(incoming, g[0]):
            raise GradcheckError(
                "backward writes into g, which is not its own: other backwards read it too. Start with "
                "g = g.copy(), or avoid += and -= on it."
            )
        return self._select(found)

    def _arguments(self, y, saved, given):
        """Return the arguments of backward after g, by the number that it takes."""
        count, n = _count_arguments(self.backward), len(given)
        if self.saves:
            return [saved] if count == 2 else [saved, *given]
        if count is None or count == n + 1:
            return given
        if count == n + 2:
            return [y, *given]
        if count == 1:
            return []
        raise GradcheckError(
            f"backward takes {count} arguments, and forward {n}: write backward(g, {_names(n)}); or "
            f"backward(g, y, {_names(n)}) to get the output too; or let forward return (y, saved) and write "
            "backward(g, saved)."
        )

    def _select(self, found):
        """Return one gradient for each float array, from whatever backward returned."""
        wanted = len(self.positions)
        if isinstance(found, (tuple, list)):
            if len(found) == len(self.args) and len(self.args) != wanted:
                found = [found[i] for i in self.positions]
            if len(found) != wanted:
                raise GradcheckError(
                    f"backward returned {len(found)} gradients; {wanted} of the inputs are float arrays, and "
                    f"each needs one: return {_names(wanted, 'd')}."
                )
            return [_as_array(d) for d in found]
        if wanted != 1:
            raise GradcheckError(
                f"backward returned one gradient; {wanted} of the inputs are float arrays, and each needs "
                f"one: return a tuple {_names(wanted, 'd')}."
            )
        return [_as_array(found)]

    def evidence(self, g, y):
        """Collect the Evidence of each input that is known before backward is called."""
        every = []
        for k, i in enumerate(self.positions):
            every.append(
                Evidence(f"input {i}", None, None, self.args[i], [g], [y], self.args, i, siblings=every)
            )
            every[-1].forward = lambda args: [self.run(args)[0]]
            every[-1].call = lambda g, y, args, k=k: self.gradients(g, y, args)[k]
        return every


def _as_input(i, x):
    """Copy a float64 array; return anything else unchanged. Raises GradcheckError for another float dtype."""
    x = x.data if isinstance(x, Tensor) else x
    if isinstance(x, np.ndarray) and x.dtype.kind == "f":
        if x.dtype != np.float64:
            raise GradcheckError(
                f"input {i} is {x.dtype}; finite differences need float64, because a step of 1e-5 drowns in "
                "float32's rounding (1e-7 of the value). Use x.astype(np.float64)."
            )
        return x.copy()
    return x


def _is_float(x):
    return isinstance(x, np.ndarray) and x.dtype.kind == "f"


def _copy(args):
    return tuple(x.copy() if isinstance(x, np.ndarray) else x for x in args)


def _replace(saved, changed):
    """Replace the changed arrays in what forward saved. `changed` lists (old, new)."""
    if isinstance(saved, (list, tuple)):
        return type(saved)([_replace(s, changed) for s in saved])
    if isinstance(saved, dict):
        return {key: _replace(s, changed) for key, s in saved.items()}
    same = [new for old, new in changed if isinstance(saved, np.ndarray) and np.array_equal(saved, old)]
    return np.array(same[0]) if same else saved


def _as_array(d):
    d = d.data if isinstance(d, Tensor) else d
    return np.array(d) if isinstance(d, (np.generic, float, int)) else d


def _count_arguments(fun):
    """Count the positional arguments without a default; None if the function takes any number."""
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
