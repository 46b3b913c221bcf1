"""Explain a constant factor by the sizes and settings of the arguments: a mean, a scale, a dropout rate."""

import math

import numpy as np

CLOSE = 1e-5


def causes(ratio, evidence):
    """List at most two explanations why backward gives `ratio` times the right gradient, likeliest first."""
    found = [sentence for value, sentence in _candidates(evidence) if abs(ratio / value - 1) < CLOSE]
    return list(dict.fromkeys(found))[:2]


def _candidates(evidence):
    """Yield (ratio, explanation) for every factor that the arguments suggest."""
    yield from _settings(evidence)
    yield 2.0, "2 is usually a forgotten 1/2: the derivative of x²/2 is x, that of x² is 2x."
    yield (
        0.5,
        "1/2 is usually a lost 2: the derivative of x² is 2x; or an input is used twice and only one of the "
        "two gradients was counted: add them (+=).",
    )
    for size, what in _sizes(evidence):
        root = math.sqrt(size)
        yield (
            root,
            f"{root:.4g} is the root of {size}, {what}: forward has a scale 1/sqrt({size}), as attention "
            "does, and backward lacks it; multiply by it there too.",
        )
        yield (
            1 / root,
            f"1/sqrt({size}), where {size} is {what}: backward has a scale 1/sqrt(d) that forward does not "
            "have, or has it twice.",
        )
    for size, what in _sizes(evidence):
        yield (
            float(size),
            f"{size} is {what}: the 1/{size} of a mean over it is missing in backward. Divide by {size} "
            "there.",
        )
        yield (
            1 / size,
            f"1/{size}, where {size} is {what}: backward takes a mean where it should take a sum, or divides "
            f"by {size} once too often.",
        )


def _settings(evidence):
    """Yield the factors of the floats among the arguments: a dropout rate p, a temperature, a step."""
    for position, arg in enumerate(evidence.args):
        if not isinstance(arg, (float, np.floating)) or not arg or not math.isfinite(arg):
            continue
        name, arg = evidence.called(position), float(arg)
        if 0 < arg < 1:
            yield (
                1 - arg,
                f"{1 - arg:.4g} is 1 - p with p = {arg:g} ({name}): dropout's forward scales the kept "
                "elements by 1/(1-p), and backward lacks that scale. Divide by 1 - p there too.",
            )
            yield (
                1 / (1 - arg),
                f"{1 / (1 - arg):.4g} is 1/(1-p) with p = {arg:g} ({name}): backward has dropout's scale and "
                "forward does not, or backward has it twice.",
            )
        yield 1 / arg, f"the factor {arg:g} ({name}) of forward is missing in backward."
        yield (
            arg,
            f"forward divides by {arg:g} ({name}) and backward does not, or backward multiplies by it once "
            "too often.",
        )


def _sizes(evidence):
    """Return (n, what has this size), each n once."""
    seen = {}
    for n, what in _every_size(evidence):
        seen.setdefault(n, what)
    return seen.items()


def _every_size(evidence):
    """Yield the lengths of all axes, the sizes of all arrays, and the integers among the arguments."""
    arrays = [("the output", y) for y in evidence.y] + [(evidence.me, evidence.x)]
    arrays += [
        (evidence.called(i), arg) for i, arg in enumerate(evidence.args) if isinstance(arg, np.ndarray)
    ]
    for name, array in arrays:
        for axis, n in enumerate(array.shape):
            if n > 1:
                yield n, f"the length of axis {axis} of {name}"
    for name, array in arrays:
        if array.ndim > 1:
            yield array.size, f"the number of elements of {name}"
    for i, arg in enumerate(evidence.args):
        if type(arg) is int and arg > 1:
            yield arg, f"{evidence.called(i)}"
    for name, array in arrays:
        for k in range(2, array.ndim):
            yield math.prod(array.shape[:k]), f"the number of rows of {name}"


def spell(number):
    """Write a number as a fraction where one fits: 2, -1/3, 0.7071."""
    for below in range(1, 13):
        above = number * below
        if abs(above - round(above)) < CLOSE * max(1, abs(above)) and round(above):
            return f"{round(above)}" + (f"/{below}" if below > 1 else "")
    return f"{number:.6g}"
