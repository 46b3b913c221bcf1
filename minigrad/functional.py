"""The readable definitions: softmax, layer norm, cross-entropy, attention ... composed from ops, with PyTorch's signatures.

They differentiate by themselves, to any order. Where speed pays, kernels.py holds the same function again, derived by hand;
a @definition uses its kernel unless `with minigrad.definitions():` asks for the lines you see here.
"""

import functools
import math

import numpy as np

from minigrad import functions as f
from minigrad import random
from minigrad._tensor import Tensor, apply_kernel, as_tensor
from minigrad.functions import relu, sigmoid, tanh  # noqa: F401  (F.relu, F.sigmoid, F.tanh)
from minigrad.modes import readable

_SPELLINGS = {"dim": "axis", "input": "x", "target": "targets"}
_NO_DEFAULT = object()


def definition(fun):
    """Mark `fun` as the definition of a function that may have a kernel. Arguments may be named; kernels get them in order."""
    code = fun.__code__
    names = code.co_varnames[: code.co_argcount]
    defaults = (_NO_DEFAULT,) * (len(names) - len(fun.__defaults__ or ())) + (fun.__defaults__ or ())
    parameters = tuple(zip(names, defaults, strict=True))

    @functools.wraps(fun)
    def call(*args, **kwargs):
        if len(args) < len(parameters):
            args += _rest(fun, parameters[len(args) :], kwargs)
        if call.kernel is None or readable.get():
            return fun(*args)
        return apply_kernel(call.kernel, *args)

    call.kernel = None
    call.readable = fun
    DEFINITIONS.append(call)
    return call


DEFINITIONS = []


def _rest(fun, parameters, kwargs):
    """The arguments that were named, or not given, in order."""
    given = {_SPELLINGS.get(name, name): value for name, value in kwargs.items()}
    rest = tuple(given.pop(name, default) for name, default in parameters)
    missing = [name for (name, _), value in zip(parameters, rest, strict=True) if value is _NO_DEFAULT]
    if missing or given:
        problem = f"needs {', '.join(missing)}" if missing else f"does not know {', '.join(given)}"
        raise TypeError(f"{fun.__name__} {problem}; it takes {', '.join(fun.__code__.co_varnames[: fun.__code__.co_argcount])}.")
    return rest


# ---------------------------------------------------------------- softmax


@definition
def softmax(x, axis=-1):
    """exp(x) / sum exp(x) along an axis: positive numbers that sum to 1. A row of -inf only gives NaN, as in PyTorch."""
    x = as_tensor(x)
    # softmax(x - c) = softmax(x) for any c, so the shift that keeps exp from overflowing is a constant: no gradient through it
    e = f.exp(x - x.detach().amax(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


@definition
def log_softmax(x, axis=-1):
    """log softmax(x) = x - log sum exp(x), without leaving the logarithm: exact for +-1e4 and beyond."""
    x = as_tensor(x)
    shifted = x - x.detach().amax(axis, keepdims=True)
    return shifted - f.log(f.exp(shifted).sum(axis, keepdims=True))


@f.either_spelling
def logsumexp(x, axis=-1, keepdims=False):
    """log sum exp(x) along an axis, without overflow."""
    x = as_tensor(x)
    top = x.detach().amax(axis, keepdims=True)
    top = f.where(f.isfinite(top), top, 0)
    out = f.log(f.exp(x - top).sum(axis, keepdims=True)) + top
    return out if keepdims else out.squeeze(axis)


# ---------------------------------------------------------------- losses


@definition
def token_losses(logits, targets, weight=None, ignore_index=-100, label_smoothing=0.0):
    """The cross-entropy of each row: logits (N, C), targets (N,) -> (N,); exactly 0 where the target is ignore_index.

    With label smoothing e the right answer is spread: 1 - e on the target and e/C on every class (Szegedy et al. 2016, 7).
    """
    classes = logits.shape[-1]
    targets = as_tensor(targets).data
    kept = targets != ignore_index
    chosen = np.where(kept, targets, 0)
    class_weight = f.where(True, 1.0, logits.detach()[0] * 0) if weight is None else as_tensor(weight)
    log_p = log_softmax(logits, -1) * class_weight  # (N, C)
    right = log_p[np.arange(len(chosen)), chosen]  # (N,)
    loss = -(1 - label_smoothing) * right - (label_smoothing / classes) * log_p.sum(-1)
    return f.where(kept, loss, 0.0)


def cross_entropy(input, target, weight=None, ignore_index=-100, reduction="mean", label_smoothing=0.0):
    """The cross-entropy of logits and the right classes: -log softmax(input)[target], as PyTorch's.

    input   logits: (N, C), or (C,) for one example, or (N, C, ...): the classes are axis 1
    target  whole numbers (N,) or (N, ...); or probabilities in input's shape
    weight  (C,): how much each class counts; the mean is then weighted
    The mean is over the targets that are not ignore_index. Where there is none it is 0 with gradient 0 (PyTorch: NaN).
    """
    logits, targets = as_tensor(input), as_tensor(target)
    _check_reduction(reduction)
    classes = logits.shape[min(1, logits.ndim - 1)] if logits.ndim else 0
    if weight is not None:
        weight = as_tensor(weight, logits.dtype)
        if weight.shape != (classes,):
            raise ValueError(f"cross_entropy: weight must hold one number for each of the {classes} classes, got shape {weight.shape}.")
    if targets.dtype.kind == "f":
        return _soft_cross_entropy(logits, as_tensor(targets, logits.dtype), weight, reduction, label_smoothing)
    _check_targets(logits, targets, classes, ignore_index)
    rows = logits.swapaxes(1, -1) if logits.ndim > 2 else logits
    flat_targets = targets.swapaxes(1, -1) if targets.ndim > 2 else targets
    losses = token_losses(rows.reshape(-1, classes), flat_targets.data.reshape(-1), weight, ignore_index, label_smoothing)
    if reduction == "none":
        losses = losses.reshape(flat_targets.shape)
        return losses.swapaxes(1, -1) if targets.ndim > 2 else losses
    if reduction == "sum":
        return losses.sum()
    flat = flat_targets.data.reshape(-1)
    kept = flat[flat != ignore_index]
    total = len(kept) if weight is None else weight[kept].sum()
    return losses.sum() / (total if float(total) else 1.0)


def _soft_cross_entropy(logits, targets, weight, reduction, label_smoothing):
    """Cross-entropy against probabilities rather than classes."""
    if targets.shape != logits.shape:
        raise ValueError(f"cross_entropy with probabilities needs targets in the shape of the logits {logits.shape}, got {targets.shape}.")  # fmt: skip
    axis = min(1, logits.ndim - 1)
    log_p = log_softmax(logits, axis)
    if weight is not None:
        log_p = log_p * weight.reshape([-1 if i == axis else 1 for i in range(logits.ndim)])
    targets = targets * (1 - label_smoothing) + label_smoothing / logits.shape[axis]
    losses = -(targets * log_p).sum(axis)
    return reduce(losses, reduction)


def _check_targets(logits, targets, classes, ignore_index):
    """Shapes that fit, and class numbers that exist."""
    expected = logits.shape[:1] + logits.shape[2:] if logits.ndim > 1 else ()
    if targets.shape != expected:
        hint = ""
        if logits.ndim > 2 and targets.shape == logits.shape[:-1]:
            hint = " If the classes are the last axis, flatten both: logits.reshape(-1, C), targets.reshape(-1)."
        raise ValueError(
            f"cross_entropy: logits of shape {logits.shape} (classes on axis 1) need targets of shape {expected}, "
            f"got {targets.shape}.{hint}"
        )
    wrong = (targets.data != ignore_index) & ((targets.data < 0) | (targets.data >= classes))
    if wrong.any():
        raise IndexError(
            f"cross_entropy: target {targets.data[wrong].flat[0]} is not among the {classes} classes 0..{classes - 1}, and is "
            f"not ignore_index ({ignore_index})."
        )


def reduce(losses, reduction):
    """Elementwise losses as their mean, their sum, or as they are."""
    _check_reduction(reduction)
    return losses.mean() if reduction == "mean" else losses.sum() if reduction == "sum" else losses


def _check_reduction(reduction):
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"reduction must be 'mean', 'sum' or 'none', got {reduction!r}.")


def mse_loss(input, target, reduction="mean"):
    """(input - target)^2; the two must have one shape, because broadcasting here is nearly always a mistake."""
    input, target = as_tensor(input), as_tensor(target)
    if input.shape != target.shape:
        raise ValueError(f"mse_loss needs input and target of one shape, got {input.shape} and {target.shape}.")
    return reduce((input - target) ** 2, reduction)


# ---------------------------------------------------------------- activations


@definition
def gelu(x, approximate="none"):
    """x times the chance that a standard normal number is below x (Hendrycks & Gimpel 2016).

    approximate='tanh' is the form GPT-2 uses: 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))).
    """
    x = as_tensor(x)
    if approximate == "none":
        return 0.5 * x * (1 + f.erf(x / math.sqrt(2)))
    if approximate == "tanh":
        return 0.5 * x * (1 + f.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * (x * x * x))))
    raise ValueError(f"gelu: approximate must be 'none' or 'tanh', got {approximate!r}.")


def silu(x):
    """x sigmoid(x), also called swish."""
    return as_tensor(x) * f.sigmoid(x)


# ---------------------------------------------------------------- layers


@definition
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
    if numbers.size and (numbers.min() < 0 or numbers.max() >= rows):
        wrong = numbers.min() if numbers.min() < 0 else numbers.max()
        raise IndexError(f"embedding: token id {wrong} is outside the vocabulary of {rows} (0..{rows - 1}).")
    return rows_of(weight, numbers, padding_idx)


@definition
def rows_of(weight, index, padding_idx=None):
    """weight[index], where the row padding_idx is a constant."""
    if padding_idx is not None:
        weight = f.where(np.arange(len(weight.data))[:, None] == padding_idx % len(weight.data), weight.detach(), weight)
    return weight[index]


def layer_norm(input, normalized_shape, weight=None, bias=None, eps=1e-5):
    """(x - mean) / sqrt(var + eps) * weight + bias over the last axes (Ba et al. 2016). The variance is the biased one."""
    x = as_tensor(input)
    shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
    if x.shape[x.ndim - len(shape) :] != shape:
        raise ValueError(f"layer_norm over {shape} needs an input whose last axes are those, got shape {x.shape}.")
    return normalized(x, weight, bias, eps, len(shape))


@definition
def normalized(x, weight=None, bias=None, eps=1e-5, axes=1):
    """layer_norm over the last `axes` axes."""
    axis = tuple(range(-axes, 0))
    centred = x - x.mean(axis, keepdims=True)
    y = centred / f.sqrt((centred * centred).mean(axis, keepdims=True) + eps)
    y = y if weight is None else y * weight
    return y if bias is None else y + bias


def dropout(x, p=0.5, training=True):
    """In training each element is 0 with probability p, and 1/(1-p) times itself otherwise; in evaluation x itself."""
    if not 0 <= p <= 1:
        raise ValueError(f"dropout: p is a probability from 0 to 1, got {p}.")
    if not training or p == 0:
        return x
    x = as_tensor(x)
    return x * dropout_scale(x.shape, p, x.dtype)


def dropout_scale(shape, p, dtype):
    """0 with probability p, else 1/(1-p): an array from the stream "dropout"."""
    if p == 1:
        return np.zeros(shape, dtype)
    scale = (random.stream("dropout").random(shape, dtype=np.float32) >= p).astype(dtype)
    scale *= 1 / (1 - p)
    return scale


# ---------------------------------------------------------------- attention


def scaled_dot_product_attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None):
    """softmax(Q K^T / sqrt(d_k)) V (Vaswani et al. 2017, equation 1), with PyTorch's meaning.

    query (..., Tq, D), key (..., Tk, D), value (..., Tk, Dv) -> (..., Tq, Dv)
    attn_mask   broadcasts to (..., Tq, Tk): boolean, True where a query may attend to a key; or floats, added to the scores
    dropout_p   the share of weights dropped (there is no training flag here; layers pass 0 in evaluation)
    is_causal   query i sees keys 0..i, counted from the top left
    A query that may attend to nothing gets 0, and gradient 0, not NaN. Keys that no query may see are as if they were not
    there, whatever they hold.
    """
    q, k, v = as_tensor(query), as_tensor(key), as_tensor(value)
    _check_attention(q, k, v)
    mask = None if attn_mask is None else as_tensor(attn_mask)
    if mask is not None and mask.dtype.kind == "f":
        mask = as_tensor(mask, q.dtype)  # a float64 mask must not widen a float32 model
    if is_causal:
        causal = np.tri(q.shape[-2], k.shape[-2], dtype=bool)
        mask = causal if mask is None else _both(mask, causal)
    if mask is not None:
        _check_mask(mask, q, k)
    if dropout_p and not 0 <= dropout_p <= 1:
        raise ValueError(f"attention: dropout_p is a probability from 0 to 1, got {dropout_p}.")
    shape = np.broadcast_shapes(q.shape[:-2], k.shape[:-2]) + (q.shape[-2], k.shape[-2])
    kept = dropout_scale(shape, dropout_p, q.dtype) if dropout_p else None
    return attention(q, k, v, mask, kept, 1 / math.sqrt(q.shape[-1]) if scale is None else scale)


@definition
def attention(q, k, v, mask=None, kept=None, scale=1.0):
    """softmax(scale Q K^T masked) V; `kept` multiplies the weights (dropout)."""
    k, v = without_unseen(k, v, mask)
    weights = attention_weights(q, k, mask, scale)  # (..., Tq, Tk)
    if kept is not None:
        weights = weights * kept
    return weights @ v  # (..., Tq, Dv)


def attention_weights(q, k, mask=None, scale=1.0):
    """What each query attends to: (..., Tq, Tk), rows that sum to 1, or to 0 where everything is masked."""
    scores = (q @ k.mT) * scale  # (..., Tq, Tk)
    if mask is not None:
        scores = scores + mask if as_tensor(mask).dtype.kind == "f" else f.where(mask, scores, -np.inf)
    top = scores.detach().amax(-1, keepdims=True)
    e = f.exp(scores - f.where(top == -np.inf, 0.0, top))
    total = e.sum(-1, keepdims=True)
    return e / f.where(total == 0, 1.0, total)


def without_unseen(k, v, mask):
    """Keys and values with zeros where no query may look: 0 * NaN is NaN, so padding could leak through a weight of 0."""
    seen = seen_keys(mask)
    if seen is None:
        return k, v
    return f.where(seen, k, 0.0), f.where(seen, v, 0.0)


def seen_keys(mask):
    """(..., Tk, 1): may any query look at the key? None if every key is seen."""
    if mask is None:
        return None
    mask = as_tensor(mask).data
    allowed = mask > -np.inf if mask.dtype.kind == "f" else mask
    seen = allowed.any(axis=-2) if allowed.ndim > 1 else allowed
    return None if seen.all() else seen[..., None]


def _both(mask, causal):
    """The mask and the causal mask: what both allow."""
    if as_tensor(mask).dtype.kind == "f":
        return f.where(causal, mask, -np.inf)
    return as_tensor(mask).data & causal


def _check_attention(q, k, v):
    if min(q.ndim, k.ndim, v.ndim) < 2:
        raise ValueError(f"attention needs query, key and value of at least two axes (length, width), got {q.shape}, {k.shape}, {v.shape}.")  # fmt: skip
    if q.shape[-1] != k.shape[-1]:
        raise ValueError(
            f"attention: query {q.shape} and key {k.shape} must have the same width (last axis), got {q.shape[-1]} and {k.shape[-1]}."
        )
    if k.shape[-2] != v.shape[-2]:
        raise ValueError(
            f"attention: key {k.shape} and value {v.shape} must have the same length (second-to-last axis), got {k.shape[-2]} and {v.shape[-2]}."
        )


    try:
        np.broadcast_shapes(q.shape[:-2], k.shape[:-2], v.shape[:-2])
    except ValueError:
        raise ValueError(f"attention: the leading axes (batch, heads) of query {q.shape}, key {k.shape} and value {v.shape} do not broadcast.") from None  # fmt: skip


def _check_mask(mask, q, k):
    mask = as_tensor(mask)
    scores = np.broadcast_shapes(q.shape[:-2], k.shape[:-2]) + (q.shape[-2], k.shape[-2])
    if mask.dtype.kind not in "bf":
        raise TypeError(f"attention: the mask must be boolean (True = may attend) or floats to add, got {mask.dtype}; write mask.bool().")  # fmt: skip
    try:
        fits = np.broadcast_shapes(mask.shape, scores) == scores
    except ValueError:
        fits = False
    if not fits:
        raise ValueError(f"attention: a mask of shape {mask.shape} does not broadcast to the scores {scores} (..., Tq, Tk).")


for _fun in (softmax, log_softmax, logsumexp, gelu):
    setattr(Tensor, _fun.__name__, _fun)
