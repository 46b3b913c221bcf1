# %% [markdown]
# # 08 · Scaled dot-product attention
#
# *Reading: 50 minutes. Exercises: 60 minutes. Needs: lessons 03, 04, 05, 07.*
#
# Lesson 07 ended with a question: if every position of a sequence can attend to every other in one step, what
# is recurrence for? How does a position decide where to look, and how does it learn to?
#
# **You will be able to:**
#
# - explain queries, keys and values, and say what each shape must be when there are $n$ queries and $m$ keys;
# - compute attention by hand, step by step;
# - derive its backward pass through output, softmax and scores, and check it;
# - say why the scores are divided by $\sqrt{d_k}$, and which problem this does not solve;
# - recognise the mistakes that raise no error.
#
# Words you do not know are in the [glossary](../../docs/glossary.md).

# %%
import inspect

import numpy as np
from matplotlib.figure import Figure

import minigrad as mg
import minigrad.nn.functional as F
from minigrad.functional.attention import attention_weights
from minigrad.gradcheck import gradcheck
from tutorials import figures, show

np.set_printoptions(precision=4, suppress=True)

# %% [markdown]
# ## Intuition: a librarian who never says no
#
# You come to a library with a **query**: the thing you want to know. Every book has a **key**, its title, and
# a **value**, its contents. A dictionary in Python works like this too, but only if your query equals a key
# exactly. Otherwise you get a KeyError.
#
# This librarian is different. She compares your query with *every* title and gives each book a score. Then
# she mixes the contents of all books: much of those that fit well, little of those that fit badly. You always
# get an answer. And a slightly different query gives a slightly different answer, so the lookup has a
# derivative and can be learned.
#
# The next cell has three books about two subjects. Each key says how much the book is about cooking, and how
# much about chemistry. The value is a number, say the page count. The score is a dot product, because a dot
# product is large when two vectors point in the same direction.

# %%
keys = np.array([[1.0, 0.0], [0.0, 1.0], [0.7, 0.7]])  # cooking, chemistry, molecular gastronomy
values = np.array([100.0, 400.0, 250.0])


def weights_of(query, keys, sharpness):
    e = np.exp(keys @ query * sharpness)
    return e / e.sum()  # softmax, lesson 05


def ask(query, keys, values, sharpness=1.0):
    return weights_of(query, keys, sharpness) @ values


query = np.array([1.0, 0.2])
for sharpness in (0.0, 1.0, 5.0, 50.0):
    weights, answer = weights_of(query, keys, sharpness), ask(query, keys, values, sharpness)
    print(f"sharpness {sharpness:4}: weights {weights}, answer {answer:6.2f}")

# %% [markdown]
# With sharpness 0 the librarian does not listen and gives you the mean of all books. With 50 she behaves like
# the dictionary: one book, the best. Attention is between these two.
#
# In a Transformer each token's vector is multiplied by three learned matrices (lesson 10). This gives a query
# (what am I looking for?), a key (what can I be found by?) and a value (what do I hand over?). There is no
# more to the names than this.
#
# - **Self-attention**: queries, keys and values come from the same sequence. Each token asks all tokens of
#   its own sentence.
# - **Cross-attention**: queries come from one sequence (the text that the decoder has written so far), keys
#   and values from another (the text that the encoder has read).
#
# The formula is the same for both. (You may read a third name, "general attention", for queries and keys from
# different sources. It means cross-attention.)

# %% [markdown]
# ## Definition
#
# $$\text{Attention}(Q, K, V) = \text{softmax}\left(\frac{Q K^\top}{\sqrt{d_k}}\right) V$$
#
# (Vaswani et al. 2017, equation 1), where the softmax is taken along each row, and
#
# | symbol | shape | meaning |
# | --- | --- | --- |
# | $Q$ | $n \times d_k$ | the queries, one in each row |
# | $K$ | $m \times d_k$ | the keys; as wide as the queries, or they could not be compared |
# | $V$ | $m \times d_v$ | the values; one for each key, of any width |
# | $S = QK^\top / \sqrt{d_k}$ | $n \times m$ | the scores: $S_{ij}$ says how well query $i$ fits key $j$ |
# | $P = \text{softmax}(S)$ | $n \times m$ | the weights: row $i$ is positive and sums to 1 |
# | $O = PV$ | $n \times d_v$ | the output: row $i$ is a weighted mean of the values |
#
# Some texts write $n$ for the rows of all three matrices. That is self-attention, where $m = n$. In
# cross-attention 4 target words may attend to 9 source words, and the weights are $4 \times 9$. If you use
# different $n$ and $m$ in your tests, a matrix transposed by mistake shows at once: its shape does not fit.

# %%
rng = np.random.default_rng(0)
n, m, d_k, d_v = 4, 9, 6, 5
Q, K, V = rng.standard_normal((n, d_k)), rng.standard_normal((m, d_k)), rng.standard_normal((m, d_v))
S = Q @ K.T / np.sqrt(d_k)
P = np.exp(S) / np.exp(S).sum(axis=1, keepdims=True)
out = P @ V
print("scores", S.shape, " weights", P.shape, " output", out.shape)
print("rows of the weights sum to", P.sum(axis=1))
assert out.shape == (n, d_v) and np.allclose(P.sum(axis=1), 1)

# %% [markdown]
# ## A worked example by hand
#
# Three queries, three keys, three values; $d_k = 4$, so $\sqrt{d_k} = 2$.
#
# $$Q = \begin{bmatrix} 1 & 0 & 2 & 1 \\ 0 & 2 & 1 & 0 \\ 1 & 1 & 0 & 2 \end{bmatrix} \quad
# K = \begin{bmatrix} 0 & 1 & 1 & 0 \\ 2 & 0 & 0 & 1 \\ 1 & 2 & 1 & 0 \end{bmatrix} \quad
# V = \begin{bmatrix} 1 & 0 & 1 \\ 1 & 1 & 0 \\ 0 & 1 & 1 \end{bmatrix}$$
#
# **Step 1, the dot products.** The first query with the first key:
# $1\cdot0 + 0\cdot1 + 2\cdot1 + 1\cdot0 = 2$. With the second: $1\cdot2 + 0\cdot0 + 2\cdot0 + 1\cdot1 = 3$.
# With the third: $1\cdot1 + 0\cdot2 + 2\cdot1 + 1\cdot0 = 3$. The other rows are computed in the same way:
#
# $$QK^\top = \begin{bmatrix} 2 & 3 & 3 \\ 3 & 0 & 5 \\ 1 & 4 & 3 \end{bmatrix}$$
#
# **Step 2, divide by 2.** The first row becomes $(1, 1.5, 1.5)$.
#
# **Step 3, softmax of each row.** Subtract the largest element, 1.5, from the first row: $(-0.5, 0, 0)$. Then
# $e^{-0.5} = 0.6065$ and $e^0 = 1$, twice; the sum is $2.6065$. So the weights are $0.6065/2.6065 = 0.2327$,
# and $1/2.6065 = 0.3837$ twice.
#
# **Step 4, the weighted mean of the values.**
# $0.2327 (1,0,1) + 0.3837 (1,1,0) + 0.3837 (0,1,1) = (0.6163, 0.7673, 0.6163)$.

# %%
Q = np.array([[1, 0, 2, 1], [0, 2, 1, 0], [1, 1, 0, 2]], float)
K = np.array([[0, 1, 1, 0], [2, 0, 0, 1], [1, 2, 1, 0]], float)
V = np.array([[1, 0, 1], [1, 1, 0], [0, 1, 1]], float)

products = Q @ K.T
S = products / np.sqrt(4)
e = np.exp(S - S.max(axis=1, keepdims=True))
P = e / e.sum(axis=1, keepdims=True)
out = P @ V
for name, matrix in (("Q K^T", products), ("divided by 2", S), ("weights", P), ("output", out)):
    print(name, matrix, sep="\n")

assert products.tolist() == [[2, 3, 3], [3, 0, 5], [1, 4, 3]]
assert S.tolist() == [[1, 1.5, 1.5], [1.5, 0, 2.5], [0.5, 2, 1.5]]
assert np.allclose(P[0], [0.232697, 0.383652, 0.383652], atol=5e-7)
assert np.allclose(P[1:], [[0.253716, 0.056612, 0.689672], [0.121952, 0.546549, 0.331499]], atol=5e-7)
assert np.allclose(out[0], [0.616348, 0.767303, 0.616348], atol=5e-7)
assert np.allclose(out[1:], [[0.310328, 0.746284, 0.943388], [0.668501, 0.878048, 0.453451]], atol=5e-7)

# %% [markdown]
# The picture shows it: each row of weights distributes an attention of 1 over the keys. The second query
# gives most to the third key ($0.69$), because both are large in their second element.

# %%
figure = Figure(figsize=(7, 3.2), layout="constrained")
figure.suptitle(
    "Each query distributes an attention of 1; its output is the values mixed in that proportion", fontsize=11
)
panels = figure.subplots(1, 3)
titles = ("weights P", "values V", "output O = P V")
for axes, title, matrix, down in zip(panels, titles, (P, V, out), ("query", "key", "query"), strict=True):
    axes.imshow(matrix, cmap="Blues", vmin=0, vmax=2)
    for (i, j), x in np.ndenumerate(matrix):
        axes.text(j, i, f"{x:.2f}", ha="center", va="center")
    axes.set_title(title, fontsize=10)
    axes.set(ylabel=down, xlabel="key" if axes is panels[0] else "column", xticks=range(3), yticks=range(3))
    axes.set_xticklabels([1, 2, 3])
    axes.set_yticklabels([1, 2, 3])
show(figure, "The weights of the worked example, the values they mix, and the output")

# %% [markdown]
# ## Why divide by $\sqrt{d_k}$?
#
# Suppose the elements of a query $q$ and a key $k$ are independent of each other, with mean 0 and variance 1.
# This is roughly true before training. Their dot product is a sum of $d_k$ terms,
#
# $$q \cdot k = \sum_{i=1}^{d_k} q_i k_i .$$
#
# Each term has mean $E[q_i k_i] = E[q_i] E[k_i] = 0$ and variance $E[q_i^2 k_i^2] = E[q_i^2] E[k_i^2] = 1$.
# Variances of independent terms add up, so the dot product has variance $d_k$ and standard deviation
# $\sqrt{d_k}$. Divided by $\sqrt{d_k}$ the scores have variance 1, however wide the vectors are. (This is
# footnote 4 of Vaswani et al. 2017.)

# %%
rng = np.random.default_rng(1)
print("  d_k   std of q.k   sqrt(d_k)   std of the scores")
for d_k in (4, 64, 1024):
    q, k = rng.standard_normal((2, 5000, d_k))
    dots = (q * k).sum(axis=1)
    print(f"{d_k:5} {dots.std():10.3f} {np.sqrt(d_k):11.3f} {(dots / np.sqrt(d_k)).std():15.3f}")
    assert abs(dots.std() / np.sqrt(d_k) - 1) < 0.04

# %% [markdown]
# Why is a large variance bad? Look at the softmax of such scores, and at its slope. By lesson 05,
# $\partial p_i / \partial s_i = p_i (1 - p_i)$ and $\partial p_i / \partial s_j = -p_i p_j$. If one weight is
# almost 1 and the others almost 0, *every* one of these products is almost 0. The softmax is **saturated**:
# hardly any of the loss's gradient arrives at queries and keys, so they would learn very slowly where to
# look.
#
# The picture measures this for random queries and 32 random keys. The left panel shows the largest weight.
# The right panel shows how much of a gradient is left behind the softmax. The loss is $L = \sum_j r_j p_j$
# with random factors $r_j$ (mean 0, variance 1), so $r$ is its gradient with respect to the weights. By the
# two slopes above, the gradient with respect to the scores is
#
# $$\frac{\partial L}{\partial s_j} = \sum_l r_l \frac{\partial p_l}{\partial s_j}
# = p_j \Big( r_j - \sum_l r_l p_l \Big),$$
#
# and the panel shows the length of this vector, $\sqrt{\sum_j (\partial L / \partial s_j)^2}$.

# %%
figure, found = figures.drawn(figures.softmax_saturation)
for how in ("unscaled", "scaled"):
    for what in ("largest", "gradient"):  # columns: low quartile, median, high quartile
        print(f"{how:8} {what:8} median at d_k = 1, 4, 16, 64, 256, 1024:", found[how][what][:, 1])
assert found["unscaled"]["largest"][-1, 1] > 0.99
assert found["unscaled"]["gradient"][-1, 1] < 0.01 * found["scaled"]["gradient"][-1, 1]
show(
    figure,
    "Without the division, a softmax over wide dot products gives all weight to one key and passes no "
    "gradient",
)

# %% [markdown]
# One number says how spread out the attention of a query is: the **entropy** of its row of weights,
#
# $$H = -\sum_{j=1}^{m} p_j \ln p_j ,$$
#
# with the natural logarithm, and $0 \ln 0 = 0$ (its limit). If all weight is on one key, $H = -1 \ln 1 = 0$.
# If all $m$ keys get $1/m$, then $H = -m \cdot \frac1m \ln \frac1m = \ln m$, which is the maximum. For 32
# keys that is 3.466. In a trained model, a head (one of the attentions that run side by side, lesson 10) with
# entropy near 0 has saturated, and a head with entropy near $\ln m$ does not choose.

# %%
rng = np.random.default_rng(2)
q, k = rng.standard_normal((200, 1024)), rng.standard_normal((32, 1024))
for name, scores in (("not scaled", q @ k.T), ("scaled", q @ k.T / 32), ("all alike", np.zeros((200, 32)))):
    p = np.exp(scores - scores.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    H = -(p * np.log(np.where(p > 0, p, 1))).sum(axis=1)
    print(f"{name:10}: entropy of the median query {np.median(H):.3f} of at most {np.log(32):.3f}")
    assert (H <= np.log(32) + 1e-9).all() and abs(np.log(32) - 3.466) < 5e-4

# %% [markdown]
# Three things to keep in mind.
#
# **The division is a good initialization, not a law.** "Independent, mean 0, variance 1" describes the first
# step of training. Afterwards queries and keys learn to fit each other, and the scores grow as large as the
# model needs. The division makes sure that training starts where gradients flow. The argument fails where
# queries and keys depend on each other from the start: the dot product of a vector with *itself* has mean
# $d_k$, not 0.
#
# **The division does not prevent overflow.** You may read that large dot products are numerically unstable
# and that the scaling prevents this. But these are two problems with two remedies. *Saturation*: the exact
# softmax has almost no slope there, in any precision. The remedy is $1/\sqrt{d_k}$. *Overflow*: $e^{710}$ is
# infinite in float64, and $\infty/\infty$ is NaN. The remedy is to subtract the row's maximum before `exp`,
# which changes nothing else (lesson 05). You need both. The next cell shows each alone.
#
# **It is $d_k$, not $d_{model}$**: the width of the vectors that are multiplied, not of the model. With 8
# heads of width 64 in a model of width 512 (see lesson 10) it is $\sqrt{64} = 8$.

# %%
rng = np.random.default_rng(3)
q, k = rng.standard_normal(1024), rng.standard_normal((3, 1024))
raw = k @ q


def naive(s):
    with np.errstate(over="ignore", invalid="ignore"):
        return np.exp(s) / np.exp(s).sum()


def stable(s):
    e = np.exp(s - s.max())
    return e / e.sum()


print("raw dot products              ", raw)
print("maximum subtracted, not scaled", stable(raw), "   finite, but saturated")
print("scaled, nothing subtracted    ", naive(raw / 32), "   fine here ...")
print("scaled, 5000 times the query  ", naive(5000 * raw / 32), "               ... and overflows there")
print("both                          ", stable(raw / 32))
assert stable(raw).max() > 0.999 and np.isnan(naive(5000 * raw / 32)).any() and stable(raw / 32).max() < 0.9

# %% [markdown]
# ## Derivation of the backward pass
#
# The loss $L$ depends on the output $O$. Its gradient there is $G = \partial L / \partial O$, of shape
# $n \times d_v$. We go back through the steps one by one, and you have derived each of them already.
#
# **Through $O = PV$.** This is a matrix product (lesson 03): for $C = AB$ the gradients are $dA = dC B^\top$
# and $dB = A^\top dC$. So
#
# $$dV = P^\top G \quad (m \times d_v), \qquad dP = G V^\top \quad (n \times m).$$
#
# The first formula says: value $j$ collects the gradients of all outputs that used it, with the weights they
# used. The second says: $dP_{ij} = G_i \cdot V_j$, so weight $ij$ should grow if value $j$ points against the
# gradient of output $i$.
#
# **Through the softmax.** Each row separately (lesson 05). For one row $p = \text{softmax}(s)$ with incoming
# gradient $dp$,
#
# $$ds_j = \sum_l dp_l \frac{\partial p_l}{\partial s_j} = \sum_l dp_l p_l (\delta_{lj} - p_j)
#   = p_j \Big( dp_j - \sum_l p_l dp_l \Big).$$
#
# ($\delta_{lj}$ is 1 where $l = j$, else 0.) In words: the gradient of a score is its weight times the
# difference between its $dp$ and the *average* $dp$ of all keys (averaged with the weights). For the whole
# matrix, with $r_i = \sum_l P_{il} dP_{il}$,
#
# $$dS_{ij} = P_{ij} (dP_{ij} - r_i) \quad (n \times m).$$
#
# **Through $S = QK^\top / \sqrt{d_k}$.** This is a matrix product again, with the second factor transposed.
# $S_{ij} = Q_i \cdot K_j / \sqrt{d_k}$, so query $i$ gets $\sum_j dS_{ij} K_j / \sqrt{d_k}$ and key $j$ gets
# $\sum_i dS_{ij} Q_i / \sqrt{d_k}$:
#
# $$dQ = \frac{dS K}{\sqrt{d_k}} \quad (n \times d_k), \qquad
# dK = \frac{dS^\top Q}{\sqrt{d_k}} \quad (m \times d_k).$$
#
# That is all: four matrix products, where the forward pass had two. In words: if the $dp$ of a key is above
# the average, more weight on that key would raise the loss, so gradient descent lowers its score. So a query
# moves towards the keys whose values are more useful than the average, and away from the others.

# %% [markdown]
# ### By hand, on the worked example
#
# Let the loss be the first element of the first output row, $L = O_{11} = 0.6163$. Then $G$ is 1 in its top
# left corner and 0 elsewhere, and only the first query matters.
#
# - $dP_1 = G_1 V^\top$ is the first column of $V$: $(1, 1, 0)$.
# - The average is $r_1 = 0.2327\cdot1 + 0.3837\cdot1 + 0.3837\cdot0 = 0.6163$.
# - $dS_1 = (0.2327 (1 - 0.6163),\ 0.3837 (1 - 0.6163),\ 0.3837 (0 - 0.6163)) = (0.0893, 0.1472, -0.2365)$. It
#   sums to 0.
# - $dQ_1 = \tfrac12 (0.0893 K_1 + 0.1472 K_2 - 0.2365 K_3)$. Its first element is
#   $\tfrac12(0 + 0.2944 - 0.2365) = 0.0290$, and $dQ_1 = (0.0290, -0.1918, -0.0736, 0.0736)$.
# - $dK_1 = \tfrac12 \cdot 0.0893 Q_1 = (0.0446, 0, 0.0893, 0.0446)$.
# - $dV$ has the weights $(0.2327, 0.3837, 0.3837)$ in its first column.
#
# You may have noticed that $r_1$ equals $O_{11}$. That is no accident:
# $r_i = \sum_j P_{ij} (G_i \cdot V_j) = G_i \cdot O_i$. So the sum over $m$ keys can be replaced by a sum
# over $d_v$ columns of an output that the forward pass has computed anyway. Implementations use this (Dao et
# al. 2022, algorithm 4; ours too), and with this trick a backward pass need not keep all weights.

# %%
G = np.zeros((3, 3))
G[0, 0] = 1.0

dV = P.T @ G
dP = G @ V.T
dS = P * (dP - (P * dP).sum(axis=1, keepdims=True))
dQ = dS @ K / 2
dK = dS.T @ Q / 2
for name, matrix in (("dP", dP), ("dS", dS), ("dQ", dQ), ("dK", dK)):
    print(f"{name}, first row:   ", matrix[0])
print("dV, first column:", dV[:, 0])

assert dP[0].tolist() == [1, 1, 0]
assert np.allclose(dS[0], [0.089275, 0.147189, -0.236463], atol=1e-6) and abs(dS[0].sum()) < 1e-15
assert np.allclose(dQ[0], [0.028957, -0.191826, -0.073594, 0.073594], atol=1e-6) and (dQ[1:] == 0).all()
assert np.allclose(dK[0], [0.044637, 0, 0.089275, 0.044637], atol=1e-6)
assert np.allclose(dV[:, 0], [0.232697, 0.383652, 0.383652], atol=1e-6)
assert np.allclose((P * dP).sum(axis=1), (G * out).sum(axis=1))  # r_i = G_i . O_i

# %% [markdown]
# ## Code
#
# This code works for any shapes, batches and heads included. `@` multiplies the last two axes and broadcasts
# the axes in front of them; `.mT` swaps the last two axes.

# %%


def attention(q, k, v):
    """q (..., n, d_k), k (..., m, d_k), v (..., m, d_v) -> output (..., n, d_v), weights (..., n, m)."""
    scores = q @ k.mT / np.sqrt(q.shape[-1])  # (..., n, m)
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    p = e / e.sum(axis=-1, keepdims=True)
    return p @ v, p  # (..., n, d_v)


def attention_backward(g, q, k, v):
    """The gradients of q, k and v, given g (..., n, d_v), the gradient of the output."""
    _, p = attention(q, k, v)
    scale = 1 / np.sqrt(q.shape[-1])
    dv = p.mT @ g  # (..., m, d_v)
    dp = g @ v.mT  # (..., n, m)
    ds = p * (dp - (p * dp).sum(axis=-1, keepdims=True))
    return ds @ k * scale, ds.mT @ q * scale, dv


rng = np.random.default_rng(3)
q, k, v = (
    rng.standard_normal((2, 8, 4, 6)),
    rng.standard_normal((2, 8, 9, 6)),
    rng.standard_normal((2, 8, 9, 5)),
)
out, p = attention(q, k, v)
print("2 sentences, 8 heads, 4 queries, 9 keys: output", out.shape, "weights", p.shape)

# %% [markdown]
# ### The same in minigrad
#
# minigrad has attention twice, and a test makes sure that both are equal. `minigrad/functional/attention.py`
# has the **definition**, composed from ops that have their own derivatives, so it needs no backward pass.
# Here is its function for the weights: you will recognise the lines. (Masks are the subject of lesson 09.)

# %%
print(inspect.getsource(attention_weights))

# %% [markdown]
# `minigrad/kernels/attention.py` has the **kernel**: forward and backward pass written by hand, as above,
# with three savings. It multiplies $K^T$ by the scale, because $K^T$ is smaller than the scores. It searches
# no row for its maximum if the scores are small, as they nearly always are. And it computes $r_i$ as
# $G_i \cdot O_i$. `F.scaled_dot_product_attention` uses the kernel unless you ask for definitions.

# %%
leaves = [mg.tensor(x, requires_grad=True) for x in (q, k, v)]
ours = F.scaled_dot_product_attention(*leaves)
with mg.definitions():
    composed = F.scaled_dot_product_attention(*leaves)
g = rng.standard_normal(out.shape)
by_engine = mg.grad(composed, leaves, mg.tensor(g))
by_hand = attention_backward(g, q, k, v)
print("largest difference, output:   ", abs(ours.data - out).max(), abs(composed.data - out).max())
print(
    "largest difference, gradients:",
    max(abs(a.data - b).max() for a, b in zip(by_engine, by_hand, strict=True)),
)
assert np.allclose(ours.data, out, atol=1e-14) and np.allclose(composed.data, out, atol=1e-14)
assert all(np.allclose(a.data, b, atol=1e-13) for a, b in zip(by_engine, by_hand, strict=True))

# %% [markdown]
# ## Gradient check
#
# First our own pair of functions, then minigrad's kernel at first and second order. Then a backward pass with
# a common mistake: the scale is in the forward pass but forgotten in the backward pass. The shapes are right,
# the signs are right, and training even works. The check reports it.

# %%
small = [rng.standard_normal(shape) for shape in ((2, 3, 4), (2, 5, 4), (2, 5, 2))]
assert gradcheck((lambda q, k, v: attention(q, k, v)[0], attention_backward), small)
leaves = [mg.tensor(x, requires_grad=True) for x in small]
assert gradcheck(F.scaled_dot_product_attention, leaves) and gradcheck(
    F.scaled_dot_product_attention, leaves, order=2
)
print("our backward pass and minigrad's are right\n")


def without_scale(g, q, k, v):
    dq, dk, dv = attention_backward(g, q, k, v)
    return dq * np.sqrt(q.shape[-1]), dk * np.sqrt(q.shape[-1]), dv


try:
    gradcheck((lambda q, k, v: attention(q, k, v)[0], without_scale), small)
except AssertionError as error:
    print(error)

# %% [markdown]
# ## Edge cases
#
# **One key.** A softmax over one score is 1, whatever the score. The output is the value, and no gradient
# reaches query or key: there was nothing to choose.
#
# **Identical keys** all get the same score, so the weights are uniform. The *keys* must be equal to each
# other for this. If $Q$ equals $K$, the weights are not uniform: each token then usually has its highest
# score with itself.
#
# **A query of zeros** has score 0 with every key, so its weights are uniform too.
#
# **Order.** If you shuffle keys and values together, nothing changes. If you shuffle the queries, the outputs
# are shuffled. Attention sees a set, not a sequence. Lesson 11 gives it positions.
#
# **Long sequences.** $n$ queries and $n$ keys make $n^2$ weights: for 1000 tokens, 1,000,000. Lesson 16 is
# about this cost.

# %%
rng = np.random.default_rng(4)
q, k, v = rng.standard_normal((5, 4)), rng.standard_normal((5, 4)), rng.standard_normal((5, 3))

out, p = attention(q, k[:1], v[:1])
dq, dk, dv = attention_backward(np.ones((5, 3)), q, k[:1], v[:1])
assert (p == 1).all() and np.allclose(out, v[0]) and not dq.any() and not dk.any()

_, equal_keys = attention(q, np.repeat(k[:1], 5, axis=0), v)
_, q_is_k = attention(k, k, v)
_, no_query = attention(np.zeros((1, 4)), k, v)
print("equal keys:\n", equal_keys[:2], "\nqueries equal to the keys:\n", q_is_k)
assert np.allclose(equal_keys, 0.2) and np.allclose(no_query, 0.2) and abs(q_is_k - 0.2).max() > 0.3

order = rng.permutation(5)
assert np.allclose(attention(q, k[order], v[order])[0], attention(q, k, v)[0])
assert np.allclose(attention(q[order], k, v)[0], attention(q, k, v)[0][order])
print("weights of 1000 tokens:", attention(*[np.zeros((1000, 1))] * 3)[1].size)

# %% [markdown]
# ## Pitfalls
#
# ### Programs that break, and programs that don't
#
# Many programs have `np.dot(Q, K.T)`. That is right for arrays with two axes only. With a batch, `.T`
# reverses *all* axes. If you are lucky, the shapes do not fit and you get an error. If batch, length and
# width happen to be equal, you get wrong numbers.

# %%
rng = np.random.default_rng(5)
q, k = rng.standard_normal((2, 2, 5, 3))  # two arrays (batch 2, length 5, width 3)
try:
    q @ k.T
except ValueError as error:
    print("ValueError:", str(error)[:95], "...")
print("np.dot of a batch:", np.dot(q, k.mT).shape, " it also multiplies each sentence with every other")

cube_q, cube_k = rng.standard_normal((2, 3, 3, 3))
print(
    "all axes 3: no error; largest difference from the correct result:",
    abs(cube_q @ cube_k.T - cube_q @ cube_k.mT).max(),
)
assert np.dot(q, k.mT).shape == (2, 5, 2, 5) and abs(cube_q @ cube_k.T - cube_q @ cube_k.mT).max() > 1

# %% [markdown]
# The axis of the softmax is the other silent mistake. Along `axis=-2` the weights of each *key* sum to 1 over
# the queries. The shape is the same, training runs, and there is no error. One line finds it:
# `weights.sum(axis=-1)`.

# %%
s = q @ k.mT / np.sqrt(3)
e = np.exp(s)
wrong = e / e.sum(axis=-2, keepdims=True)
print("rows sum to", wrong.sum(axis=-1)[0], "- should be 1 each")
assert abs(wrong.sum(axis=-1) - 1).max() > 0.2

# %% [markdown]
# **A forgotten scale** raises no error either. By the medians above, at $d_k = 64$ one key of 32 gets 0.93 of
# the attention, and a fifth of the gradient passes. So the model learns slowly, and you search for the reason
# elsewhere. $\sqrt{d_{model}}$ instead of $\sqrt{d_k}$ is the opposite mistake: with 8 heads the scores are
# $\sqrt 8 = 2.8$ times too small, and the attention is too even.
#
# ### Questions learners ask
#
# **Do attention weights show what was important?** They show how values were mixed. A key with a large weight
# and a small value contributes little. And in a deep model, the vector at a position is already a mixture of
# other positions. Jain & Wallace (2019) show that quite different weights can give the same predictions. Look
# at weights, but do not take them for an explanation.
#
# **Why a dot product, and not something learned?** The first attention (Bahdanau et al. 2015) computed scores
# with a small network, $v^\top \tanh(Wq + Uk)$. You saw it in lesson 07. A dot product of learned projections
# (vectors multiplied by a learned matrix) is one matrix product for all pairs, so it is faster and needs less
# memory. For small $d_k$ both work about equally well; for large $d_k$ only with the scaling (Vaswani et al.,
# section 3.2.1).
#
# **Why are keys and values different?** A word can be found by one property and hand over another. "Not" is
# found as a negation; its value should say "negate this".
#
# **Should I average the weights over the batch, or the gradients?** Neither: each query has its own softmax.
# The forward pass has no sum over queries. In the backward pass, $dK$ and $dV$ do sum over queries, because
# all queries use the same keys and values.

# %%
v_small = np.array([[0.0], [1.0]])
out, p = attention(np.array([[3.0]]), np.array([[1.0], [0.2]]), v_small)
largest, passed = (
    found["unscaled"]["largest"][3, 1],
    found["unscaled"]["gradient"][3, 1] / found["scaled"]["gradient"][3, 1],
)
print("d_k = 64, not scaled: largest weight", largest, " fraction of the gradient that passes", passed)
assert abs(largest - 0.93) < 0.005 and 0.15 < passed < 0.25 and abs(np.sqrt(8) - 2.8) < 0.05
print("weights", p[0], "fractions of the output", (p[0] * v_small[:, 0]) / out[0, 0])
assert p[0, 0] > 0.9 and p[0, 0] * v_small[0, 0] == 0.0

# %% [markdown]
# ## Practice questions
#
# ### Q1. Compute attention for $Q = [1, 0]$, $K = [[1,0],[0,1],[1,1]]$, $V = [[1],[0],[1]]$, with scaling.
#
# <details><summary>Answer</summary>
#
# $QK^\top = (1, 0, 1)$. With $d_k = 2$ the scores are $(0.7071, 0, 0.7071)$. Exponentials:
# $2.0281, 1, 2.0281$, with sum $5.0562$. Weights: $0.4011, 0.1978, 0.4011$. Output:
# $0.4011 + 0.4011 = 0.8022$.
#
# </details>

# %%
# Q1, recomputed
out, p = attention(np.array([[1.0, 0.0]]), np.array([[1.0, 0], [0, 1], [1, 1]]), np.array([[1.0], [0], [1]]))
print(np.exp(1 / np.sqrt(2)), p, out)
assert abs(np.exp(1 / np.sqrt(2)) - 2.028115) < 1e-6 and abs(2 * np.exp(1 / np.sqrt(2)) + 1 - 5.056230) < 1e-6
assert np.allclose(p, [[0.401112, 0.197776, 0.401112]], atol=1e-6) and abs(out[0, 0] - 0.802224) < 1e-6

# %% [markdown]
# ### Q2. 5 queries attend to 7 keys; $d_k = 4$, $d_v = 3$. Which shapes, and how many multiplications?
#
# <details><summary>Answer</summary>
#
# Scores and weights are $5 \times 7$, the output is $5 \times 3$. $QK^\top$: each of $35$ elements is a sum
# of 4 products, $140$ in all. $PV$: each of $15$ elements is a sum of 7 products, $105$. Together that is
# $245$.
#
# </details>

# %%
# Q2, recomputed
q, k, v = np.ones((5, 4)), np.ones((7, 4)), np.ones((7, 3))
out, p = attention(q, k, v)
multiplications = int((q @ k.T).sum() + (np.ones((5, 7)) @ v).sum())  # with ones, each product counts 1
print(p.shape, out.shape, multiplications)
assert p.shape == (5, 7) and out.shape == (5, 3) and multiplications == 140 + 105 == 245

# %% [markdown]
# ### Q3. What happens to the attention weights if we leave out the scaling for $d_k = 1024$?
#
# <details><summary>Answer</summary>
#
# If the elements of queries and keys are independent with mean 0 and variance 1 (the answer depends on that),
# the dot products have variance 1024 and standard deviation 32. Differences of that size in an exponent leave
# one weight near 1: with 32 keys, half of all queries give more than 0.99 of their attention to one key,
# against about 0.15 with the scaling. The gradient that passes through the softmax is then less than a
# hundredth of what it is with the scaling, so queries and keys hardly learn.
#
# </details>

# %%
# Q3, recomputed
medians = {how: {what: float(found[how][what][-1, 1]) for what in ("largest", "gradient")} for how in found}
unscaled, scaled = medians["unscaled"], medians["scaled"]
print("medians at d_k = 1024, without:", unscaled, "\n                       with:   ", scaled)
assert np.sqrt(1024) == 32 and unscaled["largest"] > 0.99 and abs(scaled["largest"] - 0.15) < 0.05
assert unscaled["gradient"] < scaled["gradient"] / 100

# %% [markdown]
# ### Q4. You add the same vector $c$ to every key. What changes? What follows for a bias of the keys?
#
# <details><summary>Answer</summary>
#
# Nothing. $q_i \cdot (k_j + c) = q_i \cdot k_j + q_i \cdot c$: every score of query $i$ grows by the same
# number, and this does not change a softmax (lesson 05). So a bias in the layer that computes the keys always
# has gradient 0: $\sum_j dK_j = \sum_i (\sum_j dS_{ij})  Q_i / \sqrt{d_k}$, and each row of $dS$ sums to 0.
# minigrad's gradient check reports it as "zero gradient" rather than as a success.
#
# </details>

# %%
# Q4, recomputed
rng = np.random.default_rng(6)
q, k, v, c = (
    rng.standard_normal((5, 4)),
    rng.standard_normal((7, 4)),
    rng.standard_normal((7, 3)),
    rng.standard_normal(4),
)
_, dk, _ = attention_backward(rng.standard_normal((5, 3)), q, k, v)
print(
    "change of the output:",
    abs(attention(q, k + c, v)[0] - attention(q, k, v)[0]).max(),
    " sum of dK:",
    dk.sum(axis=0),
)
assert np.allclose(attention(q, k + c, v)[0], attention(q, k, v)[0]) and np.allclose(dk.sum(axis=0), 0)

# %% [markdown]
# ### Q5. Can an output be larger than every value in its column? Can it be zero if all values are positive?
#
# <details><summary>Answer</summary>
#
# Neither. The weights are positive and sum to 1, so each output lies between the smallest and the largest
# value of its column. If all values are equal, the output equals them whatever the scores: attention can only
# choose among the values it has. New values come from the projections around it (lesson 10) and the
# feed-forward layer after it (lesson 12).
#
# </details>

# %%
# Q5, recomputed
v = rng.standard_normal((7, 3))
outs = np.array([attention(10 * rng.standard_normal((5, 4)), k, v)[0] for _ in range(1000)])
print(
    "values from",
    v.min(axis=0),
    "to",
    v.max(axis=0),
    "\noutputs from",
    outs.min((0, 1)),
    "to",
    outs.max((0, 1)),
)
assert (outs.min((0, 1)) >= v.min(axis=0) - 1e-12).all() and (outs.max((0, 1)) <= v.max(axis=0) + 1e-12).all()

# %% [markdown]
# ### Q6. Two keys have weights $(0.99, 0.01)$. How large is the slope, compared with weights $(0.5, 0.5)$?
#
# <details><summary>Answer</summary>
#
# With two keys, $p_1 = \sigma(s_1 - s_2)$ and the slope is $p_1 p_2$: $0.99 \cdot 0.01 = 0.0099$ against
# $0.5 \cdot 0.5 = 0.25$, about 25 times less. To reach $(0.99, 0.01)$ the scores differ by $\ln 99 = 4.595$.
# For unscaled vectors of width 64 the difference of two dot products has a standard deviation of
# $\sqrt{2 \cdot 64} = 11.3$, so most pairs differ by more than $4.595$ from the start.
#
# </details>

# %%
# Q6, recomputed
rng = np.random.default_rng(7)
beyond = np.mean(abs(np.sqrt(128) * rng.standard_normal(100_000)) > np.log(99))
print(0.99 * 0.01, 0.25 / 0.0099, np.log(99), np.sqrt(128), "fraction beyond:", beyond)
assert (
    abs(0.25 / 0.0099 - 25) < 0.3
    and abs(np.log(99) - 4.595) < 1e-3
    and abs(np.sqrt(128) - 11.3) < 0.02
    and beyond > 0.65
)

# %% [markdown]
# ### Q7. The backward pass needs the weights $P$. What must the forward pass keep if it does not keep $P$?
#
# <details><summary>Answer</summary>
#
# $dS = P \circ (dP - r)$ (where $\circ$ is the elementwise product) needs $P$, which is $n \times m$: the
# largest array of all. But $P_{ij} = e^{S_{ij} - \ell_i}$, where $\ell_i = \log \sum_j e^{S_{ij}}$ is one
# number for each row. Keep $Q, K, V, O$ and $\ell$, compute $S$ again, piece by piece, and use
# $r_i = G_i \cdot O_i$. For $n = m = 4096$ and $d_k = 64$, $\ell$ has 4096 elements and $P$ has 16,777,216.
# FlashAttention does this (Dao et al. 2022), and so does `minigrad/kernels/blocked_attention.py`.
#
# </details>

# %%
# Q7, recomputed
q, k, v, g = (rng.standard_normal(shape) for shape in ((5, 4), (7, 4), (7, 3), (5, 3)))
out, p = attention(q, k, v)
scores = q @ k.T / 2
ell = np.log(np.exp(scores).sum(axis=1, keepdims=True))
p_again = np.exp(scores - ell)
ds = p_again * (g @ v.T - (g * out).sum(axis=1, keepdims=True))
assert (
    np.allclose(p_again, p)
    and np.allclose(ds @ k / 2, attention_backward(g, q, k, v)[0])
    and 4096**2 == 16_777_216
)
print("largest difference of dQ:", abs(ds @ k / 2 - attention_backward(g, q, k, v)[0]).max())

# %% [markdown]
# ## What was left out
#
# - **Masks**: which query must not attend to which key. Lesson 09.
# - **Several heads** and the projections that compute queries, keys and values. Lesson 10.
# - **Order**. Lesson 11.
# - **Dropout on the weights**, which the paper's code uses in training. In minigrad: `dropout_p`.
# - **Time and memory**, and attention in blocks. Lesson 16.
#
# ## Sources
#
# - Vaswani et al. 2017, *Attention Is All You Need*, section 3.2.1: equation 1, and footnote 4 on the
#   variance.
# - Bahdanau, Cho & Bengio 2015, *Neural Machine Translation by Jointly Learning to Align and Translate*:
#   attention by a small network.
# - Luong, Pham & Manning 2015, *Effective Approaches to Attention-based Neural Machine Translation*, section
#   3.1: scores by dot product.
# - Dao et al. 2022, *FlashAttention*, algorithm 4: the backward without the weights.
# - Jain & Wallace 2019, *Attention is not Explanation*.
#
# ## Exercises
#
# `python -m tutorials start 08` puts a file into your folder, with six functions to write: the librarian's
# answer to one query, the weights for batches, attention, its entropy (how spread out it is), the whole
# backward pass, and the backward pass when all heads share their keys and values.
# `python -m tutorials check 08` tests them.
