# %% [markdown]
# # 12 · The blocks: feed-forward, residual, layer norm
#
# *Reading: 50 minutes. Exercises: 60 minutes. Needs: lessons 02, 03, 08, 10.*
#
# Attention is one half of a Transformer layer. What is the other half, and how are the halves connected so
# that six, twelve or a hundred layers can be trained?
#
# **You will be able to:**
#
# - write the feed-forward network and its backward pass, and say how much of a model's weights it holds
# - say what a residual connection does to the gradient, and why the gradients of two paths add up
# - derive the backward pass of layer norm, one path at a time, and recognise mistakes in it by their symptoms
# - tell post-norm from pre-norm, and measure what each does in a deep stack
# - say what RMSNorm, GELU and SwiGLU change
#
# Words you do not know are in the [glossary](../../docs/glossary.md).

# %%
import numpy as np

import minigrad as mg
from minigrad import functional as F
from minigrad import nn
from minigrad.gradcheck import GradcheckError, gradcheck
from models.blocks import EncoderLayer, FeedForward, Residual
from tutorials import figures, show
from tutorials.measurements import encoder, normal

rng = np.random.default_rng(12)
mg.manual_seed(12)
np.set_printoptions(precision=4, suppress=True)

# %% [markdown]
# ## Intuition: three parts with three jobs
#
# **Attention moves information between positions.** But for given attention weights, each output is a
# weighted mean of values, and a mean is linear. Something nonlinear has to *compute* with this information.
#
# **The feed-forward network computes at each position separately.** It is a small network of two layers, the
# same at every position. In it no position sees another. So a layer of a Transformer is: look around, then
# think.
#
# **The residual connection adds instead of replacing.** A *sublayer* is an attention or a feed-forward
# network. Its output is added to its input: $x + f(x)$. The sublayer computes only a change, and the rest of
# $x$ stays. In the backward pass, the gradient has a path around the sublayer.
#
# **The norm keeps vectors at one size.** A vector grows if you add to it a hundred times. Layer norm brings
# each position's vector back to mean 0 and variance 1, then multiplies it by learned weights and adds learned
# biases.

# %% [markdown]
# ## Definition
#
# The input is a batch of $B$ sequences of $T$ positions, each a vector of size $d_{model}$:
# $x \in \mathbb{R}^{B \times T \times d_{model}}$.
#
# **Feed-forward** (Vaswani et al. 2017, equation 2), with $d_{ff}$ usually $4 d_{model}$:
#
# $$\mathrm{FFN}(x) = \max(0, x W_1 + b_1) W_2 + b_2$$
#
# $W_1$ is $(d_{model}, d_{ff})$, $b_1$ is $(d_{ff})$, $W_2$ is $(d_{ff}, d_{model})$, $b_2$ is $(d_{model})$.
# The result has the shape of $x$.
#
# **Layer norm** (Ba, Kiros and Hinton 2016), for one position's vector $x = (x_1 \dots x_n)$,
# $n = d_{model}$:
#
# $$\mu = \frac1n \sum_j x_j, \qquad v = \frac1n \sum_j (x_j - \mu)^2$$
#
# $$\hat x_j = \frac{x_j - \mu}{\sqrt{v + \varepsilon}}, \qquad y_j = \gamma_j \hat x_j + \beta_j$$
#
# $\gamma$ and $\beta$, of size $d_{model}$ each, are learned; their initial values are ones and zeros.
# $\varepsilon = 10^{-5}$ prevents a division by 0. Implementations differ in two details, and both change the
# results: the variance divides by $n$, not $n-1$, and $\varepsilon$ is *inside* the square root.
#
# **Residual connection and norm**, in the two orders that are used, for a sublayer $f$ (attention or
# feed-forward):
#
# $$\text{post (2017):}\quad y = \mathrm{norm}(x + f(x)) \qquad\qquad
# \text{pre (today):}\quad y = x + f(\mathrm{norm}(x))$$

# %% [markdown]
# ## Worked examples by hand
#
# **Layer norm of (1, 0, 0, 0).** The mean is 1/4. The centred vector, $x$ minus its mean, is (0.75, −0.25,
# −0.25, −0.25). Its squares are 0.5625 and three times 0.0625; their mean is 0.75 / 4 = 0.1875. The square
# root of 0.18751 (with $\varepsilon$) is 0.43302. So the first element is 0.75 / 0.43302 = 1.7320, and the
# others are −0.25 / 0.43302 = −0.5773.
#
# If you divide by $n - 1 = 3$, the variance is 0.25, its root 0.5, and the first element 1.5. `np.var`
# divides by $n$, and `torch.var` by $n - 1$ by default: this is how 1.5 gets into programs.

# %%
x = np.array([1.0, 0, 0, 0])
centred = x - x.mean()
v = (centred**2).mean()
assert x.mean() == 0.25 and v == 0.1875
xhat = centred / np.sqrt(v + 1e-5)
assert np.allclose(xhat.round(4), [1.7320, -0.5773, -0.5773, -0.5773], atol=1e-9)
with_n_minus_1 = centred / np.sqrt(x.var(ddof=1) + 1e-5)
assert round(with_n_minus_1[0], 3) == 1.5
print("biased:", xhat, "  with n - 1:", with_n_minus_1)

# %% [markdown]
# **Feed-forward of x = (1, 2)**, with $d_{model} = 2$ and $d_{ff} = 3$:
#
# $$W_1 = \begin{pmatrix} 1 & -1 & 0 \\ 0 & 1 & -1 \end{pmatrix}, b_1 = (0, 0, 1), \qquad
# W_2 = \begin{pmatrix} 1 & 0 \\ 2 & 1 \\ 5 & 5 \end{pmatrix}, b_2 = (0, -3)$$
#
# $x W_1 + b_1$ = (1, −1 + 2, −2 + 1) = (1, 1, −1). The ReLU, $\max(0, a)$, sets the last element to 0: (1, 1,
# 0). Times $W_2$: (1 + 2, 0 + 1) = (3, 1). Plus $b_2$: (3, −2). With the residual connection, x + FFN(x) =
# (4, 0).
#
# The third hidden unit is 0 here (it is *off*), so the row (5, 5) of $W_2$ has no influence in the forward
# pass and gets no gradient in the backward pass.

# %%
W1, b1 = np.array([[1.0, -1, 0], [0, 1, -1]]), np.array([0.0, 0, 1])
W2, b2 = np.array([[1.0, 0], [2, 1], [5, 5]]), np.array([0.0, -3])
x = np.array([1.0, 2])
before = x @ W1 + b1
hidden = np.maximum(before, 0)
y = hidden @ W2 + b2
assert before.tolist() == [1, 1, -1] and hidden.tolist() == [1, 1, 0]
assert y.tolist() == [3, -2] and (x + y).tolist() == [4, 0]
print("before the ReLU", before, " after", hidden, " output", y, " plus x", x + y)

# %% [markdown]
# ## Derivation 1: back through the feed-forward
#
# There is nothing new here: two linear maps (lesson 03) and a ReLU. Write $a = x W_1 + b_1$, $r = \max(0, a)$
# for the hidden layer, $y = r W_2 + b_2$, and let $g$ be the gradient of the loss with respect to $y$; $dr$
# is its gradient with respect to $r$, and so on. From the last step to the first:
#
# $$dW_2 = r^\top g, \quad db_2 = \sum g, \quad dr = g W_2^\top, \quad da = dr \odot [a > 0], \quad
# dW_1 = x^\top da, \quad db_1 = \sum da, \quad dx = da W_1^\top$$
#
# $\odot$ is the elementwise product; $[a > 0]$ is 1 where $a$ is positive, else 0. The products $r^\top g$
# and the sums run over *all* positions of *all* sequences: they all used the same weights, and the gradient
# of a value that is used many times is the sum over the uses.


# %%
def rows(x):
    return x.reshape(-1, x.shape[-1])  # (B T, C)


def feed_forward(x, W1, b1, W2, b2):
    return np.maximum(x @ W1 + b1, 0) @ W2 + b2


def feed_forward_backward(g, x, W1, b1, W2, b2):
    a = x @ W1 + b1  # (B, T, d_ff)
    da = (g @ W2.T) * (a > 0)
    r = np.maximum(a, 0)
    return da @ W1.T, rows(x).T @ rows(da), rows(da).sum(0), rows(r).T @ rows(g), rows(g).sum(0)


dx, dW1, db1, dW2, db2 = feed_forward_backward(np.ones(2), x, W1, b1, W2, b2)
assert dx.tolist() == [-2, 3]
assert dW2.tolist() == [[1, 1], [1, 1], [0, 0]]  # the row of the unit that is off gets no gradient
print("dx", dx, "\ndW2\n", dW2)

# %% [markdown]
# By hand, for $g = (1, 1)$: $dr$ = (1 + 0, 2 + 1, 5 + 5) = (1, 3, 10); the mask makes it (1, 3, 0); $dx$ = (1
# − 3, 0 + 3) = (−2, 3).

# %% [markdown]
# ## Derivation 2: back through a residual connection
#
# $y = x + f(x)$ uses $x$ twice. By the rule of lesson 01 for a value that is used twice, the gradients of its
# uses add up.
#
# $$dx = \underbrace{g}_{\text{the path around}} + \underbrace{J_f^\top g}_{\text{through the sublayer}}$$
#
# ($J_f$ is the Jacobian of $f$, the matrix of all its derivatives; the backward function of $f$ returns
# $J_f^\top g$.) The first term is $g$ itself, whatever the sublayer does.
#
# Now stack $L$ of them. Without residual connections the gradient at the input is
# $J_1^\top J_2^\top \cdots J_L^\top g$: a product. If each factor halves it, after twelve 1/4096 is left.
# With residual connections it is $(I + J_1^\top)(I + J_2^\top) \cdots (I + J_L^\top) g$. Multiply this out:
# one of its terms is $g$ alone, which no layer has changed. The other $2^L - 1$ terms are the paths through
# one or more sublayers.

# %%
factors = np.full(12, 0.5)
print("product of the slopes            ", np.prod(factors))
print("with residuals, 1 + slope        ", np.prod(1 + factors))
assert np.prod(factors) == 1 / 4096
# slopes of both signs
assert np.isclose(np.prod(1 - factors[:6]) * np.prod(1 + factors[6:]), 0.178, atol=5e-4)

# %% [markdown]
# If all slopes are 0.5, the gradient grows now: 1.5 to the power 12 is 130. With six slopes of −0.5 and six
# of 0.5 the product is 0.18. Residual connections prevent vanishing; the norm, below, prevents growth.

# %%
assert round(1.5**12) == 130
x = mg.tensor(rng.standard_normal((1, 4)), requires_grad=True)
plain, residual = x, x
for _ in range(12):
    block = FeedForward(4, 16).double()
    plain, residual = block(plain), residual + block(residual)
for name, y in (("twelve feed-forwards", plain), ("the same, each with a residual", residual)):
    (g,) = mg.grad(y.sum(), [x])
    print(f"{name:31s}: largest gradient at the input {np.abs(g.data).max():.1e}")

# %% [markdown]
# ## Derivation 3: back through layer norm
#
# Take one position. $\gamma$ and $\beta$ come first, because they are easy:
# $y_j = \gamma_j \hat x_j + \beta_j$, and all positions use them, so
#
# $$d\gamma_j = \sum_{\text{positions}} g_j \hat x_j, \qquad d\beta_j = \sum_{\text{positions}} g_j, \qquad
# h_j := \frac{\partial L}{\partial \hat x_j} = g_j \gamma_j$$
#
# Now $x$. Split the forward pass into simple steps: $c = x - \mu$, then $v = \frac1n \sum c_j^2$, then
# $s = (v + \varepsilon)^{-1/2}$, then $\hat x = c s$. Go through them backwards.
#
# **Step 1, $\hat x_j = c_j s$.** Each $c_j$ gets $h_j s$ from here. Every element uses the same $s$, so its
# gradient is a sum: $ds = \sum_k h_k c_k$.
#
# **Step 2, $s = (v + \varepsilon)^{-1/2}$.** Its derivative is
# $-\frac12 (v + \varepsilon)^{-3/2} = -\frac12 s^3$. So $dv = -\frac12 s^3 \sum_k h_k c_k$.
#
# **Step 3, $v = \frac1n \sum c_j^2$.** $\partial v / \partial c_j = 2 c_j / n$. Together with step 1:
#
# $$dc_j = h_j s - \frac{s^3}{n} c_j \sum_k h_k c_k$$
#
# Replace both $c$ by $\hat x / s$, and two of the three powers of $s$ cancel:
#
# $$dc_j = s \left( h_j - \hat x_j \overline{h \hat x} \right), \qquad
# \overline{h \hat x} = \frac1n \sum_k h_k \hat x_k$$
#
# From here on a bar is the mean over the $n$ elements of the position.
#
# **Step 4, $c_j = x_j - \mu$.** $x_i$ occurs in its own $c_i$, and with factor $-\frac1n$ in every $c_j$:
# $dx_i = dc_i - \overline{dc}$. The mean of $dc$ is $s(\bar h - \overline{\hat x} \overline{h \hat x})$, and
# $\overline{\hat x} = 0$. So
#
# $$\boxed{ dx = s \left( h - \bar h - \hat x \overline{h \hat x} \right), \qquad
# s = \frac{1}{\sqrt{v + \varepsilon}} }$$


# %%
def layer_norm(x, gamma, beta, eps=1e-5):
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + eps) * gamma + beta


def layer_norm_backward(g, x, gamma, eps=1e-5):
    centred = x - x.mean(-1, keepdims=True)
    s = 1 / np.sqrt((centred**2).mean(-1, keepdims=True) + eps)
    xhat, h = centred * s, g * gamma
    dx = s * (h - h.mean(-1, keepdims=True) - xhat * (h * xhat).mean(-1, keepdims=True))
    return dx, rows(g * xhat).sum(0), rows(g).sum(0)


one = np.array([[1.0, 0, 0, 0]])
for g in ([1.0, 0, 0, 0], [0.0, 1, 0, 0]):
    print("g =", g, " dx =", layer_norm_backward(np.array([g]), one, np.ones(4))[0][0])

# %% [markdown]
# **Read the formula.** It has three terms, for the three paths from $x_i$ to the output: directly ($h$),
# through the mean ($-\bar h$), and through the variance ($-\hat x \overline{h \hat x}$).
#
# **By hand**, at x = (1, 0, 0, 0), where $\hat x$ = (1.7320, −0.5773, −0.5773, −0.5773) and $s$ = 2.3093. For
# $g$ = (0, 1, 0, 0): $\bar h$ = 0.25, and $\overline{h \hat x}$ = −0.5773 / 4 = −0.1443. The second element
# is 2.3093 · (1 − 0.25 − 0.5773 · 0.1443) = 2.3093 · 0.6667 = 1.5396. The third and fourth are 2.3093 ·
# (−0.25 − 0.0833) = −0.7698. The first is 2.3093 · (−0.25 + 0.2500) = 0.
#
# For $g$ = (1, 0, 0, 0) all of $dx$ is nearly 0. That is right: a larger first element changes nothing,
# because it is divided by a standard deviation that grows with it.
#
# In general the output does not change if you add a constant to all elements or scale them. So $dx$ has no
# component along (1, 1, ..., 1), and, except for $\varepsilon$, none along $\hat x$. The formula removes
# exactly these two components from $h$.

# %%
dx = layer_norm_backward(np.array([[0.0, 1, 0, 0]]), one, np.ones(4))[0][0]
assert np.allclose(dx.round(4), [0, 1.5396, -0.7698, -0.7698], atol=1e-4)
assert np.abs(layer_norm_backward(np.array([[1.0, 0, 0, 0]]), one, np.ones(4))[0]).max() < 1e-4

x, g, gamma = rng.standard_normal((5, 8)), rng.standard_normal((5, 8)), rng.standard_normal(8)
dx = layer_norm_backward(g, x, gamma)[0]
print("sums of the rows of dx         ", dx.sum(-1))
print("dx along the centred x         ", (dx * (x - x.mean(-1, keepdims=True))).sum(-1))
assert np.abs(dx.sum(-1)).max() < 1e-14 and np.abs((dx * x).sum(-1)).max() < 1e-4

# %% [markdown]
# ## Derivation 4: a whole block, in both orders
#
# Now put the pieces together. Write $f^*(g, x)$ for the backward function of $f$: the gradient at the input
# of $f$, if $x$ is that input and $g$ the gradient at the output.
#
# **Post**, $y = \mathrm{norm}(u)$ with $u = x + f(x)$. The gradient goes through the norm first,
# $du = \mathrm{norm}^*(g, u)$. Then $u$ has two summands, and both get $du$:
#
# $$dx = du + f^*(du, x)$$
#
# **Pre**, $y = x + f(z)$ with $z = \mathrm{norm}(x)$. Both summands of $y$ get $g$. On the path through the
# sublayer it becomes $dz = f^*(g, z)$ and then goes through the norm:
#
# $$dx = g + \mathrm{norm}^*(dz, x)$$
#
# Compare the first terms. In pre-norm it is $g$ itself: $g$ arrives unchanged after a hundred blocks. In
# post-norm it is $du$: the norm of every block has changed it, even on the path around.

# %%
f, f_back = np.tanh, lambda g, x: g * (1 - np.tanh(x) ** 2)  # a sublayer with a simple derivative
ones, zeros = np.ones(4), np.zeros(4)
norm, norm_back = lambda x: layer_norm(x, ones, zeros), lambda g, x: layer_norm_backward(g, x, ones)[0]


def post_backward(g, x):
    du = norm_back(g, x + f(x))
    return du + f_back(du, x)


def pre_backward(g, x):
    return g + norm_back(f_back(g, norm(x)), x)


x = rng.standard_normal((3, 4))
assert gradcheck((lambda x: norm(x + f(x)), post_backward), [x])
assert gradcheck((lambda x: x + f(norm(x)), pre_backward), [x])
print("post- and pre-norm blocks: every element is right")

# %% [markdown]
# ## The same in minigrad
#
# - `models/blocks.py`: `FeedForward`, `Residual` (one argument, `norm="post"` or `"pre"`), `EncoderLayer`,
#   `DecoderLayer`
# - `minigrad/functional/layers.py`: `normalized`, layer norm as five lines of tensor ops; the engine derives
#   its gradient
# - `minigrad/kernels/layers.py`: `layer_norm_backward`, the boxed formula, which is faster; a test makes sure
#   that both are equal
#
# minigrad's `Linear` has the weight layout of PyTorch, (out, in): $W_1$ here is `linear1.weight.T` there.

# %%
x = rng.standard_normal((2, 5, 8))
norm, block = nn.LayerNorm(8).double(), FeedForward(8, 32).double()
first, second = block.linear1, block.linear2
ours = feed_forward(x, first.weight.data.T, first.bias.data, second.weight.data.T, second.bias.data)
assert np.allclose(block(mg.tensor(x)).data, ours, atol=1e-14)
assert np.allclose(norm(mg.tensor(x)).data, layer_norm(x, np.ones(8), np.zeros(8)), atol=1e-14)
print(block, "\n", norm, "\n", Residual(8, norm="pre"), sep="")

# %% [markdown]
# A whole encoder layer is two residual blocks, and you have now written all of its parts:

# %%
layer, t = EncoderLayer(8, num_heads=2, d_ff=32, norm="post").double(), mg.tensor(x)
step1 = layer.residual1.norm(t + layer.self_attention(t))
step2 = layer.residual2.norm(step1 + layer.feed_forward(step1))
assert np.array_equal(layer(t).data, step2.data)

alone = layer.feed_forward(t[:, 2:3]).data  # the third position, by itself
assert np.allclose(layer.feed_forward(t).data[:, 2:3], alone, atol=1e-14)
print(
    "an encoder layer is norm(x + attention(x)), then norm(x + feed_forward(x)), which treats each position "
    "separately"
)

# %% [markdown]
# ## Gradient check
#
# We check the derived formulas against finite differences. The checker takes a forward and a backward
# function in plain NumPy, and uses a random `g`. A constant `g` would be a bad choice: with $\gamma = 1$ it
# makes $dx = 0$, and a backward function that always returns zeros would pass.

# %%
x, gamma, beta = rng.standard_normal((2, 3, 4)), rng.standard_normal(4), rng.standard_normal(4)
assert gradcheck((layer_norm, lambda g, x, gamma, beta: layer_norm_backward(g, x, gamma)), [x, gamma, beta])

weights = [rng.standard_normal(shape) for shape in ((4, 6), (6,), (6, 4), (4,))]
assert gradcheck((feed_forward, feed_forward_backward), [x, *weights])
print("feed-forward and layer norm: every element is right")

# %% [markdown]
# **A program that breaks.** Nearly everybody first makes the mistake of treating $\mu$ and $v$ as constants:
# $dx = h s$.


# %%
def constant_statistics(g, x, gamma, beta):
    s = 1 / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
    xhat = (x - x.mean(-1, keepdims=True)) * s
    return g * gamma * s, rows(g * xhat).sum(0), rows(g).sum(0)


try:
    gradcheck((layer_norm, constant_statistics), [x, gamma, beta])
except GradcheckError as error:
    print(error)
else:
    raise SystemExit("the wrong backward was not caught")

# %% [markdown]
# ## Post-norm or pre-norm?
#
# Learners ask this most often about these blocks, so we measure it. In eighteen encoder layers, before any
# training: how large is the gradient of the loss at the weights of each layer?

# %%
picture, (by_layer, last) = figures.drawn(figures.gradient_by_depth)
reached = {kind: norms[0] / norms[-1] for kind, norms in by_layer.items()}
for kind, share in reached.items():
    print(f"{kind:5s} gradient at layer 1 / at layer 18: {share:.5f}")
assert reached["none"] < 1e-4 and 0.3 < reached["post"] < 1 and 2 < reached["pre"] < 5
show(
    picture,
    "The gradient at each of 18 layers: without residuals it falls to less than 1e-4, with them it stays "
    "about equal",
)

# %% [markdown]
# Left: without residual connections (and norms) the gradient of the first layer is less than a ten-thousandth
# of that of the last. With them, in either order, the gradients of all layers are equal to within a factor of
# about three.
#
# Right: the gradient of the last layer alone, in stacks of 2 to 32 layers. In post-norm it does not depend on
# the depth. In pre-norm it falls about as $1/\sqrt{L}$, because in a deep pre-norm stack each sublayer is one
# summand of many. Xiong et al. (2020, theorem 1) prove both under simplifying assumptions. They conclude that
# post-norm needs a warm-up of the learning rate because of its large gradients at the start, and that
# pre-norm trains without.
#
# | | post (2017) | pre (GPT-2 and most since) |
# | --- | --- | --- |
# | formula | norm(x + f(x)) | x + f(norm(x)) |
# | the path around | has a norm in every block | has no norm |
# | at the end of the stack | already normalized | **needs one more norm** |
# | deep, without warm-up | often fails | trains |

# %% [markdown]
# You can also measure how large the vectors themselves are. The picture was made with two small functions of
# `tutorials/measurements.py`. `normal(name, 8, 16, 64)` draws 8 sequences of 16 vectors with 64 standard
# normal elements, the same at every call with this name. `encoder(18, 64, kind)` is a list of 18 new encoder
# layers with $d_{model} = 64$, in the order `kind`.

# %%
for kind in ("post", "pre"):
    mg.manual_seed(0)
    y, sizes = normal("tokens", 8, 16, 64), []
    with mg.no_grad():
        for layer in encoder(18, 64, kind):
            y = layer(y)
            sizes.append(float(y.data.std()))
    print(
        f"{kind:4s} standard deviation after layer 1, 6, 12, 18:",
        [round(sizes[i], 2) for i in (0, 5, 11, 17)],
    )
assert sizes[-1] > 3 and sizes == sorted(sizes)

# %% [markdown]
# In pre-norm the stream $x$ (the vectors on the path around all sublayers) grows from layer to layer, since
# every layer adds and none divides. This does not matter to the sublayers, because each has a norm at its
# input. But the output of the *last* layer needs one more norm. Forgetting it is a pitfall of pre-norm: the
# logits (the scores before the softmax) are several times too large.

# %% [markdown]
# ## RMSNorm, GELU, SwiGLU in short
#
# **RMSNorm** (root mean square norm, Zhang and Sennrich 2019) does not subtract the mean, and has no $\beta$:
#
# $$s = \frac{1}{\sqrt{\frac1n \sum_j x_j^2 + \varepsilon}}, \qquad \hat x = s x, \qquad
# y = \gamma \odot \hat x, \qquad dx = s (h - \hat x \overline{h \hat x})$$
#
# The derivation is the one above without step 4: the term $-\bar h$ came from the mean, so it is absent here.
# Llama uses this norm.


# %%
def rms_norm(x, gamma, eps=1e-6):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * gamma


def rms_norm_backward(g, x, gamma):
    s = 1 / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6)
    xhat, h = x * s, g * gamma
    return s * (h - xhat * (h * xhat).mean(-1, keepdims=True)), rows(g * xhat).sum(0)


assert gradcheck((lambda x, gamma: rms_norm(x, gamma), rms_norm_backward), [x, gamma])
assert np.allclose(rms_norm(x, gamma), F.rms_norm(mg.tensor(x), 4, mg.tensor(gamma), 1e-6).data)
print(
    "RMSNorm of (1, 0, 0, 0):",
    rms_norm(one, np.ones(4))[0],
    "  layer norm:",
    layer_norm(one, np.ones(4), np.zeros(4))[0],
)

# %% [markdown]
# **GELU** (Gaussian error linear unit, Hendrycks and Gimpel 2016) replaces the ReLU by $x \Phi(x)$, where
# $\Phi$ is the normal distribution function. It is nearly 0 for very negative $x$, nearly $x$ for large $x$,
# and smooth between, so no unit is ever completely off. BERT and GPT-2 use it.
#
# **SwiGLU** (Shazeer 2020) has two first linear maps, and one is a gate (a factor) for the other:
# $(\mathrm{silu}(x W_g) \odot x W_u) W_d$ with $\mathrm{silu}(a) = a / (1 + e^{-a})$. It has three matrices
# instead of two, so $d_{ff}$ is reduced to 2/3, and the number of weights stays the same. Llama uses it.
# Shazeer gives measurements and no explanation of why it is better.

# %%
at = mg.tensor([-3.0, -1.0, 0.0, 1.0, 3.0])
print("x   ", at.data)
for name, f in (("relu", F.relu), ("gelu", F.gelu), ("silu", F.silu)):
    print(name, f(at).data)
assert np.allclose(F.gelu(at).data, [-0.0040, -0.1587, 0, 0.8413, 2.9960], atol=1e-4)
assert np.allclose(F.silu(at).data, [-0.1423, -0.2689, 0, 0.7311, 2.8577], atol=1e-4)

# %% [markdown]
# ## Edge cases
#
# 1. **All elements equal.** The variance is 0, so only $\varepsilon$ is left under the root. The output is
#    $\beta$; the gradient is finite but up to $1/\sqrt{10^{-5}} = 316$ times larger than usual.
# 2. **$\varepsilon$ outside the root** looks harmless in the forward pass, but not in the backward pass: the
#    derivative of the root, $1/(2\sqrt v)$, is infinite at $v = 0$.
# 3. **$d_{model} = 1$.** Each element is its own mean: the output is $\beta$ whatever the input, and no
#    gradient passes.
# 4. **One example** works as well as a batch. Layer norm computes nothing across examples, so it is the same
#    in training and evaluation (unlike batch norm).

# %%
flat = np.full((1, 4), 7.0)
y, dx = layer_norm(flat, np.ones(4), np.arange(4.0)), layer_norm_backward(np.eye(4)[:1], flat, np.ones(4))[0]
print("all equal: y =", y, " dx =", dx)
assert np.allclose(dx[0, 0], 0.75 / np.sqrt(1e-5)) and round(1 / np.sqrt(1e-5)) == 316
assert (layer_norm(rng.standard_normal((3, 1)), np.ones(1), np.zeros(1)) == 0).all()

with np.errstate(divide="ignore", invalid="ignore"):  # eps outside: 1 / sqrt(0) times 0
    print("eps outside the root, the variance's term in dx there:", -flat.var() / (2 * np.sqrt(flat.var())))

# %% [markdown]
# ## Pitfalls
#
# - **The variance with $n-1$.** The first element for [1, 0, 0, 0] must be 1.7320. If it is 1.5, you divide
#   by $n-1$.
# - **keepdims forgotten.** `x - x.mean(-1)` for x of shape (4, 4) raises no error: it subtracts the mean of
#   position $j$ from *feature* $j$.
# - **`x += f(x)`.** In place, it overwrites the $x$ that the sublayer's backward pass and the caller still
#   need.
# - **Dropout on the wrong side.** Dropout acts on the sublayer's output before the addition, never on the
#   path around.
# - **ReLU units that are off for every input** get no gradient and stay off. Watch the fraction of zeros in
#   the hidden layer.
# - **Weight decay on $\gamma$ and $\beta$** pulls $\gamma$ to 0, but it should be about 1. Usual recipes
#   exclude all vectors from weight decay.

# %%
square = np.arange(16.0).reshape(4, 4) ** 1.5
wrong, right = square - square.mean(-1), square - square.mean(-1, keepdims=True)
print("means of the rows, keepdims forgotten:", wrong.mean(-1))
print("                       with keepdims:", abs(right.mean(-1).round(12)))
assert np.abs(wrong.mean(-1)).max() > 1 > np.abs(right.mean(-1)).max()

# %% [markdown]
# ## Practice questions
#
# Try each before you open its answer.

# %% [markdown]
# ### Q1. What is the layer norm of (2, 4, 6, 8), with $\gamma = 1$, $\beta = 0$ and $\varepsilon = 0$?
#
# <details><summary>Answer</summary>
#
# The mean is 5, and the centred vector is (−3, −1, 1, 3). The variance is (9 + 1 + 1 + 9) / 4 = 5, its root
# 2.2361. So the result is (−1.3416, −0.4472, 0.4472, 1.3416).
#
# </details>

# %%
# Q1, recomputed
q1 = layer_norm(np.array([2.0, 4, 6, 8]), 1, 0, eps=0)
assert np.allclose(q1, [-1.3416, -0.4472, 0.4472, 1.3416], atol=5e-5)

# %% [markdown]
# ### Q2. Where are the weights of an encoder layer?
#
# Count the weights of the feed-forward network and of the attention, for $d_{model} = 512$ and
# $d_{ff} = 2048$, with biases.
#
# <details><summary>Answer</summary>
#
# Feed-forward: 2 · 512 · 2048 weights and 2048 + 512 biases, 2,099,712. Attention: four matrices of 512 · 512
# and four biases of 512, 1,050,624. The two norms have 2 · 512 each, 2,048 together. So two thirds of the
# layer's 3,152,384 weights are in the feed-forward network.
#
# </details>

# %%
# Q2, recomputed
whole = EncoderLayer(512, 8, 2048)
count = {name: sum(p.numel() for p in part.parameters()) for name, part in whole.named_children()}
total = sum(count.values())
assert count["feed_forward"] == 2_099_712 and count["self_attention"] == 1_050_624 and total == 3_152_384
assert round(count["feed_forward"] / total, 2) == 0.67

# %% [markdown]
# ### Q3. At a layer norm's input x becomes 3x + 10. What happens to the output, and to the gradient there?
#
# <details><summary>Answer</summary>
#
# Let $u$ be the norm's input: it was $x$, and is now $3x + 10$. The output stays the same, except for the
# tiny effect of $\varepsilon$. The gradient at $u$, $\partial L/\partial u$, becomes a third: $u$ has to
# change three times as much for the same change of the output. So a norm makes the gradient smaller where its
# input is larger, and this limits growing streams.
#
# (The gradient at $x$ stays the same: $u = 3x + 10$ multiplies it by 3 in the backward pass, and 3 times a
# third is 1.)
#
# </details>

# %%
# Q3, recomputed
x3, g3 = rng.standard_normal((2, 6)), rng.standard_normal((2, 6))
assert np.allclose(layer_norm(3 * x3 + 10, 1, 0), layer_norm(x3, 1, 0), atol=1e-4)
at_u = [layer_norm_backward(g3, u, np.ones(6))[0] for u in (x3, 3 * x3 + 10)]
print("largest gradient at the norm's input, before and after:", *[f"{abs(d).max():.4f}" for d in at_u])
assert np.allclose(at_u[1], at_u[0] / 3, atol=1e-4) and np.allclose(3 * at_u[1], at_u[0], atol=1e-4)

# %% [markdown]
# ### Q4. A layer norm with $d_{model} = 2$ follows a block. Which outputs are possible?
#
# <details><summary>Answer</summary>
#
# With $\gamma = 1$, $\beta = 0$, only (nearly) (1, −1) and (−1, 1), and (0, 0) for equal elements: two
# centred numbers are $(d, -d)$, and dividing by $|d|$ leaves the sign. Of $n$ degrees of freedom the norm
# removes two: the vector lies in the $n-1$ dimensions of mean 0, on a sphere of radius $\sqrt n$. With 512
# dimensions this does not matter.
#
# </details>

# %%
# Q4, recomputed
pairs = layer_norm(rng.standard_normal((1000, 2)), 1, 0, eps=1e-12)
assert np.allclose(np.abs(pairs), 1, atol=1e-3) and np.allclose(pairs.sum(-1), 0)
lengths = np.linalg.norm(layer_norm(rng.standard_normal((10, 512)), 1, 0), axis=-1)
assert np.allclose(lengths, np.sqrt(512), atol=1e-3)

# %% [markdown]
# ### Q5. In the Transformer encoder, why do we use residual connections around each sublayer?
#
# <details><summary>Answer</summary>
#
# *Gradient flow.* Around each sublayer the gradient has a path on which nothing multiplies it. In the picture
# above the gradient of the first of 18 layers is less than 1e-4 of that of the last without residual
# connections, and 0.6 (post) and 3.2 (pre) times that of the last with them.
#
# *Information.* A sublayer only has to learn a difference, because the rest of its input stays. You can
# measure this: attention before training is nearly a plain mean, so without residual connections all tokens
# of a sequence become similar: after three layers the cosine between two tokens is 1.00. In pre-norm it is
# 0.81 after all 18.
#
# A residual connection does not *guarantee* this. In post-norm every norm shrinks the old part together with
# the new, and before training the tokens after 18 layers are similar there too (1.00).
#
# </details>


# %%
# Q5, recomputed
def alike(kind, depth):
    """The mean cosine between two tokens of a sequence after `depth` of 18 layers."""
    mg.manual_seed(0)
    y = normal("tokens", 8, 16, 64)
    with mg.no_grad():
        for layer in list(encoder(18, 64, kind))[:depth]:
            y = layer(y)
    unit = y.data / np.linalg.norm(y.data, axis=-1, keepdims=True)
    return (np.einsum("btc,buc->b", unit, unit).mean() - 16) / (16 * 15)


found = {(kind, depth): alike(kind, depth) for kind, depth in (("none", 3), ("post", 18), ("pre", 18))}
assert [round(float(c), 2) for c in found.values()] == [1.0, 1.0, 0.81]
assert reached["none"] < 1e-4 and round(reached["post"], 1) == 0.6 and round(reached["pre"], 1) == 3.2

# %% [markdown]
# ### Q6. How wide is a SwiGLU with as many weights as a ReLU feed-forward?
#
# Take $d_{model} = 512$, $d_{ff} = 2048$ and no biases.
#
# <details><summary>Answer</summary>
#
# Two matrices of 512 · 2048 have 2,097,152 weights. Three matrices of 512 · $d$ have 1536 $d$. So $d$ =
# 1365.33, two thirds of 2048. In practice $d$ is a round number near this.
#
# </details>

# %%
# Q6, recomputed
assert 2 * 512 * 2048 == 2_097_152
assert np.isclose(2_097_152 / (3 * 512), 2 / 3 * 2048) and round(2_097_152 / 1536, 2) == 1365.33

# %% [markdown]
# ### Q7. How fast does the stream of a pre-norm stack grow?
#
# Before training, each of $L$ blocks adds elements of variance 1 that are independent of $x$; $x$ has
# variance 1 at the beginning. What is the standard deviation at the end, and how does the fraction of one
# block in it fall with $L$?
#
# <details><summary>Answer</summary>
#
# Variances of independent numbers add up: from 1 to $1 + L$, so the standard deviation is $\sqrt{1 + L}$:
# 4.36 after 18 blocks. That of one block's part is 1. So after the last norm the weights of a block matter as
# $1/\sqrt{1+L}$, which is the fall in the right half of the picture. (In a real stack the sublayers' outputs
# are smaller and not quite independent; there we measured about 4 after 18 layers.)
#
# </details>

# %%
# Q7, recomputed
stream = rng.standard_normal(100_000)
for _ in range(18):
    stream = stream + rng.standard_normal(100_000)
assert round(19**0.5, 2) == 4.36 and abs(stream.std() - 19**0.5) < 0.05
assert round(sizes[-1]) == 4

# %% [markdown]
# ## What was left out
#
# - **Dropout** in the blocks (setting random elements to 0 in training): on each sublayer's output, on the
#   attention weights, and in minigrad inside the feed-forward network too.
# - **Initialization by depth**: GPT-2 scales the last matrix of each sublayer by $1/\sqrt{2L}$ (for $L$
#   layers), so that the stream does not grow at the start. Lesson 14 does it.
# - **Mixtures of experts**: many feed-forward networks, and each token uses few of them.
# - **Why two layers and this width?** There is no theory that gives $d_{ff} = 4 d_{model}$; it was found to
#   work.
#
# ## Sources
#
# - Vaswani et al. 2017, *Attention Is All You Need*: section 3.1 (residual and norm), 3.3 (equation 2)
# - He et al. 2016, *Deep Residual Learning for Image Recognition* and *Identity Mappings in Deep Residual
#   Networks* (the path around without changes)
# - Ba, Kiros and Hinton 2016, *Layer Normalization*; Zhang and Sennrich 2019, *Root Mean Square Layer
#   Normalization*
# - Xiong et al. 2020, *On Layer Normalization in the Transformer Architecture*
# - Hendrycks and Gimpel 2016, *Gaussian Error Linear Units*; Shazeer 2020, *GLU Variants Improve
#   Transformer*, equation 6
#
# ## Exercises
#
# You will write `feed_forward`, `layer_norm`, `rms_norm` and a residual block in both orders, each with its
# backward pass. Start with
#
#     python -m tutorials start 12
#
# Next: lesson 13 puts attention, positions and these blocks together into the encoder-decoder of 2017.
