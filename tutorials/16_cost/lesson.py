# %% [markdown]
# # 16 · What it costs
#
# *Reading: 35 minutes. Exercises: 60 minutes. Needs: lessons 08, 09, 14.*
#
# Attention compares every token with every other. What does that cost in time and in memory, and how much of
# that cost can you save?
#
# **You will be able to:**
# - count the operations and the bytes of an attention layer, and check your count against a machine;
# - derive the online softmax, and attention that never holds the whole table of weights, forward and
#   backward;
# - save memory by computing values again (checkpointing), and say how much memory you gain for how much time;
# - say where the time of a training step goes, what float32 gains, and what a KV cache holds.

# %%
import math
import time
import tracemalloc

import numpy as np

import minigrad as mg
import minigrad.nn.functional as F
from minigrad import nn, optim, viz
from minigrad.gradcheck import gradcheck
from models.attention import KVCache, MultiHeadAttention
from models.gpt import GPT
from tutorials import figures, show
from tutorials import measurements as measure

mg.manual_seed(0)
rng = np.random.default_rng(0)

# %% [markdown]
# ## Intuition
#
# In a class of n pupils, each writes a letter to each, themselves included: n² letters. A recurrent network
# passes one note along the row: n notes. Double the class, and there are four times as many letters, but
# twice as many notes.
#
# That is the price of the short path from lesson 08: any token reaches any other in one step, so every pair
# needs a score. This causes two kinds of cost, and they behave differently.
#
# - **Time.** The n² scores must be computed. Nobody knows how to get the same answer without them.
# - **Memory.** The n² scores need not all exist *at once*. Here we can save a lot, with no loss of accuracy.
#
# ## Definition: how we count
#
# A floating-point operation, FLOP, is one multiplication or one addition. One element of a matrix product
# $(m, k) \times (k, p)$ is a sum of $k$ products, so the whole product takes $2mkp$ FLOPs (most papers count
# this way; some count multiplications only, which is half). For one sequence of $n$ tokens of width $d$
# (d_model), with $h$ heads of width $d_k = d / h$:
#
# | what | product | FLOPs |
# | --- | --- | --- |
# | queries, keys, values, output | four times $(n, d) \times (d, d)$ | $8 n d^2$ |
# | scores of one head | $(n, d_k) \times (d_k, n)$ | $2 n^2 d_k$ |
# | weights times values, one head | $(n, n) \times (n, d_k)$ | $2 n^2 d_k$ |
# | both, of all heads | $h$ times | $4 n^2 d$ |
#
# $$\text{FLOPs} = 8 n d^2 + 4 n^2 d$$
#
# The number of heads cancels: with more heads, each is narrower. Memory does depend on it, because every head
# has its own table of weights: $B \, h \, n^2$ numbers for a batch of $B$ sequences, 4 bytes each in float32.
#
# ## By hand, and by machine
#
# Take n = 4 tokens, d = 6, h = 2 heads, so d_k = 3. Projections: 8 · 4 · 36 = 1,152 FLOPs. Scores of one
# head: 2 · 16 · 3 = 96; two products of two heads: 384. Together 1,536.
#
# `trace_forward` lists every operation of a forward pass. Its matrix products must have the same total.

# %%


def matmul_flops(fun, *inputs):
    """FLOPs of all matrix products while fun(*inputs) runs."""
    return sum(step.flops for step in viz.trace_forward(fun, *inputs).steps if step.op == "matmul")


by_hand = 8 * 4 * 6**2 + 4 * 4**2 * 6
by_machine = matmul_flops(MultiHeadAttention(6, 2), mg.randn(1, 4, 6))
assert by_hand == by_machine == 1536
print("n = 4, d = 6, 2 heads:", by_hand, "FLOPs by hand,", by_machine, "counted")

# %% [markdown]
# Now let us see how this grows. Twice the length means four times the FLOPs for attending and twice those for
# the projections. The number of heads changes nothing.

# %%
print("   n    d   h   projections     attending")
for n, d, h in [(64, 32, 4), (128, 32, 4), (256, 32, 4), (256, 64, 4), (256, 64, 16)]:
    whole = matmul_flops(MultiHeadAttention(d, h), mg.randn(1, n, d))
    projections, attending = 8 * n * d**2, 4 * n**2 * d
    assert whole == projections + attending
    print(f"{n:4}  {d:3}  {h:2}  {projections:12,}  {attending:12,}")

# %% [markdown]
# **Compared with other layers.** A recurrence multiplies two d x d matrices with a vector for each token, $4
# n d^2$ FLOPs; a convolution over $k$ tokens, $2 k n d^2$. (Table 1 of Vaswani et al. 2017 gives $O(n^2 d)$,
# $O(n d^2)$ and $O(k n d^2)$ "per layer"; it leaves out attention's own $O(n d^2)$, the projections.) You may
# read elsewhere that attention costs $O(n^2 d_k)$ where a recurrence costs $O(n)$. That contains two
# mistakes: $n^2 d_k$ is *one* head, and the recurrence's $d^2$ is dropped but attention's d is not. In the
# same unit:

# %%
n, d, k = 1000, 512, 3
rnn = nn.RNN(16, 16, batch_first=True)
assert matmul_flops(rnn, mg.randn(1, 10, 16)) == 4 * 10 * 16**2  # the formula, counted on a small one
for name, flops in [("attention, all heads", 4 * n * n * d), ("its projections", 8 * n * d * d),
                    ("recurrence", 4 * n * d * d), ("convolution over 3", 2 * k * n * d * d)]:  # fmt: skip
    print(f"{name:22} {flops / 1e9:5.2f} billion FLOPs for n = {n}, d = {d}")
assert (4 * n * n * d, 8 * n * d * d, 4 * n * d * d) == (2_048_000_000, 2_097_152_000, 1_048_576_000)

# %% [markdown]
# At this length attention takes about as much work as the others. The recurrence differs not in the amount
# but in the *order*: its n steps wait for each other (lesson 07), while attention's products can all run at
# once.
#
# Does the count predict the time? Let us measure one head, d_k = 64, forward, at growing length:

# %%


def seconds(fun, times=5):
    """The fastest of several runs: what disturbs a run only makes it slower."""
    found = []
    for _ in range(times):
        start = time.perf_counter()
        fun()
        found.append(time.perf_counter() - start)
    return min(found)


with mg.no_grad():
    for n in (256, 512, 1024, 2048):
        x = mg.randn(1, n, 64)
        taken = seconds(lambda x=x: F.scaled_dot_product_attention(x, x, x, path="plain"))
        print(f"n = {n:5}: {1e3 * taken:7.2f} ms, {1e9 * taken / n**2:5.2f} ns for each pair")

# %% [markdown]
# Twice the length takes roughly four times as long: the time for each pair changes little. (Timings differ
# between machines, so yours will not be the same. When the table no longer fits into the processor's cache,
# each pair takes longer.)
#
# ## Derivation: the softmax in one pass
#
# Softmax seems to need a whole row: its maximum (lesson 05, against overflow) and its sum. The **online
# softmax** (Milakov and Gimelshein 2018, section 3) needs only one piece of the row at a time. For one query
# with scores $s_j$ and a set $S$ of keys, store
#
# $$m = \max_{j \in S} s_j, \qquad t = \sum_{j \in S} e^{s_j - m}, \qquad a = \sum_{j \in S} e^{s_j - m} \, v_j$$
#
# These are two numbers and a vector as wide as the values. They are enough: the attention over $S$ is $a /
# t$, because $e^{-m}$ cancels in the quotient.
#
# **Merging.** Let $(m_1, t_1, a_1)$ and $(m_2, t_2, a_2)$ belong to two sets without a common key. The
# maximum of both together is $m = \max(m_1, m_2)$. The first sum is relative to $m_1$; we want it relative to
# $m$:
#
# $$\sum_{j \in S_1} e^{s_j - m} = \sum_{j \in S_1} e^{s_j - m_1} \, e^{m_1 - m} = e^{m_1 - m} \, t_1$$
#
# and the same for the second and for $a$. So
#
# $$t = e^{m_1 - m} t_1 + e^{m_2 - m} t_2, \qquad a = e^{m_1 - m} a_1 + e^{m_2 - m} a_2$$
#
# Both factors are at most 1, so nothing overflows. Blocks may be merged in any grouping: the result depends
# on the set only.
#
# **By hand.** Scores (0, ln 3) in one block and (ln 6, ln 2) in the next. First block: m = ln 3, t = 1/3 + 1
# = 4/3. Second: m = ln 6, t = 1 + 1/3 = 4/3. Together m = ln 6, and t = (3/6) · 4/3 + 1 · 4/3 = 2. Check on
# the whole row: (1 + 3 + 6 + 2) / 6 = 2.

# %%
scores = np.log([1.0, 3.0, 6.0, 2.0])


def state(s):
    return s.max(), np.exp(s - s.max()).sum()


(m1, t1), (m2, t2) = state(scores[:2]), state(scores[2:])
m = max(m1, m2)
t = math.exp(m1 - m) * t1 + math.exp(m2 - m) * t2
assert np.allclose([t1, t2, t], [4 / 3, 4 / 3, 2]) and np.allclose((m, t), state(scores))
print(
    f"blocks: t = {t1:.4f} and {t2:.4f}; merged: {t:.4f}; log-sum-exp m + log t = log {math.exp(m + math.log(t)):.0f}"
)

# %% [markdown]
# ## Code: attention in blocks, forward
#
# For a block of queries, go through the blocks of keys one after the other, and merge each into the state. At
# most block x block scores exist at a time. At the end, combine m and t of each query into one number, the
# **log-sum-exp** $L = m + \log t = \log \sum_j e^{s_j}$. The backward pass needs it.

# %%


def blockwise(q, k, v, block):
    """One head: q (Tq, D), k (Tk, D), v (Tk, Dv) -> y (Tq, Dv), log-sum-exp of each row of scores (Tq,)."""
    y, lse = np.empty((len(q), v.shape[1])), np.empty(len(q))
    for i in range(0, len(q), block):
        queries = q[i : i + block] / math.sqrt(q.shape[1])
        m, t, a = np.full(len(queries), -np.inf), 0, 0
        for j in range(0, len(k), block):
            s = queries @ k[j : j + block].T  # (block, block)
            top = np.maximum(m, s.max(-1))
            shrink, e = np.exp(m - top), np.exp(s - top[:, None])
            t = shrink * t + e.sum(-1)
            a = shrink[:, None] * a + e @ v[j : j + block]  # (block, Dv)
            m = top
        y[i : i + block], lse[i : i + block] = a / t[:, None], m + np.log(t)
    return y, lse


# %%


def plain(q, k, v):
    s = q @ k.T / math.sqrt(q.shape[1])
    p = np.exp(s - s.max(-1, keepdims=True))
    return p / p.sum(-1, keepdims=True) @ v


q, k, v = rng.standard_normal((10, 4)), rng.standard_normal((13, 4)), rng.standard_normal((13, 3))
for block in (1, 4, 5, 100):
    difference = np.abs(blockwise(q, k, v, block)[0] - plain(q, k, v)).max()
    print(f"blocks of {block:3}: differs from plain attention by {difference:.1e}")
    assert difference < 1e-14

# %% [markdown]
# The first block needs no special case: the old m is $-\infty$, and the factor $e^{-\infty - m} = 0$ removes
# the empty sum.
#
# ## Derivation of the backward
#
# Plain attention keeps its weights $P$ (n x n) for the backward pass. We did not keep them. But from $q_i$,
# $k_j$ and the log-sum-exp $L_i$ we can compute any of them again, without the others:
#
# $$p_{ij} = e^{s_{ij} - L_i}, \qquad s_{ij} = \frac{q_i \cdot k_j}{\sqrt{d_k}}$$
#
# because $e^{L_i}$ *is* the sum of the row. That is what "recomputation" means here: we keep one number for
# each query, and compute n² numbers again.
#
# Let $g_i$ be the gradient of $y_i = \sum_j p_{ij} v_j$ (lesson 08 has these steps for whole matrices).
#
# 1. $v_j$ enters each $y_i$ with the factor $p_{ij}$, so $dv_j = \sum_i p_{ij} \, g_i$.
# 2. $p_{ij}$ enters $y_i$ with the factor $v_j$, so $dp_{ij} = g_i \cdot v_j$.
# 3. Through the softmax (lesson 05): $ds_{ij} = p_{ij} \left( dp_{ij} - \sum_l p_{il} \, dp_{il} \right)$.
# 4. The sum in 3 runs over the *whole row*, which we do not have. But $\sum_l p_{il} \, dp_{il} = \sum_l
#    p_{il} \, (g_i \cdot v_l) = g_i \cdot \sum_l p_{il} v_l = g_i \cdot y_i$. This is one number for each
#    query, and we kept all it needs. This step makes blocks possible (Dao et al. 2022, appendix B.2).
# 5. $s_{ij} = q_i \cdot k_j / \sqrt{d_k}$, so $dq_i = \sum_j ds_{ij} \, k_j / \sqrt{d_k}$ and
#    $dk_j = \sum_i ds_{ij} \, q_i / \sqrt{d_k}$.
#
# Every sum runs over blocks that can be computed, used and freed.

# %%


def blockwise_backward(g, q, k, v, y, lse, block):
    """Return dq, dk, dv from the gradient g of y; compute the weights again, a block at a time."""
    dq, dk, dv = np.zeros_like(q), np.zeros_like(k), np.zeros_like(v)
    scale, row_sums = 1 / math.sqrt(q.shape[1]), (g * y).sum(-1)  # step 4
    for i in range(0, len(q), block):
        rows = slice(i, i + block)
        for j in range(0, len(k), block):
            keys = slice(j, j + block)
            p = np.exp(q[rows] @ k[keys].T * scale - lse[rows, None])  # (block, block)
            dv[keys] += p.T @ g[rows]  # 1
            dp = g[rows] @ v[keys].T  # 2
            ds = p * (dp - row_sums[rows, None]) * scale  # 3
            dq[rows] += ds @ k[keys]  # 5
            dk[keys] += ds.T @ q[rows]
    return dq, dk, dv


# %% [markdown]
# ## Gradient check
#
# minigrad's checker takes a forward and a backward in plain NumPy (lesson 04). 10 and 13 are not multiples of
# 4, so the smaller last blocks are tested too.

# %%


def forward(q, k, v):
    return blockwise(q, k, v, 4)[0]


def backward(g, q, k, v):
    return blockwise_backward(g, q, k, v, *blockwise(q, k, v, 4), 4)


assert gradcheck((forward, backward), [q, k, v])
print("blockwise attention: forward and backward agree with finite differences")

# %% [markdown]
# A check that never fails proves little. Leave out step 4, and it fails:

# %%


def forgetful(g, q, k, v):
    y, lse = blockwise(q, k, v, 4)
    return blockwise_backward(g, q, k, v, 0 * y, lse, 4)  # row sums of 0


try:
    gradcheck((forward, forgetful), [q, k, v])
    raise SystemExit("the wrong backward was not caught")
except AssertionError as error:
    print(str(error).splitlines()[0])

# %% [markdown]
# **The same in minigrad:** `minigrad/kernels/blocked_attention.py`. It computes the same sums, with masks,
# dropout and heads. It saves m and t instead of their log-sum-exp (a pitfall below says why). It updates m
# only if a score exceeds it by 20, so most blocks need no rescaling. `F.scaled_dot_product_attention(...,
# path="plain" or "blocked")` chooses; without `path` the length decides.
#
# ## What it saves
#
# We measure with Python's `tracemalloc`, which sees every array. The figures are for one head of width 64 in
# float32, without the inputs.

# %%
lengths = (512, 1024, 2048)
found = measure.attention_memory(lengths)
print("   n   plain kept   plain at most   blocked kept   blocked at most    (megabytes)")
for i, n in enumerate(lengths):
    cells = [found[path][what][i] / 1e6 for path in ("plain", "blocked") for what in ("kept", "peak")]
    print(f"{n:5}  {cells[0]:10.2f}  {cells[1]:14.2f}  {cells[2]:13.2f}  {cells[3]:16.2f}")
assert 3.5 < found["plain"]["peak"][2] / found["plain"]["peak"][1] < 4.5
assert 1.5 < found["blocked"]["kept"][2] / found["blocked"]["kept"][1] < 2.5

# %%
figure = figures.attention_memory_figure(lengths, found)
show(
    figure,
    "Plain attention's memory grows with the square of the length, blocked attention's with the length",
)

# %% [markdown]
# The plain path keeps one n x n table, and at its peak it holds a little more than two such tables. The
# blocked path keeps the output and two numbers for each query.
#
# Does it cost time? Count the products. The plain path has 2 forward and 4 backward (dv, dp, dq, dk), of $2
# n^2 d_k$ each. The blocked path computes the scores once more: seven instead of six. In return each block of
# scores stays in the processor's fast cache, while a large table goes to main memory and back at every step.
# On a GPU, attention spends most of its time on that traffic, and FlashAttention reduces it (Dao et al. 2022,
# theorem 2: with $M$ numbers of fast memory, $\Theta(n^2 d_k^2 / M)$ accesses to the slow one instead of
# $\Theta(n d_k + n^2)$). The result is exact. Nothing is approximated.

# %%
for n in (512, 1024, 2048):
    x = mg.randn(1, n, 64, requires_grad=True)
    seed = mg.ones(1, n, 64)
    taken = {
        path: seconds(
            lambda x=x, path=path, seed=seed: F.scaled_dot_product_attention(x, x, x, path=path).backward(
                seed
            ),
            3,
        )
        for path in ("plain", "blocked")
    }
    print(
        f"n = {n:5}: forward and backward, plain {1e3 * taken['plain']:6.1f} ms, in blocks {1e3 * taken['blocked']:6.1f} ms"
    )

# %% [markdown]
# `benchmarks/README.md` has figures up to n = 16,384, next to those of PyTorch's kernel (`python -m
# benchmarks attention`).
#
# ## Checkpointing: the same idea for whole layers
#
# Attention is not the only layer that keeps arrays. Each op keeps the arrays its rule will read, until
# backward is done. `kept_for_backward` adds up their bytes. `checkpoint(fun, *args)` keeps only the arguments
# of `fun`, and runs `fun` again during backward (Chen et al. 2016). GPT has an option for it:
# `checkpointed=True` wraps each block.

# %%
tokens = rng.integers(65, size=(4, 129))


def loss_of(model):
    return F.cross_entropy(model(tokens[:, :-1]).reshape(-1, 65), tokens[:, 1:].reshape(-1))


def step_of(model):
    loss_of(model).backward()


kept = {}
print("layers  kept (MB)  checkpointed (MB)   a step (ms)  checkpointed (ms)")
for layers in (2, 4, 8):
    both = [GPT(65, 64, 4, layers, 128, dropout=0.0, checkpointed=c) for c in (False, True)]
    kept[layers] = [viz.kept_for_backward(loss_of(model)) for model in both]
    times = [1e3 * seconds(lambda model=model: step_of(model), 3) for model in both]
    print(
        f"{layers:6}  {kept[layers][0] / 1e6:9.2f}  {kept[layers][1] / 1e6:17.2f}  {times[0]:12.1f}  {times[1]:17.1f}"
    )
more = (kept[8][0] - kept[4][0]) / 4, (kept[8][1] - kept[4][1]) / 4
# a checkpointed layer keeps its input: batch x n x d_model numbers of 4 bytes
assert more[1] == 4 * 128 * 64 * 4
print(
    f"each further layer keeps {more[0] / 1e6:.2f} MB, checkpointed {more[1] / 1e6:.3f} MB: 1/{more[0] / more[1]:.0f} of it"
)

# %% [markdown]
# The price is one more forward pass. If a backward costs about two forwards (each product has two gradients),
# a step goes from 3 to 4 units, a third more. The table does not show the *peak*: while backward is inside a
# layer, all values of that layer exist again, but only of that one, not of all eight. The measured peak of a
# step:

# %%
for model in both:  # of 8 layers, plain and checkpointed
    tracemalloc.start()
    step_of(model)
    print(
        f"checkpointed: {model.checkpointed!s:5}  {tracemalloc.get_traced_memory()[1] / 1e6:6.2f} MB at the most"
    )
    tracemalloc.stop()

# %% [markdown]
# **How often?** With a checkpoint at every c-th of n layers, n / c inputs are kept, and during backward the
# values of one segment of c layers exist. If the values of a layer count as one, that is n / c + c, smallest
# at c = √n. So memory grows with √n instead of n (Chen et al., section 4):

# %%
layers = 36
cost = {c: layers // c + c for c in (1, 2, 3, 4, 6, 9, 12, 18, 36)}
print("every c-th:", cost)
assert min(cost, key=cost.get) == 6 == math.isqrt(layers) and cost[6] == 12

# %% [markdown]
# Both compute the same loss and the same gradients:

# %%
models = [GPT(65, 32, 2, 2, 128, dropout=0.0, checkpointed=c) for c in (False, True)]
models[1].load_state_dict(models[0].state_dict())
for model in models:
    step_of(model)
assert all(
    np.allclose(p.grad.data, o.grad.data, rtol=1e-5, atol=1e-7)
    for p, o in zip(*(m.parameters() for m in models), strict=True)
)
print(
    "checkpointed and not: the same gradients for",
    sum(p.numel() for p in models[0].parameters()),
    "parameters",
)

# %% [markdown]
# **The same in minigrad:** `minigrad/engine/recompute.py`.
#
# ## Where a step's time goes
#
# Before you make anything faster, measure. Here is a small profile of one training step of a GPT: forward,
# backward and the optimizer, and for comparison the *matrix products alone*. `trace_forward` lists their
# shapes. Each forward product has two backward products of the same size, so we run each three times and
# nothing else. No NumPy program can be faster than that.

# %%
model = GPT(65, 128, 4, 4, 128, dropout=0.0)
optimizer = optim.AdamW(model.parameters(), lr=1e-3)
products = [step.inputs for step in viz.trace_forward(model, tokens[:, :-1]).steps if step.op == "matmul"]
factors = [tuple(rng.standard_normal(shape, dtype=np.float32) for shape in shapes) for shapes in products]
for _ in range(2):  # the first round warms up caches and memory
    clock = [time.perf_counter()]
    loss = loss_of(model)
    clock.append(time.perf_counter())
    loss.backward()
    clock.append(time.perf_counter())
    optimizer.step()
    clock.append(time.perf_counter())
bare = seconds(lambda: [a @ b for a, b in factors], 3) * 3
for name, took in zip(("forward", "backward", "optimizer"), np.diff(clock), strict=True):
    print(f"{name:10} {1e3 * took:6.1f} ms")
print(f"{len(products)} products forward, three times over, and nothing else: {1e3 * bare:6.1f} ms")
print(f"the products are {bare / (clock[-1] - clock[0]):.0%} of the step")

# %% [markdown]
# For a thorough version, op by op, run
#
#     python -m benchmarks where reference
#
# `benchmarks/README.md` has its table for the reference model (4 layers, width 128, one thread): linear
# layers are half of the step, attention 14 %, gelu 10 %, layer norm 9 %, the optimizer 5 %. Attention is
# *not* the most expensive part at context 64: compare $4 n^2 d$ with $24 n d^2$ for all of a block's linear
# layers (question 3). The same page says how much each trick saves: without float32 the step takes 2.2 times
# as long, without fused kernels 1.6 times, without keeping freed memory 1.4 times.
#
# ## float32
#
# float32 takes half the bytes, and a vector register of the processor holds twice as many numbers. Measured
# on one product:

# %%
for dtype in (np.float64, np.float32):
    a = rng.standard_normal((512, 512)).astype(dtype)
    taken = seconds(lambda a=a: a @ a)
    print(
        f"{np.dtype(dtype).name}: {a.nbytes / 1e6:.2f} MB, {1e3 * taken:.2f} ms, after 1 comes 1 + {np.finfo(dtype).eps:.1e}"
    )

# %% [markdown]
# The price is precision: float32 has seven digits. That is enough for training (the gradient of a random
# batch is noisier than that), but not for checking gradients by differences. So lesson 04 uses float64.
#
# float32 is easily lost. The result of a NumPy operation has the widest dtype of its *arrays and NumPy
# scalars*; only Python's own numbers adapt (NEP 50). After one careless constant, everything is float64:

# %%
x = np.ones(3, np.float32)
print("x / math.sqrt(64):", (x / math.sqrt(64)).dtype, "   x / np.sqrt(64):", (x / np.sqrt(64)).dtype)
assert (x / math.sqrt(64)).dtype == np.float32 and (x / np.sqrt(64)).dtype == np.float64
assert (mg.tensor(x) / np.sqrt(64)).dtype == np.float32
print("a tensor of minigrad keeps float32, as PyTorch's do:", (mg.tensor(x) / np.sqrt(64)).dtype)

# %% [markdown]
# ## Writing: the KV cache
#
# Lesson 14 writes text token by token. Without a cache, the t-th token takes a forward pass over all t
# tokens, and repeats the projections and feed-forward of the old ones. With the keys and values kept, a new
# token computes only its own, and attends to t. For n tokens, the work of the linear layers falls from
# $n(n+1)/2$ tokens to $n$. The price is memory:
#
# $$\text{bytes} = 2 \cdot \text{layers} \cdot B \cdot n \cdot h_{kv} \cdot d_k \cdot 4$$
#
# with 2 for keys and values. $h_{kv}$ is the number of heads of keys and values, usually h; letting groups of
# query heads share one (grouped-query attention, Ainslie et al. 2023) divides the cache by the size of a
# group.

# %%
for kv_heads in (12, 4, 1):
    cache = KVCache(max_len=1024)
    attention = MultiHeadAttention(768, 12, num_kv_heads=kv_heads)
    with mg.no_grad():
        attention(mg.randn(1, 1, 768), cache=cache)
    held = 12 * (cache.k.nbytes + cache.v.nbytes)  # 12 layers
    assert held == 2 * 12 * 1024 * kv_heads * 64 * 4
    print(
        f"GPT-2's smallest size, 1,024 tokens, {kv_heads:2} heads of keys and values: {held / 1e6:5.1f} MB for each text"
    )

# %% [markdown]
# ## Edge cases
#
# - **Lengths that the block does not divide**: the last block is smaller. Python's slices do that by
#   themselves.
# - **A row with every key masked in one block**: its m is $-\infty$, and $e^{-\infty - (-\infty)}$ is NaN.
#   Subtract 0 instead of m where m is $-\infty$. minigrad gives 0 for a row in which *all* keys are masked
#   (lesson 09).
# - **Causal masks**: of N x N blocks, those above the diagonal need not be computed: N(N + 1)/2 remain, about
#   half.
# - **Large scores**: 1e4 and more. Subtracting m prevents overflow, as in lesson 05.

# %%
large = 5000 * q
y, lse = blockwise(large, k, v, 4)
print(
    "largest score",
    f"{np.abs(large @ k.T).max() / 2:.0f};",
    "finite:",
    np.isfinite(y).all() and np.isfinite(lse).all(),
)
assert np.allclose(y, plain(large, k, v))
assert np.allclose(blockwise(q[:1], k[:1], v[:1], 4)[0], v[:1])  # one key: its value, whatever the query

# %% [markdown]
# ## Pitfalls: programs that break
#
# **"Just add the sums of the blocks."** Each sum is relative to its own maximum:

# %%
print(f"t1 + t2 = {t1 + t2:.4f}, relative to the common maximum it is {t:.4f}")
assert abs(t1 + t2 - t) > 0.6

# %% [markdown]
# **"Then leave the maximum out."** Works on small scores and fails on the first large one, with a warning at
# most (silenced here):

# %%
with np.errstate(over="ignore", invalid="ignore"):
    e = np.exp(np.array([1000.0, 999.0]))
    print("exp:", e, " softmax:", e / e.sum())
assert np.isinf(e).all()

# %% [markdown]
# **"-1e9 is as good as minus infinity."** Suppose a padded row has -1e9 added to all its scores. In float32
# the log-sum-exp loses log t completely, and the weights that backward computes from it sum to 3 instead of
# 1:

# %%
s = np.full(3, -1e9, np.float32)
m32, t32 = s.max(), np.exp(s - s.max()).sum()
from_lse = np.exp(s - (m32 + np.log(t32)))
print("weights from m + log t:", from_lse, "   from m and t:", np.exp(s - m32) / t32)
assert from_lse.sum() == 3.0

# %% [markdown]
# This is why minigrad saves m and t separately.
#
# **"Checkpoint anything."** The second run must do the same as the first. If a dropout mask comes from a
# generator that is not reset, the second run has a different mask:

# %%
outside = np.random.default_rng(1)
x = mg.ones(6, requires_grad=True)
y = mg.checkpoint(lambda x: x * (outside.random(6) < 0.5) * 2.0, x)
y.sum().backward()
print("value   ", y.data, "\ngradient", x.grad.data, " <- from a different mask")
assert not np.array_equal(y.data, x.grad.data)

x = mg.ones(6, requires_grad=True)
y = mg.checkpoint(lambda x: F.dropout(x, 0.5), x)  # minigrad resets its own random streams
y.sum().backward()
assert np.array_equal(y.data, x.grad.data)

# %% [markdown]
# **"Attention is the bottleneck, so make attention faster."** Measure first: in the profile above it was not.
#
# **"Blocks make it linear."** Memory, yes. The time stays quadratic: all n² scores are computed, one block
# after the other.
#
# ## Practice questions

# %% [markdown]
# ### Q1. How much memory do the weights of 1,000 tokens take, with d_model = 512 and 8 heads, in float32?
#
# One layer, one sequence; and then for a batch of 32.
#
# <details><summary>Answer</summary>
#
# Shape (1, 8, 1000, 1000): 8,000,000 numbers, 4 bytes each: 32,000,000 bytes. That is 32 MB if a megabyte is
# a million bytes, and 30.5 MiB if it is 2^20. A batch of 32: 1.024 GB. d_model plays no part. Answers often
# forget two things: this is *one* layer, and *one* table. Training keeps such a table for each layer, and the
# plain backward makes more of that size.
#
# </details>

# %%
# Q1, recomputed
numbers = 1 * 8 * 1000 * 1000
assert numbers == 8_000_000 and numbers * 4 == 32_000_000
assert round(numbers * 4 / 2**20, 1) == 30.5 and 32 * numbers * 4 / 1e9 == 1.024
with mg.definitions():
    q8 = mg.randn(1, 8, 1000, 64)
    weights = F.attention_weights(q8, q8, scale=1 / 8)
assert weights.data.nbytes == 32_000_000
print("counted on a real one:", weights.data.nbytes, "bytes")

# %% [markdown]
# ### Q2. What is the time complexity of self-attention for n tokens? Of a recurrence and of a convolution?
#
# <details><summary>Answer</summary>
#
# One head: O(n² d_k). All heads together: O(n² d_model), whatever their number. Projections: O(n d_model²).
# So a layer is O(n² d_model + n d_model²). In the same unit a recurrence is O(n d²), in n steps that wait for
# each other; a convolution over k tokens is O(k n d²), and it sees k tokens only. At n = 1,000, d = 512: 2.05
# billion FLOPs for attending, 2.10 for the projections, 1.05 for a recurrence, 1.57 for a convolution over 3.
#
# </details>

# %%
# Q2, recomputed
n, d = 1000, 512
billions = [round(f / 1e9, 2) for f in (4 * n * n * d, 8 * n * d * d, 4 * n * d * d, 2 * 3 * n * d * d)]
assert billions == [2.05, 2.10, 1.05, 1.57]
# heads do not matter
assert len({matmul_flops(MultiHeadAttention(16, h), mg.randn(1, 20, 16)) for h in (1, 2, 8)}) == 1
print(billions)

# %% [markdown]
# ### Q3. From which length on does attending cost more than the projections?
#
# And more than all linear layers of a block, with a feed-forward network 4 d wide?
#
# <details><summary>Answer</summary>
#
# 4 n² d = 8 n d² at n = 2 d. The feed-forward adds 2 · 2 · n · d · 4 d = 16 n d², together 24 n d², which 4
# n² d reaches at n = 6 d. For d = 768 that is 4,608 tokens. Below it, a Transformer's time is mostly its
# linear layers.
#
# </details>

# %%
# Q3, recomputed
d = 768
assert (
    4 * (2 * d) ** 2 * d == 8 * (2 * d) * d**2
    and 4 * (6 * d) ** 2 * d == 24 * (6 * d) * d**2
    and 6 * d == 4608
)
print("n = 2 d =", 2 * d, "and n = 6 d =", 6 * d)

# %% [markdown]
# ### Q4. Block 1 has m = 2, t = 3; block 2 has m = 0, t = 5. What is the state of both? Their log-sum-exp?
#
# <details><summary>Answer</summary>
#
# m = 2, t = 3 + 5 e^(-2) = 3.6767, log-sum-exp = 2 + ln 3.6767 = 3.3020.
#
# </details>

# %%
# Q4, recomputed
t = 3 + 5 * math.exp(-2)
assert round(t, 4) == 3.6767 and round(2 + math.log(t), 4) == 3.3020
assert math.isclose(math.log(3 * math.exp(2) + 5), 2 + math.log(t))
print(t, 2 + math.log(t))

# %% [markdown]
# ### Q5. 100,000 tokens, one head of width 64, float32: how large is the table of weights?
#
# And what does blockwise attention keep instead?
#
# <details><summary>Answer</summary>
#
# 10^10 numbers, 40 GB, for each head of each layer. Blockwise attention keeps the output (25.6 MB) and two
# numbers for each query (0.8 MB).
#
# </details>

# %%
# Q5, recomputed
n = 100_000
assert n * n * 4 == 40e9 and n * 64 * 4 == 25_600_000 and n * 2 * 4 == 800_000
print(n * n * 4 / 1e9, "GB against", (n * 64 * 4 + n * 2 * 4) / 1e6, "MB")

# %% [markdown]
# ### Q6. n = 1,024, blocks of 128, causal. How many blocks are computed? Which share of their scores is wasted?
#
# <details><summary>Answer</summary>
#
# 8 x 8 = 64 blocks, of which 8 · 9 / 2 = 36 are computed. They hold 36 · 128² = 589,824 scores; 1,024 · 1,025
# / 2 = 524,800 are allowed; 11 % are wasted, in the diagonal blocks. Smaller blocks waste less, but the loop
# runs more often.
#
# </details>

# %%
# Q6, recomputed
blocks = sum(1 for i in range(8) for j in range(8) if j <= i)
assert blocks == 36 and blocks * 128**2 == 589_824 and 1024 * 1025 // 2 == 524_800
assert round(1 - 524_800 / 589_824, 2) == 0.11
print(blocks, "blocks,", f"{1 - 524_800 / 589_824:.1%} wasted")

# %% [markdown]
# ### Q7. A model of 36 equal layers is checkpointed at every 6th. What is kept at most?
#
# In units of one layer's values; an input counts as one. And by how much does a step grow if backward costs
# two forwards?
#
# <details><summary>Answer</summary>
#
# 6 inputs and the 6 layers of one segment: 12 instead of 36. A step costs 1 + 2 = 3 units; with one more
# forward, 4: a third more. (It is slightly less, since the last layer of each segment need not run again:
# nothing reads its value.)
#
# </details>

# %%
# Q7, recomputed
assert 36 // 6 + 6 == 12 and (1 + 2 + 1) / (1 + 2) == 4 / 3
print("12 of 36; 4/3 of the time")

# %% [markdown]
# ### Q8. How many matrix products does blockwise attention take, forward and backward, and plain attention?
#
# What is the extra work, in percent?
#
# <details><summary>Answer</summary>
#
# Plain: q kᵀ, p v; then pᵀ g, g vᵀ, ds k, dsᵀ q: six. Blockwise: one more, q kᵀ again in backward: seven. 7/6
# = 1.167, 17 % more. The exponentials are computed twice as well.
#
# </details>

# %%
# Q8, recomputed
calls = []


class Counted(np.ndarray):
    """An array that counts the matrix products it takes part in."""

    def __matmul__(self, other):
        calls.append(1)
        return super().__matmul__(other)


q2, k2, v2, g2 = (rng.standard_normal((8, 4)).view(Counted) for _ in range(4))
y2, lse2 = blockwise(q2, k2, v2, 8)
blockwise_backward(g2, q2, k2, v2, y2, lse2, 8)
assert len(calls) == 7 and round(7 / 6, 3) == 1.167
print(len(calls), "products, counted")

# %% [markdown]
# ## What was left out
#
# - **Approximations**: attention over a window, over chosen pairs, or linearized. They change the answer;
#   blocks do not.
# - **Fast memory on a GPU**, where most of FlashAttention's gain lies, and how work is shared among its
#   processors.
# - **Half precision** (float16, bfloat16): NumPy has no fast arithmetic for it.
# - **Threads**: `python -m benchmarks reference --threads 2`.
# - **Recomputing selectively**: keep what is small and expensive to compute, recompute what is large and
#   cheap.
#
# ## Sources
#
# - Vaswani et al. 2017, *Attention Is All You Need*, table 1: complexity by layer type.
# - Milakov and Gimelshein 2018, *Online normalizer calculation for softmax*, arXiv:1805.02867, section 3.
# - Rabe and Staats 2021, *Self-attention Does Not Need O(n²) Memory*, arXiv:2112.05682.
# - Dao et al. 2022, *FlashAttention*, arXiv:2205.14135: algorithm 1, theorem 2, appendix B.
# - Chen et al. 2016, *Training Deep Nets with Sublinear Memory Cost*, arXiv:1604.06174, section 4.
# - Ainslie et al. 2023, *GQA*, arXiv:2305.13245.
# - NumPy Enhancement Proposal 50: promotion of Python scalars.
#
# ## Exercises
#
# You will count FLOPs and bytes (`attention_flops`, `attention_bytes`), merge two blocks (`merge`), write
# attention in blocks, forward and backward and causal (`blockwise_attention`, `blockwise_attention_backward`,
# `causal_blockwise_attention`), and checkpoint a chain of functions in plain NumPy (`checkpointed_forward`,
# `checkpointed_backward`).
#
#     python -m tutorials start 16
