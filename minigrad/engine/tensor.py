"""Tensor: an array that remembers how it was made.

This file imports no rules and records nothing: recording.py computes with Tensors, and their operators and
other methods are attached by operators.py, backward.py, ops/methods.py and functional/activations.py.
"""

import numpy as np

from minigrad.engine import errors
from minigrad.engine.array_functions import as_array
from minigrad.engine.graph import Value


class Tensor(Value):
    """An array (`data`), the gradient from backward (`grad`), and how it was made (`node`, None for a leaf).

    Operators and methods mean what they mean in PyTorch. `t.data` is the NumPy array itself, and writes into
    it go undetected. Use the in-place methods under no_grad instead: they count writes, so that backward can
    refuse.
    """

    __slots__ = ("data", "grad", "node", "_requires_grad", "writes", "hooks", "__weakref__")
    __array_priority__ = 1000

    def __init__(self, data):
        if type(data) is not np.ndarray:
            data = data.data if isinstance(data, Tensor) else as_array(data)
        self.data, self._requires_grad = data, False
        self.grad = self.node = self.hooks = None
        # when the memory was last written, by the clock that also counts births; views share this list
        self.writes = [0]

    # -------- what it is

    @property
    def shape(self):
        return self.data.shape

    @property
    def dtype(self):
        return self.data.dtype

    @property
    def ndim(self):
        return self.data.ndim

    def size(self, dim=None):
        """Return the shape, or the length of one axis."""
        if dim is not None and not -self.data.ndim <= dim < self.data.ndim:
            raise IndexError(f"size: there is no axis {dim} in a tensor of shape {self.shape}.")
        return self.data.shape if dim is None else self.data.shape[dim]

    def dim(self):
        return self.data.ndim

    def numel(self):
        return self.data.size

    @property
    def is_leaf(self):
        return self.node is None

    @property
    def grad_fn(self):
        """PyTorch's name for the node."""
        return self.node

    @property
    def device(self):
        return "cpu"

    @property
    def requires_grad(self):
        return self._requires_grad

    @requires_grad.setter
    def requires_grad(self, wanted):
        self.requires_grad_(wanted)

    def requires_grad_(self, requires_grad=True):
        """Ask for a gradient (on a leaf). Returns self."""
        if requires_grad and self.data.dtype.kind != "f":
            raise TypeError(errors.integer_gradient(self.data.dtype))
        if self.node is not None and not requires_grad:
            raise RuntimeError(
                "Only a leaf can stop requiring its gradient; take x.detach() of a computed value instead."
            )
        self._requires_grad = bool(requires_grad)
        return self

    def __repr__(self):
        return errors.tensor_repr(self)

    def __len__(self):
        if not self.data.ndim:
            raise TypeError("A 0-d tensor has no length; x.item() returns its only element.")
        return len(self.data)

    def __iter__(self):
        if not self.data.ndim:
            raise TypeError("A 0-d tensor cannot be iterated over; x.item() returns its only element.")
        return (self[i] for i in range(len(self.data)))

    def __bool__(self):
        if self.data.size != 1:
            raise ValueError(
                f"A tensor of shape {self.shape} is ambiguous as a boolean; "
                "use (x > 0).all() or (x > 0).any()."
            )
        return bool(self.data.reshape(()))

    def __float__(self):
        return float(self.item())

    def __int__(self):
        return int(self.item())

    def __index__(self):
        if self.data.dtype.kind not in "iu":
            raise TypeError(f"Only an integer tensor can be an index, got {self.data.dtype}.")
        return int(self.item())

    def __format__(self, spec):
        return format(self.item(), spec) if spec and not self.data.ndim else str(self)

    __hash__ = object.__hash__

    # -------- leaving the graph

    def item(self):
        """Return the only element as a Python number."""
        if self.data.size != 1:
            raise ValueError(
                f"item() is for tensors of one element, this one has shape {self.shape}; "
                "use tolist() or numpy()."
            )
        return self.data.item()

    def tolist(self):
        return self.data.tolist()

    def numpy(self):
        """Return the array itself, not a copy. Raises RuntimeError if the tensor requires a gradient."""
        if self._requires_grad:
            raise RuntimeError(errors.LEAVES_THE_GRAPH.format(what="numpy()"))
        return self.data

    def __array__(self, dtype=None, copy=None):
        if self._requires_grad:
            raise RuntimeError(errors.LEAVES_THE_GRAPH.format(what="np.asarray of it"))
        return np.array(self.data, dtype=dtype, copy=copy)

    def detach(self):
        """Return a tensor that shares the memory and has no history."""
        out = Tensor(self.data)
        out.writes = self.writes
        return out

    def __copy__(self):
        return self.__deepcopy__({})

    def __deepcopy__(self, memo):
        if self.node is not None:
            raise RuntimeError(
                "Only leaves can be deep-copied, because a computed tensor is part of a graph; "
                "copy x.detach() instead."
            )
        out = memo[id(self)] = type(self).__new__(type(self))
        Tensor.__init__(out, self.data.copy())
        out._requires_grad = self._requires_grad
        out.grad = None if self.grad is None else self.grad.__deepcopy__(memo)
        return out

    def __reduce__(self):
        if self.node is not None:
            raise RuntimeError(
                "Only leaves can be pickled, because a computed tensor is part of a graph; "
                "pickle x.detach() instead."
            )
        return _rebuild, (type(self), self.data, self._requires_grad)


def attach(name, method):
    """Make a function or property the attribute `name` of Tensor. Raises TypeError if it exists."""
    if name in vars(Tensor):
        owner = vars(Tensor)[name]
        owner = getattr(getattr(owner, "fget", owner), "__module__", __name__)
        raise TypeError(f"Tensor.{name} is already defined in {owner}; give the new method another name.")
    setattr(Tensor, name, method)


def _rebuild(cls, data, requires_grad):
    out = cls.__new__(cls)
    Tensor.__init__(out, data)
    out._requires_grad = requires_grad
    return out
