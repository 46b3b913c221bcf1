"""The kernel of the cross-entropy of each row; functional/losses.py computes sums and means."""

import numpy as np

from minigrad import functional as F
from minigrad.engine.table import defkernel

# ------------------------------------------------- cross-entropy of rows: l = -sum_c q_c w_c log softmax(x)_c


def cross_entropy(logits, targets, weight, ignore_index, label_smoothing):
    """q is 1 - e on the target plus e/C everywhere.

    Saved: log sum exp, from which backward computes the softmax.
    """
    top = logits.max(-1, keepdims=True)
    shifted = logits - top
    lse = np.log(np.exp(shifted).sum(-1, keepdims=True))
    shifted -= lse  # now log softmax
    kept = targets != ignore_index
    chosen = np.where(kept, targets, 0)
    here = np.arange(len(targets))
    loss = shifted[here, chosen] * -(1 - label_smoothing)
    if weight is not None:
        loss *= weight[chosen]
    if label_smoothing:
        every = shifted.sum(-1) if weight is None else shifted @ weight
        loss -= every * (label_smoothing / logits.shape[-1])
    return np.where(kept, loss, 0), (lse + top, here, chosen, kept)


def cross_entropy_backward(g, _y, saved, needs, logits, targets, weight, ignore_index, label_smoothing):
    """d(-log softmax_c)/dx = softmax - onehot_c.

    Weighted and summed over c: dx = (sum_c q_c w_c) softmax - q w.
    """
    lse, here, chosen, kept = saved
    classes = logits.shape[-1]
    g = np.where(kept, g, 0)
    right, spread = g * (1 - label_smoothing), g * (label_smoothing / classes)
    if weight is not None:
        right = right * weight[chosen]
    dx = None
    if needs[0]:
        dx = np.exp(logits - lse)
        dx *= (right + spread * (classes if weight is None else weight.sum()))[:, None]
        if label_smoothing:
            dx -= spread[:, None] if weight is None else spread[:, None] * weight
        dx[here, chosen] -= right
    return (
        dx,
        None,
        _class_weight_gradient(g, saved, logits, label_smoothing) if needs[2] else None,
        None,
        None,
    )


def _class_weight_gradient(g, saved, logits, label_smoothing):
    lse, here, chosen, kept = saved
    log_p = logits - lse
    dw = -(label_smoothing / logits.shape[-1]) * (g @ log_p)
    np.add.at(dw, chosen, -(1 - label_smoothing) * g * log_p[here, chosen])
    return dw


defkernel(F.token_losses, cross_entropy, cross_entropy_backward)
