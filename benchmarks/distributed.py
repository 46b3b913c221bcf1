"""Compare a training step of two MPI processes with one of two threads, and model the cost of more processes.

mpiexec -n 2 python -m benchmarks.distributed            measure every way in turn, in one run
python -m benchmarks.distributed --model                 model up to 1,000 processes, without MPI
"""

import argparse
import gc
import statistics
import sys
import time
from functools import partial

import numpy as np

from benchmarks import dates, gpt
from minigrad import optim
from minigrad.machine import blas_threads, keep_freed_memory
from minigrad.nn.utils import clip_grad_norm_
from minigrad.training.job import world
from minigrad.training.ranks import BUCKET_BYTES, Ranks
from minigrad.training.threads import Sharing

NEVER = 10**9  # weights are not compared across ranks: they differ after the turns of a single process
ONE_BUCKET = 2**40  # larger than any model: nothing is sent before the reverse pass is over


class WithAllreduce(Ranks):
    """Ranks that sum gradients by MPI_Iallreduce, which may add in any order."""

    @staticmethod
    def summing(scattering, _gathering, flat):
        from mpi4py import MPI

        yield scattering.Iallreduce(MPI.IN_PLACE, flat)


class Alone(Ranks):
    """Ranks that do not sum gradients: the difference in time is the cost of communication."""

    @staticmethod
    def summing(scattering, _gathering, flat):
        yield scattering.Ibarrier()


# ---------------------------------------------------------------- the jobs, and the ways to run them


def reference(tiny):
    size = gpt.TRIAL if tiny else gpt.SIZES["reference"]
    model = gpt.our_model(size)
    return gpt.Windows({}), model, optim.AdamW(model.parameters(), betas=gpt.BETAS), gpt.all_batches(size)


def date(tiny):
    recipe, model, optimizer, _, batches = dates.set_up(dates.TINY if tiny else {})
    return recipe, model, optimizer, batches


JOBS = {"reference": reference, "dates": date}


def alone(threads, recipe, model, batch):
    with blas_threads(threads):
        loss = recipe.loss(model, batch)
        loss.backward()


def ways(comm):
    """Map names of ways to (True if every process takes part, backward(recipe, model, batch))."""
    found = {
        "1 process, 1 thread": (False, partial(alone, 1)),
        "1 process, 2 threads share products": (False, partial(alone, 2)),
    }
    found["1 process, 2 threads share the batch"] = (False, Sharing(2).backward)
    for name, kind, bytes_ in (
        ("overlapped", Ranks, BUCKET_BYTES),
        ("after backward", Ranks, ONE_BUCKET),
        ("overlapped, MPI_Iallreduce", WithAllreduce, BUCKET_BYTES),
        ("after backward, MPI_Iallreduce", WithAllreduce, ONE_BUCKET),
        ("no sum (wrong)", Alone, BUCKET_BYTES),
    ):
        found[f"{comm.size} processes, {name}"] = (True, kind(comm, bytes_, check_every=NEVER).backward)
    return found


def rest(comm):
    """Wait for the other ranks without disturbing them: MPI's own wait keeps a core busy."""
    request = comm.Ibarrier()
    while not request.Test():
        time.sleep(0.002)


def turn(comm, everyone, backward, job, steps):
    """Measure the seconds per step on rank 0. The other ranks take part or rest."""
    recipe, model, optimizer, batches = job
    rest(comm)
    seconds = 0.0
    if everyone or comm.rank == 0:
        gc.collect()
        for step in range(-2, steps):
            if step == 0:
                start = time.perf_counter()
            optimizer.zero_grad()
            backward(recipe, model, batches[step % len(batches)])
            clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        seconds = (time.perf_counter() - start) / steps
    rest(comm)
    return seconds


def measure(comm, tiny=False, rounds=9, steps=20):
    """Measure all ways of all jobs: {job: {way: [seconds per step, one per round]}}."""
    keep_freed_memory()
    found = {}
    for name, build in JOBS.items():
        job, way = build(tiny), ways(comm)
        times = {key: [] for key in way}
        for number in range(rounds):
            for key in list(way)[:: 1 if number % 2 == 0 else -1]:
                with blas_threads(2 if "products" in key else 1):
                    times[key].append(turn(comm, *way[key], job, steps))
        found[name] = times
    return found


# ---------------------------------------------------------------- the model


def ring_seconds(bytes_, ranks, latency, bandwidth):
    """Time of a ring all-reduce: in 2 (p - 1) rounds every rank sends bytes / p to its neighbour."""
    return 2 * (ranks - 1) * (latency + bytes_ / ranks / bandwidth)


def tree_seconds(bytes_, ranks, latency, bandwidth):
    """Time to reduce up a binary tree and broadcast down: 2 ceil(log2 p) rounds, each for all bytes."""
    return 2 * int(np.ceil(np.log2(ranks))) * (latency + bytes_ / bandwidth)


def naive_seconds(bytes_, ranks, latency, bandwidth):
    """Time if rank 0 receives the gradients of each rank in turn and sends each rank the sum."""
    return 2 * (ranks - 1) * (latency + bytes_ / bandwidth)


def efficiency(compute, hidden, all_reduce):
    """The fraction of a step not spent waiting, if `hidden` seconds of the all-reduce overlap backward."""
    return compute / (compute + max(0.0, all_reduce - hidden))


def model_costs(bytes_, compute, latency, bandwidth, overlap, counts=(1, 2, 4, 8, 16, 64, 256, 1000)):
    """Model [(ranks, ring seconds, tree seconds, naive seconds, efficiency without overlap, with overlap)].

    Every rank computes for `compute` seconds, so the batch grows with the ranks (weak scaling). `overlap` is
    the fraction of a step during which messages can be sent.
    """
    rows = []
    for p in counts:
        ring, tree, naive = (
            cost(bytes_, p, latency, bandwidth) if p > 1 else 0.0
            for cost in (ring_seconds, tree_seconds, naive_seconds)
        )
        rows.append(
            (
                p,
                ring,
                tree,
                naive,
                efficiency(compute, 0.0, ring),
                efficiency(compute, overlap * compute, ring),
            )
        )
    return rows


# ---------------------------------------------------------------- the command


def main(argv=None):
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.distributed", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--model", action="store_true", help="print the modelled table only")
    parser.add_argument("--tiny", action="store_true", help="small models, to try the command")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument(
        "--megabytes", type=float, default=3.23, help="megabytes of gradients (default: the reference GPT's)"
    )
    parser.add_argument("--compute", type=float, default=0.040, help="seconds of a step without messages")
    parser.add_argument(
        "--latency", type=float, default=20e-6, help="seconds until a message's first byte arrives"
    )
    parser.add_argument(
        "--bandwidth",
        type=float,
        default=1.25e9,
        help="bytes per second between two machines (default: 10 gigabit)",
    )
    parser.add_argument(
        "--overlap", type=float, default=0.5, help="fraction of a step during which gradients can be sent"
    )
    options = parser.parse_args(argv)
    if options.model:
        print_model(options)
        return 0
    comm = world()
    found = measure(comm, options.tiny, options.rounds, options.steps)
    if comm.rank == 0:
        for job, times in found.items():
            print_times(job, times)
    return 0


def print_times(job, times):
    first = times["1 process, 2 threads share the batch"]
    print(
        f"| {job} | ms per step: median (quartiles) | ratio to two threads that share the batch |\n"
        "| --- | --- | --- |"
    )
    for way, seconds in times.items():
        low, middle, high = statistics.quantiles([1e3 * s for s in seconds], n=4, method="inclusive")
        ratio = statistics.median(s / f for s, f in zip(seconds, first, strict=True))
        print(f"| {way} | {middle:.1f} ({low:.1f} to {high:.1f}) | {ratio:.2f} |")


def print_model(options):
    print(
        f"{options.megabytes} MB of gradients, {1e3 * options.compute:g} ms of compute per step on each "
        f"rank, latency {1e6 * options.latency:g} us, {options.bandwidth / 1e9:g} GB/s per link in each "
        "direction. The model assumes that no two messages share a link, adding costs nothing, all ranks are "
        f"equally fast, and messages can be sent during {options.overlap:.0%} of a step."
    )
    print(
        "| ranks | ring ms | tree ms | naive ms | efficiency | with overlap |\n"
        "| --- | --- | --- | --- | --- | --- |"
    )
    network = options.latency, options.bandwidth, options.overlap
    costs = model_costs(options.megabytes * 1e6, options.compute, *network)
    for p, ring, tree, naive, bare, hidden in costs:
        print(
            f"| {p:,} | {1e3 * ring:.2f} | {1e3 * tree:.2f} | {1e3 * naive:.2f} | {bare:.1%} | {hidden:.1%} |"
        )


if __name__ == "__main__":
    sys.exit(main())
