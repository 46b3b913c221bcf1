# %% [markdown]
# # 17 · Write your own op
#
# *Reading: 30 minutes. Exercises: 60 minutes. Needs: lessons 02, 04, 05.*
#
# Lesson 02 built a table of rules. How do you add a row of your own, so that the new op composes, has second
# derivatives, and can be trusted?
#
# **You will be able to:**
# - write a function and one rule for each of its arguments, and register them;
# - choose samples at which a check can fail, and see that it catches wrong rules;
# - say what a rule may read, and what that costs in memory;
# - write an op with several results, and one whose gradient is not its derivative;
# - put a fast kernel beside a readable definition, and know when the engine uses which.

# %%
import time

import numpy as np

import minigrad as mg
from minigrad import viz
from minigrad.engine.graph import oldest_first
from minigrad.engine.table import RULES
from minigrad.gradcheck import GradcheckError, gradcheck, gradgradcheck, locate
from tutorials import show

rng = np.random.default_rng(0)

# %% [markdown]
# ## Intuition
#
# To the engine an op is a black box with two methods. Forward takes arrays and returns an array. Backward
# takes one number for each element of that array, namely how much the loss changes with it, and returns the
# same for each element of the *inputs*. The engine does not care what happens inside, so a box of yours is as
# good as any other.
#
# When do you need one? A function composed of ops needs no rule. A row of your own is worth it if the
# composition
#
# - is slow or keeps too much memory (one op instead of ten),
# - is numerically poor (log of a sum of exponentials),
# - does not exist (a function from another library, computed on bare arrays),
# - or has a gradient you do not want (rounding, whose slope is 0).
#
# ## Definition: a row
#
# Let $y = f(x_1, \dots, x_n)$ with arrays of any shapes, and let $L$ be the loss. The row of $f$ has one
# **rule** for each argument:
#
# $$
# (g, y, x_1, \dots, x_n) \;\mapsto\; \frac{\partial L}{\partial x_i} = \sum_k g_k \, \frac{\partial y_k}{\partial x_i},
# \qquad g = \frac{\partial L}{\partial y}
# $$
#
# The sum runs over all elements $y_k$ of the value. $g$ has the shape of $y$, and the result has the shape of
# $x_i$. This is a vector times a Jacobian, hence *vjp*, but the Jacobian is never built. For an elementwise
# function the sum has one term, and the rule is $g \cdot f'(x)$.
#
# In code: `rule(g, y, *args, **kwargs)`, and `mg.defvjp(f, rule_1, ..., rule_n)` puts the row into the table.
#
# ## By hand: squash
#
# Our example is the "squashing" function of Sabour et al. (2017, equation 1), for single numbers, with a
# parameter instead of the 1:
#
# $$\text{squash}(x, a) = \frac{x \, |x|}{a + x^2}$$
#
# At x = 2, a = 1 it is 4/5. Large x are mapped close to ±1, small ones close to 0.
#
# ## Derivation
#
# The derivative of $x|x|$ is $2|x|$: for $x > 0$ we differentiate $x^2$, for $x < 0$ we differentiate $-x^2$
# and get $-2x = 2|x|$. Then comes the quotient rule:
#
# $$
# \frac{\partial}{\partial x} \frac{x|x|}{a + x^2} = \frac{2|x| (a + x^2) - x|x| \, 2x}{(a + x^2)^2}
# = \frac{2a|x|}{(a + x^2)^2}
# $$
#
# because $x|x| \cdot 2x = 2|x| x^2$ cancels. The derivative with respect to $a$, with $z$ for the value, is
#
# $$\frac{\partial}{\partial a} \frac{x|x|}{a + x^2} = -\frac{x|x|}{(a + x^2)^2} = -\frac{z}{a + x^2}$$
#
# At x = 2, a = 1 these are 4/25 = 0.16 and -4/25 = -0.16. With g = 10, the rules return 1.6 and -1.6.

# %%
x, a, h = 2.0, 1.0, 1e-6


def squashed(x, a):
    return x * abs(x) / (a + x * x)


assert squashed(x, a) == 0.8
slope_x = (squashed(x + h, a) - squashed(x - h, a)) / (2 * h)
slope_a = (squashed(x, a + h) - squashed(x, a - h)) / (2 * h)
assert abs(slope_x - 0.16) < 1e-9 and abs(slope_a + 0.16) < 1e-9
print(f"squash(2, 1) = {squashed(x, a)}, slopes {slope_x:.6f} and {slope_a:.6f}")

# %% [markdown]
# ## Code: the function, and what happens without a row
#
# With `mg.dispatched`, a function on arrays can also be called with tensors. It then hands the call to the
# engine, as NumPy's own functions do. (`np.tanh` of a tensor works by the same protocol of NumPy, NEP 18.)
# The engine unwraps the arrays, runs your function on them, and records the call. If there is no row, it
# raises an error:

# %%


@mg.dispatched
def squash(x, a):
    return x * np.abs(x) / (a + x * x)


print("on arrays:", squash(np.array([2.0, -2.0]), 1.0))
try:
    squash(mg.tensor([2.0], requires_grad=True), 1.0)
except NotImplementedError as error:
    print(error)

# %% [markdown]
# ## The row

# %%
mg.defvjp(
    squash,
    lambda g, _z, x, a: g * 2 * a * np.abs(x) / (a + x * x) ** 2,
    lambda g, z, x, a: -g * z / (a + x * x),
)

x, a = mg.tensor(2.0, requires_grad=True), mg.tensor(1.0, requires_grad=True)
(10 * squash(x, a)).backward()
print("gradients:", x.grad.item(), a.grad.item())
assert np.allclose([x.grad.item(), a.grad.item()], [1.6, -1.6])

# %% [markdown]
# Without `dispatched` the function would still work: it would use the operators of tensors, five ops instead
# of one. Here are both graphs, with the same value and the same gradients.

# %%
x, a = mg.tensor(2.0, requires_grad=True), mg.tensor(1.0, requires_grad=True)
composed = x * np.abs(x) / (a + x * x)
show(viz.graph(composed, names={"x": x, "a": a}), "squash composed of ops: every step is recorded")

# %%
show(
    viz.graph(squash(x, a), names={"x": x, "a": a}), "squash as an op of its own: one box, the same gradients"
)
nodes = len(oldest_first([composed.node])), len(oldest_first([squash(x, a).node]))
print(f"{nodes[0]} ops, and {nodes[1]}")
assert nodes == (5, 1)

# %% [markdown]
# **Shapes.** The rules do not mention them. `a` may be a number, a row or a whole array. If broadcasting
# stretched it, the engine sums the gradient to the argument's shape (lesson 02). So a rule returns its
# gradient in the argument's shape *or* in the shape the argument was stretched to.

# %%
x = mg.tensor(rng.standard_normal((3, 4)), requires_grad=True)
for shape in ((), (4,), (3, 1), (3, 4)):
    a = mg.tensor(np.full(shape, 0.7), requires_grad=True)
    squash(x, a).sum().backward()
    print(f"a of shape {shape!s:7} has a gradient of shape {a.grad.shape}")
    assert a.grad.shape == shape

# %% [markdown]
# ## Samples, and the gradient check
#
# A check is only as good as its inputs. Choose random ones in float64, not all positive, one of them
# broadcast, and none at a kink. (At x = 0 the second derivative of squash jumps from -2/a to 2/a, and a
# difference taken across the jump measures neither.) `gradcheck` sends a *random* gradient backward, because
# with all ones errors can cancel (lesson 05's softmax).

# %%
x = mg.tensor(rng.standard_normal((3, 4)), requires_grad=True)
a = mg.tensor(rng.random(4) + 0.5, requires_grad=True)
assert gradcheck(squash, [x, a])
assert gradgradcheck(squash, [x, a])
print("squash: first and second derivatives agree with finite differences")

# %% [markdown]
# Look at the second check again: nobody wrote second derivatives. The same two rules were run *on tensors*,
# recorded, and differentiated (lesson 18).

# %%
figure_x = np.linspace(-4, 4, 161)
step = 1e-5


def slopes(a):
    t = mg.tensor(figure_x, requires_grad=True)
    return mg.grad(squash(t, a).sum(), t)[0].data, (
        squash(figure_x + step, a) - squash(figure_x - step, a)
    ) / (2 * step)


print("at x = -4, by the rule and measured:", *(round(float(s[0]), 9) for s in slopes(1.0)))

# %%


def picture():
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 3.4), layout="constrained")
    figure.suptitle("The rule's slope (lines) is what finite differences measure (dots)")
    left, right = figure.subplots(1, 2)
    for a, colour in ((0.1, "#0072B2"), (1.0, "#D55E00"), (4.0, "#009E73")):
        by_rule, measured = slopes(a)
        left.plot(figure_x, squash(figure_x, a), color=colour, label=f"a = {a:g}")
        right.plot(figure_x, by_rule, color=colour)
        right.plot(figure_x[::4], measured[::4], ".", color=colour)
    left.set(title="squash(x, a)", xlabel="x", ylabel="value")
    right.set(title="its slope by x", xlabel="x", ylabel="slope")
    left.legend()
    return figure


show(picture(), "The rule gives the slope that finite differences measure, for three values of a")

# %% [markdown]
# ## Wrong rules are caught
#
# A check that never fails proves nothing. So let us make the usual mistakes in the rule, and see whether each
# is caught:

# %%
right = RULES[squash]
spoiled = {
    "the 2 forgotten": lambda g, _z, x, a: g * a * np.abs(x) / (a + x * x) ** 2,
    "the wrong sign": lambda g, _z, x, a: -g * 2 * a * np.abs(x) / (a + x * x) ** 2,
    "a thousandth too much": lambda g, _z, x, a: 1.001 * g * 2 * a * np.abs(x) / (a + x * x) ** 2,
    "the bars of |x| forgotten": lambda g, _z, x, a: g * 2 * a * x / (a + x * x) ** 2,
}
for name, rule in spoiled.items():
    mg.defvjp(squash, rule, right.rules[1])
    try:
        gradcheck(squash, [x, a])
        raise SystemExit("not caught: " + name)
    except GradcheckError as error:
        print(f"{name}:\n   {str(error).splitlines()[1].strip()[:120]}")
RULES[squash] = right

# %% [markdown]
# In a larger computation the question is *which* op is wrong. `locate(loss)` compares each node's rule alone
# with differences of its own function, and names the first that fails:

# %%
mg.defvjp(squash, spoiled["the 2 forgotten"], right.rules[1])
loss = (squash(mg.tanh(x) * 3, a) * mg.exp(x)).sum()
print(str(locate(loss)).splitlines()[0].split(",")[0])
RULES[squash] = right
assert locate((squash(mg.tanh(x) * 3, a) * mg.exp(x)).sum()).ok

# %% [markdown]
# ## What a rule reads: names with an underscore
#
# The first rule calls the value `_z`. The underscore is a promise: the rule reads at most the shape and dtype
# of that argument, so the engine need not keep its elements. How much memory does that save? We take one
# argument of 100,000 float32 numbers, itself the result of an op:

# %%
big = mg.randn(1000, 100, requires_grad=True)


def kept(fun):
    return viz.kept_for_backward(fun(big * 1, mg.tensor(1.0)))


print("composed of ops:    ", kept(lambda x, a: x * np.abs(x) / (a + x * x)), "bytes kept")
print("own row, _z:        ", kept(squash), "bytes kept")
mg.defvjp(squash, lambda g, z, x, a: g * 2 * a * np.abs(x) / (a + x * x) ** 2, right.rules[1])
print("own row, z instead: ", kept(squash), "bytes kept")
assert 400_000 < kept(squash) // 2 < 401_000
RULES[squash] = right
assert 400_000 < kept(squash) < 401_000

# %% [markdown]
# These are four arrays, one and two. A broken promise shows as soon as the array has really been freed:

# %%


@mg.dispatched
def sinh(x):
    return np.sinh(x)


mg.defvjp(sinh, lambda g, _y, _x: g * np.cosh(_x))  # says it does not read x, and does
x = mg.tensor(rng.standard_normal(3), requires_grad=True)
try:
    mg.grad(sinh(x * 2).sum(), x)
    raise SystemExit("the broken promise was not detected")
except TypeError as error:
    print("TypeError:", error)
mg.defvjp(sinh, lambda g, _y, x: g * np.cosh(x))
assert gradcheck(lambda x: sinh(x * 2), [x])

# %% [markdown]
# Check an op after another op (`sinh(x * 2)`), as here. The elements of a leaf are always there, so on a leaf
# the broken promise would pass.
#
# The promise has a second use. If an array that a rule reads is *changed* before backward, the gradient would
# be wrong, and the engine raises an error. An array that no rule reads may change freely.
#
# Often there is a choice. The slope of tanh is $1 - y^2$ or $1/\cosh^2 x$. Should the rule read the value or
# the argument? Usually the value: the next op often keeps it as its argument anyway, so it costs nothing.
#
# ## An op with several results
#
# Such an op returns a tuple. Its rules get a tuple `g` with one gradient for each result (zeros for an unused
# result), and the value `z` is a tuple as well. Here are the sine and the cosine of one angle:

# %%


@mg.dispatched
def sin_cos(x):
    return np.sin(x), np.cos(x)


# the derivative of one is the other, up to a sign
mg.defvjp(sin_cos, lambda g, z, _x: g[0] * z[1] - g[1] * z[0])
x = mg.tensor(rng.standard_normal(4), requires_grad=True)
assert gradcheck(sin_cos, [x]) and gradgradcheck(sin_cos, [x])
sine, cosine = sin_cos(x)
(only_cosine,) = mg.grad(cosine.sum(), x)
assert np.allclose(only_cosine.data, -np.sin(x.data))
print("both values used, or one of them:", only_cosine.data.round(4))

# %% [markdown]
# For functions of any number of like arguments (`concatenate`) there is `mg.defvjp_each(fun, rule)`: one rule
# for all of them, which gets the argument's index first, `rule(i, g, y, *args)`. An argument without a
# gradient, such as an index or an axis, has None in the row.
#
# ## A gradient that is not the derivative
#
# The slope of rounding is 0 wherever it exists, so nothing before it would learn. The **straight-through**
# rule passes the gradient on unchanged (Bengio et al. 2013, section 4). The check fails, as it must: it
# compares with the derivative.

# %%


@mg.dispatched
def round_through(x):
    return np.rint(x)


mg.defvjp(round_through, lambda g, _y, _x: g)
w = mg.tensor(3.4, requires_grad=True)
for _ in range(20):
    (g,) = mg.grad((round_through(w) - 6) ** 2, w)
    w = (w - 0.05 * g).detach().requires_grad_()
print(f"w = {w.item():.2f}, rounded {round_through(w).item():.0f}")
assert round_through(w).item() == 6
try:
    gradcheck(round_through, [mg.tensor([0.3, 1.2], dtype=mg.float64, requires_grad=True)])
except GradcheckError as error:
    print(str(error).splitlines()[0])

# %% [markdown]
# ## When speed pays: a definition and its kernel
#
# A slow composition may stay as the readable **definition**. Beside it you put a **kernel**: a forward that
# also returns whatever its backward needs, and a backward that returns all gradients at once. The kernel runs
# wherever a first derivative is enough. For higher derivatives, and in the forward trace, the engine runs
# your definition.
#
# The example is RMS normalization, $y = x / r$ with $r = \sqrt{\tfrac{1}{C} \sum_j x_j^2 + \epsilon}$ over
# each row of length C. For its backward, note that $x_i$ enters $y_i$ directly and every $y_j$ through $r$,
# with $\partial r / \partial x_i = x_i / (C r)$. So
#
# $$
# dx_i = \frac{g_i}{r} - \sum_j g_j \frac{x_j}{r^2} \frac{x_i}{C r}
# = \frac{1}{r} \left( g_i - y_i \, \frac{1}{C} \sum_j g_j y_j \right)
# $$

# %%


@mg.definition
def rms(x, eps=1e-6):
    """x over the root of the mean of its squares, along the last axis."""
    return x / mg.sqrt((x * x).mean(-1, keepdims=True) + eps)


def rms_forward(x, eps):
    scale = 1 / np.sqrt((x * x).mean(-1, keepdims=True) + eps)
    return x * scale, scale


def rms_backward(g, y, scale, needs, x, eps):
    """Return (dx, None): `needs` says which arguments need a gradient, and eps never does."""
    return (g - y * (g * y).mean(-1, keepdims=True)) * scale, None


# %%


def milliseconds(fun, x, times=20):
    found = []
    for _ in range(times):
        start = time.perf_counter()
        fun(x).sum().backward()
        found.append(time.perf_counter() - start)
    return 1e3 * min(found)


x = mg.randn(256, 512, requires_grad=True)
as_composed = rms(x).data, milliseconds(rms, x)
mg.defkernel(rms, rms_forward, rms_backward)
as_kernel = rms(x).data, milliseconds(rms, x)
print(f"forward and backward: composed {as_composed[1]:.2f} ms, kernel {as_kernel[1]:.2f} ms")
assert np.allclose(as_composed[0], as_kernel[0], atol=1e-6)

# %% [markdown]
# Two things must be checked: that the kernel's backward agrees with differences, and that kernel and
# definition are the same function. `gradgradcheck` covers part of both, since its first derivatives come from
# the kernel and its second ones from the definition. For a direct comparison there is `mg.definitions()`,
# inside which no kernel is used:

# %%
x = mg.tensor(rng.standard_normal((3, 4)), requires_grad=True)
with mg.definitions():
    by_definition = rms(x).data
assert np.allclose(rms(x).data, by_definition, atol=1e-12)
assert gradcheck(rms, [x]) and gradgradcheck(rms, [x])
print("rms: the kernel equals its definition, in value and in first and second derivative")

# %% [markdown]
# ## Edge cases
#
# - **Arguments the op does not support**: raise an error in the function itself, and say what is wrong. For
#   shapes that do not broadcast, the engine raises one that names your function.
# - **Large numbers**: a rule may overflow where the function does not. Check a few of them by hand, under
#   `np.errstate(all="raise")`.
# - **Slopes that are infinite at a point** (sqrt at 0): `0 * inf` is NaN. Decide what you want there.
# - **float32**: if a rule brings in a float64 array, the engine converts the gradient to its argument's
#   dtype. But the rule itself computes slowly.

# %%
for attempt in (
    lambda: squash(mg.ones(3, 4), mg.ones(5)),
    lambda: squash(mg.ones(2, requires_grad=True), mg.ones(3)),
):
    try:
        attempt()
    except ValueError as error:
        print(error)

# %% [markdown]
# ## Pitfalls: programs that break
#
# **"The rule gives the wrong shape."** The engine names the op:

# %%
x = mg.tensor(rng.standard_normal((3, 4)), requires_grad=True)
mg.defvjp(squash, lambda g, _z, x, a: (g * 2 * a * np.abs(x) / (a + x * x) ** 2).sum(0), right.rules[1])
try:
    squash(x, 1.0).sum().backward()
    raise SystemExit("the wrong shape passed")
except AssertionError as error:
    print(error)
RULES[squash] = right

# %% [markdown]
# **"I computed exp(x) already, so I keep it."** First derivatives are right, second ones silently wrong: to
# the engine, an array you stored elsewhere is a constant.

# %%
aside = {}


@mg.dispatched
def exponential(x):
    aside["y"] = np.exp(x)
    return aside["y"]


mg.defvjp(exponential, lambda g, _y, _x: g * aside["y"])
x = mg.tensor([1.0, 2.0], dtype=mg.float64, requires_grad=True)
(g,) = mg.grad(exponential(x).sum(), x, create_graph=True)
print("first derivative:", g.data, " is it part of a graph?", g.requires_grad)
assert gradcheck(exponential, [x]) and not g.requires_grad
try:
    gradgradcheck(exponential, [x])
    raise SystemExit("not caught")
except GradcheckError as error:
    print(str(error).splitlines()[1].strip()[:150])

# %% [markdown]
# Instead, take what you need from the value: `lambda g, y, _x: g * y`. A kernel may save whatever it needs,
# because its second derivatives come from the definition.
#
# **"I work in place, to save memory."** The engine may send the same array `g` to several parents. A rule
# must make new arrays.
#
# **"The check passes, so the rule is right."** It is right at that sample. If all x are positive, the check
# does not see that the bars of |x| are missing:

# %%
mg.defvjp(squash, spoiled["the bars of |x| forgotten"], right.rules[1])
positive = mg.tensor(rng.random((3, 4)) + 0.1, requires_grad=True)
one = mg.tensor(np.ones(4), requires_grad=True)
assert gradcheck(squash, [positive, one])
print("the wrong rule passes where all x are positive")
RULES[squash] = right

# %% [markdown]
# ## Practice questions

# %% [markdown]
# ### Q1. Which gradients do the rules of squash return at x = -1, a = 3, with g = 8?
#
# <details><summary>Answer</summary>
#
# The value is -1/4. dz/dx = 2 · 3 · 1 / 16 = 0.375, times 8 is 3. dz/da = -z / (a + x²) = (1/4) / 4 = 0.0625,
# times 8 is 0.5.
#
# </details>

# %%
# Q1, recomputed
x, a = mg.tensor(-1.0, requires_grad=True), mg.tensor(3.0, requires_grad=True)
gx, ga = mg.grad(squash(x, a), (x, a), mg.tensor(8.0))
assert np.allclose([gx.item(), ga.item()], [3.0, 0.5])
print(gx.item(), ga.item())

# %% [markdown]
# ### Q2. Write the row of y = x³. May it read y instead of x?
#
# <details><summary>Answer</summary>
#
# `lambda g, _y, x: g * 3 * x * x`. In terms of y the slope is $3 y^{2/3}$. That is possible, but a power is
# many times slower than a product. Its derivative at 0 also comes out as 0 times infinity, where the
# derivative of $3x^2$ is 0. So read x.
#
# </details>

# %%
# Q2, recomputed


@mg.dispatched
def cube(x):
    return x * x * x


mg.defvjp(cube, lambda g, _y, x: g * 3 * x * x)
x = mg.tensor([-2.0, 0.0, 1.5], dtype=mg.float64, requires_grad=True)
(g,) = mg.grad(cube(x).sum(), x, create_graph=True)
(h,) = mg.grad(g.sum(), x)
assert np.allclose(g.data, [12, 0, 6.75]) and np.allclose(h.data, [-12, 0, 9])
print(g.data, h.data)

# %% [markdown]
# ### Q3. What does the engine keep for np.add, for np.multiply of two computed arrays, and for np.tanh?
#
# <details><summary>Answer</summary>
#
# Nothing for np.add, both arguments for np.multiply, and the value for np.tanh. For arrays of 1,000 float32
# numbers that is 0, 8,000 and 4,000 bytes.
#
# </details>

# %%
# Q3, recomputed
u, v = (mg.randn(1000, requires_grad=True) for _ in range(2))
found = [viz.kept_for_backward(y) for y in ((u + 1) + (v + 1), (u + 1) * (v + 1), mg.tanh(u + 1))]
assert found == [0, 8000, 4000]
print(found)

# %% [markdown]
# ### Q4. A rule is scaled by 1 + 1e-9. Does gradcheck notice?
#
# <details><summary>Answer</summary>
#
# No. Its tolerance is 1e-6 of the largest gradient, and differences in float64 are right to about ten digits,
# not to fifteen. Nobody makes a mistake as small as 1e-9; a factor of 1.001 is caught.
#
# </details>

# %%
# Q4, recomputed
x = mg.tensor(rng.standard_normal((3, 4)), requires_grad=True)
caught = {}
for factor in (1 + 1e-9, 1.001):
    mg.defvjp(
        squash, lambda g, _z, x, a, c=factor: c * g * 2 * a * np.abs(x) / (a + x * x) ** 2, right.rules[1]
    )
    try:
        caught[factor] = not gradcheck(lambda x: squash(x, 1.0), [x])
    except GradcheckError:
        caught[factor] = True
RULES[squash] = right
assert list(caught.values()) == [False, True]
print(caught)

# %% [markdown]
# ### Q5. Only the sine of `sin_cos` is used. What does its rule get as g[1]?
#
# <details><summary>Answer</summary>
#
# Zeros in the cosine's shape, because an unused result has no influence on the loss. So the gradient is g[0]
# cos x.
#
# </details>

# %%
# Q5, recomputed
x = mg.tensor([0.3, 1.0], dtype=mg.float64, requires_grad=True)
(g,) = mg.grad(sin_cos(x)[0].sum(), x)
assert np.allclose(g.data, np.cos(x.data))
print(g.data, np.cos(x.data))

# %% [markdown]
# ### Q6. A kernel's backward is right, but its definition was edited since. Which check finds the difference?
#
# <details><summary>Answer</summary>
#
# gradcheck does not find it: it differentiates the kernel's own forward. gradgradcheck does, since second
# derivatives come from the definition. Comparing the values inside and outside of `mg.definitions()` finds it
# too.
#
# </details>

# %%
# Q6, recomputed


@mg.definition
def rms_edited(x, eps=1e-6):
    return x / (mg.sqrt((x * x).mean(-1, keepdims=True) + eps) + 0.1)


mg.defkernel(rms_edited, lambda x, eps: rms_forward(x, eps), rms_backward)
x = mg.tensor(rng.standard_normal((3, 4)), requires_grad=True)
assert gradcheck(rms_edited, [x])
try:
    second = gradgradcheck(rms_edited, [x])
except GradcheckError:
    second = False
with mg.definitions():
    apart = np.abs(rms_edited(x).data - rms_forward(x.data, 1e-6)[0]).max()
assert not second and apart > 0.01
print("gradcheck passes, gradgradcheck does not; values differ by", apart.round(3))

# %% [markdown]
# ## What was left out
#
# - **Bringing an op into minigrad itself** takes three edits: the function and its name in `minigrad/ops` (in
#   `minigrad/engine/array_functions.py` too if NumPy lacks it), a row in `minigrad/engine/rules.py`, and a
#   sample in `minigrad/gradcheck/samples/ops.py`. The tests go through the table and fail until all three
#   exist. The stepper prints the formula from the rule, and the mutation run makes its own square inputs from
#   the sample.
# - **`python -m minigrad.gradcheck --mutations`** puts mistakes into every rule and kernel and counts how
#   many are caught.
# - **Hooks** (`x.register_hook`) change a gradient during backward without a new op.
# - **Forward mode**: a row here has no rule for it. JAX stores forward rules instead and derives the reverse
#   ones (lesson 18).
# - **PyTorch's way** is a class with static methods `forward` and `backward`; the row is the same thing
#   without the class.
#
# ## Sources
#
# - Sabour, Frosst and Hinton 2017, *Dynamic Routing Between Capsules*, arXiv:1710.09829, equation 1:
#   squashing, of vectors.
# - Bengio, Léonard and Courville 2013, *Estimating or Propagating Gradients Through Stochastic Neurons*,
#   arXiv:1308.3432: straight-through.
# - Zhang and Sennrich 2019, *Root Mean Square Layer Normalization*, arXiv:1910.07467.
# - The table of rules: HIPS autograd, `autograd/numpy/numpy_vjps.py`.
# - NumPy Enhancement Proposal 18: `__array_function__`.
#
# ## Exercises
#
# You will write the rules of five ops: `softplus_rules`, `blend_rules`, `log_sum_exp_rules`, `clamp_rules`
# (straight-through) and `polar_rules` (two results). You will also write a kernel, `rms_norm_kernel`, and a
# checker that tells a right row from a wrong one, `row_is_right`.
#
#     python -m tutorials start 17
