"""Scaled dot-product attention: the textbook form, then PyTorch's function, which checks and picks a path."""

import math

import numpy as np

from minigrad import ops as f
from minigrad.engine.recording import as_tensor
from minigrad.functional.dropout import BLOCK, Dropped, dropout_scale
from minigrad.functional.masks import both, rule_and_rest, scores_shape, without_blind, without_unseen
from minigrad.functional.tiers import definition


def attention_weights(q, k, mask=None, scale=1.0):
    """The attention weights (..., Tq, Tk). Each row sums to 1, or to 0 if everything in it is masked."""
    scores = (q @ k.mT) * scale  # (..., Tq, Tk)
    if not scores.shape[-1]:
        return scores
    if mask is not None:
        scores = scores + mask if as_tensor(mask).dtype.kind == "f" else f.where(mask, scores, -np.inf)
    top = scores.detach().amax(-1, keepdims=True)  # (..., Tq, 1)
    e = f.exp(scores - f.where(top == -np.inf, 0.0, top))
    total = e.sum(-1, keepdims=True)  # (..., Tq, 1)
    return e / f.where(total == 0, 1.0, total)


@definition(kernel="minigrad/kernels/attention.py")
def attention(q, k, v, mask=None, kept=None, scale=1.0):
    """softmax(scale Q K^T masked) V. `kept` multiplies the weights (dropout)."""
    q, (k, v) = without_blind(q, mask), without_unseen(k, v, mask)
    weights = attention_weights(q, k, mask, scale)  # (..., Tq, Tk)
    if kept is not None:
        weights = weights * kept
    return weights @ v  # (..., Tq, Dv)


LONG = 3 * 2**17  # with at least this many scores in a head, attention computes them block by block


def scaled_dot_product_attention(
    query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, path=None
):
    """softmax(Q K^T / sqrt(d_k)) V (Vaswani et al. 2017, equation 1), as in PyTorch.

    query (..., Tq, D), key (..., Tk, D), value (..., Tk, Dv) -> (..., Tq, Dv)
    attn_mask   broadcasts to (..., Tq, Tk): True where a query may attend to a key; or floats, added to the
                scores
    dropout_p   the probability that a weight is dropped (layers pass 0 in evaluation)
    is_causal   query i attends to keys 0..i, from the top left (models.attention.causal_mask aligns the last
                key)
    path        "plain": all weights (..., Tq, Tk) at once; "blocked": memory linear in the length; None: by
                length
    A query that may attend to no key gets 0 and gradient 0, not NaN. Keys to which no query may attend have
    no influence, whatever they contain.
    """
    q, k, v = as_tensor(query), as_tensor(key), as_tensor(value)
    _check_attention(q, k, v)
    mask, causal = rule_and_rest(attn_mask, q, k, is_causal)
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    if path not in (None, "plain", "blocked"):
        raise ValueError(f"attention: path is 'plain', 'blocked' or None (by the length), got {path!r}.")
    if dropout_p and not 0 <= dropout_p <= 1:
        raise ValueError(f"attention: dropout_p is a probability from 0 to 1, got {dropout_p}.")
    if path == "blocked" or path is None and is_long(q.shape[-2], k.shape[-2]):
        lead = np.broadcast_shapes(q.shape[:-2], k.shape[:-2], v.shape[:-2])
        dropped = Dropped((*lead, q.shape[-2], k.shape[-2]), dropout_p, q.dtype) if dropout_p else None
        return blocked_attention(q, k, v, mask, dropped, scale, causal)
    if causal is not None:
        mask = both(mask, causal, q.shape[-2], k.shape[-2])
    kept = dropout_scale(scores_shape(q, k), dropout_p, q.dtype) if dropout_p else None
    return attention(q, k, v, mask, kept, scale)


def is_long(queries, keys):
    """Check whether a head has too many scores to hold them all at once."""
    return queries * keys >= LONG and queries >= BLOCK[0]


@definition(kernel="minigrad/kernels/blocked_attention.py")
def blocked_attention(q, k, v, mask=None, dropped=None, scale=1.0, causal=None, block=BLOCK):
    """attention for long sequences, whose kernel never has all weights of a head in memory.

    Query i attends to keys 0..i + causal, if the mask allows them. `dropped` draws the dropout masks block by
    block.
    """
    if causal is not None:
        mask = both(mask, causal, q.shape[-2], k.shape[-2])
    return attention(q, k, v, mask, None if dropped is None else dropped.whole(), scale)


def _check_attention(q, k, v):
    one, two, three = q.data.shape, k.data.shape, v.data.shape
    if len(one) > 1 and two == three and one[:-2] == two[:-2] and one[-1] == two[-1]:
        return  # the usual case
    if min(q.ndim, k.ndim, v.ndim) < 2:
        raise ValueError(
            "attention needs query, key and value of at least two axes (length, width), "
            f"got {q.shape}, {k.shape}, {v.shape}."
        )
    if q.shape[-1] != k.shape[-1]:
        raise ValueError(
            f"attention: query {q.shape} and key {k.shape} must have the same width (last axis), "
            f"got {q.shape[-1]} and {k.shape[-1]}."
        )
    if k.shape[-2] != v.shape[-2]:
        raise ValueError(
            f"attention: key {k.shape} and value {v.shape} must have the same length (second-to-last axis), "
            f"got {k.shape[-2]} and {v.shape[-2]}."
        )
    try:
        np.broadcast_shapes(q.shape[:-2], k.shape[:-2], v.shape[:-2])
    except ValueError:
        raise ValueError(
            f"attention: the leading axes (batch, heads) of query {q.shape}, "
            f"key {k.shape} and value {v.shape} do not broadcast."
        ) from None
