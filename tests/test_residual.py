"""Tests of residual blocks, post-norm and pre-norm: gradients against differences, some against formulas."""

import numpy as np
import pytest
from oracle import by, gradients, leaf, near, same

import minigrad as mg
from minigrad import functional as F
from minigrad.gradcheck import GradcheckError, check, gradcheck
from models.attention import causal_mask, padding_mask
from models.blocks import DecoderLayer, EncoderLayer, FeedForward, Residual
from models.samples import Call, ResidualAttention, ResidualFeedForward

SRC, TGT = np.array([[3, 1, 4, 0], [2, 2, 5, 1]]), np.array([[1, 3, 3], [1, 4, 0]])
TGT_MASK, SRC_MASK = causal_mask(3) & padding_mask(TGT, 0), padding_mask(SRC, 0)
norms = pytest.mark.parametrize("norm", ("post", "pre"))
orders = pytest.mark.parametrize("order", (1, 2))
tiers = pytest.mark.parametrize("tier", ("kernel", "definition"))

BLOCKS = {
    "feed-forward": lambda norm, p: (ResidualFeedForward(norm, p), {}, [(2, 3, 4)]),
    "attention": lambda norm, p: (ResidualAttention(norm, p), {"mask": TGT_MASK}, [(2, 3, 4)]),
    "encoder layer": lambda norm, p: (
        EncoderLayer(4, 2, 6, p, norm, "gelu"),
        {"mask": SRC_MASK},
        [(2, 4, 4)],
    ),
    "encoder layer, relu": lambda norm, p: (EncoderLayer(4, 2, 6, p, norm), {"mask": SRC_MASK}, [(2, 4, 4)]),
    "decoder layer": lambda norm, p: (
        DecoderLayer(4, 2, 6, p, norm, "gelu"),
        {"tgt_mask": TGT_MASK, "src_mask": SRC_MASK},
        [(2, 3, 4), (2, 4, 4)],
    ),
}


def build(block, norm, dropout=0.0):
    """Build a block whose norms differ from their initial values 1 and 0, which may hide wrong gradients."""
    module, fixed, shapes = BLOCKS[block](norm, dropout)
    rng = np.random.default_rng(1)
    for name, p in module.double().named_parameters():
        if "norm" in name:
            p.data += rng.normal(0, 0.5, p.shape)
    return Call(module, **fixed), [leaf(*shape, seed=i) for i, shape in enumerate(shapes)]


# ---------------------------------------------------------------- against differences


@pytest.mark.parametrize("block", BLOCKS)
@norms
@orders
def test_gradients_of_every_parameter_and_input(block, norm, order):
    module, inputs = build(block, norm)
    results = check(module, inputs, order=order)
    wanted = [f"input {i}" for i in range(len(inputs))] + [name for name, _ in module.named_parameters()]
    assert [r.name for r in results][: len(wanted)] == wanted
    assert max(results, key=lambda r: r.error).error < 1e-6
    if order == 1:  # no gradient is correct only because it is zero, except those of key biases
        assert {r.name.split(".", 1)[1] for r in results if r.largest < 1e-9} <= {
            f"{a}.k_proj.bias" for a in ("attention", "self_attention", "cross_attention")
        }


@pytest.mark.parametrize("block", BLOCKS)
@norms
def test_gradients_with_dropout_frozen(block, norm):
    module, inputs = build(block, norm, dropout=0.3)
    assert gradcheck(module, inputs) and gradcheck(module, inputs, order=2, fast=True)


@pytest.mark.parametrize("block", BLOCKS)
@norms
def test_kernels_and_definitions_agree_in_every_gradient(block, norm):
    module, inputs = build(block, norm)
    found = []
    for tier in ("kernel", "definition"):
        with by(tier):
            found.append(gradients(module(*inputs), [*inputs, *module.parameters()]))
    for a, b in zip(*found, strict=True):
        near(a, b, 1e-12)


# ---------------------------------------------------------------- against formulas


def norm_jacobian(x, eps=1e-5):
    """The Jacobian of the norm of one row: dy_i/dx_j = (1[i=j] - 1/n - x^_i x^_j / n) / sqrt(var + eps)."""
    n, scale = len(x), 1 / np.sqrt(x.var() + eps)
    xhat = (x - x.mean()) * scale
    return scale * (np.eye(n) - 1 / n - np.outer(xhat, xhat) / n)


def softmax_jacobian(x):
    """The Jacobian of the softmax of one row: dy_i/dx_j = y_i (1[i=j] - y_j)."""
    y = np.exp(x) / np.exp(x).sum()
    return np.diag(y) - np.outer(y, y)


@tiers
@pytest.mark.parametrize(
    "fun, jacobian", [(lambda x: F.layer_norm(x, 5), norm_jacobian), (F.softmax, softmax_jacobian)]
)
def test_backward_of_layer_norm_and_softmax_is_their_jacobian_transposed(tier, fun, jacobian):
    x, g = leaf(3, 5), np.random.default_rng(2).standard_normal((3, 5))
    with by(tier):
        fun(x).backward(mg.tensor(g))
    near(x.grad, np.stack([jacobian(row).T @ g_row for row, g_row in zip(x.data, g, strict=True)]), 1e-13)


@tiers
def test_layer_norm_of_values_known_by_hand(tier):
    x = mg.tensor([[1.0, 0.0, 0.0, 0.0]], dtype=np.float64)
    with by(tier):
        # biased: 1.732, not 1.5
        near(F.layer_norm(x, 4, eps=0.0), [[np.sqrt(3), *[-1 / np.sqrt(3)] * 3]], 1e-15)
        assert f"{F.layer_norm(x, 4)[0, 0].item():.4f}" == "1.7320"
        near(F.layer_norm(x * 0 + 7, 4), np.zeros((1, 4)), 1e-15)  # eps inside the root: no 0/0


@tiers
def test_gradients_of_the_norms_weight_and_bias_are_sums_over_rows(tier):
    x, w, b, g = (
        leaf(2, 3, 5),
        leaf(5, seed=1),
        leaf(5, seed=2),
        np.random.default_rng(3).standard_normal((2, 3, 5)),
    )
    with by(tier):
        F.layer_norm(x, 5, w, b).backward(mg.tensor(g))
    xhat = (x.data - x.data.mean(-1, keepdims=True)) / np.sqrt(x.data.var(-1, keepdims=True) + 1e-5)
    near(w.grad, (g * xhat).sum((0, 1)), 1e-13)
    near(b.grad, g.sum((0, 1)), 1e-13)


@norms
def test_backward_of_a_residual_is_the_formula_with_the_skip_connection(norm):
    residual, matrix, x = Residual(4, norm=norm).double(), leaf(4, 4), leaf(4, seed=3)
    out = residual(x, lambda x: matrix @ x)
    (dx,) = gradients(out, [x])
    g, A = np.random.default_rng(7).standard_normal(4), matrix.data
    if norm == "post":  # y = norm(x + A x)
        expected = (np.eye(4) + A).T @ norm_jacobian(x.data + A @ x.data).T @ g
    else:  # y = x + A norm(x)
        expected = g + norm_jacobian(x.data).T @ A.T @ g
    near(dx, expected, 1e-12)


def test_with_a_zero_sublayer_the_pre_norm_gradient_passes_unchanged_and_the_post_norm_one_does_not():
    g = np.random.default_rng(7).standard_normal((2, 4))
    for norm in ("pre", "post"):
        x = leaf(2, 4)
        (dx,) = gradients(Residual(4, norm=norm).double()(x, lambda x: x * 0), [x])
        assert np.array_equal(dx, g) == (norm == "pre")
        if norm == "post":
            near(dx.sum(-1), np.zeros(2), 1e-14)  # a norm is invariant to a common shift


def test_feed_forward_is_equation_two_at_each_position_separately():
    block, x = FeedForward(4, 6).double(), leaf(2, 3, 4)
    w1, b1, w2, b2 = (
        p.data for p in (block.linear1.weight, block.linear1.bias, block.linear2.weight, block.linear2.bias)
    )
    near(block(x), np.maximum(x.data @ w1.T + b1, 0) @ w2.T + b2, 1e-14)
    (dx,) = mg.grad(block(x)[:, 1].sum(), [x])
    assert (dx.data[:, [0, 2]] == 0).all() and (dx.data[:, 1] != 0).any()


def test_layers_are_the_papers_sums():
    layer, x, memory = DecoderLayer(4, 2, 6).double(), leaf(2, 3, 4), leaf(2, 4, 4)
    r1, r2, r3 = layer.residual1.norm, layer.residual2.norm, layer.residual3.norm
    a = r1(x + layer.self_attention(x, mask=TGT_MASK))
    b = r2(a + layer.cross_attention(a, memory, mask=SRC_MASK))
    same(layer(x, memory, TGT_MASK, SRC_MASK), r3(b + layer.feed_forward(b)))
    layer, r1, r2 = (
        (pre := EncoderLayer(4, 2, 6, norm="pre").double()),
        pre.residual1.norm,
        pre.residual2.norm,
    )
    a = x + layer.self_attention(r1(x))
    same(layer(x), a + layer.feed_forward(r2(a)))


def test_a_deep_pre_norm_stack_keeps_its_gradient_and_a_deep_plain_stack_does_not():
    layers = [FeedForward(8, 8) for _ in range(30)]
    sizes = {}
    for kind in ("pre", "plain"):
        x = y = mg.tensor(leaf(4, 8).data, dtype=np.float32, requires_grad=True)
        for layer in layers:
            y = Residual(8, norm="pre")(y, layer) if kind == "pre" else layer(y)
        sizes[kind] = np.linalg.norm(gradients(y, [x])[0])
    assert sizes["pre"] > 1 and sizes["plain"] < 1e-6


# ---------------------------------------------------------------- wrong rules are caught


@pytest.mark.parametrize("name, fun", [("softmax", F.softmax), ("normalized", lambda x: F.layer_norm(x, 5))])
@pytest.mark.parametrize("tier", ("kernel", "definition"))
def test_a_backward_that_returns_zeros_fails_the_check(monkeypatch, name, fun, tier):
    def zeros(g, y, saved, needs, x, *_):
        return [np.zeros(x.shape), *[None] * 8][: len(needs)]

    def silent(x):
        return fun(x.detach()) + 0 * x

    assert gradcheck(fun, [leaf(3, 5)])
    if tier == "kernel":
        monkeypatch.setattr(getattr(F, name).kernel, "backward", zeros)
    with pytest.raises(GradcheckError, match="wrong for input 0: backward gives [-0]"):
        gradcheck(fun if tier == "kernel" else silent, [leaf(3, 5)])


def test_ones_as_incoming_gradient_would_let_zeros_pass_for_both():
    for fun in (F.softmax, lambda x: F.layer_norm(x, 5)):
        x = leaf(3, 5)
        fun(x).sum().backward()
        near(x.grad, np.zeros((3, 5)), 1e-12)


SPOILED = {
    "scaled by 1.001": lambda dx, g, y, saved: dx * 1.001,
    "sign": lambda dx, g, y, saved: -dx,
    "zero": lambda dx, g, y, saved: dx * 0,
    "the incoming gradient itself": lambda dx, g, y, saved: g,
    "without its last term": lambda dx, g, y, saved: dx + 0.1 * y,
}


@pytest.mark.parametrize("how", SPOILED)
@pytest.mark.parametrize(
    "definition", (F.softmax, F.normalized, F.attention, F.linear, F.gelu), ids=lambda d: d.__name__
)
def test_a_wrong_kernel_fails_the_check_of_a_whole_block(monkeypatch, how, definition):
    right = definition.kernel.backward

    def wrong(g, y, saved, needs, *args):
        dx, *others = right(g, y, saved, needs, *args)
        return [dx if dx is None or g.shape != dx.shape else SPOILED[how](dx, g, y, saved), *others]

    module, inputs = build("encoder layer", "post")
    fun = module if definition is not F.softmax else F.softmax
    monkeypatch.setattr(definition.kernel, "backward", wrong)
    with pytest.raises(GradcheckError):
        gradcheck(fun, inputs)
