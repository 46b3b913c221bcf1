"""Split a batch among threads: each computes its part's gradients, with single-threaded matrix products.

NumPy releases Python's lock while it computes, so the parts run in parallel. On models small enough for a
laptop this beats splitting every matrix product, where the threads wait for each other at each one.
"""

import contextvars
import os
import time
from concurrent.futures import ThreadPoolExecutor

from minigrad import random
from minigrad.engine.backward import grad
from minigrad.engine.tensor import Tensor
from minigrad.machine import blas_threads
from minigrad.training.loop import Workers


class Sharing(Workers):
    """`with Sharing(threads) as sharing: loss = sharing.backward(recipe, model, batch)` puts into every
    `.grad` the gradients of recipe.loss(model, batch).backward(), up to rounding. They are added up in a
    fixed order: the same number of threads gives the same bits."""

    def __init__(self, threads):
        self.parts, self._pool, self._blas = threads, ThreadPoolExecutor(threads), blas_threads(1)

    def __enter__(self):
        self._blas.__enter__()
        return self

    def __exit__(self, *error):
        self._pool.shutdown()
        return self._blas.__exit__(*error)

    def backward(self, recipe, model, batch):
        parts = recipe.shares(batch, self.parts)
        counts = [recipe.count(part) for part in parts]
        weights = [count / max(1, sum(counts)) for count in counts]
        parameters = [p for p in model.parameters() if p.requires_grad]
        waiting = []
        for number, (part, weight) in enumerate(zip(parts, weights, strict=True)):
            work = (_loss_and_gradients, recipe, model, part, parameters, number, weight)
            waiting.append(self._pool.submit(contextvars.copy_context().run, *work))
        losses, gradients = zip(*(future.result() for future in waiting), strict=True)
        for p, *own in zip(parameters, *gradients, strict=True):
            p.grad = _sum(own)
        return sum(losses)


def _loss_and_gradients(recipe, model, part, parameters, number, weight):
    """Compute the weighted loss of a part, which adds to the batch's mean loss, and its gradients."""
    with random.as_worker(number):
        loss = recipe.loss(model, part) * weight
        return loss.item(), grad(loss, parameters, allow_unused=True)


def _sum(gradients):
    arrays = [g.data for g in gradients if g is not None]
    for array in arrays[1:]:
        arrays[0] += array
    return Tensor(arrays[0]) if arrays else None


def trial(recipe, model, threads, rounds=3):
    """Measure the seconds of a step: {"batch": with the batch split among threads, "products": with every
    matrix product split, "one": with one thread}. The three take turns for `rounds` rounds, and the fastest
    time counts. The model, its gradients and all random streams stay unchanged."""
    batch, before = recipe.batch(0), random.get_state()
    kept = [(p, p.grad) for p in model.parameters()]
    seconds = {"batch": [], "products": [], "one": []}
    for _ in range(rounds):
        with Sharing(threads) as sharing:
            seconds["batch"].append(_seconds(lambda: sharing.backward(recipe, model, batch)))  # noqa: B023
        for way, count in (("products", threads), ("one", 1)):
            with blas_threads(count):
                seconds[way].append(_seconds(lambda: recipe.loss(model, batch).backward()))
    random.set_state(before)
    for p, g in kept:
        p.grad = g
    return {way: min(times) for way, times in seconds.items()}


def cores():
    """Number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _seconds(work):
    start = time.perf_counter()
    work()
    return time.perf_counter() - start
