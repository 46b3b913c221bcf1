"""Exercises of lesson 15: BERT.

Write each function where it says so; `python -m tutorials check 15` tests this file and explains.
NumPy is all you need. A label of IGNORED (-100) means that nothing is asked at that position.
"""

import numpy as np

IGNORED = -100


def mask_tokens(tokens, first, second, random_tokens, mask_token, never):
    """Mask tokens as BERT does, with the random numbers given: (what the model sees, what it is asked).

    tokens: integers (B, T);  first, second: (B, T), numbers from 0 to below 1;  random_tokens: integers (B, T)
    mask_token: the id of [MASK];  never: a tuple of token ids that are never asked for (padding, [CLS])
    A position is asked if its `first` is below 0.15, unless its token is in `never`. At an asked position the
    model sees mask_token if `second` is below 0.8, else the token of random_tokens if `second` is below 0.9,
    else the token itself. Elsewhere it sees the token.
    ->  (seen, labels), both integers (B, T), new arrays: the label is the token where asked, IGNORED elsewhere.
    """
    # solution
    asked = (first < 0.15) & ~np.isin(tokens, never)
    seen = np.where(asked & (second < 0.9), random_tokens, tokens)
    seen = np.where(asked & (second < 0.8), mask_token, seen)
    return seen, np.where(asked, tokens, IGNORED)
    # end


def mlm_loss(logits, labels):
    """Cross-entropy at the asked positions.

    logits: (B, T, V);  labels: integers (B, T), IGNORED where nothing is asked
    ->  a number: the mean of -log softmax(logits)[label] over the asked positions; 0.0 if there are none. Token 0 is a
    token like the others. The result is finite for any finite logits, 1e4 too.
    """
    # solution
    asked = labels != IGNORED
    z = logits[asked]  # (asked, V)
    if not len(z):
        return 0.0
    z = z - z.max(-1, keepdims=True)
    log_p = z - np.log(np.exp(z).sum(-1, keepdims=True))
    return -log_p[np.arange(len(z)), labels[asked]].mean()
    # end


def mlm_loss_backward(g, logits, labels):
    """The gradient of g * mlm_loss(logits, labels) with respect to the logits.

    g: a number;  logits: (B, T, V);  labels: integers (B, T)
    -> (B, T, V), a new array; 0 at all positions that are not asked.
    """
    # solution
    asked = labels != IGNORED
    z = logits[asked]
    p = np.exp(z - z.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    p[np.arange(len(z)), labels[asked]] -= 1
    out = np.zeros_like(logits)
    out[asked] = g * p / max(len(z), 1)
    return out
    # end


def mean_pool(x, real):
    """One vector for each sentence: the mean of its tokens' vectors without padding.

    x: (B, T, C), may hold anything finite at padding;  real: booleans (B, T), False at padding
    -> (B, C); zeros for a row of padding only, without a warning.
    """
    # solution
    count = np.maximum(real.sum(1, keepdims=True), 1)  # (B, 1)
    return (x * real[..., None]).sum(1) / count
    # end


def mean_pool_backward(g, real):
    """The gradient of sum(g * mean_pool(x, real)) with respect to x.

    g: (B, C), the gradient of the pooled vectors;  real: booleans (B, T)  ->  (B, T, C)
    """
    # solution
    count = np.maximum(real.sum(1, keepdims=True), 1)  # (B, 1)
    return (g / count)[:, None] * real[..., None]
    # end


def masked_accuracy(logits, labels):
    """The share of asked positions at which the likeliest token is the right one.

    logits: (B, T, V);  labels: integers (B, T), IGNORED where nothing is asked
    ->  a float from 0 to 1; 0.0 if nothing is asked.
    """
    # solution
    asked = labels != IGNORED
    right = logits.argmax(-1)[asked] == labels[asked]
    return float(right.mean()) if len(right) else 0.0
    # end
