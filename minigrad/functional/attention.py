"""Scaled dot-product attention, step by step, and its masks."""

import math

import numpy as np

from minigrad import ops as f
from minigrad import random
from minigrad.engine.recording import as_tensor
from minigrad.engine.tensor import Tensor
from minigrad.functional.layers import dropout_scale
from minigrad.functional.tiers import definition

# from so many scores to a head on, they are computed block by block and never stand side by side
LONG = 3 * 2**17
BLOCK = (192, 384)  # queries and keys to a block: small enough that its scores stay in the second-level cache


def scaled_dot_product_attention(
    query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, path=None
):
    """softmax(Q K^T / sqrt(d_k)) V (Vaswani et al. 2017, equation 1), with PyTorch's meaning.

    query (..., Tq, D), key (..., Tk, D), value (..., Tk, Dv) -> (..., Tq, Dv)
    attn_mask   broadcasts to (..., Tq, Tk): boolean, True where a query may attend to a key; or floats, added to the scores
    dropout_p   the share of weights dropped (there is no training flag here; layers pass 0 in evaluation)
    is_causal   query i sees keys 0..i, counted from the top left (models.attention.causal_mask counts from the last key)
    path        "plain": all weights (..., Tq, Tk) at once; "blocked": in memory linear in the length; None: as the length asks
    A query that may attend to nothing gets 0, and gradient 0, not NaN. Keys that no query may see are as if they were not
    there, whatever they hold.
    """
    q, k, v = as_tensor(query), as_tensor(key), as_tensor(value)
    _check_attention(q, k, v)
    mask, causal = _rule_and_rest(attn_mask, q, k, is_causal)
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
    kept = dropout_scale(_weights_shape(q, k), dropout_p, q.dtype) if dropout_p else None
    return attention(q, k, v, mask, kept, scale)


@definition
def split_heads(x, width, parts=None):
    """x (B, T, H width) -> (B, H, T, width): heads that lie side by side, each for itself. `parts` such groups of heads side by
    side, as queries, keys and values from one product, come as a tuple."""
    if parts is not None:
        return tuple(split_heads(part, width) for part in x.chunk(parts, -1))
    B, T, C = x.shape
    return x.reshape(B, T, C // width, width).swapaxes(1, 2)


@definition
def merge_heads(x):
    """x (B, H, T, D) -> (B, T, H D): heads side by side again."""
    B, H, T, D = x.shape
    return x.swapaxes(1, 2).reshape(B, T, H * D)


@definition
def rotate(x, cos, sin):
    """x (..., T, D): its numbers i and i + D/2, a pair, turned by the angle whose cos and sin (..., T, D/2) are given (Su et al. 2021,
    equation 34)."""
    a, b = x.chunk(2, -1)
    return f.concatenate([a * cos - b * sin, b * cos + a * sin], -1)


def _weights_shape(q, k):
    return np.broadcast_shapes(q.shape[:-2], k.shape[:-2]) + (q.shape[-2], k.shape[-2])


def is_long(queries, keys):
    """Are there so many scores to a head that they are better not all held at once?"""
    return queries * keys >= LONG and queries >= BLOCK[0]


@definition
def attention(q, k, v, mask=None, kept=None, scale=1.0):
    """softmax(scale Q K^T masked) V; `kept` multiplies the weights (dropout)."""
    q, (k, v) = without_blind(q, mask), without_unseen(k, v, mask)
    weights = attention_weights(q, k, mask, scale)  # (..., Tq, Tk)
    if kept is not None:
        weights = weights * kept
    return weights @ v  # (..., Tq, Dv)


@definition
def blocked_attention(q, k, v, mask=None, dropped=None, scale=1.0, causal=None, block=BLOCK):
    """The same for long sequences: query i sees keys 0..i + causal of those the mask allows; the weights of a whole head
    need not exist at once. `dropped` draws what dropout keeps, block by block."""
    if causal is not None:
        mask = both(mask, causal, q.shape[-2], k.shape[-2])
    return attention(q, k, v, mask, None if dropped is None else dropped.whole(), scale)


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


def both(mask, causal, queries, keys):
    """What the mask and the rule (query i sees keys 0..i + causal) both allow, written out."""
    rule = np.tri(queries, keys, causal, dtype=bool)
    if mask is None:
        return rule
    if as_tensor(mask).dtype.kind == "f":
        return f.where(rule, mask, -np.inf)
    return as_tensor(mask).data & rule


class CausalMask(Tensor):
    """The boolean mask (..., Tq, Tk) by which query i sees keys 0..i + offset, and of those what `other` allows.

    Attention in blocks goes by the rule. Anything else that reads the mask (`data`) finds it written out, then and there.
    """

    __slots__ = ("queries", "keys", "offset", "other")

    def __init__(self, queries, keys, offset, other=None):
        self.queries, self.keys, self.offset, self.other = queries, keys, offset, other
        self.grad = self.node = self.hooks = None
        self._requires_grad, self.writes = False, [0]

    @property
    def data(self):
        return np.broadcast_to(both(self.other, self.offset, self.queries, self.keys), self.shape)

    @property
    def shape(self):
        rule = (1, 1, self.queries, self.keys)
        return rule if self.other is None else np.broadcast_shapes(rule, self.other.shape)

    ndim = property(lambda self: len(self.shape))
    dtype = np.dtype(bool)

    def with_other(self, other):
        return CausalMask(self.queries, self.keys, self.offset, other)

    def __and__(self, other):
        if isinstance(other, CausalMask) and (other.queries, other.keys) == (self.queries, self.keys):
            nearer = CausalMask(self.queries, self.keys, min(self.offset, other.offset), self.other)
            return nearer if other.other is None else nearer & other.other
        other = as_tensor(other)
        return self.with_other(other if self.other is None else self.other & other)

    __rand__ = __and__

    def __reduce__(self):
        return CausalMask, (self.queries, self.keys, self.offset, self.other)


class Dropped:
    """What dropout multiplies weights of a shape (..., Tq, Tk) by: 0 with probability p, else 1/(1-p); never all in memory.

    Tile (i, j) of a head comes from a Philox generator of its own, whose counter is set to (head, i, j), so that backward
    draws it again, in any order. The key is drawn from the stream "dropout".
    """

    def __init__(self, shape, p, dtype, block=BLOCK):
        self.shape, self.p, self.dtype, self.block = shape, p, dtype, block
        self.key = int(random.stream("dropout").integers(2**63))

    def tile(self, head, i, j):
        """(queries, keys) of a block; the last ones reach over the edge."""
        if self.p == 1:
            return np.zeros(self.block, self.dtype)
        generator = np.random.Generator(np.random.Philox(key=self.key, counter=[0, j, i, head]))
        # keys first, as in the kernel
        scale = (generator.random(self.block[::-1], dtype=np.float32) >= self.p).astype(self.dtype)
        scale *= 1 / (1 - self.p)
        return scale.T

    def whole(self):
        *lead, queries, keys = self.shape
        tall, wide = self.block
        out = np.empty((math.prod(lead), queries, keys), self.dtype)
        for head, i, j in np.ndindex(len(out), -(-queries // tall), -(-keys // wide)):
            part = out[head, i * tall : (i + 1) * tall, j * wide : (j + 1) * wide]
            part[:] = self.tile(head, i, j)[: part.shape[0], : part.shape[1]]
        return out.reshape(self.shape)


def _rule_and_rest(mask, q, k, is_causal):
    """(mask, causal): what is left to be looked up, as a Tensor or None; and how far the rule lets each query see, or None."""
    if mask is not None:
        mask = as_tensor(mask)
        _check_mask(mask, q, k)
    causal = 0 if is_causal else None
    if type(mask) is CausalMask:
        causal, mask = mask.offset if causal is None else min(causal, mask.offset), mask.other
    if mask is not None and mask.dtype.kind == "f":
        mask = as_tensor(mask, q.dtype)  # a float64 mask must not widen a float32 model
    return mask, causal


def _check_attention(q, k, v):
    one, two, three = q.data.shape, k.data.shape, v.data.shape
    if len(one) > 1 and two == three and one[:-2] == two[:-2] and one[-1] == two[-1]:
        return  # as nearly always
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
    scores = _weights_shape(q, k)
    if mask.dtype.kind not in "bf":
        raise TypeError(f"attention: the mask must be boolean (True = may attend) or floats to add, got {mask.dtype}; write mask.bool().")  # fmt: skip
    try:
        fits = np.broadcast_shapes(mask.shape, scores) == scores
    except ValueError:
        fits = False
    if not fits:
        raise ValueError(
            f"attention: a mask of shape {mask.shape} does not broadcast to the scores {scores} (..., Tq, Tk)."
        )
