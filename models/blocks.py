"""The blocks that stack into Transformers: feed-forward, residual + norm, encoder layer, decoder layer.

Shapes: B is the batch size, T a sequence's length, C is d_model.
"""

from minigrad import functional as F
from minigrad.nn import GELU, Dropout, LayerNorm, Linear, Module, ReLU, RMSNorm
from models.attention import MultiHeadAttention

ACTIVATIONS = {"relu": ReLU, "gelu": GELU, "gelu_tanh": lambda: GELU("tanh")}
NORMS = {"layer": LayerNorm, "rms": RMSNorm}


def feed_forward(d_model, d_ff, dropout=0.0, activation="relu"):
    """The feed-forward network with this activation; "swiglu" gives a SwiGLU."""
    return (
        SwiGLU(d_model, d_ff, dropout)
        if activation == "swiglu"
        else FeedForward(d_model, d_ff, dropout, activation)
    )


class FeedForward(Module):
    """max(0, x W_1 + b_1) W_2 + b_2, at each position separately (Vaswani et al. 2017, equation 2)."""

    def __init__(self, d_model, d_ff, dropout=0.0, activation="relu"):
        if activation not in ACTIVATIONS:
            raise ValueError(
                f"activation must be one of {', '.join(ACTIVATIONS)}, swiglu, got {activation!r}."
            )
        self.linear1 = Linear(d_model, d_ff)
        self.activation = ACTIVATIONS[activation]()
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(d_ff, d_model)

    def forward(self, x):
        return self.linear2(self.dropout(self.activation(self.linear1(x))))  # (B, T, C)


class SwiGLU(Module):
    """(silu(x W_gate) * x W_up) W_down: the gate scales what passes of x W_up (Shazeer 2020, equation 6)."""

    def __init__(self, d_model, d_ff, dropout=0.0, bias=False):
        self.gate_proj = Linear(d_model, d_ff, bias)
        self.up_proj = Linear(d_model, d_ff, bias)
        self.dropout = Dropout(dropout)
        self.down_proj = Linear(d_ff, d_model, bias)

    def forward(self, x):
        return self.down_proj(self.dropout(F.silu(self.gate_proj(x)) * self.up_proj(x)))  # (B, T, C)


def make_norm(kind, d_model):
    """LayerNorm for "layer", RMSNorm for "rms"."""
    if kind not in NORMS:
        raise ValueError(f"norm_kind must be one of {', '.join(NORMS)}, got {kind!r}.")
    return NORMS[kind](d_model)


class Residual(Module):
    """A sublayer with a residual connection and a norm.

    post (the paper):  norm(x + dropout(sublayer(x)))     every sum is normalized
    pre  (today):      x + dropout(sublayer(norm(x)))     gradients reach any depth unscaled
    """

    def __init__(self, d_model, dropout=0.0, norm="post", norm_kind="layer"):
        if norm not in ("post", "pre"):
            raise ValueError(f"norm must be 'post' (as in the paper) or 'pre' (as today), got {norm!r}.")
        self.norm = make_norm(norm_kind, d_model)
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

    def __init__(
        self, d_model, num_heads, d_ff, dropout=0.0, norm="post", activation="relu", norm_kind="layer"
    ):
        self.self_attention = MultiHeadAttention(d_model, num_heads, dropout)
        self.feed_forward = feed_forward(d_model, d_ff, dropout, activation)
        self.residual1 = Residual(d_model, dropout, norm, norm_kind)
        self.residual2 = Residual(d_model, dropout, norm, norm_kind)

    def forward(self, x, mask=None):
        """x (B, T, C) -> (B, T, C). mask: True for the source tokens that may be attended to."""
        x = self.residual1(x, lambda x: self.self_attention(x, mask=mask))
        return self.residual2(x, self.feed_forward)


class DecoderLayer(Module):
    """Masked self-attention, cross-attention to the encoder's output, feed-forward, each in a residual."""

    def __init__(
        self, d_model, num_heads, d_ff, dropout=0.0, norm="post", activation="relu", norm_kind="layer"
    ):
        self.self_attention = MultiHeadAttention(d_model, num_heads, dropout)
        self.cross_attention = MultiHeadAttention(d_model, num_heads, dropout)
        self.feed_forward = feed_forward(d_model, d_ff, dropout, activation)
        self.residual1 = Residual(d_model, dropout, norm, norm_kind)
        self.residual2 = Residual(d_model, dropout, norm, norm_kind)
        self.residual3 = Residual(d_model, dropout, norm, norm_kind)

    def forward(self, x, memory, tgt_mask=None, src_mask=None, cache=(None, None)):
        """x (B, Tt, C), memory (B, Ts, C) -> (B, Tt, C).

        tgt_mask hides the future and target padding; src_mask hides *source* padding.
        cache: (KVCache, SourceCache) if x continues earlier target tokens."""
        own, source = cache
        x = self.residual1(x, lambda x: self.self_attention(x, mask=tgt_mask, cache=own))
        x = self.residual2(x, lambda x: self.cross_attention(x, memory, memory, mask=src_mask, cache=source))
        return self.residual3(x, self.feed_forward)
