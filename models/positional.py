"""Where a token stands, added to what it is: attention alone cannot tell one order from another. Knows positions only."""

import numpy as np

from minigrad import Tensor
from minigrad.nn import Dropout, Module


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

    def forward(self, x):
        """x (B, T, C), T at most max_len."""
        T = x.shape[1]
        if T > self.max_len:
            raise ValueError(
                f"A sequence of {T} tokens is longer than max_len = {self.max_len}. Shorten it, or build the model with a larger max_len."
            )
        return self.dropout(x + self.table[:T])
