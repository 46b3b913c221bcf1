"""Exercises of lesson 02: backward rules for arrays, and a reverse pass over a table of rules.

Write each function where it says so. `python -m tutorials check 02` tests this file and explains.
NumPy is all you need.

In every rule g is the gradient of the function's value, and has its shape. The gradient that a rule returns
for an argument has the argument's shape. No rule writes into g or into an argument.
"""

import itertools

import numpy as np


def unbroadcast(g, shape):
    """The gradient of an array of `shape` that broadcasting had stretched to the shape of g.

    g: float array; shape: a tuple that broadcasts to g's shape
    ->  an array of that shape: g summed over the axes that were added on the left, and over the axes of
    length 1 that were stretched (they keep length 1)
    """
    # solution
    extra = g.ndim - len(shape)
    g = g.sum(axis=tuple(range(extra)))
    ones = tuple(i for i, n in enumerate(shape) if n == 1)
    return g.sum(axis=ones, keepdims=True)
    # end


def add_backward(g, x, y):
    """The gradients of z = x + y, where x and y may broadcast.

    g: of the shape of z; x, y: float arrays
    ->  the tuple (gradient of x, gradient of y), in the shapes of x and y
    """
    # solution
    return unbroadcast(g, x.shape), unbroadcast(g, y.shape)
    # end


def mul_backward(g, x, y):
    """The gradients of z = x * y, elementwise, where x and y may broadcast.

    g: of the shape of z; x, y: float arrays
    ->  the tuple (gradient of x, gradient of y), in the shapes of x and y
    """
    # solution
    return unbroadcast(g * y, x.shape), unbroadcast(g * x, y.shape)
    # end


def sum_backward(g, x, axis=None, keepdims=False):
    """The gradient of y = x.sum(axis=axis, keepdims=keepdims).

    g: array (or number) of the shape of y; x: float array
    axis: None, an integer (a negative one counts from the end), or a tuple of integers
    ->  an array of the shape of x
    """
    # solution
    if axis is not None and not keepdims:
        g = np.expand_dims(g, axis)
    return np.broadcast_to(g, x.shape)
    # end


def mean_backward(g, x, axis=None, keepdims=False):
    """The gradient of y = x.mean(axis=axis, keepdims=keepdims). Arguments as for sum_backward."""
    # solution
    return sum_backward(g, x, axis, keepdims) * (np.size(g) / x.size)
    # end


def max_backward(g, x, axis=None, keepdims=False):
    """The gradient of y = x.max(axis=axis, keepdims=keepdims). Arguments as for sum_backward.

    The gradient is divided equally among entries that are equally largest; all others get 0.
    """
    # solution
    chosen = x == x.max(axis=axis, keepdims=True)
    shares = chosen / chosen.sum(axis=axis, keepdims=True)
    return shares * sum_backward(g, x, axis, keepdims)
    # end


def getitem_backward(g, x, index):
    """The gradient of y = x[index].

    g: of the shape of y; x: float array
    index: anything NumPy accepts in brackets (integers, slices, lists or arrays of integers or booleans,
    tuples of these)
    ->  an array of the shape of x. A position that occurs several times in the index gets the sum of its
    gradients.
    """
    # solution
    out = np.zeros_like(x)
    np.add.at(out, index, g)
    return out
    # end


# ---------------------------------------------------------------- given: a tape

# function -> one rule for each argument
# rule(g, value, *arguments) -> a gradient in the shape of g or of the argument
RULES = {
    np.add: (lambda g, z, x, y: g, lambda g, z, x, y: g),
    np.multiply: (lambda g, z, x, y: g * y, lambda g, z, x, y: g * x),
    np.exp: (lambda g, y, x: g * y,),
    np.sum: (lambda g, y, x: np.broadcast_to(g, x.shape),),
}
births = itertools.count()


class Tensor:
    """An array, `data`, computed by the function `fun` (None for a leaf) from the Tensors `args`."""

    def __init__(self, data, fun=None, args=()):
        self.data, self.grad, self.fun, self.args, self.born = np.asarray(data), None, fun, args, next(births)


def apply(fun, *args):
    """Compute fun(*args) as a Tensor that remembers fun and args."""
    return Tensor(fun(*(arg.data for arg in args)), fun, args)


def newest_first(z):
    """List z and everything it was computed from, each once, the youngest first. (Lesson 01.)"""
    nodes, seen = [z], {z}
    for node in nodes:
        for arg in node.args:
            if arg not in seen:
                seen.add(arg)
                nodes.append(arg)
    return sorted(nodes, key=lambda node: node.born, reverse=True)


# ---------------------------------------------------------------- the reverse pass


def backward(z, g):
    """Run the reverse pass from z, whose gradient is g, by the table RULES.

    z: a Tensor; g: array of its shape  ->  None. Afterwards each leaf's `grad` holds its gradient, an array
    in the leaf's shape, added to what `grad` held before. `grad` of every other Tensor stays None. No array
    that existed before, g included, is written into: several nodes may hold the same one.

    RULES[node.fun] has one rule for each of node.args. A rule is called with the gradient of the node,
    node.data, and the arrays of all its arguments.
    """
    # solution
    pending = {z: g}
    for node in newest_first(z):
        g = pending.pop(node)
        if node.fun is None:
            node.grad = g if node.grad is None else node.grad + g
            continue
        arrays = [arg.data for arg in node.args]
        for rule, arg in zip(RULES[node.fun], node.args, strict=True):
            share = unbroadcast(rule(g, node.data, *arrays), arg.data.shape)
            pending[arg] = pending[arg] + share if arg in pending else share
    # end
