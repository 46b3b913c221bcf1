"""What a constant factor usually comes from, out of the sizes and settings in play.

Knows no gradients, only a ratio to explain.
"""

import math

import numpy as np

CLOSE = 1e-5


def causes(ratio, evidence):
    """Sentences on why backward may give `ratio` times the right gradient, likeliest first; at most two."""
    found = [sentence for value, sentence in _candidates(evidence) if abs(ratio / value - 1) < CLOSE]
    return list(dict.fromkeys(found))[:2]


def _candidates(evidence):
    """(ratio, what it means) for all that could matter."""
    yield from _settings(evidence)
    yield 2.0, "2 is usually a forgotten 1/2: the derivative of x²/2 is x, that of x² is 2x."
    yield (
        0.5,
        (
            "1/2 is usually a lost 2: the derivative of x² is 2x; or an input is used twice and only one of the two "
            "gradients was counted: add them (+=)."
        ),
    )
    for size, place in _sizes(evidence):
        root = math.sqrt(size)
        yield (
            root,
            (
                f"{root:.4g} is the root of {size}, {place}: the scale 1/sqrt({size}) (attention has it) stands in forward "
                f"and is missing in "
                "backward; multiply by it there too."
            ),
        )
        yield (
            1 / root,
            f"1/sqrt({size}), {size} being {place}: backward has a scale 1/sqrt(d) that forward has not, or has it twice.",
        )
    for size, place in _sizes(evidence):
        yield (
            float(size),
            f"{size} is {place}: the 1/{size} of a mean over it is missing in backward. Divide by {size} there.",
        )
        yield (
            1 / size,
            f"1/{size}, {size} being {place}: backward takes a mean where it should take a sum, or divides by {size} once too "
            f"often.",
        )


def _settings(evidence):
    """What numbers among the arguments do: a chance p of dropping, a temperature, a step."""
    for position, arg in enumerate(evidence.args):
        if not isinstance(arg, (float, np.floating)) or not arg or not math.isfinite(arg):
            continue
        name, arg = evidence.called(position), float(arg)
        if 0 < arg < 1:
            yield (
                1 - arg,
                (
                    f"{1 - arg:.4g} is 1 - p with p = {arg:g} ({name}): what dropout keeps is scaled by 1/(1-p) in forward, "
                    f"and that scale is missing in "
                    "backward. Divide by 1 - p there too."
                ),
            )
            yield (
                1 / (1 - arg),
                f"{1 / (1 - arg):.4g} is 1/(1-p) with p = {arg:g} ({name}): backward has dropout's scale and forward has not, "
                f"or has it twice.",
            )
        yield 1 / arg, f"the factor {arg:g} ({name}) of forward is missing in backward."
        yield (
            arg,
            f"forward divides by {arg:g} ({name}) and backward does not, or backward multiplies by it once too often.",
        )


def _sizes(evidence):
    """(n, what has this size), each n once."""
    seen = {}
    for n, place in _every_size(evidence):
        seen.setdefault(n, place)
    return seen.items()


def _every_size(evidence):
    """The lengths of all axes, the sizes of all arrays, whole numbers among the arguments."""
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


def spelled(number):
    """A number as one says it: 2, -1/3, 0.7071."""
    for below in range(1, 13):
        above = number * below
        if abs(above - round(above)) < CLOSE * max(1, abs(above)) and round(above):
            return f"{round(above)}" + (f"/{below}" if below > 1 else "")
    return f"{number:.6g}"
