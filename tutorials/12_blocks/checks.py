"""Checks of lesson 12."""

import numpy as np

from tutorials.course import Checks

lesson = Checks()

# ---------------------------------------------------------------- feed-forward

feed_forward = lesson.exercise(
    "feed_forward",
    hints=(
        "How wide is a position's vector before, between and after the two linear maps?",
        "Multiply by W1 and add b1; set negative elements to 0; multiply by W2 and add b2. There is no ReLU "
        "at the end.",
        "hidden = np.maximum(x @ W1 + b1, 0), and then the second linear map of hidden.",
    ),
    why=(
        "Two thirds of the weights of an encoder layer are in this function, and it is the only part that "
        "computes at each position separately."
    ),
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


@feed_forward.check("the inputs are unchanged")
def _(my, rng):
    given = [rng.standard_normal(s) for s in ((2, 3), (3, 5), (5,), (5, 3), (3,))]
    y = my.feed_forward(*given)
    return {
        "the output": y,
        **dict(zip([f"{name} after the call" for name in ("x", "W1", "b1", "W2", "b2")], given, strict=True)),
    }


feed_forward.wrong(
    "The ReLU is missing: two linear maps in a row are one linear map. Apply the ReLU to the hidden values "
    "between them.",
    "np.maximum(x @ W1 + b1, 0)", "x @ W1 + b1",
)  # fmt: skip
feed_forward.wrong(
    "b1 is added after the ReLU. It shifts the point where a hidden value becomes positive, so add it before "
    "the ReLU.",
    "np.maximum(x @ W1 + b1, 0)", "np.maximum(x @ W1, 0) + b1",
)  # fmt: skip
feed_forward.wrong(
    "There is a second ReLU at the end. The output may be negative: it is added to x.",
    "return hidden @ W2 + b2", "return np.maximum(hidden @ W2 + b2, 0)",
)  # fmt: skip
feed_forward.wrong("The second bias, b2, is missing.", "hidden @ W2 + b2", "hidden @ W2")
feed_forward.wrong(
    "The first bias, b1, is missing: every hidden value would become positive at the same point, 0.",
    "x @ W1 + b1", "x @ W1",
)  # fmt: skip

feed_forward.wrong(
    "np.max is the largest element along an axis. The larger of two values, element by element, is "
    "np.maximum(a, 0).",
    "np.maximum(x @ W1 + b1, 0)", "np.max(0, x @ W1 + b1)",
)  # fmt: skip
feed_forward.wrong(
    "np.max(a, 0) is the largest element along axis 0. The larger of a and 0, element by element, is "
    "np.maximum(a, 0).",
    "np.maximum(x @ W1 + b1, 0)", "np.max(x @ W1 + b1, 0)",
)  # fmt: skip
feed_forward.wrong(
    "Python's max compares two numbers, not arrays. Use np.maximum for the larger of each two elements.",
    "np.maximum(x @ W1 + b1, 0)", "max(x @ W1 + b1, 0)",
)  # fmt: skip
feed_forward.wrong(
    "The weights are applied transposed, x W^T, as in PyTorch. Here W1 is (d_model, d_ff), (in, out), so it "
    "is x @ W1.",
    body="return np.maximum(x @ W1.T + b1, 0) @ W2.T + b2",
)

feed_forward_backward = lesson.exercise(
    "feed_forward_backward",
    hints=(
        "Go backwards through the forward pass: what is the gradient of the hidden values, and which of them "
        "did the ReLU let through?",
        "g goes through W2 transposed, then a mask that is 1 where x W1 + b1 was positive, then W1 "
        "transposed. A weight's gradient is input transposed times gradient of the output, over all "
        "positions; a bias's is the sum over all positions.",
        "dbefore = (g @ W2.T) * (x @ W1 + b1 > 0); dx = dbefore @ W1.T; dW1 = rows(x).T @ rows(dbefore); dW2 "
        "in the same way from hidden and g.",
    ),
    why=(
        "With lesson 10 you have all gradients of a Transformer layer except the norm's; minigrad's `linear` "
        "kernel does the same two products."
    ),
)


@feed_forward_backward.gradcheck(
    forward="feed_forward",
    inputs=lambda rng: [rng.standard_normal(s) for s in ((2, 5, 3), (3, 7), (7,), (7, 3), (3,))],
)
def _(my, g, x, W1, b1, W2, b2):
    return my.feed_forward_backward(g, x, W1, b1, W2, b2)


@feed_forward_backward.check("all axes of equal size, a single sequence")
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
    "The ReLU's mask is missing: where the ReLU gave 0, the gradient is 0.",
    "(g @ W2.T) * (before > 0)", "g @ W2.T",
)  # fmt: skip
feed_forward_backward.wrong(
    "At a hidden value of exactly 0 you let the gradient through; the convention here and in PyTorch is "
    "relu'(0) = 0.",
    "before > 0", "before >= 0",
)  # fmt: skip
feed_forward_backward.wrong(
    "dW2 is computed from the values before the ReLU. W2 was multiplied by the values after it.",
    "rows(hidden).T @ rows(g)", "rows(before).T @ rows(g)",
)  # fmt: skip
feed_forward_backward.wrong(
    "The gradients of the biases are means over the positions. Each position adds the bias once, so the "
    "gradients add up: use a sum.",
    body="""
    before = x @ W1 + b1
    hidden = np.maximum(before, 0)
    dbefore = (g @ W2.T) * (before > 0)
    dW1, dW2 = rows(x).T @ rows(dbefore), rows(hidden).T @ rows(g)
    return dbefore @ W1.T, dW1, rows(dbefore).mean(0), dW2, rows(g).mean(0)
    """,
)
feed_forward_backward.wrong(
    "Your mask depends on the sign of the gradient. It must be 1 where the value in the forward pass was "
    "positive.",
    "(g @ W2.T) * (before > 0)", "np.maximum(g @ W2.T, 0)",
)  # fmt: skip
feed_forward_backward.wrong(
    "db1 is a sum of the gradient after the ReLU. b1 was added before it, so apply the mask first.",
    "rows(dbefore).sum(0)", "rows(g @ W2.T).sum(0)",
)  # fmt: skip

feed_forward_backward.wrong(
    "With a batch, x.T reverses all axes. The gradients of W1 and W2 are sums over all positions: use rows "
    "first.",
    body="""
    before = x @ W1 + b1
    hidden = np.maximum(before, 0)
    dbefore = (g @ W2.T) * (before > 0)
    return dbefore @ W1.T, x.T @ dbefore, rows(dbefore).sum(0), hidden.T @ g, rows(g).sum(0)
    """,
)
feed_forward_backward.wrong(
    "dW1 and dW2 still have the batch axis, with one gradient for each sequence. All sequences use the same "
    "weights: sum over them.",
    body="""
    before = x @ W1 + b1
    hidden = np.maximum(before, 0)
    dbefore = (g @ W2.T) * (before > 0)
    dW1, dW2 = x.swapaxes(-1, -2) @ dbefore, hidden.swapaxes(-1, -2) @ g
    return dbefore @ W1.T, dW1, rows(dbefore).sum(0), dW2, rows(g).sum(0)
    """,
)
feed_forward_backward.wrong(
    "db1 and db2 are sums over the first axis only. Every position of every sequence uses the bias: sum over "
    "all axes but the last.",
    body="""
    before = x @ W1 + b1
    hidden = np.maximum(before, 0)
    dbefore = (g @ W2.T) * (before > 0)
    return dbefore @ W1.T, rows(x).T @ rows(dbefore), dbefore.sum(0), rows(hidden).T @ rows(g), g.sum(0)
    """,
)
feed_forward_backward.wrong(
    "W2 is not transposed: the forward pass has hidden @ W2, so the backward pass has g times W2 transposed.",
    "g @ W2.T", "g @ W2",
)  # fmt: skip
feed_forward_backward.wrong(
    "W1 is not transposed in dx: the forward pass has x @ W1, so the backward pass has the gradient times W1 "
    "transposed.",
    "dbefore @ W1.T", "dbefore @ W1",
)  # fmt: skip

# ---------------------------------------------------------------- layer norm

layer_norm = lesson.exercise(
    "layer_norm",
    hints=(
        "A batch (2, 5, 8): how many means are there? One for each of the 10 positions.",
        "Subtract the mean of the last axis, divide by the root of (mean of squares + eps), then multiply by "
        "gamma and add beta.",
        "centred = x - x.mean(-1, keepdims=True); variance = (centred**2).mean(-1, keepdims=True); the root "
        "is np.sqrt(variance + eps).",
    ),
    why=(
        "Without it the vectors in a deep stack grow or shrink from layer to layer; with it each sublayer "
        "gets inputs of one size."
    ),
)


@layer_norm.check("a batch (2, 5, 3) with a gamma and a beta")
def _(my, rng):
    return my.layer_norm(
        rng.standard_normal((2, 5, 3)) * 3 + 2, rng.standard_normal(3), rng.standard_normal(3)
    )


@layer_norm.check("[1, 0, 0, 0] -> 1.7320, not 1.5")
def _(my, rng):
    return my.layer_norm(np.array([1.0, 0.0, 0.0, 0.0]), np.ones(4), np.zeros(4))


@layer_norm.check("as many positions as features: a wrong axis would raise no error")
def _(my, rng):
    return my.layer_norm(rng.standard_normal((4, 4)), np.ones(4), np.zeros(4))


@layer_norm.check("an eps of 0.5 shows where you add it")
def _(my, rng):
    return my.layer_norm(rng.standard_normal((3, 5)), rng.standard_normal(5), rng.standard_normal(5), 0.5)


@layer_norm.check("all features equal: the output is beta, and no division by 0")
def _(my, rng):
    return my.layer_norm(np.full((2, 3), 7.0), np.ones(3), np.array([1.0, 2.0, 3.0]))


@layer_norm.check("elements near a million, which differ by about 1")
def _(my, rng):
    return my.layer_norm(1e6 + rng.standard_normal((4, 5)), np.ones(5), np.zeros(5))


@layer_norm.check("x is unchanged")
def _(my, rng):
    x = rng.standard_normal((3, 5)) + 2
    y = my.layer_norm(x, np.ones(5), np.zeros(5))
    return {"the output": y, "x after the call": x}


layer_norm.wrong(
    "The variance divides by C - 1. Layer norm uses the biased variance, which divides by C: it describes "
    "these C elements, it does not estimate.",
    "(centred**2).mean(-1, keepdims=True)", "x.var(-1, keepdims=True, ddof=1)",
)  # fmt: skip
layer_norm.wrong(
    "eps is outside the root. It belongs inside, sqrt(variance + eps): outside, the backward pass divides by "
    "a root of 0 if all features are equal.",
    "np.sqrt(variance + eps)", "(np.sqrt(variance) + eps)",
)  # fmt: skip
layer_norm.wrong(
    "You divide by the variance, not by its root. Then the output for a row twice as large is half as large.",
    "np.sqrt(variance + eps)", "(variance + eps)",
)  # fmt: skip
layer_norm.wrong(
    "Mean and variance are those of the whole array. Each position has its own: average over the last axis "
    "only.",
    body="return (x - x.mean()) / np.sqrt(x.var() + eps) * gamma + beta",
)
layer_norm.wrong(
    "Mean and variance run over the first axis, across examples. That is batch norm; layer norm runs over "
    "the features, the last axis.",
    body="return (x - x.mean(0)) / np.sqrt(x.var(0) + eps) * gamma + beta",
)
layer_norm.wrong(
    "beta is added before gamma multiplies. The order is scale, then shift.",
    "centred / np.sqrt(variance + eps) * gamma + beta", "(centred / np.sqrt(variance + eps) + beta) * gamma",
)  # fmt: skip

layer_norm.wrong(
    "mean(x^2) - mean(x)^2 is a difference of two huge numbers if x is far from 0, and rounding errors spoil "
    "it. Subtract the mean first, then square.",
    "(centred**2).mean(-1, keepdims=True)", "(x**2).mean(-1, keepdims=True) - x.mean(-1, keepdims=True) ** 2",
)  # fmt: skip
layer_norm.wrong(
    "The output is right, but you wrote into x (x -= ...): the caller's x is changed, and a residual "
    "connection still needs it. Make a new array.",
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
        "keepdims=True is missing: mean or variance lack the axis of features, and broadcast along the wrong "
        "one. Both must keep it, with length 1.",
        body=statistics + "\nreturn centred / np.sqrt(variance + eps) * gamma + beta",
    )
layer_norm.wrong(
    "gamma is missing: multiply the normalized vector by it, feature by feature.", " * gamma", ""
)
layer_norm.wrong("beta is missing: add it at the end.", " + beta", "")
layer_norm.wrong(
    "The mean is not subtracted: this is close to RMS norm. Divide the centred vector.",
    "return centred /", "return x /",
)  # fmt: skip

layer_norm_backward = lesson.exercise(
    "layer_norm_backward",
    hints=(
        "By how many paths does one feature reach the output of its row? Directly, through the mean, and "
        "through the variance.",
        "Let h = g gamma. The mean subtracts mean(h), the variance subtracts xhat mean(h xhat), and all is "
        "scaled by 1 / sqrt(variance + eps). All positions use gamma and beta, so their gradients are sums "
        "over positions.",
        "dx = s * (h - h.mean(-1, keepdims=True) - xhat * ...); dgamma = rows(g * xhat).sum(0); dbeta = "
        "rows(g).sum(0).",
    ),
    why=(
        "This backward pass is wrong most often in engines written by hand; minigrad's layer_norm kernel has "
        "the same line."
    ),
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
    "You treat mean and variance as constants. They depend on x, so two terms are missing from dx: one "
    "through the mean, one through the variance.",
    "(h - h.mean(-1, keepdims=True) - xhat * (h * xhat).mean(-1, keepdims=True))", "h",
)  # fmt: skip
layer_norm_backward.wrong(
    "The path through the variance is missing from dx: subtract xhat times the mean of h xhat.",
    " - xhat * (h * xhat).mean(-1, keepdims=True)", "",
)  # fmt: skip
layer_norm_backward.wrong(
    "The path through the mean is missing from dx: a row's gradients must sum to 0, since a shift of the "
    "whole row changes nothing.",
    " - h.mean(-1, keepdims=True)", "",
)  # fmt: skip
layer_norm_backward.wrong(
    "gamma is missing from dx. The gradient of xhat is g gamma, and the rest starts from there.",
    "h = g * gamma", "h = g",
)  # fmt: skip
layer_norm_backward.wrong(
    "dgamma is computed from x. gamma multiplies xhat, the normalized x, so its gradient is the sum of g "
    "xhat.",
    "rows(g * xhat).sum(0)", "rows(g * x).sum(0)",
)  # fmt: skip
layer_norm_backward.wrong(
    "dgamma and dbeta are sums over the first axis only. Every position uses gamma and beta: sum over all "
    "axes but the last.",
    "rows(g * xhat).sum(0), rows(g).sum(0)", "(g * xhat).sum(0), g.sum(0)",
)  # fmt: skip
layer_norm_backward.wrong(
    "eps is missing from the scale. The forward pass has it, so the backward pass needs it too, for rows of "
    "equal features above all.",
    body="""
    centred = x - x.mean(-1, keepdims=True)
    s = 1 / np.sqrt(np.maximum((centred**2).mean(-1, keepdims=True), 1e-30))
    xhat, h = centred * s, g * gamma
    dx = s * (h - h.mean(-1, keepdims=True) - xhat * (h * xhat).mean(-1, keepdims=True))
    return dx, rows(g * xhat).sum(0), rows(g).sum(0)
    """,
)

layer_norm_backward.wrong(
    "The factor s = 1 / sqrt(variance + eps) is missing from dx: xhat was centred times s, so all of dx is "
    "multiplied by it.",
    "dx = s * (h", "dx = (h",
)  # fmt: skip
layer_norm_backward.wrong(
    "You use sums instead of means. Mean and variance each divide by C, and so do both terms of dx: .mean, "
    "not .sum.",
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
        "The third term of dx has the centred x instead of xhat, the centred x times s: both factors are "
        "xhat.",
        "xhat * (h * xhat)", third,
    )  # fmt: skip
layer_norm_backward.wrong(
    "The sign of the third term is wrong: subtract the gradient through the variance, as that through the "
    "mean.",
    "- xhat * (h", "+ xhat * (h",
)  # fmt: skip
layer_norm_backward.wrong(
    "The sign of the second term is wrong: subtract the gradient through the mean.",
    "(h - h.mean", "(h + h.mean",
)  # fmt: skip
layer_norm_backward.wrong(
    "dgamma is computed from h = g gamma. The gradient of gamma is the value it was multiplied by, xhat, "
    "times g itself.",
    "rows(g * xhat).sum(0)", "rows(h * xhat).sum(0)",
)  # fmt: skip
layer_norm_backward.wrong(
    "dgamma is computed from the centred x. gamma multiplies xhat, which is the centred x times s.",
    "rows(g * xhat).sum(0)", "rows(g * centred).sum(0)",
)  # fmt: skip
for mean_h, mean_hx in (
    (".mean(-1)", ".mean(-1)"),
    (".mean(-1)", ".mean(-1, keepdims=True)"),
    (".mean(-1, keepdims=True)", ".mean(-1)"),
):
    layer_norm_backward.wrong(
        "keepdims=True is missing in dx: the means over the features lack that axis, and broadcast along the "
        "wrong one.",
        "(h - h.mean(-1, keepdims=True) - xhat * (h * xhat).mean(-1, keepdims=True))",
        f"(h - h{mean_h} - xhat * (h * xhat){mean_hx})",
    )
layer_norm_backward.wrong(
    "keepdims=True is missing: the means over the features lack that axis, and broadcast along the wrong "
    "one. All four need it.",
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
        "What is left of layer norm without the mean and beta?",
        "Divide by the root of (mean of squares + eps), then multiply by gamma.",
        "The root is np.sqrt((x * x).mean(-1, keepdims=True) + eps).",
    ),
    why=(
        "Llama and most models after it use this norm: it has one reduction and one vector of weights less, "
        "and works as well."
    ),
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


@rms_norm.check("x is unchanged")
def _(my, rng):
    x = rng.standard_normal((3, 5)) + 2
    y = my.rms_norm(x, np.ones(5))
    return {"the output": y, "x after the call": x}


rms_norm.wrong(
    "You subtract the mean first. That is layer norm; RMS norm does not subtract it.",
    body="""
    x = x - x.mean(-1, keepdims=True)
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * gamma
    """,
)
rms_norm.wrong(
    "You divide by the length of the row, the root of the sum of squares. Divide by the root of their mean, "
    "so that the size of an element is about 1.",
    "(x * x).mean(-1, keepdims=True)", "(x * x).sum(-1, keepdims=True)",
)  # fmt: skip
rms_norm.wrong(
    "eps is outside the root. It belongs inside: sqrt(mean square + eps).",
    body="return x / (np.sqrt((x * x).mean(-1, keepdims=True)) + eps) * gamma",
)
rms_norm.wrong(
    "The mean square is that of the whole array. Each position has its own: average over the last axis only.",
    "(x * x).mean(-1, keepdims=True)", "(x * x).mean()",
)  # fmt: skip

rms_norm.wrong(
    "keepdims=True is missing: the mean square lacks the axis of features, and broadcasts along the wrong "
    "one.",
    "(x * x).mean(-1, keepdims=True)", "(x * x).mean(-1)",
)  # fmt: skip
rms_norm.wrong(
    "You divide by the mean square, not by its root. Then the output for a row twice as large is half as "
    "large.",
    "np.sqrt((x * x).mean(-1, keepdims=True) + eps)", "((x * x).mean(-1, keepdims=True) + eps)",
)  # fmt: skip
rms_norm.wrong(
    "The output is right, but you wrote into x (x /= ...): the caller's x is changed, and a residual "
    "connection still needs it. Make a new array.",
    body="x /= np.sqrt((x * x).mean(-1, keepdims=True) + eps)\nreturn x * gamma",
)

rms_norm_backward = lesson.exercise(
    "rms_norm_backward",
    hints=(
        "Which of the three paths in the backward pass of layer norm is absent if no mean is subtracted?",
        "As for layer norm, with xhat = x / root and without the term mean(h). There is no beta, so return "
        "two gradients.",
        "dx = s * (h - xhat * (h * xhat).mean(-1, keepdims=True)), with h = g * gamma.",
    ),
    why="If you know which term belongs to which statistic, you can write the backward pass of any norm.",
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
    "You treat the root as a constant. It depends on x: subtract xhat times the mean of h xhat.",
    "(h - xhat * (h * xhat).mean(-1, keepdims=True))", "h",
)  # fmt: skip
rms_norm_backward.wrong(
    "You subtract mean(h), as in layer norm. There it comes from subtracting the mean, which RMS norm does "
    "not do.",
    "(h - xhat *", "(h - h.mean(-1, keepdims=True) - xhat *",
)  # fmt: skip
rms_norm_backward.wrong(
    "gamma is missing from dx: the gradient of xhat is g gamma.", "h = g * gamma", "h = g"
)
rms_norm_backward.wrong(
    "dgamma is computed from x. gamma multiplies xhat, so its gradient is the sum of g xhat.",
    "rows(g * xhat).sum(0)", "rows(g * x).sum(0)",
)  # fmt: skip

rms_norm_backward.wrong(
    "You use a sum instead of a mean: the mean square divides by C, and so does the second term of dx.",
    "(h * xhat).mean(-1, keepdims=True)", "(h * xhat).sum(-1, keepdims=True)",
)  # fmt: skip
rms_norm_backward.wrong(
    "The factor s = 1 / sqrt(mean square + eps) is missing from dx: xhat was x times s, so all of dx is "
    "multiplied by it.",
    "dx = s * (h", "dx = (h",
)  # fmt: skip
for second in ("x * (h * x)", "xhat * (h * x)", "x * (h * xhat)"):
    rms_norm_backward.wrong(
        "The second term of dx has x instead of xhat, x times s: both factors are xhat.",
        "xhat * (h * xhat)", second,
    )  # fmt: skip
rms_norm_backward.wrong(
    "The sign of the second term is wrong: subtract the gradient through the root.",
    "(h - xhat *", "(h + xhat *",
)  # fmt: skip
rms_norm_backward.wrong(
    "dgamma is computed from h = g gamma. The gradient of gamma is the value it was multiplied by, xhat, "
    "times g itself.",
    "rows(g * xhat).sum(0)", "rows(h * xhat).sum(0)",
)  # fmt: skip
rms_norm_backward.wrong(
    "keepdims=True is missing in dx: the mean over the features lacks that axis, and broadcasts along the "
    "wrong one.",
    "(h * xhat).mean(-1, keepdims=True)", "(h * xhat).mean(-1)",
)  # fmt: skip
rms_norm_backward.wrong(
    "dgamma is a sum over the first axis only. Every position uses gamma: sum over all axes but the last.",
    "rows(g * xhat).sum(0)", "(g * xhat).sum(0)",
)  # fmt: skip

# ---------------------------------------------------------------- residual

residual_block = lesson.exercise(
    "residual_block",
    hints=(
        "Draw each order: where does the arrow around the sublayer start, and is there a norm on it?",
        "post: norm of (x plus the sublayer of x). pre: x plus the sublayer of norm(x).",
        'if order == "post": return norm(x + ...); otherwise x + sublayer(...).',
    ),
    why=(
        "Every sublayer of every Transformer is in such a block; the order decides whether a deep stack "
        "trains without warm-up."
    ),
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


@residual_block.check("pre-norm with a sublayer that gives 0: the output is x itself")
def _(my, rng):
    return my.residual_block(
        rng.standard_normal((2, 3)), lambda x: 0 * x, lambda x: x - x.mean(-1, keepdims=True), "pre"
    )


@residual_block.check("x is unchanged, in both orders")
def _(my, rng):
    x, again = np.array([[0.5, -1.0, 2.0], [1.5, 0.1, -0.7]]), np.array([[0.5, -1.0, 2.0], [1.5, 0.1, -0.7]])
    my.residual_block(x, np.tanh, np.sin, "post")
    my.residual_block(again, np.tanh, np.sin, "pre")
    return {"x after a post-norm block": x, "x after a pre-norm block": again}


residual_block.wrong(
    "In pre-norm your path around starts after the norm. It must start at x itself, or nothing passes the "
    "stack unchanged.",
    "x + sublayer(norm(x))", "norm(x) + sublayer(norm(x))",
)  # fmt: skip
residual_block.wrong(
    "In post-norm you apply the norm only to the sublayer's output. The paper applies it to the sum, x + "
    "sublayer(x).",
    "norm(x + sublayer(x))", "x + norm(sublayer(x))",
)  # fmt: skip
residual_block.wrong(
    "The two orders are exchanged: post means that the norm comes after the sum.",
    'order == "post"', 'order != "post"',
)  # fmt: skip
residual_block.wrong(
    "x is not added: there is no path around the sublayer.",
    body="""
    if order == "post":
        return norm(sublayer(x))
    return sublayer(norm(x))
    """,
)
residual_block.wrong(
    "You wrote into x (x += ...). The caller still needs it: make a new array, x + ... .",
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
    "In pre-norm you apply the norm to the sublayer's output. Apply it to the sublayer's input: norm first, "
    "then the sublayer.",
    "x + sublayer(norm(x))", "x + norm(sublayer(x))",
)  # fmt: skip

residual_block_backward = lesson.exercise(
    "residual_block_backward",
    hints=(
        "x is used twice, once on each path. What does lesson 01 say about a value that is used twice?",
        "The gradients of the two paths add up. In post-norm both start from the gradient at the norm's "
        "input, that of the sum.",
        "post: dsum = norm_backward(g, x + sublayer(x)), then dsum + ... ; pre: g + "
        "norm_backward(sublayer_backward(g, norm(x)), x).",
    ),
    why=(
        "Because of the single g in the line for pre-norm, the gradient reaches the first of a hundred "
        "layers without loss."
    ),
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


@residual_block_backward.check("pre-norm with a sublayer that gives 0: the gradient is g itself")
def _(my, rng):
    g, x = rng.standard_normal((2, 2, 3))
    zero, none = lambda x: 0 * x, lambda g, x: 0 * g
    return my.residual_block_backward(g, x, zero, np.sin, "pre", none, lambda g, x: g * np.cos(x))


residual_block_backward.wrong(
    "The path around is missing: x also reaches the output without the sublayer, and that gradient must be "
    "added.",
    body="""
    if order == "post":
        return sublayer_backward(norm_backward(g, x + sublayer(x)), x)
    return norm_backward(sublayer_backward(g, norm(x)), x)
    """,
)
residual_block_backward.wrong(
    "In post-norm you pass g to the sublayer's backward. It needs the gradient of the sum, which has gone "
    "through the norm.",
    "dsum + sublayer_backward(dsum, x)", "dsum + sublayer_backward(g, x)",
)  # fmt: skip
residual_block_backward.wrong(
    "In post-norm you call the norm's backward with x. The norm was called with the sum, x + sublayer(x).",
    "norm_backward(g, x + sublayer(x))", "norm_backward(g, x)",
)  # fmt: skip
residual_block_backward.wrong(
    "In pre-norm you call the sublayer's backward with x. The sublayer was called with norm(x).",
    "sublayer_backward(g, norm(x))", "sublayer_backward(g, x)",
)  # fmt: skip
residual_block_backward.wrong(
    "In pre-norm the whole sum goes through the norm's backward. Only the sublayer's path has a norm on it; "
    "g goes around.",
    "g + norm_backward(sublayer_backward(g, norm(x)), x)",
    "norm_backward(g + sublayer_backward(g, norm(x)), x)",
)
residual_block_backward.wrong(
    "Only the path around is there: the gradient through the sublayer is missing.",
    body="""
    if order == "post":
        return norm_backward(g, x + sublayer(x))
    return g
    """,
)
residual_block_backward.wrong(
    "The two orders are exchanged: post means that the norm comes after the sum, so its backward comes "
    "first.",
    'order == "post"', 'order != "post"',
)  # fmt: skip
residual_block_backward.wrong(
    'Your backward is that of pre-norm whatever `order` says. For "post" the norm\'s backward comes first.',
    body="return g + norm_backward(sublayer_backward(g, norm(x)), x)",
)
residual_block_backward.wrong(
    'Your backward is that of post-norm whatever `order` says. For "pre" g goes around both, and the norm\'s '
    "backward comes last.",
    body="""
    dsum = norm_backward(g, x + sublayer(x))
    return dsum + sublayer_backward(dsum, x)
    """,
)
residual_block_backward.wrong(
    "In post-norm g itself goes around. There is a norm after the sum, so the gradient of the sum must go "
    "around, the same that the sublayer gets.",
    "dsum + sublayer_backward(dsum, x)", "g + sublayer_backward(dsum, x)",
)  # fmt: skip
residual_block_backward.wrong(
    "In pre-norm you call the norm's backward with norm(x), the norm's output. Call it with x, the norm's "
    "input.",
    "sublayer_backward(g, norm(x)), x)", "sublayer_backward(g, norm(x)), norm(x))",
)  # fmt: skip
residual_block_backward.wrong(
    "In pre-norm the norm's backward is missing: the result of the sublayer's backward must still go through "
    "it.",
    "g + norm_backward(sublayer_backward(g, norm(x)), x)", "g + sublayer_backward(g, norm(x))",
)  # fmt: skip
residual_block_backward.wrong(
    "The arguments of the backward functions are exchanged: the gradient comes first, then the input of the "
    "function.",
    body="""
    if order == "post":
        dsum = norm_backward(x + sublayer(x), g)
        return dsum + sublayer_backward(x, dsum)
    return g + norm_backward(x, sublayer_backward(norm(x), g))
    """,
)
