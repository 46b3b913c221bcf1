"""Is an answer right, and if not, what is wrong with it? Compares what the isolated process handed back with the answer key.

The sentence about a failure is, in this order: the known mistake that gives the very same results; for a gradient, the checker's
diagnosis; what the difference looks like; the first number that differs.
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
    """What is said of one exercise: how many checks passed of how many, and sentences about the others."""

    name: str
    passed: int
    total: int
    # (title of the check, sentence), the first that explains most
    problems: list = field(default_factory=list)
    mistake: str = ""  # the message of the wrong answer that it was recognised as
    written: bool = True
    printed: str = ""
    unread: str = ""  # why the file could not even be loaded

    @property
    def right(self):
        return self.passed == self.total


def judge(key, source, shown="exercise.py"):
    """Run an answer in isolation and judge it."""
    run = isolation.run(source, key.drivers, key.uses, shown, key.seconds)
    verdict = compare(key, run.outcomes, source, shown)
    verdict.printed = run.printed
    if run.unread:
        verdict.unread, verdict.mistake = told(run.outcomes[0], source, shown), ""
    return verdict


def compare(key, outcomes, source="", shown="exercise.py"):
    """The Verdict on the outcomes of an exercise's drivers."""
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
        verdict.problems = [
            (
                "",
                f"{unwritten.message}."
                if not verdict.written
                else f"It uses another function of your file: {unwritten.message}.",
            )
        ]
        return verdict
    if not any(o.kind == "SyntaxError" for o in outcomes):
        verdict.mistake = recognised(key, outcomes, bad)
    for check, outcome, what, wrong in zip(key.checks, outcomes, different, bad, strict=True):
        if wrong:
            sentence = (
                told(outcome, source, shown) if outcome.failed else explained(key, check, outcome, what)
            )
            # the same error in every check is one problem
            if sentence not in [said for _, said in verdict.problems]:
                verdict.problems.append((check["title"], sentence))
    return verdict


# ---------------------------------------------------------------- which mistake it is


def recognised(key, outcomes, bad):
    """The message of the wrong answer that gives the same in every check; else of the one that does in the first that failed."""
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
    """Whether two outcomes are alike: the same values, or the same kind of error."""
    if outcome.failed or other.failed:
        return outcome.kind == other.kind
    return not difference(outcome.value, other.value, 1e-6)


# ---------------------------------------------------------------- what the values say


@np.errstate(all="ignore")
def difference(given, right, tolerance, names=(), where=""):
    """A sentence on the first difference of two values, or "". names: what the parts of the whole are called."""
    inside = f"{where}, " if where else ""
    if isinstance(right, list):
        return _of_lists(
            given,
            right,
            tolerance,
            names or [f"{inside}result {i + 1}" for i in range(len(right))],
            where or "the result",
        )
    if isinstance(right, dict):
        if not isinstance(given, dict) or given.keys() != right.keys():
            return f"{where or 'the result'} should have the keys {list(right)}, got {list(given) if isinstance(given, dict) else kind(given)}"
        found = (difference(given[name], right[name], tolerance, (), f"{inside}{name}") for name in right)
        return next((sentence for sentence in found if sentence), "")
    if isinstance(right, (str, bool)) or right is None:
        return (
            ""
            if type(given) is type(right) and given == right or _truth(given, right)
            else f"{where or 'the result'} should be {right!r}, got {shortly(given)}"
        )
    return _numbers(given, right, tolerance, where or "the result")


def _of_lists(given, right, tolerance, names, where):
    """The same of lists and tuples."""
    if not (isinstance(given, list) or isinstance(given, np.ndarray) and given.ndim) or len(given) != len(
        right
    ):
        got = f"{len(given)}" if isinstance(given, list) else kind(given)
        return f"{where} should be {len(right)} value{'s' * (len(right) != 1)}, got {got}"
    names = names if len(names) == len(right) else [f"result {i + 1}" for i in range(len(right))]
    found = (difference(g, r, tolerance, (), name) for g, r, name in zip(given, right, names, strict=True))
    return next((sentence for sentence in found if sentence), "")


def labels(check):
    """What the parts of a driver's result are called: gradients by the arguments' names, else the expressions in its `return`."""
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


def _truth(given, right):
    return (
        isinstance(right, bool)
        and isinstance(given, (np.bool_, np.ndarray))
        and np.shape(given) == ()
        and given.dtype == bool
        and bool(given) == right
    )


def _numbers(given, right, tolerance, where):
    """The same of numbers and arrays."""
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
    if isinstance(given, (str, dict, bool)) or isinstance(given, list) and not _arrayable(given):
        return f"{where} should be {'a number' if np.ndim(right) == 0 else f'an array of shape {np.shape(right)}'}, got {kind(given)}"
    given, right = np.asarray(given), np.asarray(right)
    if given.dtype.kind not in "biufc":
        return f"{where} should be {'a number' if right.ndim == 0 else f'an array of shape {right.shape}'}, got {shortly(given)}"
    if given.shape != right.shape:
        return f"{where} has the shape {given.shape}; it should be {right.shape}{_shape_hint(given, right)}"
    if (right.dtype.kind == "b") != (given.dtype.kind == "b"):
        return (
            f"{where} should hold {'booleans' if right.dtype.kind == 'b' else 'numbers'}, got {given.dtype}"
        )
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
    return _first(given, right, wrong, where)


def _arrayable(items):
    try:
        return np.asarray(items).dtype.kind in "biufc"
    except ValueError:
        return False


def _first(given, right, wrong, where):
    """Which entry differs most, and what the whole difference looks like."""
    with np.errstate(all="ignore"):
        apart = np.abs(given - 1.0 * right)
    apart = np.where(np.isfinite(apart), apart, np.inf)
    index = np.unravel_index(np.argmax(np.where(wrong, apart, -1)), given.shape)
    place = f" at index {tuple(int(i) for i in index) if len(index) > 1 else int(index[0])}" if index else ""
    looks = _looks(given, right)
    count = f" ({int(wrong.sum())} of {wrong.size} entries differ)" if wrong.size > 1 else ""
    is_, should = number(given[index]), number(right[index])
    if is_ == should:  # they differ further behind
        is_, should = repr(given[index].item()), repr(right[index].item())
    return f"{where} is {is_}{place}, it should be {should}{count}{looks}"


def _looks(a, n):
    """What a wrong array looks like beside the right one, in words; "" if like nothing."""
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
        return ". It is right but for its sign"
    if a.ndim > 1 and close(a.swapaxes(-1, -2)):
        return ". It is right but transposed"
    factor = (a / scale * n).sum() / (n / scale * n).sum()
    if factor and close(a / factor):
        return f". It is {number(factor)} times what it should be"
    shift = (a - n).mean()
    if a.size > 1 and close(a - shift):
        return (
            f". It is too large by {number(shift)} everywhere"
            if shift > 0
            else f". It is too small by {number(-shift)} everywhere"
        )
    if (
        a.size > 2
        and np.abs(a - n).max() > 1e-3 * scale
        and np.abs(np.sort(a, axis=None) - np.sort(n, axis=None)).max() <= 1e-6 * scale
    ):
        return ". The numbers are right, their order is not"
    return ""


def _shape_hint(given, right):
    if (
        given.ndim < right.ndim
        and given.size
        and right.size % given.size == 0
        and given.ndim == right.ndim - 1
        and right.size == given.size
    ):
        return " (a reduction without keepdims=True?)"
    if given.shape == right.shape[::-1]:
        return " (transposed?)"
    return ""


def number(x):
    return f"{x}" if np.asarray(x).dtype.kind in "biu" else f"{x:.7g}"


def kind(value):
    words = {type(None): "None", str: "text", bool: "a boolean", list: "a list or tuple", dict: "a dict"}
    return words.get(type(value)) or (
        f"an array of shape {value.shape}"
        if isinstance(value, np.ndarray)
        else f"a value of type {type(value).__name__}"
    )


def shortly(value):
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


# ---------------------------------------------------------------- sentences


def explained(key, check, outcome, what):
    """The sentence on a check whose value is wrong."""
    diagnosis = _diagnosed(key, check, outcome) if check["y"] is not None else ""
    return f"{sentence(what)}{f' {diagnosis}' if diagnosis else ''}"


def _diagnosed(key, check, outcome):
    """What minigrad's gradient checker says of the gradients, worst first."""
    g, *inputs = [decode(item) for item in check["args"]]
    right = key.expected[key.checks.index(check)].value
    places = [i for i, x in enumerate(inputs) if is_float(x)]
    right, given = (right, outcome.value) if len(places) > 1 else ([right], [outcome.value])
    if not isinstance(given, list) or len(given) != len(places):
        return ""
    evidence = [
        Evidence(f"argument {i + 1}", raw if isinstance(raw, np.ndarray) else np.asarray(raw, float) if isinstance(raw, float) else None,
                 np.asarray(n), inputs[i], [g], [decode(check["y"])], tuple(inputs), i, words=("input", f"your {key.name}"))
        for i, raw, n in zip(places, given, right, strict=True)
    ]  # fmt: skip
    for e in evidence:
        e.siblings = evidence
        try:
            found = [] if e.close else diagnose(e, most=1)
        except Exception:  # some guesses want to run the function again, which lives in another process
            continue
        if found:
            return f"Likely: {found[0].sentence}"
    return ""


def told(outcome, source, shown):
    """The sentence on an error raised in the learner's code, with the line it came from."""
    if outcome.kind in ("Timeout", "Flood", "Ended", "Unreadable", "InPlace", "Refused"):
        return sentence(outcome.message)
    message = " ".join(outcome.message.split())
    mismatch = re.search(r"with gufunc signature .* \(size (\d+) is different from (\d+)\)", message)
    if mismatch:
        message = (
            f"the two factors of a matrix product do not fit: {mismatch[1]} and {mismatch[2]} should be equal"
        )
    if outcome.kind == "AttributeError" and "module 'my'" in message:
        return sentence(
            f"{message.replace(chr(39) + 'my' + chr(39), shown)}: is the function's name as it was in the stub?"
        )
    if outcome.kind == "SystemExit":
        return sentence("it calls exit(), which ends the program: take that out") + _line(
            outcome, source, shown
        )
    nothing = " Does every function of yours return something?" if "NoneType" in message else ""
    where = (
        _line(outcome, source, shown)
        or " It was raised where the check looks at what your function returned."
    )
    return f"{sentence(f'{outcome.kind}: {message}' if message else outcome.kind)}{nothing}{where}"


def _line(outcome, source, shown):
    """The learner's line an error came from, on a line of its own; "" if it came from none."""
    if not outcome.places:
        return ""
    lineno, name = outcome.places[-1]
    lines = source.split("\n")
    text = lines[lineno - 1].strip() if 0 < lineno <= len(lines) else ""
    return f"\n            {shown}, line {lineno}{f', in {name}' if name != '<module>' else ''}: {text}"


def sentence(text):
    """Begins with a capital and ends with a mark."""
    first = text.split(" ", 1)[0]
    # a name is left as it is
    code = len(first) == 1 and first != "a" or any(c in first for c in "./=()[]_'`")
    return (
        f"{text[:1] if code else text[:1].upper()}{text[1:]}{'' if text.endswith(('.', '?', '!')) else '.'}"
    )
