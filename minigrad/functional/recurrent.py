"""The time loops of recurrent networks: compute each state from the state before and the step's input.

T steps, B sequences, H elements of state. `u` (T, B, gates * H) = x W_ih^T + b is the inputs' part of each
gate. It is one product for all steps, before the loop, so that only what depends on the state before stays
inside the loop. keep (T, B, 1) is boolean: where it is False a sequence has no such step (padding), and its
state does not change.
"""

from minigrad import ops as f
from minigrad.engine.recording import as_tensor
from minigrad.functional.layers import linear
from minigrad.functional.tiers import definition


@definition(kernel="minigrad/kernels/recurrent.py")
def rnn_states(u, h, weight, nonlinearity="tanh", keep=None):
    """h_t = tanh(u_t + W h_(t-1)), or relu (Elman 1990).

    u (T, B, H), h (B, H), weight (H, H) -> all states (T, B, H)
    """
    activation = {"tanh": f.tanh, "relu": f.relu}[nonlinearity]
    states = []
    for t, u_t in enumerate(f.unbind(as_tensor(u))):
        h = _where_kept(keep, t, activation(u_t + linear(h, weight)), h)
        states.append(h)
    return f.stack(states)  # (T, B, H)


@definition(kernel="minigrad/kernels/recurrent.py")
def lstm_states(u, h, c, weight, keep=None):
    """The long short-term memory (Hochreiter & Schmidhuber 1997; with the forget gate of Gers et al. 2000).

    i, f, o = sigmoid, g = tanh of the four blocks of u_t + W h_(t-1), in the order i, f, g, o
    c_t = f c_(t-1) + i g         the cell: it keeps what is added while the forget gate is 1
    h_t = o tanh(c_t)             the output
    u (T, B, 4H), h and c (B, H), weight (4H, H) -> all states (T, B, H), the last cell (B, H)
    """
    states = []
    for t, u_t in enumerate(f.unbind(as_tensor(u))):
        input, forget, new, output = f.chunk(u_t + linear(h, weight), 4, -1)  # (B, H) each
        cell = f.sigmoid(forget) * c + f.sigmoid(input) * f.tanh(new)
        h = _where_kept(keep, t, f.sigmoid(output) * f.tanh(cell), h)
        c = _where_kept(keep, t, cell, c)
        states.append(h)
    return f.stack(states), c


@definition(kernel="minigrad/kernels/recurrent.py")
def gru_states(u, h, weight, bias=None, keep=None):
    """The gated recurrent unit (Cho et al. 2014), with the reset gate after the product, as in PyTorch.

    r, z = sigmoid of the first two blocks of u_t + W h_(t-1) + b
    n = tanh(u_n + r (W_n h_(t-1) + b_n))     the candidate state; r is how much of the old state it uses
    h_t = (1 - z) n + z h_(t-1)               z is how much of the old state stays
    u (T, B, 3H), h (B, H), weight (3H, H), bias (3H,) -> all states (T, B, H)
    """
    states = []
    for t, u_t in enumerate(f.unbind(as_tensor(u))):
        u_r, u_z, u_n = f.chunk(u_t, 3, -1)
        h_r, h_z, h_n = f.chunk(linear(h, weight, bias), 3, -1)  # (B, H) each
        z = f.sigmoid(u_z + h_z)
        n = f.tanh(u_n + f.sigmoid(u_r + h_r) * h_n)
        h = _where_kept(keep, t, (1 - z) * n + z * h, h)
        states.append(h)
    return f.stack(states)  # (T, B, H)


def _where_kept(keep, t, new, old):
    return new if keep is None else f.where(keep[t], new, old)
