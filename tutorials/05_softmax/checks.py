"""Checks of lesson 05."""

import numpy as np

from tutorials.course import Checks

lesson = Checks()

# ---------------------------------------------------------------- softmax

softmax = lesson.exercise(
    "softmax",
    hints=(
        (
            "What happens to the probabilities if you subtract the same number from all logits of a row? "
            "Which number keeps exp small?"
        ),
        (
            "Subtract each row's own maximum, take exp, divide each row by its own sum. For both, keep the "
            "reduced axis as an axis of length 1."
        ),
        "e = np.exp(x - x.max(axis=-1, keepdims=True)); then divide e by its sum, reduced in the same way.",
    ),
    why=(
        "Every attention weight and every predicted word is a softmax; one overflow in it turns a whole "
        "model into NaN."
    ),
)


@softmax.check("each row of a random batch")
def _(my, rng):
    return my.softmax(rng.standard_normal((3, 5)))


@softmax.check("a square array: rows, not columns")
def _(my, rng):
    return my.softmax(rng.standard_normal((4, 4)))


@softmax.check("more axes: (2, 3, 4), the last one is reduced")
def _(my, rng):
    return my.softmax(rng.standard_normal((2, 3, 4)))


@softmax.check("large logits: no overflow, no NaN")
def _(my, rng):
    with np.errstate(all="ignore"):
        return my.softmax(np.array([[1000.0, 1001.0, -1e4], [-1e4, 0.0, 1e4]]))


@softmax.check("rows of very different size, and an entry of -inf")
def _(my, rng):
    with np.errstate(all="ignore"):
        return my.softmax(np.array([[0.0, 1.0, 2.0], [800.0, 801.0, -np.inf]]))


@softmax.check("x is unchanged")
def _(my, rng):
    x = rng.standard_normal((2, 3))
    before = x.copy()
    my.softmax(x)
    return x - before


softmax.wrong(
    (
        "You sum over the whole array: all entries together sum to 1, not each row. Sum along the last axis "
        "only."
    ),
    "e.sum(axis=-1, keepdims=True)",
    "e.sum()",
)
softmax.wrong(
    (
        "This is right for small logits, but exp(1000) overflows. Subtract each row's maximum first: softmax "
        "does not change."
    ),
    "x - x.max(axis=-1, keepdims=True)",
    "x",
)
softmax.wrong(
    (
        "You subtract the maximum of the whole array. A row that is 800 below another then becomes 0/0: each "
        "row needs its own maximum."
    ),
    "x.max(axis=-1, keepdims=True)",
    "x.max()",
)
softmax.wrong(
    "The columns sum to 1, not the rows: the classes are the last axis, axis=-1.",
    body="e = np.exp(x - x.max(axis=0, keepdims=True))\nreturn e / e.sum(axis=0, keepdims=True)",
)
softmax.wrong(
    "axis=1 is the last axis of a matrix, but not of an array with three axes. Count from the end: axis=-1.",
    body="e = np.exp(x - x.max(axis=1, keepdims=True))\nreturn e / e.sum(axis=1, keepdims=True)",
)
softmax.wrong(
    (
        "Without keepdims the row sums have shape (N,), and dividing by them uses the wrong axis (on a "
        "square array without an error). Keep the reduced axis."
    ),
    "e.sum(axis=-1, keepdims=True)",
    "e.sum(axis=-1)",
)
softmax.wrong(
    (
        "You subtract from x in place, so the caller's logits change too. Make a new array: x - ..., not x "
        "-= ..."
    ),
    body="x -= x.max(axis=-1, keepdims=True)\ne = np.exp(x)\nreturn e / e.sum(axis=-1, keepdims=True)",
)
softmax.wrong(
    (
        "You divide the logits by their sum without exp, so results may be negative. Take exp first: it "
        "makes them positive."
    ),
    body="return x / x.sum(axis=-1, keepdims=True)",
)

# ---------------------------------------------------------------- softmax_backward

softmax_backward = lesson.exercise(
    "softmax_backward",
    hints=(
        (
            "If g is the same number everywhere, the result must be 0, because the probabilities always sum "
            "to 1. What do you have to subtract from g?"
        ),
        "Subtract from g its mean, weighted by the probabilities y; multiply the result by y.",
        "y * (g - s), where s is the sum of g * y along the last axis, with keepdims=True.",
    ),
    why=(
        "This line is the whole backward of attention's weights; without the sum attention trains on wrong "
        "gradients, and nothing crashes."
    ),
)


@softmax_backward.gradcheck(forward="softmax", inputs=lambda rng: [rng.standard_normal((3, 5))])
def _(my, g, x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return my.softmax_backward(g, e / e.sum(axis=-1, keepdims=True))


@softmax_backward.check("a square array and more axes")
def _(my, rng):
    results = []
    for shape in ((4, 4), (2, 3, 5)):
        y = rng.random(shape)
        y = y / y.sum(axis=-1, keepdims=True)
        results.append(my.softmax_backward(rng.standard_normal(shape), y))
    return results


@softmax_backward.check("the lesson's example: y = (1/8, 2/8, 5/8), g = (1, 0, 0)")
def _(my, rng):
    return my.softmax_backward(np.array([1.0, 0.0, 0.0]), np.array([0.125, 0.25, 0.625]))


@softmax_backward.check("g and y are unchanged")
def _(my, rng):
    g, y = rng.standard_normal((2, 3)), np.full((2, 3), 1 / 3)
    g_before, y_before = g.copy(), y.copy()
    my.softmax_backward(g, y)
    return [g - g_before, y - y_before]


softmax_backward.wrong(
    (
        "You use only the diagonal of the Jacobian: y * (1 - y) is the sigmoid's derivative. Each "
        "probability also depends on all other logits; see the vjp in the lesson."
    ),
    body="return g * y * (1 - y)",
)
softmax_backward.wrong(
    (
        "You subtract the sum of g, not the sum of g * y: that is log_softmax's rule. Multiply g by the "
        "probabilities before you sum."
    ),
    "(g * y).sum(",
    "g.sum(",
)
softmax_backward.wrong(
    (
        "The second term of the derivation is missing: y * g is only half of it. Subtract y times the sum of "
        "g * y."
    ),
    body="return y * g",
)
softmax_backward.wrong(
    (
        "You sum over the whole array, so rows influence each other. Sum along the last axis only, with "
        "keepdims=True."
    ),
    "(g * y).sum(axis=-1, keepdims=True)",
    "(g * y).sum()",
)
softmax_backward.wrong(
    "You add the sum; subtract it: the off-diagonal entries of the Jacobian are -y_i y_j.",
    "g - (",
    "g + (",
)
softmax_backward.wrong(
    (
        "You change g itself (g -= ... or g *= ...). The caller may need it for another gradient: compute a "
        "new array."
    ),
    body="g -= (g * y).sum(axis=-1, keepdims=True)\nreturn y * g",
)
softmax_backward.wrong(
    (
        "The last factor y is missing: after subtracting the weighted mean from g, each entry is multiplied "
        "by its own probability."
    ),
    body="return g - (g * y).sum(axis=-1, keepdims=True)",
)

# ---------------------------------------------------------------- logsumexp

logsumexp = lesson.exercise(
    "logsumexp",
    hints=(
        (
            "log(e^1000 + e^1001) is a number near 1001. Which factor can you take out of the sum, so that "
            "exp stays small?"
        ),
        "Take m, each row's maximum: lse(x) = m + log(sum of exp(x - m)).",
        "m = x.max(axis=-1); add to it the log of np.exp(x - m[..., None]), summed along the last axis.",
    ),
    why=(
        "It is the logarithm of softmax's denominator. The attention of lesson 16, which never stores all "
        "its weights, keeps only this number for each row."
    ),
)


@logsumexp.check("each row of a random batch")
def _(my, rng):
    return my.logsumexp(rng.standard_normal((3, 5)))


@logsumexp.check("a square array, and more axes")
def _(my, rng):
    return [my.logsumexp(rng.standard_normal((4, 4))), my.logsumexp(rng.standard_normal((2, 3, 4)))]


@logsumexp.check("large numbers, and rows of very different size")
def _(my, rng):
    with np.errstate(all="ignore"):
        return [
            my.logsumexp(np.array([[1000.0, 1001.0], [-1000.0, -1001.0]])),
            my.logsumexp(np.array([[0.0, 1.0], [1e4, 1e4]])),
        ]


@logsumexp.check("one number in a row: it is its own log-sum-exp")
def _(my, rng):
    return my.logsumexp(np.array([[3.0], [-7.0]]))


logsumexp.wrong(
    (
        "Without the shift exp overflows to inf above 709, and below -745 the sum is 0 and its log -inf. "
        "Take each row's maximum out first."
    ),
    body="return np.log(np.exp(x).sum(axis=-1))",
)
logsumexp.wrong(
    (
        "You subtract the maximum inside and never add it back: log-sum-exp, unlike softmax, does change "
        "with a shift."
    ),
    "m + np.log(",
    "np.log(",
)
logsumexp.wrong(
    "There is one axis too many: return one number for each row, without the last axis.",
    body="m = x.max(axis=-1, keepdims=True)\nreturn m + np.log(np.exp(x - m).sum(axis=-1, keepdims=True))",
)
logsumexp.wrong(
    (
        "You take out the maximum of the whole array. Rows far below it then sum to 0, whose log is -inf: "
        "each row needs its own maximum."
    ),
    body="m = x.max()\nreturn m + np.log(np.exp(x - m).sum(axis=-1))",
)
logsumexp.wrong(
    (
        "This is the log of the largest term only, the maximum itself. The other terms count too: sum before "
        "you take the log."
    ),
    body="return x.max(axis=-1)",
)
logsumexp.wrong(
    "Log and sum are in the wrong order: the sum of the logs is just the sum of x. First sum, then log.",
    "np.log(np.exp(x - m[..., None]).sum(axis=-1))",
    "np.log(np.exp(x - m[..., None])).sum(axis=-1)",
)

# ---------------------------------------------------------------- log_softmax

log_softmax = lesson.exercise(
    "log_softmax",
    hints=(
        "log(a / b) = log a - log b. What is log a, if a = exp(x)?",
        (
            "log_softmax(x) = x - lse(x). Subtract the maximum from x before anything else, so that the "
            "digits of a large x are not lost."
        ),
        (
            "shifted = x - x.max(axis=-1, keepdims=True); then shifted - np.log(np.exp(shifted).sum(...)), "
            "with keepdims=True in the sum."
        ),
    ),
    why=(
        "Losses use it: a probability rounded to 0 has no finite logarithm, but its logarithm computed "
        "directly is an ordinary number."
    ),
)


@log_softmax.check("each row of a random batch")
def _(my, rng):
    return my.log_softmax(rng.standard_normal((3, 5)))


@log_softmax.check("a square array, and more axes")
def _(my, rng):
    return [my.log_softmax(rng.standard_normal((4, 4))), my.log_softmax(rng.standard_normal((2, 3, 4)))]


@log_softmax.check("a class that is far behind: [0, 800] gives [-800, 0]")
def _(my, rng):
    with np.errstate(all="ignore"):
        return my.log_softmax(np.array([0.0, 800.0]))


@log_softmax.check("behind by 30: exact, not log(p + 1e-9)")
def _(my, rng):
    return my.log_softmax(np.array([[0.0, 30.0], [5.0, 5.0]]))


@log_softmax.check("very large: [1e16, 1e16 + 2] gives the same as [0, 2]")
def _(my, rng):
    with np.errstate(all="ignore"):
        return my.log_softmax(np.array([1e16, 1e16 + 2]))


log_softmax.wrong(
    (
        "The logarithm of a probability that was rounded to 0 is -inf. Do not compute softmax first: "
        "log_softmax(x) = x - lse(x)."
    ),
    body="return np.log(softmax(x))",
)
log_softmax.wrong(
    (
        "The small number inside the log hides the -inf but is wrong: what should be -30 becomes -20.7. Do "
        "not compute softmax first."
    ),
    body="return np.log(softmax(x) + 1e-9)",
)
log_softmax.wrong(
    (
        "Right on paper, but where x is huge the log of the sum is rounded away when it is added to the "
        "maximum. Shift x first, then subtract the log."
    ),
    body="return x - logsumexp(x)[..., None]",
)
log_softmax.wrong(
    "Without the shift exp overflows and the result is -inf. Subtract each row's maximum first.",
    "x - x.max(axis=-1, keepdims=True)",
    "x",
)
log_softmax.wrong(
    "You sum over the whole array; each row needs its own sum, with axis=-1 and keepdims=True.",
    "np.exp(shifted).sum(axis=-1, keepdims=True)",
    "np.exp(shifted).sum()",
)
log_softmax.wrong(
    (
        "The log of the sum is missing: shifted logits are not yet log-probabilities (their exponentials do "
        "not sum to 1)."
    ),
    "shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))",
    "shifted",
)

# ---------------------------------------------------------------- log_softmax_backward

log_softmax_backward = lesson.exercise(
    "log_softmax_backward",
    hints=(
        (
            "The derivative of lse(x) with respect to x_j is softmax_j. What, then, is the derivative of x_i "
            "- lse(x)?"
        ),
        (
            "dx = g minus softmax times the sum of g. You have the probabilities already: y holds their "
            "logarithms."
        ),
        "g - np.exp(y) * (the sum of g along the last axis, with keepdims=True).",
    ),
    why="Given cross-entropy's gradient, it returns predicted minus true, without dividing by a probability.",
)


@log_softmax_backward.gradcheck(forward="log_softmax", inputs=lambda rng: [rng.standard_normal((3, 5))])
def _(my, g, x):
    shifted = x - x.max(axis=-1, keepdims=True)
    return my.log_softmax_backward(g, shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True)))


@log_softmax_backward.check("a square array and more axes")
def _(my, rng):
    results = []
    for shape in ((4, 4), (2, 3, 5)):
        y = rng.random(shape)
        results.append(
            my.log_softmax_backward(rng.standard_normal(shape), np.log(y / y.sum(axis=-1, keepdims=True)))
        )
    return results


@log_softmax_backward.check("a class that is far behind: finite")
def _(my, rng):
    with np.errstate(all="ignore"):
        return my.log_softmax_backward(
            np.array([[1.0, 0.0], [0.0, -2.0]]), np.array([[-800.0, 0.0], [-800.0, 0.0]])
        )


log_softmax_backward.wrong(
    "y holds logarithms of probabilities here, not probabilities. Take exp to get them back.",
    "np.exp(y)",
    "y",
)
log_softmax_backward.wrong(
    (
        "This is softmax's rule. For the logarithm the derivative of output i is (1 if i = j else 0) - y_j: "
        "work it out from there."
    ),
    body="p = np.exp(y)\nreturn p * (g - (g * p).sum(axis=-1, keepdims=True))",
)
log_softmax_backward.wrong(
    (
        "You sum over the whole array, so rows influence each other. Sum along the last axis only, with "
        "keepdims=True."
    ),
    "g.sum(axis=-1, keepdims=True)",
    "g.sum()",
)
log_softmax_backward.wrong(
    (
        "The sum of g is missing: lse(x) is subtracted from every output, so the gradients of all outputs go "
        "back through it."
    ),
    body="return g - np.exp(y) * g",
)
log_softmax_backward.wrong(
    (
        "The part through lse(x) is missing: x_i also changes the denominator, which is the same for all "
        "outputs."
    ),
    body="return g.copy()",
)
log_softmax_backward.wrong(
    (
        "The sign is wrong: lse(x) is subtracted in the forward, so its contribution is subtracted in the "
        "backward too."
    ),
    "g - np.exp(y)",
    "g + np.exp(y)",
)

# ---------------------------------------------------------------- cross_entropy

cross_entropy = lesson.exercise(
    "cross_entropy",
    hints=(
        (
            "Which one number of each row of log_softmax(logits) does the loss need? How do you pick another "
            "column in each row?"
        ),
        (
            "Find the rows that count; pick log_softmax(logits)[row, target] for them with two index arrays; "
            "negate, sum, divide by how many there are (by 1 if there are none)."
        ),
        (
            "rows = np.flatnonzero(targets != ignore_index); log_softmax(logits)[rows, targets[rows]] are "
            "the numbers."
        ),
    ),
    why=(
        "It is the loss of every classifier and language model in this course; its first value, ln C, shows "
        "whether a model starts as it should."
    ),
)


@cross_entropy.check("a random batch")
def _(my, rng):
    return my.cross_entropy(rng.standard_normal((6, 4)), rng.integers(4, size=6))


@cross_entropy.check("a square batch")
def _(my, rng):
    return my.cross_entropy(rng.standard_normal((4, 4)), np.array([2, 0, 3, 0]))


@cross_entropy.check("large logits: the loss of a confident mistake is large and finite")
def _(my, rng):
    with np.errstate(all="ignore"):
        return my.cross_entropy(np.array([[1000.0, 0.0, 0.0], [0.0, 1e4, 0.0]]), np.array([1, 1]))


@cross_entropy.check("ignored targets count neither in the sum nor in the divisor")
def _(my, rng):
    return my.cross_entropy(rng.standard_normal((6, 4)), np.array([1, -100, 3, -100, -100, 0]))


@cross_entropy.check("another ignore_index: 0, as for padding")
def _(my, rng):
    return my.cross_entropy(rng.standard_normal((5, 4)), np.array([0, 2, 0, 3, 1]), ignore_index=0)


@cross_entropy.check("no target at all: 0")
def _(my, rng):
    with np.errstate(all="ignore"):
        return float(my.cross_entropy(rng.standard_normal((3, 4)), np.full(3, -100)))


cross_entropy.wrong(
    (
        "This is the sum over the rows. Divide by the number of rows that have a target, so that batches of "
        "different sizes are comparable."
    ),
    " / max(len(rows), 1)",
    "",
)
cross_entropy.wrong(
    "You divide by all rows. Those without a target must not count: divide by the number of the others.",
    "max(len(rows), 1)",
    "len(targets)",
)
cross_entropy.wrong(
    "With no target at all this is 0/0. Return 0 then, for instance by dividing by at least 1.",
    "max(len(rows), 1)",
    "np.float64(len(rows))",
)
cross_entropy.wrong(
    "The minus sign is missing: log-probabilities are negative, and the loss is their negative mean.",
    "-right.sum()",
    "right.sum()",
)
cross_entropy.wrong(
    "The logarithm of a softmax that was rounded to 0 is -inf. Use log_softmax.",
    "log_softmax(logits)",
    "np.log(softmax(logits))",
)
cross_entropy.wrong(
    "The target's probability is used without its logarithm. The loss is the mean of -log p.",
    "log_softmax(logits)",
    "softmax(logits)",
)
cross_entropy.wrong(
    (
        "logits[:, targets] picks N columns from every row. Two index arrays, rows and columns, pick one "
        "entry from each row."
    ),
    "log_softmax(logits)[rows, targets[rows]]",
    "log_softmax(logits)[rows][:, targets[rows]]",
)
cross_entropy.wrong(
    "You always compare with -100: use the argument ignore_index.",
    "targets != ignore_index",
    "targets != -100",
)
cross_entropy.wrong(
    (
        "Ignored targets are used as indices: a negative one counts from the end, and -100 is out of range. "
        "Leave those rows out first."
    ),
    "np.flatnonzero(targets != ignore_index)",
    "np.arange(len(targets))",
)

# ---------------------------------------------------------------- cross_entropy_backward

cross_entropy_backward = lesson.exercise(
    "cross_entropy_backward",
    hints=(
        "The loss of one row is lse(x) - x_t. What is the derivative of each of the two terms?",
        (
            "Predicted minus true: softmax of the rows that count, minus 1 at each target, divided by how "
            "many rows count. Zeros elsewhere."
        ),
        (
            "Start with d = np.zeros_like(logits); d[rows] = softmax(logits[rows]); d[rows, targets[rows]] "
            "-= 1; then divide."
        ),
    ),
    why=(
        "Every training step's backward pass starts here: all other gradients of a model are computed from "
        "this array."
    ),
)


@cross_entropy_backward.gradcheck(
    forward="cross_entropy",
    inputs=lambda rng: [rng.standard_normal((6, 4)), np.array([1, -100, 3, 2, -100, 0])],
)
def _(my, g, logits, targets):
    return g * my.cross_entropy_backward(logits, targets)


@cross_entropy_backward.check("a square batch, no target missing")
def _(my, rng):
    return my.cross_entropy_backward(rng.standard_normal((4, 4)), np.array([2, 0, 3, 0]))


@cross_entropy_backward.check("large logits: a confident mistake gives -1 and 1, divided by N")
def _(my, rng):
    with np.errstate(all="ignore"):
        return my.cross_entropy_backward(np.array([[1000.0, 0.0, 0.0], [0.0, 1e4, 0.0]]), np.array([1, 1]))


@cross_entropy_backward.check("another ignore_index: its rows are exactly 0")
def _(my, rng):
    return my.cross_entropy_backward(rng.standard_normal((5, 4)), np.array([0, 2, 0, 3, 1]), ignore_index=0)


@cross_entropy_backward.check("no target at all: zeros, and the logits are unchanged")
def _(my, rng):
    logits = rng.standard_normal((3, 4))
    before = logits.copy()
    with np.errstate(all="ignore"):
        return [my.cross_entropy_backward(logits, np.full(3, -100)), logits - before]


cross_entropy_backward.wrong(
    "The gradient of the mean is N times smaller: divide by the number of rows that count.",
    "d / max(len(rows), 1)",
    "d",
)
cross_entropy_backward.wrong(
    "You divide by all rows; the forward divides by the rows that have a target.",
    "max(len(rows), 1)",
    "len(targets)",
)
cross_entropy_backward.wrong(
    "With no target at all this is 0/0. Divide by at least 1.",
    "max(len(rows), 1)",
    "np.float64(len(rows))",
)
cross_entropy_backward.wrong(
    (
        "The sign is reversed: it is predicted minus true. With true minus predicted, descent would make the "
        "loss grow."
    ),
    "d / max",
    "-d / max",
)
cross_entropy_backward.wrong(
    (
        "The 1 at the target is missing: this is the gradient of the log-sum-exp alone. The loss also holds "
        "-x_t."
    ),
    "d[rows, targets[rows]] -= 1",
    "pass",
)
cross_entropy_backward.wrong(
    (
        "Your rows without a target hold the softmax. These rows do not count in the loss, so their gradient "
        "is 0."
    ),
    "d[rows] = softmax(logits[rows])",
    "d = softmax(logits)",
)
cross_entropy_backward.wrong(
    (
        "Only the target's entry has a gradient. The other logits are in the denominator too: their gradient "
        "is their probability."
    ),
    body="""
rows = np.flatnonzero(targets != ignore_index)
d = np.zeros_like(logits)
d[rows, targets[rows]] = softmax(logits[rows])[np.arange(len(rows)), targets[rows]] - 1
return d / max(len(rows), 1)
""",
)
cross_entropy_backward.wrong(
    "You always compare with -100: use the argument ignore_index.",
    "targets != ignore_index",
    "targets != -100",
)
