"""The graph: accumulation, order, what is kept and what is let go, changes in place, modes, gradients of gradients.

Test names say the line of trouble they guard against; nothing here depends on the calculus of any one function.
"""

import gc
import sys
import tracemalloc
import weakref

import numpy as np
import pytest
from helpers import in_thread, leaf_of, nodes, row_of, slope
from oracle import leaf, near, refuses, same

import minigrad as mg
from minigrad import functional as F
from minigrad import ops as public
from minigrad.engine import array_functions
from minigrad.engine.operators import FROM_NUMPY
from minigrad.engine.recording import apply
from minigrad.engine.table import CONSTANT, RULES, KernelRow, Row
from minigrad.engine.tensor import Tensor

# ---------------------------------------------------------------- 1-4: accumulation and order


def test_1_reused_inner_value():
    assert slope(lambda a: (a + a) ** 2, 3.0) == 24


def test_1_every_consumer_counts():
    def two_uses(x):
        y = 3 * x
        return (2 * y) * (5 * y)  # 90 x^2

    assert slope(two_uses, 2.0) == 360


def test_1_diamonds_whose_arms_differ_in_length():
    assert slope(lambda x: x * x.exp().log().exp().log() + x, 3.0) == pytest.approx(7)


def test_1_the_older_sibling_used_last():
    def fun(x):
        old, new = x * 2, x * 3
        return (new * 5).sum() + (old * new).sum() + (old * 7).sum()  # 15x + 6x^2 + 14x

    assert slope(fun, 2.0) == 15 + 24 + 14


@pytest.mark.parametrize(
    "fun, expected", [(lambda x: x + x, 2), (lambda x: x + 2 * x, 3), (lambda x: x + x + x * x, 8)]
)
def test_2_accumulating_into_shared_gradients(fun, expected):
    assert slope(fun, [3.0, 3.0]) == [expected] * 2


def test_2_leaves_of_one_sum_get_gradients_of_their_own():
    x, y = leaf(3), leaf(3, seed=1)
    (x + y).sum().backward()
    assert x.grad.data is not y.grad.data and not np.shares_memory(x.grad.data, y.grad.data)
    x.grad.data += 1  # writable, and y's is none of its business
    same(y.grad, np.ones(3))


def test_2_the_callers_seed_is_not_written_into():
    x, seed = leaf(3), np.ones(3)
    y = x * 1.0
    (y + y).backward(mg.from_numpy(seed))
    (x + 0.0).backward(mg.from_numpy(seed))
    same(seed, np.ones(3))
    same(x.grad, np.full(3, 3.0))
    assert not np.shares_memory(x.grad.data, seed)


def test_3_cost_is_the_number_of_nodes_not_of_paths():
    x = leaf_of(1.0)
    y = x
    for _ in range(40):
        y = y + y
    assert len(nodes(y)) == 40
    y.backward()
    assert x.grad.item() == 2.0**40


@pytest.fixture
def usual_recursion_limit():
    before = sys.getrecursionlimit()  # PyTorch and others raise it
    sys.setrecursionlimit(1000)
    yield
    sys.setrecursionlimit(before)


def test_3_a_chain_of_100_000_meets_no_recursion_limit(usual_recursion_limit):
    x = leaf_of([0.5])
    y, long = x, 100_000
    for _ in range(long):
        y = y + 1
    assert "grad_fn=<add>" in repr(y)
    y.backward(np.ones(1), retain_graph=True)
    assert x.grad.tolist() == [1]
    y.backward(np.ones(1))
    assert x.grad.tolist() == [2]


def test_3_a_long_chain_that_no_pass_went_through_is_deleted():
    y = leaf_of([0.5])
    for _ in range(100_000):
        y = y * 1.0
    oldest = weakref.ref(nodes(y)[0])
    del y
    assert oldest() is None


def test_3_a_long_chain_under_create_graph():
    x = leaf_of(0.5)
    y = x
    for _ in range(5_000):
        y = y * 1.0
    (first,) = mg.grad(y * y, x, create_graph=True)
    assert mg.grad(first, x)[0].item() == 2


@pytest.mark.parametrize("fun, expected", [
    (lambda a: a * a, 6.0), (lambda a: a / a, 0.0), (lambda a: a - a, 0.0), (lambda a: a**a, 27 * (1 + np.log(3))),
    (lambda a: mg.maximum(a, a), 1.0), (lambda a: mg.where(True, a, a), 1.0), (lambda a: mg.stack([a, a, a]), 3.0),
])  # fmt: skip
def test_4_the_same_object_twice(fun, expected):
    assert slope(fun, 3.0) == pytest.approx(expected)


def test_4_a_matrix_times_itself():
    a, g = leaf(3, 3), np.ones((3, 3))
    (a @ a).sum().backward()
    near(a.grad, g @ a.data.T + a.data.T @ g)


# ---------------------------------------------------------------- 5, 6, 9: more than one pass


def test_5_a_second_backward_says_why_it_cannot():
    x = leaf_of(3.0)
    y = x * x * x
    y.backward()
    with refuses(RuntimeError, "multiply", "used up", "retain_graph=True"):
        y.backward()
    assert x.grad.item() == 27


def test_5_with_retain_graph_exactly_double():
    x = leaf_of(3.0)
    y = x * x * x
    y.backward(retain_graph=True)
    assert x.grad.item() == 27
    y.backward()
    assert x.grad.item() == 54


def test_5_two_losses_on_one_trunk_that_was_let_go():
    x = leaf_of(3.0)
    trunk = x * x
    (trunk * 2).backward()
    with refuses(RuntimeError, "retain_graph"):
        (trunk * 5).backward()


def test_6_zeroing_a_leaf_leaves_no_stale_inner_gradient():
    x = leaf_of(3.0)
    y = x * x
    (y * 2).backward(retain_graph=True)
    assert y.grad is None  # inner values keep none
    x.grad = None
    (y * 2).backward()
    assert x.grad.item() == 12


def test_9_two_losses_on_one_trunk_add_up():
    x = leaf_of(3.0)
    trunk = x * x
    (trunk * 2).backward(retain_graph=True)
    (trunk * 5).backward()
    assert x.grad.item() == 12 + 30


def test_9_backward_adds_to_what_stands_in_grad_and_grad_does_not():
    x = leaf_of(3.0)
    (x * 2).backward()
    (x * 5).backward()
    assert x.grad.item() == 7
    assert mg.grad(x * 11, x)[0].item() == 11 and x.grad.item() == 7


# ---------------------------------------------------------------- 7: seeds


@pytest.mark.parametrize("shape", [(3,), (1, 2), (0,)])
def test_7_backward_of_more_than_a_number_needs_a_seed(shape):
    with refuses(RuntimeError, str(shape), "a gradient to start from", "to a scalar", ".sum()"):
        (leaf(*shape) * 2).backward()


@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
def test_7_a_single_number_of_any_rank_needs_none(shape):
    x = leaf(*shape)
    (x * 2).backward()
    same(x.grad, np.full(shape, 2.0))


@pytest.mark.parametrize(
    "seed", [np.ones(2), np.ones((3, 1)), np.float64(1), np.ones(3, int), np.ones(3, bool)]
)
def test_7_a_seed_of_the_wrong_shape_or_dtype(seed):
    with refuses(RuntimeError, "(3,)", str(seed.shape), str(seed.dtype), "floating point"):
        (leaf(3) * 2).backward(seed)


def test_7_a_seed_takes_the_dtype_of_the_output():
    x = leaf(3, dtype=np.float32)
    (x * 2).backward(np.array([1.0, 2, 3]))
    same(x.grad, np.array([2, 4, 6], np.float32))


# ---------------------------------------------------------------- 8: every function has a rule, or says so


def unary_arguments(name):
    return {
        "reshape": (6,), "view": (6,), "expand": (2, 3), "broadcast_to": (2, 3), "permute": (1, 0), "swapaxes": (0, 1),
        "transpose": (0, 1), "unsqueeze": (0,), "masked_fill": (np.eye(2, 3) > 0, 1.0), "where": (np.eye(2, 3) > 0, 1.0),
        "matmul": (np.ones((3, 1)),), "to": (np.float64,), "lerp": (2.0, 0.5), "clip": (0.4,), "clamp": (0.4,), "mm": (np.ones((3, 1)),),
        "mv": (np.ones(3),), "outer": (np.ones(2),), "ger": (np.ones(2),), "inner": (np.ones(3),), "vdot": (np.ones(6),), "flip": (0,),
        "movedim": (0, 1), "moveaxis": (0, 1), "roll": (1,), "tile": (2,), "repeat": (2, 1), "repeat_interleave": (2,), "unflatten": (1, (3, 1)),
        "split": (1,), "chunk": (2,), "tensor_split": (2,), "array_split": (2,), "topk": (2, 0), "gather": (1, [[0]]), "take": ([0, 0],),
        "take_along_axis": ([[0]], 1), "take_along_dim": ([[0]], 1), "index_select": (0, [1]), "index_add": (0, [1], np.ones((1, 3))),
        "scatter": (1, [[0]], 2.0), "scatter_add": (1, [[0]], np.ones((1, 1))), "masked_select": (np.eye(2, 3) > 0,), "select": (0, 1),
        "narrow": (1, 0, 2), "isclose": (1.0,), "allclose": (1.0,), "equal": (1.0,), "matrix_power": (2,),
    }.get(name, (2.0,) if name in OF_TWO else ())  # fmt: skip


OF_TWO = {
    "arctan2", "atan2", "hypot", "logaddexp", "fmod", "remainder", "floor_divide", "logical_and", "logical_or", "logical_xor", "eq", "ne",
    "lt", "le", "gt", "ge", "maximum", "minimum", "add", "sub", "subtract", "mul", "multiply", "div", "divide", "true_divide", "pow", "float_power",
}  # fmt: skip
OTHER_SHAPES = {"dot": (3,), "bmm": (2, 3, 3)}  # of what is not for matrices
SQUARE = {"inv", "inverse", "det", "logdet", "slogdet", "cholesky", "matrix_power"}


@pytest.mark.parametrize("name", sorted(n for n in public.__all__ if hasattr(Tensor, n)))
def test_8_every_method_has_a_gradient_or_gives_no_floats(name):
    shape = (3, 3) if name in SQUARE else OTHER_SHAPES.get(name, (2, 3))
    array = np.random.default_rng(0).uniform(0.2, 0.9, shape) + (
        np.eye(3) if name in SQUARE else name in ("arccosh", "acosh")
    )
    x = mg.tensor(array, requires_grad=True)
    y = getattr(x, name)(*((x,) if name in OTHER_SHAPES else unary_arguments(name)))
    if type(y) is bool:
        return
    if isinstance(y, tuple):
        y = next(part for part in y if part.dtype.kind == "f" and (part.requires_grad or name != "slogdet"))
    if y.dtype.kind == "f" and name != "floor_divide":
        y.sum().backward()
        assert x.grad.shape == x.shape
    else:
        assert not y.requires_grad


UNARY_UFUNCS = sorted(
    {f for f in vars(np).values() if isinstance(f, np.ufunc) and f.nin == 1 and f.nout == 1},
    key=lambda f: f.__name__,
)


@pytest.mark.parametrize("ufunc", UNARY_UFUNCS, ids=lambda f: f.__name__)
@np.errstate(all="ignore")
def test_8_every_ufunc_of_numpy_has_a_rule_or_says_that_it_has_none(ufunc):
    x = mg.tensor(np.array([0.2, 0.7]), requires_grad=True)
    try:
        bare = ufunc(x.data)
    except TypeError:  # of whole numbers only
        with pytest.raises(TypeError, match=ufunc.__name__):
            ufunc(x)
        return
    if ufunc in RULES or ufunc in FROM_NUMPY or bare.dtype.kind != "f":
        if ufunc in RULES or ufunc in FROM_NUMPY:
            y = ufunc(x)
            assert y.requires_grad == (RULES.get(ufunc) is not CONSTANT)
            same(y, bare)
    else:
        with refuses(NotImplementedError, ufunc.__name__, "no rule", "defvjp", "detach()"):
            ufunc(x)
        same(ufunc(x.detach()), bare)


@pytest.mark.parametrize(
    "fun",
    [np.cross, np.kron, np.diff, np.linalg.eigh, np.unwrap, np.gradient, np.percentile, np.sinc],
    ids=lambda f: f.__name__,
)
def test_8_functions_of_numpy_without_a_rule_say_so(fun):
    args = {
        np.cross: (leaf(3), leaf(3)),
        np.kron: (leaf(3), leaf(3)),
        np.linalg.eigh: (leaf(3, 3),),
        np.percentile: (leaf(3), 50),
    }.get(fun, (leaf(3),))
    with refuses(NotImplementedError, "no rule"):
        fun(*args)


# ---------------------------------------------------------------- 16: operators from either side

X = [1.5, 2.5]


@pytest.mark.parametrize("fun, value, gradient", [
    (lambda t: np.array([2.0, 3.0]) * t, [3, 7.5], [2, 3]), (lambda t: np.float32(2) * t, [3, 5], [2, 2]),
    (lambda t: np.float64(2) + t, [3.5, 4.5], [1, 1]), (lambda t: np.array(2.0) / t, [2 / 1.5, 0.8], [-2 / 2.25, -0.32]),
    (lambda t: 2 - t, [0.5, -0.5], [-1, -1]), (lambda t: 1 / t, [1 / 1.5, 0.4], [-1 / 2.25, -0.16]),
    (lambda t: 2**t, [2**1.5, 2**2.5], [2**1.5 * np.log(2), 2**2.5 * np.log(2)]), (lambda t: -t, [-1.5, -2.5], [-1, -1]),
    (lambda t: +t, X, [1, 1]), (lambda t: abs(-t), X, [1, 1]), (lambda t: [2, 3] * t, [3, 7.5], [2, 3]),
    (lambda t: np.ones((1, 2)) @ t, [4], [1, 1]), (lambda t: t @ np.ones((2, 1)), [4], [1, 1]), (lambda t: np.array([1.0, 1.0]) - t, [-0.5, -1.5], [-1, -1]),
    (lambda t: np.exp(t), np.exp(X), np.exp(X)), (lambda t: np.multiply(2.0, t), [3, 5], [2, 2]), (lambda t: np.sum(t), 4, [1, 1]),
    (lambda t: True * t, X, [1, 1]),
])  # fmt: skip
def test_16_numbers_and_arrays_on_either_side(fun, value, gradient):
    t = leaf_of(X)
    y = fun(t)
    assert isinstance(y, Tensor) and y.dtype == np.float64
    near(y, value)
    near(slope(fun, X), gradient)


@pytest.mark.parametrize("fun, value", [
    (lambda t: t > 2, [False, True]), (lambda t: 2 > t, [True, False]), (lambda t: t == 1.5, [True, False]), (lambda t: t != 1.5, [False, True]),
    (lambda t: np.array([1.5, 0]) == t, [True, False]), (lambda t: t >= 1.5, [True, True]), (lambda t: ~(t > 2), [True, False]),
    (lambda t: (t > 2) | (t < 2), [True, True]), (lambda t: (t > 2) & (t < 2), [False, False]), (lambda t: t // 1, [1, 2]),
])  # fmt: skip
def test_16_comparisons_are_elementwise_and_carry_no_gradient(fun, value):
    y = fun(leaf_of(X))
    assert y.tolist() == value and not y.requires_grad


def test_16_hashing_is_by_identity():
    a, b = leaf_of(1.0), leaf_of(1.0)
    assert len({a, b}) == 2 and {a: 1}[a] == 1 and 1.0 in a


# ---------------------------------------------------------------- 26: changed in place before backward


def test_26_a_change_of_what_a_rule_reads_is_refused_by_name():
    w, x = leaf(3), leaf(3, seed=1)
    y = (w * x).sum()
    with mg.no_grad():
        w.add_(1.0)
    with refuses(RuntimeError, "multiply", "argument 0", "(3,)", "changed in place", "clone()"):
        y.backward()


def test_26_a_change_of_the_value_that_a_rule_reads_is_refused_by_name():
    x = leaf(3)
    y = x.exp()
    loss = (y * 2).sum()
    with mg.no_grad():
        y.mul_(2.0)
    with refuses(RuntimeError, "exp", "the result", "changed in place"):
        loss.backward()


def test_a_rule_that_takes_all_in_one_reads_all():
    x, y = leaf_of(2.0), leaf_of(3.0)
    rules = (lambda *given: given[0] * given[3], lambda *given: given[0] * given[2])
    with row_of(np.multiply, Row(np.multiply, rules)):
        (x * y).backward()
    assert (x.grad.item(), y.grad.item()) == (3.0, 2.0)

    def doubled(*given):
        return [2 * given[0] * given[1]]  # y, the value

    with row_of(np.tanh, KernelRow(None, lambda a: (np.tanh(a), None), doubled)):
        z = mg.tanh(leaf_of(1.0))
        assert z.node.y is not None


def test_26_a_change_of_what_no_rule_reads_does_no_harm():
    w, x = leaf(3), leaf(3, seed=1)
    y = (w + x).sum()
    with mg.no_grad():
        w.add_(1.0)
    y.backward()
    same(x.grad, np.ones(3))


def test_26_only_the_rules_that_run_are_asked():
    w, x = leaf(3), mg.tensor(np.ones(3))
    y = (w * x).sum()  # the slope in w is x; w itself is not read, because x wants no gradient
    with mg.no_grad():
        w.mul_(3.0)
    y.backward()
    same(w.grad, np.ones(3))


VIEWS = {
    "a row": lambda x: x[0], "reshape": lambda x: x.reshape(9), "T": lambda x: x.T, "swapaxes": lambda x: x.swapaxes(0, 1),
    "unsqueeze": lambda x: x.unsqueeze(0), "broadcast_to": lambda x: x.broadcast_to(2, 3, 3), "detach": lambda x: x.detach(),
    "a view of a view": lambda x: x.T[1:][0],
}  # fmt: skip


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
@pytest.mark.parametrize("dtype", (np.float32, np.float64))
def test_26_views_share_the_count_of_writes_both_ways(view, dtype):
    x = mg.tensor(leaf(3, 3).data.astype(dtype), requires_grad=True)
    with mg.no_grad():
        seen = view(x)
    assert np.shares_memory(seen.data, x.data)
    loss = (x * x).sum()
    with mg.no_grad():
        seen.detach().zero_() if seen.data.flags.writeable else x.zero_()
    with refuses(RuntimeError, "multiply", "changed in place"):
        loss.backward()


def test_26_a_write_into_the_base_is_seen_through_the_view():
    base, w = mg.tensor(np.ones((3, 3))), leaf(3)
    loss = (base[0] * w).sum()
    base[0, 0] = 5.0
    with refuses(RuntimeError, "multiply", "changed in place"):
        loss.backward()


def test_26_a_copy_has_a_count_of_its_own():
    w = leaf(3)
    copied = w.detach().clone()
    loss = (w * w).sum()
    copied.zero_()
    loss.backward()
    near(w.grad, 2 * w.data)


def test_26_kernels_are_guarded_as_well():
    x, w = leaf(2, 3), leaf(4, 3)
    loss = F.linear(x, w).sum()
    with mg.no_grad():
        w.zero_()
    with refuses(RuntimeError, "linear", "argument 1", "changed in place"):
        loss.backward()


IN_PLACE = {
    "add_": lambda x: x.add_(1.0), "sub_": lambda x: x.sub_(1.0), "mul_": lambda x: x.mul_(2.0), "div_": lambda x: x.div_(2.0),
    "fill_": lambda x: x.fill_(1.0), "zero_": lambda x: x.zero_(), "copy_": lambda x: x.copy_(np.ones(3)), "clamp_": lambda x: x.clamp_(0, 1),
    "[...] =": lambda x: x.__setitem__(0, 1.0),
}  # fmt: skip


@pytest.mark.parametrize("write", IN_PLACE.values(), ids=IN_PLACE)
def test_26_every_write_is_refused_while_recording_and_counted_under_no_grad(write):
    x = leaf(3)
    loss = (x * x).sum()
    with refuses(RuntimeError, "leaf", "no_grad"):
        write(x)
    with refuses(RuntimeError, "computed (by multiply)", "detach().clone()"):
        write(x * 2)
    with mg.no_grad():
        write(x)
    with refuses(RuntimeError, "changed in place"):
        loss.backward()


def test_26_plus_equals_makes_a_new_tensor_of_a_computed_value():
    x = leaf_of(3.0)
    y = before = x * x
    y += 1
    y *= 2
    y -= x
    y /= 4
    assert y is not before and before.item() == 9
    y.backward()
    assert x.grad.item() == (4 * 3 - 1) / 4


def test_26_plus_equals_on_a_leaf_is_refused_while_recording_and_in_place_under_no_grad():
    x = leaf_of([3.0])
    memory = x.data
    with refuses(RuntimeError, "leaf", "no_grad"):
        x += 1
    with mg.no_grad():
        x += 1
        x *= 2
    assert x.data is memory and x.tolist() == [8]


# ---------------------------------------------------------------- memory


@pytest.fixture
def no_collector():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def network():
    x, w, b = leaf(4, 3), leaf(5, 3), leaf(5)
    hidden = F.softmax(F.layer_norm(F.gelu(F.linear(x, w, b)), 5))
    return (hidden @ hidden.T).tanh().mean(), (x, w, b)


def alive(references):
    return [r() for r in references if r() is not None]


def test_after_del_loss_no_node_lives(no_collector):
    loss, leaves = network()
    made = [weakref.ref(node) for node in nodes(loss)]
    assert len(alive(made)) == len(made) > 8
    del loss
    assert alive(made) == []


def test_after_backward_and_del_loss_no_node_lives(no_collector):
    loss, leaves = network()
    made = [weakref.ref(node) for node in nodes(loss)]
    loss.backward()
    del loss
    assert alive(made) == [] and all(x.grad is not None for x in leaves)


def test_after_create_graph_and_del_no_node_lives(no_collector):
    loss, leaves = network()
    gradients = mg.grad(loss, leaves, create_graph=True)
    made = [weakref.ref(node) for node in nodes(loss, *gradients)]
    sum((g * g).sum() for g in gradients).backward()
    del loss, gradients
    assert alive(made) == []


def test_backward_lets_the_arrays_go_though_the_loss_lives_on(no_collector):
    x = leaf(4)
    inner = x.exp()
    array = weakref.ref(inner.data)
    loss = (inner * inner).sum()
    del inner
    assert array() is not None
    loss.backward()
    assert array() is None and loss.node.released


def test_history_is_let_go_as_the_pass_goes():
    probed = []

    def probe(x):
        return x * 1.0

    def rule(g, _y, _x):
        probed.extend(node.released for node in later)
        return g

    with row_of(probe, Row(probe, (rule,))):
        loss = (apply(probe, leaf(4)).exp() * 2).sum()
        later = nodes(loss)[1:]
        assert not any(node.released for node in later)
        loss.backward()
    assert probed == [True] * 3  # when the oldest node's turn came, the younger ones had nothing left


def test_peak_memory_of_backward_is_not_twice_that_of_forward():
    x, steps, megabyte = mg.tensor(np.ones(1 << 17), requires_grad=True), 16, 1 << 20
    tracemalloc.start()
    try:
        y = x
        for _ in range(steps):
            y = y.tanh()
        loss = y.sum()
        del y
        kept = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        loss.backward()
        assert steps * megabyte <= kept and tracemalloc.get_traced_memory()[1] < kept + 6 * megabyte
        assert tracemalloc.get_traced_memory()[0] < 2.5 * megabyte  # x.grad is left
    finally:
        tracemalloc.stop()


def test_what_no_rule_reads_is_not_kept(no_collector):
    inner = leaf(4) + 1
    array = weakref.ref(inner.data)
    loss = (inner + 2).sum()
    del inner
    assert array() is None and loss.requires_grad


def test_43_a_thousand_forward_only_steps_keep_memory_flat(no_collector):
    w = leaf(20, 20)
    state = mg.ones(20, dtype=np.float64)

    def steps(n):
        nonlocal state
        for _ in range(n):
            state = F.softmax(state @ w)

    with mg.no_grad():
        steps(2500)  # Python keeps up to 2000 freed tuples of each length for later
        tracemalloc.start()
        steps(10)
        before = tracemalloc.get_traced_memory()[0]
        steps(1000)
        after = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
    assert after - before < 10_000 and state.node is None


# ---------------------------------------------------------------- 43: modes


def test_43_no_grad_nests_and_is_restored():
    seen = [mg.is_grad_enabled()]
    with mg.no_grad():
        seen.append(mg.is_grad_enabled())
        with mg.no_grad():
            pass
        seen.append(mg.is_grad_enabled())
        with mg.enable_grad():
            seen.append(mg.is_grad_enabled())
        seen.append(mg.is_grad_enabled())
    assert [*seen, mg.is_grad_enabled()] == [True, False, False, True, False, True]


def test_43_one_mode_object_may_be_entered_twice():
    mode = mg.no_grad()
    with mode, mode:
        pass
    assert mg.is_grad_enabled()


def test_43_no_grad_is_restored_on_exceptions():
    with pytest.raises(KeyError), mg.no_grad():
        raise KeyError
    assert mg.is_grad_enabled()


@pytest.mark.parametrize("decorate", [mg.no_grad(), mg.no_grad], ids=["@no_grad()", "@no_grad"])
def test_43_no_grad_as_a_decorator(decorate):
    @decorate
    def recursive(n):
        return [mg.is_grad_enabled(), *(recursive(n - 1) if n else [])]

    assert recursive(2) == [False] * 3 and mg.is_grad_enabled() and recursive.__name__ == "recursive"


def test_43_no_grad_is_one_threads_own():
    with mg.no_grad():
        assert in_thread(mg.is_grad_enabled)

    def leave_it_on():
        mg.no_grad().__enter__()
        return mg.is_grad_enabled()

    assert in_thread(leave_it_on) is False and mg.is_grad_enabled()


def test_43_graphs_made_in_two_threads_do_not_meet():
    x = leaf_of(3.0)
    theirs = in_thread(lambda: mg.grad(x * x, x)[0].item())
    assert theirs == mg.grad(x * x, x)[0].item() == 6


def test_43_no_grad_on_a_generator_holds_only_while_it_runs():
    @mg.no_grad()
    def items():
        for i in range(2):
            yield i, mg.is_grad_enabled()
        return "end"

    seen = []
    running = items()
    for _, inside in running:
        seen += [inside, mg.is_grad_enabled()]
    assert seen == [False, True, False, True]


def test_43_a_decorated_generator_can_be_sent_to_thrown_into_and_closed():
    log = []

    @mg.no_grad()
    def items():
        try:
            while True:
                try:
                    log.append((yield mg.is_grad_enabled()))
                except KeyError:
                    log.append("caught")
        finally:
            log.append("closed")

    running = items()
    assert next(running) is False and running.send("hello") is False and running.throw(KeyError) is False
    running.close()
    assert log == ["hello", "caught", "closed"] and mg.is_grad_enabled()


def test_43_what_a_decorated_generator_returns_arrives():
    @mg.no_grad()
    def inner():
        yield 1
        return "end"

    def outer():
        return (yield from inner())

    running = outer()
    next(running)
    with pytest.raises(StopIteration) as stop:
        next(running)
    assert stop.value.value == "end"


def test_nothing_is_recorded_under_no_grad_and_for_constants():
    x = leaf(3)
    with mg.no_grad():
        y = F.softmax(x * 2)
    assert y.node is None and not y.requires_grad
    assert (mg.ones(3) * 2).node is None


# ---------------------------------------------------------------- gradients as values


def test_create_graph_goes_to_the_fourth_order():
    x = leaf_of(2.0)
    y, found = x**5, []
    for _ in range(4):
        (y,) = mg.grad(y, x, create_graph=True)
        found.append(y.item())
    assert found == pytest.approx([5 * 16, 20 * 8, 60 * 4, 120 * 2])


def test_without_create_graph_a_gradient_is_a_constant():
    x = leaf_of(2.0)
    (g,) = mg.grad(x**3, x)
    assert g.item() == 12 and not g.requires_grad and g.node is None


def test_create_graph_does_not_record_on_a_graph_that_no_grad_surrounds():
    x = leaf_of(2.0)
    y = x**3
    with mg.no_grad():
        (g,) = mg.grad(y, x, create_graph=True)
        assert not mg.is_grad_enabled()
    assert mg.grad(g, x)[0].item() == 12


def test_a_gradient_penalty_reaches_the_parameters():
    w, x = leaf_of([2.0, 3.0]), leaf_of([5.0, 7.0])
    (g,) = mg.grad((w * x * x).sum(), x, create_graph=True)  # 2 w x
    (g * g).sum().backward()  # d/dw sum 4 w^2 x^2 = 8 w x^2, d/dx = 8 w^2 x
    assert w.grad.tolist() == [8 * 2 * 25, 8 * 3 * 49] and x.grad.tolist() == [8 * 4 * 5, 8 * 9 * 7]


def test_grad_of_an_inner_value_and_of_an_output_itself():
    x = leaf_of(3.0)
    y = x * x
    z = y * y
    assert [g.item() for g in mg.grad(z, [y, x, z])] == [18, 108, 1]


def test_grad_computes_only_what_leads_to_the_inputs():
    asked = []

    def probe(x):
        return x * 1.0

    with row_of(probe, Row(probe, (lambda g, _y, _x: asked.append(1) or g,))):
        x, w = leaf(3), leaf(3)
        loss = (apply(probe, w) * x).sum()
        mg.grad(loss, x, retain_graph=True)
        assert asked == []
        mg.grad(loss, w)
        assert asked == [1]


def test_grad_of_several_outputs_with_several_seeds():
    x = leaf_of([1.0, 2.0])
    (g,) = mg.grad([x * 2, x * x], [x], [np.array([1.0, 1.0]), np.array([10.0, 100.0])])
    assert g.tolist() == [2 + 20, 2 + 400]
    y = x.sum()
    assert mg.grad([y, y], x)[0].tolist() == [2, 2]


def test_allow_unused_gives_none_and_without_it_a_sentence():
    x, unused = leaf(3), leaf(2)
    y = (x * x).sum()
    first, second = mg.grad(y, [x, unused], allow_unused=True, retain_graph=True)
    assert second is None
    near(first, 2 * x.data)
    with refuses(RuntimeError, "(2,)", "not used", "allow_unused=True"):
        mg.grad(y, [x, unused])


def test_grad_of_a_value_computed_after_the_output_is_unused():
    x = leaf_of(3.0)
    y = x * x
    later = y * 2
    assert mg.grad(y, later, allow_unused=True) == (None,)


def test_grad_refuses_what_wants_no_gradient():
    x = leaf(3)
    with refuses(RuntimeError, "(2,)", "requires_grad_()"):
        mg.grad(x.sum(), mg.ones(2))
    with refuses(RuntimeError, "nothing to differentiate", "no_grad"):
        mg.grad(mg.ones(()), x)
    with refuses(ValueError, "1 outputs", "2 grad_outputs"):
        mg.grad(x.sum(), x, [None, None])


def test_detach_cuts_and_clone_does_not():
    x = leaf_of(3.0)
    assert slope(lambda x: x.detach() * x, 3.0) == 3
    assert slope(lambda x: x.clone() * x, 3.0) == 6
    assert np.shares_memory(x.detach().data, x.data) and not np.shares_memory(x.clone().data, x.data)


# ---------------------------------------------------------------- functions of several values


def divided(x, y):
    """Three values, one of whole numbers: the quotient, the product, and the larger one's number."""
    return x / y, x * y, np.where(x > y, 0, 1)


ROW = Row(divided, (lambda g, z, _x, y: g[0] / y + g[1] * y, lambda g, z, x, y: -g[0] * z[0] / y + g[1] * x))


def by_parts(x, y):
    quotient, product, _ = apply(divided, x, y)
    return quotient, product


def in_one_piece(x, y):
    return x / y, x * y


ITEM_USES = {
    "both": lambda q, p: q * p + q, "the first": lambda q, p: q * q, "the second": lambda q, p: p.exp(), "one of them twice": lambda q, p: q * q + q,
}  # fmt: skip


@pytest.mark.parametrize("use", ITEM_USES.values(), ids=ITEM_USES)
def test_a_function_of_several_values_equals_its_parts_at_first_and_second_order(use):
    with row_of(divided, ROW):
        found = [differentiated_twice(lambda x, y, f=f: use(*f(x, y))) for f in (by_parts, in_one_piece)]
    for ours, expected in zip(*found, strict=True):
        near(ours, expected)


def differentiated_twice(fun):
    x, y = leaf_of([1.0, 2.0]), leaf_of([3.0, 5.0])
    first = mg.grad(fun(x, y).sum(), [x, y], create_graph=True)
    return [*first, *mg.grad(sum((g * g).sum() for g in first), [x, y])]


def test_items_of_whole_numbers_carry_no_gradient_and_items_are_found_by_grad():
    with row_of(divided, ROW):
        x, y = leaf_of([1.0]), leaf_of([2.0])
        quotient, product, which = apply(divided, x, y)
        assert not which.requires_grad and which.dtype.kind == "i" and quotient.node.name == "take_item"
        assert [g.item() for g in mg.grad(product * 3 + quotient, [product, quotient])] == [3, 1]


def test_several_values_are_let_go_and_guarded_like_one(no_collector):
    with row_of(divided, ROW):
        x, y = leaf_of([1.0]), leaf_of([2.0])
        quotient, product, _ = apply(divided, x, y)
        made = [weakref.ref(node) for node in nodes(quotient, product)]
        del quotient, product
        assert len(made) == 3 and alive(made) == []
        quotient, product, _ = apply(divided, x, y)
        with mg.no_grad():
            quotient.zero_()
        with refuses(RuntimeError, "divided", "the result", "changed in place"):
            (quotient + product).sum().backward()


def test_one_item_alone_gets_by_without_the_others(no_collector):
    with row_of(divided, ROW):
        x, y = leaf_of([1.0]), leaf_of([2.0])
        product = apply(divided, x, y)[1]
        product.sum().backward()
    assert x.grad.tolist() == [2] and y.grad.tolist() == [1]


def test_a_row_of_ones_own_without_a_rule_for_one_argument():
    def shifted(x, by):
        return x + by

    with row_of(shifted, Row(shifted, (lambda g, _y, _x, _by: g,))):
        x, by = leaf_of(1.0), leaf_of(2.0)
        apply(shifted, x, by).backward()
    assert x.grad.item() == 1 and by.grad is None


def test_a_rule_of_the_wrong_shape_is_named():
    def doubled(x):
        return x * 2

    with (
        row_of(doubled, Row(doubled, (lambda g, _y, _x: np.ones((4, 4)),))),
        pytest.raises(AssertionError, match=r"doubled.*\(4, 4\).*\(3,\)"),
    ):
        apply(doubled, leaf(3)).sum().backward()


def test_primitives_speak_numpys_protocol():
    x = leaf(3)
    assert array_functions.relu(x).node.fun is array_functions.relu and isinstance(
        array_functions.relu(x.data), np.ndarray
    )
