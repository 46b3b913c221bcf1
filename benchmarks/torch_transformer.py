"""The paper's encoder-decoder in plain PyTorch, as its users write it: the counterpart of our Transformer.

It is the fastest natural form: scaled_dot_product_attention with boolean masks; query, key and value from one
product (key and value in cross-attention); no dropout layers, because the rate is 0.
"""

import math
import re

import torch
from torch import nn
from torch.nn import functional as F


class SelfAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.in_proj = nn.Linear(d_model, 3 * d_model)
        self.out_proj = nn.Linear(d_model, d_model)

    def forward(self, x, mask):
        q, k, v = self.in_proj(x).chunk(3, dim=-1)
        return self.out_proj(attend(q, k, v, mask, self.num_heads))


class CrossAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.q_proj = nn.Linear(d_model, d_model)
        self.kv_proj = nn.Linear(d_model, 2 * d_model)
        self.out_proj = nn.Linear(d_model, d_model)

    def forward(self, x, memory, mask):
        k, v = self.kv_proj(memory).chunk(2, dim=-1)
        return self.out_proj(attend(self.q_proj(x), k, v, mask, self.num_heads))


def attend(q, k, v, mask, num_heads):
    """Attend with queries (B, Tq, C) to keys and values (B, Tk, C): -> (B, Tq, C).

    The mask is True where a query may attend.
    """
    q, k, v = (x.unflatten(-1, (num_heads, -1)).transpose(1, 2) for x in (q, k, v))  # (B, H, T, D)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(1, 2).flatten(2)


class EncoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.self_attention = SelfAttention(d_model, num_heads)
        self.linear1, self.linear2 = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)

    def forward(self, x, mask):
        x = self.norm1(x + self.self_attention(x, mask))
        return self.norm2(x + self.linear2(F.relu(self.linear1(x))))


class DecoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.self_attention = SelfAttention(d_model, num_heads)
        self.cross_attention = CrossAttention(d_model, num_heads)
        self.linear1, self.linear2 = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(d_model) for _ in range(3))

    def forward(self, x, memory, tgt_mask, src_mask):
        x = self.norm1(x + self.self_attention(x, tgt_mask))
        x = self.norm2(x + self.cross_attention(x, memory, src_mask))
        return self.norm3(x + self.linear2(F.relu(self.linear1(x))))


class Transformer(nn.Module):
    """Encoder-decoder: src (B, Ts), tgt (B, Tt) -> logits (B, Tt, V).

    Post-norm, ReLU, one embedding for source, target and output.
    """

    def __init__(self, vocab_size, d_model, num_heads, num_layers, d_ff, max_len, pad):
        super().__init__()
        self.pad, self.scale = pad, math.sqrt(d_model)
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.encoder = nn.ModuleList(EncoderLayer(d_model, num_heads, d_ff) for _ in range(num_layers))
        self.decoder = nn.ModuleList(DecoderLayer(d_model, num_heads, d_ff) for _ in range(num_layers))
        self.register_buffer("positions", sinusoidal(max_len, d_model), persistent=False)
        self.register_buffer(
            "causal", torch.ones(max_len, max_len, dtype=torch.bool).tril(), persistent=False
        )

    def embed(self, tokens):
        return self.embedding(tokens) * self.scale + self.positions[: tokens.shape[1]]

    def forward(self, src, tgt):
        T = tgt.shape[1]
        src_mask = (src != self.pad)[:, None, None, :]
        tgt_mask = self.causal[:T, :T] & (tgt != self.pad)[:, None, None, :]
        memory = self.embed(src)
        for layer in self.encoder:
            memory = layer(memory, src_mask)
        x = self.embed(tgt)
        for layer in self.decoder:
            x = layer(x, memory, tgt_mask, src_mask)
        return F.linear(x, self.embedding.weight)


def sinusoidal(length, d_model):
    """Positions (length, d_model): alternating sines and cosines, wavelengths from 2 pi to 20,000 pi."""
    angle = torch.arange(length)[:, None] * torch.exp(
        torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model)
    )
    return torch.stack((angle.sin(), angle.cos()), dim=-1).flatten(1)


# ---------------------------------------------------------------- the same weights and settings as ours

OUR_NAMES = (
    (r"self_attention\.[qkv]_proj", "self_attention.in_proj"),
    (r"cross_attention\.[kv]_proj", "cross_attention.kv_proj"),
    (r"residual(\d)\.norm", r"norm\1"),
    (r"feed_forward\.", ""),
)


def weights_of(ours):
    """Convert our model's parameters to a state_dict of the model above, with q, k and v joined."""
    joined = {}
    for name, parameter in ours.named_parameters():
        for pattern, replacement in OUR_NAMES:
            name = re.sub(pattern, replacement, name)
        joined.setdefault(name, []).append(torch.tensor(parameter.data))
    return {name: torch.cat(parts) for name, parts in joined.items()}


def adamw(model, ours, **how):
    """Make a torch.optim.AdamW with the settings of our optimizer.

    Its first group holds the matrices, its second the other parameters.
    """
    matrices, others = [
        {key: value for key, value in group.items() if key != "params"} for group in ours.param_groups
    ]
    groups = [
        {**matrices, "params": [p for p in model.parameters() if p.ndim > 1]},
        {**others, "params": [p for p in model.parameters() if p.ndim <= 1]},
    ]
    return torch.optim.AdamW(groups, **how)
