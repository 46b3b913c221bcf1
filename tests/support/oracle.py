"""Helpers of the tests of layers, models and optimizers. Know how to hold one array against another; no particular truth."""

import contextlib

import numpy as np
import pytest

import minigrad as mg
from minigrad.gradcheck import check
from minigrad.modes import Mode, readable


def leaf(*shape, seed=0, dtype=np.float64):
    """A tensor of normal numbers that requires its gradient."""
    return mg.tensor(
        np.random.default_rng((seed, *shape)).standard_normal(shape).astype(dtype), requires_grad=True
    )


def array(x):
    """The numbers of a tensor of ours, of torch's, or an array."""
    if isinstance(x, mg.Tensor):
        return x.data
    return x.detach().numpy() if hasattr(x, "detach") else np.asarray(x)


def near(ours, theirs, tolerance=1e-10):
    """The same shape, and the same numbers up to `tolerance` of the largest."""
    ours, theirs = array(ours), array(theirs)
    assert ours.shape == theirs.shape
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=tolerance * max(1.0, np.abs(theirs).max(initial=0)))


def same(x, y):
    """Bit for bit."""
    np.testing.assert_array_equal(array(x), array(y), strict=True)


@contextlib.contextmanager
def refuses(error, *words):
    """The block raises `error` with a sentence that holds all the words."""
    with pytest.raises(error) as caught:
        yield
    sentence = str(caught.value)
    assert all(word in sentence for word in words), sentence
    assert len(sentence.split()) > 4, sentence


def by(tier):
    """Run under the "kernel" or the "definition"."""
    return Mode(readable, tier == "definition")


def gradients(output, inputs, seed=7):
    """The arrays that `grad` gives for a random incoming gradient, which depends on the output's shape alone."""
    g = np.random.default_rng(seed).standard_normal(output.shape).astype(output.dtype)
    return [d.data for d in mg.grad(output, inputs, mg.tensor(g))]


def check_tiers(run, wanted, tolerance=1e-11):
    """Kernels and definitions give the same run() and the same gradients of the tensors `wanted`."""
    found = []
    for tier in ("kernel", "definition"):
        with by(tier):
            y = run()
            found.append([y, *gradients(y, wanted)])
    for fast, plain in zip(*found, strict=True):
        near(fast, plain, tolerance)


def check_every_parameter(loss):
    """The gradient of each entry of each parameter of a module called without inputs is that of differences."""
    results = check(loss)
    assert len(results) == len({r.name for r in results}) == len(list(loss.parameters()))
    assert max(r.error for r in results) < 1e-6
