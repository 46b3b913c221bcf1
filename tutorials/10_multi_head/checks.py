"""Checks of lesson 10."""

import numpy as np

from tutorials.course import Checks

lesson = Checks()

# ---------------------------------------------------------------- split and merge

split_heads = lesson.exercise(
    "split_heads",
    hints=(
        "The C columns of one position belong to H heads. Which axis must be split in two, and which axes "
        "are swapped afterwards?",
        "First reshape the last axis C into (H, D), which keeps positions whole; then move the axis of heads "
        "before that of positions.",
        "x.reshape(B, T, num_heads, C // num_heads), and then a transpose that swaps axes 1 and 2.",
    ),
    why=(
        "A direct reshape gives the right shape but splits the sequence instead of the columns; there is no "
        "error, and it even trains."
    ),
)


@split_heads.check("a batch (2, 5, 6) in 3 heads")
def _(my, rng):
    return my.split_heads(rng.standard_normal((2, 5, 6)), 3)


@split_heads.check("numbered elements: 10 t + column")
def _(my, rng):
    return my.split_heads(10.0 * np.arange(4)[:, None] + np.arange(8) + np.zeros((1, 1, 1)), 2)


@split_heads.check("batch, positions, heads and columns of a head all 3: (3, 3, 9)")
def _(my, rng):
    return my.split_heads(rng.standard_normal((3, 3, 9)), 3)


@split_heads.check("one head, and a head for each column")
def _(my, rng):
    x = rng.standard_normal((2, 3, 4))
    return {"one head": my.split_heads(x, 1), "four heads of one column": my.split_heads(x, 4)}


split_heads.wrong(
    "You reshape directly to (B, H, T, D). The shape is right and the contents are not: the first head gets "
    "all columns of the first positions. Split the last axis only, then swap two axes.",
    "x.reshape(B, T, num_heads, C // num_heads).transpose(0, 2, 1, 3)",
    "x.reshape(B, num_heads, T, C // num_heads)",
)
split_heads.wrong(
    "Each head gets every H-th column. Its columns must be side by side: (T, H, D), not (T, D, H).",
    "x.reshape(B, T, num_heads, C // num_heads).transpose(0, 2, 1, 3)",
    "x.reshape(B, T, C // num_heads, num_heads).transpose(0, 3, 1, 2)",
)
split_heads.wrong(
    "The axes are in the order (B, T, H, D). Attention works on the last two, which must be positions and "
    "columns of one head.",
    ".transpose(0, 2, 1, 3)", "",
)  # fmt: skip
split_heads.wrong(
    "Each head's matrix is transposed: (D, T) instead of (T, D). Swap only the axes of heads and positions.",
    ".transpose(0, 2, 1, 3)", ".transpose(0, 2, 3, 1)",
)  # fmt: skip

split_heads.wrong(
    "The heads come first, before the batch. Put them between batch and positions: (B, H, T, D).",
    ".transpose(0, 2, 1, 3)", ".transpose(2, 0, 1, 3)",
)  # fmt: skip

merge_heads = lesson.exercise(
    "merge_heads",
    hints=(
        "What are the two steps of split_heads, and in which order do you undo them?",
        "Undo the last step first: move positions back before heads, then reshape heads and their columns to "
        "one axis.",
        "x.transpose(0, 2, 1, 3) has the shape (B, T, H, D); reshape that to (B, T, H * D).",
    ),
    why=(
        "It is the Concat of the formula, and the backward pass of split_heads; split_heads is its backward "
        "pass."
    ),
)


@merge_heads.check("heads (2, 3, 5, 4)")
def _(my, rng):
    return my.merge_heads(rng.standard_normal((2, 3, 5, 4)))


@merge_heads.check("all axes of equal size")
def _(my, rng):
    return my.merge_heads(rng.standard_normal((3, 3, 3, 3)))


@merge_heads.check("one head; one position")
def _(my, rng):
    one_head, one_position = rng.standard_normal((2, 1, 3, 4)), rng.standard_normal((2, 3, 1, 4))
    return {"one head": my.merge_heads(one_head), "one position": my.merge_heads(one_position)}


merge_heads.wrong(
    "You reshape without swapping heads and positions first: the positions of one head end up side by side. "
    "Transpose, then reshape.",
    "x.transpose(0, 2, 1, 3).reshape(B, T, H * D)", "x.reshape(B, T, H * D)",
)  # fmt: skip
merge_heads.wrong(
    "The heads' columns are interleaved. Each head's D columns must stay side by side: (T, H, D), not (T, D, "
    "H).",
    "transpose(0, 2, 1, 3)", "transpose(0, 2, 3, 1)",
)  # fmt: skip
merge_heads.wrong(
    "The heads are averaged. Put them side by side, so that W_O can use each differently.",
    body="return x.mean(axis=1)",
)
merge_heads.wrong(
    "The heads are summed. Put them side by side; W_O does the sum.",
    body="return x.sum(axis=1)",
)

# ---------------------------------------------------------------- count

count_parameters = lesson.exercise(
    "count_parameters",
    hints=(
        "Which four matrices are there, and how wide is the output of each?",
        "All heads of queries together are num_heads D wide, which is d_model for D = d_model / num_heads; "
        "keys and values are num_kv_heads D wide. Each projection has input width times output width "
        "weights, and output width biases.",
        "d_model * width for queries, 2 * d_model * kv_width for keys and values, width * d_model for the "
        "output; then the biases.",
    ),
    why=(
        "More heads cost no parameters; fewer heads of keys and values save parameters, and memory in the "
        "cache."
    ),
)


@count_parameters.check("the paper's layer: 512, 8 heads, with and without biases")
def _(my, rng):
    return {"with biases": my.count_parameters(512, 8), "without": my.count_parameters(512, 8, bias=False)}


@count_parameters.check("1, 2 and 16 heads, d_model 48")
def _(my, rng):
    return {f"heads: {h}": my.count_parameters(48, h) for h in (1, 2, 16)}


@count_parameters.check("12 heads of queries, 3 or 1 of keys and values")
def _(my, rng):
    cases = [(kv, bias) for kv in (3, 1) for bias in (True, False)]
    return {
        f"heads of keys: {kv}, {'with' if bias else 'no'} biases": my.count_parameters(48, 12, kv, bias)
        for kv, bias in cases
    }


count_parameters.wrong(
    "You count d_model times d_model matrices for each head. The matrices of one head are d_model times D; "
    "all heads together are d_model wide.",
    "width, kv_width = num_heads * D, (num_kv_heads or num_heads) * D",
    "width, kv_width = num_heads * d_model, (num_kv_heads or num_heads) * d_model",
)
count_parameters.wrong(
    "The output projection W_O is missing.",
    "2 * d_model * kv_width + width * d_model", "2 * d_model * kv_width",
)  # fmt: skip
count_parameters.wrong(
    "num_kv_heads does not change your count. With fewer heads the matrices of keys and values are narrower.",
    "(num_kv_heads or num_heads) * D", "num_heads * D",
)  # fmt: skip
count_parameters.wrong(
    "You count biases even with bias=False.",
    "(width + 2 * kv_width + d_model if bias else 0)", "(width + 2 * kv_width + d_model)",
)  # fmt: skip
count_parameters.wrong(
    "You count four biases of d_model. Those of keys and values are as wide as their outputs, num_kv_heads "
    "D.",
    "width + 2 * kv_width + d_model if bias", "4 * d_model if bias",
)  # fmt: skip

# ---------------------------------------------------------------- forward and backward

multi_head_attention = lesson.exercise(
    "multi_head_attention",
    hints=(
        "After three projections, a split into heads, and attention on the last two axes: how do the heads "
        "come together?",
        "Project x to queries and memory to keys and values, split each, attend (the axes B and H are "
        "broadcast), merge, project.",
        "q = split_heads(x @ W_Q, num_heads), k and v in the same way from memory; merge_heads(attention(q, "
        "k, v)) @ W_O.",
    ),
    why="This is the central layer of a Transformer: everything else is built around it.",
)


@multi_head_attention.check("self-attention: (2, 5, 6), 3 heads")
def _(my, rng):
    x, *weights = (rng.standard_normal(s) for s in ((2, 5, 6), *[(6, 6)] * 4))
    return my.multi_head_attention(x, x, *weights, 3)


@multi_head_attention.check("cross-attention: 4 positions attend to 7")
def _(my, rng):
    x, memory, *weights = (rng.standard_normal(s) for s in ((2, 4, 6), (2, 7, 6), *[(6, 6)] * 4))
    return my.multi_head_attention(x, memory, *weights, 2)


@multi_head_attention.check("one head, and as many heads as columns")
def _(my, rng):
    x, memory, *weights = (rng.standard_normal(s) for s in ((1, 4, 4), (1, 4, 4), *[(4, 4)] * 4))
    return {f"heads: {h}": my.multi_head_attention(x, memory, *weights, h) for h in (1, 4)}


multi_head_attention.wrong(
    "There is only one head: the projections go into attention without a split. Split them first, merge "
    "afterwards.",
    body="return attention(x @ W_Q, memory @ W_K, memory @ W_V) @ W_O",
)
multi_head_attention.wrong(
    "The output projection W_O is missing: the heads are side by side, and nothing mixes them.",
    "merge_heads(attention(q, k, v)) @ W_O", "merge_heads(attention(q, k, v))",
)  # fmt: skip
multi_head_attention.wrong(
    "Queries come from memory, keys and values from x. It should be the other way: x attends to memory.",
    "(x @ W_Q, memory @ W_K, memory @ W_V)", "(memory @ W_Q, x @ W_K, x @ W_V)",
)  # fmt: skip
multi_head_attention.wrong(
    "The scores are divided by sqrt(d_model). The products run over the D columns of one head: divide by "
    "sqrt(D).",
    "merge_heads(attention(q, k, v))", "merge_heads(attention(q / np.sqrt(num_heads), k, v))",
)  # fmt: skip
multi_head_attention.wrong(
    "Keys and values come from x as well. In cross-attention they come from memory.",
    "(x @ W_Q, memory @ W_K, memory @ W_V)", "(x @ W_Q, x @ W_K, x @ W_V)",
)  # fmt: skip
multi_head_attention.wrong(
    "The weights are applied transposed, x W^T. Here a projection is x W, with W of shape (in, out).",
    "(x @ W_Q, memory @ W_K, memory @ W_V)", "(x @ W_Q.T, memory @ W_K.T, memory @ W_V.T)",
)  # fmt: skip

multi_head_attention.wrong(
    "The heads are joined without merge_heads: a reshape alone joins positions of one head, not columns of "
    "one position.",
    "merge_heads(attention(q, k, v))", "attention(q, k, v).reshape(x.shape)",
)  # fmt: skip
multi_head_attention.wrong(
    "W_O is applied transposed, x W^T. Here a projection is x W, with W of shape (in, out).",
    "@ W_O", "@ W_O.T",
)  # fmt: skip
multi_head_attention.wrong(
    "Values come from x. Keys and values both come from memory.", "memory @ W_V", "x @ W_V"
)

multi_head_attention_backward = lesson.exercise(
    "multi_head_attention_backward",
    hints=(
        "Write the forward pass in five lines with a name for each value. What is the backward of each line, "
        "from the last to the first?",
        "g through W_O transposed, split (the backward of merge), attention_backward, merge (the backward of "
        "split), then each projection: input transposed times gradient for the weight, gradient times weight "
        "transposed for the input. memory is used twice.",
        "dheads = split_heads(g @ W_O.T, num_heads); dQ, dK, dV = attention_backward(dheads, q, k, v), each "
        "merged; dmemory = dK @ W_K.T + ...",
    ),
    why=(
        "With the norm and feed-forward of lesson 12 you will have every gradient of a Transformer layer, by "
        "hand."
    ),
)


@multi_head_attention_backward.gradcheck(
    forward=lambda x, memory, W_Q, W_K, W_V, W_O: mha(x, memory, W_Q, W_K, W_V, W_O, 2),
    inputs=lambda rng: [rng.standard_normal(s) for s in ((2, 3, 4), (2, 5, 4), *[(4, 4)] * 4)],
)
def _(my, g, x, memory, W_Q, W_K, W_V, W_O):
    return my.multi_head_attention_backward(g, x, memory, W_Q, W_K, W_V, W_O, 2)


@multi_head_attention_backward.check("self-attention: (2, 4, 6), 3 heads")
def _(my, rng):
    x, g, *weights = (rng.standard_normal(s) for s in ((2, 4, 6), (2, 4, 6), *[(6, 6)] * 4))
    grads = my.multi_head_attention_backward(g, x, x, *weights, 3)
    return dict(zip(("dx", "dmemory", "dW_Q", "dW_K", "dW_V", "dW_O"), grads, strict=False))


@multi_head_attention_backward.check("one head")
def _(my, rng):
    x, g, *weights = (rng.standard_normal(s) for s in ((1, 3, 3), (1, 3, 3), *[(3, 3)] * 4))
    grads = my.multi_head_attention_backward(g, x, x, *weights, 1)
    return dict(zip(("dx", "dmemory", "dW_Q", "dW_K", "dW_V", "dW_O"), grads, strict=False))


def mha(x, memory, W_Q, W_K, W_V, W_O, num_heads):
    """Multi-head attention for the finite differences."""

    def split(y):
        return y.reshape(*y.shape[:2], num_heads, -1).transpose(0, 2, 1, 3)

    q, k, v = split(x @ W_Q), split(memory @ W_K), split(memory @ W_V)
    scores = q @ k.swapaxes(-1, -2) / q.shape[-1] ** 0.5
    e = np.exp(scores - scores.max(-1, keepdims=True))
    return (e / e.sum(-1, keepdims=True) @ v).transpose(0, 2, 1, 3).reshape(x.shape) @ W_O


multi_head_attention_backward.wrong(
    "dmemory has only the gradient through the keys. memory is used for the values too, and gradients of two "
    "uses add up.",
    "dK @ W_K.T + dV @ W_V.T", "dK @ W_K.T",
)  # fmt: skip
multi_head_attention_backward.wrong(
    "g goes to the heads without W_O. The gradient of the merged heads is g W_O^T.",
    "split_heads(g @ W_O.T, num_heads)", "split_heads(g, num_heads)",
)  # fmt: skip
multi_head_attention_backward.wrong(
    "g goes through W_O, not through its transpose. Forward is y = h W_O, so backward is dh = g W_O^T.",
    "g @ W_O.T", "g @ W_O",
)  # fmt: skip
multi_head_attention_backward.wrong(
    "W_Q, W_K and W_V are not transposed in the gradients of the inputs. The backward pass of a projection "
    "multiplies by its transpose.",
    body="""
    q, k, v = (split_heads(y, num_heads) for y in (x @ W_Q, memory @ W_K, memory @ W_V))
    merged = merge_heads(attention(q, k, v))
    dheads = split_heads(g @ W_O.T, num_heads)
    dQ, dK, dV = (merge_heads(d) for d in attention_backward(dheads, q, k, v))
    dW = rows(x).T @ rows(dQ), rows(memory).T @ rows(dK), rows(memory).T @ rows(dV), rows(merged).T @ rows(g)
    return dQ @ W_Q, dK @ W_K + dV @ W_V, *dW
    """,
)
multi_head_attention_backward.wrong(
    "The gradients of W_Q, W_K and W_V are transposed. They need the shape (in, out) of the weights: input "
    "transposed times gradient.",
    "rows(x).T @ rows(dQ), rows(memory).T @ rows(dK), rows(memory).T @ rows(dV)",
    "rows(dQ).T @ rows(x), rows(dK).T @ rows(memory), rows(dV).T @ rows(memory)",
)
multi_head_attention_backward.wrong(
    "dW_O is computed from x. W_O was multiplied by the merged heads.",
    "rows(merged).T @ rows(g)", "rows(x).T @ rows(g)",
)  # fmt: skip
multi_head_attention_backward.wrong(
    "You treat all heads as one. Split the gradient before attention_backward, and merge after it.",
    body="""
    q, k, v = x @ W_Q, memory @ W_K, memory @ W_V
    merged = merge_heads(attention(*(split_heads(y, num_heads) for y in (q, k, v))))
    dQ, dK, dV = attention_backward(g @ W_O.T, q, k, v)
    dW = rows(x).T @ rows(dQ), rows(memory).T @ rows(dK), rows(memory).T @ rows(dV), rows(merged).T @ rows(g)
    return dQ @ W_Q.T, dK @ W_K.T + dV @ W_V.T, *dW
    """,
)

multi_head_attention_backward.wrong(
    "dmemory has only the gradient through the values. memory is used for the keys too, and gradients of two "
    "uses add up.",
    "dK @ W_K.T + dV @ W_V.T", "dV @ W_V.T",
)  # fmt: skip
multi_head_attention_backward.wrong(
    "dW_K and dW_V are computed from x. Keys and values came from memory.",
    "rows(memory).T @ rows(dK), rows(memory).T @ rows(dV)", "rows(x).T @ rows(dK), rows(x).T @ rows(dV)",
)  # fmt: skip
multi_head_attention_backward.wrong(
    "dW_O is transposed. It needs the shape (in, out) of W_O: input transposed times gradient.",
    "rows(merged).T @ rows(g)", "rows(g).T @ rows(merged)",
)  # fmt: skip
multi_head_attention_backward.wrong(
    "The gradient is split into heads by a reshape alone, which splits the sequence. split_heads is the "
    "backward of merge_heads.",
    "split_heads(g @ W_O.T, num_heads)", "(g @ W_O.T).reshape(q.shape)",
)  # fmt: skip

# ---------------------------------------------------------------- heads in another order, heads that share

permute_heads = lesson.exercise(
    "permute_heads",
    hints=(
        "Which columns of W_Q belong to head i, and which part of W_O reads head i's output?",
        "Head i has columns i D ... of W_Q, W_K and W_V, and rows i D ... of W_O. Move all four together.",
        "columns = np.arange(C).reshape(num_heads, -1)[order].ravel(), used as W_Q[:, columns] and so on, "
        "and once for rows.",
    ),
    why=(
        "Heads have no order: with this symmetry you can tell a right split from a wrong one, and prune "
        "heads."
    ),
)


@permute_heads.check("three heads of two columns, shifted cyclically by one, which is not its own inverse")
def _(my, rng):
    given = my.permute_heads(*rng.standard_normal((4, 6, 6)), 3, [1, 2, 0])
    return dict(zip(("W_Q", "W_K", "W_V", "W_O"), given, strict=False))


@permute_heads.check("two heads exchanged")
def _(my, rng):
    given = my.permute_heads(*rng.standard_normal((4, 4, 4)), 2, [1, 0])
    return dict(zip(("W_Q", "W_K", "W_V", "W_O"), given, strict=False))


@permute_heads.check("the present order: nothing changes")
def _(my, rng):
    given = my.permute_heads(*rng.standard_normal((4, 6, 6)), 3, [0, 1, 2])
    return dict(zip(("W_Q", "W_K", "W_V", "W_O"), given, strict=False))


permute_heads.wrong(
    "W_O is unchanged, so its rows belong to other heads now. Move its rows too.", "W_O[columns]", "W_O"
)
permute_heads.wrong(
    "You moved columns of W_O. Its columns are features of the output; its rows belong to heads.",
    "W_O[columns]", "W_O[:, columns]",
)  # fmt: skip
permute_heads.wrong(
    "You moved rows of W_Q, W_K and W_V. Their rows are features of the input; head i has columns.",
    "W_Q[:, columns], W_K[:, columns], W_V[:, columns]", "W_Q[columns], W_K[columns], W_V[columns]",
)  # fmt: skip
permute_heads.wrong(
    "This is the inverse order: old head i goes to index order[i]. New head i must be old head order[i].",
    "[list(order)]", "[np.argsort(order)]",
)  # fmt: skip
permute_heads.wrong(
    "You moved single columns, as if heads were one column wide. A head is a block of D columns.",
    body="""
    columns = np.arange(W_Q.shape[1])
    columns[:num_heads] = order
    return W_Q[:, columns], W_K[:, columns], W_V[:, columns], W_O[columns]
    """,
)

grouped_query_attention = lesson.exercise(
    "grouped_query_attention",
    hints=(
        "With 6 heads of queries and 2 of keys: which heads of queries use the first head of keys?",
        "Split queries into num_heads, keys and values into num_kv_heads. Repeat each head of keys and "
        "values for each head of queries that uses it, the copies next to each other. The rest is multi-head "
        "attention.",
        "k = k.repeat(num_heads // num_kv_heads, axis=1), and the same for v.",
    ),
    why=(
        "The larger Llama 2 models and most later ones do this. It shrinks the cache of keys and values, "
        "which limits how many texts can be written at once."
    ),
)


@grouped_query_attention.check("6 heads of queries share 2 of keys and values")
def _(my, rng):
    x, W_Q, W_K, W_V, W_O = (rng.standard_normal(s) for s in ((2, 5, 7), (7, 18), (7, 6), (7, 6), (18, 7)))
    return my.grouped_query_attention(x, W_Q, W_K, W_V, W_O, 6, 2)


@grouped_query_attention.check("all heads share one (multi-query), and no heads share")
def _(my, rng):
    x, W_Q, W_K, W_V, W_O = (rng.standard_normal(s) for s in ((2, 3, 4), (4, 8), (4, 2), (4, 2), (8, 4)))
    wide = rng.standard_normal((2, 4, 8))
    return {
        "all share one": my.grouped_query_attention(x, W_Q, W_K, W_V, W_O, 4, 1),
        "no heads share": my.grouped_query_attention(x, W_Q, *wide, W_O, 4, 4),
    }


grouped_query_attention.wrong(
    "The heads of keys and values are tiled: 0 1 0 1. Neighbours share: 0 0 1 1. Repeat, do not tile.",
    body="""
    q = split_heads(x @ W_Q, num_heads)
    k, v = split_heads(x @ W_K, num_kv_heads), split_heads(x @ W_V, num_kv_heads)
    share = num_heads // num_kv_heads
    k, v = np.tile(k, (1, share, 1, 1)), np.tile(v, (1, share, 1, 1))
    return merge_heads(attention(q, k, v)) @ W_O
    """,
)
grouped_query_attention.wrong(
    "All heads use the first head of keys and values. Each group of query heads has its own.",
    "k, v = k.repeat(share, axis=1), v.repeat(share, axis=1)", "k, v = k[:, :1], v[:, :1]",
)  # fmt: skip
grouped_query_attention.wrong(
    "The heads of keys and values are averaged, so all heads of queries use the same ones. Each group has "
    "its own head.",
    "k, v = k.repeat(share, axis=1), v.repeat(share, axis=1)",
    "k, v = k.mean(1, keepdims=True), v.mean(1, keepdims=True)",
)
grouped_query_attention.wrong(
    "The keys are shared correctly, but the values are tiled, so heads get the values of other groups: "
    "repeat both.",
    "v.repeat(share, axis=1)", "np.tile(v, (1, share, 1, 1))",
)  # fmt: skip
grouped_query_attention.wrong(
    "The heads of keys and values are not repeated, or not along their axis, 1: there are fewer of them than "
    "heads of queries.",
    "k, v = k.repeat(share, axis=1), v.repeat(share, axis=1)", "pass",
)  # fmt: skip
