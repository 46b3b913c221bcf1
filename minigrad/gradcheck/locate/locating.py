"""locate: find the op of a graph whose rule is wrong.

Each node's rule runs by itself, on the node's own arrays, and is compared with finite differences of the
node's function. If every rule is right, the engine is checked as well (engine_faults.py).
"""

from dataclasses import dataclass, field

import numpy as np

from minigrad import random
from minigrad.engine.graph import nodes_behind
from minigrad.engine.tensor import Tensor
from minigrad.gradcheck.diagnosis.evidence import diagnose
from minigrad.gradcheck.locate.engine_faults import examine_engine
from minigrad.gradcheck.locate.second import examine_again
from minigrad.gradcheck.locate.source_lines import Lines
from minigrad.gradcheck.locate.steps import examine, steps_of
from minigrad.gradcheck.results import GradcheckError, explained
from minigrad.modes import Mode, enable_grad, readable


@dataclass
class Located:
    """The result of locate: the first op whose rule is wrong, with its node, Result and line; or none."""

    checked: int = 0
    name: str = ""  # of the wrong op; empty if every rule is right
    result: object = None
    diagnoses: list = field(default_factory=list)
    node: object = None
    line: str = ""
    inside: str = ""
    order: int = 1

    @property
    def ok(self):
        return not self.name

    def where(self):
        """Describe the op and the line that made it, in one sentence."""
        if self.node is None and self.name:
            return self.result
        if self.node is None:
            return (
                f"The rules of all {self.checked} ops inside agree with differences of their own functions."
            )
        return f"Op: {self.name}{self.inside}, {self.line}"

    def __str__(self):
        if self.ok or self.node is None:
            return "\n".join([self.where(), *(f"  Likely: {d}" for d in self.diagnoses[:1])])
        what = {
            1: "whose rule disagrees with finite differences",
            2: "whose rule, differentiated again, disagrees with finite differences",
        }[self.order]
        lines = f"The first op {what} is {self.name}{self.inside}, {self.line}", f"  {self.result}"
        return explained("\n".join(lines), self.diagnoses)

    __repr__ = __str__


def locate(loss, *inputs, order=1, seed=0):
    """Find the first op whose rule is wrong.

    Returns a Located: print it, or read its `ok`, `name`, `result.index`, `diagnoses` and `line`.

    loss    a scalar Tensor whose history was not released; or a function, called as loss(*inputs), that
            returns one or several Tensors. A function has two advantages: its source lines are known, and it
            runs a second time with kernels replaced by their definitions, so that the steps inside kernels
            are checked too. For a Tensor, the lines are known only if it was computed under detect_anomaly().
    order   2 finds the rule whose own derivative is wrong

    Ops are checked oldest first, each by itself: with its own arguments in float64 and a random incoming
    gradient. The graph releases arguments that no rule reads; they are recomputed from the nodes before them.
    The ops inside a checkpoint are checked too.
    """
    if isinstance(loss, Tensor):
        return _locate_in_graph([loss], Lines(), order, seed)
    found = None
    for by_definition in (False, True):
        lines, state = Lines(), random.get_state()
        try:
            with Mode(readable, by_definition or readable.get()), enable_grad(), lines:
                values = loss(*inputs)
        finally:
            random.set_state(state)
        values = list(values) if isinstance(values, (list, tuple)) else [values]
        floats = [y for y in values if isinstance(y, Tensor) and y.dtype.kind == "f"]
        found = _locate_in_graph(floats, lines, order, seed)
        if not found.ok:
            return found
    return found


def _locate_in_graph(values, lines, order, seed):
    starts = [y.node for y in values if y.node is not None]
    if not starts:
        raise GradcheckError(
            "There is no graph to check: no tensor that this value was computed from requires a gradient "
            "(or it was computed under no_grad)."
        )
    _check_history(starts)
    rng, steps = np.random.default_rng(seed), steps_of(starts)
    for step in steps:
        wrong = examine(step, rng) if order == 1 else examine_again(step, seed)
        if wrong:
            worst = max(wrong, key=lambda r: (bool(r.problem), r.error))
            return _make_located(step, worst, lines, len(steps), order)
    engine = examine_engine([y for y in values if y.node is not None], rng) if order == 1 else None
    if engine is not None:
        return Located(len(steps), "the engine", engine.sentence, [engine.diagnosis])
    return Located(len(steps))


def _make_located(step, worst, lines, checked, order):
    inside, line = lines.find(step.node)
    diagnoses = diagnose(worst.evidence) if order == 1 else worst.diagnoses
    return Located(checked, step.name, worst, diagnoses, step.node, line, inside, order)


def _check_history(starts):
    for node in nodes_behind(starts):
        if node.released:
            raise GradcheckError(
                f"The history of {node} was released by backward, so there is nothing left to check. Call "
                "locate before backward, or use backward(retain_graph=True), or pass locate the function "
                "that computes the loss."
            )
