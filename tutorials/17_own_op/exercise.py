"""Exercises of lesson 17: write your own op.

Write each function where it says so; `python -m tutorials check 17` tests this file and explains.
Here you use minigrad. Each function returns rules, as you would pass them to mg.defvjp or mg.defkernel. The
checks register them only for the duration of a test (see `trial`), so nothing stays in the table.

A rule is called as rule(g, y, *args, **kwargs): g is the gradient of the value, y the value. It returns the
gradient of its argument, and must work on arrays and on tensors: use operators, methods and NumPy's
functions, nothing in place. A parameter whose elements it does not read has a name that begins with an
underscore.
"""

from contextlib import contextmanager

import numpy as np

import minigrad as mg
from minigrad.engine.table import RULES


@contextmanager
def trial(fun, *rules):
    """Given to you: add a row to the table inside `with trial(fun, *rules):`, and remove it afterwards."""
    mg.defvjp(fun, *rules)
    try:
        yield fun
    finally:
        del RULES[fun]


@mg.dispatched
def softplus(x):
    """Given to you: log(1 + exp(x)), without overflow."""
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def softplus_rules():
    """The one rule of softplus(x), as a tuple (rule,).

    The slope is 1 / (1 + exp(-x)). Show that it is also 1 - exp(-y), and write the rule so that it reads y
    and not x: then x need not be kept. It must be accurate for x = -30 too, where 1 - exp(-y) would lose
    digits (np.expm1(t) is exp(t) - 1), and must not overflow for any x.
    """
    # solution
    return (lambda g, y, _x: -g * np.expm1(-y),)
    # end


@mg.dispatched
def blend(x, y, w):
    """Given to you: w x + (1 - w) y; the three broadcast."""
    return w * x + (1 - w) * y


def blend_rules():
    """The three rules of blend(x, y, w), one for each argument, in order.

    Any argument may be a number, a row or a whole array. The engine sums over stretched axes; the rules need
    not. Each rule keeps only what it reads, so set the underscores. (A rule's parameters are g, the value, x,
    y, w.)
    """
    # solution
    return (
        lambda g, _z, _x, _y, w: g * w,
        lambda g, _z, _x, _y, w: g * (1 - w),
        lambda g, _z, x, y, _w: g * (x - y),
    )
    # end


@mg.dispatched
def log_sum_exp(x, axis=-1):
    """Given to you: log(sum(exp(x))) over one axis, which is dropped. axis is a keyword argument."""
    top = x.max(axis=axis, keepdims=True)
    return np.squeeze(top + np.log(np.exp(x - top).sum(axis=axis, keepdims=True)), axis)


def log_sum_exp_rules():
    """The one rule of log_sum_exp(x, axis=-1), as a tuple (rule,).

    The derivative is softmax(x), which is exp(x - y). g and y lack the axis that x has: np.expand_dims(g,
    axis) puts it back. The rule gets axis= only if the function got it, so it needs the same default. It must
    work for any axis, and without overflow for x = 1000.
    """
    # solution
    return (lambda g, y, x, axis=-1: np.expand_dims(g, axis) * np.exp(x - np.expand_dims(y, axis)),)
    # end


@mg.dispatched
def clamp(x, low, high):
    """Given to you: x, but not below low and not above high (numbers)."""
    return np.minimum(np.maximum(x, low), high)


def clamp_rules():
    """Three rules of clamp(x, low, high) with a *straight-through* gradient: it passes unchanged for any x.

    (The true slope is 0 outside, so a weight that gets there would never come back.) low and high get no
    gradient: None. The rule keeps no array.
    """
    # solution
    return (lambda g, _y, _x, _low, _high: g, None, None)
    # end


@mg.dispatched
def polar(x, y):
    """Given to you: (radius, angle) of the point (x, y); the angle is np.arctan2(y, x)."""
    return np.sqrt(x * x + y * y), np.arctan2(y, x)


def polar_rules():
    """The two rules of polar(x, y), a function that returns two values. The point is never the origin.

    g is a tuple (of the radius's gradient, of the angle's), and so is the value z = (r, angle).
    dr/dx = x / r, dr/dy = y / r, d(angle)/dx = -y / r^2, d(angle)/dy = x / r^2.
    """
    # solution
    return (
        lambda g, z, x, y: g[0] * x / z[0] - g[1] * y / z[0] ** 2,
        lambda g, z, x, y: g[0] * y / z[0] + g[1] * x / z[0] ** 2,
    )
    # end


def rms_norm_kernel():
    """A kernel, (forward, backward), for y = weight x / sqrt(mean(x^2) + eps), mean over the last axis.

    forward(x, weight, eps) -> (y, saved)       x (N, C), weight (C,), eps a number; saved: for backward
    backward(g, y, saved, needs, x, weight, eps) -> (dx, dweight, None)
        each in its argument's shape; needs is a tuple of booleans, one for each argument: where it is False,
        return None. Do not write into g.
    Derive it: with scale = 1 / sqrt(mean(x^2) + eps), xhat = x scale and h = g weight: dx = scale (h - xhat
    mean(h xhat)).
    """

    # solution
    def forward(x, weight, eps):
        scale = 1 / np.sqrt((x * x).mean(axis=-1, keepdims=True) + eps)
        return x * scale * weight, scale

    def backward(g, y, scale, needs, x, weight, eps):
        xhat, h = x * scale, g * weight
        dx = scale * (h - xhat * (h * xhat).mean(axis=-1, keepdims=True)) if needs[0] else None
        return dx, (g * xhat).sum(axis=0) if needs[1] else None, None

    return forward, backward
    # end


def summed_to(gradient, shape):
    """Given to you: sum the gradient over the axes along which an array of `shape` was repeated."""
    gradient = gradient.sum(axis=tuple(range(gradient.ndim - len(shape))))
    stretched = tuple(i for i, n in enumerate(shape) if n == 1 and gradient.shape[i] != 1)
    return gradient.sum(axis=stretched, keepdims=True).reshape(shape)


def row_is_right(fun, rules, args, g, h=1e-5):
    """Return True if each rule of a row agrees with central differences of its function, else False.

    fun(*args) -> y, an array. args are float arrays. rules holds one rule for each, or None, which is
    skipped. g is an array of y's shape. For each element of each argument, compare the rule's gradient with
    (S(x + h) - S(x - h)) / 2h, where S is the sum of g * fun. If an argument was stretched, its rule's
    gradient may have the shape of y: see summed_to. A row is right if in each argument the largest difference
    is at most 1e-6 of the argument's largest slope (of 1, if that slope is smaller than 1). Leave args
    unchanged.
    """
    # solution
    y = fun(*args)
    for i, rule in enumerate(rules):
        if rule is None:
            continue
        numeric = np.zeros_like(args[i])
        for place in np.ndindex(args[i].shape):
            step = np.zeros_like(args[i])
            step[place] = h
            ahead, behind = (fun(*args[:i], args[i] + s, *args[i + 1 :]) for s in (step, -step))
            numeric[place] = (g * (ahead - behind)).sum() / (2 * h)
        given = summed_to(rule(g, y, *args), args[i].shape)
        if not np.abs(given - numeric).max() <= 1e-6 * max(1, np.abs(numeric).max()):
            return False
    return True
    # end
