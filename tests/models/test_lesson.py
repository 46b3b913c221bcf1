"""Where the lesson this project grew from errs, ours is right; what of it can be a test is a test here, in its order."""

import math

import numpy as np
import pytest
from helpers import nodes
from oracle import gradients, leaf, near, refuses, same

import minigrad as mg
from minigrad import functional as F
from minigrad import nn
from minigrad.gradcheck import gradcheck
from models.attention import MultiHeadAttention, causal_mask
from models.blocks import DecoderLayer, EncoderLayer, FeedForward, Residual
from models.positional import PositionalEncoding, sinusoidal
from models.transformer import Transformer


def attend(q, k, v, mask=None, scale=None):
    """(output, weights) of plain arrays."""
    q, k, v = (mg.tensor(np.asarray(x, float)) for x in (q, k, v))
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    return F.scaled_dot_product_attention(q, k, v, mask, scale=scale).data, F.attention_weights(
        q, k, mask, scale
    ).data


def normal(*shape, seed=0):
    return np.random.default_rng((seed, *shape)).standard_normal(shape)


# ---------------------------------------------------------------- 1.2 the six parts


def test_1_2_the_architecture_has_the_six_parts_and_cross_attention_in_the_decoder_only():
    model = Transformer(9, d_model=8, num_heads=2, num_layers=2, d_ff=16)
    parts = [nn.Embedding, PositionalEncoding, MultiHeadAttention, Residual, FeedForward]
    assert all(any(isinstance(m, part) for m in model.modules()) for part in parts)
    names = [name for name, _ in model.named_modules()]
    assert {name.split(".")[0] for name in names if name.endswith("cross_attention")} == {"decoder"}
    assert {name.split(".")[0] for name in names if name.endswith("self_attention")} == {"encoder", "decoder"}


def test_1_2_embedding_turns_tokens_into_vectors_by_looking_up_rows():
    table = nn.Embedding(9, 4)
    same(table([[2, 7, 2]]), table.weight.data[[[2, 7, 2]]])


# ---------------------------------------------------------------- 1.3 scaled dot-product attention

Q = [[1, 0, 2, 1], [0, 2, 1, 0], [1, 1, 0, 2]]
K = [[0, 1, 1, 0], [2, 0, 0, 1], [1, 2, 1, 0]]
V = [[1, 0, 1], [1, 1, 0], [0, 1, 1]]
WEIGHTS = [[0.232697, 0.383652, 0.383652], [0.253716, 0.056612, 0.689672], [0.121952, 0.546549, 0.331499]]
OUTPUT = [[0.616348, 0.767303, 0.616348], [0.310328, 0.746284, 0.943388], [0.668501, 0.878048, 0.453451]]


def test_1_3_1_a_query_that_matches_one_key_gets_what_lies_under_that_key():
    shelf = np.eye(3) * 100  # three books whose titles have nothing in common
    output, weights = attend(shelf[1:2], shelf, normal(3, 5))
    near(weights, [[0, 1, 0]], 1e-15)
    near(output, normal(3, 5)[1:2], 1e-13)


def test_1_3_2_queries_and_keys_may_differ_in_number_and_values_in_width():
    output, weights = attend(
        normal(5, 4), normal(7, 4), normal(7, 3)
    )  # the lesson's n tokens for all of them is self-attention
    assert output.shape == (5, 3) and weights.shape == (5, 7)


def test_1_3_3_the_four_steps_one_by_one():
    scores = np.array(Q) @ np.array(K).T
    near(scores / math.sqrt(4), [[1, 1.5, 1.5], [1.5, 0, 2.5], [0.5, 2, 1.5]], 1e-15)
    weights = F.softmax(mg.tensor(scores / 2.0))
    near(weights, np.array(WEIGHTS), 5e-7)
    near(weights.data @ np.array(V), np.array(OUTPUT), 5e-7)


def test_1_3_4_the_worked_example():
    output, weights = attend(Q, K, V)
    near(weights, WEIGHTS, 5e-7)
    near(output, OUTPUT, 5e-7)
    near(weights.sum(-1), np.ones(3), 1e-15)


def test_1_3_4_batches_work_too_where_the_lessons_transpose_would_not():
    q, k, v = normal(2, 3, 4), normal(2, 3, 4, seed=1), normal(2, 3, 5)
    output, _ = attend(q, k, v)
    for i in range(2):
        near(output[i], attend(q[i], k[i], v[i])[0], 1e-14)


def test_1_3_4_attention_has_what_the_lessons_code_lacks_a_mask_a_bias_dropout_and_a_backward():
    attention = MultiHeadAttention(4, 2, dropout=0.2).double()
    assert attention.q_proj.bias is not None
    assert gradcheck(lambda x: attention(x, mask=causal_mask(3)), [leaf(2, 3, 4)])


def test_1_3_5_1_a_thousand_tokens_make_a_million_weights():
    assert attend(np.zeros((1000, 1)), np.zeros((1000, 1)), np.zeros((1000, 1)))[1].size == 1_000_000


def test_1_3_5_2_saturation_is_cured_by_the_scale_and_overflow_by_the_maximum():
    q, k, v = leaf(1, 1024), leaf(8, 1024, seed=1), leaf(8, 2)

    def slope(scale):
        return np.abs(gradients(F.softmax((q @ k.T) * scale), [k])[0]).max() / scale

    assert slope(1.0) < 1e-2 * slope(1024**-0.5)  # two troubles: saturated scores have no slope ...
    output, weights = attend(
        q.data * 1e4, k.data, v.data, scale=1.0
    )  # ... and exp of 1e5 is inf, unless the maximum is taken off
    assert np.isfinite(output).all() and weights.max() == 1.0
    near(F.softmax(mg.tensor([1e4, 1e4 + 1])), F.softmax(mg.tensor([0.0, 1.0])), 1e-7)


def test_1_3_5_3_a_single_token_attends_to_itself_with_weight_one():
    v = normal(1, 3)
    output, weights = attend(normal(1, 4), normal(1, 4, seed=1), v)
    assert weights.tolist() == [[1.0]]
    same(output, v)


def test_1_3_5_4_equal_keys_make_uniform_weights_and_queries_equal_to_keys_do_not():
    keys = np.repeat(normal(1, 4), 5, axis=0)
    near(attend(normal(5, 4, seed=3), keys, normal(5, 2))[1], np.full((5, 5), 0.2), 1e-15)
    x = normal(5, 4)
    weights = attend(x, x, x)[1]
    assert np.abs(weights - 0.2).max() > 0.3


# ---------------------------------------------------------------- 1.4 multi-head attention


def test_1_4_1_heads_look_at_different_things_at_once():
    _, weights = MultiHeadAttention(8, 2).double()(leaf(1, 5, 8) * 3, need_weights=True)
    assert np.abs(weights.data[0, 0] - weights.data[0, 1]).max() > 0.1
    near(weights.data.sum(-1), np.ones((1, 2, 5)), 1e-14)  # each shares out an attention of its own


@pytest.mark.parametrize("num_heads, d_k", ((8, 64), (16, 32), (1, 512)))
def test_1_4_2_each_head_has_d_model_over_h_dimensions(num_heads, d_k):
    assert MultiHeadAttention(512, num_heads).head_dim == d_k


def test_1_4_3_two_heads_of_width_four_side_by_side_make_eight():
    attention, x = MultiHeadAttention(8, 2), mg.randn(1, 3, 8)
    assert attention.q_proj.weight[:4].T.shape == (8, 4)  # W_1^Q
    heads = attention.split(attention.v_proj(x))
    assert heads[0, 0].shape == (3, 4) and attention.merge(heads).shape == attention(x).shape == (1, 3, 8)
    assert attention.out_proj.weight.shape == (8, 8)


def the_lessons_heads(x, w_q, w_k, w_v, w_o, num_heads):
    """1.4.4 as it was written, without the class."""
    batch, seq, d_model = x.shape

    def split(x):
        return x.reshape(batch, seq, num_heads, d_model // num_heads).transpose(0, 2, 1, 3)

    q, k, v = split(x @ w_q), split(x @ w_k), split(x @ w_v)
    scores = np.matmul(q, k.transpose(0, 1, 3, 2)) / np.sqrt(d_model // num_heads)
    e = np.exp(scores - np.max(scores, axis=-1, keepdims=True))
    weights = e / np.sum(e, axis=-1, keepdims=True)
    return np.matmul(weights, v).transpose(0, 2, 1, 3).reshape(batch, seq, d_model) @ w_o, weights


def test_1_4_4_the_lessons_code_and_ours_agree_given_the_same_matrices():
    attention, x = MultiHeadAttention(512, 8, bias=False), normal(2, 10, 512)
    projections = (attention.q_proj, attention.k_proj, attention.v_proj, attention.out_proj)
    output, weights = attention.double()(mg.tensor(x), need_weights=True)
    expected = the_lessons_heads(x, *(p.weight.data.T for p in projections), 8)
    assert output.shape == (2, 10, 512) and weights.shape == (2, 8, 10, 10)
    near(output, expected[0], 1e-12)
    near(weights, expected[1], 1e-12)


def test_1_4_4_combining_heads_undoes_splitting_them():
    attention, x = MultiHeadAttention(12, 3), mg.randn(2, 5, 12)
    assert attention.split(x).shape == (2, 3, 5, 4)
    same(attention.merge(attention.split(x)), x)


def test_1_4_4_making_a_layer_neither_reseeds_numpy_nor_repeats_another():
    np.random.seed(7)
    expected = np.random.rand(3)
    np.random.seed(7)
    one, two = MultiHeadAttention(8, 2), MultiHeadAttention(8, 2)
    same(np.random.rand(3), expected)
    assert (one.q_proj.weight.data != two.q_proj.weight.data).all()


# ---------------------------------------------------------------- 1.5 positional encoding


def test_1_5_1_without_positions_attention_cannot_tell_one_order_from_another_and_with_them_it_can():
    layer, x, order = EncoderLayer(8, 2, 16).double(), leaf(1, 5, 8), [4, 2, 0, 1, 3]
    near(layer(x[:, order]), layer(x).data[:, order], 1e-13)
    positions = PositionalEncoding(8).double()
    assert np.abs(layer(positions(x[:, order])).data - layer(positions(x)).data[:, order]).max() > 0.01


def test_1_5_2_position_plus_k_is_a_linear_map_of_position_the_same_everywhere():
    table = sinusoidal(120, 16).data.astype(float)
    for k in (1, 5, 20):
        matrix = np.linalg.lstsq(table[:60], table[k : 60 + k], rcond=None)[0]
        # found from the first sixty in float32, it holds for the others too
        near(table[: 120 - k] @ matrix, table[k:], 1e-3)


def test_1_5_3_position_zero():
    assert sinusoidal(1, 6).tolist() == [[0, 1, 0, 1, 0, 1]]


def test_1_5_3_position_one_by_the_formula_and_not_by_the_lessons_sums():
    near(
        sinusoidal(2, 6).data[1].astype(float),
        [0.841471, 0.540302, 0.046399, 0.998923, 0.002154, 0.999998],
        1e-6,
    )
    assert [round(10000 ** (c / 6), 3) for c in (2, 4)] == [21.544, 464.159]  # the lesson has 10 and 1000


def test_1_5_4_the_lessons_two_loops_give_the_same_table():
    table = np.zeros((100, 512))
    for pos in range(100):
        for i in range(0, 512, 2):  # its i is already the formula's 2i
            table[pos, i], table[pos, i + 1] = (
                np.sin(pos / 10000 ** (i / 512)),
                np.cos(pos / 10000 ** (i / 512)),
            )
    near(sinusoidal(100, 512).data.astype(float), table, 1e-6)


def test_1_5_4_an_odd_width_works_where_the_lessons_code_runs_out_of_columns():
    table = sinusoidal(10, 7).data.astype(float)
    assert table.shape == (10, 7) and table[0].tolist() == [0, 1, 0, 1, 0, 1, 0]
    near(table[:, 6], np.sin(np.arange(10) / 10000 ** (6 / 7)), 1e-6)  # the last sine has no cosine


def test_1_5_5_1_slow_columns_do_not_blur_positions_because_fast_ones_remain():
    table = sinusoidal(2000, 64).data.astype(float)
    distance = np.linalg.norm(np.diff(table, axis=0), axis=1)
    near(distance, np.full(1999, distance[0]), 1e-4)  # neighbours are equally far apart wherever they stand
    assert len(np.unique(table.round(4), axis=0)) == 2000


def test_1_5_5_2_all_sines_are_zero_and_all_cosines_one_at_position_zero():
    assert not sinusoidal(1, 512).data[0, 0::2].any() and (sinusoidal(1, 512).data[0, 1::2] == 1).all()


def test_1_5_5_3_positions_are_constants_so_gradients_pass_by_them():
    positions, x = PositionalEncoding(6).double(), leaf(1, 4, 6)
    (g,) = gradients(positions(x), [x])
    same(g, gradients(x * 1, [x])[0])
    assert not list(positions.parameters()) and not positions.table.requires_grad


# ---------------------------------------------------------------- 1.6 feed-forward, 1.7 residual and norm


def test_1_6_the_feed_forward_treats_each_position_alone_and_alike():
    block, x = FeedForward(4, 8).double(), leaf(1, 5, 4)
    for t in range(5):
        near(block(x).data[:, t], block(x[:, t : t + 1]).data[:, 0], 1e-14)


def test_1_7_the_way_around_lets_the_gradient_through_undiminished():
    x = leaf(2, 4)
    same(gradients(x + 0 * F.tanh(x), [x])[0], gradients(x * 1, [x])[0])


def test_1_7_layer_norm_normalises_features_and_not_the_batch():
    y = nn.LayerNorm(64).double()(leaf(3, 64) * 5 + 2).data
    near(y.mean(-1), np.zeros(3), 1e-14)
    near(y.std(-1), np.ones(3), 1e-5)
    assert np.abs(y.mean(0)).max() > 0.1


# ---------------------------------------------------------------- 5 pitfalls


def test_pitfall_1_self_attention_has_one_source_and_cross_attention_two():
    attention, x, memory = MultiHeadAttention(4, 2).double(), leaf(1, 3, 4), leaf(1, 5, 4)
    same(attention(x), attention(x, x, x))
    out, weights = attention(x, memory, memory, need_weights=True)
    assert out.shape == (1, 3, 4) and weights.shape == (1, 2, 3, 5)
    layer = DecoderLayer(4, 2, 8).double()
    dx, dmemory = gradients(layer(x, memory), [x, memory])
    assert (dx != 0).any() and (dmemory != 0).any()


def test_pitfall_2_scores_have_variance_d_k_and_the_scale_makes_it_one():
    for d_k in (16, 64, 256):
        scores = normal(200, d_k) @ normal(200, d_k, seed=1).T
        assert abs(scores.var() / d_k - 1) < 0.1
        assert abs((scores / math.sqrt(d_k)).var() - 1) < 0.1


def test_pitfall_3_more_heads_cost_nothing_and_see_less_each():
    x = normal(1, 8, 8)

    def parameters_and_rank(num_heads):
        attention = MultiHeadAttention(8, num_heads, bias=False).double()
        q, k = (attention.split(p(mg.tensor(x))).data[0, 0] for p in (attention.q_proj, attention.k_proj))
        return sum(p.numel() for p in attention.parameters()), int(np.linalg.matrix_rank(q @ k.T))

    assert [parameters_and_rank(h) for h in (1, 2, 8)] == [(256, 8), (256, 4), (256, 1)]


# ---------------------------------------------------------------- 6 practice questions


def test_q1_attention_by_hand():
    output, weights = attend([[1, 0]], [[1, 0], [0, 1], [1, 1]], [[1], [0], [1]])
    e = np.exp(np.array([1, 0, 1]) / math.sqrt(2))
    near(np.r_[e, e.sum()], [2.028115, 1, 2.028115, 5.056230], 1e-6)
    near(weights, [[0.401112, 0.197776, 0.401112]], 1e-6)
    near(output, [[0.802224]], 1e-6)


def test_q2_d_model_must_be_a_multiple_of_the_heads_here_and_equal_heads_are_a_convention():
    with refuses(ValueError, "d_model = 10", "3 heads", "1, 2, 5, 10"):
        MultiHeadAttention(10, 3)
    heads = [
        attend(normal(4, 3), normal(4, 3, seed=1), normal(4, 2))[0],
        attend(normal(4, 5), normal(4, 5, seed=1), normal(4, 4))[0],
    ]
    # widths 2 and 4: any W^O (h d_v, d_model) takes them
    joined = np.concatenate(heads, axis=-1) @ normal(6, 10)
    assert joined.shape == (4, 10)
    assert MultiHeadAttention(10, 3, head_dim=7)(mg.randn(1, 4, 10)).shape == (1, 4, 10)


def test_q3_without_the_scale_scores_are_around_32_and_softmax_is_one_hot_and_flat():
    # independent entries of variance 1, which the answer takes for granted
    q, k = normal(50, 1024), normal(50, 1024, seed=1)
    assert abs((q @ k.T).std() - 32) < 1
    bare, scaled = attend(q, k, k, scale=1.0)[1], attend(q, k, k)[1]
    assert np.median(bare.max(-1)) > 0.99 and np.median(scaled.max(-1)) < 0.3
    # the diagonal of the softmax's Jacobian
    slopes = [np.median(np.abs(w * (1 - w)).max(-1)) for w in (bare, scaled)]
    assert slopes[0] < 0.01 < 0.05 < slopes[1]
    assert (q @ q.T).diagonal().mean() > 900  # and not of a query that is its own key


def test_q4_eight_heads_of_a_thousand_tokens_take_32_megabytes_of_float32():
    zeros = mg.zeros(1, 8, 1000, 1)
    weights = F.attention_weights(zeros, zeros).data
    assert weights.dtype == np.float32 and weights.size == 8_000_000 and weights.nbytes == 32_000_000
    # of one layer, forward only
    assert 32 * weights.nbytes == 1_024_000_000 and round(weights.nbytes / 2**20, 1) == 30.5


def test_q5_frequencies_fall_geometrically_from_one_to_just_above_a_ten_thousandth():
    frequency = np.arcsin(sinusoidal(2, 512).data[1, 0::2].astype(float))
    assert len(frequency) == 256  # i = 256, of which the answer speaks, is not among 0..255
    near(frequency[[0, 128]], [1.0, 0.01], 1e-6)
    assert (
        math.isclose(frequency[255], 10000 ** (-510 / 512), rel_tol=1e-6)
        and f"{frequency[255]:.5g}" == "0.00010366"
    )
    near(frequency[1:] / frequency[:-1], np.full(255, 10000 ** (-2 / 512)), 1e-5)


def test_q6_minus_infinity_is_added_before_softmax_and_masked_weights_are_exactly_zero():
    q, k, v = normal(4, 3), normal(4, 3, seed=1), normal(4, 2)
    added = np.where(np.tri(4, dtype=bool), 0.0, -np.inf)
    output, weights = attend(q, k, v, added)
    assert (weights[~np.tri(4, dtype=bool)] == 0).all()
    near(weights.sum(-1), np.ones(4), 1e-15)
    near(output, attend(q, k, v, np.tri(4, dtype=bool))[0], 1e-15)
    scores = q @ k.T / math.sqrt(3) + added
    near(weights, np.exp(scores) / np.exp(scores).sum(-1, keepdims=True), 1e-14)


def test_q6_a_row_in_which_all_is_masked_gives_zero_where_the_formula_gives_nan():
    output, weights = attend(normal(2, 3), normal(4, 3), normal(4, 2), np.full((2, 4), -np.inf))
    assert not output.any() and not weights.any()


def test_q6_a_large_negative_number_does_the_same_unless_all_is_masked():
    q, k, v = normal(3, 3), normal(3, 3, seed=1), normal(3, 2)
    allowed = np.array([[True, False, False], [True, True, False], [False, False, False]])
    output, weights = attend(q, k, v, np.where(allowed, 0.0, -1e9))
    same(weights[:2], attend(q, k, v, allowed)[1][:2])
    # then it changes nothing: masked tokens are attended to, which nothing reports
    near(weights[2], attend(q, k, v)[1][2], 1e-6)
    assert not attend(q, k, v, allowed)[0][2].any()


def test_q7_a_heads_query_matrix_is_512_by_64():
    attention = MultiHeadAttention(512, 8)
    assert attention.q_proj.weight[: attention.head_dim].T.shape == (512, 64)


def test_q8_from_token_1_to_token_20_a_recurrence_takes_19_steps_and_attention_one():
    x, w, u = leaf(20, 4), leaf(4, 4) * 0.3, leaf(4, 4, seed=1) * 0.3
    h, steps = F.tanh(x[0] @ w), []
    for token in list(x)[1:]:
        steps.append(h @ u)
        h = F.tanh(steps[-1] + token @ w)
    assert len(steps) == sum(node in {s.node for s in steps} for node in nodes(h)) == 19
    attended = F.scaled_dot_product_attention(x, x, x)
    assert [node.fun for node in nodes(attended)].count(F.attention.kernel.forward) == 1
    first = {
        name: np.abs(mg.grad(y.sum(), [x])[0].data[0]).max()
        for name, y in (("recurrence", h), ("attention", attended[19]))
    }
    assert first["recurrence"] < 1e-6 < 1e-4 < first["attention"]


def test_q9_twice_the_length_is_four_times_the_weights_and_heads_do_not_matter():
    def products(n, d_model, num_heads):
        """Multiplications for the scores of all heads."""
        attention = MultiHeadAttention(d_model, num_heads)
        q = attention.split(attention.q_proj(mg.zeros(1, n, d_model)))
        return F.attention_weights(q, q).numel() * q.shape[-1]

    assert products(40, 8, 2) == 4 * products(20, 8, 2) and products(20, 16, 2) == 2 * products(20, 8, 2)
    # n^2 d_k is one head; all of them n^2 d_model
    assert [products(20, 8, h) for h in (1, 2, 8)] == [20 * 20 * 8] * 3


def multiplications(y):
    """Of all matrix products on the way to y."""
    return sum(math.prod(node.shape) * node.args[0].shape[-1] for node in nodes(y) if node.fun is np.matmul)


@mg.definitions()
def test_q9_multiplications_of_a_whole_layer_and_of_a_recurrence_and_how_many_must_wait_for_each_other():
    for n, d in ((5, 8), (10, 8), (10, 16)):
        x = mg.randn(1, n, d)
        # the second term is forgotten there
        assert multiplications(MultiHeadAttention(d, 2)(x)) == 2 * n * n * d + 4 * n * d * d
        assert multiplications(nn.RNN(d, d, batch_first=True)(x)[0]) == 2 * n * d * d
    depth = {}
    for n in (5, 10):
        for name, layer in (
            ("recurrence", nn.RNN(8, 8, batch_first=True)),
            ("attention", MultiHeadAttention(8, 2)),
        ):
            y = layer(mg.randn(1, n, 8))
            depth[name, n] = longest_path(y[0] if name == "recurrence" else y)
    assert (
        depth["attention", 5] == depth["attention", 10]
        and depth["recurrence", 10] == depth["recurrence", 5] + 5
    )


def longest_path(y):
    """The most matrix products on a way to y: what cannot be done side by side."""
    products = {}
    for node in nodes(y):
        before = max((products.get(parent, 0) for parent in node.parents), default=0)
        products[node] = before + (node.fun is np.matmul)
    return products[y.node]


def test_q10_a_residual_keeps_the_input_and_the_gradients_of_deep_stacks():
    x = leaf(2, 8)
    same(Residual(8, norm="pre").double()(x, lambda x: x * 0), x)
    sizes = {}
    for kind in ("plain", "residual"):
        y = x
        for _ in range(12):
            block = FeedForward(8, 16).double()
            y = y + block(y) if kind == "residual" else block(y)
        sizes[kind] = np.abs(gradients(y, [x])[0]).max()
    assert sizes["plain"] < 1e-3 < 0.3 < sizes["residual"]
