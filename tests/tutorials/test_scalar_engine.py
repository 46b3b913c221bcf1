"""The course's second scalar engine: its gradients beside finite differences and beside micrograd's."""

import pytest

from tutorials.scalar_engine import Value


def mixture(x, y, z):
    """Every operator, a number on either side, and values used several times."""
    a = (x * y + 2.0 * z - 1.5) ** 3 + x / y
    b = (a - x).relu() * 0.25 + (y - 3.0) / 4.0 - 1.0 / z + (2.0 - x)
    return b * b + (-a) ** 2 * 1e-3 + (x - 100.0).relu() + z**-1.0


POINTS = [(1.3, -0.7, 2.0), (-0.4, 1.1, -1.7), (2.5, 0.6, 0.9)]


def gradients(point, make):
    values = [make(number) for number in point]
    out = mixture(*values)
    out.backward()
    return out.data, [value.grad for value in values]


def slope(fun, point, i, eps=1e-6):
    below, above = ([n + (e if j == i else 0.0) for j, n in enumerate(point)] for e in (-eps, eps))
    return (fun(*map(Value, above)).data - fun(*map(Value, below)).data) / (2 * eps)


@pytest.mark.parametrize("point", POINTS)
def test_gradients_are_the_slopes(point):
    _, found = gradients(point, Value)
    assert found == pytest.approx([slope(mixture, point, i) for i in range(3)], rel=1e-6)


@pytest.mark.parametrize("point", POINTS)
def test_gradients_are_those_of_micrograd(point):
    engine = pytest.importorskip(
        "micrograd.engine", reason="micrograd is not installed; finite differences are checked anyway"
    )
    data, found = gradients(point, Value)
    their_data, theirs = gradients(point, engine.Value)
    assert data == pytest.approx(their_data) and found == pytest.approx(theirs)


def test_a_value_with_itself():
    x = Value(3.0)
    ((x * x) + (x + x) - (x - x) + x / x).backward()
    assert x.grad == 8.0


def test_what_was_given_adds_up_and_what_lies_between_starts_anew():
    x = Value(3.0)
    middle = x * 2.0
    out = middle * middle
    out.backward()
    out.backward()
    assert (x.grad, middle.grad, out.grad) == (48.0, 12.0, 1.0)


def test_a_long_chain_needs_no_recursion():
    x = Value(1.0)
    out = x
    for _ in range(100_000):
        out = out + 1.0
    out.backward()
    assert x.grad == 1.0


def test_relu_and_powers_at_zero():
    x = Value(0.0)
    (x.relu() + x**1 + x**0).backward()
    assert x.grad == 1.0


def test_an_exponent_must_be_a_number():
    with pytest.raises(TypeError, match="plain number"):
        Value(2.0) ** Value(3.0)
