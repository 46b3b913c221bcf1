# %% [markdown]
# # 06 · Modules, optimizers, training
#
# *Reading: 40 minutes. Exercises: 60 minutes. Needs: lessons 02, 03, 04, 05.*
#
# You have a loss and its gradient. How do random numbers become a network that gives right answers, and what
# do the dozen settings on the way (learning rate, momentum, warm-up, decay, dropout ...) really do?
#
# **You will be able to:**
#
# - write a Module that finds its own parameters, and a multi-layer perceptron with its backward in plain
#   NumPy;
# - choose the size of the initial weights, and show what happens to deep networks otherwise;
# - derive momentum and Adam with its bias correction, and compute three steps of each by hand;
# - say why AdamW is not Adam with an L2 penalty, and what clipping and a learning-rate schedule are for;
# - train a network, and know what to check, and in which order, if it does not learn.

# %%
import numpy as np
from matplotlib.figure import Figure

import minigrad as mg
import minigrad.nn.functional as F
from minigrad import nn, optim
from minigrad.gradcheck import gradcheck_pair
from models.mlp import MLP
from tutorials import figures, show

rng = np.random.default_rng(6)
np.set_printoptions(precision=4, suppress=True)

# %% [markdown]
# ## Intuition: how long a step?
#
# The gradient is the direction in which the loss rises fastest. Go a little in the opposite direction and
# repeat: that is gradient descent, and all of training is a variation of it. How far should a step go? The
# simplest loss gives the answer. Take $f(x) = \frac{\kappa}{2} x^2$, a parabola of *curvature* $\kappa$. Its
# gradient is $\kappa x$, so a step with learning rate $\eta$ gives
#
# $$x_{t+1} = x_t - \eta \kappa x_t = (1 - \eta \kappa) x_t$$
#
# Each step multiplies $x$ by the same number. $x$ shrinks if $|1 - \eta \kappa| < 1$, that is, if
# $0 < \eta < 2 / \kappa$. With $\eta = 1 / \kappa$ one step reaches the minimum; above $2 / \kappa$ each step
# overshoots more than the one before.

# %%
for rate in (0.1, 1.0, 1.9, 2.1):
    x = 1.0
    for _ in range(20):
        x -= rate * x  # curvature 1
    print(f"learning rate {rate}: after 20 steps x = {x:8.4f}")
assert np.isclose(x, (1 - 2.1) ** 20)

# %% [markdown]
# A network has as many directions as parameters, and each has its own curvature. **The steepest direction
# limits the learning rate, and with that rate the flattest direction hardly moves.** In a narrow valley plain
# descent jumps from side to side, or creeps along the floor. Momentum and Adam are two answers.

# %%
figure, found = figures.drawn(figures.loss_surface)
for name in ("SGD", "Adam"):
    distance = np.linalg.norm(found[name][-1] - found["lowest"])
    print(f"{name:4} after 60 steps is {distance:.2f} from the lowest point")
show(figure, "SGD and Adam on the way down a narrow valley: SGD creeps along the floor, Adam arrives")

# %% [markdown]
# ## Definition
#
# A **multi-layer perceptron** (MLP) with one hidden layer maps $N$ examples of $D$ numbers to $N$ rows of $C$
# logits:
#
# $$H = \mathrm{relu}(X W_1^T + b_1) \qquad Z = H W_2^T + b_2$$
#
# $X$ is $(N, D)$, $W_1$ $(K, D)$, $b_1$ $(K)$, $H$ $(N, K)$, $W_2$ $(C, K)$, $b_2$ $(C)$, $Z$ $(N, C)$. The
# weights are stored as (out, in), as in PyTorch, hence the transposes. $\mathrm{relu}(x) = \max(0, x)$.
# Without it, the two linear maps would together be only one linear map.
#
# Let $x$ be all parameters, $g_t$ the gradient of the loss at step $t = 1, 2, \ldots$, $\eta$ the learning
# rate. All operations below are elementwise.
#
# **SGD** (stochastic gradient descent: the gradient is computed on a random part of the data, a *batch*):
#
# $$x \leftarrow x - \eta g_t$$
#
# **SGD with momentum** $\mu$ (0.9, say), in PyTorch's form; $v_0 = 0$:
#
# $$v_t = \mu v_{t-1} + g_t \qquad x \leftarrow x - \eta v_t$$
#
# **Adam** (Kingma & Ba 2015, algorithm 1), with $\beta_1 = 0.9$, $\beta_2 = 0.999$, $\epsilon = 10^{-8}$;
# $m_0 = v_0 = 0$:
#
# $$m_t = \beta_1 m_{t-1} + (1 - \beta_1) g_t \qquad v_t = \beta_2 v_{t-1} + (1 - \beta_2) g_t^2$$
#
# $$\hat m_t = \frac{m_t}{1 - \beta_1^t} \qquad \hat v_t = \frac{v_t}{1 - \beta_2^t}
# \qquad x \leftarrow x - \eta \frac{\hat m_t}{\sqrt{\hat v_t} + \epsilon}$$
#
# **AdamW** (Loshchilov & Hutter 2019) also shrinks the parameters themselves, separately from that step:
# $x \leftarrow (1 - \eta \lambda) x$, with the *weight decay* $\lambda$.
#
# **Clipping** (Pascanu et al. 2013): if the gradient of *all* parameters, as one long vector, is longer than
# $c$, it is scaled to the length $c$.

# %% [markdown]
# ## A worked example by hand
#
# **Momentum**, on $f(x) = x^2 / 2$, whose gradient is $x$. Start at $x = 1$, $\eta = 0.1$, $\mu = 0.9$:
#
# | step | $g$ | $v = 0.9 v + g$ | $x$ |
# | --- | --- | --- | --- |
# | 1 | 1 | 1 | 0.9 |
# | 2 | 0.9 | 1.8 | 0.72 |
# | 3 | 0.72 | 2.34 | 0.486 |
#
# Plain SGD would be at $0.9^3 = 0.729$: with momentum the steps grow.
#
# **Adam**, on gradients that happen to be $2, 2, -4$. Start at $x = 1$, $\eta = 0.1$:
#
# | step | $g$ | $m$ | $v$ | $\hat m$ | $\hat v$ | $x$ |
# | --- | --- | --- | --- | --- | --- | --- |
# | 1 | 2 | 0.2 | 0.004 | 0.2/0.1 = 2 | 0.004/0.001 = 4 | 1 - 0.1 · 2/2 = 0.9 |
# | 2 | 2 | 0.38 | 0.007996 | 0.38/0.19 = 2 | 0.007996/0.001999 = 4 | 0.9 - 0.1 · 2/2 = 0.8 |
# | 3 | -4 | -0.058 | 0.023988 | -0.058/0.271 = -0.214 | 0.023988/0.002997 = 8.004 | 0.8 + 0.1 · 0.214/2.829 = 0.8076 |
#
# Look at the first step: its length is exactly $\eta$. With a gradient of 2000 it would be the same. Adam
# divides by the gradient's own size, so the learning rate *is* the length of a step, as long as the gradients
# have the same sign. In step 3 the gradient changes its sign. Then the mean $\hat m$ is small, and so is the
# step.


# %%
def momentum_step(x, g, v, lr, momentum=0.9):
    v = momentum * v + g
    return x - lr * v, v


def adam_step(x, g, m, v, t, lr, betas=(0.9, 0.999), eps=1e-8):
    """t counts from 1."""
    m = betas[0] * m + (1 - betas[0]) * g
    v = betas[1] * v + (1 - betas[1]) * g * g
    mean, square = m / (1 - betas[0] ** t), v / (1 - betas[1] ** t)
    return x - lr * mean / (np.sqrt(square) + eps), m, v


x, v = 1.0, 0.0
for expected in (0.9, 0.72, 0.486):
    x, v = momentum_step(x, x, v, lr=0.1)
    assert np.isclose(x, expected)
x, m, v = 1.0, 0.0, 0.0
for t, (g, expected) in enumerate([(2, 0.9), (2, 0.8), (-4, 0.8075649)], 1):
    x, m, v = adam_step(x, g, m, v, t, lr=0.1)
    print(f"step {t}: m {m:.6f}  v {v:.6f}  x {x:.7f}")
    assert np.isclose(x, expected, atol=1e-6)

# %% [markdown]
# minigrad's optimizers make the same steps (`minigrad/optim/optimizer.py`; they process all parameters
# together, in pieces that fit into the processor's cache).

# %%
p = mg.tensor([1.0], dtype=mg.float64, requires_grad=True)
optimizer = optim.Adam([p], lr=0.1)
for g in (2.0, 2.0, -4.0):
    p.grad = mg.tensor([g], dtype=mg.float64)
    optimizer.step()
print("minigrad's Adam:", p.data)
assert np.isclose(p.item(), x)

# %% [markdown]
# ## Derivation
#
# ### Why Adam divides by $1 - \beta^t$
#
# Unroll $m_t = \beta m_{t-1} + (1 - \beta) g_t$, starting from $m_0 = 0$:
#
# $$m_t = (1 - \beta) \sum_{i=1}^{t} \beta^{t-i} g_i$$
#
# It is a weighted sum of all gradients so far, and the recent ones have the largest weights. With the
# geometric series $1 + \beta + \ldots + \beta^{t-1} = (1 - \beta^t) / (1 - \beta)$ the weights sum to
# $1 - \beta^t$. If all gradients have the same mean $\bar g$, the mean of $m_t$ is $(1 - \beta^t) \bar g$:
# too small by that factor, because $m$ started at 0. So divide by the factor, and $\hat m_t$ is a proper
# average (Kingma & Ba 2015, section 3). The same holds for $v_t$ and $g^2$.
#
# Without the correction, the first step would be $0.1 g / \sqrt{0.001 g^2} = 3.16$ times as long as it should
# be, and the tenth 6.5 times. Both averages start too small, but the second one, under the square root, stays
# too small for much longer.

# %%
beta, t = 0.9, 7
weights = (1 - beta) * beta ** np.arange(t)[::-1]
print("weights of 7 gradients", weights, " sum", weights.sum())
assert np.isclose(weights.sum(), 1 - beta**t)
for t in (1, 10, 100, 1000, 5000):
    factor = (1 - 0.9**t) / np.sqrt(1 - 0.999**t)
    print(f"step {t:4}: without the correction a step is {factor:.3f} times as long")
assert np.isclose(0.1 / np.sqrt(0.001), 3.16, atol=0.01)

# %% [markdown]
# ### How large the initial weights must be
#
# One output of a linear map is $y = \sum_{i=1}^{n} w_i x_i$, with $n$ inputs (the *fan-in*). Let the $w_i$ be
# independent of each other and of the $x_i$, with mean 0 and variance $\sigma_w^2$. The mean of $y^2$,
# written $E[y^2]$, is then
#
# $$E[y^2] = \sum_{i,j} E[w_i w_j] E[x_i x_j] = \sum_i \sigma_w^2 E[x_i^2] = n \sigma_w^2 E[x^2]$$
#
# because $E[w_i w_j]$ is 0 for $i \ne j$. So **each linear map multiplies the mean square by**
# $n \sigma_w^2$. A relu after the map halves the mean square: $y$ is positive or negative with equal
# probability, and the negative half becomes 0. To keep the size through any number of layers, we need
#
# $$\frac{n \sigma_w^2}{2} = 1 \quad \Rightarrow \quad \sigma_w = \sqrt{\frac{2}{n}}$$
#
# (He et al. 2015, equation 10; without relu it is $\sqrt{1/n}$.) With any other choice the outputs grow or
# shrink exponentially with depth, and so do the gradients on the way back.


# %%
def sizes_by_layer(std, depth=30, width=256, examples=64):
    """The root mean square of the outputs of each layer of a relu network."""
    r = np.random.default_rng(0)
    x, found = r.standard_normal((examples, width)), []
    for _ in range(depth):
        x = np.maximum(x @ (std * r.standard_normal((width, width))), 0)
        found.append(np.sqrt((x * x).mean()))
    return found


good = np.sqrt(2 / 256)
figure = Figure(figsize=(7, 3.8), layout="constrained")
axes = figure.add_subplot()
axes.set_title("The initial weights decide whether a deep relu network keeps its signal", fontsize=11)
looks = ((2, "#D55E00", "s"), (1, "#0072B2", "o"), (0.5, "#009E73", "^"))
for factor, colour, marker in looks:
    label = rf"standard deviation {factor:g} $\cdot \sqrt{{2/n}}$ = {factor * good:.3f}"
    axes.semilogy(
        range(1, 31), sizes_by_layer(factor * good), color=colour, marker=marker, markersize=3, label=label
    )
axes.set(xlabel="layer", ylabel="size of its outputs (root mean square)", ylim=(1e-10, 1e14))
axes.legend()
show(
    figure,
    "Outputs of 30 relu layers: level with the right initial weights, exponentially up or down otherwise",
)

# %%
final = {factor: sizes_by_layer(factor * good)[-1] for factor in (0.5, 1, 2)}
print({factor: f"{size:.1e}" for factor, size in final.items()})
assert 0.3 < final[1] < 3 and final[2] > 1e8 and final[0.5] < 1e-8  # 2^30 is 1e9

# %% [markdown]
# ### The backward of an MLP
#
# This needs nothing new. Let $G = \partial L / \partial Z$, of shape $(N, C)$, be the incoming gradient (for
# cross-entropy it is $(Y - T)/N$, lesson 05). Lesson 03 gave the rules of the product:
#
# $$\frac{\partial L}{\partial W_2} = G^T H \qquad \frac{\partial L}{\partial b_2} = \sum_n G_n
# \qquad \frac{\partial L}{\partial H} = G W_2$$
#
# relu passes the gradient on where its input $A = X W_1^T + b_1$ was positive, and 0 elsewhere. With
# $G_1 = (G W_2) \cdot [A > 0]$, of shape $(N, K)$:
#
# $$\frac{\partial L}{\partial W_1} = G_1^T X \qquad \frac{\partial L}{\partial b_1} = \sum_n G_{1,n}
# \qquad \frac{\partial L}{\partial X} = G_1 W_1$$
#
# The shapes alone nearly determine these formulas: $\partial L / \partial W_2$ must be $(C, K)$, and $G^T H$
# is the only product of $G$ $(N, C)$ and $H$ $(N, K)$ with that shape.

# %% [markdown]
# ## Code: the network, by hand


# %%
def mlp(x, w1, b1, w2, b2):
    return np.maximum(x @ w1.T + b1, 0) @ w2.T + b2


def mlp_backward(g, x, w1, b1, w2, b2):
    """The gradients of all five arguments, given the output's gradient."""
    a = x @ w1.T + b1  # (N, K)
    g1 = (g @ w2) * (a > 0)  # (N, K)
    return g1 @ w1, g1.T @ x, g1.sum(0), g.T @ np.maximum(a, 0), g.sum(0)


shapes = (5, 3), (4, 3), (4,), (2, 4), (2,)  # N, D, K, C = 5, 3, 4, 2
arrays = [rng.standard_normal(shape) for shape in shapes]
print("logits", mlp(*arrays).shape, " gradients", [d.shape for d in mlp_backward(np.ones((5, 2)), *arrays)])

# %% [markdown]
# ### Modules: finding the parameters
#
# With five arrays you can still write out all names. With five hundred you cannot: the optimizer needs a
# list, and saving needs names. A **Module** is an object that holds parameters and other modules as
# attributes, and can list them. It needs nothing more:


# %%
class Module:
    def named_parameters(self, prefix=""):
        for name, value in vars(self).items():
            if isinstance(value, Module):
                yield from value.named_parameters(f"{prefix}{name}.")
            elif isinstance(value, mg.Tensor) and value.requires_grad:
                yield prefix + name, value


one = Module()
one.weight, one.constant = mg.zeros(2, 3, requires_grad=True), mg.zeros(2)
print([name for name, _ in one.named_parameters()])


# %%
class Linear(Module):
    def __init__(self, inputs, outputs):
        first = rng.standard_normal((outputs, inputs)) * np.sqrt(2 / inputs)
        self.weight = mg.tensor(first, requires_grad=True)
        self.bias = mg.tensor(np.zeros(outputs), requires_grad=True)

    def __call__(self, x):
        return x @ self.weight.T + self.bias


class Net(Module):
    def __init__(self):
        self.hidden, self.out = Linear(2, 16), Linear(16, 3)

    def __call__(self, x):
        return self.out(mg.relu(self.hidden(x)))


print([(name, p.shape) for name, p in Net().named_parameters()])

# %% [markdown]
# ### The same in minigrad
#
# `minigrad/nn/module.py` is this class, plus what daily use needs. A parameter that occurs twice is listed
# once. Constants (*buffers*: a mask, a table) are saved with the parameters but not trained. States are saved
# and loaded by name. A plain list of modules, in which no parameter would be found, raises an error.
# `minigrad/nn/linear.py` holds `Linear`, `models/mlp.py` the MLP, `minigrad/optim/` the optimizers and
# schedules, and `minigrad/nn/init.py` the initial values.

# %%
mg.manual_seed(0)
model = MLP(2, 16, 3)
print(model)
print(
    [(name, p.shape) for name, p in model.named_parameters()],
    sum(p.numel() for p in model.parameters()),
    "parameters",
)
assert sum(p.numel() for p in model.parameters()) == 2 * 16 + 16 + 16 * 3 + 3 == 99

# %% [markdown]
# ## Gradient check

# %%
assert gradcheck_pair(mlp, mlp_backward, arrays)
print("the MLP's backward agrees with finite differences in x, w1, b1, w2 and b2")
try:
    gradcheck_pair(mlp, lambda g, x, w1, b1, w2, b2: mlp_backward(g, x, w1, b1, w2, b2)[:4] + (g,), arrays)
except AssertionError as error:
    print(error)
else:
    raise SystemExit("the missing sum was not caught")

# %% [markdown]
# ## Training
#
# ### Data
#
# The data are three spiral arms with a little noise: no straight line separates them. Half is for training.
# The optimizer never sees the other half, which shows whether the network also works on new data.


# %%
def spirals(count, noise=0.2, seed=0):
    """count points in each of three arms -> x (3 count, 2), label (3 count,)."""
    r = np.random.default_rng(seed)
    label = np.repeat(np.arange(3), count)
    radius = r.uniform(0.1, 1, 3 * count)
    angle = 2 * np.pi * label / 3 + 4 * radius + noise * r.standard_normal(3 * count)
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], -1).astype(np.float32), label


x_train, y_train = spirals(100, seed=0)
x_test, y_test = spirals(100, seed=1)
print(x_train.shape, np.bincount(y_train))

# %% [markdown]
# ### The loop
#
# Every training loop has the same five lines: take a batch, compute the loss, clear the old gradients, run
# backward, make a step. Data are shuffled anew in each *epoch* (one pass over all of them), labels together
# with their inputs.


# %%
def batches(x, y, size, rng):
    """One epoch: batches of (x, y) in a random order; the last one may be smaller."""
    order = rng.permutation(len(x))
    for start in range(0, len(x), size):
        chosen = order[start : start + size]
        yield x[chosen], y[chosen]


print("one epoch:", [len(labels) for _, labels in batches(x_train, y_train, 128, rng)])


# %%
def train(model, optimizer, epochs=60):
    """The mean loss of each epoch."""
    r, losses = np.random.default_rng(0), []
    for _ in range(epochs):
        total = 0.0
        for x, y in batches(x_train, y_train, 50, r):
            loss = F.cross_entropy(model(mg.tensor(x)), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(x)
        losses.append(total / len(x_train))
    return losses


def accuracy(model, x, y):
    return float((model(mg.tensor(x)).data.argmax(-1) == y).mean())


mg.manual_seed(0)
print("an untrained net's accuracy:", round(accuracy(MLP(2, 64, 64, 3), x_test, y_test), 3))


# %% [markdown]
# ### First: overfit one batch
#
# Before you train for long, take ten examples and train on them alone. A network with thousands of parameters
# must be able to memorize ten answers, even random ones. If the loss does not go to nearly 0, there is a
# mistake in the code, and more data will not fix it. And look at the very first loss: with three classes it
# should be near $\ln 3 = 1.0986$ (lesson 05).

# %%
mg.manual_seed(0)
model = MLP(2, 64, 64, 3)
optimizer = optim.Adam(model.parameters(), lr=0.01)
few, answers = mg.tensor(x_train[::30]), rng.integers(3, size=10)
for step in range(201):
    loss = F.cross_entropy(model(few), answers)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step in (0, 50, 200):
        print(f"step {step:3}: loss {loss.item():.4f}")
assert loss.item() < 0.05 and round(np.log(3), 4) == 1.0986

# %% [markdown]
# ### Three optimizers, one start

# %%
makers = {
    "SGD": lambda p: optim.SGD(p, lr=0.1),
    "SGD with momentum 0.9": lambda p: optim.SGD(p, lr=0.1, momentum=0.9),
    "Adam": lambda p: optim.Adam(p, lr=0.01),
}
curves = {}
for name, make in makers.items():
    mg.manual_seed(0)  # the same initial weights for each
    model = MLP(2, 64, 64, 3)
    curves[name] = train(model, make(model.parameters()))
    print(f"{name:22} loss {curves[name][-1]:.4f}  test accuracy {accuracy(model, x_test, y_test):.3f}")
assert curves["Adam"][-1] < curves["SGD"][-1] and accuracy(model, x_test, y_test) > 0.9

# %% [markdown]
# Be careful with such comparisons: each optimizer needs its own learning rate. Momentum 0.9 makes steps ten
# times as long (Q3), so give plain SGD a rate ten times as high before you call it slow.

# %%
mg.manual_seed(0)
fair = MLP(2, 64, 64, 3)
losses = train(fair, optim.SGD(fair.parameters(), lr=1.0))
print(f"SGD with lr = 1.0: loss {losses[-1]:.4f}  test accuracy {accuracy(fair, x_test, y_test):.3f}")
assert losses[-1] < 0.1 * curves["SGD"][-1]

# %% [markdown]
# On this small problem the two are then equally good. The advantage of Adam is a rate that does not depend on
# the size of the gradients. Multiply the loss by a thousand, and Adam takes the same path, while SGD's steps
# become a thousand times as long.

# %%
ends = []
for units in (1.0, 1000.0):
    x, m, v = 1.0, 0.0, 0.0
    for t in range(1, 31):
        x, m, v = adam_step(x, units * x, m, v, t, lr=0.02)  # the loss is units * x^2 / 2
    ends.append(x)
print(
    f"Adam after 30 steps: {ends[0]:.4f}, {ends[1]:.4f}   "
    f"SGD after one step: {1 - 0.02:.2f}, {1 - 0.02 * 1000:.2f}"
)
assert np.isclose(*ends, atol=1e-6)

# %%
axis = np.linspace(-1.2, 1.2, 150)
grid = np.stack(np.meshgrid(axis, axis), -1).reshape(-1, 2).astype(np.float32)
borders = model(mg.tensor(grid)).data.argmax(-1).reshape(150, 150)
figure = Figure(figsize=(7.2, 3.6), layout="constrained")
left, right = figure.subplots(1, 2)
colours = ("#0072B2", "#D55E00", "#009E73")
left.contourf(axis, axis, borders, levels=[-0.5, 0.5, 1.5, 2.5], colors=colours, alpha=0.3)
for k, (colour, marker) in enumerate(zip(colours, "os^")):
    left.scatter(*x_test[y_test == k].T, s=8, color=colour, marker=marker, label=f"arm {k}")
left.set_title("A net of 64 + 64 units finds the arms", fontsize=10)
left.set(xlabel="first input", ylabel="second input", aspect="equal")
for (name, losses), colour, line in zip(curves.items(), colours, ("-", "--", ":")):
    right.semilogy(range(1, 61), losses, line, color=colour, label=name)
right.set_title("The same start, three optimizers", fontsize=10)
right.set(xlabel="epoch", ylabel="training loss")
right.legend(fontsize=8)
show(
    figure,
    "Left: the network's answer at each point, and test points; right: the loss of SGD, momentum and Adam",
)

# %% [markdown]
# ### Weight decay: L2 is not AdamW
#
# To keep weights small, you can add $\frac{\lambda}{2} \lVert x \rVert^2$ to the loss; its gradient is
# $\lambda x$ (an *L2 penalty*). In SGD that is the same as shrinking $x$ by the factor $1 - \eta \lambda$. In
# Adam it is not: $\lambda x$ is added to $g$ and then divided by $\sqrt{\hat v}$, the size of $g$. Parameters
# with large gradients hardly decay, those with small gradients decay strongly. AdamW takes the decay out of
# the gradient and shrinks all parameters by the same factor. Here are two kinds of parameters that start at 1
# and get only noise as gradients, of size 100 and 0.01:

# %%
for kind in (optim.Adam, optim.AdamW):
    p = mg.tensor(np.ones((2, 500)), requires_grad=True)
    optimizer, r = kind([p], lr=1e-3, weight_decay=0.1), np.random.default_rng(0)
    for _ in range(1000):
        p.grad = mg.tensor(np.array([[100.0], [0.01]]) * r.standard_normal((2, 500)))
        optimizer.step()
    means = p.data.mean(-1)
    print(f"{kind.__name__:5}: large gradients {means[0]:.3f}, small gradients {means[1]:.3f}")
print(f"(1 - 0.0001)^1000 = {(1 - 1e-4) ** 1000:.3f}")
assert np.allclose(means, (1 - 1e-4) ** 1000, atol=0.01)

# %% [markdown]
# Usually only weight *matrices* are decayed, not biases and not the scales of norms. Put them into two
# groups: `optim.AdamW([{"params": matrices}, {"params": others, "weight_decay": 0}])`.
#
# ### Dropout, and the two modes of a module
#
# Dropout (Srivastava et al. 2014) sets each element to 0 with probability $p$ during training, so that no
# unit (one neuron of a layer) can rely on any single other one. The remaining elements are divided by
# $1 - p$: with a mask $k$ that is 1 with probability $1 - p$, the mean of $k x / (1 - p)$ is
# $(1 - p) x / (1 - p) = x$. So in evaluation, when nothing is dropped, the next layer gets inputs of the same
# average size as in training. Backward multiplies by the same mask and the same $1 / (1 - p)$.
#
# A module therefore has two modes, set by `model.train()` and `model.eval()`. They affect only dropout and
# similar layers.


# %%
def dropout(x, keep, p):
    """keep: booleans of x's shape."""
    return x * keep / (1 - p)


x = rng.standard_normal((200, 500)) + 3
keep = rng.random(x.shape) >= 0.3
print("mean before", x.mean().round(3), " after", dropout(x, keep, 0.3).mean().round(3))
assert abs(dropout(x, keep, 0.3).mean() - x.mean()) < 0.02
assert gradcheck_pair(dropout, lambda g, x, keep, p: g * keep / (1 - p), [x[:3, :4], keep[:3, :4], 0.3])

layer = nn.Dropout(0.3)
print("training:", layer(mg.ones(6)).data, " evaluation:", layer.eval()(mg.ones(6)).data)

# %% [markdown]
# ### Clipping and schedules
#
# Now and then a batch has a gradient a hundred times longer than usual (often in recurrent networks, lesson
# 07), and one SGD step along it undoes an hour of training. Clipping limits the *length* of the whole
# gradient and keeps its direction. It must use one length for all parameters: clipping each array alone would
# change the direction.
#
# The learning rate need not be constant. **Warm-up** starts with small steps while Adam's averages contain
# few gradients and vary a lot (Liu et al. 2020). After that the rate falls along half a cosine, so that the
# last steps no longer jump around the minimum (Loshchilov & Hutter 2017). With $w$ warm-up steps, $T$ steps
# in all, and step $s = 0, 1, \ldots$:
#
# $$\eta_s = \eta \frac{s + 1}{w} \quad (s < w)
# \qquad \eta_s = \frac{\eta}{2} \left( 1 + \cos \left( \pi \frac{s - w}{T - w} \right) \right)
# \quad (w \le s \le T)$$


# %%
def clip_grad_norm(grads, max_norm):
    norm = np.sqrt(sum((g * g).sum() for g in grads))
    return [g * min(1.0, max_norm / norm) for g in grads], norm


def warmup_cosine(step, warmup, total):
    if step < warmup:
        return (step + 1) / warmup
    return 0.5 * (1 + np.cos(np.pi * min(1.0, (step - warmup) / (total - warmup))))


clipped, norm = clip_grad_norm([np.array([3.0]), np.array([0.0, 4.0])], max_norm=1.0)
print("norm", norm, " clipped", clipped)
assert norm == 5 and np.allclose(clipped[0], 0.6) and np.allclose(clipped[1], [0, 0.8])
optimizer = optim.SGD([mg.zeros(1, requires_grad=True)], lr=1.0)
schedule = optim.lr_scheduler.WarmupCosineLR(optimizer, warmup_steps=4, total_steps=20)
for step in range(21):
    assert np.isclose(schedule.get_last_lr()[0], warmup_cosine(step, 4, 20))
    schedule.step()
print("fraction of the rate:", np.array([warmup_cosine(step, 4, 20) for step in range(0, 21, 2)]))

# %% [markdown]
# ## Edge cases
#
# - **A gradient of exactly 0**: SGD does not move; Adam divides $0$ by $0 + \epsilon$ and does not move. With
#   momentum, and in Adam after other gradients, the parameter moves on along the old mean. AdamW still decays
#   it.
# - **No gradient at all** (`None`, an unused parameter): minigrad skips the parameter and does not decay it.
#   That differs from a gradient of 0.
# - **Clipping a gradient of norm 0**: the factor must not be $c / 0$. Ours uses `min(1, ...)`, and NumPy
#   would print a warning; minigrad scales only if the norm exceeds $c$.
# - **Dropout with $p = 0$** changes nothing. **With $p = 1$** everything is 0, not $0 / 0$: minigrad treats
#   it separately.
# - **The last batch** may be smaller. If the loss is a mean, its examples have more weight than the others;
#   over many epochs, in random order, that evens out.

# %%
print("dropout p = 1:", F.dropout(mg.ones(3), 1.0).data, " p = 0:", F.dropout(mg.ones(3), 0.0).data)
p = mg.ones(1, requires_grad=True)
unused = mg.ones(1, requires_grad=True)
optimizer = optim.AdamW([p, unused], lr=0.1, weight_decay=0.5)
p.grad = mg.zeros(1)
optimizer.step()
print("AdamW, gradient 0:", p.data, "  without a gradient:", unused.data)
assert np.isclose(p.item(), 0.95) and unused.item() == 1
assert [len(y) for _, y in batches(x_train, y_train, 128, rng)] == [128, 128, 44]

# %% [markdown]
# ## Pitfalls: programs that break
#
# **Why `zero_grad`?** backward *adds* to `.grad`, because a value that is used twice must collect both
# contributions (lesson 01). Between steps you have to clear it. Without `zero_grad` each step goes along the
# sum of all gradients since the beginning. That is a momentum of 1, which forgets nothing, so the parameters
# overshoot and oscillate.


# %%
def descend(forget, steps=60):
    p = mg.tensor([1.0], requires_grad=True)
    optimizer, path = optim.SGD([p], lr=0.1), []
    for _ in range(steps):
        if forget:
            optimizer.zero_grad()
        (p * p / 2).sum().backward()
        optimizer.step()
        path.append(p.item())
    return np.array(path)


print("with zero_grad:   ", descend(True)[9::10])
print("without zero_grad:", descend(False)[9::10])
assert abs(descend(True)[-1]) < 0.01 and np.abs(descend(False)[-20:]).max() > 0.9

# %% [markdown]
# **All initial weights equal, or 0.** Then all units of a layer compute the same, get the same gradient and
# stay equal for ever: 64 units do the work of one. With zeros it is worse: the hidden units are 0, the
# gradients of the weights around them are 0 too, and only the last bias learns.

# %%
for value in (0.0, 0.1):
    mg.manual_seed(0)
    model = MLP(2, 64, 3)
    for p in model.parameters():
        nn.init.constant_(p, value)
    train(model, optim.Adam(model.parameters(), lr=0.01), epochs=20)
    hidden = next(model.parameters()).data
    different = len(np.unique(hidden, axis=0))
    print(
        f"initial weights {value}: {different} different unit(s), "
        f"accuracy {accuracy(model, x_test, y_test):.2f}"
    )
    assert different == 1

# %% [markdown]
# **Forgetting `eval()`.** With dropout switched on, the answers are noisy and worse, and the same input gets
# different answers.

# %%
mg.manual_seed(1)
model = MLP(2, 64, 64, 3, dropout=0.5)
train(model, optim.AdamW(model.parameters(), lr=0.01))
in_training = [accuracy(model, x_test, y_test) for _ in range(5)]
model.eval()
in_evaluation = [accuracy(model, x_test, y_test) for _ in range(2)]
print("dropout on: ", np.array(in_training), "  off:", np.array(in_evaluation))
assert in_evaluation[0] == in_evaluation[1] >= np.mean(in_training) and len(set(in_training)) > 1

# %% [markdown]
# **Adam's $t$ counted from 0.** Then $1 - \beta^0 = 0$, and the first step divides by 0. Count from 1,
# separately for each parameter.
#
# **Inputs shuffled, labels not** (or shuffled separately). Nothing crashes; the loss stays near
# $\ln 3 = 1.0986$. Shuffle *indices*, and use them for both.
#
# **Judging by the training loss.** It falls even for random labels, as you saw above. Judge by data that the
# optimizer has never seen.
#
# **A learning rate copied from another optimizer.** SGD's rate multiplies the gradient, Adam's is a length.
# At 0.1 every weight moves by 0.1 in Adam's first step, which is more than the standard deviation of the
# initial weights of a layer of width 256 (0.088, as we saw).
#
# If a network does not learn, check in this order: (1) Is the first loss $\ln C$? (2) Can it overfit one
# batch? (3) Are the gradients right (lesson 04), and none of them 0 or NaN? (4) Is the learning rate 10 times
# too large, or too small? (5) Do inputs and labels belong together?

# %%
with np.errstate(divide="ignore", invalid="ignore"):
    print("t = 0:", adam_step(np.array([1.0]), np.array([2.0]), 0.0, 0.0, 0, lr=0.1)[0])

mg.manual_seed(0)
model = MLP(2, 64, 64, 3)
optimizer, r, losses = optim.Adam(model.parameters(), lr=0.01), np.random.default_rng(0), []
for _ in range(30):
    # two orders
    for (x, _), (_, y) in zip(batches(x_train, y_train, 50, r), batches(x_train, y_train, 50, r)):
        loss = F.cross_entropy(model(mg.tensor(x)), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
print(f"labels shuffled separately: mean loss of the last epochs {np.mean(losses[-30:]):.3f}")
assert abs(np.mean(losses[-30:]) - np.log(3)) < 0.05

# %% [markdown]
# ## Practice questions

# %% [markdown]
# ### Q1. $f(x) = 5 x^2$. Above which learning rate does descent diverge? Where is $x$ after 10 steps at 0.21?
#
# <details><summary>Answer</summary>
#
# $f = \frac{\kappa}{2} x^2$ with $\kappa = 10$, so above $2 / \kappa = 0.2$. At 0.21 each step multiplies by
# $1 - 2.1 = -1.1$; after ten steps $x$ is $1.1^{10} = 2.5937$ times where it started.
#
# </details>

# %%
# Q1, recomputed
x = 1.0
for _ in range(10):
    x -= 0.21 * 10 * x
assert np.isclose(x, 1.1**10) and round(1.1**10, 4) == 2.5937

# %% [markdown]
# ### Q2. How long is Adam's first step if the gradient is 0.001? If it is 1000?
#
# <details><summary>Answer</summary>
#
# $\hat m_1 = g$ and $\hat v_1 = g^2$, so the step is $\eta g / (|g| + \epsilon)$: $\eta$ in both cases, to at
# least five digits (for 0.001 it is $0.99999 \eta$).
#
# </details>

# %%
# Q2, recomputed
for g in (0.001, 1000.0):
    step = -adam_step(0.0, g, 0.0, 0.0, 1, lr=1.0)[0]
    assert abs(step - 1) < 1.1e-5

# %% [markdown]
# ### Q3. The gradient is $g$ in every step. How fast does SGD with momentum 0.9 move in the end?
#
# <details><summary>Answer</summary>
#
# $v = 0.9 v + g$ converges to $v = g / (1 - 0.9) = 10 g$. So it moves ten times as fast as plain SGD; when
# you switch momentum on, divide the learning rate by 10.
#
# </details>

# %%
# Q3, recomputed
v = 0.0
for _ in range(200):
    _, v = momentum_step(0.0, 1.0, v, lr=0.1)
assert np.isclose(v, 10)

# %% [markdown]
# ### Q4. Twenty relu layers of width 256 start with weights of deviation 0.01. How large is the output?
#
# <details><summary>Answer</summary>
#
# Let the inputs have size 1. Each layer multiplies the root mean square by $0.01 \sqrt{256 / 2} = 0.1131$.
# Twenty of them give $0.1131^{20} = 1.2 \cdot 10^{-19}$. Beside the biases that is nothing: the output no
# longer depends on the input, and the gradients of the first layers are as small.
#
# </details>

# %%
# Q4, recomputed
factor = 0.01 * np.sqrt(256 / 2)
measured = sizes_by_layer(0.01, depth=20)[-1]
print(f"predicted {factor**20:.1e}, measured {measured:.1e}")
assert round(factor, 4) == 0.1131 and 1.1e-19 < factor**20 < 1.3e-19 and 0.3 < measured / factor**20 < 3

# %% [markdown]
# ### Q5. Two parameters have gradients $(3)$ and $(0, 4)$. What does clipping to norm 1 give? And to norm 10?
#
# <details><summary>Answer</summary>
#
# Both together have the length $\sqrt{9 + 16} = 5$. Norm 1: everything times $0.2$, so $(0.6)$ and
# $(0, 0.8)$. Norm 10: nothing changes, because clipping never makes a gradient longer.
#
# </details>

# %%
# Q5, recomputed
short, norm = clip_grad_norm([np.array([3.0]), np.array([0.0, 4.0])], 1.0)
assert norm == 5 and np.allclose(np.concatenate(short), [0.6, 0, 0.8])
assert np.allclose(
    np.concatenate(clip_grad_norm([np.array([3.0]), np.array([0.0, 4.0])], 10.0)[0]), [3, 0, 4]
)

# %% [markdown]
# ### Q6. How much memory do a million float32 parameters need in training with Adam, without layer outputs?
#
# <details><summary>Answer</summary>
#
# The parameters, their gradients, $m$ and $v$: four arrays of a million numbers of 4 bytes each, 16,000,000
# bytes. SGD without momentum needs half of that.
#
# </details>

# %%
# Q6, recomputed
parameter = np.zeros(1_000_000, np.float32)
assert 4 * parameter.nbytes == 16_000_000 and 2 * parameter.nbytes == 8_000_000

# %% [markdown]
# ### Q7. Dropout with $p = 0.1$ keeps the mean of a number $x$. What is the variance of the result?
#
# <details><summary>Answer</summary>
#
# The result is $x / 0.9$ with probability 0.9, else 0. Its mean square is $0.9 \cdot x^2 / 0.81 = x^2 / 0.9$,
# so the variance is $x^2 / 0.9 - x^2 = 0.1111 x^2$. In general it is $x^2 p / (1 - p)$. This noise is the
# purpose of dropout.
#
# </details>

# %%
# Q7, recomputed
assert round(1 / 0.9 - 1, 4) == 0.1111 and np.isclose(1 / 0.9 - 1, 0.1 / 0.9)
noisy = dropout(np.full(1_000_000, 2.0), rng.random(1_000_000) >= 0.1, 0.1)
assert abs(noisy.mean() - 2) < 0.01 and abs(noisy.var() - 4 / 9) < 0.01

# %% [markdown]
# ### Q8. Adam without the bias correction: how wrong is step 1, and how wrong is step 1000?
#
# <details><summary>Answer</summary>
#
# A step is $(1 - \beta_1^t) / \sqrt{1 - \beta_2^t}$ times what it should be: $0.1 / \sqrt{0.001} = 3.1623$ at
# step 1, $1 / \sqrt{1 - 0.999^{1000}} = 1.2576$ at step 1000. With the usual settings the effect is gone
# after a few thousand steps.
#
# </details>

# %%
# Q8, recomputed
assert round(0.1 / np.sqrt(0.001), 4) == 3.1623
assert round((1 - 0.9**1000) / np.sqrt(1 - 0.999**1000), 4) == 1.2576

# %% [markdown]
# ## What was left out
#
# - Normalization layers, with which the initial weights matter less: lesson 12.
# - Why deep networks that can fit random labels still work well on new data. This is mostly an open question
#   (Zhang et al. 2017).
# - Nesterov's momentum and AMSGrad (both in `minigrad/optim/optimizer.py`), second-order methods, mixed
#   precision.
# - The schedule of the Transformer's paper, $d_{model}^{-0.5} \min(t^{-0.5}, t w^{-1.5})$: `NoamLR` in
#   `minigrad/optim/lr_scheduler.py`, used in lesson 13.
#
# ## Sources
#
# - D. Kingma, J. Ba (2015), *Adam: a method for stochastic optimization*, algorithm 1 and section 3 (bias
#   correction).
# - I. Loshchilov, F. Hutter (2019), *Decoupled weight decay regularization*, algorithm 2 (AdamW); (2017),
#   *SGDR: stochastic gradient descent with warm restarts* (the cosine).
# - B. Polyak (1964), *Some methods of speeding up the convergence of iteration methods*: momentum. I.
#   Sutskever et al. (2013), *On the importance of initialization and momentum in deep learning*.
# - K. He et al. (2015), *Delving deep into rectifiers*, equation 10; X. Glorot, Y. Bengio (2010),
#   *Understanding the difficulty of training deep feedforward neural networks*: the initial weights.
# - R. Pascanu, T. Mikolov, Y. Bengio (2013), *On the difficulty of training recurrent neural networks*:
#   clipping.
# - L. Liu et al. (2020), *On the variance of the adaptive learning rate and beyond*: warm-up.
# - C. Zhang et al. (2017), *Understanding deep learning requires rethinking generalization*: networks fit
#   random labels.
# - N. Srivastava et al. (2014), *Dropout: a simple way to prevent neural networks from overfitting*.
#
# ## Exercises
#
# `python -m tutorials start 06` puts a file with eight functions to write into your own folder: `sgd_step`,
# `adam_step`, `clip_grad_norm`, `warmup_cosine`, `minibatches`, `mlp_backward`, `dropout` and
# `dropout_backward`. `python -m tutorials check 06` tests them. Together they are everything a training loop
# needs besides a model.
