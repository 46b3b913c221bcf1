"""Heads: split the columns of one matrix into heads, merge them again, and rotate them by their positions."""

from minigrad import ops as f
from minigrad.functional.tiers import definition


@definition(kernel="minigrad/kernels/heads.py")
def split_heads(x, width, parts=None):
    """x (B, T, H width) -> (B, H, T, width): heads that lie side by side, each for itself. `parts` such groups of heads side by
    side, as queries, keys and values from one product, come as a tuple."""
    if parts is not None:
        return tuple(split_heads(part, width) for part in x.chunk(parts, -1))
    B, T, C = x.shape
    return x.reshape(B, T, C // width, width).swapaxes(1, 2)


@definition(kernel="minigrad/kernels/heads.py")
def merge_heads(x):
    """x (B, H, T, D) -> (B, T, H D): heads side by side again."""
    B, H, T, D = x.shape
    return x.swapaxes(1, 2).reshape(B, T, H * D)


@definition(kernel="minigrad/kernels/heads.py")
def rotate(x, cos, sin):
    """x (..., T, D): its numbers i and i + D/2, a pair, turned by the angle whose cos and sin (..., T, D/2) are given (Su et al. 2021,
    equation 34)."""
    a, b = x.chunk(2, -1)
    return f.concatenate([a * cos - b * sin, b * cos + a * sin], -1)
