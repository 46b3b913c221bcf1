# %% [markdown]
# # 09 · Masks
#
# *Reading: 40 minutes. Exercises: 60 minutes. Needs: lessons 05, 08.*
#
# The librarian of lesson 08 shows every book to everybody. Some books must stay hidden: words that have not
# been written yet, and padding, which is no word at all. Which position may attend to which, and how can you
# be sure that none cheats?
#
# **You will be able to:**
#
# - write causal masks (no position sees a later one) and padding masks (no position sees padding), combine
#   them, and say which of a Transformer's three attentions needs which mask;
# - put a mask into the softmax so that a row without an allowed key gives 0 and not NaN;
# - convert between the three conventions (boolean here, boolean in PyTorch's modules, additive);
# - prove that a model does not look ahead, by changing a token and by a gradient;
# - find the mistakes that leak without any error.
#
# Words you do not know are in the [glossary](../../docs/glossary.md).

# %%
import numpy as np
from matplotlib.figure import Figure

import minigrad as mg
import minigrad.nn.functional as F
from minigrad.gradcheck import gradcheck
from models.attention import causal_mask, padding_mask
from models.blocks import EncoderLayer
from models.transformer import Transformer
from tutorials import figures, show

np.set_printoptions(precision=4, suppress=True)

# %% [markdown]
# ## Intuition: an exam with the answers on the next page
#
# A language model learns to predict the next token (lesson 14). In training you know the whole sentence, so
# you let the model predict at all positions at once: at position 1 it should predict token 2, at position 2
# token 3, and so on. One pass gives many predictions to learn from.
#
# But the whole sentence is in its input. At position 1, token 2 is one attention away. A model that may
# attend to it learns one thing: to copy from the right. Its loss is wonderful, and when it has to write by
# itself there is nothing to the right to copy.
#
# You can see this without training. In the next cell the tokens are random, so nobody can predict the next
# one better than by chance, 1 in 10. Queries and keys are chosen so that position $t$ attends to position
# $t + 1$.

# %%
rng = np.random.default_rng(0)
vocab, T = 10, 1000
sequence = rng.integers(vocab, size=T)
place = np.eye(T)
# the query of position t is the key of position t + 1
asks, offers, says = 100 * place[1:], place, np.eye(vocab)[sequence]


def read(allowed):
    """The tokens read at positions 0 ... T-2, from keys where `allowed` is True."""
    scores = np.where(allowed, asks @ offers.T, -np.inf)
    e = np.exp(scores - scores.max(axis=1, keepdims=True))
    return (e / e.sum(axis=1, keepdims=True) @ says).argmax(axis=1)


everything, not_ahead = np.ones((T - 1, T), bool), np.tri(T - 1, T, dtype=bool)
cheating, honest = (np.mean(read(allowed) == sequence[1:]) for allowed in (everything, not_ahead))
print(f"next token correct, all keys allowed: {cheating:.1%};  no later keys allowed: {honest:.1%}")
assert cheating == 1.0 and honest < 0.2

# %% [markdown]
# The other reason for masks is dull and just as important. Sentences differ in length, but the rows of an
# array do not. So short sentences are filled up with a token that means nothing, `pad`. This is **padding**.
# If a real word attends to padding, its output depends on the length of the *longest* sentence in its batch.

# %% [markdown]
# ## Definition
#
# A mask is an array of booleans $A$, one for each pair of a query and a key:
#
# $$A_{ij} = \text{True} \iff \text{query } i \text{ may attend to key } j .$$
#
# Masked attention is a softmax over the allowed keys only:
#
# $$P_{ij} = \frac{A_{ij} e^{S_{ij}}}{\sum_l A_{il} e^{S_{il}}}, \qquad O = PV,$$
#
# with $S = QK^\top / \sqrt{d_k}$ as in lesson 08, and True counting as 1. **If a row of $A$ has no True, the
# fraction is $0/0$; we define that row of $P$ as 0.** A query without allowed keys gets nothing.
#
# The mask can also be **additive**, as Vaswani et al. write it (section 3.2.3: illegal scores are set to
# $-\infty$):
#
# $$P = \text{softmax}(S + M), \qquad M_{ij} = 0 \text{ where } A_{ij}, \quad -\infty \text{ elsewhere,}$$
#
# since $e^{-\infty} = 0$. The two agree for every row with an allowed key. An additive mask can express more
# (a finite number is a preference, not a ban); a boolean mask is harder to get wrong.
#
# | mask | shape | True where |
# | --- | --- | --- |
# | causal | $(1, 1, n, m)$ | key $j$ is not later than query $i$; the same for all sentences |
# | padding | $(B, 1, 1, m)$ | key $j$ of sentence $b$ is a real token; the same for all queries |
# | both | $(B, 1, n, m)$ | `causal & padding`: allowed by both |
#
# The weights have shape $(B, H, n, m)$ for $B$ sentences and $H$ heads (attentions side by side, lesson 10);
# axes of length 1 are broadcast (lesson 02). In code, $n$ and $m$ are often called Tq and Tk.

# %%
pad = 0
tokens = np.array([[5, 3, 1, 2], [4, 1, pad, pad]])  # two sentences, of length 4 and 2
causal = np.tri(4, dtype=bool)[None, None]  # (1, 1, 4, 4)
padding = (tokens != pad)[:, None, None, :]  # (2, 1, 1, 4)
both = causal & padding  # (2, 1, 4, 4)
print("the second sentence's mask (rows: queries, columns: keys)\n", both[1, 0].astype(int))
assert both.shape == (2, 1, 4, 4) and both[0].sum() == 10 and both[1].sum() == 1 + 2 + 2 + 2

# %% [markdown]
# ## A worked example by hand
#
# Take the scores of the example in lesson 08 and mask all later keys:
#
# $$S = \begin{bmatrix} 1 & 1.5 & 1.5 \\ 1.5 & 0 & 2.5 \\ 0.5 & 2 & 1.5 \end{bmatrix} \quad
# S + M = \begin{bmatrix} 1 & -\infty & -\infty \\ 1.5 & 0 & -\infty \\ 0.5 & 2 & 1.5 \end{bmatrix} \quad
# V = \begin{bmatrix} 1 & 0 & 1 \\ 1 & 1 & 0 \\ 0 & 1 & 1 \end{bmatrix}$$
#
# - **Row 1** sees one key, so its weight is 1, and the output is the first value, $(1, 0, 1)$.
# - **Row 2**: $e^{1.5} = 4.4817$ and $e^0 = 1$, together $5.4817$. Weights $0.8176, 0.1824, 0$. Output:
#   $0.8176 (1,0,1) + 0.1824 (1,1,0) = (1, 0.1824, 0.8176)$.
# - **Row 3** sees everything: $(0.1220, 0.5465, 0.3315)$ as before.
#
# Now let the third token be padding as well. Row 3 loses its third key: $e^{0.5} = 1.6487$, $e^2 = 7.3891$,
# weights $0.1824, 0.8176, 0$. (These are the two weights of row 2, exchanged: a softmax of two scores depends
# only on their difference, which is 1.5 in both rows.)

# %%
S = np.array([[1, 1.5, 1.5], [1.5, 0, 2.5], [0.5, 2, 1.5]])
V = np.array([[1, 0, 1], [1, 1, 0], [0, 1, 1]], float)


def softmax_of(scores):
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


causal = np.tri(3, dtype=bool)
P = softmax_of(np.where(causal, S, -np.inf))
out = P @ V
P_both = softmax_of(np.where(causal & np.array([True, True, False]), S, -np.inf))
print("causal weights", P, "output", out, "causal and padded weights", P_both, sep="\n")

assert np.allclose(P[1], [0.817574, 0.182426, 0], atol=1e-6) and P[0].tolist() == [1, 0, 0]
assert np.allclose(out[:2], [[1, 0, 1], [1, 0.182426, 0.817574]], atol=1e-6)
assert np.allclose(P[2], [0.121952, 0.546549, 0.331499], atol=1e-6)
assert np.allclose(P_both[2], [0.182426, 0.817574, 0], atol=1e-6)
assert abs(np.exp(1.5) + 1 - 5.481689) < 1e-6 and abs(np.exp(2) - 7.389056) < 1e-6

# %% [markdown]
# ## Which attention needs which mask
#
# Learners ask this question most often. An encoder-decoder (lesson 13) reads a source sentence with the
# encoder and writes a target sentence with the decoder. It has three attentions. For each ask: where do the
# keys come from, and could they be padding, or a word from the future?
#
# | attention | queries | keys | mask |
# | --- | --- | --- | --- |
# | encoder, self | source | source | padding of the **source** |
# | decoder, self | target | target | causal **and** padding of the **target** |
# | decoder, cross | target | source | padding of the **source**; not causal: the whole source is known |
#
# A padding mask always describes the *keys*. That is why cross-attention needs the mask of the source,
# although it is in the decoder. A decoder-only model (GPT) has only the second row; an encoder-only model
# (BERT) only the first.
#
# And the *queries* that are padding? They need no mask. They compute an output that nobody uses: no real
# query attends to padded keys, and the loss leaves padded positions out (`ignore_index`, lesson 05). Question
# 8 proves it.

# %%
figure, found = figures.drawn(figures.masks)
for name, (allowed, queries, keys) in found.items():
    print(
        f"{name:20} {len(queries)} queries, {len(keys)} keys, {allowed.sum():2} of {allowed.size} pairs "
        "allowed"
    )
show(figure, "The masks of a Transformer as matrices: each row is a query, its allowed keys are blue")

# %% [markdown]
# ### When there are more keys than queries
#
# The last panel shows the case that is easy to get wrong. A model that writes token after token keeps the
# keys and values of earlier tokens in a cache (lesson 14). Then only the *new* tokens are queries, and *all*
# tokens so far are keys. The last query is the newest token, so the diagonal must end in the **bottom right**
# corner: query $i$ of $n$ is at position $i + (m - n)$.
#
# In `np.tri(n, m)` without an offset the diagonal begins in the top left corner, and the newest token sees
# the oldest keys only. PyTorch's `is_causal=True` is top left too (its documentation says so). Our
# `F.scaled_dot_product_attention` keeps PyTorch's meaning. `models.attention.causal_mask` is bottom right.

# %%
new, so_far = 2, 5
print("bottom right, correct:\n", causal_mask(new, so_far).data[0, 0].astype(int))
print("top left, wrong with a cache:\n", np.tri(new, so_far, dtype=int))
assert causal_mask(new, so_far).data[0, 0].tolist() == np.tri(new, so_far, so_far - new, dtype=bool).tolist()
assert causal_mask(4).data[0, 0].tolist() == np.tri(4, dtype=bool).tolist()  # n = m: no difference

# %% [markdown]
# ## Derivation of the backward pass
#
# Where the mask is False, $P_{ij} = 0$ whatever the scores are. The derivation of lesson 08 stays valid word
# for word, with sums over the allowed keys. For an allowed $j$,
#
# $$dS_{ij} = P_{ij} \left( dP_{ij} - \sum_l P_{il} dP_{il} \right),$$
#
# and for a masked $j$ the score has no influence, so $dS_{ij} = 0$. With $P_{ij} = 0$ the formula gives the
# same. So **the backward pass is that of lesson 08, unchanged**; the mask acts through $P$. A row without an
# allowed key has $P_i = 0$, so $dS_i = 0$, and its query gets no gradient. A key that no query may see has a
# column of zeros in $P$ and $dS$, so $dK_j = 0$ and $dV_j = 0$.
#
# On paper this is all. On a computer there is one more problem: **$0 \cdot \text{NaN}$ is NaN**. Padding can
# hold anything, even NaN (from uninitialized memory, or from an earlier row that was $0/0$). A weight of
# exactly 0 does not protect the sum $\sum_j P_{ij} V_j$ from a NaN. So keys and values that no query may see
# are replaced by 0 before the products.

# %%
P = np.array([[0.4, 0.6, 0.0]])  # the third key is masked
V = np.array([[1.0], [2.0], [np.nan]])
print("weights", P, " times values with a NaN under the weight 0:", P @ V)
assert np.isnan(P @ V).all() and np.allclose(P[:, :2] @ V[:2], 1.6)

# %% [markdown]
# ## Code

# %%


def masked_softmax(scores, mask):
    """Softmax of each row over the positions where mask is True; 0 elsewhere, and in rows without a True."""
    s = np.where(mask, scores, -np.inf)
    top = s.max(axis=-1, keepdims=True)
    # in an empty row -inf - 0, not -inf - -inf, which is NaN
    e = np.exp(s - np.where(top == -np.inf, 0, top))
    total = e.sum(axis=-1, keepdims=True)
    return e / np.where(total == 0, 1, total)  # in an empty row 0 / 1


def unseen_to_zero(x, mask):
    """Replace by 0 the keys or values x (..., m, d) that no query may see."""
    return np.where(mask.any(axis=-2)[..., None], x, 0)


def attention(q, k, v, mask):
    """q (..., n, d_k), k (..., m, d_k), v (..., m, d_v), mask broadcasting to (..., n, m) -> (..., n, d_v)"""
    k, v = unseen_to_zero(k, mask), unseen_to_zero(v, mask)
    return masked_softmax(q @ k.mT / np.sqrt(q.shape[-1]), mask) @ v


# %%
mask = np.array([[True, False, False], [False, False, False], [True, True, False]])
weights = masked_softmax(S, mask)
print(weights)
assert (weights[1] == 0).all() and (weights[:, 2] == 0).all() and np.allclose(weights.sum(axis=1), [1, 0, 1])

# %%


def attention_backward(g, q, k, v, mask):
    """The backward pass of lesson 08 with the masked softmax; the mask appears nowhere else."""
    k, v = unseen_to_zero(k, mask), unseen_to_zero(v, mask)
    scale = 1 / np.sqrt(q.shape[-1])
    p = masked_softmax(q @ k.mT * scale, mask)
    dp = g @ v.mT
    ds = p * (dp - (p * dp).sum(axis=-1, keepdims=True))
    return ds @ k * scale, ds.mT @ q * scale, p.mT @ g


rng = np.random.default_rng(1)
g, q, k, v = (rng.standard_normal(shape) for shape in ((3, 2), (3, 4), (3, 4), (3, 2)))
k[2] = v[2] = np.nan  # no query may see the third key
for name, d in zip(("dq", "dk", "dv"), attention_backward(g, q, k, v, mask), strict=True):
    print(name, d, sep="\n")
    assert np.isfinite(d).all() and (d[1] == 0).all() if name == "dq" else (d[2] == 0).all()

# %% [markdown]
# ### The same in minigrad
#
# `models/attention.py` makes the masks (`causal_mask`, `padding_mask`). `attention_weights` in
# `minigrad/functional/attention.py` uses them, and so do `without_unseen` and `without_blind` in
# `minigrad/functional/masks.py`. `without_blind` does for queries what `unseen_to_zero` does for keys. The
# convention is the same everywhere: **True = may attend**.

# %%
tokens = np.array([[5, 3, 1, 2], [4, 1, 0, 0]])
mask = causal_mask(4) & padding_mask(tokens, pad=0)  # (2, 1, 4, 4)
q, k, v = (rng.standard_normal((2, 3, 4, 5)) for _ in range(3))
theirs = F.scaled_dot_product_attention(mg.tensor(q), mg.tensor(k), mg.tensor(v), mask)
print("mask", mask.shape, " largest difference:", abs(theirs.data - attention(q, k, v, mask.data)).max())
assert np.allclose(theirs.data, attention(q, k, v, mask.data), atol=1e-14)

# %% [markdown]
# ## Gradient check
#
# The mask has all cases: a causal part, a query that sees nothing, a key that no query sees. First our
# function is checked, then minigrad's with a boolean and with an additive mask.

# %%
mask = np.tri(4, 5, dtype=bool)
mask[1] = False  # query 1 sees nothing; no query sees key 4
arrays = [rng.standard_normal(shape) for shape in ((2, 4, 3), (2, 5, 3), (2, 5, 2))]
assert gradcheck(
    (lambda q, k, v: attention(q, k, v, mask), lambda g, q, k, v: attention_backward(g, q, k, v, mask)),
    arrays,
)

leaves = [mg.tensor(x, requires_grad=True) for x in arrays]
additive = np.where(mask, 0.0, -np.inf)
assert gradcheck(lambda *x: F.scaled_dot_product_attention(*x, mask), leaves, order=2)
assert gradcheck(lambda *x: F.scaled_dot_product_attention(*x, additive), leaves, order=2)
out = F.scaled_dot_product_attention(*leaves, mask).data
print("all right; the output of the query that sees nothing:", out[0, 1])
assert (out[:, 1] == 0).all()

# %% [markdown]
# ## Proof that nothing leaks
#
# A *leak* is any way by which a later token influences an earlier output. You cannot see a leak in the loss
# curve, except that the loss is too good. But you can prove that there is none, in two ways.
#
# **Change a token.** If later tokens have no influence, then changing token $t$ changes *nothing* before $t$,
# to the last bit. Not "hardly anything": $0 \cdot x$ is exactly 0, and adding exactly 0 changes no bit.
#
# **Take a gradient.** The derivative of output $i$ with respect to input $j$ is exactly 0 for every $j > i$.
# Written as a matrix, these derivatives must be 0 everywhere above the diagonal.
#
# The second way gives a map of which token influences which output. Here it is for two Transformer layers and
# six tokens:

# %%
mg.manual_seed(0)
layers = [EncoderLayer(8, 2, 16).double() for _ in range(2)]


def run(x, masks):
    for layer, mask in zip(layers, masks, strict=True):
        x = layer(x, mask)
    return x


def influence(masks, T=6):
    """(T, T): the size of the gradient of output i at input j."""
    x = mg.tensor(np.random.default_rng(2).standard_normal((1, T, 8)), requires_grad=True)
    weights = mg.tensor(np.random.default_rng(3).standard_normal(8))
    rows = [mg.grad((run(x, masks)[0, i] * weights).sum(), [x])[0].data[0] for i in range(T)]
    return np.array([np.sqrt((row**2).sum(axis=-1)) for row in rows])


causal = causal_mask(6)
found = {"both layers causal": influence([causal, causal]), "the first layer not": influence([None, causal])}
for name, size in found.items():
    print(f"{name}: {(np.triu(size, 1) != 0).sum()} of 15 pairs above the diagonal are not exactly 0")
assert (np.triu(found["both layers causal"], 1) == 0).all() and (
    np.triu(found["the first layer not"], 1) > 0
).any()

# %%
figure = Figure(figsize=(7, 3.4), layout="constrained")
figure.suptitle("A leak, seen by gradients: one layer unmasked, and output 0 knows token 5", fontsize=11)
for axes, (name, size) in zip(figure.subplots(1, 2), found.items(), strict=True):
    shown = np.log10(np.where(size == 0, np.nan, size))
    image = axes.imshow(shown, cmap="viridis", vmin=-2, vmax=1)
    axes.set_facecolor("#E4E4E4")
    axes.set_title(f"{name} (grey: exactly 0)", fontsize=10)
    axes.set(xlabel="input token", ylabel="output", xticks=range(6), yticks=range(6))
figure.colorbar(image, ax=figure.axes, label="log10 of the gradient's norm")
show(
    figure,
    "Which output depends on which input: causal layers have nothing above the diagonal; one unmasked layer "
    "fills it",
)

# %% [markdown]
# Now the first way, for the whole encoder-decoder of 2017 (`models/transformer.py`), which makes its own
# masks. There are three claims about its logits (the scores before the softmax, one for each token of the
# vocabulary). Changing target token $t$ does not change a bit of the logits before $t$. The logits do not
# depend on how much padding the source has. No gradient reaches the vectors of padded source positions.

# %%
mg.manual_seed(1)
model = Transformer(12, d_model=16, num_heads=2, num_layers=2, d_ff=32, dropout=0.0).double()
src, tgt = np.array([[3, 4, 5, 0, 0]]), np.array([[1, 6, 7, 8, 9]])
before = model(src, tgt).data
for t in range(5):
    changed = tgt.copy()
    changed[0, t] = 11
    after = model(src, changed).data
    assert np.array_equal(after[0, :t], before[0, :t]) and (after[0, t] != before[0, t]).any()
print("no logit before a changed token changed, not by one bit")

more = model(np.array([[3, 4, 5, 0, 0, 0, 0, 0]]), tgt).data
print("three more padding tokens change the logits by at most", abs(more - before).max())
assert np.allclose(more, before, atol=1e-13)

memory = mg.tensor(model.encode(src).data, requires_grad=True)
logits = model.decode(mg.tensor(tgt), memory, src_mask=padding_mask(src, 0))
(d,) = mg.grad((logits**2).sum(), [memory])
print("gradient at each source position:", np.sqrt((d.data**2).sum(-1))[0])
assert (d.data[0, 3:] == 0).all() and (d.data[0, :3] != 0).any()

# %% [markdown]
# ## Edge cases
#
# **A row without an allowed key** (an empty row). It occurs in a sentence of padding only, or if
# `causal_mask` has fewer keys than queries. There are three results in practice. With $-\infty$ and a plain
# softmax, the row is $e^{-\infty - (-\infty)}$ = NaN, and one NaN spoils every parameter at the next update.
# With a large negative number, in float32 the row is *uniform over the masked keys*: silently wrong (question
# 5). Ours is 0, with gradient 0.
#
# (You may read "$-\infty$ or a very large negative number" as if these were the same. For rows with an
# allowed key they are; for empty rows they differ, and neither is what you want.)

# %%
scores = np.array([0.5, 2.0, 1.5])
nothing = np.zeros(3, bool)
with np.errstate(invalid="ignore"):
    minus_infinity = softmax_of(scores + np.where(nothing, 0, -np.inf))
large = softmax_of((scores + np.where(nothing, 0, -1e9)).astype(np.float32))
print("-inf:", minus_infinity, "  -1e9 in float32:", large, "  ours:", masked_softmax(scores, nothing))
assert (
    np.isnan(minus_infinity).all()
    and np.allclose(large, 1 / 3)
    and (masked_softmax(scores, nothing) == 0).all()
)

# %% [markdown]
# **One allowed key** has weight 1, whatever its score, even $-10^4$. **If all keys are allowed**, the mask
# changes nothing. **NaN or infinity in keys and values that no query may see** has no effect. (PyTorch lets a
# NaN in a masked *value* through; ours does not. `tutorials/coming_from_pytorch.md` lists such differences.)
# A NaN in a key that *some* query may see is different: it is a real bug, and it shows in the output.

# %%
one = np.array([True, False, False])
assert masked_softmax(np.array([-1e4, 3.0, 5.0]), one).tolist() == [1, 0, 0]
assert np.allclose(masked_softmax(S, np.ones((3, 3), bool)), softmax_of(S))

q, k, v = (mg.tensor(rng.standard_normal((1, 4, 3)), requires_grad=True) for _ in range(3))
real = np.array([True, True, True, False])
clean = F.scaled_dot_product_attention(q, k, v, real).data.copy()
k.data[0, 3], v.data[0, 3] = np.inf, np.nan
out = F.scaled_dot_product_attention(q, k, v, real)
out.sum().backward()
print("with inf and NaN in the padding, the same to the last bit:", np.array_equal(out.data, clean))
assert np.array_equal(out.data, clean) and all(np.isfinite(x.grad.data).all() for x in (q, k, v))

# %% [markdown]
# ## Pitfalls
#
# ### Polarity: what does True mean?
#
# | where | argument | True means |
# | --- | --- | --- |
# | minigrad and `models/`, everywhere | `mask` | may attend |
# | PyTorch, `F.scaled_dot_product_attention` | `attn_mask` | may attend |
# | PyTorch, `nn.MultiheadAttention`, `nn.Transformer` | `attn_mask`, `key_padding_mask` | **hidden** |
# | anywhere, if floating point | | added to the score: 0 = may attend, $-\infty$ = hidden |
#
# PyTorch's function and PyTorch's modules have opposite conventions. If you have a mask for the modules, pass
# `~mask` to ours. Masks that *allow* are combined with `&` (both must allow), masks that *hide* with `|`,
# *additive* masks with `+`. Mixing them up raises no error. The next cell shows what happens:

# %%
causal, padding = np.tri(4, dtype=bool), np.array([True, True, True, False])
right = causal & padding
by_or = causal | padding  # written for masks that hide
inverted = ~causal  # the convention of PyTorch's modules, in a function with the other one
for name, m in (("right", right), ("| instead of &", by_or), ("inverted", inverted)):
    future, fill_ins, empty = np.triu(m, 1).any(), m[:, 3].any(), (~m.any(axis=1)).sum()
    print(f"{name:15} future allowed: {future!s:5}  padding allowed: {fill_ins!s:5}  empty rows: {empty}")
hidden_right = ~causal | ~padding  # masks that hide are combined with |
assert np.array_equal(~hidden_right, right) and np.triu(by_or, 1).any() and (~inverted.any(1)).sum() == 1

# %% [markdown]
# ### Programs that leak without an error
#
# **The mask after the softmax.** Multiplying the weights by the mask looks equivalent. But the denominator is
# a sum over *all* keys, later ones included. So later keys get no weight, but they change the weights of
# earlier keys. Change the last key, and every earlier output changes.

# %%
rng = np.random.default_rng(4)
q, k, v = (rng.standard_normal((4, 3)) for _ in range(3))
causal = np.tri(4, dtype=bool)


def mask_after(q, k, v):
    return softmax_of(q @ k.T / np.sqrt(3)) * causal @ v


changed = k.copy()
changed[3] += 1.0
late = abs(mask_after(q, changed, v) - mask_after(q, k, v)).max(axis=1)
early = abs(attention(q, changed, v, causal) - attention(q, k, v, causal)).max(axis=1)
print(
    "change of each output when key 3 changes:\n  mask after the softmax ",
    late,
    "\n  mask inside the softmax",
    early,
)
assert (late[:3] > 0).all() and (early[:3] == 0).all() and early[3] > 0

# %% [markdown]
# **Off by one.** `np.tri(T, T, k=1)` lets each token see the next one, exactly the token it should predict.
# Then all the random tokens from the beginning are predicted correctly. Too good is a symptom: suspect the
# mask before you celebrate.
#
# **$0 \cdot \infty$.** `(1 - mask) * -np.inf` gives $0 \cdot (-\infty)$ = NaN where the mask is 1. Use
# `np.where(mask, 0, -np.inf)`.
#
# **Shapes that fit by accident.** A padding mask of shape $(B, T)$, without the two axes in the middle, is
# broadcast as (queries, keys). If batch and length differ you get an error. With 4 sentences of length 4 the
# padding of sentence $b$ is applied to query $b$ of *every* sentence.

# %%
one_ahead = np.mean(read(np.tri(T - 1, T, k=1, dtype=bool)) == sequence[1:])
print(f"random tokens with the mask off by one: {one_ahead:.0%} correct")
with np.errstate(invalid="ignore"):
    print("(1 - mask) * -inf =", (1 - np.array([1, 0])) * -np.inf)

tokens = np.array([[5, 3, 1, 2], [4, 1, 0, 0], [7, 8, 9, 0], [6, 0, 0, 0]])
right, bare = padding_mask(tokens, 0).data, tokens != 0  # (4, 1, 1, 4), (4, 4)
scores = np.zeros((4, 2, 4, 4))  # (B, H, n, m)
seen_right, seen_bare = (masked_softmax(scores, m)[1, 0] > 0 for m in (right, bare))
print("sentence 1 (two real tokens): keys seen by each query\n", seen_right.astype(int))
print("with the mask (B, T):\n", seen_bare.astype(int))
assert one_ahead == 1 and seen_right[:, 2:].sum() == 0 and seen_bare[:, 2:].sum() > 0

# %% [markdown]
# ### Questions learners ask
#
# **Does masking make the model faster or smaller?** No. The masked scores are computed and thrown away.
# Attention in blocks can skip blocks that are completely masked (lesson 16).
#
# **Is masking the loss the same thing?** No. The attention mask says which keys a query may attend to;
# `ignore_index` says which positions count in the loss. You need both: without the first, padding changes
# real outputs; without the second, the model is trained to predict padding.
#
# **Why is token 0 sometimes broken?** Because 0 was the padding *and* a real token. No real token may have
# the id that you choose for `pad`.
#
# **Is the causal mask needed when the model writes?** With a cache and one new token, no: all keys belong to
# earlier tokens or to the new token itself. With several new tokens (a prompt), yes, and bottom right.
#
# **Must I mask at evaluation too?** The causal mask always, because the model was trained with it. The
# padding mask whenever there is padding.

# %% [markdown]
# ## Practice questions
#
# ### Q1. How many pairs does a causal mask for $n$ tokens allow? For 4 and for 1000 tokens?
#
# <details><summary>Answer</summary>
#
# Query $i$ (counting from 1) sees $i$ keys: $1 + 2 + \dots + n = n(n+1)/2$. For 4 tokens 10, for 1000 tokens
# 500,500 of 1,000,000: a little more than half.
#
# </details>

# %%
# Q1, recomputed
print([int(np.tri(n, dtype=bool).sum()) for n in (4, 1000)])
assert 10_000**2 == 100_000_000  # bytes of a causal mask for 10,000 tokens, see "What was left out"
assert np.tri(4).sum() == 10 and np.tri(1000).sum() == 1000 * 1001 // 2 == 500_500

# %% [markdown]
# ### Q2. A target has 3 real tokens and 2 of padding. How many True has its mask for self-attention?
#
# <details><summary>Answer</summary>
#
# Query $i$ sees $\min(i, 3)$ keys: $1 + 2 + 3 + 3 + 3 = 12$. The last two rows belong to padded queries; they
# see the real tokens, and their outputs are not used.
#
# </details>

# %%
# Q2, recomputed
mask = causal_mask(5).data & padding_mask(np.array([[4, 7, 9, 0, 0]]), 0).data
print(mask[0, 0].astype(int), mask.sum())
assert mask.sum() == 12 == sum(min(i, 3) for i in range(1, 6))

# %% [markdown]
# ### Q3. `nn.MultiheadAttention` gets `attn_mask=a` and `key_padding_mask=b`, boolean. What is `mask` here?
#
# <details><summary>Answer</summary>
#
# In PyTorch's module True hides, in both masks; $b$ has shape $(B, T_k)$. Here True allows:
# `mask = ~a & ~b[:, None, None, :]`, which is the same as `~(a | b[:, None, None, :])` (De Morgan). For a
# causal $a$ of length 3 and a sentence whose last token is padding, 5 pairs are allowed.
#
# </details>

# %%
# Q3, recomputed
a, b = np.triu(np.ones((3, 3), bool), 1), np.array([[False, False, True]])
mask = ~a & ~b[:, None, None, :]
print(mask[0, 0].astype(int))
assert np.array_equal(mask, ~(a | b[:, None, None, :])) and mask.sum() == 1 + 2 + 2 == 5

# %% [markdown]
# ### Q4. Three tokens are in the cache, two are new. How many keys do these see? And with a top-left mask?
#
# <details><summary>Answer</summary>
#
# There are 5 keys. The first new token is token 4 and sees 4, the second sees 5. A top-left mask would allow
# 1 and 2: the new tokens could not even see themselves.
#
# </details>

# %%
# Q4, recomputed
bottom_right, top_left = causal_mask(2, 5).data[0, 0], np.tri(2, 5, dtype=bool)
print(bottom_right.sum(axis=1), top_left.sum(axis=1))
assert (
    bottom_right.sum(axis=1).tolist() == [4, 5]
    and top_left.sum(axis=1).tolist() == [1, 2]
    and not top_left[:, 3:].any()
)

# %% [markdown]
# ### Q5. Why is an empty row with $-10^9$ added exactly uniform in float32, though its scores differ?
#
# <details><summary>Answer</summary>
#
# Near $10^9$ adjacent float32 numbers are 64 apart. Adding a score of 2 to $-10^9$ gives $-10^9$ again: the
# score is rounded away. All sums are equal, so the weights are $1/m$. In float64 the numbers there are
# $1.2 \cdot 10^{-7}$ apart, and the row is nearly the *unmasked* softmax. Both are wrong in different ways.
#
# </details>

# %%
# Q5, recomputed
wide = softmax_of(np.array([0.5, 2.0, 1.5]) - 1e9)
print(np.spacing(np.float32(1e9)), np.float32(-1e9) + np.float32(2), np.spacing(1e9), wide)
assert np.spacing(np.float32(1e9)) == 64 and np.float32(-1e9) + np.float32(2) == np.float32(-1e9)
assert abs(np.spacing(1e9) - 1.2e-7) < 1e-8 and np.allclose(
    wide, softmax_of(np.array([0.5, 2.0, 1.5])), atol=1e-6
)

# %% [markdown]
# ### Q6. Write attention with a mask $M$ that prevents positions from attending to future positions.
#
# <details><summary>Answer</summary>
#
# $\text{MaskedAttention}(Q, K, V, M) = \text{softmax}\left(\frac{QK^\top}{\sqrt{d_k}} + M\right) V$, where
# $M_{ij} = 0$ for $j \leq i$ and $-\infty$ for $j > i$. After adding, the weights of future positions are
# $e^{-\infty} = 0$. With the causal mask alone every row has at least its own key, so no row is empty. With
# padding, rows can be empty: then this formula gives $0/0$, NaN on a computer, and needs an extra rule (0,
# here). A large negative number instead of $-\infty$ gives the same for rows with an allowed key, and a wrong
# result for empty rows (question 5).
#
# </details>

# %%
# Q6, recomputed
M = np.triu(np.full((3, 3), -np.inf), 1)
by_formula = softmax_of(S + M) @ np.eye(3)
print(by_formula)
assert (
    np.allclose(by_formula, masked_softmax(S, np.tri(3, dtype=bool))) and (np.triu(by_formula, 1) == 0).all()
)
assert np.allclose(softmax_of(S + np.where(M == 0, 0, -1e9)), by_formula)

# %% [markdown]
# ### Q7. Scores $(0, 0)$; the second key is in the future. Compare the mask inside the softmax and after it.
#
# <details><summary>Answer</summary>
#
# Inside: weights $(1, 0)$; the derivative of the first weight with respect to either score is 0. After: the
# softmax is $(0.5, 0.5)$, masked $(0.5, 0)$. The row sums to a half, and the first weight's derivative with
# respect to the *future* score is $-p_1 p_2 = -0.25$. That slope is the leak.
#
# </details>

# %%
# Q7, recomputed
step, future = 1e-6, np.array([0.0, 1.0])
inside = [masked_softmax(x * future, np.array([True, False]))[0] for x in (-step, step)]
after = [softmax_of(x * future)[0] for x in (-step, step)]
slopes = (inside[1] - inside[0]) / (2 * step), (after[1] - after[0]) / (2 * step)
print("slope of the first weight at the future score, mask inside:", slopes[0], " after:", slopes[1])
assert slopes[0] == 0 and abs(slopes[1] + 0.25) < 1e-9 and softmax_of(np.zeros(2)).tolist() == [0.5, 0.5]

# %% [markdown]
# ### Q8. Padded *queries* are not masked. Show that they have no influence on training.
#
# <details><summary>Answer</summary>
#
# The loss leaves padded positions out, so the gradient $G$ is 0 in their rows. Then $dP = GV^\top$ and $dS$
# are 0 in these rows, and so are their terms in $dK = dS^\top Q / \sqrt{d_k}$ and $dV = P^\top G$. As keys
# they are masked, so in the next layer they are hidden again. The next cell replaces their queries by others
# a thousand times as large: $dK$ and $dV$ do not change.
#
# </details>

# %%
# Q8, recomputed
real = np.array([True, True, False, False])
q, k, v, g = (rng.standard_normal((4, 3)) for _ in range(4))
g[~real] = 0  # the loss does not count them
other = np.where(real[:, None], q, 1000 * rng.standard_normal((4, 3)))
first, second = (attention_backward(g, x, k, v, real[None, :]) for x in (q, other))
print(
    "largest change of dk and dv:",
    [float(abs(a - b).max()) for a, b in zip(first[1:], second[1:], strict=True)],
)
assert (
    all(np.array_equal(a, b) for a, b in zip(first[1:], second[1:], strict=True))
    and (first[0][~real] == 0).all()
)

# %% [markdown]
# ## What was left out
#
# - **Other patterns**: windows of the last few hundred tokens, prefixes whose tokens see each other, several
#   documents packed into one row. All of them are boolean arrays and combine with `&`.
# - **Additive masks with finite numbers**: preferences for near keys, instead of position vectors (ALiBi,
#   Press et al. 2022).
# - **Rules instead of arrays**: a causal mask for 10,000 tokens is 100 MB of booleans. For long sequences
#   minigrad's `causal_mask` is a rule (`F.CausalMask`) that attention in blocks applies without building the
#   array.
# - **Dropout** hides weights at random. It is not a mask in this sense: its weights need not sum to 1 (lesson
#   12).
#
# ## Sources
#
# - Vaswani et al. 2017, *Attention Is All You Need*, section 3.2.3: the three attentions, and $-\infty$ for
#   illegal connections.
# - PyTorch's documentation of `scaled_dot_product_attention` (boolean True takes part; `is_causal` is aligned
#   top left) and of `nn.MultiheadAttention` (boolean True is not allowed to attend, or is ignored).
# - Press, Smith & Lewis 2022, *Train Short, Test Long* (ALiBi).
#
# ## Exercises
#
# `python -m tutorials start 09` gives you seven functions to write: causal and padding masks, the masks of a
# decoder's two attentions, the masked softmax whose empty rows are 0, attention with a mask and NaN in the
# padding, its backward pass, and a detector that finds which output depends on which input, for any model.
# `python -m tutorials check 09` tests them.
