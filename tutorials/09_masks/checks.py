"""Checks of lesson 09."""

import numpy as np

from tutorials.course import Checks

lesson = Checks()

# and keys 2 and 4 are seen by nobody
ROW_2_SEES_NOTHING = np.array([[1, 0, 0, 1, 0], [0, 0, 0, 0, 0], [1, 1, 0, 1, 0]], bool)


# ---------------------------------------------------------------- causal_mask

causal = lesson.exercise(
    "causal_mask",
    hints=(
        "With 2 queries and 5 keys, which keys does the first query see? Write the ten entries down.",
        "It is np.tri, whose third argument moves the diagonal. By how much, so that the last row is all True?",
        "np.tri(queries, keys, keys - ..., dtype=bool)",
    ),
    why="With this mask a model learns from all places of a text at once, and still never sees the word that it is to predict.",
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


@causal.check("it holds booleans")
def _(my, rng):
    return str(my.causal_mask(3, 4).dtype)


causal.wrong(
    "The diagonal begins in the top left corner. With more keys than queries the newest token must see them all: move it by keys - queries.",
    "queries, keys, keys - queries", "queries, keys",
)  # fmt: skip
causal.wrong(
    "Each query sees one key too many: the very token that it is to predict.", "keys - queries,", "keys - queries + 1,",
)  # fmt: skip
causal.wrong(
    "A query does not see its own key. It may: its own token is known, it is the next one that is to be predicted.",
    "keys - queries,", "keys - queries - 1,",
)  # fmt: skip
causal.wrong(
    "This is True where something is hidden, as in PyTorch's modules. Here True means: may attend.",
    "return np.tri", "return ~np.tri",
)  # fmt: skip
causal.wrong("These are numbers, not booleans: `&`, `~` and np.where need dtype=bool.", ", dtype=bool", "")
causal.wrong(
    "The triangle is the upper one: each query sees itself and the future. Turn it round.",
    body="return np.triu(np.ones((queries, keys), bool), keys - queries)",
)


# ---------------------------------------------------------------- padding_mask

padding = lesson.exercise(
    "padding_mask",
    hints=(
        "The scores are (B, H, n, m). Which of these axes does padding belong to, and which does it not care about?",
        "Compare the tokens with pad, and put two axes of length 1 between B and T, for heads and queries.",
        "(tokens != pad)[:, None, None, :]",
    ),
    why="Without it, what a sentence means depends on the longest sentence that happens to be in its batch.",
)


@padding.check("three sentences of different length")
def _(my, rng):
    return my.padding_mask(np.array([[5, 3, 1, 2], [4, 1, 0, 0], [7, 0, 0, 0]]), 0)


@padding.check("pad is another number than 0")
def _(my, rng):
    return my.padding_mask(np.array([[0, 3, 9], [9, 9, 9]]), 9)


@padding.check("it broadcasts over heads and queries: which keys are seen")
def _(my, rng):
    tokens = rng.integers(3, size=(4, 4))
    return np.broadcast_to(my.padding_mask(tokens, 0), (4, 2, 4, 4)).copy()


padding.wrong(
    "True stands at the padding. It should stand at the real tokens: True means may attend.",
    "tokens != pad",
    "tokens == pad",
)
padding.wrong(
    "The shape is (B, T). Beside scores (B, H, n, m) that is read as (queries, keys), without an error when B equals T. Put two axes "
    "of length 1 in the middle.",
    "[:, None, None, :]", "",
)  # fmt: skip
padding.wrong(
    "The tokens lie along the axis of queries. It is the keys that are hidden, so T is the last axis.",
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
        "For each of the two attentions: whose keys are looked at? What about them must be hidden?",
        "Self-attention looks at the target: no future and no target padding. Cross-attention looks at the source: no source padding.",
        "causal_mask(Tt, Tt) & padding_mask(tgt, pad), and padding_mask(src, pad)",
    ),
    why="This is the whole of the masks of an encoder-decoder, and the most frequent question about it: which mask masks what.",
)


@decoder.check("two pairs, source longer than target")
def _(my, rng):
    masks = my.decoder_masks(
        np.array([[5, 3, 1, 2, 6], [4, 1, 0, 0, 0]]), np.array([[1, 7, 8], [1, 9, 0]]), 0
    )
    return dict(zip(("self_mask", "cross_mask"), masks, strict=False))


@decoder.check("source and target of one length: the wrong one would fit")
def _(my, rng):
    masks = my.decoder_masks(np.array([[5, 3, 1, 0]]), np.array([[1, 9, 0, 0]]), 0)
    return dict(zip(("self_mask", "cross_mask"), masks, strict=False))


@decoder.check("pad is 2, and 0 a token like others")
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
    "In self-attention target padding is not hidden: causal alone is not enough.",
    "causal_mask(length, length) & padding_mask(tgt, pad)",
    "causal_mask(length, length)",
)  # fmt: skip
decoder.wrong(
    "Self-attention may look ahead: the causal part is missing.",
    "causal_mask(length, length) & padding_mask(tgt, pad)",
    "np.ones((length, length), bool) & padding_mask(tgt, pad)",
)  # fmt: skip
decoder.wrong(
    "Combined with `|`, a key is visible if either mask allows it. Both must: `&`.",
    "causal_mask(length, length) &", "causal_mask(length, length) |",
)  # fmt: skip
decoder.wrong(
    "Cross-attention is causal here. The whole source is known before the first target word is written, so nothing of it is future.",
    "& padding_mask(tgt, pad), padding_mask(src, pad)",
    "& padding_mask(tgt, pad), np.tri(length, src.shape[1], dtype=bool) & padding_mask(src, pad)",
)  # fmt: skip


# ---------------------------------------------------------------- masked_softmax

masked = lesson.exercise(
    "masked_softmax",
    hints=(
        "If you put -inf where the mask is False, what are the maximum and the sum of a row that is masked throughout?",
        "The maximum is -inf and the sum 0. Put 0 in place of that maximum, and 1 in place of that sum, and the row becomes 0 / 1.",
        "s = np.where(mask, scores, -np.inf); top = s.max(...); e = np.exp(s - np.where(top == -np.inf, 0, top)); divide by total, or 1.",
    ),
    why="One empty row of NaN spoils every weight of a model at the next update; this is the softmax that cannot.",
)


@masked.check("the lesson's example: causal")
def _(my, rng):
    return my.masked_softmax(np.array([[1, 1.5, 1.5], [1.5, 0, 2.5], [0.5, 2, 1.5]]), np.tri(3, dtype=bool))


@masked.check("a batch with heads, one row that may look at nothing")
def _(my, rng):
    mask = np.array([[1, 0, 0, 1, 0], [0, 0, 0, 0, 0], [1, 1, 0, 1, 0]], bool)
    with np.errstate(all="ignore"):
        return my.masked_softmax(rng.standard_normal((2, 2, 3, 5)), mask)


@masked.check("no warning where a row may look at nothing")
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


@masked.check("scores and mask are left as they were")
def _(my, rng):
    scores, mask = rng.standard_normal((3, 4)), np.tri(3, 4, 1, dtype=bool)
    p = my.masked_softmax(scores, mask)
    return {"the weights": p, "the scores after the call": scores, "the mask after the call": mask}


@masked.check("NaN and inf where masked")
def _(my, rng):
    return my.masked_softmax(np.array([[1.0, np.nan, 2.0, np.inf]]), np.array([[True, False, True, False]]))


masked.wrong(
    "A row that is masked throughout gives NaN: its maximum is -inf, and -inf - -inf is NaN. Put 0 in place of that maximum.",
    "np.where(top == -np.inf, 0, top)", "top",
)  # fmt: skip
masked.wrong(
    "A row that is masked throughout gives 0/0. Divide by 1 where the total is 0.", "np.where(total == 0, 1, total)", "total",
)  # fmt: skip
masked.wrong(
    "A large negative number is not -inf: a row masked throughout becomes uniform over keys that it may not see.",
    body="s = np.where(mask, scores, -1e30)\ne = np.exp(s - s.max(axis=-1, keepdims=True))\nreturn e / e.sum(axis=-1, keepdims=True)",
)
masked.wrong(
    "The mask comes after the softmax. The denominator still counts masked keys, so rows do not sum to 1, and what is masked leaks "
    "through the sum. Mask the scores.",
    body="e = np.exp(scores - scores.max(axis=-1, keepdims=True))\nreturn np.where(mask, e / e.sum(axis=-1, keepdims=True), 0)",
)
masked.wrong(
    "The mask is used the wrong way round: True means may attend.", "np.where(mask, scores, -np.inf)", "np.where(mask, -np.inf, scores)",
)  # fmt: skip
masked.wrong(
    "Masked scores are set to 0, but e to the 0 is 1, not 0. They have to become -inf.", "np.where(mask, scores, -np.inf)", "np.where(mask, scores, 0)",
)  # fmt: skip
masked.wrong(
    "The maximum is not taken off (or only of the masked scores): large scores overflow, and very negative ones all become 0.",
    "np.exp(s - np.where(top == -np.inf, 0, top))", "np.exp(s)",
)  # fmt: skip
masked.wrong(
    "The maximum is that of all scores, masked ones too. A huge masked score then presses all others to 0, and a NaN spoils them. "
    "Take it after masking.",
    "s.max(axis=-1, keepdims=True)", "scores.max(axis=-1, keepdims=True)",
)  # fmt: skip
masked.wrong(
    "The weights are right, but you wrote -inf into the caller's scores. np.where makes a new array.",
    "s = np.where(mask, scores, -np.inf)", "np.copyto(scores, -np.inf, where=~mask)\n    s = scores",
)  # fmt: skip
masked.wrong(
    "keepdims=True is missing in the sum: it has one axis less than the scores, and is spread over the wrong one.",
    "e.sum(axis=-1, keepdims=True)", "e.sum(axis=-1)",
)  # fmt: skip


# ---------------------------------------------------------------- masked_attention

attention = lesson.exercise(
    "masked_attention",
    hints=(
        "Your masked_softmax gives a weight of exactly 0 to hidden keys. What is 0 times NaN?",
        "Before the last product replace by 0 the values that no query may see: those for which the mask has no True along the axis of "
        "queries.",
        "seen = mask.any(axis=-2)[..., None];  v = np.where(seen, v, 0);  then masked_softmax(scores, mask) @ v",
    ),
    why="Padding may hold anything, and what it holds must not be able to reach a single real output.",
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


@attention.check("NaN in a value that everybody sees is not hidden")
def _(my, rng):
    q, k, v = rng.standard_normal((3, 3, 4))
    v[2, 1] = np.nan
    return my.masked_attention(q, k, v, np.ones((3, 3), bool))


@attention.check("NaN in a key and a value that nobody sees")
def _(my, rng):
    q, k, v = rng.standard_normal((3, 2, 4, 4))
    k[1, 2:] = v[1, 2:] = np.nan
    out = my.masked_attention(q, k, v, np.array([[1, 1, 1, 1], [1, 1, 0, 0]], bool)[:, None])
    return {"the output": out, "q after the call": q, "k after the call": k, "v after the call": v}


attention.wrong(
    "NaN comes through from values that nobody may see: 0 times NaN is NaN. Replace these values by 0 before the product.",
    "np.where(mask.any(axis=-2)[..., None], v, 0)", "v",
)  # fmt: skip
attention.wrong("The scores are not divided by sqrt(d_k).", " / np.sqrt(q.shape[-1])", "")
attention.wrong(
    "The mask is not used in the softmax: hidden keys are still weighed.",
    "mask) @ v", "np.ones_like(mask)) @ v",
)  # fmt: skip
attention.wrong(
    "You replaced the values that are not seen by *every* query. A value that one query sees must stay: any, not all.",
    "mask.any(axis=-2)", "mask.all(axis=-2)",
)  # fmt: skip
attention.wrong(
    "You looked along the wrong axis of the mask: any over the keys says which queries see something. Go over the queries, axis -2.",
    "mask.any(axis=-2)[..., None]", "mask.any(axis=-1)[..., None]",
)  # fmt: skip
attention.wrong(
    "The scores are multiplied by the mask: a hidden key then scores 0, and e to the 0 is 1. Hand the mask to masked_softmax.",
    "np.sqrt(q.shape[-1]), mask)", "np.sqrt(q.shape[-1]) * mask, np.ones_like(mask))",
)  # fmt: skip
attention.wrong(
    "The output is right, but you wrote into an argument: the NaN of the caller's values are gone. np.where makes a new array.",
    "v = np.where(mask.any(axis=-2)[..., None], v, 0)", "np.copyto(v, 0, where=~mask.any(axis=-2)[..., None])",
)  # fmt: skip
attention.wrong(
    "You return the weights as well. Here the output alone is asked for.",
    "return masked_softmax(q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1]), mask) @ v",
    "p = masked_softmax(q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1]), mask)\n    return p @ v, p",
)
attention.wrong(
    "All NaN were replaced, wherever they stood in v and in the scores. Only what is hidden may be: a NaN that is seen should show.",
    body="v = np.nan_to_num(v)\nreturn masked_softmax(np.nan_to_num(q @ k.swapaxes(-1, -2)) / np.sqrt(q.shape[-1]), mask) @ v",
)


# ---------------------------------------------------------------- masked_attention_backward

backward = lesson.exercise(
    "masked_attention_backward",
    hints=(
        "Where does the mask stand in the formula ds = p (dp - sum of p dp)?",
        "Only in p. So take lesson 08's backward with masked_softmax, and set keys and values that nobody sees to 0 before all products.",
        "k, v = np.where(seen, k, 0), np.where(seen, v, 0); p = masked_softmax(...); then the four lines of lesson 08.",
    ),
    why="Gradients of exactly 0 for what is hidden: that is the second proof that a model does not look ahead.",
)

SHAPES = ((2, 3, 4), (2, 5, 4), (2, 5, 2))


@backward.gradcheck(
    forward="masked_attention", inputs=lambda rng: [*(rng.standard_normal(s) for s in SHAPES), np.tri(3, 5, 1, dtype=bool)],
)  # fmt: skip
def _(my, g, q, k, v, mask):
    return my.masked_attention_backward(g, q, k, v, mask)


@backward.gradcheck(
    forward="masked_attention", inputs=lambda rng: [*(rng.standard_normal(s) for s in SHAPES), ROW_2_SEES_NOTHING],
    title="a query that sees nothing, against finite differences",
)  # fmt: skip
def _(my, g, q, k, v, mask):
    return my.masked_attention_backward(g, q, k, v, mask)


@backward.check("NaN in a key and a value that nobody sees")
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
    "NaN comes through from values that nobody may see: dp = g @ vT is NaN there, and 0 times NaN is NaN.",
    "np.where(seen, v, 0)", "v",
)  # fmt: skip
backward.wrong(
    "NaN comes through from keys that nobody may see: in dq = ds @ k a ds of 0 meets a NaN.", "np.where(seen, k, 0)", "k",
)  # fmt: skip
backward.wrong(
    "The backward forgot the mask: its weights are those of all keys. Use masked_softmax with the mask.",
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
    "The sum in the softmax's backward runs over dp alone. It is the weighted sum, of p * dp.",
    "(p * dp).sum(axis=-1, keepdims=True)", "dp.sum(axis=-1, keepdims=True)",
)  # fmt: skip
backward.wrong(
    "dq has the scale 1/sqrt(d_k), dk lacks it. The scores were scaled, so both get it.",
    "scale * ds.swapaxes(-1, -2) @ q", "ds.swapaxes(-1, -2) @ q",
)  # fmt: skip
backward.wrong(
    "dk has the scale 1/sqrt(d_k), dq lacks it. The scores were scaled, so both get it.", "return scale * ds @ k", "return ds @ k",
)  # fmt: skip
backward.wrong(
    "dq and dk come out in the wrong order. Return (dq, dk, dv).",
    "return scale * ds @ k, scale * ds.swapaxes(-1, -2) @ q,", "return scale * ds.swapaxes(-1, -2) @ q, scale * ds @ k,",
)  # fmt: skip
backward.wrong(
    "keepdims=True is missing in the softmax's backward: the sum of p dp has lost the axis of keys, and is spread over the wrong one.",
    "(p * dp).sum(axis=-1, keepdims=True)", "(p * dp).sum(axis=-1)",
)  # fmt: skip


# ---------------------------------------------------------------- influence

influence = lesson.exercise(
    "influence",
    hints=(
        "If you change row j of x and run the model again, which column of the answer have you found?",
        "Loop over j: copy x, put other numbers into row j, run the model, and see in which rows anything differs from before.",
        "found[:, j] = (model(changed) != before).any(axis=1), where changed is x.copy() with row j replaced by random numbers",
    ),
    why="Run this on any model you write, and a leak cannot hide: it has caught off-by-one masks that looked like a wonderful loss.",
)


@influence.check("a causal mean, a look one ahead, and each row by itself")
def _(my, rng):
    x = rng.uniform(-2, 2, (5, 3))
    causal = np.tri(5) / np.arange(1, 6)[:, None]
    ahead = np.tri(5, k=1)
    models = {"a causal mean": causal, "a look one ahead": ahead, "each row by itself": np.eye(5)}
    return {name: my.influence(lambda x, m=m: m @ x, x) for name, m in models.items()}


@influence.check("only one row of all looks ahead, at one column of the input")
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


@influence.check("x is left as it was")
def _(my, rng):
    x = rng.uniform(-2, 2, (4, 3))
    my.influence(lambda x: np.tri(4) @ x, x)
    return x


influence.wrong(
    "You changed x itself, so changes pile up, and the caller's array is spoiled. Change a copy for each j.", "x.copy()", "x",
)  # fmt: skip
influence.wrong(
    "Rows and columns are exchanged: changing input j tells about column j, output i is the row.",
    "found[:, j] =", "found[j] =",
)  # fmt: skip
influence.wrong(
    "Adding a constant to a row goes unnoticed by a layer norm, which takes the mean off. Put other numbers there.",
    "changed[j] = np.random.default_rng([2026, j]).standard_normal(x.shape[1])", "changed[j] += 1.0",
)  # fmt: skip
influence.wrong(
    "You compare with a tolerance, so weak leaks are missed. A model that does not look ahead changes by exactly nothing.",
    "(model(changed) != before).any(axis=1)", "(abs(model(changed) - before) > 1e-6).any(axis=1)",
)  # fmt: skip
influence.wrong(
    "A row counts only if all of its entries change. One is enough: any.",
    "(model(changed) != before).any(axis=1)", "(model(changed) != before).all(axis=1)",
)  # fmt: skip
influence.wrong(
    "Only the first column of the row was changed: what depends on another is missed. Change the whole row.",
    "changed[j] = np.random.default_rng([2026, j]).standard_normal(x.shape[1])", "changed[j, 0] += 1.0",
)  # fmt: skip
