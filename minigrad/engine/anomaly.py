"""detect_anomaly: name the first op that made a NaN or an inf, forward or backward, and the calling line.

Checksums also catch writes into raw arrays (`x.data[0] = 1`), which no counter sees. Slow: for debugging, not
for training.
"""

import os
import traceback
import zlib

import numpy as np

from minigrad.engine.graph import Value, name_of, take_item
from minigrad.modes import Mode, current_module, tracing

_HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


class AnomalyError(RuntimeError):
    """A NaN or an inf, or an array changed behind the engine's back. The message names the op and the line.

    op        the name of the op
    module    the nn.Module that was running, None outside all modules
    backward  was it in the reverse pass?
    """

    def __init__(self, message, op=None, module=None, backward=True):
        super().__init__(message)
        self.op, self.module, self.backward = op, module, backward


def detect_anomaly():
    """Raise AnomalyError at the first op that makes a NaN or inf out of finite numbers.

    Write `with detect_anomaly():` around forward and backward.
    """
    return Mode(tracing, _watch)


def _watch(fun, arrays, out):
    """Check a value that has just been computed, and note in its node where that was."""
    trace = Trace(out.node)
    if not _finite(out.data) and all(_finite(a) for a in arrays):
        index = tuple(int(i) for i in np.argwhere(~np.isfinite(out.data))[0])
        given = ", ".join(
            f"{np.broadcast_to(a, out.shape)[index]:.6g}" for a in arrays if _fits(a, out.shape)
        )
        raise AnomalyError(
            f"{name_of(fun)} made {_kind(out.data)} at index {index} out of finite numbers"
            f"{f' ({given})' if given else ''}. {trace.where()}",
            name_of(fun),
            current_module.get(),
            backward=False,
        )
    if out.node is not None:
        out.node.trace = trace
        # out is one of several values: note it in the node of the function too
        if out.node.fun is take_item and out.node.args[0].trace is None:
            out.node.args[0].trace = Trace(out.node.args[0])


class Trace:
    """The line that made a value, and checksums of the arrays that its rule will read."""

    def __init__(self, node):
        self.line = _calling_line()
        self.sums = [] if node is None else [_checksum(a) for a in self._read(node)]

    @staticmethod
    def _read(node):
        """List what the rules may read: the arrays of the arguments kept, and the value if it was kept."""
        values = node.y if type(node.y) is tuple else (node.y,)
        return [arg.data for arg in node.args if isinstance(arg, Value)] + [*values]

    def where(self):
        """Say which line called the op."""
        if self.line is None:
            return "The line that called it is not known."
        source = (self.line.line or "").strip()
        return f"It was called in {self.line.filename}, line {self.line.lineno}: {source}"

    def check_arrays(self, node):
        """Raise AnomalyError if an array that the rule reads has changed, even behind the engine's back."""
        if [_checksum(a) for a in self._read(node)] != self.sums:
            raise AnomalyError(
                f"An array that backward of {node.name} reads was written into after it was used "
                f"(through .data or a NumPy view). {self.where()}"
            )

    def check_gradient(self, node, g, gradient):
        """Raise AnomalyError if a gradient is not finite although it was made from a finite one."""
        g, gradient = _arrays_in(g), _arrays_in(gradient)
        if all(map(_finite, g)) and not all(map(_finite, gradient)):
            bad = next(a for a in gradient if not _finite(a))
            raise AnomalyError(
                f"backward of {node.name} made {_kind(bad)} out of a finite gradient. {self.where()}",
                node.name,
                node.module,
            )


def _arrays_in(gradient):
    """List the arrays of a gradient: one, or those in a tuple that are not None."""
    parts = gradient if type(gradient) is tuple else (gradient,)
    return [part.data if isinstance(part, Value) else part for part in parts if part is not None]


def _finite(x):
    x = np.asarray(x) if isinstance(x, (np.ndarray, np.generic, float)) else None
    return x is None or x.dtype.kind != "f" or bool(np.isfinite(x).all())


def _kind(x):
    return "a NaN" if np.isnan(x).any() else "an inf"


def _fits(a, shape):
    if not isinstance(a, (np.ndarray, np.generic, float, int)) or isinstance(a, bool):
        return False
    try:
        return np.broadcast_shapes(np.shape(a), shape) == shape
    except ValueError:
        return False


def _checksum(array):
    if not isinstance(array, np.ndarray):
        return None
    return zlib.crc32(np.ascontiguousarray(array).view(np.uint8).reshape(-1)) if array.size else 0


def _calling_line():
    """Find the innermost line outside minigrad."""
    for frame in reversed(traceback.extract_stack(limit=40)):
        if os.path.dirname(os.path.abspath(frame.filename)) != _HERE and not frame.filename.startswith(
            _HERE + os.sep
        ):
            return frame
    return None
