"""Losses: cross-entropies of classes, distances, divergences of distributions.

reduction="mean" returns the mean over all elements, "sum" the sum, "none" each loss.
"""

import math

import numpy as np

from minigrad import ops as f
from minigrad.engine.recording import as_tensor
from minigrad.functional.activations import log_softmax, softplus
from minigrad.functional.layers import cosine_similarity
from minigrad.functional.tiers import definition


def reduce(losses, reduction):
    """Return the mean or the sum of elementwise losses, or the losses themselves."""
    _check_reduction(reduction)
    return losses.mean() if reduction == "mean" else losses.sum() if reduction == "sum" else losses


def _check_reduction(reduction):
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"reduction must be 'mean', 'sum' or 'none', got {reduction!r}.")


def _pair(name, input, target):
    """Convert both to tensors.

    Raises ValueError unless the shapes are equal: broadcasting here is usually a mistake.
    """
    input, target = as_tensor(input), as_tensor(target)
    if input.shape != target.shape:
        raise ValueError(f"{name} needs input and target of one shape, got {input.shape} and {target.shape}.")
    return input, target


# ---------------------------------------------------------------- classes


@definition(kernel="minigrad/kernels/losses.py")
def token_losses(logits, targets, weight=None, ignore_index=-100, label_smoothing=0.0):
    """The cross-entropy of each row: logits (N, C), targets (N,) -> (N,); 0 where the target is ignore_index.

    Label smoothing e puts 1 - e on the target and e/C on every class (Szegedy et al. 2016, section 7).
    """
    targets = as_tensor(targets).data
    kept = targets != ignore_index
    chosen = np.where(kept, targets, 0)
    log_p = log_softmax(logits, -1)  # (N, C)
    if weight is not None:
        log_p = log_p * as_tensor(weight)
    right = log_p[np.arange(len(chosen)), chosen]  # (N,)
    loss = -(1 - label_smoothing) * right
    if label_smoothing:
        loss = loss - (label_smoothing / logits.shape[-1]) * log_p.sum(-1)
    return f.where(kept, loss, 0.0)


def cross_entropy(input, target, weight=None, ignore_index=-100, reduction="mean", label_smoothing=0.0):
    """The cross-entropy of logits and targets: -log softmax(input)[target], as in PyTorch.

    input   logits: (N, C), or (C,) for one example, or (N, C, ...): the classes are axis 1
    target  integers (N,) or (N, ...); or probabilities in input's shape
    weight  (C,): the weight of each class; the mean is then weighted
    The mean is over targets that are not ignore_index. Without any it is 0 with gradient 0 (PyTorch: NaN).
    """
    logits, targets = as_tensor(input), as_tensor(target)
    _check_reduction(reduction)
    classes = logits.shape[min(1, logits.ndim - 1)] if logits.ndim else 0
    if weight is not None:
        weight = as_tensor(weight, logits.dtype)
        if weight.shape != (classes,):
            raise ValueError(
                f"cross_entropy: weight must have one element for each of the {classes} classes, "
                f"got shape {weight.shape}."
            )
    if not 0 <= label_smoothing <= 1:
        raise ValueError(f"cross_entropy: label_smoothing must be from 0 to 1, got {label_smoothing}.")
    if targets.dtype.kind == "f" and targets.shape == logits.shape[:1] + logits.shape[2:] != logits.shape:
        raise TypeError(
            "cross_entropy: class indices must be integers; write target.long(). "
            "Floats are read as probabilities."
        )
    if targets.dtype.kind == "f":
        return _soft_cross_entropy(
            logits, as_tensor(targets, logits.dtype), weight, reduction, label_smoothing
        )
    _check_targets(logits, targets, classes, ignore_index)
    rows = logits.swapaxes(1, -1) if logits.ndim > 2 else logits
    flat_targets = targets.swapaxes(1, -1) if targets.ndim > 2 else targets
    losses = token_losses(
        rows.reshape(-1, classes), flat_targets.data.reshape(-1), weight, ignore_index, label_smoothing
    )
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
    """Cross-entropy with probabilities as targets."""
    if targets.shape != logits.shape:
        raise ValueError(
            "cross_entropy with probabilities needs targets in the shape of the logits "
            f"{logits.shape}, got {targets.shape}."
        )
    axis = min(1, logits.ndim - 1)
    log_p = log_softmax(logits, axis)
    if weight is not None:
        log_p = log_p * weight.reshape([-1 if i == axis else 1 for i in range(logits.ndim)])
    targets = targets * (1 - label_smoothing) + label_smoothing / logits.shape[axis]
    losses = -(targets * log_p).sum(axis)
    return reduce(losses, reduction)


def _check_targets(logits, targets, classes, ignore_index, name="cross_entropy"):
    """Raise ValueError if the shapes do not fit, IndexError if a class does not exist."""
    expected = logits.shape[:1] + logits.shape[2:] if logits.ndim > 1 else ()
    if targets.shape != expected:
        hint = ""
        if logits.ndim > 2 and targets.shape == logits.shape[:-1]:
            hint = (
                " If the classes are the last axis, flatten both: logits.reshape(-1, C), targets.reshape(-1)."
            )
        raise ValueError(
            f"{name}: logits of shape {logits.shape} (classes on axis 1) need targets of shape {expected}, "
            f"got {targets.shape}.{hint}"
        )
    wrong = (targets.data != ignore_index) & ((targets.data < 0) | (targets.data >= classes))
    if wrong.any():
        raise IndexError(
            f"{name}: target {targets.data[wrong].flat[0]} is not among the {classes} classes "
            f"0..{classes - 1}, and is not ignore_index ({ignore_index})."
        )


def nll_loss(input, target, weight=None, ignore_index=-100, reduction="mean"):
    """-input[target] for log probabilities (N, C), (C,) or (N, C, ...), as log_softmax returns them.

    weight (C,) is the weight of each class; the mean is then weighted. Without targets it is 0, as in
    cross_entropy.
    """
    log_p, targets = as_tensor(input), as_tensor(target)
    _check_reduction(reduction)
    axis = min(1, log_p.ndim - 1)
    classes = log_p.shape[axis]
    _check_targets(log_p, targets, classes, ignore_index, "nll_loss")
    kept = targets.data != ignore_index
    chosen = np.where(kept, targets.data, 0)
    counts = f.where(
        kept,
        np.ones(classes, log_p.dtype)[chosen] if weight is None else as_tensor(weight, log_p.dtype)[chosen],
        0.0,
    )
    picked = log_p.gather(axis, np.expand_dims(chosen, axis)).squeeze(axis)
    losses = f.where(kept, -picked * counts, 0.0)
    return (
        losses.sum() / (counts.sum() if counts.data.any() else 1.0)
        if reduction == "mean"
        else reduce(losses, reduction)
    )


def binary_cross_entropy(input, target, weight=None, reduction="mean"):
    """-(t log p + (1 - t) log(1 - p)) of probabilities p, with logarithms of at least -100, as in PyTorch.

    binary_cross_entropy_with_logits is exact.
    """
    p, target = _pair("binary_cross_entropy", input, target)
    if (p.data < 0).any() or (p.data > 1).any():
        raise ValueError(
            f"binary_cross_entropy takes probabilities from 0 to 1, got {p.data.min():.3g} to "
            f"{p.data.max():.3g}; for logits there is binary_cross_entropy_with_logits."
        )
    losses = -(target * _log(p) + (1 - target) * _log(1 - p))
    return reduce(losses if weight is None else losses * weight, reduction)


def _log(p):
    """log p, at least -100."""
    tiny = p.detach() < math.exp(-100)
    return f.where(tiny, -100.0, f.log(f.where(tiny, 1.0, p)))


def binary_cross_entropy_with_logits(input, target, weight=None, reduction="mean", pos_weight=None):
    """binary_cross_entropy of sigmoid(input), computed from the logits: finite for logits of any size.

    pos_weight multiplies the loss of targets that are 1, so that rare ones can count more.
    """
    x, target = _pair("binary_cross_entropy_with_logits", input, target)
    positive = target if pos_weight is None else target * pos_weight
    losses = positive * softplus(-x) + (1 - target) * softplus(x)  # -log sigmoid(x) = softplus(-x)
    return reduce(losses if weight is None else losses * weight, reduction)


# ---------------------------------------------------------------- distances


def mse_loss(input, target, reduction="mean"):
    """(input - target)^2. Raises ValueError unless both have the same shape."""
    input, target = _pair("mse_loss", input, target)
    return reduce((input - target) ** 2, reduction)


def l1_loss(input, target, reduction="mean"):
    """|input - target|."""
    input, target = _pair("l1_loss", input, target)
    return reduce(abs(input - target), reduction)


def smooth_l1_loss(input, target, reduction="mean", beta=1.0):
    """d^2 / (2 beta) if the distance d is below beta, else d - beta / 2: huber_loss / beta."""
    if beta == 0:
        return l1_loss(input, target, reduction)
    input, target = _pair("smooth_l1_loss", input, target)
    return huber_loss(input, target, reduction, beta) / beta


def huber_loss(input, target, reduction="mean", delta=1.0):
    """d^2 / 2 if the distance d is at most delta, else delta (d - delta / 2) (Huber 1964)."""
    input, target = _pair("huber_loss", input, target)
    d = input - target
    return reduce(f.where(abs(d.detach()) <= delta, 0.5 * d * d, delta * (abs(d) - 0.5 * delta)), reduction)


# ---------------------------------------------------------------- distributions and directions


def kl_div(input, target, reduction="mean", log_target=False):
    """target (log target - input): the divergence of probabilities (target) from log probabilities (input).

    reduction="batchmean" divides the sum by the length of the first axis, as the divergence is defined;
    "mean" divides by the number of elements.
    """
    log_q, target = _pair("kl_div", input, target)
    if log_target:
        losses = f.exp(target) * (target - log_q)
    else:
        losses = target * (f.log(f.where(target > 0, target, 1.0)) - log_q)  # 0 log 0 = 0
    return losses.sum() / len(losses) if reduction == "batchmean" else reduce(losses, reduction)


def cosine_embedding_loss(input1, input2, target, margin=0.0, reduction="mean"):
    """1 - cos of the angle between two vectors if the target is 1; if it is -1, max(0, cos - margin)."""
    cos = cosine_similarity(as_tensor(input1), as_tensor(input2), -1)
    return reduce(f.where(as_tensor(target) > 0, 1 - cos, f.relu(cos - margin)), reduction)
