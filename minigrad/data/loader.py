"""DataLoader: batches of a dataset, optionally shuffled and prefetched on a thread, with PyTorch's names.

A dataset is anything with a length and items by index.
"""

import contextvars
from collections import deque
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from minigrad import random
from minigrad.data.order import batch_count
from minigrad.data.permutation import permutation


class DataLoader:
    """The batches of a dataset, epoch by epoch:

        for x, y in DataLoader(dataset, batch_size=32, shuffle=True): ...

    shuffle        an order that depends on the seed and the epoch only; each iteration is the next epoch
                   (see set_epoch)
    drop_last      leave out a shorter last batch
    collate_fn     makes a batch from a list of items; by default arrays are stacked (default_collate)
    batch_sampler  the items of each batch: lists of indices, or a Buckets; replaces shuffle and drop_last
    prefetch       the number of batches to make ahead on a thread. Its exceptions are raised here, and it
                   ends with the iteration, even if that is left early
    stream         the name of the random stream. What is drawn while a batch is made, from any stream,
                   depends only on the seed, this name, the epoch and the batch, so prefetch and other draws
                   change nothing
    Raises ValueError, with the position, if a batch has a NaN.
    """

    def __init__(self, dataset, batch_size=1, shuffle=False, *, drop_last=False, collate_fn=None, batch_sampler=None, prefetch=0, stream="data"):  # fmt: skip
        for name, number, least in (("batch_size", batch_size, 1), ("prefetch", prefetch, 0)):
            if not isinstance(number, (int, np.integer)) or number < least:
                raise ValueError(f"{name} must be an integer from {least}, got {number!r}.")
        if batch_sampler is not None and (batch_size != 1 or shuffle or drop_last):
            raise ValueError(
                "A batch_sampler alone determines the batches; leave out batch_size, shuffle and drop_last."
            )
        self.dataset, self.batch_size, self.shuffle, self.drop_last = dataset, batch_size, shuffle, drop_last
        self.collate_fn, self.batch_sampler = collate_fn or default_collate, batch_sampler
        self.prefetch, self.stream, self.epoch = prefetch, stream, 0

    def __len__(self):
        """Return the number of batches in an epoch."""
        return (
            batch_count(len(self.dataset), self.batch_size, self.drop_last)
            if self.batch_sampler is None
            else len(self.batch_sampler)
        )

    def set_epoch(self, epoch):
        """Set the epoch of the next iteration, as a resumed run must."""
        self.epoch = epoch

    def __iter__(self):
        epoch, self.epoch = self.epoch, self.epoch + 1
        batches = self._batches(epoch)
        return make_ahead(batches, self.prefetch) if self.prefetch else batches

    def _batches(self, epoch):
        for number, indices in enumerate(self._indices(random.fresh(self.stream, epoch))):
            with random.isolated(f"{self.stream} of epoch {epoch}", number):
                batch = self.collate_fn([self.dataset[i] for i in indices])
            if where := nan_in(batch):
                items = ", ".join(map(str, indices[:10])) + " ..." * (len(indices) > 10)
                raise ValueError(
                    f"Batch {number} of epoch {epoch} has a NaN, {where}; "
                    f"it was made from the items {items}. Look at these."
                )
            yield batch

    def _indices(self, rng):
        if self.batch_sampler is not None:
            return (
                self.batch_sampler.batches(rng)
                if hasattr(self.batch_sampler, "batches")
                else self.batch_sampler
            )
        positions = range(len(self.dataset))
        order = permutation(rng, len(positions)) if self.shuffle else None
        found = (
            list(part) if order is None else order(np.arange(part.start, part.stop)).tolist()
            for part in _parts(positions, self.batch_size)
        )
        return (part for part in found if len(part) == self.batch_size or not self.drop_last)


def _parts(positions, size):
    return (positions[start : start + size] for start in range(0, len(positions), size))


def make_ahead(items, count):
    """Yield the items of an iterable, `count` of them made ahead on a thread with this thread's context."""
    items, end, context = iter(items), object(), contextvars.copy_context()
    with ThreadPoolExecutor(1, "prefetch") as pool:
        waiting = deque(pool.submit(context.run, next, items, end) for _ in range(count))
        try:
            while (item := waiting.popleft().result()) is not end:
                waiting.append(pool.submit(context.run, next, items, end))
                yield item
        finally:  # the iteration may be left early
            for future in waiting:
                future.cancel()


# ---------------------------------------------------------------- items to batches


def default_collate(items):
    """Stack a list of items to a batch, tuples and dicts entry by entry; strings stay a list."""
    first = items[0]
    if isinstance(first, tuple):
        return tuple(default_collate(list(entries)) for entries in zip(*items, strict=True))
    if isinstance(first, dict):
        return {key: default_collate([item[key] for item in items]) for key in first}
    if isinstance(first, (str, bytes)):
        return items
    arrays = [np.asarray(item) for item in items]
    if len(shapes := {array.shape for array in arrays}) > 1:
        raise ValueError(
            f"Items of the shapes {', '.join(map(str, sorted(shapes)))} cannot be stacked into a batch; "
            "give DataLoader a collate_fn that pads them, such as minigrad.data.padded."
        )
    return np.stack(arrays)


def padded(sequences, pad=0):
    """Pad rows of different lengths to one array (B, T, ...), of a dtype that can represent them all."""
    rows = [np.asarray(sequence) for sequence in sequences]
    if len(shapes := {row.shape[1:] for row in rows}) > 1 or any(row.ndim == 0 for row in rows):
        raise ValueError(
            "padded takes sequences that differ only in length, "
            f"got shapes {', '.join(str(row.shape) for row in rows)}."
        )
    dtype = (
        np.result_type(*(row for row in rows if row.size), np.min_scalar_type(pad))
        if any(row.size for row in rows)
        else np.int64
    )
    out = np.full((len(rows), max(map(len, rows), default=0), *next(iter(shapes), ())), pad, dtype)
    for filled, row in zip(out, rows, strict=True):
        filled[: len(row)] = row
    return out


def nan_in(batch, name="the batch"):
    """Say where a batch, an array or nested arrays, has a NaN; None if it has none."""
    if isinstance(batch, dict):
        return next(filter(None, (nan_in(value, f"{name}[{key!r}]") for key, value in batch.items())), None)
    if isinstance(batch, (tuple, list)):
        return next(filter(None, (nan_in(value, f"{name}[{i}]") for i, value in enumerate(batch))), None)
    array = batch if isinstance(batch, np.ndarray) else getattr(batch, "data", None)
    if (
        not isinstance(array, np.ndarray)
        or array.dtype.kind not in "fc"
        or not (wrong := np.isnan(array)).any()
    ):
        return None
    return f"in {name} at {tuple(map(int, np.argwhere(wrong)[0]))}, {int(wrong.sum())} in all"


# ---------------------------------------------------------------- parts of a dataset


class Subset:
    """The items of a dataset at some indices, as in torch.utils.data.Subset."""

    def __init__(self, dataset, indices):
        self.dataset, self.indices = dataset, indices

    def __len__(self):
        return len(self.indices)

    def __getitem__(self, i):
        return self.dataset[self.indices[i]]


def random_split(dataset, lengths, stream="split"):
    """Split a dataset randomly into disjoint parts, with lengths such as (0.9, 0.1) or (900, 100).

    Fractions are rounded down, and the remaining items go to the first parts, as in
    torch.utils.data.random_split. Draws from the stream of that name.
    """
    count = len(dataset)
    if abs(sum(lengths) - 1) < 1e-9 and all(0 <= length <= 1 for length in lengths):
        sizes = [int(count * length) for length in lengths]
        for i in range(count - sum(sizes)):
            sizes[i % len(sizes)] += 1
    else:
        sizes = list(lengths)
    if sum(sizes) != count or not all(isinstance(size, (int, np.integer)) and size >= 0 for size in sizes):
        raise ValueError(
            f"The lengths must add up to the {count} items of the dataset, or to 1; got {lengths!r}."
        )
    order, ends = random.fresh(stream).permutation(count).tolist(), np.cumsum([0, *sizes])
    return [Subset(dataset, order[start:stop]) for start, stop in zip(ends, ends[1:])]
