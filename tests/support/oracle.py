"""Helpers of the tests of layers, models and optimizers: compare arrays, expect errors, check gradients."""

import contextlib

import numpy as np
import pytest

import minigrad as mg
from minigrad.gradcheck import check
from minigrad.modes import Mode, readable


def leaf(*shape, seed=0, dtype=np.float64):
    """A tensor of normally distributed elements that requires a gradient."""
    return mg.tensor(
        np.random.default_rng((seed, *shape)).standard_normal(shape).astype(dtype), requires_grad=True
    )


def array(x):
    """Convert a tensor of ours or of torch to an array."""
    if isinstance(x, mg.Tensor):
        return x.data
    return x.detach().numpy() if hasattr(x, "detach") else np.asarray(x)


def near(ours, theirs, tolerance=1e-10):
    """Assert equal shapes, and equal elements up to `tolerance` times the largest."""
    ours, theirs = array(ours), array(theirs)
    assert ours.shape == theirs.shape
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=tolerance * max(1.0, np.abs(theirs).max(initial=0)))


def same(x, y):
    """Assert that two arrays are equal bit for bit."""
    np.testing.assert_array_equal(array(x), array(y), strict=True)


@contextlib.contextmanager
def refuses(error, *words):
    """Assert that the block raises `error`, with a message that contains all the words."""
    with pytest.raises(error) as caught:
        yield
    message = str(caught.value)
    assert all(word in message for word in words), message
    assert len(message.split()) > 4, message


def by(tier):
    """A context in which the "kernel" or the "definition" runs."""
    return Mode(readable, tier == "definition")


def gradients(output, inputs, seed=7):
    """Compute gradients as arrays, for a random incoming gradient that depends only on the output's shape."""
    g = np.random.default_rng(seed).standard_normal(output.shape).astype(output.dtype)
    return [d.data for d in mg.grad(output, inputs, mg.tensor(g))]


def check_tiers(run, wanted, tolerance=1e-11):
    """Check that kernels and definitions agree in run() and in the gradients of the tensors `wanted`."""
    found = []
    for tier in ("kernel", "definition"):
        with by(tier):
            y = run()
            found.append([y, *gradients(y, wanted)])
    for fast, plain in zip(*found, strict=True):
        near(fast, plain, tolerance)


def check_every_parameter(loss):
    """Check each element of each parameter's gradient by differences.

    `loss` is a module called without inputs.
    """
    results = check(loss)
    assert len(results) == len({r.name for r in results}) == len(list(loss.parameters()))
    assert max(r.error for r in results) < 1e-6
