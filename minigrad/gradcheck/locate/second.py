"""Which rule loses its own history? Checks the second derivative of one node at a time.

Knows that a rule is recorded when given Tensors.
"""

import numpy as np

from minigrad.engine.recording import apply, apply_kernel
from minigrad.engine.table import KernelRow
from minigrad.engine.tensor import Tensor
from minigrad.gradcheck.checking import check_function
from minigrad.gradcheck.judging import BackwardFailed
from minigrad.gradcheck.locate.steps import Rerun, Several
from minigrad.gradcheck.numeric import TOLERANCE
from minigrad.gradcheck.results import Diagnosis, GradcheckError, Result


def examine_again(step, seed):
    """The second-order Results of those arguments (and of the incoming gradient) whose rule has a wrong derivative."""
    if isinstance(step, Rerun) or any(isinstance(arg, Several) for arg in step.args):
        return []
    leaves = [Tensor(np.array(step.args[i])).requires_grad_() for i in step.places]
    call = apply_kernel if isinstance(step.row, KernelRow) else apply

    def alone(*xs):
        args = list(step.args)
        for i, x in zip(step.places, xs, strict=True):
            args[i] = x
        return call(step.row if isinstance(step.row, KernelRow) else step.node.fun, *args, **step.node.kwargs)

    try:
        report = check_function(alone, leaves, order=2, seed=seed)
    except BackwardFailed as failure:
        result = Result(
            f"the rule of {step.name}", float("inf"), (), np.nan, np.nan, 0.0, problem=str(failure)
        )
        result.diagnoses = [_fails(step)]
        return [result]
    except GradcheckError:
        return []
    wrong = [r for r in report if not r.error <= TOLERANCE]
    for r in wrong:
        r.diagnoses = [_history_lost(step, report)]
    return wrong


def _history_lost(step, report):
    """Which part of the rule has become a constant: its incoming gradient, or what it reads."""
    incoming = [r for r in report if r.name.startswith("incoming") and not r.right()]
    if incoming:
        return Diagnosis(
            "g constant",
            f"the rule of {step.name} gives the right numbers, but loses the history of the incoming gradient g: it works on "
            f"a bare array of it (g.data, g.detach(), "
            "np.asarray). Compute with g itself, so that the rule can be differentiated again.",
        )
    return Diagnosis(
        "values constant",
        f"the rule of {step.name} gives the right numbers, but takes what it reads (x, y, or something it kept) as a "
        f"constant: a cached value, .data or .detach(). "
        "Then its own derivative lacks the part that comes from x. Compute with the arguments the rule is given.",
    )


def _fails(step):
    return Diagnosis(
        "rule on tensors",
        f"the rule of {step.name} cannot be computed with Tensors, which the second derivative needs: use operators, methods "
        f"and functions that arrays and "
        "Tensors share.",
    )
