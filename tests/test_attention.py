"""Tests of attention: gradients against differences, values against three loops, masks, heads, dropout."""

import numpy as np
import pytest
from oracle import by, check_tiers, gradients, leaf, near, refuses, same

import minigrad as mg
from minigrad import functional as F
from minigrad.gradcheck import check, gradcheck
from models.attention import MultiHeadAttention, causal_mask, padding_mask
from models.blocks import DecoderLayer
from models.samples import Call

TOKENS = np.array([[5, 3, 1, 2], [4, 1, 0, 0]])  # pad = 0
PADDING, CAUSAL = padding_mask(TOKENS, 0).data, causal_mask(4).data
HIDDEN = np.array(
    [[1, 1, 0, 1], [0, 0, 0, 0], [1, 0, 0, 0], [1, 1, 1, 0]], bool
)  # row 1 is fully masked, column 2 is masked for most queries
ADDED = np.where(HIDDEN, np.linspace(-1, 1, 16).reshape(4, 4), -np.inf)
MASKS = {
    "none": None,
    "causal": CAUSAL,
    "padding": PADDING,
    "causal and padding": CAUSAL & PADDING,
    "a row masked": HIDDEN,
    "additive": ADDED,
    "additive, finite": np.linspace(-2, 2, 16).reshape(4, 4),
    "one per head": np.stack([HIDDEN, ~HIDDEN | np.eye(4, dtype=bool)]),
    "keys only": np.array([True, False, True, True]),
    "everything masked": np.zeros((4, 4), bool),
}
masks = pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
tiers = pytest.mark.parametrize("tier", ("kernel", "definition"))
orders = pytest.mark.parametrize("order", (1, 2))


def qkv(*lead, queries=4, keys=4, width=3, value_width=2):
    return (
        leaf(*lead, queries, width, seed=1),
        leaf(*lead, keys, width, seed=2),
        leaf(*lead, keys, value_width, seed=3),
    )


def by_loops(q, k, v, mask=None, scale=None):
    """Compute equation 1 of the paper, one query and one key at a time.

    The output of a fully masked query is 0.
    """
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    shape = (*q.shape[:-2], q.shape[-2], k.shape[-2])
    added = (
        np.zeros(shape)
        if mask is None
        else np.broadcast_to(np.where(mask, 0, -np.inf) if mask.dtype == bool else mask, shape)
    )
    out = np.zeros((*q.shape[:-1], v.shape[-1]))
    for *lead, i in np.ndindex(q.shape[:-1]):
        lead = tuple(lead)
        seen = [j for j in range(k.shape[-2]) if added[(*lead, i, j)] > -np.inf]
        weights = [np.exp(q[(*lead, i)] @ k[(*lead, j)] * scale + added[(*lead, i, j)]) for j in seen]
        for j, weight in zip(seen, weights, strict=True):
            out[(*lead, i)] += weight / sum(weights) * v[(*lead, j)]
    return out


# ---------------------------------------------------------------- gradients


@masks
@tiers
@orders
def test_gradients_of_attention_under_every_mask(mask, tier, order):
    inputs = qkv(2, 2)
    with by(tier):
        if mask is not None and mask.dtype == bool and not mask.any():
            assert all(
                r.largest == 0 for r in check(lambda *x: F.scaled_dot_product_attention(*x, mask), inputs)
            )
        else:
            assert gradcheck(lambda *x: F.scaled_dot_product_attention(*x, mask), inputs, order=order)


@masks
@orders
def test_gradients_of_multi_head_attention_for_every_parameter(mask, order):
    attention = MultiHeadAttention(4, 2).double()
    results = check(Call(attention, mask=mask), [leaf(2, 4, 4)], order=order)
    names = {r.name for r in results}
    assert (
        names >= {"input 0", *(f"module.{name}" for name, _ in attention.named_parameters())}
        and len(names) >= 9
    )
    assert max(r.error for r in results) < 1e-6


@pytest.mark.parametrize("dropout", (0.0, 0.4))
@orders
def test_gradients_of_cross_attention(dropout, order):
    attention = MultiHeadAttention(4, 2, dropout).double()
    assert gradcheck(Call(attention, mask=PADDING), [leaf(2, 3, 4), leaf(2, 4, 4)], order=order)
    assert gradcheck(
        Call(attention, mask=PADDING), [leaf(2, 3, 4), leaf(2, 4, 4), leaf(2, 4, 4, seed=5)], order=order
    )


def test_gradients_of_an_attention_whose_inputs_are_one_tensor():
    assert gradcheck(
        lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True), [leaf(2, 4, 3)], order=2
    )


@orders
@tiers
def test_gradient_of_a_learned_additive_mask(order, tier):
    bias = mg.tensor(np.where(HIDDEN, np.linspace(-1, 1, 16).reshape(4, 4), 0.3), requires_grad=True)
    with by(tier):
        assert gradcheck(
            lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, m), [*qkv(2), bias], order=order
        )
        fixed = mg.tensor(ADDED, requires_grad=True)
        out = F.scaled_dot_product_attention(*qkv(2), fixed)
        (found,) = gradients(out, [fixed])
    assert np.isfinite(found).all() and (found[~HIDDEN] == 0).all() and np.abs(found[0]).max() > 0.1
    near(found[2], np.zeros(4), 1e-15)  # with one visible key the weights are constant


def test_gradients_with_a_given_scale():
    assert gradcheck(lambda *x: F.scaled_dot_product_attention(*x, scale=0.3), qkv(2))


def test_key_bias_has_zero_gradient_and_the_check_says_so():
    results = {r.name: r for r in check(MultiHeadAttention(4, 2).double(), [leaf(2, 4, 4)])}
    assert results["k_proj.bias"].note == "zero gradient"  # it adds the same number to all scores of a query
    assert "zero gradient" not in {r.note for name, r in results.items() if name != "k_proj.bias"}


# ---------------------------------------------------------------- values


@masks
@tiers
def test_values_equal_three_loops(mask, tier):
    q, k, v = qkv(2, 2)
    with by(tier):
        near(F.scaled_dot_product_attention(q, k, v, mask), by_loops(q.data, k.data, v.data, mask), 1e-14)


@masks
def test_kernel_and_definition_agree_in_value_and_gradients(mask):
    inputs = qkv(2, 2)
    check_tiers(lambda: F.scaled_dot_product_attention(*inputs, mask), inputs, 1e-13)


@pytest.mark.parametrize("shared", (False, True), ids=("a head each", "shared keys"))
@pytest.mark.parametrize("queries", (128, 131, 257))
def test_a_causal_mask_computed_in_halves_agrees_with_the_definition(queries, shared):
    """From 128 queries on the kernel skips scores that no query needs.

    Tested here with padded keys and dropout.
    """
    inputs = (
        leaf(2, 2, queries, 3, seed=1),
        *(leaf(2, 1 if shared else 2, queries, 3, seed=seed) for seed in (2, 3)),
    )
    rng = np.random.default_rng(0)
    mask = causal_mask(queries).data & (rng.random((2, 1, 1, queries)) > 0.2)
    kept = 1.25 * (rng.random((2, 2, queries, queries)) > 0.2)
    check_tiers(lambda: F.attention(*inputs, mask, kept, 0.7), inputs)


@masks
def test_multi_head_attention_is_the_heads_side_by_side(mask):
    attention, x = MultiHeadAttention(6, 2).double(), leaf(2, 4, 6)
    mask4 = None if mask is None else np.broadcast_to(mask, (2, 2, 4, 4))
    heads = []
    for i in range(2):
        columns = slice(3 * i, 3 * i + 3)
        q, k, v = (
            x.data @ p.weight.data[columns].T + p.bias.data[columns]
            for p in (attention.q_proj, attention.k_proj, attention.v_proj)
        )
        heads.append(by_loops(q, k, v, None if mask is None else mask4[:, i]))
    merged = np.concatenate(heads, axis=-1)
    near(
        attention(x, mask=mask),
        merged @ attention.out_proj.weight.data.T + attention.out_proj.bias.data,
        1e-13,
    )


@tiers
def test_scores_of_ten_thousand_stay_finite(tier):
    q, k, v = (x.detach() * 1e4 for x in qkv(2))
    q, k, v = (x.requires_grad_() for x in (q, k, v))
    with by(tier):
        out = F.scaled_dot_product_attention(q, k, v, CAUSAL[0])
        assert all(np.isfinite(x).all() for x in (out.data, *gradients(out, (q, k, v))))


@tiers
@pytest.mark.parametrize("top", (-57.0, 0.0, 57.0))
def test_large_values_and_small_gradients_survive_in_float32_whatever_the_scores(tier, top):
    scores = np.linspace(-2, 2, 4) + top  # a query (1, 0) gives just these
    results = []
    for dtype in (np.float32, np.float64):
        q = mg.tensor(np.array([[1.0, 0.0]], dtype), requires_grad=True)
        k = mg.tensor(np.c_[scores, np.ones(4)].astype(dtype), requires_grad=True)
        v = mg.tensor(np.linspace(1, 3, 4)[:, None].astype(dtype) * dtype(1e14), requires_grad=True)
        with by(tier):
            out = F.scaled_dot_product_attention(q, k, v, scale=1.0)
            results.append(
                [
                    out.data / 1e14,
                    *(g.data * 1e16 for g in mg.grad(out, [v], mg.full((1, 1), 1e-16, dtype=dtype))),
                ]
            )
    for a, b in zip(*results, strict=True):
        near(a, b, 1e-5)


@tiers
def test_the_output_of_a_query_is_bitwise_independent_of_other_queries_and_examples(tier):
    q, k, v = qkv(2)
    with by(tier):
        before = F.scaled_dot_product_attention(q, k, v, PADDING[:, 0], is_causal=True).data.copy()
        q.data[0] *= 1e3
        q.data[1, 3] *= 1e5
        after = F.scaled_dot_product_attention(q, k, v, PADDING[:, 0], is_causal=True).data
    same(after[1, :3], before[1, :3])
    assert (after[0] != before[0]).any()


def test_float32_stays_float32_under_every_mask():
    inputs = [x.detach().float().requires_grad_() for x in qkv(2, 2)]
    for mask in MASKS.values():
        mask = mask if mask is None or mask.dtype == bool else mask.astype(np.float32)
        out = F.scaled_dot_product_attention(*inputs, mask)
        assert {out.dtype, *(g.dtype for g in gradients(out, inputs))} == {np.dtype("float32")}
        near(out, by_loops(*(x.data.astype(float) for x in inputs), mask), 1e-5)


# ---------------------------------------------------------------- masks (PITFALLS 27-29, 32)


@tiers
@pytest.mark.parametrize("mask", (HIDDEN, ADDED), ids=("boolean", "added"))
def test_a_fully_masked_query_has_output_zero_and_gradient_zero(tier, mask):
    q, k, v = qkv(2)
    with by(tier):
        out = F.scaled_dot_product_attention(q, k, v, mask)
        dq, dk, dv = gradients(out, (q, k, v))
    assert (out.data[:, 1] == 0).all() and (dq[:, 1] == 0).all()
    assert all(np.isfinite(d).all() for d in (dq, dk, dv)) and (dq[:, 0] != 0).any()


@tiers
@pytest.mark.parametrize("hidden", ("boolean", "added"))
@pytest.mark.parametrize("poison", (np.nan, np.inf))
def test_nan_in_a_fully_masked_key_does_not_leak(tier, hidden, poison):
    mask = PADDING[:, 0] if hidden == "boolean" else np.where(PADDING[:, 0], 0, -np.inf)
    clean, spoiled = qkv(2), qkv(2)
    spoiled[1].data[1, 2:] = spoiled[2].data[1, 2:] = poison
    results = []
    for inputs in (clean, spoiled):
        with by(tier):
            out = F.scaled_dot_product_attention(*inputs, mask)
            results.append([out.data, *gradients(out, inputs)])
    for a, b in zip(*results, strict=True):
        same(a, b)
    assert (results[1][2][1, 2:] == 0).all() and (results[1][3][1, 2:] == 0).all()


@tiers
def test_causality_is_exact(tier):
    attention, x = MultiHeadAttention(6, 2).double(), leaf(2, 5, 6)
    changed = mg.tensor(x.data)
    changed.data[:, 3:] += 100.0
    with by(tier):
        before, after = attention(x, mask=causal_mask(5)), attention(changed, mask=causal_mask(5))
        same(before.data[:, :3], after.data[:, :3])
        assert (before.data[:, 3:] != after.data[:, 3:]).any()
        for i in range(5):
            (dx,) = mg.grad(attention(x, mask=causal_mask(5))[:, i].sum(), [x])
            assert (dx.data[:, i + 1 :] == 0.0).all() and (dx.data[:, : i + 1] != 0).all()


def test_causal_and_padding_hold_together():
    q, k, v = qkv(2)
    out = F.scaled_dot_product_attention(q, k, v, PADDING[:, 0], is_causal=True)
    near(out, by_loops(q.data, k.data, v.data, (CAUSAL & PADDING)[:, 0]), 1e-14)
    added = F.scaled_dot_product_attention(q, k, v, np.where(PADDING[:, 0], 0.0, -np.inf), is_causal=True)
    near(added, out, 1e-15)


def test_causal_mask_is_aligned_at_the_last_token_and_is_causal_at_the_first():
    assert causal_mask(2, 4).data[0, 0].tolist() == [[True, True, True, False], [True] * 4]
    assert causal_mask(3).data[0, 0].tolist() == np.tri(3, dtype=bool).tolist() and causal_mask(3).shape == (
        1,
        1,
        3,
        3,
    )
    assert causal_mask(3, 2).data[0, 0].tolist() == [[False, False], [True, False], [True, True]]
    q, k, v = qkv(2, queries=2)
    near(
        F.scaled_dot_product_attention(q, k, v, is_causal=True),
        by_loops(q.data, k.data, v.data, np.tri(2, 4, dtype=bool)),
        1e-14,
    )


def test_padding_mask_is_true_for_tokens_and_takes_tensors_too():
    assert padding_mask(TOKENS, 0).shape == (2, 1, 1, 4)
    assert padding_mask(mg.tensor(TOKENS), 0).data[1, 0, 0].tolist() == [True, True, False, False]
    assert (causal_mask(4) & padding_mask(TOKENS, 0)).shape == (2, 1, 4, 4)


def test_cross_attention_masks_source_padding_and_self_attention_target_padding():
    layer = DecoderLayer(4, 2, 6).double()
    x, memory = leaf(2, 3, 4), leaf(2, 4, 4)
    tgt_mask = causal_mask(3) & padding_mask(np.array([[1, 2, 3], [1, 2, 0]]), 0)
    dx, dmemory = gradients(layer(x, memory, tgt_mask, padding_mask(TOKENS, 0))[:, :2], (x, memory))
    assert (dmemory[1, 2:] == 0).all() and (dmemory[1, :2] != 0).any() and (dmemory[0] != 0).any()
    assert (dx[:, 2] == 0).all() and (dx[:, :2] != 0).any()


def test_a_row_masked_in_multi_head_attention_leaves_only_the_output_bias():
    attention, x = MultiHeadAttention(4, 2).double(), leaf(2, 4, 4)
    out = attention(x, mask=HIDDEN)
    same(out.data[:, 1], np.broadcast_to(attention.out_proj.bias.data, (2, 4)))


# ---------------------------------------------------------------- heads (31)


def test_permuting_the_heads_permutes_their_weights_and_not_the_output():
    attention, x, order = MultiHeadAttention(6, 3).double(), leaf(2, 4, 6), [2, 0, 1]
    out, weights = attention(x, need_weights=True)
    rows = np.arange(6).reshape(3, 2)[order].reshape(-1)
    for projection in (attention.q_proj, attention.k_proj, attention.v_proj):
        projection.weight.data[:], projection.bias.data[:] = (
            projection.weight.data[rows],
            projection.bias.data[rows],
        )
    attention.out_proj.weight.data[:] = attention.out_proj.weight.data[:, rows]
    permuted, permuted_weights = attention(x, need_weights=True)
    near(permuted, out, 1e-14)
    near(permuted_weights, weights.data[:, order], 1e-15)
    assert np.abs(weights.data[:, 0] - weights.data[:, 1]).max() > 1e-3  # the heads do differ


def test_merge_undoes_split():
    attention, x = MultiHeadAttention(6, 3), leaf(2, 4, 6)
    same(attention.merge(attention.split(x)), x)
    same(attention.split(x)[:, 1], x[..., 2:4])


def test_equivariance_without_a_mask_permuting_tokens_permutes_outputs():
    attention, x, order = MultiHeadAttention(4, 2).double(), leaf(2, 4, 4), [3, 0, 2, 1]
    near(attention(x[:, order]), attention(x).data[:, order], 1e-14)


# ---------------------------------------------------------------- returned weights (36)


@masks
def test_returned_weights_are_those_used_and_returning_them_changes_nothing(mask):
    attention, x = MultiHeadAttention(6, 2).double(), leaf(2, 4, 6)
    out = attention(x, mask=mask)
    asked, weights = attention(x, mask=mask, need_weights=True)
    same(asked, out)
    near(attention.out_proj(attention.merge(weights @ attention.split(attention.v_proj(x)))), out, 1e-13)
    hidden = (
        np.zeros((2, 2, 4, 4), bool)
        if mask is None
        else np.broadcast_to(mask == (False if mask.dtype == bool else -np.inf), (2, 2, 4, 4))
    )
    assert weights.shape == (2, 2, 4, 4) and (weights.data[hidden] == 0).all()
    near(weights.data.sum(-1), np.where(hidden.all(-1), 0.0, 1.0), 1e-14)


def test_under_dropout_the_returned_weights_are_those_before_it_and_the_output_is_the_same():
    attention, x = MultiHeadAttention(6, 2, dropout=0.5).double(), leaf(2, 4, 6)
    mg.manual_seed(3)
    out = attention(x)
    mg.manual_seed(3)
    asked, weights = attention(x, need_weights=True)
    same(asked, out)
    same(weights, attention.eval()(x, need_weights=True)[1])


def test_keep_weights_keeps_an_array_and_does_not_change_the_output():
    attention, x = MultiHeadAttention(6, 2).double(), leaf(2, 4, 6)
    out, weights = attention(x, need_weights=True)
    assert attention.weights is None
    attention.keep_weights = True
    same(attention(x), out)
    same(attention.weights, weights.data)
    assert [name for name, _ in attention.named_parameters() if "weights" in name] == []


def test_returned_weights_can_be_differentiated():
    attention = MultiHeadAttention(4, 2).double()
    assert gradcheck(lambda x: attention(x, mask=CAUSAL, need_weights=True), [leaf(2, 4, 4)], order=2)


# ---------------------------------------------------------------- dropout (34)


def test_attention_dropout_is_off_in_evaluation_and_at_probability_zero():
    x = leaf(2, 4, 6)
    plain, dropping = MultiHeadAttention(6, 2).double(), MultiHeadAttention(6, 2, dropout=0.5).double()
    dropping.load_state_dict(plain.state_dict())
    same(dropping.eval()(x), plain(x))
    assert np.abs(dropping.train()(x).data - plain(x).data).max() > 1e-3


def test_dropout_of_everything_leaves_the_output_bias():
    attention = MultiHeadAttention(6, 2, dropout=1.0).double()
    same(attention(leaf(2, 4, 6)), np.broadcast_to(attention.out_proj.bias.data, (2, 4, 6)))


@tiers
def test_dropped_weights_are_zero_or_scaled_and_the_backward_uses_the_same_mask(tier):
    q, k, _ = qkv(2)
    v = mg.tensor(np.broadcast_to(np.eye(4), (2, 4, 4)), requires_grad=True)  # then the output is the weights
    with by(tier):
        kept = F.scaled_dot_product_attention(q, k, v).data
        dropped = F.scaled_dot_product_attention(q, k, v, dropout_p=0.5)
        (dv,) = gradients(dropped, [v])
    zero = dropped.data == 0
    assert 0 < zero.sum() < zero.size
    near(dropped.data[~zero], 2 * kept[~zero], 1e-14)
    g = np.random.default_rng(7).standard_normal(dropped.shape)
    near(dv, dropped.data.mT @ g, 1e-14)


def test_dropout_keeps_the_mean():
    q, k, v = qkv(1)
    mean = sum(F.scaled_dot_product_attention(q, k, v, dropout_p=0.3).data for _ in range(4000)) / 4000
    near(mean, F.scaled_dot_product_attention(q, k, v), 0.06)


# ---------------------------------------------------------------- errors


@pytest.mark.parametrize(
    "error, words, q, k, v, mask",
    [
        (ValueError, ("same width", "3", "5"), (2, 3), (4, 5), (4, 2), None),
        (ValueError, ("same length", "4", "6"), (2, 3), (4, 3), (6, 2), None),
        (ValueError, ("two axes",), (3,), (4, 3), (4, 2), None),
        (ValueError, ("(5, 5)", "broadcast", "(2, 4)"), (2, 3), (4, 3), (4, 2), np.ones((5, 5), bool)),
        (ValueError, ("(3, 2, 4)", "broadcast"), (2, 3), (4, 3), (4, 2), np.ones((3, 2, 4), bool)),
        (TypeError, ("boolean", "True = may attend"), (2, 3), (4, 3), (4, 2), np.ones((2, 4), int)),
    ],
)
def test_attention_raises_a_clear_error_for_wrong_shapes_and_masks(error, words, q, k, v, mask):
    with refuses(error, *words):
        F.scaled_dot_product_attention(leaf(*q), leaf(*k), leaf(*v), mask)


def test_dropout_and_heads_that_make_no_sense_are_refused():
    with refuses(ValueError, "probability", "1.5"):
        F.scaled_dot_product_attention(*qkv(), dropout_p=1.5)
    with refuses(ValueError, "d_model = 10", "4 heads", "1, 2, 5, 10"):
        MultiHeadAttention(10, 4)
    with refuses(ValueError, "0 heads"):
        MultiHeadAttention(8, 0)
