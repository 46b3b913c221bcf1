"""BERT: an encoder that fills in hidden tokens, looking both ways (Devlin et al. 2019). Knows tokens, not text.

Post-norm, GELU, learned positions, a type for each token (sentence A or B), a summary of the first token.
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
from models.tokens import token_numbers

IGNORED = -100  # F.cross_entropy's ignore_index: a place where nothing is asked


class BERT(Module):
    """Tokens in, a vector for each out, and the logits of what stands at each place.

    pad    the token number that fills up short sequences; nothing attends to it
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
        """tokens (B, T) -> (B, T, C). types (B, T): which sentence a token belongs to, 0 if not given; mask as in attention."""
        tokens = token_numbers(tokens)
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
        """tokens (B, T) -> logits (B, T, V) of what stands at each place; the output matrix is the token embedding again."""
        x = self.transform_norm(self.activation(self.transform(self.encode(tokens, types, mask))))
        return F.linear(x, self.tokens.weight, self.output_bias)


def hide(tokens, mask_token, ordinary, rng=None, share=0.15, never=()):
    """(what the model sees, what it is asked), both (B, T): the masking of BERT (section 3.1).

    Of all tokens, except those in `never` (padding and its like), a `share` is asked for. Of these 80 in 100 are replaced by
    mask_token, 10 by any of the `ordinary` tokens (low, high), and 10 left as they are: what stands there cannot be trusted,
    so every place must be understood. Elsewhere the answer is IGNORED.
    """
    if np.shape(ordinary) != (2,) or not ordinary[0] < ordinary[1]:
        raise ValueError(
            f"ordinary is a pair (low, high), the ordinary tokens being low to high - 1, such as (2, 50); got {ordinary!r}."
        )
    rng = streams.stream("masking") if rng is None else rng
    tokens = tokens.data if isinstance(tokens, Tensor) else np.asarray(tokens)
    asked = (rng.random(tokens.shape) < share) & ~np.isin(tokens, never)
    fate = rng.random(tokens.shape)  # a number of its own: not the one that decided what is asked
    seen = np.where(asked & (fate < 0.8), mask_token, tokens)
    seen = np.where(asked & (fate >= 0.8) & (fate < 0.9), rng.integers(*ordinary, size=tokens.shape), seen)
    return seen, np.where(asked, tokens, IGNORED)
