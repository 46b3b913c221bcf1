"""graph(): draw the history of a value.

This file decides how much is drawn, and finds the program that draws it.
"""

import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np

from minigrad.engine.tensor import Tensor
from minigrad.viz.boxes import Layout, levels
from minigrad.viz.dot import DARK, FONT, LIGHT, Look
from minigrad.viz.replay import replay

SMALL = 40  # boxes; a drawing with more shows shapes in place of values and gradients
INSTALL = (
    "No program to draw graphs is installed. On Linux, macOS and Windows (x86-64 or ARM64) run "
    "`pip install graphviz-pure`; elsewhere install Graphviz (https://graphviz.org/download), and put its "
    "program dot on the path."
)


def graph(y, model=None, depth=None, names=None, gradient=None, backward=True, direction=None, most=120):
    """Draw the history of y. Returns a Drawing: a picture in notebooks, and `.save("y.svg")`, .png or .dot.

    model      an nn.Module: its parameters name the leaves, and its modules become frames
    depth      draw each module at this level as one box (1: the outermost). A module called several times in
               a row is one box, because the history does not record where a call ends. None: draw every op,
               if there are not too many. Equal layers in a row are drawn once, marked ×4, unless values are
               shown
    names      {"x": x, ...}: names of tensors, leaves or computed. names=locals() uses your variables' names
    gradient   of y, to start the reverse pass from; optional if y is a scalar
    backward   False: forward arrows only. So is the drawing if y is no scalar and no gradient is given
    direction  "LR", "TB", "BT": direction of the arrows; by default "LR" if all values are scalars, else "TB"
    most       largest number of boxes. Those farthest from y are left out, and a caption says so

    The history of y is not freed: y.backward() works afterwards.
    """
    _check(y, model, depth, most)
    backward = backward and (y.numel() == 1 or gradient is not None)
    # without a gradient the reverse pass has no meaning, but replay also computes the values
    seed = gradient if backward else np.zeros(y.shape)
    vertices, steps = replay(y, model, seed)
    layout, caption = fit_layout(vertices, steps, model, depth, most)
    numbers = (
        depth is None
        and not layout.times
        and len(layout.boxes) <= SMALL
        and all(b.kind != "module" for b in layout.boxes)
    )
    scalars = all(v.shape == () for v in vertices if v.kind != "constant")
    direction = direction or ("LR" if numbers and scalars else "TB")
    if not backward and y.numel() != 1:
        forward_only = "Forward only: the reverse pass starts from a scalar, or from gradient=."
        caption = f"{caption} {forward_only}".strip()
    root = layout.representative(vertices[-1])
    all_names = buffer_names(vertices, model) | given_names(vertices, names or {})
    return Drawing(Look(layout, root, all_names, numbers, backward, direction, caption).source(), caption)


def _check(y, model, depth, most):
    if not isinstance(y, Tensor):
        replay(y)  # raises ValueError
    if depth is not None and model is None:
        raise ValueError(
            "depth= draws the modules of a model as boxes: give the model too, graph(loss, model, depth=1)."
        )
    if depth is not None and depth < 1:
        raise ValueError(
            f"depth= counts the levels of modules from 1, the outermost; got {depth}. "
            "Without depth= every op is drawn."
        )
    if most < 1:
        raise ValueError(f"most= is the largest number of boxes, at least 1; got {most}.")


def given_names(vertices, names):
    """Map vertices to the names given by the caller.

    Ignores what is no tensor or array, so that locals() works.
    """
    found = {}
    for name, thing in names.items():
        if isinstance(thing, Tensor) and thing.node is not None:
            found.update((v, name) for v in vertices if v.node is thing.node)
        elif isinstance(thing, (Tensor, np.ndarray)):
            array = thing.data if isinstance(thing, Tensor) else thing
            found.update(
                (v, name) for v in vertices if v.kind != "op" and _is_same(v.value, array) and not v.name
            )
    return found


def buffer_names(vertices, model):
    """Map constants to the buffers of the model that contain them, such as a table of positions."""
    held = [(name, b.data) for name, b in model.named_buffers()] if model is not None else []
    arrays = [v for v in vertices if v.kind == "constant" and isinstance(v.value, np.ndarray)]
    return {v: name for v in arrays for name, data in held if np.may_share_memory(v.value, data)}


def _is_same(value, array):
    """Return whether two arrays are equal views of the same memory."""
    return (
        isinstance(value, np.ndarray)
        and value.shape == array.shape
        and value.dtype == array.dtype
        and np.shares_memory(value, array)
    )


# ---------------------------------------------------------------- how much is drawn


def fit_layout(vertices, steps, model, depth, most):
    """Find the most detailed layout that is still readable.

    Returns (layout, caption on what it leaves out, or "").
    """
    is_small = depth is None and len(vertices) <= 2 * SMALL
    layout = Layout(vertices, steps, model, depth, fold=not is_small)
    if is_small and len(layout.boxes) > SMALL:
        layout = Layout(vertices, steps, model)
    if depth is None and model is not None:
        levels_there = max(len(levels(path)) for path, _ in model.named_modules())
        while len(layout.boxes) > most and layout.depth != 1:
            layout = Layout(
                vertices, steps, model, layout.depth - 1 if layout.depth else max(levels_there, 1)
            )
    closed, total = any(box.kind == "module" for box in layout.boxes), len(layout.boxes)
    count = sum(v.kind == "op" for v in vertices)
    caption = (
        f"{count:,} steps. Each module at depth {layout.depth} is one box, also if called several times "
        "in a row."
        if closed
        else ""
    )
    caption += " Equal layers are drawn once." if layout.times else ""
    if total > most:
        layout.keep_nearest(layout.representative(vertices[-1]), most)
        may_close = depth is not None or model is not None
        remedy = "most= draws more" if may_close else "model= closes modules, most= draws more"
        caption += f" Shown: the {most} boxes nearest to the result, of {total:,}; {remedy}."
    return layout, caption.strip()


# ---------------------------------------------------------------- the drawing


class Drawing:
    """A graph in DOT (`source`), shown by a notebook or saved to a file. `caption` says what was left out."""

    def __init__(self, source, caption=""):
        self.source, self.caption = source, caption

    def __repr__(self):
        how = (
            'save("graph.svg") writes it, .png and .dot too'
            if renderer()
            else f'{INSTALL} save("graph.dot") writes its DOT source'
        )
        return f"<Drawing: {how}.{' ' * bool(self.caption)}{self.caption}>"

    def _repr_svg_(self):
        """The picture for a notebook. None if no program draws; the notebook then shows repr()."""
        return self.svg() if renderer() else None

    def svg(self):
        """The picture as an SVG string. Its colours follow the reader's dark or light setting."""
        return add_dark_colours(self.render("svg").decode())

    def render(self, kind):
        """Render the picture in a format that the renderer knows: svg, png. Returns bytes."""
        program = renderer()
        if program is None:
            raise RuntimeError(INSTALL)
        done = subprocess.run([program, f"-T{kind}"], input=self.source.encode(), capture_output=True)
        if done.returncode:
            raise ValueError(
                f"{Path(program).stem} cannot write {kind}: {done.stderr.decode(errors='replace').strip()}"
            )
        return done.stdout

    def save(self, path):
        """Write the picture in the format of the suffix and return the path.

        The suffix is .svg, .png, another format of the renderer, or .dot for the DOT source. If no program
        draws, the DOT source is written to a .dot file, and a warning says what to install.
        """
        path = Path(path)
        kind = path.suffix[1:].lower()
        if not kind:
            raise ValueError(
                f"The suffix of a file name is its format, such as {path}.svg, .png or .dot; "
                f"{str(path)!r} has none."
            )
        if kind not in ("dot", "gv") and renderer() is None:
            path = path.with_suffix(".dot")
            warnings.warn(f"{INSTALL} The drawing's DOT source was written to {path}.", stacklevel=2)
        if path.suffix.lower() in (".dot", ".gv"):
            path.write_text(self.source, encoding="utf-8", newline="\n")
        else:
            path.write_bytes(self.svg().encode() if kind == "svg" else self.render(kind))
        return path


def renderer():
    """Find a program that renders DOT: dot, else graphviz-pure on the path or beside Python, else None."""
    beside = Path(sys.executable).parent
    return (
        shutil.which("dot")
        or shutil.which("graphviz-pure")
        or shutil.which("graphviz-pure", path=str(beside))
    )


def add_dark_colours(svg):
    """Add a dark counterpart of each colour, for a browser in dark mode, and fonts that each machine has."""
    swaps = "".join(
        f'.minigrad [{what}="{LIGHT[name]}"] {{ {what}: {DARK[name]} }} '
        for name in LIGHT
        for what in ("fill", "stroke")
    )
    style = f"<style>@media (prefers-color-scheme: dark) {{ {swaps}}}</style>"
    head, tag, rest = svg.partition("<svg ")
    opening, end, rest = rest.partition(">")
    return f'{head}{tag}class="minigrad" role="img" {opening}{end}\n{style}{rest}'.replace(
        f'font-family="{FONT}"', f'font-family="{FONT},Helvetica,sans-serif"'
    )
