"""Exercises of lesson 01: derivatives, and a scalar engine of your own.

Write each function where it says so. `python -m tutorials check 01` tests this file and explains.
Python and its `math` are all you need.
"""

import itertools
import math


def numerical_derivative(f, x, h=1e-6):
    """The slope of f at x, measured by nudging x to both sides by h.

    f: a function of one number; x, h: numbers
    ->  a number: f(x + h) - f(x - h), divided by the distance between the two points
    """
    # solution
    return (f(x + h) - f(x - h)) / (2 * h)
    # end


def by_hand(a, b, c):
    """The gradients of L = a * b + c * tanh(a), worked out with pencil and paper.

    a, b, c: numbers  ->  the tuple (dL/da, dL/db, dL/dc). `math.tanh` computes tanh.
    """
    # solution
    t = math.tanh(a)
    return b + c * (1 - t * t), a, t
    # end


births = itertools.count()


def as_value(x):
    """Return x itself if it is a Value, else a new Value of that number. (Given.)"""
    return x if isinstance(x, Value) else Value(x)


class Value:
    """A number that remembers where it came from: the second engine of the lesson.

    data     the number
    parents  pairs (parent, slope), one for each operand; a slope is the local derivative. () for a leaf
    grad     where `backward` (below) adds up the gradient; initially 0.0
    born     a count: a Value made later has a larger one

    Each method returns a new Value that holds the result and its pairs, in the order of the operands.
    """

    def __init__(self, data, parents=()):
        self.data, self.grad, self.parents, self.born = data, 0.0, parents, next(births)

    def __add__(self, other):
        """self + other."""
        other = as_value(other)
        # solution
        return Value(self.data + other.data, ((self, 1.0), (other, 1.0)))
        # end

    def __mul__(self, other):
        """self * other."""
        other = as_value(other)
        # solution
        return Value(self.data * other.data, ((self, other.data), (other, self.data)))
        # end

    def __pow__(self, n):
        """self**n for a plain number n: one parent, self. For n = 0 the slope is 0.0, also at 0."""
        # solution
        return Value(self.data**n, ((self, n * self.data ** (n - 1) if n else 0.0),))
        # end

    def tanh(self):
        """tanh of self: one parent, self."""
        # solution
        y = math.tanh(self.data)
        return Value(y, ((self, 1 - y * y),))
        # end

    __radd__, __rmul__ = __add__, __mul__  # 2 + x and 2 * x, where x is a Value


def newest_first(z):
    """List z and everything it was computed from, each Value once, the youngest first.

    z: a Value  ->  a list of Values. Without recursion, so that a chain of 5,000 works.
    """
    # solution
    nodes, seen = [z], {z}
    for node in nodes:  # grows while it runs
        for parent, _ in node.parents:
            if parent not in seen:
                seen.add(parent)
                nodes.append(parent)
    return sorted(nodes, key=lambda node: node.born, reverse=True)
    # end


def backward(z):
    """Compute the gradient of z with respect to everything it was computed from.

    z: a Value  ->  None. Afterwards `grad` of each Value with parents is dz/d(that Value), whatever it was
    before; z's own is 1.0. For each leaf, dz/d(leaf) is *added* to `grad`: two calls give twice the gradient.
    """
    # solution
    nodes = newest_first(z)
    for node in nodes:
        if node.parents:
            node.grad = 0.0
    z.grad += 1.0
    for node in nodes:
        for parent, slope in node.parents:
            parent.grad += node.grad * slope
    # end


def gradient_step(parameters, loss, lr):
    """Do one step of gradient descent.

    parameters: a list of Values (leaves), whose `grad` may hold anything
    loss: a function without arguments that computes the loss, a Value, from the current parameters
    lr: the step size, a number
    ->  the loss before the step, a plain number. Each parameter's `data` has moved by -lr times its gradient.
    """
    # solution
    z = loss()
    for p in parameters:
        p.grad = 0.0
    backward(z)
    for p in parameters:
        p.data -= lr * p.grad
    return z.data
    # end


def neuron(weights, bias, inputs):
    """tanh of the weighted sum of the inputs plus the bias.

    weights: a list of Values; bias: a Value; inputs: numbers or Values, as many as weights  ->  a Value
    """
    # solution
    total = bias
    for w, x in zip(weights, inputs, strict=True):
        total = total + w * x
    return total.tanh()
    # end
