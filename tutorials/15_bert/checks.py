"""Checks of lesson 15."""

import numpy as np

from tutorials.course import Checks

lesson = Checks()


def labels_of(rng):
    labels = rng.integers(5, size=(2, 4))
    return np.where(np.array([[True, False, False, True], [False, True, True, False]]), labels, -100)


# ---------------------------------------------------------------- mask_tokens

mask_tokens = lesson.exercise(
    "mask_tokens",
    hints=(
        "Two numbers for each token: which decides whether it is asked, and which what becomes of it?",
        (
            "Compute `asked` first. Then np.where twice: random tokens where asked and second < 0.9, [MASK] over them "
            "where asked and second < 0.8."
        ),
        "asked = (first < 0.15) & ~np.isin(tokens, never); labels = np.where(asked, tokens, IGNORED).",
    ),
    why="A model that saw [MASK] only would not know what to do with a text that has none, which is every text it is used on.",
)


@mask_tokens.check("a batch with every fate in it")
def _(my, rng):
    tokens = rng.integers(3, 20, size=(6, 9))
    return my.mask_tokens(
        tokens, rng.random((6, 9)) * 0.3, rng.random((6, 9)), rng.integers(20, 30, size=(6, 9)), 2, (0, 1)
    )


@mask_tokens.check("padding and [CLS] are never asked for")
def _(my, rng):
    tokens = np.array([[1, 5, 6, 0, 0], [1, 7, 0, 0, 0]])
    return my.mask_tokens(tokens, np.full((2, 5), 0.1), np.full((2, 5), 0.5), tokens + 1, 2, (0, 1))


@mask_tokens.check("at the limits 0.15, 0.8 and 0.9")
def _(my, rng):
    tokens = np.array([[4, 5, 6, 7, 8, 9]])
    first, second = (
        np.array([[0.15, 0.0, 0.1499, 0.1, 0.1, 0.1]]),
        np.array([[0.1, 0.0, 0.7999, 0.8, 0.8999, 0.9]]),
    )
    return my.mask_tokens(tokens, first, second, tokens + 10, 2, (0, 1))


@mask_tokens.check("token 0 is asked for, if it is a word")
def _(my, rng):
    return my.mask_tokens(
        np.array([[0, 3, 0]]),
        np.full((1, 3), 0.1),
        np.array([[0.1, 0.85, 0.95]]),
        np.array([[4, 4, 4]]),
        9,
        (8,),
    )


@mask_tokens.check("the tokens that were passed stay as they were")
def _(my, rng):
    tokens = np.array([[4, 5, 6]])
    my.mask_tokens(
        tokens, np.full((1, 3), 0.1), np.array([[0.1, 0.85, 0.95]]), np.array([[7, 7, 7]]), 2, (0, 1)
    )
    return tokens


mask_tokens.wrong(
    (
        "Every asked place is masked. `second` decides what becomes of it; `first` is below 0.8 at every asked place, so "
        "it cannot."
    ),
    body="""
    asked = (first < 0.15) & ~np.isin(tokens, never)
    return np.where(asked, mask_token, tokens), np.where(asked, tokens, IGNORED)
    """,
)
mask_tokens.wrong(
    "The labels are what the model sees, so it is asked for [MASK] itself. The label is the token that stood there.",
    "np.where(asked, tokens, IGNORED)",
    "np.where(asked, seen, IGNORED)",
)
mask_tokens.wrong(
    "Padding and [CLS] are asked for too. Leave out the tokens in `never`.",
    "(first < 0.15) & ~np.isin(tokens, never)",
    "first < 0.15",
)
mask_tokens.wrong(
    "Places that are left as they are are not asked for. They are, or the model could trust whatever it sees.",
    "return seen, np.where(asked, tokens, IGNORED)",
    "return seen, np.where(asked & (second < 0.9), tokens, IGNORED)",
)
mask_tokens.wrong(
    "The labels are 0 where nothing is asked, so that token 0 cannot be learned. Mark these places with IGNORED.",
    "np.where(asked, tokens, IGNORED)",
    "np.where(asked, tokens, 0)",
)
mask_tokens.wrong(
    "Random tokens are put at places that are not asked for. Both replacements happen at asked places only.",
    "asked & (second < 0.9)",
    "(second >= 0.8) & (second < 0.9)",
)

# ---------------------------------------------------------------- mlm_loss

mlm_loss = lesson.exercise(
    "mlm_loss",
    hints=(
        "At how many places is something asked, and which rows of the logits are those?",
        (
            "Choose the asked rows with a boolean index, then it is the cross-entropy of lesson 05: take the maximum off, "
            "log-softmax, pick, mean."
        ),
        "z = logits[asked]; log_p = z - max - log(sum(exp)); -log_p[np.arange(len(z)), labels[asked]].mean().",
    ),
    why="Only hidden places say whether the model understood; at the others it could copy.",
)


@mlm_loss.check("some places asked")
def _(my, rng):
    return my.mlm_loss(rng.standard_normal((2, 4, 5)), np.array([[-100, 3, -100, 1], [4, -100, -100, 2]]))


@mlm_loss.check("token 0 is a token like the others")
def _(my, rng):
    return my.mlm_loss(rng.standard_normal((2, 3, 4)), np.array([[0, -100, 2], [-100, 0, -100]]))


@mlm_loss.check("nothing is asked")
def _(my, rng):
    return my.mlm_loss(rng.standard_normal((2, 3, 4)), np.full((2, 3), -100))


@mlm_loss.check("large logits")
def _(my, rng):
    return my.mlm_loss(np.array([[[1e4, 0.0, -1e4], [3.0, 1.0, 2.0]]]), np.array([[1, 0]]))


@mlm_loss.check("everything is asked")
def _(my, rng):
    return my.mlm_loss(rng.standard_normal((1, 4, 4)), rng.integers(4, size=(1, 4)))


mlm_loss.wrong(
    "Token 0 is taken for a place where nothing is asked, so it is never learned. Only IGNORED means that.",
    "labels != IGNORED",
    "labels > 0",
)
mlm_loss.wrong(
    "The sum is divided by the number of all places. Divide by the number of asked ones: their mean.",
    "labels[asked]].mean()",
    "labels[asked]].sum() / labels.size",
)
mlm_loss.wrong(
    "The losses are summed. Take their mean, or a longer text counts more.",
    "labels[asked]].mean()",
    "labels[asked]].sum()",
)
mlm_loss.wrong(
    (
        "Places where nothing is asked are counted in, with token V - 100 or the like as the right one: an index of -100 "
        "counts from the end. Choose the asked rows first."
    ),
    body="""
    z = logits.reshape(-1, logits.shape[-1])
    z = z - z.max(-1, keepdims=True)
    log_p = z - np.log(np.exp(z).sum(-1, keepdims=True))
    return -log_p[np.arange(len(z)), labels.reshape(-1) % z.shape[-1]].mean()
    """,
)
mlm_loss.wrong(
    "The loss is the probability itself, or its logarithm without the minus: it must fall as the right token becomes likelier.",
    "return -log_p",
    "return log_p",
)

# ---------------------------------------------------------------- mlm_loss_backward

mlm_loss_backward = lesson.exercise(
    "mlm_loss_backward",
    hints=(
        "What is the gradient of -log softmax(z)[c] with respect to z, and what is it at a place that nobody asks about?",
        (
            "Softmax of the asked rows, 1 less at the right token, divided by the number of asked places, times g; put "
            "into an array of zeros."
        ),
        "p[np.arange(len(z)), labels[asked]] -= 1; out = np.zeros_like(logits); out[asked] = g * p / len(z).",
    ),
    why="The zeros are what makes it a cloze test: nothing pushes the model to copy what it can see.",
)


@mlm_loss_backward.check("some places asked")
def _(my, rng):
    return my.mlm_loss_backward(
        2.0, rng.standard_normal((2, 4, 5)), np.array([[-100, 3, -100, 0], [4, -100, -100, 2]])
    )


@mlm_loss_backward.check("nothing is asked")
def _(my, rng):
    return my.mlm_loss_backward(1.0, rng.standard_normal((2, 3, 4)), np.full((2, 3), -100))


@mlm_loss_backward.check("large logits")
def _(my, rng):
    return my.mlm_loss_backward(1.0, np.array([[[1e4, 0.0, -1e4], [3.0, 1.0, 2.0]]]), np.array([[1, 0]]))


@mlm_loss_backward.check("the logits that were passed stay as they were")
def _(my, rng):
    logits = rng.standard_normal((1, 3, 4))
    my.mlm_loss_backward(1.0, logits, np.array([[2, -100, 0]]))
    return logits


@mlm_loss_backward.gradcheck(
    forward="mlm_loss", inputs=lambda rng: [rng.standard_normal((2, 4, 5)), labels_of(rng)]
)
def _(my, g, logits, labels):
    return my.mlm_loss_backward(g, logits, labels)


mlm_loss_backward.wrong(
    "The gradient is divided by the number of all places; the loss is the mean over the asked ones.",
    "max(len(z), 1)",
    "labels.size",
)
mlm_loss_backward.wrong(
    "The mean is forgotten: divide by the number of asked places.", " / max(len(z), 1)", ""
)
mlm_loss_backward.wrong(
    "The incoming gradient g is not used. The chain rule multiplies by it.",
    "g * p / max(len(z), 1)",
    "p / max(len(z), 1)",
)
mlm_loss_backward.wrong(
    "Places where nothing is asked get a gradient too. They have no part in the loss: leave them 0.",
    body="""
    asked = labels != IGNORED
    p = np.exp(logits - logits.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    b, t = np.nonzero(asked)
    p[b, t, labels[asked]] -= 1
    return g * p / max(asked.sum(), 1)
    """,
)
mlm_loss_backward.wrong(
    "The sign is wrong: raising the right token's logit lowers the loss, so its gradient is p - 1, not 1 - p.",
    "out[asked] = g * p",
    "out[asked] = -g * p",
)
mlm_loss_backward.wrong(
    "This is the softmax only: at the right token 1 must be taken off.",
    "labels[asked]] -= 1",
    "labels[asked]] -= 0",
)

# ---------------------------------------------------------------- mean_pool

mean_pool = lesson.exercise(
    "mean_pool",
    hints=(
        "Over how many tokens is each row's mean taken, if three of its eight are padding?",
        (
            "Multiply by the mask, with an axis for C at its end; sum over T; divide by each row's number of real tokens, "
            "at least 1."
        ),
        "(x * real[..., None]).sum(1) / np.maximum(real.sum(1, keepdims=True), 1).",
    ),
    why="Left in, padding pulls the vectors of all short sentences to the same point.",
)


@mean_pool.check("rows of different lengths")
def _(my, rng):
    return my.mean_pool(
        rng.standard_normal((3, 4, 5)), np.array([[1, 1, 1, 1], [1, 1, 0, 0], [1, 0, 0, 0]], bool)
    )


@mean_pool.check("padding that is not at the end, in a cube")
def _(my, rng):
    return my.mean_pool(rng.standard_normal((3, 3, 3)), np.array([[0, 1, 1], [1, 0, 1], [0, 0, 1]], bool))


@mean_pool.check("large numbers at padding")
def _(my, rng):
    x = rng.standard_normal((2, 3, 2))
    x[0, 2] = 1e6
    return my.mean_pool(x, np.array([[1, 1, 0], [1, 1, 1]], bool))


@mean_pool.check("a row of padding only")
def _(my, rng):
    return my.mean_pool(rng.standard_normal((2, 3, 4)), np.array([[1, 1, 0], [0, 0, 0]], bool))


mean_pool.wrong(
    "The mean is over all places, padding included. Leave padding out of the sum and of the count.",
    body="""
    return x.mean(1)
    """,
)
mean_pool.wrong(
    "Padding is left out of the sum but not of the count: divide by the number of real tokens of each row.",
    "np.maximum(real.sum(1, keepdims=True), 1)",
    "real.shape[1]",
)
mean_pool.wrong(
    "The count is that of the whole batch. Each row has its own number of real tokens.",
    "np.maximum(real.sum(1, keepdims=True), 1)",
    "max(real.sum(), 1)",
)
mean_pool.wrong(
    "Padding is left out of the count but not of the sum: multiply x by the mask before it is summed.",
    "(x * real[..., None]).sum(1)",
    "x.sum(1)",
)
mean_pool.wrong(
    "This is the first token's vector. That is [CLS]'s way; here the mean of all real tokens is wanted.",
    body="""
    return x[:, 0] * real.any(1, keepdims=True)
    """,
)

# ---------------------------------------------------------------- mean_pool_backward

mean_pool_backward = lesson.exercise(
    "mean_pool_backward",
    hints=(
        "By how much does the mean change if one real token's number rises by 1? And if a padded one's does?",
        "Each real token gets g divided by its row's number of real tokens; padding gets 0.",
        "(g / count)[:, None] * real[..., None], with the count of mean_pool.",
    ),
    why="Fine-tuning from a mean reaches every real token at once, all alike.",
)


@mean_pool_backward.check("rows of different lengths")
def _(my, rng):
    return my.mean_pool_backward(
        rng.standard_normal((3, 5)), np.array([[1, 1, 1, 1], [1, 1, 0, 0], [0, 1, 0, 0]], bool)
    )


@mean_pool_backward.check("a row of padding only")
def _(my, rng):
    return my.mean_pool_backward(rng.standard_normal((2, 3)), np.array([[1, 1, 0], [0, 0, 0]], bool))


@mean_pool_backward.gradcheck(
    forward="mean_pool",
    inputs=lambda rng: [
        rng.standard_normal((2, 3, 4)),
        np.array([[True, True, False], [True, False, False]]),
    ],
)
def _(my, g, x, real):
    return my.mean_pool_backward(g, real)


mean_pool_backward.wrong(
    "The division is missing: each token has only its share, 1/count, in the mean.", "(g / count)", "g"
)
mean_pool_backward.wrong(
    "Padding gets a gradient too, though it has no part in the mean. Multiply by the mask.",
    "(g / count)[:, None] * real[..., None]",
    "np.repeat((g / count)[:, None], real.shape[1], 1)",
)
mean_pool_backward.wrong(
    "The gradient is divided by the length with padding. Divide by the number of real tokens of the row.",
    "np.maximum(real.sum(1, keepdims=True), 1)",
    "real.shape[1]",
)
mean_pool_backward.wrong(
    "The rows' counts are mixed up: this divides by the number of real tokens of the whole batch.",
    "np.maximum(real.sum(1, keepdims=True), 1)",
    "max(real.sum(), 1)",
)

# ---------------------------------------------------------------- masked_accuracy

masked_accuracy = lesson.exercise(
    "masked_accuracy",
    hints=(
        "Which places have a right and a wrong at all?",
        "argmax over the last axis, then compare at the asked places only.",
        "(logits.argmax(-1)[asked] == labels[asked]).mean(), and 0.0 if nothing is asked.",
    ),
    why="Over all places the figure would be high from the start: it would mostly say how well the model copies.",
)


@masked_accuracy.check("some right, some wrong")
def _(my, rng):
    labels = np.array([[-100, 3, -100, 1], [4, -100, 0, 2]])
    logits = np.eye(5)[[[0, 3, 0, 2], [4, 4, 1, 2]]] + 0.1 * rng.random((2, 4, 5))
    return my.masked_accuracy(logits, labels)


@masked_accuracy.check("token 0 counts")
def _(my, rng):
    return my.masked_accuracy(np.eye(3)[[[0, 1, 2], [1, 0, 2]]], np.array([[0, -100, 1], [0, 0, -100]]))


@masked_accuracy.check("nothing is asked; and a plain float")
def _(my, rng):
    nothing = my.masked_accuracy(rng.standard_normal((2, 3, 4)), np.full((2, 3), -100))
    return nothing, type(my.masked_accuracy(rng.standard_normal((1, 2, 3)), np.array([[1, -100]]))).__name__


masked_accuracy.wrong(
    "The number of right places is divided by the number of all places. Divide by the asked ones.",
    "right.mean()",
    "right.sum() / labels.size",
)
masked_accuracy.wrong(
    "Token 0 is left out, as if nothing were asked there.", "labels != IGNORED", "labels > 0"
)
masked_accuracy.wrong(
    "argmax runs along the wrong axis: the likeliest token is found along the last axis, V.",
    "logits.argmax(-1)[asked]",
    "logits.argmax(1)[:, [0] * labels.shape[1]][asked]",
)
masked_accuracy.wrong(
    "Places where nothing is asked count as right. They have no answer: choose the asked places first.",
    body="""
    asked = labels != IGNORED
    return float(((logits.argmax(-1) == labels) | ~asked).mean())
    """,
)
