"""GPT-2: a decoder-only Transformer (Radford et al. 2019), with the names of the published weights.

Pre-norm, learned positions, the tanh form of GELU, and the token embedding again as the output matrix.
"""

import math

import numpy as np

from minigrad import checkpoint
from minigrad import functional as F
from minigrad.nn import Dropout, Embedding, LayerNorm, Linear, Module, ModuleList, init
from models.attention import KVCache, MultiHeadAttention, causal_mask
from models.positional import LearnedPositions
from models.tokens import token_ids


class CausalSelfAttention(MultiHeadAttention):
    """MultiHeadAttention with its three projections in one matrix, c_attn."""

    def __init__(self, d_model, num_heads, dropout=0.0, bias=True):
        super().__init__(d_model, num_heads, dropout, bias)
        del self.q_proj, self.k_proj, self.v_proj, self.out_proj
        self.c_attn = Linear(d_model, 3 * d_model, bias)
        self.c_proj = Linear(d_model, d_model, bias)

    def forward(self, x, mask=None, cache=None):
        """x (B, T, C) -> (B, T, C)."""
        q, k, v = F.split_heads(self.c_attn(x), self.head_dim, 3)  # (B, H, T, D) each
        k, v = (k, v) if cache is None else cache.update(k, v)
        return self.c_proj(self.attend(q, k, v, mask, self.keep_weights)[0])


class MLP(Module):
    """The feed-forward network."""

    def __init__(self, d_model, d_ff, bias=True):
        self.c_fc = Linear(d_model, d_ff, bias)
        self.c_proj = Linear(d_ff, d_model, bias)

    def forward(self, x):
        return self.c_proj(F.gelu(self.c_fc(x), "tanh"))


class Block(Module):
    """Attention and feed-forward, each in a pre-norm residual."""

    def __init__(self, d_model, num_heads, d_ff, dropout=0.0, bias=True):
        self.ln_1 = LayerNorm(d_model, bias=bias)
        self.attn = CausalSelfAttention(d_model, num_heads, dropout, bias)
        self.ln_2 = LayerNorm(d_model, bias=bias)
        self.mlp = MLP(d_model, d_ff, bias)
        self.dropout = Dropout(dropout)

    def forward(self, x, mask=None, cache=None):
        x = x + self.dropout(self.attn(self.ln_1(x), mask, cache))
        return x + self.dropout(self.mlp(self.ln_2(x)))


class GPT(Module):
    """Tokens -> logits of each next token.

    max_len       the context: the largest number of tokens that the model can attend to
    d_ff          4 d_model unless given
    bias          False omits the biases of linear layers and norms
    checkpointed  in training each block keeps only its input and is recomputed in backward: a third more
                  time, and memory that hardly grows with the layers
    init_std      the linear layers' initial standard deviation. GPT-2's 0.02 is near 1/sqrt(d_model) at its
                  widths, 768 to 1,600; a narrow model learns faster from its own 1/sqrt(d_model)
    """

    def __init__(self, vocab_size, d_model=768, num_heads=12, num_layers=12, max_len=1024, dropout=0.1, bias=True, d_ff=None,
                 init_std=0.02, checkpointed=False):  # fmt: skip
        self.max_len, self.checkpointed = max_len, checkpointed
        self.wte = Embedding(vocab_size, d_model)
        self.wpe = LearnedPositions(max_len, d_model)
        self.drop = Dropout(dropout)
        self.h = ModuleList(
            Block(d_model, num_heads, d_ff or 4 * d_model, dropout, bias) for _ in range(num_layers)
        )
        self.ln_f = LayerNorm(d_model, bias=bias)
        self._initialize(num_layers, init_std)

    def _initialize(self, num_layers, init_std):
        """Normal weights, 0.02 for embeddings; biases 0.

        The residual stream is a sum of 2 num_layers sublayers: their last matrices (c_proj) start smaller by
        sqrt(2 num_layers), so that its variance does not grow with depth."""
        for name, p in self.named_parameters():
            if name.endswith("c_proj.weight"):
                init.normal_(p, std=init_std / math.sqrt(2 * num_layers))
            elif p.ndim > 1:
                init.normal_(p, std=0.02 if name in ("wte.weight", "wpe.weight") else init_std)
            elif name.endswith(("c_attn.bias", "c_fc.bias", "c_proj.bias")):
                init.zeros_(p)

    def new_cache(self):
        """An empty KVCache for each layer."""
        return [KVCache(self.max_len) for _ in self.h]

    def forward(self, tokens, mask=None, positions=None, cache=None, last=False):
        """tokens (B, T) -> logits (B, T, V): at each position, of the next token.

        mask        True = may attend, for example padding_mask; later tokens are hidden in any case
        positions   (T,) or (B, T), if the tokens do not simply follow each other
        cache       from new_cache(): `tokens` then continue those already in it, and mask covers all of them
        last        compute the logits of the last position only, (B, 1, V): decoding needs no others
        """
        tokens = token_ids(tokens)
        seen, positions = in_context(tokens, mask, positions, cache)
        x = self.drop(self.wte(tokens) + self.wpe(positions))  # (B, T, C)
        for i, block in enumerate(self.h):
            if self.checkpointed and cache is None:
                x = checkpoint(block, x, seen)
            else:
                x = block(x, seen, None if cache is None else cache[i])
        return project(self.ln_f(last_place(x) if last else x), self.wte)  # (B, T, V)


def in_context(tokens, mask, positions, cache):
    """(mask, positions) of tokens (B, T) that follow those in the cache: `mask` and the causal mask."""
    T, past = tokens.shape[1], cache[0].length if cache else 0
    positions = np.arange(past, past + T) if positions is None else positions
    if T == 1:
        return mask, positions  # a single token sees all tokens so far
    causal = causal_mask(T, past + T)
    return causal if mask is None else causal & mask, positions


def last_place(x):
    """x (B, T, C) -> (B, 1, C)."""
    return x if x.shape[1] == 1 else x[:, -1:]


def project(x, embedding):
    """x (B, T, C) -> logits (B, T, V). A packed embedding multiplies part by part with its own method."""
    return embedding.project(x) if hasattr(embedding, "project") else F.linear(x, embedding.weight)


def from_gpt2_state(state):
    """Convert the published weights' state to our names.

    Removes the prefix "transformer." and stored masks; transposes Conv1D weights (in, out) to (out, in)."""
    out = {}
    for name, value in state.items():
        name = name.removeprefix("transformer.")
        if name == "lm_head.weight" or name.endswith((".attn.bias", ".attn.masked_bias")):
            continue
        array = value.detach().numpy() if hasattr(value, "detach") else np.asarray(value)
        is_conv1d = name.endswith(("c_attn.weight", "c_proj.weight", "c_fc.weight"))
        out[name] = np.ascontiguousarray(array.T) if is_conv1d else array
    return out
