"""Compare gradients with finite differences in float64, and name the probable mistake where they differ.

gradcheck(fun, inputs)                      check a function of Tensors, a Module, or a pair; raises
                                            GradcheckError
gradcheck_pair(forward, backward, inputs)   check your own backward, in plain NumPy
gradgradcheck(fun, inputs)                  check the second order
check, check_pair                           return a Report, a table of all inputs, instead of raising
locate(loss)                                find the op of a graph whose rule is wrong, and the line that made
                                            it

`python -m minigrad.gradcheck` checks everything that minigrad and models offer; --mistakes prints the
diagnoses of twenty typical mistakes; --mutations spoils every rule in turn and counts how many are caught
and how many diagnosed.
"""

from minigrad.gradcheck.by_hand import check_pair, gradcheck_pair
from minigrad.gradcheck.checking import check_function
from minigrad.gradcheck.diagnosis.evidence import HYPOTHESES, Evidence, diagnose, hypothesis
from minigrad.gradcheck.diagnosis.reasons import reasons
from minigrad.gradcheck.judging import VACUOUS, BackwardFailed
from minigrad.gradcheck.locate.locating import Located, locate
from minigrad.gradcheck.numeric import EPS, FLOOR, KINK, TOLERANCE, relative_error
from minigrad.gradcheck.results import Diagnosis, GradcheckError, Report, Result, explained
from minigrad.gradcheck.samples import Sample, leaf


def gradcheck(fun, inputs=(), *, order=1, eps=EPS, tolerance=TOLERANCE, fast=False, seed=0):
    """Return True if the gradients of fun(*inputs) agree with finite differences.

    Raises GradcheckError otherwise; it names the worst entry, the probable mistake, and the op that contains
    it.

    fun     a function of Tensors that returns one or several Tensors; or a Module, whose parameters are
            checked as well; or a pair (forward, backward) in plain NumPy: see gradcheck_pair
    inputs  Tensors; those that require a gradient are checked, and must be float64
    order   2 checks the gradients of the gradients (with respect to the inputs and to the incoming gradient)
    fast    compare along one random direction for each tensor instead of entry by entry: for whole models

    The incoming gradient is random: with ones, a softmax whose backward gives zeros would pass. Random
    streams are reset before each evaluation, so dropout keeps its mask. The inputs are restored afterwards.
    """
    if isinstance(fun, tuple):
        return gradcheck_pair(*fun, inputs, eps=eps, tolerance=tolerance, seed=seed)
    try:
        report = check_function(fun, inputs, order=order, eps=eps, fast=fast, seed=seed, tolerance=tolerance)
    except BackwardFailed as failure:
        report = Report(tolerance=tolerance)
        raise _explain(str(failure), report, fun, inputs, order, seed) from failure.__cause__
    if report.wrong:
        raise _explain(report.sentence(), report, fun, inputs, order, seed)
    if order == 1 and report.vacuous:
        raise GradcheckError(VACUOUS.format(because=_why_zero(report)), report)
    return True


def gradgradcheck(fun, inputs=(), **settings):
    """Check the gradients of the gradients: gradcheck with order=2."""
    return gradcheck(fun, inputs, order=2, **settings)


def check(fun, inputs=(), *, order=1, eps=EPS, fast=False, seed=0, tolerance=TOLERANCE):
    """Compare like gradcheck, and return a Report: a list of Results, one per tensor, that prints as a table.

    Raises GradcheckError only if nothing can be compared.
    """
    if isinstance(fun, tuple):
        return check_pair(*fun, inputs, eps=eps, seed=seed, tolerance=tolerance)
    return check_function(fun, inputs, order=order, eps=eps, fast=fast, seed=seed, tolerance=tolerance)


def _explain(headline, report, fun, inputs, order, seed):
    try:
        diagnoses, where = reasons(report, fun, inputs, order, seed)
    except Exception as error:  # a diagnosis that fails must not hide the error it should explain
        diagnoses, where = [], f"(No diagnosis: {type(error).__name__}: {error})"
    return GradcheckError(explained(headline, diagnoses, where), report, diagnoses)


def _why_zero(report):
    """Return the reason why every gradient is zero, or "" if it is not known."""
    known = [r.evidence for r in report if r.evidence is not None]
    constant = all(e.jacobian is not None and not e.jacobian.any() for e in known)
    return " (the output does not change with the inputs here)" if constant else ""
