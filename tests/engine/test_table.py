"""The table of rules tests itself: every row has samples, every sample is checked twice over, and every spoiled rule is caught."""

import ast
import functools
import inspect
import math
import sys
from pathlib import Path

import numpy as np
import pytest
from helpers import functions, nodes, row_of
from oracle import gradients, leaf, near, same

import minigrad as mg
from minigrad import functional as F
from minigrad.engine import array_functions, reverse_pass, rules
from minigrad.engine.graph import name_of, take_item
from minigrad.engine.recording import apply
from minigrad.engine.table import CONSTANT, RULES, EachRow, KernelRow, Row
from minigrad.engine.tensor import Tensor
from minigrad.gradcheck import gradcheck
from minigrad.gradcheck.mutations import run as mutations
from minigrad.gradcheck.mutations.equivalent import is_flat, why_equivalent
from minigrad.gradcheck.mutations.run import is_caught, judge_engine
from minigrad.gradcheck.mutations.spoiling import ENGINES, mutants
from minigrad.gradcheck.rule_source import is_elementwise
from minigrad.gradcheck.samples.ops import SAMPLES, draw, sine_and_cosine, squares

ROWS = {fun: row for fun, row in RULES.items() if row is not CONSTANT}
KERNELS = {fun: row for fun, row in ROWS.items() if isinstance(row, KernelRow)}
samples = pytest.mark.parametrize("sample", SAMPLES, ids=[f"{s.group} {s.name}" for s in SAMPLES])
kernel_samples = pytest.mark.parametrize(
    "sample", [s for s in SAMPLES if s.group == "kernel"], ids=lambda s: s.name
)
rows = pytest.mark.parametrize("fun", ROWS, ids=name_of)


def made(sample, dtype=np.float64):
    """A sample's function, its inputs in some dtype, and those inputs that require a gradient. Dropout draws the same each time."""
    fun, inputs = sample.make(np.random.default_rng(0))
    inputs = [
        mg.tensor(x.data.astype(dtype), requires_grad=True) if isinstance(x, Tensor) else x for x in inputs
    ]
    mg.manual_seed(0)
    return fun, inputs, [x for x in inputs if isinstance(x, Tensor)]


def run(sample, dtype=np.float64):
    fun, inputs, leaves = made(sample, dtype)
    return fun(*inputs), leaves


# ---------------------------------------------------------------- every row, every rule, every sample


@functools.cache
def reached():
    """For each function the samples that record it, the arguments that want a gradient there, and the nodes."""
    return mutations.find_functions([*SAMPLES, *squares()])


def test_every_row_of_the_table_is_reached_by_a_sample():
    assert take_item in ROWS and KERNELS
    assert {
        name_of(fun) for fun in set(ROWS) - set().union(*(functions(run(s)[0]) for s in SAMPLES))
    } == set()


@rows
def test_every_rule_of_a_row_is_reached_by_a_sample(fun):
    rules = ROWS[fun].rules if type(ROWS[fun]) is Row else []
    assert {i for i, rule in enumerate(rules) if rule} <= reached()[fun][1]


@samples
@pytest.mark.parametrize("order", (1, 2))
def test_gradcheck(sample, order):
    fun, inputs = sample.make(np.random.default_rng(0))
    assert gradcheck(fun, inputs, order=order, seed=1)


@samples
def test_float32_stays_float32_in_values_gradients_and_rules(sample, monkeypatch):
    fit = reverse_pass.fit
    monkeypatch.setattr(reverse_pass, "fit", lambda g, *rest: note(g) or fit(g, *rest))
    widened = set()

    def note(g):
        widened.update(
            x.dtype for x in (g if type(g) is tuple else [g]) if x is not None and x.dtype != np.float32
        )

    y, leaves = run(sample, np.float32)
    assert y.dtype == np.float32
    assert {x.dtype for n in nodes(y) for x in (n.shape if n.dtype is None else [n])} == {
        np.dtype(np.float32)
    }
    first = mg.grad(y.sum(), leaves, retain_graph=True)
    second = mg.grad(
        sum((g * g).sum() for g in mg.grad((y * y).sum(), leaves, create_graph=True)),
        leaves,
        allow_unused=True,
    )
    assert {g.dtype for g in [*first, *second] if g is not None} == {np.dtype(np.float32)}
    assert not widened


# ---------------------------------------------------------------- values against formulas (differences confirm a wrong gradient of a wrong value)

CASES = {}


def every(formula, *xs):
    """A formula of plain numbers, at every element."""
    return np.array([formula(*map(float, numbers)) for numbers in np.broadcast(*xs)]).reshape(
        np.broadcast(*xs).shape
    )


def places(shape, formula):
    """A formula of the indices, at every place."""
    return np.array([formula(*index) for index in np.ndindex(*shape)]).reshape(shape)


def value(name, fun, formula, *specs):
    CASES[name] = fun, formula, specs


def mean_of(numbers):
    return math.fsum(numbers) / len(numbers)


def variance_of(numbers, correction=1):
    return math.fsum((x - mean_of(numbers)) ** 2 for x in numbers) / (len(numbers) - correction)


def softmax_of(numbers):
    return np.array([math.exp(x) for x in numbers]) / math.fsum(map(math.exp, numbers))


def attention_of(q, k, v):
    return np.array([softmax_of([query @ key / math.sqrt(len(query)) for key in k]) @ v for query in q])


def logistic(x):
    return 1 / (1 + math.exp(-x))


def states_of(step, u, h):
    """All states (T, B, H) from a step of one sequence."""
    states = []
    for u_t in u:
        h = np.array([step(*both) for both in zip(u_t, h, strict=True)])
        states.append(h)
    return np.array(states)


def lstm_of(u, h, c, w):
    """All states and, after them, the last cell."""
    H = h.shape[1]

    def step(u, hc):
        a = [u[j] + w[j] @ hc[:H] for j in range(4 * H)]
        cell = [logistic(a[H + j]) * hc[H + j] + logistic(a[j]) * math.tanh(a[2 * H + j]) for j in range(H)]
        return [logistic(a[3 * H + j]) * math.tanh(cell[j]) for j in range(H)] + cell

    both = states_of(step, u, np.concatenate([h, c], 1))
    return np.concatenate([both[..., :H], both[-1:, :, H:]])


def gru_of(u, h, w, b):
    """The next state of one sequence."""
    H = len(h)
    v = [w[j] @ h + b[j] for j in range(3 * H)]
    r, z = ([logistic(u[k * H + j] + v[k * H + j]) for j in range(H)] for k in range(2))
    n = [math.tanh(u[2 * H + j] + r[j] * v[2 * H + j]) for j in range(H)]
    return [(1 - z[j]) * n[j] + z[j] * h[j] for j in range(H)]


for _name, _formula in {
    "exp": math.exp, "tanh": math.tanh, "sin": math.sin, "cos": math.cos, "square": lambda x: x * x, "neg": lambda x: -x,
    "abs": lambda x: x if x > 0 else -x, "sign": lambda x: (x > 0) - (x < 0), "floor": math.floor, "ceil": math.ceil, "round": round,
    "sigmoid": lambda x: 1 / (1 + math.exp(-x)), "erf": math.erf, "relu": lambda x: x if x > 0 else 0.0, "isnan": math.isnan,
    "isinf": math.isinf, "isfinite": math.isfinite, "exp2": lambda x: math.pow(2, x), "expm1": math.expm1, "arctan": math.atan,
    "sinh": math.sinh, "cosh": math.cosh, "arcsinh": math.asinh, "erfc": math.erfc, "trunc": math.trunc,
}.items():  # fmt: skip
    value(_name, getattr(mg, _name), functools.partial(every, _formula), (3, 4))
for _name in ("log", "log2", "log10", "log1p", "sqrt"):
    value(_name, getattr(mg, _name), functools.partial(every, getattr(math, _name)), ("positive", (3, 4)))
for _name, _formula in {
    "tan": math.tan,
    "arcsin": math.asin,
    "arccos": math.acos,
    "arctanh": math.atanh,
}.items():
    value(_name, getattr(mg, _name), functools.partial(every, _formula), ("inside", (3, 4)))
value(
    "arccosh",
    lambda x: mg.arccosh(1 + x),
    lambda x: every(lambda x: math.acosh(1 + x), x),
    ("positive", (3, 4)),
)
value(
    "softplus",
    lambda x: apply(array_functions.softplus, x),
    lambda x: every(lambda x: math.log1p(math.exp(x)), x),
    (3, 4),
)
value("silu", F.silu, lambda x: every(lambda x: x / (1 + math.exp(-x)), x), (3, 4))
value("gelu", F.gelu, lambda x: every(lambda x: x * (1 + math.erf(x / math.sqrt(2))) / 2, x), (3, 4))
value("gelu, tanh", lambda x: F.gelu(x, "tanh"), lambda x: every(lambda x: x / (1 + math.exp(-2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))), x), (3, 4))  # fmt: skip
value("to", lambda x: mg.to(x, np.float64) * 1 + x.clone(), lambda x: 2 * x, (3, 4))

_both = ("positive", (2, 1, 3)), ("positive", (4, 3))
value("add", lambda x, y: x + y, lambda x, y: every(lambda x, y: x + y, x, y), *_both)
value("subtract", lambda x, y: x - y, lambda x, y: every(lambda x, y: x - y, x, y), *_both)
value("multiply", lambda x, y: x * y, lambda x, y: every(lambda x, y: x * y, x, y), *_both)
value("divide", lambda x, y: x / y, lambda x, y: every(lambda x, y: x / y, x, y), *_both)
value("power", lambda x, y: x**y, lambda x, y: every(math.pow, x, y), *_both)
value(
    "quotient",
    lambda x, y: apply(array_functions.quotient, x, y),
    lambda x, y: every(lambda x, y: x / y, x, y),
    *_both,
)
value("arctan2", mg.arctan2, lambda x, y: every(math.atan2, x, y), (3, 4), (4,))
value("hypot", mg.hypot, lambda x, y: every(math.hypot, x, y), (3, 4), (4,))
value(
    "logaddexp",
    mg.logaddexp,
    lambda x, y: every(lambda x, y: math.log(math.exp(x) + math.exp(y)), x, y),
    (3, 4),
    (4,),
)
value("fmod", mg.fmod, lambda x, y: every(math.fmod, x, y), (3, 4), ("inside", (4,)))
value("remainder", mg.remainder, lambda x, y: every(lambda x, y: x % y, x, y), (3, 4), ("inside", (4,)))
value("maximum", mg.maximum, lambda x, y: every(max, x, y), *_both)
value("minimum", mg.minimum, lambda x, y: every(min, x, y), *_both)
value(
    "where",
    lambda x, y: mg.where(x > y, x, 2 * y),
    lambda x, y: every(lambda x, y: x if x > y else 2 * y, x, y),
    *_both,
)
value(
    "masked_fill",
    lambda x: mg.masked_fill(x, x > 1, -7.0),
    lambda x: every(lambda x: -7.0 if x > 1 else x, x),
    (3, 4),
)

value("sum", mg.sum, lambda x: math.fsum(x.flat), (3, 4))
value(
    "sum over axes",
    lambda x: mg.sum(x, (0, -1)),
    lambda x: places((3,), lambda j: math.fsum(x[:, j].flat)),
    (2, 3, 4),
)
value("mean", lambda x: mg.mean(x, 1), lambda x: places((3,), lambda i: mean_of(x[i])), (3, 3))
value("norm", lambda x: mg.norm(x, 2, 1), lambda x: places((3,), lambda i: math.hypot(*x[i])), (3, 4))
value("prod", lambda x: mg.prod(x, 1), lambda x: places((3,), lambda i: math.prod(x[i])), (3, 4))
value(
    "cumsum",
    lambda x: mg.cumsum(x, 1),
    lambda x: places((3, 4), lambda i, j: math.fsum(x[i, : j + 1])),
    (3, 4),
)
value("var", lambda x: mg.var(x, 1), lambda x: places((3,), lambda i: variance_of(x[i])), (3, 3))
value(
    "std",
    lambda x: mg.std(x, 0, correction=0),
    lambda x: places((3,), lambda j: math.sqrt(variance_of(x[:, j], 0))),
    (3, 3),
)
value("amax", lambda x: mg.amax(x, 1), lambda x: places((3,), lambda i: max(x[i])), (3, 3))
value("amin", lambda x: mg.amin(x, 0), lambda x: places((3,), lambda j: min(x[:, j])), (3, 3))
value(
    "argmax", lambda x: mg.argmax(x, 1), lambda x: places((3,), lambda i: list(x[i]).index(max(x[i]))), (3, 3)
)
value(
    "argmin",
    lambda x: mg.argmin(x, 0),
    lambda x: places((3,), lambda j: list(x[:, j]).index(min(x[:, j]))),
    (3, 3),
)
value("any", lambda x: mg.any(x > 0.5, 1), lambda x: places((3,), lambda i: max(x[i]) > 0.5), (3, 4))
value("all", lambda x: mg.all(x > -0.5, 1), lambda x: places((3,), lambda i: min(x[i]) > -0.5), (3, 4))
value(
    "logsumexp",
    lambda x: F.logsumexp(x, 1),
    lambda x: places((3,), lambda i: math.log(math.fsum(map(math.exp, x[i])))),
    (3, 4),
)

value(
    "reshape",
    lambda x: mg.reshape(x, 4, -1),
    lambda x: places((4, 3), lambda i, j: x.flat[3 * i + j]),
    (3, 4),
)
value("view", lambda x: mg.view(x, (2, 6)), lambda x: places((2, 6), lambda i, j: x.flat[6 * i + j]), (3, 4))
value("flatten", lambda x: mg.flatten(x, 1), lambda x: places((2, 12), lambda i, j: x[i].flat[j]), (2, 3, 4))
value(
    "permute",
    lambda x: mg.permute(x, 2, 0, 1),
    lambda x: places((4, 2, 3), lambda k, i, j: x[i, j, k]),
    (2, 3, 4),
)
value(
    "swapaxes",
    lambda x: mg.swapaxes(x, 0, -1),
    lambda x: places((4, 3, 2), lambda k, j, i: x[i, j, k]),
    (2, 3, 4),
)
value(
    "transpose",
    lambda x: mg.transpose(x, 1, 2),
    lambda x: places((2, 4, 3), lambda i, k, j: x[i, j, k]),
    (2, 3, 4),
)
value(
    "broadcast_to",
    lambda x: mg.broadcast_to(x, 2, 3, 4),
    lambda x: places((2, 3, 4), lambda i, j, k: x[j, 0]),
    (3, 1),
)
value(
    "expand", lambda x: mg.expand(x, 2, -1, 4), lambda x: places((2, 3, 4), lambda i, j, k: x[j, 0]), (3, 1)
)
value("squeeze", lambda x: mg.squeeze(x, 1), lambda x: places((3, 2), lambda i, j: x[i, 0, j]), (3, 1, 2))
value(
    "unsqueeze", lambda x: mg.unsqueeze(x, -1), lambda x: places((3, 2, 1), lambda i, j, _: x[i, j]), (3, 2)
)
value(
    "tril",
    lambda x: mg.tril(x, 1),
    lambda x: places((3, 4), lambda i, j: x[i, j] if j - i <= 1 else 0),
    (3, 4),
)
value(
    "triu",
    lambda x: mg.triu(x, -1),
    lambda x: places((3, 4), lambda i, j: x[i, j] if j - i >= -1 else 0),
    (3, 4),
)
value(
    "getitem",
    lambda x: x[[2, 0, 2], ::-2],
    lambda x: places((3, 2), lambda i, j: x[(2, 0, 2)[i], 3 - 2 * j]),
    (3, 4),
)
value("scatter_add", lambda x: apply(array_functions.scatter_add, x, np.array([1, 0, 1]), (3, 4)), lambda x: np.array([x[1], x[0] + x[2], 0 * x[0]]), (3, 4))  # fmt: skip
value("concatenate", lambda x, y: mg.concatenate([x, y], 1), lambda x, y: places((2, 5), lambda i, j: x[i, j] if j < 3 else y[i, j - 3]), (2, 3), (2, 2))  # fmt: skip
value(
    "cat",
    lambda x, y: mg.cat((x, y)),
    lambda x, y: places((3, 3), lambda i, j: x[i, j] if i < 2 else y[i - 2, j]),
    (2, 3),
    (1, 3),
)
value(
    "split", lambda x: mg.split(x, [1, 3], 1)[1], lambda x: places((2, 3), lambda i, j: x[i, j + 1]), (2, 4)
)
value(
    "stack",
    lambda x, y: mg.stack([x, y], 1),
    lambda x, y: places((2, 2, 3), lambda i, k, j: (x, y)[k][i, j]),
    (2, 3),
    (2, 3),
)
value(
    "take_item",
    lambda x: mg.stack(apply(sine_and_cosine, x)),
    lambda x: np.array([every(math.sin, x), every(math.cos, x)]),
    (3,),
)
value("matmul", mg.matmul, lambda x, y: places((2, 5, 3, 2), lambda b, c, i, j: math.fsum(x[b, 0, i, k] * y[c, k, j] for k in range(4))), (2, 1, 3, 4), (5, 4, 2))  # fmt: skip

_two = "positive", (2, 2)
value("det", mg.det, lambda x: np.array(x[0, 0] * x[1, 1] - x[0, 1] * x[1, 0]), _two)
value(
    "slogdet",
    lambda x: mg.slogdet(x).logabsdet,
    lambda x: np.array(math.log(abs(x[0, 0] * x[1, 1] - x[0, 1] * x[1, 0]))),
    _two,
)
value(
    "inv",
    mg.inv,
    lambda x: np.array([[x[1, 1], -x[0, 1]], [-x[1, 0], x[0, 0]]]) / (x[0, 0] * x[1, 1] - x[0, 1] * x[1, 0]),
    _two,
)
value(
    "solve",
    lambda x: mg.solve(x, np.ones(2)),
    lambda x: np.array([x[1, 1] - x[0, 1], x[0, 0] - x[1, 0]]) / (x[0, 0] * x[1, 1] - x[0, 1] * x[1, 0]),
    _two,
)
value("cholesky", lambda x: mg.cholesky(mg.tril(x) @ mg.tril(x).T), np.tril, _two)

value(
    "softmax",
    lambda x: F.softmax(x, 0),
    lambda x: np.array([softmax_of(x[:, j]) for j in range(4)]).T,
    (3, 4),
)
value("log_softmax", F.log_softmax, lambda x: np.array([np.log(softmax_of(row)) for row in x]), (3, 4))
value("cross_entropy", lambda x: F.cross_entropy(x, np.array([1, 0, -100])), lambda x: -(math.log(softmax_of(x[0])[1]) + math.log(softmax_of(x[1])[0])) / 2, (3, 4))  # fmt: skip
value("layer_norm", lambda x, w, b: F.layer_norm(x, 4, w, b), lambda x, w, b: places((3, 4), lambda i, j: (x[i, j] - mean_of(x[i])) / math.sqrt(variance_of(x[i], 0) + 1e-5) * w[j] + b[j]), (3, 4), (4,), (4,))  # fmt: skip
value("rms_norm", lambda x, w: F.rms_norm(x, 4, w, 0.1), lambda x, w: places((3, 4), lambda i, j: x[i, j] / math.sqrt(mean_of(x[i] ** 2) + 0.1) * w[j]), (3, 4), (4,))  # fmt: skip
value(
    "split_heads",
    lambda x: F.split_heads(x, 2),
    lambda x: places((2, 3, 4, 2), lambda b, h, t, d: x[b, t, 2 * h + d]),
    (2, 4, 6),
)
value(
    "merge_heads",
    F.merge_heads,
    lambda x: places((2, 4, 6), lambda b, t, c: x[b, c // 2, t, c % 2]),
    (2, 3, 4, 2),
)
value(
    "rotate",
    F.rotate,
    lambda x, c, s: places(
        (2, 3, 4),
        lambda h, t, i: x[h, t, i] * c[t, i % 2] + (-1 if i < 2 else 1) * x[h, t, (i + 2) % 4] * s[t, i % 2],
    ),
    (2, 3, 4),
    (3, 2),
    (3, 2),
)
value(
    "linear",
    F.linear,
    lambda x, w, b: places((3, 2), lambda i, o: math.fsum(x[i] * w[o]) + b[o]),
    (3, 4),
    (2, 4),
    (2,),
)
value(
    "embedding", lambda w: F.embedding(np.array([2, 0, 2]), w), lambda w: np.array([w[2], w[0], w[2]]), (3, 4)
)
value("attention", F.scaled_dot_product_attention, attention_of, (3, 4), (5, 4), (5, 2))
value(
    "attention, blocked",
    lambda *xs: F.scaled_dot_product_attention(*xs, path="blocked"),
    attention_of,
    (3, 4),
    (5, 4),
    (5, 2),
)
value(
    "rnn",
    F.rnn_states,
    lambda u, h, w: states_of(lambda u, h: [math.tanh(u[j] + w[j] @ h) for j in range(4)], u, h),
    (3, 2, 4),
    (2, 4),
    (4, 4),
)
value(
    "lstm",
    lambda *xs: mg.cat([F.lstm_states(*xs)[0], F.lstm_states(*xs)[1][None]]),
    lambda u, h, c, w: lstm_of(u, h, c, w),
    (3, 2, 8),
    (2, 2),
    (2, 2),
    (8, 2),
)
value(
    "gru",
    F.gru_states,
    lambda u, h, w, b: states_of(lambda u, h: gru_of(u, h, w, b), u, h),
    (3, 2, 6),
    (2, 2),
    (6, 2),
    (6,),
)
value(
    "checkpoint",
    lambda x: mg.checkpoint(lambda x: mg.exp(x) * x, x),
    lambda x: every(lambda x: math.exp(x) * x, x),
    (3, 4),
)


def called(name):
    fun, formula, specs = CASES[name]
    inputs = [draw(np.random.default_rng(len(name)), spec) for spec in specs]
    return fun(*inputs), formula(*(x.data for x in inputs))


@pytest.mark.parametrize("name", CASES)
def test_value_equals_an_independent_formula(name):
    near(*called(name), tolerance=1e-14)


# every public function stands beside PyTorch's and NumPy's in test_coverage.py
def test_every_row_has_a_formula_or_an_elementwise_rule_which_is_a_formula_of_the_slope():
    computed = set().union(*(functions(called(name)[0]) for name in CASES))
    without = set(ROWS) - computed
    flat = {fun for fun in without if all(is_flat(i, reached()[fun][2]) for i in reached()[fun][1])}
    assert {name_of(fun) for fun in without if fun in flat or not is_elementwise(fun)} == set()


@pytest.mark.parametrize("fun", [f for f, row in RULES.items() if row is CONSTANT], ids=name_of)
def test_functions_without_a_slope_record_nothing(fun):
    x = leaf(3, 4)
    args = [x > 0, x > 1] if "bitwise" in fun.__name__ or fun is np.invert else [x, leaf(3, 4, seed=1)]
    args = args[: getattr(fun, "nin", 1)]
    y = fun(*args)
    assert not y.requires_grad and y.node is None
    same(y, np.asarray(fun(*(a.data for a in args))))


def test_erf_is_good_to_the_last_digits():
    x = np.linspace(-7, 7, 4001)
    near(array_functions.erf(x), every(math.erf, x), tolerance=1e-15)


# ---------------------------------------------------------------- kernels


def test_every_definition_has_a_kernel_and_every_kernel_a_sample():
    assert {definition.kernel for definition in F.DEFINITIONS} == set(KERNELS.values())
    assert set().union(*(functions(run(s)[0]) for s in SAMPLES if s.group == "kernel")) >= set(KERNELS)
    assert not set().union(*(functions(run(s)[0]) for s in SAMPLES if s.group == "definition")) & set(KERNELS)


@pytest.mark.parametrize("definition", F.DEFINITIONS, ids=lambda definition: definition.__name__)
def test_a_definition_names_the_file_of_its_kernel_and_both_are_found_under_like_names(definition):
    kernel, (*_, home) = definition.kernel.forward, definition.__module__.split(".")
    assert definition.kernel_file == kernel.__module__.replace(".", "/") + ".py"
    assert Path(inspect.getsourcefile(kernel)).as_posix().endswith(definition.kernel_file)
    assert Path(definition.kernel_file).stem in (home, kernel.__name__)
    assert hasattr(sys.modules[definition.__module__], kernel.__name__)


def test_a_definition_without_a_kernel_names_no_file():
    twice = mg.definition(lambda x: 2 * x)
    F.DEFINITIONS.remove(twice)
    assert twice.kernel is twice.kernel_file is None
    assert twice(3.0) == 6.0


def in_tier(sample, readable, order):
    """The value (order 0), the gradients, or the gradients of the gradients, as arrays, by the kernel or by its definition."""
    with mg.modes.Mode(mg.modes.readable, readable):
        y, leaves = run(sample)
        if order == 0:
            return [y]
        if order == 1:
            return gradients(y, leaves)
        first = mg.grad((y * y * y).sum(), leaves, create_graph=True)
        return mg.grad(sum((g * g).sum() for g in first), leaves)


@kernel_samples
@pytest.mark.parametrize("order", (0, 1, 2))
def test_kernel_equals_its_definition(sample, order):
    for fast, plain in zip(in_tier(sample, False, order), in_tier(sample, True, order), strict=True):
        near(fast, plain, tolerance=1e-12)


@kernel_samples
def test_kernel_gives_each_gradient_alone_as_well_as_with_the_others(sample):
    together = gradients(*run(sample))
    for i, expected in enumerate(together):
        fun, inputs, leaves = made(sample)
        for x in leaves:
            x.requires_grad_(x is leaves[i])
        near(gradients(fun(*inputs), [leaves[i]])[0], expected, tolerance=1e-13)


@kernel_samples
def test_where_nothing_is_recorded_a_kernels_value_is_the_same(sample):
    recorded = run(sample)[0].data
    with mg.no_grad():
        near(run(sample)[0], recorded, tolerance=1e-14)


# ---------------------------------------------------------------- what rules may touch


class ShapeOnly:
    """All that a rule may see of an argument whose name begins with an underscore."""

    def __init__(self, array):
        self.shape, self.dtype, self.ndim = array.shape, getattr(array, "dtype", None), len(array.shape)


def hide(x, is_read):
    return x if is_read or not hasattr(x, "shape") else ShapeOnly(x)


VJP = {Row: Row.vjp, EachRow: EachRow.vjp}


def hidden_vjp(row, node, g, y, args, needs):
    """The row's vjp, one argument at a time, where each rule gets nothing else than what it says that it reads."""
    out = []
    for i, needed in enumerate(needs):
        only = tuple(j == i for j in range(len(needs)))
        y_read, *read = row.reads(only)
        seen = [hide(arg, is_read) for arg, is_read in zip(args, read, strict=True)]
        found = VJP[type(row)](row, node, g, hide(y, y_read), seen, only) if needed else []
        out.append(found[i] if i < len(found) else None)
    return out


def test_an_argument_whose_name_begins_with_an_underscore_is_not_read(monkeypatch):
    expected = [gradients(*run(s)) for s in SAMPLES]
    for kind in VJP:
        monkeypatch.setattr(kind, "vjp", hidden_vjp)
    for sample, before in zip(SAMPLES, expected, strict=True):
        for g, same_g in zip(gradients(*run(sample)), before, strict=True):
            same(g, same_g)


def test_a_rule_that_reads_in_secret_is_found(monkeypatch):
    for kind in VJP:
        monkeypatch.setattr(kind, "vjp", hidden_vjp)
    with (
        row_of(np.tanh, Row(np.tanh, (lambda g, _y, _x: g * (1 - np.tanh(_x) ** 2),))),
        pytest.raises((TypeError, AttributeError)),
    ):
        mg.tanh(leaf(3)).sum().backward()


@samples
def test_no_rule_writes_into_what_it_is_given(sample, monkeypatch):
    def guarded(vjp):
        def call(row, node, g, y, args, needs):
            for x in (*(g if type(g) is tuple else [g]), *(y if type(y) is tuple else [y]), *args):
                if isinstance(x, np.ndarray):
                    x.flags.writeable = False
            return vjp(row, node, g, y, args, needs)

        return call

    for kind in (Row, EachRow, KernelRow):
        monkeypatch.setattr(kind, "vjp", guarded(kind.vjp))
    y, leaves = run(sample)
    g = [mg.tensor(np.random.default_rng(0).standard_normal(y.shape))]
    once, again = (mg.grad(y, leaves, g, retain_graph=True) for _ in range(2))
    for first, second in zip(once, again, strict=True):
        same(first, second)


DIFFER = {"transpose", "var", "std", "max", "min", "repeat", "split", "size", "sort"}


def test_rules_use_no_name_that_means_one_thing_in_numpy_and_another_in_torch():
    used = [
        node
        for node in ast.walk(ast.parse(inspect.getsource(rules)))
        if isinstance(node, ast.Attribute) and node.attr in DIFFER
    ]
    # NumPy's own function means NumPy's meaning
    assert {ast.unparse(node) for node in used} <= {"np.transpose"}


def test_which_functions_are_elementwise_is_read_from_their_rules():
    others = {name_of(fun) for fun in ROWS if is_elementwise(fun) and not isinstance(fun, np.ufunc)}
    assert others == set("quotient sigmoid erf erfc softplus relu where sine_and_cosine".split())
    assert not is_elementwise(np.matmul) and not is_elementwise(np.argmax)


# ---------------------------------------------------------------- spoiled rules must be caught


@rows
def test_every_spoiled_rule_is_caught(fun):
    tried, needed, nodes = reached()[fun]
    effective = [m for m in mutants(fun, needed) if not why_equivalent(m, nodes)]
    assert [str(m) for m in effective if not is_caught(m, tried)] == []
    assert effective or all(is_flat(i, nodes) for i in needed)


@rows
def test_what_is_said_to_change_nothing_changes_nothing(fun):
    tried, needed, nodes = reached()[fun]
    unchanged = [m for m in mutants(fun, needed) if why_equivalent(m, nodes)]
    assert [str(m) for m in unchanged if is_caught(m, tried[-3:])] == []


@pytest.mark.parametrize("how", ENGINES)
def test_every_spoiled_engine_is_caught(how):
    assert judge_engine(how).error is not None
