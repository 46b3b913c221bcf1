"""Llama: a decoder-only Transformer as they are built today (Touvron et al. 2023).

Differences from GPT-2: RMSNorm instead of LayerNorm, rotary positions instead of learned ones, SwiGLU instead
of GELU, keys and values shared by groups of heads, no biases, and a separate output matrix.
"""

import math

import numpy as np

from minigrad.nn import Embedding, Module, ModuleList, RMSNorm, init
from models.attention import KVCache, MultiHeadAttention
from models.blocks import SwiGLU
from models.gpt import in_context, last_place, project
from models.positional import Rotary
from models.tokens import token_ids


class Layer(Module):
    """Attention and feed-forward, each in a pre-norm residual."""

    def __init__(self, d_model, num_heads, num_kv_heads, d_ff, dropout, rotary, eps, head_dim=None):
        self.attention_norm = RMSNorm(d_model, eps)
        self.attention = MultiHeadAttention(
            d_model, num_heads, dropout, False, num_kv_heads, head_dim, rotary=rotary
        )
        self.feed_forward_norm = RMSNorm(d_model, eps)
        self.feed_forward = SwiGLU(d_model, d_ff, dropout)

    def forward(self, x, mask=None, positions=None, cache=None):
        x = x + self.attention(self.attention_norm(x), mask=mask, positions=positions, cache=cache)
        return x + self.feed_forward(self.feed_forward_norm(x))


class GrowingCache(KVCache):
    """A KVCache that doubles its size when it is full: published contexts are long, most chats are short."""

    def __init__(self, max_len, first=256):
        super().__init__(min(first, max_len))
        self.limit = max_len

    def update(self, k, v):
        needed = self.length + k.shape[2]
        if needed > self.max_len:
            self.max_len = min(self.limit, max(needed, 2 * self.max_len))
            if self.k is not None:
                room = ((0, 0), (0, 0), (0, self.max_len - self.k.shape[2]), (0, 0))
                self.k, self.v = np.pad(self.k, room), np.pad(self.v, room)
        return super().update(k, v)


class Llama(Module):
    """Tokens -> logits of each next token.

    num_kv_heads   heads of keys and values, a divisor of num_heads; by default num_heads
    d_ff           by default 8/3 d_model, so that SwiGLU's three matrices are as large as two of 4 d_model
    rope_layout    which elements rotate together: "halves" or "interleaved" (see models.positional.Rotary)
    tie_output     the output matrix is the token embedding again
    """

    def __init__(self, vocab_size, d_model=512, num_heads=8, num_layers=8, num_kv_heads=None, d_ff=None, max_len=1024, dropout=0.0,
                 rope_base=10000.0, rope_layout="halves", eps=1e-5, tie_output=False, head_dim=None):  # fmt: skip
        self.max_len = max_len
        self.embedding = Embedding(vocab_size, d_model)
        self.rotary = Rotary(head_dim or d_model // num_heads, max_len, rope_base, rope_layout)
        d_ff = d_ff or -(-8 * d_model // 3)
        settings = (d_model, num_heads, num_kv_heads, d_ff, dropout, self.rotary, eps, head_dim)
        self.layers = ModuleList(Layer(*settings) for _ in range(num_layers))
        self.norm = RMSNorm(d_model, eps)
        self.output = self.embedding if tie_output else Embedding(vocab_size, d_model)
        self._initialize(num_layers)

    def _initialize(self, num_layers):
        """Normal with 0.02, and smaller for matrices that add to the residual stream, as in GPT-2."""
        for name, p in self.named_parameters():
            if p.ndim > 1:
                added = name.endswith(("out_proj.weight", "down_proj.weight"))
                init.normal_(p, std=0.02 / math.sqrt(2 * num_layers) if added else 0.02)

    def new_cache(self):
        """An empty cache for each layer, num_heads / num_kv_heads times smaller than with all heads."""
        return [GrowingCache(self.max_len) for _ in self.layers]

    def forward(self, tokens, mask=None, positions=None, cache=None, last=False):
        """tokens (B, T) -> logits (B, T, V): at each position, of the next token. Arguments as in GPT."""
        tokens = token_ids(tokens)
        seen, positions = in_context(tokens, mask, positions, cache)
        x = self.embedding(tokens)  # (B, T, C)
        for i, layer in enumerate(self.layers):
            x = layer(x, seen, positions, None if cache is None else cache[i])
        return project(self.norm(last_place(x) if last else x), self.output)  # (B, T, V)
