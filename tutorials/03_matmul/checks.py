"""Checks of lesson 03."""

import numpy as np

from tutorials.course import Checks

lesson = Checks()

# ---------------------------------------------------------------- outer_backward

outer_backward = lesson.exercise(
    "outer_backward",
    hints=(
        "Which entries of z use u[i], and what is it multiplied by there?",
        "u[i] is used in row i, with each v[j]: sum g[i, j] * v[j] over j. For v[j] it is column j.",
        "This is a matrix times a vector: g @ v for u, and g.T @ u (the same as u @ g) for v.",
    ),
    why=(
        "The gradient of every weight matrix is a sum of outer products, one for each row of the batch; here "
        "you differentiate an outer product."
    ),
)


@outer_backward.check("by hand: u of 2 entries, v of 3")
def _(my, rng):
    g = np.array([[1.0, 0.0, 2.0], [0.0, -1.0, 1.0]])
    return dict(
        zip(
            ("the gradient of u", "the gradient of v"),
            my.outer_backward(g, np.array([1.0, 2.0]), np.array([3.0, 4.0, 5.0])),
        )
    )


@outer_backward.check("both of length 3: swapped or transposed would not crash")
def _(my, rng):
    g, u, v = rng.standard_normal((3, 3)), rng.standard_normal(3), rng.standard_normal(3)
    return dict(zip(("the gradient of u", "the gradient of v"), my.outer_backward(g, u, v)))


@outer_backward.gradcheck(
    forward=np.outer, inputs=lambda rng: [rng.standard_normal(4), rng.standard_normal(3)]
)
def _(my, g, u, v):
    return my.outer_backward(g, u, v)


outer_backward.wrong(
    "g is transposed: u[i] is used in row i of z, so its gradient needs row i of g.",
    "g @ v, u @ g",
    "g.T @ v, u @ g.T",
)
outer_backward.wrong("The two gradients are swapped: the first belongs to u.", "g @ v, u @ g", "u @ g, g @ v")
outer_backward.wrong(
    "You summed g along its rows and columns and left out the other vector: u[i]'s slope in z[i, j] is v[j].",
    "g @ v, u @ g",
    "g.sum(axis=1), g.sum(axis=0)",
)
outer_backward.wrong(
    "You used the sum of the other vector. Each v[j] belongs to its own g[i, j]: multiply first, then sum.",
    "g @ v, u @ g",
    "g.sum(axis=1) * v.sum(), g.sum(axis=0) * u.sum()",
)

outer_backward.wrong(
    (
        "`*` multiplies element by element, and nothing is summed: g * v is still a matrix. Sum over j as "
        "well, as `@` does."
    ),
    "g @ v, u @ g",
    "g * v, g.T * u",
)
outer_backward.wrong(
    (
        "`*` multiplies element by element, and nothing is summed (and the shapes of u * g do not even "
        "broadcast). A matrix times a vector, summed, is `@`."
    ),
    "g @ v, u @ g",
    "g * v, u * g",
)
outer_backward.wrong(
    (
        "The second gradient is right. In the first, `*` multiplies element by element and nothing is "
        "summed: use `@`."
    ),
    "g @ v",
    "g * v",
)
outer_backward.wrong(
    "You compute outer products again. Here g is the matrix, and each gradient is a vector.",
    "g @ v, u @ g",
    "np.outer(g, v), np.outer(g, u)",
)

# ---------------------------------------------------------------- matvec_backward

matvec_backward = lesson.exercise(
    "matvec_backward",
    hints=(
        "Where is x[i, j] used, and what is it multiplied by there?",
        (
            "x[i, j] is used once, in y[i], with v[j]: its gradient is g[i] * v[j]. v[j] is used in every "
            "y[i], with x[i, j]."
        ),
        "np.outer(g, v) for x, and x.T @ g for v.",
    ),
    why=(
        "This is one input passing through a layer: the weight's gradient is the input times the incoming "
        "gradient."
    ),
)


@matvec_backward.check("by hand: (2, 3) @ (3,)")
def _(my, rng):
    x = np.array([[1.0, 2, 0], [0, 1, 3]])
    return dict(
        zip(
            ("the gradient of x", "the gradient of v"),
            my.matvec_backward(np.array([1.0, -2.0]), x, np.array([3.0, 4.0, 5.0])),
        )
    )


@matvec_backward.check("square: (3, 3) @ (3,)")
def _(my, rng):
    g, x, v = rng.standard_normal(3), rng.standard_normal((3, 3)), rng.standard_normal(3)
    return dict(zip(("the gradient of x", "the gradient of v"), my.matvec_backward(g, x, v)))


@matvec_backward.gradcheck(
    forward=lambda x, v: x @ v, inputs=lambda rng: [rng.standard_normal((4, 3)), rng.standard_normal(3)]
)
def _(my, g, x, v):
    return my.matvec_backward(g, x, v)


matvec_backward.wrong(
    "The outer product is transposed: row i of the gradient of x belongs to g[i].",
    "np.outer(g, v)",
    "np.outer(v, g)",
)
matvec_backward.wrong(
    "v[j] is multiplied by column j of x, so its gradient sums over the rows: x transposed, times g.",
    "x.T @ g",
    "x @ g",
)
matvec_backward.wrong(
    (
        "`.T` of a vector is the same vector, so g @ v.T is a single number or an error. The outer product "
        "has an entry g[i] * v[j] for each pair."
    ),
    "np.outer(g, v)",
    "g @ v.T",
)
matvec_backward.wrong(
    "Row i of the gradient of x is v times g[i]; you return v alone.",
    "np.outer(g, v)",
    "np.outer(np.ones_like(g), v)",
)

matvec_backward.wrong(
    (
        "`g * v` multiplies element by element, which works only if both have the same length. You need an "
        "entry for each pair i, j: an outer product."
    ),
    "np.outer(g, v)",
    "g * v",
)
matvec_backward.wrong(
    (
        "The first gradient is right. In the second, `*` multiplies element by element and nothing is "
        "summed: v[j] is used in every y[i], so use `@`."
    ),
    "x.T @ g",
    "x.T * g",
)
matvec_backward.wrong(
    "The two gradients are swapped: the first belongs to x.",
    "np.outer(g, v), x.T @ g",
    "x.T @ g, np.outer(g, v)",
)

# ---------------------------------------------------------------- matmul_backward

matmul_backward = lesson.exercise(
    "matmul_backward",
    hints=(
        "x[a, b] is used in row a of z. What is it multiplied by in column j?",
        (
            "Sum g[a, j] * y[b, j] over j: a row of g times a row of y. Or let all sizes differ, and find "
            "the product that has the shape of x."
        ),
        "g @ y.T for x, and x.T @ g for y.",
    ),
    why="These two lines are nearly all of the arithmetic of a Transformer's backward pass.",
)


@matmul_backward.check("the lesson's example by hand")
def _(my, rng):
    x, y = np.array([[1.0, 2, 0], [0, 1, 3]]), np.array([[1.0, 4], [2, 0], [5, 1]])
    return dict(
        zip(
            ("the gradient of x", "the gradient of y"),
            my.matmul_backward(np.array([[1.0, 0], [2, -1]]), x, y),
        )
    )


@matmul_backward.check("square: (3, 3) @ (3, 3), where all eight products fit")
def _(my, rng):
    g, x, y = rng.standard_normal((3, 3, 3))
    return dict(zip(("the gradient of x", "the gradient of y"), my.matmul_backward(g, x, y)))


@matmul_backward.check("one row, one column, and no inner axis")
def _(my, rng):
    return {
        "for (1, 3) @ (3, 1)": my.matmul_backward(
            rng.standard_normal((1, 1)), np.ones((1, 3)), rng.standard_normal((3, 1))
        ),
        "for (2, 0) @ (0, 3)": my.matmul_backward(np.ones((2, 3)), np.zeros((2, 0)), np.zeros((0, 3))),
    }


@matmul_backward.gradcheck(
    forward=lambda x, y: x @ y, inputs=lambda rng: [rng.standard_normal((2, 3)), rng.standard_normal((3, 4))]
)
def _(my, g, x, y):
    return my.matmul_backward(g, x, y)


matmul_backward.wrong(
    (
        "y is not transposed. On square matrices that runs, but is wrong; with different sizes the shapes do "
        "not fit."
    ),
    "g @ y.T",
    "g @ y",
)
matmul_backward.wrong("x is not transposed. Row a of y is multiplied by column a of x.", "x.T @ g", "x @ g")
matmul_backward.wrong(
    (
        "The factors are in the wrong order. x was on the left, so in its gradient g is on the left: g times "
        "y transposed."
    ),
    "g @ y.T",
    "y.T @ g",
)
matmul_backward.wrong(
    (
        "The factors are in the wrong order. y was on the right, so in its gradient g is on the right: x "
        "transposed times g."
    ),
    "x.T @ g",
    "g @ x.T",
)
matmul_backward.wrong(
    "You return y @ g.T, the transpose of the gradient.",
    "g @ y.T",
    "y @ g.T",
)
matmul_backward.wrong(
    "The two gradients are swapped: the first belongs to x.", "g @ y.T, x.T @ g", "x.T @ g, g @ y.T"
)
matmul_backward.wrong(
    (
        "`*` multiplies element by element. Each entry of x is multiplied by a whole row of y: use the "
        "matrix product, `@`."
    ),
    "g @ y.T, x.T @ g",
    "g * y.T, x.T * g",
)
matmul_backward.wrong(
    (
        "That is the rule of `*` from lesson 02. Here the product is `@`. Each entry is used several times, "
        "so the gradients are `@` products too."
    ),
    "g @ y.T, x.T @ g",
    "g * y, g * x",
)
matmul_backward.wrong(
    (
        "Nothing is transposed. Row a of x's gradient is row a of g times the rows of y, which is g @ y.T. "
        "The other needs x.T."
    ),
    "g @ y.T, x.T @ g",
    "g @ y, x @ g",
)
matmul_backward.wrong(
    (
        "You divide y's gradient by the number of rows. The contributions of the rows add up; if the loss is "
        "a mean, g already contains the division."
    ),
    "x.T @ g",
    "x.T @ g / len(x)",
)
matmul_backward.wrong(
    (
        "You divide both gradients by the number of rows. The contributions of all uses add up; if the loss "
        "is a mean, g already contains the division."
    ),
    "g @ y.T, x.T @ g",
    "g @ y.T / len(x), x.T @ g / len(x)",
)

matmul_backward.wrong(
    (
        "The second gradient is right. In the first, `*` multiplies element by element: use the matrix "
        "product, `@`."
    ),
    "g @ y.T",
    "g * y.T",
)
matmul_backward.wrong(
    (
        "The first gradient is right. In the second, `*` multiplies element by element: use the matrix "
        "product, `@`."
    ),
    "x.T @ g",
    "x.T * g",
)

# ---------------------------------------------------------------- linear_backward

linear_backward = lesson.exercise(
    "linear_backward",
    hints=(
        "How often is one weight used, and how often one entry of the bias?",
        (
            "All axes but the last are rows. Flatten g and x to two axes; then use matmul_backward's "
            "formulas with weight.T, and a sum for the bias."
        ),
        (
            "g @ weight; g_rows.T @ x_rows; g_rows.sum(axis=0), with g_rows = g.reshape(-1, g.shape[-1]) and "
            "the same for x_rows."
        ),
    ),
    why="A Transformer block has six linear layers; their weights are nearly all of its parameters.",
)


@linear_backward.check("two axes: x of shape (4, 3), five outputs")
def _(my, rng):
    g, x, weight = rng.standard_normal((4, 5)), rng.standard_normal((4, 3)), rng.standard_normal((5, 3))
    return dict(
        zip(
            ("the gradient of x", "the gradient of weight", "the gradient of bias"),
            my.linear_backward(g, x, weight),
        )
    )


@linear_backward.check("square weight and batch: all of length 3")
def _(my, rng):
    g, x, weight = rng.standard_normal((3, 3, 3))
    return dict(
        zip(
            ("the gradient of x", "the gradient of weight", "the gradient of bias"),
            my.linear_backward(g, x, weight),
        )
    )


@linear_backward.check("three axes (2, 4, 3), and four")
def _(my, rng):
    weight = rng.standard_normal((5, 3))
    found = {}
    for lead in ((2, 4), (2, 3, 2)):
        gradients = my.linear_backward(
            rng.standard_normal((*lead, 5)), rng.standard_normal((*lead, 3)), weight
        )
        found[f"for x of shape {(*lead, 3)}"] = dict(
            zip(("the gradient of x", "the gradient of weight", "the gradient of bias"), gradients)
        )
    return found


@linear_backward.check("a single input without a batch, and an empty batch")
def _(my, rng):
    weight = rng.standard_normal((5, 3))
    return {
        "for x of shape (3,)": my.linear_backward(rng.standard_normal(5), rng.standard_normal(3), weight),
        "for x of shape (0, 3)": my.linear_backward(np.zeros((0, 5)), np.zeros((0, 3)), weight),
    }


@linear_backward.gradcheck(
    forward=lambda x, weight, bias: x @ weight.T + bias,
    inputs=lambda rng: [rng.standard_normal((2, 4, 3)), rng.standard_normal((5, 3)), rng.standard_normal(5)],
)
def _(my, g, x, weight, bias):
    return my.linear_backward(g, x, weight)


linear_backward.wrong(
    (
        "weight is transposed once too often. Forward uses weight.T, so backward needs the transpose of "
        "that: weight itself."
    ),
    "g @ weight",
    "g @ weight.T",
)
linear_backward.wrong(
    "The gradient of the weight is transposed: a row of it belongs to an output, as in the weight.",
    "g_rows.T @ x_rows",
    "x_rows.T @ g_rows",
)
linear_backward.wrong(
    (
        "You average over the rows. The contributions of the rows add up; if the loss is a mean, g already "
        "contains the division."
    ),
    "g_rows.sum(axis=0)",
    "g_rows.sum(axis=0) / max(len(g_rows), 1)",
)
linear_backward.wrong(
    "The bias was copied along all axes but the last. You sum over the first only.",
    "g_rows.sum(axis=0)",
    "g.sum(axis=0)",
)
linear_backward.wrong(
    "You sum over the outputs. The bias has one entry for each output: sum over the rows.",
    "g_rows.sum(axis=0)",
    "g_rows.sum(axis=1)",
)
linear_backward.wrong(
    "With more than two axes, `.T` reverses all of them. First flatten all axes but the last into rows.",
    body="return g @ weight, g.T @ x, g.sum(axis=tuple(range(g.ndim - 1)))",
)

linear_backward.wrong(
    (
        "You average the weight's gradient over the rows. The contributions of the rows add up; if the loss "
        "is a mean, g already contains the division."
    ),
    "g_rows.T @ x_rows",
    "g_rows.T @ x_rows / max(len(g_rows), 1)",
)
linear_backward.wrong(
    (
        "You average over the rows, in the weight and in the bias. The contributions of the rows add up; if "
        "the loss is a mean, g already contains the division."
    ),
    "g_rows.T @ x_rows, g_rows.sum(axis=0)",
    "g_rows.T @ x_rows / max(len(g_rows), 1), g_rows.sum(axis=0) / max(len(g_rows), 1)",
)
linear_backward.wrong(
    (
        "You compute one product for each entry of the batch and do not add them up. The weight was used in "
        "all of them: sum, or flatten first."
    ),
    "g_rows.T @ x_rows",
    "np.swapaxes(g, -1, -2) @ x",
)
linear_backward.wrong(
    "You sum all of g into one number. The bias has one entry for each output: sum over the rows only.",
    "g_rows.sum(axis=0)",
    "g.sum()",
)
linear_backward.wrong(
    "The bias was copied into every row, so its gradient is the sum of g over the rows. You return g itself.",
    "g_rows.sum(axis=0)",
    "g",
)
linear_backward.wrong(
    "The gradient of the bias is missing: return three gradients.",
    ", g_rows.sum(axis=0)",
    "",
)

linear_backward.wrong(
    (
        "With more than two axes, weight and bias are used in every entry of the batch, and you do not add "
        "those up. Flatten first, or sum over all."
    ),
    "g_rows.T @ x_rows, g_rows.sum(axis=0)",
    "np.swapaxes(g, -1, -2) @ x, g.sum(axis=0)",
)

# ---------------------------------------------------------------- permute_backward

permute_backward = lesson.exercise(
    "permute_backward",
    hints=(
        "Axis i of y is axis axes[i] of x. So which axis of y is axis 0 of x?",
        "Permute g by the inverse order: inverse[axes[i]] = i.",
        "np.argsort(axes) is that inverse.",
    ),
    why=(
        "Attention permutes (batch, time, heads, d_k) to split its heads, and a wrong order silently mixes "
        "up the heads."
    ),
)


@permute_backward.check("(2, 0, 1) on shape (4, 2, 3) and (1, 2, 0)")
def _(my, rng):
    g = rng.standard_normal((4, 2, 3))
    return {f"your result for axes {axes}": my.permute_backward(g, axes) for axes in ((2, 0, 1), (1, 2, 0))}


@permute_backward.check("a 3 x 3 x 3 cube: a wrong order would not crash")
def _(my, rng):
    g = np.arange(27.0).reshape(3, 3, 3)
    return {
        f"your result for axes {axes}": my.permute_backward(g, axes)
        for axes in ((2, 0, 1), (1, 2, 0), (0, 2, 1), (0, 1, 2))
    }


@permute_backward.check("splitting heads: (0, 2, 1, 3), and (2, 0, 3, 1) on four axes of length 2")
def _(my, rng):
    return {
        "your result for axes (0, 2, 1, 3)": my.permute_backward(
            rng.standard_normal((2, 3, 4, 5)), (0, 2, 1, 3)
        ),
        "your result for axes (2, 0, 3, 1)": my.permute_backward(
            rng.standard_normal((2, 2, 2, 2)), (2, 0, 3, 1)
        ),
    }


@permute_backward.gradcheck(
    forward=lambda x: np.transpose(x, (2, 0, 1)), inputs=lambda rng: [rng.standard_normal((3, 3, 3))]
)
def _(my, g, x):
    return my.permute_backward(g, (2, 0, 1))


permute_backward.wrong(
    (
        "You permute by the same axes again. That undoes a swap of two axes, but not (2, 0, 1): use the "
        "inverse order."
    ),
    "np.argsort(axes)",
    "axes",
)
permute_backward.wrong(
    "You reverse the order of axes. The inverse is another order: it says where each axis went.",
    "np.argsort(axes)",
    "axes[::-1]",
)
permute_backward.wrong(
    "You return g as it is: its elements are in the positions of y, not of x.",
    "np.transpose(g, np.argsort(axes))",
    "g",
)
permute_backward.wrong(
    "`.T` reverses all axes and ignores `axes`.",
    "np.transpose(g, np.argsort(axes))",
    "g.T",
)
permute_backward.wrong(
    (
        "reshape gives the right shape but keeps the elements in their order in memory. Moving axes takes a "
        "transpose."
    ),
    "np.transpose(g, np.argsort(axes))",
    "g.reshape([g.shape[i] for i in np.argsort(axes)])",
)

# ---------------------------------------------------------------- batched_matmul_backward

batched_matmul_backward = lesson.exercise(
    "batched_matmul_backward",
    hints=(
        (
            "How does matmul_backward change if each matrix of the batch has its own product? And if one "
            "matrix has several?"
        ),
        (
            "Transpose the last two axes only, multiply as for two matrices, then bring each gradient to its "
            "argument's shape."
        ),
        "np.swapaxes(y, -1, -2) instead of y.T, and unbroadcast(..., x.shape) around the product.",
    ),
    why=(
        "Attention multiplies (batch, heads, time, d_k) by (batch, heads, d_k, time): every score of every "
        "head in one call."
    ),
)


@batched_matmul_backward.check("a plain batch: (2, 3, 4) @ (2, 4, 5)")
def _(my, rng):
    g, x, y = rng.standard_normal((2, 3, 5)), rng.standard_normal((2, 3, 4)), rng.standard_normal((2, 4, 5))
    return dict(zip(("the gradient of x", "the gradient of y"), my.batched_matmul_backward(g, x, y)))


@batched_matmul_backward.check("cubes: (3, 3, 3) @ (3, 3, 3)")
def _(my, rng):
    g, x, y = rng.standard_normal((3, 3, 3, 3))
    return dict(zip(("the gradient of x", "the gradient of y"), my.batched_matmul_backward(g, x, y)))


@batched_matmul_backward.check("broadcast batches: (2, 1, 3, 4) @ (5, 4, 2)")
def _(my, rng):
    g, x, y = (
        rng.standard_normal((2, 5, 3, 2)),
        rng.standard_normal((2, 1, 3, 4)),
        rng.standard_normal((5, 4, 2)),
    )
    return dict(zip(("the gradient of x", "the gradient of y"), my.batched_matmul_backward(g, x, y)))


@batched_matmul_backward.check(
    "one matrix for the whole batch: (2, 3, 4) @ (4, 5), (3, 4) @ (2, 4, 5), (3, 3, 3) @ (3, 3)"
)
def _(my, rng):
    shapes = (((2, 3, 5), (2, 3, 4), (4, 5)), ((2, 3, 5), (3, 4), (2, 4, 5)), ((3, 3, 3), (3, 3, 3), (3, 3)))
    found = {}
    for case in shapes:
        gradients = my.batched_matmul_backward(*(rng.standard_normal(shape) for shape in case))
        found[f"for {case[1]} @ {case[2]}"] = dict(zip(("the gradient of x", "the gradient of y"), gradients))
    return found


@batched_matmul_backward.gradcheck(
    forward=np.matmul, inputs=lambda rng: [rng.standard_normal((2, 1, 3, 4)), rng.standard_normal((5, 4, 2))]
)
def _(my, g, x, y):
    return my.batched_matmul_backward(g, x, y)


batched_matmul_backward.wrong(
    "`.T` reverses all axes, the batch too. Transpose the last two only: np.swapaxes(y, -1, -2).",
    body="return unbroadcast(g @ y.T, x.shape), unbroadcast(x.T @ g, y.shape)",
)
batched_matmul_backward.wrong(
    (
        "The batch axes that were stretched are not summed. Bring each gradient to its argument's shape with "
        "unbroadcast."
    ),
    "unbroadcast(dx, x.shape), unbroadcast(dy, y.shape)",
    "dx, dy",
)
batched_matmul_backward.wrong(
    "y is not transposed: swap its last two axes.",
    "g @ np.swapaxes(y, -1, -2)",
    "g @ y",
)
batched_matmul_backward.wrong(
    "The factors are in the wrong order: x was on the left, so in its gradient g is on the left.",
    "g @ np.swapaxes(y, -1, -2)",
    "np.swapaxes(y, -1, -2) @ g",
)
batched_matmul_backward.wrong(
    "You average over the stretched axes. The contributions of all uses add up: sum.",
    "unbroadcast(dx, x.shape), unbroadcast(dy, y.shape)",
    "unbroadcast(dx, x.shape) * (x.size / dx.size), unbroadcast(dy, y.shape) * (y.size / dy.size)",
)
batched_matmul_backward.wrong(
    "You swap the first two axes. The matrices are in the last two: -1 and -2.",
    body="""
dx = g @ np.swapaxes(y, 0, 1)
dy = np.swapaxes(x, 0, 1) @ g
return unbroadcast(dx, x.shape), unbroadcast(dy, y.shape)
""",
)

batched_matmul_backward.wrong(
    "x is not transposed: swap its last two axes.",
    "np.swapaxes(x, -1, -2) @ g",
    "x @ g",
)
batched_matmul_backward.wrong(
    "The factors are in the wrong order: y was on the right, so in its gradient g is on the right.",
    "np.swapaxes(x, -1, -2) @ g",
    "g @ np.swapaxes(x, -1, -2)",
)
batched_matmul_backward.wrong(
    "`*` multiplies element by element. These are matrix products: `@`.",
    body="""
dx = g * np.swapaxes(y, -1, -2)
dy = np.swapaxes(x, -1, -2) * g
return unbroadcast(dx, x.shape), unbroadcast(dy, y.shape)
""",
)

# ---------------------------------------------------------------- matmul_flops

matmul_flops = lesson.exercise(
    "matmul_flops",
    hints=(
        "How many entries does the result have, and how many multiplications and additions go into each?",
        (
            "2 n k m for one matrix product, times the number of products in the batch. Backward computes "
            "two products, each with the same count."
        ),
        (
            "batch = math.prod(np.broadcast_shapes(x_shape[:-2], y_shape[:-2])); forward = 2 * batch * n * k "
            "* m; backward = 2 * forward."
        ),
    ),
    why=(
        "With it you can compute the cost of a model before you start it: lesson 16 adds up a whole "
        "Transformer."
    ),
)


@matmul_flops.check("(2, 3) @ (3, 4), and a column times a row")
def _(my, rng):
    names = ("forward", "backward")
    return {
        "for (2, 3) @ (3, 4)": dict(zip(names, my.matmul_flops((2, 3), (3, 4)))),
        "for (5, 1) @ (1, 7)": dict(zip(names, my.matmul_flops((5, 1), (1, 7)))),
    }


@matmul_flops.check("a batch (8, 2, 3) @ (8, 3, 4), and one matrix for all (8, 2, 3) @ (3, 4)")
def _(my, rng):
    names = ("forward", "backward")
    return {
        "for (8, 2, 3) @ (8, 3, 4)": dict(zip(names, my.matmul_flops((8, 2, 3), (8, 3, 4)))),
        "for (8, 2, 3) @ (3, 4)": dict(zip(names, my.matmul_flops((8, 2, 3), (3, 4)))),
    }


@matmul_flops.check("broadcast batches (2, 1, 3, 4) @ (5, 4, 2)")
def _(my, rng):
    return dict(zip(("forward", "backward"), my.matmul_flops((2, 1, 3, 4), (5, 4, 2))))


@matmul_flops.check("the lesson's layer: 4096 rows, 512 to 2048; and no rows")
def _(my, rng):
    names = ("forward", "backward")
    return {
        "for (4096, 512) @ (512, 2048)": dict(zip(names, my.matmul_flops((4096, 512), (512, 2048)))),
        "for (0, 512) @ (512, 2048)": dict(zip(names, my.matmul_flops((0, 512), (512, 2048)))),
    }


matmul_flops.wrong(
    "A multiplication and an addition are two operations: the factor 2 is missing.", "2 * batch", "batch"
)
matmul_flops.wrong(
    "Backward computes two products, one for each argument; each costs as much as the forward.",
    "forward, 2 * forward",
    "forward, forward",
)
matmul_flops.wrong(
    "You return the total for the step as the second number. Backward alone is twice the forward.",
    "forward, 2 * forward",
    "forward, 3 * forward",
)
matmul_flops.wrong(
    "The batch is missing: each product in it costs 2 n k m.",
    "2 * batch",
    "2",
)
matmul_flops.wrong(
    "You count only the batch axes of the first argument. They broadcast: (2, 1) and (5,) are 10 products.",
    "math.prod(np.broadcast_shapes(x_shape[:-2], y_shape[:-2]))",
    "math.prod(x_shape[:-2])",
)
matmul_flops.wrong(
    "You multiplied the batch axes of both. They broadcast: two equal lengths are one batch.",
    "math.prod(np.broadcast_shapes(x_shape[:-2], y_shape[:-2]))",
    "math.prod(x_shape[:-2]) * math.prod(y_shape[:-2])",
)
matmul_flops.wrong(
    (
        "A sum of k products takes k - 1 additions, so 2k - 1 is the exact count. By convention, and in the "
        "docstring, it is rounded to 2k."
    ),
    "2 * batch * math.prod(x_shape[-2:]) * y_shape[-1]",
    "batch * x_shape[-2] * (2 * x_shape[-1] - 1) * y_shape[-1]",
)
matmul_flops.wrong(
    "You return one number. Return two: forward and backward.",
    "forward, 2 * forward",
    "forward",
)
