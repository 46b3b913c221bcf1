"""Values at the edges: ties, kinks, zeros, enormous numbers, precision. Warnings are errors here, as everywhere in these tests."""

import math

import numpy as np
import pytest
from helpers import leaf_of, nodes, slope
from oracle import gradients, leaf, near, same

import minigrad as mg
from minigrad import functional as F
from minigrad import optim
from minigrad.gradcheck import FLOOR, GradcheckError, check, gradcheck
from minigrad.nn import Embedding, LayerNorm, Linear, Module

tiers = pytest.mark.parametrize("readable", (False, True), ids=("kernel", "definition"))


def in_tier(readable):
    return mg.modes.Mode(mg.modes.readable, readable)


# ---------------------------------------------------------------- 17: ties and kinks


@pytest.mark.parametrize("fun, x, expected", [
    (lambda x: x.amax(), [1.0, 3, 3], [0, 0.5, 0.5]), (lambda x: x.amin(), [1.0, 1, 3], [0.5, 0.5, 0]), (lambda x: x.amax(), [2.0] * 4, [0.25] * 4),
    (lambda x: x.amax(0), [[1.0, 2], [1, 0]], [[0.5, 1], [0.5, 0]]), (lambda x: x.amax((0, 1)), [[1.0, 1], [1, 0]], [[1 / 3, 1 / 3], [1 / 3, 0]]),
    (lambda x: np.max(x), [5.0, 5], [0.5, 0.5]), (lambda x: mg.maximum(x, 2.0), [1.0, 2, 3], [0, 0.5, 1]), (lambda x: mg.minimum(2.0, x), [1.0, 2, 3], [1, 0.5, 0]),
    (lambda x: mg.maximum(x, x), [1.0], [1]), (lambda x: x.amax(1, keepdims=True), [[7.0, 7]], [[0.5, 0.5]]), (lambda x: x.amax(), [0.0, -0.0], [0.5, 0.5]),
])  # fmt: skip
def test_17_ties_share_the_gradient_and_its_total_is_one_for_each_value(fun, x, expected):
    near(slope(fun, x), expected)


@pytest.mark.parametrize(
    "fun",
    [
        mg.relu,
        mg.abs,
        F.relu,
        abs,
        lambda x: mg.relu(-x),
        lambda x: x * (x > 0),
        mg.sign,
        mg.floor,
        mg.ceil,
        mg.round,
    ],
)
def test_17_slopes_at_the_kink_at_zero_are_zero(fun):
    assert slope(fun, 0.0) == 0


@pytest.mark.parametrize("fun, at", [(mg.relu, 0.0), (mg.abs, 0.0), (lambda x: mg.maximum(x, 1.0), 1.0)])
def test_17_gradcheck_skips_kinks_and_counts_them(fun, at):
    (result,) = check(lambda x: fun(x) + x, [leaf_of([at, 0.3, at])])
    assert result.kinks == 2 and result.error < 1e-8 and "2 kinks" in result.note


# ---------------------------------------------------------------- 18: square roots at 0


def test_18_sqrt_at_0_with_nothing_arriving_gives_0():
    assert slope(lambda x: mg.where(x > 0, mg.sqrt(x), 0.0), [0.0, 4.0]) == [0, 0.25]
    assert slope(lambda x: mg.sqrt(x) * np.array([0.0, 1.0]), [0.0, 4.0]) == [0, 0.25]


def test_18_second_derivative_of_sqrt_at_0_with_nothing_arriving_gives_0():
    x = leaf_of([0.0, 4.0])
    (first,) = mg.grad((mg.sqrt(x) * np.array([0.0, 1.0])).sum(), x, create_graph=True)
    assert mg.grad(first.sum(), x)[0].tolist() == [0, -1 / 32]


@np.errstate(divide="ignore")
def test_18_sqrt_and_norm_at_0_have_an_infinite_slope_where_something_arrives():
    assert slope(mg.sqrt, 0.0) == math.inf
    norm = slope(lambda x: mg.sqrt((x * x).sum()), [3.0, 4.0])
    near(norm, [0.6, 0.8])


def test_18_std_of_equal_numbers_does_not_poison_a_masked_loss():
    assert slope(lambda x: x.std(correction=0) * 0.0, [2.0, 2.0]) == [0, 0]


# ---------------------------------------------------------------- 19: where


def test_19_the_branch_not_chosen_gets_nothing_and_the_double_where_saves_it_from_inf():
    assert slope(lambda x: mg.where(x > 0, x * 3, x * 5), [1.0, -1.0]) == [3, 5]
    safe = slope(lambda x: mg.where(x > 0, mg.log(mg.where(x > 0, x, 1.0)), 0.0), [0.0, 2.0])
    assert safe == [0, 0.5]


@np.errstate(divide="ignore", invalid="ignore")
def test_19_one_where_alone_does_not_as_its_documentation_says():
    spoiled = slope(lambda x: mg.where(x > 0, mg.log(x), 0.0), [0.0, 2.0])
    assert math.isnan(spoiled[0]) and spoiled[1] == 0.5 and "NaN" in mg.where.__doc__


# ---------------------------------------------------------------- 20: powers


@pytest.mark.parametrize("fun, x, expected", [
    (lambda x: x**0, 0.0, 0), (lambda x: x**0.0, 0.0, 0), (lambda x: x**2, -3.0, -6), (lambda x: x**2.0, -3.0, -6), (lambda x: x**3, -2.0, 12), (lambda x: x**1, 0.0, 1),
    (lambda x: x**-1, -2.0, -0.25), (lambda x: x**-2, -2.0, 0.25), (lambda x: x**0.5, 4.0, 0.25), (lambda x: x**2, 0.0, 0), (lambda x: x**3, 0.0, 0),
    (lambda x: x ** np.array(0.0), 0.0, 0), (lambda x: x ** np.array([2, 3]), [-1.0, -2], [-2, 12]), (lambda x: x ** mg.tensor([0.0, 2.0]), [0.0, -3], [0, -6]),
    (lambda x: 0**x, 2.0, 0), (lambda x: 0.0**x, 0.0, 0), (lambda x: 1**x, 5.0, 0), (lambda x: np.power(x, 3), -2.0, 12), (lambda x: x.pow(3), -2.0, 12),
])  # fmt: skip
def test_20_powers(fun, x, expected):
    near(slope(fun, x), expected)


def test_20_both_slopes_of_a_power_at_a_base_of_0():
    assert slope(lambda x, y: x**y, 0.0, 2.0) == [0, 0]
    assert slope(lambda x, y: x**y, 0.0, 0.0) == [0, 0]
    assert slope(lambda x, y: x**y, [0.0, 2.0], [1.0, 3.0]) == [[1, 12], [0, pytest.approx(8 * math.log(2))]]


def test_20_second_derivatives_of_integer_powers_at_0_and_below():
    for n, x, expected in ((0, 0.0, 0), (1, 0.0, 0), (2, 0.0, 2), (2, -3.0, 2), (3, -2.0, -12), (3, 0.0, 0)):
        at = leaf_of(x)
        (first,) = mg.grad(at**n, at, create_graph=True)
        assert (mg.grad(first, at)[0].item() if first.requires_grad else 0.0) == expected


# ---------------------------------------------------------------- 21: enormous arguments, no warnings

BIG = [-1e4, -750.0, -40.0, 0.0, 40.0, 750.0, 1e4]
SMOOTH = {
    "sigmoid": mg.sigmoid, "tanh": mg.tanh, "erf": mg.erf, "gelu": F.gelu, "gelu, tanh": lambda x: F.gelu(x, "tanh"), "silu": F.silu, "relu": mg.relu,
    "softmax": F.softmax, "log_softmax": F.log_softmax, "logsumexp": F.logsumexp, "cross_entropy": lambda x: F.cross_entropy(x[None], np.array([0])),
    "cross_entropy, smoothed": lambda x: F.cross_entropy(x[None], np.array([3]), label_smoothing=0.1),
    "cross_entropy, soft": lambda x: F.cross_entropy(x[None], np.full((1, 7), 1 / 7)), "layer_norm": lambda x: F.layer_norm(x, 7),
    "attention": lambda x: F.scaled_dot_product_attention(x[:, None], x[:, None], x[:, None], scale=1e-4),
}  # fmt: skip


@tiers
@pytest.mark.parametrize("dtype", (np.float64, np.float32), ids=("float64", "float32"))
@pytest.mark.parametrize("fun", SMOOTH.values(), ids=SMOOTH)
def test_21_finite_in_value_and_gradients_at_enormous_arguments(fun, dtype, readable):
    x = leaf_of(BIG, dtype)
    with in_tier(readable):
        y = fun(x)
        (first,) = mg.grad(y.sum(), x, create_graph=True)
        second = mg.grad((first * first).sum(), x, allow_unused=True)[0] if first.requires_grad else first
    assert all(np.isfinite(t.data).all() and t.dtype == dtype for t in (y, first, second) if t is not None)


@pytest.mark.parametrize("x, expected", [(-1e4, 0), (1e4, 1), (0.0, 0.5), (-40.0, math.exp(-40)), (40.0, 1)])
def test_21_sigmoid_far_out(x, expected):
    assert mg.sigmoid(leaf_of(x)).item() == pytest.approx(expected, rel=1e-12)


def test_21_exp_is_finite_downwards():
    x = leaf_of([-1e4, -750.0, 0.0, 700.0])
    y = mg.exp(x)
    assert np.isfinite(y.data).all() and np.isfinite(gradients(y, [x])[0]).all()


@tiers
def test_21_far_apart_logits_give_exact_losses_and_gradients(readable):
    logits, targets = leaf_of([[1e4, 0, -1e4], [1e4, 0, -1e4]]), np.array([2, 0])
    with in_tier(readable):
        losses = F.cross_entropy(logits, targets, reduction="none")
    assert losses.tolist() == [2e4, 0]
    near(mg.grad(losses.sum(), logits)[0], [[1, 0, -1], [0, 0, 0]])


@tiers
def test_21_logits_of_minus_infinity_are_classes_that_cannot_be(readable):
    x = leaf_of([0.0, -math.inf, 0.0])
    with in_tier(readable):
        y = F.softmax(x)
        assert y.tolist() == [0.5, 0, 0.5]
        assert mg.grad(y[0], x)[0].tolist() == [0.25, 0, -0.25]
    assert F.logsumexp(x).item() == pytest.approx(math.log(2))


# ---------------------------------------------------------------- 22: cross-entropy

LOGITS = np.array([[0.2, -1.0, 0.7, 2.0], [1.5, 0.3, -0.4, 0.1], [0.0, 0.0, 3.0, -2.0], [1.0, 2.0, 3.0, 4.0]])
TARGETS = np.array([3, 0, -100, 1])
WEIGHT = np.array([0.5, 2.0, 1.0, 3.0])


def losses_by_hand(weight=None, smoothing=0.0):
    """Row by row and class by class; PyTorch's definition."""
    weight = np.ones(4) if weight is None else weight
    rows = []
    for row, target in zip(LOGITS, TARGETS, strict=True):
        log_p = [x - math.log(math.fsum(map(math.exp, row))) for x in row]
        spread = [smoothing / 4 + (1 - smoothing) * (c == target) for c in range(4)]
        rows.append(
            0.0
            if target == -100
            else -math.fsum(q * w * p for q, w, p in zip(spread, weight, log_p, strict=True))
        )
    return np.array(rows)


@tiers
@pytest.mark.parametrize("weight", (None, WEIGHT), ids=("plain", "weighted"))
@pytest.mark.parametrize("smoothing", (0.0, 0.1, 1.0))
def test_22_cross_entropy_by_hand(smoothing, weight, readable):
    expected = losses_by_hand(weight, smoothing)
    total = 3 if weight is None else WEIGHT[[3, 0, 1]].sum()
    for reduction, value in {"none": expected, "sum": expected.sum(), "mean": expected.sum() / total}.items():
        x = leaf_of(LOGITS)
        with in_tier(readable):
            y = F.cross_entropy(x, TARGETS, weight, reduction=reduction, label_smoothing=smoothing)
        near(y, value)
        assert (mg.grad(y.sum(), x)[0].data[2] == 0).all()  # ignored: exactly 0
        assert gradcheck(
            lambda x, r=reduction: F.cross_entropy(
                x, TARGETS, weight, reduction=r, label_smoothing=smoothing
            ),
            [x],
        )


@pytest.mark.parametrize("weight", (None, WEIGHT), ids=("plain", "weighted"))
@pytest.mark.parametrize("reduction", ("none", "sum", "mean"))
def test_22_cross_entropy_as_torch_does(reduction, weight):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    x, t = leaf_of(LOGITS), torch.tensor(LOGITS, requires_grad=True)
    settings = dict(reduction=reduction, label_smoothing=0.2)
    ours = F.cross_entropy(x, TARGETS, weight, **settings)
    theirs = torch.nn.functional.cross_entropy(
        t, torch.tensor(TARGETS), None if weight is None else torch.tensor(weight), **settings
    )
    near(ours, theirs)
    ours.sum().backward()
    theirs.sum().backward()
    near(x.grad, t.grad)


@tiers
@pytest.mark.parametrize("weight", (None, WEIGHT), ids=("plain", "weighted"))
def test_22_all_targets_ignored_is_0_with_gradient_0_as_documented(weight, readable):
    x = leaf_of(LOGITS)
    with in_tier(readable):
        y = F.cross_entropy(x, np.full(4, -100), weight)
    assert (
        y.item() == 0
        and mg.grad(y, x)[0].tolist() == np.zeros((4, 4)).tolist()
        and "PyTorch: NaN" in F.cross_entropy.__doc__
    )


@tiers
def test_22_an_ignored_row_may_hold_anything_the_class_0_included(readable):
    x = leaf_of([[1e4, -1e4], [0.0, 0.0]])
    with in_tier(readable):
        y = F.cross_entropy(x, np.array([0, 1]), ignore_index=0)
        g = mg.grad(y, x)[0].data
    assert y.item() == pytest.approx(math.log(2)) and g[0].tolist() == [0, 0] and g[1].tolist() == [0.5, -0.5]


def test_22_images_and_single_examples():
    x, targets = leaf(2, 3, 4, 5), np.random.default_rng(0).integers(0, 3, (2, 4, 5))
    flat = F.cross_entropy(x.permute(0, 2, 3, 1).reshape(-1, 3), targets.reshape(-1), reduction="none")
    near(F.cross_entropy(x, targets, reduction="none"), flat.data.reshape(2, 4, 5))
    near(F.cross_entropy(x, targets), flat.data.mean())
    near(F.cross_entropy(x[0, :, 0, 0], targets[0, 0, 0]), flat.data[0])


def test_22_probabilities_as_targets():
    x = leaf_of(LOGITS)
    onehot = np.eye(4)[[3, 0, 2, 1]]
    near(F.cross_entropy(x, onehot), F.cross_entropy(x, np.array([3, 0, 2, 1])))
    near(
        F.cross_entropy(x, onehot, label_smoothing=0.1),
        F.cross_entropy(x, np.array([3, 0, 2, 1]), label_smoothing=0.1),
    )


# ---------------------------------------------------------------- 15, 23: embedding, layer norm


@tiers
@pytest.mark.parametrize("vocabulary", (3, 300))
def test_15_rows_named_twice_get_both_gradients(vocabulary, readable):
    w = leaf(vocabulary, 2)
    with in_tier(readable):
        (g,) = mg.grad(F.embedding(np.array([0, 0, 1]), w).sum(), w)
    assert g.data[:3].tolist() == [[2, 2], [1, 1], [0, 0]] and not g.data[3:].any()


@tiers
@pytest.mark.parametrize("padding", (0, -3))
def test_15_the_padding_row_gets_no_gradient_but_its_value_is_used(padding, readable):
    w = leaf(3, 2)
    with in_tier(readable):
        y = F.embedding(np.array([[0, 0], [1, 2]]), w, padding_idx=padding)
        (g,) = mg.grad(y.sum(), w)
    same(y, w.data[[[0, 0], [1, 2]]])
    assert g.tolist() == [[0, 0], [1, 1], [1, 1]]


@tiers
def test_23_layer_norm_uses_the_biased_variance(readable):
    with in_tier(readable):
        y = F.layer_norm(leaf_of([1.0, 0, 0, 0]), 4)
    assert (
        y.data[0] == pytest.approx(0.75 / math.sqrt(3 / 16 + 1e-5))
        and round(y.item() if y.numel() == 1 else y[0].item(), 4) == 1.732
    )


@tiers
def test_23_eps_stands_inside_the_root(readable):
    with in_tier(readable):
        y = F.layer_norm(leaf_of([1.0, 3.0]), 2, eps=8.0)
        flat = F.layer_norm(leaf_of([5.0, 5.0]), 2)
    near(y, [-1 / 3, 1 / 3])
    assert (
        flat.tolist() == [0, 0] and np.isfinite(gradients(F.layer_norm(leaf_of([5.0, 5.0]) * 1, 2), [])).all()
    )


# ---------------------------------------------------------------- 24: float32 stays float32

HALF = {
    "* 2.0": lambda x: x * 2.0, "2 ** x": lambda x: 2**x, "x ** 2.5": lambda x: abs(x) ** 2.5, "np.float64(2) *": lambda x: np.float64(2) * x,
    "+ a 0-d float64 array": lambda x: x + np.array(1.0), "+ a 0-d float64 tensor": lambda x: x + mg.tensor(1.0, dtype=np.float64), "+ whole numbers": lambda x: x + np.arange(3),
    "* truth values": lambda x: x * (x > 0), "- a list": lambda x: x - [1.0, 2.0, 3.0], "/ an int tensor": lambda x: x / mg.tensor([1, 2, 3]), "mean": lambda x: x.mean(),
    "var": lambda x: x.var(), "std": lambda x: x.std(), "sum of whole numbers added": lambda x: x + mg.tensor([1, 2]).sum(), "where": lambda x: mg.where(x > 0, x, 0.0),
    "maximum": lambda x: mg.maximum(x, 0.0), "masked_fill": lambda x: x.masked_fill(x > 0, -np.inf), "erf": mg.erf, "gelu": F.gelu, "softmax": F.softmax,
    "logsumexp": F.logsumexp, "dropout": lambda x: F.dropout(x, 0.5), "layer_norm": lambda x: F.layer_norm(x, 3), "silu": F.silu, "scatter": lambda x: x[[0, 0]],
    "cross_entropy": lambda x: F.cross_entropy(x, np.array(1)), "weighted": lambda x: F.cross_entropy(x[None], np.array([1]), weight=np.ones(3)),
    "soft targets": lambda x: F.cross_entropy(x[None], np.full((1, 3), 1 / 3)), "attention": lambda x: F.scaled_dot_product_attention(x[None], x[None], x[None], np.zeros((1, 1))),
    "0-d": lambda x: x.sum() * np.float64(3.0) + 1, "item": lambda x: x * x.detach().sum().item(), "np.sqrt of a number": lambda x: x * np.sqrt(2.0), "arange": lambda x: x * np.arange(3),
}  # fmt: skip


@tiers
@pytest.mark.parametrize("fun", HALF.values(), ids=HALF)
def test_24_nothing_widens_float32(fun, readable):
    x = leaf(3, dtype=np.float32)
    with in_tier(readable):
        y = fun(x)
        dtypes = {y.dtype, *(node.dtype for node in nodes(y)), mg.grad(y.sum(), x)[0].dtype}
    assert dtypes == {np.dtype(np.float32)}


def test_24_a_float64_array_does_widen_as_in_torch():
    assert (leaf(3, dtype=np.float32) * np.ones(3)).dtype == np.float64
    x = leaf(3, dtype=np.float32)
    assert mg.grad((x * np.ones(3)).sum(), x)[0].dtype == np.float32


@pytest.mark.parametrize("make, dtype", [
    (lambda: mg.tensor(1.5), "float32"), (lambda: mg.tensor([1, 2]), "int64"), (lambda: mg.tensor([True]), "bool"), (lambda: mg.tensor(np.ones(2)), "float64"),
    (lambda: mg.tensor(np.float64(1)), "float64"), (lambda: mg.zeros(2), "float32"), (lambda: mg.arange(3), "int64"), (lambda: mg.arange(3.0), "float32"), (lambda: mg.randn(2), "float32"),
    (lambda: mg.full((2,), 1), "int64"), (lambda: mg.full((2,), 1.0), "float32"), (lambda: mg.eye(2), "float32"), (lambda: mg.linspace(0, 1, 3), "float32"),
    (lambda: mg.tensor([1, 2]).float(), "float32"), (lambda: mg.zeros(2, dtype=np.float64), "float64"), (lambda: mg.ones_like(mg.tensor([1, 2])), "int64"),
    (lambda: mg.Tensor([1.0, 2.0]), "float32"), (lambda: mg.zeros(2).to("cpu", np.float64), "float64"), (lambda: mg.zeros(2).to(dtype=np.float64), "float64"),
])  # fmt: skip
def test_24_where_tensors_come_from(make, dtype):
    assert make().dtype == np.dtype(dtype)


class Small(Module):
    def __init__(self):
        self.embedding, self.norm, self.linear = Embedding(5, 4, padding_idx=0), LayerNorm(4), Linear(4, 5)

    def forward(self, tokens):
        x = F.dropout(self.norm(self.embedding(tokens)), 0.1)
        x = x + F.scaled_dot_product_attention(x, x, x, tokens[:, None] != 0) * math.sqrt(0.5)
        return F.cross_entropy(
            self.linear(F.gelu(x)).reshape(-1, 5), tokens.reshape(-1), ignore_index=0, label_smoothing=0.1
        )


@pytest.mark.parametrize(
    "make",
    [
        lambda p: optim.SGD(p, lr=0.1, momentum=0.9),
        lambda p: optim.Adam(p, lr=0.1),
        lambda p: optim.AdamW(p, lr=np.float64(0.1)),
    ],
)
def test_24_a_training_step_holds_no_float64_anywhere(make, monkeypatch):
    seen, fit = set(), mg.engine.reverse_pass.fit
    monkeypatch.setattr(mg.engine.reverse_pass, "fit", lambda g, *rest: seen.add(g.dtype) or fit(g, *rest))
    model = Small()
    optimizer = make(model.parameters())
    for _ in range(2):
        optimizer.zero_grad()
        loss = model(np.array([[1, 2, 3, 0], [4, 1, 0, 0]]))
        seen.update(node.dtype for node in nodes(loss))
        loss.backward()
        seen.update(p.grad.dtype for p in model.parameters())
        optimizer.step()
    arrays = [
        v
        for state in optimizer.state_dict()["state"].values()
        for v in state.values()
        if isinstance(v, np.ndarray) and v.ndim
    ]
    seen.update(a.dtype for a in [*arrays, *(p.data for p in model.parameters())])
    assert seen == {np.dtype(np.float32)} and arrays


# ---------------------------------------------------------------- 25: whole numbers


@pytest.mark.parametrize("x, y, expected", [
    (mg.tensor([3, 4]), 2, [1.5, 2]), (mg.tensor([3, 4]), mg.tensor([2, 8]), [1.5, 0.5]), (1, mg.tensor([2, 4]), [0.5, 0.25]), (np.array([3]), mg.tensor(2), [1.5]),
])  # fmt: skip
def test_25_whole_numbers_divided_are_floats(x, y, expected):
    z = x / y
    assert z.tolist() == expected and z.dtype == np.float32


def test_25_means_of_whole_numbers_are_floats_and_sums_are_not():
    x = mg.tensor([[1, 2], [3, 5]])
    assert (
        x.mean().item() == 2.75
        and x.mean().dtype == np.float32
        and x.sum().item() == 11
        and x.sum().dtype == np.int64
    )


@pytest.mark.parametrize(
    "convert", [lambda x: x.long(), lambda x: x.bool(), lambda x: x.to(np.int32), lambda x: x.astype(int)]
)
def test_25_a_conversion_to_whole_numbers_cuts_the_gradient(convert):
    x = leaf_of([1.5, 2.5])
    y = convert(x)
    assert not y.requires_grad and y.node is None
    assert mg.grad((y * 2.0 * x).sum(), x)[0].tolist() == (y.data * 2.0).tolist()


def test_25_the_default_dtype_can_be_set_and_is_asked_everywhere():
    try:
        mg.set_default_dtype(np.float64)
        made = [mg.tensor(1.5), mg.zeros(2), mg.tensor([3]) / 2, mg.tensor([1, 2]).mean(), mg.randn(2)]
    finally:
        mg.set_default_dtype(np.float32)
    assert {t.dtype for t in made} == {np.dtype(np.float64)} and mg.zeros(2).dtype == np.float32


# ---------------------------------------------------------------- dropout


def test_34_dropout_scales_what_it_keeps_and_gives_the_gradient_the_same_mask():
    x = leaf_of(np.ones(10_000))
    y = F.dropout(x, 0.25)
    assert set(np.unique(y.data)) == {0, 1 / 0.75} and abs(y.data.mean() - 1) < 0.03
    near(mg.grad(y.sum(), x)[0], y)


@pytest.mark.parametrize(
    "p, training, expected", [(0.0, True, 1), (1.0, True, 0), (0.5, False, 1), (1.0, False, 1)]
)
def test_34_dropout_at_its_ends(p, training, expected):
    x = leaf_of(np.ones(5))
    y = F.dropout(x, p, training)
    assert (
        y.tolist() == [expected] * 5
        and mg.grad((y * x).sum(), x)[0].tolist() == [2 * expected if y is x else expected] * 5
    )


# ---------------------------------------------------------------- what gradcheck says of such values


def test_45_gradcheck_wants_float64_and_says_why():
    with pytest.raises(GradcheckError, match=r"float32.*float64.*double\(\)"):
        gradcheck(mg.exp, [leaf(3, dtype=np.float32)])


def test_45_a_check_in_which_every_gradient_is_zero_is_called_vacuous():
    with pytest.raises(GradcheckError, match="vacuous"):
        gradcheck(mg.floor, [leaf_of([0.5, 1.5])])
    assert 0 < FLOOR < 1
