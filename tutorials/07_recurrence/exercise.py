"""Exercises of lesson 07: recurrence, and what it forgets.

Replace each NotImplementedError by your code; `python -m tutorials check 07` tests this file and explains.
NumPy is all you need.
T: number of steps, B: sequences in the batch, D: size of an input, H: size of a state.
"""

import numpy as np


def sigmoid(a):
    """Given: 1 / (1 + e^-a), without overflow."""
    return 0.5 * (1 + np.tanh(0.5 * a))


def rnn_step(x, h, W_x, W_h, b):
    """One step of an RNN: tanh(W_x x + W_h h + b) for each row.

    x: (B, D), the input   h: (B, H), the previous state   W_x: (H, D)   W_h: (H, H)   b: (H,)
    ->  the new state (B, H)
    """
    # solution
    return np.tanh(x @ W_x.T + h @ W_h.T + b)
    # end


def rnn_forward(x, h0, W_x, W_h, b):
    """All states of an RNN, one after each step.

    x: (T, B, D), T >= 1   h0: (B, H), the state before the first step; the weights as in rnn_step
    ->  (T, B, H)
    """
    # solution
    states, h = [], h0
    for x_t in x:
        h = rnn_step(x_t, h, W_x, W_h, b)
        states.append(h)
    return np.stack(states)
    # end


def rnn_backward(g, x, h0, W_x, W_h, b):
    """Backpropagation through time.

    g: (T, B, H), the gradient that arrives at each state of rnn_forward(x, h0, W_x, W_h, b) from outside
    Returns the tuple (dx, dh0, dW_x, dW_h, db), each in the shape of its input. It changes no argument.
    """
    # solution
    states = rnn_forward(x, h0, W_x, W_h, b)
    dx, dW_x, dW_h, db, dh = (np.zeros_like(z) for z in (x, W_x, W_h, b, h0))
    for t in reversed(range(len(x))):
        before = states[t - 1] if t > 0 else h0
        da = (g[t] + dh) * (1 - states[t] ** 2)
        dx[t] = da @ W_x
        dW_x += da.T @ x[t]
        dW_h += da.T @ before
        db += da.sum(axis=0)
        dh = da @ W_h
    return dx, dh, dW_x, dW_h, db
    # end


def lstm_step(x, h, c, W_x, W_h, b):
    """One step of an LSTM.

    x: (B, D)   h: (B, H), the previous state   c: (B, H), the previous cell
    W_x: (4H, D)   W_h: (4H, H)   b: (4H,)
    The rows of the weights are four blocks of H: input gate i, forget gate f, proposal g, output gate o, in
    this order. i, f and o go through a sigmoid, g through a tanh. Then  c' = f c + i g  and  h' = o tanh(c').
    Returns the tuple (h', c'), both (B, H).
    """
    # solution
    i, f, g, o = np.split(x @ W_x.T + h @ W_h.T + b, 4, axis=-1)
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(c), c
    # end


def spectral_radius(W):
    """The largest absolute value of W's eigenvalues: the factor by which powers of W grow in the long run.

    W: a square array; eigenvalues may be complex   ->   a float
    """
    # solution
    return float(abs(np.linalg.eigvals(W)).max())
    # end


def clip(gradients, longest):
    """Scale the gradients, all by the same factor, so that their total length is at most `longest`.

    gradients: a list of arrays of any shapes   longest: a positive number
    ->  a new list. The length is the square root of the sum of the squares of all elements in all arrays.
    Gradients that are not longer than `longest` do not change; all zeros stay zeros, without a warning.
    """
    # solution
    length = np.sqrt(sum((g**2).sum() for g in gradients))
    return [g * (longest / length) for g in gradients] if length > longest else list(gradients)
    # end


def path_length(reads, start, end):
    """The number of steps that information needs from one position to another.

    In each step every position learns what the positions that it reads know.
    reads: bool array (n, n), reads[i, j]: does position i read position j?   start, end: 0 to n - 1
    ->  an integer; 0 if start is end; None if the information never arrives.
    A position of an RNN reads the one before; in a layer of attention every position reads all.
    """
    # solution
    knows, steps = np.arange(len(reads)) == start, 0
    while not knows[end]:
        heard = knows | (reads & knows).any(axis=1)
        if (heard == knows).all():
            return None
        knows, steps = heard, steps + 1
    return steps
    # end
