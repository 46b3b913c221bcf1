"""locate: which op of a graph has the wrong rule?

Runs each node's rule alone, on the arrays it had, against differences of its own function.

Knows what a node is; takes no rule on trust, nor the engine that puts them together (engine_faults.py looks at that).
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
from minigrad.gradcheck.results import GradcheckError
from minigrad.modes import Mode, enable_grad, readable


@dataclass
class Located:
    """What locate found: the first op whose rule is wrong (its node, the argument, both values, the line), or that none is."""

    checked: int = 0
    name: str = ""  # of the op; empty if every rule is right
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
        """One sentence: the op and the line that made it."""
        if self.node is None:
            return (
                self.result
                if self.name
                else f"The rules of all {self.checked} ops inside agree with differences of their own functions."
            )
        return f"Op: {self.name}{self.inside}, {self.line}"

    def __str__(self):
        if self.ok or self.node is None:
            return "\n".join([self.where(), *(f"  Likely: {d}" for d in self.diagnoses[:1])])
        what = {
            1: "whose rule disagrees with finite differences",
            2: "whose rule, differentiated again, disagrees with finite differences",
        }[self.order]
        lines = [f"The first op {what} is {self.name}{self.inside}, {self.line}", f"  {self.result}"]
        return "\n".join(
            lines + [f"  {'Likely' if i == 0 else 'Or'}: {d}" for i, d in enumerate(self.diagnoses[:2])]
        )

    __repr__ = __str__


def locate(loss, *inputs, order=1, seed=0):
    """Which op has the wrong gradient? A Located: print it, or ask it for `name`, `result.index`, `diagnoses`, `line`, `ok`.

    loss    a scalar Tensor whose history is still there; or a function, called as loss(*inputs), that returns one (or several).
            Of a function the source lines are known, and it is run a second time by the readable definitions, so that the steps
            inside kernels show too. Of a ready loss the lines are known only if it was computed under detect_anomaly().
    order   2 looks for the rule whose own derivative is wrong

    Ops are checked oldest first, each alone: its arguments as they were, in float64, a random gradient of its value. An
    argument whose numbers the graph has let go (no rule reads them) is computed again from what is before it. A checkpoint
    is opened.
    """
    if isinstance(loss, Tensor):
        return _in_graph([loss], Lines(), order, seed)
    found = None
    for by_definition in (False, True):
        lines, state = Lines(), random.get_state()
        try:
            with Mode(readable, by_definition or readable.get()), enable_grad(), lines:
                values = loss(*inputs)
        finally:
            random.set_state(state)
        values = list(values) if isinstance(values, (list, tuple)) else [values]
        found = _in_graph(
            [y for y in values if isinstance(y, Tensor) and y.dtype.kind == "f"], lines, order, seed
        )
        if not found.ok:
            return found
    return found


def _in_graph(values, lines, order, seed):
    starts = [y.node for y in values if y.node is not None]
    if not starts:
        raise GradcheckError(
            "There is no graph to look into: nothing that went into this value requires a gradient (or it was computed under "
            "no_grad)."
        )
    _check_history(starts)
    rng, steps = np.random.default_rng(seed), steps_of(starts)
    for step in steps:
        wrong = examine(step, rng) if order == 1 else examine_again(step, seed)
        if wrong:
            worst = max(wrong, key=lambda r: (bool(r.problem), r.error))
            return _located(step, worst, lines, len(steps), order)
    engine = examine_engine([y for y in values if y.node is not None], rng) if order == 1 else None
    if engine is not None:
        return Located(len(steps), "the engine", engine.sentence, [engine.diagnosis])
    return Located(len(steps))


def _located(step, worst, lines, checked, order):
    inside, line = lines.of(step.node)
    diagnoses = diagnose(worst.evidence) if order == 1 else worst.diagnoses
    return Located(checked, step.name, worst, diagnoses, step.node, line, inside, order)


def _check_history(starts):
    for node in nodes_behind(starts):
        if node.released:
            raise GradcheckError(
                f"The history of {node} has been used up by backward, so there is nothing left to look into. Call locate "
                f"before backward, or backward("
                "retain_graph=True), or give locate the function that computes the loss."
            )
