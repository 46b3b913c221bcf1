"""Random permutations of any length: a table for at most TABLE elements, beyond that computed by position."""

import numpy as np

TABLE = 1 << 22  # 32 MB


def permutation(rng, count):
    """Make a random permutation of 0 .. count - 1, as a function from positions to elements."""
    if count <= TABLE:
        return rng.permutation(count).__getitem__
    keys = rng.integers(1 << 32, size=6, dtype=np.uint64)
    return lambda positions: permute(positions, count, keys)


def permute(positions, count, keys):
    """Permute 0 ..

    count - 1 without a table (Luby and Rackoff 1988; cycle walking as in Black and Rogaway 2002). Each half
    of an integer's bits is changed in turn by a hash of the other half. That is invertible, so the results
    are distinct. A result that is not below `count` is permuted again until it is.
    """
    half = np.uint64(((count - 1).bit_length() + 1) // 2)
    mask = (np.uint64(1) << half) - np.uint64(1)
    out, walking = np.asarray(positions, np.uint64), np.ones(np.shape(positions), bool)
    while walking.any():
        left, right = out >> half, out & mask
        for key in keys:
            left, right = right, left ^ (_hash(right ^ (key << np.uint64(20))) & mask)
        out = np.where(walking, left << half | right, out)
        walking = out >= count
    return out.astype(np.int64)


def _hash(x):
    """Mix the bits (the final steps of SplitMix64)."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
