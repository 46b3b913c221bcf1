"""What to check of ops.py, functional.py and kernels.py: for each function, inputs at which its derivatives say something.

Read by `python -m minigrad.gradcheck` and by the tests, which fail if a row of the table has no sample here.
"""

import numpy as np

import minigrad as mg
from minigrad import functional as F
from minigrad import primitives
from minigrad._tensor import apply
from minigrad.autograd import defvjp
from minigrad.gradcheck import Sample, leaf
from minigrad.modes import Mode, readable

SAMPLES = []


def draw(rng, spec):
    """An input from its description: a shape for normal numbers, ("positive", shape), or anything else as it is."""
    if isinstance(spec, tuple) and spec and isinstance(spec[0], str):
        kind, shape = spec
        normal = rng.standard_normal(shape)
        return leaf({"positive": np.abs(normal) + 0.5, "apart": _apart(rng, shape)}[kind])
    if isinstance(spec, tuple) and all(isinstance(n, int) for n in spec):
        return leaf(rng.standard_normal(spec))
    return spec


def _apart(rng, shape):
    """Numbers that differ pairwise by far more than the step of the differences: no ties, no zeros."""
    n = int(np.prod(shape))
    return (rng.permutation(n).reshape(shape) - n / 2 + 0.3) / max(1, n) * 4


def case(name, fun, *specs, group="op", second=True):
    SAMPLES.append(Sample(group, name, lambda rng: (fun, [draw(rng, spec) for spec in specs]), second=second))


def both_tiers(name, fun, *specs):
    """A function with a kernel: checked as it runs, and as its definition reads."""

    def by_definition(*inputs):
        with Mode(readable, True):
            return fun(*inputs)

    case(name, fun, *specs, group="kernel")
    case(name, by_definition, *specs, group="definition")


def sine_and_cosine(x):
    """Two values at once, for the sake of take_item, the row that takes one of them."""
    return np.sin(x), np.cos(x)


defvjp(sine_and_cosine, lambda g, y, _x: g[0] * y[1] - g[1] * y[0])

# ---------------------------------------------------------------- ops

case("add", lambda x, y: x + y, (3, 4), (4,))
case("subtract", lambda x, y: x - y, (3, 1), (1, 4))
case("multiply", lambda x, y: x * y, (2, 1, 3), (4, 3))
case("divide", lambda x, y: x / y, (3, 4), ("positive", (3, 1)))
case("negative", lambda x: -x, (3, 4))
case("power", lambda x, y: x**y, ("positive", (3, 4)), (3, 1))
case("power, scalar", lambda x: x**3 + x**2 + x**-1 + x**0.5 + 2.0**x, ("positive", (3, 4)))
case("power, exponent 0", lambda x: x**0 + x, (3, 4))
case("quotient", lambda x, y: apply(primitives.quotient, x, y), ("positive", (3, 4)), ("positive", (3, 4)))
for _name in ("exp", "tanh", "sin", "cos", "square", "sigmoid", "erf"):
    case(_name, getattr(mg, _name), (3, 4))
for _name in ("log", "sqrt"):
    case(_name, getattr(mg, _name), ("positive", (3, 4)))
case("sqrt at 0", lambda x: mg.sqrt(x * np.array([True, False])) * np.array([True, False]), ("positive", (2,)))
for _name in ("abs", "relu"):
    case(_name, getattr(mg, _name), ("apart", (3, 4)))
for _name in ("sign", "floor", "ceil", "round"):
    case(_name, lambda x, fun=getattr(mg, _name): fun(x) * x + fun(x), ("apart", (3, 4)))
case("cast", lambda x: x.clone() * x, (3, 4))
case("maximum", mg.maximum, ("apart", (3, 4)), (3, 1))
case("minimum", mg.minimum, ("apart", (3, 4)), (3, 1))
case("where", lambda x, y: mg.where(np.eye(3, 4) > 0, x * x, y), (3, 4), (4,))
case("masked_fill", lambda x: x.masked_fill(np.eye(3, 4) > 0, 2.0), (3, 4))
case("tril", lambda x: mg.tril(x, 1), (2, 3, 4))
case("triu", lambda x: mg.triu(x, -1), (2, 3, 4))
case("sum", lambda x: x.sum((0, -1)), (3, 4, 2))
case("mean", lambda x: x.mean(1, keepdims=True), (3, 3))
case("var", lambda x: x.var(0), (4, 3))
case("std", lambda x: x.std(-1, correction=0), (3, 4))
case("amax", lambda x: x.amax(1) * 2 + x.amax(), ("apart", (3, 3)))
case("amin", lambda x: x.amin(0, keepdims=True), ("apart", (3, 3)))
case("reshape", lambda x: x.reshape(2, -1) ** 2, (3, 4))
case("permute", lambda x: x.permute(2, 0, 1) * x, (3, 3, 3))
case("T", lambda x: x.T @ x, (3, 4))
case("swapaxes", lambda x: x.swapaxes(0, 2) ** 2, (2, 3, 4))
case("squeeze, unsqueeze", lambda x: x.squeeze(1).unsqueeze(0) ** 2, (3, 1, 2))
case("flatten", lambda x: x.flatten(1) ** 2, (2, 3, 2))
case("broadcast_to", lambda x: x.broadcast_to(2, 3, 4) ** 2, (3, 1))
case("getitem", lambda x: x[1:, ::-2] ** 2, (3, 5))
case("getitem, repeated", lambda x: x[[0, 0, 2]] * x[np.array([1, 0, 0])], (3, 4))
case("getitem, boolean", lambda x: x[np.eye(3, 4) > 0] ** 2, (3, 4))
case("take_item", lambda x: apply(sine_and_cosine, x)[0] * apply(sine_and_cosine, x)[1] + apply(sine_and_cosine, x)[1], (3, 4))
case("scatter_add", lambda g: apply(primitives.scatter_add, g, np.array([0, 0, 2]), (3, 4)) ** 2, (3, 4))
case("concatenate", lambda x, y: mg.concatenate([x, y, x], 1) ** 2, (2, 3), (2, 1))
case("stack", lambda x, y: mg.stack([x, y], 1) ** 2, (2, 3), (2, 3))
for _a, _b in (((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 2)), ((2, 3), (3, 4)), ((2, 4, 3), (3, 2)), ((2, 1, 3, 4), (5, 4, 2)), ((3,), (2, 3, 2)), ((2, 2, 3), (3,))):  # fmt: skip
    case(f"matmul {_a} @ {_b}", mg.matmul, _a, _b)

# ---------------------------------------------------------------- functional and kernels

TARGETS = np.array([1, 0, 3, -100])
PADDING = np.array([[True, True, False], [True, True, True]])[:, None, :]  # (2, 1, 3)
HIDDEN = np.array([[True, True, False], [False, False, False], [True, True, True]])  # a query that sees nothing
ADDED = np.array([[0.0, -1.0, -np.inf], [0.5, 0.0, 0.0], [0.0, 0.0, 1.0]])

both_tiers("softmax", lambda x: F.softmax(x, 0), (3, 4))
both_tiers("softmax, last axis", F.softmax, (2, 3, 4))
both_tiers("log_softmax", lambda x: F.log_softmax(x, 1), (3, 4))
case("logsumexp", lambda x: F.logsumexp(x, 0), (3, 4), group="function")
both_tiers("cross_entropy", lambda x: F.cross_entropy(x, TARGETS), (4, 5))
both_tiers("cross_entropy, smoothed", lambda x: F.cross_entropy(x, TARGETS, label_smoothing=0.1), (4, 5))
both_tiers("cross_entropy, weighted", lambda x, w: F.token_losses(x, TARGETS, w, -100, 0.2), (4, 5), ("positive", (5,)))
both_tiers("cross_entropy, images", lambda x: F.cross_entropy(x, np.array([[0, 1], [2, 2]]), reduction="none"), (2, 3, 2))
case("cross_entropy, soft", lambda x: F.cross_entropy(x, np.full((3, 4), 0.25)), (3, 4), group="function")
case("mse_loss", F.mse_loss, (3, 4), (3, 4), group="function")
both_tiers("layer_norm", lambda x, w, b: F.layer_norm(x, 4, w, b), (2, 3, 4), (4,), (4,))
both_tiers("layer_norm, two axes", lambda x, w: F.layer_norm(x, (3, 4), w), (2, 3, 4), (3, 4))
both_tiers("gelu", F.gelu, (3, 4))
both_tiers("gelu, tanh", lambda x: F.gelu(x, "tanh"), (3, 4))
case("silu", F.silu, (3, 4), group="function")
case("dropout", lambda x: F.dropout(x, 0.4) * x, (4, 5), group="function")
both_tiers("linear", F.linear, (2, 3, 4), (5, 4), (5,))
both_tiers("embedding", lambda w: F.embedding(np.array([[0, 2], [0, 0]]), w) ** 2, (3, 4))
both_tiers("embedding, padding", lambda w: F.embedding(np.array([2, 1, 1]), w, padding_idx=0) ** 2, (3, 4))
both_tiers("embedding, large", lambda w: F.embedding(np.array([299, 7, 7]), w) ** 2, (300, 2))
both_tiers("attention", F.scaled_dot_product_attention, (2, 3, 4), (2, 5, 4), (2, 5, 2))
both_tiers("attention, causal", lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), (2, 3, 4), (2, 3, 4), (2, 3, 4))
both_tiers("attention, padding", lambda q, k, v: F.scaled_dot_product_attention(q, k, v, PADDING), (2, 3, 4), (2, 3, 4), (2, 3, 4))
both_tiers("attention, row hidden", lambda q, k, v: F.scaled_dot_product_attention(q, k, v, HIDDEN), (2, 3, 4), (2, 3, 4), (2, 3, 4))
both_tiers("attention, added mask", lambda q, k, v: F.scaled_dot_product_attention(q, k, v, ADDED), (3, 4), (3, 4), (3, 4))
both_tiers("attention, learned bias", lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, m), (2, 3, 4), (2, 3, 4), (2, 3, 4), (3, 3))
both_tiers("attention, dropout", lambda q, k, v: F.scaled_dot_product_attention(q, k, v, None, 0.3), (2, 3, 4), (2, 3, 4), (2, 3, 4))
both_tiers("attention, shared q, k, v", lambda x: F.scaled_dot_product_attention(x, x, x), (2, 3, 4))

# ---------------------------------------------------------------- computed twice

case("checkpoint", lambda x, y: mg.checkpoint(lambda x: F.dropout(mg.tanh(x) * y, 0.3), x), (3, 3), (3, 3), group="function")
