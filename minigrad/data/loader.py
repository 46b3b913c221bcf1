"""Batches of a dataset, shuffled and made ahead on a thread if wished, with PyTorch's names. A dataset is what has a length and
items by number; this module knows nothing else of it."""

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

    shuffle        in an order that depends on the seed and the epoch alone; each iteration is the next epoch (see set_epoch)
    drop_last      leave out a last batch that is shorter
    collate_fn     makes a batch of a list of items; by default arrays are stacked (default_collate)
    batch_sampler  which items make a batch, in place of the three above: lists of numbers, or a Buckets
    prefetch       so many batches are made ahead on a thread, while the model learns. Its exceptions arrive here, and it ends with
                   the iteration, also one that is left early
    stream         the name of the random numbers. What is drawn while a batch is made, from whatever stream, depends on the seed,
                   this name, the epoch and the batch alone: prefetch, and what else is drawn in the meantime, change nothing
    A NaN in a batch is a ValueError that says where.
    """

    def __init__(self, dataset, batch_size=1, shuffle=False, *, drop_last=False, collate_fn=None, batch_sampler=None, prefetch=0, stream="data"):  # fmt: skip
        for name, number, least in (("batch_size", batch_size, 1), ("prefetch", prefetch, 0)):
            if not isinstance(number, (int, np.integer)) or number < least:
                raise ValueError(f"{name} must be a whole number from {least}, got {number!r}.")
        if batch_sampler is not None and (batch_size != 1 or shuffle or drop_last):
            raise ValueError(
                "A batch_sampler decides on the batches alone; leave out batch_size, shuffle and drop_last."
            )
        self.dataset, self.batch_size, self.shuffle, self.drop_last = dataset, batch_size, shuffle, drop_last
        self.collate_fn, self.batch_sampler = collate_fn or default_collate, batch_sampler
        self.prefetch, self.stream, self.epoch = prefetch, stream, 0

    def __len__(self):
        """How many batches an epoch has."""
        return (
            batch_count(len(self.dataset), self.batch_size, self.drop_last)
            if self.batch_sampler is None
            else len(self.batch_sampler)
        )

    def set_epoch(self, epoch):
        """Which epoch the next iteration is; a run that goes on in the middle sets it."""
        self.epoch = epoch

    def __iter__(self):
        epoch, self.epoch = self.epoch, self.epoch + 1
        batches = self._batches(epoch)
        return ahead(batches, self.prefetch) if self.prefetch else batches

    def _batches(self, epoch):
        for number, indices in enumerate(self._indices(random.fresh(self.stream, epoch))):
            with random.isolated(f"{self.stream} of epoch {epoch}", number):
                batch = self.collate_fn([self.dataset[i] for i in indices])
            if place := nan_in(batch):
                raise ValueError(f"Batch {number} of epoch {epoch} holds a NaN, {place}; it was made of the items {', '.join(map(str, indices[:10]))}{' ...' * (len(indices) > 10)}. Look at these.")  # fmt: skip
            yield batch

    def _indices(self, rng):
        if self.batch_sampler is not None:
            return (
                self.batch_sampler.batches(rng)
                if hasattr(self.batch_sampler, "batches")
                else self.batch_sampler
            )
        places = range(len(self.dataset))
        order = permutation(rng, len(places)) if self.shuffle else None
        found = (
            list(part) if order is None else order(np.arange(part.start, part.stop)).tolist()
            for part in _parts(places, self.batch_size)
        )
        return (part for part in found if len(part) == self.batch_size or not self.drop_last)


def _parts(places, size):
    return (places[start : start + size] for start in range(0, len(places), size))


def ahead(items, count):
    """The items of an iterable, so many of them made ahead on a thread, which takes over what holds here (no_grad and the like)."""
    items, end, context = iter(items), object(), contextvars.copy_context()
    with ThreadPoolExecutor(1, "prefetch") as pool:
        waiting = deque(pool.submit(context.run, next, items, end) for _ in range(count))
        try:
            while (item := waiting.popleft().result()) is not end:
                waiting.append(pool.submit(context.run, next, items, end))
                yield item
        finally:  # whoever iterates may leave early
            for future in waiting:
                future.cancel()


# ---------------------------------------------------------------- items to batches


def default_collate(items):
    """A batch of a list of items: arrays and numbers are stacked, tuples and dicts entry by entry, texts stay a list."""
    first = items[0]
    if isinstance(first, tuple):
        return tuple(default_collate(list(entries)) for entries in zip(*items, strict=True))
    if isinstance(first, dict):
        return {key: default_collate([item[key] for item in items]) for key in first}
    if isinstance(first, (str, bytes)):
        return items
    arrays = [np.asarray(item) for item in items]
    if len(shapes := {array.shape for array in arrays}) > 1:
        raise ValueError(f"Items of the shapes {', '.join(map(str, sorted(shapes)))} cannot be stacked to a batch; give DataLoader a collate_fn that pads them, such as minigrad.data.padded.")  # fmt: skip
    return np.stack(arrays)


def padded(sequences, pad=0):
    """Rows of different length as one array (B, T, ...), filled up with `pad`; of the type that holds them all."""
    rows = [np.asarray(sequence) for sequence in sequences]
    if len(shapes := {row.shape[1:] for row in rows}) > 1 or any(row.ndim == 0 for row in rows):
        raise ValueError(
            f"padded takes sequences that differ in their length only, got shapes {', '.join(str(row.shape) for row in rows)}."
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
    """Where a batch, an array or a nest of them, holds a NaN, as words; None where it does not."""
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
    """The items of a dataset at some indices, as torch.utils.data.Subset."""

    def __init__(self, dataset, indices):
        self.dataset, self.indices = dataset, indices

    def __len__(self):
        return len(self.indices)

    def __getitem__(self, i):
        return self.dataset[self.indices[i]]


def random_split(dataset, lengths, stream="split"):
    """A dataset in parts that share no item, drawn from the stream of that name, such as lengths=(0.9, 0.1) or (900, 100).

    Shares are rounded down, and what is left over is dealt out from the first part on, as in torch.utils.data.random_split.
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
