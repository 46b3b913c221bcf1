"""Samples for gradcheck: attention, residual blocks, encoder and decoder layers, whole models."""

import numpy as np

from minigrad import functional as F
from minigrad.gradcheck import Sample, leaf
from minigrad.nn import Module
from models.attention import MultiHeadAttention, causal_mask, padding_mask
from models.bert import BERT, IGNORED, hide
from models.blocks import DecoderLayer, EncoderLayer, FeedForward, Residual, SwiGLU
from models.gpt import GPT
from models.llama import Llama
from models.mlp import MLP
from models.positional import PositionalEncoding, Rotary, alibi
from models.recurrent import AdditiveAttention, EncoderDecoder, Reader
from models.transformer import Transformer

SAMPLES = []
SRC, TGT = np.array([[3, 1, 4, 0], [2, 2, 5, 1]]), np.array([[1, 3, 3], [1, 4, 0]])
NEXT = np.array([[3, 3, 2], [4, 2, 0]])


class Call(Module):
    """A module with its other arguments fixed: only its input tensors and its parameters vary."""

    def __init__(self, module, **fixed):
        self.module, self.fixed = module, fixed

    def forward(self, *inputs):
        return self.module(*inputs, **self.fixed)


def block(name, make, *shapes, **fixed):
    SAMPLES.append(Sample("block", name, lambda rng: (Call(make(), **fixed).double(), [leaf(rng.standard_normal(s)) for s in shapes])))  # fmt: skip


class ResidualFeedForward(Module):
    """A feed-forward network in a residual: the smallest block."""

    def __init__(self, norm, dropout=0.0):
        self.feed_forward, self.residual = FeedForward(4, 6, activation="gelu"), Residual(4, dropout, norm)

    def forward(self, x):
        return self.residual(x, self.feed_forward)


class ResidualAttention(Module):
    """Self-attention in a residual."""

    def __init__(self, norm, dropout=0.0):
        self.attention, self.residual = MultiHeadAttention(4, 2, dropout), Residual(4, dropout, norm)

    def forward(self, x, mask=None):
        return self.residual(x, lambda x: self.attention(x, mask=mask))


# fmt: off
block("self-attention", lambda: MultiHeadAttention(4, 2), (2, 3, 4))
block("self-attention, causal", lambda: MultiHeadAttention(4, 2), (2, 3, 4), mask=causal_mask(3))
block("self-attention, causal and padding", lambda: MultiHeadAttention(4, 2), (2, 3, 4), mask=causal_mask(3) & padding_mask(TGT, 0))
block("self-attention, dropout", lambda: MultiHeadAttention(4, 2, dropout=0.3), (2, 3, 4))
block("cross-attention", lambda: MultiHeadAttention(4, 2), (2, 3, 4), (2, 4, 4), mask=padding_mask(SRC, 0))
block("self-attention, shared keys", lambda: MultiHeadAttention(8, 4, num_kv_heads=2), (2, 3, 8), mask=causal_mask(3))
block("cross-attention, other widths", lambda: MultiHeadAttention(4, 2, head_dim=3, kv_dim=5), (2, 3, 4), (2, 4, 5))
block("self-attention, ALiBi", lambda: MultiHeadAttention(4, 2), (2, 3, 4), mask=alibi(2, 3))
for _layout in ("halves", "interleaved"):
    block(f"self-attention, rotary, {_layout}", lambda s=_layout: MultiHeadAttention(8, 2, rotary=Rotary(4, 8, layout=s)), (2, 3, 8), mask=causal_mask(3))
block("SwiGLU", lambda: SwiGLU(4, 5), (2, 3, 4))
block("encoder layer, SwiGLU, RMSNorm", lambda: EncoderLayer(4, 2, 5, 0.0, "pre", "swiglu", "rms"), (2, 4, 4), mask=padding_mask(SRC, 0))
block("feed-forward", lambda: FeedForward(4, 6), (2, 3, 4))
block("positional encoding", lambda: PositionalEncoding(5, 8, dropout=0.2), (2, 3, 5))
for _norm in ("post", "pre"):
    block(f"residual attention, {_norm}-norm", lambda n=_norm: ResidualAttention(n), (2, 3, 4), mask=causal_mask(3))
    block(f"residual feed-forward, {_norm}-norm", lambda n=_norm: ResidualFeedForward(n), (2, 3, 4))
    block(f"residual, dropout, {_norm}-norm", lambda n=_norm: ResidualFeedForward(n, 0.3), (2, 3, 4))
    block(f"encoder layer, {_norm}-norm", lambda n=_norm: EncoderLayer(4, 2, 6, 0.0, n, "gelu"), (2, 4, 4), mask=padding_mask(SRC, 0))
    block(f"decoder layer, {_norm}-norm", lambda n=_norm: DecoderLayer(4, 2, 6, 0.0, n, "gelu"), (2, 3, 4), (2, 4, 4),
          tgt_mask=causal_mask(3) & padding_mask(TGT, 0), src_mask=padding_mask(SRC, 0))
# fmt: on


class TransformerLoss(Module):
    """The loss of a whole small Transformer, as a function of its parameters."""

    def __init__(self, **settings):
        self.model = Transformer(6, d_model=8, num_heads=2, num_layers=2, d_ff=12, max_len=8, **settings)

    def forward(self):
        logits = self.model(SRC, TGT)
        return F.cross_entropy(logits.reshape(-1, 6), NEXT.reshape(-1), ignore_index=0, label_smoothing=0.1)


for _norm in ("post", "pre"):
    for _dropout in (0.0, 0.2):
        SAMPLES.append(Sample(
            "model", f"Transformer, {_norm}-norm, dropout {_dropout}",
            lambda rng, n=_norm, d=_dropout: (TransformerLoss(norm=n, dropout=d, activation="gelu").double(), []), fast=True,
        ))  # fmt: skip


# ---------------------------------------------------------------- GPT, Llama, BERT


class NextTokenLoss(Module):
    """The loss of a small decoder-only model, as a function of its parameters.

    The second row begins with padding. The parameters are perturbed: at GPT-2's initial 0.02 a norm is too
    curved for finite differences.
    """

    mask, positions = padding_mask(TGT[:, ::-1], 0), np.array([[0, 1, 2], [0, 0, 1]])

    def __init__(self, model, rng):
        self.model = perturb(model, rng)

    def forward(self):
        logits = self.model(TGT[:, ::-1].copy(), self.mask, self.positions)
        return F.cross_entropy(logits.reshape(-1, 6), NEXT[:, ::-1].reshape(-1), ignore_index=0)


class FillingLoss(Module):
    """The loss of a small BERT and of its pooler, as a function of its parameters."""

    def __init__(self, model, rng):
        self.model = perturb(model, rng)

    def forward(self):
        seen, asked = hide(SRC, 5, (1, 5), np.random.default_rng(1), 0.5, never=(0,))
        filled = F.cross_entropy(
            self.model(seen, SRC % 2).reshape(-1, 6), asked.reshape(-1), ignore_index=IGNORED
        )
        return filled + (self.model.pool(self.model.encode(SRC, SRC % 2)) ** 2).mean()


def perturb(model, rng):
    for p in model.parameters():
        p.data += rng.normal(0, 0.3, p.shape)
    return model


SMALL = dict(d_model=8, num_heads=2, num_layers=2, d_ff=6, max_len=5)
for _dropout in (0.0, 0.2):
    for _name, _loss, _make in (
        ("GPT", NextTokenLoss, lambda d: GPT(6, dropout=d, **SMALL)),
        ("Llama", NextTokenLoss, lambda d: Llama(6, num_kv_heads=1, dropout=d, **SMALL)),
        ("BERT", FillingLoss, lambda d: BERT(6, dropout=d, **SMALL)),
    ):
        SAMPLES.append(Sample(
            "model", f"{_name}, dropout {_dropout}",
            lambda rng, loss=_loss, make=_make, d=_dropout: (loss(make(d), rng).double(), []), fast=True,
        ))  # fmt: skip


# ---------------------------------------------------------------- recurrent models


class EncoderDecoderLoss(Module):
    """The loss of a small recurrent encoder-decoder, as a function of its parameters."""

    def __init__(self, **settings):
        self.model = EncoderDecoder(6, d_model=4, **settings)

    def forward(self):
        return F.cross_entropy(self.model(SRC, TGT).reshape(-1, 6), NEXT.reshape(-1), ignore_index=0)


class AdditiveCall(Module):
    """Additive attention from one state to a memory whose second row ends early."""

    def __init__(self):
        self.attention = AdditiveAttention(3, 4, 2)

    def forward(self, state, memory):
        return self.attention(
            state, memory, self.attention.memory_proj(memory), np.array([[True] * 3, [True, True, False]])
        )[0]


# fmt: off
block("additive attention", AdditiveCall, (2, 3), (2, 3, 4))
block("reader, GRU", lambda: Call(Reader(6, 3, 4, cell="gru", bidirectional=True), tokens=SRC))
block("perceptron", lambda: MLP(3, 4, 2, activation="tanh"), (2, 3))
# fmt: on
for _cell in ("rnn", "lstm", "gru"):
    for _attention in (False, True):
        SAMPLES.append(Sample(
            "model", f"{_cell} encoder-decoder{', attention' if _attention else ''}",
            lambda rng, c=_cell, a=_attention: (EncoderDecoderLoss(cell=c, attention=a, dropout=0.2).double(), []), fast=True,
        ))  # fmt: skip
