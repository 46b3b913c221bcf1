"""The classes that a lesson's checks.py uses: exercises, checks, hints, and wrong answers that must fail.

A check is a driver: a function that calls the learner's module `my` and returns its results. The same driver
runs on the learner's file, in an isolated process, and on the solution; so it never contains the right
result. A wrong answer is the solution with a mistake; a learner's mistake is recognised by the same results.
"""

import ast
import inspect
import textwrap
from dataclasses import dataclass, field

TOLERANCE = 1e-7  # of the largest value


@dataclass(frozen=True)
class Check:
    """One check of an exercise. Only a gradient check has `forward` and `inputs`: see Exercise.gradcheck."""

    title: str
    source: str  # of `def driver(my, ...)`
    tolerance: float = TOLERANCE
    forward: object = None
    inputs: object = None


@dataclass(frozen=True)
class Wrong:
    """A typical mistake: the solution with `old` replaced by `new`, or with another `body`.

    A learner who makes it reads the `message`.
    """

    message: str
    old: str | None = None
    new: str | None = None
    body: str | None = None


@dataclass
class Exercise:
    """A function or class that the learner writes."""

    name: str
    hints: tuple
    why: str
    checks: list = field(default_factory=list)
    wrongs: list = field(default_factory=list)
    seconds: float = 5.0

    def check(self, title, tolerance=TOLERANCE):
        """Decorator: add a driver(my, rng), whose result is compared with that of the solution.

        The driver may use only `np`, `math` and its arguments.
        """
        return lambda driver: self.checks.append(Check(title, source_of(driver), tolerance))

    def gradcheck(self, forward, inputs, title="gradients against finite differences", tolerance=1e-6):
        """Decorator: add a driver(my, g, *inputs) that returns the gradients of sum(g * forward(*inputs)).

        forward    a function of exercise.py, by name (the solution's is used), or a function
        inputs     inputs(rng) returns the inputs; each float array among them has a gradient
        """
        return lambda driver: self.checks.append(Check(title, source_of(driver), tolerance, forward, inputs))

    def wrong(self, message, old=None, new=None, body=None):
        """Add a wrong answer: the solution with `old` (it occurs once) replaced by `new`, or another body."""
        if (body is None) == (old is None) or (old is None) != (new is None):
            raise TypeError(f"A wrong answer of {self.name} needs old and new, or body.")
        self.wrongs.append(Wrong(message, old, new, body))


class Checks:
    """The exercises of one lesson.

    uses    the packages that they may import besides NumPy
    """

    def __init__(self, uses=()):
        self.uses, self.exercises = tuple(uses), []

    def exercise(self, name, hints, why, seconds=5.0):
        """Add an exercise: a function or class of exercise.py.

        It has three hints: a question, the idea, nearly the line.
        """
        self.exercises.append(Exercise(name, tuple(hints), why, seconds=seconds))
        return self.exercises[-1]


def source_of(driver):
    """Return a driver's text, renamed to `driver` and without decorators: it is sent to another process."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(driver))).body[0]
    tree.decorator_list, tree.name = [], "driver"
    return ast.unparse(tree)
