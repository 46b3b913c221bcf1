"""Positional encodings: attention alone cannot tell one order of tokens from another.

Added to the token's embedding: sinusoidal (fixed) and learned. Used inside the attention: rotary, and ALiBi's
bias.
"""

import numpy as np

from minigrad import Tensor, stack
from minigrad import functional as F
from minigrad.nn import Dropout, Embedding, Module

# ---------------------------------------------------------------- added to the embedding


def sinusoidal(length, d_model):
    """PE(pos, 2i) = sin(pos / 10000^(2i/d_model)), PE(pos, 2i+1) = cos of the same.

    (Vaswani et al. 2017, section 3.5.)
    (length, d_model), float32. A sine and its cosine share one frequency; an odd d_model ends with a sine.
    PE(pos + k) is a linear map of PE(pos), the same for all pos: each pair rotates by k times its frequency.
    """
    column = np.arange(d_model)
    frequency = 10000.0 ** (-(column // 2 * 2) / d_model)  # (d_model,)
    angle = np.arange(length)[:, None] * frequency  # (length, d_model)
    return Tensor(np.where(column % 2 == 0, np.sin(angle), np.cos(angle)).astype(np.float32))


class PositionalEncoding(Module):
    """x + PE, then dropout."""

    def __init__(self, d_model, max_len=512, dropout=0.0):
        self.max_len = max_len
        self.register_buffer("table", sinusoidal(max_len, d_model), persistent=False)  # recomputed
        self.dropout = Dropout(dropout)

    def forward(self, x, start=0):
        """x (B, T, C) -> (B, T, C). The first token has position `start`; start + T is at most max_len."""
        end = start + x.shape[1]
        _check_length(end, self.max_len)
        return self.dropout(x + self.table[start:end])


class LearnedPositions(Embedding):
    """A trained vector for each position: weight (max_len, d_model)."""

    def __init__(self, max_len, d_model):
        super().__init__(max_len, d_model)

    def forward(self, positions):
        """positions (T,) or (B, T) -> (..., C)."""
        try:
            return super().forward(positions)
        except IndexError:
            _check_length(int(positions.max(initial=-1)) + 1, self.num_embeddings)
            raise


def _check_length(length, max_len):
    if length > max_len:
        raise ValueError(
            f"A sequence of {length} tokens is longer than max_len = {max_len}. "
            "Shorten it, or build the model with a larger max_len."
        )


# ---------------------------------------------------------------- inside the attention


class Rotary(Module):
    """Rotates pairs of a query's or key's elements by position times frequency (Su et al. 2021).

    The product of a rotated query and a rotated key depends on their distance alone. Pair i rotates by
    pos base^(-2i/D). Which elements make a pair differs between published weights:

    layout   "halves": i and i + D/2 (GPT-NeoX, Hugging Face's Llama)
             "interleaved": 2i and 2i + 1 (the paper, Meta's Llama)
    """

    def __init__(self, head_dim, max_len=2048, base=10000.0, layout="halves"):
        if head_dim % 2:
            raise ValueError(f"Rotary rotates pairs of elements, so head_dim must be even, got {head_dim}.")
        if layout not in ("halves", "interleaved"):
            raise ValueError(f"Rotary: layout must be 'halves' or 'interleaved', got {layout!r}.")
        self.head_dim, self.max_len, self.layout = head_dim, max_len, layout
        rates = base ** (-np.arange(0, head_dim, 2) / head_dim)
        angle = np.arange(max_len)[:, None] * rates  # (max_len, D/2)
        # float64, rounded in forward to x's dtype
        self.cos, self.sin = np.cos(angle), np.sin(angle)

    def forward(self, x, positions):
        """x (B, H, T, D), positions (T,) or (B, T) -> (B, H, T, D)."""
        _check_length(int(positions.max(initial=-1)) + 1, self.max_len)
        tables = (table[positions][..., None, :, :] for table in (self.cos, self.sin))
        cos, sin = (table.astype(x.dtype) for table in tables)  # ([B,] 1, T, D/2)
        if self.layout == "halves":
            return F.rotate(x, cos, sin)
        a, b = x[..., 0::2], x[..., 1::2]
        return stack([a * cos - b * sin, b * cos + a * sin], -1).reshape(x.shape)

    def extra_repr(self):
        return f"{self.head_dim}, max_len={self.max_len}, layout={self.layout!r}"


def interleaved_to_halves(weight, num_heads):
    """Reorder a query's or key's projection (H D, C) from layout "interleaved" to "halves"."""
    rows, columns = weight.shape
    return weight.reshape(num_heads, rows // num_heads // 2, 2, columns).swapaxes(1, 2).reshape(rows, columns)


def alibi_slopes(num_heads):
    """Slopes (H,): 2^(-8/H), 2^(-16/H) ...

    If H is no power of two: the slopes of the next lower power, then every other one of the next higher."""
    lower = 2 ** int(np.log2(num_heads))
    slopes = 2.0 ** (-8 / lower * np.arange(1, lower + 1))
    between = 2.0 ** (-4 / lower * np.arange(1, 2 * lower + 1, 2))
    return np.concatenate([slopes, between])[:num_heads]


def alibi(num_heads, queries, keys=None):
    """A causal mask of floats (1, H, Tq, Tk) to add: minus slope times distance (Press et al. 2022).

    Replaces positions; works for any length. The last query has the position of the last key, as in
    causal_mask.
    """
    keys = queries if keys is None else keys
    distance = np.arange(keys - queries, keys)[:, None] - np.arange(keys)  # (Tq, Tk)
    bias = -alibi_slopes(num_heads)[:, None, None] * distance
    return Tensor(np.where(distance < 0, -np.inf, bias)[None])
