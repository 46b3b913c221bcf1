"""Takes the sides of a case through the same steps in turns, and says how long each took. Knows no models and no libraries.

Each side has a process of its own, so that neither memory, allocator settings nor thread pools of one become the other's.
Only one works at a time; the others wait for their pipe.
"""

import gc
import multiprocessing
import statistics
import sys
import time
from contextlib import ExitStack

from benchmarks import machine

CHECKED = 20  # steps whose losses must agree before anything is timed
TOLERANCE = 1e-4  # of float32 losses, absolute and relative
WARM = 2  # steps at the start of each turn that are not timed: they bring caches and threads back
PAUSE = 0.05  # seconds before a turn, in which the threads of the side before stop spinning


class Refusal(Exception):
    """The sides do not do the same work, or one cannot run: there is nothing to time."""


def run(case, threads, rounds, steps):
    """Check, then time: a result (dict) for each side that is installed, ours first."""
    sides = [side for side in case.sides if side.is_installed()]
    with ExitStack() as stack:
        workers = [stack.enter_context(Worker(side, threads)) for side in sides]
        for worker in workers:
            worker.wait_until_built()
        check(case, workers)
        turns = alternate(workers, rounds, steps)
    return [
        result(case, threads, worker, [turn[worker] for turn in turns], [turn[workers[0]] for turn in turns], steps)
        for worker in workers
    ]


def check(case, workers):
    """Refuse unless all sides, from the same weights on the same batches, have the same losses."""
    ours, *others = [(worker.side.name, worker.turn(0, 0, CHECKED)["losses"]) for worker in workers]
    for name, losses in others:
        for number, (a, b) in enumerate(zip(ours[1], losses, strict=True)):
            if not abs(a - b) <= TOLERANCE * (1 + abs(b)):  # NaN refuses too
                raise Refusal(
                    f"{case.name}: at step {number} the loss of {ours[0]} is {a:.6g}, of {name} {b:.6g}. They do not compute "
                    "the same, so their times are not compared."
                )


def alternate(workers, rounds, steps):
    """A dict worker -> turn for each round; every other round in reverse order, so that nobody always comes first."""
    turns = []
    for i in range(rounds):
        first = CHECKED + i * (WARM + steps)
        turns.append({worker: worker.turn(first, WARM, steps) for worker in workers[:: 1 if i % 2 == 0 else -1]})
    return turns


def result(case, threads, worker, turns, ours, steps):
    """A side's figures: a round's time is its whole time / its steps, so that the garbage collector's rare work counts."""
    seconds = [turn["seconds"] / (steps * case.units) for turn in turns]
    ratios = [a["seconds"] / b["seconds"] for a, b in zip(ours, turns, strict=True)]
    faults = statistics.median(turn["page faults"] for turn in turns) / steps
    return {
        "case": case.name, "threads": threads, "side": worker.side.name, "unit": case.unit,
        "seconds": quartiles(seconds), "ratio": quartiles(ratios), "rounds": seconds,
        "peak MB": turns[-1]["peak MB"], "page faults a step": faults, "blas": worker.blas,
    }  # fmt: skip


def quartiles(values):
    """[first quartile, median, third quartile]."""
    return statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else values * 3


# ---------------------------------------------------------------- a side's process


class Worker:
    """A side in a process of its own, seen from outside."""

    def __init__(self, side, threads):
        self.side = side
        context = multiprocessing.get_context("spawn")  # a fresh interpreter: nothing inherited but the environment
        self.pipe, far_end = context.Pipe()
        self.process = context.Process(target=serve, args=(far_end, side, threads), daemon=True)
        self.process.start()
        far_end.close()  # the child holds the only one, so that we hear when it dies

    def wait_until_built(self):
        self.blas = self._receive()

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
    step = side.build()
    limit_threads(threads)  # after building: only libraries that are loaded can be limited
    try:
        pipe.send(machine.blas())
        while True:
            pipe.send(take(step, *pipe.recv()))
    except (EOFError, BrokenPipeError):
        pass


def limit_threads(threads):
    import threadpoolctl

    threadpoolctl.threadpool_limits(threads)
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(threads)  # its own BLAS is linked in, where threadpoolctl does not see it


def take(step, first, warm, count):
    """`warm` steps, then `count` steps with the clock running."""
    gc.collect()  # what earlier turns left behind is not this turn's work
    for number in range(first, first + warm):
        step(number)
    faults, start = machine.page_faults(), time.perf_counter()
    losses = [step(number) for number in range(first + warm, first + warm + count)]
    seconds, faults = time.perf_counter() - start, machine.page_faults() - faults
    return {"seconds": seconds, "losses": losses, "page faults": faults, "peak MB": machine.peak_memory()}
