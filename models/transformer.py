"""The encoder-decoder of "Attention Is All You Need" (Vaswani et al. 2017).

Post-norm, ReLU, sinusoidal positions, embeddings scaled by sqrt(d_model) and shared with the output, as in
the paper; norm="pre" gives today's order. The loss smooths labels: F.cross_entropy(..., label_smoothing=0.1).
"""

import math

import numpy as np

from minigrad import Tensor, no_grad
from minigrad import functional as F
from minigrad.nn import Embedding, Identity, LayerNorm, Module, ModuleList, init
from models.attention import KVCache, SourceCache, causal_mask, padding_mask
from models.blocks import DecoderLayer, EncoderLayer
from models.decoding import Rows, answers
from models.positional import PositionalEncoding
from models.tokens import token_ids


class Transformer(Module):
    """Source tokens and the target so far -> logits of each next target token.

    vocab_size      of source and target, which share one embedding
    src_vocab_size  of the source, if it has an embedding of its own
    pad             the token id that fills up short sequences; nothing attends to it
    norm            "post" (the paper) or "pre"; a pre-norm stack ends with a norm of its own
    tie_output      the output matrix is the target embedding (section 3.4), else a separate matrix
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
        self._initialize()

    def _initialize(self):
        """Xavier for matrices. Embeddings scaled by sqrt(d_model) have variance 1, like the positions."""
        embeddings = {id(self.embedding.weight), id(self.src_embedding.weight), id(self.output.weight)}
        for p in self.parameters():
            if id(p) in embeddings:
                init.normal_(p, std=self.d_model**-0.5)
            elif p.ndim > 1:
                init.xavier_uniform_(p)

    def embed(self, tokens, embedding, start=0):
        return self.positions(embedding(tokens) * math.sqrt(self.d_model), start)  # (B, T, C)

    def encode(self, src, src_mask=None):
        """src (B, Ts) -> memory (B, Ts, C)."""
        src_mask = padding_mask(src, self.pad) if src_mask is None else src_mask
        x = self.embed(src, self.src_embedding)
        for layer in self.encoder:
            x = layer(x, src_mask)
        return self.encoder_norm(x)

    def decode(self, tgt, memory, tgt_mask=None, src_mask=None, cache=None):
        """tgt (B, Tt), memory (B, Ts, C) -> logits (B, Tt, V): at each position, of the next token.

        cache   from new_cache(): tgt continues the tokens in it. tgt_mask then covers all of them, (..., Tt,
                past + Tt), and must be given if the earlier tokens contain padding
        """
        past = cache[0][0].length if cache else 0
        if tgt_mask is None:
            before = np.full((tgt.shape[0], past), self.pad + 1)  # any token that is not padding
            so_far = np.concatenate([before, tgt.data if isinstance(tgt, Tensor) else tgt], 1)
            tgt_mask = causal_mask(tgt.shape[1], so_far.shape[1]) & padding_mask(so_far, self.pad)
        x = self.embed(tgt, self.embedding, past)
        for i, layer in enumerate(self.decoder):
            x = layer(x, memory, tgt_mask, src_mask, cache[i] if cache else (None, None))
        return F.linear(self.decoder_norm(x), self.output.weight)

    def new_cache(self):
        """An empty cache of the target and one of the source, for each layer of the decoder."""
        return [(KVCache(self.max_len), SourceCache()) for _ in self.decoder]

    def forward(self, src, tgt, src_mask=None, tgt_mask=None):
        """src (B, Ts), tgt (B, Tt) -> logits (B, Tt, V). By default masks hide padding and later tokens."""
        src, tgt = token_ids(src, "src"), token_ids(tgt, "tgt")
        src_mask = padding_mask(src, self.pad) if src_mask is None else src_mask
        return self.decode(tgt, self.encode(src, src_mask), tgt_mask, src_mask)

    def generate(self, src, bos, eos, max_new=None, beams=1, length_penalty=0.6, cache=True):
        """Write the target token by token after `bos`, until every row has `eos`, at most max_new tokens.

        src (B, Ts) -> an array (B, <= max_new) without bos; after its eos a row is filled with pad.
        Greedy: the likeliest token each time. With beams > 1: the likeliest answer that beam search finds
        (models.decoding). The cache only makes it faster. Dropout is off meanwhile.
        """
        src = token_ids(src, "src")
        max_new = self.max_len if max_new is None else min(max_new, self.max_len)
        return answers(Translation(self, src, bos, cache), eos, max_new, beams, length_penalty)


class Translation(Rows):
    """The target rows that a Transformer writes, one a source row, for decoding.steps and beam_search."""

    def __init__(self, model, src, bos, cache=True):
        super().__init__(model, np.full((len(src), 1), bos), model.pad)
        self.cache = model.new_cache() if cache else None
        with no_grad(), self.evaluating():
            self.src_mask = padding_mask(src, model.pad)
            self.memory = model.encode(src, self.src_mask)  # (B, Ts, C)

    @no_grad()
    def logits(self):
        """The logits (R, V) of each row's next token."""
        T = self.tokens.shape[1]
        new = T - (self.cache[0][0].length if self.cache else 0)
        mask = causal_mask(new, T) & padding_mask(self.tokens, self.pad)
        with self.evaluating():
            return self.model.decode(
                Tensor(self.tokens[:, T - new :]), self.memory, mask, self.src_mask, self.cache
            ).data[:, -1]

    def select(self, rows):
        super().select(rows)
        self.memory, self.src_mask = self.memory[rows], self.src_mask[rows]
        for layer in self.cache or ():
            for part in layer:
                part.select(rows)
