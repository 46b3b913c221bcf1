"""The job `scalar`: a graph of scalars, the size of micrograd's demo, about 2,000 operations.

Three points go through a network 2-16-16-1 and a hinge loss, forward and backward. The network is the same
code for all libraries.
"""

import sys
from functools import partial

import numpy as np

from benchmarks.case import Case, Side

SIZES, POINTS = (2, 16, 16, 1), 3


def cases(job="scalar", tiny=False):
    sizes = (2, 3, 1) if tiny else SIZES
    return [
        Case(job, tuple(
            Side(name, partial(build, sizes), needs)
            for name, build, needs in (
                ("minigrad", minigrad, "minigrad"),
                ("second scalar engine", second_engine, "tutorials.scalar_engine"),
                ("torch", torch, "torch"),
                ("micrograd", micrograd, "micrograd"),
            )
        ))
    ]  # fmt: skip


def network(sizes):
    """Draw weights [layer][neuron] = [w ..., bias], points and labels, all exact in float32."""
    rng = np.random.default_rng(0)

    def numbers(*shape):
        return rng.uniform(-1, 1, shape).astype(np.float32).tolist()

    weights = [numbers(after, before + 1) for before, after in zip(sizes, sizes[1:])]
    return weights, numbers(POINTS, sizes[0]), [1.0, -1.0, 1.0]


def loss_of(weights, points, labels):
    """mean(relu(1 - label * score))."""
    total = 0.0
    for x, label in zip(points, labels):
        for i, layer in enumerate(weights):
            x = [neuron(w, x, has_relu=i + 1 < len(weights)) for w in layer]
        total = total + (1.0 - label * x[0]).relu()
    return total * (1.0 / len(points))


def neuron(w, x, has_relu):
    out = w[-1]
    for a, b in zip(w, x):
        out = out + a * b
    return out.relu() if has_relu else out


def step_of(sizes, make, item, no_grad):
    """Build the step of a library.

    make     make(number) returns the library's scalar
    item     converts a scalar to a number
    no_grad  `.grad` before backward
    """
    weights, points, labels = network(sizes)
    weights = [[[make(number) for number in w] for w in layer] for layer in weights]
    parameters = [number for layer in weights for w in layer for number in w]

    def step(number):
        for p in parameters:
            p.grad = no_grad
        loss = loss_of(weights, points, labels)
        loss.backward()
        return item(loss) + item(parameters[0].grad)

    return step


def minigrad(sizes):
    import minigrad as mg

    return step_of(sizes, lambda number: mg.tensor(number, requires_grad=True), lambda t: t.item(), None)


def torch(sizes):
    import torch

    return step_of(sizes, lambda number: torch.tensor(number, requires_grad=True), lambda t: t.item(), None)


def second_engine(sizes):
    from tutorials.scalar_engine import Value

    return step_of(sizes, Value, lambda v: getattr(v, "data", v), 0.0)


def micrograd(sizes):
    from micrograd.engine import Value

    sys.setrecursionlimit(100_000)  # its sort is recursive
    return step_of(sizes, Value, lambda v: getattr(v, "data", v), 0.0)
