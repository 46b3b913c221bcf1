"""Recording: compute a function on the arrays inside its arguments, and remember it if one of them wants a gradient.

`record`, which `apply` calls, is the only place that records.
"""

import numpy as np

from minigrad.engine import array_functions, errors
from minigrad.engine.array_functions import as_array, float32, get_default_dtype
from minigrad.engine.graph import Node, take_item
from minigrad.engine.table import CONSTANT, RULES
from minigrad.engine.tensor import Tensor
from minigrad.modes import recording, tracing


def apply(fun, *args, **kwargs):
    """Compute fun(*args, **kwargs) on the arrays inside, and remember it if an argument wants a gradient."""
    return record(fun, args, kwargs)


def apply_kernel(kernel, *args, **kwargs):
    """The same for a kernel, whose forward returns (value, what its backward needs)."""
    return record(kernel.forward, args, kwargs, True)


NONE = {}
ALL = object()  # what rules read, where it is every argument


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
    y = guarded(fun, arrays, kwargs)
    y, saved = y if is_kernel else (y, None)
    return finished(fun, args, kwargs, arrays, settled(fun, arrays, y), saved, parents, needs)


def compute(fun, args, kwargs=NONE, is_kernel=False):
    """`record` under no_grad. Fast path: a fresh float32 array is wrapped and returned."""
    arrays = []
    for a in args:
        arrays.append(a.data if isinstance(a, Tensor) else a)
    y = guarded(fun, arrays, kwargs)
    if is_kernel:
        y = y[0]
    if type(y) is np.ndarray and y.dtype is float32 and tracing.get() is None:
        base = y.base
        for a in arrays:
            if y is a or base is not None and type(a) is np.ndarray and (base is a or base is a.base):
                break  # it may be memory of an argument's
        else:
            return Tensor(y)
    return finished(fun, args, kwargs, arrays, settled(fun, arrays, y), None, (), ())


def guarded(fun, arrays, kwargs):
    """fun(*arrays, **kwargs). Raises NumPy's errors again with the shapes and the way out in their message."""
    try:
        return fun(*arrays, **kwargs) if kwargs else fun(*arrays)
    except (ValueError, TypeError, IndexError) as error:
        raise errors.failed_call(error, fun, arrays, kwargs) from None


def settled(fun, arrays, y, promote=True):
    """A function's value as Tensors hold it: an array of the dtype it should have, which is none of the arguments; or a tuple."""
    # Where no axis is left, NumPy gives a scalar.
    if type(y) is np.float32:
        return np.asarray(y)
    # Several values keep the dtypes they have.
    if isinstance(y, (tuple, list)):
        return tuple([settled(fun, arrays, item, promote=False) for item in y])
    # A float gets the dtype PyTorch would give it: scalars, 0-d arrays and integers never widen one.
    if type(y) is not np.ndarray or y.dtype is not float32:
        y = np.asarray(y)
        if y.dtype.kind in "cO":
            raise errors.unsupported_dtype(fun, y.dtype)
        if promote and y.dtype.kind == "f" and fun not in AS_ASKED:
            y = y.astype(promoted(arrays), copy=False)
    # An argument itself (squeeze with nothing to squeeze) becomes a view of it, so that its base says whose memory it is.
    for a in arrays:
        if y is a:
            return y.view()
    return y


AS_ASKED = {array_functions.cast}  # functions whose result's dtype is an argument


def promoted(arrays):
    """The dtype of a float computed from `arrays`: of floats with axes the widest, else of 0-d arrays, else of scalars."""
    floats = [a for a in arrays if isinstance(a, (np.ndarray, np.generic)) and a.dtype.kind == "f"]
    if not floats:
        return get_default_dtype()
    return max(floats, key=lambda a: (a.ndim > 0, isinstance(a, np.ndarray), a.dtype.itemsize)).dtype


def finished(fun, args, kwargs, arrays, y, saved, parents, needs):
    """The value as a Tensor, or a tuple of Tensors; with a Node, if an argument needs a gradient. Tracing hears of it."""
    if type(y) is tuple:
        return _items(fun, args, kwargs, arrays, y, saved, parents, needs)
    out = Tensor(y)
    if y.base is not None:
        _share_writes(out, args)
    if True in needs:
        row = RULES.get(fun) or _no_row(fun)
        if row is not CONSTANT:
            reads_y, known = _kept(row, args, parents, needs := tuple(needs))
            y_kept = y if reads_y else None
            out.node = Node(fun, known, kwargs, needs, y_kept, out.writes, y.shape, y.dtype, saved, parents)
            out._requires_grad = True
    if tracing.get() is not None:
        tracing.get()(fun, arrays, out)
    return out


def _items(fun, args, kwargs, arrays, ys, saved, parents, needs):
    """A function of several values: one node for the tuple, and one for each item taken out of it."""
    outs, writes = tuple(Tensor(y) for y in ys), [0]
    for out in outs:
        out.writes = writes  # one count for all items: a rule that reads the tuple reads them all
        if out.data.base is not None:
            _share_writes(out, args)
    if True in needs:
        row = RULES.get(fun) or _no_row(fun)
        reads_y, known = _kept(row, args, parents, needs := tuple(needs))
        likes = tuple(_Like(y.shape, y.dtype) for y in ys)
        node = Node(fun, known, kwargs, needs, ys if reads_y else None, writes, likes, None, saved, parents)
        for i, out in enumerate(outs):
            if out.dtype.kind == "f":
                take_item_of(out, node, i)
    if tracing.get() is not None:
        for out in outs:
            tracing.get()(fun, arrays, out)
    return outs


def _no_row(fun):
    raise errors.no_rule(fun)


def _kept(row, args, parents, needs):
    """(is y read?, the arguments as the graph keeps them): where no rule reads an argument, its node stands in for it."""
    reads_y, reads_args = row.reads_by_needs.get(needs) or _first_look(row, needs)
    if reads_args is ALL:
        return reads_y, args
    known = list(args)
    for i, parent in enumerate(parents):
        if parent is not None and not reads_args[i]:
            known[i] = parent
    return reads_y, known


def _first_look(row, needs):
    """What the rules of a row read when those arguments need a gradient: (is y read?, is each argument read? or ALL)."""
    reads_y, *reads_args = row.reads(needs)
    row.reads_by_needs[needs] = reads_y, ALL if all(reads_args) else tuple(reads_args)
    return row.reads_by_needs[needs]


def take_item_of(out, node, i):
    """Let `out` be the i-th value of the tuple that `node` made."""
    row, needs = RULES[take_item], (True, False)
    row.reads_by_needs.get(needs) or _first_look(row, needs)
    out.node = Node(take_item, (node, i), {}, needs, None, out.writes, out.shape, out.dtype, None)
    out._requires_grad = True
    return out


class _Like:
    """The shape and dtype of an array that is not kept."""

    def __init__(self, shape, dtype):
        self.shape, self.dtype = shape, dtype


def _share_writes(out, args):
    """A view shares its memory, so it shares the count of writes too. NumPy notes as base whoever owns the memory."""
    base = out.data.base
    for a in args:
        if isinstance(a, Tensor) and (
            base is a.data or base is a.data.base and np.may_share_memory(out.data, a.data)
        ):
            out.writes = a.writes


# ---------------------------------------------------------------- tensors of what is none


def as_tensor(x, dtype=None):
    """x itself if it is a tensor (of that dtype), else a tensor of it; Python floats become the default dtype."""
    if isinstance(x, Tensor):
        if dtype is None or x.dtype == np.dtype(dtype):
            return x
        # whole numbers and truth values carry no gradient
        return apply(array_functions.cast, x if np.dtype(dtype).kind == "f" else x.detach(), np.dtype(dtype))
    return Tensor(as_array(x, dtype))


def floating(x):
    """x as a tensor of floats: whole numbers and truth values become the default dtype, before NumPy computes with fewer bits."""
    x = as_tensor(x)
    return x if x.data.dtype.kind == "f" else as_tensor(x, get_default_dtype())


def array_of(x):
    """The array of a tensor; anything else as it is."""
    return x.data if isinstance(x, Tensor) else x
