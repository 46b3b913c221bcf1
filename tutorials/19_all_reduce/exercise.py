"""Exercises of lesson 19: many processes and one model.

Write each function where it says so; `python -m tutorials check 19` tests this file and explains.
NumPy is all you need. Processes are simulated here: p ranks, numbered 0 to p - 1, and what rank r holds stands in row r of an
array, or at place r of a list. The right neighbour of rank r is rank (r + 1) % p.
"""

import numpy as np


def shard(n, ranks):
    """Which of n examples each rank takes: a list of `ranks` pairs (start, stop), whole numbers, for batch[start:stop].

    Every example belongs to exactly one rank, in order: rank 0 has the first ones. Sizes differ by at most 1, and the larger
    ones come first. With fewer examples than ranks the last ranks get nothing: (n, n).
    """
    # solution
    size, rest = divmod(n, ranks)
    starts = [rank * size + min(rank, rest) for rank in range(ranks + 1)]
    return list(zip(starts[:-1], starts[1:], strict=True))
    # end


def combine_gradients(gradients, counts):
    """The gradient of the mean loss of a whole batch, from what the ranks computed of their parts.

    gradients  a list of arrays of one shape: on rank r, the gradient of the mean loss over its counts[r] numbers
    counts     a list of whole numbers, over how many numbers each rank's mean runs. They may differ, and may be 0: such a
               rank has no loss, and its gradient is not to be used (a mean of nothing is NaN)
    Returns an array of that shape; zeros if all counts are 0. The arrays given stay as they are.
    """
    # solution
    total = np.zeros_like(gradients[0])
    for gradient, count in zip(gradients, counts, strict=True):
        if count:
            total = total + gradient * (count / sum(counts))
    return total
    # end


def ring_reduce_scatter(held):
    """The first half of a ring all-reduce. held (p, p, n): held[r, c] is piece c of rank r's array -> (p, p, n), a new array:
    what each rank holds at the end.

    p - 1 rounds, t = 0, 1, ... In round t every rank r sends its piece (r - t) % p to its right neighbour, which adds it to
    its own piece of that number. All send at the same time: what is sent is what was held when the round began.
    At the end piece (r + 1) % p of rank r is the sum over all ranks; its other pieces are whatever sums they have become.
    """
    # solution
    held, p = held.copy(), len(held)
    for t in range(p - 1):
        sent = [held[r, (r - t) % p].copy() for r in range(p)]
        for r in range(p):
            held[(r + 1) % p, (r - t) % p] += sent[r]
    return held
    # end


def ring_all_gather(held):
    """The second half. held (p, p, n), of which only piece (r + 1) % p of rank r counts: it is complete -> (p, p, n), a new
    array in which all ranks hold all complete pieces.

    p - 1 rounds, t = 0, 1, ... In round t every rank r sends its piece (r + 1 - t) % p to its right neighbour, which puts it in
    the place of its own piece of that number. Nothing is added up any more.
    """
    # solution
    held, p = held.copy(), len(held)
    for t in range(p - 1):
        sent = [held[r, (r + 1 - t) % p].copy() for r in range(p)]
        for r in range(p):
            held[(r + 1) % p, (r + 1 - t) % p] = sent[r]
    return held
    # end


def all_reduce(arrays):
    """The sum of the ranks' arrays, on every rank: a list of p arrays of one shape -> a list of p new arrays of that shape.

    By the ring, for arrays of any shape and size: made flat, and filled up with zeros at the end until they can be cut into p
    pieces of one size. Use ring_reduce_scatter and ring_all_gather. The arrays given stay as they are.
    """
    # solution
    p, shape, size = len(arrays), arrays[0].shape, arrays[0].size
    piece = -(-size // p)
    held = np.zeros((p, p * piece), arrays[0].dtype)
    for row, array in zip(held, arrays, strict=True):
        row[:size] = array.ravel()
    held = ring_all_gather(ring_reduce_scatter(held.reshape(p, p, piece)))
    return [row.ravel()[:size].reshape(shape) for row in held]
    # end


def all_reduce_seconds(size, ranks, latency, bandwidth):
    """How long an all-reduce of `size` bytes takes, three ways: (ring, tree, naive), in seconds; all 0 for one rank.

    A message of m bytes takes latency + m / bandwidth seconds. A rank sends one message and receives one at the same time, no
    more; adding costs nothing.
    ring   reduce-scatter and all-gather, p - 1 rounds each, in which every rank sends a p-th of the bytes
    tree   a reduce to rank 0 by halves: in each round half of the ranks that are left send all bytes to the other half, which
           add; then a broadcast, the same backwards. For p that is no power of two the number of rounds is rounded up
    naive  rank 0 receives all bytes of each other rank, one after the other, and sends the sum to each, one after the other
    """
    # solution
    steps, rounds = ranks - 1, (ranks - 1).bit_length()
    whole = latency + size / bandwidth
    return 2 * steps * (latency + size / ranks / bandwidth), 2 * rounds * whole, 2 * steps * whole
    # end


def reduce_in_buckets(arrays, limit, reduce):
    """Send a rank's gradients through `reduce` in flat buckets: a list of arrays -> a list of new arrays of the same shapes.

    limit   at most so many numbers go into a bucket; an array that is larger by itself makes a bucket alone. No array is cut
    reduce  takes a flat array (n,) and returns its sum over all ranks, (n,); it is called once for each bucket
    The last array comes first, since backward finishes it first: buckets are filled from the end of the list, and a bucket
    holds its arrays in that order, each in C order (ravel). What is returned stands in the order of `arrays`.
    """
    # solution
    buckets = [[]]
    for number in reversed(range(len(arrays))):
        full = sum(arrays[i].size for i in buckets[-1]) + arrays[number].size > limit
        if full and buckets[-1]:
            buckets.append([])
        buckets[-1].append(number)
    reduced = [None] * len(arrays)
    for bucket in buckets if arrays else ():
        flat, start = reduce(np.concatenate([arrays[i].ravel() for i in bucket])), 0
        for i in bucket:
            reduced[i] = flat[start : start + arrays[i].size].reshape(arrays[i].shape)
            start += arrays[i].size
    return reduced
    # end
