"""Checks of lesson 02."""

import numpy as np

from tutorials.course import Checks

lesson = Checks()

# ---------------------------------------------------------------- unbroadcast

unbroadcast = lesson.exercise(
    "unbroadcast",
    hints=(
        "Along which axes does one number of the small array stand in several places of the large one?",
        "First sum over the axes that the small array does not have, g.ndim - len(shape) of them on the left. Then over those where it has length 1.",
        "g.sum(axis=tuple(range(extra))), then .sum(axis=<those i where shape[i] is 1>, keepdims=True).",
    ),
    why="Every operation on arrays broadcasts, so every gradient passes through this function: minigrad's engine calls it for each argument.",
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


@unbroadcast.check("nothing was stretched, and g is left as it was; no rows at all")
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
    "The stretched axes are summed and gone: (2, 1) comes out as (2,). Keep them as length 1, with keepdims=True.",
    ", keepdims=True",
    "",
)
unbroadcast.wrong(
    "You take the mean over the copies. Each copy's share counts in full: the chain rule adds.",
    "g.sum(axis=ones, keepdims=True)",
    "g.mean(axis=ones, keepdims=True)",
)
unbroadcast.wrong(
    "You sum over axis 0 only. Broadcasting stretches other axes too, and may add several on the left.",
    body="return g if g.shape == shape else g.sum(axis=0)",
)
unbroadcast.wrong(
    "The numbers of g are put into the shape, not summed: reshaping cannot undo copies. Sum over the axes that were stretched.",
    body="return g.reshape(-1)[: int(np.prod(shape))].reshape(shape)",
)
unbroadcast.wrong(
    "You sum over axes of length 1 by their place in `shape`, before the axes on the left are gone: aligned at the right, they lie `extra` further.",
    body="""
g = g.sum(axis=tuple(i for i, n in enumerate(shape) if n == 1), keepdims=True)
return g.sum(axis=tuple(range(g.ndim - len(shape))))
""",
)

unbroadcast.wrong(
    "The axes added on the left are summed, but left behind as length 1. `shape` does not have them: sum those without keepdims.",
    "g.sum(axis=tuple(range(extra)))",
    "g.sum(axis=tuple(range(extra)), keepdims=True)",
)
unbroadcast.wrong(
    "The axes added on the left are still there. `shape` does not have them: sum over them first.",
    "g = g.sum(axis=tuple(range(extra)))\n",
    "pass\n",
)
unbroadcast.wrong(
    "You sum over axis 0 whenever axes were added on the left. There may be several of them: all of the first g.ndim - len(shape).",
    "g.sum(axis=tuple(range(extra)))",
    "g.sum(axis=0) if extra else g",
)

# ---------------------------------------------------------------- add_backward

add_backward = lesson.exercise(
    "add_backward",
    hints=(
        "How far does x + y move when x is nudged?",
        "The slope is 1 for both, so both get g; but in their own shapes.",
        "unbroadcast(g, x.shape), and the same for y.",
    ),
    why="A bias is an addition that broadcasts, and a residual connection is one that does not: both are this rule.",
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
    "You return g for both, in the shape of z. What was stretched must be summed back to its own shape: unbroadcast.",
    "unbroadcast(g, x.shape), unbroadcast(g, y.shape)",
    "g, g",
)
add_backward.wrong(
    "The first gradient is right. The second argument may have been stretched as well: unbroadcast both.",
    "unbroadcast(g, y.shape)",
    "g",
)
add_backward.wrong(
    "The two shapes are exchanged: the first gradient belongs to x.",
    "unbroadcast(g, x.shape), unbroadcast(g, y.shape)",
    "unbroadcast(g, y.shape), unbroadcast(g, x.shape)",
)
add_backward.wrong(
    "You multiplied by the other argument; that is the product's rule. In a sum the slope is 1.",
    "unbroadcast(g, x.shape), unbroadcast(g, y.shape)",
    "unbroadcast(g * y, x.shape), unbroadcast(g * x, y.shape)",
)
add_backward.wrong(
    "Each gradient is right in shape, but g is replaced by ones. g says how much each entry of z counts.",
    "unbroadcast(g, x.shape), unbroadcast(g, y.shape)",
    "unbroadcast(np.ones_like(g), x.shape), unbroadcast(np.ones_like(g), y.shape)",
)

add_backward.wrong(
    "You sum the second gradient over axis 0, whatever its shape. Which axes were stretched can be read off y.shape: unbroadcast.",
    "unbroadcast(g, x.shape), unbroadcast(g, y.shape)",
    "g, g.sum(axis=0)",
)
add_backward.wrong(
    "unbroadcast wants a shape, not the array: x.shape, y.shape.",
    "unbroadcast(g, x.shape), unbroadcast(g, y.shape)",
    "unbroadcast(g, x), unbroadcast(g, y)",
)

# ---------------------------------------------------------------- mul_backward

mul_backward = lesson.exercise(
    "mul_backward",
    hints=(
        "In lesson 01, what is the slope of a product in one of its factors?",
        "For each entry: g times the other factor. Then back to the factor's own shape.",
        "unbroadcast(g * y, x.shape) for x; the same with the letters exchanged for y.",
    ),
    why="Masks, dropout, gates and the scale of a normalization are products that broadcast: all of them use this rule.",
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


@mul_backward.check("g and the arguments are left as they were")
def _(my, rng):
    g, x, y = rng.standard_normal((3, 2)), rng.standard_normal((3, 2)), rng.standard_normal((3, 2))
    my.mul_backward(g, x, y)
    return {"after the call, g": g, "after the call, x": x, "after the call, y": y}


mul_backward.wrong(
    "Each factor got itself in place of the other one: x's slope is y.",
    "unbroadcast(g * y, x.shape), unbroadcast(g * x, y.shape)",
    "unbroadcast(g * x, x.shape), unbroadcast(g * y, y.shape)",
)
mul_backward.wrong(
    "The products are right, but in the shape of z. What was stretched must be summed: unbroadcast.",
    "unbroadcast(g * y, x.shape), unbroadcast(g * x, y.shape)",
    "g * y, g * x",
)
mul_backward.wrong(
    "You summed g before multiplying. Each copy's share has a factor of its own, so multiply first and sum then.",
    "unbroadcast(g * y, x.shape), unbroadcast(g * x, y.shape)",
    "unbroadcast(g, x.shape) * unbroadcast(y * np.ones_like(g), x.shape), unbroadcast(g, y.shape) * unbroadcast(x * np.ones_like(g), y.shape)",
)
mul_backward.wrong(
    "g is missing: the slope alone is not yet the gradient.",
    "unbroadcast(g * y, x.shape), unbroadcast(g * x, y.shape)",
    "unbroadcast(y * np.ones_like(g), x.shape), unbroadcast(x * np.ones_like(g), y.shape)",
)

mul_backward.wrong(
    "`g *= y` writes into g, which others still need (and the second gradient is made from the damaged one). Make a new array: g * y.",
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
    "The products are right and the shapes are exchanged: the first gradient has the shape of x.",
    "unbroadcast(g * y, x.shape), unbroadcast(g * x, y.shape)",
    "unbroadcast(g * y, y.shape), unbroadcast(g * x, x.shape)",
)

mul_backward.wrong(
    "The gradients are right, but `g *= y` writes into g, which others still need. Make a new array: g * y.",
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
        "Copy g back along the summed axes. To line up, the axes must be there again, with length 1.",
        "np.expand_dims(g, axis) unless axis is None or keepdims is set; then np.broadcast_to(g, x.shape).",
    ),
    why="Losses end in a sum or a mean, and softmax and normalization have one inside; a wrong axis here is silent on square arrays.",
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
    "You broadcast g as it is, or with the axis in front, which is the same. Without keepdims the summed axis is gone: put it back where it was. On a square array the wrong axis is silent.",
    "np.expand_dims(g, axis)",
    "g",
)
sum_backward.wrong(
    "You put the axis back even when keepdims had kept it; then there is one too many.",
    "if axis is not None and not keepdims:",
    "if axis is not None:",
)
sum_backward.wrong(
    "You divided by the number of entries; that is the mean's rule. Each entry moves the sum in full.",
    "np.broadcast_to(g, x.shape)",
    "np.broadcast_to(g, x.shape) * (np.size(g) / x.size)",
)
sum_backward.wrong(
    "The shape is right, but every entry gets 1. Copy g, which says how much each sum counts.",
    "np.broadcast_to(g, x.shape)",
    "np.ones_like(x)",
)
sum_backward.wrong(
    "You put the axis back at the end, whichever it was. It belongs where it was summed.",
    "np.expand_dims(g, axis)",
    "np.expand_dims(g, -1)",
)

sum_backward.wrong(
    "You multiply by x. The sum moves exactly as far as the entry that is nudged: the slope is 1, whatever x is.",
    "np.broadcast_to(g, x.shape)",
    "g * x",
)
sum_backward.wrong(
    "With axis=None there is no axis to put back, and np.expand_dims refuses None: a single number lines up as it is.",
    "if axis is not None and not keepdims:",
    "if not keepdims:",
)

# ---------------------------------------------------------------- mean_backward

mean_backward = lesson.exercise(
    "mean_backward",
    hints=(
        "How many entries go into one mean?",
        "The mean is the sum over n, so its gradient is the sum's over n. n is x.size over the number of means.",
        "sum_backward(g, x, axis, keepdims) * np.size(g) / x.size.",
    ),
    why="The loss of a batch is a mean, so the step size does not depend on the batch's size; here is where that division happens.",
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


@mean_backward.check("g is left as it was")
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
    "You divide by all entries of x. Along an axis, only that axis' length goes into one mean.",
    "np.size(g) / x.size",
    "1 / x.size",
)
mean_backward.wrong(
    "You divide by the number of rows, len(x), whatever the axis. Count the entries that go into one mean.",
    "np.size(g) / x.size",
    "1 / len(x)",
)
mean_backward.wrong(
    "You divide by the number of means. Divide by the number of entries in each: x.size over the number of means.",
    "np.size(g) / x.size",
    "1 / np.size(g)",
)
mean_backward.wrong(
    "You multiply by n where you should divide by it.", "np.size(g) / x.size", "x.size / np.size(g)"
)

mean_backward.wrong(
    "x.shape[axis] works for one axis only. Axis may be None or a tuple: x.size over the number of means, np.size(g), always works.",
    " * (np.size(g) / x.size)",
    " / x.shape[axis]",
)
mean_backward.wrong(
    "The gradient is right, but `g /= n` writes into g, which others still need. Make a new array: g / n.",
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
        "Mark the entries that equal the maximum (keepdims=True makes it line up), divide the marks by how many there are, multiply by g.",
        "chosen = x == x.max(axis, keepdims=True); chosen / chosen.sum(axis, keepdims=True) times sum_backward(g, x, axis, keepdims).",
    ),
    why="Pooling and hinge losses are built on max, and the tie is a convention: PyTorch's amax and minigrad's share, so the total is g.",
)


@max_backward.check("(2, 3), along each axis, without keepdims and with")
def _(my, rng):
    x, found = rng.standard_normal((2, 3)), {}
    for axis in (0, 1, -1):
        for keepdims in (False, True):
            g = rng.standard_normal(x.sum(axis=axis, keepdims=keepdims).shape)
            found[f"your result for axis={axis}, keepdims={keepdims}"] = my.max_backward(g, x, axis, keepdims)
    return found


@max_backward.check("ties share equally, in a row and over everything")
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


@max_backward.check("x and g are left as they were")
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
    "Each of the equally largest entries gets all of g: together they claim more than the maximum moves. Divide by how many they are.",
    "chosen / chosen.sum(axis=axis, keepdims=True)",
    "chosen",
)
max_backward.wrong(
    "Among equally largest entries only the first gets something (argmax). Here they share equally.",
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
    "You mark the maximum of the whole array, whatever the axis. Each slice along the axis has a maximum of its own.",
    "x.max(axis=axis, keepdims=True)",
    "x.max()",
)
max_backward.wrong(
    "Every entry gets g, as in a sum. Only the largest entries move the maximum.",
    "shares * sum_backward(g, x, axis, keepdims)",
    "sum_backward(g, x, axis, keepdims)",
)
max_backward.wrong(
    "You multiply by g as it is. Without keepdims its axis is gone, and it lines up at the right: put it back, as sum_backward does.",
    "shares * sum_backward(g, x, axis, keepdims)",
    "shares * g",
)
max_backward.wrong(
    "You count the ties over the whole array. Count them along the axis, with keepdims=True.",
    "chosen.sum(axis=axis, keepdims=True)",
    "chosen.sum()",
)
max_backward.wrong(
    "You multiply by the entries of x as well. The maximum moves exactly as far as its largest entry does: the slope is 1.",
    "shares * sum_backward",
    "x * shares * sum_backward",
)

max_backward.wrong(
    "x and its maximum are compared out of line: without keepdims=True inside, the maximum has lost its axis.",
    "x.max(axis=axis, keepdims=True)",
    "x.max(axis=axis, keepdims=keepdims)",
)
max_backward.wrong(
    "The count of ties has lost its axis: it needs keepdims=True too, whatever the argument keepdims says.",
    "chosen.sum(axis=axis, keepdims=True)",
    "chosen.sum(axis=axis, keepdims=keepdims)",
)
max_backward.wrong(
    "The gradient is right, but `-=` writes into x, which others still need. Make a new array, or compare x with its maximum.",
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
        "Where did each number of y come from? What do the numbers get that were not picked?",
        "Start with zeros in the shape of x and add g at the index. Where the index repeats, both must arrive.",
        "np.add.at(out, index, g) adds one after the other; out[index] += g does not.",
    ),
    why="An embedding is a table that is indexed with words, and words repeat; two published GPT trainers got exactly this gradient wrong.",
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


@getitem_backward.check("x and g are left as they were")
def _(my, rng):
    x, g = rng.standard_normal((4, 3)), rng.standard_normal((2, 3))
    my.getitem_backward(g, x, [0, 0])
    return {"after the call, x": x, "after the call, g": g}


getitem_backward.wrong(
    "`out[index] += g` (and `= g`) writes once to each place: where an index repeats, the last write wins and the others are lost. np.add.at adds each.",
    "np.add.at(out, index, g)",
    "out[index] += g",
)
getitem_backward.wrong(
    "You start from x itself. What was not picked has gradient 0: start with zeros.",
    "np.zeros_like(x)",
    "x.copy()",
)
getitem_backward.wrong(
    "You return what was picked out of x. The way back is the other direction: g is put where y came from.",
    body="return x[index] * g",
)
getitem_backward.wrong(
    "You count how often each place was picked, but leave out g, which says how much each pick counts.",
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
        "When a node's turn comes, newest first, what is known of its gradient?",
        "Keep a dictionary from node to the gradient that has arrived so far. Pop the node's; ask each rule; unbroadcast; add to what its argument has.",
        "share = unbroadcast(rule(g, node.data, *arrays), arg.data.shape); pending[arg] = pending[arg] + share if arg in pending else share.",
    ),
    why="With more rows in the table this trains every model of the course: minigrad's pull_back is this loop, with more checks.",
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
    return {"the grad of x": x.grad, "the grad of z, of what is no leaf": z.grad}


@backward.check("used near the result and far from it: the order counts")
def _(my, rng):
    x = my.Tensor(np.array([0.1, 0.2]))
    y = my.apply(np.exp, x)
    w = my.apply(np.multiply, my.apply(np.exp, y), x)
    my.backward(my.apply(np.add, y, w), np.array([1.0, 3.0]))
    return x.grad


@backward.check("a sum whose arguments share g: one of them is used again")
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
    return {"the grad of x": x.grad, "the grad of y": y.grad, "the grad of z, of what is no leaf": z.grad}


@backward.check("a leaf alone, called twice: the first g is left as it was")
def _(my, rng):
    x, g = my.Tensor(np.array([1.0, 2.0])), np.array([5.0, 6.0])
    my.backward(x, g)
    my.backward(x, np.array([1.0, 1.0]))
    return {"the grad of x": x.grad, "the first g, afterwards": g}


backward.wrong(
    "A tensor that was used twice keeps the last share only. Add to what has arrived at it.",
    "pending[arg] + share if arg in pending else share",
    "share",
)
backward.wrong(
    "The rules may return a gradient in the shape of z. Bring it to the argument's own shape with unbroadcast.",
    "unbroadcast(rule(g, node.data, *arrays), arg.data.shape)",
    "rule(g, node.data, *arrays)",
)
backward.wrong(
    "You add in place. The rule of a sum returns the same array to both arguments, so the other one changes too; make a new array with +.",
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
    "You forget what the leaf held before. Gradients of several calls add up, until someone clears them.",
    "node.grad = g if node.grad is None else node.grad + g",
    "node.grad = g",
)
backward.wrong(
    "You pass g on unchanged. Ask the table: the rule turns the gradient of the value into that of the argument.",
    "rule(g, node.data, *arrays)",
    "g + np.zeros(node.data.shape)",
)
backward.wrong(
    "You walk from each node to its arguments at once (recursively). A node that is used again later then sends before all has arrived, or sends twice.",
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
    "The leaf keeps the very array g that was handed in, and the second call adds into it with +=. Make a new array: node.grad + g.",
    "node.grad = g if node.grad is None else node.grad + g",
    "node.grad = g if node.grad is None else np.add(node.grad, g, out=node.grad)",
)
backward.wrong(
    "The rules want arrays, and you gave them Tensors: take `.data` of each of node.args.",
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
