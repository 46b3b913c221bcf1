# %% [markdown]
# # 11 · Positions
#
# *Reading: 40 minutes. Exercises: 50 minutes. Needs: lessons 08, 09, 10.*
#
# To attention, "dog bites man" and "man bites dog" are the same three words. How can a model know the order
# of its tokens, and how *far* two tokens are apart?
#
# **You will be able to:**
#
# - show that attention alone cannot tell one order from another
# - compute the sinusoidal encoding by hand, and say why each pair of columns has one frequency
# - derive why moving by k positions is a fixed linear map
# - derive rotary positions from one requirement, and write their backward pass in one line
# - compare learned, sinusoidal and rotary positions beyond the length they were trained on
#
# Words you do not know are in the [glossary](../../docs/glossary.md).

# %%
import math

import numpy as np
from matplotlib.figure import Figure

import minigrad as mg
from minigrad import functional as F
from minigrad import nn, optim
from minigrad.gradcheck import gradcheck
from models.attention import MultiHeadAttention, causal_mask
from models.positional import LearnedPositions, Rotary, alibi, interleaved_to_halves
from models.positional import sinusoidal as table_of_minigrad
from tutorials import figures, show

rng = np.random.default_rng(11)
mg.manual_seed(11)
np.set_printoptions(precision=4, suppress=True)

# %% [markdown]
# ## Intuition: a set has no order
#
# A token's output in attention is a sum over all tokens, each with a weight that depends on its key. A sum
# does not depend on the order of its terms. So if you shuffle the tokens, each token gets *the same* output
# as before, and the outputs are shuffled in the same way. This is called **permutation equivariance**.
#
# In symbols: let $\Pi$ be the matrix that shuffles rows, so $\Pi X$ are the shuffled tokens. The scores
# become $(\Pi Q)(\Pi K)^\top = \Pi (QK^\top) \Pi^\top$: rows and columns are shuffled. Shuffling the scores
# of a row shuffles their softmax in the same way, so $P$ becomes $\Pi P \Pi^\top$. Then
# $\Pi P \Pi^\top \Pi V = \Pi (PV)$, because $\Pi^\top \Pi = I$.


# %%
def attention(q, k, v):
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    e = np.exp(scores - scores.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True) @ v


words = dict(zip(("dog", "bites", "man"), rng.standard_normal((3, 4)), strict=True))
for sentence in (("dog", "bites", "man"), ("man", "bites", "dog")):
    x = np.array([words[word] for word in sentence])
    out = dict(zip(sentence, attention(x, x, x), strict=True))
    print(" ".join(sentence), " the output of 'bites':", out["bites"])

x, order = rng.standard_normal((5, 4)), np.array([4, 2, 0, 1, 3])
assert np.allclose(attention(x[order], x[order], x[order]), attention(x, x, x)[order], atol=1e-15)

# %% [markdown]
# The output of 'bites' is the same, so the model cannot know who bites whom. A feed-forward network
# (lesson 12) treats each position separately, so it does not help either: a whole Transformer without
# positions does not see order. (With a causal mask it sees a little: see Q6.)
#
# There are two kinds of remedies. **Add** a vector to each token that encodes its position: sinusoidal and
# learned positions. Or put the distance **into the attention**: rotary positions and ALiBi.

# %% [markdown]
# ## Definition: sinusoidal positions
#
# The vector $PE(pos) \in \mathbb{R}^{d_{model}}$ (the *positional encoding*) is added to the vector of the
# token at position $pos$ (0, 1, 2, ...) (Vaswani et al. 2017, section 3.5):
#
# $$PE(pos, 2i) = \sin\left(\frac{pos}{10000^{2i/d_{model}}}\right), \qquad
# PE(pos, 2i+1) = \cos\left(\frac{pos}{10000^{2i/d_{model}}}\right)$$
#
# where $i = 0, 1, \dots, d_{model}/2 - 1$ is the index of a *pair* of columns. Write
# $\omega_i = 10000^{-2i/d_{model}}$ for its **frequency**; then a pair is
# $(\sin \omega_i \cdot pos, \cos \omega_i \cdot pos)$. This is the hand of a clock that rotates by $\omega_i$
# for each position. The first clock is fast ($\omega_0 = 1$, a full rotation in 6.28 positions), and each
# next one is slower by the same factor. Like the hands for seconds, minutes and hours, fast clocks
# distinguish near positions and slow clocks distant ones.
#
# A sine and its cosine have *one* frequency. Everything below depends on that.

# %% [markdown]
# ## A worked example by hand
#
# $d_{model} = 6$: three pairs. Their divisors are $10000^{0} = 1$, $10000^{2/6} = 21.544$ and
# $10000^{4/6} = 464.16$.
#
# **Position 0.** All sines are 0, all cosines 1: $PE(0) = (0, 1, 0, 1, 0, 1)$.
#
# **Position 1.** $\sin 1 = 0.8415$, $\cos 1 = 0.5403$. Then 1 / 21.544 = 0.046416, whose sine is 0.0464 and
# whose cosine is 0.9989. Then 1 / 464.16 = 0.0021544, whose sine is 0.0022 and whose cosine is 1.0000:
#
# $$PE(1) = (0.8415, 0.5403, 0.0464, 0.9989, 0.0022, 1.0000)$$
#
# A common mistake here is to take 10 for $10000^{2/6}$ and 1000 for $10000^{4/6}$, which gives sines of 0.100
# and 0.001. But 10 is $10000^{1/4}$.


# %%
def sinusoidal(length, d_model):
    column = np.arange(d_model)
    angle = np.arange(length)[:, None] / 10000.0 ** (column // 2 * 2 / d_model)  # (length, d_model)
    return np.where(column % 2 == 0, np.sin(angle), np.cos(angle))


print("divisors", [round(10000 ** (c / 6), 4) for c in (0, 2, 4)])
print(sinusoidal(2, 6))
assert [round(10000 ** (c / 6), 3) for c in (0, 2, 4)] == [1.0, 21.544, 464.159]
assert round(1 / 10000 ** (2 / 6), 6) == 0.046416 and round(1 / 10000 ** (4 / 6), 7) == 0.0021544
assert sinusoidal(2, 6)[0].tolist() == [0, 1, 0, 1, 0, 1]
assert np.allclose(
    sinusoidal(2, 6)[1], [0.841471, 0.540302, 0.046399, 0.998923, 0.002154, 0.999998], atol=5e-7
)
assert round(10000 ** (1 / 4), 9) == 10

# %% [markdown]
# ## Derivation: k positions further is one fixed matrix
#
# Take one pair, and let $a = \omega \cdot pos$, $b = \omega k$. By the addition theorems of sine and cosine
#
# $$\sin(a + b) = \cos b \sin a + \sin b \cos a, \qquad \cos(a + b) = -\sin b \sin a + \cos b \cos a$$
#
# As a matrix product this is
#
# $$\begin{pmatrix} \sin \omega(pos + k) \\ \cos \omega(pos + k) \end{pmatrix} =
# \begin{pmatrix} \cos \omega k & \sin \omega k \\ -\sin \omega k & \cos \omega k \end{pmatrix}
# \begin{pmatrix} \sin \omega \cdot pos \\ \cos \omega \cdot pos \end{pmatrix}$$
#
# The matrix does not contain $pos$. With one such block for each pair, $PE(pos + k) = M_k PE(pos)$: *the
# same* $M_k$ at every position.
#
# For the dot product of two positions, $\sin a \sin b + \cos a \cos b = \cos(a - b)$ gives
#
# $$PE(pos) \cdot PE(pos + k) = \sum_i \cos(\omega_i k)$$
#
# which depends on the distance alone.


# %%
def shift_matrix(k, d_model):
    M = np.zeros((d_model, d_model))
    for i in range(0, d_model, 2):
        angle = k / 10000.0 ** (i / d_model)
        M[i : i + 2, i : i + 2] = [[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]]
    return M


table = sinusoidal(200, 64)
for k in (1, 7, 50):
    assert np.allclose(table[:-k] @ shift_matrix(k, 64).T, table[k:], atol=1e-12)  # rows, so M is transposed
    products = (table[:-k] * table[k:]).sum(-1)
    assert np.allclose(products, np.cos(k * 10000.0 ** (-np.arange(0, 64, 2) / 64)).sum(), atol=1e-12)
    print(
        f"k = {k:2d}: PE(pos) . PE(pos + k) is {products[0]:.3f} at pos 0 and {products[-1]:.3f} at pos "
        f"{len(products) - 1}"
    )

# %%
picture, (drawn, _) = figures.drawn(figures.positions)
assert np.allclose(drawn, sinusoidal(100, 64), atol=1e-6)
show(
    picture,
    "The sinusoidal table, the dot products of all pairs of positions, and three rows of these: the same "
    "hill, moved",
)

# %% [markdown]
# This much is proved. You will often read a conclusion from it: so the model can easily learn to attend to
# relative positions. In the paper this is explicitly a hypothesis ("we hypothesized"), and it is less direct
# than it sounds. Attention compares $(x + p)W^Q$ with $(x' + p')W^K$, where $x$ is a token and $p$ its
# encoding. Multiplied out,
#
# $$(x + p) A (x' + p')^\top = x A x'^\top + x A p'^\top + p A x'^\top + p A p'^\top, \qquad
# A = W^Q {W^K}^\top$$
#
# Only the last term compares positions, and it depends on the distance alone only for special matrices $A$. A
# random one is not special:

# %%
A = rng.standard_normal((64, 64)) / 64
for name, matrix in (("A = identity", np.eye(64)), ("A random", A)):
    scores = [table[pos] @ matrix @ table[pos + 5] for pos in (0, 40, 80, 120)]
    print(f"{name:13s} scores of positions 5 apart:", np.array(scores))
    assert (np.ptp(scores) < 1e-12) == (name == "A = identity")

# %% [markdown]
# ## Learned positions
#
# The simplest idea is a table of weights with one row for each position up to a largest length, trained like
# any other parameter. BERT and GPT-2 do this.
#
# $$y_{b,t} = x_{b,t} + W[t], \qquad W \in \mathbb{R}^{T_{max} \times d_{model}}$$
#
# In the backward pass $dx = g$: an addition passes the gradient on. Every sequence of the batch used row $t$
# of $W$, so its gradients add up: $dW[t] = \sum_b g_{b,t}$. In general, with positions given as an array of
# row indices, *each use of a row adds its gradient to that row*.
#
# **A program that breaks.** `dW[positions] += g` looks like the same. But NumPy reads all rows, adds, and
# writes them back; for a row that occurs twice only the last write remains. `np.add.at` adds the gradients
# one after the other.


# %%
def learned_backward(g, positions, max_len):
    dW = np.zeros((max_len, g.shape[-1]))
    np.add.at(dW, positions, g)
    return dW


positions = np.array([[0, 1, 2], [1, 2, 3]])  # the second sequence begins at 1
g = np.ones((2, 3, 1))
lost = np.zeros((5, 1))
lost[positions] += g
print("add.at:", learned_backward(g, positions, 5).ravel(), "   +=:", lost.ravel())
assert learned_backward(g, positions, 5).ravel().tolist() == [1, 2, 2, 1, 0] and lost.ravel().tolist() == [
    1,
    1,
    1,
    1,
    0,
]

# %% [markdown]
# The paper compared sinusoidal and learned positions, with "nearly identical results" (table 3, row E). Two
# differences remain. Learned positions cost $T_{max} \cdot d_{model}$ weights, and the table has no row for
# positions beyond its end.

# %% [markdown]
# ## Rotary positions, from one requirement
#
# Su et al. (2021) begin with a requirement. Transform queries and keys according to their positions so that
# the score of a query at $m$ and a key at $n$ depends on these positions only through their *distance*
# $m - n$.
#
# In two dimensions rotations meet this requirement. Let $R(t)$ be the matrix that rotates the plane by the
# angle $t$:
#
# $$R(t) = \begin{pmatrix} \cos t & -\sin t \\ \sin t & \cos t \end{pmatrix}, \qquad
# R(t)^\top = R(-t), \qquad R(s) R(t) = R(s + t)$$
#
# Rotate the query by $m\theta$ and the key by $n\theta$. Their product is
#
# $$(R(m\theta) q)^\top (R(n\theta) k) = q^\top R(m\theta)^\top R(n\theta) k = q^\top R((n - m)\theta) k$$
#
# So $m$ and $n$ appear only as $n - m$. For $D$ dimensions (the width of one head) take $D/2$ pairs, each
# with its own frequency $\theta_i = 10000^{-2i/D}$, as above.
#
# **By hand**, with $q = k = (1, 0)$ and $\theta = 1$. Query at 3, key at 1:
# $(\cos 3, \sin 3) = (-0.9900, 0.1411)$ and $(\cos 1, \sin 1) = (0.5403, 0.8415)$. The product is −0.5349 +
# 0.1187 = −0.4161, which is $\cos 2$. Query at 13, key at 11: again $\cos 2$.
#
# Note where the rotation happens: after the projections, on the queries and keys of each head, in every
# layer. Values are not rotated. Nothing is added to the tokens.


# %%
def rotary(x, positions, layout="halves", base=10000.0):
    D = x.shape[-1]
    angle = positions[:, None] * base ** (-np.arange(0, D, 2) / D)  # (T, D/2)
    halves = (slice(0, D // 2), slice(D // 2, D))
    first, second = halves if layout == "halves" else (slice(0, D, 2), slice(1, D, 2))
    a, b = x[..., first], x[..., second]
    y = np.empty_like(x)
    y[..., first] = a * np.cos(angle) - b * np.sin(angle)
    y[..., second] = b * np.cos(angle) + a * np.sin(angle)
    return y


q = k = np.array([[1.0, 0.0]])
for m, n in ((3, 1), (13, 11)):
    turned_q, turned_k = rotary(q, np.array([m])), rotary(k, np.array([n]))
    print(
        f"query at {m:2d} {turned_q[0]}, key at {n:2d} {turned_k[0]}: product "
        f"{(turned_q @ turned_k.T).item():.4f}"
    )
    assert math.isclose((turned_q @ turned_k.T).item(), math.cos(2)) and round(math.cos(2), 4) == -0.4161
assert np.allclose(rotary(q, np.array([3])).round(4), [-0.9900, 0.1411])
assert np.allclose([-0.9900 * 0.5403, 0.1411 * 0.8415], [-0.5349, 0.1187], atol=5e-5)

# %% [markdown]
# The next cell has eight dimensions and random vectors. It computes all scores of a sequence, and again with
# every position increased by 100.

# %%
q, k = rng.standard_normal((2, 6, 8))
here, there = np.arange(6), np.arange(6) + 100
scores = rotary(q, here) @ rotary(k, here).T
moved = rotary(q, there) @ rotary(k, there).T
print("largest change of a score if all positions increase by 100:", np.abs(scores - moved).max())
print("lengths of the queries before", np.linalg.norm(q, axis=-1))
print("                       after ", np.linalg.norm(rotary(q, here), axis=-1))
assert np.allclose(scores, moved, atol=1e-12)

# %% [markdown]
# **The backward pass.** Each pair is multiplied by a rotation matrix, $y = R(t) x$, so
# $dx = R(t)^\top g = R(-t) g$: rotate $g$ by *minus* the angle. The same function does it, with negated
# positions.

# %%
x, at = rng.standard_normal((2, 5, 6)), np.array([0, 1, 5, 2, 9])
for layout in ("halves", "interleaved"):
    turn = lambda x, at, layout=layout: rotary(x, at, layout)  # noqa: E731
    assert gradcheck((lambda x: turn(x, at), lambda g, x: turn(g, -at)), [x])
print("dx = rotary(g, -positions): right in both layouts")

# %% [markdown]
# **Two layouts.** Which columns form a pair is a convention, and published models differ. *Interleaved* pairs
# columns $2i$ and $2i + 1$ (the paper, Meta's Llama); *halves* pairs $i$ and $i + D/2$ (GPT-NeoX, Llama's
# weights at Hugging Face). A model trained with one layout and run with the other gives wrong scores and no
# error. Since only the pairing differs, a reordering of the projection's columns converts one into the other.

# %%
wrong = rotary(q, here, "halves") @ rotary(k, here, "halves").T
right = rotary(q, here, "interleaved") @ rotary(k, here, "interleaved").T
regroup = np.r_[0:8:2, 1:8:2]  # columns 0 2 4 6, then 1 3 5 7
same = rotary(q[:, regroup], here, "halves") @ rotary(k[:, regroup], here, "halves").T
print("another layout, same weights: scores differ by up to", np.abs(wrong - right).max().round(2))
print("columns regrouped too:        scores differ by up to", np.abs(same - right).max())
assert np.allclose(same, right, atol=1e-12) and np.abs(wrong - right).max() > 0.5
assert interleaved_to_halves(np.arange(8.0)[:, None], num_heads=1).ravel().tolist() == regroup.tolist()

# %% [markdown]
# ## ALiBi, in a paragraph
#
# ALiBi (*attention with linear biases*, Press, Smith and Lewis 2022) does not change queries and keys. It
# subtracts from each score a number proportional to the distance: $s_{mn} - c_h (m - n)$ for keys $n \le m$.
# Each head has a fixed slope $c_h$: for 8 heads $1/2, 1/4, \dots, 1/256$. Distant tokens get less weight, in
# some heads quickly, in others slowly. ALiBi is an additive mask (lesson 09). It has no parameters, and every
# distance is possible.

# %%
bias = alibi(8, 5).data[0]
print("slopes", [-float(bias[h, 1, 0]) for h in range(8)], "\nhead 0:\n", bias[0])
assert [-float(bias[h, 1, 0]) for h in range(8)] == [2.0**-h for h in range(1, 9)]

# %% [markdown]
# ## The same in minigrad
#
# `models/positional.py`: `sinusoidal` and `PositionalEncoding`, `LearnedPositions`, `Rotary`, `alibi`.
# `MultiHeadAttention(..., rotary=Rotary(head_dim))` rotates queries and keys after the split.

# %%
assert np.allclose(table_of_minigrad(50, 7).data, sinusoidal(50, 7), atol=1e-6)  # float32 there
x = rng.standard_normal((1, 2, 5, 6))
for layout in ("halves", "interleaved"):
    theirs = Rotary(6, max_len=16, layout=layout)(mg.tensor(x), np.arange(5)).data
    assert np.allclose(theirs, rotary(x, np.arange(5), layout), atol=1e-14)
print(LearnedPositions(512, 64), Rotary(64), sep="\n")

# %% [markdown]
# ## Gradient check
#
# The next cell checks learned positions, with rows that are used twice, and every parameter of a whole
# attention layer with rotary positions.

# %%
x, W = rng.standard_normal((2, 3, 4)), rng.standard_normal((5, 4))
positions = np.array([[0, 1, 2], [1, 2, 3]])
assert gradcheck(
    (lambda x, W: x + W[positions], lambda g, x, W: (g, learned_backward(g, positions, 5))), [x, W]
)
layer = MultiHeadAttention(8, 2, rotary=Rotary(4, max_len=8)).double()
assert gradcheck(layer, [mg.tensor(rng.standard_normal((1, 4, 8)), requires_grad=True)])
print("learned positions, and attention with rotary positions: every element is right")

# %% [markdown]
# ## Beyond the length of the training data
#
# Sinusoidal positions exist for any length, and the paper hoped that a model with them would work on longer
# sequences. Let us measure this. The task: at each position, predict the letter one position before. The
# model is one causal attention layer (two heads, width 32). It is trained on sequences of length 16 and then
# tested up to position 63. Chance is 1/8.


# %%
class Reader(nn.Module):
    def __init__(self, kind, d_model=32, letters=8, max_len=64):
        self.embed, self.read = nn.Embedding(letters, d_model), nn.Linear(d_model, letters)
        self.attend = MultiHeadAttention(
            d_model, 2, rotary=Rotary(d_model // 2, max_len) if kind == "rotary" else None
        )
        if kind == "learned":
            self.places = LearnedPositions(max_len, d_model)
        self.kind, self.table = kind, table_of_minigrad(max_len, d_model)

    def forward(self, tokens):
        x, T = self.embed(tokens), tokens.shape[1]
        if self.kind == "sinusoidal":
            x = x + self.table[:T]
        if self.kind == "learned":
            x = x + self.places(np.arange(T))
        return self.read(self.attend(x, mask=causal_mask(T)))


KINDS = ("sinusoidal", "learned", "rotary")
print("weights:", {kind: sum(p.numel() for p in Reader(kind).parameters()) for kind in KINDS})


# %%
def right_by_place(kind, steps=250):
    mg.manual_seed(0)
    data, model = np.random.default_rng(0), Reader(kind)
    optimizer = optim.Adam(model.parameters(), lr=0.01)
    for _ in range(steps):
        tokens = data.integers(8, size=(32, 16))
        loss = F.cross_entropy(model(tokens)[:, 1:].reshape(-1, 8), tokens[:, :-1].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    tokens = np.random.default_rng(1).integers(8, size=(200, 64))
    with mg.no_grad():
        return (model(tokens).data[:, 1:].argmax(-1) == tokens[:, :-1]).mean(0)  # positions 1 ... 63


found = {kind: right_by_place(kind) for kind in KINDS}
for kind, right in found.items():
    parts = {
        f"{a}-{b}": round(float(right[a - 1 : b].mean()), 2)
        for a, b in ((1, 15), (16, 20), (21, 30), (31, 63))
    }
    print(f"{kind:10s} accuracy at positions {parts}")

# %%
figure = Figure(figsize=(7, 3.6), layout="constrained")
axes = figure.add_subplot()
for (kind, right), colour, line in zip(
    found.items(), ("#D55E00", "#777777", "#0072B2"), ("-", ":", "--"), strict=True
):
    axes.plot(range(1, 64), right, line, color=colour, label=kind)
axes.axvline(15.5, color="black", linewidth=0.8)
axes.text(16, 1.04, "not in the training data", fontsize=9)
axes.set(xlabel="position in the sequence", ylabel="accuracy", ylim=(0, 1.12))
axes.set_title("All three learn lengths up to 16; beyond them each fails differently", fontsize=12)
axes.legend(loc="center right", fontsize=9)
assert all(right[:15].min() > 0.95 for right in found.values())
assert (
    found["learned"][15:].mean() < 0.2
    and found["sinusoidal"][20:].mean() < 0.2 < 0.7 < found["rotary"][15:20].mean()
)
show(
    figure,
    "Accuracy by position: learned and sinusoidal positions fail at once beyond 16, rotary ones later",
)

# %% [markdown]
# Learned rows beyond 15 still have their random initial values. Sinusoidal rows are well defined, but the
# layer was not trained on these combinations, and its output for them is luck. Rotary scores depend on
# distances only, so position 20 looks like position 10. But something is new here too: there are more tokens
# to choose from, and more distant ones. So rotary positions fail later and more slowly. Press et al. (2022)
# measured the same ranking in language models.

# %% [markdown]
# ## Edge cases
#
# 1. **Odd $d_{model}$.** The last sine has no cosine. A loop that writes to `PE[pos, i + 1]` for every even
#    `i` runs past the end. (The `i` of this loop, by the way, is the $2i$ of the formula.)
# 2. **Position 0** is (0, 1, 0, 1, ...). Does that bias the model towards the first token? No, it is a point
#    like the others: every $PE(pos)$ has the same length, $\sqrt{d_{model}/2}$.
# 3. **Very long sequences.** The slow columns hardly change from one position to the next. Positions are
#    still easy to distinguish by the fast columns: the distance between neighbours is the same at every
#    position. The problem is the extrapolation we have just seen.
# 4. **Smoothness.** It does not matter that the sine is differentiable. The table is a constant: no gradient
#    ever goes through its sines.

# %%
PE = np.zeros((3, 7))
try:
    for i in range(0, 7, 2):
        PE[:, i], PE[:, i + 1] = (
            np.sin(np.arange(3) / 10000 ** (i / 7)),
            np.cos(np.arange(3) / 10000 ** (i / 7)),
        )
except IndexError as error:
    print("the loop with d_model = 7:", error)
long = sinusoidal(5000, 64)
apart = np.linalg.norm(np.diff(long, axis=0), axis=1)
print("distance of neighbours at 0, 100, 4998:", apart[[0, 100, 4998]])
print("lengths at 0, 100, 4999:               ", np.linalg.norm(long[[0, 100, 4999]], axis=1))
assert np.allclose(apart, apart[0]) and np.allclose(np.linalg.norm(long, axis=1), 32**0.5)
assert len(np.unique(long.round(6), axis=0)) == 5000

# %% [markdown]
# ## Pitfalls
#
# - **A frequency for every column.** `10000 ** (c / d_model)` with the column $c$ itself gives sine and
#   cosine different frequencies. It looks the same in a picture, but the pairs are no clocks any more, and
#   the linear map is gone.
# - **Positions that restart at 0.** When a model writes token by token with a cache (lesson 14), the position
#   of a new token is the number of tokens before it, not 0.
# - **Padding on the left** moves all positions, unless you count from the first real token.
# - **Token and position of different sizes.** $PE$ has length $\sqrt{d_{model}/2}$. The paper multiplies
#   embeddings (the tokens' vectors) by $\sqrt{d_{model}}$ (section 3.4), so that they are not small next to
#   the encoding.
# - **Rotary on the values.** Rotate only queries and keys; Q7 shows why.

# %%
column = np.arange(8)
angle = np.arange(120)[:, None] / 10000.0 ** (column / 8)  # a frequency for every column
spoiled = np.where(column % 2 == 0, np.sin(angle), np.cos(angle))
for name, table in (("one frequency a pair", sinusoidal(120, 8)), ("one a column", spoiled)):
    M = np.linalg.lstsq(table[:-5], table[5:], rcond=None)[0]  # the best linear map for k = 5
    error = np.abs(table[:-5] @ M - table[5:]).max()
    print(f"{name:21s} the best linear map for k = 5 misses by up to {error:.1e}")
    assert (error < 1e-12) == (name == "one frequency a pair")

# %% [markdown]
# ## Practice questions

# %% [markdown]
# ### Q1. Compute PE(2) for $d_{model} = 4$.
#
# <details><summary>Answer</summary>
#
# Two pairs, divisors 1 and $10000^{2/4} = 100$. $\sin 2 = 0.9093$, $\cos 2 = -0.4161$, $\sin 0.02 = 0.0200$,
# $\cos 0.02 = 0.9998$.
#
# </details>

# %%
# Q1, recomputed
assert 10000 ** (2 / 4) == 100
assert np.allclose(sinusoidal(3, 4)[2], [0.9093, -0.4161, 0.0200, 0.9998], atol=5e-5)

# %% [markdown]
# ### Q2. In the formula PE(pos, 2i) = sin(pos/10000^(2i/d_model)), what happens as i increases?
#
# <details><summary>Answer</summary>
#
# The divisor grows geometrically, so the frequency falls by the same factor from pair to pair. For
# $d_{model} = 512$ the factor is $10000^{-2/512} = 0.9647$:
#
# - $i = 0$: frequency 1
# - $i = 128$: $10000^{-256/512} = 1/100$
# - $i = 255$, the last: $10000^{-510/512} = 1.0366 \cdot 10^{-4}$
#
# (1/10000 would be the frequency of $i = 256$. But the 256 pairs have indices 0 to 255, so this is the first
# one beyond the end.) Low columns distinguish near positions, high columns distant ones.
#
# </details>

# %%
# Q2, recomputed
frequency = 10000.0 ** (-np.arange(0, 512, 2) / 512)
assert len(frequency) == 256 and frequency[0] == 1 and np.isclose(frequency[128], 0.01)
assert f"{frequency[255]:.4e}" == "1.0366e-04" and np.allclose(
    frequency[1:] / frequency[:-1], 0.9647, atol=5e-5
)

# %% [markdown]
# ### Q3. What is the longest wavelength of the encoding with $d_{model} = 512$, in positions?
#
# <details><summary>Answer</summary>
#
# $2\pi / \omega_{255} = 2\pi \cdot 10000^{510/512} = 60{,}611$ positions. (The paper says "from $2\pi$ to
# $10000 \cdot 2\pi$", which is 62,832: the upper end is not quite reached.)
#
# </details>

# %%
# Q3, recomputed
assert round(2 * math.pi / frequency[-1]) == 60_611 and round(2 * math.pi * 10000) == 62_832

# %% [markdown]
# ### Q4. What are $M_0$, $M_3 M_4$ and the inverse of $M_k$?
#
# <details><summary>Answer</summary>
#
# $M_0 = I$. $M_3 M_4 = M_7$: four positions, then three. The inverse is $M_{-k}$. Since $M_k$ is a rotation,
# its inverse is also its transpose: $M_k^{-1} = M_{-k} = M_k^\top$. Lengths do not change: $|M_k x| = |x|$.
#
# </details>

# %%
# Q4, recomputed
M3, M4, M7 = (shift_matrix(k, 8) for k in (3, 4, 7))
assert np.allclose(shift_matrix(0, 8), np.eye(8)) and np.allclose(M3 @ M4, M7)
assert np.allclose(np.linalg.inv(M3), shift_matrix(-3, 8)) and np.allclose(np.linalg.inv(M3), M3.T)

# %% [markdown]
# ### Q5. How many parameters are the learned positions in GPT-2?
#
# It has 1,024 positions and $d_{model} = 768$, and 124 million parameters in all.
#
# <details><summary>Answer</summary>
#
# 1,024 · 768 = 786,432, or 0.6 % of 124 million. This is cheap; the real cost is the fixed largest length.
#
# </details>

# %%
# Q5, recomputed
assert LearnedPositions(1024, 768).weight.numel() == 786_432 and round(100 * 786_432 / 124e6, 1) == 0.6

# %% [markdown]
# ### Q6. Can attention with a causal mask, but without positions, see the order?
#
# <details><summary>Answer</summary>
#
# Yes, in part. The mask itself depends on the order: the first token sees itself alone, the second sees two.
# Shuffled tokens do not give shuffled outputs. But a single layer cannot see the order *among* the earlier
# tokens: the output of the last token stays the same if those before it are shuffled. Models with a causal
# mask and without positions do learn something about positions (Haviv et al. 2022).
#
# </details>


# %%
# Q6, recomputed
def causal(x):
    scores = np.where(np.tri(len(x), dtype=bool), x @ x.T, -np.inf)
    e = np.exp(scores - scores.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True) @ x


x6, order = rng.standard_normal((5, 3)), np.array([2, 0, 3, 1, 4])  # the last token stays
assert np.abs(causal(x6[order]) - causal(x6)[order]).max() > 0.1
assert np.allclose(causal(x6[order])[-1], causal(x6)[-1])

# %% [markdown]
# ### Q7. Why are the values not rotated as well?
#
# <details><summary>Answer</summary>
#
# In a score two rotations are multiplied, and only their difference is left. A value has no partner: the
# output $\sum_n P_{mn} R(n\theta) v_n$ would depend on absolute positions, not only on distances. If you
# increase all positions by 100, this output changes. With rotated queries and keys alone it does not.
#
# </details>

# %%
# Q7, recomputed
q7, k7, v7 = rng.standard_normal((3, 6, 8))
without = [attention(rotary(q7, at), rotary(k7, at), v7) for at in (here, there)]
turned = [attention(rotary(q7, at), rotary(k7, at), rotary(v7, at)) for at in (here, there)]
assert np.allclose(*without, atol=1e-12) and np.abs(turned[0] - turned[1]).max() > 0.1

# %% [markdown]
# ## What was left out
#
# - **Relative positions as learned vectors** (Shaw et al. 2018) and as learned scalars for ranges of
#   distances (T5).
# - **Stretching rotary positions** to longer texts, by a larger base or by dividing positions.
# - **Two dimensions**: images have rows and columns; half of the pairs may rotate by the row, half by the
#   column.
# - **ALiBi in our measurement.** To predict the letter exactly one position before, it would have to prefer
#   distance 1 to distance 0, but a bias that falls with distance prefers distance 0.
#
# ## Sources
#
# - Vaswani et al. 2017, *Attention Is All You Need*, sections 3.4 and 3.5, table 3 (E)
# - Su et al. 2021, *RoFormer: Enhanced Transformer with Rotary Position Embedding*, section 3
# - Press, Smith and Lewis 2022, *Train Short, Test Long* (ALiBi)
# - Haviv et al. 2022, *Transformer Language Models without Positional Encodings Still Learn Positional
#   Information*
#
# ## Exercises
#
# You will write `is_equivariant` (a test for order), `sinusoidal` for any width, `shift_matrix`, the backward
# pass of learned positions, and `rotary` with its backward pass. Start with
#
#     python -m tutorials start 11
#
# Next: lesson 12 has the parts around attention: the feed-forward network, residual connections and the norm.
