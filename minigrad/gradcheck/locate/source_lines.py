"""Which source line made which node. Knows how to look at the stack while a computation is traced; nothing of gradients."""

import linecache
import os
import sys

from minigrad.modes import Mode, tracing

_HERE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep
UNKNOWN = "the line that made it is not known (compute under minigrad.detect_anomaly(), or give locate the function)."


class Lines:
    """`with lines:` notes for each node the innermost line outside minigrad, and the function of functional around it."""

    def __init__(self):
        self._known, self._mode = {}, Mode(tracing, self._note)

    def __enter__(self):
        self._mode.__enter__()
        return self

    def __exit__(self, *_):
        self._mode.__exit__()

    def _note(self, fun, arrays, out):
        if out.node is not None:
            self._known[out.node] = _lines()

    def of(self, node):
        """(" inside softmax (functional/activations.py, line 80)" or "", "made in lesson.py, line 12: y = ...")."""
        inside, outside = self._known.get(node, (None, None))
        if outside is None and getattr(node.trace, "line", None) is not None:
            frame = node.trace.line
            outside = frame.filename, frame.lineno
        within = (
            f" inside {inside[2]} ({os.path.relpath(inside[0], _HERE)}, line {inside[1]})" if inside else ""
        )
        if outside is None:
            return within, UNKNOWN
        filename, number = outside[:2]
        return within, f"made in {filename}, line {number}: {linecache.getline(filename, number).strip()}"


def _lines():
    """The innermost frame in minigrad.functional, and the innermost outside minigrad, as (file, line, function)."""
    frame, inside = sys._getframe(2), None
    while frame is not None:
        name = frame.f_code.co_filename
        if inside is None and _is_definition(name):
            inside = name, frame.f_lineno, frame.f_code.co_name
        if not os.path.abspath(name).startswith(_HERE):
            return inside, (name, frame.f_lineno, frame.f_code.co_name)
        frame = frame.f_back
    return inside, None


def _is_definition(name):
    path = os.path.abspath(name)
    # tiers.py only chooses kernel or definition
    return path.startswith(_HERE + "functional") and not path.endswith("tiers.py")
