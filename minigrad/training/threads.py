"""A batch shared among threads: each computes the loss and the gradients of its part, with matrix products on one thread of
their own. Knows recipes; nothing of optimizers.

NumPy lets go of Python's lock while it computes, so the parts run side by side. On models small enough for a laptop this beats
splitting every matrix product, where the threads wait for each other at each one.
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
    """`with Sharing(threads) as sharing: loss = sharing.backward(recipe, model, batch)` leaves in every `.grad` what
    recipe.loss(model, batch).backward() would, to rounding. Added up in a fixed order: the same threads give the same bits."""

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
        for number, (part, share) in enumerate(zip(parts, weights, strict=True)):
            work = (_loss_and_gradients, recipe, model, part, parameters, number, share)
            waiting.append(self._pool.submit(contextvars.copy_context().run, *work))
        losses, gradients = zip(*(future.result() for future in waiting), strict=True)
        for p, *own in zip(parameters, *gradients, strict=True):
            p.grad = _sum(own)
        return sum(losses)


def _loss_and_gradients(recipe, model, part, parameters, number, share):
    """The part's share of the batch's mean loss, and its gradients."""
    with random.as_worker(number):
        loss = recipe.loss(model, part) * share
        return loss.item(), grad(loss, parameters, allow_unused=True)


def _sum(gradients):
    arrays = [g.data for g in gradients if g is not None]
    for array in arrays[1:]:
        arrays[0] += array
    return Tensor(arrays[0]) if arrays else None


def trial(recipe, model, threads, rounds=3):
    """Seconds that a step of this model takes: {"batch": with the batch shared among threads, "products": with every matrix
    product split, "one": with one thread}. Measured in turns, the best counts; the model, its gradients and all random streams
    are left as they were."""
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
    """How many cores this process may compute on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _seconds(work):
    start = time.perf_counter()
    work()
    return time.perf_counter() - start
