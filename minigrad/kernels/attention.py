"""Scaled dot-product attention on plain arrays, in as few passes over the scores as it takes. Knows masks, not heads."""

import numpy as np

from minigrad import functional as F
from minigrad.engine.table import defkernel
from minigrad.functional.masks import without_blind, without_unseen
from minigrad.kernels.products import filled

# ---------------------------------------------------------------- attention: y = softmax(scale q k^T masked) v

# exp(30) times large values is far from the end of float32, a small gradient over exp(30) far from its beginning
SAFE = 30.0


WIDE = 128  # from so many queries on, what a causal mask hides is worth leaving out


def attention(q, k, v, mask, kept, scale):
    """Where the first half of the queries sees the first half of the keys only, as with a causal mask, each half of the queries
    by itself: a quarter of the scores need not be computed."""
    half = hidden_half(q, k, mask)
    if not half:
        return dense(q, k, v, mask, kept, scale)
    early, late = halves(half, q, k, v, mask, kept)
    y = np.empty_like(q, np.result_type(q, v), shape=(*lead_of(q, k, v), q.shape[-2], v.shape[-1]))
    y[..., :half, :], first = attention(*early, scale)
    y[..., half:, :], second = dense(*late, scale)
    return y, (first, second)


def hidden_half(q, k, mask):
    """How many queries see no key beyond their number, if it is half of them; else 0."""
    length = q.shape[-2]
    if (
        mask is None
        or mask.dtype != bool
        or length < WIDE
        or mask.shape[-2:] != (length, k.shape[-2])
        or length != k.shape[-2]
    ):
        return 0
    half = length // 2
    return 0 if mask[..., :half, half:].any() else half


def halves(half, q, k, v, mask, kept):
    """(the arguments of the first queries with the keys they see, those of the other queries with all keys)."""
    early, late = np.s_[..., :half, :], np.s_[..., half:, :]
    square = np.s_[..., :half, :half]
    first = (q[early], k[early], v[early], mask[square], None if kept is None else kept[square])
    return first, (q[late], k, v, mask[late], None if kept is None else kept[late])


def lead_of(*arrays):
    return np.broadcast_shapes(*(x.shape[:-2] for x in arrays))


def dense(q, k, v, mask, kept, scale):
    """With e = exp(scores, masked): p = e / its row sums, y = (p kept) v. Saved: p, and q, k and v as they were used.

    Scores within +-SAFE need no shift by the row's maximum, so their rows are not searched for it. The same look at the
    smallest and largest score finds a NaN, which may stand in padding: then keys that nobody may see, and queries that may
    see nothing, are set to 0 first.
    """
    # what is masked may hold anything, and is found below
    with np.errstate(invalid=None if mask is None else "ignore"):
        p = q @ turned(k, scale)
        if p.size and -SAFE < p.min() and p.max() < SAFE and (mask is None or mask.dtype == bool):
            np.exp(p, out=p)
            if mask is not None:
                p *= mask.astype(p.dtype)  # converted once, not anew for every head
        else:
            q, (k, v) = without_blind(q, mask), without_unseen(k, v, mask)
            p = shifted_exp(q @ turned(k, scale), mask)
        total = p @ filled((p.shape[-1], 1), 1, p.dtype)
        if mask is not None or not p.size:
            total[total == 0] = 1  # a row with nothing to attend to: 0 / 1
        p *= 1 / total  # products are faster than quotients
        weights = p if kept is None else p * kept
        y = product(weights, v, q)
        if mask is not None and not np.isfinite(y.sum()):
            k, v = without_unseen(k, v, mask)
            y = product(weights, v, q)
    return y, (p, q, k, v)


def turned(x, scale):
    """scale x^T, for a product with it: dense, since a small product takes twice as long with a factor that is read along its
    columns."""
    return np.multiply(x.mT, np.asarray(scale, x.dtype), order="C")


def product(a, b, like):
    """a @ b, laid out in memory as `like`: heads cut from the columns of one matrix are written as its columns, so that
    merging them again is no copy."""
    if like.flags.c_contiguous:
        return a @ b
    out = np.empty_like(like, np.result_type(a, b), shape=(*lead_of(a, b), a.shape[-2], b.shape[-1]))
    return np.matmul(a, b, out=out)


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


def attention_value(q, k, v, mask, kept, scale):
    """One query (..., 1, D) that sees all keys: nothing is turned or copied, and the scale goes into q."""
    if mask is not None or kept is not None or q.shape[-2] != 1 or not k.size:
        return attention(q, k, v, mask, kept, scale)[0]
    e = (q * np.asarray(scale, q.dtype)) @ k.mT  # (..., 1, Tk)
    if -SAFE < e.min() and e.max() < SAFE:
        np.exp(e, out=e)
    else:
        e = shifted_exp(e, None)
    y = e @ v
    y /= e @ filled((e.shape[-1], 1), 1, e.dtype)
    return y


def attention_backward(g, y, saved, needs, q, k, v, mask, kept, scale):
    """dq half by half; to dk and dv of the first keys both halves of the queries add."""
    half = hidden_half(q, k, mask)
    if not half:
        return dense_backward(g, y, saved, needs, q, k, v, mask, kept, scale)
    early, late = halves(half, q, k, v, mask, kept)
    first = attention_backward(g[..., :half, :], y[..., :half, :], saved[0], needs, *early, scale)
    dq, dk, dv, *none = dense_backward(g[..., half:, :], y[..., half:, :], saved[1], needs, *late, scale)
    if needs[0]:
        dq_late, dq = dq, np.empty_like(q, g.dtype, shape=(*dq.shape[:-2], *q.shape[-2:]))
        dq[..., :half, :], dq[..., half:, :] = first[0], dq_late
    if needs[1]:
        dk[..., :half, :] += first[1]
    if needs[2]:
        dv[..., :half, :] += first[2]
    return dq, dk, dv, *none


def dense_backward(g, y, saved, needs, q, k, v, mask, kept, scale):
    """dv = (p kept)^T g. Through the softmax ds = p (dp - sum over keys of dp p), dp = (g v^T) kept, and that sum is the sum of
    g y over the width, since y = (p kept) v. Then dq = scale ds k, dk = scale ds^T q. The scale goes into v^T and into that sum,
    which are smaller, unless a mask wants ds itself."""
    p, q, k, v = saved
    early, late = (1, scale) if needs[3] else (scale, 1)
    ds = g @ turned(v, early)
    if kept is not None:
        ds *= kept
    ds -= np.einsum("...i,...i->...", g, y)[..., None] * np.asarray(early, y.dtype)
    ds *= p
    dq, dk = product(ds, k, q) if needs[0] else None, product(ds.mT, q, k) if needs[1] else None
    for d in (dq, dk) if needs[3] else ():
        if d is not None:
            d *= np.asarray(late, d.dtype)
    dv = product((p if kept is None else p * kept).mT, g, v) if needs[2] else None
    return dq, dk, dv, ds if needs[3] else None, None, None


defkernel(F.attention, attention, attention_backward, attention_value)
