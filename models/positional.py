"""Where a token stands: attention alone cannot tell one order from another. Knows positions only.

Added to what the token is: sinusoidal (fixed) and learned. Brought into the attention instead: rotary, and ALiBi's bias.
"""

import numpy as np

from minigrad import Tensor, stack
from minigrad import functional as F
from minigrad.nn import Dropout, Embedding, Module

# ---------------------------------------------------------------- added to the token


def sinusoidal(length, d_model):
    """PE(pos, 2i) = sin(pos / 10000^(2i/d_model)), PE(pos, 2i+1) = cos of the same (Vaswani et al. 2017, section 3.5).

    (length, d_model), float32. A sine and its cosine share one frequency; an odd d_model ends with a sine.
    PE(pos + k) is a linear map of PE(pos), the same for every pos: each pair turns by k times its frequency.
    """
    column = np.arange(d_model)
    frequency = 10000.0 ** (-(column // 2 * 2) / d_model)  # (d_model,)
    angle = np.arange(length)[:, None] * frequency  # (length, d_model)
    return Tensor(np.where(column % 2 == 0, np.sin(angle), np.cos(angle)).astype(np.float32))


class PositionalEncoding(Module):
    """x + PE, then dropout."""

    def __init__(self, d_model, max_len=512, dropout=0.0):
        self.max_len = max_len
        self.register_buffer("table", sinusoidal(max_len, d_model), persistent=False)  # can be made again
        self.dropout = Dropout(dropout)

    def forward(self, x, start=0):
        """x (B, T, C), the first token at position `start`; start + T at most max_len."""
        end = start + x.shape[1]
        _check_length(end, self.max_len)
        return self.dropout(x + self.table[start:end])


class LearnedPositions(Embedding):
    """A vector for each position, trained like any other: weight (max_len, d_model)."""

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
            f"A sequence of {length} tokens is longer than max_len = {max_len}. Shorten it, or build the model with a larger max_len."
        )


# ---------------------------------------------------------------- inside the attention


class Rotary(Module):
    """Turns pairs of a query's or key's numbers by position times frequency (Su et al. 2021).

    Both being turned, their product depends on the distance alone. Pair i turns by pos base^(-2i/D). Which numbers make a pair
    differs between published weights:

    layout   "halves": i and i + D/2 (GPT-NeoX, Hugging Face's Llama);  "interleaved": 2i and 2i + 1 (the paper, Meta's Llama)
    """

    def __init__(self, head_dim, max_len=2048, base=10000.0, layout="halves"):
        if head_dim % 2:
            raise ValueError(f"Rotary turns pairs of numbers, so head_dim must be even, got {head_dim}.")
        if layout not in ("halves", "interleaved"):
            raise ValueError(f"Rotary: layout must be 'halves' or 'interleaved', got {layout!r}.")
        self.head_dim, self.max_len, self.layout = head_dim, max_len, layout
        rates = base ** (-np.arange(0, head_dim, 2) / head_dim)
        angle = np.arange(max_len)[:, None] * rates  # (max_len, D/2)
        # float64: rounded only to the dtype of what is turned
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
    """The rows of a query's or key's projection (H D, C) reordered, so that layout "halves" does what "interleaved" did."""
    rows, columns = weight.shape
    return weight.reshape(num_heads, rows // num_heads // 2, 2, columns).swapaxes(1, 2).reshape(rows, columns)


def alibi_slopes(num_heads):
    """(H,): 2^(-8/H), 2^(-16/H) ...; where H is no power of two, those of the next lower one and every other of the next higher."""
    lower = 2 ** int(np.log2(num_heads))
    slopes = 2.0 ** (-8 / lower * np.arange(1, lower + 1))
    between = 2.0 ** (-4 / lower * np.arange(1, 2 * lower + 1, 2))
    return np.concatenate([slopes, between])[:num_heads]


def alibi(num_heads, queries, keys=None):
    """A causal mask of floats (1, H, Tq, Tk) to add: minus a slope of the head's own times the distance (Press et al. 2022).

    Needs no other positions, and no length is too long for it. The last query stands at the last key, as in causal_mask.
    """
    keys = queries if keys is None else keys
    distance = np.arange(keys - queries, keys)[:, None] - np.arange(keys)  # (Tq, Tk)
    bias = -alibi_slopes(num_heads)[:, None, None] * distance
    return Tensor(np.where(distance < 0, -np.inf, bias)[None])
