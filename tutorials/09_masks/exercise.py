"""Exercises of lesson 09: masks.

Replace each NotImplementedError by your code; `python -m tutorials check 09` tests this file and explains.
NumPy is all you need. Masks are boolean, and True means: may attend. `...` stands for any number of axes.
"""

import numpy as np


def causal_mask(queries, keys):
    """The mask in which no query sees a later key.

    queries, keys: the number of each; keys >= queries
    ->  bool array (queries, keys). The queries are the newest tokens and the keys are all tokens so far, so
    the last query sees every key, the one before it all but the last, and so on: the diagonal ends in the
    bottom right corner.
    """
    # solution
    return np.tri(queries, keys, keys - queries, dtype=bool)
    # end


def padding_mask(tokens, pad):
    """The mask that is True for keys that are real tokens, for the scores of a batch with heads.

    tokens: int array (B, T)   pad: the token id that fills up short sentences   ->   bool array (B, 1, 1, T)
    """
    # solution
    return (tokens != pad)[:, None, None, :]
    # end


def decoder_masks(src, tgt, pad):
    """The masks of the two attentions in a decoder, for a batch of sentence pairs.

    src: int array (B, Ts), the source tokens   tgt: int array (B, Tt), the target tokens   pad: as above
    Returns the tuple (self_mask, cross_mask): bool arrays (B, 1, Tt, Tt) and (B, 1, 1, Ts).
    """
    # solution
    length = tgt.shape[1]
    return causal_mask(length, length) & padding_mask(tgt, pad), padding_mask(src, pad)
    # end


def masked_softmax(scores, mask):
    """Softmax along the last axis over the positions where mask is True; 0 where it is False.

    scores: float array (..., n, m)   mask: bool array that broadcasts to that shape
    ->  float array (..., n, m). A row whose mask has no True is 0 everywhere.
    Masked scores may be anything, even inf and NaN, and have no influence. Returns a new array without NaN and
    without a warning, for scores of any size; does not change scores.
    """
    # solution
    s = np.where(mask, scores, -np.inf)
    top = s.max(axis=-1, keepdims=True)
    e = np.exp(s - np.where(top == -np.inf, 0, top))
    total = e.sum(axis=-1, keepdims=True)
    return e / np.where(total == 0, 1, total)
    # end


def masked_attention(q, k, v, mask):
    """Scaled dot-product attention in which query i sees key j only where mask is True.

    q: (..., n, d_k)   k: (..., m, d_k)   v: (..., m, d_v)   ->   (..., n, d_v)
    mask: bool, (n, m) or with axes in front; broadcasts to (..., n, m), so n may be 1
    The output of a query that sees nothing is 0. Keys and values that no query may see may hold NaN without
    changing the output. A NaN in a key or value that a query sees shows. The arguments are not changed.
    """
    # solution
    v = np.where(mask.any(axis=-2)[..., None], v, 0)
    return masked_softmax(q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1]), mask) @ v
    # end


def masked_attention_backward(g, q, k, v, mask):
    """The gradients with respect to q, k and v, given g, the gradient at masked_attention(q, k, v, mask).

    g: (..., n, d_v); the others as in masked_attention, with the same axes in front of q, k and v
    Returns the tuple (dq, dk, dv), each in the shape of its input. They are finite even if keys and values
    that no query may see hold NaN; the gradients of those are 0.
    """
    # solution
    seen = mask.any(axis=-2)[..., None]
    k, v, scale = np.where(seen, k, 0), np.where(seen, v, 0), 1 / np.sqrt(q.shape[-1])
    p = masked_softmax(scale * q @ k.swapaxes(-1, -2), mask)
    dp = g @ v.swapaxes(-1, -2)
    ds = p * (dp - (p * dp).sum(axis=-1, keepdims=True))
    return scale * ds @ k, scale * ds.swapaxes(-1, -2) @ q, p.swapaxes(-1, -2) @ g
    # end


def influence(model, x):
    """Find which output depends on which input, by changing one input at a time.

    model: a function from an array (T, C) to an array (T, D)   x: float array (T, C), which is not changed
    ->  bool array (T, T): at [i, j], does row i of the output change if row j of x is replaced?
    If any element above the diagonal is True, the model looks ahead. Replace the row by an unrelated one: in
    a model with a layer norm (lesson 12), for example, adding a constant to a row changes nothing.
    """
    # solution
    before, found = model(x), np.zeros((len(x), len(x)), bool)
    for j in range(len(x)):
        changed = x.copy()
        changed[j] = np.random.default_rng([2026, j]).standard_normal(x.shape[1])
        found[:, j] = (model(changed) != before).any(axis=1)
    return found
    # end
