"""Checks of lesson 12."""

import numpy as np

from tutorials.course import Checks

lesson = Checks()

# ---------------------------------------------------------------- feed-forward

feed_forward = lesson.exercise(
    "feed_forward",
    hints=(
        "How many numbers does a position have before, between and after the two linear maps?",
        "Multiply by W1 and add b1; cut what is negative to 0; multiply by W2 and add b2. Nothing is cut at the end.",
        "hidden = np.maximum(x @ W1 + b1, 0), and then the second linear map of hidden.",
    ),
    why="Two thirds of the weights of an encoder layer are in this function, and it is the one place where a position "
    "computes alone.",
)


@feed_forward.check("a batch of sequences (2, 5, 3), hidden width 7")
def _(my, rng):
    x, W1, b1, W2, b2 = (rng.standard_normal(s) for s in ((2, 5, 3), (3, 7), (7,), (7, 3), (3,)))
    return my.feed_forward(x, W1, b1, W2, b2)


@feed_forward.check("a single position (4,), where d_ff equals d_model")
def _(my, rng):
    x, W1, b1, W2, b2 = (rng.standard_normal(s) for s in ((4,), (4, 4), (4,), (4, 4), (4,)))
    return my.feed_forward(x, W1, b1, W2, b2)


@feed_forward.check("the example of the lesson")
def _(my, rng):
    W1, b1 = np.array([[1.0, -1.0, 0.0], [0.0, 1.0, -1.0]]), np.array([0.0, 0.0, 1.0])
    W2, b2 = np.array([[1.0, 0.0], [2.0, 1.0], [5.0, 5.0]]), np.array([0.0, -3.0])
    return my.feed_forward(np.array([1.0, 2.0]), W1, b1, W2, b2)


@feed_forward.check("the inputs are left as they were")
def _(my, rng):
    given = [rng.standard_normal(s) for s in ((2, 3), (3, 5), (5,), (5, 3), (3,))]
    y = my.feed_forward(*given)
    return {
        "the output": y,
        **dict(zip([f"{name} after the call" for name in ("x", "W1", "b1", "W2", "b2")], given, strict=True)),
    }


feed_forward.wrong(
    "The ReLU is missing: two linear maps in a row are one linear map. Cut the hidden values at 0 between them.",
    "np.maximum(x @ W1 + b1, 0)", "x @ W1 + b1",
)  # fmt: skip
feed_forward.wrong(
    "b1 is added after the ReLU. It moves the point where a hidden value switches on, so it belongs inside.",
    "np.maximum(x @ W1 + b1, 0)", "np.maximum(x @ W1, 0) + b1",
)  # fmt: skip
feed_forward.wrong(
    "There is a second ReLU at the end. The output must be able to be negative: it is added to x.",
    "return hidden @ W2 + b2", "return np.maximum(hidden @ W2 + b2, 0)",
)  # fmt: skip
feed_forward.wrong("The second bias, b2, is missing.", "hidden @ W2 + b2", "hidden @ W2")
feed_forward.wrong(
    "The first bias, b1, is missing: every hidden value would switch on at 0.",
    "x @ W1 + b1", "x @ W1",
)  # fmt: skip

feed_forward.wrong(
    "np.max looks for the largest entry along an axis. The larger of two things, entry by entry, is np.maximum(a, 0).",
    "np.maximum(x @ W1 + b1, 0)", "np.max(0, x @ W1 + b1)",
)  # fmt: skip
feed_forward.wrong(
    "np.max(a, 0) is the largest entry along axis 0. The larger of a and 0, entry by entry, is np.maximum(a, 0).",
    "np.maximum(x @ W1 + b1, 0)", "np.max(x @ W1 + b1, 0)",
)  # fmt: skip
feed_forward.wrong(
    "Python's max compares two numbers, not arrays. Entry by entry it is np.maximum.",
    "np.maximum(x @ W1 + b1, 0)", "max(x @ W1 + b1, 0)",
)  # fmt: skip
feed_forward.wrong(
    "The weights are applied transposed, x W^T, as in PyTorch. Here W1 is (d_model, d_ff), (in, out), so it is x @ W1.",
    body="return np.maximum(x @ W1.T + b1, 0) @ W2.T + b2",
)

feed_forward_backward = lesson.exercise(
    "feed_forward_backward",
    hints=(
        "Go through the forward backwards: what is the gradient of the hidden values, and which of them did the "
        "ReLU let through?",
        "g goes through W2 transposed, then a mask of where x W1 + b1 was positive, then W1 transposed. A weight's gradient is "
        "input transposed times gradient of the output, over all positions; a bias's is the sum over all positions.",
        "dbefore = (g @ W2.T) * (x @ W1 + b1 > 0); dx = dbefore @ W1.T; dW1 = rows(x).T @ rows(dbefore); dW2 "
        "likewise, from hidden and g.",
    ),
    why="With lesson 10's this is all calculus of a Transformer layer but the norm's; minigrad's `linear` kernel does "
    "the same two products.",
)


@feed_forward_backward.gradcheck(
    forward="feed_forward",
    inputs=lambda rng: [rng.standard_normal(s) for s in ((2, 5, 3), (3, 7), (7,), (7, 3), (3,))],
)
def _(my, g, x, W1, b1, W2, b2):
    return my.feed_forward_backward(g, x, W1, b1, W2, b2)


@feed_forward_backward.check("all axes of one size, a single sequence")
def _(my, rng):
    x, W1, b1, W2, b2, g = (rng.standard_normal(s) for s in ((4, 4), (4, 4), (4,), (4, 4), (4,), (4, 4)))
    return dict(
        zip(("dx", "dW1", "db1", "dW2", "db2"), my.feed_forward_backward(g, x, W1, b1, W2, b2), strict=False)
    )


@feed_forward_backward.check("a hidden value exactly 0: the ReLU passes nothing there")
def _(my, rng):
    W1, b1, W2, b2 = np.eye(2), np.zeros(2), np.eye(2), np.zeros(2)
    grads = my.feed_forward_backward(np.ones((1, 2)), np.array([[0.0, 3.0]]), W1, b1, W2, b2)
    return dict(zip(("dx", "dW1", "db1", "dW2", "db2"), grads, strict=False))


feed_forward_backward.wrong(
    "The ReLU's mask is missing: where a hidden value was cut to 0, no gradient comes back.",
    "(g @ W2.T) * (before > 0)", "g @ W2.T",
)  # fmt: skip
feed_forward_backward.wrong(
    "At a hidden value of exactly 0 you let the gradient through; the convention here and in PyTorch is relu'(0) = 0.",
    "before > 0", "before >= 0",
)  # fmt: skip
feed_forward_backward.wrong(
    "dW2 is made of the values before the ReLU. W2 was multiplied with what came out of it.",
    "rows(hidden).T @ rows(g)", "rows(before).T @ rows(g)",
)  # fmt: skip
feed_forward_backward.wrong(
    "The biases' gradients are means over the positions. Each position adds the bias once, so their gradients add up: a sum.",
    body="""
    before = x @ W1 + b1
    hidden = np.maximum(before, 0)
    dbefore = (g @ W2.T) * (before > 0)
    dW1, dW2 = rows(x).T @ rows(dbefore), rows(hidden).T @ rows(g)
    return dbefore @ W1.T, dW1, rows(dbefore).mean(0), dW2, rows(g).mean(0)
    """,
)
feed_forward_backward.wrong(
    "The mask is applied to the gradient's own sign, not to where the forward value was positive.",
    "(g @ W2.T) * (before > 0)", "np.maximum(g @ W2.T, 0)",
)  # fmt: skip
feed_forward_backward.wrong(
    "db1 adds up the gradient after the ReLU. b1 was added before it, so its gradient has gone through the mask.",
    "rows(dbefore).sum(0)", "rows(g @ W2.T).sum(0)",
)  # fmt: skip

feed_forward_backward.wrong(
    "With a batch, x.T turns all axes round, and W1 and W2 collect from all positions. Put them below each other first: rows.",
    body="""
    before = x @ W1 + b1
    hidden = np.maximum(before, 0)
    dbefore = (g @ W2.T) * (before > 0)
    return dbefore @ W1.T, x.T @ dbefore, rows(dbefore).sum(0), hidden.T @ g, rows(g).sum(0)
    """,
)
feed_forward_backward.wrong(
    "dW1 and dW2 still have the axis of the batch: each sequence has a gradient of its own there. All use the same weights: add them up.",
    body="""
    before = x @ W1 + b1
    hidden = np.maximum(before, 0)
    dbefore = (g @ W2.T) * (before > 0)
    dW1, dW2 = x.swapaxes(-1, -2) @ dbefore, hidden.swapaxes(-1, -2) @ g
    return dbefore @ W1.T, dW1, rows(dbefore).sum(0), dW2, rows(g).sum(0)
    """,
)
feed_forward_backward.wrong(
    "db1 and db2 are sums over the first axis only. A bias serves every position of every sequence: sum over all axes but the last.",
    body="""
    before = x @ W1 + b1
    hidden = np.maximum(before, 0)
    dbefore = (g @ W2.T) * (before > 0)
    return dbefore @ W1.T, rows(x).T @ rows(dbefore), dbefore.sum(0), rows(hidden).T @ rows(g), g.sum(0)
    """,
)
feed_forward_backward.wrong(
    "g goes through W2 itself. Forward is hidden @ W2, so backward is g times W2 transposed.", "g @ W2.T", "g @ W2",
)  # fmt: skip
feed_forward_backward.wrong(
    "dx comes through W1 itself. Forward is x @ W1, so backward is the gradient times W1 transposed.",
    "dbefore @ W1.T", "dbefore @ W1",
)  # fmt: skip

# ---------------------------------------------------------------- layer norm

layer_norm = lesson.exercise(
    "layer_norm",
    hints=(
        "A batch (2, 5, 8): how many means are there? One for each of the 10 positions.",
        "Take off the mean of the last axis, divide by the root of (mean of squares + eps), then scale by gamma and add beta.",
        "centred = x - x.mean(-1, keepdims=True); variance = (centred**2).mean(-1, keepdims=True); the root is "
        "np.sqrt(variance + eps).",
    ),
    why="Without it the numbers of a deep stack grow or shrink from layer to layer; with it each sublayer reads "
    "numbers of one size.",
)


@layer_norm.check("a batch (2, 5, 3) with a gamma and a beta")
def _(my, rng):
    return my.layer_norm(
        rng.standard_normal((2, 5, 3)) * 3 + 2, rng.standard_normal(3), rng.standard_normal(3)
    )


@layer_norm.check("[1, 0, 0, 0] -> 1.7320, not 1.5")
def _(my, rng):
    return my.layer_norm(np.array([1.0, 0.0, 0.0, 0.0]), np.ones(4), np.zeros(4))


@layer_norm.check("as many positions as features: a wrong axis would not crash")
def _(my, rng):
    return my.layer_norm(rng.standard_normal((4, 4)), np.ones(4), np.zeros(4))


@layer_norm.check("an eps of 0.5 shows where it stands")
def _(my, rng):
    return my.layer_norm(rng.standard_normal((3, 5)), rng.standard_normal(5), rng.standard_normal(5), 0.5)


@layer_norm.check("all features equal: the output is beta, and no division by 0")
def _(my, rng):
    return my.layer_norm(np.full((2, 3), 7.0), np.ones(3), np.array([1.0, 2.0, 3.0]))


@layer_norm.check("numbers near a million, which differ by about 1")
def _(my, rng):
    return my.layer_norm(1e6 + rng.standard_normal((4, 5)), np.ones(5), np.zeros(5))


@layer_norm.check("x is left as it was")
def _(my, rng):
    x = rng.standard_normal((3, 5)) + 2
    y = my.layer_norm(x, np.ones(5), np.zeros(5))
    return {"the output": y, "x after the call": x}


layer_norm.wrong(
    "The variance divides by C - 1. Layer norm takes the biased one, which divides by C: it describes these C "
    "numbers, it does not estimate.",
    "(centred**2).mean(-1, keepdims=True)", "x.var(-1, keepdims=True, ddof=1)",
)  # fmt: skip
layer_norm.wrong(
    "eps stands outside the root. It belongs inside, sqrt(variance + eps): outside, the backward divides by a "
    "root of 0 when all features are equal.",
    "np.sqrt(variance + eps)", "(np.sqrt(variance) + eps)",
)  # fmt: skip
layer_norm.wrong(
    "You divide by the variance, not by its root. Then a row twice as large comes out half as large.",
    "np.sqrt(variance + eps)", "(variance + eps)",
)  # fmt: skip
layer_norm.wrong(
    "Mean and variance are those of the whole array. Each position is normed by its own: average over the last axis only.",
    body="return (x - x.mean()) / np.sqrt(x.var() + eps) * gamma + beta",
)
layer_norm.wrong(
    "Mean and variance run over the first axis, across examples. That is batch norm; layer norm runs over the "
    "features, the last axis.",
    body="return (x - x.mean(0)) / np.sqrt(x.var(0) + eps) * gamma + beta",
)
layer_norm.wrong(
    "beta is added before gamma multiplies. The order is scale, then shift.",
    "centred / np.sqrt(variance + eps) * gamma + beta", "(centred / np.sqrt(variance + eps) + beta) * gamma",
)  # fmt: skip

layer_norm.wrong(
    "The variance as mean(x^2) - mean(x)^2 takes the difference of two huge numbers where x is far from 0, and little of it is right. "
    "Centre first, then square.",
    "(centred**2).mean(-1, keepdims=True)", "(x**2).mean(-1, keepdims=True) - x.mean(-1, keepdims=True) ** 2",
)  # fmt: skip
layer_norm.wrong(
    "The output is right, but you wrote into x (x -= ...): the caller's x is changed, and a residual still needs it. Make a new array.",
    body="""
    x -= x.mean(-1, keepdims=True)
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + eps) * gamma + beta
    """,
)
for statistics in (
    "centred = x - x.mean(-1)\nvariance = (centred**2).mean(-1)",
    "centred = x - x.mean(-1)\nvariance = x.var(-1)",
    "centred = x - x.mean(-1)\nvariance = (centred**2).mean(-1, keepdims=True)",
    "centred = x - x.mean(-1, keepdims=True)\nvariance = (centred**2).mean(-1)",
):
    layer_norm.wrong(
        "keepdims=True is missing: mean or variance have lost the axis of features, and are spread over the wrong one. "
        "Both must keep it, with length 1.",
        body=statistics + "\nreturn centred / np.sqrt(variance + eps) * gamma + beta",
    )
layer_norm.wrong(
    "gamma is missing: the normed vector is multiplied by it, feature by feature.", " * gamma", "",
)  # fmt: skip
layer_norm.wrong("beta is missing: it is added at the end.", " + beta", "")
layer_norm.wrong(
    "The mean is not taken off: what you compute is close to RMS norm. Divide the centred vector.",
    "return centred /", "return x /",
)  # fmt: skip

layer_norm_backward = lesson.exercise(
    "layer_norm_backward",
    hints=(
        "By how many ways does one feature reach the output of its row? It is there itself, in the mean, and in the variance.",
        "Let h = g gamma. The mean takes mean(h) off; the variance takes xhat mean(h xhat) off; all is scaled by "
        "1 / sqrt(variance + eps). "
        "gamma and beta served all positions, so their gradients are sums over them.",
        "dx = s * (h - h.mean(-1, keepdims=True) - xhat * ...); dgamma = rows(g * xhat).sum(0); dbeta = rows(g).sum(0).",
    ),
    why="This is the backward that is most often wrong in engines written by hand; the same line is minigrad's "
    "layer_norm kernel.",
)


@layer_norm_backward.gradcheck(
    forward="layer_norm",
    inputs=lambda rng: [rng.standard_normal((2, 5, 3)), rng.standard_normal(3), rng.standard_normal(3)],
)
def _(my, g, x, gamma, beta):
    return my.layer_norm_backward(g, x, gamma)


@layer_norm_backward.check("a single row of six")
def _(my, rng):
    grads = my.layer_norm_backward(
        rng.standard_normal((1, 6)), rng.standard_normal((1, 6)), rng.standard_normal(6)
    )
    return dict(zip(("dx", "dgamma", "dbeta"), grads, strict=False))


@layer_norm_backward.check("an eps of 0.5, as many positions as features")
def _(my, rng):
    g, x = rng.standard_normal((2, 4, 4))
    return dict(
        zip(
            ("dx", "dgamma", "dbeta"), my.layer_norm_backward(g, x, rng.standard_normal(4), 0.5), strict=False
        )
    )


@layer_norm_backward.check("all features equal: finite gradients")
def _(my, rng):
    grads = my.layer_norm_backward(np.array([[1.0, 2.0, 4.0]]), np.full((1, 3), 7.0), np.ones(3))
    return dict(zip(("dx", "dgamma", "dbeta"), grads, strict=False))


layer_norm_backward.wrong(
    "Mean and variance were taken as constants. They are made of x, so two terms are missing from dx: what x does "
    "to the mean, and to the variance.",
    "(h - h.mean(-1, keepdims=True) - xhat * (h * xhat).mean(-1, keepdims=True))", "h",
)  # fmt: skip
layer_norm_backward.wrong(
    "The way through the variance is missing from dx: subtract xhat times the mean of h xhat.",
    " - xhat * (h * xhat).mean(-1, keepdims=True)", "",
)  # fmt: skip
layer_norm_backward.wrong(
    "The way through the mean is missing from dx: a row's gradients must sum to 0, since a shift of the whole row "
    "changes nothing.",
    " - h.mean(-1, keepdims=True)", "",
)  # fmt: skip
layer_norm_backward.wrong(
    "gamma is missing from dx. The gradient of xhat is g gamma, and the rest starts from there.",
    "h = g * gamma", "h = g",
)  # fmt: skip
layer_norm_backward.wrong(
    "dgamma is made of x. gamma multiplies xhat, the normed x, so its gradient collects g xhat.",
    "rows(g * xhat).sum(0)", "rows(g * x).sum(0)",
)  # fmt: skip
layer_norm_backward.wrong(
    "dgamma and dbeta are sums over the first axis only. They serve every position: sum over all axes but the last.",
    "rows(g * xhat).sum(0), rows(g).sum(0)", "(g * xhat).sum(0), g.sum(0)",
)  # fmt: skip
layer_norm_backward.wrong(
    "eps is missing from the scale. It was in the forward, so it is here too; rows of equal features need it.",
    body="""
    centred = x - x.mean(-1, keepdims=True)
    s = 1 / np.sqrt(np.maximum((centred**2).mean(-1, keepdims=True), 1e-30))
    xhat, h = centred * s, g * gamma
    dx = s * (h - h.mean(-1, keepdims=True) - xhat * (h * xhat).mean(-1, keepdims=True))
    return dx, rows(g * xhat).sum(0), rows(g).sum(0)
    """,
)

layer_norm_backward.wrong(
    "The factor s = 1 / sqrt(variance + eps) is missing from dx: xhat was centred times s, so all of dx is multiplied by it.",
    "dx = s * (h", "dx = (h",
)  # fmt: skip
layer_norm_backward.wrong(
    "You have sums where means belong. Mean and variance each divide by C, and so do both terms of dx: .mean, not .sum.",
    body="""
    centred = x - x.mean(-1, keepdims=True)
    s = 1 / np.sqrt((centred**2).mean(-1, keepdims=True) + eps)
    xhat, h = centred * s, g * gamma
    dx = s * (h - h.sum(-1, keepdims=True) - xhat * (h * xhat).sum(-1, keepdims=True))
    return dx, rows(g * xhat).sum(0), rows(g).sum(0)
    """,
)
for third in ("centred * (h * centred)", "xhat * (h * centred)", "centred * (h * xhat)"):
    layer_norm_backward.wrong(
        "The third term of dx has the centred x where it needs xhat, the centred x times s: both factors are xhat.",
        "xhat * (h * xhat)", third,
    )  # fmt: skip
layer_norm_backward.wrong(
    "The sign of the third term: what comes back through the variance is subtracted, as what comes through the mean is.",
    "- xhat * (h", "+ xhat * (h",
)  # fmt: skip
layer_norm_backward.wrong(
    "The sign of the second term: what comes back through the mean is subtracted.", "(h - h.mean", "(h + h.mean",
)  # fmt: skip
layer_norm_backward.wrong(
    "dgamma is made of h = g gamma. The gradient of gamma is what gamma was multiplied with, xhat, times g itself.",
    "rows(g * xhat).sum(0)", "rows(h * xhat).sum(0)",
)  # fmt: skip
layer_norm_backward.wrong(
    "dgamma is made of the centred x. gamma multiplies xhat, which is that times s.",
    "rows(g * xhat).sum(0)", "rows(g * centred).sum(0)",
)  # fmt: skip
for mean_h, mean_hx in (
    (".mean(-1)", ".mean(-1)"),
    (".mean(-1)", ".mean(-1, keepdims=True)"),
    (".mean(-1, keepdims=True)", ".mean(-1)"),
):
    layer_norm_backward.wrong(
        "keepdims=True is missing in dx: the means over the features have lost that axis, and are spread over the wrong one.",
        "(h - h.mean(-1, keepdims=True) - xhat * (h * xhat).mean(-1, keepdims=True))", f"(h - h{mean_h} - xhat * (h * xhat){mean_hx})",
    )  # fmt: skip
layer_norm_backward.wrong(
    "keepdims=True is missing: the means over the features have lost that axis, and are spread over the wrong one. All four need it.",
    body="""
    centred = x - x.mean(-1)
    s = 1 / np.sqrt((centred**2).mean(-1) + eps)
    xhat, h = centred * s, g * gamma
    dx = s * (h - h.mean(-1) - xhat * (h * xhat).mean(-1))
    return dx, rows(g * xhat).sum(0), rows(g).sum(0)
    """,
)

# ---------------------------------------------------------------- RMS norm

rms_norm = lesson.exercise(
    "rms_norm",
    hints=(
        "What is left of layer norm if you take out the mean and beta?",
        "Divide by the root of the mean of the squares plus eps, then scale by gamma.",
        "The root is np.sqrt((x * x).mean(-1, keepdims=True) + eps).",
    ),
    why="Llama and most models after it use this norm: one reduction fewer, one vector of weights fewer, and it works as well.",
)


@rms_norm.check("a batch (2, 5, 3)")
def _(my, rng):
    return my.rms_norm(rng.standard_normal((2, 5, 3)) + 2, rng.standard_normal(3))


@rms_norm.check("[1, 0, 0, 0] -> 2")
def _(my, rng):
    return my.rms_norm(np.array([1.0, 0.0, 0.0, 0.0]), np.ones(4))


@rms_norm.check("as many positions as features, an eps of 0.5")
def _(my, rng):
    return my.rms_norm(rng.standard_normal((4, 4)), rng.standard_normal(4), 0.5)


@rms_norm.check("a row of zeros stays zero")
def _(my, rng):
    return my.rms_norm(np.zeros((2, 3)), np.ones(3))


@rms_norm.check("x is left as it was")
def _(my, rng):
    x = rng.standard_normal((3, 5)) + 2
    y = my.rms_norm(x, np.ones(5))
    return {"the output": y, "x after the call": x}


rms_norm.wrong(
    "The mean is taken off first. That is layer norm; RMS norm leaves it in.",
    body="""
    x = x - x.mean(-1, keepdims=True)
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * gamma
    """,
)
rms_norm.wrong(
    "You divide by the length of the row, the root of the sum of squares. It is the root of their mean, so that "
    "the size of an entry is about 1.",
    "(x * x).mean(-1, keepdims=True)", "(x * x).sum(-1, keepdims=True)",
)  # fmt: skip
rms_norm.wrong(
    "eps stands outside the root; it belongs inside, under the root with the mean square.",
    body="return x / (np.sqrt((x * x).mean(-1, keepdims=True)) + eps) * gamma",
)
rms_norm.wrong(
    "The mean square is that of the whole array. Each position has its own: average over the last axis only.",
    "(x * x).mean(-1, keepdims=True)", "(x * x).mean()",
)  # fmt: skip

rms_norm.wrong(
    "keepdims=True is missing: the mean square has lost the axis of features, and is spread over the wrong one.",
    "(x * x).mean(-1, keepdims=True)", "(x * x).mean(-1)",
)  # fmt: skip
rms_norm.wrong(
    "You divide by the mean square, not by its root. Then a row twice as large comes out half as large.",
    "np.sqrt((x * x).mean(-1, keepdims=True) + eps)", "((x * x).mean(-1, keepdims=True) + eps)",
)  # fmt: skip
rms_norm.wrong(
    "The output is right, but you wrote into x (x /= ...): the caller's x is changed, and a residual still needs it. Make a new array.",
    body="x /= np.sqrt((x * x).mean(-1, keepdims=True) + eps)\nreturn x * gamma",
)

rms_norm_backward = lesson.exercise(
    "rms_norm_backward",
    hints=(
        "Which of the three ways of layer norm's backward is gone, now that no mean is taken off?",
        "As layer norm's, with xhat = x / root and without the term mean(h). There is no beta, so two gradients are returned.",
        "dx = s * (h - xhat * (h * xhat).mean(-1, keepdims=True)), with h = g * gamma.",
    ),
    why="Knowing which term belongs to which statistic, you can write the backward of any norm.",
)


@rms_norm_backward.gradcheck(
    forward="rms_norm",
    inputs=lambda rng: [rng.standard_normal((2, 5, 3)), rng.standard_normal(3)],
)
def _(my, g, x, gamma):
    return my.rms_norm_backward(g, x, gamma)


@rms_norm_backward.check("an eps of 0.5, as many positions as features")
def _(my, rng):
    g, x = rng.standard_normal((2, 4, 4))
    return dict(zip(("dx", "dgamma"), my.rms_norm_backward(g, x, rng.standard_normal(4), 0.5), strict=False))


rms_norm_backward.wrong(
    "The root was taken as a constant. It is made of x: subtract xhat times the mean of h xhat.",
    "(h - xhat * (h * xhat).mean(-1, keepdims=True))", "h",
)  # fmt: skip
rms_norm_backward.wrong(
    "mean(h) is subtracted, as in layer norm. There it came from taking off the mean, which RMS norm does not do.",
    "(h - xhat *", "(h - h.mean(-1, keepdims=True) - xhat *",
)  # fmt: skip
rms_norm_backward.wrong(
    "gamma is missing from dx: the gradient of xhat is g gamma.",
    "h = g * gamma", "h = g",
)  # fmt: skip
rms_norm_backward.wrong(
    "dgamma is made of x. gamma multiplies xhat, so its gradient collects g xhat.",
    "rows(g * xhat).sum(0)", "rows(g * x).sum(0)",
)  # fmt: skip

rms_norm_backward.wrong(
    "You have a sum where a mean belongs: the mean square divides by C, and so does the second term of dx.",
    "(h * xhat).mean(-1, keepdims=True)", "(h * xhat).sum(-1, keepdims=True)",
)  # fmt: skip
rms_norm_backward.wrong(
    "The factor s = 1 / sqrt(mean square + eps) is missing from dx: xhat was x times s, so all of dx is multiplied by it.",
    "dx = s * (h", "dx = (h",
)  # fmt: skip
for second in ("x * (h * x)", "xhat * (h * x)", "x * (h * xhat)"):
    rms_norm_backward.wrong(
        "The second term of dx has x where it needs xhat, x times s: both factors are xhat.", "xhat * (h * xhat)", second,
    )  # fmt: skip
rms_norm_backward.wrong(
    "The sign of the second term: what comes back through the root is subtracted.", "(h - xhat *", "(h + xhat *",
)  # fmt: skip
rms_norm_backward.wrong(
    "dgamma is made of h = g gamma. The gradient of gamma is what gamma was multiplied with, xhat, times g itself.",
    "rows(g * xhat).sum(0)", "rows(h * xhat).sum(0)",
)  # fmt: skip
rms_norm_backward.wrong(
    "keepdims=True is missing in dx: the mean over the features has lost that axis, and is spread over the wrong one.",
    "(h * xhat).mean(-1, keepdims=True)", "(h * xhat).mean(-1)",
)  # fmt: skip
rms_norm_backward.wrong(
    "dgamma is a sum over the first axis only. gamma serves every position: sum over all axes but the last.",
    "rows(g * xhat).sum(0)", "(g * xhat).sum(0)",
)  # fmt: skip

# ---------------------------------------------------------------- residual

residual_block = lesson.exercise(
    "residual_block",
    hints=(
        "In a drawing of each order, where does the arrow that goes around the sublayer start, and is there a norm on it?",
        "post: norm of (x plus the sublayer of x). pre: x plus the sublayer of the normed x.",
        'if order == "post": return norm(x + ...); otherwise x + sublayer(...).',
    ),
    why="Every sublayer of every Transformer stands in such a block; the order decides whether a deep stack trains "
    "without warm-up.",
)


@residual_block.check("post-norm")
def _(my, rng):
    return my.residual_block(
        rng.standard_normal((2, 3)), lambda x: np.tanh(2 * x), lambda x: x * x + x, "post"
    )


@residual_block.check("pre-norm")
def _(my, rng):
    return my.residual_block(
        rng.standard_normal((2, 3)), lambda x: np.tanh(2 * x), lambda x: x * x + x, "pre"
    )


@residual_block.check("pre-norm around a sublayer that gives 0: x itself comes out")
def _(my, rng):
    return my.residual_block(
        rng.standard_normal((2, 3)), lambda x: 0 * x, lambda x: x - x.mean(-1, keepdims=True), "pre"
    )


@residual_block.check("x is left as it was, in both orders")
def _(my, rng):
    x, again = np.array([[0.5, -1.0, 2.0], [1.5, 0.1, -0.7]]), np.array([[0.5, -1.0, 2.0], [1.5, 0.1, -0.7]])
    my.residual_block(x, np.tanh, np.sin, "post")
    my.residual_block(again, np.tanh, np.sin, "pre")
    return {"x after a post-norm block": x, "x after a pre-norm block": again}


residual_block.wrong(
    "In pre-norm the way around starts after the norm. It must start at x itself, or nothing passes the stack unchanged.",
    "x + sublayer(norm(x))", "norm(x) + sublayer(norm(x))",
)  # fmt: skip
residual_block.wrong(
    "In post-norm only the sublayer's output is normed. The paper norms the sum, x + sublayer(x).",
    "norm(x + sublayer(x))", "x + norm(sublayer(x))",
)  # fmt: skip
residual_block.wrong(
    "The two orders are exchanged: post means that the norm comes after the sum.",
    'order == "post"', 'order != "post"',
)  # fmt: skip
residual_block.wrong(
    "x is not added: there is no way around the sublayer.",
    body="""
    if order == "post":
        return norm(sublayer(x))
    return sublayer(norm(x))
    """,
)
residual_block.wrong(
    "x itself is written to (x += ...). The caller still needs it: make a new array, x + ... .",
    body="""
    if order == "post":
        x += sublayer(x)
        return norm(x)
    x += sublayer(norm(x))
    return x
    """,
)

residual_block.wrong(
    'Your block is pre-norm whatever `order` says. For "post" the norm comes after the sum.',
    body="return x + sublayer(norm(x))",
)
residual_block.wrong(
    'Your block is post-norm whatever `order` says. For "pre" the norm comes before the sublayer.',
    body="return norm(x + sublayer(x))",
)
residual_block.wrong(
    "In pre-norm what the sublayer gives is normed. It is what the sublayer reads that must be: norm first, then the sublayer.",
    "x + sublayer(norm(x))", "x + norm(sublayer(x))",
)  # fmt: skip

residual_block_backward = lesson.exercise(
    "residual_block_backward",
    hints=(
        "x is used twice, once on each way. What does lesson 01 say of a value that is used twice?",
        "The gradients of the two ways add. In post-norm both start from the gradient behind the norm's back, that of the sum.",
        "post: dsum = norm_backward(g, x + sublayer(x)), then dsum + ... ; pre: g + "
        "norm_backward(sublayer_backward(g, norm(x)), x).",
    ),
    why="The g that stands alone in pre-norm's line is why a loss reaches the first of a hundred layers undiminished.",
)


def f(x):
    return 1.5 * np.tanh(np.roll(x, 1, -1))


def square(x):
    return x * x / 2 + x


@residual_block_backward.gradcheck(
    forward=lambda x: square(x + f(x)), inputs=lambda rng: [rng.standard_normal((2, 4))],
    title="post-norm: against finite differences",
)  # fmt: skip
def _(my, g, x):
    f = lambda x: 1.5 * np.tanh(np.roll(x, 1, -1))  # noqa: E731
    df = lambda g, x: np.roll(g * 1.5 * (1 - np.tanh(np.roll(x, 1, -1)) ** 2), -1, -1)  # noqa: E731
    return my.residual_block_backward(g, x, f, lambda x: x * x / 2 + x, "post", df, lambda g, x: g * (x + 1))


@residual_block_backward.gradcheck(
    forward=lambda x: x + f(square(x)), inputs=lambda rng: [rng.standard_normal((2, 4))],
    title="pre-norm: against finite differences",
)  # fmt: skip
def _(my, g, x):
    f = lambda x: 1.5 * np.tanh(np.roll(x, 1, -1))  # noqa: E731
    df = lambda g, x: np.roll(g * 1.5 * (1 - np.tanh(np.roll(x, 1, -1)) ** 2), -1, -1)  # noqa: E731
    return my.residual_block_backward(g, x, f, lambda x: x * x / 2 + x, "pre", df, lambda g, x: g * (x + 1))


@residual_block_backward.check("pre-norm, a sublayer that gives 0: g itself comes back")
def _(my, rng):
    g, x = rng.standard_normal((2, 2, 3))
    zero, none = lambda x: 0 * x, lambda g, x: 0 * g
    return my.residual_block_backward(g, x, zero, np.sin, "pre", none, lambda g, x: g * np.cos(x))


residual_block_backward.wrong(
    "The way around is missing: x also reaches the output past the sublayer, and that gradient must be added.",
    body="""
    if order == "post":
        return sublayer_backward(norm_backward(g, x + sublayer(x)), x)
    return norm_backward(sublayer_backward(g, norm(x)), x)
    """,
)
residual_block_backward.wrong(
    "In post-norm the sublayer is given g. What comes to it has passed the norm: the gradient of the sum.",
    "dsum + sublayer_backward(dsum, x)", "dsum + sublayer_backward(g, x)",
)  # fmt: skip
residual_block_backward.wrong(
    "In post-norm the norm's backward is taken at x. The norm was called with the sum, x + sublayer(x).",
    "norm_backward(g, x + sublayer(x))", "norm_backward(g, x)",
)  # fmt: skip
residual_block_backward.wrong(
    "In pre-norm the sublayer's backward is taken at x. The sublayer was called with norm(x).",
    "sublayer_backward(g, norm(x))", "sublayer_backward(g, x)",
)  # fmt: skip
residual_block_backward.wrong(
    "In pre-norm the whole sum is sent through the norm's backward. Only the sublayer's way has a norm on it; g goes around.",
    "g + norm_backward(sublayer_backward(g, norm(x)), x)", "norm_backward(g + sublayer_backward(g, norm(x)), x)",
)  # fmt: skip
residual_block_backward.wrong(
    "Only the way around is there: the sublayer's own gradient is missing.",
    body="""
    if order == "post":
        return norm_backward(g, x + sublayer(x))
    return g
    """,
)
residual_block_backward.wrong(
    "The two orders are exchanged: post means that the norm comes after the sum, so its backward comes first.",
    'order == "post"', 'order != "post"',
)  # fmt: skip
residual_block_backward.wrong(
    'Your backward is that of pre-norm whatever `order` says. For "post" the norm\'s backward comes first.',
    body="return g + norm_backward(sublayer_backward(g, norm(x)), x)",
)
residual_block_backward.wrong(
    'Your backward is that of post-norm whatever `order` says. For "pre" g goes around both, and the norm\'s backward comes last.',
    body="""
    dsum = norm_backward(g, x + sublayer(x))
    return dsum + sublayer_backward(dsum, x)
    """,
)
residual_block_backward.wrong(
    "In post-norm g itself goes around. There is a norm behind the sum, so what goes around is the gradient of the sum, the same "
    "that the sublayer gets.",
    "dsum + sublayer_backward(dsum, x)", "g + sublayer_backward(dsum, x)",
)  # fmt: skip
residual_block_backward.wrong(
    "In pre-norm the norm's backward is taken at norm(x), what came out of it. It must be taken at x, what the norm was called with.",
    "sublayer_backward(g, norm(x)), x)", "sublayer_backward(g, norm(x)), norm(x))",
)  # fmt: skip
residual_block_backward.wrong(
    "In pre-norm the norm's backward is left out on the sublayer's way: what comes out of the sublayer's backward must still pass it.",
    "g + norm_backward(sublayer_backward(g, norm(x)), x)", "g + sublayer_backward(g, norm(x))",
)  # fmt: skip
residual_block_backward.wrong(
    "The arguments of the backwards are exchanged: the gradient comes first, then what the function was called with.",
    body="""
    if order == "post":
        dsum = norm_backward(x + sublayer(x), g)
        return dsum + sublayer_backward(x, dsum)
    return g + norm_backward(x, sublayer_backward(norm(x), g))
    """,
)
