"""Attention in blocks: the kernel against its definition under every mask, with small blocks, and what it holds in memory."""

import itertools
import tracemalloc

import numpy as np
import pytest
from oracle import by, gradients, leaf, near, refuses, same

import minigrad as mg
from minigrad import functional as F
from minigrad.gradcheck import gradcheck
from models.attention import PATHS, MultiHeadAttention, causal_mask, padding_mask
from models.gpt import GPT

TQ, TK = 7, 9
RNG = np.random.default_rng(0)
SOME = RNG.random((TQ, TK)) > 0.4
SOME[2] = False  # a query that sees nothing
SOME[:, 5] = False  # a key that nobody sees
MASKS = {
    "none": None, "some": SOME, "padding": RNG.random((2, 1, 1, TK)) > 0.4, "keys alone": RNG.random(TK) > 0.4,
    "each head its own": RNG.random((3, TQ, TK)) > 0.4, "everything hidden": np.zeros((TQ, TK), bool),
    "added": RNG.standard_normal((2, 1, TQ, TK)), "added, hiding": np.where(SOME, 0.5, -np.inf),
    "added, for keys": RNG.standard_normal((1, TK)), "added, far below": np.full((TQ, TK), -1e4),
}  # fmt: skip
BLOCKS = ((2, 3), (4, 2), (7, 9), (16, 16))
masks = pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
causals = pytest.mark.parametrize("causal", (None, 0, TK - TQ, -3, -20))
blocks = pytest.mark.parametrize("block", BLOCKS, ids=str)


def qkv(dtype=np.float64, lead=(2, 3), kv_lead=None, queries=TQ, keys=TK, scale=1.0):
    kv_lead = lead if kv_lead is None else kv_lead
    shapes = (*lead, queries, 4), (*kv_lead, keys, 4), (*kv_lead, keys, 5)
    return [
        mg.tensor((leaf(*shape, seed=i).data * scale).astype(dtype), requires_grad=True)
        for i, shape in enumerate(shapes)
    ]


def added(mask):
    """A mask as attention takes it, and the tensors that want a gradient by it."""
    if mask is None or mask.dtype == bool:
        return mask, []
    mask = mg.tensor(mask, requires_grad=True)
    return mask, [mask]


def both_ways(inputs, *args):
    """[value, *gradients] of attention in blocks by its kernel and by its definition."""
    out = []
    for tier in ("kernel", "definition"):
        with by(tier):
            y = F.blocked_attention(*inputs[:3], *args)
            out.append([y.data, *gradients(y, inputs)])
    return out


# ---------------------------------------------------------------- kernel and definition


@masks
@causals
@blocks
@pytest.mark.parametrize("p", (0.0, 0.4))
def test_kernel_and_definition_agree_in_value_and_gradients(mask, causal, block, p):
    mask, learned = added(mask)
    dropped = F.Dropped((2, 3, TQ, TK), p, np.float64, block) if p else None
    for a, b in zip(*both_ways([*qkv(), *learned], mask, dropped, 0.5, causal, block), strict=True):
        near(a, b, 1e-11)


@masks
@pytest.mark.parametrize("size", (30.0, 1e2))
def test_large_scores_move_the_shift_and_change_nothing(mask, size):
    mask, learned = added(mask)
    for a, b in zip(*both_ways([*qkv(scale=size**0.5), *learned], mask, None, 1.0, 2, (2, 3)), strict=True):
        near(a, b, 1e-9)


@masks
def test_first_and_second_order_in_blocks(mask):
    mask, learned = added(mask)
    inputs = qkv(lead=(1, 3) if mask is None or mask.ndim < 4 else (2, 3))
    if mask is None or mask.dtype != bool or mask.any():
        # entry by entry once; with each mask along random directions
        for order, fast in ((1, False), (2, mask is not None)):
            assert gradcheck(
                lambda q, k, v, m=mask: F.blocked_attention(q, k, v, m, None, 0.5, 2, (3, 4)),
                [*inputs, *learned],
                order=order,
                fast=fast,
            )


@blocks
@causals
def test_heads_that_share_keys_and_values(block, causal):
    inputs = qkv(lead=(2, 2, 3), kv_lead=(2, 2, 1))
    for a, b in zip(*both_ways(inputs, None, None, 0.5, causal, block), strict=True):
        near(a, b, 1e-11)


def test_float32_stays_and_is_near_to_float64():
    for mask in (mask for name, mask in MASKS.items() if name != "added, far below"):
        results = []
        for dtype in (np.float32, np.float64):
            inputs = qkv(dtype)
            y = F.scaled_dot_product_attention(*inputs, mask, path="blocked")
            results.append([y.data, *gradients(y, inputs)])
            assert {x.dtype for x in results[-1]} == {np.dtype(dtype)}
        for a, b in zip(*results, strict=True):
            near(a, b, 1e-5)


@pytest.mark.parametrize("is_causal", (False, True))
@masks
def test_the_paths_are_the_same_attention(mask, is_causal):
    inputs = qkv()
    mask = added(mask)[0]
    results = []
    for path in ("plain", "blocked"):
        y = F.scaled_dot_product_attention(*inputs, mask, is_causal=is_causal, path=path)
        results.append([y.data, *gradients(y, inputs)])
    for a, b in zip(*results, strict=True):
        near(a, b, 1e-12)


def test_some_arguments_need_no_gradient():
    for wanted in itertools.product((True, False), repeat=3):
        inputs = [x.detach().requires_grad_(w) for x, w in zip(qkv(), wanted, strict=True)]
        if any(wanted):
            y = F.scaled_dot_product_attention(*inputs, path="blocked")
            plain = F.scaled_dot_product_attention(*inputs, path="plain")
            leaves = [x for x in inputs if x.requires_grad]
            for a, b in zip(gradients(y, leaves), gradients(plain, leaves), strict=True):
                near(a, b, 1e-12)


# ---------------------------------------------------------------- what masks must mean


@blocks
def test_gradient_of_a_query_is_exactly_zero_for_later_keys(block):
    q, k, v = qkv(lead=(2,))
    y = F.blocked_attention(q, k, v, None, None, 0.5, 0, block)
    for i in range(TQ):
        dk, dv = (d.data for d in mg.grad(y[:, i].sum(), [k, v], retain_graph=True))
        assert (dk[:, i + 1 :] == 0.0).all() and (dv[:, i + 1 :] == 0.0).all() and (dv[:, : i + 1] != 0).all()


@blocks
@pytest.mark.parametrize("poison", (np.nan, np.inf))
@pytest.mark.parametrize("hidden", ("by the mask", "by the rule", "by both"))
def test_nan_in_keys_that_nobody_sees_and_queries_that_see_nothing_does_not_leak(block, poison, hidden):
    mask, causal = {"by the mask": (SOME, None), "by the rule": (None, -3), "by both": (SOME, -3)}[hidden]
    allowed = np.tri(TQ, TK, TK if causal is None else causal, dtype=bool) & (True if mask is None else mask)
    results = []
    for spoil in (False, True):
        q, k, v = inputs = qkv()
        if spoil:
            q.data[..., ~allowed.any(1), :] = k.data[..., ~allowed.any(0), :] = v.data[
                ..., ~allowed.any(0), :
            ] = poison
        y = F.blocked_attention(*inputs, mask, None, 0.5, causal, block)
        results.append([y.data, *gradients(y, inputs)])
    for a, b in zip(*results, strict=True):
        same(a, b)
    assert (
        (results[1][0][:, :, ~allowed.any(1)] == 0).all()
        and not allowed.any(0).all()
        and not allowed.any(1).all()
    )


def test_what_a_query_gives_depends_on_no_other_query_to_the_last_bit():
    q, k, v = qkv()
    before = F.blocked_attention(q, k, v, None, None, 0.5, 0, (4, 3)).data.copy()
    q.data[..., 3, :] *= 1e4
    q.data[..., 5, :] = np.nan
    after = F.blocked_attention(q, k, v, None, None, 0.5, 0, (4, 3)).data
    others = [0, 1, 2, 4, 6]
    same(after[..., others, :], before[..., others, :])


def test_scores_of_ten_thousand_stay_finite():
    inputs = qkv(np.float32, scale=1e4)
    y = F.scaled_dot_product_attention(*inputs, is_causal=True, path="blocked")
    assert all(np.isfinite(x).all() for x in (y.data, *gradients(y, inputs)))


# ---------------------------------------------------------------- the mask that is a rule


def test_a_causal_mask_of_a_long_sequence_is_a_rule_and_reads_like_any_mask():
    long = causal_mask(700, 800)
    assert isinstance(long, F.CausalMask) and not isinstance(causal_mask(7, 8), F.CausalMask)
    written = np.tri(700, 800, 100, dtype=bool)[None, None]
    same(long.data, written)
    assert long.shape == written.shape and long.ndim == 4 and long.dtype == bool
    padding = mg.tensor(np.random.default_rng(0).random((2, 1, 1, 800)) > 0.2)
    for combined in (long & padding, padding & long, long & padding.data, (long & padding) & padding):
        assert isinstance(combined, F.CausalMask) and combined.shape == (2, 1, 700, 800)
        same(combined.data, written & padding.data)
    nearer = F.CausalMask(700, 800, 3) & (long & padding)
    same(nearer.data, np.tri(700, 800, 3, dtype=bool) & padding.data)
    same(long[..., :3, :5], written[..., :3, :5])


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("kv_heads", (4, 2))
def test_layers_take_the_rule_on_every_path(path, kv_heads):
    layer, x = MultiHeadAttention(8, 4, num_kv_heads=kv_heads, path=path).double(), leaf(2, 6, 8)
    layer.eval()
    padding = padding_mask(np.array([[1, 1, 1, 1, 1, 0], [1, 1, 1, 0, 0, 0]]), 0)
    for rule, written in (
        (F.CausalMask(6, 6, 0), causal_mask(6)), (F.CausalMask(6, 6, 0) & padding, causal_mask(6) & padding),
        (F.CausalMask(6, 6, 0) & np.ones((4, 6, 6), bool), causal_mask(6)),
    ):  # fmt: skip
        near(layer(x, mask=rule), layer(x, mask=written), 1e-13)
        near(layer(x, mask=rule, need_weights=True)[1], layer(x, mask=written, need_weights=True)[1], 1e-13)


def test_a_long_sequence_goes_by_blocks_and_a_short_one_or_a_single_query_does_not():
    def kernel_of(queries, keys, **how):
        y = F.scaled_dot_product_attention(leaf(queries, 2), leaf(keys, 2), leaf(keys, 2), **how)
        return y.node.fun

    plain, blocked = F.attention.kernel.forward, F.blocked_attention.kernel.forward
    assert kernel_of(8, 8) is plain and kernel_of(1, 2**18) is plain and kernel_of(1024, 1024) is blocked
    assert kernel_of(8, 8, path="blocked") is blocked and kernel_of(1024, 1024, path="plain") is plain
    with refuses(ValueError, "path", "'plain'", "'blocked'", "'flash'"):
        kernel_of(8, 8, path="flash")


def test_a_long_gpt_is_causal_and_its_cache_agrees():
    gpt, tokens = GPT(11, 8, 2, 1, 1100).double().eval(), np.random.default_rng(0).integers(0, 11, (1, 1100))
    with mg.no_grad():
        whole = gpt(tokens).data
        cache = gpt.new_cache()
        near(gpt(tokens[:, :1060], cache=cache), whole[:, :1060], 1e-12)
        near(gpt(tokens[:, 1060:], cache=cache), whole[:, 1060:], 1e-12)
        tokens[:, 700:] = 0
        same(gpt(tokens).data[:, :700], whole[:, :700])


# ---------------------------------------------------------------- dropout


def test_dropout_draws_the_same_tile_again_and_other_tiles_otherwise():
    mg.manual_seed(1)
    dropped = F.Dropped((2, 3, 8, 12), 0.25, np.float64, (4, 6))
    whole = dropped.whole()
    assert whole.shape == (2, 3, 8, 12) and set(np.unique(whole)) == {0.0, 1 / 0.75}
    same(whole.reshape(6, 8, 12)[4, 4:8, :6], dropped.tile(4, 1, 0))
    tiles = [dropped.tile(*place) for place in np.ndindex(6, 2, 2)]
    assert all((a != b).any() for a, b in itertools.combinations(tiles, 2))
    assert (F.Dropped((2, 3, 8, 12), 0.25, np.float64, (4, 6)).whole() != whole).any()
    mg.manual_seed(1)
    same(F.Dropped((2, 3, 8, 12), 0.25, np.float64, (4, 6)).whole(), whole)


def test_dropout_keeps_the_share_asked_for_and_the_mean():
    whole = F.Dropped((4, 300, 500), 0.3, np.float32).whole()
    n = whole.size
    assert abs((whole == 0).mean() - 0.3) < 5 * (0.3 * 0.7 / n) ** 0.5
    assert abs(whole.mean() - 1) < 5 * (0.3 / 0.7 / n) ** 0.5
    flat = (whole == 0).reshape(4, -1)  # no head repeats another
    assert np.abs(np.corrcoef(flat) - np.eye(4)).max() < 0.02
    assert (F.Dropped((2, 3, 4), 1.0, np.float32).whole() == 0).all()


def test_dropped_weights_are_zero_or_scaled_and_a_layer_drops_in_training_only():
    q, k, _ = qkv(lead=(2,))
    # then the output is the weights
    v = mg.tensor(np.broadcast_to(np.eye(TK), (2, TK, TK)), requires_grad=True)
    kept = F.scaled_dot_product_attention(q, k, v, path="blocked").data
    dropped = F.scaled_dot_product_attention(q, k, v, dropout_p=0.5, path="blocked").data
    assert 0 < (dropped == 0).sum() < dropped.size
    near(dropped[dropped != 0], 2 * kept[dropped != 0], 1e-14)
    layer, x = MultiHeadAttention(8, 2, 0.5, path="blocked").double(), leaf(2, 6, 8)
    assert (layer(x).data != layer(x).data).any()
    same(layer.eval()(x), layer(x))


# ---------------------------------------------------------------- memory


def peak_over_inputs(n, dropout_p=0.0):
    """The most that forward and backward hold at once beyond the inputs, in bytes."""
    inputs = [mg.tensor(leaf(1, n, 8, seed=i).data.astype(np.float32), requires_grad=True) for i in range(3)]
    tracemalloc.start()
    try:
        F.scaled_dot_product_attention(*inputs, dropout_p=dropout_p, is_causal=True).sum().backward()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("dropout_p", (0.0, 0.1))
def test_memory_grows_with_the_length_and_not_with_its_square(dropout_p):
    peak_over_inputs(1024, dropout_p)  # what is allocated once
    short, long = peak_over_inputs(1024, dropout_p), peak_over_inputs(4096, dropout_p)
    assert long < 4 * short and long < 4096 * 4096 * 4 / 10
