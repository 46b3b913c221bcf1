"""Shapes: broadcasting, axes, permutations, products, indexing, empty and strided arrays, against HIPS autograd and plain formulas.

Property tests draw the shapes.
"""

import functools
import math

import numpy as np
import pytest
from helpers import leaf_of, slope
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import (
    array_shapes,
    basic_indices,
    integer_array_indices,
    mutually_broadcastable_shapes,
)
from oracle import gradients, leaf, near, refuses, same

import minigrad as mg
from minigrad import functional as F
from minigrad.gradcheck import gradcheck


def numbers(*shape, seed=0):
    return np.random.default_rng((seed, *shape)).standard_normal(shape)


def hips(fun, *arrays, seed=7):
    """The value of a function of arrays and its gradients for a random incoming gradient, as HIPS autograd finds them."""
    autograd = pytest.importorskip("autograd", reason="HIPS autograd is not installed: pip install autograd")
    backwards, y = zip(*(autograd.make_vjp(fun, i)(*arrays) for i in range(len(arrays))), strict=True)
    g = np.random.default_rng(seed).standard_normal(np.shape(y[0]))
    return y[0], [backward(g) for backward in backwards]


def agrees(ours, theirs, *arrays):
    """Our value, gradients and second gradients are those of HIPS autograd; theirs is a function of autograd.numpy and arrays."""
    anp = pytest.importorskip("autograd.numpy", reason="HIPS autograd is not installed: pip install autograd")
    leaves = [leaf_of(a) for a in arrays]
    y = ours(*leaves)
    value, expected = hips(functools.partial(theirs, anp), *arrays)
    near(y, value)
    for found, g in zip(gradients(y, leaves), expected, strict=True):
        near(found, g)
    first = mg.grad((ours(*leaves) ** 3).sum(), leaves, create_graph=True)
    second = mg.grad(sum((g * g).sum() for g in first), leaves, allow_unused=True)
    for found, g in zip(second, slopes_of_slopes(anp, theirs, *arrays), strict=True):
        near(np.zeros_like(g) if found is None else found, g, tolerance=1e-9)


def slopes_of_slopes(anp, theirs, *arrays):
    import autograd

    places = tuple(range(len(arrays)))
    first = autograd.grad(lambda *xs: anp.sum(theirs(anp, *xs) ** 3), places)
    return autograd.grad(lambda *xs: sum(anp.sum(g * g) for g in first(*xs)), places)(*arrays)


# ---------------------------------------------------------------- 10: broadcasting

PAIRS = [
    ((3,), (2, 3)), ((1, 3), (2, 3)), ((2, 1), (2, 3)), ((), (2, 3)), ((2, 1, 3), (4, 1)), ((), ()), ((1,), (1,)), ((1, 1), ()), ((3, 1), (1, 3)),
    ((0,), (1,)), ((0, 3), (3,)), ((2, 0, 1), (4,)), ((1, 0), (5, 1)), ((1,), (0, 0)), ((2, 1, 1, 3), (4, 5, 1)),
]  # fmt: skip
BINARY = {
    "add": lambda np, x, y: x + y, "subtract": lambda np, x, y: x - y, "multiply": lambda np, x, y: x * y,
    "divide": lambda np, x, y: x / (y * y + 1), "maximum": lambda np, x, y: np.maximum(x, y), "where": lambda np, x, y: np.where(True, x, x * y),
}  # fmt: skip


@pytest.mark.parametrize("fun", BINARY.values(), ids=BINARY)
@pytest.mark.parametrize("shapes", PAIRS, ids=str)
def test_10_broadcasting_is_undone(fun, shapes):
    for a, b in (shapes, shapes[::-1]):
        x, y = leaf(*a), leaf(*b, seed=1)
        z = fun(np, x, y)
        assert z.shape == np.broadcast_shapes(a, b)
        for g, given_to in zip(gradients(z, [x, y]), (x, y), strict=True):
            assert g.shape == given_to.shape


@given(mutually_broadcastable_shapes(num_shapes=2, max_dims=4, max_side=3))
def test_10_broadcasting_as_hips_does(shapes):
    x, y = (numbers(*shape, seed=i) for i, shape in enumerate(shapes.input_shapes))
    agrees(lambda x, y: x * y + y, lambda anp, x, y: x * y + y, x, y)


@given(mutually_broadcastable_shapes(num_shapes=3, max_dims=3, min_side=0, max_side=3))
def test_10_three_arguments_of_where_with_empty_axes_too(shapes):
    c, x, y = (numbers(*shape, seed=i) for i, shape in enumerate(shapes.input_shapes))
    a, b = leaf_of(x), leaf_of(y)
    z = mg.where(c > 0, a, b)
    dx, dy = mg.grad(z.sum(), [a, b])
    assert (z.shape, dx.shape, dy.shape) == (shapes.result_shape, x.shape, y.shape)
    assert dx.sum().item() + dy.sum().item() == pytest.approx(math.prod(z.shape))


@given(mutually_broadcastable_shapes(num_shapes=2, max_dims=4, max_side=3))
def test_10_broadcast_to_counts_how_often_each_was_repeated(shapes):
    x = leaf(*shapes.input_shapes[0])
    y = x.broadcast_to(shapes.result_shape)
    near(mg.grad(y.sum(), x)[0], np.full(x.shape, math.prod(y.shape) / max(1, math.prod(x.shape))))


def test_10_tensors_of_no_axes_keep_none():
    assert slope(lambda x: x * x * mg.ones(2, 3, dtype=np.float64), 3.0) == 36
    x = leaf_of(3.0)
    (x * np.ones(4)).sum().backward()
    assert x.grad.shape == () and isinstance(x.grad.data, np.ndarray) and x.grad.item() == 4


@pytest.mark.parametrize("fun", [
    lambda x: x.sum(0), lambda x: x.mean(1), lambda x: x * 2, lambda x: x @ np.ones((3, 2)), lambda x: x.T, lambda x: x.reshape(3, 0), lambda x: x[:0],
    lambda x: x[np.zeros(0, int)], lambda x: mg.concatenate([x, np.ones((1, 3))]), lambda x: F.softmax(x), lambda x: F.layer_norm(x, 3),
    lambda x: F.linear(x, mg.ones(2, 3, dtype=np.float64)), lambda x: F.linear(x.T, mg.ones(2, 0, dtype=np.float64)), lambda x: x.exp().log(), lambda x: F.gelu(x), lambda x: x.amax(1), lambda x: x.sum(),
    lambda x: F.embedding(np.zeros(0, int), x), lambda x: F.cross_entropy(x, np.zeros(0, int)),
    lambda x: F.scaled_dot_product_attention(x, np.ones((2, 3)), np.ones((2, 3))),
    lambda x: F.scaled_dot_product_attention(np.ones((2, 3)), x, x),
])  # fmt: skip
def test_10_empty_arrays_go_through_and_back(fun):
    x = leaf(0, 3)
    y = fun(x)
    assert gradients(y, [x])[0].shape == (0, 3) and np.isfinite(y.data).all()


# ---------------------------------------------------------------- 11: reductions

REDUCTIONS = ("sum", "mean", "amax", "amin", "var", "std")
AXES = [None, 0, 1, 2, -1, -2, -3, (0,), (0, 1), (0, 2), (-1, 0), (2, 1), (-1, -3), (0, 1, 2), ()]


def by_hand(name, x, axis, keepdims):
    if name in ("var", "std"):
        return getattr(np, name)(x, axis=axis, ddof=1 if x.size > 1 else 0, keepdims=keepdims)
    return getattr(np, name)(x, axis=axis, keepdims=keepdims)


@pytest.mark.parametrize("keepdims", (False, True))
@pytest.mark.parametrize("axis", AXES, ids=str)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_11_reductions_over_axes_of_cubes(name, axis, keepdims):
    if axis == () and name in ("var", "std"):
        return  # the variance of one number, with correction 1, is 0/0
    x = leaf_of(np.random.default_rng(0).permutation(27).reshape(3, 3, 3) / 5)
    fun = functools.partial(getattr(mg, name), axis=axis, keepdims=keepdims)
    near(fun(x), by_hand(name, x.data, axis, keepdims))
    assert gradcheck(fun, [x])


@pytest.mark.parametrize("name", REDUCTIONS)
@given(array_shapes(min_dims=1, max_dims=4, min_side=2, max_side=3), st.data())
def test_11_reductions_as_hips_does(name, shape, data):
    axes = data.draw(
        st.none()
        | st.lists(
            st.integers(-len(shape), len(shape) - 1),
            min_size=1,
            max_size=len(shape),
            unique_by=lambda a: a % len(shape),
        ).map(tuple)
    )
    keepdims = data.draw(st.booleans())
    x = np.random.default_rng(0).permutation(math.prod(shape)).reshape(shape) / 7

    def theirs(anp, x):
        if name in ("var", "std"):
            n = x.size if axes is None else math.prod(shape[a] for a in axes)
            variance = anp.sum(
                (x - anp.mean(x, axis=axes, keepdims=True)) ** 2, axis=axes, keepdims=keepdims
            ) / (n - 1)
            return variance if name == "var" else anp.sqrt(variance)
        return getattr(anp, {"amax": "max", "amin": "min"}.get(name, name))(x, axis=axes, keepdims=keepdims)

    agrees(lambda x: getattr(x, name)(axis=axes, keepdims=keepdims), theirs, x)


@pytest.mark.parametrize(
    "name", [*REDUCTIONS, "argmax", "argmin", "any", "all", "softmax", "log_softmax", "logsumexp"]
)
def test_11_dim_and_keepdim_are_axis_and_keepdims(name):
    x = leaf(3, 3)
    same(getattr(x, name)(dim=0), getattr(x, name)(axis=0))
    if "softmax" not in name:
        same(getattr(x, name)(dim=0, keepdim=True), getattr(x, name)(axis=0, keepdims=True))
    if name in REDUCTIONS:
        same(getattr(x, name)(axis=[0, 1]), getattr(x, name)(axis=(0, 1)))


def test_11_numpys_functions_follow_numpy_and_ours_follow_torch():
    x = leaf(3, 4)
    near(np.var(x), np.var(x.data))
    near(np.std(x, axis=0), np.std(x.data, axis=0))
    near(np.var(x, 1, ddof=1), x.var(1))
    near(x.var(), np.var(x.data, ddof=1))
    near(x.var(unbiased=False), np.var(x.data))
    near(x.std(0, correction=2), np.std(x.data, axis=0, ddof=2))
    near(np.max(x, axis=1, keepdims=True), x.data.max(1, keepdims=True))
    near(np.mean(x, (0, 1)), x.data.mean())


# ---------------------------------------------------------------- 12: axes in another order


@pytest.mark.parametrize(
    "axes", [(2, 0, 1), (1, 2, 0), (0, 2, 1), (2, 1, 0), (-1, 0, 1), (-1, -3, -2)], ids=str
)
def test_12_permute_uses_the_inverse_permutation(axes):
    x, g = leaf(3, 3, 3), numbers(3, 3, 3, seed=1)  # a cube: the wrong permutation would not crash
    (found,) = mg.grad(x.permute(*axes), x, mg.tensor(g))
    expected = np.empty((3, 3, 3))
    expected.transpose(axes)[...] = g
    same(found, expected)


@given(st.permutations(range(4)), st.lists(st.booleans(), min_size=4, max_size=4))
def test_12_permute_as_hips_does(axes, negative):
    axes = tuple(a - 4 if neg else a for a, neg in zip(axes, negative, strict=True))
    agrees(
        lambda x: x.permute(axes),
        lambda anp, x: anp.transpose(x, tuple(a % 4 for a in axes)),
        numbers(2, 2, 2, 2),
    )


SHAPERS = {
    "T": (lambda x: x.T, lambda np, x: np.transpose(x)), "mT": (lambda x: x.mT, lambda np, x: np.swapaxes(x, -1, -2)),
    "transpose": (lambda x: x.transpose(0, -1), lambda np, x: np.swapaxes(x, 0, 2)),
    "reshape": (lambda x: x.reshape(3, -1), lambda np, x: np.reshape(x, (3, 9))),
    "reshape, a tuple": (lambda x: x.reshape((9, 3)), lambda np, x: np.reshape(x, (9, 3))),
    "flatten": (lambda x: x.flatten(), lambda np, x: np.reshape(x, 27)), "flatten, part": (lambda x: x.flatten(-2, -1), lambda np, x: np.reshape(x, (3, 9))),
    "unsqueeze": (lambda x: x.unsqueeze(-2), lambda np, x: np.expand_dims(x, -2)), "squeeze": (lambda x: x[:, :1].squeeze(), lambda np, x: x[:, 0]),
    "squeeze, not 1": (lambda x: x.squeeze(1), lambda np, x: x * 1.0), "expand": (lambda x: x[:1].expand(2, -1, 3), lambda np, x: np.stack([x[0], x[0]])),
    "tril": (lambda x: x.tril(-1), lambda np, x: np.tril(x, -1)), "triu": (lambda x: x.triu(diagonal=1), lambda np, x: np.triu(x, 1)),
    "concatenate": (lambda x: mg.concatenate([x, x[:1], x[:, :, 0][None]], -3), lambda np, x: np.concatenate([x, x[:1], x[:, :, 0][None]], 0)),
    "concatenate, last": (lambda x: mg.cat([x[:, :, :1], x], dim=-1), lambda np, x: np.concatenate([x[:, :, :1], x], -1)),
    "stack": (lambda x: mg.stack([x[0], x[1]], -1), lambda np, x: np.stack([x[0], x[1]], -1)),
}  # fmt: skip


@pytest.mark.parametrize("ours, theirs", SHAPERS.values(), ids=SHAPERS)
def test_12_shapers_as_hips_does(ours, theirs):
    agrees(ours, theirs, numbers(3, 3, 3))


@pytest.mark.parametrize("fun", [
    lambda np, x: np.reshape(x, (9, 3)), lambda np, x: np.swapaxes(x, 0, 2), lambda np, x: np.transpose(x, (2, 0, 1)), lambda np, x: np.transpose(x),
    lambda np, x: np.squeeze(x[:1]), lambda np, x: np.squeeze(x[:1], axis=0), lambda np, x: np.expand_dims(x, axis=1), lambda np, x: np.broadcast_to(x[:, :1], (3, 3, 3)),
    lambda np, x: np.concatenate([x, x], axis=1), lambda np, x: np.stack([x, x], axis=-1), lambda np, x: np.tril(x, k=1), lambda np, x: np.sum(x, axis=(0, 2)),
    lambda np, x: np.mean(x, axis=1, keepdims=True), lambda np, x: np.where(x > 0, x, 0.0), lambda np, x: np.max(x, axis=-1), lambda np, x: np.matmul(x, x),
])  # fmt: skip
def test_12_numpys_own_functions_on_tensors_as_hips_does(fun):
    agrees(functools.partial(fun, np), fun, numbers(3, 3, 3))


# ---------------------------------------------------------------- 13: matmul

MATMULS = [
    ((3,), (3,)), ((3, 3), (3,)), ((3,), (3, 3)), ((3, 3), (3, 3)), ((2, 3), (3, 4)), ((2, 4, 3), (3, 2)), ((2, 4, 3), (3,)), ((3,), (2, 3, 2)),
    ((2, 1, 3, 4), (5, 4, 2)), ((5, 4, 2), (2, 1, 2, 3)), ((4, 3), (2, 3, 2)), ((2, 3, 3), (2, 3, 3)), ((1, 3, 3), (4, 3, 3)), ((1, 1), (1, 1)), ((1,), (1,)),
]  # fmt: skip


@pytest.mark.parametrize("shapes", MATMULS, ids=str)
def test_13_matmul_as_hips_does(shapes):
    agrees(
        lambda x, y: x @ y,
        lambda anp, x, y: anp.matmul(x, y),
        *(numbers(*s, seed=i) for i, s in enumerate(shapes)),
    )


@pytest.mark.parametrize(
    "shapes",
    [((0, 3), (3, 2)), ((2, 0), (0, 3)), ((2, 3), (3, 0)), ((0,), (0,)), ((0, 2, 3), (3, 4)), ((2, 0), (0,))],
    ids=str,
)
def test_13_matmul_over_empty_axes(shapes):
    x, y = leaf(*shapes[0]), leaf(*shapes[1])
    z = x @ y
    near(z, x.data @ y.data)
    for g, leaf_, other in zip(gradients(z, [x, y]), (x, y), (y, x), strict=True):
        assert g.shape == leaf_.shape and not (other.data.size and g.any())


@given(
    mutually_broadcastable_shapes(num_shapes=2, max_dims=2, max_side=3),
    st.integers(1, 3),
    st.integers(1, 3),
    st.integers(1, 3),
)
def test_13_batches_broadcast_as_hips_does(batches, n, k, m):
    a, b = batches.input_shapes
    agrees(
        lambda x, y: x @ y, lambda anp, x, y: anp.matmul(x, y), numbers(*a, n, k), numbers(*b, k, m, seed=1)
    )


# ---------------------------------------------------------------- 14: indexing


def test_14_a_repeated_index_receives_both():
    assert slope(lambda x: x[[0, 0, 1]], [5.0, 7.0]) == [2, 1]


PLACES = np.array([[2, 0], [2, 2]])
INDICES = {
    "a number": 1, "a negative number": -1, "two numbers": (0, -2), "a slice": slice(1, 3), "a step": slice(None, None, 2), "a negative step": slice(None, None, -1),
    "slices": (slice(None), slice(2, None, -2)), "None": (None, slice(None), None, 0), "ellipsis": (..., 0), "None and ellipsis": (None, ..., None), "nothing": (),
    "a list": [2, 0, 2], "an array": PLACES, "negative numbers in an array": np.array([-1, 2, -3]), "pairs": (PLACES, PLACES.T), "broadcast pairs": (np.array([[0], [2]]), np.array([1, 1, 3])),
    "a list and a slice": ([0, 0], slice(1, 3)), "a slice and a list": (slice(None), [3, 3, 0]), "apart": ([0, 2], slice(None), [1, 1]), "a number and a list": (1, [0, 0, 3]),
    "a mask": np.arange(12).reshape(3, 4) % 5 < 2, "a mask of rows": np.array([True, False, True]), "a mask of nothing": np.zeros(3, bool),
    "a mask and a number": (np.array([True, False, True]), 2), "a mask and a list": (np.array([True, False, True]), [0, 0]), "an empty list": np.zeros(0, int),
    "an empty slice": slice(2, 1), "None and a list": (None, [1, 1]), "a numpy number": np.int64(2), "True": True, "an array and ellipsis": (PLACES, ...),
}  # fmt: skip


@pytest.mark.parametrize("index", INDICES.values(), ids=INDICES)
def test_14_every_form_of_index(index):
    x = leaf(3, 4, 2) if isinstance(index, tuple) and len(index) == 3 and index[0] == [0, 2] else leaf(3, 4)
    y = x[index]
    same(y, x.data[index])
    g = numbers(*y.shape, seed=1)
    expected = np.zeros(x.shape)
    np.add.at(expected, index, g)
    near(mg.grad(y, x, mg.tensor(g), retain_graph=True)[0], expected)
    (slope_,) = mg.grad((y**3).sum(), x, create_graph=True)
    scattered = np.zeros(x.shape)
    np.add.at(scattered, index, 6 * x.data[index] * x.data[index] ** 0)
    near(mg.grad(slope_.sum(), x)[0], scattered)


def test_14_tensors_as_index_are_their_arrays():
    x, rows = leaf(3, 4), mg.tensor([2, 2, 0])
    same(x[rows], x.data[[2, 2, 0]])
    same(x[rows, mg.tensor(1)], x.data[[2, 2, 0], 1])
    same(x[:, [mg.tensor(1), 0]], x.data[:, [1, 0]])
    same(x[x > 0], x.data[x.data > 0])
    same(gradients(x[rows].sum(), [x])[0] != 0, np.array([[True] * 4, [False] * 4, [True] * 4]))


@given(array_shapes(max_dims=3, max_side=3), st.data())
def test_14_basic_indices_scatter_back(shape, data):
    scatters_back(shape, data.draw(basic_indices(shape, allow_newaxis=True)))


@given(array_shapes(max_dims=3, max_side=3), st.data())
def test_14_integer_arrays_scatter_back(shape, data):
    scatters_back(
        shape, data.draw(integer_array_indices(shape, result_shape=array_shapes(max_dims=2, max_side=4)))
    )


def scatters_back(shape, index):
    x = leaf(*shape)
    y = x[index]
    same(y, np.asarray(x.data[index]))
    g, expected = numbers(*y.shape, seed=1), np.zeros(shape)
    np.add.at(expected, index, g)
    near(mg.grad(y, x, mg.tensor(g))[0], expected)


def test_14_an_index_changed_by_its_owner_afterwards_is_documented_not_guarded():
    x, index = leaf(3), np.array([0, 0, 1])
    y = x[index].sum()
    index[:] = 2
    y.backward()
    # plain arrays have no count of writes; the total arrives, at the places named now
    assert x.grad.sum().item() == 3


def test_iterating_and_unpacking_give_rows_that_carry_gradients():
    x = leaf(2, 3)
    a, b = x
    near(gradients((a * b).sum(), [x])[0] != 0, np.ones((2, 3)))
    assert len(x) == 2 and [row.shape for row in x] == [(3,), (3,)]


# ---------------------------------------------------------------- arrays that lie otherwise in memory

LAYOUTS = {
    "transposed": lambda a: a.T, "reversed": lambda a: a[::-1, ::-1], "every second": lambda a: np.repeat(np.repeat(a, 2, 0), 2, 1)[::2, ::2],
    "columns first": np.asfortranarray, "read-only": lambda a: np.broadcast_to(a, a.shape),
}  # fmt: skip
USES = {
    "matmul": lambda x: x @ x, "linear": lambda x: F.linear(x, x), "softmax": lambda x: F.softmax(x, 0), "layer_norm": lambda x: F.layer_norm(x, 3), "gelu": F.gelu,
    "sum": lambda x: x.sum(0), "reshape": lambda x: x.reshape(9), "T": lambda x: x.T.reshape(9), "index": lambda x: x[[0, 0, 2], ::-1], "erf": mg.erf,
    "concatenate": lambda x: mg.concatenate([x, x.T]), "attention": lambda x: F.scaled_dot_product_attention(x, x.T, x), "embedding": lambda x: F.embedding(np.array([1, 1]), x),
    "cross_entropy": lambda x: F.cross_entropy(x, np.array([0, 2, 1])),
}  # fmt: skip


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_strided_and_read_only_arrays_count_like_others(use, layout):
    strided = mg.from_numpy(layout(numbers(3, 3))).requires_grad_()
    plain = leaf_of(np.ascontiguousarray(strided.data))
    near(use(strided), use(plain))
    near(gradients(use(strided), [strided])[0], gradients(use(plain), [plain])[0])


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_a_strided_incoming_gradient_counts_like_another(use):
    x = leaf(3, 3)
    y = use(x)
    g = mg.tensor(numbers(*y.shape[::-1], seed=1)).T
    if y.ndim > 1:
        assert not g.data.flags.c_contiguous
    near(mg.grad(y, x, g.detach(), retain_graph=True)[0], mg.grad(y, x, np.array(g.data, order="C"))[0])


def test_sizes_and_names_of_a_tensor():
    x = leaf(2, 3)
    assert (
        x.shape,
        x.size(),
        x.size(1),
        x.size(-1),
        x.dim(),
        x.ndim,
        x.numel(),
        np.size(x),
        np.shape(x),
    ) == ((2, 3), (2, 3), 3, 3, 2, 2, 6, 6, (2, 3))
    with refuses(IndexError, "axis 2", "(2, 3)"):
        x.size(2)
