# %% [markdown]
# # 19 · Many processes: all-reduce
#
# *Reading: 35 minutes. Exercises: 60 minutes. Needs: lessons 02, 06, 14.*
#
# How can two processes, or a thousand, train one model, and get what one process would have got?
#
# **You will be able to:**
# - share a batch among processes so that their gradients add up to the gradient of the whole batch, uneven shares included;
# - say what broadcast, reduce and all-reduce do, and follow a ring all-reduce step by step;
# - predict what an all-reduce costs, and from which number of processes on it no longer pays;
# - say why gradients travel in buckets, and why two runs can differ in their last digits;
# - start a training by several processes, and know what PyTorch does in the same place.

# %%
import math

import numpy as np
from matplotlib.figure import Figure

import minigrad as mg
from minigrad import nn
from minigrad.gradcheck import gradcheck
from tutorials import show

mg.manual_seed(0)
rng = np.random.default_rng(0)
np.set_printoptions(precision=4, suppress=True)

# %% [markdown]
# ## Intuition: many copies, one model
#
# Four people correct a pile of exams. Each takes a quarter of the pile. At the end they need one figure, the class's mean. If
# everybody tells everybody their sum and their count, all four can work it out, and all four get the same.
#
# **Data parallelism** does this with a batch. Each process holds the *whole* model and takes a *part* of each batch. It
# computes the gradient of its part. Then the processes add their gradients up, so that each holds the gradient of the whole
# batch; each applies the same step to the same weights. Nobody ever sends weights after the beginning: equal weights and equal
# gradients make equal weights.
#
# The processes share no memory. They may sit on different machines. All they can do is send each other messages, and the art
# lies in sending few.
#
# ## Definition
#
# There are $p$ processes, called **ranks** and numbered $0, \dots, p - 1$. Rank $r$ holds an array $x_r$ of $n$ numbers. Three
# operations in which all take part (**collectives**):
#
# | name | before | after |
# | --- | --- | --- |
# | broadcast | rank 0 holds $x$ | every rank holds $x$ |
# | reduce | rank $r$ holds $x_r$ | rank 0 holds $\sum_r x_r$ |
# | all-reduce | rank $r$ holds $x_r$ | every rank holds $\sum_r x_r$ |
#
# and two more, in terms of pieces. Cut each array into $p$ pieces; $x_r^{(c)}$ is piece $c$ of rank $r$'s array.
#
# | name | before | after |
# | --- | --- | --- |
# | reduce-scatter | rank $r$ holds $x_r$ | rank $r$ holds piece $r$ of the sum, $\sum_q x_q^{(r)}$ |
# | all-gather | rank $r$ holds a piece $y^{(r)}$ | every rank holds all pieces, $y^{(0)}, \dots, y^{(p-1)}$ |
#
# An all-reduce is a reduce and then a broadcast. It is also a reduce-scatter and then an all-gather, and that will turn out
# to be the better way.
#
# A step of data-parallel training, with a loss that is a mean over $N$ numbers, of which rank $r$ takes $N_r$:
#
# $$g = \sum_{r=0}^{p-1} \frac{N_r}{N} \, g_r, \qquad N = \sum_r N_r$$
#
# $g_r$ is the gradient of the mean loss over rank $r$'s part, $g$ that of the whole batch.
#
# ## A worked example by hand
#
# One weight $w = 1$, three examples $x = 1, 2, 3$, all targets 0, loss $(w x)^2$. The gradient of one example is $2 w x^2$:
# 2, 8 and 18. The whole batch's is their mean, $28 / 3 = 9.3333$.
#
# Rank 0 takes 1 and 2: its mean is $(2 + 8) / 2 = 5$. Rank 1 takes 3: 18. The mean of the two means is $(5 + 18) / 2 = 11.5$,
# which is wrong: example 3 has counted as much as the other two together. With the shares,
# $\frac{2}{3} \cdot 5 + \frac{1}{3} \cdot 18 = \frac{10}{3} + 6 = 9.3333$.

# %%
x, w = np.array([1.0, 2.0, 3.0]), 1.0


def mean_gradient(x):
    return (2 * w * x**2).mean()


parts = [x[:2], x[2:]]
means = [mean_gradient(part) for part in parts]
weighted = sum(len(part) / len(x) * g for part, g in zip(parts, means, strict=True))
assert means == [5, 18] and np.mean(means) == 11.5
assert math.isclose(weighted, 28 / 3) and math.isclose(weighted, mean_gradient(x))
print(
    f"whole batch {mean_gradient(x):.4f}; mean of the means {np.mean(means):.4f}; weighted by counts {weighted:.4f}"
)

# %% [markdown]
# Uneven shares are the rule, not the exception. Ten examples do not divide by four; the last batch of an epoch is smaller; and
# in a language model the loss is a mean over *tokens that are not padding* (lesson 09), of which equal numbers of sentences
# hold unequal numbers. What must be counted is what the mean runs over.
#
# ## Derivation: the gradient of a mean is the mean of gradients
#
# Let $\ell_i(w)$ be the loss of number $i$, and $S_r$ the set of numbers that rank $r$ takes; every number is in one set.
#
# 1. The whole loss: $L = \frac{1}{N} \sum_i \ell_i$.
# 2. Sum rank by rank: $L = \frac{1}{N} \sum_r \sum_{i \in S_r} \ell_i$.
# 3. Write $L_r = \frac{1}{N_r} \sum_{i \in S_r} \ell_i$ for the mean that rank $r$ computes. Then
#    $\sum_{i \in S_r} \ell_i = N_r L_r$, and $L = \sum_r \frac{N_r}{N} L_r$.
# 4. Differentiation is linear, so $\nabla L = \sum_r \frac{N_r}{N} \nabla L_r$.
#
# A rank with $N_r = 0$ has no mean (0 / 0); it adds nothing and must not compute one. If all $N_r$ are equal, the weights are
# $1 / p$, and the plain mean is right.
#
# The cheapest place for the weight is the loss: rank $r$ goes back from $\frac{N_r}{N} L_r$, and its gradients are weighted.
# Then all that is left is a sum.
#
# ### The same seen by the reverse pass
#
# Look at the $p$ copies of a weight as one computation: $w$ is *broadcast* to the copies $w_0 = w, \dots, w_{p-1} = w$, and
# each copy is used once. A value that is used several times gets the sum of the gradients of its uses (lesson 02). So:
#
# - the backward of a broadcast is a reduce (a sum), and the backward of a reduce is a broadcast;
# - the all-reduce of gradients is the backward of "all ranks have the same weights".
#
# And of an all-reduce itself: every output $y_q = \sum_r x_r$ uses every $x_r$ once, so $dx_r = \sum_q dy_q$. The backward
# of an all-reduce is an all-reduce.
#
# ## Code: the ring
#
# Put the ranks in a circle. Each sends to its right neighbour only, and receives from its left one only, both at the same time.
#
# **First half, reduce-scatter.** Piece $c$ sets out at rank $c$ and goes round. Each rank that it comes to adds its own piece
# $c$ and sends the sum on. After $p - 1$ rounds it has met everybody. All $p$ pieces travel at once, each one place behind the
# next, so that in every round each rank sends one piece and receives another. At the end rank $r$ holds the complete piece
# $r + 1$.
#
# **Second half, all-gather.** The complete pieces go round once more, $p - 1$ rounds, and everybody keeps a copy.
#
# Here are three ranks whose arrays hold one number in each piece, so that you can see who has been added: rank 0 holds 1s,
# rank 1 holds 10s, rank 2 holds 100s.

# %%


def ring_rounds(held):
    """All rounds of a ring all-reduce on held (p, p, n): piece c of rank r is held[r, c]. Yields (what, held) after each."""
    held, p = held.copy(), len(held)
    for t in range(2 * (p - 1)):
        adding = t < p - 1
        numbers = [(r - t) % p for r in range(p)]  # which piece rank r sends
        sent = [held[r, c].copy() for r, c in enumerate(numbers)]  # all set out before any arrives
        for r, c in enumerate(numbers):
            right = (r + 1) % p
            held[right, c] = held[right, c] + sent[r] if adding else sent[r]
        yield ("reduce-scatter" if adding else "all-gather"), held


held = np.array([1.0, 10.0, 100.0])[:, None, None] * np.ones((3, 3, 1))
print(f"{'at the start':20}", *(f"rank {r}: {held[r, :, 0]}" for r in range(3)), sep="  ")
for t, (what, now) in enumerate(ring_rounds(held)):
    print(f"{f'{t + 1}. {what}':20}", *(f"rank {r}: {now[r, :, 0]}" for r in range(3)), sep="  ")
assert (now == 111).all()

# %% [markdown]
# Follow piece 0, the first number of each row. It sets out at rank 0 as 1; rank 1 adds its own: 11; rank 2: 111, complete. Then
# it is handed on: to rank 0, to rank 1.
#
# The loop sends piece $(r - t) \bmod p$ in both halves: the ring keeps turning, and all that changes is that nobody adds.
# Counted from its own beginning, $t' = t - (p - 1)$, the second half sends piece $(r + 1 - t') \bmod p$: first the one that
# is complete.
#
# With that, an all-reduce of any array: make it flat, fill it up to a multiple of $p$, let the ring turn, cut off what was
# filled up.

# %%


def all_reduce(arrays):
    """The sum of the arrays, for each rank: a list of p arrays -> a list of p arrays."""
    p, size = len(arrays), arrays[0].size
    padded = np.zeros((p, -(-size // p) * p), arrays[0].dtype)
    padded[:, :size] = [array.ravel() for array in arrays]
    *_, held = padded.reshape(p, p, -1), *(now for _, now in ring_rounds(padded.reshape(p, p, -1)))
    return [row.ravel()[:size].reshape(arrays[0].shape) for row in held]


arrays = [rng.standard_normal((3, 5)) for _ in range(4)]
for result in all_reduce(arrays):
    assert np.allclose(result, sum(arrays), rtol=0, atol=1e-14)
print("15 numbers on 4 ranks: all hold the sum, to rounding")

# %% [markdown]
# Now a training. Four simulated ranks, a small network of lesson 06, batches of 10, so that the shares are 3, 3, 2 and 2.
# Beside it one process with the whole batch.

# %%


def network():
    mg.manual_seed(1)
    return nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1)).double()


def gradients_of_part(model, x, t, share):
    model.zero_grad()
    loss = ((model(x) - t) ** 2).mean() * share  # the weight N_r / N, at the cheapest place
    loss.backward()
    return loss.item(), [parameter.grad.data for parameter in model.parameters()]


def take_step(model, gradients, rate=0.05):
    with mg.no_grad():
        for parameter, g in zip(model.parameters(), gradients, strict=True):
            parameter -= rate * g


ranks, alone = [network() for _ in range(4)], network()
for _ in range(50):
    x = rng.standard_normal((10, 3))
    t = np.sin(x).sum(axis=1, keepdims=True)
    shares = zip(ranks, np.array_split(x, 4), np.array_split(t, 4), strict=True)
    losses, gradients = zip(
        *(gradients_of_part(model, *part, len(part[0]) / 10) for model, *part in shares), strict=True
    )
    summed = zip(*(all_reduce(list(of_all)) for of_all in zip(*gradients, strict=True)), strict=True)
    for model, own in zip(ranks, summed, strict=True):
        take_step(model, own)
    loss, g = gradients_of_part(alone, x, t, 1.0)
    take_step(alone, g)
apart = max(
    np.abs(a.data - b.data).max() for a, b in zip(ranks[0].parameters(), alone.parameters(), strict=True)
)
assert abs(sum(losses) - loss) < 1e-12 and apart < 1e-12
print(
    f"after 50 steps: loss {sum(losses):.6f} by four ranks, {loss:.6f} by one; weights differ by less than 1e-12"
)

# %% [markdown]
# **The same in minigrad:** `minigrad/training/ranks.py`. It moves the bytes with MPI, the Message Passing Interface, for which
# NumPy arrays are buffers to send (the package mpi4py). Its all-reduce is a reduce-scatter and an all-gather too, written so
# that the order of the sum is plain to see; the section on determinism says why. The command:
#
# ```
# pip install -e ".[mpi]"
# mpiexec -n 2 python -m minigrad.train text --distributed
# ```
#
# `mpiexec` starts the same program twice. Both read `--distributed`, ask MPI which rank they are, and train together; rank 0
# prints and writes. Nothing else in the trainer knows that there are several: a rank calls `backward(recipe, model, batch)` and
# finds the whole batch's gradients in `.grad`, as from any other backward.
#
# ## Gradient check
#
# The all-reduce is a linear function of the ranks' arrays, and its backward was said to be an all-reduce.

# %%


def forward(x):
    return np.array(all_reduce(list(x)))  # (p, n) -> (p, n): row r is what rank r holds


def backward(g, x):
    return np.array(all_reduce(list(g)))


assert gradcheck((forward, backward), [rng.standard_normal((3, 4))])
print("the backward of an all-reduce is an all-reduce")


def hasty(g, x):
    return g  # each rank keeps its own gradient, as if nobody else had used its numbers


try:
    gradcheck((forward, hasty), [rng.standard_normal((3, 4))])
    raise SystemExit("the wrong backward was not caught")
except AssertionError as error:
    print(str(error).splitlines()[0])

# %% [markdown]
# ## What it costs
#
# A message of $m$ bytes takes $\alpha + m / \beta$ seconds: $\alpha$ is the **latency**, the time until the first byte
# arrives, $\beta$ the **bandwidth** in bytes a second (the model of Thakur et al. 2005, section 3). A rank can send one
# message and receive another at the same time. Adding is taken to cost nothing. To all-reduce $n$ bytes on $p$ ranks:
#
# | way | rounds, one after the other | bytes in each | seconds |
# | --- | --- | --- | --- |
# | naive: all send to rank 0, which answers | $2 (p - 1)$ | $n$ | $2 (p - 1) (\alpha + n / \beta)$ |
# | tree: reduce and broadcast, by halves | $2 \lceil \log_2 p \rceil$ | $n$ | $2 \lceil \log_2 p \rceil (\alpha + n / \beta)$ |
# | ring | $2 (p - 1)$ | $n / p$ | $2 (p - 1) \alpha + 2 \frac{p - 1}{p} \frac{n}{\beta}$ |
#
# The ring's last term is the point: $2 (p - 1) / p$ is below 2 for any $p$. With a thousand ranks each sends no more than
# with ten. **And no way sends less** (Patarasuk and Yuan 2009, section 3): to have the sum of any piece, somebody must hear
# of all $p$ versions of it. That is $p - 1$ pieces sent for every piece, and to tell the other $p - 1$ ranks the result
# takes $p - 1$ more. $2 (p - 1) n$ bytes in all, which is $2 \frac{p - 1}{p} n$ for each rank if all do equally much, as in
# the ring they do.
#
# What the ring pays with is latency: $2 (p - 1)$ messages, each waiting for the one before.

# %%


def seconds(n, p, alpha, beta):
    """(naive, tree, ring) seconds for n bytes on p ranks."""
    rounds = math.ceil(math.log2(p))
    return (
        2 * (p - 1) * (alpha + n / beta),
        2 * rounds * (alpha + n / beta),
        2 * (p - 1) * (alpha + n / p / beta),
    )


ALPHA, BETA = 20e-6, 1.25e9  # 20 microseconds, and 10 gigabits a second: two machines on a good cable
print("milliseconds for 3.2 MB (the gradients of this project's reference GPT) and for 10 kB")
for p in (2, 8, 64, 1000):
    large, small = ([1e3 * s for s in seconds(n, p, ALPHA, BETA)] for n in (3.2e6, 1e4))
    print(f"p = {p:5}   " + "   ".join(f"{name} {s:9.3f}" for name, s in zip(("naive", "tree", "ring"), large, strict=True))
          + "      |   " + "   ".join(f"{s:7.3f}" for s in small))  # fmt: skip
assert seconds(3.2e6, 64, ALPHA, BETA)[2] < seconds(3.2e6, 64, ALPHA, BETA)[1]  # many bytes: the ring
# few bytes, many ranks: the tree
assert seconds(1e4, 1000, ALPHA, BETA)[1] < seconds(1e4, 1000, ALPHA, BETA)[2]

# %%
figure = Figure(figsize=(9, 3.6), layout="constrained")
counts = np.unique(np.geomspace(2, 1000, 40).astype(int))
titles = {1e8: "100 MB: bandwidth decides", 1e4: "10 kB: latency decides"}
for axes, (n, title) in zip(figure.subplots(1, 2), titles.items(), strict=True):
    for name, times in zip(
        ("naive", "tree", "ring"), np.transpose([seconds(n, p, ALPHA, BETA) for p in counts]), strict=True
    ):
        axes.loglog(counts, times, label=name)
    axes.set(title=title, xlabel="ranks p", ylabel="seconds for one all-reduce")
    axes.grid(alpha=0.3)
    axes.legend()
show(
    figure,
    "Of much data a ring takes nearly the same time for any number of ranks; of little data a tree is faster",
)

# %% [markdown]
# A library therefore looks at the size and chooses. For large arrays MPICH, the MPI used here, has an all-reduce that keeps
# the ring's $2 \frac{p-1}{p} n / \beta$ and needs only $2 \log_2 p$ messages, by exchanging halves, then quarters, with
# partners ever farther away (Thakur et al. 2005, section 4.5, where it is called Rabenseifner's). It is again a
# reduce-scatter and an all-gather.
#
# ### A thousand ranks, on paper
#
# Does it pay? Let a rank compute $c$ seconds a step, whatever the number of ranks: more ranks, larger batch (**weak scaling**).
# The share of the step that is not waiting is $c / (c + \text{all-reduce})$. The assumptions, each of them optimistic: no two
# messages share a cable; all ranks are equally fast, though all wait for the slowest; adding costs nothing.

# %%
COMPUTE = 0.040  # seconds a step of the reference GPT, of the order that one core takes
print("ranks   ring ms   share of the step that is not waiting")
shares = {}
for p in (2, 4, 8, 16, 64, 256, 1000):
    ring = seconds(3.2e6, p, ALPHA, BETA)[2]
    shares[p] = COMPUTE / (COMPUTE + ring)
    print(f"{p:5}   {1e3 * ring:7.2f}   {shares[p]:.1%}")
assert shares[2] > 0.9 and shares[1000] < 0.5

# %% [markdown]
# Above a hundred ranks the ring's latency eats this small model's gain. A larger model computes longer per byte of gradient
# and scales further. And with **strong scaling**, where the batch stays and each rank's share shrinks, $c$ falls as $1 / p$
# and the end comes much sooner (question 6). `python -m benchmarks.distributed --model` prints the table for other figures,
# and `mpiexec -n 2 python -m benchmarks.distributed` measures two real ranks.
#
# ## Buckets and overlap
#
# Two things make the wait shorter still.
#
# **Overlap.** The reverse pass finishes the last layer's gradients first. They can travel while the first layers' are still
# being computed. For that one must know when a gradient is *final*: when the oldest operation that used the parameter has
# had its turn, for the pass goes from the newest to the oldest (lesson 02). `pull_back` in `minigrad/engine/reverse_pass.py`
# counts the uses of each parameter, takes one off with each operation, and calls the parameter's hooks at 0.
#
# **Buckets.** A model has hundreds of parameters, many of them small. A message for each pays the latency hundreds of times.
# One message for all cannot set out before the last gradient is there, and overlaps nothing. In between are buckets: flat
# arrays that hold several parameters' gradients and set out when they are full.
#
# How large? Simulate: 96 parameters of 1 MB, each taking 1 ms of backward; 16 ranks; one bucket on the cable at a time.

# %%


def end_of_step(sizes, times, limit, p=16, alpha=ALPHA, beta=BETA):
    """When the last bucket has been summed: buckets fill in backward's order, and each waits until the cable is free."""
    now = free = filled = 0.0
    for size, took, following in zip(sizes, times, [*sizes[1:], None], strict=True):
        now, filled = now + took, filled + size
        if following is None or filled + following > limit:  # nothing comes after it, or it would not fit
            free = max(now, free) + seconds(filled, p, alpha, beta)[2]
            filled = 0.0
    return free


sizes, times = [1e6] * 96, [1e-3] * 96
limits = [1e6 * 2**k for k in range(7)] + [math.inf]
ends = {limit: end_of_step(sizes, times, limit) for limit in limits}
for limit, end in ends.items():
    print(
        f"buckets of {limit / 1e6:4.0f} MB: backward and all-reduce end after {1e3 * end:6.1f} ms (backward alone: 96.0 ms)"
    )
best = min(ends, key=ends.get)
assert 1e6 < best < math.inf

# %%
fine = [1e6 * k for k in range(1, 97)]
figure = Figure(figsize=(7, 3.4), layout="constrained")
axes = figure.subplots()
axes.semilogx([limit / 1e6 for limit in fine], [1e3 * end_of_step(sizes, times, limit) for limit in fine])
axes.set(
    title="Small buckets pay latency, large ones set out late",
    xlabel="bucket size, MB",
    ylabel="ms until all are summed",
)
axes.grid(alpha=0.3, which="both")
show(
    figure,
    "Buckets that are too small pay latency, buckets that are too large overlap nothing; the best lies between",
)

# %% [markdown]
# Here the cable needs 143 ms for 96 MB, longer than backward computes, so it cannot vanish; but of the 241 ms that one bucket
# takes, buckets of 8 MB save a third.
#
# The rule of order: all ranks must start their collectives in the *same order*, for the first message of one rank meets the
# first of the other, whatever they hold. But two ranks may finish gradients in different order, if their parts of the batch
# take different branches. So the order of buckets is fixed beforehand, and a full bucket waits for those before it.
#
# Whether overlap gains anything is a matter of who moves the bytes. A network card moves them by itself. Between two
# processes on one machine it is a core that copies, the same core that computes; there `benchmarks.distributed` shows how
# little there is to gain. Measure before you believe.
#
# ## Determinism: sums have an order
#
# Floating-point addition is commutative: $a + b$ and $b + a$ have the same bits. It is not associative.

# %%
a, b, c = np.float32(1e8), np.float32(-1e8), np.float32(1.0)
print("(a + b) + c =", (a + b) + c, "   a + (b + c) =", a + (b + c))
assert (a + b) + c == 1 and a + (b + c) == 0 and a + b == b + a

x = rng.standard_normal((8, 10_000)).astype(np.float32)  # 8 ranks
in_order = x[0].copy()
for row in x[1:]:
    in_order += row
by_halves = ((x[0] + x[1]) + (x[2] + x[3])) + ((x[4] + x[5]) + (x[6] + x[7]))
by_ring = all_reduce(list(x))[0]
for name, other in (("by halves", by_halves), ("by ring", by_ring)):
    differing, most = (in_order != other).mean(), np.abs(in_order - other).max()
    print(f"rank order against {name}: {differing:.0%} of the numbers differ, by at most {most:.1e}")
    assert 0.1 < differing < 0.9 and most < 1e-5

# %% [markdown]
# Three orders, three results, all equally right. (In the ring each *piece* has an order of its own: piece $c$ begins at rank
# $c$.) Two questions must be kept apart.
#
# - **Do all ranks have the same bits?** They must. Ranks that differ in a last digit hold models that differ, and nothing ever
#   brings them together again. In the ring they do: each piece is added up along one path, and then copied.
# - **Does a second run have the same bits?** Only if the order is the same. MPI *recommends* to its implementers that a
#   reduction give the same result for the same arguments in the same order, and says that this may cost speed (MPI 4.0,
#   section 6.9.1). It does not promise it.
#
# `minigrad/training/ranks.py` asks MPI only for what it does promise, which is moving data unchanged. An *all-to-all* brings piece
# $r$ of everybody's array to rank $r$; rank $r$ adds them up in the order 0, 1, ..., $p - 1$; an all-gather brings the sums to
# all. It sends $\frac{p-1}{p} n$ bytes twice, as much as the ring. Same ranks, same bits, whatever MPI does inside:

# %%


def sum_in_rank_order(arrays):
    """All-to-all, a sum in the order of the ranks, all-gather: arrays, flat, whose size is a multiple of p."""
    p = len(arrays)
    pieces = np.array(arrays).reshape(p, p, -1)
    arrived = pieces.swapaxes(0, 1)  # all-to-all: rank r now holds piece r of everybody's, (p, n / p)
    totals = []
    for own in arrived:
        total = own[0].copy()
        for piece in own[1:]:
            total += piece
        totals.append(total)
    return [np.concatenate(totals) for _ in range(p)]  # all-gather


assert all((result == in_order).all() for result in sum_in_rank_order(list(x)))
print("all-to-all and a sum in rank order: the bits of rank order, on all ranks")

# %% [markdown]
# *Another number of ranks* is another order, and no promise reaches that far: two ranks and one process agree to rounding,
# about 1e-16 relative in float64 and 1e-7 in float32. Adam can make much of that: where a gradient is zero but for rounding,
# its step is the *sign* of the rounding times the learning rate (lesson 06). Compare losses and gradients in float32, and
# weights in float64.
#
# ## Edge cases
#
# - **One rank.** Nothing to send; the formulas give 0 seconds, and the training is an ordinary one.
# - **Fewer examples than ranks.** Some ranks have nothing. They must still take part in every collective, with zeros, or the
#   others wait for ever.
# - **A parameter that one rank did not use.** It sends zeros too. But if *nobody* used it, its gradient is "none", not zero:
#   the optimizer would decay its weights. minigrad sends a number beside each gradient: how many ranks have one.
# - **A rank fails.** The others wait for a message that never comes. Whoever fails must end the whole job.
#
# ## Pitfalls: programs that break
#
# **The plain mean of unequal parts** trains, and learns something else. Here rank 0 has 90 examples of a straight line, and
# rank 1 has 10 of a curve.

# %%
w_true = 3.0
long_part, short_part = rng.standard_normal(90), rng.standard_normal(10)
noisy = w_true * short_part + 5.0 * short_part**2  # the few examples of rank 1 follow another law
x_all, t_all = np.concatenate([long_part, short_part]), np.concatenate([w_true * long_part, noisy])


def fitted(weights):
    """Where gradient descent on w ends if the ranks' mean gradients are combined with these weights."""
    w = 0.0
    for _ in range(500):
        g = [(2 * x * (w * x - t)).mean() for x, t in ((long_part, t_all[:90]), (short_part, noisy))]
        w -= 0.1 * np.dot(weights, g)
    return w


one_process = (x_all @ t_all) / (x_all @ x_all)  # least squares
print(
    f"one process: w = {one_process:.4f}; by counts: {fitted([0.9, 0.1]):.4f}; plain mean: {fitted([0.5, 0.5]):.4f}"
)
assert abs(fitted([0.9, 0.1]) - one_process) < 1e-9 and abs(fitted([0.5, 0.5]) - one_process) > 0.05

# %% [markdown]
# **Every rank begins with weights of its own.** The same step on different models keeps them different. Either all start from
# the same seed, or rank 0 broadcasts its weights; minigrad does both, and compares a hash of the weights every 100 steps.

# %%
models = [nn.Linear(2, 1), nn.Linear(2, 1)]  # drawn one after the other: not equal
before = np.abs(models[0].weight.data - models[1].weight.data).max()
for _ in range(100):
    x = rng.standard_normal((8, 2)).astype(np.float32)
    parts = zip(models, (x[:4], x[4:]), strict=True)
    own = zip(
        *(gradients_of_part(m, part, part.sum(1, keepdims=True), 0.5)[1] for m, part in parts), strict=True
    )
    summed = [all_reduce(list(of_both)) for of_both in own]
    for rank, model in enumerate(models):
        take_step(model, [of_both[rank] for of_both in summed])
after = np.abs(models[0].weight.data - models[1].weight.data).max()
print(f"two ranks that began apart by {before:.4f} are apart by {after:.4f} after 100 common steps")
assert abs(after - before) < 1e-4

# %% [markdown]
# **Every rank draws the same random numbers.** With the same seed everywhere, rank 0 and rank 1 drop the same units in
# different examples: less noise than one process has. Each rank needs a stream of its own, derived from the seed:

# %%
for rank in range(3):
    with mg.random.as_worker(rank):
        print(f"rank {rank} drops by {mg.random.stream('dropout').random(4)}")
with mg.random.as_worker(1):
    assert not np.array_equal(mg.random.fresh("dropout").random(4), mg.random.stream("dropout").random(4))

# %% [markdown]
# **"I doubled the ranks, and it learns worse."** If each rank keeps its batch size, the whole batch has doubled, and there
# are half as many steps in an epoch. Goyal et al. (2017, section 2.1) multiply the learning rate by the same factor and warm
# it up; that is a rule of thumb, with limits that they measure. In minigrad `--batch-size` is the whole batch's, shared
# among ranks, so that the number of ranks changes nothing but the time.
#
# **"It hangs."** Somewhere a rank left the road: an `if rank == 0:` around a collective, an early stop that only one rank has
# heard of, different numbers of batches. Every decision that leads to a collective must be the same on all ranks; if it can
# differ, exchange it first.
#
# ## What PyTorch does
#
# `torch.nn.parallel.DistributedDataParallel` is the same design (Li et al. 2020): a process for each device, weights
# broadcast when it is made, hooks that fire as gradients are finished, buckets of 25 MB by default filled in reverse order
# of the parameters (the first one of 1 MB, so that something sets out early), an all-reduce for each while backward goes on.
# Words you will meet: *world size* is $p$; `torchrun --nproc-per-node=2` is `mpiexec -n 2`; *NCCL* and *Gloo* are libraries
# that carry the messages, on graphics cards and on processors.
#
# Two differences. It divides the sum by the world size, the plain mean: with uneven parts *you* must weigh the loss. And a
# parameter that was not used makes it wait for ever, unless `find_unused_parameters=True`. minigrad sends a bucket at the
# end of backward whether or not it is full.
#
# ## Practice questions
#
# ### Q1. Three ranks have means of 4, 1 and 7 over 10, 30 and 10 tokens. What is the mean of all?
#
# And the mean of the means?
#
# <details><summary>Answer</summary>
#
# (10 · 4 + 30 · 1 + 10 · 7) / 50 = 140 / 50 = 2.8. The mean of the means is 4.
#
# </details>

# %%
# Q1, recomputed
assert np.dot([10, 30, 10], [4, 1, 7]) / 50 == 2.8 and np.mean([4, 1, 7]) == 4
print(np.average([4, 1, 7], weights=[10, 30, 10]))

# %% [markdown]
# ### Q2. Four ranks, an array of 12 MB. How many megabytes does each rank send in a ring all-reduce, and in how many messages?
#
# How many does rank 0 send and receive in the naive way?
#
# <details><summary>Answer</summary>
#
# Pieces of 3 MB, 2 · 3 = 6 rounds: 18 MB in 6 messages. Naive: rank 0 receives 3 · 12 = 36 MB and sends 36 MB.
#
# </details>

# %%
# Q2, recomputed
rounds = sum(1 for _ in ring_rounds(np.zeros((4, 4, 1))))
assert rounds == 6 and rounds * 12 / 4 == 18 and 3 * 12 == 36
print(rounds, "rounds,", rounds * 12 / 4, "MB")

# %% [markdown]
# ### Q3. Five ranks, reduce-scatter by ring. In which order are the five versions of piece 3 added up, and who ends up with it?
#
# <details><summary>Answer</summary>
#
# It sets out at rank 3 and goes to ranks 4, 0, 1 and 2: $(((x_3 + x_4) + x_0) + x_1) + x_2$. Rank 2 holds it, as rank $r$ holds
# piece $r + 1$.
#
# </details>

# %%
# Q3, recomputed
x = rng.standard_normal((5, 5, 100)).astype(np.float32)
after = [held.copy() for what, held in ring_rounds(x) if what == "reduce-scatter"][-1]
expected = x[3, 3].copy()
for rank in (4, 0, 1, 2):
    expected += x[rank, 3]
assert (after[2, 3] == expected).all()  # to the bit
print("rank 2 holds piece 3, added up in the order 3, 4, 0, 1, 2")

# %% [markdown]
# ### Q4. With 1,000 ranks, 20 µs and 1.25 GB/s: below how many bytes is a tree faster than a ring?
#
# <details><summary>Answer</summary>
#
# Tree: 20 (α + n/β), as log2 1000 rounds up to 10. Ring: 1,998 α + 1.998 n/β. Equal where 18.002 n/β = 1,978 α, so
# n = 1,978 · 20e-6 · 1.25e9 / 18.002 = 2.75 MB.
#
# </details>

# %%
# Q4, recomputed
n = 1978 * ALPHA * BETA / 18.002
_, tree, ring = seconds(n, 1000, ALPHA, BETA)
assert math.isclose(tree, ring, rel_tol=1e-9) and round(n / 1e6, 2) == 2.75
print(f"{n / 1e6:.2f} MB: both take {1e3 * ring:.2f} ms")

# %% [markdown]
# ### Q5. A model of 124 million float32 parameters, 8 ranks, 1.25 GB/s. How long does the ring take, latency aside?
#
# And at 100 times the bandwidth, between graphics cards of one machine?
#
# <details><summary>Answer</summary>
#
# 496 MB; 2 · 7/8 · 496 MB / 1.25 GB/s = 0.694 s, and 6.94 ms. Large models want fast cables, or a step that computes long.
#
# </details>

# %%
# Q5, recomputed
ring = 2 * 7 / 8 * 124e6 * 4 / 1.25e9
assert round(ring, 3) == 0.694 and math.isclose(ring, seconds(496e6, 8, 0.0, 1.25e9)[2])
print(f"{ring:.3f} s, {1e3 * ring / 100:.2f} ms")

# %% [markdown]
# ### Q6. Strong scaling: a step of 40 ms on one rank, shared among p, and 3.2 MB to sum as above. Which p is fastest?
#
# <details><summary>Answer</summary>
#
# A step takes 40/p ms and the ring's 2 (p − 1) (α + n/(pβ)). At p = 1: 40 ms; p = 8: 5 + 4.76 = 9.76 ms; beyond about 30 ranks
# the latency grows faster than the computing shrinks. The best is p = 30 with 7.44 ms: 5.4 times as fast with 30 times
# the ranks.
#
# </details>

# %%
# Q6, recomputed
step = {p: 0.040 / p + (seconds(3.2e6, p, ALPHA, BETA)[2] if p > 1 else 0) for p in range(1, 201)}
best = min(step, key=step.get)
assert round(1e3 * step[8], 2) == 9.76
print(f"fastest with {best} ranks: {1e3 * step[best]:.2f} ms, {step[1] / step[best]:.1f} times as fast")
assert (best, round(1e3 * step[best], 2), round(step[1] / step[best], 1)) == (30, 7.44, 5.4)

# %% [markdown]
# ### Q7. Two ranks compute `a + b` in an all-reduce, one as `a + b`, the other as `b + a`. Can their weights drift apart?
#
# And three ranks, of which each adds its own number first and then the others' in the order of their ranks?
#
# <details><summary>Answer</summary>
#
# Not two: addition is commutative, to the bit. Three can: rank 0 has $(x_0 + x_1) + x_2$, rank 2 has $(x_2 + x_0) + x_1$. With
# 1e8, −1e8 and 1 in float32 ranks 0 and 1 get 1, and rank 2 gets 0.
#
# </details>

# %%
# Q7, recomputed


def own_first(x, rank):
    total = x[rank]
    for other in range(3):
        if other != rank:
            total = total + x[other]
    return float(total)


sums = [own_first(np.float32([1e8, -1e8, 1]), rank) for rank in range(3)]
assert sums == [1, 1, 0]
print(sums)

# %% [markdown]
# ## What was left out
#
# - **Sharing the model** where it does not fit one device: its layers (pipeline), its matrices (tensor parallelism), or its
#   optimizer's state, of which each rank keeps a p-th (ZeRO). The last replaces the all-reduce by its two halves.
# - **Sending less**: gradients in 16 bits, or only the largest ones; it changes the result.
# - **Not waiting**: asynchronous training, where steps use old gradients.
# - **Ranks that come and go**, and machines that fail. Here a failed rank ends the job, and `--resume` goes on from a
#   checkpoint.
# - **Statistics of a batch**, as batch normalization needs them, which are another thing to all-reduce. Layer norm (lesson 12)
#   looks at one position only and needs nothing.
#
# ## Sources
#
# - Patarasuk and Yuan 2009, *Bandwidth optimal all-reduce algorithms for clusters of workstations*, Journal of Parallel and
#   Distributed Computing 69(2): the ring, and that no way sends less.
# - Thakur, Rabenseifner and Gropp 2005, *Optimization of collective communication operations in MPICH*, International
#   Journal of High Performance Computing Applications 19(1): the cost model, and when to use which algorithm.
# - Message Passing Interface Forum 2021, *MPI: A Message-Passing Interface Standard*, version 4.0, chapter 6.
# - Sergeev and Del Balso 2018, *Horovod*, arXiv:1802.05799: the ring in deep learning.
# - Li et al. 2020, *PyTorch Distributed: Experiences on Accelerating Data Parallel Training*, arXiv:2006.15704.
# - Goyal et al. 2017, *Accurate, Large Minibatch SGD: Training ImageNet in 1 Hour*, arXiv:1706.02677.
# - Goldberg 1991, *What every computer scientist should know about floating-point arithmetic*, ACM Computing Surveys 23(1).
# - Rajbhandari et al. 2020, *ZeRO*, arXiv:1910.02054.
#
# ## Exercises
#
# You will share a batch (`shard`), weigh gradients (`combine_gradients`), write both halves of the ring (`ring_reduce_scatter`,
# `ring_all_gather`) and the whole (`all_reduce`), its cost beside a tree's (`all_reduce_seconds`), and buckets
# (`reduce_in_buckets`). All ranks are simulated: NumPy is all you need.
#
#     python -m tutorials start 19
