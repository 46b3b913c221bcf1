"""Kernels that split a matrix into heads, merge heads, and rotate them by their positions."""

import numpy as np

from minigrad import functional as F
from minigrad.engine.table import defkernel

# --------------------------------------------------- split: head h of token t is x[t, h D : (h+1) D]; no copy


def split_heads(x, width, parts):
    B, T, C = x.shape
    if parts is None:
        return x.reshape(B, T, C // width, width).swapaxes(1, 2), None
    return tuple(x.reshape(B, T, parts, -1, width).transpose(2, 0, 3, 1, 4)), None


def split_heads_backward(g, _y, saved, needs, x, width, parts):
    """Put g back into one array of x's shape."""
    if parts is None:
        return g.swapaxes(1, 2).reshape(x.shape), None, None
    B, T, C = x.shape
    dx = np.empty((B, T, parts, C // (parts * width), width), g[0].dtype)
    for i, part in enumerate(g):
        dx[:, :, i] = part.swapaxes(1, 2)
    return dx.reshape(x.shape), None, None


# ---------------------------------------------------------------- merge: the inverse of split


def merge_heads(x):
    B, H, T, D = x.shape
    return x.swapaxes(1, 2).reshape(B, T, H * D), None


def merge_heads_backward(g, _y, saved, needs, x):
    """Split g into heads."""
    B, H, T, D = x.shape
    return (g.reshape(B, T, H, D).swapaxes(1, 2),)


# ----------------------------------------------------------- rotate: (a, b) -> (a cos - b sin, b cos + a sin)


def rotate(x, cos, sin):
    a, b = _halves(x)
    left, right = a * cos, b * cos
    left -= b * sin
    right += a * sin
    return np.concatenate([left, right], -1), None


def _halves(x):
    half = x.shape[-1] // 2
    return x[..., :half], x[..., half:]


def rotate_backward(g, _y, saved, needs, x, cos, sin):
    """The transpose of a rotation is its inverse: dx = rotate(g, cos, -sin).

    With g = (l, r): dcos = a l + b r, dsin = a r - b l.
    """
    (a, b), (left, right) = _halves(x), _halves(g)
    return (
        rotate(g, cos, -sin)[0] if needs[0] else None,
        a * left + b * right if needs[1] else None,
        a * right - b * left if needs[2] else None,
    )


defkernel(F.rotate, rotate, rotate_backward)
defkernel(F.split_heads, split_heads, split_heads_backward)
defkernel(F.merge_heads, merge_heads, merge_heads_backward)
