"""Attach methods to Tensor: the public functions of this folder, and methods that are no functions.

tests/engine/test_methods.py prints all methods of Tensor, with the file that defines each.
"""

import numpy as np

from minigrad.engine.recording import apply
from minigrad.engine.tensor import attach
from minigrad.ops import elementwise, indexing, linalg, reductions, shape
from minigrad.ops.elementwise import remainder, to, where
from minigrad.ops.shape import broadcast_to, reshape
from minigrad.ops.spelling import NO_GPU

# as in PyTorch; the method `where` is another, below
FUNCTIONS_ONLY = {
    "meshgrid", "concatenate", "cat", "concat", "stack", "hstack", "vstack", "vecdot", "tensordot", "einsum", "solve", "where",
}  # fmt: skip

for _module in (elementwise, reductions, shape, indexing, linalg):
    for _name in _module.__all__:
        if _name not in FUNCTIONS_ONLY:
            attach(_name, getattr(_module, _name))


# ---------------------------------------------------------------- operators


def _operator(fun):
    return lambda x, y: apply(fun, x, y)


def _reflected(fun):
    return lambda x, y: apply(fun, y, x)


for _name, _fun in {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor, "floordiv": np.floor_divide,
}.items():  # fmt: skip
    attach(f"__{_name}__", _operator(_fun))
    if _name in ("and", "or", "xor", "floordiv"):
        attach(f"__r{_name}__", _reflected(_fun))
attach("__mod__", remainder)
attach("__rmod__", lambda self, other: remainder(other, self))
attach("__invert__", lambda self: apply(np.logical_not if self.dtype == bool else np.invert, self))


# ---------------------------------------------------------------- methods and properties only


def _no_gpu(self, *_, **__):
    raise NotImplementedError(NO_GPU)


for _name, _method in {
    "T": property(lambda x: apply(np.transpose, x), doc="Transpose: reverse the axes."),
    "mT": property(lambda x: apply(np.swapaxes, x, -1, -2), doc="Transpose each matrix: swap the last two axes."),
    "trace": linalg.trace,
    "where": lambda self, condition, y: where(condition, self, y),  # x.where(condition, other)
    "view_as": lambda self, other: reshape(self, other.shape),
    "reshape_as": lambda self, other: reshape(self, other.shape),
    "expand_as": lambda self, other: broadcast_to(self, other.shape),
    "astype": to, "type": to, "type_as": to,
    "float": lambda self: to(self, np.float32), "double": lambda self: to(self, np.float64),
    "int": lambda self: to(self, np.int32), "long": lambda self: to(self, np.int64),
    "bool": lambda self: to(self, np.bool_),
    "cuda": _no_gpu, "cpu": lambda self: self, "contiguous": lambda self: self,
}.items():  # fmt: skip
    attach(_name, _method)


# ---------------------------------------------------------------- in place, under no_grad


def _in_place(fun):
    """Make the method that writes fun(x, ...) into x."""

    def change(self, *args, **kwargs):
        return self._write(
            lambda x: np.copyto(x, fun(self.detach(), *args, **kwargs).data, casting="same_kind")
        )

    return change


for _name in "exp sqrt neg abs floor ceil round tanh sigmoid relu reciprocal masked_fill pow clip".split():
    attach(f"{_name}_", _in_place(getattr(elementwise, _name)))
