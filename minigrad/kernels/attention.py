"""The kernel of scaled dot-product attention, with as few passes over the scores as possible."""

import numpy as np

from minigrad import functional as F
from minigrad.engine.table import defkernel
from minigrad.functional.masks import without_blind, without_unseen
from minigrad.kernels.products import cached_full

# --------------------------------------------------------------- attention: y = softmax(scale q k^T masked) v

# exp(30) times large values does not overflow float32, and a small gradient over exp(30) does not underflow
SAFE = 30.0


WIDE = 128  # with at least this many queries, skipping what a causal mask hides is worthwhile


def attention(q, k, v, mask, kept, scale):
    """Compute the halves of the queries separately if the first attends to the first half of the keys only.

    With a causal mask, a quarter of the scores is thus never computed.
    """
    half = hidden_half(q, k, mask)
    if not half:
        return dense_attention(q, k, v, mask, kept, scale)
    early, late = halves(half, q, k, v, mask, kept)
    y = np.empty_like(q, np.result_type(q, v), shape=(*lead_of(q, k, v), q.shape[-2], v.shape[-1]))
    y[..., :half, :], first = attention(*early, scale)
    y[..., half:, :], second = dense_attention(*late, scale)
    return y, (first, second)


def hidden_half(q, k, mask):
    """Return half the number of queries if that first half attends to no key beyond it; else 0."""
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
    """Split the arguments: (first queries with first keys, other queries with all keys)."""
    early, late = np.s_[..., :half, :], np.s_[..., half:, :]
    square = np.s_[..., :half, :half]
    first = (q[early], k[early], v[early], mask[square], None if kept is None else kept[square])
    return first, (q[late], k, v, mask[late], None if kept is None else kept[late])


def lead_of(*arrays):
    return np.broadcast_shapes(*(x.shape[:-2] for x in arrays))


def dense_attention(q, k, v, mask, kept, scale):
    """With e = exp(scores, masked): p = e / its row sums, y = (p kept) v.

    Saved: p, and q, k and v as they were used. Scores within +-SAFE need no shift by the row's maximum, so it
    is not computed. The smallest and the largest score also reveal a NaN, which padding may contain. Then
    keys to which no query may attend, and queries that may attend to no key, are set to 0 first.
    """
    # masked elements may be NaN or inf; they are handled below
    with np.errstate(invalid=None if mask is None else "ignore"):
        p = q @ scaled_transpose(k, scale)
        if p.size and -SAFE < p.min() and p.max() < SAFE and (mask is None or mask.dtype == bool):
            np.exp(p, out=p)
            if mask is not None:
                p *= mask.astype(p.dtype)  # converted once instead of once for each head
        else:
            q, (k, v) = without_blind(q, mask), without_unseen(k, v, mask)
            p = shifted_exp(q @ scaled_transpose(k, scale), mask)
        total = p @ cached_full((p.shape[-1], 1), 1, p.dtype)
        if mask is not None or not p.size:
            total[total == 0] = 1  # a row with no key to attend to: 0 / 1
        p *= 1 / total  # multiplying is faster than dividing
        weights = p if kept is None else p * kept
        y = product(weights, v, q)
        if mask is not None and not np.isfinite(y.sum()):
            k, v = without_unseen(k, v, mask)
            y = product(weights, v, q)
    return y, (p, q, k, v)


def scaled_transpose(x, scale):
    """scale x^T as a C-ordered array: a small product takes twice as long with a factor in Fortran order."""
    return np.multiply(x.mT, np.asarray(scale, x.dtype), order="C")


def product(a, b, like):
    """a @ b with the memory layout of `like`.

    Heads split from the columns of one matrix are written as columns, so that merging them needs no copy.
    """
    if like.flags.c_contiguous:
        return a @ b
    out = np.empty_like(like, np.result_type(a, b), shape=(*lead_of(a, b), a.shape[-2], b.shape[-1]))
    return np.matmul(a, b, out=out)


def shifted_exp(scores, mask):
    """exp(scores - the row's maximum), 0 where masked, for scores of any size.

    Rows within +-SAFE are not shifted here either, so that no other query changes the last bit of a query's
    result.
    """
    if mask is not None:
        scores = scores + mask if mask.dtype.kind == "f" else np.where(mask, scores, -np.inf)
    top = scores.max(-1, keepdims=True, initial=-np.inf)
    low = np.where(scores == -np.inf, top, scores).min(-1, keepdims=True, initial=np.inf)
    top[(top == -np.inf) | (top < SAFE) & (low > -SAFE)] = 0
    return np.exp(scores - top)


def attention_value(q, k, v, mask, kept, scale):
    """One query (..., 1, D) that attends to all keys: nothing is transposed or copied, and q is scaled."""
    if mask is not None or kept is not None or q.shape[-2] != 1 or not k.size:
        return attention(q, k, v, mask, kept, scale)[0]
    e = (q * np.asarray(scale, q.dtype)) @ k.mT  # (..., 1, Tk)
    if -SAFE < e.min() and e.max() < SAFE:
        np.exp(e, out=e)
    else:
        e = shifted_exp(e, None)
    y = e @ v
    y /= e @ cached_full((e.shape[-1], 1), 1, e.dtype)
    return y


def attention_backward(g, y, saved, needs, q, k, v, mask, kept, scale):
    """Compute dq for each half; both halves of the queries add to dk and dv of the first keys."""
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
    """dv = (p kept)^T g. Through the softmax, ds = p (dp - sum over keys of dp p), with dp = (g v^T) kept.

    The sum equals the sum of g y over the width, since y = (p kept) v. Then dq = scale ds k, dk = scale ds^T
    q. The scale is applied to v^T and to that sum, which are smaller, unless a mask needs the gradient ds
    itself.
    """
    p, q, k, v = saved
    early, late = (1, scale) if needs[3] else (scale, 1)
    ds = g @ scaled_transpose(v, early)
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
