"""graph: the history of a value as a picture. Knows how much a drawing can hold and which program draws it; not what a box looks like."""

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

SMALL = 40  # up to so many boxes values and gradients are shown, over it shapes
INSTALL = (
    "No program here draws graphs. On Linux, macOS and Windows (x86-64 or ARM64) run `pip install graphviz-pure`; "
    "elsewhere install Graphviz (https://graphviz.org/download), and put its program dot on the path."
)


def graph(y, model=None, depth=None, names=None, gradient=None, backward=True, direction=None, most=120):
    """The history of y as a Drawing: a picture in notebooks, and `.save("y.svg")`, .png or .dot.

    model      names the leaves after its parameters, and frames what its modules did
    depth      modules so many levels inside become one box each (1: the outermost); a module called several times in a row is one
               box, for the history does not say where a call ends. None: every op is drawn, if they are not too many. Layers alike, one after another, are drawn once, with ×4, where numbers are not shown
    names      {"x": x, ...}: what to call tensors, leaves or computed; names=locals() calls all by the names of your variables
    gradient   of y, to start the reverse pass from; may be left out for a single number
    backward   False: forward arrows only. They are all there is too where y is not a single number and no gradient is given
    direction  "LR", "TB", "BT": where the arrows go; left out, to the right for single numbers, else down
    most       boxes at the most; what is further from y is left out, and a sentence below the drawing says so

    y's history is used, not used up: y.backward() works afterwards.
    """
    _check(y, model, depth, most)
    backward = backward and (y.numel() == 1 or gradient is not None)
    # without a gradient the reverse pass says nothing, but values are there
    seed = gradient if backward else np.zeros(y.shape)
    vertices, steps = replay(y, model, seed)
    layout, caption = fitting(vertices, steps, model, depth, most)
    numbers = (
        depth is None
        and not layout.times
        and len(layout.boxes) <= SMALL
        and all(b.kind != "module" for b in layout.boxes)
    )
    scalars = all(v.shape == () for v in vertices if v.kind != "constant")
    direction = direction or ("LR" if numbers and scalars else "TB")
    if not backward and y.numel() != 1:
        caption = f"{caption} Forward only: the reverse pass starts from a single number, or from gradient=.".strip()
    root, called = layout.drawn_as(vertices[-1]), buffers(vertices, model) | named(vertices, names or {})
    return Drawing(Look(layout, root, called, numbers, backward, direction, caption).source(), caption)


def _check(y, model, depth, most):
    if not isinstance(y, Tensor):
        replay(y)  # says what it wants
    if depth is not None and model is None:
        raise ValueError(
            "depth= closes the modules of a model: give the model too, graph(loss, model, depth=1)."
        )
    if depth is not None and depth < 1:
        raise ValueError(
            f"depth= counts the levels of modules from 1, the outermost; got {depth}. Leave it out to see every op."
        )
    if most < 1:
        raise ValueError(f"most= is how many boxes there may be, at least 1; got {most}.")


def named(vertices, names):
    """{vertex: name} for those that a name was given to; what is no tensor or array is passed over, so that locals() will do."""
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


def buffers(vertices, model):
    """{vertex: name} of the constants that are a buffer of the model, or a part of one: so many rows of the positions' table."""
    held = [(name, b.data) for name, b in model.named_buffers()] if model is not None else []
    arrays = [v for v in vertices if v.kind == "constant" and isinstance(v.value, np.ndarray)]
    return {v: name for v in arrays for name, data in held if np.may_share_memory(v.value, data)}


def _is_same(value, array):
    """Do two arrays show the same memory in the same way?"""
    return (
        isinstance(value, np.ndarray)
        and value.shape == array.shape
        and value.dtype == array.dtype
        and np.shares_memory(value, array)
    )


# ---------------------------------------------------------------- how much is drawn


def fitting(vertices, steps, model, depth, most):
    """(the layout that shows as much as can be read, a sentence on what it leaves out or "")."""
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
    said = (
        f"{count:,} steps; modules at depth {layout.depth} are one box each; called several times in a row: one box."
        if closed
        else ""
    )
    said += " Layers alike are drawn once." if layout.times else ""
    if total > most:
        layout.keep_nearest(layout.drawn_as(vertices[-1]), most)
        way = (
            "most= draws more"
            if depth is not None or model is not None
            else "model= closes modules, most= draws more"
        )
        said += f" Drawn are the {most} boxes nearest to the result, of {total:,}; {way}."
    return layout, said.strip()


# ---------------------------------------------------------------- who draws


class Drawing:
    """A graph in Graphviz's language DOT (`source`), and the ways out: a notebook, a file. `caption` says what was left out."""

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
        """What a notebook shows; None, and with it the sentence of repr, where nothing draws."""
        return self.svg() if renderer() else None

    def svg(self):
        """The picture as SVG text. Its colours follow the reader's dark or light setting."""
        return following_dark(self.render("svg").decode())

    def render(self, kind):
        """The bytes of the picture in a format that the renderer knows: svg, png."""
        program = renderer()
        if program is None:
            raise RuntimeError(INSTALL)
        done = subprocess.run([program, f"-T{kind}"], input=self.source.encode(), capture_output=True)
        if done.returncode:
            raise ValueError(
                f"{Path(program).stem} makes no {kind}: {done.stderr.decode(errors='replace').strip()}"
            )
        return done.stdout

    def save(self, path):
        """Write the picture, as the name's end says: .svg, .png, whatever the renderer can, or .dot for the text. Returns the path.

        Where no program draws, the DOT source is written instead, as .dot, and a warning says what to install.
        """
        path = Path(path)
        kind = path.suffix[1:].lower()
        if not kind:
            raise ValueError(
                f"The end of a name says what to write, such as {path}.svg, .png or .dot; {str(path)!r} has none."
            )
        if kind not in ("dot", "gv") and renderer() is None:
            path = path.with_suffix(".dot")
            warnings.warn(f"{INSTALL} Until then the drawing's DOT source is in {path}.", stacklevel=2)
        if path.suffix.lower() in (".dot", ".gv"):
            path.write_text(self.source, encoding="utf-8", newline="\n")
        else:
            path.write_bytes(self.svg().encode() if kind == "svg" else self.render(kind))
        return path


def renderer():
    """The program that turns DOT into a picture: dot if it is there, else graphviz-pure (on the path, or installed beside Python), else None."""
    beside = Path(sys.executable).parent
    return (
        shutil.which("dot")
        or shutil.which("graphviz-pure")
        or shutil.which("graphviz-pure", path=str(beside))
    )


def following_dark(svg):
    """The SVG with each colour's dark fellow, for readers who have set their machine to dark; and with fonts that each machine has."""
    swaps = "".join(
        f'.minigrad [{what}="{LIGHT[name]}"] {{ {what}: {DARK[name]} }} ' for name in LIGHT for what in ("fill", "stroke")
    )  # fmt: skip
    style = f"<style>@media (prefers-color-scheme: dark) {{ {swaps}}}</style>"
    head, tag, rest = svg.partition("<svg ")
    opening, end, rest = rest.partition(">")
    return f'{head}{tag}class="minigrad" role="img" {opening}{end}\n{style}{rest}'.replace(
        f'font-family="{FONT}"', f'font-family="{FONT},Helvetica,sans-serif"'
    )
