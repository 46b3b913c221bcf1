"""In which order things are learned from: shuffled anew in each round, in batches of like lengths where that is wished. Knows
numbers of things, not the things; an order depends on the seed, the stream's name and the round alone."""

import numpy as np

from minigrad import random

# so many can be shuffled as a table of numbers; of more each place is computed when it is asked for
TABLE = 1 << 22


class Shuffled:
    """0 to count - 1 in a random order, then all again in another, and so on without end: what comes at a place depends on the place
    and the seed alone, so whoever goes on in the middle sees what they would have seen.

    >>> random.manual_seed(0)
    >>> Shuffled(5)[np.arange(10)]
    array([4, 1, 2, 3, 0, 4, 0, 3, 1, 2])

    `shuffle`, if given, is called with a round's random numbers, and gives the function from places to what comes there.
    """

    def __init__(self, count, stream="data", shuffle=None):
        self.count, self.stream = count, stream
        self._shuffle, self._rounds = shuffle or (lambda rng: permutation(rng, count)), {}

    def __getitem__(self, places):
        rounds, at = np.divmod(places, self.count)
        out = np.empty_like(at)
        for epoch in np.unique(rounds):
            out[rounds == epoch] = self._round(int(epoch))(at[rounds == epoch])
        return out

    def batch(self, step, size):
        """What a step learns from: the next `size`."""
        return self[np.arange(step * size, (step + 1) * size)]

    def _round(self, epoch):
        key = random.initial_seed(), epoch
        if key not in self._rounds:
            kept = list(self._rounds.items())[-1:]  # a batch may lie in two rounds
            self._rounds = dict([*kept, (key, self._shuffle(random.fresh(self.stream, epoch)))])
        return self._rounds[key]


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


class Buckets:
    """Batches of things of like lengths, so that little is padded: a batch_sampler of DataLoader.

    All are shuffled; of `mix` batches at a time the things are sorted by length and cut into batches; and the batches are shuffled.
    """

    def __init__(self, lengths, batch_size, drop_last=False, mix=50):
        self.lengths, self.batch_size, self.drop_last, self.mix = (
            np.asarray(lengths),
            batch_size,
            drop_last,
            mix,
        )

    def __len__(self):
        return batch_count(len(self.lengths), self.batch_size, self.drop_last)

    def batches(self, rng):
        """A round's batches, each a list of numbers."""
        order = rng.permutation(len(self.lengths))
        if self.drop_last:
            order = order[: len(self) * self.batch_size]
        found = []
        for pool in cut(order, self.batch_size * self.mix):
            found += cut(pool[np.argsort(self.lengths[pool], kind="stable")], self.batch_size)
        return [found[i].tolist() for i in rng.permutation(len(found))]


def cut(order, size):
    """An order in pieces of `size`, the last of them shorter."""
    return [order[start : start + size] for start in range(0, len(order), size)]


def batch_count(count, batch_size, drop_last):
    return count // batch_size if drop_last else -(-count // batch_size)
