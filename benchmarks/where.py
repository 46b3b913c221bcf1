"""python -m benchmarks where [JOB]: profile one of our steps, op by op, forward and backward.

It puts a clock around the few functions of the engine through which every op passes. The forward time of an
op is its arithmetic and its recording, the backward time that of its rule or kernel. The rest of a step is
listed as well: the optimizer, clipping, the reverse pass (order, sums), and Python's rest (modules, loss).
"""

import argparse
import importlib
import sys
import time
from collections import defaultdict
from contextlib import ExitStack, contextmanager
from unittest import mock

from benchmarks.case import GEMMS
from benchmarks.measure import limit_threads
from minigrad import optim
from minigrad.engine import graph, recording, reverse_pass, tensor
from minigrad.nn import utils

HEADER = ("what", "calls", "forward ms", "backward ms", "share")


def main(argv, jobs):
    options = parse(argv, jobs)
    (case, *_) = importlib.import_module(jobs[options.job]).cases(options.job, options.tiny)
    spent = measure(importlib.import_module(jobs[options.job]), case, options.threads, options.steps)
    print("\n".join(lines(spent, options.steps)))
    limit = next((side for side in case.sides if side.name == GEMMS), None)
    if limit:
        print(f"\nIts matrix products alone: {1e3 * seconds_of(limit.build(), options.steps):.2f} ms")
    return 0


def parse(argv, jobs):
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks where", description="Profile one of our steps, op by op."
    )
    parser.add_argument("job", nargs="?", default="reference", choices=jobs, help="default: reference")
    parser.add_argument(
        "--steps", type=int, default=50, help="number of steps; the figures are means (default: 50)"
    )
    parser.add_argument("--threads", type=int, default=1, help="threads of matrix products (default: 1)")
    parser.add_argument("--tiny", action="store_true", help="a small size, to try the command")
    return parser.parse_args(argv)


# ---------------------------------------------------------------- the clocks


class Spent:
    """Seconds and calls by (part, name).

    The time of an inner timed function is subtracted from the outer one.
    """

    def __init__(self):
        self.seconds, self.calls, self.inner = defaultdict(float), defaultdict(int), [0.0]

    @contextmanager
    def on(self, part, name):
        self.inner.append(0.0)
        start = time.perf_counter()
        try:
            yield
        finally:
            took = time.perf_counter() - start
            self.seconds[part, name] += took - self.inner.pop()
            self.calls[part, name] += 1
            self.inner[-1] += took

    def wrap(self, fun, part, name):
        """Wrap fun with a clock. `name` is a string, or a function that computes it from the arguments."""

        def call(*args, **kwargs):
            with self.on(part, name if isinstance(name, str) else name(*args)):
                return fun(*args, **kwargs)

        return call


def measure(module, case, threads, steps):
    """Measure `steps` steps of our side. Returns a Spent."""
    step, spent = case.sides[0].build(), Spent()
    limit_threads(threads)
    step(0)
    with ExitStack() as stack:
        for owner, attribute, part, name in timed_functions(module):
            clock = spent.wrap(getattr(owner, attribute), part, name)
            stack.enter_context(mock.patch.object(owner, attribute, clock))
        for number in range(1, steps + 1):
            with spent.on("other", "Python's rest: modules, loss, batch"):
                step(number)
    return spent


def timed_functions(module):
    """Yield (owner, attribute, part, name) of each function that gets a clock.

    module  the job's module, which may have imported clip_grad_norm_
    """
    for owner in holders(recording.record):
        yield owner, "record", "forward", lambda fun, *_: graph.name_of(fun)
    yield reverse_pass, "vjp", "backward", lambda node, *_: node.name
    yield tensor.Tensor, "backward", "other", "the reverse pass: order, sums"
    for owner in {module, *holders(utils.clip_grad_norm_)}:
        if hasattr(owner, "clip_grad_norm_"):
            yield owner, "clip_grad_norm_", "other", "clipping"
    for kind in vars(optim).values():
        if isinstance(kind, type) and issubclass(kind, optim.Optimizer) and "step" in vars(kind):
            yield kind, "step", "other", "the optimizer"


def holders(fun):
    """List the modules of minigrad that have imported a function by name: each needs the clock."""
    ours = [module for name, module in sys.modules.items() if name.split(".")[0] == "minigrad"]
    return [module for module in ours if vars(module).get(fun.__name__) is fun]


def seconds_of(step, count):
    step(0)
    start = time.perf_counter()
    for number in range(count):
        step(number)
    return (time.perf_counter() - start) / count


# ---------------------------------------------------------------- the table


def lines(spent, steps):
    """Format a Markdown table: the most expensive op first, the total at the end."""
    total = sum(spent.seconds.values())
    names = {(name if part != "other" else None, name) for part, name in spent.seconds}
    rows = []
    for op, name in names:
        forward, backward, other = (
            spent.seconds.get((part, name), 0.0) for part in ("forward", "backward", "other")
        )
        calls = spent.calls.get(("forward" if op else "other", name), 0) / steps
        rows.append((forward + backward + other, name, calls, forward if op else other, backward))
    rows.sort(reverse=True)
    rows.append((total, "the whole step", 1, total, 0.0))
    cells = [
        (name, f"{calls:g}", ms(a, steps), ms(b, steps), f"{whole / total:.1%}")
        for whole, name, calls, a, b in rows
    ]
    return ["| " + " | ".join(row) + " |" for row in (HEADER, ("---",) * len(HEADER), *cells)]


def ms(seconds, steps):
    return f"{1e3 * seconds / steps:.2f}" if seconds else ""
