"""Exercises of lesson 10: multi-head attention.

Replace each NotImplementedError by your code; `python -m tutorials check 10` tests this file and explains.
NumPy is all you need. B sequences, T positions, C = d_model, H heads of width D.
"""

import numpy as np


def attention(q, k, v):
    """Given (lesson 08): softmax(q k^T / sqrt(D)) v.

    q: (..., n, D)   k: (..., m, D)   v: (..., m, D)   ->   (..., n, D)
    """
    return attention_weights(q, k) @ v


def attention_weights(q, k):
    """Given (lesson 08): softmax(q k^T / sqrt(D)), of shape (..., n, m)."""
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def attention_backward(g, q, k, v):
    """Given (lesson 08): (dq, dk, dv), from the gradient g (..., n, D) of attention(q, k, v)."""
    p = attention_weights(q, k)
    dp = g @ v.swapaxes(-1, -2)
    ds = p * (dp - (p * dp).sum(axis=-1, keepdims=True)) / np.sqrt(q.shape[-1])
    return ds @ k, ds.swapaxes(-1, -2) @ q, p.swapaxes(-1, -2) @ g


def rows(x):
    """Given: (B, T, C) -> (B T, C), one row for each position, as the gradients of weights need it."""
    return x.reshape(-1, x.shape[-1])


def split_heads(x, num_heads):
    """Split (B, T, C) into heads (B, num_heads, T, D), with D = C / num_heads.

    Head i gets the columns i D ... (i + 1) D - 1 of every position.
    """
    # solution
    B, T, C = x.shape
    return x.reshape(B, T, num_heads, C // num_heads).transpose(0, 2, 1, 3)  # (B, H, T, D)
    # end


def merge_heads(x):
    """Put the heads side by side again: (B, H, T, D) -> (B, T, H D). The inverse of split_heads."""
    # solution
    B, H, T, D = x.shape
    return x.transpose(0, 2, 1, 3).reshape(B, T, H * D)
    # end


def count_parameters(d_model, num_heads, num_kv_heads=None, bias=True):
    """The number of parameters in a multi-head attention layer, an integer.

    Each head has d_model / num_heads dimensions. Queries have num_heads heads; keys and values have
    num_kv_heads each (num_heads if it is None). The output projection maps all heads of queries to d_model.
    With bias, each of the four projections adds a vector as wide as its output.
    """
    # solution
    D = d_model // num_heads
    width, kv_width = num_heads * D, (num_kv_heads or num_heads) * D
    weights = d_model * width + 2 * d_model * kv_width + width * d_model
    return weights + (width + 2 * kv_width + d_model if bias else 0)
    # end


def multi_head_attention(x, memory, W_Q, W_K, W_V, W_O, num_heads):
    """Concat(head_1 ... head_H) W_O with head_i = attention(Q_i, K_i, V_i).

    Q = x W_Q, K = memory W_K and V = memory W_V, each (..., C).
    Q_i, K_i, V_i are their columns i D ... (i + 1) D - 1.

    x: (B, n, C), the positions that attend; memory: (B, m, C), those they attend to (x in self-attention)
    W_Q, W_K, W_V, W_O: (C, C)   ->   (B, n, C). No biases, no mask.
    """
    # solution
    q, k, v = (split_heads(y, num_heads) for y in (x @ W_Q, memory @ W_K, memory @ W_V))  # (B, H, n or m, D)
    return merge_heads(attention(q, k, v)) @ W_O
    # end


def multi_head_attention_backward(g, x, memory, W_Q, W_K, W_V, W_O, num_heads):
    """The gradients of the inputs of multi_head_attention, given g (B, n, C), the gradient of its output.

    Returns (dx, dmemory, dW_Q, dW_K, dW_V, dW_O), each in the shape of its input. x and memory count as two
    inputs here; if they are the same array, the caller adds dx and dmemory.
    """
    # solution
    q, k, v = (split_heads(y, num_heads) for y in (x @ W_Q, memory @ W_K, memory @ W_V))
    merged = merge_heads(attention(q, k, v))
    dW_O = rows(merged).T @ rows(g)
    dheads = split_heads(g @ W_O.T, num_heads)  # (B, H, n, D)
    dQ, dK, dV = (merge_heads(d) for d in attention_backward(dheads, q, k, v))
    dx = dQ @ W_Q.T
    dmemory = dK @ W_K.T + dV @ W_V.T
    return dx, dmemory, rows(x).T @ rows(dQ), rows(memory).T @ rows(dK), rows(memory).T @ rows(dV), dW_O
    # end


def permute_heads(W_Q, W_K, W_V, W_O, num_heads, order):
    """The weights of the same layer with its heads in another order: new head i is old head order[i].

    W_Q, W_K, W_V, W_O: (C, C); order: a list with each of 0 ... num_heads - 1 once   ->   four arrays (C, C)
    The layer's output must not change.
    """
    # solution
    columns = np.arange(W_Q.shape[1]).reshape(num_heads, -1)[list(order)].ravel()
    return W_Q[:, columns], W_K[:, columns], W_V[:, columns], W_O[columns]
    # end


def grouped_query_attention(x, W_Q, W_K, W_V, W_O, num_heads, num_kv_heads):
    """Self-attention in which several heads of queries share one head of keys and values.

    x: (B, T, C); W_Q: (C, num_heads D), W_K and W_V: (C, num_kv_heads D), W_O: (num_heads D, C)
    ->  (B, T, C)
    num_kv_heads divides num_heads; with r = num_heads / num_kv_heads, the first r heads of queries share the
    first head of keys and values, the next r the second, and so on.
    """
    # solution
    q, k, v = (
        split_heads(x @ W_Q, num_heads),
        split_heads(x @ W_K, num_kv_heads),
        split_heads(x @ W_V, num_kv_heads),
    )
    share = num_heads // num_kv_heads
    k, v = k.repeat(share, axis=1), v.repeat(share, axis=1)  # (B, H, T, D)
    return merge_heads(attention(q, k, v)) @ W_O
    # end
