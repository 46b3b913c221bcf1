"""Kernels of the time loops of RNN, LSTM and GRU, with backpropagation through time.

The three backwards have one idea: the loop goes from the last step to the first and carries dh, the gradient
of the state. Whatever does not need dh is outside the loop. Slopes come before it if they are few; the LSTM's
are many, and stay in the processor's cache if computed step by step. The weight's gradient comes after it, as
one product over all steps: dW = sum_t d_t^T h_(t-1).
"""

import numpy as np

from minigrad import functional as F
from minigrad.engine.table import defkernel
from minigrad.kernels.products import rows, sum_of_rows


def all_states(u, h):
    """Allocate the T + 1 states and set the first one to h."""
    states = np.empty((len(u) + 1, *h.shape), u.dtype)
    states[0] = h
    return states


def keep_old(keep, t, new, old):
    """Overwrite `new` with `old` where a sequence has no step t."""
    if keep is not None:
        np.copyto(new, old, where=~keep[t])


def squash(x, tanh):
    """Apply sigmoid to blocks of x where `tanh` is 1/2, and tanh where it is 1, in place.

    One call of tanh does both, because sigmoid(x) = (1 + tanh(x / 2)) / 2.
    """
    blocks = x.reshape(len(x), x.shape[1] // tanh.shape[1], tanh.shape[1])
    blocks *= tanh
    np.tanh(x, out=x)
    blocks *= tanh
    blocks += 1 - tanh
    return x


def halves(blocks, tanh, hidden, dtype):
    """(blocks, H): 1/2 for the blocks with sigmoid, 1 for the block with tanh."""
    return np.where(np.arange(blocks) == tanh, 1, 0.5)[:, None].repeat(hidden, 1).astype(dtype)


def weight_gradient(d, states):
    """d (T, B, n), states (T, B, H) -> (n, H)."""
    return rows(d).T @ rows(states)


def select_needed(needs, *gradients):
    """Return the gradients that are needed, None for the others. Functions are called only if needed."""
    found = [(g() if callable(g) else g) if needed else None for g, needed in zip(gradients, needs)]
    return found + [None] * (len(needs) - len(found))


# ---------------------------------------------------------------- rnn: h_t = tanh(u_t + W h_(t-1))


def rnn_states(u, h, weight, nonlinearity, keep):
    states = all_states(u, h)
    for t in range(len(u)):
        new = np.matmul(states[t], weight.T, out=states[t + 1])
        new += u[t]
        np.tanh(new, out=new) if nonlinearity == "tanh" else np.maximum(new, 0, out=new)
        keep_old(keep, t, new, states[t])
    return states[1:], states


def rnn_states_backward(g, y, states, needs, u, h, weight, nonlinearity, keep):
    """du_t = dh_t (1 - h_t^2), or dh_t where h_t > 0. Then dh_(t-1) = g_(t-1) + du_t W.

    This repeated product with W makes gradients vanish.
    """
    slope = 1 - y * y if nonlinearity == "tanh" else y > 0
    if keep is not None:
        slope = slope * keep
    du, dh = np.empty(u.shape, u.dtype), np.zeros(h.shape, u.dtype)
    for t in reversed(range(len(u))):
        dh += g[t]
        stays = 0 if keep is None else dh * ~keep[t]
        dh = np.multiply(dh, slope[t], out=du[t]) @ weight
        dh += stays
    return select_needed(needs, du, dh, lambda: weight_gradient(du, states[:-1]))


# ------------------------------------------------------------- lstm: c_t = f c_(t-1) + i g, h_t = o tanh(c_t)


def lstm_states(u, h, c, weight, keep):
    """Saved: the gates after their sigmoid or tanh, states, cells, and tanh of the cells."""
    states, cells = all_states(u, h), all_states(u, c)
    gates, shown, H = np.empty(u.shape, u.dtype), np.empty((len(u), *h.shape), u.dtype), h.shape[-1]
    tanh = halves(4, 2, H, u.dtype)
    for t in range(len(u)):
        a = np.matmul(states[t], weight.T, out=gates[t])
        a += u[t]
        squash(a, tanh)
        cell = np.multiply(a[:, H : 2 * H], cells[t], out=cells[t + 1])  # f c
        cell += a[:, :H] * a[:, 2 * H : 3 * H]  # i g
        np.tanh(cell, out=shown[t])
        np.multiply(a[:, 3 * H :], shown[t], out=states[t + 1])
        keep_old(keep, t, cell, cells[t])
        keep_old(keep, t, states[t + 1], states[t])
    return (states[1:], cells[-1]), (gates, states, cells, shown)


def lstm_states_backward(g, y, saved, needs, u, h, c, weight, keep):
    """With dc_t += dh_t o (1 - tanh^2 c): du = (dc g i', dc c_(t-1) f', dc i g', dh tanh(c) o').

    ' is the slope of each gate. Then dh_(t-1) = g_(t-1) + du W, but dc_(t-1) = f dc: no matrix multiplies the
    cell's gradient, which is why an LSTM remembers.
    """
    gates, states, cells, shown = saved
    H = h.shape[-1]
    i, f, new, o = (slice(k * H, (k + 1) * H) for k in range(4))
    du, dh, dc = np.empty(u.shape, u.dtype), np.zeros(h.shape, u.dtype), g[1]
    for t in reversed(range(len(u))):
        a, d, forget = gates[t], du[t], gates[t, :, f]
        dh += g[0][t]
        to_cell = dh * a[:, o]
        to_cell *= 1 - shown[t] * shown[t]
        slope = 1 - a
        slope *= a
        slope[:, new] = 1 - a[:, new] * a[:, new]
        stays = 0
        if keep is not None:
            stays, forget = dh * ~keep[t], np.where(keep[t], forget, 1)
            to_cell *= keep[t]
            slope *= keep[t]
        dc = dc + to_cell
        for gate, above, other in (
            (i, dc, a[:, new]),
            (f, dc, cells[t]),
            (new, dc, a[:, i]),
            (o, dh, shown[t]),
        ):
            np.multiply(above, other, out=d[:, gate])
        d *= slope
        dc *= forget
        dh = d @ weight
        dh += stays
    return select_needed(needs, du, dh, dc, lambda: weight_gradient(du, states[:-1]))


# ------------------------------------------ gru: h_t = (1 - z) n + z h_(t-1), n = tanh(u_n + r (W_n h + b_n))


def gru_states(u, h, weight, bias, keep):
    """Saved: r, z, and n, the states, and q = W_n h_(t-1) + b_n."""
    states, H = all_states(u, h), h.shape[-1]
    gates, q = np.empty(u.shape, u.dtype), np.empty((len(u), *h.shape), u.dtype)
    half = np.full((1, H), 0.5, u.dtype)
    for t in range(len(u)):
        a = states[t] @ weight.T  # (B, 3H)
        if bias is not None:
            a += bias
        q[t] = a[:, 2 * H :]
        rz, n = gates[t, :, : 2 * H], gates[t, :, 2 * H :]
        rz[:] = squash(a[:, : 2 * H] + u[t, :, : 2 * H], half)
        np.multiply(rz[:, :H], q[t], out=n)
        n += u[t, :, 2 * H :]
        np.tanh(n, out=n)
        new = np.subtract(states[t], n, out=states[t + 1])
        new *= rz[:, H:]
        new += n
        keep_old(keep, t, new, states[t])
    return states[1:], (gates, q, states)


def gru_states_backward(g, y, saved, needs, u, h, weight, bias, keep):
    """With m = (1 - z) (1 - n^2), W h + b receives d = dh (m q r (1 - r), (h_(t-1) - n) z (1 - z), m r).

    u receives the same except for its last part, dh m. Then dh_(t-1) = g_(t-1) + z dh + d W.
    """
    gates, q, states = saved
    T, B, H = q.shape
    r, z, n = (gates.reshape(T, B, 3, H)[:, :, k] for k in range(3))
    m = (1 - z) * (1 - n * n)
    factors = np.stack((m * q * r * (1 - r), (states[:-1] - n) * z * (1 - z), m * r), 2)  # (T, B, 3, H)
    if keep is not None:
        factors *= keep[..., None]
        m *= keep
        z = np.where(keep, z, 1)
    d, dh, arrived = np.empty(factors.shape, u.dtype), np.zeros(h.shape, u.dtype), np.empty(q.shape, u.dtype)
    for t in reversed(range(T)):
        arrived[t] = dh = dh + g[t]
        np.multiply(factors[t], dh[:, None], out=d[t])
        dh = dh * z[t]
        dh += d[t].reshape(B, 3 * H) @ weight
    flat = d.reshape(T, B, 3 * H)
    dw = weight_gradient(flat, states[:-1]) if needs[2] else None
    db = sum_of_rows(rows(flat)) if needs[3] else None
    d[:, :, 2] = arrived * m  # from here on d is the gradient of u
    return select_needed(needs, flat, dh, dw, db)


defkernel(F.rnn_states, rnn_states, rnn_states_backward)
defkernel(F.lstm_states, lstm_states, lstm_states_backward)
defkernel(F.gru_states, gru_states, gru_states_backward)
