"""When a leaf is complete: after the last of its uses has had its turn, and not before. Then its hooks run."""

import numpy as np
import pytest
from helpers import row_of
from oracle import near

import minigrad as mg
from minigrad.engine.graph import uses_of_leaves
from minigrad.engine.table import Row
from models.gpt import GPT


def leaf(value=2.0):
    return mg.tensor(value, requires_grad=True)


def hooked(log, **leaves):
    """Let each leaf write its name and its complete gradient into the log."""
    for name, x in leaves.items():
        x.register_hook(lambda g, name=name: log.append((name, g.tolist())))


def test_a_leaf_used_twice_by_one_op_counts_twice_and_its_hook_runs_once():
    x, log = leaf(), []
    hooked(log, x=x)
    y = x * x
    assert uses_of_leaves([y.node]) == {x: 2}
    y.backward()
    assert log == [("x", 4.0)] and x.grad.item() == 4.0


def test_hooks_run_as_leaves_are_completed_while_the_rest_is_still_to_be_computed():
    a, b, c, log = leaf(2.0), leaf(3.0), leaf(5.0), []
    hooked(log, a=a, b=b, c=c)
    first = a * b
    first.register_hook(lambda g: log.append(("first", g.item())))
    (first * c + b).backward()  # b is used by the newest op and by the oldest
    assert log == [("c", 6.0), ("first", 5.0), ("a", 15.0), ("b", 11.0)]


def test_a_use_that_no_gradient_reaches_is_taken_off_all_the_same():
    x, y, log = leaf(), leaf(3.0), []
    hooked(log, x=x)
    blocked = Row(np.tanh, (lambda g, _y, _x: None,))
    with row_of(np.tanh, blocked):
        (mg.tanh(x * y) + x).backward()  # x * y never gets a gradient
    assert log == [("x", 1.0)] and y.grad is None


def test_a_use_that_leads_to_nothing_wanted_does_not_count():
    x, y, log = leaf(), leaf(3.0), []
    hooked(log, x=x, y=y)
    middle = x * y
    z = middle * middle + x * y
    (gx,) = mg.grad(z, x, retain_graph=True)
    assert log == [("x", gx.item())] and gx.item() == 39.0
    assert mg.grad(z, middle)[0].item() == 12.0 and len(log) == 1  # neither leaf leads on


def test_outputs_that_are_leaves_are_complete_too():
    x, log = leaf(), []
    x.register_hook(lambda g: g * 10)
    hooked(log, x=x)
    x.backward()
    assert mg.grad([x * x, x], [x])[0].item() == 50.0
    assert log == [("x", 10.0), ("x", 50.0)]


@pytest.mark.parametrize("order", (1, 2))
def test_the_hook_of_a_leaf_sees_the_whole_gradient_of_its_order(order):
    x, log = leaf(), []
    x.register_hook(lambda g: log.append(g.item()))
    (g,) = mg.grad(x**3 + x, x, create_graph=True)
    if order == 2:
        mg.grad(g, x)
    assert log == [13.0, 12.0][:order]


def test_no_grad_has_changed_if_backward_fails_midway():
    x, y, log = leaf(), leaf(3.0), []
    x.grad = mg.tensor(7.0)
    hooked(log, y=y)

    def fails(g, _y, _x):
        raise ValueError("a rule that fails")

    with row_of(np.tanh, Row(np.tanh, (fails,))), pytest.raises(ValueError, match="a rule that fails"):
        (mg.tanh(x) * y).backward()
    assert x.grad.item() == 7.0 and y.grad is None and len(log) == 1


@pytest.mark.parametrize("checkpoint", [False, True])
def test_the_parameters_of_a_model_are_completed_once_each_the_last_layers_first(checkpoint):
    model = GPT(11, d_model=8, num_heads=2, num_layers=2, max_len=5, dropout=0.0, checkpointed=checkpoint)
    tokens, given = np.arange(10).reshape(2, 5), []
    model(tokens).sum().backward()
    handles = [
        p.register_hook(lambda g, name=name: given.append((name, g.data.copy())))
        for name, p in model.named_parameters()
    ]
    mg.grad((model(tokens) * 1.0).sum(), list(model.parameters()))
    for handle in handles:
        handle.remove()
    parameters, names = dict(model.named_parameters()), [name for name, _ in given]
    assert sorted(names) == sorted(parameters)
    for (
        name,
        g,
    ) in given:  # near: * 1.0 changes the gradient's layout, and with it the order in which BLAS sums
        near(g, parameters[name].grad.data, 1e-6)
    assert names.index(next(n for n in names if ".1." in n)) < names.index(
        next(n for n in names if ".0." in n)
    )
