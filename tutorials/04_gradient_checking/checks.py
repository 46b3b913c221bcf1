"""Checks of lesson 04."""

import numpy as np

from tutorials.course import Checks

lesson = Checks()

# ---------------------------------------------------------------- relative_error

relative_error = lesson.exercise(
    "relative_error",
    hints=(
        (
            "An entry whose gradient is truly 0 is measured as 1e-12. What must you divide by, so that this "
            "counts as right?"
        ),
        (
            "Take the largest difference of the whole array, and divide it by one scale: the largest of "
            "floor, all |a_i| and all |n_i|."
        ),
        "np.abs(a - n).max() divided by max(floor, np.abs(a).max(), ...).",
    ),
    why=(
        "Each gradient check in this project ends in this number; with a bad definition it either cries wolf "
        "or sleeps."
    ),
)


@relative_error.check("two random arrays")
def _(my, rng):
    return my.relative_error(rng.standard_normal((3, 4)), rng.standard_normal((3, 4)))


@relative_error.check("an entry that is truly 0 and is measured as 1e-12")
def _(my, rng):
    with np.errstate(all="ignore"):
        return my.relative_error(np.array([0.0, 2.0]), np.array([1e-12, 2.5]))


@relative_error.check("zeros everywhere, measured as rounding errors: the floor is the scale")
def _(my, rng):
    with np.errstate(all="ignore"):
        return [
            my.relative_error(np.zeros(3), np.full(3, 4e-9)),
            my.relative_error(np.zeros(3), np.full(3, 4e-9), floor=1.0),
        ]


@relative_error.check("a is zero, or too small: the size of n counts as well")
def _(my, rng):
    return [
        my.relative_error(np.zeros(2), np.array([3.0, -4.0])),
        my.relative_error(np.array([-8.0, 1.0]), np.array([2.0, 1.0])),
    ]


relative_error.wrong(
    (
        "Each entry is divided by its own size, so an entry that is truly 0 counts as 100 % wrong. Take one "
        "scale for the whole array."
    ),
    body="return (np.abs(a - n) / np.maximum(floor * 1e-12, np.maximum(np.abs(a), np.abs(n)))).max()",
)
relative_error.wrong(
    (
        "Without the floor a gradient that is 0 everywhere is divided by its own rounding errors. The scale "
        "is at least floor."
    ),
    "max(floor, np.abs(a).max(), np.abs(n).max())",
    "max(np.abs(a).max(), np.abs(n).max())",
)
relative_error.wrong(
    "The mean of the differences hides one wrong entry among many right ones. Take the largest.",
    "np.abs(a - n).max()",
    "np.abs(a - n).mean()",
)
relative_error.wrong(
    (
        "Differences can be negative, and the worst may be the most negative one. Take absolute values "
        "first: np.abs."
    ),
    "np.abs(a - n).max()",
    "(a - n).max()",
)
relative_error.wrong(
    "Only a sets the scale: if a is all zeros, the error becomes huge. n counts, too.",
    "max(floor, np.abs(a).max(), np.abs(n).max())",
    "max(floor, np.abs(a).max())",
)
relative_error.wrong(
    (
        "This is the absolute error. Divide by the scale, so that gradients of 1000 and of 0.01 are judged "
        "by the same measure."
    ),
    body="return np.abs(a - n).max()",
)

# ---------------------------------------------------------------- numerical_gradient

numerical_gradient = lesson.exercise(
    "numerical_gradient",
    hints=(
        "Which entries of x may differ between the two evaluations that give one entry of the gradient?",
        (
            "For each index: remember x[index], set it to kept + h, evaluate; to kept - h, evaluate; restore "
            "kept; divide by 2h."
        ),
        "for index in np.ndindex(x.shape): kept = x[index]; ... gradient[index] = (up - down) / (2 * h).",
    ),
    why="It uses only the forward, not your derivation, so it cannot repeat a mistake in the derivation.",
)


@numerical_gradient.check("a vector: the sum of sines")
def _(my, rng):
    return my.numerical_gradient(lambda x: np.sin(x).sum(), rng.standard_normal(5))


@numerical_gradient.check("a matrix whose entries all have different slopes, and a single number")
def _(my, rng):
    w = rng.standard_normal((3, 4))
    return [
        my.numerical_gradient(lambda x: (w * x * x).sum(), rng.standard_normal((3, 4))),
        my.numerical_gradient(lambda x: x**3, np.array(2.0)),
    ]


@numerical_gradient.check("a large step: of x^3 at 2 with h = 0.1 it is 12.01", tolerance=1e-9)
def _(my, rng):
    return my.numerical_gradient(lambda x: (x**3).sum(), np.array([2.0, 1.0, -1.0]), h=0.1)


@numerical_gradient.check("the entries depend on each other: only one is moved at a time")
def _(my, rng):
    return my.numerical_gradient(lambda x: x[0, 0] * x[0, 1] * x[1, 0] + x[1, 1], rng.standard_normal((2, 2)))


@numerical_gradient.check("x is unchanged to the last bit, tiny numbers too")
def _(my, rng):
    x = np.array([1e-22, 0.3, 1e-12, 5.0])
    before = x.copy()
    my.numerical_gradient(lambda x: (x * x).sum(), x)
    return bool((x == before).all())


numerical_gradient.wrong(
    (
        "This is the forward difference, whose error is of the order of h. Step to both sides and divide by "
        "2h: then the error is of the order of h squared."
    ),
    body="""
gradient = np.zeros_like(x)
start = f(x)
for index in np.ndindex(x.shape):
    kept = x[index]
    x[index] = kept + h
    gradient[index] = (f(x) - start) / h
    x[index] = kept
return gradient
""",
)
numerical_gradient.wrong(
    "From x - h to x + h it is 2h, not h: all your slopes are twice too large.",
    "(2 * h)",
    "h",
)
numerical_gradient.wrong(
    (
        "You do not restore an entry after moving it, so the next slopes are measured at another point (and "
        "the caller's x has changed). Write the old number back."
    ),
    "x[index] = kept\n",
    "pass\n",
)
numerical_gradient.wrong(
    (
        "Adding h back is not exact: x - h has no room for the digits of a tiny x. Store the old number and "
        "write it back."
    ),
    "x[index] = kept\n",
    "x[index] += h\n",
)
numerical_gradient.wrong(
    "You move the whole array at once, so every entry gets the sum of all slopes. Move one entry at a time.",
    body="return np.full_like(x, (f(x + h) - f(x - h)) / (2 * h))",
)
numerical_gradient.wrong(
    (
        "range(len(x)) goes over the first axis only, so whole rows move together. np.ndindex(x.shape) goes "
        "over every entry."
    ),
    "np.ndindex(x.shape)",
    "range(len(x))",
)
numerical_gradient.wrong(
    "The sign is reversed: take the value above minus the value below.",
    "(up - down)",
    "(down - up)",
)

# ---------------------------------------------------------------- best_step

best_step = lesson.exercise(
    "best_step",
    hints=(
        "You know the true slope. How far from it is each measured one?",
        (
            "Compute the absolute error for every step; np.argmin gives the index of the smallest; return "
            "that step."
        ),
        "errors = [abs(... - slope) for h in steps]; return steps[np.argmin(errors)].",
    ),
    why=(
        "A check with a wrong step, or in float32, reports errors in correct code: then you must fix the "
        "measurement."
    ),
)


@best_step.check("sin at 1: the bottom of the V")
def _(my, rng):
    return float(my.best_step(np.sin, 1.0, np.cos(1.0), [1e-1, 1e-3, 1e-5, 1e-8, 1e-11]))


@best_step.check("exp at 2, where a forward difference needs a smaller step")
def _(my, rng):
    return float(my.best_step(np.exp, 2.0, np.exp(2.0), np.array([1e-2, 3e-5, 1e-8, 1e-12])))


@best_step.check("float32: the best step is far larger")
def _(my, rng):
    return float(my.best_step(lambda x: np.sin(np.float32(x)), 1.0, np.cos(1.0), [1e-1, 1e-2, 1e-4, 1e-6]))


@best_step.check("errors on both sides of 0: x^3 at 0 with slope 0.01")
def _(my, rng):
    return float(my.best_step(lambda x: x**3, 0.0, 0.01, [0.5, 0.09, 0.02]))


best_step.wrong(
    "This is the step with the largest error.",
    "np.argmin",
    "np.argmax",
)
best_step.wrong(
    "With a forward difference the best step is about 1e-8, not 1e-5. Use the central difference.",
    "(f(x + h) - f(x - h)) / (2 * h)",
    "(f(x + h) - f(x)) / h",
)
best_step.wrong(
    "Errors have signs: the most negative one is not the smallest. Take absolute values with abs.",
    "abs((f(x + h) - f(x - h)) / (2 * h) - slope)",
    "(f(x + h) - f(x - h)) / (2 * h) - slope",
)
best_step.wrong(
    "This is the smallest error, not the step that has it.",
    "steps[np.argmin(errors)]",
    "min(errors)",
)
best_step.wrong(
    "This is the index of the best step in the list, not the step.",
    "steps[np.argmin(errors)]",
    "np.argmin(errors)",
)
best_step.wrong(
    (
        "The smallest step is not the best: for small steps the rounding error dominates. Compare with the "
        "given slope."
    ),
    body="return min(steps)",
)

# ---------------------------------------------------------------- numerical_vjp

numerical_vjp = lesson.exercise(
    "numerical_vjp",
    hints=(
        (
            "numerical_gradient wants a function whose value is one number. How do you get one number from g "
            "and y = f(x)?"
        ),
        "Write a function of x that returns the sum of g * f(x), and pass it to numerical_gradient, with h.",
        "numerical_gradient(lambda x: (g * f(x)).sum(), x, h)",
    ),
    why=(
        "It computes what any backward must return, for a function of any shape, without building a Jacobian."
    ),
)


@numerical_vjp.check("tanh of a matrix")
def _(my, rng):
    return my.numerical_vjp(np.tanh, rng.standard_normal((2, 3)), rng.standard_normal((2, 3)))


@numerical_vjp.check("a product with a matrix: y and x have different shapes")
def _(my, rng):
    w = rng.standard_normal((3, 4))
    return my.numerical_vjp(lambda x: x @ w, rng.standard_normal((2, 3)), rng.standard_normal((2, 4)))


@numerical_vjp.check("rows minus their mean: with a sum instead of g all would be 0")
def _(my, rng):
    return my.numerical_vjp(
        lambda x: x - x.mean(axis=-1, keepdims=True), rng.standard_normal((2, 3)), rng.standard_normal((2, 3))
    )


@numerical_vjp.check("the step is the caller's: x^3 with h = 0.1")
def _(my, rng):
    return my.numerical_vjp(lambda x: x**3, np.array([2.0, -1.0]), np.array([1.0, 3.0]), h=0.1)


numerical_vjp.wrong(
    (
        "g does not occur: this is the gradient of the sum of the outputs. For softmax that is always 0, and "
        "tests nothing."
    ),
    "(g * f(x)).sum()",
    "f(x).sum()",
)
numerical_vjp.wrong(
    "h is not passed on, so the step is always 1e-5.",
    "x, h)",
    "x)",
)
numerical_vjp.wrong(
    "The mean divides by the number of outputs. The vjp is the gradient of the sum of g * y.",
    ".sum()",
    ".mean()",
)
numerical_vjp.wrong(
    (
        "You multiply by g afterwards. That works only if each output depends on one input; multiply the "
        "outputs by g, then sum."
    ),
    body="return g * numerical_gradient(lambda x: f(x).sum(), x, h)",
)
numerical_vjp.wrong(
    "Here y is squared: with g = y instead of the given g, this is the gradient of the sum of y * y.",
    "(g * f(x)).sum()",
    "(f(x) * f(x)).sum()",
)

# ---------------------------------------------------------------- check_backward

check_backward = lesson.exercise(
    "check_backward",
    hints=(
        "Why would a backward of zeros pass for some functions if g were all ones?",
        (
            "Draw one g of y's shape; give backward a copy of it; compare shapes; compare the values with "
            "numerical_vjp for the same g."
        ),
        (
            "found = backward(g.copy(), x); found.shape == x.shape and relative_error(found, "
            "numerical_vjp(forward, x, g)) <= tolerance"
        ),
    ),
    why="This is a complete gradcheck: with it you can trust a backward that you wrote five minutes ago.",
)


@check_backward.check("right backwards pass: tanh, a product, rows minus their mean")
def _(my, rng):
    w = rng.standard_normal((3, 4))
    return [
        bool(
            my.check_backward(
                np.tanh, lambda g, x: g * (1 - np.tanh(x) ** 2), rng.standard_normal((2, 3)), rng
            )
        ),
        bool(my.check_backward(lambda x: x @ w, lambda g, x: g @ w.T, rng.standard_normal((2, 3)), rng)),
        bool(
            my.check_backward(
                lambda x: x - x.mean(axis=-1, keepdims=True),
                lambda g, x: g - g.mean(axis=-1, keepdims=True),
                rng.standard_normal((2, 3)),
                rng,
            )
        ),
    ]


@check_backward.check("zeros fail where the outputs always sum to 0")
def _(my, rng):
    return bool(
        my.check_backward(lambda x: x - x.mean(), lambda g, x: np.zeros_like(x), rng.standard_normal(4), rng)
    )


@check_backward.check("small mistakes fail: a gradient that is 0.1 % too large")
def _(my, rng):
    wrong = lambda g, x: 1.001 * g * np.cos(x)  # noqa: E731
    return [
        bool(my.check_backward(np.sin, wrong, rng.standard_normal(4), rng)),
        bool(my.check_backward(np.sin, wrong, rng.standard_normal(4), rng, 0.01)),
    ]


@check_backward.check("a wrong shape fails, even if it would broadcast")
def _(my, rng):
    return bool(my.check_backward(np.sin, lambda g, x: (g * np.cos(x))[None], rng.standard_normal(4), rng))


@check_backward.check("a backward that writes into g does not change the measurement")
def _(my, rng):
    def writes(g, x):
        g *= np.cos(x)
        return g

    return bool(my.check_backward(np.sin, writes, rng.standard_normal(4), rng))


check_backward.wrong(
    (
        "With ones as g you check the gradient of a sum, and a backward of zeros passes where outputs always "
        "sum to a constant. Draw g at random."
    ),
    "rng.standard_normal(forward(x).shape)",
    "np.ones(forward(x).shape)",
)
check_backward.wrong(
    (
        "g is drawn twice, so two different functions are compared and right backwards fail. Draw it once, "
        "use it for both."
    ),
    "numerical_vjp(forward, x, g)",
    "numerical_vjp(forward, x, rng.standard_normal(g.shape))",
)
check_backward.wrong(
    (
        "The shape is not compared: NumPy broadcasts (1, 4) against (4,) and finds no difference. A gradient "
        "must have its input's shape."
    ),
    "found.shape == x.shape and ",
    "",
)
check_backward.wrong(
    (
        "You pass backward your own g. A backward that writes into it changes what you measure with "
        "afterwards: pass a copy."
    ),
    "g.copy()",
    "g",
)
check_backward.wrong(
    (
        "The caller's tolerance is not used, or it is too large: a gradient that is 0.1 % off is a mistake, "
        "not rounding."
    ),
    "<= tolerance",
    "<= 1e-2",
)
check_backward.wrong(
    "g has the shape of x here. It is the gradient of y, so it has y's shape.",
    "forward(x).shape",
    "x.shape",
)

# ---------------------------------------------------------------- directional_error

directional_error = lesson.exercise(
    "directional_error",
    hints=(
        "If x moves by h * v, how fast does the loss change, by the chain rule?",
        (
            "Measured: the central difference of the loss between x + h v and x - h v. Claimed: the sum of "
            "gradient * v."
        ),
        (
            "measured = (loss(x + h * v) - loss(x - h * v)) / (2 * h); divide the absolute difference by "
            "max(1e-3, np.linalg.norm(gradient))."
        ),
    ),
    why=(
        "Two evaluations check the gradient of a million parameters at once; minigrad's fast mode does this "
        "for whole models."
    ),
)


@directional_error.check("right gradients: an error below 1e-8")
def _(my, rng):
    x, v = rng.standard_normal((2, 4, 3))
    return bool(my.directional_error(lambda x: np.sin(x).sum(), np.cos(x), x, v) < 1e-8)


@directional_error.check("a wrong gradient: the error along v")
def _(my, rng):
    x, v = rng.standard_normal((2, 4, 3))
    return [
        my.directional_error(lambda x: np.sin(x).sum(), factor * np.cos(x), x, v)
        for factor in (2.0, -1.0, 0.5)
    ]


@directional_error.check("a step as large as 0.5, so that its truncation error shows")
def _(my, rng):
    x, v = rng.standard_normal((2, 5))
    return my.directional_error(lambda x: np.exp(x).sum(), np.exp(x), x, v, h=0.5)


@directional_error.check("a claimed gradient of zeros: divided by 1e-3, not by 0")
def _(my, rng):
    with np.errstate(all="ignore"):
        return my.directional_error(lambda x: (3 * x).sum(), np.zeros(2), np.ones(2), np.array([1.0, 2.0]))


directional_error.wrong(
    "This is a forward difference: step to both sides along v.",
    "(loss(x + h * v) - loss(x - h * v)) / (2 * h)",
    "(loss(x + h * v) - loss(x)) / h",
)
directional_error.wrong(
    "From x - h v to x + h v it is 2h. Divide by that.",
    "(2 * h)",
    "h",
)
directional_error.wrong(
    "This is the absolute difference. Divide it by the norm of gradient (at least 1e-3).",
    body="return abs((loss(x + h * v) - loss(x - h * v)) / (2 * h) - (gradient * v).sum())",
)
directional_error.wrong(
    "Take the absolute difference: without abs an error may be negative and pass every tolerance.",
    "abs(measured - claimed)",
    "(measured - claimed)",
)
directional_error.wrong(
    "The claimed slope does not use v. The slope along v is the sum of gradient * v.",
    "(gradient * v).sum()",
    "gradient.sum()",
)
directional_error.wrong(
    "You move every entry of x by h. Move x along v: x + h * v.",
    "(loss(x + h * v) - loss(x - h * v))",
    "(loss(x + h) - loss(x - h))",
)
directional_error.wrong(
    "A claimed gradient of zeros makes this a division by 0. The scale is at least 1e-3.",
    "max(1e-3, np.linalg.norm(gradient))",
    "np.linalg.norm(gradient)",
)

# ---------------------------------------------------------------- find_kinks

find_kinks = lesson.exercise(
    "find_kinks",
    hints=(
        "In a smooth function the slopes just left and just right of x nearly agree. And at a corner?",
        (
            "Compute both one-sided slopes for all entries at once. Compare their absolute difference with "
            "jump * max(1, |their mean|)."
        ),
        (
            "left = (f(x) - f(x - h)) / h, right = (f(x + h) - f(x)) / h; np.abs(right - left) > jump * "
            "np.maximum(1, ...)."
        ),
    ),
    why=(
        "relu, max and abs have corners; a checker that does not recognise them reports errors in correct "
        "code, and soon nobody believes it."
    ),
)


@find_kinks.check("relu: at 0, closer to 0 than the step, and away from it")
def _(my, rng):
    return my.find_kinks(lambda x: np.maximum(x, 0), np.array([-1.0, -4e-6, 0.0, 3e-6, 2e-5, 1.0]))


@find_kinks.check("abs, in two dimensions")
def _(my, rng):
    return my.find_kinks(np.abs, np.array([[0.0, 1.0, -1.0], [2e-6, -3e-6, 0.5]]))


@find_kinks.check("smooth functions have none, not even steep ones")
def _(my, rng):
    return [
        my.find_kinks(np.sin, rng.standard_normal(5)),
        my.find_kinks(lambda x: np.exp(5 * x), np.array([2.0, 3.0])),
    ]


@find_kinks.check("a corner that bends down, and a small one below the threshold")
def _(my, rng):
    return [
        my.find_kinks(lambda x: np.minimum(x, 0), np.array([0.0, 1.0])),
        my.find_kinks(lambda x: 0.002 * np.abs(x), np.array([0.0])),
    ]


@find_kinks.check("another step and another threshold")
def _(my, rng):
    x = np.array([0.0, 0.05, 0.2, 1.0])
    return [
        my.find_kinks(np.abs, x, h=0.1),
        my.find_kinks(np.square, x, h=0.1, jump=0.1),
        my.find_kinks(np.square, x, h=0.1, jump=0.3),
    ]


find_kinks.wrong(
    "You find only corners that bend up: a slope may also fall. Compare the absolute difference, np.abs.",
    "np.abs(right - left) >",
    "right - left >",
)
find_kinks.wrong(
    "These are differences of values, not slopes: both are tiny. Divide by h.",
    "left, right = (f(x) - f(x - h)) / h, (f(x + h) - f(x)) / h",
    "left, right = f(x) - f(x - h), f(x + h) - f(x)",
)
find_kinks.wrong(
    (
        "Where a smooth function is steep, its slopes differ by more than the threshold without any corner. "
        "Scale the threshold with max(1, |mean slope|)."
    ),
    "jump * np.maximum(1, np.abs(right + left) / 2)",
    "jump",
)
find_kinks.wrong(
    (
        "Your threshold shrinks with the slope: where the slope is almost 0, rounding errors look like "
        "corners. The threshold is at least jump * 1."
    ),
    "np.maximum(1, np.abs(right + left) / 2)",
    "np.abs(right + left) / 2",
)
find_kinks.wrong(
    (
        "You measure the left slope from x - h to x + h. Then it contains half of the right slope, and you "
        "see only half of the jump: use f(x) - f(x - h)."
    ),
    "(f(x) - f(x - h)) / h",
    "(f(x + h) - f(x - h)) / (2 * h)",
)
find_kinks.wrong(
    (
        "This finds the entries that are 0. A function may have its corner elsewhere, and an entry near a "
        "corner counts as well."
    ),
    body="return np.abs(x) < 0 * h + 1e-300",
)

# ---------------------------------------------------------------- complex_step_gradient

complex_step_gradient = lesson.exercise(
    "complex_step_gradient",
    hints=(
        "In Taylor's formula for f(x + ih), which part of the value contains f'(x)?",
        (
            "For each index: a complex copy of x, i h added to that entry, the imaginary part of f of it, "
            "divided by h."
        ),
        "z = x.astype(complex); z[index] += 1j * h; gradient[index] = f(z).imag / h",
    ),
    why=(
        "It is exact to the last digit for every smooth formula, so it decides where finite differences are "
        "too inexact."
    ),
)


@complex_step_gradient.check("the sum of sines: exact", tolerance=1e-14)
def _(my, rng):
    return my.complex_step_gradient(lambda x: np.sin(x).sum(), rng.standard_normal(5))


@complex_step_gradient.check("a matrix whose entries depend on each other", tolerance=1e-14)
def _(my, rng):
    w = rng.standard_normal((2, 3))
    return my.complex_step_gradient(
        lambda x: np.exp(w * x).sum() * x[0, 1] * x[1, 2], rng.standard_normal((2, 3))
    )


@complex_step_gradient.check("a large step: of x^3 at 2 with h = 0.1 it is 11.99", tolerance=1e-12)
def _(my, rng):
    return my.complex_step_gradient(lambda x: (x**3).sum(), np.array([2.0, 1.0]), h=0.1)


@complex_step_gradient.check("x is unchanged, and the result is real")
def _(my, rng):
    x = rng.standard_normal(3)
    before = x.copy()
    out = my.complex_step_gradient(lambda x: (x * x).sum(), x)
    return [bool((x == before).all()), str(x.dtype), str(out.dtype), out]


complex_step_gradient.wrong(
    "The real part is the function's value. The slope is in the imaginary part.",
    ".imag",
    ".real",
)
complex_step_gradient.wrong(
    "The imaginary part is h times the slope. Divide by h.",
    "f(z).imag / h",
    "f(z).imag",
)
complex_step_gradient.wrong(
    (
        "The imaginary steps accumulate: each entry keeps its step while the next is moved. Take a fresh "
        "complex copy for each entry."
    ),
    body="""
gradient = np.zeros_like(x)
z = x.astype(complex)
for index in np.ndindex(x.shape):
    z[index] += 1j * h
    gradient[index] = f(z).imag / h
return gradient
""",
)
complex_step_gradient.wrong(
    "You move all entries at once, so each gets the sum of all slopes. Move one at a time.",
    body="return np.full_like(x, f(x + 1j * h).imag / h)",
)
complex_step_gradient.wrong(
    "A copy of x holds real numbers, which have no room for i h. Make the copy complex: x.astype(complex).",
    "x.astype(complex)",
    "x.copy()",
)
complex_step_gradient.wrong(
    (
        "This subtracts two values again, and with so small a step all digits cancel. Use the imaginary part "
        "of one complex value."
    ),
    body="""
gradient = np.zeros_like(x)
for index in np.ndindex(x.shape):
    z = x.copy()
    z[index] += h
    gradient[index] = (f(z) - f(x)) / h
return gradient
""",
)
