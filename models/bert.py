"""BERT: an encoder that fills in hidden tokens from both sides (Devlin et al. 2019).

Post-norm, GELU, learned positions, a type for each token (sentence A or B), a pooler on the first token.
"""

import numpy as np

from minigrad import Tensor, tanh
from minigrad import functional as F
from minigrad import random as streams
from minigrad.nn import Dropout, Embedding, LayerNorm, Linear, Module, ModuleList, Parameter, init
from minigrad.ops.creation import zeros
from models.attention import padding_mask
from models.blocks import ACTIVATIONS, EncoderLayer
from models.positional import LearnedPositions
from models.tokens import token_ids

IGNORED = -100  # F.cross_entropy's ignore_index: a position without a target


class BERT(Module):
    """Tokens -> a vector for each (encode), or the logits of the token at each position (forward).

    pad    the token id that fills up short sequences; nothing attends to it
    """

    def __init__(self, vocab_size, d_model=768, num_heads=12, num_layers=12, d_ff=None, max_len=512, dropout=0.1, types=2, pad=0,
                 activation="gelu"):  # fmt: skip
        self.pad = pad
        self.tokens = Embedding(vocab_size, d_model)
        self.positions = LearnedPositions(max_len, d_model)
        self.types = Embedding(types, d_model)
        self.norm, self.dropout = LayerNorm(d_model), Dropout(dropout)
        settings = (d_model, num_heads, d_ff or 4 * d_model, dropout, "post", activation)
        self.layers = ModuleList(EncoderLayer(*settings) for _ in range(num_layers))
        self.pooler = Linear(d_model, d_model)
        self.transform, self.activation = Linear(d_model, d_model), ACTIVATIONS[activation]()
        self.transform_norm = LayerNorm(d_model)
        self.output_bias = Parameter(zeros(vocab_size))
        for p in self.parameters():
            if p.ndim > 1:
                init.normal_(p, std=0.02)

    def encode(self, tokens, types=None, mask=None):
        """tokens (B, T) -> (B, T, C). types (B, T): the token's sentence, default 0; mask as in attention."""
        tokens = token_ids(tokens)
        mask = padding_mask(tokens, self.pad) if mask is None else mask
        types = np.zeros(tokens.shape, dtype=np.int64) if types is None else types
        x = self.tokens(tokens) + self.positions(np.arange(tokens.shape[1])) + self.types(types)
        x = self.dropout(self.norm(x))
        for layer in self.layers:
            x = layer(x, mask)
        return x

    def pool(self, encoded):
        """(B, T, C) -> (B, C): a summary of the sequence, from its first token."""
        return tanh(self.pooler(encoded[:, 0]))

    def forward(self, tokens, types=None, mask=None):
        """tokens (B, T) -> logits (B, T, V) of the token at each position. Tied to the token embedding."""
        x = self.transform_norm(self.activation(self.transform(self.encode(tokens, types, mask))))
        return F.linear(x, self.tokens.weight, self.output_bias)


def hide(tokens, mask_token, ordinary, rng=None, share=0.15, never=()):
    """Mask tokens as BERT does (section 3.1). Returns (the model's input, its targets), both (B, T).

    Chooses a `share` of all tokens as targets, except those in `never`, such as padding. Of 100 chosen tokens
    80 are replaced by mask_token, 10 by one of the `ordinary` tokens (low, high), and 10 stay: the model
    cannot trust any token it reads, so it must understand every position. Other positions have the target
    IGNORED.
    """
    if np.shape(ordinary) != (2,) or not ordinary[0] < ordinary[1]:
        raise ValueError(
            "ordinary is a pair (low, high), the ordinary tokens being low to high - 1, such as (2, 50); "
            f"got {ordinary!r}."
        )
    rng = streams.stream("masking") if rng is None else rng
    tokens = tokens.data if isinstance(tokens, Tensor) else np.asarray(tokens)
    asked = (rng.random(tokens.shape) < share) & ~np.isin(tokens, never)
    fate = rng.random(tokens.shape)  # drawn anew: independent of the choice of targets
    seen = np.where(asked & (fate < 0.8), mask_token, tokens)
    seen = np.where(asked & (fate >= 0.8) & (fate < 0.9), rng.integers(*ordinary, size=tokens.shape), seen)
    return seen, np.where(asked, tokens, IGNORED)
