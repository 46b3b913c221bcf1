"""RNN, LSTM and GRU, as cells of one step and as layers over a sequence, as in PyTorch.

This file stacks layers, joins directions and handles sequences of different lengths; functional/recurrent.py
has the formulas of a step. Where PyTorch packs padded sequences, a layer here takes their `lengths`.
"""

import math
import warnings

import numpy as np

from minigrad import functional as F
from minigrad import ops as f
from minigrad.engine.recording import as_tensor
from minigrad.nn import init
from minigrad.nn.module import Module, Parameter
from minigrad.ops.creation import empty, zeros


class Recurrent(Module):
    """The base of cells and layers: their weights, with PyTorch's names, shapes and initialization.

    weight_ih (blocks * H, inputs) and bias_ih apply to a step's input, weight_hh (blocks * H, H) and bias_hh
    to the state before. The blocks are the gates: i, f, g, o in an LSTM, r, z, n in a GRU. Initially uniform
    in +-1/sqrt(hidden_size).
    """

    blocks = 1
    several_states = False  # is the state a pair (h, c)?

    def add_weights(self, input_size, hidden_size, bias, suffix=""):
        rows, bound = self.blocks * hidden_size, 1 / math.sqrt(hidden_size)
        for name, shape in (
            ("weight_ih", (rows, input_size)),
            ("weight_hh", (rows, hidden_size)),
            ("bias_ih", (rows,)),
            ("bias_hh", (rows,)),
        ):
            wanted = bias or name.startswith("weight")
            setattr(
                self, name + suffix, init.uniform_(Parameter(empty(shape)), -bound, bound) if wanted else None
            )

    def weights(self, suffix=""):
        return (getattr(self, name + suffix) for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))

    def scan(self, x, state, suffix="", keep=None):
        """x (T, B, inputs), first state: a tuple of (B, H) -> all states (T, B, H), last state: a tuple."""
        weight_ih, weight_hh, bias_ih, bias_hh = self.weights(suffix)
        u = F.linear(x, weight_ih, None if bias_ih is None else bias_ih + bias_hh)  # (T, B, blocks * H)
        return self.steps(u, state, weight_hh, keep)

    def first_state(self, hx, shape, like):
        """Return the first state as a tuple, zeros if hx is None. Raises ValueError if it does not fit."""
        if hx is None:
            return (zeros(shape, dtype=like.dtype),) * (1 + self.several_states)
        if self.several_states and not (isinstance(hx, (tuple, list)) and len(hx) == 2):
            raise ValueError(f"{type(self).__name__} begins with a pair (h_0, c_0), got {type(hx).__name__}.")
        states = tuple(as_tensor(s) for s in (hx if self.several_states else (hx,)))
        for name, s in zip(("h_0", "c_0"), states):
            if s.shape != shape:
                raise ValueError(
                    f"{type(self).__name__}: {name} must have the shape {shape} "
                    f"for this input, got {s.shape}."
                )
        return states

    def check_width(self, x, axes):
        if x.ndim not in axes or x.shape[-1] != self.input_size:
            raise ValueError(
                f"{type(self).__name__} takes an input of {' or '.join(map(str, axes))} axes, the last of "
                f"length {self.input_size} (input_size), got shape {x.shape}."
            )


class _PlainSteps:
    """h_t = tanh or relu of (W_ih x_t + b_ih + W_hh h_(t-1) + b_hh)."""

    def steps(self, u, state, weight_hh, keep):
        states = F.rnn_states(u, state[0], weight_hh, self.nonlinearity, keep)
        return states, (states[-1],)


class _LSTMSteps:
    """c_t = f c_(t-1) + i g, h_t = o tanh(c_t)."""

    blocks, several_states = 4, True

    def steps(self, u, state, weight_hh, keep):
        states, cell = F.lstm_states(u, *state, weight_hh, keep)
        return states, (states[-1], cell)


class _GRUSteps:
    """h_t = (1 - z) n + z h_(t-1)."""

    blocks = 3

    def scan(self, x, state, suffix="", keep=None):
        # bias_hh goes inside, because r multiplies a part of it
        weight_ih, weight_hh, bias_ih, bias_hh = self.weights(suffix)
        states = F.gru_states(F.linear(x, weight_ih, bias_ih), state[0], weight_hh, bias_hh, keep)
        return states, (states[-1],)


def _check_nonlinearity(nonlinearity):
    if nonlinearity not in ("tanh", "relu"):
        raise ValueError(f"nonlinearity must be 'tanh' or 'relu', got {nonlinearity!r}.")
    return nonlinearity


# ---------------------------------------------------------------- one step


class RNNCellBase(Recurrent):
    """One step: input (B, input_size) or (input_size,), and the state before, by default zeros."""

    def __init__(self, input_size, hidden_size, bias=True):
        _check_sizes(self, input_size, hidden_size)
        self.input_size, self.hidden_size, self.bias = input_size, hidden_size, bias
        self.add_weights(input_size, hidden_size, bias)

    def forward(self, input, hx=None):
        """Compute the next state, (B, H) or (H,); in an LSTMCell a pair (h, c)."""
        x = as_tensor(input)
        self.check_width(x, (1, 2))
        shape = (*x.shape[:-1], self.hidden_size)
        state = tuple(s.reshape(-1, self.hidden_size) for s in self.first_state(hx, shape, x))
        _, after = self.scan(x.reshape(1, -1, self.input_size), state)  # a sequence of one step
        after = tuple(s.reshape(shape) for s in after)
        return after if self.several_states else after[0]

    def extra_repr(self):
        return f"{self.input_size}, {self.hidden_size}" + ("" if self.bias else ", bias=False")


class RNNCell(_PlainSteps, RNNCellBase):
    """h' = tanh(W_ih x + b_ih + W_hh h + b_hh), or relu (Elman 1990)."""

    def __init__(self, input_size, hidden_size, bias=True, nonlinearity="tanh"):
        self.nonlinearity = _check_nonlinearity(nonlinearity)
        super().__init__(input_size, hidden_size, bias)


class LSTMCell(_LSTMSteps, RNNCellBase):
    """(h, c) -> (h', c') (Hochreiter & Schmidhuber 1997); F.lstm_states has the formulas."""


class GRUCell(_GRUSteps, RNNCellBase):
    """h -> h' (Cho et al. 2014); F.gru_states has the formulas."""


# ---------------------------------------------------------------- a sequence


class RNNBase(Recurrent):
    """Layers over a sequence, each reading the states of the layer below, in one direction or both.

    num_layers     each layer above the first reads the outputs of the layer below
    dropout        between layers, in training
    bidirectional  a second set of weights (names end in _reverse) reads from the end; outputs are
                   concatenated
    batch_first    input and output are (B, T, ...) instead of (T, B, ...); states are always (..., B, H)
    """

    def __init__(
        self,
        input_size,
        hidden_size,
        num_layers=1,
        bias=True,
        batch_first=False,
        dropout=0.0,
        bidirectional=False,
    ):
        _check_sizes(self, input_size, hidden_size, num_layers)
        if not 0 <= dropout <= 1:
            raise ValueError(f"{type(self).__name__}: dropout is a probability from 0 to 1, got {dropout}.")
        if dropout and num_layers == 1:
            warnings.warn(
                f"{type(self).__name__}: dropout applies between layers, "
                "so with num_layers=1 it does nothing.",
                stacklevel=3,
            )
        self.input_size, self.hidden_size, self.num_layers = input_size, hidden_size, num_layers
        self.bias = bias
        self.batch_first, self.dropout, self.bidirectional = batch_first, dropout, bidirectional
        self.directions = ("", "_reverse") if bidirectional else ("",)
        for layer in range(num_layers):
            width = hidden_size * len(self.directions) if layer else input_size
            for direction in self.directions:
                self.add_weights(width, hidden_size, bias, f"_l{layer}{direction}")

    def forward(self, input, hx=None, lengths=None):
        """Compute the last layer's outputs at every step, and the last state of every layer and direction.

        input    (T, B, input_size), with batch_first (B, T, input_size), or (T, input_size) for one sequence
        hx       the first state (num_layers * directions, B, H), in an LSTM a pair (h_0, c_0); zeros by
                 default
        lengths  (B,): the length of each sequence. Steps after it are ignored, their outputs are 0, and the
                 last state is that of the sequence's own last step (as with PyTorch's packed sequences)
        Returns (output, h_n), in an LSTM (output, (h_n, c_n)); output (T, B, directions * H), h_n like hx.
        """
        x = as_tensor(input)
        self.check_width(x, (2, 3))
        alone = x.ndim == 2
        x = x.unsqueeze(1) if alone else x.swapaxes(0, 1) if self.batch_first else x  # (T, B, I)
        T, B, _ = x.shape
        if T == 0:
            raise ValueError(
                f"{type(self).__name__} needs a sequence of at least one step, "
                f"got an input of shape {as_tensor(input).shape}."
            )
        count = self.num_layers * len(self.directions)
        states = self.first_state(hx, (count, self.hidden_size) if alone else (count, B, self.hidden_size), x)
        keep = None if lengths is None else _valid_steps(lengths, T, B)
        x, after = self.layers(
            x, [tuple(s[i].unsqueeze(0) if alone else s[i] for s in states) for i in range(count)], keep
        )
        after = tuple(f.stack(s) for s in zip(*after, strict=True))  # (count, B, H) each
        if alone:
            x, after = x.squeeze(1), tuple(s.squeeze(1) for s in after)
        elif self.batch_first:
            x = x.swapaxes(0, 1)  # (B, T, H)
        return x, after if self.several_states else after[0]

    def layers(self, x, states, keep):
        """Run all layers. `states` and the returned states have a tuple for each layer and direction."""
        after = []
        for layer in range(self.num_layers):
            if keep is not None:
                x = f.where(keep, x, 0.0)  # padding may be NaN
            if layer:
                x = F.dropout(x, self.dropout, self.training)
            outputs = []
            for direction in self.directions:
                output, state = self.one_direction(x, states[len(after)], f"_l{layer}{direction}", keep)
                outputs.append(output)
                after.append(state)
            x = f.concatenate(outputs, -1) if self.bidirectional else outputs[0]  # (T, B, directions * H)
        return x if keep is None else f.where(keep, x, 0.0), after

    def one_direction(self, x, state, suffix, keep):
        """Run one layer in one direction. For the reverse one, input and outputs are flipped."""
        if not suffix.endswith("_reverse"):
            return self.scan(x, state, suffix, keep)
        outputs, state = self.scan(x.flip(0), state, suffix, None if keep is None else keep[::-1])
        return outputs.flip(0), state

    def extra_repr(self):
        defaults = {
            "num_layers": 1,
            "bias": True,
            "batch_first": False,
            "dropout": 0.0,
            "bidirectional": False,
        }
        changed = [
            f"{name}={getattr(self, name)}"
            for name, default in defaults.items()
            if getattr(self, name) != default
        ]
        return ", ".join([str(self.input_size), str(self.hidden_size), *changed])


class RNN(_PlainSteps, RNNBase):
    """h_t = tanh(W_ih x_t + b_ih + W_hh h_(t-1) + b_hh), or relu (Elman 1990). Remembers a few steps."""

    def __init__(self, input_size, hidden_size, num_layers=1, nonlinearity="tanh", bias=True, batch_first=False, dropout=0.0, bidirectional=False):  # fmt: skip
        self.nonlinearity = _check_nonlinearity(nonlinearity)
        super().__init__(input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional)


class LSTM(_LSTMSteps, RNNBase):
    """Gates around a cell that no matrix multiplies (Hochreiter & Schmidhuber 1997); see F.lstm_states."""


class GRU(_GRUSteps, RNNBase):
    """Two gates and no separate cell (Cho et al. 2014); see F.gru_states."""


def _check_sizes(module, *sizes):
    if any(isinstance(n, bool) or not isinstance(n, (int, np.integer)) or n < 1 for n in sizes):
        names = ("input_size", "hidden_size", "num_layers")
        got = ", ".join(f"{name} {n!r}" for name, n in zip(names, sizes))
        raise ValueError(f"{type(module).__name__} needs integers from 1, got {got}.")


def _valid_steps(lengths, T, B):
    """(T, B, 1): True where a step is within its sequence's length. None if all are."""
    lengths = as_tensor(lengths).data
    if (
        lengths.shape != (B,)
        or lengths.dtype.kind not in "iu"
        or (lengths.size and not 0 <= lengths.min() <= lengths.max() <= T)
    ):
        raise ValueError(
            f"lengths must be {B} integers from 0 to {T}, one for each sequence, got {lengths.tolist()}."
        )
    keep = np.arange(T)[:, None] < lengths
    return None if keep.all() else keep[:, :, None]
