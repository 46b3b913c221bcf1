"""Exercises of lesson 16: what attention costs, and how to pay less.

Write each function where it says so; `python -m tutorials check 16` tests this file and explains.
NumPy is all you need. A floating-point operation (FLOP) is one multiplication or one addition, so that a
matrix product (m, k) @ (k, n) costs 2 m k n. Attention here is one head without batch: scores = q k^T /
sqrt(d_k).
"""

import numpy as np


def attention_flops(n, d_model, num_heads):
    """FLOPs of the matrix products of multi-head self-attention on n tokens, forward, as two whole numbers.

    projections  the four of them (queries, keys, values, output), each from d_model to d_model
    attending    q k^T and weights @ v, of all num_heads heads; each head is d_model // num_heads wide
    Returns (projections, attending). Biases, softmax and masks are not counted.
    """
    # solution
    d_head = d_model // num_heads
    projections = 4 * (2 * n * d_model * d_model)
    attending = num_heads * (2 * n * d_head * n + 2 * n * n * d_head)
    return projections, attending
    # end


def attention_bytes(batch, num_heads, n, d_model, itemsize=4):
    """Bytes of the arrays that attention makes in one layer, from a batch of sequences of n tokens.

    weights  all attention weights, of every sequence and head
    cache    the keys and values of all tokens, of every sequence and head: what a KV cache holds; a head is
             d_model // num_heads wide
    itemsize is the size of one number, 4 for float32. Returns (weights, cache), two whole numbers.
    """
    # solution
    d_head = d_model // num_heads
    weights = batch * num_heads * n * n * itemsize
    cache = 2 * batch * num_heads * n * d_head * itemsize
    return weights, cache
    # end


def state_of_block(scores, v):
    """Given to you: the state of one block of keys. scores (Tq, B), v (B, Dv) -> (m, t, a).

    m (Tq,)     the largest score of each row
    t (Tq,)     the sum over the block's keys of exp(score - m)
    a (Tq, Dv)  the sum over the block's keys of exp(score - m) v
    A row in which every score is -inf (a masked one) has m = -inf, t = 0 and a = 0.
    """
    m = scores.max(axis=-1)
    e = np.exp(scores - np.where(m == -np.inf, 0, m)[:, None])
    return m, e.sum(axis=-1), e @ v


def merge(one, other):
    """The state (m, t, a) of two blocks of keys together, from the state of each: see state_of_block.

    a / t of the merged state is the attention over the keys of both. A row with no visible key has m = -inf,
    t = 0, a = 0, in one state or in both. The result is then the other state, or again m = -inf, t = 0, a =
    0; never NaN, and without a warning.
    """
    # solution
    (m1, t1, a1), (m2, t2, a2) = one, other
    m = np.maximum(m1, m2)
    shift = np.where(m == -np.inf, 0, m)
    c1, c2 = np.exp(m1 - shift), np.exp(m2 - shift)
    return m, c1 * t1 + c2 * t2, c1[:, None] * a1 + c2[:, None] * a2
    # end


def blockwise_attention(q, k, v, block):
    """Attention that holds at most block x block scores. q (Tq, D), k (Tk, D), v (Tk, Dv) -> (y, lse).

    y (Tq, Dv)  softmax(q k^T / sqrt(D)) v
    lse (Tq,)   of each row of scores, log(sum(exp(scores))): what the backward pass needs
    Queries and keys are taken `block` at a time; the last blocks may be smaller. Finite for scores of 1e4
    too.
    """
    # solution
    y, lse = np.empty((len(q), v.shape[1])), np.empty(len(q))
    for i in range(0, len(q), block):
        rows = slice(i, i + block)
        state = None
        for j in range(0, len(k), block):
            keys = slice(j, j + block)
            new = state_of_block(q[rows] @ k[keys].T / np.sqrt(q.shape[1]), v[keys])
            state = new if state is None else merge(state, new)
        m, t, a = state
        y[rows], lse[rows] = a / t[:, None], m + np.log(t)
    return y, lse
    # end


def blockwise_attention_backward(g, q, k, v, y, lse, block):
    """The gradients (dq, dk, dv) of blockwise_attention's y, each in its argument's shape.

    Hold at most block x block weights at a time, computed again from q, k and lse.
    g (Tq, Dv) is the gradient of y; q (Tq, D), k (Tk, D), v (Tk, Dv), y (Tq, Dv) and lse (Tq,) as in
    blockwise_attention.
    """
    # solution
    scale = 1 / np.sqrt(q.shape[1])
    dq, dk, dv = np.zeros_like(q), np.zeros_like(k), np.zeros_like(v)
    delta = (g * y).sum(axis=-1)
    for i in range(0, len(q), block):
        rows = slice(i, i + block)
        for j in range(0, len(k), block):
            keys = slice(j, j + block)
            p = np.exp(q[rows] @ k[keys].T * scale - lse[rows, None])
            ds = p * (g[rows] @ v[keys].T - delta[rows, None]) * scale
            dq[rows] += ds @ k[keys]
            dk[keys] += ds.T @ q[rows]
            dv[keys] += p.T @ g[rows]
    return dq, dk, dv
    # end


def causal_blockwise_attention(q, k, v, block):
    """Like blockwise_attention, but query i sees keys 0..i only; q, k (T, D), v (T, Dv) -> (y, lse).

    Do not compute blocks of keys that no query of the block may see: their keys and values, NaN too, must
    have no effect. In blocks that the diagonal crosses, the scores of hidden keys are -inf.
    """
    # solution
    y, lse = np.empty((len(q), v.shape[1])), np.empty(len(q))
    place = np.arange(len(q))
    for i in range(0, len(q), block):
        rows = slice(i, i + block)
        state = None
        for j in range(0, i + 1, block):
            keys = slice(j, j + block)
            scores = q[rows] @ k[keys].T / np.sqrt(q.shape[1])
            scores = np.where(place[rows, None] >= place[None, keys], scores, -np.inf)
            new = state_of_block(scores, v[keys])
            state = new if state is None else merge(state, new)
        m, t, a = state
        y[rows], lse[rows] = a / t[:, None], m + np.log(t)
    return y, lse
    # end


def checkpointed_forward(functions, x, every):
    """functions[-1](... functions[1](functions[0](x))), keeping few of the values between. Returns (y, kept).

    kept  a list of the inputs of functions number 0, every, 2 every ...: x itself is the first
    Each function is called once.
    """
    # solution
    kept = []
    for number, fun in enumerate(functions):
        if number % every == 0:
            kept.append(x)
        x = fun(x)
    return x, kept
    # end


def checkpointed_backward(functions, backwards, kept, every, g):
    """The gradient of x, from the gradient g of checkpointed_forward's y and from what it kept.

    backwards[i](g, x) is the gradient of the input of functions[i], from the gradient g of its value and its
    input x. For each segment, the last one first: compute the inputs of its functions again from the kept
    one, then run the backwards in reverse order. Do not call the last function of a segment again: nothing
    reads its value.
    """
    # solution
    for number in reversed(range(len(kept))):
        segment = slice(number * every, (number + 1) * every)
        inputs = [kept[number]]
        for fun in functions[segment][:-1]:
            inputs.append(fun(inputs[-1]))
        for backward, x in zip(reversed(backwards[segment]), reversed(inputs), strict=True):
            g = backward(g, x)
    return g
    # end
