"""Exercises of lesson 18: gradients of gradients.

Write each function where it says so; `python -m tutorials check 18` tests this file and explains.
Here you use minigrad, above all mg.grad with create_graph=True. (minigrad.func has most of this ready-made:
write it yourself.) Dual needs only math. Functions f take and return tensors; arrays are float64.
"""

import math

import numpy as np

import minigrad as mg


def hvp(f, x, v):
    """The Hessian of f at x times v, without the Hessian.

    f: tensor (n,) -> tensor of a single number, which is not linear in x; x, v: arrays (n,)  ->  array (n,)
    """
    # solution
    x = mg.tensor(x, requires_grad=True)
    (g,) = mg.grad(f(x), x, create_graph=True)
    (h,) = mg.grad((g * v).sum(), x)
    return h.data
    # end


def hessian(f, x):
    """All second derivatives of f at x, H[i, j] = d(df/dx_i)/dx_j.

    f: tensor (n,) -> tensor of a single number; x: array (n,)  ->  array (n, n)
    Where f is linear in x, its gradient is a constant (its requires_grad is False) and the Hessian is zero.
    """
    # solution
    x = mg.tensor(x, requires_grad=True)
    (g,) = mg.grad(f(x), x, create_graph=True)
    if not g.requires_grad:
        return np.zeros((len(g), len(g)))
    return np.stack([mg.grad(gi, x, retain_graph=True)[0].data for gi in g])
    # end


def newton_step(f, x):
    """Return x - H^{-1} g, with the gradient g and the Hessian H of f at x: one step of Newton's method.

    f: tensor (n,) -> tensor of a single number; x: array (n,)  ->  array (n,)
    Leave x unchanged. (Solve, do not invert.)
    """
    # solution
    at = mg.tensor(x, requires_grad=True)
    (g,) = mg.grad(f(at), at)
    return x - np.linalg.solve(hessian(f, x), g.data)
    # end


def largest_curvature(f, x, v, steps):
    """Power iteration: `steps` times v <- H v / |H v|, then return the curvature v^T H v along the last v.

    f: tensor (n,) -> tensor of a single number; x, v: arrays (n,)  ->  a number
    H is f's Hessian at x; the result converges to its eigenvalue of the largest absolute value, with its
    sign. The given v may have any length; with steps = 0, divide it by its length before v^T H v.
    """
    # solution
    for _ in range(steps):
        v = hvp(f, x, v)
        v = v / np.linalg.norm(v)
    v = v / np.linalg.norm(v)
    return v @ hvp(f, x, v)
    # end


def gradient_penalty(critic, x):
    """The mean over rows i of (|d critic(x)_i / d x_i| - 1)^2, as a tensor with a history.

    critic: tensor (N, d) -> tensor (N,), each row by itself; x: array (N, d)  ->  tensor of a single number
    |.| is the length of a row's gradient: the root of the sum of its squares. The result can be
    differentiated with respect to the critic's weights.
    """
    # solution
    x = mg.tensor(x, requires_grad=True)
    (slopes,) = mg.grad(critic(x).sum(), x, create_graph=True)
    lengths = mg.sqrt((slopes * slopes).sum(-1))
    return ((lengths - 1) ** 2).mean()
    # end


def jvp(f, x, t):
    """Return J t, the change of f's value when x moves along t, with two vjps.

    f: tensor (n,) -> tensor (m,); x, t: arrays (n,)  ->  array (m,)
    J[k, i] = d f_k / d x_i. Two calls of mg.grad, whatever n and m are.
    """
    # solution
    x = mg.tensor(x, requires_grad=True)
    y = f(x)
    g = mg.tensor(np.zeros(y.shape), requires_grad=True)
    (pulled,) = mg.grad(y, x, g, create_graph=True)
    (moved,) = mg.grad((pulled * t).sum(), g)
    return moved.data
    # end


class Dual:
    """Forward mode: a number and its slope, value + slope eps, with eps^2 = 0.

    Every operation returns a new Dual; the other operand may be a plain number, whose slope is 0.
    """

    def __init__(self, value, slope=0.0):
        self.value, self.slope = value, slope

    @staticmethod
    def of(x):
        """Given to you: x if it is a Dual, else x as a Dual of slope 0."""
        return x if isinstance(x, Dual) else Dual(x)

    def __add__(self, other):
        """self + other."""
        other = Dual.of(other)
        # solution
        return Dual(self.value + other.value, self.slope + other.slope)
        # end

    def __mul__(self, other):
        """self * other: the product rule."""
        other = Dual.of(other)
        # solution
        return Dual(self.value * other.value, self.slope * other.value + self.value * other.slope)
        # end

    def __truediv__(self, other):
        """self / other: the quotient rule."""
        other = Dual.of(other)
        # solution
        value = self.value / other.value
        return Dual(value, (self.slope - value * other.slope) / other.value)
        # end

    def exp(self):
        """e to the power of self."""
        # solution
        value = math.exp(self.value)
        return Dual(value, value * self.slope)
        # end

    def sin(self):
        """The sine of self."""
        # solution
        return Dual(math.sin(self.value), math.cos(self.value) * self.slope)
        # end

    def __neg__(self):
        return self * -1.0

    def __sub__(self, other):
        return self + -Dual.of(other)

    def __rsub__(self, other):
        return Dual.of(other) - self

    def __rtruediv__(self, other):
        return Dual.of(other) / self

    __radd__, __rmul__ = __add__, __mul__
