"""Takes the sides of a case through the same steps in turns, and says how long each took. Knows no models and no libraries.

Each side has a process of its own, so that neither memory, allocator settings nor thread pools of one become the other's.
Only one works at a time; the others wait for their pipe.
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

PAUSE = 0.05  # seconds before a turn, in which the threads of the side before stop spinning


class Refusal(Exception):
    """The sides do not do the same work, or one cannot run: there is nothing to time."""


def run(case, threads, rounds=None, steps=None):
    """Check, then time: a result (dict) for each side that is installed, ours first. rounds and steps: the case's if not given."""
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
    """Refuse unless all sides, from the same weights on the same batches, have the same losses."""
    told = [(worker.side, worker.turn(0, 0, case.checked)["losses"]) for worker in workers]
    ours, *others = [(side.name, losses) for side, losses in told if side.checked]
    for name, losses in others:
        for number, (a, b) in enumerate(zip(ours[1], losses, strict=True)):
            if not abs(a - b) <= case.tolerance * (1 + abs(b)):  # NaN refuses too
                raise Refusal(
                    f"{case.name}: at step {number} the loss of {ours[0]} is {a:.6g}, of {name} {b:.6g}. They do not compute "
                    "the same, so their times are not compared."
                )


def alternate(case, workers, rounds, steps):
    """A dict worker -> turn for each round; every other round in reverse order, so that nobody always comes first."""
    turns = []
    for i in range(rounds):
        first = case.checked + i * (case.warm + steps)
        turns.append(
            {worker: worker.turn(first, case.warm, steps) for worker in workers[:: 1 if i % 2 == 0 else -1]}
        )
    return turns


def result(case, threads, worker, turns, ours, limit, steps):
    """A side's figures: a round's time is its whole time / its steps, so that the garbage collector's rare work counts.

    Ratios are taken within each round: ours / this side's, and the time of the matrix products alone / this side's.
    """
    times = [turn[worker]["seconds"] for turn in turns]
    mine = [turn[worker] for turn in turns]
    peak = mine[-1]["peak MB"]
    return {
        "case": case.name, "threads": threads, "side": worker.side.name, "unit": case.unit,
        "seconds": quartiles([t / (steps * case.units) for t in times]),
        "ratio": quartiles([turn[ours]["seconds"] / t for turn, t in zip(turns, times, strict=True)]),
        "of GEMM limit": limit and quartiles([turn[limit]["seconds"] / t for turn, t in zip(turns, times, strict=True)]),
        "rounds": [t / (steps * case.units) for t in times], "steps a round": steps,
        "peak MB": peak, "MB over import": over(peak, worker.imported), "MB over inputs": over(peak, worker.built),
        "page faults a step": statistics.median(turn["page faults"] for turn in mine) / steps,
        "cores busy": statistics.median(turn["cpu seconds"] / turn["seconds"] for turn in mine), "blas": worker.blas,
    }  # fmt: skip


def over(peak, before):
    return None if peak is None or before is None else peak - before


def quartiles(values):
    """[first quartile, median, third quartile]."""
    return statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else values * 3


# ---------------------------------------------------------------- a side's process


class Worker:
    """A side in a process of its own, seen from outside."""

    def __init__(self, side, threads):
        self.side = side
        # a fresh interpreter: nothing inherited but the environment
        context = multiprocessing.get_context("spawn")
        self.pipe, far_end = context.Pipe()
        self.process = context.Process(target=serve, args=(far_end, side, threads), daemon=True)
        self.process.start()
        far_end.close()  # the child holds the only one, so that we hear when it dies

    def is_built(self):
        """Wait until it is; False, and a sentence, where it cannot be and may fail."""
        told = self._receive()
        if "failed" in told:
            sentence = f"{self.side.name} cannot be measured here: {told['failed']}"
            if not self.side.may_fail:
                raise Refusal(sentence)
            print(sentence, file=sys.stderr)
            return False
        self.imported, self.built, self.blas = told["imported MB"], told["built MB"], told["blas"]
        return True

    def turn(self, first, warm, count):
        """Take `warm` and then `count` timed steps from number `first`."""
        time.sleep(PAUSE)
        self.pipe.send((first, warm, count))
        return self._receive()

    def _receive(self):
        try:
            return self.pipe.recv()
        except (EOFError, ConnectionResetError):
            raise Refusal(f"The process of {self.side.name} ended; what it said stands above.") from None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.pipe.close()
        self.process.join()


def serve(pipe, side, threads):
    """The life of a side's process: build, then take steps when asked, until the pipe closes."""
    if side.pinned and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    importlib.import_module(side.needs)
    limit_threads(threads)  # before building, since what is compiled there is compiled for so many threads
    told = {"imported MB": machine.memory()}
    try:
        step = side.build()
        limit_threads(threads)  # and after it: only libraries that are loaded can be limited
    except Exception as error:
        traceback.print_exc()
        pipe.send(
            {"failed": f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error) else ''}"}
        )
        return
    try:
        pipe.send({**told, "built MB": machine.memory(), "blas": machine.blas()})
        while True:
            pipe.send(take(step, *pipe.recv()))
    except (EOFError, BrokenPipeError):
        pass


def limit_threads(threads):
    import threadpoolctl

    threadpoolctl.threadpool_limits(threads)
    if "torch" in sys.modules:
        # its own BLAS is linked in, where threadpoolctl does not see it
        sys.modules["torch"].set_num_threads(threads)


def take(step, first, warm, count):
    """`warm` steps, then `count` steps with the clock running."""
    gc.collect()  # what earlier turns left behind is not this turn's work
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
