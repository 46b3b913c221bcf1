"""In which order things are learned from: shuffled anew in each round, in batches of like lengths where that is wished. Knows
numbers of things, not the things; an order depends on the seed, the stream's name and the round alone."""

import numpy as np

from minigrad import random
from minigrad.data.permutation import permutation


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


class Buckets:
    """Batches of things of like lengths, so that little is padded: a batch_sampler of DataLoader.

    All are shuffled; of `mix` batches at a time the things are sorted by length and cut into batches; and the batches are shuffled.
    """

    def __init__(self, lengths, batch_size, drop_last=False, mix=50):
        self.lengths, self.batch_size, self.drop_last = np.asarray(lengths), batch_size, drop_last
        self.mix = mix

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
