"""Scaled dot-product attention, step by step, and its masks."""

import math

import numpy as np

from minigrad import functions as f
from minigrad._tensor import as_tensor
from minigrad.functional.layers import dropout_scale
from minigrad.functional.tiers import definition


def scaled_dot_product_attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None):
    """softmax(Q K^T / sqrt(d_k)) V (Vaswani et al. 2017, equation 1), with PyTorch's meaning.

    query (..., Tq, D), key (..., Tk, D), value (..., Tk, Dv) -> (..., Tq, Dv)
    attn_mask   broadcasts to (..., Tq, Tk): boolean, True where a query may attend to a key; or floats, added to the scores
    dropout_p   the share of weights dropped (there is no training flag here; layers pass 0 in evaluation)
    is_causal   query i sees keys 0..i, counted from the top left (models.attention.causal_mask counts from the last key)
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
    q, (k, v) = without_blind(q, mask), without_unseen(k, v, mask)
    weights = attention_weights(q, k, mask, scale)  # (..., Tq, Tk)
    if kept is not None:
        weights = weights * kept
    return weights @ v  # (..., Tq, Dv)


def attention_weights(q, k, mask=None, scale=1.0):
    """What each query attends to: (..., Tq, Tk), rows that sum to 1, or to 0 where everything is masked."""
    scores = (q @ k.mT) * scale  # (..., Tq, Tk)
    if not scores.shape[-1]:
        return scores
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


def without_blind(q, mask):
    """Queries with zeros where there is no key to look at, for the same reason."""
    seeing = seeing_queries(mask)
    return q if seeing is None else f.where(seeing, q, 0.0)


def seen_keys(mask):
    """(..., Tk, 1): may any query look at the key? None if every key is seen."""
    allowed = allowed_by(mask)
    seen = allowed.any(axis=-2) if allowed.ndim > 1 else allowed
    return None if seen.all() else seen[..., None]


def seeing_queries(mask):
    """(..., Tq, 1): may the query look at any key? None if every query may."""
    seeing = allowed_by(mask).any(axis=-1)
    return None if seeing.all() else seeing[..., None]


def allowed_by(mask):
    """The mask as truth values: who may look at what."""
    if mask is None:
        return np.ones(1, bool)
    mask = as_tensor(mask).data
    return mask > -np.inf if mask.dtype.kind == "f" else mask


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
