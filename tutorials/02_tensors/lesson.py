# %% [markdown]
# # 02 · Tensors
#
# *Reading: 40 minutes. Exercises: 60 minutes. Needs: lesson 01, NumPy arrays.*
#
# One node of the graph now holds a whole array. What does the chain rule become when an operation copies one
# number to many positions, adds many into one, or picks some by an index?
#
# **You will be able to:**
#
# - say what a backward rule takes, what it returns, and in which shapes;
# - undo broadcasting: which axes are summed, and why;
# - derive the backward rules of `sum`, `mean`, `max` and of indexing, with repeated indices;
# - write an engine around a table of rules, and read minigrad's;
# - say which arrays an engine keeps for backward, and what goes wrong when one is changed after it was used.

# %%
import inspect
import itertools

import numpy as np
from matplotlib.figure import Figure

import minigrad as mg
from minigrad.engine.table import RULES as TABLE
from minigrad.gradcheck import GradcheckError, gradcheck
from minigrad.viz import graph
from tutorials import show

# %% [markdown]
# ## Intuition: which number went where?
#
# The engine of lesson 01 makes a Python object for each number. A layer of lesson 03 has a million numbers,
# and Python would spend its time on the objects. So let a node hold an array (a *tensor*), and let each
# operation work on all its elements at once.
#
# The calculus stays the same. An array operation is many scalar operations side by side, and the chain rule
# still says: *a number's gradient is the sum over everything that was computed from it*. For each operation,
# only one question remains: which number went where.
#
# | forward | backward |
# | --- | --- |
# | one number is **copied** to several positions | the gradients from those positions are **added** |
# | several numbers are **added** into one | the gradient of the sum is **copied** to each |
# | a number is **picked** by an index | its gradient is **put back** at that index |
#
# Keep this table in mind. Nearly all of this lesson is one of its rows.

# %% [markdown]
# ## Definition
#
# $L$ is still a single number. For an array $y$ in the graph, let $g$ be its gradient: an array **of the
# shape of $y$** that holds the derivative of $L$ with respect to each element of $y$,
#
# $$ g_j = \frac{\partial L}{\partial y_j}. $$
#
# An operation computes $y$ from $x$. Its backward rule takes $g$ and returns the gradient of $x$, **in the
# shape of $x$**:
#
# $$ \frac{\partial L}{\partial x_i} = \sum_j g_j \frac{\partial y_j}{\partial x_i}
#    \qquad \text{for each index } i \text{ of } x, j \text{ of } y. $$
#
# The derivatives $\partial y_j / \partial x_i$ form a matrix, the *Jacobian*. The sum is the vector $g$ times
# that matrix, so such a rule is called a *vector-Jacobian product*, `vjp`. The matrix itself is never built.
# For an elementwise product of a million numbers it would have a million times a million entries, and all but
# a million of them would be 0.
#
# In this lesson and in minigrad's code, `y` is the result of an operation, its *value*, and `g` is the
# gradient of that value. Where `y` is already the name of an argument, the value is `z`.

# %% [markdown]
# ## Broadcasting: what NumPy does forward
#
# An operation may take arrays of different shapes. NumPy then *broadcasts* them (see Sources):
#
# 1. Write the shapes one above the other, aligned **at the right**. Missing axes on the left count as 1.
# 2. On each axis the lengths must be equal, or one of them must be 1.
# 3. Where one is 1, that array is repeated along the axis.

# %%
for a, b in (((2, 3), (3,)), ((2, 3), (2, 1)), ((2, 1, 3), (4, 1)), ((2, 3), ()), ((2, 3), (2,))):
    try:
        print(f"{a!s:10} with {b!s:7} -> {np.broadcast_shapes(a, b)}")
    except ValueError:
        print(f"{a!s:10} with {b!s:7} -> error: aligned at the right, 3 meets 2")

# %% [markdown]
# ## A worked example by hand
#
# Let $x$ be of shape (2, 3), $b$ of shape (3,), and $z = x \cdot b$, elementwise. $b$ is repeated for each
# row:
#
# $$ x = \begin{pmatrix} 1 & 2 & 3 \\ 4 & 5 & 6 \end{pmatrix}, \quad
#    b = \begin{pmatrix} 10 & 20 & 30 \end{pmatrix}, \quad
#    z = \begin{pmatrix} 10 & 40 & 90 \\ 40 & 100 & 180 \end{pmatrix}. $$
#
# Suppose the gradient arriving at $z$ is
#
# $$ g = \begin{pmatrix} 1 & 0 & 2 \\ 0 & 1 & 1 \end{pmatrix}. $$
#
# Each $z_{ij} = x_{ij} b_j$ is a product of two numbers, so by lesson 01 it sends $g_{ij} b_j$ to $x_{ij}$
# and $g_{ij} x_{ij}$ to $b_j$:
#
# $$ \frac{\partial L}{\partial x} = \begin{pmatrix} 10 & 0 & 60 \\ 0 & 20 & 30 \end{pmatrix}, \qquad
#    \text{to } b: \begin{pmatrix} 1 & 0 & 6 \\ 0 & 5 & 6 \end{pmatrix}
#    \longrightarrow \frac{\partial L}{\partial b} = \begin{pmatrix} 1 & 5 & 12 \end{pmatrix}. $$
#
# $b_3$ was used in both rows. Two contributions arrive at it, and they add up: $2 \cdot 3 + 1 \cdot 6 = 12$.
# The gradient of $b$ has the shape of $b$, as it must.

# %%
x, b = np.array([[1.0, 2, 3], [4, 5, 6]]), np.array([10.0, 20, 30])
g = np.array([[1.0, 0, 2], [0, 1, 1]])
assert (x * b == [[10, 40, 90], [40, 100, 180]]).all()


def loss(x, b):
    return (g * (x * b)).sum()  # a loss whose gradient at z is g


h = 1e-6
unit = np.eye(3)  # nudge one entry of b at a time
by_nudging = [(loss(x, b + h * u) - loss(x, b - h * u)) / (2 * h) for u in unit]
print("gradient of x:\n", g * b)
print("gradient of b:", (g * x).sum(axis=0), "  by nudging:", np.round(by_nudging, 6))
assert (g * b == [[10, 0, 60], [0, 20, 30]]).all()
assert ((g * x).sum(axis=0) == [1, 5, 12]).all() and np.allclose(by_nudging, [1, 5, 12])

# %% [markdown]
# ## Derivation: undoing broadcasting
#
# Broadcasting copies. Let $b$ of shape (3,) be copied into an array $c$ of shape (2, 3), $c_{ij} = b_j$. The
# derivative of $c_{ik}$ with respect to $b_j$ is 1 if $k = j$ and 0 otherwise, so
#
# $$ \frac{\partial L}{\partial b_j}
#    = \sum_{i, k} \frac{\partial L}{\partial c_{ik}} \frac{\partial c_{ik}}{\partial b_j}
#    = \sum_i \frac{\partial L}{\partial c_{ij}}. $$
#
# We sum over the axis along which $b$ was repeated. By rules 1 and 3 above, there are two kinds of such axes:
#
# - axes that were **added on the left**: sum over them and drop them;
# - axes of **length 1 that were stretched**: sum over them and keep them with length 1.
#
# This is the same for every operation: product, sum or division. A backward rule first ignores broadcasting
# and returns a gradient in the shape of $z$. Then one function, written once, sums it to the shape of the
# argument.


# %%
def unbroadcast(g, shape):
    """Sum g over the axes along which an array of `shape` was repeated to get g's shape."""
    extra = g.ndim - len(shape)
    g = g.sum(axis=tuple(range(extra)))
    stretched = tuple(i for i, n in enumerate(shape) if n == 1)
    return g.sum(axis=stretched, keepdims=True)


for shape in ((3,), (2, 1), (1, 3), (1, 1), (), (2, 3)):
    print(f"{shape!s:7} used in {g.shape}: gradient {unbroadcast(g * x, shape).tolist()}")
    assert unbroadcast(g * x, shape).shape == shape
assert (unbroadcast(g * x, (3,)) == [1, 5, 12]).all()

# %% [markdown]
# The picture shows both directions for `b`: copied down on the way forward, added up on the way back.

# %%
figure = Figure(figsize=(7, 3.2), layout="constrained")
figure.suptitle("Broadcasting copies forward; backward adds what the copies receive", fontsize=12)
panels = figure.subplots(2, 2, height_ratios=(1, 2))
cells = [[b[None], unbroadcast(g * x, (1, 3))], [np.broadcast_to(b, (2, 3)), g * x]]
titles = [
    ["b, shape (3,)", "gradient of b: each column's sum"],
    ["its copies, shape (2, 3)", "g * x: what each copy receives"],
]
for row in range(2):
    for column, colour in enumerate(("Blues", "Oranges")):
        axes, numbers = panels[row, column], cells[row][column]
        axes.imshow(numbers, cmap=colour, vmin=0, vmax=3 * np.max(cells[1][column]), aspect="auto")
        for (i, j), number in np.ndenumerate(numbers):
            axes.text(j, i, f"{number:g}", ha="center", va="center", fontsize=13)
        axes.set_title(titles[row][column] + ("", "   ↓" if column == 0 else "   ↑")[row == 0], fontsize=10)
        axes.set(
            xticks=range(3),
            yticks=range(2) if row else [],
            xlabel="column j" if row else "",
            ylabel="row i" if row else "",
        )
show(
    figure,
    "On the left b is copied into two rows. "
    "On the right the gradients of the two copies are added up, column by column.",
)

# %% [markdown]
# ### Sum and mean
#
# $y_i = \sum_j x_{ij}$: each element enters one sum, with slope 1. So $\partial L / \partial x_{ij} = g_i$:
# **copy** $g$ along the axis that was summed. This is the mirror image of broadcasting.
#
# There is one trap. If $x$ has shape (2, 3), `x.sum(axis=1)` has shape (2,). That does not broadcast to (2,
# 3), because shapes are aligned at the right. First the summed axis must be put back with length 1, as
# `keepdims=True` leaves it.
#
# The mean of $n$ numbers is their sum divided by $n$, so its gradient is that of the sum divided by $n$.


# %%
def sum_backward(g, x, axis=None, keepdims=False):
    if axis is not None and not keepdims:
        g = np.expand_dims(g, axis)
    return np.broadcast_to(g, x.shape)


for axis in (None, 0, 1, -1, (0, 1)):
    for keepdims in (False, True):
        forward = lambda x, axis=axis, keepdims=keepdims: x.sum(axis=axis, keepdims=keepdims)  # noqa: E731
        backward = lambda g, x, axis=axis, keepdims=keepdims: sum_backward(g, x, axis, keepdims)  # noqa: E731
        assert gradcheck((forward, backward), [np.random.default_rng(0).standard_normal((2, 3))])
print("sum_backward is right for every axis, with keepdims and without")

# %% [markdown]
# ### The program that breaks, on square arrays only
#
# Leave `expand_dims` out. On a (2, 3) array NumPy raises an error, and you find the mistake. On a square
# array there is no error: `g` is copied along the wrong axis.

# %%
square = np.arange(9.0).reshape(3, 3)
g3 = np.array([1.0, 2.0, 3.0])  # gradient of square.sum(axis=1), one number for each row
wrong = np.broadcast_to(g3, (3, 3))
right = sum_backward(g3, square, axis=1)
print("wrong, each row gets all of g:\n", wrong, "\nright, row i gets g[i]:\n", right)
assert (wrong == right.T).all() and not (wrong == right).all()
try:
    gradcheck((lambda x: x.sum(axis=1), lambda g, x: np.broadcast_to(g, x.shape)), [square])
except GradcheckError as error:
    print("\ngradcheck says:", error)

# %% [markdown]
# A mistake that shows only on square arrays stays hidden until somebody uses one. Test with shapes whose
# lengths all differ *and* with square ones.
#
# ### Max
#
# $y = \max_i x_i$. Nudge the largest element, and $y$ moves just as far; nudge another, and $y$ does not
# move. So the largest element gets all of the gradient, and the others get 0.
#
# If two elements are equally largest (a *tie*), $y$ has a corner there and no derivative: nudge one of them
# up and $y$ moves, nudge it down and $y$ does not. So a convention is needed. minigrad and PyTorch (`amax`)
# divide $g$ **equally** among the largest, so that the contributions sum to $g$.


# %%
def max_backward(g, x, axis=None, keepdims=False):
    chosen = x == x.max(axis=axis, keepdims=True)
    return chosen / chosen.sum(axis=axis, keepdims=True) * sum_backward(g, x, axis, keepdims)


rows = np.array([[3.0, 1.0, 3.0], [0.0, 5.0, 2.0]])
print(max_backward(np.array([1.0, 1.0]), rows, axis=1))
assert (max_backward(np.array([1.0, 1.0]), rows, axis=1) == [[0.5, 0, 0.5], [0, 1, 0]]).all()

# %% [markdown]
# ### Indexing
#
# $y = x[\text{index}]$ picks elements: $y_k = x_{i_k}$, where $i_k$ is the $k$-th index. From the definition,
#
# $$ \frac{\partial L}{\partial x_i} = \sum_{k : i_k = i} g_k. $$
#
# Start with zeros, and add each $g_k$ at position $i_k$: this is called *scatter-add*. If an index occurs
# twice, that element was used twice, and two contributions add up. This happens all the time: a table of word
# vectors is indexed with the words of a text (lesson 13), and words repeat in every text.
#
# ### The program that breaks: `out[index] += g`
#
# It looks like the formula. But NumPy reads `out[index]`, adds `g`, and writes the result back. With a
# repeated index it writes twice to the same position, and the second write overwrites the first. `np.add.at`
# adds one element after the other.

# %%
index, ones = np.array([0, 0, 1]), np.ones(3)
lost = np.zeros(3)
lost[index] += ones
kept = np.zeros(3)
np.add.at(kept, index, ones)
print("out[index] += g :", lost, "  np.add.at:", kept)
assert lost.tolist() == [1, 1, 0] and kept.tolist() == [2, 1, 0]

# %% [markdown]
# ## Code: a tape and a table
#
# Lesson 01's second engine stored the local derivatives as numbers. For arrays they would be Jacobians. So we
# store something else: *which function* was called, and *on what*. Such a record of calls is called a *tape*.
# The calculus goes into a table: for each function, one rule for each of its arguments.


# %%
RULES = {
    np.add: (lambda g, z, x, y: g, lambda g, z, x, y: g),
    np.multiply: (lambda g, z, x, y: g * y, lambda g, z, x, y: g * x),
    np.exp: (lambda g, y, x: g * y,),
    np.tanh: (lambda g, y, x: g * (1 - y * y),),
    np.sum: (lambda g, y, x, axis=None, keepdims=False: sum_backward(g, x, axis, keepdims),),
}
births = itertools.count()


class Tensor:
    """An array that remembers which function computed it, and its arguments. For a leaf, fun is None."""

    def __init__(self, data, fun=None, args=(), kwargs=None):
        self.data, self.grad = np.asarray(data), None
        self.fun, self.args, self.kwargs, self.born = fun, args, kwargs or {}, next(births)


def apply(fun, *args, **kwargs):
    """Compute fun on the arrays inside, and remember what was done."""
    return Tensor(fun(*(a.data for a in args), **kwargs), fun, args, kwargs)


# %% [markdown]
# `apply` is the only place where anything is recorded, and the rules do not use the graph. Next comes the
# reverse pass. It contains no calculus. It uses the order (youngest first, lesson 01), the table and
# `unbroadcast`, and it adds up contributions.


# %%
def newest_first(z):
    nodes, seen = [z], {z}
    for node in nodes:
        for arg in node.args:
            if arg not in seen:
                seen.add(arg)
                nodes.append(arg)
    return sorted(nodes, key=lambda node: node.born, reverse=True)


def backward(z, g):
    pending = {z: g}  # the gradients that have arrived so far
    for node in newest_first(z):
        g = pending.pop(node)  # complete: every user of the node has been processed
        if node.fun is None:
            node.grad = g if node.grad is None else node.grad + g
            continue
        arrays = [arg.data for arg in node.args]
        for rule, arg in zip(RULES[node.fun], node.args, strict=True):
            share = unbroadcast(rule(g, node.data, *arrays, **node.kwargs), arg.data.shape)
            pending[arg] = pending[arg] + share if arg in pending else share


# %%
x_t, b_t = Tensor(x), Tensor(b)
z = apply(np.multiply, x_t, b_t)
backward(z, g)
print("x.grad\n", x_t.grad, "\nb.grad", b_t.grad)
assert (x_t.grad == [[10, 0, 60], [0, 20, 30]]).all() and (b_t.grad == [1, 5, 12]).all()

# %% [markdown]
# Two details in `backward` are there on purpose.
#
# - `pending` is a dictionary beside the graph, not a field of the nodes. Intermediate gradients start empty
#   in each pass and are freed once they have been passed on. So the mistake of lesson 01, an old gradient of
#   an intermediate node sent a second time, cannot happen.
# - `pending[arg] + share` makes a new array. The next program shows why it is not `+=`.
#
# ### The program that breaks: adding in place
#
# The rule of `add` returns `g` itself for both arguments, so both gradients are the same array. If a second
# contribution is added to one of them in place, the other changes too.

# %%
g1 = np.array([1.0])
pending = {"x": g1, "y": g1}  # what z = x + y sends: the same array twice
pending["x"] += np.array([5.0])  # another use of x adds in place, and changes y too
print("x:", pending["x"], " y:", pending["y"], " (y should still be 1)")
assert pending["y"][0] == 6.0

# %% [markdown]
# ## The same in minigrad
#
# minigrad has the same design. In `minigrad/engine`, the reverse pass is in `reverse_pass.py`, the table in
# `table.py`, `apply` in `recording.py`, and the calculus in `rules.py`. A call of `defvjp` fills one row of
# the table, for one function. Here is the row of the product.

# %%
print(inspect.getsource(TABLE[np.multiply].rules[0]))

x_m = mg.tensor(x, requires_grad=True)
b_m = mg.tensor(b, requires_grad=True)
z = x_m * b_m
node = z.node
print(
    "computed by",
    node.name,
    "| from shapes",
    [arg.shape for arg in node.args],
    "| birth",
    node.birth,
    "| needs",
    node.needs,
)
z.backward(mg.tensor(g))
print("b.grad", b_m.grad.data)
assert np.array_equal(b_m.grad.data, [1, 5, 12]) and np.array_equal(x_m.grad.data, x_t.grad)

# %% [markdown]
# minigrad does three things that our tape does not.
#
# **It keeps only what a rule reads.** In the row above, some names begin with an underscore: `_z`, `_x`. The
# rule uses only the shapes of those, so their arrays need not be kept. The rule of `sum` reads only shapes;
# that of `exp` reads its result; that of the product reads both arguments. The arrays kept for backward take
# most of the memory in training.

# %%
print(f"{'function':10} reads the value, each argument")
for fun, count in (
    (np.add, 2),
    (np.multiply, 2),
    (np.true_divide, 2),
    (np.exp, 1),
    (np.tanh, 1),
    (np.sum, 1),
    (np.amax, 1),
):
    print(f"{fun.__name__:10} {TABLE[fun].reads((True,) * count)}")
assert TABLE[np.add].reads((True, True)) == (False, False, False)
assert TABLE[np.multiply].reads((True, True)) == (False, True, True)
assert TABLE[np.exp].reads((True,)) == (True, False)

# %% [markdown]
# **It records only what needs a gradient.** Data needs none; parameters are created with
# `requires_grad=True`. A result computed from data alone has no node. Inside `with mg.no_grad():` nothing is
# recorded at all.
#
# **It frees the graph node by node** during backward, so memory use falls as backward proceeds. A second
# backward over the same graph raises an error, unless the first one kept the graph with `retain_graph=True`.

# %%
total = (x_m * b_m).sum()
total.backward()
try:
    total.backward()
except RuntimeError as error:
    print(error)
    refused = True
assert refused

# %% [markdown]
# Here is a small graph with shapes that differ: a weighted mean with a bias. The drawing marks where
# broadcasting is undone.

# %%
mg.manual_seed(0)
data, weight, bias = mg.randn(2, 3), mg.ones(3, requires_grad=True), mg.zeros(2, 1, requires_grad=True)
result = (mg.tanh(data * weight + bias)).mean()
drawing = graph(result, names=dict(data=data, weight=weight, bias=bias, result=result))
show(
    drawing,
    "A graph of arrays: on the way back to the weight and the bias, "
    "the axes they were stretched along are summed.",
)

# %% [markdown]
# ## Gradient check
#
# We check all rules derived above with random $g$, on shapes that differ and on square ones. First our tape,
# as a pair of functions of plain arrays; then minigrad's rules for the same functions.


# %%
def ours(x, b, s):
    """tanh(x * b + s) summed over its last axis, recorded on our tape."""
    leaves = [Tensor(a) for a in (x, b, s)]
    inner = apply(np.tanh, apply(np.add, apply(np.multiply, leaves[0], leaves[1]), leaves[2]))
    return leaves, apply(np.sum, inner, axis=-1)


def ours_back(g, x, b, s):
    leaves, y = ours(x, b, s)
    backward(y, g)
    return tuple(leaf.grad for leaf in leaves)


rng = np.random.default_rng(0)
for shapes in (
    ((2, 3), (3,), (2, 1)),
    ((3, 3), (3,), (3, 1)),
    ((2, 1, 3), (4, 1), ()),
    ((1,), (5, 1), (1, 4)),
):
    arrays = [rng.standard_normal(shape) for shape in shapes]
    assert gradcheck((lambda x, b, s: ours(x, b, s)[1].data, ours_back), arrays)
    print("our tape is right for", shapes)

# %%
leaf = lambda *shape: mg.tensor(rng.standard_normal(shape), requires_grad=True)  # noqa: E731
for name, fun in (
    ("max", lambda x: x.amax(1)),
    ("mean", lambda x: x.mean(0, keepdims=True)),
    ("x[[0, 0, 1]]", lambda x: x[[0, 0, 1]]),
    ("x[:, None, ::-1]", lambda x: x[:, None, ::-1]),
):
    assert gradcheck(fun, [leaf(3, 3)]) and gradcheck(fun, [leaf(3, 4)])
    print("minigrad is right for", name)

# %% [markdown]
# ## Changing an array after it was used
#
# A rule reads its arguments during backward, later than forward. If the array has been written to since, the
# rule computes with the wrong numbers. Our tape does not notice.

# %%
w = Tensor(np.array([3.0]))
y = apply(np.multiply, w, w)
w.data[0] = 100.0  # after forward, before backward
backward(y, np.ones(1))
print("our tape: d(w*w)/dw =", w.grad, " at w = 3 it should be 6")
assert w.grad[0] == 200.0

# %% [markdown]
# minigrad stores, for each piece of memory, when it was last written. A node stores when it was created. If
# something that its rule *reads* was written after that, backward raises an error that names the op. The rule
# of a sum reads no values, so it still works.

# %%
w = mg.tensor([3.0], requires_grad=True)
y, s = w * w, w + 1.0
with mg.no_grad():
    w += 97.0  # in place: only where nothing is recorded, as an optimizer does it
try:
    y.backward()
except RuntimeError as error:
    print(error)
    refused = "changed in place" in str(error)
assert refused
s.backward()
print("the sum's gradient is right all the same:", w.grad.data)
assert w.grad.data.tolist() == [1.0]

# %% [markdown]
# This catches every write that goes through a Tensor. minigrad does not notice if you write into `w.data`,
# the bare array. Inside `mg.detect_anomaly()` it does, because it compares checksums there; that takes time.

# %%
w = mg.tensor([3.0], requires_grad=True)
with mg.detect_anomaly():
    y = w * w
    w.data[0] = 100.0
    try:
        y.backward()
    except RuntimeError as error:
        print(str(error).split(" It was called in")[0])
        found = True
assert found

# %% [markdown]
# ## dtype
#
# Training uses float32, which takes half the memory of float64 and has about 7 digits. Three rules follow.
#
# - One float64 array among float32 ones makes everything computed from it float64. As in PyTorch, numbers and
#   arrays without axes never change the dtype.
# - A gradient has the dtype of its tensor, even if the tensor was combined with another dtype.
# - Integers have no gradient: an index cannot be nudged by a little.

# %%
a32 = mg.tensor([1.0, 2.0], requires_grad=True)
a64 = mg.tensor([1.0, 2.0], dtype=mg.float64, requires_grad=True)
print(
    "float32 * 2.0:",
    (a32 * 2.0).dtype,
    "| float32 * np.float64(2):",
    (a32 * np.float64(2)).dtype,
    "| with float64:",
    (a32 * a64).dtype,
)
(a32 * a64).sum().backward()
print("gradients:", a32.grad.dtype, a64.grad.dtype)
assert (a32 * np.float64(2)).dtype == mg.float32 and (a32 * a64).dtype == mg.float64
assert (a32.grad.dtype, a64.grad.dtype) == (mg.float32, mg.float64)
try:
    mg.tensor([1, 2], requires_grad=True)
except TypeError as error:
    print(error)

# %% [markdown]
# ## Edge cases
#
# - **No axes.** A single number is an array of shape `()`, and so is its gradient.
# - **Both are stretched.** In (2, 1, 3) with (4, 1), each is repeated somewhere, and each is summed over its
#   own axes.
# - **No elements.** An array of shape (0, 3) has gradients of shape (0, 3). A bias that was added to no rows
#   gets zeros, since an empty sum is 0. The max of no elements does not exist, and is an error.
# - **Length 1 on both sides.** Nothing was stretched. Summing over an axis of length 1 changes nothing, so
#   this needs no special case.

# %%
u, v = np.ones((2, 1, 3)), np.ones((4, 1))
g4 = np.ones((2, 4, 3))
print("each number of (2, 1, 3) was used", unbroadcast(g4, u.shape)[0, 0, 0], "times")
print("each number of (4, 1) was used", unbroadcast(g4, v.shape)[0, 0], "times")
assert unbroadcast(g4, u.shape).shape == u.shape and (unbroadcast(g4, u.shape) == 4).all()
assert unbroadcast(g4, v.shape).shape == v.shape and (unbroadcast(g4, v.shape) == 6).all()

bias = mg.zeros(3, requires_grad=True)
(mg.zeros(0, 3) + bias).sum().backward()
print("a bias added to no rows:", bias.grad.data)
assert bias.grad.data.tolist() == [0, 0, 0]

# %% [markdown]
# ## Pitfalls: what learners ask
#
# **"Backward says my tensor is not a single number."** Only a single number has *one* gradient. Take a sum or
# mean, or pass the weights of the entries: `y.backward(g)`. That gives the gradient of `(g * y).sum()`.
#
# **"Why does `grad` have the wrong shape in my own code, and nothing crashes?"** The update broadcasts as
# well. With a gradient of shape (2, 3) for a bias of shape (3,), `b = b - lr * grad` gives a bias of shape
# (2, 3), and from then on the model is a different one. With the in-place form, `b -= ...`, NumPy raises an
# error. Compare shapes: a gradient has the shape of its parameter.
#
# **"My loss is 10 times larger with a batch 10 times as large."** `sum` adds up over the batch, `mean`
# divides by its size. Both are correct, but the gradients differ by the same factor, so a step size that
# suits one does not suit the other.
#
# **"`w -= lr * w.grad` raises an error."** The update would be recorded as a part of the computation, and the
# graph would no longer match the values of `w`. Do updates inside `with mg.no_grad():`. (In lesson 01 they
# changed `data`, which is not recorded.)
#
# **"(n,) or (n, 1)?"** Predictions of shape (n, 1) minus targets of shape (n,) broadcast to (n, n): each
# prediction is compared with every target. The loss is still a single number and training runs, but every
# prediction moves towards the mean of all targets. The next cell shows the shape.

# %%
predictions, targets = np.zeros((4, 1)), np.array([1.0, 2.0, 3.0, 4.0])
print(
    "shape of the difference:",
    (predictions - targets).shape,
    "and after squeezing:",
    (predictions[:, 0] - targets).shape,
)
assert (predictions - targets).shape == (4, 4)
w = mg.ones(3, requires_grad=True)
try:
    w -= 0.1
except RuntimeError as error:
    print(error)
    refused = "no_grad" in str(error)
assert refused
grown = np.zeros(3) - 0.1 * (g * x)  # the gradient was not unbroadcast
print("a bias of shape (3,) after one careless step:", grown.shape)
assert grown.shape == (2, 3)

# %% [markdown]
# ## Practice questions

# %% [markdown]
# ### Q1. Which axes of the gradient are summed for arguments of shapes (5, 1, 4) and (3, 1)?
#
# <details><summary>Answer</summary>
#
# The result has shape (5, 3, 4). The first was stretched along axis 1: sum over it and keep it. The second
# got a new axis 0 and was stretched along the last: sum over 0 and 2. If $g$ is all ones, the first gets 3
# everywhere and the second 20.
#
# </details>

# %%
# Q1, recomputed
shape = np.broadcast_shapes((5, 1, 4), (3, 1))
first, second = unbroadcast(np.ones(shape), (5, 1, 4)), unbroadcast(np.ones(shape), (3, 1))
print(shape, first.shape, second.shape, first.max(), second.max())
assert shape == (5, 3, 4) and first.shape == (5, 1, 4) and second.shape == (3, 1)
assert (first == 3).all() and (second == 20).all()

# %% [markdown]
# ### Q2. What is the gradient of the mean of all entries of an array of shape (4, 5)?
#
# <details><summary>Answer</summary>
#
# Each entry gets 1/20 = 0.05.
#
# </details>

# %%
# Q2, recomputed
t = mg.randn(4, 5, requires_grad=True)
t.mean().backward()
print(t.grad.data[0, 0])
assert np.allclose(t.grad.data, 0.05)

# %% [markdown]
# ### Q3. $x$ has 4 entries, $y = x[[2, 2, 0, 2]]$ and $g = (1, 10, 100, 1000)$. What is $x$'s gradient?
#
# <details><summary>Answer</summary>
#
# Entry 2 was used three times: $1 + 10 + 1000 = 1011$. Entry 0 gets 100, the others 0.
#
# </details>

# %%
# Q3, recomputed
t = mg.zeros(4, requires_grad=True)
t[[2, 2, 0, 2]].backward(mg.tensor([1.0, 10.0, 100.0, 1000.0]))
print(t.grad.data)
assert t.grad.data.tolist() == [100, 0, 1011, 0]

# %% [markdown]
# ### Q4. Let $y = x - \bar{x}$, with $\bar{x}$ the mean of $x$. With $g = (1, 2, 6)$, what is $x$'s gradient?
#
# <details><summary>Answer</summary>
#
# $x$ is used twice. The direct use contributes $g$. The mean is subtracted at all three positions, so it
# contributes $-(1 + 2 + 6)/3 = -3$ to each entry. Together the gradient is $g - \bar{g} = (-2, -1, 3)$. Its
# entries sum to 0, and there is a reason: adding the same number to every $x_i$ does not change $y$, so the
# gradient along that direction must be 0. Lesson 12 meets this again in layer normalization.
#
# </details>

# %%
# Q4, recomputed
t = mg.tensor([4.0, 7.0, 1.0], requires_grad=True)
(t - t.mean()).backward(mg.tensor([1.0, 2.0, 6.0]))
print(t.grad.data)
assert np.allclose(t.grad.data, [-2, -1, 3])

# %% [markdown]
# ### Q5. How many bytes has the Jacobian of `exp` of a million float32 numbers? What does the rule need?
#
# <details><summary>Answer</summary>
#
# $10^6 \cdot 10^6 \cdot 4 = 4 \cdot 10^{12}$ bytes, 4 terabytes. The rule needs only the result $y$, 4
# megabytes, and returns $g \cdot y$.
#
# </details>

# %%
# Q5, recomputed
n = 10**6
t = mg.zeros(n, requires_grad=True)
kept = mg.exp(t).node.y.nbytes
print(f"{n * n * 4:.0e} bytes, and {kept:,}")
assert n * n * 4 == 4 * 10**12 and kept == 4 * 10**6

# %% [markdown]
# ### Q6. What gradient does the max of $(2, 5, 5, 5)$ give, with $g = 1$? Why not all of $g$ to each 5?
#
# <details><summary>Answer</summary>
#
# $(0, 1/3, 1/3, 1/3)$, which sums to 1. With all of $g$ for each it would sum to 3: adding 0.01 to all three
# moves the max by 0.01, but that gradient predicts 0.03.
#
# </details>

# %%
# Q6, recomputed
t = np.array([2.0, 5.0, 5.0, 5.0])
shared = max_backward(np.array(1.0), t)
moved = (t + 0.01 * (t == 5)).max() - t.max()
print(
    shared,
    " all three nudged by 0.01: the max moves by",
    round(moved, 6),
    "; predicted:",
    round(0.01 * shared.sum(), 6),
)
assert np.allclose(shared, [0, 1 / 3, 1 / 3, 1 / 3]) and np.isclose(moved, 0.01 * shared.sum())
assert np.isclose(0.01 * (t == 5).sum(), 0.03)

# %% [markdown]
# ### Q7. $y = w \cdot x$; only $w$ needs a gradient. May $w$ be changed in place before backward? And $x$?
#
# <details><summary>Answer</summary>
#
# The rule for $w$ is $g \cdot x$. It reads $x$ and not $w$, so changing $w$ is safe and changing $x$ is not.
# minigrad can tell the two cases apart, since each rule declares what it reads.
#
# </details>

# %%
# Q7, recomputed
outcomes = {}
for changed in ("w", "x"):
    w, x_data = mg.tensor([3.0], requires_grad=True), mg.tensor([5.0])
    y = w * x_data
    with mg.no_grad():
        (w if changed == "w" else x_data).add_(1.0)
    try:
        y.backward()
        outcomes[changed] = w.grad.item()
    except RuntimeError:
        outcomes[changed] = "refused"
print(outcomes)
assert outcomes == {"w": 5.0, "x": "refused"}

# %% [markdown]
# ## What was left out
#
# - **Matrix products**: lesson 03. **Softmax**: lesson 05.
# - **Kernels.** Some functions have a second, faster implementation with a hand-written backward, in
#   `minigrad/kernels/`, beside their readable definition. `KernelRow` in the table is for those. Lesson 05
#   derives the first.
# - **Derivatives of derivatives.** A rule is written with NumPy's functions and also runs on Tensors. Then
#   its own computation is recorded, and can be differentiated again: lesson 18.
# - **Adding your own function** to the table: lesson 17.
#
# ## Sources
#
# - NumPy user guide, *Broadcasting*, <https://numpy.org/doc/stable/user/basics.broadcasting.html>: the rules
#   of alignment.
# - NumPy reference, `numpy.ufunc.at`, <https://numpy.org/doc/stable/reference/generated/numpy.ufunc.at.html>:
#   why `a[i] += 1` and `add.at` differ where indices repeat.
# - D. Maclaurin, D. Duvenaud, R. P. Adams, *Autograd*, <https://github.com/HIPS/autograd>: the table of
#   vector-Jacobian products (`defvjp`), the model for minigrad's table.
# - PyTorch documentation, `torch.amax`, <https://pytorch.org/docs/stable/generated/torch.amax.html>: the
#   gradient is divided evenly between equal maxima.
#
# ## Exercises
#
# You will write `unbroadcast`, `add_backward`, `mul_backward`, `sum_backward`, `mean_backward`,
# `max_backward`, `getitem_backward`, and finally `backward`, the reverse pass over a table of rules.
#
# `python -m tutorials start 02` copies the exercises to your own folder, as `my_minigrad/lesson02.py`.
# `python -m tutorials check 02` tests what you wrote.
