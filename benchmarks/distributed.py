"""A training step by two processes beside one with two threads, and what more processes would cost. Knows MPI (mpi4py).

mpiexec -n 2 python -m benchmarks.distributed            measured, every way in turn, in one run
python -m benchmarks.distributed --model                 modelled up to 1,000 processes, on paper: needs no MPI
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

NEVER = 10**9  # the weights are not compared: in the turns of one process the other's stay behind
ONE_BUCKET = 2**40  # larger than any model: nothing travels before the reverse pass is over


class WithAllreduce(Ranks):
    """MPI's own sum, which may add in any order it likes."""

    @staticmethod
    def summing(scattering, _gathering, flat):
        from mpi4py import MPI

        yield scattering.Iallreduce(MPI.IN_PLACE, flat)


class Alone(Ranks):
    """No sum at all: what the gradients' travel costs is the difference."""

    @staticmethod
    def summing(scattering, _gathering, flat):
        yield scattering.Ibarrier()


# ---------------------------------------------------------------- the jobs, and the ways to do them


def reference(tiny):
    size = gpt.TRIAL if tiny else gpt.SIZES["reference"]
    model = gpt.our_model(size)
    return gpt.Windows({}), model, optim.AdamW(model.parameters(), betas=gpt.BETAS), gpt.all_batches(size)


def date(tiny):
    recipe, model, optimizer, _, batches = dates.setting_out(dates.TINY if tiny else {})
    return recipe, model, optimizer, batches


JOBS = {"reference": reference, "dates": date}


def alone(threads, recipe, model, batch):
    with blas_threads(threads):
        loss = recipe.loss(model, batch)
        loss.backward()


def ways(comm):
    """name -> (does every process take part?, backward(recipe, model, batch))."""
    found = {
        "1 process, 1 thread": (False, partial(alone, 1)),
        "1 process, 2 threads share products": (False, partial(alone, 2)),
    }
    found["1 process, 2 threads share the batch"] = (False, Sharing(2).backward)
    for name, kind, bytes_ in (
        ("overlapped", Ranks, BUCKET_BYTES), ("after backward", Ranks, ONE_BUCKET), ("overlapped, MPI_Iallreduce", WithAllreduce, BUCKET_BYTES),
        ("after backward, MPI_Iallreduce", WithAllreduce, ONE_BUCKET), ("no sum (wrong)", Alone, BUCKET_BYTES),
    ):  # fmt: skip
        found[f"{comm.size} processes, {name}"] = (True, kind(comm, bytes_, check_every=NEVER).backward)
    return found


def rest(comm):
    """Wait for the others without disturbing them: MPI's own waiting keeps a core busy."""
    request = comm.Ibarrier()
    while not request.Test():
        time.sleep(0.002)


def turn(comm, everyone, backward, job, steps):
    """Seconds a step, on rank 0; the others take part or rest."""
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


def measured(comm, tiny=False, rounds=9, steps=20):
    """{job: {way: [seconds a step, a round each]}}."""
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


# ---------------------------------------------------------------- on paper


def ring_seconds(bytes_, ranks, latency, bandwidth):
    """A ring all-reduce: 2 (p - 1) rounds, in each of which every rank sends bytes / p to its neighbour."""
    return 2 * (ranks - 1) * (latency + bytes_ / ranks / bandwidth)


def tree_seconds(bytes_, ranks, latency, bandwidth):
    """Reduce up a binary tree and broadcast down: 2 ceil(log2 p) rounds, in each of which all bytes travel."""
    return 2 * int(np.ceil(np.log2(ranks))) * (latency + bytes_ / bandwidth)


def naive_seconds(bytes_, ranks, latency, bandwidth):
    """Rank 0 takes in everybody's, one after the other, and sends everybody the sum."""
    return 2 * (ranks - 1) * (latency + bytes_ / bandwidth)


def efficiency(compute, hidden, all_reduce):
    """The share of a step's time that is not waiting, where `hidden` seconds of the all-reduce run beside the reverse pass."""
    return compute / (compute + max(0.0, all_reduce - hidden))


def modelled(bytes_, compute, latency, bandwidth, overlap, counts=(1, 2, 4, 8, 16, 64, 256, 1000)):
    """[(ranks, ring seconds, tree, naive, efficiency without overlap, with)] where each rank computes as long as one does now:
    the batch grows with the ranks (weak scaling). `overlap` is the share of a step beside which messages can travel."""
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


# ---------------------------------------------------------------- the door


def main(argv=None):
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.distributed", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--model", action="store_true", help="the modelled table only")
    parser.add_argument("--tiny", action="store_true", help="small models: to see that it runs")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument(
        "--megabytes", type=float, default=3.23, help="of gradients (default: the reference GPT's)"
    )
    parser.add_argument("--compute", type=float, default=0.040, help="seconds of a step without messages")
    parser.add_argument(
        "--latency", type=float, default=20e-6, help="seconds before a message's first byte arrives"
    )
    parser.add_argument(
        "--bandwidth",
        type=float,
        default=1.25e9,
        help="bytes a second between two machines (default: 10 gigabit)",
    )
    parser.add_argument(
        "--overlap", type=float, default=0.5, help="share of a step beside which gradients can travel"
    )
    options = parser.parse_args(argv)
    if options.model:
        print_model(options)
        return 0
    comm = world()
    found = measured(comm, options.tiny, options.rounds, options.steps)
    if comm.rank == 0:
        for job, times in found.items():
            print_times(job, times)
    return 0


def print_times(job, times):
    first = times["1 process, 2 threads share the batch"]
    print(
        f"| {job} | ms a step: median (quartiles) | beside two threads that share the batch |\n| --- | --- | --- |"
    )
    for way, seconds in times.items():
        low, middle, high = statistics.quantiles([1e3 * s for s in seconds], n=4, method="inclusive")
        ratio = statistics.median(s / f for s, f in zip(seconds, first, strict=True))
        print(f"| {way} | {middle:.1f} ({low:.1f} to {high:.1f}) | {ratio:.2f} |")


def print_model(options):
    print(
        f"{options.megabytes} MB of gradients, {1e3 * options.compute:g} ms of computing a step on each rank, latency "
        f"{1e6 * options.latency:g} us, {options.bandwidth / 1e9:g} GB/s a link in each direction; no two messages share a link, adding up costs "
        f"nothing, all ranks are equally fast, and messages can travel beside {options.overlap:.0%} of a step."
    )
    print(
        "| ranks | ring ms | tree ms | naive ms | efficiency | with overlap |\n| --- | --- | --- | --- | --- | --- |"
    )
    for p, ring, tree, naive, bare, hidden in modelled(options.megabytes * 1e6, options.compute, options.latency, options.bandwidth, options.overlap):  # fmt: skip
        print(
            f"| {p:,} | {1e3 * ring:.2f} | {1e3 * tree:.2f} | {1e3 * naive:.2f} | {bare:.1%} | {hidden:.1%} |"
        )


if __name__ == "__main__":
    sys.exit(main())
