"""Checks of lesson 11."""

import numpy as np

from tutorials.course import Checks

lesson = Checks()

# ---------------------------------------------------------------- order

is_equivariant = lesson.exercise(
    "is_equivariant",
    hints=(
        "You can get a reordered output from x in two ways: reorder first, or apply f first. How must the "
        "results be related?",
        "Apply f to x[order]. Apply f to x and put the result's rows in that order. Compare the two.",
        "np.allclose(f(x[order]), f(x)[order], rtol=0, atol=1e-9), converted to a bool.",
    ),
    why=(
        "With this test you can find out for any layer whether it depends on order: attention, a "
        "feed-forward network, a whole encoder."
    ),
)


@is_equivariant.check("attention without positions: yes")
def _(my, rng):
    def attend(x):
        e = np.exp(x @ x.T)
        return e / e.sum(-1, keepdims=True) @ x

    return my.is_equivariant(attend, rng.standard_normal((5, 3)), np.array([1, 2, 3, 4, 0]))


@is_equivariant.check("a function that adds positions: no")
def _(my, rng):
    return my.is_equivariant(
        lambda x: x + np.arange(5.0)[:, None], rng.standard_normal((5, 3)), np.array([1, 2, 3, 4, 0])
    )


@is_equivariant.check("a running sum: no; the sine of each element: yes, in any order")
def _(my, rng):
    x, turn, swap = rng.standard_normal((3, 3)), np.array([2, 0, 1]), np.array([1, 0, 2])
    return {
        "a running sum": my.is_equivariant(lambda x: x.cumsum(0), x, turn),
        "the sine, rows shifted cyclically": my.is_equivariant(np.sin, x, turn),
        "the sine, two rows exchanged": my.is_equivariant(np.sin, x, swap),
    }


@is_equivariant.check("the mean in all rows, which is the same in any order: yes")
def _(my, rng):
    return my.is_equivariant(lambda x: 0 * x + x.mean(0), rng.standard_normal((4, 2)), np.array([3, 0, 2, 1]))


@is_equivariant.check("a difference of 1e-12 is rounding: yes")
def _(my, rng):
    return my.is_equivariant(
        lambda x: x + 1e-12 * np.arange(4.0)[:, None], rng.standard_normal((4, 2)), np.array([3, 0, 2, 1])
    )


@is_equivariant.check("a difference of 1e-6 counts; the answer is a bool")
def _(my, rng):
    x, order = rng.standard_normal((4, 2)), np.array([3, 0, 2, 1])
    answer = my.is_equivariant(lambda x: x + 1e-6 * np.arange(4.0)[:, None], x, order)
    return {"the answer": bool(answer), "its type": type(answer).__name__}


is_equivariant.wrong(
    "You compare with f(x) itself. That tests invariance (the same output in any order); equivariant means "
    "that the output is reordered in the same way.",
    "f(x)[order]", "f(x)",
)  # fmt: skip
is_equivariant.wrong(
    "The output is put in the inverse order. Row j of x[order] is row order[j] of x, so row j of the output "
    "must be row order[j] too.",
    "f(x)[order]", "f(x)[np.argsort(order)]",
)  # fmt: skip
is_equivariant.wrong(
    "The columns are reordered. Positions are the rows; the columns are features.",
    body="""
    order = order[order < x.shape[1]]
    return bool(np.allclose(f(x[:, order]), f(x)[:, order], rtol=0, atol=1e-9))
    """,
)
is_equivariant.wrong(
    "The tolerance is too wide: a difference of 1e-6 passes as equal. It is 1e-9, and rtol must be 0.",
    "rtol=0, atol=1e-9", "atol=1e-3",
)  # fmt: skip

is_equivariant.wrong(
    "You return an answer for each element. Return a single True or False: np.allclose, converted to a bool.",
    "bool(np.allclose(f(x[order]), f(x)[order], rtol=0, atol=1e-9))",
    "abs(f(x[order]) - f(x)[order]) <= 1e-9",
)
is_equivariant.wrong(
    "You compare exactly. The same sum in another order differs in the last digit; equal means to within "
    "1e-9.",
    "np.allclose(f(x[order]), f(x)[order], rtol=0, atol=1e-9)", "np.array_equal(f(x[order]), f(x)[order])",
)  # fmt: skip

# ---------------------------------------------------------------- sinusoidal

sinusoidal = lesson.exercise(
    "sinusoidal",
    hints=(
        "How many different frequencies are there for d_model = 6, and which two columns share one?",
        "Column c has the frequency 10000^(-2i/d_model) with i = c // 2; even columns take the sine of "
        "position times frequency, odd the cosine.",
        "angle = np.arange(length)[:, None] / 10000.0 ** (column // 2 * 2 / d_model), then np.where(column % "
        "2 == 0, ...).",
    ),
    why=(
        "This is the table of the 2017 paper. A step along the sequence is a rotation because pairs share a "
        "frequency."
    ),
)


@sinusoidal.check("the worked example: 2 positions, d_model 6")
def _(my, rng):
    return my.sinusoidal(2, 6)


@sinusoidal.check("50 positions, d_model 16")
def _(my, rng):
    return my.sinusoidal(50, 16)


@sinusoidal.check("an odd d_model: 7 columns, the last a sine")
def _(my, rng):
    return my.sinusoidal(10, 7)


@sinusoidal.check("one position; one column")
def _(my, rng):
    return {"one position": my.sinusoidal(1, 4), "one column": my.sinusoidal(5, 1)}


sinusoidal.wrong(
    "Each column has its own frequency. A sine and its cosine share one: the exponent uses 2i for columns 2i "
    "and 2i + 1.",
    "column // 2 * 2 / d_model", "column / d_model",
)  # fmt: skip
sinusoidal.wrong(
    "The exponent is i / d_model, half of what it should be: 2i / d_model, where i is the index of the pair.",
    "column // 2 * 2 / d_model", "column // 2 / d_model",
)  # fmt: skip
sinusoidal.wrong(
    "Sine and cosine are exchanged: even columns are sines, so position 0 is 0, 1, 0, 1, ...",
    "np.where(column % 2 == 0, np.sin(angle), np.cos(angle))",
    "np.where(column % 2 == 0, np.cos(angle), np.sin(angle))",
)
sinusoidal.wrong(
    "All sines come first and all cosines after them. The paper interleaves: sine, cosine, sine, cosine.",
    body="""
    angle = np.arange(length)[:, None] / 10000.0 ** (np.arange(0, d_model, 2) / d_model)
    return np.concatenate([np.sin(angle), np.cos(angle)], axis=1)[:, :d_model]
    """,
)
sinusoidal.wrong(
    "An odd d_model fails: the last sine has no cosine, so there is no column i + 1 to write to.",
    body="""
    PE = np.zeros((length, d_model))
    for i in range(0, d_model, 2):
        angle = np.arange(length) / 10000 ** (i / d_model)
        PE[:, i], PE[:, i + 1] = np.sin(angle), np.cos(angle)
    return PE
    """,
)
sinusoidal.wrong(
    "Positions are counted from 1. The first one is 0, whose sines are all 0.",
    "np.arange(length)[:, None]", "np.arange(1, length + 1)[:, None]",
)  # fmt: skip

sinusoidal.wrong(
    "The positions are multiplied by 10000^(2i/d_model). Divide by it: later pairs rotate more slowly.",
    "[:, None] / 10000.0", "[:, None] * 10000.0",
)  # fmt: skip

shift_matrix = lesson.exercise(
    "shift_matrix",
    hints=(
        "What are sin(a + b) and cos(a + b), in terms of sin a and cos a?",
        "Each pair (sin, cos) is rotated by k times its frequency: a 2 x 2 block for each pair, with the "
        "cosine of that angle on the diagonal.",
        "The block is [[cos, sin], [-sin, cos]] of k / 10000^(i / d_model), with i = 0, 2, 4 ... the pair's "
        "first column.",
    ),
    why=(
        "The paper chose sines for this property: 'k positions further' is one fixed matrix, at every "
        "position."
    ),
)


@shift_matrix.check("k = 3, d_model 6")
def _(my, rng):
    return my.shift_matrix(3, 6)


@shift_matrix.check("k = 0 is the identity; k = -2 goes back")
def _(my, rng):
    return {"k = 0": my.shift_matrix(0, 4), "k = -2": my.shift_matrix(-2, 4)}


@shift_matrix.check("applied to PE(5), it gives PE(5 + 7)")
def _(my, rng):
    frequency = 10000.0 ** (-np.arange(0, 8, 2) / 8)
    return my.shift_matrix(7, 8) @ np.stack([np.sin(5 * frequency), np.cos(5 * frequency)], 1).ravel()


shift_matrix.wrong(
    "Your matrix goes in the other direction, to pos - k. The minus belongs in the lower left corner, since "
    "cos(a + b) = cos a cos b - sin a sin b.",
    "[[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]]",
    "[[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]",
)
shift_matrix.wrong(
    "All pairs are rotated by the same angle. Rotate pair i by k times its own frequency.",
    "k / 10000.0 ** (i / d_model)", "k",
)  # fmt: skip
shift_matrix.wrong(
    "The exponent has i / 2 instead of i: i is already the column, 0, 2, 4, ..., so the exponent is i / "
    "d_model.",
    "i / d_model", "i / 2 / d_model",
)  # fmt: skip
shift_matrix.wrong(
    "The sines are missing: your blocks have only the diagonal. A step mixes each sine with its cosine.",
    "[[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]]",
    "[[np.cos(angle), 0], [0, np.cos(angle)]]",
)

shift_matrix.wrong(
    "The frequency is inverted: the angle is k divided by 10000^(i / d_model).", "k / 10000.0", "k * 10000.0"
)

# ---------------------------------------------------------------- learned

learned_positions_backward = lesson.exercise(
    "learned_positions_backward",
    hints=(
        "Two sequences of a batch both have a position 3. How many gradients does row 3 of the table get?",
        "Start with zeros; loop over all (b, t) and add g[b, t] to the row positions[b, t].",
        "np.add.at(d, positions, g): unlike d[positions] += g it counts repeated rows.",
    ),
    why=(
        "This is the backward pass of every embedding, of tokens as well: each use of a row adds to its "
        "gradient."
    ),
)


@learned_positions_backward.check("three sequences at positions 0 ... 3, a table of 6")
def _(my, rng):
    return my.learned_positions_backward(rng.standard_normal((3, 4, 5)), np.tile(np.arange(4), (3, 1)), 6)


@learned_positions_backward.check("sequences that begin at different positions")
def _(my, rng):
    return my.learned_positions_backward(rng.standard_normal((2, 3, 2)), np.array([[0, 1, 2], [2, 3, 4]]), 5)


@learned_positions_backward.gradcheck(
    forward=lambda x, table, positions: x + table[positions],
    inputs=lambda rng: [
        rng.standard_normal((2, 3, 4)),
        rng.standard_normal((3, 4)),
        np.array([[2, 0, 1], [1, 1, 1]]),
    ],
)
def _(my, g, x, table, positions):
    return g, my.learned_positions_backward(g, positions, len(table))


@learned_positions_backward.check("integer positions, float gradient: fractions stay")
def _(my, rng):
    d = my.learned_positions_backward(np.full((1, 2, 1), 0.5), np.array([[0, 0]]), 2)
    return {"the gradient": d, "its type": str(d.dtype)}


learned_positions_backward.wrong(
    "A row that is used several times has only its last gradient: d[positions] += g writes each row once. "
    "Use np.add.at.",
    "np.add.at(d, positions, g)", "d[positions] += g",
)  # fmt: skip
learned_positions_backward.wrong(
    "The gradients of a row's uses are averaged. Sum them, as for any value that is used several times.",
    body="""
    d, count = np.zeros((max_len, g.shape[-1])), np.zeros((max_len, 1))
    np.add.at(d, positions, g)
    np.add.at(count, positions, 1)
    return d / np.maximum(count, 1)
    """,
)
learned_positions_backward.wrong(
    "You sum over the batch and use the index t in the sequence as the row. The row is positions[b, t].",
    body="""
    d = np.zeros((max_len, g.shape[-1]))
    d[: g.shape[1]] = g.sum(0)
    return d
    """,
)
learned_positions_backward.wrong(
    "Only the first sequence of the batch adds its gradient.",
    "np.add.at(d, positions, g)", "np.add.at(d, positions[0], g[0])",
)  # fmt: skip

# ---------------------------------------------------------------- rotary

rotary = lesson.exercise(
    "rotary",
    hints=(
        "What does a rotation by t do to the point (a, b) of the plane, and how large is t for pair i of the "
        "row at position p?",
        "Angles (T, D/2): position times base^(-2i/D). Take the first and the second columns of all pairs, "
        "rotate, and put the results back into these columns.",
        "y[..., first] = a * np.cos(angle) - b * np.sin(angle); y[..., second] = b * np.cos(angle) + a * "
        "np.sin(angle).",
    ),
    why=(
        "Nearly every recent language model encodes positions like this; with the wrong layout a published "
        "checkpoint writes nonsense."
    ),
)


@rotary.check("(2, 3, 5, 6), layout halves")
def _(my, rng):
    return my.rotary(rng.standard_normal((2, 3, 5, 6)), np.arange(5))


@rotary.check("(2, 3, 5, 6), layout interleaved")
def _(my, rng):
    return my.rotary(rng.standard_normal((2, 3, 5, 6)), np.arange(5), "interleaved")


@rotary.check("positions that do not begin at 0, another base")
def _(my, rng):
    x = rng.standard_normal((4, 8))
    return {"the result": my.rotary(x, np.array([7, 2, 2, 100]), base=100.0), "x after the call": x}


@rotary.check("one pair: a rotation of the plane, position 0 stays")
def _(my, rng):
    return my.rotary(np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]), np.array([0, 1, 1]))


rotary.wrong(
    "It rotates in the other direction: the minus belongs to the first element of a pair, a cos t - b sin t.",
    body="""
    D = x.shape[-1]
    angle = -positions[:, None] * base ** (-np.arange(0, D, 2) / D)
    first, second = pairs(D, layout)
    a, b = x[..., first], x[..., second]
    y = np.empty_like(x)
    y[..., first] = a * np.cos(angle) - b * np.sin(angle)
    y[..., second] = b * np.cos(angle) + a * np.sin(angle)
    return y
    """,
)
rotary.wrong(
    "The second element of each pair has a minus instead of a plus: b cos t + a sin t. Yours is not a "
    "rotation.",
    "b * np.cos(angle) + a * np.sin(angle)", "b * np.cos(angle) - a * np.sin(angle)",
)  # fmt: skip
rotary.wrong(
    "The layouts are exchanged, or you use one of them for both. Halves: i and i + D/2. Interleaved: 2i and "
    "2i + 1.",
    "pairs(D, layout)", 'pairs(D, "interleaved" if layout == "halves" else "halves")',
)  # fmt: skip
rotary.wrong(
    "All pairs rotate by the same angle. Rotate pair i by position times base^(-2i/D).",
    "positions[:, None] * base ** (-np.arange(0, D, 2) / D)", "positions[:, None] * np.ones(D // 2)",
)  # fmt: skip
rotary.wrong(
    "The exponent runs over 0, 1, 2, ... instead of 0, 2, 4, ...: it is -2i/D.",
    "np.arange(0, D, 2) / D", "np.arange(D // 2) / D",
)  # fmt: skip
rotary.wrong(
    "The second elements are computed from first elements that are already rotated. Keep the old ones until "
    "both are done.",
    body="""
    D = x.shape[-1]
    angle = positions[:, None] * base ** (-np.arange(0, D, 2) / D)
    first, second = pairs(D, layout)
    y = x.copy()
    y[..., first] = y[..., first] * np.cos(angle) - y[..., second] * np.sin(angle)
    y[..., second] = y[..., second] * np.cos(angle) + y[..., first] * np.sin(angle)
    return y
    """,
)
rotary.wrong(
    "You use the positions 0, 1, 2, ... for the rows. Use those in positions.",
    "positions[:, None]", "np.arange(len(positions))[:, None]",
)  # fmt: skip

rotary.wrong(
    "The result is right, but it was written into x itself. Write it into a new array.",
    "y = np.empty_like(x)\n", "y, a, b = x, a.copy(), b.copy()\n",
)  # fmt: skip
rotary.wrong(
    "The layout is ignored: pairs are always i and i + D/2. For \"interleaved\" they are 2i and 2i + 1.",
    "pairs(D, layout)", 'pairs(D, "halves")',
)  # fmt: skip
rotary.wrong("The base is ignored: it is not always 10000.", "* base **", "* 10000.0 **")
rotary.wrong(
    "The exponent of the angle has the wrong sign: later pairs rotate more slowly, base^(-2i/D).",
    "(-np.arange(0, D, 2)", "(np.arange(0, D, 2)",
)  # fmt: skip

rotary_backward = lesson.exercise(
    "rotary_backward",
    hints=(
        "What is the transpose of a rotation by t?",
        "The backward pass of a linear map is its transpose, and the transpose of a rotation is the rotation "
        "by the opposite angle.",
        "You have a function that rotates by position times frequency; call it with -positions.",
    ),
    why="A rotation keeps lengths, so the gradient keeps its length too: it neither vanishes nor explodes.",
)


@rotary_backward.gradcheck(
    forward="rotary", inputs=lambda rng: [rng.standard_normal((2, 5, 6)), np.array([0, 1, 5, 2, 9])]
)
def _(my, g, x, positions):
    return my.rotary_backward(g, positions)


@rotary_backward.check("layout interleaved, another base")
def _(my, rng):
    return my.rotary_backward(rng.standard_normal((2, 3, 4, 6)), np.array([3, 0, 8, 1]), "interleaved", 50.0)


@rotary_backward.check("one pair at position 1")
def _(my, rng):
    return my.rotary_backward(np.array([[1.0, 0.0]]), np.array([1]))


rotary_backward.wrong(
    "You rotate g by the same angle as x. The transpose of a rotation rotates back: by minus the angle.",
    "-positions", "positions",
)  # fmt: skip
rotary_backward.wrong(
    "You return g unchanged. y = R x, so dx = R^T g: rotate it back.",
    "rotary(g, -positions, layout, base)", "g.copy()",
)  # fmt: skip
rotary_backward.wrong(
    "The layout is not passed on: the backward pass rotates other pairs than the forward pass.",
    "-positions, layout, base", "-positions, base=base",
)  # fmt: skip
rotary_backward.wrong(
    "The base is not passed on: the backward pass rotates by other angles than the forward pass.",
    "-positions, layout, base", "-positions, layout",
)  # fmt: skip
