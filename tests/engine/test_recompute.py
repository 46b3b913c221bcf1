"""checkpoint: the same values and gradients with less kept. Hooks, streams and writes around it: test_found_by_breaking.py."""

import gc
import weakref

import numpy as np
import pytest
from oracle import leaf, near, same

import minigrad as mg
import minigrad.nn.functional as F
from minigrad import nn
from minigrad.gradcheck import gradcheck


class Block(nn.Module):
    """A checkpointed layer that uses its argument, a parameter, a value from outside, and dropout."""

    def __init__(self, checkpointed):
        self.linear, self.checkpointed = nn.Linear(4, 4), checkpointed

    def forward(self, x, y):
        h = y * y
        run = mg.checkpoint if self.checkpointed else lambda fun, *args: fun(*args)
        return run(lambda x, k: F.dropout(F.gelu(self.linear(x)), 0.3) * k + h, x, 2.0) * x


@pytest.mark.parametrize("order", [1, 2])
def test_gradients_of_arguments_parameters_and_outer_values(order):
    assert gradcheck(Block(True).double(), [leaf(3, 4), leaf(3, 4, seed=1)], order=order)


def test_values_and_gradients_equal_those_without():
    found = []
    for checkpointed in (True, False):
        mg.manual_seed(1)
        block, x = Block(checkpointed), mg.ones(3, 4, requires_grad=True)
        out = block(x, mg.ones(3, 4))
        out.sum().backward()
        found.append([out.data, x.grad.data, block.linear.weight.grad.data, mg.rand(2).data])
    for a, b in zip(*found, strict=True):
        same(a, b)


def test_several_values_and_nesting():
    x = leaf(3)
    a, b = mg.checkpoint(lambda x: (mg.checkpoint(mg.exp, x) * 2, x.sin()), x)
    (a * b).sum().backward()
    near(x.grad, 2 * np.exp(x.data) * (np.sin(x.data) + np.cos(x.data)), 1e-12)


def test_nothing_inside_is_kept_until_backward():
    alive = []

    def fun(x):
        inner = mg.exp(x)
        alive.append(weakref.ref(inner.node))
        return inner.sin()

    gc.disable()
    try:
        y = mg.checkpoint(fun, leaf(3)).sum()
        assert alive[0]() is None
        y.backward()
        assert len(alive) == 2 and alive[1]() is None
    finally:
        gc.enable()


def test_under_no_grad_it_is_just_the_call():
    with mg.no_grad():
        assert not mg.checkpoint(mg.exp, leaf(3)).requires_grad
