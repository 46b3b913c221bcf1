"""Small decoder-only models, and the checks that each of them must pass.

The checks use the models' interface only.
"""

import numpy as np
from oracle import gradients, near, same

import minigrad as mg
from minigrad import functional as F
from minigrad import nn
from models.gpt import GPT
from models.llama import Llama

VOCABULARY = 7


def gpt(**settings):
    return GPT(
        VOCABULARY,
        **{"d_model": 8, "num_heads": 2, "num_layers": 2, "max_len": 9, "dropout": 0.0, **settings},
    ).double()


def llama(**settings):
    settings = {"d_model": 16, "num_heads": 4, "num_layers": 2, "num_kv_heads": 2, "max_len": 9, **settings}
    return Llama(VOCABULARY, **settings).double()


def shaken(model, seed=0, by=0.4):
    """Add noise to all parameters, so that none is 0, 1, or as small as initial values are.

    Returns the model.
    """
    rng = np.random.default_rng(seed)
    for p in model.parameters():
        p.data += rng.normal(0, by, p.shape)
    return model


def tokens(*shape, seed=0):
    return np.random.default_rng((seed, *shape)).integers(1, VOCABULARY, size=shape)


def left_padded(rows, pads):
    """Pad each row on the left by `pads` columns. Returns (tokens, mask (B, 1, 1, T), positions)."""
    rows = rows.copy()
    real = np.arange(rows.shape[1]) >= np.array(pads)[:, None]
    rows[~real] = 0
    return rows, mg.tensor(real[:, None, None, :]), np.maximum(np.cumsum(real, 1) - 1, 0)


class Embeds(nn.Module):
    """An embedding that keeps its output as a leaf, for gradients with respect to the output."""

    def __init__(self, inner):
        self.inner = inner

    @property
    def weight(self):
        return self.inner.weight

    def forward(self, index):
        self.kept = self.inner(index).detach().requires_grad_()
        return self.kept


class Loss(nn.Module):
    """The loss of a decoder-only model as a function of its parameters alone.

    Each row is padded by `pads` columns.
    """

    def __init__(self, model, rows=None, pads=(0, 0)):
        self.model, (self.rows, self.mask, self.positions) = (
            model,
            left_padded(tokens(2, 6) if rows is None else rows, pads),
        )

    def forward(self):
        logits = self.model(self.rows[:, :-1], self.mask[..., :-1], self.positions[:, :-1])
        return F.cross_entropy(logits.reshape(-1, VOCABULARY), self.rows[:, 1:].reshape(-1), ignore_index=0)


# ---------------------------------------------------------------- checks


def check_causality(model, name, cases):
    """Check that logit i depends on the embedded token j if and only if j <= i and j is no padding.

    The gradient must be exactly 0.0 for all other j; a token always depends on itself.

    cases   name -> (run, real): run() returns the logits (B, T, V) of the tokens embedded last, real (B, T)
            is False for padding
    """
    setattr(model, name, Embeds(getattr(model, name)))
    for case, (run, real) in cases.items():
        j = np.arange(real.shape[1])
        for i in j:
            (d,) = gradients(run()[:, i], [getattr(model, name).kept])
            np.testing.assert_array_equal(
                (d != 0).any(2), (j == i) | (j < i) & real, f"{case}: what logit {i} depends on"
            )


def causal_cases(model):
    """The cases of check_causality for a decoder-only model: without padding and with padding on the left,
    each for all tokens and for the last three of six tokens after a cache."""
    cases = {}
    for name, pads in (("plain", (0, 0)), ("padding", (0, 2)), ("more padding", (0, 4))):
        rows, mask, positions = left_padded(tokens(2, 6), pads)

        def after_a_cache(rows=rows, mask=mask, positions=positions):
            cache = model.new_cache()
            with mg.no_grad():
                model(rows[:, :3], mask[..., :3], positions[:, :3], cache)
            return model(rows[:, 3:], mask, positions[:, 3:], cache)

        real = mask.data[:, 0, 0]
        cases[name] = (lambda args=(rows, mask, positions): model(*args)), real
        cases[f"{name}, cache"] = after_a_cache, real[:, 3:]
    return cases


def check_later_tokens_change_nothing(model):
    rows = tokens(2, 6)
    before = model(rows).data
    for t in range(6):
        changed = rows.copy()
        changed[:, t:] = 1 + changed[:, t:] % (VOCABULARY - 1)
        after = model(changed).data
        same(after[:, :t], before[:, :t])
        assert (after[:, t:] != before[:, t:]).any(axis=-1).all()


@mg.no_grad()
def check_cache(model, pads=(0, 0)):
    """Check that cached logits equal uncached ones at every position, for chunks of any size."""
    T = model.max_len
    rows, mask, positions = left_padded(tokens(2, T), pads)
    whole = model(rows, mask, positions).data
    for chunks in ([1] * T, [T], [T - 1, 1], [3, 1, T - 4], [1, T - 1]):
        cache, start = model.new_cache(), 0
        for size in chunks:
            here = slice(start, start + size)
            got = model(rows[:, here], mask[..., : here.stop], positions[:, here], cache).data
            for row, pad in enumerate(pads):
                first = max(pad, start)
                near(got[row, first - start :], whole[row, first : here.stop], 1e-12)
            start += size


def check_padding(model):
    """Check that a row padded on the left has the same logits as alone."""
    rows, mask, positions = left_padded(tokens(2, 7), (0, 3))
    near(model(rows, mask, positions).data[1, 3:], model(rows[1:, 3:]).data[0], 1e-12)


def check_float32(model):
    """Check that loss and gradients of a float32 model are float32."""
    loss = Loss(model)()
    loss.backward()
    assert {loss.dtype, *(p.grad.dtype for p in model.parameters())} == {np.dtype("float32")}
