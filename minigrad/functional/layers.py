"""What layers compute: linear maps, embeddings, normalisation, padding."""

import numpy as np

from minigrad import ops as f
from minigrad.engine.recording import as_tensor
from minigrad.engine.tensor import Tensor
from minigrad.functional.tiers import definition
from minigrad.ops.shape import padded


@definition(kernel="minigrad/kernels/layers.py")
def linear(x, weight, bias=None):
    """x W^T + b: x (..., in), weight (out, in), bias (out,) -> (..., out)."""
    y = as_tensor(x) @ weight.T
    return y if bias is None else y + bias


def embedding(index, weight, padding_idx=None):
    """The rows of `weight` (V, C) that index (...) names -> (..., C). Rows named twice get both gradients; the row
    padding_idx gets none."""
    numbers = as_tensor(index).data
    if numbers.dtype.kind not in "iu":
        raise TypeError(f"embedding: the index must be whole numbers, got {numbers.dtype}.")
    rows = weight.shape[0]
    least, largest = (
        (numbers.item(),) * 2 if numbers.size == 1 else (numbers.min(initial=0), numbers.max(initial=0))
    )
    if least < 0 or largest >= rows and numbers.size:
        wrong = least if least < 0 else largest
        raise IndexError(f"embedding: token id {wrong} is outside the vocabulary of {rows} (0..{rows - 1}).")
    return rows_of(weight, numbers, padding_idx)


@definition(kernel="minigrad/kernels/layers.py")
def rows_of(weight, index, padding_idx=None):
    """weight[index], where the row padding_idx is a constant."""
    if padding_idx is not None:
        weight = f.where(
            np.arange(len(weight.data))[:, None] == padding_idx % len(weight.data), weight.detach(), weight
        )
    return weight[index]


def last_axes(name, x, normalized_shape):
    """How many axes normalized_shape names; a sentence if they are not the last ones of x."""
    shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
    whole = x.data.shape
    if whole[len(whole) - len(shape) :] != shape:
        raise ValueError(
            f"{name} over {shape} needs an input whose last axes are those, got shape {x.shape}."
        )
    return len(shape)


def layer_norm(input, normalized_shape, weight=None, bias=None, eps=1e-5):
    """(x - mean) / sqrt(var + eps) * weight + bias over the last axes (Ba et al. 2016). The variance is the biased one."""
    x = as_tensor(input)
    return normalized(x, weight, bias, eps, last_axes("layer_norm", x, normalized_shape))


@definition(kernel="minigrad/kernels/layers.py")
def normalized(x, weight=None, bias=None, eps=1e-5, axes=1):
    """layer_norm over the last `axes` axes."""
    axis = tuple(range(-axes, 0))
    centred = x - x.mean(axis, keepdims=True)
    y = centred / f.sqrt((centred * centred).mean(axis, keepdims=True) + eps)
    y = y if weight is None else y * weight
    return y if bias is None else y + bias


def rms_norm(input, normalized_shape, weight=None, eps=None):
    """x / sqrt(mean(x^2) + eps) * weight over the last axes (Zhang & Sennrich 2019): layer_norm without its mean and bias.

    eps=None is the smallest step of the dtype above 1, as in PyTorch.
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
    """x divided by its p-norm along an axis (by eps where that is smaller)."""
    x = as_tensor(x)
    return x / f.clip(f.norm(x, p, axis, keepdims=True), eps)


@f.either_spelling
def cosine_similarity(x1, x2, axis=1, eps=1e-8):
    """The cosine of the angle between vectors along an axis; broadcasting the others."""
    x1, x2 = (x / f.clip(f.norm(x, 2, axis, keepdims=True), eps) for x in map(as_tensor, (x1, x2)))
    return f.sum(x1 * x2, axis)


def one_hot(index, num_classes=-1):
    """Whole numbers (...) as rows (..., num_classes) of zeros with a 1 at each; -1 counts the classes. Whole numbers, no gradient."""
    numbers = as_tensor(index).data
    if numbers.dtype.kind not in "iu":
        raise TypeError(f"one_hot: the index must be whole numbers, got {numbers.dtype}.")
    classes = int(numbers.max(initial=-1)) + 1 if num_classes == -1 else num_classes
    if numbers.size and (numbers.min() < 0 or numbers.max() >= classes):
        raise IndexError(
            f"one_hot: {numbers.min()} to {numbers.max()} are not all among the {classes} classes 0..{classes - 1}."
        )
    return Tensor((numbers[..., None] == np.arange(classes)).astype(np.int64))


_MODES = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}


def pad(input, pad, mode="constant", value=0.0):
    """More numbers around: pad = (before, after) of the last axis, then of the one before it ... (np.pad counts from the first)."""
    x, given = as_tensor(input), tuple(pad)
    if len(given) % 2 or len(given) > 2 * x.ndim or mode not in _MODES:
        raise ValueError(
            f"pad: {given} must hold two numbers for each axis of {x.shape}, from the last on, and mode be one of {', '.join(_MODES)}."
        )
    pairs = [(0, 0)] * (x.ndim - len(given) // 2) + list(zip(given[::2], given[1::2]))[::-1]
    return padded(x, pairs, _MODES[mode], 0 if value is None else value)
