"""Multi-head attention and its masks (Vaswani et al. 2017, section 3.2). Knows sequences, not what they mean.

Masks have one polarity: True = may attend. Every mask broadcasts to (B, H, Tq, Tk); combine them with &.
PyTorch's *modules* mean the opposite by theirs (True = hide), which is why the argument here is called `mask`: pass ~theirs.
"""

import numpy as np

from minigrad import Tensor
from minigrad import functional as F
from minigrad.nn import Linear, Module


def causal_mask(queries, keys=None):
    """(1, 1, Tq, Tk): each query sees the keys up to its own place, counted from the end, so that the last sees them all."""
    keys = queries if keys is None else keys
    return Tensor(np.tri(queries, keys, k=keys - queries, dtype=bool)[None, None])


def padding_mask(tokens, pad):
    """(B, 1, 1, T): True where tokens (B, T) are not padding; no query sees a padded key."""
    tokens = tokens.data if isinstance(tokens, Tensor) else np.asarray(tokens)
    return Tensor((tokens != pad)[:, None, None, :])


class MultiHeadAttention(Module):
    """Concat(head_1 ... head_h) W^O, where head_i = Attention(Q W_i^Q, K W_i^K, V W_i^V).

    The heads' projections lie side by side in one (d_model, d_model) matrix each; head i is columns i d_k .. (i+1) d_k.
    After a call with `keep_weights` set, `weights` holds what was attended to: an array (B, H, Tq, Tk), before dropout.
    """

    keep_weights = False

    def __init__(self, d_model, num_heads, dropout=0.0, bias=True):
        if num_heads < 1 or d_model % num_heads:
            fits = [h for h in range(1, d_model + 1) if d_model % h == 0]
            raise ValueError(
                f"d_model = {d_model} cannot be shared equally among {num_heads} heads; it must be a multiple of their number. "
                f"With this d_model use {', '.join(map(str, fits))} heads."
            )
        self.num_heads, self.head_dim, self.dropout = num_heads, d_model // num_heads, dropout
        self.q_proj = Linear(d_model, d_model, bias)
        self.k_proj = Linear(d_model, d_model, bias)
        self.v_proj = Linear(d_model, d_model, bias)
        self.out_proj = Linear(d_model, d_model, bias)
        self.weights = None

    def split(self, x):
        B, T, _ = x.shape
        return x.reshape(B, T, self.num_heads, self.head_dim).swapaxes(1, 2)  # (B, H, T, D)

    def merge(self, x):
        B, H, T, D = x.shape
        return x.swapaxes(1, 2).reshape(B, T, H * D)  # (B, T, C)

    def forward(self, query, key=None, value=None, mask=None, need_weights=False):
        """query (B, Tq, C), key and value (B, Tk, C) -> (B, Tq, C); self-attention if only the query is given.

        mask          boolean (True = may attend) or floats to add, broadcasting to (B, H, Tq, Tk)
        need_weights  return (output, weights) with weights (B, H, Tq, Tk), those before dropout
        """
        key = query if key is None else key
        value = key if value is None else value
        q, k, v = self.split(self.q_proj(query)), self.split(self.k_proj(key)), self.split(self.v_proj(value))
        heads = F.scaled_dot_product_attention(q, k, v, mask, self.dropout if self.training else 0.0)  # (B, H, Tq, D)
        out = self.out_proj(self.merge(heads))
        if not (need_weights or self.keep_weights):
            return out
        weights = F.attention_weights(q, F.without_unseen(k, v, mask)[0], mask, self.head_dim**-0.5)
        self.weights = weights.data if self.keep_weights else None
        return (out, weights) if need_weights else out

    def extra_repr(self):
        return f"num_heads={self.num_heads}, head_dim={self.head_dim}, dropout={self.dropout}"
