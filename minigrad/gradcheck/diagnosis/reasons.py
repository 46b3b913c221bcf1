"""Explain a wrong gradient: combine the diagnoses of its entries with the op that locate finds."""

# imported in the order in which their hypotheses are tried
from minigrad.gradcheck.diagnosis import numbers, structure, rerun, terms  # noqa: F401, I001
from minigrad.gradcheck.checking import check_function
from minigrad.gradcheck.diagnosis.evidence import diagnose
from minigrad.gradcheck.judging import BackwardFailed
from minigrad.gradcheck.locate.locating import locate
from minigrad.gradcheck.results import Diagnosis, Report


def explanations(evidence):
    """Return the diagnoses of the first input for which any fits; else `unknown` of the first input."""
    every = [e for e in evidence if e is not None]
    for e in every:
        found = diagnose(e)
        if found and e is every[0]:
            return found
        if found:
            return [Diagnosis(d.name, f"{e.name}: {d.sentence}", e) for d in found]
    return [unknown(every[0])] if every else []


def unknown(e):
    """Return the Diagnosis of a gradient that no hypothesis fits: which entries are wrong."""
    if e.failure is not None:
        return Diagnosis(
            "fails",
            "backward cannot be computed: check that its shapes fit those of the inputs; "
            f"{e.name} has {e.x.shape}.",
        )
    if e.a is None:
        return Diagnosis(
            "unknown",
            f"the gradient of {e.name} does not have its shape {e.x.shape}, and summing or transposing does "
            "not help.",
            e,
        )
    wrong = int(e.wrong.sum())
    places = []
    for axis in range(e.x.ndim if wrong < e.x.size else 0):
        others = tuple(i for i in range(e.x.ndim) if i != axis)
        hit = e.wrong.any(axis=others) if others else e.wrong
        if not hit.all():
            positions = ", ".join(str(int(i)) for i in hit.nonzero()[0][:6])
            places.append(f"index {positions} of axis {axis}")
    where = f", all at {' and '.join(places)}" if places else ""
    return Diagnosis(
        "unknown",
        f"no typical mistake explains all entries; {wrong} of {e.x.size} entries are wrong{where}.",
        e,
    )


def reasons(report, fun, inputs, order, seed):
    """Explain a wrong function of Tensors. Returns (diagnoses, where): mistakes, and the op with its line."""
    if order == 2 and not _first_order_is_right(fun, inputs, seed):
        return reasons(_check_first_order(fun, inputs, seed), fun, inputs, 1, seed)
    located = _try_to_locate(fun, inputs, order, seed)
    worst_first = sorted(report.wrong, key=lambda r: -r.error)
    seen = [] if order == 2 else explanations([r.evidence for r in worst_first])
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
    """Add the diagnosis that part of the computation was not recorded: every recorded op is right."""
    sentence = (
        "every recorded op has a right rule, so something was not recorded: look for .detach(), .data, "
        ".numpy(), no_grad, or NumPy on bare arrays between the input and the output."
    )
    known = [d for d in seen if d.name != "unknown"] if order == 1 else []
    return [*known, Diagnosis("not recorded", sentence)]


def _check_first_order(fun, inputs, seed):
    try:
        return check_function(fun, inputs, seed=seed)
    except BackwardFailed:
        return Report()


def _first_order_is_right(fun, inputs, seed):
    report = _check_first_order(fun, inputs, seed)
    return bool(report) and report.ok


def _try_to_locate(fun, inputs, order, seed):
    """Call locate. Returns None if it fails."""
    try:
        return locate(fun, *inputs, order=order, seed=seed)
    except Exception:  # a diagnosis that fails must not hide the error it should explain
        return None
