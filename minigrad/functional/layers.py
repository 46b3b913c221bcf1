"""The functions of layers: linear maps, embeddings, normalization, padding."""

import numpy as np

from minigrad import ops as f
from minigrad.engine.recording import as_tensor
from minigrad.engine.tensor import Tensor
from minigrad.functional.tiers import definition
from minigrad.ops.shape import pad as pad_axes


@definition(kernel="minigrad/kernels/layers.py")
def linear(x, weight, bias=None):
    """x W^T + b: x (..., in), weight (out, in), bias (out,) -> (..., out)."""
    y = as_tensor(x) @ weight.T
    return y if bias is None else y + bias


def embedding(index, weight, padding_idx=None):
    """Look up the rows of `weight` (V, C) at index (...) -> (..., C).

    A row that occurs twice gets both gradients; the row padding_idx gets none.
    """
    ids = as_tensor(index).data
    if ids.dtype.kind not in "iu":
        raise TypeError(f"embedding: the index must be integers, got {ids.dtype}.")
    rows = weight.shape[0]
    least, largest = (ids.item(),) * 2 if ids.size == 1 else (ids.min(initial=0), ids.max(initial=0))
    if least < 0 or largest >= rows and ids.size:
        wrong = least if least < 0 else largest
        raise IndexError(f"embedding: token id {wrong} is outside the vocabulary of {rows} (0..{rows - 1}).")
    return rows_of(weight, ids, padding_idx)


@definition(kernel="minigrad/kernels/layers.py")
def rows_of(weight, index, padding_idx=None):
    """weight[index], with the row padding_idx as a constant."""
    if padding_idx is not None:
        weight = f.where(
            np.arange(len(weight.data))[:, None] == padding_idx % len(weight.data), weight.detach(), weight
        )
    return weight[index]


def last_axes(name, x, normalized_shape):
    """Count the axes of normalized_shape. Raises ValueError if they are not the last axes of x."""
    shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
    whole = x.data.shape
    if whole[len(whole) - len(shape) :] != shape:
        raise ValueError(
            f"{name} over {shape} needs an input whose last axes have these lengths, got shape {x.shape}."
        )
    return len(shape)


def layer_norm(input, normalized_shape, weight=None, bias=None, eps=1e-5):
    """(x - mean) / sqrt(var + eps) * weight + bias over the last axes, with the biased variance (Ba et al.

    2016).
    """
    x = as_tensor(input)
    return normalized(x, weight, bias, eps, last_axes("layer_norm", x, normalized_shape))


@definition(kernel="minigrad/kernels/layers.py")
def normalized(x, weight=None, bias=None, eps=1e-5, axes=1):
    """layer_norm over the last `axes` axes."""
    axis = tuple(range(-axes, 0))
    centered = x - x.mean(axis, keepdims=True)
    y = centered / f.sqrt((centered * centered).mean(axis, keepdims=True) + eps)
    y = y if weight is None else y * weight
    return y if bias is None else y + bias


def rms_norm(input, normalized_shape, weight=None, eps=None):
    """x / sqrt(mean(x^2) + eps) * weight over the last axes (Zhang & Sennrich 2019).

    This is layer_norm without mean and bias. eps=None means the dtype's machine epsilon, as in PyTorch.
    """
    x = as_tensor(input)
    eps = float(np.finfo(x.dtype).eps) if eps is None else eps
    return root_mean_square_normalized(x, weight, eps, last_axes("rms_norm", x, normalized_shape))


@definition(kernel="minigrad/kernels/layers.py")
def root_mean_square_normalized(x, weight=None, eps=1e-5, axes=1):
    """rms_norm over the last `axes` axes."""
    y = x / f.sqrt((x * x).mean(tuple(range(-axes, 0)), keepdims=True) + eps)
    return y if weight is None else y * weight


@f.either_spelling
def normalize(x, p=2.0, axis=1, eps=1e-12):
    """Divide x by its p-norm along an axis, or by eps if the norm is smaller."""
    x = as_tensor(x)
    return x / f.clip(f.norm(x, p, axis, keepdims=True), eps)


@f.either_spelling
def cosine_similarity(x1, x2, axis=1, eps=1e-8):
    """The cosine of the angle between vectors along an axis; the others broadcast."""
    x1, x2 = (x / f.clip(f.norm(x, 2, axis, keepdims=True), eps) for x in map(as_tensor, (x1, x2)))
    return f.sum(x1 * x2, axis)


def one_hot(index, num_classes=-1):
    """Turn integers (...) into rows (..., num_classes) of zeros with a 1 at each integer. No gradient.

    num_classes=-1 means the largest integer + 1.
    """
    ids = as_tensor(index).data
    if ids.dtype.kind not in "iu":
        raise TypeError(f"one_hot: the index must be integers, got {ids.dtype}.")
    classes = int(ids.max(initial=-1)) + 1 if num_classes == -1 else num_classes
    if ids.size and (ids.min() < 0 or ids.max() >= classes):
        raise IndexError(
            f"one_hot: {ids.min()} to {ids.max()} are not all among the {classes} classes 0..{classes - 1}."
        )
    return Tensor((ids[..., None] == np.arange(classes)).astype(np.int64))


_MODES = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}


def pad(input, pad, mode="constant", value=0.0):
    """Pad with pad = (before, after) elements of the last axis, then of the axis before it, and so on.

    np.pad counts from the first axis instead.
    """
    x, given = as_tensor(input), tuple(pad)
    if len(given) % 2 or len(given) > 2 * x.ndim or mode not in _MODES:
        raise ValueError(
            f"pad: {given} must have two integers for each axis of {x.shape}, beginning with the last, "
            f"and mode must be one of {', '.join(_MODES)}."
        )
    pairs = [(0, 0)] * (x.ndim - len(given) // 2) + list(zip(given[::2], given[1::2]))[::-1]
    return pad_axes(x, pairs, _MODES[mode], 0 if value is None else value)
