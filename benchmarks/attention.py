"""The job `attention`: softmax(Q K^T) V alone, forward and backward, causal, 8 heads of 64, at growing
length.

Besides time, the memory over the inputs matters here.
"""

from functools import partial

import numpy as np

from benchmarks.case import Case, Side
from minigrad.machine import keep_freed_memory

HEADS, WIDTH = 8, 64
LENGTHS = {  # n -> number of steps and rounds; the time of a step grows with n squared
    1024: dict(steps=5, warm=1, checked=2),
    4096: dict(steps=1, warm=0, checked=1, rounds=15),
    16384: dict(steps=1, warm=0, checked=1, rounds=3),
}
PLAIN_UP_TO = 4096  # unfused attention at n = 16,384 would need tens of gigabytes


def cases(job="attention", tiny=False):
    lengths = {32: {}} if tiny else LENGTHS
    return [Case(f"{job}, n = {n:,}", tuple(sides(n)), **often) for n, often in lengths.items()]


def sides(n):
    yield Side("minigrad", partial(ours, n))
    yield Side("torch", partial(torch_step, n), "torch")
    if n <= PLAIN_UP_TO:
        yield Side("torch manual", partial(torch_step, n, manual=True), "torch")


def arrays(n):
    """Random q, k, v and incoming gradient                                              (1, H, n, D)"""
    rng = np.random.default_rng(0)
    return [rng.standard_normal((1, HEADS, n, WIDTH), np.float32) for _ in range(4)]


def ours(n):
    import minigrad as mg
    from minigrad import functional as F

    keep_freed_memory()
    *inputs, g = (mg.tensor(a) for a in arrays(n))
    return step_of([x.requires_grad_() for x in inputs], g, F.scaled_dot_product_attention)


def torch_step(n, manual=False):
    import torch

    *inputs, g = (torch.from_numpy(a) for a in arrays(n))
    masked = torch.ones(n, n, dtype=torch.bool).triu(1) if manual else None

    def step_by_step(q, k, v, is_causal):
        scores = (q @ k.transpose(-2, -1)) * WIDTH**-0.5
        return torch.softmax(scores.masked_fill(masked, float("-inf")), dim=-1) @ v

    attention = step_by_step if manual else torch.nn.functional.scaled_dot_product_attention
    return step_of([x.requires_grad_() for x in inputs], g, attention)


def step_of(inputs, g, attention):
    """Build the step of either library.

    Its figure sums the last query's output and the gradients of a few rows.
    """

    def step(number):
        for x in inputs:
            x.grad = None
        out = attention(*inputs, is_causal=True)
        out.backward(g)
        samples = [out.detach()[:, :, -1], *(x.grad[:, :, i] for x, i in zip(inputs, (-1, 0, 0)))]
        return sum(rows.abs().sum().item() for rows in samples)

    return step
