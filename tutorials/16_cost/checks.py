"""Checks of lesson 16."""

import numpy as np

from tutorials.course import Checks

lesson = Checks()

# ---------------------------------------------------------------- counting

attention_flops = lesson.exercise(
    "attention_flops",
    hints=(
        "What are the shapes of the two matrices in each product? There are four products with weights, and "
        "two for each head.",
        "(m, k) @ (k, n) costs 2 m k n. A projection is (n, d_model) @ (d_model, d_model); the scores of "
        "one head are "
        "(n, d_head) @ (d_head, n), and what it gathers (n, n) @ (n, d_head).",
        "projections = 4 * (2 * n * d_model * d_model); attending = num_heads * (the scores of one head + "
        "what it gathers)",
    ),
    why="Now you can compute which part of a model takes the most time, and from which length on that "
    "changes.",
)


@attention_flops.check("the worked example: n = 4, d_model = 6, 2 heads")
def _(my, rng):
    return my.attention_flops(4, 6, 2)


@attention_flops.check("1,000 tokens, d_model = 512")
def _(my, rng):
    return my.attention_flops(1000, 512, 8)


@attention_flops.check("one token, one head")
def _(my, rng):
    return my.attention_flops(1, 10, 1)


attention_flops.wrong(
    "You counted multiplications. In a matrix product each is followed by an addition, so (m, k) @ (k, n) "
    "costs 2 m k n.",
    body="return 4 * n * d_model * d_model, 2 * n * n * d_model",
)
attention_flops.wrong(
    "That is the attending of one head. All num_heads of them attend.",
    "num_heads * (2 * n * d_head * n + 2 * n * n * d_head)",
    "2 * n * d_head * n + 2 * n * n * d_head",
)
attention_flops.wrong(
    "There are four projections: queries, keys, values and the output. You forgot one.",
    "4 * (2 * n * d_model * d_model)",
    "3 * (2 * n * d_model * d_model)",
)
attention_flops.wrong(
    "The weights are multiplied with the values too: that is a second product of n x n x d_head for each "
    "head.",
    "(2 * n * d_head * n + 2 * n * n * d_head)",
    "(2 * n * d_head * n)",
)
attention_flops.wrong(
    "Each head is d_model // num_heads wide, not d_model: all heads together attend as much as one wide one.",
    "d_head = d_model // num_heads",
    "d_head = d_model",
)

attention_bytes = lesson.exercise(
    "attention_bytes",
    hints=(
        "What is the shape of the attention weights of a whole batch? And of its keys?",
        "Weights are (batch, num_heads, n, n), keys and values (batch, num_heads, n, d_head) each; multiply "
        "by the bytes "
        "of a number.",
        "weights = batch * num_heads * n * n * itemsize; the cache has n * d_head in place of n * n, and "
        "holds two such arrays",
    ),
    why="The weights grow with the square of the length, the cache with the length. So long texts need "
    "attention in blocks, and a KV cache can keep all keys and values.",
)


@attention_bytes.check("question 1: 1,000 tokens, 8 heads, d_model 512, one sequence")
def _(my, rng):
    return my.attention_bytes(1, 8, 1000, 512)


@attention_bytes.check("a batch of 3, float64")
def _(my, rng):
    return my.attention_bytes(3, 2, 7, 10, itemsize=8)


@attention_bytes.check("a single token")
def _(my, rng):
    return my.attention_bytes(5, 4, 1, 12)


attention_bytes.wrong(
    "Every head has its own table of weights, so their number counts here.",
    "weights = batch * num_heads * n * n * itemsize",
    "weights = batch * n * n * itemsize",
)
attention_bytes.wrong(
    "The cache holds keys and values: two arrays of that shape.", "cache = 2 * batch", "cache = batch"
)
attention_bytes.wrong(
    "You counted numbers. Return bytes, itemsize for each number.",
    body="return batch * num_heads * n * n, 2 * batch * n * d_model",
)
attention_bytes.wrong(
    "A head is d_model // num_heads wide. All heads together hold d_model numbers for each token, not "
    "num_heads times as many.",
    "d_head = d_model // num_heads",
    "d_head = d_model",
)
attention_bytes.wrong(
    "Every query meets every key: a table of weights has n x n numbers.",
    "num_heads * n * n * itemsize",
    "num_heads * n * itemsize",
)

# ---------------------------------------------------------------- the online softmax

merge = lesson.exercise(
    "merge",
    hints=(
        "Each sum is relative to its own maximum. Relative to which number should the sum of both be?",
        "m is the larger of the two. exp(s - m) = exp(s - m1) exp(m1 - m): so the first sums shrink by "
        "exp(m1 - m), the "
        "second by "
        "exp(m2 - m). Where m is -inf, subtract 0 instead: -inf - -inf is NaN.",
        "m = np.maximum(m1, m2); shift = np.where(m == -np.inf, 0, m); c1 = np.exp(m1 - shift); t = c1 * t1 "
        "+ c2 * t2, "
        "and a alike",
    ),
    why="This is the whole of the online softmax. Because the grouping does not matter, blocks may be "
    "merged in a loop, "
    "in a tree, or by "
    "several processors.",
)


@merge.check("two blocks of a row make the state of the whole row")
def _(my, rng):
    s, v = rng.standard_normal((5, 7)), rng.standard_normal((7, 3))
    return my.merge(my.state_of_block(s[:, :4], v[:4]), my.state_of_block(s[:, 4:], v[4:]))


@merge.check("square: as many queries as values are wide")
def _(my, rng):
    s, v = rng.standard_normal((3, 6)) * 3, rng.standard_normal((6, 3))
    return my.merge(my.state_of_block(s[:, :3], v[:3]), my.state_of_block(s[:, 3:], v[3:]))


@merge.check("scores of 1e4 in the second block: no overflow, no warning")
def _(my, rng):
    s, v = rng.standard_normal((4, 6)), rng.standard_normal((6, 2))
    s[:, 3:] += np.array([1e4, -1e4, 800.0, -800.0])[:, None]
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        return my.merge(my.state_of_block(s[:, :3], v[:3]), my.state_of_block(s[:, 3:], v[3:]))


@merge.check("rows that see nothing in one block, or in both: no NaN, no warning")
def _(my, rng):
    s, v = rng.standard_normal((4, 6)), rng.standard_normal((6, 2))
    s[0, :3], s[1, 3:], s[2] = -np.inf, -np.inf, -np.inf
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        return my.merge(my.state_of_block(s[:, :3], v[:3]), my.state_of_block(s[:, 3:], v[3:]))


@merge.check("the states passed in are unchanged")
def _(my, rng):
    one = tuple(rng.random(shape) for shape in ((3,), (3,), (3, 2)))
    other = tuple(rng.random(shape) for shape in ((3,), (3,), (3, 2)))
    my.merge(one, other)
    return one, other


merge.wrong(
    "Each sum is relative to its own maximum, so they cannot be added as they are: bring both to the common "
    "maximum first.",
    "return m, c1 * t1 + c2 * t2, c1[:, None] * a1 + c2[:, None] * a2",
    "return m, t1 + t2, a1 + a2",
)
merge.wrong(
    "Where neither block has a key to look at, m is -inf and -inf - -inf is NaN. Subtract 0 instead of m "
    "there.",
    "shift = np.where(m == -np.inf, 0, m)",
    "shift = m",
)
merge.wrong(
    "You rescaled the sums t, but not the gathered values a: they were taken relative to the old maximum "
    "too.",
    "c1[:, None] * a1 + c2[:, None] * a2",
    "a1 + a2",
)
merge.wrong(
    "The factors are inverted: exp(m - m1) is above 1 and overflows, exp(m1 - m) is at most 1.",
    "c1, c2 = np.exp(m1 - shift), np.exp(m2 - shift)",
    "c1, c2 = np.exp(shift - m1), np.exp(shift - m2)",
)
merge.wrong(
    "Only the first state is rescaled. If its maximum is the larger one, it is the second that must shrink.",
    "c1, c2 = np.exp(m1 - shift), np.exp(m2 - shift)",
    "c1, c2 = np.exp(m1 - shift), np.ones_like(m2)",
)

# ---------------------------------------------------------------- attention in blocks

blockwise_attention = lesson.exercise(
    "blockwise_attention",
    hints=(
        "Write two loops, queries outside, keys inside. What must you keep between two blocks of keys?",
        "For each block of queries: the state of the first block of keys, merged with that of each further "
        "one. At the "
        "end y = a / t "
        "and the log-sum-exp is m + log t.",
        "new = state_of_block(q[rows] @ k[keys].T / np.sqrt(q.shape[1]), v[keys]); state = new if state is "
        "None else "
        "merge(state, new)",
    ),
    why="This is FlashAttention's forward pass: the same numbers as before, in memory that grows with the "
    "length instead "
    "of its square.",
)


@blockwise_attention.check("equals plain attention; blocks that do not divide the lengths")
def _(my, rng):
    q, k, v = rng.standard_normal((10, 4)), rng.standard_normal((13, 4)), rng.standard_normal((13, 3))
    return my.blockwise_attention(q, k, v, 4)


@blockwise_attention.check("blocks of 1, and one block for all")
def _(my, rng):
    q, k, v = (rng.standard_normal((5, 5)) for _ in range(3))
    return [my.blockwise_attention(q, k, v, block) for block in (1, 5, 100)]


@blockwise_attention.check("large scores: finite, without overflow")
def _(my, rng):
    q, k, v = (rng.standard_normal((6, 4)) for _ in range(3))
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        return my.blockwise_attention(1e3 * q, k, v, 2)


@blockwise_attention.check("never more than a block's scores at once: the largest array, in blocks' sizes")
def _(my, rng):
    largest = [0]

    class Watched(np.ndarray):
        def __array_finalize__(self, parent):
            largest[0] = max(largest[0], self.size)

    q, k, v = (rng.standard_normal((96, 2)).view(Watched) for _ in range(3))
    my.blockwise_attention(q, k, v, 16)
    return "larger than 4 blocks" if largest[0] > 4 * 16 * 16 else "small"


@blockwise_attention.check("q, k and v are unchanged")
def _(my, rng):
    q, k, v = (rng.standard_normal((4, 3)) for _ in range(3))
    my.blockwise_attention(q, k, v, 2)
    return q, k, v


blockwise_attention.wrong(
    "The scores must be divided by the root of the width, np.sqrt(q.shape[1]).", " / np.sqrt(q.shape[1])", ""
)
blockwise_attention.wrong(
    "That is the softmax of each block of keys by itself, added up. The sum in the denominator must run "
    "over all keys: "
    "merge the blocks, "
    "and divide at the end.",
    body="""
y, lse = np.zeros((len(q), v.shape[1])), np.full(len(q), -np.inf)
for i in range(0, len(q), block):
    rows = slice(i, i + block)
    for j in range(0, len(k), block):
        keys = slice(j, j + block)
        m, t, a = state_of_block(q[rows] @ k[keys].T / np.sqrt(q.shape[1]), v[keys])
        y[rows] += a / t[:, None]
        lse[rows] = np.logaddexp(lse[rows], m + np.log(t))
return y, lse
""",
)
blockwise_attention.wrong(
    "The answer is right, but you computed all scores at once: the table of len(q) x len(k) is what this "
    "function must "
    "not make.",
    body="""
m, t, a = state_of_block(q @ k.T / np.sqrt(q.shape[1]), v)
return a / t[:, None], m + np.log(t)
""",
)
blockwise_attention.wrong(
    "Each block of queries needs its own state. You continue with the state of the queries before.",
    body="""
y, lse = np.empty((len(q), v.shape[1])), np.empty(len(q))
state = None
for i in range(0, len(q), block):
    rows = slice(i, i + block)
    for j in range(0, len(k), block):
        keys = slice(j, j + block)
        new = state_of_block(q[rows] @ k[keys].T / np.sqrt(q.shape[1]), v[keys])
        state = new if state is None or len(state[0]) != len(new[0]) else merge(state, new)
    m, t, a = state
    y[rows], lse[rows] = a / t[:, None], m + np.log(t)
return y, lse
""",
)
blockwise_attention.wrong(
    "y is the gathered values divided by the sum of the weights: a / t. You return a as it is.",
    "a / t[:, None]",
    "a",
)
blockwise_attention.wrong(
    "The log-sum-exp is m + log t: t was taken relative to m, so m must come back.",
    "m + np.log(t)",
    "np.log(t)",
)

blockwise_attention_backward = lesson.exercise(
    "blockwise_attention_backward",
    hints=(
        "Which numbers did the forward pass keep, and how do you get a block of weights from them?",
        "p = exp(scores - lse) for a block. Then dv += p^T g, dp = g v^T, ds = p (dp - the row's sum of dp "
        "p), and that "
        "sum is g . y.",
        "ds = p * (g[rows] @ v[keys].T - delta[rows, None]) * scale, with delta = (g * y).sum(axis=-1); "
        "dq[rows] += ds @ "
        "k[keys]; "
        "dk and dv get the transposed",
    ),
    why="One number for each query replaces a whole row of weights. So attention can train on texts whose "
    "weights would not fit into memory.",
)


@blockwise_attention_backward.check("a random example; blocks that do not divide the lengths")
def _(my, rng):
    q, k, v, g = (
        rng.standard_normal((7, 4)),
        rng.standard_normal((9, 4)),
        rng.standard_normal((9, 3)),
        rng.standard_normal((7, 3)),
    )
    s = q @ k.T / 2
    e = np.exp(s)
    y, lse = e @ v / e.sum(-1, keepdims=True), np.log(e.sum(-1))
    return my.blockwise_attention_backward(g, q, k, v, y, lse, 4)


@blockwise_attention_backward.check("square: all axes alike, one block")
def _(my, rng):
    q, k, v, g = (rng.standard_normal((4, 4)) for _ in range(4))
    e = np.exp(q @ k.T / 2)
    y, lse = e @ v / e.sum(-1, keepdims=True), np.log(e.sum(-1))
    return my.blockwise_attention_backward(g, q, k, v, y, lse, 4)


@blockwise_attention_backward.check("never more than a block's weights at once")
def _(my, rng):
    largest = [0]

    class Watched(np.ndarray):
        def __array_finalize__(self, parent):
            largest[0] = max(largest[0], self.size)

    q, k, v, g = (rng.standard_normal((96, 2)) for _ in range(4))
    e = np.exp(q @ k.T / np.sqrt(2))
    y, lse = e @ v / e.sum(-1, keepdims=True), np.log(e.sum(-1))
    my.blockwise_attention_backward(*(x.view(Watched) for x in (g, q, k, v, y, lse)), 16)
    return "larger than 4 blocks" if largest[0] > 4 * 16 * 16 else "small"


def attended(q, k, v, block):
    e = np.exp(q @ k.T / np.sqrt(q.shape[1]))
    return e @ v / e.sum(-1, keepdims=True)


@blockwise_attention_backward.gradcheck(
    forward=attended,
    inputs=lambda rng: [
        rng.standard_normal((5, 4)),
        rng.standard_normal((7, 4)),
        rng.standard_normal((7, 3)),
        3,
    ],
)
def _(my, g, q, k, v, block):
    e = np.exp(q @ k.T / np.sqrt(q.shape[1]))
    y, lse = e @ v / e.sum(-1, keepdims=True), np.log(e.sum(-1))
    return my.blockwise_attention_backward(g, q, k, v, y, lse, block)


blockwise_attention_backward.wrong(
    "The softmax's cross terms are missing: from dp each row's sum of p dp must be taken off, which is g . "
    "y.",
    "(g[rows] @ v[keys].T - delta[rows, None])",
    "(g[rows] @ v[keys].T)",
)
blockwise_attention_backward.wrong(
    "The scale 1/sqrt(D) stood between q k^T and the scores, so dq and dk carry it too.",
    "- delta[rows, None]) * scale",
    "- delta[rows, None])",
)
blockwise_attention_backward.wrong(
    "Every block of queries contributes to a key's gradient, and every block of keys to a query's. Add with "
    "+=, or only the last block counts.",
    body="""
scale = 1 / np.sqrt(q.shape[1])
dq, dk, dv = np.zeros_like(q), np.zeros_like(k), np.zeros_like(v)
delta = (g * y).sum(axis=-1)
for i in range(0, len(q), block):
    rows = slice(i, i + block)
    for j in range(0, len(k), block):
        keys = slice(j, j + block)
        p = np.exp(q[rows] @ k[keys].T * scale - lse[rows, None])
        ds = p * (g[rows] @ v[keys].T - delta[rows, None]) * scale
        dq[rows] = ds @ k[keys]
        dk[keys] = ds.T @ q[rows]
        dv[keys] = p.T @ g[rows]
return dq, dk, dv
""",
)
blockwise_attention_backward.wrong(
    "Within a block you only have a part of the row, so the sum of p dp over the block is not the row's. "
    "Use (g * "
    "y).sum(axis=-1), which "
    "is the sum over all keys.",
    "ds = p * (g[rows] @ v[keys].T - delta[rows, None]) * scale",
    "dp = g[rows] @ v[keys].T; ds = p * (dp - (p * dp).sum(axis=-1, keepdims=True)) * scale",
)
blockwise_attention_backward.wrong(
    "exp(scores) are not yet the weights: subtract the row's log-sum-exp, lse, which divides by the sum.",
    " - lse[rows, None])",
    ")",
)
blockwise_attention_backward.wrong(
    "The gradients are right, but you computed all weights at once: this function must not make a table of "
    "len(q) x len(k).",
    body="""
scale = 1 / np.sqrt(q.shape[1])
p = np.exp(q @ k.T * scale - lse[:, None])
ds = p * (g @ v.T - (g * y).sum(axis=-1, keepdims=True)) * scale
return ds @ k, ds.T @ q, p.T @ g
""",
)

causal_blockwise_attention = lesson.exercise(
    "causal_blockwise_attention",
    hints=(
        "Which blocks of keys can a block of queries that ends before position i + block see anything of?",
        "With blocks of equal size, the inner loop ends at the block on the diagonal. In that one, scores "
        "of keys behind "
        "the query "
        "become -inf; the blocks before are seen whole.",
        "for j in range(0, i + 1, block), and np.where(place[rows, None] >= place[None, keys], scores, "
        "-np.inf)",
    ),
    why="Half of the blocks are never computed, so a causal model's attention takes about half the time. "
    "It only takes an earlier end of a loop.",
)


@causal_blockwise_attention.check(
    "each query sees itself and what comes before; blocks that do not divide the length"
)
def _(my, rng):
    q, k, v = rng.standard_normal((11, 4)), rng.standard_normal((11, 4)), rng.standard_normal((11, 3))
    return my.causal_blockwise_attention(q, k, v, 4)


@causal_blockwise_attention.check("blocks of 1, one block, and a single token")
def _(my, rng):
    q, k, v = (rng.standard_normal((5, 5)) for _ in range(3))
    return [
        my.causal_blockwise_attention(q[:n], k[:n], v[:n], block) for n, block in ((5, 1), (5, 8), (1, 2))
    ]


@causal_blockwise_attention.check(
    "NaN in keys and values of later blocks has no effect on earlier rows: they are not computed"
)
def _(my, rng):
    q, k, v = rng.standard_normal((9, 4)), rng.standard_normal((9, 4)), rng.standard_normal((9, 3))
    k[6:], v[6:] = np.nan, np.nan
    y, lse = my.causal_blockwise_attention(q, k, v, 3)
    return y[:6], lse[:6]


@causal_blockwise_attention.check(
    "how many numbers the matrix products give: blocks above the diagonal are not computed"
)
def _(my, rng):
    made = [0]

    class Counted(np.ndarray):
        def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
            plain = [x.view(np.ndarray) if isinstance(x, Counted) else x for x in inputs]
            out = getattr(ufunc, method)(*plain, **kwargs)
            if ufunc is np.matmul and out.shape == (4, 4):
                made[0] += 1
            return out.view(Counted) if isinstance(out, np.ndarray) else out

    q, k, v = (rng.standard_normal((16, d)).view(Counted) for d in (5, 5, 3))
    my.causal_blockwise_attention(q, k, v, 4)
    return (
        "at most 10 blocks of scores"
        if made[0] <= 10
        else "more than the 10 blocks on and below the diagonal"
    )


causal_blockwise_attention.wrong(
    "The scores of later keys are hidden, but their blocks are still computed. End the inner loop at the "
    "block on the "
    "diagonal.",
    "for j in range(0, i + 1, block):",
    "for j in range(0, len(k), block):",
)
causal_blockwise_attention.wrong(
    "In the block that the diagonal crosses, a query still sees keys behind it: hide those with -inf.",
    "scores = np.where(place[rows, None] >= place[None, keys], scores, -np.inf)",
    "pass",
)
causal_blockwise_attention.wrong(
    "A query sees itself too: key j is hidden from query i only if j > i.",
    "place[rows, None] >= place[None, keys]",
    "(place[rows, None] > place[None, keys]) | (place[None, keys] == 0)",
)
causal_blockwise_attention.wrong(
    "Hidden scores become -inf, not 0: exp(0) is 1, so a hidden key would still get a weight.",
    "scores, -np.inf)",
    "scores, 0)",
)
causal_blockwise_attention.wrong(
    "The loop ends one block too early: include the block on the diagonal.",
    "for j in range(0, i + 1, block):",
    "for j in range(0, max(i, 1), block):",
)

# ---------------------------------------------------------------- checkpointing

checkpointed_forward = lesson.exercise(
    "checkpointed_forward",
    hints=(
        "Which inputs are kept, if every = 3 and there are 7 functions?",
        "Go through the functions with their numbers; where the number is a multiple of `every`, keep what "
        "goes in, "
        "before calling.",
        "for number, fun in enumerate(functions): if number % every == 0: kept.append(x); then x = fun(x)",
    ),
    why="A chain of n functions now holds n / every values instead of n.",
)


@checkpointed_forward.check("7 functions, every third input kept")
def _(my, rng):
    functions = [lambda x, i=i: np.tanh(x) + i for i in range(7)]
    return my.checkpointed_forward(functions, rng.standard_normal(4), 3)


@checkpointed_forward.check("every one; more than there are; a single function")
def _(my, rng):
    functions = [lambda x, i=i: x * 2 + i for i in range(4)]
    x = rng.standard_normal((2, 3))
    return [my.checkpointed_forward(functions[:n], x, every) for n, every in ((4, 1), (4, 9), (1, 2), (4, 2))]


@checkpointed_forward.check("how often each function is called")
def _(my, rng):
    calls = [0] * 6

    def counted(i):
        def fun(x):
            calls[i] += 1
            return x + i

        return fun

    my.checkpointed_forward([counted(i) for i in range(6)], 1.0, 2)
    return calls


checkpointed_forward.wrong(
    "Everything is kept. Keep the inputs of functions 0, every, 2 every ... only.",
    "if number % every == 0:",
    "if True:",
)
checkpointed_forward.wrong(
    "You keep what comes out of those functions; backward needs what goes in, so keep x before the call.",
    body="""
kept = []
for number, fun in enumerate(functions):
    x = fun(x)
    if number % every == 0:
        kept.append(x)
return x, kept
""",
)
checkpointed_forward.wrong(
    "You start counting at 1, so the very first input is missing: 0 is a multiple of every.",
    "enumerate(functions)",
    "enumerate(functions, 1)",
)

checkpointed_backward = lesson.exercise(
    "checkpointed_backward",
    hints=(
        "In which order do the segments come? And inside a segment, what must be known before the last "
        "function's "
        "backward can run?",
        "For each segment, last one first: from its kept input run forward through the segment, noting the "
        "inputs; then "
        "call the backwards "
        "in reverse, each with the input of its function.",
        "inputs = [kept[number]]; for fun in segment's functions but the last: "
        "inputs.append(fun(inputs[-1])); "
        "then for backward, x in zip(reversed(...), reversed(inputs)): g = backward(g, x)",
    ),
    why="That is checkpointing: one more forward pass, and the memory of one segment at a time. "
    "minigrad.checkpoint does it for whole modules.",
)


@checkpointed_backward.check("7 functions, segments of 3: the gradient")
def _(my, rng):
    functions = [lambda x, i=i: np.sin(x * (i + 1)) for i in range(7)]
    backwards = [lambda g, x, i=i: g * np.cos(x * (i + 1)) * (i + 1) for i in range(7)]
    x, g, kept = rng.standard_normal(4), rng.standard_normal(4), []
    for i, fun in enumerate(functions):
        if i % 3 == 0:
            kept.append(x)
        x = fun(x)
    return my.checkpointed_backward(functions, backwards, kept, 3, g)


@checkpointed_backward.check("functions that change the shape: the order matters")
def _(my, rng):
    ws = [rng.standard_normal(shape) for shape in ((3, 4), (4, 2), (2, 5), (5, 3))]
    functions = [lambda x, w=w: np.tanh(x) @ w for w in ws]
    backwards = [lambda g, x, w=w: (g @ w.T) * (1 - np.tanh(x) ** 2) for w in ws]
    x = rng.standard_normal((2, 3))
    kept = [x, functions[1](functions[0](x))]
    return my.checkpointed_backward(functions, backwards, kept, 2, rng.standard_normal((2, 3)))


@checkpointed_backward.check("square matrices: a wrong order would not crash")
def _(my, rng):
    ws = [rng.standard_normal((3, 3)) for _ in range(5)]
    functions = [lambda x, w=w: np.tanh(x) @ w for w in ws]
    backwards = [lambda g, x, w=w: (g @ w.T) * (1 - np.tanh(x) ** 2) for w in ws]
    x = rng.standard_normal((3, 3))
    kept = [x, functions[1](functions[0](x))]
    kept.append(functions[3](functions[2](kept[1])))
    return my.checkpointed_backward(functions, backwards, kept, 2, rng.standard_normal((3, 3)))


@checkpointed_backward.check("how often each function is called again (every 3rd of 7 kept)")
def _(my, rng):
    calls = [0] * 7

    def counted(i):
        def fun(x):
            calls[i] += 1
            return x * 2

        return fun

    functions, backwards = [counted(i) for i in range(7)], [lambda g, x: g * 2] * 7
    my.checkpointed_backward(functions, backwards, [1.0, 8.0, 64.0], 3, 1.0)
    return calls


@checkpointed_backward.gradcheck(
    forward=lambda x, every: np.sin(np.sin(np.sin(np.sin(np.sin(x))))),
    inputs=lambda rng: [rng.standard_normal((2, 3)), 2],
)
def _(my, g, x, every):
    kept = [x, np.sin(np.sin(x)), np.sin(np.sin(np.sin(np.sin(x))))]
    return my.checkpointed_backward([np.sin] * 5, [lambda g, x: g * np.cos(x)] * 5, kept, every, g)


checkpointed_backward.wrong(
    "Every backward of a segment got the segment's first input. Each needs the input of its own function: "
    "compute those again.",
    body="""
for number in reversed(range(len(kept))):
    segment = slice(number * every, (number + 1) * every)
    for backward in reversed(backwards[segment]):
        g = backward(g, kept[number])
return g
""",
)
checkpointed_backward.wrong(
    "Inside a segment the gradient must go backward too: the last function's backward comes first.",
    "for backward, x in zip(reversed(backwards[segment]), reversed(inputs), strict=True):",
    "for backward, x in zip(backwards[segment], inputs, strict=True):",
)
checkpointed_backward.wrong(
    "Start with the last segment: the gradient comes from the end.",
    "for number in reversed(range(len(kept))):",
    "for number in range(len(kept)):",
)
checkpointed_backward.wrong(
    "The gradient is right, but you run each segment's last function again, and nothing reads its value. "
    "Stop one before.",
    body="""
for number in reversed(range(len(kept))):
    segment = slice(number * every, (number + 1) * every)
    inputs = [kept[number]]
    for fun in functions[segment]:
        inputs.append(fun(inputs[-1]))
    for backward, x in zip(reversed(backwards[segment]), reversed(inputs[:-1]), strict=True):
        g = backward(g, x)
return g
""",
)
checkpointed_backward.wrong(
    "You pass each backward the value of its function. It needs the input, which is one earlier.",
    body="""
for number in reversed(range(len(kept))):
    segment = slice(number * every, (number + 1) * every)
    x, values = kept[number], []
    for fun in functions[segment]:
        x = fun(x)
        values.append(x)
    for backward, x in zip(reversed(backwards[segment]), reversed(values), strict=True):
        g = backward(g, x)
return g
""",
)
