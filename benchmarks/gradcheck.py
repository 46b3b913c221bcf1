"""The job `gradcheck`: check the gradients of a pre-norm block, 3,280 parameters in float64, by our checker
and PyTorch's.

The check runs element by element and along random directions. Every check must pass.
"""

from functools import partial

import numpy as np

from benchmarks.case import Case, Side
from minigrad import manual_seed, tensor
from minigrad.gradcheck import gradcheck
from minigrad.machine import keep_freed_memory
from models.blocks import EncoderLayer

SIZE, TRIAL = (
    dict(width=16, heads=2, d_ff=64, rows=2, length=4),
    dict(width=4, heads=2, d_ff=4, rows=1, length=2),
)
ONCE = dict(steps=1, warm=0, checked=1, rounds=5)  # a check element by element takes seconds
FEW = dict(steps=3, warm=1, checked=1)


def cases(job="gradcheck", tiny=False):
    size = TRIAL if tiny else SIZE
    return [
        Case(f"{job}, {how}", (
            Side("minigrad", partial(ours, size, fast)),
            Side("torch", partial(torch_step, size, fast), "torch"),
        ), unit="check", **often)
        for how, fast, often in (("entries", False, ONCE), ("directions", True, FEW))
    ]  # fmt: skip


def set_up(size):
    """Build our block and an input (rows, length, width), in float64."""
    manual_seed(0)
    block = EncoderLayer(size["width"], size["heads"], size["d_ff"], norm="pre", activation="gelu").double()
    return block, np.random.default_rng(0).standard_normal((size["rows"], size["length"], size["width"]))


def ours(size, fast):
    keep_freed_memory()
    block, x = set_up(size)
    x = tensor(x, requires_grad=True)
    figure = block(x).abs().sum().item()  # differs if the blocks of the sides differ
    return lambda number: figure * gradcheck(block, (x,), fast=fast)


def torch_step(size, fast):
    """Build the check of PyTorch, whose checker takes a function of the input and the parameters."""
    import torch

    block, x = set_up(size)
    names, arrays = zip(*((name, p.data) for name, p in block.named_parameters()), strict=True)
    inputs = [torch.from_numpy(a.copy()).requires_grad_() for a in (x, *arrays)]

    def forward(x, *parameters):
        return pre_norm_block(x, dict(zip(names, parameters, strict=True)), size["heads"])

    figure = forward(*inputs).abs().sum().item()
    return lambda number: figure * torch.autograd.gradcheck(forward, inputs, fast_mode=fast)


def pre_norm_block(x, p, heads):
    from torch.nn import functional as F

    def linear(x, name):
        return F.linear(x, p[f"{name}.weight"], p[f"{name}.bias"])

    def normed(x, name):
        return F.layer_norm(x, x.shape[-1:], p[f"{name}.weight"], p[f"{name}.bias"])

    y = normed(x, "residual1.norm")
    q, k, v = (
        linear(y, f"self_attention.{part}_proj").unflatten(-1, (heads, -1)).transpose(1, 2) for part in "qkv"
    )
    x = x + linear(
        F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2), "self_attention.out_proj"
    )
    y = F.gelu(linear(normed(x, "residual2.norm"), "feed_forward.linear1"))
    return x + linear(y, "feed_forward.linear2")
