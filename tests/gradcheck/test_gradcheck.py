"""The checker itself: what it refuses, restores and names, and that wrong rules do not pass it."""

import numpy as np
import pytest
from oracle import leaf, refuses, same

import minigrad as mg
from minigrad import functional as F
from minigrad import nn
from minigrad import random as streams
from minigrad.engine import table
from minigrad.gradcheck import (
    FLOOR,
    TOLERANCE,
    GradcheckError,
    Sample,
    check,
    gradcheck,
    gradgradcheck,
    relative_error,
)
from minigrad.gradcheck import __main__ as door
from minigrad.nn import Parameter


def spoil(monkeypatch, fun, wrong, position=0):
    """Replace a function's rule for one argument by `wrong(right gradient)`."""
    row = table.RULES[fun]
    right = row.rules[position]
    rules = list(row.rules)
    rules[position] = lambda g, y, *args, **kwargs: wrong(right(g, y, *args, **kwargs))
    monkeypatch.setitem(table.RULES, fun, table.Row(fun, tuple(rules)))


# ---------------------------------------------------------------- what it refuses


@pytest.mark.parametrize("fun, inputs", [
    (lambda x: x * x, [leaf(3, dtype=np.float32)]),
    (nn.Linear(3, 2), [leaf(2, 3)]),
    (nn.Linear(3, 2).double(), [leaf(2, 3, dtype=np.float32)]),
])  # fmt: skip
def test_float32_is_refused_with_the_reason_and_the_way_out(fun, inputs):
    with refuses(GradcheckError, "float32", "float64", "rounding", ".double()"):
        gradcheck(fun, inputs)


def test_a_function_that_loses_precision_inside_is_refused():
    with refuses(GradcheckError, "float64 inputs to float32"):
        gradcheck(lambda x: x.float(), [leaf(3)])


def test_nothing_to_check_is_an_error():
    with refuses(GradcheckError, "nothing to check", "requires_grad=True"):
        gradcheck(lambda x: x * x, [mg.tensor([1.0, 2.0], dtype=np.float64)])


@pytest.mark.parametrize("fun", [
    lambda x: x * 0, lambda x: mg.relu(-(x * x) - 1), lambda x: (x * 0).sum() + 3, lambda x: x.detach() * 2,
], ids=["times zero", "relu of negatives", "constant", "detached constant"])  # fmt: skip
def test_a_check_in_which_every_gradient_is_zero_is_vacuous(fun):
    x = leaf(3) if fun(leaf(3)).requires_grad else None
    with refuses(GradcheckError, *(["vacuous", "zero"] if x is not None else ["wrong"])):
        gradcheck(fun, [leaf(3)])


def test_one_gradient_that_is_zero_among_others_is_not_vacuous_and_is_noted():
    assert gradcheck(lambda x, y: x * x + 0 * y, [leaf(3), leaf(3, seed=1)])
    assert [r.note for r in check(lambda x, y: x * x + 0 * y, [leaf(3), leaf(3, seed=1)])] == [
        "",
        "zero gradient",
    ]


# ---------------------------------------------------------------- what it leaves as it was


@pytest.mark.parametrize("fast", (False, True))
@pytest.mark.parametrize("order", (1, 2))
def test_inputs_parameters_grads_and_random_state_are_as_before(order, fast):
    layer, x = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5), nn.Tanh()).double(), leaf(2, 3)
    x.grad = mg.ones(2, 3, dtype=np.float64)
    everything = [x, *layer.parameters()]
    before = [t.data.copy() for t in everything]
    expected = (streams.get_state(), streams.stream("dropout").random())[1]
    streams.set_state(state := streams.get_state())
    assert gradcheck(layer, [x], order=order, fast=fast)
    for t, kept in zip(everything, before, strict=True):
        same(t, kept)
    assert (x.grad.data == 1).all() and all(p.grad is None for p in layer.parameters())
    assert repr(streams.get_state()) == repr(state) and expected != streams.stream("dropout").random()


def test_inputs_are_restored_when_the_function_fails_in_the_middle():
    x, calls = leaf(3), []

    def fails_later(x):
        calls.append(1)
        if len(calls) == 4:
            raise ZeroDivisionError
        return x * x

    kept = x.data.copy()
    for fast in (False, True):
        calls.clear()
        with pytest.raises(ZeroDivisionError):
            gradcheck(lambda x, y: fails_later(x) + y, [x, leaf(3)], fast=fast)
        same(x, kept)


def test_it_works_inside_no_grad():
    with mg.no_grad():
        assert gradcheck(lambda x: x**3, [leaf(3)])


# ---------------------------------------------------------------- how it looks


def test_dropout_keeps_its_mask_throughout_and_two_droppings_differ():
    assert gradcheck(lambda x: F.dropout(x, 0.5) * x, [leaf(4, 5)])
    assert gradgradcheck(lambda x: F.dropout(F.dropout(x, 0.3) ** 2, 0.5) * x, [leaf(4, 5)])


def test_the_incoming_gradient_is_random_so_that_a_sum_that_is_constant_hides_nothing(monkeypatch):
    seen = []
    right = F.softmax.kernel.backward
    monkeypatch.setattr(
        F.softmax.kernel, "backward", lambda g, *args: seen.append(np.array(g)) or right(g, *args)
    )
    assert gradcheck(F.softmax, [leaf(2, 3)])
    assert all(len(np.unique(g)) == 6 for g in seen) and seen


def test_module_parameters_are_checked_each_tied_one_once():
    layer = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3)).double()
    layer[1].weight = layer[0].weight
    assert [r.name for r in check(layer, [leaf(2, 3)])] == ["input 0", "0.weight", "0.bias", "1.bias"]
    layer[1].bias.requires_grad_(False)
    assert [r.name for r in check(layer, [leaf(2, 3)])] == ["input 0", "0.weight", "0.bias"]


def test_second_order_checks_the_incoming_gradient_too():
    assert [r.name for r in check(lambda x: (x * x, x**3), [leaf(3)], order=2)] == [
        "input 0",
        "incoming gradient 0",
        "incoming gradient 1",
    ]


def test_functions_of_several_outputs_and_integer_outputs_are_checked():
    assert gradcheck(lambda x: (x * 2, x.argmax(), x.exp()), [leaf(3)])


def test_inputs_without_a_gradient_are_passed_on():
    assert [r.name for r in check(lambda x, n, y: x * n + y, [leaf(3), 4, leaf(3)])] == ["input 0", "input 2"]


@pytest.mark.parametrize("fun, at, kinks", [
    (mg.relu, [0.0, 1.0, -1.0], 1), (mg.abs, [0.0, 0.0, -1.0], 2), (lambda x: mg.maximum(x, 1.0), [1.0, 2.0, 0.0], 1),
    (lambda x: x.amax(), [1.0, 1.0, 0.0], 2), (lambda x: x * x, [0.0, 1.0, 2.0], 0), (lambda x: 100 * x**3, [0.1, 1.0, 2.0], 0),
])  # fmt: skip
def test_kinks_are_skipped_and_counted(fun, at, kinks):
    x = mg.tensor(at, dtype=np.float64, requires_grad=True)
    (result,) = check(fun, [x])
    assert result.kinks == kinks and result.error < TOLERANCE
    assert result.note.startswith(f"{kinks} kinks skipped" if kinks else "") and ("kinks" in result.note) == (
        kinks > 0
    )


def test_error_is_relative_to_the_largest_gradient_with_a_floor():
    assert relative_error([1.0, 200.0], [1.0, 198.0]) == 2 / 200
    assert relative_error([0.0], [1e-6]) == 1e-6 / FLOOR
    assert relative_error(np.zeros((0, 3)), np.zeros((0, 3))) == 0.0
    assert relative_error([np.nan], [1.0]) == float("inf")


# ---------------------------------------------------------------- what it names


def test_the_worst_entry_is_named_with_both_values():
    def wrong_in_one_place(x, y):
        bump = np.zeros((2, 3))
        bump[1, 2] = 3.0
        return x * x + (y - y.detach()) * bump + y * 2  # y counts 5 instead of 2 at (1, 2)

    x, y = leaf(2, 3), leaf(2, 3, seed=1)
    seed = np.random.default_rng(0).standard_normal((2, 3))
    with pytest.raises(GradcheckError) as caught:
        gradcheck(wrong_in_one_place, [x, y])
    sentence = str(caught.value)
    assert (
        f"input 1: backward gives {5 * seed[1, 2]:.8g} at index (1, 2), finite differences {2 * seed[1, 2]:.5g}"[
            :60
        ]
        in sentence
    )
    assert "1 of 2 tensors are wrong" in sentence
    (_, result) = check(wrong_in_one_place, [x, y])
    assert (result.name, result.index) == ("input 1", (1, 2))
    assert abs(result.analytic - 5 * seed[1, 2]) < 1e-12 and abs(result.numeric - 2 * seed[1, 2]) < 1e-8


def test_a_wrong_parameter_is_named_by_its_path(monkeypatch):
    right = F.linear.kernel.backward

    def forgets_bias(*args):
        dx, dw, db = right(*args)
        return dx, dw, None if db is None else db * 0

    monkeypatch.setattr(F.linear.kernel, "backward", forgets_bias)
    with pytest.raises(GradcheckError, match="wrong for 1.bias: backward gives 0 at index"):
        gradcheck(nn.Sequential(nn.Tanh(), nn.Linear(3, 2)).double(), [leaf(2, 3)])


@pytest.mark.parametrize("bad", (np.nan, np.inf))
@pytest.mark.parametrize("where", ("somewhere", "everywhere"))
def test_a_nan_or_inf_gradient_is_wrong_and_never_passes(monkeypatch, bad, where):
    spoil(
        monkeypatch,
        np.exp,
        lambda dx: dx * bad if where == "everywhere" else np.where(np.arange(3) == 1, bad, dx),
    )
    with pytest.raises(GradcheckError, match="wrong for input 0"):
        gradcheck(mg.exp, [leaf(3)])


# ---------------------------------------------------------------- wrong rules


WRONG = {
    "scaled by 1.001": lambda d: d * 1.001,
    "sign": lambda d: -d,
    "zero": lambda d: d * 0,
    "reversed": lambda d: d[..., ::-1],
    "added": lambda d: d + 1e-4,
}


@pytest.mark.parametrize("how", WRONG)
@pytest.mark.parametrize("fun, call, shapes, position", [
    (np.exp, mg.exp, [(3, 4)], 0), (np.multiply, mg.Tensor.__mul__, [(3, 4), (4,)], 1), (np.tanh, mg.tanh, [(3, 4)], 0),
    (np.matmul, mg.matmul, [(3, 4), (4, 2)], 0), (np.matmul, mg.matmul, [(3, 4), (4, 2)], 1),
    (np.sum, lambda x: (x * x).sum(0), [(3, 4)], 0),
])  # fmt: skip
def test_wrong_rules_are_caught(monkeypatch, how, fun, call, shapes, position):
    inputs = [leaf(*shape, seed=i) for i, shape in enumerate(shapes)]
    assert gradcheck(call, inputs)
    spoil(
        monkeypatch, fun, (lambda d: d * 0.5) if fun is np.sum and how == "reversed" else WRONG[how], position
    )
    with pytest.raises(GradcheckError):
        gradcheck(call, inputs)


@pytest.mark.parametrize("how", ("scaled by 1.001", "sign", "zero"))
def test_fast_mode_catches_wrong_rules_in_a_whole_model(monkeypatch, how):
    layer, x = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.LayerNorm(4)).double(), leaf(2, 3)
    assert gradcheck(layer, [x], fast=True)
    spoil(monkeypatch, np.tanh, WRONG[how])
    with pytest.raises(GradcheckError, match="wrong for"):
        gradcheck(layer, [x], fast=True)


def test_fast_mode_asks_for_few_evaluations_however_many_entries():
    calls = []
    assert gradcheck(lambda x: calls.append(1) or (x**3).sum(), [leaf(30, 40)], fast=True)
    assert len(calls) < 8


def test_a_value_kept_on_the_side_passes_first_order_and_is_caught_at_second(monkeypatch):
    row = table.Row(
        np.tanh,
        (lambda g, y, _x: g * (1 - (y * y).detach()) if isinstance(y, mg.Tensor) else g * (1 - y * y),),
    )
    monkeypatch.setitem(table.RULES, np.tanh, row)
    assert gradcheck(mg.tanh, [leaf(3)])
    with pytest.raises(GradcheckError):
        gradgradcheck(mg.tanh, [leaf(3)])


def test_a_gradient_detached_inside_a_module_is_caught():
    class Broken(nn.Module):
        def __init__(self):
            self.w = Parameter(leaf(3).data)

        def forward(self, x):
            return x * self.w + x * self.w.detach()

    with pytest.raises(GradcheckError, match="wrong for w: .*1 of 2 tensors"):
        gradcheck(Broken(), [leaf(3)])


# ---------------------------------------------------------------- the door


def test_the_door_prints_a_table_and_ends_with_zero(capsys):
    assert door.main(["softmax"]) == 0
    out = capsys.readouterr().out
    assert "1st order" in out and "log_softmax" in out and "0 wrong" in out and "gelu" not in out


def test_the_door_ends_with_one_and_names_what_is_wrong_when_a_rule_is_spoiled(monkeypatch, capsys):
    right = F.softmax.kernel.backward
    monkeypatch.setattr(F.softmax.kernel, "backward", lambda *args: [right(*args)[0] * 1.001, None])
    assert door.main(["softmax", "tanh"]) == 1
    out = capsys.readouterr().out
    assert "wrong: input 0: backward gives" in out
    wrong = [line for line in out.splitlines() if "wrong:" in line]
    assert wrong and all(
        line.startswith(("kernel", "layer")) and "softmax" in line.lower() and "log_softmax" not in line
        for line in wrong
    )


def test_the_door_refuses_a_word_that_matches_nothing(capsys):
    with pytest.raises(SystemExit) as ended:
        door.main(["softmux"])
    assert ended.value.code == 2 and "softmux" in capsys.readouterr().err


def test_the_door_knows_groups_and_every_sample_has_one_of_them(capsys):
    assert {s.group for s in door.all_samples()} == set(door.GROUPS)
    assert door.main(["residual feed-forward", "--group", "block"]) == 0
    assert "2 checked" in capsys.readouterr().out


@pytest.mark.parametrize(
    "sample", [s for s in door.all_samples() if s.group in ("layer", "block")], ids=lambda s: s.name
)
def test_every_sample_of_layers_and_blocks_is_right_at_both_orders(sample: Sample):
    fun, inputs = sample.make(np.random.default_rng(0))
    for order in (1, 2):
        assert gradcheck(
            fun, inputs, order=order, fast=sample.group == "block"
        )  # entry by entry in test_attention, test_residual
