"""Tensor's operators (+, +=, [] ...) and in-place methods, each a call of a NumPy function.

A tensor is changed in place only where that cannot falsify a history: under no_grad, or if the tensor has
none. Every write is counted.
"""

import numpy as np

from minigrad.engine import array_functions, errors
from minigrad.engine.graph import clock
from minigrad.engine.recording import apply, array_of, as_tensor, record
from minigrad.engine.tensor import Tensor, attach
from minigrad.modes import recording


class Operators:
    """Methods that are attached to Tensor at the end of this file."""

    def __add__(self, other):
        return record(np.add, (self, other))

    def __radd__(self, other):
        return record(np.add, (other, self))

    def __sub__(self, other):
        return record(np.subtract, (self, other))

    def __rsub__(self, other):
        return record(np.subtract, (other, self))

    def __mul__(self, other):
        return record(np.multiply, (self, other))

    def __rmul__(self, other):
        return record(np.multiply, (other, self))

    def __truediv__(self, other):
        return record(np.true_divide, (self, other))

    def __rtruediv__(self, other):
        return record(np.true_divide, (other, self))

    def __pow__(self, other):
        if type(other) in (int, float) and other == 2 and (type(other) is int or self.data.dtype.kind == "f"):
            return record(np.square, (self,))  # 20 times faster than np.power
        return record(np.power, (self, other))

    def __rpow__(self, other):
        return record(np.power, (other, self))

    def __matmul__(self, other):
        return record(np.matmul, (self, as_tensor(other) if isinstance(other, list) else other))

    def __rmatmul__(self, other):
        return record(np.matmul, (as_tensor(other) if isinstance(other, list) else other, self))

    def __neg__(self):
        return record(np.negative, (self,))

    def __pos__(self):
        return self

    def __abs__(self):
        return apply(np.absolute, self)

    def __iadd__(self, other):
        return self._in_place_or_new(np.add, other)

    def __isub__(self, other):
        return self._in_place_or_new(np.subtract, other)

    def __imul__(self, other):
        return self._in_place_or_new(np.multiply, other)

    def __itruediv__(self, other):
        return self._in_place_or_new(np.true_divide, other)

    def _in_place_or_new(self, fun, other):
        """Compute x += y: in place under no_grad, as update rules in PyTorch expect; else as a new tensor."""
        if not recording.get():
            return self._write(lambda x: fun(x, array_of(other), out=x, casting="same_kind"))
        if self._requires_grad and self.node is None:
            raise RuntimeError(errors.in_place(self))
        return apply(fun, self, other)

    # -------- in place

    def _write(self, compute, source=None):
        if recording.get() and (self._requires_grad or self.node is not None):
            raise RuntimeError(errors.in_place(self))
        if isinstance(source, Tensor) and source._requires_grad and recording.get():
            raise RuntimeError(errors.WRITES_A_GRADIENT_AWAY)
        try:
            compute(self.data)
        except (ValueError, TypeError, IndexError) as error:
            raise errors.kind_of(error)(
                f"In-place change of a tensor of shape {self.shape} and dtype {self.dtype} failed: {error}"
            ) from None
        self.writes[0] = next(clock)
        return self

    def add_(self, other, *, alpha=1):
        return self._write(
            lambda x: np.add(
                x, array_of(other) if alpha == 1 else array_of(other) * alpha, out=x, casting="same_kind"
            ),
            other,
        )

    def sub_(self, other, *, alpha=1):
        return self.add_(other, alpha=-alpha)

    def mul_(self, other):
        return self._write(lambda x: np.multiply(x, array_of(other), out=x, casting="same_kind"), other)

    def div_(self, other):
        return self._write(lambda x: np.divide(x, array_of(other), out=x, casting="same_kind"), other)

    def fill_(self, value):
        return self._write(lambda x: x.fill(array_of(value)), value)

    def zero_(self):
        return self.fill_(0)

    def copy_(self, other):
        return self._write(lambda x: np.copyto(x, array_of(other), casting="same_kind"), other)

    def clamp_(self, min=None, max=None):
        return self._write(lambda x: np.clip(x, array_of(min), array_of(max), out=x))

    # -------- [], and the protocols through which NumPy's functions accept tensors

    def __setitem__(self, index, value):
        self._write(lambda x: x.__setitem__(_plain_index(index), array_of(value)), value)

    def clone(self):
        """Return a copy in new memory, through which the gradient passes."""
        return apply(array_functions.cast, self, self.data.dtype)

    def __getitem__(self, index):
        return apply(array_functions.getitem, self, _plain_index(index))

    def __contains__(self, number):
        return bool((self.data == array_of(number)).any())

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        if method != "__call__":
            raise TypeError(
                f"np.{ufunc.__name__}.{method} does not work on tensors; sum, mean, amax and so on do."
            )
        if kwargs:
            raise errors.not_dispatched(ufunc, ", ".join(f"{name}=" for name in kwargs))
        return FROM_NUMPY[ufunc](*inputs) if ufunc in FROM_NUMPY else apply(ufunc, *inputs)

    def __array_function__(self, fun, types, args, kwargs):
        for name in ("out", "where", "initial"):
            if kwargs.get(name) is not None:
                raise errors.not_dispatched(fun, f"{name}=")
        if fun in FROM_NUMPY:
            return FROM_NUMPY[fun](*args, **kwargs)
        if fun in _WRITERS:
            raise errors.not_dispatched(fun, "a tensor to write into")
        if any(
            _tensor_inside(a) for a in (*(a for a in args if not isinstance(a, Tensor)), *kwargs.values())
        ):
            raise errors.hidden_tensor(fun)
        return apply(fun, *args, **kwargs)


FROM_NUMPY = {}  # NumPy functions that ops/ composes from others, or whose arguments need rearranging
_WRITERS = {np.copyto, np.fill_diagonal, np.put, np.place, np.putmask, np.put_along_axis}


def _tensor_inside(x):
    return isinstance(x, Tensor) or isinstance(x, (list, tuple)) and any(map(_tensor_inside, x))


def _plain_index(index):
    """Replace each tensor in an index by a copy of its array, so that it stays the same until backward."""
    if isinstance(index, Tensor):
        return index.data.copy()
    if isinstance(index, tuple):
        return tuple(_plain_index(part) for part in index)
    if isinstance(index, list):
        return [_plain_index(part) for part in index]
    return index


for _name, _method in vars(Operators).items():
    if callable(_method):
        attach(_name, _method)
