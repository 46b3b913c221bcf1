"""Split the columns of one matrix into heads, merge the heads again, and rotate them by their positions."""

from minigrad import ops as f
from minigrad.functional.tiers import definition


@definition(kernel="minigrad/kernels/heads.py")
def split_heads(x, width, parts=None):
    """Split heads that lie side by side: x (B, T, H width) -> (B, H, T, width).

    With `parts`, x has that many groups of heads (queries, keys and values from one product); returns a tuple
    of them.
    """
    if parts is not None:
        return tuple(split_heads(part, width) for part in x.chunk(parts, -1))
    B, T, C = x.shape
    return x.reshape(B, T, C // width, width).swapaxes(1, 2)


@definition(kernel="minigrad/kernels/heads.py")
def merge_heads(x):
    """Put heads side by side again: x (B, H, T, D) -> (B, T, H D)."""
    B, H, T, D = x.shape
    return x.swapaxes(1, 2).reshape(B, T, H * D)


@definition(kernel="minigrad/kernels/heads.py")
def rotate(x, cos, sin):
    """Rotate each pair of elements i and i + D/2 of x (..., T, D) (Su et al. 2021, equation 34).

    cos and sin (..., T, D/2) are those of the angles.
    """
    a, b = x.chunk(2, -1)
    return f.concatenate([a * cos - b * sin, b * cos + a * sin], -1)
