"""What the Transformer replaced: sequence models on RNN, LSTM and GRU, with and without attention. Knows token numbers only.

EncoderDecoder stands where models/transformer.py's Transformer stands and is called alike. Without attention everything that
the decoder knows of the source has gone through one vector (Sutskever et al. 2014, Cho et al. 2014); with it (Bahdanau et al.
2015) it looks back at every place of the source before each token, which is what the Transformer then built everything from.
"""

from collections import namedtuple

import numpy as np

from minigrad import Tensor, concatenate, no_grad, stack, tanh, where
from minigrad import functional as F
from minigrad.nn import GRU, LSTM, RNN, Dropout, Embedding, Linear, Module
from models.decoding import Rows, answers
from models.tokens import token_numbers

CELLS = {"rnn": RNN, "lstm": LSTM, "gru": GRU}


def layers(cell, input_size, hidden_size, num_layers, **settings):
    """RNN, LSTM or GRU layers, batch first; an LSTM's forget gates begin open, so that it remembers before it has learned what
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
    """weights = softmax over the source of v . tanh(W state + U memory_j); context = their mean of the memory.

    Bahdanau, Cho & Bengio 2015, appendix A.1.2. After a call with `keep_weights` set by whoever calls it step by step,
    `weights` holds what was attended to, as in MultiHeadAttention: an array (B, 1, Tt, Ts).
    """

    keep_weights, across = False, True

    def __init__(self, state_size, memory_size, d_attention):
        self.state_proj = Linear(state_size, d_attention, bias=False)
        self.memory_proj = Linear(memory_size, d_attention)  # the same at every step, so it is computed once
        self.score = Linear(d_attention, 1, bias=False)
        self.weights = None

    def forward(self, state, memory, projected, mask):
        """state (B, S), memory (B, Ts, M), projected = memory_proj(memory), mask (B, Ts), True where a source token stands.

        -> context (B, M), weights (B, Ts). Where a whole source is padding, the memory there must be 0; so is the context.
        """
        hidden = tanh(projected + self.state_proj(state).unsqueeze(1))  # (B, Ts, A)
        scores = self.score(hidden).squeeze(-1)  # (B, Ts)
        seen = mask | ~mask.any(-1, keepdims=True)
        weights = F.softmax(where(seen, scores, -np.inf))
        return (weights.unsqueeze(1) @ memory).squeeze(1), weights


# what is kept of the source: (B, Ts, C), (B, Ts, A) or None, (B, Ts)
Source = namedtuple("Source", "memory projected mask")


class EncoderDecoder(Module):
    """Source tokens and the target so far in, logits for each next target token out.

    The encoder reads the source both ways; the decoder begins with its last states. With attention, each step of the decoder
    gets the context that its state before asked for, beside its token, and so does the output layer.
    """

    def __init__(self, vocab_size, d_model=256, num_layers=1, cell="lstm", attention=True, dropout=0.1, max_len=512, pad=0, src_vocab_size=None):  # fmt: skip
        if d_model % 2:
            raise ValueError(
                f"d_model = {d_model} must be even: each direction of the encoder has half of it."
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
        """src (B, Ts) -> (Source, the decoder's first state)."""
        lengths = lengths_of(src, self.pad)
        memory, state = self.encoder(self.dropout(self.src_embedding(src)), lengths=lengths)  # (B, Ts, C)
        state = tuple(map(side_by_side, state)) if isinstance(state, tuple) else side_by_side(state)
        projected = self.attention.memory_proj(memory) if self.attention else None
        return Source(memory, projected, np.arange(src.shape[1]) < lengths[:, None]), state

    def decode(self, tgt, source, state):
        """tgt (B, Tt) and the state before it -> logits (B, Tt, V), at each place of the token that comes next; the state after."""
        x = self.dropout(self.embedding(tgt))  # (B, Tt, C)
        if self.attention:
            out, state = self.decode_looking_back(x, source, state)  # (B, Tt, 2C)
        else:
            out, state = self.decoder(x, state)
        return self.output(self.dropout(out)), state

    def decode_looking_back(self, x, source, state):
        """Step by step, since where a step looks depends on the state before it."""
        outputs, looked = [], []
        for x_t in x.unbind(1):
            top = (state[0] if isinstance(state, tuple) else state)[-1]  # (B, C)
            context, weights = self.attention(top, *source)
            out, state = self.decoder(concatenate([x_t, context], -1).unsqueeze(1), state)
            outputs.append(concatenate([out.squeeze(1), context], -1))
            looked.append(weights.data)
        if self.attention.keep_weights:
            self.attention.weights = np.stack(looked, 1)[:, None]  # (B, 1, Tt, Ts)
        return stack(outputs, 1), state

    def forward(self, src, tgt):
        """src (B, Ts), tgt (B, Tt) -> logits (B, Tt, V)."""
        src, tgt = token_numbers(src, "src"), token_numbers(tgt, "tgt")
        return self.decode(tgt, *self.encode(src))[0]

    def generate(self, src, bos, eos, max_new=None, beams=1, length_penalty=0.6):
        """As Transformer.generate: greedily or with beams, an array (B, <= max_new) without bos, filled with pad after each eos."""
        src = token_numbers(src, "src")
        max_new = self.max_len if max_new is None else min(max_new, self.max_len)
        return answers(Writing(self, src, bos), eos, max_new, beams, length_penalty)


class Writing(Rows):
    """The target rows that a model is writing, with the state of each: what decoding.steps and beam_search continue."""

    def __init__(self, model, src, bos):
        super().__init__(model, np.full((len(src), 1), bos), model.pad)
        with no_grad(), self.evaluating():
            self.source, self.state = model.encode(src)
        self.read, self.next = 0, None  # how many of the tokens the state has read, and the logits after them

    @no_grad()
    def logits(self):
        """(R, V) of each row's next token."""
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
    """Reads tokens and says something about them: one thing at the end (many to one), or one at each place (sequence to sequence).

    every          logits at each place (B, T, outputs), else of the whole (B, outputs), from the state after its last token
    bidirectional  read from both ends; each place then knows what comes after it as well
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
        tokens = token_numbers(tokens, "tokens")
        return self.read(self.embedding(tokens), lengths_of(tokens, self.pad))


def side_by_side(state):
    """The last states of both directions (L * 2, B, H) as one, (L, B, 2H)."""
    both, B, H = state.shape
    return state.reshape(both // 2, 2, B, H).swapaxes(1, 2).reshape(both // 2, B, 2 * H)


def lengths_of(tokens, pad):
    """(B,): how many tokens (B, T) stand before the padding at the end."""
    real = np.asarray(tokens.data) != pad
    return np.where(real.any(1), real.shape[1] - real[:, ::-1].argmax(1), 0)
