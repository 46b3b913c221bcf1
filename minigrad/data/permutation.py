"""A random order of any number of things: as a table up to TABLE of them, beyond that computed place by place."""

import numpy as np

TABLE = 1 << 22  # 32 MB


def permutation(rng, count):
    """The numbers below count in a random order, as a function from places to numbers."""
    if count <= TABLE:
        return rng.permutation(count).__getitem__
    keys = rng.integers(1 << 32, size=6, dtype=np.uint64)
    return lambda places: scattered(places, count, keys)


def scattered(places, count, keys):
    """A permutation of the numbers below count without a table (Luby and Rackoff 1988; walking on as in Black and Rogaway 2002).

    Both halves of a number's bits are in turn changed by a hash of the other, which can be undone, so no two numbers become one.
    What falls outside of `count` walks on until it is inside again.
    """
    half = np.uint64(((count - 1).bit_length() + 1) // 2)
    mask = (np.uint64(1) << half) - np.uint64(1)
    out, walking = np.asarray(places, np.uint64), np.ones(np.shape(places), bool)
    while walking.any():
        left, right = out >> half, out & mask
        for key in keys:
            left, right = right, left ^ (_hashed(right ^ (key << np.uint64(20))) & mask)
        out = np.where(walking, left << half | right, out)
        walking = out >= count
    return out.astype(np.int64)


def _hashed(x):
    """Bits well mixed (the end of SplitMix64)."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
