"""Run the sides of a case through the same steps in turns, and measure the time and memory of each.

Each side has its own process, so that sides share no memory, allocator settings or thread pools. Only one
works at a time; the others wait for their pipe.
"""

import gc
import importlib
import multiprocessing
import os
import statistics
import sys
import time
import traceback
from contextlib import ExitStack

from benchmarks import machine
from benchmarks.case import GEMMS

PAUSE = 0.05  # seconds before a turn, for the threads of the previous side to stop spinning


class Refusal(Exception):
    """Raised if the sides do not do the same work, or one cannot run, so that there is nothing to time."""


def run(case, threads, rounds=None, steps=None):
    """Check the sides of a case, then time them. Returns a dict for each installed side, ours first.

    rounds, steps  the case's own if None
    """
    rounds, steps = rounds or case.rounds, steps or case.steps
    with ExitStack() as stack:
        workers = [
            stack.enter_context(Worker(side, threads))
            for side in case.sides
            if side.is_installed() and threads >= side.fewest_threads
        ]
        workers = [worker for worker in workers if worker.is_built()]
        check(case, workers)
        turns = alternate(case, workers, rounds, steps)
    limit = next((worker for worker in workers if worker.side.name == GEMMS), None)
    return [result(case, threads, worker, turns, workers[0], limit, steps) for worker in workers]


def check(case, workers):
    """Check that all sides have equal losses, from the same weights on the same batches.

    Raises Refusal if not.
    """
    found = [(worker.side, worker.turn(0, 0, case.checked)["losses"]) for worker in workers]
    ours, *others = [(side.name, losses) for side, losses in found if side.checked]
    for name, losses in others:
        for number, (a, b) in enumerate(zip(ours[1], losses, strict=True)):
            if not abs(a - b) <= case.tolerance * (1 + abs(b)):  # NaN refuses too
                raise Refusal(
                    f"{case.name}: at step {number} the loss of {ours[0]} is {a:.6g}, of {name} {b:.6g}. "
                    "They do not compute the same, so their times are not compared."
                )


def alternate(case, workers, rounds, steps):
    """Run the rounds, every other one in reverse order so that no side is always first.

    Returns [{worker: turn}].
    """
    turns = []
    for i in range(rounds):
        first = case.checked + i * (case.warm + steps)
        turns.append(
            {worker: worker.turn(first, case.warm, steps) for worker in workers[:: 1 if i % 2 == 0 else -1]}
        )
    return turns


def result(case, threads, worker, turns, ours, limit, steps):
    """Compute a side's figures.

    The time of a step is the time of a round / its steps, so that the garbage collector's rare work counts.
    Ratios are computed within each round: our time / this side's, and the time of the matrix products / this
    side's.
    """
    times = [turn[worker]["seconds"] for turn in turns]
    mine = [turn[worker] for turn in turns]
    peak = mine[-1]["peak MB"]

    def ratios(to):
        return quartiles([turn[to]["seconds"] / t for turn, t in zip(turns, times, strict=True)])

    return {
        "case": case.name,
        "threads": threads,
        "side": worker.side.name,
        "unit": case.unit,
        "seconds": quartiles([t / (steps * case.units) for t in times]),
        "ratio": ratios(ours),
        "of GEMM limit": limit and ratios(limit),
        "rounds": [t / (steps * case.units) for t in times],
        "steps a round": steps,
        "peak MB": peak,
        "MB over import": over(peak, worker.imported),
        "MB over inputs": over(peak, worker.built),
        "page faults a step": statistics.median(turn["page faults"] for turn in mine) / steps,
        "cores busy": statistics.median(turn["cpu seconds"] / turn["seconds"] for turn in mine),
        "blas": worker.blas,
    }


def over(peak, before):
    return None if peak is None or before is None else peak - before


def quartiles(values):
    """[first quartile, median, third quartile]."""
    return statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else values * 3


# ---------------------------------------------------------------- a side's process


class Worker:
    """The handle of a side's process."""

    def __init__(self, side, threads):
        self.side = side
        # a new interpreter, which inherits only the environment
        context = multiprocessing.get_context("spawn")
        self.pipe, far_end = context.Pipe()
        self.process = context.Process(target=serve, args=(far_end, side, threads), daemon=True)
        self.process.start()
        far_end.close()  # only the child keeps it, so the pipe breaks if the child dies

    def is_built(self):
        """Wait until the side is built.

        If that fails, prints why and returns False if the side may fail, else raises Refusal.
        """
        answer = self._receive()
        if "failed" in answer:
            message = f"{self.side.name} cannot be measured here: {answer['failed']}"
            if not self.side.may_fail:
                raise Refusal(message)
            print(message, file=sys.stderr)
            return False
        self.imported, self.built, self.blas = answer["imported MB"], answer["built MB"], answer["blas"]
        return True

    def turn(self, first, warm, count):
        """Run `warm` untimed and then `count` timed steps, starting with step number `first`."""
        time.sleep(PAUSE)
        self.pipe.send((first, warm, count))
        return self._receive()

    def _receive(self):
        try:
            return self.pipe.recv()
        except (EOFError, ConnectionResetError):
            raise Refusal(f"The process of {self.side.name} ended; its output is above.") from None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.pipe.close()
        self.process.join()


def serve(pipe, side, threads):
    """Run in a side's process: build, then run steps on request until the pipe closes."""
    if side.pinned and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    importlib.import_module(side.needs)
    limit_threads(threads)  # before building: code is compiled for a number of threads
    imported = machine.memory()
    try:
        step = side.build()
        limit_threads(threads)  # and after building: only loaded libraries can be limited
    except Exception as error:
        traceback.print_exc()
        pipe.send(
            {"failed": f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error) else ''}"}
        )
        return
    try:
        pipe.send({"imported MB": imported, "built MB": machine.memory(), "blas": machine.blas()})
        while True:
            pipe.send(take(step, *pipe.recv()))
    except (EOFError, BrokenPipeError):
        pass


def limit_threads(threads):
    import threadpoolctl

    threadpoolctl.threadpool_limits(threads)
    if "torch" in sys.modules:
        # torch has its BLAS linked in, where threadpoolctl does not see it
        sys.modules["torch"].set_num_threads(threads)


def take(step, first, warm, count):
    """Run `warm` steps, then `count` timed steps."""
    gc.collect()  # garbage of earlier turns is not this turn's work
    for number in range(first, first + warm):
        step(number)
    faults, cpu, start = machine.page_faults(), time.process_time(), time.perf_counter()
    losses = [step(number) for number in range(first + warm, first + warm + count)]
    seconds, cpu, faults = (
        time.perf_counter() - start,
        time.process_time() - cpu,
        machine.page_faults() - faults,
    )
    return {
        "seconds": seconds,
        "cpu seconds": cpu,
        "losses": losses,
        "page faults": faults,
        "peak MB": machine.peak_memory(),
    }
