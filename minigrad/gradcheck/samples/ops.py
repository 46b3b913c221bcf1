"""The samples of the rules, of functional and of the kernels, with inputs at which a wrong derivative shows.

`python -m minigrad.gradcheck` and the tests read them; a test fails if a row of the table has no sample here.
"""

import numpy as np

import minigrad as mg
from minigrad import functional as F
from minigrad import linalg
from minigrad.engine import array_functions
from minigrad.engine.recording import apply
from minigrad.engine.table import defvjp
from minigrad.gradcheck.samples import Sample, leaf
from minigrad.modes import Mode, readable

SAMPLES = []


def draw(rng, spec):
    """Draw an input from its description.

    A shape gives normal numbers; ("positive", shape), ("apart", shape) and ("inside", shape) give those of one
    kind; anything else is returned unchanged.
    """
    if isinstance(spec, tuple) and spec and isinstance(spec[0], str):
        kind, shape = spec
        normal, apart = rng.standard_normal(shape), _draw_apart(rng, shape)
        return leaf({"positive": np.abs(normal) + 0.5, "apart": apart, "inside": np.tanh(normal) * 0.9}[kind])
    if isinstance(spec, tuple) and all(isinstance(n, int) for n in spec):
        return leaf(rng.standard_normal(spec))
    return spec


def _draw_apart(rng, shape):
    """Draw numbers that differ pairwise by far more than the step of the differences: no ties, no zeros."""
    n = int(np.prod(shape))
    return (rng.permutation(n).reshape(shape) - n / 2 + 0.3) / max(1, n) * 4


def case(name, fun, *specs, group="op", second=True):
    def make(rng, spec_of=lambda spec: spec):
        return fun, [draw(rng, spec_of(spec)) for spec in specs]

    SAMPLES.append(Sample(group, name, make, second=second, square=lambda rng: make(rng, square_spec)))


def square_spec(spec):
    """Return the description of a 3 x 3 matrix of the same kind."""
    if not isinstance(spec, tuple):
        return spec
    return (spec[0], (3, 3)) if spec and isinstance(spec[0], str) else (3, 3)


def squares():
    """Return samples of the same ops and kernels with 3 x 3 inputs, if these fit.

    Only a square gradient keeps its shape when it is transposed.
    """
    tried = [Sample("square", s.name, s.square) for s in SAMPLES if s.group in ("op", "kernel")]
    return [sample for sample in tried if _is_differentiable(sample)]


def _is_differentiable(sample):
    fun, inputs = sample.make(np.random.default_rng(0))
    try:
        with np.errstate(all="ignore"):
            fun(*inputs).sum().backward()
    except (ValueError, IndexError, TypeError, AssertionError):
        return False
    return True


def both_tiers(name, fun, *specs):
    """Add two samples of a function with a kernel: of the kernel and of its definition."""

    def by_definition(*inputs):
        with Mode(readable, True):
            return fun(*inputs)

    case(name, fun, *specs, group="kernel")
    case(name, by_definition, *specs, group="definition")


def product_and_sum(q, k, v):
    return q * k + v


def sine_and_cosine(x):
    """Return two values: a sample for take_item, the row that takes one of them."""
    return np.sin(x), np.cos(x)


defvjp(sine_and_cosine, lambda g, y, _x: g[0] * y[1] - g[1] * y[0])

# ---------------------------------------------------------------- ops

# fmt: off
case("add", lambda x, y: x + y, (3, 4), (4,))
case("subtract", lambda x, y: x - y, (3, 1), (1, 4))
case("multiply", lambda x, y: x * y, (2, 1, 3), (4, 3))
case("divide", lambda x, y: x / y, (3, 4), ("positive", (3, 1)))
case("negative", lambda x: -x, (3, 4))
case("power", lambda x, y: x**y, ("positive", (3, 4)), (3, 1))
case("power, scalar", lambda x: x**3 + x**2 + x**-1 + x**0.5 + 2.0**x, ("positive", (3, 4)))
case("power, exponent 0", lambda x: x**0 + x, (3, 4))
case("operators from the right", lambda x: (2 - x) * (3 / x) + 2**x + (5.0 % x) + [1.0, 2.0, 3.0] @ x + +x + 2 * x + (1 + x), ("positive", (3, 4)))
case("quotient", lambda x, y: apply(array_functions.quotient, x, y), ("positive", (3, 4)), ("positive", (3, 4)))
for _name in ("exp", "exp2", "expm1", "tanh", "sin", "cos", "arctan", "sinh", "cosh", "arcsinh", "square", "sigmoid", "erf", "erfc"):
    case(_name, getattr(mg, _name), (3, 4))
for _name in ("log", "log2", "log10", "log1p", "sqrt", "rsqrt", "reciprocal"):
    case(_name, getattr(mg, _name), ("positive", (3, 4)))
for _name in ("tan", "arcsin", "arccos", "arctanh"):
    case(_name, getattr(mg, _name), ("inside", (3, 4)))
case("arccosh", lambda x: mg.arccosh(1 + x), ("positive", (3, 4)))
case("softplus", lambda x: apply(array_functions.softplus, x), (3, 4))
case("sqrt at 0", lambda x: mg.sqrt(x * np.array([True, False])) * np.array([True, False]), ("positive", (2,)))
for _name in ("abs", "relu"):
    case(_name, getattr(mg, _name), ("apart", (3, 4)))
for _name in ("sign", "floor", "ceil", "trunc", "round", "frac"):
    case(_name, lambda x, fun=getattr(mg, _name): fun(x) * x + fun(x), ("apart", (3, 4)))
case("cast", lambda x: x.clone() * x, (3, 4))
case("round, decimals", lambda x: x.round(1) * x, (3, 4))
for _name in ("arctan2", "hypot", "logaddexp"):
    case(_name, getattr(mg, _name), (3, 4), (3, 1))
case("fmod", mg.fmod, ("apart", (3, 4)), ("positive", (4,)))
case("remainder", lambda x, y: x % y + 2 * mg.remainder(x, -y), ("apart", (3, 4)), ("positive", (4,)))
case("lerp", mg.lerp, (3, 4), (3, 4), (4,))
case("add, sub, mul, div", lambda x, y: mg.add(x, y, alpha=2) * mg.sub(y, x, alpha=3) - mg.div(mg.mul(x, y), y), (3, 4), ("positive", (4,)))
case("pow, float_power", lambda x, y: mg.pow(x, 3) * mg.float_power(x, y) + mg.pow(2.0, y), ("positive", (3, 4)), (4,))
case("clip", lambda x, y: mg.clip(x, -0.5, y) * x, ("apart", (3, 4)), (3, 1))
case("maximum", mg.maximum, ("apart", (3, 4)), (3, 1))
case("minimum", mg.minimum, ("apart", (3, 4)), (3, 1))
case("where", lambda x, y: mg.where(np.eye(3, 4) > 0, x * x, y), (3, 4), (4,))
case("where, of a matrix", lambda x, y: mg.where(np.tri(3) > 0, x, y), (3, 3), (3, 3))
case("where, method", lambda x, y: x.where(np.eye(3, 4) > 0, y) ** 2, (3, 4), (4,))
case("masked_fill", lambda x: x.masked_fill(np.eye(3, 4) > 0, 2.0), (3, 4))
case("tril", lambda x: mg.tril(x, 1), (2, 3, 4))
case("triu", lambda x: mg.triu(x, -1), (2, 3, 4))
case("sum", lambda x: x.sum((0, -1)), (3, 4, 2))
case("mean", lambda x: x.mean(1, keepdims=True), (3, 3))
case("var", lambda x: x.var(0), (4, 3))
case("std", lambda x: x.std(-1, correction=0), (3, 4))
case("amax", lambda x: x.amax(1) * 2 + x.amax(), ("apart", (3, 3)))
case("amin", lambda x: x.amin(0, keepdims=True), ("apart", (3, 3)))
case("max, min", lambda x: x.max(1).values * x.min(0).values + x.max() * x.min() * x.max(x.T), ("apart", (3, 3)))
case("median", lambda x: x.median(1).values * x.median(), ("apart", (4, 3)))
case("sort", lambda x: x.sort(0, descending=True).values * x, ("apart", (4, 3)))
case("topk", lambda x: x.topk(2, largest=False).values ** 2, ("apart", (3, 4)))
case("norm", lambda x: x.norm() * x.norm(dim=1, keepdim=True), (3, 4))
case("norm, other p", lambda x: x.norm(1, 0) * x.norm(3, 0) + x.norm(np.inf, (0, 1)) + x.norm(0), ("apart", (3, 4)))
case("prod", lambda x: x.prod(1) * x.prod() + x.prod(0, keepdims=True), (3, 3))
case("prod, of zeros", lambda x: (x * (np.array([[1, 0, 1], [0, 0, 1], [1, 1, 1]]) > 0)).prod(1), (3, 3))
case("cumsum", lambda x: x.cumsum(1) ** 2 + x.cumsum().sum(), (3, 4))
case("cumprod", lambda x: x.cumprod(0) + (x * np.array([True, True, False, True])).cumprod(1), (3, 4))
case("reshape", lambda x: x.reshape(2, -1) ** 2, (3, 4))
case("permute", lambda x: x.permute(2, 0, 1) * x, (3, 3, 3))
case("T", lambda x: x.T @ x, (3, 4))
case("swapaxes", lambda x: x.swapaxes(0, 2) ** 2, (2, 3, 4))
case("squeeze, unsqueeze", lambda x: x.squeeze(1).unsqueeze(0) ** 2, (3, 1, 2))
case("flatten", lambda x: x.flatten(1) ** 2 * x.ravel()[0], (2, 3, 2))
case("unflatten, view", lambda x: x.unflatten(1, (2, -1)) ** 2 * x.view(3, 2, 2), (3, 4))
case("transpose, t", lambda x: x.transpose(0, 1) @ x * x.t().sum(0), (3, 3))
case("movedim", lambda x: x.movedim((0, 1), (-1, 0)) ** 2, (2, 3, 4))
case("expand", lambda x: x.expand(2, -1, 4) ** 2, (3, 1))
case("reshape_as, view_as, expand_as", lambda x, y: x.reshape_as(y) * x.view_as(y) * y[:1].expand_as(y), (3, 4), (4, 3))
case("iterating", lambda x: sum(row * i for i, row in enumerate(x)) ** 2, (3, 4))
case("flip, roll", lambda x: x.flip(0) * x.roll(1, 0) + x.roll((1, -1), (0, 1)).flip((0, 1)) * x.roll(2), (3, 4))
case("tile, repeat", lambda x: x.tile(2) * x.repeat(1, 2), (3, 4))
case("repeat_interleave", lambda x: x.repeat_interleave(2, 1).sum(1)[:2] * x.repeat_interleave(mg.tensor([2, 0, 1]), 0)[1:].sum(1), (3, 4))
case("meshgrid", lambda x, y: mg.meshgrid(x, y)[0] * mg.meshgrid(x, y)[1] ** 2, (3,), (4,))
case("split, chunk, unbind", lambda x: x.split([1, 3], 1)[1] ** 2 * x.chunk(2, 1)[0].sum() + x.unbind(1)[0][:, None] ** 2, (3, 4))
case("split, one piece", lambda x: x.split([3, 0])[0] ** 2, (3, 3))
case("tensor_split", lambda x: x.tensor_split(3, 1)[0] * x.tensor_split([1, 3], 1)[1], (3, 4))
case("pad", lambda x: np.pad(x, ((1, 0), (2, 1)), constant_values=2.0) ** 2, (2, 3))
case("diagonal, diag", lambda x: x.diagonal(1) * x.diag()[:2] + x.mT.diag(-1).diag(1).sum(1)[:2], (3, 3))
case("diag_embed", lambda x: x.diag_embed(-1) ** 2, (2, 3))
case("broadcast_to", lambda x: x.broadcast_to(2, 3, 4) ** 2, (3, 1))
case("getitem", lambda x: x[1:, ::-2] ** 2, (3, 5))
case("getitem, repeated", lambda x: x[[0, 0, 2]] * x[np.array([1, 0, 0])], (3, 4))
case("getitem, boolean", lambda x: x[np.eye(3, 4) > 0] ** 2, (3, 4))
case("gather", lambda x: x.gather(1, np.array([[0, 0], [3, 1]])) ** 2, (3, 4))
case("take_along_axis", lambda x: mg.take_along_axis(x, np.array([[0, 2, 0, 1]]), 0) ** 2, (3, 4))
case("index_select, take, select, narrow", lambda x: x.index_select(1, [0, 0, 2]) * x.select(1, 2)[:, None] * x.narrow(1, 1, 3) * x.take([5, 5]).sum(), (3, 4))
case("masked_select", lambda x: x.masked_select(np.eye(3, 4) > 0) ** 2, (3, 4))
case("scatter", lambda x, y: x.scatter(1, np.array([[0, 0], [3, 1]]), y) ** 2, (3, 4), (3, 3))
case("scatter_add, onto x", lambda x, y: mg.scatter_add(x, 0, np.array([[0, 0], [0, 1]]), y) ** 2, (3, 4), (3, 3))
case("index_add", lambda x, y: x.index_add(0, [1, 1], y, alpha=2) ** 2, (3, 4), (2, 4))
case("take_item", lambda x: apply(sine_and_cosine, x)[0] * apply(sine_and_cosine, x)[1] + apply(sine_and_cosine, x)[1], (3, 4))
case("scatter_add", lambda g: apply(array_functions.scatter_add, g, np.array([0, 0, 2]), (3, 4)) ** 2, (3, 4))
case("concatenate", lambda x, y: mg.concatenate([x, y, x], 1) ** 2, (2, 3), (2, 1))
case("hstack, vstack", lambda x, y: mg.hstack([x, y]) ** 2 * mg.vstack([x, x])[:, :1].sum() * mg.hstack([x[0], y[0]]), (2, 3), (2, 3))
case("stack", lambda x, y: mg.stack([x, y], 1) ** 2, (2, 3), (2, 3))
for _a, _b in (((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 2)), ((2, 3), (3, 4)), ((2, 4, 3), (3, 2)), ((2, 1, 3, 4), (5, 4, 2)), ((3,), (2, 3, 2)), ((2, 2, 3), (3,))):
    case(f"matmul {_a} @ {_b}", mg.matmul, _a, _b)
case("dot, mv, mm, bmm", lambda x, y: mg.dot(x[0], y[0]) * mg.mv(x, y[0]) * mg.mm(x, y) * mg.bmm(x[None], y[None]), (3, 3), (3, 3))
case("outer, inner, vdot, vecdot", lambda x, y: mg.outer(x[0], y[0]) * mg.inner(x, y) * mg.vdot(x, y) * mg.vecdot(x, y), (3, 3), (3, 3))
case("tensordot", lambda x, y: mg.tensordot(x, y) * mg.tensordot(x, y.mT, ([1, 2], [0, 2])), (2, 3, 4), (3, 4, 2))
for _equation, *_specs in (
    ("ij,jk->ik", (2, 3), (3, 4)), ("bij,bkj->bik", (2, 3, 4), (2, 2, 4)), ("ii", (3, 3)), ("...ij->...ji", (2, 2, 3)), ("i,j", (2,), (3,)),
    ("bij,jk,kl->bil", (2, 2, 3), (3, 2), (2, 2)), ("iij,ij->j", (2, 2, 3), (2, 3)), ("...i,i", (2, 1, 3), (1,)), ("ij,ij->", (2, 3), (2, 1)), ("i->", (3,)),
):
    case(f"einsum {_equation}", lambda *xs, equation=_equation: mg.einsum(equation, *xs) ** 2, *_specs)
case("trace", lambda x: x.trace() * x, (3, 3))
case("linalg.diagonal", lambda x: linalg.diagonal(x, offset=1) ** 2, (2, 3, 4))
case("inv", lambda x: mg.inverse(x + 3 * np.eye(3, dtype=x.dtype)), (2, 3, 3))
case("det", mg.det, (2, 3, 3))
case("slogdet, logdet", lambda x: mg.slogdet(x).logabsdet + mg.logdet(x @ x.mT), (2, 3, 3))
case("solve", lambda x, y: mg.solve(x, y) + mg.solve(x, y[:, 0])[:, None], (3, 3), (3, 2))
case("solve, batch", mg.solve, (3, 3), (2, 3, 2))
case("cholesky", lambda x: mg.cholesky(x @ x.mT + np.eye(3, dtype=x.dtype)), (2, 3, 3))
case("matrix_power", lambda x: mg.matrix_power(x, 3) + mg.matrix_power(x, 0), (3, 3))
for _ord in (None, "fro", 1, -1, np.inf, -np.inf):
    case(f"linalg.norm, {_ord}", lambda x, ord=_ord: linalg.norm(x, ord) + linalg.matrix_norm(x, ord or 1) + linalg.vector_norm(x, 4), ("apart", (3, 4)))

# by themselves, with no other op that would hide a gradient rounded to float32
case("cast, alone", lambda x: x.clone(), (3, 4))
case("remainder, alone", mg.remainder, ("apart", (3, 4)), ("positive", (4,)))
case("amax, alone", lambda x: mg.amax(x, 1), ("apart", (3, 4)))
case("norm, alone", lambda x: mg.norm(x, 2, 1), (3, 4))
case("cumsum, alone", lambda x: mg.cumsum(x, 0), (3, 4))
case("slogdet, alone", lambda x: mg.slogdet(x).logabsdet, (3, 3))
case("cholesky, alone", lambda x: mg.cholesky(x + x.mT + 9 * np.eye(3, dtype=x.dtype)), (3, 3))
case("take_item, alone", lambda x: apply(sine_and_cosine, x)[0], (3, 4))

# ---------------------------------------------------------------- functional and kernels

TARGETS = np.array([1, 0, 3, -100])
PADDING = np.array([[True, True, False], [True, True, True]])[:, None, :]  # (2, 1, 3)
# the second query attends to nothing
HIDDEN = np.array([[True, True, False], [False, False, False], [True, True, True]])
ADDED = np.array([[0.0, -1.0, -np.inf], [0.5, 0.0, 0.0], [0.0, 0.0, 1.0]])

both_tiers("softmax", lambda x: F.softmax(x, 0), (3, 4))
both_tiers("softmax, last axis", F.softmax, (2, 3, 4))
both_tiers("log_softmax", lambda x: F.log_softmax(x, 1), (3, 4))
case("logsumexp", lambda x: F.logsumexp(x, 0), (3, 4), group="function")
both_tiers("cross_entropy", lambda x: F.cross_entropy(x, TARGETS), (4, 5))
both_tiers("cross_entropy, as many as classes", lambda x: F.cross_entropy(x, np.array([0, 2, 1])), (3, 3))
both_tiers("cross_entropy, smoothed", lambda x: F.cross_entropy(x, TARGETS, label_smoothing=0.1), (4, 5))
both_tiers("cross_entropy, weighted", lambda x, w: F.token_losses(x, TARGETS, w, -100, 0.2), (4, 5), ("positive", (5,)))
both_tiers("cross_entropy, images", lambda x: F.cross_entropy(x, np.array([[0, 1], [2, 2]]), reduction="none"), (2, 3, 2))
case("cross_entropy, soft", lambda x: F.cross_entropy(x, np.full((3, 4), 0.25)), (3, 4), group="function")
for _loss in (F.mse_loss, F.l1_loss, F.smooth_l1_loss, F.huber_loss, F.cosine_similarity):
    case(_loss.__name__, _loss, (3, 4), (3, 4), group="function")
case("huber_loss, delta", lambda x, y: F.huber_loss(x, y, "sum", 0.5) + F.smooth_l1_loss(x, y, "none", 0.3), (3, 4), (3, 4), group="function")
case("nll_loss", lambda x, w: F.nll_loss(x, TARGETS, w) + F.nll_loss(x[0], 2), (4, 5), ("positive", (5,)), group="function")
case("nll_loss, images", lambda x: F.nll_loss(x, np.array([[0, 1], [2, -100]]), reduction="none"), (2, 3, 2), group="function")
case("binary_cross_entropy", lambda x, y: F.binary_cross_entropy(F.sigmoid(x), F.sigmoid(y)), (3, 4), (3, 4), group="function")
case("binary_cross_entropy_with_logits", lambda x, y: F.binary_cross_entropy_with_logits(x, y, y, "sum", y), (3, 4), ("positive", (3, 4)), group="function")
case("kl_div", lambda x, y: F.kl_div(x, y, "batchmean") + F.kl_div(x, x + y, log_target=True), (3, 4), ("positive", (3, 4)), group="function")
case("cosine_embedding_loss", lambda x, y: F.cosine_embedding_loss(x, y, np.array([1, -1, -1]), -0.5), (3, 4), (3, 4), group="function")
case("normalize", lambda x: F.normalize(x, 2.0, 0) * F.normalize(x, 1), ("apart", (3, 4)), group="function")
case("pad, F", lambda x: F.pad(x, (1, -1, 2, 0), value=3.0) ** 2 * F.pad(x, (1, 0, 1, 0)).sum(), (3, 4), group="function")
case("pad, F, modes", lambda x: F.pad(x, (2, 1), "reflect") * F.pad(x, (0, 3), "circular") ** 2 * F.pad(x, (1, 2), "replicate"), (2, 4), group="function")
for _name in ("leaky_relu", "elu", "hardtanh", "relu6"):
    case(_name, getattr(F, _name), ("apart", (3, 4)), group="function")
for _name in ("softplus", "logsigmoid"):
    case(_name, getattr(F, _name), (3, 4), group="function")
both_tiers("layer_norm", lambda x, w, b: F.layer_norm(x, 4, w, b), (2, 3, 4), (4,), (4,))
both_tiers("layer_norm, of a matrix", lambda x, w, b: F.layer_norm(x, (3, 3), w, b), (3, 3), (3, 3), (3, 3))
both_tiers("rms_norm", lambda x, w: F.rms_norm(x, 4, w), (2, 3, 4), (4,))
both_tiers("rms_norm, two axes", lambda x, w: F.rms_norm(x, (3, 3), w, eps=0.1), (3, 3), (3, 3))
both_tiers("layer_norm, two axes", lambda x, w: F.layer_norm(x, (3, 4), w), (2, 3, 4), (3, 4))
both_tiers("gelu", F.gelu, (3, 4))
both_tiers("gelu, tanh", lambda x: F.gelu(x, "tanh"), (3, 4))
both_tiers("silu", F.silu, (3, 4))
case("dropout", lambda x: F.dropout(x, 0.4) * x, (4, 5), group="function")
both_tiers("linear", F.linear, (2, 3, 4), (5, 4), (5,))
both_tiers("linear, without bias", F.linear, (3, 3), (3, 3))
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
for _name, _mask in (("", None), (", padding", PADDING), (", row hidden", HIDDEN)):
    both_tiers(f"attention, blocked{_name}", lambda q, k, v, m=_mask: F.scaled_dot_product_attention(q, k, v, m, path="blocked"), (2, 3, 4), (2, 3, 4), (2, 3, 2))
both_tiers("attention, in small blocks", lambda q, k, v, m: F.blocked_attention(q, k, v, m, None, 0.5, 1, (2, 3)), (2, 3, 4), (1, 5, 4), (2, 5, 2), (3, 5))
both_tiers("attention, blocked, heads side by side", lambda x: F.scaled_dot_product_attention(*[x.swapaxes(0, 1)] * 3, path="blocked"), (3, 2, 4))
both_tiers("attention, blocked, dropout", lambda q, k, v: F.scaled_dot_product_attention(q, k, v, None, 0.3, True, path="blocked"), (2, 3, 4), (2, 3, 4), (2, 3, 4))
both_tiers("split_heads", lambda x: F.split_heads(x, 2), (2, 4, 4))
both_tiers("split_heads, three parts", lambda x: product_and_sum(*F.split_heads(x, 2, 3)), (2, 3, 12))
both_tiers("merge_heads", F.merge_heads, (2, 4, 3, 3))
both_tiers("rotate", F.rotate, (2, 3, 3, 4), (2, 1, 3, 2), (3, 2))
both_tiers("rotate, of a matrix", lambda x, cos, sin: F.rotate(x[:2, :2], cos[:2, :1], sin[:2, :1]), (3, 3), (3, 3), (3, 3))
both_tiers("rotate, angles of a matrix", lambda x, cos, sin: F.rotate(mg.concatenate([x, 2 * x.T], -1), cos, sin), (3, 3), (3, 3), (3, 3))
case("attention, causal, half of the half", lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True, path="plain"), (256, 1), (256, 1), (256, 1), group="kernel")
both_tiers("attention, shared q, k, v", lambda x: F.scaled_dot_product_attention(x, x, x), (2, 3, 4))

ENDED = np.array([[1, 1, 1], [1, 0, 1]])[:, :, None] > 0  # the second of three sequences has one step only


def states_and_cell(u, h, c, weight, keep=None):
    """Combine both values of an LSTM into one."""
    states, cell = F.lstm_states(u, h, c, weight, keep)
    return states * cell + states


both_tiers("rnn", lambda *xs: F.rnn_states(*xs), (2, 3, 3), (3, 3), (3, 3))
both_tiers("rnn, relu", lambda *xs: F.rnn_states(*xs, "relu"), ("apart", (2, 3, 4)), ("apart", (3, 4)), ("apart", (4, 4)))
both_tiers("rnn, padding", lambda *xs: F.rnn_states(*xs, "tanh", ENDED), (2, 3, 2), (3, 2), (2, 2))
both_tiers("lstm", states_and_cell, (3, 2, 8), (2, 2), (2, 2), (8, 2))
both_tiers("lstm, one number of state", states_and_cell, (3, 4, 4), (4, 1), (4, 1), (4, 1))
both_tiers("lstm, padding", lambda *xs: states_and_cell(*xs, ENDED), (2, 3, 8), (3, 2), (3, 2), (8, 2))
both_tiers("gru", lambda *xs: F.gru_states(*xs), (3, 2, 6), (2, 2), (6, 2), (6,))
both_tiers("gru, one number of state", lambda *xs: F.gru_states(*xs), (3, 3, 3), (3, 1), (3, 1))
both_tiers("gru, padding", lambda *xs: F.gru_states(*xs, ENDED), (2, 3, 6), (3, 2), (6, 2), (6,))

# ---------------------------------------------------------------- computed twice

case("checkpoint", lambda x, y: mg.checkpoint(lambda x: F.dropout(mg.tanh(x) * y, 0.3), x), (3, 3), (3, 3), group="function")
# fmt: on
