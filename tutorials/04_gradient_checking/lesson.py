# %% [markdown]
# # 04 · Checking gradients
#
# *Reading: 30 minutes. Exercises: 50 minutes. Needs: lessons 01, 02, 03.*
#
# You derived a backward by hand and typed it in. Before a model trains on it for a night: how do you find out
# whether it is right, and if it is not, what is wrong?
#
# **You will be able to:**
#
# - measure a gradient with finite differences (by nudging), and say how many of its digits are right;
# - choose the step, and explain why float32 is not precise enough;
# - check a backward of any shape with a random incoming gradient, and say why a sum is not enough;
# - recognise the cases in which a check misleads: kinks (corners of a function), vacuous checks, wrong
#   forwards, random functions;
# - use `gradcheck`, `gradcheck_pair` and `locate` of minigrad, and read their reports.

# %%
import numpy as np
from matplotlib.figure import Figure

import minigrad as mg
from minigrad.engine.table import RULES
from minigrad.gradcheck import check_pair, gradcheck, gradcheck_pair, locate
from tutorials import show

rng = np.random.default_rng(4)
np.set_printoptions(precision=4, suppress=True)

# %% [markdown]
# ## Intuition: a wrong gradient raises no error
#
# A wrong forward shows in its output. A wrong backward often does not. Here two parameters are fitted to
# noisy data, $y = \tanh(w x + b)$, once with the right derivative $1 - y^2$ and once with $1 - y$, a typing
# mistake. Both are positive, so both go downhill.

# %%
x = rng.standard_normal(200)
target = np.tanh(2 * x - 1) + 0.3 * rng.standard_normal(200)
final = {}
for name, slope in (("right: 1 - y * y", lambda y: 1 - y * y), ("wrong: 1 - y", lambda y: 1 - y)):
    w, b = 0.1, 0.0
    for step in range(401):
        y = np.tanh(w * x + b)
        if step in (0, 10, 400):
            print(f"{name:17} step {step:3}  loss {np.mean((y - target) ** 2):.4f}  w {w:.3f}  b {b:.3f}")
        g = 2 * (y - target) / len(x) * slope(y)  # the gradient at w x + b
        w, b = w - (g * x).sum(), b - g.sum()
    final[name] = w
assert abs(final["right: 1 - y * y"] - final["wrong: 1 - y"]) > 0.3

# %% [markdown]
# There is no error, no NaN, and the loss falls. Only the result is worse than it could be, and without the
# right version you cannot see that.
#
# But a derivative is a slope, and you can *measure* a slope without calculus: move $x$ a little, see how far
# the result moves, divide. That needs only the forward. It is slow and not quite exact, so nobody trains with
# it. It is a good check because the two values come from independent methods: they agree to eight digits, or
# one of them is wrong.

# %% [markdown]
# ## Definition
#
# Let $f$ take one number to one number, and let $h$ be a small positive *step*. The **forward difference**
# and the **central difference** are
#
# $$D_+(x) = \frac{f(x + h) - f(x)}{h} \qquad D_0(x) = \frac{f(x + h) - f(x - h)}{2h}$$
#
# Let $L$ take an array $x$ of any shape to one number. Its numerical gradient has the shape of $x$; for each
# entry, only that entry is moved:
#
# $$\frac{\partial L}{\partial x_i} \approx \frac{L(x + h e_i) - L(x - h e_i)}{2h}$$
#
# where $e_i$ is an array of zeros with a 1 at position $i$.
#
# Now let the output $y = f(x)$ be an array. Its backward takes $g$, the gradient of the value (the shape of
# $y$), and returns what should be the gradient of $x$ (the shape of $x$). To check it, draw a $g$ at random
# and make the output a single number, $L(x) = \sum_k g_k f(x)_k$. Since $\partial L / \partial y_k$ is
# exactly $g_k$, backward must return the gradient of this $L$. Compare it with the numerical gradient of $L$.
#
# For the comparison, minigrad uses the **relative error** between a gradient $a$ and a measured gradient $n$:
#
# $$\mathrm{error}(a, n) = \frac{\max_i |a_i - n_i|}{\max(10^{-3}, \max_i |a_i|, \max_i |n_i|)}$$
#
# The largest entry sets the scale. (A scale for each entry does not work: an entry whose gradient is truly 0
# is measured as $10^{-12}$, and its relative error is 100 %.) The floor, $10^{-3}$, keeps a gradient that is
# 0 everywhere from being divided by its own rounding errors.

# %% [markdown]
# ## A worked example by hand
#
# Take $f(x) = x^3$ at $x = 2$, where $f'(x) = 3x^2 = 12$. Let $h = 0.1$.
#
# - $f(2.1) = 9.261$, $f(2) = 8$, $f(1.9) = 6.859$.
# - Forward: $(9.261 - 8) / 0.1 = 12.61$. The error is $0.61$.
# - Central: $(9.261 - 6.859) / 0.2 = 12.01$. The error is $0.01$.
#
# Expand the cubes to see where the errors come from: $(x + h)^3 = x^3 + 3x^2 h + 3x h^2 + h^3$. The forward
# difference is $3x^2 + 3xh + h^2$, so its error is $3 \cdot 2 \cdot 0.1 + 0.01 = 0.61$. In the central
# difference the even powers of $h$ cancel, which leaves $3x^2 + h^2$, with the error $0.01$. Halving the step
# about halves the first error and quarters the second.


# %%
def forward_difference(f, x, h):
    return (f(x + h) - f(x)) / h


def central_difference(f, x, h):
    return (f(x + h) - f(x - h)) / (2 * h)


def cube(x):
    return x * x * x


assert np.isclose(forward_difference(cube, 2.0, 0.1), 12.61) and np.isclose(
    central_difference(cube, 2.0, 0.1), 12.01
)
for h in (0.1, 0.05):
    errors = [difference(cube, 2.0, h) - 12 for difference in (forward_difference, central_difference)]
    print(f"h = {h:4}: error of the forward difference {errors[0]:.4f}, of the central {errors[1]:.4f}")
assert np.allclose(errors, [0.3025, 0.0025])

# %% [markdown]
# ## Derivation: which step is best?
#
# ### Truncation
#
# Taylor's formula, for a smooth $f$:
#
# $$f(x \pm h) = f(x) \pm h f'(x) + \frac{h^2}{2} f''(x) \pm \frac{h^3}{6} f'''(x) + \ldots$$
#
# Insert it into the two definitions. The terms beside $f'(x)$ are called the truncation error:
#
# $$D_+ = f' + \frac{h}{2} f'' + \ldots \qquad D_0 = f' + \frac{h^2}{6} f''' + \ldots$$
#
# So a smaller step is better, and the central difference is much better: its error falls with $h^2$ instead
# of $h$, at the cost of one more evaluation.
#
# ### Rounding
#
# A computer stores $f(x)$ with a relative error of about $\epsilon$: $2.2 \cdot 10^{-16}$ in float64,
# $1.2 \cdot 10^{-7}$ in float32. When two nearly equal values are subtracted, their common digits cancel but
# their errors remain, and the result is divided by $h$. The rounding error is about
#
# $$\frac{\epsilon |f|}{h}$$
#
# So a smaller step is *worse*. The sum of both errors has the shape of a V, and the best step is at its
# bottom.
#
# ### The bottom of the V
#
# For the central difference the sum is $E(h) = \frac{h^2}{6} |f'''| + \frac{\epsilon |f|}{h}$. Set its
# derivative to 0:
#
# $$\frac{h}{3} |f'''| - \frac{\epsilon |f|}{h^2} = 0
# \quad \Rightarrow \quad h^3 = 3 \epsilon \frac{|f|}{|f'''|}
# \quad \Rightarrow \quad h \approx \epsilon^{1/3}$$
#
# when $f$ and its third derivative are of similar size. The error there is about
# $\epsilon / h = \epsilon^{2/3}$. The same calculation for the forward difference,
# $\frac{h}{2}|f''| + \epsilon |f| / h$, gives $h \approx \epsilon^{1/2}$ and an error of about
# $\epsilon^{1/2}$.

# %%
for dtype in (np.float64, np.float32):
    eps = np.finfo(dtype).eps
    print(f"{dtype.__name__}: eps {eps:.1e}")
    print(f"  forward: best step {eps**0.5:.0e}, error there {eps**0.5:.0e}")
    print(f"  central: best step {eps ** (1 / 3):.0e}, error there {eps ** (2 / 3):.0e}")

# %% [markdown]
# Now measure the error: the derivative of $\sin$ at a hundred points between 0.5 and 1.5, with steps from
# $10^{-1}$ to $10^{-14}$. The picture shows the median error of the hundred.


# %%
def error_of(difference, dtype, h):
    points = np.linspace(0.5, 1.5, 100).astype(dtype)
    measured = difference(np.sin, points, dtype(h))
    return np.median(np.abs(measured - np.cos(points.astype(np.float64))))


steps = 10.0 ** np.arange(-14, -0.9, 0.125)
curves = {
    "forward, float64": ([error_of(forward_difference, np.float64, h) for h in steps], "#D55E00", "-"),
    "central, float64": ([error_of(central_difference, np.float64, h) for h in steps], "#0072B2", "-"),
    "central, float32": (
        [error_of(central_difference, np.float32, h) for h in steps if h > 1e-6],
        "#009E73",
        "--",
    ),
}
figure = Figure(figsize=(7, 4.2), layout="constrained")
axes = figure.add_subplot()
axes.set_title("Too large a step truncates, too small a step rounds: the best lies between", fontsize=11)
for name, (errors, colour, line) in curves.items():
    axes.loglog(steps[-len(errors) :], errors, line, color=colour, label=name)
axes.axvline(1e-5, color="#777777", linestyle=":", label="minigrad's step, 1e-5")
axes.set(xlabel="step h", ylabel="error of the measured derivative of sin")
axes.legend()
show(figure, "Error of finite differences against the step: three V shapes, float32's far above")

# %%
best = {name: steps[-len(errors) :][np.argmin(errors)] for name, (errors, *_) in curves.items()}
for name, (errors, *_) in curves.items():
    at = errors[np.argmin(np.abs(steps[-len(errors) :] - 1e-5))]
    print(f"{name}: best step about {best[name]:.0e}, error there {min(errors):.0e}; at 1e-5 {at:.0e}")
assert 1e-7 < best["central, float64"] < 1e-4 and 1e-10 < best["forward, float64"] < 1e-6
assert 1e-4 < best["central, float32"] < 1e-1

# %% [markdown]
# That is why minigrad uses $h = 10^{-5}$, requires agreement to $10^{-6}$, and **rejects float32**. In
# float32 the rounding error of a value is $10^{-7}$; divided by a step of $10^{-5}$ it is an error of up to 1
# %. Correct gradients would fail, and a tolerance wide enough for them would also pass mistakes. A float32
# model is converted to float64 for the check (`module.double()`); the formulas are the same.

# %% [markdown]
# ## Code: a checker in twenty lines
#
# The numerical gradient moves each entry up and down, and then restores it.


# %%
def numerical_gradient(f, x, h=1e-5):
    """The gradient of f(x), one number, with respect to the float64 array x. x is unchanged afterwards."""
    gradient = np.zeros_like(x)
    for index in np.ndindex(x.shape):
        kept = x[index]
        x[index] = kept + h
        up = f(x)
        x[index] = kept - h
        down = f(x)
        x[index] = kept  # not "+ h": rounding would leave it changed
        gradient[index] = (up - down) / (2 * h)
    return gradient


def relative_error(a, n, floor=1e-3):
    return np.abs(a - n).max() / max(floor, np.abs(a).max(), np.abs(n).max())


def check(forward, backward, x, g):
    """The relative error between backward(g, x) and the measured gradient of sum(g * forward(x))."""
    return relative_error(backward(g, x), numerical_gradient(lambda x: (g * forward(x)).sum(), x))


print("slopes of a sum of squares:", numerical_gradient(lambda x: (x * x).sum(), np.array([1.0, -2.0])))

# %% [markdown]
# First check lesson 03's product. For $y = xW$ the gradient of $x$ is $g W^T$. A beginner might leave out the
# transpose, and with a square matrix that runs. The check finds it.

# %%
W = rng.standard_normal((3, 3))
x, g = rng.standard_normal((5, 3)), rng.standard_normal((5, 3))
right = check(lambda x: x @ W, lambda g, x: g @ W.T, x, g)
wrong = check(lambda x: x @ W, lambda g, x: g @ W, x, g)
print(f"g @ W.T: relative error {right:.1e}      g @ W: relative error {wrong:.1e}")
assert right < 1e-8 and wrong > 0.1

# %% [markdown]
# ### Why the incoming gradient is random
#
# It is tempting to take $g = 1$ everywhere, that is, to check the gradient of `f(x).sum()`. Consider a
# function that subtracts its mean from each row. Its outputs always sum to 0, so the gradient of their sum is
# 0, and a backward that returns zeros passes. (Softmax, in the next lesson, and layer norm have the same
# trap.) Ones also hide a backward that forgets to multiply by $g$.


# %%
def centre(x):
    return x - x.mean(axis=-1, keepdims=True)


ones = np.ones_like(x)
zeros = lambda g, x: np.zeros_like(x)
without_g = lambda g, x: 1 - np.tanh(x) ** 2
for name, incoming in (("ones", ones), ("random", g)):
    first, second = check(centre, zeros, x, incoming), check(np.tanh, without_g, x, incoming)
    print(f"g = {name:6}: zeros for centre {first:.1e}   tanh without g {second:.1e}")
assert check(centre, zeros, x, ones) < 1e-6 and check(np.tanh, without_g, x, ones) < 1e-6
assert check(centre, zeros, x, g) > 0.5 and check(np.tanh, without_g, x, g) > 0.5
assert check(centre, lambda g, x: g - g.mean(axis=-1, keepdims=True), x, g) < 1e-8

# %% [markdown]
# ### One random direction, for whole models
#
# Entry by entry, a model with a million parameters needs two million forwards. One random direction $v$, of
# the shape of $x$, needs only two:
#
# $$\frac{L(x + hv) - L(x - hv)}{2h} \approx \sum_i \frac{\partial L}{\partial x_i} v_i$$
#
# The left side is measured; the right side is the gradient to be checked, projected on $v$. If the gradient
# is wrong by an array $d$, the two differ by $\sum_i d_i v_i$, which is 0 only by accident. The check says
# *that* something is wrong, not *where*, and one small wrong entry among a million large ones may go
# unnoticed. Check small layers entry by entry, and models along directions (in minigrad:
# `gradcheck(model, inputs, fast=True)`).


# %%
def directional_error(loss, gradient, x, v, h=1e-5):
    measured = (loss(x + h * v) - loss(x - h * v)) / (2 * h)
    return abs(measured - (gradient * v).sum()) / max(1e-3, np.linalg.norm(gradient))


x_big = rng.standard_normal((100, 100))  # 10,000 entries: 20,000 evaluations, or 2
v = rng.standard_normal(x_big.shape)
gradient = np.cos(x_big)
with_a_hole = gradient.copy()
with_a_hole[7] = 0  # one row of a hundred is missing
errors = [directional_error(lambda x: np.sin(x).sum(), d, x_big, v) for d in (gradient, with_a_hole)]
print(f"right: {errors[0]:.1e}   one row of a hundred missing: {errors[1]:.1e}")
assert errors[0] < 1e-8 and errors[1] > 1e-3

# %% [markdown]
# ### Without subtraction: the complex step
#
# Taylor's formula holds for complex steps too: $f(x + ih) = f(x) + i h f'(x) - \frac{h^2}{2} f''(x) - \ldots$
# Its imaginary part is $h f'(x)$ plus terms of order $h^3$. So
#
# $$f'(x) \approx \frac{\mathrm{Im} \ f(x + ih)}{h}$$
#
# No two values are subtracted, so nothing cancels, and $h$ may be $10^{-20}$: the result is right to the last
# digit (Lyness & Moler 1967, Squire & Trapp 1998). In return, $f$ must be a smooth formula that NumPy can
# compute for complex numbers. `abs`, `max` and comparisons are not.


# %%
def complex_step(f, x, h=1e-20):
    return f(x + 1j * h).imag / h


print("sin at 1:  ", complex_step(np.sin, 1.0) - np.cos(1.0))
print("abs at -2: ", complex_step(np.abs, -2.0), "(right: -1)")
assert abs(complex_step(np.sin, 1.0) - np.cos(1.0)) < 1e-15 and complex_step(np.abs, -2.0) == 0

# %% [markdown]
# ### The same in minigrad
#
# `minigrad/gradcheck/numeric.py` has the slopes and the relative error. `minigrad/gradcheck/by_hand.py`
# checks a forward and a backward in plain NumPy, and `minigrad/gradcheck/checking.py` checks functions of
# Tensors and whole modules. They also answer the next question: what is wrong?

# %% [markdown]
# ## Gradient check: a diagnosis
#
# `gradcheck_pair(forward, backward, inputs)` draws the random $g$ and compares. If the two gradients differ,
# it tries the usual mistakes: a missing factor, a sign, a transpose, a missing sum over a broadcast axis, and
# more. It reports a cause only if that explains every entry.


# %%
def print_check(forward, backward, *inputs):
    try:
        print("right:", gradcheck_pair(forward, backward, inputs))
    except AssertionError as error:
        print(str(error).split("\n  Or:")[0], "\n")


bias = rng.standard_normal(3)
print_check(np.tanh, lambda g, x: g * (1 - x**2), x)
print_check(lambda x: 0.5 * x * x, lambda g, x: g * 2 * x, x)
print_check(lambda x, b: x + b, lambda g, x, b: (g, g), x, bias)
print_check(lambda x, b: x + b, lambda g, x, b: (g, g.sum(axis=0)), x, bias)

# %% [markdown]
# The second tool works on graphs. In lesson 02 each op got a rule, and a model calls many ops; which rule is
# wrong? `gradcheck` of a function of Tensors walks the graph and runs each op's rule alone, on the arrays
# that op had. In the next cell we replace the rule of `tanh` for a moment with the typing mistake from the
# beginning.

# %%
X = mg.tensor(x, requires_grad=True)
V = mg.tensor(W, requires_grad=True)


def model(X, V):
    return (mg.tanh(X @ V) ** 2).mean()


rule = RULES[np.tanh]
mg.defvjp(np.tanh, lambda g, y, x: g * (1 - y))
found = locate(model, X, V)
RULES[np.tanh] = rule  # right again
print("the op:", found.name, "\nin:", found.line.split(": ", 1)[-1])
print(found.result)
assert found.name == "tanh" and gradcheck(model, [X, V])

# %% [markdown]
# ## Edge cases: when the check misleads
#
# ### Kinks
#
# relu, abs and max have corners, also called *kinks*. At a corner there is no derivative. *Near* it, closer
# than $h$, the two points of the central difference lie on different sides, and the result mixes both slopes.
# Measured at $x = 3 \cdot 10^{-6}$ with $h = 10^{-5}$, relu has the slope
# $(1.3 \cdot 10^{-5} - 0) / (2 \cdot 10^{-5}) = 0.65$. The right answer is 1, which backward returns.

# %%
relu = lambda x: np.maximum(x, 0.0)
print("relu at 3e-6:", central_difference(relu, 3e-6, 1e-5))
assert np.isclose(central_difference(relu, 3e-6, 1e-5), 0.65)

near = np.linspace(-3e-5, 3e-5, 241)
figure = Figure(figsize=(7, 3.4), layout="constrained")
axes = figure.add_subplot()
axes.set_title("Closer to a kink than the step, the measured slope mixes both sides", fontsize=11)
axes.plot(
    near * 1e5, central_difference(relu, near, 1e-5), color="#0072B2", label="central difference, h = 1e-5"
)
axes.plot(near * 1e5, (near > 0).astype(float), "--", color="#D55E00", label="derivative of relu")
axes.set(xlabel="x, in units of the step", ylabel="slope")
axes.legend()
show(figure, "The central difference of relu near 0 rises from 0 to 1 over two steps, the derivative jumps")

# %% [markdown]
# How can a checker distinguish a kink from a mistake, without knowing the function? It compares the slope on
# the left, $(f(x) - f(x-h)) / h$, with the slope on the right. In a smooth function they differ by about
# $h f''$, very little. At a kink they differ by the whole jump. At such entries minigrad accepts any value
# between the two slopes, and counts the entries. The same happens where two entries tie for a maximum.

# %%
report = check_pair(relu, lambda g, x: g * (x > 0), [np.array([1.0, 0.0, -1.0, 3e-6])])
print(report)
assert report[0].kinks == 2

# %% [markdown]
# When several entries tie for a maximum, $g$ may be divided among them in any way, but the parts must sum to
# $g$: if all of them rise together, the maximum rises as much. minigrad and PyTorch's `amax` divide it
# equally. Giving all of $g$ to both entries is a mistake, and the check finds it.

# %%
tie = np.array([1.0, 3.0, 3.0])


def split_equally(g, x):
    return g * (x == x.max()) / (x == x.max()).sum()


print(check_pair(lambda x: x.max(), split_equally, [tie]))
print(check_pair(lambda x: x.max(), lambda g, x: g * (x == x.max()), [tie]))
assert check_pair(lambda x: x.max(), split_equally, [tie]).ok
assert not check_pair(lambda x: x.max(), lambda g, x: g * (x == x.max()), [tie]).ok

# %% [markdown]
# ### Vacuous checks
#
# A check that cannot fail proves nothing (it is *vacuous*). Zeros agree with zeros: relu of numbers that are
# all negative, a product with inputs that are all 0, a sum of outputs that is constant. minigrad does not
# count that as a success. Some inputs hide only one mistake: a symmetric $W$ a missing transpose, an exponent
# of 1 a wrong power rule, a batch of 1 a missing mean. Draw random numbers, and use shapes whose axes all
# differ.

# %%
print_check(relu, lambda g, x: g * (x > 0), -np.abs(x))
symmetric = W + W.T
hidden = check(lambda x: x @ symmetric, lambda g, x: g @ symmetric, x, g)
print(f"g @ W instead of g @ W.T, W symmetric: relative error {hidden:.1e}")
assert hidden < 1e-8

# %% [markdown]
# ### A wrong forward
#
# Finite differences see only your forward. If it computes the wrong function, they confirm the gradient of
# the wrong function. The variance in lesson 12's layer norm divides by $n$; let us divide by $n - 1$. The
# check passes. Only an independent value of the *forward* shows the mistake: a formula from a book, another
# library, a case computed by hand.


# %%
def variance(x):
    return ((x - x.mean()) ** 2).sum() / (x.size - 1)


print_check(variance, lambda g, x: g * 2 * (x - x.mean()) / (x.size - 1), np.array([1.0, 0.0, 0.0, 0.0]))
print("ours:", variance(np.array([1.0, 0.0, 0.0, 0.0])), "   np.var:", np.var([1.0, 0.0, 0.0, 0.0]))
assert variance(np.array([1.0, 0.0, 0.0, 0.0])) == 0.25 and np.var([1.0, 0.0, 0.0, 0.0]) == 0.1875

# %% [markdown]
# ### Randomness, float32, and a backward that writes
#
# A function that draws random numbers gives other values at each call; the difference of two of them, divided
# by $10^{-5}$, is noise. Draw the numbers once and pass them in (as with dropout's mask, lesson 06). And a
# backward must not write into $g$: in a graph, other nodes may still need the same array.

# %%
print_check(lambda x: x * (rng.random(x.shape) > 0.5), lambda g, x: g, x)
print_check(np.tanh, lambda g, x: g * (1 - np.tanh(x) ** 2), x.astype(np.float32))


def writes(g, x):
    g *= 1 - np.tanh(x) ** 2
    return g


print_check(np.tanh, writes, x)

# %% [markdown]
# ## Pitfalls
#
# **A step that vanishes.** The gap between neighbouring float64 numbers grows with their size. At
# $x = 10^{12}$ it is $1.2 \cdot 10^{-4}$, so $x + 10^{-5}$ *is* $x$, and every slope is 0. Keep inputs of
# size about 1 (usually you can), or scale the step with $|x|$.

# %%
large = 1e12
print("(x + h) - x:", (large + 1e-5) - large, "  slope of x:", central_difference(lambda x: x, large, 1e-5))
print("with h = 1e-5 * x:", central_difference(lambda x: x, large, 1e-5 * large))
assert (
    central_difference(lambda x: x, large, 1e-5) == 0
    and central_difference(lambda x: x, large, 1e-5 * large) == 1
)

# %% [markdown]
# **Forgetting to restore x**, or restoring it with `x[i] -= h`. In the first case every entry is measured at
# another point. In the second, numbers much smaller than $h$ lose their digits, because $x + h$ has no room
# for them. Store the old number and write *it* back.

# %%
z = np.array([1e-22])
z[0] += 1e-5
z[0] -= 1e-5
print("1e-22 after += h, -= h:", z[0])
assert z[0] == 0

# %% [markdown]
# **A tolerance that is too large.** "Agrees to 1 %" sounds exact. A GELU whose constant 0.044715 was mistyped
# as 0.04715 in the backward is off by less than that. With float64 and central differences a right gradient
# agrees to $10^{-8}$. Set the tolerance to $10^{-6}$, and examine everything between $10^{-6}$ and $10^{-2}$:
# it is a small mistake, not a rounding error.


# %%
def gelu(x, k=0.044715):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + k * x**3)))


def gelu_backward(g, x, k):
    return g * complex_step(lambda z: gelu(z, k), x)  # exact for that k


for k in (0.044715, 0.04715):
    print(f"k = {k}: relative error {check(gelu, lambda g, x, k=k: gelu_backward(g, x, k), x, g):.1e}")
assert check(gelu, lambda g, x: gelu_backward(g, x, 0.044715), x, g) < 1e-8
assert 1e-6 < check(gelu, lambda g, x: gelu_backward(g, x, 0.04715), x, g) < 1e-2

# %% [markdown]
# **A check that shares code.** If the forward in the check shares code with the backward (the same wrong
# mask, the same cached value), both are wrong together. And a gradient that was checked today is unchecked
# after tomorrow's change: make the check a test.

# %% [markdown]
# ## Practice questions

# %% [markdown]
# ### Q1. $f(x) = x^2$, $x = 3$, $h = 0.1$: what are the forward and central differences? Why is one exact?
#
# <details><summary>Answer</summary>
#
# Forward: $(9.61 - 9) / 0.1 = 6.1$. Central: $(9.61 - 8.41) / 0.2 = 6$, exactly $f'(3)$, for any $h$: its
# truncation error starts with $f'''$, which is 0 for a quadratic function.
#
# </details>

# %%
# Q1, recomputed
assert np.isclose(forward_difference(lambda x: x * x, 3.0, 0.1), 6.1)
assert np.isclose(central_difference(lambda x: x * x, 3.0, 0.1), 6.0)
assert np.isclose(central_difference(lambda x: x * x, 3.0, 1.0), 6.0)

# %% [markdown]
# ### Q2. What is the central difference of $|x|$ at $x = 0$? Does it show what backward must return?
#
# <details><summary>Answer</summary>
#
# $(h - h) / (2h) = 0$, for any $h$. It is the mean of the two slopes $-1$ and $1$. By convention backward
# returns 0 as well, but the measurement does not prove it: any number between $-1$ and $1$ is a valid slope
# there (a *subgradient*). For relu the same measurement gives $0.5$, while PyTorch and minigrad return 0.
#
# </details>

# %%
# Q2, recomputed
assert central_difference(abs, 0.0, 1e-5) == 0.0
assert central_difference(relu, 0.0, 1e-5) == 0.5

# %% [markdown]
# ### Q3. How many evaluations does a full check of a $512 \times 512$ weight need? And along one direction?
#
# <details><summary>Answer</summary>
#
# $2 \cdot 512 \cdot 512 = 524{,}288$; along one direction 2. Or check the same code with a $3 \times 4$
# weight: $24$ evaluations. A rule that is right for $3 \times 4$ is nearly always right for $512 \times 512$,
# because it is the same line of code.
#
# </details>

# %%
# Q3, recomputed
assert 2 * 512 * 512 == 524_288 and 2 * 3 * 4 == 24
calls = []
numerical_gradient(lambda w: calls.append(0) or w.sum(), np.zeros((3, 4)))
assert len(calls) == 24

# %% [markdown]
# ### Q4. float16 has $\epsilon = 9.8 \cdot 10^{-4}$. What is the best step, and what is the error there?
#
# <details><summary>Answer</summary>
#
# $\epsilon^{1/3} = 0.0992$, about 0.1, with an error of about $\epsilon^{2/3} = 0.0098$: 1 %, as large as the
# mistakes that you are looking for.
#
# </details>

# %%
# Q4, recomputed
eps = float(np.finfo(np.float16).eps)
assert round(eps, 5) == 0.00098 and round(eps ** (1 / 3), 4) == 0.0992 and round(eps ** (2 / 3), 4) == 0.0098

# %% [markdown]
# ### Q5. The relative error is 0.5: every entry is twice the measured one. What are two likely causes?
#
# <details><summary>Answer</summary>
#
# $|a - n| / |a| = |2n - n| / |2n| = 0.5$. Either the backward misses a factor 1/2 of the forward (as in
# $\frac{1}{2} x^2$), or something is added twice: a gradient that was not reset to zero, or a value that was
# counted twice.
#
# </details>

# %%
# Q5, recomputed
n = rng.standard_normal(10)
assert np.isclose(relative_error(2 * n, n), 0.5)

# %% [markdown]
# ### Q6. A gradient is exactly 0, measured $4 \cdot 10^{-12}$. What is the error with and without floor?
#
# <details><summary>Answer</summary>
#
# (It happens: the key bias of attention has gradient 0, because it moves all scores of a row by the same
# amount; lesson 08.) Without floor $4 \cdot 10^{-12} / 4 \cdot 10^{-12} = 1$: 100 % wrong. With the floor of
# $10^{-3}$ it is $4 \cdot 10^{-9}$: right.
#
# </details>

# %%
# Q6, recomputed
zero, measured = np.zeros(3), np.array([0.0, 4e-12, 0.0])
assert relative_error(zero, measured, floor=0.0) == 1 and np.isclose(relative_error(zero, measured), 4e-9)

# %% [markdown]
# ### Q7. Why must the random $g$ be the same for the measured and the claimed gradient?
#
# <details><summary>Answer</summary>
#
# Because both are gradients of one number, $L = \sum g \cdot f(x)$, and $g$ is part of its definition. Two
# different $g$ define two different functions, so a right backward fails: here with a relative error far
# above $10^{-6}$.
#
# </details>

# %%
# Q7, recomputed
other = rng.standard_normal(g.shape)
measured = numerical_gradient(lambda x: (g * np.tanh(x)).sum(), x)
assert relative_error(g * (1 - np.tanh(x) ** 2), measured) < 1e-8
assert relative_error(other * (1 - np.tanh(x) ** 2), measured) > 0.1

# %% [markdown]
# ## What was left out
#
# - Second derivatives: the gradient is itself a function, and can be checked in the same way
#   (`gradgradcheck`, lesson 18).
# - Higher-order differences and extrapolation, which get more digits from more evaluations.
# - Forward-mode differentiation: the directional derivative, exact, at the cost of one forward
#   (`minigrad.func.jvp`, lesson 18).
# - The list of mistakes and minigrad's report for each: `python -m minigrad.gradcheck --mistakes`. All of
#   minigrad's own rules, spoiled on purpose and caught: `python -m minigrad.gradcheck --mutations`.
#
# ## Sources
#
# - J. Nocedal, S. Wright (2006), *Numerical Optimization*, section 8.1: finite differences and their steps.
# - I. Goodfellow, Y. Bengio, A. Courville (2016), *Deep Learning*, section 11.5: comparing back-propagated
#   derivatives with numerical ones, random projections, complex steps.
# - J. Lyness, C. Moler (1967), *Numerical differentiation of analytic functions*, SIAM Journal on Numerical
#   Analysis 4.
# - W. Squire, G. Trapp (1998), *Using complex variables to estimate derivatives of real functions*, SIAM
#   Review 40.
#
# ## Exercises
#
# `python -m tutorials start 04` puts a file with eight functions to write into your own folder:
# `relative_error`, `numerical_gradient`, `best_step`, `numerical_vjp`, `check_backward`, `directional_error`,
# `find_kinks` and `complex_step_gradient`. `python -m tutorials check 04` tests them. With them you can check
# every gradient that you derive, in this course and after it.
