# %% [markdown]
# # 13 · The whole Transformer
#
# *Reading: 40 minutes. Exercises: 60 minutes. Needs: lessons 05, 06, 08 to 12.*
#
# You have attention, masks, heads, positions and blocks. How do they become one machine that reads a sequence
# and writes another, and how is a machine that writes one token after another trained in a single pass?
#
# **You will be able to:**
#
# - name the six parts of the Transformer of 2017 and follow the shapes from token ids to logits;
# - say where query, key and value come from in each of its three attentions, and which mask each needs;
# - explain teacher forcing, and why the target is shifted by one position;
# - train an encoder-decoder, write its answers greedily, and measure them honestly;
# - read its cross-attention.

# %%
import math

import numpy as np
from matplotlib.figure import Figure

import minigrad as mg
import minigrad.nn.functional as F
from minigrad import viz
from minigrad.data import padded
from minigrad.gradcheck import gradcheck
from models.attention import MultiHeadAttention, causal_mask, padding_mask
from models.positional import sinusoidal
from models.recipes.dates import FORMATS, Dates, decode
from models.recipes.encoder_decoder import BOS, EOS, PAD
from models.transformer import Transformer
from tutorials import show

np.set_printoptions(precision=3, suppress=True)
mg.manual_seed(0)

# %% [markdown]
# ## Intuition: a reader and a writer
#
# Somebody hands you `29th of Nov 26` and wants `2026-11-29`. You read the whole note first, all of it at once
# and in any order. Then you write from left to right. Before each character you do two things: you look back
# at *your answer so far* (after `2026-` comes a month), and you look at *the right part of the note* (the
# month is in the middle of it).
#
# The Transformer (Vaswani et al. 2017) is built like that. The **encoder** reads: each position of the source
# may attend to every position of the source. Its output is called the **memory**, one vector for each source
# token. The **decoder** writes: each position attends to the target *up to itself*, and then, by
# **cross-attention**, to the memory.
#
# Recurrent encoder-decoders came before it (lesson 07). They read from left to right through one state, and
# the paper's question was whether attention alone is enough. Its six parts, and where you met them:
#
# | part | what it does | here |
# | --- | --- | --- |
# | 1. embedding | a vector for each token id | `nn.Embedding` |
# | 2. positional encoding | adds the token's position | lesson 11, `models/positional.py` |
# | 3. multi-head attention | lets positions attend to positions | lessons 08 to 10, `models/attention.py` |
# | 4. add and norm | a residual connection, then a norm | lesson 12, `Residual` in `models/blocks.py` |
# | 5. feed-forward | a small network at each position | lesson 12, `FeedForward` in `models/blocks.py` |
# | 6. cross-attention | lets the decoder attend to the memory | this lesson, in the decoder only |

# %%
small = Transformer(12, d_model=8, num_heads=2, num_layers=1, d_ff=16, dropout=0.0)
for name, part in small.named_children():
    print(f"{name:15s} {type(part).__name__:20s} {sum(p.numel() for p in part.parameters()):5d} parameters")
# one table with three names, counted once below
assert small.output is small.src_embedding is small.embedding
print("in all", sum(p.numel() for p in small.parameters()))

# %% [markdown]
# ## Definition
#
# Let $C$ be `d_model`, $V$ the size of the vocabulary, $T_s$ and $T_t$ the lengths of source and target. $E$
# is the table of embeddings, $(V, C)$; $P$ the table of positions, $(T, C)$. Source tokens $s$ and target
# tokens $t$ become
#
# $$x = \sqrt{C} E[s] + P \quad (T_s, C) \qquad\qquad y = \sqrt{C} E[t] + P \quad (T_t, C)$$
#
# Write $\mathrm{Att}(a, b)$ for multi-head attention whose queries come from $a$ and whose keys and values
# come from $b$, and $N$ for a LayerNorm (each has its own weights). One **encoder layer** is two sublayers,
#
# $$x \leftarrow N(x + \mathrm{Att}(x, x)) \qquad x \leftarrow N(x + \mathrm{FFN}(x))$$
#
# and the memory $M$ is $x$ after the last encoder layer. One **decoder layer** is three sublayers:
#
# $$y \leftarrow N(y + \mathrm{Att}_{\text{causal}}(y, y)) \qquad y \leftarrow N(y + \mathrm{Att}(y, M))$$
#
# $$y \leftarrow N(y + \mathrm{FFN}(y))$$
#
# After the last decoder layer, the logits are products with the same embeddings, $\mathrm{logits} = y
# E^\top$, of shape $(T_t, V)$: for each position of the target, one distribution over the *next* token.
#
# The paper has six layers on each side, $C = 512$, 8 heads, a feed-forward width of 2048, and dropout of 0.1
# on each sublayer's output and on the sums of embeddings and positions (sections 3.1, 3.2.2, 3.3, 5.4).
#
# **Why $\sqrt{C}$?** The table $E$ is also the output matrix. For logits of a moderate size its entries must
# be small: $y$ is normalized, so with entries of variance $1/C$ a dot product over $C$ elements has variance
# about 1. As an input such a vector would drown in the positions, whose entries have a mean square of exactly
# 1/2. Times $\sqrt{C}$ it has variance 1.

# %%
E = small.embedding.weight.data
big = Transformer(1000, d_model=512, num_layers=1, d_ff=16).embedding.weight.data
print("mean square of an embedding's entries   ", f"{(big**2).mean():.5f}   (1/512 = {1 / 512:.5f})")
print("the same, times sqrt(C)                 ", f"{(512 * big**2).mean():.3f}")
print("mean square of a position's entries     ", f"{(sinusoidal(100, 512).data ** 2).mean():.3f}")

# %% [markdown]
# ## A worked example by hand
#
# **The input.** Take $C = 4$, and a token at position 1 whose row of $E$ is $(0.5, -0.5, 0.25, 0)$.
#
# - times $\sqrt 4 = 2$: $(1, -1, 0.5, 0)$
# - the position, with the frequencies $1$ and $10000^{-2/4} = 0.01$:
#   $(\sin 1, \cos 1, \sin 0.01, \cos 0.01) = (0.8415, 0.5403, 0.0100, 1.0000)$
# - the sum: $(1.8415, -0.4597, 0.5100, 1.0000)$
#
# **The output, and the loss.** The target is `b a`, and the decoder is asked three questions at once. It
# reads `start b a` and should answer `b a end`:
#
# | position | it reads | it should answer | its probability for that | $-\ln p$ |
# | --- | --- | --- | --- | --- |
# | 0 | start | b | 0.5 | 0.6931 |
# | 1 | b | a | 0.25 | 1.3863 |
# | 2 | a | end | 0.8 | 0.2231 |
#
# The loss is their mean, $2.3026 / 3 = 0.7675$. (The sum is $-\ln(0.5 \cdot 0.25 \cdot 0.8) = -\ln 0.1$: the
# three together are the probability of the whole answer, $0.1$.)

# %%
row = np.array([0.5, -0.5, 0.25, 0.0])
x = math.sqrt(4) * row + sinusoidal(2, 4).data[1]
print("input of the first layer:", x)
assert np.allclose(x, [1.8415, -0.4597, 0.5100, 1.0000], atol=1e-4)
losses = -np.log([0.5, 0.25, 0.8])
print("losses:", losses, " mean:", losses.mean().round(4))
assert np.allclose(losses, [0.6931, 1.3863, 0.2231], atol=1e-4) and np.isclose(
    losses.mean(), 0.7675, atol=1e-4
)
assert np.isclose(losses.sum(), -math.log(0.1))

# %% [markdown]
# ## Six parts, traced step by step
#
# `minigrad.viz.trace_forward` calls a model and records every operation: its module, its inputs and its
# output. First only the modules. The source has four tokens, the last of them padding (0), the target three.

# %%
src, tgt = np.array([[3, 4, 5, PAD]]), np.array([[BOS, 6, 7]])
trace = viz.trace_forward(small, src, tgt)
print(trace.text(depth=1))

# %% [markdown]
# Read the column `out` downwards: $(1, 4)$ token ids become $(1, 4, 8)$, and stay $(1, 4, 8)$ through the
# encoder. The target enters as $(1, 3, 8)$ and stays so through the decoder, and the last product makes it
# $(1, 3, 12)$: three questions, twelve tokens to choose from. The embedding is marked `(again)`: source and
# target share it.
#
# Now part by part. A small table of the steps inside one module:


# %%
def steps(path):
    """Print the operations inside one module, with the shapes of inputs and output."""
    print(path)
    for step in trace[path].steps:
        where = step.module.removeprefix(path).strip(".")
        inputs = "  ".join("x".join(map(str, shape)) for shape in step.inputs if shape)
        print(f"    {where:12s} {step.op:10s} {inputs:18s} -> {'x'.join(map(str, step.output))}")


steps("embedding")  # 1. looks rows up, for the source and then for the target
steps("positions")  # 2. adds one row of the table to each token

# %% [markdown]
# **3. Multi-head attention**, here the encoder's. Follow it line by line: three projections, each split into
# 2 heads of width 4; the scores $Q K^\top$; the factor $1/\sqrt 4$; the mask (`where`); the softmax with its
# maximum subtracted; the product with $V$; the heads concatenated again; the output projection. (The `where`s
# on 1x2x4x4 right after the projections put zeros into the keys and values of padding; lesson 09 explains
# why.)

# %%
steps("encoder.0.self_attention")

# %% [markdown]
# **4. Add and norm**, and **5. the feed-forward network**, which widens each position from 8 to 16 and back,
# and lets no position see another.

# %%
steps("encoder.0.residual1")
steps("encoder.0.feed_forward")

# %% [markdown]
# **6. Cross-attention.** Compare its shapes with those of part 3: the queries are those of the target,
# 1x2x**3**x4, the keys and values those of the source, 1x2x**4**x4. So the scores are no longer square:
# **3x4**, a row for each target position, a column for each source position.

# %%
cross = trace["decoder.0.cross_attention"].steps
scores = next(s for s in cross if s.op == "matmul" and len(s.output) == 4)
print("queries times keys, transposed:", scores.inputs, "->", scores.output)
for name in ("q_proj", "k_proj", "v_proj"):
    shape = next(s.inputs[0] for s in cross if s.module.endswith(name) and s.op == "matmul")
    print(f"{name} reads {shape}, the {'target' if shape[1] == 3 else 'memory'}")

# %% [markdown]
# ## Three attentions, three masks
#
# | attention | queries | keys and values | must not see |
# | --- | --- | --- | --- |
# | encoder's self-attention | source | source | padding of the source |
# | decoder's self-attention | target | target | later tokens, and padding of the target |
# | cross-attention | target | **memory** | padding of the **source** |
#
# Cross-attention has no causal mask: the whole source exists before writing begins. The mask must fit the
# *keys*, so it is made from the source tokens. Two targets, one of them shorter:

# %%
sources, targets = np.array([[3, 4, 5, PAD], [3, 4, 5, 6]]), np.array([[BOS, 6, 7], [BOS, 8, PAD]])
encoder_mask = padding_mask(sources, PAD)  # (B, 1, 1, Ts): the same for every query
decoder_mask = causal_mask(3) & padding_mask(targets, PAD)  # (B, 1, Tt, Tt)
print("encoder ", encoder_mask.shape, encoder_mask.data[:, 0, 0].astype(int).tolist())
print("decoder ", decoder_mask.shape)
print(decoder_mask.data[:, 0].astype(int))
print("cross   ", encoder_mask.shape, "the encoder's mask again, now for", targets.shape[1], "queries")

# %% [markdown]
# ## Teacher forcing, and the shift
#
# To write, the decoder needs its own earlier answers. To *train*, it need not wait for them: the right target
# is known, so give it that. At each position it reads the right tokens so far and is asked for the next. This
# is **teacher forcing**. Because of the causal mask, position $t$ cannot see the token that it is asked for,
# so one pass can ask all $T_t$ questions. (An RNN trained this way still has to take its $T_t$ steps one
# after another, lesson 07.)
#
# One row `start 2 0 2 6 end` gives both: the input is the row without its last token, the labels are the row
# without its first.

# %%
rows = padded([[BOS, 6, 7, 8, EOS], [BOS, 9, EOS]])
inputs, labels = rows[:, :-1], rows[:, 1:]
print("rows\n", rows, "\ninputs\n", inputs, "\nlabels\n", labels)

# %% [markdown]
# The shorter row's input ends with its own EOS: the label there is padding, so the model's answer is compared
# with nothing. The loss ignores those positions (`ignore_index=PAD`), and its mean is over the others.
#
# Is one pass really the same as asking step by step? Ask for each position with only the tokens before it:

# %%
source = np.array([[3, 4, 5, 6], [7, 3, PAD, PAD]])
with mg.no_grad():
    at_once = small(source, inputs).data  # (B, T, V)
    step_by_step = np.stack(
        [small(source, inputs[:, : t + 1]).data[:, -1] for t in range(inputs.shape[1])], 1
    )
real = labels != PAD
print("largest difference at positions that count:", np.abs(at_once - step_by_step)[real].max())
assert np.allclose(at_once[real], step_by_step[real], atol=1e-5)
print("questions answered by one pass:", real.sum())

# %% [markdown]
# ## Derivation: how the gradient gets to the encoder
#
# The loss is computed from the decoder alone. The encoder's gradient comes through cross-attention. Let $y$
# be the decoder's vectors and $M$ the memory, and take one head without biases:
#
# $$Q = y W_Q, \qquad K = M W_K, \qquad Z = M W_V$$
#
# $$A = \mathrm{softmax}\left(Q K^\top / \sqrt{d_k}\right), \qquad O = A Z$$
#
# ($Z$ for the values, since $V$ is the vocabulary here.) Lesson 08 derived the gradients of $Q, K, Z$ from
# that of $O$, call it $G$:
#
# $$dZ = A^\top G, \qquad dA = G Z^\top, \qquad dS = A \odot (dA - \mathrm{rowsum}(dA \odot A))$$
#
# $$dQ = dS K / \sqrt{d_k}, \qquad dK = dS^\top Q / \sqrt{d_k}$$
#
# Only their destination is new. $Q$ was computed from $y$, but $K$ **and** $Z$ from $M$. $M$ is used twice,
# so two gradients add up:
#
# $$dy = dQ W_Q^\top, \qquad dM = dK W_K^\top + dZ W_V^\top$$
#
# In self-attention $M = y$, and all three add up in one gradient. And since *every* decoder layer reads the
# same memory, $M$ receives such a sum from each of the layers. No other gradient reaches the encoder.

# %%
rng = np.random.default_rng(0)
W_Q, W_K, W_V = rng.standard_normal((3, 4, 4)) * 0.5


def forward(y, M):
    scores = (y @ W_Q) @ (M @ W_K).T / 2.0  # (Tt, Ts); sqrt(d_k) = 2
    e = np.exp(scores - scores.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True) @ (M @ W_V)  # (Tt, 4)


def backward(G, y, M):
    Q, K, Z = y @ W_Q, M @ W_K, M @ W_V
    e = np.exp(Q @ K.T / 2.0)
    A = e / e.sum(-1, keepdims=True)
    dA = G @ Z.T
    dS = A * (dA - (dA * A).sum(-1, keepdims=True))
    dQ, dK, dZ = dS @ K / 2.0, dS.T @ Q / 2.0, A.T @ G
    return dQ @ W_Q.T, dK @ W_K.T + dZ @ W_V.T


# %% [markdown]
# ## Gradient check
#
# First the formulas above, then a whole encoder-decoder, every parameter (along one random direction for
# each, which takes two evaluations instead of thousands).

# %%
print(
    "cross-attention:",
    gradcheck((forward, backward), [rng.standard_normal((3, 4)), rng.standard_normal((5, 4))]),
)
mg.manual_seed(1)
checked = Transformer(7, d_model=4, num_heads=2, num_layers=2, d_ff=6, dropout=0.0).double()
question = (np.array([[3, 4, 5, 6, PAD]]), np.array([[BOS, 5, 4]]))
print("whole Transformer:", gradcheck(lambda *p: checked(*question), [*checked.parameters()], fast=True))

# %% [markdown]
# And the claim that each decoder layer sends the memory a gradient of its own: run the decoder on a memory
# that is a leaf, once whole and once with all but one layer's memory detached. The layers' gradients add up
# to the whole.

# %%
memory = checked.encode(question[0]).detach()
weight = mg.randn(1, 3, 7, dtype=mg.float64)


def contribution(*layers):
    """The gradient that reaches the memory through these decoder layers only."""
    leaf = memory.clone().requires_grad_()
    y = checked.embed(question[1], checked.embedding)
    for i, layer in enumerate(checked.decoder):
        y = layer(y, leaf if i in layers else leaf.detach(), causal_mask(3), padding_mask(question[0], PAD))
    (F.linear(y, checked.output.weight) * weight).sum().backward()
    return leaf.grad.data


first, second, both = contribution(0), contribution(1), contribution(0, 1)
print("norms: layer 0", np.linalg.norm(first).round(3), " layer 1", np.linalg.norm(second).round(3))
assert np.allclose(first + second, both)
assert np.allclose(both[0, -1], 0)  # no gradient reaches the padding of the source

# %% [markdown]
# ## Training: dates
#
# The task: convert a date as people write it to ISO. Fourteen formats, three cases of letters, years from
# 1950 to 2049. The days are split before they are written, so no test day was ever trained on.
# `models/recipes/dates.py` generates the data; the loop is here, as in lesson 06.
#
# This is the default run of `python -m minigrad.train`, made smaller: 500 steps of 48 dates instead of 800 of
# 64.

# %%
STEPS = 500
mg.manual_seed(0)
dates = Dates(dict(steps=STEPS, batch_size=48))
# 2 + 2 layers, d_model 64, 4 heads, d_ff 128: the paper's shape at an eighth of its width
model = dates.model()
optimizer, schedule = dates.optimizer(model)  # AdamW, a warmup of 100 steps, then a cosine down
src, tgt = dates.batch(0)
print("parameters:", sum(p.numel() for p in model.parameters()), " source", src.shape, " target", tgt.shape)
for text, iso in list(zip(src, tgt, strict=True))[:3]:
    print("   ", repr(decode(text)), "->", decode(iso[1:]))

# %%
for step in range(STEPS):
    src, tgt = dates.batch(step)
    logits, labels = model(src, tgt[:, :-1]), tgt[:, 1:]  # teacher forcing: inputs and labels
    loss = F.cross_entropy(logits.reshape(-1, logits.shape[-1]), labels.reshape(-1), ignore_index=PAD)
    optimizer.zero_grad()
    loss.backward()
    dates.clip(model, 1.0)
    optimizer.step()
    schedule.step()
    if (step + 1) % 100 == 0:
        right = (logits.data.argmax(-1) == labels)[labels != PAD].mean()
        print(
            f"step {step + 1:4d}   loss {loss.item():.4f}   "
            f"characters right, given the right ones before {right:.1%}"
        )
model.eval()

# %% [markdown]
# ## Greedy decoding
#
# Now it must write by itself. Start with BOS, take the likeliest next token, append it, ask again, until EOS.
# Nobody corrects it.


# %%
def greedy_decode(model, src, max_new):
    """src (B, Ts) -> (B, <= max_new): always the likeliest token; after a row's EOS comes PAD."""
    tokens, done = np.full((len(src), 1), BOS), np.zeros(len(src), bool)
    with mg.no_grad():
        mask = padding_mask(src, PAD)
        memory = model.encode(src, mask)  # once: the source does not change
        while tokens.shape[1] <= max_new and not done.all():
            logits = model.decode(tokens, memory, src_mask=mask).data[
                :, -1
            ]  # (B, V), of the last position only
            token = np.where(done, PAD, logits.argmax(-1))
            tokens, done = np.concatenate([tokens, token[:, None]], 1), done | (token == EOS)
    return tokens[:, 1:]


texts = ["29th of november 2026", "3/4/81", "Friday, 1 January 1999", "DEC 24 2012"]
src = padded([dates.encode(text) for text in texts])
answers = greedy_decode(model, src, 12)
for text, answer in zip(texts, answers, strict=True):
    print(f"{text:26s} -> {decode(answer)}")
# minigrad's own, which keeps keys and values (lesson 14)
assert np.array_equal(answers, model.generate(src, BOS, EOS, 12))

# %% [markdown]
# How often is it right? **Exact match** counts an answer only if every character is right. On days it has
# never seen:

# %%
examples = dates.fixed["test"][:560]  # 40 of each format
src = padded([dates.encode(text) for text, _ in examples])
right = np.array(
    [decode(row) == iso for row, (_, iso) in zip(greedy_decode(model, src, 12), examples, strict=True)]
)
print(f"exact match: {right.mean():.1%} of {len(right)}")
tgt = padded([[BOS, *dates.encode(iso), EOS] for _, iso in examples])
with mg.no_grad():
    forced = model(src, tgt[:, :-1]).data.argmax(-1) == tgt[:, 1:]
print(f"characters right, given the right ones before: {forced.mean():.2%}")
for i in np.argsort([right[i :: len(FORMATS)].mean() for i in range(len(FORMATS))]):
    print(f"    {right[i :: len(FORMATS)].mean():6.1%}   {FORMATS[i]:32s} such as {examples[i][0]!r}")
assert right.mean() > 0.8

# %% [markdown]
# The 800 steps of the default run bring it above 99 % (README). The honest figure is exact match: of the
# answers, not of the characters, on days it has never seen, writing alone.
#
# ## Reading the cross-attention
#
# Nobody told the decoder where the year is. `dates.attention` keeps the weights of a layer while the model
# writes (`models/attended.py`), here of the last decoder layer. Each row is a character of the answer, each
# column a character of the source.

# %%
written, weights, read = dates.attention(model, "29th of november 2026")
figure = Figure(figsize=(8, 4.2), layout="constrained")
axes = figure.add_subplot()
image = axes.imshow(weights.mean(0), cmap="Blues", vmin=0, aspect="auto")
axes.set_xticks(range(len(read)), ["␣" if c == " " else c for c in read], family="monospace")
axes.set_yticks(range(len(written)), written, family="monospace")
axes.set(xlabel="read (source)", ylabel="written (target), from top to bottom")
axes.set_title("The year attends to the end of the source, the day to its beginning")
figure.colorbar(image, label="attention weight, mean of 4 heads")
show(
    figure,
    "Cross-attention of the last decoder layer: what each character of the answer attends to in the source.",
)

# %% [markdown]
# The same in numbers: the fraction of the attention on each part of the source while the model writes the
# year, the month and the day.

# %%
parts = {"'29th'": slice(0, 4), "' of '": slice(4, 8), "'november'": slice(8, 16), "' 2026'": slice(16, 21)}
print("writing        " + "".join(f"{name:>12s}" for name in parts))
for name, rows in {"the year": slice(0, 4), "the month": slice(5, 7), "the day": slice(8, 10)}.items():
    fractions = [weights[:, rows, part].sum(-1).mean() for part in parts.values()]
    print(f"{name:15s}" + "".join(f"{fraction:12.0%}" for fraction in fractions))
assert "".join(read[8:16]) == "november" and weights.shape[1:] == (len(written), len(read))

# %% [markdown]
# Attention does not explain everything: the memory at a position already contains information that the
# encoder gathered from all other positions, and the decoder's first layer has attended before. But as a map
# of what was read when, it is plain here. `minigrad.viz.attention_map` draws all heads; `python -m
# minigrad.attend RUN` makes a page of every layer and head.
#
# ## Edge cases
#
# - **Padding changes nothing.** A row answered alone, without padding, gets the same logits as in a batch of
#   longer rows.
# - **A source of padding only** is a row without a visible key: attention gives 0 there (lesson 09), not NaN.
# - **Longer than `max_len`**: there is no position for it, and the model raises ValueError.

# %%
with mg.no_grad():
    alone = model(np.array([dates.encode("3/4/81")]), tgt[:1, :-1]).data
    among = model(padded([dates.encode("3/4/81"), dates.encode("29th of november 2026")]), tgt[:2, :-1]).data[
        :1
    ]
    nothing = model(np.full((1, 5), PAD), tgt[:1, :-1]).data
print("alone and padded differ by", np.abs(alone - among).max())
print("a source of padding only gives", "finite logits" if np.isfinite(nothing).all() else "NaN")
assert np.allclose(alone, among, atol=1e-4)
try:
    small(np.full((1, 600), 3), inputs[:1])
except ValueError as error:
    print(error)

# %% [markdown]
# ## Pitfalls
#
# **Taking "attention" for "self-attention".** Attention is the operation: queries, keys, values. It is
# *self*-attention if all three come from one sequence, *cross*-attention if the queries come from a different
# sequence than the keys and values. That is the whole distinction. (You may meet a third name, "general
# attention", for queries and keys from different sources; that is cross-attention again.) It is one class
# here; only the arguments differ:

# %%
attention = MultiHeadAttention(8, 2)
target, source_vectors = mg.randn(1, 3, 8), mg.randn(1, 5, 8)
for name, given in {"self": (target,), "cross": (target, source_vectors, source_vectors)}.items():
    out, weights = attention(*given, need_weights=True)
    print(f"{name:5s}-attention: output {out.shape}, weights {weights.shape}")

# %% [markdown]
# The output always has one position for each *query*; the mask's last axis always has one element for each
# *key*.
#
# **Forgetting the shift.** Give the decoder the very row it is asked for. It sees token $t$ while it is asked
# for token $t$, so it learns to copy, and writing alone it is worthless. **Forgetting the causal mask** does
# the same: now the answer is one position further right, and visible. Three small models, 250 steps each:


# %%
def quick(inputs, labels, mask):
    """Train a small model for 250 steps. Returns its loss and its answers to 100 dates.

    inputs, labels: slices of the target"""
    mg.manual_seed(0)
    data = Dates(dict(steps=250, batch_size=32, d_model=32, d_ff=64, layers=1, lr=8e-3))
    net = data.model()
    optimizer, schedule = data.optimizer(net)
    for step in range(250):
        src, tgt = data.batch(step)
        logits = net(src, tgt[:, inputs], tgt_mask=mask)
        loss = F.cross_entropy(
            logits.reshape(-1, logits.shape[-1]), tgt[:, labels].reshape(-1), ignore_index=PAD
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    src = padded([data.encode(text) for text, _ in examples[:100]])
    return loss.item(), [decode(row) for row in greedy_decode(net.eval(), src, 12)]


all_seen = mg.tensor(np.ones((1, 1, 11, 11), bool))
but_last, but_first = slice(None, -1), slice(1, None)
broken = {
    "as it should be": quick(but_last, but_first, None),
    "without the shift": quick(but_first, but_first, None),
    "without the causal mask": quick(but_last, but_first, all_seen),
}
wanted = [iso for _, iso in examples[:100]]
right = {
    name: np.mean([a == b for a, b in zip(writes, wanted, strict=True)])
    for name, (_, writes) in broken.items()
}
for name, (loss, writes) in broken.items():
    print(f"{name:24s} loss {loss:.4f}   writes {writes[:2]}, right {right[name]:.0%}")
print("the two dates are:", wanted[:2])
assert all(loss <= broken["as it should be"][0] for loss, _ in broken.values())
assert right["as it should be"] > 0.3 and right["without the shift"] == right["without the causal mask"] == 0

# %% [markdown]
# Both broken models have a lower loss than the honest one, and not one date right: when they write alone, the
# token that they used to copy is not there. A loss that is too good to be true is a leak: check the shift and
# the mask first.
#
# **Quoting the accuracy under teacher forcing.** There every position starts from right tokens, so an early
# slip costs one character (that is the second figure printed above). Writing alone, it costs the answer. If
# each of the 10 characters of a date were right with probability $0.99$, independently, $0.99^{10} = 0.904$
# of the answers would be right.
#
# **The target's padding mask in cross-attention.** The mask belongs to the keys. With $T_t = T_s$ the wrong
# one even fits, and nothing complains.
#
# **Encoding again for every token.** The memory does not depend on the answer. Encode once, as
# `greedy_decode` does.
#
# ## Practice questions

# %% [markdown]
# ### Q1. A Transformer has 6 + 6 layers. How many attention modules does it have, and of which kinds?
#
# <details><summary>Answer</summary>
#
# 18: one in each of 6 encoder layers (self-attention), two in each of 6 decoder layers (6 causal
# self-attentions and 6 cross-attentions).
#
# </details>

# %%
# Q1, recomputed
paper = Transformer(100, d_model=16, num_heads=2, d_ff=16)  # num_layers is 6 unless given
names = [name for name, module in paper.named_modules() if isinstance(module, MultiHeadAttention)]
assert (
    len(names) == 18
    and sum("cross" in name for name in names) == 6
    and sum(n.startswith("encoder") for n in names) == 6
)
print(len(names), "attention modules")

# %% [markdown]
# ### Q2. What shape do cross-attention weights have: batch of 2, 8 heads, 20 source and 11 target tokens?
#
# <details><summary>Answer</summary>
#
# $(2, 8, 11, 20)$: for each head of each row, a distribution over 20 source positions for each of 11 target
# positions.
#
# </details>

# %%
# Q2, recomputed
_, weights = MultiHeadAttention(16, 8)(mg.randn(2, 11, 16), mg.randn(2, 20, 16), need_weights=True)
assert weights.shape == (2, 8, 11, 20)
print(weights.shape)

# %% [markdown]
# ### Q3. The row is `start 5 6 end pad`. What are inputs and labels, and over how many positions is the mean?
#
# <details><summary>Answer</summary>
#
# The inputs are `start 5 6 end`, the labels `5 6 end pad`, and the mean is over 3 positions: the last label
# is padding.
#
# </details>

# %%
# Q3, recomputed
row = np.array([BOS, 5, 6, EOS, PAD])
assert row[:-1].tolist() == [1, 5, 6, 2] and row[1:].tolist() == [5, 6, 2, 0] and (row[1:] != PAD).sum() == 3
print(row[:-1], "->", row[1:])

# %% [markdown]
# ### Q4. Does greedy decoding always find the likeliest answer?
#
# Answers begin with A (0.6) or B (0.4). A ends in two ways of 0.5 each, B in one way of 0.9.
#
# <details><summary>Answer</summary>
#
# No. Greedy takes A and reaches $0.6 \cdot 0.5 = 0.30$. Through B there is an answer of probability $0.4
# \cdot 0.9 = 0.36$. Beam search keeps several beginnings open and would find it (`models/decoding.py`).
#
# </details>

# %%
# Q4, recomputed
greedy, other = 0.6 * 0.5, 0.4 * 0.9
assert math.isclose(greedy, 0.30) and math.isclose(other, 0.36) and other > greedy
print(greedy, other)

# %% [markdown]
# ### Q5. How many parameters has the paper's base model without its embedding ($d_{ff} = 2048$)?
#
# <details><summary>Answer</summary>
#
# $C = 512$, and there are 6 + 6 layers. An attention has four matrices with biases, $4(512^2 + 512) =
# 1{,}050{,}624$; a feed-forward network $2 \cdot 512 \cdot 2048 + 2048 + 512 = 2{,}099{,}712$; a norm
# $1{,}024$. An encoder layer: $1{,}050{,}624 + 2{,}099{,}712 + 2 \cdot 1{,}024 = 3{,}152{,}384$. A decoder
# layer: $2 \cdot 1{,}050{,}624 + 2{,}099{,}712 + 3 \cdot 1{,}024 = 4{,}204{,}032$. Six of each:
# $44{,}138{,}496$. The number of heads does not matter.
#
# </details>

# %%
# Q5, recomputed
attention, feed_forward, norm = 4 * (512**2 + 512), 2 * 512 * 2048 + 2048 + 512, 2 * 512
encoder_layer, decoder_layer = attention + feed_forward + 2 * norm, 2 * attention + feed_forward + 3 * norm
assert (attention, feed_forward, encoder_layer, decoder_layer) == (1_050_624, 2_099_712, 3_152_384, 4_204_032)
assert 6 * (encoder_layer + decoder_layer) == 44_138_496
counted = [sum(p.numel() for p in layer.parameters()) for layer in (small.encoder[0], small.decoder[0])]
a, f, n = 4 * (8 * 8 + 8), 2 * 8 * 16 + 16 + 8, 16
assert counted == [a + f + 2 * n, 2 * a + f + 3 * n]  # the same formula, against the small model above
print(f"{6 * (encoder_layer + decoder_layer):,}")

# %% [markdown]
# ### Q6. Label smoothing of 0.1 with 5 classes: what is the target distribution, and the lowest loss?
#
# <details><summary>Answer</summary>
#
# $0.1/5 = 0.02$ on each class, and $0.9$ more on the right one: $(0.92, 0.02, 0.02, 0.02, 0.02)$. The lowest
# loss is its entropy, $-0.92 \ln 0.92 - 4 \cdot 0.02 \ln 0.02 = 0.3897$, not 0: a smoothed loss that stops
# falling above 0 is no bad sign. The paper uses 0.1 (section 5.4), and reports that it makes the perplexity
# worse and accuracy and BLEU better.
#
# </details>

# %%
# Q6, recomputed
q = np.full(5, 0.02) + 0.9 * np.eye(5)[0]
least = -(q * np.log(q)).sum()
assert np.allclose(q, [0.92, 0.02, 0.02, 0.02, 0.02]) and round(least, 4) == 0.3897
logits = mg.tensor(np.log(q)[None])  # a model that predicts exactly q
assert math.isclose(F.cross_entropy(logits, np.array([0]), label_smoothing=0.1).item(), least, rel_tol=1e-6)
print(round(least, 4))

# %% [markdown]
# ### Q7. How often does the decoder run for a target of 11 tokens in training, and how often to write it?
#
# <details><summary>Answer</summary>
#
# Once in training, over 11 positions; 11 times in decoding, over 1, 2, ... 11 positions, $66$ in all. Cached
# keys and values make them 11 (lesson 14).
#
# </details>

# %%
# Q7, recomputed
assert sum(range(1, 12)) == 66
print(sum(range(1, 12)), "positions in decoding, 11 in training")

# %% [markdown]
# ## What was left out
#
# Beam search (`models/decoding.py`, with the length penalty of Wu et al. 2016) and the paper's learning rate,
# which rises and falls with $d_{model}^{-0.5}$ (`NoamLR` in `minigrad/optim/lr_scheduler.py`; equation 3).
# Pre-norm, today's order of norm and sublayer (lesson 12). Scheduled sampling, which feeds the model some of
# its own answers in training (Bengio et al. 2015). Translation of real sentences: `python -m minigrad.train
# translate --pairs FILE` learns from pairs of your own. What attention costs: lesson 16.
#
# ## Sources
#
# - Vaswani et al. 2017, *Attention Is All You Need*: sections 3.1 (encoder and decoder), 3.2.3 (the three
#   attentions), 3.4 (embeddings, $\sqrt{d_{model}}$, shared with the output), 3.5 (positions), 5.4 (dropout,
#   label smoothing), table 3.
# - Bahdanau, Cho and Bengio 2015, *Neural Machine Translation by Jointly Learning to Align and Translate*:
#   attention between a decoder and an encoder, before self-attention.
# - Williams and Zipser 1989, *A Learning Algorithm for Continually Running Fully Recurrent Neural Networks*:
#   teacher forcing.
# - Szegedy et al. 2016, *Rethinking the Inception Architecture for Computer Vision*, section 7: label
#   smoothing.
#
# ## Exercises
#
# You will write the pieces that hold this machine together: teacher forcing, the embedding with its factor
# and positions, an encoder and a decoder layer from given sublayers, greedy decoding, exact match, the
# smoothed loss, and the number of parameters.
#
#     python -m tutorials start 13
