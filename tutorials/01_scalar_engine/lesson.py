# %% [markdown]
# # 01 · A scalar engine
#
# *Reading: 50 minutes. Exercises: 60 minutes. Needs: Python, and what a function is.*
#
# A model has thousands of parameters, the numbers that training may change. For each of them, training asks:
# if this number were a little larger, would the result be better or worse? This lesson builds a program that
# answers for all of them at once. The [glossary](../../docs/glossary.md) explains the course's terms in a
# sentence each.
#
# **You will be able to:**
#
# - say what a derivative is, and measure one by nudging;
# - work out the gradient of a small expression by hand, with the chain rule;
# - write an engine that does it for any expression made of `+`, `*`, powers and `tanh`;
# - say why backward needs an order, a `+=`, a 1 to start from, and a `zero_grad`, and show a program that
#   breaks without each;
# - train a small network with nothing but your engine.

# %%
import gc
import inspect
import math
import sys
import time
import weakref
from functools import partial

import numpy as np
from matplotlib.figure import Figure

import minigrad as mg
from minigrad.gradcheck import gradcheck
from minigrad.viz import graph
from tutorials import show
from tutorials.scalar_engine import Value

# %% [markdown]
# ## Intuition: nudge it and look
#
# Take a function and move its input a little. The output moves too. The *derivative*, or slope, says how many
# times as far:
#
# $$ f'(x) \approx \frac{f(x + h) - f(x)}{h} \qquad \text{for a small nudge } h. $$
#
# A derivative of 10 means: at this point, a nudge of 0.001 moves the output by 0.01, ten times as far. A
# negative derivative means that the output moves the other way. That is all the calculus this lesson starts
# from.
#
# Take $f(x) = x^3 - 2x$ at $x = 2$. The rules of calculus give its derivative there as $3x^2 - 2 = 10$. Let
# us see what nudging finds.


# %%
def f(x):
    return x**3 - 2 * x


for h in (1.0, 1e-1, 1e-2, 1e-4, 1e-8, 1e-12, 1e-15):
    print(f"h = {h:7.0e}   slope = {(f(2 + h) - f(2)) / h:.9f}")

# %% [markdown]
# As `h` shrinks, the answer first approaches 10 and then moves away again. A computer stores a number with
# about 16 digits. When `h` is tiny, `f(2 + h)` and `f(2)` agree in nearly all of them, and few correct digits
# are left in the difference. Nudging to both sides, $(f(x+h) - f(x-h))/2h$, is more accurate for the same
# `h`. Lesson 04 is about choosing `h`; until then `1e-6` will do.
#
# ### Why not just nudge?
#
# Because it costs a run of the whole function for every input. Even a small Transformer (lesson 13) has more
# than a hundred thousand parameters, so one step of training would take more than a hundred thousand runs. We
# want all derivatives for about the price of one run. Here is the idea.
#
# A big function is made of small ones: additions, products, powers. We know the derivative of each small one.
# So let the program record what it did. Afterwards it goes back through the record, from the result to the
# inputs, and asks at each step: *how much does the result change if this number changes?* One walk back
# answers for every number on the way.

# %% [markdown]
# ## Definition
#
# The result is one number, $L$ (for *loss*: the number that training makes small). Every number here is a
# single number, a *scalar*, not an array.
#
# - The **gradient** of $x$, written $\partial L / \partial x$: how many times as far $L$ moves when only $x$
#   is nudged. In code, `x.grad`. It is always the derivative *of L*, with respect to $x$.
# - A **graph**: every number is a *node*, with arrows to it from the numbers it was computed from, its
#   *parents*. Numbers that were given, not computed, have no parents. They are the *leaves*.
# - A **local derivative**, or slope, $\partial y / \partial x$, where $x$ is a parent of $y$: how many times
#   as far $y$ moves when $x$ is nudged and $y$'s other parents are held still. It depends only on the one
#   operation that computed $y$, not on $L$.
#
# The **chain rule** connects them:
#
# $$ \frac{\partial L}{\partial x} = \sum_{y : x \text{ is a parent of } y}
#    \frac{\partial L}{\partial y} \cdot \frac{\partial y}{\partial x}
#    \qquad\qquad \frac{\partial L}{\partial L} = 1. $$
#
# In words: a nudge of $x$ reaches $L$ through every number that was computed from $x$. Along each path the
# nudge is multiplied by the local derivative of the first step, and then by the gradient of the number it has
# reached. The contributions of the paths add up. (In $x \cdot x$ the same number is both parents: that is two
# paths.)
#
# Each gradient on the right belongs to a number nearer to $L$. So we start at $L$, whose gradient is 1, and
# go back. That walk is called the *backward pass*, and computing the values before it the *forward pass*.

# %% [markdown]
# ## A worked example by hand
#
# Take $L = (a \cdot b + c) \cdot b$ at $a = 2$, $b = -3$, $c = 10$. Note that $b$ is used twice. Give the
# intermediate values names:
#
# | step | value |
# | --- | --- |
# | $d = a \cdot b$ | $2 \cdot (-3) = -6$ |
# | $e = d + c$ | $-6 + 10 = 4$ |
# | $L = e \cdot b$ | $4 \cdot (-3) = -12$ |
#
# Now back. In a product, each factor's local derivative is the other factor; in a sum it is 1.
#
# | gradient | from |
# | --- | --- |
# | $\partial L/\partial L = 1$ | by definition |
# | $\partial L/\partial e = 1 \cdot b = -3$ | $L = e \cdot b$ |
# | $\partial L/\partial d = -3 \cdot 1 = -3$ | $e = d + c$ |
# | $\partial L/\partial c = -3 \cdot 1 = -3$ | $e = d + c$ |
# | $\partial L/\partial a = -3 \cdot b = 9$ | $d = a \cdot b$ |
# | $\partial L/\partial b = 1 \cdot e + (-3) \cdot a = 4 - 6 = -2$ | **two** uses, in $L$ and in $d$ |
#
# Had we forgotten that $b$ is used twice, we would have got 4 or −6. Nudging settles it.


# %%
def L_of(a, b, c):
    return (a * b + c) * b


def nudged(fun, args, i, h=1e-6):
    """The slope of fun in its i-th argument: both sides, as above."""
    up, down = list(args), list(args)
    up[i] += h
    down[i] -= h
    return (fun(*up) - fun(*down)) / (2 * h)


point = (2.0, -3.0, 10.0)
from_table = (9.0, -2.0, -3.0)  # of a, b, c
by_nudging = [nudged(L_of, point, i) for i in range(3)]
print("L =", L_of(*point), "   by nudging:", np.round(by_nudging, 6))
assert L_of(*point) == -12.0
assert np.allclose(by_nudging, from_table)

# %% [markdown]
# The same as a picture. Values run to the right; the orange arrows are the gradients on their way back. Two
# of them arrive at `b`, and the box says `+=`.

# %%
a, b, c = (mg.tensor(x, requires_grad=True) for x in point)
d = a * b
e = d + c
L = e * b
show(
    graph(L, names=dict(a=a, b=b, c=c, d=d, e=e, L=L)),
    "The graph of L = (a b + c) b: values forward, gradients back, and two of them meet at b.",
)

# %% [markdown]
# ## Derivation: four local derivatives
#
# An engine needs the local derivative of each operation it offers. To find one, nudge and see what happens;
# $h$ is so small that $h^2$ can be ignored.
#
# **Sum.** $(x + h) + y = (x + y) + h$. The output moves by $h$: the slope is $1$, both in $x$ and in $y$.
#
# **Product.** $(x + h) \cdot y = xy + h \cdot y$. The output moves by $y$ times $h$: the slope in $x$ is $y$,
# and in $y$ it is $x$.
#
# **Power** with a fixed exponent $n$. Write $x^n$ as $n$ factors $x$. Nudge them one after the other: each
# time the output moves by $h$ times the product of the $n - 1$ others. Added up, the slope is $n x^{n-1}$.
# (This argument counts factors, so it covers positive integers $n$; the formula holds for every $n$ where
# $x^n$ is defined and smooth. For $n = 0$ the slope is 0.)
#
# **tanh**, which squashes any number to between −1 and 1, is $\tanh x = \sinh x / \cosh x$. From
# $\sinh' = \cosh$, $\cosh' = \sinh$ and the quotient rule:
#
# $$ \tanh' x = \frac{\cosh x \cdot \cosh x - \sinh x \cdot \sinh x}{\cosh^2 x} = 1 - \tanh^2 x. $$
#
# So the slope can be computed from the *output*: if $y = \tanh x$, it is $1 - y^2$. Once $y$ is known, one
# multiplication and one subtraction are enough, without another call of tanh. Let us check all four slopes at
# a point.

# %%
x, y, n = 0.8, -1.5, 3
table = [
    ("x + y  in x", lambda t: t + y, 1.0),
    ("x * y  in x", lambda t: t * y, y),
    ("x**3   in x", lambda t: t**n, n * x ** (n - 1)),
    ("tanh x in x", math.tanh, 1 - math.tanh(x) ** 2),
]
for name, fun, slope in table:
    measured = nudged(fun, [x], 0)
    print(f"{name}: rule {slope:+.8f}   nudging {measured:+.8f}")
    assert abs(slope - measured) < 1e-8

# %% [markdown]
# ## Code, the first engine: each result knows how to send its gradient on
#
# A number remembers its parents and has a small function, `send`: *take my gradient, multiply it by my
# slopes, and add the products to my parents' gradients*. The operation creates that function when it runs, so
# the function can still use the operation's variables later: `self`, `other`, `out`. A function that keeps
# the variables around it is called a *closure*.


# %%
class Number:
    """A number that remembers where it came from. The first engine: with closures."""

    def __init__(self, data, parents=()):
        self.data, self.grad, self.parents = data, 0.0, parents
        self.send = lambda: None  # a leaf has no parents to send to

    def __add__(self, other):
        out = Number(self.data + other.data, (self, other))

        def send():
            self.grad += out.grad  # times 1
            other.grad += out.grad

        out.send = send
        return out


# %% [markdown]
# The product is the same with other slopes. (In one file it would be a method; here it has a cell of its
# own.)


# %%
def multiply(self, other):
    out = Number(self.data * other.data, (self, other))

    def send():
        self.grad += out.grad * other.data
        other.grad += out.grad * self.data

    out.send = send
    return out


Number.__mul__ = multiply

# %% [markdown]
# Now we set the gradient of $L$ to 1 and call `send` by hand, in the order of the table above: first $L$,
# then $e$, then $d$.

# %%
a, b, c = Number(2.0), Number(-3.0), Number(10.0)
d = a * b
e = d + c
L = e * b
L.grad = 1.0
for node in (L, e, d):
    node.send()
print("a, b, c:", a.grad, b.grad, c.grad)
assert (a.grad, b.grad, c.grad) == from_table

# %% [markdown]
# It is the same answer. The program still has to find the order by itself. Engines often get this wrong, so
# we look at the wrong programs first.
#
# ### The program that breaks: sending at every visit
#
# The first idea is to send from a node, then go to each of its parents and do the same.


# %%
def walk(node):
    node.send()
    for parent in node.parents:
        walk(parent)


x = Number(3.0)
y = x + x  # 2x
z = y + y  # 4x, so dz/dx is 4
z.grad = 1.0
walk(z)
print("sending at every visit:", x.grad)
assert x.grad == 8.0  # wrong: it should be 4

# %% [markdown]
# It says 8. `y` is used twice, so it was visited twice, and the second visit sent again what the first visit
# had already sent. (It is slow besides: 40 such doublings are $2^{40}$ visits.) So let us visit each node
# once.


# %%
def walk_once(node, seen):
    if node not in seen:
        seen.add(node)
        node.send()
        for parent in node.parents:
            walk_once(parent, seen)


x = Number(3.0)
y = x + x  # 2x
w = y + x  # 3x
z = y + w  # 5x
z.grad = 1.0
walk_once(z, set())
print("sending at the first visit only:", x.grad)
assert x.grad == 3.0  # wrong: it should be 5

# %% [markdown]
# It says 3. The walk went from `z` straight to `y`, and `y` sent on the gradient 1 that had come from `z`.
# But `y` is used by `w` too, and the contribution from `w` arrived after `y` had sent.
#
# So the rule is: **a number may send only after every number computed from it has sent.** An order with that
# property is called a (reverse) *topological order* of the graph. The usual way to find one: add a node to a
# list after all its parents are in the list; then read the list from its end.


# %%
def parents_first(node, order, seen):
    if node not in seen:
        seen.add(node)
        for parent in node.parents:
            parents_first(parent, order, seen)
        order.append(node)


def backward(z):
    order = []
    parents_first(z, order, set())
    z.grad = 1.0
    for node in reversed(order):
        node.send()


# %%
x = Number(3.0)
y = x + x
backward(y + y)
print("4x, in topological order:", x.grad)
assert x.grad == 4.0

x = Number(3.0)
y = x + x
backward(y + (y + x))
print("5x, in topological order:", x.grad)
assert x.grad == 5.0

# %% [markdown]
# ### The program that breaks: `=` in place of `+=`
#
# In `multiply` we wrote `self.grad += ...`. With `=`, everything works until a number is used twice. Then the
# second contribution overwrites the first, and nothing crashes.


# %%
def careless_product(x, y):
    out = Number(x.data * y.data, (x, y))

    def send():
        x.grad = out.grad * y.data
        y.grad = out.grad * x.data

    out.send = send
    return out


x, y = Number(3.0), Number(5.0)
backward(careless_product(x, y))
print("x * y:", x.grad, "right")
assert x.grad == 5.0
x = Number(3.0)
backward(careless_product(x, x))
print("x * x:", x.grad, "where 2x = 6 is right")
assert x.grad == 3.0

# %% [markdown]
# The `+=` is the sum in the chain rule.
#
# ### The program that breaks: backward twice
#
# The price of `+=` is that something must set the gradients to zero first. Let us run backward twice on the
# same graph.


# %%
def cube():
    x = Number(3.0)
    y = x * x
    return x, y, y * x  # x^3; its derivative 3 x^2 is 27


x, y, z = cube()
backward(z)
first = x.grad
backward(z)
print("once:", first, "  twice:", x.grad)
assert (first, x.grad) == (27.0, 72.0)

# %% [markdown]
# 72 is neither 27 nor twice that. The leaf `x` kept its 27. That may be intended: two backward passes give
# the sum of both, 54. But the intermediate `y` kept its gradient as well, and sent the old one again together
# with the new one: $27 + 9 + 2 \cdot 3 \cdot 6 = 72$. These are two different cases:
#
# - *Intermediate* gradients must start each pass at zero. The engine has to do that.
# - *Leaves* accumulate gradients until you set them to zero, in PyTorch and minigrad with `zero_grad()`.
#   Accumulation is useful: you can process a large batch in pieces, or let two losses share a parameter.
#
# For now we set every gradient in the graph to zero ourselves.


# %%
def zero_grad(z):
    order = []
    parents_first(z, order, set())
    for node in order:
        node.grad = 0.0


zero_grad(z)
backward(z)
print("after zero_grad:", x.grad)
assert x.grad == 27.0

# %% [markdown]
# ## What closures cost
#
# The first engine is complete. Another operation is another function of the same form. Here is `tanh`, with
# the slope $1 - y^2$ from above.


# %%
def tanh_with_closure(x):
    y = math.tanh(x.data)
    out = Number(y, (x,))

    def send():
        x.grad += out.grad * (1 - y * y)

    out.send = send
    return out


x = Number(0.8)
backward(tanh_with_closure(x))
print("slope of tanh at 0.8:", x.grad, "  by nudging:", nudged(math.tanh, [0.8], 0))
assert abs(x.grad - nudged(math.tanh, [0.8], 0)) < 1e-8

# %% [markdown]
# micrograd (see Sources) made this form popular, and it is easy to explain. It has two limits, which the next
# cells show.
#
# **Recursion.** `parents_first` calls itself once for each step of the way back. Python allows about a
# thousand such nested calls.

# %%
x = Number(1.0)
z = x
for _ in range(sys.getrecursionlimit()):
    z = z + x
try:
    backward(z)
except RecursionError:
    print(f"a chain of {sys.getrecursionlimit()} additions: RecursionError")
else:
    raise AssertionError("this should have failed")

# %% [markdown]
# **Reference cycles.** Python frees an object at once when nothing refers to it any more. But `out` refers to
# its function `send`, and `send` refers to `out`, because it reads `out.grad`. Each keeps the other alive
# until Python's garbage collector looks for such cycles. Until then a whole graph stays in memory, with all
# its values. For single numbers that costs nothing worth mentioning. For the arrays of a large model it can
# decide whether they fit into memory.


# %%
def survives(make):
    """True if a graph stays in memory after its last name is gone, without garbage collection."""
    gc.disable()
    x = make(2.0)
    y = x * x
    trace = weakref.ref(x)  # tells whether x is still there, without holding it
    del x, y
    alive = trace() is not None
    gc.enable()
    return alive


print("with closures, a graph stays in memory without a name:", survives(Number))
assert survives(Number)

# %% [markdown]
# ## Code, the second engine: no closures
#
# What does `send` use that could not be stored as data? Only the local derivatives. They are plain numbers,
# known as soon as the result is. So store them beside the parents: a result is its data and a few pairs
# *(parent, slope)*.
#
# And the order? **A number is computed only from numbers that already exist.** So each number is younger than
# all its parents. Give every number the next count when it is created. Then *youngest first* is an order in
# which every number comes before its parents, which is the order we need. It takes no walk through the graph
# by recursion, only one call of `sorted`.
#
# The second engine is [`tutorials/scalar_engine.py`](../scalar_engine.py); most of it is operators. Read it
# now. Here are its product and its `backward`:

# %%
print(inspect.getsource(Value.__mul__))
print(inspect.getsource(Value.backward))
print(inspect.getsource(Value.ancestors))

# %% [markdown]
# Note the first loop of `backward`: numbers that have parents start at zero, and leaves keep what they have.
# Running backward twice now gives twice the gradient. The chain of additions may be of any length, and a
# graph is freed when its last name is gone.

# %%
x = Value(3.0)
z = x * x * x
z.backward()
z.backward()
print("x^3 at 3, backward twice:", x.grad)
assert x.grad == 54.0

x = Value(1.0)
z = x
for _ in range(50_000):
    z = z + x
z.backward()
print("a chain of 50,000 additions:", x.grad)
assert x.grad == 50_001.0


class Watched(Value):  # a Value has no room for a weak reference; an object of a subclass has
    pass


print("without closures, a graph stays in memory without a name:", survives(Watched))
assert not survives(Watched)

# %% [markdown]
# Which is faster? We build the same graph in both and run backward. Such times depend on the machine and on
# what else it does; compare the two with each other.


# %%
def seconds(make, back, length=400, rounds=40):
    best = math.inf
    for _ in range(rounds):
        x, start = make(1.0), time.perf_counter()
        z = x
        for _ in range(length // 2):
            z = z * x + x
        back(z)
        best = min(best, time.perf_counter() - start)
    return best


with_closures, without = seconds(Number, backward), seconds(Value, Value.backward)
print(
    f"400 operations, forward and back: {with_closures * 1e3:.2f} ms with closures, "
    f"{without * 1e3:.2f} ms without"
)

# %% [markdown]
# ## What a gradient costs
#
# Count the arithmetic of `Value.backward`. Each pair (parent, slope) costs one multiplication and one
# addition. An operation on two numbers makes two pairs. So backward takes at most four operations for each
# operation of forward, *however many inputs there are*. (Sorting comes on top.) Nudging takes a run for each
# input. This is why *reverse mode*, the method of this lesson, is used: the gradient of a function with a
# million inputs costs a few times the function, not a million times (Griewank and Walther call it the cheap
# gradient principle).


# %%
def count(z):
    nodes = z.ancestors()
    return sum(bool(node.parents) for node in nodes), sum(len(node.parents) for node in nodes)


inputs = [Value(float(i % 7)) for i in range(1000)]
total = inputs[0] * inputs[0]
for x in inputs[1:]:
    total = total + x * x
operations, pairs = count(total)
print(
    f"{len(inputs)} inputs: forward {operations} operations; "
    f"back {pairs} multiplications and {pairs} additions"
)
print(f"by nudging both sides: {2 * len(inputs)} runs, {2 * len(inputs) * operations:,} operations")
assert (operations, pairs) == (1999, 3998)

# %% [markdown]
# ## Gradient check
#
# One example is not enough to trust an engine. So compare it with nudging on an expression that uses every
# operation, with shared parts, at many random points. `minigrad.gradcheck` does that for a pair of functions,
# forward and backward; lesson 04 shows how. A new operation for `Value` takes two lines: the value and the
# slope. Here is `tanh`, which the network below needs.


# %%
def tanh(x):
    y = math.tanh(x.data)
    return Value(y, ((x, 1 - y * y),))


def mixture(x, y, squash=tanh):
    a = x * y + x**3
    return a * squash(y) + a / (y * y + 1.0) - 2.0 * x


def forward(v):  # v: an array of two numbers
    return np.array(mixture(v[0], v[1], math.tanh))


def back(g, v):
    x, y = Value(float(v[0])), Value(float(v[1]))
    mixture(x, y).backward()
    return g * np.array([x.grad, y.grad])


rng = np.random.default_rng(0)
for _ in range(20):
    assert gradcheck((forward, back), [rng.standard_normal(2)])
print("20 random points: the engine and the nudges agree")

# %% [markdown]
# ## Training with it
#
# Now we use the gradients. *Gradient descent*: compute the loss and the gradient of each parameter, and move
# each parameter a little against its gradient, because that is downhill:
#
# $$ w \leftarrow w - \eta \frac{\partial L}{\partial w} $$
#
# with a small step size $\eta$ (*learning rate*, `lr`). A **neuron** computes $\tanh(w_1 x_1 + w_2 x_2 + b)$:
# a weighted sum of its inputs, squashed to between −1 and 1. (The code below calls the function `tanh` from
# above; in the exercise it is a method, `total.tanh()`.) We train one to output +1 if at least one of two
# inputs is 1, else −1. The loss is the sum of the squared errors over the four cases.


# %%
def neuron(weights, bias, inputs):
    total = bias
    for w, x in zip(weights, inputs, strict=True):
        total = total + w * x
    return tanh(total)


def squared_error(model, points):
    total = 0.0
    for inputs, target in points:
        total = (model(inputs) - target) ** 2 + total
    return total


# %%
def train(model, parameters, points, lr, steps):
    losses = []
    for _ in range(steps):
        loss = squared_error(model, points)
        for p in parameters:
            p.grad = 0.0  # zero_grad
        loss.backward()
        for p in parameters:
            p.data -= lr * p.grad
        losses.append(loss.data)
    return losses


# %%
either = [((0, 0), -1), ((0, 1), 1), ((1, 0), 1), ((1, 1), 1)]
w1, w2, bias = Value(0.1), Value(-0.2), Value(0.0)
one = partial(neuron, (w1, w2), bias)
losses = train(one, (w1, w2, bias), either, lr=0.2, steps=200)
print(
    f"loss {losses[0]:.3f} -> {losses[-1]:.3f}; "
    f"w1 = {w1.data:.2f}, w2 = {w2.data:.2f}, bias = {bias.data:.2f}"
)
for inputs, target in either:
    print(inputs, "target", f"{target:+d},", f"output {one(inputs).data:+.3f}")
assert losses[-1] < 0.1

# %% [markdown]
# One neuron divides the plane along one straight line, so it cannot learn *exactly one of the two* (+1 for
# (0,1) and (1,0), −1 for the other two); practice question 6 proves it. Two layers can: four neurons take the
# inputs, and a fifth takes the outputs of those four. That is a multi-layer perceptron, *MLP*. The engine
# needs nothing new for it.

# %%
one_of_two = [((0, 0), -1), ((0, 1), 1), ((1, 0), 1), ((1, 1), -1)]
rng = np.random.default_rng(1)
parameters = [Value(float(p)) for p in rng.uniform(-1, 1, 4 * 3 + 5)]


def mlp(inputs):
    p = iter(parameters)
    hidden = [neuron((next(p), next(p)), next(p), inputs) for _ in range(4)]
    return neuron([next(p) for _ in hidden], next(p), hidden)


w1, w2, bias = Value(0.1), Value(-0.2), Value(0.0)
alone = partial(neuron, (w1, w2), bias)
losses_alone = train(alone, (w1, w2, bias), one_of_two, lr=0.1, steps=300)
losses_mlp = train(mlp, parameters, one_of_two, lr=0.1, steps=300)
print(f"one neuron: loss {losses_alone[-1]:.3f}    five neurons: loss {losses_mlp[-1]:.3f}")
for inputs, target in one_of_two:
    print(inputs, "target", f"{target:+d},", f"output {mlp(inputs).data:+.3f}")
assert losses_mlp[-1] < 0.1 < 3 < losses_alone[-1]

# %%
figure = Figure(figsize=(7, 3.4), layout="constrained")
left, right = figure.subplots(1, 2)
left.plot(losses_alone, color="#D55E00", linestyle="--", label="one neuron")
left.plot(losses_mlp, color="#0072B2", label="five neurons, two layers")
left.set(
    title="One neuron cannot, five can", xlabel="step of gradient descent", ylabel="loss", ylim=(0, None)
)
left.legend(fontsize=9)
grid = np.linspace(-0.5, 1.5, 25)
answers = [[mlp((float(x), float(y))).data for x in grid] for y in grid]
image = right.contourf(grid, grid, answers, levels=np.linspace(-1, 1, 11), cmap="RdBu")
figure.colorbar(image, ax=right, label="output of the five neurons")
for (x, y), target in one_of_two:
    right.plot(x, y, "o" if target > 0 else "s", color="white", markeredgecolor="black", markersize=10)
right.set(title="Learned: +1 at circles, −1 at squares", xlabel="first input", ylabel="second input")
right.title.set_fontsize(10)
left.title.set_fontsize(10)
show(
    figure,
    "One neuron's loss stays high on 'exactly one of two'. "
    "Two layers learn it: their output is +1 in a band between two lines.",
)

# %% [markdown]
# The blue curve jumps up once, near step 32. The gradient is the slope *at this point*, and the step was too
# long for the slope to stay the same along it. With half the step size, from the same start, the loss never
# rises. Lesson 06 is about step sizes.

# %%
rng = np.random.default_rng(1)
parameters = [Value(float(p)) for p in rng.uniform(-1, 1, 4 * 3 + 5)]
calm = train(mlp, parameters, one_of_two, lr=0.05, steps=600)
rises = np.diff(losses_mlp)
print(f"lr = 0.1: largest rise in a step {rises.max():.2f} at step {rises.argmax()}")
print(f"lr = 0.05: largest rise {np.diff(calm).max():.1e}, final loss {calm[-1]:.3f}")
assert np.diff(calm).max() < 0 < rises.max()

# %% [markdown]
# ## Edge cases
#
# - **A number that the result does not depend on** gets gradient 0: no arrow leads to it.
# - **The result itself** has gradient 1, even when it is a leaf.
# - **Plain numbers**, such as the 2 in `2 * x`, get no gradient, because no `Value` is there to hold it.
# - **$x^0$** is 1 everywhere, so its slope is 0, at $x = 0$ too, where the formula $0 \cdot 0^{-1}$ would
#   divide by zero.
# - **relu**, $\max(0, x)$, has a corner at 0, and no derivative there. By convention the slope there is 0
#   (PyTorch and minigrad alike).
# - **A saturated tanh**, one whose input is far from 0, passes on almost no gradient: at $x = 10$ the slope
#   is about $8 \cdot 10^{-9}$, and at $x = 20$ it is computed as exactly 0.

# %%
x, unused = Value(0.0), Value(5.0)
z = x**0 + x.relu() + 3
z.backward()
print("x**0 + relu(x) + 3 at 0:", x.grad, "  unused:", unused.grad, "  result:", z.grad)
assert (x.grad, unused.grad, z.grad) == (0.0, 0.0, 1.0)
for point in (0.0, 10.0, 20.0):
    x = Value(point)
    tanh(x).backward()
    print(f"slope of tanh at {point}: {x.grad:.3g}")
    assert point != 10.0 or abs(x.grad - 8.2e-9) < 0.1e-9
assert x.grad == 0.0

# %% [markdown]
# ## Pitfalls: what learners ask
#
# **"Why does backward start with 1?"** Because $\partial L/\partial L = 1$. Start with 0 and every gradient
# is 0, since each is a multiple of the starting value. Start with 2 and you get the gradients of $2L$.
#
# **"I changed `w.data` after the loss was computed, and then called backward."** The slopes were stored
# earlier, computed from the old values. You get the gradients at the old point. In this engine that does no
# harm. An engine that stores arrays instead of slopes can return wrong gradients (lesson 02).
#
# **"Can I write `z = z + x` in a loop? `z` is overwritten."** Yes. Only the *name* `z` now stands for another
# object. Each result is a new object and holds its parents.
#
# **"Is youngest first really a topological order, with `if` and loops in my program?"** Yes. Whichever branch
# the program took, each number was computed from numbers that existed before it. The graph records what
# happened in this run.
#
# **"My training oscillates or diverges."** The step may be too large, or you forgot to set the gradients to
# zero. The next cell shows both on the loss $(w - 3)^2$, starting at $w = 0$. With old gradients left in,
# each step repeats all steps before it: `w` runs past 3, is pulled back, runs past it again, and does not
# settle. (A short run can look fine, because the repeated steps speed up the start. That makes the mistake
# hard to see.)


# %%
def descend(lr, forget_zero=False, steps=200):
    w, path = Value(0.0), []
    for _ in range(steps):
        loss = (w - 3.0) ** 2
        if not forget_zero:
            w.grad = 0.0
        loss.backward()
        w.data -= lr * w.grad
        path.append(w.data)
    return path


for what, path in (
    ("lr = 0.1", descend(0.1)),
    ("lr = 0.1, zero_grad forgotten", descend(0.1, forget_zero=True)),
    ("lr = 1.1", descend(1.1)),
):
    print(f"{what:30}: the last 100 values of w lie between {min(path[100:]):.3g} and {max(path[100:]):.3g}")
assert abs(descend(0.1)[-1] - 3) < 1e-9
assert max(descend(0.1, forget_zero=True)[100:]) > 5 and max(descend(1.1)) > 1e10

# %% [markdown]
# ## Practice questions
#
# Try each on paper first. The answer is folded, and the cell below recomputes it.

# %% [markdown]
# ### Q1. What are the gradients of $L = x \cdot y + x$ at $x = 3$, $y = 4$?
#
# <details><summary>Answer</summary>
#
# `x` is used twice: $y + 1 = 5$. And $\partial L/\partial y = x = 3$.
#
# </details>

# %%
# Q1, recomputed
x, y = Value(3.0), Value(4.0)
(x * y + x).backward()
print(x.grad, y.grad)
assert (x.grad, y.grad) == (5.0, 3.0)

# %% [markdown]
# ### Q2. At $x = 2$ the slope of $f$ is $-3$ and $f(2) = 7$. About what is $f(2.01)$?
#
# <details><summary>Answer</summary>
#
# $7 + (-3) \cdot 0.01 = 6.97$, with an error in the order of $0.01^2$. (The cell uses a function that fits
# the question: $f(x) = 14 + x^2/4 - 4x$.)
#
# </details>


# %%
# Q2, recomputed
def falling(x):
    return 14 + x * x * 0.25 - 4 * x


x = Value(2.0)
falling(x).backward()
print("slope", x.grad, "  f(2) =", falling(2.0), "  f(2.01) =", round(falling(2.01), 6))
assert x.grad == -3.0 and falling(2.0) == 7.0
assert abs(falling(2.01) - 6.97) < 0.01**2

# %% [markdown]
# ### Q3. Start with `y = x` and square it three times. What is the gradient at $x = 1.1$? How many nodes?
#
# <details><summary>Answer</summary>
#
# It is $x^8$: the gradient is $8 x^7 = 8 \cdot 1.1^7 \approx 15.5897$. There are 4 nodes, `x` and three
# results. A walk that goes on to both parents at every visit would make $1 + 2 + 4 + 8 = 15$ visits.
#
# </details>

# %%
# Q3, recomputed
x = Value(1.1)
y = x
for _ in range(3):
    y = y * y
y.backward()
print(round(x.grad, 4), len(y.ancestors()))
assert abs(x.grad - 8 * 1.1**7) < 1e-12 and round(x.grad, 4) == 15.5897
assert len(y.ancestors()) == 4

# %% [markdown]
# ### Q4. Backward starts with 2 instead of 1. What gradient has $x^3$ at $x = 3$? What is that useful for?
#
# <details><summary>Answer</summary>
#
# $2 \cdot 27 = 54$: every gradient is proportional to the starting value. So the starting value can be a
# weight: with 0.5 for each of two losses, you get the gradient of their mean. In lesson 02 backward starts
# with an array of such weights, called `g`.
#
# </details>

# %%
# Q4, recomputed
x, _, z = cube()
order = []
parents_first(z, order, set())
z.grad = 2.0
for node in reversed(order):
    node.send()
print(x.grad)
assert x.grad == 54.0

# %% [markdown]
# ### Q5. A chain of 20 tanh's starts at $x = 0.5$. Is the gradient of $x$ large or small? Why does it matter?
#
# <details><summary>Answer</summary>
#
# It is a product of 20 slopes, each below 1: about 0.1073. In a deep network the gradients of the early
# layers become so small that these layers hardly learn. This is called the *vanishing gradient*; lessons 07
# and 12 come back to it.
#
# </details>

# %%
# Q5, recomputed
x = Value(0.5)
y = x
for _ in range(20):
    y = tanh(y)
y.backward()
slopes = [node.parents[0][1] for node in y.ancestors() if node.parents]
print(
    f"gradient {x.grad:.4f}, "
    f"the product of {len(slopes)} slopes between {min(slopes):.3f} and {max(slopes):.3f}"
)
assert len(slopes) == 20 and max(slopes) < 1 and round(x.grad, 4) == 0.1073
assert abs(x.grad - math.prod(slopes)) < 1e-12

# %% [markdown]
# ### Q6. Show that no single neuron can learn *exactly one of two*.
#
# <details><summary>Answer</summary>
#
# tanh has the sign of its argument. So we need $b < 0$ for (0,0), $w_1 + b > 0$, $w_2 + b > 0$, and
# $w_1 + w_2 + b < 0$ for (1,1). Adding the second and the third gives $w_1 + w_2 + 2b > 0$. Adding the first
# and the last gives $w_1 + w_2 + 2b < 0$. Both cannot hold, so at most three of the four signs can be right.
#
# </details>

# %%
# Q6, recomputed
right = sum((alone(inputs).data > 0) == (target > 0) for inputs, target in one_of_two)
rng = np.random.default_rng(0)
tries = rng.uniform(-10, 10, (20_000, 3))
signs = np.stack([tries @ [x, y, 1] > 0 for (x, y), _ in one_of_two], axis=1)
best = (signs == [target > 0 for _, target in one_of_two]).sum(axis=1).max()
print("ours:", right, "of 4 signs right; the best of 20,000 random neurons:", best)
assert right <= 3 and best == 3

# %% [markdown]
# ### Q7. `ancestors` collects nodes from the result towards the inputs. Why does it sort them afterwards?
#
# <details><summary>Answer</summary>
#
# It collects by distance from the result (*breadth first*), and a number near the result may also be used far
# from it. In $z = y + w$ with $w = y + x$ and $y = x + x$, it meets `y` before `w`, but `w` must send first.
# Without the sort the gradient is 3, not 5.
#
# </details>


# %%
# Q7, recomputed
class Unsorted(Value):
    def ancestors(self):
        nodes = [self]
        for node in nodes:
            nodes += [parent for parent, _ in node.parents if parent not in nodes]
        return nodes


x = Value(3.0)
y = x + x
w = y + x
z = Unsorted(y.data + w.data, ((y, 1.0), (w, 1.0)))
z.backward()
unsorted, x.grad = x.grad, 0.0
(y + w).backward()
print("unsorted:", unsorted, "  youngest first:", x.grad)
assert (unsorted, x.grad) == (3.0, 5.0)

# %% [markdown]
# ## What was left out
#
# - **Arrays.** One Python object for each number is slow. In lesson 02 one node holds a whole array.
# - **Derivatives of derivatives.** The slopes here are plain numbers, so nothing records how they were
#   computed. Lesson 18 differentiates twice.
# - **Forward mode.** Derivatives can also be computed together with the values, from input to output. That
#   takes a pass for each input and is the better choice for few inputs and many outputs. `minigrad.func.jvp`
#   does it.
# - **Better descent**: lesson 06.
#
# ## Sources
#
# - A. Karpathy, *micrograd*, <https://github.com/karpathy/micrograd>: the form of the first engine, closures
#   and a recursive topological sort.
# - A. G. Baydin, B. A. Pearlmutter, A. A. Radul, J. M. Siskind, *Automatic Differentiation in Machine
#   Learning: a Survey*, Journal of Machine Learning Research 18 (2018), section 3: forward and reverse mode,
#   and what each costs.
# - A. Griewank, A. Walther, *Evaluating Derivatives*, 2nd edition, SIAM 2008: the cheap gradient principle.
# - D. E. Rumelhart, G. E. Hinton, R. J. Williams, *Learning representations by back-propagating errors*,
#   Nature 323 (1986): the method in a network.
#
# ## Exercises
#
# You will write `numerical_derivative`, the gradient of an expression by hand, your own `Value` with `+`,
# `*`, powers and `tanh`, the order `newest_first`, `backward`, one `gradient_step`, and a `neuron`.
#
# `python -m tutorials start 01` copies the exercises to your own folder, as `my_minigrad/lesson01.py`.
# `python -m tutorials check 01` tests what you wrote.
