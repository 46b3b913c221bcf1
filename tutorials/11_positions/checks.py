"""Checks of lesson 11."""

import numpy as np

from tutorials.course import Checks

lesson = Checks()

# ---------------------------------------------------------------- order

is_equivariant = lesson.exercise(
    "is_equivariant",
    hints=(
        "Two ways lead from x to a reordered output: reorder first or apply f first. What must hold between their results?",
        "Apply f to x[order]. Apply f to x and put the result's rows in that order. Compare the two.",
        "np.allclose(f(x[order]), f(x)[order], rtol=0, atol=1e-9), turned into a bool.",
    ),
    why="With this test you can ask any layer whether it knows about order: attention, a feed-forward, a whole encoder.",
)


@is_equivariant.check("attention without positions: yes")
def _(my, rng):
    def attend(x):
        e = np.exp(x @ x.T)
        return e / e.sum(-1, keepdims=True) @ x

    return my.is_equivariant(attend, rng.standard_normal((5, 3)), np.array([1, 2, 3, 4, 0]))


@is_equivariant.check("what adds a position: no")
def _(my, rng):
    return my.is_equivariant(
        lambda x: x + np.arange(5.0)[:, None], rng.standard_normal((5, 3)), np.array([1, 2, 3, 4, 0])
    )


@is_equivariant.check("a running sum: no; the sine of each entry: yes, in any order")
def _(my, rng):
    x, turn, swap = rng.standard_normal((3, 3)), np.array([2, 0, 1]), np.array([1, 0, 2])
    return {
        "a running sum": my.is_equivariant(lambda x: x.cumsum(0), x, turn),
        "the sine, rows turned": my.is_equivariant(np.sin, x, turn),
        "the sine, two rows exchanged": my.is_equivariant(np.sin, x, swap),
    }


@is_equivariant.check("a mean for all rows, which is the same in any order: yes")
def _(my, rng):
    return my.is_equivariant(lambda x: 0 * x + x.mean(0), rng.standard_normal((4, 2)), np.array([3, 0, 2, 1]))


@is_equivariant.check("a difference of 1e-12 is rounding: yes")
def _(my, rng):
    return my.is_equivariant(
        lambda x: x + 1e-12 * np.arange(4.0)[:, None], rng.standard_normal((4, 2)), np.array([3, 0, 2, 1])
    )


@is_equivariant.check("a difference of 1e-6 is a difference; the answer is a bool")
def _(my, rng):
    x, order = rng.standard_normal((4, 2)), np.array([3, 0, 2, 1])
    answer = my.is_equivariant(lambda x: x + 1e-6 * np.arange(4.0)[:, None], x, order)
    return {"the answer": bool(answer), "its type": type(answer).__name__}


is_equivariant.wrong(
    "You compare with f(x) as it stands. That asks for invariance (the same output in any order); equivariant "
    "means that the output "
    "is reordered along.",
    "f(x)[order]", "f(x)",
)  # fmt: skip
is_equivariant.wrong(
    "The output is put in the inverse order. Row j of x[order] is row order[j] of x, so row j of the output must "
    "be row order[j] too.",
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
    "You give an answer for each entry. One True or False is asked for: np.allclose, turned into a bool.",
    "bool(np.allclose(f(x[order]), f(x)[order], rtol=0, atol=1e-9))", "abs(f(x[order]) - f(x)[order]) <= 1e-9",
)  # fmt: skip
is_equivariant.wrong(
    "You compare exactly. The same sum in another order differs in the last digit; equal means to within 1e-9.",
    "np.allclose(f(x[order]), f(x)[order], rtol=0, atol=1e-9)", "np.array_equal(f(x[order]), f(x)[order])",
)  # fmt: skip

# ---------------------------------------------------------------- sinusoidal

sinusoidal = lesson.exercise(
    "sinusoidal",
    hints=(
        "How many different frequencies are there for d_model = 6, and which two columns share one?",
        "Column c has the frequency 10000^(-2i/d_model) with i = c // 2; even columns take the sine of position "
        "times frequency, odd the cosine.",
        "angle = np.arange(length)[:, None] / 10000.0 ** (column // 2 * 2 / d_model), then np.where(column % 2 == 0, ...).",
    ),
    why="The table of the 2017 paper; that pairs share a frequency is what makes a step along the sequence a rotation.",
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


@sinusoidal.check("small: one position; one column")
def _(my, rng):
    return {"one position": my.sinusoidal(1, 4), "one column": my.sinusoidal(5, 1)}


sinusoidal.wrong(
    "Each column has a frequency of its own. A sine and its cosine share one: the exponent uses 2i for columns 2i and 2i + 1.",
    "column // 2 * 2 / d_model", "column / d_model",
)  # fmt: skip
sinusoidal.wrong(
    "The exponent is i / d_model, half of what it should be: 2i / d_model, with i the number of the pair.",
    "column // 2 * 2 / d_model", "column // 2 / d_model",
)  # fmt: skip
sinusoidal.wrong(
    "Sine and cosine are exchanged: even columns are sines, so position 0 is 0, 1, 0, 1, ...",
    "np.where(column % 2 == 0, np.sin(angle), np.cos(angle))", "np.where(column % 2 == 0, np.cos(angle), np.sin(angle))",
)  # fmt: skip
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
    "The positions are multiplied by 10000^(2i/d_model). They are divided by it: later pairs turn more slowly.",
    "[:, None] / 10000.0", "[:, None] * 10000.0",
)  # fmt: skip

shift_matrix = lesson.exercise(
    "shift_matrix",
    hints=(
        "What are sin(a + b) and cos(a + b), in terms of sin a and cos a?",
        "Each pair (sin, cos) is turned by k times its frequency: a 2 x 2 block for each pair, with the cosine of "
        "that angle on the diagonal.",
        "The block is [[cos, sin], [-sin, cos]] of k / 10000^(i / d_model), with i = 0, 2, 4 ... the pair's first column.",
    ),
    why="This is the property that the paper chose sines for: 'k places further' is one fixed matrix, wherever you stand.",
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
    "It goes the other way: your matrix leads to pos - k. The minus stands in the lower left corner, since cos(a "
    "+ b) = cos a cos b - sin a sin b.",
    "[[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]]",
    "[[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]",
)
shift_matrix.wrong(
    "All pairs are turned by the same angle. Pair i turns by k times its own frequency.",
    "k / 10000.0 ** (i / d_model)", "k",
)  # fmt: skip
shift_matrix.wrong(
    "The frequencies are those of i / 2 instead of i: i is already the column, 0, 2, 4, ..., so the exponent is i / d_model.",
    "i / d_model", "i / 2 / d_model",
)  # fmt: skip
shift_matrix.wrong(
    "The sines are missing: only the diagonal is there. A step mixes each sine with its cosine.",
    "[[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]]", "[[np.cos(angle), 0], [0, np.cos(angle)]]",
)  # fmt: skip

shift_matrix.wrong(
    "The frequency is the wrong way up: the angle is k divided by 10000^(i / d_model).", "k / 10000.0", "k * 10000.0",
)  # fmt: skip

# ---------------------------------------------------------------- learned

learned_positions_backward = lesson.exercise(
    "learned_positions_backward",
    hints=(
        "Two sequences of a batch both have a position 3. How many gradients does row 3 of the table get?",
        "Start with zeros; go through all (b, t) and add g[b, t] to the row positions[b, t].",
        "np.add.at(d, positions, g): unlike d[positions] += g it counts repeated rows.",
    ),
    why="It is the backward of every embedding, of tokens as well: rows that are used often collect from each use.",
)


@learned_positions_backward.check("three sequences at positions 0 ... 3, a table of 6")
def _(my, rng):
    return my.learned_positions_backward(rng.standard_normal((3, 4, 5)), np.tile(np.arange(4), (3, 1)), 6)


@learned_positions_backward.check("sequences that begin at different places")
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


@learned_positions_backward.check("whole numbers in, floats out: the gradient keeps its fractions")
def _(my, rng):
    d = my.learned_positions_backward(np.full((1, 2, 1), 0.5), np.array([[0, 0]]), 2)
    return {"the gradient": d, "its type": str(d.dtype)}


learned_positions_backward.wrong(
    "Of a row that is used several times only the last gradient is left: d[positions] += g writes each row once. "
    "Use np.add.at.",
    "np.add.at(d, positions, g)", "d[positions] += g",
)  # fmt: skip
learned_positions_backward.wrong(
    "The gradients of a row's uses are averaged. They add up, like those of any value that is used several times.",
    body="""
    d, count = np.zeros((max_len, g.shape[-1])), np.zeros((max_len, 1))
    np.add.at(d, positions, g)
    np.add.at(count, positions, 1)
    return d / np.maximum(count, 1)
    """,
)
learned_positions_backward.wrong(
    "You add up over the batch and take the place t in the sequence for the row. The row is positions[b, t].",
    body="""
    d = np.zeros((max_len, g.shape[-1]))
    d[: g.shape[1]] = g.sum(0)
    return d
    """,
)
learned_positions_backward.wrong(
    "Only the first sequence of the batch sends its gradient.",
    "np.add.at(d, positions, g)", "np.add.at(d, positions[0], g[0])",
)  # fmt: skip

# ---------------------------------------------------------------- rotary

rotary = lesson.exercise(
    "rotary",
    hints=(
        "What does a rotation by t do to the point (a, b) of the plane, and how large is t for pair i of the row "
        "at position p?",
        "Angles (T, D/2): position times base^(-2i/D). Take the first and the second numbers of all pairs, turn, "
        "and put them back "
        "into the columns they came from.",
        "y[..., first] = a * np.cos(angle) - b * np.sin(angle); y[..., second] = b * np.cos(angle) + a * np.sin(angle).",
    ),
    why="This is how nearly every recent language model knows positions; with the wrong layout a published checkpoint "
    "writes nonsense.",
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


@rotary.check("one pair: a turn of the plane, position 0 stays")
def _(my, rng):
    return my.rotary(np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]), np.array([0, 1, 1]))


rotary.wrong(
    "It turns the other way round: the minus belongs to the first number of a pair, a cos t - b sin t.",
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
    "The second number of each pair has a minus where it needs a plus: b cos t + a sin t. What you have is no rotation.",
    "b * np.cos(angle) + a * np.sin(angle)", "b * np.cos(angle) - a * np.sin(angle)",
)  # fmt: skip
rotary.wrong(
    "The layouts are exchanged, or one of them is used for both. Halves: i and i + D/2. Interleaved: 2i and 2i + 1.",
    "pairs(D, layout)", 'pairs(D, "interleaved" if layout == "halves" else "halves")',
)  # fmt: skip
rotary.wrong(
    "All pairs turn by the same angle. Pair i turns by position times base^(-2i/D).",
    "positions[:, None] * base ** (-np.arange(0, D, 2) / D)", "positions[:, None] * np.ones(D // 2)",
)  # fmt: skip
rotary.wrong(
    "The exponent runs over 0, 1, 2, ... instead of 0, 2, 4, ...: it is -2i/D.",
    "np.arange(0, D, 2) / D", "np.arange(D // 2) / D",
)  # fmt: skip
rotary.wrong(
    "The second numbers are made from first numbers that are turned already. Keep the old ones until both are done.",
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
    "The rows are taken to stand at 0, 1, 2, ... . Where they stand is what positions says.",
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
rotary.wrong(
    "The base is ignored: it is not always 10000.", "* base **", "* 10000.0 **",
)  # fmt: skip
rotary.wrong(
    "The angle has the wrong sign in the exponent: later pairs turn more slowly, base^(-2i/D).", "(-np.arange(0, D, 2)", "(np.arange(0, D, 2)",
)  # fmt: skip

rotary_backward = lesson.exercise(
    "rotary_backward",
    hints=(
        "What is the transpose of a rotation by t?",
        "A linear map's backward is its transpose, and a rotation's transpose is the rotation by the opposite angle.",
        "You have a function that turns by position times frequency; call it with -positions.",
    ),
    why="A rotation loses nothing, so its gradient has the length it came with: no vanishing, no growth.",
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
    "You turn g by the same angle as x. The transpose of a rotation turns back: by minus the angle.",
    "-positions", "positions",
)  # fmt: skip
rotary_backward.wrong(
    "g comes back as it is. y = R x, so dx = R^T g: it must be turned.",
    "rotary(g, -positions, layout, base)", "g.copy()",
)  # fmt: skip
rotary_backward.wrong(
    "The layout is not handed on: the backward turns other pairs than the forward did.",
    "-positions, layout, base", "-positions, base=base",
)  # fmt: skip
rotary_backward.wrong(
    "The base is not handed on: the backward turns by other angles than the forward did.",
    "-positions, layout, base", "-positions, layout",
)  # fmt: skip
