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
        raise errors.failed_call(error, fun, arrays, kwargs) from None
    if is_kernel:
        y = y[0]
    if type(y) is np.ndarray and y.dtype is float32 and tracing.get() is None:
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
        raise errors.failed_call(error, fun, arrays, kwargs) from None
    y, saved = y if is_kernel else (y, None)
    return _as_it_should_be(fun, arrays, y), saved


def _as_it_should_be(fun, arrays, y):
    if type(y) is not np.ndarray or y.dtype is not float32:
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
    raise errors.no_rule(fun)


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
            tracing.get()(fun, list(map(array_of, args)), out)
    return outs


def take_item_of(out, node, i):
    """Let `out` be the i-th value of the tuple that `node` made."""
    row, needs = RULES[take_item], (True, False)
    row.reads.get(needs) or _first_look(row, needs)
    out.node = Node(take_item, (node, i), {}, needs, None, out.writes, out.shape, out.dtype, None)
    out._requires_grad = True
    return out


class _Like:
    """The shape and dtype of an array that is not kept."""

    def __init__(self, shape, dtype):
        self.shape, self.dtype = shape, dtype


_FREE = {array_functions.cast}  # functions whose result dtype is asked for, not promoted


def _keep_precision(fun, y, arrays):
    """PyTorch's promotion: scalars, 0-d arrays and integers never widen a float; integer / integer is the default dtype."""
    if y.dtype.kind != "f" or fun in _FREE:
        if y.dtype.kind in "cO":
            raise errors.unsupported_dtype(fun, y.dtype)
        return y
    floats = [a.dtype for a in arrays if isinstance(a, np.ndarray) and a.dtype.kind == "f" and a.ndim]
    for kind in (np.ndarray, np.generic):  # without axes a tensor counts for more than a NumPy scalar
        floats = floats or [a.dtype for a in arrays if isinstance(a, kind) and a.dtype.kind == "f"]
    wanted = max(floats, key=lambda dtype: dtype.itemsize) if floats else get_default_dtype()
    return y if y.dtype == wanted else y.astype(wanted)


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
