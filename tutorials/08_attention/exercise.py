"""Exercises of lesson 08: scaled dot-product attention.

Replace each NotImplementedError by your code; `python -m tutorials check 08` tests this file and explains.
NumPy is all you need. All arrays are float64. `...` stands for any number of axes in front, even none.
"""

import numpy as np


def softmax(x):
    """Given (lesson 05): softmax along the last axis."""
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def softmax_backward(g, p):
    """Given (lesson 05): the gradient at x, from the gradient g at p = softmax(x). Both of the same shape."""
    return p * (g - (p * g).sum(axis=-1, keepdims=True))


def ask(query, keys, values):
    """The librarian's answer to one query: the values mixed by softmax(keys . query).

    This is the lesson's `ask` with sharpness 1.

    query: (d_k,)   keys: (m, d_k)   values: (m, d_v)   ->   (d_v,)
    """
    # solution
    return softmax(keys @ query) @ values
    # end


def attention_weights(q, k):
    """The weights: softmax over the keys of q . k / sqrt(d_k).

    q: (..., n, d_k)   k: (..., m, d_k)   ->   (..., n, m); each row is positive and sums to 1
    The axes in front are batch and heads; they are never mixed.
    """
    # solution
    return softmax(q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1]))
    # end


def attention(q, k, v):
    """Scaled dot-product attention: each output is the mean of the values, weighted by attention_weights.

    Returns the outputs only, without the weights.

    q: (..., n, d_k)   k: (..., m, d_k)   v: (..., m, d_v)   ->   (..., n, d_v)
    """
    # solution
    return attention_weights(q, k) @ v
    # end


def entropy(weights):
    """The entropy of each query's attention: -sum over keys of p log p, with the natural logarithm.

    weights: (..., n, m), rows that sum to 1, elements may be exactly 0   ->   (..., n)
    0 for a query that attends to one key only (0 log 0 counts as 0), log m for one that attends to m equally.
    Gives no NaN and no warning, whatever the weights, and does not change them.
    """
    # solution
    return -(weights * np.log(np.where(weights > 0, weights, 1))).sum(axis=-1)
    # end


def attention_backward(g, q, k, v):
    """The gradients of a loss with respect to q, k and v, given g, its gradient at attention(q, k, v).

    g: (..., n, d_v)   q: (..., n, d_k)   k: (..., m, d_k)   v: (..., m, d_v)
    Returns the tuple (dq, dk, dv), each in the shape of its input. The axes in front are equal in all four.
    """
    # solution
    p, scale = attention_weights(q, k), 1 / np.sqrt(q.shape[-1])
    dv = p.swapaxes(-1, -2) @ g
    ds = softmax_backward(g @ v.swapaxes(-1, -2), p)
    return scale * ds @ k, scale * ds.swapaxes(-1, -2) @ q, dv
    # end


def shared_backward(g, q, k, v):
    """attention_backward with one set of keys and values for all heads (multi-query attention, Shazeer 2019).

    g: (H, n, d_v)   q: (H, n, d_k)   k: (m, d_k)   v: (m, d_v)
    The forward pass is attention(q, k, v): NumPy broadcasts k and v over the H heads. In the backward pass
    each head sends a gradient back to them.
    Returns the tuple (dq, dk, dv) with shapes (H, n, d_k), (m, d_k), (m, d_v).
    """
    # solution
    dq, dk, dv = attention_backward(g, q, k, v)
    return dq, dk.sum(axis=0), dv.sum(axis=0)
    # end
