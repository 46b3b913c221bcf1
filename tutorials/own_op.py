# %% [markdown]
# # Write your own op
#
# An op is a function on arrays and, for each argument, the derivative. minigrad keeps the derivatives in a table, one row a
# function; a row of yours is as good as any other: it composes, it has higher derivatives, and the checker can check it.
#
# Our example is the "squashing" function of Sabour et al. (2017), for numbers: squash(x, a) = x |x| / (a + x^2).

# %%
import numpy as np

import minigrad as mg
from minigrad.gradcheck import gradcheck, gradgradcheck

# %% [markdown]
# ## 1. The function, on plain arrays
#
# `dispatched` lets it be called with tensors as well: it then hands the call to the engine, as NumPy's own functions do.

# %%
@mg.dispatched
def squash(x, a):
    return x * np.abs(x) / (a + x * x)


# %% [markdown]
# ## 2. The row: one rule for each argument
#
# A rule is given g, the gradient of the value; the value; and the arguments. It returns the gradient of its argument.
#
# - dz/dx = 2 a |x| / (a + x^2)^2 (work it out: the derivative of x |x| is 2 |x|)
# - dz/da = -x |x| / (a + x^2)^2 = -z / (a + x^2)
#
# The first rule does not look at the value, so it calls it `_z`. An underscore in front of a name is a promise: "I look at its
# shape at most", and the engine keeps no memory for it. Note what the rules do not mention: shapes. `a` may be a number, a row or
# a whole array; where broadcasting stretched it, the engine sums the gradient back.

# %%
mg.defvjp(
    squash,
    lambda g, _z, x, a: g * 2 * a * np.abs(x) / (a + x * x) ** 2,
    lambda g, z, x, a: -g * z / (a + x * x),
)

# %% [markdown]
# ## 3. Samples, and the check
#
# Choose inputs at which the function says something: not all zero, not at a kink, one of them broadcast.

# %%
rng = np.random.default_rng(0)
x = mg.tensor(rng.standard_normal((3, 4)), requires_grad=True)  # float64, as the check demands
a = mg.tensor(rng.random(4) + 0.5, requires_grad=True)

assert gradcheck(squash, [x, a])
assert gradgradcheck(squash, [x, a])  # the same two rules, run on tensors, give the second derivatives
print("squash: first and second derivatives agree with finite differences")

# %% [markdown]
# And a wrong rule is caught. Here the forgotten 2 of the derivative of x |x|:

# %%
from minigrad.autograd import RULES  # noqa: E402

right = RULES[squash]
mg.defvjp(squash, lambda g, _z, x, a: g * a * np.abs(x) / (a + x * x) ** 2, right.rules[1])
try:
    gradcheck(squash, [x, a])
except AssertionError as error:
    print(error)
else:
    raise SystemExit("the wrong rule was not caught")
RULES[squash] = right

# %% [markdown]
# ## 4. When speed pays: a definition and its kernel
#
# A function composed from ops needs no row: it differentiates by itself. If it is slow, keep the composition as the readable
# *definition*, and register a *kernel*: a forward that also returns what its backward needs, and a backward that gives all
# gradients at once. The kernel is used wherever one derivative is enough; for higher ones the engine runs your definition.

# %%


@mg.definition
def rms(x, eps=1e-6):
    """x over the root of the mean of its squares, along the last axis."""
    return x / mg.sqrt((x * x).mean(-1, keepdims=True) + eps)


def rms_forward(x, eps):
    scale = 1 / np.sqrt((x * x).mean(-1, keepdims=True) + eps)
    return x * scale, scale


def rms_backward(g, y, scale, needs, x, eps):
    """dx = (g - y mean(g y)) / root; `needs` tells which arguments want a gradient; eps is none of them."""
    return (g - y * (g * y).mean(-1, keepdims=True)) * scale, None


mg.defkernel(rms, rms_forward, rms_backward)

with mg.definitions():
    by_definition = rms(x).data
assert np.allclose(rms(x).data, by_definition)
assert gradcheck(rms, [x]) and gradgradcheck(rms, [x])
print("rms: the kernel equals its definition, in value and in first and second derivative")

# %% [markdown]
# ## What was left out
#
# Functions of several values return a tuple, and their rules get a tuple g; `split` in `minigrad/ops.py` shows one. To bring an
# op into minigrad itself, add its row beside its kin in `ops.py` and a line to the samples: the tests fail until both are there.
