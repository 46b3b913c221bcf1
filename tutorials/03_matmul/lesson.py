# %% [markdown]
# # 03 · Matrix products
#
# *Reading: 35 minutes. Exercises: 35 minutes. Needs: lessons 01, 02, what a matrix product is.*
#
# Nearly all of the arithmetic in a Transformer is matrix products. What is the gradient of a product of
# matrices, of vectors, and of whole batches of matrices? How much does it cost?
#
# **You will be able to:**
#
# - derive the backward of `X @ Y` with indices, and reconstruct it from the shapes alone;
# - say when the shapes mislead you;
# - handle vectors, batches, and batches that broadcast;
# - write the backward of a linear layer with its bias, and of a permutation of axes;
# - count the operations of a product, forward and backward, and say why one large product beats many small
#   ones.

# %%
import inspect
import time

import numpy as np
from matplotlib.figure import Figure

import minigrad as mg
import minigrad.nn.functional as F
from minigrad import nn
from minigrad.engine import rules
from minigrad.gradcheck import gradcheck
from tutorials import show


def T(x):
    """The transpose of the matrices in the last two axes."""
    return np.swapaxes(x, -1, -2)


# %% [markdown]
# ## Intuition: a row of neurons, for a table of inputs
#
# A neuron (lesson 01) multiplies its inputs by weights and adds up. A *layer* is many neurons with the same
# inputs, and a *batch* is many inputs to the same neurons. Put the inputs into the rows of a matrix $X$, the
# weights of each neuron into a column of a matrix $Y$. Then entry $(i, j)$ of $X Y$ is the weighted sum of
# neuron $j$ for input $i$, before tanh.
#
# Each number of $X$ is used by all neurons: once for each column of $Y$. Each weight is used for all inputs:
# once for each row of $X$. By lesson 01, the gradient of each is a *sum over its uses*. These sums are matrix
# products again, as we will see.
#
# ## Definition
#
# $X$ has shape $(n, k)$, $Y$ has shape $(k, m)$, and $Z = XY$ has shape $(n, m)$:
#
# $$ Z_{ij} = \sum_{p=1}^{k} X_{ip} Y_{pj}. $$
#
# In formulas rows and columns are counted from 1, as in every book. In code, pictures and error messages they
# are counted from 0, as in NumPy. So $X_{23}$ is `X[1, 2]`.
#
# $G$ is the gradient of $Z$, so of shape $(n, m)$: $G_{ij} = \partial L / \partial Z_{ij}$. We want
# $\partial L / \partial X$, of shape $(n, k)$, and $\partial L / \partial Y$, of shape $(k, m)$. The result
# will be:
#
# $$ \frac{\partial L}{\partial X} = G Y^\top, \qquad \frac{\partial L}{\partial Y} = X^\top G. $$

# %% [markdown]
# ## A worked example by hand
#
# $$ X = \begin{pmatrix} 1 & 2 & 0 \\ 0 & 1 & 3 \end{pmatrix}, \quad
#    Y = \begin{pmatrix} 1 & 4 \\ 2 & 0 \\ 5 & 1 \end{pmatrix}, \quad
#    Z = XY = \begin{pmatrix} 5 & 4 \\ 17 & 3 \end{pmatrix}, \quad
#    G = \begin{pmatrix} 1 & 0 \\ 2 & -1 \end{pmatrix}. $$
#
# Take one number, $X_{23} = 3$ (row 2, column 3; in code `X[1, 2]`). Where is it used? In row 2 of $Z$ only:
# in $Z_{21}$, multiplied by $Y_{31} = 5$, and in $Z_{22}$, multiplied by $Y_{32} = 1$. So its gradient is
# $G_{21} \cdot 5 + G_{22} \cdot 1 = 2 \cdot 5 - 1 = 9$: row 2 of $G$ times row 3 of $Y$. And rows times rows
# is what $G Y^\top$ computes:
#
# $$ G Y^\top = \begin{pmatrix} 1 & 2 & 5 \\ -2 & 4 & 9 \end{pmatrix}, \qquad
#    X^\top G = \begin{pmatrix} 1 & 0 \\ 4 & -1 \\ 6 & -3 \end{pmatrix}. $$

# %%
X = np.array([[1.0, 2, 0], [0, 1, 3]])
Y = np.array([[1.0, 4], [2, 0], [5, 1]])
G = np.array([[1.0, 0], [2, -1]])
print("Z\n", X @ Y, "\ngradient of X\n", G @ Y.T, "\ngradient of Y\n", X.T @ G)
assert (X @ Y == [[5, 4], [17, 3]]).all()
assert (G @ Y.T == [[1, 2, 5], [-2, 4, 9]]).all()
assert (X.T @ G == [[1, 0], [4, -1], [6, -3]]).all()

nudge, h = np.zeros((2, 3)), 1e-6
nudge[1, 2] = h  # X's row 2, column 3
slope = ((G * ((X + nudge) @ Y)).sum() - (G * ((X - nudge) @ Y)).sum()) / (2 * h)
print("X[1, 2] nudged:", round(slope, 6))
assert abs(slope - 9) < 1e-6

# %% [markdown]
# The same as a picture, with rows and columns counted from 0, as in NumPy:

# %%
figure = Figure(figsize=(7, 2.9), layout="constrained")
figure.suptitle("The gradient of one entry of X: a row of G times a row of Y", fontsize=12)
panels = figure.subplots(1, 4, width_ratios=(3, 2, 2, 3))
marked = [
    ("X: one entry", X, (1, 2)),
    ("Y: its partners", Y, (2, None)),
    ("G: its uses", G, (1, None)),
]
for axes, (title, numbers, (row, column)) in zip(
    panels, [*marked, ("gradient: 2·5 − 1·1", G @ Y.T, (1, 2))], strict=True
):
    shade = np.zeros(numbers.shape)
    shade[row, slice(None) if column is None else column] = 1
    axes.imshow(shade, cmap="Oranges", vmin=0, vmax=2.5)
    for (i, j), number in np.ndenumerate(numbers):
        axes.text(j, i, f"{number:g}", ha="center", va="center", fontsize=12)
    axes.set(xticks=range(numbers.shape[1]), yticks=range(len(numbers)))
    axes.set_xlabel("column", fontsize=9)
    axes.set_title(title, fontsize=9)
panels[0].set_ylabel("row", fontsize=9)
show(
    figure,
    "X[1, 2] is used in row 1 of the product, with Y's row 2: "
    "its gradient is that row of G times that row of Y.",
)

# %% [markdown]
# ## Derivation with indices
#
# First the local derivative. In $Z_{ij} = \sum_p X_{ip} Y_{pj}$ the entry $X_{ab}$ occurs only if $i = a$, in
# the term with $p = b$. There it is multiplied by $Y_{bj}$:
#
# $$ \frac{\partial Z_{ij}}{\partial X_{ab}}
#    = \begin{cases} Y_{bj} & \text{if } i = a \\ 0 & \text{else.} \end{cases} $$
#
# Then apply the chain rule of lesson 02, the sum over everything computed from $X_{ab}$. In the sum over $i$
# only $i = a$ remains:
#
# $$ \frac{\partial L}{\partial X_{ab}} = \sum_{i, j} G_{ij} \frac{\partial Z_{ij}}{\partial X_{ab}}
#    = \sum_j G_{aj} Y_{bj} = \sum_j G_{aj} (Y^\top)_{jb} = (G Y^\top)_{ab}. $$
#
# In the same way, $Y_{ab}$ occurs only if $j = b$, in the term with $p = a$, multiplied by $X_{ia}$:
#
# $$ \frac{\partial L}{\partial Y_{ab}}
#    = \sum_i G_{ib} X_{ia} = \sum_i (X^\top)_{ai} G_{ib} = (X^\top G)_{ab}. $$
#
# `np.einsum` computes such sums from their indices: name the axes, and every axis that the result does not
# name is summed over. The backward is then the forward with two sets of letters swapped: *the gradient's
# letters and the argument's letters change places.*

# %%
assert np.allclose(np.einsum("ip,pj->ij", X, Y), X @ Y)
assert np.allclose(np.einsum("ij,pj->ip", G, Y), G @ Y.T)
assert np.allclose(np.einsum("ip,ij->pj", X, G), X.T @ G)
print("ip,pj->ij forward;   ij,pj->ip for X;   ip,ij->pj for Y")

# %% [markdown]
# ## The shape trick, and where it misleads
#
# Nobody remembers where the transposes go. Most people work it out from the shapes: the gradient of $X$ is a
# product of $G$ and $Y$, and it must have the shape of $X$. Let a program try all eight products of $G$ or
# $G^\top$ with $Y$ or $Y^\top$, in both orders.


# %%
def candidates(g, y):
    pairs = [("G", g), ("Gᵀ", g.T)], [("Y", y), ("Yᵀ", y.T)]
    for a, left in pairs[0]:
        for b, right in pairs[1]:
            yield f"{a} {b}", left, right
            yield f"{b} {a}", right, left


def fitting(n, k, m):
    """List (name, whether it is right) of each product that has the shape of X."""
    rng = np.random.default_rng(0)
    g, y = rng.standard_normal((n, m)), rng.standard_normal((k, m))
    return [
        (name, np.allclose(a @ b, g @ y.T))
        for name, a, b in candidates(g, y)
        if a.shape[1] == b.shape[0] and (len(a), b.shape[1]) == (n, k)
    ]


for sizes in ((2, 3, 4), (3, 3, 4), (3, 3, 3)):
    found = fitting(*sizes)
    print(
        f"n, k, m = {sizes}: {len(found)} fit:",
        ", ".join(name + (" (right)" if right else "") for name, right in found),
    )
assert [len(fitting(*sizes)) for sizes in ((2, 3, 4), (3, 3, 4), (3, 3, 3))] == [1, 2, 8]
assert sum(right for _, right in fitting(3, 3, 3)) == 1

# %% [markdown]
# With three different sizes one product fits, and it is right. With square matrices all eight fit, and seven
# of them are wrong without an error. Attention (lesson 08) is full of square matrices: it compares a sequence
# with itself. So use the trick with **all sizes different**, and run gradcheck on square ones.
#
# Shapes cannot show two more mistakes: a wrong factor (a mean that should be a sum), and a symmetric $Y$, for
# which $Y^\top$ and $Y$ are the same. Test with random numbers.

# %% [markdown]
# ## Vectors
#
# With a vector on one side, one axis of the result is missing. Give the vector an axis of length 1, use the
# rule for matrices, and take the axis away again:
#
# | forward | shapes | gradient of the first | gradient of the second |
# | --- | --- | --- | --- |
# | $X Y$ | $(n,k)(k,m) \to (n,m)$ | $G Y^\top$ | $X^\top G$ |
# | $X v$ | $(n,k)(k) \to (n)$ | $g v^\top$, an outer product | $X^\top g$ |
# | $u Y$ | $(k)(k,m) \to (m)$ | $Y g$ | $u g^\top$, an outer product |
# | $u \cdot v$ | $(k)(k) \to ()$ | $g v$ | $g u$ |
#
# The outer product $g v^\top$ has entry $g_i v_j$: $X_{ij}$ is used once, in $y_i$, where it is multiplied by
# $v_j$. NumPy's trap here is that `.T` of a vector is the same vector. Write `np.outer(g, v)` or
# `g[:, None] * v`.
#
# The cell below checks the table. As in lessons 01 and 02, `gradcheck` takes a pair (forward, backward) and
# the inputs: it draws a random $g$, calls `backward(g, *inputs)` and compares each gradient with nudging.

# %%
rng = np.random.default_rng(0)
v, u = rng.standard_normal(3), rng.standard_normal(4)
M = rng.standard_normal((4, 3))
assert gradcheck((lambda M, v: M @ v, lambda g, M, v: (np.outer(g, v), M.T @ g)), [M, v])
assert gradcheck((lambda u, M: u @ M, lambda g, u, M: (M @ g, np.outer(u, g))), [u, M])
assert gradcheck((lambda u, v: np.array(u @ v), lambda g, u, v: (g * v, g * u)), [v.copy(), v])
print("the three lines with vectors are right;  v.T has the shape", v.T.shape)
assert v.T.shape == v.shape

# %% [markdown]
# ## Batches
#
# With more than two axes, `@` multiplies the matrices in the **last two** and treats all axes before them as
# a batch: $(B, n, k) @ (B, k, m)$ is $B$ separate products. No product affects another, so backward uses the
# same formula for each. Only the transpose must not touch the batch axes: use `swapaxes(-1, -2)` or `.mT`.
# The property `.T` reverses *all* axes.
#
# ### The program that breaks: `.T` on a batch

# %%
A, B = rng.standard_normal((2, 3, 4)), rng.standard_normal((2, 4, 5))
g = rng.standard_normal((2, 3, 5))
print("B.T has shape", B.T.shape, " and swapaxes(-1, -2) gives", T(B).shape)
assert (g @ T(B)).shape == A.shape
cube, g_cube = rng.standard_normal((3, 3, 3)), rng.standard_normal((3, 3, 3))
silent = g_cube @ cube.T  # no error: all axes have length 3
print("on a cube .T does not crash; right?", np.allclose(silent, g_cube @ T(cube)))
assert not np.allclose(silent, g_cube @ T(cube))

# %% [markdown]
# ### Batches that broadcast
#
# The batch axes follow the rules of lesson 02: an axis of length 1, or a missing one, is repeated. Take
# shapes
#
# $$ (2, 1, 3, 4) @ (5, 4, 2) \to (2, 5, 3, 2). $$
#
# Each of the 2 matrices of $X$ is multiplied with each of the 5 of $Y$. So each is used several times, and
# its gradients add up. First apply the formula to each of the ten products, then lesson 02's `unbroadcast`:
#
# - $G Y^\top$ has shape (2, 5, 3, 4). $X$ was repeated along axis 1: sum over it and keep it with length 1.
# - $X^\top G$ has shape (2, 5, 4, 2). $Y$ had no axis 0: sum over it and drop it.


# %%
def unbroadcast(g, shape):
    """Lesson 02: sum g over the axes along which an array of `shape` was repeated."""
    g = g.sum(axis=tuple(range(g.ndim - len(shape))))
    return g.sum(axis=tuple(i for i, n in enumerate(shape) if n == 1), keepdims=True)


def matmul_backward(g, x, y):
    return unbroadcast(g @ T(y), x.shape), unbroadcast(T(x) @ g, y.shape)


for left, right in (
    ((2, 1, 3, 4), (5, 4, 2)),
    ((3, 4), (5, 4, 2)),
    ((2, 3, 4), (4, 2)),
    ((3, 3), (3, 3)),
    ((2, 1, 4), (4, 1)),
):
    x, y = rng.standard_normal(left), rng.standard_normal(right)
    assert gradcheck((np.matmul, matmul_backward), [x, y])
    print(f"{left} @ {right} -> {(x @ y).shape}: right")

# %% [markdown]
# ## A linear layer
#
# This is a layer with weights and bias, in PyTorch's convention. The weight has a *row* for each neuron, so
# its shape is (out, in), and
#
# $$ y = x W^\top + b, \qquad x: (N, \text{in}), \quad W: (\text{out}, \text{in}), \quad
#    b: (\text{out},), \quad y: (N, \text{out}). $$
#
# We need no new derivation. Let $g$, of shape (N, out), be the gradient of $y$. The product is $x$ times
# $W^\top$, so by the first rule $x$ gets $g (W^\top)^\top = g W$. $W^\top$ gets $x^\top g$, so $W$ gets its
# transpose, $g^\top x$. And $b$ was copied into each row, so it gets the sum over the rows:
#
# $$ \frac{\partial L}{\partial x} = g W, \qquad \frac{\partial L}{\partial W} = g^\top x, \qquad
#    \frac{\partial L}{\partial b} = \sum_{\text{rows}} g. $$
#
# Check the shapes: (N, out)(out, in) = (N, in); (out, N)(N, in) = (out, in). The product $g^\top x$ contains
# the sum over the $N$ uses of each weight.
#
# If $x$ has more axes, (batch, time, in), then all of them but the last are rows: $N$ is batch times time.
# Flatten them, and restore them at the end.


# %%
def linear(x, W, b):
    return x @ W.T + b


def linear_backward(g, x, W, b):
    g_rows, x_rows = g.reshape(-1, g.shape[-1]), x.reshape(-1, x.shape[-1])  # (N, out), (N, in)
    return g @ W, g_rows.T @ x_rows, g_rows.sum(axis=0)


W, b = rng.standard_normal((5, 4)), rng.standard_normal(5)
for shape in ((3, 4), (2, 3, 4), (4,)):
    assert gradcheck((linear, linear_backward), [rng.standard_normal(shape), W, b])
    print("x of shape", shape, "is right")

# %% [markdown]
# ## Permutations of axes
#
# `permute(x, axes)` puts the axes into another order: axis $i$ of the result is axis `axes[i]` of $x$. The
# elements only move; none changes. So backward moves each gradient back to the position its element came
# from: it permutes $g$ by the **inverse** order,
#
# $$ \text{inverse}[\text{axes}[i]] = i. $$
#
# `np.argsort(axes)` computes this inverse: it returns the position of 0 in `axes`, then the position of 1,
# and so on.
#
# ### The program that breaks, on cubes only: permuting by the same axes again
#
# The inverse of a swap of two axes is the same swap, so a test with swaps cannot tell the two apart. (2,
# 0, 1) can, in an array whose axes have the same length, where the wrong order raises no error.

# %%
axes = (2, 0, 1)
inverse = tuple(int(i) for i in np.argsort(axes))
print("axes", axes, " inverse", inverse)
assert inverse == (1, 2, 0)
assert all(inverse[axes[i]] == i for i in range(3))
box = rng.standard_normal((2, 3, 4))
assert np.transpose(np.transpose(box, axes), inverse).shape == box.shape
g_cube = np.arange(27.0).reshape(3, 3, 3)
back, again = np.transpose(g_cube, inverse), np.transpose(g_cube, axes)
print("on the cube, entry [0, 1, 2] gets", back[0, 1, 2], "; with the same axes again", again[0, 1, 2])
assert back[0, 1, 2] == g_cube[2, 0, 1] and again[0, 1, 2] == g_cube[1, 2, 0] and not np.allclose(back, again)
assert gradcheck((lambda x: np.transpose(x, axes), lambda g, x: np.transpose(g, np.argsort(axes))), [g_cube])

# %% [markdown]
# ## What it costs
#
# Each of the $n m$ entries of $XY$ is a sum of $k$ products: $k$ multiplications and $k - 1$ additions. The
# usual count is
#
# $$ \text{FLOPs}(X Y) = 2 n k m $$
#
# (FLOP: one operation on floating-point numbers). Backward computes two products. $G Y^\top$ is (n, m)(m, k),
# $2nmk$, and $X^\top G$ is (k, n)(n, m), $2knm$. **Backward costs twice the forward; a training step costs
# three times the forward.** For a weight matrix with $P$ entries and $N$ rows of input that is $2PN$ forward,
# $4PN$ backward, $6PN$ in all. This is the "6" in the estimate $6 N D$ for training a language model (Kaplan
# et al. 2020, section 2.1; there $N$ counts parameters and $D$ tokens).
#
# The count is not the time. A processor does arithmetic faster than it loads numbers from memory. Elementwise
# operations, and a matrix times a vector, use each number once or twice. A product of two large matrices uses
# each number many times: $2n^3$ operations on $3n^2$ numbers. So its time depends on the arithmetic, and it
# reaches a much higher rate. We measure it here.


# %%
def rate(n, m, rounds=5):
    """Billions of operations a second for (n, n) @ (n, m), the best of some rounds."""
    a, b = np.ones((n, n), np.float32), np.ones((n, m), np.float32)
    repeat = max(1, int(2e6 / (n * n * m)))
    best = float("inf")
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(repeat):
            a @ b
        best = min(best, (time.perf_counter() - start) / repeat)
    return 2 * n * n * m / best / 1e9


# %%
sizes = (8, 16, 32, 64, 128, 256, 512)
square, thin = [rate(n, n) for n in sizes], [rate(n, 1) for n in sizes]
for n, s, t in zip(sizes, square, thin, strict=True):
    print(f"n = {n:3}: matrix @ matrix {s:7.2f} GFLOP/s    matrix @ vector {t:6.2f} GFLOP/s")

# %%
figure = Figure(figsize=(7, 3.4), layout="constrained")
axes_ = figure.subplots()
axes_.plot(sizes, square, "o-", color="#0072B2", label="(n, n) @ (n, n)")
axes_.plot(sizes, thin, "s--", color="#D55E00", label="(n, n) @ (n, 1)")
axes_.set(xscale="log", yscale="log", xlabel="n", ylabel="billions of operations a second")
axes_.set_xticks(sizes, [str(n) for n in sizes])
axes_.minorticks_off()
axes_.set_title("One large matrix product does far more arithmetic a second (measured here)", fontsize=11)
axes_.legend(fontsize=9)
show(
    figure,
    "Operations a second by size: a product of two matrices soon runs at a high rate, "
    "a matrix times a vector far below it.",
)

# %% [markdown]
# ### Why two axes are better than three
#
# `x @ W.T` with $x$ of shape (batch, time, in) can be computed as `batch` small products, or as one product
# of (batch · time, in). The same holds for the gradient of $W$. The direct way computes a product for each
# entry of the batch, `batch` matrices of the size of $W$, then adds them up and discards them. With flattened
# rows the sum is part of one product.

# %%
batch, length, width = 32, 16, 256
x = rng.standard_normal((batch, length, width), dtype=np.float32)
g = rng.standard_normal((batch, length, width), dtype=np.float32)


def best_time(fun, rounds=7):
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        fun()
        times.append(time.perf_counter() - start)
    return min(times)


# %%
def many():
    return (T(g) @ x).sum(axis=0)


def one():
    return g.reshape(-1, width).T @ x.reshape(-1, width)


assert np.allclose(many(), one(), atol=1e-3)
temporary = batch * width * width * 4
print(
    f"a product for each entry of the batch, then the sum: {best_time(many) * 1e3:.2f} ms, "
    f"{temporary:,} temporary bytes"
)
print(f"one product over all rows: {best_time(one) * 1e3:.2f} ms, no temporary bytes")
assert temporary == 8_388_608

# %% [markdown]
# Flattening costs nothing as long as the rows lie one after the other in memory: `reshape` then returns a
# view of the same numbers. After a transpose they do not, and `reshape` copies.

# %%
flat, moved = x.reshape(-1, width), np.swapaxes(x, 0, 1).reshape(-1, width)
print("shares memory: as it is", np.shares_memory(flat, x), "| after a transpose", np.shares_memory(moved, x))
assert np.shares_memory(flat, x) and not np.shares_memory(moved, x)

# %% [markdown]
# ## The same in minigrad
#
# `minigrad/engine/rules.py` has the two rules of `np.matmul`. They return gradients that may still be
# stretched over the batch; the engine undoes that for every rule. Where $Y$ is one matrix for the whole
# batch, the rule uses one product over all rows.

# %%
print(inspect.getsource(rules.matmul_x))
print(inspect.getsource(rules.matmul_y))

# %% [markdown]
# `nn.Linear` holds a weight and a bias, and calls `F.linear`. The rule of the permutation is the row
# `np.transpose` of the table; it calls `inverse`, printed below.

# %%
mg.manual_seed(0)
layer = nn.Linear(4, 5)
x_m = mg.randn(2, 3, 4, requires_grad=True)
g_m = mg.randn(2, 3, 5)
layer(x_m).backward(g_m)
dx, dW, db = linear_backward(g_m.data, x_m.data, layer.weight.data, layer.bias.data)
for name, ours, theirs in (
    ("x", dx, x_m.grad),
    ("weight", dW, layer.weight.grad),
    ("bias", db, layer.bias.grad),
):
    print(f"{name:6} {theirs.shape!s:10} largest difference from ours {np.abs(ours - theirs.data).max():.1e}")
    assert np.allclose(ours, theirs.data, atol=1e-5)
print(inspect.getsource(rules.inverse))

# %% [markdown]
# ## Gradient check
#
# Our rules were checked above. Here are minigrad's rules with all kinds of shapes, vectors included. They are
# checked in second order too (the derivative of the derivative, lesson 18), where a wrong transpose can hide.


# %%
def leaf(*shape):
    return mg.tensor(rng.standard_normal(shape), requires_grad=True)


shapes = [
    ((2, 3), (3, 4)),
    ((3, 3), (3, 3)),
    ((3,), (3,)),
    ((2, 3), (3,)),
    ((3,), (3, 2)),
    ((2, 1, 3, 4), (5, 4, 2)),
    ((4,), (2, 4, 3)),
]
for left, right in shapes:
    assert gradcheck(lambda x, y: x @ y, [leaf(*left), leaf(*right)], order=2)
    print(left, "@", right, "ok")
assert gradcheck(F.linear, [leaf(2, 3, 4), leaf(5, 4), leaf(5)], order=2)
assert gradcheck(lambda x: x.permute(2, 0, 1), [leaf(3, 3, 3)])

# %% [markdown]
# ## Edge cases
#
# - **No inner axis.** (2, 0) @ (0, 3) is a (2, 3) matrix of zeros: empty sums. The gradients have the shapes
#   (2, 0) and (0, 3).
# - **No rows.** An empty batch gives the weights a gradient of zeros.
# - **Length 1.** (1, k) @ (k, m) does not stretch the row axis, so `unbroadcast` has nothing to sum there.
# - **The same matrix twice.** In $X X$ both rules apply, and the two gradients add up: $G X^\top + X^\top G$.

# %%
nothing = np.zeros((2, 0)) @ np.zeros((0, 3))
print(
    nothing.tolist(), [d.shape for d in matmul_backward(np.ones((2, 3)), np.zeros((2, 0)), np.zeros((0, 3)))]
)
assert not nothing.any() and nothing.shape == (2, 3)
x_m = mg.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
(x_m @ x_m).backward(mg.tensor([[1.0, 0.0], [0.0, 0.0]]))
x, g = x_m.data, np.array([[1.0, 0], [0, 0]])
print("gradient of X in X @ X:", x_m.grad.tolist())
assert np.allclose(x_m.grad.data, g @ x.T + x.T @ g)

# %% [markdown]
# ## Pitfalls: what learners ask
#
# **"Is `np.dot` the same as `@`?"** Yes for vectors and matrices. With more axes `np.dot` multiplies *every*
# matrix of the first with *every* one of the second. You will meet attention code with `np.dot(Q, K.T)`: that
# is right for one sequence only. For a batch it is wrong twice, since `.T` reverses all axes as well. Write
# `Q @ np.swapaxes(K, -1, -2)`.
#
# **"Why does my bias' gradient have shape (time, out)?"** You summed over the first axis only. The bias was
# copied along *all* axes but the last: sum over all of them.
#
# **"`W` or `W.T`?"** There are two conventions. With $y = x W$ the weight is (in, out); papers use it, and so
# do GPT-2's files. PyTorch's and minigrad's `Linear` uses (out, in). A square weight loads without an error
# in the wrong one.
#
# **"`*` or `@`?"** `*` multiplies element by element, `@` multiplies matrices. Between a (3, 3) and a (3,)
# both run, with different results.

# %%
Q, K = rng.standard_normal((2, 3, 4)), rng.standard_normal((2, 5, 4))
print("np.dot(Q, swapped K):", np.dot(Q, T(K)).shape, "  Q @ swapped K:", (Q @ T(K)).shape)
assert np.dot(Q, T(K)).shape == (2, 3, 2, 5) and (Q @ T(K)).shape == (2, 3, 5)
S, s = np.array([[1.0, 2, 0], [0, 1, 0], [1, 0, 1]]), np.array([1.0, 10.0, 100.0])
print("S * s has shape", (S * s).shape, "and S @ s", (S @ s).shape)
assert (S * s).shape == (3, 3) and (S @ s).tolist() == [21, 10, 101]

# %% [markdown]
# ## Practice questions

# %% [markdown]
# ### Q1. $X$ is (5, 7) and $Y$ is (7, 2). What are the shapes of $G$, $G Y^\top$ and $X^\top G$?
#
# <details><summary>Answer</summary>
#
# (5, 2); (5, 2)(2, 7) = (5, 7), the shape of $X$; (7, 5)(5, 2) = (7, 2), the shape of $Y$.
#
# </details>

# %%
# Q1, recomputed
x, y = np.ones((5, 7)), np.ones((7, 2))
g = np.ones((x @ y).shape)
print(g.shape, (g @ y.T).shape, (x.T @ g).shape)
assert (g.shape, (g @ y.T).shape, (x.T @ g).shape) == ((5, 2), (5, 7), (7, 2))

# %% [markdown]
# ### Q2. $L$ is the sum of all entries of $X Y$; row 1 of $Y$ is $(3, -1, 5)$. What is $X_{11}$'s gradient?
#
# <details><summary>Answer</summary>
#
# $G$ is all ones, so entry $(a, b)$ of the gradient is the sum of row $b$ of $Y$: all its rows are equal. For
# $X_{11}$ it is $3 - 1 + 5 = 7$.
#
# </details>

# %%
# Q2, recomputed
x = mg.randn(4, 2, requires_grad=True)
(x @ mg.tensor([[3.0, -1.0, 5.0], [1.0, 1.0, 1.0]])).sum().backward()
print(x.grad.tolist())
assert np.allclose(x.grad.data, [[7, 3]] * 4)

# %% [markdown]
# ### Q3. What is the inverse of the permutation (2, 0, 3, 1)?
#
# <details><summary>Answer</summary>
#
# In (2, 0, 3, 1), 0 is at position 1, 1 at position 3, 2 at position 0, 3 at position 2: the inverse is (1,
# 3, 0, 2).
#
# </details>

# %%
# Q3, recomputed
inverse = tuple(int(i) for i in np.argsort((2, 0, 3, 1)))
print(inverse)
assert inverse == (1, 3, 0, 2)
assert np.zeros((4, 5, 6, 7)).transpose(2, 0, 3, 1).transpose(inverse).shape == (4, 5, 6, 7)

# %% [markdown]
# ### Q4. $L = u^\top A v$ with vectors $u = (1, 2)$ and $v = (3, 4, 5)$. What is the gradient of $A$?
#
# <details><summary>Answer</summary>
#
# $A_{ij}$ is multiplied by $u_i v_j$, so it is the outer product: rows (3, 4, 5) and (6, 8, 10). It does not
# depend on $A$.
#
# </details>

# %%
# Q4, recomputed
A_m = mg.randn(2, 3, requires_grad=True)
(mg.tensor([1.0, 2.0]) @ A_m @ mg.tensor([3.0, 4.0, 5.0])).backward()
print(A_m.grad.tolist())
assert np.allclose(A_m.grad.data, [[3, 4, 5], [6, 8, 10]])

# %% [markdown]
# ### Q5. A linear layer from 512 to 2,048 gets 32 sequences of 128 tokens. What does a training step cost?
#
# <details><summary>Answer</summary>
#
# There are 32 · 128 = 4,096 rows: $2 \cdot 4096 \cdot 512 \cdot 2048 = 8{,}589{,}934{,}592$, about 8.6
# billion. That is the forward; the training step takes three times as many, 25.8 billion. (The bias adds 8
# million to the forward, a thousandth.)
#
# </details>

# %%
# Q5, recomputed
forward = 2 * 32 * 128 * 512 * 2048
bias = 32 * 128 * 2048
print(
    f"{forward:,} forward, {3 * forward / 1e9:.1f} billion in all; "
    f"the bias {bias:,}, a fraction of {bias / forward:.4f}"
)
assert forward == 8_589_934_592 and round(3 * forward / 1e9, 1) == 25.8
assert 8e6 < bias < 9e6 and bias / forward < 1.1e-3

# %% [markdown]
# ### Q6. In (8, 1, 6, 4) @ (3, 4, 5), how many times is each entry of the first used? And of the second?
#
# <details><summary>Answer</summary>
#
# The result has shape (8, 3, 6, 5). An entry of the first takes part in 3 products, and in each it is used
# once for each of 5 columns: 15 times. An entry of the second takes part in 8 products, with 6 rows each: 48
# times.
#
# </details>

# %%
# Q6, recomputed
x, y = np.ones((8, 1, 6, 4)), np.ones((3, 4, 5))
dx, dy = matmul_backward(np.ones((x @ y).shape), x, y)
print((x @ y).shape, dx.max(), dy.max())
assert (x @ y).shape == (8, 3, 6, 5) and (dx == 15).all() and (dy == 48).all()

# %% [markdown]
# ### Q7. The gradient of $X$ is written $Y^\top G$, and tests with `np.eye(3)` pass. Why? Which test fails?
#
# <details><summary>Answer</summary>
#
# With the identity as $Y$, every order and every transpose of $Y$ gives $G$. If all sizes are equal, any
# random $Y$ shows the mistake. With different sizes the product does not even run: here $Y^\top G$ would be
# (4, 3)(2, 4).
#
# </details>

# %%
# Q7, recomputed
g, eye, y = rng.standard_normal((3, 3)), np.eye(3), rng.standard_normal((3, 3))
print("identity:", np.allclose(eye.T @ g, g @ eye.T), "  random:", np.allclose(y.T @ g, g @ y.T))
assert np.allclose(eye.T @ g, g @ eye.T) and not np.allclose(y.T @ g, g @ y.T)
try:
    np.ones((3, 4)).T @ np.ones((2, 4))
    refused = False
except ValueError:
    refused = True
assert refused

# %% [markdown]
# ## What was left out
#
# - **How a product is computed fast.** NumPy passes `@` to a BLAS library, which cuts the matrices into
#   blocks that fit into the processor's caches. We do not look inside it.
# - **Products with fewer operations** (Strassen 1969) exist, but are hardly used in training.
# - **Convolutions** are matrix products in disguise. A Transformer has none.
# - **Inverse, determinant, solve**: their rules are in `minigrad/engine/rules.py` under "matrices as a
#   whole".
#
# ## Sources
#
# - NumPy reference, `numpy.matmul`, <https://numpy.org/doc/stable/reference/generated/numpy.matmul.html>:
#   vectors, batches, and how it differs from `dot`.
# - PyTorch documentation, `torch.nn.Linear`,
#   <https://pytorch.org/docs/stable/generated/torch.nn.Linear.html>: $y = xA^T + b$.
# - M. B. Giles, *An extended collection of matrix derivative results for forward and reverse mode algorithmic
#   differentiation*, Oxford University Computing Laboratory, report 08/01 (2008): the reverse mode of sums,
#   products and more.
# - J. Kaplan et al., *Scaling Laws for Neural Language Models*, arXiv:2001.08361 (2020), section 2.1: about
#   $6N$ operations for each token.
#
# ## Exercises
#
# You will write `outer_backward`, `matvec_backward`, `matmul_backward` for two matrices, `linear_backward`,
# `permute_backward`, `batched_matmul_backward` with broadcasting, and `matmul_flops`.
#
# `python -m tutorials start 03` copies the exercises to your own folder, as `my_minigrad/lesson03.py`.
# `python -m tutorials check 03` tests what you wrote.
