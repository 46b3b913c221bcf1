"""What should come out of an exercise's checks, and what comes out with each wrong answer. Knows no learner.

An answer key is made from a lesson's solution, or read from the key.json that a build without solutions carries in its place.
"""

import contextlib
import io
import json
import sys
import types
import warnings

import numpy as np

from minigrad.gradcheck.numeric import flat, slopes
from tutorials.runner.child import described, play
from tutorials.runner.isolation import Outcome
from tutorials.runner.values import decode, encode


class Key:
    """Of one exercise: its drivers, what each should give, and what each gives with a known mistake."""

    def __init__(self, name, hints, why, checks, expected, wrongs, uses=(), seconds=5.0):
        self.name, self.hints, self.why, self.checks, self.expected = name, hints, why, checks, expected
        self._wrongs, self.uses, self.seconds = wrongs, uses, seconds

    @property
    def drivers(self):
        return [{name: check[name] for name in ("source", "seed", "args")} for check in self.checks]

    @property
    def wrongs(self):
        """[(message, its outcomes)]: made when they are wanted first, since a right answer needs none."""
        if callable(self._wrongs):
            self._wrongs = self._wrongs()
        return self._wrongs

    def to_json(self):
        wrongs = [[message, [_written(o) for o in outcomes]] for message, outcomes in self.wrongs]
        expected = [_written(outcome) for outcome in self.expected]
        return dict(name=self.name, hints=self.hints, why=self.why, checks=self.checks, expected=expected, wrongs=wrongs, uses=self.uses, seconds=self.seconds)  # fmt: skip

    @classmethod
    def from_json(cls, found):
        wrongs = [(message, [_read(o) for o in outcomes]) for message, outcomes in found["wrongs"]]
        return cls(**{**found, "expected": [_read(o) for o in found["expected"]], "wrongs": wrongs})


def key_of(lesson, name, seed=0):
    """The Key of an exercise; random inputs come from the seed."""
    path = lesson.folder / "key.json"
    if path.exists():
        return Key.from_json(
            next(
                key
                for key in json.loads(path.read_text(encoding="utf-8"))["exercises"]
                if key["name"] == name
            )
        )
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
            made["args"], made["y"], right = by_differences(check, solution, seed + number)
            expected.append(Outcome(right))
        else:
            expected.append(played(made, solution))
        if expected[-1].failed:
            raise AssertionError(
                f"the solution of {name} fails its own check {check.title!r}: {expected[-1]}"
            )
        checks.append(made)

    def wrongs():
        variants = ((wrong.message, module_of(lesson.variant(name, wrong))) for wrong in exercise.wrongs)
        return [(message, [played(check, module) for check in checks]) for message, module in variants]

    return Key(
        name, exercise.hints, exercise.why, checks, expected, wrongs, lesson.checks.uses, exercise.seconds
    )


def by_differences(check, solution, seed):
    """(the driver's arguments g and inputs, y, the gradients by finite differences) of a gradient check."""
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


def played(check, module):
    """The Outcome of a driver on a module of ours."""
    given = (
        [np.random.default_rng(check["seed"])]
        if check["args"] is None
        else [decode(item) for item in check["args"]]
    )
    with (
        np.errstate(all="ignore"),
        warnings.catch_warnings(),
        contextlib.redirect_stdout(io.StringIO()),
        usual_depth(),
    ):
        warnings.simplefilter("ignore")  # what mistakes print and warn of is nobody's business
        try:
            return Outcome(decode(encode(play(check["source"], module, given))))
        except Exception as error:
            found = described(error, module.__file__)
            return Outcome(kind=found["kind"], message=found["message"])


@contextlib.contextmanager
def usual_depth():
    """Python's own limit of recursion from here on, as in a learner's process, whatever it was raised to in this one."""
    before, depth, frame = sys.getrecursionlimit(), 0, sys._getframe()
    while frame is not None:
        depth, frame = depth + 1, frame.f_back
    sys.setrecursionlimit(depth + 1000)
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


def module_of(source):
    """A module of ours made from its text."""
    module = types.ModuleType("my")
    module.__file__ = "solution.py"
    exec(compile(source, module.__file__, "exec"), module.__dict__)
    return module


def _written(outcome):
    return (
        {"kind": outcome.kind, "message": outcome.message}
        if outcome.failed
        else {"value": encode(outcome.value)}
    )


def _read(found):
    return (
        Outcome(kind=found["kind"], message=found["message"])
        if "kind" in found
        else Outcome(decode(found["value"]))
    )
