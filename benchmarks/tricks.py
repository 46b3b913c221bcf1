"""The job `tricks`: our reference step with one optimization disabled at a time, to measure what each is
worth.

The step is that of gpt.py.
"""

from functools import partial

import numpy as np

from benchmarks import gpt
from benchmarks.case import Case, Side
from minigrad import definitions, optim
from minigrad import functional as F
from minigrad.engine.table import defkernel
from minigrad.kernels.products import sum_of_rows


def cases(job="tricks", tiny=False):
    size = gpt.TRIAL if tiny else gpt.SIZES["reference"]
    sides = [Side("all of them", partial(gpt.ours, size))]
    return [
        Case(
            job,
            (
                *sides,
                *(
                    Side(f"without {name}", partial(without, size, change))
                    for name, change in CHANGES.items()
                ),
            ),
        )
    ]


def without(size, change):
    """Build gpt.ours after a change to this process's minigrad."""
    wrap = change()
    return gpt.ours(size, **(wrap or {}))


# ---------------------------------------------------------------- changes; each returns arguments of gpt.ours


def all_kernels():
    definitions().__enter__()  # for the whole process


def float32():
    return {"dtype": np.float64}


def kept_memory():
    return {"keep_memory": False}


def one_kernel(definition):
    definition.kernel = None


def flat_products():
    """Compute x (B, T, C) @ W^T as a batch of products, and the weight's gradient as the sum of a batch."""

    def forward(x, weight, bias):
        y = x @ weight.T
        return (y if bias is None else y + bias), None

    def backward(g, _y, saved, needs, x, weight, bias):
        dw = (g.mT @ x).sum(0) if needs[1] and g.ndim == 3 else g.T @ x if needs[1] else None
        return g @ weight, dw, sum_of_rows(g.reshape(-1, g.shape[-1])) if needs[2] else None

    defkernel(F.linear, forward, backward)


def pieces_of_parameters():
    """Update each tensor by a dozen operations, each of which reads the whole tensor from memory."""

    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state.setdefault(
                    p, {"step": 0, "m": np.zeros_like(p.data), "v": np.zeros_like(p.data)}
                )
                state["step"] += 1
                self.update(p.data, p.grad.data, state["step"], group, state["m"], state["v"])

    optim.AdamW.step = step


CHANGES = {
    "float32": float32,
    "kernels (the definitions run)": all_kernels,
    "attention's kernel": partial(one_kernel, F.attention),
    "gelu's kernel": partial(one_kernel, F.gelu),
    "layer norm's kernel": partial(one_kernel, F.normalized),
    "linear's kernel": partial(one_kernel, F.linear),
    "flat products": flat_products,
    "freed memory kept": kept_memory,
    "AdamW piece by piece": pieces_of_parameters,
}
