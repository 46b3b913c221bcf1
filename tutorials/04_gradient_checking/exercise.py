"""Exercises of lesson 04: checking gradients.

Write each function where it says so. `python -m tutorials check 04` tests this file and explains.
NumPy is all you need. Later functions may call the ones before them.
"""

import numpy as np


def relative_error(a, n, floor=1e-3):
    """The difference between two gradients, relative to their largest entry.

    a, n: float arrays of one shape, with at least one entry
    ->  one number: the largest |a_i - n_i|, divided by the largest of floor, all |a_i| and all |n_i|.
    """
    # solution
    return np.abs(a - n).max() / max(floor, np.abs(a).max(), np.abs(n).max())
    # end


def numerical_gradient(f, x, h=1e-5):
    """The gradient of f at x by central differences, one entry at a time.

    f: takes an array of x's shape, returns one number
    x: float64 array of any shape
    ->  array of x's shape. Afterwards x is unchanged, to the last bit.
    """
    # solution
    gradient = np.zeros_like(x)
    for index in np.ndindex(x.shape):
        kept = x[index]
        x[index] = kept + h
        up = f(x)
        x[index] = kept - h
        down = f(x)
        x[index] = kept
        gradient[index] = (up - down) / (2 * h)
    return gradient
    # end


def best_step(f, x, slope, steps):
    """Find the step with which the central difference of f at x comes closest to the true slope.

    f: takes a number, returns a number;  x: a number;  slope: f'(x), known exactly
    steps: a list or array of steps
    ->  the best of them.
    """
    # solution
    errors = [abs((f(x + h) - f(x - h)) / (2 * h) - slope) for h in steps]
    return steps[np.argmin(errors)]
    # end


def numerical_vjp(f, x, g, h=1e-5):
    """The numerical gradient of sum(g * f(x)): what a backward of y = f(x) should return, given g.

    f: takes an array of x's shape, returns an array y of any shape
    x: float64 array;  g: array of y's shape;  h: the step
    ->  array of x's shape.
    """
    # solution
    return numerical_gradient(lambda x: (g * f(x)).sum(), x, h)
    # end


def check_backward(forward, backward, x, rng, tolerance=1e-6):
    """Check whether backward is the gradient of forward.

    forward(x) -> y, arrays of any two shapes;  backward(g, x) -> what should be the gradient of x
    rng: a np.random.Generator; draw g, of y's shape, with rng.standard_normal
    ->  True if backward's result has x's shape and its relative_error to the numerical gradient is at most
    tolerance, else False. Pass backward a copy of g: if it writes into g, the measurement must not change.
    """
    # solution
    g = rng.standard_normal(forward(x).shape)
    found = backward(g.copy(), x)
    return found.shape == x.shape and bool(relative_error(found, numerical_vjp(forward, x, g)) <= tolerance)
    # end


def directional_error(loss, gradient, x, v, h=1e-5):
    """Check a whole gradient with two evaluations, along one direction.

    loss: takes an array of x's shape, returns one number;  gradient: the gradient to check, of x's shape
    v: the direction, of x's shape
    ->  |measured - claimed| / max(1e-3, the norm of gradient). measured: the central difference of the loss
    along v; claimed: the sum of gradient * v; the norm: the root of the sum of squares (np.linalg.norm).
    """
    # solution
    measured = (loss(x + h * v) - loss(x - h * v)) / (2 * h)
    claimed = (gradient * v).sum()
    return abs(measured - claimed) / max(1e-3, np.linalg.norm(gradient))
    # end


def find_kinks(f, x, h=1e-5, jump=1e-2):
    """Find the entries of x at which the slope of f jumps.

    f: works on each entry alone (as np.abs does): an array of x's shape to one of that shape
    ->  boolean array of x's shape: True where the slope on the right, from x to x + h, and the slope on the
    left, from x - h to x, differ by more than jump * max(1, the absolute value of their mean).
    """
    # solution
    left, right = (f(x) - f(x - h)) / h, (f(x + h) - f(x)) / h
    return np.abs(right - left) > jump * np.maximum(1, np.abs(right + left) / 2)
    # end


def complex_step_gradient(f, x, h=1e-20):
    """The gradient of f at x: the imaginary part of f, with i h added to one entry, divided by h.

    f: a smooth function; takes an array of x's shape, also a complex one, returns one number
    x: float64 array of any shape, not changed
    ->  float64 array of x's shape.
    """
    # solution
    gradient = np.zeros_like(x)
    for index in np.ndindex(x.shape):
        z = x.astype(complex)
        z[index] += 1j * h
        gradient[index] = f(z).imag / h
    return gradient
    # end
