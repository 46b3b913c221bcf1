"""Recording: compute a function on its arguments' arrays, and make a Node if one needs a gradient.

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
    """Compute fun(*args, **kwargs) on the arguments' arrays, and record it if one requires a gradient."""
    return record(fun, args, kwargs)


def apply_kernel(kernel, *args, **kwargs):
    """`apply` for a kernel, whose forward returns (value, what its backward needs)."""
    return record(kernel.forward, args, kwargs, True)


NONE = {}
ALL = object()  # in a row's cache: the rules read every argument


def record(fun, args, kwargs=NONE, is_kernel=False):
    """`apply` without unpacking. This runs for every op, so every tenth of a microsecond counts."""
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
    y = call(fun, arrays, kwargs)
    y, saved = y if is_kernel else (y, None)
    return wrap(fun, args, kwargs, arrays, normalize(fun, arrays, y), saved, parents, needs)


def compute(fun, args, kwargs=NONE, is_kernel=False):
    """`record` under no_grad. Fast path: a fresh float32 array is wrapped and returned."""
    arrays = []
    for a in args:
        arrays.append(a.data if isinstance(a, Tensor) else a)
    y = call(fun, arrays, kwargs)
    if is_kernel:
        y = y[0]
    if type(y) is np.ndarray and y.dtype is float32 and tracing.get() is None:
        base = y.base
        for a in arrays:
            if y is a or base is not None and type(a) is np.ndarray and (base is a or base is a.base):
                break  # y may share memory with an argument
        else:
            return Tensor(y)
    return wrap(fun, args, kwargs, arrays, normalize(fun, arrays, y), None, (), ())


def call(fun, arrays, kwargs):
    """Compute fun(*arrays, **kwargs). Raises NumPy's errors with the shapes and a fix in the message."""
    try:
        return fun(*arrays, **kwargs) if kwargs else fun(*arrays)
    except (ValueError, TypeError, IndexError) as error:
        raise errors.failed_call(error, fun, arrays, kwargs) from None


def normalize(fun, arrays, y, promote=True):
    """Convert a value to what a Tensor holds: an array of the right dtype that is no argument; or a tuple."""
    # NumPy returns a scalar where no axis is left.
    if type(y) is np.float32:
        return np.asarray(y)
    # The values of a tuple keep their dtypes.
    if isinstance(y, (tuple, list)):
        return tuple([normalize(fun, arrays, item, promote=False) for item in y])
    # A float gets the dtype that PyTorch would choose: scalars, 0-d arrays and integers never widen it.
    if type(y) is not np.ndarray or y.dtype is not float32:
        y = np.asarray(y)
        if y.dtype.kind in "cO":
            raise errors.unsupported_dtype(fun, y.dtype)
        if promote and y.dtype.kind == "f" and fun not in EXPLICIT_DTYPE:
            y = y.astype(result_dtype(arrays), copy=False)
    # If y is an argument (squeeze with nothing to squeeze), return a view, so that y.base shows whose memory
    # it is.
    for a in arrays:
        if y is a:
            return y.view()
    return y


EXPLICIT_DTYPE = {array_functions.cast}  # functions whose result's dtype is an argument


def result_dtype(arrays):
    """The widest dtype among floats with axes in `arrays`, else among 0-d arrays, else among scalars."""
    floats = [a for a in arrays if isinstance(a, (np.ndarray, np.generic)) and a.dtype.kind == "f"]
    if not floats:
        return get_default_dtype()
    return max(floats, key=lambda a: (a.ndim > 0, isinstance(a, np.ndarray), a.dtype.itemsize)).dtype


def wrap(fun, args, kwargs, arrays, y, saved, parents, needs):
    """Make a value a Tensor (a tuple several), with a Node if an argument needs a gradient. Calls tracing."""
    if type(y) is tuple:
        return _wrap_items(fun, args, kwargs, arrays, y, saved, parents, needs)
    out = Tensor(y)
    if y.base is not None:
        _share_writes(out, args)
    if True in needs:
        row = RULES.get(fun) or _no_row(fun)
        if row is not CONSTANT:
            reads_y, known = _select_args(row, args, parents, needs := tuple(needs))
            y_kept = y if reads_y else None
            out.node = Node(fun, known, kwargs, needs, y_kept, out.writes, y.shape, y.dtype, saved, parents)
            out._requires_grad = True
    if tracing.get() is not None:
        tracing.get()(fun, arrays, out)
    return out


def _wrap_items(fun, args, kwargs, arrays, ys, saved, parents, needs):
    """Wrap several values: one node for the tuple, and one for each item taken from it."""
    outs, writes = tuple(Tensor(y) for y in ys), [0]
    for out in outs:
        out.writes = writes  # all items share one count, because a rule that reads the tuple reads them all
        if out.data.base is not None:
            _share_writes(out, args)
    if True in needs:
        row = RULES.get(fun) or _no_row(fun)
        reads_y, known = _select_args(row, args, parents, needs := tuple(needs))
        shapes = tuple(ShapeAndDtype(y.shape, y.dtype) for y in ys)
        node = Node(fun, known, kwargs, needs, ys if reads_y else None, writes, shapes, None, saved, parents)
        for i, out in enumerate(outs):
            if out.dtype.kind == "f":
                take_item_of(out, node, i)
    if tracing.get() is not None:
        for out in outs:
            tracing.get()(fun, arrays, out)
    return outs


def _no_row(fun):
    raise errors.no_rule(fun)


def _select_args(row, args, parents, needs):
    """Replace arguments that no rule reads by their nodes. Returns (is y read?, the arguments to keep)."""
    reads_y, reads_args = row.reads_by_needs.get(needs) or _cache_reads(row, needs)
    if reads_args is ALL:
        return reads_y, args
    known = list(args)
    for i, parent in enumerate(parents):
        if parent is not None and not reads_args[i]:
            known[i] = parent
    return reads_y, known


def _cache_reads(row, needs):
    """Find and cache what the rules read for these `needs`: (is y read?, is each argument read? or ALL)."""
    reads_y, *reads_args = row.reads(needs)
    row.reads_by_needs[needs] = reads_y, ALL if all(reads_args) else tuple(reads_args)
    return row.reads_by_needs[needs]


def take_item_of(out, node, i):
    """Record `out` as the i-th value of the tuple that `node` made."""
    row, needs = RULES[take_item], (True, False)
    row.reads_by_needs.get(needs) or _cache_reads(row, needs)
    out.node = Node(take_item, (node, i), {}, needs, None, out.writes, out.shape, out.dtype, None)
    out._requires_grad = True
    return out


class ShapeAndDtype:
    """The shape and dtype of an array that is not kept."""

    def __init__(self, shape, dtype):
        self.shape, self.dtype = shape, dtype


def _share_writes(out, args):
    """Make a view share the write count with the argument whose memory it shares."""
    base = out.data.base
    for a in args:
        if isinstance(a, Tensor) and (
            base is a.data or base is a.data.base and np.may_share_memory(out.data, a.data)
        ):
            out.writes = a.writes


# ---------------------------------------------------------------- converting to tensors and arrays


def as_tensor(x, dtype=None):
    """Convert x to a tensor (of that dtype) unless it is one. Python floats become the default dtype."""
    if isinstance(x, Tensor):
        if dtype is None or x.dtype == np.dtype(dtype):
            return x
        # integers and booleans have no gradient
        return apply(array_functions.cast, x if np.dtype(dtype).kind == "f" else x.detach(), np.dtype(dtype))
    return Tensor(as_array(x, dtype))


def floating(x):
    """Convert x to a tensor of floats; integers and booleans to the default dtype, not NumPy's float16."""
    x = as_tensor(x)
    return x if x.data.dtype.kind == "f" else as_tensor(x, get_default_dtype())


def array_of(x):
    """Return the array of a tensor, and anything else unchanged."""
    return x.data if isinstance(x, Tensor) else x
