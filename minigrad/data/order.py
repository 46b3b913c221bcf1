"""Shuffling and batching.

Works on indices only; an order depends on the seed, the stream's name and the epoch.
"""

import numpy as np

from minigrad import random
from minigrad.data.permutation import permutation


class Shuffled:
    """An endless sequence: 0 to count - 1 in a random order, then in another, epoch after epoch.

    >>> random.manual_seed(0)
    >>> Shuffled(5)[np.arange(10)]
    array([4, 1, 2, 3, 0, 4, 0, 3, 1, 2])

    An element depends on its position and the seed only, so a resumed run continues with the same elements.
    `shuffle`, if given, is called with an epoch's generator, and returns the function from positions to
    elements.
    """

    def __init__(self, count, stream="data", shuffle=None):
        self.count, self.stream = count, stream
        self._shuffle, self._epochs = shuffle or (lambda rng: permutation(rng, count)), {}

    def __getitem__(self, positions):
        epochs, at = np.divmod(positions, self.count)
        out = np.empty_like(at)
        for epoch in np.unique(epochs):
            out[epochs == epoch] = self._epoch(int(epoch))(at[epochs == epoch])
        return out

    def batch(self, step, size):
        """Return the `size` indices of a step's batch."""
        return self[np.arange(step * size, (step + 1) * size)]

    def _epoch(self, epoch):
        key = random.initial_seed(), epoch
        if key not in self._epochs:
            last = list(self._epochs.items())[-1:]  # a batch may extend over two epochs
            self._epochs = dict([*last, (key, self._shuffle(random.fresh(self.stream, epoch)))])
        return self._epochs[key]


class Buckets:
    """Batches of items of similar lengths, to save padding: a batch_sampler of DataLoader.

    The items are shuffled. Then the items of each `mix` batches are sorted by length and cut into batches,
    and all batches are shuffled.
    """

    def __init__(self, lengths, batch_size, drop_last=False, mix=50):
        self.lengths, self.batch_size, self.drop_last = np.asarray(lengths), batch_size, drop_last
        self.mix = mix

    def __len__(self):
        return batch_count(len(self.lengths), self.batch_size, self.drop_last)

    def batches(self, rng):
        """Return an epoch's batches, each a list of indices."""
        order = rng.permutation(len(self.lengths))
        if self.drop_last:
            order = order[: len(self) * self.batch_size]
        found = []
        for pool in cut(order, self.batch_size * self.mix):
            found += cut(pool[np.argsort(self.lengths[pool], kind="stable")], self.batch_size)
        return [found[i].tolist() for i in rng.permutation(len(found))]


def cut(order, size):
    """Cut an array into pieces of `size`; the last may be shorter."""
    return [order[start : start + size] for start in range(0, len(order), size)]


def batch_count(count, batch_size, drop_last):
    return count // batch_size if drop_last else -(-count // batch_size)
