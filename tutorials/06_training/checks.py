"""Checks of lesson 06."""

import numpy as np

from tutorials.course import Checks

lesson = Checks()

# ---------------------------------------------------------------- sgd_step

sgd_step = lesson.exercise(
    "sgd_step",
    hints=(
        "What does the velocity contain from the steps before? What is added to it now?",
        "First the new velocity, momentum * v + g; then subtract lr times the new velocity from x.",
        "v = momentum * v + g; return x - lr * v, v (a new array: v *= ... would change the caller's).",
    ),
    why="With momentum the steps no longer bounce between the walls of a valley; they run along its floor.",
)


@sgd_step.check("one step without momentum")
def _(my, rng):
    x, g = rng.standard_normal((2, 3, 4))
    return my.sgd_step(x, g, np.zeros((3, 4)), 0.1)


@sgd_step.check("the lesson's three steps on x^2 / 2: 0.9, 0.72, 0.486")
def _(my, rng):
    x, v, path = np.array([1.0]), np.array([0.0]), []
    for _ in range(3):
        x, v = my.sgd_step(x, x, v, 0.1, 0.9)
        path.append([x, v])
    return path


@sgd_step.check("another momentum, and a velocity that is not 0")
def _(my, rng):
    x, g, v = rng.standard_normal((3, 5))
    return my.sgd_step(x, g, v, 0.3, momentum=0.5)


@sgd_step.check("x, g and v are unchanged")
def _(my, rng):
    x, g, v = rng.standard_normal((3, 4))
    before = [x.copy(), g.copy(), v.copy()]
    my.sgd_step(x, g, v, 0.1, 0.9)
    return [bool((a == b).all()) for a, b in zip(before, (x, g, v), strict=True)]


sgd_step.wrong(
    "You step along the gradient, uphill. The loss falls in the opposite direction: x - lr * v.",
    "x - lr * v",
    "x + lr * v",
)
sgd_step.wrong(
    "You step with the old velocity, so the new gradient acts one step too late. Update v first.",
    body="return x - lr * v, momentum * v + g",
)
sgd_step.wrong(
    (
        "This is a running mean, with (1 - momentum) before g. PyTorch's velocity is momentum * v + g, ten "
        "times as long for 0.9."
    ),
    "momentum * v + g",
    "momentum * v + (1 - momentum) * g",
)
sgd_step.wrong(
    (
        "The velocity contains lr, and lr multiplies it again. Let v be a sum of gradients; use lr only when "
        "x moves."
    ),
    "momentum * v + g",
    "momentum * v + lr * g",
)
sgd_step.wrong(
    "You do not use the velocity: x moves along the gradient alone, so there is no momentum.",
    "x - lr * v",
    "x - lr * g",
)
sgd_step.wrong(
    "You do not return the new velocity; without it the next step cannot continue from this one.",
    body="return x - lr * (momentum * v + g), v.copy()",
)
sgd_step.wrong(
    "v *= and v += change the caller's array. Make a new array.",
    body="v *= momentum\nv += g\nreturn x - lr * v, v",
)

# ---------------------------------------------------------------- adam_step

adam_step = lesson.exercise(
    "adam_step",
    hints=(
        (
            "How large are m and v after the first step, compared with g and g * g? What factor are they too "
            "small by?"
        ),
        (
            "Update m and v; divide copies of them by 1 - beta^t; move by lr * mean / (root of the square + "
            "eps); multiply the old x by 1 - lr * weight_decay."
        ),
        (
            "mean = m / (1 - betas[0] ** t), square = v / (1 - betas[1] ** t), and x * (1 - lr * "
            "weight_decay) - lr * mean / (np.sqrt(square) + eps)."
        ),
    ),
    why=(
        "The Transformer of 2017 was trained with Adam (Vaswani et al., section 5.3), and its successors "
        "with AdamW: these four lines."
    ),
)


@adam_step.check("the lesson's three steps: gradients 2, 2, -4")
def _(my, rng):
    x, m, v, path = np.array([1.0]), np.array([0.0]), np.array([0.0]), []
    for t, g in ((1, 2.0), (2, 2.0), (3, -4.0)):
        x, m, v = my.adam_step(x, np.array([g]), m, v, t, lr=0.1)
        path.append([x, m, v])
    return path


@adam_step.check("ten steps of a matrix, other betas")
def _(my, rng):
    x, m, v = rng.standard_normal((2, 3)), np.zeros((2, 3)), np.zeros((2, 3))
    for t in range(1, 11):
        x, m, v = my.adam_step(x, rng.standard_normal((2, 3)), m, v, t, 0.01, (0.8, 0.95))
    return [x, m, v]


@adam_step.check("tiny gradients, which show whether eps is outside the root")
def _(my, rng):
    zero = np.zeros(2)
    return my.adam_step(np.ones(2), np.array([1e-4, -3e-5]), zero, zero, 1, lr=0.1, eps=1e-4)


@adam_step.check("weight decay: separate from the step, not inside the gradient")
def _(my, rng):
    x, m, v = np.array([10.0, -2.0]), np.zeros(2), np.zeros(2)
    for t in (1, 2):
        x, m, v = my.adam_step(x, np.array([0.5, 3.0]), m, v, t, lr=0.1, weight_decay=0.2)
    return [x, m, v]


@adam_step.check("x, g, m and v are unchanged")
def _(my, rng):
    given = list(rng.random((4, 3)))
    before = [a.copy() for a in given]
    my.adam_step(*given, 2)
    return [bool((a == b).all()) for a, b in zip(before, given, strict=True)]


adam_step.wrong(
    (
        "You do not correct the means for their start at 0: the first steps are 3 to 6 times too long. "
        "Divide by 1 - beta^t."
    ),
    "m / (1 - betas[0] ** t), v / (1 - betas[1] ** t)",
    "m, v",
)
adam_step.wrong(
    "The power is too large by 1: t is already 1 in the first step, so the power in step t is t.",
    "m / (1 - betas[0] ** t), v / (1 - betas[1] ** t)",
    "m / (1 - betas[0] ** (t + 1)), v / (1 - betas[1] ** (t + 1))",
)
adam_step.wrong(
    "The root is missing: v is a mean of squares, so its root has the gradient's size.",
    "np.sqrt(square) + eps",
    "square + eps",
)
adam_step.wrong(
    "eps is inside the root. There it acts like a gradient of size sqrt(eps), 1e-4 for 1e-8: add it outside.",
    "np.sqrt(square) + eps",
    "np.sqrt(square + eps)",
)
adam_step.wrong(
    (
        "This is an L2 penalty: the decay is added to the gradient and then divided by its size. AdamW "
        "shrinks x itself, separately from the step."
    ),
    body="""
g = g + weight_decay * x
m = betas[0] * m + (1 - betas[0]) * g
v = betas[1] * v + (1 - betas[1]) * g * g
mean, square = m / (1 - betas[0] ** t), v / (1 - betas[1] ** t)
return x - lr * mean / (np.sqrt(square) + eps), m, v
""",
)
adam_step.wrong(
    "You do not multiply the decay by the learning rate, so it is a thousand times too strong at lr = 0.001.",
    "x * (1 - lr * weight_decay)",
    "x * (1 - weight_decay)",
)
adam_step.wrong(
    (
        "You return the corrected means. The next step would correct them again; return m and v without the "
        "correction."
    ),
    "eps), m, v",
    "eps), mean, square",
)
adam_step.wrong(
    "v must average g * g. A mean of squares does not cancel when the gradient changes its sign.",
    "(1 - betas[1]) * g * g",
    "(1 - betas[1]) * np.abs(g)",
)
adam_step.wrong(
    "The two betas are swapped: betas[0] = 0.9 belongs to the mean, betas[1] = 0.999 to the squares.",
    body="""
m = betas[1] * m + (1 - betas[1]) * g
v = betas[0] * v + (1 - betas[0]) * g * g
mean, square = m / (1 - betas[1] ** t), v / (1 - betas[0] ** t)
return x * (1 - lr * weight_decay) - lr * mean / (np.sqrt(square) + eps), m, v
""",
)

# ---------------------------------------------------------------- clip_grad_norm

clip_grad_norm = lesson.exercise(
    "clip_grad_norm",
    hints=(
        "Put all gradients one behind the other into one vector. How long is it?",
        (
            "Sum the squares of all arrays, take one root; if it is larger than max_norm, scale all arrays "
            "by the same factor."
        ),
        (
            "norm = np.sqrt(sum((g * g).sum() for g in grads)); the factor is max_norm / norm if norm > "
            "max_norm else 1."
        ),
    ),
    why="One bad batch can undo an hour of training; clipping limits the effect of any batch.",
)


@clip_grad_norm.check("the lesson's example: (3) and (0, 4), to length 1")
def _(my, rng):
    return my.clip_grad_norm([np.array([3.0]), np.array([0.0, 4.0])], 1.0)


@clip_grad_norm.check("arrays of several shapes")
def _(my, rng):
    return my.clip_grad_norm(
        [rng.standard_normal((3, 4)), rng.standard_normal(5), rng.standard_normal((2, 2, 2))], 2.0
    )


@clip_grad_norm.check("shorter than max_norm: nothing changes")
def _(my, rng):
    return my.clip_grad_norm([np.array([3.0]), np.array([0.0, 4.0])], 10.0)


@clip_grad_norm.check("all zeros: still zeros, not NaN")
def _(my, rng):
    with np.errstate(all="ignore"):
        return my.clip_grad_norm([np.zeros(3)], 1.0)


@clip_grad_norm.check("the arrays given are unchanged")
def _(my, rng):
    g = np.array([30.0, 40.0])
    my.clip_grad_norm([g], 1.0)
    return g


clip_grad_norm.wrong(
    (
        "You clip each array by its own length. That changes the direction of the whole: use one length and "
        "one factor for all."
    ),
    body="""
norms = [np.sqrt((g * g).sum()) for g in grads]
scaled = [g * (max_norm / n if n > max_norm else 1.0) for g, n in zip(grads, norms)]
return scaled, np.sqrt(sum(n * n for n in norms))
""",
)
clip_grad_norm.wrong(
    "You make short gradients longer. Scale only if the length exceeds max_norm.",
    "max_norm / norm if norm > max_norm else 1.0",
    "max_norm / norm if norm else 1.0",
)
clip_grad_norm.wrong(
    (
        "You clip each element to at most max_norm in size. That changes the direction; scale all elements "
        "by one factor."
    ),
    "[g * factor for g in grads]",
    "[np.clip(g, -max_norm, max_norm) for g in grads]",
)
clip_grad_norm.wrong(
    "You add the lengths of the arrays. Squares add up, lengths do not: sum all squares, then take one root.",
    "np.sqrt(sum((g * g).sum() for g in grads))",
    "sum(np.sqrt((g * g).sum()) for g in grads)",
)
clip_grad_norm.wrong(
    "The root is missing: this is the square of the length.",
    "np.sqrt(sum((g * g).sum() for g in grads))",
    "sum((g * g).sum() for g in grads)",
)
clip_grad_norm.wrong(
    "You return the length after clipping. Return the length before, which shows how large the gradient was.",
    "[g * factor for g in grads], norm",
    "[g * factor for g in grads], norm * factor",
)
clip_grad_norm.wrong(
    "g *= changes the caller's arrays. Return new arrays.",
    "return [g * factor for g in grads], norm",
    "return [np.multiply(g, factor, out=g) for g in grads], norm",
)
clip_grad_norm.wrong(
    (
        "A gradient of zeros is divided by its length 0. If the length is at most max_norm, the factor is 1, "
        "also for length 0."
    ),
    "max_norm / norm if norm > max_norm else 1.0",
    "np.minimum(1.0, max_norm * (0 / norm + 1 / norm))",
)

# ---------------------------------------------------------------- warmup_cosine

warmup_cosine = lesson.exercise(
    "warmup_cosine",
    hints=(
        (
            "Where is the cosine 1, and where -1? What is the cosine's angle at a step halfway from warmup "
            "to total?"
        ),
        (
            "While step < warmup: (step + 1) / warmup. Then half of 1 + cos(pi * done), where done is the "
            "fraction of the way from warmup to total, at most 1."
        ),
        "done = min(1.0, (step - warmup) / (total - warmup)); return 0.5 * (1 + np.cos(np.pi * done))",
    ),
    why=(
        "The first steps are small because Adam's averages are still poor, the last ones so that the loss "
        "settles: GPT-3 was trained with such a curve (Brown et al. 2020, appendix B)."
    ),
)


@warmup_cosine.check("4 steps of warm-up, 12 in all, each step")
def _(my, rng):
    return [float(my.warmup_cosine(step, 4, 12)) for step in range(13)]


@warmup_cosine.check("0 after the end")
def _(my, rng):
    return [float(my.warmup_cosine(step, 4, 12)) for step in (12, 13, 20, 24)]


@warmup_cosine.check("no warm-up: 1 at once")
def _(my, rng):
    return [float(my.warmup_cosine(step, 0, 10)) for step in (0, 5, 10)]


warmup_cosine.wrong(
    (
        "Step 0 has the rate 0, which wastes a step, and the last step of the warm-up has less than the full "
        "rate. Use (step + 1) / warmup."
    ),
    "(step + 1) / warmup",
    "step / warmup",
)
warmup_cosine.wrong(
    "After the end the cosine rises again. Limit the fraction of the way to at most 1.",
    "min(1.0, (step - warmup) / (total - warmup))",
    "(step - warmup) / (total - warmup)",
)
warmup_cosine.wrong(
    (
        "You measure the way down from step 0, so it does not begin at 1. Count from the end of the warm-up: "
        "(step - warmup) / (total - warmup)."
    ),
    "(step - warmup) / (total - warmup)",
    "step / total",
)
warmup_cosine.wrong(
    "The cosine goes from 1 to -1. Add 1 and halve, so that the rate stays between 1 and 0.",
    "0.5 * (1 + np.cos(np.pi * done))",
    "np.cos(np.pi * done)",
)
warmup_cosine.wrong(
    "A whole wave returns to 1 at the end. Half a wave, pi, goes from 1 down.",
    "np.pi * done",
    "2 * np.pi * done",
)
warmup_cosine.wrong(
    "This is a straight line down. The cosine is flat at both ends: half of 1 + cos(pi * done).",
    "0.5 * (1 + np.cos(np.pi * done))",
    "1 - done",
)
warmup_cosine.wrong(
    "You divide the warm-up by warmup + 1, so it does not reach 1 at its last step. Divide by warmup.",
    "(step + 1) / warmup",
    "(step + 1) / (warmup + 1)",
)

# ---------------------------------------------------------------- minibatches

minibatches = lesson.exercise(
    "minibatches",
    hints=(
        (
            "If x were shuffled and y were not, what would the network learn? What can be shuffled so that "
            "both stay together?"
        ),
        (
            "Draw one permutation of the indices, cut it into pieces of `size`, and index both x and y with "
            "each piece."
        ),
        (
            "order = rng.permutation(len(x)); the pieces are order[start : start + size] for start in "
            "range(0, len(x), size)."
        ),
    ),
    why=(
        "If labels are shuffled separately from their inputs, nothing crashes: the loss just stays near ln C."
    ),
)


@minibatches.check("ten examples in batches of 4: 4, 4 and 2")
def _(my, rng):
    x = np.arange(10.0)
    return [[a, b] for a, b in my.minibatches(x, 10 * x, 4, rng)]


@minibatches.check("inputs with several axes; labels stay with their inputs")
def _(my, rng):
    x = rng.standard_normal((7, 2, 3))
    return [[a, b] for a, b in my.minibatches(x, np.arange(7), 3, rng)]


@minibatches.check("a batch size that divides the number of examples, and one that is larger")
def _(my, rng):
    x = np.arange(6)
    return [[[a, b] for a, b in my.minibatches(x, x + 100, size, rng)] for size in (3, 100)]


@minibatches.check("two epochs differ; x and y are unchanged")
def _(my, rng):
    x, y = np.arange(5), np.arange(5) + 50
    epochs = [[[a, b] for a, b in my.minibatches(x, y, 2, rng)] for _ in range(2)]
    return [epochs, x, y]


minibatches.wrong(
    (
        "You shuffle inputs and labels separately, so labels no longer belong to their inputs. Index both "
        "with one permutation."
    ),
    body="""
order, other = rng.permutation(len(x)), rng.permutation(len(x))
starts = range(0, len(x), size)
return [(x[order[start : start + size]], y[other[start : start + size]]) for start in starts]
""",
)
minibatches.wrong(
    "You do not shuffle the labels with their inputs. Index both with the same piece of the permutation.",
    body="""
order = rng.permutation(len(x))
starts = range(0, len(x), size)
return [(x[order[start : start + size]], y[start : start + size]) for start in starts]
""",
)
minibatches.wrong(
    "You do not shuffle: every epoch has the same batches in the same order.",
    "rng.permutation(len(x))",
    "np.arange(len(x))",
)
minibatches.wrong(
    (
        "You leave out the last examples: with 10 examples and size 4, two are never used. The last batch "
        "may be smaller."
    ),
    "range(0, len(x), size)",
    "range(0, len(x) - size + 1, size)",
)
minibatches.wrong(
    (
        "You draw each batch anew, so some examples come twice in an epoch and others not at all. Draw one "
        "permutation and cut it."
    ),
    "parts = [order[start : start + size] for start in range(0, len(x), size)]",
    "parts = [rng.integers(len(x), size=min(size, len(x) - start)) for start in range(0, len(x), size)]",
)
minibatches.wrong(
    "The batches overlap: one starts at every example. Start one every `size` examples.",
    "range(0, len(x), size)",
    "range(0, len(x))",
)

# ---------------------------------------------------------------- mlp_backward

mlp_backward = lesson.exercise(
    "mlp_backward",
    hints=(
        (
            "Write down the shapes of g, w2 and relu's output. Which products have the shapes of w2 and of "
            "relu's output?"
        ),
        (
            "With a = x @ w1.T + b1: dw2 = g.T @ relu(a), db2 sums g over the batch; g1 = (g @ w2), 0 where "
            "a is not positive; then the same again with g1, x and w1."
        ),
        "g1 = (g @ w2) * (a > 0); dx = g1 @ w1, dw1 = g1.T @ x, db1 = g1.sum(axis=0).",
    ),
    why=(
        "The feed-forward layers of lesson 12 are this function. They have two thirds of the weights in a "
        "GPT's block: 8 of 12 d_model squared."
    ),
)


@mlp_backward.gradcheck(
    forward="mlp",
    inputs=lambda rng: [rng.standard_normal(s) for s in ((5, 3), (4, 3), (4,), (2, 4), (2,))],
)
def _(my, g, x, w1, b1, w2, b2):
    return my.mlp_backward(g, x, w1, b1, w2, b2)


@mlp_backward.check("everything square: 3, 3, 3, 3")
def _(my, rng):
    return my.mlp_backward(*[rng.standard_normal(s) for s in ((3, 3), (3, 3), (3, 3), (3,), (3, 3), (3,))])


@mlp_backward.check("hidden units at exactly 0 get a gradient of 0")
def _(my, rng):
    x, w1 = np.array([[1.0, 1.0]]), np.array([[1.0, -1.0], [1.0, 1.0]])
    return my.mlp_backward(np.array([[2.0]]), x, w1, np.zeros(2), np.array([[3.0, 5.0]]), np.zeros(1))


mlp_backward.wrong(
    "You forgot relu on the way back: where its input was not positive, the gradient is 0.",
    "(g @ w2) * (a > 0)",
    "g @ w2",
)
mlp_backward.wrong(
    "Where relu's input is 0 its slope is 0 by convention: use a > 0, not a >= 0.",
    "(a > 0)",
    "(a >= 0)",
)
mlp_backward.wrong(
    (
        "The bias was added to every example of the batch, so its gradient is the sum over the batch, not "
        "the mean."
    ),
    body="""
a = x @ w1.T + b1
g1 = (g @ w2) * (a > 0)
return g1 @ w1, g1.T @ x, g1.mean(axis=0), g.T @ np.maximum(a, 0), g.mean(axis=0)
""",
)
mlp_backward.wrong(
    "You compute dw2 with relu's input instead of its output: w2 was multiplied by relu(a).",
    "np.maximum(a, 0)",
    "a",
)
mlp_backward.wrong(
    "The weights' gradients are transposed. Like the weights they have shape (out, in): g.T @ input.",
    body="""
a = x @ w1.T + b1
g1 = (g @ w2) * (a > 0)
return g1 @ w1, x.T @ g1, g1.sum(axis=0), np.maximum(a, 0).T @ g, g.sum(axis=0)
""",
)
mlp_backward.wrong(
    (
        "Forward multiplies by the transposed weights, so backward multiplies by the weights as they are: g "
        "@ w2, not g @ w2.T."
    ),
    body="""
a = x @ w1.T + b1
g1 = (g @ w2.T) * (a > 0)
return g1 @ w1.T, g1.T @ x, g1.sum(axis=0), g.T @ np.maximum(a, 0), g.sum(axis=0)
""",
)
mlp_backward.wrong(
    (
        "You do not sum the biases' gradients over the batch: they must have the shapes of the biases, (K,) "
        "and (C,)."
    ),
    body="""
a = x @ w1.T + b1
g1 = (g @ w2) * (a > 0)
return g1 @ w1, g1.T @ x, g1, g.T @ np.maximum(a, 0), g
""",
)

# ---------------------------------------------------------------- dropout

dropout = lesson.exercise(
    "dropout",
    hints=(
        "If a fraction p of the elements becomes 0, by how much does the mean fall? What restores it?",
        (
            "One array scale: 1 / (1 - p) where rng.random is at least p, else 0; ones in evaluation. Then y "
            "= x * scale."
        ),
        "scale = (rng.random(x.shape) >= p) / (1 - p) if training else np.ones(x.shape)",
    ),
    why=(
        "Without 1 / (1 - p), or with dropout left on in evaluation, a model is worse in use than in "
        "training, and no error is raised."
    ),
)


@dropout.check("training: dropped or scaled up")
def _(my, rng):
    return my.dropout(rng.standard_normal((4, 5)), 0.3, rng)


@dropout.check("another p, another shape; x is unchanged")
def _(my, rng):
    x = rng.standard_normal((2, 3, 4))
    before = x.copy()
    return [my.dropout(x, 0.75, rng), bool((x == before).all())]


@dropout.check("evaluation: nothing changes")
def _(my, rng):
    return my.dropout(rng.standard_normal((4, 5)), 0.3, rng, training=False)


@dropout.check("p = 0 keeps everything")
def _(my, rng):
    return my.dropout(rng.standard_normal(6), 0.0, rng)


@dropout.check("y and scale use the same random numbers")
def _(my, rng):
    x = rng.standard_normal(50)
    y, scale = my.dropout(x, 0.5, rng)
    return [np.abs(y - x * scale).max(), scale]


dropout.wrong(
    (
        "You do not scale what is kept, so in training the next layer gets smaller inputs on average than in "
        "evaluation. Divide by 1 - p."
    ),
    "(rng.random(x.shape) >= p) / (1 - p)",
    "(rng.random(x.shape) >= p) * 1.0",
)
dropout.wrong(
    (
        "Kept and dropped are swapped: p is the probability to be dropped, so keep an entry if its random "
        "number is at least p."
    ),
    ">= p)",
    "< p)",
)
dropout.wrong(
    "The scale is 1 / p. The fraction that is kept is 1 - p, so divide by that.",
    "/ (1 - p)",
    "/ max(p, 1e-9)",
)
dropout.wrong(
    "Your dropout is also active in evaluation. There it must do nothing.",
    " if training else np.ones(x.shape)",
    "",
)
dropout.wrong(
    (
        "You multiply x by 1 - p in evaluation, as in the first papers. Here what is kept was already scaled "
        "in training: return x unchanged."
    ),
    "np.ones(x.shape)",
    "np.full(x.shape, 1 - p)",
)
dropout.wrong(
    "You draw one random number for a whole row. Draw one for every entry: rng.random(x.shape).",
    "rng.random(x.shape) >= p",
    "np.broadcast_to(rng.random(x.shape[:-1] + (1,)), x.shape) >= p",
)
dropout.wrong(
    (
        "You draw the random numbers twice, so y and the returned scale have different masks; backward would "
        "use the wrong one."
    ),
    "x * scale, scale",
    "x * scale, (rng.random(x.shape) >= p) / (1 - p) if training else scale",
)

# ---------------------------------------------------------------- dropout_backward

dropout_backward = lesson.exercise(
    "dropout_backward",
    hints=(
        "y = x * scale, element by element, and scale does not depend on x. What is the derivative?",
        "A dropped entry gets 0; a kept entry gets its incoming gradient, scaled by the same factor.",
        "It is one product of the two arguments.",
    ),
    why="Forward and backward use the same mask and the same factor: dropout's backward needs nothing else.",
)


@dropout_backward.gradcheck(
    forward=lambda x, scale: x * scale,
    inputs=lambda rng: [rng.standard_normal((4, 5)), rng.integers(0, 2, size=(4, 5))],
)
def _(my, g, x, scale):
    return my.dropout_backward(g, scale)


@dropout_backward.check("p = 0.2: the factor is 1.25")
def _(my, rng):
    return my.dropout_backward(rng.standard_normal((3, 4)), (rng.random((3, 4)) >= 0.2) / 0.8)


@dropout_backward.check("g and scale are unchanged")
def _(my, rng):
    g, scale = rng.standard_normal(5), np.array([2.0, 0.0, 2.0, 2.0, 0.0])
    before = g.copy()
    my.dropout_backward(g, scale)
    return [bool((g == before).all()), scale]


dropout_backward.wrong(
    "The factor 1 / (1 - p) is missing: multiply by scale itself, not only by its mask.",
    "g * scale",
    "g * (scale > 0)",
)
dropout_backward.wrong(
    "Dropped entries get a gradient, but they had no influence on the loss: multiply by scale.",
    "g * scale",
    "g.copy()",
)
dropout_backward.wrong(
    (
        "You divide by the scale, which is 0 where an entry was dropped. The derivative of x * scale is "
        "scale: multiply."
    ),
    "g * scale",
    "g / np.where(scale == 0, 1e-9, scale)",
)
dropout_backward.wrong(
    "g *= changes the caller's array. Return a new one.",
    body="g *= scale\nreturn g",
)
