"""The job `overhead`: the cost of recording, measured on a chain of small multiplications z = x y y y ...

forward   compute and record each product, then drop the graph
both      also compute the gradient of the sum of z with respect to x and y
"""

import sys
from functools import partial

import numpy as np

from benchmarks.case import Case, Side

OPS = 1000


def cases(job="overhead", tiny=False):
    ops = 20 if tiny else OPS
    return [
        Case(f"{job}, {what}, {passes}", tuple(
            Side(name, partial(build, shape, ops, passes == "both"), needs)
            for name, build, needs in LIBRARIES
            if shape == () or name != "micrograd"  # which has scalars only
        ), unit="op", units=ops)
        for what, shape in (("4x4", (4, 4)), ("scalar", ()))
        for passes in ("forward", "both")
    ]  # fmt: skip


def numbers(shape):
    """Draw x and y near 1: a thousand products neither overflow nor become denormal, which is slow."""
    rng = np.random.default_rng(0)
    return [rng.uniform(0.999, 1.001, shape).astype(np.float32) for _ in range(2)]


def chain(x, y, ops):
    for _ in range(ops):
        x = x * y
    return x


def minigrad(shape, ops, backward):
    import minigrad as mg

    x, y = [mg.tensor(a, requires_grad=True) for a in numbers(shape)]
    return tensor_step(x, y, ops, backward)


def torch(shape, ops, backward):
    import torch

    x, y = [torch.tensor(a, requires_grad=True) for a in numbers(shape)]
    return tensor_step(x, y, ops, backward)


def tensor_step(x, y, ops, backward):
    """Build the step of minigrad or PyTorch, whose names are the same."""

    def step(number):
        x.grad = y.grad = None
        total = chain(x, y, ops).sum()
        if not backward:
            return total.item()
        total.backward()
        return (x.grad.sum() + y.grad.sum()).item()

    return step


def hips_autograd(shape, ops, backward):
    from autograd.differential_operators import make_vjp

    x, y = numbers(shape)
    one = np.ones(shape, np.float32)
    record = make_vjp(lambda x, y: chain(x, y, ops), (0, 1))

    def step(number):
        vjp, z = record(x, y)
        return float(sum(g.sum() for g in vjp(one)) if backward else z.sum())

    return step


def micrograd(shape, ops, backward):
    from micrograd.engine import Value

    x, y = map(float, numbers(shape))
    sys.setrecursionlimit(10 * OPS)  # its sort is recursive

    def step(number):
        a, b = Value(x), Value(y)
        z = chain(a, b, ops)
        if backward:
            z.backward()
        return a.grad + b.grad if backward else z.data

    return step


def raw_numpy(shape, ops, backward):
    """Build the step in plain NumPy, the lower limit: it stores only the values that the gradient needs."""
    x, y = numbers(shape)

    def step(number):
        if not backward:
            return float(chain(x, y, ops).sum())
        zs = [x]
        for _ in range(ops):
            zs.append(zs[-1] * y)
        g, dy = np.ones_like(x), np.zeros_like(y)
        for z in reversed(zs[:-1]):
            dy = dy + g * z
            g = g * y
        return float(g.sum() + dy.sum())

    return step


LIBRARIES = (  # name, build, the module it needs
    ("minigrad", minigrad, "minigrad"),
    ("torch", torch, "torch"),
    ("HIPS autograd", hips_autograd, "autograd"),
    ("micrograd", micrograd, "micrograd"),
    ("raw NumPy", raw_numpy, "numpy"),
)
