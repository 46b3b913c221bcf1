"""Is a gradient right, and if not, what went wrong? Compares what backward gives with finite differences, in float64.

gradcheck(fun, inputs)                      a function of Tensors, a Module, or a pair: True, or an error that explains
gradcheck_pair(forward, backward, inputs)   your own backward, in plain NumPy
gradgradcheck(fun, inputs)                  the second order
check, check_pair                           the same as a Report, a table of all inputs, instead of an error
locate(loss)                                which op of a graph has the wrong rule, and the line that made it

`python -m minigrad.gradcheck` runs it over everything minigrad and models offer; --mistakes shows what it says of a dozen
typical mistakes, --mutations spoils every rule in turn and counts how many are caught and named.
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
    """True if the gradients of fun(*inputs) agree with finite differences; else raises GradcheckError, which names the worst
    entry, says what probably went wrong, and in which op.

    fun     a function of Tensors that returns a Tensor or several; or a Module, whose parameters are then checked as well;
            or a pair (forward, backward) in plain NumPy: see gradcheck_pair
    inputs  Tensors; those that require a gradient are checked, and must be float64
    order   2 checks the gradients of the gradients (with respect to the inputs and to the incoming gradient)
    fast    compare along one random direction for each tensor, instead of entry by entry: for whole models
    The incoming gradient is random (with ones, a softmax whose backward gives zeros would pass); random streams start each
    evaluation alike, so dropout keeps its mask; the inputs are left as they were.
    """
    if isinstance(fun, tuple):
        return gradcheck_pair(*fun, inputs, eps=eps, tolerance=tolerance, seed=seed)
    try:
        report = check_function(fun, inputs, order=order, eps=eps, fast=fast, seed=seed, tolerance=tolerance)
    except BackwardFailed as failure:
        raise _with_reasons(
            str(failure), Report(tolerance=tolerance), fun, inputs, order, seed
        ) from failure.__cause__
    if report.wrong:
        raise _with_reasons(report.sentence(), report, fun, inputs, order, seed)
    if order == 1 and report.vacuous:
        raise GradcheckError(VACUOUS.format(because=_because(report)), report)
    return True


def gradgradcheck(fun, inputs=(), **settings):
    """gradcheck of the second order."""
    return gradcheck(fun, inputs, order=2, **settings)


def check(fun, inputs=(), *, order=1, eps=EPS, fast=False, seed=0, tolerance=TOLERANCE):
    """The same as a Report: a list of Results, one for each tensor, that prints as a table.

    Raises only where nothing can be compared.
    """
    if isinstance(fun, tuple):
        return check_pair(*fun, inputs, eps=eps, seed=seed, tolerance=tolerance)
    return check_function(fun, inputs, order=order, eps=eps, fast=fast, seed=seed, tolerance=tolerance)


def _with_reasons(headline, report, fun, inputs, order, seed):
    try:
        diagnoses, where = reasons(report, fun, inputs, order, seed)
    except Exception as error:  # a diagnosis that fails must not hide what it was to explain
        diagnoses, where = [], f"(No diagnosis: {type(error).__name__}: {error})"
    return GradcheckError(explained(headline, diagnoses, where), report, diagnoses)


def _because(report):
    """Why everything is zero, if it can be told."""
    constant = all(
        r.evidence.jacobian is not None and not r.evidence.jacobian.any()
        for r in report
        if r.evidence is not None
    )
    return " (the output does not change with the inputs here)" if constant else ""
