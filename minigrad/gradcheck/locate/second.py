"""Find the rule that loses its own history: check the second derivative of one node at a time.

A rule is recorded when it runs on Tensors, so it can be differentiated like any function.
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
    """Return the second-order Results that are wrong, of the arguments and of the incoming gradient."""
    if isinstance(step, Rerun) or any(isinstance(arg, Several) for arg in step.args):
        return []
    leaves = [Tensor(np.array(step.args[i])).requires_grad_() for i in step.positions]
    call = apply_kernel if isinstance(step.row, KernelRow) else apply

    def alone(*xs):
        args = list(step.args)
        for i, x in zip(step.positions, xs, strict=True):
            args[i] = x
        return call(step.row if isinstance(step.row, KernelRow) else step.node.fun, *args, **step.node.kwargs)

    try:
        report = check_function(alone, leaves, order=2, seed=seed)
    except BackwardFailed as failure:
        name = f"the rule of {step.name}"
        result = Result(name, float("inf"), (), np.nan, np.nan, 0.0, problem=str(failure))
        result.diagnoses = [_explain_failure(step)]
        return [result]
    except GradcheckError:
        return []
    wrong = [r for r in report if not r.error <= TOLERANCE]
    for r in wrong:
        r.diagnoses = [_explain_lost_history(step, report)]
    return wrong


def _explain_lost_history(step, report):
    """Return the Diagnosis of what the rule treats as a constant: its incoming gradient, or its arguments."""
    incoming = [r for r in report if r.name.startswith("incoming") and not r.right()]
    if incoming:
        return Diagnosis(
            "g constant",
            f"the rule of {step.name} gives the right numbers, but loses the history of the incoming "
            "gradient g: it uses a bare array of it (g.data, g.detach(), np.asarray). Compute with g "
            "itself, so that the rule can be differentiated again.",
        )
    return Diagnosis(
        "values constant",
        f"the rule of {step.name} gives the right numbers, but uses its arguments (x, y, or a saved value) "
        "as constants: a cached value, .data or .detach(). Its own derivative then lacks the part that "
        "comes from x. Compute with the arguments that the rule receives.",
    )


def _explain_failure(step):
    return Diagnosis(
        "rule on tensors",
        f"the rule of {step.name} cannot be computed with Tensors, which the second derivative needs: use "
        "operators, methods and functions that arrays and Tensors share.",
    )
