# %% [markdown]
# # 10 · Multi-head attention
#
# *Reading: 35 minutes. Exercises: 60 minutes. Needs: lessons 03, 08, 09.*
#
# One attention gives each token one mixture of the others. What if a token needs two different things at
# once, and what does that cost?
#
# **You will be able to:**
#
# - say what several heads can do that one cannot, and measure it
# - write multi-head attention with every shape, from memory
# - split heads and merge them, and recognise the wrong order, which raises no error
# - derive the backward pass of split, merge and the projections
# - say what the number of heads costs, what it does not cost, and when there are too many
#
# Words you do not know are in the [glossary](../../docs/glossary.md).

# %%
import numpy as np
from matplotlib.figure import Figure

import minigrad as mg
from minigrad import optim
from minigrad.gradcheck import gradcheck
from models.attention import MultiHeadAttention
from tutorials import show

rng = np.random.default_rng(10)
mg.manual_seed(10)
np.set_printoptions(precision=4, suppress=True)

# %% [markdown]
# ## Intuition: one attention is one mixture
#
# A token's output is a weighted mean of values, and its weights sum to 1 (lesson 08). Suppose the word "sat"
# needs two things: *who* sat, and *where*. With one attention it can put half of its weight on "cat" and half
# on "mat". The output is the average of the two values, and an average does not tell which of them sat.
#
# The solution is to attend twice: two attentions with their own queries, keys and values, whose outputs are
# put side by side instead of averaged. Each is a **head**. To keep the total cost the same, each head is
# narrower: with $h$ heads, each has $d_{model}/h$ dimensions, where $d_{model}$ is the width of a token's
# vector.
#
# You may read that heads learn certain things: one learns syntax, another what "it" refers to. Some trained
# heads do look like that (Clark et al. 2019, *What Does BERT Look At?*). But nobody assigns these roles, and
# many heads have no role that one could name.

# %% [markdown]
# ## Definition
#
# $$\text{MultiHead}(X, M) = \text{Concat}(\text{head}_1, \dots, \text{head}_h) W^O, \qquad
# \text{head}_i = \text{Attention}(X W_i^Q, M W_i^K, M W_i^V)$$
#
# (Vaswani et al. 2017, section 3.2.2.) Queries come from $X$, keys and values from $M$ (the *memory*); in
# self-attention both are the same.
#
# | symbol | shape | what it is |
# | --- | --- | --- |
# | $X$ | $n \times d_{model}$ | the positions that attend |
# | $M$ | $m \times d_{model}$ | the positions that they attend to |
# | $W_i^Q, W_i^K$ | $d_{model} \times d_k$ | head $i$'s projections (learned matrices) to queries and keys |
# | $W_i^V$ | $d_{model} \times d_v$ | head $i$'s projection to values |
# | $P_i$ | $n \times m$ | head $i$'s weights: each row sums to 1, in each head |
# | $\text{head}_i$ | $n \times d_v$ | the output of head $i$ |
# | $\text{Concat}(\dots)$ | $n \times h d_v$ | all heads side by side |
# | $W^O$ | $h d_v \times d_{model}$ | the output projection: mixes the heads and restores the width of $X$ |
#
# By convention $d_k = d_v = d_{model}/h$. Then the projections of all heads fit side by side into one square
# matrix, $W^Q = [W_1^Q \mid \dots \mid W_h^Q]$, of shape $d_{model} \times d_{model}$, and so do $W^K$ and
# $W^V$. One product computes the queries of all heads, and **head $i$ has columns $i d_k$ to
# $(i+1) d_k - 1$** (counting heads from 0). Programs are written this way.
#
# In code there is a batch axis too. A batch of $B$ sequences of $T$ tokens goes through these shapes, with
# $H = h$ and $D = d_k$:
#
#     x (B, T, C) C = d_model = H D x @ W_Q (B, T, C) reshape (B, T, H, D) split the last axis transpose (B,
#     H, T, D) heads before positions: now the last two axes are a matrix for each head scores (B, H, T, T)
#     out (B, H, T, D) transpose (B, T, H, D) reshape (B, T, C) Concat @ W_O (B, T, C)


# %%
def split_heads(x, num_heads):
    B, T, C = x.shape
    return x.reshape(B, T, num_heads, C // num_heads).transpose(0, 2, 1, 3)  # (B, H, T, D)


def merge_heads(x):
    B, H, T, D = x.shape
    return x.transpose(0, 2, 1, 3).reshape(B, T, H * D)  # (B, T, C)


def attention(q, k, v):
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    e = np.exp(scores - scores.max(-1, keepdims=True))
    weights = e / e.sum(-1, keepdims=True)  # (B, H, n, m)
    return weights @ v, weights


def multi_head(x, memory, W_Q, W_K, W_V, W_O, num_heads):
    q, k, v = (split_heads(y, num_heads) for y in (x @ W_Q, memory @ W_K, memory @ W_V))
    out, weights = attention(q, k, v)
    return merge_heads(out) @ W_O, weights


x = rng.standard_normal((2, 5, 12))
out, weights = multi_head(x, x, *rng.standard_normal((4, 12, 12)), num_heads=3)
print("x", x.shape, " heads", split_heads(x, 3).shape, " weights", weights.shape, " output", out.shape)

# %% [markdown]
# This is the whole code: `attention` is that of lesson 08, which works on the last two axes and broadcasts
# the others.

# %% [markdown]
# ## A worked example by hand
#
# Three tokens, $d_{model} = 8$, two heads, $d_k = d_v = 4$.
#
# Let the tokens be "the cat sat". A feature is a column of $X$. Features 1 to 3 say which word it is,
# features 5 to 7 at which position it stands. Each is *one-hot*: 1 in one column, 0 in the others.
#
# $$X = \begin{bmatrix} 1&0&0&0&1&0&0&0 \\ 0&1&0&0&0&1&0&0 \\ 0&0&1&0&0&0&1&0 \end{bmatrix}$$
#
# **Head 1 attends by word.** Its matrices read the first three features only. A one-hot vector times a matrix
# selects a row, so the word's query is a row of $W_1^Q$. We take the rows of the worked example in lesson 08,
# whose output you know:
#
# $$\text{head}_1 = \begin{bmatrix} 0.6163 & 0.7673 & 0.6163 & 0 \\
# 0.3103 & 0.7463 & 0.9434 & 0 \\ 0.6685 & 0.8780 & 0.4535 & 0 \end{bmatrix}$$
#
# **Head 2 attends to the position before.** Its key is the position, one-hot. Its query is 8 times the
# one-hot vector of the position *before*, and zeros for the first token. Its value is the word, one-hot. For
# the second token the products are (8, 0, 0), and the scores (4, 0, 0) after division by $\sqrt{d_k} = 2$.
# $e^4 = 54.598$, so the weights are 54.598 / 56.598 = 0.9647 and twice 1 / 56.598 = 0.0177. The query of the
# first token is zero: all scores are 0, all weights 1/3.
#
# $$\text{head}_2 = \begin{bmatrix} 0.3333 & 0.3333 & 0.3333 & 0 \\
# 0.9647 & 0.0177 & 0.0177 & 0 \\ 0.0177 & 0.9647 & 0.0177 & 0 \end{bmatrix}$$
#
# The last row says that "sat" has received "0.96 cat" from head 2: *the word before me is cat*.

# %%
X = np.concatenate([np.eye(3, 4), np.eye(3, 4)], axis=1)  # (3, 8)
# (8, 4), the rows of lesson 08
W_Q1 = np.concatenate([[[1, 0, 2, 1], [0, 2, 1, 0], [1, 1, 0, 2]], np.zeros((5, 4))])
W_K1 = np.concatenate([[[0, 1, 1, 0], [2, 0, 0, 1], [1, 2, 1, 0]], np.zeros((5, 4))])
W_V1 = np.concatenate([[[1, 0, 1, 0], [1, 1, 0, 0], [0, 1, 1, 0]], np.zeros((5, 4))])
W_Q2 = np.concatenate([np.zeros((4, 4)), 8 * np.eye(4, k=-1)])  # position t attends to t - 1
W_K2 = np.concatenate([np.zeros((4, 4)), np.eye(4)])
W_V2 = np.concatenate([np.eye(4), np.zeros((4, 4))])

head1, P1 = attention(X @ W_Q1, X @ W_K1, X @ W_V1)
head2, P2 = attention(X @ W_Q2, X @ W_K2, X @ W_V2)
print("head 1\n", head1, "\nhead 2\n", head2)
assert np.allclose(head1[0], [0.616348, 0.767303, 0.616348, 0], atol=5e-7)
assert np.allclose(head1[1:, :3], [[0.310328, 0.746284, 0.943388], [0.668501, 0.878048, 0.453451]], atol=5e-7)
assert np.allclose(np.exp(4), 54.598, atol=5e-4) and np.allclose(
    head2[1], [0.9647, 0.0177, 0.0177, 0], atol=5e-5
)
assert np.allclose(head2[0, :3], 1 / 3) and np.allclose(head2[2], [0.0177, 0.9647, 0.0177, 0], atol=5e-5)

# %% [markdown]
# **Concat and $W^O$.** Side by side the heads are $3 \times 8$. $W^O$ is $8 \times 8$; its upper four rows
# multiply head 1, its lower four head 2. Let it be
#
# $$W^O = \begin{bmatrix} I & 0 \\ I & I \end{bmatrix} \quad (I \text{ is the } 4 \times 4 \text{ identity})$$
#
# Multiply in blocks: the left half of the output is head 1 + head 2, the right half is head 2. The first row
# is (0.6163 + 0.3333, 0.7673 + 0.3333, 0.6163 + 0.3333, 0 | 0.3333, 0.3333, 0.3333, 0) = (0.9497, 1.1006,
# 0.9497, 0 | 0.3333, 0.3333, 0.3333, 0).
#
# So the output of multi-head attention is a *sum over heads*, $\sum_i \text{head}_i W_i^O$, where $W_i^O$ are
# the four rows of $W^O$ that multiply head $i$.

# %%
W_O = np.block([[np.eye(4), np.zeros((4, 4))], [np.eye(4), np.eye(4)]])
out = np.concatenate([head1, head2], axis=1) @ W_O
assert out.shape == (3, 8)
assert np.allclose(out[0], [0.9497, 1.1006, 0.9497, 0, 0.3333, 0.3333, 0.3333, 0], atol=5e-5)
assert np.allclose(out, head1 @ W_O[:4] + head2 @ W_O[4:])

# (8, 8) each
W_Q, W_K, W_V = (np.concatenate(pair, axis=1) for pair in ((W_Q1, W_Q2), (W_K1, W_K2), (W_V1, W_V2)))
together, weights = multi_head(X[None], X[None], W_Q, W_K, W_V, W_O, num_heads=2)
assert np.allclose(together[0], out) and np.allclose(weights[0], [P1, P2])
print("the same by split, attention and merge:\n", together[0])

# %% [markdown]
# What would **one head** of width 8 do with the same matrices? Its product of a query and a key runs over all
# eight columns, so it is the sum of the two heads' products: one softmax must serve both purposes.

# %%
_, single = multi_head(X[None], X[None], W_Q, W_K, W_V, W_O, num_heads=1)
figure = Figure(figsize=(7, 3), layout="constrained")
figure.suptitle("Two heads keep two patterns separate; one head must blend them")
for axes, P, title in zip(
    figure.subplots(1, 3),
    (P1, P2, single[0, 0]),
    ("head 1: by word", "head 2: the position before", "one head of width 8"),
):
    axes.imshow(P, cmap="Blues", vmin=0, vmax=1)
    axes.set_title(title, fontsize=10)
    axes.set(xlabel="key", ylabel="query" if P is P1 else "")
    axes.set_xticks(range(3), ["the", "cat", "sat"])
    axes.set_yticks(range(3), ["the", "cat", "sat"])
    for (i, j), p in np.ndenumerate(P):
        axes.text(j, i, f"{p:.2f}", ha="center", va="center", color="white" if p > 0.6 else "black")
show(figure, "The weights of the worked example: two heads with two patterns, and one head that blends them")

# %% [markdown]
# In the last panel "cat" attends to "the" with weight 0.88: the pattern of head 2 has won, and the weight of
# "sat", which was 0.69 in head 1, is down to 0.11.

# %%
assert np.allclose(P1[1], [0.2537, 0.0566, 0.6897], atol=5e-5)
assert np.allclose(single[0, 0, 1].round(2), [0.88, 0.02, 0.11])
print("cat, one head of width 8:", single[0, 0, 1])

# %% [markdown]
# ## Split: reshape, then transpose
#
# Why not reshape to `(B, H, T, D)` directly? The shape is the same, so there is no error. Number the elements
# to see the difference: element (t, c) is 10 t + c, so the tens digit is the position.

# %%
numbered = (10 * np.arange(3)[:, None] + np.arange(8))[None]  # (1, 3, 8)
right, wrong = split_heads(numbered, 2), numbered.reshape(1, 2, 3, 4)
print("head 0, right: four columns of each position\n", right[0, 0])
print("head 0, wrong: the first position and a half\n", wrong[0, 0])
assert right[0, 0].tolist() == [[0, 1, 2, 3], [10, 11, 12, 13], [20, 21, 22, 23]]
assert wrong[0, 0].tolist() == [[0, 1, 2, 3], [4, 5, 6, 7], [10, 11, 12, 13]]
assert np.array_equal(merge_heads(right), numbered)

# %% [markdown]
# `reshape` never changes the order of elements; it only groups them differently. Splitting the last axis in
# two divides each position into heads, which is right. Reshaping to heads first divides the *sequence*.
#
# **A program that breaks silently.** With the wrong split, "position 1 of head 0" is the second half of token
# 0, and a causal mask (lesson 09) hides the wrong keys. Change the last token, and see which outputs change:


# %%
def causal_self_attention(x, split, merge):
    q = k = v = split(x)
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    scores = np.where(np.tri(scores.shape[-1], dtype=bool), scores, -np.inf)
    e = np.exp(scores - scores.max(-1, keepdims=True))
    return merge(e / e.sum(-1, keepdims=True) @ v)


x = rng.standard_normal((1, 6, 8))
changed = x.copy()
changed[0, -1] += 1  # the last token only
pairs = {"right": (lambda x: split_heads(x, 2), merge_heads)}
pairs["wrong"] = (lambda x: x.reshape(1, 2, 6, 4), lambda x: x.reshape(1, 6, 8))
pairs["merge forgotten"] = (lambda x: split_heads(x, 2), lambda x: x.reshape(1, 6, 8))
for name, pair in pairs.items():
    moved = np.abs(causal_self_attention(changed, *pair) - causal_self_attention(x, *pair)).max(-1)[0]
    print(f"{name:16s} tokens whose output changes with token 5: {np.flatnonzero(moved > 0)}")
    assert (moved[:5] == 0).all() == (name != "merge forgotten")

# %% [markdown]
# Look at the last line: if only the merge lacks its transpose, the output of token 2 depends on a later
# token. Such a model reaches a wonderful training loss and cannot write a sentence.
#
# The wrong split together with the wrong merge does not leak here. But the second half of the sequence
# (head 1) never sees the first half (head 0):

# %%
first = x.copy()
first[0, 0] += 1  # the first token, which all later ones may see
for name in ("right", "wrong"):
    moved = np.abs(causal_self_attention(first, *pairs[name]) - causal_self_attention(x, *pairs[name])).max(
        -1
    )[0]
    print(f"{name:6s} tokens whose output changes with token 0: {np.flatnonzero(moved > 0)}")
    assert (moved[3:] > 0).all() == (name == "right")

# %% [markdown]
# ## Parameters and cost: the same as with one head
#
# There are four matrices of $d_{model} \times d_{model}$, whatever $h$: **$4 d_{model}^2$ weights** (and
# $4 d_{model}$ biases, if there are any). Each head has its part of the columns; nothing is added.
#
# Multiplications: the projections take $4 n d_{model}^2$. The scores of one head take $n^2 d_k$, those of all
# heads $h n^2 d_k = n^2 d_{model}$, and mixing the values takes the same. So $h$ does not matter here either.
#
# It does matter in one place: the weights $P_i$ have $h n^2$ elements, so their memory and the exponentials
# of the softmax grow with $h$.

# %%
print("heads  parameters  multiplications (projections + scores + mixing)  weights kept, n = 128")
for h in (1, 2, 8, 32):
    layer, n, d = MultiHeadAttention(512, h), 128, 512
    parameters = sum(p.numel() for p in layer.parameters())
    multiplications = 4 * n * d * d + 2 * h * n * n * (d // h)
    print(f"{h:5d}  {parameters:10,}  {multiplications:20,} {h * n * n:45,}")
    assert parameters == 4 * 512**2 + 4 * 512 == 1_050_624

# %% [markdown]
# ## Derivation of the backward pass
#
# Let $G$ be the gradient of the loss at the output, $(B, n, d_{model})$. Go back line by line.
#
# **$Y = C W^O$**, where $C$ are the concatenated heads. This is a matrix product (lesson 03):
# $dC = G {W^O}^\top$, and $dW^O = \sum C^\top G$, summed over all positions of all sequences, since all use
# the same $W^O$.
#
# **Merge.** It computes nothing: every element of the heads moves to one position in $C$. Written as a
# matrix, it is a permutation $\Pi$, with one 1 in every row and column. The backward pass of a linear map is
# its transpose, and the transpose of a permutation is its inverse. So *the backward pass of merge is split*,
# and that of split is merge. $d \text{head}$ = `split_heads(dC)`.
#
# **Attention.** As in lesson 08, for each head separately: from $d \text{head}_i$ to $dQ_i$, $dK_i$, $dV_i$.
#
# **Split.** Merge these gradients: $dQ$, $dK$, $dV$, each $(B, \cdot, d_{model})$.
#
# **Projections.** $Q = X W^Q$, $K = M W^K$, $V = M W^V$:
#
# $$dW^Q = \sum X^\top dQ, \qquad dW^K = \sum M^\top dK, \qquad dW^V = \sum M^\top dV$$
#
# $$dX = dQ {W^Q}^\top, \qquad dM = dK {W^K}^\top + dV {W^V}^\top$$
#
# $M$ is used twice, so two gradients add up. In self-attention $X$ *is* $M$: then it is used three times, and
# its gradient is $dX + dM$.


# %%
def rows(x):
    return x.reshape(-1, x.shape[-1])


def multi_head_backward(g, x, memory, W_Q, W_K, W_V, W_O, num_heads):
    q, k, v = (split_heads(y, num_heads) for y in (x @ W_Q, memory @ W_K, memory @ W_V))
    out, p = attention(q, k, v)
    dhead = split_heads(g @ W_O.T, num_heads)  # the backward of merge
    dv = p.swapaxes(-1, -2) @ dhead
    dp = dhead @ v.swapaxes(-1, -2)
    ds = p * (dp - (p * dp).sum(-1, keepdims=True)) / np.sqrt(q.shape[-1])
    dQ, dK, dV = (merge_heads(d) for d in (ds @ k, ds.swapaxes(-1, -2) @ q, dv))  # the backward of split
    dx, dmemory = dQ @ W_Q.T, dK @ W_K.T + dV @ W_V.T
    dW = (
        rows(x).T @ rows(dQ),
        rows(memory).T @ rows(dK),
        rows(memory).T @ rows(dV),
        rows(merge_heads(out)).T @ rows(g),
    )
    return dx, dmemory, *dW


x, memory, matrices = (
    rng.standard_normal((2, 3, 4)),
    rng.standard_normal((2, 5, 4)),
    list(rng.standard_normal((4, 4, 4))),
)
print("gradients", [d.shape for d in multi_head_backward(np.ones((2, 3, 4)), x, memory, *matrices, 2)])

# %% [markdown]
# ## Gradient check
#
# The first check compares cross-attention of 3 positions to 5, with two heads of width 2, with finite
# differences. The second checks self-attention, where the two gradients add up.

# %%
forward = lambda x, memory, *W: multi_head(x, memory, *W, 2)[0]  # noqa: E731
backward = lambda g, x, memory, a, b, c, d: multi_head_backward(g, x, memory, a, b, c, d, 2)  # noqa: E731
assert gradcheck((forward, backward), [x, memory, *matrices])


def self_backward(g, x):
    dx, dmemory, *_ = multi_head_backward(g, x, x, *matrices, 2)
    return dx + dmemory


assert gradcheck((lambda x: multi_head(x, x, *matrices, 2)[0], self_backward), [x])
print("six gradients of cross-attention and one of self-attention: every element is right")

# %% [markdown]
# ## The same in minigrad
#
# `MultiHeadAttention` in `models/attention.py` has `split` and `merge` as here. Its weights have PyTorch's
# layout, (out, in), so $W^Q$ is `q_proj.weight.T`. It also has masks, biases, dropout, and a backward pass.

# %%
layer = MultiHeadAttention(8, 2, bias=False).double()
x = rng.standard_normal((2, 5, 8))
matrices = [p.weight.data.T for p in (layer.q_proj, layer.k_proj, layer.v_proj, layer.out_proj)]
theirs, their_weights = layer(mg.tensor(x), need_weights=True)
ours, our_weights = multi_head(x, x, *matrices, 2)
assert np.allclose(theirs.data, ours, atol=1e-14) and np.allclose(their_weights.data, our_weights, atol=1e-14)
print(layer)

# %% [markdown]
# **Heads have no order.** Move the columns of head 1 before those of head 0 in $W^Q$, $W^K$, $W^V$, and the
# rows of $W^O$ in the same way: the output stays the same. With a wrong split it changes, so this is a good
# test of a split.

# %%
order = np.r_[4:8, 0:4]
moved = [W[:, order] for W in matrices[:3]] + [matrices[3][order]]
assert np.allclose(multi_head(x, x, *moved, 2)[0], ours, atol=1e-14)
print(
    "two heads exchanged: the output changes by",
    np.abs(multi_head(x, x, *moved, 2)[0] - ours).max().round(12),
)


def wrongly_split(x, W_Q, W_K, W_V, W_O):
    q, k, v = ((x @ W).reshape(2, 2, 5, 4) for W in (W_Q, W_K, W_V))  # heads before positions directly
    return attention(q, k, v)[0].reshape(2, 5, 8) @ W_O


difference = np.abs(wrongly_split(x, *moved) - wrongly_split(x, *matrices)).max()
print("with a wrong split:   the output changes by", difference.round(4))
assert difference > 1e-3

# %% [markdown]
# ## More heads are not always better
#
# A small task shows it that needs exactly two attentions. There are eight random letters. The output at each
# position should be the letter one position before it *and* the letter three positions before it (the
# sequence is a ring: the last letter comes before the first). The model is one attention layer with
# $d_{model} = 16$: eight features for the letter, eight for the position. We train it with 1, 2, 4, 8 and 16
# heads, 300 steps each.


# %%
def ring(rng, count, shifts=(1, 3), size=8):
    letters = rng.integers(size, size=(count, size))
    places = np.broadcast_to(np.eye(size), (count, size, size))
    x = np.concatenate([np.eye(size)[letters], places], -1)
    y = np.concatenate([np.eye(size)[np.roll(letters, s, 1)] for s in shifts], -1)
    return mg.tensor(x.astype(np.float32)), mg.tensor(y.astype(np.float32))


def trained(num_heads, steps=300):
    mg.manual_seed(0)
    data, layer = np.random.default_rng(0), MultiHeadAttention(16, num_heads)
    optimizer = optim.Adam(layer.parameters(), lr=0.02)
    for _ in range(steps):
        x, y = ring(data, 32)
        loss = ((layer(x) - y) ** 2).sum(-1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    x, y = ring(np.random.default_rng(1), 500)
    with mg.no_grad():
        return float(((layer(x) - y) ** 2).sum(-1).mean())


x, y = (t.data[0] for t in ring(np.random.default_rng(1), 1))
places = {"letters": x[:, :8], "one before": y[:, :8], "three before": y[:, 8:]}
print({name: "".join("abcdefgh"[i] for i in part.argmax(-1)) for name, part in places.items()})

# %%
heads = (1, 2, 4, 8, 16)
losses = [trained(h) for h in heads]
figure = Figure(figsize=(7, 3.4), layout="constrained")
axes = figure.add_subplot()
axes.plot(heads, losses, "o-", color="#0072B2")
axes.set_title("Two patterns need two heads; sixteen heads of width 1 can hardly select", fontsize=12)
axes.set_xscale("log", base=2)
axes.set_xticks(heads, [f"{h}\n(width {16 // h})" for h in heads])
axes.set(
    xlabel="heads (all layers have the same number of weights)",
    ylabel="squared error on new sequences",
    ylim=(-0.05, None),
)
print({h: round(loss, 3) for h, loss in zip(heads, losses, strict=True)})
assert losses[0] > 0.5 and max(losses[1:3]) < 0.02 and losses[4] > 0.5
show(
    figure,
    "The error after 300 steps: large with one head, nearly 0 with two, four and eight, large again with "
    "sixteen",
)

# %% [markdown]
# With **one head** the output is the average of the two letters, and the model cannot tell which is which.
# **Two** heads are enough. With **sixteen**, each head has one dimension: its score is $q_i k_j$, a product
# of two scalars. A softmax over $q_i k_1, q_i k_2, \dots$ can only favour the largest or the smallest $k_j$;
# it cannot select the fifth of eight. In general the scores of a head are a matrix of rank at most $d_k$ (at
# most $d_k$ of its rows are linearly independent; Bhojanapalli et al. 2020 call this the low-rank
# bottleneck).
#
# In the paper's own experiments (Vaswani et al. 2017, table 3, rows A) one head is 0.9 BLEU (a score for
# translations) below the best setting, and 32 heads are worse than 16. Michel et al. (2019, *Are Sixteen
# Heads Really Better than One?*) remove heads from trained models; without many of them the models are nearly
# as good.

# %%
n, d_model = 8, 16
tokens = rng.standard_normal((n, d_model))
for h in (1, 2, 4, 8, 16):
    q, k = (split_heads((tokens @ rng.standard_normal((d_model, d_model)))[None], h)[0, 0] for _ in range(2))
    rank = np.linalg.matrix_rank(q @ k.T)
    print(f"{h:2d} heads of width {d_model // h:2d}: one head's scores of 8 tokens have rank {rank}")
    assert rank == min(n, d_model // h)

# %% [markdown]
# ## Grouped queries
#
# A model that writes text keeps the keys and values of all tokens so far (a *KV cache*; lesson 14). The cache
# grows with the number of heads of keys and values. **Grouped-query attention** (Ainslie et al. 2023) has
# fewer of them: $h$ heads of queries share $h_{kv}$ heads of keys and values, and each of these serves
# $h / h_{kv}$ neighbouring heads of queries. With $h_{kv} = 1$ this is **multi-query attention** (Shazeer
# 2019). $W^K$ and $W^V$ become narrower by the same factor. In code, each head of keys is repeated for its
# group. In the backward pass the gradients of a group add up, as for anything that is used several times.

# %%
grouped = MultiHeadAttention(64, 8, num_kv_heads=2, bias=False)
print("k_proj", grouped.k_proj.weight.shape, " q_proj", grouped.q_proj.weight.shape)
assert sum(p.numel() for p in grouped.parameters()) == 2 * 64 * 64 + 2 * 64 * 16
k = np.arange(2)[None, :, None, None]  # two heads of keys, numbered
print(
    "repeat:", k.repeat(4, axis=1).ravel(), "  tile (the wrong neighbours):", np.tile(k, (1, 4, 1, 1)).ravel()
)

# %% [markdown]
# ## Edge cases
#
# 1. **One head** is the attention of lesson 08 with projections around it.
# 2. **As many heads as dimensions**: rank 1, see above.
# 3. **One token**: every weight is 1, whatever the head; the output is $X W^V W^O$.
# 4. **$d_{model}$ not a multiple of $h$**: by the convention this is an error, and its message should say so.
#    Q1 has more.

# %%
one = rng.standard_normal((1, 1, 8))
assert np.allclose(multi_head(one, one, *matrices, 4)[0], one @ matrices[2] @ matrices[3])
try:
    MultiHeadAttention(10, 3)
except ValueError as error:
    print(error)

# %% [markdown]
# ## Pitfalls
#
# - **Reshape without transpose**, in split or in merge. No error; see above.
# - **$\sqrt{d_{model}}$ instead of $\sqrt{d_k}$.** The products run over $d_k$ columns.
# - **A mask of shape (T, T) for (B, H, T, T)** broadcasts correctly; a padding mask (B, T) does not mean what
#   you think. Make it (B, 1, 1, T), as in lesson 09.
# - **A seed inside the constructor**: a class that calls `np.random.seed(42)` in its constructor, so that its
#   example always gives the same result. This has two bad consequences: all layers of a model start with the
#   *same* weights, and the caller's own random numbers repeat. The next cell shows both.


# %%
class Seeded:
    def __init__(self):
        np.random.seed(42)
        self.W = np.random.randn(8, 8) * 0.1


np.random.seed(1)
draws = []
for _ in range(2):
    layer = Seeded()
    draws.append(np.random.rand())  # the caller's own random number
print(
    "two layers have equal weights:",
    np.array_equal(Seeded().W, Seeded().W),
    "  the caller's 'random' numbers:",
    draws,
)
assert draws[0] == draws[1]
one, two = MultiHeadAttention(8, 2), MultiHeadAttention(8, 2)
assert (one.q_proj.weight.data != two.q_proj.weight.data).all()

# %% [markdown]
# ## Practice questions

# %% [markdown]
# ### Q1. Why must d_model be divisible by num_heads?
#
# <details><summary>Answer</summary>
#
# By *convention*, so that all heads have the same width: $d_k = d_{model}/h$, and the concatenation is
# $d_{model}$ wide again.
#
# You may read that otherwise concatenation and output projection would not fit. They would: $W^O$ has the
# shape $h d_v \times d_{model}$ for any $d_v$. With $d_{model} = 10$, three heads of width 7 give a
# concatenation of width 21 and a $W^O$ of $21 \times 10$. Even heads of different widths can be put side by
# side. The advantages of the convention are one square matrix for each projection, and the cost of one head.
#
# </details>

# %%
# Q1, recomputed
wide = MultiHeadAttention(10, 3, head_dim=7, bias=False)
assert wide.out_proj.weight.T.shape == (21, 10) and wide(mg.randn(1, 4, 10)).shape == (1, 4, 10)

# %% [markdown]
# ### Q2. In a Transformer with d_model = 512 and 8 heads, what are the dimensions of $W_i^Q$?
#
# <details><summary>Answer</summary>
#
# It maps $d_{model} = 512$ to $d_k = 512 / 8 = 64$ dimensions: $512 \times 64$. Side by side the eight
# matrices are the $512 \times 512$ matrix $W^Q$.
#
# </details>

# %%
# Q2, recomputed
paper = MultiHeadAttention(512, 8)
assert paper.head_dim == 64
assert paper.q_proj.weight.T[:, :64].shape == (512, 64) and paper.q_proj.weight.T.shape == (512, 512)

# %% [markdown]
# ### Q3. Two sequences of ten tokens go through that layer. Which shapes do you see?
#
# Give the shapes of the queries after the split, of the weights, and of the output.
#
# <details><summary>Answer</summary>
#
# Queries (2, 8, 10, 64); weights (2, 8, 10, 10), which are 1,600 elements in 160 rows that each sum to 1;
# output (2, 10, 512).
#
# </details>

# %%
# Q3, recomputed
x3 = mg.randn(2, 10, 512)
with mg.no_grad():
    out3, weights3 = paper(x3, need_weights=True)
assert paper.split(paper.q_proj(x3)).shape == (2, 8, 10, 64)
assert weights3.shape == (2, 8, 10, 10) and out3.shape == (2, 10, 512)
assert (
    weights3.numel() == 1600
    and np.allclose(weights3.data.sum(-1), np.ones((2, 8, 10)), atol=1e-5)
    and 2 * 8 * 10 == 160
)

# %% [markdown]
# ### Q4. Somebody reshapes (1, 6, 8) directly to (1, 2, 6, 4). Which elements are in row 3 of head 1?
#
# (Counting from 0.)
#
# <details><summary>Answer</summary>
#
# Head 1 begins at element 24, which is in token 3. Its row 3 begins 12 elements later, at element 36: token
# 36 // 8 = 4, column 36 % 8 = 4. So row 3 is the second half of token 4; it should be the second half of
# token 3.
#
# </details>

# %%
# Q4, recomputed
entries = (10 * np.arange(6)[:, None] + np.arange(8))[None]
assert entries.reshape(1, 2, 6, 4)[0, 1, 3].tolist() == [44, 45, 46, 47]
assert split_heads(entries, 2)[0, 1, 3].tolist() == [34, 35, 36, 37]

# %% [markdown]
# ### Q5. Why is the gradient of the keys' bias always zero?
#
# <details><summary>Answer</summary>
#
# The bias $b$ is added to every key. The score of a query $q$ with each key changes by the same number,
# $q \cdot b / \sqrt{d_k}$, and a softmax does not change if a number is added to all its inputs (lesson 05).
# So the output does not depend on $b$ at all. Some models have no such bias, and a gradient check should
# expect the zero. The bias of the *queries* does matter, since $b \cdot k_j$ differs from key to key.
#
# </details>

# %%
# Q5, recomputed
biased = MultiHeadAttention(8, 2).double()
(
    biased(mg.tensor(rng.standard_normal((2, 5, 8)))) * mg.tensor(rng.standard_normal((2, 5, 8)))
).sum().backward()
print(
    "largest gradient: bias of keys",
    np.abs(biased.k_proj.bias.grad.data).max(),
    " of queries",
    np.abs(biased.q_proj.bias.grad.data).max(),
)
assert (
    np.abs(biased.k_proj.bias.grad.data).max() < 1e-14 and np.abs(biased.q_proj.bias.grad.data).max() > 1e-4
)

# %% [markdown]
# ### Q6. How large is the cache of keys and values of a language model?
#
# It has 32 layers and 32 heads of width 128, and should keep 8,192 tokens with 2 bytes for each element. And
# with 8 heads of keys and values?
#
# <details><summary>Answer</summary>
#
# Keys and values (2) · 32 layers · 32 heads · 128 · 8,192 tokens · 2 bytes = 4,294,967,296 bytes, 4 GiB for
# one text. With 8 heads of keys and values it is a quarter: 1 GiB.
#
# </details>

# %%
# Q6, recomputed
cache = {kv: 2 * 32 * kv * 128 * 8192 * 2 for kv in (32, 8)}
assert cache[32] == 4_294_967_296 == 4 * 2**30 and cache[8] == 2**30

# %% [markdown]
# ### Q7. Only $W_i^Q {W_i^K}^\top$ matters for head $i$'s scores, not the two matrices alone. What follows?
#
# <details><summary>Answer</summary>
#
# The scores are $X W_i^Q (M W_i^K)^\top = X (W_i^Q {W_i^K}^\top) M^\top$. For any invertible $d_k \times d_k$
# matrix $A$, the pair $W_i^Q A$ and $W_i^K A^{-\top}$ gives the same scores. So a single dimension of queries
# and keys has no meaning by itself. The product is $d_{model} \times d_{model}$ but of rank at most $d_k$: a
# head compares tokens in $d_k$ directions only. Of $2 \cdot 512 \cdot 64 = 65{,}536$ parameters,
# $64^2 = 4{,}096$ are redundant, as many as $A$ has.
#
# </details>

# %%
# Q7, recomputed
Wq, Wk, A = rng.standard_normal((8, 4)), rng.standard_normal((8, 4)), rng.standard_normal((4, 4))
assert np.allclose((Wq @ A) @ (Wk @ np.linalg.inv(A).T).T, Wq @ Wk.T)
assert np.linalg.matrix_rank(Wq @ Wk.T) == 4 and 2 * 512 * 64 == 65_536 and 64**2 == 4_096

# %% [markdown]
# ## What was left out
#
# - **Masks in several heads** are those of lesson 09, broadcast over the axis of heads. Each head may also
#   have its own mask.
# - **Dropout on the weights**, in training but not in evaluation.
# - **One matrix for all three projections**, (d_model, 3 d_model): one product instead of three; the weights
#   of GPT-2 are stored like this.
# - **Pruning heads, and what heads mean**: Voita et al. 2019, *Analyzing Multi-Head Self-Attention*.
#
# ## Sources
#
# - Vaswani et al. 2017, *Attention Is All You Need*, section 3.2.2 and table 3 (A)
# - Shazeer 2019, *Fast Transformer Decoding: One Write-Head is All You Need*; Ainslie et al. 2023, *GQA*
# - Bhojanapalli et al. 2020, *Low-Rank Bottleneck in Multi-head Attention Models*; Michel et al. 2019; Clark
#   et al. 2019
#
# ## Exercises
#
# You will write `split_heads`, `merge_heads`, `count_parameters`, `multi_head_attention` and its backward,
# `permute_heads`, and `grouped_query_attention`. Start with
#
#     python -m tutorials start 10
#
# Next: so far attention does not know the order of the tokens. Lesson 11 gives them positions.
