"""Checks of lesson 07."""

import numpy as np

from tutorials.course import Checks

lesson = Checks()

SHAPES = ((5, 2, 3), (2, 4), (4, 3), (4, 4), (4,))  # x, h0, W_x, W_h, b


# ---------------------------------------------------------------- rnn_step

step = lesson.exercise(
    "rnn_step",
    hints=(
        "W_x is (H, D), and x has the vectors in its rows. How do you multiply each row by W_x?",
        "A matrix times each row of x is x @ W.T. Add both products and the bias, then apply tanh.",
        "np.tanh(x @ W_x.T + h @ ... + b)",
    ),
    why=(
        "These few parameters, used again at every step, are the whole network: it reads sequences of any "
        "length."
    ),
)


@step.check("two sequences, inputs of size 3, states of size 4")
def _(my, rng):
    return my.rnn_step(*(rng.standard_normal(s) for s in ((2, 3), (2, 4), (4, 3), (4, 4), (4,))))


@step.check("D = H = B: a forgotten transpose would raise no error")
def _(my, rng):
    return my.rnn_step(*rng.standard_normal((4, 3, 3)), rng.standard_normal(3))


@step.check("the worked example: a state of size 1, w = 0.5")
def _(my, rng):
    return my.rnn_step(np.array([[1.0]]), np.array([[0.0]]), np.eye(1), 0.5 * np.eye(1), np.zeros(1))


step.wrong(
    "W_x is not transposed. With vectors in the rows, W times each of them is x @ W.T.",
    "x @ W_x.T", "x @ W_x",
)  # fmt: skip
step.wrong(
    "W_h is not transposed. It is square, so nothing complains: W_h times each row of h is h @ W_h.T.",
    "h @ W_h.T", "h @ W_h",
)  # fmt: skip
step.wrong(
    "The tanh is missing: the state could grow without bound.",
    "np.tanh(x @ W_x.T + h @ W_h.T + b)",
    "x @ W_x.T + h @ W_h.T + b",
)
step.wrong("The bias is missing.", " + b)", ")")
step.wrong("The previous state is not used: then the network has no memory.", " + h @ W_h.T", "")
step.wrong(
    "The bias is outside the tanh. It is part of the tanh's argument.", "h @ W_h.T + b)", "h @ W_h.T) + b"
)
step.wrong(
    "Neither matrix is transposed. The formula has W x for a column x; with rows it is x @ W.T.",
    "x @ W_x.T + h @ W_h.T",
    "x @ W_x + h @ W_h",
)


# ---------------------------------------------------------------- rnn_forward

forward = lesson.exercise(
    "rnn_forward",
    hints=(
        "What must be carried from one iteration of the loop to the next?",
        "Begin with h = h0. Each iteration computes the new h from x[t] and the old h, and appends it to a "
        "list. np.stack makes one array of it.",
        "for x_t in x: h = rnn_step(x_t, h, ...); states.append(h)",
    ),
    why=(
        "This loop cannot run in parallel, since each state needs the one before: the reason why large "
        "models are not RNNs."
    ),
)


@forward.check("5 steps of 2 sequences")
def _(my, rng):
    return my.rnn_forward(*(rng.standard_normal(s) for s in ((5, 2, 3), (2, 4), (4, 3), (4, 4), (4,))))


@forward.check("T = B: exchanged axes would raise no error")
def _(my, rng):
    return my.rnn_forward(*(rng.standard_normal(s) for s in ((3, 3, 2), (3, 4), (4, 2), (4, 4), (4,))))


@forward.check("one step")
def _(my, rng):
    return my.rnn_forward(*(rng.standard_normal(s) for s in ((1, 2, 3), (2, 4), (4, 3), (4, 4), (4,))))


forward.wrong(
    "Each step begins with h0 again, so nothing is remembered. Carry h from step to step.",
    "h = rnn_step(x_t, h, W_x, W_h, b)", "h = rnn_step(x_t, h0, W_x, W_h, b)",
)  # fmt: skip
forward.wrong(
    "Only the last state is returned. Return all states, one for each step.",
    "return np.stack(states)", "return h",
)  # fmt: skip
forward.wrong(
    "h0 is among the states. There is one state after each step, T in all.",
    "states, h = [], h0", "states, h = [h0], h0",
)  # fmt: skip
forward.wrong(
    "Each iteration stores the previous state, so everything is one step late.",
    body=(
        "states, h = [], h0\n"
        "for x_t in x:\n"
        "    states.append(h)\n"
        "    h = rnn_step(x_t, h, W_x, W_h, b)\n"
        "return np.stack(states)"
    ),
)
forward.wrong(
    "The sequences come first, then the steps. Time is the first axis here: (T, B, H).",
    "np.stack(states)",
    "np.stack(states, axis=1)",
)
forward.wrong(
    "h0 is not used: the initial state is not always 0.",
    "states, h = [], h0",
    "states, h = [], np.zeros_like(h0)",
)


# ---------------------------------------------------------------- rnn_backward

backward = lesson.exercise(
    "rnn_backward",
    hints=(
        "State h[t] is used twice. Where? So where do its gradients come from?",
        "Go from the last step to the first. Keep dh, the gradient from the next step. da = (g[t] + dh) * (1 "
        "- h[t] squared), the gradients of the weights accumulate with +=, and the new dh is da @ W_h.",
        "dx[t] = da @ W_x; dW_x += da.T @ x[t]; dW_h += da.T @ (states[t - 1] if t > 0 else h0); db += "
        "da.sum(axis=0); dh = da @ W_h",
    ),
    why=(
        "Backpropagation through time is backpropagation with one more sum: this loop trained the "
        "translators before 2017."
    ),
)


@backward.gradcheck(forward="rnn_forward", inputs=lambda rng: [rng.standard_normal(s) for s in SHAPES])
def _(my, g, x, h0, W_x, W_h, b):
    return my.rnn_backward(g, x, h0, W_x, W_h, b)


@backward.check("only the last state has a loss")
def _(my, rng):
    g, x, h0, W_x, W_h, b = (
        rng.standard_normal(s) for s in ((6, 2, 4), (6, 2, 3), (2, 4), (4, 3), (4, 4), (4,))
    )
    g[:-1] = 0
    return my.rnn_backward(g, x, h0, W_x, W_h, b)


@backward.check("the worked example")
def _(my, rng):
    g, x = np.zeros((3, 1, 1)), np.zeros((3, 1, 1))
    g[2] = x[0] = 1
    return my.rnn_backward(g, x, np.zeros((1, 1)), np.eye(1), 0.5 * np.eye(1), np.zeros(1))


@backward.check("all sizes equal, and g is unchanged")
def _(my, rng):
    g, x = rng.standard_normal((2, 3, 3, 3))
    return my.rnn_backward(g, x, *rng.standard_normal((3, 3, 3)), rng.standard_normal(3)), g


backward.wrong(
    "The gradient from the next step is forgotten: each state is used there too, so its gradient is g[t] "
    "plus dh.",
    "(g[t] + dh) *", "g[t] *",
)  # fmt: skip
backward.wrong(
    "Only the last g[t] is used, so the gradients from outside at earlier steps are lost. Each step has its "
    "own g[t]: add dh to it.",
    "(g[t] + dh) *", "(dh if t < len(x) - 1 else g[t]) *",
)  # fmt: skip
backward.wrong(
    "dW_x is assigned, not accumulated: only the term of the first step is left. The weights are used at "
    "every step.",
    "dW_x += da.T @ x[t]", "dW_x = da.T @ x[t]",
)  # fmt: skip
backward.wrong(
    "dW_h is assigned, not accumulated: only the term of the first step is left. The weights are used at "
    "every step.",
    "dW_h += da.T @ before", "dW_h = da.T @ before",
)  # fmt: skip
backward.wrong(
    "dW_h multiplies da[t] by the state after the step. W_h was multiplied by the state before it.",
    "da.T @ before", "da.T @ states[t]",
)  # fmt: skip
backward.wrong(
    "At the first step states[t - 1] is states[-1], the last state. The state before the first step is h0.",
    "states[t - 1] if t > 0 else h0", "states[t - 1]",
)  # fmt: skip
backward.wrong(
    "dh needs W_h, not its transpose: the forward pass has h @ W_h.T, so the backward pass has da @ W_h.",
    "dh = da @ W_h", "dh = da @ W_h.T",
)  # fmt: skip
backward.wrong(
    "The derivative of the tanh is missing: da is g[t] + dh, times 1 - h[t] squared.",
    "(g[t] + dh) * (1 - states[t] ** 2)", "g[t] + dh",
)  # fmt: skip
backward.wrong(
    "The derivative of the tanh uses the previous state. It is 1 - h[t] squared, where h[t] is the tanh's "
    "result.",
    "1 - states[t] ** 2", "1 - before**2",
)  # fmt: skip


# ---------------------------------------------------------------- lstm_step

lstm = lesson.exercise(
    "lstm_step",
    hints=(
        "All four gates have the same form. Can you compute them in one product and split the result into "
        "four?",
        "a = x @ W_x.T + h @ W_h.T + b is (B, 4H); np.split(a, 4, axis=-1) gives i, f, g, o. i, f and o go "
        "through a sigmoid, g through a tanh.",
        "c = sigmoid(f) * c + sigmoid(i) * np.tanh(g), and then sigmoid(o) * np.tanh(c) with the new c",
    ),
    why=(
        "The cell is scaled and added to, never multiplied by a matrix: on this path a gradient can survive "
        "hundreds of steps."
    ),
)


@lstm.check("two sequences, inputs of size 3, states of size 4")
def _(my, rng):
    return my.lstm_step(*(rng.standard_normal(s) for s in ((2, 3), (2, 4), (2, 4), (16, 3), (16, 4), (16,))))


@lstm.check("B = H = D")
def _(my, rng):
    return my.lstm_step(*(rng.standard_normal(s) for s in ((3, 3), (3, 3), (3, 3), (12, 3), (12, 3), (12,))))


@lstm.check("a forget gate wide open keeps the cell")
def _(my, rng):
    b = np.concatenate([np.full(4, -50.0), np.full(4, 50.0), np.zeros(8)])  # input gate shut
    return my.lstm_step(
        np.zeros((2, 3)),
        np.zeros((2, 4)),
        rng.standard_normal((2, 4)),
        np.zeros((16, 3)),
        np.zeros((16, 4)),
        b,
    )


lstm.wrong(
    "The order of the blocks: the second is the forget gate f, the first the input gate i.",
    "i, f, g, o = np.split",
    "f, i, g, o = np.split",
)
lstm.wrong(
    "The order of the blocks: the third is the proposal g, the fourth the output gate o.",
    "i, f, g, o = np.split", "i, f, o, g = np.split",
)  # fmt: skip
lstm.wrong(
    "h' is computed from the old cell. It needs the new one.",
    body="i, f, g, o = np.split(x @ W_x.T + h @ W_h.T + b, 4, axis=-1)\n"
    "new = sigmoid(f) * c + sigmoid(i) * np.tanh(g)\n"
    "return sigmoid(o) * np.tanh(c), new",
)
lstm.wrong(
    "The proposal g goes through a sigmoid. It may be negative: use tanh.",
    "sigmoid(i) * np.tanh(g)",
    "sigmoid(i) * sigmoid(g)",
)
lstm.wrong(
    "The tanh of the cell is missing: h' = o tanh(c').", "sigmoid(o) * np.tanh(c), c", "sigmoid(o) * c, c"
)
lstm.wrong(
    "State and cell are returned in the wrong order: return (h', c').",
    "return sigmoid(o) * np.tanh(c), c",
    "return c, sigmoid(o) * np.tanh(c)",
)
lstm.wrong("The forget gate is missing: the cell only ever grows.", "sigmoid(f) * c +", "c +")
lstm.wrong(
    "The blocks are taken as every fourth column. They follow one another: the first H columns, the next H, "
    "and so on.",
    "i, f, g, o = np.split(x @ W_x.T + h @ W_h.T + b, 4, axis=-1)",
    "i, f, g, o = ((x @ W_x.T + h @ W_h.T + b)[:, n::4] for n in range(4))",
)


# ---------------------------------------------------------------- spectral_radius

radius = lesson.exercise(
    "spectral_radius",
    hints=(
        "Which function of np.linalg gives eigenvalues of a matrix that need not be symmetric?",
        "np.linalg.eigvals gives them all, complex ones too. abs of a complex number is its distance from 0.",
        "abs(np.linalg.eigvals(W)).max()",
    ),
    why="This number predicts before training whether gradients will vanish or explode in the long run.",
)


@radius.check("a random matrix")
def _(my, rng):
    return my.spectral_radius(rng.standard_normal((5, 5)))


@radius.check("the largest eigenvalue is negative")
def _(my, rng):
    return my.spectral_radius(np.diag([0.5, -2.0, 1.0]))


@radius.check("a rotation: all eigenvalues complex")
def _(my, rng):
    return my.spectral_radius(0.9 * np.array([[0.0, -1.0], [1.0, 0.0]]))


@radius.check("small eigenvalues, large elements")
def _(my, rng):
    return my.spectral_radius(np.array([[0.5, 10.0], [0.0, 0.5]]))


radius.wrong(
    "This is the largest singular value: the most by which one step can lengthen a vector. In the long run "
    "the eigenvalues decide.",
    "abs(np.linalg.eigvals(W)).max()", "np.linalg.norm(W, 2)",
)  # fmt: skip
radius.wrong(
    "Without abs a large negative eigenvalue is missed, and of a complex one only the real part counts.",
    "abs(np.linalg.eigvals(W)).max()", "np.linalg.eigvals(W).real.max()",
)  # fmt: skip
radius.wrong(
    "eigvalsh is for symmetric matrices; it reads only one half of other matrices.",
    "np.linalg.eigvals(W)", "np.linalg.eigvalsh(W)",
)  # fmt: skip
radius.wrong(
    "abs is applied to the real part only. A rotation can have eigenvalues whose real part is 0.",
    "np.linalg.eigvals(W)",
    "np.linalg.eigvals(W).real",
)
radius.wrong(
    "This is the determinant: the product of all eigenvalues, not the largest.",
    "abs(np.linalg.eigvals(W)).max()",
    "abs(np.linalg.det(W))",
)
radius.wrong(
    "The maximum of complex numbers is not the one farthest from 0: take abs of each eigenvalue, then the "
    "maximum.",
    body="return np.linalg.eigvals(W).max()",
)


# ---------------------------------------------------------------- clip

clip = lesson.exercise(
    "clip",
    hints=(
        "What is the length of all gradients together, if you imagine them as one long vector?",
        "Square all elements, sum over all arrays, take the square root. If that is above longest, multiply "
        "every array by longest / length.",
        "length = np.sqrt(sum((g**2).sum() for g in gradients)); return [g * (longest / length) for g in "
        "gradients] if length > longest else ...",
    ),
    why=(
        "One step with an exploded gradient can ruin hours of training; nearly every large model is trained "
        "with this line."
    ),
)


@clip.check("(3, 0) and 4, to length 1")
def _(my, rng):
    return my.clip([np.array([3.0, 0.0]), np.array([[4.0]])], 1.0)


@clip.check("three arrays, some long, some short")
def _(my, rng):
    return my.clip(
        [10 * rng.standard_normal((3, 4)), 0.1 * rng.standard_normal(4), rng.standard_normal((2, 2, 2))], 2.5
    )


@clip.check("short ones stay as they are")
def _(my, rng):
    return my.clip([np.array([0.3, -0.1]), np.array([[0.2]])], 1.0)


@clip.check("zeros stay zeros, without a warning")
def _(my, rng):
    with np.errstate(all="raise"):
        return my.clip([np.zeros(3), np.zeros((2, 2))], 1.0)


@clip.check("the given gradients are unchanged")
def _(my, rng):
    given = [10 * rng.standard_normal(3), 10 * rng.standard_normal((2, 2))]
    my.clip(given, 1.0)
    return given


clip.wrong(
    "Each element is clipped by itself. That changes the direction; all must be multiplied by the same "
    "factor.",
    body="return [np.clip(g, -longest, longest) for g in gradients]",
)
clip.wrong(
    "Each array is clipped by itself. The length is that of all arrays together, so that their proportions "
    "stay.",
    body="lengths = [np.sqrt((g**2).sum()) for g in gradients]\n"
    "return [g * (longest / n) if n > longest else g for g, n in zip(gradients, lengths)]",
)
clip.wrong(
    "Short gradients are made longer. Clipping only shortens.",
    "[g * (longest / length) for g in gradients] if length > longest else list(gradients)",
    "[g * (longest / length) if length else g for g in gradients]",
)
clip.wrong(
    "The square root is missing: you compare the square of the length.",
    "np.sqrt(sum((g**2).sum() for g in gradients))",
    "sum((g**2).sum() for g in gradients)",
)
clip.wrong(
    "The arrays are changed in place: the caller's gradients are not yours to write into. Make new ones.",
    body="length = np.sqrt(sum((g**2).sum() for g in gradients))\n"
    "for g in gradients:\n"
    "    g *= min(1.0, longest / length) if length else 1.0\n"
    "return gradients",
)
clip.wrong(
    "The lengths of the arrays are added. Squares add up, lengths do not: sum the squares of all elements, "
    "then take one square root.",
    "np.sqrt(sum((g**2).sum() for g in gradients))", "sum(np.sqrt((g**2).sum()) for g in gradients)",
)  # fmt: skip


# ---------------------------------------------------------------- path_length

path = lesson.exercise(
    "path_length",
    hints=(
        "At first only `start` knows. Which positions know after one step?",
        "Keep a boolean for each position. After a step a position knows if it knew before, or if it reads "
        "one that knew. Stop when `end` knows, or when a step adds no position.",
        "heard = knows | (reads & knows).any(axis=1), repeated until knows[end]; if heard equals knows, "
        "return None",
    ),
    why=(
        "Path length is an argument of the 2017 paper: 19 steps from the first to the twentieth word in an "
        "RNN, one in attention."
    ),
)


@path.check("RNN, 20 tokens, forwards and backwards")
def _(my, rng):
    reads = np.eye(20, k=-1, dtype=bool)
    return my.path_length(reads, 0, 19), my.path_length(reads, 19, 0), my.path_length(reads, 3, 7)


@path.check("attention, and attention that does not see later positions")
def _(my, rng):
    everything, causal = np.ones((20, 20), bool), np.tri(20, dtype=bool)
    return [my.path_length(reads, 0, 19) for reads in (everything, causal)], my.path_length(causal, 19, 0)


@path.check("a convolution of width 3")
def _(my, rng):
    reads = np.tri(20, dtype=bool) & ~np.tri(20, k=-3, dtype=bool)
    return [my.path_length(reads, 0, end) for end in range(20)]


@path.check("from a position to itself: 0 steps")
def _(my, rng):
    return my.path_length(np.eye(4, dtype=bool), 2, 2), my.path_length(np.zeros((4, 4), bool), 1, 1)


@path.check("random connections with cycles")
def _(my, rng):
    reads = rng.random((12, 12)) < 0.12
    return [-1 if steps is None else steps for steps in (my.path_length(reads, 0, end) for end in range(12))]


path.wrong(
    "The direction is wrong: reads[i, j] says that i reads j, so information goes from j to i.",
    "(reads & knows).any(axis=1)", "(reads & knows[:, None]).any(axis=0)",
)  # fmt: skip
path.wrong("One step too many: at the beginning `start` knows, after 0 steps.", "== start, 0", "== start, 1")
path.wrong(
    "This is the distance, end - start. It is the path length only in an RNN; other layers read further.",
    body="return end - start if end >= start else None",
)
path.wrong(
    "You test only the direct connection. Information can also go through other positions, in several steps.",
    body="return 0 if start == end else 1 if reads[end, start] else None",
)
path.wrong(
    "Return None, not the number of steps tried, if the information never arrives.",
    "return None", "return steps",
)  # fmt: skip
path.wrong(
    "A position that knew forgets in the next step unless it reads itself: keep the positions that already "
    "know.",
    body="knows, steps = np.arange(len(reads)) == start, 0\n"
    "while not knows[end] and steps < 3:\n"
    "    knows, steps = (reads & knows).any(axis=1), steps + 1\n"
    "return steps if knows[end] else None",
)
