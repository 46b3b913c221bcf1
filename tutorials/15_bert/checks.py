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
        "There are two numbers for each token. Which one decides whether it is asked, and which one what "
        "the model sees?",
        (
            "Compute `asked` first. Then use np.where twice: random tokens where asked and second < 0.9, "
            "then [MASK] where asked and second < 0.8."
        ),
        "asked = (first < 0.15) & ~np.isin(tokens, never); labels = np.where(asked, tokens, IGNORED).",
    ),
    why="A model that was only asked at [MASK] would not know what to do with texts without it, and those "
    "it is used on have none.",
)


@mask_tokens.check("a batch with all four cases")
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


@mask_tokens.check("the tokens passed in are unchanged")
def _(my, rng):
    tokens = np.array([[4, 5, 6]])
    my.mask_tokens(
        tokens, np.full((1, 3), 0.1), np.array([[0.1, 0.85, 0.95]]), np.array([[7, 7, 7]]), 2, (0, 1)
    )
    return tokens


mask_tokens.wrong(
    (
        "Every asked position is masked. `second` must decide what the model sees; `first` is below 0.8 at "
        "every asked position."
    ),
    body="""
    asked = (first < 0.15) & ~np.isin(tokens, never)
    return np.where(asked, mask_token, tokens), np.where(asked, tokens, IGNORED)
    """,
)
mask_tokens.wrong(
    "The labels are what the model sees, so it is asked for [MASK] itself. The label is the original token.",
    "np.where(asked, tokens, IGNORED)",
    "np.where(asked, seen, IGNORED)",
)
mask_tokens.wrong(
    "Padding and [CLS] are asked for too. Leave out the tokens in `never`.",
    "(first < 0.15) & ~np.isin(tokens, never)",
    "first < 0.15",
)
mask_tokens.wrong(
    "You do not ask at positions that keep their token. Ask there too, or the model can trust every word it "
    "sees.",
    "return seen, np.where(asked, tokens, IGNORED)",
    "return seen, np.where(asked & (second < 0.9), tokens, IGNORED)",
)
mask_tokens.wrong(
    "The labels are 0 where nothing is asked, so token 0 cannot be learned. Use IGNORED there.",
    "np.where(asked, tokens, IGNORED)",
    "np.where(asked, tokens, 0)",
)
mask_tokens.wrong(
    "You put random tokens at positions that are not asked for. Replace tokens only at asked positions.",
    "asked & (second < 0.9)",
    "(second >= 0.8) & (second < 0.9)",
)

# ---------------------------------------------------------------- mlm_loss

mlm_loss = lesson.exercise(
    "mlm_loss",
    hints=(
        "Which rows of the logits belong to the asked positions, and how many are there?",
        (
            "Choose the asked rows with a boolean index. The rest is the cross-entropy of lesson 05: "
            "subtract the maximum, log-softmax, pick, mean."
        ),
        "z = logits[asked]; log_p = z - max - log(sum(exp)); -log_p[np.arange(len(z)), "
        "labels[asked]].mean().",
    ),
    why="Only the hidden positions show whether the model understood; at the others it could copy.",
)


@mlm_loss.check("some positions asked")
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
    "You treat token 0 as if nothing were asked there, so it is never learned. Only IGNORED means that.",
    "labels != IGNORED",
    "labels > 0",
)
mlm_loss.wrong(
    "You divide the sum by the number of all positions. Divide by the number of asked ones.",
    "labels[asked]].mean()",
    "labels[asked]].sum() / labels.size",
)
mlm_loss.wrong(
    "You sum the losses. Take their mean, or a longer text counts more.",
    "labels[asked]].mean()",
    "labels[asked]].sum()",
)
mlm_loss.wrong(
    (
        "You count positions where nothing is asked. Their label -100 is an index from the end, so some "
        "other token is taken as the right one. Choose the asked rows first."
    ),
    body="""
    z = logits.reshape(-1, logits.shape[-1])
    z = z - z.max(-1, keepdims=True)
    log_p = z - np.log(np.exp(z).sum(-1, keepdims=True))
    return -log_p[np.arange(len(z)), labels.reshape(-1) % z.shape[-1]].mean()
    """,
)
mlm_loss.wrong(
    "The minus sign is missing: the loss must fall as the right token becomes likelier.",
    "return -log_p",
    "return log_p",
)

# ---------------------------------------------------------------- mlm_loss_backward

mlm_loss_backward = lesson.exercise(
    "mlm_loss_backward",
    hints=(
        "What is the gradient of -log softmax(z)[c] with respect to z, and what is it at a position that is "
        "not asked?",
        (
            "Take the softmax of the asked rows, subtract 1 at the right token, divide by the number of "
            "asked positions and multiply by g. Put the result into an array of zeros."
        ),
        "p[np.arange(len(z)), labels[asked]] -= 1; out = np.zeros_like(logits); out[asked] = g * p / len(z).",
    ),
    why="The zeros make it a cloze test: nothing teaches the model to copy the words it can see.",
)


@mlm_loss_backward.check("some positions asked")
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


@mlm_loss_backward.check("the logits passed in are unchanged")
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
    "You divide the gradient by the number of all positions, but the loss is the mean over the asked ones.",
    "max(len(z), 1)",
    "labels.size",
)
mlm_loss_backward.wrong(
    "You forgot the mean: divide by the number of asked positions.", " / max(len(z), 1)", ""
)
mlm_loss_backward.wrong(
    "The incoming gradient g is not used. The chain rule multiplies by it.",
    "g * p / max(len(z), 1)",
    "p / max(len(z), 1)",
)
mlm_loss_backward.wrong(
    "Positions where nothing is asked get a gradient too. They are not part of the loss, so their gradient "
    "is 0.",
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
    "The sign is wrong: raising the right token's logit lowers the loss, so its gradient is p - 1, not 1 - "
    "p.",
    "out[asked] = g * p",
    "out[asked] = -g * p",
)
mlm_loss_backward.wrong(
    "This is the softmax only: subtract 1 at the right token.",
    "labels[asked]] -= 1",
    "labels[asked]] -= 0",
)

# ---------------------------------------------------------------- mean_pool

mean_pool = lesson.exercise(
    "mean_pool",
    hints=(
        "Three of a row's eight tokens are padding. Over how many tokens is the mean?",
        (
            "Add a last axis to the mask and multiply x by it. Sum over T, and divide by each row's number "
            "of real tokens, at least 1."
        ),
        "(x * real[..., None]).sum(1) / np.maximum(real.sum(1, keepdims=True), 1).",
    ),
    why="With padding in the mean, the vectors of all short sentences move to the same point.",
)


@mean_pool.check("rows of different lengths")
def _(my, rng):
    return my.mean_pool(
        rng.standard_normal((3, 4, 5)), np.array([[1, 1, 1, 1], [1, 1, 0, 0], [1, 0, 0, 0]], bool)
    )


@mean_pool.check("padding that is not at the end; B = T = C")
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
    "The mean includes padding. Leave padding out of the sum and out of the count.",
    body="""
    return x.mean(1)
    """,
)
mean_pool.wrong(
    "You leave padding out of the sum but not out of the count. Divide by each row's number of real tokens.",
    "np.maximum(real.sum(1, keepdims=True), 1)",
    "real.shape[1]",
)
mean_pool.wrong(
    "The count is that of the whole batch. Each row has its own number of real tokens.",
    "np.maximum(real.sum(1, keepdims=True), 1)",
    "max(real.sum(), 1)",
)
mean_pool.wrong(
    "You leave padding out of the count but not out of the sum. Multiply x by the mask before you sum.",
    "(x * real[..., None]).sum(1)",
    "x.sum(1)",
)
mean_pool.wrong(
    "You return the first token's vector, as with [CLS]. Return the mean of all real tokens.",
    body="""
    return x[:, 0] * real.any(1, keepdims=True)
    """,
)

# ---------------------------------------------------------------- mean_pool_backward

mean_pool_backward = lesson.exercise(
    "mean_pool_backward",
    hints=(
        "By how much does the mean change if an element of a real token rises by 1? And an element at "
        "padding?",
        "Each real token gets g divided by its row's number of real tokens; padding gets 0.",
        "(g / count)[:, None] * real[..., None], with the count of mean_pool.",
    ),
    why="In fine-tuning with a mean, every real token gets the same gradient.",
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
    "The division is missing: each token enters the mean with the factor 1/count.", "(g / count)", "g"
)
mean_pool_backward.wrong(
    "Padding gets a gradient too, although it is not part of the mean. Multiply by the mask.",
    "(g / count)[:, None] * real[..., None]",
    "np.repeat((g / count)[:, None], real.shape[1], 1)",
)
mean_pool_backward.wrong(
    "You divide by the length with padding. Divide by the row's number of real tokens.",
    "np.maximum(real.sum(1, keepdims=True), 1)",
    "real.shape[1]",
)
mean_pool_backward.wrong(
    "You divide by the number of real tokens of the whole batch. Each row has its own count.",
    "np.maximum(real.sum(1, keepdims=True), 1)",
    "max(real.sum(), 1)",
)

# ---------------------------------------------------------------- masked_accuracy

masked_accuracy = lesson.exercise(
    "masked_accuracy",
    hints=(
        "At which positions can the model be right or wrong at all?",
        "Take argmax over the last axis, then compare at the asked positions only.",
        "(logits.argmax(-1)[asked] == labels[asked]).mean(), and 0.0 if nothing is asked.",
    ),
    why="Over all positions the accuracy would be high from the start: it would mostly measure how well "
    "the model copies.",
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
    "You divide by the number of all positions. Divide by the number of asked ones.",
    "right.mean()",
    "right.sum() / labels.size",
)
masked_accuracy.wrong(
    "You leave out token 0, as if nothing were asked there.", "labels != IGNORED", "labels > 0"
)
masked_accuracy.wrong(
    "argmax runs along the wrong axis: the likeliest token is found along the last axis, V.",
    "logits.argmax(-1)[asked]",
    "logits.argmax(1)[:, [0] * labels.shape[1]][asked]",
)
masked_accuracy.wrong(
    "You count positions where nothing is asked as right. Choose the asked positions first.",
    body="""
    asked = labels != IGNORED
    return float(((logits.argmax(-1) == labels) | ~asked).mean())
    """,
)
