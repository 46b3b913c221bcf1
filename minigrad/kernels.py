"""The same functions as in functional.py, derived by hand, on plain arrays. Knows no tensors and no graph.

Each opens with its formula; forward returns (y, saved), backward(g, y, saved, needs, *args) the gradient of each argument,
None where none is needed. A kernel never writes into g, y or its arguments; tests hold each equal to its definition, in
value and in first and second gradient.
"""

import math

import numpy as np

from minigrad import functional as F
from minigrad.autograd import defkernel
from minigrad.primitives import erf


def rows(x):
    """x (..., C) as a matrix (N, C): one large product is faster than many small ones."""
    return x.reshape(math.prod(x.shape[:-1]), x.shape[-1])


def sum_of_rows(x):
    """x (N, C) -> (C,): x.sum(0), as a product with ones, which is faster."""
    return np.ones(len(x), x.dtype) @ x


def mean_of_rows(x):
    """x (N, C) -> (N, 1): x.mean(1, keepdims=True), as a product, which is faster."""
    return x @ np.full((x.shape[1], 1), 1 / x.shape[1], x.dtype)


# ---------------------------------------------------------------- linear: y = x W^T + b


def linear(x, weight, bias):
    if weight.ndim != 2:
        raise ValueError(f"the weight must have the shape (out_features, in_features), got {weight.shape}")
    if x.shape[-1:] != weight.shape[1:]:
        raise ValueError(f"the last axis of the input {x.shape} must be the layer's {weight.shape[1]} in_features")
    y = rows(x) @ weight.T
    if bias is not None:
        y += bias
    return y.reshape(*x.shape[:-1], weight.shape[0]), None


def linear_backward(g, y, saved, needs, x, weight, bias):
    """dx = g W, dW = g^T x, db = the sum of g over all rows, as a product with ones, which is twice as fast."""
    g = rows(g)
    return (
        (g @ weight).reshape(x.shape) if needs[0] else None,
        g.T @ rows(x) if needs[1] else None,
        sum_of_rows(g) if needs[2] else None,
    )


# ---------------------------------------------------------------- softmax: y = exp(x) / sum exp(x)


def softmax(x, axis):
    y = np.exp(x - x.max(axis, keepdims=True))
    y /= y.sum(axis, keepdims=True)
    return y, None


def softmax_backward(g, y, saved, needs, x, axis):
    """dy_i/dx_j = y_i (1[i=j] - y_j), hence dx = y (g - sum g y)."""
    dx = g * y
    return dx - y * dx.sum(axis, keepdims=True), None


# ---------------------------------------------------------------- log softmax: y = x - log sum exp(x)


def log_softmax(x, axis):
    y = x - x.max(axis, keepdims=True)
    y -= np.log(np.exp(y).sum(axis, keepdims=True))
    return y, None


def log_softmax_backward(g, y, saved, needs, x, axis):
    """dy_i/dx_j = 1[i=j] - softmax_j, hence dx = g - softmax sum g."""
    return g - np.exp(y) * g.sum(axis, keepdims=True), None


# ---------------------------------------------------------------- cross-entropy of rows: l = -sum_c q_c w_c log softmax(x)_c


def cross_entropy(logits, targets, weight, ignore_index, label_smoothing):
    """q is 1 - e on the target plus e/C everywhere. Saved: log sum exp of each row; the probabilities are made again from it."""
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


def cross_entropy_backward(g, y, saved, needs, logits, targets, weight, ignore_index, label_smoothing):
    """d(-log softmax_c)/dx = softmax - onehot_c; weighted and summed over c: dx = (sum_c q_c w_c) softmax - q w."""
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
    return dx, None, _class_weight_gradient(g, saved, logits, label_smoothing) if needs[2] else None, None, None


def _class_weight_gradient(g, saved, logits, label_smoothing):
    lse, here, chosen, kept = saved
    log_p = logits - lse
    dw = -(label_smoothing / logits.shape[-1]) * (g @ log_p)
    np.add.at(dw, chosen, -(1 - label_smoothing) * g * log_p[here, chosen])
    return dw


# ---------------------------------------------------------------- layer norm: y = x^ w + b, x^ = (x - mean) / sqrt(var + eps)


def layer_norm(x, weight, bias, eps, axes):
    """Saved: x^ and 1 / sqrt(var + eps). Sums along rows are products, which are several times faster than .sum(-1)."""
    n = math.prod(x.shape[x.ndim - axes :])
    flat = x.reshape(math.prod(x.shape[: x.ndim - axes]), n)
    xhat = flat - mean_of_rows(flat)
    scale = 1 / np.sqrt(np.einsum("ij,ij->i", xhat, xhat) / n + eps)[:, None]
    xhat *= scale
    y = xhat * weight.reshape(-1) if weight is not None else xhat.copy()
    if bias is not None:
        y += bias.reshape(-1)
    return y.reshape(x.shape), (xhat, scale)


def layer_norm_backward(g, y, saved, needs, x, weight, bias, eps, axes):
    """With h = g w: dx = (h - mean(h) - x^ mean(h x^)) / sqrt(var + eps). The two means are what changing x does to the
    mean and to the variance. dw = the sum of g x^ over rows, db = the sum of g."""
    xhat, scale = saved
    n = xhat.shape[-1]
    g = g.reshape(xhat.shape)
    dx = dw = db = None
    if needs[0]:
        h = g * weight.reshape(-1) if weight is not None else g.copy()
        along = np.einsum("ij,ij->i", h, xhat)[:, None] / n
        h -= mean_of_rows(h)
        h -= xhat * along
        h *= scale
        dx = h.reshape(x.shape)
    if needs[1]:
        dw = sum_of_rows(g * xhat).reshape(weight.shape)
    if needs[2]:
        db = sum_of_rows(g).reshape(bias.shape)
    return dx, dw, db, None, None


# ---------------------------------------------------------------- gelu: y = x Phi(x)


def gelu(x, approximate):
    if approximate not in ("none", "tanh"):
        raise ValueError(f"approximate must be 'none' or 'tanh', got {approximate!r}")
    inner = _gelu_tanh(x) if approximate == "tanh" else erf(x * (1 / math.sqrt(2)))
    y = inner + 1
    y *= x
    y *= 0.5
    return y, inner


def _gelu_tanh(x):
    u = x * x
    u *= 0.044715
    u += 1
    u *= x
    u *= math.sqrt(2 / math.pi)
    return np.tanh(u, out=u)


def gelu_backward(g, y, inner, needs, x, approximate):
    """dy/dx = (1 + inner) / 2 + x inner' / 2, where inner is erf(x / sqrt 2) or tanh(u(x))."""
    if approximate == "none":
        slope = np.exp(-0.5 * x * x)
        slope *= math.sqrt(2 / math.pi)
    else:
        slope = x * x
        slope *= 3 * 0.044715
        slope += 1
        slope *= math.sqrt(2 / math.pi)
        slope *= 1 - inner * inner
    slope *= x
    slope += inner
    slope += 1
    slope *= 0.5
    slope *= g
    return slope, None


# ---------------------------------------------------------------- embedding: y = W[index]


def embedding(weight, index, padding_idx):
    return weight[index], None


def embedding_backward(g, y, saved, needs, weight, index, padding_idx):
    """dW[v] = the sum of g over all places that name v: a product with one-hot rows while the vocabulary is small, else
    the places sorted by v and summed run by run. np.add.at is several times slower."""
    flat, g = index.reshape(-1), rows(g)
    if len(weight) <= 256:
        onehot = np.zeros((len(weight), len(flat)), g.dtype)
        onehot[flat, np.arange(len(flat))] = 1
        dw = onehot @ g
    else:
        dw = np.zeros(weight.shape, g.dtype)
        if len(flat):
            order = np.argsort(flat, kind="stable")
            ids = flat[order]
            starts = np.flatnonzero(np.concatenate(([True], ids[1:] != ids[:-1])))
            dw[ids[starts]] = np.add.reduceat(g[order], starts)
    if padding_idx is not None:
        dw[padding_idx] = 0
    return dw, None, None


# ---------------------------------------------------------------- attention: y = softmax(scale q k^T masked) v

SAFE = 30.0  # exp(30) times large values is far from the end of float32, a small gradient over exp(30) far from its beginning


def attention(q, k, v, mask, kept, scale):
    """With e = exp(scores, masked) and t its row sums: y = (e kept) v / t. Saved: e, t, and k and v as they were used.

    Scores within +-SAFE need no shift by the row's maximum, so their rows are not searched for it. The same look at the
    smallest and largest score finds a NaN, which may stand in padding: then keys that nobody may see are set to 0 first.
    """
    with np.errstate(invalid=None if mask is None else "ignore"):  # what is masked may hold anything, and is found below
        e = q @ k.mT
        e *= scale
        if e.size and -SAFE < e.min() and e.max() < SAFE and (mask is None or mask.dtype == bool):
            np.exp(e, out=e)
            if mask is not None:
                e *= mask
        else:
            k, v = without_unseen(k, v, mask)
            e = shifted_exp(q @ k.mT * np.asarray(scale, q.dtype), mask)
        total = e @ np.ones((e.shape[-1], 1), e.dtype)
        if mask is not None or not e.size:
            total[total == 0] = 1  # a row with nothing to attend to: 0 / 1
        p = e if kept is None else e * kept
        y = p @ v
        if mask is not None and not np.isfinite(y.sum()):
            k, v = without_unseen(k, v, mask)
            y = p @ v
    y /= total
    return y, (e, total, k, v)


def without_unseen(k, v, mask):
    """Zeros where no query may look: 0 * NaN is NaN, so padding could leak through a weight of 0."""
    seen = F.seen_keys(mask)
    return (k, v) if seen is None else (np.where(seen, k, 0), np.where(seen, v, 0))


def shifted_exp(scores, mask):
    """exp(scores - the row's maximum), 0 where masked, for scores of any size.

    Rows within +-SAFE are not shifted here either: what a query gives must not depend, in its last bit, on any other query.
    """
    if mask is not None:
        scores = scores + mask if mask.dtype.kind == "f" else np.where(mask, scores, -np.inf)
    top = scores.max(-1, keepdims=True, initial=-np.inf)
    low = np.where(scores == -np.inf, top, scores).min(-1, keepdims=True, initial=np.inf)
    top[(top == -np.inf) | (top < SAFE) & (low > -SAFE)] = 0
    return np.exp(scores - top)


def attention_backward(g, y, saved, needs, q, k, v, mask, kept, scale):
    """With h = g / t: dv = (e kept)^T h. Through the softmax ds = e (dp - sum over keys of dp p), dp = (h v^T) kept, and that
    sum is the sum of h y over the width, since y = p v. Then dq = scale ds k, dk = scale ds^T q."""
    e, total, k, v = saved
    h = g / total
    ds = h @ v.mT
    if kept is not None:
        ds *= kept
    ds -= np.einsum("...i,...i->...", h, y)[..., None]
    ds *= e
    dmask = ds.copy() if needs[3] else None
    ds *= scale
    return (
        ds @ k if needs[0] else None,
        ds.mT @ q if needs[1] else None,
        (e if kept is None else e * kept).mT @ h if needs[2] else None,
        dmask,
        None,
        None,
    )


for definition, forward, backward in (
    (F.linear, linear, linear_backward),
    (F.softmax, softmax, softmax_backward),
    (F.log_softmax, log_softmax, log_softmax_backward),
    (F.token_losses, cross_entropy, cross_entropy_backward),
    (F.normalized, layer_norm, layer_norm_backward),
    (F.gelu, gelu, gelu_backward),
    (F.rows_of, embedding, embedding_backward),
    (F.attention, attention, attention_backward),
):
    defkernel(definition, forward, backward)
