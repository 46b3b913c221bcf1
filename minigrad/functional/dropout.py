"""Dropout: of a whole tensor, and tile by tile for the weights of blocked attention."""

import math

import numpy as np

from minigrad import random
from minigrad.engine.recording import floating


def dropout(x, p=0.5, training=True):
    """In training set each element to 0 with probability p, else multiply it by 1/(1-p); else return x."""
    if not 0 <= p <= 1:
        raise ValueError(f"dropout: p is a probability from 0 to 1, got {p}.")
    if not training or p == 0:
        return x
    x = floating(x)
    return x * dropout_scale(x.shape, p, x.dtype)


def dropout_scale(shape, p, dtype):
    """Draw an array of 0 with probability p, else 1/(1-p), from the stream "dropout".

    p is rounded to 1/65,536, which takes a third of the time of random floats; near 0 or 1, where that would
    matter, to 1/2^32.
    """
    if p == 1:
        return np.zeros(shape, dtype)
    kind = np.dtype(np.uint16 if 0.01 <= p <= 0.99 else np.uint32)
    size = math.prod(shape)
    words = random.stream("dropout").bit_generator.random_raw(-(-size * kind.itemsize // 8))  # 64 bits each
    scale = (words.view(kind)[:size] >= round(p * 256**kind.itemsize)).astype(dtype).reshape(shape)
    scale *= 1 / (1 - p)
    return scale


BLOCK = (192, 384)  # queries and keys in a block: small enough that its scores stay in the second-level cache


class Dropped:
    """Dropout's factors for weights (..., Tq, Tk): 0 with probability p, else 1/(1-p). Never all in memory.

    Tile (i, j) of a head comes from its own Philox generator, with the counter (head, i, j), so that backward
    can draw it again, in any order. The key comes from the stream "dropout".
    """

    def __init__(self, shape, p, dtype, block=BLOCK):
        self.shape, self.p, self.dtype, self.block = shape, p, dtype, block
        self.key = int(random.stream("dropout").integers(2**63))

    def tile(self, head, i, j):
        """Draw the factors (queries, keys) of a block. The last blocks extend beyond the edge."""
        if self.p == 1:
            return np.zeros(self.block, self.dtype)
        generator = np.random.Generator(np.random.Philox(key=self.key, counter=[0, j, i, head]))
        # keys come first, as in the kernel
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
