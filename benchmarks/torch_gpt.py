"""GPT in plain PyTorch, as its users write it (after nanoGPT): the counterpart of models/gpt.py.

The parameters have the names of ours, so that our weights load unchanged. Query, key and value come from one
product, attention is PyTorch's own kernel, and the output layer shares the embedding. There are no dropout
layers, because the rate is 0.
"""

import math

import torch
from torch import nn
from torch.nn import functional as F


class LayerNorm(nn.Module):
    """Layer norm without a bias, as in nanoGPT."""

    def __init__(self, d_model):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d_model))

    def forward(self, x):
        return F.layer_norm(x, self.weight.shape, self.weight, None, 1e-5)


class CausalSelfAttention(nn.Module):
    """Causal self-attention. manual=True is unfused, as before PyTorch had a kernel for it."""

    def __init__(self, d_model, heads, context, manual=False):
        super().__init__()
        self.heads, self.manual = heads, manual
        self.c_attn = nn.Linear(d_model, 3 * d_model, bias=False)
        self.c_proj = nn.Linear(d_model, d_model, bias=False)
        if manual:
            self.register_buffer(
                "seen", torch.ones(context, context, dtype=torch.bool).tril(), persistent=False
            )

    def forward(self, x, cache=None):
        B, T, C = x.shape
        q, k, v = (
            part.view(B, T, self.heads, C // self.heads).transpose(1, 2)
            for part in self.c_attn(x).split(C, dim=2)
        )
        if cache is not None:
            k, v = cache.update(k, v)
        y = (
            self.step_by_step(q, k, v)
            if self.manual
            else F.scaled_dot_product_attention(q, k, v, is_causal=T > 1)
        )
        return self.c_proj(y.transpose(1, 2).contiguous().view(B, T, C))

    def step_by_step(self, q, k, v):
        T = q.shape[2]
        scores = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.shape[-1]))
        return F.softmax(scores.masked_fill(~self.seen[:T, :T], float("-inf")), dim=-1) @ v


class MLP(nn.Module):
    def __init__(self, d_model):
        super().__init__()
        self.c_fc = nn.Linear(d_model, 4 * d_model, bias=False)
        self.c_proj = nn.Linear(4 * d_model, d_model, bias=False)

    def forward(self, x):
        return self.c_proj(F.gelu(self.c_fc(x), approximate="tanh"))


class Block(nn.Module):
    def __init__(self, d_model, heads, context, manual):
        super().__init__()
        self.ln_1, self.ln_2 = LayerNorm(d_model), LayerNorm(d_model)
        self.attn = CausalSelfAttention(d_model, heads, context, manual)
        self.mlp = MLP(d_model)

    def forward(self, x, cache=None):
        x = x + self.attn(self.ln_1(x), cache)
        return x + self.mlp(self.ln_2(x))


class GPT(nn.Module):
    """GPT: tokens (B, T) -> logits (B, T, V)."""

    def __init__(self, vocabulary, layers, heads, d_model, context, manual=False):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocabulary, d_model), nn.Embedding(context, d_model)
        self.h = nn.ModuleList(Block(d_model, heads, context, manual) for _ in range(layers))
        self.ln_f = LayerNorm(d_model)

    def forward(self, tokens, past=0, cache=None):
        """Compute the logits. past: number of tokens in the cache, which has one KVCache per block."""
        x = self.wte(tokens) + self.wpe(torch.arange(past, past + tokens.shape[1]))
        for i, block in enumerate(self.h):
            x = block(x, None if cache is None else cache[i])
        return F.linear(self.ln_f(x), self.wte.weight)


def groups(model, decay):
    """Group the parameters for AdamW: weight decay for matrices, none for the weights of norms."""
    matrices = [p for p in model.parameters() if p.ndim > 1]
    others = [p for p in model.parameters() if p.ndim <= 1]
    return [{"params": matrices, "weight_decay": decay}, {"params": others, "weight_decay": 0.0}]


class KVCache:
    """Keys and values of the tokens so far, of one layer and one row, in preallocated arrays."""

    def __init__(self, heads, context, head_dim):
        self.k, self.v, self.length = (
            torch.empty(1, heads, context, head_dim),
            torch.empty(1, heads, context, head_dim),
            0,
        )

    def update(self, k, v):
        past, self.length = self.length, self.length + k.shape[2]
        self.k[:, :, past : self.length], self.v[:, :, past : self.length] = k, v
        return self.k[:, :, : self.length], self.v[:, :, : self.length]
