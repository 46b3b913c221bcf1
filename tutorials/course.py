"""What a lesson's checks.py is written with: exercises, checks, hints, and wrong answers that must fail. Knows no lesson.

A check is a driver: a function of the learner's module `my` that returns what it gave. The same driver is run on the learner's file, in
an isolated process, and on the solution; so it says what to look at, never what should come out. A wrong answer is the solution with a
mistake in it: what it gives is how the mistake is recognised when a learner makes it.
"""

import ast
import inspect
import textwrap
from dataclasses import dataclass, field

TOLERANCE = 1e-7  # of the largest value


@dataclass(frozen=True)
class Check:
    """One thing that is looked at. `forward` and `inputs` are a gradient check's: see Exercise.gradcheck."""

    title: str
    source: str  # of `def driver(my, ...)`
    tolerance: float = TOLERANCE
    forward: object = None
    inputs: object = None


@dataclass(frozen=True)
class Wrong:
    """A mistake people make: the solution with `old` replaced by `new`, or with another `body`; `message` is said to who makes it."""

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
        """Decorates a driver(my, rng): what it returns is compared with what the solution gives. Only `np`, `math` and its arguments are known in it."""
        return lambda driver: self.checks.append(Check(title, source_of(driver), tolerance))

    def gradcheck(self, forward, inputs, title="gradients against finite differences", tolerance=1e-6):
        """Decorates a driver(my, g, *inputs) that returns the gradients of sum(g * forward(*inputs)), one for each float array in inputs(rng).

        forward: a name in exercise.py (the solution's is taken), or a function.
        """
        return lambda driver: self.checks.append(Check(title, source_of(driver), tolerance, forward, inputs))

    def wrong(self, message, old=None, new=None, body=None):
        """Add a wrong answer: the solution with `old`, which stands there once, replaced by `new`; or another body in place of the block."""
        if (body is None) == (old is None) or (old is None) != (new is None):
            raise TypeError(f"A wrong answer of {self.name} needs old and new, or body.")
        self.wrongs.append(Wrong(message, old, new, body))


class Checks:
    """The exercises of one lesson. uses: what may be imported in them beside NumPy."""

    def __init__(self, uses=()):
        self.uses, self.exercises = tuple(uses), []

    def exercise(self, name, hints, why, seconds=5.0):
        """Add an exercise: a function or class of exercise.py, with three hints (a question, the idea, nearly the line)."""
        self.exercises.append(Exercise(name, tuple(hints), why, seconds=seconds))
        return self.exercises[-1]


def source_of(driver):
    """The text of a driver, renamed to `driver`, without its decorators: it goes to another process."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(driver))).body[0]
    tree.decorator_list, tree.name = [], "driver"
    return ast.unparse(tree)
