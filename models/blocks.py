"""The blocks that stack into Transformers: feed-forward, residual + norm, encoder layer, decoder layer.

Knows how sublayers are joined; not what goes in or what is made of what comes out. C is d_model, T a length, B the batch.
"""

from minigrad.nn import GELU, Dropout, LayerNorm, Linear, Module, ReLU
from models.attention import MultiHeadAttention

ACTIVATIONS = {"relu": ReLU, "gelu": GELU}


class FeedForward(Module):
    """max(0, x W_1 + b_1) W_2 + b_2, at each position alone (Vaswani et al. 2017, equation 2)."""

    def __init__(self, d_model, d_ff, dropout=0.0, activation="relu"):
        if activation not in ACTIVATIONS:
            raise ValueError(f"activation must be one of {', '.join(ACTIVATIONS)}, got {activation!r}.")
        self.linear1 = Linear(d_model, d_ff)
        self.activation = ACTIVATIONS[activation]()
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(d_ff, d_model)

    def forward(self, x):
        return self.linear2(self.dropout(self.activation(self.linear1(x))))  # (B, T, C)


class Residual(Module):
    """A sublayer with its way around it, and the norm.

    post (the paper):  norm(x + dropout(sublayer(x)))     every sum is normalised
    pre  (today):      x + dropout(sublayer(norm(x)))     the way around stays free, so gradients reach any depth unscaled
    """

    def __init__(self, d_model, dropout=0.0, norm="post"):
        if norm not in ("post", "pre"):
            raise ValueError(f"norm must be 'post' (as in the paper) or 'pre' (as today), got {norm!r}.")
        self.norm = LayerNorm(d_model)
        self.dropout = Dropout(dropout)
        self.order = norm

    def forward(self, x, sublayer):
        if self.order == "post":
            return self.norm(x + self.dropout(sublayer(x)))
        return x + self.dropout(sublayer(self.norm(x)))

    def extra_repr(self):
        return self.order


class EncoderLayer(Module):
    """Self-attention, then feed-forward, each in a residual."""

    def __init__(self, d_model, num_heads, d_ff, dropout=0.0, norm="post", activation="relu"):
        self.self_attention = MultiHeadAttention(d_model, num_heads, dropout)
        self.feed_forward = FeedForward(d_model, d_ff, dropout, activation)
        self.residual1 = Residual(d_model, dropout, norm)
        self.residual2 = Residual(d_model, dropout, norm)

    def forward(self, x, mask=None):
        """x (B, T, C); mask: which source tokens may be seen."""
        x = self.residual1(x, lambda x: self.self_attention(x, mask=mask))
        return self.residual2(x, self.feed_forward)


class DecoderLayer(Module):
    """Masked self-attention, cross-attention to the encoder's output, feed-forward, each in a residual."""

    def __init__(self, d_model, num_heads, d_ff, dropout=0.0, norm="post", activation="relu"):
        self.self_attention = MultiHeadAttention(d_model, num_heads, dropout)
        self.cross_attention = MultiHeadAttention(d_model, num_heads, dropout)
        self.feed_forward = FeedForward(d_model, d_ff, dropout, activation)
        self.residual1 = Residual(d_model, dropout, norm)
        self.residual2 = Residual(d_model, dropout, norm)
        self.residual3 = Residual(d_model, dropout, norm)

    def forward(self, x, memory, tgt_mask=None, src_mask=None):
        """x (B, Tt, C), memory (B, Ts, C). tgt_mask hides the future and target padding; src_mask hides *source* padding."""
        x = self.residual1(x, lambda x: self.self_attention(x, mask=tgt_mask))
        x = self.residual2(x, lambda x: self.cross_attention(x, memory, memory, mask=src_mask))
        return self.residual3(x, self.feed_forward)
