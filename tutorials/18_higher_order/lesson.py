# %% [markdown]
# # 18 · Gradients of gradients
#
# *Reading: 40 minutes. Exercises: 60 minutes. Needs: lessons 02, 04, 06, 17.*
#
# A gradient is computed by ordinary operations. What can you do if these are recorded as well?
#
# **You will be able to:**
# - get second derivatives from the rules you already have, and say why that works;
# - multiply with a Hessian that does not fit into memory, and use one that does for Newton's method;
# - train on a loss that contains a gradient;
# - explain forward and reverse mode, and get each from the other;
# - name the cases in which second derivatives are silently wrong.

# %%
import math
import time

import numpy as np

import minigrad as mg
import minigrad.nn.functional as F
from minigrad import func, nn, optim, viz
from minigrad.engine.graph import oldest_first
from minigrad.engine.table import RULES
from minigrad.gradcheck import gradcheck, gradgradcheck
from tutorials import show

mg.set_default_dtype(mg.float64)  # derivatives of derivatives lose digits; this lesson does not need speed
mg.manual_seed(0)

# %% [markdown]
# ## Intuition
#
# A car has a position, a speed (how fast the position changes) and an acceleration (how fast the speed
# changes). A gradient tells you which way is down. The gradient of the gradient tells you how the slope
# changes: whether the valley is narrow or wide, and about where its floor is.
#
# This needs nothing new. Backward consists of multiplications and additions. If the engine records them as
# well, the gradient has a history, and we can run backward through that history.
#
# ## Definition
#
# For a function $f$ of $n$ numbers that returns a single number:
#
# | name | what it is | shape | cost |
# | --- | --- | --- | --- |
# | gradient $\nabla f$ | $g_i = \partial f / \partial x_i$ | $n$ | one reverse pass |
# | Hessian $H$ | $H_{ij} = \partial g_i / \partial x_j$ | $n \times n$ | $n$ reverse passes through the gradient |
# | Hessian-vector product | $H v$ | $n$ | one reverse pass through the gradient |
#
# For a function of $n$ numbers that returns $m$ numbers, with the Jacobian $J_{ki} = \partial y_k / \partial
# x_i$:
#
# | name | what it is | shape | mode |
# | --- | --- | --- | --- |
# | vjp | $J^T g$: from a gradient of the value to one of the argument | $n$ | reverse |
# | jvp | $J t$: from a direction of the argument to one of the value | $m$ | forward |
#
# $H$ is symmetric where the second derivatives are continuous: then the order of differentiation does not
# matter.
#
# ## A worked example, by hand
#
# $f(x, y) = x^2 y + y^3$ at $(1, 2)$. The value is 2 + 8 = 10. The gradient is $(2xy, \; x^2 + 3y^2) = (4,
# 13)$. Differentiate once more:
#
# $$H = \begin{pmatrix} 2y & 2x \\ 2x & 6y \end{pmatrix} = \begin{pmatrix} 4 & 2 \\ 2 & 12 \end{pmatrix}$$
#
# In the direction $v = (1, 0)$: $Hv = (4, 2)$, the first column.

# %%


def f(p):
    x, y = p
    return x**2 * y + y**3


p = mg.tensor([1.0, 2.0], requires_grad=True)
value = f(p)
(g,) = mg.grad(value, p, create_graph=True)  # a gradient with a history
rows = [mg.grad(g[i], p, retain_graph=True)[0].data for i in range(2)]
print("value", value.item(), " gradient", g.data, " Hessian", *rows)
assert value.item() == 10 and g.data.tolist() == [4, 13] and np.array_equal(rows, [[4, 2], [2, 12]])

# %% [markdown]
# In minigrad, higher orders always need `create_graph=True`. Without it the gradient is a constant, and the
# engine raises an error:

# %%
(bare,) = mg.grad(f(p), p)
try:
    mg.grad(bare.sum(), p)
except RuntimeError as error:
    print(error)

# %% [markdown]
# ## Derivation: why the same rules are enough
#
# Take tanh. Its rule is $g \mapsto g \, (1 - y^2)$, in code `lambda g, y, _x: g * (1 - y * y)`. Called with
# arrays, it returns an array. Called with tensors, it returns a tensor, and the two products and the
# difference are recorded like any computation:

# %%
(rule,) = RULES[np.tanh].rules
x = mg.tensor(0.5, requires_grad=True)
y = mg.tanh(x)
on_arrays, on_tensors = rule(np.array(1.0), y.data, x.data), rule(mg.tensor(1.0), y, x)
print(on_arrays, on_tensors)
assert on_arrays == on_tensors.data and on_tensors.node is not None

# %% [markdown]
# So a reverse pass with tensors instead of arrays *is* a recorded computation, and the chain rule gives its
# derivative. $1 - y^2$ depends on $x$ through $y$, so the second derivative is $-2y \cdot y' = -2y(1 - y^2)$.
# That formula is nowhere in minigrad.

# %%
(first,) = mg.grad(mg.tanh(x), x, create_graph=True)
(second,) = mg.grad(first, x, create_graph=True)
y = math.tanh(0.5)
assert math.isclose(first.item(), 1 - y**2) and math.isclose(second.item(), -2 * y * (1 - y**2))
print(f"tanh'(0.5) = {first.item():.6f}, tanh''(0.5) = {second.item():.6f}")
show(
    viz.graph(first, names={"x": x}, backward=False),
    "The gradient of tanh, as a computation: y is used twice, which is where tanh'' comes from",
)

# %% [markdown]
# We can repeat this. Each order has a larger graph, because every op becomes several ops in the next order.

# %%
derivative, sizes = mg.tanh(x), []
for _order in range(1, 7):
    (derivative,) = mg.grad(derivative, x, create_graph=True)
    sizes.append(len(oldest_first([derivative.node])))
print("ops in the graph of the 1st, 2nd ... derivative of tanh:", sizes)
assert all(b > 1.5 * a for a, b in zip(sizes, sizes[1:], strict=False))

# %% [markdown]
# ## Hessian times vector, without the Hessian
#
# A model with a million parameters has a Hessian of $10^{12}$ elements. Often we only need $Hv$. Take the dot
# product of the gradient and $v$, which is a *single number*, and differentiate that with $v$ fixed:
#
# $$\frac{\partial}{\partial x_i} \sum_j g_j v_j = \sum_j \frac{\partial g_j}{\partial x_i} v_j = \sum_j H_{ij} v_j = (Hv)_i$$
#
# This is a reverse pass over a reverse pass. (Pearlmutter 1994 computes the same product exactly by forward
# mode over reverse.)

# %%


def hvp(f, x, v):
    (g,) = mg.grad(f(x), x, create_graph=True)
    return mg.grad((g * v).sum(), x)[0]


v = mg.tensor([1.0, 0.0])
print("H v =", hvp(f, p, v).data)
assert hvp(f, p, v).data.tolist() == [4, 2]

# %% [markdown]
# Now on a network with 4,417 parameters, whose Hessian would have 20 million elements. How long does a
# product with it take, compared with a gradient?

# %%
model = nn.Sequential(nn.Linear(2, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))
inputs, target = mg.randn(200, 2), mg.randn(200, 1)
parameters = list(model.parameters())
count = sum(q.numel() for q in parameters)
assert count == 4417


def loss():
    return ((model(inputs) - target) ** 2).mean()


def product(vs):
    """Return the Hessian of the loss times a vector, given as one array for each parameter."""
    gs = mg.grad(loss(), parameters, create_graph=True)
    return mg.grad(sum((g * v).sum() for g, v in zip(gs, vs, strict=True)), parameters)


vs = [mg.randn(*q.shape) for q in parameters]
print(count, "parameters; the product has the shapes", [hv.shape for hv in product(vs)])

# %%


def seconds(fun):
    start = time.perf_counter()
    fun()
    return time.perf_counter() - start


plain = min(seconds(lambda: mg.grad(loss(), parameters)) for _ in range(5))
with_hessian = min(seconds(lambda: product(vs)) for _ in range(5))
times = with_hessian / plain
print(
    f"gradient {1e3 * plain:.2f} ms, Hessian times vector {1e3 * with_hessian:.2f} ms: {times:.1f} times "
    "as long"
)

# %% [markdown]
# It takes about as long as a few gradients, however many parameters there are. What is it good for? Repeat $v
# \leftarrow Hv / |Hv|$, and v rotates towards the direction in which the loss curves most (power iteration).
# The curvature in that direction, $\lambda$, limits the step of gradient descent. On a quadratic, each step
# multiplies the error along it by $1 - \eta \lambda$, and the error shrinks only if $\eta < 2 / \lambda$.

# %%


def norm(vs):
    return math.sqrt(sum(float((v.data**2).sum()) for v in vs))


for _ in range(30):
    length = norm(vs)
    vs = [mg.tensor(v.data / length) for v in vs]
    hv = product(vs)
    curvature = sum(float((a.data * b.data).sum()) for a, b in zip(vs, hv, strict=True))
    vs = hv
print(
    f"largest curvature of the loss here: {curvature:.3f}; "
    f"steps beyond 2 / {curvature:.3f} = {2 / curvature:.3f} overshoot"
)

# %% [markdown]
# ## Newton's method
#
# Near $x$ a smooth function looks like $f(x) + g^T s + \tfrac12 s^T H s$ for a small step $s$. Where is
# *that* lowest? Its gradient with respect to s is $g + Hs$, which is zero at
#
# $$s = -H^{-1} g$$
#
# If all curvatures are positive, the quadratic is a bowl and this is its lowest point. Gradient descent knows
# only the slope, so you must choose how far it goes. Newton's step has its own scale. The banana valley of
# Rosenbrock (1960), $f = (1 - x)^2 + 100 (y - x^2)^2$ with its lowest point at (1, 1), shows the difference:

# %%


def banana(p):
    x, y = p
    return (1 - x) ** 2 + 100 * (y - x * x) ** 2


start = np.array([-1.2, 1.0])
newton = [start]
for _ in range(7):
    q = mg.tensor(newton[-1])
    slope, bowl = func.grad(banana)(q).data, func.hessian(banana)(q).data
    newton.append(newton[-1] - np.linalg.solve(bowl, slope))

descent = [start]
for _ in range(5000):
    descent.append(descent[-1] - 0.001 * func.grad(banana)(mg.tensor(descent[-1])).data)
print("Newton:", *(f"{banana(q):.1e}" for q in newton))
print(f"gradient descent after 5,000 steps: {banana(descent[-1]):.1e}")
assert banana(newton[-1]) < 1e-20 < 1e-4 < banana(descent[-1])

# %%


def valley():
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    x, y = np.meshgrid(np.linspace(-1.6, 1.6, 200), np.linspace(-4.2, 2, 200))
    axes.contour(x, y, banana((x, y)), levels=np.logspace(-1, 3.3, 12), colors="#bbbbbb", linewidths=0.7)
    axes.plot(*np.array(descent).T, color="#0072B2", label="gradient descent, 5,000 steps of 0.001")
    axes.plot(*np.array(newton).T, "o-", color="#D55E00", markersize=4, label="Newton, 7 steps")
    axes.plot(1, 1, "*", color="black", markersize=12, label="lowest point")
    axes.set(title="Newton arrives while gradient descent still follows the valley", xlabel="x", ylabel="y")
    axes.legend(loc="lower left")
    return figure


show(
    valley(),
    "Rosenbrock's valley: Newton's method needs 7 steps, gradient descent has not arrived after 5,000",
)

# %% [markdown]
# Look at Newton's second step. It ends where f is 1,400, because the function there is far from its quadratic
# approximation. Practical methods compare the two, and shorten a step that increases f.
#
# Why does nobody train Transformers this way? The Hessian does not fit into memory, solving with it costs
# $n^3$, and the curvature of a batch is noisy. And where the function is not a bowl, Newton goes *towards*
# saddles and peaks, because their slope is zero too (question 3).
#
# ## A loss with a gradient in it
#
# Some losses contain a slope. A *critic* $D$ should change as fast as its input and no faster. So for each
# row, add a penalty if the length of its gradient is not 1 (Gulrajani et al. 2017, equation 3; others
# penalize the squared length itself):
#
# $$\text{penalty} = \frac{1}{N} \sum_i \left( \lVert \nabla_x D(x_i) \rVert - 1 \right)^2$$
#
# To train on it we need its gradient with respect to the *weights*: a derivative by w of a derivative by x.
# Here we fit a network to a jump from 0 to 1, once without a penalty and once with a penalty on its squared
# slope.

# %%
xs = mg.tensor(np.linspace(-1, 1, 40)[:, None])
jump = mg.tensor((xs.data > 0).astype(float))
steepest = {}
for weight in (0.0, 0.1):
    mg.manual_seed(0)
    net = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 1))
    optimizer = optim.Adam(net.parameters(), lr=0.02)
    for _ in range(400):
        at = xs.detach().requires_grad_()
        out = net(at)
        # rows do not depend on each other: one pass for all
        (slope,) = mg.grad(out.sum(), at, create_graph=True)
        total = ((out - jump) ** 2).mean() + weight * (slope**2).mean()
        optimizer.zero_grad()
        total.backward()
        optimizer.step()
    steepest[weight] = np.abs(slope.data).max()
print(f"steepest slope without penalty {steepest[0.0]:.1f}, with it {steepest[0.1]:.1f}")
assert steepest[0.1] < 0.5 * steepest[0.0]

# %% [markdown]
# ## Forward mode: dual numbers
#
# For each value, reverse mode asks how the loss changes with it. **Forward mode** asks how the value changes
# with the *input*. It needs no history, because each number carries its slope along. Write the pair as $a + b
# \varepsilon$ with $\varepsilon^2 = 0$. Here $\varepsilon$ is a small change of the input, $b$ says how
# strongly the number follows it, and the square is too small to matter:
#
# $$(a + b \varepsilon)(c + d \varepsilon) = ac + (ad + bc) \varepsilon$$
#
# Plain arithmetic has given us the product rule. By hand, $(3 + \varepsilon)^2 = 9 + 6 \varepsilon$, and
# indeed $(x^2)' = 6$ at 3.

# %%


class Dual:
    """a + b eps: a value and its slope."""

    def __init__(self, a, b=0.0):
        self.a, self.b = a, b

    def __add__(self, other):
        other = other if isinstance(other, Dual) else Dual(other)
        return Dual(self.a + other.a, self.b + other.b)

    def __mul__(self, other):
        other = other if isinstance(other, Dual) else Dual(other)
        return Dual(self.a * other.a, self.a * other.b + self.b * other.a)

    __radd__, __rmul__ = __add__, __mul__

    def sin(self):
        return Dual(math.sin(self.a), math.cos(self.a) * self.b)


# %%
square = Dual(3, 1) * Dual(3, 1)
out = 2 * (Dual(0.5, 1) * Dual(0.5, 1)).sin() + 1
assert (square.a, square.b) == (9, 6) and math.isclose(out.b, 2 * math.cos(0.25) * 2 * 0.5)
print(f"(3 + eps)^2 = {square.a} + {square.b} eps;  2 sin(x^2) + 1 at 0.5: {out.a:.6f}, slope {out.b:.6f}")

# %% [markdown]
# When do you use which mode? One forward pass gives the slopes of *all outputs* in *one direction* of the
# input: a column of $J$, or $Jt$. One reverse pass gives the slopes of *one output* (or of one weighted sum
# of them) with respect to *all inputs*: a row of $J$, or $J^T g$. Training has one output and millions of
# inputs, so it uses reverse mode. The price is memory: forward mode keeps nothing, but reverse mode must keep
# what its rules read (lesson 16).
#
# ## jvp from two vjps
#
# minigrad has no forward rules, but it still has a jvp, by a trick of Townsend (2017). A vjp, $u(g) = J^T g$,
# is *linear in g*. Now take the vjp of that function with respect to g. Its Jacobian is $J^T$, so its vjp is
# the product with the transpose of $J^T$, which is $J$:
#
# $$\frac{\partial}{\partial g} \left( u(g) \cdot t \right) = \frac{\partial}{\partial g} \left( g^T J \, t \right) = J t$$
#
# The first vjp may start from any $g$: $J^T g$ is linear in $g$, so its derivative with respect to $g$ is the
# same everywhere. With $g = 0$ the vector $J^T g$ is zero, but it is not a constant: it is a function of $g$,
# with a history.

# %%


def jvp(f, x, t):
    y = f(x)
    g = mg.zeros(*y.shape, requires_grad=True)
    (pulled,) = mg.grad(y, x, g, create_graph=True)  # J^T g, as a function of g
    return mg.grad((pulled * t).sum(), g)[0]


def polar(p):
    radius, angle = p
    return mg.stack([radius * mg.cos(angle), radius * mg.sin(angle)])


at, t = mg.tensor([2.0, 0.5], requires_grad=True), mg.tensor([0.0, 1.0])
moved = jvp(polar, at, t)
print("rotating the point (radius 2, angle 0.5) moves it by", moved.data)
assert np.allclose(moved.data, [-2 * math.sin(0.5), 2 * math.cos(0.5)])

# %% [markdown]
# ## Gradient check
#
# There are two ways. A function that *returns* a gradient can be checked like any other. Or call
# `gradgradcheck`, which does this for every input and for the incoming gradient.

# %%
x = mg.tensor(np.random.default_rng(0).standard_normal((3, 4)), requires_grad=True)


def energy(x):
    return (F.softmax(x) * mg.sin(x)).sum()


assert gradcheck(lambda x: mg.grad(energy(x), x, create_graph=True)[0], [x])
assert gradgradcheck(energy, [x])
print("second derivatives agree with finite differences of the first")

# %% [markdown]
# ## The same in minigrad, and in JAX
#
# `minigrad/func.py` has all of these as functions of functions, named as in `torch.func`: `grad`, `vjp`,
# `jvp`, `jacrev`, `hessian`, `hvp`. They can be nested.

# %%
q = mg.tensor([1.0, 2.0])
print("grad     ", func.grad(f)(q).data)
print("hessian  ", func.hessian(f)(q).data.tolist())
print("hvp      ", func.hvp(f, (q,), (v,))[1][0].data)
print("jacrev   ", func.jacrev(polar)(at).data.round(4).tolist())
print("jvp      ", func.jvp(polar, (at,), (t,))[1].data)
print("vjp      ", func.vjp(polar, at)[1](mg.tensor([1.0, 0.0]))[0].data)
assert np.allclose(func.jacrev(polar)(at).data @ t.data, func.jvp(polar, (at,), (t,))[1].data)

# %% [markdown]
# JAX is built on this idea. This table follows its documentation:
#
# | JAX | what it gives | how | here |
# | --- | --- | --- | --- |
# | `jax.jvp` | value and $Jt$ | the basis: each primitive has a forward rule | from two vjps |
# | `jax.vjp`, `jax.grad` | $J^T g$ | forward rules, then *transposed* (Radul et al. 2022) | the basis: the table |
# | `jax.hessian` | $H$ | forward over reverse, `jacfwd(jacrev(f))` | reverse over reverse |
# | `jax.vmap` | f over a batch | every primitive has a rule for one more axis | write the batch axis yourself |
# | `jax.jit` | f compiled | traced once for each shape, then compiled by XLA; no `if` on values | no compiler |
#
# The last two rows are why JAX can do in one pass what `jacrev` here does in a loop, and why you can read
# minigrad in an afternoon.
#
# ## Edge cases
#
# - **A linear function**: its gradient is a constant without a history. `mg.grad` of it raises an error,
#   since there is nothing to differentiate; `func.hessian` returns zeros.
# - **An input that does not matter**: with `allow_unused=True` its gradient is None.
# - **Kernels** (lesson 17): an array that a kernel saved would be a constant for a second derivative. So with
#   `create_graph=True` the engine runs the readable definition again, and differentiates that.

# %%
linear = func.hessian(lambda p: (3 * p).sum())(q)
print("Hessian of a linear function:", linear.data.tolist())
x = mg.tensor([0.3, -1.0], requires_grad=True)
forward_ops = {node.name for node in oldest_first([F.gelu(x).sum().node])}
(g,) = mg.grad(F.gelu(x).sum(), x, create_graph=True)
backward_ops = {node.name for node in oldest_first([g.node])}
print("forward:", sorted(forward_ops), "  in the gradient's history:", sorted(backward_ops)[:6], "...")
assert not linear.data.any() and "erf" in backward_ops - forward_ops and gradgradcheck(F.gelu, [x])

# %% [markdown]
# ## Pitfalls: where second derivatives are silently wrong
#
# **1. A value taken out of the graph is a constant.** `.data`, `.item()` and `.detach()` do that, and so does
# an array stored elsewhere (lesson 17). Here we compute the first derivative of $x^3$ from a detached $x$.
# Its value is right, but its own derivative lacks a term.

# %%
x = mg.tensor(2.0, requires_grad=True)
right, wrong = 3 * x * x, 3 * x * x.detach()
second = mg.grad(right, x)[0].item(), mg.grad(wrong, x)[0].item()
print("first:", right.item(), wrong.item(), "  second:", *second)
assert second == (12, 6)
assert right.item() == wrong.item() == 12

# %% [markdown]
# **2. Kinks.** relu is straight on both sides of 0, so its second derivative is 0 wherever it exists, and the
# kink itself does not show up. As a function of its input, a relu network is a patchwork of planes: its
# Hessian with respect to the input is zero, and Newton's method has nothing to work with. Smooth functions
# are different:

# %%
w = mg.tensor([[1.0, -2.0], [0.5, 1.0]])
for act in (mg.relu, F.softplus, F.gelu):
    h = func.hessian(lambda u, act=act: act(w @ u).sum())(mg.tensor([1.0, 2.0]))
    print(f"{act.__name__:9} Hessian by the input: {np.round(h.data, 4).tolist()}")
assert not func.hessian(lambda u: mg.relu(w @ u).sum())(mg.tensor([1.0, 2.0])).data.any()

# %% [markdown]
# A gradient penalty still trains a relu network: the slope with respect to x is a product of weights, so its
# derivative with respect to the *weights* is not zero.
#
# **3. Stable in value, not in slope.** $\sqrt{x^2}$ is fine at 0, but its slope there is 0/0. A penalty on
# the *length* of a gradient runs into this as soon as a gradient is 0. Use `norm`, whose slope at 0 is
# defined as 0, or add a small number under the root.

# %%
zero = mg.zeros(2)
with np.errstate(divide="ignore", invalid="ignore"):
    by_root = func.grad(lambda u: mg.sqrt((u * u).sum()))(zero).data
by_norm, softened = (
    func.grad(mg.norm)(zero).data,
    func.grad(lambda u: mg.sqrt((u * u).sum() + 1e-12))(zero).data,
)
print("slope of the length at 0: by sqrt", by_root, " by norm", by_norm, " softened", softened)
assert np.isnan(by_root).all() and not by_norm.any() and not softened.any()

# %% [markdown]
# **4. Perturbation confusion.** Forward mode inside forward mode must keep two epsilons apart (Siskind and
# Pearlmutter 2005). $x \cdot \frac{d}{dy}(x + y)$ is $x \cdot 1$, so its derivative with respect to x is 1.
# Our Dual has only one kind of epsilon, and confuses the outer with the inner one:

# %%


def slope(f, a):
    return f(Dual(a, 1)).b


def confused(x):
    inner = (x + Dual(1, 1)).b  # d/dy of x + y at y = 1, but x has an epsilon too
    return x * inner


print("naive duals:", slope(confused, 1.0))
nested = func.grad(lambda x: x * func.grad(lambda y: x + y)(mg.tensor(1.0)))(mg.tensor(1.0))
print("minigrad.func:", nested.item())
assert slope(confused, 1.0) == 2 and nested.item() == 1

# %% [markdown]
# minigrad keeps the levels apart: each transform makes new tensors and differentiates with respect to those.
#
# **5. Second differences of values.** If you check H with $(f(x + h) - 2f(x) + f(x - h)) / h^2$, the rounding
# error is divided by $h^2$: with $h = 10^{-5}$, an error of $10^{-16}$ becomes $10^{-6}$. Take first
# differences of gradients.

# %%
exact, h = -math.sin(1.0), 1e-5
twice = (math.sin(1 + h) - 2 * math.sin(1) + math.sin(1 - h)) / h**2
once = (math.cos(1 + h) - math.cos(1 - h)) / (2 * h)
print(
    f"error of the second difference {abs(twice - exact):.1e}, "
    f"of the difference of gradients {abs(once - exact):.1e}"
)
assert abs(once - exact) < 1e-9 < abs(twice - exact)

# %% [markdown]
# ## Practice questions

# %% [markdown]
# ### Q1. What are gradient and Hessian of f(x, y) = x y at (3, 5)? Is it a bowl there?
#
# <details><summary>Answer</summary>
#
# The gradient is (5, 3), the Hessian [[0, 1], [1, 0]]. Its curvatures (eigenvalues) are 1 along (1, 1), where
# f curves up, and -1 along (1, -1), where it curves down. So it is a saddle, not a bowl.
#
# </details>

# %%
# Q1, recomputed
q = mg.tensor([3.0, 5.0])
g, h = func.grad(lambda p: p[0] * p[1])(q).data, func.hessian(lambda p: p[0] * p[1])(q).data
assert g.tolist() == [5, 3] and h.tolist() == [[0, 1], [1, 0]] and np.allclose(np.linalg.eigvalsh(h), [-1, 1])
print(g, h.tolist(), np.linalg.eigvalsh(h))

# %% [markdown]
# ### Q2. How many Newton steps does a quadratic f = ½ xᵀAx - bᵀx take, with A positive definite?
#
# <details><summary>Answer</summary>
#
# One. Its gradient is Ax - b and its Hessian A, so x - A⁻¹(Ax - b) = A⁻¹b for any starting point. The
# quadratic approximation is the function itself.
#
# </details>

# %%
# Q2, recomputed
A, b = mg.tensor([[3.0, 1.0], [1.0, 2.0]]), mg.tensor([1.0, -1.0])
q = mg.tensor([100.0, -7.0])


def quadratic(x):
    return 0.5 * (x @ (A @ x)) - b @ x


step = q.data - np.linalg.solve(func.hessian(quadratic)(q).data, func.grad(quadratic)(q).data)
assert np.allclose(step, np.linalg.solve(A.data, b.data), atol=1e-10)
print(step, "is A^-1 b")

# %% [markdown]
# ### Q3. Where does one Newton step from (1, 1) lead for f = x² - y²? Is that good?
#
# <details><summary>Answer</summary>
#
# The gradient is (2, -2), the Hessian diag(2, -2) and the step (-1, -1). It leads to (0, 0), a saddle. There
# f is 0, and it is lower everywhere else along y: gradient descent would have moved away from it. Newton
# looks for zero slope, not for low values.
#
# </details>

# %%
# Q3, recomputed
q = mg.tensor([1.0, 1.0])
saddle = (
    func.grad(lambda p: p[0] ** 2 - p[1] ** 2)(q).data,
    func.hessian(lambda p: p[0] ** 2 - p[1] ** 2)(q).data,
)
assert (q.data - np.linalg.solve(saddle[1], saddle[0])).tolist() == [0, 0]
print("from (1, 1) to", q.data - np.linalg.solve(saddle[1], saddle[0]))

# %% [markdown]
# ### Q4. The largest curvature of a loss is λ = 50. For which learning rates does gradient descent not diverge?
#
# <details><summary>Answer</summary>
#
# With those below 2/50 = 0.04. Each step multiplies the distance by 1 - 50η: by -0.95 at 0.039, which shrinks
# it, and by -1.05 at 0.041, which lets it grow. After 100 steps the factors are 0.0059 and 131.5.
#
# </details>

# %%
# Q4, recomputed
ends = [(1 - 50 * rate) ** 100 for rate in (0.039, 0.041)]
assert np.allclose(ends, [0.0059205, 131.5013], rtol=1e-4)
print("distance after 100 steps:", ends)

# %% [markdown]
# ### Q5. A function maps 3 numbers to 1,000. How many passes does its Jacobian take in each mode?
#
# <details><summary>Answer</summary>
#
# Forward mode takes 3 passes, one for each column. Reverse mode takes 1,000, one for each row. For a loss (1
# output, a million inputs) it is a million and 1.
#
# </details>

# %%
# Q5, recomputed
calls = []


def fan(x):
    return mg.sin(x.sum() * mg.tensor(np.arange(1000.0)) / 1000)


at = mg.tensor([0.1, 0.2, 0.3], requires_grad=True)
columns = [jvp(fan, at, mg.tensor(e)).data for e in np.eye(3)]
assert len(columns) == 3 and np.allclose(np.stack(columns, 1), func.jacrev(fan)(at).data)
print(len(columns), "columns make the same Jacobian as", fan(at).numel(), "rows")

# %% [markdown]
# ### Q6. Multiply (2 + 3ε)(4 + 5ε). Which derivative have you computed?
#
# <details><summary>Answer</summary>
#
# 8 + (2·5 + 3·4)ε = 8 + 22ε: the derivative of u·v where u = 2 changes at rate 3 and v = 4 at rate 5.
#
# </details>

# %%
# Q6, recomputed
out = Dual(2, 3) * Dual(4, 5)
assert (out.a, out.b) == (8, 22)
print(out.a, "+", out.b, "eps")

# %% [markdown]
# ### Q7. Does a jvp through minigrad need less memory than a reverse pass, as true forward mode does?
#
# <details><summary>Answer</summary>
#
# No. It runs two reverse passes, and keeps the history of the function and that of the first pass. The result
# is that of forward mode, the cost is not. Ten tanhs in a row on 1,000 numbers keep ten arrays for one
# reverse pass. The graph for the jvp's last pass keeps more.
#
# </details>

# %%
# Q7, recomputed
x = mg.randn(1000, requires_grad=True)
y = x
for _ in range(10):
    y = mg.tanh(y)
alone = viz.kept_for_backward(y)
seed = mg.zeros(1000, requires_grad=True)
(pulled,) = mg.grad(y, x, seed, create_graph=True)
doubled = viz.kept_for_backward(pulled)
assert alone == 10 * 1000 * 8 and doubled > alone
print(f"kept for one reverse pass {alone:,} bytes, for the jvp {doubled:,}")

# %% [markdown]
# ## What was left out
#
# - **Forward mode in the engine**: a forward rule for each row, or transposition as in JAX.
# - **Gauss-Newton and natural gradients**: a curvature that is never negative, from first derivatives of the
#   model's output.
# - **Conjugate gradients**: solving $Hs = -g$ with Hessian-vector products only (Martens 2010).
# - **Taylor mode** for high orders, whose cost does not grow as fast as the sizes above.
# - **Differentiating through an optimizer's steps**, as meta-learning does.
#
# ## Sources
#
# - Pearlmutter 1994, *Fast Exact Multiplication by the Hessian*, Neural Computation 6(1).
# - Townsend 2017, *A new trick for calculating Jacobian vector products* (j-towns.github.io).
# - Siskind and Pearlmutter 2005, *Perturbation Confusion and Referential Transparency*.
# - Gulrajani et al. 2017, *Improved Training of Wasserstein GANs*, arXiv:1704.00028, equation 3.
# - Rosenbrock 1960, *An Automatic Method for Finding the Greatest or Least Value of a Function*.
# - Radul et al. 2022, *You Only Linearize Once*, arXiv:2204.10923.
# - JAX documentation: *The Autodiff Cookbook*; the pages of `vmap` and `jit`.
# - Baydin et al. 2018, *Automatic Differentiation in Machine Learning: a Survey*, arXiv:1502.05767, section
#   3.
#
# ## Exercises
#
# You will write `hvp`, `hessian`, `newton_step`, `largest_curvature`, `gradient_penalty`, `jvp` with two
# vjps, and forward mode as a class, `Dual`.
#
#     python -m tutorials start 18
