# %% [markdown]
# # 07 · Recurrence, and what it forgets
#
# *Reading: 45 minutes. Exercises: 60 minutes. Needs: lessons 03, 04, 06.*
#
# Before 2017 nearly every network that read text was recurrent: it read one word after another and kept what
# it knew in one vector. What exactly was wrong with that, and why was something better needed?
#
# **You will be able to:**
#
# - write an RNN (recurrent neural network) and an LSTM (long short-term memory), forward and backward through
#   time, and check both;
# - say when gradients vanish or explode, and measure it;
# - name the three problems of recurrence: path length, sequential time, and the bottleneck;
# - explain what attention changes about each of them.
#
# Words you do not know are in the [glossary](../../docs/glossary.md).

# %%
import time

import numpy as np
from matplotlib.figure import Figure

import minigrad as mg
from minigrad import nn, optim
from minigrad.gradcheck import gradcheck
from minigrad.nn.utils import clip_grad_norm_
from models.recipes import recall
from tutorials import figures, show

np.set_printoptions(precision=4, suppress=True)

# %% [markdown]
# ## Intuition: reading with one index card
#
# You read a long letter, and you may keep notes on one index card. After each word you rewrite the card: a
# little of what was on it, a little of the new word. At the end, the card is all you have.
#
# That is a recurrent network. The card is the **hidden state**, a vector of fixed size. The rule for
# rewriting it is the same at each word, so the network has the same few parameters for letters of any length.
# It is a beautiful idea with three weaknesses that you can see already:
#
# 1. What you noted about the first word has been rewritten once for every word since. Little of it may be
#    left.
# 2. Word 100 cannot be read before word 99. A hundred readers would not be faster than one.
# 3. The card does not grow with the letter.

# %% [markdown]
# ## Definition
#
# A recurrent network (RNN) maps a sequence of inputs $x_1, \dots, x_T$, vectors of size $D$, to a sequence of
# states $h_1, \dots, h_T$, vectors of size $H$ (Elman 1990):
#
# $$a_t = W_x x_t + W_h h_{t-1} + b, \qquad h_t = \tanh(a_t)$$
#
# | symbol | shape | meaning |
# | --- | --- | --- |
# | $x_t$ | $D$ | the input at step $t$ |
# | $h_t$ | $H$ | the state after step $t$; $h_0$ is given, usually 0 |
# | $W_x$ | $H \times D$ | the weights of the input: what is noted on the card |
# | $W_h$ | $H \times H$ | the weights of the old state: what is kept of the card |
# | $b$ | $H$ | a bias |
#
# $W_x$, $W_h$ and $b$ are the same at every step. In code, a batch of $B$ sequences is read at once, so $x$
# has shape $(T, B, D)$ and a state $(B, H)$. Each row belongs to one sequence, and $W_h h$ becomes
# `h @ W_h.T` (lesson 03).

# %%


def rnn_forward(x, h0, W_x, W_h, b):
    """x (T, B, D), h0 (B, H) -> all states (T, B, H)."""
    h, states = h0, []
    for x_t in x:
        h = np.tanh(x_t @ W_x.T + h @ W_h.T + b)
        states.append(h)
    return np.stack(states)


rng = np.random.default_rng(0)
T, B, D, H = 5, 2, 3, 4
x, h0 = rng.standard_normal((T, B, D)), np.zeros((B, H))
W_x, W_h, b = rng.standard_normal((H, D)) / 2, rng.standard_normal((H, H)) / 2, np.zeros(H)
states = rnn_forward(x, h0, W_x, W_h, b)
print("states", states.shape, "\nlast state of the first sequence:", states[-1, 0])

# %% [markdown]
# ## A worked example by hand
#
# Take a state and an input of size 1: $h_t = \tanh(x_t + 0.5 h_{t-1})$ with $h_0 = 0$. The first input is 1,
# the next two are 0. How much of the 1 is left after three steps, and how does the last state depend on it?
#
# **Forward.** $h_1 = \tanh(1) = 0.7616$, $h_2 = \tanh(0.5 \cdot 0.7616) = 0.3634$,
# $h_3 = \tanh(0.5 \cdot 0.3634) = 0.1797$.
#
# **Backward.** Let the loss be $h_3$. The derivative of $\tanh(a)$ is $1 - h^2$.
#
# - $da_3 = 1 - h_3^2 = 0.9677$.
# - $dh_2 = 0.5 \cdot 0.9677 = 0.4838$, then $da_2 = 0.4838 (1 - 0.3634^2) = 0.4838 \cdot 0.8679 = 0.4200$.
# - $dh_1 = 0.5 \cdot 0.4200 = 0.2100$, then $da_1 = 0.2100 (1 - 0.7616^2) = 0.2100 \cdot 0.4200 = 0.0882$.
#
# $x_1$ enters $a_1$ with factor 1, so $dx_1 = 0.0882$, while $dx_3 = 0.9677$: two steps back, the gradient is
# eleven times smaller. The weight $w = 0.5$ was used at each step, so its gradient is a sum:
# $da_3 h_2 + da_2 h_1 + da_1 h_0 = 0.3517 + 0.3198 + 0 = 0.6715$.

# %%
h1 = np.tanh(1.0)
h2 = np.tanh(0.5 * h1)
h3 = np.tanh(0.5 * h2)
da3 = 1 - h3**2
da2 = 0.5 * da3 * (1 - h2**2)
da1 = 0.5 * da2 * (1 - h1**2)
dw = da3 * h2 + da2 * h1
print("states", h1, h2, h3, "\ngradients", da1, da2, da3, "  dw", dw)
assert np.allclose([h1, h2, h3], [0.761594, 0.363399, 0.179726], atol=1e-6)
assert np.allclose([da3, da2, da1, dw], [0.967698, 0.419953, 0.088185, 0.671495], atol=1e-6)
assert 10.9 < da3 / da1 < 11

# %% [markdown]
# ## Derivation of the backward pass: through time
#
# Write out every step of the loop (*unroll* it), and an RNN is a deep network: $T$ layers with the same
# weights. So backpropagation needs no new idea, only care. Let $g_t$ be the gradient that arrives at $h_t$
# from outside, for example from a loss at step $t$. (Often only $g_T$ is not 0.) But $h_t$ is used twice:
# outside, and in the next step. By the chain rule both gradients add up:
#
# $$dh_t = g_t + W_h^\top da_{t+1}, \qquad dh_T = g_T .$$
#
# Through the tanh, element by element ($\odot$ is the elementwise product):
#
# $$da_t = dh_t \odot (1 - h_t^2) .$$
#
# $a_t$ is a sum of three terms, and each gets its gradient:
#
# $$dx_t = W_x^\top da_t, \qquad db = \sum_t da_t, \qquad dW_x = \sum_t da_t x_t^\top, \qquad
# dW_h = \sum_t da_t h_{t-1}^\top .$$
#
# The sums are there because the weights are used at every step (lesson 01: where a value is used several
# times, its gradient is the sum over the uses). After the first step one gradient remains, that of the
# initial state: $dh_0 = W_h^\top da_1$. The computation goes from the last step to the first, hence the name
# *backpropagation through time*.

# %%


def rnn_backward(g, x, h0, W_x, W_h, b):
    """The gradients of x, h0, W_x, W_h and b, given g (T, B, H), the gradient of all states."""
    states = rnn_forward(x, h0, W_x, W_h, b)
    dx, dW_x, dW_h, db = (np.zeros_like(z) for z in (x, W_x, W_h, b))
    dh = np.zeros_like(h0)  # the gradient from the next step
    for t in reversed(range(len(x))):
        before = states[t - 1] if t > 0 else h0
        da = (g[t] + dh) * (1 - states[t] ** 2)  # (B, H)
        dx[t] = da @ W_x
        dW_x += da.T @ x[t]
        dW_h += da.T @ before
        db += da.sum(axis=0)
        dh = da @ W_h
    return dx, dh, dW_x, dW_h, db


assert gradcheck((rnn_forward, rnn_backward), [x, rng.standard_normal((B, H)), W_x, W_h, b])
# a sequence of scalars, in shape (T, 1, 1)
column = lambda *numbers: np.array(numbers, float).reshape(-1, 1, 1)
one, half = np.array([[1.0]]), np.array([[0.5]])
by_hand = rnn_backward(column(0, 0, 1), column(1, 0, 0), np.zeros((1, 1)), one, half, np.zeros(1))
print("the worked example again: dx =", by_hand[0].ravel(), " dW_h =", by_hand[3].ravel())
assert np.allclose(by_hand[0].ravel(), [da1, da2, da3]) and np.allclose(by_hand[3], dw)

# %% [markdown]
# ## What happens to a gradient on its way back
#
# Let only the last step have a loss. On the way from there to step $t$ the gradient is multiplied by a matrix
# $T - t$ times:
#
# $$dh_t = \left( \prod_{s=t+1}^{T} W_h^\top \text{diag}(1 - h_s^2) \right) g_T .$$
#
# A product of many similar factors behaves like a power, and powers go to 0 or to infinity. In one dimension,
# $0.9^{100} = 0.0000266$ and $1.1^{100} = 13781$. For a matrix, its **spectral radius** $\rho$ decides in the
# long run. This is the largest absolute value of its eigenvalues (an eigenvector is only scaled by the
# matrix, and the eigenvalue is the factor): $\lVert W^n \rVert$ grows like $\rho^n$. The factors $1 - h_s^2$
# are at most 1, so a tanh can only shorten the gradient.
#
# - The largest *singular* value of $W_h$ is the most by which one step can lengthen a vector. If it is below
#   1, gradients are certain to vanish: each step shortens them.
# - Gradients can explode only if the largest singular value is above 1. (Pascanu, Mikolov & Bengio 2013,
#   section 2.1.)
#
# Now measure it. $W_h$ is random and scaled to a given $\rho$, the inputs are small, and the gradient starts
# with length 1 at the last step.

# %%


def reach(rho, bend=np.tanh, T=100, H=64, seed=1):
    """Length of the gradient at each distance back from the last state, for a W_h of spectral radius rho."""
    rng = np.random.default_rng(seed)
    W_h = rng.standard_normal((H, H))
    W_h *= rho / abs(np.linalg.eigvals(W_h)).max()
    h, slopes, dh, lengths = np.zeros(H), [], rng.standard_normal(H), []
    for _ in range(T):
        h = bend(0.1 * rng.standard_normal(H) + W_h @ h)
        slopes.append(1 - h**2 if bend is np.tanh else 1.0)
    for slope in reversed(slopes):
        lengths.append(np.linalg.norm(dh))
        dh = W_h.T @ (dh * slope)
    return np.array(lengths) / lengths[0]


radii = (0.5, 0.9, 1.0, 1.1, 2.0, 3.0)
found = {
    "without the tanh": {rho: reach(rho, bend=lambda a: a) for rho in radii},
    "with the tanh": {rho: reach(rho) for rho in radii},
}
for name, lengths in found.items():
    for rho, by_distance in lengths.items():
        print(
            f"{name}, rho {rho}: gradient 10, 50, 99 steps back:",
            *(f"{by_distance[d]:9.1e}" for d in (10, 50, 99)),
        )

# %%
linear, bent = found.values()
print(f"0.9^100 = {0.9**100:.3e}, 1.1^100 = {1.1**100:.0f}")
assert abs(0.9**100 - 2.66e-5) < 1e-7 and round(1.1**100) == 13781
assert linear[0.9][99] < 1e-4 and linear[1.1][99] > 1e3 and bent[0.9][99] < 1e-5 and bent[3.0][99] > 1e6
assert all(bent[rho][99] < linear[rho][99] for rho in radii)

figure = Figure(figsize=(7, 3.8), layout="constrained")
figure.suptitle("On its way back through time a gradient vanishes or explodes", fontsize=12)
for axes, (name, lengths) in zip(figure.subplots(1, 2, sharey=True), found.items(), strict=True):
    for (rho, by_distance), style in zip(lengths.items(), ("-", "--", "-.", ":", "-", "--"), strict=True):
        axes.plot(by_distance, linestyle=style, label=rf"$\rho = {rho}$")
    axes.set_title(name, fontsize=10)
    axes.set(yscale="log", ylim=(1e-32, 1e32), xlabel="steps back from the last state")
    axes.grid(alpha=0.3)
figure.axes[0].set_ylabel("length of the gradient (1 at the last state)")
figure.axes[1].legend(fontsize=8, ncols=2, loc="upper left")
show(
    figure,
    "Length of the gradient against the number of steps back, for state matrices of six spectral radii",
)

# %% [markdown]
# Without the tanh you see the powers. With the tanh all lines lie lower: it makes gradients vanish faster,
# and delays explosion ($\rho = 1.1$ no longer explodes, $\rho = 3$ does).
#
# A vanished gradient does not mean that training stops. It means that the network learns from nearby inputs,
# and nothing from distant ones: the sum $dW_h$ has terms for all distances, and the distant terms are too
# small to matter. You do not see this in the loss.
#
# You do see an exploding gradient: one step ruins the weights. There is a blunt remedy, **clipping**: if the
# gradient of all parameters together is longer than $c$, shorten it to length $c$ (Pascanu et al. 2013,
# algorithm 1). Its direction stays.
#
# $$g \leftarrow g \cdot \min\left(1, \frac{c}{\lVert g \rVert}\right)$$
#
# where $\lVert g \rVert^2$ is the sum of $g_i^2$ over all parameters.
#
# For vanishing there is no such remedy. You cannot scale up what has been rounded away, and you would not
# know the factor.

# %%


def clip(gradients, longest):
    length = np.sqrt(sum((g**2).sum() for g in gradients))
    return [g * min(1.0, longest / length) for g in gradients], length


clipped, length = clip([np.array([3.0, 0.0]), np.array([[4.0]])], 1.0)
parameters = [nn.Parameter(np.zeros(2)), nn.Parameter(np.zeros((1, 1)))]
for p, g in zip(parameters, ([3.0, 0.0], [[4.0]]), strict=True):
    p.grad = mg.tensor(g)
clip_grad_norm_(parameters, 1.0)
print("length", length, " clipped", *clipped, " minigrad's", *(p.grad.data for p in parameters))
assert length == 5 and np.allclose(clipped[0], [0.6, 0]) and np.allclose(clipped[1], 0.8)
assert all(np.allclose(p.grad.data, c, atol=1e-5) for p, c in zip(parameters, clipped, strict=True))

# %% [markdown]
# ## The LSTM: a card that is added to
#
# The long short-term memory (Hochreiter & Schmidhuber 1997; forget gate: Gers et al. 2000) keeps a second
# state, the **cell** $c_t$. From step to step the cell is not multiplied by a matrix. Each element is
# multiplied by a factor of its own, and then something is added:
#
# $$c_t = f_t \odot c_{t-1} + i_t \odot g_t, \qquad h_t = o_t \odot \tanh(c_t)$$
#
# with three **gates** (factors between 0 and 1) and a proposal between $-1$ and 1. Each is computed like a
# step of an RNN, with matrices of its own:
#
# $$i_t, f_t, o_t = \sigma(W_x x_t + W_h h_{t-1} + b), \qquad g_t = \tanh(W_x x_t + W_h h_{t-1} + b)$$
#
# where $\sigma(a) = 1 / (1 + e^{-a})$ is the sigmoid. $f$ (forget) is how much of the cell is kept, $i$
# (input) how much of the proposal $g$ is added, $o$ (output) how much of the cell is shown in $h_t$. In code
# the four blocks are stacked in one matrix of $4H$ rows, in PyTorch's order $i, f, g, o$.
#
# What is this good for? Follow the gradient along the cells alone: $\partial c_t / \partial c_{t-1} = f_t$.
# If the network learns to keep $f$ near 1, the gradient on that path neither vanishes nor explodes, however
# long the path is. It must be very near: $0.99^{100} = 0.37$, but $0.73^{100} = 2 \cdot 10^{-14}$, and
# $\sigma(1) = 0.73$ is what a forget bias of 1 gives before training.

# %%


def sigmoid(a):
    return 0.5 * (1 + np.tanh(0.5 * a))  # never overflows


def lstm_step(x, h, c, W_x, W_h, b):
    """x (B, D), h and c (B, H), W_x (4H, D), W_h (4H, H), b (4H,) -> h, c and the gates."""
    i, f, g, o = np.split(x @ W_x.T + h @ W_h.T + b, 4, axis=-1)  # (B, H) each
    i, f, g, o = sigmoid(i), sigmoid(f), np.tanh(g), sigmoid(o)
    c = f * c + i * g
    return o * np.tanh(c), c, (i, f, g, o)


def lstm_forward(x, h, c, W_x, W_h, b):
    """x (T, B, D) -> all h (T, B, H)."""
    states = []
    for x_t in x:
        h, c, _ = lstm_step(x_t, h, c, W_x, W_h, b)
        states.append(h)
    return np.stack(states)


print(
    f"0.99^100 = {0.99**100:.2f}, sigmoid(1) = {sigmoid(1.0):.3f}, sigmoid(1)^100 = {sigmoid(1.0) ** 100:.1e}"
)
assert (
    abs(0.99**100 - 0.37) < 0.005 and abs(sigmoid(1.0) - 0.731) < 1e-3 and 2e-14 < sigmoid(1.0) ** 100 < 3e-14
)

# %% [markdown]
# ### Its backward pass
#
# One step, from the gradients $dh_t$ and $dc_t$ that arrive at the new state and the new cell:
#
# - $h_t = o \odot \tanh(c_t)$ gives $do = dh_t \odot \tanh(c_t)$, and adds
#   $dh_t \odot o \odot (1 - \tanh^2 c_t)$ to $dc_t$.
# - $c_t = f \odot c_{t-1} + i \odot g$ gives $df = dc_t \odot c_{t-1}$, $di = dc_t \odot g$,
#   $dg = dc_t \odot i$, and for the step before $dc_{t-1} = dc_t \odot f$. There is no matrix on this path:
#   the LSTM was invented for this line.
# - The sigmoids ($\sigma' = \sigma(1 - \sigma)$) and the tanh give the gradients of the four blocks of $a$.
#   The rest is as in the RNN.

# %%


def lstm_backward(grad, x, h0, c0, W_x, W_h, b):
    cells, hs, gates = [c0], [h0], []
    for x_t in x:
        h, c, four = lstm_step(x_t, hs[-1], cells[-1], W_x, W_h, b)
        hs.append(h), cells.append(c), gates.append(four)
    dx, dW_x, dW_h, db = (np.zeros_like(z) for z in (x, W_x, W_h, b))
    dh, dc = np.zeros_like(h0), np.zeros_like(c0)
    for t in reversed(range(len(x))):
        (i, f, g, o), shown = gates[t], np.tanh(cells[t + 1])
        dh = dh + grad[t]
        dc = dc + dh * o * (1 - shown**2)
        di, df, dg, do = dc * g, dc * cells[t], dc * i, dh * shown
        da = np.concatenate([di * i * (1 - i), df * f * (1 - f), dg * (1 - g**2), do * o * (1 - o)], axis=-1)
        dx[t], dh, dc = da @ W_x, da @ W_h, dc * f
        dW_x += da.T @ x[t]
        dW_h += da.T @ hs[t]
        db += da.sum(axis=0)
    return dx, dh, dc, dW_x, dW_h, db


inputs = [rng.standard_normal(s) for s in ((T, B, D), (B, H), (B, H), (4 * H, D), (4 * H, H), (4 * H,))]
assert gradcheck((lstm_forward, lstm_backward), inputs)
print("the LSTM's backward pass is right for all six inputs")

# %% [markdown]
# ### The same in minigrad
#
# `nn.RNN`, `nn.LSTM` and `nn.GRU` in `minigrad/nn/recurrent.py` have PyTorch's names and weights; the loops
# over time are in `minigrad/functional/recurrent.py` (written to be read) and `minigrad/kernels/recurrent.py`
# (the derivation above, fused). The GRU (gated recurrent unit, Cho et al. 2014) is a simpler variant of the
# LSTM with two gates and no separate cell.

# %%
x, h0, c0 = inputs[:3]
lstm = nn.LSTM(D, H).double()
ours = lstm_forward(
    x, h0, c0, lstm.weight_ih_l0.data, lstm.weight_hh_l0.data, (lstm.bias_ih_l0 + lstm.bias_hh_l0).data
)
theirs, _ = lstm(mg.tensor(x), (mg.tensor(h0[None]), mg.tensor(c0[None])))
rnn = nn.RNN(D, H).double()
states = rnn_forward(
    x, h0, rnn.weight_ih_l0.data, rnn.weight_hh_l0.data, (rnn.bias_ih_l0 + rnn.bias_hh_l0).data
)
print(
    "largest differences:",
    abs(theirs.data - ours).max(),
    abs(rnn(mg.tensor(x), mg.tensor(h0[None]))[0].data - states).max(),
)
assert np.allclose(theirs.data, ours, atol=1e-14) and np.allclose(
    rnn(mg.tensor(x), mg.tensor(h0[None]))[0].data, states, atol=1e-14
)

# %% [markdown]
# ## Problem 1: the path is long
#
# Here is a measurement on real layers of width 64, before any training: how strongly does the last output
# depend on an input $d$ steps before it?

# %%
figure, found = figures.drawn(figures.gradient_by_distance)
for name, ratio in found.items():
    print(f"{name:9} gradient 1, 10, 50, 100 steps back:", *(f"{ratio[d]:9.1e}" for d in (1, 10, 50, 100)))
assert found["RNN"][100] < 1e-20 < found["LSTM"][100] < 1e-6 < found["attention"][100]
show(figure, "Distant inputs fade in an RNN, more slowly in an LSTM; attention reaches all of them equally")

# %% [markdown]
# The RNN's line is straight on a logarithmic scale: a power. The LSTM's line is straight too, but less steep,
# because untrained gates leak. The line of attention is flat from the first step on. (At distance 0 it is
# higher, because the last token also reaches its own output directly, through the residual connection of
# lesson 12. All others are averaged over 101 positions.)
#
# The difference is the **path length**: the number of steps that a signal needs to get from one position to
# another. From token 1 to token 20 an RNN needs 19 steps, a layer of attention one. The next cell counts:
# `reads[i, j]` says whether position $i$ reads position $j$ in one step, and the function counts the steps
# until the signal has arrived.

# %%


def path_length(reads, start, end):
    """Count the steps until `end` knows of `start`. In a step, a position learns what those it reads know."""
    knows, steps = np.arange(len(reads)) == start, 0
    while not knows[end]:
        heard = knows | (reads & knows).any(axis=1)
        if (heard == knows).all():
            return None  # no new position knows of it: it will never arrive
        knows, steps = heard, steps + 1
    return steps


n = 20
rnn_reads = np.eye(n, k=-1, dtype=bool)  # position i reads position i - 1
attention_reads = np.ones((n, n), bool)
window = np.tri(n, dtype=bool) & ~np.tri(n, k=-3, dtype=bool)  # a convolution over the last 3 positions
for name, reads in (("RNN", rnn_reads), ("attention", attention_reads), ("convolution of width 3", window)):
    print(
        f"{name:23} from token 1 to token 20: {path_length(reads, 0, 19)} step(s);  back: "
        f"{path_length(reads, 19, 0)}"
    )
assert (
    path_length(rnn_reads, 0, 19) == 19
    and path_length(attention_reads, 0, 19) == 1
    and path_length(window, 0, 19) == 10
)

# %% [markdown]
# ### Does path length matter for learning?
#
# In the recipe `recall`, two pairs of a key and a value come first (`c7 a3`), then noise, then one of the
# keys (`c?`). The question is: which value belongs to that key? An RNN, an LSTM, a GRU and a Transformer
# layer learn it side by side, with the same steps on the same questions, at distances from 2 to 32. The full
# run, `python -m minigrad.train recall`, takes two minutes; here is a small one.

# %%
mg.manual_seed(0)
recipe = recall.Recall(dict(d_model=32, distance=32))
model = recipe.model()
untrained = recipe.by_distance(lambda d: recipe.gradient(model, d))
optimizer = optim.Adam(model.parameters(), lr=6e-3)
for step in range(500):
    optimizer.zero_grad()
    recipe.loss(model, recipe.batch(step)).backward()
    recipe.clip(model, 1.0)
    optimizer.step()
accuracy = recipe.by_distance(lambda d: recipe.accuracy(model, d, 400))
print(
    "after 500 steps, correct answers at distance",
    *(f"{d:5}" for d in recipe.distances),
    "   (chance: 0.125)",
)
for name, shares in accuracy.items():
    print(f"{name:43}", *(f"{share:6.2f}"[1:] for share in shares.values()))
print("\nbefore training, gradient at the pair / at the question, distance 32:")
print(*(f"{name} {ratio[32]:.0e}" for name, ratio in untrained.items()), sep=", ")
assert (
    accuracy["transformer"][32] > 0.9
    and accuracy["rnn"][32] < 0.3
    and untrained["rnn"][32] < 1e-6 * untrained["transformer"][32]
)

# %% [markdown]
# The plain RNN answers no better than chance. The LSTM and the GRU are improving; the Transformer has learned
# it. Their gradients before training come in the same order, and the first step has nothing else to learn
# from.
#
# Be careful what you conclude. This is one task and 500 steps, and it does not show that an RNN *cannot* hold
# a pair in its state. At distance 2 alone the same RNN learns the task, and it becomes harder as the distance
# grows:

# %%
for distance in (2, 4, 6):
    mg.manual_seed(0)
    recipe = recall.Recall(dict(d_model=32, distance=distance, model="rnn"))
    model = recipe.model()
    optimizer = optim.Adam(model.parameters(), lr=6e-3)
    for step in range(600):
        optimizer.zero_grad()
        recipe.loss(model, recipe.batch(step)).backward()
        recipe.clip(model, 1.0)
        optimizer.step()
    share = recipe.accuracy(model, distance, 400)["rnn"]
    print(f"RNN alone, distances from 2 to {distance}, 600 steps: {share:.2f} correct at distance {distance}")
    assert share > 0.9 or distance > 2

# %% [markdown]
# ## Problem 2: one step after another
#
# $h_t$ needs $h_{t-1}$. So a sequence of $T$ tokens takes $T$ steps that cannot run at the same time, however
# many processors you have. There are not more multiplications than elsewhere, but they come in small
# portions. Attention has a single portion: it compares every position with every other in one matrix product
# (Vaswani et al. 2017, table 1: $O(n)$ sequential operations for recurrence, $O(1)$ for attention).
#
# The next cell runs the same number of multiplications on this machine, once in a chain and once as a single
# product:

# %%
T_long, H_wide = 2000, 64
W, h, rows = np.eye(H_wide), np.ones(H_wide), np.ones((T_long, H_wide))


def seconds(action):
    times = []
    for _ in range(5):
        start = time.perf_counter()
        action()
        times.append(time.perf_counter() - start)
    return min(times)


def chain(h=h):
    for _ in range(T_long):
        h = W @ h
    return h


one_by_one, at_once = seconds(chain), seconds(lambda: rows @ W.T)
print(
    f"{T_long} x {H_wide} x {H_wide} multiplications: in a chain {one_by_one * 1e3:.2f} ms, at once "
    f"{at_once * 1e3:.2f} ms"
)

# %% [markdown]
# (The times are from this machine, with one core. Hardware built for parallel work gains more. Vaswani et al.
# 2017 name this constraint in their first section, before any word on gradients: training has to be finished
# some day.)
#
# ## Problem 3: the bottleneck
#
# Translation was done with two RNNs: an **encoder** reads the source sentence, and a **decoder** writes the
# target sentence starting from the encoder's last state (Sutskever et al. 2014; Cho et al. 2014). Everything
# the decoder knows about the source, for 5 words or for 50, has gone through this one vector.
#
# How much fits through? Take the simplest encoder, a linear one, with the best possible matrix: $n$ tokens,
# each a vector of 16 random elements, go through a state of size 64 and are rebuilt from it. Four tokens fit
# exactly. Of more than four, a fraction of $1 - 64 / (16 n)$ is lost, whatever the matrix.

# %%
rng = np.random.default_rng(2)
print("tokens      fraction lost      1 - 64/(16 n)")
for n_tokens in (2, 4, 8, 16, 32):
    sentences = rng.standard_normal((3000, 16 * n_tokens))
    encode = np.linalg.qr(rng.standard_normal((16 * n_tokens, min(64, 16 * n_tokens))))[0]  # to size 64
    rebuilt = sentences @ encode @ encode.T  # the best reconstruction
    lost, expected = (
        ((sentences - rebuilt) ** 2).mean() / (sentences**2).mean(),
        max(0, 1 - 64 / (16 * n_tokens)),
    )
    print(f"{n_tokens:6} {lost:18.3f} {expected:18.3f}")
    assert abs(lost - expected) < 0.02

# %% [markdown]
# Nonlinear networks and real sentences do better. But translation systems had the same curve: quality fell as
# sentences grew longer (Bahdanau et al. 2015, figure 2).
#
# ## The remedy: look back
#
# Bahdanau, Cho & Bengio (2015) keep *all* the encoder's states $h_1, \dots, h_m$, not only the last. Before
# each word, the decoder compares its own state $s$ with each of them. A softmax (lesson 05) makes weights
# that sum to 1 from these scores, and the weighted mean of the states is the **context**:
#
# $$e_j = v^\top \tanh(W s + U h_j), \qquad \alpha = \text{softmax}(e), \qquad
# \text{context} = \sum_j \alpha_j h_j$$
#
# (Their equations 5 and 6 and appendix A.1.2; `models/recurrent.py` has it as `AdditiveAttention`.) This is
# **attention**. It removes the bottleneck, because the decoder reads as many states as the source has words.
# It shortens the path, because word $j$ of the source is one step from every word of the target. And you can
# plot the weights.

# %%
m, H_s, A = 6, 4, 5
memory, s = rng.standard_normal((m, H_s)), rng.standard_normal(H_s)
W_a, U_a, v_a = rng.standard_normal((A, H_s)), rng.standard_normal((A, H_s)), rng.standard_normal(A)
e = np.tanh(W_a @ s + memory @ U_a.T) @ v_a  # (m,)
alpha = np.exp(e - e.max()) / np.exp(e - e.max()).sum()
context = alpha @ memory
print("weights over the source", alpha, "sum", alpha.sum(), "\ncontext", context)
assert abs(alpha.sum() - 1) < 1e-12 and context.shape == (H_s,)

# %% [markdown]
# Two of the three problems are gone. The other, one step after another, remains as long as an RNN computes
# the states. The paper of 2017 asks the obvious question: if every position can attend to every other, what
# is the recurrence for? Its title is the answer: *Attention Is All You Need*. Lesson 08 builds that
# attention.

# %% [markdown]
# ## Gradient check
#
# The backward passes of the RNN and the LSTM were checked above. Here are two common mistakes, and what the
# check reports. First: the gradient from the next step is forgotten, so each step learns from its own loss
# alone. Second: `dW_x` is assigned in the loop instead of accumulated.

# %%


def forgets_the_future(g, x, h0, W_x, W_h, b):
    states = rnn_forward(x, h0, W_x, W_h, b)
    da = g * (1 - states**2)  # no dh from t + 1
    before = np.concatenate([h0[None], states[:-1]])
    return (
        da @ W_x,
        da[0] @ W_h,
        np.einsum("tbh,tbi->hi", da, x),
        np.einsum("tbh,tbk->hk", da, before),
        da.sum((0, 1)),
    )


def assigns(g, x, h0, W_x, W_h, b):
    dx, dh0, dW_x, dW_h, db = rnn_backward(g, x, h0, W_x, W_h, b)
    # the dh that arrives at step 1
    later = rnn_backward(g[1:], x[1:], rnn_forward(x[:1], h0, W_x, W_h, b)[0], W_x, W_h, b)[1]
    last_turn = rnn_backward(g[:1] + later, x[:1], h0, W_x, W_h, b)  # the loop ends at the first step
    return dx, dh0, last_turn[2], dW_h, db  # "dW_x =" instead of "+=": only the last iteration is left


arguments = [x, h0, W_x, W_h, b]
for wrong in (forgets_the_future, assigns):
    try:
        gradcheck((rnn_forward, wrong), arguments)
        raise RuntimeError("a wrong backward was accepted")
    except AssertionError as error:
        print(wrong.__name__, "->", str(error).split("\n")[0][:150])

# %% [markdown]
# ## Edge cases
#
# - **One step**: the RNN is a layer with a tanh.
# - **$W_h = 0$**: no memory; each state depends on its own input alone.
# - **An orthogonal $W_h$ and no tanh**: each step rotates or reflects the gradient and keeps its length.
#   Nothing vanishes or explodes. It is a good *initialization*, but training moves away from it.
# - **Spectral radius below 1, norm above**: gradients may grow for some steps before they vanish (question
#   6).
# - **Padded sequences** (short ones filled up to a common length): the state must stop at the last real
#   token, or the padding rewrites the card. minigrad's layers take `lengths` for this.

# %%
one = rnn_forward(x[:1], h0, W_x, W_h, b)
assert np.allclose(one[0], np.tanh(x[0] @ W_x.T + h0 @ W_h.T + b))
blind = rnn_backward(np.ones((T, B, H)) * (np.arange(T) == T - 1)[:, None, None], x, h0, W_x, 0 * W_h, b)[0]
assert (blind[:-1] == 0).all() and (blind[-1] != 0).any()

turn = np.linalg.qr(np.random.default_rng(3).standard_normal((64, 64)))[0]
g = np.ones(64)
for _ in range(1000):
    g = turn.T @ g
print("length of a gradient after 1000 orthogonal steps, from 8:", np.linalg.norm(g))
assert abs(np.linalg.norm(g) - 8) < 1e-9

padded, lengths_given = np.concatenate([x, 9 * np.ones((3, B, D))]), np.array([T, T])
_, last = rnn(mg.tensor(padded), lengths=lengths_given)
_, alone = rnn(mg.tensor(x))
assert np.allclose(last.data, alone.data) and not np.allclose(rnn(mg.tensor(padded))[1].data, alone.data)

# %% [markdown]
# ## Pitfalls
#
# **`=` instead of `+=`.** The weights are used at every step, so their gradient is a sum over time. The check
# above finds the mistake; a training run may not show it for a long time.
#
# **The wrong neighbour.** $dW_h$ multiplies $da_t$ by $h_{t-1}$, not by $h_t$, and at the first step by
# $h_0$. The shapes fit either way. In NumPy `states[t - 1]` for $t = 0$ is `states[-1]`, the *last* state,
# without an error.
#
# **Clipping each element instead of the length.** `np.clip(g, -1, 1)` changes the direction: see question 5.
# Clipping each layer separately changes it too.
#
# **Clipping against vanishing.** Clipping only shortens a gradient, so it does not help there.
#
# **Order of the gates.** PyTorch (and minigrad) stack $i, f, g, o$; TensorFlow's Keras stacks $i, f, c, o$,
# which is the same order under another name; some papers write $f, i, o, g$. Weights loaded in the wrong
# order raise no error.
#
# **Training on a long text in pieces.** You may carry the last state into the next piece of text, but not its
# *history*: the backward pass would go through the piece before again. Cut with `.detach()`. Gradients then
# end at the cut: this is *truncated* backpropagation through time.

# %%
layer = nn.RNN(2, 3)
state = None
pieces = mg.randn(2, 4, 1, 2)
try:
    for piece in pieces:
        out, state = layer(piece, state)
        out.sum().backward()
except RuntimeError as error:
    print("without detach:", str(error)[:90], "...")
state = None
for piece in pieces:
    out, state = layer(piece, None if state is None else state.detach())
    out.sum().backward()
print("with detach: fine")

# %% [markdown]
# ## Practice questions
#
# ### Q1. In $h_t = 0.8 h_{t-1} + x_t$ (no tanh), how strongly does $h_{10}$ depend on $x_1$?
#
# <details><summary>Answer</summary>
#
# There are nine steps between them, and each multiplies by 0.8: $0.8^9 = 0.134$.
#
# </details>

# %%
# Q1, recomputed
x1 = np.zeros(10)
x1[0] = 1.0
h = 0.0
for value in x1:
    h = 0.8 * h + value
print(h)
assert abs(h - 0.8**9) < 1e-15 and abs(h - 0.134) < 5e-4

# %% [markdown]
# ### Q2. How many parameters does an RNN with $D = 3$ and $H = 4$ have? An LSTM? Does sequence length matter?
#
# <details><summary>Answer</summary>
#
# RNN: $4 \cdot 3 + 4 \cdot 4 + 4 = 32$. LSTM: four times that, $128$. The length does not matter, because
# every step uses the same weights. PyTorch's layers, and ours, have two biases where one would be enough, so
# they have 36 and 144 parameters.
#
# </details>

# %%
# Q2, recomputed
count = {cell.__name__: sum(p.numel() for p in cell(3, 4).parameters()) for cell in (nn.RNN, nn.LSTM)}
print(count)
assert (
    4 * 3 + 4 * 4 + 4 == 32
    and 4 * 32 == 128
    and count == {"RNN": 32 + 4, "LSTM": 4 * (32 + 4)} == {"RNN": 36, "LSTM": 144}
)

# %% [markdown]
# ### Q3. Each step back multiplies the gradient by 0.9. After how many steps is it below a millionth?
#
# <details><summary>Answer</summary>
#
# $0.9^n < 10^{-6}$ means $n > \ln 10^{-6} / \ln 0.9 = 131.1$, so after 132 steps. With a factor of 0.5,
# after 20.
#
# </details>

# %%
# Q3, recomputed
print(np.log(1e-6) / np.log(0.9), np.log(1e-6) / np.log(0.5))
assert 0.9**132 < 1e-6 < 0.9**131 and 0.5**20 < 1e-6 < 0.5**19

# %% [markdown]
# ### Q4. Which forget gate keeps half of the cell's gradient over 100 steps? With which bias (all else 0)?
#
# <details><summary>Answer</summary>
#
# $f^{100} = 0.5$ gives $f = 0.5^{1/100} = 0.9931$. The inverse of the sigmoid gives the bias:
# $\ln \frac{f}{1 - f} = 4.97$. A forget bias of 1, the usual initial value, gives 0.731: half of the gradient
# is gone after $\ln 0.5 / \ln 0.731 = 2.2$ steps.
#
# </details>

# %%
# Q4, recomputed
keep = 0.5 ** (1 / 100)
print(keep, np.log(keep / (1 - keep)), np.log(0.5) / np.log(sigmoid(1.0)))
assert (
    abs(keep - 0.9931) < 5e-5
    and abs(np.log(keep / (1 - keep)) - 4.97) < 5e-3
    and abs(np.log(0.5) / np.log(sigmoid(1.0)) - 2.2) < 0.02
)

# %% [markdown]
# ### Q5. Clip $(3, 4)$ to length 1, and element by element to $\pm 1$. Which keeps the direction?
#
# <details><summary>Answer</summary>
#
# By length: $(3, 4)/5 = (0.6, 0.8)$, the same direction. By element: $(1, 1)$, at an angle of $8.1$ degrees
# to the gradient ($\cos = 7 / (5 \sqrt 2) = 0.98995$). With $(3, 400)$ it would be $44.6$ degrees.
#
# </details>

# %%
# Q5, recomputed


def angle(a, b):
    return np.degrees(np.arccos(a @ b / np.linalg.norm(a) / np.linalg.norm(b)))


g, far = np.array([3.0, 4.0]), np.array([3.0, 400.0])
print(clip([g], 1.0)[0][0], angle(g, np.clip(g, -1, 1)), angle(far, np.clip(far, -1, 1)))
assert np.allclose(clip([g], 1.0)[0][0], [0.6, 0.8]) and abs(7 / (5 * np.sqrt(2)) - 0.98995) < 1e-5
assert abs(angle(g, np.clip(g, -1, 1)) - 8.1) < 0.05 and abs(angle(far, np.clip(far, -1, 1)) - 44.6) < 0.05

# %% [markdown]
# ### Q6. $W_h = \begin{bmatrix} 0.5 & 10 \\ 0 & 0.5 \end{bmatrix}$: do gradients vanish or explode?
#
# <details><summary>Answer</summary>
#
# Both eigenvalues are 0.5, so in the long run gradients vanish: after 40 steps a factor of $7 \cdot 10^{-10}$
# is left. But one step multiplies by up to 10.02, the largest singular value, and after 5 steps a gradient
# can still be 3.1 times as long as at the start. The spectral radius predicts the end, not the steps before
# it. (Both eigenvalues belong to the same eigenvector; this is why the matrix behaves differently from its
# eigenvalues at first.)
#
# </details>

# %%
# Q6, recomputed
W = np.array([[0.5, 10.0], [0.0, 0.5]])
longest = {n: np.linalg.norm(np.linalg.matrix_power(W, n), 2) for n in (1, 5, 40)}
print(
    "eigenvalues", np.linalg.eigvals(W), " longest after n steps", {n: float(x) for n, x in longest.items()}
)
assert abs(longest[1] - 10.02) < 0.01 and abs(longest[5] - 3.1) < 0.05 and 7e-10 < longest[40] < 8e-10

# %% [markdown]
# ### Q7. Why can an LSTM still have exploding gradients, if its cell has a path with factors $f \leq 1$?
#
# <details><summary>Answer</summary>
#
# The cell is not the only path. $h_{t-1}$ enters all four blocks through $W_h$, so the gradient also takes
# the path $h_t \to a_t \to h_{t-1}$, with a matrix at each step. If $W_h$ is large enough, the gradient on
# this path explodes as in an RNN. The next cell measures the gradient of an LSTM over 50 steps, with $W_h$
# scaled to three sizes.
#
# </details>

# %%
# Q7, recomputed
rng = np.random.default_rng(5)
W4, W4x = rng.standard_normal((64, 16)), rng.standard_normal((64, 3))
x_long, g_last = (
    0.1 * rng.standard_normal((50, 1, 3)),
    (np.arange(50) == 49)[:, None, None] * np.ones((50, 1, 16)),
)
sizes = [
    np.linalg.norm(lstm_backward(g_last, x_long, *np.zeros((2, 1, 16)), 0.1 * W4x, s * W4, np.zeros(64))[1])
    for s in (0.1, 0.5, 2.0)
]
print("gradient at h_0 for W_h x 0.1, 0.5, 2:", *(f"{size:.1e}" for size in sizes))
assert sizes[0] < 1e-3 and sizes[2] > 100

# %% [markdown]
# ### Q8. Compare the information flow in an RNN and in a Transformer for a sentence of length 20.
#
# <details><summary>Answer</summary>
#
# In an RNN information goes token by token: from token 1 to token 20 in 19 steps, and its gradient back
# through 19 factors, which usually shrink it. The path length is 19. In a Transformer every token attends to
# every other directly: the path length is 1, in each layer. The RNN needs 20 steps one after another, the
# Transformer 1 per layer. The price: $20 \cdot 20 = 400$ pairs are compared, where the RNN passes on 19
# states. Lesson 16 counts the cost.
#
# </details>

# %%
# Q8, recomputed
reads = np.eye(20, k=-1, dtype=bool)
print(
    path_length(reads, 0, 19),
    path_length(np.ones((20, 20), bool), 0, 19),
    reads.sum(),
    np.ones((20, 20)).sum(),
)
assert path_length(reads, 0, 19) == 19 and path_length(np.ones((20, 20), bool), 0, 19) == 1
assert reads.sum() == 19 and 20 * 20 == 400

# %% [markdown]
# ## What was left out
#
# - **The equations of the GRU**: in `minigrad/functional/recurrent.py`, with the reset gate where PyTorch has
#   it.
# - **Two directions and several layers**: `bidirectional=True`, `num_layers=`; models in
#   `models/recurrent.py`.
# - **Linear recurrences** that can be computed in parallel (state-space models): recurrence is not dead, it
#   changed. They drop the tanh between steps, because the tanh forces one step after another.
# - **Teacher forcing and decoding**: lessons 13 and 14.
#
# ## Sources
#
# - Elman 1990, *Finding Structure in Time*. Hochreiter & Schmidhuber 1997, *Long Short-Term Memory*. Gers,
#   Schmidhuber & Cummins 2000, *Learning to Forget*.
# - Pascanu, Mikolov & Bengio 2013, *On the difficulty of training recurrent neural networks*: section 2.1 on
#   the two conditions, algorithm 1 on clipping.
# - Sutskever, Vinyals & Le 2014; Cho et al. 2014: encoder-decoders. Bahdanau, Cho & Bengio 2015: attention;
#   figure 2 shows how quality falls with sentence length.
# - Vaswani et al. 2017, *Attention Is All You Need*, table 1: path lengths and sequential operations.
#
# ## Exercises
#
# `python -m tutorials start 07` gives you seven functions to write: one step of an RNN, the whole sequence,
# backpropagation through time, a step of an LSTM, clipping, the spectral radius, and path lengths, given
# which position reads which. `python -m tutorials check 07` tests them.
