"""Judge an answer: compare the outcomes of the isolated process with the answer key.

A failure is explained by the first of these that applies: the known mistake with the same results; for a
gradient, the diagnosis of gradcheck; a pattern in the difference; the entry that differs most.
"""

import ast
import re
from dataclasses import dataclass, field

import numpy as np

from minigrad.gradcheck import FLOOR, Evidence, diagnose
from tutorials.runner import isolation
from tutorials.runner.answers import is_float
from tutorials.runner.values import decode


@dataclass
class Verdict:
    """The verdict on one exercise: how many checks passed, and the problems of the others."""

    name: str
    passed: int
    total: int
    # (title of the check, sentence), in the order of the checks
    problems: list = field(default_factory=list)
    mistake: str = ""  # the message of the recognised mistake
    written: bool = True
    printed: str = ""
    unread: str = ""  # the reason why the file could not be loaded

    @property
    def right(self):
        return self.passed == self.total


def judge(key, source, shown="exercise.py"):
    """Run an answer in isolation and judge it."""
    run = isolation.run(source, key.drivers, key.uses, shown, key.seconds)
    verdict = compare(key, run.outcomes, source, shown)
    verdict.printed = run.printed
    if run.unread:
        verdict.unread, verdict.mistake = describe_error(run.outcomes[0], source, shown), ""
    return verdict


def compare(key, outcomes, source="", shown="exercise.py"):
    """Compare the outcomes of an exercise's drivers with the key. Returns a Verdict."""
    different = [
        None if o.failed else difference(o.value, e.value, c["tolerance"], labels(c))
        for o, e, c in zip(outcomes, key.expected, key.checks, strict=True)
    ]
    bad = [o.failed or bool(d) for o, d in zip(outcomes, different, strict=True)]
    verdict = Verdict(key.name, bad.count(False), len(bad))
    if not any(bad):
        return verdict
    unwritten = next(
        (o for o in outcomes if o.kind == "NotImplementedError" and o.message.endswith("is not written yet")),
        None,
    )
    if unwritten:
        verdict.written = not unwritten.message.startswith((f"{key.name} ", f"{key.name}."))
        other = "It uses another function of your file: " if verdict.written else ""
        verdict.problems = [("", f"{other}{unwritten.message}.")]
        return verdict
    if not any(o.kind == "SyntaxError" for o in outcomes):
        verdict.mistake = recognise_mistake(key, outcomes, bad)
    for check, outcome, what, wrong in zip(key.checks, outcomes, different, bad, strict=True):
        if wrong and outcome.failed:
            problem = describe_error(outcome, source, shown)
        elif wrong:
            problem = explain(key, check, outcome, what)
        # the same error in every check is one problem
        if wrong and problem not in [known for _, known in verdict.problems]:
            verdict.problems.append((check["title"], problem))
    return verdict


# ---------------------------------------------------------------- known mistakes


def recognise_mistake(key, outcomes, bad):
    """Return the message of the wrong answer with the same outcomes in every check, or "".

    If there is none, one that agrees in the first failed check counts, provided that it is the only one.
    """
    known = [
        (message, [same(o, w) for o, w in zip(outcomes, theirs, strict=True)], theirs)
        for message, theirs in key.wrongs
    ]
    everywhere = [message for message, alike, _ in known if all(alike)]
    if everywhere:
        return everywhere[0]
    first = bad.index(True)
    there = [
        message
        for message, alike, theirs in known
        if alike[first] and not same(theirs[first], key.expected[first]) and not theirs[first].failed
    ]
    return there[0] if len(there) == 1 else ""


def same(outcome, other):
    """Are two outcomes alike: the same values, or the same kind of error?"""
    if outcome.failed or other.failed:
        return outcome.kind == other.kind
    return not difference(outcome.value, other.value, 1e-6)


# ---------------------------------------------------------------- differences of values


@np.errstate(all="ignore")
def difference(given, right, tolerance, names=(), where=""):
    """Describe the first difference of two values; "" if there is none.

    names    the names of the parts, if the values are lists
    where    the name of the values
    """
    inside = f"{where}, " if where else ""
    if isinstance(right, list):
        names = names or [f"{inside}result {i + 1}" for i in range(len(right))]
        return _list_difference(given, right, tolerance, names, where or "the result")
    if isinstance(right, dict):
        if not isinstance(given, dict) or given.keys() != right.keys():
            got = list(given) if isinstance(given, dict) else kind(given)
            return f"{where or 'the result'} should have the keys {list(right)}, got {got}"
        found = (difference(given[name], right[name], tolerance, (), f"{inside}{name}") for name in right)
        return next((sentence for sentence in found if sentence), "")
    if isinstance(right, (str, bool)) or right is None:
        if type(given) is type(right) and given == right or _is_same_boolean(given, right):
            return ""
        return f"{where or 'the result'} should be {right!r}, got {shorten(given)}"
    return _number_difference(given, right, tolerance, where or "the result")


def _list_difference(given, right, tolerance, names, where):
    """Describe the first difference of two lists or tuples."""
    is_list = isinstance(given, list) or isinstance(given, np.ndarray) and given.ndim
    if not is_list or len(given) != len(right):
        got = f"{len(given)}" if isinstance(given, list) else kind(given)
        return f"{where} should be {len(right)} value{'s' * (len(right) != 1)}, got {got}"
    names = names if len(names) == len(right) else [f"result {i + 1}" for i in range(len(right))]
    found = (difference(g, r, tolerance, (), name) for g, r, name in zip(given, right, names, strict=True))
    return next((sentence for sentence in found if sentence), "")


def labels(check):
    """Return names for the parts of a driver's result.

    A gradient is named by its argument, any other part by its expression in the driver's `return`.
    """
    driver = ast.parse(check["source"]).body[0]
    if check["y"] is not None:
        inputs = [decode(item) for item in check["args"][1:]]
        arguments = [argument.arg for argument in driver.args.args[2:]]
        return [f"the gradient of {name}" for name, x in zip(arguments, inputs, strict=False) if is_float(x)]
    last = driver.body[-1]
    if isinstance(last, ast.Return) and isinstance(last.value, (ast.Tuple, ast.List)):
        texts = [ast.unparse(part).replace("my.", "") for part in last.value.elts]
        return [
            text if len(text) <= 50 and "*" not in text[:1] else f"result {i + 1}"
            for i, text in enumerate(texts)
        ]
    return ()


def _is_same_boolean(given, right):
    return (
        isinstance(right, bool)
        and isinstance(given, (np.bool_, np.ndarray))
        and np.shape(given) == ()
        and given.dtype == bool
        and bool(given) == right
    )


def _number_difference(given, right, tolerance, where):
    """Describe the difference of two numbers or arrays."""
    if given is None:
        return f"{where} is None: the function returns nothing. Is the `return` missing?"
    if (
        isinstance(given, list)
        and len(given) > 1
        and not isinstance(given[0], list)
        and np.shape(given[0]) == np.shape(right)
        and not difference(given[0], right, tolerance)
    ):
        return f"{where} is {len(given)} values, of which the first is right: return that one alone"
    wanted = "a number" if np.ndim(right) == 0 else f"an array of shape {np.shape(right)}"
    if isinstance(given, (str, dict, bool)) or isinstance(given, list) and not _fits_array(given):
        return f"{where} should be {wanted}, got {kind(given)}"
    given, right = np.asarray(given), np.asarray(right)
    if given.dtype.kind not in "biufc":
        return f"{where} should be {wanted}, got {shorten(given)}"
    if given.shape != right.shape:
        return f"{where} has the shape {given.shape}; it should be {right.shape}{_shape_hint(given, right)}"
    if (right.dtype.kind == "b") != (given.dtype.kind == "b"):
        wanted = "booleans" if right.dtype.kind == "b" else "numbers"
        return f"{where} should contain {wanted}, got {given.dtype}"
    if not right.size:
        return ""
    finite = (
        np.isfinite(given) | (given == right) | (np.isnan(given) & np.isnan(right))
        if right.dtype.kind in "fc"
        else np.isfinite(given)
    )
    scale = max(np.abs(right[np.isfinite(right)]).max(initial=0), FLOOR) if right.dtype.kind != "b" else 1
    with np.errstate(all="ignore"):
        near = np.abs(np.where(np.isfinite(right), given - 1.0 * right, 0)) <= (
            tolerance * scale if right.dtype.kind in "fc" else 0
        )
    wrong = ~(
        finite & np.where(np.isfinite(right), near, (given == right) | (np.isnan(given) & np.isnan(right)))
    )
    if not wrong.any():
        return ""
    return _largest_difference(given, right, wrong, where)


def _fits_array(items):
    try:
        return np.asarray(items).dtype.kind in "biufc"
    except ValueError:
        return False


def _largest_difference(given, right, wrong, where):
    """Describe the entry that differs most, and the pattern of the whole difference."""
    with np.errstate(all="ignore"):
        distance = np.abs(given - 1.0 * right)
    distance = np.where(np.isfinite(distance), distance, np.inf)
    index = np.unravel_index(np.argmax(np.where(wrong, distance, -1)), given.shape)
    place = f" at index {tuple(int(i) for i in index) if len(index) > 1 else int(index[0])}" if index else ""
    count = f" ({int(wrong.sum())} of {wrong.size} entries differ)" if wrong.size > 1 else ""
    is_, should = number(given[index]), number(right[index])
    if is_ == should:  # they differ only in further digits
        is_, should = repr(given[index].item()), repr(right[index].item())
    return f"{where} is {is_}{place}, it should be {should}{count}{_pattern(given, right)}"


def _pattern(a, n):
    """Describe the pattern of a wrong array compared with the right one; "" if there is none."""
    if a.dtype.kind not in "fiu" or n.dtype.kind not in "fiu" or n.dtype.kind in "iu" and n.size == 1:
        return ""
    if np.isnan(a).any():
        return ". There is NaN in it: look for 0/0 or inf - inf"
    if not np.isfinite(a).all():
        return ". There is inf in it: look for a division by 0, or exp of something large"
    if not np.isfinite(n).all():
        return ""
    a, n = a.astype(float), n.astype(float)
    scale = np.abs(n).max()
    if not scale:
        return ""
    close = lambda x: x.shape == n.shape and np.abs(x - n).max() <= 1e-6 * scale  # noqa: E731
    if not a.any():
        return ". All of it is 0"
    if close(-a):
        return ". It is right except for its sign"
    if a.ndim > 1 and close(a.swapaxes(-1, -2)):
        return ". It is right but transposed"
    factor = (a / scale * n).sum() / (n / scale * n).sum()
    if factor and close(a / factor):
        return f". It is {number(factor)} times what it should be"
    shift = (a - n).mean()
    if a.size > 1 and close(a - shift):
        size = "large" if shift > 0 else "small"
        return f". It is too {size} by {number(abs(shift))} everywhere"
    if (
        a.size > 2
        and np.abs(a - n).max() > 1e-3 * scale
        and np.abs(np.sort(a, axis=None) - np.sort(n, axis=None)).max() <= 1e-6 * scale
    ):
        return ". The numbers are right, their order is not"
    return ""


def _shape_hint(given, right):
    if given.ndim == right.ndim - 1 and given.size and right.size == given.size:
        return " (a reduction without keepdims=True?)"
    if given.shape == right.shape[::-1]:
        return " (transposed?)"
    return ""


def number(x):
    return f"{x}" if np.asarray(x).dtype.kind in "biu" else f"{x:.7g}"


def kind(value):
    words = {type(None): "None", str: "a string", bool: "a boolean", list: "a list or tuple", dict: "a dict"}
    if isinstance(value, np.ndarray):
        return f"an array of shape {value.shape}"
    return words.get(type(value)) or f"a value of type {type(value).__name__}"


def shorten(value):
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


# ---------------------------------------------------------------- messages


def explain(key, check, outcome, what):
    """Return the message on a check whose value is wrong."""
    diagnosis = _diagnose(key, check, outcome) if check["y"] is not None else ""
    return f"{sentence(what)}{f' {diagnosis}' if diagnosis else ''}"


def _diagnose(key, check, outcome):
    """Return gradcheck's diagnosis of the gradients, or ""."""
    g, *inputs = [decode(item) for item in check["args"]]
    right = key.expected[key.checks.index(check)].value
    positions = [i for i, x in enumerate(inputs) if is_float(x)]
    right, given = (right, outcome.value) if len(positions) > 1 else ([right], [outcome.value])
    if not isinstance(given, list) or len(given) != len(positions):
        return ""
    evidence, y, words = [], decode(check["y"]), ("input", f"your {key.name}")
    for i, raw, n in zip(positions, given, right, strict=True):
        raw = np.asarray(raw, float) if isinstance(raw, float) else raw
        raw, name = raw if isinstance(raw, np.ndarray) else None, f"argument {i + 1}"
        args = (name, raw, np.asarray(n), inputs[i], [g], [y], tuple(inputs), i)
        evidence.append(Evidence(*args, siblings=evidence, words=words))
    for e in evidence:
        try:
            found = [] if e.close else diagnose(e, most=1)
        except Exception:  # some hypotheses call the function again, which lives in another process
            continue
        if found:
            return f"Likely: {found[0].sentence}"
    return ""


def describe_error(outcome, source, shown):
    """Return the message on an error raised in the learner's code, with the line that raised it."""
    if outcome.kind in ("Timeout", "Flood", "Ended", "Unreadable", "InPlace", "Refused"):
        return sentence(outcome.message)
    message = " ".join(outcome.message.split())
    mismatch = re.search(r"with gufunc signature .* \(size (\d+) is different from (\d+)\)", message)
    if mismatch:
        sizes = f"{mismatch[1]} and {mismatch[2]} should be equal"
        message = f"the two factors of a matrix product do not fit: {sizes}"
    if outcome.kind == "AttributeError" and "module 'my'" in message:
        message = message.replace("'my'", shown)
        return sentence(f"{message}: is the function's name the same as in the stub?")
    where = _line(outcome, source, shown)
    if outcome.kind == "SystemExit":
        return sentence("it calls exit(), which ends the program: remove that") + where
    nothing = " Does every function of yours return something?" if "NoneType" in message else ""
    where = where or " It was raised where the check uses what your function returned."
    return f"{sentence(f'{outcome.kind}: {message}' if message else outcome.kind)}{nothing}{where}"


def _line(outcome, source, shown):
    """Return the learner's line that raised an error, on a line of its own; "" if none did."""
    if not outcome.places:
        return ""
    lineno, name = outcome.places[-1]
    lines = source.split("\n")
    text = lines[lineno - 1].strip() if 0 < lineno <= len(lines) else ""
    return f"\n            {shown}, line {lineno}{f', in {name}' if name != '<module>' else ''}: {text}"


def sentence(text):
    """Make a sentence: begin with a capital, unless the first word is code, and end with a full stop."""
    first = text.split(" ", 1)[0]
    code = len(first) == 1 and first != "a" or any(c in first for c in "./=()[]_'`")
    start, end = text[:1] if code else text[:1].upper(), "" if text.endswith((".", "?", "!")) else "."
    return f"{start}{text[1:]}{end}"
