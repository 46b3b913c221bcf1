"""Checks of lesson 09."""

import numpy as np

from tutorials.course import Checks

lesson = Checks()

# and no query sees keys 2 and 4
ROW_2_SEES_NOTHING = np.array([[1, 0, 0, 1, 0], [0, 0, 0, 0, 0], [1, 1, 0, 1, 0]], bool)


# ---------------------------------------------------------------- causal_mask

causal = lesson.exercise(
    "causal_mask",
    hints=(
        "With 2 queries and 5 keys, which keys does the first query see? Write down the ten elements.",
        "Use np.tri; its third argument moves the diagonal. By how much, so that the last row is all True?",
        "np.tri(queries, keys, keys - ..., dtype=bool)",
    ),
    why=(
        "With this mask a model learns at all positions of a text at once, and never sees the word it should "
        "predict."
    ),
)


@causal.check("4 queries, 4 keys")
def _(my, rng):
    return my.causal_mask(4, 4)


@causal.check("2 new tokens, 5 in all: bottom right")
def _(my, rng):
    return my.causal_mask(2, 5)


@causal.check("one new token sees everything; a single token sees itself")
def _(my, rng):
    return {"1 query, 4 keys": my.causal_mask(1, 4), "1 query, 1 key": my.causal_mask(1, 1)}


@causal.check("the elements are booleans")
def _(my, rng):
    return str(my.causal_mask(3, 4).dtype)


causal.wrong(
    "The diagonal begins in the top left corner. With more keys than queries the newest token must see them "
    "all: move it by keys - queries.",
    "queries, keys, keys - queries", "queries, keys",
)  # fmt: skip
causal.wrong(
    "Each query sees one key too many: the token that it should predict.",
    "keys - queries,", "keys - queries + 1,",
)  # fmt: skip
causal.wrong(
    "A query does not see its own key. It should: its own token is known, and the next one is predicted.",
    "keys - queries,", "keys - queries - 1,",
)  # fmt: skip
causal.wrong(
    "This is True where something is hidden, as in PyTorch's modules. Here True means: may attend.",
    "return np.tri", "return ~np.tri",
)  # fmt: skip
causal.wrong("These are floats, not booleans: `&`, `~` and np.where need dtype=bool.", ", dtype=bool", "")
causal.wrong(
    "This is the upper triangle: each query sees itself and the future. You need the lower one.",
    body="return np.triu(np.ones((queries, keys), bool), keys - queries)",
)


# ---------------------------------------------------------------- padding_mask

padding = lesson.exercise(
    "padding_mask",
    hints=(
        "The scores are (B, H, n, m). Which of these axes does padding depend on, and which not?",
        "Compare the tokens with pad, and put two axes of length 1 between B and T, for heads and queries.",
        "(tokens != pad)[:, None, None, :]",
    ),
    why=(
        "Without it, the output for a sentence depends on the longest sentence that happens to be in its "
        "batch."
    ),
)


@padding.check("three sentences of different length")
def _(my, rng):
    return my.padding_mask(np.array([[5, 3, 1, 2], [4, 1, 0, 0], [7, 0, 0, 0]]), 0)


@padding.check("pad is not 0")
def _(my, rng):
    return my.padding_mask(np.array([[0, 3, 9], [9, 9, 9]]), 9)


@padding.check("it broadcasts over heads and queries: which keys are seen")
def _(my, rng):
    tokens = rng.integers(3, size=(4, 4))
    return np.broadcast_to(my.padding_mask(tokens, 0), (4, 2, 4, 4)).copy()


padding.wrong(
    "The mask is True for padding. It should be True for real tokens: True means may attend.",
    "tokens != pad",
    "tokens == pad",
)
padding.wrong(
    "The shape is (B, T). With scores (B, H, n, m) it broadcasts as (queries, keys), without an error when B "
    "equals T. Put two axes of length 1 in the middle.",
    "[:, None, None, :]", "",
)  # fmt: skip
padding.wrong(
    "The tokens are on the axis of queries. The mask hides keys, so T is the last axis.",
    "[:, None, None, :]", "[:, None, :, None]",
)  # fmt: skip
padding.wrong("Padding is not always 0: compare with `pad`.", "tokens != pad", "tokens != 0")
padding.wrong(
    "There is one axis of length 1 too few: heads and queries need one each.",
    "[:, None, None, :]",
    "[:, None, :]",
)


# ---------------------------------------------------------------- decoder_masks

decoder = lesson.exercise(
    "decoder_masks",
    hints=(
        "For each of the two attentions: where do the keys come from? Which of them must be hidden?",
        "Self-attention has keys of the target: hide the future and the target's padding. Cross-attention "
        "has keys of the source: hide the source's padding.",
        "causal_mask(Tt, Tt) & padding_mask(tgt, pad), and padding_mask(src, pad)",
    ),
    why=(
        "These are all masks of a decoder, and the answer to the most frequent question: which attention "
        "needs which mask."
    ),
)


@decoder.check("two pairs, source longer than target")
def _(my, rng):
    masks = my.decoder_masks(
        np.array([[5, 3, 1, 2, 6], [4, 1, 0, 0, 0]]), np.array([[1, 7, 8], [1, 9, 0]]), 0
    )
    return dict(zip(("self_mask", "cross_mask"), masks, strict=False))


@decoder.check("source and target of equal length: the wrong mask would fit")
def _(my, rng):
    masks = my.decoder_masks(np.array([[5, 3, 1, 0]]), np.array([[1, 9, 0, 0]]), 0)
    return dict(zip(("self_mask", "cross_mask"), masks, strict=False))


@decoder.check("pad is 2, and 0 is a real token")
def _(my, rng):
    masks = my.decoder_masks(np.array([[0, 3, 2], [2, 2, 2]]), np.array([[1, 0], [1, 2]]), 2)
    return dict(zip(("self_mask", "cross_mask"), masks, strict=False))


decoder.wrong(
    "Cross-attention got the target's padding. Its keys are the source's tokens, so it needs the source's.",
    "padding_mask(src, pad)", "padding_mask(tgt, pad)",
)  # fmt: skip
decoder.wrong(
    "Self-attention got the source's padding. Its keys are the target's tokens.",
    "padding_mask(tgt, pad)", "padding_mask(src, pad)",
)  # fmt: skip
decoder.wrong(
    "In self-attention the target's padding is not hidden: the causal mask alone is not enough.",
    "causal_mask(length, length) & padding_mask(tgt, pad)", "causal_mask(length, length)",
)  # fmt: skip
decoder.wrong(
    "Self-attention may look ahead: the causal part is missing.",
    "causal_mask(length, length) & padding_mask(tgt, pad)",
    "np.ones((length, length), bool) & padding_mask(tgt, pad)",
)
decoder.wrong(
    "Combined with `|`, a key is visible if either mask allows it. Both must: `&`.",
    "causal_mask(length, length) &", "causal_mask(length, length) |",
)  # fmt: skip
decoder.wrong(
    "Your cross-attention is causal. The whole source is known before the first target word is written, so "
    "no part of it is future.",
    "& padding_mask(tgt, pad), padding_mask(src, pad)",
    "& padding_mask(tgt, pad), np.tri(length, src.shape[1], dtype=bool) & padding_mask(src, pad)",
)


# ---------------------------------------------------------------- masked_softmax

masked = lesson.exercise(
    "masked_softmax",
    hints=(
        "If you put -inf where the mask is False, what are the maximum and the sum of a row that is masked "
        "completely?",
        "The maximum is -inf and the sum 0. Replace that maximum by 0 and that sum by 1, and the row becomes "
        "0 / 1.",
        "s = np.where(mask, scores, -np.inf); top = s.max(...); e = np.exp(s - np.where(top == -np.inf, 0, "
        "top)); divide by total, or 1.",
    ),
    why="One row of NaN spoils every parameter of a model at the next update; this softmax gives no NaN.",
)


@masked.check("the lesson's example: causal")
def _(my, rng):
    return my.masked_softmax(np.array([[1, 1.5, 1.5], [1.5, 0, 2.5], [0.5, 2, 1.5]]), np.tri(3, dtype=bool))


@masked.check("a batch with heads, one row without an allowed key")
def _(my, rng):
    mask = np.array([[1, 0, 0, 1, 0], [0, 0, 0, 0, 0], [1, 1, 0, 1, 0]], bool)
    with np.errstate(all="ignore"):
        return my.masked_softmax(rng.standard_normal((2, 2, 3, 5)), mask)


@masked.check("no warning for a row without an allowed key")
def _(my, rng):
    try:
        with np.errstate(all="raise", under="ignore"):
            my.masked_softmax(
                rng.standard_normal((2, 3)), np.array([[True, False, True], [False, False, False]])
            )
        return "no warning"
    except FloatingPointError as error:
        return str(error)


@masked.check("padding for each sentence: (B, 1, 1, m) against (B, H, n, m)")
def _(my, rng):
    mask = np.array([[1, 1, 1, 1], [1, 1, 0, 0]], bool)[:, None, None]
    return my.masked_softmax(rng.standard_normal((2, 3, 4, 4)), mask)


@masked.check("large scores: no overflow, and a masked one does not matter")
def _(my, rng):
    mask = np.array([[True, True, False], [True, False, False]])
    return my.masked_softmax(np.array([[-1e4, -1e4 + 1, 1e4], [-1e4, 0, 0]]), mask)


@masked.check("scores and mask are unchanged")
def _(my, rng):
    scores, mask = rng.standard_normal((3, 4)), np.tri(3, 4, 1, dtype=bool)
    p = my.masked_softmax(scores, mask)
    return {"the weights": p, "the scores after the call": scores, "the mask after the call": mask}


@masked.check("NaN and inf where masked")
def _(my, rng):
    return my.masked_softmax(np.array([[1.0, np.nan, 2.0, np.inf]]), np.array([[True, False, True, False]]))


masked.wrong(
    "A row that is masked completely gives NaN: its maximum is -inf, and -inf - -inf is NaN. Replace that "
    "maximum by 0.",
    "np.where(top == -np.inf, 0, top)", "top",
)  # fmt: skip
masked.wrong(
    "A row that is masked completely gives 0/0. Divide by 1 where the total is 0.",
    "np.where(total == 0, 1, total)", "total",
)  # fmt: skip
masked.wrong(
    "A large negative number is not -inf: a row that is masked completely becomes uniform over masked keys.",
    body=(
        "s = np.where(mask, scores, -1e30)\n"
        "e = np.exp(s - s.max(axis=-1, keepdims=True))\n"
        "return e / e.sum(axis=-1, keepdims=True)"
    ),
)
masked.wrong(
    "The mask comes after the softmax. The denominator still includes masked keys, so rows do not sum to 1, "
    "and masked scores leak through the sum. Mask the scores.",
    body=(
        "e = np.exp(scores - scores.max(axis=-1, keepdims=True))\n"
        "return np.where(mask, e / e.sum(axis=-1, keepdims=True), 0)"
    ),
)
masked.wrong(
    "The mask is inverted: True means may attend.",
    "np.where(mask, scores, -np.inf)", "np.where(mask, -np.inf, scores)",
)  # fmt: skip
masked.wrong(
    "Masked scores are set to 0, but e to the 0 is 1, not 0. Set them to -inf.",
    "np.where(mask, scores, -np.inf)", "np.where(mask, scores, 0)",
)  # fmt: skip
masked.wrong(
    "The maximum is not subtracted, or only that of the masked scores: large scores overflow, and very "
    "negative ones all become 0.",
    "np.exp(s - np.where(top == -np.inf, 0, top))", "np.exp(s)",
)  # fmt: skip
masked.wrong(
    "The maximum includes masked scores. A huge masked score then makes all weights 0, and a NaN spoils "
    "them. Take the maximum after masking.",
    "s.max(axis=-1, keepdims=True)", "scores.max(axis=-1, keepdims=True)",
)  # fmt: skip
masked.wrong(
    "The weights are right, but you wrote -inf into the caller's scores. np.where makes a new array.",
    "s = np.where(mask, scores, -np.inf)", "np.copyto(scores, -np.inf, where=~mask)\n    s = scores",
)  # fmt: skip
masked.wrong(
    "keepdims=True is missing in the sum: it has one axis less than the scores, and broadcasts along the "
    "wrong one.",
    "e.sum(axis=-1, keepdims=True)", "e.sum(axis=-1)",
)  # fmt: skip


# ---------------------------------------------------------------- masked_attention

attention = lesson.exercise(
    "masked_attention",
    hints=(
        "Your masked_softmax gives a weight of exactly 0 to hidden keys. What is 0 times NaN?",
        "Before the last product replace by 0 the values that no query may see. For these the mask has no "
        "True along the axis of queries.",
        "seen = mask.any(axis=-2)[..., None];  v = np.where(seen, v, 0);  then masked_softmax(scores, mask) "
        "@ v",
    ),
    why="Padding may hold anything, and nothing of it may reach a real output.",
)


@attention.check("causal, three tokens")
def _(my, rng):
    return my.masked_attention(*rng.standard_normal((3, 3, 3)), np.tri(3, dtype=bool))


@attention.check("2 sentences, 3 heads, 4 queries, 5 keys, padding")
def _(my, rng):
    q, k, v = (rng.standard_normal((2, 3, *s)) for s in ((4, 6), (5, 6), (5, 2)))
    return my.masked_attention(q, k, v, np.array([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0]], bool)[:, None, None])


@attention.check("a query that sees nothing")
def _(my, rng):
    mask = np.array([[1, 0, 0, 1, 0], [0, 0, 0, 0, 0], [1, 1, 0, 1, 0]], bool)
    return my.masked_attention(*(rng.standard_normal(s) for s in ((2, 3, 4), (2, 5, 4), (2, 5, 2))), mask)


@attention.check("NaN in a value that every query sees is not hidden")
def _(my, rng):
    q, k, v = rng.standard_normal((3, 3, 4))
    v[2, 1] = np.nan
    return my.masked_attention(q, k, v, np.ones((3, 3), bool))


@attention.check("NaN in a key and a value that no query sees")
def _(my, rng):
    q, k, v = rng.standard_normal((3, 2, 4, 4))
    k[1, 2:] = v[1, 2:] = np.nan
    out = my.masked_attention(q, k, v, np.array([[1, 1, 1, 1], [1, 1, 0, 0]], bool)[:, None])
    return {"the output": out, "q after the call": q, "k after the call": k, "v after the call": v}


attention.wrong(
    "NaN from values that no query may see reaches the output: 0 times NaN is NaN. Replace these values by 0 "
    "before the product.",
    "np.where(mask.any(axis=-2)[..., None], v, 0)", "v",
)  # fmt: skip
attention.wrong("The scores are not divided by sqrt(d_k).", " / np.sqrt(q.shape[-1])", "")
attention.wrong(
    "The mask is not used in the softmax: hidden keys still get weight.",
    "mask) @ v", "np.ones_like(mask)) @ v",
)  # fmt: skip
attention.wrong(
    "You replaced the values that *some* query does not see. A value that at least one query sees must stay: "
    "any, not all.",
    "mask.any(axis=-2)", "mask.all(axis=-2)",
)  # fmt: skip
attention.wrong(
    "any runs along the wrong axis of the mask: over the keys it says which queries see something. Use the "
    "axis of queries, -2.",
    "mask.any(axis=-2)[..., None]", "mask.any(axis=-1)[..., None]",
)  # fmt: skip
attention.wrong(
    "The scores are multiplied by the mask: a hidden key then has score 0, and e to the 0 is 1. Pass the "
    "mask to masked_softmax.",
    "np.sqrt(q.shape[-1]), mask)", "np.sqrt(q.shape[-1]) * mask, np.ones_like(mask))",
)  # fmt: skip
attention.wrong(
    "The output is right, but you wrote into an argument: the caller's values lost their NaN. np.where makes "
    "a new array.",
    "v = np.where(mask.any(axis=-2)[..., None], v, 0)",
    "np.copyto(v, 0, where=~mask.any(axis=-2)[..., None])",
)
attention.wrong(
    "You return the weights as well. Return the output alone.",
    "return masked_softmax(q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1]), mask) @ v",
    "p = masked_softmax(q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1]), mask)\n    return p @ v, p",
)
attention.wrong(
    "You replaced every NaN in v and in the scores. Replace only what no query sees: a NaN that a query sees "
    "should show.",
    body=(
        "v = np.nan_to_num(v)\n"
        "return masked_softmax(np.nan_to_num(q @ k.swapaxes(-1, -2)) / np.sqrt(q.shape[-1]), mask) @ v"
    ),
)


# ---------------------------------------------------------------- masked_attention_backward

backward = lesson.exercise(
    "masked_attention_backward",
    hints=(
        "Where is the mask in the formula ds = p (dp - sum of p dp)?",
        "Only in p. So use the backward pass of lesson 08 with masked_softmax, and set keys and values that "
        "no query sees to 0 before all products.",
        "k, v = np.where(seen, k, 0), np.where(seen, v, 0); p = masked_softmax(...); then the four lines of "
        "lesson 08.",
    ),
    why=(
        "A gradient of exactly 0 for every hidden key: this is the second proof that a model does not look "
        "ahead."
    ),
)

SHAPES = ((2, 3, 4), (2, 5, 4), (2, 5, 2))


@backward.gradcheck(
    forward="masked_attention",
    inputs=lambda rng: [*(rng.standard_normal(s) for s in SHAPES), np.tri(3, 5, 1, dtype=bool)],
)
def _(my, g, q, k, v, mask):
    return my.masked_attention_backward(g, q, k, v, mask)


@backward.gradcheck(
    forward="masked_attention",
    inputs=lambda rng: [*(rng.standard_normal(s) for s in SHAPES), ROW_2_SEES_NOTHING],
    title="a query that sees nothing, against finite differences",
)
def _(my, g, q, k, v, mask):
    return my.masked_attention_backward(g, q, k, v, mask)


@backward.check("NaN in a key and a value that no query sees")
def _(my, rng):
    g, q, k, v = rng.standard_normal((4, 2, 4, 4))
    k[1, 2:] = v[1, 2:] = np.nan
    grads = my.masked_attention_backward(g, q, k, v, np.array([[1, 1, 1, 1], [1, 1, 0, 0]], bool)[:, None])
    return dict(zip(("dq", "dk", "dv"), grads, strict=False))


@backward.check("padding for each sentence, with heads")
def _(my, rng):
    g, q, k, v = (rng.standard_normal((2, 3, *s)) for s in ((4, 2), (4, 6), (5, 6), (5, 2)))
    grads = my.masked_attention_backward(
        g, q, k, v, np.array([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0]], bool)[:, None, None]
    )
    return dict(zip(("dq", "dk", "dv"), grads, strict=False))


backward.wrong(
    "NaN from values that no query may see reaches the gradients: dp = g @ vT is NaN there, and 0 times NaN "
    "is NaN.",
    "np.where(seen, v, 0)", "v",
)  # fmt: skip
backward.wrong(
    "NaN from keys that no query may see reaches dq = ds @ k: a ds of 0 times NaN is NaN.",
    "np.where(seen, k, 0)", "k",
)  # fmt: skip
backward.wrong(
    "The backward pass has no mask: it weights all keys. Use masked_softmax with the mask.",
    "k.swapaxes(-1, -2), mask)", "k.swapaxes(-1, -2), np.ones_like(mask))",
)  # fmt: skip
backward.wrong(
    "dq and dk lack the scale 1/sqrt(d_k) of the scores.",
    "return scale * ds @ k, scale * ds.swapaxes(-1, -2) @ q", "return ds @ k, ds.swapaxes(-1, -2) @ q",
)  # fmt: skip
backward.wrong(
    "The softmax's second term is missing: raising one weight lowers the others.",
    "p * (dp - (p * dp).sum(axis=-1, keepdims=True))", "p * dp",
)  # fmt: skip
backward.wrong(
    "The sum in the softmax's backward is over dp alone. It must be the weighted sum, of p * dp.",
    "(p * dp).sum(axis=-1, keepdims=True)", "dp.sum(axis=-1, keepdims=True)",
)  # fmt: skip
backward.wrong(
    "dq has the scale 1/sqrt(d_k), dk lacks it. The scores were scaled, so both get it.",
    "scale * ds.swapaxes(-1, -2) @ q", "ds.swapaxes(-1, -2) @ q",
)  # fmt: skip
backward.wrong(
    "dk has the scale 1/sqrt(d_k), dq lacks it. The scores were scaled, so both get it.",
    "return scale * ds @ k", "return ds @ k",
)  # fmt: skip
backward.wrong(
    "dq and dk are in the wrong order. Return (dq, dk, dv).",
    "return scale * ds @ k, scale * ds.swapaxes(-1, -2) @ q,",
    "return scale * ds.swapaxes(-1, -2) @ q, scale * ds @ k,",
)
backward.wrong(
    "keepdims=True is missing in the softmax's backward: the sum of p dp lacks the axis of keys, and "
    "broadcasts along the wrong one.",
    "(p * dp).sum(axis=-1, keepdims=True)", "(p * dp).sum(axis=-1)",
)  # fmt: skip


# ---------------------------------------------------------------- influence

influence = lesson.exercise(
    "influence",
    hints=(
        "If you change row j of x and run the model again, which column of the result do you learn?",
        "Loop over j: copy x, replace row j by another row, run the model, and find the rows of the output "
        "in which any element differs from before.",
        "found[:, j] = (model(changed) != before).any(axis=1), where changed is x.copy() with row j replaced "
        "by random numbers",
    ),
    why=(
        "Run this on any model you write, and no leak can hide: it finds off-by-one masks whose loss looks "
        "wonderful."
    ),
)


@influence.check("a causal mean, one that sees one row ahead, and each row by itself")
def _(my, rng):
    x = rng.uniform(-2, 2, (5, 3))
    causal = np.tri(5) / np.arange(1, 6)[:, None]
    ahead = np.tri(5, k=1)
    models = {"a causal mean": causal, "sees one row ahead": ahead, "each row by itself": np.eye(5)}
    return {name: my.influence(lambda x, m=m: m @ x, x) for name, m in models.items()}


@influence.check("a single row sees ahead, at one column of the input")
def _(my, rng):
    def model(x):
        y = np.cumsum(x, axis=0)[:, :1].repeat(4, axis=1)
        y[1, 2] += x[3, 2]
        return y

    return my.influence(model, rng.uniform(-2, 2, (5, 3)))


@influence.check("most of the output is constant")
def _(my, rng):
    return my.influence(
        lambda x: np.concatenate([np.tri(4) @ x[:, :1], np.ones((4, 2))], axis=1), rng.uniform(-2, 2, (4, 3))
    )


@influence.check("a model with a layer norm")
def _(my, rng):
    def model(x):
        normed = (x - x.mean(axis=-1, keepdims=True)) / (x.std(axis=-1, keepdims=True) + 1e-5)
        return np.tri(4) @ normed

    return my.influence(model, rng.uniform(-2, 2, (4, 3)))


@influence.check("a weak leak counts too")
def _(my, rng):
    return my.influence(lambda x: np.tri(4) @ x + 1e-9 * np.roll(x, -1, axis=0), rng.uniform(-2, 2, (4, 3)))


@influence.check("x is unchanged")
def _(my, rng):
    x = rng.uniform(-2, 2, (4, 3))
    my.influence(lambda x: np.tri(4) @ x, x)
    return x


influence.wrong(
    "You changed x itself, so changes add up, and the caller's array is overwritten. Change a copy for each "
    "j.",
    "x.copy()", "x",
)  # fmt: skip
influence.wrong(
    "Rows and columns are exchanged: changing input j gives column j, and output i is row i.",
    "found[:, j] =", "found[j] =",
)  # fmt: skip
influence.wrong(
    "Adding a constant to a row does not change the output of a layer norm, which subtracts the mean. "
    "Replace the row by another one.",
    "changed[j] = np.random.default_rng([2026, j]).standard_normal(x.shape[1])", "changed[j] += 1.0",
)  # fmt: skip
influence.wrong(
    "You compare with a tolerance, so weak leaks are missed. A model that does not look ahead changes by "
    "exactly nothing.",
    "(model(changed) != before).any(axis=1)", "(abs(model(changed) - before) > 1e-6).any(axis=1)",
)  # fmt: skip
influence.wrong(
    "You count a row only if all of its elements change. One is enough: any.",
    "(model(changed) != before).any(axis=1)", "(model(changed) != before).all(axis=1)",
)  # fmt: skip
influence.wrong(
    "You changed only the first column of the row, so a dependence on another column is missed. Change the "
    "whole row.",
    "changed[j] = np.random.default_rng([2026, j]).standard_normal(x.shape[1])", "changed[j, 0] += 1.0",
)  # fmt: skip
