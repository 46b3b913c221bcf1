"""Weights stored in two bytes an element and computed with in float32: half the memory, more work a token.

float16    11 bits of accuracy, nothing above 65,504        bfloat16    8 bits, and the range of float32
"""

import numpy as np

from minigrad import Tensor, is_grad_enabled
from minigrad.nn import Embedding, Linear, Module

# elements unpacked at once: 256 KiB of float32, which with the intermediate arrays fit the processor's cache
BLOCK = 1 << 16


class Packed(Module):
    """A Linear or an Embedding with packed weights. It cannot be trained."""

    def __init__(self, layer, storage):
        self.storage, self.bias = storage, getattr(layer, "bias", None)
        self.is_table = isinstance(layer, Embedding)
        self.numbers = pack(layer.weight.data, storage)

    @property
    def weight(self):
        return Tensor(self.rows(slice(None)))

    def rows(self, index):
        return unpack(self.numbers[index], self.storage)

    def forward(self, x):
        return Tensor(self.rows(getattr(x, "data", x))) if self.is_table else self.project(x)

    def project(self, x):
        """x W^T + b, with as many rows of W at a time as fit into the cache."""
        if is_grad_enabled() and x.requires_grad:
            raise ValueError(
                "Packed weights work under no_grad only; to train, load the model with storage='float32'."
            )
        flat, (out, width) = x.data.reshape(-1, x.shape[-1]), self.numbers.shape
        y, step = np.empty((len(flat), out), np.float32), max(1, BLOCK // width)
        for start in range(0, out, step):
            np.matmul(flat, self.rows(slice(start, start + step)).T, out=y[:, start : start + step])
        if self.bias is not None:
            y += self.bias.data
        return Tensor(y.reshape(*x.shape[:-1], out))


def pack(array, storage):
    """Convert to float16, or to bfloat16 as uint16: the upper half of a float32, rounded half to even."""
    if storage == "float16":
        if not np.abs(array).max(initial=0) <= np.finfo(np.float16).max:
            raise ValueError(
                "The weights hold values above 65,504, the largest float16, or a NaN; use storage='bfloat16'."
            )
        return array.astype(np.float16)
    bits = np.ascontiguousarray(array).view(np.uint32)
    return ((bits + (0x7FFF + (bits >> 16 & 1))) >> 16).astype(np.uint16)


def unpack(numbers, storage):
    """Convert packed elements to float32.

    A float16 has its sign, exponent and mantissa in the order of a float32, with another exponent bias:
    shifted into place it is 2^112 times too small. NumPy's astype converts element by element, three times
    slower."""
    if storage == "bfloat16":
        bits = numbers.astype(np.uint32)
        bits <<= 16
        return bits.view(np.float32)
    bits = numbers.view(np.int16).astype(np.int32)  # the sign fills the upper half
    bits <<= 13
    bits &= ~0x70000000  # and stays in the uppermost bit only
    out = bits.view(np.float32)
    out *= 2.0**112
    return out


class Packing:
    """Packs the matrices of a model one by one as they are loaded: they are never all float32 at once.

    A tied matrix stays tied. Learned positions are not packed."""

    def __init__(self, model, storage):
        self.storage, self.waiting = storage, {}
        for module in model.modules():
            for name, child in module.named_children():
                if type(child) in (Linear, Embedding):
                    self.waiting.setdefault(id(child.weight), (child, []))[1].append((module, name))

    def take(self, parameter):
        """Replace the layer whose weight this is by a Packed one, if there is such a layer."""
        layer, places = self.waiting.pop(id(parameter), (None, ()))
        new = Packed(layer, self.storage) if places else None
        for module, name in places:
            setattr(module, name, new)
