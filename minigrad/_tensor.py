"""Tensor: an array that remembers how it was made. Knows how to record; knows no derivatives (ops.py does), and no operators or
functions either: those are attached from above (operators.py, reverse.py, functions/).

`record`, which `apply` calls, is the only place that records.
"""

import numpy as np

from minigrad import autograd, explain, primitives
from minigrad.autograd import RULES, Node, Value
from minigrad.modes import recording, tracing

float32, float64, int64, bool_ = map(np.dtype, ("float32", "float64", "int64", "bool"))
_FLOAT32 = float32
_default = [float32]


def get_default_dtype():
    """The dtype of tensors made from Python floats, and of integer / integer: float32 unless set otherwise."""
    return _default[0]


def set_default_dtype(dtype):
    """Make `dtype` (float32 or float64) what Python floats become."""
    dtype = np.dtype(dtype)
    if dtype not in (float32, float64):
        raise TypeError(f"The default dtype can be float32 or float64, got {dtype}.")
    _default[0] = dtype


# ---------------------------------------------------------------- recording


def apply(fun, *args, **kwargs):
    """Compute fun(*args, **kwargs) on the arrays inside, and remember it if an argument wants a gradient."""
    return record(fun, args, kwargs)


def apply_kernel(kernel, *args, **kwargs):
    """The same for a kernel, whose forward returns (value, what its backward needs)."""
    return record(kernel.forward, args, kwargs, True)


NONE = {}


def record(fun, args, kwargs=NONE, is_kernel=False):
    """What `apply` does, without unpacking: this runs for every op, so every tenth of a microsecond counts."""
    if not recording.get():
        return compute(fun, args, kwargs, is_kernel)
    arrays, parents, needs = [], [], []
    for a in args:
        if isinstance(a, Tensor):
            arrays.append(a.data)
            needed = a._requires_grad
            parents.append((a.node or a) if needed else None)
            needs.append(needed)
        else:
            arrays.append(a)
            parents.append(None)
            needs.append(False)
    y, saved = _value(fun, arrays, kwargs, is_kernel)
    if type(y) is tuple:
        return _remember_items(fun, args, tuple(needs), kwargs, y, saved)
    out = Tensor(y)
    if y.base is not None:
        _share_writes(out, args)
    if True in needs:
        row = RULES.get(fun) or _no_row(fun)
        if row is not CONSTANT:
            needs = tuple(needs)
            reads_y, reads_args = row.reads.get(needs) or _first_look(row, needs)
            known = args if reads_args is ALL else _known(args, parents, reads_args)
            out.node = Node(
                fun,
                known,
                kwargs,
                needs,
                y if reads_y else None,
                out.writes,
                y.shape,
                y.dtype,
                saved,
                parents,
            )
            out._requires_grad = True
    if tracing.get() is not None:
        tracing.get()(fun, arrays, out)
    return out


def compute(fun, args, kwargs=NONE, is_kernel=False):
    """`record` where nothing is recorded. What nearly always comes, a float32 array of its own, is wrapped and that is all."""
    arrays = []
    for a in args:
        arrays.append(a.data if isinstance(a, Tensor) else a)
    try:
        y = fun(*arrays, **kwargs) if kwargs else fun(*arrays)
    except (ValueError, TypeError, IndexError) as error:
        raise explain.failed_call(error, fun, arrays, kwargs) from None
    if is_kernel:
        y = y[0]
    if type(y) is np.ndarray and y.dtype is _FLOAT32 and tracing.get() is None:
        base = y.base
        for a in arrays:
            if y is a or base is not None and type(a) is np.ndarray and (base is a or base is a.base):
                break  # it may be memory of an argument's
        else:
            return Tensor(y)
    return _settled(fun, args, kwargs, arrays, y)


def _settled(fun, args, kwargs, arrays, y):
    """The same for whatever else a function may give: views, other dtypes, several values; and for whoever traces."""
    y = _as_it_should_be(fun, arrays, y)
    if type(y) is tuple:
        return _remember_items(fun, args, (False,) * len(args), kwargs, y, None)
    out = Tensor(y)
    if y.base is not None:
        _share_writes(out, args)
    if tracing.get() is not None:
        tracing.get()(fun, arrays, out)
    return out


def _value(fun, arrays, kwargs, is_kernel):
    """(fun's value, what a kernel saved): an array of the dtype it should have, or a tuple of arrays."""
    try:
        y = fun(*arrays, **kwargs) if kwargs else fun(*arrays)
    except (ValueError, TypeError, IndexError) as error:
        raise explain.failed_call(error, fun, arrays, kwargs) from None
    y, saved = y if is_kernel else (y, None)
    return _as_it_should_be(fun, arrays, y), saved


def _as_it_should_be(fun, arrays, y):
    if type(y) is not np.ndarray or y.dtype is not _FLOAT32:
        if type(y) is np.float32:
            return np.asarray(y)
        if isinstance(y, (tuple, list)):
            return tuple([_apart(np.asarray(item), arrays) for item in y])
        y = _keep_precision(fun, np.asarray(y), arrays)
    return _apart(y, arrays)


def _apart(y, arrays):
    """y, or a view of it if it is one of the arguments itself (squeeze with nothing to squeeze), so that it has them as its base."""
    for a in arrays:
        if y is a:
            return y.view()
    return y


def _no_row(fun):
    raise explain.no_rule(fun)


ALL = object()  # what rules read, where it is every argument


def _first_look(row, needs):
    """What the rules of a row read when those arguments need a gradient: (is y read?, is each argument read? or ALL)."""
    reads_y, *reads_args = row.what_is_read(needs)
    row.reads[needs] = reads_y, ALL if all(reads_args) else tuple(reads_args)
    return row.reads[needs]


def _known(args, parents, reads):
    """The arguments as the graph keeps them: those that no rule reads are let go, and their nodes stand in for them."""
    known = list(args)
    for i, parent in enumerate(parents):
        if parent is not None and not reads[i]:
            known[i] = parent
    return known


def _remember_items(fun, args, needs, kwargs, ys, saved):
    """A function of several values: one node for the tuple, and one for each item taken out of it."""
    outs, writes = tuple(Tensor(y) for y in ys), [0]
    for out in outs:
        out.writes = writes  # one count for all items: a rule that reads the tuple reads them all
        if out.data.base is not None:
            _share_writes(out, args)
    if True in needs and recording.get():
        row = RULES.get(fun) or _no_row(fun)
        reads_y, reads_args = row.reads.get(needs) or _first_look(row, needs)
        likes = tuple(_Like(y.shape, y.dtype) for y in ys)
        parents = [(a if a.node is None else a.node) if needed else None for a, needed in zip(args, needs)]
        known = args if reads_args is ALL else _known(args, parents, reads_args)
        node = Node(fun, known, kwargs, needs, ys if reads_y else None, writes, likes, None, saved)
        for i, out in enumerate(outs):
            if out.dtype.kind == "f":
                take_item_of(out, node, i)
    if tracing.get() is not None:
        for out in outs:
            tracing.get()(fun, list(map(_array, args)), out)
    return outs


def take_item_of(out, node, i):
    """Let `out` be the i-th value of the tuple that `node` made."""
    row, needs = RULES[autograd.take_item], (True, False)
    row.reads.get(needs) or _first_look(row, needs)
    out.node = Node(autograd.take_item, (node, i), {}, needs, None, out.writes, out.shape, out.dtype, None)
    out._requires_grad = True
    return out


class _Like:
    """The shape and dtype of an array that is not kept."""

    def __init__(self, shape, dtype):
        self.shape, self.dtype = shape, dtype


CONSTANT = object()  # in the table: a function whose value never carries a gradient (comparisons, argmax ...)
_FREE = {primitives.cast}  # functions whose result dtype is asked for, not promoted


def _keep_precision(fun, y, arrays):
    """PyTorch's promotion: scalars, 0-d arrays and integers never widen a float; integer / integer is the default dtype."""
    if y.dtype.kind != "f" or fun in _FREE:
        if y.dtype.kind in "cO":
            raise explain.unsupported_dtype(fun, y.dtype)
        return y
    floats = [a.dtype for a in arrays if isinstance(a, np.ndarray) and a.dtype.kind == "f" and a.ndim]
    for kind in (np.ndarray, np.generic):  # without axes a tensor counts for more than a NumPy scalar
        floats = floats or [a.dtype for a in arrays if isinstance(a, kind) and a.dtype.kind == "f"]
    wanted = max(floats, key=lambda dtype: dtype.itemsize) if floats else _default[0]
    return y if y.dtype == wanted else y.astype(wanted)


def _share_writes(out, args):
    """A view shares its memory, so it shares the count of writes too. NumPy notes as base whoever owns the memory."""
    base = out.data.base
    for a in args:
        if isinstance(a, Tensor) and (
            base is a.data or base is a.data.base and np.may_share_memory(out.data, a.data)
        ):
            out.writes = a.writes


# ---------------------------------------------------------------- Tensor


class Tensor(Value):
    """An array (`data`), the gradient that backward left for it (`grad`), and how it was made (`node`, None for a leaf).

    Operators and methods mean what they mean in PyTorch. `t.data` is the bare NumPy array: writing into it is seen by nobody
    (use in-place methods under no_grad, which are counted, so that backward can refuse).
    """

    __slots__ = ("data", "grad", "node", "_requires_grad", "writes", "hooks", "__weakref__")
    __array_priority__ = 1000

    def __init__(self, data):
        if type(data) is not np.ndarray:
            data = as_tensor(data).data
        self.data, self._requires_grad = data, False
        self.grad = self.node = self.hooks = None
        # when its memory was last written, by the clock that also counts births; shared by views
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
        """The shape, or the length of one axis."""
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
        """Ask for a gradient (on a leaf); returns self."""
        if requires_grad and self.data.dtype.kind != "f":
            raise TypeError(explain.integer_gradient(self.data.dtype))
        if self.node is not None and not requires_grad:
            raise RuntimeError(
                "Only a leaf can stop requiring its gradient; take x.detach() of a computed value instead."
            )
        self._requires_grad = bool(requires_grad)
        return self

    def __repr__(self):
        return explain.tensor_repr(self)

    def __len__(self):
        if not self.data.ndim:
            raise TypeError("A 0-d tensor has no length; x.item() gives its number.")
        return len(self.data)

    def __iter__(self):
        if not self.data.ndim:
            raise TypeError("A 0-d tensor cannot be iterated over; x.item() gives its number.")
        return (self[i] for i in range(len(self.data)))

    def __bool__(self):
        if self.data.size != 1:
            raise ValueError(
                f"The truth of a tensor of shape {self.shape} is ambiguous; use (x > 0).all() or .any() of it."
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
        """The one number inside, as a Python number."""
        if self.data.size != 1:
            raise ValueError(
                f"item() is for tensors of one element, this one has shape {self.shape}; use tolist() or numpy()."
            )
        return self.data.item()

    def tolist(self):
        return self.data.tolist()

    def numpy(self):
        """The array inside, shared. Refused where a gradient would be lost unnoticed."""
        if self._requires_grad:
            raise RuntimeError(explain.LEAVES_THE_GRAPH.format(what="numpy()"))
        return self.data

    def __array__(self, dtype=None, copy=None):
        if self._requires_grad:
            raise RuntimeError(explain.LEAVES_THE_GRAPH.format(what="np.asarray of it"))
        return np.array(self.data, dtype=dtype, copy=copy)

    def detach(self):
        """The same memory, without history."""
        out = Tensor(self.data)
        out.writes = self.writes
        return out

    def clone(self):
        """A copy of its own memory; the gradient passes through."""
        return apply(primitives.cast, self, self.data.dtype)

    def __copy__(self):
        return self.__deepcopy__({})

    def __deepcopy__(self, memo):
        if self.node is not None:
            raise RuntimeError("Only leaves can be deep-copied, because a computed tensor is part of a graph; copy x.detach() instead.")  # fmt: skip
        out = memo[id(self)] = type(self).__new__(type(self))
        Tensor.__init__(out, self.data.copy())
        out._requires_grad = self._requires_grad
        out.grad = None if self.grad is None else self.grad.__deepcopy__(memo)
        return out

    def __reduce__(self):
        if self.node is not None:
            raise RuntimeError("Only leaves can be pickled, because a computed tensor is part of a graph; pickle x.detach() instead.")  # fmt: skip
        return _rebuild, (type(self), self.data, self._requires_grad)

    def __getitem__(self, index):
        return apply(primitives.getitem, self, _plain_index(index))

    def __contains__(self, number):
        return bool((self.data == _array(number)).any())

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        if method != "__call__":
            raise TypeError(
                f"np.{ufunc.__name__}.{method} does not work on tensors; sum, mean, amax and their like do."
            )
        if kwargs:
            raise explain.not_dispatched(ufunc, ", ".join(f"{name}=" for name in kwargs))
        return FROM_NUMPY[ufunc](*inputs) if ufunc in FROM_NUMPY else apply(ufunc, *inputs)

    def __array_function__(self, fun, types, args, kwargs):
        for name in ("out", "where", "initial"):
            if kwargs.get(name) is not None:
                raise explain.not_dispatched(fun, f"{name}=")
        if fun in FROM_NUMPY:
            return FROM_NUMPY[fun](*args, **kwargs)
        if fun in _WRITERS:
            raise explain.not_dispatched(fun, "a tensor to write into")
        if any(
            _tensor_inside(a) for a in (*(a for a in args if not isinstance(a, Tensor)), *kwargs.values())
        ):
            raise explain.hidden_tensor(fun)
        return apply(fun, *args, **kwargs)


FROM_NUMPY = {}  # NumPy functions that functions.py composes from others, or whose arguments need rearranging
_WRITERS = {np.copyto, np.fill_diagonal, np.put, np.place, np.putmask, np.put_along_axis}


def _tensor_inside(x):
    return isinstance(x, Tensor) or isinstance(x, (list, tuple)) and any(map(_tensor_inside, x))


def _rebuild(cls, data, requires_grad):
    out = cls.__new__(cls)
    Tensor.__init__(out, data)
    out._requires_grad = requires_grad
    return out


def _array(x):
    return x.data if isinstance(x, Tensor) else x


def _plain_index(index):
    """The index with every tensor in it replaced by a copy of its array, which nobody can change before backward reads it."""
    if isinstance(index, Tensor):
        return index.data.copy()
    if isinstance(index, tuple):
        return tuple(_plain_index(part) for part in index)
    if isinstance(index, list):
        return [_plain_index(part) for part in index]
    return index


def as_tensor(x, dtype=None):
    """x itself if it is a tensor (of that dtype), else a tensor of it; Python floats become the default dtype."""
    if isinstance(x, Tensor):
        if dtype is None or x.dtype == np.dtype(dtype):
            return x
        # whole numbers and truth values carry no gradient
        return apply(primitives.cast, x if np.dtype(dtype).kind == "f" else x.detach(), np.dtype(dtype))
    try:
        array = np.asarray(_arrays_inside(x))
    except ValueError:
        raise ValueError(
            "A tensor needs rows of equal length; this nested list is ragged. Pad the rows first."
        ) from None
    for kind in (array.dtype, np.dtype(dtype or array.dtype)):
        if kind.kind not in "fiub":
            raise explain.unsupported_dtype(None, kind)
    if dtype is None and array.dtype.kind == "f" and not isinstance(x, (np.ndarray, np.generic)):
        dtype = _default[0]
    return Tensor(array if dtype is None else array.astype(dtype, copy=False))


def floating(x):
    """x as a tensor of floats: whole numbers and truth values become the default dtype, before NumPy computes with fewer bits."""
    x = as_tensor(x)
    return x if x.data.dtype.kind == "f" else as_tensor(x, _default[0])


def _arrays_inside(x):
    if isinstance(x, (list, tuple)):
        return [_arrays_inside(part) for part in x]
    return x.numpy() if isinstance(x, Tensor) else x
