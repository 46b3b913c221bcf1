"""Checks of lesson 08."""

import numpy as np

from tutorials.course import Checks

lesson = Checks()


# ---------------------------------------------------------------- ask

ask = lesson.exercise(
    "ask",
    hints=(
        "How do you compare one vector with each row of a matrix, all at once?",
        "Scores are dot products of the query with each key; softmax turns them into weights; the answer is "
        "the weighted sum of the rows of values.",
        "Two matrix products with softmax between: keys @ query gives (m,), and weights @ values gives "
        "(d_v,).",
    ),
    why="A lookup that can be differentiated: every attention layer does this one line for every token.",
)


@ask.check("three books about two subjects")
def _(my, rng):
    return my.ask(
        np.array([1.0, 0.2]), np.array([[1.0, 0], [0, 1], [0.7, 0.7]]), np.array([[100.0], [400], [250]])
    )


@ask.check("random queries, five keys of width 3, values of width 2")
def _(my, rng):
    return my.ask(rng.standard_normal(3), rng.standard_normal((5, 3)), rng.standard_normal((5, 2)))


@ask.check("as many keys as columns")
def _(my, rng):
    return my.ask(rng.standard_normal(3), rng.standard_normal((3, 3)), rng.standard_normal((3, 3)))


ask.wrong(
    "These are scores, not weights: without softmax they need not be positive, nor sum to 1. Put softmax "
    "between the two products.",
    "softmax(keys @ query) @ values", "keys @ query @ values",
)  # fmt: skip
ask.wrong(
    "You returned the value of the best key alone, like a dictionary. A small change of the query does not "
    "change that answer, so it has no useful derivative. Mix all values.",
    body="return values[(keys @ query).argmax()]",
)
ask.wrong(
    "You mixed the keys, not the values. Keys say how well a book fits; the answer is made of values.",
    body="return softmax(keys @ query) @ keys",
)
ask.wrong(
    "The scores are divided by sqrt(d_k) already. That comes in the next exercise; here there is no scaling.",
    "softmax(keys @ query)", "softmax(keys @ query / np.sqrt(len(query)))",
)  # fmt: skip
ask.wrong(
    "The columns of the values were summed as well, so the result is one number. Sum over the books only: "
    "the answer is as wide as a value.",
    body="return (softmax(keys @ query)[:, None] * values).sum()",
)

ask.wrong(
    "The query is compared with the columns of keys. A key is a row: keys @ query, or query @ keys.T.",
    "keys @ query", "query @ keys",
)  # fmt: skip
ask.wrong(
    "`*` multiplies element by element. The answer is a sum over the books, a matrix product: `@`.",
    "softmax(keys @ query) @ values", "softmax(keys @ query) * values",
)  # fmt: skip


# ---------------------------------------------------------------- attention_weights

weights = lesson.exercise(
    "attention_weights",
    hints=(
        "Which two axes must be swapped so that @ multiplies each query with each key, and leaves batch and "
        "heads alone?",
        "The scores are q @ k with k's last two axes swapped, divided by the square root of the queries' "
        "width; the softmax runs over the last axis.",
        "softmax(q @ k.swapaxes(-1, -2) / np.sqrt(...)), where d_k is q.shape[-1].",
    ),
    why="Attention maps show these weights, and only here does one token influence another.",
)


@weights.check("the first two queries of the lesson's worked example: 2 queries, 3 keys, width 4")
def _(my, rng):
    q = np.array([[1, 0, 2, 1], [0, 2, 1, 0]], float)
    k = np.array([[0, 1, 1, 0], [2, 0, 0, 1], [1, 2, 1, 0]], float)
    return my.attention_weights(q, k)


@weights.check("4 queries, 6 keys: rows sum to 1")
def _(my, rng):
    p = my.attention_weights(rng.standard_normal((4, 3)), rng.standard_normal((6, 3)))
    return {"the weights": p, "the sums of their rows": p.sum(axis=-1)}


@weights.check("a batch of 2, with 5 heads")
def _(my, rng):
    return my.attention_weights(rng.standard_normal((2, 5, 4, 3)), rng.standard_normal((2, 5, 6, 3)))


@weights.check("batch, length and width equal: a wrong transpose would raise no error")
def _(my, rng):
    return my.attention_weights(rng.standard_normal((3, 3, 3)), rng.standard_normal((3, 3, 3)))


@weights.check("scores of ten thousand stay finite")
def _(my, rng):
    return my.attention_weights(1e4 * rng.standard_normal((4, 5)), rng.standard_normal((6, 5)))


@weights.check("q and k are unchanged")
def _(my, rng):
    q, k = rng.standard_normal((4, 3)), rng.standard_normal((6, 3))
    p = my.attention_weights(q, k)
    return {"the weights": p, "q after the call": q, "k after the call": k}


weights.wrong(
    ".T reverses all axes, the batch too. With two axes that is the same; with more, swap only the last two.",
    "k.swapaxes(-1, -2)", "k.T",
)  # fmt: skip
weights.wrong(
    "The scores are not divided by sqrt(d_k). For wide vectors the softmax would saturate, and pass no "
    "gradient.",
    " / np.sqrt(q.shape[-1])", "",
)  # fmt: skip
weights.wrong(
    "You divide by d_k. The standard deviation of the dot products is the square root of d_k: divide by that "
    "to make it 1.",
    "np.sqrt(q.shape[-1])", "q.shape[-1]",
)  # fmt: skip
weights.wrong(
    "You divide by the square root of the number of queries. Dot products are large because vectors are "
    "wide: use the last axis.",
    "q.shape[-1]", "q.shape[-2]",
)  # fmt: skip
weights.wrong(
    "The division by sqrt(d_k) comes after the softmax, so rows no longer sum to 1 and the softmax still "
    "saturates. Divide the scores.",
    body="return softmax(q @ k.swapaxes(-1, -2)) / np.sqrt(q.shape[-1])",
)
weights.wrong(
    "The softmax runs over the queries: each column sums to 1. Each query distributes its attention over the "
    "keys, the last axis.",
    body=(
        "s = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])\n"
        "return softmax(s.swapaxes(-1, -2)).swapaxes(-1, -2)"
    ),
)

weights.wrong(
    "You divide by the square root of the number of keys. Dot products are large because vectors are wide: "
    "use the last axis.",
    "q.shape[-1]", "k.shape[-2]",
)  # fmt: skip
weights.wrong(
    "The width is taken from axis 1. That is d_k only if there is no batch; count from the end: axis -1.",
    "q.shape[-1]", "q.shape[1]",
)  # fmt: skip
weights.wrong(
    "The scores are multiplied by sqrt(d_k), which makes the saturation worse. They must be divided by it.",
    " / np.sqrt", " * np.sqrt",
)  # fmt: skip
weights.wrong(
    "The softmax runs over axis 1. That is the keys only if there is no batch; count from the end: axis -1.",
    body="s = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])\n"
    "e = np.exp(s - s.max(axis=1, keepdims=True))\n"
    "return e / e.sum(axis=1, keepdims=True)",
)
weights.wrong(
    "The weights are transposed: (m, n), a row for each key. Rows belong to queries: q comes first in the "
    "product.",
    body="return softmax(k @ q.swapaxes(-1, -2) / np.sqrt(q.shape[-1]))",
)
weights.wrong(
    "`*` multiplies element by element. Each query with each key is a matrix product: `@`.", "q @ k", "q * k"
)
weights.wrong(
    "np.dot multiplies each matrix of one batch with each of the other, so the result has too many axes. `@` "
    "keeps batch and heads.",
    "q @ k.swapaxes(-1, -2)", "np.dot(q, k.swapaxes(-1, -2))",
)  # fmt: skip
weights.wrong(
    "exp of large scores overflows, and inf / inf is NaN. Subtract the row's maximum first, as the given "
    "softmax does.",
    body=(
        "e = np.exp(q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1]))\nreturn e / e.sum(axis=-1, keepdims=True)"
    ),
)
for softmax_by_hand in (
    "e = np.exp(s - s.max(axis=-1, keepdims=True))\nreturn e / e.sum(axis=-1)",
    "e = np.exp(s)\nreturn e / e.sum(axis=-1)",
):
    weights.wrong(
        "keepdims=True is missing: the sums of the rows have one axis less than the scores, and broadcast "
        "along the wrong one.",
        body="s = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])\n" + softmax_by_hand,
    )
weights.wrong(
    "The weights are right, but you wrote into an argument (/=, *= ...): the caller's queries are changed. "
    "Make a new array.",
    body="q /= np.sqrt(q.shape[-1])\nreturn softmax(q @ k.swapaxes(-1, -2))",
)


# ---------------------------------------------------------------- attention

attention = lesson.exercise(
    "attention",
    hints=(
        "You have the weights (..., n, m) and the values (..., m, d_v). What gives (..., n, d_v)?",
        "Each output row is a sum over the keys of weight times value: a matrix product.",
        "attention_weights(q, k) @ ... is the whole function.",
    ),
    why="Equation 1 of the Transformer paper, for any batch and any number of heads.",
)


@attention.check("the worked example of the lesson")
def _(my, rng):
    q = np.array([[1, 0, 2, 1], [0, 2, 1, 0], [1, 1, 0, 2]], float)
    k = np.array([[0, 1, 1, 0], [2, 0, 0, 1], [1, 2, 1, 0]], float)
    return my.attention(q, k, np.array([[1.0, 0, 1], [1, 1, 0], [0, 1, 1]]))


@attention.check("a batch of 2 with 3 heads, 4 queries, 6 keys, values wider than keys")
def _(my, rng):
    return my.attention(
        rng.standard_normal((2, 3, 4, 5)),
        rng.standard_normal((2, 3, 6, 5)),
        rng.standard_normal((2, 3, 6, 7)),
    )


@attention.check("one key: the output is its value")
def _(my, rng):
    return my.attention(rng.standard_normal((4, 5)), rng.standard_normal((1, 5)), rng.standard_normal((1, 2)))


@attention.check("scores of ten thousand stay finite")
def _(my, rng):
    return my.attention(
        1e4 * rng.standard_normal((4, 5)), rng.standard_normal((4, 5)), rng.standard_normal((4, 4))
    )


attention.wrong(
    "You mixed the keys. Keys decide the weights; the values, v, are mixed.",
    body="return attention_weights(q, k) @ k",
)
attention.wrong(
    "The weights are transposed: each output became a sum over the queries. Rows of the weights belong to "
    "queries, columns to keys.",
    body="return attention_weights(q, k).swapaxes(-1, -2) @ v",
)
attention.wrong(
    "The output is divided by the number of keys. The weights sum to 1 already, so the weighted sum is the "
    "mean.",
    "attention_weights(q, k) @ v", "attention_weights(q, k) @ v / k.shape[-2]",
)  # fmt: skip
attention.wrong(
    "Queries and keys are exchanged: each key attends to the queries. Call attention_weights(q, k), in this "
    "order.",
    body="return attention_weights(k, q) @ v",
)

attention.wrong(
    "You return the weights as well, as the lesson's own attention does. Return the output alone.",
    body="p = attention_weights(q, k)\nreturn p @ v, p",
)
attention.wrong(
    "`*` multiplies element by element. A weighted sum over the keys is a matrix product: `@`.",
    "attention_weights(q, k) @ v", "attention_weights(q, k) * v",
)  # fmt: skip
attention.wrong(
    "These are scores, not weights: the softmax is missing. Call attention_weights.",
    body="return q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1]) @ v",
)


# ---------------------------------------------------------------- entropy

entropy = lesson.exercise(
    "entropy",
    hints=(
        "What does NumPy give for 0 * log(0), and what should it be?",
        "Replace the zeros inside the logarithm by 1: log 1 is 0, and 0 times 0 is 0.",
        "-(weights * np.log(np.where(weights > 0, weights, 1))).sum(axis=-1)",
    ),
    why=(
        "Entropy shows a saturated head at a glance: near 0 it attends to one key, near log m it does not "
        "choose."
    ),
)


@entropy.check("uniform over 4 keys, and over 1")
def _(my, rng):
    return {"4 equal keys": my.entropy(np.full((2, 4), 0.25)), "one key": my.entropy(np.ones((3, 1)))}


@entropy.check("weights that are exactly 0")
def _(my, rng):
    with np.errstate(divide="raise", invalid="raise"):
        return my.entropy(np.array([[0.0, 1.0, 0.0], [0.5, 0.5, 0.0], [0.2, 0.3, 0.5]]))


@entropy.check("a batch with heads")
def _(my, rng):
    return my.entropy(rng.dirichlet(np.ones(6), size=(2, 3, 4)))


@entropy.check("the weights are unchanged")
def _(my, rng):
    weights = np.array([[0.0, 1.0, 0.0], [0.2, 0.3, 0.5]])
    h = my.entropy(weights)
    return {"the entropies": h, "the weights after the call": weights}


entropy.wrong(
    "0 log 0 is NaN in NumPy, with a warning. Keep zeros out of the logarithm.",
    "np.log(np.where(weights > 0, weights, 1))",
    "np.log(weights)",
)
entropy.wrong(
    "This is the logarithm to base 2, so it counts bits. Use the natural logarithm.",
    "np.log(np.where", "np.log2(np.where",
)  # fmt: skip
entropy.wrong(
    "The sum runs over all axes, so the result is one number. Each query has an entropy: sum over the last "
    "axis.",
    ".sum(axis=-1)",
    ".sum()",
)
entropy.wrong(
    "The sign is wrong: logarithms of weights are at most 0, and entropy is at least 0.",
    "-(weights",
    "(weights",
)
entropy.wrong(
    "This is a mean over the keys instead of a sum: for m equal weights the result should be log m.",
    ".sum(axis=-1)",
    ".mean(axis=-1)",
)
entropy.wrong(
    "A small number added inside the logarithm avoids NaN but changes every entropy a little. Leave out the "
    "zeros instead.",
    "np.log(np.where(weights > 0, weights, 1))", "np.log(weights + 1e-4)",
)  # fmt: skip

entropy.wrong(
    "The entropies are right, but you changed the zeros in the caller's array. Work on a new array: np.where "
    "makes one.",
    body="weights[weights == 0] = 1\nreturn -(weights * np.log(weights)).sum(axis=-1)",
)
entropy.wrong(
    "The sum runs over axis 1. That is the keys only if there is no batch; count from the end: axis -1.",
    ".sum(axis=-1)", ".sum(axis=1)",
)  # fmt: skip


# ---------------------------------------------------------------- attention_backward

backward = lesson.exercise(
    "attention_backward",
    hints=(
        "The output is p @ v. What are the two gradients of a matrix product? (Lesson 03.)",
        "Go backwards: from g to dv and dp (matrix product), from dp to ds (softmax_backward is given), from "
        "ds to dq and dk (matrix product, and the scale again).",
        "dv = pT @ g;  ds = softmax_backward(g @ vT, p);  dq = ds @ k * scale;  dk = dsT @ q * scale, with T "
        "the last two axes swapped.",
    ),
    why=(
        "You have just derived the backward of the layer that large language models spend most of their "
        "attention on, in four lines."
    ),
)


@backward.gradcheck(
    forward="attention", inputs=lambda rng: [rng.standard_normal(s) for s in ((4, 3), (6, 3), (6, 2))]
)
def _(my, g, q, k, v):
    return my.attention_backward(g, q, k, v)


@backward.gradcheck(
    forward="attention",
    inputs=lambda rng: [rng.standard_normal(s) for s in ((2, 3, 2, 3), (2, 3, 4, 3), (2, 3, 4, 5))],
    title="a batch with heads, against finite differences",
)
def _(my, g, q, k, v):
    return my.attention_backward(g, q, k, v)


@backward.check("all sizes equal: a wrong transpose would raise no error")
def _(my, rng):
    g, q, k, v = rng.standard_normal((4, 3, 3, 3))
    return dict(zip(("dq", "dk", "dv"), my.attention_backward(g, q, k, v), strict=False))


@backward.check("one key: nothing to choose, so dq and dk are 0")
def _(my, rng):
    g, q, k, v = (rng.standard_normal(s) for s in ((4, 2), (4, 3), (1, 3), (1, 2)))
    return dict(zip(("dq", "dk", "dv"), my.attention_backward(g, q, k, v), strict=False))


backward.wrong(
    "The scale 1/sqrt(d_k) is missing. The forward pass has it, so by the chain rule dq and dk must be "
    "multiplied by it too.",
    "1 / np.sqrt(q.shape[-1])", "1.0",
)  # fmt: skip
backward.wrong(
    "You used p * dp as the softmax's backward. But raising one weight lowers the others: use "
    "softmax_backward.",
    "softmax_backward(g @ v.swapaxes(-1, -2), p)", "p * (g @ v.swapaxes(-1, -2))",
)  # fmt: skip
backward.wrong(
    "The backward pass skips the softmax: the gradient of the weights is not the gradient of the scores.",
    "softmax_backward(g @ v.swapaxes(-1, -2), p)", "g @ v.swapaxes(-1, -2)",
)  # fmt: skip
backward.wrong(
    "p * (1 - p) is only the diagonal of the softmax's Jacobian: each weight depends on all scores of its "
    "row. softmax_backward has all of it.",
    "softmax_backward(g @ v.swapaxes(-1, -2), p)", "p * (1 - p) * (g @ v.swapaxes(-1, -2))",
)  # fmt: skip
backward.wrong(
    "dq and dk are in the wrong order. Return (dq, dk, dv).",
    "return scale * ds @ k, scale * ds.swapaxes(-1, -2) @ q, dv",
    "return scale * ds.swapaxes(-1, -2) @ q, scale * ds @ k, dv",
)
backward.wrong(
    "dv needs the weights transposed: value j collects from all queries that attended to it, and these "
    "weights are column j of p.",
    body="p, scale = attention_weights(q, k), 1 / np.sqrt(q.shape[-1])\n"
    "dv = p @ g\n"
    "ds = softmax_backward(g @ v.swapaxes(-1, -2), p)\n"
    "return scale * ds @ k, scale * ds.swapaxes(-1, -2) @ q, dv",
)
backward.wrong(
    "dk needs ds transposed: key j collects from all queries, with column j of ds.",
    body="p, scale = attention_weights(q, k), 1 / np.sqrt(q.shape[-1])\n"
    "ds = softmax_backward(g @ v.swapaxes(-1, -2), p)\n"
    "dk = scale * ds @ q\n"
    "return scale * ds @ k, dk, p.swapaxes(-1, -2) @ g",
)
backward.wrong(
    ".T reverses all axes, batch and heads too. Swap the last two only, everywhere.",
    body="p, scale = attention_weights(q, k), 1 / np.sqrt(q.shape[-1])\n"
    "ds = softmax_backward(g @ v.T, p)\n"
    "return scale * ds @ k, scale * ds.T @ q, p.T @ g",
)

backward.wrong(
    "The arguments of softmax_backward are exchanged: it takes the gradient first, then the weights.",
    "softmax_backward(g @ v.swapaxes(-1, -2), p)", "softmax_backward(p, g @ v.swapaxes(-1, -2))",
)  # fmt: skip
backward.wrong(
    "p.T reverses all axes of the weights, batch and heads too. In dv swap the last two only.",
    "dv = p.swapaxes(-1, -2) @ g", "dv = p.T @ g",
)  # fmt: skip
backward.wrong(
    "ds.T reverses all axes, batch and heads too. In dk swap the last two only.",
    "ds.swapaxes(-1, -2) @ q", "ds.T @ q",
)  # fmt: skip
backward.wrong(
    "q and k are exchanged: a query's gradient is a sum of the keys it was compared with, a key's gradient a "
    "sum of queries.",
    "return scale * ds @ k, scale * ds.swapaxes(-1, -2) @ q, dv",
    "return scale * ds @ q, scale * ds.swapaxes(-1, -2) @ k, dv",
)
backward.wrong(
    "dq has the scale 1/sqrt(d_k), dk lacks it. The scores were scaled, so both get it.",
    "scale * ds.swapaxes(-1, -2) @ q", "ds.swapaxes(-1, -2) @ q",
)  # fmt: skip
backward.wrong(
    "dk has the scale 1/sqrt(d_k), dq lacks it. The scores were scaled, so both get it.",
    "scale * ds @ k", "ds @ k",
)  # fmt: skip
backward.wrong(
    "The scale is inverted: the forward pass divides by sqrt(d_k), so the backward pass divides too, and "
    "does not multiply.",
    "1 / np.sqrt(q.shape[-1])", "np.sqrt(q.shape[-1])",
)  # fmt: skip
backward.wrong(
    "dk is transposed, (d_k, m). It must have the shape of k: ds transposed comes first in the product, q "
    "second.",
    "scale * ds.swapaxes(-1, -2) @ q", "scale * q.swapaxes(-1, -2) @ ds",
)  # fmt: skip
backward.wrong(
    "dv has the scale too. Only the scores are scaled, and the values are not part of the scores.",
    "dv = p.swapaxes(-1, -2) @ g", "dv = scale * p.swapaxes(-1, -2) @ g",
)  # fmt: skip


# ---------------------------------------------------------------- shared_backward

shared = lesson.exercise(
    "shared_backward",
    hints=(
        "What does attention_backward give you if you call it with a k that has no head axis?",
        "The forward pass broadcast k over the heads. A broadcast axis is summed in the backward pass "
        "(lesson 02).",
        "Call attention_backward, leave dq as it is, and sum dk and dv over the first axis.",
    ),
    why=(
        "Models share keys and values among heads to keep their caches small (lesson 16). Without the sum, "
        "only one head would train them."
    ),
)


@shared.gradcheck(
    forward="attention", inputs=lambda rng: [rng.standard_normal(s) for s in ((3, 4, 2), (5, 2), (5, 3))]
)
def _(my, g, q, k, v):
    return my.shared_backward(g, q, k, v)


@shared.check("the shapes of dq, dk, dv")
def _(my, rng):
    g, q, k, v = (rng.standard_normal(s) for s in ((3, 4, 6), (3, 4, 2), (5, 2), (5, 6)))
    names = ("the shape of dq", "the shape of dk", "the shape of dv")
    return {name: str(np.shape(d)) for name, d in zip(names, my.shared_backward(g, q, k, v), strict=False)}


@shared.check("one head: the same as attention_backward")
def _(my, rng):
    g, q, k, v = (rng.standard_normal(s) for s in ((1, 4, 3), (1, 4, 2), (5, 2), (5, 3)))
    return dict(zip(("dq", "dk", "dv"), my.shared_backward(g, q, k, v), strict=False))


shared.wrong(
    "dk and dv still have an axis of heads. All heads use the same keys and values, so their gradients add "
    "up: sum over the heads.",
    body="return attention_backward(g, q, k, v)",
)
shared.wrong(
    "You took the mean over the heads. The loss depends on the keys through every head, and gradients add "
    "up: sum.",
    "dk.sum(axis=0), dv.sum(axis=0)", "dk.mean(axis=0), dv.mean(axis=0)",
)  # fmt: skip
shared.wrong(
    "Only the first head's gradient arrives at keys and values. All heads used them.",
    "dk.sum(axis=0), dv.sum(axis=0)",
    "dk[0], dv[0]",
)
shared.wrong(
    "dq is summed and broadcast again. Each head has its own queries: sum only the gradients of the shared "
    "arrays.",
    "return dq, dk", "return np.broadcast_to(dq.sum(axis=0), dq.shape), dk",
)  # fmt: skip
shared.wrong(
    "dv is summed over the heads, dk is not. Keys are shared as well as values.", "dk.sum(axis=0)", "dk[0]"
)
shared.wrong(
    "An axis of length 1 is left where the heads were: k and v have no such axis, so their gradients have "
    "none. Sum without keepdims.",
    "dk.sum(axis=0), dv.sum(axis=0)", "dk.sum(axis=0, keepdims=True), dv.sum(axis=0, keepdims=True)",
)  # fmt: skip
shared.wrong(
    "The sum runs over the keys. Sum over the heads, the first axis.",
    "dk.sum(axis=0), dv.sum(axis=0)", "dk.sum(axis=1), dv.sum(axis=1)",
)  # fmt: skip
