"""The encoder-decoder of "Attention Is All You Need" (Vaswani et al. 2017). Knows token numbers, not what they stand for.

Post-norm, ReLU, sinusoidal positions, embeddings scaled by sqrt(d_model) and shared with the output, as in the paper;
norm="pre" gives today's order. Label smoothing is the loss's: F.cross_entropy(..., label_smoothing=0.1).
"""

import math

import numpy as np

from minigrad import Tensor, no_grad
from minigrad import functional as F
from minigrad.nn import Embedding, Identity, LayerNorm, Module, ModuleList, init
from models.attention import causal_mask, padding_mask
from models.blocks import DecoderLayer, EncoderLayer
from models.positional import PositionalEncoding


class Transformer(Module):
    """Source tokens and the target so far in, logits for each next target token out.

    vocab_size      of source and target, which share one embedding; src_vocab_size, if given, gives the source its own
    pad             the token number that fills up short sequences; nothing attends to it
    norm            "post" (the paper) or "pre"; a pre-norm stack ends with a norm of its own
    tie_output      the output layer is the target embedding, transposed (section 3.4); else a matrix of its own
    """

    def __init__(self, vocab_size, d_model=512, num_heads=8, num_layers=6, d_ff=2048, dropout=0.1, max_len=512, pad=0,
                 norm="post", activation="relu", src_vocab_size=None, tie_output=True):  # fmt: skip
        self.d_model, self.pad, self.max_len = d_model, pad, max_len
        self.embedding = Embedding(vocab_size, d_model)
        self.src_embedding = Embedding(src_vocab_size, d_model) if src_vocab_size else self.embedding
        self.positions = PositionalEncoding(d_model, max_len, dropout)
        settings = (d_model, num_heads, d_ff, dropout, norm, activation)
        self.encoder = ModuleList(EncoderLayer(*settings) for _ in range(num_layers))
        self.decoder = ModuleList(DecoderLayer(*settings) for _ in range(num_layers))
        self.encoder_norm = LayerNorm(d_model) if norm == "pre" else Identity()
        self.decoder_norm = LayerNorm(d_model) if norm == "pre" else Identity()
        self.output = self.embedding if tie_output else Embedding(vocab_size, d_model)
        self._first_values()

    def _first_values(self):
        """Glorot's for every matrix; embeddings so that, scaled by sqrt(d_model), they have variance 1 like the positions."""
        embeddings = {id(self.embedding.weight), id(self.src_embedding.weight), id(self.output.weight)}
        for p in self.parameters():
            if id(p) in embeddings:
                init.normal_(p, std=self.d_model**-0.5)
            elif p.ndim > 1:
                init.xavier_uniform_(p)

    def embed(self, tokens, embedding):
        return self.positions(embedding(tokens) * math.sqrt(self.d_model))  # (B, T, C)

    def encode(self, src, src_mask=None):
        """src (B, Ts) -> memory (B, Ts, C)."""
        src_mask = padding_mask(src, self.pad) if src_mask is None else src_mask
        x = self.embed(src, self.src_embedding)
        for layer in self.encoder:
            x = layer(x, src_mask)
        return self.encoder_norm(x)

    def decode(self, tgt, memory, tgt_mask=None, src_mask=None):
        """tgt (B, Tt), memory (B, Ts, C) -> logits (B, Tt, V): at each place, of the token that comes next."""
        if tgt_mask is None:
            tgt_mask = causal_mask(tgt.shape[1]) & padding_mask(tgt, self.pad)
        x = self.embed(tgt, self.embedding)
        for layer in self.decoder:
            x = layer(x, memory, tgt_mask, src_mask)
        return F.linear(self.decoder_norm(x), self.output.weight)

    def forward(self, src, tgt, src_mask=None, tgt_mask=None):
        """src (B, Ts), tgt (B, Tt) -> logits (B, Tt, V). The masks default to what `pad` and causality require."""
        src, tgt = _tokens(src, "src"), _tokens(tgt, "tgt")
        src_mask = padding_mask(src, self.pad) if src_mask is None else src_mask
        return self.decode(tgt, self.encode(src, src_mask), tgt_mask, src_mask)

    @no_grad()
    def generate(self, src, bos, eos, max_new=None):
        """Greedy decoding: from `bos`, the likeliest next token again and again, until `eos` everywhere or max_new tokens.

        src (B, Ts) -> an array (B, <= max_new) without bos; after its eos a row is filled with pad. Dropout is off meanwhile.
        """
        with self.evaluating():
            return self._generate(_tokens(src, "src"), bos, eos, max_new)

    def _generate(self, src, bos, eos, max_new):
        src_mask = padding_mask(src, self.pad)
        memory = self.encode(src, src_mask)
        out = np.full((len(src), 1), bos)
        done = np.zeros(len(src), bool)
        for _ in range(self.max_len if max_new is None else min(max_new, self.max_len)):
            logits = self.decode(Tensor(out), memory, src_mask=src_mask)[:, -1]  # (B, V)
            token = np.where(done, self.pad, logits.data.argmax(-1))
            out = np.concatenate([out, token[:, None]], axis=1)
            done |= token == eos
            if done.all():
                break
        return out[:, 1:]


def _tokens(tokens, name):
    tokens = tokens if isinstance(tokens, Tensor) else Tensor(np.asarray(tokens))
    if tokens.ndim != 2 or 0 in tokens.shape:
        raise ValueError(f"{name} must be token numbers of shape (batch, length), neither of them 0; got shape {tokens.shape}.")
    return tokens
