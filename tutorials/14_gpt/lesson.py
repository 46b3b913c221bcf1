# %% [markdown]
# # 14 · GPT: predicting the next token
#
# *Reading: 45 minutes. Exercises: 70 minutes. Needs: lessons 05, 06, 09, 12, 13.*
#
# Take the decoder of lesson 13 and remove the source. The rest guesses the next token of a text, and nothing
# else. How far does that go, how is a text drawn from the guesses, and what is a token?
#
# **You will be able to:**
#
# - say why one pass over $T$ tokens trains $T$ predictions, and check that it does;
# - train a small GPT, and judge its loss against $\ln V$ and against counting letters;
# - sample with temperature, top-k and top-p, and explain the effect of each on the distribution;
# - write a KV cache, show that it does not change the result, and count the FLOPs that it saves;
# - train, apply and undo byte pair encoding.

# %%
import math
from collections import Counter

import numpy as np
from matplotlib.figure import Figure

import minigrad as mg
import minigrad.nn.functional as F
from minigrad import optim, viz
from minigrad.data import BPE, Characters
from minigrad.gradcheck import gradcheck
from minigrad.nn import init
from minigrad.nn.utils import clip_grad_norm_
from models import decoding
from models.gpt import GPT
from models.recipes.text import manual, windows
from tutorials import show

np.set_printoptions(precision=4, suppress=True)
mg.manual_seed(0)

# %% [markdown]
# ## Intuition: a guess at every position
#
# Cover a text with a sheet of paper and uncover it letter by letter. Before each letter, guess. After
# `assignmen` you would bet all you have on `t`; after a full stop you would spread your money. Somebody who
# bets well knows spelling, grammar and, for the hardest letters, what the text is about. That is the whole
# training signal of a GPT (Radford et al. 2018, section 3.1): no labels but the text itself.
#
# The text here is the prose of Python's own manual, which comes with Python: the paragraphs that are mostly
# letters, in lower case.

# %%
paragraphs = [" ".join(p.split()) for p in manual().split("\n\n") if len(p) > 80 and not p.startswith(" ")]
prose = [p for p in paragraphs if sum(c.isalpha() or c in " ,." for c in p) > 0.96 * len(p)]
text = "\n".join(prose).lower()
vocabulary = Characters(text)
data = vocabulary.encode(text)
cut = len(data) * 9 // 10
train, test = data[:cut], data[cut:]
V = len(vocabulary)
print(f"{len(text):,} characters, {V} different ones; nine tenths are for training, the last for testing")
print(text[:160])

# %% [markdown]
# ## Definition
#
# By the product rule of probability, a text $t_1 \dots t_T$ has the probability
#
# $$p(t_1 \dots t_T) = \prod_{i=1}^{T} p(t_i \mid t_1 \dots t_{i-1}),$$
#
# so a model of the next token is a model of whole texts. The loss is the mean cost of a guess,
#
# $$L = -\frac1T \sum_{i=1}^{T} \ln p(t_i \mid t_{<i}),$$
#
# in nats per token. (Of a window of a text, the first token is given, and the model is asked for the $T$
# after it.) A model that knows nothing gives each of the $V$ tokens $1/V$, and pays $\ln V$. The loss has
# other units too: $L / \ln 2$ is bits, and $e^L$ is the **perplexity**: the model is as unsure as between
# $e^L$ equally likely tokens.
#
# The model (`models/gpt.py`; $C$ is `d_model`, tokens $(B, T)$): token and position embeddings, both learned,
# then blocks, then a norm, then the embedding table $E$ again as output matrix:
#
# $$x = E[t] + P \quad (B, T, C) \qquad \mathrm{logits} = N(x) E^\top \quad (B, T, V)$$
#
# and between these two, in each block,
#
# $$x \leftarrow x + \mathrm{Att}_{\text{causal}}(N(x)) \qquad x \leftarrow x + \mathrm{MLP}(N(x)).$$
#
# Compared with lesson 13: no cross-attention, the norm *before* each sublayer (pre-norm, lesson 12), GELU
# instead of ReLU, and one mask, the causal one (lesson 09).

# %%
model = GPT(V, d_model=96, num_heads=4, num_layers=2, max_len=32, dropout=0.0, init_std=96**-0.5)
for name, part in model.named_children():
    print(f"{name:5s} {type(part).__name__:17s} {sum(p.numel() for p in part.parameters()):7,d} parameters")
print(f"{'all':5s} {'':17s} {sum(p.numel() for p in model.parameters()):7,d}")

# %% [markdown]
# ## A worked example by hand
#
# Three tokens `a`, `b`, `c`, and a model that gives their logits as $z = (2, 1, 0)$.
#
# - **softmax**: $e^z = (7.389, 2.718, 1)$, their sum $11.107$, so $p = (0.6652, 0.2447, 0.0900)$.
# - If `b` came next, it pays $-\ln 0.2447 = 1.4076$ nats, which are $2.0308$ bits. A model that knows nothing
#   pays $\ln 3 = 1.0986$: being confidently wrong is worse than knowing nothing.
# - **temperature 0.5** doubles the logits: $e^{4}, e^2, e^0 = (54.598, 7.389, 1)$, $p = (0.8668, 0.1173,
#   0.0159)$.
# - **temperature 2** halves them: $(2.718, 1.649, 1)$, $p = (0.5065, 0.3072, 0.1863)$.
# - **top-k, $k = 2$**: `c` is dropped, and the rest is divided by $0.9100$: $(0.7311, 0.2689, 0)$.
# - **top-p, $p = 0.6$**: `a` alone reaches 0.6: $(1, 0, 0)$. With $p = 0.7$ it does not, so `b` stays too.

# %%
z = np.array([2.0, 1.0, 0.0])


def softmax(z):
    e = np.exp(z - z.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


p = softmax(z)
assert np.allclose(p, [0.6652, 0.2447, 0.0900], atol=1e-4)
assert math.isclose(-math.log(p[1]), 1.4076, abs_tol=1e-4) and math.isclose(
    -math.log2(p[1]), 2.0308, abs_tol=1e-4
)
assert math.isclose(math.log(3), 1.0986, abs_tol=1e-4)
assert np.allclose(softmax(z / 0.5), [0.8668, 0.1173, 0.0159], atol=1e-4)
assert np.allclose(softmax(z / 2), [0.5065, 0.3072, 0.1863], atol=1e-4)
assert np.allclose(p[:2] / p[:2].sum(), [0.7311, 0.2689], atol=1e-4) and 0.6 <= p[0] < 0.7
print("softmax", p, "  cold", softmax(z / 0.5), "  hot", softmax(z / 2))

# %% [markdown]
# ## One pass, $T$ predictions
#
# A window of $T + 1$ tokens gives $T$ inputs and $T$ answers; each input's answer is the token after it. The
# shift is that of lesson 13, and the causal mask ensures that no position can see its answer.

# %%
x, y = windows(data, np.array([0]), 12)
print("reads      ", list(vocabulary.decode(x[0])))
print("answers    ", list(vocabulary.decode(y[0])))

# %% [markdown]
# ## Derivation: why that is the same as $T$ separate examples
#
# Let $\ell_i$ be the loss at position $i$. By the causal mask it depends on tokens $1 \dots i$ only. So it
# equals the loss that a pass over the prefix $t_1 \dots t_i$ alone gives at its last position. Hence for
# every parameter $\theta$
#
# $$\frac{\partial L}{\partial \theta} = \frac1T \sum_{i=1}^{T} \frac{\partial \ell_i}{\partial \theta},$$
#
# and each term is the gradient of the loss at the last position of the prefix $t_1 \dots t_i$.
#
# One pass over $T$ tokens does the work of $T$ passes over $1 + 2 + \dots + T = T(T+1)/2$ tokens. Check it,
# on the gradient of every parameter:

# %%
mg.manual_seed(0)
tiny = GPT(V, d_model=16, num_heads=2, num_layers=2, max_len=16, dropout=0.0).double()


def gradients(loss):
    return np.concatenate([g.data.ravel() for g in mg.grad(loss, [*tiny.parameters()])])


once = gradients(F.cross_entropy(tiny(x)[0], y[0]))
separate = [gradients(F.cross_entropy(tiny(x[:, : i + 1])[0, -1:], y[0, i : i + 1])) for i in range(12)]
print("largest difference of", once.size, "derivatives:", np.abs(once - np.mean(separate, 0)).max())
assert np.allclose(once, np.mean(separate, 0), atol=1e-12)

# %% [markdown]
# Seen from the input, the same fact is a triangle: the loss at position $i$ has a gradient at the embedding
# of position $j$ only if $j \le i$. Below, the norm of each of these gradients.

# %%
leaf = (tiny.wte(x) + tiny.wpe(np.arange(12))).detach().requires_grad_()
hidden = leaf
for block in tiny.h:
    hidden = block(hidden, mg.tensor(np.tri(12, dtype=bool)))
losses = F.cross_entropy(F.linear(tiny.ln_f(hidden), tiny.wte.weight)[0], y[0], reduction="none")
reach = np.array(
    [np.linalg.norm(mg.grad(loss, leaf, retain_graph=True)[0].data[0], axis=-1) for loss in losses]
)
assert (reach[np.triu_indices(12, 1)] == 0).all() and (reach[np.tril_indices(12)] > 0).all()
figure = Figure(figsize=(6, 4.6), layout="constrained")
axes = figure.add_subplot()
image = axes.imshow(np.where(reach > 0, reach, np.nan), cmap="Blues", norm="log")
labels = ["␣" if c == " " else c for c in vocabulary.decode(x[0])]
axes.set_xticks(range(12), labels, family="monospace")
axes.set_yticks(range(12), ["␣" if c == " " else c for c in vocabulary.decode(y[0])], family="monospace")
axes.set(
    xlabel="token read",
    ylabel="token to predict",
    title="Each loss reaches only the tokens before its answer",
)
figure.colorbar(image, label="norm of the gradient")
show(
    figure,
    "The gradient of each position's loss at each token: a lower triangle, as no position sees a later one.",
)

# %% [markdown]
# ## Derivation: one table, used twice
#
# $E$ converts tokens to vectors at the bottom and vectors to logits at the top. With $h = f(E[t])$ and
# $\mathrm{logits} = h E^\top$, and $G$ the gradient of the logits $(T, V)$:
#
# - as output matrix, $dE = G^\top h$, of shape $(V, C)$: every row gets a gradient, since every token has a
#   logit;
# - at the input, with $dx$ the gradient that arrives at $x = E[t]$: row $v$ gets the sum of $dx_i$ over all
#   positions $i$ with $t_i = v$.
#
# Both are derivatives with respect to the same parameters, so they add up. In NumPy, with $f(x) = x W$
# between them:

# %%
rng = np.random.default_rng(0)
tokens, W = np.array([1, 3, 1, 0]), rng.standard_normal((3, 3))


def tied(E):
    return E[tokens] @ W @ E.T  # (T, V)


def tied_backward(G, E):
    h = E[tokens] @ W
    dE = G.T @ h  # as output matrix
    np.add.at(dE, tokens, G @ E @ W.T)  # and at the input: repeated tokens add up
    return dE


# %% [markdown]
# ## Gradient check

# %%
print("tied table:", gradcheck((tied, tied_backward), [rng.standard_normal((5, 3))]))
mg.manual_seed(0)
checked = GPT(7, d_model=8, num_heads=2, num_layers=2, max_len=6, dropout=0.0, init_std=0.3).double()
for table in (checked.wte.weight, checked.wpe.weight):
    # a norm of inputs as small as 0.02 is so curved that finite differences lose their digits
    init.normal_(table)
print(
    "whole GPT:", gradcheck(lambda *p: checked(np.array([[1, 5, 1, 2]])), [*checked.parameters()], fast=True)
)

# %% [markdown]
# ## Training, and what the loss means
#
# Before training the loss is about $\ln V$: the initial logits are small, so all tokens are about equally
# likely. (If a fresh model's loss is far above, its initial values are too wide.) Two more yardsticks,
# without any network: the frequency of each character, and its frequency after the character before it. Both
# are counted on the training part and measured on the rest (each count begins at 1, so that nothing is
# impossible).

# %%
single = np.bincount(train, minlength=V) + 1.0
pairs = np.ones((V, V))
np.add.at(pairs, (train[:-1], train[1:]), 1)
yardsticks = {
    "ln V, knowing nothing": math.log(V),
    "frequencies of characters": -np.log(single / single.sum())[test].mean(),
    "frequencies of pairs": -np.log(pairs / pairs.sum(1, keepdims=True))[test[:-1], test[1:]].mean(),
}
for name, nats in yardsticks.items():
    print(f"{name:26s} {nats:.3f} nats, {nats / math.log(2):.3f} bits, perplexity {math.exp(nats):5.1f}")


# %%
def test_loss():
    x, y = windows(test, np.arange(0, len(test) - 32, 32), 32)
    with mg.no_grad():
        return F.cross_entropy(model(x).reshape(-1, V), y.reshape(-1)).item()


STEPS, rng, curve = 600, np.random.default_rng(0), {0: test_loss()}
optimizer = optim.AdamW(model.parameters(), lr=4e-3, betas=(0.9, 0.99), weight_decay=0.1)
schedule = optim.lr_scheduler.WarmupCosineLR(optimizer, 50, STEPS, 0.05)
for step in range(1, STEPS + 1):
    x, y = windows(train, rng.integers(len(train) - 32, size=24), 32)  # 24 windows of 32: 768 predictions
    loss = F.cross_entropy(model(x).reshape(-1, V), y.reshape(-1))
    optimizer.zero_grad()
    loss.backward()
    clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    schedule.step()
    if step % 100 == 0:
        curve[step] = test_loss()
        print(f"step {step}   training {loss.item():.3f}   test {curve[step]:.3f} nats")
assert abs(curve[0] - math.log(V)) < 0.1 and curve[STEPS] < yardsticks["frequencies of pairs"] - 0.3

# %%
figure = Figure(figsize=(7, 3.8), layout="constrained")
axes = figure.add_subplot()
axes.plot(list(curve), list(curve.values()), "o-", color="#0072B2", label="this GPT")
for (name, nats), style in zip(yardsticks.items(), (":", "--", "-."), strict=True):
    axes.axhline(nats, color="#777777", linestyle=style, label=name)
axes.set(xlabel="step", ylabel="loss on the test part (nats per character)", ylim=(0, None))
axes.set_title("It starts at ln V, learns letters, then pairs, then more than pairs")
axes.legend()
show(figure, "The test loss of a small GPT, compared with counting characters and pairs of characters.")
model.eval()

# %% [markdown]
# After twenty seconds on a laptop the model is better than counting. `python -m minigrad.train text` takes
# minutes and reaches 1.86 bits per character on the whole manual (README). That is a different text from
# ours, with code in it: compare only losses on the same text.
#
# ## Sampling
#
# The model gives a distribution; how you choose from it is up to you.
#
# - **Greedy**: always the likeliest. It is safe and soon repeats itself: a loop is very likely once it has
#   begun.
# - **Temperature** $\tau$: softmax of $z / \tau$. As $\tau \to 0$ it becomes greedy, as $\tau \to \infty$ all
#   tokens become equally likely.
# - **top-k** (Fan et al. 2018): only the $k$ likeliest, whatever their probabilities.
# - **top-p** or nucleus (Holtzman et al. 2020): the fewest likeliest whose probabilities reach $p$. If the
#   model is sure, that is one token; if it is not, many.


# %%
def top_k(p, k):
    out = np.zeros_like(p)
    keep = np.argsort(-p, kind="stable")[:k]
    out[keep] = p[keep]
    return out / out.sum()


def top_p(p, reach):
    order = np.argsort(-p, kind="stable")
    before = np.cumsum(p[order]) - p[order]  # the sum of the likelier tokens
    out = np.zeros_like(p)
    keep = order[before < reach]  # the first always stays: nothing is before it
    out[keep] = p[keep]
    return out / out.sum()


for start in ("the assignmen", "the "):
    with mg.no_grad():
        p = softmax(model(vocabulary.encode(start)[None]).data[0, -1].astype(float))
    likeliest = {vocabulary.decode([i]): round(float(p[i]), 3) for i in np.argsort(-p)[:4]}
    count = np.count_nonzero(top_p(p, 0.9))
    print(f"{start!r:16s} {likeliest}   top-p 0.9 keeps {count} of {np.count_nonzero(top_k(p, V))}")


# %%
def write(start, length, choose, rng):
    """Write token by token; `choose` converts the last position's logits to probabilities."""
    tokens = list(vocabulary.encode(start))
    for _ in range(length):
        with mg.no_grad():
            logits = model(np.array([tokens[-32:]])).data[0, -1].astype(float)  # the context holds 32 tokens
        p = choose(logits)
        tokens.append(int(rng.choice(V, p=p)))
    return vocabulary.decode(tokens)


ways = {
    "greedy": lambda z: np.eye(V)[z.argmax()],
    "temperature 0.5": lambda z: softmax(z / 0.5),
    "temperature 1": softmax,
    "temperature 1.5": lambda z: softmax(z / 1.5),
    "top-k 5": lambda z: top_k(softmax(z), 5),
    "top-p 0.8": lambda z: top_p(softmax(z), 0.8),
}
for name, choose in ways.items():
    print(f"{name:16s} {write('the value of ', 90, choose, np.random.default_rng(1))!r}")

# %% [markdown]
# Words of the manual, or nearly, and no sense: twenty seconds of training get that far. The same in minigrad
# is `models/decoding.py`: `Sampler` applies these choices (temperature first, then top-k, then top-p),
# `generate` and `stream` write with it.

# %%
start = vocabulary.encode("the value of ")
# past the edge of the context too
written = vocabulary.decode(list(decoding.stream(model, start, max_new=60, temperature=0)))
print(repr(written))
assert "the value of " + written == write("the value of ", 60, ways["greedy"], rng)

# %% [markdown]
# ## KV cache: computing only the new token
#
# `write` runs the whole model over all tokens for each new one. But appending a token changes, by the causal
# mask, *nothing* at the earlier positions. Their keys and values in each layer are the same as before, and
# their outputs are not needed again. So keep keys and values, compute query, key and value of the new token
# only, and let its query attend to all keys. No mask is needed: the newest token may see all tokens.


# %%
def attention_step(q, k, v, keys, values):
    """q, k, v (H, D) of a new token; keys, values (H, T, D) before it -> output (H, D), both longer by one."""
    keys = np.concatenate([keys, k[:, None]], 1)  # (H, T + 1, D)
    values = np.concatenate([values, v[:, None]], 1)
    scores = (keys @ q[:, :, None])[..., 0] / math.sqrt(q.shape[-1])  # (H, T + 1)
    return (softmax(scores)[:, None] @ values)[:, 0], keys, values


q, k, v = rng.standard_normal((3, 2, 6, 4))  # two heads, six tokens, width 4
whole = F.scaled_dot_product_attention(*map(mg.tensor, (q, k, v)), is_causal=True).data
keys = values = np.zeros((2, 0, 4))
for t in range(6):
    out, keys, values = attention_step(q[:, t], k[:, t], v[:, t], keys, values)
    assert np.allclose(out, whole[:, t])  # at every position
print("one token at a time gives the same as all at once, at each of the 6 positions")

# %% [markdown]
# The whole model, with `new_cache()`: it reads token by token up to the edge of its context. And its cost:
# FLOPs counted by the trace (lesson 13) for 32 tokens written one after another.

# %%
tokens = test[None, :32]
with mg.no_grad():
    at_once, cache = model(tokens).data, model.new_cache()
    one_by_one = np.concatenate([model(tokens[:, t : t + 1], cache=cache).data for t in range(32)], 1)
print("largest difference of all logits at all positions:", np.abs(at_once - one_by_one).max())
assert np.allclose(at_once, one_by_one, atol=1e-4)
with mg.no_grad():
    cache, with_cache = model.new_cache(), []
    for t in range(32):
        with_cache.append(viz.trace_forward(model, tokens[:, t : t + 1], cache=cache).flops)
    without = [viz.trace_forward(model, tokens[:, : t + 1]).flops for t in range(32)]
print(f"the 32nd token: {without[-1] / 1e6:.2f} M FLOPs without, {with_cache[-1] / 1e6:.2f} M with the cache")
times = sum(without) / sum(with_cache)
print(
    f"all 32:         {sum(without) / 1e6:.0f} M without, {sum(with_cache) / 1e6:.1f} M with: "
    f"{times:.0f} times less"
)
assert sum(without) > 12 * sum(with_cache)

# %% [markdown]
# Without a cache the $t$-th token costs about $t$ times what it costs with one, so $T$ tokens cost about
# $T/2$ times as much. The price is memory: $2 \cdot \text{layers} \cdot T \cdot C$ elements for each text
# (lesson 16 counts it for large models).
#
# ## Edge cases
#
# - **The context's edge.** There are `max_len` positions, and a longer input is refused. To continue, drop
#   the oldest tokens and move the rest to positions $0 \dots T-1$, as `write` does with `tokens[-32:]`. Then
#   the cache is worthless: it was computed at other positions. `decoding.Prompts` does so.
# - **Temperature 0** would divide by 0; it means greedy. **top-k above $V$** keeps everything. **top-p**
#   always keeps the likeliest.
# - **A single token** is a text: it is given, so only the token after it is predicted.

# %%
try:
    model(test[None, :33])
except ValueError as error:
    print(error)
p = softmax(np.array([3.0, 1.0, 0.0]))
assert (
    np.allclose(top_k(p, 99), p) and np.count_nonzero(top_p(p, 0.01)) == 1 and np.allclose(top_p(p, 1.0), p)
)
print(model(test[None, :1]).shape)

# %% [markdown]
# ## What is a token? Byte pair encoding
#
# Characters make long sequences, and attention's cost is quadratic in the length. Whole words make a
# vocabulary that never ends, and every unknown word is lost. **Byte pair encoding** (Sennrich et al. 2016; on
# bytes as in GPT-2, Radford et al. 2019, section 2.2) is in between and is learned: begin with the 256 bytes
# as symbols; find the most frequent pair of neighbouring symbols; join this pair everywhere, as a new symbol;
# repeat.
#
# By hand, on the words `low lower lowest` (a space belongs to the word after it, and nothing is joined across
# a word's beginning):
#
# 1. `l o` occurs 3 times, `o w` 3 times, `w e` twice, `␣ l` twice, `e r`, `e s`, `s t` once. Of the two with
#    3, take the lower pair (any rule will do, but it must be a rule): `l` is byte 108, `o` is 111, so `l o` →
#    **256**.
# 2. Now `lo w` occurs 3 times, and becomes **257**.
# 3. `low e` (257, 101) and `␣ low` (32, 257) occur twice each. The lower pair is (32, 257): it becomes
#    **258**. Then 258 and `e` (258, 101) become **259**.
# 4. No pair occurs twice any more, so it ends.


# %%
def joined(symbols, pair, new):
    """The symbols with `new` for each pair, from the left."""
    out, i = [], 0
    while i < len(symbols):
        here = tuple(symbols[i : i + 2]) == pair
        out.append(new if here else symbols[i])
        i += 1 + here
    return out


words, merges = [list(word.encode()) for word in ("low", " lower", " lowest")], []
while True:
    counts = Counter(pair for word in words for pair in zip(word, word[1:], strict=False))
    best = min(counts, key=lambda pair: (-counts[pair], pair), default=None)
    if best is None or counts[best] < 2:
        break
    words = [joined(word, best, 256 + len(merges)) for word in words]
    merges.append(best)
    print(f"{best} occurs {counts[best]} times -> {255 + len(merges)}   words are now {words}")
assert (
    merges
    == [(108, 111), (256, 119), (32, 257), (258, 101)]
    == BPE.train("low lower lowest", 256 + 10).merges
)

# %% [markdown]
# To **encode** a new text, replay the merges: of the pairs in it, join the one learned *first*, until none is
# left. Not the most frequent in this text, and not from left to right: a symbol can only consist of symbols
# that were made before it. To **decode**, write out the bytes of each symbol.

# %%
bpe = BPE.train("low lower lowest", 256 + 4)
for word in ("low", " slow", " lowest", "été"):
    numbers = bpe.encode(word)
    print(f"{word!r:10s} -> {numbers.tolist()}  = {[bpe.decode([n]) for n in numbers]}")
    assert bpe.decode(numbers) == word

# %% [markdown]
# Bytes have a price too: `é` is two bytes in UTF-8, and if no merge joins them, two tokens, neither of them a
# character. But nothing is unknown. On our text, with the training part's merges:

# %%
learned = BPE.train(vocabulary.decode(train), 512)
for sentence in ("an assignment statement evaluates the expression list", "zebras and xylophones"):
    print(len(sentence), "characters:", [learned.decode([n]) for n in learned.encode(sentence)])
in_test = vocabulary.decode(test)
ratio = len(in_test) / len(learned.encode(in_test))
print(f"{ratio:.2f} characters to a token in the test part: a context of 32 reaches that much further")
assert learned.decode(learned.encode(in_test)) == in_test and ratio > 1.8

# %% [markdown]
# Losses per *token* of two vocabularies cannot be compared: a longer token is harder to guess. Bits per
# *character* can: the loss in bits, times tokens, divided by characters. With the default run's settings
# characters reach 1.86 and 512 symbols 1.76 bits per character of the manual (README).
#
# ## Pitfalls
#
# **Shifting twice, or not at all.** `windows` already gives answers shifted by one. Shift again and the model
# learns to guess the token after next. Without a shift, it can see its answer (lesson 13 shows the result).
#
# **Losses per token compared across vocabularies.** See above.
#
# **The order of temperature, top-k and top-p.** They do not commute. Temperature first, then the cut, is the
# usual order and ours; the temperature changes the set that top-p keeps:

# %%
p, cold = softmax(z), softmax(z / 0.5)
print("top-p 0.7 of p:", top_p(p, 0.7), "  of p at temperature 0.5:", top_p(cold, 0.7))
assert np.count_nonzero(top_p(p, 0.7)) == 2 and np.count_nonzero(top_p(cold, 0.7)) == 1

# %% [markdown]
# **A causal mask from the wrong corner.** With a cache, two new tokens after three old ones give 2 queries
# and 5 keys. The last query sees all keys: the triangle is aligned at the *bottom right* (lesson 09). Aligned
# at the top left it would hide the past from the present.
#
# **A cache that is used for another text.** It contains *its own* text. A new prompt needs a new cache, as
# here:

# %%
with mg.no_grad():
    cache = model.new_cache()
    model(vocabulary.encode("something else ")[None], cache=cache)
    stale = model(vocabulary.encode("the value of")[None], cache=cache).data[0, -1]
    fresh = model(vocabulary.encode("the value of")[None]).data[0, -1]
print("with a used cache the logits differ by", np.abs(stale - fresh).max().round(2))
assert np.abs(stale - fresh).max() > 0.1

# %% [markdown]
# **Judging by the training loss.** A model soon overfits a small text. Hold out a part, measure the loss
# there, and stop when it no longer falls.
#
# ## Practice questions

# %% [markdown]
# ### Q1. An untrained GPT over 50,257 tokens: which loss do you expect at the first step?
#
# <details><summary>Answer</summary>
#
# About $\ln 50257 = 10.82$ nats.
#
# </details>

# %%
# Q1, recomputed
assert round(math.log(50257), 2) == 10.82
print(math.log(50257))

# %% [markdown]
# ### Q2. A batch of 24 windows of 32: how many predictions does a step train, and how many prefixes equal it?
#
# <details><summary>Answer</summary>
#
# $24 \cdot 32 = 768$ of each: 768 predictions, and 768 prefixes with $24 \cdot 32 \cdot 33 / 2 = 12{,}672$
# tokens together instead of 768.
#
# </details>

# %%
# Q2, recomputed
assert 24 * 32 == 768 and 24 * sum(range(1, 33)) == 24 * 32 * 33 // 2 == 12_672
print(768, 12_672)

# %% [markdown]
# ### Q3. Probabilities 0.5, 0.2, 0.15, 0.1, 0.05. What do top-k with k = 2 and top-p with p = 0.8 leave?
#
# <details><summary>Answer</summary>
#
# Top-k: the first two, $0.5/0.7 = 0.714$ and $0.2/0.7 = 0.286$. Top-p: 0.5 and 0.7 are not enough, 0.85 is,
# so three: $0.588$, $0.235$, $0.176$.
#
# </details>

# %%
# Q3, recomputed
p = np.array([0.5, 0.2, 0.15, 0.1, 0.05])
assert np.allclose(top_k(p, 2), [0.714, 0.286, 0, 0, 0], atol=5e-4)
assert np.allclose(top_p(p, 0.8), [0.588, 0.235, 0.176, 0, 0], atol=5e-4)
print(top_k(p, 2), top_p(p, 0.8))

# %% [markdown]
# ### Q4. A loss of 1.2 nats per token, 2.5 characters to a token: perplexity? Bits per character?
#
# <details><summary>Answer</summary>
#
# Perplexity $e^{1.2} = 3.32$ per token. $1.2 / \ln 2 = 1.731$ bits per token, divided by 2.5: $0.692$ bits
# per character.
#
# </details>

# %%
# Q4, recomputed
assert (
    round(math.exp(1.2), 2) == 3.32
    and round(1.2 / math.log(2), 3) == 1.731
    and round(1.2 / math.log(2) / 2.5, 3) == 0.692
)
print(math.exp(1.2), 1.2 / math.log(2) / 2.5)

# %% [markdown]
# ### Q5. Does temperature change which token greedy decoding takes? And which tokens top-k keeps? And top-p?
#
# <details><summary>Answer</summary>
#
# No, no, yes. Dividing by $\tau > 0$ keeps the order, so the likeliest and the $k$ likeliest stay. How many
# reach $p$ depends on the probabilities: for logits $(2, 1, 0)$ and $p = 0.7$ two tokens at temperature 1,
# one at 0.5.
#
# </details>

# %%
# Q5, recomputed
assert all(softmax(z / t).argmax() == z.argmax() for t in (0.1, 1, 10))
assert [int(np.count_nonzero(top_p(softmax(z / t), 0.7))) for t in (0.5, 1)] == [1, 2]
print(*(np.count_nonzero(top_p(softmax(z / t), 0.7)) for t in (0.5, 1)), "tokens")

# %% [markdown]
# ### Q6. What does our model's KV cache contain for 32 characters, and how many bytes are that in float32?
#
# <details><summary>Answer</summary>
#
# Keys and values, in 2 layers, for 32 tokens, 96 elements each: $2 \cdot 2 \cdot 32 \cdot 96 = 12{,}288$
# elements, $49{,}152$ bytes.
#
# </details>

# %%
# Q6, recomputed
cache = model.new_cache()
with mg.no_grad():
    model(tokens, cache=cache)
assert sum(layer.k.size + layer.v.size for layer in cache) == 2 * 2 * 32 * 96 == 12_288
assert sum(layer.k.nbytes + layer.v.nbytes for layer in cache) == 49_152
print(sum(layer.k.nbytes + layer.v.nbytes for layer in cache), "bytes")

# %% [markdown]
# ### Q7. Join the pair `a a` in `aaaa`. What is the result, and how often did the pair occur?
#
# <details><summary>Answer</summary>
#
# It is counted 3 times (positions 0-1, 1-2, 2-3), but they overlap: joining from the left makes two symbols
# of four. From `aaa` it makes one, and an `a` remains.
#
# </details>

# %%
# Q7, recomputed
assert joined([97] * 4, (97, 97), 256) == [256, 256] and joined([97] * 3, (97, 97), 256) == [256, 97]
assert Counter(zip([97] * 4, [97] * 3, strict=False))[(97, 97)] == 3
print(joined([97] * 4, (97, 97), 256), joined([97] * 3, (97, 97), 256))

# %% [markdown]
# ## What was left out
#
# Beam search, which suits translation better than free writing (`models/decoding.py`). The penalty on
# repetition (Keskar et al. 2019; `Sampler` has it). Dropout, which a larger model on a small text needs.
# Llama's changes: RMSNorm, rotary positions, SwiGLU, grouped heads (`models/llama.py`, lessons 10 to 12).
# Loading GPT-2's published weights (`from_gpt2_state` in `models/gpt.py`). How `BPE.train` finds the same
# merges without recounting all pairs each time (`learn` in `minigrad/data/bpe.py`). Everything that makes an
# assistant out of a language model.
#
# ## Sources
#
# - Radford et al. 2018, *Improving Language Understanding by Generative Pre-Training*; 2019, *Language Models
#   are Unsupervised Multitask Learners* (sections 2.2 and 2.3: bytes, pre-norm, the scaled initial values).
# - Press and Wolf 2017, *Using the Output Embedding to Improve Language Models*: one table for input and
#   output.
# - Fan, Lewis and Dauphin 2018, *Hierarchical Neural Story Generation*, section 5: top-k.
# - Holtzman et al. 2020, *The Curious Case of Neural Text Degeneration*: greedy loops, nucleus sampling.
# - Sennrich, Haddow and Birch 2016, *Neural Machine Translation of Rare Words with Subword Units*: byte pair
#   encoding of words.
# - The shape of the training recipe follows nanoGPT (github.com/karpathy/nanoGPT).
#
# ## Exercises
#
# You will write the batch, the temperature and the two cuts, one step of attention with a cache, byte pair
# encoding in three functions, and the units of the loss.
#
#     python -m tutorials start 14
