"""Heads that lie side by side in one row, each for itself, and back: numbers that only move. Knows no attention."""

import numpy as np

from minigrad import functional as F
from minigrad.autograd import defkernel

# ---------------------------------------------------------------- split: head h of token t is x[t, h D : (h+1) D]; no copy


def split_heads(x, width, parts):
    B, T, C = x.shape
    if parts is None:
        return x.reshape(B, T, C // width, width).swapaxes(1, 2), None
    return tuple(x.reshape(B, T, parts, -1, width).transpose(2, 0, 3, 1, 4)), None


def split_heads_backward(g, _y, saved, needs, x, width, parts):
    """Every number of g goes back to its place, the parts into one array."""
    if parts is None:
        return g.swapaxes(1, 2).reshape(x.shape), None, None
    B, T, C = x.shape
    dx = np.empty((B, T, parts, C // (parts * width), width), g[0].dtype)
    for i, part in enumerate(g):
        dx[:, :, i] = part.swapaxes(1, 2)
    return dx.reshape(x.shape), None, None


# ---------------------------------------------------------------- merge: the way back


def merge_heads(x):
    B, H, T, D = x.shape
    return x.swapaxes(1, 2).reshape(B, T, H * D), None


def merge_heads_backward(g, _y, saved, needs, x):
    """Every head gets back its columns of g."""
    B, H, T, D = x.shape
    return (g.reshape(B, T, H, D).swapaxes(1, 2),)


defkernel(F.split_heads, split_heads, split_heads_backward)
defkernel(F.merge_heads, merge_heads, merge_heads_backward)
