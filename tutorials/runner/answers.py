"""Answer keys: the expected outcome of each check of an exercise, and its outcome with each wrong answer.

An answer key is made from a lesson's solution, or read from the key.json of a build without solutions.
"""

import contextlib
import io
import json
import sys
import types
import warnings

import numpy as np

from minigrad.gradcheck.numeric import flat, slopes
from tutorials.runner.child import describe, play
from tutorials.runner.isolation import Outcome
from tutorials.runner.values import decode, encode


class Key:
    """The answer key of one exercise: its drivers, the expected outcomes, those of each mistake."""

    def __init__(self, name, hints, why, checks, expected, wrongs, uses=(), seconds=5.0):
        self.name, self.hints, self.why, self.checks, self.expected = name, hints, why, checks, expected
        self._wrongs, self.uses, self.seconds = wrongs, uses, seconds

    @property
    def drivers(self):
        return [{name: check[name] for name in ("source", "seed", "args")} for check in self.checks]

    @property
    def wrongs(self):
        """[(message, outcomes)] of the wrong answers, computed on first use: a right answer needs none."""
        if callable(self._wrongs):
            self._wrongs = self._wrongs()
        return self._wrongs

    def to_json(self):
        wrongs = [[message, [_to_json(o) for o in outcomes]] for message, outcomes in self.wrongs]
        expected = [_to_json(outcome) for outcome in self.expected]
        own = {name: getattr(self, name) for name in ("name", "hints", "why", "checks", "uses", "seconds")}
        return {**own, "expected": expected, "wrongs": wrongs}

    @classmethod
    def from_json(cls, found):
        wrongs = [(message, [_from_json(o) for o in outcomes]) for message, outcomes in found["wrongs"]]
        return cls(**{**found, "expected": [_from_json(o) for o in found["expected"]], "wrongs": wrongs})


def key_of(lesson, name, seed=0):
    """Make the Key of an exercise, with random inputs from the seed."""
    path = lesson.folder / "key.json"
    if path.exists():
        keys = json.loads(path.read_text(encoding="utf-8"))["exercises"]
        return Key.from_json(next(key for key in keys if key["name"] == name))
    exercise = lesson.exercise(name)
    solution = module_of(lesson.solution)
    checks, expected = [], []
    for number, check in enumerate(exercise.checks):
        made = {
            "title": check.title,
            "source": check.source,
            "tolerance": check.tolerance,
            "seed": seed + number,
            "args": None,
            "y": None,
        }
        if check.forward is not None:
            made["args"], made["y"], right = measure_gradients(check, solution, seed + number)
            expected.append(Outcome(right))
        else:
            expected.append(run_check(made, solution))
        if expected[-1].failed:
            raise AssertionError(
                f"the solution of {name} fails its own check {check.title!r}: {expected[-1]}"
            )
        checks.append(made)

    def wrongs():
        variants = ((wrong.message, module_of(lesson.variant(name, wrong))) for wrong in exercise.wrongs)
        return [(message, [run_check(check, module) for check in checks]) for message, module in variants]

    return Key(
        name, exercise.hints, exercise.why, checks, expected, wrongs, lesson.checks.uses, exercise.seconds
    )


def measure_gradients(check, solution, seed):
    """Measure the gradients of a gradient check. Returns (g and inputs, y, gradients)."""
    rng = np.random.default_rng(seed)
    forward = getattr(solution, check.forward) if isinstance(check.forward, str) else check.forward
    inputs = list(check.inputs(rng))
    y = np.asarray(forward(*inputs), dtype=float)
    g = rng.standard_normal(y.shape)
    gradients = [
        slopes(x, lambda: flat([forward(*inputs)]), g.ravel()).gradient for x in inputs if is_float(x)
    ]
    return (
        [encode(item) for item in (g, *inputs)],
        encode(y),
        gradients[0] if len(gradients) == 1 else gradients,
    )


def is_float(x):
    return isinstance(x, np.ndarray) and x.dtype.kind == "f"


def run_check(check, module):
    """Run a driver on a trusted module, in this process. Returns its Outcome."""
    if check["args"] is None:
        given = [np.random.default_rng(check["seed"])]
    else:
        given = [decode(item) for item in check["args"]]
    with (
        np.errstate(all="ignore"),
        warnings.catch_warnings(),
        contextlib.redirect_stdout(io.StringIO()),
        usual_depth(),
    ):
        warnings.simplefilter("ignore")  # warnings and prints of wrong answers are not shown
        try:
            return Outcome(decode(encode(play(check["source"], module, given))))
        except Exception as error:
            found = describe(error, module.__file__)
            return Outcome(kind=found["kind"], message=found["message"])


@contextlib.contextmanager
def usual_depth():
    """Context manager: set Python's default recursion limit, counted from here, as in a learner's process."""
    before, depth, frame = sys.getrecursionlimit(), 0, sys._getframe()
    while frame is not None:
        depth, frame = depth + 1, frame.f_back
    sys.setrecursionlimit(depth + 1000)
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


def module_of(source):
    """Make a module from its source text."""
    module = types.ModuleType("my")
    module.__file__ = "solution.py"
    exec(compile(source, module.__file__, "exec"), module.__dict__)
    return module


def _to_json(outcome):
    if outcome.failed:
        return {"kind": outcome.kind, "message": outcome.message}
    return {"value": encode(outcome.value)}


def _from_json(found):
    if "kind" in found:
        return Outcome(kind=found["kind"], message=found["message"])
    return Outcome(decode(found["value"]))
