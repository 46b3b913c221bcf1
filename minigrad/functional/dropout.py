"""Dropout: for a whole tensor, and tile by tile for the weights of attention in blocks."""

import math

import numpy as np

from minigrad import random
from minigrad.engine.recording import floating


def dropout(x, p=0.5, training=True):
    """In training each element is 0 with probability p, and 1/(1-p) times itself otherwise; in evaluation x itself."""
    if not 0 <= p <= 1:
        raise ValueError(f"dropout: p is a probability from 0 to 1, got {p}.")
    if not training or p == 0:
        return x
    x = floating(x)
    return x * dropout_scale(x.shape, p, x.dtype)


def dropout_scale(shape, p, dtype):
    """0 with probability p, else 1/(1-p): an array from the stream "dropout". The chance is p to the nearest 1/65,536, which takes
    a third of the time of random floats, or 1/2^32 where p is near 0 or 1 and that would show."""
    if p == 1:
        return np.zeros(shape, dtype)
    kind = np.dtype(np.uint16 if 0.01 <= p <= 0.99 else np.uint32)
    size = math.prod(shape)
    words = random.stream("dropout").bit_generator.random_raw(-(-size * kind.itemsize // 8))  # 64 bits each
    scale = (words.view(kind)[:size] >= round(p * 256**kind.itemsize)).astype(dtype).reshape(shape)
    scale *= 1 / (1 - p)
    return scale


BLOCK = (192, 384)  # queries and keys to a block: small enough that its scores stay in the second-level cache


class Dropped:
    """What dropout multiplies weights of a shape (..., Tq, Tk) by: 0 with probability p, else 1/(1-p); never all in memory.

    Tile (i, j) of a head comes from a Philox generator of its own, whose counter is set to (head, i, j), so that backward
    draws it again, in any order. The key is drawn from the stream "dropout".
    """

    def __init__(self, shape, p, dtype, block=BLOCK):
        self.shape, self.p, self.dtype, self.block = shape, p, dtype, block
        self.key = int(random.stream("dropout").integers(2**63))

    def tile(self, head, i, j):
        """(queries, keys) of a block; the last ones reach over the edge."""
        if self.p == 1:
            return np.zeros(self.block, self.dtype)
        generator = np.random.Generator(np.random.Philox(key=self.key, counter=[0, j, i, head]))
        # keys first, as in the kernel
        scale = (generator.random(self.block[::-1], dtype=np.float32) >= self.p).astype(self.dtype)
        scale *= 1 / (1 - self.p)
        return scale.T

    def whole(self):
        *lead, queries, keys = self.shape
        tall, wide = self.block
        out = np.empty((math.prod(lead), queries, keys), self.dtype)
        for head, i, j in np.ndindex(len(out), -(-queries // tall), -(-keys // wide)):
            part = out[head, i * tall : (i + 1) * tall, j * wide : (j + 1) * wide]
            part[:] = self.tile(head, i, j)[: part.shape[0], : part.shape[1]]
        return out.reshape(self.shape)
