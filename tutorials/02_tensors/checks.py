"""Checks of lesson 02."""

import numpy as np

from tutorials.course import Checks

lesson = Checks()

# ---------------------------------------------------------------- unbroadcast

unbroadcast = lesson.exercise(
    "unbroadcast",
    hints=(
        "Along which axes was one number of the small array copied to several positions of the large one?",
        (
            "First sum over the axes that the small array does not have, g.ndim - len(shape) of them on the "
            "left. Then sum over the axes where it has length 1."
        ),
        "g.sum(axis=tuple(range(extra))), then .sum(axis=<those i where shape[i] is 1>, keepdims=True).",
    ),
    why=(
        "Every operation on arrays broadcasts, so every gradient passes through this function: minigrad's "
        "engine calls it for each argument."
    ),
)


@unbroadcast.check("axes added on the left: (3,) in (2, 3), and (3,) in (4, 2, 3)")
def _(my, rng):
    return {
        f"(3,) from {large}": my.unbroadcast(rng.standard_normal(large), (3,))
        for large in ((2, 3), (4, 2, 3))
    }


@unbroadcast.check("axes of length 1 that were stretched: (2, 1), (1, 3) and (1, 1) in (2, 3)")
def _(my, rng):
    g = rng.standard_normal((2, 3))
    return {f"{shape} from (2, 3)": my.unbroadcast(g, shape) for shape in ((2, 1), (1, 3), (1, 1))}


@unbroadcast.check("square: (3,), (3, 1) and (1, 3) in (3, 3)")
def _(my, rng):
    g = rng.standard_normal((3, 3))
    return {f"{shape} from (3, 3)": my.unbroadcast(g, shape) for shape in ((3,), (3, 1), (1, 3))}


@unbroadcast.check("both kinds at once: (4, 1) in (2, 4, 3), (2, 1, 3) in (5, 2, 4, 3), () in (2, 3)")
def _(my, rng):
    cases = (((2, 4, 3), (4, 1)), ((5, 2, 4, 3), (2, 1, 3)), ((2, 3), ()))
    return {
        f"{small} from {large}": my.unbroadcast(rng.standard_normal(large), small) for large, small in cases
    }


@unbroadcast.check("nothing was stretched, and g is unchanged; no rows at all")
def _(my, rng):
    g = rng.standard_normal((2, 1, 3))
    return {
        "(2, 1, 3) from (2, 1, 3)": my.unbroadcast(g, (2, 1, 3)),
        "after the call, g": g,
        "(3,) from (0, 3)": my.unbroadcast(np.zeros((0, 3)), (3,)),
    }


unbroadcast.wrong(
    "You sum over the axes that were added on the left, but not over those of length 1 that were stretched.",
    "g.sum(axis=ones, keepdims=True)",
    "g",
)
unbroadcast.wrong(
    (
        "The stretched axes are summed and dropped: (2, 1) comes out as (2,). Keep them with length 1: "
        "keepdims=True."
    ),
    ", keepdims=True",
    "",
)
unbroadcast.wrong(
    "You take the mean over the copies. The chain rule adds up the contributions of all copies: sum.",
    "g.sum(axis=ones, keepdims=True)",
    "g.mean(axis=ones, keepdims=True)",
)
unbroadcast.wrong(
    "You sum over axis 0 only. Broadcasting stretches other axes too, and may add several on the left.",
    body="return g if g.shape == shape else g.sum(axis=0)",
)
unbroadcast.wrong(
    (
        "You put elements of g into the shape without summing; reshaping cannot undo copies. Sum over the "
        "stretched axes."
    ),
    body="return g.reshape(-1)[: int(np.prod(shape))].reshape(shape)",
)
unbroadcast.wrong(
    (
        "You sum over axes of length 1 by their position in `shape` while g still has the axes on the left. "
        "In g their position is larger by `extra`: sum over the left axes first."
    ),
    body="""
g = g.sum(axis=tuple(i for i, n in enumerate(shape) if n == 1), keepdims=True)
return g.sum(axis=tuple(range(g.ndim - len(shape))))
""",
)

unbroadcast.wrong(
    (
        "The axes added on the left are summed, but kept with length 1. `shape` does not have them: sum "
        "without keepdims."
    ),
    "g.sum(axis=tuple(range(extra)))",
    "g.sum(axis=tuple(range(extra)), keepdims=True)",
)
unbroadcast.wrong(
    "The axes added on the left are still there. `shape` does not have them: sum over them first.",
    "g = g.sum(axis=tuple(range(extra)))\n",
    "pass\n",
)
unbroadcast.wrong(
    (
        "You sum over axis 0 whenever axes were added on the left. There may be several: sum over the first "
        "g.ndim - len(shape) axes."
    ),
    "g.sum(axis=tuple(range(extra)))",
    "g.sum(axis=0) if extra else g",
)

# ---------------------------------------------------------------- add_backward

add_backward = lesson.exercise(
    "add_backward",
    hints=(
        "How far does x + y move when x is nudged?",
        "The slope is 1 for both, so both get g, each in its own shape.",
        "unbroadcast(g, x.shape), and the same for y.",
    ),
    why="Adding a bias broadcasts, a residual connection (x + f(x)) does not: both use this rule.",
)


@add_backward.check("shapes that differ: (2, 3) + (3,), (2, 1) + (3,), (4, 1) + (2, 1, 3)")
def _(my, rng):
    found = {}
    for z, x, y in (((2, 3), (2, 3), (3,)), ((2, 3), (2, 1), (3,)), ((2, 4, 3), (4, 1), (2, 1, 3))):
        gradients = my.add_backward(*(rng.standard_normal(shape) for shape in (z, x, y)))
        found[f"for {x} + {y}"] = dict(zip(("the gradient of x", "the gradient of y"), gradients))
    return found


@add_backward.check("square: (3, 3) + (3,) and (3, 1) + (3, 3)")
def _(my, rng):
    g = rng.standard_normal((3, 3))
    names = ("the gradient of x", "the gradient of y")
    return {
        "(3, 3) + (3,)": dict(zip(names, my.add_backward(g, np.ones((3, 3)), np.ones(3)))),
        "(3, 1) + (3, 3)": dict(zip(names, my.add_backward(g, np.ones((3, 1)), np.ones((3, 3))))),
    }


@add_backward.gradcheck(
    forward=lambda x, y: x + y,
    inputs=lambda rng: [rng.standard_normal((2, 1, 3)), rng.standard_normal((4, 1))],
)
def _(my, g, x, y):
    return my.add_backward(g, x, y)


add_backward.wrong(
    "You return g for both, in the shape of z. Sum each back to its argument's shape: unbroadcast.",
    "unbroadcast(g, x.shape), unbroadcast(g, y.shape)",
    "g, g",
)
add_backward.wrong(
    "The first gradient is right. The second argument may have been stretched as well: unbroadcast both.",
    "unbroadcast(g, y.shape)",
    "g",
)
add_backward.wrong(
    "The two shapes are swapped: the first gradient belongs to x.",
    "unbroadcast(g, x.shape), unbroadcast(g, y.shape)",
    "unbroadcast(g, y.shape), unbroadcast(g, x.shape)",
)
add_backward.wrong(
    "You multiplied by the other argument; that is the product's rule. In a sum the slope is 1.",
    "unbroadcast(g, x.shape), unbroadcast(g, y.shape)",
    "unbroadcast(g * y, x.shape), unbroadcast(g * x, y.shape)",
)
add_backward.wrong(
    "The shapes are right, but you use ones instead of g. g says how fast L changes with each entry of z.",
    "unbroadcast(g, x.shape), unbroadcast(g, y.shape)",
    "unbroadcast(np.ones_like(g), x.shape), unbroadcast(np.ones_like(g), y.shape)",
)

add_backward.wrong(
    (
        "You sum the second gradient over axis 0, whatever its shape. y.shape shows which axes were "
        "stretched: unbroadcast."
    ),
    "unbroadcast(g, x.shape), unbroadcast(g, y.shape)",
    "g, g.sum(axis=0)",
)
add_backward.wrong(
    "unbroadcast takes a shape, not the array: x.shape, y.shape.",
    "unbroadcast(g, x.shape), unbroadcast(g, y.shape)",
    "unbroadcast(g, x), unbroadcast(g, y)",
)

# ---------------------------------------------------------------- mul_backward

mul_backward = lesson.exercise(
    "mul_backward",
    hints=(
        "In lesson 01, what is the slope of a product in one of its factors?",
        "For each entry, compute g times the other factor. Then sum back to the factor's own shape.",
        "unbroadcast(g * y, x.shape) for x; the same with x and y swapped for y.",
    ),
    why=(
        "Masks, dropout, gates and the scale of a normalization are products that broadcast: all of them use "
        "this rule."
    ),
)


@mul_backward.check("the lesson's example: (2, 3) * (3,)")
def _(my, rng):
    g = np.array([[1.0, 0, 2], [0, 1, 1]])
    gradients = my.mul_backward(g, np.array([[1.0, 2, 3], [4, 5, 6]]), np.array([10.0, 20, 30]))
    return dict(zip(("the gradient of x", "the gradient of y"), gradients))


@mul_backward.check("square, and a number: (3, 3) * (3,) and (3, 3) * ()")
def _(my, rng):
    g, x = rng.standard_normal((3, 3)), rng.standard_normal((3, 3))
    names = ("the gradient of x", "the gradient of y")
    return {
        "(3, 3) * (3,)": dict(zip(names, my.mul_backward(g, x, rng.standard_normal(3)))),
        "(3, 3) * ()": dict(zip(names, my.mul_backward(g, x, np.array(2.0)))),
    }


@mul_backward.gradcheck(
    forward=lambda x, y: x * y,
    inputs=lambda rng: [rng.standard_normal((2, 1, 3)), rng.standard_normal((4, 1))],
)
def _(my, g, x, y):
    return my.mul_backward(g, x, y)


@mul_backward.check("g and the arguments are unchanged")
def _(my, rng):
    g, x, y = rng.standard_normal((3, 2)), rng.standard_normal((3, 2)), rng.standard_normal((3, 2))
    my.mul_backward(g, x, y)
    return {"after the call, g": g, "after the call, x": x, "after the call, y": y}


mul_backward.wrong(
    "You multiply by the factor itself instead of the other one: x's slope is y.",
    "unbroadcast(g * y, x.shape), unbroadcast(g * x, y.shape)",
    "unbroadcast(g * x, x.shape), unbroadcast(g * y, y.shape)",
)
mul_backward.wrong(
    "The products are right, but in the shape of z. Sum each back to its argument's shape: unbroadcast.",
    "unbroadcast(g * y, x.shape), unbroadcast(g * x, y.shape)",
    "g * y, g * x",
)
mul_backward.wrong(
    "You summed g before multiplying. Each copy meets another factor, so multiply first and then sum.",
    "unbroadcast(g * y, x.shape), unbroadcast(g * x, y.shape)",
    (
        "unbroadcast(g, x.shape) * unbroadcast(y * np.ones_like(g), x.shape), unbroadcast(g, y.shape) * "
        "unbroadcast(x * np.ones_like(g), y.shape)"
    ),
)
mul_backward.wrong(
    "g is missing: the gradient is g times the slope.",
    "unbroadcast(g * y, x.shape), unbroadcast(g * x, y.shape)",
    "unbroadcast(y * np.ones_like(g), x.shape), unbroadcast(x * np.ones_like(g), y.shape)",
)

mul_backward.wrong(
    (
        "`g *= y` writes into g, which other rules still need (and your second gradient uses the changed g). "
        "Make a new array: g * y."
    ),
    body="""
dx = g
dx *= y
return unbroadcast(dx, x.shape), unbroadcast(g * x, y.shape)
""",
)
mul_backward.wrong(
    "The first gradient is right. The second argument may have been stretched as well: unbroadcast both.",
    "unbroadcast(g * x, y.shape)",
    "g * x",
)
mul_backward.wrong(
    "The products are right, but the shapes are swapped: the first gradient has the shape of x.",
    "unbroadcast(g * y, x.shape), unbroadcast(g * x, y.shape)",
    "unbroadcast(g * y, y.shape), unbroadcast(g * x, x.shape)",
)

mul_backward.wrong(
    (
        "The gradients are right, but `g *= y` writes into g, which other rules still need. Make a new "
        "array: g * y."
    ),
    body="""
dy = unbroadcast(g * x, y.shape)
g *= y
return unbroadcast(g, x.shape), dy
""",
)

# ---------------------------------------------------------------- sum_backward

sum_backward = lesson.exercise(
    "sum_backward",
    hints=(
        "How far does the sum move when one of its entries is nudged? So what does each entry get?",
        "Copy g back along the summed axes. To broadcast correctly, g needs these axes again, with length 1.",
        "np.expand_dims(g, axis) unless axis is None or keepdims is set; then np.broadcast_to(g, x.shape).",
    ),
    why=(
        "Losses end in a sum or a mean, and softmax and normalization have one inside; a wrong axis here "
        "raises no error on square arrays."
    ),
)


@sum_backward.check("(2, 3), along each axis, without keepdims and with")
def _(my, rng):
    x, found = np.zeros((2, 3)), {}
    for axis in (0, 1, -1, -2):
        for keepdims in (False, True):
            g = rng.standard_normal(x.sum(axis=axis, keepdims=keepdims).shape)
            found[f"your result for axis={axis}, keepdims={keepdims}"] = my.sum_backward(g, x, axis, keepdims)
    return found


@sum_backward.check("square (3, 3): the wrong axis would not crash")
def _(my, rng):
    g = np.array([1.0, 2.0, 3.0])
    return {
        f"your result for axis={axis}": my.sum_backward(g, np.zeros((3, 3)), axis=axis) for axis in (0, 1)
    }


@sum_backward.check("everything: axis=None, without keepdims and with")
def _(my, rng):
    return {
        "your result for keepdims=False": my.sum_backward(np.array(2.5), np.zeros((2, 3))),
        "your result for keepdims=True": my.sum_backward(np.array([[2.5]]), np.zeros((2, 3)), None, True),
    }


@sum_backward.check("several axes: (0, 2) and (-1, 0) of a cube of shape (3, 3, 3)")
def _(my, rng):
    g, x = rng.standard_normal(3), np.zeros((3, 3, 3))
    return {
        "your result for axis=(0, 2)": my.sum_backward(g, x, axis=(0, 2)),
        "your result for axis=(-1, 0)": my.sum_backward(g, x, axis=(-1, 0)),
        "your result for axis=1": my.sum_backward(rng.standard_normal((3, 3)), x, axis=1),
    }


sum_backward.wrong(
    (
        "You broadcast g as it is, or with the axis in front, which is the same. Without keepdims the summed "
        "axis is gone: put it back where it was. On a square array the wrong axis raises no error."
    ),
    "np.expand_dims(g, axis)",
    "g",
)
sum_backward.wrong(
    "You put the axis back even when keepdims has kept it; then there is one axis too many.",
    "if axis is not None and not keepdims:",
    "if axis is not None:",
)
sum_backward.wrong(
    "You divided by the number of entries; that is the mean's rule. Each entry moves the sum in full.",
    "np.broadcast_to(g, x.shape)",
    "np.broadcast_to(g, x.shape) * (np.size(g) / x.size)",
)
sum_backward.wrong(
    "The shape is right, but every entry gets 1. Copy g, which says how fast L changes with each sum.",
    "np.broadcast_to(g, x.shape)",
    "np.ones_like(x)",
)
sum_backward.wrong(
    "You always put the axis back at the end. Put it back where it was summed.",
    "np.expand_dims(g, axis)",
    "np.expand_dims(g, -1)",
)

sum_backward.wrong(
    (
        "You multiply by x. The sum moves exactly as far as the entry that is nudged: the slope is 1, "
        "whatever x is."
    ),
    "np.broadcast_to(g, x.shape)",
    "g * x",
)
sum_backward.wrong(
    (
        "With axis=None there is no axis to put back, and np.expand_dims raises an error for None: a single "
        "number broadcasts as it is."
    ),
    "if axis is not None and not keepdims:",
    "if not keepdims:",
)

# ---------------------------------------------------------------- mean_backward

mean_backward = lesson.exercise(
    "mean_backward",
    hints=(
        "How many entries go into one mean?",
        (
            "The mean is the sum divided by n, so its gradient is the sum's divided by n. n is x.size "
            "divided by the number of means."
        ),
        "sum_backward(g, x, axis, keepdims) * np.size(g) / x.size.",
    ),
    why=(
        "The loss of a batch is a mean, so the step size need not change with the batch size; this rule does "
        "that division."
    ),
)


@mean_backward.check("(2, 3), along each axis, without keepdims and with")
def _(my, rng):
    x, found = np.zeros((2, 3)), {}
    for axis in (0, 1, -1):
        for keepdims in (False, True):
            g = rng.standard_normal(x.sum(axis=axis, keepdims=keepdims).shape)
            found[f"your result for axis={axis}, keepdims={keepdims}"] = my.mean_backward(
                g, x, axis, keepdims
            )
    return found


@mean_backward.check("everything, and several axes")
def _(my, rng):
    return {
        "your result for axis=None": my.mean_backward(np.array(6.0), np.zeros((2, 3))),
        "your result for axis=(0, 2)": my.mean_backward(
            rng.standard_normal(4), np.zeros((2, 4, 3)), axis=(0, 2)
        ),
    }


@mean_backward.check("g is unchanged")
def _(my, rng):
    g = rng.standard_normal((3, 1))
    found = my.mean_backward(g, np.zeros((3, 2)), axis=1, keepdims=True)
    return {"the gradient": found, "after the call, g": g}


@mean_backward.gradcheck(
    forward=lambda x: x.mean(axis=1), inputs=lambda rng: [rng.standard_normal((3, 3, 2))]
)
def _(my, g, x):
    return my.mean_backward(g, x, axis=1)


mean_backward.wrong(
    "That is the gradient of the sum. Divide by the number of entries that go into one mean.",
    " * (np.size(g) / x.size)",
    "",
)
mean_backward.wrong(
    "You divide by all entries of x. Along an axis, one mean has only as many entries as the axis is long.",
    "np.size(g) / x.size",
    "1 / x.size",
)
mean_backward.wrong(
    "You divide by the number of rows, len(x), whatever the axis. Count the entries that go into one mean.",
    "np.size(g) / x.size",
    "1 / len(x)",
)
mean_backward.wrong(
    (
        "You divide by the number of means. Divide by the number of entries in each: x.size divided by the "
        "number of means."
    ),
    "np.size(g) / x.size",
    "1 / np.size(g)",
)
mean_backward.wrong(
    "You multiply by n where you should divide by it.", "np.size(g) / x.size", "x.size / np.size(g)"
)

mean_backward.wrong(
    (
        "x.shape[axis] works for one axis only. axis may be None or a tuple. x.size divided by the number of "
        "means, np.size(g), always works."
    ),
    " * (np.size(g) / x.size)",
    " / x.shape[axis]",
)
mean_backward.wrong(
    (
        "The gradient is right, but `g /= n` writes into g, which other rules still need. Make a new array: "
        "g / n."
    ),
    body="""
g /= x.size / np.size(g)
return sum_backward(g, x, axis, keepdims)
""",
)

# ---------------------------------------------------------------- max_backward

max_backward = lesson.exercise(
    "max_backward",
    hints=(
        "Which entries move the maximum when they are nudged?",
        (
            "Mark the entries that equal the maximum (keepdims=True lets it broadcast), divide the marks by "
            "how many there are, multiply by g."
        ),
        (
            "chosen = x == x.max(axis, keepdims=True); chosen / chosen.sum(axis, keepdims=True) times "
            "sum_backward(g, x, axis, keepdims)."
        ),
    ),
    why=(
        "Pooling and hinge losses use max. Ties follow a convention: PyTorch's amax and minigrad divide g, "
        "so that the total is g."
    ),
)


@max_backward.check("(2, 3), along each axis, without keepdims and with")
def _(my, rng):
    x, found = rng.standard_normal((2, 3)), {}
    for axis in (0, 1, -1):
        for keepdims in (False, True):
            g = rng.standard_normal(x.sum(axis=axis, keepdims=keepdims).shape)
            found[f"your result for axis={axis}, keepdims={keepdims}"] = my.max_backward(g, x, axis, keepdims)
    return found


@max_backward.check("ties get equal parts, in a row and over everything")
def _(my, rng):
    x = np.array([[3.0, 1.0, 3.0], [0.0, 3.0, 2.0]])
    return {
        "your result for axis=1": my.max_backward(np.array([1.0, 10.0]), x, axis=1),
        "your result for axis=None": my.max_backward(np.array(6.0), x),
    }


@max_backward.check("all entries negative; square; several axes")
def _(my, rng):
    x = -np.exp(rng.standard_normal((3, 3, 3)))
    one, two = rng.standard_normal((3, 3)), rng.standard_normal(3)
    return {
        "your result for axis=1": my.max_backward(one, x, axis=1),
        "your result for axis=(0, 2)": my.max_backward(two, x, axis=(0, 2)),
    }


@max_backward.check("x and g are unchanged")
def _(my, rng):
    x, g = rng.standard_normal((2, 3)), rng.standard_normal((2, 1))
    found = my.max_backward(g, x, axis=1, keepdims=True)
    return {"the gradient": found, "after the call, x": x, "after the call, g": g}


@max_backward.gradcheck(
    forward=lambda x: x.max(axis=0), inputs=lambda rng: [rng.permuted(np.arange(12.0)).reshape(4, 3)]
)
def _(my, g, x):
    return my.max_backward(g, x, axis=0)


max_backward.wrong(
    (
        "Each of the equally largest entries gets all of g: together that is more than the maximum moves. "
        "Divide by how many there are."
    ),
    "chosen / chosen.sum(axis=axis, keepdims=True)",
    "chosen",
)
max_backward.wrong(
    "Among equally largest entries only the first gets a gradient (argmax). Divide it equally among them.",
    body="""
if axis is None:
    flat = np.zeros(x.size)
    flat[x.argmax()] = np.asarray(g).item()
    return flat.reshape(x.shape)
if isinstance(axis, tuple):
    chosen = x == x.max(axis=axis, keepdims=True)
else:
    chosen = np.zeros(x.shape)
    np.put_along_axis(chosen, np.expand_dims(x.argmax(axis=axis), axis), 1.0, axis)
return chosen * sum_backward(g, x, axis, keepdims)
""",
)
max_backward.wrong(
    (
        "You mark the maximum of the whole array, whatever the axis. Each slice along the axis has a maximum "
        "of its own."
    ),
    "x.max(axis=axis, keepdims=True)",
    "x.max()",
)
max_backward.wrong(
    "Every entry gets g, as in a sum. Only the largest entries move the maximum.",
    "shares * sum_backward(g, x, axis, keepdims)",
    "sum_backward(g, x, axis, keepdims)",
)
max_backward.wrong(
    (
        "You multiply by g as it is. Without keepdims its axis is gone, and g is aligned at the right: put "
        "the axis back, as sum_backward does."
    ),
    "shares * sum_backward(g, x, axis, keepdims)",
    "shares * g",
)
max_backward.wrong(
    "You count the ties over the whole array. Count them along the axis, with keepdims=True.",
    "chosen.sum(axis=axis, keepdims=True)",
    "chosen.sum()",
)
max_backward.wrong(
    (
        "You multiply by the entries of x as well. The maximum moves exactly as far as its largest entry "
        "does: the slope is 1."
    ),
    "shares * sum_backward",
    "x * shares * sum_backward",
)

max_backward.wrong(
    "x is compared with the wrong maxima: without keepdims=True in x.max, the maximum has lost its axis.",
    "x.max(axis=axis, keepdims=True)",
    "x.max(axis=axis, keepdims=keepdims)",
)
max_backward.wrong(
    "The count of ties has lost its axis: it needs keepdims=True too, whatever the argument keepdims says.",
    "chosen.sum(axis=axis, keepdims=True)",
    "chosen.sum(axis=axis, keepdims=keepdims)",
)
max_backward.wrong(
    (
        "The gradient is right, but `-=` writes into x, which other rules still need. Make a new array, or "
        "compare x with its maximum."
    ),
    body="""
x -= x.max(axis=axis, keepdims=True)
chosen = x == 0
return chosen / chosen.sum(axis=axis, keepdims=True) * sum_backward(g, x, axis, keepdims)
""",
)

# ---------------------------------------------------------------- getitem_backward

getitem_backward = lesson.exercise(
    "getitem_backward",
    hints=(
        "Where did each number of y come from? What is the gradient of a number that was not picked?",
        (
            "Start with zeros in the shape of x and add g at the index. Where an index repeats, both must be "
            "added."
        ),
        "np.add.at(out, index, g) adds repeated entries one after the other; out[index] += g does not.",
    ),
    why=(
        "An embedding is a table indexed with words, and words repeat; two published GPT trainers got "
        "exactly this gradient wrong."
    ),
)


@getitem_backward.check("repeated indices: x[[0, 0, 1]] and x[[2, 2, 0, 2]]")
def _(my, rng):
    x = rng.standard_normal((4, 3))
    return {
        "your result for x[[0, 0, 1]]": my.getitem_backward(rng.standard_normal((3, 3)), x, [0, 0, 1]),
        "your result for x[[2, 2, 0, 2]]": my.getitem_backward(rng.standard_normal((4, 3)), x, [2, 2, 0, 2]),
    }


@getitem_backward.check("slices, also with a negative step, and a single row")
def _(my, rng):
    x = rng.standard_normal((4, 3))
    cases = {
        "your result for x[1:3]": (slice(1, 3),),
        "your result for x[:, ::-2]": (slice(None), slice(None, None, -2)),
        "your result for x[2]": (2,),
        "your result for x[..., 1]": (Ellipsis, 1),
    }
    return {
        name: my.getitem_backward(rng.standard_normal(x[index].shape), x, index)
        for name, index in cases.items()
    }


@getitem_backward.check("a mask, and pairs of row and column that repeat")
def _(my, rng):
    x = rng.standard_normal((3, 3))
    mask, pairs = x > x[1, 1], ([0, 1, 0], [2, 1, 2])
    return {
        "your result for x[x > x[1, 1]]": my.getitem_backward(rng.standard_normal(x[mask].shape), x, mask),
        "your result for x[[0, 1, 0], [2, 1, 2]]": my.getitem_backward(np.array([1.0, 2.0, 4.0]), x, pairs),
    }


@getitem_backward.gradcheck(forward=lambda x: x[[1, 1, 0]], inputs=lambda rng: [rng.standard_normal((2, 3))])
def _(my, g, x):
    return my.getitem_backward(g, x, [1, 1, 0])


@getitem_backward.check("x and g are unchanged")
def _(my, rng):
    x, g = rng.standard_normal((4, 3)), rng.standard_normal((2, 3))
    my.getitem_backward(g, x, [0, 0])
    return {"after the call, x": x, "after the call, g": g}


getitem_backward.wrong(
    (
        "`out[index] += g` (and `= g`) writes once to each position: where an index repeats, the last write "
        "overwrites the others. np.add.at adds each."
    ),
    "np.add.at(out, index, g)",
    "out[index] += g",
)
getitem_backward.wrong(
    "You start from x itself. What was not picked has gradient 0: start with zeros.",
    "np.zeros_like(x)",
    "x.copy()",
)
getitem_backward.wrong(
    "You return what was picked from x. Backward goes the other way: put g where y came from.",
    body="return x[index] * g",
)
getitem_backward.wrong(
    "You count how often each position was picked. Add g at that position instead of 1.",
    "np.add.at(out, index, g)",
    "np.add.at(out, index, 1.0)",
)
getitem_backward.wrong(
    "You write into x. Make a new array of zeros; a rule changes none of its arguments.",
    body="""
x[...] = 0
np.add.at(x, index, g)
return x.copy()
""",
)

getitem_backward.wrong(
    "np.add.at returns None: it writes into its first argument. Return that array afterwards.",
    body="return np.add.at(np.zeros_like(x), index, g)",
)

# ---------------------------------------------------------------- backward

backward = lesson.exercise(
    "backward",
    hints=(
        "When you process a node, newest first, is its gradient complete?",
        (
            "Keep a dictionary from node to the gradient that has arrived so far. Pop the node's; call each "
            "rule; unbroadcast; add to what the argument has."
        ),
        (
            "share = unbroadcast(rule(g, node.data, *arrays), arg.data.shape); pending[arg] = pending[arg] + "
            "share if arg in pending else share."
        ),
    ),
    why=(
        "With more rows in the table this trains every model of the course: minigrad's pull_back is this "
        "loop with more checks."
    ),
)


@backward.check("z = x * b + s, with broadcasting")
def _(my, rng):
    x, b, s = (
        my.Tensor(rng.standard_normal((2, 3))),
        my.Tensor(rng.standard_normal(3)),
        my.Tensor(rng.standard_normal((2, 1))),
    )
    z = my.apply(np.add, my.apply(np.multiply, x, b), s)
    my.backward(z, rng.standard_normal((2, 3)))
    return {"the grad of x": x.grad, "the grad of b": b.grad, "the grad of s": s.grad}


@backward.check("the same tensor twice in one product, and sums")
def _(my, rng):
    x = my.Tensor(rng.standard_normal((3, 3)))
    z = my.apply(np.sum, my.apply(np.multiply, x, x))
    my.backward(z, np.array(0.5))
    return {"the grad of x": x.grad, "the grad of z, not a leaf": z.grad}


@backward.check("used near the result and far from it: the order matters")
def _(my, rng):
    x = my.Tensor(np.array([0.1, 0.2]))
    y = my.apply(np.exp, x)
    w = my.apply(np.multiply, my.apply(np.exp, y), x)
    my.backward(my.apply(np.add, y, w), np.array([1.0, 3.0]))
    return x.grad


@backward.check("a sum whose arguments get the same array g: one of them is used again")
def _(my, rng):
    x, y = my.Tensor(np.array([1.0, 2.0])), my.Tensor(np.array([3.0, 4.0]))
    a = my.apply(np.multiply, x, y)
    z = my.apply(np.add, my.apply(np.add, a, x), y)
    g = np.array([1.0, 10.0])
    my.backward(z, g)
    return {"the grad of x": x.grad, "the grad of y": y.grad, "after the call, g": g}


@backward.check("called twice: the leaves' gradients add up")
def _(my, rng):
    x, y = my.Tensor(np.array([1.0, 2.0])), my.Tensor(np.array([3.0, 4.0]))
    z = my.apply(np.multiply, my.apply(np.multiply, x, x), y)
    my.backward(z, np.ones(2))
    my.backward(z, np.ones(2))
    return {"the grad of x": x.grad, "the grad of y": y.grad, "the grad of z, not a leaf": z.grad}


@backward.check("a leaf alone, called twice: the first g is unchanged")
def _(my, rng):
    x, g = my.Tensor(np.array([1.0, 2.0])), np.array([5.0, 6.0])
    my.backward(x, g)
    my.backward(x, np.array([1.0, 1.0]))
    return {"the grad of x": x.grad, "the first g, afterwards": g}


backward.wrong(
    "A tensor that was used twice keeps only its last contribution. Add to what has already arrived.",
    "pending[arg] + share if arg in pending else share",
    "share",
)
backward.wrong(
    (
        "The rules may return a gradient in the shape of z. Bring it to the argument's own shape with "
        "unbroadcast."
    ),
    "unbroadcast(rule(g, node.data, *arrays), arg.data.shape)",
    "rule(g, node.data, *arrays)",
)
backward.wrong(
    (
        "You add in place. The rule of np.add returns the same array for both arguments, so the other one "
        "changes too; make a new array with +."
    ),
    body="""
pending = {z: g}
for node in newest_first(z):
    g = pending.pop(node)
    if node.fun is None:
        node.grad = g if node.grad is None else node.grad + g
        continue
    arrays = [arg.data for arg in node.args]
    for rule, arg in zip(RULES[node.fun], node.args, strict=True):
        share = rule(g, node.data, *arrays)
        if share.shape != arg.data.shape:
            share = unbroadcast(share, arg.data.shape)
        if arg in pending:
            pending[arg] += share
        else:
            pending[arg] = share
""",
)
backward.wrong(
    "You start with ones. The gradient of z is given: g.",
    "pending = {z: g}",
    "pending = {z: np.ones_like(g)}",
)
backward.wrong(
    "You overwrite what the leaf held before. Gradients of several calls add up until they are cleared.",
    "node.grad = g if node.grad is None else node.grad + g",
    "node.grad = g",
)
backward.wrong(
    "You pass g on unchanged. Use the table: the rule computes the argument's gradient from the value's.",
    "rule(g, node.data, *arrays)",
    "g + np.zeros(node.data.shape)",
)
backward.wrong(
    (
        "You go straight from each node to its arguments (recursively). A node with several users then "
        "passes its gradient on before it is complete, or twice."
    ),
    body="""
seen = set()

def visit(node, g):
    if node.fun is None:
        node.grad = g if node.grad is None else node.grad + g
        return
    if node in seen:
        return
    seen.add(node)
    arrays = [arg.data for arg in node.args]
    for rule, arg in zip(RULES[node.fun], node.args, strict=True):
        visit(arg, unbroadcast(rule(g, node.data, *arrays), arg.data.shape))

visit(z, g)
""",
)
backward.wrong(
    (
        "The leaf keeps the array g that was passed in, and the second call adds into it in place. Make a "
        "new array: node.grad + g."
    ),
    "node.grad = g if node.grad is None else node.grad + g",
    "node.grad = g if node.grad is None else np.add(node.grad, g, out=node.grad)",
)
backward.wrong(
    "The rules take arrays, and you pass Tensors: take `.data` of each of node.args.",
    "[arg.data for arg in node.args]",
    "list(node.args)",
)
backward.wrong(
    "You keep a gradient on every node. Only leaves, those whose `fun` is None, keep theirs.",
    body="""
pending = {z: g}
for node in newest_first(z):
    g = pending.pop(node)
    node.grad = g if node.grad is None else node.grad + g
    if node.fun is None:
        continue
    arrays = [arg.data for arg in node.args]
    for rule, arg in zip(RULES[node.fun], node.args, strict=True):
        share = unbroadcast(rule(g, node.data, *arrays), arg.data.shape)
        pending[arg] = pending[arg] + share if arg in pending else share
""",
)
