"""The diagnoses of gradcheck: where each hypothesis holds and where not, pairs, locate, mistakes, mutants."""

import numpy as np
import pytest
from helpers import row_of
from oracle import leaf, refuses

import minigrad as mg
from minigrad import functional as F
from minigrad import nn
from minigrad.engine import graph, table
from minigrad.gradcheck import (
    HYPOTHESES,
    Evidence,
    GradcheckError,
    check,
    check_pair,
    diagnose,
    gradcheck,
    gradcheck_pair,
    gradgradcheck,
    locate,
    mistakes,
)
from minigrad.gradcheck import __main__ as door
from minigrad.gradcheck.mistakes import MISTAKES, numbers, softmax
from minigrad.gradcheck.mutations import run as mutations
from minigrad.gradcheck.mutations import spoiling
from minigrad.gradcheck.mutations.dropping import drop_terms
from minigrad.gradcheck.oracle import compare_values
from minigrad.gradcheck.samples.ops import SAMPLES

X, Y, W = numbers(4, 3), numbers(4, 3) + 0.1, numbers(3, 3)


def of(x):
    return leaf(*x.shape) if x is None else mg.tensor(x.copy(), requires_grad=True)


def named(forward, backward, *inputs):
    """Return the names of the diagnoses of gradcheck_pair, likeliest first, and the whole message."""
    with pytest.raises(GradcheckError) as caught:
        gradcheck_pair(forward, backward, inputs)
    return [d.name for d in caught.value.diagnoses], str(caught.value)


# ---------------------------------------------------------------- a gradient that is right gets no diagnosis


RIGHT = {
    "product": (lambda x, y: x * y, lambda g, x, y: (g * y, g * x), X, Y),
    "matmul": (lambda x, w: x @ w, lambda g, x, w: (g @ w.T, x.T @ g), X, W),
    "tanh": (np.tanh, lambda g, y, x: g * (1 - y * y), X),
    "saved": (lambda x: (np.tanh(x), np.tanh(x)), lambda g, y: g * (1 - y * y), X),
    "saved and inputs": (lambda x, y: (x * y, None), lambda g, saved, x, y: (g * y, g * x), X, Y),
    "softmax": (softmax, lambda g, y, x: y * (g - (g * y).sum(-1, keepdims=True)), X),
    "sum": (lambda x: x.sum(), lambda g, x: np.broadcast_to(g, x.shape), X),
    "bias": (lambda x, b: x + b, lambda g, x, b: (g, g.sum(0)), X, numbers(3)),
    "number": (lambda x, a: x * a, lambda g, x, a: (g * a, (g * x).sum()), X, np.array(0.7)),
    "index": (lambda w, i: w[i], lambda g, w, i: (np.add.at(d := np.zeros_like(w), i, g), d)[1], W, np.array([0, 2, 0])),
    "None for the index": (lambda i, w: w[i], lambda g, i, w: (None,
        (np.add.at(d := np.zeros_like(w), i, g), d)[1]), np.array([1, 1]), W),
    "tensor": (np.exp, lambda g, x: g * np.exp(x), mg.tensor(X)),
    "any number of arguments": (lambda x, y: x - y, lambda g, *args: (g, -g), X, Y),
}  # fmt: skip


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_pair_passes_and_no_hypothesis_fits_it(name):
    forward, backward, *inputs = RIGHT[name]
    assert gradcheck_pair(forward, backward, inputs) and gradcheck((forward, backward), inputs)
    for result in check_pair(forward, backward, inputs):
        assert diagnose(result.evidence) == []


def test_no_hypothesis_fits_a_gradient_that_is_wrong_at_random():
    for shape in ((4, 3), (3, 3), (5,), (2, 3, 4)):
        x = numbers(*shape)
        evidence = Evidence(
            "input 0", numbers(9, *shape)[0], np.cos(x), x, [numbers(8, *shape)[0]], [np.sin(x)], (x,), 0
        )
        assert diagnose(evidence) == []


def test_what_no_hypothesis_fits_is_described_by_its_place():
    names, sentence = named(
        np.sin, lambda g, x: g * np.cos(x) + np.eye(4, 3) * x**5 * (np.arange(4) == 2)[:, None], X
    )
    assert (
        names == ["unknown"]
        and "1 of 12 entries are wrong" in sentence
        and "index 2 of axis 0 and index 2 of axis 1" in sentence
    )


# ---------------------------------------------------------------- each hypothesis


def square(x):
    return x * x / 2


def assigned(g, w, i):
    d = np.zeros_like(w)
    d[i] = g
    return d


CASES = {
    # name of the diagnosis: (forward, backward, inputs, words of the sentence)
    "factor: 2": (square, lambda g, x: 2 * g * x, (X,), ("2 times", "forgotten 1/2")),
    "factor: 1/2": (lambda x: x * x, lambda g, x: g * x, (X,), ("1/2 times", "used twice", "+=")),
    "factor: N": (lambda x: (x * x).mean(), lambda g, x: g * 2 * x, (numbers(7, 5),), ("35 times", "mean", "Divide by 35")),
    "factor: 1/N": (lambda x: (x * x).sum(0), lambda g, x: g * 2 * x / 7, (numbers(7, 5),), ("1/7 times", "once too often")),
    "factor: sqrt(d)": (lambda q, k: q @ k.T / 7**0.5, lambda g, q, k: (g @ k, g.T @ q), (numbers(5, 7), numbers(3, 7)),
        ("root of 7", "1/sqrt(7)")),
    "factor: p": (lambda x, p: x / (1 - p), lambda g, x, p: g, (X, 0.3), ("7/10 times", "1/(1-p)", "p = 0.3")),
    "factor: T": (lambda x, t: np.tanh(x) / t, lambda g, x, t: g * (1 - np.tanh(x) ** 2), (X, 1.7), ("1.7", "divides by 1.7")),
    "factor: other": (np.exp, lambda g, x: 1.001 * g * np.exp(x), (X,), ("1.001 times", "Look for a factor")),
    "factor: and sign": (square, lambda g, x: -2 * g * x, (X,), ("-2 times", "sign is wrong as well")),
    "sign": (np.cos, lambda g, x: g * np.sin(x), (X,), ("wrong sign",)),
    "zero": (np.exp, lambda g, x: 0 * g, (X,), ("0 everywhere", "path is cut")),
    "not finite": (np.exp, lambda g, x: np.where(x == x.max(), np.nan, g * np.exp(x)), (X,),
        ("1 of 12 entries are NaN", "division by 0")),
    "transposed": (np.exp, lambda g, x: (g * np.exp(x)).T, (W,), ("transposed", "not square")),
    "transposed: shape": (np.exp, lambda g, x: (g * np.exp(x)).T, (X,), ("transposed", "(3, 4)", "(4, 3)")),
    "transposed factor": (lambda x, w: x @ w, lambda g, x, w: (g @ w, x.T @ g), (X, W), ("g @ W.T",)),
    "transposed factor: second": (lambda x, w: x @ w, lambda g, x, w: (g @ w.T, x @ g), (W, numbers(3, 3) + 1), ("x.T @ g",)),
    "half of two": (lambda x: np.exp(x + x.T), lambda g, x: g * np.exp(x + x.T), (W,), ("used twice", "dx + dx.T")),
    "half of two: product": (lambda x: x @ x.T, lambda g, x: g @ x, (X,), ("used twice", "(g + g.T) @ x")),
    "missing sum: stretched": (lambda x, b: x * b, lambda g, x, b: (g * b, g * x), (X, numbers(3)), ("broadcasting", ".sum")),
    "missing sum: first": (lambda x, b: x * b, lambda g, x, b: (g * b, (g * x)[0]), (X, numbers(3)),
        ("first of the 4 positions", "axis 0")),
    "missing sum: mean": (lambda x, b: x * b, lambda g, x, b: (g * b, (g * x).mean(0)), (numbers(7, 3), numbers(3)),
        ("1/7 times", "mean where it should take a sum")),
    "missing sum: batch": (lambda x, w: x @ w, lambda g, x, w: (g @ w.T, np.outer(x[-1], g[-1])), (X, W),
        ("last of the 4 positions",)),
    "swapped": (lambda x, y: x * y * y, lambda g, x, y: (2 * g * x * y, g * y * y), (X, Y),
        ("input 1", "other way round", "in the order of the")),
    "swapped: arguments": (lambda x, y: x / y, lambda g, x, y: (g / x, -g * x / y**2), (X, Y), ("wrong order", "exchanged")),
    "swapped: shapes": (lambda x, b: x + b.sum(), lambda g, x, b: (np.full(b.shape, g.sum()), g), (X, numbers(5)),
        ("is the gradient of input 1",)),
    "accumulation": (lambda x: x + np.sin(x), lambda g, x: g * np.cos(x), (X,), ("residual", "add up")),
    "repeated index": (lambda w, i: w[i], assigned, (W, np.array([0, 2, 0])), ("several times", "np.add.at")),
    "target entry": (mistakes.cross_entropy, lambda g, x, t: g * softmax(x) / 4, (X, np.array([1, 0, 2, 2])),
        ("target", "onehot")),
    "identity": (lambda x: np.round(x, 1) + 0 * x**2 + np.tanh(x), lambda g, x: g, (X,), ("passed on unchanged", "chain rule")),
    "mask": (lambda x, m: np.where(m, x**3, 0), lambda g, x, m: 3 * g * x * x, (X, np.tri(4, 3, dtype=bool)),
        ("where the mask is False",)),
    "mask: no mask": (lambda x: np.where(x > 0, x**3, 0), lambda g, x: 3 * g * x * x, (X,),
        ("does not depend", "set the gradient to 0")),
    "cross terms": (softmax, lambda g, x: g * softmax(x) * (1 - softmax(x)), (X,), ("elementwise", "cross terms")),
    "cross terms: log": (lambda x: np.log(softmax(x)), lambda g, x: 2 * g - g, (numbers(4, 5),),
        ("second term", "log_softmax")),
    "mean terms": (mistakes.layer_norm, mistakes.as_if_constant, (numbers(3, 6), numbers(6)), ("Layer norm", "left out")),
    "mean terms: mean": (lambda x: x - x.mean(1, keepdims=True), lambda g, x: g, (numbers(3, 5),), ("one number for all",)),
    "input for output": (np.tanh, lambda g, x: g * (1 - x * x), (X,), ("reads the input where it should read the output",)),
    "input for output: reverse": (np.sin, lambda g, y, x: g * np.cos(y), (X,),
        ("reads the output where it should read the input",)),
    "offset": (np.exp, lambda g, x: g * np.exp(x) + 0.01, (X,), ("same amount", "0.01")),
    "missing term": (lambda x: x**3 + x**2, lambda g, x: g * 3 * x**2, (X,), ("-2·g·x", "It should be added: 2·g·x")),
    "missing term: below": (lambda x: np.log(1 + np.abs(x) ** 2) / 1, lambda g, x: g * 2 * x / (x * x), (X,), ()),
    "missing factor": (lambda x: np.exp(x * x / 2), lambda g, x: g * np.exp(x * x / 2), (X,), ("missing",)),
    "dtype": (np.exp, lambda g, x: (g * np.exp(x)).astype(np.float32), (X,), ("float32",)),
    "dtype: between": (np.exp, lambda g, x: (g * np.exp(x)).astype(np.float32).astype(np.float64), (X,),
        ("float32 in between",)),
    "dtype: forward": (lambda x: np.exp(x).astype(np.float32).astype(np.float64), lambda g, x: g * np.exp(x), (X,),
        ("differences are noise",)),
    "dtype: int": (np.exp, lambda g, x: (g * np.exp(x)).astype(int), (X,), ("int64", "cannot hold one")),
    "nothing": (np.exp, lambda g, x: None, (X,), ("None",)),
    "shape": (np.exp, lambda g, x: (g * np.exp(x)).ravel(), (X,), ("numbers are right, the shape is not", "reshape")),
}  # fmt: skip
ALSO = {"missing sum": {"missing sum", "factor"}, "missing term": {"missing term", "missing factor"},
        "missing factor": {"missing factor", "missing term"}}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_the_likeliest_cause_is_named(case):
    forward, backward, inputs, words = CASES[case]
    names, sentence = named(forward, backward, *inputs)
    wanted = case.split(":")[0]
    assert names[0] in ALSO.get(wanted, {wanted}), sentence
    assert all(word in sentence for word in words), sentence


def test_every_hypothesis_is_tried_here_or_in_locate():
    tried = {case.split(":")[0] for case in CASES} | {"ties"}
    assert {h.name for h in HYPOTHESES} <= tried


def test_a_hypothesis_is_a_small_function_that_anyone_can_add():
    from minigrad.gradcheck import hypothesis

    before = list(HYPOTHESES)
    try:

        @hypothesis("cubed")
        def cubed(e):
            return "it is the cube of what it should be: why?" if e.is_given(e.n**3) else None

        names, sentence = named(np.exp, lambda g, x: (g * np.exp(x)) ** 3, X)
        assert names[0] == "cubed" and "why?" in sentence
    finally:
        HYPOTHESES[:] = before


# ---------------------------------------------------------------- ties and kinks


def test_tied_numbers_must_share_their_gradient():
    def largest(x):
        return x.max()

    x = np.array([1.0, 3.0, 3.0, 0.0])
    for share in (0.5, 1.0):  # half each, and all for both
        backward = lambda g, x, s=share: g * s * (x == x.max())  # noqa: E731
        if share == 0.5:
            assert gradcheck_pair(largest, backward, [x])
        else:
            names, sentence = named(largest, backward, x)
            assert names[0] == "ties" and "a total of 1" in sentence
    (result,) = check_pair(largest, lambda g, x: g * 0.5 * (x == x.max()), [x])
    assert result.kinks == 2 and "2 kinks skipped" in result.note


@pytest.mark.parametrize("slope, right", [(0.0, True), (0.4, True), (1.0, True), (-0.5, False), (3.0, False)])
def test_at_a_kink_everything_between_the_two_sides_is_accepted(slope, right):
    relu, x = (lambda x: np.maximum(x, 0)), np.array([0.0, 1.0, -2.0])
    backward = lambda g, x: g * np.where(x == 0, slope, x > 0)  # noqa: E731
    if right:
        assert gradcheck_pair(relu, backward, [x])
    else:
        names, _ = named(relu, backward, x)
        assert names[0] == "ties"


# ---------------------------------------------------------------- what a pair must be like


@pytest.mark.parametrize("forward, backward, inputs, words", [
    (np.exp, lambda g, x: g, [X.astype(np.float32)], ("input 0 is float32", "astype(np.float64)")),
    (np.exp, lambda g, x: g, [3, np.arange(3)], ("nothing to check", "array of floats")),
    (lambda x: x.astype(np.float32), lambda g, x: g, [X], ("forward converted float64 inputs to float32",)),
    (lambda x: [x], lambda g, x: g, [X], ("forward must return an array", "list")),
    (lambda x, y: x * y, lambda g, x, y: g * y, [X, Y], ("returned one gradient", "2 of the inputs", "d0, d1")),
    (np.exp, lambda g, x: (g, g, g), [X], ("returned 3 gradients", "1 of the inputs")),
    (np.exp, lambda g, x, a, b: g, [X], ("backward takes 4 arguments", "backward(g, y, x0)")),
    (lambda x: x + np.random.default_rng().random(), lambda g, x: g, [X], ("different values for the same inputs", "dropout")),
    (lambda x: np.multiply(x, 2, out=x), lambda g, x: 2 * g, [X], ("writes into its inputs", "copy")),
    (np.exp, lambda g, x: np.multiply(g, np.exp(x), out=g), [X], ("backward writes into g",)),
    (np.exp, lambda g, x: "nonsense", [X], ("gives a str",)),
    (np.exp, lambda g, x: g[:2], [X], ("shape (2, 3)", "shape (4, 3)")),
    (np.floor, lambda g, x: 0 * g, [X], ("vacuous", "does not change")),
    (np.exp, lambda g, x: g @ g, [X], ("backward failed", "ValueError", "(4, 3)")),
    (np.exp, lambda g, x: undefined, [X], ("backward failed", "NameError", "undefined")),  # noqa: F821
], ids=lambda x: x[0] if isinstance(x, tuple) else "")  # fmt: skip
def test_what_does_not_fit_is_an_error_with_the_reason(forward, backward, inputs, words):
    with refuses(GradcheckError, *words):
        gradcheck_pair(forward, backward, inputs)


def test_the_inputs_of_a_pair_are_left_alone():
    x = X.copy()
    gradcheck_pair(np.exp, lambda g, x: g * np.exp(x), [x])
    assert (x == X).all()


# ---------------------------------------------------------------- how it reads


def test_a_report_reads_well_in_a_terminal_and_in_a_notebook():
    report = check_pair(lambda x, y: x * y, lambda g, x, y: (g * y, 2 * g * x), [X, Y])
    text, page = str(report), report._repr_html_()
    assert not report.ok and [r.name for r in report.wrong] == ["input 1"]
    assert (
        text.splitlines()[0].split() == ["input", "shape", "error", "verdict"]
        and "(4, 3)" in text
        and "WRONG" in text
    )
    assert "backward gives" in text.splitlines()[-1]
    assert (
        page.startswith("<table>")
        and page.count("<tr") == 3
        and 'style="color' in page
        and "&lt;" not in page
    )
    assert check(mg.exp, [leaf(3)]).ok and "WRONG" not in str(check(mg.exp, [leaf(3)]))


def test_an_error_carries_the_report_and_the_diagnoses():
    with pytest.raises(GradcheckError) as caught:
        gradcheck_pair(np.exp, lambda g, x: 2 * g * np.exp(x), [X])
    assert caught.value.report.worst.name == "input 0" and caught.value.diagnoses[0].name == "factor"
    assert str(caught.value).splitlines()[1].startswith("  Likely: every entry is 2 times")


# ---------------------------------------------------------------- functions of tensors


def spoil(fun, wrong, position=0):
    """Replace one rule of the table by wrong(gradient, g)."""
    rules = list(table.RULES[fun].rules)
    right = rules[position]
    rules[position] = lambda g, y, *args, **kwargs: wrong(right(g, y, *args, **kwargs), g)
    return row_of(fun, table.Row(fun, tuple(rules)))


def model(x, w):
    hidden = mg.tanh(x @ w)
    return (hidden * hidden).sum()  # this line squares


def test_the_op_is_named_with_its_line_and_the_cause():
    with spoil(np.tanh, lambda d, g: 2 * d), pytest.raises(GradcheckError) as caught:
        gradcheck(model, [of(X), of(W)])
    sentence = str(caught.value)
    assert (
        "Op: tanh, made in" in sentence
        and "hidden = mg.tanh(x @ w)" in sentence
        and "test_diagnosis.py" in sentence
    )
    assert caught.value.diagnoses[0].name == "factor" and "2 times" in sentence


def test_a_detached_path_is_no_ops_fault_and_is_said_to_be_unrecorded():
    with pytest.raises(GradcheckError) as caught:
        gradcheck(lambda x: x * mg.exp(x.detach()), [of(X)])
    assert caught.value.diagnoses[-1].name == "not recorded" and ".detach()" in str(caught.value)
    assert "agree with differences of their own functions" in str(caught.value)


def test_a_function_that_is_not_the_same_twice_is_refused():
    rng = np.random.default_rng(0)
    with refuses(GradcheckError, "different values for the same inputs", "random"):
        gradcheck(lambda x: x * rng.random(), [of(X)])


@pytest.mark.parametrize("how", spoiling.ENGINES)
def test_faults_of_the_engine_are_named(how):
    assert mutations.judge_engine(how).named == "named"


def test_a_rule_that_loses_its_history_is_named_at_the_second_order():
    lost = table.Row(np.tanh, (lambda g, y, _x: g * (1 - mg.as_tensor(y).data ** 2),))
    with row_of(np.tanh, lost):
        assert gradcheck(model, [of(X), of(W)])
        with pytest.raises(GradcheckError) as caught:
            gradgradcheck(model, [of(X), of(W)])
    assert caught.value.diagnoses[0].name == "values constant" and "Op: tanh" in str(caught.value)
    lost = table.Row(np.tanh, (lambda g, y, _x: mg.as_tensor(g).data * (1 - y * y),))
    with row_of(np.tanh, lost), pytest.raises(GradcheckError) as caught:
        gradgradcheck(lambda x: mg.tanh(x) ** 2, [of(X)])
    assert caught.value.diagnoses[0].name == "g constant"


def test_float32_inside_is_wrong_even_where_it_is_close():
    with spoil(np.exp, lambda d, g: d.astype(np.float32)):
        (result,) = check(mg.exp, [of(X)])
        assert result.error < 1e-6 and not result.right() and "float32" in str(result)
        with pytest.raises(GradcheckError, match="float32"):
            gradcheck(mg.exp, [of(X)])
        assert not check(mg.exp, [of(X)], fast=True).ok


def test_a_rule_that_raises_is_part_of_the_report():
    with (
        spoil(np.tanh, lambda d, g: d.reshape(7, 7)),
        pytest.raises(GradcheckError, match="backward failed: ValueError.*\n.*\n.*Op: tanh"),
    ):
        gradcheck(model, [of(X), of(W)])


# ---------------------------------------------------------------- locate


def test_locate_finds_nothing_where_nothing_is_wrong():
    for how in (
        lambda: locate(model, of(X), of(W)),
        lambda: locate(model(of(X), of(W))),
        lambda: locate(model, of(X), of(W), order=2),
    ):
        found = how()
        assert found.ok and found.checked >= 4 and "agree" in str(found)


def test_locate_names_the_first_wrong_op_with_index_values_and_line():
    with spoil(np.multiply, lambda d, g: -d), spoil(np.tanh, lambda d, g: d + 3 * g * (d == d.max())):
        found = locate(model, of(X), of(W))
    assert found.name == "tanh" and not found.ok  # multiply is wrong too, but younger
    d = found.result
    assert (
        d.index == np.unravel_index(np.argmax(np.abs(d.evidence.difference)), X.shape)
        and d.analytic != d.numeric
    )
    assert "hidden = mg.tanh(x @ w)" in found.line and "argument 0" in str(found)


def test_locate_finds_a_wrong_kernel_and_steps_inside_definitions():
    def loss(x):
        return F.softmax(x).exp().sum()

    right = F.softmax.kernel
    wrong = table.KernelRow(right.definition, right.forward, lambda g, y, *rest: (g * y, None))
    with row_of(right.forward, wrong):
        found = locate(loss, of(X))
    assert (
        found.name == "softmax"
        and found.diagnoses[0].name == "cross terms"
        and "return F.softmax(x)" in found.line
    )
    with row_of(right.forward, wrong), mg.definitions():
        assert locate(loss, of(X)).ok  # the readable tier does not use it
    with mg.definitions(), spoil(np.true_divide, lambda d, g: 2 * d):
        found = locate(loss, of(X))
    assert found.name == "divide" and "inside softmax" in found.inside and "activations.py" in found.inside


def test_locate_on_a_ready_loss_knows_the_line_if_it_was_recorded():
    with spoil(np.tanh, lambda d, g: -d):
        found = locate(model(of(X), of(W)))
        assert found.name == "tanh" and "not known" in found.line and found.diagnoses[0].name == "sign"
        with mg.detect_anomaly():
            loss = model(of(X), of(W))
        assert "hidden = mg.tanh(x @ w)" in locate(loss).line


def test_locate_computes_again_what_the_graph_has_let_go():
    x = of(X)
    loss = (x + 1).exp().sum()  # add reads neither argument; sum not even the shape's numbers
    assert any(isinstance(arg, graph.Node) for arg in loss.node.args)
    with spoil(np.sum, lambda d, g: 3 * d):
        found = locate(loss)
    assert found.name == "sum" and found.diagnoses[0].name == "factor"


def test_locate_works_on_float32_graphs_in_float64():
    x = mg.tensor(X.astype(np.float32), requires_grad=True)
    assert locate((mg.tanh(x).double() * mg.exp(x)).float().sum()).ok
    with spoil(np.tanh, lambda d, g: 1.01 * d):
        assert locate(mg.tanh(x).sum()).name == "tanh"


def test_locate_looks_into_checkpoints_and_functions_of_several_values():
    w = of(W)

    def loss(x):
        return (mg.checkpoint(lambda x: mg.tanh(x @ w), x) * 2).sum() + (x.split([1, 2], 1)[1] ** 2).sum()

    assert locate(loss, of(X)).ok
    with spoil(np.tanh, lambda d, g: -d):
        assert locate(loss, of(X)).name == "tanh"


def test_locate_says_what_it_cannot_do():
    loss = model(of(X), of(W))
    loss.backward()
    with refuses(GradcheckError, "released by backward", "retain_graph=True", "the function"):
        locate(loss)
    with refuses(GradcheckError, "no graph to check", "requires a gradient"):
        locate(mg.tensor(X).sum())


def test_locate_leaves_everything_as_it_was():
    x, w = of(X), of(W)
    mg.manual_seed(3)
    locate(lambda x, w: F.dropout(model(x, w) * x, 0.5), x, w)
    drawn = mg.random.stream("dropout").random()
    mg.manual_seed(3)
    assert drawn == mg.random.stream("dropout").random()
    assert (x.data == X).all() and x.grad is None


def test_locate_in_a_whole_module():
    net = nn.Sequential(nn.Linear(3, 5), nn.LayerNorm(5), nn.GELU(), nn.Linear(5, 2)).double()
    right = F.gelu.kernel
    with row_of(
        right.forward,
        table.KernelRow(right.definition, right.forward, lambda *a: (right.backward(*a)[0] * 0.5, None)),
    ):
        found = locate(lambda x: net(x).sum(), of(X))
        with pytest.raises(GradcheckError, match="Op: gelu"):
            gradcheck(net, [of(X)], fast=True)
    assert found.name == "gelu" and "1/2 times" in str(found)


# ---------------------------------------------------------------- mistakes


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda m: m.name)
def test_the_sentence_names_the_mistake(mistake):
    messages = " ".join(mistake.verdict())
    assert all(word in messages for word in mistake.names), messages


def test_a_dozen_mistakes_and_their_diagnoses_are_printed(capsys):
    assert door.main(["--mistakes"]) == 0
    out = capsys.readouterr().out
    assert len(MISTAKES) >= 12 and f"{len(MISTAKES)} mistakes, {len(MISTAKES)} of them named" in out
    for word in (
        "softmax",
        "layer norm",
        "matmul",
        "bias",
        "cross-entropy",
        "embedding",
        "attention",
        "mask",
        "dropout",
        "residual",
        "relu",
        "tanh",
        "ddof=1",
    ):
        assert word in out


def test_mistakes_in_a_forward_pass_the_gradient_check_and_fail_against_a_reference():
    blind = [m for m in MISTAKES if m.reference]
    assert len(blind) >= 2
    for m in blind:
        assert gradcheck_pair(m.forward, m.backward, m.inputs)
        with pytest.raises(GradcheckError, match="value is wrong"):
            compare_values(m.forward, m.reference, m.inputs)


@pytest.mark.parametrize("ours, right, words", [
    (lambda x: x.sum(1), lambda x: x.mean(1), ("3 times", "a sum over 3 elements", "mean should")), (lambda x: x + 2, lambda x: x, ("same 2",)),
    (lambda x: x**3, lambda x: x, ("not by a common factor",)), (lambda x: x.T, lambda x: x, ("shape",)),
])  # fmt: skip
def test_values_are_compared_with_a_reference(ours, right, words):
    assert compare_values(right, right, [X])
    with refuses(GradcheckError, *words):
        compare_values(ours, right, [X])


# ---------------------------------------------------------------- mutants


def test_every_term_of_a_rule_is_dropped_once():
    def of_rule(fun, i=0):
        return [term for term, _ in drop_terms(table.RULES[fun].rules[i])]

    assert (
        of_rule(np.tanh) == ["- y * y", "1"]
        and of_rule(np.multiply) == []
        and of_rule(np.log1p) == ["+ x", "1"]
    )
    kernel = [term for term, _ in drop_terms(F.normalized.kernel.backward)]
    assert kernel == ["moved += g @ mean", "h -= moved"]


def test_nearly_all_mutants_are_caught_and_diagnosed_rightly():
    # a few functions, so that this takes seconds; `python -m minigrad.gradcheck --mutations` runs them all
    funs = [np.multiply, np.true_divide, np.power, np.tanh, np.matmul, np.where, np.amax, np.prod,
            F.softmax.kernel.forward, F.linear.kernel.forward,
            F.normalized.kernel.forward, np.reshape, graph.take_item, np.linalg.solve]  # fmt: skip
    found = mutations.find_functions([*SAMPLES, *mutations.squares()])
    verdicts = [
        mutations.judge(m, tried, nodes)
        for tried, needed, nodes, fun in [(*found[fun], fun) for fun in funs]
        for m in spoiling.mutants(fun, needed)
    ]
    effective = [v for v in verdicts if not v.equivalent]
    assert len(effective) > 100 and all(v.error is not None for v in effective)
    assert sum(bool(v.named) for v in effective) >= 0.95 * len(effective)


def test_the_mutation_run_prints_what_it_counts(monkeypatch, capsys):
    only = {fun: table.RULES[fun] for fun in (np.exp, np.add, np.floor)}
    monkeypatch.setattr(mutations, "rows", lambda: only)
    monkeypatch.setattr(
        mutations,
        "SAMPLES",
        [
            s
            for s in SAMPLES
            if s.name in ("exp", "add", "floor", "embedding, large", "attention, shared q, k, v")
        ],
    )
    monkeypatch.setattr(
        mutations, "ENGINES", {how: spoiling.ENGINES[how] for how in list(spoiling.ENGINES)[:1]}
    )
    assert door.main(["--mutations"]) == 0
    out = capsys.readouterr().out
    assert all(
        word in out
        for word in (
            "scaled by 1.001",
            "term dropped",
            "the engine",
            "right cause named",
            "Mutants that change nothing, and why",
            "Not tested",
            "Time",
        )
    )
    line = next(line for line in out.splitlines() if line.startswith("all"))
    assert "(100 %)" in line
