# %% [markdown]
# # 05 · Softmax and cross-entropy
#
# *Reading: 30 minutes. Exercises: 45 minutes. Needs: lessons 02, 04.*
#
# A network ends in a few real numbers. How do they become probabilities? What goes wrong when a computer does
# it? And why is the gradient simply *what was predicted minus what was true*?
#
# **You will be able to:**
#
# - compute softmax, log-sum-exp and cross-entropy by hand and in NumPy, for numbers of any size;
# - derive the Jacobian of softmax, and from it a backward that never builds the Jacobian;
# - say what the first loss of an untrained classifier must be, and what it tells you if it is not;
# - explain why cross-entropy takes logits, and show what goes wrong when it gets probabilities;
# - handle ignored targets, label smoothing and temperature.

# %%
import numpy as np
from matplotlib.figure import Figure

import minigrad as mg
import minigrad.nn.functional as F
from minigrad.gradcheck import gradcheck_pair
from tutorials import show

rng = np.random.default_rng(5)
np.set_printoptions(precision=4, suppress=True)

# %% [markdown]
# ## Intuition: from scores to probabilities
#
# Suppose a network must choose among three classes. Its last layer gives three numbers, $x = (2, 1, 0)$,
# called **logits**. Logits may be negative and may have any sum. We want to turn them into probabilities:
# positive, with sum 1.
#
# Two steps are enough. The exponential makes every number positive; dividing by the sum makes the sum 1. The
# exponential also gives the logits a meaning: the ratio of two probabilities is
# $p_i / p_j = e^{x_i} / e^{x_j} = e^{x_i - x_j}$. So **a logit that is higher by 1 means odds (the ratio of
# two probabilities) that are better by the factor** $e \approx 2.718$, whatever the two logits are.
#
# Two simpler ideas do not work. Dividing the logits by their sum fails as soon as one is negative. Taking the
# index of the largest logit ("argmax") gives an answer, but a tiny change of a logit does not change that
# answer: its derivative is 0 almost everywhere, and a network cannot learn from it. Softmax is a smooth
# version of argmax with a useful derivative.

# %%
x = np.array([2.0, 1.0, 0.0])
p = np.exp(x) / np.exp(x).sum()
print("probabilities", p, " sum", p.sum())
print("odds of neighbours", p[:-1] / p[1:])
assert np.allclose(p[:-1] / p[1:], np.e)

# %% [markdown]
# ## Definition
#
# Let $x$ be a row of $C$ logits. (Arrays have shape $(\ldots, C)$: the classes are the last axis, and each
# row is computed separately.)
#
# **Softmax** (named by Bridle, 1990) gives a row $y$ of the same shape:
#
# $$y_i = \frac{e^{x_i}}{\sum_{k=0}^{C-1} e^{x_k}}$$
#
# **Log-sum-exp** is the logarithm of the denominator, one number for each row, so the shape loses its last
# axis:
#
# $$\mathrm{lse}(x) = \log \sum_{k=0}^{C-1} e^{x_k}$$
#
# **Log-softmax** is the logarithm of softmax. Since $\log(a/b) = \log a - \log b$, it is a subtraction:
#
# $$\log y_i = x_i - \mathrm{lse}(x)$$
#
# **Cross-entropy** compares $N$ rows of logits with $N$ right answers $t_1, \ldots, t_N$, the *targets*,
# which are integers from 0 to $C - 1$. It is one number, the mean of the negative logarithms of the right
# answers' probabilities:
#
# $$L = -\frac{1}{N} \sum_{n=1}^{N} \log y_{n, t_n}
#  = \frac{1}{N} \sum_{n=1}^{N} \left( \mathrm{lse}(x_n) - x_{n, t_n} \right)$$
#
# Why the logarithm? The probability of $N$ independent answers all being right is the *product* of the
# $y_{n,t_n}$. Its logarithm is a sum, the minus sign makes it a loss to minimize, and $1/N$ makes batches of
# different sizes comparable. If the right answer gets probability 1, the loss is 0; for 1/2 it is
# $\ln 2 = 0.6931$; towards 0 it grows without bound.

# %% [markdown]
# ## A worked example by hand
#
# Take $x = (0, \ln 2, \ln 5)$, chosen so that the exponentials are $1, 2, 5$ and the results are fractions.
# Their sum is 8.
#
# | | class 0 | class 1 | class 2 |
# | --- | --- | --- | --- |
# | logit $x$ | 0 | 0.6931 | 1.6094 |
# | $e^x$ | 1 | 2 | 5 |
# | softmax $y$ | 1/8 = 0.125 | 2/8 = 0.25 | 5/8 = 0.625 |
#
# - log-sum-exp: $\ln 8 = 2.0794$.
# - If the right answer is class 1, the loss is $-\ln 0.25 = \ln 4 = 1.3863$; or, without computing a
#   probability, $\mathrm{lse} - x_1 = 2.0794 - 0.6931 = 1.3863$.
# - The gradient of that loss will be $y$ minus a 1 at the right answer: $(0.125, -0.75, 0.625)$. Its sum
#   is 0.
# - Now take the gradient through softmax alone. Suppose $g = (1, 0, 0)$ arrives at $y$. The rule derived
#   below is $y \cdot (g - s)$ with $s = \sum_i g_i y_i = 0.125$. It gives
#   $(0.125 \cdot 0.875, 0.25 \cdot (-0.125), 0.625 \cdot (-0.125))$, which is
#   $(0.109375, -0.03125, -0.078125)$. Its sum is 0, too.

# %%
x = np.log([1.0, 2.0, 5.0])
y = np.exp(x) / np.exp(x).sum()
assert np.allclose(y, [1 / 8, 2 / 8, 5 / 8])
lse = np.log(np.exp(x).sum())
assert np.isclose(lse, np.log(8)) and round(lse, 4) == 2.0794
loss = lse - x[1]
assert np.isclose(loss, -np.log(y[1])) and round(loss, 4) == 1.3863
gradient = y - np.array([0, 1, 0])
assert np.allclose(gradient, [0.125, -0.75, 0.625]) and np.isclose(gradient.sum(), 0)
g = np.array([1.0, 0.0, 0.0])
through_softmax = y * (g - (g * y).sum())
assert np.allclose(through_softmax, [0.109375, -0.03125, -0.078125])
print("softmax", y, " lse", lse.round(4), " loss", loss.round(4), " gradient", gradient)

# %% [markdown]
# ## Logits of any size
#
# The definition, typed in as it is, fails on logits that real networks produce. `exp` of 710 is larger than
# any float64.

# %%
with np.errstate(over="ignore", invalid="ignore"):  # without this line NumPy prints a warning
    e = np.exp(np.array([1000.0, 1001.0, 1002.0]))
    print("exp", e, " softmax", e / e.sum())

for dtype in (np.float32, np.float64):
    largest, smallest = np.finfo(dtype).max, np.finfo(dtype).smallest_subnormal
    print(
        f"{dtype.__name__}: exp(x) is infinite above {np.log(largest):.2f} "
        f"and 0 below about {np.log(smallest):.2f}"
    )

# %% [markdown]
# `inf / inf` is NaN. In float32, which networks use, a logit of 89 is enough.
#
# The solution: softmax depends only on differences. Add any constant $c$ to all logits of a row:
#
# $$\frac{e^{x_i + c}}{\sum_k e^{x_k + c}} = \frac{e^c e^{x_i}}{e^c \sum_k e^{x_k}}
#  = \frac{e^{x_i}}{\sum_k e^{x_k}}$$
#
# Choose $c = -\max_k x_k$. Then the largest exponent is 0, so no exponential exceeds 1 and nothing overflows.
# The sum is at least $e^0 = 1$, so we never divide by 0. Exponentials of very negative numbers become 0,
# which is right to the first 300 decimal places.
#
# Log-sum-exp has the same solution. Take $e^m$ out of the sum, with $m = \max_k x_k$:
#
# $$\mathrm{lse}(x) = \log \left( e^m \sum_k e^{x_k - m} \right) = m + \log \sum_k e^{x_k - m}$$
#
# The sum lies between 1 and $C$, so $\max x \le \mathrm{lse}(x) \le \max x + \ln C$: log-sum-exp is a smooth
# maximum.


# %%
def softmax(x):
    """(..., C) -> (..., C): each row positive, with sum 1."""
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def logsumexp(x):
    """(..., C) -> (...)."""
    m = x.max(axis=-1, keepdims=True)  # (..., 1)
    return (m + np.log(np.exp(x - m).sum(axis=-1, keepdims=True)))[..., 0]


large = np.array([1000.0, 1001.0, 1002.0])
print("softmax", softmax(large), " logsumexp", logsumexp(large))
assert np.allclose(softmax(large), softmax(large - 1000))
assert large.max() <= logsumexp(large) <= large.max() + np.log(3)

# %% [markdown]
# One trap remains. The shifted softmax may give an exact 0 for a class whose logit is far below the largest,
# and the logarithm of 0 is $-\infty$. So do not compute log-softmax as "log of softmax". Compute
# $x - \max x - \log \sum e^{x - \max x}$, which takes the logarithm of the sum only.


# %%
def log_softmax(x):
    """(..., C) -> (..., C): the logarithm of softmax, finite for any finite x."""
    shifted = x - x.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


far = np.array([0.0, 800.0])
with np.errstate(divide="ignore"):
    print("log(softmax(x))", np.log(softmax(far)))
print("log_softmax(x) ", log_softmax(far))
assert log_softmax(far)[0] == -800

# %% [markdown]
# ## Derivation of the backward
#
# ### Softmax: the Jacobian
#
# Each $y_i$ depends on *every* $x_j$, because all have the same denominator. Write $S = \sum_k e^{x_k}$, so
# that $y_i = e^{x_i} / S$. We need two facts: $\partial S / \partial x_j = e^{x_j}$, and
# $\partial e^{x_i} / \partial x_j$ is $e^{x_i}$ if $i = j$, else 0. Let $\delta_{ij}$ be 1 if $i = j$,
# else 0. The quotient rule gives
#
# $$\frac{\partial y_i}{\partial x_j} = \frac{\delta_{ij} e^{x_i} \cdot S - e^{x_i} \cdot e^{x_j}}{S^2}
#  = \delta_{ij} \frac{e^{x_i}}{S} - \frac{e^{x_i}}{S} \frac{e^{x_j}}{S} = y_i (\delta_{ij} - y_j)$$
#
# On the diagonal it is $y_i (1 - y_i)$, off the diagonal $-y_i y_j$: if one logit rises, its own probability
# rises and all others fall.
#
# ### Softmax: the vjp
#
# Backward takes $g_i = \partial L / \partial y_i$ and must return $\partial L / \partial x_j$. By the chain
# rule, summing over all paths from $x_j$ to $L$:
#
# $$\frac{\partial L}{\partial x_j} = \sum_i g_i \frac{\partial y_i}{\partial x_j}
#  = \sum_i g_i y_i \delta_{ij} - \sum_i g_i y_i y_j
#  = y_j g_j - y_j \sum_i g_i y_i = y_j \Big( g_j - \sum_i g_i y_i \Big)$$
#
# The sum is the mean of $g$, weighted by the probabilities. Classes whose $g$ is above that mean get a
# positive gradient, those below it a negative one, each in proportion to its own probability. No $C \times C$
# matrix is built: the cost is a few operations for each class.


# %%
def softmax_backward(g, y):
    """g: gradient of y = softmax(x); returns the gradient of x. Both (..., C)."""
    return y * (g - (g * y).sum(axis=-1, keepdims=True))


y, g = softmax(rng.standard_normal(4)), rng.standard_normal(4)
jacobian = np.diag(y) - np.outer(y, y)  # y_i (delta_ij - y_j)
print(jacobian)
print("g @ jacobian ", g @ jacobian)
print("without it   ", softmax_backward(g, y))
assert np.allclose(g @ jacobian, softmax_backward(g, y))
assert np.allclose(jacobian.sum(axis=0), 0) and np.allclose(jacobian.sum(axis=1), 0)

# %% [markdown]
# Rows and columns of the Jacobian sum to 0. The columns do because the $y_i$ always sum to 1: what one gains,
# the others lose. The rows do because adding a constant to all logits changes nothing. Hence the gradient of
# the logits sums to 0 in each row, which is a useful check.
#
# ### Log-softmax
#
# First, the derivative of log-sum-exp is softmax:
#
# $$\frac{\partial \mathrm{lse}(x)}{\partial x_j} = \frac{1}{S} \frac{\partial S}{\partial x_j}
#  = \frac{e^{x_j}}{S} = y_j$$
#
# With $\ell_i = x_i - \mathrm{lse}(x)$ it follows that $\partial \ell_i / \partial x_j = \delta_{ij} - y_j$,
# and for a gradient $g$ that arrives at $\ell$
#
# $$\frac{\partial L}{\partial x_j} = \sum_i g_i (\delta_{ij} - y_j) = g_j - y_j \sum_i g_i$$
#
# ### Cross-entropy
#
# One row, right answer $t$: the loss is $L = \mathrm{lse}(x) - x_t$. Differentiate both terms:
#
# $$\frac{\partial L}{\partial x_j} = y_j - \delta_{jt}$$
#
# **Predicted minus true.** Now take $N$ rows and their mean. Let $Y$ be the softmax of all rows and $T$ the
# targets as one-hot rows (a 1 at the target, 0 elsewhere), both of shape $(N, C)$:
#
# $$\frac{\partial L}{\partial X} = \frac{Y - T}{N}$$
#
# The longer calculation, through $-\log$ and then softmax, gives the same on paper: $-1/y_t$ arrives at $y_t$
# and 0 elsewhere, so $\sum_i g_i y_i = -1$. Then $y_j (g_j + 1)$ is $y_j$ for $j \ne t$, and
# $y_t (1 - 1/y_t) = y_t - 1$ for $j = t$. On paper $y_t$ cancels. In a computer it may not: if $y_t$ was
# rounded to 0, the longer calculation multiplies 0 by infinity.

# %%
x, t = np.array([0.0, 800.0]), 0  # the network is sure, and wrong
y = softmax(x)
with np.errstate(divide="ignore", invalid="ignore"):
    g = np.zeros(2)
    g[t] = -1 / y[t]
    print("through log and softmax", softmax_backward(g, y))
print("predicted minus true   ", y - np.eye(2)[t])
assert (y - np.eye(2)[t]).tolist() == [-1, 1]

# %% [markdown]
# ## Code: cross-entropy and its backward
#
# Targets may be missing. A sentence shorter than the others in its batch is filled up with padding, and
# padding has no right answer. By PyTorch's convention such targets hold a number that is not a class,
# `ignore_index=-100`. They count neither in the sum nor in the $N$ that divides it, and their logits get a
# gradient of exactly 0.


# %%
def cross_entropy(logits, targets, ignore_index=-100):
    """logits (N, C), integer targets (N,) -> the mean loss over the targets that are not ignore_index."""
    rows = np.flatnonzero(targets != ignore_index)  # which rows count
    losses = -log_softmax(logits[rows])[np.arange(len(rows)), targets[rows]]
    return losses.sum() / max(len(rows), 1)  # no target at all: 0


def cross_entropy_backward(logits, targets, ignore_index=-100):
    """The gradient of cross_entropy with respect to the logits, (N, C)."""
    rows = np.flatnonzero(targets != ignore_index)
    d = np.zeros_like(logits)
    d[rows] = softmax(logits[rows])
    d[rows, targets[rows]] -= 1
    return d / max(len(rows), 1)


logits, targets = rng.standard_normal((4, 3)), np.array([2, 0, -100, 1])
print("loss", cross_entropy(logits, targets).round(4))
print(cross_entropy_backward(logits, targets))

# %% [markdown]
# ### The same in minigrad
#
# `minigrad/functional/activations.py` holds `softmax`, `log_softmax` and `logsumexp` composed from ops, so
# that they differentiate by themselves; `minigrad/kernels/activations.py` holds the forward and backward
# pairs you have just seen, and `minigrad/kernels/losses.py` those of cross-entropy. Both tiers must agree,
# and ours must agree with both.

# %%
tensor = mg.tensor(logits, requires_grad=True)
loss = F.cross_entropy(tensor, mg.tensor(targets))
loss.backward()
assert np.isclose(loss.item(), cross_entropy(logits, targets))
assert np.allclose(tensor.grad.data, cross_entropy_backward(logits, targets))
assert np.allclose(F.softmax(logits).data, softmax(logits))
print("minigrad's loss and gradient equal ours:", loss.item())

# %% [markdown]
# ## Gradient check
#
# Lesson 04 built the check: draw a random gradient $g$ for the output, and compare what backward returns with
# finite differences of $\sum g \cdot y$. `gradcheck_pair` does it for a forward and a backward in plain
# NumPy.

# %%
x = rng.standard_normal((3, 5))
assert gradcheck_pair(softmax, lambda g, y, x: softmax_backward(g, y), [x])
assert gradcheck_pair(logsumexp, lambda g, x: g[..., None] * softmax(x), [x])
assert gradcheck_pair(log_softmax, lambda g, y, x: g - np.exp(y) * g.sum(-1, keepdims=True), [x])
assert gradcheck_pair(cross_entropy, lambda g, x, t: g * cross_entropy_backward(x, t), [logits, targets])
print("softmax, logsumexp, log_softmax and cross_entropy: backward agrees with finite differences")

# %% [markdown]
# Nearly everybody makes this mistake once: treating softmax like a sigmoid, element by element, so that only
# the diagonal of the Jacobian is used.

# %%
try:
    gradcheck_pair(softmax, lambda g, y, x: g * y * (1 - y), [x])
except AssertionError as error:
    print(error)
else:
    raise SystemExit("the wrong backward was not caught")

# %% [markdown]
# Lesson 04 warned of a check that cannot fail. Here is one: let the "loss" be `softmax(x).sum()`. That is
# always 1, its gradient is 0, and a backward that returns zeros passes. With a random $g$ it fails.

# %%
zeros = lambda g, y, x: np.zeros_like(x)
ones = np.ones((3, 5))
print(
    "with g = 1 the right gradient is",
    np.abs(softmax_backward(ones, softmax(x))).max().round(12),
    "everywhere",
)
try:
    gradcheck_pair(softmax, zeros, [x])
except AssertionError as error:
    print(error)
else:
    raise SystemExit("zeros were not caught")

# %% [markdown]
# ## What the loss tells you
#
# ### Why not squared error?
#
# Let the network be confident and wrong: the logit of the right class is lower than the other one by a
# *margin*. Cross-entropy has the gradient $y_t - 1$, close to $-1$: almost the largest that it can have. The
# squared error of the probability, $(1 - y_t)^2$, must go through softmax, whose Jacobian $y_t (1 - y_t)$ is
# nearly 0 there. Its gradient is smallest where the network is most wrong.

# %%
margin = np.linspace(-10, 10, 201)  # right logit minus wrong logit, two classes
right = softmax(np.stack([margin, 0 * margin], -1))[:, 0]
figure = Figure(figsize=(7, 3.8), layout="constrained")
figure.suptitle("Where the answer is wrong, only cross-entropy still has a large gradient", fontsize=11)
for axes, what in zip(figure.subplots(1, 2), ("loss", "size of the gradient at the right logit")):
    ce, square = (
        (-np.log(right), (1 - right) ** 2) if what == "loss" else (1 - right, 2 * (1 - right) ** 2 * right)
    )
    axes.plot(margin, ce, color="#0072B2", label=r"cross-entropy, $-\ln y_t$")
    axes.plot(margin, square, "--", color="#D55E00", label=r"squared error, $(1 - y_t)^2$")
    axes.set(xlabel="logit of the right class minus the other's", ylabel=what)
    axes.grid(alpha=0.3)
figure.axes[0].legend()
show(
    figure,
    "Loss and gradient of cross-entropy and squared error against the margin: "
    "squared error's gradient is nearly 0 at -10",
)

# %% [markdown]
# ### The first loss is $\ln C$
#
# A network that has learned nothing gives all classes about the same probability, $1/C$, and so the loss
# $\ln C$. Know this number before you start. A first loss far above it means that the logits are too large (a
# bad initialization). A first loss below it means that the answer leaks into the input, or that the last bias
# already contains the frequencies of the classes.
#
# `exp(loss)` is called the **perplexity**: the network is as uncertain as if it had to guess among that
# number of equally likely answers.

# %%
for name, classes in (
    ("two classes", 2),
    ("ten digits", 10),
    ("65 characters", 65),
    ("GPT-2's vocabulary", 50257),
):
    print(f"{name:>18}: first loss {np.log(classes):7.4f}   perplexity {np.exp(np.log(classes)):8.0f}")
same = np.zeros((3, 65))
assert np.isclose(cross_entropy(same, np.array([4, 0, 64])), np.log(65))

# %% [markdown]
# ### Temperature
#
# Dividing the logits by a temperature $\tau$ before softmax changes how certain the answer is, not the order
# of the classes (Hinton, Vinyals & Dean 2015, section 2). As $\tau \to 0$ softmax becomes argmax; as
# $\tau \to \infty$ all classes become equally likely. Lesson 14 generates text with it. Attention's
# $1/\sqrt{d_k}$ (lesson 08) is a temperature, too.

# %%
x = np.array([2.0, 1.0, 0.0, -1.0])
figure = Figure(figsize=(7, 3.2), layout="constrained")
figure.suptitle(
    "The same four logits (2, 1, 0, -1): certain at a low temperature, uncertain at a high one", fontsize=11
)
for axes, temperature in zip(figure.subplots(1, 3, sharey=True), (0.25, 1.0, 4.0)):
    bars = axes.bar(range(4), softmax(x / temperature), color="#0072B2")
    axes.bar_label(bars, fmt="%.2f", fontsize=9)
    axes.set(title=f"temperature {temperature:g}", xlabel="class", ylim=(0, 1.1), xticks=range(4))
figure.axes[0].set_ylabel("probability")
show(
    figure, "Softmax of the same logits at temperatures 0.25, 1 and 4: from nearly one-hot to nearly uniform"
)

# %% [markdown]
# ### Label smoothing
#
# The loss of a one-hot target has no minimum: it keeps falling while the right logit grows without bound.
# Label smoothing (Szegedy et al. 2016, section 7) asks for less: with a small $\varepsilon$ the target
# becomes $q = (1 - \varepsilon) \cdot \text{onehot} + \varepsilon / C$. The loss is $-\sum_c q_c \log y_c$,
# and because the $q_c$ sum to 1, the derivation above stays the same: the gradient is $y - q$. It is 0 at
# finite logits, where $y = q$. Vaswani et al. (2017, section 5.4) trained the Transformer with
# $\varepsilon = 0.1$.


# %%
def smooth_targets(targets, classes, e):
    return (1 - e) * np.eye(classes)[targets] + e / classes


def smoothed_loss(logits, q):
    return -(q * log_softmax(logits)).sum(-1).mean()


q = smooth_targets(targets[[0, 1, 3]], 3, 0.1)
print(q)
rows = logits[[0, 1, 3]]
assert gradcheck_pair(
    smoothed_loss, lambda g, x, q: (g * (softmax(x) - q) / len(x), -g * log_softmax(x) / len(x)), [rows, q]
)
assert np.isclose(
    smoothed_loss(rows, q), F.cross_entropy(rows, targets[[0, 1, 3]], label_smoothing=0.1).item()
)

# %% [markdown]
# ## Edge cases
#
# - **One class**: softmax is 1 for any logit, the loss is 0, the gradient is 0.
# - **Ties**: equal logits get equal probabilities; softmax is smooth everywhere, so there is no corner.
# - **A logit of $-\infty$** means "impossible": $e^{-\infty} = 0$. Masks will use this (lesson 09). A row
#   that is $-\infty$ everywhere gives $0/0$: NaN, in PyTorch as here. The code that makes the mask must
#   prevent it.
# - **Huge logits**: the result is finite if you subtract the maximum *before* anything else.
#   `x - logsumexp(x)` is right on paper, but where $x$ is very large the small logarithm is rounded away.
# - **No target at all** (every one ignored): we return 0 with gradient 0, so that such a batch does not turn
#   a mean into NaN. PyTorch returns NaN.

# %%
print("one class:", softmax(np.array([[123.0]])), cross_entropy(np.array([[123.0]]), np.array([0])))
print("tie:", softmax(np.array([7.0, 7.0, -np.inf])))
with np.errstate(invalid="ignore"):
    print("only -inf:", softmax(np.array([-np.inf, -np.inf])))
huge = np.array([1e16, 1e16 + 2])
print("x - logsumexp(x):", huge - logsumexp(huge), " shifted first:", log_softmax(huge))
assert np.allclose(log_softmax(huge), log_softmax(np.array([0.0, 2.0])))
print(
    "no target:",
    cross_entropy(logits, np.full(4, -100)),
    cross_entropy_backward(logits, np.full(4, -100)).any(),
)

# %% [markdown]
# ## Pitfalls
#
# **Giving probabilities to a loss that takes logits.** `F.cross_entropy(F.softmax(x), t)` runs, and it even
# trains, badly: the second softmax gets only numbers between 0 and 1. With 10 classes the loss cannot fall
# below $\ln(1 + 9/e) = 1.4612$, however certain the network is.

# %%
sure = np.zeros((1, 10))
sure[0, 3] = 50.0
target = np.array([3])
print("logits       ", cross_entropy(sure, target))
print("softmax twice", cross_entropy(softmax(sure), target))
assert (
    np.isclose(cross_entropy(softmax(sure), target), np.log(1 + 9 / np.e))
    and round(np.log(1 + 9 / np.e), 4) == 1.4612
)

# %% [markdown]
# **`log(softmax(x) + 1e-9)`.** It hides the infinity, but it also makes the gradient vanish where it is
# needed most. If the right logit is behind by 30, the loss stops at $-\ln 10^{-9} = 20.72$ and the gradient
# at the right logit is 0.0001 in size instead of 1.

# %%
for behind in (10.0, 20.0, 30.0, 40.0):
    y = softmax(np.array([0.0, behind]))
    patched = y[0] / (y[0] + 1e-9) * (1 - y[0])  # the size of d/dx_0 of -log(y_0 + 1e-9)
    loss = -np.log(y[0] + 1e-9)
    print(
        f"behind by {behind:2.0f}: loss {loss:5.2f} (right {behind:.2f})   "
        f"gradient {patched:.5f} (right {1 - y[0]:.5f})"
    )
assert round(-np.log(1e-9), 2) == 20.72
y0 = softmax(np.array([0.0, 30.0]))[0]
assert round(y0 / (y0 + 1e-9), 4) == 0.0001

# %% [markdown]
# **The maximum of the whole array instead of each row.** This passes every test with small numbers. But if
# one row is 800 below another, all its exponentials become 0, and the result is $0/0$. Shift each row by *its
# own* maximum: `axis=-1, keepdims=True`.

# %%
rows = np.array([[0.0, 1.0], [800.0, 801.0]])
with np.errstate(invalid="ignore"):
    e = np.exp(rows - rows.max())
    print("one maximum for all:\n", e / e.sum(axis=-1, keepdims=True))
print("each row its own:\n", softmax(rows))

# %% [markdown]
# **The wrong axis.** On a square array `axis=0` raises no error; the columns sum to 1 instead of the rows.
# Test with shapes whose axes differ, and check the sums.
#
# **Believing that subtracting the maximum keeps gradients from vanishing.** Two different problems are often
# confused. *Overflow* concerns the computer: the exponential leaves the range of floats, and the shift solves
# that exactly. *Saturation* concerns the function: if one logit leads by 30, softmax is flat there,
# $y(1 - y) \approx 10^{-13}$, and the shift does not change that. Only smaller differences help, which is why
# attention divides its scores by $\sqrt{d_k}$ (lesson 08).

# %%
x = np.array([30.0, 0.0, -5.0])
largest = np.abs(np.diag(softmax(x)) - np.outer(softmax(x), softmax(x))).max()
calmer = np.abs(np.diag(softmax(x / 8)) - np.outer(softmax(x / 8), softmax(x / 8))).max()
print(f"largest entry of the Jacobian: {largest:.1e}; of the scores divided by 8: {calmer:.1e}")
assert largest < 1e-12 and calmer > 1e-2

# %% [markdown]
# **Mean or sum.** If the forward divides by $N$, so must the backward. Without $1/N$ every gradient is larger
# by the batch size: the net still learns, with a step size that nobody chose. With ignored targets, $N$ is
# the number of targets that count. If you divide by all rows, a sentence's loss depends on how much padding
# it has.

# %% [markdown]
# ## Practice questions

# %% [markdown]
# ### Q1. Logits $(1, 1, 1)$, right class 0: what are softmax and cross-entropy? And for $(101, 101, 101)$?
#
# <details><summary>Answer</summary>
#
# All probabilities are $1/3$; the loss is $\ln 3 = 1.0986$. For $(101, 101, 101)$ the result is the same:
# only differences matter.
#
# </details>

# %%
# Q1, recomputed
for c in (1.0, 101.0):
    assert np.allclose(softmax(np.full(3, c)), 1 / 3)
    assert round(cross_entropy(np.full((1, 3), c), np.array([0])), 4) == 1.0986

# %% [markdown]
# ### Q2. A has probability 0.8, B 0.2. How far apart are their logits? How much must A's rise for 0.9?
#
# <details><summary>Answer</summary>
#
# The odds are $0.8 / 0.2 = 4$, so the logits differ by $\ln 4 = 1.3863$. For 0.9 the odds must be 9, a
# difference of $\ln 9 = 2.1972$: A's logit must rise by $\ln(9/4) = 0.8109$.
#
# </details>

# %%
# Q2, recomputed
assert round(np.log(4), 4) == 1.3863 and round(np.log(9), 4) == 2.1972 and round(np.log(9 / 4), 4) == 0.8109
assert np.allclose(softmax(np.array([np.log(4), 0.0])), [0.8, 0.2])
assert np.allclose(softmax(np.array([np.log(4) + np.log(9 / 4), 0.0])), [0.9, 0.1])

# %% [markdown]
# ### Q3. Logits $(0, 0)$, a batch of 4 rows, all targets 0. What is the mean loss' gradient at each logit?
#
# <details><summary>Answer</summary>
#
# Each row predicts $(0.5, 0.5)$, so predicted minus true is $(-0.5, 0.5)$; divided by $N = 4$ it is
# $(-0.125, 0.125)$.
#
# </details>

# %%
# Q3, recomputed
assert np.allclose(cross_entropy_backward(np.zeros((4, 2)), np.zeros(4, int)), [[-0.125, 0.125]] * 4)

# %% [markdown]
# ### Q4. A GPT with a vocabulary of 65 characters starts with a loss of 4.67. Is that what you expect?
#
# <details><summary>Answer</summary>
#
# The expected loss is $\ln 65 = 4.1744$; this one is too high by about a half. For logits that are
# independent normal numbers of variance $\sigma^2$ the mean of $e^x$ is $e^{\sigma^2 / 2}$, so the loss is
# about $\ln C + \sigma^2 / 2$. So this model starts with logits of standard deviation about 1: it is certain
# without a reason. Make the initial weights of the last layer smaller.
#
# </details>

# %%
# Q4, recomputed
assert round(np.log(65), 4) == 4.1744
noisy = cross_entropy(rng.standard_normal((20_000, 65)), rng.integers(65, size=20_000))
print("logits of standard deviation 1:", noisy.round(3), " ln 65 + 1/2 =", round(np.log(65) + 0.5, 3))
assert abs(noisy - (np.log(65) + 0.5)) < 0.03

# %% [markdown]
# ### Q5. A model reaches a loss of 1.5 per token. What is its perplexity, and what does it mean?
#
# <details><summary>Answer</summary>
#
# $e^{1.5} = 4.4817$: for each token it is as uncertain as if it had to guess among about four and a half
# equally likely ones.
#
# </details>

# %%
# Q5, recomputed
assert round(np.exp(1.5), 4) == 4.4817

# %% [markdown]
# ### Q6. Ten classes, label smoothing $\varepsilon = 0.1$: what is the smallest possible loss, and where?
#
# <details><summary>Answer</summary>
#
# The target is $q = 0.91$ for the right class and $0.01$ for each of the nine others. The loss is smallest
# where $y = q$, and there it equals the entropy of $q$: $-0.91 \ln 0.91 - 9 \cdot 0.01 \ln 0.01 = 0.5003$.
# The logits differ by $\ln(0.91 / 0.01) = \ln 91 = 4.5109$. So a perfect model can have a smoothed loss of
# 0.5: never compare losses with and without smoothing.
#
# </details>

# %%
# Q6, recomputed
q = smooth_targets(np.array([0]), 10, 0.1)
assert np.allclose(q[0, :2], [0.91, 0.01])
best = np.zeros((1, 10))
best[0, 0] = np.log(91)
assert round(smoothed_loss(best, q), 4) == 0.5003 and round(np.log(91), 4) == 4.5109
assert np.allclose(softmax(best) - q, 0)  # the gradient is 0 there

# %% [markdown]
# ### Q7. What does softmax's backward return for $g = (c, c, \ldots, c)$? Why must it be so?
#
# <details><summary>Answer</summary>
#
# Zeros: $\sum_i g_i y_i = c \sum_i y_i = c$, so $y_j (c - c) = 0$. It must be so, because then
# $L = c \sum_i y_i = c$ is a constant.
#
# </details>

# %%
# Q7, recomputed
assert np.allclose(softmax_backward(np.full(5, 3.0), softmax(rng.standard_normal(5))), 0)

# %% [markdown]
# ### Q8. Softmax of two logits is a function you know already. Which?
#
# <details><summary>Answer</summary>
#
# The sigmoid of their difference: $e^a / (e^a + e^b) = 1 / (1 + e^{-(a - b)})$. For $a - b = 2$ it is
# $0.8808$.
#
# </details>

# %%
# Q8, recomputed
a, b = 2.5, 0.5
assert (
    np.isclose(softmax(np.array([a, b]))[0], 1 / (1 + np.exp(-(a - b))))
    and round(1 / (1 + np.exp(-2)), 4) == 0.8808
)

# %% [markdown]
# ## What was left out
#
# - Targets that are probabilities, weights for rare classes, and losses for independent yes-or-no questions:
#   all in `minigrad/functional/losses.py`.
# - Computing softmax in one pass over blocks, with a running maximum, so that a long row never has to be in
#   memory at once: lesson 16.
# - The second derivative: the Hessian of log-sum-exp is the Jacobian of softmax, so cross-entropy is convex
#   in the logits. Lesson 18 differentiates twice.
# - Rounding errors in detail: Blanchard, Higham & Higham show that the shifted formulas are accurate, and by
#   how much.
#
# ## Sources
#
# - J. Bridle (1990), *Training stochastic model recognition algorithms as networks can lead to maximum mutual
#   information estimation of parameters*, NIPS 2: softmax and its name.
# - I. Goodfellow, Y. Bengio, A. Courville (2016), *Deep Learning*, sections 4.1 (overflow and underflow) and
#   6.2.2.3 (softmax units).
# - P. Blanchard, D. Higham, N. Higham (2021), *Accurately computing the log-sum-exp and softmax functions*,
#   IMA Journal of Numerical Analysis 41.
# - C. Szegedy et al. (2016), *Rethinking the Inception architecture for computer vision*, section 7: label
#   smoothing.
# - G. Hinton, O. Vinyals, J. Dean (2015), *Distilling the knowledge in a neural network*, section 2, equation
#   1: temperature.
# - A. Vaswani et al. (2017), *Attention is all you need*, section 5.4: label smoothing of 0.1.
#
# ## Exercises
#
# `python -m tutorials start 05` puts a file with seven functions to write into your own folder: `softmax`,
# `softmax_backward`, `logsumexp`, `log_softmax`, `log_softmax_backward`, `cross_entropy` and
# `cross_entropy_backward`. `python -m tutorials check 05` tests them and explains what is wrong. Every model
# in the rest of this course uses them in its loss, and attention in lesson 08 uses softmax.
