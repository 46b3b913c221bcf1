"""Masks: which query may attend to which key. The causal mask of a long sequence is a rule, not an array."""

import numpy as np

from minigrad import ops as f
from minigrad.engine.recording import as_tensor
from minigrad.engine.tensor import Tensor


def without_unseen(k, v, mask):
    """Set keys and values (tensors or arrays) to 0 where no query may attend.

    0 * NaN is NaN, so padding could leak through a weight of 0.
    """
    seen = seen_keys(mask)
    return (k, v) if seen is None else (np.where(seen, k, 0.0), np.where(seen, v, 0.0))


def without_blind(q, mask):
    """Set queries to 0 that may attend to no key, for the same reason as in without_unseen."""
    seeing = seeing_queries(mask)
    return q if seeing is None else np.where(seeing, q, 0.0)


def seen_keys(mask):
    """(..., Tk, 1): may any query attend to the key? None if that holds for every key."""
    allowed = allowed_by(mask)
    seen = allowed.any(axis=-2) if allowed.ndim > 1 else allowed
    return None if seen.all() else seen[..., None]


def seeing_queries(mask):
    """(..., Tq, 1): may the query attend to any key? None if that holds for every query."""
    seeing = allowed_by(mask).any(axis=-1)
    return None if seeing.all() else seeing[..., None]


def allowed_by(mask):
    """Convert a mask to booleans: True where a query may attend to a key."""
    if mask is None:
        return np.ones(1, bool)
    mask = as_tensor(mask).data
    return mask > -np.inf if mask.dtype.kind == "f" else mask


def both(mask, causal, queries, keys):
    """Combine a mask with the rule that query i attends to keys 0..i + causal. Returns an array."""
    rule = np.tri(queries, keys, causal, dtype=bool)
    if mask is None:
        return rule
    if as_tensor(mask).dtype.kind == "f":
        return f.where(rule, mask, -np.inf)
    return as_tensor(mask).data & rule


class CausalMask(Tensor):
    """The boolean mask (..., Tq, Tk) by which query i attends to keys 0..i + offset, if `other` allows them.

    Blocked attention uses the rule itself. Other readers of the mask get an array (`data`), computed at each
    access.
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


def rule_and_rest(mask, q, k, is_causal):
    """Split a mask into a Tensor or None, and `causal`: query i attends to keys 0..i + causal; or None."""
    if mask is not None:
        mask = as_tensor(mask)
        _check_mask(mask, q, k)
    causal = 0 if is_causal else None
    if type(mask) is CausalMask:
        causal, mask = mask.offset if causal is None else min(causal, mask.offset), mask.other
    if mask is not None and mask.dtype.kind == "f":
        mask = as_tensor(mask, q.dtype)  # a float64 mask must not widen a float32 model
    return mask, causal


def _check_mask(mask, q, k):
    scores = scores_shape(q, k)
    if mask.dtype.kind not in "bf":
        raise TypeError(
            "attention: the mask must be boolean (True = may attend) or floats to add, "
            f"got {mask.dtype}; write mask.bool()."
        )
    try:
        fits = np.broadcast_shapes(mask.shape, scores) == scores
    except ValueError:
        fits = False
    if not fits:
        raise ValueError(
            f"attention: a mask of shape {mask.shape} does not broadcast to the "
            f"scores {scores} (..., Tq, Tk)."
        )


def scores_shape(q, k):
    """(..., Tq, Tk)."""
    return np.broadcast_shapes(q.shape[:-2], k.shape[:-2]) + (q.shape[-2], k.shape[-2])
