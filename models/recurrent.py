"""The recurrent models that the Transformer replaced: on RNN, LSTM and GRU, with and without attention.

EncoderDecoder is called like models/transformer.py's Transformer and can replace it. Without attention, all
that the decoder knows of the source passes through one vector (Sutskever et al. 2014, Cho et al. 2014). With
attention (Bahdanau et al. 2015) it attends to every position of the source before each token. The Transformer
is built from that idea alone.
"""

from collections import namedtuple

import numpy as np

from minigrad import Tensor, concatenate, no_grad, stack, tanh, where
from minigrad import functional as F
from minigrad.nn import GRU, LSTM, RNN, Dropout, Embedding, Linear, Module
from models.decoding import Rows, answers
from models.tokens import token_ids

CELLS = {"rnn": RNN, "lstm": LSTM, "gru": GRU}


def layers(cell, input_size, hidden_size, num_layers, **settings):
    """RNN, LSTM or GRU layers, batch first.

    An LSTM's forget gates begin open, so that it remembers before it has learned what to remember
    (bias 1: Gers et al. 2000, Jozefowicz et al. 2015)."""
    if cell not in CELLS:
        raise ValueError(f"cell must be one of {', '.join(CELLS)}, got {cell!r}.")
    made = CELLS[cell](input_size, hidden_size, num_layers, batch_first=True, **settings)
    with no_grad():
        for name, bias in made.named_parameters():
            if cell == "lstm" and name.startswith("bias_ih"):
                bias[hidden_size : 2 * hidden_size] += 1
    return made


class AdditiveAttention(Module):
    """weights = softmax over j of v . tanh(W state + U memory_j); context = sum of weights_j memory_j.

    Bahdanau, Cho & Bengio 2015, appendix A.1.2. With `keep_weights` set, the caller stores the weights of all
    its steps in `weights`, as in MultiHeadAttention: an array (B, 1, Tt, Ts).
    """

    keep_weights, across = False, True

    def __init__(self, state_size, memory_size, d_attention):
        self.state_proj = Linear(state_size, d_attention, bias=False)
        self.memory_proj = Linear(memory_size, d_attention)  # the caller applies it once for all steps
        self.score = Linear(d_attention, 1, bias=False)
        self.weights = None

    def forward(self, state, memory, projected, mask):
        """state (B, S), memory (B, Ts, M), projected memory_proj(memory) -> context (B, M), weights (B, Ts).

        mask (B, Ts) is True for source tokens, False for padding. If a whole source is padding, its memory
        must be 0; its context then is 0.
        """
        hidden = tanh(projected + self.state_proj(state).unsqueeze(1))  # (B, Ts, A)
        scores = self.score(hidden).squeeze(-1)  # (B, Ts)
        seen = mask | ~mask.any(-1, keepdims=True)
        weights = F.softmax(where(seen, scores, -np.inf))
        return (weights.unsqueeze(1) @ memory).squeeze(1), weights


# the encoded source: (B, Ts, C), (B, Ts, A) or None, (B, Ts)
Source = namedtuple("Source", "memory projected mask")


class EncoderDecoder(Module):
    """Source tokens and the target so far -> logits of each next target token.

    The encoder is bidirectional; the decoder begins with its last states. With attention, the previous state
    of the decoder chooses a context, which the next step and the output layer get beside the token.
    """

    def __init__(self, vocab_size, d_model=256, num_layers=1, cell="lstm", attention=True, dropout=0.1, max_len=512, pad=0, src_vocab_size=None):  # fmt: skip
        if d_model % 2:
            raise ValueError(
                f"d_model = {d_model} must be even: each direction of the encoder gets half of it."
            )
        self.pad, self.max_len, seen = pad, max_len, 2 if attention else 1
        between = dropout if num_layers > 1 else 0.0
        self.embedding = Embedding(vocab_size, d_model)
        self.src_embedding = Embedding(src_vocab_size, d_model) if src_vocab_size else self.embedding
        self.dropout = Dropout(dropout)
        self.encoder = layers(cell, d_model, d_model // 2, num_layers, dropout=between, bidirectional=True)
        self.decoder = layers(cell, seen * d_model, d_model, num_layers, dropout=between)
        self.attention = AdditiveAttention(d_model, d_model, d_model) if attention else None
        self.output = Linear(seen * d_model, vocab_size)

    def encode(self, src):
        """src (B, Ts) -> (Source, the decoder's initial state)."""
        lengths = lengths_of(src, self.pad)
        memory, state = self.encoder(self.dropout(self.src_embedding(src)), lengths=lengths)  # (B, Ts, C)
        state = tuple(map(side_by_side, state)) if isinstance(state, tuple) else side_by_side(state)
        projected = self.attention.memory_proj(memory) if self.attention else None
        return Source(memory, projected, np.arange(src.shape[1]) < lengths[:, None]), state

    def decode(self, tgt, source, state):
        """tgt (B, Tt) and the state before -> logits (B, Tt, V) of each next token, and the state after."""
        x = self.dropout(self.embedding(tgt))  # (B, Tt, C)
        if self.attention:
            out, state = self.decode_with_attention(x, source, state)  # (B, Tt, 2C)
        else:
            out, state = self.decoder(x, state)
        return self.output(self.dropout(out)), state

    def decode_with_attention(self, x, source, state):
        """Decode step by step: the attention weights of a step depend on the state before it."""
        outputs, all_weights = [], []
        for x_t in x.unbind(1):
            top = (state[0] if isinstance(state, tuple) else state)[-1]  # (B, C)
            context, weights = self.attention(top, *source)
            out, state = self.decoder(concatenate([x_t, context], -1).unsqueeze(1), state)
            outputs.append(concatenate([out.squeeze(1), context], -1))
            all_weights.append(weights.data)
        if self.attention.keep_weights:
            self.attention.weights = np.stack(all_weights, 1)[:, None]  # (B, 1, Tt, Ts)
        return stack(outputs, 1), state

    def forward(self, src, tgt):
        """src (B, Ts), tgt (B, Tt) -> logits (B, Tt, V)."""
        src, tgt = token_ids(src, "src"), token_ids(tgt, "tgt")
        return self.decode(tgt, *self.encode(src))[0]

    def generate(self, src, bos, eos, max_new=None, beams=1, length_penalty=0.6):
        """Write the target greedily or with beams, as Transformer.generate does.

        Returns an array (B, <= max_new) without bos, filled with pad after each eos."""
        src = token_ids(src, "src")
        max_new = self.max_len if max_new is None else min(max_new, self.max_len)
        return answers(Writing(self, src, bos), eos, max_new, beams, length_penalty)


class Writing(Rows):
    """The target rows that a model writes, with the state of each, for decoding.steps and beam_search."""

    def __init__(self, model, src, bos):
        super().__init__(model, np.full((len(src), 1), bos), model.pad)
        with no_grad(), self.evaluating():
            self.source, self.state = model.encode(src)
        self.read, self.next = 0, None  # the number of tokens read by the state, and the logits after them

    @no_grad()
    def logits(self):
        """The logits (R, V) of each row's next token."""
        if self.read < self.tokens.shape[1]:
            with self.evaluating():
                logits, self.state = self.model.decode(
                    Tensor(self.tokens[:, self.read :]), self.source, self.state
                )
            self.read, self.next = self.tokens.shape[1], logits.data[:, -1]
        return self.next

    def select(self, rows):
        super().select(rows)
        self.next = None if self.next is None else self.next[rows]
        self.source = Source(*(None if part is None else part[rows] for part in self.source))
        self.state = (
            tuple(s[:, rows] for s in self.state) if isinstance(self.state, tuple) else self.state[:, rows]
        )


class Reader(Module):
    """Classifies a sequence from its last state (many to one), or each of its tokens (sequence to sequence).

    every          return logits at each position (B, T, outputs), else of the whole sequence (B, outputs)
    bidirectional  read from both ends; each position then depends on later tokens too
    """

    def __init__(self, vocab_size, outputs, d_model=64, num_layers=1, cell="lstm", every=False, bidirectional=False, dropout=0.0, pad=0):  # fmt: skip
        self.every, self.pad, self.directions = every, pad, 1 + bidirectional
        self.embedding = Embedding(vocab_size, d_model)
        between = dropout if num_layers > 1 else 0.0
        self.layers = layers(cell, d_model, d_model, num_layers, dropout=between, bidirectional=bidirectional)
        self.output = Linear(d_model * self.directions, outputs)

    def read(self, x, lengths=None):
        """x (B, T, C), the tokens' vectors -> logits."""
        states, last = self.layers(x, lengths=lengths)
        if self.every:
            return self.output(states)  # (B, T, outputs)
        last = last[0] if isinstance(last, tuple) else last  # (layers * directions, B, C)
        both = concatenate([last[i - self.directions] for i in range(self.directions)], -1)
        return self.output(both)  # (B, outputs)

    def forward(self, tokens):
        """tokens (B, T), padded at the end -> logits."""
        tokens = token_ids(tokens, "tokens")
        return self.read(self.embedding(tokens), lengths_of(tokens, self.pad))


def side_by_side(state):
    """Concatenate the last states of both directions: (L * 2, B, H) -> (L, B, 2H)."""
    both, B, H = state.shape
    return state.reshape(both // 2, 2, B, H).swapaxes(1, 2).reshape(both // 2, B, 2 * H)


def lengths_of(tokens, pad):
    """The lengths (B,) of the rows of tokens (B, T), without the padding at the end."""
    real = np.asarray(tokens.data) != pad
    return np.where(real.any(1), real.shape[1] - real[:, ::-1].argmax(1), 0)
