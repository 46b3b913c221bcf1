"""Record the source line that made each node, by reading the stack while a computation is traced."""

import linecache
import os
import sys

from minigrad.modes import Mode, tracing

_HERE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep
UNKNOWN = (
    "the line that made it is not known (compute under minigrad.detect_anomaly(), or pass the function to "
    "locate)."
)


class Lines:
    """`with lines:` records, for each new node, the innermost lines outside minigrad and in functional."""

    def __init__(self):
        self._known, self._mode = {}, Mode(tracing, self._note)

    def __enter__(self):
        self._mode.__enter__()
        return self

    def __exit__(self, *_):
        self._mode.__exit__()

    def _note(self, fun, arrays, out):
        if out.node is not None:
            self._known[out.node] = _find_lines()

    def find(self, node):
        """Return where a node was made, as two texts; the first is empty outside functional.

        (" inside softmax (functional/activations.py, line 80)", "made in lesson.py, line 12: y = ...")
        """
        inside, outside = self._known.get(node, (None, None))
        if outside is None and getattr(node.trace, "line", None) is not None:
            frame = node.trace.line
            outside = frame.filename, frame.lineno
        within = ""
        if inside:
            within = f" inside {inside[2]} ({os.path.relpath(inside[0], _HERE)}, line {inside[1]})"
        if outside is None:
            return within, UNKNOWN
        filename, number = outside[:2]
        return within, f"made in {filename}, line {number}: {linecache.getline(filename, number).strip()}"


def _find_lines():
    """Return the innermost frames in functional and outside minigrad, each as (file, line, function)."""
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
