"""Why is it wrong?

Puts together what the numbers say (numbers.py and its neighbours) and which op is to blame (locate/), likeliest first.
"""

from minigrad.gradcheck.diagnosis import numbers, structure, rerun, terms  # noqa: F401, I001  (their order is that of the hypotheses)
from minigrad.gradcheck.checking import check_function
from minigrad.gradcheck.diagnosis.evidence import diagnose
from minigrad.gradcheck.judging import BackwardFailed
from minigrad.gradcheck.locate.locating import locate
from minigrad.gradcheck.results import Diagnosis, Report


def explanations(evidence):
    """The diagnoses of the first input for which any fits; else what can be said of the first."""
    every = [evidence_of_one for evidence_of_one in evidence if evidence_of_one is not None]
    for e in every:
        found = diagnose(e)
        if found:
            return (
                found if e is every[0] else [Diagnosis(d.name, f"{e.name}: {d.sentence}", e) for d in found]
            )
    return [unknown(every[0])] if every else []


def unknown(e):
    """Where it is wrong, if no guess fits."""
    if e.failure is not None:
        return Diagnosis(
            "fails",
            f"backward cannot be computed: see that its shapes fit those of the inputs; {e.name} has {e.x.shape}.",
        )
    if e.a is None:
        return Diagnosis(
            "unknown",
            f"the gradient of {e.name} does not have its shape {e.x.shape}, and summing or transposing does not help.",
            e,
        )
    wrong = int(e.wrong.sum())
    places = []
    for axis in range(e.x.ndim if wrong < e.x.size else 0):
        others = tuple(i for i in range(e.x.ndim) if i != axis)
        hit = e.wrong.any(axis=others) if others else e.wrong
        if not hit.all():
            places.append(f"index {', '.join(str(int(i)) for i in hit.nonzero()[0][:6])} of axis {axis}")
    where = f", all at {' and '.join(places)}" if places else ""
    return Diagnosis(
        "unknown",
        f"none of the usual mistakes fits all entries; {wrong} of {e.x.size} entries are wrong{where}.",
        e,
    )


def reasons(report, fun, inputs, order, seed):
    """(diagnoses, where): what probably went wrong in a function of Tensors, and in which op."""
    if order == 2 and not _first_order_is_right(fun, inputs, seed):
        return reasons(_first(fun, inputs, seed), fun, inputs, 1, seed)
    located = _located(fun, inputs, order, seed)
    seen = (
        []
        if order == 2
        else explanations(
            [r.evidence for r in sorted(report.wrong, key=lambda r: -r.error) if r.evidence is not None]
        )
    )
    if located is None:
        return seen, ""
    if located.ok:
        return _outside_the_graph(seen, order), located.where()
    names = {d.name for d in located.diagnoses}
    inside = located.diagnoses or (
        [unknown(located.result.evidence)] if getattr(located.result, "evidence", None) is not None else []
    )
    return [*inside, *(d for d in seen if d.name not in names and d.name != "unknown")], located.where()


def _outside_the_graph(seen, order):
    """Every op is right, so what is missing was never recorded."""
    sentence = (
        "every op that was recorded has a right rule, so something was not recorded: look for .detach(), .data, .numpy(), "
        "no_grad, or NumPy on bare arrays between "
        "the input and the output."
    )
    known = [d for d in seen if d.name != "unknown"] if order == 1 else []
    return [*known, Diagnosis("not recorded", sentence)]


def _first(fun, inputs, seed):
    try:
        return check_function(fun, inputs, seed=seed)
    except BackwardFailed:
        return Report()


def _first_order_is_right(fun, inputs, seed):
    report = _first(fun, inputs, seed)
    return bool(report) and report.ok


def _located(fun, inputs, order, seed):
    """What locate finds, or None where it cannot look."""
    try:
        return locate(fun, *inputs, order=order, seed=seed)
    except Exception:  # a diagnosis must never hide the finding that it explains
        return None
