"""What people type in NumPy and PyTorch: nothing public lacks a sample, and every function does what its namesakes do.

A case is one line, a program that runs in both libraries: in minigrad and PyTorch (m is either), or in NumPy on tensors and on
arrays. Compared are values, gradients for random incoming gradients, and gradients of those; float64, contiguous and not.
"""

import inspect
import itertools
import sys
import types

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import near, refuses

import minigrad as mg
from minigrad import functional as F
from minigrad import linalg, nn, ops
from minigrad.engine.operators import FROM_NUMPY
from minigrad.engine.tensor import Tensor
from minigrad.gradcheck import gradcheck
from minigrad.gradcheck.samples import layers as nn_samples
from minigrad.gradcheck.samples.ops import SAMPLES, draw
from minigrad.ops.spelling import either_spelling

try:
    import torch
except ImportError:
    torch = None
try:
    import autograd as hips
    import autograd.numpy as hips_numpy
except ImportError:
    hips = hips_numpy = None

needs_torch = pytest.mark.skipif(
    torch is None, reason="PyTorch is not installed; it serves as an oracle only (pip install torch)."
)
few = settings(max_examples=40)

# ---------------------------------------------------------------- the tables

BESIDE_TORCH, BESIDE_NUMPY = {}, {}


def case(name, fun, *specs, second=True, theirs=None):
    """fun(m, *tensors) in minigrad and in PyTorch; `theirs` where PyTorch writes it otherwise."""
    assert name not in BESIDE_TORCH
    BESIDE_TORCH[name] = fun, theirs or fun, specs, second


def numpys(name, fun, *specs, hips=True):
    """fun(np, *arrays) on tensors and on arrays; hips=False where HIPS autograd cannot."""
    assert name not in BESIDE_NUMPY
    BESIDE_NUMPY[name] = fun, specs, hips


def by_name(name, *args, **kwargs):
    return lambda m, *xs: getattr(m, name)(*xs, *args, **kwargs)


# ---------------------------------------------------------------- elementwise

SHAPES = (3, 4), (), (0, 3), (2, 1, 3)
# fmt: off
for _kind, _names in {
    "": "exp exp2 expm1 sin cos arctan atan sinh cosh tanh arcsinh asinh square sigmoid erf erfc neg negative isnan isinf isfinite logical_not",
    "apart": "abs absolute sign floor ceil trunc round frac relu",
    "positive": "log log2 log10 log1p sqrt rsqrt reciprocal",
    "inside": "tan arcsin asin arccos acos arctanh atanh",
}.items():
    for _name, _shape in itertools.product(_names.split(), SHAPES):
        case(f"{_name} {_shape}", by_name(_name), (_kind, _shape) if _kind else _shape)
        case(f"{_name} {_shape}, method", lambda m, x, name=_name: getattr(x, name)(), (_kind, _shape) if _kind else _shape, second=False)
for _name in ("arccosh", "acosh"):
    case(_name, lambda m, x, name=_name: getattr(m, name)(1 + x), ("positive", (3, 4)))
case("round, decimals", lambda m, x: m.round(x, decimals=2) + x.round(decimals=-1), (3, 4))
case("special numbers", lambda m, x: m.stack([m.isnan(m.log(x)), m.isinf(x / 0), m.isfinite(x * 1e308)]), ("positive", (3, 4)))

PAIRS = ((3, 4), (3, 4)), ((3, 1), (4,)), ((2, 1, 3), (4, 3)), ((), (3,)), ((0, 3), (3,))
for _name in (
    "arctan2 atan2 hypot logaddexp maximum minimum add sub subtract mul multiply eq ne lt le gt ge logical_and logical_or logical_xor".split()
    + "fmod remainder div divide true_divide pow float_power".split()
):
    for _x, _y in PAIRS:
        case(f"{_name} {_x} {_y}", by_name(_name), ("positive", _x), ("positive", _y))
for _name in ("fmod", "remainder", "floor_divide"):
    case(f"{_name}, signs", lambda m, x, name=_name: m.stack([getattr(m, name)(x.detach(), y) for y in (0.7, -0.7)]), ("apart", (4, 4)))
case("%", lambda m, x, y: x % y + 5.0 % y.detach() + x % 0.7, ("apart", (3, 4)), ("positive", (4,)))
case("//", lambda m, x: x.detach() // 0.7 + 3 // x.detach(), ("apart", (3, 4)))
case("add, sub, alpha", lambda m, x, y: m.add(x, y, alpha=2) * x.sub(y, alpha=0.5), (3, 4), (4,))
case("div, rounded", lambda m, x, y: m.div(x, y, rounding_mode="floor") + x.div(y, rounding_mode="trunc") + x, ("apart", (3, 4)), ("positive", (4,)))
case("div of whole numbers, rounded", lambda m: m.div(m.tensor([7, -7]), m.tensor([2, 2]), rounding_mode="floor"))
case("powers of a number", lambda m, x: x**3 + x**2 + x**1 + x**0 + x**-1 + x**-2 + x.pow(4), ("apart", (3, 4)))
case("powers, fractional", lambda m, x: x**0.5 + x**1.5 + x**-0.5 + m.pow(x, 2.5) + 2**x + 0.5**x + m.pow(3.0, x), ("positive", (3, 4)))
case("power by whole numbers", lambda m, x: x ** m.tensor([3, 2, 1, 0]) + m.float_power(x, 3), ("apart", (3, 4)))
case("whole powers of whole numbers", lambda m: m.tensor([2, 3, -4]) ** 3 + m.tensor([2, 3, -4]) ** m.tensor([2, 0, 1]))
case("lerp", lambda m, x, y, w: m.lerp(x, y, 0.3) + x.lerp(y, w), (3, 4), (3, 4), (4,))
case("clip", lambda m, x: m.clip(x, -0.5, 0.7) + x.clamp(min=0.1) * x.clamp(max=0.3) + m.clamp(x, 1.0, -1.0), ("apart", (3, 4)))
case("clip, tensors", lambda m, x, y, z: m.clip(x, y, z) + x.clamp(min=y) * m.clamp(x, max=z), ("apart", (3, 4)), (4,), (3, 1))
case("clip, on the border", lambda m, x: m.clip(x - x.detach(), 0.0, 1.0) + m.clip(x - x.detach(), -1.0, 0.0), (3,))
case("where", lambda m, x, y: m.where(x > 0, x * x, y) + x.where(y > 0, y), ("apart", (3, 4)), ("apart", (4,)))
case("where, positions", lambda m, x: m.where(x > 0), ("apart", (3, 4)))
case("where, numbers", lambda m, x: m.where(x > 0, x, 0.5) + m.where(x > 0, 2.0, x), ("apart", (3, 4)))
case("masked_fill", lambda m, x: x.masked_fill(x > 0.5, 2.0) + m.masked_fill(x, x < 0, -1.0), ("apart", (3, 4)))
case("comparisons", lambda m, x, y: [x == y, x != y, x < y, x <= y, x > y, x >= y, x.eq(y), x.lt(0), (x > 0) & (y > 0), (x > 0) | (y > 0), (x > 0) ^ (y > 0), ~(x > 0)], (3, 4), (4,))
case("isclose, allclose, equal", lambda m, x: [m.isclose(x, x + 1e-7), m.allclose(x, x + 1e-12), m.equal(x, x), x.allclose(x + 1), x.equal(x + 1)], (3,))
case("dtypes", lambda m, x: [x.long(), x.int(), x.bool(), x.float() * x.double().float(), x.to(m.float64) * x.type_as(x)], ("apart", (3, 4)))

# ---------------------------------------------------------------- reductions

AXES = 0, 1, -1, -3, (0, 2), (-1, 0), (0, 1, 2)
for _name in ("sum", "mean", "amax", "amin", "var", "std", "logsumexp", "norm", "any", "all", "prod", "argmax", "argmin", "count_nonzero"):
    # as far as PyTorch's go
    _axes = {"prod": AXES[:4], "argmax": AXES[:4], "argmin": AXES[:4], "norm": AXES[:-1]}.get(_name, AXES)
    if _name != "logsumexp":
        case(f"{_name} of all", lambda m, x, name=_name: [getattr(m, name)(x), getattr(x, name)()], ("apart", (3, 2, 4)))
    for _axis in _axes:
        if _name == "count_nonzero":
            case(f"{_name} over {_axis}", by_name(_name, dim=_axis), ("apart", (3, 2, 4)))
            continue
        for _keep in (False, True):
            case(f"{_name} over {_axis}, keepdim={_keep}", by_name(_name, dim=_axis, keepdim=_keep), ("apart", (3, 2, 4)))
            case(f"{_name} over {_axis}, keepdims={_keep}", lambda m, x, a=_axis, k=_keep, name=_name: getattr(x, name)(axis=a, keepdims=k),
                 ("apart", (2, 3, 3)), second=False, theirs=lambda m, x, a=_axis, k=_keep, name=_name: getattr(x, name)(dim=a, keepdim=k))
    case(f"{_name} of an empty axis beside it", by_name(_name, dim=-1), (0, 3))
for _name in ("sum", "prod", "any", "all", "mean"):
    case(f"{_name} over an empty axis", by_name(_name, dim=0), (0, 3))
    case(f"{_name} of nothing and of one number", lambda m, x, y, name=_name: [getattr(m, name)(x), getattr(m, name)(y)], (0,), ())
case("var, std: corrections", lambda m, x: m.var(x, 1, correction=0) + x.std(1, correction=2) + m.var(x, 1, unbiased=False), (3, 4))
case("std and norm at 0", lambda m, x: m.std(x - x.detach(), 1) + m.norm(x - x.detach(), dim=1) + m.linalg.vector_norm(x - x.detach(), 3, dim=1), (3, 4), second=False)
for _p in (1, 2, 3, 0.5, 0, np.inf, -np.inf, "fro"):
    case(f"norm, p = {_p}", lambda m, x, p=_p: [m.norm(x, p), m.norm(x, p, dim=1), x.norm(p, dim=(0, 1), keepdim=True)], ("apart", (3, 4)))
case("sum, mean, prod, cumsum with a dtype", lambda m, x: [f(x.bool(), dtype=m.float64) for f in (m.sum, m.mean, m.prod)] + [m.cumsum(x.bool(), 0, dtype=m.float64)], ("apart", (3, 4)))
ZEROS = np.array([[1.0, 0, 1, 1], [0, 1, 0, 1], [1, 1, 1, 1]])
case("prod, with zeros", lambda m, x: x[:3].mul(m.tensor(ZEROS)).prod(1) + x.mul(m.tensor(ZEROS)).prod(), ("apart", (3, 4)))
for _axis in (0, 1, -1):
    case(f"cumsum, cumprod over {_axis}", lambda m, x, a=_axis: m.cumsum(x, a) + x.cumprod(dim=a) * x.cumsum(dim=a), ("apart", (5, 3)))
    case(f"cumprod, with zeros, over {_axis}", lambda m, x, a=_axis: m.cumprod(x * m.tensor(ZEROS), a), ("apart", (3, 4)), second=_axis == 0)
    case(f"sort over {_axis}", lambda m, x, a=_axis: [*m.sort(x, a), *x.sort(a, descending=True)], ("apart", (5, 3)))
    case(f"argsort over {_axis}", lambda m, x, a=_axis: [m.argsort(x, a), x.argsort(a, descending=True)], ("apart", (5, 3)))
    case(f"topk over {_axis}", lambda m, x, a=_axis: [*m.topk(x, 2, a), *x.topk(3, a, largest=False)], ("apart", (5, 3)))
    for _name in ("max", "min", "median"):
        case(f"{_name} over {_axis}", lambda m, x, a=_axis, name=_name: [*getattr(m, name)(x, a), *getattr(x, name)(dim=a, keepdim=True)], ("apart", (4, 3)))
case("sort, stable", lambda m: [*m.sort(m.tensor([1, 0, 1, 0, 1]), stable=True), *m.sort(m.tensor([1, 0, 1, 0, 1]), descending=True, stable=True)])
case("max, min, median of all", lambda m, x: m.max(x) * m.min(x) + x.max() * x.median() + m.median(x), ("apart", (3, 4)))
case("max, min of two", lambda m, x, y: m.max(x, y) * x.min(other=y), ("apart", (3, 4)), (4,))
case("ties of amax, max", lambda m, x: m.amax(x - x.detach(), 1) + m.max(x - x.detach()) + m.min(x - x.detach()), (3, 4))
case("values by name", lambda m, x: x.max(1).values * x.sort(1).values[:, 0] + x.topk(1).values[:, 0] + x.median(1).indices, ("apart", (3, 4)))

# ---------------------------------------------------------------- shape

CUBE = (2, 3, 4)
case("reshape, view, ravel, flatten", lambda m, x: m.reshape(x, (4, -1)) * x.view(4, 6) + m.ravel(x)[0] * x.ravel()[1] + m.flatten(x, 1).sum() * x.flatten()[2], CUBE)
case("reshape, empty", lambda m, x: [x.reshape(3, 0), x.flatten(1), x.reshape(0, 5)], (0, 3))
case("reshape_as, view_as, expand_as", lambda m, x, y: x.reshape_as(y) * x.view_as(y) * y[:1].expand_as(y), (3, 4), (4, 3))
case("unflatten", lambda m, x: m.unflatten(x, 1, (3, -1)) + x.unflatten(-1, (3, 2)), (2, 6))
case("squeeze, unsqueeze", lambda m, x: [m.squeeze(x), x.squeeze(0), m.squeeze(x, 1), x.squeeze((0, -1)), m.unsqueeze(x, 0), x.unsqueeze(-1)], (1, 3, 1))
case("permute", lambda m, x: m.permute(x, (2, 0, 1)) * x.permute(2, 0, 1), (3, 3, 3))
case("transpose, swapaxes, t", lambda m, x: m.transpose(x, 0, -1) * x.swapaxes(0, 2) + m.swapaxes(x, 1, 2).sum() * x[0].t().sum() * m.t(x[0, 0])[1] + x.transpose(dim0=0, dim1=2), CUBE)
case("T, mT", lambda m, x: x[0].T @ x[1] + (x.mT @ x)[0], CUBE)
case("movedim, moveaxis", lambda m, x: m.movedim(x, 0, -1) + m.moveaxis(x, (0, 1), (2, 0)).movedim(0, 1) * x.movedim((0,), (2,)) + x.moveaxis(0, 2), (3, 3, 3))
case("flip", lambda m, x: m.flip(x, [0, 2]) + x.flip(1) * x.flip(0, -1) + m.flip(x, dims=(1,)), CUBE)
case("roll", lambda m, x: m.roll(x, 2) * x.roll(-1, 1) + m.roll(x, shifts=(1, -7), dims=(0, 2)), CUBE)
case("roll, flip, empty", lambda m, x: [m.roll(x, 1, 0), x.flip(0)], (0, 3))
case("expand, broadcast_to", lambda m, x: x.expand(2, 3, 4) * x.expand(2, -1, -1) + m.broadcast_to(x, (2, 3, 4)) * x.broadcast_to((5, 2, 3, 4))[0], (3, 1))
case("tile, repeat", lambda m, x: [m.tile(x, (2, 3)), x.tile(2), x.tile((2, 1, 2)), x.repeat(2, 3), x.repeat(2, 1, 2), x.repeat(0, 2)], (3, 2))
case("repeat_interleave", lambda m, x: [m.repeat_interleave(x, 2), x.repeat_interleave(3, dim=1), x.repeat_interleave(m.tensor([2, 0, 1]), dim=0)], (3, 2))
case("meshgrid", lambda m, x, y: [*m.meshgrid(x, y, indexing="ij"), *m.meshgrid(x, y, indexing="xy")], (3,), (4,))
case("concatenate, cat, concat", lambda m, x, y: m.cat([x, y], 1) * m.concatenate((x, y), dim=-1) + m.concat([y, x], dim=1) + m.cat([x, x])[:2].sum(), (2, 3), (2, 2))
case("cat, empty", lambda m, x, y: m.cat([x, y]), (0, 3), (2, 3))
case("stack", lambda m, x, y: m.stack([x, y], -1) * m.stack((y, x), dim=2) + m.stack([x, y])[0, 0, 0], (2, 3), (2, 3))
case("hstack, vstack", lambda m, x, y: [m.hstack([x, y]), m.vstack((x, y)), m.hstack([x[0], y[1]]), m.vstack([x[0], y[1]])], (2, 3), (2, 3))
case("split", lambda m, x: [*m.split(x, 2), *x.split(2, 1), *m.split(x, [1, 0, 3], dim=1), *x.split(10, dim=-1)], (5, 4))
case("split, one piece used", lambda m, x: x.split(2)[1] ** 2, (5, 4))
case("chunk", lambda m, x: [*m.chunk(x, 3), *x.chunk(2, 1), *x.chunk(7, dim=-1)], (5, 4))
case("tensor_split", lambda m, x: [*m.tensor_split(x, 3), *x.tensor_split((1, 3), dim=1), *x.tensor_split(7, 1), *x.tensor_split((1, 9), 1)], (5, 4))
case("unbind", lambda m, x: [*m.unbind(x), *x.unbind(1), *m.unbind(x, dim=-1)], (3, 2))
case("split, chunk, unbind, empty", lambda m, x: [*x.split(2), *x.chunk(2), *x.unbind(1)], (0, 3))
for _k in (-4, -2, 0, 1, 4):
    case(f"tril, triu, {_k}", lambda m, x, k=_k: m.tril(x, k) * x.triu(diagonal=k) + x.tril(k) + 3 * m.triu(x, diagonal=k), (2, 3, 4))
    case(f"diagonal, {_k}", lambda m, x, k=_k: [m.diagonal(x, k), x.diagonal(k, 1, 2), x.diagonal(offset=k, dim1=-1, dim2=0)], (2, 3, 4))
    case(f"diag, diag_embed, {_k}", lambda m, x, k=_k: [m.diag(x, k), x[0].diag(k), m.diag_embed(x, k), x.diag_embed(offset=k)], (3, 4))
case("trace", lambda m, x: x.trace() * x, (3, 4))
_pads = ((1, 2), "constant"), ((1, -1, 2, 0), "constant"), ((0, 1, 2, 3, 1, 0), "constant"), ((2, 1), "reflect"), ((1, 2), "replicate"), ((2, 4), "circular"), ((1, 1, 2, 1), "reflect")
for _widths, _mode in _pads:
    case(f"pad {_widths} {_mode}", lambda m, x, w=_widths, mode=_mode: m.nn.functional.pad(x, w, mode=mode), (2, 3, 4))
case("pad, value", lambda m, x: m.nn.functional.pad(x, (1, 1), "constant", 2.5) + m.nn.functional.pad(x, (0, 2), value=-1.0), (2, 3, 4))

# ---------------------------------------------------------------- indexing

INDEX = [[0, 0, 2, 1], [1, 1, 0, 2]]
case("x[...], basic", lambda m, x: [x[1], x[-1, ..., 0], x[:, 1:], x[..., ::2], x[None, 0, :, None], x[()], x[1, 2, 3], x[0:0]], CUBE)
case("x[...], fancy", lambda m, x: [x[[0, 0, 1]], x[:, [2, 2]], x[[0, 1], [2, 2]], x[m.tensor([[0, 1], [1, 1]])], x[[1, 0], :, [3, 3]], x[..., m.tensor([0, -1])]], CUBE)
case("x[...], boolean", lambda m, x: [x[x > 0], x[m.tensor([True, False])], x[:, m.tensor([True, False, True]), 1:], x[x > 100]], ("apart", CUBE))
case("x[...], repeats add up", lambda m, x: (x[[0, 0, 1, 0]] ** 2).sum(0), (2, 3))
case("iterating, unpacking", lambda m, x: [*x, len(x)], (3, 2))
case("gather", lambda m, x: m.gather(x, 0, m.tensor(INDEX)) * x.gather(dim=0, index=m.tensor(INDEX)), (3, 5))
case("gather over -1", lambda m, x: m.gather(x, -1, m.tensor(INDEX)), (2, 3))
case("take_along_dim", lambda m, x: [m.take_along_dim(x, m.tensor([[2], [0], [1]]), 1), x.take_along_dim(x.argsort(0), dim=0), m.take_along_dim(x, m.tensor([5, 5]))], ("apart", (3, 4)))
case("index_select", lambda m, x: [m.index_select(x, 0, m.tensor([1, 1, 0])), x.index_select(-1, m.tensor([3])), x.index_select(dim=1, index=m.tensor([0, 0]))], (2, 4))
case("take", lambda m, x: m.take(x, m.tensor([[0, 5], [5, -1]])) * x.take(m.tensor(2)), (3, 4))
case("masked_select", lambda m, x: [m.masked_select(x, x > 0), x.masked_select(m.tensor([True, False, True, True]))], ("apart", (3, 4)))
case("select, narrow", lambda m, x: m.select(x, 1, 2) * x.select(-1, 0) + m.narrow(x, 1, 1, 2).sum() * x.narrow(0, -2, 2)[0].sum(), (4, 4))
case("nonzero", lambda m, x: [m.nonzero(x > 0), *x.clamp(min=0).nonzero(as_tuple=True)], ("apart", (3, 4)))
case("scatter_add", lambda m, x, y: m.scatter_add(x, 0, m.tensor(INDEX), y) + x.scatter_add(dim=0, index=m.tensor(INDEX), src=y * y), (3, 4), (2, 4))
case("scatter_add, smaller index", lambda m, x, y: x.scatter_add(1, m.tensor([[3, 3], [0, 1]]), y), (3, 4), (2, 2))
case("scatter", lambda m, x, y: m.scatter(x, 1, m.tensor([[3, 0], [0, 1]]), y) + x.scatter(0, m.tensor([[2, 0]]), 1.5) * x.scatter(1, m.tensor([[1]]), value=2.0), (3, 4), (2, 2))
case("index_add", lambda m, x, y: m.index_add(x, 0, m.tensor([1, 1]), y) + x.index_add(dim=0, index=m.tensor([0, 2]), source=y, alpha=-2), (3, 4), (2, 4))
case("one_hot", lambda m: [m.nn.functional.one_hot(m.tensor([[0, 2], [1, 0]])), m.nn.functional.one_hot(m.tensor([1]), 4), m.nn.functional.one_hot(m.tensor([1]), num_classes=2)])

# ---------------------------------------------------------------- matrices

for _x, _y in (((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 2)), ((2, 3), (3, 4)), ((5, 2, 3), (3, 4)), ((2, 1, 3, 4), (5, 4, 2)), ((0, 3), (3, 2)), ((2, 0), (0, 3))):
    case(f"matmul {_x} {_y}", lambda m, x, y: m.matmul(x, y) + x @ y + x.matmul(y), _x, _y)
case("dot, vdot, inner, outer, ger", lambda m, x, y: m.dot(x, y) * m.vdot(x, y) * m.inner(x, y) * x.dot(y) + m.outer(x, y) * x.outer(y) * m.ger(x, y), (3,), (3,))
case("inner, of more axes", lambda m, x, y: m.inner(x, y), (2, 3), (4, 5, 3))
case("mv, mm, bmm", lambda m, x, y: m.mv(x[0], y[0, 0]) + x[0].mv(y[0, 0]) * (m.mm(x[0], y[0]) * x[0].mm(y[1])).sum() + m.bmm(x, y).sum() * x.bmm(y)[0, 0], (2, 3, 3), (2, 3, 3))
case("vecdot", lambda m, x, y: m.linalg.vecdot(x, y) + m.linalg.vecdot(x, y, dim=0)[:3], (3, 4), (3, 4))
case("tensordot", lambda m, x, y: [m.tensordot(x, y), m.tensordot(x, x, 0), m.tensordot(x, y, dims=([1, 2], [0, 1])), m.tensordot(x, x, ([0, 2], [0, 2]))], (2, 3, 4), (3, 4, 2))
for _equation, *_specs in (
    ("ij,jk->ik", (2, 3), (3, 4)), ("ij,jk", (2, 3), (3, 4)), ("bij,bjk->bik", (2, 3, 4), (2, 4, 2)), ("bhqd,bhkd->bhqk", (2, 2, 3, 4), (2, 2, 5, 4)), ("i,j->ij", (2,), (3,)),
    ("ii", (3, 3)), ("ii->i", (3, 3)), ("ij->ji", (2, 3)), ("ba", (2, 3)), ("ij->", (2, 3)), ("...ij,...jk->...ik", (2, 1, 3, 4), (5, 4, 2)), ("...i,...i", (2, 3), (3,)),
    ("iij,jk->ki", (2, 2, 3), (3, 2)), ("ij,ij->ij", (2, 3), (1, 3)), ("ij,jk,kl,lm->im", (2, 3), (3, 4), (4, 2), (2, 5)), ("abc,ab,c->", (2, 3, 4), (2, 3), (4,)),
    ("b n d , d k -> b k n", (2, 3, 4), (4, 2)), ("i...->...", (2, 3, 4)), ("iii->i", (3, 3, 3)), (",i->i", (), (3,)), ("ij,j->i", (0, 3), (3,)),
):
    case(f"einsum {_equation}", lambda m, *xs, e=_equation: m.einsum(e, *xs), *_specs)
case("einsum, operands listed", lambda m, x, y: m.einsum("ij,jk->ik", [x, y]), (2, 3), (3, 4))
SAFE = "positive", (2, 3, 3)


def definite(m, x):
    return x @ x.mT + m.eye(3, dtype=m.float64)


case("inverse", lambda m, x: m.inverse(definite(m, x)) + (x + 5 * m.eye(3, dtype=m.float64)).inverse() * m.linalg.inv(definite(m, x)), SAFE)
case("det, slogdet, logdet", lambda m, x: m.det(x) * x.det() + m.slogdet(x)[1] * x.slogdet().logabsdet + m.logdet(definite(m, x)) + m.linalg.det(x) + m.slogdet(x).sign, (2, 3, 3))
case("cholesky", lambda m, x: m.linalg.cholesky(definite(m, x)), SAFE)
case("solve", lambda m, x, y: [m.linalg.solve(x, y), m.linalg.solve(x, y[:, :, 0]), m.linalg.solve(x[0], y[0, :, 0]), m.linalg.solve(x[0], y)], (2, 3, 3), (2, 3, 4))
case("matrix_power", lambda m, x: [m.matrix_power(x, n) for n in range(6)] + [definite(m, x).matrix_power(-2)], (2, 3, 3))
for _ord in (None, "fro", 1, -1, np.inf, -np.inf):
    case(f"linalg.norm {_ord}", lambda m, x, o=_ord: [m.linalg.norm(x, o), m.linalg.norm(x, o, dim=(0, 1)), m.linalg.matrix_norm(x, o or 1), m.linalg.matrix_norm(x, o or 1, keepdim=True)], ("apart", (3, 4)))
case("linalg.norm of vectors", lambda m, x: [m.linalg.norm(x, 3, dim=1), m.linalg.vector_norm(x), m.linalg.vector_norm(x, 1, dim=0, keepdim=True), m.linalg.norm(x[0])], ("apart", (3, 4)))
case("linalg, the rest", lambda m, x: m.linalg.matmul(x, x) + m.linalg.diagonal(x, offset=1).sum() + m.linalg.matrix_power(x, 2), (3, 3))

# ---------------------------------------------------------------- functional: activations, losses, the rest


def functionals(name, *args, **kwargs):
    return lambda m, *xs: getattr(m.nn.functional, name)(*xs, *args, **kwargs)


for _name in ("leaky_relu", "elu", "hardtanh", "relu6", "logsigmoid", "softplus", "silu", "gelu", "relu", "sigmoid", "tanh"):
    for _shape in SHAPES:
        case(f"F.{_name} {_shape}", functionals(_name), ("apart", _shape))
case("F, settings", lambda m, x: m.nn.functional.leaky_relu(x, 0.3) + m.nn.functional.elu(x, alpha=2.0) + m.nn.functional.hardtanh(x, -0.5, 0.7) + m.nn.functional.softplus(x, beta=3), ("apart", (3, 4)))
case("F, on the kinks", lambda m, x: [getattr(m.nn.functional, n)(x * 0 + k) for n, k in (("leaky_relu", 0), ("elu", 0), ("hardtanh", 1), ("hardtanh", -1), ("relu6", 6), ("relu6", 0), ("relu", 0))], (3,))
case("softmax, log_softmax", lambda m, x: [m.softmax(x, 1), x.softmax(0), m.nn.functional.softmax(x, dim=-1), m.log_softmax(x, 0), x.log_softmax(dim=1)], (3, 4))
case("F.normalize", lambda m, x: m.nn.functional.normalize(x) + m.nn.functional.normalize(x, p=1, dim=0) * m.nn.functional.normalize(x, 3.0, -1, eps=2.0), ("apart", (3, 4)))
case("F.normalize at 0", lambda m, x: m.nn.functional.normalize(x - x.detach(), eps=0.5), (3, 4), second=False)
case("F.cosine_similarity", lambda m, x, y: m.nn.functional.cosine_similarity(x, y) + m.nn.functional.cosine_similarity(x, y[:1], dim=-1), (3, 4), (3, 4))
case("F.linear, layer_norm, embedding", lambda m, x, w: m.nn.functional.layer_norm(m.nn.functional.linear(x, w), (5,)) + m.nn.functional.embedding(m.tensor([0, 0, 4]), w).sum(), (3, 4), (5, 4))
for _reduction in ("mean", "sum", "none"):
    for _name in ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"):
        case(f"F.{_name} {_reduction}", functionals(_name, reduction=_reduction), (3, 4), (3, 4))
    case(f"F.huber_loss, smooth_l1_loss {_reduction}, settings", lambda m, x, y, r=_reduction: m.nn.functional.huber_loss(x, y, reduction=r, delta=0.4) + m.nn.functional.smooth_l1_loss(x, y, reduction=r, beta=0.3) + m.nn.functional.smooth_l1_loss(x, y, reduction=r, beta=0.0), (3, 4), (3, 4))
    case(f"F.binary_cross_entropy {_reduction}", lambda m, x, y, w, r=_reduction: m.nn.functional.binary_cross_entropy(m.sigmoid(x), m.sigmoid(y), weight=w.detach(), reduction=r), (3, 4), (3, 4), (4,))
    case(f"F.binary_cross_entropy_with_logits {_reduction}", lambda m, x, y, w, r=_reduction: m.nn.functional.binary_cross_entropy_with_logits(x, m.sigmoid(y), weight=w.detach(), reduction=r, pos_weight=m.exp(w.detach())) + m.nn.functional.binary_cross_entropy_with_logits(x, (y.detach() > 0).to(y.dtype), reduction=r), (3, 4), (3, 4), (4,))
    case(f"F.nll_loss {_reduction}", lambda m, x, w, r=_reduction: m.nn.functional.nll_loss(x, m.tensor([1, 0, -100]), reduction=r) + m.nn.functional.nll_loss(x, m.tensor([2, 0, 3]), w.detach(), ignore_index=3, reduction=r), (3, 4), ("positive", (4,)))
    case(f"F.nll_loss {_reduction}, images", lambda m, x, r=_reduction: m.nn.functional.nll_loss(x, m.tensor([[0, 1], [-100, 2]]), reduction=r), (2, 3, 2))
    case(f"F.kl_div {_reduction}", lambda m, x, y, r=_reduction: m.nn.functional.kl_div(x, m.softmax(y, 1), reduction=r if r != "mean" else "batchmean") + m.nn.functional.kl_div(x, y, reduction=r if r != "mean" else "batchmean", log_target=True), (3, 4), (3, 4))
    case(f"F.cosine_embedding_loss {_reduction}", lambda m, x, y, r=_reduction: m.nn.functional.cosine_embedding_loss(x, y, m.tensor([1, -1, -1]), margin=-0.5, reduction=r), (3, 4), (3, 4))
    case(f"F.cross_entropy {_reduction}", lambda m, x, r=_reduction: m.nn.functional.cross_entropy(x, m.tensor([1, 0, -100]), reduction=r, label_smoothing=0.1), (3, 4))
case("F.nll_loss of one", lambda m, x: m.nn.functional.nll_loss(x, m.tensor(2)), (4,))
case("F.kl_div, zeros", lambda m, x: m.nn.functional.kl_div(x, m.tensor(np.array([[0.0, 1.0], [0.5, 0.5]])), reduction="sum"), (2, 2))
case("F.binary_cross_entropy at 0 and 1", lambda m: m.nn.functional.binary_cross_entropy(m.tensor([0.0, 1.0, 0.0, 1.0]), m.tensor([0.0, 1.0, 1.0, 0.0]), reduction="none"))
case("enormous logits", lambda m, x: m.nn.functional.binary_cross_entropy_with_logits(x * 1e4, (x.detach() > 0.5).to(x.dtype), reduction="none") + m.nn.functional.logsigmoid(x * 1e4) + m.nn.functional.elu(x * 1e4), ("apart", (3, 4)), second=False)

LAYERS_OF_ONE = "ReLU GELU SiLU Tanh Sigmoid LeakyReLU ELU Softplus LogSigmoid Hardtanh ReLU6 Identity".split()
for _name in LAYERS_OF_ONE:
    case(f"nn.{_name}", lambda m, x, name=_name: getattr(m.nn, name)()(x), ("apart", (3, 4)))
for _name in "MSELoss L1Loss SmoothL1Loss HuberLoss CosineSimilarity".split():
    case(f"nn.{_name}", lambda m, x, y, name=_name: getattr(m.nn, name)()(x, y), (3, 4), (3, 4))
case("nn, settings", lambda m, x: m.nn.LeakyReLU(0.2)(x) + m.nn.ELU(2.0)(x) + m.nn.Softplus(2)(x) + m.nn.Hardtanh(-0.5, 0.5)(x) + m.nn.Softmax(dim=1)(x) + m.nn.LogSoftmax(dim=0)(x) + m.nn.GELU("tanh")(x), ("apart", (3, 4)))
case("nn losses, settings", lambda m, x, y: m.nn.SmoothL1Loss(beta=0.3)(x, y) + m.nn.HuberLoss(reduction="sum", delta=0.3)(x, y) + m.nn.L1Loss(reduction="sum")(x, y) + m.nn.CosineSimilarity(dim=0)(x, y).sum() + m.nn.MSELoss(reduction="none")(x, y), (3, 4), (3, 4))
case("nn losses of classes", lambda m, x, y: m.nn.NLLLoss(weight=m.tensor(np.arange(1.0, 5)))(x, m.tensor([1, 0, 3])) + m.nn.CrossEntropyLoss(label_smoothing=0.1)(x, m.tensor([1, 0, 3])) + m.nn.BCELoss()(m.sigmoid(x), m.sigmoid(y)) + m.nn.BCEWithLogitsLoss(pos_weight=m.tensor(np.arange(1.0, 5)))(x, m.sigmoid(y)), (3, 4), (3, 4))
case("nn losses of distributions", lambda m, x, y: m.nn.KLDivLoss(reduction="batchmean")(x, m.softmax(y, 1)) + m.nn.KLDivLoss(reduction="sum", log_target=True)(x, y) + m.nn.CosineEmbeddingLoss(margin=-0.5)(x, y, m.tensor([1, -1, -1])), (3, 4), (3, 4))

# ---------------------------------------------------------------- NumPy's own functions, with NumPy's meaning

for _name in (
    "exp exp2 expm1 sin cos tanh sinh cosh arctan arcsinh square negative positive absolute fabs isfinite isnan logical_not".split()
):
    numpys(f"np.{_name}", lambda np, x, name=_name: getattr(np, name)(x), ("apart", (3, 4)), hips=_name != "positive")
for _name in "sign floor ceil trunc rint".split():
    numpys(f"np.{_name}", lambda np, x, name=_name: getattr(np, name)(x) * x, ("apart", (3, 4)), hips=_name != "trunc")
for _name in "log log2 log10 log1p sqrt reciprocal".split():
    numpys(f"np.{_name}", lambda np, x, name=_name: getattr(np, name)(x), ("positive", (3, 4)))
for _name in "tan arcsin arccos arctanh".split():
    numpys(f"np.{_name}", lambda np, x, name=_name: getattr(np, name)(x), ("inside", (3, 4)))
for _name in "add subtract multiply divide power maximum minimum logaddexp arctan2 fmod remainder float_power hypot greater equal".split():
    numpys(f"np.{_name}", lambda np, x, y, name=_name: getattr(np, name)(x, y), ("positive", (3, 4)), ("positive", (4,)),
           hips=_name not in ("fmod", "float_power", "hypot", "remainder"))
for _axis, _keep in ((None, False), (0, True), (-1, False), ((0, 2), True)):
    for _name in "sum mean var std max min amax amin ptp median prod any all count_nonzero".split():
        if _name != "prod" or not isinstance(_axis, tuple):
            numpys(f"np.{_name}, axis={_axis}, keepdims={_keep}", lambda np, x, name=_name, a=_axis, k=_keep: getattr(np, name)(x, axis=a, keepdims=k),
                   ("apart", (3, 2, 4)), hips=_name not in ("ptp", "median", "count_nonzero", "any", "all"))
numpys("np.prod over two axes", lambda np, x: np.prod(x, axis=(0, 2)), (3, 2, 4), hips=False)
numpys("np.var, np.std, ddof", lambda np, x: np.var(x, 1, ddof=1) + np.std(x, axis=1, ddof=2), (3, 4))
numpys("np.argmax, np.argmin, np.argsort", lambda np, x: [np.argmax(x), np.argmin(x, 1), np.argsort(x, 0), np.argsort(x, None)], ("apart", (3, 4)), hips=False)
numpys("np.cumsum, np.cumprod", lambda np, x: [np.cumsum(x, 1), np.cumsum(x), np.cumprod(x, axis=0), np.cumprod(x)], (3, 4), hips=False)
numpys("np.cumsum", lambda np, x: np.cumsum(x, 1) * np.cumsum(x, axis=0), (3, 4))
numpys("np.sort", lambda np, x: np.sort(x) * np.sort(x, 0) + np.sort(x, axis=None)[3], ("apart", (4, 4)), hips=False)
numpys("np.round, np.around", lambda np, x: np.round(x, 1) + np.around(x) + np.round(x) * x, (3, 4), hips=False)
numpys("np.clip", lambda np, x: np.clip(x, -0.5, 0.5) + np.clip(x, None, 0.2) * np.clip(x, a_min=0.1, a_max=None), ("apart", (3, 4)), hips=False)
numpys("np.where", lambda np, x, y: np.where(x > 0, x * y, y), ("apart", (3, 4)), (3, 4))
numpys("np.nonzero and its kin", lambda np, x: [*np.nonzero(x > 0), *np.where(x > 0), np.argwhere(x > 0), np.flatnonzero(x > 0)], ("apart", (3, 4)), hips=False)
numpys("np.transpose, np.swapaxes, np.moveaxis", lambda np, x: np.transpose(x, (2, 0, 1)) * np.swapaxes(x, 0, 1) + np.transpose(x) * np.moveaxis(x, 0, -1), (3, 3, 3))
numpys("np.matrix_transpose, np.permute_dims", lambda np, x: np.matrix_transpose(x) + np.permute_dims(x, (1, 2, 0)), (3, 3, 3), hips=False)
numpys("np.reshape, np.ravel, np.squeeze, np.expand_dims", lambda np, x: np.reshape(x, (4, 3)) * np.ravel(x)[0] + np.squeeze(np.expand_dims(x, 0)).reshape(4, 3), (3, 4))
numpys("np.broadcast_to", lambda np, x: np.broadcast_to(x, (2, 3, 4)) ** 2, (3, 1), hips=False)
numpys("np.broadcast_arrays", lambda np, x, y: [*np.broadcast_arrays(x, y)], (3, 1), (4,), hips=False)
numpys("np.concatenate, np.stack, np.hstack, np.vstack", lambda np, x, y: np.concatenate((x, y), axis=1)[:, :3] * np.stack([x, y], 1)[:, 0] + np.vstack([x, y])[:2] * np.hstack([x, y])[:, 3:], (2, 3), (2, 3))
numpys("np.concatenate, flattened", lambda np, x, y: np.concatenate([x, y], axis=None) ** 2, (2, 3), (2,), hips=False)
numpys("np.split, np.array_split", lambda np, x: [*np.split(x, 2), *np.split(x, [1, 3], axis=1), *np.array_split(x, 3, 1)], (4, 5), hips=False)
numpys("np.split", lambda np, x: np.split(x, 2)[1] * np.split(x, [2], axis=0)[0], (4, 5))
numpys("np.repeat, np.tile", lambda np, x: np.repeat(x, 2)[:6] * np.tile(x, (2, 1)).reshape(-1)[:6] + np.repeat(x, 2, axis=1)[0][:6], (2, 3))
numpys("np.repeat, each", lambda np, x: np.repeat(x, [2, 0, 1], axis=1) ** 2, (2, 3), hips=False)
numpys("np.roll", lambda np, x: np.roll(x, 1) * np.roll(x, 2, axis=1), (3, 4))
numpys("np.roll, several", lambda np, x: np.roll(x, (1, 2), (0, 1)) ** 2, (3, 4), hips=False)
numpys("np.flip, np.fliplr, np.flipud", lambda np, x: np.fliplr(x) * np.flipud(x), (3, 4))
numpys("np.flip", lambda np, x: np.flip(x) * np.flip(x, 1) + np.flip(x, (0, 1)), (3, 4), hips=False)
numpys("np.pad", lambda np, x: np.pad(x, ((1, 0), (2, 1)), "constant") ** 2, (3, 4))
numpys("np.pad, modes", lambda np, x: np.pad(x, 1, "edge") * np.pad(x, (1, 1), mode="reflect") + np.pad(x, 1, "wrap") * np.pad(x, 1, "symmetric") + np.pad(x, 1, constant_values=2.0), (3, 4), hips=False)
numpys("np.tril, np.triu, np.diagonal", lambda np, x: np.tril(x, 1) * np.triu(x, -1) + np.diagonal(x, 0), (3, 3), hips=False)
numpys("np.diag, np.trace", lambda np, x: np.diag(np.diag(x)) * np.trace(x) + np.diag(x[0]), (3, 3))
numpys("np.diagonal, np.trace, offsets", lambda np, x: np.diagonal(x, 1, 0, 2) * np.trace(x, -1)[0], (3, 3, 3), hips=False)
numpys("np.meshgrid", lambda np, x, y: [*np.meshgrid(x, y), *np.meshgrid(x, y, indexing="ij")], (3,), (4,), hips=False)
numpys("np.take, np.take_along_axis, np.compress", lambda np, x: [np.take(x, [0, 2]), np.take(x, [[1, 1]], axis=0), np.take_along_axis(x, np.array([[1], [0], [1]]), 1), np.compress([True, False, True], x, 0)], (3, 4), hips=False)
numpys("np.shape, np.ndim, np.size", lambda np, x: [np.size(x), np.ndim(x), np.size(x, 1), np.array(np.shape(x))], (3, 4), hips=False)
if hasattr(np, "unstack"):  # NumPy 2.1
    numpys("np.unstack", lambda np, x: [*np.unstack(x), *np.unstack(x, axis=1)], (2, 3), hips=False)
numpys("np.copy", lambda np, x: np.copy(x) * 2, (3, 4), hips=False)
numpys("np.dot, np.inner, np.outer", lambda np, x, y: np.dot(x, y) * np.inner(x, y.T) + np.outer(x[0], y[:, 0]) * np.dot(x[0], y[0]), (3, 3), (3, 3))
numpys("np.dot of a cube", lambda np, x, y: np.dot(x, y), (2, 3, 4), (4, 2))
numpys("np.dot, more axes, and numbers", lambda np, x, y: [np.dot(x, y), np.dot(x, 2.0), np.vdot(x, x)], (2, 3, 4), (3, 4, 2), hips=False)
numpys("np.matmul, np.tensordot", lambda np, x, y: np.matmul(x, y) * np.tensordot(x, y) + np.tensordot(x, y, axes=([0], [1])), (3, 3), (3, 3))
numpys("np.vecdot", lambda np, x, y: np.vecdot(x, y), (3, 4), (3, 4), hips=False)
for _equation, *_specs in (("ij,jk->ik", (2, 3), (3, 4)), ("ij,kj", (2, 3), (4, 3)), ("...ij,...j->...i", (5, 2, 3), (3,)), ("i,i,i", (3,), (3,), (3,)), ("ijk->ki", (2, 3, 4))):
    numpys(f"np.einsum {_equation}", lambda np, *xs, e=_equation: np.einsum(e, *xs), *_specs)
numpys("np.einsum, the diagonal, optimized", lambda np, x: [np.einsum("ii", x), np.einsum("ii->i", x), np.einsum("ij,ij->j", x, x, optimize=True)], (3, 3), hips=False)
numpys("np.linalg.inv, det, solve", lambda np, x, y: np.linalg.inv(x) * np.linalg.det(x) + np.linalg.solve(x, y), ("positive", (3, 3)), (3, 3))
numpys("np.linalg.slogdet", lambda np, x: np.linalg.slogdet(x)[1], (3, 3))
numpys("np.linalg.cholesky", lambda np, x: np.linalg.cholesky(x @ x.T + np.eye(3)), (3, 3))
numpys("np.linalg.solve of a vector", lambda np, x, y: np.linalg.solve(x, y), ("positive", (3, 3)), (3,), hips=False)
numpys("np.linalg.norm", lambda np, x: np.linalg.norm(x) * np.linalg.norm(x, axis=1) + np.linalg.norm(x, "fro"), ("apart", (3, 4)))
numpys("np.linalg.norm, orders", lambda np, x: [np.linalg.norm(x, 1), np.linalg.norm(x, np.inf, keepdims=True), np.linalg.norm(x, 3, axis=0), np.linalg.norm(x, -1, axis=(0, 1)), np.linalg.norm(x[0], 1)], ("apart", (3, 4)), hips=False)
numpys("np.linalg, NumPy 2", lambda np, x: [np.linalg.matrix_norm(x), np.linalg.vector_norm(x, ord=3), np.linalg.trace(x), np.linalg.diagonal(x), np.linalg.matrix_transpose(x), np.linalg.outer(x[0], x[1]), np.linalg.matmul(x, x), np.linalg.vecdot(x, x), np.linalg.tensordot(x, x), np.linalg.matrix_power(x, 3)], (3, 3), hips=False)
numpys("x[...], with steps and numbers", lambda np, x: [x[::-1], x[-1:0:-2, ..., None], x[np.array([0, 0]), :, [1, 1]], x[np.ix_([0, 1], [2, 0])], x[..., 1:][x[..., 1:] > 0]], ("apart", (3, 3, 4)), hips=False)
# fmt: on

# ---------------------------------------------------------------- how two programs are compared


def flat(y):
    """The tensors, arrays and truth values that a program returned, in a list."""
    return [z for part in y for z in flat(part)] if isinstance(y, (tuple, list)) else [y]


def leaves_of(specs, layout):
    """The drawn arrays as float64 leaves: in order, or lying backwards and transposed in memory."""
    arrays = [draw(np.random.default_rng((7, i)), spec).data for i, spec in enumerate(specs)]
    if layout == "not contiguous":
        arrays = [a.T.copy()[::-1].copy()[::-1].T if a.ndim else a for a in arrays]
    return [Tensor(a).requires_grad_() for a in arrays]


def plain(y):
    return (
        y.numpy(force=True)
        if torch is not None and isinstance(y, torch.Tensor)
        else y.data
        if isinstance(y, Tensor)
        else np.asarray(y)
    )


def pull(library, ys, xs, seeds, create_graph):
    """The gradients that exist, zeros for those that do not."""
    pairs = [(y, s) for y, s in zip(ys, seeds, strict=True) if s is not None and y.requires_grad]
    if not pairs:
        return [x * 0 for x in xs]
    grad = mg.grad if library is mg else torch.autograd.grad
    seeds = [library.tensor(s) for _, s in pairs]
    found = grad([y for y, _ in pairs], xs, seeds, create_graph=create_graph, allow_unused=True)
    return [x * 0 if g is None else g for g, x in zip(found, xs, strict=True)]


def same_in_both(ours, theirs, xs, second=True, tolerance=1e-10):
    """Values, gradients, and gradients of gradients of two programs, one of Tensors and one of torch's tensors."""
    ts = [torch.tensor(np.array(x.data, order="C"), requires_grad=True) for x in xs]
    ys, us = flat(ours(*xs)), flat(theirs(*ts))
    assert len(ys) == len(us)
    for y, u in zip(ys, us, strict=True):
        y, u = plain(y), plain(u)
        assert y.dtype == u.dtype and y.shape == u.shape, (y.dtype, u.dtype, y.shape, u.shape)
        near(y[np.isfinite(u)], u[np.isfinite(u)], tolerance)
        np.testing.assert_array_equal(np.where(np.isfinite(u), 0, y), np.where(np.isfinite(u), 0, u))
    if not xs:
        return
    rng = np.random.default_rng(3)
    seeds = [
        rng.standard_normal(u.shape).astype(plain(u).dtype) if plain(u).dtype.kind == "f" else None
        for u in us
    ]
    first, expected = pull(mg, ys, xs, seeds, second), pull(torch, us, ts, seeds, second)
    for g, e in zip(first, expected, strict=True):
        near(plain(g), plain(e), tolerance)
    if second:
        seeds = [rng.standard_normal(x.shape) for x in xs]
        for g, e in zip(
            pull(mg, first, xs, seeds, False), pull(torch, expected, ts, seeds, False), strict=True
        ):
            near(plain(g), plain(e), 10 * tolerance)


@needs_torch
@pytest.mark.filterwarnings("ignore")  # PyTorch warns of its own deprecations
@pytest.mark.parametrize("layout", ("contiguous", "not contiguous"))
@pytest.mark.parametrize("name", BESIDE_TORCH)
def test_beside_pytorch(name, layout):
    ours, theirs, specs, second = BESIDE_TORCH[name]
    same_in_both(lambda *xs: ours(mg, *xs), lambda *ts: theirs(torch, *ts), leaves_of(specs, layout), second)


@pytest.mark.parametrize("name", BESIDE_NUMPY)
def test_numpys_functions_mean_on_tensors_what_they_mean_on_arrays(name):
    fun, specs, _ = BESIDE_NUMPY[name]
    xs = leaves_of(specs, "not contiguous")
    ys, expected = flat(fun(np, *xs)), flat(fun(np, *(np.array(x.data) for x in xs)))
    for y, e in zip(ys, expected, strict=True):
        y, e = plain(y), np.asarray(e)
        assert y.dtype == e.dtype and y.shape == e.shape
        near(y, e, 1e-12)
    if any(isinstance(y, Tensor) and y.requires_grad and y.node is not None for y in ys):

        def differentiable(*xs):
            return [y for y in flat(fun(np, *xs)) if isinstance(y, Tensor) and y.dtype.kind == "f"]

        assert gradcheck(differentiable, leaves_of(specs, "contiguous")) or name
        assert gradcheck(differentiable, leaves_of(specs, "contiguous"), order=2)


@pytest.mark.skipif(
    hips is None, reason="HIPS autograd is not installed; it serves as an oracle only (pip install autograd)."
)
@pytest.mark.parametrize("name", [name for name, (_, _, by_hips) in BESIDE_NUMPY.items() if by_hips])
def test_numpys_functions_have_the_gradients_that_hips_autograd_gives(name):
    fun, specs, _ = BESIDE_NUMPY[name]
    xs = leaves_of(specs, "contiguous")
    y = fun(np, *xs)
    if y.dtype.kind != "f":
        return
    seed = np.random.default_rng(1).standard_normal(y.shape)
    expected = hips.grad(lambda xs: hips_numpy.sum(fun(hips_numpy, *xs) * seed))(tuple(x.data for x in xs))
    for g, e in zip(pull(mg, [y], xs, [seed], False), expected, strict=True):
        near(g, e, 1e-11)


# ---------------------------------------------------------------- dtypes: floats stay what they are, whole numbers widen nothing

DTYPES = {
    "float": "exp log1p sin tanh sigmoid erf sqrt rsqrt reciprocal arctan exp2 expm1 log2 log10 arcsinh sinh erfc".split(),
    "kept": "neg abs sign floor ceil trunc round square relu clone ravel".split(),
}
PROGRAMS = {
    **{name: by_name(name) for name in DTYPES["float"]},
    **{name: by_name(name) for name in DTYPES["kept"] if name != "clone"},
    **{name: by_name(name) for name in "sum prod amax amin max min median any all argmax count_nonzero isnan logical_not nonzero sort argsort".split()},
    "cumsum": lambda m, x: m.cumsum(x, 0), "cumprod": lambda m, x: m.cumprod(x, 0), "diff of clips": lambda m, x: m.clip(x, 0, 1) - x.clamp(max=2),
    "clip by a float": lambda m, x: m.clip(x, 0.5), "where": lambda m, x: [m.where(x > 0, x, 0), m.where(x > 0, 1.5, x)], "x / 2": lambda m, x: [x / 2, x / x, 1 / x],
    "x * 2": lambda m, x: [x * 2, x * 2.0, x + x, x - 1, 2 - x], "x ** 2": lambda m, x: [x**2, x**2.0, x**0.5, m.pow(x, 3)],
    "x % 3": lambda m, x: [x % 3, m.fmod(x, 2), x // 2], "shapes": lambda m, x: [m.tile(x, (2,)), m.roll(x, 1), x.flip(0), m.stack([x, x]), m.tril(x[None]), m.diag(x)],
    "indexing": lambda m, x: [x[[0, 0]], m.gather(x, 0, m.tensor([1])), m.scatter(x, 0, m.tensor([1]), 2), m.index_select(x, 0, m.tensor([0]))],
    "index_add, scatter_add": lambda m, x: [m.index_add(x, 0, m.tensor([0, 0, 1]), x), m.scatter_add(x, 0, m.tensor([0, 0, 1]), x)],
    "pad": lambda m, x: m.nn.functional.pad(x[None], (1, 1), value=2), "matmul": lambda m, x: [x @ x, m.outer(x, x), m.einsum("i,i", x, x), m.tensordot(x, x, 1)],
    "mixed": lambda m, x: [x + m.tensor([1, 2, 3]), x * m.tensor(np.float32(2.5)), m.cat([x, m.tensor([1, 0, 2])]), m.maximum(x, m.tensor([1, 1, 1]))],
    "repeat_interleave": lambda m, x: [m.repeat_interleave(x, 2), x.repeat(2), *m.split(x, 2), *m.meshgrid(x, x, indexing="ij")],
}  # fmt: skip
FLOATS_ONLY = {
    "norm": by_name("norm"), "mean": by_name("mean"), "var": by_name("var"), "std": by_name("std"), "det": lambda m, x: m.det(m.diag(x)), "inverse": lambda m, x: m.inverse(m.diag(x)),
    "cholesky, solve": lambda m, x: [m.linalg.cholesky(m.diag(x)), m.linalg.solve(m.diag(x), x)], "slogdet": lambda m, x: list(m.slogdet(m.diag(x))),
    "activations": lambda m, x: [getattr(m.nn.functional, n)(x) for n in ("elu", "leaky_relu", "softplus", "hardtanh", "logsigmoid", "silu", "gelu", "relu6")],
    "losses": lambda m, x: [getattr(m.nn.functional, n)(x, x + 1) for n in ("l1_loss", "mse_loss", "huber_loss", "smooth_l1_loss", "binary_cross_entropy_with_logits")],
    "normalize, logsumexp": lambda m, x: [m.nn.functional.normalize(x, dim=0), m.logsumexp(x, 0), m.linalg.vector_norm(x, 3), m.lerp(x, x, 0.3)],
    "scalars": lambda m, x: [x * np.float64(2), x + np.float32(1), x.clip(np.float64(0.1)), x.masked_fill(x > 1, np.float64(3))],
}  # fmt: skip


@needs_torch
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", ("float32", "float64", "int64", "int32", "bool"))
@pytest.mark.parametrize("name", [*PROGRAMS, *FLOATS_ONLY])
def test_dtypes_beside_pytorch(name, dtype):
    if name in FLOATS_ONLY and not dtype.startswith("float"):
        return
    program, numbers = (PROGRAMS | FLOATS_ONLY)[name], np.array([2, 1, 3]).astype(dtype)
    if dtype == "bool" and name in ("sign", "square", "x ** 2"):
        return  # truth values as numbers: NumPy's int8 where PyTorch has int64, and no sign
    try:
        expected = flat(program(torch, torch.tensor(numbers)))
    except (RuntimeError, TypeError):
        return  # not for this dtype in PyTorch
    for y, u in zip(flat(program(mg, mg.tensor(numbers))), expected, strict=True):
        assert plain(y).dtype == plain(u).dtype
        near(plain(y).astype(float), plain(u).astype(float), 1e-6)


# ---------------------------------------------------------------- in place, under no_grad

IN_PLACE = dict.fromkeys("exp_ sqrt_ neg_ abs_ floor_ ceil_ round_ tanh_ sigmoid_ relu_ reciprocal_ zero_".split(), ()) | {
    "pow_": (3,), "clamp_": (0.2, 0.8), "clip_": (0.2, 0.8), "add_": (2.0,), "sub_": (2.0,), "mul_": (2.0,), "div_": (2.0,), "fill_": (2.0,),
}  # fmt: skip


@needs_torch
@pytest.mark.parametrize("name", IN_PLACE)
def test_in_place_beside_pytorch(name):
    array = np.random.default_rng(0).uniform(0.1, 2, (3, 4))
    x, t = mg.tensor(array, requires_grad=True), torch.tensor(array, requires_grad=True)
    with mg.no_grad(), torch.no_grad():
        memory = x.data
        assert getattr(x, name)(*IN_PLACE[name]) is x and x.data is memory
        near(x, getattr(t, name)(*IN_PLACE[name]).detach())
    with refuses(RuntimeError, "in place", "no_grad"):
        getattr(x, name)(*IN_PLACE[name])


def test_in_place_keeps_the_dtype_and_takes_masks():
    x = mg.ones(3)
    assert (
        x.masked_fill_(np.array([True, False, True]), 2.5).tolist() == [2.5, 1, 2.5] and x.dtype == np.float32
    )
    with refuses(TypeError, "In-place", "int64"):
        mg.tensor([1, 2]).exp_()


# ---------------------------------------------------------------- what is special


def test_scatter_gives_the_gradient_to_the_number_that_was_written_last():
    x, src = (mg.tensor(a, requires_grad=True) for a in (np.zeros(3), np.array([1.0, 2, 3, 4])))
    y = x.scatter(0, np.array([1, 1, 0, 1]), src)
    assert y.tolist() == [3, 4, 0]
    y.backward(np.array([10.0, 20, 30]))
    assert src.grad.tolist() == [0, 0, 10, 20] and x.grad.tolist() == [0, 0, 30]


def test_indexed_additions_add_up_where_an_index_occurs_twice():
    src = mg.tensor(np.array([1.0, 2, 3]), requires_grad=True)
    y = mg.zeros(2, dtype=np.float64).index_add(0, [0, 0, 1], src)
    assert y.tolist() == [3, 3]
    y.backward(np.array([5.0, 7]))
    assert src.grad.tolist() == [5, 5, 7]


@pytest.mark.parametrize("zeros", list(itertools.product((0.0, 1.5), repeat=3)))
def test_products_of_numbers_with_zeros_have_right_gradients_of_both_orders(zeros):
    x = mg.tensor(np.array(zeros), requires_grad=True)
    (first,) = mg.grad(x.prod() + x.cumprod(0).sum(), x, create_graph=True)
    a, b, c = zeros
    near(first, [2 * b * c + b + 1, 2 * a * c + a, 2 * a * b])
    near(mg.grad(first.sum(), x)[0], [2 * (b + c) + 1, 2 * (a + c) + 1, 2 * (a + b)])


def test_a_long_product_along_an_axis_takes_few_nodes():
    y = mg.tensor(np.full(1000, 1.001), requires_grad=True).cumprod(0)
    near(y, np.cumprod(np.full(1000, 1.001)), 1e-13)
    assert y.node.birth - y.node.args[0].birth < 100


def test_einsum_of_two_matrices_is_one_matmul():
    x, y = (mg.tensor(np.ones((3, 3)), requires_grad=True) for _ in range(2))
    # of the product; no einsum, no multiplying out
    assert mg.einsum("ij,jk->ik", x, y).node.name == "reshape"
    from helpers import functions as recorded

    assert recorded(mg.einsum("ij,jk->ik", x, y)) <= {np.matmul, np.reshape}
    assert np.matmul in recorded(
        mg.einsum("bij,bkj->bik", mg.ones(2, 3, 4, requires_grad=True), mg.ones(2, 5, 4))
    )


def test_max_over_an_axis_follows_the_index_and_amax_shares():
    x = mg.tensor(np.array([[2.0, 2, 1]]), requires_grad=True)
    assert mg.grad(x.max(1).values.sum(), x)[0].tolist() == [[1, 0, 0]]
    assert mg.grad(x.amax(1).sum(), x)[0].tolist() == [[0.5, 0.5, 0]]


def test_norms_and_standard_deviations_of_equal_numbers_have_no_slope():
    for fun in (
        mg.norm,
        lambda x: mg.norm(x, 3),
        lambda x: (x + 1).std(),
        linalg.norm,
        np.linalg.norm,
        lambda x: F.normalize(x, dim=0).sum(),
    ):
        x = mg.zeros(3, dtype=np.float64, requires_grad=True)
        assert mg.grad(fun(x), x)[0].isfinite().all()


REFUSED = {
    "reshape": (lambda x: x.flatten(1, 0), ValueError, "start_dim"), "dot": (lambda x: mg.dot(x, x), ValueError, "(3, 3)", "matmul"),
    "mm": (lambda x: mg.mm(x[0], x), ValueError, "mm", "(3,)"), "bmm": (lambda x: x.bmm(x), ValueError, "bmm"), "t": (lambda x: x[None].t(), ValueError, ".mT"),
    "split": (lambda x: x.split([1, 1]), ValueError, "[1, 1]", "(3, 3)"), "split by 0": (lambda x: x.split(0), ValueError, "at least 1"),
    "topk": (lambda x: x.topk(4), ValueError, "k = 4"), "gather": (lambda x: x.gather(0, np.array([0])), ValueError, "gather", "(1,)"),
    "float index": (lambda x: x.gather(0, x), TypeError, "must be integers", "float64"), "take_along_axis": (lambda x: mg.take_along_axis(x, [[0, 0]], 0), ValueError, "(1, 2)"),
    "scatter": (lambda x: x.scatter(0, [[0, 1]], x[:1, :1]), ValueError, "scatter", "(1, 2)"), "narrow": (lambda x: x.narrow(0, 2, 2), IndexError, "axis 0", "length 3"),
    "masked_select": (lambda x: x.masked_select(x), TypeError, "boolean"), "axis": (lambda x: x.chunk(2, 5), np.exceptions.AxisError, "axis 5", "(3, 3)"),
    "repeat": (lambda x: x.repeat(2), ValueError, "tile"), "movedim": (lambda x: x.movedim((0, 0), (0, 1)), ValueError, "movedim"), "diag": (lambda x: mg.diag(x[None]), ValueError, "diag_embed"),
    "einsum letters": (lambda x: mg.einsum("ij->ik", x), ValueError, "ij->ik"), "einsum operands": (lambda x: mg.einsum("ij,jk", x), ValueError, "2 operands", "got 1"),
    "einsum axes": (lambda x: mg.einsum("i", x), ValueError, "2 axes"), "einsum lengths": (lambda x: mg.einsum("ij,jk", x, x[:2]), ValueError, "'j'", "3", "2"),
    "einsum diagonal": (lambda x: mg.einsum("ii", x[:2]), ValueError, "'i'"), "einsum lists": (lambda x: mg.einsum(x, [0, 1]), TypeError, "equation"),
    "inv": (lambda x: mg.inv(x[:2]), ValueError, "square", "(2, 3)"), "singular": (lambda x: mg.inv(x * 0), ValueError, "inv", "Singular"),
    "det": (lambda x: mg.det(x * 0).backward(), ValueError, "det of a singular matrix", "diagonal"),
    "cholesky": (lambda x: mg.cholesky(-x @ x.T), ValueError, "cholesky", "positive definite"), "norm": (lambda x: mg.norm(x, "nuc"), ValueError, "'fro'"),
    "matrix norm": (lambda x: linalg.norm(x, 2), NotImplementedError, "singular values"), "tensordot": (lambda x: mg.tensordot(x, x[:2], 1), ValueError, "differ in length"),
    "clip": (lambda x: x.clip(), ValueError, "min, max"), "np.pad": (lambda x: np.pad(x, 1, mode="mean"), NotImplementedError, "mean"),
    "np.split": (lambda x: np.split(x, 2), ValueError, "equal parts"), "np.sum(out)": (lambda x: np.sum(x, out=np.zeros(())), TypeError, "out="),
    "F.pad": (lambda x: F.pad(x, (1, 2, 3)), ValueError, "two integers"), "F.l1_loss": (lambda x: F.l1_loss(x, x[0]), ValueError, "l1_loss", "(3,)"),
    "F.bce": (lambda x: F.binary_cross_entropy(x + 9, x), ValueError, "logits"), "F.nll_loss": (lambda x: F.nll_loss(x, np.array([0, 1, 3])), IndexError, "nll_loss", "target 3"),
    "F.one_hot": (lambda x: F.one_hot(np.array([3]), 2), IndexError, "one_hot"), "reduction": (lambda x: F.huber_loss(x, x, "avg"), ValueError, "'avg'"),
    "whole powers": (lambda x: mg.tensor([2]) ** -1, ValueError, "power", "negative"), "empty amax": (lambda x: x[:0].amax(), ValueError, "(0, 3)"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_sentences(name):
    do, error, *words = REFUSED[name]
    with refuses(error, *words):
        do(mg.tensor(np.arange(9.0).reshape(3, 3) + np.eye(3) * 9, requires_grad=True))


# ---------------------------------------------------------------- shapes, axes and equations nobody thought of

shapes = st.lists(st.integers(0, 3), max_size=4).map(tuple)


@st.composite
def shape_and_axes(draw):
    shape = draw(shapes.filter(len))
    axes = draw(st.lists(st.integers(0, len(shape) - 1), min_size=1, unique=True))
    return shape, tuple(a - len(shape) * draw(st.booleans()) for a in axes), draw(st.booleans())


def array_of(shape, seed=0):
    return np.random.default_rng((seed, *shape)).standard_normal(shape)


@few
@given(shape_and_axes(), st.sampled_from(["sum", "prod", "amax", "amin", "mean", "var", "any", "all"]))
def test_reductions_of_any_shape_over_any_axes(case, name):
    shape, axes, keep = case
    array = array_of(shape)
    if array.size == 0 and name not in ("sum", "prod", "any", "all"):
        return
    x = mg.tensor(array, requires_grad=True)
    y = getattr(np, name)(x, axis=axes, keepdims=keep)
    near(y, getattr(np, name)(array, axis=axes, keepdims=keep))
    if y.requires_grad:
        seed = array_of(y.shape, 1)
        (g,) = mg.grad(y, x, mg.tensor(seed))
        spread = seed if keep else np.expand_dims(seed, axes)
        full = {
            "sum": lambda: np.ones(shape), "mean": lambda: np.full(shape, y.data.size / max(1, array.size)), "amax": lambda: array == array.max(axes, keepdims=True),
            "amin": lambda: array == array.min(axes, keepdims=True), "prod": lambda: np.prod(array, axes, keepdims=True) / array,
            "var": lambda: 2 * (array - array.mean(axes, keepdims=True)) * y.data.size / array.size,
        }[name]  # fmt: skip
        near(g, full() * spread)


@few
@given(shapes, st.data())
def test_binary_functions_of_any_shapes_that_broadcast(shape, data):
    other = tuple(n if data.draw(st.booleans()) else 1 for n in shape)[
        data.draw(st.integers(0, len(shape))) :
    ]
    name = data.draw(
        st.sampled_from(["add", "multiply", "divide", "maximum", "hypot", "arctan2", "logaddexp", "power"])
    )
    arrays = [np.abs(array_of(s, i)) + 0.5 for i, s in enumerate(data.draw(st.permutations([shape, other])))]
    xs = [mg.tensor(a, requires_grad=True) for a in arrays]
    y = getattr(np, name)(*xs)
    near(y, getattr(np, name)(*arrays))
    seed = array_of(y.shape, 5)
    step = 1e-6
    for i, g in enumerate(mg.grad(y, xs, mg.tensor(seed))):
        assert g.shape == arrays[i].shape
        up, down = ([a + d * (j == i) for j, a in enumerate(arrays)] for d in (step, -step))
        slope = (getattr(np, name)(*up) - getattr(np, name)(*down)) / (2 * step)
        assert float(g.data.sum()) == pytest.approx(float((slope * seed).sum()), rel=1e-5, abs=1e-5)


@st.composite
def equations(draw):
    """(equation, shapes): up to three operands, letters that repeat, an ellipsis, axes of length 1, with or without an output."""
    size = {letter: draw(st.integers(1, 3)) for letter in "abcd"}
    batch = draw(st.lists(st.integers(1, 2), max_size=2)) if draw(st.booleans()) else None
    terms, shapes_ = [], []
    for _ in range(draw(st.integers(1, 3))):
        letters = draw(st.lists(st.sampled_from("abcd"), max_size=3))
        shape = [1 if letters.count(a) == 1 and draw(st.integers(0, 9)) == 0 else size[a] for a in letters]
        at, dots = draw(st.integers(0, len(letters))), batch is not None and draw(st.booleans())
        terms.append("".join(letters[:at]) + "..." * dots + "".join(letters[at:]))
        shapes_.append(tuple(shape[:at] + (batch if dots else []) + shape[at:]))
    used = sorted({a for term in terms for a in term} - {"."})
    equation = ",".join(terms)
    if draw(st.booleans()):
        output = draw(st.permutations(used))[: draw(st.integers(0, len(used)))]
        equation += "->" + "..." * any("..." in term for term in terms) + "".join(output)
    return equation, shapes_


@settings(few, max_examples=150)
@given(equations())
def test_einsum_of_any_equation(case):
    equation, shapes_ = case
    arrays = [array_of(shape, i) for i, shape in enumerate(shapes_)]
    xs = [mg.tensor(a, requires_grad=True) for a in arrays]
    y = mg.einsum(equation, *xs)
    near(y, np.einsum(equation, *arrays))
    seed = array_of(y.shape, 9)
    for i, (g, a) in enumerate(zip(mg.grad(y, xs, mg.tensor(seed)), arrays, strict=True)):
        # linear in each operand: the slope along a direction is the value there
        along = array_of(a.shape, 11)
        value = np.einsum(equation, *arrays[:i], along, *arrays[i + 1 :])
        assert float((g.data * along).sum()) == pytest.approx(float((value * seed).sum()), rel=1e-9, abs=1e-9)


@few
@given(shapes.filter(len), st.data())
def test_moves_of_any_shape_have_the_gradient_of_their_inverse(shape, data):
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    n = shape[axis]
    move = data.draw(st.sampled_from([
        lambda x: np.roll(x, data_shift, axis), lambda x: np.flip(x, axis), lambda x: np.moveaxis(x, axis, 0), lambda x: np.repeat(x, 2, axis), lambda x: np.tile(x, (2, 3)),
        lambda x: np.take(x, [i % n for i in (0, 2, 2)] if n else np.zeros(0, int), axis), lambda x: np.pad(x, 1), lambda x: np.concatenate([x, x], axis), lambda x: np.cumsum(x, axis),
    ]))  # fmt: skip
    data_shift = data.draw(st.integers(-7, 7))
    array = array_of(shape)
    x = mg.tensor(array, requires_grad=True)
    y = move(x)
    near(y, move(array))
    seed, along = array_of(y.shape, 3), array_of(shape, 4)
    assert float((mg.grad(y, x, mg.tensor(seed))[0].data * along).sum()) == pytest.approx(
        float((move(along) * seed).sum()), rel=1e-9, abs=1e-9
    )


# ---------------------------------------------------------------- nothing public is left out

OPERATORS = "add radd sub rsub mul rmul truediv rtruediv pow rpow matmul rmatmul neg pos abs mod rmod getitem iter".split()
WITHOUT_A_GRADIENT = set(
    """
    isnan isinf isfinite logical_not logical_and logical_or logical_xor eq ne lt le gt ge floor_divide isclose allclose equal argmax argmin
    argsort any all count_nonzero nonzero one_hot seen_keys is_long CausalMask Dropped
    size dim numel item tolist numpy detach requires_grad_ backward register_hook retain_grad cuda cpu long int bool float double
    contiguous astype type type_as definition DEFINITIONS Module Parameter Sequential ModuleList ModuleDict functional init utils
""".split()
)  # and the changes in place, which nothing records


def names():
    """(where, name, what) of everything public."""
    yield from (("minigrad", n, getattr(ops, n)) for n in ops.__all__)
    yield from (("minigrad.linalg", n, getattr(linalg, n)) for n in linalg.__all__)
    yield from (
        ("functional", n, f)
        for n, f in vars(F).items()
        if callable(f) and not n.startswith("_") and not isinstance(f, types.ModuleType)
    )
    yield from (
        ("Tensor", n, f)
        for n, f in vars(Tensor).items()
        if isinstance(f, types.FunctionType) and not n.startswith("_")
    )
    yield from (("Tensor", f"__{n}__", getattr(Tensor, f"__{n}__")) for n in OPERATORS)
    yield from (("Tensor", n, getattr(Tensor, n).fget) for n in ("T", "mT"))
    yield from (("nn", n, getattr(nn, n)) for n in nn.__all__)


def differentiable(name):
    return name not in WITHOUT_A_GRADIENT and not (name.endswith("_") and not name.endswith("__"))


def called_by(run):
    """The functions and the code that are called while `run` runs; of decorated ones what is inside."""
    wrappers = {either_spelling(len).__code__, next(d for d in F.DEFINITIONS).__code__}
    called = set()

    def note(frame, event, _):
        if event == "call":
            called.add(frame.f_locals["fun"] if frame.f_code in wrappers else frame.f_code)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        with np.errstate(all="ignore"):
            run()
    finally:
        sys.setprofile(before)
    return called


def is_called(what, called):
    if isinstance(what, type):
        return what.forward.__code__ in called
    return (
        getattr(what, "__wrapped__", what) in called
        or getattr(inspect.unwrap(what), "__code__", None) in called
    )


def all_samples():
    for sample in [*SAMPLES, *nn_samples.SAMPLES]:
        fun, inputs = sample.make(np.random.default_rng(0))
        fun(*inputs)


def all_cases():
    for fun, _, specs, _ in BESIDE_TORCH.values():
        fun(mg, *leaves_of(specs, "contiguous"))
    for fun, specs, _ in BESIDE_NUMPY.values():
        fun(np, *leaves_of(specs, "contiguous"))


def missing(called):
    return {
        f"{where}.{name}"
        for where, name, what in names()
        if differentiable(name) and not is_called(what, called)
    }


# minigrad.linalg hands these on, and minigrad does not
ONLY_IN_LINALG = {"matrix_norm", "vector_norm", "any_norm", "batch_diagonal"}


@pytest.mark.parametrize("file", ("elementwise", "reductions", "shape", "indexing", "linalg"))
def test_all_lists_what_is_decorated_in_the_file(file):
    module, wrapper = getattr(ops, file), either_spelling(len).__code__
    decorated = {
        name
        for name, what in vars(module).items()
        if getattr(what, "__code__", None) is wrapper and what.__module__ == module.__name__
    }
    assert sorted(module.__all__) == sorted(decorated - ONLY_IN_LINALG)


def test_every_differentiable_public_name_is_reached_by_a_sample():
    assert missing(called_by(all_samples)) == set()


@pytest.mark.filterwarnings("ignore")
def test_every_public_function_stands_beside_its_namesake():
    called = called_by(all_cases)
    assert {n for n in ops.__all__ if not is_called(getattr(ops, n), called)} == set()
    assert {n for n in linalg.__all__ if not is_called(getattr(linalg, n), called)} == set()


def test_every_numpy_function_that_means_something_on_tensors_is_tried(monkeypatch):
    tried = set()
    for numpys_own, ours in list(FROM_NUMPY.items()):
        monkeypatch.setitem(
            FROM_NUMPY, numpys_own, lambda *a, own=numpys_own, f=ours, **k: tried.add(own) or f(*a, **k)
        )
    for fun, specs, _ in BESIDE_NUMPY.values():
        fun(np, *leaves_of(specs, "contiguous"))
    elsewhere = {np.allclose, np.array_equal, np.isclose}
    assert {f.__name__ for f in set(FROM_NUMPY) - tried - elsewhere} == set()
    x = mg.ones(3)
    assert np.allclose(x, 1) and np.array_equal(x, np.ones(3)) and np.isclose(x, 1).data.all()


def test_a_public_name_without_a_sample_would_be_noticed(monkeypatch):
    called = called_by(all_samples)
    monkeypatch.setattr(ops, "__all__", [*ops.__all__, "forgotten"])
    monkeypatch.setattr(ops, "forgotten", either_spelling(lambda x: x * 2), raising=False)
    monkeypatch.setattr(nn, "__all__", [*nn.__all__, "Forgotten"])
    monkeypatch.setattr(
        nn, "Forgotten", type("Forgotten", (nn.Module,), {"forward": lambda self, x: x}), raising=False
    )
    assert missing(called) == {"minigrad.forgotten", "nn.Forgotten"}
