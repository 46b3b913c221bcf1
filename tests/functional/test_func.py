"""Transforms: each against a formula or PyTorch's torch.func, alone and inside each other."""

import collections

import numpy as np
import pytest
from oracle import leaf, near, same

import minigrad as mg
import minigrad.nn.functional as F
from minigrad import func, nn

X = mg.tensor([1.0, 2.0, 3.0], dtype=mg.float64)


def cubes(x):
    return (x**3).sum()


# ---------------------------------------------------------------- against formulas


def test_grad_and_its_grad():
    near(func.grad(cubes)(X), 3 * X.data**2, 1e-12)
    near(func.grad(lambda x: func.grad(cubes)(x).sum())(X), 6 * X.data, 1e-12)


def test_grad_of_several_arguments_and_of_trees():
    a, b = func.grad(lambda x, y: (x * y).sum(), argnums=(0, 1))(X, 2 * X)
    near(a, 2 * X.data, 1e-12)
    near(b, X.data, 1e-12)
    found = func.grad(lambda p: (p["a"] * p["b"][0]).sum())({"a": X, "b": [2 * X]})
    near(found["a"], 2 * X.data, 1e-12)
    near(found["b"][0], X.data, 1e-12)
    point = collections.namedtuple("point", "x y")
    assert type(func.grad(lambda p: (p.x * p.y).sum())(point(X, X))) is point


def test_value_and_aux_come_along_without_history():
    g, value = func.grad_and_value(cubes)(X)
    assert value.item() == 36 and not value.requires_grad and not g.requires_grad
    g, aux = func.grad(lambda x: (cubes(x), {"double": x * 2}), has_aux=True)(X)
    same(aux["double"], 2 * X.data)
    assert not aux["double"].requires_grad


def test_vjp_may_be_pulled_more_than_once():
    value, pull = func.vjp(lambda a, b: (a * b, a + b), X, X)
    near(value[0], X.data**2, 1e-12)
    for _ in range(2):
        da, db = pull(X, mg.ones(3, dtype=mg.float64))
        near(da, X.data**2 + 1, 1e-12)
        near(db, X.data**2 + 1, 1e-12)


def test_jvp_is_the_derivative_along_a_direction():
    value, moved = func.jvp(lambda x: x**2 * x.sum(), (X,), (mg.tensor([1.0, 0, 0], dtype=mg.float64),))
    near(value, X.data**2 * 6, 1e-12)
    near(moved, [2 * 6 + 1, 4, 9], 1e-12)
    near(func.jvp(lambda x: mg.ones(2) * 3, (X,), (X,))[1], np.zeros(2, np.float32))


def test_jacobian_hessian_and_hessian_times_vector():
    near(func.jacrev(lambda x: x**2)(X), np.diag(2 * X.data), 1e-12)
    near(func.hessian(cubes)(X), np.diag(6 * X.data), 1e-12)
    near(func.hvp(cubes, (X,), (X,))[1][0], 6 * X.data**2, 1e-12)
    assert func.jacrev(func.jacrev(func.jacrev(lambda x: x**3)))(X).shape == (3, 3, 3, 3)


def test_levels_do_not_mix():
    """d/dx (x d/dy (x y)) = 2x: the classic confusion gives something else."""
    x = mg.tensor(3.0)
    assert func.grad(lambda x: x * func.grad(lambda y: x * y)(mg.tensor(1.0)))(x).item() == 6
    assert func.grad(lambda x: x * func.grad(lambda y: x + y)(mg.tensor(1.0)))(x).item() == 1


def test_what_is_captured_keeps_its_history():
    w = mg.tensor(2.0, requires_grad=True)
    g = func.grad(lambda x: w * (x * x).sum())(X.float())
    g.sum().backward()
    assert w.grad.item() == 12
    with mg.no_grad():
        assert func.grad(lambda x: (x * x).sum())(X).requires_grad is False


def test_the_arguments_are_left_alone():
    x = leaf(3)
    func.grad(cubes)(x)
    assert x.grad is None and x.requires_grad


def test_functional_call_uses_other_parameters_and_puts_its_own_back():
    model = nn.Sequential(nn.Linear(3, 2), nn.Tanh(), nn.Linear(2, 1)).double()
    parameters = {name: p.detach() for name, p in model.named_parameters()}
    found = func.grad(lambda p: func.functional_call(model, p, X[None]).sum())(parameters)
    model(X[None]).sum().backward()
    for name, p in model.named_parameters():
        near(found[name], p.grad, 1e-12)
    with pytest.raises(KeyError, match="no parameter or buffer 'nothing'"):
        func.functional_call(model, {"nothing": X}, X)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: func.grad(lambda x: x * 2)(X), "is a scalar, got a tensor of shape \\(3,\\)"),
        (lambda: func.grad(cubes, argnums=1)(X), "argnums 1 is not one of the function's 1"),
        (lambda: func.jvp(cubes, (X,), ()), "one tangent for each primal"),
    ],
)
def test_mistakes_are_sentences(call, words):
    with pytest.raises(ValueError, match=words):
        call()


# ---------------------------------------------------------------- beside PyTorch

PROGRAMS = {
    "softmax": lambda f, x: (f.softmax(x, -1) * x).sum(),
    "gelu of a product": lambda f, x: f.gelu(x @ x.mT).sum(),
    "layer norm": lambda f, x: (f.layer_norm(x, (3,)) ** 3).sum(),
    "attention": lambda f, x: (f.scaled_dot_product_attention(x, x, x) ** 2).sum(),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_transforms_equal_torch_func(name):
    torch = pytest.importorskip("torch", reason="compares with torch.func")
    rng, program = np.random.default_rng(0), PROGRAMS[name]
    x, v = rng.standard_normal((2, 3)), rng.standard_normal((2, 3))
    ours, theirs = (lambda x: program(F, x)), (lambda x: program(torch.nn.functional, x))
    mx, mv, tx, tv = mg.tensor(x), mg.tensor(v), torch.tensor(x), torch.tensor(v)
    near(func.grad(ours)(mx), torch.func.grad(theirs)(tx).numpy(), 1e-10)
    near(func.hessian(ours)(mx), torch.func.jacrev(torch.func.grad(theirs))(tx).numpy(), 1e-9)
    near(
        func.hvp(ours, (mx,), (mv,))[1][0],
        torch.func.vjp(torch.func.grad(theirs), tx)[1](tv)[0].numpy(),
        1e-9,
    )
    near(
        func.jvp(func.grad(ours), (mx,), (mv,))[1],
        torch.func.vjp(torch.func.grad(theirs), tx)[1](tv)[0].numpy(),
        1e-9,
    )
    near(
        func.grad(lambda x: func.jvp(ours, (x,), (mv,))[1])(mx),
        torch.func.vjp(torch.func.grad(theirs), tx)[1](tv)[0].numpy(),
        1e-9,
    )
